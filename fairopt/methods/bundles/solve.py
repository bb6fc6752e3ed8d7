"""Policies that decide bundles: what each user holds of each resource on each server; tasks are what fits in them.

Where the problem separates by server, resource and group, the closed form of `formulation.division` is the answer, and
its prices prove that of any solver too. Policies that also speak of tasks are cone programs, and proved by their duals.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.bundle_model import cut_at_limits, tasks_in_bundles
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.formulation import solvers
from fairopt.formulation.bundle_program import BundleConeModel, BundleProgram
from fairopt.methods import infeasible
from fairopt.methods.cone.solve import by_chain, solve_problem
from fairopt.methods.settings import Proposals, Settings
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
        If the closed form is asked for where there is none, or a user with a base can hold nothing.
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

    def propose(name: str) -> Iterator[Proposal]:
        cone = BundleConeModel(program, name)
        if division is None:
            form, _ = cone.maximand
        else:
            form = cp.sum(cp.multiply(division.parts_of_one(), cp.log(cone.model.held)))
        tell(f"cone program over bundles by {name}")
        attempt, found = solve_problem(
            cp.Problem(cp.Maximize(form), cone.all_constraints), cone.unknowns, name, settings,
            explain=partial(_refuse_infeasible, cone), objective=program.objective,
        )  # fmt: skip
        if not found:
            yield Proposal("cone", attempt=attempt)
        elif division is not None:
            yield Proposal("cone", None, division, attempt=attempt, bundles=cone.bundles())
        else:
            bundles, evidence = cone.bundles(), Solved(cone)
            for tasks in _tasks_in(cone, bundles):
                yield Proposal("cone", tasks, evidence, attempt=attempt, bundles=bundles)

    yield from by_chain(settings, propose, linear=False)


def _tasks_in(cone: BundleConeModel, bundles: Float) -> Iterator[Float]:
    """Tasks in the bundles: all that fit, as many as the constraints allow, and what the solver left."""
    instance, left = cone.program.instance, cone.tasks()
    fit = tasks_in_bundles(instance, bundles)
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
    if next(solvers.statuses(problem)) not in solvers.SOLVED or cone.unknowns.value is None:
        return wished
    return pairs.table(cone.tasks())


def _refuse_infeasible(cone: BundleConeModel) -> None:
    """`Infeasible` with an irreducible set of the policy's conditions; return if a second look finds them to hold."""
    always = [cone.capacity, *cone.box, *cone.required]
    asked = {k: [condition] for k, (constraint, _, condition) in enumerate(cone.rest) if not constraint.added}
    blocks = tuple(dict.fromkeys(f"`{cone.rest[k][0]!r}`" for k in infeasible.irreducible(asked, always)))
    if blocks:
        raise Infeasible(f"{' and '.join(blocks)} cannot hold within the capacities", blocks)
