"""A policy as a CVXPY problem in natural units, to read, change and solve; and the proof of what came out."""

from __future__ import annotations

import time
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import fall
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.model import Model, Pairs, Point
from fairopt.blocks.objectives import Leximin, MaxMin, Objective, Tiers
from fairopt.certificate import GAP_TOLERANCE, Certificate
from fairopt.errors import InvalidBlock, NotCertified
from fairopt.instance import Instance
from fairopt.routes import certify
from fairopt.routes.conic_bound import conic_bound
from fairopt.routes.program import Program, is_ours, require_instance, written

Float = NDArray[np.floating[Any]]

VARIABLE = "tasks"


def problem(policy: Any, instance: Instance) -> cp.Problem:
    """See `Policy.problem`."""
    require_instance(instance)
    objective = first_number(policy.objective)
    program = Program(instance, objective, policy.constraints, merge=False)
    n, servers = instance.n_users, instance.n_servers
    tasks = cp.Variable((n,) if servers == 1 else (n, servers), name=VARIABLE, nonneg=True)
    part, pairs = program.active, program.pairs
    flat = tasks if servers == 1 else cp.vec(tasks, order="C")
    unknowns = flat if len(pairs) == n * servers else flat[part[pairs.user] * servers + pairs.server]
    constraints: list[cp.Constraint] = []
    if not program.empty:
        model = Model(program.instance, unknowns, pairs=pairs)
        capacity = (instance.capacities * instance.counts[:, None]).ravel()
        rows = program.capacity_rows
        scaled = sp.diags_array(capacity[rows]) @ sp.csr_array(pairs.loads)[rows]
        constraints.append(_named("capacity", scaled @ unknowns <= capacity[rows]))
        limited = np.flatnonzero(np.isfinite(program.instance.task_limits))
        if len(limited):
            constraints.append(_named("task limits", model.tasks[limited] <= program.instance.task_limits[limited]))
        everybody = model
        if len(part) < n:
            all_pairs = Pairs(instance)
            everybody = Model(instance, flat[all_pairs.user * servers + all_pairs.server], pairs=all_pairs)
        for block in policy.constraints:
            for name, condition in written(block, model if is_ours(block) else everybody).items():
                constraints.append(_named(f"{block!r}: {name}", condition))
        expression = cp.sum(objective.expression(model))
        constraints += model.required
    else:
        expression = cp.Constant(0.0)
    outside = np.ones((n, servers), dtype=bool)
    outside[part[pairs.user], pairs.server] = False
    if outside.any():
        constraints.append(_named("nowhere else", flat[np.flatnonzero(outside.ravel())] == 0))
    maximise = cp.Maximize(expression)
    maximise.block = objective  # so that `read` can use what the block knows, while the objective is this one
    return cp.Problem(maximise, constraints)


def first_number(objective: Objective) -> Objective:
    """The first tier, and the first level of a leximin: what a single problem can hold.

    Parameters
    ----------
    objective : Objective
        Any.

    Returns
    -------
    Objective
        No order.
    """
    first = objective.tiers[0] if isinstance(objective, Tiers) else objective
    return MaxMin(first.share) if isinstance(first, Leximin) else first


def read(policy: Any, problem: cp.Problem, instance: Instance) -> Allocation:
    """See `Policy.read`."""
    start = time.perf_counter()
    require_instance(instance)
    if not isinstance(problem, cp.Problem):
        raise InvalidBlock(f"read({type(problem).__name__}): give a cvxpy.Problem that policy.problem(instance) made")
    variable = _variable(problem, instance)
    before = variable.value
    objective = first_number(policy.objective)
    program = Program(instance, objective, policy.constraints, merge=False)
    pairs = program.pairs
    table = np.maximum(np.asarray(before, dtype=float), 0.0).reshape(instance.n_users, instance.n_servers)
    tasks = certify.repair(program, table[program.active][pairs.user, pairs.server])
    full = program.expand(tasks)
    position = program.active[pairs.user] + pairs.server * instance.n_users  # column order, as CVXPY differentiates
    at = full.ravel(order="F")
    block = getattr(problem.objective, "block", None)
    try:
        variable.save_value(full.reshape(variable.shape))
        multipliers, blocks, prices = _charges(problem, program, variable, position, at)
        point = Point(program.instance, pairs.table(tasks))
        majorant = objective.majorant(point) if block == objective and not program.empty else None
        if majorant is not None and (objective.majorant_is_natural or isinstance(objective, FairnessEfficiency)):
            natural = objective.majorant_is_natural
            if natural and majorant.unit != 1.0:  # the problem's own units over the majorant's
                multipliers = _divided(multipliers, majorant.unit)
            gap = certify.bound(program, majorant, objective, multipliers, tasks, natural=natural).gap
            value = objective.value(point)
            if not gap <= GAP_TOLERANCE:
                gap = min(gap, _by_tangent(problem, program, variable, position, tasks, multipliers)[0])
        else:
            gap, value = _by_tangent(problem, program, variable, position, tasks, multipliers)
    finally:
        variable.save_value(before)
    certificate = Certificate(
        gap=max(gap, 0.0), violation=certify.measured_violation(program, tasks), method="read",
        solver=getattr(problem.solver_stats, "solver_name", None), seconds=time.perf_counter() - start,
        block_violation=blocks,
    )  # fmt: skip
    allocation = Allocation(instance, policy, full, certificate, value, prices)
    if not certificate.ok:
        raise NotCertified(
            f"the problem's answer cannot be certified: {certificate}, its constraints hold to {blocks:.2g} (1e-7); "
            "solve it with tighter tolerances or another solver",
            best=allocation,
        )
    return allocation


def _variable(problem: cp.Problem, instance: Instance) -> cp.Variable:
    found = [v for v in problem.variables() if v.name() == VARIABLE]
    if len(found) != 1:
        raise InvalidBlock(f"the problem has no variable named {VARIABLE!r}; start from policy.problem(instance)")
    variable = found[0]
    wanted = (instance.n_users,) if instance.n_servers == 1 else (instance.n_users, instance.n_servers)
    if variable.shape != wanted:
        raise InvalidBlock(f"the variable {VARIABLE!r} has shape {variable.shape}, the instance asks for {wanted}")
    if variable.value is None:
        raise NotCertified(f"the problem holds no answer (status {problem.status!r}); call .solve() on it first")
    return variable


def _charges(
    problem: cp.Problem, program: Program, variable: cp.Variable, position: NDArray[np.int64], at: Float
) -> tuple[certify.Multipliers, float, Float | None]:
    """What the problem's constraints charge per task, how well they hold, and the capacities' own prices."""
    pairs, instance = program.pairs, program.instance
    multipliers = certify.Multipliers(np.zeros(pairs.loads.shape[0]), np.zeros(len(pairs)))
    violation, prices = 0.0, None
    for condition in problem.constraints:
        violation = max(violation, certify.relative_violation(condition))
        if getattr(condition, "label", None) == "capacity":
            capacity = (instance.capacities * instance.counts[:, None]).ravel()
            by_row = np.zeros(len(capacity))
            by_row[program.capacity_rows] = np.maximum(certify.dual_values(condition), 0.0)
            multipliers.prices = by_row * capacity
            prices = by_row.reshape(instance.n_servers, instance.n_resources)
        else:
            charged = certify.linear_charge(condition, variable)
            if charged is not None:
                per_unit, value = charged
                multipliers.pair_cost += per_unit[position]
                multipliers.constant += float(per_unit @ at) - value
    return multipliers, violation, prices


def _divided(multipliers: certify.Multipliers, unit: float) -> certify.Multipliers:
    return certify.Multipliers(multipliers.prices / unit, multipliers.pair_cost / unit, multipliers.constant / unit)


def _by_tangent(
    problem: cp.Problem, program: Program, variable: cp.Variable, position: NDArray[np.int64], tasks: Float,
    multipliers: certify.Multipliers,
) -> tuple[float, float]:  # fmt: skip
    """Gap of an objective that only CVXPY knows: its tangent, and where that is too coarse its cone program's dual."""
    expression = problem.objective.expr
    value = float(expression.value)
    sign = 1.0 if isinstance(problem.objective, cp.Maximize) else -1.0
    at = np.array(variable.value)

    def part(factor: float) -> float:
        variable.save_value(at * factor)
        return float(expression.value) if expression.value is not None else np.nan

    drop = fall(part)
    variable.save_value(at)
    drop = drop if np.isfinite(drop) and drop > 0 else 1.0
    if program.empty:
        return 0.0, value
    gap = np.inf
    gradient = certify.gradient_of(expression, variable)
    if gradient is not None:
        worth = sign * gradient.toarray().ravel()[position]
        cost = np.asarray(program.pairs.loads.T @ multipliers.prices).ravel() + multipliers.pair_cost - worth
        least = program.pairs.min(cost)
        reach = np.where(least < 0, program.most, program.low)
        back = float(multipliers.prices @ program.usable_rows) + multipliers.constant
        gap = float(back - least @ reach + worth @ tasks) / drop
    if not gap <= GAP_TOLERANCE:
        top = np.zeros(variable.size)
        top[position] = program.most[program.pairs.user]
        bound = conic_bound(cp.Problem(cp.Maximize(sign * expression), problem.constraints), variable, top)
        if bound is not None:
            gap = min(gap, (bound - sign * value) / drop)
    return gap, value


def _named(name: str, condition: cp.Constraint) -> cp.Constraint:
    condition.set_label(name)
    return condition
