"""Which way to go: the first route that says it is exact for this policy on this instance."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.base import ByUser
from fairopt.blocks.bundle_model import BundlePoint
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.levels import Kept, KeptLevel, KeptShares, KeptTasks
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import AlphaFair, Leximin, Objective, Tiers, Total
from fairopt.certificate import Certificate, Try
from fairopt.errors import InvalidBlock, NotCertified, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.routes import (
    bundles,
    certify,
    cone,
    leximin,
    newton,
    parametric,
    pool,
    server_leximin,
    server_prices,
    solvers,
)
from fairopt.routes.cone import Answer, Settings
from fairopt.routes.program import Program, is_ours, require_instance

Float = NDArray[np.floating[Any]]

# Routes that go before the general one, each where it is exact: its name, when, and how.
FAST = (
    ("water-filling", pool.fills, pool.by_waterfill),
    ("prices", pool.priced, pool.by_prices),
    ("prices", server_prices.applies, server_prices.solve),
    ("linear", pool.totalled, pool.by_totals),
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
TIER = 1e-7  # how much of an earlier tier's best a later one may give up (design.md section 4)


def allocate(
    policy: Any,
    instance: Instance,
    *,
    method: str = "auto",
    solver: str | None = None,
    solver_options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
    general: Callable[[Program, Settings], Answer] | None = None,
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
        allocation = _of_bundles(policy, instance, settings, method, begun)
    else:
        allocation = _of_tasks(policy, instance, settings, method, begun)
    if not allocation.certificate.ok:
        _refuse(allocation, settings)
    return allocation


def _of_tasks(policy: Any, instance: Instance, settings: Settings, method: str, begun: float) -> Allocation:
    """Policies that decide tasks: a bundle is tasks times demands."""
    tiers = policy.objective.tiers if isinstance(policy.objective, Tiers) else (policy.objective,)
    constraints: tuple[Constraint, ...] = tuple(policy.constraints)
    first: Program | None = None
    answers: list[Answer] = []
    for k, objective in enumerate(tiers):
        program = Program(instance, objective, constraints)
        program.refuse_hopeless()
        first = first or program
        with np.errstate(all="ignore"):  # zeros, infinities and NaN are looked at where they matter
            answer = _empty(program) if program.empty else _one(program, settings, method)
        answers.append(answer)
        if not answer.ok:
            break
        if k + 1 < len(tiers) and not program.empty:
            constraints += tuple(_kept(objective, program, answer))
    assert first is not None
    return _finished(policy, first, answers, time.perf_counter() - begun)


def _of_bundles(policy: Any, instance: Instance, settings: Settings, method: str, begun: float) -> Allocation:
    """Policies that decide what users hold, in which their tasks then have to fit."""
    if method not in ("auto", "cone", "closed"):
        raise OutOfDomain(f"{method} is {REACH[method]}; {policy.objective!r} decides bundles; use method='auto'")
    tiers = policy.objective.tiers if isinstance(policy.objective, Tiers) else (policy.objective,)
    programs: list[bundles.BundleProgram] = []
    answers: list[bundles.BundleAnswer] = []
    constraints: tuple[Constraint, ...] = tuple(policy.constraints)
    for objective in tiers:
        programs.append(bundles.BundleProgram(instance, objective, constraints))
        answers.append(bundles.solve(programs[-1], settings, method))
        if not answers[-1].ok or programs[-1].empty or len(answers) == len(tiers):
            break
        point = BundlePoint(programs[-1].instance, answers[-1].bundles, answers[-1].tasks)
        constraints += (KeptLevel(objective, objective.value(point) - TIER * objective.drop(point)),)
    return bundles.finished(policy, programs[0], answers, time.perf_counter() - begun)


def _one(program: Program, settings: Settings, method: str) -> Answer:
    tried: tuple[Try, ...] = ()
    if settings.solver is None and method != "cone":
        for name, applies, solve in FAST:
            if method in ("auto", name) and applies(program):
                answer = solve(program, settings)
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
        return leximin.solve(program, settings)
    solve = settings.general or cone.solve
    answer = solve(program, replace(settings, quick=True) if parametric.applies(program) else settings)
    if answer.ok:
        return _topped_up(program, answer, settings)
    if parametric.applies(program) and not settings.late:
        second = parametric.solve(program, settings)
    elif settings.solver is None and not settings.late and newton.applies(program):
        second = newton.solve(program, settings)
    else:
        return answer
    best = second if second.gap <= answer.gap else answer
    return replace(best, tried=answer.tried + second.tried)


def _topped_up(program: Program, answer: Answer, settings: Settings) -> Answer:
    """Hand out what a solver left: at large alpha the gap hardly sees the rich, so it may stop early.

    Every user keeps what it has, so an objective that grows with the shares loses nothing and its gap still holds.
    On one pool by water-filling; on several servers, or under other conditions, by a linear program where it matters.
    """
    objective = program.objective
    share = next(iter(objective.share_blocks()), None)
    if share is None or not all(is_ours(t) for _, t in objective.terms()):
        return answer
    tasks = answer.tasks
    if program.single and not program.rest:
        if not _fits_more(program, tasks):
            return answer
        above = pool.filled_up(program, share, tasks)
        more = None if above is None else certify.repair(program, above)
        blocks = answer.block_violation
    elif _steep(objective):
        users = program.instance.users
        held = program.pairs.sum(tasks) * (1 - 1e-12)
        kept = KeptTasks(ByUser(dict(zip(users, held.tolist(), strict=True))))
        second = cone.solve(Program(program.given, Total(share), (*program.constraints, kept)), settings)
        more, blocks = (second.tasks, second.block_violation) if second.ok else (None, 0.0)
    else:
        return answer
    if more is None:
        return answer
    return replace(answer, tasks=more, violation=certify.measured_violation(program, more), block_violation=blocks)


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


def _empty(program: Program) -> Answer:
    return Answer(np.zeros(0), 0.0, 0.0, "empty", np.zeros(program.pairs.loads.shape[0]))


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


def _finished(policy: Any, program: Program, answers: Sequence[Answer], seconds: float) -> Allocation:
    first, last = answers[0], answers[-1]
    gaps = tuple(a.gap for a in answers) if len(answers) > 1 else last.gaps
    certificate = Certificate(
        gap=max(a.gap for a in answers),
        violation=last.violation,
        method=last.method,
        solver=last.solver,
        seconds=seconds,
        block_violation=last.block_violation,
        tried=tuple(t for a in answers for t in a.tried),
        gaps=gaps,
        note=last.note,
    )
    table = program.expand(last.tasks)
    value = 0.0 if program.empty else answers[0].value
    if value is None or last is not first:
        value = program.objective.value(Point(program.instance, program.pairs.table(last.tasks)))
    prices = None if first.prices is None else program.expand_prices(first.prices)
    return Allocation(program.given, policy, table, certificate, value, prices)


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
