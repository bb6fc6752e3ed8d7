"""The answers of the library: exact where the optimum is rational, else proved intervals of its value.

Numbers are read as the shortest decimals that print them. An exact answer is computed twice: in fractions, by the
oracles of the tests or by ``allocate(exact=True)`` where they are too slow, and in floats by `Policy.allocate`, whose
answer `fo.verify` proves and which must agree. Other values lie in intervals by `Allocation.exact_bounds`, or
they are certified in floats, where there are many users or the objective is not concave.
"""

from __future__ import annotations

import inspect
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from oracle import bundles, exact_lp, hierarchy
from oracle.exact_cluster import Cluster

import fairopt as fo
from fairopt.errors import Infeasible, NotCertified, OutOfDomain, Unbounded
from fairopt.instances.library.answers import Answer, compared
from fairopt.policies.measured import levels_of
from fairopt.policies.registry import named_policy

PAIRS, DIGITS = 40, 600  # of users and servers, and digits of all their numbers: fast for the oracles in fractions
MOST_LISTED, LONGEST = 60, 60  # users whose levels and tasks are stored, and characters of a fraction
LARGEST_DENOMINATOR = 10**5  # of the tasks of a curved objective that are tried as fractions
STATUS: dict[type[Exception], str] = {Infeasible: "infeasible", Unbounded: "unbounded", OutOfDomain: "out of domain"}
ROUNDING = 1e-12  # relative, of values that were added up in floats
WIDTH = 1e-15  # relative, of intervals by exact_bounds
Row = list[Fraction]


class Wrong(Exception):
    """Two ways to the same answer disagree."""


def notions(instance: fo.Instance) -> dict[str, str]:
    """The main notions of an instance, as policies in text."""
    found = {
        "drf": "drf",
        "2df": "2df",
        "max-min": "Policy(MaxMin())",
        "nash": "nash",
        "alpha-2": "fds:alpha=2",
        "most-tasks": "most-tasks",
    }
    if 2 <= instance.n_users <= 8:
        weights = ", ".join(map(str, range(instance.n_users, 0, -1)))
        found["ordered"] = f"Policy(OrderedWeighted(({weights})))"
    if instance.n_servers > 1:
        found["tsf"] = "tsf"
    if instance.teams and instance.n_users <= MOST_LISTED:  # its answer is the tasks
        found["hdrf"] = f"hdrf:by=({','.join(instance.teams.outermost_first)})"
    if instance.derived.has_guarantees:
        found["surplus"] = "Policy(Leximin(Surplus()))"
    if instance.rates is not None:
        found["throughput"] = "Policy(Leximin(ThroughputShare()))"
        found["nash-throughput"] = "Policy(AlphaFair(1, ThroughputShare()))"
        found["most-throughput"] = "Policy(Total(ThroughputShare()))"
    return found


def answered(instance: fo.Instance, notion: str, policy: str) -> Answer:
    """What is known of a notion on an instance."""
    mechanism = named_policy(policy)
    try:
        allocation = mechanism.allocate(instance)
    except (Infeasible, OutOfDomain, Unbounded) as error:
        _check_infeasible(instance, mechanism, error)
        return Answer(notion, policy, STATUS[type(error)], reason=str(error))
    gap, why = _verified(allocation)
    exact = _exact(instance, mechanism, allocation)
    if exact is None and "cannot be checked" not in why and gap is None:
        raise Wrong(f"{notion}: {why}")
    found = _of_fractions(exact, notion, policy) if exact else _of_floats(allocation, notion, policy, gap)
    agreement = compared(found, instance, allocation)
    if not agreement:
        raise Wrong(f"{notion}: {agreement.reason}; {found}; {allocation.tasks.tolist()}")
    return found


def _verified(allocation: fo.Allocation) -> tuple[float | None, str]:
    """The gap that `fo.verify` proves from the file, or why it proves none."""
    with tempfile.TemporaryDirectory() as folder:
        proof = fo.verify(allocation.save(Path(folder) / "answer.json"), allocation.instance)
    return (proof.gap, "") if proof.ok else (None, str(proof))


# -- in fractions ---------------------------------------------------------------------------------------------------


@dataclass
class Exact:
    """An answer in fractions: tasks are those of users where they are unique."""

    value: Fraction | None
    tasks: Row | None = None
    levels: Row | None = None
    unit: Fraction | None = None
    interval: tuple[float, float] | None = None
    proof: str = "exact fractions"


def decimal(x: float) -> Fraction:
    """The shortest decimal that prints a float, as a fraction."""
    return Fraction(repr(float(x)))


def table(values: Any) -> Any:
    """Arrays of floats as nested lists of fractions."""
    return [table(v) for v in values] if isinstance(values, (list, np.ndarray)) else decimal(values)


def weights_of(instance: fo.Instance) -> Row:
    """Weights of users: those of a team are divided among its members in proportion to their own."""
    found = [decimal(w) for w in instance.own_weights]
    members = instance.teams.names
    given = [team for team in members if team in instance.team_weights]  # those under inner labels come first
    for name in sorted(given, key=lambda team: len(members[team])):
        whole = sum((found[j] for j in members[name]), Fraction(0))
        for j in members[name]:
            found[j] *= decimal(instance.team_weights[name]) / whole
    if not np.allclose([float(w) for w in found], instance.weights, rtol=1e-12):
        raise Wrong(f"weights {found}, not {instance.weights}")
    return found


def cluster_of(instance: fo.Instance) -> Cluster:
    """The instance in fractions, with rows of the users' guarantees."""
    cluster = Cluster(
        np.array(table(instance.demands), dtype=object),
        np.array(table(instance.capacities), dtype=object),
        weights_of(instance),
        [None if math.isinf(t) else decimal(t) for t in instance.task_limits],
        instance.eligible.tolist(),
        instance.counts.tolist(),
        None if instance.rates is None else table(instance.rates),
    )
    for j, least in enumerate(instance.guarantees):
        if least > 0:
            least, limit = decimal(least), cluster.limits[j]
            floor = least if limit is None else min(least, limit)
            cluster.rows.append(([-Fraction(k == j) for k, _ in cluster.pairs], -floor))
    return cluster


def worth_of(cluster: Cluster, share: Any) -> Any:
    """What a task of each user is worth on each server; None of shares that are no fractions here."""
    if isinstance(share, fo.Tasks):
        return cluster.tasks()
    if isinstance(share, fo.DominantShare):
        return cluster.dominant()
    if isinstance(share, fo.KDominantShare) and share == fo.KDominantShare(share.k):
        return cluster.dominant(share.k)
    if isinstance(share, fo.StandAloneShare):
        return cluster.alone()
    if isinstance(share, fo.ThroughputShare):
        return cluster.throughput()
    return None


def _exact(instance: fo.Instance, policy: Any, allocation: fo.Allocation) -> Exact | None:
    """The answer in fractions, or None where it is not rational or too slow to compute so."""
    small = 0 < instance.eligible.sum() <= PAIRS and _digits(instance) <= DIGITS
    if isinstance(policy, fo.HDRF):
        return (_hierarchical(instance, policy) if small else None) or _by_allocate(instance, policy)
    if not isinstance(policy, fo.Policy):
        return None
    if not small:
        return _by_allocate(instance, policy)
    objective = policy.objective
    if policy.constraints or instance.team_guarantees or type(objective).__name__ == "WeightedLog":
        return _by_allocate(instance, policy)
    (share, *_) = objective.share_blocks()
    cluster = cluster_of(instance)
    worth = worth_of(cluster, share)
    if worth is None:
        return _by_allocate(instance, policy)
    if not cluster.users:
        return Exact(Fraction(0), [Fraction(0)] * instance.n_users, None, Fraction(0))
    levels = cluster.forms(worth)
    match type(objective).__name__:
        case "Leximin":
            found = exact_lp.leximin(levels, cluster.rows)
            return Exact(min(found), _tasks(cluster, worth, found), found, min(found))
        case "MaxMin":
            value = exact_lp.smallest(levels, cluster.rows)
            return Exact(value, unit=value)
        case "OrderedWeighted":
            value = exact_lp.ordered(levels, list(map(Fraction, objective.weights)), cluster.rows)
            return Exact(value, unit=value)
        case "Total":
            forms = cluster.forms(worth, per_weight=False)
            best = exact_lp.maximise([sum(column, Fraction(0)) for column in zip(*forms, strict=True)], cluster.rows)
            return Exact(best.value, unit=best.value)
        case "AlphaFair":
            return _curved(cluster, worth, Fraction(repr(objective.alpha)), allocation)
    return None


def _digits(instance: fo.Instance) -> int:
    """Digits of the demands on servers where users may run, and of capacities."""
    demands = instance.per_server_demands[instance.eligible]
    return sum(
        len(repr(float(x)).rstrip("0").replace(".", "")) for x in (*demands.ravel(), *instance.capacities.ravel())
    )


def _tasks(cluster: Cluster, worth: Any, levels: Sequence[Fraction]) -> Row | None:
    """Tasks of all users at levels; None where a task is not worth the same on all servers."""
    tasks = [Fraction(0)] * cluster.n
    for j, level in zip(cluster.users, levels, strict=True):
        values = {Fraction(worth[j][s]) for k, s in cluster.pairs if k == j}
        if len(values) > 1:
            return None
        (value,) = values
        tasks[j] = level * cluster.weights[j] / value
    return tasks


def _curved(cluster: Cluster, worth: Any, alpha: Fraction, allocation: fo.Allocation) -> Exact | None:
    """The optimum of alpha-fairness, where it is rational.

    A point is optimal if and only if it maximises its own tangent, which is a linear program.
    """
    if alpha.denominator != 1 or _tasks(cluster, worth, [Fraction(1)] * len(cluster.users)) is None:
        return None
    guess = [Fraction(float(x)).limit_denominator(LARGEST_DENOMINATOR) for x in allocation.tasks]
    if any(guess[j] <= 0 for j in cluster.users):
        return None
    value = {j: next(Fraction(worth[j][s]) for k, s in cluster.pairs if k == j) for j in cluster.users}
    level = {j: value[j] * guess[j] / cluster.weights[j] for j in cluster.users}
    slope = {j: value[j] * level[j] ** -int(alpha) for j in cluster.users}
    of_user = [([Fraction(k == j) for k, _ in cluster.pairs], guess[j]) for j in cluster.users]
    try:
        exact_lp.maximise([0] * len(cluster.pairs), cluster.rows, of_user)
    except exact_lp.NoPoint:
        return None
    best = exact_lp.maximise([slope[j] for j, _ in cluster.pairs], cluster.rows).value
    if best != sum((slope[j] * guess[j] for j in cluster.users), Fraction(0)):
        return None
    proof = "exact fractions: the tasks maximise the tangent of the objective"
    whole = sum((cluster.weights[j] for j in cluster.users), Fraction(0))
    if alpha == 1 and all(z == 1 for z in level.values()):
        return Exact(Fraction(0), guess, None, whole, None, proof)
    if alpha == 1:
        return Exact(None, guess, None, whole, _logarithms(cluster, level), proof)
    total = sum((cluster.weights[j] * level[j] ** (1 - int(alpha)) for j in cluster.users), Fraction(0))
    return Exact(total / (1 - int(alpha)), guess, None, abs(total), None, proof)


def _logarithms(cluster: Cluster, level: dict[int, Fraction]) -> tuple[float, float]:
    """Two floats that enclose a weighted sum of logarithms."""
    with localcontext(Context(prec=60)):
        total = sum(
            (
                _ratio(cluster.weights[j]) * (Decimal(z.numerator).ln() - Decimal(z.denominator).ln())
                for j, z in level.items()
            ),
            Decimal(0),
        )
        return enclosed(Fraction(total), Fraction(1, 10**40))


def _ratio(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def enclosed(x: Fraction, error: Fraction = Fraction(0)) -> tuple[float, float]:
    """Two floats around a number known to within an error."""
    low, high = float(x - error), float(x + error)
    if Fraction(low) > x - error:
        low = math.nextafter(low, -math.inf)
    if Fraction(high) < x + error:
        high = math.nextafter(high, math.inf)
    return low, high


def _hierarchical(instance: fo.Instance, policy: fo.HDRF) -> Exact | None:
    """Hierarchical DRF filled in fractions; None with guarantees, which the oracle takes in another form."""
    if instance.derived.has_guarantees or (instance.demands.ndim == 3) or (instance.counts > 1).any():
        return None
    own, given = [decimal(w) for w in instance.own_weights], dict(instance.team_weights)
    given |= dict(policy.weights or {})
    tree: Any = (Fraction(1), [])
    places: dict[Any, Any] = {}
    for j in range(instance.n_users):
        at, path = tree, ()
        for label in policy.by:
            name = instance.teams[label][j]
            if name is None:
                continue
            path += ((label, name),)
            if path not in places:
                places[path] = (decimal(given.get(name, 1.0)), [])
                at[1].append(places[path])
            at = places[path]
        at[1].append(j)
    weights = [decimal(given.get(user, w)) for user, w in zip(instance.users, own, strict=True)]
    limits = [None if math.isinf(t) else decimal(t) for t in instance.task_limits]
    problem = hierarchy.Problem(
        table(instance.demands), table(instance.capacities), tree, weights, limits, instance.eligible.tolist()
    )
    return Exact(None, hierarchy.filled(problem))


def _by_allocate(instance: fo.Instance, policy: Any) -> Exact | None:
    """The answer of ``allocate(exact=True)``, where fairopt has it and the optimum is rational."""
    if "exact" not in inspect.signature(policy.allocate).parameters or not 0 < instance.n_users <= MOST_LISTED:
        return None
    try:
        allocation = policy.allocate(instance, exact=True)
    except OutOfDomain:
        return None
    if allocation.certificate.gap != 0:
        raise Wrong(f"{policy}: an exact answer with a gap of {allocation.certificate.gap}")
    rows = [list(map(Fraction, row)) for row in allocation.exact_tasks]
    proof = "exact fractions, by allocate(exact=True)"
    if isinstance(policy, fo.HDRF):
        return Exact(None, [sum(row, Fraction(0)) for row in rows], proof=proof)
    objective = policy.objective
    shares = objective.share_blocks()
    cluster = cluster_of(instance)
    worth = worth_of(cluster, shares[0]) if len(shares) == 1 else None
    if worth is None and type(objective).__name__ == "Leximin" and _unique_tasks(allocation) is not None:
        return Exact(None, [sum(row, Fraction(0)) for row in rows], proof=proof)
    if worth is None:
        return None
    at = [rows[j][s] for j, s in cluster.pairs]
    levels = [exact_lp.dot(form, at) for form in cluster.forms(worth)]
    match type(objective).__name__:
        case "Leximin":
            return Exact(min(levels), _tasks(cluster, worth, levels), levels, min(levels), proof=proof)
        case "MaxMin":
            return Exact(min(levels), unit=min(levels), proof=proof)
        case "OrderedWeighted":
            weights = list(map(Fraction, objective.weights))
            value = sum((w * z for w, z in zip(weights, sorted(levels), strict=False)), Fraction(0))
            return Exact(value, unit=value, proof=proof)
        case "Total":
            value = sum((exact_lp.dot(form, at) for form in cluster.forms(worth, per_weight=False)), Fraction(0))
            return Exact(value, unit=value, proof=proof)
    return None


def _of_fractions(exact: Exact, notion: str, policy: str) -> Answer:
    interval, value = exact.interval, exact.value
    if interval is None and value is not None:
        interval = enclosed(value)
    return Answer(
        notion,
        policy,
        exact=True,
        value=value if value is not None and len(str(value)) <= LONGEST else None,
        interval=interval,
        levels=_listed(exact.levels),
        tasks=_listed(exact.tasks),
        unit=None if exact.unit is None else float(exact.unit),
        gap=0.0,
        proof=exact.proof,
    )


def _listed(values: Row | None) -> tuple[Any, ...] | None:
    """Fractions, or the nearest floats where these have too many digits; nothing of too many users."""
    if values is None or len(values) > MOST_LISTED:
        return None
    return tuple(values) if max(len(str(x)) for x in (*values, 0)) <= LONGEST else tuple(map(float, values))


# -- in floats ------------------------------------------------------------------------------------------------------


def _of_floats(allocation: fo.Allocation, notion: str, policy: str, gap: float | None) -> Answer:
    """The answer of floats, whose gap `fo.verify` proves, or else only its certificate."""
    proof = "certified, and proved by fo.verify" if gap is not None else "certified"
    gap, mechanism = allocation.certificate.gap if gap is None else gap, allocation.policy
    if not isinstance(mechanism, fo.Policy):
        return Answer(notion, policy, tasks=_unique_tasks(allocation), gap=gap, proof=proof)
    objective, value = mechanism.objective, float(allocation.objective)
    leximin, listed = type(objective).__name__ == "Leximin", allocation.instance.n_users <= MOST_LISTED
    unit = abs(value) if leximin else _unit(objective, allocation)
    interval = _around(value, unit, gap, allocation.certificate.violation)
    if (bounds := _bounds(allocation)) is not None:
        if bounds[1] < interval[0] or interval[1] < bounds[0]:
            raise Wrong(f"{policy}: between {bounds} by exact_bounds, and {interval} in floats")
        interval, proof = bounds, f"{proof}; its interval by exact_bounds"
    curved = type(objective).__name__ == "AlphaFair" and objective.alpha > 0 and gap <= 1e-12
    return Answer(
        notion,
        policy,
        interval=interval,
        levels=tuple(levels_of(allocation).tolist()) if leximin and listed else None,
        tasks=_unique_tasks(allocation) if leximin or curved else None,
        unit=unit,
        gap=gap,
        proof=proof,
    )


def _bounds(allocation: fo.Allocation) -> tuple[float, float] | None:
    """Two floats that certainly enclose the optimal value; None if there are no such bounds, or too many users."""
    if allocation.instance.n_users > MOST_LISTED:
        return None
    try:
        found = allocation.exact_bounds(width=WIDTH)
    except (OutOfDomain, NotCertified) as error:
        print(f"  {allocation.policy}: {error}")
        return None
    return enclosed(found.lower)[0], enclosed(found.upper)[1]


def _unit(objective: Any, allocation: fo.Allocation) -> float:
    """How much the value changes per relative change of all tasks."""
    value = abs(float(allocation.objective))
    if type(objective).__name__ == "AlphaFair":
        weights = allocation.instance.weights[allocation.instance.task_limits > 0]
        return float(weights.sum()) if objective.alpha == 1 else abs(1 - objective.alpha) * value
    if type(objective).__name__ == "WeightedLog":
        return max(value, 1.0)
    return value


def _around(value: float, unit: float, gap: float, violation: float) -> tuple[float, float]:
    """Bounds of the optimum: an answer within capacities may be worse by its violation, and a better one by its gap."""
    slack = ROUNDING * max(unit, abs(value))
    return value - slack - unit * violation, value + slack + unit * (gap + violation) * (1 + 2 * gap)


def _unique_tasks(allocation: fo.Allocation) -> tuple[float, ...] | None:
    """Tasks where they are unique: a task of a user is worth the same on all servers."""
    instance = allocation.instance
    if instance.demands.ndim == 3 or instance.rates is not None or instance.n_users > MOST_LISTED:
        return None
    return tuple(allocation.tasks.tolist())


def _check_infeasible(instance: fo.Instance, policy: Any, error: Exception) -> None:
    """Confirm in fractions that nothing fits, where guarantees alone say so."""
    if not isinstance(error, Infeasible) or policy.constraints or instance.team_guarantees:
        return
    cluster = cluster_of(instance)
    try:
        exact_lp.maximise([0] * len(cluster.pairs), cluster.rows)
    except exact_lp.NoPoint:
        return
    raise Wrong(f"{error}, but a point exists")


def exact_bundles(instance: fo.Instance, policy: str) -> Answer:
    """Tasks under MLF-DRS or H-FFMRA in exact fractions."""
    (here,) = [name for name in ("mlf-drs", "h-ffmra") if policy == name]
    demands, capacities = table(instance.per_server_demands), table(instance.capacities)
    if here == "mlf-drs":
        held = [[row] for row in bundles.mlf_drs([rows[0] for rows in demands], capacities[0])]
    else:
        held = bundles.hffmra(demands, capacities)
    by_server = bundles.tasks(demands, held)
    answer = Answer(
        here,
        policy,
        exact=True,
        tasks=tuple(sum(row, Fraction(0)) for row in by_server),
        gap=0.0,
        proof="exact fractions",
    )
    if not (agreement := compared(answer, instance, named_policy(policy).allocate(instance))):
        raise Wrong(f"{policy}: {agreement.reason}")
    return answer
