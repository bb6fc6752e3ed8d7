"""Users for whom no whole task fits: in whole tasks they are inactive, like users with a task limit of 0."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.objectives import MaxMin, Objective
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.tolerances import VIOLATION_TOLERANCE, WHOLE_ROUNDING
from fairopt.solve.form.program import Program

# Relative difference below which capacities, bounds on whole tasks and levels are equal; with rounding, still within
# the tolerance of certificates.
SAME = 0.99 * VIOLATION_TOLERANCE


def refuse_whole(mechanism: str, integral: object) -> None:
    """`OutOfDomain` if whole tasks are requested of a mechanism that has none."""
    if integral is not False:
        raise OutOfDomain(
            f"{mechanism} divides tasks, and answers in whole tasks could not be proved; leave integral out, and round "
            "the answer: the command fairopt quotas of fairopt-clusters gives what whole tasks use"
        )


def slack(instance: Instance, capacities: Float) -> Float:
    """By how much sums of floats may exceed capacities (n_rows, n_resources) and mean what fits.

    That is a part of `SAME`, but less than half of the least difference of two loads: in whole tasks these are
    multiples of a common unit of the decimals that the numbers print as. A task of 100.5 beside 1e12 of 1e12 does
    not fit.
    """
    grid = [
        _common_unit(np.append(instance.demands[..., i], instance.capacities[:, i]))
        for i in range(len(instance.resources))
    ]
    return np.maximum(np.minimum(SAME * capacities, np.array(grid) / 2), WHOLE_ROUNDING * capacities)


def _common_unit(numbers: Float) -> float:
    """The largest power of ten of which numbers are multiples, as they print."""
    exponents = [Decimal(repr(x)).normalize().as_tuple().exponent for x in np.unique(numbers).tolist() if x]
    return float(10.0 ** min((e for e in exponents if isinstance(e, int)), default=0))


def overfull(instance: Instance, placement: Float) -> bool:
    """Whether whole tasks exceed a capacity by more than rounding; each row of the instance is one server."""
    needs, at_least = instance.per_server_demands, 1 + WHOLE_ROUNDING
    for i in range(instance.n_resources):
        load, room = np.einsum("js,js->s", placement, needs[:, :, i]), instance.capacities[:, i]
        for s in np.flatnonzero(load > room * (1 + WHOLE_ROUNDING / 2)).tolist():
            some = np.flatnonzero(placement[:, s])
            exact = sum(Fraction(placement[j, s]) * Fraction(needs[j, s, i]) for j in some.tolist())
            if exact > Fraction(room[s]) * Fraction(at_least):
                return True
    return False


def number_of(tier: Objective) -> Objective:
    """The first level of a leximin; any other objective itself."""
    return MaxMin(tier.term.share) if tier.term.is_order else tier


def left_out(program: Program) -> Indices:
    """Indices, in the original instance, of users whose single task exceeds every server or their upper bound.

    None under constraints other than bounds and reserves, which may refer to all users.
    """
    if program.rest or program.empty:
        return np.zeros(0, dtype=np.intp)
    alone = program.instance.derived.tasks_alone_within(program.usable) / program.instance.counts
    most = np.minimum(alone.max(axis=1), program.high)
    return program.active[most * (1 + SAME) < 1]


def whole_instance(instance: Instance, objective: Objective, constraints: Sequence[Constraint]) -> Instance:
    """The instance with task limits of 0 for these users; `Infeasible` if a constraint requires their tasks."""
    program = Program(instance, objective, constraints)
    users = left_out(program)
    if not len(users):
        return instance
    required = users[program.low[np.searchsorted(program.active, users)] > 0]
    if len(required):
        raise Infeasible(
            f"the constraints require tasks of user {instance.users[required[0]]!r}, but no whole task of it fits on a "
            "server and within its limit; allow divisible tasks, or leave the user out of the constraints"
        )
    limits = np.array(instance.task_limits)
    limits[users] = 0.0
    return instance.replace(task_limits=limits)
