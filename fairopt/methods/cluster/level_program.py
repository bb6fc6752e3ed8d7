"""One linear program of leximin on several servers, kept in HiGHS and changed from level to level.

What groups of users must have at least is linear in the common level z. Freezing users, or letting them stop at their
limits, only lowers that at larger z, so that the point where the simplex method stands stays feasible: it goes on from
there by primal steps. On 1,000 users and 27 servers a later level took a twentieth of the first so; by dual steps,
which are the default, up to as long as the first. A few pairs of each group are columns, and others come in when their
costs say so: that took all levels from 0.28 to 0.16 s, and from 8.7 to 0.8 s with 200 users on 500 servers.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

TOLERANCE, SMALLEST = 1e-10, 1e-12  # the tightest that HiGHS takes
TIED = 1e-9  # a pair that gains a group less than this part of what it pays is not worth a column
MORE = 5  # columns that a group gets at once
DUAL, PRIMAL = 1, 4  # HiGHS's numbers of simplex strategies


class Found(NamedTuple):
    """The largest common level, what each pair holds there, and prices per whole usable row."""

    level: float
    amounts: Float
    prices: Float


class LevelProgram:
    """Maximise z where each group holds at least ``bases + rates z``, and never less than ``low``.

    Parameters
    ----------
    loads : sparse array of shape (n_rows, n_pairs)
        Share of each capacity that a unit of what a pair holds takes.
    group : ndarray of int of shape (n_pairs,)
        Group of each pair, ascending.
    columns : ndarray of int
        The pairs to begin with. Others come in when prices say that they are worth it.
    usable : ndarray of shape (n_rows,)
        The fraction of each capacity that may be used.
    unit, rates, bases, low : ndarray of shape (n_groups,)
        About what each group will hold (rows are measured in it, so that tolerances are relative), and what it must.
    """

    def __init__(
        self, loads: sp.csc_array, group: Indices, columns: Indices, usable: Float, unit: Float, rates: Float,
        bases: Float, low: Float,
    ) -> None:  # fmt: skip
        import highspy  # it comes with CVXPY, and takes a quarter of a second to import

        self.unit, self.group, self.columns = unit, group, columns
        self.n_rows, n_pairs, n_groups = len(usable), len(group), len(unit)
        self.floored = np.flatnonzero(low > 0)
        totals = sp.csr_array((np.ones(n_pairs), (group, np.arange(n_pairs))), shape=(n_groups, n_pairs))
        per_unit = loads @ sp.diags_array(unit[group])
        self.matrix = sp.vstack([per_unit, totals, totals[self.floored]], format="csc")
        model = highspy.HighsLp()
        n_all = self.matrix.shape[0]
        model.num_row_, model.num_col_ = n_all, 1
        model.col_cost_ = np.full(1, -float(n_groups))  # so that what a group pays is near 1
        model.col_lower_, model.col_upper_ = np.zeros(1), np.full(1, np.inf)
        model.row_lower_ = np.concatenate([np.full(self.n_rows, -np.inf), bases / unit, (low / unit)[self.floored]])
        model.row_upper_ = np.concatenate([usable, np.full(n_all - self.n_rows, np.inf)])
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_, model.a_matrix_.index_ = [0, n_groups], self.n_rows + np.arange(n_groups)
        model.a_matrix_.value_ = -rates / unit
        self.highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        options: dict[str, Any] = {
            "output_flag": False, "solver": "simplex", "simplex_strategy": PRIMAL, "parallel": "off",
            "small_matrix_value": SMALLEST, "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        }  # fmt: skip
        for name, value in options.items():
            self.highs.setOptionValue(name, value)
        self.highs.passModel(model)
        self.closed: Indices = np.zeros(0, dtype=np.intp)
        self._add(columns)

    def _add(self, columns: Indices) -> None:
        """More columns; HiGHS refuses them all if a number is beyond 1e15, and then `_run` finds nothing."""
        part, n = self.matrix[:, columns], len(columns)
        self.highs.addCols(
            n, np.zeros(n), np.zeros(n), np.full(n, np.inf), part.nnz, part.indptr[:-1].astype(np.int32),
            part.indices.astype(np.int32), part.data,
        )  # fmt: skip

    def close(self, pairs: Indices) -> None:
        """Let pairs hold nothing from here on."""
        self.closed = np.union1d(self.closed, pairs)
        columns = 1 + np.flatnonzero(np.isin(self.columns, pairs)).astype(np.int32)  # the level is the first column
        if len(columns):
            self.highs.changeColsBounds(len(columns), columns, np.zeros(len(columns)), np.zeros(len(columns)))

    def start_at(self, home: Indices, fullest: int) -> None:
        """Begin where each group holds one pair only, which fills one capacity.

        Parameters
        ----------
        home : ndarray of int of shape (n_groups,)
            The pair of each group, among the columns.
        fullest : int
            The row whose capacity is exceeded first as z rises.
        """
        from highspy import HighsBasis, HighsBasisStatus

        lower, basic = HighsBasisStatus.kLower, HighsBasisStatus.kBasic
        chosen = np.isin(self.columns, home).tolist()
        rows = [basic] * self.n_rows + [lower] * len(self.unit) + [basic] * len(self.floored)
        rows[fullest] = HighsBasisStatus.kUpper
        basis = HighsBasis()
        basis.col_status, basis.row_status = [basic, *(basic if at_home else lower for at_home in chosen)], rows
        basis.valid = True
        self.highs.setBasis(basis)

    def resume(self, other: LevelProgram) -> None:
        """Begin where the same program in other units stands."""
        self.highs.setBasis(other.highs.getBasis())

    def ask(self, groups: Indices, rates: Float, bases: Float) -> None:
        """Change what some groups must hold to ``bases + rates z``."""
        rows, unit = self.n_rows + groups, self.unit[groups]
        for row, rate in zip(rows.tolist(), (rates / unit).tolist(), strict=True):
            self.highs.changeCoeff(row, 0, -rate)
        self.highs.changeRowsBounds(len(rows), rows.astype(np.int32), bases / unit, np.full(len(rows), np.inf))

    def solve(self, seconds: float | None = None) -> Found | None:
        """The optimum, from where the last one was; None where HiGHS finds none.

        Parameters
        ----------
        seconds : float, optional
            How long it may take.

        Returns
        -------
        Found or None
        """
        deadline = None if seconds is None else time.perf_counter() + seconds
        while self._run(deadline):
            solution = self.highs.getSolution()
            values, duals = np.array(solution.col_value), np.array(solution.row_dual)
            more = self._worth_adding(duals)
            if not len(more):
                amounts = np.zeros(len(self.group))
                amounts[self.columns] = np.maximum(values[1:], 0.0) * self.unit[self.group[self.columns]]
                prices = np.maximum(-duals[: self.n_rows], 0.0) / len(self.unit)
                return Found(float(values[0]), amounts, prices)
            self._add(more)
            self.columns = np.concatenate([self.columns, more])
        return None

    def _run(self, deadline: float | None) -> bool:
        """Whether HiGHS finds an optimum with the columns at hand."""
        from highspy import HighsModelStatus

        highs = self.highs
        for strategy in (PRIMAL, DUAL):
            if deadline is not None:
                highs.setOptionValue("time_limit", highs.getRunTime() + max(deadline - time.perf_counter(), 0.0))
            highs.setOptionValue("simplex_strategy", strategy)
            highs.run()
            status, found = highs.getModelStatus(), highs.getSolution()
            there = found.value_valid and found.dual_valid and len(found.col_value) == len(self.columns) + 1
            if status == HighsModelStatus.kOptimal and there:
                return True
            if strategy == PRIMAL:
                highs.clearSolver()
        return bool(status == HighsModelStatus.kUnknown and there)  # nearly: the certificate says whether it will do

    def _worth_adding(self, duals: Float) -> Indices:
        """Pairs that cost their group less than what it pays: the cheapest few of each group."""
        if len(self.columns) == len(self.group):
            return np.zeros(0, dtype=np.intp)
        gain = self.matrix.T @ duals  # what is paid less what it costs
        gain[self.columns] = gain[self.closed] = 0.0
        paid = np.maximum(duals[self.n_rows :][: len(self.unit)], 0.0)
        np.add.at(paid, self.floored, np.maximum(duals[self.n_rows + len(self.unit) :], 0.0))
        worth = np.flatnonzero(gain > TIED * paid[self.group])
        order = worth[np.lexsort((-gain[worth], self.group[worth]))]
        begins = np.searchsorted(self.group[order], self.group[order])
        return order[np.arange(len(order)) - begins < MORE]
