"""Evidence of allocations in the form that `proofs.verify` reads: prices by server, and multipliers of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import AtLeast, KeptLevel, Objective, Tiers, tiers_of
from fairopt.blocks.base import Block, blocks_within, is_ours
from fairopt.blocks.bundles import WeightedLog
from fairopt.blocks.constraints import Constraint, ManyRows
from fairopt.blocks.efficiency import FairnessEfficiency, PowerSpread, TotalIs, single_term
from fairopt.blocks.majorant import Majorant, PowerTerm
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin
from fairopt.blocks.shares import Share, asked_once
from fairopt.errors import FairoptError
from fairopt.formulation.bundle_program import decides_bundles
from fairopt.formulation.program import ConeModel, Float, Indices, Program
from fairopt.formulation.whole import number_of, whole_instance
from fairopt.instance import Instance
from fairopt.lazy import sp
from fairopt.methods.dispatch import keep_level, solve_tiers
from fairopt.methods.settings import Settings
from fairopt.methods.supporting import NEAR, is_small, supporting
from fairopt.proofs import verify
from fairopt.proofs.conditions import charged_conditions, dual_values, linear_rows, values_kept
from fairopt.proofs.cone_programs import Scaled, by_prices, lagrangian_of
from fairopt.proofs.conic import ConicConditions
from fairopt.proofs.envy import Pulled, pulling_rows
from fairopt.proofs.evidence import (
    Bottlenecked,
    CapacityPrices,
    Evidence,
    FairPrices,
    FewerRows,
    HeldLevels,
    RowPrices,
    Solved,
    Tangents,
    TotalPrices,
    UserPrices,
    plain,
    restored,
)
from fairopt.proofs.gate import Answer
from fairopt.proofs.lagrangian import Lagrangian
from fairopt.proofs.levels import combined_holdings
from fairopt.proofs.plane import LEAST, log_mean, tangent_of
from fairopt.proofs.servers import LevelUnits, best_worths

ROWS, PAIRS = 160_000, 4_000_000  # rows of envy-freeness that become fractions, and that are looked at as floats
LARGE = 1_000  # numbers of a policy without conditions
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
        plain = not (policy.constraints or isinstance(policy.objective, Tiers) or instance.demands.ndim == 3 or given)
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
    terms = [term for _, term in objective.terms()]
    if entry.get("kind") != "prices" or any(isinstance(term, FairnessEfficiency) for term in terms):
        return {}
    alpha = terms[0].alpha if isinstance(terms[0], AlphaFair) else 0.0
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
    for k, held in enumerate([plain(answer.evidence) for _, answer in fresh] or allocation.evidence):
        kind = held and held["kind"]
        if held and kind == "rows":
            found |= dict.fromkeys(row for rows in held["made"] for row in rows)
        elif held and kind == "pulled" and k == 0:
            tier = tiers_of(allocation.policy.objective)[0]
            program = Program(instance, tier, tuple(allocation.policy.constraints))
            tasks = np.asarray(held.get("tasks", allocation.tasks_by_server), dtype=float)
            found |= dict.fromkeys(pulling_rows(Pulled(program), program.gather(tasks)))
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
) -> Iterator[dict[str, Any]]:  # fmt: skip
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
        last, in_levels = objective is tiers[-1], isinstance(objective, (Leximin, MaxMin))
        if whole:
            tasks = fresh[k][1].tasks if fresh else np.asarray(kept[k]["divisible"], dtype=float)
        elif not last:
            own_tasks = fresh[k][1].tasks if fresh else program.gather(np.asarray(kept[k]["tasks"], dtype=float))
            tasks = own_tasks if in_levels else tasks
        own = list(rows)
        try:
            evidence = fresh[k][1].evidence if fresh else restored(program, kept[k], allocation.certificate.solver)
            if cluster is not None and isinstance(evidence, HeldLevels):
                differs = not cluster.alike(verify.block(repr(objective)).share)
                own += [verify.limits_as_rows(cluster)] if differs else []
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
        flat = [row for some in own for row in some]
        if cluster is not None and not whole and is_small(cluster, flat):
            entry = _proving(cluster, verify.block(repr(objective)), flat, entry)
        yield entry
        if cluster is not None and not last:
            rows.append(verify.keep(cluster, verify.block(repr(objective)), flat, entry))


def _proving(
    cluster: verify.Cluster, objective: verify.Block, rows: verify.Rows, entry: dict[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """An entry, or a better one from the tasks alone where it does not prove them by the rules of `verify`."""
    best = _gap(cluster, objective, rows, entry), entry
    final, own = cluster.tasks, {name: entry[name] for name in ("tasks", "level") if name in entry}
    for near in NEAR:
        if best[0] <= float(verify.GAP) / 4:
            break
        if own and objective.name in ("Leximin", "MaxMin"):
            cluster.tasks = cluster.near = verify.numbers(entry["tasks"], "tasks", cluster.n, cluster.servers)
        try:
            again = own | supporting(cluster, objective, rows, float(entry.get("unit", 1.0)), near)
        except (verify.CannotCheck, verify.Fault):
            continue
        finally:
            cluster.tasks = cluster.near = final
        best = min(best, (_gap(cluster, objective, rows, again), again), key=lambda one: one[0])
    return best[1]


def _gap(
    cluster: verify.Cluster, objective: verify.Block, rows: verify.Rows, entry: Mapping[str, Any]
) -> float:  # fmt: skip
    """The gap that an entry proves."""
    try:
        return float(verify.gap_of_tier(cluster, objective, rows, entry))
    except (verify.CannotCheck, verify.Fault):
        return np.inf


def _entry(program: Program, tasks: Float, evidence: Evidence | None, rows: Sequence[verify.Rows]) -> dict[str, Any]:
    """Evidence of a program, whose constraints have these rows in `verify`, as a dict of numbers and lists."""
    if isinstance(evidence, Bottlenecked):
        return {"kind": "bottlenecks"}
    if isinstance(evidence, Pulled):
        return {"kind": "pulled"}
    if isinstance(evidence, FairPrices):
        return _prices(program, np.exp(evidence.log_prices), unit=evidence.level)
    if isinstance(evidence, (TotalPrices, UserPrices)):
        return _prices(program, evidence.prices)
    if isinstance(evidence, CapacityPrices):
        at, found = by_prices(program, evidence.prices, tasks)
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
        return _of_fewer(program, tasks, evidence, rows)
    raise verify.CannotCheck(f"{program.objective} has no evidence that is portable")


def _of_fewer(
    program: Program, tasks: Float, evidence: FewerRows, rows: Sequence[verify.Rows]
) -> dict[str, Any]:  # fmt: skip
    """Evidence of a program with fewer rows, with multipliers of 0 for those that it does not have."""
    n, active, made = program.instance.n_users, program.active, iter(evidence.made)
    kept: list[verify.Rows] = []
    place: list[int] = []
    at = 0
    blocks: list[Constraint | None] = [*program.constraints, *[None] * len(rows)]  # others have rows as well
    for block, own in zip(blocks, rows, strict=False):
        chosen, asked = list(range(len(own))), True
        if isinstance(block, ManyRows):
            where = {_envier_and_envied(row): r for r, (row, _, _) in enumerate(own)}
            pairs = [(int(active[row // n]), int(active[row % n])) for row in next(made)]
            chosen, asked = [where[pair] for pair in pairs if pair in where], bool(pairs)
        if asked:
            kept.append([own[r] for r in chosen])
        place += [at + r for r in chosen]
        at += len(own)
    entry = _entry(evidence.program, tasks, evidence.found, kept)

    def spread(value: Any) -> Any:
        if isinstance(value, list):
            return [spread(one) for one in value] if value and isinstance(value[0], dict) else value
        if not isinstance(value, dict):
            return value
        out = {name: spread(one) for name, one in value.items()}
        if "rows" in value:
            whole = np.zeros(at)
            whole[place] = value["rows"]
            out["rows"] = whole.tolist()
        return out

    return dict(spread(entry))


def _envier_and_envied(row: Mapping[tuple[int, int], Any]) -> tuple[int, int]:
    """The users of a row of `EnvyFree`: the tasks of the first count less than 0."""
    return next(j for (j, _), v in row.items() if v < 0), next(k for (k, _), v in row.items() if v > 0)


def _priced(program: Program, by_row: Float) -> dict[str, Any]:
    """Prices by server and resource, from those by row of loads, per whole capacity."""
    return {"prices": np.nan_to_num(program.expand_prices(by_row)).tolist()}


def _prices(program: Program, by_row: Float, unit: float = 1.0, mixtures: Sequence[Float] = ()) -> dict[str, Any]:
    """An entry of prices, of shares in a unit."""
    return {"kind": "prices", "unit": unit, **_priced(program, by_row), "mixtures": [u.tolist() for u in mixtures]}


def _flat(y: Mapping[int, Float], sizes: Iterable[int]) -> dict[str, Any]:
    """Multipliers by constraint as one list; ``sizes`` are their numbers of rows."""
    return {"rows": np.concatenate([y.get(k, np.zeros(size)) for k, size in enumerate(sizes)]).tolist()} if y else {}


def _row_prices(program: Program, tasks: Float, evidence: RowPrices) -> dict[str, Any]:
    """Prices on several servers; of max-min with what levels are worth to users as the mixture, or the user whose limit
    is lowest.
    """
    units = evidence.units
    if not isinstance(units, LevelUnits):
        return _prices(program, evidence.prices.T.ravel())
    prices = np.where(units.needed, np.maximum(evidence.prices, 0.0), 0.0)
    if program.alpha_fair is not None:
        return _prices(program, prices.T.ravel() * program.instance.weights.sum(), unit=units.unit)
    bound, worths = best_worths(units, prices, program.objective.value(program.point(tasks)))
    level = float(worths.sum())
    if not bound < units.limits.min():
        prices, worths, level = np.zeros_like(prices), (units.limits == units.limits.min()).astype(float), 1.0
    return _prices(program, prices.T.ravel() * (units.unit / level), mixtures=[worths / level])


def _levels(
    program: Program, tasks: Float, evidence: HeldLevels, rows: Sequence[verify.Rows]
) -> list[dict[str, Any]]:  # fmt: skip
    """The users of each level with prices and multipliers; of limits too, where a share differs by server."""
    further = evidence.further
    place = None if further is None else _places(program, further, rows)
    out = []
    for one in combined_holdings(program, evidence, tasks):
        held = {"users": one.users.tolist(), **_priced(program, one.prices)}
        if place is not None and one.dual is not None:
            at, ratio = place
            held["rows"] = (np.append(np.maximum(one.dual, 0.0), 0.0)[at] * ratio).tolist()
        out.append(held)
    return out


def _places(program: Program, further: ConicConditions, rows: Sequence[verify.Rows]) -> tuple[Indices, Float]:
    """For each row of `verify` the row of the cone form that it is a multiple of, and that multiple.

    Rows that are not found are at the end of the cone form; without a multiplier they only bound less.
    """
    pairs, unmerged = program.pairs, program.unmerged
    merged = program.instance.n_servers < unmerged.n_servers
    row_of = unmerged.server_classes if merged else np.arange(unmerged.n_servers)
    pair = {(int(program.active[j]), int(s)): p for p, (j, s) in enumerate(zip(pairs.user, pairs.server, strict=True))}
    found: dict[Any, list[tuple[int, float]]] = {}
    form = sp.csr_array(further.on_ours @ sp.diags_array(1.0 / further.scale))
    for k in np.flatnonzero(np.diff(further.on_others.indptr) == 0):
        part = slice(form.indptr[k], form.indptr[k + 1])
        key, size = _direction(dict(zip(form.indices[part].tolist(), form.data[part].tolist(), strict=True)))
        found.setdefault(key, []).append((int(k), size))
    at, ratio = [], []
    for row, _, _ in [row for own in rows for row in own]:
        key, size = _direction({pair[j, int(row_of[s])]: float(v) for (j, s), v in row.items()})
        where, as_long = found[key].pop(0) if found.get(key) else (len(further.right), 0.0)
        at.append(where)
        ratio.append(as_long / size)
    return np.array(at, dtype=np.intp), np.array(ratio)


def _direction(row: Mapping[int, float]) -> tuple[Any, float]:
    """A row by its entries relative to the largest, rounded, and the size of that."""
    size = max(map(abs, row.values()), default=0.0) or 1.0
    return tuple(sorted((p, round(v / size, 9)) for p, v in row.items() if abs(v) > 1e-12 * size)), size


def _solved(program: Program, tasks: Float, evidence: Solved, rows: Sequence[verify.Rows]) -> dict[str, Any]:
    """Dual values of a solver in natural units of the objective; of alpha-fairness alone, of shares in a unit."""
    found = lagrangian_of(program, evidence, tasks)
    if found is None:
        raise verify.CannotCheck(f"{program.objective} has no bound that is portable")
    point, fair, unit = program.point(tasks), program.alpha_fair, 1.0
    scale = found.factor * found.lagrangian.majorant.unit
    if fair is not None and fair.alpha > 0:
        scale, unit = found.factor * float(point.weights.sum()), point.level(fair.share)
    if isinstance(program.objective, PowerSpread):  # counts in units of the level
        scale *= point.level(program.objective.share)
    measure, line = single_term(program.objective), {}
    if isinstance(measure, FairnessEfficiency):
        line = _touching(program, measure, found, tasks)
        scale *= line.pop("size") / measure.exponents[0]
    mixtures = found.lagrangian.with_mixtures(found.factor)[1]
    held = _prices(program, found.lagrangian.multipliers.prices * scale, unit, mixtures)
    held |= _multipliers(evidence.model, tasks, rows, scale * found.per_dual)
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
        powers = Majorant(powers=(PowerTerm(relative, w, measure.beta),))
        best = Lagrangian(program, powers, charged, point).levels(1.0)
        levels = size * np.maximum(best, LEAST * best.max())
    return {"levels": levels.tolist(), "slope": slope, "size": size}


def _lines(evidence: Tangents, rows: Sequence[verify.Rows]) -> dict[str, Any]:
    """The lines that bound the power mean of shares along their mean, and the extreme sums of shares."""
    lines = []
    for cut, tasks, solved in evidence.cuts:
        tangent = tangent_of(cut, solved, tasks)
        if tangent is not None:
            held = _priced(cut, tangent.prices) | {"levels": tangent.levels.tolist(), "slope": tangent.line.slope}
            if isinstance(solved, Solved):  # else of a pool whose other conditions are bounds
                held |= _multipliers(solved.model, tasks, rows, tangent.per_dual)
            lines.append(held)
    entry: dict[str, Any] = {"kind": "lines", "lines": lines}
    for name, end in (("largest", evidence.largest), ("smallest", evidence.smallest)):
        if end is not None and end[1].tasks is not None:
            entry[name] = _entry(end[0], end[1].tasks, end[1].evidence, rows)
    return entry


def _multipliers(cone: ConeModel, tasks: Float, rows: Sequence[verify.Rows], scale: float) -> dict[str, Any]:
    """Multipliers of `verify`'s rows from dual values times a scale, and those of levels that are not rows."""
    y: dict[int, Float] = {}
    kept: list[float] = []
    with values_kept([cone.unknowns]):
        cone.unknowns.save_value(tasks / cone.scale)
        for block, condition in charged_conditions(cone):
            dual = dual_values(condition) * scale
            if block is None or isinstance(block, TotalIs):
                continue
            k = next(k for k, own in enumerate(cone.program.constraints) if own is block)
            if isinstance(block, AtLeast) and not rows[k]:
                kept.append(max(float(dual.sum()), 0.0) / (abs(block.level) or 1.0))
                continue
            found = linear_rows(condition, cone.unknowns)
            if found is None or found.slopes.shape[1] != len(rows[k]):
                continue  # without a multiplier a row only bounds less
            size = abs(sp.diags_array(1.0 / cone.scale) @ found.slopes).max(axis=0).toarray().ravel()
            y[k] = dual * size / [float(max(map(abs, row.values()))) for row, _, _ in rows[k]]
    return _flat(y, map(len, rows)) | {"kept": kept}
