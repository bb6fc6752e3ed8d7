"""What follows from the totals of teams by prices: tasks of pairs, and shares of users.

At prices, what feasible tasks with these totals cost lies between what the totals pay and what rows and bounds are
worth. With a slack f between both, a pair whose reduced cost is r above that of its user's cheapest pair has at most f
/ r tasks; a user whose cheapest pair has the reduced cost g is within f / abs(g) of a bound, and a row of multiplier y
uses all but f / abs(y) of what it has. Where these equations and the totals leave tasks one value, they are determined.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairopt.proof.number_level_bounds import NumberBounds, NumberDual, further_multipliers
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE

MOST_OPEN = 200  # tasks that the equations are solved for at once: 10 ms
SINGULAR = 1e-9  # relative: smaller singular values are rounding


@np.errstate(all="ignore")  # tasks that prices do not bound
def determined(bounds: NumberBounds, duals: Iterable[NumberDual], tasks: Float) -> tuple[Bool, Bool]:
    """The pairs whose tasks and the users whose shares are the only ones, to 1e-6 of an equal part of their number."""
    known = _Known(bounds, tasks)
    for dual in duals:
        known.learn(dual)
    known.add_only_open()
    if not known.settled.all() and known.open.sum() <= MOST_OPEN:
        known.solve()
    shares, nothing = bounds.c * tasks, NOISE * np.maximum(known.total, bounds.typical)  # by rounding
    open_pairs, open_users = known.open, ~known.settled
    by_user = bounds.pairs.sum(np.where(open_pairs, shares, 0.0))
    open_pairs &= (bounds.numbers.sums(by_user) > nothing)[bounds.number]
    open_users &= (bounds.numbers.sums(np.where(open_users, by_user, 0.0)) > nothing)[known.team]
    return ~open_pairs, ~open_users


class _Known:
    """How far tasks of pairs, those of users, and what rows use may be from what they are at the answer."""

    def __init__(self, bounds: NumberBounds, tasks: Float) -> None:
        program, pairs, numbers = bounds.program, bounds.pairs, bounds.numbers
        self.bounds, self.program, self.numbers = bounds, program, bounds.at(tasks)
        n = len(program.most)
        self.team = np.arange(n) if numbers.of_user is None else numbers.of_user
        self.total = numbers.sums(pairs.sum(bounds.c * tasks))
        total = np.where(self.total > NOISE * bounds.typical, self.total, 0.0)
        self.equal = total / numbers.sums(np.ones(n))
        self.unit = self.equal[bounds.number] / bounds.c  # tasks of each pair
        self.of_pairs = np.full(len(tasks), np.inf)
        self.of_users = np.where(program.most <= program.low, 0.0, np.inf)
        self.of_rows = np.full(len(program.usable_rows), np.inf)
        self.of_further = [np.full(len(one.rows), 0.0 if one.rows.equal else np.inf) for one in program.rows.further]

    @property
    def open(self) -> Bool:
        """The pairs that are not determined yet."""
        return ~(self.of_pairs <= GAP_TOLERANCE * self.unit)

    @property
    def of_shares(self) -> Float:
        """How far users' shares may be; a user's total is its share where its open pairs count the same."""
        bounds, pairs, is_open = self.bounds, self.bounds.pairs, self.open
        best, worst = -pairs.min(np.where(is_open, -bounds.c, 0.0)), pairs.min(np.where(is_open, bounds.c, np.inf))
        elsewhere = np.where(is_open, 0.0, self.of_pairs)
        by_total = np.where(best == worst, best * (self.of_users + pairs.sum(elsewhere)), np.inf)
        return pairs.sum(bounds.c * elsewhere) + np.where(best > 0, by_total, 0.0)

    @property
    def settled(self) -> Bool:
        """The users whose shares are determined."""
        return self.of_shares <= GAP_TOLERANCE * self.equal[self.team]

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

    def add_only_open(self) -> None:
        """Bound users that are the only ones of a number whose shares are open, and pairs that are of a user."""
        bounds, pairs, is_open = self.bounds, self.bounds.pairs, self.open
        of_shares, settled = self.of_shares, self.settled
        elsewhere, c = np.where(is_open, 0.0, self.of_pairs), -pairs.min(np.where(is_open, -bounds.c, 0.0))
        same = pairs.min(np.where(is_open, bounds.c, np.inf)) == c
        only = same & ~settled & (bounds.numbers.sums((~settled).astype(float)) == 1)[self.team]
        others = bounds.numbers.sums(np.where(settled, of_shares, 0.0))[self.team] + pairs.sum(bounds.c * elsewhere)
        rest = pairs.sum(elsewhere)
        self.of_users = np.where(only, np.fmin(self.of_users, others / c + rest), self.of_users)
        alone = is_open & (pairs.sum(is_open.astype(float)) == 1)[pairs.user]
        self.of_pairs = np.where(alone, np.fmin(self.of_pairs, (self.of_users + rest)[pairs.user]), self.of_pairs)

    def solve(self) -> None:
        """Bound open pairs, and what users have on theirs, by all equations at once."""
        program, pairs, bounds = self.program, self.bounds.pairs, self.bounds
        place, elsewhere = np.flatnonzero(self.open), np.where(self.open, 0.0, self.of_pairs)
        users, teams = np.unique(pairs.user[place]), np.unique(bounds.number[place])
        tables = [
            (bounds.number[place] == teams[:, None]) * bounds.c[place],
            pairs.user[place] == users[:, None],
            program.rows.columns(place).toarray(),
        ]
        known = [
            bounds.numbers.sums(pairs.sum(bounds.c * elsewhere))[teams],
            (self.of_users + pairs.sum(elsewhere))[users],
            self.of_rows + program.rows.load(elsewhere),
        ]
        for one, of_rows in zip(program.rows.further, self.of_further, strict=True):
            tables.append(one.rows.per_task[:, place].toarray())
            known.append(of_rows + abs(one.rows.per_task) @ elsewhere)
        right = np.concatenate(known)
        kept = np.isfinite(right)
        table, right = np.vstack(tables)[kept] * self.unit[place], right[kept]
        size = np.abs(table).max(axis=1)
        table, right = table[size > 0] / size[size > 0, None], right[size > 0] / size[size > 0]
        left, values, directions = np.linalg.svd(table)
        rank = int((values > SINGULAR * values.max(initial=0.0)).sum())
        inverse = (directions[:rank].T / values[:rank]) @ left[:, :rank].T
        unit, rest = self.unit[place], pairs.sum(elsewhere)[users]
        for bounds_of, some, forms, beside in (
            (self.of_users, users, (pairs.user[place] == users[:, None]) * unit, rest),
            (self.of_pairs, place, np.diag(unit), np.zeros(len(place))),
        ):
            free = np.linalg.norm(forms @ directions[rank:].T, axis=1)
            within = np.where(free <= SINGULAR * np.linalg.norm(forms, axis=1), np.abs(forms @ inverse) @ right, np.inf)
            bounds_of[some] = np.fmin(bounds_of[some], within + beside)
