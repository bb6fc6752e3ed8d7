"""Policies that decide bundles: what each user holds of each resource on each server.

If the problem separates by server, resource and group, `formulation.division` gives the answer in closed form, whose
prices also prove a solver's answer. Other policies, such as those that involve tasks, are cone programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from fairopt.blocks.bundle_model import cut_at_limits, tasks_in_bundles
from fairopt.blocks.constraints import conditions_in_words
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.proof.evidence.bundles import Divided, SolvedBundles
from fairopt.proof.evidence.written import Written
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.runtime.progress import tell
from fairopt.solve import infeasible
from fairopt.solve.cone.solve import by_chain, solve_problem
from fairopt.solve.form import solvers
from fairopt.solve.form.bundle_program import BundleConeModel, BundleProgram
from fairopt.solve.settings import Proposals, Settings


def proposal_of(
    program: BundleProgram,
    held: Float,
    tasks: Float,
    method: str,
    solver: str | None,
    variables: Mapping[str, Float] | None = None,
) -> Proposal:
    """Bundles and tasks of the given instance, and values of blocks' variables, with the dual of the program as
    evidence.
    """
    division = program.division
    evidence: Divided | SolvedBundles
    if division is None:
        cone = BundleConeModel(program, solver)
        cone.model.own.save(variables or {})
        evidence = SolvedBundles.of(cone)
    else:
        evidence = Divided(division)
    return Proposal(method, program.gather(tasks), evidence, solver, bundles=program.gather_rows(held))


def solve_divided(program: BundleProgram, settings: Settings) -> Proposals:
    """The best bundles in closed form, if there is one.

    Raises `OutOfDomain` if the closed form is asked for and there is none, or a user with a base can hold nothing.
    """
    division = program.division
    if division is not None:
        yield Proposal("closed", evidence=Divided(division))
    elif settings.method == "closed":
        under = ", ".join(map(str, program.constraints)) or "no constraints"
        raise OutOfDomain(
            f"closed is exact for WeightedLog under GlobalAggregateResource and AtMostRequested only, not for "
            f"{program.objective} under {under}; use method='auto'"
        )


def solve_bundles(program: BundleProgram, settings: Settings) -> Proposals:
    """The best bundles by solvers in turn until one is certified.

    Raises `OutOfDomain` if a user with a base can hold nothing.
    """
    division = program.division
    if division is not None:
        if not len(program.triples):
            yield Proposal("closed", evidence=Divided(division))
            return
        division.answer()  # raises `OutOfDomain` if there is no answer

    def propose(name: str) -> Iterator[Proposal]:
        cone = BundleConeModel(program, name)
        if division is None:
            form, _ = cone.maximand
        else:
            form = cp.sum(cp.multiply(division.parts_of_one(), cp.log(cone.model.held)))
        tell(f"cone program over bundles by {name}")
        attempt, solved = solve_problem(
            cp.Problem(cp.Maximize(form), cone.all_constraints),
            cone.unknowns,
            name,
            settings,
            explain=partial(_refuse_infeasible, cone),
            objective=program.objective,
        )
        if not solved:
            yield Proposal("cone", attempt=attempt)
        elif division is not None:
            yield Proposal("cone", None, Divided(division), attempt=attempt, bundles=cone.bundles())
        else:
            bundles, evidence = cone.bundles(), SolvedBundles.of(cone)
            for tasks in _tasks_in(cone, bundles):
                at_tasks = replace(evidence, written=Written.of(cone))  # variables of blocks are those for these tasks
                yield Proposal("cone", tasks, at_tasks, attempt=attempt, bundles=bundles)

    yield from by_chain(settings, propose, linear=False)


def _tasks_in(cone: BundleConeModel, bundles: Float) -> Iterator[Float]:
    """Tasks within the bundles: all that fit, the most that the constraints allow, and the solver's."""
    instance, left = cone.program.instance, cone.tasks()
    fit = tasks_in_bundles(instance, bundles)
    yield cut_at_limits(instance, fit)
    least_tasks = cut_at_limits(instance, np.minimum(cone.model.pairs.table(left), fit))
    held = bundles[cone.triples.user, cone.triples.server, cone.triples.resource] / cone.units
    yield _most_tasks(cone, held, least_tasks)
    yield least_tasks


def _most_tasks(cone: BundleConeModel, held: Float, least_tasks: Float) -> Float:
    """The most tasks that bundles and constraints allow."""
    pairs, k = cone.model.pairs, len(held)
    at_least = least_tasks[pairs.user, pairs.server] / cone.scale * (1 - 1e-9)
    fixed = [cone.unknowns[:k] == held, cone.unknowns[k:] >= at_least]
    problem = cp.Problem(cp.Maximize(cp.sum(cone.unknowns[k:])), [*cone.all_constraints, *fixed])
    if next(solvers.statuses(problem), "") not in solvers.SOLVED or cone.unknowns.value is None:
        return least_tasks
    return pairs.table(cone.tasks())


def _refuse_infeasible(cone: BundleConeModel) -> None:
    """Raise `Infeasible` with an irreducible set of the policy's constraints; return if they are feasible."""
    always = [cone.capacity, *cone.box, *cone.required]
    groups = {k: [condition] for k, (constraint, _, condition) in enumerate(cone.rest) if not constraint.added}
    conflict = [cone.rest[k] for k in infeasible.irreducible(groups, always)]
    if conflict:
        parts = [conditions_in_words(block, [name]) for block, name, _ in conflict]
        blocks = tuple(dict.fromkeys(f"`{block}`" for block, _, _ in conflict))
        raise Infeasible(f"{' and '.join(dict.fromkeys(parts))} cannot hold within the capacities", blocks)
