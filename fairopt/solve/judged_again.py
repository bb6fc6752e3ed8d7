"""Recomputed certificates of saved allocations."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import tiers_of
from fairopt.blocks.shares import coefficients_cached
from fairopt.errors import FairoptError
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.proposal import Proposal
from fairopt.runtime.threads import one_thread
from fairopt.solve.bundles import proposal_of
from fairopt.solve.dispatch import solve_tiers
from fairopt.solve.form.bundle_program import BundleProgram, decides_bundles
from fairopt.solve.form.no_whole_task import number_of, whole_instance
from fairopt.solve.form.program import Program
from fairopt.solve.or_zero import Search
from fairopt.solve.settings import Settings


@one_thread()
@coefficients_cached()
def judged_again(given: Allocation, evidence: Any, method: str, solver: str | None, keep: bool = True) -> Allocation:
    """The allocation with a new certificate; ``method`` and ``solver`` are those that found it.

    Saved ``evidence`` (`Allocation.evidence`) that proves it stays as it is with ``keep``, and is else written anew. If
    it does not, the policy is solved again for evidence.
    """
    begun = time.perf_counter()
    policy, instance, settings = given.policy, given.instance, Settings()
    several = len(tiers_of(policy.objective)) > 1
    try:
        if decides_bundles(policy.objective):
            held = given.given_bundles
            if held is None:
                raise ValueError("no bundles")
            earlier = solve_tiers(policy, instance, settings) if several else []
            last = earlier[-1][0] if earlier else BundleProgram(instance, policy.objective, policy.constraints)
            assert isinstance(last, BundleProgram)
            judged = (
                gate.empty(last)
                if last.empty
                else gate.judge(last, proposal_of(last, held, given.tasks_by_server, method, solver, given.variables))
            )
            return gate.allocation(policy, [*earlier[:-1], (last, judged)], begun, given.tasks_by_server, held)
        if not several:
            program = Program(instance, policy.objective, policy.constraints)
            judged = gate.empty(program) if program.empty else _judge_by_kept(program, given, evidence, method, solver)
            if judged.ok:
                kept = evidence if keep and _is_entry(evidence) else None
                return gate.allocation(policy, [(program, judged)], begun, given.tasks_by_server, kept=kept)
        *before, (program, fresh) = solve_tiers(policy, instance, settings)
        judged = fresh if program.empty else _judge_at(program, given, fresh.evidence, method, solver)
        return gate.allocation(policy, [*before, (program, judged)], begun, given.tasks_by_server)
    except (FairoptError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        note = f"it could not be judged again: {error}"
        known = {"value": given.objective, "prices": given.evidence_prices, "bundles": given.given_bundles}
        return gate.of_nothing(instance, given.tasks_by_server, policy, variables=given.variables, note=note, **known)


@one_thread()
@coefficients_cached()
def whole_again(given: Allocation, evidence: Any, method: str, solver: str | None, keep: bool = True) -> Allocation:
    """`judged_again` for whole tasks: the divisible answer is judged by its saved evidence, or solved again."""
    begun, policy, instance = time.perf_counter(), given.policy, given.instance
    assert given.placement is not None
    try:
        part = whole_instance(instance, number_of(tiers_of(policy.objective)[0]), policy.constraints)
        judged = None if len(tiers_of(policy.objective)) > 1 else _divisible_again(policy, part, evidence)
        kept = evidence if keep and judged and _is_entry(evidence) else None
        judged = judged or solve_tiers(policy, part, Settings())
        return gate.whole(policy, instance, judged, given.placement, begun, method=method, solver=solver, kept=kept)
    except (FairoptError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        note = f"it could not be judged again: {error}"
        known = {"value": given.objective, "variables": given.variables, "note": note}
        return gate.of_nothing(instance, given.tasks_by_server, policy, **known)


@one_thread()
@coefficients_cached()
def searched_again(given: Allocation, evidence: Any) -> Allocation:
    """`judged_again` for tasks that are 0 or at least so many: the leaves of the saved tree are proved anew."""
    try:
        if not _is_entry(evidence):
            raise ValueError("the file does not have the tree of branch and bound; allocate its instance again")
        search = Search(given.policy, given.instance, Settings())
        return search.proved(given.tasks_by_server, [int(k) for k in evidence[0]["tree"]])
    except (FairoptError, LookupError, TypeError, ValueError, ArithmeticError, AssertionError) as error:
        known = {"value": given.objective, "note": f"it could not be judged again: {error}"}
        return gate.of_nothing(given.instance, given.tasks_by_server, given.policy, **known)


def _is_entry(evidence: Any) -> bool:
    """Whether saved evidence has an entry."""
    return bool(evidence) and bool(evidence[0]) and "kind" in evidence[0]


def _divisible_again(policy: Any, part: Instance, evidence: Any) -> list[tuple[Program, JudgedPoint]] | None:
    """The divisible answer saved with whole tasks; None if its evidence does not prove it."""
    program = Program(part, policy.objective, policy.constraints)
    if program.empty:
        return [(program, gate.empty(program))]
    try:
        tasks = program.gather(np.asarray(evidence[0]["divisible"], dtype=float).reshape(part.eligible.shape))
        kept = restored(program, evidence[0], None, policy.constraints)
        judged = gate.judge(program, Proposal("saved", tasks, kept))
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None
    return [(program, judged)] if judged.ok else None


def _judge_by_kept(program: Program, given: Allocation, evidence: Any, method: str, solver: str | None) -> JudgedPoint:
    """The tasks of an allocation, judged by its saved evidence, if any."""
    try:
        kept = restored(program, evidence[0], solver, given.policy.constraints) if evidence and evidence[0] else None
        return _judge_at(program, given, kept, method, solver)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return gate.nothing(program, method)


def _judge_at(program: Program, given: Allocation, evidence: Any, method: str, solver: str | None) -> JudgedPoint:
    """The tasks of an allocation, judged by evidence."""
    return gate.judge(program, Proposal(method, program.gather(given.tasks_by_server), evidence, solver))
