"""Max-min fairness on servers and under linear constraints, level by level.

At leximin (Radunović and Le Boudec 2007) the levels fixed first are the lowest. Of every level z*_j of leximin the
file's tasks and prices give an interval, from the lowest level up (Proposition 15.4, docs/methods/evidence.md):

    z*_j <= F_j + (B - sum_i k_i F_i) / k_j,   B >= sum_i k_i z_i for all feasible z, at prices with costs k of levels;
    z*_j >= t,   if tasks in which earlier users E have their upper bounds, and all others come down to t, are feasible.

Floors F are the lower bounds found so far. The gap is the largest relative distance of a level from an end. Levels of
teams, and above a base, likewise (`gap_by_number_levels`).

Why both sides: prices alone, as in the gate (`fairopt.proof.level_bounds`), bound each level given the earlier ones,
and the last 1e-10 of one may be worth half of a later one. Numbers are fractions, so that there is no tolerance but
that of the file: its tasks and prices are floats, which meet capacities and equal costs up to 1e-16. A second try
removes that (`Evidence.even_out`, `fitted`), since along a chain of servers it doubles from level to level: from 1e-16
to more than 1 after 60. Fractions are rounded outwards to multiples of a power of two (`up`, `dyadic`), or their digits
would grow with every sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .constraints import row_excess
from .instance import LEVEL, NUMBER_LEVEL, Cluster, check_keys
from .numbers import (
    BLOCK_VIOLATION,
    GAP,
    ONE,
    ROUNDING,
    VIOLATION,
    ZERO,
    Fraction,
    Place,
    Rows,
    Table,
    dyadic,
    exact_sum,
    number,
    together,
    up,
)
from .outcome import CannotCheck, Fault
from .policy import Block
from .sums import Evidence, Goal, best_at_ends, bound, limits_as_rows, value_of
from .teams import TeamNumbers

COST_TIE = Fraction(1, 10**12)  # relative: costs so near may be equal, since a solver's prices are rounded
LEVEL_PAIRS = 1_000_000  # levels times pairs of users and servers that are taken: 15 seconds
DECIDED = 500  # levels times pairs up to which all count as losing what some lose, as in the gate (Bound 5.18)


def gap_by_levels(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of leximin by prices that bound each user's level, from the lowest level up (Proposition 15.4).

    ``lower`` and ``upper`` bound the levels z* at the optimum. Let E be the users of earlier levels and t a part of the
    lowest level of the others. Raise E to their upper bounds and scale the others down until all capacities hold. If
    the others keep t, then z* >= t for them: an optimum below t could move towards this point at the cost of users
    above t only. If B bounds the cost of all levels, a user's level is at most ``floor + (B - cost of all floors) / its
    cost``.

    If that point violates a constraint, or earlier users alone exceed a capacity, less is proved: each level is bounded
    given the earlier ones, including what their slack is worth at the prices (`Cluster.given_earlier`). What others may
    lose to them then counts in the gap, but on large instances they pay for it at the prices only: if all lost the
    1e-10 that a user may lose, one who pays little could rise by 1e-6. This may double from level to level, so a second
    try starts from no slack by rounding (`Evidence.even_out`).
    """
    count, size = len(entry["levels"]), sum(len(cluster.open[j]) for j in cluster.active)
    if count * size > LEVEL_PAIRS:
        raise CannotCheck(
            f"{count:,} levels times {size:,} pairs of users and servers take too long in fractions; the limit is "
            f"{LEVEL_PAIRS:,}"
        )
    c, above = cluster.coefficients(objective.share)
    if any(len({c[j][s] for s in cluster.open[j]}) > 1 for j in cluster.active if cluster.high[j] is not None):
        rows = rows + limits_as_rows(cluster)  # a share that may rise without more tasks
    stored = {j: s / cluster.weights[j] for j, s in cluster.shares(c).items()}
    if any(v <= 0 for v in stored.values()):
        raise Fault("an active user has no share")
    users, room = cluster.active, cluster.usable_units()
    best = {j: max(c[j][s] for s in cluster.open[j]) / cluster.weights[j] for j in users}
    most = {j: up(best[j] * cluster.most_tasks(j)) for j in users}
    # a file's tasks may miss a bound or exceed a row by what verdicts tolerate: bounds that they break are moved to
    # them
    least = {j: min(cluster.low[j], cluster.total(j)) for j in users}
    constrained = bool(rows or cluster.kept_levels or any(least.values()))
    if constrained:
        most = {j: max(v, stored[j]) for j, v in most.items()}
        room = {place: max(r, cluster.load(*place)) for place, r in room.items()}
    broken = [row_excess(cluster, row)[0] for row in rows]
    below = [max(level - value_of(cluster, other), ZERO) for other, level, _ in cluster.kept_levels]
    level_per_task = cluster.level_per_task(c)
    steps: list[tuple[list[int], Evidence]] = []
    for k, one in enumerate(entry["levels"]):
        check_keys(one, LEVEL, f"level {k} of the evidence")
        steps.append(([users[u] for u in one["users"]], Evidence(cluster, one, rows)))
        if not one["users"]:
            raise Fault(f"level {k} of the evidence has no users")
    lowest = {j: least[j] * min(c[j][s] for s in cluster.open[j]) / cluster.weights[j] for j in users}
    pairs = [(j, s) for j in users for s in cluster.open[j]]
    # coefficients of a root are known from below and above
    norm = max((above[j][s] / c[j][s] - 1 for j, s in pairs if c[j][s]), default=ZERO)
    for exactly in (False, True):
        for _, prices in steps if exactly else ():
            prices.even_out(level_per_task)
        tasks = cluster.tasks if constrained else fitted(cluster, room, exactly)
        with cluster.at(tasks):
            z = {j: -dyadic(-s / cluster.weights[j]) for j, s in cluster.shares(c).items()}  # rounded down
        if min(z.values()) <= 0:
            raise Fault("an active user runs all its tasks where there is no capacity")
        earlier = Earlier(cluster, level_per_task, tasks, room, z, constrained)
        # who is at the most that it can be, up to the gap, needs no prices, and is an earlier user to those above it
        order: list[tuple[list[int], Evidence | None]] = [([j], None) for j in users if most[j] <= z[j] * (1 + GAP)]
        order += steps
        lower, upper, given = dict.fromkeys(users, ZERO), dict(most), False
        lowest_first = sorted(users, key=z.__getitem__, reverse=True)
        for now, evidence in sorted(order, key=lambda step: min(z[j] for j in step[0])):
            cluster.clock.check()
            # the lowest level of all that are not bounded yet, in this step or later: all come down to a part of it
            while lowest_first and lowest_first[-1] in earlier.rise:
                lowest_first.pop()
            if not lowest_first:
                break
            level = z[lowest_first[-1]]
            parts, alone = earlier.parts_of_others(level, constrained or count * size > DECIDED)
            part = min(parts.values(), default=ONE)
            given |= alone
            if constrained and not given:  # nothing is scaled to them: the raised point keeps them or not
                factors = {j: max(upper[j] / z[j], ONE) if j in earlier.rise else part for j in users}
                given = not stays_feasible(cluster, rows, broken, below, factors)
            if constrained and given:
                parts, part = {}, ONE
            # what others keep at least; what users of this level keep, who may lose less than the worst of the others
            others, kept, shared = level * part, dict.fromkeys(now, level * part), dict[int, Fraction]()
            if given and count * size > DECIDED:
                others = level
                kept = {j: level * min((parts[at] for at in parts if j in earlier.units[at]), default=ONE) for j in now}
            if evidence is not None:
                # no floor is above what the tasks give, or the slack could be negative for no reason of the prices
                floors = {j: min(max(lower[j] if j in earlier.rise else others, lowest[j]), z[j]) for j in users}
                # what the file's tasks exceed rows by is allowed to all
                limit = evidence.right_hand_side(room) + exact_sum(
                    abs(y) * b for y, b in together(evidence.rows, broken)
                )
                limit += exact_sum(y * b for y, b in together(evidence.kept_multipliers, below))
                before = earlier if given else None
                shared = tighten_upper_bounds(cluster, level_per_task, evidence, floors, upper, now, limit, before)
            lower |= {j: min(max(kept[j], lowest[j]), z[j]) for j in now if j not in earlier.rise}
            earlier.add(now, upper, shared)
        # a level without an interval is no proof, however near the tasks are
        missing = [cluster.users[j] for j in users if j not in earlier.rise]
        if missing:
            raise Fault(f"no prices bound the level of user {missing[0]!r}")
        gap = norm + max(max(upper[j] / v - 1, 1 - lower[j] / v, ZERO) for j, v in stored.items())
        if gap <= GAP or constrained:  # tasks under constraints are not fitted
            break
    cluster.given_earlier |= given
    return gap


def fitted(cluster: Cluster, room: Mapping[Place, Fraction], exactly: bool) -> Table:
    """The tasks made exactly feasible: scaled to capacities, and cut to limits.

    If ``exactly``, servers that are full up to rounding are full afterwards.
    """
    factors = []
    for s in range(cluster.servers):  # to 1 where full up to rounding, or down to it; others are left
        part = min((room[s, i] / load for i in range(cluster.m) if (load := cluster.load(s, i))), default=ONE)
        factors.append(part if part <= 1 + ROUNDING else ONE)
    if not exactly:
        factors = [min(ONE, *factors)] * len(factors)  # one for all, so that levels keep their ratios
    out = []
    for row, high in together(cluster.tasks, cluster.high):
        fitting = [x * part if part != ONE else x for x, part in together(row, factors)]
        total = exact_sum(fitting)
        cut = ONE if high is None or total <= high else high / total
        # rounded down, so that they still fit; later sums have one denominator
        out.append([-dyadic(-x * cut) for x in fitting] if exactly else [x * cut for x in fitting])
    return out


def stays_feasible(
    cluster: Cluster, rows: Rows, broken: Sequence[Fraction], below: Sequence[Fraction], factors: Mapping[int, Fraction]
) -> bool:
    """Whether scaling users' tasks violates no constraint by more than the file's tasks do."""
    stored = cluster.tasks
    with cluster.at([[x * factors.get(j, ONE) for x in row] for j, row in enumerate(stored)]):
        try:
            low = all(cluster.total(j) >= min(cluster.low[j], sum(stored[j])) for j in cluster.active)
            kept = all(value_of(cluster, k[0]) >= k[1] - b for k, b in together(cluster.kept_levels, below))
            return low and kept and all(row_excess(cluster, row)[0] <= b for row, b in together(rows, broken))
        except Fault:  # minus infinity
            return False


class Earlier:
    """Users whose levels are bounded, and how far they may be above the levels ``z``, in groups that share a slack.

    At a level's prices its users pay ``sum_j k_j (z*_j - z_j) <= slack``. Where a unit of level takes c_j of anything,
    they take ``max_j c_j slack / k_j`` more of it at most. If each counted with its own rise, of up to ``slack / k_j``,
    the slack would count once for each user: a rounding of 3e-15 then left gaps of 1e-5 with 1,000 users.

    ``rise`` bounds that of each user, ``shared`` is ``slack / k_j``. ``units`` are what a unit of level takes by place.
    The others use ``others`` of a place, ``per_level`` per unit of level, and ``free`` is left for them. Under further
    constraints, which hold for one point only, these users are all ``at_bounds``.
    """

    def __init__(
        self,
        cluster: Cluster,
        level_per_task: Mapping[int, Mapping[int, Fraction]],
        tasks: Table,
        room: Mapping[Place, Fraction],
        z: Mapping[int, Fraction],
        at_bounds: bool,
    ) -> None:
        self.cluster, self.level_per_task, self.at_bounds = cluster, level_per_task, at_bounds
        self.moves: dict[Place, dict[Place, Fraction]] = {}  # `elsewhere`, as it is asked for in each step
        self.z, self.rise, self.shared, self.groups = z, dict[int, Fraction](), dict[int, Fraction](), list[list[int]]()
        self.units: dict[Place, dict[int, Fraction]] = {}
        self.others, self.per_level, self.free = dict[Place, Fraction](), dict[Place, Fraction](), dict(room)
        for s, i in room:
            loads = ((j, cluster.demands[j][s][i] * tasks[j][s]) for j in z if tasks[j][s].n)
            self.units[s, i] = {j: dyadic(load / z[j]) for j, load in loads if load.n}
            self.others[s, i], self.per_level[s, i] = self._used((s, i), z)

    def _used(self, place: Place, users: Iterable[int]) -> tuple[Fraction, Fraction]:
        units = self.units[place]
        some = [j for j in users if j in units]
        return exact_sum(dyadic(units[j] * self.z[j]) for j in some), exact_sum(units[j] for j in some)

    def add(self, users: Iterable[int], upper: Mapping[int, Fraction], shared: Mapping[int, Fraction]) -> None:
        """Add users at their ``upper`` bounds; those of ``shared`` are a group, the others each by itself."""
        new = [j for j in dict.fromkeys(users) if j not in self.rise]
        self.rise |= {j: max(dyadic(upper[j] - self.z[j]), ZERO) for j in new}
        self.shared |= {j: dyadic(shared.get(j, self.rise[j])) for j in new}
        groups = [[j] for j in new if j not in shared] + [[j for j in new if j in shared]]
        self.groups += groups
        for place, units in self.units.items():
            used, per_level = self._used(place, new)
            self.others[place] -= used
            self.per_level[place] -= per_level
            self.free[place] -= used + self.most(units, [[j] for j in new] if self.at_bounds else groups)

    def most(self, per_level: Mapping[int, Fraction], groups: Sequence[Sequence[int]] | None = None) -> Fraction:
        """What users take more, at most, of anything of which a unit of level takes ``per_level``."""
        total = ZERO
        for group in self.groups if groups is None else groups:
            some = [(j, c) for j in group if self.rise[j].n and (c := per_level.get(j, ZERO)).n > 0]
            if some:  # each by its own rise, or one by all of the slack that they share
                total += min(exact_sum(c * self.rise[j] for j, c in some), max(c * self.shared[j] for j, c in some))
        return total

    def passed_on(self) -> dict[Place, Fraction]:
        """What is free if these run elsewhere where they exceed room that they fill alone (Proposition 15.4).

        Several places may pass on to the same server, so loads add up. An excess reaches no server twice, by the fewest
        moves: in a circle of servers, or from one resource of a server to another, it would grow without end.
        """
        free, alone = dict(self.free), {place for place, each in self.per_level.items() if not each.n}
        exceeded = [place for place, left in self.free.items() if left < 0 and place in alone]
        for start in exceeded:
            reached, passed = {start[0]}, {start: -self.free[start]}
            while passed:
                more: dict[Place, Fraction] = {}
                for place, excess in passed.items():
                    for at, each in self.elsewhere(place).items():
                        if at[0] not in reached:
                            more[at] = dyadic(more.get(at, ZERO) + excess * each)
                reached |= {s for s, _ in more}
                free |= {at: free[at] - load for at, load in more.items()}
                # all of it goes on, unless what all excesses bring fits
                passed = {at: load for at, load in more.items() if at in alone and load * len(exceeded) > self.free[at]}
        return free

    def elsewhere(self, place: Place) -> dict[Place, Fraction]:
        """What a unit of a place takes at most of each other place if its users keep their levels there instead."""
        if place not in self.moves:
            (s, i), out = place, self.moves.setdefault(place, {})
            for j in self.units[place]:
                per_task, demands = self.level_per_task[j], self.cluster.demands[j]
                level = per_task.get(s, ZERO) / demands[s][i]
                for to in per_task.keys() - {s}:
                    for r, need in enumerate(demands[to]):
                        if need.n:
                            out[to, r] = max(out.get((to, r), ZERO), dyadic(level / per_task[to] * need))
        return self.moves[place]

    def parts_of_others(self, level: Fraction, stay: bool) -> tuple[dict[Place, Fraction], bool]:
        """The parts that the others keep where these do not fit, and whether these exceed what no other user needs.

        They are parts of a ``level`` to which those above it come down, or, under further constraints, of all tasks.
        Unless these ``stay`` where they are, they run elsewhere if they exceed what they need alone.
        """
        # as they run, or with all of them at the level, where those above it use less of scarce places
        need = self.others if self.at_bounds else {place: level * each for place, each in self.per_level.items()}
        room = self.free if stay else self.passed_on()
        short = [place for place, free in room.items() if free < need[place]]
        parts = {place: max(-up(-room[place] / need[place]), ZERO) for place in short if need[place].n}
        return parts, len(parts) < len(short)


def tighten_upper_bounds(
    cluster: Cluster,
    level_per_task: Mapping[int, Mapping[int, Fraction]],
    prices: Evidence,
    floors: Mapping[int, Fraction],
    upper: dict[int, Fraction],
    users: Iterable[int],
    limit: Fraction,
    earlier: Earlier | None,
) -> dict[int, Fraction]:
    """Lower the upper bounds of users by what prices leave above the floors, and what ``earlier`` users may take.

    Returns by how much each user could rise if it took all of it. ``limit`` is the right-hand side at the prices.
    """
    goal, costs = Goal(cluster), {}
    goal.add_kept_levels(prices)
    for j, each in level_per_task.items():
        costs[j] = prices.costs[j] if prices.costs else -dyadic(-min(prices.cost[j][s] / v for s, v in each.items()))
        for s, v in each.items():
            goal.slopes[j][s] += costs[j] * v
    left = bound(goal, prices, limit)  # B; what follows takes off the floors, of negative costs the upper bounds
    for j, cost in costs.items():
        if cost:
            left = up(left - cost * (floors[j] if cost > 0 else upper[j]))
    left = max(left + (earlier.most(costs) if earlier else ZERO), ZERO)
    rises = {j: up(left / costs[j]) for j in users if costs[j] > 0}
    for j, rise in rises.items():
        upper[j] = min(upper[j], up(floors[j] + rise))
    return rises


def gap_by_number_levels(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of a leximin of numbers, by prices that bound them level by level.

    At prices of capacities and rows, and prices pi of numbers, ``sum_t pi_t z_t`` has a bound V. If the others keep
    their floors up to the level, a number rises by at most ``(V - sum_t pi_t floor_t) / pi_t``, and what earlier
    numbers could rise by counts at their prices; those of one level share its slack. What a number holds at a positive
    reduced cost counts as well.
    """
    if cluster.kept_levels:
        raise CannotCheck("levels of numbers are proved under linear constraints only")
    compared = TeamNumbers(cluster, objective.share, levelled=True)
    if len(entry["levels"]) * sum(len(cluster.open[j]) for j in cluster.active) > LEVEL_PAIRS:
        raise CannotCheck(f"{len(entry['levels']):,} levels take too long in fractions")
    z, w, users = compared.values(), compared.weights, cluster.active
    typical = sum((v for v in z.values() if v > 0), ZERO) / sum(w.values())  # per weight: the unit of numbers near 0
    best = {j: max(compared.above[j][s] for s in cluster.open[j]) * cluster.most_tasks(j) for j in users}
    least = {j: min(compared.below[j][s] for s in cluster.open[j]) * cluster.low[j] for j in users}
    most, lowest = compared.sums(best, above=True), compared.sums(least)
    could = {t: min(typical * w[t] or m, m) if m > 0 else typical * w[t] or ONE for t, m in most.items()}
    # a number may be above its base by what constraints may be violated by, and rise by as much
    missed = {t: BLOCK_VIOLATION * (most[t] + b.high) if b.high > 0 else ZERO for t, b in compared.base.items()}
    near = {t: max(VIOLATION * could[t], missed[t]) for t in z}
    unit = {t: v if v > near[t] else max(could[t], missed[t] / GAP) for t, v in z.items()}
    rise = {t: max(most[t] - v, ZERO) for t, v in z.items()}
    unproved = set(z)  # numbers that no prices bound
    room = {place: max(r, cluster.load(*place)) for place, r in cluster.usable_units().items()}
    broken = [row_excess(cluster, row)[0] for row in rows]
    fixed_by, gap = dict[str, tuple[int, Fraction]](), ZERO  # the level of a number, and what its slack would buy of it
    for k, one in enumerate(entry["levels"]):
        check_keys(one, NUMBER_LEVEL, f"level {k} of the evidence")
        cluster.clock.check()
        evidence, mine = Evidence(cluster, one, rows), list(dict.fromkeys(map(str, one["numbers"])))
        if not mine or not {*mine, *one["of_numbers"]} <= z.keys():
            raise Fault(f"level {k} of the evidence has no numbers, or unknown ones")
        pi = {t: max(number(v, "of_numbers"), ZERO) for t, v in one["of_numbers"].items()}
        top = evidence.right_hand_side(room) - exact_sum(p * compared.base[t].low for t, p in pi.items())
        top += exact_sum(abs(y) * b for y, b in together(evidence.rows, broken))
        for j in users:
            paid, c = pi.get(compared.of_user.get(j, ""), ZERO), compared.above[j]
            net = max(paid * c[s] - evidence.cost[j][s] for s in cluster.open[j])
            top = up(top + best_at_ends(net, cluster.low[j], cluster.most_tasks(j)))
        gap = max(
            gap, *(v / unit[t] for t, v in held_at_reduced_cost(cluster, compared, evidence, pi, z, most).items())
        )
        level = min(z[t] / w[t] for t in mine)
        floors = {t: min(z[t], max(level * w[t], lowest[t])) for t in pi}
        slack = max(top - exact_sum(p * floors[t] for t, p in pi.items()), ZERO)
        if any(not pi.get(t) for t in mine):
            raise Fault(f"level {k} of the evidence has no price of a number that it fixes")
        earlier = {t for t in pi if t in fixed_by or (z[t] / w[t] < level and rise[t] > 0)} - {*mine}
        of_level = dict[int | None, list[str]]()
        for t in earlier:
            of_level.setdefault(fixed_by[t][0] if t in fixed_by else None, []).append(t)
        lost = ZERO
        for n, numbers in of_level.items():
            each = exact_sum(pi[t] * rise[t] for t in numbers)
            # the slack of a level is there once: one of its numbers takes all of it at most
            lost += each if n is None else min(each, max(pi[t] * fixed_by[t][1] for t in numbers))
        gap = max(gap, up(lost / exact_sum(pi[t] * unit[t] for t in mine)))
        for t in mine:
            by_prices = up(max(floors[t] - z[t], ZERO) + slack / pi[t])
            rise[t] = min(rise[t], by_prices)
            fixed_by[t] = k, slack / pi[t]
            if by_prices <= GAP * unit[t]:
                unproved.discard(t)
    highest = max(v / w[t] for t, v in z.items())
    for j, t in compared.of_user.items():  # at an optimum, numbers at their most have nothing on worse servers
        if t in unproved and z[t] / w[t] * (1 + ROUNDING) < highest:
            c = compared.above[j]
            tie = max(c[s] for s in cluster.open[j]) * (1 - COST_TIE)
            worse = (c[s] * cluster.tasks[j][s] for s in cluster.open[j] if c[s] < tie)
            rise[t] += exact_sum(worse)
    lower = (j for j, t in compared.of_user.items() if z[t] / w[t] * (1 + ROUNDING) < highest)
    cluster.given_earlier |= any(is_almost_alike(cluster, compared, j) for j in lower)
    return max(gap, *(up(v / unit[t]) for t, v in rise.items()))


def is_almost_alike(cluster: Cluster, compared: TeamNumbers, j: int) -> bool:
    """Whether a user needs almost the same on two servers, so that prices do not say where it may run.

    Where a level leaves its users free to move between them, that can be worth all of a later level.
    """
    c = compared.above[j]
    needs = sorted(([d / c[s] for d in cluster.demands[j][s]] for s in cluster.open[j] if c[s]), key=exact_sum)
    near = (all(abs(x - y) <= COST_TIE * max(x, y) for x, y in zip(a, b)) for a, b in zip(needs, needs[1:]) if a != b)
    return any(near)


def held_at_reduced_cost(
    cluster: Cluster,
    compared: TeamNumbers,
    evidence: Evidence,
    prices: Mapping[str, Fraction],
    z: Mapping[str, Fraction],
    most: Mapping[str, Fraction],
) -> dict[str, Fraction]:
    """What numbers hold where tasks cost more than is paid for them, beyond lower bounds: nothing at an optimum."""
    out = dict.fromkeys(z, ZERO)
    for j, t in compared.of_user.items():
        c, cost, tasks = compared.above[j], evidence.cost[j], cluster.tasks[j]
        paid = {s: prices.get(t, ZERO) * c[s] for s in cluster.open[j]}
        reduced = {s: cost[s] - p for s, p in paid.items()}
        least = min(reduced.values())
        costly, elsewhere = (
            exact_sum(tasks[s] for s, p in paid.items() if reduced[s] - of > COST_TIE * (evidence.size[j][s] + p))
            for of in (ZERO, least)
        )
        # complementary slackness, but for bounds: what they hold there is paid by their multipliers
        if z[t] >= most[t] * (1 - ROUNDING):  # a higher price would pay for all its users
            costly = ZERO
        if cluster.low[j] > 0:
            costly = min(costly, max(exact_sum(tasks[s] for s in paid) - cluster.low[j], ZERO))
        out[t] += max(costly, elsewhere) * max(c[s] for s in paid)
    return out
