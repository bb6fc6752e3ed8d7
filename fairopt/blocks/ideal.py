"""The share of what a user could have at most when every other user is at its base."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.blocks.base import PerUser, per_user_parameter
from fairopt.blocks.model import Pairs
from fairopt.blocks.rows import Largest, Rows, largest
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.in_fractions import Fractions
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check

__all__ = ["IdealGain"]

NEAR = 1e-9  # relative: an ideal this near to the base is the base


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
        if instance.derived.chosen_from is not None:  # other users' bases count too
            parent, rows = instance.derived.chosen_from
            return self.per_task(parent)[rows]
        base = self._base(instance)
        if not base.any():
            gain = instance.tasks_alone.sum(axis=1)
        elif instance.n_servers == 1:
            demands = instance.per_server_demands[:, 0]
            left = np.maximum(instance.total_capacities - base @ demands, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.fmin.reduce(left / demands, axis=1)  # 0 / 0: no demand of a resource that is full
        else:
            pairs = Pairs(instance)
            best = _ideals(pairs, base)
            ideal = base if best is None else np.array([pairs.sum(one.at)[j] for j, one in enumerate(best)])
            gain = np.where(ideal - base > NEAR * ideal, ideal - base, 0.0)
        gain = np.minimum(gain, instance.task_limits - base)
        return 1.0 / np.where(gain > 0, gain, 1.0)  # those who cannot rise leave objectives of surplus

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Fractions:
        if instance.derived.chosen_from is not None:
            parent, rows = instance.derived.chosen_from
            return self.exact_per_task(instance.in_fractions.alike(parent))[rows]
        exact, limits = instance.in_fractions, instance.in_fractions.task_limits
        given = exact.guarantees if self.base is None else exact.per_user(self.base, "base of IdealGain", 0)
        base = [min(pair) for pair in zip(given, limits, strict=True)]
        ideals = exact.tasks_alone().sum(axis=1).tolist()
        if any(base):
            if instance.n_servers > 1:
                raise OutOfDomain(
                    f"ideals above a base are found by linear programs in floats on several servers, so that {self} "
                    "has no exact coefficients; use instance.pooled(), or bases of 0"
                )
            demands = exact.per_server_demands[:, 0].tolist()
            left = [
                max(c - sum(b * row[i] for b, row in zip(base, demands, strict=True)), Fraction(0))
                for i, c in enumerate(exact.total_capacities)
            ]
            more = (min(c / d for c, d in zip(left, row, strict=True) if d) for row in demands)
            ideals = [b + most for b, most in zip(base, more, strict=True)]
        ends = (min(ideal, limit) - b for ideal, limit, b in zip(ideals, limits, base, strict=True))
        return np.array([1 / gain if gain > 0 else Fraction(1) for gain in ends], dtype=object)

    def _base(self, instance: Instance) -> Float:
        return Surplus(base=self.base).tasks(instance)

    def proofs(self, instance: Instance) -> list[dict[str, Any]]:
        """What proves each user's ideal on several servers: prices of their resources, and tasks by user and server.

        None are needed where ideals have a closed form, or bases do not fit.
        """
        base, pairs = self._base(instance), Pairs(instance)
        best = _ideals(pairs, base) if base.any() and instance.n_servers > 1 else None
        room = instance.capacities * instance.counts[:, None]
        out = []
        for one in best or ():
            tasks = np.maximum(one.at, 0.0).tolist()
            prices = np.divide(one.multipliers[0].reshape(room.shape), room, out=np.zeros(room.shape), where=room > 0)
            at = zip(pairs.user.tolist(), pairs.server.tolist(), tasks, strict=True)
            out.append({"prices": prices.tolist(), "tasks": [[j, s, x] for j, s, x in at if x]})
        return out


def _ideals(pairs: Pairs, base: Float) -> list[Largest] | None:
    """Where each user runs most within capacities while the others are at their bases; None if these do not fit."""
    scale = np.maximum(pairs.instance.tasks_alone.max(axis=1), base)[pairs.user]
    rows, optima = [Rows(pairs.loads, 1.0), Rows(-pairs.totals, -base)], []
    for j in range(len(base)):
        check()
        best = largest(np.where(pairs.user == j, 1.0, 0.0), rows, scale)
        if best is None:  # which the program that keeps the bases says
            return None
        optima.append(best)
    return optima
