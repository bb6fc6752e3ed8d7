"""Hierarchical DRF, confirmed from the levels of branches at the events of its filling.

At each event a file states the levels of teams, and which rows are full from then on. Tasks of users follow from the
levels; the checker confirms that those who rise are level and all others above them, that nothing was full before, and
that nobody can rise at the end. In between shares only grow, so that nothing else can have happened. They may fall only
where all children of a branch that rose have stopped inside a team, whose share then jumps: there is an event before
each such jump. Children that rise alone together, and users who wait when a row is full, need a straight way from the
event before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .instance import TIE, Cluster, check_keys
from .numbers import BLOCK_VIOLATION, GAP, ONE, VIOLATION, ZERO, Fraction, Place, dyadic, exact_sum, fraction, number
from .outcome import CannotCheck, Fault
from .policy import Block
from .pool import is_one_pool
from .teams import floors_of

ROOM = Fraction(1, 10**7)  # of the tasks that a user could run alone: room for more
SMALL = Fraction(1, 10**12)  # tasks of smaller dominant shares count as this in relative distances
OLD = "it was written by 0.2; upgrade it with fairopt verify --upgrade"


class Slack(NamedTuple):
    """Relative tolerances: of levels, limits and floors; of limits reached together; of the dominant resources of a
    branch; and of what is as full, or moves as little, as rounding tells. All are 0 for exact answers.
    """

    level: Fraction
    limit: Fraction
    dominant: Fraction
    rounding: Fraction


EXACT = Slack(ZERO, ZERO, ZERO, ZERO)
FLOATS = Slack(Fraction(1, 10**8), TIE * Fraction(1001, 1000), Fraction(1, 10**10), Fraction(1, 10**13))


class Node:
    """A branch: its users and branches right below it, and how it stands before and after a step.

    ``clock`` is its level. Where no child that can rise is at it, its share is as if all of these were scaled to it.
    """

    def __init__(self, name: str, above: Node | None, weight: Fraction) -> None:
        self.name, self.above, self.weight = name, above, weight
        self.depth: int = above.depth + 1 if above else 0
        self.users: list[int] = []
        self.below: list[Node] = []
        self.was = self.now = Standing()
        self.moved = False
        if above:
            above.below.append(self)

    @property
    def title(self) -> str:
        """Its name in messages."""
        return repr(self.name) if self.name else "the root"


class Standing:
    """A branch at some tasks: whether it ``can`` rise, its level, vector of shares, and share per weight."""

    can = False
    level = height = ZERO
    vector: Sequence[Fraction] = ()


class Shape(NamedTuple):
    """The tree of a policy on a cluster: branches, parents first; of each user its branch and weight."""

    nodes: list[Node]
    branch: dict[int, Node]
    weight: dict[int, Fraction]

    @classmethod
    def of(cls, cluster: Cluster, policy: Block) -> Shape:
        """The tree of `HDRF`: users by their labels, the outermost first."""
        by, given = policy.given.get("by", ["team"]), dict(policy.given.get("weights") or {})
        by = [by] if isinstance(by, str) else by
        for name in by:
            if name not in cluster.teams:
                raise Fault(f"users have no label {name!r}")
        outer: dict[str, str] = {}
        for j in range(cluster.n):
            above = ""
            for label in (cluster.teams[name][j] for name in by):
                if label is not None and outer.setdefault(label, above) != above:
                    raise Fault(f"team {label!r} is in two teams")
                above = above if label is None else label
        named = {"": Node("", None, ONE)}
        shape = cls([named[""]], {}, {})
        teams = {str(label) for name in by for label in cluster.teams[name] if label is not None}
        for j in cluster.active:
            at = named[""]
            for name in by:
                label = cluster.teams[name][j]
                if label is None:
                    continue
                if label not in named:
                    weight = number(given.get(label, cluster.team_weights.get(label, 1)), "weights", 0)
                    named[label] = Node(label, at, weight)
                    shape.nodes.append(named[label])
                at = named[label]
            user = cluster.users[j]
            own = cluster.own_weights[j] if user in teams else given.get(user, cluster.own_weights[j])
            shape.weight[j], shape.branch[j] = number(own, "weights", 0), at
            at.users.append(j)
        if not all(node.weight for node in shape.nodes) or not all(shape.weight.values()):
            raise Fault("a weight of the policy is 0")
        if given.keys() - teams - {*cluster.users}:
            raise Fault("weights name an unknown team or user")
        return shape


class ResourceRow(NamedTuple):
    """What a task of each user takes of a row, how much there is, and what is taken at first."""

    costs: dict[int, Fraction]
    room: Fraction
    taken: Fraction = ZERO

    def load(self, tasks: Mapping[int, Fraction]) -> Fraction:
        """The part that tasks take."""
        return (self.taken + exact_sum(cost * tasks[j] for j, cost in self.costs.items())) / self.room


class Filling:
    """The confirmation of a filling, event by event: the tasks of users by then, and who has ``stopped``."""

    def __init__(self, cluster: Cluster, policy: Block, entry: Mapping[str, Any], slack: Slack) -> None:
        if cluster.by_server:
            raise Fault("HDRF needs demands that are the same on all servers")
        if entry.get("states") is None:
            raise CannotCheck(OLD)
        self.cluster, self.slack = cluster, slack
        self.nodes, self.branch, weight = Shape.of(cluster, policy)
        self.demands = {j: cluster.demands[j][cluster.open[j][0]] for j in cluster.active}
        self.needs = {j: [i for i, d in enumerate(self.demands[j]) if d] for j in cluster.active}
        self.dominant = {j: max(self.ratio(j, i) for i in self.needs[j]) for j in cluster.active}
        self.per = {j: self.cut(w / self.dominant[j]) for j, w in weight.items()}  # tasks per level
        self.tasks = {j: cluster.low[j] for j in cluster.active}
        self.stopped, self.asleep, self.begun = set[int](), set[int](), False
        self.floors = self._floors(entry.get("floors") or {})
        self.every_floor = dict(self.floors)
        self.rows = [self._of_resource(i) for i in range(cluster.m)]
        self.rows += [self._of_prices(prices) for prices in entry.get("rows") or ()]
        self.full = set[int]()
        self.placements = list(entry.get("placements") or ())
        self.watched = bool(cluster.together) or not is_one_pool(cluster)
        self.limited: dict[int, list[tuple[int, int]]] = {j: [] for j in cluster.active}  # limits and where, by user
        for k, limit in enumerate(cluster.together):
            for j, s in sorted(limit.pairs):
                if j in self.needs and limit.resource in self.needs[j]:
                    self.limited[j].append((k, s))
        self.gap, self.shortage, self.words = ZERO, ZERO, ""

    def cut(self, x: Fraction) -> Fraction:
        """A number; of answers in floats with a power of 2 as denominator, so that long sums stay short."""
        return dyadic(x) if self.slack.level else x

    def ratio(self, j: int, i: int) -> Fraction:
        """The share of a resource that a task of a user uses."""
        return self.demands[j][i] / self.cluster.capacity[i]

    def close(self, a: Fraction, b: Fraction) -> bool:
        """Whether a is at most b, but for the slack of levels."""
        return a <= b + b * self.slack.level

    # -- rows

    def _of_resource(self, i: int) -> ResourceRow:
        return ResourceRow({j: d[i] for j, d in self.demands.items() if d[i]}, self.cluster.capacity[i] or ONE)

    def _of_prices(self, given: Sequence[Any]) -> ResourceRow:
        """A row of prices: it bounds all tasks that fit and hold the floors of teams.

        At prices p by server and resource a task costs at least its smallest cost a on a server, all tasks together at
        most the worth of the capacities. At prices q by team and resource a task earns b, and all together at least
        what the floors are worth. So ``sum (a - b)^+ x`` is at most the difference of the worths, and ``(b - a) T`` of
        users who earn more than they cost, where T bounds their tasks.
        """
        cluster, exact = self.cluster, not self.slack.level
        at_server: dict[int, list[tuple[int, Fraction]]] = {}
        charged: dict[tuple[int, int], Fraction] = {}  # by limits
        of_team: dict[str, list[tuple[int, Fraction]]] = {}
        room = taken = ZERO
        for where, i, p in given:
            price = fraction(p) if exact else number(p, "a price")
            if price < 0:
                raise Fault("a price is negative")
            if where is None:
                limit = cluster.together[int(i)]
                room += price * limit.amount
                for pair in limit.pairs:
                    needed = self.demands[pair[0]][limit.resource] if pair[0] in self.demands else ZERO
                    charged[pair] = charged.get(pair, ZERO) + price * needed
            elif isinstance(where, str):
                of_team.setdefault(where, []).append((int(i), price))
                taken += price * self.floors[where, int(i)] * cluster.capacity[int(i)]
            else:
                at_server.setdefault(int(where), []).append((int(i), price))
                room += price * cluster.room[int(where)][int(i)]
        costs: dict[int, Fraction] = {}
        for j, needs in self.demands.items():
            least = min(
                exact_sum(p * needs[i] for i, p in at_server.get(s, ())) + charged.get((j, s), ZERO)
                for s in cluster.open[j]
            )
            teams = self._teams(j) & of_team.keys()
            earns = exact_sum(p * needs[i] for team in teams for i, p in of_team[team])
            if earns > least:
                alone = exact_sum(cluster.tasks_alone(j, s) or ZERO for s in cluster.open[j])
                most = cluster.limits[j]
                room += (earns - least) * (alone if most is None else min(most, alone))
            elif least - earns > self.slack.limit * earns:  # prices of floats may differ by rounding only: no cost
                costs[j] = self.cut(least - earns)
        if room <= 0:
            raise Fault("a row of the evidence has no prices")
        return ResourceRow(costs, room, taken)

    def _teams(self, j: int) -> set[str]:
        """The teams of a user."""
        out, at = set[str](), self.branch[j]
        while at.above:
            out.add(at.name)
            at = at.above
        return out

    # -- floors

    def _floors(self, proofs: Mapping[str, Any]) -> dict[tuple[str, int], Fraction]:
        """The floors of teams as shares of resources."""
        cluster, out = self.cluster, dict[tuple[str, int], Fraction]()
        names = {node.name for node in self.nodes}
        for team in cluster.team_guarantees:
            if not self.slack.level:
                raise CannotCheck("guarantees of teams are filled by tolerances")
            if team not in names and any(j in cluster.active for j in cluster.members[team]):
                raise Fault(f"the guarantee of {team!r} is of no team of the policy")
            for i, units in floors_of(cluster, team, proofs.get(team) or {}).items():
                out[team, i] = units / cluster.capacity[i]
        return out

    def held(self, tasks: Mapping[int, Fraction], team: str, i: int) -> Fraction:
        """The share of a resource that a team uses."""
        users = (j for j in self.cluster.members[team] if j in tasks)
        return exact_sum(self.demands[j][i] * tasks[j] for j in users) / self.cluster.capacity[i]

    def rests(self) -> None:
        """Stop users at their limits. While floors are not met, users sleep who use nothing that their teams lack."""
        for j, x in self.tasks.items():
            limit = self.cluster.limits[j]
            if limit is not None and x >= limit * (1 - self.slack.limit):
                self.stopped.add(j)
        self.asleep = set()
        if not self.floors:
            return
        held = {of: self.held(self.tasks, *of) for of in self.floors}
        lacks = {of for of, floor in self.floors.items() if held[of] < floor * (1 - self.slack.limit)}
        for j in self.tasks:
            teams = self._teams(j)
            if not any(team in teams and i in self.needs[j] for team, i in lacks):
                self.asleep.add(j)
        if self.rising():
            return
        self.count_shortage(self.tasks)
        self.floors, self.asleep = {}, set()

    def count_shortage(self, tasks: Mapping[int, Fraction]) -> None:
        """Note the floor of which tasks lack the largest part."""
        for (team, i), floor in self.every_floor.items():
            held = self.held(tasks, team, i)
            short = 1 - held / floor if held < floor else ZERO
            if short > self.shortage:
                has, needs = (f"{float(x * self.cluster.capacity[i]):.9g}" for x in (held, floor))
                self.shortage = short
                self.words = f"team {team!r} holds {has} of the {needs} {self.cluster.resources[i]} guaranteed to it"

    def rising(self) -> set[int]:
        """The users who can rise."""
        return {j for j in self.tasks if j not in self.stopped and j not in self.asleep}

    # -- events

    def run(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Confirm all events, and that nobody can rise after the last."""
        self.rests()
        for k, state in enumerate(states):
            self.cluster.clock.check()
            check_keys(state, ("levels", "full"), f"event {k}")
            if not self.rising():
                raise Fault("an event comes after the end")
            self.confirm(state)
            self.rests()
        if left := self.rising():
            raise Fault(f"nothing stops user {self.cluster.users[min(left)]!r}")

    def stand(self, rising: set[int], clocks: Mapping[str, Fraction] | None = None) -> None:
        """How all branches stand: at the levels of ``clocks``, else at the smallest of children that can rise."""
        for node in reversed(self.nodes):
            node.now = self.standing(node, rising, None if clocks is None else clocks[node.name])

    def standing(self, node: Node, rising: set[int], clock: Fraction | None) -> Standing:
        """How a branch stands, those below it being known."""
        m, capacity, now = self.cluster.m, self.cluster.capacity, Standing()
        up = [j for j in node.users if j in rising]
        teams = [child.now for child in node.below if child.now.can]
        now.can = bool(up or teams)
        if now.can:
            heights = [self.tasks[j] / self.per[j] for j in up] if clock is None else []
            now.level = self.cut(min(heights + [t.height for t in teams])) if clock is None else clock
        sums: list[list[Fraction]] = [[] for _ in range(m)]
        for j in node.users:
            x = now.level * self.per[j] if j in rising else self.tasks[j]
            for i in self.needs[j]:
                sums[i].append(self.demands[j][i] * x)
        vector = [self.cut(exact_sum(parts) / capacity[i]) if parts else ZERO for i, parts in enumerate(sums)]
        for child in node.below:
            of = child.now
            scale = now.level / of.height if of.can and of.height > now.level else ONE
            vector = [self.cut(v + scale * of.vector[i]) for i, v in enumerate(vector)]
        now.vector = vector
        now.height = self.cut(max([ZERO, *(v for i, v in enumerate(vector) if i not in self.full)]) / node.weight)
        return now

    def confirm(self, state: Mapping[str, Any]) -> None:
        """Confirm one event: rise to its levels, and stop the users of what is full."""
        rising, slack = self.rising(), self.slack
        self.stand(rising)
        clocks, levels = dict[str, Fraction](), dict(state["levels"])
        for node in self.nodes:
            node.was = node.now
            clocks[node.name] = node.was.level
            if node.name in levels and node.was.can:
                given = levels.pop(node.name)
                level = number(given, "a level", 0) if slack.level else fraction(given)
                if not self.close(node.was.level, level):  # shares only grow: else states could be left out
                    raise Fault(f"the level of {node.title} falls")
                clocks[node.name] = max(level, node.was.level)
        if levels.keys() - {node.name for node in self.nodes}:
            raise Fault("a level is of an unknown team")
        before, ends = dict(self.tasks), set[int]()
        for j in rising:
            x, limit = clocks[self.branch[j].name] * self.per[j], self.cluster.limits[j]
            if limit is not None and x >= limit * (1 - slack.limit):
                ends.add(j)
                x = limit
            self.tasks[j] = max(before[j], x)
        moved = {j for j in rising if self.tasks[j] > before[j] * (1 + slack.rounding)}
        step = Step(self, before, clocks, rising, ends, moved)
        self.stand(rising - ends, clocks)
        step.follow()
        # users wake when the last floor is reached, which must be an event of its own
        for of, floor in self.floors.items():
            if self.held(before, *of) < floor * (1 - slack.level) and self.held(self.tasks, *of) > floor * (
                1 + slack.level
            ):
                raise Fault(f"the floor of {of[0]!r} was reached before")
        self.stopped |= ends
        self.fill(state["full"], step)

    def fill(self, given: Any, step: Step) -> None:
        """Confirm which rows are full, and stop all users of these."""
        new, slack = [int(r) for r in given], self.slack
        if {*new} & self.full or len({*new}) < len(new) or not {*new} <= {*range(len(self.rows))}:
            raise Fault("a row is full twice, or unknown")
        # a row of prices bounds all tasks that fit: it needs no look while the file does not say that it is full
        for r in ({*range(self.cluster.m)} | {*new}) - self.full:
            load = self.rows[r].load(self.tasks)
            if load > 1 + slack.level or (r in new and load < 1 - slack.level):
                raise Fault(f"{self.row_name(r)} is not full, or was full before")
            if r not in new and load > 1 - slack.rounding and (slack.level or load >= 1):
                raise Fault(f"{self.row_name(r)} is full, which the event does not say")
            if r in new:  # what the row lacks of being full is what its users could rise by
                self.gap = max(self.gap, abs(load - 1))
        stopped = {j for r in new for j in self.rows[r].costs} - self.stopped
        awake = stopped - self.asleep
        # before anybody moved nobody waited
        self.begun |= bool(step.moved)
        if self.begun and awake and (self.watched or self.floors):
            step.straight()
            waiting = awake - step.moved
            if waiting and not (self.placements and self.has_room(step.before, waiting, self.placements.pop(0))):
                user = self.cluster.users[min(waiting)]
                raise Fault(f"user {user!r} is stopped while it waits, but not shown to have had room before")
        self.full |= {*new}
        self.stopped |= stopped

    def row_name(self, r: int) -> str:
        """A row in words."""
        return f"row {r - self.cluster.m}" if r >= self.cluster.m else repr(self.cluster.resources[r])

    # -- who waits

    def has_room(self, tasks: Mapping[int, Fraction], waiting: set[int], placement: Sequence[Any]) -> bool:
        """Whether a placement fits, has at least these tasks, and more for those that wait, and holds the floors.

        Users of one branch with the same demands and servers, in the same limits, stand for each other.
        """
        cluster, exact = self.cluster, not self.slack.level
        near, load, runs = ZERO if exact else VIOLATION, dict[Place, Fraction](), dict[Any, Fraction]()
        taken = [ZERO] * len(cluster.together)
        for j, s, given in placement:
            x = fraction(given) if exact else number(given, "tasks of a placement", 0)
            if x < 0 or j not in self.tasks or s not in cluster.open[j]:
                return False
            runs[self.kind(j)] = runs.get(self.kind(j), ZERO) + x
            for i in self.needs[j]:
                load[s, i] = load.get((s, i), ZERO) + self.demands[j][i] * x
            for k, limit in enumerate(cluster.together):
                taken[k] += self.demands[j][limit.resource] * x if (j, s) in limit.pairs else ZERO
        if any(used > limit.amount * (1 + near) for used, limit in zip(taken, cluster.together)):
            return False
        if any(used > cluster.room[s][i] * (1 + near) for (s, i), used in load.items()):
            return False
        members: dict[Any, list[int]] = {}
        for j in tasks:
            members.setdefault(self.kind(j), []).append(j)
        for kind, users in members.items():
            least = exact_sum(tasks[j] for j in users)
            has, waits = runs.get(kind, ZERO), [j for j in users if j in waiting]
            if waits and exact and has <= least:
                return False
            if waits and not exact:  # in floats room counts from 1e-7 of what the user could run alone
                j = waits[0]
                least += ROOM * exact_sum(cluster.tasks_alone(j, s) or ZERO for s in cluster.open[j])
            if has < least * (1 - near):
                return False
        if not self.every_floor or self.reaches_floors(tasks):
            return True
        for kind, users in members.items():
            limits = [cluster.limits[j] for j in users]
            if None not in limits and runs.get(kind, ZERO) > exact_sum(t for t in limits if t is not None) * (1 + near):
                return False
        return self.reaches_floors(
            {j: runs.get(kind, ZERO) if j == users[0] else ZERO for kind, users in members.items() for j in users}
        )

    def kind(self, j: int) -> Any:
        """What users have in common who stand for each other."""
        return self.branch[j].name, tuple(self.demands[j]), tuple(self.cluster.open[j]), *self.limited[j]

    def reaches_floors(self, tasks: Mapping[int, Fraction]) -> bool:
        """Whether tasks reach all floors, but for `TIE`."""
        return all(self.held(tasks, *of) * (1 + TIE) >= floor for of, floor in self.every_floor.items())


class Child(NamedTuple):
    """A child that could rise: its heights before and after a step, whether it moved, and whether it can rise on."""

    low: Fraction
    high: Fraction
    moved: bool
    can: bool


class Step:
    """The way to an event: tasks ``before``, levels of branches after, who could rise, reached a limit and moved."""

    def __init__(
        self,
        of: Filling,
        before: dict[int, Fraction],
        clocks: dict[str, Fraction],
        rising: set[int],
        ends: set[int],
        moved: set[int],
    ) -> None:
        self.of, self.before, self.clocks = of, before, clocks
        self.rising, self.ends, self.moved = rising, ends, moved
        for node in reversed(of.nodes):
            node.moved = any(j in moved for j in node.users) or any(child.moved for child in node.below)

    def children(self, node: Node) -> list[Child]:
        """The children of a branch that could rise."""
        per, out = self.of.per, list[Child]()
        for j in node.users:
            if j in self.rising:
                high = self.of.tasks[j] / per[j]
                out.append(Child(self.before[j] / per[j], high, j in self.moved, j not in self.ends))
        return out + [Child(c.was.height, c.now.height, c.moved, c.now.can) for c in node.below if c.was.can]

    def follow(self) -> None:
        """Confirm that children who rose are at the level of their branch, and all others that can rise above it."""
        for node in self.of.nodes:
            if not node.was.can:
                continue
            level = self.clocks[node.name]
            for child in node.below:
                if not child.was.can:
                    continue
                height = child.now.height
                if child.now.can and not self.of.close(level, height):
                    raise Fault(f"{child.title} is below the level of {node.title}")
                if child.moved and child.now.can and child.depth == 1 and not self.of.close(height, level):
                    height = min(self.before_jump(child), level) if self.jumped(child, level) else height
                if child.moved and not self.of.close(height, level):
                    raise Fault(f"{child.title} rose above the level of {node.title}")
                if child.moved and child.now.can and child.now.height <= level * 2 and level:
                    apart = abs(height - level) if height is child.now.height else ZERO
                    self.of.gap = max(self.of.gap, apart / level)
            if node.depth > 1 and node.moved:
                self.without_gap(node)
            self.alone(node)

    def jumped(self, node: Node, level: Fraction) -> bool:
        """Whether all children of a branch that rose have stopped, and it was at most at a level then."""
        return not any(c.moved and c.can for c in self.children(node)) and self.of.close(self.before_jump(node), level)

    def before_jump(self, node: Node) -> Fraction:
        """The height of a branch when the last of its children that rose stopped."""
        # those who stopped are at their own ends, and those who wait are scaled to the last one's level
        last = max(c.high for c in self.children(node) if c.moved)
        return self.of.standing(node, self.rising - self.ends, last).height

    def without_gap(self, node: Node) -> None:
        """Confirm that some child rose at each level of a branch."""
        reached, level, children = node.was.level, self.clocks[node.name], self.children(node)
        if not node.below and self.of.close(max(c.low for c in children), reached):
            children = [c for c in children if c.can][:1] or children
        for c in sorted(children):
            if not self.of.close(c.low, reached) and c.low < level * (1 - self.of.slack.level):
                raise Fault(f"an event before a jump of {node.title} is missing")
            if self.of.close(c.low, level):
                reached = max(reached, level if c.can else c.high if c.moved else c.low)
        if node.now.can and not self.of.close(level, reached):
            raise Fault(f"an event before a jump of {node.title} is missing")

    def straight(self) -> None:
        """Confirm that nothing happened inside the step, so that all tasks moved along a line."""
        of = self.of
        for j in self.moved:
            node, limit = of.branch[j], of.cluster.limits[j]
            starts = of.close(self.before[j], node.was.level * of.per[j])
            if not starts or (limit is not None and not of.close(self.clocks[node.name] * of.per[j], limit)):
                raise Fault("an event before a full row is missing")
        for node in of.nodes:
            if node.was.can:
                self.straight_below(node, [child for child in node.below if child.moved])

    def straight_below(self, node: Node, children: Sequence[Node]) -> None:
        """Confirm that the shares of children moved along a line."""
        for child in children:
            starts = self.of.close(child.was.height, node.was.level)
            ends = self.of.close(self.clocks[node.name], child.now.height)
            near = self.of.slack.level
            if (
                not starts
                or not ends
                or not self.dominant(child, child.was, near) & self.dominant(child, child.now, near)
            ):
                raise Fault("an event before a full row is missing")

    # -- children that rise alone

    def dominant(self, node: Node, at: Standing, near: Fraction) -> set[int]:
        """The dominant resources of a branch."""
        least = at.height * node.weight * (1 - near)
        return {i for i, v in enumerate(at.vector) if i not in self.of.full and v >= least}

    def alone(self, node: Node) -> None:
        """Confirm children that rise alone together: by their weight over the dominant share of what they add."""
        level = self.clocks[node.name]
        tied = [c for c in node.below if c.now.can and self.of.close(c.now.height, level)]
        if len(tied) < 2:
            return
        slack = self.of.slack
        going = [c for c in tied if not self.dominant(c, c.now, slack.dominant) & self.grows(c, True)]
        came = [c for c in tied if c.moved and self.dominant(c, c.now, slack.rounding) - self.grows(c, False)]
        both = [c for c in tied if c in going or c in came]
        if not going or not came or len(both) < 2:
            return
        self.straight_below(node, both)
        rises = [self.added(c) / c.weight for c in both]
        # relative to their heights: added shares may be a difference of nearly equal ones
        if max(rises) - min(rises) > slack.level * max(rises + [c.now.height for c in both]):
            raise Fault(f"children of {node.title} do not rise alone together")

    def added(self, node: Node) -> Fraction:
        """The dominant share of what the users below a branch add."""
        users, stack = list[int](), [node]
        while stack:
            at = stack.pop()
            users += at.users
            stack += at.below
        demands, capacity = self.of.demands, self.of.cluster.capacity
        return max(
            exact_sum(demands[j][i] * (self.of.tasks[j] - self.before[j]) for j in users) / (capacity[i] or ONE)
            for i in range(self.of.cluster.m)
        )

    def grows(self, node: Node, after: bool) -> set[int]:
        """The resources of which the share of a branch grows after the step, or did at its end."""
        of, level = self.of, self.clocks[node.name]
        at = [c for c in node.below if self.of.close(c.now.height, level) and (c.now.can if after else c.moved)]
        if not after:
            at = [c for c in at if self.of.close(level, c.now.height)]
        rates = {c.name: self.grows(c, after) for c in at}
        still = [c for c in at if not self.dominant(c, c.now, of.slack.dominant) & rates[c.name]]
        out = {i for c in still or at for i in rates[c.name]}
        if still:
            return out
        for c in node.below:
            if c.now.can and c not in at and (after or not c.moved):
                out |= {i for i, v in enumerate(c.now.vector) if v}
        for j in node.users:
            if j in self.rising and (j not in self.ends if after else of.close(level * of.per[j], of.tasks[j])):
                out |= {*of.needs[j]}
        return out


def smallest_share(cluster: Cluster, filling: Filling) -> Fraction:
    """The smallest dominant share per weight of the root's children, at the tasks of the file."""
    root = filling.nodes[0]
    found = [cluster.total(j) / filling.per[j] for j in root.users]
    tasks = {j: cluster.total(j) for j in cluster.active}
    for node in root.below:
        held = [filling.held(tasks, node.name, i) for i in range(cluster.m) if cluster.capacity[i]]
        found.append(max(held) / node.weight)
    return min(found)


def gap_of_filling(cluster: Cluster, policy: Block, entry: Mapping[str, Any], objective: Any) -> tuple[Fraction, str]:
    """The largest relative distance of a level at an event from its definition, or of the tasks from those that follow.

    `Fault` if an event or the objective is wrong.
    """
    if not cluster.active:
        Shape.of(cluster, policy)
        check_value(objective, ZERO, ZERO)
        return ZERO, ""
    filling = Filling(cluster, policy, entry, FLOATS)
    filling.run(entry["states"])
    filling.count_shortage({j: cluster.total(j) for j in filling.tasks})
    if filling.shortage > BLOCK_VIOLATION:
        raise Fault(filling.words)
    gap = filling.gap
    for j, x in filling.tasks.items():
        gap = max(gap, abs(cluster.total(j) - x) / max(x, SMALL / filling.dominant[j]))
    if gap <= GAP:
        check_value(objective, smallest_share(cluster, filling), VIOLATION)
    return gap, f", by the levels at {len(entry['states'])} event{'s' * (len(entry['states']) != 1)}"


def check_value(objective: Any, value: Fraction, near: Fraction) -> None:
    """Refuse a stored objective that differs from the value."""
    if objective is not None and abs(number(objective, "objective") - value) > near * value:
        raise Fault(f"objective is {float(objective):.12g} in the file, but {float(value):.12g} at its tasks")


def prove_filling_exactly(cluster: Cluster, policy: Block, entry: Mapping[str, Any]) -> Fraction:
    """Prove without tolerances that the tasks are those of `HDRF`, `Fault` if they are not; the value of the objective.

    As the tasks fit, rows that bound all tasks that fit stop nobody too late; a user who waits when it is stopped is
    shown to have had room until then.
    """
    check_keys(entry, ("rows", "placements", "states"), "the exact proof")
    if not cluster.active:
        return ZERO
    filling = Filling(cluster, policy, entry, EXACT)
    filling.run(entry["states"])
    for j, x in filling.tasks.items():
        if cluster.total(j) != x:
            raise Fault(f"user {cluster.users[j]!r} does not run the tasks of the filling, about {float(x):.12g}")
    return smallest_share(cluster, filling)
