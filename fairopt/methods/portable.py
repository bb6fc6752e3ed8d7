"""Evidence in the form that `proofs.verify` reads: prices by server and resource, and multipliers of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import KeptLevel, Objective, tiers_of
from fairopt.blocks.base import Block, blocks_within, is_ours
from fairopt.blocks.bundles import WeightedLog
from fairopt.blocks.constraints import Constraint, ManyRows
from fairopt.blocks.guarantees import TeamGuarantees, least_share, team_floors
from fairopt.blocks.shares import Share, coefficients_cached
from fairopt.blocks.teams import OfTeam, Surplus, kept_bases
from fairopt.errors import FairoptError
from fairopt.evidence.alike import rows_of_kinds
from fairopt.evidence.kinds import restored
from fairopt.formulation.bundle_program import decides_bundles
from fairopt.formulation.program import Program
from fairopt.formulation.rising import who_stays
from fairopt.formulation.whole import number_of, whole_instance
from fairopt.instance import Instance
from fairopt.methods.dispatch import keep_level
from fairopt.methods.supporting import NEAR, is_small, supporting
from fairopt.proofs import verify
from fairopt.proofs.entries import Imposed, priced
from fairopt.proofs.envy import EnvyProgram, binding_envy_rows

ROWS, PAIRS = 160_000, 4_000_000  # most rows of envy-freeness as fractions, and as floats
LARGE = 1_000  # pairs times resources: a larger pool without constraints is solved faster than turned into fractions
NO_EVIDENCE = "the answer has no evidence; allocate its instance by its policy for one that has"
UNREADABLE = (FairoptError, verify.CannotCheck, verify.Fault, LookupError, TypeError, ValueError)


@coefficients_cached()
def portable(allocation: Allocation) -> dict[str, Any]:
    """Entries of an allocation's file.

    They are ``given``, coefficients of user-defined shares; ``proof``, evidence by tier, or why there is none; and
    ``prices`` in units of the objective, if the evidence has these. The policy is not solved again.
    """
    policy, instance = allocation.policy, allocation.instance
    blocks = set(blocks_within((policy.objective, policy.constraints)))
    shares = [block for block in blocks if isinstance(block, Share) and block._is_plain and not _is_known(block)]
    given = {repr(share): share.per_task(instance).tolist() for share in shares}
    if decides_bundles(policy.objective):  # prices follow from bases and parts
        return {"given": given | _own_bases(instance, blocks), "proof": [{"kind": "bundles"}]}
    more: dict[str, Any] = {}
    try:
        floors = _floors(instance, blocks)
        plain = not (
            policy.constraints or floors or len(tiers_of(policy.objective)) > 1 or instance.demands.ndim == 3 or given
        )
        large = instance.eligible.size * instance.n_resources > LARGE
        with np.errstate(all="ignore"):
            more = {"floors": floors} if floors else {}
            if any(isinstance(block, ManyRows) for block in policy.constraints):
                more["binding"] = _binding(allocation)
            cluster = None  # its fractions are needed for rows only
            if not (plain and large):
                held = {"instance": instance.to_dict(), "tasks_by_server": allocation.tasks_by_server.tolist()}
                cluster = verify.Cluster({**held, "given": given, **more})
            proof = list(_entries(allocation, cluster))
    except UNREADABLE as error:
        proof = [{"why": str(error)}]
    if allocation.evidence_prices is not None:
        more |= _natural_prices(tiers_of(policy.objective)[0], proof[0])
    return {"given": given, **more, "proof": proof}


def _is_known(share: Share) -> bool:
    """Whether `verify` computes the coefficients of a share itself."""
    return is_ours(share) and type(share).__name__ in verify.SHARES


def _natural_prices(objective: Objective, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The prices of an entry in units of the objective; None if they exceed the range of floats."""
    if entry.get("kind") != "prices" or any(term.measure for term in objective.terms()):
        return {}
    alpha = objective.term.alpha or 0.0
    with np.errstate(all="ignore"):
        prices = np.maximum(entry["prices"], 0.0) * np.float64(entry.get("unit", 1.0)) ** (1.0 - alpha)
    return {"prices": prices.tolist() if np.isfinite(prices).all() else None}


def _binding(allocation: Allocation) -> list[list[int]] | None:
    """The rows of envy-freeness with multipliers in the evidence, as pairs of users; None if these may be all."""
    instance, active = allocation.instance, np.flatnonzero(allocation.instance.task_limits > 0)
    n, found = len(active), dict[int, None]()
    alike = instance.demands.ndim == 2 and instance._everywhere
    too_many = verify.CannotCheck(f"envy-freeness of {n:,} users has too many rows for exact fractions")
    some = instance.demands[active].reshape(n, -1), instance.eligible[active]
    kinds = len(np.unique(np.hstack(some), axis=0)) if n else 0
    if kinds * (kinds if alike else n) > (PAIRS if alike else ROWS):
        raise too_many
    for k, held in enumerate(allocation.evidence):
        inner = held["found"] if held and held["kind"] == "users alike" and k == 0 else held
        kind = inner and inner["kind"]
        if inner is held and kind == "rows":
            found |= dict.fromkeys(row for rows in held["made"] for row in rows)
        elif held and kind in ("rows", "pulled") and k == 0:
            tier = tiers_of(allocation.policy.objective)[0]
            program = Program(instance, tier, tuple(allocation.policy.constraints))
            tasks = np.asarray(held.get("tasks", allocation.tasks_by_server), dtype=float)
            if kind == "pulled":
                rows = binding_envy_rows(EnvyProgram(program), program.gather(tasks))
            else:
                rows = rows_of_kinds(program, inner["made"])
            found |= dict.fromkeys(rows)
        elif n * n <= ROWS:
            return None
        else:
            raise too_many
    return [[int(active[row // n]), int(active[row % n])] for row in found]


def _floors(instance: Instance, blocks: Iterable[Block]) -> dict[str, Any]:
    """What proves the floors of teams, by resource, and what these are worth in shares of which a surplus is."""
    out: dict[str, Any] = {}
    shares = [block.share for block in blocks if isinstance(block, Surplus) and block.base is None]
    for team, floor in team_floors(instance).items():
        out[team] = {str(i): use.entry for i, use in floor.uses.items()}
        for share in shares:
            if isinstance(share, OfTeam) and team in share._names(instance):
                worth = least_share(instance, floor, share.share.coefficients(instance))
                out[team][repr(share.share)] = worth.entry
    return out


def _at_base(program: Program, objective: Objective, rows: Imposed) -> dict[str, Any]:
    """What proves that users and teams stay at the bases of an objective's surpluses, by share."""
    out: dict[str, Any] = {}
    for term in objective.terms():
        share = term.share
        if not isinstance(share, Surplus) or not term.kind.levels_users:
            continue
        if (found := who_stays(program, share)) is not None:
            names = share._names(program.instance)
            paid = {names[t]: float(found.of_numbers[t]) for t in np.flatnonzero(found.of_numbers).tolist()}
            charged = priced(program, found.prices) | rows.multipliers(program, found.further)
            out[repr(share)] = {"of_numbers": paid, **charged}
    return {"at_base": out} if out else {}


def _own_bases(instance: Instance, blocks: Iterable[Block]) -> dict[str, Any]:
    """Weights of user-defined bundle bases, 0 for users who take no part."""
    part, given = instance.task_limits > 0, {}
    for log in blocks:
        if isinstance(log, WeightedLog) and not is_ours(log.base):
            weights = np.zeros((*instance.eligible.shape, instance.n_resources))
            if part.any():
                weights[part] = log.bases(instance._taking_part(part))
            given[repr(log.base)] = weights.tolist()
    return given


def _entries(allocation: Allocation, cluster: verify.Cluster | None) -> Iterator[dict[str, Any]]:
    """Evidence by tier; for whole tasks that of the first tier's divisible answer only."""
    policy, instance, kept = allocation.policy, allocation.instance, allocation.evidence
    constraints: tuple[Constraint, ...] = tuple(policy.constraints)
    rows = [verify.guaranteed(cluster)] if cluster else []
    rows += [cluster.impose(verify.block(repr(condition))) for condition in constraints] if cluster else []
    tiers, whole = tiers_of(policy.objective), allocation.placement is not None
    if whole:
        tiers, instance = tiers[:1], whole_instance(instance, number_of(tiers[0]), constraints)
    for k, objective in enumerate(tiers):
        program = Program(instance, objective, constraints)
        if program.empty:
            yield {"kind": "empty"}
            continue
        if not kept or not kept[k]:
            raise verify.CannotCheck(NO_EVIDENCE)
        tasks = own_tasks = program.gather(allocation.tasks_by_server)
        last, in_levels = objective is tiers[-1], objective.term.is_smallest
        if whole:
            tasks = np.asarray(kept[k]["divisible"], dtype=float)
        elif not last:
            own_tasks = program.gather(np.asarray(kept[k]["tasks"], dtype=float))
            tasks = own_tasks if in_levels else tasks
        floors = next((block for block in program.constraints if isinstance(block, TeamGuarantees)), None)
        own = Imposed((floors, *constraints), rows)
        try:
            evidence = restored(program, kept[k], allocation.certificate.solver)
            share = verify.block(repr(objective)).share
            of_users = share.name not in verify.COMPOSED
            if cluster is not None and evidence.by_level and of_users and not cluster.same_on_servers(share):
                own = Imposed((floors, *constraints, None), [*rows, verify.limits_as_rows(cluster)])
            entry = evidence.entry(program, tasks, own) | _at_base(program, objective, own)
        except UNREADABLE as error:
            if cluster is None or whole:
                raise
            entry = {"why": str(error)}
        if whole:
            entry["divisible"] = program.expand(tasks).tolist()
        if not last:
            keeps = keep_level(program.objective, program.point(own_tasks))
            bases = kept_bases(objective)
            constraints += (*bases, keeps)
            entry |= {"tasks": program.expand(own_tasks).tolist()}
            entry |= {"level": keeps.level} if type(keeps) is KeptLevel else {}
        flat = own.flat
        if cluster is not None and not whole and is_small(cluster, flat):
            entry = _proving(cluster, verify.block(repr(objective)), flat, entry)
        yield entry
        if cluster is not None and not last:
            verify.leave_at_base(cluster, verify.block(repr(objective)), flat, entry)
            rows += [[]] * len(bases)  # they are bounds on tasks
            rows.append(verify.keep_level(cluster, verify.block(repr(objective)), flat, entry))


def _proving(
    cluster: verify.Cluster, objective: verify.Block, rows: verify.Rows, entry: dict[str, Any]
) -> dict[str, Any]:
    """The entry, or one found from the tasks alone if it has a smaller gap by the rules of `verify`."""
    best = _gap(cluster, objective, rows, entry), entry
    final, own = cluster.tasks, {name: entry[name] for name in ("tasks", "level", "at_base") if name in entry}
    for near in NEAR:
        if best[0] <= float(verify.GAP) / 4:
            break
        if own and verify.as_max_min(objective)[1].name in ("Leximin", "MaxMin"):
            cluster.tasks = cluster.tangents_at = verify.numbers(entry["tasks"], "tasks", cluster.n, cluster.servers)
        try:
            again = own | supporting(cluster, objective, rows, float(entry.get("unit", 1.0)), near)
        except (verify.CannotCheck, verify.Fault):
            continue
        finally:
            cluster.tasks = cluster.tangents_at = final
        best = min(best, (_gap(cluster, objective, rows, again), again), key=lambda one: one[0])
    return best[1]


def _gap(cluster: verify.Cluster, objective: verify.Block, rows: verify.Rows, entry: Mapping[str, Any]) -> float:
    """The gap that an entry proves; infinite if it proves none."""
    try:
        return float(verify.gap_of_tier(cluster, objective, rows, entry))
    except (verify.CannotCheck, verify.Fault):
        return np.inf
