"""The gate: the only maker of certificates.

A certificate follows from the blocks, the instance as given, the final point and evidence, and from nothing else. A
method proposes a point (`Proposal`); `judge` brings it within capacities and limits, and measures it. A point that is
changed afterwards (topped up, or by a later tier) is judged again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairopt import lazy
from fairopt.allocation import Allocation, feasibility, holdings_violation
from fairopt.blocks.base import is_ours
from fairopt.blocks.bundle_model import cut_at_limits
from fairopt.blocks.constraints import EnvyFree
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Leximin, MaxMin, OrderedWeighted, Total
from fairopt.blocks.shares import Share
from fairopt.certificate import GAP_TOLERANCE, Certificate, Try, within_tolerance
from fairopt.formulation.bundle_program import BundleProgram
from fairopt.formulation.division import Division
from fairopt.formulation.program import ConeModel, Float, Program
from fairopt.formulation.whole import whole_instance
from fairopt.instance import Instance
from fairopt.proofs import conditions, cone_programs, levels, plane, servers, users
from fairopt.proofs.cone_programs import Bounded
from fairopt.proofs.envy import Pulled, pulled_gap
from fairopt.proofs.evidence import (
    Bottlenecked,
    CapacityPrices,
    Evidence,
    FairPrices,
    FewerRows,
    HeldLevels,
    Proposal,
    RowPrices,
    Solved,
    Tangents,
    TotalPrices,
    UserPrices,
    plain,
)
from fairopt.proofs.maximal import Placed, highest_level
from fairopt.proofs.pool import (
    ROUNDING,
    Bottlenecks,
    PoolProof,
    Sums,
    Worth,
    bottlenecks,
    first_full,
    owed,
    proof_on_pool,
    totals,
    worth,
)
from fairopt.proofs.psdsf import largest_gain, tasks_alone_on_one
from fairopt.proofs.servers import LevelUnits


@dataclass
class Answer:
    """A point as the gate leaves it, with its gap, violations and value (the objective in natural units).

    ``tasks`` has shape (n_pairs,), where bundles are decided or a problem was read (n_users, n_servers); ``bundles``
    has shape (n_users, n_servers, n_resources). ``prices`` (n_rows,) are by row of `Pairs.loads`, per whole capacity,
    in natural units of the objective: evidence, and not derivatives where optimal prices are not unique; where bundles
    are decided or a problem was read they have shape (n_servers, n_resources). The other fields are as in
    `Certificate`.
    """

    tasks: Float
    gap: float
    violation: float
    method: str
    value: float
    prices: Float | None = None
    block_violation: float = 0.0
    gaps: tuple[float, ...] = ()
    note: str = ""
    assumed: str = ""
    solver: str | None = None
    tried: tuple[Try, ...] = ()
    evidence: Evidence | None = None
    bundles: Float | None = None

    @property
    def ok(self) -> bool:
        """Whether the answer can be certified."""
        return within_tolerance(self.gap, self.violation, self.block_violation)

    def missing(self) -> tuple[bool, float]:
        """A key that is smaller for better answers: certified first, then by gap and violations."""
        return not self.ok, self.gap + self.violation + self.block_violation


def nothing(program: Program, method: str = "cone") -> Answer:
    """Zero tasks, of which nothing is proved."""
    tasks, bundles = program.zero_point()
    return Answer(tasks, np.inf, 0.0, method, np.nan, block_violation=np.inf, bundles=bundles)


def empty(program: Program) -> Answer:
    """The only allocation, and so the best, where no user takes part."""
    tasks, bundles = program.zero_point()
    prices = None if isinstance(program, BundleProgram) else np.zeros(program.pairs.loads.shape[0])
    return Answer(tasks, 0.0, 0.0, "empty", 0.0, prices, bundles=bundles)


def judge(program: Program, proposal: Proposal) -> Answer:
    """Make a proposed point feasible, and measure it; the gap is infinite where nothing is proved."""
    tasks, evidence = proposal.tasks, proposal.evidence
    found = evidence is not None and (tasks is not None or isinstance(evidence, Division))
    if not found:
        answer = nothing(program, proposal.method)
    else:
        with np.errstate(all="ignore"):  # zeros and infinities are checked where they matter; a NaN proves nothing
            answer = _judged(program, proposal)
            if not answer.gap <= GAP_TOLERANCE and not program.most.any():  # no tasks are possible
                answer.gap = 0.0
    answer.solver, answer.evidence, attempt = proposal.solver, evidence, proposal.attempt
    if attempt is not None:
        answer.tried = (replace(attempt, gap=answer.gap, violation=answer.violation) if found else attempt,)
    return answer


def _judged(program: Program, proposal: Proposal) -> Answer:
    """The measured point, by kind of evidence."""
    method, tasks, evidence = proposal.method, proposal.tasks, proposal.evidence
    if evidence is None or not _can_prove(program, evidence):
        return nothing(program, method)
    if isinstance(program, BundleProgram):
        return _judged_bundles(program, proposal)
    assert tasks is not None and not isinstance(evidence, Division)
    if isinstance(evidence, (Bottlenecked, FairPrices, TotalPrices)):
        return _on_one_pool(program, method, tasks, evidence)
    if isinstance(evidence, RowPrices):
        near = program.pairs.table(tasks)
        table = servers.repaired(evidence.units, near)
        tasks = table[program.pairs.user, program.pairs.server]
        if not isinstance(evidence.units, LevelUnits):
            return _measured(program, method, tasks, users.judge_row_prices(evidence, near, tasks))
        gap, prices = servers.judge_row_prices(evidence.units, evidence.prices, table)
        under = conditions.bounds_violation(program, tasks)
        return _measured(program, method, tasks, Bounded(gap, under, prices.T.ravel()))
    if isinstance(evidence, FewerRows):
        answer = _judged(evidence.program, replace(proposal, evidence=evidence.found))
        broken = [by.max(initial=0.0) for _, by in conditions.broken_rows(program, answer.tasks)]
        answer.block_violation = float(np.max([answer.block_violation, *broken]))
        return answer
    near, tasks = tasks, conditions.repair(program, tasks)
    if isinstance(evidence, UserPrices):
        return _measured(program, method, tasks, users.judge_user_prices(program, evidence, near, tasks))
    if isinstance(evidence, Pulled):
        short = [float(by.max(initial=0.0)) for _, by in conditions.broken_rows(program, tasks)]
        of_blocks = max(conditions.bounds_violation(program, tasks), *short)
        return _measured(program, method, tasks, Bounded(pulled_gap(evidence, tasks), of_blocks, evidence.prices))
    if isinstance(evidence, CapacityPrices):
        return _measured(program, method, tasks, cone_programs.judge_prices(program, evidence.prices, tasks))
    if isinstance(evidence, Solved):
        return _measured(program, method, tasks, cone_programs.judge_solved(program, evidence, tasks))
    if isinstance(evidence, Tangents):
        largest, least = (end and judge(*end) for end in (evidence.largest, evidence.smallest))
        assert largest is not None
        gap = plane.gap_of(program, evidence, tasks, largest, least)
        of_blocks = conditions.violation_at(program, tasks)
        assumed = _joined("; ", (end.assumed for end in (largest, least) if end))
        return _measured(program, method, tasks, Bounded(gap, of_blocks, None, assumed))
    gap, gaps, assumed = levels.judge_levels(program, evidence, tasks)
    if evidence.model is None:
        of_blocks = conditions.bounds_violation(program, tasks)
    else:
        of_blocks = conditions.block_violation(evidence.model, tasks)
    answer = _measured(program, method, tasks, Bounded(gap, of_blocks, evidence.prices, assumed))
    answer.gaps = gaps or (gap,)
    return answer


def _judged_bundles(program: BundleProgram, proposal: Proposal) -> Answer:
    """Bundles and tasks by server row: a division by its closed form's prices, others by the cone program's dual."""
    evidence, bundles, tasks, instance = proposal.evidence, proposal.bundles, proposal.tasks, program.instance
    if isinstance(evidence, Solved):
        assert bundles is not None and tasks is not None
        proved = cone_programs.judge_solved_bundles(evidence, bundles, tasks)
        return _measured(program, proposal.method, tasks, proved, bundles)
    assert isinstance(evidence, Division)
    factor = sum(c for c, _ in program.objective.terms())
    found = evidence.answer(None if bundles is None else bundles / instance.counts[:, None])
    bundles, tasks = program.on_rows(found.bundles), cut_at_limits(instance, program.on_rows(found.tasks))
    return Answer(
        tasks, found.gap, max(found.violation, feasibility(program.given, program.expand(tasks))), proposal.method,
        factor * found.value, factor * found.prices, found.part_violation, bundles=bundles,
    )  # fmt: skip


def _can_prove(program: Program, evidence: Evidence) -> bool:
    """Whether evidence belongs to this program, and is of a kind that applies to its objective."""
    objective, fair = program.objective, program.alpha_fair
    if isinstance(evidence, FewerRows):
        return evidence.program.loosens(program)
    if isinstance(evidence, Division):
        return isinstance(program, BundleProgram) and evidence is program.division
    if isinstance(evidence, Solved):
        return evidence.model.program is program and not isinstance(objective, Leximin)
    if isinstance(evidence, Pulled):
        fits = evidence.program is program and program.single and all(type(c) is EnvyFree for c in program.rest)
        return fits and bool(program.rest) and isinstance(objective, (Leximin, MaxMin))
    if isinstance(evidence, CapacityPrices):
        return evidence.program is program and not program.rest and isinstance(objective, OrderedWeighted)
    if isinstance(evidence, HeldLevels):
        of_model = not program.rest if evidence.model is None else evidence.model.program is program
        return of_model and isinstance(objective, Leximin)
    if isinstance(evidence, Tangents):
        return plane.belongs(program, evidence)
    if isinstance(evidence, RowPrices):
        of_level = isinstance(evidence.units, LevelUnits)
        known = fair is not None or isinstance(objective, MaxMin) if of_level else program.marginal is not None
        return evidence.units.program is program and not program.rest and known
    if isinstance(evidence, UserPrices):
        return evidence.program is program and program.single and not program.rest
    if evidence.pool.program is not program or not program.single:
        return False
    if program.rest and ConeModel(program).rest:  # blocks may have no conditions for a single user
        return False
    if isinstance(evidence, Bottlenecked):
        return isinstance(objective, (Leximin, MaxMin))
    if isinstance(evidence, FairPrices):
        return fair is not None and fair.alpha > 0
    return isinstance(fair or objective, Total) or (fair is not None and fair.alpha == 0)


def _measured(program: Program, method: str, tasks: Float, found: Bounded, bundles: Float | None = None) -> Answer:
    """A point with a proven gap, and its feasibility and value on the instance as given."""
    violation = feasibility(program.given, program.expand(tasks))
    if bundles is not None:
        violation = max(violation, holdings_violation(program.instance, bundles))
    gap = max(found.gap, 0.0) if found.gap == found.gap else np.inf
    value = program.objective.value(program.point(tasks, bundles))
    answer = Answer(tasks, gap, violation, method, value, found.prices, found.block_violation, assumed=found.assumed)
    answer.bundles = bundles
    return answer


def _on_one_pool(
    program: Program, method: str, tasks: Float, evidence: Bottlenecked | FairPrices | TotalPrices
) -> Answer:
    """Tasks, scaled by a factor that accounts for rounding, where needed, with what `pool` measures of them."""
    pool, level = evidence.pool, 1.0
    found: Bottlenecks | Worth | Sums
    if isinstance(evidence, Bottlenecked):
        prices = evidence.prices
        found = bottlenecks(pool, tasks, evidence.order, evidence.settle, exact=False)
    elif isinstance(evidence, FairPrices):
        fair, prices, level = program.alpha_fair, evidence.log_prices, evidence.level
        assert fair is not None
        found = worth(pool, tasks, prices, fair.alpha, level, evidence.settle)
    else:
        prices = np.maximum(evidence.prices, 0.0)
        found = totals(pool, tasks, prices, evidence.settle)
    evidence.settle = None  # the tasks are written now
    proof = proof_on_pool(program, pool.usable, pool.n, found, prices, level)
    if proof.factor < 1:
        tasks *= proof.factor
    found = proof.found
    if isinstance(evidence, Bottlenecked) and isinstance(found, Bottlenecks):
        traces = found.traces(pool.usable)
        if traces or not (found.full(pool.usable) and proof.gap <= ROUNDING):
            order = first_full(pool, tasks) if evidence.order is None else evidence.order
            found = bottlenecks(pool, tasks, order)
            debts = owed(pool, tasks, order, found.least) if found.traces(pool.usable) else None
            proof = proof._replace(gap=found.gap(pool.usable, debts), value=found.lowest)
    violation = found.feasible.violation
    if program.given.n_servers > 1:  # spread over servers that are alike
        violation = max(violation, feasibility(program.given, program.expand(tasks)))
    return Answer(tasks, proof.gap, violation, method, proof.value, proof.prices, found.feasible.short)


# -- certificates -----------------------------------------------------------------------------------------------


def allocation(
    policy: Any, judged: Sequence[tuple[Program, Answer]], begun: float, point: Float | None = None,
    bundles: Float | None = None,
) -> Allocation:  # fmt: skip
    """The allocation of a policy: the last answer, at which every tier is judged again.

    Each tier was judged when it was solved; later programs keep what earlier ones achieved. Given tasks (``point``) and
    bundles are returned unchanged where the answer has them but for rounding.
    """
    (first, started), (last, final) = judged[0], judged[-1]
    table = _keep_given(found := last.expand(final.tasks), point)
    held = None if final.bundles is None else _keep_given(last.expand_rows(final.bundles), bundles)
    gaps = [_gap_at_the_end(program, answer, table, held) for program, answer in judged[:-1]] + [final.gap]
    value = 0.0 if first.empty else started.value
    if (last is not first or (table is not found and not np.array_equal(table, found))) and not first.empty:
        value = first.objective.value(first.point(*_gathered(first, table, held)))
    prices = None if started.prices is None else first.expand_prices(started.prices)
    certificate = _certificate(
        begun, final, gap=float(np.max(gaps)),
        violation=final.violation if point is None else max(final.violation, feasibility(first.given, table)),
        tried=tuple(t for _, a in judged for t in a.tried), gaps=tuple(gaps) if len(judged) > 1 else final.gaps,
        note=final.note, assumed=_joined("; ", (a.assumed for _, a in judged)),
    )  # fmt: skip
    evidence = () if held is not None else tuple(_plain(*tier, is_last=tier is judged[-1]) for tier in judged)
    return Allocation(first.given, policy, table, certificate, value, prices, held, evidence=evidence)


def unfinished(
    policy: Any, program: Program, found: Answer | None, proposed: Proposal | None, begun: float
) -> Allocation:  # fmt: skip
    """The allocation of a call that was stopped: the best answer found, else the point that was being judged.

    Quick, so nothing is proved of it. Points of methods on one pool are written while they are judged, and not used.
    """
    if found is not None:
        return allocation(policy, [(program, replace(found, gap=np.inf, evidence=None))], begun)
    tried = () if proposed is None or proposed.attempt is None else (proposed.attempt,)
    tasks = None if proposed is None or proposed.bundles is not None else proposed.tasks
    if proposed is not None and tasks is not None and isinstance(proposed.evidence, (Solved, HeldLevels)):
        with np.errstate(all="ignore"):
            tasks = conditions.repair(program, tasks)
            answer = _measured(program, proposed.method, tasks, Bounded(np.inf, np.inf, None))
        answer.solver, answer.tried = proposed.solver, tried
        return allocation(policy, [(program, answer)], begun)
    given = program.given
    certificate = _certificate(
        begun, gap=np.inf, violation=0.0, block_violation=np.inf, method="none", tried=tried
    )  # fmt: skip
    return Allocation(given, policy, np.zeros((given.n_users, given.n_servers)), certificate, np.nan)


def _innermost(evidence: Evidence | None) -> Evidence | None:
    """Evidence without the programs of fewer conditions that it is of."""
    return _innermost(evidence.found) if isinstance(evidence, FewerRows) else evidence


def _plain(program: Program, answer: Answer, is_last: bool) -> dict[str, Any] | None:
    """Evidence for files; of an earlier tier with its own tasks, of which later tiers keep the value but for a part."""
    held = plain(answer.evidence)
    if held is None or is_last:
        return held
    return held | {"tasks": program.expand(answer.tasks).tolist()}


def _gathered(program: Program, table: Float, bundles: Float | None) -> tuple[Float, Float | None]:
    """Tasks and bundles of the instance as given, in the shapes of a program."""
    return program.gather(table), None if bundles is None else program.gather_rows(bundles)


def _keep_given(found: Float, point: Float | None) -> Float:
    """The given point, where bringing it within capacities changed only what rounding changes."""
    return found if point is None or not np.allclose(found, point, rtol=1e-12, atol=0.0) else point


def _gap_at_the_end(program: Program, answer: Answer, table: Float, bundles: Float | None) -> float:
    """The gap of an earlier tier at the final point."""
    if program.empty or answer.evidence is None:
        return answer.gap
    tasks, held = _gathered(program, table, bundles)
    if isinstance(_innermost(answer.evidence), (Bottlenecked, HeldLevels)):  # its gap, and how far levels fell since
        objective = program.objective
        before, after = (
            p.share(objective.share) if isinstance(objective, Leximin) else np.array([objective.value(p)])
            for p in (program.point(answer.tasks), program.point(tasks))
        )  # fmt: skip
        short = np.divide(before - after, before, out=np.zeros(len(before)), where=before > 0)
        return answer.gap + max(float(short.max(initial=0.0)), 0.0)
    return judge(program, Proposal(answer.method, tasks, answer.evidence, bundles=held)).gap


def whole(
    policy: Any, instance: Instance, judged: Sequence[tuple[Program, Answer]], placement: Float, begun: float, *,
    method: str, solver: str | None = None, tried: tuple[Try, ...] = (), note: str = "", unproved: str = "",
) -> Allocation:  # fmt: skip
    """The allocation of whole tasks by individual server, beside the divisible answer of a policy, tier by tier.

    The point is measured as it is, never repaired. Its gap is the largest part of the divisible optimum (of the first
    tier) that it loses: by what the divisible answer is worth, how much better than that any can be by its evidence,
    and what the whole tasks are worth. The divisible answer is of users of whom a whole task fits (`whole_instance`).
    ``unproved``, on better whole answers, enters the note unless they reach the divisible optimum, in all tiers.
    """
    first, _ = judged[0]
    if first.given != whole_instance(instance, first.objective, first.constraints):
        raise ValueError("the divisible answer is of another instance")
    table = instance.by_row(placement)
    each = instance.individual()
    violation = feasibility(each, placement)
    gaps, of_blocks, value = [0.0], 0.0, 0.0
    with np.errstate(all="ignore"):
        own = Program(instance, first.objective, first.constraints)
        if not own.empty:
            tasks = own.gather(table)
            linked = own.rest or not all(is_ours(t) for _, t in own.objective.terms())
            measure = conditions.bounds_violation
            of_blocks = conditions.block_violation(ConeModel(own), tasks) if linked else measure(own, tasks)
            of_blocks = max(of_blocks, feasibility(each, placement, own.usable))
        if not first.empty:
            value = first.objective.value(first.point(first.gather(table)))
            losses = [_lost(program, answer, table) for program, answer in judged]
            gaps = [float(losses[0].max())] if len(losses) > 1 else losses[0].tolist()
            gaps += [float(lost.max()) for lost in losses[1:]]
    certificate = _certificate(
        begun, gap=gaps[0] if len(judged) > 1 else max(gaps), violation=violation, block_violation=of_blocks,
        method=method, solver=solver, tried=tried, gaps=tuple(gaps) if len(gaps) > 1 else (),
        note=_joined("; ", (unproved if max(gaps) > GAP_TOLERANCE else "", note)),
        assumed=_joined("; ", (a.assumed for _, a in judged)),
        whole=bool((placement == np.rint(placement)).all()),
    )  # fmt: skip
    evidence = tuple(
        {**(plain(answer.evidence) or {"kind": "none"}), "divisible": answer.tasks.tolist()} for _, answer in judged
    )
    return Allocation(instance, policy, table, certificate, value, evidence=evidence, placement=placement)


def _lost(program: Program, answer: Answer, table: Float) -> Float:
    """The largest part of the divisible optimum of a tier that tasks lose, by level of a leximin; 1 at most."""
    best, point = program.point(answer.tasks), program.point(program.gather(table))
    objective = program.objective
    if isinstance(objective, Leximin):
        lost = objective.losses(best, answer.gap, point)
    else:
        lost = np.array([objective.loss(best, answer.gap, point)])
    return np.where(lost == lost, np.clip(lost, 0.0, 1.0), 1.0)


def of_problem(policy: Any, instance: Instance, found: Answer, begun: float) -> Allocation:
    """The allocation of a solved problem; see `Policy.read`."""
    certificate = _certificate(begun, found)
    return Allocation(instance, policy, found.tasks, certificate, found.value, found.prices, found.bundles)


def of_equilibrium(
    policy: Any, instance: Instance, tasks: Float, begun: float, *, gap: float | None = None
) -> Allocation:  # fmt: skip
    """The allocation of PS-DSF: its gap is the largest rise that any user could still make on any server.

    A ``gap`` given, where there is no time to measure it, takes its place. Its objective is the smallest virtual share
    per weight, relative to the tasks of each user alone on its best server.
    """
    method, value = "empty", 0.0
    part = instance.task_limits > 0
    if part.any():
        method, some = "per-server water-filling", instance if part.all() else instance.taking_part(part)
        value = float((tasks[part].sum(axis=1) / tasks_alone_on_one(some).max(axis=1) / some.weights).min())
    gap = largest_gain(instance, tasks).gain if gap is None else gap
    certificate = _certificate(begun, gap=gap, violation=feasibility(instance, tasks), method=method)
    return Allocation(instance, policy, tasks, certificate, value)


def of_steps(policy: Any, instance: Instance, placed: Placed, share: Share, begun: float) -> Allocation:
    """The allocation of whole tasks that were placed one by one: feasible, and no user's next task fits anywhere.

    Its objective is the smallest share per weight, and its gap the loss against a bound for divisible tasks.
    """
    part, value, gap = np.flatnonzero(instance.task_limits > 0), 0.0, 0.0
    tasks = instance.by_row(placed.placement)
    if len(part):
        some = instance if len(part) == instance.n_users else instance.taking_part(part)
        value = float(MaxMin(share).value(Point(some, tasks[part])))
        gap = max(1.0 - value / highest_level(some, share), 0.0)
    certificate = _certificate(
        begun, gap=gap, violation=placed.violation, block_violation=np.inf if len(placed.unsatisfied) else 0.0,
        method="one after the other" if len(part) else "empty", whole=True,
    )  # fmt: skip
    return Allocation(instance, policy, tasks, certificate, value, placement=placed.placement)


def of_parts(
    policy: Any, instance: Instance, tasks: Float, bundles: Float | None, value: float,
    parts: Sequence[Certificate | MeasuredPart], begun: float, tried: tuple[Try, ...] = (),
) -> Allocation:  # fmt: skip
    """The allocation that consists of certified parts: servers on their own."""
    certificate = _certificate(
        begun, gap=float(np.max([part.gap for part in parts], initial=0.0)),
        violation=_violation(instance, tasks, bundles),
        block_violation=float(np.max([part.block_violation for part in parts], initial=0.0)),
        method=f"per server, {_joined(', ', (part.method for part in parts))}" if parts else "empty",
        solver=_joined(", ", (part.solver for part in parts)) or None, tried=tried,
        assumed=_joined("; ", (part.assumed for part in parts)),
        whole=bool(parts) and all(getattr(p, "whole", False) for p in parts) and bool((tasks == np.rint(tasks)).all()),
    )  # fmt: skip
    return Allocation(instance, policy, tasks, certificate, value, given_bundles=bundles)


class MeasuredPart(NamedTuple):
    """The measures of one or several instances of a batch."""

    gap: float
    violation: float
    method: str
    solver: str | None = None
    block_violation: float = 0.0
    assumed: str = ""


def of_batch(policy: Any, instance: Instance, tasks: Float, found: MeasuredPart, seconds: float) -> Allocation:
    """The allocation of one instance of a batch."""
    table = tasks[:, None]
    value = float(policy.objective.value(Point(instance, table))) if instance.n_users else 0.0
    return Allocation(instance, policy, table, _certificate(time.perf_counter() - seconds, found), value)


def of_shards(proof: PoolProof, method: str, begun: float) -> Certificate:
    """The certificate of an answer whose users are in shards."""
    feasible = proof.found.feasible
    return _certificate(
        begun, gap=proof.gap, violation=feasible.violation, block_violation=feasible.short, method=method
    )


def of_nothing(instance: Instance, tasks: Float, policy: Any = None, **known: Any) -> Allocation:
    """An allocation of which nothing is proved but how feasible it is; known may be value, prices, bundles and note."""
    value, prices, bundles = known.get("value", float("nan")), known.get("prices"), known.get("bundles")
    measured = {"gap": np.inf, "violation": _violation(instance, tasks, bundles), "note": known.get("note", "")}
    certificate = _certificate(time.perf_counter(), method="given", **measured)
    return Allocation(instance, policy, tasks, certificate, value, prices, bundles)


def as_saved(allocation: Allocation, claim: Certificate) -> Allocation:
    """An allocation that was judged again, with the history and the note that its file records."""
    made = allocation.certificate
    history = replace(
        made, method=claim.method, solver=claim.solver, seconds=claim.seconds, tried=claim.tried,
        note=made.note or claim.note,
    )  # fmt: skip
    return replace(allocation, certificate=history)


def _violation(instance: Instance, tasks: Float, bundles: Float | None) -> float:
    """Largest relative excess over a capacity or a limit, of tasks and of bundles."""
    of_tasks = feasibility(instance, tasks)
    return of_tasks if bundles is None else max(of_tasks, holdings_violation(instance, bundles))


def _joined(separator: str, words: Iterable[str | None]) -> str:
    """Different words that are not empty, in order."""
    return separator.join(dict.fromkeys(word for word in words if word))


def _certificate(begun: float, found: Answer | MeasuredPart | None = None, **measured: Any) -> Certificate:
    """The certificate of measures taken since ``begun``."""
    names = () if found is None else ("gap", "violation", "block_violation", "method", "solver", "assumed")
    measured = {name: getattr(found, name) for name in names} | measured
    seconds = time.perf_counter() - begun - lazy.seconds_since(begun)  # imports belong to no answer
    return Certificate(seconds=seconds, **measured)
