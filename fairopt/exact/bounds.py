"""Proven intervals for optimal values, also where these are irrational (`Allocation.exact_bounds`)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from fairopt.allocation import Allocation, ChangedByHand
from fairopt.blocks.algebra import Objective
from fairopt.blocks.base import parameter
from fairopt.errors import Infeasible, NotCertified, OutOfDomain
from fairopt.exact import bundles, modelling
from fairopt.exact.allocate import of_surpluses, reading_of
from fairopt.exact.cluster import Cluster
from fairopt.exact.concave import Arb, enclose, precision, relative_width
from fairopt.exact.interval import ExactBounds
from fairopt.exact.linear import _NoPoint
from fairopt.exact.programs import Written, objective_of
from fairopt.exact.proof import settled
from fairopt.exact.rationals import as_fraction, as_rational, flint, required
from fairopt.exact.tiers import terms_of, tiers
from fairopt.runtime.clock import begin
from fairopt.runtime.display import label

SMALLEST = 1e-300  # width


def exact_bounds(allocation: Allocation, width: float, time_limit: float | None) -> ExactBounds:
    """`Allocation.exact_bounds`."""
    width, policy = parameter(width, "width", low=SMALLEST, high=1.0), allocation.policy
    if isinstance(policy, ChangedByHand) or allocation.certificate.whole:
        what = "a problem changed by hand" if isinstance(policy, ChangedByHand) else "whole tasks"
        raise OutOfDomain(f"exact bounds are for the divisible optimum of a policy, not for {what}")
    if getattr(policy, "objective", None) is None:
        raise OutOfDomain(f"{label(policy)} is a mechanism without an objective, whose value could be bounded")
    clock = begin(time_limit, needs_cvxpy=False)
    return clock.run(lambda: _enclosed(allocation, width))


def _enclosed(allocation: Allocation, width: float) -> ExactBounds:
    """The bounds of a policy."""
    policy, instance = allocation.policy, allocation.instance
    objective, of = objective_of(policy)
    bits, reading = precision(width), reading_of(policy, instance)
    if allocation.exact_tasks is not None and not bundles.decides_bundles(policy):
        value = _at_exact_tasks(allocation)
        rows = tuple(map(tuple, allocation.exact_tasks))
        return ExactBounds(value, value, rows, 0.0, of, reading)
    required()
    try:
        cluster = Cluster(instance, Fraction(1, 2**bits))
        with flint.ctx.workprec(bits):
            if bundles.decides_bundles(policy):
                ends, tasks, reached = _of_bundles(cluster, policy)
            else:
                ends, tasks, reached = _of_tasks(cluster, objective, allocation, width)
            lower, upper = _fraction(ends[0].lower()), _fraction(ends[1].upper())
    except OutOfDomain as error:
        raise OutOfDomain(f"{label(policy)} has no exact bounds: {error}") from error
    except _NoPoint as error:
        raise Infeasible(f"exact bounds of {label(policy)} on {instance!r}: {_NoPoint.why}") from error
    if not reached <= width:
        raise NotCertified(f"exact bounds: {bits} bits reached a width of {reached:.2g}; give a width above {width:g}")
    return ExactBounds(lower, upper, tasks, reached, of, reading)


def _at_exact_tasks(allocation: Allocation) -> Fraction:
    """The value of an exact answer."""
    assert allocation.exact_tasks is not None and allocation.exact_proof is not None
    policy, cluster = allocation.policy, Cluster(allocation.instance)
    modelling.floors(cluster, of_surpluses(policy))
    tasks = [list(map(as_rational, row)) for row in allocation.exact_tasks]
    tier = next(tiers(cluster, policy, settled(cluster, allocation.exact_proof["proof"]), lambda: tasks))
    return as_fraction(tier.value(tasks))


Found = tuple[Sequence[Arb], tuple[tuple[Fraction, ...], ...], float]


def _of_tasks(cluster: Cluster, objective: Objective, allocation: Allocation, width: float) -> Found:
    """The ends for an objective of tasks, in natural units."""
    made = Written(cluster, objective, allocation.policy.constraints)
    program = made.program
    start = [float(allocation.tasks_by_server[j, s]) for j, s in made.columns]
    start += [float(top) / 2 for top in program.top[len(start) :]]
    found = enclose(program, start, width, absolute=made.sign != 0)
    ends: list[Arb] = [flint.arb(0)] * 2 if made.of_nobody else [found.lower, found.upper]
    if made.sign:  # of the logarithm of a measure
        ends = [made.sign * (made.sign * end).exp() for end in ends]
    n, servers = allocation.instance.eligible.shape
    tasks = [[Fraction(0)] * servers for _ in range(n)]
    for (j, s), x in zip(made.columns, found.point, strict=False):
        tasks[j][s] = Fraction(int(x.p), int(x.q))
    return ends, tuple(map(tuple, tasks)), found.width


def _of_bundles(cluster: Cluster, policy: Any) -> Found:
    """The ends for weighted logarithms of bundles, at the optimal bundles."""
    value, gain = flint.arb(0), flint.fmpq(0)
    best = bundles.optimal_bundles(cluster, policy)
    factor = sum(factor for factor, _ in terms_of(policy.objective))
    for group in bundles.groups_of(cluster, policy):
        for j, base in group.base.items():
            held = best[j][group.server][group.resource] / group.copies
            weight = base * group.copies * factor
            value, gain = value + weight * flint.arb(held).log(), gain + weight
    rows = tuple(tuple(map(as_fraction, row)) for row in bundles.tasks_in(cluster, best))
    return [value, value], rows, relative_width(value.lower(), value.upper(), flint.arb(gain))


def _fraction(x: Any) -> Fraction:
    """A ball of one number as a fraction."""
    mantissa, exponent = (int(v) for v in x.mid().man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent
