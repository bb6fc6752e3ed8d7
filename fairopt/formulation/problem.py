"""A policy as a CVXPY problem in natural units, to read, change and solve (`fairopt.proofs.read` judges it)."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from fairopt.blocks.base import is_ours
from fairopt.blocks.model import Model, Pairs
from fairopt.blocks.objectives import Leximin, MaxMin, Objective, Tiers
from fairopt.formulation.program import Program, require_instance, written
from fairopt.instance import Instance

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
            everybody.required = model.required
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


def _named(name: str, condition: cp.Constraint) -> cp.Constraint:
    condition.set_label(name)
    return condition
