"""Policies that decide bundles (`MLFDRS`, `FFMRA`, `HFFMRA`) in rational numbers: their closed form.

Weighted logarithms ``max sum_j b_j log a_j`` under ``sum_j a_j <= part`` and ``a_j <= most_j`` separate into groups of
users who share a part of one resource of one server: ``a_j = min(most_j, b_j / p)`` at the price p that uses the part
(Bound 6.5 in docs/methods/bundles.md). The optimum is rational although its value is not, so that exact answers have
bundles and no value. Comparisons that floats make within 1e-12, such as who is dominant, are exact here: with numbers
as decimals a tie is a tie, and goes to the first resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fairopt.blocks.base import blocks_within
from fairopt.blocks.bundles import AtMostRequested, FairShareBase, GlobalAggregateResource, WeightedLog
from fairopt.errors import OutOfDomain
from fairopt.exact.cluster import Cluster, Table
from fairopt.exact.rationals import Rational, rational, total


def decides_bundles(policy: Any) -> bool:
    """Whether a policy maximises weighted logarithms of bundles."""
    return any(isinstance(part, WeightedLog) for part in blocks_within(getattr(policy, "objective", ())))


def require_division(policy: Any) -> FairShareBase:
    """The base of the weighted logarithm of a policy that divides each resource by itself; `OutOfDomain` for others."""
    logs = list(dict.fromkeys(term for factor, term in policy.objective.summands() if factor))
    aggregates = {c for c in policy.constraints if isinstance(c, GlobalAggregateResource)}
    others = [c for c in policy.constraints if type(c) not in (GlobalAggregateResource, AtMostRequested)]
    if len(logs) != 1 or not isinstance(logs[0], WeightedLog) or len(aggregates) > 1 or others:
        raise OutOfDomain("weighted logarithms with other objectives or constraints are a cone program over bundles")
    base = logs[0].base
    if not isinstance(base, FairShareBase):
        raise OutOfDomain(f"the bases of {base} are computed by code, in floats")
    return base


class _Dominance:
    """The users on each server by dominant resource: the largest fraction of capacity per task, the first of ties."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.first = cluster, [dict[int, int]() for _ in range(cluster.servers)]
        for j in cluster.active:
            for s in cluster.open[j]:
                needs = zip(cluster.demands[j][s], cluster.capacities[s], strict=True)
                parts = [d / c if c else cluster.zero for d, c in needs]
                self.first[s][j] = parts.index(max(parts))

    def split(self, s: int, i: int) -> list[list[int]]:
        """The users dominant in a resource, and the others."""
        return [[j for j, k in self.first[s].items() if (k == i) == mine] for mine in (True, False)]

    def requested(self, s: int, i: int) -> list[Rational]:
        """The units that one task of each dominant user requests, and those of the others."""
        return [total(self.cluster.demands[j][s][i] for j in users) for users in self.split(s, i)]

    def short(self, s: int, i: int) -> bool:
        """Whether one task of each user requests more than a server has."""
        return bool(sum(self.requested(s, i)) > self.cluster.capacities[s][i])

    def fractions(self, aggregate: GlobalAggregateResource) -> list[list[Rational]]:
        """By server, the fraction of the dominant users and that of the others."""
        cluster, sums = self.cluster, list[list[Rational]]()
        for s, q in enumerate(cluster.counts):
            sums.append([cluster.zero, cluster.zero])
            for i, c in enumerate(cluster.capacities[s]):
                size = rational(1) if aggregate.units == "raw" or not c else c
                sums[s] = [x + q * a / size for x, a in zip(sums[s], self.requested(s, i), strict=True)]
        if aggregate.over != "server":
            sums = [[total(pair[k] for pair in sums) for k in (0, 1)]] * cluster.servers
        return [[x / sum(pair) for x in pair] if any(pair) else [rational(1), cluster.zero] for pair in sums]

    def parts(self, s: int, i: int, fractions: Sequence[Rational]) -> list[Rational]:
        """The units of a server's resource for its dominant users, and for the others."""
        c, requested = self.cluster.capacities[s][i], self.requested(s, i)
        if not all(requested):
            return [c if a else self.cluster.zero for a in requested]
        short = self.short(s, i)
        if short and requested[0] < fractions[0] * c:  # a group that requests less than its part leaves the rest
            return [requested[0], c - requested[0]]
        if short and requested[1] < fractions[1] * c:
            return [c - requested[1], requested[1]]
        return [f * c for f in fractions]

    def bases(self, base: FairShareBase, s: int, i: int) -> dict[int, Rational]:
        """The positive bases of users for a resource of a server."""
        here, c = self.first[s], self.cluster.capacities[s][i]
        betas = {j: (max if k == i else min)(c / len(here), self.cluster.demands[j][s][i]) for j, k in here.items()}
        betas = {j: b for j, b in betas.items() if b > 0}
        held = sum(betas.values())
        if base.growth == "equal" and 0 < held < c:
            for users in self.split(s, i):
                members = [j for j in users if j in betas]
                more = (c - held) / held * total(betas[j] for j in members)
                betas |= {j: betas[j] + more / len(members) for j in members}
        return betas


class Group(NamedTuple):
    """Users who share a part of a resource on one of the equal servers of a row, with their bases and requests.

    ``most`` are the requests of members if these are limits. ``base`` are those of members with one.
    """

    server: int
    resource: int
    copies: int
    part: Rational
    base: dict[int, Rational]
    most: dict[int, Rational]

    def best(self) -> dict[int, Rational]:
        """The best bundles, at the price p with ``sum min(most, base / p) = part``; all requests if they fit."""
        left, weight = self.part, total(self.base.values())
        # users reach their most in this order as the price falls
        reached = sorted(self.base, key=lambda j: self.most[j] / self.base[j]) if self.most else ()
        for j in reached:
            if self.most[j] * weight > left * self.base[j]:  # most / base > 1 / p: this one and all later are below
                break
            left, weight = left - self.most[j], weight - self.base[j]
        if not weight:
            return {j: self.most[j] for j in self.base}
        return {j: min(b * left / weight, self.most.get(j, b * left / weight)) for j, b in self.base.items()}


def groups_of(cluster: Cluster, policy: Any) -> Iterator[Group]:
    """The groups into which weighted logarithms separate: by server, resource and dominance."""
    base = require_division(policy)
    if len({cluster.weights[j] for j in cluster.active}) > 1:
        raise OutOfDomain(f"{base} is not defined for unequal weights")
    aggregate = next((c for c in policy.constraints if isinstance(c, GlobalAggregateResource)), None)
    capped, users = any(isinstance(c, AtMostRequested) for c in policy.constraints), _Dominance(cluster)
    fractions = None if aggregate is None else users.fractions(aggregate)
    for s, q in enumerate(cluster.counts):
        for i, c in enumerate(cluster.capacities[s]):
            bases, limited = users.bases(base, s, i), capped and users.short(s, i)
            groups = [list(users.first[s])] if fractions is None else users.split(s, i)
            parts = [c] if fractions is None else users.parts(s, i, fractions[s])
            for members, part in zip(groups, parts, strict=True):
                most = {j: cluster.demands[j][s][i] for j in members if limited}
                yield Group(s, i, q, part, {j: bases[j] for j in members if j in bases}, most)


def optimal_bundles(cluster: Cluster, policy: Any) -> list[Table]:
    """The best bundles by user, server row and resource."""
    bundles = [[[cluster.zero] * cluster.m for _ in range(cluster.servers)] for _ in range(cluster.n)]
    for group in groups_of(cluster, policy):
        if group.base and group.part <= 0:
            raise OutOfDomain("a user with a base has nothing, so the objective is minus infinity")
        for j, held in group.best().items():
            bundles[j][group.server][group.resource] = group.copies * held
    return bundles


def tasks_in(cluster: Cluster, bundles: list[Table]) -> Table:
    """The tasks that fit in bundles, by user and server; those above a limit are left out alike on all servers."""
    table = []
    for bundle, demands, limit in zip(bundles, cluster.demands, cluster.limits, strict=True):
        needs = [[(a, d) for a, d in zip(*pair, strict=True) if d] for pair in zip(bundle, demands, strict=True)]
        fit = [min((a / d for a, d in pairs), default=cluster.zero) for pairs in needs]
        held = total(fit)
        table.append([x * limit / held for x in fit] if limit is not None and held > limit else fit)
    return table
