"""The gate: the only maker of certificates.

A certificate follows from the blocks, the instance as given, the final point and the evidence alone:

    violation        excess over capacities and limits, at most 1e-9      (Proposition 9.2 makes tasks fit)
    block_violation  excess over the policy's own constraints, at most 1e-7
    gap              (bound by the evidence - value) / unit, at most 1e-6 (Definition 9.3)

A method proposes a point (`Proposal`); `judge` makes it feasible and bounds its gap. A point that changes afterwards is
judged again, and so is each tier at the final point. Why one place, which reads no status: max-min over 10,000 users,
written plainly in CVXPY, came back from SCS as `optimal` with 1e-8 where the answer is 1.58e-4. That nothing else makes
or changes certificates is tested by reading the source (tests/proof/test_gate.py). See docs/methods/certificates.md.

Floats: gaps count rounding where they are computed, in `fairopt.proof` and its evidence. What is left to do here: a NaN
is an infinite gap, an answer that repair moved by rounding is returned as it was given, and a share that exists only by
the violation of a lower bound is none (`has_rounding_for_share`). Whole tasks are measured as they are, without repair.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, feasibility, holdings_violation
from fairopt.blocks.algebra import KeptLevel, Objective, tiers_of
from fairopt.blocks.guarantees import beyond_limits
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import MaxMin
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus
from fairopt.certificate import Certificate, Try, within_tolerance
from fairopt.errors import FairoptError, NotCertified
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.proof import feasibility as conditions
from fairopt.proof import or_zero
from fairopt.proof.entries import Named, priced
from fairopt.proof.pool_gaps import PoolProof
from fairopt.proof.proposal import Evidence, Measured, Proposal
from fairopt.proof.server_rises import largest_gain, tasks_alone_on_one
from fairopt.proof.whole_tasks import Placed, highest_level
from fairopt.runtime import lazy
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import label
from fairopt.runtime.tolerances import BLOCK_TOLERANCE, GAP_TOLERANCE, ROUNDING, TINY, VIOLATION_TOLERANCE
from fairopt.solve.form.bundle_program import BundleProgram, program_class
from fairopt.solve.form.no_whole_task import overfull, whole_instance
from fairopt.solve.form.or_zero import Choices
from fairopt.solve.form.program import Program

LITTLE = 1e-3  # of typical tasks: below, the unit of gaps vanishes as tasks do
BUNDLES = {"kind": "bundles"}  # the entry of evidence that follows from the instance
OPEN, BY_LEXIMIN = "is one of several", "the split is the leximin"  # how totals of teams are split, in notes
LEVEL_PAIRS = 1_000_000  # levels times pairs of users and servers that the checker takes: in fractions 15 seconds
TOO_LONG = f"levels times pairs of users and servers: `fairopt verify` takes up to {LEVEL_PAIRS:,}"
DIVIDED = "users are compared, and the weight of a team is divided among its members in proportion to theirs"


@dataclass
class JudgedPoint:
    """A point after the gate, with gap, violations and value (the objective in natural units).

    ``tasks`` has shape (n_pairs,), or (n_users, n_servers) for bundles and problems that were read; ``bundles`` has
    shape (n_users, n_servers, n_resources). ``prices`` (n_rows,) are by row of `Pairs.loads`, per whole capacity, in
    natural units of the objective; for bundles and problems that were read they have shape (n_servers, n_resources).
    They are evidence, and not derivatives if optimal prices are not unique. ``variables`` are the values of blocks'
    variables and ``multipliers`` those of blocks' constraints, by name. ``hidden`` is the rounding of users'
    expressions if that alone is too much for a certificate (`Objective.hidden`), as it then is for other solvers too.
    ``moved`` is how far earlier tiers may move a later one (`earlier_tiers`), once that was computed.
    The other fields are those of `Certificate`.
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
    variables: Mapping[str, Float] = field(default_factory=dict)
    multipliers: Mapping[str, Float] = field(default_factory=dict)
    hidden: float = 0.0
    moved: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the answer can be certified."""
        return within_tolerance(self.gap, self.violation, self.block_violation)

    def missing(self) -> tuple[bool, float]:
        """A sort key: certified answers first, then by gap and violations."""
        return not self.ok, self.gap + self.violation + self.block_violation


Tiers = Sequence[tuple[Program, JudgedPoint]]  # with the answer of each


def nothing(program: Program, method: str = "cone") -> JudgedPoint:
    """Zero tasks, with nothing proved."""
    tasks, bundles = program.zero_point()
    return JudgedPoint(tasks, np.inf, 0.0, method, np.nan, block_violation=np.inf, bundles=bundles)


def empty(program: Program) -> JudgedPoint:
    """The only allocation if no user takes part."""
    tasks, bundles = program.zero_point()
    prices = None if isinstance(program, BundleProgram) else np.zeros(program.pairs.loads.shape[0])
    return JudgedPoint(tasks, 0.0, 0.0, "empty", 0.0, prices, bundles=bundles)


def judge(program: Program, proposal: Proposal) -> JudgedPoint:
    """Make a proposed point feasible and bound its gap, which is infinite if nothing is proved."""
    evidence, attempt = proposal.evidence, proposal.attempt
    has_point = evidence is not None and (proposal.tasks is not None or evidence.has_point)
    if evidence is None or not has_point:
        answer = nothing(program, proposal.method)
    else:
        with np.errstate(all="ignore"):  # a NaN proves nothing
            if evidence.applies(program):
                measured = evidence.measured(program, proposal.tasks, proposal.bundles)
                answer = _answer(program, proposal.method, measured)
                # a finite logarithm of what a user holds by a violation of others' lower bounds only is minus infinity
                if conditions.has_rounding_for_share(program, answer.tasks, answer.violation + answer.block_violation):
                    answer.gap = np.inf
            else:
                answer = nothing(program, proposal.method)
            # no tasks are possible: the only point is optimal, also where the objective is minus infinity
            if not answer.gap <= GAP_TOLERANCE and not program.most.any():
                answer.gap = 0.0
    answer.solver, answer.evidence, answer.note = proposal.solver, evidence, proposal.note
    answer.tried = proposal.tried
    if attempt is not None:  # with what the gate measured, and not with what the solver said
        if attempt.status == "optimal" and not answer.gap <= GAP_TOLERANCE:
            answer.hidden = _hidden(program, answer)
        answer.tried = (replace(attempt, gap=answer.gap, violation=answer.violation) if has_point else attempt,)
    return answer


def _hidden(program: Program, answer: JudgedPoint) -> float:
    """What rounding hides of an objective at an answer with tasks, if it is too much; see `JudgedPoint`."""
    if not program.decides_tasks or program.objective.is_known:
        return 0.0
    if not (answer.tasks > LITTLE * program.size[program.pairs.user]).any():
        return 0.0
    return program.objective.hidden(program.point(answer.tasks, variables=answer.variables or None))


def _answer(program: Program, method: str, found: Measured) -> JudgedPoint:
    """A measured point with its feasibility and value on the instance as given."""
    tasks, bundles, violation, value = found.tasks, found.bundles, found.violation, found.value
    if violation is None:  # on the instance as given: merged servers have other sums
        violation = feasibility(program.given, program.expand(tasks))
        if bundles is not None:
            violation = max(violation, holdings_violation(program.instance, bundles))
    variables = found.variables
    if bundles is None and variables is None:
        variables = conditions.variables_at(program, tasks)
    if value is None:
        value = program.objective.stated(program.point(tasks, bundles, variables or None))
    return JudgedPoint(
        tasks,
        max(found.gap, 0.0) if found.gap == found.gap else np.inf,  # max would keep or drop a NaN, as it comes first
        violation,
        method,
        value,
        found.prices,
        found.block_violation,
        found.gaps,
        assumed=found.assumed,
        bundles=bundles,
        variables=variables or {},
        multipliers=found.multipliers,
    )


# -- certificates -----------------------------------------------------------------------------------------------


def allocation(
    policy: Any,
    judged: Tiers,
    begun: float,
    point: Float | None = None,
    bundles: Float | None = None,
    kept: Sequence[Any] | None = None,
) -> Allocation:
    """The allocation of a policy: the last tier's answer, at which every tier is judged again.

    A given ``point`` and ``bundles`` are returned unchanged if the answer differs from them by rounding only. ``kept``
    are entries of the evidence that are known.
    """
    (first, started), (last, final) = judged[0], judged[-1]
    table = _keep_given(expanded := last.expand(final.tasks), point)
    held = None if final.bundles is None else _keep_given(last.expand_rows(final.bundles), bundles)
    gaps = [_gap_at_the_end(program, answer, table, held) for program, answer in judged[:-1]] + [final.gap]
    of_nobody = first.empty or first.nobody_rises  # of no shares the smallest would be infinite
    value = 0.0 if of_nobody else started.value
    if (last is not first or (table is not expanded and not np.array_equal(table, expanded))) and not of_nobody:
        value = first.objective.stated(first.point(*_gathered(first, table, held), final.variables or None))
    prices = None if started.prices is None else first.expand_prices(started.prices)
    # what `fairopt verify` would refuse to check is said when the answer is made, and not when somebody checks it
    size = max(len(answer.gaps) for _, answer in judged)
    if size:  # of levels on several servers
        size *= int(first.given.eligible[first.given.task_limits > 0].sum())
    evidence = (BUNDLES,) if held is not None else _written(policy, judged, table) if kept is None else tuple(kept)
    certificate = _certificate(
        begun,
        final,
        gap=float(max(gaps, key=lambda gap: (gap != gap, gap))),  # a NaN if there is one, which is within no tolerance
        violation=final.violation if point is None else max(final.violation, feasibility(first.given, table)),
        tried=tuple(t for _, a in judged for t in a.tried),
        gaps=tuple(gaps) if len(judged) > 1 else final.gaps,
        note=_joined(
            "; ",
            (
                final.note,
                DIVIDED if _divides_weights_of_teams(program for program, _ in judged) else "",
                f"{size:,} {TOO_LONG}" if size > LEVEL_PAIRS else "",
            ),
        ),
        assumed=_joined("; ", (*(a.assumed for _, a in judged), *_given_earlier(policy, judged, evidence))),
    )
    return Allocation(
        first.given,
        policy,
        table,
        certificate,
        value,
        prices,
        held,
        evidence=evidence,
        variables=final.variables,
        multipliers=started.multipliers,
    )


def exact(
    answer: Allocation,
    tiers: Tiers,
    tasks: NDArray[np.object_],
    proof: Mapping[str, Any],
    value: float | None,
    note: str,
    begun: float,
) -> Allocation:
    """The answer at tasks that were proved optimal in fractions, judged a second time in floats.

    ``answer`` is that in floats, with its ``tiers`` if it is certified. `NotCertified` if the tasks, rounded, are
    infeasible or outside the interval that its evidence proves, or if ``value`` is not their objective. Later tiers are
    not compared: in floats they may lower earlier ones by a tolerance.
    """
    before = answer.certificate
    # the tries and the solver stay: floats found the point from which fractions went on
    certificate = replace(
        before,
        gap=0.0,
        violation=0.0,
        block_violation=0.0,
        method="exact",
        seconds=time.perf_counter() - begun,
        gaps=(0.0,) * len(before.gaps),
        note=note,
        assumed="",
    )
    floats = np.array(tasks, dtype=float).reshape(answer.tasks_by_server.shape)
    bundles = next((entry["bundles"] for entry in proof["proof"] if "bundles" in entry), None)
    if bundles is not None:
        bundles = np.array([[[float(Fraction(a)) for a in row] for row in of_user] for of_user in bundles])
        bundles = bundles.reshape(answer.bundles.shape)
    made = replace(
        answer,
        tasks_by_server=floats,
        certificate=certificate,
        objective=answer.objective if value is None else value,
        given_bundles=bundles,
        exact_tasks=tasks,
        exact_proof=proof,
    )
    with np.errstate(all="ignore"):
        differs = _difference(made, answer, tiers, value)
    if differs:
        both = f"its objective is {made.objective:.12g}; in floats {answer.objective:.12g}, with gap {before.gap:.2g}"
        raise NotCertified(f"the exact answer of {label(answer.policy)} {differs}. {both}", best=answer)
    return made


def _difference(made: Allocation, answer: Allocation, tiers: Tiers, value: float | None) -> str:
    """How an exact answer differs from its tasks and evidence in floats; empty if it does not."""
    policy, instance, table, held = made.policy, made.instance, made.tasks_by_server, made.given_bundles
    violation, objective = _violation(instance, table, held), getattr(policy, "objective", None)
    # exact answers are of the decimals as written; in the floats that these are read as, loads differ by a rounding
    reading = max(float(np.finfo(a.dtype).eps) for a in (instance.demands, instance.capacities))
    if not violation <= max(VIOLATION_TOLERANCE, 2 * reading):
        return f"exceeds a capacity or a limit by {violation:.2g} of it"
    if objective is None:  # hierarchical DRF: exact tasks at the levels that floats found
        entry = answer.evidence[0] if answer.evidence and answer.certificate.ok else None
        if entry is None:
            return ""
        filled = of_filling(policy, instance, instance.derived.sum_by_class(table), entry, time.perf_counter())
        return _apart(made, answer, filled.certificate.gap)
    program = tiers[0][0] if tiers else program_class(objective)(instance, tiers_of(objective)[0], policy.constraints)
    if program.empty:
        return ""
    # of the first tier: later ones are in fractions given the earlier ones exactly, and in floats less a tolerance
    first, (tasks, bundles) = tiers[0][1] if tiers else None, _gathered(program, table, held)
    if held is not None:
        if first is None or first.evidence is None:
            return ""
        again = judge(program, Proposal(first.method, tasks, first.evidence, bundles=bundles))
        violation, gap = again.block_violation, again.gap
    else:
        violation = conditions.violation_at(program, tasks)
        gap = 0.0
        if first is not None and first.ok and first.evidence is not None:
            # prices bound the objective at any tasks, levels only those of their own
            by_level = program.term.is_order and first.evidence.by_level
            gap = _fall(program, first.tasks, tasks) if by_level else _gap_at_the_end(program, first, table, None)
        point = program.point(tasks)
        stated = 0.0 if program.nobody_rises else program.objective.stated(point)
        unit = max(abs(stated), program.objective.drop(point)) if value is not None else np.inf
        if value is not None and not abs(stated - value) <= GAP_TOLERANCE * unit and stated == stated:
            return f"states another objective than its tasks have, {stated:.12g}"
    if not violation <= BLOCK_TOLERANCE:
        return f"violates a constraint by {violation:.2g}"
    return "" if program.nobody_rises else _apart(made, answer, gap)


def _fall(program: Program, before: Float, after: Float) -> float:
    """The largest relative fall of a level of leximin where no lower one rises beyond rounding, which may take any part
    of higher ones.
    """
    share, points = program.term.share, (program.point(before), program.point(after))
    had, has = (point.share(share) / point.weights_of(share) for point in points)
    rises = np.min(had[has > had * (1 + ROUNDING)], initial=np.inf)
    fall = np.divide(had - has, had, out=np.zeros(len(had)), where=had > 0)
    return float(fall[had <= rises * (1 + GAP_TOLERANCE)].max(initial=0.0))


def _apart(made: Allocation, answer: Allocation, gap: float) -> str:
    """What is wrong with an exact answer whose gap, by the evidence of the answer in floats, is ``gap``."""
    if not answer.certificate.ok or gap <= answer.certificate.gap + GAP_TOLERANCE:  # the interval that floats prove
        return ""
    apart = np.abs(made.tasks - answer.tasks)
    j = int(np.argmax(apart / np.maximum(made.tasks + answer.tasks, TINY)))
    return (
        f"is {gap:.2g} from the optimum by the evidence in floats: user {made.instance.users[j]!r} has "
        f"{made.tasks[j]:.12g} tasks, and {answer.tasks[j]:.12g} in floats"
    )


def _divides_weights_of_teams(tiers: Iterable[Program]) -> bool:
    """Whether shares of users are compared by weights that are parts of those of their teams, and not teams before."""
    for program in tiers:
        for term in program.objective.terms():
            if program.given.team_weights and term.share and term.kind.levels_users:
                return not term.share._counts_teams
    return False


def unfinished(
    policy: Any, program: Program, found: JudgedPoint | None, proposed: Proposal | None, begun: float
) -> Allocation:
    """The allocation of a call that was stopped, without proof: the best answer found, or the point being judged."""
    if found is not None:
        return allocation(policy, [(program, replace(found, gap=np.inf, evidence=None))], begun)
    tried = () if proposed is None or proposed.attempt is None else (proposed.attempt,)
    tasks = None if proposed is None or proposed.bundles is not None else proposed.tasks
    if proposed is not None and tasks is not None and proposed.evidence is not None:
        with np.errstate(all="ignore"):  # feasible as far as repair makes it so, and nothing is proved
            answer = _answer(program, proposed.method, Measured(conditions.repair(program, tasks), np.inf, np.inf))
        answer.solver, answer.tried = proposed.solver, tried
        return allocation(policy, [(program, answer)], begun)
    given = program.given
    certificate = _certificate(begun, gap=np.inf, violation=0.0, block_violation=np.inf, method="none", tried=tried)
    return Allocation(given, policy, np.zeros((given.n_users, given.n_servers)), certificate, np.nan)


def _given_earlier(policy: Any, judged: Tiers, evidence: Sequence[Mapping[str, Any] | None]) -> Iterator[str]:
    """What is assumed of tiers that earlier ones, within what they may give up, move by more than a gap."""
    moved_by_earlier = lazy.later("fairopt.proof.evidence.earlier_tiers:moved_by_earlier")
    for k, ((program, answer), entry) in enumerate(zip(judged, evidence, strict=False)):
        if k and answer.ok and not program.empty and entry and "kind" in entry:
            found = answer.tasks, answer.evidence, entry, answer.solver
            if answer.moved is None:
                answer.moved = moved_by_earlier(program, tiers_of(policy.objective)[k], *found, policy.constraints)
            if not answer.moved <= GAP_TOLERANCE:  # a NaN is not known
                part = f"{answer.moved:.0e}" if answer.moved < np.inf else "any part"
                best = f"tier {k + 1} is the best given the earlier ones as returned"
                yield f"{best}, whose tolerances may move it by {part} of its bound"


@np.errstate(all="ignore")
def _written(policy: Any, judged: Tiers, table: Float) -> tuple[dict[str, Any] | None, ...]:
    """The entries of evidence by tier; those of earlier tiers with their own tasks, and the level that later ones keep.

    ``table`` are the final tasks, which prices prove; levels prove the tasks of their tier.
    """
    names, out = Named(getattr(policy, "constraints", ())), list[dict[str, Any] | None]()
    tiers = tiers_of(policy.objective) if hasattr(policy, "objective") else [program.objective for program, _ in judged]
    for (program, answer), later, tier in zip(judged, [*judged[1:], None], tiers, strict=False):
        # prices bound any tasks, so that those of earlier tiers prove the final point; levels are of their own tasks
        own = later is None or program.term.is_smallest
        entry = entry_of(program, answer.evidence, answer.tasks if own else program.gather(table), names, tier)
        if entry is not None and later is not None:
            kept = [c for c in later[0].constraints if type(c) is KeptLevel and c not in program.constraints]
            entry |= {"tasks": program.expand(answer.tasks).tolist()} | ({"level": kept[0].level} if kept else {})
        out.append(entry)
    return tuple(out)


def entry_of(
    program: Program, evidence: Evidence | None, tasks: Float, names: Named, objective: Objective
) -> dict[str, Any] | None:
    """The entry in files of evidence of an objective as given, for tasks by pair; None without evidence."""
    if program.empty:
        return {"kind": "empty"}
    if evidence is None:
        return None
    try:
        return evidence.entry(program, tasks, names) | _of_bases(program, objective, tasks, names)
    except (ValueError, FairoptError) as error:  # an answer is saved all the same, with what is missing
        return {"why": str(error)}


def _of_bases(program: Program, objective: Objective, tasks: Float, names: Named) -> dict[str, Any]:
    """What proves that users and teams stay at the bases of an objective's surpluses, by share.

    For those that are at their base at the tasks and could rise, tasks at which all who can are above it.
    """
    out, rising = dict[str, Any](), dict[str, Any]()
    for term in objective.terms():
        share = term.share
        if not isinstance(share, Surplus) or not term.kind.levels_users:
            continue
        from fairopt.solve.form.rising import at_base, names_at_base, who_stays

        staying = who_stays(program, share)
        if staying is not None and (staying.rises & at_base(program, share, tasks)).any():
            rising[repr(share)] = program.expand(conditions.repair(program, staying.raised)).tolist()
        if staying is not None and not staying.rises.all() and names_at_base(program, share):  # else nobody has left
            labels = share._names(program.instance)
            paid = {labels[t]: float(staying.of_numbers[t]) for t in np.flatnonzero(staying.of_numbers).tolist()}
            charged = priced(program, staying.prices) | names.multipliers(program, staying.further)
            out[repr(share)] = {"of_numbers": paid, **charged}
    return ({"at_base": out} if out else {}) | ({"rising": rising} if rising else {})


def _gathered(program: Program, table: Float, bundles: Float | None) -> tuple[Float, Float | None]:
    """Tasks and bundles of the instance as given, in a program's shapes."""
    return program.gather(table), None if bundles is None else program.gather_rows(bundles)


def _keep_given(found: Float, point: Float | None) -> Float:
    """The given point, if repair changed it by rounding only."""
    # so that what is loaded, or certified again, keeps its bits, though it was merged, repaired and spread since
    return found if point is None or not np.allclose(found, point, rtol=1e-12, atol=0.0) else point


def _gap_at_the_end(program: Program, answer: JudgedPoint, table: Float, bundles: Float | None) -> float:
    """The gap of an earlier tier at the final point."""
    if program.empty or answer.evidence is None:
        return answer.gap
    tasks, held = _gathered(program, table, bundles)
    if answer.evidence.by_level:  # its gap, plus the fall of levels since
        term = program.term
        before, after = (
            p.share(term.share) if term.is_order else np.array([term.value(p)])
            for p in (program.point(answer.tasks), program.point(tasks))
        )
        short = np.divide(before - after, before, out=np.zeros(len(before)), where=before > 0)
        return answer.gap + max(float(short.max(initial=0.0)), 0.0)
    return judge(program, Proposal(answer.method, tasks, answer.evidence, bundles=held)).gap


def whole(
    policy: Any,
    instance: Instance,
    judged: Tiers,
    placement: Float,
    begun: float,
    *,
    method: str,
    solver: str | None = None,
    tried: tuple[Try, ...] = (),
    note: str = "",
    unproved: str = "",
    kept: Sequence[Any] | None = None,
) -> Allocation:
    """The allocation of whole tasks by individual server, with the divisible answer of each tier.

    The point is measured as it is, without repair. Its gap is the largest part of the first tier's divisible optimum
    that it loses, by the value and gap of the divisible answer. That answer is for the users of whom a whole task fits
    (`whole_instance`). ``unproved``, a remark on better whole answers, enters the note unless the divisible optimum is
    reached in all tiers. ``kept`` is the entry of the divisible answer's evidence, if it is known.
    """
    first, _ = judged[0]
    # users of whom no whole task fits have left the divisible program, or its optimum would be compared with theirs
    if first.given != whole_instance(instance, first.objective, first.constraints):
        raise ValueError("the divisible answer is of another instance")
    table = instance.derived.by_row(placement)
    each = instance.individual()
    violation = _violation_of_whole(each, placement, feasibility(each, placement))
    gaps, of_blocks, value = [0.0], 0.0, 0.0
    with np.errstate(all="ignore"):
        own, variables = Program(instance, first.objective, first.constraints), dict[str, Float]()
        if not own.empty:
            tasks = own.gather(table)
            of_blocks = max(conditions.violation_at(own, tasks), feasibility(each, placement, own.usable))
            variables = conditions.variables_at(own, tasks)
        if not first.empty:
            value = 0.0 if first.nobody_rises else first.objective.stated(first.point(first.gather(table)))
            # of leximin by level: whole tasks may lose much of a low level and little of the sum
            losses = [_lost(program, answer, table) for program, answer in judged]
            gaps = [float(losses[0].max())] if len(losses) > 1 else losses[0].tolist()
            gaps += [float(lost.max()) for lost in losses[1:]]
    certificate = _certificate(
        begun,
        gap=gaps[0] if len(judged) > 1 else max(gaps),
        violation=violation,
        block_violation=of_blocks,
        method=method,
        solver=solver,
        tried=tried,
        gaps=tuple(gaps) if len(gaps) > 1 else (),
        note=_joined("; ", (unproved if max(gaps) > GAP_TOLERANCE else "", note)),
        assumed=_joined("; ", (a.assumed for _, a in judged)),
        whole=bool((placement == np.rint(placement)).all()),
    )
    names, (_, answer) = Named(policy.constraints), judged[0]
    if kept is None:
        with np.errstate(all="ignore"):
            entry = entry_of(first, answer.evidence, answer.tasks, names, tiers_of(policy.objective)[0])
        kept = [{**(entry or {"why": "there is no evidence"}), "divisible": first.expand(answer.tasks).tolist()}]
    return Allocation(
        instance, policy, table, certificate, value, evidence=tuple(kept), placement=placement, variables=variables
    )


def _violation_of_whole(each: Instance, placement: Float, violation: float) -> float:
    """The violation of whole tasks on individual servers: infinite within tolerance if not all tasks fit."""
    # tasks that use 100 units more than 1e12 are within 1e-9, and do not fit
    return np.inf if violation <= VIOLATION_TOLERANCE and overfull(each, placement) else violation


def _lost(program: Program, answer: JudgedPoint, table: Float) -> Float:
    """The part of a tier's divisible optimum that tasks lose, by level for leximin; at most 1."""
    best, point = program.point(answer.tasks), program.point(program.gather(table))
    lost = program.objective.losses(best, answer.gap, point)
    return np.where(lost == lost, np.clip(lost, 0.0, 1.0), 1.0)


def of_branches(
    policy: Any, choices: Choices, root: or_zero.Node, table: Float, begun: float, **known: Any
) -> Allocation:
    """The allocation of tasks that are 0 or at least so many, with what a tree of branch and bound proves of it.

    The point is measured as it is, without repair: what it runs at all is at least the bound of it. ``known`` are the
    note, the solver and what was tried.
    """
    program = choices.program((choices.amounts(table) > 0).astype(np.intp))
    tasks = program.gather(table)
    with np.errstate(all="ignore"):
        value = 0.0 if program.empty else program.objective.stated(program.point(tasks))
        certificate = _certificate(
            begun,
            gap=0.0 if program.empty else or_zero.losses(choices, root, table),
            violation=feasibility(choices.instance, table),
            block_violation=0.0 if program.empty else conditions.violation_at(program, tasks),
            method="empty" if program.empty else "branch and bound",
            **known,
        )
    entry = {"kind": "branches", "tree": [node.split for node in or_zero.nodes(root)]}
    return Allocation(choices.instance, policy, table, certificate, value, evidence=(entry,))


def of_problem(policy: Any, instance: Instance, found: JudgedPoint, begun: float) -> Allocation:
    """The allocation of a solved problem; see `Policy.certify`."""
    certificate = _certificate(begun, found)
    return Allocation(
        instance,
        policy,
        found.tasks,
        certificate,
        found.value,
        found.prices,
        found.bundles,
        variables=found.variables,
    )


def of_equilibrium(
    policy: Any, instance: Instance, tasks: Float, begun: float, *, gap: float | None = None
) -> Allocation:
    """The allocation of PS-DSF; its gap is the largest rise that any user could still make on any server.

    Its objective is the smallest virtual share per weight, relative to each user's tasks alone on its best server.
    """
    method, value = "empty", 0.0
    part = instance.task_limits > 0
    if part.any():  # users with a limit of 0 take no part, and have no level
        method, some = "per-server water-filling", instance if part.all() else taking_part(instance, part)
        value = float((tasks[part].sum(axis=1) / tasks_alone_on_one(some).max(axis=1) / some.weights).min())
    gap = largest_gain(instance, tasks).gain if gap is None else gap
    certificate = _certificate(begun, gap=gap, violation=feasibility(instance, tasks), method=method)
    return Allocation(instance, policy, tasks, certificate, value)


def of_filling(policy: Any, instance: Instance, tasks: Float, entry: dict[str, Any], begun: float) -> Allocation:
    """The allocation of hierarchical DRF; its gap is the largest relative distance of a user's tasks from those at the
    levels of its filling, or of a level from its definition.

    ``tasks`` are by user and class of servers, and ``entry`` is for these. The objective is the smallest dominant share
    per weight of the children of the root.
    """
    from fairopt.proof import filling_states as hierarchy

    merged, value, note = instance.merged(), 0.0, ""  # evidence is of classes of servers, as the filling saw them
    gap, short, method = np.inf, 0.0, "hierarchical filling"  # an error below leaves the gap infinite
    if not (instance.task_limits > 0).any():
        gap, method = 0.0, "empty"
    else:
        try:
            gap, short, note, value = hierarchy.confirm(merged, policy, entry, tasks)
        except hierarchy._Unconfirmed as error:
            note = str(error)
        # an entry of a file may hold anything; what it makes of the confirmation is no fault of ours
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            note = f"its evidence is malformed: {error!r}"
    spread = instance.derived.spread(tasks)
    short = max(short, beyond_limits(merged, tasks))
    certificate = _certificate(
        begun, gap=gap, violation=feasibility(instance, spread), block_violation=short, method=method, note=note
    )
    return Allocation(instance, policy, spread, certificate, value, evidence=(entry,))


def of_steps(policy: Any, instance: Instance, placed: Placed, share: Share, begun: float) -> Allocation:
    """The allocation of whole tasks placed one by one: feasible, and no user's next task fits anywhere.

    Its objective is the smallest share per weight; its gap is the loss against a bound for divisible tasks.
    """
    # a gap is a measure here and no proof of an optimum: nothing is maximised
    part, value, gap = np.flatnonzero(instance.task_limits > 0), 0.0, 0.0
    tasks = instance.derived.by_row(placed.placement)
    if len(part):
        some = instance if len(part) == instance.n_users else taking_part(instance, part)
        value = float(MaxMin(share).value(Point(some, tasks[part])))
        gap = max(1.0 - value / highest_level(some, share), 0.0)
    certificate = _certificate(
        begun,
        gap=gap,
        violation=_violation_of_whole(instance.individual(), placed.placement, placed.violation),
        block_violation=np.inf if len(placed.unsatisfied) else 0.0,
        method="one after the other" if len(part) else "empty",
        whole=True,
    )
    return Allocation(instance, policy, tasks, certificate, value, placement=placed.placement)


def of_parts(
    policy: Any,
    instance: Instance,
    tasks: Float,
    bundles: Float | None,
    value: float,
    parts: Sequence[Certificate | MeasuredPart],
    begun: float,
    tried: tuple[Try, ...] = (),
) -> Allocation:
    """The allocation made of certified parts: separate servers."""
    certificate = _certificate(
        begun,
        gap=float(np.max([part.gap for part in parts], initial=0.0)),
        violation=_violation(instance, tasks, bundles),
        block_violation=float(np.max([part.block_violation for part in parts], initial=0.0)),
        method=f"per server, {_joined(', ', (part.method for part in parts))}" if parts else "empty",
        solver=_joined(", ", (part.solver for part in parts)) or None,
        tried=tried,
        assumed=_joined("; ", (part.assumed for part in parts)),
        whole=bool(parts) and all(getattr(p, "whole", False) for p in parts) and bool((tasks == np.rint(tasks)).all()),
    )
    return Allocation(instance, policy, tasks, certificate, value, given_bundles=bundles)


class MeasuredPart(NamedTuple):
    """The measures of one or more instances of a batch."""

    gap: float
    violation: float
    method: str
    solver: str | None = None
    block_violation: float = 0.0
    assumed: str = ""


def of_batch(
    policy: Any, instance: Instance, tasks: Float, found: MeasuredPart, seconds: float, evidence: tuple[Any, ...] = ()
) -> Allocation:
    """The allocation of one instance of a batch, with its evidence for files."""
    table = tasks[:, None]
    value = float(policy.objective.value(Point(instance, table))) if instance.n_users else 0.0
    certificate = _certificate(time.perf_counter() - seconds, found)
    return Allocation(instance, policy, table, certificate, value, evidence=evidence)


def of_shards(proof: PoolProof, method: str, begun: float) -> Certificate:
    """The certificate of an answer whose users are in shards."""
    feasible = proof.found.feasible
    return _certificate(
        begun, gap=proof.gap, violation=feasible.violation, block_violation=feasible.below_bound, method=method
    )


def of_nothing(instance: Instance, tasks: Float, policy: Any = None, **known: Any) -> Allocation:
    """An allocation without proof, with its feasibility; ``known`` may hold value, prices, bundles, variables and
    multipliers, and of the certificate the method, the note, what was tried and the violation of blocks.
    """
    value, prices, bundles = known.get("value", float("nan")), known.get("prices"), known.get("bundles")
    measured = {name: known[name] for name in ("note", "tried", "block_violation") if name in known}
    violation, method = _violation(instance, tasks, bundles), known.get("method", "given")
    certificate = _certificate(time.perf_counter(), gap=np.inf, violation=violation, method=method, **measured)
    of_blocks = {name: known.get(name, {}) for name in ("variables", "multipliers")}
    return Allocation(instance, policy, tasks, certificate, value, prices, bundles, **of_blocks)


def as_saved(allocation: Allocation, claim: Certificate) -> Allocation:
    """An allocation that was judged again, with the history and the note of its file."""
    made = allocation.certificate
    history = replace(
        made,
        method=claim.method,
        solver=claim.solver,
        seconds=claim.seconds,
        tried=claim.tried,
        note=made.note or claim.note,
    )
    return replace(allocation, certificate=history)


def _violation(instance: Instance, tasks: Float, bundles: Float | None) -> float:
    """The largest relative excess of tasks and bundles over a capacity or a limit."""
    of_tasks = feasibility(instance, tasks)
    return of_tasks if bundles is None else max(of_tasks, holdings_violation(instance, bundles))


def _joined(separator: str, words: Iterable[str | None]) -> str:
    """Distinct nonempty words, in order."""
    return separator.join(dict.fromkeys(word for word in words if word))


def _certificate(begun: float, found: JudgedPoint | MeasuredPart | None = None, **measured: Any) -> Certificate:
    """The certificate of measures, with the seconds since ``begun``."""
    names = () if found is None else ("gap", "violation", "block_violation", "method", "solver", "assumed")
    measured = {name: getattr(found, name) for name in names} | measured
    seconds = time.perf_counter() - begun - lazy.seconds_since(begun)  # imports belong to no answer
    return Certificate(seconds=seconds, **measured)
