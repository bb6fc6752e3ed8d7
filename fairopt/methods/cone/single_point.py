"""Leximin where a curved condition leaves a single point at a level: the levels above it, without further programs.

Programs of later levels then have a feasible set without interior, no multipliers, and solvers end by luck. But the
level's own multipliers, many times over, prove a later level too, once they are moved by so little that its user costs
something and the others above the level still nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fairopt.formulation.program import Program
from fairopt.methods.arrays import Bool, Float, Int
from fairopt.proofs.conic import Boundary, ConicConditions, boundaries, by_row, least_squares
from fairopt.proofs.levels import LevelDual, largest_rise
from fairopt.runtime.lazy import sp
from fairopt.tolerances import GAP_TOLERANCE

# Multiples of a level's multipliers by which a later level is proved. Its bound falls to it like 1 / the multiple, and
# the rounding of the bound grows as the multiple.
MULTIPLES = tuple((10.0 ** np.arange(2, 9.1, 0.5)).tolist())
FIRST = 3  # the place of the multiple that is tried first
STEPS = 8  # of Newton's method
LEFT = 1e-12  # relatively: what rounding leaves of equations
NEAR = 1e-3  # relatively: how far a solver's unknowns may be from the single point, whose level differs by the square
CHARGES = 1e-6  # of the largest: a smaller multiplier is a solver's noise
HELD = 1e-6  # of a user's level: a smaller part on a server is a solver's noise


class SinglePoint(NamedTuple):
    """Multipliers of a level, unknowns and CVXPY's variables that are optimal to rounding, and users above the level.

    Users whom their limits hold there are not among those ``rising``.
    """

    holding: LevelDual
    unknowns: Float
    others: Float
    rising: Bool


def single_point(
    program: Program,
    further: ConicConditions,
    relative: sp.csr_array,
    holding: LevelDual,
    unknowns: Float,
    rising: Bool,
    limits: Float,
) -> SinglePoint | None:
    """The optimum of a level near a solver's; None where there is none nearby.

    ``relative`` (n_users, n_unknowns) are the levels of unknowns, ``rising`` users are above the level, and ``limits``
    (n_users,) are levels at task limits.
    """
    conditions = _Optimality(program, further, relative, holding, unknowns, rising, limits)
    at = begun = conditions.begun
    for _ in range(STEPS):
        jacobian, error = conditions.linearised(at)
        terms = np.maximum(abs(jacobian) @ np.abs(at), np.finfo(float).tiny)
        if np.abs(error / terms).max() <= LEFT:
            break
        scaled = sp.diags_array(1.0 / terms) @ jacobian @ sp.diags_array(conditions.size)
        at = at - conditions.size * least_squares(scaled, error / terms)
        if not np.isfinite(at).all():
            return None
    else:
        return None
    moved = np.abs(at - begun) > NEAR * np.maximum(np.abs(begun), NEAR)
    return None if moved[: len(conditions.some)].any() else conditions.found(at)


class _Optimality:
    """The conditions that are necessary and sufficient for an optimum of a level, as equations of all that is not zero.

    What is charged has nothing left: capacities, linear conditions, and points of a cone and of its dual, which are on
    their boundaries, each along the slope of the other's. Variables that CVXPY added and users above the level cost
    nothing in all; the level's users are at one level, others who pay keep their own, and users whose tasks make room
    for others are at their limits. Pairs that hold next to nothing are closed. The variables are, in order:
    unknowns, CVXPY's variables, the level, lengths along the slopes, multipliers of conditions, prices of capacities,
    and what a unit of the level of each user who pays costs.
    """

    def __init__(
        self,
        program: Program,
        further: ConicConditions,
        relative: sp.csr_array,
        holding: LevelDual,
        unknowns: Float,
        rising: Bool,
        limits: Float,
    ) -> None:
        assert holding.dual is not None
        self.further, self.holding, self.n_unknowns = further, holding, len(unknowns)
        others = np.asarray(further.variable.value, dtype=float)[: further.on_others.shape[1]]
        slack = further.right - further.on_ours @ unknowns - further.on_others @ others
        self.active = _charging(holding.dual, slack, further.dims)
        self.y = np.zeros(len(slack))
        self.y[self.active] = holding.dual[self.active]
        part, usable = relative.T @ np.ones(relative.shape[0]) * unknowns, program.usable_rows
        self.some = np.flatnonzero(part > HELD * program.pairs.sum(part)[program.pairs.user])
        idle, worth = usable - program.pairs.loads @ (unknowns * further.scale), holding.prices * usable
        charged = (abs(further.on_ours.T) @ np.abs(self.y)) * unknowns
        self.priced = np.flatnonzero(worth > idle * max(worth.max(initial=0.0), charged.max(initial=0.0)))
        self.ours, self.theirs = further.on_ours[self.active][:, self.some], further.on_others[self.active]
        of_loads = sp.csr_array(program.pairs.loads)[self.priced] @ sp.diags_array(further.scale)
        self.loads = sp.csr_array(of_loads)[:, self.some]
        prices, self.usable = holding.prices[self.priced], usable[self.priced]
        cost = np.zeros(len(unknowns))
        cost[self.some] = self.ours.T @ self.y[self.active] + self.loads.T @ prices
        paid, values = program.pairs.sum(cost * unknowns), relative @ unknowns
        of_level = np.isin(np.arange(len(paid)), holding.users)
        least = CHARGES * np.abs(paid).max(initial=0.0)
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
        level, y = values[holding.users].mean(keepdims=True), self.y[self.active]
        parts = unknowns[self.some], others, level, lengths, y, prices, paid[paying] / values[paying]
        self.begun, self.ends = np.concatenate(parts), np.cumsum([len(part) for part in parts])[:-1]
        self.size = np.maximum(np.abs(self.begun), NEAR)  # how far each variable moves beside the others
        self.size[self.ends[3] : self.ends[4]] = np.abs(y).max(initial=0.0)

    def linearised(self, at: Float) -> tuple[sp.csr_array, Float]:
        """The derivatives of the equations at variables, and by how much they do not hold."""
        z, v, level, lengths, self.y[self.active], prices, paid = np.split(at, self.ends)
        near, y = boundaries(self.y, self.further.dims, hessians=True), self.y[self.active]
        if len(near) != len(lengths):  # a cone's multipliers left its boundary: there is no such optimum nearby
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

    def found(self, at: Float) -> SinglePoint | None:
        """The optimum; None where numbers are negative that may not be."""
        unknowns, prices = np.zeros(self.n_unknowns), np.zeros(len(self.holding.prices))
        unknowns[self.some], others, _, _, self.y[self.active], prices[self.priced], _ = np.split(at, self.ends)
        if (unknowns < 0).any() or (prices < 0).any():
            return None
        return SinglePoint(replace(self.holding, dual=self.y, prices=prices), unknowns, others, self.rising)


def _charging(y: Float, slack: Float, dims: Any) -> Int:
    """Rows of equations, of linear inequalities with more of a multiplier than is left, and of cones that charge."""
    linear, largest = slice(dims.zero, dims.zero + dims.nonneg), np.abs(y).max(initial=0.0)
    charging: Bool = np.arange(len(y)) < dims.zero
    charging[linear] = y[linear] * np.abs(slack).max(initial=0.0) > slack[linear] * largest
    at = linear.stop
    for size in [*dims.soc, *[3] * (dims.exp + len(dims.p3d))]:
        charging[at : at + size] = np.abs(y[at : at + size]).max() > CHARGES * largest
        at += size
    return np.flatnonzero(charging)


def _bends(near: list[Boundary], lengths: Float, n_rows: int) -> sp.csr_array:
    """The second derivatives of boundaries, each times a length, as a matrix of all rows."""
    out = sp.lil_array((n_rows, n_rows))
    for boundary, length in zip(near, lengths, strict=True):
        out[boundary.rows, boundary.rows] = length * boundary.hessian
    return sp.csr_array(out)


def levels_above(
    program: Program, further: ConicConditions, per_task: Float, holding: LevelDual, tasks: Float, rising: Bool
) -> list[LevelDual]:
    """What holds the rising users one after the other, from the lowest level, as far as a holding's multipliers do."""
    assert holding.dual is not None
    pairs, found = program.pairs, list[LevelDual]()
    values = pairs.sum(tasks * per_task)
    capacities = np.asarray(pairs.loads.T @ holding.prices).ravel()
    free, place = np.flatnonzero(rising[pairs.user] & (tasks > 0)), FIRST

    def held(user: int, times: float) -> tuple[float, LevelDual]:
        wanted = np.where(pairs.user == user, per_task, 0.0)[free]
        assert holding.dual is not None
        y = further.charging_nothing(times * holding.dual, times * capacities[free] - wanted, free)
        made = LevelDual(np.array([user]), times * holding.prices, y, holding.sizes)
        return largest_rise(program, further, tasks, made), made

    for user in sorted(np.flatnonzero(rising).tolist(), key=values.__getitem__):
        tried, better = dict[int, tuple[float, LevelDual]](), True
        while better:  # down to the least rise, from what was best for the user before
            for k in range(max(place - 1, 0), min(place + 2, len(MULTIPLES))):
                if k not in tried:
                    tried[k] = held(user, MULTIPLES[k])
            best = min(tried, key=lambda k: tried[k][0])
            place, better = best, best != place
        rise, made = tried[place]
        if not rise <= GAP_TOLERANCE:
            break
        found.append(made)
    return found
