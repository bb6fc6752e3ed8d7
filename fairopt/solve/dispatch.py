"""Solve a policy on an instance, tier by tier, each by the first method that is exact for it and certified.

`solve_tiers` tries the methods of `FAST` in turn and falls back to cone programs. Each method proposes points with
evidence, which the gate judges (`best`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NoReturn

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import Kept, KeptLevel, KeptShares, only_term, tiers_of
from fairopt.blocks.base import ByUser, blocks_within, is_ours
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import AlphaFair, Objective, Total
from fairopt.blocks.shares import Share, Tasks, coefficients_cached
from fairopt.blocks.teams import Surplus, kept_bases
from fairopt.certificate import Try
from fairopt.errors import FairoptError, Infeasible, InvalidBlock, NotCertified, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.proof.conic import MATRICES, has_matrices
from fairopt.proof.evidence.above import lifted
from fairopt.proof.evidence.alike import OfKinds
from fairopt.proof.feasibility import room_left
from fairopt.proof.gate import Answer, Tiers
from fairopt.proof.level_bounds import MOVED
from fairopt.proof.proposal import Proposal
from fairopt.runtime import subprocesses
from fairopt.runtime.clock import FIX, Clock, begin, check, current
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.arrays import Float
from fairopt.solve.as_saved import judged_as_saved
from fairopt.solve.bundles import solve_bundles
from fairopt.solve.cluster.alpha_fair import alpha_fair_on_servers_applies, solve_alpha_fair_on_servers
from fairopt.solve.cluster.leximin import leximin_on_servers_applies, solve_leximin_on_servers
from fairopt.solve.cluster.sums import solve_sum_on_servers, sum_on_servers_applies
from fairopt.solve.cone.leximin import solve_leximin
from fairopt.solve.cone.newton import newton_applies, solve_by_newton
from fairopt.solve.cone.orders import orders_apply, solve_by_orders, sorted_term
from fairopt.solve.cone.parametric import only_parametric, parametric_applies, search_by_prices, search_sums
from fairopt.solve.cone.solve import chain_of, solve_number
from fairopt.solve.form import solvers
from fairopt.solve.form.above import above
from fairopt.solve.form.alike import Alike, alike
from fairopt.solve.form.bundle_program import BundleProgram, program_class
from fairopt.solve.form.problem import natural_problem
from fairopt.solve.form.program import Program, require_instance
from fairopt.solve.form.rising import refuse_starved, who_rises
from fairopt.solve.infeasible import most_left
from fairopt.solve.levels_in_fractions import solve_levels_in_fractions
from fairopt.solve.many_rows import solve_with_rows
from fairopt.solve.numbers.leximin import (
    leximin_of_numbers_applies,
    linear_only,
    refuse_other_methods,
    solve_leximin_of_numbers,
)
from fairopt.solve.numbers.split import split_inside_teams, team_share
from fairopt.solve.pool import solve as pool
from fairopt.solve.pool.envy import envy_free_applies, solve_envy_free
from fairopt.solve.pool.ordered import ordered_applies, solve_ordered
from fairopt.solve.settings import Proposals, Settings
from fairopt.solve.unfit_guarantees import refuse_unfit

log = logging.getLogger("fairopt")

# Methods before the general one: name, whether it is exact for a program, solution.
FAST = (
    ("water-filling", pool.waterfilling_applies, pool.solve_waterfilling),
    ("water-filling", envy_free_applies, solve_envy_free),
    ("prices", pool.alpha_fair_applies, pool.solve_alpha_fair),
    ("prices", ordered_applies, solve_ordered),
    ("prices", alpha_fair_on_servers_applies, solve_alpha_fair_on_servers),
    ("linear", pool.max_sum_applies, pool.solve_max_sum),
    ("prices", pool.sum_applies, pool.solve_sum),
    ("prices", sum_on_servers_applies, solve_sum_on_servers),
    ("levels", leximin_on_servers_applies, solve_leximin_on_servers),
    ("levels", leximin_of_numbers_applies, solve_leximin_of_numbers),
)
EXACT_FOR = {
    "water-filling": "exact for Leximin, and MaxMin and its multiples, on one pool (or identical servers), under "
    "EnvyFree too",
    "prices": "exact for AlphaFair with alpha > 0, OrderedWeighted, their multiples and sums of one concave function "
    "per user (`by_user`) on one pool (or identical servers), and on several servers for MaxMin, AlphaFair with alpha "
    "from 0.05 to 5, their multiples and such sums",
    "linear": "exact for Total, AlphaFair(0) and their multiples on one pool (or identical servers)",
    "levels": "exact for Leximin on several servers of a share with the same coefficients on each, and under linear "
    "constraints of teams or of what is above a base",
    "parametric": "exact for FairnessEfficiency wherever it has an optimum, but for AlphaFair's edge and beta = 1",
    "closed": "exact for WeightedLog, alone or under GlobalAggregateResource and AtMostRequested",
}
METHODS = ("auto", "cone", *dict.fromkeys(name for name, _, _ in FAST), "parametric", "closed")
DOMINATED = 1e-4  # of a user's tasks: an answer within the tolerated gap may leave less than this unused
# At alpha = 5 with three users, certified answers of three solvers gave one of them 0.54 to 0.89 tasks where 2 fit; at
# alpha = 2 none of 25 random instances of 6 users on 3 servers was dominated.
STEEP = 2  # alpha above which large shares hardly count in the objective
NOTHING = 1e-5  # of typical tasks: for squares bounded by 0 the bound is the square root of rounding
TIER_LOSS = 1e-7  # relative loss of an earlier tier's value that later tiers may cause


def allocate(policy: Any, instance: Instance, **options: Any) -> Allocation:
    """Solve a policy on an instance and certify the answer; see `Policy.allocate` for the parameters."""
    return solved(policy, instance, **options)[0]


@coefficients_cached()
def solved(
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
) -> tuple[Allocation, Tiers]:
    """The certified answer of a policy, and its tiers as they were judged.

    `Prepared` passes ``general``, which replaces `solve_number`, and ``start``, initial prices in natural units by
    server row.
    """
    clock = begin(time_limit, method == "cone" or solver is not None or not _on_unconstrained_pool(policy, instance))
    settings = checked_settings(instance, method, solver, solver_options, clock, verbose)
    settings = replace(settings, general=general, start=start)
    if settings.solver and method not in ("auto", "cone", "parametric"):
        raise InvalidBlock(f"solver {settings.solver} needs the cone method; give method='cone' or leave method out")

    def work() -> tuple[Allocation, Tiers]:
        judged = solve_tiers(policy, instance, settings, method)
        allocation = judged_as_saved(policy, judged, gate.allocation(policy, judged, clock.begun), clock.begun)
        if not allocation.certificate.ok:
            raise_not_certified(allocation, settings)
        return allocation, judged

    def late() -> tuple[Allocation, Tiers]:
        single = len(tiers_of(policy.objective)) == 1
        if single and clock.found is not None and clock.found.ok:  # only improvements were still to be tried
            judged = [(clock.program, clock.found)]
            return gate.allocation(policy, judged, clock.begun), judged
        raise_stopped(policy, clock)

    return clock.run(work, late)


def _on_unconstrained_pool(policy: Any, instance: Instance) -> bool:
    """Whether methods for one pool without constraints, which need neither CVXPY nor SciPy, solve the policy."""
    if policy.constraints or not isinstance(instance, Instance) or instance.n_servers > 1:
        return False
    term = only_term(policy.objective)
    return term is not None and term.is_simple


def checked_settings(
    instance: Instance,
    method: str,
    solver: str | None,
    options: Mapping[str, Any] | None,
    clock: Clock,
    verbose: bool,
) -> Settings:
    """Settings of a call, from the arguments of `Policy.allocate`."""
    require_instance(instance)
    if method not in METHODS:
        raise InvalidBlock(f"no method {method!r}; {nearest(method, METHODS)}")
    if options is not None and not isinstance(options, Mapping):
        raise InvalidBlock(f"solver_options is {options!r}; give a dict of the solver's own options")
    return Settings(solvers.named(solver) if solver is not None else None, dict(options or {}), clock, verbose)


def solve_tiers(policy: Any, instance: Instance, settings: Settings, method: str) -> list[tuple[Program, Answer]]:
    """The tiers of a policy and their answers, up to the first that is not certified."""
    program_of = program_class(policy.objective)
    tiers = tiers_of(policy.objective)
    if program_of is BundleProgram and method not in ("auto", "cone", "closed"):
        raise OutOfDomain(f"{method} is {EXACT_FOR[method]}; {policy.objective} decides bundles; use method='auto'")
    constraints: tuple[Constraint, ...] = tuple(policy.constraints)
    judged: list[tuple[Program, Answer]] = []
    for k, objective in enumerate(tiers):
        program = program_of(instance, objective, constraints)
        if (clock := current()) is not None:
            clock.program, clock.found, clock.proposed = program, None, None
        with np.errstate(all="ignore"):  # methods test for zeros, infinities and NaN where they matter
            answer = _solve_tier(program, settings, method, is_last=k + 1 == len(tiers))
        judged.append((program, answer))
        if not answer.ok:
            break
        if k + 1 < len(tiers) and not program.empty:
            constraints += kept_bases(objective)
            constraints += (keep_level(program.objective, program.point(answer.tasks, answer.bundles)),)
    return judged


def _solve_tier(program: Program, settings: Settings, method: str, is_last: bool = False) -> Answer:
    """Solve one objective by the first method that is exact and certified; of the last tier what it leaves open too."""
    if program.empty:
        return gate.empty(program)
    if isinstance(program, BundleProgram):
        check("writing programs for CVXPY")
        return best(program, solve_bundles(program, settings, method))
    kinds = alike(program) if settings.general is None and settings.start is None else None
    answer = None if kinds is None else _solve_kinds(program, kinds, settings, method, is_last)
    if answer is not None and answer.ok:
        return answer
    program.refuse_infinite_objective()
    if program.many_rows and method in ("auto", "cone") and not only_parametric(program):
        solve = partial(_solve_with, settings=settings, method=method)
        return solve_with_rows(program, settings, solve, partial(_solve_fast, settings=settings, method=method))
    answer = _solve_with(program, settings, method)
    if answer.ok or not settings.clock.late:
        refuse_starved(program, answer.tasks if answer.ok else None)
    return split_inside_teams(program, answer, settings) if is_last and answer.ok else answer


def _solve_kinds(program: Program, kinds: Alike, settings: Settings, method: str, is_last: bool) -> Answer | None:
    """The answer of a program of kinds of users as that of the users; None if it has none, which these explain."""
    try:
        found = _solve_tier(kinds.inner, settings, method, is_last)
    except FairoptError:
        return None
    if not found.ok or found.evidence is None or (found.note and team_share(program.objective) is None):
        return None
    evidence = OfKinds(kinds, found.evidence)
    answer = gate.judge(program, Proposal(found.method, kinds.spread(found.tasks), evidence, found.solver))
    return replace(answer, tried=found.tried, note=found.note)


def _solve_with(program: Program, settings: Settings, method: str) -> Answer:
    """Solve one objective with the rows that its program has."""
    if method == "parametric" and parametric_applies(program):
        return _search(program, settings)
    fast = _solve_fast(program, settings, method)
    if fast is not None and (fast.ok or method != "auto" or settings.clock.late):
        return fast
    if program.term.is_order and not program.of_users:
        return fast or refuse_other_methods(program)
    tried = () if fast is None else fast.tried
    if settings.solver is None and method not in ("auto", "cone"):
        raise OutOfDomain(
            f"{method} is {EXACT_FOR[method]}, under bounds on tasks and reserves only, but not for "
            f"{program.objective} on {program.given!r}; use method='auto'"
        )
    given = program.given
    if settings.clock.time_limit is not None and solvers.may_overrun("CLARABEL", given.n_users * given.capacities.size):
        subprocesses.start()
    check("writing programs for CVXPY")
    answer = _solve_by_cones(program, settings)
    return replace(answer, tried=tried + answer.tried) if tried else answer


def _solve_fast(program: Program, settings: Settings, method: str) -> Answer | None:
    """The first certified answer by a method of `FAST`, else that of the last that applies; None if none applies."""
    answer, tried = None, tuple[Try, ...]()
    if settings.solver is not None or method == "cone":
        return None
    inner = above(program)
    for name, applies, solve in FAST:
        if method in ("auto", name) and applies(inner or program):
            check(f"the method {name}")
            proposals = solve(inner or program, settings)
            answer = best(program, lifted(program, inner, proposals) if inner else proposals)
            tried += answer.tried
            answer = replace(answer, tried=tried)
            if answer.ok or method == name:
                break
    return answer


def best(program: Program, proposals: Proposals, most: int | None = None) -> Answer:
    """The best of at most ``most`` proposals as the gate judges them, certified or not, with all attempts.

    Each proposal's answer is sent back to the method.
    """
    found: Answer | None = None
    tried: tuple[Try, ...] = ()
    answer: Answer | None = None
    clock = current()
    if clock is not None and clock.program is not program:  # an auxiliary program
        clock = None
    for _ in count() if most is None else range(most):
        try:
            proposal = proposals.send(answer)
        except StopIteration:
            break
        if clock is not None:
            clock.proposed = proposal
        check("the proof")
        answer = gate.judge(program, proposal)
        for attempt in answer.tried:
            log.info("%s", attempt)
        tried += answer.tried
        if found is None or answer.missing() <= found.missing():
            found = answer
        if clock is not None:
            clock.proposed, clock.found = None, replace(found, tried=tried)
    found = found or gate.nothing(program)
    return found if found.tried == tried else replace(found, tried=tried)


def _better(answer: Answer, other: Answer) -> Answer:
    """The one that is certified, if only one is, and without doubts about rounding; with the tries of both."""
    found = min(other, answer, key=lambda one: (not one.ok, MOVED in one.assumed, one.missing()))
    return replace(found, tried=answer.tried + other.tried)


def _solve_by_cones(program: Program, settings: Settings) -> Answer:
    """Solve one objective by cone programs."""
    _refuse_infinite_tasks(program)
    if program.term.is_order:
        answer = best(program, solve_leximin(program, settings))
        if settings.solver is not None or not linear_only(program):
            return answer
        bounded = program.low.any() or program.instance.derived.has_guarantees  # a user may be left without a share
        if bounded and not answer.ok and not settings.clock.late:
            answer = _better(answer, best(program, solve_leximin_of_numbers(program, settings)))
        if (not answer.ok or MOVED in answer.assumed) and not settings.clock.late:
            answer = _better(answer, best(program, solve_levels_in_fractions(program, settings)))
        return answer
    search, first = parametric_applies(program), None
    if only_parametric(program) or (search and search_by_prices(program, settings)):
        first = _search(program, settings)
        if first.ok or only_parametric(program):
            return first
    solve = settings.general or solve_number
    if orders_apply(program):
        answer = best(program, solve_by_orders(program, settings, _fair_levels(program, settings)))
        if not (answer.ok or settings.clock.late):
            rest = best(program, solve(program, settings))
            answer = replace(min(rest, answer, key=Answer.missing), tried=answer.tried + rest.tried)
        return _distribute_leftover(program, answer, settings) if answer.ok else answer
    if not search and settings.general is None:
        return _by_chain_and_newton(program, settings)
    answer = best(program, solve(program, settings), most=1 if search else None)
    if answer.ok:
        return _distribute_leftover(program, answer, settings)
    if not search or settings.clock.late:
        return answer
    return _best_of(first or _search(program, settings), answer)


def _by_chain_and_newton(program: Program, settings: Settings) -> Answer:
    """The answer by solvers in turn, with Newton's steps, where they apply, before the first-order method SCS."""
    names = chain_of(settings, linear=True)
    last = [] if settings.solver else [name for name in names if name == "SCS"]
    answer = best(program, solve_number(program, settings, [name for name in names if name not in last]))
    newton = settings.solver in (None, *solvers.CONE_CHAIN)
    if newton and not (answer.ok or settings.clock.late) and newton_applies(program):
        second = _best_of(best(program, solve_by_newton(program, settings)), answer)
        if second.ok:
            return second
        answer = second
    if last and not (answer.ok or settings.clock.late):
        answer = _best_of(best(program, solve_number(program, settings, last)), answer)
    return _distribute_leftover(program, answer, settings) if answer.ok else answer


def _best_of(second: Answer, first: Answer) -> Answer:
    """The one that misses less, with the tries of both."""
    return replace(min(second, first, key=Answer.missing), tried=first.tried + second.tried)


def _refuse_infinite_tasks(program: Program) -> None:
    """Raise `OutOfDomain` if the tasks that a user could run exceed the range of floats."""
    instance = program.instance
    for j, s in np.argwhere((instance.tasks_alone == np.inf) & (program.high == np.inf)[:, None])[:1]:
        needed = instance.per_server_demands[j, s].max()
        raise OutOfDomain(
            f"user {instance.users[j]!r} could run more tasks on server {instance.servers[s]!r} than a float can hold, "
            f"as a task needs {needed:.3g}; count its tasks, or the resources that it needs, in other units"
        )


def _search(program: Program, settings: Settings) -> Answer:
    """Solve `FairnessEfficiency` by the search along the sum of shares, with a note if the answer is dominated."""
    settings = replace(settings, general=None, start=None)  # they are for this program, not for auxiliary ones
    solve = partial(_solve_tier, settings=settings, method="auto")
    answer = best(program, search_sums(program, settings, solve))
    if not answer.ok or not only_parametric(program):
        return answer
    held = program.pairs.sum(answer.tasks)
    unit = np.maximum(held, DOMINATED * program.size)
    could = held if program.rest else held + room_left(program, answer.tasks)
    if (program.rest or not program.single) and (could - held <= DOMINATED * unit).all():
        rise = None if answer.evidence is None else answer.evidence.most_rise(program, answer.tasks)
        if rise is not None and (rise <= DOMINATED * unit).all():
            return answer
        share: Share = program.term.share
        if share.coefficients(program.instance).ndim == 2:  # equal shares may be different numbers of tasks
            share = Tasks()
        kept = _keep_shares(program.point(answer.tasks), share, NOISE)
        try:
            more = solve(Program(program.given, Total(share), (*program.constraints, kept)))
        except Infeasible:  # within a solver's tolerance, nothing more fits
            return answer
        if not more.ok:
            return replace(answer, note="whether the answer is Pareto-dominated is not known")
        could = program.pairs.sum(more.tasks)
    gain = (could - held) / unit
    user = int(np.argmax(gain))
    if gain[user] <= DOMINATED:
        return answer
    label = program.instance.users[user]
    note = f"user {label!r} could run {could[user]:.6g} tasks, not {held[user]:.6g}, while no other user runs fewer"
    return replace(answer, note=f"Pareto-dominated, as optima with little emphasis on efficiency can be: {note}")


def _fair_levels(program: Program, settings: Settings) -> Float:
    """Levels by user at alpha = 2, whose order is near that of the ordered weights' optimum."""
    term = sorted_term(program)
    try:
        fair = Program(program.given, AlphaFair(2, term.share), program.constraints)
        tasks = _solve_with(fair, replace(settings, general=None, start=None, solver=None, options={}), "auto").tasks
    except (OutOfDomain, Infeasible):  # the constraints leave some user without tasks
        tasks = program.size[program.pairs.user]
    point = program.point(tasks)
    return np.asarray(point.share(term.share) / point.weights)


def _distribute_leftover(program: Program, answer: Answer, settings: Settings) -> Answer:
    """Distribute the capacity that a solver left unused (Proposition 7.11); the gate judges the new point."""
    objective = program.objective
    shares = tuple(dict.fromkeys(objective.share_blocks()))
    if not shares or not objective.is_known:
        return answer
    tasks = answer.tasks
    if program.single and not program.rest:
        levelled = program.of_users and shares[0].coefficients(program.instance).all()
        share = shares[0] if levelled else Tasks()
        more = pool.fill_leftover(program, share, tasks) if _fits_more(program, tasks) else None
    elif max((t.measure.beta if t.measure else t.alpha or 0.0 for t in objective.terms()), default=0.0) > STEEP:
        kept = [_keep_shares(program.point(tasks), share, 1e-12) for share in shares]
        above = Program(program.given, Total(shares[0]), (*program.constraints, *kept))
        try:
            second = best(above, solve_number(above, settings))
        except Infeasible:  # within a solver's tolerance, nothing more fits
            return answer
        more = second.tasks if second.ok else None
    else:
        more = None
    if more is None:
        return answer
    after = gate.judge(program, Proposal(answer.method, more, answer.evidence, answer.solver))
    return replace(after, tried=answer.tried) if after.ok else answer


def _fits_more(program: Program, tasks: Float) -> bool:
    """Whether a user on the pool is below its limit and no resource that it needs is full."""
    loads = program.pairs.loads
    scarce = program.usable - loads @ tasks <= NOISE * program.usable
    return bool(((tasks < program.high * (1 - NOISE)) & ~(loads[scarce] > 0).any(axis=0)).any())


def keep_level(objective: Objective, point: Point) -> Constraint:
    """The constraint that keeps the value of a tier at a point in later tiers."""
    term = objective.term
    if term.is_order or term.is_curved:  # numbers are unique, and these rows linear
        return _keep_shares(point, term.share, TIER_LOSS)
    if term.measure is not None and term.alpha is not None:
        objective = term.factor * AlphaFair(term.alpha, term.share)
    elif term.kind.in_logs:
        return Kept(objective, float(np.log(objective.value(point))) - TIER_LOSS * term.measure.emphasis)
    value = objective.value(point)
    return KeptLevel(objective, value - TIER_LOSS * objective.drop(point))


def _keep_shares(point: Point, share: Share, loss: float) -> KeptShares:
    """The constraint that every user or team keeps its share less a relative loss."""
    held = np.maximum(point.share(share) * (1 - loss), 0.0)
    return KeptShares(ByUser(dict(zip(share._names(point.instance), held.tolist(), strict=True))), share)


def raise_not_certified(allocation: Allocation, settings: Settings) -> NoReturn:
    """Raise `NotCertified` with the attempts and a fix."""
    certificate, policy = allocation.certificate, allocation.policy
    own = not all(map(is_ours, blocks_within((policy.objective, *policy.constraints))))
    tried = "; ".join(str(t) for t in certificate.tried) or certificate.method
    nothing = _left_nothing(policy, allocation.instance)
    clock = current()
    if nothing:
        fix = (
            f"lower guarantees, which leave nothing for user {nothing[0]!r}, whose share of 0 is below all levels, or "
            "compare Surplus(share), which such users leave"
        )
    elif settings.clock.late or any("time limit" in t.status + t.message for t in certificate.tried):
        fix = "give it more time_limit" + ("" if clock is None else f" than {clock.time_limit:g} s")
    elif own and _has_matrices(policy, allocation.instance):
        fix = MATRICES
    elif (left := _most_left(policy, allocation.instance)) <= NOTHING:
        fix = (
            "leave a constraint out: the constraints allow all users together at most "
            f"{left:.1g} of their typical tasks"
        )
    elif settings.solver:
        fix = "try another solver, or leave solver out to try several"
    else:
        fix = "see .best for the best found and .tried for each solver's result"
    raise NotCertified(
        f"no answer could be certified: gap {certificate.gap:.2g} (tolerance 1e-6), violation "
        f"{certificate.violation:.2g} (1e-9), constraints {certificate.block_violation:.2g} (1e-7). "
        f"Tried {tried}. Fix: {fix}",
        best=allocation,
        tried=certificate.tried,
    )


def _left_nothing(policy: Any, instance: Instance) -> list[str]:
    """The users that are levelled but can run no tasks beside guarantees; `Infeasible` if these do not fit together."""
    objective = tiers_of(policy.objective)[0]
    if program_class(objective) is BundleProgram:
        return []
    program = Program(instance, objective, policy.constraints)
    refuse_unfit(program)
    levelled = any(term.kind.levels_users and term.share and term.share._is_plain for term in objective.terms())
    if not instance.derived.has_guarantees or program.empty or not levelled:
        return []
    rises = who_rises(program, Surplus())
    stays = np.zeros(0) if rises is None else ~rises & (program.low == 0)
    return [program.instance.users[j] for j in np.flatnonzero(stays)]


def _has_matrices(policy: Any, instance: Instance) -> bool:
    """Whether the policy's CVXPY problem has matrix cones, tested with a total in place of a non-concave objective."""
    term = policy.objective.term
    if not term.kind.is_concave:
        policy = copy(policy)
        policy.objective = Total(term.share)
    return has_matrices(natural_problem(policy, instance))


def _most_left(policy: Any, instance: Instance) -> float:
    """A bound on the tasks that the constraints allow, relative to typical ones; infinite without constraints."""
    objective = tiers_of(policy.objective)[0]
    if not policy.constraints or program_class(objective) is BundleProgram:
        return np.inf
    program = Program(instance, objective, policy.constraints)
    return most_left(program) if program.rest else np.inf


def raise_stopped(policy: Any, clock: Clock) -> NoReturn:
    """Raise `NotCertified` for a call that ran out of time, with the best answer found."""
    best = None
    if clock.program is not None:
        best = gate.unfinished(policy, clock.program, clock.found, clock.proposed, clock.begun)
    tried = () if best is None else best.certificate.tried
    raise NotCertified(
        f"no answer was certified within {clock}. " + (f"Tried {'; '.join(map(str, tried))}. " if tried else "") + FIX,
        best=best,
        tried=tried,
    )
