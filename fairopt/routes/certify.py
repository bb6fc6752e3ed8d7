"""Proof that an allocation is feasible and optimal, from the data and approximate prices, without trusting a solver.

For prices on capacities, multipliers on the policy's other conditions, and a majorant of the objective (blocks/majorant.py),
the Lagrangian splits into one small problem per user, which is solved in closed form over the user's proven range of
tasks. Its value bounds every feasible allocation from above (weak duality), however bad the prices are: bad prices
give a weak bound, never a wrong one (math.md section 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import boxcox

from fairopt.allocation import GAP_TOLERANCE, feasibility
from fairopt.blocks.constraints import AtLeast
from fairopt.blocks.majorant import Majorant, PowerTerm, RankedTerm, weigh
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Leximin, MaxMin, Objective
from fairopt.routes.program import ConeModel, Program

Float = NDArray[np.floating[Any]]


@dataclass
class Multipliers:
    """What a solver says things are worth, to be taken with salt.

    Attributes
    ----------
    prices : ndarray
        By row of `Pairs.loads`, per whole capacity.
    pair_cost : ndarray of shape (n_pairs,)
        What the policy's other conditions charge for a task of each pair.
    constant : float
        What they give back: multiplier times right-hand side.
    extra : tuple of (Majorant, multiplier)
        Concave functions that must stay at or above a level, with multipliers (their levels are in ``constant``).
    """

    prices: Float
    pair_cost: Float
    constant: float = 0.0
    extra: tuple[tuple[Majorant, float], ...] = ()


@dataclass(frozen=True)
class Bound:
    """A proven bound, in the units of the objective's majorant, and the factor that made the prices fit."""

    value: float
    gap: float
    factor: float


def repair(program: Program, tasks: Float) -> Float:
    """Scale tasks by pair down to task limits, then each server to its capacity: exact feasibility on the data.

    Parameters
    ----------
    program : Program
        Limits and capacities.
    tasks : ndarray of shape (n_pairs,)
        Non-negative.

    Returns
    -------
    ndarray of shape (n_pairs,)
    """
    pairs = program.pairs
    total = pairs.sum(tasks)
    with np.errstate(invalid="ignore", divide="ignore"):
        cut = np.where(total > program.high, program.high / total, 1.0)
    tasks = tasks * cut[pairs.user]
    rows = pairs.loads @ tasks
    usable = program.usable_rows
    over = np.where(usable > 0, rows / np.where(usable > 0, usable, 1.0), np.where(rows > 0, np.inf, 0.0))
    worst = np.maximum(over.reshape(-1, program.instance.n_resources).max(axis=1, initial=0.0), 1.0)
    return tasks / worst[pairs.server]


def block_violation(cone: ConeModel, tasks: Float) -> float:
    """Largest relative violation of the policy's own conditions at tasks by pair."""
    program = cone.program
    totals = program.pairs.sum(tasks)
    short = np.divide(program.low - totals, program.low, out=np.zeros(len(totals)), where=program.low > 0)
    beyond = np.where(np.isfinite(program.high), totals - program.high, 0.0)
    worst = max(float(short.max(initial=0.0)), float((beyond / program.size).max(initial=0.0)))
    if cone.rest:
        before = cone.unknowns.value
        cone.unknowns.value = tasks / cone.scale
        for _, _, condition in cone.rest:
            worst = max(worst, float(np.max(condition.violation(), initial=0.0)))
        cone.unknowns.value = before
    return worst


def relaxed_multipliers(cone: ConeModel, tasks: Float, extra: Sequence[tuple[Any, Any]] = ()) -> Multipliers:
    """Read dual values off a solved model, and the policy's conditions as linear rows or concave functions.

    Parameters
    ----------
    cone : ConeModel
        Solved.
    tasks : ndarray of shape (n_pairs,)
        Where to linearise what is not linear: a tangent of a convex condition only relaxes it.
    extra : sequence of (block, cvxpy.Constraint)
        Conditions beside those of the policy (levels of earlier tiers).

    Returns
    -------
    Multipliers
    """
    program = cone.program
    prices = np.zeros(program.pairs.loads.shape[0])
    prices[program.capacity_rows] = np.maximum(dual_values(cone.capacity), 0.0)
    out = Multipliers(prices, np.zeros(len(program.pairs)))
    point = Point(program.instance, program.pairs.table(tasks))
    before = cone.unknowns.value
    cone.unknowns.value = tasks / cone.scale
    conditions = [(block, condition) for block, _, condition in cone.rest] + list(extra)
    if _differs_by_server(program.objective, program):  # then a bound on tasks is no bound on what they are worth
        conditions += [(None, condition) for condition in cone.box]
    try:
        for block, condition in conditions:
            dual = dual_values(condition)
            if block is not None and isinstance(block, AtLeast) and block.objective.majorant_is_natural:
                majorant = block.objective.majorant(point)
                if majorant is not None:
                    unit = abs(block.level) or 1.0
                    times = max(float(dual.sum()), 0.0) / unit
                    out.extra += ((Majorant().plus(majorant, 1.0), times),)
                    out.constant -= times * block.level
                    continue
            _add_linear(out, condition, dual, cone)
    finally:
        cone.unknowns.value = before
    return out


def _add_linear(out: Multipliers, condition: cp.Constraint, dual: Float, cone: ConeModel) -> None:
    """Charge a condition at its multiplier."""
    charged = linear_charge(condition, cone.unknowns, dual)
    if charged is not None:
        per_unit, value = charged
        out.pair_cost += per_unit / cone.scale
        out.constant += float(per_unit @ np.asarray(cone.unknowns.value, dtype=float)) - value


def linear_charge(condition: cp.Constraint, unknowns: cp.Variable, dual: Float | None = None) -> tuple[Float, float] | None:
    """What a condition ``expr <= 0`` (or == 0), linear or linearised where it stands, charges at its multiplier.

    Parameters
    ----------
    condition : cvxpy.Constraint
        An inequality or equality; anything else is left out, which only relaxes the bound.
    unknowns : cvxpy.Variable
        With the value to linearise at.
    dual : ndarray, optional
        Multipliers; default those that the solver left.

    Returns
    -------
    (ndarray, float) or None
        Multiplier times Jacobian by unknown (in column order), and multiplier times the condition's value.
    """
    dual = dual_values(condition) if dual is None else dual
    if isinstance(condition, (cp.constraints.Inequality, cp.constraints.nonpos.NonPos)):
        expression, sign = condition.expr if hasattr(condition, "expr") else condition.args[0], 1.0
        dual = np.maximum(dual, 0.0)
    elif isinstance(condition, cp.constraints.nonpos.NonNeg):
        expression, sign = condition.args[0], -1.0
        dual = np.maximum(dual, 0.0)
    elif isinstance(condition, (cp.constraints.Equality, cp.constraints.Zero)):
        expression, sign = condition.expr if hasattr(condition, "expr") else condition.args[0], 1.0
    else:  # left out: a relaxation, so the bound stays valid
        return None
    jacobian = expression.grad.get(unknowns)
    if jacobian is None or expression.value is None:
        return None
    per_unit = np.asarray(sp.csr_array(jacobian) @ dual).ravel() * sign  # the Jacobian comes as (unknowns, rows)
    value = float(np.asarray(expression.value, dtype=float).ravel(order="F") @ dual) * sign
    return per_unit, value


def dual_values(condition: cp.Constraint) -> Float:
    """What the solver says a condition is worth, flat in column order; zeros where it says nothing."""
    value = condition.dual_value
    size = int(np.prod(condition.shape)) if condition.shape else 1
    if value is None or isinstance(value, list):
        return np.zeros(size)
    return np.nan_to_num(np.atleast_1d(np.asarray(value, dtype=float)).ravel(order="F"))


def _differs_by_server(objective: Objective, program: Program) -> bool:
    return any(s.coefficients(program.instance).ndim == 2 for s in objective.share_blocks())


# -- the bound --------------------------------------------------------------------------------------------------


def bound(
    program: Program, majorant: Majorant, objective: Objective, multipliers: Multipliers, tasks: Float,
    *, natural: bool = True, start: float | None = None, refine: bool = True,
) -> Bound:  # fmt: skip
    """Bound the objective from above, and measure the gap at the tasks.

    Parameters
    ----------
    program : Program
        What is being solved.
    majorant : Majorant
        Of the objective, tight at the tasks.
    objective : Objective
        Says what a gap is.
    multipliers : Multipliers
        Approximate.
    tasks : ndarray of shape (n_pairs,)
        The answer to judge.
    natural : bool, default True
        Whether the multipliers belong to the majorant's own units; otherwise (an increasing transform was solved) a
        common factor is fitted first.
    start : float, optional
        A guess at that factor.
    refine : bool, default True
        Search for a better factor where the gap is not small yet.

    Returns
    -------
    Bound
    """
    point = Point(program.instance, program.pairs.table(tasks))
    value = majorant.value(point)
    lagrangian = _Lagrangian(program, majorant, multipliers, point)
    candidates = [1.0] if natural else [start] if start else []
    if majorant.ranked:
        candidates.append(0.0)  # nothing is scarce: limits alone hold the poorest back
    fitted = lagrangian.fitted_factor()
    if fitted is not None:
        candidates.append(fitted)
    if not candidates:
        candidates.append(1.0)
    best = Bound(np.inf, np.inf, 1.0)
    for factor in candidates:
        top = lagrangian(factor)
        gap = 0.0 if top - value <= 1e-14 * max(1.0, abs(value)) else objective.relative_gap(top, value, point)
        if gap < best.gap or not np.isfinite(best.gap):
            best = Bound(top, gap, factor)
    if refine and not best.gap <= 0.1 * GAP_TOLERANCE and best.factor > 0:
        found = minimize_scalar(
            lambda t: lagrangian(best.factor * np.exp(t)), bounds=(-0.5, 0.5), method="bounded", options={"xatol": 1e-12}
        )
        factor = float(best.factor * np.exp(found.x))
        gap = objective.relative_gap(float(found.fun), value, point)
        if gap < best.gap:
            best = Bound(float(found.fun), gap, factor)
    return Bound(best.value, max(float(best.gap), 0.0) if np.isfinite(best.gap) else np.inf, best.factor)


class _Lagrangian:
    """The Lagrangian bound as a function of a common factor on all multipliers."""

    def __init__(self, program: Program, majorant: Majorant, multipliers: Multipliers, point: Point) -> None:
        pairs = program.pairs
        self.program, self.majorant, self.multipliers = program, majorant, multipliers
        self.point, self.pairs = point, pairs
        everything = (majorant, *(m for m, _ in multipliers.extra))
        by_server = [p.c for m in everything for p in (*m.powers, *m.ranked) if p.c.ndim == 2]
        curved = [p.c for m in everything for p in m.powers if p.alpha and p.c.ndim == 2]
        by_server = curved + [c for m in everything for c in (r.c for r in m.ranked) if c.ndim == 2] + by_server
        # one number per user must say what a pair is worth: its tasks, or the share that differs by server
        self.reference = by_server[0] if by_server else None
        worth = np.ones(len(pairs)) if self.reference is None else pairs.of(self.reference)
        cost = np.asarray(pairs.loads.T @ multipliers.prices).ravel() + multipliers.pair_cost
        self.by_pair, self.worth = cost / worth, np.zeros(len(pairs))
        if self.reference is not None:
            for p in majorant.powers:
                if p.alpha == 0:
                    self.worth = self.worth + pairs.of(p.factor) * pairs.of(p.c) / worth
            for m, times in multipliers.extra:
                for p in m.powers:
                    if p.alpha == 0:
                        self.by_pair = self.by_pair - times * pairs.of(p.factor) * pairs.of(p.c) / worth
        self.cost = pairs.min(self.by_pair)
        self.back = float(multipliers.prices @ program.usable_rows) + multipliers.constant
        if self.reference is None:
            self.low, self.high = program.low, program.most
            self.at = point.tasks
        else:
            alone = np.where(program.instance.eligible, self.reference * program.instance.tasks_alone, 0.0).sum(axis=1)
            most = np.where(program.instance.eligible, self.reference, 0.0).max(axis=1) * program.most
            self.low, self.high = np.zeros(len(alone)), np.minimum(alone, most)
            self.at = weigh(self.reference, point)

    def _per_unit(self, c: Float) -> Float:
        """Coefficients of a share per unit of the reference."""
        if self.reference is None:
            return c
        if c.ndim == 1:  # at best, the server where a task is worth least of the reference
            least = np.where(self.program.instance.eligible, self.reference, np.inf).min(axis=1)
            return c / least
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.program.instance.eligible, c / self.reference, -np.inf).max(axis=1)

    def _parts(self, factor: float) -> tuple[list[PowerTerm], list[RankedTerm], float]:
        powers, ranked, constant = list(self.majorant.powers), list(self.majorant.ranked), self.majorant.constant
        for extra, times in self.multipliers.extra:
            scaled = Majorant().plus(extra, factor * times)
            powers += scaled.powers
            ranked += scaled.ranked
            constant += scaled.constant
        if self.reference is not None:  # linear terms were charged pair by pair already
            powers = [p for p in powers if p.alpha]
        return powers, [r for r in ranked if r.factor > 0], constant

    def _slopes(self, powers: Sequence[PowerTerm]) -> Float:
        out = np.zeros(len(self.cost))
        for p in powers:
            c = self._per_unit(p.c)
            out = out + p.slopes(c * self.at) * c
        return out

    def fitted_factor(self) -> float | None:
        """The factor that best matches marginal values and costs of users strictly inside their range."""
        ranked = self.majorant.ranked
        inside = (self.at > self.low * (1 + 1e-6)) & (self.at < self.high * (1 - 1e-6))
        if ranked:
            if self.majorant.powers or len(ranked) > 1 or any(ranked[0].v[1:]):
                return None
            level = self._per_unit(ranked[0].c) * self.at  # max-min: the weights of the poorest add up to one
            poorest = level <= level.min() * (1 + 1e-6)
            total = float((np.maximum(self.cost, 0.0) / self._per_unit(ranked[0].c))[poorest].sum())
            return float(ranked[0].factor * ranked[0].v[0] / total) if total > 0 else None
        worth = self._slopes(self.majorant.powers)
        if all(p.alpha == 0 for p in self.majorant.powers) and not self.multipliers.extra:
            return self._linear_factor(worth)
        spend = float((self.at * self.cost)[inside].sum())
        earn = float(np.nan_to_num(self.at[inside] * worth[inside], posinf=0.0).sum())
        return earn / spend if spend > 0 and earn > 0 else None

    def _linear_factor(self, worth: Float) -> float | None:
        """The factor with the least bound when every user's worth is linear: where its slope changes sign."""
        paying = np.flatnonzero((self.cost > 0) & (worth > 0))
        kinks = worth[paying] / self.cost[paying]
        order = np.argsort(-kinks)
        demand = np.cumsum((self.high * self.cost)[paying][order])  # of all who still gain at a smaller factor
        k = int(np.searchsorted(demand, self.back))
        return float(kinks[order][k]) if k < len(kinks) else None

    def __call__(self, factor: float) -> float:
        powers, ranked, constant = self._parts(factor)
        if self.reference is None:
            cost = factor * self.cost
        else:
            cost = self.pairs.min(factor * self.by_pair - self.worth)
            constant -= sum(float(p.factor.sum()) for p in self.majorant.powers if p.alpha == 0)
            constant -= sum(
                factor * t * float(p.factor.sum()) for m, t in self.multipliers.extra for p in m.powers if p.alpha == 0
            )
        terms = [(self._per_unit(p.c), p.factor, p.alpha) for p in powers]
        constant += factor * self.back
        if not ranked:
            return float(_best_response(cost, terms, self.low, self.high).sum() + constant)
        left = np.maximum(cost - np.nan_to_num(self._slopes(powers), posinf=0.0), 0.0)
        weight = sum(r.factor * sum(r.v) for r in ranked)
        pinned = self.at >= self.high * (1 - 1e-7)
        best = np.inf
        for tie in (1e-9, 1e-6, 1e-4) if left.any() else (0.0,):
            charged = cost
            for r in ranked:
                c = self._per_unit(r.c)
                part = r.factor * sum(r.v) / weight
                theta = r.mixture(c * self.at, left * part / c, pinned, tie) if tie else r.sorted_by(c * self.high)
                charged = charged - theta * c
            best = min(best, float(_best_response(charged, terms, self.low, self.high).sum() + constant))
        return best


def _best_response(
    cost: Float, terms: Sequence[tuple[Float, Float, float]], low: Float, high: Float
) -> Float:
    """``max over low <= x <= high of sum_t factor_t boxcox(c_t x; 1 - alpha_t) - cost x`` per user, from above."""
    constant = np.zeros(len(cost))
    curved = []
    for c, factor, alpha in terms:
        if alpha == 0:
            cost = cost - factor * c
            constant = constant - factor
        elif np.any(factor != 0):
            curved.append((c, factor, alpha))
    if not curved:
        return constant - cost * np.where(cost < 0, high, low)
    high = np.where(high > 0, high, 1e-300)

    def gain(x: Float) -> Float:
        out = constant - cost * x
        for c, factor, alpha in curved:
            with np.errstate(divide="ignore", over="ignore"):
                out = out + np.where(factor == 0, 0.0, factor * boxcox(c * x, 1.0 - alpha))
        return out

    if len(curved) == 1:
        c, factor, alpha = curved[0]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            x = np.where((cost > 0) & (factor > 0), (factor * c / cost) ** (1.0 / alpha) / c, np.where(cost > 0, 0, high))
        return gain(np.clip(x, low, high))

    def slope(x: Float) -> Float:
        out = -cost
        for c, factor, alpha in curved:
            with np.errstate(over="ignore", divide="ignore"):
                out = out + np.where(factor == 0, 0.0, factor * c * (c * x) ** -alpha)
        return out

    left, right = np.log(np.maximum(low, high * 1e-30)), np.log(high)
    for _ in range(70):  # halving the logarithm: 70 times leaves 1e-19 of 70 units
        middle = 0.5 * (left + right)
        up = slope(np.exp(middle)) > 0
        left, right = np.where(up, middle, left), np.where(up, right, middle)
    a, b = np.clip(np.exp(left), low, high), np.clip(np.exp(right), low, high)
    rest = np.maximum(slope(a), 0.0) * (b - a)  # concave: nothing between a and b is higher than this
    return np.maximum(gain(a) + np.where(np.isfinite(rest), rest, 0.0), gain(b))


def bottleneck_gap(program: Program, objective: Leximin | MaxMin, tasks: Float) -> float:
    """How far a leximin on one pool is from the bottleneck condition (math.md section 4), relatively.

    Every user is at a bound, or uses a full resource on which no user that could give way has a larger ``s / w``.

    Parameters
    ----------
    program : Program
        One pool; constraints folded into bounds.
    objective : Leximin
        Says which share.
    tasks : ndarray of shape (n_users,)
        The answer to judge.

    Returns
    -------
    float
    """
    instance = program.instance
    c = objective.share.coefficients(instance)
    level = c * tasks / instance.weights
    ratios = program.pairs.loads.T
    load = tasks @ ratios
    with np.errstate(divide="ignore", invalid="ignore"):
        slack = np.where(program.usable > 0, 1.0 - load / program.usable, 0.0)
    movable = tasks > program.low * (1 + 1e-9)  # who is held up by a lower bound takes nothing from anybody
    free = tasks < program.high * (1 - 1e-9)
    excess = np.full(len(tasks), np.inf)
    for i in range(instance.n_resources):
        users = ratios[:, i] > 0
        top = float(level[users & movable].max(initial=0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.where(level > 0, top / np.where(level > 0, level, 1.0) - 1.0, np.inf if top > 0 else 0.0)
        excess = np.where(users, np.minimum(excess, np.maximum(over, max(slack[i], 0.0))), excess)
    return float(np.where(free, np.maximum(excess, 0.0), 0.0).max(initial=0.0))


def tangent(cone: ConeModel, expression: cp.Expression, tasks: Float) -> tuple[Majorant, Float] | None:
    """The tangent of a concave expression at the tasks: a constant, and what a task of each pair is worth.

    Parameters
    ----------
    cone : ConeModel
        The model that the expression is written in.
    expression : cvxpy.Expression
        Scalar, concave.
    tasks : ndarray of shape (n_pairs,)
        Where to touch it.

    Returns
    -------
    (Majorant, ndarray of shape (n_pairs,)) or None
        None where the expression has no gradient there.
    """
    before = cone.unknowns.value
    cone.unknowns.value = tasks / cone.scale
    gradient, value = expression.grad.get(cone.unknowns), expression.value
    cone.unknowns.value = before
    if gradient is None or value is None or not np.isfinite(value):
        return None
    worth = np.asarray(sp.csr_array(gradient).todense()).ravel() / cone.scale
    return Majorant(constant=float(value) - float(worth @ tasks)), worth


def measured_violation(program: Program, tasks: Float) -> float:
    """Violation on the data as given, servers unmerged: capacities, limits, eligibility."""
    return feasibility(program.given, program.expand(tasks))
