"""In-memory evaluation for the maximum-sum method: what users want at prices, and what they get of a mix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.formulation.pool_users import Chunk, Pool, cost, summed
from fairopt.methods.pool.max_sum import FEW, Columns, Mix, Wanted

Float = NDArray[np.floating[Any]]


class Totalling:
    """The users of a pool, in memory.

    Parameters
    ----------
    pool : Pool
        Who they are.
    least : ndarray of shape (n_resources,), optional
        What the lower bounds take. Default: it is added up.
    """

    def __init__(self, pool: Pool, least: Float | None = None) -> None:
        self.pool, self.n, self.usable = pool, pool.n, pool.usable
        self.least = pool.least()[0] if least is None else least

    def sample(self) -> Totalling | None:
        """Every sixteenth user, and as much of what there is."""
        pool = self.pool
        return Totalling(Pool(pool.program, pool.share, pool.every * 16)) if pool.n > 2 * FEW else None

    def everybody(self) -> Columns:
        """Each by itself."""

        def look(chunk: Chunk) -> Columns:
            share, room = chunk.coefficients, chunk.room
            chosen = np.flatnonzero(room > 0)
            return _columns(chunk, share, room, chosen, np.zeros(len(chosen)))

        return Columns.of_all(self.pool.each(look))

    def wanted(self, prices: Float, within: float) -> Wanted:
        """What they want at prices."""

        def look(chunk: Chunk) -> Wanted:
            share, room, apart = chunk.coefficients, chunk.room, cost(chunk.ratios, prices)
            tasks = np.where(share > apart, room, 0.0)
            np.abs(np.subtract(apart, share, out=apart), out=apart)
            close = np.flatnonzero((apart <= within * share) & (room > 0))
            near = _columns(chunk, share, room, close, apart[close] / share[close]).nearest()
            return Wanted(np.einsum("ij,j->i", chunk.ratios, tasks), summed(share, tasks), near)

        return Wanted.of_all(self.pool.each(look))

    def settle(self, chunk: Chunk, mix: Mix, tasks: Float) -> None:
        """Write a chunk of users' tasks."""
        rows, share, part = chunk.rows, chunk.coefficients, np.zeros(chunk.size)
        for prices, mixed in zip(mix.past, mix.parts, strict=True):
            part += mixed * (share > cost(chunk.ratios, prices))
        x = np.multiply(part, chunk.room, out=tasks[rows])
        first, last = np.searchsorted(mix.users, [rows.start, rows.stop])
        x[mix.users[first:last] - rows.start] = mix.tasks[first:last]
        x += chunk.of(self.pool.low)
        np.minimum(x, chunk.of(self.pool.high), out=x)


def _columns(chunk: Chunk, share: Float, room: Float, chosen: NDArray[np.int64], distance: Float) -> Columns:
    index = chosen + chunk.rows.start
    return Columns(index, chunk.ratios[:, chosen], share[chosen], room[chosen], distance)
