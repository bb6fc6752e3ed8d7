"""The program of one level of leximin: written by CVXPY, or where all is linear kept in HiGHS.

There may be as many levels as users, with two programs each. CVXPY takes 10 to 20 ms to write a small one, and solvers
begin it afresh; HiGHS takes a few steps from the basis of the last one, and its prices are equal where they have to be.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import partial
from typing import NamedTuple

import numpy as np

from fairopt.formulation import solvers
from fairopt.formulation.program import ConeModel
from fairopt.formulation.solvers import LATE
from fairopt.methods import infeasible
from fairopt.methods.arrays import Bool, Float, Int
from fairopt.methods.cone.solve import _SolverFailed, solve_problem
from fairopt.methods.settings import Settings
from fairopt.methods.simplex import BASIC, DUAL, PRIMAL, Simplex
from fairopt.proofs.conditions import bounds_are_charged, dual_values, row_prices
from fairopt.proofs.conic import ConicConditions
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp, sp, sparse_linalg

STEP = 1e-3  # of a level: how far users are tried to rise
# Multiples of all numbers that HiGHS is given, in turn. Its tolerance is 1e-10, and what it leaves of a level can be
# worth 1e6 times as much to later ones; but where rounding makes the floors of earlier levels conflict, that is needed.
SIZES = (1e3, 1e2, 10.0, 1.0)
REFINEMENTS = 2  # of a basis's duals: one leaves 1e-13 of them squared
ROUNDING = 1e-12  # of the largest dual of a row: what simplex steps leave of zero


class Asked(NamedTuple):
    """Maximise z, or how far users rise, where each user holds at least ``bases + rates z``, all of (n_users,).

    z is at most ``top``. Where users are to ``rise``, z is ``top``, and each of them holds up to `STEP` of its own
    more. Where conditions are curved, users who are ``kept`` at a level may lose a little.
    """

    bases: Float
    rates: Float
    kept: Bool
    top: float = np.inf
    rise: Bool | None = None

    def units(self, level: float) -> Float:
        """About what users hold at a level, so that the rows of a program are near 1; 0 where nothing is asked."""
        return np.asarray(self.bases + self.rates * (self.top if self.rise is not None else level))


class Found(NamedTuple):
    """The largest z, how far users rose in parts of it, duals of users' levels, prices of rows, and further duals."""

    level: float
    rose: Float
    duals: Float
    prices: Float
    dual: Float | None


class LevelPrograms(ABC):
    """The programs of a model's levels; tasks are left in its unknowns.

    ``relative`` (n_users, n_unknowns) are the levels of the unknowns.
    """

    def __init__(self, cone: ConeModel, further: ConicConditions | None, per_task: Float, settings: Settings) -> None:
        self.cone, self.program, self.further, self.settings = cone, cone.program, further, settings
        self.relative = sp.csr_array(cone.program.pairs.totals @ sp.diags_array(per_task * cone.scale))
        self.solves = 0

    def solve(self, asked: Asked) -> Found:
        """The optimum; `_SolverFailed` where the solver finds none."""
        if self.settings.late:
            raise _SolverFailed(LATE)
        self.solves += 1
        found = self._solve(asked)
        if not np.isfinite(self.cone.unknowns.value).all():
            raise _SolverFailed(f"no numbers at program {self.solves}")
        dual = None if found.dual is None else np.nan_to_num(found.dual)
        return found._replace(duals=np.nan_to_num(found.duals), prices=np.nan_to_num(found.prices), dual=dual)

    @abstractmethod
    def _solve(self, asked: Asked) -> Found:
        """The optimum."""

    @abstractmethod
    def close(self, unknowns: Bool) -> None:
        """Let unknowns be zero from now on."""


class ByCvxpy(LevelPrograms):
    """Programs for any solver.

    Earlier levels may lose up to 1 / ``worth`` of what a level gains by that.
    """

    def __init__(
        self,
        cone: ConeModel,
        further: ConicConditions | None,
        per_task: Float,
        settings: Settings,
        solver: str,
        worth: float,
    ) -> None:
        super().__init__(cone, further, per_task, settings)
        self.solver, self.worth, self.base = solver, worth, cone.all_constraints
        self.loss = cp.Variable(nonneg=True) if further is not None and further.curved else 0.0
        self.in_cones = [] if further is None else further.conditions(cone.unknowns)
        if further is not None:
            box = [] if bounds_are_charged(cone.program) else cone.box
            self.base = [cone.capacity, *box, *self.in_cones]

    def _solve(self, asked: Asked) -> Found:
        cone, units, z = self.cone, asked.units(1.0), cp.Variable()
        at = np.flatnonzero(units > 0)
        per, own = 1.0 / units[at], (self.relative @ cone.unknowns)[at]
        asks: cp.Expression = cp.multiply(per * asked.rates[at], z) + per * asked.bases[at]
        value, ends, rise = z - self.loss, [z <= asked.top] if asked.top < np.inf else [], None
        if asked.rise is not None:
            rising = np.flatnonzero(asked.rise)
            rise = cp.Variable(len(rising), nonneg=True)
            place = np.searchsorted(at, rising)
            gained = sp.csr_array((np.ones(len(rising)), (place, np.arange(len(rising)))), shape=(len(at), len(rising)))
            asks = np.ones(len(at)) + STEP * (gained @ rise)
            value, ends = cp.sum(rise) / len(rising) - self.loss / STEP, [rise <= 1]
        asks = asks - asked.kept[at] * (self.loss / self.worth)
        rows = cp.multiply(own, per) - asks >= 0
        problem = cp.Problem(cp.Maximize(value), [*self.base, rows, *ends])
        explain = partial(infeasible.explain, self.program)
        attempt, found = solve_problem(problem, cone.unknowns, self.solver, self.settings, explain=explain)
        if not found:
            raise _SolverFailed(f"{attempt.status} at program {self.solves} {attempt.message}".strip())
        duals, rose = np.zeros(len(units)), np.zeros(len(units))
        duals[at] = np.maximum(dual_values(rows), 0.0) * per
        if rise is not None:
            rose[asked.rise] = np.maximum(np.asarray(rise.value), 0.0)
        dual = None if self.further is None else self.further.dual(self.in_cones)
        level = asked.top if rise is not None else float(z.value)
        return Found(level, rose, duals, row_prices(self.program, cone.capacity), dual)

    def close(self, unknowns: Bool) -> None:
        """Let unknowns be zero from now on."""
        self.base.append(self.cone.unknowns[np.flatnonzero(unknowns)] == 0)


class BySimplex(LevelPrograms):
    """Programs where all conditions are linear, kept in HiGHS: rows of capacities, bounds and conditions, then users.

    Columns are the unknowns, variables that CVXPY added, z, and how far each user rises.
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
        self.closed = np.zeros(len(program.pairs), dtype=bool)
        self.simplex, self.level = Simplex(settings.verbose), 1.0
        self.basis: tuple[Int, Int] | None = None

    def _solve(self, asked: Asked) -> Found:
        check("the solver HIGHS (and giving it programs)")
        return self._by_steps(asked)

    def _by_steps(self, asked: Asked) -> Found:
        """The optimum, by simplex steps from the last one."""
        units, n = asked.units(self.level), len(asked.bases)
        per = np.divide(1.0, units, out=np.zeros(n), where=units > 0)
        rise = np.zeros(n, dtype=bool) if asked.rise is None else asked.rise
        n_others = self.others.stop - self.others.start
        of_users = sp.hstack(
            [
                sp.diags_array(per) @ self.relative,
                sp.csr_array((n, n_others)),
                sp.csr_array(-(per * asked.rates)[:, None]),
                sp.diags_array(-STEP * rise.astype(float)),
            ]
        )
        matrix = sp.csc_array(sp.vstack([self.fixed, of_users]))
        of_level = 0.0 if asked.rise is None else asked.top, asked.top
        gains = rise.astype(float) / max(int(rise.sum()), 1)
        costs = -np.concatenate([np.zeros(self.others.stop), [float(asked.rise is None)], gains])
        free = np.full(n_others, np.inf)
        bounds = (
            np.concatenate([np.zeros(len(self.closed)), -free, of_level[:1], np.zeros(n)]),
            np.concatenate([np.where(self.closed, 0.0, np.inf), free, of_level[1:], rise]),
        )
        least = np.where(units > 0, per * asked.bases, -np.inf)
        rows = np.concatenate([self.low, least]), np.concatenate([self.high, np.full(n, np.inf)])
        simplex, left, begun = self.simplex, self.settings.left(), self.basis is None
        deadline = None if left is None else time.perf_counter() + left
        for size in SIZES:
            simplex.give(costs, bounds, rows, matrix, self.basis, size)
            if simplex.run(deadline, DUAL if begun else PRIMAL, begun and matrix.nnz > solvers.LARGE):
                break
        else:
            if simplex.infeasible:
                infeasible.explain(self.program)
            raise _SolverFailed(LATE if self.settings.late else f"no optimum of program {self.solves}")
        self.basis = simplex.of_columns, simplex.of_rows
        values, duals = simplex.values, -_refined(matrix, costs, simplex)
        duals[np.abs(duals) <= ROUNDING * np.abs(duals).max(initial=0.0)] = 0.0
        self.cone.unknowns.save_value(np.where(self.closed, 0.0, np.maximum(values[: len(self.closed)], 0.0)))
        if self.further is not None and n_others:
            self.further.variable.save_value(values[self.others])
        level, of_rise = float(values[self.others.stop]), np.maximum(values[self.others.stop + 1 :], 0.0)
        if asked.rise is None and asked.rates.any():
            self.level = level if level > 0 else 1.0
        prices, at = np.zeros(self.program.instance.capacities.size), self.program.capacity_rows
        prices[at] = np.maximum(duals[: len(at)], 0.0)
        first = len(self.low) - (0 if self.further is None else len(self.further.right))
        dual = None if self.further is None else duals[first : len(self.low)]
        return Found(level, of_rise, np.maximum(-duals[len(self.low) :], 0.0) * per, prices, dual)

    def close(self, unknowns: Bool) -> None:
        """Let unknowns be zero from now on."""
        self.closed |= unknowns


def _refined(matrix: sp.csc_array, costs: Float, simplex: Simplex) -> Float:
    """The duals of a basis to rounding, so that costs are equal where they have to be; HiGHS leaves 1e-13 of them."""
    columns, rows = np.flatnonzero(simplex.of_columns == BASIC), np.flatnonzero(simplex.of_rows != BASIC)
    if len(columns) != len(rows):
        return simplex.duals
    basis = sp.csc_array(sp.csr_array(matrix[:, columns])[rows].T)
    try:
        factors = sparse_linalg.splu(basis)
    except RuntimeError:  # singular
        return simplex.duals
    exact, aim = basis.astype(np.longdouble), costs[columns].astype(np.longdouble)
    found = simplex.duals[rows].astype(np.longdouble)
    for _ in range(REFINEMENTS):
        found = found + factors.solve((aim - exact @ found).astype(float))
    out = np.zeros(len(simplex.duals))
    out[rows] = found
    return out
