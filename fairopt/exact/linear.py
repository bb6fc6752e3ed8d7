"""Linear programs in rational numbers: the basis that HiGHS finds in floats, solved exactly.

The program is, in the letters of the code,

    max costs @ x   subject to   a_k @ x <= right_k  (or ==),   x_j >= 0 but for free columns.

A basis names as many variables (columns, and slacks of rows) as there are rows; all others are 0. Its point solves a
square system, its multipliers y the transposed one. If the point is feasible and no reduced cost ``costs_j - y @ a_j``
would improve the objective, both are optimal, and ``y @ right`` is the value (Chvátal 1983). Nothing of floats is part
of this proof: HiGHS only says where to start, which saves nearly all exact pivots. From the slacks a program of 60 rows
takes about 20 pivots, each with a factorisation of its own; from the basis of HiGHS usually none.

Why not an exact simplex method from the start: pivots in fractions are slow, and numbers grow with each update.
Therefore each basis is factored anew from the data (`Factors`), so that entries are as short as the basis allows.

Where the basis of floats is not optimal, by rounding, ties or degeneracy, exact pivots go on from it: dual ones to
feasibility, then primal ones, by Bland's rule in the end, which cannot cycle (Bland 1977). What floats can do is choose
a basis far away: coefficients over 24 decades did, hence `_scales`. How the multipliers prove an answer is in
docs/exact.md (*How it is proved*) and in `fairopt.exact.proof`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from fairopt.exact.rationals import Rational, as_float, flint, kind, rational
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock, check
from fairopt.runtime.lazy import sp
from fairopt.runtime.progress import tell
from fairopt.solve.form.simplex import BASIC, Simplex

Entries = dict[int, Any]  # rational numbers by row or column

# Pivots that take the largest violation, before Bland's rule, which cannot cycle but is slow: from the slacks 8
# programs of 60 rows took 171 pivots by size, and 452 by Bland's rule alone.
BY_SIZE = 50
DENSE, SPARSE = 12, 16  # sizes of kernels, and fill of a pivot, up to which elimination stays sparse
# A matrix that is regular modulo a prime is regular; the reverse fails with a chance of about 1 / PRIME.
PRIME = (1 << 61) - 1
CANDIDATES = 4  # columns with fewest entries, among which the pivot with the least fill is chosen
# Passes over columns and rows. In 40 programs with units of columns and rows over 12 decades each, HiGHS's basis needed
# 541 exact pivots without scaling (32 programs any), and none after one pass.
SCALINGS = 4
FLOAT = float(np.finfo(float).eps)
TINY, HUGE = 1e-290, 1e290  # beyond, floats may underflow or overflow in products


class _NoPoint(Exception):
    """No point satisfies all rows, in rational numbers."""

    why = (
        "in floats the constraints hold up to rounding, but in rational numbers nothing satisfies all of them; relax "
        "one, or give Fractions"
    )


class _Unlimited(Exception):
    """The objective has no maximum."""


class ExactOptimum(NamedTuple):
    """The largest value, the point and the multipliers of rows that prove it, and the variables of the basis."""

    value: Rational
    point: list[Rational]
    multipliers: list[Rational]
    basis: frozenset[int]


@dataclass
class LinearProgram:
    """Maximise ``costs @ x`` for x >= 0 under rows ``a @ x <= right``, or ``==``; some columns are free.

    Variables are columns 0, 1, ... and then the slacks of rows.
    """

    costs: list[Rational] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)
    columns: list[Entries] = field(default_factory=list)
    right: list[Rational] = field(default_factory=list)
    equal: list[bool] = field(default_factory=list)

    def column(self, cost: Rational, free: bool = False) -> int:
        """A new column, without entries."""
        self.costs.append(cost)
        self.free.append(free)
        self.columns.append({})
        return len(self.columns) - 1

    def row(self, entries: Mapping[int, Rational], right: Rational, equal: bool = False) -> int:
        """A new row, by column."""
        k = len(self.right)
        self.right.append(right)
        self.equal.append(equal)
        for j, value in entries.items():
            if value:
                self.columns[j][k] = value
        return k

    def solve(self, start: frozenset[int] | None = None, clock: Clock | None = None) -> ExactOptimum:
        """The optimum, from a basis near it; by default that of HiGHS.

        `_NoPoint` and `_Unlimited` are proved too. `Late` is raised when the time of the call is over.
        """
        basis = start if start is not None else float_basis(self, clock)
        return _Pivoting(self, basis).run()


def float_basis(program: LinearProgram, clock: Clock | None = None) -> frozenset[int]:
    """The variables of the basis that HiGHS finds for the program in floats; without one, all slacks."""
    n, m = len(program.columns), len(program.right)
    slacks = frozenset(range(n, n + m))
    if n == 0 or m == 0:
        return slacks
    data, indices, indptr = _columns(program)
    costs, right = (np.array([as_float(v) for v in values]) for values in (program.costs, program.right))
    if not (np.isfinite(data).all() and np.isfinite(costs).all() and np.isfinite(right).all()):
        return slacks
    of_column = np.repeat(np.arange(n), np.diff(indptr))
    rows, columns = _scales(np.log(np.maximum(np.abs(data), TINY)), indices, of_column, (m, n))
    data, costs, right = (
        data * np.exp(rows[indices] + columns[of_column]),
        costs * np.exp(columns),
        right * np.exp(rows),
    )
    # HiGHS's tolerances are absolute
    costs /= np.abs(costs).max(initial=0.0) or 1.0
    right /= np.abs(right).max(initial=0.0) or 1.0
    matrix = sp.csc_array((data, indices, indptr), shape=(m, n))
    lower = np.where(program.free, -np.inf, 0.0)
    least = np.where(program.equal, right, -np.inf)
    simplex = Simplex()
    simplex.give(-costs, (lower, np.full(n, np.inf)), (least, right), matrix, None)
    if not simplex.run(clock or Clock(None)):
        return slacks
    basic = np.concatenate([simplex.of_columns == BASIC, simplex.of_rows == BASIC])
    return frozenset(np.flatnonzero(basic).tolist())


def _scales(logs: Float, rows: Any, columns: Any, shape: tuple[int, int]) -> tuple[Float, Float]:
    """Logarithms of factors of rows and columns that bring entries near 1."""
    of_rows, of_columns = np.zeros(shape[0]), np.zeros(shape[1])
    if not len(logs):
        return of_rows, of_columns
    for _ in range(SCALINGS):
        for scale, at in ((of_columns, columns), (of_rows, rows)):
            # each by the geometric mean of its largest and least entry, in logarithms so that no product overflows
            now = logs + of_rows[rows] + of_columns[columns]
            largest, least = np.full(len(scale), -np.inf), np.full(len(scale), np.inf)
            np.maximum.at(largest, at, now)
            np.minimum.at(least, at, now)
            some = np.isfinite(largest)
            scale[some] -= 0.5 * (largest[some] + least[some])
    return of_rows, of_columns


class Factors:
    """A square system of chosen columns and rows, by sparse elimination and a dense kernel.

    Sparse elimination goes on while pivots fill in little (`SPARSE` entries). What is then left, where nearly all
    entries are nonzero, is one matrix for python-flint, which lifts a solution modulo a prime (Dixon's algorithm)
    instead of computing in fractions that grow. If the system is singular, `dependent` columns and rows have no pivot.
    """

    def __init__(self, columns: Mapping[int, Entries], rows: Iterable[int]) -> None:
        self.zero = rational(0)
        self.rows: dict[int, Entries] = {k: {} for k in rows}
        self.columns: dict[int, set[int]] = {j: set() for j in columns}
        for j, entries in columns.items():
            for k, value in entries.items():
                if k in self.rows:
                    self.rows[k][j] = value
                    self.columns[j].add(k)
        self.queue = [(len(ks), j) for j, ks in self.columns.items()]
        heapify(self.queue)
        # of each pivot: row, column, value, the rest of its row (of U), and its multiples subtracted from others (of L)
        self.steps: list[tuple[int, int, Rational, list[tuple[int, Rational]], list[tuple[int, Rational]]]] = []
        self.kernel: tuple[list[int], list[int], Any] | None = None
        self._eliminate()
        self.dependent = (
            list(self.columns) if self.kernel is None else [],
            (list(self.rows) if self.kernel is None else []),
        )

    def _eliminate(self) -> None:
        sparse = kind() is Fraction  # no dense solver; or the kernel turned out singular, so that elimination ends it
        while True:
            check()
            pivot = self._cheapest()
            if pivot is None:
                return
            fill, k, j = pivot
            if not sparse and fill > SPARSE and len(self.columns) > DENSE and len(self.columns) == len(self.rows):
                if self._close():
                    return
                sparse = True
            self._pivot(k, j)

    def _cheapest(self) -> tuple[int, int, int] | None:
        """The pivot with the least fill in one of the columns with fewest entries: fill, row and column."""
        best: tuple[int, int, int] | None = None
        seen: list[tuple[int, int]] = []
        while self.queue and len(seen) < CANDIDATES and not (best and best[0] == 0):
            count, j = heappop(self.queue)
            ks = self.columns.get(j)
            if not ks or len(ks) != count:  # an earlier state: entries of the heap are not updated in place
                continue
            seen.append((count, j))
            k = min(ks, key=lambda k: len(self.rows[k]))
            fill = (count - 1) * (len(self.rows[k]) - 1)
            if best is None or fill < best[0]:
                best = fill, k, j
        for one in seen:
            if best is not None and one[1] != best[2]:
                heappush(self.queue, one)
        return best

    def _close(self) -> bool:
        """Keep what is left as a dense matrix; False if it is singular."""
        rows, columns = list(self.rows), list(self.columns)
        matrix = flint.fmpq_mat(
            len(rows), len(columns), [self.rows[k].get(j, self.zero) for k in rows for j in columns]
        )
        try:
            # the rank modulo a prime needs no long numbers
            residues = [int(v.p) % PRIME * pow(int(v.q), -1, PRIME) for v in matrix.entries()]
        except ValueError:  # the prime divides a denominator
            return False
        if flint.nmod_mat(len(rows), len(rows), residues, PRIME).rank() < len(rows):
            return False
        self.kernel = rows, columns, matrix
        return True

    def _pivot(self, k: int, j: int) -> None:
        row = self.rows.pop(k)
        pivot = row.pop(j)
        for other in row:
            self.columns[other].discard(k)
        changed = set(row)
        below: list[tuple[int, Rational]] = []
        for i in self.columns.pop(j):
            if i == k:
                continue
            target = self.rows[i]
            times = target.pop(j) / pivot
            below.append((i, times))
            for other, value in row.items():
                before = target.get(other)
                after = -times * value if before is None else before - times * value
                if after:  # exact zeros leave: in floats they would be fill
                    target[other] = after
                    self.columns[other].add(i)
                elif before is not None:
                    del target[other]
                    self.columns[other].discard(i)
        for other in changed:
            heappush(self.queue, (len(self.columns[other]), other))
        self.steps.append((k, j, pivot, list(row.items()), below))

    def solve(self, right: Mapping[int, Rational]) -> Entries:
        """x by column, with the matrix times x equal to ``right`` by row."""
        left = dict(right)  # forward by L, then the kernel, and back by U
        for k, _, _, _, below in self.steps:
            value = left.get(k)
            if value:
                for i, times in below:
                    left[i] = left.get(i, self.zero) - times * value
        x: Entries = {}
        if self.kernel is not None:
            rows, columns, matrix = self.kernel
            x = self._dense(matrix, [left.get(k, self.zero) for k in rows], columns)
        for k, j, pivot, row, _ in reversed(self.steps):
            value = left.get(k, self.zero)
            for other, entry in row:
                if solved := x.get(other):
                    value = value - entry * solved
            x[j] = value / pivot
        return x

    def solve_transposed(self, right: Mapping[int, Rational]) -> Entries:
        """y by row, with y times the matrix equal to ``right`` by column."""
        left = dict(right)
        y: Entries = {}
        for k, j, pivot, row, _ in self.steps:
            value = left.get(j)
            if value:
                y[k] = value = value / pivot
                for other, entry in row:
                    left[other] = left.get(other, self.zero) - entry * value
        if self.kernel is not None:
            rows, columns, matrix = self.kernel
            y |= self._dense(matrix.transpose(), [left.get(j, self.zero) for j in columns], rows)
        for k, _, _, _, below in reversed(self.steps):
            value = y.get(k, self.zero)
            for i, times in below:
                if multiplier := y.get(i):
                    value = value - times * multiplier
            if value:
                y[k] = value
            else:
                y.pop(k, None)
        return y

    def _dense(self, matrix: Any, right: list[Rational], names: list[int]) -> Entries:
        """The solution of a dense system, by name."""
        if not any(right):
            return {}
        solution = matrix.solve(flint.fmpq_mat(len(right), 1, right), algorithm="dixon")
        return {name: solution[k, 0] for k, name in enumerate(names)}


class _Pivoting:
    """The simplex method in rational numbers, with a new factorisation at each basis."""

    def __init__(self, program: LinearProgram, basis: frozenset[int]) -> None:
        self.of, self.zero = program, rational(0)
        self.n, self.m = len(program.columns), len(program.right)
        self.basis, self.pivots = set(basis), 0
        self.costs = list(program.costs) + [self.zero] * self.m
        self.shifted = False

    def run(self) -> ExactOptimum:
        """Pivot until the basis is optimal."""
        while True:
            tell("exact pivots", self.pivots)
            self._solve()
            infeasible = self._infeasible()
            if infeasible:
                improving = self._improving()
                # The basis is neither primal nor dual feasible. Lower costs make it dual feasible, so that dual pivots
                # lead to a feasible point; primal ones go on from there with the costs as given.
                if improving:
                    for j, gain in improving:
                        self.costs[j] -= gain
                    self.shifted = True
                    continue
                self._dual_step(infeasible)
            else:
                if self.shifted:
                    self.costs = list(self.of.costs) + [self.zero] * self.m
                    self.shifted = False
                    continue
                improving = self._improving()
                if not improving:
                    return self._optimum()
                self._primal_step(improving)
            self.pivots += 1

    def _solve(self) -> None:
        """Factor the basis, exchanging dependent columns for slacks, and solve for point and multipliers."""
        program, n = self.of, self.n
        while True:  # HiGHS's basis is regular in floats, and may be singular in rationals
            chosen = {j: program.columns[j] for j in sorted(self.basis) if j < n}
            self.factors = Factors(chosen, [k for k in range(self.m) if n + k not in self.basis])
            columns, rows = self.factors.dependent
            if not columns and not rows:
                break
            self.basis.difference_update(columns)
            self.basis.update(n + k for k in rows)
        self.active = [k for k in range(self.m) if n + k not in self.basis]
        values = self.factors.solve({k: program.right[k] for k in self.active if program.right[k]})
        used: Entries = {}
        for j, x in values.items():
            if x:
                for k, entry in program.columns[j].items():
                    if n + k in self.basis:
                        used[k] = used.get(k, self.zero) + entry * x
        self.values = values
        for v in self.basis:  # slacks follow from the columns, and need no equation of their own
            if v >= n:
                self.values[v] = program.right[v - n] - used.get(v - n, self.zero)
        # The multiplier of a row with a basic slack is the slack's cost: 0 but where costs are shifted.
        extra = {v - n: self.costs[v] for v in self.basis if v >= n and self.costs[v]}
        right = {j: self.costs[j] for j in chosen}
        for k, cost in extra.items():
            for j in chosen:
                if entry := program.columns[j].get(k):
                    right[j] = right[j] - cost * entry
        self.multipliers = self.factors.solve_transposed({j: c for j, c in right.items() if c}) | extra

    def _infeasible(self) -> list[tuple[Rational, int]]:
        """Basic variables outside of their bounds, with how far they are below 0 (or, of equations, from it)."""
        out = []
        for v, x in self.values.items():
            if v < self.n and self.of.free[v]:
                continue
            equation = v >= self.n and self.of.equal[v - self.n]
            if x < 0 or (equation and x != 0):
                out.append((abs(x), v))
        return out

    def _gain(self, j: int) -> Rational:
        """The reduced cost of a variable."""
        if j >= self.n:
            return self.costs[j] - self.multipliers.get(j - self.n, self.zero)
        value, y = self.costs[j], self.multipliers
        for k, entry in self.of.columns[j].items():
            if multiplier := y.get(k):
                value = value - entry * multiplier
        return value

    def _improving(self) -> list[tuple[int, Rational]]:
        """Nonbasic variables that would improve the objective, with their reduced costs."""
        out = []
        for j in self._uncertain():
            gain = self._gain(j)
            if gain > 0 or (gain and self.of.free[j]):
                out.append((j, gain))
        for k in self.active:
            if not self.of.equal[k] and (gain := self._gain(self.n + k)) > 0:
                out.append((self.n + k, gain))
        return out

    def _uncertain(self) -> list[int]:
        """The nonbasic columns whose reduced costs floats do not prove negative."""
        program, y = self.of, np.zeros(self.m)
        nonbasic = [j for j in range(self.n) if j not in self.basis]
        if self.n * self.m < 5_000:  # not worth the arrays
            return nonbasic
        for k, value in self.multipliers.items():
            y[k] = as_float(value)
        if self.shifted or not np.isfinite(y).all():
            return nonbasic
        table = sp.csr_array(_columns(program), shape=(self.n, self.m))
        costs, free = np.array([as_float(c) for c in program.costs]), np.array(program.free)
        with np.errstate(all="ignore"):
            gains, size = costs - table @ y, np.abs(costs) + abs(table) @ np.abs(y)
            # the error of a sum of k products is at most about k eps times their sizes (Higham 2002, sec. 3.1)
            negative = gains < -(table.indptr[1:] - table.indptr[:-1] + 4) * FLOAT * size
            # numbers so small that products may underflow are compared exactly
            negative &= ~free & (size < HUGE)
        return [j for j in nonbasic if not negative[j]]

    def _dual_step(self, infeasible: list[tuple[Rational, int]]) -> None:
        """Exchange an infeasible variable for the one whose reduced cost allows it."""
        leaving = max(infeasible)[1] if self.pivots < BY_SIZE else min(v for _, v in infeasible)
        sign = 1 if self.values[leaving] < 0 else -1
        n, columns = self.n, self.of.columns
        # rho is the row of the inverse of the leaving variable, from which its rates follow column by column
        if leaving < n:
            rho = self.factors.solve_transposed({leaving: rational(1)})
        else:  # a slack is its right side less its row, so that its row of the inverse is minus the row's combination
            row = {j: -columns[j][leaving - n] for j in self.basis if j < n and leaving - n in columns[j]}
            rho = self.factors.solve_transposed(row)
            rho[leaving - n] = rational(1)
        best: tuple[Rational, int] | None = None
        nonbasic = [j for j in range(n) if j not in self.basis]
        nonbasic += [n + k for k in self.active if not self.of.equal[k]]
        for j in nonbasic:
            if j < n:
                rate = self.zero
                for k, entry in columns[j].items():
                    if multiplier := rho.get(k):
                        rate = rate + entry * multiplier
            else:
                rate = rho.get(j - n, self.zero)
            rate = rate * sign
            free = j < n and self.of.free[j]
            if rate < 0 or (free and rate):  # entering j raises it; the least ratio keeps reduced costs of their sign
                ratio = abs(self._gain(j) / rate)
                if best is None or (ratio, j) < best:  # ties by index, as Bland's rule asks
                    best = ratio, j
        if best is None:  # the row of the inverse is a combination of rows that no point satisfies (Farkas)
            raise _NoPoint
        self.basis.remove(leaving)
        self.basis.add(best[1])

    def _primal_step(self, improving: list[tuple[int, Rational]]) -> None:
        """Let a variable enter that improves the objective, for the first that reaches its bound."""
        if self.pivots < BY_SIZE:
            entering, gain = max(improving, key=lambda one: abs(one[1]))
        else:
            entering, gain = min(improving)
        n, program = self.n, self.of
        sign = 1 if gain > 0 else -1
        column = program.columns[entering] if entering < n else {entering - n: rational(1)}
        active = set(self.active)
        rates = self.factors.solve({k: v for k, v in column.items() if k in active})
        of_slacks = {k: v for k, v in column.items() if k not in active}
        for j, rate in rates.items():
            if rate:
                for k, entry in program.columns[j].items():
                    if k not in active:
                        of_slacks[k] = of_slacks.get(k, self.zero) - entry * rate
        rates |= {n + k: v for k, v in of_slacks.items()}
        best: tuple[Rational, int] | None = None
        for v, rate in rates.items():
            if v < n and program.free[v]:
                continue
            rate = rate * sign
            equation = v >= n and program.equal[v - n]
            if rate > 0 or (equation and rate):  # it falls, and the first at 0 leaves
                ratio = abs(self.values[v] / rate)
                if best is None or (ratio, v) < best:
                    best = ratio, v
        if best is None:
            raise _Unlimited
        self.basis.remove(best[1])
        self.basis.add(entering)

    def _optimum(self) -> ExactOptimum:
        point = [self.values.get(j, self.zero) for j in range(self.n)]
        multipliers = [self.multipliers.get(k, self.zero) for k in range(self.m)]
        value = sum((y * b for y, b in zip(multipliers, self.of.right, strict=True) if y), self.zero)
        return ExactOptimum(value, point, multipliers, frozenset(self.basis))


def _columns(program: LinearProgram) -> tuple[Float, Any, Any]:
    """The columns in floats: values, their rows, and where each column begins."""
    data = np.array([as_float(v) for column in program.columns for v in column.values()])
    indices = np.array([k for column in program.columns for k in column], dtype=np.int32)
    return data, indices, np.cumsum([0, *map(len, program.columns)])
