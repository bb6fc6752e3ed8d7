"""Constraints as bounds and rows (`impose`), and feasibility (`infeasible`).

Loads, limits, eligibility and rows hold at the tasks in fractions, up to the tolerances of certificates: 1e-9 of a
capacity or limit, 1e-7 of the size of a constraint. User j does not envy k if
``(w_j / w_k) sum_s x_ks min_i d_ksi / d_jsi <= x_j``: what it could run with k's resources, per weight (Ghodsi et al.
2011).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from .blocks import CONDITIONS
from .instance import Cluster
from .numbers import (
    BLOCK_VIOLATION,
    ONE,
    VIOLATION,
    ZERO,
    Fraction,
    LinearRow,
    RowName,
    Rows,
    exact_sum,
    number,
    together,
)
from .outcome import CannotCheck, Fault
from .policy import COMPOSED, PARAMETERS, Block, as_max_min, is_linear
from .sums import Goal, in_goal_units, value_of
from .teams import LIMITED, TeamNumbers

PAIRS, FLOAT_PAIRS = 160_000, 20_000_000  # pairs of users compared for envy in fractions and in floats: some seconds


def impose(cluster: Cluster, condition: Block, place: int | str) -> Rows:
    """Apply the constraint of a place: bounds and reserves update `low`, `high` and `usable`; others return rows."""
    name, given = condition.name, condition.given
    cluster.imposed.add(name)
    if name == "MinTasks" and given.get("or_zero"):
        _check_or_zero(cluster, condition)
        raise CannotCheck(
            f"{condition.text}: tasks are 0 or at least so many, but that no others are better is proved by branch and "
            "bound, which `Allocation.load` repeats and this check does not"
        )
    if name in ("MinTasks", "MaxTasks"):
        bounds = cluster.of_user(given["tasks"], condition.text, name == "MaxTasks")
        for j in cluster.active:
            _bound_tasks(cluster, j, bounds[j], name == "MaxTasks")
    elif name == "SharingIncentive":
        whole = sum(cluster.weights)
        for j in cluster.active:
            entitled = (
                cluster.weights[j] / whole * exact_sum(cluster.tasks_alone(j, s) or ZERO for s in cluster.open[j])
            )
            limit = cluster.limits[j]
            _bound_tasks(cluster, j, entitled if limit is None else min(entitled, limit), False)
    elif name == "Reserve":
        i, part = cluster.resource(given["resource"]), number(given["fraction"], condition.text, 0)
        cluster._most_tasks.clear()
        cluster.usable[i] = min(cluster.usable[i], number(1 - part, f"what {condition.text} leaves", 0))
    elif name in ("MinShare", "MaxShare"):
        return _share_bounds(cluster, condition, place)
    elif name in CONDITIONS:
        return CONDITIONS[name].rows(cluster, condition, place)
    elif name == "EnvyFree":
        named = cluster.binding
        if named is None:
            _check_pairs(cluster, len(cluster.active) ** 2, PAIRS)
            named = [(j, k) for j in cluster.active for k in cluster.active if j != k]
        found = {pair: row for pair in named if (row := envy(cluster, *pair, place))}
        cluster.envied |= found
        return list(found.values())
    elif name == "AtLeast" and all(term.name in PARAMETERS for _, term in given["objective"].terms):
        return _level(cluster, condition, place)
    else:
        return cluster.as_written.of(condition, place)
    return []


def _check_or_zero(cluster: Cluster, condition: Block) -> None:
    """`Fault` if tasks of a user, or of a user on a server, are between 0 and their bound."""
    given, text = condition.given["tasks"], condition.text
    if isinstance(given, list) and given and isinstance(given[0], list):
        table, tasks = [[number(v, text, 0) for v in row] for row in given], cluster.tasks
    else:
        table = [[v or ZERO] for v in cluster.of_user(given, text, False)]
        tasks = [[cluster.total(j)] for j in range(cluster.n)]
    for user, least, has in zip(cluster.users, table, tasks, strict=True):
        for v, x in zip(least, has, strict=True):
            if 0 < x < v * (1 - BLOCK_VIOLATION):
                raise Fault(f"{text}: user {user!r} runs {float(x):.9g} tasks, neither 0 nor {float(v):.9g} or more")


def _bound_tasks(cluster: Cluster, j: int, bound: Fraction | None, from_above: bool) -> None:
    cluster._most_tasks.pop(j, None)
    if bound is None:
        return
    if not from_above:
        cluster.low[j] = max(cluster.low[j], bound)
    elif cluster.high[j] is None or bound < cluster.high[j]:
        cluster.high[j] = bound


def _share_bounds(cluster: Cluster, condition: Block, place: int | str) -> Rows:
    """Bounds on shares: bounds on tasks if a task's share is the same on all servers, else rows.

    A bound that names a team is a row of the sum of its members' shares, after those of users.
    """
    level, name = condition.given["level"], condition.name
    if "OfTeam" not in (condition.share.name, condition.share.share.name) and isinstance(level, dict):
        of_teams = {t: v for t, v in level.items() if t not in {*cluster.users}}
        if of_teams:
            of_users = {**condition.given, "level": {t: v for t, v in level.items() if t not in of_teams}}
            sums = TeamNumbers(cluster, condition.share).of_teams(of_teams, name == "MaxShare", condition.text, place)
            return _share_bounds(cluster, Block(name, of_users, condition.text), place) + sums
    if condition.share.name in COMPOSED:
        return TeamNumbers(cluster, condition.share).bounded(level, name == "MaxShare", condition.text, place)
    most, rows, alike = name == "MaxShare", Rows(), cluster.same_on_servers(condition.share)
    levels = cluster.of_user(condition.given["level"], condition.text, most)
    c, sign = cluster.coefficients(condition.share)[0 if most else 1], 1 if most else -1
    for j in cluster.active:
        level, one = levels[j], c[j][cluster.open[j][0]]
        if level is None or (level == 0 and not most):
            continue
        if alike and one > 0:
            _bound_tasks(cluster, j, level / one, most)
        elif alike and not most:
            raise Fault(f"{condition.text}: tasks of user {cluster.users[j]!r} have no such share")
        elif not alike and level == 0 and all(c[j][s] > 0 for s in cluster.open[j]):
            _bound_tasks(cluster, j, ZERO, True)
        elif not alike:
            row = {(j, s): sign * c[j][s] / (level or 1) for s in cluster.open[j]}
            name_of = RowName(place, str(cluster.users[j]), level or ONE)
            rows.append(LinearRow(row, Fraction(sign if level else 0), False, name_of))
    return rows


def _level(cluster: Cluster, condition: Block, place: int | str) -> Rows:
    """A lower level of an objective: a row if it is a sum of shares, bounds if it is the smallest share, else
    `kept_levels`.
    """
    objective, level = condition.given["objective"], number(condition.given["level"], "a level")
    factor, smallest = as_max_min(objective)
    if smallest.name == "MaxMin" and smallest.share.name in COMPOSED:
        compared = TeamNumbers(cluster, smallest.share, levelled=True)
        lowest = level / factor if smallest.share.name == "Surplus" else max(level / factor, ZERO)
        each = {t: lowest * w for t, w in compared.weights.items()}
        return compared.bounded(each, False, condition.text, place)
    if smallest.name == "MaxMin" and cluster.same_on_servers(smallest.share):
        of_users = [max(level / factor, ZERO) * w for w in cluster.weights]
        least = Block("MinShare", {"level": of_users, "share": smallest.share}, condition.text)
        return _share_bounds(cluster, least, place)
    if not is_linear(objective):
        if any(term.name == "FairnessEfficiency" for _, term in objective.terms):
            raise CannotCheck(f"{condition.text} bounds an objective that is not an alpha-fair sum")
        cluster.kept_levels.append((objective, in_goal_units(cluster, objective, level), abs(level) or ONE))
        cluster.kept_places.append(place)
        return []
    goal = Goal(cluster)
    goal.add(objective, ONE)
    row = {(j, s): -goal.slopes[j][s] for j in cluster.active for s in cluster.open[j]}
    return [LinearRow(row, goal.constant.high - level, False, RowName(place))]


def envy(cluster: Cluster, j: int, k: int, place: int | str = "") -> LinearRow | None:
    """The row ``(w_j / w_k) sum_s x_ks min_i d_ksi / d_jsi - x_j <= 0``; None if j can never envy k."""
    theirs = {}
    for s in {*cluster.open[k]} & {*cluster.open[j]} if cluster.limits[j] != 0 != cluster.limits[k] else ():
        mine, other = cluster.demands[j][s], cluster.demands[k][s]
        runs = min((b / a for a, b in together(mine, other) if a > 0), default=ZERO)
        if runs > 0:
            theirs[k, s] = runs * cluster.weights[j] / cluster.weights[k]
    name = RowName(place, (str(cluster.users[j]), str(cluster.users[k])))
    return LinearRow(theirs | {(j, s): Fraction(-1) for s in cluster.open[j]}, ZERO, False, name) if theirs else None


def envies(cluster: Cluster) -> list[str]:
    """The pairs of users with envy, as faults."""
    faults = list[str]()
    for j, others in envy_candidates(cluster).items():
        cluster.clock.check()
        for k in others:
            row = None if j == k else envy(cluster, j, k)
            excess, size = (ZERO, ZERO) if row is None else row_excess(cluster, row)
            if excess > BLOCK_VIOLATION * size:
                faults.append(f"user {cluster.users[j]!r} envies {cluster.users[k]!r} by {float(excess / size):.2g}")
    return faults


def envy_candidates(cluster: Cluster) -> dict[int, list[int]]:
    """The users whom a user may envy, for one user of each kind: those with the same demands on the same servers.

    Envy depends on tasks per weight, so that the member with least envies most; if all users may run everywhere
    with the same demands, the member with most is envied most.

    If all users may run everywhere with the same demands, floats exclude most pairs: j does not envy k if
    ``x_k d_ki / w_k <= x_j d_ji / w_j`` for some resource i that j needs. Candidates are sorted by these numbers.
    """
    # half the tolerance of constraints: what floats exclude is no envy in fractions, 1e-16 aside
    wide, kinds = 1 + float(BLOCK_VIOLATION) / 2, dict[Any, list[int]]()
    for j in cluster.active:
        own = cluster.demands[j] if cluster.by_server else cluster.demands[j][:1]
        kinds.setdefault((*cluster.open[j], *(d for row in own for d in row)), []).append(j)
    per_weight = {j: cluster.total(j) / cluster.weights[j] for j in cluster.active}
    least, users = [min(kind, key=per_weight.__getitem__) for kind in kinds.values()], cluster.active
    if not cluster.by_server and all(len(cluster.open[j]) == cluster.servers for j in cluster.active):
        users = [max(kind, key=per_weight.__getitem__) for kind in kinds.values()]
        holds = [
            [float(d * cluster.total(j) / cluster.weights[j]) for d in cluster.demands[j][0]] for j in range(cluster.n)
        ]
        numbers = [v for row in holds for v in row if v]
        if min(numbers, default=1.0) > 1e-150 and max(numbers, default=1.0) < 1e150:  # products within floats
            order = [sorted((holds[k][i], k) for k in users) for i in range(cluster.m)]
            needed = {j: [(i, v * wide) for i, v in enumerate(holds[j]) if v] for j in least}
            # of the resources of j that which leaves the fewest candidates
            above = {
                j: max(((bisect_right(order[i], (v, cluster.n)), i) for i, v in needs), default=(0, 0))
                for j, needs in needed.items()
            }
            _check_pairs(cluster, sum(len(users) - at for at, _ in above.values()), FLOAT_PAIRS)
            return {
                j: [k for _, k in order[i][at:] if all(holds[k][i] > v for i, v in needed[j])]
                for j, (at, i) in above.items()
            }
    _check_pairs(cluster, len(least) * len(users), PAIRS)
    return dict.fromkeys(least, users)


def _check_pairs(cluster: Cluster, pairs: int, most: int) -> None:
    if pairs > most:
        raise CannotCheck(
            f"checking envy among {len(cluster.active):,} users takes {pairs:,} comparisons; the limit is {most:,}"
        )


def infeasible(cluster: Cluster, rows: Rows) -> list[str]:
    """Violations beyond tolerance, each relative to the size of its capacity or row."""
    faults = []
    for (s, i), usable in cluster.usable_units().items():
        cluster.clock.check()
        load, room = cluster.load(s, i), cluster.room[s][i]
        if load > room * (1 + VIOLATION):
            over = f"by {float(load / room - 1):.2g} of it" if room else "of 0"
            faults.append(f"{cluster.resources[i]!r} on server {s}: tasks exceed the capacity {over}")
        elif load > usable * (1 + BLOCK_VIOLATION):
            faults.append(f"{cluster.resources[i]!r} on server {s}: tasks use reserved capacity")
    least, most = 1 - BLOCK_VIOLATION, 1 + BLOCK_VIOLATION
    for j in range(cluster.n):
        total, limit, low, high = cluster.total(j), cluster.limits[j], cluster.low[j], cluster.high[j]
        x, may, wrong = cluster.tasks[j], cluster.open[j], list[str]()
        if any([v.n < 0 for v in x]) or (len(may) < len(x) and any(v for s, v in enumerate(x) if s not in may)):
            wrong.append("has negative tasks, or tasks where it may not run")
        if limit is not None and total > limit * (1 + VIOLATION):
            wrong.append(f"runs {float(total):.9g} tasks, more than its limit {float(limit):.9g}")
        if (low.n and total < low * least) or (high is not None and total > high * most):
            wrong.append(f"runs {float(total):.9g} tasks, outside the bounds of the policy's constraints")
        faults += [f"user {cluster.users[j]!r} {what}" for what in wrong]
    floors = [(team, i) for team, floor in cluster.floors.items() for i in floor]
    for k, row in enumerate(rows):
        excess, size = row_excess(cluster, row)
        if excess > BLOCK_VIOLATION * size and k < len(floors):
            held, floor = (f"{float(v):.9g}" for v in (-excess - row.bound, -row.bound))
            (team, i), has = floors[k], f"holds {held} of the {floor}"
            faults.append(f"team {team!r} {has} {cluster.resources[i]!r} guaranteed to it")
        elif excess > BLOCK_VIOLATION * size and row.name.place == LIMITED:
            faults.append(f"the limit {row.name.of!r} is exceeded by {float(excess / size):.2g} of it")
        elif excess > BLOCK_VIOLATION * size:
            faults.append(
                f"row {k - len(floors)} of the policy's constraints is violated by {float(excess / size):.2g}"
            )
    faults += envies(cluster) if "EnvyFree" in cluster.imposed else []
    below = [
        kept for kept, level, unit in cluster.kept_levels if value_of(cluster, kept) < level - BLOCK_VIOLATION * unit
    ]
    return faults + [f"{kept.text} is below its level" for kept in below]


def row_excess(cluster: Cluster, row: LinearRow) -> tuple[Fraction, Fraction]:
    """By how much the tasks violate a row, and the row's size."""
    of_pairs, bound, equal, _ = row
    terms = [v * cluster.tasks[j][s] for (j, s), v in of_pairs.items()]
    excess, most = sum(terms, -bound), exact_sum(t for t in terms if t > 0)
    # the size is the largest of the bound, the positive and the negative terms: these may cancel
    return max(excess, -excess if equal else ZERO, ZERO), max(abs(bound), most, most - sum(terms))
