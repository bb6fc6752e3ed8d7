"""The general route: any blocks, through CVXPY, with any solver that can take them, judged by the certificate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.majorant import Majorant
from fairopt.blocks.model import Model, Point
from fairopt.blocks.objectives import Objective
from fairopt.certificate import GAP_TOLERANCE, Try, within_tolerance
from fairopt.errors import NotConcave
from fairopt.routes import certify, conflict, solvers
from fairopt.routes.conic_bound import conic_bound
from fairopt.routes.program import ConeModel, Program
from fairopt.routes.unbounded import refuse_unbounded
from fairopt.telling import tell

Float = NDArray[np.floating[Any]]
log = logging.getLogger("fairopt")


@dataclass(frozen=True)
class Settings:
    """How the caller wants it solved."""

    solver: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    deadline: float | None = None
    verbose: bool = False
    quick: bool = False  # only the first solver of the chain: something better follows
    general: Callable[[Program, Settings], Answer] | None = None  # instead of `solve`: `Prepared` has kept a program
    start: Float | None = None  # a guess at prices, in natural units by server row given

    def left(self) -> float | None:
        """Seconds left, never negative."""
        return None if self.deadline is None else max(self.deadline - time.perf_counter(), 0.0)

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def chain(self, linear: bool) -> list[str]:
        """The solver asked for alone, or the chain."""
        if self.solver:
            return [self.solver]
        return solvers.chain(linear)[: 1 if self.quick else None]


@dataclass(frozen=True)
class Answer:
    """What a route found: tasks by pair, its evidence, and prices by row of `Pairs.loads` per whole capacity.

    ``value`` is that of the objective, where the route came by it, and ``violation`` that of the data as given.
    """

    tasks: Float
    gap: float
    violation: float
    method: str
    prices: Float | None = None
    block_violation: float = 0.0
    solver: str | None = None
    tried: tuple[Try, ...] = ()
    gaps: tuple[float, ...] = ()
    note: str = ""
    value: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it can be certified."""
        return within_tolerance(self.gap, self.violation, self.block_violation)


def solve(program: Program, settings: Settings) -> Answer:
    """Maximise an objective that is a number (no order), by the first solver whose answer can be certified.

    Parameters
    ----------
    program : Program
        What to solve.
    settings : Settings
        Solver, options, time.

    Returns
    -------
    Answer
        The best found; the caller looks at ``ok``.

    Raises
    ------
    Infeasible, Unbounded, NotConcave, SolverUnavailable
    """
    tried: list[Try] = []
    best: Answer | None = None
    linear: bool | None = None
    names = [(name, False) for name in settings.chain(True)]
    while names:
        name, looser = names.pop(0)
        if settings.late:
            tried.append(Try(name, "not tried", 0.0, message="time limit reached"))
            break
        start = time.perf_counter()
        cone = ConeModel(program, name)
        form, natural_factor = objective_form(program.objective, cone.model, cone.unknowns)
        if linear is None and settings.solver is None:
            linear = form.is_pwl() and all(is_linear(c) for _, _, c in cone.rest)
            if not linear:
                names = [(name, False) for name in settings.chain(False)]
                continue
        problem = cp.Problem(cp.Maximize(form), cone.all_constraints)
        tell(f"cone program by {name}" + (", looser" if looser else ""))
        attempt = solvers.run(
            problem, name, options=settings.options, time_limit=settings.left(), verbose=settings.verbose,
            looser=looser,
        )  # fmt: skip
        if attempt.status.startswith("infeasible"):
            conflict.explain(program)  # raises Infeasible, unless a second look finds it feasible
        if "unbounded" in attempt.status:
            refuse_unbounded(program.objective, form, cone.all_constraints, cone.unknowns)
        if attempt.status in solvers.SOLVED and has_values(cone):
            answer = judge(program, cone, form, natural_factor, problem)
            attempt = replace(attempt, gap=answer.gap, violation=answer.violation)
            answer = replace(answer, solver=name)
            if best is None or rank(answer) < rank(best):
                best = answer
        tried.append(replace(attempt, seconds=time.perf_counter() - start))
        log.info("%s", tried[-1])
        if best is not None and best.ok:
            break
        if not looser and not settings.quick and solvers.has_second_try(name):
            names.insert(0, (name, True))
    if best is None:
        best = Answer(np.zeros(len(program.pairs)), np.inf, 0.0, "cone", block_violation=np.inf)
    return replace(best, tried=tuple(tried))


def objective_form(
    objective: Objective, model: Model, unknowns: cp.Variable
) -> tuple[cp.Expression, float | None]:  # fmt: skip
    """What to give the solver, and natural units per unit of it (None: an increasing transform).

    Parameters
    ----------
    objective : Objective
        A number, not an order.
    model : Model
        To write it in.
    unknowns : cvxpy.Variable
        Those of the model, near 1.

    Returns
    -------
    (cvxpy.Expression, float or None)

    Raises
    ------
    NotConcave
        If CVXPY's rules do not prove it concave.
    """
    form = objective.solver_form(model)
    factor = None
    if form is None:
        form = cp.sum(objective.expression(model))
        unknowns.save_value(np.ones(unknowns.shape))
        full = _finite(form)
        unknowns.save_value(np.full(unknowns.shape, 1 - 1e-4))
        near = _finite(form)
        unknowns.save_value(None)
        factor = abs(full - near) / 1e-4 or abs(full) or 1.0  # so that the solver's tolerances mean something
        form = form / factor
    if not form.is_concave():
        parts = [t for _, t in objective.terms() if not cp.sum(t.expression(model)).is_concave()]
        raise NotConcave(
            f"{(parts or [objective])[0]!r} is not concave by CVXPY's rules ({form.curvature.lower()}); "
            "write it with concave atoms of increasing arguments, or use another objective"
        )
    return form, factor


def judge(
    program: Program,
    cone: ConeModel,
    form: cp.Expression,
    factor: float | None,
    problem: cp.Problem,
    stands_in: bool = False,
) -> Answer:
    """Repair what a solver left in the model, and bound how much better anything can be.

    Parameters
    ----------
    program : Program
        What was solved.
    cone : ConeModel
        Solved.
    form : cvxpy.Expression
        What was maximised.
    factor : float or None
        Natural units per unit of ``form``; None for an increasing transform.
    problem : cvxpy.Problem
        The problem that was solved.
    stands_in : bool, default False
        The form only has the same optimum: its own dual says nothing about the objective.

    Returns
    -------
    Answer
    """
    objective = program.objective
    tasks = certify.repair(program, cone.tasks())
    violation = certify.measured_violation(program, tasks)
    blocks = certify.block_violation(cone, tasks)
    multipliers = certify.relaxed_multipliers(cone, tasks)
    point = Point(program.instance, program.pairs.table(tasks))
    majorant = objective.majorant(point)
    if majorant is not None and factor is not None and not objective.majorant_is_natural:
        majorant = None
    if majorant is not None:
        if factor is not None:
            multipliers = _times(multipliers, factor)
        start = None if factor is not None else _slope(majorant, form, point, cone, tasks, problem)
        found = certify.bound(program, majorant, objective, multipliers, tasks, natural=factor is not None, start=start)
        prices = multipliers.prices * found.factor * majorant.unit
        if not objective.majorant_is_natural:  # a transform was bounded: its slope relates the two
            prices = prices * _natural_slope(objective, majorant, point)
        gap = found.gap
        if not (gap <= GAP_TOLERANCE or stands_in) and {v.id for v in form.variables()} == {cone.unknowns.id}:
            per_form = start if factor is None else factor / majorant.unit
            excess = _conic_excess(problem, cone, form, tasks)
            if excess is not None and per_form:
                value = majorant.value(point)
                conic = objective.relative_gap(value + per_form * excess, value, point)
                gap = min(gap, max(conic, 0.0)) if np.isfinite(conic) else gap
    else:
        gap, prices = _tangent_gap(program, cone, form, factor, multipliers, tasks, point)
        if not gap <= GAP_TOLERANCE:
            excess = _conic_excess(problem, cone, form, tasks)
            if excess is not None:
                gap = min(gap, _plain_gap(objective, point, excess * (factor or 1.0)))
    if not np.isfinite(gap):
        gap = np.inf
    return Answer(tasks, max(gap, 0.0), violation, "cone", prices, block_violation=blocks)


def _slope(
    majorant: Majorant, form: cp.Expression, point: Point, cone: ConeModel, tasks: Float, problem: cp.Problem
) -> float | None:
    """Derivative of the majorant by the transform that was solved, along the ray through the tasks."""
    if not any(p.alpha for p in majorant.powers) and problem.value:  # both proportional to the tasks
        return max(majorant.value(point) / float(problem.value), 0.0) or None
    step, ends = 1e-5, []
    before = cone.unknowns.value
    for factor in (1 - step, 1 + step):
        cone.unknowns.save_value(tasks / cone.scale * factor)
        ends.append((majorant.value(point.scaled(factor)), _finite(form)))
    cone.unknowns.save_value(before)
    rise, run = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
    return rise / run if np.isfinite(rise) and run > 0 and rise > 0 else None


def _conic_excess(problem: cp.Problem, cone: ConeModel, form: cp.Expression, tasks: Float) -> float | None:
    """How far the cone program's own dual lies above what was achieved, in units of the form."""
    cone.unknowns.save_value(tasks / cone.scale)
    value = form.value
    bound = conic_bound(problem, cone.unknowns, cone.program.most[cone.program.pairs.user] / cone.scale)
    if bound is None or value is None or not np.isfinite(bound - float(value)):
        return None
    return bound - float(value)


def _natural_slope(objective: Objective, majorant: Majorant, point: Point) -> float:
    """Derivative of the objective by the transform that its majorant bounds, along the ray through the tasks."""
    low, high = point.scaled(1 - 1e-5), point.scaled(1 + 1e-5)
    run = majorant.unit * (majorant.value(high) - majorant.value(low))
    return (objective.value(high) - objective.value(low)) / run if run else 0.0


def _tangent_gap(
    program: Program, cone: ConeModel, form: cp.Expression, factor: float | None, multipliers: certify.Multipliers,
    tasks: Float, point: Point,
) -> tuple[float, Float]:  # fmt: skip
    """Gap by the tangent of the objective at the answer, for objectives without a closer majorant."""
    objective = program.objective
    natural = cp.sum(objective.expression(cone.model)) if factor is None else form * factor
    alone = all(v.id == cone.unknowns.id for v in natural.variables())  # a tangent in some variables bounds nothing
    touched = certify.tangent(cone, natural, tasks) if alone else None
    scale = 1.0 if factor is None else factor
    cone.unknowns.save_value(tasks / cone.scale)
    if touched is None:
        return np.inf, multipliers.prices * scale
    majorant, worth = touched
    if factor is None:  # an increasing transform was solved: its slope relates the two
        own = certify.tangent(cone, form, tasks)
        scale = float(worth @ tasks) / float(own[1] @ tasks) if own is not None and own[1] @ tasks else 1.0
    charged = _times(multipliers, scale)
    charged.pair_cost = charged.pair_cost - worth
    value = objective.value(point)
    found = certify.bound(program, majorant, objective, charged, tasks, natural=True, refine=False)
    return _plain_gap(objective, point, found.value - value), charged.prices


def _plain_gap(objective: Objective, point: Point, excess: float) -> float:
    drop = objective.drop(point)
    return excess / drop if drop > 0 else excess


def _times(multipliers: certify.Multipliers, factor: float) -> certify.Multipliers:
    return certify.Multipliers(
        multipliers.prices * factor,
        multipliers.pair_cost * factor,
        multipliers.constant * factor,
        tuple((m, t * factor) for m, t in multipliers.extra),
    )


def rank(answer: Answer) -> tuple[bool, float]:
    """The better the smaller: certified first, then by what is missing."""
    return not answer.ok, answer.gap + answer.violation + answer.block_violation


def has_values(cone: ConeModel) -> bool:
    """Whether a solver left numbers."""
    return cone.unknowns.value is not None and bool(np.isfinite(cone.unknowns.value).all())


def _finite(expression: cp.Expression) -> float:
    value = expression.value
    return float(value) if value is not None and np.isfinite(value) else 0.0


def is_linear(condition: cp.Constraint) -> bool:
    """Whether a linear program can hold the condition."""
    ours = (cp.constraints.Inequality, cp.constraints.Equality, cp.constraints.NonNeg, cp.constraints.NonPos)
    return isinstance(condition, (*ours, cp.constraints.Zero)) and all(a.is_pwl() for a in condition.args)
