"""Which way to go: the first route that says it is exact for this policy on this instance."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.base import ByUser, is_ours
from fairopt.blocks.bundle_model import BundlePoint
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.levels import Kept, KeptLevel, KeptShares
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import AlphaFair, Leximin, Objective, Tiers, Total
from fairopt.certificate import Try
from fairopt.errors import FairoptError, Infeasible, InvalidBlock, NotCertified, OutOfDomain, nearest
from fairopt.formulation.program import Program, require_instance
from fairopt.instance import Instance
from fairopt.methods.bundles import program as bundles
from fairopt.methods.cluster import alpha_fair as server_prices
from fairopt.methods.cluster import leximin as server_leximin
from fairopt.methods.cone import leximin, newton, parametric, solvers
from fairopt.methods.cone import solve as cone
from fairopt.methods.cone.solve import Proposals, Settings
from fairopt.methods.pool import solve as pool
from fairopt.proofs import bundles as proofs
from fairopt.proofs import gate
from fairopt.proofs.bundles import BundleAnswer
from fairopt.proofs.evidence import Proposal
from fairopt.proofs.gate import Answer
from fairopt.proofs.plain import restored

Float = NDArray[np.floating[Any]]
log = logging.getLogger("fairopt")

# Routes that go before the general one, each where it is exact: its name, when, and how.
FAST = (
    ("water-filling", pool.waterfilling_applies, pool.solve_waterfilling),
    ("prices", pool.alpha_fair_applies, pool.solve_alpha_fair),
    ("prices", server_prices.applies, server_prices.solve),
    ("linear", pool.max_sum_applies, pool.solve_max_sum),
    ("levels", server_leximin.applies, server_leximin.solve),
)
REACH = {
    "water-filling": "exact for Leximin and MaxMin on one pool (or identical servers)",
    "prices": "exact for AlphaFair with alpha > 0 on one pool (or identical servers), and on several servers for "
    "AlphaFair with alpha from 0.05 to 5 and for MaxMin",
    "linear": "exact for Total and AlphaFair(0) on one pool (or identical servers)",
    "levels": "exact for Leximin on several servers of a share that is worth the same on each",
    "closed": "exact for WeightedLog, alone or under GlobalAggregateResource and AtMostRequested",
}
METHODS = ("auto", "cone", *dict.fromkeys(name for name, _, _ in FAST), "closed")
TIER = 1e-7  # how much of an earlier tier's best a later one may give up


def allocate(
    policy: Any,
    instance: Instance,
    *,
    method: str = "auto",
    solver: str | None = None,
    solver_options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
    general: Callable[[Program, Settings], Proposals] | None = None,
    start: Float | None = None,
) -> Allocation:
    """Solve a policy on an instance, and prove the answer; see `Policy.allocate` for the parameters.

    ``general`` solves what no faster route is exact for: `Prepared` has kept a compiled program for that. ``start`` is
    a guess at the prices, in natural units by server row: those of a program much like this one.
    """
    begun = time.perf_counter()
    require_instance(instance)
    if method not in METHODS:
        raise InvalidBlock(f"no method {method!r}; {nearest(method, METHODS)}")
    if time_limit is not None and not (isinstance(time_limit, (int, float)) and time_limit > 0):
        raise InvalidBlock(f"time_limit is {time_limit!r}; give seconds > 0, or None")
    if solver_options is not None and not isinstance(solver_options, Mapping):
        raise InvalidBlock(f"solver_options are {solver_options!r}; give a dict of the solver's own options")
    settings = Settings(
        solver=solvers.named(solver) if solver is not None else None,
        options=dict(solver_options or {}),
        deadline=None if time_limit is None else begun + time_limit,
        verbose=verbose,
        general=general,
        start=start,
    )
    if settings.solver and method not in ("auto", "cone"):
        raise InvalidBlock(f"solver {settings.solver} goes the cone route; give method='cone' or leave method out")
    if bundles.decides_bundles(policy.objective):
        allocation = gate.of_bundles(policy, _bundle_tiers(policy, instance, settings, method), begun)
    else:
        allocation = gate.allocation(policy, _tiers(policy, instance, settings, method), begun)
    if not allocation.certificate.ok:
        _refuse(allocation, settings)
    return allocation


def _tiers(policy: Any, instance: Instance, settings: Settings, method: str) -> list[tuple[Program, Answer]]:
    """Tier after tier of a policy that decides tasks, as far as they are certified."""
    tiers = policy.objective.tiers if isinstance(policy.objective, Tiers) else (policy.objective,)
    constraints: tuple[Constraint, ...] = tuple(policy.constraints)
    judged: list[tuple[Program, Answer]] = []
    for k, objective in enumerate(tiers):
        program = Program(instance, objective, constraints)
        program.refuse_hopeless()
        with np.errstate(all="ignore"):  # zeros, infinities and NaN are looked at where they matter
            answer = gate.empty(program) if program.empty else _one(program, settings, method)
        judged.append((program, answer))
        if not answer.ok:
            break
        if k + 1 < len(tiers) and not program.empty:
            constraints += tuple(_kept(objective, program, answer))
    return judged


def best(program: Program, proposals: Proposals) -> Answer:
    """The best of what a method proposes, by the gate's measure; the method hears what each came to.

    Parameters
    ----------
    program : Program
        What is solved.
    proposals : generator of Proposal
        Of one method, which goes on until one is certified or it has no more.

    Returns
    -------
    Answer
        With every attempt in ``tried``; the caller looks at ``ok``.
    """
    found: Answer | None = None
    tried: tuple[Try, ...] = ()
    answer: Answer | None = None
    while True:
        try:
            proposal = proposals.send(answer)
        except StopIteration:
            break
        answer = gate.judge(program, proposal)
        for attempt in answer.tried:
            log.info("%s", attempt)
        tried += answer.tried
        if found is None or _rank(answer) <= _rank(found):
            found = answer
    found = found or gate.nothing(program)
    return found if found.tried == tried else replace(found, tried=tried)


def _rank(answer: Answer) -> tuple[bool, float]:
    """The better the smaller: certified first, then by what is missing."""
    return not answer.ok, answer.gap + answer.violation + answer.block_violation


def _bundle_tiers(
    policy: Any, instance: Instance, settings: Settings, method: str
) -> list[tuple[bundles.BundleProgram, BundleAnswer]]:
    """Tier after tier of a policy that decides what users hold, in which their tasks then have to fit."""
    if method not in ("auto", "cone", "closed"):
        raise OutOfDomain(f"{method} is {REACH[method]}; {policy.objective!r} decides bundles; use method='auto'")
    tiers = policy.objective.tiers if isinstance(policy.objective, Tiers) else (policy.objective,)
    judged: list[tuple[bundles.BundleProgram, BundleAnswer]] = []
    constraints: tuple[Constraint, ...] = tuple(policy.constraints)
    for objective in tiers:
        program = bundles.BundleProgram(instance, objective, constraints)
        answer = bundles.solve(program, settings, method)
        judged.append((program, answer))
        if not answer.ok or program.empty or len(judged) == len(tiers):
            break
        point = BundlePoint(program.instance, answer.bundles, answer.tasks)
        constraints += (KeptLevel(objective, objective.value(point) - TIER * objective.drop(point)),)
    return judged


def judged_again(given: Allocation, evidence: Any, method: str, solver: str | None) -> Allocation:
    """An allocation of a policy, judged anew as it stands.

    Parameters
    ----------
    given : Allocation
        Of a `Policy`; feasible.
    evidence : list of dict, or None
        What was kept of it (`Allocation.evidence`). Where that does not prove the point, the policy is solved once
        more for evidence.
    method, solver : str
        How it came about.

    Returns
    -------
    Allocation
        Of the same point, certified or not.
    """
    begun = time.perf_counter()
    policy, instance, settings = given.policy, given.instance, Settings()
    several = isinstance(policy.objective, Tiers)
    try:
        if bundles.decides_bundles(policy.objective):
            held = given.given_bundles
            if held is None:
                raise ValueError("no bundles")
            earlier = _bundle_tiers(policy, instance, settings, "auto") if several else []
            last = earlier[-1][0] if earlier else bundles.BundleProgram(instance, policy.objective, policy.constraints)
            answer = proofs.judge(last, bundles.proposal_of(last, held, given.tasks_by_server, method, solver))
            return gate.of_bundles(policy, [*earlier[:-1], (last, answer)], begun, (given.tasks_by_server, held))
        if not several:
            program = Program(instance, policy.objective, policy.constraints)
            found = gate.empty(program) if program.empty else _by_kept(program, given, evidence, method, solver)
            if found.ok:
                return gate.allocation(policy, [(program, found)], begun, given.tasks_by_server)
        *before, (program, fresh) = _tiers(policy, instance, settings, "auto")
        found = _at(program, given, fresh.evidence, method, solver)
        return gate.allocation(policy, [*before, (program, found)], begun, given.tasks_by_server)
    except (FairoptError, LookupError, TypeError, ValueError) as error:
        note = f"it could not be judged again: {error}"
        known = {"value": given.objective, "prices": given.evidence_prices, "bundles": given.given_bundles}
        return gate.of_nothing(instance, given.tasks_by_server, policy, note=note, **known)


def _by_kept(program: Program, given: Allocation, evidence: Any, method: str, solver: str | None) -> Answer:
    """The tasks of an allocation, judged by the evidence that was kept of it, if that is any."""
    try:
        kept = restored(program, evidence[0], solver) if evidence and evidence[0] else None
        return _at(program, given, kept, method, solver)
    except (LookupError, TypeError, ValueError):
        return gate.nothing(program, method)


def _at(program: Program, given: Allocation, evidence: Any, method: str, solver: str | None) -> Answer:
    """The tasks of an allocation, judged by evidence."""
    return gate.judge(program, Proposal(method, program.gather(given.tasks_by_server), evidence, solver))


def _one(program: Program, settings: Settings, method: str) -> Answer:
    """One objective, by the first route that is exact for it."""
    tried: tuple[Try, ...] = ()
    if settings.solver is None and method != "cone":
        for name, applies, solve in FAST:
            if method in ("auto", name) and applies(program):
                answer = best(program, solve(program, settings))
                if answer.ok or method == name:
                    return answer
                tried += answer.tried
        if method != "auto":
            raise OutOfDomain(
                f"{method} is {REACH[method]}, under limits and reserves only; not for {program.objective!r} on "
                f"{program.given!r}; use method='auto'"
            )
    if program.pool_share is not None:  # the fast routes check the share as they go
        program.objective.check(program.instance)
    answer = _by_programs(program, settings)
    return replace(answer, tried=tried + answer.tried) if tried else answer


def _by_programs(program: Program, settings: Settings) -> Answer:
    """The general way: cone programs, as many as it takes."""
    if isinstance(program.objective, Leximin):
        return best(program, leximin.solve(program, settings))
    solve, search = settings.general or cone.solve, parametric.applies(program)
    answer = best(program, solve(program, replace(settings, quick=True) if search else settings))
    if answer.ok:
        return _topped_up(program, answer, settings)
    if search and not settings.late:
        second = best(program, parametric.solve(program, settings))
    elif settings.solver is None and not settings.late and newton.applies(program):
        second = best(program, newton.solve(program, settings))
    else:
        return answer
    return replace(min(second, answer, key=_rank), tried=answer.tried + second.tried)


def _topped_up(program: Program, answer: Answer, settings: Settings) -> Answer:
    """Hand out what a solver left: at large alpha the gap hardly sees the rich, so it may stop early.

    Every user keeps its share, so an objective that grows with the shares loses nothing; the gate says whether that is
    so. On one pool by water-filling; on several servers, or under other conditions, by a linear program where it
    matters.
    """
    objective = program.objective
    shares = tuple(dict.fromkeys(objective.share_blocks()))
    if not shares or not all(is_ours(t) for _, t in objective.terms()):
        return answer
    tasks = answer.tasks
    if program.single and not program.rest:
        more = pool.fill_leftover(program, shares[0], tasks) if _fits_more(program, tasks) else None
    elif _steep(objective):
        point, users = Point(program.instance, program.pairs.table(tasks)), program.instance.users
        kept = []
        for share in shares:
            held = point.share(share) * (1 - 1e-12)
            kept.append(KeptShares(ByUser(dict(zip(users, held.tolist(), strict=True))), share))
        above = Program(program.given, Total(shares[0]), (*program.constraints, *kept))
        try:
            second = best(above, cone.solve(above, settings))
        except Infeasible:  # to a solver's tolerance, what is there is all that fits
            return answer
        more = second.tasks if second.ok else None
    else:
        more = None
    if more is None:
        return answer
    after = gate.judge(program, Proposal(answer.method, more, answer.evidence, answer.solver))
    return replace(after, tried=answer.tried) if after.ok else answer


def _fits_more(program: Program, tasks: Float) -> bool:
    """Whether somebody on the pool, below its limit, finds a part of what it needs left over that is worth a look."""
    loads = program.pairs.loads
    scarce = program.usable - loads @ tasks <= 1e-9 * program.usable
    return bool(((tasks < program.high * (1 - 1e-9)) & ~(loads[scarce] > 0).any(axis=0)).any())


def _steep(objective: Objective) -> bool:
    """Whether the objective hardly sees the rich.

    At alpha = 5 on three users, certified answers of three solvers gave one of them 0.54 to 0.89 tasks where 2 fit; at
    alpha = 2 none of 25 random instances of 6 users on 3 servers was dominated.
    """
    alphas = [t.alpha for _, t in objective.terms() if isinstance(t, AlphaFair)]
    alphas += [t.beta for _, t in objective.terms() if isinstance(t, FairnessEfficiency)]
    return max(alphas, default=0.0) > 2


def _kept(objective: Objective, program: Program, answer: Answer) -> Sequence[Constraint]:
    """What an earlier tier asks of the later ones."""
    point = Point(program.instance, program.pairs.table(answer.tasks))
    if isinstance(objective, Leximin):
        levels = point.share(objective.share) * (1 - TIER)
        by_user = ByUser(dict(zip(program.instance.users, levels.tolist(), strict=True)))
        return [KeptShares(by_user, objective.share)]
    if isinstance(objective, FairnessEfficiency):
        objective = objective.alpha_fair() or objective
    best = objective.value(point)
    if isinstance(objective, FairnessEfficiency) and objective.beta < 1:  # its expression is the logarithm
        return [Kept(objective, float(np.log(best)) - TIER * objective.emphasis)]
    return [KeptLevel(objective, best - TIER * objective.drop(point))]


def _refuse(allocation: Allocation, settings: Settings) -> None:
    certificate = allocation.certificate
    tried = "; ".join(str(t) for t in certificate.tried) or certificate.method
    if settings.late or any("time limit" in t.status + t.message for t in certificate.tried):
        fix = "give it more time_limit"
    elif settings.solver:
        fix = "try another solver, or none for the chain of all"
    else:
        fix = "see .best for the best found and .tried for what each solver said"
    raise NotCertified(
        f"no answer could be certified: gap {certificate.gap:.2g} (tolerance 1e-6), violation "
        f"{certificate.violation:.2g} (1e-9), constraints {certificate.block_violation:.2g} (1e-7). "
        f"Tried {tried}. Fix: {fix}",
        best=allocation,
        tried=certificate.tried,
    )
