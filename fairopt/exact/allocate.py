"""`Policy.allocate(..., exact=True)`: the answer in floats, solved again in fractions, proved, and judged twice.

    floats -> gate -> linear programs in fractions -> multipliers -> proof in fractions -> gate

The floats give prices and evidence, and an answer to return if the time ends; half of the time limit is theirs. The
optimum in fractions does not start from them, since tiers in floats leave later ones a tolerance. Why it is judged a
second time in floats: program and proof in fractions read the policy by the same code, so that a constraint that it
lost would be missing in both; the float evidence comes from the blocks by another way. `NotCertified` if the two
contradict each other (docs/exact.md, *How it is proved*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import Objective, tiers_of
from fairopt.blocks.base import blocks_within, is_ours
from fairopt.blocks.built_in import in_built_in
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.errors import Infeasible, NotCertified, OutOfDomain, Unbounded
from fairopt.exact import bundles, modelling
from fairopt.exact.cluster import Cluster, ExactNumbers, Table, text
from fairopt.exact.linear import _NoPoint, _Unlimited
from fairopt.exact.proof import _NotProved, broken, prove
from fairopt.exact.rationals import Rational, as_float, as_fraction, rational, read, written
from fairopt.exact.tiers import BOUNDS, Tier, at_base, kept_row, share_of, tiers, why_irrational
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.proof.gate import BY_LEXIMIN, OPEN, Tiers
from fairopt.runtime.clock import Clock, begin
from fairopt.runtime.display import label
from fairopt.runtime.progress import tell

DECIMALS = "numbers read as the shortest decimals that print them"
FRACTIONS = "numbers read as the Fractions given, others as the shortest decimals that print them"
WIDE = Fraction(1, 10)  # relative width of an interval
Floats = tuple[Allocation, Tiers]  # the answer in floats, and its tiers as they were judged
# Exact tasks, their proof, the value of the objective or of the first level (None if irrational), and notes.
Solved = tuple[Table, dict[str, Any], Rational | None, list[str]]


def allocate(
    policy: Any,
    instance: Instance,
    solve_in_floats: Callable[..., Floats],
    *,
    time_limit: float | None = None,
    **options: Any,
) -> Allocation:
    """The exact answer of a policy, which ``solve_in_floats`` solves before; see `Policy.allocate`."""
    clock = begin(time_limit)
    refuse_irrational(policy, instance)

    def in_floats() -> Floats:
        limit = None if clock.left is None else clock.left / 2  # the other half is for fractions
        try:
            return solve_in_floats(policy, instance, time_limit=limit, **options)
        except NotCertified as error:
            if policy.objective.of_bundles:
                raise
            return _nothing(policy, instance, tried=error.tried)

    return made_exact(in_floats, policy, instance, clock, solve)


def allocate_in_fractions(policy: Any, instance: Instance, clock: Clock) -> Allocation:
    """The exact answer of a policy, which is not solved in floats before; it has no prices and no evidence in floats.

    Tiers in floats leave later ones a tolerance, which may move these by much more.
    """
    refuse_irrational(policy, instance)
    return made_exact(lambda: _nothing(policy, instance), policy, instance, clock, solve)


def _nothing(policy: Any, instance: Instance, **known: Any) -> Floats:
    """No answer in floats: the programs in rationals start from HiGHS' own bases."""
    return gate.of_nothing(instance, np.zeros((instance.n_users, instance.n_servers)), policy, **known), ()


def made_exact(
    in_floats: Callable[[], Floats], policy: Any, instance: Instance, clock: Clock, solve: Callable[..., Solved]
) -> Allocation:
    """An answer in floats, with its tiers, made exact by ``solve(cluster, policy, clock)``."""
    best: list[Allocation] = []  # the answer in floats, for the error at the time limit

    def work() -> Allocation:
        cluster = Cluster(instance)
        answer, judged = in_floats()
        best.append(answer)
        return _exact(answer, judged, lambda: solve(cluster, policy, clock), clock)

    return clock.run(work, lambda: clock.refuse(best[0] if best and best[0].certificate.ok else None))


def refuse_irrational(policy: Any, instance: Instance) -> None:
    """`OutOfDomain` for objectives and shares whose optimum is not rational, or that are code."""
    known = in_built_in(policy)
    for part in blocks_within((known.objective, known.constraints)):
        why = None
        if isinstance(part, Share):
            why = _inexact(part, instance)
        elif isinstance(part, (Objective, Constraint)) and not is_ours(part):
            why = f"the numbers of {type(part).__name__} are computed by code, in floats"
        elif isinstance(part, Objective):
            why = next(why_irrational(part), None)
        if why:
            raise OutOfDomain(f"{label(policy)} has no exact answer: {why}")
    if bundles.decides_bundles(policy):
        with explained(policy, instance):
            bundles.require_division(policy)


@contextmanager
def explained(policy: Any, instance: Instance, what: str = "exact answer") -> Iterator[None]:
    """Say of which policy and instance there is no such answer."""
    try:
        yield
    except OutOfDomain as error:
        raise OutOfDomain(f"{label(policy)} has no {what}: {error}") from error
    except _NoPoint as error:
        of = "" if what == "exact answer" else f"{what} of "
        raise Infeasible(f"{of}{label(policy)} on {instance!r}: {_NoPoint.why}") from error
    except _Unlimited as error:
        raise Unbounded(f"{label(policy)} on {instance!r}: in rational numbers the objective has no maximum") from error


def _inexact(share: Share, instance: Instance) -> str | None:
    """Why a share has no exact coefficients; None if it has."""
    if not share._is_plain or not (instance.task_limits > 0).any():
        return None
    try:
        share.enclosed(instance)
    except OutOfDomain as error:
        try:
            share.enclosed(instance, WIDE)
        except OutOfDomain:  # not in intervals either
            return str(error)
        return f"{error}; {BOUNDS}"
    return None


def _exact(answer: Allocation, judged: Tiers, solve: Callable[[], Solved], clock: Clock) -> Allocation:
    """An answer in floats made exact."""
    policy, instance = answer.policy, answer.instance
    try:
        with explained(policy, instance):
            tasks, proof, value, split = solve()
            tell("the exact proof")
            _prove_again(policy, instance, tasks, proof["proof"])
    except _NotProved as error:
        raise NotCertified(f"the exact answer of {label(policy)} was not proved: {error}", best=answer) from error
    given = given_fractions(instance)
    entry = {"tasks": [[written(x) for x in row] for row in tasks], **proof} | ({"read": given} if given else {})
    notes = [
        note for note in answer.certificate.note.split("; ") if note and OPEN not in note and BY_LEXIMIN not in note
    ]
    note = "; ".join([*notes, *split, reading_of(policy, instance)])
    stated = None if value is None else as_float(value)
    return gate.exact(answer, judged, as_array(tasks, instance), entry, stated, note, clock.begun)


def prove_again(policy: Any, instance: Instance, tasks: Table, proof: Any) -> None:
    """Prove exact tasks from the blocks, the instance and their proof; `NotCertified` if they are not optimal."""
    try:
        _prove_again(policy, instance, tasks, proof)
    except _NotProved as error:
        raise NotCertified(f"the exact answer of {label(policy)} was not proved: {error}") from error


def _prove_again(policy: Any, instance: Instance, tasks: Table, proof: Any) -> None:
    again = Cluster(instance)  # nothing that the programs changed (bounds, floors, who stays) is believed
    if not hasattr(policy, "objective"):  # the gate confirms the filling in floats, `fairopt verify` in fractions
        if faults := broken(again, tasks, []):
            raise _NotProved(faults[0])
        return
    policy = in_built_in(policy)
    modelling.floors(again, of_surpluses(policy))
    prove(again, policy, tasks, proof)


def of_surpluses(policy: Any) -> list[Share]:
    """The shares of users of which objectives compare what teams have above a base."""
    shares = [part.share for part in blocks_within(policy.objective) if isinstance(part, Surplus)]
    return list(dict.fromkeys(share.share for share in shares if isinstance(share, OfTeam)))


def reading_of(policy: Any, instance: Instance) -> str:
    """How the numbers of a policy and an instance are read."""
    return FRACTIONS if instance.in_fractions.given_as_fractions or "Fraction(" in repr(policy) else DECIMALS


def given_fractions(instance: Instance) -> dict[str, dict[str, str]]:
    """What floats of an instance are read as where it is not the shortest decimal: by argument, and by their repr."""
    exact = instance.in_fractions
    return {
        name: {repr(key): written(exact.number(name, key)) for key in of}
        for name, of in instance.derived.exact_numbers().items()
    }


def as_array(table: Table, instance: Instance) -> NDArray[np.object_]:
    """A table as an array of Python's fractions."""
    out = np.empty((instance.n_users, instance.n_servers), dtype=object)
    for j, row in enumerate(table):
        out[j] = list(map(as_fraction, row))
    return out


def solve(cluster: Cluster, policy: Any, clock: Clock, record: Callable[..., None] | None = None) -> Solved:
    """The exact answer of a policy.

    ``record`` is a `modelling.Record` with what the program is for in front, and ``of_answer=False`` where the
    answer's tasks need not be optimal: of what guarantees are worth, and who can rise above a base.
    """
    if bundles.decides_bundles(policy):
        best = bundles.optimal_bundles(cluster, policy)
        listed = [[[written(a) for a in row] for row in of_user] for of_user in best]
        return bundles.tasks_in(cluster, best), {"proof": [{"bundles": listed}]}, None, []
    policy = in_built_in(policy)
    bases: list[dict[str, Any]] = []
    risen: dict[str, Table] = {}  # tasks at which all who can are above the base of a surplus
    proofs: list[dict[str, Any]] = []
    made: dict[str, Any] = {"proof": proofs}
    if cluster.instance.team_guarantees:
        made["floors"] = modelling.floors(cluster, of_surpluses(policy), clock, record)

    def noted(what: str, **more: bool) -> modelling.Record | None:
        return None if record is None else partial(record, what, **more)

    def settle(k: int, share: Share, tier: Tier) -> set[str]:
        name, compared = text(share), tier.compared or {}
        note = noted(f"who can rise above the base of {share}", of_answer=False)
        risen[name], levels, stay = modelling.leximin(
            cluster, compared, tier.rows, tier.kept, clock, until=rational(0), record=note
        )
        bases.extend({} for _ in range(len(bases), k + 1))
        bases[k] |= {name: levels} if stay else {}
        return stay

    value, tier = None, None
    objectives, by_tier = tiers_of(policy.objective), list[Table]()
    for k, tier in enumerate(tiers(cluster, policy, settle, lambda: by_tier[-1])):
        entry: dict[str, Any]
        if tier.compared is None:
            tasks, entry = modelling.optimum(cluster, tier, clock, noted(str(objectives[k])))
            entry |= {"rising": rising} if (rising := _rising(cluster, objectives[k], tasks, risen)) else {}
        else:
            note = noted(str(objectives[k]))
            tasks, levels, _ = modelling.leximin(cluster, tier.compared, tier.rows, tier.kept, clock, record=note)
            entry = {"levels": levels}
        by_tier.append(tasks)
        proofs.append(entry | ({"at_base": bases[k]} if k < len(bases) and bases[k] else {}))
        if value is None:
            value = tier.value(tasks)
    assert tier is not None
    tasks, notes = _split_inside_teams(cluster, tier, objectives[-1], by_tier[-1], clock)
    return tasks, made, value, notes


def _rising(
    cluster: Cluster, objective: Objective, tasks: Table, risen: dict[str, Table]
) -> dict[str, list[list[Any]]]:
    """Tasks that prove that numbers at their base could rise, by surplus."""
    return {
        name: [[j, s, written(x)] for j, row in enumerate(risen[name]) for s, x in enumerate(row) if x]
        for name in at_base(cluster, objective, tasks)
    }


def _split_inside_teams(
    cluster: Cluster, tier: Tier, objective: Objective, tasks: Table, clock: Clock
) -> tuple[Table, list[str]]:
    """Split the totals of teams, which an objective of teams alone leaves open, by leximin of the members' shares."""
    shares = {share_of(term) for _, term in objective.summands()}
    teams = {share.share if isinstance(share, Surplus) else share for share in shares}
    if len(teams) != 1 or not isinstance(team := next(iter(teams)), OfTeam):
        return tasks, []
    totals, of_users = ExactNumbers(cluster, team), ExactNumbers(cluster, team.share).exactly(True)
    if len({*totals.of_user.values()}) == len(cluster.active):
        return tasks, []
    by = team.by
    if not all(all(one.row.values()) for one in of_users.values()):
        return tasks, [f"the split of totals inside each {by} {OPEN}"]
    rows = tier.rows + [kept_row(one, one.at(tasks)) for one in totals.exactly(False).values()]
    tasks, _, _ = modelling.leximin(cluster, of_users, rows, tier.kept, clock)
    return tasks, [f"inside each {by} {BY_LEXIMIN} of the members' {team.share!r} given the totals"]


def read_tasks(instance: Instance, rows: Any) -> Table:
    """The exact tasks of a file; `ValueError` for others."""
    tasks = [[read(x) for x in row] for row in rows]
    if len(tasks) != instance.n_users or any(len(row) != instance.n_servers for row in tasks):
        raise ValueError("its exact tasks have another shape")
    return tasks
