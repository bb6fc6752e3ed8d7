"""hierarchy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from .instance import TIE, Cluster
from .numbers import GAP, ONE, VIOLATION, ZERO, Between, Fraction, Place, dyadic, exact_sum, exactly, number, together
from .outcome import CannotCheck, Clock, Fault
from .policy import Block
from .teams import floors_of

SAME = Fraction(1, 10**12)  # relative: capacities this close are full together, shares of a team are both dominant
PLACES = 1024  # binary places of `Bounds`
STOPPED, WAITING, RISING, ALONE = range(4)


class Bounds:
    """A number between two others with `PLACES` binary places. Factors and divisors are not negative."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, x: Fraction) -> Bounds:
        """The closest bounds of a fraction."""
        return cls((x.n << PLACES) // x.d, -((-x.n << PLACES) // x.d))

    @property
    def between(self) -> Between:
        """The bounds as fractions."""
        return Between(Fraction(self.low, 1 << PLACES), Fraction(self.high, 1 << PLACES))

    def __float__(self) -> float:
        return float(Fraction(self.low + self.high, 2 << PLACES))

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounds) -> Bounds:
        return Bounds(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Bounds) -> Bounds:
        low = self.low * (other.low if self.low >= 0 else other.high)
        high = self.high * (other.high if self.high >= 0 else other.low)
        return Bounds(low >> PLACES, -(-high >> PLACES))

    def __truediv__(self, other: Bounds) -> Bounds:
        if other.low <= 0:
            raise CannotCheck(f"{PLACES} binary places do not tell a rate from 0")
        low = (self.low << PLACES) // (other.high if self.low >= 0 else other.low)
        return Bounds(low, -((-self.high << PLACES) // (other.low if self.high >= 0 else other.high)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and self.low + self.high == other.low + other.high

    def __lt__(self, other: Bounds) -> bool:
        return self.low + self.high < other.low + other.high

    def __gt__(self, other: Bounds) -> bool:
        return other < self

    def __le__(self, other: Bounds) -> bool:
        return not self > other

    def __ge__(self, other: Bounds) -> bool:
        return not self < other

    __hash__ = None  # type: ignore[assignment]


class Sums:
    """Vectors in numbered places, and their sum: a change costs the logarithm of their number."""

    def __init__(self, vectors: Sequence[Any], nothing: Any) -> None:
        self.nothing, self.size = nothing, 1 << max(len(vectors) - 1, 0).bit_length()
        self.tree = [nothing] * self.size + [*vectors] + [nothing] * (self.size - len(vectors))
        for k in range(self.size - 1, 0, -1):
            self._add(k)

    def _add(self, k: int) -> None:
        left, right, nothing = self.tree[2 * k], self.tree[2 * k + 1], self.nothing
        if left is nothing or right is nothing:
            self.tree[k] = right if left is nothing else left
        else:
            self.tree[k] = [a + b for a, b in together(left, right)]

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


def vector_of(child: Leaf | Branch) -> list[Any]:
    """The shares of resources that a child holds."""
    return [g * child.tasks for g in child.ratios] if isinstance(child, Leaf) else child.vector


class Forest(NamedTuple):
    """A tree of users and what they fill, as fractions.

    Branch 0 is the root, and ``parents`` of branches come before them. ``ratios`` (n_leaves, n_resources) are shares of
    total capacity per task; each further row is a coefficient per task of each leaf, of which a part is ``taken`` at
    first, and is full at 1. ``floors`` are shares by branch and resource.
    """

    parents: Sequence[int]
    weights: Sequence[Fraction]
    leaf_parents: Sequence[int]
    leaf_weights: Sequence[Fraction]
    ratios: Sequence[Sequence[Fraction]]
    limits: Sequence[Fraction | None]
    starts: Sequence[Fraction]
    rows: Sequence[Sequence[Fraction]]
    taken: Sequence[Fraction]
    floors: Mapping[int, Mapping[int, Fraction]]


class Event(NamedTuple):
    """What happened: the root's level, the ``cause`` (``limit``, ``full``, ``placement``), the index of the leaf,
    resource or row, and leaves that stopped.
    """

    level: float
    cause: str
    of: int
    leaves: tuple[int, ...]


class Filling:
    """Hierarchical DRF in numbers of one type: floats, `Fraction` or `Bounds`.

    A branch's share is the largest in its vector, saturated resources left out: the sum of its children's vectors, with
    those of children that can still rise scaled to the smallest level among these. The children of that level rise
    together; those whose share stands still meanwhile rise first, until it moves. Everything between two events is
    linear, and each branch has a clock of its own, so that an event changes its ancestors only.

    ``waited`` lists leaves that stopped without rising in the step before, with the tasks of all when that step began;
    after the floors are filled only if it is to ``watch``. With a ``tie`` of 0 only equal numbers are reached together.
    """

    def __init__(
        self,
        forest: Forest,
        make: Callable[[Fraction], Any],
        clock: Clock | None = None,
        watch: bool = False,
        tie: Fraction | None = None,
    ) -> None:
        self.forest, self.clock, self.watch = forest, clock or Clock(), watch
        self.zero, self.one = make(ZERO), make(ONE)
        self.tie, self.same = make(TIE if tie is None else tie), make(SAME if tie is None else tie)
        self.m, self.serial, self.again = len(forest.ratios[0]), 0, False
        self.n_rows = self.m + len(forest.rows)
        self.branches: list[Branch] = []
        for k, parent in enumerate(forest.parents):
            above = self.branches[parent] if k else None
            self.branches.append(Branch(k, above, make(forest.weights[k])))
        self.leaves: list[Leaf] = []
        for j, given in enumerate(forest.ratios):
            per, ratios = make(forest.leaf_weights[j] / max(given)), [make(g) for g in given]
            uses = ratios + [make(row[j]) for row in forest.rows]
            limit, start = forest.limits[j], make(forest.starts[j])
            parent_of = self.branches[forest.leaf_parents[j]]
            self.leaves.append(Leaf(j, parent_of, per, ratios, uses, None if limit is None else make(limit), start))
        self.nothing = [self.zero] * (self.m + self.n_rows)
        self.full = [False] * self.n_rows
        self.used = [self.zero] * self.m + [make(part) for part in forest.taken]
        for leaf in self.leaves:
            if leaf.tasks > self.zero:
                self.use(leaf, leaf.tasks)
        self.ended = [False] * len(self.leaves)  # at their limit, or stopped by a row
        self.fresh = True  # whether vectors of leaves that stopped are to be added up afresh
        self.floors = {k: {i: make(v) for i, v in of.items()} for k, of in forest.floors.items()}
        self.events: list[Event] = []
        self.before: list[Any] = []  # tasks when the last step began that was not tiny
        self.waited: list[tuple[list[Any], list[int]]] = []
        self.sleeps = [False] * len(self.leaves)
        self.unmet: dict[tuple[int, int], tuple[Any, Any]] = {}  # by branch and resource: what is held, and the floor

    # -- filling

    def run(self) -> list[Any]:
        """The tasks of each leaf at the end."""
        for _ in self.steps():
            self.clock.check()
        return [leaf.tasks for leaf in self.leaves]

    def steps(self) -> Iterator[None]:
        """Fill from event to event."""
        self.restart()
        while True:
            yield
            root = self.branches[0]
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
            if (self.watch or self.floors) and not self.reaches(upto, root.clock):
                self.before = self.now()
            self.advance(root, upto)
            # rows that are full at the same time as an event inside: after it, nobody who uses them may rise
            if row is not None or any(self.reaches(self.one, self.used[r], self.same) for r, _ in filling):
                self.restart(row)
            else:
                self.happen(root)
                if self.again:
                    self.restart()

    def now(self) -> list[Any]:
        """The tasks of each leaf; branches stay as they are, since numbers grow when they are brought up to date."""
        out = [leaf.tasks for leaf in self.leaves]
        clocks = [(branch.level, branch.alone) for branch in self.branches]
        for branch, (level, alone) in together(self.branches, clocks):
            for child in branch.children:
                if child.state in (STOPPED, WAITING):
                    continue
                moved = self.positive((level if child.state == RISING else alone) - child.at)
                if isinstance(child, Leaf):
                    out[child.number] = child.tasks + moved * child.per
                elif child.still:
                    clocks[child.number] = child.level, child.alone + moved * child.speed
                else:
                    clocks[child.number] = child.level + moved * child.speed, child.alone
        return out

    def use(self, leaf: Leaf, more: Any) -> None:
        """Count further tasks of a leaf in the rows."""
        self.used = [u + a * more if a > self.zero else u for u, a in together(self.used, leaf.uses)]

    def positive(self, x: Any) -> Any:
        """A difference that is negative by rounding only."""
        return x if x > self.zero else self.zero

    def reaches(self, a: Any, b: Any, near: Any = None) -> bool:
        """Whether a is at most b, but for `TIE` or another relative distance."""
        most = b + b * (self.tie if near is None else near)
        if type(a) is Bounds:
            if a.low > most.high:
                return False
            if a.high > most.low:
                raise CannotCheck(f"{PLACES} binary places do not tell which of two events comes first")
            return True
        return bool(a <= most)

    def advance(self, branch: Branch, to: Any) -> None:
        """Move a branch to a value of its clock."""
        by = self.positive(to - branch.clock)
        if by > self.zero:
            rate, m = branch.rate, self.m
            branch.vector = [v + r * by if r > self.zero else v for v, r in zip(branch.vector, rate)]
            if branch.held:
                branch.held = [v + r * by for v, r in together(branch.held, rate[m : 2 * m])]
            if branch.parent is None:
                self.used = [v + r * by for v, r in together(self.used, rate[m:])]
        if branch.still:
            branch.alone = to
        else:
            branch.level = to

    def update(self, child: Leaf | Branch, parent: Branch) -> None:
        """Bring a child up to date with its parent's clock."""
        if child.state == RISING and isinstance(child, Leaf):
            child.tasks = child.tasks + self.positive(parent.level - child.at) * child.per
            child.at = parent.level
        elif isinstance(child, Branch) and child.state in (RISING, ALONE):
            now = parent.level if child.state == RISING else parent.alone
            self.advance(child, child.clock + self.positive(now - child.at) * child.speed)
            child.at = now

    def catch_up(self) -> None:
        """Bring all branches and leaves up to date."""
        for branch in self.branches:
            for child in branch.children:
                self.update(child, branch)

    def share(self, branch: Branch) -> Any:
        """The largest share of a resource that is not saturated."""
        largest = self.zero
        for v, full in zip(branch.vector, self.full):
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
            share, growth = self.share(branch), self.zero
            near = share - share * self.same
            free = [i for i in range(m) if not self.full[i]]
            for i in free:
                if rate[i] > growth and branch.vector[i] >= near:
                    growth = rate[i]
            branch.growth = growth
            faster = growth + growth * self.same
            for i in free:
                if rate[i] > faster:
                    self.offer(branch, clock + self.positive(share - branch.vector[i]) / (rate[i] - growth), i)
        if self.floors:
            for i, floor in self.floors.get(branch.number, {}).items():
                if (branch.number, i) not in self.unmet:
                    continue
                if self.reaches(floor, branch.held[i]):
                    self.again = True
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
                more, child.tasks = self.positive(child.limit - child.tasks), child.limit
                if more > self.zero:
                    self.use(child, more)
                self.end(child)
                self.stop(child, branch)
            else:
                jumped = self.inside(child, branch) or jumped
            due = self.due(branch)
        if jumped or (branch.open and not branch.tied):
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
        leaf.state, leaf.at = RISING, branch.level
        self.serial += 1
        leaf.serial = self.serial
        if leaf.limit is not None:
            at = branch.level + self.positive(leaf.limit - leaf.tasks) / leaf.per
            heappush(branch.queue, (at, leaf.serial, leaf))

    def attach(self, child: Branch, branch: Branch) -> None:
        """Let a branch rise with its parent, or alone while its share stands still."""
        was, alone = child.state, not child.growth > self.zero
        if was == ALONE and not alone:
            branch.alone_sums.put(child.place, self.nothing)
            branch.still -= 1
        elif was != ALONE and alone:
            branch.sums.put(child.place, self.nothing)
            branch.still += 1
        adds = max(child.rate[self.m : 2 * self.m]) if alone else child.growth
        child.speed, child.state = child.weight / adds, ALONE if alone else RISING
        sums, queue, child.at = (
            (branch.alone_sums, branch.alone_queue, branch.alone)
            if alone
            else (branch.sums, branch.queue, branch.level)
        )
        sums.put(child.place, [r * child.speed if r > self.zero else r for r in child.rate])
        self.serial += 1
        child.serial = self.serial
        if child.next is not None:
            at = child.at + self.positive(child.next - child.clock) / child.speed
            heappush(queue, (at, child.serial, child))

    def stop(self, child: Leaf | Branch, branch: Branch) -> None:
        """A child that rose cannot rise any more."""
        branch.stopped = [a + b for a, b in together(branch.stopped, vector_of(child))]
        sums = branch.alone_sums if child.state == ALONE else branch.sums
        sums.put(child.place, self.nothing)
        branch.still -= child.state == ALONE
        branch.open, branch.tied, child.state = branch.open - 1, branch.tied - 1, STOPPED
        self.serial += 1
        child.serial = self.serial

    # -- jumps

    def rebuild(self, branch: Branch) -> None:
        """Compare the children of a branch afresh, and put its vector together from theirs."""
        m, levels = self.m, []
        rising = [child for child in branch.children if child.state != STOPPED]
        for child in rising:
            self.update(child, branch)
            if isinstance(child, Leaf):
                levels.append(child.tasks / child.per)
            else:
                levels.append(self.share(child) / child.weight)
        branch.level, branch.alone = min(levels), self.zero
        branch.tied = branch.still = 0
        branch.queue, branch.alone_queue = [], []
        rates = [self.nothing] * len(branch.children)
        vector = list(branch.stopped)
        joining: list[Leaf | Branch] = []
        for child, level in together(rising, levels):
            if self.reaches(level, branch.level):
                joining.append(child)
                child.state = WAITING
                parts = vector_of(child)
            else:
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
            vector = [a + b for a, b in together(vector, parts)]
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
        self.catch_up()
        self.again = False
        for leaf in self.leaves:
            if not self.ended[leaf.number] and leaf.limit is not None and self.reaches(leaf.limit, leaf.tasks):
                self.end(leaf)
        for r in range(self.n_rows):
            if not self.full[r] and (r == row or self.reaches(self.one, self.used[r], self.same)):
                self.fill(r)
        self.sleep()
        may_rise = [not (over or sleeps) for over, sleeps in together(self.ended, self.sleeps)]
        for branch in reversed(self.branches):
            if self.fresh:
                branch.stopped = [self.zero] * self.m
            branch.open = 0
            for child in branch.children:
                can = child.open > 0 if isinstance(child, Branch) else may_rise[child.number]
                if not can and (self.fresh or child.state != STOPPED):
                    branch.stopped = [a + b for a, b in together(branch.stopped, vector_of(child))]
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
                    above.held = [a + g * leaf.tasks for a, g in together(above.held, leaf.ratios)]
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


class Tree(NamedTuple):
    """The tree of a policy on a cluster: the users of its leaves, its branches by name, and the forest's first fields.

    Users who are alike in one branch are one leaf: those with the same demands on the same servers, and the same limit
    and guarantee per weight. Their levels are equal throughout, so that each has its part of the leaf by weight.
    """

    leaves: list[list[int]]
    names: list[str]
    parents: list[int]
    weights: list[Fraction]
    leaf_parents: list[int]
    leaf_weights: list[Fraction]
    user_weights: dict[int, Fraction]

    @property
    def parts(self) -> Iterator[tuple[int, int, Fraction]]:
        """Each user with its leaf, and its part of that."""
        for leaf, users in enumerate(self.leaves):
            for j in users:
                yield j, leaf, self.user_weights[j] / self.leaf_weights[leaf]

    @classmethod
    def of(cls, cluster: Cluster, policy: Block) -> Tree:
        """The tree of `HDRF`: users by their labels, the outermost first."""
        by, given = policy.given.get("by", ["team"]), dict(policy.given.get("weights") or {})
        labels = [cluster.teams.get(name) for name in by]
        if None in labels:
            raise Fault(f"users have no label {by[labels.index(None)]!r}")
        places, kinds = {"": 0}, dict[Any, int]()
        tree = cls([], [""], [0], [ONE], [], [], {})
        for j in cluster.active:
            parent = 0
            for of_user in labels:
                name = of_user[j]  # type: ignore[index]
                if name is None:
                    continue
                if name not in places:
                    places[name] = len(tree.names)
                    tree.names.append(name)
                    tree.parents.append(parent)
                    tree.weights.append(number(given.get(name, cluster.team_weights.get(name, 1)), "weights", 0))
                if tree.parents[places[name]] != parent:
                    raise Fault(f"team {name!r} is in two teams")
                parent = places[name]
            user = cluster.users[j]
            own = cluster.own_weights[j] if user in places else given.get(user, cluster.own_weights[j])
            tree.user_weights[j] = weight = number(own, "weights", 0)
            if not weight:
                raise Fault("a weight of the policy is 0")
            per_weight = (None if x is None else x / weight for x in (cluster.limits[j], cluster.low[j]))
            bounds = [x if x is None or not cluster.tie else significant(x) for x in per_weight]
            kind = parent, *cluster.demands[j][cluster.open[j][0]], *cluster.open[j], *bounds
            leaf = kinds.setdefault(kind, len(kinds))
            if leaf == len(tree.leaves):
                tree.leaves.append([])
                tree.leaf_parents.append(parent)
                tree.leaf_weights.append(ZERO)
            tree.leaves[leaf].append(j)
            tree.leaf_weights[leaf] += weight
        if not all(tree.weights):
            raise Fault("a weight of the policy is 0")
        if given.keys() - places.keys() - {*cluster.users}:
            raise Fault("weights name an unknown team or user")
        return tree

    def forest(
        self,
        cluster: Cluster,
        rows: Sequence[Mapping[tuple[int | str, int], Fraction]],
        floors: Mapping[str, Any] | None = None,
    ) -> Forest:
        """What the tree fills: all capacities, and rows; ``floors`` proves floors.

        A row has prices p by server and resource, and q by team and resource. At p a task costs at least its smallest
        cost a on a server, all tasks together at most the worth of the capacities. At q a task earns b, and all tasks
        together at least what the floors are worth. So ``sum (a - b)^+ x`` is at most the difference of the worths, and
        ``(b - a) T`` of users who earn more than they cost. Coefficients that are rounding errors are left out.
        """
        ratios, costs, taken = [], list[list[Fraction]](), list[Fraction]()
        firsts = [users[0] for users in self.leaves]
        for j in firsts:
            demands = cluster.demands[j][cluster.open[j][0]]
            ratios.append([d / c if c else ZERO for d, c in together(demands, cluster.capacity)])
        tops = [[t for j in users if (t := cluster.limits[j]) is not None] for users in self.leaves]
        limits = [exact_sum(some) if some else None for some in tops]
        starts = [exact_sum(cluster.low[j] for j in users) for users in self.leaves]
        given = (self.parents, self.weights, self.leaf_parents, self.leaf_weights, ratios, limits, starts)
        kept = dict[int, dict[int, Fraction]]()
        for name in cluster.team_guarantees:
            if name not in self.names:
                if any(j in cluster.active for j in cluster.members[name]):
                    raise Fault(f"the guarantee of {name!r} is of no team of the policy")
                continue
            units = floors_of(cluster, name, (floors or {}).get(name) or {})
            kept[self.names.index(name)] = {i: floor / cluster.capacity[i] for i, floor in units.items()}
        for prices in rows:
            on: dict[int | str, list[tuple[int, Fraction]]] = {}
            for (where, i), p in prices.items():
                on.setdefault(where, []).append((i, p))
            costs.append([])
            floor = exact_sum(
                p * kept[self.names.index(where)][i] * cluster.capacity[i]
                for (where, i), p in prices.items()
                if isinstance(where, str)
            )
            worth = exact_sum(p * cluster.room[s][i] for (s, i), p in prices.items() if isinstance(s, int))
            earning = [(of, {*cluster.members[name]}) for name, of in on.items() if isinstance(name, str)]
            for j, limit in together(firsts, limits):
                needs = cluster.demands[j]
                cost = min(exact_sum(p * needs[s][i] for i, p in on.get(s, ())) for s in cluster.open[j])
                earns = exact_sum(p * needs[cluster.open[j][0]][i] for of, team in earning if j in team for i, p in of)
                costs[-1].append(cost - earns if cost - earns > TIE * earns else ZERO)
                if earns > cost:
                    alone = exact_sum(cluster.tasks_alone(j, s) or ZERO for s in cluster.open[j])
                    worth += (earns - cost) * (alone if limit is None else min(limit, alone))
            if not worth:
                raise Fault("a row of the evidence has no prices")
            costs[-1] = [cost / worth for cost in costs[-1]]
            taken.append(floor / worth)
        return Forest(*given, costs, taken, kept)


def significant(x: Fraction) -> tuple[int, int]:
    """The exponent and the first binary places of a number that is not negative, which leave out rounding."""
    exponent = x.n.bit_length() - x.d.bit_length()
    exponent -= x < power_of_2(exponent)
    return (exponent, math.floor(x / power_of_2(exponent - SIGNIFICANT) + Fraction(1, 2))) if x else (0, 0)


def power_of_2(exponent: int) -> Fraction:
    """A power of 2 with an integer exponent."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


SIGNIFICANT = 38  # binary places of limits and guarantees per weight that are compared: far below `TIE`
EXACT_LEAVES = 200  # filled in fractions: half a second on pools, up to 50 on 20 rows of servers


class Replay(NamedTuple):
    """The filling of a policy's tree, done again: bounds on the tasks of each leaf, and the state at the end."""

    tree: Tree
    tasks: list[Between]
    filling: Filling

    @classmethod
    def of(cls, cluster: Cluster, policy: Block, entry: Mapping[str, Any], most: int = 0) -> Replay:
        """Fill in fractions, or in intervals if there are more than ``most`` leaves.

        Evidence are prices of rows that stop users on several servers, or so that floors of teams can be filled. Each
        row bounds all tasks that fit and hold the floors, so nobody stops too early; as the tasks at the end do so,
        nobody stops too late. Users who wait when they are stopped are shown to have had room until then, by a
        placement that holds the floors.
        """
        if cluster.by_server:
            raise Fault("HDRF needs demands that are the same on all servers")
        tree = Tree.of(cluster, policy)
        rows = [
            {(where if isinstance(where, str) else int(where), int(i)): number(p, "a price", 0) for where, i, p in row}
            for row in entry.get("rows") or ()
        ]
        alike = is_one_pool(cluster)
        forest = tree.forest(cluster, rows, entry.get("floors"))
        make = exactly if len(tree.leaves) <= most else Bounds.of
        filling = Filling(forest, make, cluster.clock, not alike)
        found = [x.between if isinstance(x, Bounds) else Between(x, x) for x in filling.run()]
        placements = entry.get("placements") or ()
        for k, (tasks, waiting) in enumerate(filling.waited):
            if k >= len(placements) or not has_room(cluster, tree, forest, tasks, waiting, placements[k]):
                user = cluster.users[tree.leaves[waiting[0]][0]]
                raise Fault(f"user {user!r} is stopped while it waits, but not shown to have had room before")
        return cls(tree, found, filling)

    def shortage(self, cluster: Cluster) -> tuple[Fraction, str]:
        """The largest relative shortage of a floor, in words too."""
        worst, words = ZERO, ""
        for (k, i), (held, floor) in self.filling.unmet.items():
            low, high = (x.between.low if isinstance(x, Bounds) else x for x in (held, floor))
            if 1 - low / high > worst:
                has, needs = (f"{float(x * cluster.capacity[i]):.6g}" for x in (low, high))
                worst = 1 - low / high
                words = (
                    f"team {self.tree.names[k]!r} holds {has} of the {needs} {cluster.resources[i]} guaranteed to it"
                )
        return worst, words

    def weight(self, child: Leaf | Branch) -> Fraction:
        """The weight of a leaf or branch."""
        forest = self.filling.forest
        return forest.leaf_weights[child.number] if isinstance(child, Leaf) else forest.weights[child.number]

    def gap(self, cluster: Cluster) -> Fraction:
        """The largest relative distance of a user's tasks from these, or gain that a row leaves to a user it stopped.

        Shares below `SAME` count as this, and of a row as much is left for rounding.
        """
        forest, gap = self.filling.forest, ZERO
        here = [exact_sum(map(cluster.total, users)) for users in self.tree.leaves]
        rows = [list(column) for column in together(*forest.ratios)] + [list(row) for row in forest.rows]
        taken = [ZERO] * self.filling.m + [*forest.taken]
        left = [
            ONE - SAME - part - exact_sum(dyadic(a * x) for a, x in together(row, here)) if full else None
            for row, part, full in together(rows, taken, self.filling.full)
        ]
        by_rows = [
            min(
                (max(room, ZERO) / row[leaf] for row, room in together(rows, left) if row[leaf] and room is not None),
                default=None,
            )
            for leaf in range(len(here))
        ]
        for j, leaf, part in self.tree.parts:
            runs, limit, (low, high) = cluster.total(j), cluster.limits[j], self.tasks[leaf]
            size = max(high * part, SAME / max(forest.ratios[leaf]))
            gap = max(gap, (high * part - runs) / size, (runs - low * part) / size)
            gains = [by_rows[leaf], None if limit is None else max(limit - runs, ZERO)]
            gap = max(gap, min(gain for gain in gains if gain is not None) / size)
        return gap


def is_one_pool(cluster: Cluster) -> bool:
    """Whether all servers are equal and open to all users."""
    return all(row == cluster.capacities[0] for row in cluster.capacities[1:]) and all(
        len(cluster.open[j]) == cluster.servers for j in cluster.active
    )


def smallest_share(cluster: Cluster, policy: Block) -> Fraction:
    """The smallest dominant share per weight of the root's children at the tasks: the objective of `HDRF`."""
    if not cluster.active:
        return ZERO
    tree = Tree.of(cluster, policy)
    shares: dict[tuple[str, int], list[Fraction]] = {}
    weights: dict[tuple[str, int], Fraction] = {}
    for j, leaf, _ in tree.parts:
        child, weight, above = ("leaf", leaf), tree.leaf_weights[leaf], tree.leaf_parents[leaf]
        while above:
            child, weight, above = ("branch", above), tree.weights[above], tree.parents[above]
        held = shares.setdefault(child, [ZERO] * cluster.m)
        weights[child] = weight
        for i, (d, c) in enumerate(zip(cluster.demands[j][cluster.open[j][0]], cluster.capacity)):
            if d:
                held[i] += d * cluster.total(j) / c
    return min(max(held) / weights[child] for child, held in shares.items())


def gap_of_filling(cluster: Cluster, policy: Block, entry: Mapping[str, Any]) -> tuple[Fraction, str]:
    """The distance of the tasks from those of `HDRF`, and how it was computed."""
    replay = Replay.of(cluster, policy, entry, EXACT_LEAVES)
    shortage, words = replay.shortage(cluster)
    if shortage > GAP:
        raise Fault(words)
    exact = type(replay.filling.one) is Fraction
    return replay.gap(cluster), ", filled again in " + (
        "fractions" if exact else f"intervals of {PLACES} binary places"
    )


def has_room(
    cluster: Cluster, tree: Tree, forest: Forest, tasks: list[Any], waiting: Sequence[int], placement: Any
) -> bool:
    """Whether a placement, by user and server, fits, holds floors, has the tasks of all leaves, and more for those that
    wait.
    """
    load: dict[Place, Fraction] = {}
    runs = dict.fromkeys(range(cluster.n), ZERO)
    for j, s, x in placement:
        x = number(x, "tasks of a placement", 0)
        runs[j] += x
        if s not in cluster.open[j]:
            return False
        for i, d in enumerate(cluster.demands[j][s]):
            load[s, i] = load.get((s, i), ZERO) + d * x
    if any(used > cluster.room[s][i] * (1 + VIOLATION) for (s, i), used in load.items()):
        return False
    for leaf, least in enumerate(tasks):
        users = tree.leaves[leaf]
        least = least.between.high if isinstance(least, Bounds) else least
        if leaf in waiting:
            least += ROOM * exact_sum(cluster.tasks_alone(users[0], s) or ZERO for s in cluster.open[users[0]])
        if exact_sum(runs[j] for j in users) < least * (1 - VIOLATION):
            return False
    here = [exact_sum(runs[j] for j in users) for users in tree.leaves]
    if reach_floors(cluster, tree, forest, [x.between.high if isinstance(x, Bounds) else x for x in tasks]):
        return True
    within = all(limit is None or x <= limit * (1 + VIOLATION) for x, limit in together(here, forest.limits))
    return within and reach_floors(cluster, tree, forest, here)


def reach_floors(cluster: Cluster, tree: Tree, forest: Forest, tasks: Sequence[Fraction]) -> bool:
    """Whether tasks of leaves reach all floors, but for `TIE`."""
    for k, of in forest.floors.items():
        members = {*cluster.members[tree.names[k]]}
        team = [leaf for leaf, users in enumerate(tree.leaves) if users[0] in members]
        for i, floor in of.items():
            if exact_sum(forest.ratios[leaf][i] * tasks[leaf] for leaf in team) * (1 + TIE) < floor:
                return False
    return True


ROOM = Fraction(1, 10**7)  # of the tasks that a user could run alone: room for more
