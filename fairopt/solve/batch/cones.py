"""User-defined objectives of many instances of one shape by CLARABEL: one list of entries, of which numbers change.

Of each instance the program is in unknowns near 1, tasks over an equal part of what a user could run alone, and the
objective in multiples of its slope there, as for one instance (`ConeModel`). Each is solved by itself, since in one
program of blocks all would take as many steps as the worst, and short ones. Entries of A are linear in the
coefficients, so that those of all instances are one sparse product.

Of 5, 20 and 80 users on 3 resources an answer takes 0.2, 0.7 and 1.3 to 3.6 ms, of which CLARABEL 80%; one by one 7 to
9, 8 to 10 and 11 to 15 ms, and a loop with CVXPY's parameters, which proves nothing, 1.1, 1.5 and 3.5 to 10 ms (soft
minima, logarithms, norms; one core of a busy machine). Tolerances are looser than one by one (1e-9 for 1e-11), which
saves a third of the steps; what is then not certified is solved again by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairopt.proof.as_written import OwnProgram
from fairopt.proof.many_cone_gaps import Duals
from fairopt.proof.many_values import values_at
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.solve.form.compiled import Clarabel, Cones
from fairopt.solve.form.repeated import OwnChunk, Repeated
from fairopt.solve.form.solvers import TIGHT

TOLERANCES = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9)
STEP = 1e-4  # of a difference quotient


class Written:
    """The programs of a chunk, rows by cone: those of `Repeated`, and among inequalities behind them capacities, ``u >=
    0`` and the bounds of users' tasks that are below what capacities allow.
    """

    def __init__(self, repeated: Repeated, chunk: OwnChunk) -> None:
        data, rows, others = repeated.compiled.data, repeated.rows, repeated.others
        n, m, size = chunk.demands.shape
        self.unit = chunk.most / n
        scale = chunk.coefficients * self.unit
        self.limited = limited = np.flatnonzero((chunk.limits < 1.0 / chunk.ratios.max(axis=1)).any(axis=1))
        dims, end = repeated.dims, repeated.dims.zero + repeated.dims.nonneg
        more = m + n + len(limited)
        self.own = np.append(np.arange(end), np.arange(end, len(rows)) + more)  # the rows of `Repeated`
        self.capacities, self.limits = end + np.arange(m), end + m + n + np.arange(len(limited))
        self.dims = Cones(dims.zero, dims.nonneg + more, dims.soc, dims.exp, dims.p3d, dims.psd)
        self.shape = len(rows) + more, n + len(others)
        column = np.zeros(len(data["c"]), dtype=np.intp)
        column[repeated.columns], column[others] = np.arange(n), n + np.arange(len(others))
        share = np.full(len(data["c"]), len(repeated.shares) * n)  # which number multiplies a column; 1 is behind all
        share[repeated.columns] = np.arange(len(repeated.shares) * n).reshape(-1, n)
        numbers = np.concatenate(
            [scale.reshape(-1, size), np.ones((1, size)), (chunk.ratios * self.unit[:, None]).reshape(-1, size)]
        )
        one, user, resource = len(repeated.shares) * n, *np.divmod(np.arange(n * m), m)
        a = sp.coo_array(sp.csr_array(data["A"])[rows])
        at = end + m
        row = np.concatenate([self.own[a.row], self.capacities[resource], at + np.arange(n + len(limited))])
        col = np.concatenate([column[a.col], user, np.arange(n), limited])
        factor = np.concatenate([a.data, np.ones(n * m), np.full(n, -1.0), np.ones(len(limited))])
        which = np.concatenate([share[a.col], one + 1 + np.arange(n * m), np.full(n + len(limited), one)])
        self.pattern, place = _pattern(row, col, self.shape)
        entries = sp.csr_array((factor, (place, which)), shape=(len(self.pattern.data), len(numbers)))
        self.entries = np.ascontiguousarray((entries @ numbers).T)
        self.right = np.ones((size, self.shape[0]))
        self.right[:, self.own] = np.asarray(data["b"])[rows]
        self.right[:, at : at + n] = 0.0
        self.right[:, at + n : at + n + len(limited)] = n  # in units
        costs = sp.csr_array((np.asarray(data["c"]), (column, share)), shape=(self.shape[1], len(numbers))) @ numbers
        self.slope = self._slope(repeated, chunk)
        self.costs = np.ascontiguousarray((costs / self.slope).T)

    def _slope(self, repeated: Repeated, chunk: OwnChunk) -> Float:
        """The objective's slope at unknowns of 1, or 1 where it is not finite there."""
        ends = []
        for part in (1.0, 1.0 - STEP):
            held = {v.id: (c * self.unit * part).T for v, c in zip(repeated.variables, chunk.coefficients, strict=True)}
            ends.append(values_at(repeated.form, held, chunk.capacities.shape[1]))
        slope = np.abs(ends[0] - ends[1]) / STEP
        return np.where((slope > 0) & (slope < np.inf), slope, 1.0)

    def solved(self) -> Iterator[tuple[Float, Float] | None]:
        """The primal and the dual point of each instance, in turn; None where CLARABEL has none."""
        clarabel, a = Clarabel(self.dims, TIGHT["CLARABEL"] | TOLERANCES), self.pattern
        for values, costs, right in zip(self.entries, self.costs, self.right, strict=True):
            a.data = values
            try:
                found = clarabel.solve({"A": a, "b": right, "c": costs})
            except RuntimeError:  # it failed: the instance is solved again by itself
                yield None
                continue
            yield (found.x, found.z) if len(found.x) else None

    def answer(self, points: list[tuple[Float, Float] | None], chunk: OwnChunk) -> tuple[Float, Float, Duals]:
        """The tasks that fit, what CVXPY added, and multipliers in units of the objective, from points of all
        instances.
        """
        none = np.full(self.shape[1], np.nan), np.full(self.shape[0], np.nan)
        primal, dual = (np.array([(one or none)[k] for one in points]).T for k in (0, 1))
        n = len(self.unit)
        tasks = np.nan_to_num(np.clip(primal[:n] * self.unit, 0.0, chunk.most))
        dual = dual * self.slope
        of_limits = np.zeros(self.unit.shape)
        of_limits[self.limited] = dual[self.limits]
        return chunk.fitted(tasks), primal[n:], Duals(dual[self.own], dual[self.capacities], of_limits)

    def own_program(self, repeated: Repeated, chunk: OwnChunk, tasks: Float, others: Float, duals: Duals) -> OwnProgram:
        """The program of the first instance as files hold it, at these tasks, with multipliers."""
        y, n = np.zeros(self.shape[0]), len(self.unit)
        y[self.own], y[self.capacities], y[self.limits] = duals.rows, duals.prices, duals.limits[self.limited]
        data = {
            "A": sp.csc_array((self.entries[0], self.pattern.indices, self.pattern.indptr), shape=self.shape),
            "b": self.right[0],
            "c": self.costs[0] * self.slope[0],
            "dims": self.dims,
        }
        compiled = repeated.compiled
        return OwnProgram(
            data,
            compiled.offset,
            (np.append(tasks / self.unit[:, 0], others), y),
            np.arange(n),
            self.unit[:, 0],
            (np.arange(n), np.zeros(n, dtype=np.intp)),
            chunk.most[:, 0],
            tasks,
            tuple(slice(int(part[0]), int(part[-1]) + 1) for part in (self.capacities, self.limits) if len(part)),
            (),
            tuple((rows, n + int(np.searchsorted(repeated.others, start))) for rows, start in compiled.aggregates),
            1.0,
            1.0,
            repeated.constant,
        )


def _pattern(row: Indices, column: Indices, shape: tuple[int, int]) -> tuple[sp.csc_array, Indices]:
    """Entries at these places as a matrix by columns, each place once, and where each of them is in its data."""
    key = column * shape[0] + row
    every, place = np.unique(key, return_inverse=True)
    col, at = np.divmod(every, shape[0])
    starts = np.append(0, np.cumsum(np.bincount(col, minlength=shape[1])))
    return sp.csc_array((np.ones(len(at)), at, starts), shape=shape), place.ravel()
