"""Answers of cone programs: bounds from the dual values that a solver left, else from a dual point of the program.

The solver's own objective value and bound play no part: forms are evaluated at the point that is judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import in_units
from fairopt.blocks.majorant import Majorant
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Objective
from fairopt.certificate import GAP_TOLERANCE
from fairopt.formulation.program import ConeModel, Program
from fairopt.proofs.conditions import block_violation, relaxed_multipliers, tangent
from fairopt.proofs.conic import ASSUMED, conic_bound
from fairopt.proofs.evidence import Solved
from fairopt.proofs.lagrangian import Multipliers, lagrangian_bound

__all__ = ["Bounded", "conic_excess", "judge_solved"]

Float = NDArray[np.floating]
STEP = 1e-5  # of the way to zero, for slopes along it


@dataclass(frozen=True)
class Bounded:
    """What is proved of the objective: a gap, prices by row in its natural units, and what had to be assumed."""

    gap: float
    block_violation: float
    prices: Float | None
    assumed: str = ""


def judge_solved(program: Program, evidence: Solved, tasks: Float) -> Bounded:
    """Bound how much better than the tasks any others can be."""
    cone, objective, (form, factor) = evidence.model, program.objective, evidence.maximand
    blocks = block_violation(cone, tasks)
    multipliers = relaxed_multipliers(cone, tasks)
    point = program.point(tasks)
    majorant = objective.majorant(point)
    if majorant is not None and factor is not None and not objective.majorant_is_natural:
        majorant = None
    if majorant is None:
        gap, prices = _tangent_gap(program, evidence, multipliers, tasks, point)
        per_form: float | None = factor  # an excess of a transform says nothing in natural units
    else:
        if factor is not None:
            multipliers = multipliers.times(factor)
        per_form = _slope(majorant, form, point, cone, tasks) if factor is None else factor / majorant.unit
        start = per_form if factor is None else None
        found = lagrangian_bound(
            program, majorant, objective, multipliers, tasks, natural=factor is not None, start=start
        )
        prices = multipliers.prices * found.factor * majorant.unit
        if not objective.majorant_is_natural:  # a transform was bounded: its slope relates the two
            prices = prices * _natural_slope(objective, majorant, point)
        gap = found.gap
        if evidence.stands_in is not None or {v.id for v in form.variables()} != {cone.unknowns.id}:
            per_form = None
    assumed = ""
    if not gap <= GAP_TOLERANCE and per_form:
        cone.unknowns.save_value(tasks / cone.scale)
        at = _number(form)
        if any(v.id != cone.unknowns.id for v in form.variables()):  # with what a solver left in them
            at = np.nan if factor is None else objective.value(point) / factor
        excess, assumes = conic_excess(evidence, at, program.most[program.pairs.user] / cone.scale)
        if majorant is None:
            conic = _plain_gap(program, point, excess * per_form)
        else:  # concave in the form, so its slope bounds what the excess is worth
            value = majorant.value(point)
            conic = max(objective.relative_gap(value + per_form * excess, value, point), 0.0)
        if conic < gap:
            gap, assumed = conic, ASSUMED if assumes else ""
    return Bounded(gap, blocks, prices, assumed)


def _slope(majorant: Majorant, form: cp.Expression, point: Point, cone: ConeModel, tasks: Float) -> float | None:
    """Derivative of the majorant by the transform that was solved, along the ray through the tasks."""
    if any(v.id != cone.unknowns.id for v in form.variables()):
        return None  # what its own variables should be elsewhere on the ray is not known
    before, ends = cone.unknowns.value, []
    for factor in (1 - STEP, 1 + STEP):
        cone.unknowns.save_value(tasks / cone.scale * factor)
        ends.append((majorant.value(point.scaled(factor)), _number(form)))
    cone.unknowns.save_value(before)
    rise, run = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
    return rise / run if np.isfinite(rise) and run > 0 and rise > 0 else None


def _natural_slope(objective: Objective, majorant: Majorant, point: Point) -> float:
    """Derivative of the objective by the transform that its majorant bounds, along the ray through the tasks."""
    low, high = point.scaled(1 - STEP), point.scaled(1 + STEP)
    run = majorant.unit * (majorant.value(high) - majorant.value(low))
    return (objective.value(high) - objective.value(low)) / run if run else 0.0


def conic_excess(evidence: Solved, value: float, top: Float) -> tuple[float, bool]:
    """How far the cone program's own dual lies above a value of its form, and whether ranges had to be assumed.

    ``top`` is the most that each unknown can be.
    """
    cone = evidence.model
    found = conic_bound(cp.Problem(cp.Maximize(evidence.maximand[0]), cone.all_constraints), cone.unknowns, top)
    if found is None or not np.isfinite(found.value - value):
        return np.inf, False
    return found.value - value, found.assumes


def _tangent_gap(
    program: Program, evidence: Solved, multipliers: Multipliers, tasks: Float, point: Point
) -> tuple[float, Float]:
    """Gap by the tangent of the objective at the answer, for objectives without a closer majorant."""
    cone, objective, (form, factor) = evidence.model, program.objective, evidence.maximand
    natural = cp.sum(objective.expression(cone.model)) if factor is None else form * factor
    alone = all(v.id == cone.unknowns.id for v in natural.variables())  # a tangent in some variables bounds nothing
    touched = tangent(cone, natural, tasks) if alone else None
    scale = 1.0 if factor is None else factor
    cone.unknowns.save_value(tasks / cone.scale)
    if touched is None:
        return np.inf, multipliers.prices * scale
    majorant, worth = touched
    if factor is None:  # an increasing transform was solved: its slope relates the two
        own = tangent(cone, form, tasks)
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


def _number(expression: cp.Expression) -> float:
    """The value of an expression; NaN where it has none."""
    return float("nan") if expression.value is None else float(expression.value)
