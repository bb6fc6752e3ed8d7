"""The linear program of one level of numbers, kept in HiGHS.

Of numbers ``z_t = sum_p c_p x_p - b_t`` with weights w_t it is

    max h   subject to   z_t - w_t h >= 0 for free t,   z_t >= floor_t for fixed t,   and the program's rows.

A free number whose row has a positive multiplier is at ``w_t h`` in every optimum, and is fixed. From level to level
only entries and bounds change, and the basis stays: for 60 demands over two paths each the first program took 70 steps
of the simplex method, and later ones 5. With very many users few pairs are columns; the others stay at a bound until
their reduced cost is of the wrong sign (Dantzig and Wolfe 1960).

In floats there are three difficulties. HiGHS's tolerance of 1e-10 is absolute: columns are in units of a user's tasks,
rows in units of their right sides, and all together in turn in units of 1e3 to 1 (`SIZES`). Fixed numbers leave a point
where rounding may leave none: rows of blocks are loosened by 1e-12 if no size is solved (`LOOSE`). Small prices are
rounded by more than ties allow: the basis is solved again (`Simplex.refine`), and `polished` has the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.proof.dual import Dual
from fairopt.proof.number_level_bounds import NumberBounds
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import NOISE, ROUNDING, TERM_ROUNDING
from fairopt.solve import infeasible
from fairopt.solve.cone.levels import SIZES
from fairopt.solve.cone.solve import _SolverFailed
from fairopt.solve.form.simplex import DUAL, LOWER, PRIMAL, UPPER, Simplex
from fairopt.solve.form.solvers import LATE
from fairopt.solve.settings import Settings

STEP = 1e-3  # of a number: the rise that is tested
# Of a row's unit: HiGHS calls rows infeasible that are broken by rounding on a single point. A last resort: none of 156
# draws of teams, jobs, paths and mixed units needed it.
LOOSE = 1e-12
FAR = 1e3  # numbers so far from their rows' units need other units
MARGIN = 64 * TERM_ROUNDING  # relative: reduced costs that near to zero are rounding


class Found(NamedTuple):
    """The largest z, the rises of numbers in units of `STEP`, and the dual solution; it fixes nothing yet."""

    level: float
    rises: Float
    dual: Dual


class NumberPrograms:
    """Linear programs of levels: each number t is at least ``bases + rates z``.

    Rows are capacities, users' limits (on several servers), further rows and numbers. Columns are the tasks of pairs in
    units of about one user's tasks, z, and the rise of each number. Only ``columns`` (indices of pairs) vary; the
    other pairs stay at ``tasks``, and those whose costs say otherwise are added (column generation).
    """

    def __init__(self, bounds: NumberBounds, settings: Settings, columns: Indices, tasks: Float) -> None:
        self.bounds, self.program, self.settings = bounds, bounds.program, settings
        most = self.program.most
        size = np.where(most > 0, np.minimum(self.program.size, most), self.program.size)
        # columns near 1: the estimate of a user's tasks, or all that it can run if that is less
        self.scale, self.solves = size[bounds.pairs.user], 0
        single = self.program.single
        self.least = self.program.low if single else np.zeros(len(tasks))
        self.most = np.where(self.program.zero_pairs, 0.0, self.program.most if single else np.inf)
        self.tasks, self.columns, self.units = tasks, columns, np.zeros(0)
        self.simplex = Simplex(settings.verbose)
        self.sizes: tuple[float, ...] = SIZES  # that are still to be tried
        self.basis: tuple[Indices, Indices] | None = None
        self._write()

    def _write(self) -> None:
        """Write the rows that all levels have in common in the columns."""
        program, pairs, columns = self.program, self.bounds.pairs, self.columns
        scale = self.scale[columns]
        at_rest = self.tasks.copy()
        at_rest[columns] = 0.0
        self.rows = np.flatnonzero(program.usable_rows > 0)
        parts = [(program.rows.columns(columns)[self.rows], np.ones(len(self.rows)))]
        low, high = [np.full(len(self.rows), -np.inf)], [(program.usable_rows - program.rows.load(at_rest))[self.rows]]
        if not program.single:
            limited = np.flatnonzero((program.low > 0) | np.isfinite(program.high))
            unit = program.size[limited]
            parts.append((pairs.totals[limited], unit))  # all pairs are columns
            low, high = [*low, program.low[limited] / unit], [*high, program.high[limited] / unit]
        self.before_further, self.further_units = sum(len(unit) for _, unit in parts), [np.zeros(0)]
        for one in program.rows.further:
            table = sp.coo_array(one.rows.per_task)
            largest = np.zeros(len(one.rows))
            np.maximum.at(largest, table.row, np.abs(table.data) * self.scale[table.col])
            # by the right side, but not so that the largest entry is above 1e9
            unit = np.maximum(one.rows.units(self.scale), NOISE * largest)
            parts.append((one.rows.per_task[:, columns], unit))
            right = (one.rows.right - one.rows.load(at_rest)) / unit
            low, high = [*low, right if one.rows.equal else np.full(len(right), -np.inf)], [*high, right]
            self.further_units.append(unit)
        tables, units = [sp.coo_array(table) for table, _ in parts], np.concatenate([unit for _, unit in parts])
        first = np.cumsum([0, *(table.shape[0] for table in tables[:-1])])
        row = np.concatenate([k + table.row for k, table in zip(first, tables, strict=True)])
        column = np.concatenate([table.col for table in tables])
        entries = np.concatenate([table.data for table in tables])
        self.fixed = row, column, entries * scale[column] / units[row]
        per_pair, number = self.bounds.c * self.scale, self.bounds.number
        self.numbers = np.unique(number[columns])
        self.place, self.per_column = np.searchsorted(self.numbers, number[columns]), per_pair[columns]
        self.at_rest = self.bounds.at(at_rest)
        self.template: sp.csc_array | None = None
        self.low, self.high = np.concatenate(low), np.concatenate(high)

    def _matrix(self, units: Float, rates: Float) -> sp.csc_array:
        """The rows of all levels and those of numbers, in units that stay while they are about the present ones."""
        # written anew only where a unit is 1e3 times, or a thousandth, of that in the last matrix
        if self.template is None or not (self.units / FAR < units).all() or not (units < self.units * FAR).all():
            n, first, self.units = len(units), len(self.low), units
            every, p = np.arange(n), len(self.columns)
            row, column, entries = self.fixed
            row = np.concatenate([row, first + self.place, first + every, first + every])
            column = np.concatenate([column, np.arange(p), np.full(n, p), p + 1 + every])
            own = self.per_column / units[self.place]
            # ones hold the place of z's column, which is all that changes with the rates
            entries = np.concatenate([entries, own, np.ones(n), np.full(n, -STEP)])
            self.template = sp.csc_array((entries, (row, column)), shape=(first + n, p + 1 + n))
            self.template.eliminate_zeros()
        p, starts = len(self.columns), self.template.indptr
        entries = self.template.data.copy()
        entries[starts[p] : starts[p + 1]] = -rates / self.units
        return sp.csc_array((entries, self.template.indices, starts), shape=self.template.shape)

    def solve(self, bases: Float, rates: Float, units: Float, top: float = np.inf, rise: Bool | None = None) -> Found:
        """Maximise z <= ``top``, or with ``rise`` the mean rise of these numbers at z = 0, up to `STEP` of a unit."""
        while True:
            solution = self._solve(bases, rates, units, top, rise)
            if len(self.columns) == len(self.tasks) or not self._add(solution.dual):
                return solution

    def _solve(self, bases: Float, rates: Float, units: Float, top: float, rise: Bool | None) -> Found:
        check("the solver HIGHS (and giving it programs)")
        if self.settings.clock.late:
            raise _SolverFailed(LATE)
        self.solves += 1
        some, n_all, p = self.numbers, len(bases), len(self.columns)
        matrix, n = self._matrix(units[some], rates[some]), len(some)
        per = 1.0 / self.units
        rising = np.zeros(n) if rise is None else rise[some].astype(float)
        costs = -np.concatenate([np.zeros(p), [float(rise is None)], rising / max(rising.sum(), 1.0)])
        scale = self.scale[self.columns]
        least, most = self.least[self.columns] / scale, self.most[self.columns] / scale
        bounds = (
            np.concatenate([least, np.zeros(1 + n)]),
            np.concatenate([most, [top if rise is None else 0.0], rising]),
        )
        least_rows = np.concatenate([self.low, (bases - self.at_rest)[some] * per])
        most_rows = np.concatenate([self.high, np.full(n, np.inf)])
        loose = np.where(np.arange(len(least_rows)) < self.before_further, 0.0, LOOSE)
        simplex = self.simplex
        for size, part in (*((size, 0.0) for size in self.sizes), (SIZES[0], 1.0), (SIZES[-1], 1.0)):
            rows = least_rows - part * loose, most_rows + part * loose
            simplex.give(costs, bounds, rows, matrix, self.basis, size)
            if simplex.run(self.settings.clock, DUAL if self.basis is None else PRIMAL):
                self.sizes = SIZES[SIZES.index(size) :]  # what failed on one level fails on the next
                break
        else:
            if simplex.infeasible:
                infeasible.explain(self.program)
            raise _SolverFailed(LATE if self.settings.clock.late else f"no optimum of program {self.solves}")
        self.basis = simplex.of_columns, simplex.of_rows
        simplex.refine()
        # refined values may leave their bounds by rounding
        self.tasks[self.columns] = np.clip(simplex.values[:p], least, most) * scale
        duals = -simplex.duals
        duals[np.abs(duals) <= ROUNDING * np.abs(duals).max(initial=0.0)] = 0.0
        prices, of_numbers, rises = np.zeros(len(self.program.usable_rows)), np.zeros(n_all), np.zeros(n_all)
        prices[self.rows] = np.maximum(duals[: len(self.rows)], 0.0)
        of_numbers[some] = np.maximum(-duals[len(self.low) :], 0.0) * per
        rises[some] = np.maximum(simplex.values[p + 1 :], 0.0)
        further = duals[self.before_further : len(self.low)] / np.concatenate(self.further_units)
        dual = Dual(prices, self.program.rows.by_constraint(further), mixtures=[of_numbers])
        return Found(float(simplex.values[p]), rises, dual)

    def _add(self, dual: Dual) -> bool:
        """Add the pairs that should not stay where they are at these prices; whether there are any."""
        _, paid, _, reduced = self.bounds.costs(dual)
        noise = MARGIN * (paid + np.abs(reduced))
        wrong = ((reduced < -noise) & (self.tasks < self.most)) | ((reduced > noise) & (self.tasks > self.least))
        wrong[self.columns] = False
        added = np.flatnonzero(wrong)
        if not len(added):
            return False
        # columns stay sorted, and the basis goes with them: new ones begin at the bound where they are
        order = np.argsort(np.concatenate([self.columns, added]), kind="stable")
        if self.basis is not None:
            p, (of_columns, of_rows) = len(self.columns), self.basis
            there = np.where(self.tasks[added] > self.least[added], UPPER, LOWER)
            of_columns = np.concatenate([np.concatenate([of_columns[:p], there])[order], of_columns[p:]])
            self.basis = of_columns, of_rows
        before = self.numbers
        self.columns = np.concatenate([self.columns, added])[order]
        self._write()
        if len(self.numbers) > len(before):
            self.basis = None  # a new number is a new row
        return True
