"""Policies that decide bundles: what each user holds of each resource on each server; tasks are what fits in them.

Where everything falls apart by server, resource and group, the answer comes in closed form (`closed`); any solver of
CVXPY can be asked as well, and has to be when the policy speaks of tasks too. The closed form's prices prove all
answers of the first kind; the others are judged by the cone program's own dual.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.bundle_model import cut_at_limits, tasks_within
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.formulation.bundle_program import BundleConeModel, BundleProgram
from fairopt.methods.cone import solvers
from fairopt.methods.cone.solve import Proposals, Settings, is_linear, out_of_time
from fairopt.methods.cone.unbounded import refuse_unbounded
from fairopt.progress import tell
from fairopt.proofs.evidence import Proposal, Solved

__all__ = ["proposal_of", "solve_bundles"]

Float = NDArray[np.floating[Any]]


def proposal_of(program: BundleProgram, held: Float, tasks: Float, method: str, solver: str | None) -> Proposal:
    """Bundles and tasks of the instance as given, of which a program's own dual is the evidence."""
    evidence = program.division or Solved(BundleConeModel(program, solver))
    return Proposal(method, program.gather(tasks), evidence, solver, bundles=program.gather_rows(held))


def solve_bundles(program: BundleProgram, settings: Settings, method: str) -> Proposals:
    """The best bundles, in closed form where that is all, else by one solver after the other until one is certified.

    Raises
    ------
    OutOfDomain
        If the closed form is asked for where there is none, or somebody with a base can hold nothing.
    Infeasible, Unbounded, NotConcave, SolverUnavailable
    """
    division = program.division
    if method == "closed" and division is None:
        raise OutOfDomain(
            f"closed is exact for WeightedLog under GlobalAggregateResource and AtMostRequested only, not for "
            f"{program.objective!r} under {list(program.constraints)!r}; use method='auto'"
        )
    if division is not None:
        if (method != "cone" and settings.solver is None) or not len(program.triples):  # nothing to hold is no program
            yield Proposal("closed", evidence=division)
            return
        division.answer()  # so that a policy without an answer is refused alike
    for name in settings.chain(False):
        if settings.late:
            yield out_of_time(name)
            return
        start = time.perf_counter()
        cone = BundleConeModel(program, name)
        if division is None:
            form, _ = cone.maximand
        else:
            form = cp.sum(cp.multiply(division.parts_of_one(), cp.log(cone.model.held)))
        problem = cp.Problem(cp.Maximize(form), cone.all_constraints)
        tell(f"cone program over bundles by {name}")
        attempt = solvers.run(
            problem, name, options=settings.options, time_limit=settings.left(), verbose=settings.verbose
        )
        if attempt.status.startswith("infeasible"):
            _refuse_infeasible(cone)
        if "unbounded" in attempt.status:
            refuse_unbounded(program.objective, form, cone.all_constraints, cone.unknowns)
        attempt = replace(attempt, seconds=time.perf_counter() - start)
        if attempt.status not in solvers.SOLVED or cone.unknowns.value is None:
            yield Proposal("cone", solver=name, attempt=attempt)
            continue
        bundles = cone.bundles()
        if division is not None:
            answer = yield Proposal("cone", None, division, name, attempt, bundles)
            if answer is not None and answer.ok:
                return
            continue
        for tasks in _tasks_in(cone, bundles):
            answer = yield Proposal("cone", tasks, Solved(cone), name, attempt, bundles)
            if answer is not None and answer.ok:
                return


def _tasks_in(cone: BundleConeModel, bundles: Float) -> Iterator[Float]:
    """Tasks in the bundles: all that fit, as many as the constraints allow, and what the solver left."""
    instance, left = cone.program.instance, cone.tasks()
    fit = tasks_within(instance, bundles)
    yield cut_at_limits(instance, fit)
    wished = cut_at_limits(instance, np.minimum(cone.model.pairs.table(left), fit))
    held = bundles[cone.triples.user, cone.triples.server, cone.triples.resource] / cone.units
    yield _most_tasks(cone, held, wished)
    yield wished


def _most_tasks(cone: BundleConeModel, held: Float, wished: Float) -> Float:
    """As many tasks as bundles and the policy's constraints have room for: an objective of bundles leaves that open."""
    pairs, k = cone.model.pairs, len(held)
    least = wished[pairs.user, pairs.server] / cone.scale * (1 - 1e-9)
    fixed = [cone.unknowns[:k] == held, cone.unknowns[k:] >= least]
    problem = cp.Problem(cp.Maximize(cp.sum(cone.unknowns[k:])), [*cone.all_constraints, *fixed])
    linear = all(is_linear(c) for c in problem.constraints)
    attempt = solvers.run(problem, solvers.chain(linear)[0])
    if attempt.status not in solvers.SOLVED or cone.unknowns.value is None:
        return wished
    return pairs.table(cone.tasks())


def _refuse_infeasible(cone: BundleConeModel) -> None:
    """`Infeasible` with an irreducible set of the policy's conditions; return if a second look finds them to hold."""

    def feasible(which: Sequence[int]) -> bool:
        conditions = [cone.capacity, *cone.box, *cone.required, *(cone.rest[k][2] for k in which)]
        problem = cp.Problem(cp.Minimize(0), conditions)
        for solver in solvers.chain(all(is_linear(c) for c in conditions)):
            status = solvers.run(problem, solver).status
            if status.startswith("infeasible"):
                return False
            if status in solvers.SOLVED:
                return True
        return True

    kept = [k for k, (constraint, _, _) in enumerate(cone.rest) if not constraint.added]
    if not kept or feasible(kept):
        return
    for k in list(kept):
        without = [other for other in kept if other != k]
        if not feasible(without):
            kept = without
    blocks = tuple(dict.fromkeys(f"`{cone.rest[k][0]!r}`" for k in kept))
    raise Infeasible(f"{' and '.join(blocks)} cannot hold within the capacities", blocks)
