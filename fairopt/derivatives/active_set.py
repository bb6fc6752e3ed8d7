"""The optimality conditions of a smooth objective at its optimum, and their one-sided derivatives.

With the marginal utility ``omega_j(x)`` of user j's tasks, prices p of full rows and multipliers nu of limits, an
optimum satisfies, on used pairs (j, s), full rows and users at their limits,

    omega_j(x) = sum_i d_ji p_si + nu_j,   sum_j d_ji x_js = C_si,   sum_s x_js = limit_j.

With this active set fixed, the derivatives of these equations along a change of the data are linear in the rates of
tasks and multipliers (Joe-Wong et al. 2013, eqs. 12 and 13, are two of their solutions). A constraint that is active
without a multiplier joins or leaves the active set as the rates require, one at a time, the worst first.

Why not differences of two solutions: their error is that of tasks, 1e-5 for single users at a gap of 1e-11, divided by
the step, and a step across a kink gives neither side. Why the answer is polished first: the equations amplify what a
solver left, and which constraints are active is unclear until Newton's method has solved them to rounding.

In floats the equations are in relative units (what users pay may differ by 25 decades at alpha = 100). They may be
singular: on servers in the same proportions users can be placed in several ways, which changes no user's total. Then
all solutions must agree in the totals, by a singular value decomposition (`_Dense`) or since the objective is strictly
concave (`_Sparse`); else there is no derivative, and the message says why.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.model import Pairs
from fairopt.blocks.normal_form import Term
from fairopt.derivatives.multipliers import MultiplierSet, dense
from fairopt.derivatives.optimum import LATE, SMALL, USED, Change, OptimalityConditions, Optimum, _NoDerivative
from fairopt.instance import Instance
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import sp, sparse_linalg
from fairopt.runtime.tolerances import NOISE, TINY

# Of all payments: smaller multipliers count as zero, and their constraints may leave the active set. At 0 optima where
# several allocations are best, and resources that are full by chance, were not seen.
WEAK = 1e-7
POLISHES = 5  # with one, limits that a solver just missed, and traces of tasks that it left, are no kinks
TRUST = 1e-3  # tolerance of the conditions before tasks are polished
SINGULAR = 1e-11  # smallest pivot relative to the largest: below, solutions are not unique
MAX_DENSE_USERS = 3000  # users of a measure whose Hessian is dense: 9e6 numbers
RANK, CONSISTENT = 1e-9, 1e-6  # of singular equations: relative singular values, and the residual
REGULAR, REFINE = 1e-7, 4  # regularisation of singular equations, and steps of iterative refinement
NO_OPTIMUM = "the tasks do not satisfy the conditions of an optimum"
SEVERAL = "several allocations, or several prices, are optimal here"


class Active(NamedTuple):
    """What is active: pairs that are used, rows that are full, users at their limits."""

    pairs: Bool
    rows: Bool
    limits: Bool


class State(NamedTuple):
    """Tasks by pair, prices by (whole) row, multipliers of limits by user."""

    x: Float
    p: Float
    nu: Float


class ActiveSet:
    """A smooth term on an instance whose demands are equal on all servers, given by its pairs.

    ``c`` (n_users,) are the coefficients of its share. Marginal utilities are in units of ``exp(unit)``.
    """

    unit: float | None = None

    def __init__(self, pairs: Pairs, term: Term, c: Float) -> None:
        instance = self.instance = pairs.instance
        self.pairs, self.term, self.c = pairs, term, c
        self.w, self.limits = instance.weights, instance.task_limits
        self.linear = term.is_linear
        self.user, self.small = pairs.user, sum(pairs.loads.shape) + len(self.w) <= SMALL
        kind: Any = dense if self.small else sp.csr_array
        self.loads, self.of_user = kind(pairs.loads), kind(pairs.totals)
        self.made: dict[tuple[bytes, ...], Any] = {}

    def marginal(self, x: Float) -> tuple[Float, Any, list[tuple[Float, Float]], Float]:
        """Marginal utilities of tasks, their derivatives by log s, and those of their logarithms by alpha.

        By log w, at fixed shares per weight, they fall by ``one_j parts_k``, summed over the returned pairs of arrays.
        """
        total = self.pairs.sum(x)
        log_z = np.log(self.c * total / self.w)
        curves = self.term.kind.curves(log_z, self.w)
        assert curves is not None
        logs = [np.log(self.c / self.w) + curve.log_slopes(log_z) for curve in curves]
        if self.unit is None:
            self.unit = float(np.max(logs))  # marginal utilities of alpha = 50 leave the range of floats
        n = len(total)
        marginal, own, shared, together = np.zeros(n), np.zeros(n), [], None
        for part, log in zip(curves, logs, strict=True):
            one = np.exp(log - self.unit)
            marginal, own = marginal + one, own - part.alpha * one
            if part.common is not None:
                shared.append((one, part.common.parts))
                by_level = np.outer(-part.common.power * one, part.common.parts)
                together = by_level if together is None else together + by_level
        curve: Any
        if together is None:
            curve = np.diag(own) if self.small else sp.diags_array(own).tocsr()
        else:
            together[np.diag_indices(n)] += own
            curve = together if self.small else sp.csr_array(together)
        return marginal, curve, shared, -log_z

    @np.errstate(all="ignore")  # marginal utilities may be zero or overflow
    def start(self, optimum: Optimum, clock: Clock) -> None:
        """Find the active set at an answer, and its multipliers."""
        if self.term.alpha is None and len(self.w) > MAX_DENSE_USERS:
            raise _NoDerivative(
                f"{self.term.measure} couples all users, whose equations are solved for at most {MAX_DENSE_USERS:,} "
                "users"
            )
        for _ in range(POLISHES):  # the active set may be unclear until answers are polished
            self.binding = active = _active_at(optimum)
            state = self._with_limits(np.where(active.pairs, optimum.tasks, 0.0), self._some_prices(optimum))
            polished = self.newton(active, state, clock)
            # rows that are full without a price may exclude each other: once more with those that have one
            if polished is None or polished.p.min(initial=0.0) < -WEAK * self.whole:
                polished = self.newton(self._strong(state), state, clock)
            self.base = polished or state
            optimum = optimum.at(np.maximum(self.base.x, 0.0))
            now = _active_at(optimum)
            joined = (now.rows & ~active.rows).any() or (now.limits & ~active.limits).any()
            if now.pairs[active.pairs].all() and not joined:  # the point's own active set is the one solved for
                break
        cost = self._relative_cost(self.base, self.marginal(self.base.x)[0])
        if np.abs(cost[self.binding.pairs] - 1).max(initial=0.0) > TRUST or (cost < 1 - TRUST).any():
            raise _NoDerivative(NO_OPTIMUM)

    def _relative_cost(self, at: State, marginal: Float) -> Float:
        """The cost of a task of each pair relative to its marginal utility; 1 if both are zero."""
        cost, marginal = self.loads.T @ at.p + at.nu[self.user], marginal[self.user]
        return np.divide(cost, marginal, out=np.where(cost > 0, np.inf, 1.0), where=marginal > 0)

    def _some_prices(self, optimum: Optimum) -> Float:
        """Optimal prices at an answer; sets ``optimal``, the set of all of them."""
        marginal, rows = self.marginal(np.where(optimum.used, optimum.tasks, 0.0))[0], optimum.full
        self.whole = float(marginal @ optimum.total)
        system = OptimalityConditions(optimum, marginal[self.user])
        self.optimal = MultiplierSet(
            system.conditions(rows, np.full(len(rows), self.whole), self.whole, most=np.inf)[0]
        )
        return self._prices(np.zeros(len(self.binding.rows)))

    def _prices(self, goal: Float) -> Float:
        """The optimal prices that minimise the value of a change of rows; of several ones those with the most zeros."""
        p, goal = np.zeros(len(goal)), goal[self.binding.rows]
        # the tie selects one of several minimisers
        tie = 1e-6 * (float(np.abs(goal).max(initial=0.0)) or 1.0)
        optimum = self.optimal.least(goal + tie * np.linspace(1, 2, len(goal)))
        if optimum is None or not np.isfinite(optimum[0]):
            raise _NoDerivative(NO_OPTIMUM)
        p[self.binding.rows] = optimum[1] * self.whole
        return p

    def _with_limits(self, x: Float, p: Float) -> State:
        """The state with the multipliers of limits at prices."""
        beyond = np.maximum(self.marginal(x)[0] - self.pairs.min(self.loads.T @ p), 0.0)
        return State(x, p, np.where(self.binding.limits, beyond, 0.0))

    def _strong(self, state: State) -> Active:
        """Constraints with a positive multiplier."""
        marginal = self.marginal(state.x)[0]
        whole = marginal @ self.pairs.sum(state.x)
        return Active(self.binding.pairs, state.p > WEAK * whole, state.nu > WEAK * marginal)

    def _equations(self, at: State, active: Active) -> tuple[_Dense | _Sparse, Float]:
        """The factorised equations of rates, and units of unknowns; `_NoDerivative` if they leave tasks open."""
        q, r, k = (np.flatnonzero(part) for part in active)
        marginal, curve, _, _ = self.marginal(at.x)
        total = self.pairs.sum(at.x)
        user, safe = self.user[q], np.where(total > 0, total, 1.0)
        if not self.c[user].all():  # tasks that are worth nothing and, as they run, cost nothing
            raise _NoDerivative(SEVERAL)
        # columns in units of the unknowns, rows of users in units of their marginal utility: entries are near 1
        unit_x = np.where(at.x[q] > 0, at.x[q], safe[user])
        whole, per = marginal @ total, (1.0 / marginal[user])[:, None]
        pick = self.of_user[:, q]
        own, load = pick[k], self.loads[r][:, q]
        zero: Any = np.zeros if self.small else sp.csr_array
        b, c = len(r), len(k)
        blocks = [
            [curve[user][:, user] * (unit_x / safe[user]) * per, -load.T * whole * per, -own.T * marginal[k] * per],
            [load * unit_x, zero((b, b)), zero((b, c))],
            [own * unit_x * (1.0 / total[k])[:, None], zero((c, b)), zero((c, c))],
        ]
        units = np.concatenate([unit_x, np.full(b, whole), marginal[k]])
        if self.small:
            return _Dense(np.block(blocks), pick * (unit_x / safe[user])), units
        placed = len(q) > len(self.w) + b + c  # in several ways, on which SuperLU would print BLAS errors
        return _Sparse(sp.block_array(blocks, format="csc"), self.linear, placed), units

    def _spread(self, active: Active, values: Float) -> State:
        """Unknowns of the equations as a state."""
        out = State(*(np.zeros(len(part)) for part in active))
        ends = np.cumsum([part.sum() for part in active])
        for whole, part, piece in zip(out, active, np.split(values, ends[:-1]), strict=True):
            whole[part] = piece
        return out

    def newton(self, active: Active, state: State, clock: Clock) -> State | None:
        """The point near a state that satisfies the conditions with the given active set; None if there is none."""
        q, r, k = active
        for _ in range(25):
            if clock.late:
                raise _NoDerivative(LATE)
            try:
                factors, units = self._equations(state, active)
            except _NoDerivative:
                return None
            marginal, total = self.marginal(state.x)[0][self.user], self.pairs.sum(state.x)
            missing = (self.loads.T @ state.p + state.nu[self.user] - marginal)[q] / marginal[q]
            rest = [missing, (1 - self.loads @ state.x)[r], (self.limits - total)[k] / total[k]]
            step = factors.solve(np.concatenate(rest))[0]
            if not np.isfinite(step).all():
                return None
            move = self._spread(active, step * units)
            # omega has a pole at 0: a step goes at most 9/10 of the way there
            back = np.max(-move.x[state.x > 0] / state.x[state.x > 0], initial=0.0)
            part = 1.0 if self.linear or back < 0.9 else 0.9 / back
            state = State(*(a + part * b for a, b in zip(state, move, strict=True)))
            own = state.x[q] / total[self.user[q]]  # a pair that loses its tasks moves by its own size in every step
            step[: len(own)] *= np.where(own > USED, 1.0, own)
            if np.abs(step).max(initial=0.0) < 1e-9:  # the error is about the square
                return state
        return None

    @np.errstate(all="ignore")
    def rates(self, change: Change) -> tuple[Float, tuple[Active, State] | None]:
        """Rates of users' tasks along a change, and the active set with its state if that is unique."""
        base, instance = self.base, self.instance
        m, server = instance.n_resources, self.pairs.server
        row = instance.capacities * instance.counts[:, None]
        per = np.divide(1.0, row, out=np.zeros(row.shape), where=row > 0)
        gained = (change.capacity * per).ravel()
        if not self.optimal.unique and (change.demand.any() or gained.any()):  # decides among several multipliers
            if change.demand.any():
                raise _NoDerivative("several prices are optimal here, since the same users need the full resources")
            base = self._with_limits(base.x, self._prices(gained))
        strong = self._strong(base)
        marginal, curve, shared, by_alpha = self.marginal(base.x)
        cost = self._relative_cost(base, marginal)
        idle = ~self.binding.pairs & (cost - 1 < 10 * WEAK)
        if self.linear and idle.any():
            raise _NoDerivative(SEVERAL)
        # demands change the cost of tasks and the loads
        more = change.demand[self.user] * per[server]
        np.subtract.at(gained.reshape(-1, m), server, more * base.x[:, None])
        gain = change.log_c * marginal + curve @ (change.log_c - change.log_w)
        for one, parts in shared:
            gain = gain - one * (parts @ change.log_w)
        gain = gain + (change.alpha * by_alpha * marginal if change.alpha else 0.0)
        push = (gain[self.user] - (more * base.p.reshape(-1, m)[server]).sum(axis=1)) / marginal[self.user]
        total = self.pairs.sum(base.x)
        safe = np.where(total > 0, total, 1.0)
        weak = (idle, self.binding.rows & ~strong.rows, self.binding.limits & ~strong.limits)
        active = Active(*(part.copy() for part in strong))
        for _ in range(100):
            q, r, k = active
            key = (base.p.tobytes(), *(part.tobytes() for part in active))
            if key not in self.made:
                self.made = {key: self._equations(base, active)}
            factors, units = self.made[key]
            side = np.concatenate([-push[q], gained[r], np.zeros(int(k.sum()))])
            solution, rest = factors.solve(side)
            size = max(float(np.abs(solution).max()), float(np.abs(side).max()), TINY)
            if rest > CONSISTENT * size:  # a singular system without a solution for this side
                raise _NoDerivative("tasks can be placed in several ways, and the change selects one")
            rate = self._spread(active, solution * units)
            moved = self.pairs.sum(rate.x)
            up = curve @ (moved * (total > 0) / safe)
            violated = (self.loads.T @ rate.p + rate.nu[self.user] - up[self.user]) / marginal[self.user] - push
            wrong = (
                np.where(q, -rate.x / safe[self.user], -violated),
                np.where(r, -rate.p / (marginal @ total), self.loads @ rate.x - gained),
                np.where(k, -rate.nu / marginal, moved / safe),
            )
            by = (np.where(able, beyond, 0.0) for able, beyond in zip(weak, wrong, strict=True))
            part, worst = max(zip(active, by, strict=True), key=lambda pair: pair[1].max(initial=0.0))
            # who leaves would have a multiplier or tasks below 0, who joins would be beyond its bound
            if not worst.max(initial=0.0) > NOISE * size:
                return moved, (active, base) if factors.regular else None
            at = int(np.argmax(worst))
            part[at] = not part[at]
        raise _NoDerivative("the constraints that stay active were not found")

    @np.errstate(all="ignore")
    def stays(
        self, instance: Instance, term: Term, c: Float, kept: tuple[Active, State]
    ) -> tuple[Active, State] | None:
        """The active set and state at the optimum of another instance, if the same set is active; otherwise None."""
        active, near = kept
        other = ActiveSet(Pairs(instance), term, c)
        start = State(near.x, 0 * near.p, 0 * near.nu)  # equations are linear in multipliers
        solution = other.newton(active, start, Clock(None))
        if solution is None:
            return None
        marginal = other.marginal(np.maximum(solution.x, 0.0))[0]
        for part in (solution.x, solution.p, solution.nu / np.where(marginal > 0, marginal, 1.0)):
            if part.min(initial=0.0) < -NOISE * max(np.abs(part).max(initial=0.0), TINY):
                return None
        cost = other._relative_cost(solution, marginal)
        fits = (other.loads @ solution.x <= 1 + NOISE).all()
        below = (other.pairs.sum(solution.x) <= other.limits * (1 + NOISE)).all()
        return (active, solution) if fits and below and (cost >= 1 - NOISE).all() else None


def _active_at(optimum: Optimum) -> Active:
    """Used pairs, full rows, and users at their limits."""
    rows = np.zeros(len(optimum.program.usable_rows), dtype=bool)
    rows[optimum.full] = True
    return Active(optimum.used, rows, optimum.high)


class _Dense:
    """Equations of which all solutions agree in the users' tasks: the sums ``of_user`` of the first unknowns.

    Several solutions occur on servers in the same proportions, where users can be placed in several ways.
    """

    def __init__(self, matrix: Float, of_user: Float) -> None:
        if not np.isfinite(matrix).all():
            raise _NoDerivative("marginal utilities are beyond the range of floats")
        size = np.maximum(np.abs(matrix).max(axis=0), TINY)  # singular values depend on the scaling of columns
        self.left, self.values, right = np.linalg.svd(matrix / size)
        self.rank = int((self.values > RANK * self.values[0]).sum())
        self.regular, self.right = self.rank == len(matrix), right[: self.rank] / size
        if np.abs(of_user @ (right[self.rank :] / size)[:, : of_user.shape[1]].T).max(initial=0.0) > 1e-6:
            raise _NoDerivative(SEVERAL)

    def solve(self, side: Float) -> tuple[Float, float]:
        """The smallest (least-squares) solution, and its residual."""
        along = self.left.T @ side
        solution = self.right.T @ (along[: self.rank] / self.values[: self.rank])
        return np.asarray(solution), float(np.abs(along[self.rank :]).max(initial=0.0))


class _Sparse:
    """The same for many unknowns; if the objective is strictly concave, all solutions agree in the users' tasks."""

    def __init__(self, matrix: Any, linear: bool, singular: bool) -> None:
        self.matrix, self.regular = matrix, False
        if not np.isfinite(matrix.data).all():
            raise _NoDerivative("marginal utilities are beyond the range of floats")
        with contextlib.suppress(RuntimeError):  # exactly singular
            if not singular:
                self.factors = sparse_linalg.splu(matrix)
                pivots = np.abs(self.factors.U.diagonal())
                self.regular = bool(pivots.min() > SINGULAR * pivots.max())
        if not self.regular:
            if linear:
                raise _NoDerivative(SEVERAL)
            # quasi-definite, hence regular in any order of pivots; refinement takes out what is added
            regular = matrix - REGULAR * sp.eye_array(matrix.shape[0])
            self.factors = sparse_linalg.splu(regular.tocsc())

    def solve(self, side: Float) -> tuple[Float, float]:
        """A solution by iterative refinement, and its residual."""
        solution = self.factors.solve(side)
        for _ in range(REFINE):
            solution = solution + self.factors.solve(side - self.matrix @ solution)
        return solution, float(np.abs(side - self.matrix @ solution).max(initial=0.0))
