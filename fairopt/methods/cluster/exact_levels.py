"""The programs of leximin on servers to 150 digits, where floating point is not enough (chapter 5, exact programs).

Prices of one level may differ by many orders of magnitude. Below a solver's tolerance they are noise, which would then
decide who is fixed and which pairs are closed. Numbers are integers in units of 2 to the power -512, and numbers below
2 to the power -256 are zero.

The simplex method starts from HiGHS's basis for the first level. Values that are negative there stay so in primal
steps, and dual steps then make them feasible. At later levels the last point is feasible.

In a basis each group has a key, one pair that determines its row. The kernel, what is left without keys and slacks of
capacities, is as large as the number of full capacities, and is factorised in each step.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fairopt.methods.arrays import Bool, Float, Int
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import sp

BITS = 512
ONE = 1 << BITS
ZERO = 1 << BITS // 2  # numbers up to this are rounding
STEPS = 3000  # of one program
STALLED = 50  # degenerate steps before Bland's rule, which cannot cycle

Whole = Any  # arrays of Python's integers


class LevelOptimum(NamedTuple):
    """The largest common level, the amounts of pairs at it, and prices per whole capacity."""

    level: float | Fraction
    amounts: Float
    prices: Float


class Basic(NamedTuple):
    """A basis: whether the level is basic, and the basic slacks of rows and pairs."""

    level: bool
    rows: Int
    pairs: Int


class _Lost(Exception):
    """No optimum was found within the steps or the time allowed."""


class ExactProgram:
    """Maximise z such that each group holds at least ``bases + rates z`` and ``low``, fractions of shape (n_groups,).

    ``needs`` (n_rows, n_pairs) are demands in the units of ``capacities``: fractions of capacities would break ties of
    cost by rounding. ``group``, ``usable`` and ``unit`` are those of `LevelProgram`. Columns are z, the slacks of rows,
    and pairs; rows are capacities, groups, and groups with a lower bound.
    """

    def __init__(
        self,
        needs: sp.csc_array,
        capacities: Float,
        group: Int,
        usable: Float,
        unit: Float,
        rates: Whole,
        bases: Whole,
        low: Whole,
        start: Basic,
    ) -> None:
        self.n_rows, self.n_groups, n_pairs = len(usable), len(unit), len(group)
        whole = _near(np.where(capacities > 0, capacities, 1.0))
        self.per_row = capacities / whole
        unit = _near(unit)
        self.unit, self.in_units = unit[group], [Fraction(u) for u in unit.tolist()]
        floored = np.flatnonzero(low > 0)
        self.n_all = self.n_rows + self.n_groups + len(floored)
        totals = sp.csr_array((np.ones(n_pairs), (group, np.arange(n_pairs))), shape=(self.n_groups, n_pairs))
        self.sign = np.array([1] * self.n_rows + [-1] * (self.n_all - self.n_rows), dtype=object)
        level = sp.csc_array(np.repeat([0.0, 1.0, 0.0], [self.n_rows, self.n_groups, len(floored)])[:, None])
        per_unit = sp.diags_array(1.0 / whole) @ needs @ sp.diags_array(self.unit)
        pairs = sp.vstack([per_unit, totals, totals[floored]])
        matrix = sp.csc_array(sp.hstack([level, sp.diags_array(self.sign.astype(float)), pairs]))
        matrix.sort_indices()
        self.row, self.begins = matrix.indices, matrix.indptr
        self.column = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
        self.entry = _whole(matrix.data)
        none = np.full(self.n_rows, -1)
        self.group = np.concatenate([[-1], none, np.arange(self.n_groups), np.full(len(floored), -1), group])
        self.first = 1 + self.n_all  # of the columns that are pairs
        self.open = np.ones(matrix.shape[1], dtype=bool)
        within = _times(_whole(usable), _whole(self.per_row))
        self.right = np.concatenate([within, np.zeros(self.n_all - self.n_rows, dtype=object)])
        self.right[self.n_rows + self.n_groups :] = self._by_unit(floored, low[floored])
        self.change(rates, bases)
        self.basis = np.concatenate([[0] if start.level else [], 1 + start.rows, self.first + start.pairs]).astype(int)
        self.level: int | None = None  # the last optimum, which is not in the basis

    def _by_unit(self, groups: Int, values: Whole) -> Whole:
        """Amounts of some groups, in their units."""
        by_unit = (v / self.in_units[k] for k, v in zip(groups.tolist(), values, strict=True))
        return np.array([v.numerator * ONE // v.denominator for v in by_unit], dtype=object)

    def change(self, rates: Whole, bases: Whole) -> None:
        """Change what groups must hold to ``bases + rates z``."""
        groups = np.arange(self.n_groups)
        self.entry[groups] = -self._by_unit(groups, rates)
        self.right[self.n_rows + groups] = self._by_unit(groups, bases)

    def close(self, pairs: Int) -> None:
        """Fix pairs at 0."""
        self.open[self.first + pairs] = False

    def solve(self, clock: Clock) -> LevelOptimum | None:
        """The optimum, from the last one; None if none is found in time."""
        self.clock = clock
        if len(self.basis) != self.n_all:
            return None
        try:
            self._without_closed()
            amounts, costs = self._dual_steps(*self._primal_steps())
        except _Lost:
            return None
        if not (self.basis == 0).any():
            return None
        values = np.zeros(len(self.open))
        values[self.basis] = _floats(amounts)
        place = int((self.basis == 0).argmax())
        self.level = int(amounts[place])
        self._replace(place)  # the column of z is about to change
        costs = costs[1 : 1 + self.n_rows]
        prices = np.where(costs > ZERO, _floats(costs), 0.0) * (self.per_row / self.n_groups)
        return LevelOptimum(Fraction(self.level, ONE), np.maximum(values[self.first :], 0.0) * self.unit, prices)

    def _factorised(self) -> _Basis:
        if self.clock.late:
            raise _Lost
        return _Basis(self, self.basis)

    def _without_closed(self) -> None:
        """Replace closed pairs of the basis, whose amounts are 0."""
        for place in np.flatnonzero(~self.open[self.basis]).tolist():
            self._replace(place)

    def _replace(self, place: int) -> None:
        """Put the slack of a row in a place of the basis."""
        row = self._factorised().prices(_one(self.n_all, place))
        self.basis[place] = 1 + int(abs(row).argmax())

    def _primal_steps(self) -> tuple[Whole, Whole]:
        """Primal simplex steps to nonnegative reduced costs: amounts of the basis, some negative, and costs."""
        level, self.level = self.level, None
        basis = self._factorised()
        start = 0 if level is None else level
        amounts = basis.amounts(self.right - _times(self._column(0), start))
        least = np.where(amounts < -ZERO, amounts, 0)
        stalled = 0
        for _ in range(STEPS):
            costs = self._costs(basis)
            negative = np.flatnonzero(self.open & (costs < -ZERO))
            if not len(negative):
                break
            entering = int(negative[0] if stalled > STALLED else negative[costs[negative].argmin()])
            entering = 0 if start else entering
            change = basis.amounts(self._column(entering))
            falls = np.flatnonzero(change > ZERO)
            if not len(falls):
                raise _Lost
            steps = ((amounts - least)[falls] << BITS) // change[falls]
            step = max(steps.min(), 0)
            ties = falls[steps <= step + ZERO]
            by = self.basis[ties].argmin() if stalled > STALLED else change[ties].argmax()
            stalled = stalled + 1 if step <= ZERO else 0
            place = int(ties[by])
            amounts = amounts - _times(change, step)
            amounts[place], least[place], start = step + start, 0, 0
            self.basis[place] = entering
            basis = self._factorised()
        else:
            raise _Lost
        return (basis.amounts(self.right) if any(least) else amounts), costs

    def _dual_steps(self, amounts: Whole, costs: Whole) -> tuple[Whole, Whole]:
        """Dual simplex steps to nonnegative amounts: these, and costs."""
        for _ in range(STEPS):
            place = int(amounts.argmin())
            if amounts[place] >= -ZERO:
                return amounts, costs
            row = self._by_column(self._factorised().prices(_one(self.n_all, place)))
            row[self.basis] = 0
            rises = np.flatnonzero(self.open & (row < -ZERO))
            if not len(rises):
                raise _Lost
            steps = (costs[rises] << BITS) // -row[rises]
            ties = rises[steps <= steps.min() + ZERO]
            self.basis[place] = ties[row[ties].argmin()]
            basis = self._factorised()
            amounts, costs = basis.amounts(self.right), self._costs(basis)
        raise _Lost

    def _column(self, k: int) -> Whole:
        out = np.zeros(self.n_all, dtype=object)
        part = slice(self.begins[k], self.begins[k + 1])
        out[self.row[part]] = self.entry[part]
        return out

    def _by_column(self, by_row: Whole) -> Whole:
        """The product of a row vector and the matrix."""
        out = np.zeros(len(self.open), dtype=object)
        there = np.flatnonzero(by_row[self.row])
        np.add.at(out, self.column[there], _times(self.entry[there], by_row[self.row[there]]))
        return out

    def _costs(self, basis: _Basis) -> Whole:
        """Reduced costs of columns; the objective is the number of groups times z."""
        out = self._by_column(basis.prices(self.n_groups * _one(self.n_all, self.basis == 0)))
        out[0] -= self.n_groups * ONE
        out[self.basis] = 0
        return out


class _Basis:
    """A factorised basis.

    ``key`` (n_groups,) are places of keys in the basis, ``slack`` those of slacks of capacities and lower bounds, and
    ``rest`` those of other columns, as many as there are ``full`` rows.
    """

    def __init__(self, program: ExactProgram, columns: Int) -> None:
        p, n, n_groups = program, program.n_all, program.n_groups
        self.n_all, self.groups = n, slice(p.n_rows, p.n_rows + n_groups)
        place = np.full(len(p.open), -1)
        place[columns] = np.arange(n)
        there = np.flatnonzero(place[p.column] >= 0)
        self.row, self.place, self.entry = p.row[there], place[p.column[there]], p.entry[there]
        of_group = p.group[columns]
        some = np.flatnonzero(of_group >= 0)
        self.key = np.full(n_groups, -1)
        self.key[of_group[some[columns[some].argsort()]]] = some[columns[some].argsort()]  # a pair before a slack
        if (self.key < 0).any():
            raise _Lost
        self.key_sign = np.where(columns[self.key] < p.first, -1, 1).astype(object)
        self.slack = np.flatnonzero((columns > 0) & (columns < p.first) & (of_group < 0))
        self.loose = columns[self.slack] - 1
        self.loose_sign = p.sign[self.loose]
        self.rest, self.full = np.ones(n, dtype=bool), np.ones(n, dtype=bool)
        self.rest[self.key] = self.rest[self.slack] = self.full[self.loose] = self.full[self.groups] = False
        size = int(self.full.sum())
        row, kernel, key = np.full(n, -1), np.full(n, -1), np.full(n, -1)
        row[self.full], kernel[self.rest], key[self.key] = np.arange(size), np.arange(size), np.arange(n_groups)
        group = np.where((self.row >= p.n_rows) & (self.row < p.n_rows + n_groups), self.row - p.n_rows, -1)
        row, kernel, key = row[self.row], kernel[self.place], key[self.place]
        # keys in full rows, and the other columns in the rows of groups
        self.upper = (row[(row >= 0) & (key >= 0)], key[(row >= 0) & (key >= 0)])
        self.upper_entry = self.entry[(row >= 0) & (key >= 0)]
        lower = np.flatnonzero((group >= 0) & (kernel >= 0))
        lower = lower[group[lower].argsort(kind="stable")]
        self.lower, self.lower_entry = (group[lower], kernel[lower]), self.entry[lower]
        square = np.zeros((size, size), dtype=object)
        inside = (row >= 0) & (kernel >= 0)
        square[row[inside], kernel[inside]] = self.entry[inside]
        begin, end = (np.searchsorted(self.lower[0], self.upper[1], side=side) for side in ("left", "right"))
        each = np.repeat(np.arange(len(begin)), end - begin)
        other = np.arange(len(each)) - np.repeat(np.cumsum(end - begin) - end, end - begin)
        product = _times(self.upper_entry[each] * self.key_sign[self.upper[1][each]], self.lower_entry[other])
        np.subtract.at(square, (self.upper[0][each], self.lower[1][other]), product)
        self.kernel = _Kernel(square)

    def amounts(self, right: Whole) -> Whole:
        """The solution for a right-hand side."""
        left = right[self.full].copy()
        by_key = right[self.groups] * self.key_sign
        np.subtract.at(left, self.upper[0], _times(self.upper_entry, by_key[self.upper[1]]))
        rest = self.kernel.solve(left)
        left = right[self.groups].copy()
        np.subtract.at(left, self.lower[0], _times(self.lower_entry, rest[self.lower[1]]))
        out = np.zeros(self.n_all, dtype=object)
        out[self.rest], out[self.key] = rest, left * self.key_sign
        left = right.copy()
        np.subtract.at(left, self.row, _times(self.entry, out[self.place]))
        out[self.slack] = left[self.loose] * self.loose_sign
        return out

    def prices(self, costs: Whole) -> Whole:
        """The solution of the transposed equations: multipliers of rows for costs of basic columns."""
        out = np.zeros(self.n_all, dtype=object)
        out[self.loose] = costs[self.slack] * self.loose_sign
        left = costs.copy()
        if out.any():
            np.subtract.at(left, self.place, _times(self.entry, out[self.row]))
        rest, by_key = left[self.rest], left[self.key]
        np.subtract.at(rest, self.lower[1], _times(self.lower_entry, (by_key * self.key_sign)[self.lower[0]]))
        full = self.kernel.solve_transposed(rest)
        np.subtract.at(by_key, self.upper[1], _times(self.upper_entry, full[self.upper[0]]))
        out[self.full], out[self.groups] = full, by_key * self.key_sign
        return out


class _Kernel:
    """Triangular factors of a square matrix, in one array, with full pivoting."""

    def __init__(self, square: Whole) -> None:
        n = len(square)
        self.rows, self.columns, self.factors = np.arange(n), np.arange(n), square
        for k in range(n):
            i, j = (k + at for at in divmod(int(abs(square[k:, k:]).argmax()), n - k))
            if abs(square[i, j]) <= ZERO:
                raise _Lost
            square[[k, i]] = square[[i, k]]
            square[:, [k, j]] = square[:, [j, k]]
            self.rows[[k, i]], self.columns[[k, j]] = self.rows[[i, k]], self.columns[[j, k]]
            square[k + 1 :, k] = (square[k + 1 :, k] << BITS) // square[k, k]
            below, after = k + 1 + np.flatnonzero(square[k + 1 :, k]), k + 1 + np.flatnonzero(square[k, k + 1 :])
            square[np.ix_(below, after)] -= _times(square[below, k][:, None], square[k, after])

    def solve(self, right: Whole) -> Whole:
        """The solution for a right-hand side."""
        f, x = self.factors, right[self.rows]
        for k in range(len(x)):
            x[k + 1 :] -= _times(f[k + 1 :, k], x[k])
        for k in reversed(range(len(x))):
            x[k] = (x[k] << BITS) // f[k, k]
            x[:k] -= _times(f[:k, k], x[k])
        out = np.empty_like(x)
        out[self.columns] = x
        return out

    def solve_transposed(self, right: Whole) -> Whole:
        """The solution of the transposed equations."""
        f, y = self.factors, right[self.columns]
        for k in range(len(y)):
            y[k] = (y[k] << BITS) // f[k, k]
            y[k + 1 :] -= _times(f[k, k + 1 :], y[k])
        for k in reversed(range(len(y))):
            y[:k] -= _times(f[k, :k], y[k])
        out = np.empty_like(y)
        out[self.rows] = y
        return out


def _times(a: Whole, b: Whole) -> Whole:
    return (a * b) >> BITS


def _one(size: int, place: int | Bool) -> Whole:
    out = np.zeros(size, dtype=object)
    out[place] = ONE
    return out


def _near(values: Float) -> Float:
    """The nearest powers of two: division by them rounds nothing."""
    return np.exp2(np.round(np.log2(values)))


def _whole(values: Float) -> Whole:
    """Floats as integers in units of 2 to the power -512."""
    parts = (float(v).as_integer_ratio() for v in values)
    return np.array([n * ONE // d for n, d in parts], dtype=object)


def _floats(values: Whole) -> Float:
    return np.asarray(values / ONE, dtype=float)
