"""The proof that exact tasks are optimal, from the multipliers beside them, in rational numbers without tolerance.

For a linear function ``q @ x`` of tasks, prices p >= 0 of capacities C and multipliers y of rows ``A x <= b`` (free for
equations), every feasible x has

    q @ x <= p @ C + y @ b + sum_j max over low_j <= T <= most_j of  T max_s (q_js - p_s @ d_js - y @ A_js).

By strong duality an optimum in rationals has rational multipliers at which this is an equation, so that the comparison
is ``>`` and not "more than a tolerance" (Propositions 15.1, 15.3 and 5.17 in docs/methods). Ranked terms enter by
mixtures, weights u whose k smallest sum to at least v's for every k.

Why a proof at all, where exact pivots end at an optimum: a program that was written wrong has an optimum too. Here the
rows are made from blocks and instance a second time, at the tasks, and multipliers alone come from the program. A wrong
one makes the bound larger, never smaller. `fairopt verify` proves the same of a file by code of its own; here it stands
between the linear programs and the gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairopt.blocks.algebra import Objective, tiers_of
from fairopt.blocks.shares import Share
from fairopt.errors import OutOfDomain
from fairopt.exact import bundles
from fairopt.exact.cluster import Cluster, Number, Pair, Rows, Table, text
from fairopt.exact.rationals import Rational, brief, rational, read, total
from fairopt.exact.tiers import KeptGoal, Ranked, Tier, at_base, tiers


class _NotProved(Exception):
    """What the numbers do not prove."""


def prove(cluster: Cluster, policy: Any, tasks: Table, proof: Sequence[Mapping[str, Any]]) -> Rational | None:
    """Prove tasks of a policy, and give the value of its first tier; `_NotProved` if they are not optimal.

    None for bundles, which are divided again and compared.
    """
    if bundles.decides_bundles(policy):  # a closed form, and no multipliers
        _prove_bundles(cluster, policy, tasks, proof[0]["bundles"])
        return None
    value, objectives = None, tiers_of(policy.objective)
    for k, tier in enumerate(tiers(cluster, policy, settled(cluster, proof), lambda: tasks)):
        if faults := broken(cluster, tasks, tier.rows, tier.kept):
            raise _NotProved(faults[0])
        value = tier.value(tasks) if value is None else value
        if tier.compared is None:
            _prove_goal(cluster, tier, tasks, proof[k])
            _prove_rise(cluster, objectives[k], tier, tasks, proof[k].get("rising") or {})
            continue
        proved = _prove_levels(cluster, tier, tasks, proof[k]["levels"])
        if left := tier.compared.keys() - proved.keys():
            raise _NotProved(f"nothing proves the level of {min(left)!r}")
    return value


def settled(cluster: Cluster, proof: Sequence[Mapping[str, Any]]) -> Any:
    """Who cannot rise above the base of a surplus, by the levels of a proof."""

    def settle(k: int, share: Share, tier: Tier) -> set[str]:
        levels = (proof[k].get("at_base") or {}).get(text(share)) or ()
        fixed = _prove_levels(cluster, tier, None, levels)  # at levels of 0, wherever tasks are
        if any(fixed.values()):
            raise _NotProved(f"{share}: a number that leaves is above its base")
        return {*fixed}

    return settle


def _prove_bundles(cluster: Cluster, policy: Any, tasks: Table, given: Any) -> None:
    if any(cluster.guarantees) or cluster.instance.team_guarantees:
        raise OutOfDomain("bundles do not keep guarantees")
    best = bundles.optimal_bundles(cluster, policy)
    held = [[[read(a) for a in row] for row in of_user] for of_user in given]
    runs = bundles.tasks_in(cluster, best)
    for user, *pairs in zip(cluster.users, held, best, tasks, runs, strict=True):
        own, other, ran, fit = pairs
        if own != other or ran != fit:
            raise _NotProved(f"user {user!r} does not have the best bundle, or not the tasks that fit in it")
    if faults := broken(cluster, tasks, []):
        raise _NotProved(faults[0])


def broken(cluster: Cluster, tasks: Table, rows: Rows, kept: Sequence[KeptGoal] = ()) -> list[str]:
    """What tasks violate."""
    faults = list[str]()
    for (s, i), usable in cluster.units.items():
        if cluster.load(tasks, s, i) > usable:
            faults.append(f"{cluster.resources[i]!r} on server {s}: tasks exceed the capacity")
    for j, user in enumerate(cluster.users):
        runs, high, limit = total(tasks[j]), cluster.high[j], cluster.limits[j]
        elsewhere = any(x for s, x in enumerate(tasks[j]) if s not in cluster.open[j])
        if min(tasks[j]) < 0 or elsewhere:
            faults.append(f"user {user!r} has negative tasks, or tasks where it may not run")
        if any(end is not None and runs > end for end in (limit, high)) or runs < cluster.low[j]:
            faults.append(f"user {user!r} runs {brief(runs)} tasks, outside its bounds")
    for k, (of_pairs, bound, equal) in enumerate(rows):
        excess = total(v * tasks[j][s] for (j, s), v in of_pairs.items()) - bound
        if excess > 0 or (equal and excess):
            faults.append(f"row {k} of the policy's constraints is violated")
    return faults + ["a level is not kept" for goal, level in kept if goal.at(tasks) < level]


def _bound(cluster: Cluster, entry: Mapping[str, Any], rows: Rows, slopes: Mapping[Pair, Rational]) -> Rational:
    """At most the value of a linear function over all feasible tasks, by an entry's prices and multipliers."""
    units = cluster.units
    prices = {(s, i): read(p) for s, i, p in entry.get("prices") or ()}
    multipliers = {k: read(y) for k, y in entry.get("rows") or ()}
    if prices.keys() - units.keys() or multipliers.keys() - {*range(len(rows))}:
        raise _NotProved("prices or multipliers are of unknown places or rows")
    if any(p < 0 for p in prices.values()) or any(y < 0 and not rows[k].equal for k, y in multipliers.items()):
        raise _NotProved("a price or a multiplier is negative")
    value = total(p * units[place] for place, p in prices.items())
    value += total(y * rows[k].bound for k, y in multipliers.items())
    of_rows: dict[Pair, Rational] = {}
    for k, y in multipliers.items():
        _add(of_rows, rows[k].of_pairs, y)
    at_server: dict[int, list[tuple[int, Rational]]] = {}
    for (s, i), p in prices.items():
        at_server.setdefault(s, []).append((i, p))
    for j in cluster.active:
        nets = []
        for s in cluster.open[j]:  # a task is worth most on the best server
            need = cluster.demands[j][s]
            cost = total(p * need[i] for i, p in at_server.get(s, ()) if need[i])
            nets.append(slopes.get((j, s), 0) - cost - of_rows.get((j, s), 0))
        net = max(nets)
        if net > 0:
            most = cluster.most(j)  # a proven range: prices need not be exactly dual feasible
            if most is None:
                raise _NotProved(f"the prices give no bound for user {cluster.users[j]!r}")
            value += net * most
        elif net < 0:
            value += net * cluster.low[j]
    return value


def _add(slopes: dict[Pair, Rational], row: Mapping[Pair, Rational], times: Rational) -> None:
    """Add a multiple of a linear function."""
    for pair, v in row.items():
        slopes[pair] = slopes[pair] + times * v if pair in slopes else times * v


def _weighted(weights: Mapping[str, Rational], compared: Mapping[str, Number]) -> tuple[dict[Pair, Rational], Rational]:
    """A weighted sum of numbers as slopes by pair, and the weighted sum of bases."""
    slopes: dict[Pair, Rational] = {}
    for t, weight in weights.items():
        _add(slopes, compared[t].row, weight)
    return slopes, total(weight * compared[t].base for t, weight in weights.items())


def _weights(entry: Any, compared: Mapping[str, Number]) -> dict[str, Rational]:
    """Weights of numbers as a proof gives them."""
    weights = {str(t): read(v) for t, v in dict(entry).items()}
    if weights.keys() - compared.keys() or any(v < 0 for v in weights.values()):
        raise _NotProved("a weight is negative, or of an unknown user or team")
    return weights


def _prove_levels(cluster: Cluster, tier: Tier, tasks: Table | None, entries: Any) -> dict[str, Rational]:
    """The levels of numbers at every leximin optimum, by prices for each level from the lowest up.

    At prices of a level, ``sum_t pi_t z_t`` has a bound. Numbers of earlier levels are fixed, so the smallest of the
    others is at most what the bound leaves, per price. The tasks reach it; so does every optimum, in which all others
    with a price are at that level too. Without tasks the levels are 0.
    """
    compared, fixed = tier.compared or {}, dict[str, Rational]()
    at: dict[str, Any] = {t: rational(0) if tasks is None else one.at(tasks) for t, one in compared.items()}
    for k, entry in enumerate(entries):
        pi, others = _weights(entry["of_numbers"], compared), compared.keys() - fixed.keys()
        new = {t: p for t, p in pi.items() if t in others and p}
        if not new:
            raise _NotProved(f"level {k} has no price of a number that it fixes")
        slopes, base = _weighted(pi, compared)
        left = _upper(cluster, slopes, [], tier, entry) - base
        left -= total(p * fixed[t] for t, p in pi.items() if t in fixed)
        level: Any = min(at[t] for t in others)
        # `left` over the sum of these prices bounds the smallest of the numbers
        if left > level * total(new.values()):
            raise _NotProved(f"level {k}: the prices do not prove {brief(level)}")
        if any(at[t] != level for t in new):
            raise _NotProved(f"level {k}: not all numbers that it fixes are at it")
        fixed |= dict.fromkeys(new, level)
    return fixed


def _prove_goal(cluster: Cluster, tier: Tier, tasks: Table, entry: Any) -> None:
    """Prove that tasks maximise a goal, by prices, multipliers and mixtures of ranked terms."""
    goal = tier.goal
    top, value = _upper(cluster, goal.linear, goal.ranked, tier, entry) + goal.constant, goal.at(tasks)
    if top > value:
        raise _NotProved(f"the prices prove at most {brief(top)}, and the tasks reach {brief(value)}")


def _upper(
    cluster: Cluster, linear: Mapping[Pair, Rational], ranked: Sequence[Ranked], tier: Tier, entry: Mapping[str, Any]
) -> Rational:
    """The largest value of a linear function plus ranked terms, at most, where goals are kept above levels."""
    times = [read(y) for y in entry.get("kept") or ["0"] * len(tier.kept)]
    if len(times) != len(tier.kept) or any(y < 0 for y in times):
        raise _NotProved("multipliers of kept levels are missing or negative")
    slopes, constant = dict(linear), rational(0)
    terms = [(rational(1), term) for term in ranked]
    for y, (other, level) in zip(times, tier.kept, strict=True):
        constant += y * (other.constant - level)
        _add(slopes, other.linear, y)
        terms += [(y, term) for term in other.ranked]
    mixtures = entry.get("mixtures") or [{}] * len(terms)
    if len(mixtures) != len(terms):
        raise _NotProved(f"there are {len(mixtures)} mixtures, not {len(terms)}")
    for (y, term), given in zip(terms, mixtures, strict=True):
        weights: dict[str, Any] = {t: rational(0) for t in term.numbers} | _weights(given, term.numbers)
        mine = theirs = rational(0)
        for a, b in zip(sorted(weights.values()), sorted(term.v), strict=True):
            mine, theirs = mine + a, theirs + b * term.factor * y
            if mine < theirs:  # of some k the k smallest weights are too small (Hardy, Littlewood and Pólya 1934)
                raise _NotProved("the weights of a mixture do not bound sorted numbers")
        some, base = _weighted(weights, term.numbers)
        # numbers with a base may be negative: what the weights are more than v in sum counts at the lowest
        below = max((one.base for one in term.numbers.values()), default=rational(0))  # no number is less than minus it
        constant += (mine - theirs) * below - base
        _add(slopes, some, rational(1))
    return _bound(cluster, entry, tier.rows, slopes) + constant


def _prove_rise(cluster: Cluster, objective: Objective, tier: Tier, tasks: Table, given: Mapping[str, Any]) -> None:
    """Prove that the numbers of an objective that are at their base could rise, by tasks at which all are above it."""
    for name, compared in at_base(cluster, objective, tasks).items():
        who, table = min(t for t, one in compared.items() if not one.at(tasks)), cluster.empty()
        for j, s, x in given.get(name) or ():
            table[j][s] += read(x)
        if not all(one.at(table) > 0 for one in compared.values()) or broken(cluster, table, tier.rows, tier.kept):
            raise _NotProved(f"{name}: {who!r} is at its base, and nothing proves that it can rise")
