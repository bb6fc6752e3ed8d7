"""Constraints that no tasks but 0 satisfy, such as `EnvyFree` among demands that differ more than shares may.

The optimum of a power below 1 has no multipliers there, as its slope at 0 is infinite: solvers end anywhere within
rounding of 0, where rows relative to their own terms are broken, and 13 users took eight seconds of attempts. But the
linear program ``max sum_p z_p`` of the same linear constraints has multipliers, of rows with right-hand side 0 only
since its optimum is 0. They prove ``forced @ x <= 0`` with positive costs, whatever the objective.

Of 8,620 random problems of the fuzzer it was asked in 83, for 2 ms each, and proved none. Of 36 cases in its tests, 12
are refused without it, or take 18 attempts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairopt.errors import OutOfDomain
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.proposal import Proposal
from fairopt.runtime.lazy import cp
from fairopt.runtime.tolerances import BLOCK_TOLERANCE
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Posed
from fairopt.solve.form.program import ConeModel, Program
from fairopt.solve.settings import Settings


def nothing(program: Program, settings: Settings) -> Proposal | None:
    """No tasks, if there is no other feasible point; None if a linear program finds one.

    `OutOfDomain` if the objective is minus infinity there.
    """
    if program.low.any():
        return None
    none, cone = np.zeros(len(program.pairs)), ConeModel(program, "HIGHS")
    linear = [condition for condition in cone.all_constraints if solvers.all_linear([condition])]
    problem = Posed(cp.Maximize(cp.sum(cone.unknowns)), linear)
    attempt = solvers.run(problem, "HIGHS", time_limit=settings.clock.left)
    values = cone.unknowns.value
    if attempt.status not in solvers.SOLVED or values is None or not np.sum(values) <= BLOCK_TOLERANCE:
        return None
    evidence = replace(Solved.of(cone), more=False)
    if not np.isfinite(program.objective.value(program.point(none))) and evidence.allows_nothing:
        raise OutOfDomain(
            f"the constraints leave no tasks at all, so {program.objective} is minus infinity for every allocation; "
            "relax them, or use alpha < 1"
        )
    attempt = replace(attempt, status=f"{attempt.status}, no tasks")
    return Proposal("cone", none, evidence, attempt=attempt)
