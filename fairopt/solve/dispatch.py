"""Solve a policy on an instance, tier by tier, each by the first method of the table that is certified.

`ask` goes through `fairopt.solve.table.TABLE`: a method proposes points with evidence, the gate judges them (`best`),
and the next method is asked while none is certified. For ``a.then(b)`` the second program is (Proposition 7.5,
docs/methods/cone.md)

    max f_b(x)  over feasible x with  f_a(x) >= f_a(x^a) - delta,   delta = 1e-7 of the unit of f_a at its answer x^a,

or, where optimal shares are unique, with each share at least its value less 1e-7 of it. These rows are linear, and they
hold what is meant: a strictly concave f_a that may fall by delta lets shares move by its root, 3e-4. Of 200 policies of
two tiers all were certified either way, but a quarter of them only under an assumption, and in 2.6 times the CPU time,
with the value instead of the shares.

Floats: delta is what solvers need to find a point at all, and is all that some users are left with: their tasks are
then measured in units of what prices say that they can have (`narrow`). Every tier is judged again at the final point.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import Kept, KeptLevel, KeptShares, only_term, tiers_of
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Objective, Total
from fairopt.blocks.shares import Share, best_server, coefficients_cached
from fairopt.blocks.teams import kept_bases
from fairopt.certificate import Try
from fairopt.errors import InvalidBlock, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.proof.gate import JudgedPoint, Tiers
from fairopt.proof.proposal import MOVED
from fairopt.runtime import subprocesses
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock, begin, check, current
from fairopt.runtime.lazy import later
from fairopt.solve.form import solvers
from fairopt.solve.form.bundle_program import BundleProgram, program_class
from fairopt.solve.form.program import Program, require_instance
from fairopt.solve.settings import Proposals, Settings
from fairopt.solve.table import PASSES, TABLE, Method, doubtful, exact_for, names

log = logging.getLogger("fairopt")

TIER_LOSS = 1e-7  # relative loss of an earlier tier's value that later tiers may cause: a tenth of what gaps may be
ALMOST_NONE, LEAST = 1e-2, 1e-10  # of the usual size of a user's tasks: below it units follow, down to


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
    start: Float | None = None,
) -> tuple[Allocation, Tiers]:
    """The certified answer of a policy, and its tiers as they were judged.

    ``start`` are initial prices in natural units by server row, from `Prepared`.
    """
    clock = begin(time_limit, method == "cone" or solver is not None or not _on_unconstrained_pool(policy, instance))
    settings = checked_settings(instance, method, solver, solver_options, clock, verbose, start)
    if settings.solver and method not in ("auto", "cone", "parametric"):
        raise InvalidBlock(f"solver {settings.solver} needs the cone method; give method='cone' or leave method out")

    def work() -> tuple[Allocation, Tiers]:
        judged = solve_tiers(policy, instance, settings)
        allocation = gate.allocation(policy, judged, clock.begun)
        if len(judged) > 1 or ((evidence := judged[0][1].evidence) is not None and evidence.of_solver):
            allocation = later("fairopt.solve.as_saved:judged_as_saved")(policy, judged, allocation, clock.begun)
        if not allocation.certificate.ok:
            later("fairopt.solve.not_certified:raise_not_certified")(allocation, settings)
        return allocation, judged

    def late() -> tuple[Allocation, Tiers]:
        single = len(tiers_of(policy.objective)) == 1
        if single and clock.found is not None and clock.found.ok:  # only improvements were still to be tried
            judged = [(clock.program, clock.found)]
            return gate.allocation(policy, judged, clock.begun), judged
        raise later("fairopt.solve.not_certified:stopped")(policy, clock)

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
    start: Float | None = None,
) -> Settings:
    """Settings of a call, from the arguments of `Policy.allocate`."""
    require_instance(instance)
    if method not in names():
        raise InvalidBlock(f"no method {method!r}; {nearest(method, names())}")
    if options is not None and not isinstance(options, Mapping):
        raise InvalidBlock(f"solver_options is {options!r}; give a dict of the solver's own options")
    named = solvers.named(solver) if solver is not None else None
    return Settings(named, dict(options or {}), clock, verbose, method=method, start=start)


def solve_tiers(policy: Any, instance: Instance, settings: Settings) -> list[tuple[Program, JudgedPoint]]:
    """The tiers of a policy and their answers, up to the first that is not certified."""
    program_of = program_class(policy.objective)
    tiers = tiers_of(policy.objective)
    # bundles have two methods of their own; others would see a program without tasks
    if program_of is BundleProgram and settings.method not in ("auto", "cone", "closed"):
        raise OutOfDomain(
            f"{settings.method} is {exact_for(settings.method)}; {policy.objective} decides bundles; use method='auto'"
        )
    constraints: tuple[Constraint, ...] = tuple(policy.constraints)
    judged: list[tuple[Program, JudgedPoint]] = []
    for k, objective in enumerate(tiers):
        program = program_of(instance, objective, constraints)
        if (clock := current()) is not None:
            clock.program, clock.found, clock.proposed = program, None, None
        with np.errstate(all="ignore"):  # methods test for zeros, infinities and NaN where they matter
            # the earlier answer, as a point within what it keeps, is where some methods start
            if judged and program.decides_tasks and not program.empty:
                narrow(program, judged)
                before, answer = judged[-1]
                program.before = program.gather(before.expand(answer.tasks))
            answer = ask(program, replace(settings, last_tier=k + 1 == len(tiers)))
        judged.append((program, answer))
        if not answer.ok:  # later tiers would keep what is not an optimum
            break
        if k + 1 < len(tiers) and not program.empty:
            constraints += kept_bases(objective)
            constraints += (keep_level(program.objective, program.point(answer.tasks, answer.bundles)),)
    return judged


def ask(program: Program, settings: Settings, among: Callable[[Method], bool] | None = None) -> JudgedPoint:
    """The first certified answer by the methods of the table that apply, or the best; after all `PASSES` that apply.

    ``among`` tells which methods may be asked.
    """
    if program.empty:
        return gate.empty(program)
    of_bundles, above = isinstance(program, BundleProgram), None
    if not of_bundles:
        program.refuse_infinite_objective()
        above = later("fairopt.solve.form.above:above")(program) if program.is_above_base else None
    so_far: JudgedPoint | None = None
    for method in TABLE:
        form = above if above is not None and method.above_base else program
        wanted = method.of_bundles == of_bundles and method.is_asked(settings) and (among is None or among(method))
        if not wanted or not (so_far is None or method.due(so_far)) or not method.applies(form, settings):
            continue
        _before(method, program, settings)
        proposals = method.solve(form, settings)
        if form is not program:
            proposals = later("fairopt.proof.evidence.above:lifted")(program, form, proposals)
        answer = _judged(program, proposals)
        if answer is None:
            continue
        so_far = answer if so_far is None else _better(answer, so_far)
        if so_far.ok and method.reduces:  # the other program's answer has been through all of this
            return so_far
        # a method asked for by name is the last, but "cone" is the name of several
        if settings.clock.late or settings.method == method.name != "cone" or so_far.hidden or not doubtful(so_far):
            break
    if so_far is None:
        raise later("fairopt.solve.not_certified:no_method")(program, settings)
    for each in () if of_bundles else PASSES:
        if each.applies(program, so_far, settings):
            so_far = each.change(program, so_far, settings)
    return so_far


def _before(method: Method, program: Program, settings: Settings) -> None:
    """Say which method is next, and start solvers' subprocess before cone programs."""
    if not (method.by_cones or method.of_bundles):
        check(f"the method {method.name}")
        return
    check("writing programs for CVXPY")
    if method.of_bundles:
        return
    entries = program.given.n_users * program.given.capacities.size
    if settings.clock.time_limit is not None and solvers.may_overrun("CLARABEL", entries):
        subprocesses.start()


def best(program: Program, proposals: Proposals) -> JudgedPoint:
    """The best proposal as the gate judges them, certified or not, with all attempts."""
    return _judged(program, proposals) or gate.nothing(program)


def _judged(program: Program, proposals: Proposals) -> JudgedPoint | None:
    """`best`; None if there are no proposals. Each proposal's answer is sent back to the method."""
    so_far: JudgedPoint | None = None
    tried: tuple[Try, ...] = ()
    answer: JudgedPoint | None = None
    clock = current()
    # an auxiliary program: its answers are none of the call, which a time limit would return
    if clock is not None and clock.program is not program:
        clock = None
    while True:
        try:
            proposal = proposals.send(answer)
        except StopIteration:
            break
        if clock is not None:
            clock.proposed = proposal
        check("the proof")
        answer = gate.judge(program, proposal)
        for attempt in () if proposal.tried else answer.tried:
            log.info("%s", attempt)
        tried += answer.tried
        if so_far is None or answer.missing() <= so_far.missing():  # the later of equals: methods improve their points
            so_far = answer
        if clock is not None:
            clock.proposed, clock.found = None, replace(so_far, tried=tried)
    return so_far if so_far is None or so_far.tried == tried else replace(so_far, tried=tried)


def _better(answer: JudgedPoint, before: JudgedPoint) -> JudgedPoint:
    """The one that is certified, if only one is, and without doubts about rounding; with the tries of both."""
    better = min(answer, before, key=lambda one: (not one.ok, MOVED in one.assumed, one.missing()))
    return replace(better, tried=before.tried + answer.tried)


# -- what later tiers, and improvements of an answer, keep of what was reached -----------------------------------------


def keep_level(objective: Objective, point: Point) -> Constraint:
    """The constraint that keeps the value of a tier at a point in later tiers."""
    if (share := unique_share(objective, point.instance)) is not None:  # these rows are linear
        return KeptShares.at(point, share, TIER_LOSS)
    term = objective.term
    if term.measure is not None and term.is_linear:
        objective = term.factor * Total(term.share)
    elif term.kind.in_logs:
        # what is kept is the logarithm, of which the emphasis is the slope in all shares
        loss = TIER_LOSS * term.measure.emphasis
        return Kept(objective, float(np.log(objective.value(point))) - loss, loss)
    value, loss = objective.value(point), TIER_LOSS * objective.drop(point)
    gap = objective.relative_gap(value, value - loss, point)
    if TIER_LOSS < gap < np.inf:  # of what is above a base, halving the tasks may take ten times the value
        loss *= TIER_LOSS / gap
    return KeptLevel(objective, value - loss, loss)


def unique_share(objective: Objective, instance: Instance) -> Share | None:
    """The share of which everybody has the same at all optima, if it determines the value too; else None.

    That of leximin and of strictly concave terms. In a sum the other terms are of the same share, or grow with the
    tasks that users have in total.
    """
    terms = objective.terms()
    if len(terms) == 1:
        term = terms[0]
        unique = term.is_order or term.is_curved or (term.measure is not None and term.measure.strictly_concave)
        return term.share if unique else None
    for term in terms if all(one.kind.is_known for one in terms) else ():
        if term.is_curved and all(
            one.share == term.share or (_is_per_user(one.share, instance) and _is_per_user(term.share, instance))
            for one in terms
        ):
            return term.share
    return None


def _is_per_user(share: Share, instance: Instance) -> bool:
    """Whether it is a user's share, of all its tasks alike on the servers where it may run."""
    if not share._is_plain:
        return False
    c = share.coefficients(instance)
    return c.ndim == 1 or bool((c == best_server(c, instance)[:, None])[instance.eligible].all())


def narrow(program: Program, earlier: Iterable[tuple[Program, JudgedPoint]]) -> None:
    """Measure the tasks of users to whom earlier totals leave almost none in units of what they leave.

    At prices p of a total with slopes g all tasks that keep its level have ``sum_j (p'd_j - g_j) x_j <= p'C - level``.
    """
    pairs, most = program.pairs, program.most[program.pairs.user]
    kept = [block for block in program.rest if type(block) is KeptLevel]
    for block, prices in ((b, a.prices) for b in kept for p, a in earlier if p.objective == b.objective):
        rows = program.rows_of(block)
        if not rows or prices is None or len(prices) != pairs.loads.shape[0]:
            continue
        table, right = rows[0].rows.in_units(np.ones(len(pairs)))
        if len(right) != 1 or not right[0]:  # of a level of 0 prices bound nothing in parts of it
            continue
        slopes = table.toarray()[0] * (block.level / right[0])
        reduced = np.asarray(pairs.loads.T @ prices) - slopes
        # p'C + sum of what pairs of negative reduced cost could gain, less the level
        slack = float(prices @ program.usable_rows - block.level + np.maximum(-reduced, 0.0) @ most)
        reach = np.full(len(reduced), np.inf)
        np.divide(max(slack, 0.0), reduced, out=reach, where=reduced > 0)
        of_users = np.zeros(program.instance.n_users)
        np.maximum.at(of_users, pairs.user, reach)
        # never below a lower bound, nor so far that capacities are 1e10 units of a user
        narrowed = np.maximum(np.maximum(of_users, LEAST * program.size), program.low)
        program.units = np.where(of_users < ALMOST_NONE * program.units, narrowed, program.units)
