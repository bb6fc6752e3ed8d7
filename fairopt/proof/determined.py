"""The pairs whose tasks follow from the totals of teams, by prices of these.

At prices, what feasible tasks with these totals cost lies between what the totals pay and what rows and bounds are
worth. With a slack f between both, a pair whose reduced cost is r above that of its user's cheapest pair has at most f
/ r tasks; a user whose cheapest pair has the reduced cost g is within f / abs(g) of a bound, and a row of multiplier y
uses all but f / abs(y) of what it has. Where these equations and the totals leave a task one value, it is determined.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairopt.instance.teams import sums_by
from fairopt.proof.number_level_bounds import NumberBounds, NumberDual, further_multipliers
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE

MOST_OPEN = 200  # tasks that the equations are solved for at once: 10 ms
SINGULAR = 1e-9  # relative: smaller singular values are rounding


@np.errstate(all="ignore")  # tasks that prices do not bound
def determined_pairs(bounds: NumberBounds, duals: Iterable[NumberDual], tasks: Float) -> Bool:
    """The pairs that stay as they are, to the tolerance of gaps relative to an equal part of their number."""
    known = _Known(bounds, tasks)
    for dual in duals:
        known.learn(dual)
    known.alone(bounds.pairs.user, np.ones(len(tasks)), known.of_users)
    known.alone(bounds.number, bounds.c, np.zeros(len(bounds.most)))
    if 0 < known.open.sum() <= MOST_OPEN:
        known.solve()
    shares, total = bounds.c * tasks, known.total
    left = np.bincount(bounds.number[known.open], shares[known.open], len(total))  # by rounding, where nothing is
    return ~known.open | (left <= NOISE * np.maximum(total, bounds.typical))[bounds.number]


class _Known:
    """How far tasks, users' totals, and what rows use may at most be from what they are at the answer."""

    def __init__(self, bounds: NumberBounds, tasks: Float) -> None:
        program, pairs = bounds.program, bounds.pairs
        self.bounds, self.program, self.numbers = bounds, program, bounds.at(tasks)
        self.total = bounds.numbers.sums(pairs.sum(bounds.c * tasks))
        total = np.where(self.total > NOISE * bounds.typical, self.total, 0.0)
        equal = total / bounds.numbers.sums(np.ones(len(program.most)))
        self.unit = equal[bounds.number] / bounds.c  # tasks of each pair
        self.of_pairs = np.full(len(tasks), np.inf)
        self.of_users = np.where(program.most <= program.low, 0.0, np.inf)
        self.of_rows = np.full(len(program.usable_rows), np.inf)
        self.of_further = [np.full(len(one.rows), 0.0 if one.rows.equal else np.inf) for one in program.rows.further]

    @property
    def open(self) -> Bool:
        """The pairs that are not determined yet."""
        return ~(self.of_pairs <= GAP_TOLERANCE * self.unit)

    def learn(self, dual: NumberDual) -> None:
        """What the slack of a bound by prices allows."""
        bounds, program, pairs = self.bounds, self.program, self.bounds.pairs
        prices = np.maximum(dual.of_numbers, 0.0)
        slack = max(bounds.value(dual) - float(prices @ self.numbers), 0.0)
        paid, reduced = prices[bounds.number] * bounds.c, bounds.reduced_costs(dual)
        least = pairs.min(reduced)
        of_bound = np.where(program.low > 0, least, np.minimum(least, 0.0))
        above = reduced - of_bound[pairs.user]
        self.of_pairs = np.fmin(self.of_pairs, np.where(above > NOISE * paid, slack / above, np.inf))
        clear = np.abs(of_bound) > NOISE * pairs.min(paid)
        self.of_users = np.fmin(self.of_users, np.where(clear, slack / np.abs(of_bound), np.inf))
        self.of_rows = np.fmin(self.of_rows, slack / np.maximum(dual.prices, 0.0))
        for k, (_, values) in enumerate(further_multipliers(program, dual)):
            self.of_further[k] = np.fmin(self.of_further[k], slack / np.abs(values))

    def alone(self, group: Indices, per_task: Float, of_groups: Float) -> None:
        """Bound pairs that are the only open ones of a group whose total, a sum of values per task, is known."""
        is_open, n = self.open, len(of_groups)
        mine = np.flatnonzero(is_open & (np.bincount(group[is_open], minlength=n) == 1)[group])
        others = sums_by(group, np.where(is_open, 0.0, per_task * self.of_pairs), n)
        self.of_pairs[mine] = np.fmin(self.of_pairs[mine], ((of_groups + others)[group] / per_task)[mine])

    def solve(self) -> None:
        """Bound the open pairs by all equations at once."""
        program, pairs, bounds = self.program, self.bounds.pairs, self.bounds
        place = np.flatnonzero(self.open)
        elsewhere = np.where(self.open, 0.0, self.of_pairs)
        (users, user), (numbers, number) = (
            np.unique(group[place], return_inverse=True) for group in (pairs.user, bounds.number)
        )
        every, shape = np.arange(len(place)), (len(users), len(place))
        of_numbers = sp.csr_array((bounds.c[place], (number, every)), shape=(len(numbers), len(place)))
        tables = [of_numbers, sp.csr_array((np.ones(len(place)), (user, every)), shape=shape)]
        tables.append(program.rows.columns(place))
        known = [
            bounds.numbers.sums(pairs.sum(bounds.c * elsewhere))[numbers],
            (self.of_users + pairs.sum(elsewhere))[users],
            self.of_rows + program.rows.load(elsewhere),
        ]
        for one, of_rows in zip(program.rows.further, self.of_further, strict=True):
            tables.append(sp.csr_array(one.rows.per_task[:, place]))
            known.append(of_rows + abs(one.rows.per_task) @ elsewhere)
        right = np.concatenate(known)
        table = sp.vstack(tables).toarray()[np.isfinite(right)] * self.unit[place]
        right, size = right[np.isfinite(right)], np.abs(table).max(axis=1)
        table, right = table[size > 0] / size[size > 0, None], right[size > 0] / size[size > 0]
        left, values, directions = np.linalg.svd(table)
        rank = int((values > SINGULAR * values.max(initial=0.0)).sum())
        fixed = np.linalg.norm(directions[rank:], axis=0) <= SINGULAR
        inverse = (directions[:rank].T / values[:rank]) @ left[:, :rank].T
        self.of_pairs[place[fixed]] = ((np.abs(inverse) @ right) * self.unit[place])[fixed]
