"""Linear programs in HiGHS that change little from solve to solve, warm-started from the last basis.

``min c'x, low <= x <= high, low <= A x <= high``, as HiGHS takes them. After a change of costs the last basis is
feasible (primal simplex steps go on from it), after a change of right sides or bounds it is dual feasible (dual steps
do). At a level of leximin both change little, and a few steps are enough, where SciPy and CVXPY start anew at each
call.

HiGHS's tolerances are absolute, and 1e-10 at best: callers give programs of size 1, or a ``size`` for all of it. Its
duals have a relative error of 1e-13, which proofs of equal costs do not forgive; `refine` solves the equations of the
basis again, with residuals in long doubles. What one strategy does not solve the other may; nearly optimal answers are
returned too, and the gate decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.clock import Clock, check
from fairopt.runtime.lazy import sp, sparse_linalg
from fairopt.solve.form.highs import give, silence_banner

TOLERANCE, SMALLEST = 1e-10, 1e-12  # the tightest that HiGHS takes
DUAL, PRIMAL = 1, 4  # HiGHS's simplex strategies
LOWER, BASIC, UPPER, FREE = 0, 1, 2, 3  # HiGHS's basis statuses
NO_BASIS = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
DENSE = 120  # rows of a basis that is inverted as a dense table
REFINEMENTS = 2  # of a basis's duals, whose relative error of 1e-13 each one squares


class Simplex:
    """Minimise ``costs @ x`` under bounds on x and on rows, as given last.

    `run` sets ``values`` of columns, ``duals`` of rows, and the basis statuses ``of_columns`` and ``of_rows``.
    """

    def __init__(self, verbose: bool = False) -> None:
        import highspy  # comes with CVXPY, and takes a quarter of a second to import

        silence_banner()
        self.highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        options: dict[str, Any] = {
            "output_flag": verbose,
            "solver": "simplex",
            "simplex_strategy": PRIMAL,
            "parallel": "off",
            "small_matrix_value": SMALLEST,
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        }
        for name, value in options.items():
            self.highs.setOptionValue(name, value)
        self.infeasible = False
        self.of_columns, self.of_rows = NO_BASIS

    def give(
        self,
        costs: Float,
        bounds: tuple[Float, Float],
        rows: tuple[Float, Float],
        matrix: sp.csc_array,
        basis: tuple[Indices, Indices] | None,
        size: float = 1.0,
    ) -> None:
        """Pass a program and the basis statuses of its columns and rows.

        All bounds and costs are multiplied by ``size``, since HiGHS's tolerances are absolute. HiGHS refuses numbers
        beyond 1e15; `run` then returns False. To pass only what differs from the last program, so that HiGHS keeps the
        factors of its basis, saved 2 to 10% of a leximin of teams.
        """
        from highspy import HighsBasis, HighsBasisStatus

        check("the solver HIGHS (and giving it programs)")
        self.costs, self.rows, self.matrix = costs, rows, matrix
        self.size = size
        low, high = bounds
        give(self.highs, costs * size, (low * size, high * size), (rows[0] * size, rows[1] * size), matrix)
        self.n_columns = len(costs)
        if basis is None:
            return
        place = {LOWER: HighsBasisStatus.kLower, BASIC: HighsBasisStatus.kBasic, UPPER: HighsBasisStatus.kUpper}
        place[FREE] = HighsBasisStatus.kZero
        kept = HighsBasis()
        kept.col_status, kept.row_status = ([place[k] for k in by.tolist()] for by in basis)
        kept.valid = True
        self.highs.setBasis(kept)

    def run(self, clock: Clock, first: int = PRIMAL, interior: bool = False) -> bool:
        """Whether HiGHS finds an optimum by the ``first`` strategy or, from scratch, by the other one, in time.

        If ``interior``, the interior point method with crossover replaces the first.
        """
        from highspy import HighsModelStatus

        highs = self.highs
        self.of_columns, self.of_rows = NO_BASIS
        for strategy in (first, PRIMAL + DUAL - first):
            if clock.late:
                return False
            highs.setOptionValue("solver", "ipm" if interior and strategy == first else "simplex")
            if (seconds := clock.left) is not None:
                highs.setOptionValue("time_limit", highs.getRunTime() + seconds)
            highs.setOptionValue("simplex_strategy", strategy)
            highs.run()
            status, solution = highs.getModelStatus(), highs.getSolution()
            there = solution.value_valid and solution.dual_valid and len(solution.col_value) == self.n_columns
            self.infeasible = status == HighsModelStatus.kInfeasible
            if status == HighsModelStatus.kOptimal and there:
                break
            if strategy == first:  # a bad basis may be why: the other strategy starts without it
                highs.clearSolver()
        else:
            if not (status == HighsModelStatus.kUnknown and there):  # nearly optimal: the gate decides
                return False
        basis = highs.getBasis()
        self.of_columns, self.of_rows = (
            np.array([int(k) for k in by], dtype=np.intp) for by in (basis.col_status, basis.row_status)
        )
        self.values, self.duals = np.array(solution.col_value) / self.size, np.array(solution.row_dual) / self.size
        return True

    def refine(self) -> None:
        """Bring values and duals to those of the basis, to rounding; HiGHS's have a relative error of 1e-13.

        Equal costs are then equal, and rows that a next program keeps are not broken. A singular basis changes nothing.
        """
        columns, rows = np.flatnonzero(self.of_columns == BASIC), np.flatnonzero(self.of_rows != BASIC)
        if len(columns) != len(rows):
            return
        whole: Any = self.matrix
        small = len(rows) <= DENSE and whole.shape[0] * whole.shape[1] <= 2 * DENSE * DENSE
        # to cut small sparse tables takes longer than to multiply dense ones
        of_rows: Any = whole.toarray()[rows] if small else sp.csr_array(whole)[rows]
        basis = of_rows[:, columns]
        try:
            if small:
                inverse = np.linalg.inv(basis)
            else:
                factors = sparse_linalg.splu(sp.csc_array(basis))
        except (RuntimeError, np.linalg.LinAlgError):  # singular
            return

        def solved(right: Float, transposed: bool = False) -> Float:
            if small:
                return np.asarray(right @ inverse if transposed else inverse @ right)
            return np.asarray(factors.solve(right, "T" if transposed else "N"))  # type: ignore[call-overload]

        # residuals need more digits than the factors that correct them: 64 bits on most machines
        exact, costs = basis.astype(np.longdouble), self.costs[columns].astype(np.longdouble)
        low, high = self.rows
        right = np.where(self.of_rows[rows] == UPPER, high[rows], low[rows])
        elsewhere = np.where(self.of_columns == BASIC, 0.0, self.values).astype(np.longdouble)
        right = np.where(np.isfinite(right), right, 0.0) - of_rows.astype(np.longdouble) @ elsewhere
        values, duals = self.values[columns].astype(np.longdouble), self.duals[rows].astype(np.longdouble)
        for _ in range(REFINEMENTS):
            values = values + solved(np.asarray(right - exact @ values, dtype=float))
            duals = duals + solved(np.asarray(costs - duals @ exact, dtype=float), transposed=True)
        self.values[columns], self.duals = values, np.zeros(len(self.duals))
        self.duals[rows] = duals
