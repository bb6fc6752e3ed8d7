"""A policy over bundles as a CVXPY problem in natural units (`natural`: over tasks)."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.bundle_model import BundleModel
from fairopt.blocks.model import Pairs
from fairopt.blocks.objectives import Tiers
from fairopt.formulation.program import written
from fairopt.instance import Instance
from fairopt.methods.bundles.program import BundleProgram

__all__ = ["problem"]

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
    program = program_of(policy, instance)
    n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
    held = cp.Variable((n, servers * m), name=VARIABLE, nonneg=True)
    constraints: list[cp.Constraint] = []
    if program.empty:
        return cp.Problem(cp.Maximize(cp.Constant(0.0)), [held == 0])
    part = program.instance
    triples, pairs = program.triples, Pairs(part)
    user, inside = program.active[triples.user], inside_of(program)
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


def program_of(policy: Any, instance: Instance) -> BundleProgram:
    """The first tier of a policy on the servers as given."""
    objective = policy.objective.tiers[0] if isinstance(policy.objective, Tiers) else policy.objective
    return BundleProgram(instance, objective, policy.constraints, merge=False)


def _zero(name: str, variable: cp.Variable, where: NDArray[np.bool_]) -> list[cp.Constraint]:
    """That some entries vanish: those only, since rows of zeros leave a solver's dual far off."""
    entries = np.flatnonzero(where.ravel())
    return [_named(name, cp.vec(variable, order="C")[entries] == 0)] if len(entries) else []


def inside_of(program: BundleProgram) -> NDArray[np.bool_]:
    """What can be held, in the shape of the variable."""
    inside = np.zeros((program.given.n_users, program.given.capacities.size), dtype=bool)
    if not program.empty:
        inside[program.active[program.triples.user], program.triples.row] = True
    return inside


def _named(name: str, condition: cp.Constraint) -> cp.Constraint:
    condition.set_label(name)
    return condition
