"""The gate: the only maker of certificates.

A certificate follows from the blocks, the instance as given, the final point and evidence, and from nothing else. A
method hands over a `Proposal`; `judge` brings its point within capacities and limits, and measures it. What changes a
point afterwards (topping up, a later tier) comes here again with the new point.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, feasibility, holdings_violation
from fairopt.blocks.bundle_model import cut_at_limits
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Leximin, MaxMin, Total
from fairopt.certificate import GAP_TOLERANCE, Certificate, Try, within_tolerance
from fairopt.formulation.bundle_program import BundleProgram
from fairopt.formulation.division import Division
from fairopt.formulation.program import ConeModel, Program
from fairopt.instance import Instance
from fairopt.proofs import conditions, cone_programs, levels, servers
from fairopt.proofs.bundles import judge_solved_bundles
from fairopt.proofs.evidence import (
    Bottlenecked,
    Evidence,
    FairPrices,
    HeldLevels,
    Proposal,
    RowPrices,
    Solved,
    TotalPrices,
)
from fairopt.proofs.evidence_data import plain
from fairopt.proofs.pool import Bottlenecks, PoolProof, Sums, Worth, bottlenecks, proof_on_pool, totals, worth
from fairopt.proofs.psdsf import largest_gain, tasks_alone_on_one

if TYPE_CHECKING:
    from fairopt.proofs.read import ReadAnswer

Float = NDArray[np.floating[Any]]


@dataclass
class Answer:
    """A point as the gate leaves it, and what it measured.

    Attributes
    ----------
    tasks : ndarray of shape (n_pairs,)
        The final point; where bundles are decided, of shape (n_users, n_servers).
    bundles : ndarray of shape (n_users, n_servers, n_resources) or None
        Where they are decided.
    gap, violation, block_violation, gaps, note, assumed
        As in `Certificate`.
    method : str
        Of the proposal.
    value : float
        The objective in natural units.
    prices : ndarray of shape (n_rows,) or None
        By row of `Pairs.loads`, per whole capacity, in natural units of the objective: evidence, and no derivative
        where optimal prices are not unique. Where bundles are decided, of shape (n_servers, n_resources), per unit.
    tried : tuple of Try
        What led here.
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
        """Whether it can be certified."""
        return within_tolerance(self.gap, self.violation, self.block_violation)


def nothing(program: Program, method: str = "cone") -> Answer:
    """No point at all: zero tasks, of which nothing is proved."""
    tasks, bundles = program.zero_point()
    return Answer(tasks, np.inf, 0.0, method, np.nan, block_violation=np.inf, bundles=bundles)


def empty(program: Program) -> Answer:
    """Where no user takes part there is one allocation, and it is the best."""
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
        with np.errstate(all="ignore"):  # zeros and infinities are looked at where they matter, and a NaN is no proof
            answer = _judged(program, proposal)
            if not answer.gap <= GAP_TOLERANCE and not program.most.any():  # nothing is all that there can be
                answer.gap = 0.0
    answer.solver, answer.evidence, attempt = proposal.solver, evidence, proposal.attempt
    if attempt is not None:
        answer.tried = (replace(attempt, gap=answer.gap, violation=answer.violation) if found else attempt,)
    return answer


def _judged(program: Program, proposal: Proposal) -> Answer:
    """By kind of evidence, each of which proves objectives of some kinds."""
    method, tasks, evidence = proposal.method, proposal.tasks, proposal.evidence
    if evidence is None or not _can_prove(program, evidence):
        return nothing(program, method)
    if isinstance(program, BundleProgram):
        return _judged_bundles(program, proposal)
    assert tasks is not None and not isinstance(evidence, Division)
    if isinstance(evidence, (Bottlenecked, FairPrices, TotalPrices)):
        return _on_one_pool(program, method, tasks, evidence)
    if isinstance(evidence, RowPrices):
        table = servers.repaired(evidence.units, program.pairs.table(tasks))
        tasks = table[program.pairs.user, program.pairs.server]
        gap, prices = servers.judge_row_prices(evidence, table)
        return _measured(program, method, tasks, gap, prices.T.ravel())
    tasks = conditions.repair(program, tasks)
    if isinstance(evidence, HeldLevels):
        gap, gaps = levels.judge_levels(program, evidence, tasks)
        blocks = (
            conditions.bounds_violation(program, tasks) if evidence.model is None
            else conditions.block_violation(evidence.model, tasks)
        )  # fmt: skip
        answer = _measured(program, method, tasks, gap, evidence.prices)
        answer.block_violation, answer.gaps = blocks, gaps or (gap,)
        return answer
    found = cone_programs.judge_solved(program, evidence, tasks)
    answer = _measured(program, method, tasks, found.gap, found.prices)
    answer.block_violation, answer.assumed = found.block_violation, found.assumed
    return answer


def _judged_bundles(program: BundleProgram, proposal: Proposal) -> Answer:
    """Bundles and tasks by server row: of a division by the closed form's prices, else by the cone program's dual."""
    evidence, bundles, tasks, instance = proposal.evidence, proposal.bundles, proposal.tasks, program.instance
    if isinstance(evidence, Division):
        factor = sum(c for c, _ in program.objective.terms())
        found = evidence.answer(None if bundles is None else bundles / instance.counts[:, None])
        bundles, tasks = program.on_rows(found.bundles), cut_at_limits(instance, program.on_rows(found.tasks))
        answer = Answer(
            tasks, found.gap, found.violation, proposal.method, factor * found.value, factor * found.prices,
            found.part_violation, bundles=bundles,
        )  # fmt: skip
    else:
        assert isinstance(evidence, Solved) and bundles is not None and tasks is not None
        proved = judge_solved_bundles(evidence, bundles, tasks)
        value = program.objective.value(program.point(tasks, bundles))
        answer = Answer(
            tasks, max(proved.gap, 0.0) if np.isfinite(proved.gap) else np.inf, holdings_violation(instance, bundles),
            proposal.method, value, proved.prices, proved.block_violation, assumed=proved.assumed, bundles=bundles,
        )  # fmt: skip
    answer.violation = max(answer.violation, feasibility(program.given, program.expand(tasks)))
    return answer


def _can_prove(program: Program, evidence: Evidence) -> bool:
    """Whether evidence is about this program, and of a kind that can prove it."""
    objective, fair = program.objective, program.alpha_fair
    if isinstance(evidence, Division):
        return isinstance(program, BundleProgram) and evidence is program.division
    if isinstance(evidence, Solved):
        return evidence.model.program is program and not isinstance(objective, Leximin)
    if isinstance(evidence, HeldLevels):
        of_model = not program.rest if evidence.model is None else evidence.model.program is program
        return of_model and isinstance(objective, Leximin)
    if isinstance(evidence, RowPrices):
        free = not program.rest and not (program.low > 0).any()
        return evidence.units.program is program and free and (fair is not None or isinstance(objective, MaxMin))
    if evidence.pool.program is not program or not program.single:
        return False
    if program.rest and ConeModel(program).rest:  # blocks may have nothing to say of a single user
        return False
    if isinstance(evidence, Bottlenecked):
        return isinstance(objective, (Leximin, MaxMin))
    if isinstance(evidence, FairPrices):
        return fair is not None and fair.alpha > 0
    return isinstance(fair or objective, Total) or (fair is not None and fair.alpha == 0)


def _measured(program: Program, method: str, tasks: Float, gap: float, prices: Float | None) -> Answer:
    """A point with a gap: feasibility and value on the instance as given."""
    violation = feasibility(program.given, program.expand(tasks))
    value = program.objective.value(program.point(tasks))
    gap = max(gap, 0.0) if gap == gap else np.inf
    return Answer(tasks, gap, violation, method, value, prices)


def _on_one_pool(
    program: Program, method: str, tasks: Float, evidence: Bottlenecked | FairPrices | TotalPrices
) -> Answer:
    """Tasks that are scaled, if need be, by a factor that rounding calls for; proofs know what that does to them."""
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
    evidence.settle = None  # the tasks are there now
    proof = proof_on_pool(program, pool.usable, pool.n, found, prices, level)
    if proof.factor < 1:
        tasks *= proof.factor
    found = proof.found
    if isinstance(evidence, Bottlenecked) and isinstance(found, Bottlenecks) and not found.full(pool.usable):
        found = bottlenecks(pool, tasks, evidence.order)
        proof = proof._replace(gap=found.gap(pool.usable), value=found.lowest)
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

    Tiers were judged as far as they were solved; later programs keep what earlier ones achieved. Tasks (``point``) and
    bundles that were given are returned as they are where the answer has them but for rounding.
    """
    (first, started), (last, final) = judged[0], judged[-1]
    table = _keep_given(last.expand(final.tasks), point)
    held = None if final.bundles is None else _keep_given(last.expand_rows(final.bundles), bundles)
    gaps = [_gap_at_the_end(program, answer, table, held) for program, answer in judged[:-1]] + [final.gap]
    value = 0.0 if first.empty else started.value
    if last is not first and not first.empty:
        value = first.objective.value(first.point(*_gathered(first, table, held)))
    prices = None if started.prices is None else first.expand_prices(started.prices)
    certificate = _certificate(
        begun, gap=float(np.max(gaps)),
        violation=final.violation if point is None else max(final.violation, feasibility(first.given, table)),
        block_violation=final.block_violation, method=final.method, solver=final.solver,
        tried=tuple(t for _, a in judged for t in a.tried), gaps=tuple(gaps) if len(judged) > 1 else final.gaps,
        note=final.note, assumed="; ".join(dict.fromkeys(a.assumed for _, a in judged if a.assumed)),
    )  # fmt: skip
    evidence = () if held is not None else tuple(plain(answer.evidence) for _, answer in judged)
    return Allocation(first.given, policy, table, certificate, value, prices, held, evidence=evidence)


def _gathered(program: Program, table: Float, bundles: Float | None) -> tuple[Float, Float | None]:
    """Tasks and bundles of the instance as given, as a program has them."""
    return program.gather(table), None if bundles is None else program.gather_rows(bundles)


def _keep_given(found: Float, point: Float | None) -> Float:
    """A point as it was given, where bringing it within capacities did no more than rounding does."""
    return found if point is None or not np.allclose(found, point, rtol=1e-12, atol=0.0) else point


def _gap_at_the_end(program: Program, answer: Answer, table: Float, bundles: Float | None) -> float:
    """The gap of an earlier tier at the point that the last one left."""
    if program.empty or answer.evidence is None:
        return answer.gap
    tasks, held = _gathered(program, table, bundles)
    if isinstance(answer.evidence, (Bottlenecked, HeldLevels)):  # levels as they were certified, less what was given up
        objective = program.objective
        before, after = (
            p.share(objective.share) if isinstance(objective, Leximin) else np.array([objective.value(p)])
            for p in (program.point(answer.tasks), program.point(tasks))
        )  # fmt: skip
        short = np.divide(before - after, before, out=np.zeros(len(before)), where=before > 0)
        return answer.gap + max(float(short.max(initial=0.0)), 0.0)
    return judge(program, Proposal(answer.method, tasks, answer.evidence, bundles=held)).gap


def of_problem(policy: Any, instance: Instance, found: ReadAnswer, solver: str | None, begun: float) -> Allocation:
    """The allocation that a solved problem holds; see `Policy.read`."""
    certificate = _certificate(
        begun, gap=found.gap, violation=found.violation, block_violation=found.block_violation, method="read",
        solver=solver, assumed=found.assumed,
    )  # fmt: skip
    return Allocation(instance, policy, found.tasks, certificate, found.value, found.prices, found.bundles)


def of_equilibrium(policy: Any, instance: Instance, tasks: Float, begun: float) -> Allocation:
    """The allocation of PS-DSF: its gap is the largest gain that any user could still make on any server.

    Its objective is the smallest virtual share per weight, of what each user could run on its best server alone.
    """
    method, value = "empty", 0.0
    part = instance.task_limits > 0
    if part.any():
        method, some = "per-server water-filling", instance if part.all() else instance.taking_part(part)
        value = float((tasks[part].sum(axis=1) / tasks_alone_on_one(some).max(axis=1) / some.weights).min())
    gap = largest_gain(instance, tasks).gain
    certificate = _certificate(begun, gap=gap, violation=feasibility(instance, tasks), method=method)
    return Allocation(instance, policy, tasks, certificate, value)


def of_parts(
    policy: Any, instance: Instance, tasks: Float, bundles: Float | None, value: float,
    parts: Sequence[Certificate | MeasuredPart], begun: float, tried: tuple[Try, ...] = (),
) -> Allocation:  # fmt: skip
    """The allocation that puts together what was certified of its parts: servers on their own."""
    solvers = dict.fromkeys(part.solver for part in parts if part.solver)
    methods = ", ".join(dict.fromkeys(part.method for part in parts))
    violation = feasibility(instance, tasks)
    if bundles is not None:
        violation = max(violation, holdings_violation(instance, bundles))
    certificate = _certificate(
        begun, gap=float(np.max([part.gap for part in parts], initial=0.0)), violation=violation,
        block_violation=float(np.max([part.block_violation for part in parts], initial=0.0)),
        method=f"per server, {methods}" if parts else "empty", solver=", ".join(solvers) or None, tried=tried,
        assumed="; ".join(dict.fromkeys(part.assumed for part in parts if part.assumed)),
    )  # fmt: skip
    return Allocation(instance, policy, tasks, certificate, value, given_bundles=bundles)


class MeasuredPart(NamedTuple):
    """What was measured of one or several instances of a batch."""

    gap: float
    violation: float
    method: str
    solver: str | None = None
    block_violation: float = 0.0
    assumed: str = ""


def of_batch(policy: Any, instance: Instance, tasks: Float, found: MeasuredPart, seconds: float) -> Allocation:
    """The allocation of one instance of a batch, from what was measured of it."""
    table = tasks[:, None]
    value = float(policy.objective.value(Point(instance, table))) if instance.n_users else 0.0
    certificate = _certificate(
        time.perf_counter() - seconds, gap=found.gap, violation=found.violation, method=found.method,
        solver=found.solver, block_violation=found.block_violation, assumed=found.assumed,
    )  # fmt: skip
    return Allocation(instance, policy, table, certificate, value)


def of_shards(proof: PoolProof, method: str, begun: float) -> Certificate:
    """The certificate of an answer whose users are in shards."""
    feasible = proof.found.feasible
    return _certificate(
        begun, gap=proof.gap, violation=feasible.violation, block_violation=feasible.short, method=method
    )


def of_nothing(instance: Instance, tasks: Float, policy: Any = None, **known: Any) -> Allocation:
    """An allocation that nothing is proved of but how feasible it is."""
    bundles, note = known.get("bundles"), known.get("note", "")
    violation = feasibility(instance, tasks)
    if bundles is not None:
        violation = max(violation, holdings_violation(instance, bundles))
    certificate = _certificate(time.perf_counter(), gap=np.inf, violation=violation, method="given", note=note)
    value = known.get("value", float("nan"))
    return Allocation(instance, policy, tasks, certificate, value, known.get("prices"), bundles)


def as_saved(
    allocation: Allocation, method: str, solver: str | None, seconds: float, tried: tuple[Try, ...]
) -> Allocation:
    """An allocation that was judged again, with what its file tells of how it came about."""
    history = replace(allocation.certificate, method=method, solver=solver, seconds=seconds, tried=tried)
    return replace(allocation, certificate=history)


def _certificate(begun: float, **measured: Any) -> Certificate:
    """A certificate of what was measured, made since ``begun``."""
    return Certificate(seconds=time.perf_counter() - begun, **measured)
