"""Users of whom not one whole task fits: in whole tasks they leave objectives, as users with a task limit of 0 do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.objectives import MaxMin, Objective
from fairopt.errors import Infeasible
from fairopt.formulation.program import Indices, Program
from fairopt.instance import Instance
from fairopt.tolerances import VIOLATION_TOLERANCE

# relative: capacities, bounds on whole tasks and levels of users that differ by less are the same. Sums of tasks that
# servers hold to it are within the tolerance of certificates in spite of rounding
SAME = 0.99 * VIOLATION_TOLERANCE


def number_of(tier: Objective) -> Objective:
    """The first level of a leximin; any other objective itself."""
    return MaxMin(tier.term.share) if tier.term.is_order else tier


def left_out(program: Program) -> Indices:
    """Indices, in the instance given, of users whose one task exceeds every server, or their bounds, by itself.

    None under constraints other than bounds and reserves, which may look at all users.
    """
    if program.rest or program.empty:
        return np.zeros(0, dtype=np.intp)
    alone = program.instance._tasks_alone_within(program.usable) / program.instance.counts
    most = np.minimum(alone.max(axis=1), program.high)
    return program.active[most * (1 + SAME) < 1]


def whole_instance(instance: Instance, objective: Objective, constraints: Sequence[Constraint]) -> Instance:
    """The instance with task limits of 0 for the users left out; `Infeasible` if a constraint asks for their tasks."""
    program = Program(instance, objective, constraints)
    users = left_out(program)
    if not len(users):
        return instance
    asked = users[program.low[np.searchsorted(program.active, users)] > 0]
    if len(asked):
        raise Infeasible(
            f"the constraints ask for tasks of user {instance.users[asked[0]]!r}, of whom not one whole task fits on a "
            "server and within its limit; allow divisible tasks, or leave the user out of the constraints"
        )
    limits = np.array(instance.task_limits)
    limits[users] = 0.0
    return instance.replace(task_limits=limits)
