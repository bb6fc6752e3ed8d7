"""The optimality conditions of a smooth objective at its optimum, and their one-sided derivatives.

With the worth ``omega_j`` of the last task of user j, prices ``p`` of full rows and multipliers ``nu`` of limits, an
optimum satisfies ``omega_j = sum_i d_ji p_si + nu_j`` where j runs tasks. Differentiated, with what is full, reached
and used kept, these are linear equations for the rates of tasks and multipliers (Joe-Wong et al. 2013, eqs. 12 and 13,
are two of their solutions). Where a condition holds without a multiplier, it joins or leaves as the rates require.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls
from scipy.sparse.linalg import splu

from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Objective
from fairopt.instance import Instance

__all__ = ["ActiveSet", "Change", "NoRate"]

Float = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

FULL, USED = 1e-6, 1e-6  # the rest of a capacity or limit, and the part of a user's tasks, that count as none
WEAK = 1e-7  # multipliers below this part of the whole worth count as zero
AGAIN = 5  # times that tasks are polished
TRUST = 1e-3  # by how much conditions may fail before the tasks are polished
ROUND = 1e-9  # of rates, and of conditions that must hold at a changed point
SINGULAR = 1e-11  # the smallest pivot relative to the largest of equations that have one solution
MOST = 3000  # users of a measure whose derivatives tie all of them
SMALL = 100  # pairs, rows and users up to which dense equations are faster
RANK, CONSISTENT = 1e-9, 1e-6  # of equations with several solutions: singular values, and what is left
REGULAR, REFINE = 1e-7, 4  # what is added to such equations, and steps that take it out again


class NoRate(Exception):
    """There is no derivative, for the reason given."""


class Change(NamedTuple):
    """Rates of the data: row capacities (S, m), demands (n, m), log c (n,), log w (n,), and alpha."""

    capacity: Float
    demand: Float
    log_c: Float
    log_w: Float
    alpha: float


class Held(NamedTuple):
    """What is kept: pairs that are used, rows that are full, users at their limits."""

    pairs: Mask
    rows: Mask
    limits: Mask


class State(NamedTuple):
    """Tasks by pair, prices by row, multipliers of limits by user."""

    x: Float
    p: Float
    nu: Float


class ActiveSet:
    """`AlphaFair` or a concave `FairnessEfficiency` on one instance whose demands are the same on all servers.

    ``c`` (n_users,) are the coefficients of its share. The worth is in units of ``exp(unit)``.
    """

    def __init__(self, instance: Instance, term: Objective, c: Float, unit: float | None = None) -> None:
        self.instance, self.term, self.c, self.w = instance, term, c, instance.weights
        n, m = instance.demands.shape
        self.user, self.server = np.nonzero(instance.eligible)
        pairs, d = np.arange(len(self.user)), instance.demands[self.user]
        rows = (self.server[:, None] * m + np.arange(m)).ravel()
        shape = (instance.n_servers * m, len(pairs))
        self.loads: Any = sp.csr_array((d.ravel(), (rows, np.repeat(pairs, m))), shape=shape)
        self.of_user: Any = sp.csr_array((np.ones(len(pairs)), (self.user, pairs)), shape=(n, len(pairs)))
        self.small = sum(shape) + n <= SMALL
        if self.small:
            self.loads, self.of_user = self.loads.toarray(), self.of_user.toarray()
        self.room = (instance.capacities * instance.counts[:, None]).ravel()
        self.limits, self.linear = instance.task_limits, isinstance(term, AlphaFair) and term.alpha == 0
        self.unit = unit
        self.key: tuple[bytes, ...] = ()
        self.made: Any = None

    @np.errstate(all="ignore")
    def worth(self, x: Float) -> tuple[Float, Any, Float, Float]:
        """Worth of the last task, its derivatives by log s and (s held) by log w, and its log-derivative by alpha."""
        total = self.of_user @ x
        log_z = np.log(self.c * total / self.w)
        if isinstance(self.term, FairnessEfficiency):
            beta, a, extra = self.term.beta, self.term.threshold, self.term.emphasis - self.term.threshold
            in_sum = np.exp(log_z) * self.w
            in_sum /= in_sum.sum()
            in_power = np.log(self.w) + (1 - beta) * log_z
            in_power = np.exp(in_power - in_power.max())
            in_power /= in_power.sum()
            even, sums = a * in_power / total, extra * in_sum / total  # w z^-b c / P = (part of P) / x
            by_w = -np.outer(even, in_power) - np.outer(sums, in_sum)
            curve = by_w - beta * np.diag(even) + beta * np.outer(even, in_power)
            return even + sums, curve if self.small else sp.csr_array(curve), by_w, np.zeros(len(total))
        alpha = self.term.alpha  # type: ignore[attr-defined]
        log_worth = np.log(self.c) - (alpha * log_z if alpha else 0.0)
        if self.unit is None:
            self.unit = float(log_worth.max())
        worth = np.exp(log_worth - self.unit)
        bends: Any = np.diag(-alpha * worth) if self.small else sp.diags_array(-alpha * worth).tocsr()
        return worth, bends, np.zeros((len(total), 0)), -log_z

    def start(self, tasks: Float) -> None:
        """Find what is held at an answer, and its multipliers; tasks are (n_users, n_servers)."""
        if isinstance(self.term, FairnessEfficiency) and len(self.w) > MOST:
            raise NoRate(f"equations of all users together, as of {self.term!r}, are solved for up to {MOST:,}")
        x = np.maximum(tasks[self.user, self.server], 0.0)
        total = self.of_user @ x
        alone = (self.instance.tasks_alone.sum(axis=1) if self.linear else total)[self.user]
        x = np.where((x > USED * total[self.user]) & (x > FULL * alone * self.linear), x, 0.0)
        for _ in range(AGAIN):  # answers may be too inexact to tell what is held before they are polished
            total = self.of_user @ x
            rows = (self.loads @ x >= self.room * (1 - FULL)) & (self.room > 0)
            self.tight = Held(x > 0, rows, (total >= self.limits * (1 - FULL)) & (total > 0))
            state = self._with_limits(x, self._some_prices(x))
            whole = self.worth(x)[0] @ total
            polished = self.newton(self.tight, state)
            if polished is None or (polished.p * self.room).min(initial=0.0) < -WEAK * whole:
                polished = self.newton(self._strong(state), state)
            self.base = state if polished is None else polished
            x = np.maximum(self.base.x, 0.0)
            beyond = (self.loads @ x > self.room * (1 - FULL)) & (self.room > 0) & ~rows
            if not (beyond.any() or (self.of_user @ x > self.limits * (1 - FULL))[~self.tight.limits].any()):
                break
        used = self.tight.pairs
        worth = self.worth(self.base.x)[0]
        cost = (self.loads.T @ self.base.p + self.base.nu[self.user]) / worth[self.user]
        if np.abs(cost[used] - 1).max(initial=0.0) > TRUST or (cost < 1 - TRUST).any():
            raise NoRate(NO_OPTIMUM)

    def _some_prices(self, x: Float) -> Float:
        """Optimal prices at the tasks x; sets whether they are ``unique``."""
        self.costs, self.sides, self.equal = self._costs(x)
        rows, equal = self.tight.rows, self.equal
        units = np.maximum(np.abs(self.costs).max(axis=0, initial=0.0), 1e-300)
        found, rest, rank = np.zeros(int(rows.sum())), 0.0, 0
        if equal.any() and rows.any():
            found, rest = nnls(self.costs[equal] / units, self.sides[equal])
            rank = int(np.linalg.matrix_rank(self.costs[equal] / units, tol=1e-7))
        if rest > TRUST * np.sqrt(len(self.costs) + 1):
            raise NoRate(NO_OPTIMUM)
        self.unique = rank == rows.sum()
        p = np.zeros(len(self.room))
        p[rows] = found / units
        return p if self.unique else self._prices(p * 0.0)

    def _costs(self, x: Float) -> tuple[Float, Float, Mask]:
        """Conditions on prices of full rows: costs (n_conditions, n_rows), sides, and which are equations.

        Cost equals worth where users run tasks, and is no less elsewhere; for users at limits it is no more, and the
        same wherever they run tasks.
        """
        used, rows, limits = self.tight
        worth, at = self.worth(x)[0], np.arange(len(self.user))
        order = np.argsort(x, kind="stable")
        main = np.zeros(len(self.w), dtype=np.intp)  # the pair where a user runs most
        main[self.user[order]] = order
        part = _dense(self.loads[rows] * (1.0 / worth[self.user])).T
        capped, first = limits[self.user], main[self.user] == at
        costs = part - np.where((capped & ~first)[:, None], part[main[self.user]], 0.0)
        sides = np.where(capped & ~first, 0.0, 1.0)
        at_most = capped & first
        sign = np.where(at_most, 1.0, -1.0)  # of conditions costs <= sides
        equal = used & ~at_most
        return np.where(equal, 1.0, sign)[:, None] * costs, np.where(equal, 1.0, sign) * sides, equal

    def _with_limits(self, x: Float, p: Float) -> State:
        cost = np.full(len(self.w), np.inf)
        np.minimum.at(cost, self.user, self.loads.T @ p)
        nu = np.where(self.tight.limits, np.maximum(self.worth(x)[0] - cost, 0.0), 0.0)
        return State(x, p, nu)

    def _strong(self, state: State) -> Held:
        """Conditions with a multiplier."""
        worth = self.worth(state.x)[0]
        whole = worth @ (self.of_user @ state.x)
        return Held(self.tight.pairs, state.p * self.room > WEAK * whole, state.nu > WEAK * worth)

    @np.errstate(all="ignore")
    def _equations(self, at: State, held: Held) -> tuple[Any, Float, Any]:
        """The factorised equations of rates, the units of unknowns and the worths; `NoRate` if they are singular."""
        q, r, k = (np.flatnonzero(part) for part in held)
        worth, curve, _, _ = self.worth(at.x)
        total = self.of_user @ at.x
        user, safe = self.user[q], np.where(total > 0, total, 1.0)
        unit_x = np.where(at.x[q] > 0, at.x[q], safe[user])
        unit_p, unit_nu = (worth @ total) / self.room[r], worth[k]
        pick = self.of_user[:, q]
        own, load, per = pick[k], self.loads[r][:, q], (1.0 / worth[user])[:, None]
        b, c = len(r), len(k)
        zero: Any = np.zeros if self.small else sp.csr_array
        blocks = [
            [curve[user][:, user] * (unit_x / safe[user]) * per, -load.T * unit_p * per, -own.T * unit_nu * per],
            [load * unit_x * (1.0 / self.room[r])[:, None], zero((b, b)), zero((b, c))],
            [own * unit_x * (1.0 / total[k])[:, None], zero((c, b)), zero((c, c))],
        ]
        units = np.concatenate([unit_x, unit_p, unit_nu])
        if self.small:
            return _Dense(np.block(blocks), _dense(pick * (unit_x / safe[user]))), units, worth
        return _Sparse(sp.block_array(blocks, format="csc"), self.linear), units, worth

    @property
    def regular(self) -> bool:
        """Whether the equations solved last have one solution."""
        return bool(self.made[0].regular)

    def _kept_equations(self, at: State, held: Held) -> tuple[Any, Float, Any]:
        """`_equations`, the last ones kept for the next change."""
        key = (at.p.tobytes(), *(part.tobytes() for part in held))
        if key != self.key:
            self.made, self.key = self._equations(at, held), key
        return self.made

    def _spread(self, held: Held, values: Float) -> State:
        """Unknowns of the equations as a state."""
        out = State(*(np.zeros(len(part)) for part in held))
        ends = np.cumsum([part.sum() for part in held])
        for whole, part, piece in zip(out, held, np.split(values, ends[:-1]), strict=True):
            whole[part] = piece
        return out

    def newton(self, held: Held, state: State) -> State | None:
        """The point that satisfies the conditions with the same parts held, near a state; None without."""
        q, r, k = held
        for _ in range(25):
            try:
                factors, units, worth = self._equations(state, held)
            except NoRate:
                return None
            left = (worth[self.user] - self.loads.T @ state.p - state.nu[self.user]) / worth[self.user]
            full = (self.room - self.loads @ state.x)[r] / self.room[r]
            total = self.of_user @ state.x
            rest = np.concatenate([-left[q], full, ((self.limits - total)[k] / total[k])])
            step = factors.solve(rest)[0]
            move = self._spread(held, step * units)
            back = np.max(np.where(q & (state.x > 0), -move.x / np.where(state.x > 0, state.x, 1.0), 0.0), initial=0.0)
            part = 1.0 if self.linear or back < 0.9 else 0.9 / back
            state = State(*(a + part * b for a, b in zip(state, move, strict=True)))
            if not np.isfinite(step).all():
                return None
            if np.abs(step).max(initial=0.0) < 1e-9:  # the error is about the square
                return state
        return None

    def rates(self, change: Change) -> tuple[Float, Held, State]:
        """Rates of users' tasks along a change, what stays held, and the multipliers."""
        base = self.base
        if not self.unique and (change.demand.any() or change.capacity.any()):  # decides among several multipliers
            if change.demand.any():
                raise NoRate("several prices are optimal here, since resources are full for the same users")
            base = self._with_limits(base.x, self._prices(change.capacity.ravel()))
        strong = self._strong(base)
        worth, curve, by_w, by_alpha = self.worth(base.x)
        reduced = (self.loads.T @ base.p + base.nu[self.user] - worth[self.user]) / worth[self.user]
        idle = ~self.tight.pairs & (reduced < 10 * WEAK)
        if self.linear and idle.any():
            raise NoRate(SEVERAL)
        # demands enter the cost of tasks, and the loads
        m, d_p = self.instance.n_resources, base.p.reshape(-1, self.instance.n_resources)
        dearer = np.einsum("pi,pi->p", change.demand[self.user], d_p[self.server])
        gain = change.log_c * worth + curve @ (change.log_c - change.log_w)
        gain = gain + (by_w @ change.log_w if by_w.size else 0.0)
        gain = gain + (change.alpha * by_alpha * worth if change.alpha else 0.0)
        push = (gain[self.user] - dearer) / worth[self.user]
        room = change.capacity.ravel().copy()
        np.subtract.at(room.reshape(-1, m), self.server, change.demand[self.user] * base.x[:, None])
        held = Held(strong.pairs.copy(), strong.rows.copy(), strong.limits.copy())
        for _ in range(100):
            q, r, k = held
            factors, units, _ = self._kept_equations(base, held)
            side = np.concatenate([-push[q], room[r] / self.room[r], np.zeros(int(k.sum()))])
            solution, rest = factors.solve(side)
            size = max(float(np.abs(solution).max()), float(np.abs(side).max()), 1e-300)
            if rest > CONSISTENT * size:
                raise NoRate("tasks can be placed in several ways, of which the change decides for one")
            rate = self._spread(held, solution * units)
            total = self.of_user @ base.x
            moved = self.of_user @ rate.x
            up = curve @ np.divide(moved, total, out=np.zeros_like(moved), where=total > 0)
            cost = (self.loads.T @ rate.p + rate.nu[self.user] - up[self.user]) / worth[self.user] - push
            unit = np.maximum(self.room, 1e-300)
            wrong = (
                np.where(r, -rate.p * self.room / (worth @ total), (self.loads @ rate.x - room) / unit),
                np.where(k, -rate.nu / worth, moved / np.where(total > 0, total, 1.0)),
                np.where(q, -rate.x / np.where(total > 0, total, 1.0)[self.user], -cost),
            )  # fmt: skip
            weak = (self.tight.rows & ~strong.rows, self.tight.limits & ~strong.limits, idle)
            worst = [np.where(able, by, 0.0) for by, able in zip(wrong, weak, strict=True)]
            which = int(np.argmax([w.max(initial=0.0) for w in worst]))
            if not worst[which].max(initial=0.0) > ROUND * size:
                return moved, held, base
            part = (held.rows, held.limits, held.pairs)[which]
            at = int(np.argmax(worst[which]))
            part[at] = not part[at]
        raise NoRate("which conditions stay held was not found")

    def _prices(self, goal: Float) -> Float:
        """The optimal prices at which a change of capacities is worth least."""
        rows, equal = self.tight.rows, self.equal
        unit = np.maximum(np.abs(self.costs).max(axis=0), 1e-300)
        costs, loose = self.costs / unit, self.sides + 1e-9
        found = linprog(goal[rows] / unit, A_ub=costs[~equal], b_ub=loose[~equal], A_eq=costs[equal],
                        b_eq=self.sides[equal], bounds=(0, None), method="highs")  # fmt: skip
        if found.status != 0:
            raise NoRate("several prices are optimal here, and the extreme ones were not found")
        p = np.zeros(len(goal))
        p[rows] = found.x / unit
        return p

    def stays(self, instance: Instance, term: Objective, c: Float, kept: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What is held at the optimum of another instance, and its state, if the same is held there; else None."""
        held, near = kept
        other = ActiveSet(instance, term, c, self.unit)
        found = other.newton(held, near)
        if found is None:
            return None
        worth, user = other.worth(np.maximum(found.x, 0.0))[0], other.user
        for part in (found.x, found.p * other.room, found.nu / worth):
            if part.min(initial=0.0) < -ROUND * max(np.abs(part).max(initial=0.0), 1e-300):
                return None
        cost = other.loads.T @ found.p + found.nu[user]
        fits = (other.loads @ found.x <= other.room * (1 + ROUND)).all()
        below = (other.of_user @ found.x <= other.limits * (1 + ROUND)).all()
        return (held, found) if fits and below and (cost >= worth[user] * (1 - ROUND)).all() else None


def _dense(matrix: Any) -> Float:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


class _Dense:
    """Equations whose solutions, if there are several, agree in the users' tasks: sums ``of_user`` of the first.

    So it is on servers in the same proportions, where users can be placed otherwise with as many tasks.
    """

    def __init__(self, matrix: Float, of_user: Float) -> None:
        if not np.isfinite(matrix).all():
            raise NoRate("the worth of tasks is beyond the range of floats")
        self.left, self.values, right = np.linalg.svd(matrix)
        self.rank = int((self.values > RANK * self.values[0]).sum())
        self.regular, self.right = self.rank == len(matrix), right[: self.rank]
        if np.abs(of_user @ right[self.rank :, : of_user.shape[1]].T).max(initial=0.0) > 1e-6:
            raise NoRate(SEVERAL)

    def solve(self, side: Float) -> tuple[Float, float]:
        """The smallest solution, of least squares where there is none, and what it leaves."""
        along = self.left.T @ side
        solution = self.right.T @ (along[: self.rank] / self.values[: self.rank])
        return np.asarray(solution), float(np.abs(along[self.rank :]).max(initial=0.0))


class _Sparse:
    """The same for many unknowns; where the objective bends, several solutions always agree in the users' tasks."""

    def __init__(self, matrix: Any, linear: bool) -> None:
        self.matrix, size = matrix, matrix.shape[0]
        if not np.isfinite(matrix.data).all():
            raise NoRate("the worth of tasks is beyond the range of floats")
        try:
            self.factors = splu(matrix)
            pivots = np.abs(self.factors.U.diagonal())
            self.regular = bool(pivots.min() > SINGULAR * pivots.max())
        except RuntimeError:  # exactly singular
            self.regular = False
        if not self.regular:
            if linear:
                raise NoRate(SEVERAL)
            self.factors = splu((matrix - REGULAR * sp.eye_array(size)).tocsc())  # quasi-definite, up to scales

    def solve(self, side: Float) -> tuple[Float, float]:
        """A solution by iterative refinement, and what it leaves."""
        solution = self.factors.solve(side)
        for _ in range(REFINE):
            solution = solution + self.factors.solve(side - self.matrix @ solution)
        return solution, float(np.abs(side - self.matrix @ solution).max(initial=0.0))


NO_OPTIMUM = "the tasks do not satisfy the conditions of an optimum"
SEVERAL = "several allocations, or several prices, are optimal here"
