"""Totals, by those who hold the users: what they want at prices, what they get of a mix, and how good that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.routes.chunks import Chunk, Pool
from fairopt.routes.evidence import Feasibility
from fairopt.routes.linear import FEW, Columns, Mix, Wanted, cost, summed

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
        with np.errstate(divide="ignore"):
            self.per_usable = 1.0 / pool.usable

    def sample(self) -> Totalling | None:
        """Every sixteenth user, and as much of what there is."""
        pool = self.pool
        return Totalling(Pool(pool.program, pool.share, pool.every * 16)) if pool.n > 2 * FEW else None

    def everybody(self) -> Columns:
        """Each by itself."""

        def look(chunk: Chunk) -> Columns:
            share, room = chunk.coefficients, self.room(chunk)
            chosen = np.flatnonzero(room > 0)
            return _columns(chunk, share, room, chosen, np.zeros(len(chosen)))

        return Columns.of_all(self.pool.each(look))

    def wanted(self, prices: Float, within: float) -> Wanted:
        """What they want at prices."""

        def look(chunk: Chunk) -> Wanted:
            share, room, apart = chunk.coefficients, self.room(chunk), cost(chunk.ratios, prices)
            tasks = np.where(share > apart, room, 0.0)
            np.abs(np.subtract(apart, share, out=apart), out=apart)
            close = np.flatnonzero((apart <= within * share) & (room > 0))
            near = _columns(chunk, share, room, close, apart[close] / share[close]).nearest()
            return Wanted(np.einsum("ij,j->i", chunk.ratios, tasks), summed(share, tasks), near)

        return Wanted.of_all(self.pool.each(look))

    def room(self, chunk: Chunk) -> Float:
        """Tasks from the lower bound to the upper one, which is no more than a user could run alone."""
        most = chunk.ratios[0] * self.per_usable[0]
        for ratio, per_usable in zip(chunk.ratios[1:], self.per_usable[1:], strict=True):
            np.fmax(most, ratio * per_usable, out=most)  # what is not needed of nothing is no number
        np.divide(1.0, most, out=most)
        np.minimum(most, chunk.of(self.pool.high), out=most)
        low = chunk.of(self.pool.low)
        return most if isinstance(low, float) and low == 0 else np.maximum(most - low, 0.0, out=most)

    def settle(self, chunk: Chunk, mix: Mix, tasks: Float) -> None:
        """Write a chunk of users' tasks."""
        rows, share, part = chunk.rows, chunk.coefficients, np.zeros(chunk.size)
        for prices, mixed in zip(mix.past, mix.parts, strict=True):
            part += mixed * (share > cost(chunk.ratios, prices))
        x = np.multiply(part, self.room(chunk), out=tasks[rows])
        first, last = np.searchsorted(mix.users, [rows.start, rows.stop])
        x[mix.users[first:last] - rows.start] = mix.tasks[first:last]
        x += chunk.of(self.pool.low)
        np.minimum(x, chunk.of(self.pool.high), out=x)


def _columns(chunk: Chunk, share: Float, room: Float, chosen: NDArray[np.int64], distance: Float) -> Columns:
    index = chosen + chunk.rows.start
    return Columns(index, chunk.ratios[:, chosen], share[chosen], room[chosen], distance)


class Sums(NamedTuple):
    """What a total needs: its value, and the most that users could gain at prices."""

    feasible: Feasibility
    value: float
    gain: float

    @classmethod
    def of_all(cls, parts: Sequence[Sums]) -> Sums:
        """Those of all together."""
        value, gain = (float(np.sum([p[k] for p in parts])) for k in (1, 2))
        return cls(Feasibility.of_all([p.feasible for p in parts]), value, gain)

    def scaled(self, factor: float) -> Sums:
        """What they would be with everybody's tasks multiplied by a factor."""
        return self._replace(feasible=self.feasible.scaled(factor), value=self.value * factor)

    def gap(self, spent: float) -> float:
        """(bound - value) / bound, by weak duality.

        Parameters
        ----------
        spent : float
            Prices times usable capacities.

        Returns
        -------
        float
        """
        bound = spent + self.gain
        if not (np.isfinite(bound) and np.isfinite(self.value)):
            return np.inf
        return (bound - self.value) / bound if bound > self.value else 0.0


def sums(users: Totalling, tasks: Float, prices: Float, settle: Callable[[Chunk], None] | None = None) -> Sums:
    """Value of an answer, and a bound on every other at any prices.

    Parameters
    ----------
    users : Totalling
        Whose answer.
    tasks : ndarray of shape (n_users,)
        The answer to judge.
    prices : ndarray of shape (n_resources,)
        What to charge, per whole capacity.
    settle : callable, optional
        Called with each chunk before it is looked at: writes its tasks, and saves a pass.

    Returns
    -------
    Sums
    """

    def look(chunk: Chunk) -> Sums:
        if settle is not None:
            settle(chunk)
        x, share = tasks[chunk.rows], chunk.coefficients
        remains = share - cost(chunk.ratios, prices)
        gain = float(np.sum(remains * chunk.of(users.pool.low))) + summed(np.maximum(remains, 0.0), users.room(chunk))
        return Sums(Feasibility.of(chunk, x), summed(share, x), gain)

    return Sums.of_all(users.pool.each(look))
