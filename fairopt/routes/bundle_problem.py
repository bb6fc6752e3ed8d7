"""A policy over bundles as a CVXPY problem in natural units, and the proof of what came out (`natural`: over tasks)."""

from __future__ import annotations

import time
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, feasibility
from fairopt.blocks.algebra import fall
from fairopt.blocks.bundle_model import BundleModel, cut_at_limits, tasks_within
from fairopt.blocks.model import Pairs
from fairopt.blocks.objectives import Tiers
from fairopt.certificate import Certificate
from fairopt.errors import InvalidBlock, NotCertified
from fairopt.instance import Instance
from fairopt.routes import certify
from fairopt.routes.bundles import BundleProgram
from fairopt.routes.conic_bound import conic_bound
from fairopt.routes.program import written

__all__ = ["problem", "read"]

Float = NDArray[np.floating[Any]]

VARIABLE, TASKS = "bundles", "tasks"


def problem(policy: Any, instance: Instance) -> cp.Problem:
    """The policy in a variable "bundles" of shape (n_users, n_servers * n_resources), server by server.

    A policy that speaks of tasks as well has a variable "tasks" of shape (n_users, n_servers) too.

    Parameters
    ----------
    policy : Policy
        Whose objective decides bundles.
    instance : Instance
        Users and servers.

    Returns
    -------
    cvxpy.Problem
    """
    program = _program(policy, instance)
    n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
    held = cp.Variable((n, servers * m), name=VARIABLE, nonneg=True)
    constraints: list[cp.Constraint] = []
    if program.empty:
        return cp.Problem(cp.Maximize(cp.Constant(0.0)), [held == 0])
    part = program.instance
    triples, pairs = program.triples, Pairs(part)
    user, inside = program.active[triples.user], _inside(program)
    speaks_of_tasks = program.division is None
    tasks: cp.Expression = cp.Constant(np.zeros(len(pairs)))
    if speaks_of_tasks:
        every = cp.Variable((n, servers), name=TASKS, nonneg=True)
        tasks = every[program.active[pairs.user], pairs.server]
    ones = np.ones(len(triples)), np.ones(len(pairs))
    model = BundleModel(part, held[user, triples.row], ones[0], triples, tasks, ones[1], pairs)
    capacity = (instance.capacities * instance.counts[:, None]).ravel()
    rows = np.unique(triples.row)
    constraints.append(_named("capacity", cp.sum(held, axis=0)[rows] <= capacity[rows]))
    if speaks_of_tasks:
        constraints.append(_named("tasks fit", model.fits()))
        limited = np.flatnonzero(np.isfinite(part.task_limits))
        if len(limited):
            constraints.append(_named("task limits", model.tasks[limited] <= part.task_limits[limited]))
        here = np.zeros((n, servers), dtype=bool)
        here[program.active[pairs.user], pairs.server] = True
        constraints += _zero("nowhere else", every, ~here)
    for block in policy.constraints:
        for name, condition in written(block, model).items():
            constraints.append(_named(f"{block!r}: {name}", condition))
    constraints += _zero("nothing else", held, ~inside)
    return cp.Problem(cp.Maximize(cp.sum(program.objective.expression(model))), [*constraints, *model.required])


def read(policy: Any, problem: cp.Problem, instance: Instance) -> Allocation:
    """Certify the answer of a problem that `problem` made, solved and perhaps changed by the user.

    Parameters
    ----------
    policy : Policy
        Whose problem it is.
    problem : cvxpy.Problem
        Solved.
    instance : Instance
        What it was made from.

    Returns
    -------
    Allocation

    Raises
    ------
    NotCertified
        If it is not solved, or its answer cannot be proved right.
    """
    start = time.perf_counter()
    program = _program(policy, instance)
    found = {v.name(): v for v in problem.variables()}
    held, tasks = found.get(VARIABLE), found.get(TASKS)
    n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
    if held is None or held.shape != (n, servers * m):
        raise InvalidBlock(f"the problem has no variable {VARIABLE!r} of shape {(n, servers * m)}; start from .problem")
    if held.value is None:
        raise NotCertified(f"the problem holds no answer (status {problem.status!r}); call .solve() on it first")
    before = {v: v.value for v in (held, tasks) if v is not None}
    capacity = (instance.capacities * instance.counts[:, None]).ravel()
    bundles = np.maximum(np.asarray(held.value, dtype=float), 0.0) * _inside(program)
    total = bundles.sum(axis=0)
    bundles = bundles * np.divide(capacity, total, out=np.ones(servers * m), where=total > capacity)
    table = bundles.reshape(n, servers, m)
    run = tasks_within(instance, table)
    if tasks is not None and tasks.value is not None:
        run = np.minimum(run, np.maximum(np.asarray(tasks.value, dtype=float), 0.0))
    run = cut_at_limits(instance, run)
    if tasks is not None:
        tasks.save_value(run)
    held.save_value(bundles)
    try:
        blocks = max((certify.relative_violation(c) for c in problem.constraints), default=0.0)
        gap, value = (0.0, 0.0) if program.empty else _gap(problem, held, np.tile(capacity, (n, 1)))
    finally:
        for variable, solved in before.items():
            variable.save_value(solved)
    certificate = Certificate(
        gap=gap, violation=feasibility(instance, run), method="read",
        solver=getattr(problem.solver_stats, "solver_name", None), seconds=time.perf_counter() - start,
        block_violation=blocks,
    )  # fmt: skip
    allocation = Allocation(instance, policy, run, certificate, value, given_bundles=table)
    if not certificate.ok:
        raise NotCertified(
            f"the problem's answer cannot be certified: {certificate}, its constraints hold to {blocks:.2g} (1e-7); "
            "solve it with tighter tolerances or another solver",
            best=allocation,
        )
    return allocation


def _program(policy: Any, instance: Instance) -> BundleProgram:
    objective = policy.objective.tiers[0] if isinstance(policy.objective, Tiers) else policy.objective
    return BundleProgram(instance, objective, policy.constraints, merge=False)


def _zero(name: str, variable: cp.Variable, where: NDArray[np.bool_]) -> list[cp.Constraint]:
    """That some entries vanish: those only, since rows of zeros leave a solver's dual far off."""
    entries = np.flatnonzero(where.ravel())
    return [_named(name, cp.vec(variable, order="C")[entries] == 0)] if len(entries) else []


def _inside(program: BundleProgram) -> NDArray[np.bool_]:
    """What can be held, in the shape of the variable."""
    inside = np.zeros((program.given.n_users, program.given.capacities.size), dtype=bool)
    if not program.empty:
        inside[program.active[program.triples.user], program.triples.row] = True
    return inside


def _gap(problem: cp.Problem, held: cp.Variable, top: Float) -> tuple[float, float]:
    """How far the problem's own dual lies above its value, in units of what halving all bundles would cost."""
    expression = problem.objective.expr
    sign = 1.0 if isinstance(problem.objective, cp.Maximize) else -1.0
    value, at = float(expression.value), {v: np.array(v.value) for v in problem.variables()}

    def part(factor: float) -> float:
        for variable, solved in at.items():
            variable.save_value(solved * factor)
        return float(expression.value)

    drop = fall(part)
    for variable, solved in at.items():
        variable.save_value(solved)
    bound = conic_bound(cp.Problem(cp.Maximize(sign * expression), problem.constraints), held, top.ravel(order="F"))
    if bound is None or not np.isfinite(bound):
        return np.inf, value
    return max((bound - sign * value) / (drop or 1.0), 0.0), value


def _named(name: str, condition: cp.Constraint) -> cp.Constraint:
    condition.set_label(name)
    return condition
