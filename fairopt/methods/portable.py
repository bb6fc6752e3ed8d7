"""Evidence of allocations in the form that `proofs.verify` reads: prices by server, and multipliers of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import AtLeast, KeptLevel, Objective, tiers_of
from fairopt.blocks.base import Block, blocks_within, is_ours
from fairopt.blocks.bundles import WeightedLog
from fairopt.blocks.constraints import Constraint, MadeRows, ManyRows
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.form import Curve, Form
from fairopt.blocks.shares import Share, asked_once
from fairopt.errors import FairoptError
from fairopt.evidence.capacity_prices import CapacityPrices
from fairopt.evidence.fewer_rows import FewerRows
from fairopt.evidence.kinds import restored
from fairopt.evidence.levels import HeldLevels
from fairopt.evidence.pool import Bottlenecked, FairPrices, TotalPrices
from fairopt.evidence.pulled import Pulled
from fairopt.evidence.row_prices import RowPrices
from fairopt.evidence.solved import Scaled, Solved, lagrangian_of
from fairopt.evidence.tangents import Tangents
from fairopt.evidence.user_prices import UserPrices
from fairopt.formulation.bundle_program import decides_bundles
from fairopt.formulation.program import ConeModel, Float, Program
from fairopt.formulation.rows import BlockRows
from fairopt.formulation.whole import number_of, whole_instance
from fairopt.instance import Instance
from fairopt.methods.dispatch import keep_level, solve_tiers
from fairopt.methods.settings import Settings
from fairopt.methods.supporting import NEAR, is_small, supporting
from fairopt.proofs import verify
from fairopt.proofs.conditions import charged_conditions, dual_values, known_multipliers
from fairopt.proofs.envy import Pulling, pulling_rows
from fairopt.proofs.gate import Answer
from fairopt.proofs.lagrangian import Lagrangian
from fairopt.proofs.levels import combined_holdings
from fairopt.proofs.plane import LEAST, log_mean, tangent_of
from fairopt.proofs.proposal import Evidence
from fairopt.proofs.servers import LevelUnits, best_worths

ROWS, PAIRS = 160_000, 4_000_000  # rows of envy-freeness that become fractions, and that are looked at as floats
Users = frozenset[int]
LARGE = 1_000  # numbers of a policy without conditions
NO_ROW: tuple[int, verify.Row] = 0, ({}, verify.ZERO, False)
UNREADABLE = (FairoptError, verify.CannotCheck, verify.Fault, LookupError, TypeError, ValueError)


@asked_once()
def portable(allocation: Allocation) -> dict[str, Any]:
    """Entries of the file of an allocation: ``given``, coefficients of shares of one's own, ``proof``, evidence by
    tier, and ``prices``, those of the evidence where it has them in units of the objective.

    Where evidence is not portable, the entry says why.
    """
    policy, instance = allocation.policy, allocation.instance
    blocks = set(blocks_within((policy.objective, policy.constraints)))
    shares = [block for block in blocks if isinstance(block, Share) and not is_ours(block)]
    given = {repr(share): share.per_task(instance).tolist() for share in shares}
    if decides_bundles(policy.objective):  # prices follow from bases and parts
        return {"given": given | _own_bases(instance, blocks), "proof": [{"kind": "bundles"}]}
    more: dict[str, Any] = {}
    try:
        # large pools are solved in less time than their numbers take to become fractions, which only rows need
        plain = not (policy.constraints or len(tiers_of(policy.objective)) > 1 or instance.demands.ndim == 3 or given)
        large = instance.eligible.size * instance.n_resources > LARGE
        with np.errstate(all="ignore"):
            fresh = _solved_again(allocation)
            if any(isinstance(block, ManyRows) for block in policy.constraints):
                more = {"binding": _binding(allocation, fresh)}
            cluster = None
            if not (plain and large):
                held = {"instance": instance.to_dict(), "tasks_by_server": allocation.tasks_by_server.tolist()}
                cluster = verify.Cluster({**held, "given": given, **more})
            proof = list(_entries(allocation, cluster, fresh))
    except UNREADABLE as error:
        proof = [{"why": str(error)}]
    if allocation.evidence_prices is not None:
        more |= _natural_prices(tiers_of(policy.objective)[0], proof[0])
    return {"given": given, **more, "proof": proof}


def _natural_prices(objective: Objective, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The prices of an entry for the whole objective, without a unit of shares; none where they are beyond floats."""
    if entry.get("kind") != "prices" or any(term.measure for term in objective.terms()):
        return {}
    alpha = objective.term.alpha or 0.0
    with np.errstate(all="ignore"):
        prices = np.maximum(entry["prices"], 0.0) * np.float64(entry.get("unit", 1.0)) ** (1.0 - alpha)
    return {"prices": prices.tolist() if np.isfinite(prices).all() else None}


def _solved_again(allocation: Allocation) -> list[tuple[Program, Answer]]:
    """The tiers of an allocation that has no evidence, with new answers; none of others."""
    policy, instance, kept = allocation.policy, allocation.instance, allocation.evidence
    if kept and all(kept):
        return []
    if allocation.placement is not None:
        instance = whole_instance(instance, number_of(tiers_of(policy.objective)[0]), tuple(policy.constraints))
    return solve_tiers(policy, instance, Settings(), "auto")


def _binding(allocation: Allocation, fresh: Sequence[tuple[Program, Answer]]) -> list[list[int]] | None:
    """The rows of envy-freeness that evidence charges, as pairs of users; None where it may charge all."""
    instance, active = allocation.instance, np.flatnonzero(allocation.instance.task_limits > 0)
    n, found = len(active), dict[int, None]()
    alike = instance.demands.ndim == 2 and instance.everywhere
    many = verify.CannotCheck(f"envy-freeness of {n:,} users has too many rows for fractions")
    if n * n > (PAIRS if alike else ROWS):
        raise many
    found_now = [answer.evidence and answer.evidence.numbers() for _, answer in fresh]
    for k, held in enumerate(found_now or allocation.evidence):
        kind = held and held["kind"]
        if held and kind == "rows":
            found |= dict.fromkeys(row for rows in held["made"] for row in rows)
        elif held and kind == "pulled" and k == 0:
            tier = tiers_of(allocation.policy.objective)[0]
            program = Program(instance, tier, tuple(allocation.policy.constraints))
            tasks = np.asarray(held.get("tasks", allocation.tasks_by_server), dtype=float)
            found |= dict.fromkeys(pulling_rows(Pulling(program), program.gather(tasks)))
        elif n * n <= ROWS:
            return None
        else:
            raise many
    return [[int(active[row // n]), int(active[row % n])] for row in found]


def _own_bases(instance: Instance, blocks: Iterable[Block]) -> dict[str, Any]:
    """Weights of bundle bases of one's own, 0 for users who take no part."""
    part, given = instance.task_limits > 0, {}
    for log in blocks:
        if isinstance(log, WeightedLog) and not is_ours(log.base):
            weights = np.zeros((*instance.eligible.shape, instance.n_resources))
            if part.any():
                weights[part] = log.bases(instance.taking_part(part))
            given[repr(log.base)] = weights.tolist()
    return given


def _entries(
    allocation: Allocation, cluster: verify.Cluster | None, fresh: Sequence[tuple[Program, Answer]]
) -> Iterator[dict[str, Any]]:
    """Evidence by tier, of ``fresh`` answers where the allocation has none. Of whole tasks only that of the first
    tier's divisible answer.
    """
    policy, instance, kept = allocation.policy, allocation.instance, allocation.evidence
    constraints: tuple[Constraint, ...] = tuple(policy.constraints)
    rows = [cluster.impose(verify.block(repr(condition))) for condition in constraints] if cluster else []
    tiers, whole = tiers_of(policy.objective), allocation.placement is not None
    if whole:
        tiers, instance = tiers[:1], whole_instance(instance, number_of(tiers[0]), constraints)
    for k, objective in enumerate(tiers):
        program = fresh[k][0] if fresh else Program(instance, objective, constraints)
        if program.empty:
            yield {"kind": "empty"}
            continue
        tasks = own_tasks = program.gather(allocation.tasks_by_server)
        last, in_levels = objective is tiers[-1], objective.term.is_smallest
        if whole:
            tasks = fresh[k][1].tasks if fresh else np.asarray(kept[k]["divisible"], dtype=float)
        elif not last:
            own_tasks = fresh[k][1].tasks if fresh else program.gather(np.asarray(kept[k]["tasks"], dtype=float))
            tasks = own_tasks if in_levels else tasks
        own = Imposed(program.constraints, rows)
        try:
            evidence = fresh[k][1].evidence if fresh else restored(program, kept[k], allocation.certificate.solver)
            levels = isinstance(evidence, HeldLevels)
            if cluster is not None and levels and not cluster.alike(verify.block(repr(objective)).share):
                own = Imposed((*program.constraints, None), [*rows, verify.limits_as_rows(cluster)])
            entry = _entry(program, tasks, evidence, own)
        except UNREADABLE as error:
            if cluster is None or whole:
                raise
            entry = {"why": str(error)}
        if whole:
            entry["divisible"] = program.expand(tasks).tolist()
        if not last:
            keeps = keep_level(objective, program.point(own_tasks))
            constraints += (keeps,)
            entry |= {"tasks": program.expand(own_tasks).tolist()}
            entry |= {"level": keeps.level} if type(keeps) is KeptLevel else {}
        flat = own.flat
        if cluster is not None and not whole and is_small(cluster, flat):
            entry = _proving(cluster, verify.block(repr(objective)), flat, entry)
        yield entry
        if cluster is not None and not last:
            rows.append(verify.keep(cluster, verify.block(repr(objective)), flat, entry))


def _proving(
    cluster: verify.Cluster, objective: verify.Block, rows: verify.Rows, entry: dict[str, Any]
) -> dict[str, Any]:
    """An entry, or a better one from the tasks alone where it does not prove them by the rules of `verify`."""
    best = _gap(cluster, objective, rows, entry), entry
    final, own = cluster.tasks, {name: entry[name] for name in ("tasks", "level") if name in entry}
    for near in NEAR:
        if best[0] <= float(verify.GAP) / 4:
            break
        if own and verify.of_smallest(objective)[1].name in ("Leximin", "MaxMin"):
            cluster.tasks = cluster.near = verify.numbers(entry["tasks"], "tasks", cluster.n, cluster.servers)
        try:
            again = own | supporting(cluster, objective, rows, float(entry.get("unit", 1.0)), near)
        except (verify.CannotCheck, verify.Fault):
            continue
        finally:
            cluster.tasks = cluster.near = final
        best = min(best, (_gap(cluster, objective, rows, again), again), key=lambda one: one[0])
    return best[1]


def _gap(cluster: verify.Cluster, objective: verify.Block, rows: verify.Rows, entry: Mapping[str, Any]) -> float:
    """The gap that an entry proves."""
    try:
        return float(verify.gap_of_tier(cluster, objective, rows, entry))
    except (verify.CannotCheck, verify.Fault):
        return np.inf


class Imposed:
    """The rows that `verify` makes of conditions: each is known by its condition, who adds to it, and who subtracts."""

    def __init__(self, conditions: Sequence[Constraint | None], rows: Sequence[verify.Rows]) -> None:
        self.conditions, self.rows = conditions, rows

    @property
    def flat(self) -> verify.Rows:
        """All rows, in order."""
        return [row for some in self.rows for row in some]

    @cached_property
    def _places(self) -> dict[tuple[int, Users, Users], tuple[int, verify.Row]]:
        """Where each row stands, and what it is."""
        out: dict[tuple[int, Users, Users], tuple[int, verify.Row]] = {}
        for condition, own in zip(self.conditions, self.rows, strict=False):
            for row in own:
                added = frozenset(j for (j, _), v in row[0].items() if v > 0)
                taken = frozenset(j for (j, _), v in row[0].items() if v < 0)
                out[id(condition), added, taken] = len(out), row
        return out

    def multipliers(self, program: Program, found: Iterable[tuple[BlockRows, Float]]) -> dict[str, Any]:
        """Multipliers of all rows from those of fairopt's, in natural units; of rows that are not named, 0.

        What `verify` has as bounds on tasks needs none. Its rows are multiples of fairopt's, but that of a share of 0,
        which has other coefficients: there larger multipliers prove the same.
        """
        y, user = np.zeros(len(self.flat)), program.active[program.pairs.user]
        for (block, _, rows), values in found:
            condition, table = (block.block if isinstance(block, MadeRows) else block), rows.per_task
            for r in np.flatnonzero(values).tolist():
                part = slice(table.indptr[r], table.indptr[r + 1])
                users, sizes = user[table.indices[part]], table.data[part]
                added, taken = frozenset(users[sizes > 0].tolist()), frozenset(users[sizes < 0].tolist())
                at, (row, bound, _) = self._places.get((id(condition), added, taken), NO_ROW)
                if row:
                    theirs = [abs(float(v)) for v in row.values() if v]
                    size = min(theirs) if bound == 0 and not taken else max(theirs)
                    y[at] += values[r] * float(np.abs(sizes).max()) / size
        return {"rows": y.tolist()} if y.any() else {}


def _entry(program: Program, tasks: Float, evidence: Evidence | None, rows: Imposed) -> dict[str, Any]:
    """Evidence of a program, whose constraints have these rows in `verify`, as a dict of numbers and lists."""
    if isinstance(evidence, Bottlenecked):
        return {"kind": "bottlenecks"}
    if isinstance(evidence, Pulled):
        return {"kind": "pulled"}
    if isinstance(evidence, FairPrices):
        return _prices(program, program.term.factor * np.exp(evidence.log_prices), unit=evidence.level)
    if isinstance(evidence, TotalPrices):
        return _prices(program, program.term.factor * evidence.prices)
    if isinstance(evidence, UserPrices):
        return _prices(program, evidence.prices)
    if isinstance(evidence, CapacityPrices):
        at, found = evidence.bound(tasks)
        prices = at.multipliers.prices * found.factor * at.majorant.unit
        return _prices(program, prices, mixtures=at.with_mixtures(found.factor)[1])
    if isinstance(evidence, RowPrices):
        return _row_prices(program, tasks, evidence)
    if isinstance(evidence, HeldLevels):
        return {"kind": "levels", "levels": _levels(program, tasks, evidence, rows)}
    if isinstance(evidence, Solved):
        return _solved(program, tasks, evidence, rows)
    if isinstance(evidence, Tangents):
        return _lines(evidence, rows)
    if isinstance(evidence, FewerRows):
        return _entry(evidence.program, tasks, evidence.found, rows)  # rows that it lacks have no multipliers
    raise verify.CannotCheck(f"{program.objective} has no evidence that is portable")


def _priced(program: Program, by_row: Float) -> dict[str, Any]:
    """Prices by server and resource, from those by row of loads, per whole capacity."""
    return {"prices": np.nan_to_num(program.expand_prices(by_row)).tolist()}


def _prices(program: Program, by_row: Float, unit: float = 1.0, mixtures: Sequence[Float] = ()) -> dict[str, Any]:
    """An entry of prices, of shares in a unit."""
    return {"kind": "prices", "unit": unit, **_priced(program, by_row), "mixtures": [u.tolist() for u in mixtures]}


def _row_prices(program: Program, tasks: Float, evidence: RowPrices) -> dict[str, Any]:
    """Prices on several servers; of max-min with what levels are worth to users as the mixture, or the user whose limit
    is lowest.
    """
    units = evidence.units
    if not isinstance(units, LevelUnits):
        return _prices(program, evidence.prices.T.ravel())
    prices = np.where(units.needed, np.maximum(evidence.prices, 0.0), 0.0)
    if program.term.is_curved:
        factor = program.term.factor * program.instance.weights.sum()
        return _prices(program, prices.T.ravel() * factor, unit=units.unit)
    factor = program.term.factor
    bound, worths = best_worths(units, prices, program.objective.value(program.point(tasks)) / factor)
    level = float(worths.sum())
    if not bound < units.limits.min():
        prices, worths, level = np.zeros_like(prices), (units.limits == units.limits.min()).astype(float), 1.0
    return _prices(program, prices.T.ravel() * (factor * units.unit / level), mixtures=[worths / level])


def _levels(program: Program, tasks: Float, evidence: HeldLevels, rows: Imposed) -> list[dict[str, Any]]:
    """The users of each level with prices and multipliers; of limits too, where a share differs by server."""
    further, out = evidence.further, []
    for one in combined_holdings(program, evidence.holdings, further, tasks):
        held = {"users": one.users.tolist(), **_priced(program, one.prices)}
        if further is not None and one.dual is not None:
            held |= rows.multipliers(program, further.multipliers(one.dual))
        out.append(held)
    return out


def _solved(program: Program, tasks: Float, evidence: Solved, rows: Imposed) -> dict[str, Any]:
    """Dual values of a solver in natural units of the objective; of alpha-fairness alone, of shares in a unit."""
    found = lagrangian_of(program, evidence, tasks)
    if found is None:
        raise verify.CannotCheck(f"{program.objective} has no bound that is portable")
    point, term, unit = program.point(tasks), program.term, 1.0
    scale = found.factor * found.lagrangian.majorant.unit
    if term.is_curved:
        scale, unit = term.factor * found.factor * float(point.weights.sum()), point.level(term.share)
    if term.kind.in_levels:
        scale *= point.level(term.share)
    line: dict[str, Any] = {}
    if term.measure is not None and term.alpha is None:
        line = _touching(program, term.measure, found, tasks)
        scale *= line.pop("size") / (term.factor * term.measure.exponents[0])
    mixtures = found.lagrangian.with_mixtures(found.factor)[1]
    held = _prices(program, found.lagrangian.multipliers.prices * scale, unit, mixtures)
    held |= _multipliers(evidence.model, rows, scale * found.per_dual)
    return {"kind": "lines", "lines": [held | line]} if line else held


def _touching(program: Program, measure: FairnessEfficiency, found: Scaled, tasks: Float) -> dict[str, Any]:
    """The line that touches the power mean M (``size``) at an optimum of a concave measure, where its slope follows.

    Its levels are those at which users' parts of the Lagrangian are largest: there no error of a price is a gain.
    """
    point, pairs, (first, second) = program.point(tasks), program.pairs, measure.exponents
    c, w = measure.share.coefficients(program.instance), point.weights / point.weights.sum()
    levels = point.share(measure.share) / point.weights
    size = float(np.exp(log_mean(levels, w, 1 - measure.beta)))
    slope = -second * size / (first * float(levels @ w))
    relative = (c.T / (point.weights * size)).T
    charged = found.lagrangian.multipliers.times(found.factor / first)
    charged.pair_cost = charged.pair_cost + slope * w[pairs.user] * (
        pairs.of(relative) if c.ndim == 2 else relative[pairs.user]
    )
    if not charged.extra:
        powers = Form(curves=(Curve(relative, w, measure.beta),))
        best = Lagrangian(program, powers, charged, point).levels(1.0)
        levels = size * np.maximum(best, LEAST * best.max())
    return {"levels": levels.tolist(), "slope": slope, "size": size}


def _lines(evidence: Tangents, rows: Imposed) -> dict[str, Any]:
    """The lines that bound the power mean of shares along their mean, and the extreme sums of shares."""
    lines = []
    for cut, tasks, solved in evidence.cuts:
        tangent = tangent_of(cut, solved, tasks)
        if tangent is not None:
            held = _priced(cut, tangent.prices) | {"levels": tangent.levels.tolist(), "slope": tangent.line.slope}
            if isinstance(solved, Solved):  # else of a pool whose other conditions are bounds
                held |= _multipliers(solved.model, rows, tangent.per_dual)
            lines.append(held)
    entry: dict[str, Any] = {"kind": "lines", "lines": lines}
    for name, end in (("largest", evidence.largest), ("smallest", evidence.smallest)):
        if end is not None and end[1].tasks is not None:
            entry[name] = _entry(end[0], end[1].tasks, end[1].evidence, rows)
    return entry


def _multipliers(cone: ConeModel, rows: Imposed, scale: float) -> dict[str, Any]:
    """Multipliers of `verify`'s rows from dual values times a scale, and those of levels that are not rows."""
    found: list[tuple[BlockRows, Float]] = []
    kept: list[float] = []
    for block, condition in charged_conditions(cone):
        if condition.id in cone.known:
            found.append((cone.known[condition.id], known_multipliers(cone, condition) * scale))
        elif isinstance(block, AtLeast):
            kept.append(max(float(dual_values(condition).sum()) * scale, 0.0) / (abs(block.level) or 1.0))
    return rows.multipliers(cone.program, found) | {"kept": kept}
