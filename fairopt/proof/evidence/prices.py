"""Evidence of prices, and of multipliers of rows and kept levels, of objectives with a majorant or marginal utilities.

They bound the optimum by ``p'r + sum_j (the largest gain of j at its cheapest server)``, plus what rows and levels
charge (Bound 7.1, docs/methods/cone.md). Gains have closed forms for one power, tangents beside best responses for sums
of several; limits of shares that differ by server have the best multipliers, and the smallest level its best bound
(Propositions 5.1, 5.11 and 5.16, docs/methods/servers.md). Objectives of users' own kinds are bounded by their tangent
at the best responses (`response_tangent`).

In files all are one kind, in natural units; `read_prices` picks the bounds in passes for one pool where they apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from fairopt.blocks.algebra import in_units
from fairopt.blocks.efficiency import TotalIs
from fairopt.blocks.form import Form
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Objective
from fairopt.proof import feasibility as conditions
from fairopt.proof.dual import Dual
from fairopt.proof.dual_bound import LagrangianBound, lagrangian_bound
from fairopt.proof.entries import Named, price_rows
from fairopt.proof.evidence.pool import PoolPrices
from fairopt.proof.evidence.supporting import NEAR, is_small, supporting
from fairopt.proof.lagrangian import Lagrangian, Multipliers
from fairopt.proof.plane_bound import LineLagrangian, PlaneOptimum
from fairopt.proof.proposal import Evidence, Measured, Reader
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import GAP_TOLERANCE, TERM_ROUNDING
from fairopt.solve.form.program import ConeModel, Program

STEP = 1e-5  # relative, of finite differences along a ray: prices reported to users, no part of the bound


class Bounded(NamedTuple):
    """The gap by a record of multipliers, and what natural multipliers are per unit of its own.

    The Lagrangian bound ``found``, if there is one, is by the record divided by a ``size``.
    """

    gap: float
    natural: float
    size: float = 1.0
    found: LagrangianBound | None = None


@dataclass(frozen=True)
class Prices(PlaneOptimum):
    """Multipliers of a program, of which prices by row of loads may be all."""

    program: Program
    dual: Dual

    kind = "prices"

    def applies(self, program: Program) -> bool:
        return self.program is program and not program.term.is_order

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        point, violation = program.point(tasks), conditions.violation_at(program, tasks)
        bounded = self.bounded(program, tasks, point)
        if bounded is None:
            return Measured(tasks, np.inf, violation, self.dual.prices)
        named = self.dual.named(program, bounded.natural) if bounded.gap <= GAP_TOLERANCE else {}
        prices = np.maximum(self.dual.prices, 0.0) * bounded.natural
        return Measured(tasks, bounded.gap, violation, prices, multipliers=named)

    def bounded(self, program: Program, tasks: Float, point: Point) -> Bounded | None:
        """The bound at tasks; None for objectives without one."""
        objective = program.objective
        majorant = objective.majorant(point)
        if majorant is None:
            charged = self.dual.charges(point)
            tangent = response_tangent(program, charged, tasks)
            if tangent is None:
                return None
            top = Lagrangian(program, *tangent, point)(1.0)
            gap = in_units(top - objective.value(point), *objective.units(point)) if np.isfinite(top) else np.inf
            return Bounded(max(gap, 0.0), 1.0)
        size = 1.0
        if program.term.is_smallest:  # of any size, which is fitted: costs of large ones would overflow
            size = float(np.max(self.dual.prices, initial=0.0)) or 1.0
        per = natural_units(program, majorant, point, self.dual.unit)
        form, unit = _of_smallest_level(program, majorant, point)
        charged = self.dual.charges(point, 1.0 / (per * size * unit))
        found = lagrangian_bound(program, form, objective, charged, tasks, start=1.0, point=point)
        return Bounded(found.gap, found.factor * natural_slope(objective, majorant, point) / per / size, size, found)

    def most_rise(self, program: Program, tasks: Float) -> Float:
        if self.program.pairs is not program.pairs:  # of another program: nothing is known
            return super().most_rise(program, tasks)
        return conditions.rise_at_prices(program, self.dual.prices, tasks)

    def is_of_cut(self, cut: Program) -> bool:
        return self.program is cut and all(type(block) is TotalIs for block in cut.rest)

    def line_lagrangian(self, program: Program, tasks: Float, powers: Form, unit: float) -> LineLagrangian:
        point, (term,) = program.point(tasks), powers.curves
        of_sum = sum(float(y @ one.rows.right) for one, y in self.dual.rows if isinstance(one.block, TotalIs))
        lagrangian = Lagrangian(program, powers, self.dual.charges(point), point)
        return LineLagrangian(lagrangian, of_sum, [float(np.float64(unit) ** (term.alpha - 1.0))], in_units=True)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        """With mixtures of ranked terms, for which multipliers may have any size."""
        point = program.point(tasks)
        bounded = self.bounded(program, tasks, point) if program.term.ranks is not None or program.rest else None
        if bounded is None or bounded.found is None:
            return self.dual.entry(program, names)
        found = bounded.found
        dual = self.dual.times(found.factor / bounded.size)
        dual = replace(dual, prices=np.maximum(dual.prices, 0.0))
        held = dual.completed(program, point, found.lagrangian, found.factor).entry(program, names)
        return supported(program, tasks, names, held, found.lagrangian, found.gap) if program.rest else held

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        dual = Dual.restored(program, held, read.names)
        if dual.unit != 1.0 and program.term.alpha is None:
            raise ValueError("a unit of shares for an objective that is no sum of one power")
        return cls(program, dual)


def _of_smallest_level(program: Program, majorant: Form, point: Point) -> tuple[Form, float]:
    """Alpha-fairness in units of the smallest level at the point, of which powers do not overflow, and this unit.

    Above alpha = 1: of two users 87 decades apart the powers of one were infinite in units of a common level.
    """
    (curve, *more) = majorant.curves or (None,)
    if curve is None or more or not (program.term.is_curved and majorant.of_users and curve.alpha > 1):
        return majorant, 1.0
    level = float(curve.at(point).min(initial=np.inf))
    if not 0 < level < np.inf:
        return majorant, 1.0
    with np.errstate(over="ignore"):
        unit = float(np.float64(level) ** (1.0 - curve.alpha))
    return replace(majorant, curves=(replace(curve, c=curve.c / level),), unit=majorant.unit * unit), unit


def natural_units(program: Program, majorant: Form, point: Point, unit: float) -> float:
    """What entries have per unit of a majorant, for shares in multiples of ``unit``."""
    term, out = program.term, majorant.unit
    if term.is_curved and term.alpha is not None:
        with np.errstate(over="ignore"):  # powers of NumPy's floats are infinite where Python's are errors
            natural = float(out * np.float64(unit) ** (term.alpha - 1.0))
            weight, level = float(point.weights_of(term.share).sum()), point.level(term.share)
            by_level = float(term.factor * weight * np.float64(level / unit) ** (1.0 - term.alpha))
        out = natural if 0 < natural < np.inf else by_level
    return float(out * point.level(term.share) if term.kind.in_levels else out)


def natural_slope(objective: Objective, majorant: Form, point: Point) -> float:
    """The derivative of the objective by a majorant that may bound a transform of it."""
    if objective.majorant_is_natural:
        return majorant.unit
    term = objective.term
    if term.alpha is not None:
        value, weight = term.kind.simplest.value(term.share, point), float(point.weights_of(term.share).sum())
        return majorant.unit / term.factor * term.natural(value, weight)[1]
    low, high = point.scaled(1 - STEP), point.scaled(1 + STEP)
    run = majorant.unit * (majorant.value(high) - majorant.value(low))
    return majorant.unit * (objective.value(high) - objective.value(low)) / run if run else 0.0


def response_tangent(program: Program, charged: Multipliers, tasks: Float) -> tuple[Form, Multipliers] | None:
    """The tangent of a sum over users at the best responses to costs, as a constant and costs of pairs; None if none.

    A concave function lies below its tangents (Bound 4.11, docs/methods/pool.md). At best responses slopes are costs,
    so that errors of prices enter by their squares; at the answer they enter as they are: gaps of 200 small sums on
    servers were up to 1e-6, and are 8e-9. Responses may be computed with derivatives that users' blocks return, which
    are not trusted; tangents are those of CVXPY expressions, if these are concave and have no variables of their own.
    """
    marginal, pairs = program.marginal, program.pairs
    if marginal is None:
        return None
    cone = ConeModel(program)
    if not cone.natural.is_concave():
        return None
    total = pairs.sum(tasks)
    cost = pairs.min(program.rows.cost(charged.prices) + charged.pair_cost)
    response = marginal.response(cost, program.low, program.most, total)
    # a response has a total; it is divided among servers as the answer is
    part = np.divide(response, total, out=np.ones(len(total)), where=(response > 0) & (total > 0))
    at = tasks * part[pairs.user]
    tangent = conditions.tangent(cone, cone.natural, at)
    if tangent is None or tangent[2]:
        return None
    form, slopes, _ = tangent
    size = abs(form.constant) + 2 * float(np.abs(slopes) @ at)  # value and slopes cancel in the constant
    with_slopes = Multipliers(charged.prices, -slopes, size=np.abs(slopes))
    with_slopes.plus(charged)
    with_slopes.extra = charged.extra
    return Form(constant=form.constant + TERM_ROUNDING * size), with_slopes


def supported(
    program: Program, tasks: Float, names: Named, held: dict[str, Any], lagrangian: Lagrangian, gap: float
) -> dict[str, Any]:
    """The entry of multipliers that prove a gap, or one of multipliers that support the tasks, if that proves more.

    What a reader may lose by rounding outwards, and by its own tangents, is left to it. It knows the sum of each user's
    tasks only: a bound by ranges of them on each server is none of its own.
    """
    of_sums = gap <= GAP_TOLERANCE / 4
    if not is_small(program) or (of_sums and getattr(lagrangian, "reference", None) is None):
        return held
    gap = np.inf if of_sums else gap
    unit, objective, point = float(held["unit"]), program.objective, program.point(tasks)
    majorant = objective.majorant(point)
    assert majorant is not None
    per, value = natural_units(program, majorant, point, unit), majorant.value(point)
    # two programs at most, and the second only if the first leaves more than a reader can take
    for near in NEAR:
        try:
            found = supporting(program, tasks, near)
        except ValueError:
            continue
        top = value + max(found.excess, 0.0)
        smaller = max(objective.relative_gap(top, value, point), 0.0) if top > value else 0.0
        dual = replace(found.dual.times(per), unit=unit)
        if not of_sums:  # curves at their best instead of tangents
            again = Prices(program, dual).measured(program, tasks, None).gap
            smaller = min(smaller, again) if dual.mixtures or any(dual.of_kept) else again
        if smaller < gap and not (of_sums and smaller > GAP_TOLERANCE / 4):
            gap, held = smaller, dual.entry(program, names)
        if gap <= GAP_TOLERANCE / 4:
            break
    return held


def read_prices(program: Program, held: Mapping[str, Any], read: Reader) -> Evidence:
    """An entry of prices as the evidence with the fastest bound for the program."""
    term, more = program.term, held.get("rows") or held.get("kept") or program.rest
    # the general bound takes all that an entry has; without prices others would divide by their sum
    in_passes = program.pool_share is not None and term.alpha is not None and not more
    kind = PoolPrices if in_passes and price_rows(program, held).any() else Prices
    return kind.restored(program, held, read)
