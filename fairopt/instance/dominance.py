"""The dominant resource of each user on each server, of which one task uses the largest fraction.

The dominant users of a resource and the others are the groups of Hamzeh et al. (2019, MLF-DRS; 2021, H-FFMRA).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.tolerances import ROUNDING

BLOCK = 65_536  # numbers evaluated together in cache (16,384 and 262,144 took a quarter longer)


@dataclass(frozen=True, eq=False)
class Dominance:
    """For each resource of each server two groups: its dominant users, and the other eligible users.

    ``dominant``, of shape (n_users, n_servers, n_resources), is true for one resource of each user on each eligible
    server (ties, up to rounding: the first in order). ``requests`` and ``others_requests``, of shape (n_servers,
    n_resources), are the demands of one task of each dominant user, and of each other user, on one server.
    """

    dominant: Bool
    requests: Float
    others_requests: Float

    @cached_property
    def first(self) -> Float:
        """1 for dominant users and 0 for the others; products are four times as fast as `np.where`."""
        return self.dominant.astype(float)

    @cached_property
    def second(self) -> Float:
        """1 for the others."""
        return 1.0 - self.first

    def short(self, capacities: Float) -> Bool:
        """Whether the demands of one task of each user exceed a server's capacity, shape (n_servers, n_resources)."""
        return np.asarray(self.requests + self.others_requests > capacities * (1.0 + ROUNDING))

    def on(self, rows: slice) -> Dominance:
        """The groups on some servers."""
        return Dominance(self.dominant[:, rows], self.requests[rows], self.others_requests[rows])


def dominance_of(demands: Float, capacities: Float, eligible: Bool | None = None) -> Dominance:
    """The dominance of demands by server; without ``eligible`` all users are eligible everywhere."""
    n, servers, m = demands.shape
    dominant = np.empty(demands.shape, dtype=bool)
    requests, others = np.empty((servers, m)), np.empty((servers, m))
    room = np.where(capacities > 0, capacities, np.inf)
    for part in server_blocks(n, servers, m):
        d = np.ascontiguousarray(demands[:, part]) if eligible is None else demands[:, part] * eligible[:, part, None]
        mine = _largest(d / room[part])
        if eligible is not None:
            mine &= eligible[:, part, None]
        dominant[:, part] = mine
        requests[part], others[part] = sums_by_group(d, mine.astype(float))
    return Dominance(dominant, requests, others)


def server_blocks(n_users: int, n_servers: int, n_resources: int) -> list[slice]:
    """Slices of servers that fit into the cache."""
    size = max(1, BLOCK // max(1, n_users * n_resources))
    return [slice(s, min(s + size, n_servers)) for s in range(0, n_servers, size)]


def sums_by_group(values: Float, first: Float, second: Float | None = None) -> tuple[Float, Float]:
    """Sums over users of the first group (``first`` is 1) and over the others: by subtraction digits would be lost."""
    second = 1.0 - first if second is None else second
    return np.einsum("j...,j...->...", values, first), np.einsum("j...,j...->...", values, second)


def _largest(ratios: Float) -> Bool:
    """Where a ratio is the largest of its user on its server; the first one for ties."""
    m = ratios.shape[2]
    if m != 2:
        first = (ratios >= ratios.max(axis=2, keepdims=True) * (1.0 - ROUNDING)).argmax(axis=2)
        return np.asarray(first[:, :, None] == np.arange(m))
    out = np.empty(ratios.shape, dtype=bool)
    out[:, :, 1] = ratios[:, :, 1] * (1.0 - ROUNDING) > ratios[:, :, 0]
    out[:, :, 0] = ~out[:, :, 1]
    return out
