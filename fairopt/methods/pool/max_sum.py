"""The exact largest sum of shares on one pool, a linear program in m constraints.

At prices p a task of user j costs ``q_j = g_j . p``. If that is less than the share ``c_j`` it brings, j wants all the
tasks it can have, if more as few as it must; only the undecided, for whom both are the same, may get something between.
Prices are right where the undecided can take what the others leave.

All users are asked at one price vector after another. What is kept of an answer is its total (one column of a small
linear program: what all others want together) and, by themselves, the users closest to undecided (a column each). They
also tell how loads react to prices: Newton's step goes on until what is missing is no more than they can make up for.
From there the linear program gives the next prices and an answer that is feasible for all, and when its prices are so
close that no other user can have changed its mind, they are right. The first prices are those of a sample.

`find_mix` sees no other user: `MaxSumUsers`, in memory a `MaxSumPool`, answer with ``m + 1`` numbers and at most `FEW`
users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls

from fairopt.formulation.pool_users import Chunk, Pool, cost, summed
from fairopt.methods.batch.max_sum import Simplex

Float = NDArray[np.floating[Any]]

SHARP = 1e-13  # relative gap of a small linear program
FEW = 1_000  # users taken by themselves in a round
MOST = 3_000  # in a linear program, with those of earlier rounds
ROUNDS = 100  # two to five are usual
ENOUGH = 1e-13  # relative gap at which nothing is left to be found
TIE = 1e-12  # relative distance from undecided below which it is rounding
PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # the least HiGHS takes


class UserColumns(NamedTuple):
    """Users by themselves: which, ratios (m x k) and share of a task, and for how many tasks there is room.

    ``distance`` is how far the price of a task is from its share, relatively.
    """

    users: NDArray[np.int64]
    ratios: Float
    share: Float
    room: Float
    distance: Float

    @classmethod
    def of_all(cls, parts: Sequence[UserColumns]) -> UserColumns:
        """Those of several groups of users together."""
        fields: Any = zip(*parts, strict=True)
        return cls(*(np.concatenate(field, axis=-1) for field in fields))

    def take(self, chosen: Any) -> UserColumns:
        """Some of them."""
        fields: Any = self
        return UserColumns(*(field[..., chosen] for field in fields))

    def nearest(self) -> UserColumns:
        """The closest to undecided, at most `FEW`."""
        if len(self.users) <= FEW:
            return self
        return self.take(np.sort(np.argpartition(self.distance, FEW)[:FEW]))


class Wanted(NamedTuple):
    """What users want at prices, beyond their lower bounds: its load by resource, its shares; and the undecided."""

    load: Float
    total: float
    near: UserColumns

    @classmethod
    def of_all(cls, parts: Sequence[Wanted]) -> Wanted:
        """That of several groups of users together, who are numbered in a row."""
        near = UserColumns.of_all([p.near for p in parts]).nearest()
        return cls(np.sum([p.load for p in parts], axis=0), float(np.sum([p.total for p in parts])), near)


class MaxSumUsers(Protocol):
    """Users who are asked for what they want at prices, and each by itself.

    ``usable`` is the fraction of each resource that may be used, ``least`` what the lower bounds take of it.
    """

    n: int
    usable: Float
    least: Float

    def wanted(self, prices: Float, within: float) -> Wanted:
        """What they want; undecided are those within a relative distance, the closest `FEW` of them."""

    def sample(self) -> MaxSumUsers | None:
        """Fewer users with about the same prices; None where there are few enough to take each by itself."""

    def all_columns(self) -> UserColumns:
        """Each by itself; asked only where there is no sample."""


@dataclass(frozen=True)
class Mix:
    """What users get beyond their lower bounds: a mix of what they want at several prices, and some by themselves.

    Attributes
    ----------
    prices : ndarray of shape (n_resources,)
        Of the optimum, per whole capacity.
    past : ndarray of shape (k, n_resources)
        The prices that are mixed.
    parts : ndarray of shape (k,)
        How much of each; together at most 1.
    users, tasks : ndarray
        Who is taken by itself, in order, and their tasks beyond the lower bound.
    distances : ndarray
        From undecided, of the closest users, sorted.
    total : float
        Sum of the shares beyond the lower bounds.
    """

    prices: Float
    past: Float
    parts: Float
    users: NDArray[np.int64]
    tasks: Float
    distances: Float
    total: float


def find_mix(users: MaxSumUsers, rough: bool = False) -> Mix | None:
    """The mix of what users want whose total is largest; None where a linear program failed.

    A ``rough`` one is that of the first linear program: its prices are to start from.
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
        reach = max(float(near.distance.max()), TIE) if crowded else within  # no other user is closer to undecided
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
        full = better or not full  # full steps alone swing from one end to another, halves alone meet no corner
        prices = mix.prices if full else 0.5 * (closest + mix.prices)
    return replace(mix, prices=closest)


def _largest_change(old: Float, new: Float) -> float:
    """The largest relative change of a price, beyond which no task's price changes."""
    rises = np.divide(np.abs(new - old), old, out=np.full(len(old), np.inf), where=old > 0)
    return float(np.max(rises, initial=0.0, where=old != new))


def _newton_step(usable: Float, missing: Float, prices: Float, near: UserColumns, reach: float) -> Float:
    """The step after which as much is wanted as there is, if users are as dense everywhere as near these prices.

    ``missing`` is what there is beyond what is wanted. Prices stay at or above zero: least squares with that condition.
    """
    on = usable > 0
    ratios, step = near.ratios[on] / usable[on][:, None], np.zeros(len(prices))
    hessian = (ratios * (near.room / (2.0 * reach * near.share))) @ ratios.T
    hessian[np.diag_indices(len(hessian))] += 1e-9 * np.trace(hessian) + 1e-300
    try:
        lower = np.linalg.cholesky(hessian)
        spent = (prices * usable)[on]
        found, _ = nnls(lower.T, np.linalg.solve(lower, hessian @ spent - missing[on] / usable[on]))
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return step
    step[on] = (found - spent) / usable[on]
    return step


class _RestrictedProgram:
    """The linear program of what has been learnt about users: it holds less than they could do, so its answer is one.

    Its unknowns are shares relative to the total, and its rows fractions of what there is: the tolerances of solvers
    are absolute, and so mean relative errors of what counts.
    """

    def __init__(self, users: MaxSumUsers) -> None:
        self.room = np.maximum(users.usable - users.least, 0.0)
        self.unit = np.maximum(self.room, 1e-9 * users.usable)  # what lower bounds have filled stays a row
        self.past: list[tuple[Float, Float, float]] = []  # prices, load and total of what was wanted
        self.bound = np.inf
        self.apart: UserColumns | None = None

    def add(self, prices: Float, wanted: Wanted) -> bool:
        """Learn what users want, and whether it proves a better bound on any total."""
        self.past.append((prices, wanted.load, wanted.total))
        bound = wanted.total + float(prices @ (self.room - wanted.load))
        better, self.bound = bound < self.bound, min(bound, self.bound)
        return better

    def solved(self, near: UserColumns) -> Mix | None:
        """The best mix, with more users by themselves; None where the solver failed."""
        self.apart = apart = near if self.apart is None else _newest_columns(near, self.apart)
        few, m = apart.room.size, len(self.unit)
        scale = self.bound if self.past else self._about(apart)
        if scale == 0:  # there is no room for any user
            nothing = np.zeros(few)
            return Mix(np.zeros(m), np.zeros((0, m)), np.zeros(0), apart.users, nothing, nothing, 0.0)
        rest = [self._others(apart, *known) for known in self.past]
        size = np.array([max(total / scale, 1.0) for _, total in rest])  # how many units all of a column are
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
        parts = x / top  # of one: exactly 1 at a limit
        tasks, parts = apart.room * parts[:few], parts[few:]
        past = np.array([known for known, _, _ in self.past]).reshape(-1, m)
        total = float(worth @ x) * scale
        return Mix(prices, past[parts > 0], parts[parts > 0], apart.users, tasks, distances, total)

    def _others(self, apart: UserColumns, prices: Float, load: Float, total: float) -> tuple[Float, float]:
        """Load and total of what was wanted, without those by themselves."""
        tasks = np.where(apart.share > cost(apart.ratios, prices), apart.room, 0.0)
        return np.maximum(load - apart.ratios @ tasks, 0.0), max(total - float(apart.share @ tasks), 0.0)

    def _about(self, apart: UserColumns) -> float:
        """About the total, from below: all users get the same part of their room, or one gets all."""
        rows, load, most = self.unit > 0, apart.ratios @ apart.room, apart.share * apart.room
        part = float(np.min(self.unit[rows] / load[rows], initial=1.0))
        return max(part * float(most.sum()), float(most.max(initial=0.0)))


def _vertex(worth: Float, matrix: Float, limits: Float, top: Float) -> tuple[Float, Float] | None:
    """The best x with ``matrix @ x <= limits`` and ``0 <= x <= top``, and what the rows are worth.

    With so few rows our own simplex takes a tenth of the time that it takes to set HiGHS up; where it finds
    nothing, a row has no room, or what it finds is not sharp, HiGHS does it.
    """
    if (limits > 0).all():
        rows = matrix / limits[:, None]
        unit = 1.0 / rows.max(axis=0)
        earns = worth * unit
        most = float(earns.max())
        values, prices = Simplex((rows * unit).T[:, :, None], (earns / most)[:, None], (top / unit)[:, None]).run()
        x, duals = values[:, 0] * unit, prices[:, 0] * most / limits
        x = np.where(x >= top * (1.0 - 1e-14), top, x)
        best = duals @ limits + np.maximum(worth - duals @ matrix, 0.0) @ top
        if best - worth @ x <= SHARP * best:  # false where there is no number
            return x, duals
    found: Any = linprog(  # type: ignore[call-overload]
        -worth, matrix, limits, method="highs-ds", options=PRECISE,
        bounds=np.column_stack([np.zeros(len(top)), top]),
    )  # fmt: skip
    return None if found.x is None else (found.x, np.maximum(-found.ineqlin.marginals, 0.0))


def _newest_columns(near: UserColumns, before: UserColumns) -> UserColumns:
    """Users by themselves, new ones and as many of those before as there may be, in order."""
    both = UserColumns.of_all([near, before])
    _, first = np.unique(both.users, return_index=True)
    return both.take(first[first < len(near.users) + MOST - FEW])


class MaxSumPool:
    """The users of a pool in memory, as `MaxSumUsers`."""

    def __init__(self, pool: Pool, least: Float | None = None) -> None:
        self.pool, self.n, self.usable = pool, pool.n, pool.usable
        self.least = pool.least()[0] if least is None else least

    def sample(self) -> MaxSumPool | None:
        """Every sixteenth user, and as much of what there is."""
        pool = self.pool
        return MaxSumPool(Pool(pool.program, pool.share, pool.every * 16)) if pool.n > 2 * FEW else None

    def all_columns(self) -> UserColumns:
        """Each by itself."""

        def look(chunk: Chunk) -> UserColumns:
            share, room = chunk.coefficients, chunk.room
            chosen = np.flatnonzero(room > 0)
            return _columns(chunk, share, room, chosen, np.zeros(len(chosen)))

        return UserColumns.of_all(self.pool.each(look))

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


def _columns(chunk: Chunk, share: Float, room: Float, chosen: NDArray[np.int64], distance: Float) -> UserColumns:
    index = chosen + chunk.rows.start
    return UserColumns(index, chunk.ratios[:, chosen], share[chosen], room[chosen], distance)
