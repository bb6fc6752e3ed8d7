"""Leximin at a level where a curved condition leaves a single point: the levels above, without further programs.

If a curved condition such as ``norm(x - mean x) <= r`` is tight at the largest lowest level, it often leaves one point.
Programs of later levels then have no interior and no multipliers, and solvers fail. But the level's own optimality
conditions are equations with a regular solution near the solver's point:

    A x + B v + s = b,   B'y = 0,   A'y + D'p = cost of levels,   s and y on the boundaries of the cone and its dual,

which Newton's method solves to rounding (`Optimality`). For a later user k, W times the multipliers (p, y), moved
slightly so that k costs 1 and the others above the level nothing, bounds k's level (Bound 5.8): ``(W y + e)`` stays in
the dual cone for large W, and its excess falls like 1 / W. Why not a larger W always: the rounding of the bound grows
with it, hence `MULTIPLES`. See *Single points* in docs/methods/cone.md.

Why Newton's method after a solver: the point depends on its level by a square root, so that 1e-9 less of the level may
be 3e-5 of the point. A point that is not near the solver's (`NEAR`), or has a negative part, is dropped; what is
proposed is judged like any other. Of 326 drawn leximins under curved conditions it answers 51, one of them alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fairopt.proof.conic import Boundary, ConicConditions, boundaries, by_row
from fairopt.proof.dual import Dual
from fairopt.proof.least_squares import least_squares
from fairopt.proof.level_bounds import largest_rise
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import GAP_TOLERANCE, ROUNDING
from fairopt.solve.form.program import Program

# Multiples of a level's multipliers that prove a later level: the bound's excess falls with the multiple, and its
# rounding grows with it.
MULTIPLES = tuple((10.0 ** np.arange(2, 9.1, 0.5)).tolist())
FIRST = 3  # index of the multiple that is tried first, 10^3.5; later users start from the best of the one before
STEPS = 8  # of Newton's method, which squares the error: from 1e-3 four suffice if the point is regular
NEAR = 1e-3  # relative distance from a solver's unknowns to the single point; levels differ by its square
SMALL = 1e-6  # relative to the largest multiplier, or to a user's level: a smaller part is a solver's noise


class SinglePoint(NamedTuple):
    """A level's optimum to rounding: multipliers, unknowns, CVXPY's variables, and users above the level.

    Users at their limits are not among those ``rising``.
    """

    holding: Dual
    unknowns: Float
    others: Float
    rising: Bool


class Optimality:
    """The optimality conditions of a level, as equations in all variables that are not zero.

    Complementary slackness: capacities and linear conditions with multipliers are tight, and slacks and multipliers of
    a cone are on the boundaries of the cone and its dual, each along the other's normal. Stationarity: CVXPY's
    variables and users above the level have reduced cost zero. The level's users are at one level, other users with a
    cost keep theirs, and users of negative cost are at their limits. Pairs with next to nothing are left out. The
    variables are, in order: unknowns, CVXPY's variables, the level, lengths along normals, multipliers of conditions,
    prices of capacities, and the cost of a unit of level of each user with a cost.

    ``relative`` (n_users, n_unknowns) maps unknowns to levels, ``rising`` users are above the level, and ``limits``
    (n_users,) are levels at task limits.
    """

    def __init__(
        self,
        program: Program,
        further: ConicConditions,
        relative: sp.csr_array,
        holding: Dual,
        unknowns: Float,
        rising: Bool,
        limits: Float,
    ) -> None:
        assert holding.in_cone is not None
        self.further, self.holding, self.n_unknowns = further, holding, len(unknowns)
        n_others = further.on_others.shape[1]
        others = np.asarray(further.variable.value, dtype=float)[:n_others] if n_others else np.zeros(0)
        slack = further.right - further.on_ours @ unknowns - further.on_others @ others
        self.active = _charging(holding.in_cone, slack, further.dims)
        self.y = np.zeros(len(slack))
        self.y[self.active] = holding.in_cone[self.active]
        part, usable = relative.T @ np.ones(relative.shape[0]) * unknowns, program.usable_rows
        # pairs with a solver's noise are left out, else their costs would be equations that do not hold
        self.some = np.flatnonzero(part > SMALL * program.pairs.sum(part)[program.pairs.user])
        idle, value = usable - program.pairs.loads @ (unknowns * further.scale), holding.prices * usable
        charged = (abs(further.on_ours.T) @ np.abs(self.y)) * unknowns
        self.priced = np.flatnonzero(value > idle * max(value.max(initial=0.0), charged.max(initial=0.0)))
        self.ours, self.theirs = further.on_ours[self.active][:, self.some], further.on_others[self.active]
        of_loads = sp.csr_array(program.pairs.loads)[self.priced] @ sp.diags_array(further.scale)
        self.loads = sp.csr_array(of_loads)[:, self.some]
        prices, self.usable = holding.prices[self.priced], usable[self.priced]
        cost = np.zeros(len(unknowns))
        cost[self.some] = self.ours.T @ self.y[self.active] + self.loads.T @ prices
        paid, values = program.pairs.sum(cost * unknowns), relative @ unknowns
        of_level = np.isin(np.arange(len(paid)), holding.fixed)
        least = SMALL * np.abs(paid).max(initial=0.0)
        # a negative cost holds a user at its limit, which is then an equation of its own
        limited = rising & (paid < -least) & np.isfinite(limits)
        self.rising = rising & ~limited
        pays = of_level | ~self.rising & (np.abs(paid) > least)
        paying = np.flatnonzero(pays)
        self.levels, self.at_level = relative[paying][:, self.some], of_level[paying]
        self.kept = np.where(self.at_level, 0.0, np.where(limited, limits, values)[paying])
        self.costing = np.flatnonzero((pays | rising)[program.pairs.user[self.some]])
        lengths = [
            float(b.gradient @ slack[b.rows] / (b.gradient @ b.gradient)) for b in boundaries(self.y, further.dims)
        ]
        level, y = values[holding.fixed].mean(keepdims=True), self.y[self.active]
        parts = unknowns[self.some], others, level, lengths, y, prices, paid[paying] / values[paying]
        self.start, self.ends = np.concatenate(parts), np.cumsum([len(part) for part in parts])[:-1]
        self.size = np.maximum(np.abs(self.start), NEAR)  # the scale of each variable
        # a solver's multipliers are accurate relative to the largest
        self.size[self.ends[3] : self.ends[4]] = np.abs(y).max(initial=0.0)

    def solved(self) -> SinglePoint | None:
        """The optimum near the starting point, by Newton's method; None if there is none nearby."""
        at = self.start
        for _ in range(STEPS):
            jacobian, error = self._linearised(at)
            # each equation relative to its terms: capacities, costs and boundaries have no unit in common
            terms = np.maximum(abs(jacobian) @ np.abs(at), np.finfo(float).tiny)
            if np.abs(error / terms).max() <= ROUNDING:
                break
            scaled = sp.diags_array(1.0 / terms) @ jacobian @ sp.diags_array(self.size)
            # least squares, as equations may depend on each other (multipliers that are not unique)
            at = at - self.size * least_squares(scaled, error / terms)
            if not np.isfinite(at).all():
                return None
        else:
            return None
        moved = np.abs(at - self.start) > NEAR * np.maximum(np.abs(self.start), NEAR)
        unknowns, prices = np.zeros(self.n_unknowns), np.zeros(len(self.holding.prices))
        unknowns[self.some], others, _, _, self.y[self.active], prices[self.priced], _ = np.split(at, self.ends)
        if moved[: len(self.some)].any() or (unknowns < 0).any() or (prices < 0).any():
            return None
        return SinglePoint(replace(self.holding, in_cone=self.y, prices=prices), unknowns, others, self.rising)

    def _linearised(self, at: Float) -> tuple[sp.csr_array, Float]:
        """The Jacobian and the residuals of the equations."""
        z, v, level, lengths, self.y[self.active], prices, paid = np.split(at, self.ends)
        near, y = boundaries(self.y, self.further.dims, hessians=True), self.y[self.active]
        if len(near) != len(lengths):  # a cone's multipliers left its boundary
            return sp.csr_array((1, len(at))), np.array([np.inf])
        slopes = sp.csr_array(by_row(near, len(self.y))[:, self.active])
        bends = _bends(near, lengths, len(self.y))[self.active][:, self.active]
        costs = self.ours.T.tocsr()[self.costing], self.loads.T.tocsr()[self.costing]
        blocks: list[list[Any]] = [
            [self.ours, self.theirs, None, slopes.T, bends, None, None],
            [self.loads, None, None, None, None, None, None],
            [self.levels, None, -self.at_level.astype(float)[:, None], None, None, None, None],
            [None, None, None, None, self.theirs.T, None, None],
            [None, None, None, None, *costs, -self.levels.T.tocsr()[self.costing]],
            [None, None, None, None, slopes, None, None],
        ]
        error = np.concatenate(
            [
                self.ours @ z + self.theirs @ v + slopes.T @ lengths - self.further.right[self.active],
                self.loads @ z - self.usable,
                self.levels @ z - np.where(self.at_level, level, self.kept),
                self.theirs.T @ y,
                (self.ours.T @ y + self.loads.T @ prices - self.levels.T @ paid)[self.costing],
                [boundary.inside for boundary in near],
            ]
        )
        return sp.csr_array(sp.block_array(blocks)), error


def _charging(y: Float, slack: Float, dims: Any) -> Indices:
    """Rows of equations, of tight inequalities, and of cones with multipliers."""
    linear, largest = slice(dims.zero, dims.zero + dims.nonneg), np.abs(y).max(initial=0.0)
    charging: Bool = np.arange(len(y)) < dims.zero
    charging[linear] = y[linear] * np.abs(slack).max(initial=0.0) > slack[linear] * largest
    at = linear.stop
    for size in [*dims.soc, *[3] * (dims.exp + len(dims.p3d))]:
        charging[at : at + size] = np.abs(y[at : at + size]).max() > SMALL * largest
        at += size
    return np.flatnonzero(charging)


def _bends(near: list[Boundary], lengths: Float, n_rows: int) -> sp.csr_array:
    """The second derivatives of boundaries, each times its length, as one matrix."""
    out = sp.lil_array((n_rows, n_rows))
    for boundary, length in zip(near, lengths, strict=True):
        out[boundary.rows, boundary.rows] = length * boundary.hessian
    return sp.csr_array(out)


def levels_above(
    program: Program, further: ConicConditions, per_task: Float, holding: Dual, tasks: Float, rising: Bool
) -> list[Dual]:
    """Holdings of the rising users one by one, from the lowest level, as far as the multipliers prove these."""
    assert holding.in_cone is not None
    pairs, duals = program.pairs, list[Dual]()
    values = pairs.sum(tasks * per_task)
    capacities = np.asarray(pairs.loads.T @ holding.prices).ravel()
    free, place = np.flatnonzero(rising[pairs.user] & (tasks > 0)), FIRST

    def bounded(user: int, times: float) -> tuple[float, Dual]:
        """The largest rise of a user by a multiple of the multipliers, and its holding."""
        target = np.where(pairs.user == user, per_task, 0.0)[free]
        assert holding.in_cone is not None
        y = further.charging_nothing(times * holding.in_cone, times * capacities[free] - target, free)
        of_user = replace(holding, prices=times * holding.prices, fixed=np.array([user]), in_cone=y)
        return largest_rise(program, further, tasks, of_user), of_user

    for user in sorted(np.flatnonzero(rising).tolist(), key=values.__getitem__):
        tried, better = dict[int, tuple[float, Dual]](), True
        # descent to the least rise, from the best multiple of the user before: the excess falls, then rounding grows
        while better:
            for k in range(max(place - 1, 0), min(place + 2, len(MULTIPLES))):
                if k not in tried:
                    tried[k] = bounded(user, MULTIPLES[k])
            best = min(tried, key=lambda k: tried[k][0])
            place, better = best, best != place
        rise, of_user = tried[place]
        if not rise <= GAP_TOLERANCE:
            break
        duals.append(of_user)
    return duals
