"""Which pairs a program of very many users on one pool needs as columns, by prices of a sample of the users.

At prices of resources each number runs its cheapest tasks per unit until it is at the level that the capacities pay.
The prices are those of the program over mixtures of such responses (Dantzig and Wolfe 1960). Tasks whose cost is near
that of their number's last ones are columns; the others stay at their bounds, until prices say otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.methods.arrays import Bool, Float, Int
from fairopt.proofs.number_levels import NumberBounds
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import optimize

SAMPLE = 50_000  # users whose responses give prices to about a percent
BAND = 0.02  # relative: tasks within this of the marginal cost are columns
CLOSE = 1e-3  # relative, of levels: when prices are good enough
MOST_RESPONSES = 40
BISECTIONS = 50


class _Response(NamedTuple):
    """Tasks at some prices, the level, what they use of each resource, and costs relative to the last tasks'."""

    level: float
    tasks: Float
    used: Float
    relative_cost: Float


class _Users:
    """Some users of a pool, each standing for ``times`` like it."""

    def __init__(self, bounds: NumberBounds, users: Int, times: float) -> None:
        program, numbers = bounds.program, bounds.numbers
        self.loads, self.c, self.number = bounds.pairs.loads[:, users], bounds.c[users], bounds.number[users]
        self.least, self.most, self.times = program.low[users], program.most[users], times
        self.w, self.base = numbers.weights, np.zeros(len(numbers)) if numbers.base is None else numbers.base
        self.first = np.searchsorted(np.sort(self.number), np.arange(len(numbers) + 1))

    def response(self, prices: Float) -> _Response:
        """The largest level that users can pay at prices of whole capacities, and their tasks there."""
        cost = prices @ self.loads
        with np.errstate(divide="ignore", invalid="ignore"):
            per_unit = np.where(self.c > 0, cost / self.c, np.inf)
        order = np.argsort(per_unit)
        order = order[np.argsort(self.number[order].astype(np.int32), kind="stable")]
        more = ((self.most - self.least) * self.times)[order]
        share, paid = self.c[order] * more, cost[order] * more
        after, spent = np.append(0.0, np.cumsum(share)), np.append(0.0, np.cumsum(paid))
        least = np.bincount(self.number, self.c * self.least * self.times, len(self.w)) - self.base
        begin, end = self.first[:-1], self.first[1:]
        limit = float(cost @ (self.least * self.times))

        def position(level: float) -> tuple[Int, Float]:
            """Each number's last user at a level, and the part of its tasks that run."""
            wanted = after[begin] + np.clip(level * self.w - least, 0.0, after[end] - after[begin])
            last = np.clip(np.searchsorted(after, wanted, side="left") - 1, begin, np.maximum(end - 1, begin))
            some = np.minimum(last, len(share) - 1)
            part = np.divide(wanted - after[last], share[some], out=np.zeros(len(last)), where=share[some] > 0)
            return last, np.clip(part, 0.0, 1.0)

        def total(level: float) -> float:
            last, part = position(level)
            some = np.minimum(last, len(paid) - 1)
            return limit + float((spent[last] - spent[begin] + part * paid[some]).sum())

        low, high = 0.0, float(((least + after[end] - after[begin]) / self.w).max())
        if total(high) > 1.0:
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if total(middle) <= 1.0 else (low, middle)
        last, part = position(high)
        number, at = self.number[order], np.arange(len(order))
        running = np.where(at < last[number], 1.0, np.where(at == last[number], part[number], 0.0))
        tasks, relative = self.least.copy(), np.empty(len(order))
        tasks[order] += running * (self.most - self.least)[order]
        margin = per_unit[order][np.minimum(last, len(order) - 1)]
        with np.errstate(divide="ignore", invalid="ignore"):
            relative[order] = np.where(at == last[number], 1.0, per_unit[order] / margin[number])
        return _Response(high, tasks, self.loads @ tasks * self.times, relative)


def likely_columns(bounds: NumberBounds, several: Bool) -> tuple[Int, Float]:
    """The users of a pool among ``several`` who are columns at first, and the tasks of all."""
    users = np.flatnonzero(several)
    step = max(len(users) // SAMPLE, 1)
    prices = _prices(_Users(bounds, users[::step], len(users) / len(users[::step])), bounds.program.usable_rows)
    check("responses to prices")
    found = _Users(bounds, users, 1.0).response(prices)
    tasks = bounds.program.low.copy()
    tasks[users] = found.tasks
    near = np.abs(found.relative_cost - 1.0) <= BAND
    return users[near | ~np.isfinite(found.relative_cost)], tasks


def _prices(users: _Users, usable: Float) -> Float:
    """Prices of whole capacities at which the level that users can pay is nearly the least."""
    prices = np.ones(len(usable)) / usable.sum()
    levels, used, bound = [0.0], [np.zeros(len(usable))], np.inf
    best = prices
    for _ in range(MOST_RESPONSES):
        check("responses to prices")
        found = users.response(prices)
        if found.level < bound:
            best, bound = prices, found.level
        levels.append(found.level)
        used.append(found.used)
        mixed = optimize.linprog(
            -np.array(levels) / bound,
            A_ub=np.array(used).T,
            b_ub=usable,
            A_eq=np.ones((1, len(levels))),
            b_eq=[1.0],
            method="highs",
        )
        if -float(mixed.fun or 0.0) >= 1 - CLOSE:
            break
        prices = np.maximum(-mixed.ineqlin.marginals, 0.0)
        prices = prices / (prices @ usable)
    return best
