"""`Policy.allocate` with ``exact=True``: the answer in floats, then its optimum in rationals, proved in rationals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.display import label
from fairopt.errors import Infeasible, NotCertified, OutOfDomain, Unbounded
from fairopt.exact import mechanisms, modelling
from fairopt.exact.flint import required
from fairopt.exact.linear import _NoPoint, _Unlimited
from fairopt.exact.reading import Exactly, exactly, given_fractions
from fairopt.instance import Instance
from fairopt.methods import dispatch
from fairopt.methods.numbers.split import BY_LEXIMIN, OPEN
from fairopt.proofs import gate, rational
from fairopt.runtime.clock import Clock, begin
from fairopt.runtime.progress import tell

__all__ = ["allocate", "made_exact"]

BOUNDS = "without exact=True, answer.exact_bounds() encloses its optimal value"
RATIONAL_NORMS = (0, 1, float("inf"))


def allocate(policy: Any, instance: Instance, *, time_limit: float | None = None, **options: Any) -> Allocation:
    """The exact answer of a policy; see `Policy.allocate`."""
    required()
    clock = begin(time_limit)
    refuse_irrational(policy)

    def in_floats() -> Allocation:
        limit = None if clock.left is None else clock.left / 2
        try:
            return dispatch.allocate(policy, instance, time_limit=limit, **options)
        except NotCertified as error:
            if policy.objective.of_bundles:
                raise
            # the programs in rationals start from HiGHS' own bases
            nothing = np.zeros((instance.n_users, instance.n_servers))
            return gate.of_nothing(instance, nothing, policy, tried=error.tried)

    return made_exact(in_floats, policy, instance, clock)


def made_exact(solve: Callable[[], Allocation], policy: Any, instance: Instance, clock: Clock) -> Allocation:
    """The answer that ``solve`` gives in floats, made exact."""
    required()
    best: list[Allocation] = []  # the answer in floats, for the error at the time limit

    def work() -> Allocation:
        read = exactly(policy, instance)
        best.append(solve())
        return solved(read, best[0], clock)

    return clock.run(work, lambda: clock.refuse(best[0] if best and best[0].certificate.ok else None))


def refuse_irrational(policy: Any) -> None:
    """`OutOfDomain` for objectives and shares whose optimum is not rational, or that are code."""
    try:
        block = rational.block(repr(policy), exactly=True)
        if rational.decides_bundles(block):
            rational.require_division(block.given["objective"], block.given.get("constraints", []))
    except rational.CannotCheck as error:
        raise OutOfDomain(f"{label(policy)} has no exact answer: {error}") from error
    for part in _blocks(block):
        given = part.given
        why = ""
        if part.name not in (*rational.PARAMETERS, "Sum", "Tiers", "AtLeast"):
            why = f"the numbers of {part.name} are computed by code, in floats"
        elif part.name == "AlphaFair" and given.get("alpha", 1) != 0:
            curves = "logarithms" if given.get("alpha", 1) == 1 else "powers"
            why = f"{part.text} is a sum of {curves}, whose optimum is not rational in general; {BOUNDS}"
        elif part.name == "FairnessEfficiency" and given["beta"] != 1:
            why = f"{part.text} has powers and logarithms, whose optimum is not rational in general; {BOUNDS}"
        elif part.name == "PNormShare" and given["p"] not in RATIONAL_NORMS:
            why = f"{part.text} has roots as coefficients; {BOUNDS}"
        if why:
            raise OutOfDomain(f"{label(policy)} has no exact answer: {why}")


def _blocks(value: Any) -> list[rational.Block]:
    """All blocks within a parsed policy, except itself."""
    if isinstance(value, rational.Block):
        inner = [part for child in value.given.values() for part in _blocks(child)]
        return inner if value.name == "Policy" else [value, *inner]
    if isinstance(value, Mapping):
        return [part for child in value.values() for part in _blocks(child)]
    return [part for child in value for part in _blocks(child)] if isinstance(value, (list, tuple)) else []


def solved(read: Exactly, answer: Allocation, clock: Clock) -> Allocation:
    """An answer in floats made exact."""
    policy, instance = answer.policy, answer.instance
    try:
        tasks, proof, value, split = solve(read, clock)
        given = given_fractions(instance)
        table = [[Fraction(*x.as_integer_ratio()) for x in row] for row in tasks]
        entry = {"tasks": [[rational.written(x) for x in row] for row in tasks], **proof} | (
            {"read": given} if given else {}
        )
        again = exactly(policy, instance)
        again.cluster.tasks, again.cluster.floor_proofs = tasks, rational.exact_floors(proof.get("floors") or {})
        tell("the exact proof")
        faults, _ = rational.prove_exactly(again.cluster, again.policy, proof["proof"])
    except rational.CannotCheck as error:
        raise OutOfDomain(f"{label(policy)} has no exact answer: {error}") from error
    except _NoPoint as error:
        raise Infeasible(f"{label(policy)} on {instance!r}: {_NoPoint.why}") from error
    except _Unlimited as error:
        raise Unbounded(f"{label(policy)} on {instance!r}: in rational numbers the objective has no maximum") from error
    except rational.Fault as error:
        raise NotCertified(f"the exact answer of {label(policy)} was not proved: {error}", best=answer) from error
    if faults:
        raise NotCertified(f"the exact answer of {label(policy)} was not proved: {faults[0]}", best=answer)
    notes = [
        note for note in answer.certificate.note.split("; ") if note and OPEN not in note and BY_LEXIMIN not in note
    ]
    note = "; ".join([*notes, *split, read.reading])
    objective = answer.objective if value is None else float(value)
    return gate.exact(answer, _as_array(table, instance), entry, objective, note, clock.begun)


def _as_array(table: list[list[Fraction]], instance: Instance) -> NDArray[np.object_]:
    out = np.empty((instance.n_users, instance.n_servers), dtype=object)
    for j, row in enumerate(table):
        out[j] = row
    return out


def solve(
    read: Exactly, clock: Clock, record: Callable[..., None] | None = None
) -> tuple[rational.Table, dict[str, Any], rational.Fraction | None, list[str]]:
    """Exact tasks, their proof, the value of the objective or of the first level (None if irrational), and notes.

    ``record`` is a `modelling.Record` with what the program is for in front.
    """
    cluster = read.cluster
    if read.policy.name == "HDRF":
        tasks, of_filling, least = mechanisms.filled(cluster, read.policy, clock)
        return tasks, {"proof": [of_filling]}, least, []
    if rational.decides_bundles(read.policy):
        tasks, of_bundles = mechanisms.bundled(cluster, read.policy)
        return tasks, {"proof": [of_bundles]}, None, []
    at_base: list[dict[str, Any]] = []
    risen: dict[str, rational.Table] = {}  # tasks at which all who can are above the base of a surplus
    objectives = rational.tiers_of(read.policy.given["objective"])
    shares = {term.share.of_user.text: term.share.of_user for tier in objectives for _, term in tier.terms}
    proofs: list[dict[str, Any]] = []
    made: dict[str, Any] = {"proof": proofs}
    if cluster.team_guarantees:
        made["floors"] = modelling.floors(cluster, shares.values(), clock)

    def noted(what: str) -> modelling.Record | None:
        return None if record is None else partial(record, what)

    def settle(k: int, share: rational.Block, tier: rational.ExactTier) -> set[str]:
        zero = modelling.as_rational(rational.ZERO)
        compared = tier.compared or {}
        note = noted(f"who can rise above the base of {share.text}")
        risen[share.text], levels, stay = modelling.leximin(
            cluster, compared, tier.rows, tier.kept, clock, until=zero, record=note
        )
        at_base[k:] = [{**(at_base[k] if k < len(at_base) else {}), share.text: levels}] if stay else at_base[k:]
        return stay

    value, tier = None, None
    for k, tier in enumerate(rational.exact_tiers(cluster, read.policy, settle)):
        at_base.extend({} for _ in range(len(at_base), k + 1))
        entry: dict[str, Any]
        if tier.compared is None:
            cluster.tasks, entry = modelling.optimum(cluster, tier, clock, noted(objectives[k].text))
            entry |= {"rising": found} if (found := _rising(cluster, objectives[k], risen)) else {}
        else:
            note = noted(objectives[k].text)
            cluster.tasks, levels, _ = modelling.leximin(
                cluster, tier.compared, tier.rows, tier.kept, clock, record=note
            )
            entry = {"levels": levels}
        proofs.append(entry | ({"at_base": at_base[k]} if at_base[k] else {}))
        if value is None:
            value = tier.value(cluster.tasks)
    notes = [] if tier is None else _split_inside_teams(cluster, tier, objectives[-1], clock)
    return cluster.tasks, made, value if value is not None else rational.ZERO, notes


def _rising(
    cluster: rational.Cluster, objective: rational.Block, risen: dict[str, rational.Table]
) -> dict[str, list[list[Any]]]:
    """Tasks that prove that numbers at their base could rise, by surplus."""
    return {
        text: [[j, s, rational.written(x)] for j, row in enumerate(risen[text]) for s, x in enumerate(row) if x]
        for text in rational.at_base(cluster, objective)
    }


def _split_inside_teams(
    cluster: rational.Cluster, tier: rational.ExactTier, objective: rational.Block, clock: Clock
) -> list[str]:
    """Split the totals of teams, which an objective of teams alone leaves open, by leximin of the members' shares."""
    shares = {term.share.text: term.share for _, term in objective.terms}
    teams = {share.text: share for share in ((one.share if one.name == "Surplus" else one) for one in shares.values())}
    if len(teams) != 1 or next(iter(teams.values())).name != "OfTeam":
        return []
    (team,) = teams.values()
    labels = cluster.teams[team.given.get("by", "team")]
    of_users = rational.exact_numbers(cluster, team.share, True)
    if len({labels[j] for j in cluster.active}) == len(cluster.active):
        return []
    by = team.given.get("by", "team")
    if not all(all(one.row.values()) for one in of_users.values()):
        return [f"the split of totals inside each {by} {OPEN}"]
    totals = rational.exact_numbers(cluster, team, False).values()
    rows = tier.rows + [rational.kept_row(one, one.at(cluster.tasks)) for one in totals]
    cluster.tasks, _, _ = modelling.leximin(cluster, of_users, rows, tier.kept, clock)
    return [f"inside each {by} {BY_LEXIMIN} of the members' {team.share.text} given the totals"]
