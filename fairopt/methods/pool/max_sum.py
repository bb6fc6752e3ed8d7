"""The largest sum of shares on one pool, exactly: a linear program in m constraints.

At prices p a task of user j costs ``q_j = g_j . p``. If that is less than the share ``c_j`` it brings, j wants as many
tasks as possible, if more as few as possible; only the undecided, for whom both are equal, may get a number in between.
Prices are right where the undecided can take what the others leave.

Users report what they want at one price vector after another. Of each report a small linear program keeps the total
(one column: what all others want together, as in Dantzig and Wolfe 1960) and the users closest to undecided (one column
each). These users also show how loads react to prices: Newton's steps go on until what is missing is no more than they
can make up for. From there the linear program gives the next prices and an answer that is feasible for all users; when
its prices are so close that no other user can have changed its decision, they are right. The first prices are those of
a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.formulation.pool_users import Chunk, Pool, cost, summed
from fairopt.methods.arrays import Float, Int
from fairopt.methods.batch.max_sum import Simplex
from fairopt.runtime.lazy import optimize

SHARP = 1e-13  # relative gap of a small linear program
FEW = 1_000  # users with a column of their own, of one report
MOST = 3_000  # in a linear program, with those of earlier reports
ROUNDS = 100  # two to five are usual
ENOUGH = 1e-13  # relative gap at which to stop
TIE = 1e-12  # relative distance from undecided below which it is rounding
PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # the least HiGHS takes


class UserColumns(NamedTuple):
    """Users with columns of their own: index, ratios (m x k), share of a task, and room for how many tasks.

    ``distance`` is the relative difference between the price of a task and its share.
    """

    users: Int
    ratios: Float
    share: Float
    room: Float
    distance: Float

    @classmethod
    def of_all(cls, parts: Sequence[UserColumns]) -> UserColumns:
        """The users of several groups together."""
        fields: Any = zip(*parts, strict=True)
        return cls(*(np.concatenate(field, axis=-1) for field in fields))

    def take(self, chosen: Any) -> UserColumns:
        """Some of the users, by index or mask."""
        fields: Any = self
        return UserColumns(*(field[..., chosen] for field in fields))

    def nearest(self) -> UserColumns:
        """The users closest to undecided, at most `FEW`."""
        if len(self.users) <= FEW:
            return self
        return self.take(np.sort(np.argpartition(self.distance, FEW)[:FEW]))


class Wanted(NamedTuple):
    """What users want at prices beyond their lower bounds: loads by resource, sum of shares, users near undecided."""

    load: Float
    total: float
    near: UserColumns

    @classmethod
    def of_all(cls, parts: Sequence[Wanted]) -> Wanted:
        """Sums over several groups of users, whose indices are disjoint."""
        near = UserColumns.of_all([p.near for p in parts]).nearest()
        return cls(np.sum([p.load for p in parts], axis=0), float(np.sum([p.total for p in parts])), near)


class Mix(NamedTuple):
    """Tasks beyond the lower bounds: a mix of what users want at several prices, and tasks of single users.

    ``prices`` (m,) are those of the optimum, per whole capacity. ``past`` (k, m) are the prices that are mixed, and
    ``parts`` (k,) how much of each, together at most 1. ``users``, in order, have ``tasks`` of their own. ``distances``
    are those of the users closest to undecided, sorted; ``total`` is the sum of shares beyond the lower bounds.
    """

    prices: Float
    past: Float
    parts: Float
    users: Int
    tasks: Float
    distances: Float
    total: float


def find_mix(users: MaxSumPool, rough: bool = False) -> Mix | None:
    """The mix with the largest total; None where a linear program failed.

    A ``rough`` one is that of the first linear program, whose prices are a first guess for more users.
    """
    model = _RestrictedProgram(users)
    sample = users.sample()
    if sample is None:
        return model.solved(users.all_columns())
    mix = find_mix(sample, rough=True)
    if mix is None:
        return None
    prices = closest = mix.prices
    quantile = min(FEW * sample.n // users.n, len(mix.distances) - 1)
    within = 2.0 * float(mix.distances[quantile]) if len(mix.distances) else 1.0
    full = True
    for left in reversed(range(ROUNDS)):
        within = max(within, TIE)
        wanted = users.wanted(prices, within)
        better = model.add(prices, wanted)
        if better:
            closest = prices
        near = wanted.near
        crowded = len(near.users) >= FEW
        reach = max(float(near.distance.max()), TIE) if crowded else within  # all closer users have columns
        within = reach * min(FEW / max(len(near.users), 1), 4.0)
        if better and left:
            step = _newton_step(users.usable, model.room - wanted.load, prices, near, reach)
            if np.max(cost(near.ratios, np.abs(step)) / near.share, initial=0.0) > reach:
                prices = prices + step
                continue
        mix = model.solved(near)
        if mix is None:
            return None
        if model.bound - mix.total <= ENOUGH * model.bound:
            break
        if rough or _largest_change(prices, mix.prices) <= reach / (1.0 + reach):
            return mix
        full = better or not full  # full steps alone may oscillate, half steps alone do not reach a vertex
        prices = mix.prices if full else 0.5 * (closest + mix.prices)
    return mix._replace(prices=closest)


def _largest_change(old: Float, new: Float) -> float:
    """The largest relative change of a price, which bounds that of the price of any task."""
    rises = np.divide(np.abs(new - old), old, out=np.full(len(old), np.inf), where=old > 0)
    return float(np.max(rises, initial=0.0, where=old != new))


def _newton_step(usable: Float, missing: Float, prices: Float, near: UserColumns, reach: float) -> Float:
    """The step after which what is wanted fills the capacities, if users are as dense everywhere as near these prices.

    ``missing`` is what is usable beyond what is wanted. Least squares with prices of at least zero.
    """
    on = usable > 0
    ratios, step = near.ratios[on] / usable[on][:, None], np.zeros(len(prices))
    hessian = (ratios * (near.room / (2.0 * reach * near.share))) @ ratios.T
    hessian[np.diag_indices(len(hessian))] += 1e-9 * np.trace(hessian) + 1e-300
    try:
        lower = np.linalg.cholesky(hessian)
        spent = (prices * usable)[on]
        found, _ = optimize.nnls(lower.T, np.linalg.solve(lower, hessian @ spent - missing[on] / usable[on]))
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return step
    step[on] = (found - spent) / usable[on]
    return step


class _RestrictedProgram:
    """The linear program of what is known about users; its feasible points are feasible for all users.

    Its unknowns are shares relative to the total, and its rows fractions of the room: solvers' tolerances are absolute,
    and so mean relative errors of what counts.
    """

    def __init__(self, users: MaxSumPool) -> None:
        self.room = np.maximum(users.usable - users.least, 0.0)
        self.unit = np.maximum(self.room, 1e-9 * users.usable)  # a resource that lower bounds fill stays a row
        self.past: list[tuple[Float, Float, float]] = []  # prices, and load and total of what is wanted at them
        self.bound = np.inf
        self.apart: UserColumns | None = None

    def add(self, prices: Float, wanted: Wanted) -> bool:
        """Add what users want at prices; whether it proves a better bound on any total."""
        self.past.append((prices, wanted.load, wanted.total))
        bound = wanted.total + float(prices @ (self.room - wanted.load))
        better, self.bound = bound < self.bound, min(bound, self.bound)
        return better

    def solved(self, near: UserColumns) -> Mix | None:
        """The best mix, with columns for more users; None where the solver failed."""
        self.apart = apart = near if self.apart is None else _newest_columns(near, self.apart)
        few, m = apart.room.size, len(self.unit)
        scale = self.bound if self.past else self._about(apart)
        if scale == 0:  # no user has room
            nothing = np.zeros(few)
            return Mix(np.zeros(m), np.zeros((0, m)), np.zeros(0), apart.users, nothing, nothing, 0.0)
        rest = [self._others(apart, *known) for known in self.past]
        size = np.array([max(total / scale, 1.0) for _, total in rest])  # number of units in a whole column
        worth = np.append(np.ones(few), [total / scale for _, total in rest] / size)
        rows = self.unit > 0
        load = np.hstack([apart.ratios * (scale / apart.share), *(known[:, None] for known, _ in rest)])
        load[:, few:] /= size
        top = np.append(apart.share * apart.room / scale, size)
        matrix = np.vstack([load[rows] / self.unit[rows, None], np.append(np.zeros(few), 1.0 / size)])
        limits = np.append(self.room[rows] / self.unit[rows], 1.0)
        found = _vertex(worth, matrix, limits, top)
        if found is None:
            return None
        x, duals = found
        prices = np.zeros(m)
        prices[rows] = duals[:-1] * (scale / self.unit[rows])
        distances = np.sort(np.abs(1.0 - cost(apart.ratios, prices) / apart.share))[:FEW]
        parts = x / top  # of the upper bound, exactly 1 at it
        tasks, parts = apart.room * parts[:few], parts[few:]
        past = np.array([known for known, _, _ in self.past]).reshape(-1, m)
        total = float(worth @ x) * scale
        return Mix(prices, past[parts > 0], parts[parts > 0], apart.users, tasks, distances, total)

    def _others(self, apart: UserColumns, prices: Float, load: Float, total: float) -> tuple[Float, float]:
        """Load and total of what is wanted, without the users who have columns."""
        tasks = np.where(apart.share > cost(apart.ratios, prices), apart.room, 0.0)
        return np.maximum(load - apart.ratios @ tasks, 0.0), max(total - float(apart.share @ tasks), 0.0)

    def _about(self, apart: UserColumns) -> float:
        """About the total, from below: all users get the same part of their room, or one user gets all."""
        rows, load, most = self.unit > 0, apart.ratios @ apart.room, apart.share * apart.room
        part = float(np.min(self.unit[rows] / load[rows], initial=1.0))
        return max(part * float(most.sum()), float(most.max(initial=0.0)))


def _vertex(worth: Float, matrix: Float, limits: Float, top: Float) -> tuple[Float, Float] | None:
    """The best x with ``matrix @ x <= limits`` and ``0 <= x <= top``, and the duals of the rows.

    With so few rows `Simplex` takes a tenth of the time that it takes to set HiGHS up; HiGHS solves it where `Simplex`
    finds nothing, a row has no room, or the gap is not sharp. None where numbers are beyond the range of floats.
    """
    if not all(np.isfinite(numbers).all() for numbers in (worth, matrix, limits, top)):
        return None
    if (limits > 0).all():
        rows = matrix / limits[:, None]
        unit = 1.0 / rows.max(axis=0)
        earns = worth * unit
        most = float(earns.max())
        values, prices = Simplex((rows * unit).T[:, :, None], (earns / most)[:, None], (top / unit)[:, None]).run()
        x, duals = values[:, 0] * unit, prices[:, 0] * most / limits
        x = np.where(x >= top * (1.0 - 1e-14), top, x)
        best = duals @ limits + np.maximum(worth - duals @ matrix, 0.0) @ top
        if best - worth @ x <= SHARP * best:  # false for NaN
            return x, duals
    found: Any = optimize.linprog(  # type: ignore[call-overload]
        -worth,
        matrix,
        limits,
        method="highs-ds",
        options=PRECISE,
        bounds=np.column_stack([np.zeros(len(top)), top]),
    )
    return None if found.x is None else (found.x, np.maximum(-found.ineqlin.marginals, 0.0))


def _newest_columns(near: UserColumns, before: UserColumns) -> UserColumns:
    """Users with columns of their own: the new ones, and as many of those before as fit, in order."""
    both = UserColumns.of_all([near, before])
    _, first = np.unique(both.users, return_index=True)
    return both.take(first[first < len(near.users) + MOST - FEW])


class MaxSumPool:
    """The users of a pool in memory."""

    def __init__(self, pool: Pool, least: Float | None = None) -> None:
        self.pool, self.n, self.usable = pool, pool.n, pool.usable
        self.least = pool.least()[0] if least is None else least

    def sample(self) -> MaxSumPool | None:
        """Every sixteenth user, and as much of the capacities; None if all users can have columns."""
        pool = self.pool
        return MaxSumPool(Pool(pool.program, pool.share, pool.every * 16)) if pool.n > 2 * FEW else None

    def all_columns(self) -> UserColumns:
        """Columns for all users; called only where there is no sample."""

        def look(chunk: Chunk) -> UserColumns:
            share, room = chunk.coefficients, chunk.room
            chosen = np.flatnonzero((room > 0) & (share > 0))  # the others never want more than they must
            return _columns(chunk, share, room, chosen, np.zeros(len(chosen)))

        return UserColumns.of_all(self.pool.each(look))

    def wanted(self, prices: Float, within: float) -> Wanted:
        """What users want at prices; near undecided are those within a relative distance, at most `FEW`."""

        def look(chunk: Chunk) -> Wanted:
            share, room, apart = chunk.coefficients, chunk.room, cost(chunk.ratios, prices)
            tasks = np.where(share > apart, room, 0.0)
            np.abs(np.subtract(apart, share, out=apart), out=apart)
            close = np.flatnonzero((apart <= within * share) & (room > 0) & (share > 0))
            near = _columns(chunk, share, room, close, apart[close] / share[close]).nearest()
            return Wanted(np.einsum("ij,j->i", chunk.ratios, tasks), summed(share, tasks), near)

        return Wanted.of_all(self.pool.each(look))

    def settle(self, chunk: Chunk, mix: Mix, tasks: Float) -> None:
        """Write the tasks of a chunk of users."""
        rows, share, part = chunk.rows, chunk.coefficients, np.zeros(chunk.size)
        for prices, mixed in zip(mix.past, mix.parts, strict=True):
            part += mixed * (share > cost(chunk.ratios, prices))
        x = np.multiply(part, chunk.room, out=tasks[rows])
        first, last = np.searchsorted(mix.users, [rows.start, rows.stop])
        x[mix.users[first:last] - rows.start] = mix.tasks[first:last]
        x += chunk.of(self.pool.low)
        np.minimum(x, chunk.of(self.pool.high), out=x)


def _columns(chunk: Chunk, share: Float, room: Float, chosen: Int, distance: Float) -> UserColumns:
    index = chosen + chunk.rows.start
    return UserColumns(index, chunk.ratios[:, chosen], share[chosen], room[chosen], distance)
