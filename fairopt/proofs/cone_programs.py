"""Answers of cone programs: gaps from the dual values that a solver left, else from a dual point of the cone form.

The solver's own objective value and bound are not used: expressions are evaluated at the point that is judged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.blocks.algebra import in_units
from fairopt.blocks.form import Form
from fairopt.blocks.model import Point
from fairopt.certificate import GAP_TOLERANCE
from fairopt.formulation.bundle_program import BundleConeModel
from fairopt.formulation.program import ConeModel, Float, Program
from fairopt.lazy import cp
from fairopt.proofs import conditions
from fairopt.proofs.conic import conic_excess
from fairopt.proofs.evidence import Solved
from fairopt.proofs.lagrangian import Lagrangian, LagrangianBound, Multipliers, lagrangian_bound

STEP = 1e-5  # of the way to zero, for slopes along it


class Bounded(NamedTuple):
    """A proven gap of the objective, prices by row in its natural units, and what the gap assumes."""

    gap: float
    block_violation: float
    prices: Float | None
    assumed: str = ""


def judge_solved(program: Program, evidence: Solved, tasks: Float) -> Bounded:
    """Bound how much better than the tasks any others can be.

    Where the objective has a majorant, `lagrangian_bound` at the solver's dual values applies; else the tangent at the
    tasks. Where that leaves a gap, the dual of the cone form may be closer.
    """
    cone, objective, (form, factor) = evidence.model, program.objective, evidence.maximand
    blocks = conditions.block_violation(cone, tasks)
    point, fit = program.point(tasks), _fit(program, evidence, tasks)
    if fit is None:
        gap, prices = _tangent_gap(program, evidence, conditions.relaxed_multipliers(cone, tasks), tasks, point)
        per_form: float | None = factor  # an excess of a transform says nothing in natural units
    else:
        majorant, found, per_form = fit.majorant, fit.found, fit.per_form
        gap, prices = found.gap, fit.multipliers.prices * found.factor * majorant.unit
        if not objective.majorant_is_natural:  # of a transform: times the objective's slope by it
            low, high = point.scaled(1 - STEP), point.scaled(1 + STEP)
            run = majorant.unit * (majorant.value(high) - majorant.value(low))
            prices = prices * ((objective.value(high) - objective.value(low)) / run if run else 0.0)
        if {v.id for v in form.variables()} != {cone.unknowns.id}:
            per_form = None
    if evidence.stands_in is not None:  # no bound on the objective
        per_form = None
    assumed = ""
    if not gap <= GAP_TOLERANCE and per_form:
        cone.unknowns.save_value(tasks / cone.scale)
        at = conditions.number(form)
        if any(v.id != cone.unknowns.id for v in form.variables()):  # these have the solver's values
            at = np.nan if factor is None else objective.value(point) / factor
        top = program.most[program.pairs.user] / cone.scale
        excess, assumes = conic_excess(form, cone.all_constraints, cone.unknowns, top, at)
        if fit is None:
            conic = _plain_gap(program, point, excess * per_form)
        else:  # concave in the form, so its slope bounds what the excess is worth
            value = fit.majorant.value(point)
            conic = max(objective.relative_gap(value + per_form * excess, value, point), 0.0)
        if conic < gap:
            gap, assumed = conic, assumes
    return Bounded(gap, blocks, prices, assumed)


def judge_prices(program: Program, prices: Float, tasks: Float) -> Bounded:
    """Bound by prices by row alone, in natural units of an objective that has a majorant in these."""
    lagrangian, found = by_prices(program, prices, tasks)
    unit = found.factor * lagrangian.majorant.unit
    return Bounded(found.gap, conditions.bounds_violation(program, tasks), lagrangian.multipliers.prices * unit)


def by_prices(program: Program, prices: Float, tasks: Float) -> tuple[Lagrangian, LagrangianBound]:
    """The Lagrangian at prices by row, and its bound."""
    objective, point = program.objective, program.point(tasks)
    majorant = objective.majorant(point)
    assert majorant is not None
    charged = Multipliers(np.maximum(prices, 0.0) / majorant.unit, np.zeros(len(program.pairs)))
    found = lagrangian_bound(program, majorant, objective, charged, tasks)
    return Lagrangian(program, majorant, charged, point), found


class _Fit(NamedTuple):
    """The `lagrangian_bound` of a solved program: its majorant, the multipliers in units of these, and by how much the
    majorant changes per unit of the expression that was solved (None where that is not known).
    """

    majorant: Form
    multipliers: Multipliers
    per_form: float | None
    found: LagrangianBound


def _fit(program: Program, evidence: Solved, tasks: Float) -> _Fit | None:
    """The bound of an objective that has a majorant in the units that were solved; None for others."""
    cone, objective, (form, factor) = evidence.model, program.objective, evidence.maximand
    point, natural = program.point(tasks), factor is not None
    majorant = objective.majorant(point)
    if majorant is None or (natural and not objective.majorant_is_natural):
        return None
    multipliers = conditions.relaxed_multipliers(cone, tasks).times(1.0 if factor is None else factor)
    per_form = slope(majorant, form, point, cone, tasks) if factor is None else factor / majorant.unit
    start = None if natural else per_form
    found = lagrangian_bound(program, majorant, objective, multipliers, tasks, natural=natural, start=start)
    return _Fit(majorant, multipliers, per_form, found)


class Scaled(NamedTuple):
    """A Lagrangian with the factor at which it bounds best, and units of its multipliers per unit of dual values."""

    lagrangian: Lagrangian
    factor: float
    per_dual: float


def lagrangian_of(program: Program, evidence: Solved, tasks: Float) -> Scaled | None:
    """The Lagrangian by which `judge_solved` judges an objective that has a majorant; None for others."""
    fit, factor = _fit(program, evidence, tasks), evidence.maximand[1]
    if fit is None:
        return None
    by_units = fit.per_form if factor is None else 1.0  # says more than a bound that proves nothing, or needs no prices
    closest = fit.found.factor if fit.found.gap <= GAP_TOLERANCE else 0.0
    lagrangian = Lagrangian(program, fit.majorant, fit.multipliers, program.point(tasks))
    return Scaled(lagrangian, closest or by_units or fit.found.factor, factor or 1.0)


def judge_solved_bundles(evidence: Solved, bundles: Float, tasks: Float) -> Bounded:
    """Bound how much better than bundles and tasks by server row any others can be; prices are per natural unit."""
    cone, (form, factor) = evidence.model, evidence.maximand
    assert isinstance(cone, BundleConeModel)
    program = cone.program
    cone.save_point(bundles, tasks)
    typical = {cone.unknowns.id: np.ones(cone.unknowns.size)}
    blocks = max((conditions.relative_violation(c, typical) for c in cone.all_constraints), default=0.0)
    top, at = np.concatenate([cone.triples.capacity / cone.units, cone.alone / cone.scale]), conditions.number(form)
    excess, assumed = conic_excess(form, cone.all_constraints, cone.unknowns, top, at)
    if excess == np.inf:
        gap = np.inf
    elif factor is not None:
        gap = _plain_gap(program, program.point(tasks, bundles), excess * factor)
    else:  # of a transform, in units of its own fall
        gap = in_units(excess, conditions.fall_of(form, [cone.unknowns]), at)
    prices = None
    if not cone.rest and factor is not None:
        whole = np.where(program.whole_capacities > 0, program.whole_capacities, np.inf)
        prices = conditions.row_prices(program, cone.capacity).reshape(whole.shape) * factor / whole
    return Bounded(gap, blocks, prices, assumed)


def slope(majorant: Form, form: cp.Expression, point: Point, cone: ConeModel, tasks: Float) -> float | None:
    """Derivative of the majorant by the transform that was solved, along the ray through the tasks."""
    if any(v.id != cone.unknowns.id for v in form.variables()):
        return None  # the values of other variables elsewhere on the ray are not known
    ends = []
    with conditions.values_kept([cone.unknowns]):
        for factor in (1 - STEP, 1 + STEP):
            cone.unknowns.save_value(tasks / cone.scale * factor)
            ends.append((majorant.value(point.scaled(factor)), conditions.number(form)))
    rise, run = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
    return rise / run if np.isfinite(rise) and run > 0 and rise > 0 else None


def _tangent_gap(
    program: Program, evidence: Solved, multipliers: Multipliers, tasks: Float, point: Point
) -> tuple[float, Float]:
    """Gap and prices by the tangent of the objective at the tasks, for objectives without a closer majorant."""
    cone, objective, (form, factor) = evidence.model, program.objective, evidence.maximand
    of_form = factor is not None and evidence.stands_in is None
    natural = form * factor if of_form else cp.sum(objective.expression(cone.model))
    alone = all(v.id == cone.unknowns.id for v in natural.variables())  # else it is not a bound
    touched = conditions.tangent(cone, natural, tasks) if alone else None
    scale = 1.0 if factor is None else factor
    cone.unknowns.save_value(tasks / cone.scale)
    if touched is None:
        return np.inf, multipliers.prices * scale
    majorant, worth = touched
    if factor is None:  # of a transform: times the objective's slope by it
        own = conditions.tangent(cone, form, tasks)
        scale = float(worth @ tasks) / float(own[1] @ tasks) if own is not None and own[1] @ tasks else 1.0
    charged = multipliers.times(scale)
    charged.size = np.abs(worth) + (np.abs(charged.pair_cost) if charged.size is None else charged.size)
    charged.pair_cost = charged.pair_cost - worth
    value = objective.value(point)
    found = lagrangian_bound(program, majorant, objective, charged, tasks, natural=True, refine=False)
    return _plain_gap(program, point, found.value - value), charged.prices


def _plain_gap(program: Program, point: Point, excess: float) -> float:
    """An excess in units of the objective."""
    objective = program.objective
    return in_units(excess, objective.unit(point), objective.value(point))
