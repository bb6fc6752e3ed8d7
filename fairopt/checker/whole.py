"""Whole tasks: that they fit, and a bound on what they lose of the divisible optimum.

At prices p no smallest level exceeds ``p'C / sum_j w_j min_s p'd_js / c_js`` (weak duality; Proposition 15.7). Whether
other whole tasks are better is not proved.

Divisible loads may exceed a capacity by 1e-9 of it, as solvers do. Whole tasks may exceed it by 1e-14 only, which is
what the rounding of numbers such as ten tasks of 0.1 leaves: a capacity that is 1e-9 less than ten tasks holds nine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .bundles import bundle_violations
from .constraints import infeasible
from .instance import Cluster
from .numbers import (
    BLOCK_VIOLATION,
    DOWN,
    VIOLATION,
    ZERO,
    Fraction,
    Rows,
    Table,
    _decimals,
    down,
    exact_sum,
    numbers,
    outward,
    up,
)
from .outcome import CannotCheck, Fault
from .policy import Block, is_linear
from .sums import Evidence
from .tiers import gap_of_tier

WHOLE = Fraction(1, 10**14)  # of a capacity: what rounding leaves of the numbers given


def placement_violations(cluster: Cluster, placement: Any) -> list[str]:
    """Violations by tasks on individual servers; row s stands for ``counts[s]`` of them."""
    placed: Table = numbers(placement, "placement", cluster.n, sum(cluster.counts))
    faults, begin = [], 0
    if any(x < 0 or x.as_integer_ratio()[1] > 1 for row in placed for x in row):
        faults.append("placement: tasks are not whole")
    for s, q in enumerate(cluster.counts):
        for k in range(begin, begin + q):
            cluster.clock.check()
            for i, room in enumerate(cluster.capacities[s]):
                used = exact_sum(cluster.demands[j][s][i] * row[k] for j, row in enumerate(placed) if row[k])
                if used > room * min(1 + WHOLE, cluster.usable[i] * (1 + BLOCK_VIOLATION)):
                    faults.append(f"{cluster.resources[i]!r} on individual server {k}: tasks exceed what may be used")
        if any(sum(row[begin : begin + q]) != cluster.tasks[j][s] for j, row in enumerate(placed)):
            faults.append(f"placement: other tasks on server {s} than in tasks_by_server")
        begin += q
    return faults


def leave_out_small_users(cluster: Cluster, conditions: Sequence[Block]) -> str:
    """Leave out users of whom no whole task fits, unless a constraint may compare users."""
    bounds = {"MinTasks", "MaxTasks", "SharingIncentive", "Reserve"}
    bounds |= set() if cluster.by_server else {"MinShare", "MaxShare"}
    before = len(cluster.active)
    for j in list(cluster.active) if {c.name for c in conditions} <= bounds else ():
        alone = [(cluster.tasks_alone(j, s, cluster.usable) or ZERO) / cluster.counts[s] for s in cluster.open[j]]
        if min(b for b in (max(alone), cluster.high[j]) if b is not None) * (1 + VIOLATION) < 1:
            cluster.active.remove(j)
    out = before - len(cluster.active)
    return f"; users left out because no whole task fits: {out}" if out else ""


def loss_of_whole_tasks(
    cluster: Cluster, tier: Block, rows: Rows, entry: Mapping[str, Any]
) -> tuple[Fraction | None, str]:
    """A bound on the part of a tier's divisible optimum that whole tasks lose, and a sentence about it."""
    if not cluster.active:
        return ZERO, "they lose nothing"
    try:
        if tier.name in ("Leximin", "MaxMin"):
            gap, what = loss_of_smallest_level(cluster, tier.share, entry), "the smallest divisible level"
        else:
            if "divisible" in entry:
                cluster.tangents_at = numbers(entry["divisible"], "divisible", cluster.n, cluster.servers)
            gap, what = gap_of_tier(cluster, tier, rows, entry), "the divisible optimum"
            if len(tier.terms) > 1:
                what = "the cost of halving them, compared with the divisible optimum"
            elif tier.name != "OrderedWeighted" and not is_linear(tier):  # of logarithms of power means
                low = DOWN.next_minus(DOWN.exp(_decimals(-gap)[0]))
                gap = 1 - outward(low, low).low
    except (CannotCheck, Fault) as reason:
        return None, f"their loss is not bounded: {reason}"
    return gap, f"they lose at most {math.ceil(gap * 10**4) / 100:g}% of {what}"


def loss_of_smallest_level(cluster: Cluster, share: Block, entry: Mapping[str, Any]) -> Fraction:
    """A bound on the part of the smallest divisible share per weight that is lost (Proposition 15.7).

    At prices p no level exceeds ``p'C / sum_j w_j p'd_j / c_j``. The prices of the evidence are tried, and each
    resource by itself, which is exact on one pool.
    """
    below, above = cluster.coefficients(share)
    level = min(v / cluster.weights[j] for j, v in cluster.shares(below).items())
    per = {j: {s: above[j][s] / cluster.weights[j] for s in cluster.open[j] if above[j][s]} for j in cluster.active}
    top = min(cluster.most_tasks(j) * max(c.values()) for j, c in per.items())
    prices = [one["prices"] for one in entry.get("levels", [entry]) if "prices" in one]
    prices += [[[int(i == k) for i in range(cluster.m)]] * cluster.servers for k in range(cluster.m)]
    for p in prices:
        evidence = Evidence(cluster, {"prices": p}, [])
        cost = exact_sum(down(min(evidence.cost[j][s] / v for s, v in c.items())) for j, c in per.items())
        top = min(top, up(evidence.right_hand_side(cluster.usable_units())) / down(cost)) if cost else top
    return max(1 - level / top, ZERO) if top else top


def violations(cluster: Cluster, data: Mapping[str, Any], rows: Rows, exactly: bool = False) -> list[str]:
    """The violations of tasks, whole tasks and bundles; bundles hold ``exactly`` the tasks, or room for them."""
    faults = infeasible(cluster, rows)
    if data.get("bundles") is not None:
        bundles = numbers(data["bundles"], "bundles", cluster.n, cluster.servers, cluster.m)
        faults += bundle_violations(cluster, bundles, exactly)
    return faults if data.get("placement") is None else faults + placement_violations(cluster, data["placement"])
