"""Guarantees and shares of teams, and what is above a base.

A team is guaranteed, of each resource i, no more than its members can use within the guarantee G,

    max sum d_jsi x_js   subject to   sum_js d_jsk x_js <= min(G_k, C_k) for every k,   task limits

(`floor_of`): a linear program, proved by tasks that use so much and by prices at which none use more. What it is worth
in a share, the least share at which it is held (`least_share`), is another. An objective compares `TeamNumbers`: sums
of shares of a team's users, less the base.

Why not the guarantee itself: a team whose members need two CPUs for a GPU can use 4 GPUs of a guarantee of 8 GPUs and 8
CPUs, and a floor above what it can use would leave no allocation. A resource that the guarantee does not name bounds by
its capacity. Tasks and prices come from solvers in floats; what they miss of each other may be 1e-9 (`Cluster.tie`),
and tasks that exceed something count only in part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from .instance import Cluster, check_keys
from .numbers import (
    ONE,
    VIOLATION,
    ZERO,
    Between,
    Fraction,
    LinearRow,
    RowName,
    Rows,
    Table,
    exact_sum,
    number,
    numbers,
    position,
    together,
)
from .outcome import CannotCheck, Fault
from .policy import COMPOSED, Block

LIMITED = "limits of the instance"  # the place of their rows
RISES = Fraction(1, 10**8)  # of what a user could run: a rise by less is rounding


class Use:
    """What tasks of a team use, as evidence gives them: ``tasks`` by user and server, and ``prices`` of resources.

    ``members`` have their task limits, and ``open`` are the servers of users; limits of 0 count only ``within_limits``.
    ``over`` is the factor by which tasks exceed a task limit, and at least 1.
    """

    def __init__(self, cluster: Cluster, team: str, given: Mapping[str, Any], within_limits: bool = False) -> None:
        check_keys(given, ("tasks", "prices"), f"the floor of {team!r}")
        self.cluster, self.open = cluster, cluster.open if within_limits else cluster.given_open
        most = cluster.limits if within_limits else cluster.given_limits
        self.members = {j: most[j] for j in cluster.members[team] if most[j] != 0}
        self.tasks: dict[tuple[int, int], Fraction] = {}
        for j, s, x in given.get("tasks") or ():
            if position(j) not in self.members or position(s) not in self.open[j] or (j, s) in self.tasks:
                raise Fault(f"tasks of a floor of {team!r} are not of its members where they may run")
            self.tasks[j, s] = number(x, "tasks of a floor", 0)
        runs = dict.fromkeys(self.members, ZERO)
        for (j, _), x in self.tasks.items():
            runs[j] += x
        self.over = max([ONE, *(runs[j] / limit for j, limit in self.members.items() if limit is not None)])
        self.loads = [
            exact_sum(x * cluster.demands[j][s][i] for (j, s), x in self.tasks.items()) for i in range(cluster.m)
        ]
        prices = numbers(given.get("prices") or [0] * cluster.m, "prices of a floor", cluster.m)
        self.prices = [max(p, ZERO) for p in prices]

    def cost(self, j: int, s: int) -> Fraction:
        """What a task costs at the prices."""
        return exact_sum(p * d for p, d in together(self.prices, self.cluster.demands[j][s]) if d)


def floors_of(cluster: Cluster, team: str, proofs: Mapping[str, Any]) -> dict[int, Fraction]:
    """What a team is guaranteed of each resource, in units; ``proofs`` by resource."""
    given = cluster.team_guarantees[team].items()
    named = {cluster.resource(what): number(units, "guarantees", 0) for what, units in given}
    some = (i for i in sorted(named) if named[i] and cluster.capacity[i])
    if len(named) < len(given):
        raise Fault(f"the guarantee of {team!r} names a resource twice")
    return {i: v for i in some if (v := floor_of(cluster, team, named, i, proofs.get(str(i)) or {}))}


def floor_of(cluster: Cluster, team: str, named: Mapping[int, Fraction], i: int, proof: Mapping[str, Any]) -> Fraction:
    """What a team is guaranteed of a resource: at most what its tasks within the guarantee can use of it.

    ``proof`` are tasks of its members that use so much, and prices of resources by which no tasks use more.
    """
    use = Use(cluster, team, proof)
    room = [min(named.get(k, c), c) for k, c in enumerate(cluster.capacity)]
    over = [load / c for load, c in together(use.loads, room) if load > c > 0]
    if any(load and not c for load, c in together(use.loads, room)):
        raise Fault(f"tasks of a floor of {team!r} use a resource of which it has none")
    floor = use.loads[i] / max([use.over, *over])
    top = exact_sum(p * c for p, c in together(use.prices, room))
    for j, limit in use.members.items():
        nets = {tuple(needs := cluster.demands[j][s]): max(needs[i] - use.cost(j, s), ZERO) for s in use.open[j]}
        most = exact_sum(net * min(room[k] / d for k, d in enumerate(needs) if d) for needs, net in nets.items())
        top += most if limit is None else min(most, max(nets.values()) * limit)
    if min(top, room[i]) > floor * (1 + cluster.tie) + room[i] * cluster.tie:
        raise Fault(f"the floor of {team!r} of {cluster.resources[i]!r} is not proved")
    return floor


def least_share(cluster: Cluster, team: str, floor: Mapping[int, Fraction], share: Block) -> Between:
    """The least total share at which a team holds its floor, between the bound of prices and the share of tasks."""
    use = Use(cluster, team, (cluster.floor_proofs.get(team) or {}).get(share.text) or {}, True)
    below, above = cluster.coefficients(share)
    if not all(use.loads[i] for i in floor):
        raise Fault(f"tasks of a floor of {team!r} do not hold it")
    times = max([ONE, *(v / use.loads[i] for i, v in floor.items())])
    if times * use.over > 1 + cluster.tie:
        raise Fault(f"tasks of a floor of {team!r} do not hold it within limits")
    high = times * exact_sum(above[j][s] * x for (j, s), x in use.tasks.items())
    free = [j for j, limit in use.members.items() if limit is None]  # who must gain nothing at the prices
    for needs in (cluster.demands[j][s] for j in free for s in cluster.open[j] if not below[j][s]):
        use.prices = [ZERO if d else p for p, d in together(use.prices, needs)]
    costs = ((below[j][s], use.cost(j, s)) for j in free for s in cluster.open[j])
    part = min([ONE, *(c / cost for c, cost in costs if cost)])
    low = part * exact_sum(use.prices[i] * v for i, v in floor.items())
    for j, limit in use.members.items():
        net = max(part * use.cost(j, s) - below[j][s] for s in cluster.open[j])
        low -= max(net, ZERO) * (limit or ZERO)
    if high - low > high * cluster.tie:
        raise Fault(f"what the floor of {team!r} is worth in {share.text} is not proved")
    return Between(max(low, ZERO), high)


def guaranteed(cluster: Cluster) -> Rows:
    """The floors of teams as rows, first those of policies; `Cluster.floors` holds them from then on."""
    if cluster.team_guarantees and not cluster.floor_proofs:
        raise CannotCheck("its guarantees of teams were saved without evidence")
    rows = Rows()
    for team in cluster.team_guarantees:
        cluster.floors[team] = floor = floors_of(cluster, team, cluster.floor_proofs.get(team) or {})
        members = {*cluster.members[team]} & {*cluster.active}
        for i, v in floor.items():
            held = {(j, s): -d for j in sorted(members) for s in cluster.open[j] if (d := cluster.demands[j][s][i])}
            rows.append(LinearRow(held, -v, False, RowName("guarantees", (team, str(cluster.resources[i])))))
    return rows


def limited(cluster: Cluster) -> Rows:
    """The limits on what users take together as rows."""
    return [
        LinearRow(use, one.amount, False, RowName(LIMITED, one.name))
        for one in cluster.together
        if (use := {(j, s): d for j, s in sorted(one.pairs) if (d := cluster.demands[j][s][one.resource])})
    ]


class TeamNumbers:
    """What an objective compares: ``z_t = sum_j c_j x_j - base_t`` of a user or a team t, by label.

    ``below`` and ``above`` enclose c, ``base`` encloses the base; ``kept`` are the tasks of users that a base requires.
    If numbers are ``levelled``, those that cannot rise above their base are left out.
    """

    def __init__(self, cluster: Cluster, share: Block, levelled: bool = False) -> None:
        self.cluster, surplus = cluster, share if share.name == "Surplus" else None
        self.single = share.name not in COMPOSED  # a number is a user's share
        team = share.share if surplus else share
        self.of_user = {j: str(cluster.users[j]) for j in cluster.active}
        self.weights = {t: cluster.weights[j] for j, t in self.of_user.items()}
        if team.name == "OfTeam":
            labels = cluster.teams.get(team.given.get("by", "team")) or [None] * cluster.n
            if any(labels[j] is None for j in cluster.active):
                raise Fault(f"a user has no team of {team.text}")
            given = {**cluster.team_weights, **(team.given.get("weights") or {})}
            self.of_user = {j: str(labels[j]) for j in cluster.active}
            present = {*self.of_user.values()}
            in_order = [t for t in dict.fromkeys(map(str, labels)) if t in present]  # also of users who are not active
            self.weights = {t: number(given.get(t, 1), "a weight", 0) for t in in_order}
            if not all(self.weights.values()):
                raise Fault(f"a weight of {team.text} is 0")
        self.below, self.above = cluster.coefficients(team.of_user)
        self.kept: dict[int, Fraction] = {}
        if surplus and surplus.given.get("base") is None:
            self.kept = {j: cluster.guarantees[j] for j in cluster.active}
        elif surplus:
            base = cluster.of_user(surplus.given["base"], surplus.text, False)
            self.kept = {j: base[j] or ZERO for j in cluster.active}
        for j, x in self.kept.items():
            limit = cluster.limits[j]
            self.kept[j] = x if limit is None else min(x, limit)
        self.base = dict.fromkeys(self.weights, Between(ZERO, ZERO))
        for j, x in self.kept.items():
            ends = (x * min(c[j][s] for s in cluster.open[j]) for c in (self.below, self.above))
            low, high = ends
            before = self.base[self.of_user[j]]
            self.base[self.of_user[j]] = Between(before.low + low, before.high + high)
        if surplus and team.name == "OfTeam" and surplus.given.get("base") is None:
            for t in self.base.keys() & cluster.floors.keys():
                if (t, team.text) not in cluster.worths:
                    cluster.worths[t, team.text] = least_share(cluster, t, cluster.floors[t], team.of_user)
                worth = cluster.worths[t, team.text]
                self.base[t] = Between(*(max(ends) for ends in together(self.base[t], worth)))
        if surplus and levelled:
            stay = cluster.stays.get(share.text, set())
            rises = {self.of_user[j] for j in self._with_room()} - stay
            self.of_user = {j: t for j, t in self.of_user.items() if t in rises}
            self.weights = {t: w for t, w in self.weights.items() if t in rises}
            self.base = {t: b for t, b in self.base.items() if t in rises}

    def _with_room(self) -> list[int]:
        """The users above whose base bounds on tasks, and on one pool what these leave of capacities, allow more.

        Rounding may leave 1e-9 of a capacity, which blocks those whom it lets rise by 1e-8 of what they could run.
        """
        cluster, more = self.cluster, 1 + VIOLATION
        low, left = {j: max(cluster.low[j], x) for j, x in self.kept.items()}, dict[int, Fraction]()
        for (_, i), units in cluster.usable_units().items() if cluster.servers == 1 else ():
            rest = units - exact_sum(cluster.demands[j][0][i] * x for j, x in low.items())
            if rest <= units * VIOLATION:
                left[i] = max(rest, ZERO)
        found = []
        for j, x in low.items():
            high, c = cluster.high[j], max(self.above[j][s] for s in cluster.open[j])
            blocked = high is not None and high <= x * more
            for i, rest in left.items():
                blocked = blocked or rest < cluster.demands[j][0][i] * RISES * cluster.most_tasks(j)
            if c > 0 and (x > self.kept[j] or not blocked):
                found.append(j)
        return found

    def values(self, above: bool = False) -> dict[str, Fraction]:
        """The numbers at the current tasks, from below or from ``above``."""
        shares = self.cluster.shares(self.above if above else self.below)
        return self.sums(shares, above)

    def sums(self, by_user: Mapping[int, Fraction], above: bool = False) -> dict[str, Fraction]:
        """Sums of values by user, less the base."""
        if self.single:
            return {t: by_user[j] for j, t in self.of_user.items()}
        of_number: dict[str, list[Fraction]] = {t: [] for t in self.weights}
        for j, t in self.of_user.items():
            of_number[t].append(by_user[j])
        return {t: exact_sum(parts) - self.base[t][0 if above else 1] for t, parts in of_number.items()}

    def add_slopes(self, slopes: Table, prices: Mapping[str, Fraction], c: Table) -> Fraction:
        """Add what a task of each user is worth at prices of the numbers, and return what the base is worth at most."""
        for j, t in self.of_user.items():
            for s in self.cluster.open[j] if prices.get(t) else ():
                slopes[j][s] += prices[t] * c[j][s]
        return exact_sum(price * self.base[t].low for t, price in prices.items())

    def bounded(self, level: Any, most: bool, what: str, place: int | str) -> Rows:
        """Bounds on the numbers as rows; ``level`` is a number, a list, or a dict by label."""
        names = list(self.weights)
        if not isinstance(level, dict):
            level = dict(together(names, level if isinstance(level, list) else [level] * len(names)))
        if level.keys() - {*self.cluster.users, *self.cluster.members}:
            raise Fault(f"{what} names an unknown user or team")
        members: dict[str, list[int]] = {t: [] for t in names}
        for j, t in self.of_user.items():
            members[t].append(j)
        return [
            self._bound(members[t], [t], level[t], most, what, RowName(place, t))
            for t in names
            if t in level and level[t] != math.inf and (most or level[t] != 0 or self.base[t].high > 0)
        ]

    def of_teams(self, level: Mapping[str, Any], most: bool, what: str, place: int | str) -> Rows:
        """Bounds on the sums of numbers of users, by the name of their team, as rows."""
        members, rows = self.cluster.members, Rows()
        if level.keys() - members.keys():
            raise Fault(f"{what} names an unknown user or team")
        for team, bound in level.items():
            mine = [j for j in members[team] if j in self.of_user]
            if bound != math.inf:
                names = [self.of_user[j] for j in mine]
                rows.append(self._bound(mine, names, bound, most, what, RowName(place, team)))
        return rows

    def _bound(
        self, users: Iterable[int], names: Iterable[str], level: Any, most: bool, what: str, name: RowName
    ) -> LinearRow:
        """A bound on the sum of some numbers, of these users, as a row."""
        c, sign = self.below if most else self.above, 1 if most else -1
        base = exact_sum(self.base[t][1 if most else 0] for t in names)
        row = {(j, s): sign * c[j][s] for j in users for s in self.cluster.open[j]}
        bound = (
            level if isinstance(level, Fraction) else number(level, what, 0)
        )  # a level of an objective may be negative
        return LinearRow(row, sign * (bound + base), False, name)
