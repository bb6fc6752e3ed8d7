"""Which pairs a program of very many users on one pool needs as columns, by prices of a sample of the users.

At prices p of whole capacities each number runs its tasks in the order of cost per unit, ``p @ d_j / c_j``, until it is
at the level h that the capacities pay: ``sum_t cost_t(h w_t) = p @ usable``, by bisection. For any prices h is an upper
bound on the first level (weak duality). The prices are those of the program over mixtures of such responses (Dantzig
and Wolfe 1960), whose value is a lower bound. Tasks whose cost is within 2% of that of their number's last ones are
columns; the others stay at their bounds, until prices of exact programs say otherwise.

Why a sample: each response sorts its users, and 50,000 of them give prices to about a percent. 40,000 users in 50 teams
took 7 responses, and 2,403 columns of one program. Wrong columns cost time only, as every program's prices are compared
with all users' costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.proof.number_level_bounds import NumberBounds
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import optimize

SAMPLE = 50_000  # users whose responses give prices to about a percent
BAND = 0.02  # relative: tasks within this of the marginal cost are columns
CLOSE = 1e-3  # relative, of levels: when prices are good enough
MOST_RESPONSES = 40  # 7 for 40,000 users in 50 teams; the best prices so far serve too
BISECTIONS = 50  # of a level, to all digits of a float


class _Response(NamedTuple):
    """Tasks at some prices, the level, what they use of each resource, and costs relative to the last tasks'."""

    level: float
    tasks: Float
    used: Float
    relative_cost: Float


class _Users:
    """Some users of a pool, each standing for ``times`` like it."""

    def __init__(self, bounds: NumberBounds, users: Indices | slice, times: float) -> None:
        program, numbers = bounds.program, bounds.numbers
        self.demands, self.whole = program.instance.per_server_demands[users, 0], program.whole_capacities[0]
        self.c, self.number = bounds.c[users], bounds.number[users]
        self.least, self.most, self.times = program.low[users], program.most[users], times
        self.w, self.base = numbers.weights, np.zeros(len(numbers)) if numbers.base is None else numbers.base
        self.first = np.append(0, np.cumsum(np.bincount(self.number, minlength=len(numbers))))

    def response(self, prices: Float) -> _Response:
        """The largest level that users can pay at prices of whole capacities, and their tasks there."""
        per_unit_of = np.divide(1.0, self.whole, out=np.zeros(len(self.whole)), where=self.whole > 0)
        cost = self.demands @ (prices * per_unit_of)
        with np.errstate(divide="ignore", invalid="ignore"):
            per_unit = np.where(self.c > 0, cost / self.c, np.inf)
        # by number, and within it by cost
        order = np.argsort(per_unit)
        order = order[np.argsort(self.number[order].astype(np.int32), kind="stable")]
        more = ((self.most - self.least) * self.times)[order]
        after, spent = (np.append(0.0, np.cumsum(values[order] * more)) for values in (self.c, cost))
        fixed = float(cost @ np.broadcast_to(self.least, cost.shape)) * self.times
        least = np.bincount(self.number, self.c * self.least * self.times, len(self.w)) - self.base
        del cost, more
        begin, end = self.first[:-1], self.first[1:]

        def last(level: float) -> tuple[Indices, Float]:
            """The place of each number's last user at a level, and the part of its tasks that run."""
            wanted = after[begin] + np.clip(level * self.w - least, 0.0, after[end] - after[begin])
            place = np.clip(np.searchsorted(after, wanted, side="left") - 1, begin, np.maximum(end - 1, begin))
            place = np.minimum(place, len(order) - 1)
            size = after[place + 1] - after[place]
            part = np.divide(wanted - after[place], size, out=np.zeros(len(place)), where=size > 0)
            return place, np.clip(part, 0.0, 1.0)

        def total(level: float) -> float:
            place, part = last(level)
            return fixed + float((spent[place] - spent[begin] + part * (spent[place + 1] - spent[place])).sum())

        low, high = 0.0, float(((least + after[end] - after[begin]) / self.w).max())
        if total(high) > 1.0:
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if total(middle) <= 1.0 else (low, middle)
        place, part = last(high)
        place, part = place[begin < end], part[begin < end]
        margin = np.ones(len(self.w))
        margin[begin < end] = per_unit[order[place]]
        before = np.zeros(len(order) + 1, dtype=np.int8)  # 1 from a number's first user to its last one
        np.add.at(before, begin[begin < end], 1)
        np.add.at(before, place, -1)
        runs = np.empty(len(order))
        runs[order] = np.cumsum(before[:-1], dtype=np.int8)
        runs[order[place]] = part
        with np.errstate(divide="ignore", invalid="ignore"):
            per_unit /= margin[self.number]
        per_unit[order[place]] = 1.0
        runs *= self.most - self.least
        runs += self.least
        return _Response(high, runs, (runs @ self.demands) * per_unit_of * self.times, per_unit)


def likely_columns(bounds: NumberBounds, several: Bool) -> tuple[Indices, Float]:
    """The users of a pool among ``several`` who are columns at first, and the tasks of all."""
    users = np.flatnonzero(several)
    every: Indices | slice = slice(None) if len(users) == len(several) else users  # without copies
    step = max(len(users) // SAMPLE, 1)
    prices = _prices(_Users(bounds, users[::step], len(users) / len(users[::step])), bounds.program.usable_rows)
    check("responses to prices")
    response = _Users(bounds, every, 1.0).response(prices)
    tasks = bounds.program.low.copy()
    tasks[users] = response.tasks
    near = np.abs(response.relative_cost - 1.0) <= BAND
    return users[near | ~np.isfinite(response.relative_cost)], tasks


def _prices(users: _Users, usable: Float) -> Float:
    """Prices of whole capacities at which the level that users can pay is nearly the least."""
    prices = np.ones(len(usable)) / usable.sum()  # of whole capacities, scaled so that all together cost 1
    levels, used, bound = [0.0], [np.zeros(len(usable))], np.inf
    best = prices
    for _ in range(MOST_RESPONSES):
        check("responses to prices")
        response = users.response(prices)
        if response.level < bound:  # every response bounds the level from above, the mixture from below
            best, bound = prices, response.level
        levels.append(response.level)
        used.append(response.used)
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
