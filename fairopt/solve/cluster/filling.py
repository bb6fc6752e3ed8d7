"""The filling of a tree by hierarchical DRF, from event to event, in floats or in fractions (Definition 17.2).

A team v has the vector V_v of shares of resources, the sum of its children's, in which children that can rise are
scaled to the smallest level among these:

    V_v = sum_(c stopped) V_c + sum_(c can rise) (f_v / h_c) V_c,   h_c = max_(i not full) V_ci / w_c,   f_v = min h_c.

Always the children of the smallest level rise, in each team that rises, until no user can. Between two events
everything is linear (Proposition 17.3): a user reaches its limit, a row is full, a child that waited is reached, or
another resource has the largest entry of a vector. So events are jumped to, where small steps would take as many as
they are fine, and users share no clock: a branch is moved only when something happens below it. An event costs the
depth of the tree times the logarithm of the number of children; only where a row is full or a floor is reached are all
levels compared afresh.

Floats: what is reached together in exact numbers is a little apart in floats, as demands of .1 are, and the order of
two such events could decide who stops. So levels and limits within `TIE`, and capacities within `SAME`, count as equal;
in fractions both are 0. Vectors are sums in trees, so that no rounding adds up. The class writes the states at its
events, from which others confirm it with code of their own (`fairopt.proof.filling_states` and `fairopt verify`,
Proposition 17.5; docs/methods/hierarchy.md); on 3,000 random trees floats agreed with a filling by recursion in
fractions within 2e-13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from fairopt.blocks.guarantees import limited_units
from fairopt.instance import Instance
from fairopt.runtime.clock import check

TIE = 1e-9  # relative: levels and limits this close are reached together
SAME = 1e-10  # relative: capacities this close (tight guarantees leave 4e-11) are full together, and shares dominant
SIGNIFICANT = 38  # binary places of limits and guarantees per weight that are compared: 4e-12, far below `TIE`
# of a child: it cannot rise; it is above the smallest level; it rises with that; it rises while its share stands still
STOPPED, WAITING, RISING, ALONE = range(4)


class Tree(NamedTuple):
    """The tree of a policy: the users of its leaves, its branches by name, and the first fields of `Forest`.

    Users who are alike in one branch are one leaf: those with the same demands on the same servers, the same limit and
    guarantee per weight, and the same part in limits on what users take together. Their levels are equal throughout, so
    that each has its part of the leaf by weight.
    """

    leaves: list[list[int]]
    names: list[str]
    parents: list[int]
    weights: list[Any]
    leaf_parents: list[int]
    leaf_weights: list[Any]
    user_weights: dict[int, Any]

    @classmethod
    def of(
        cls,
        labels: Mapping[int, Sequence[str | None]],
        team_weight: Callable[[str], Any],
        user_weights: Mapping[int, Any],
        kind: Callable[[int], Any],
    ) -> Tree:
        """The tree of users by their ``labels``, the outermost first; ``kind`` is equal for users who are alike."""
        places, kinds = {"": 0}, dict[Any, int]()
        tree = cls([], [""], [0], [1], [], [], dict(user_weights))
        for j, of_user in labels.items():
            parent = 0
            for name in of_user:
                if name is None:
                    continue
                if name not in places:
                    places[name] = len(tree.names)
                    tree.names.append(name)
                    tree.parents.append(parent)
                    tree.weights.append(team_weight(name))
                parent = places[name]
            leaf = kinds.setdefault((parent, kind(j)), len(kinds))
            if leaf == len(tree.leaves):
                tree.leaves.append([])
                tree.leaf_parents.append(parent)
                tree.leaf_weights.append(user_weights[j] - user_weights[j])  # 0 of its type, float or fraction
            tree.leaves[leaf].append(j)
            tree.leaf_weights[leaf] += user_weights[j]
        return tree

    @classmethod
    def in_floats(cls, instance: Instance, policy: Any) -> Tree:
        """The tree of `HDRF` on an instance, of users who take part."""
        given, own = dict(policy.weights or {}), instance.team_weights
        columns = [instance.teams.labelling(by) for by in policy.by]
        teams = {name for column in columns for name in column.names}
        active = [j for j in range(instance.n_users) if instance.task_limits[j] > 0]
        labels = {j: [c.names[c.of_user[j]] if c.of_user[j] >= 0 else None for c in columns] for j in active}
        weights: dict[int, float] = {}
        for j in active:
            user, weight = instance.users[j], float(instance.own_weights[j])
            weights[j] = weight if user in teams else given.get(user, weight)
        limits, starts = instance.task_limits.tolist(), instance.guarantees.tolist()
        together = list(limited_units(instance))

        def kind(j: int) -> Any:
            per_weight = (significant(min(x, limits[j]) / weights[j]) for x in (limits[j], starts[j]))
            taken = (units[j].tobytes() for units in together)
            return instance.demands[j].tobytes(), instance.eligible[j].tobytes(), *per_weight, *taken

        return cls.of(labels, lambda name: float(given.get(name, own.get(name, 1.0))), weights, kind)

    @property
    def parts(self) -> Iterator[tuple[int, int, Any]]:
        """Each user with its leaf, and its part of that."""
        for leaf, users in enumerate(self.leaves):
            for j in users:
                yield j, leaf, self.user_weights[j] / self.leaf_weights[leaf]

    def entries(self, filling: Filling, form: Callable[[Any], Any] = float) -> list[dict[str, Any]]:
        """The states of a filling as evidence, by names of branches."""
        return [
            {"levels": {self.names[k]: form(level) for k, level in state.levels.items()}, "full": list(state.full)}
            for state in filling.states
        ]

    def events(self, filling: Filling, instance: Instance) -> list[dict[str, Any]]:
        """Why users stopped: the root's level, the cause, the user, resource or number of the row, and who stopped."""
        users = [[instance.users[j] for j in leaf] for leaf in self.leaves]
        out = []
        for level, cause, of, leaves in filling.events:
            what = users[of][0] if cause == "limit" else instance.resources[of] if cause == "full" else of
            stopped = [name for leaf in leaves for name in users[leaf]]
            out.append({"level": level, "cause": cause, "of": what, "stopped": stopped})
        return out

    def forest_in_floats(self, instance: Instance, floors: Mapping[str, Mapping[int, float]]) -> Forest:
        """What the tree fills, without rows; ``floors`` are units by team and resource."""
        capacities, of_user = instance.total_capacities.tolist(), instance.ratios
        starts = [float(min(g, t)) for g, t in zip(instance.guarantees, instance.task_limits, strict=True)]
        limits = [math.fsum(float(instance.task_limits[j]) for j in users) for users in self.leaves]
        return Forest(
            self.parents,
            self.weights,
            self.leaf_parents,
            self.leaf_weights,
            [of_user[users[0]].tolist() for users in self.leaves],
            [None if math.isinf(limit) else limit for limit in limits],
            [math.fsum(starts[j] for j in users) for users in self.leaves],
            [],
            [],
            {
                self.names.index(team): {i: v / capacities[i] for i, v in units.items()}
                for team, units in floors.items()
                if team in self.names
            },
        )


def significant(x: float) -> Any:
    """A number's exponent and first binary places, which leave out rounding."""
    if math.isinf(x):
        return x
    mantissa, exponent = math.frexp(x)
    return exponent, round(math.ldexp(mantissa, SIGNIFICANT))


class Forest(NamedTuple):
    """A tree of users and what they fill, in numbers of one type.

    Branch 0 is the root, and ``parents`` of branches come before them. ``ratios`` (n_leaves, n_resources) are shares of
    total capacity per task; each further row is a coefficient per task of each leaf, of which a part is ``taken`` at
    first, and is full at 1. ``floors`` are shares by branch and resource.
    """

    parents: Sequence[int]
    weights: Sequence[Any]
    leaf_parents: Sequence[int]
    leaf_weights: Sequence[Any]
    ratios: Sequence[Sequence[Any]]
    limits: Sequence[Any]
    starts: Sequence[Any]
    rows: Sequence[Sequence[Any]]
    taken: Sequence[Any]
    floors: Mapping[int, Mapping[int, Any]]


class Sums:
    """Vectors in numbered places, and their sum: a change costs the logarithm of their number."""

    def __init__(self, vectors: Sequence[Any], nothing: Any) -> None:
        self.nothing, self.size = nothing, 1 << max(len(vectors) - 1, 0).bit_length()
        self.tree = [nothing] * self.size + [*vectors] + [nothing] * (self.size - len(vectors))
        # sums of halves, of halves of these, and so on: nothing is ever subtracted, so that no rounding adds up
        for k in range(self.size - 1, 0, -1):
            self._add(k)

    def _add(self, k: int) -> None:
        left, right, nothing = self.tree[2 * k], self.tree[2 * k + 1], self.nothing
        if left is nothing or right is nothing:  # most places, in large teams: no vector is added
            self.tree[k] = right if left is nothing else left
        else:
            self.tree[k] = [a + b for a, b in zip(left, right, strict=True)]

    def put(self, place: int, vector: Any) -> None:
        """Replace the vector of a place."""
        k = place + self.size
        self.tree[k] = vector
        while k > 1:
            k >>= 1
            self._add(k)

    @property
    def total(self) -> Any:
        """The sum of all vectors."""
        return self.tree[1]


class Leaf:
    """A user in the tree. Its level is its dominant share per weight; ``per`` are tasks per level.

    ``tasks`` are those it had when the level of its ``parent`` was ``at``. A task adds ``ratios`` to shares, and
    ``uses`` to rows; ``rate`` is both while its level rises by 1.
    """

    __slots__ = (
        "at",
        "limit",
        "number",
        "parent",
        "per",
        "place",
        "rate",
        "ratios",
        "serial",
        "state",
        "tasks",
        "uses",
    )

    def __init__(self, number: int, parent: Branch, per: Any, ratios: Any, uses: Any, limit: Any, tasks: Any) -> None:
        self.number, self.parent, self.per, self.ratios, self.uses = number, parent, per, ratios, uses
        self.rate = [per * g for g in (*ratios, *uses)]
        self.limit, self.tasks, self.at, self.place = limit, tasks, tasks, len(parent.children)
        self.state, self.serial = STOPPED, 0
        parent.children.append(self)


class Branch:
    """A team, or the root, in the tree.

    ``level`` is the smallest level of its children that can rise, and ``vector`` its shares of resources. Where its
    children rise without moving their shares, ``alone`` counts how far, and ``level`` stands still.
    """

    def __init__(self, number: int, parent: Branch | None, weight: Any) -> None:
        self.number, self.parent, self.weight = number, parent, weight
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: list[Leaf | Branch] = []
        self.state, self.serial, self.place = STOPPED, 0, 0
        self.open = self.tied = self.still = 0  # children that can rise, that rise, and that rise alone
        self.level: Any = None
        self.alone: Any = None
        self.at: Any = None  # the parent's level, or its `alone`, at which this branch was brought up to date
        self.speed: Any = None  # how far it moves while that moves by 1
        self.vector: list[Any] = []
        self.stopped: list[Any] = []  # the shares of children that cannot rise
        self.rate: list[Any] = []
        self.growth: Any = None  # of its share
        self.next: Any = None  # the level, or `alone`, of its next event
        self.cause: int | None = None  # the resource of an event of its own; None: an event of a child
        self.sums: Any = None
        self.alone_sums: Any = None
        self.queue: list[tuple[Any, int, Leaf | Branch]] = []
        self.alone_queue: list[tuple[Any, int, Leaf | Branch]] = []
        self.held: list[Any] = []  # what its leaves use, where it has floors
        if parent is not None:
            self.place = len(parent.children)
            parent.children.append(self)

    @property
    def clock(self) -> Any:
        """Its level, or how far children rose alone."""
        return self.alone if self.still else self.level

    @property
    def motion(self) -> tuple[Any, Any, int, Any, Any, int]:
        """What tells its level and how far its children rose alone, beside those of its parent."""
        return self.level, self.alone, self.state, self.at, self.speed, self.still


def vector_of(child: Leaf | Branch) -> list[Any]:
    """The shares of resources that a child holds."""
    return [g * child.tasks for g in child.ratios] if isinstance(child, Leaf) else child.vector


class Event(NamedTuple):
    """What happened: the root's level, the ``cause`` (``limit``, ``full``, ``placement``), the index of the leaf,
    resource or row, and leaves that stopped.
    """

    level: float
    cause: str
    of: int
    leaves: tuple[int, ...]


class State(NamedTuple):
    """A state of a filling: ``levels`` of branches that changed since the one before, and rows that are ``full`` from
    then on.
    """

    levels: dict[int, Any]
    full: tuple[int, ...]


class Filling:
    """Hierarchical DRF in numbers of one type: floats or fractions.

    A branch's share is the largest in its vector, saturated resources left out: the sum of its children's vectors, with
    those of children that can still rise scaled to the smallest level among these. The children of that level rise
    together; those whose share stands still meanwhile rise first, until it moves. Everything between two events is
    linear, and each branch has a clock of its own, so that an event changes its ancestors only.

    ``waited`` lists leaves that stopped without rising in the step before, with the tasks of all when that step began;
    after the floors are filled only if it is to ``watch``. If it is not ``rounded``, only equal numbers are reached
    together.

    ``states`` lists what confirms the filling: at each state the ``levels`` of branches that changed since the state
    before, by number, and the rows that are ``full`` from then on. There is one wherever a row is full, a floor is
    reached or nobody can rise; where all children of a branch in a team that rose have stopped, so that its share
    jumps; at all events while several children of a branch rise alone together; and, to ``watch`` or with floors, at
    the beginning of the last step before a row is full.
    """

    def __init__(
        self, forest: Forest, number: Callable[[int], Any] = float, watch: bool = False, rounded: bool = True
    ) -> None:
        self.watch, zero = watch, number(0)
        self.zero, self.one = zero, number(1)
        self.tie: Any = TIE if rounded else zero
        self.same: Any = SAME if rounded else zero
        self.m, self.serial, self.again, self.begun = len(forest.ratios[0]), 0, False, False
        self.n_rows = self.m + len(forest.rows)
        self.branches: list[Branch] = []
        for k, parent in enumerate(forest.parents):
            self.branches.append(Branch(k, self.branches[parent] if k else None, forest.weights[k]))
        self.leaves: list[Leaf] = []
        for j, given in enumerate(forest.ratios):
            uses = [*given, *(row[j] for row in forest.rows)]
            limit, start, parent_of = forest.limits[j], forest.starts[j], self.branches[forest.leaf_parents[j]]
            self.leaves.append(Leaf(j, parent_of, forest.leaf_weights[j] / max(given), given, uses, limit, start))
        self.nothing = [self.zero] * (self.m + self.n_rows)
        self.full = [False] * self.n_rows
        self.used = [self.zero] * self.m + list(forest.taken)
        for leaf in self.leaves:
            if leaf.tasks > self.zero:
                self.use(leaf, leaf.tasks)
        self.ended = [False] * len(self.leaves)  # at their limit, or stopped by a row
        self.fresh = True  # whether vectors of leaves that stopped are to be added up afresh
        self.floors = dict(forest.floors)
        self.events: list[Event] = []
        self.states: list[State] = []
        self.told: dict[int, Any] = {}  # the last level of each branch in `states`
        self.together: set[int] = set()  # branches several of whose children rise alone
        # when the last step began that was not tiny: tasks, how many states there were, and levels of branches. They
        # are computed only where a row is full: at each step tasks took a third of an answer of 1,500 leaves, and
        # levels a sixth of one of 1,290 in 60 teams.
        self.before, self.levels_before = list[Any](), list[Any]()
        self.states_before = -1
        self.changed: dict[int, tuple[Any, Any, int]] | None = None  # what leaves were then that changed since
        self.moved: dict[int, tuple[Any, Any, int, Any, Any, int]] = {}  # the same of branches
        self.waited: list[tuple[list[Any], list[int]]] = []
        self.sleeps = [False] * len(self.leaves)
        self.unmet: dict[tuple[int, int], tuple[Any, Any]] = {}  # by branch and resource: what is held, and the floor

    # -- filling

    def run(self) -> list[Any]:
        """The tasks of each leaf at the end."""
        for _ in self.steps():
            check()
        return [leaf.tasks for leaf in self.leaves]

    def steps(self) -> Iterator[None]:
        """Fill from event to event."""
        self.restart()
        several = False
        while True:
            yield
            root = self.branches[0]
            if self.together or several or not root.open:
                self.tell()
                several = bool(self.together)
            if not root.open:
                if not self.floors:
                    return
                self.unmet, self.floors = self.short(), {}
                self.restart()
                continue
            upto, row = root.next, None
            filling = [(r, rate) for r, rate in enumerate(root.rate[self.m :]) if not self.full[r] and rate > self.zero]
            for r, rate in filling:
                at = root.clock + self.positive(self.one - self.used[r]) / rate
                if upto is None or at < upto:
                    upto, row = at, r
            # a step that is rounding alone is not the last one before a row: who waited would seem to have had no time
            # to rise
            if (self.watch or self.floors) and not self.reaches(upto, root.clock):
                self.states_before, self.changed, self.moved = len(self.states), {}, {}
            self.advance(root, upto)
            # rows that are full at the same time as an event inside: after it, nobody who uses them may rise
            if row is not None or any(self.reaches(self.one, self.used[r], self.same) for r, _ in filling):
                self.restart(row)
            else:
                self.happen(root)
                if self.again:
                    self.restart()

    def clocks(self, moved: Mapping[int, tuple[Any, Any, int, Any, Any, int]]) -> list[tuple[Any, Any]]:
        """The level of each branch, and how far its children rose alone, with what branches were that ``moved`` since.

        Branches stay as they are: numbers grow when they are brought up to date.
        """
        out: list[tuple[Any, Any]] = []
        for branch in self.branches:
            now, alone, state, at, speed, still = moved.get(branch.number) or branch.motion
            if branch.parent is not None and state in (RISING, ALONE):
                more = self.positive(out[branch.parent.number][state == ALONE] - at) * speed
                now, alone = (now, alone + more) if still else (now + more, alone)
            out.append((now, alone))
        return out

    def now(self) -> list[Any]:
        """The tasks of each leaf."""
        return self.tasks({}, self.clocks({}))

    def tasks(self, changed: Mapping[int, tuple[Any, Any, int]], clocks: Sequence[tuple[Any, Any]]) -> list[Any]:
        """The tasks of each leaf at clocks of the branches, with what leaves were then that ``changed`` since."""
        out = []
        for leaf in self.leaves:
            tasks, at, state = changed.get(leaf.number) or (leaf.tasks, leaf.at, leaf.state)
            if state == RISING:
                tasks = tasks + self.positive(clocks[leaf.parent.number][0] - at) * leaf.per
            out.append(tasks)
        return out

    def tell(self, full: Sequence[int] = (), levels: Sequence[Any] | None = None) -> None:
        """Keep a state: levels that changed since the last one, and rows that are full from now on."""
        new = {
            k: level
            for k, level in enumerate([level for level, _ in self.clocks({})] if levels is None else levels)
            if level is not None and self.told.get(k) != level
        }
        self.told |= new
        if new or full:
            self.states.append(State(new, tuple(full)))

    def use(self, leaf: Leaf, more: Any) -> None:
        """Count further tasks of a leaf in the rows."""
        self.used = [u + a * more if a > self.zero else u for u, a in zip(self.used, leaf.uses, strict=True)]

    def positive(self, x: Any) -> Any:
        """A difference that is negative by rounding only."""
        return x if x > self.zero else self.zero

    def reaches(self, a: Any, b: Any, near: Any = None) -> bool:
        """Whether a is at most b, but for `TIE` or another relative distance."""
        return bool(a <= b + b * (self.tie if near is None else near))

    def advance(self, branch: Branch, to: Any) -> None:
        """Move a branch to a value of its clock."""
        self.keep_motion(branch)
        by = self.positive(to - branch.clock)  # an event that is due may lie behind the clock, by rounding
        if by > self.zero:
            rate, m = branch.rate, self.m
            branch.vector = [v + r * by if r > self.zero else v for v, r in zip(branch.vector, rate, strict=False)]
            if branch.held:
                branch.held = [v + r * by for v, r in zip(branch.held, rate[m : 2 * m], strict=True)]
            if branch.parent is None:
                self.used = [v + r * by for v, r in zip(self.used, rate[m:], strict=True)]
        if branch.still:
            branch.alone = to
        else:
            branch.level = to

    def update(self, child: Leaf | Branch, parent: Branch) -> None:
        """Bring a child up to date with its parent's clock."""
        if child.state == RISING and isinstance(child, Leaf):
            self.keep(child)
            child.tasks = child.tasks + self.positive(parent.level - child.at) * child.per
            child.at = parent.level
        elif isinstance(child, Branch) and child.state in (RISING, ALONE):
            now = parent.level if child.state == RISING else parent.alone
            self.advance(child, child.clock + self.positive(now - child.at) * child.speed)
            child.at = now

    def keep(self, leaf: Leaf) -> None:
        """Keep what a leaf is that changes for the first time since the last step began."""
        if self.changed is not None:
            self.changed.setdefault(leaf.number, (leaf.tasks, leaf.at, leaf.state))

    def keep_motion(self, branch: Branch) -> None:
        """The same of a branch."""
        if self.changed is not None and branch.number not in self.moved:
            self.moved[branch.number] = branch.motion

    def catch_up(self) -> None:
        """Bring all branches and leaves up to date."""
        for branch in self.branches:
            for child in branch.children:
                self.update(child, branch)

    def share(self, branch: Branch) -> Any:
        """The largest share of a resource that is not saturated."""
        largest = self.zero
        for v, full in zip(branch.vector, self.full, strict=False):
            if not full and v > largest:
                largest = v
        return largest

    def refresh(self, branch: Branch) -> None:
        """How fast a branch rises, and its next event, after a change inside it."""
        m = self.m
        branch.rate = rate = branch.alone_sums.total if branch.still else branch.sums.total
        branch.next, branch.cause, clock = None, None, branch.clock
        due, queue = self.due(branch), branch.alone_queue if branch.still else branch.queue
        while queue and queue[0][1] != queue[0][2].serial:
            heappop(queue)
        if queue:
            branch.next = queue[0][0]
        if due:
            branch.next = clock
        if branch.parent is not None:
            # The share grows at the rate of the fastest of its largest entries; an entry within `SAME` of them is one
            # of them, as rounding leaves equal entries apart.
            share, growth = self.share(branch), self.zero
            near = share - share * self.same
            free = [i for i in range(m) if not self.full[i]]
            for i in free:
                if rate[i] > growth and branch.vector[i] >= near:
                    growth = rate[i]
            branch.growth = growth
            faster = growth + growth * self.same
            for i in free:
                if rate[i] > faster:  # it overtakes the largest one: an event of the branch itself
                    self.offer(branch, clock + self.positive(share - branch.vector[i]) / (rate[i] - growth), i)
        if self.floors:
            for i, floor in self.floors.get(branch.number, {}).items():
                if (branch.number, i) not in self.unmet:
                    continue
                if self.reaches(floor, branch.held[i]):
                    self.again = True  # members who rose for this floor alone sleep from now on
                elif rate[m + i] > self.zero:
                    self.offer(branch, clock + self.positive(floor - branch.held[i]) / rate[m + i], m + i)

    def offer(self, branch: Branch, at: Any, cause: int) -> None:
        """An event of the branch itself, which counts if it comes before those known: another resource, or a floor."""
        if branch.next is None or at < branch.next:
            branch.next, branch.cause = at, cause

    def happen(self, branch: Branch) -> bool:
        """Let the next event inside a branch happen, with those at the same level; whether its share jumped."""
        if branch.cause is not None:
            if branch.cause < self.m:  # as large as the others, whatever the rounding
                branch.vector[branch.cause] = max(branch.vector[branch.cause], self.share(branch))
            self.refresh(branch)
            return False
        jumped, due = False, self.due(branch)
        if not due:
            jumped = self.inside(heappop(branch.alone_queue)[2], branch)
        while due:
            _, _, child = heappop(branch.queue)
            if child.state == WAITING:
                self.join(child, branch)
            elif isinstance(child, Leaf):
                self.update(child, branch)
                # exactly at its limit, and what rounding left to it counted in the rows
                more, child.tasks = self.positive(child.limit - child.tasks), child.limit
                if more > self.zero:
                    self.use(child, more)
                self.end(child)
                self.stop(child, branch)
            else:
                jumped = self.inside(child, branch) or jumped
            due = self.due(branch)
        # all who rose have stopped: the smallest level jumps to that of who waited
        if jumped or (branch.open and not branch.tied):
            if branch.depth > 1 and not branch.tied:
                self.tell()
            self.rebuild(branch)
            return True
        if branch.open:
            self.refresh(branch)
        return False

    def due(self, branch: Branch) -> bool:
        """Whether an event is due at the level of a branch, which comes before any child rises alone."""
        queue = branch.queue
        while queue and queue[0][1] != queue[0][2].serial:
            heappop(queue)
        return bool(queue) and self.reaches(queue[0][0], branch.level)

    def inside(self, child: Any, branch: Branch) -> bool:
        """Let the next event inside a child happen; whether its share jumped."""
        self.update(child, branch)
        self.advance(child, child.next)
        jumped = self.happen(child)
        if not child.open:
            self.stop(child, branch)
        elif not jumped:
            self.attach(child, branch)
        return jumped

    def end(self, leaf: Leaf) -> None:
        """A leaf is at its limit."""
        self.ended[leaf.number] = True
        self.record("limit", leaf.number, (leaf.number,))

    def join(self, child: Leaf | Branch, branch: Branch) -> None:
        """A child that waited rises from now on."""
        branch.tied += 1
        if isinstance(child, Leaf):
            self.rise(child, branch)
            branch.sums.put(child.place, child.rate)
        else:
            self.attach(child, branch)

    def rise(self, leaf: Leaf, branch: Branch) -> None:
        """Let a leaf rise with its parent, up to its limit."""
        self.keep(leaf)
        leaf.state, leaf.at = RISING, branch.level
        self.serial += 1
        leaf.serial = self.serial
        if leaf.limit is not None:
            at = branch.level + self.positive(leaf.limit - leaf.tasks) / leaf.per
            heappush(branch.queue, (at, leaf.serial, leaf))

    def attach(self, child: Branch, branch: Branch) -> None:
        """Let a branch rise with its parent, or alone while its share stands still."""
        self.keep_motion(child)
        was, alone = child.state, not child.growth > self.zero
        if was == ALONE and not alone:
            branch.alone_sums.put(child.place, self.nothing)
            self.count(branch, -1)
        elif was != ALONE and alone:
            branch.sums.put(child.place, self.nothing)
            self.count(branch, 1)
        # rule 2: in proportion to weights over the dominant share of what is added; rule 1: levels stay equal
        adds = max(child.rate[self.m : 2 * self.m]) if alone else child.growth
        child.speed, child.state = child.weight / adds, ALONE if alone else RISING
        sums, queue, child.at = (
            (branch.alone_sums, branch.alone_queue, branch.alone)
            if alone
            else (branch.sums, branch.queue, branch.level)
        )
        # entries of queues with an older serial number are stale, and dropped when they come up
        sums.put(child.place, [r * child.speed if r > self.zero else r for r in child.rate])
        self.serial += 1
        child.serial = self.serial
        if child.next is not None:
            at = child.at + self.positive(child.next - child.clock) / child.speed
            heappush(queue, (at, child.serial, child))

    def count(self, branch: Branch, by: int) -> None:
        """Count children that rise alone."""
        self.keep_motion(branch)
        branch.still += by
        (self.together.add if branch.still > 1 else self.together.discard)(branch.number)

    def stop(self, child: Leaf | Branch, branch: Branch) -> None:
        """A child that rose cannot rise any more."""
        branch.stopped = [a + b for a, b in zip(branch.stopped, vector_of(child), strict=True)]
        if isinstance(child, Branch):
            self.keep_motion(child)
        sums = branch.alone_sums if child.state == ALONE else branch.sums
        sums.put(child.place, self.nothing)
        self.count(branch, -(child.state == ALONE))
        branch.open, branch.tied, child.state = branch.open - 1, branch.tied - 1, STOPPED
        self.serial += 1
        child.serial = self.serial

    # -- jumps

    def rebuild(self, branch: Branch) -> None:
        """Compare the children of a branch afresh, and put its vector together from theirs."""
        self.keep_motion(branch)
        self.told.pop(branch.number, None)  # its level may change at once
        m, levels = self.m, []
        rising = [child for child in branch.children if child.state != STOPPED]
        for child in rising:
            self.update(child, branch)
            if isinstance(child, Leaf):
                levels.append(child.tasks / child.per)
            else:
                levels.append(self.share(child) / child.weight)
        branch.level, branch.alone = min(levels), self.zero
        branch.tied = 0
        self.count(branch, -branch.still)
        branch.queue, branch.alone_queue = [], []
        rates = [self.nothing] * len(branch.children)
        vector, joining = list(branch.stopped), list[Leaf | Branch]()
        for child, level in zip(rising, levels, strict=True):
            if self.reaches(level, branch.level):
                joining.append(child)
                child.state = WAITING
                parts = vector_of(child)
            else:
                # above the smallest level: scaled to it in the vector, and growing in it as that rises, but not in use
                if isinstance(child, Leaf):
                    rates[child.place] = child.rate[:m] + self.nothing[m:]
                else:
                    scale = self.one / level
                    rates[child.place] = [v * scale for v in child.vector] + self.nothing[m:]
                parts = [v * branch.level for v in rates[child.place][:m]]
                child.state = WAITING
                self.serial += 1
                child.serial = self.serial
                branch.queue.append((level, child.serial, child))
            vector = [a + b for a, b in zip(vector, parts, strict=True)]
        branch.vector = vector
        for child in joining:
            if isinstance(child, Leaf):
                rates[child.place] = child.rate
        heapify(branch.queue)
        branch.sums = Sums(rates, self.nothing)
        branch.alone_sums = Sums([self.nothing] * len(branch.children), self.nothing)
        for child in joining:
            branch.tied += 1
            if isinstance(child, Leaf):
                self.rise(child, branch)
            else:
                self.attach(child, branch)
        self.refresh(branch)

    def restart(self, row: int | None = None) -> None:
        """Compare all levels afresh, after a row is full or a floor is met."""
        if self.changed is not None:
            clocks = self.clocks(self.moved)
            self.levels_before = [level for level, _ in clocks]
            self.before, self.changed = self.tasks(self.changed, clocks), None
        self.catch_up()
        self.again, begins, self.begun = False, not self.begun, True
        for leaf in self.leaves:
            if not self.ended[leaf.number] and leaf.limit is not None and self.reaches(leaf.limit, leaf.tasks):
                self.end(leaf)
        nobody = begins and all(self.ended)  # all are at their limits by guarantees
        levels, full, known = [branch.level for branch in self.branches], list[int](), len(self.waited)
        for r in range(self.n_rows):
            if not self.full[r] and (r == row or self.reaches(self.one, self.used[r], self.same)):
                self.fill(r)
                full.append(r)
        if len(self.waited) > known:  # rows that are full together are shown one placement for all
            self.waited[known:] = [(self.before, [j for _, waited in self.waited[known:] for j in waited])]
        if full and self.states_before == len(self.states) and (self.watch or self.floors):
            self.tell(levels=self.levels_before)
        if not nobody:
            self.tell(full, levels)
        self.sleep()
        may_rise = [not (over or sleeps) for over, sleeps in zip(self.ended, self.sleeps, strict=True)]
        for branch in reversed(self.branches):  # children come after their parents, and are compared first
            if self.fresh:
                branch.stopped = [self.zero] * self.m
            branch.open = 0
            for child in branch.children:
                can = child.open > 0 if isinstance(child, Branch) else may_rise[child.number]
                if not can and (self.fresh or child.state != STOPPED):
                    branch.stopped = [a + b for a, b in zip(branch.stopped, vector_of(child), strict=True)]
                child.state = WAITING if can else STOPPED
                branch.open += can
            if branch.open:
                self.rebuild(branch)
            else:
                branch.vector = branch.stopped
        self.fresh = bool(self.floors)  # then leaves that sleep wake up later

    def fill(self, row: int) -> None:
        """A row is full: users of it stop."""
        self.full[row] = True
        stopped = [leaf.number for leaf in self.leaves if not self.ended[leaf.number] and leaf.uses[row] > self.zero]
        for j in stopped:
            self.ended[j] = True
        which = ("full", row) if row < self.m else ("placement", row - self.m)
        self.record(*which, tuple(stopped))
        # On several servers a row stops users who waited below full total capacities. That they could rise until now is
        # not seen from levels; a placement has to show it (Proposition 17.4).
        if self.before and (self.watch or self.floors):
            waited = [j for j in stopped if not (self.sleeps[j] or self.leaves[j].tasks > self.before[j])]
            if waited:
                self.waited.append((self.before, waited))

    def short(self) -> dict[tuple[int, int], tuple[Any, Any]]:
        """Floors that are not reached, by branch and resource, with what is held; of branches with floors."""
        for k in self.floors:
            self.branches[k].held = [self.zero] * self.m
        for leaf in self.leaves:
            above: Branch | None = leaf.parent
            while above is not None:
                if above.number in self.floors:
                    above.held = [a + g * leaf.tasks for a, g in zip(above.held, leaf.ratios, strict=True)]
                above = above.parent
        return {
            (k, i): (self.branches[k].held[i], floor)
            for k, of in self.floors.items()
            for i, floor in of.items()
            if not self.reaches(floor, self.branches[k].held[i])
        }

    def sleep(self) -> None:
        """While floors are filled, leaves sleep that use no resource of which a team of theirs is short."""
        self.sleeps = [False] * len(self.leaves)
        if not self.floors:
            return
        wanted = [set[int]() for _ in self.branches]
        self.unmet = self.short()
        for k, i in self.unmet:
            wanted[k].add(i)
        for branch in self.branches[1:]:
            wanted[branch.number] |= wanted[branch.parent.number]  # type: ignore[union-attr]
        for leaf in self.leaves:
            self.sleeps[leaf.number] = not any(leaf.ratios[i] > self.zero for i in wanted[leaf.parent.number])

    def record(self, cause: str, of: int, leaves: tuple[int, ...]) -> None:
        """Keep an event."""
        self.events.append(Event(float(self.branches[0].level or self.zero), cause, of, leaves))
