"""The share of what a user could have at most when every other user is at its base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import PerUser, per_user_parameter
from fairopt.blocks.largest import largest
from fairopt.blocks.model import Pairs
from fairopt.blocks.rows import Rows
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus
from fairopt.instance import Instance
from fairopt.runtime.clock import check

__all__ = ["IdealGain"]

Float = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class IdealGain(Share):
    """Tasks relative to the most that the user could run above its base when every other user is at its own.

    ``c_j = 1 / (ideal_j - b_j)``: the ideal point of Kalai and Smorodinsky (1975). On several servers each ideal is the
    optimum of a linear program over all placements, unless all bases are 0.

    Parameters
    ----------
    base : scalar, array-like of shape (n_users,) or dict by user, optional
        The base in tasks. Default: the guarantees of the instance.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.blocks.ideal import IdealGain
    >>> IdealGain(base=[1, 2]).per_task(fo.Instance([[1], [2]], [10], task_limits=[3, None]))
    array([0.5, 0.4])
    """

    base: PerUser | None = None

    def __post_init__(self) -> None:
        if self.base is not None:
            object.__setattr__(self, "base", per_user_parameter(self.base, "base of IdealGain"))

    def per_task(self, instance: Instance) -> Float:
        if instance._chosen_from is not None:  # other users' bases count too
            parent, rows = instance._chosen_from
            return self.per_task(parent)[rows]
        base = Surplus(base=self.base).tasks(instance)
        if not base.any():
            gain = instance.tasks_alone.sum(axis=1)
        elif instance.n_servers == 1:
            demands = instance.per_server_demands[:, 0]
            left = np.maximum(instance.total_capacities - base @ demands, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.fmin.reduce(left / demands, axis=1)  # 0 / 0: no demand of a resource that is full
        else:
            gain = _ideal(instance, base) - base
        gain = np.minimum(gain, instance.task_limits - base)
        return 1.0 / np.where(gain > 0, gain, 1.0)  # those who cannot rise leave objectives of surplus


def _ideal(instance: Instance, base: Float) -> Float:
    """The most tasks of each user within capacities when the others are at their bases, shape (n_users,)."""
    pairs, found = Pairs(instance), np.empty(instance.n_users)
    scale = np.maximum(instance.tasks_alone.max(axis=1), base)[pairs.user]
    rows = [Rows(pairs.loads, 1.0), Rows(-pairs.totals, -base)]
    for j in range(len(found)):
        check()
        own = np.where(pairs.user == j, 1.0, 0.0)
        best = largest(own, rows, scale)
        if best is None:  # the bases do not fit, which the program that keeps them says
            return base
        found[j] = own @ best.at
    return found
