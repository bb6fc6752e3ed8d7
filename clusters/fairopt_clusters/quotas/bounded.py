"""What limits of Kubernetes and Slurm bound, which refuse what is beyond them: amounts with all that is left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairopt.runtime import Bool, Float

BOUNDING = ("kubernetes", "slurm")  # formats whose limits stop all tasks of a team that are beyond them


@dataclass(frozen=True, eq=False)
class Bounds:
    """What each team may use, and of which resources that is written.

    ``amounts`` of shape (n_teams + 1, n_resources) are before what is left over is spread: the last row is of users
    that get no quota. ``written``, (n_teams, n_resources), marks the resources with a quota.
    """

    amounts: Float
    written: Bool


def bounds_of(
    used: Float,
    others: Float,
    fair: Float,
    demands: Sequence[Float],
    capacity: Float,
    plain: Bool,
    required: Bool,
) -> Bounds:
    """The amounts that whole tasks of teams use, and which of them bound a team.

    A limit on cpu or memory (``required``) refuses tasks that do not request it, so that it is written where all tasks
    of a team request it. One on other resources is written where some task requests it. A team none of whose tasks
    fits whole has its fair part of cpu, memory and storage (``plain``), as far as others leave it, for other tasks.

    ``used`` and ``fair``, (n_teams, n_resources), are units of whole tasks and of the divisible answer; ``others`` are
    those of users without a quota. ``demands`` are by team the most that a task of each member takes.
    """
    amounts, in_vain = used.copy(), ~(used > 0).any(axis=1)
    if in_vain.any():
        wanted = np.where(plain, fair[in_vain], 0.0)
        left, needed = np.maximum(capacity - used.sum(axis=0) - others, 0.0), wanted.sum(axis=0)
        part = np.divide(left, needed, out=np.ones_like(left), where=needed > left)
        amounts[in_vain] = wanted * part
    all_of_it = np.array([(of_team > 0).all(axis=0) for of_team in demands]).reshape(used.shape)
    some = np.array([(of_team > 0).any(axis=0) for of_team in demands]).reshape(used.shape)
    return Bounds(np.vstack([amounts, others]), np.where(required, all_of_it, some))


def spread(amounts: Float, capacity: Float | np.float64) -> Float:
    """Amounts by team of resources that teams use, raised in proportion until they add up to the capacity."""
    total = amounts.sum(axis=0)
    factor = np.divide(capacity, total, out=np.ones_like(total), where=(total > 0) & (total < capacity))
    made: Float = amounts * factor
    return made
