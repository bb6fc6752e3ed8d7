"""Shares and conditions on pairs from their definitions, by name: what a new one adds to the checker is here.

Dominant shares are those of Ghodsi et al. (2011), and on several servers of all of a resource (Wang et al. 2014);
beside them are products of the k largest ratios, p-norms between bounds, and shares of what a user could run alone.

Tasks of user j on server s are ``x_js``. A share of j is ``sum_s c_js x_js``; its formula gives ``c_js``. A condition
on pairs is rows ``sum v_js x_js <= bound``, or equations, in the order of the multipliers in files.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .numbers import ONE, ZERO, Between, Fraction, LinearRow, RowName, Rows, exact_sum, number, power
from .outcome import Fault


class Share(NamedTuple):
    """A share: the names of its parameters, and its coefficient of a user on a server."""

    parameters: tuple[str, ...]
    of: Callable[[Any, Any, int, int], Fraction | Between]  # of a `Cluster`, a `Block`, a user and a server
    by_server: bool = False  # whether servers matter even where demands are alike


class Condition(NamedTuple):
    """A condition on pairs: the names of its parameters, and its rows."""

    parameters: tuple[str, ...]
    rows: Callable[[Any, Any, Any], Rows]  # of a `Cluster`, a `Block`, and the place of the constraint


def _throughput(cluster: Any, share: Any, j: int, s: int) -> Fraction:
    """The rate of a user on a server over its throughput on an equal part of all servers, cut at its limit."""
    rates = [ONE] * cluster.servers if cluster.rates is None else cluster.rates[j]
    alone = {t: cluster.tasks_alone(j, t) or ZERO for t in cluster.open[j]}
    limit, hours = cluster.limits[j], exact_sum(alone.values())
    cut = min(ONE, limit * exact_sum(cluster.weights) / (cluster.weights[j] * hours)) if limit else ONE
    part: Fraction = cluster.n * rates[s] / (cut * exact_sum(rates[t] * tasks for t, tasks in alone.items()))
    return part


def _ratios(cluster: Any, j: int, s: int) -> list[Fraction]:
    return [d / c if c else ZERO for d, c in zip(cluster.demands[j][s], cluster.capacity)]


def _norm(cluster: Any, share: Any, j: int, s: int) -> Fraction | Between:
    if share.given["p"] in (0, math.inf):
        return SHARES["DominantShare" if share.given["p"] else "Tasks"].of(cluster, share, j, s)
    ratios, p = sorted(_ratios(cluster, j, s), reverse=True), number(share.given["p"], "p", 0)
    parts = [power(r / ratios[0], p) for r in ratios if r > 0]
    low, high = (power(exact_sum(q[k] for q in parts), 1 / p)[k] for k in (0, 1))
    return Between(low, high).times(ratios[0])


def _k_dominant(cluster: Any, share: Any, j: int, s: int) -> Fraction:
    ratios, ranks = sorted(_ratios(cluster, j, s), reverse=True), share.given.get("rank_weights")
    k, short = share.given["k"], share.given.get("short", "refuse")
    if type(k) is not int or not 1 <= k <= cluster.m or short not in ("refuse", "positive"):
        raise Fault(f"{share.text} is not defined for {cluster.m} resources")
    if short == "positive":
        ratios = [r if r > 0 else ONE for r in ratios]
    if isinstance(ranks, dict):
        if ranks.keys() - {*cluster.users}:
            raise Fault(f"{share.text} names an unknown user")
        ranks = ranks.get(cluster.users[j])
    elif isinstance(ranks, list) and isinstance(ranks[0], list):
        ranks = ranks[j] if len(ranks) == cluster.n else []
    ranks = [1] * k if ranks is None else ranks if isinstance(ranks, list) else [ranks]
    ranks = [number(w, "a rank weight") for w in ranks]
    if len(ranks) < k or min(ranks) <= 0:
        raise Fault(f"{share.text} needs a positive weight for each rank")
    return math.prod(ratios[:k] + ranks[:k], start=ONE)


SHARES = {
    "Tasks": Share((), lambda cluster, share, j, s: ONE),
    "DominantShare": Share((), lambda cluster, share, j, s: cluster.part_of_all.of(cluster.demands[j][s])),
    "StandAloneShare": Share(
        (),
        lambda cluster, share, j, s: 1 / exact_sum(cluster.tasks_alone(j, t) or ZERO for t in range(cluster.servers)),
    ),
    "ThroughputShare": Share((), _throughput, by_server=True),
    "PNormShare": Share(("p",), _norm),
    "ResourceShare": Share(
        ("resource",), lambda cluster, share, j, s: _ratios(cluster, j, s)[cluster.resource(share.given["resource"])]
    ),
    "KDominantShare": Share(("k", "rank_weights", "short"), _k_dominant),
}


def _equal_shares(cluster: Any, condition: Any, place: int | str) -> Rows:
    """The share per weight of each user is that of the one before it."""
    c, _ = cluster.coefficients(condition.share)
    per = {j: {(j, s): c[j][s] / cluster.weights[j] for s in cluster.open[j]} for j in cluster.active}
    return [
        LinearRow(per[b] | {pair: -v for pair, v in per[a].items()}, ZERO, True, RowName(place, str(cluster.users[b])))
        for a, b in zip(cluster.active, cluster.active[1:])
    ]


CONDITIONS = {"EqualShares": Condition(("share",), _equal_shares)}
