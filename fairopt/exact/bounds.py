"""Proven intervals for optimal values, also where these are irrational (`Allocation.exact_bounds`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from fairopt.allocation import Allocation, ChangedByHand
from fairopt.blocks.base import parameter
from fairopt.display import label
from fairopt.errors import Infeasible, NotCertified, OutOfDomain
from fairopt.exact.concave import Arb, enclose, precision, relative_width
from fairopt.exact.flint import flint
from fairopt.exact.linear import _NoPoint
from fairopt.exact.modelling import as_rational
from fairopt.exact.programs import Written, conditions_of, objective_of
from fairopt.exact.reading import Exactly, exactly
from fairopt.proofs import rational
from fairopt.runtime.clock import begin

__all__ = ["ExactBounds", "exact_bounds"]

SMALLEST = 1e-300  # width
LONGEST = 60  # characters of a fraction that is printed


@dataclass(frozen=True, repr=False)
class ExactBounds:
    """An interval that contains the optimal value, and tasks that reach its lower end.

    Attributes
    ----------
    lower, upper : Fraction
        The largest value of the objective that feasible tasks have lies between them.
    tasks : tuple of tuple of Fraction
        Feasible tasks by user and server with a value of at least ``lower``; if the policy decides bundles, those that
        fit in the optimal bundles.
    width : float
        The length of the interval relative to the value, as in `Allocation.exact_bounds`.
    of : str
        What is enclosed: ``"the objective"``, or the first level or tier of it.
    reading : str
        How the numbers of the instance and the policy were read.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.FDS(2).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]))
    >>> found = a.exact_bounds(width=1e-30)
    >>> found.width <= 1e-30, float(found.lower)
    (True, -2.914213562373095)
    """

    lower: Fraction
    upper: Fraction
    tasks: tuple[tuple[Fraction, ...], ...]
    width: float
    of: str
    reading: str

    def __str__(self) -> str:
        """Both ends with as many digits as tell them apart, rounded outwards; the number itself if they are equal."""
        if self.lower == self.upper:
            text = rational.written(self.lower)
            return text if len(text) <= LONGEST else f"{float(self.lower)!r} (a fraction of {len(text) - 1:,} digits)"
        size, length = max(abs(self.lower), abs(self.upper)), self.upper - self.lower
        digits = max(math.ceil(_log10(size) - _log10(length)), 1) + 1
        ends = ((self.lower, ROUND_FLOOR), (self.upper, ROUND_CEILING))
        return " to ".join(str(_decimal(end, digits, rounding)) for end, rounding in ends)

    def __repr__(self) -> str:
        return f"ExactBounds({self}, of {self.of})"


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
    read = exactly(policy, instance)
    objective, of = objective_of(read.policy)
    bits = precision(width)
    if allocation.exact_tasks is not None and not rational.decides_bundles(read.policy):
        value = _at_exact_tasks(read, allocation)
        rows = tuple(map(tuple, allocation.exact_tasks))
        return ExactBounds(value, value, rows, 0.0, of, read.reading)
    try:
        with flint.ctx.workprec(bits):
            if any(term.name == "WeightedLog" for _, term in objective.terms):
                ends, tasks, reached = _of_bundles(read, objective)
            else:
                ends, tasks, reached = _of_tasks(read, objective, allocation, width)
            lower, upper = _fraction(ends[0].lower()), _fraction(ends[1].upper())
    except rational.CannotCheck as error:
        raise OutOfDomain(f"{label(policy)} has no exact bounds: {error}") from error
    except rational.Fault as error:
        raise OutOfDomain(f"{instance!r} has no exact bounds: {error}") from error
    except _NoPoint as error:
        raise Infeasible(f"exact bounds of {label(policy)} on {instance!r}: {_NoPoint.why}") from error
    if not reached <= width:
        raise NotCertified(f"exact bounds: {bits} bits reached a width of {reached:.2g}; give a width above {width:g}")
    return ExactBounds(lower, upper, tasks, reached, of, read.reading)


def _at_exact_tasks(read: Exactly, allocation: Allocation) -> Fraction:
    """The value of an exact answer."""
    cluster, proof = read.cluster, allocation.exact_proof or {}
    cluster.floor_proofs = rational.exact_floors(proof.get("floors") or {})
    assert allocation.exact_tasks is not None
    cluster.tasks = [[rational.Fraction(x) for x in row] for row in allocation.exact_tasks]

    def settle(k: int, share: rational.Block, tier: rational.ExactTier) -> set[str]:
        levels = (proof["proof"][k].get("at_base") or {}).get(share.text) or ()
        return {t for entry in levels for t in entry["of_numbers"]}

    value = next(rational.exact_tiers(cluster, read.policy, settle)).value(cluster.tasks)
    return Fraction(*value.as_integer_ratio())


Found = tuple[Sequence[Arb], tuple[tuple[Fraction, ...], ...], float]


def _of_tasks(read: Exactly, objective: rational.Block, allocation: Allocation, width: float) -> Found:
    """The ends for an objective of tasks, in natural units."""
    written = Written(read, objective, conditions_of(read.policy))
    program = written.program
    start = [float(allocation.tasks_by_server[j, s]) for j, s in written.columns]
    start += [float(top) / 2 for top in program.top[len(start) :]]
    found = enclose(program, start, width, absolute=written.sign != 0)
    ends: list[Arb] = [flint.arb(0)] * 2 if written.of_nobody else [found.lower, found.upper]
    if written.sign:  # of the logarithm of a measure
        ends = [written.sign * (written.sign * end).exp() for end in ends]
    n, servers = allocation.instance.eligible.shape
    tasks = [[Fraction(0)] * servers for _ in range(n)]
    for (j, s), x in zip(written.columns, found.point, strict=False):
        tasks[j][s] = Fraction(int(x.p), int(x.q))
    return ends, tuple(map(tuple, tasks)), found.width


def _of_bundles(read: Exactly, objective: rational.Block) -> Found:
    """The ends for weighted logarithms of bundles, at the optimal bundles."""
    cluster, value, gain = read.cluster, flint.arb(0), flint.fmpq(0)
    conditions = list(conditions_of(read.policy))
    bundles = rational.optimal_bundles(cluster, objective, conditions)
    for group in rational.groups_of_bundles(cluster, objective, conditions, exactly=True):
        for j, base in group.base.items():
            held = as_rational(bundles[j][group.server][group.resource] / group.copies)
            weight = as_rational(base) * group.copies * sum(as_rational(factor) for factor, _ in objective.terms)
            value, gain = value + weight * flint.arb(held).log(), gain + weight
    tasks = rational.tasks_in(cluster, bundles)
    rows = tuple(tuple(Fraction(*x.as_integer_ratio()) for x in row) for row in tasks)
    return [value, value], rows, relative_width(value.lower(), value.upper(), flint.arb(gain))


def _fraction(x: Any) -> Fraction:
    """A ball of one number as a fraction."""
    mantissa, exponent = (int(v) for v in x.mid().man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent


def _log10(x: Fraction) -> float:
    """The logarithm of a positive fraction, which may be beyond floats."""
    return math.log10(x.numerator) - math.log10(x.denominator)


def _decimal(x: Fraction, digits: int, rounding: str) -> Decimal:
    """A fraction with so many significant digits."""
    return Context(prec=digits, rounding=rounding).divide(Decimal(x.numerator), Decimal(x.denominator))
