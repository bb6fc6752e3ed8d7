"""What follows from the totals of teams by prices: tasks of pairs, and shares of users.

Totals ``z_t = sum_p c_p x_p`` of teams are fixed by a leximin; what of the tasks x is then still open? At prices y of
rows ``A x <= h`` and pi of the numbers, every feasible x with these totals has (docs/methods/cone.md, Proposition 7.16)

    y'(h - A x) + sum_p (r_p - g_j) x_p + sum_j abs(g_j) abs(x_j - bound_j)  =  f := V - sum_t pi_t z_t,

with reduced costs ``r = A'y - pi c``, that of user j's cheapest pair g_j, and its total x_j. The terms are nonnegative,
so that each is at most the slack f: a pair has at most ``f / (r_p - g_j)`` tasks, a user is within ``f / abs(g_j)`` of
its limit or lower bound, and a row uses all but ``f / abs(y)`` of what it has. With the totals these are linear
equations, each known up to an error. Where they leave tasks one value, these are determined.

The most and the least that each user can have are two linear programs per user; the prices of the levels are known, and
one decomposition takes 10 ms. Floats: errors are carried along. A reduced cost below `NOISE` of its terms counts as
none, and a direction that the equations see by less than `SINGULAR` as open, so that rounding leaves tasks open and
does not determine them. `inside_teams` proves how the rest is split.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairopt.proof.dual import Dual
from fairopt.proof.number_level_bounds import NumberBounds
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE

MOST_OPEN = 200  # tasks that the equations are solved for at once, as a dense matrix: 10 ms
SINGULAR = 1e-9  # relative: smaller singular values are rounding, and their directions open


@np.errstate(all="ignore")  # tasks that prices do not bound
def determined(bounds: NumberBounds, duals: Iterable[Dual], tasks: Float) -> tuple[Bool, Bool]:
    """The pairs whose tasks and the users whose shares are the only ones, to 1e-6 of an equal part of their number."""
    known = _Known(bounds, tasks)
    for dual in duals:
        known.learn(dual)
    known.add_only_open()  # most are settled so, without a decomposition
    if not known.settled.all() and known.open.sum() <= MOST_OPEN:
        known.solve()
    # who is open with no more than rounding of its total is not: teams of nothing have nothing to split
    shares, nothing = bounds.c * tasks, NOISE * np.maximum(known.total, bounds.typical)
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
        self.of_further = {
            id(one.rows): np.full(len(one.rows), 0.0 if one.rows.equal else np.inf) for one in program.rows.further
        }

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

    def learn(self, dual: Dual) -> None:
        """What the slack of a bound by prices allows."""
        bounds, program, pairs = self.bounds, self.program, self.bounds.pairs
        prices, costs = dual.of_numbers, bounds.costs(dual)
        slack = max(bounds.value(dual, costs) - float(prices @ self.numbers), 0.0)  # V is rounded up
        paid, reduced = prices[bounds.number] * bounds.c, costs.reduced
        least = pairs.min(reduced)
        # without a lower bound a user whose cheapest pair costs more than is paid has nothing, which pairs say already
        of_bound = np.where(program.low > 0, least, np.minimum(least, 0.0))
        above = reduced - of_bound[pairs.user]
        self.of_pairs = np.fmin(self.of_pairs, np.where(above > NOISE * paid, slack / above, np.inf))
        clear = np.abs(of_bound) > NOISE * pairs.min(paid)
        self.of_users = np.fmin(self.of_users, np.where(clear, slack / np.abs(of_bound), np.inf))
        self.of_rows = np.fmin(self.of_rows, slack / np.maximum(dual.prices, 0.0))
        for one, values in dual.rows:
            self.of_further[id(one.rows)] = np.fmin(self.of_further[id(one.rows)], slack / np.abs(values))

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
        for one in program.rows.further:
            tables.append(one.rows.per_task[:, place].toarray())
            known.append(self.of_further[id(one.rows)] + abs(one.rows.per_task) @ elsewhere)
        right = np.concatenate(known)
        kept = np.isfinite(right)
        table, right = np.vstack(tables)[kept] * self.unit[place], right[kept]
        size = np.abs(table).max(axis=1)  # rows of size 1: singular values are compared
        table, right = table[size > 0] / size[size > 0, None], right[size > 0] / size[size > 0]
        # A d = e for the deviations d of open tasks, with a bound on abs(e): abs(l'd) <= abs(l'A^+) abs(e) for a form l
        # without a part in the directions that A does not see
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
