"""The linear program of one level of leximin on servers, changed in HiGHS from level to level (Proposition 5.6).

With amounts x_p of pairs of a group and a server row, loads A and bases, rates and lower bounds by group, it is

    max z  under  A x <= usable,  sum_(p of g) x_p >= base_g + rate_g z,  sum_(p of g) x_p >= low_g,  x >= 0.

As written, HiGHS has a row for every group and a column for every pair, of which most stay as they are.

Most groups are settled on one pair, their home, and need no row. The others choose between pairs: they have a row, and
some of their pairs are columns. After each solve, pairs of negative reduced cost become columns, and their groups
choose, until there are none.

As users are fixed, groups that hold one pair settle there, and others drawn at random begin to choose: the square root
of groups times servers, as users who are fixed leave an uneven rest of about that size. Without the draw, 20,000 users
with limits took 56 solves instead of 8.

The last basis stays feasible for the next level, so primal simplex steps continue from it. On 1,000 users and 27
servers a later level took a twentieth of the first by primal steps, and up to as long as the first by dual steps.

HiGHS's tolerances are absolute, 1e-10: columns and rows of groups are in units of about what the group holds, and the
cost of z is the number of groups, so that multipliers are near 1. A pair enters only if its reduced cost is above both
that tolerance, below which HiGHS would not move it, and rounding of the costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.form.simplex import BASIC, TOLERANCE, UPPER, Simplex

MORE = 5  # columns added to a group at once
AT_ONCE = 500  # settled groups that begin to choose at once because of reduced costs
SOME, CHOOSING = 4, 500  # first columns of a group, on average, and the number of groups that can always choose
SMALLEST, SMALLER = 1e-3, 0.1  # of a program's numbers, which HiGHS's tolerances are relative to
SPREAD = 2.0  # times the square root of groups times servers: the number that choose at first and are drawn later


class LevelOptimum(NamedTuple):
    """The largest common level, the amounts of pairs at it, and prices per whole capacity."""

    level: float
    amounts: Float
    prices: Float


UNFINISHED = LevelOptimum(np.nan, np.zeros(0), np.zeros(0))  # not solved by as many programs as were allowed


def choosing_at_first(n_groups: int, n_servers: int, n_rows: int) -> int:
    """How many groups choose at first, and anew at each level."""
    return int(max(CHOOSING, SPREAD * np.sqrt(n_groups * n_servers), SOME * n_rows))


class LevelProgram:
    """Maximise z such that each group holds at least ``bases + rates z`` and ``low``, all (n_groups,).

    ``loads`` (n_rows, n_pairs) is the fraction of each capacity that a unit of each pair takes, ``usable`` (n_rows,)
    the usable fraction. ``group`` (n_pairs,) is ascending, ``home`` (n_groups,) is the first pair of each group.
    Groups in ``choosing``, and all with lower bounds, choose between ``columns`` at first. ``unit`` (n_groups,) is
    about what each group will hold, so that tolerances are relative. Values and prices are those of the basis to
    rounding.
    """

    def __init__(
        self,
        loads: sp.csc_array,
        group: Indices,
        usable: Float,
        home: Indices,
        choosing: Bool,
        columns: Indices,
        unit: Float,
        rates: Float,
        bases: Float,
        low: Float,
    ) -> None:
        self.loads, self.group, self.home, self.usable = loads, group, home, usable
        self.unit, self.rates, self.bases, self.low = unit, rates, bases, low
        self.n_rows, self.n_groups = len(usable), len(unit)
        self.choosing, self.n_choosing = choosing | (low > 0), int(choosing.sum())
        self.column = np.zeros(len(group), dtype=bool)
        self.column[columns] = self.column[home] = True
        self.column &= self.choosing[group]
        self.closed = np.zeros(len(group), dtype=bool)
        # the basis: which pairs, rows of groups and lower bounds are basic, and the places of the level and capacities
        self.of_pair, self.of_group, self.of_low = np.zeros(len(group), bool), np.zeros(len(unit), bool), low > 0
        self.of_row, self.of_level = np.full(self.n_rows, BASIC), BASIC
        self.of_pair[home] = True
        # z is basic in place of the row that it fills first
        self.of_row[int((loads[:, home] @ rates / np.where(usable > 0, usable, np.inf)).argmax())] = UPPER
        self.simplex, self.size = Simplex(), 1.0
        self.rng = np.random.default_rng(0)
        self.passed = False  # whether HiGHS has the present program

    def change(self, rates: Float, bases: Float) -> None:
        """Change what groups must hold to ``bases + rates z``, and which of them choose if not all do."""
        self.rates, self.bases, self.passed = rates, bases, False
        if self.choosing.all():
            return
        basic = np.flatnonzero(self.of_pair)
        group, pair = self.group[basic], np.zeros(self.n_groups, dtype=np.intp)
        pair[group] = basic
        # groups with one basic pair and no slack hold all on it: it becomes their home, with neither row nor column
        alone = self.choosing & (np.bincount(group, minlength=self.n_groups) == 1) & ~self.of_group & (self.low == 0)
        alone[group[self.closed[basic]]] = False
        self.home[alone] = pair[alone]
        self.choosing &= ~alone
        self.column &= self.choosing[self.group]
        drawn = np.zeros(self.n_groups, dtype=bool)
        drawn[self.rng.choice(self.n_groups, min(self.n_choosing, self.n_groups), replace=False)] = True
        some = self.rng.random(len(self.group)) * len(self.group) < SOME * self.n_groups
        self._choose(drawn, some & ~self.closed)

    def _choose(self, groups: Bool, pairs: Bool) -> None:
        """Let groups choose between their homes and some pairs."""
        new = groups & ~self.choosing
        self.choosing |= new
        self.column |= pairs & groups[self.group]
        self.column[self.home[new]] = True  # which is in the last basis

    def close(self, pairs: Indices) -> None:
        """Fix pairs at 0; groups whose home is closed choose between their other pairs."""
        self.closed[pairs] = True
        lost = self.closed[self.home] & ~self.choosing
        if lost.any():
            self._choose(lost, ~self.closed)
        self.passed = False

    def in_units(self, unit: Float) -> None:
        """Change the units of groups."""
        self.unit, self.passed = unit, False

    def restart(self, groups: Indices, home: Indices, choosing: Bool, columns: Indices, rows: Indices) -> None:
        """Begin with other homes of some groups, as at first; the ``rows`` are those that fill first, in order."""
        mine = np.zeros(self.n_groups, dtype=bool)
        mine[groups] = True
        self.of_pair &= ~mine[self.group]
        self.of_pair[home] = True
        self.of_group[groups], self.home[groups] = False, home
        self.choosing[groups] = choosing | (self.low[groups] > 0)
        self.column &= ~mine[self.group]
        self.column[columns] = self.column[home] = True
        self.column &= self.choosing[self.group]
        # as many rows are full as others than these have more than one basic number, and one for the level
        basic = (
            int((self.of_pair & self.choosing[self.group]).sum()) + int(self.of_group.sum()) + int(self.of_low.sum())
        )
        more = basic - int(self.choosing.sum()) - int((self.low > 0).sum())
        self.of_row, self.of_level = np.full(self.n_rows, BASIC), BASIC
        self.of_row[rows[: more + 1]] = UPPER
        self.passed = False

    def solve(self, clock: Clock, most: int | None = None) -> LevelOptimum | None:
        """The optimum, from the last basis; None if HiGHS finds none in time, `UNFINISHED` after ``most`` programs."""
        solved = 0
        while True:
            if solved == most:
                return UNFINISHED
            solved += 1
            if not self.passed:
                self._pass()
            if not self.simplex.run(clock):
                # where one point is left, rounding of what settled groups take may leave none
                if not self.simplex.infeasible or self.size <= SMALLEST:
                    return None
                self.size, self.passed = self.size * SMALLER, False
                continue
            values, duals = self.simplex.values, self.simplex.duals
            self._read_basis()
            more = self._entering(duals)
            if not len(more):
                self.simplex.refine()
                values, duals = self.simplex.values, self.simplex.duals
                level = float(values[0])
                amounts = np.zeros(len(self.group))
                amounts[self.home] = np.where(self.choosing, 0.0, self.bases + self.rates * level)
                amounts[self.columns] = np.maximum(values[1:], 0.0) * self.unit[self.group[self.columns]]
                return LevelOptimum(level, amounts, np.maximum(-duals[: self.n_rows], 0.0) / self.n_groups)
            groups, pairs = np.zeros(self.n_groups, dtype=bool), np.zeros(len(self.group), dtype=bool)
            groups[self.group[more]] = pairs[more] = True
            self._choose(groups, pairs)
            self.passed = False

    def _pass(self) -> None:
        """Give HiGHS the present program and basis."""
        chosen, self.columns = np.flatnonzero(self.choosing), np.flatnonzero(self.column)
        self.chosen, self.floored = chosen, np.flatnonzero(self.low > 0)
        settled, unit, loads = np.flatnonzero(~self.choosing), self.unit[chosen], self.loads
        n_rows, n_all = self.n_rows, self.n_rows + len(chosen) + len(self.floored)
        of_level: Float = np.zeros(n_rows)  # loads of settled groups, per level and constant
        constant: Float = np.zeros(n_rows)  # taken off the right sides
        if len(settled):
            at_home = loads[:, self.home[settled]]
            of_level, constant = at_home @ self.rates[settled], at_home @ self.bases[settled]
        group, place = self.group[self.columns], np.full(self.n_groups, -1)
        place[chosen] = n_rows + np.arange(len(chosen))
        entries = np.diff(loads.indptr)[self.columns]
        first = np.concatenate([[0], np.cumsum(entries)])
        flat = np.arange(first[-1]) + np.repeat(loads.indptr[self.columns] - first[:-1], entries)
        level_rows = np.concatenate([np.flatnonzero(of_level), place[chosen]])
        rows = [level_rows, loads.indices[flat], place[group]]
        of_pairs = loads.data[flat] * np.repeat(self.unit[group], entries)
        values = [of_level[of_level != 0], -self.rates[chosen] / unit, of_pairs]
        number = 1 + np.arange(len(group))
        columns = [np.zeros(len(level_rows), dtype=np.intp), np.repeat(number, entries), number]
        values.append(np.ones(len(group)))
        if len(self.floored):
            place[:] = -1
            place[self.floored] = n_rows + len(chosen) + np.arange(len(self.floored))
            low = place[group] >= 0
            rows, columns = [*rows, place[group][low]], [*columns, number[low]]
            values.append(np.ones(int(low.sum())))
        shape = n_all, 1 + len(group)
        order = np.concatenate(columns).argsort(kind="stable")
        least = [np.full(n_rows, -np.inf), self.bases[chosen] / unit, (self.low / self.unit)[self.floored]]
        starts = np.searchsorted(np.concatenate(columns)[order], np.arange(shape[1] + 1))
        places = np.concatenate([self.of_row, self.of_group[chosen], self.of_low[self.floored]])
        self.simplex.give(
            np.append(-float(self.n_groups), np.zeros(len(group))),  # multipliers of groups are near 1
            (np.zeros(1 + len(group)), np.append(np.inf, np.where(self.closed[self.columns], 0.0, np.inf))),
            (np.concatenate(least), np.append(self.usable - constant, np.full(n_all - n_rows, np.inf))),
            sp.csc_array((np.concatenate(values)[order], np.concatenate(rows)[order], starts), shape=shape),
            (np.append(self.of_level, self.of_pair[self.columns]).astype(np.intp), places.astype(np.intp)),
            self.size,
        )
        self.passed = True

    def _read_basis(self) -> None:
        """Keep what is basic for the next program."""
        columns, rows = self.simplex.of_columns, self.simplex.of_rows
        self.of_level, self.of_row = int(columns[0]), rows[: self.n_rows]
        self.of_pair[self.columns] = columns[1:] == BASIC
        self.of_group[self.chosen], self.of_low[self.floored] = np.split(
            rows[self.n_rows :] == BASIC, [len(self.chosen)]
        )

    def _entering(self, duals: Float) -> Indices:
        """The pairs of most negative reduced cost, a few of each group, that become columns."""
        if self.column.all():
            return np.zeros(0, dtype=np.intp)
        # a settled group pays what its home costs, one that chooses the multiplier of its row
        cost = self.loads.T @ -duals[: self.n_rows]
        multiplier = cost[self.home]
        multiplier[self.chosen] = np.maximum(duals[self.n_rows :][: len(self.chosen)], 0.0) / self.unit[self.chosen]
        multiplier[self.floored] += np.maximum(duals[self.n_rows + len(self.chosen) :], 0.0) / self.unit[self.floored]
        multiplier = multiplier[self.group]
        gain = multiplier - cost  # minus the reduced cost
        least = np.maximum(NOISE * multiplier, (TOLERANCE / self.unit)[self.group])  # HiGHS ignores less
        pairs = np.flatnonzero((gain > least) & ~self.column & ~self.closed)
        gain = gain[pairs] * self.unit[self.group[pairs]]
        order = np.lexsort((-gain, self.group[pairs]))
        pairs, gain = pairs[order], gain[order]
        first = np.searchsorted(self.group[pairs], self.group[pairs])
        few = np.arange(len(pairs)) - first < MORE
        new = ~self.choosing[self.group[pairs]]
        largest = gain[new & (first == np.arange(len(pairs)))]
        if len(largest) > AT_ONCE:
            # all groups at once would be the whole program; those of the largest reduced costs change prices for the
            # others
            few &= ~new | (gain[first] >= -np.partition(-largest, AT_ONCE)[AT_ONCE])
        return pairs[few]
