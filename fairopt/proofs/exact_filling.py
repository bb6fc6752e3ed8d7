"""Water-filling of small pools in fractions, by `rational`, where the rounding of floats may decide levels.

Where users hold a part p of the resource that fixes them, errors of lower levels grow by 1 / p. Over several resources
these factors multiply: with 1e-6 of two in a row, floats moved the last level by 1e-5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from fairopt.formulation.program import Float, Program
from fairopt.proofs import rational
from fairopt.proofs.pool import Bottlenecks
from fairopt.tolerances import EPS, GAP_TOLERANCE

Result = TypeVar("Result")

MOST_USERS = 2_000  # some 0.1 seconds


def rounding_decides(program: Program, found: Bottlenecks) -> bool:
    """Whether the rounding of one load may move a level by more than the tolerance, on a pool of few users."""
    if program.instance.n_users > MOST_USERS or program.term.share is None:
        return False
    with np.errstate(all="ignore"):
        growth = np.where(np.isfinite(found.least) & (found.rising > 0), program.usable / found.rising, 1.0)
        return bool(EPS * np.maximum(growth, 1.0).prod() > GAP_TOLERANCE)


def exact_gap(program: Program, tasks: Float) -> float | None:
    """The gap of tasks on one pool in fractions; None of blocks that `rational` does not know."""
    return _in_fractions(
        program,
        tasks,
        lambda cluster, objective: rational.at_least(rational.gap_by_bottlenecks(cluster, objective, [], {})),
    )


def exact_tasks(program: Program, tasks: Float) -> Float | None:
    """The tasks of leximin on one pool rounded once, given some in whose units levels are computed; None as above."""

    def fill(cluster: rational.Cluster, objective: rational.Block) -> Float:
        below, above = cluster.coefficients(objective.share)
        water = rational.WaterFilling(cluster, below, above, rational.BITS)
        water.fill()
        return np.array([float(water.lower[j] / water.sizes[j][0]) for j in cluster.active])

    return _in_fractions(program, tasks, fill)


def _in_fractions(
    program: Program, tasks: Float, compute: Callable[[rational.Cluster, rational.Block], Result]
) -> Result | None:
    instance = program.instance
    if instance.n_users > MOST_USERS:
        return None
    try:
        cluster = rational.Cluster({"instance": instance.to_dict(), "tasks_by_server": tasks[:, None].tolist()})
        cluster.low = [rational.Fraction(v) for v in program.low.tolist()]
        cluster.high = [None if v == np.inf else rational.Fraction(v) for v in program.high.tolist()]
        cluster.usable = [rational.Fraction(v) for v in program.usable.tolist()]
        _, objective = rational.as_max_min(rational.block(repr(program.objective)))
        return compute(cluster, objective)
    except (rational.CannotCheck, rational.Fault, ArithmeticError):
        return None
