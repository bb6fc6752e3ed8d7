"""A policy as a CVXPY problem in natural units, to read, change and solve.

`fairopt.proof.read_problem` certifies its answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.blocks.algebra import expression_of, tiers_of
from fairopt.blocks.base import is_ours
from fairopt.blocks.bundle_model import BundleModel
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Model, Pairs
from fairopt.blocks.objectives import MaxMin
from fairopt.blocks.shares import coefficients_cached
from fairopt.instance import Instance
from fairopt.runtime.arrays import Bool, Indices
from fairopt.runtime.lazy import cp
from fairopt.solve.form.bundle_program import BundleProgram, program_class
from fairopt.solve.form.digests import NewConditions, of_problem
from fairopt.solve.form.program import Program, checked_conditions, require_instance, warn_of_loops

TASKS, BUNDLES = "tasks", "bundles"  # names of the variables


@coefficients_cached()
def natural_problem(policy: Any, instance: Instance) -> cp.Problem:
    """See `Policy.problem`."""
    require_instance(instance)
    program = first_program(policy, instance, policy.constraints)
    n, servers = instance.n_users, instance.n_servers
    held: cp.Variable | None = None
    elsewhere: list[cp.Constraint] = []
    if isinstance(program, BundleProgram):
        held = cp.Variable((n, instance.capacities.size), name=BUNDLES, nonneg=True)
        elsewhere = _zero("nothing else", held, ~can_hold(program))
    tasks: cp.Expression = cp.Constant(np.zeros((n, servers)))
    if held is None or (program.decides_tasks and not program.empty):
        tasks = cp.Variable((n,) if servers == 1 and held is None else (n, servers), name=TASKS, nonneg=True)
        inside = np.zeros((n, servers), dtype=bool)
        inside[program.active[program.pairs.user], program.pairs.server] = True
        elsewhere = _zero("nowhere else", tasks, ~inside) + elsewhere

    def view(part: Instance, pairs: Pairs, users: Indices) -> Model:
        """The variables as blocks see them."""
        flat = tasks if tasks.ndim == 1 else cp.vec(tasks, order="C")
        places = users[pairs.user] * servers + pairs.server
        chosen = flat if len(places) == flat.size else flat[places]
        if held is None or not isinstance(program, BundleProgram):
            return Model(part, chosen, pairs=pairs)
        triples = program.triples if part is program.instance else program.triples_as_given
        ones = np.ones(len(triples)), np.ones(len(pairs))
        return BundleModel(part, held[users[triples.user], triples.row], ones[0], triples, chosen, ones[1], pairs)

    objective: cp.Expression = cp.Constant(0.0)
    conditions: list[cp.Constraint] = []
    if not program.empty:
        part, rows, new = program.instance, program.capacity_rows, NewConditions()
        model = view(part, program.pairs, program.active)
        of_all = model if program.all_take_part else view(instance, Pairs(instance), np.arange(n))
        of_all.required, of_all.own = model.required, model.own
        capacity = program.whole_capacities.ravel()[rows]
        used = cp.multiply(capacity, model.loads[rows]) if held is None else cp.sum(held, axis=0)[rows]
        conditions.append(_named("capacity", used <= capacity))
        if program.decides_tasks:
            if isinstance(model, BundleModel):
                conditions.append(_named("tasks fit", model.fits()))
            limited = np.flatnonzero(np.isfinite(part.task_limits))
            if len(limited):
                conditions.append(_named("task limits", model.tasks[limited] <= part.task_limits[limited]))
        for block in program.constraints:
            named = checked_conditions(block, model if is_ours(block) else of_all).items()
            conditions += [_named(f"{block}: {name}", condition) for name, condition in named]
            conditions += [_named(f"{block}: {one.label or 'required'}", one) for one in new.among(model.required)]
            model.required.clear()
        objective = cp.sum(expression_of(program.objective, model))
        warn_of_loops(program.objective, [objective])
        conditions += new.among(model.required)
    maximise = cp.Maximize(objective)
    maximise.block = program.objective  # `certify` uses its majorant while the objective is unchanged
    return cp.Problem(maximise, [*conditions, *elsewhere])


def first_program(policy: Any, instance: Instance, constraints: Sequence[Constraint]) -> Program:
    """The program of the first tier on unmerged servers, for `Leximin` of its first level."""
    first, kind = tiers_of(policy.objective)[0], program_class(policy.objective)
    if first.term.is_order and kind is Program:
        first = MaxMin(first.term.share)
    program = kind(instance, first, constraints, merge=False)
    if not program.empty:
        first.check(program.instance)  # `Program` leaves this to the methods for one pool
    return program


def can_hold(program: BundleProgram) -> Bool:
    """Which users can hold which resources of which servers, in the shape of the variable."""
    inside = np.zeros((program.given.n_users, program.given.capacities.size), dtype=bool)
    if not program.empty:
        inside[program.active[program.triples.user], program.triples.row] = True
    return inside


def _zero(name: str, variable: cp.Expression, where: Bool) -> list[cp.Constraint]:
    """Constraints that some entries vanish; rows for other entries would spoil the duals of solvers."""
    entries = np.flatnonzero(where)
    flat = variable if variable.ndim == 1 else cp.vec(variable, order="C")
    return [_named(name, flat[entries] == 0)] if len(entries) else []


def _named(name: str, condition: cp.Constraint) -> cp.Constraint:
    condition.set_label(name)
    return condition


def same_problem(one: cp.Problem, other: cp.Problem) -> bool:
    """Whether two problems have the same objective and constraints, in any order, with the same numbers."""
    return of_problem(one, (TASKS, BUNDLES)) == of_problem(other, (TASKS, BUNDLES))
