"""Answers of CVXPY problems that the user solved and perhaps changed, judged by the problem as it is.

Of the policy only what the problem still states counts. The capacities, task limits and eligibility of the instance
always hold. With g_c the problem's constraints, y_c the dual values that its solver left, and phi its objective,

    max phi  <=  min of  Bound 7.1 (the block's majorant, if phi is still its objective)
                         Bound 7.4 (the tangent of phi at the tasks)
                         Bound 7.3 (the dual of the cone form, solved once more),

each tried only if the one before leaves a gap (docs/methods/cone.md). phi is still the block's if the problem has the
objective that the block made and this has the block's value at the point; else only its own tangent and cone form
count.

Floats: CVXPY's dual values are per row as the user wrote it, in its units, so that nothing is scaled here. A user's
constants are taken out of phi before gaps are measured; what floats hide beside them counts (`rounding_of`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, ChangedByHand, feasibility, holdings_violation
from fairopt.blocks.algebra import flat, in_units, tiers_of, unit_of
from fairopt.blocks.bundle_model import cut_at_limits, tasks_in_bundles
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import coefficients_cached
from fairopt.blocks.written_values import irregular, is_flat, rounding_of, without_constants
from fairopt.errors import FairoptError, InvalidBlock, NotCertified, NotConcave
from fairopt.instance import Instance
from fairopt.proof import feasibility as conditions
from fairopt.proof import gate
from fairopt.proof.conic import conic_gap
from fairopt.proof.dual_bound import lagrangian_bound
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.gradients import gradient_of
from fairopt.proof.lagrangian import Multipliers
from fairopt.proof.slopes import slope_of
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import label
from fairopt.runtime.lazy import cp
from fairopt.runtime.tolerances import GAP_TOLERANCE, TERM_ROUNDING
from fairopt.solve.form.bundle_program import BundleProgram, decides_bundles
from fairopt.solve.form.compiled import values_kept
from fairopt.solve.form.no_whole_task import number_of
from fairopt.solve.form.problem import BUNDLES, TASKS, can_hold, first_program, natural_problem, same_problem
from fairopt.solve.form.program import Program, require_instance


@coefficients_cached()
def read_problem(policy: Any, problem: cp.Problem, instance: Instance) -> Allocation:
    """The answer of a problem as an allocation; see `Policy.certify`."""
    begun = time.perf_counter()
    answer = judge_problem(policy, problem, instance)
    answer.solver = getattr(problem.solver_stats, "solver_name", None)
    made = gate.of_problem(_still(policy, problem, instance), instance, answer, begun)
    if not made.certificate.ok:
        raise NotCertified(
            f"the problem's answer cannot be certified: {made.certificate}, its constraints hold to "
            f"{answer.block_violation:.2g} (1e-7); solve it with tighter tolerances or another solver",
            best=made,
        )
    return made


def _still(policy: Any, problem: cp.Problem, instance: Instance) -> Any:
    """The policy if it still makes this problem of the instance; otherwise `ChangedByHand`."""
    try:
        same = same_problem(problem, natural_problem(policy, instance))
    except FairoptError:  # the policy makes no problem of this instance
        same = False
    return _of_first_level(policy) if same else ChangedByHand(policy)


def _of_first_level(policy: Any) -> Any:
    """The policy that a problem of `Policy.problem` proves: for leximin and tiers their first level."""
    first = number_of(tiers_of(policy.objective)[0])
    if first == policy.objective:
        return policy
    return type(policy)(first, policy.constraints, name=f"first level of {label(policy)}")


def judge_problem(policy: Any, problem: cp.Problem, instance: Instance) -> JudgedPoint:
    """Make the answer of a problem feasible, and bound its gap to the problem's optimum.

    `InvalidBlock` if it is not a problem of the policy, `NotCertified` if it has no answer, `NotConcave` if it is not
    convex.
    """
    require_instance(instance)
    if not isinstance(problem, cp.Problem):
        raise InvalidBlock(f"read({type(problem).__name__}): give a cvxpy.Problem that policy.problem(instance) made")
    if not problem.is_dcp():  # a tangent bounds a concave function only, and a cone form is of convex problems
        raise NotConcave(
            "the problem is not convex by CVXPY's rules, so nothing bounds its optimum; write it with a concave "
            "objective and convex constraints"
        )
    with np.errstate(all="ignore"):
        program = first_program(policy, instance, policy.constraints if decides_bundles(policy.objective) else ())
        return _read_bundles(problem, program) if isinstance(program, BundleProgram) else _read_tasks(problem, program)


def _read_tasks(problem: cp.Problem, program: Program) -> JudgedPoint:
    """The answer of a problem in a variable of tasks."""
    instance, objective, pairs = program.given, program.objective, program.pairs
    wanted = (instance.n_users,) if instance.n_servers == 1 else (instance.n_users, instance.n_servers)
    variable = _variable(problem, TASKS, wanted)
    # solvers leave tasks a little below 0
    table = np.maximum(np.asarray(variable.value, dtype=float), 0.0).reshape(instance.n_users, instance.n_servers)
    tasks = conditions.repair(program, table[program.active][pairs.user, pairs.server])
    full = program.expand(tasks)
    place = program.active[pairs.user] + pairs.server * instance.n_users  # column order, as CVXPY differentiates
    with values_kept(problem.variables()):
        variable.save_value(full.reshape(variable.shape))
        typical = np.zeros(variable.size)
        typical[place] = program.size[pairs.user]
        blocks = _violation(problem, {variable.id: typical})
        multipliers = Multipliers(np.zeros(len(program.usable_rows)), np.zeros(len(pairs)))
        prices: Float | None = None
        for condition in problem.constraints:  # only these have multipliers
            rows = conditions.linear_rows(condition, variable)
            if rows is not None:
                dual = conditions.dual_values(condition)
                multipliers.charge(rows, dual, full.ravel(order="F")[place], place=place)
            # prices are reported if the user left the constraint of capacities as it was
            is_capacity = getattr(condition, "label", None) == "capacity"
            if is_capacity and condition.size == len(program.capacity_rows) and not program.empty:
                prices = conditions.row_prices(program, condition).reshape(instance.capacities.shape)
        variables = _own_values(problem)
        point = program.point(tasks, variables=variables)
        block = objective if not program.empty and _is_still(problem, objective, point) else None
        value = float(problem.objective.expr.value) if block is None else block.stated(point)
        gap, assumed = 0.0, ""
        if not program.empty:
            gap, assumed = _gap_of_tasks(problem, block, program, variable, place, tasks, multipliers)
    violation = feasibility(instance, full)
    return JudgedPoint(full, gap, violation, "read", value, prices, blocks, assumed=assumed, variables=variables)


def _own_values(problem: cp.Problem) -> dict[str, Float]:
    """The values of variables other than those of tasks and bundles, by name."""
    values = {variable.name(): variable.value for variable in problem.variables()}
    return {name: np.asarray(value, dtype=float) for name, value in values.items() if name not in (TASKS, BUNDLES)}


def _variable(problem: cp.Problem, name: str, shape: tuple[int, ...]) -> cp.Variable:
    """The variable of a name, which must be there, with that shape and a value."""
    named = [v for v in problem.variables() if v.name() == name]
    if len(named) != 1:
        raise InvalidBlock(f"the problem has no variable named {name!r}; start from policy.problem(instance)")
    variable = named[0]
    if variable.shape != shape:
        raise InvalidBlock(f"the variable {name!r} has shape {variable.shape}, not {shape} as for this instance")
    for needed in (variable, *problem.variables()):
        if needed.value is None:
            raise NotCertified(
                f"the problem has no answer (status {problem.status!r}): {needed.name()!r} has no value; "
                "call .solve() on it first, and again after each change"
            )
    return variable


def _violation(problem: cp.Problem, typical: dict[int, Float] | None = None) -> float:
    """The largest relative violation of the problem's constraints and of its variables' ranges."""
    ranges = [condition for variable in problem.variables() for condition in variable.domain]  # as nonneg=True
    return max((conditions.relative_violation(c, typical) for c in [*problem.constraints, *ranges]), default=0.0)


def _is_still(problem: cp.Problem, objective: Objective, point: Point) -> bool:
    """Whether a problem still maximises the block, judged by the value at the point."""
    if getattr(problem.objective, "block", None) != objective or not isinstance(problem.objective, cp.Maximize):
        return False
    expression, constant = without_constants(problem.objective.expr)
    value, here = objective.value(point), float(expression.value) + (constant - objective._constant(point))
    if objective.term.kind.in_logs:
        value = float(np.log(value))
    # to the tolerance of gaps: beside a constant that the user added, the drop to half the tasks gives the scale
    return bool(np.isclose(value, here, rtol=1e-6, atol=1e-6 * objective.drop(point)))


def _gap_of_tasks(
    problem: cp.Problem,
    block: Objective | None,
    program: Program,
    variable: cp.Variable,
    place: NDArray[np.int64],
    tasks: Float,
    multipliers: Multipliers,
) -> tuple[float, str]:
    """The gap of tasks by pair, and what it assumes.

    If the problem still maximises the block, the block's own majorant is tried first; then the tangent of the problem's
    objective, and then the dual of its cone form.
    """
    gap = np.inf
    majorant = None if block is None else block.majorant(program.point(tasks))
    if block is not None and majorant is not None:
        is_natural = block.majorant_is_natural
        if is_natural or block.term.measure is not None:
            per_unit = float(1.0 / np.float64(majorant.unit)) if is_natural else 1.0  # of the majorant
            charged = multipliers.times(per_unit)
            gap = lagrangian_bound(program, majorant, block, charged, tasks, natural=is_natural).gap
    if gap <= GAP_TOLERANCE:
        return gap, ""
    expression, _ = without_constants(problem.objective.expr)
    known, typical = block is not None and block.is_known, program.expand(program.size[program.pairs.user])
    unit, value, hidden = _units(problem, variable, typical, known)

    def measured(excess: float) -> float:
        """The gap of an excess over the value, by the block or in ``unit``."""
        if block is None or majorant is None or not block.majorant_is_natural:
            return in_units(excess, unit, value, hidden)
        here = majorant.value(program.point(tasks))
        return max(block.relative_gap(here + excess / np.float64(majorant.unit), here, program.point(tasks)), 0.0)

    alone = all(v.id == variable.id for v in expression.variables())  # otherwise a tangent is no bound
    gradient = gradient_of(expression, variable) if alone else None
    if gradient is not None:
        slopes = gradient.toarray().ravel()[place] * (1.0 if isinstance(problem.objective, cp.Maximize) else -1.0)
        cost, size = multipliers.pair_cost - slopes, np.abs(slopes)
        rounding = TERM_ROUNDING * (size if multipliers.size is None else size + multipliers.size)
        # cheapest server less slope, rounded down; who gains runs all that it can, others their lower bounds
        least = program.pairs.min(cost - rounding)
        reach = np.where(least < 0, program.most, program.low)
        excess = multipliers.constant - float(least @ reach) - float(slopes @ tasks)
        gap = min(gap, measured(excess + TERM_ROUNDING * (multipliers.constant_size + float(size @ tasks))))
    if gap <= GAP_TOLERANCE:
        return gap, ""
    top = np.zeros(variable.size)
    top[place] = program.most[program.pairs.user]
    return min((gap, ""), _gap_by_conic_dual(problem, expression, variable, top, unit, measured))


def _gap_by_conic_dual(
    problem: cp.Problem,
    expression: cp.Expression,
    variable: cp.Variable,
    top: Float,
    unit: float,
    measured: Callable[[float], float],
) -> tuple[float, str]:
    """The gap by the dual of the problem's cone form, solved in the given unit, and what it assumes.

    The ``expression`` is the problem's objective without constants.
    """
    unit = unit or 1.0
    scale = unit if isinstance(problem.objective, cp.Maximize) else -unit  # so that the value is about 1
    form, value = expression / scale, float(expression.value) / scale
    return conic_gap(form, problem.constraints, variable, top, value, lambda excess, _: measured(excess * unit))


def _units(problem: cp.Problem, variable: cp.Variable, typical: Float, known: bool) -> tuple[float, float, float]:
    """A unit for gaps, the value of the problem's objective without constants, and its rounding, for `in_units`.

    The unit is by how much the objective falls as its variables shrink, or else its change to typical values of the
    variable, or else to none. Of ``known`` terms rounding is forgiven.
    """
    expression, _ = without_constants(problem.objective.expr)
    usual = irregular(typical.reshape(variable.shape))
    here, rounding = conditions.number(expression), 2.0 * rounding_of(expression, {variable.id: usual})
    sign = 1.0 if isinstance(problem.objective, cp.Maximize) else -1.0
    if not known and any(v.id != variable.id for v in expression.variables()):
        with values_kept(problem.variables()):
            held = {v: v.value for v in problem.variables()}

            def restore() -> None:
                for one, value in held.items():
                    one.save_value(value)

            at = np.asarray(variable.value)
            slope = slope_of(sign * expression, problem.constraints, variable, at, usual, restore)
        return slope.unit, here, rounding + slope.hidden

    def value(to: dict[cp.Variable, Float], part: float) -> float:
        """The value with some variables moved by a part of the way to others."""
        with values_kept(to):
            for one, end in to.items():
                one.save_value(np.asarray(one.value + part * (end - one.value)))
            return conditions.number(expression)

    none, there = {v: np.zeros(v.shape) for v in expression.variables()}, {variable: typical.reshape(variable.shape)}
    unit = unit_of(lambda part: value(none, 1.0 - part), partial(value, there), 0.0 if known else rounding)
    if unit == 0 and is_flat(expression):
        return flat(here, rounding)
    return unit, here, 0.0 if known else rounding


def _read_bundles(problem: cp.Problem, program: BundleProgram) -> JudgedPoint:
    """The answer of a problem in a variable of bundles, and in one of tasks if the policy uses tasks too."""
    instance = program.given
    n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
    variable = _variable(problem, BUNDLES, (n, servers * m))
    tasks = next((v for v in problem.variables() if v.name() == TASKS), None)
    capacity = program.whole_capacities.ravel()
    bundles = np.maximum(np.asarray(variable.value, dtype=float), 0.0) * can_hold(program)
    total = bundles.sum(axis=0)  # repair, as of tasks: each resource of a server is scaled down to its capacity
    bundles = bundles * np.divide(capacity, total, out=np.ones(servers * m), where=total > capacity)
    table = bundles.reshape(n, servers, m)
    run = tasks_in_bundles(instance, table)
    if tasks is not None and tasks.value is not None:
        run = np.minimum(run, np.maximum(np.asarray(tasks.value, dtype=float), 0.0))
    run = cut_at_limits(instance, run)
    expression, _ = without_constants(problem.objective.expr)
    gap, stated, assumed = 0.0, 0.0, ""
    with values_kept(problem.variables()):
        if tasks is not None:
            tasks.save_value(run)
        variable.save_value(bundles)
        blocks = _violation(problem)
        if not program.empty:
            typical = np.tile(capacity / max(n, 1), (n, 1)) * can_hold(program)
            unit, value, hidden = _units(problem, variable, typical, program.objective.is_known)
            top, stated = np.tile(capacity, (n, 1)).ravel(order="F"), float(problem.objective.expr.value)
            measured = partial(in_units, unit=unit, value=value, rounding=hidden)
            gap, assumed = _gap_by_conic_dual(problem, expression, variable, top, unit, measured)
    violation = max(feasibility(instance, run), holdings_violation(instance, table))
    return JudgedPoint(run, gap, violation, "read", stated, None, blocks, assumed=assumed, bundles=table)
