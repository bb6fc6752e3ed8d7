"""The best values of blocks' variables at given tasks."""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.solve.form import solvers
from fairopt.solve.form.program import ConeModel


def best_values(cone: ConeModel, tasks: Float) -> dict[str, Float]:
    """The values, by key, that maximise a program's objective at tasks by pair; empty if no solver finds them.

    They are left in the model, with the tasks.
    """
    program, own = cone.program, cone.model.own
    form = cp.Constant(0.0) if program.objective.is_known else cone.maximand[0]
    variables = {one.variable.id for one in own.held.values()}
    if not variables:
        return {}
    at = tasks / cone.scale
    conditions = [*(condition for _, _, condition in cone.rest), *cone.required]
    some = [c for c in conditions if variables & {v.id for v in c.variables()}]
    problem = cp.Problem(cp.Maximize(form), [cone.unknowns == at, *some])
    found = any(
        status in solvers.SOLVED and len(own.values()) == len(variables) for status in solvers.statuses(problem)
    )
    cone.unknowns.save_value(np.array(at))
    return own.values() if found else {}
