"""Evidence of cone programs: the dual values that a solver left, else a dual point of the cone form.

The solver's own objective value and bound are not used: expressions are evaluated at the point that is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from fairopt.blocks.algebra import in_units
from fairopt.blocks.constraints import MadeRows, ManyRows
from fairopt.blocks.efficiency import TotalIs
from fairopt.blocks.form import Form
from fairopt.blocks.model import Point
from fairopt.certificate import GAP_TOLERANCE
from fairopt.formulation.program import ConeModel, Float, Program
from fairopt.lazy import cp
from fairopt.proofs import conditions
from fairopt.proofs.conditions import dual_values
from fairopt.proofs.conic import conic_excess
from fairopt.proofs.lagrangian import Lagrangian, LagrangianBound, Multipliers, lagrangian_bound
from fairopt.proofs.plane import Charged, Optimum
from fairopt.proofs.proposal import Measured, Reader, as_numbers

STEP = 1e-5  # of the way to zero, for slopes along it
IDLE = 1e-13  # of the largest price of a row: smaller ones are what a solver leaves


@dataclass(frozen=True)
class Solved(Optimum):
    """A cone program with the values and dual values of a solver.

    The expression maximised is `ConeModel.maximand`, or the objective in another ``unit``, or ``stands_in``, which has
    the same optimum as the objective, and relates to it in no other way but for its unit, if that is given.
    """

    model: ConeModel
    stands_in: cp.Expression | None = None
    unit: float | None = None

    kind = "duals"

    @cached_property
    def maximand(self) -> tuple[cp.Expression, float | None]:
        """The expression that was maximised, and natural units per unit of it; None for an increasing transform."""
        if self.stands_in is not None:
            return self.stands_in, self.unit
        if self.unit is None:
            return self.model.maximand
        return cp.sum(self.model.program.objective.expression(self.model.model)) / self.unit, self.unit

    def applies(self, program: Program) -> bool:
        return self.model.program is program and not program.term.is_order

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        return judge_solved(program, self, conditions.repair(program, tasks))

    def is_of_cut(self, cut: Program) -> bool:
        return self.model.program is cut

    def charged(self, program: Program, tasks: Float, powers: Form, unit: float) -> Charged:
        cone, point = self.model, program.point(tasks)
        lagrangian = Lagrangian(program, powers, conditions.relaxed_multipliers(cone, tasks), point)
        of_sum = sum(float(dual_values(c)[0]) for block, _, c in cone.rest if isinstance(block, TotalIs))
        factors = slope(powers, self.maximand[0], point, cone, tasks), lagrangian.fitted_factor()
        return Charged(lagrangian, of_sum, factors, in_units=False)

    def of_charged_rows(self, program: Program) -> tuple[Program, Solved, tuple[tuple[int, ...], ...]] | None:
        if self.stands_in is not None:
            return None
        kept: dict[ManyRows, tuple[int, ...]] = dict.fromkeys(program.many_rows, ())
        prices, others = {}, [self.model.capacity, *self.model.box]
        for block, _, condition in self.model.rest:
            if not isinstance(block, MadeRows):
                others.append(condition)
                continue
            dual = dual_values(condition)
            if len(dual) != len(block.made):
                return None
            some = dual > IDLE * dual.max(initial=0.0)
            kept[block.block], prices[block.block] = tuple(np.array(block.made)[some].tolist()), dual[some]
        fewer = program.with_rows(kept)
        model, same = ConeModel(fewer, self.model.model.solver), iter(others)
        of_rows = {id(condition): block.block for block, _, condition in model.rest if isinstance(block, MadeRows)}
        for condition in _conditions(model):
            if id(condition) in of_rows:
                condition.dual_variables[0].save_value(prices[of_rows[id(condition)]])
                continue
            for ours, theirs in zip(condition.dual_variables, next(same).dual_variables, strict=True):
                ours.save_value(theirs.value)
        return fewer, Solved(model, unit=self.unit), tuple(kept.values())

    def numbers(self) -> dict[str, Any]:
        duals = [dual_values(condition).tolist() for condition in _conditions(self.model)]
        return {"kind": self.kind, "duals": duals, "stands_in": self.stands_in is not None, "unit": self.unit}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        """With a new cone model that has the dual values that were kept."""
        model = ConeModel(program, read.solver)
        conditions = _conditions(model)
        if len(conditions) != len(held["duals"]):
            raise ValueError(f"{len(held['duals'])} dual values for {len(conditions)} conditions")
        for condition, dual in zip(conditions, held["duals"], strict=True):
            values = as_numbers(dual, (len(dual_values(condition)),))
            if len(condition.dual_variables) == 1:  # dual values of cones are not charged
                condition.dual_variables[0].save_value(values.reshape(condition.shape, order="F"))
        unit = held.get("unit")
        if unit is None:
            return cls(model, model.maximand[0] if held["stands_in"] else None)
        if not 0 < float(unit) < np.inf:
            raise ValueError(f"the unit is {unit!r}, and must be a number > 0")
        return cls(model, cp.Constant(0.0) if held["stands_in"] else None, float(unit))  # with a unit it is not read


def _conditions(model: ConeModel) -> list[cp.Constraint]:
    """The conditions whose dual values are evidence."""
    return [model.capacity, *model.box, *(condition for _, _, condition in model.rest)]


def judge_solved(program: Program, evidence: Solved, tasks: Float) -> Measured:
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
            conic = plain_gap(program, point, excess * per_form)
        else:  # concave in the form, so its slope bounds what the excess is worth
            value = fit.majorant.value(point)
            conic = max(objective.relative_gap(value + per_form * excess, value, point), 0.0)
        if conic < gap:
            gap, assumed = conic, assumes
    return Measured(tasks, gap, blocks, prices, assumed)


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
    return plain_gap(program, point, found.value - value), charged.prices


def plain_gap(program: Program, point: Point, excess: float) -> float:
    """An excess in units of the objective."""
    objective = program.objective
    return in_units(excess, objective.unit(point), objective.value(point))
