"""The program of one level of leximin: written by CVXPY or, if all is linear, kept in HiGHS.

With levels ``s = R x`` of users it is

    max z   subject to   s_j >= bases_j + rates_j z,   z <= top,   and the policy's constraints,

rows in units of about the level, so that all are near 1. With ``rise`` it maximises the mean of rises r in [0, 1] at a
given z, where ``s_j >= bases_j + rates_j z + STEP r_j`` (Proposition 7.6). Duals of the rows are the prices of levels.

There may be as many levels as users, with two programs each. CVXPY takes 10 to 20 ms to write a small one, and solvers
start from scratch; HiGHS takes a few steps from the last basis, at which equal costs are equal.

In floats each level is a right side of the next program: an error of 1e-10 leaves it without a point, or moves later
levels by up to 1e6 times as much. Therefore programs in HiGHS are given in large units first (`SIZES`), and values and
duals are those of the basis, solved again (`Simplex.refine`); under curved constraints users who are fixed may fall a
little (``penalty``). Noise that is left is counted in the gap (Bound 5.18 in docs/methods/servers.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import NamedTuple

import numpy as np

from fairopt.proof.conic import ConicConditions
from fairopt.proof.feasibility import bounds_are_charged, dual_values, row_prices
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import ROUNDING
from fairopt.solve import infeasible
from fairopt.solve.cone.solve import _SolverFailed, solve_problem
from fairopt.solve.form import solvers
from fairopt.solve.form.program import ConeModel
from fairopt.solve.form.simplex import DUAL, PRIMAL, Simplex
from fairopt.solve.form.solvers import LATE
from fairopt.solve.settings import Settings

STEP = 1e-3  # of a level: the rise that is tested, far above solvers' tolerances and small beside later levels
# Factors of all bounds and costs, in turn, as HiGHS's tolerance of 1e-10 is absolute. Large ones keep the slack of a
# level small, which can move later levels by 1e6 times itself; small ones are needed if rounding makes floors conflict.
SIZES = (1e3, 1e2, 10.0, 1.0)


class LevelProblem(NamedTuple):
    """Maximise z <= ``top`` where each user's level is at least ``bases + rates z``, all of shape (n_users,).

    With ``rise``, z is ``top`` and the mean rise of these users, each up to `STEP` of its level, is maximised
    (Proposition 7.6). Under curved conditions users who are ``fixed`` at a level may lose a little.
    """

    bases: Float
    rates: Float
    fixed: Bool
    top: float = np.inf
    rise: Bool | None = None

    def units(self, level: float) -> Float:
        """Approximate levels of users, so that rows are near 1; 0 where there is no bound."""
        return np.asarray(self.bases + self.rates * (self.top if self.rise is not None else level))


class LevelSolution(NamedTuple):
    """The largest z, users' rises in units of `STEP`, duals of users' levels, prices of rows, and further duals."""

    level: float
    rises: Float
    duals: Float
    prices: Float
    dual: Float | None


class LevelPrograms(ABC):
    """The programs of a model's levels, which set the values of its unknowns.

    ``relative`` (n_users, n_unknowns) maps unknowns to levels.
    """

    def __init__(self, cone: ConeModel, further: ConicConditions | None, per_task: Float, settings: Settings) -> None:
        self.cone, self.program, self.further, self.settings = cone, cone.program, further, settings
        self.relative = sp.csr_array(cone.program.pairs.totals @ sp.diags_array(per_task * cone.scale))
        self.solves = 0

    def solve(self, problem: LevelProblem) -> LevelSolution:
        """The optimum; `_SolverFailed` if the solver finds none."""
        if self.settings.clock.late:
            raise _SolverFailed(LATE)
        self.solves += 1
        solution = self._solve(problem)
        if not np.isfinite(self.cone.unknowns.value).all():
            raise _SolverFailed(f"infinite or NaN values at program {self.solves}")
        dual = None if solution.dual is None else np.nan_to_num(solution.dual)
        return solution._replace(duals=np.nan_to_num(solution.duals), prices=np.nan_to_num(solution.prices), dual=dual)

    @abstractmethod
    def _solve(self, problem: LevelProblem) -> LevelSolution:
        """The optimum."""

    @abstractmethod
    def exclude(self, unknowns: Bool) -> None:
        """Fix unknowns at zero from now on."""


class ByCvxpy(LevelPrograms):
    """Programs for any solver.

    Earlier levels may lose up to 1 / ``penalty`` of what a level gains by that.
    """

    def __init__(
        self,
        cone: ConeModel,
        further: ConicConditions | None,
        per_task: Float,
        settings: Settings,
        solver: str,
        penalty: float,
    ) -> None:
        super().__init__(cone, further, per_task, settings)
        self.solver, self.penalty, self.base = solver, penalty, cone.all_constraints
        self.loss = cp.Variable(nonneg=True) if further is not None and further.curved else 0.0
        self.in_cones = [] if further is None else further.conditions(cone.unknowns)
        if further is not None:
            box = [] if bounds_are_charged(cone.program) else cone.box
            # as matrices: bounds that the proof charges as conditions must not be rows twice, with two multipliers
            self.base = [cone.capacity, *box, *self.in_cones]

    def _solve(self, problem: LevelProblem) -> LevelSolution:
        cone, units, z = self.cone, problem.units(1.0), cp.Variable()
        at = np.flatnonzero(units > 0)
        per, own = 1.0 / units[at], (self.relative @ cone.unknowns)[at]
        least: cp.Expression = cp.multiply(per * problem.rates[at], z) + per * problem.bases[at]
        value, ends, rise = z - self.loss, [z <= problem.top] if problem.top < np.inf else [], None
        if problem.rise is not None:
            rising = np.flatnonzero(problem.rise)
            rise = cp.Variable(len(rising), nonneg=True)
            place = np.searchsorted(at, rising)
            gained = sp.csr_array((np.ones(len(rising)), (place, np.arange(len(rising)))), shape=(len(at), len(rising)))
            least = np.ones(len(at)) + STEP * (gained @ rise)
            value, ends = cp.sum(rise) / len(rising) - self.loss / STEP, [rise <= 1]
        # a loss common to all fixed users, so that one penalty bounds it: at 3e5 a gain of 1 is a loss of 3e-6
        least = least - problem.fixed[at] * (self.loss / self.penalty)
        rows = cp.multiply(own, per) - least >= 0
        attempt, solved = solve_problem(
            cp.Problem(cp.Maximize(value), [*self.base, rows, *ends]),
            cone.unknowns,
            self.solver,
            self.settings,
            explain=partial(infeasible.explain, self.program),
        )
        if not solved:
            raise _SolverFailed(f"{attempt.status} at program {self.solves} {attempt.message}".strip())
        duals, rises = np.zeros(len(units)), np.zeros(len(units))
        duals[at] = np.maximum(dual_values(rows), 0.0) * per
        if rise is not None:
            rises[problem.rise] = np.maximum(np.asarray(rise.value), 0.0)
        dual = None if self.further is None else self.further.dual(self.in_cones)
        level = problem.top if rise is not None else float(z.value)
        return LevelSolution(level, rises, duals, row_prices(self.program, cone.capacity), dual)

    def exclude(self, unknowns: Bool) -> None:
        """Fix unknowns at zero from now on."""
        self.base.append(self.cone.unknowns[np.flatnonzero(unknowns)] == 0)


class BySimplex(LevelPrograms):
    """Linear programs, kept in HiGHS.

    Rows are capacities, bounds, conditions and users' levels. Columns are the unknowns, CVXPY's variables, z, and each
    user's rise.
    """

    def __init__(self, cone: ConeModel, further: ConicConditions | None, per_task: Float, settings: Settings) -> None:
        super().__init__(cone, further, per_task, settings)
        program, rows = self.program, self.program.capacity_rows
        tasks = sp.csr_array(program.pairs.totals @ sp.diags_array(cone.scale))
        parts = [sp.csr_array(sp.csr_array(program.pairs.loads)[rows] @ sp.diags_array(cone.scale))]
        low, high = [np.full(len(rows), -np.inf)], [program.usable_rows[rows]]
        if further is None or not bounds_are_charged(program):
            for users, unit, least, most in cone.bounds:
                parts.append(sp.csr_array(sp.diags_array(1.0 / unit) @ tasks[users]))
                low, high = [*low, least], [*high, most]
        on_others = sp.csr_array((sum(p.shape[0] for p in parts), 0))
        if further is not None:
            on_others = sp.csr_array((on_others.shape[0], further.on_others.shape[1]))
            on_others = sp.csr_array(sp.vstack([on_others, further.on_others]))
            parts.append(further.on_ours)
            equal = np.arange(len(further.right)) < further.dims.zero
            low, high = [*low, np.where(equal, further.right, -np.inf)], [*high, further.right]
        n_users, n_others = program.instance.n_users, on_others.shape[1]
        self.fixed = sp.hstack([sp.vstack(parts), on_others, sp.csr_array((on_others.shape[0], 1 + n_users))])
        self.low, self.high = np.concatenate(low), np.concatenate(high)
        self.others = slice(len(program.pairs), len(program.pairs) + n_others)
        self.excluded = np.zeros(len(program.pairs), dtype=bool)
        self.simplex, self.level = Simplex(settings.verbose), 1.0  # the last level, the unit of the next program's rows
        self.basis: tuple[Indices, Indices] | None = None

    def _solve(self, problem: LevelProblem) -> LevelSolution:
        check("the solver HIGHS (and giving it programs)")
        units, n = problem.units(self.level), len(problem.bases)
        per = np.divide(1.0, units, out=np.zeros(n), where=units > 0)  # rows of users without a bound are 0 >= -inf
        rise = np.zeros(n, dtype=bool) if problem.rise is None else problem.rise
        n_others = self.others.stop - self.others.start
        of_users = sp.hstack(
            [
                sp.diags_array(per) @ self.relative,
                sp.csr_array((n, n_others)),
                sp.csr_array(-(per * problem.rates)[:, None]),
                sp.diags_array(-STEP * rise.astype(float)),
            ]
        )
        matrix = sp.csc_array(sp.vstack([self.fixed, of_users]))
        of_level = 0.0 if problem.rise is None else problem.top, problem.top
        gains = rise.astype(float) / max(int(rise.sum()), 1)
        # the mean of rises, so that costs are near 1 for any number of users
        costs = -np.concatenate([np.zeros(self.others.stop), [float(problem.rise is None)], gains])
        free = np.full(n_others, np.inf)
        bounds = (
            np.concatenate([np.zeros(len(self.excluded)), -free, of_level[:1], np.zeros(n)]),
            np.concatenate([np.where(self.excluded, 0.0, np.inf), free, of_level[1:], rise]),
        )
        least = np.where(units > 0, per * problem.bases, -np.inf)
        rows = np.concatenate([self.low, least]), np.concatenate([self.high, np.full(n, np.inf)])
        simplex, from_scratch, clock = self.simplex, self.basis is None, self.settings.clock
        for size in SIZES:  # until HiGHS finds an optimum
            simplex.give(costs, bounds, rows, matrix, self.basis, size)
            # from one level to the next rates and costs change, at which the last point stays feasible: primal steps
            if simplex.run(clock, DUAL if from_scratch else PRIMAL, from_scratch and matrix.nnz > solvers.LARGE):
                break
        else:
            if simplex.infeasible:
                infeasible.explain(self.program)
            raise _SolverFailed(LATE if clock.late else f"no optimum of program {self.solves}")
        self.basis = simplex.of_columns, simplex.of_rows
        simplex.refine()  # HiGHS's errors of 1e-13 would be right sides of the next level
        values, duals = simplex.values, -simplex.duals
        # refined duals have errors of 1e-16 of the largest: what is below 1e-12 of it is 0
        duals[np.abs(duals) <= ROUNDING * np.abs(duals).max(initial=0.0)] = 0.0
        self.cone.unknowns.save_value(np.where(self.excluded, 0.0, np.maximum(values[: len(self.excluded)], 0.0)))
        if self.further is not None and n_others:
            self.further.variable.save_value(values[self.others])
        level, rises = float(values[self.others.stop]), np.maximum(values[self.others.stop + 1 :], 0.0)
        if problem.rise is None and problem.rates.any():
            self.level = level if level > 0 else 1.0
        prices, at = np.zeros(self.program.instance.capacities.size), self.program.capacity_rows
        prices[at] = np.maximum(duals[: len(at)], 0.0)
        first = len(self.low) - (0 if self.further is None else len(self.further.right))
        dual = None if self.further is None else duals[first : len(self.low)]
        return LevelSolution(level, rises, np.maximum(-duals[len(self.low) :], 0.0) * per, prices, dual)

    def exclude(self, unknowns: Bool) -> None:
        """Fix unknowns at zero from now on."""
        self.excluded |= unknowns
