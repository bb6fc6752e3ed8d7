"""Weighted logarithms of bundles, which divide each resource by itself.

The problem ``max sum_j b_j log a_j`` subject to ``sum_j a_j <= part`` and ``a_j <= most_j`` separates by server,
resource and group of users, and the best division is known: ``a_j = min(most_j, b_j / p)``, at the price p that uses
all (Bound 6.5 in docs/methods/bundles.md): the users who reach their most are the first in the order of
``most_j / b_j``. It needs no evidence. Dominant users have their part of a resource where a policy states an aggregate
of demands.

What rounding decides is who is dominant, and whether a resource is short: parts within 1e-12 of each other count as
equal, the first resource of ties, as in the package. Sums of fractions are rounded up by less than 2^-100, and the
parts enlarged by as much, so that bounds stay bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .instance import Cluster
from .numbers import (
    LOG_2,
    ONE,
    ROUNDING,
    VIOLATION,
    ZERO,
    Fraction,
    Table,
    exact_sum,
    number,
    together,
    up,
)
from .outcome import CannotCheck, Fault
from .policy import Block


class Dominance:
    """The users on each server by dominant resource: the largest fraction of capacity per task, the first of ties.

    Numbers within `ROUNDING` of each other count as equal, unless they are taken ``exactly``.
    """

    def __init__(self, cluster: Cluster, exactly: bool = False) -> None:
        self.cluster, self.first = cluster, [dict[int, int]() for _ in range(cluster.servers)]
        self.exactly, self.near = exactly, ZERO if exactly else ROUNDING
        for j in cluster.active:
            for s in cluster.open[j]:
                needs = together(cluster.demands[j][s], cluster.capacities[s])
                parts = [d / c if c else ZERO for d, c in needs]
                self.first[s][j] = next(i for i, p in enumerate(parts) if p >= max(parts) * (1 - self.near))

    def split(self, s: int, i: int) -> list[list[int]]:
        """The users dominant in a resource, and the others."""
        return [[j for j, k in self.first[s].items() if (k == i) == mine] for mine in (True, False)]

    def requested(self, s: int, i: int) -> list[Fraction]:
        """The units that one task of each dominant user requests, and those of the others."""
        return [exact_sum(self.cluster.demands[j][s][i] for j in users) for users in self.split(s, i)]

    def short(self, s: int, i: int) -> bool:
        """Whether one task of each user requests more than a server has."""
        return sum(self.requested(s, i)) > self.cluster.capacities[s][i] * (1 + self.near)

    def fractions(self, aggregate: Block) -> list[list[Fraction]]:
        """By server and resource, the fraction of the dominant users and that of the others.

        Unless ``exactly``, sums are rounded up by less than 2^-100 of themselves, and fractions enlarged by as much.
        """
        cluster, sums = self.cluster, list[list[Fraction]]()
        more, up_if = (ONE, Fraction) if self.exactly else (1 + Fraction(1, 2**100), up)
        raw = aggregate.given.get("units") == "raw"
        for s, q in enumerate(cluster.counts):
            sums.append([ZERO, ZERO])
            for i, c in enumerate(cluster.capacities[s]):
                size = 1 if raw or not c else c
                sums[s] = [x + up_if(q * a / size) for x, a in together(sums[s], self.requested(s, i))]
        if aggregate.given.get("over") != "server":
            sums = [[up_if(exact_sum(pair[k] for pair in sums)) for k in (0, 1)]] * cluster.servers
        return [[up_if(x / sum(pair) * more) for x in pair] if any(pair) else [ONE, ZERO] for pair in sums]

    def parts(self, s: int, i: int, fractions: Sequence[Fraction]) -> list[Fraction]:
        """The units of a server's resource for its dominant users, and for the others."""
        c, requested = self.cluster.capacities[s][i], self.requested(s, i)
        if not all(requested):
            return [c if a else ZERO for a in requested]
        if (
            self.short(s, i) and requested[0] < fractions[0] * c
        ):  # a group that requests less than its part leaves the rest
            return [requested[0], c - requested[0]]
        if self.short(s, i) and requested[1] < fractions[1] * c:
            return [c - requested[1], requested[1]]
        return [f * c for f in fractions]

    def bases(self, base: Block, s: int, i: int) -> dict[int, Fraction]:
        """The positive bases of users for a resource of a server."""
        cluster, here, c = self.cluster, self.first[s], self.cluster.capacities[s][i]
        if base.name != "FairShareBase":
            if base.text not in cluster.given:
                raise CannotCheck(f"the bases of {base.text} are not in the file")
            found = {j: number(cluster.given[base.text][j][s][i], base.text) for j in here if c}
            return {j: b for j, b in found.items() if b > 0}
        found = {j: (max if k == i else min)(c / len(here), cluster.demands[j][s][i]) for j, k in here.items()}
        found = {j: b for j, b in found.items() if b > 0}
        total = sum(found.values())
        if base.given.get("growth") == "equal" and 0 < total < c:
            for users in self.split(s, i):
                members = [j for j in users if j in found]
                more = (c - total) / total * sum(found[j] for j in members)
                found |= {j: found[j] + more / len(members) for j in members}
        return found


class Group(NamedTuple):
    """Users who share a part of a resource on one of the equal servers of a row, with their bases and requests.

    ``most`` are the requests of ``members`` if these are limits. ``base`` are those of members with one.
    """

    server: int
    resource: int
    copies: int
    part: Fraction
    members: list[int]
    base: dict[int, Fraction]
    most: dict[int, Fraction]

    @property
    def price(self) -> Fraction:
        """The p with ``sum min(most, base / p) = part``; 0 if all requests are granted."""
        left, weight = self.part, exact_sum(self.base.values())
        for j in sorted(
            self.base if self.most else (), key=lambda j: self.most[j] / self.base[j]
        ):  # as they are reached
            if self.most[j] * weight > left * self.base[j]:  # above what the price gives it, and so are all later ones
                break
            left, weight = left - self.most[j], weight - self.base[j]
        return weight / left if weight else weight

    def best(self, price: Fraction) -> dict[int, Fraction]:
        """The best bundles of members with a base at a price."""
        if not price:
            return {j: self.most[j] for j in self.base}
        return {j: min(b / price, self.most.get(j, b / price)) for j, b in self.base.items()}


def base_of(log: Block) -> Block:
    """The base of weighted logarithms."""
    return log.given.get("base") or Block("FairShareBase", {}, "FairShareBase()")


def require_division(objective: Block, conditions: Sequence[Block]) -> None:
    """`CannotCheck` unless a policy divides each resource by itself."""
    logs = {term.text: term.name for factor, term in objective.terms if factor}
    aggregates = {c.text for c in conditions if c.name == "GlobalAggregateResource"}
    if (
        list(logs.values()) != ["WeightedLog"]
        or any(factor < 0 for factor, _ in objective.terms)
        or len(aggregates) > 1
        or not {c.name for c in conditions} <= {"GlobalAggregateResource", "AtMostRequested"}
    ):
        raise CannotCheck("weighted logarithms with other objectives or constraints are a cone program over bundles")


def groups_of_bundles(
    cluster: Cluster, objective: Block, conditions: Sequence[Block], exactly: bool = False
) -> Iterator[Group]:
    """The groups into which weighted logarithms separate: by server, resource and dominance."""
    require_division(objective, conditions)
    aggregates = {c.text: c for c in conditions if c.name == "GlobalAggregateResource"}
    names, log = {c.name for c in conditions}, next(term for factor, term in objective.terms if factor)
    base = base_of(log)
    if base.name == "FairShareBase" and len({cluster.weights[j] for j in cluster.active}) > 1:
        raise Fault(f"{base.text} is not defined for unequal weights")
    choices = {"units": ("share", "raw"), "over": ("cluster", "server"), "growth": ("proportional", "equal")}
    for one in (base, *aggregates.values()):
        if one.text not in cluster.given and any(v not in choices.get(k, ()) for k, v in one.given.items()):
            raise Fault(f"{one.text} has an unknown parameter or value; known are {choices}")
    users = Dominance(cluster, exactly)
    fractions = next((users.fractions(c) for c in aggregates.values()), None)
    for s, q in enumerate(cluster.counts):
        for i, c in enumerate(cluster.capacities[s]):
            cluster.clock.check()
            bases, capped = users.bases(base, s, i), "AtMostRequested" in names and users.short(s, i)
            groups = users.split(s, i) if fractions else [list(users.first[s])]
            for members, part in together(groups, users.parts(s, i, fractions[s]) if fractions else [c]):
                most = {j: cluster.demands[j][s][i] for j in members if capped}
                yield Group(s, i, q, part, members, {j: bases[j] for j in members if j in bases}, most)


def optimal_bundles(cluster: Cluster, objective: Block, conditions: Sequence[Block]) -> list[Table]:
    """The best bundles by user, server row and resource, without rounding."""
    bundles = [[[ZERO] * cluster.m for _ in range(cluster.servers)] for _ in range(cluster.n)]
    for group in groups_of_bundles(cluster, objective, conditions, exactly=True):
        if group.base and group.part <= 0:
            raise Fault("a user with a base has nothing, so the objective is minus infinity")
        for j, held in group.best(group.price).items():
            bundles[j][group.server][group.resource] = group.copies * held
    return bundles


def fitting(bundle: Table, demands: Table) -> list[Fraction]:
    """The tasks of a user that fit in its bundle, by server."""
    needs = [[(a, d) for a, d in together(*pair) if d] for pair in together(bundle, demands)]
    return [min((a / d for a, d in pairs), default=ZERO) for pairs in needs]


def tasks_in(cluster: Cluster, bundles: list[Table]) -> Table:
    """The tasks that fit in bundles, by user and server; those above a limit are left out alike on all servers."""
    table = []
    for bundle, demands, limit in together(bundles, cluster.demands, cluster.limits):
        fit = fitting(bundle, demands)
        total = exact_sum(fit)
        table.append([x * limit / total for x in fit] if limit is not None and total > limit else fit)
    return table


def gap_of_bundles(
    cluster: Cluster, objective: Block, conditions: Sequence[Block], bundles: list[Table]
) -> tuple[Fraction, list[str]]:
    """The largest gap of a group's bundles under weighted logarithms, and the parts and requests that bundles exceed.

    The problem separates by server, resource and group; each group is bounded by the price of the closed form.
    """
    gap, faults = ZERO, list[str]()
    for group in groups_of_bundles(cluster, objective, conditions):
        s, i = group.server, group.resource
        where = f"{cluster.resources[i]!r} on server {s}"
        bundle = {j: bundles[j][s][i] / group.copies for j in group.members}
        if sum(bundle.values()) > group.part * (1 + VIOLATION) + cluster.capacities[s][i] * ROUNDING:
            faults.append(f"{where}: a group of users holds more than its part")
        if any(bundle[j] > limit * (1 + VIOLATION) for j, limit in group.most.items()):
            faults.append(f"{where}: a user holds more than its request")
        if group.base and (group.part <= 0 or any(bundle[j] <= 0 for j in group.base)):
            raise Fault(f"{where}: a user with a base has nothing, so the objective is minus infinity")
        gap = max(gap, gap_of_group(group, bundle))
    return gap, faults


def gap_of_group(group: Group, bundle: Mapping[int, Fraction]) -> Fraction:
    """The excess of a group's best bundles over its bundles h, relative to the cost of halving all of them (Bound 6.5).

    At a price p the best response is ``a = min(most, base / p)``. So the objective is at most ``sum base log a - p (sum
    a - part)``, and ``log(a / h) <= a / h - 1``. Any price bounds; that of the closed form is the tightest.
    """
    p = up(group.price)  # any price bounds
    excess = p * (group.part - sum(bundle[j] for j in group.base))
    for j, best in group.best(p).items():
        excess = up(excess + (best - bundle[j]) * (group.base[j] / bundle[j] - p))
    return excess / (LOG_2 * sum(group.base.values())) if excess > 0 else ZERO


def bundle_violations(cluster: Cluster, bundles: list[Table], exactly: bool) -> list[str]:
    """Violations by bundles, and tasks that do not fit in them, or (``exactly``) are fewer than fit."""
    faults, active = [], set(cluster.active)
    for s in range(cluster.servers):
        for i, room in enumerate(cluster.room[s]):
            if exact_sum(bundle[s][i] for bundle in bundles) > room * (1 + VIOLATION):
                faults.append(f"{cluster.resources[i]!r} on server {s}: bundles exceed the capacity")
    for j, bundle in enumerate(bundles):
        who, runs = f"user {cluster.users[j]!r}", set(cluster.open[j]) if j in active else set()
        if any(min(row) < 0 or (s not in runs and any(row)) for s, row in enumerate(bundle)):
            faults.append(f"{who} holds less than nothing, or a part of a server where it may not run")
        fit, limit = fitting(bundle, cluster.demands[j]), cluster.limits[j]
        total = exact_sum(fit)
        cut = limit / total if limit is not None and total > limit else ONE
        for s, runs_now in enumerate(cluster.tasks[j]):
            if runs_now > fit[s] * (1 + VIOLATION) or (exactly and runs_now < fit[s] * cut * (1 - VIOLATION)):
                faults.append(f"{who} runs {float(runs_now):.9g} tasks on server {s}, not those that fit in its bundle")
    return faults
