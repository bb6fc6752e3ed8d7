"""The leximin of members' shares inside teams whose totals are kept.

With shares ``s_u = sum_p c_p x_p`` of members u, totals T of teams, and rows ``low <= A x <= high``, it is

    leximin of s_u / w_u   subject to   sum of s_u over the team = T,   low <= A x <= high,   bounds on tasks.

A team whose members touch no row that binds is filled by itself: its members rise together until they have its total
(`risen`, a sort). Rows are added as they are broken (a relaxation whose optimum is feasible is optimal), and on one
pool what they do not connect is solved apart. There the members that are still free rise together, each up to its own
team's level, until rows stop some of them: those whose multipliers are positive stay where they are (Danna et al.
2012). That level L is the root of ``sum_u pi_u clip(L w_u, floor_u, end_u) = V`` for multipliers pi that pay at most V.
It is found by Newton's method on linear programs which differ in one column and in bounds, from the last basis.

Why not one program per member, as in `fairopt.solve.cone.leximin`: teams may have thousands of members, most of whom
closed forms settle, and a level takes one program in most cases (all of 35 on small draws). All programs together have
so many steps (`MOST_WORK`); then the split is left open, and the certificate's note says so.

In floats the totals are the answer's, good to 1e-9, so that the program may have no point: all bounds are widened to
what the present tasks use, and each program starts from a feasible point. What multipliers fix is proved by
`fairopt.proof.inside_teams`, which decides what the note may claim (docs/methods/cone.md, *The split inside teams*).
"""

from __future__ import annotations

import numpy as np

from fairopt.instance.teams import sums_by
from fairopt.proof.inside_teams import InsideTeams, SplitDual
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import csgraph, sp
from fairopt.runtime.tolerances import NOISE, ROUNDING
from fairopt.solve.cone.levels import SIZES
from fairopt.solve.cone.solve import _SolverFailed
from fairopt.solve.form.simplex import BASIC, DUAL, LOWER, PRIMAL, UPPER, Simplex
from fairopt.solve.form.solvers import LATE
from fairopt.solve.settings import Settings

NEAR = 1e-10  # relative: levels that near are one
CLOSE = 1e-8  # of an equal part of a team's total: members that near to their team's level are at it
PAID = 1e-9  # of what a level's members pay: prices below are noise
BUSY = 0.3  # of the terms of a row where each team is by itself: by how much more it may hold
SHRUNK = 0.6  # of columns: where programs are written anew
MAX_COLUMNS = 4_000  # columns of a program: with 9,000 it took 0.1 s, and there are hundreds of programs
MOST_WORK = 2e6  # of all programs, steps of the simplex method times rows and columns: 0.2 s
SETUP = 50  # steps that take as long as giving a program to HiGHS and refining its answer
LONG = 3  # times the rows and columns squared of the largest program, where that is more
MOST_STEPS = 60  # of Newton's method


def risen(group: Indices, slope: Float, start: Float, end: Float, total: Float) -> Float:
    """The level L of each group at which ``sum of slope * clip(L, start, end)`` is its total."""
    n, ending = len(total), np.isfinite(end)
    of, at = np.concatenate([group, group[ending]]), np.concatenate([start, end[ending]])
    change = np.concatenate([slope, -slope[ending]])
    order = np.lexsort((at, of))
    of, at, change = of[order], at[order], change[order]
    first = np.searchsorted(of, np.arange(n))
    rate = np.cumsum(change)
    rate = rate - np.append(0.0, rate)[first][of]  # after each event, of its group alone
    grown = np.append(0.0, np.where(of[1:] == of[:-1], rate[:-1] * (at[1:] - at[:-1]), 0.0)) if len(of) else at
    grown = np.cumsum(grown)  # over all groups: what came before a group is subtracted
    value = sums_by(group, slope * start, n)[of] + grown - grown[np.minimum(first, len(of) - 1)][of]
    last = first + np.maximum(np.bincount(of[value <= total[of]], minlength=n), 1) - 1
    last = np.minimum(last, len(of) - 1)
    more = np.maximum(total - value[last], 0.0)
    fastest = np.zeros(n)
    np.maximum.at(fastest, of, rate)
    # a rate that is rounding of the group's fastest one counts as 0: the level would be anywhere
    return at[last] + np.divide(more, rate[last], out=np.zeros(n), where=rate[last] > ROUNDING * fastest)


class Split:
    """The split so far: ``floor`` (n_members,) is where members are fixed, or the least that free ones are."""

    def __init__(self, inside: InsideTeams, settings: Settings) -> None:
        self.inside, self.settings, self.programs = inside, settings, 0
        self.work, self.most_work = 0.0, MOST_WORK
        self.duals: list[SplitDual] = []
        self.tasks = inside.tasks

    def fill(self) -> None:
        """Find the tasks, and the multipliers that prove them."""
        inside = self.inside
        alone = self.levels(inside.lowest, np.ones(len(inside.users), dtype=bool))
        first = alone / inside.c if inside.single else inside.tasks
        every, columns = np.arange(len(inside.low)), np.arange(len(inside.user))
        active = np.ones(len(inside.low), dtype=bool)
        if inside.single:  # those that are full, or may be
            used = inside.table @ first + BUSY * (inside.sizes @ first)
            used = np.maximum(used, inside.table @ inside.tasks)
            active = (used >= inside.high * (1 - NOISE)) | np.isfinite(inside.low)
        while True:
            self.tasks, self.duals = first.copy(), []
            self.floor, self.free = inside.lowest.copy(), np.ones(len(inside.users), dtype=bool)
            self.reached = inside.tasks.copy()  # from where programs are feasible
            self.fill_parts(every[active], columns, inside.low, inside.high)
            broken = ~active & self.broken(self.tasks, every, columns, inside.low, inside.high)
            if not broken.any():
                return
            active |= broken | (len(columns) <= MAX_COLUMNS)

    def fill_parts(self, rows: Indices, columns: Indices, low: Float, high: Float) -> None:
        """Fill the teams of some columns, apart where no row connects them, between these bounds of all rows."""
        alone = self.levels(self.floor, self.free)
        for some, mine in self.connected(rows, columns):
            if self.inside.single:
                tasks = alone[self.inside.user[mine]] / self.inside.c[mine]
                if not self.broken(tasks, some, mine, low, high).any():
                    self.tasks[mine] = tasks
                    continue
            _Part(self, some, mine, low[some], high[some]).fill()

    def prove(self, dual: SplitDual, members: Indices) -> None:
        """Keep what fixes some members; whose team was settled before pays for what its tasks cost."""
        inside, mu, pi = self.inside, dual.of_totals.copy(), dual.of_members.copy()
        if inside.single:
            cost = (inside.table.T @ dual.of_rows) / inside.c
            others = np.ones(inside.n_teams, dtype=bool)
            others[inside.team[members]] = False
            np.maximum.at(mu, inside.team, np.where(others[inside.team], -cost, -np.inf))
            pi = np.where(others[inside.team], np.maximum(cost + mu[inside.team], 0.0), pi)
        self.duals.append(SplitDual(dual.members, dual.of_rows, mu, pi))

    def levels(self, floor: Float, free: Bool) -> Float:
        """Where free members are if each team by itself has its total, the others being at the floor."""
        inside = self.inside
        left = inside.totals - sums_by(inside.team[~free], floor[~free], inside.n_teams)
        if not free.any():
            return floor.copy()
        w, some = inside.w[free], np.unique(inside.team[free])
        start, end = floor[free] / w, inside.most[free] / w
        level = risen(np.searchsorted(some, inside.team[free]), w, start, np.maximum(start, end), left[some])
        out = floor.copy()
        out[free] = np.clip(level[np.searchsorted(some, inside.team[free])], start, np.maximum(start, end)) * w
        return out

    def broken(self, tasks: Float, rows: Indices, columns: Indices, low: Float, high: Float) -> Bool:
        """Which of some rows tasks in some columns break, given the bounds of all rows."""
        inside = self.inside
        every = np.zeros(len(inside.c))
        every[columns] = tasks
        used, size = ((table @ every)[rows] for table in (inside.table, inside.sizes))
        return (used > high[rows] + ROUNDING * size) | (used < low[rows] - ROUNDING * size)

    def connected(self, rows: Indices, columns: Indices) -> list[tuple[Indices, Indices]]:
        """Some rows and the columns of some teams, apart where no row connects them; on servers all together."""
        inside = self.inside
        if not inside.single:
            return [(rows, columns)]
        teams, team = np.unique(inside.team[inside.user[columns]], return_inverse=True)
        touched = sp.coo_array(inside.table[rows][:, columns])
        some, row = np.unique(touched.row, return_inverse=True)
        rows, team_of_entry = rows[some], team[touched.col]
        size = len(rows) + len(teams)
        both = sp.csr_array((np.ones(len(row)), (row, len(rows) + team_of_entry)), shape=(size, size))
        n, label = csgraph.connected_components(both, directed=False)
        of_row, of_column = label[: len(rows)], label[len(rows) :][team]
        order, ends = np.argsort(of_column, kind="stable"), np.cumsum(np.bincount(of_column, minlength=n))
        bare = ~np.isin(np.arange(n), of_row)  # teams that touch no row, each by itself
        parts = [(rows[of_row == k], columns[order[ends[k - 1] if k else 0 : ends[k]]]) for k in np.flatnonzero(~bare)]
        return [*parts, (rows[:0], columns[bare[of_column]])]


class _Part:
    """Teams that rows connect. Columns are tasks; members of one pair have those of their floor besides."""

    def __init__(self, split: Split, rows: Indices, columns: Indices, low: Float, high: Float) -> None:
        if len(columns) > MAX_COLUMNS:
            raise _SolverFailed(f"{len(columns)} tasks are open")
        self.split, self.inside, self.rows, self.columns = split, split.inside, rows, columns
        self.low, self.high = low, high
        inside = self.inside
        self.members, self.user = np.unique(inside.user[columns], return_inverse=True)
        teams, self.team = np.unique(inside.team[self.members], return_inverse=True)
        self.teams = teams
        self.c, self.w = inside.c[columns], inside.w[self.members]
        # on one pool a member without bounds has one column: its share is the column itself, and needs no row
        bare = inside.single & ~inside.limited[self.members] & (inside.lowest[self.members] <= 0)
        self.bare, self.others = bare[self.user], np.flatnonzero(~bare)  # those with a row of their own
        # an equal part of the team's total; of a total of nearly nothing a part of the largest one
        unit = np.maximum(inside.equal_parts, NOISE * inside.equal_parts.max(initial=0.0))[self.members]
        self.unit = np.where(unit > 0, unit, 1.0)
        self.scale = (self.unit / self.per_member(self.c))[self.user]
        self.table = sp.csr_array(inside.table[rows][:, columns])
        self.totals_table = sp.csr_array(inside.totals_table[teams][:, columns])
        self.tasks = split.reached[columns]
        self.floor, self.free = split.floor[self.members], split.free[self.members]
        self.bounds: list[tuple[SplitDual, float]] = []  # multipliers so far, and what they pay at most
        self._write()

    def per_member(self, by_column: Float) -> Float:
        """The largest value of each member's columns."""
        out = np.zeros(len(self.members))
        np.maximum.at(out, self.user, by_column)
        return out

    def _write(self) -> None:
        """Write what all programs have in common."""
        table, mine = self.table, np.flatnonzero(~self.bare)
        row = np.repeat(np.arange(len(self.rows)), np.diff(table.indptr))
        entries = table.data * self.scale[table.indices]
        largest = np.zeros(len(self.rows))
        np.maximum.at(largest, row, np.abs(entries))
        self.of_rows = np.where(largest > 0, 1.0 / np.where(largest > 0, largest, 1.0), 1.0)
        self.scaled = sp.csr_array((entries * self.of_rows[row], table.indices, table.indptr), shape=table.shape)
        self.of_teams = 1.0 / np.where(self.inside.totals[self.teams] > 0, self.inside.totals[self.teams], 1.0)
        of_team, shares = self.team[self.user], self.c * self.scale
        member = np.searchsorted(self.others, self.user[mine])
        self.own = (  # rows, columns and entries of teams and members
            np.concatenate([of_team, len(self.teams) + member]),
            np.concatenate([np.arange(len(self.columns)), mine]),
            np.concatenate([shares * self.of_teams[of_team], shares[mine] / self.unit[self.others][member]]),
        )
        used = self.table @ self.tasks
        self.kept = self.worst(np.maximum(used - self.high, self.low - used) * self.of_rows, -NEAR)
        self.simplex = Simplex(self.split.settings.verbose)
        self.basis: tuple[Indices, Indices] | None = None
        self.sizes: tuple[float, ...] = SIZES
        self._assemble()

    def worst(self, beyond: Float, least: float) -> Indices:
        """The rows that are beyond their bounds by more than that; of many the worst of each column and sign."""
        rows = np.flatnonzero(beyond > least)
        if len(rows) <= len(self.columns):
            return rows
        table = sp.coo_array(self.scaled[rows])
        key = 2 * table.col + (table.data > 0)
        order = np.lexsort((-beyond[rows][table.row], key))
        return rows[np.unique(table.row[order[np.unique(key[order], return_index=True)[1]]])]

    def _assemble(self) -> None:
        """Write the rows that are kept below those of teams and members, with a column for z."""
        kept, first = sp.coo_array(self.scaled[self.kept]), len(self.teams) + len(self.others)
        n, p = first + len(self.kept), len(self.columns)
        row, column, entries = self.own
        row = np.concatenate([row, first + kept.row, np.arange(n)])
        column = np.concatenate([column, kept.col, np.full(n, p)])
        entries = np.concatenate([entries, kept.data, np.ones(n)])
        self.template = sp.csc_array((entries, (row, column)), shape=(n, p + 1))
        self.split.most_work = max(self.split.most_work, LONG * float(sum(self.template.shape)) ** 2)

    def fill(self) -> None:
        """Fix members level by level; without the teams that are settled once these are many."""
        split = self.split
        while self.free.any():
            split.floor[self.members], split.free[self.members] = self.floor, self.free
            end = split.levels(split.floor, split.free)[self.members]
            dual = self.next_level(end)
            if dual is None:
                break
            rising = self.free & (self.floor < end - CLOSE * self.unit)
            paid = dual.of_members[self.members] * self.unit * self.free
            fixed = rising & (paid > PAID * paid.max(initial=0.0))
            if fixed.any():
                dual = SplitDual(self.members[fixed], dual.of_rows, dual.of_totals, dual.of_members)
                split.prove(dual, self.members)
            elif rising.sum() == self.free.sum():
                raise _SolverFailed(f"multipliers of program {split.programs} fix nothing")
            self.free = rising & ~fixed  # who reached its own team's level is settled too, without multipliers
            still = np.bincount(self.team[self.free], minlength=len(self.teams)) > 0
            open_columns = still[self.team[self.user]]
            if self.inside.single and 0 < open_columns.sum() < SHRUNK * len(open_columns):
                self.report()
                rest = np.where(open_columns, 0.0, self.tasks)
                low, high = self.inside.low.copy(), self.inside.high.copy()
                low[self.rows], high[self.rows] = self.low - self.table @ rest, self.high - self.table @ rest
                split.fill_parts(self.rows, self.columns[open_columns], low, high)
                return
        self.report()

    def report(self) -> None:
        """Tell the split where the part is."""
        split = self.split
        split.floor[self.members], split.free[self.members] = self.floor, self.free
        split.tasks[self.columns] = split.reached[self.columns] = self.tasks

    def next_level(self, end: Float) -> SplitDual | None:
        """Raise the floor to the largest level of the free members, each up to its own end.

        The multipliers bound that level; there are none if all are at their end.
        """
        free, w = self.free, self.w
        top, dual = self.bound(end)
        for _ in range(MOST_STEPS):
            start = np.where(free, (self.floor / w)[free].min() * w, self.floor)  # lower bounds are rows of their own
            rates = np.where(free, np.maximum(np.minimum(top * w, end) - start, 0.0), 0.0)
            if (start + rates <= self.floor + CLOSE * self.unit).all():
                break
            part, solved = self.solve(start, rates)
            reached = np.maximum(start + part * rates, self.floor)
            if (1 - part) * float((rates / self.unit).max()) <= CLOSE:  # Newton's last step
                self.floor = reached
                break
            self.bounds.append((solved, float(solved.of_members[self.members] @ (start + part * rates))))
            root, dual = self.bound(end, fresh=True)
            rounded, top = root >= top * (1 - NEAR), root
            if rounded or (np.minimum(root * w, end) <= reached + CLOSE * self.unit)[free].all():
                self.floor = reached
                break
        return dual

    def bound(self, end: Float, fresh: bool = False) -> tuple[float, SplitDual | None]:
        """The least bound on the level of the free members, and its multipliers; none if all may be at their end.

        Multipliers of earlier programs bound what members have now too, since only floors differ; but where what
        free members pay is noise. The last ones, if ``fresh``, are of the present floors.
        """
        free, w = self.free, self.w
        top, dual = float((end / w)[free].max()), None
        if not self.bounds:
            return top, dual
        of_members = np.array([one.of_members[self.members] for one, _ in self.bounds])
        left = np.array([value for _, value in self.bounds]) - of_members[:, ~free] @ self.floor[~free]
        slopes, paid = of_members[:, free] * w[free], of_members * self.unit
        noise = np.where(fresh & (np.arange(len(paid)) == len(paid) - 1), 0.0, PAID)
        some, low = np.flatnonzero(paid[:, free].max(axis=1) > noise * paid.max(axis=1)), (self.floor / w)[free]
        self.bounds = [self.bounds[k] for k in some]  # free members only get fewer
        if not len(some):
            return top, dual
        ends, n = np.maximum((end / w)[free], low), len(some)
        group = np.repeat(np.arange(n), len(low))
        roots = risen(group, slopes[some].ravel(), np.tile(low, n), np.tile(ends, n), left[some])
        best = int(np.argmin(roots))
        return (float(roots[best]), self.bounds[best][0]) if roots[best] < top else (top, dual)

    def solve(self, floor: Float, rates: Float) -> tuple[float, SplitDual]:
        """The largest z <= 1 such that all members have ``floor + rates z``, and its dual solution.

        Rows are added as they are broken. The last column is z in units of the largest rise.
        """
        inside, simplex = self.inside, self.simplex
        largest = float((rates / self.unit).max())
        rates = rates / largest
        here = self.c * self.tasks
        based = np.where(self.bare, np.minimum(floor[self.user], here) / self.c, 0.0)  # so that z = 0 is feasible
        rate = np.where(self.bare, rates[self.user] / self.c, 0.0)
        used, of_teams = self.table @ self.tasks, self.totals_table @ self.tasks
        # what the present tasks use beyond a row, by rounding, is allowed: z = 0 is feasible
        low, high = np.minimum(self.low, used), np.maximum(self.high, used)
        totals = (of_teams - self.totals_table @ based) * self.of_teams
        shares = sums_by(self.user, here, len(self.members))[self.others]
        above = np.minimum(floor[self.others], shares) / self.unit[self.others]
        common = np.concatenate([totals, above]), np.concatenate([totals, np.full(len(above), np.inf)])
        beside = np.concatenate([self.totals_table @ rate * self.of_teams, -(rates / self.unit)[self.others]])
        fixed, rising = self.table @ based, self.table @ rate * self.of_rows
        p = len(self.columns)
        least, most = inside.least_tasks[self.columns], inside.most_tasks[self.columns]
        free = self.bare | (not inside.single) & (most > 0)
        smallest = np.where(self.bare, 0.0, np.minimum(least, self.tasks) / self.scale)
        bounds = (
            np.append(smallest, 0.0),
            np.append(np.where(free, np.inf, np.maximum(most, self.tasks) / self.scale), largest),
        )
        first = DUAL if self.basis is None else PRIMAL
        while True:
            kept = self.kept
            rows = [
                np.append(start, ((side - fixed) * self.of_rows)[kept])
                for start, side in zip(common, (low, high), strict=True)
            ]
            self._optimise(bounds, (rows[0], rows[1]), np.append(beside, rising[kept]), first)
            z = min(max(float(simplex.values[p]), 0.0), largest)
            tasks = np.maximum(simplex.values[:p], 0.0) * self.scale + based + rate * z
            used = self.table @ tasks
            beyond = np.maximum(used - high, low - used) * self.of_rows
            beyond[kept] = -np.inf
            added, first = self.worst(beyond, NEAR), DUAL
            if not len(added):
                break
            self.kept = np.append(kept, added)
            self.basis = simplex.of_columns, np.append(simplex.of_rows, np.full(len(added), BASIC))
            self._assemble()
        duals = -simplex.duals  # refined: what is 1e-12 of the largest is 0
        duals[np.abs(duals) <= ROUNDING * np.abs(duals).max(initial=0.0)] = 0.0
        self._keep(tasks)
        y = np.zeros(len(inside.low))
        mu, pi = np.zeros(inside.n_teams), np.zeros(len(inside.users))
        t, n = len(self.teams), len(self.teams) + len(self.others)
        y[self.rows[kept]], mu[self.teams] = duals[n:] * self.of_rows[kept], duals[:t] * self.of_teams
        cost = self.table.T @ y[self.rows] + self.totals_table.T @ mu[self.teams]
        pi[self.members[self.user[self.bare]]] = np.maximum(cost, 0.0)[self.bare] / self.c[self.bare]
        pi[self.members[self.others]] = np.maximum(-duals[t:n], 0.0) / self.unit[self.others]
        return z / largest, SplitDual(np.zeros(0, dtype=np.intp), y, mu, pi)

    def _optimise(self, bounds: tuple[Float, Float], rows: tuple[Float, Float], of_z: Float, first: int) -> None:
        """Maximise z, with these entries in its column."""
        check("the solver HIGHS (and giving it programs)")
        split, simplex = self.split, self.simplex
        if split.settings.clock.late:
            raise _SolverFailed(LATE)
        size_of_all = sum(self.template.shape)
        steps_left = int((split.most_work - split.work) / size_of_all) - SETUP
        if steps_left <= 0:
            raise _SolverFailed(f"{split.programs} programs are not enough")
        split.programs += 1
        entries = self.template.data.copy()
        entries[self.template.indptr[-2] :] = of_z
        matrix = sp.csc_array((entries, self.template.indices, self.template.indptr), shape=self.template.shape)
        costs = np.append(np.zeros(len(self.columns)), -1.0)
        if self.basis is None:
            self.basis = self.first_basis(len(rows[0]))
        # counted in steps, not seconds, so that the answer does not depend on the machine
        simplex.highs.setOptionValue("simplex_iteration_limit", steps_left)
        for size in self.sizes:
            simplex.give(costs, bounds, rows, matrix, self.basis, size)
            solved = simplex.run(split.settings.clock, first)
            split.work += (SETUP + max(simplex.highs.getInfo().simplex_iteration_count, 0)) * size_of_all
            if solved:
                self.sizes = SIZES[SIZES.index(size) :]  # what failed once is not tried again
                break
        else:
            raise _SolverFailed(LATE if split.settings.clock.late else f"no optimum of program {split.programs}")
        self.basis = simplex.of_columns, simplex.of_rows
        simplex.refine()

    def first_basis(self, n_rows: int) -> tuple[Indices, Indices]:
        """Where z is at its bound, which is dual feasible, and members with a row are where it ends, on one pair."""
        of_columns, of_rows = np.full(len(self.columns) + 1, LOWER), np.full(n_rows, BASIC)
        order = np.lexsort((-self.c * self.tasks, self.user))
        main = order[np.searchsorted(self.user[order], self.others)]
        of_columns[main], of_columns[-1] = BASIC, UPPER
        of_rows[len(self.teams) + np.arange(len(self.others))] = LOWER
        return of_columns, of_rows

    def _keep(self, tasks: Float) -> None:
        """Keep tasks as the point from which the next program is feasible, with the totals as given."""
        had = np.asarray(self.totals_table @ tasks)  # equations hold to HiGHS's 1e-10: what is missed would add up
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(had > 0, self.inside.totals[self.teams] / had, 1.0)
        self.tasks = tasks * times[self.team[self.user]]
