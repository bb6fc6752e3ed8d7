"""Max-min fairness on one pool.

Leximin is progressive filling (Bertsekas and Gallager 1992; Ghodsi et al. 2011): all levels rise together, and users
stop at their limit or at a full resource that they need. `WaterFilling` computes it again between integers. Without
envy on one pool, users whose tasks envy holds up stop others (`gap_by_envy`).

The level t of all who rise ends where ``fixed_i + slope_i t`` reaches the whole of a resource i, loads being parts of
it. Why a second filling and not the bottleneck condition of the answer's tasks: two users may both meet that condition
up to 2^-40 and be far from leximin (the example of Proposition 15.5 in docs/methods/evidence.md). Why integers: events
are then comparisons without gcd, numbers stay short, and each is a lower or an upper bound by its rounding. 200 bits
are too few where users need very little of what is full; then 2,000 are tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import mul
from typing import Any

from .instance import Cluster
from .numbers import BITS, GAP, ROUNDING, ZERO, Fraction, Rows, Table, exact_sum, together, up
from .outcome import Fault
from .policy import Block


def is_one_pool(cluster: Cluster) -> bool:
    """Whether all servers are equal and open to all users."""
    return all(row == cluster.capacities[0] for row in cluster.capacities[1:]) and all(
        len(cluster.open[j]) == cluster.servers for j in cluster.active
    )


def on_one_pool(cluster: Cluster, objective: Block) -> tuple[Table, Fraction]:
    """Coefficients on one pool, or on identical servers, and their largest relative error."""
    below, above = cluster.coefficients(objective.share)
    if cluster.by_server or not is_one_pool(cluster):
        raise Fault("this evidence needs one pool, or identical servers that all users may use")
    if cluster.kept_levels or not cluster.same_on_servers(objective.share):
        raise Fault("this evidence needs shares that are the same on all servers, and no lower levels of objectives")
    if above is below:
        return below, ZERO
    return below, max((above[j][0] / below[j][0] - 1 for j in cluster.active if below[j][0]), default=ZERO)


def gap_by_bottlenecks(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of max-min fairness on one pool against recomputed levels (`WaterFilling`); of `MaxMin` the lowest level
    only. The level of those who are `left_nothing` is 0. Rows only take from what is possible: tasks that satisfy them
    and are best without them are best.
    """
    on_one_pool(cluster, objective)
    below, above = cluster.coefficients(objective.share)
    gap, nothing = ZERO, left_nothing(cluster)
    if nothing and (objective.name == "MaxMin" or len(nothing) == len(cluster.active)):
        return gap
    for bits in (BITS, 10 * BITS):  # bounds lose digits if users need very little of a full resource
        water = WaterFilling(cluster, below, above, bits)
        water.fill()
        least = {j: z for j, z in water.at_tasks(below).items() if j not in nothing}
        if min(least.values()) <= 0:
            if all(cluster.total(j) > 0 for j in least) and bits == BITS:  # levels differ by more than 2^bits
                continue
            raise Fault("an active user has no share")
        if objective.name == "MaxMin":
            best = min(water.upper.values())
            gap = Fraction(max(best - min(least.values()), 0), best)
        else:
            most = least if above is below else water.at_tasks(above)
            # in integers, rounded up at the end
            rise = max(((water.upper[j] - z) << bits) // z for j, z in least.items())
            fall = max(((most[j] + 1 - water.lower[j]) << bits) // (most[j] + 1) for j in least)
            gap = Fraction(max(rise, fall, -1) + 1, 1 << bits)
        if gap <= GAP:
            break
    return gap


def left_nothing(cluster: Cluster) -> set[int]:
    """The users of one pool without tasks to whom the lower bounds of others leave nothing but rounding."""
    full = {
        i
        for i in range(cluster.m)
        if exact_sum(cluster.demands[j][0][i] * cluster.low[j] for j in cluster.active if cluster.low[j].n)
        >= cluster.capacity[i] * cluster.usable[i] * (1 - ROUNDING)
    }
    return {j for j in cluster.active if not cluster.total(j) and any(cluster.demands[j][0][i] for i in full)}


class WaterFilling:
    """Bounds on max-min fair levels on a pool, as two integers per user (Proposition 15.5).

    Levels are multiples of ``2^-bits`` of a unit near the largest one, loads multiples of ``1 / full``. Each of these
    has a lower and an upper bound: ``rates`` and ``most``, loads of a level of 1 by user and resource (exact from below
    if less than 1; 0 of a resource that is not needed); ``low`` and ``high``, levels at bounds. ``lower`` and ``upper``
    are the results. ``scale`` is the unit of levels over the weights of users.
    """

    def __init__(self, cluster: Cluster, below: Table, above: Table, bits: int) -> None:
        self.cluster, self.clock, self.full = cluster, cluster.clock, 1 << 2 * bits
        self.below, self.shares = below, cluster.shares(below)
        levels = ((share, cluster.weights[j]) for j, share in self.shares.items())
        # of the largest level; any unit is right
        shift = bits - max((z.n * w.d).bit_length() - (z.d * w.n).bit_length() for z, w in levels)
        unit = Fraction(1 << shift) if shift > 0 else Fraction(1, 1 << -shift)
        kinds = {w: unit / w for w in {*cluster.weights}}
        self.scale = [kinds[w] for w in cluster.weights]
        room = [c * part / self.full for c, part in together(cluster.capacity, cluster.usable)]
        for shared in (*kinds.values(), *room):  # in lowest terms, as what follows multiplies and divides by them
            shared.as_integer_ratio()
        self.rates, self.most = dict[int, list[Any]](), dict[int, list[int]]()
        self.low, self.high = dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
        nothing, closed = (0, 0), [i for i, r in enumerate(room) if not r.n]
        for j in cluster.active:
            cluster.clock.check()
            needs, least = cluster.demands[j][0], below[j][0] * self.scale[j]
            most = least if above is below else above[j][0] * self.scale[j]
            if least.n <= 0:
                raise Fault(f"tasks of user {cluster.users[j]!r} have a share of 0")
            high = ZERO if closed and any(needs[i].n for i in closed) else cluster.high[j]
            low = cluster.low[j]
            self.low[j] = (math.floor(low * least), math.ceil(low * most)) if low.n else nothing
            if high is not None:
                self.high[j] = math.floor(high * least), max(math.ceil(high * most), self.low[j][1])
            n, d = most.n, most.d
            self.rates[j] = rates = [
                (need.n * (r.d * d) // (need.d * (r.n * n)) or need / (r * most)) if need.n and r.n else 0
                for need, r in zip(needs, room)
            ]
            if most is least:
                self.most[j] = [(rate if type(rate) is int else 0) + 1 if rate else 0 for rate in rates]
            else:
                self.most[j] = [math.ceil(d / (r * least)) if r.n else 0 for d, r in zip(needs, room)]
        self.lower, self.upper, self.left = dict[int, int](), dict[int, int](), dict.fromkeys(cluster.active)
        self.fixed, self.slope = [0] * cluster.m, [0] * cluster.m  # at a level t loads are at most fixed + slope * t
        self.rest = [self.full] * cluster.m  # what users who are fixed leave at most

    def at_tasks(self, c: Table) -> dict[int, int]:
        """The users' levels at their tasks, rounded down, by shares of a task."""
        shares, scale = self.shares if c is self.below else self.cluster.shares(c), self.scale
        return {j: z.n * scale[j].n // (z.d * scale[j].d) for j, z in shares.items()}

    def fill(self) -> None:
        """Raise a common level from 0, and fix the users who reach a full resource or their limit."""
        level, rising = 0, {j for j, (_, at) in self.low.items() if not at}
        if rising:
            self.slope = [sum(of_resource) for of_resource in zip(*map(self.most.__getitem__, rising))]
        starts = [(at, False, j) for j, (_, at) in self.low.items() if at]
        events = sorted(starts + [(at, True, j) for j, (_, at) in self.high.items()], reverse=True)
        for low, _, j in starts:
            self.add(j, low, 0)
        closed = set[int]()
        while self.left:
            self.clock.check()
            left = [(self.full - a - b * level, b) for a, b in together(self.fixed, self.slope)]
            # full: not one more unit of level fits, by loads from above
            full = {i for i, (rest, b) in enumerate(left) if rest < max(b, 1)} - closed
            if full:
                self.settle(full, level, rising)
                closed |= full
                continue
            reach = min((level + rest // b for rest, b in left if b), default=None)
            if not events or (reach is not None and events[-1][0] > reach):
                level = reach or level
                continue
            level = max(level, events[-1][0])
            while events and events[-1][0] <= level:
                at, stops, j = events.pop()
                if j not in self.left:
                    continue
                if stops:
                    self.fix(j, *self.high[j], rising)
                else:
                    rising.add(j)
                    self.add(j, -at, 1)

    def add(self, j: int, level: int, times: int) -> None:
        """Add a user's load at a fixed level, and its rate ``times`` 1 or -1."""
        for i, most in enumerate(self.most[j]):
            if most:
                self.fixed[i] += most * level
                self.slope[i] += most * times

    def fix(self, j: int, lower: int, upper: int, rising: set[int]) -> None:
        """Fix a user's level between two bounds."""
        self.lower[j], self.upper[j] = lower, upper
        del self.left[j]
        if j in rising:
            rising.remove(j)
            self.add(j, upper, -1)
        else:
            self.add(j, upper - self.low[j][1], 0)
        for i, rate in enumerate(self.rates[j]):
            if type(rate) is int:  # from below
                self.rest[i] -= rate * lower

    def settle(self, full: set[int], level: int, rising: set[int]) -> None:
        """Bound the levels of users who need a full resource by what its other users leave at least."""
        high, left = self.high, [(j, self.rates[j]) for j in self.left]
        least = [max(self.low[j][0], level if j not in high else min(level, high[j][0])) for j, _ in left]
        slack = dict[int, int]()
        for i in full:
            # from below: what is left at most if all have what they surely have (part 2 of Proposition 15.5)
            surely = [rate if type(rate := of_user[i]) is int else 0 for _, of_user in left]
            slack[i] = max(self.rest[i] - sum(map(mul, surely, least)), 0)
        for (j, of_user), lower in zip(left, least):
            rates = [(slack[i], rate) for i in full if (rate := of_user[i])]
            if not rates:
                continue
            upper = lower + 1 + min([r // rate if type(rate) is int else math.floor(r / rate) for r, rate in rates])
            self.fix(j, lower, min(upper, high[j][1]) if j in high else upper, rising)


def gap_by_envy(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of max-min fairness without envy on one pool, each level given the earlier ones.

    User j is bound by envy of k if its tasks are, up to a part e, the fewest without envy of k. If neither j, nor k,
    nor any user at a level of at most k's may fall, then j rises whenever k does. So k rises by no more than a user j
    bound by envy of k: up to j's limit, or by what a resource has left, plus what its users bound by such levels leave
    through their e, plus what its other users free by falling to k's level, relative to j's load.
    """
    users, resources, envy = cluster.active, range(cluster.m), cluster.envied
    c, norm = on_one_pool(cluster, objective)
    cluster.given_earlier |= objective.name == "Leximin"
    total = {j: cluster.total(j) for j in users}
    level = {j: s / cluster.weights[j] for j, s in cluster.shares(c).items()}
    if any(v <= 0 for v in level.values()):
        raise Fault("an active user has no share")
    room = [cluster.capacity[i] * cluster.usable[i] for i in resources]
    loads = {j: [d * total[j] for d in cluster.demands[j][0]] for j in users}
    used = [exact_sum(needs[i] for needs in loads.values()) for i in resources]
    over = max([ZERO, *(u / r - 1 for u, r in together(used, room) if u)])
    left = [r * (1 + over) - u for r, u in together(room, used)]
    # the lowest level by whose envy each user is bound (0: a lower bound), and the row's relative slack
    base = {j: (ZERO if total[j] <= cluster.low[j] * (1 + ROUNDING) else v, ROUNDING) for j, v in level.items()}
    root = {j: (v, ZERO if v else ROUNDING) for j, (v, _) in base.items()}
    bound_by: dict[int, list[tuple[int, Fraction]]] = {k: [(k, ZERO)] for k in users}  # users bound by envy of k
    for (j, k), row in envy.items():
        slack = total[j] / (row.per_task[k, 0] * total[k]) - 1
        if slack <= ROUNDING:
            bound_by[k].append((j, max(slack, ZERO)))
            root[j] = min(root[j], (base[k][0], max(slack, ZERO) + (ZERO if base[k][0] else ROUNDING)))
    top = [max((root[j][0] for j in users if loads[j][i]), default=ZERO) for i in resources]
    freed = [exact_sum(loads[j][i] * root[j][1] for j in users) for i in resources]  # at most, by the slack of rows
    worst = over
    for k in users:
        cluster.clock.check()
        rises = []
        for j, slack in bound_by[k]:
            high = cluster.high[j]
            if high is not None and total[j] >= high * (1 - ROUNDING):
                rises.append((1 + slack) * high * (1 + over) / total[j] - 1)
            rises += [
                (1 + slack) * (1 + (left[i] + freed[i] + used[i] * max(top[i] / level[k] - 1, 0)) / load) - 1
                for i, load in enumerate(loads[j])
                if load
            ]
        worst = max(worst, up(min(rises)))
    return worst + norm
