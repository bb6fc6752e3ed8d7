"""What objectives compare: numbers of users or teams, each a sum of shares less a base."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairopt.instance.teams import sums_by
from fairopt.runtime.arrays import Bool, Float, Indices


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers ``z_t = sum_j c_j x_j - base_t`` of an instance, over the users j of number t.

    ``per_task`` has shape (n_users,) or (n_users, n_servers). ``of_user`` is the number of each user, None if number j
    is that of user j; ``weights`` and ``base``, None for zeros, have shape (n_numbers,).
    """

    per_task: Float
    weights: Float
    of_user: Indices | None = None
    base: Float | None = None

    def __len__(self) -> int:
        return len(self.weights)

    def sums(self, by_user: Float) -> Float:
        """Sums by number of values by user."""
        return by_user if self.of_user is None else sums_by(self.of_user, by_user, len(self))

    def above(self, shares: Float) -> Float:
        """The numbers at shares by user."""
        total = self.sums(shares)
        return total if self.base is None else total - self.base

    def among(self, some: Bool) -> Numbers:
        """Some of the numbers; users of the others add nothing to any."""
        of_user = np.arange(len(self)) if self.of_user is None else self.of_user
        kept, place = some[of_user], np.maximum(np.cumsum(some) - 1, 0)
        c = np.where(kept if self.per_task.ndim == 1 else kept[:, None], self.per_task, 0.0)
        base = None if self.base is None else self.base[some]
        return Numbers(c, self.weights[some], place[of_user], base)

    def at(self, point: Any) -> Float:
        """The numbers at a `Point`."""
        return self.above(shares_at(self.per_task, point))

    def of_pairs(self, user: Indices) -> Indices:
        """The number of each pair, given its user."""
        return user if self.of_user is None else self.of_user[user]

    @cached_property
    def weights_of_users(self) -> Float:
        """The weight of each number, divided equally among its users, shape (n_users,)."""
        if self.of_user is None:
            return self.weights
        return (self.weights / np.maximum(np.bincount(self.of_user, minlength=len(self)), 1))[self.of_user]


def shares_at(c: Float, point: Any) -> Float:
    """Shares of shape (n_users,) at a point, with coefficients by user, or by user and server."""
    if c.ndim == 1:
        return c * point.tasks
    return (np.where(point.instance.eligible, c, 0.0) * point.tasks_by_server).sum(axis=1)
