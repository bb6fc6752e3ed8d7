"""Kueue's cycles of scheduling one after the other: who comes next, who is preempted, and whether that ever ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.schedulers.cohorts import Amounts, Node
from fairopt_clusters.schedulers.preemption import ANY, RECLAIM, policy
from fairopt_clusters.schedulers.start import NO_FIT, Start, parts_of

Starting = Callable[[Workload, Sequence[Workload]], Start]
Order = Callable[[Mapping[str, Node], Mapping[str, tuple[Workload, Start]]], Iterator[str]]
MOST_CYCLES = 1000
STRATEGY, STRICT = "queueingStrategy", "StrictFIFO"


class Cycle(NamedTuple):
    """One cycle: rows of the workloads that were admitted, and of those that were preempted, each with for whom."""

    admitted: tuple[int, ...]
    preempted: tuple[tuple[int, int], ...]


def admissions(nodes: Mapping[str, Node], waiting: Mapping[str, Workload]) -> Iterator[str]:
    """Queues in the order in which one workload of each is considered; each may use more before the next is asked for.

    A share is of what is used in a node and below it. So each cohort keeps a heap of the nodes below it by their next
    workloads, and only the nodes above a queue are compared anew.
    """
    left, heaps = dict(waiting), {name: list[tuple[Any, ...]]() for name in nodes}
    places = dict[str, int]()
    for node in nodes.values():
        cohorts_first = sorted(node.children, key=lambda one: not one.children)
        places.update({child.name: k for k, child in enumerate(cohorts_first)})

    def best(node: Node) -> str | None:
        """The queue whose workload comes next below a node."""
        if node.children:
            return heaps[node.name][0][-1] if heaps[node.name] else None
        return node.name if node.name in left else None

    def compare(node: Node, cohort: Node) -> None:
        """Put a node among those of its cohort."""
        if (name := best(node)) is not None:
            one = left[name]
            nodes[name].add(one.uses)
            share = node.share()
            nodes[name].add(one.uses, -1)
            key = share.borrows_any(one.uses), share.key, -one.priority, one.created
            heappush(heaps[cohort.name], (*key, places[node.name], name))

    for node in sorted(nodes.values(), key=lambda one: -len(one.above())):
        if node.parent is not None:
            compare(node, node.parent)
    for root in [node for node in nodes.values() if node.parent is None]:
        while (name := best(root)) is not None:
            del left[name]
            yield name
            node = nodes[name]
            while node.parent is not None:
                heappop(heaps[node.parent.name])
                compare(node, node.parent)
                node = node.parent


class Replay:
    """What runs and waits, from cycle to cycle.

    Of each queue the workload that preempts comes first, then by priority and age. One that neither fits nor preempts
    is set aside until something is preempted or ends, with all of its queue and priority that ask for the same; in a
    queue that is ``StrictFIFO`` with all of it. All that is preempted is gone, and waits again, before the next cycle.
    """

    def __init__(
        self, nodes: Mapping[str, Node], every: Sequence[Workload], runs: Iterable[int], start: Starting, order: Order
    ):
        self.nodes, self.every, self.start, self.order = nodes, [*every], start, order
        self.runs, self.waits = [*runs], set[int]()  # what runs is in use already
        self.aside, self.preempts = set[int](), dict[str, int]()
        self.kinds: dict[int, Any] = {}  # of what asks for the same
        self.again: int | None = None  # the cycle from which all comes again

    def settle(self, arrives: int) -> list[Cycle]:
        """Let a workload arrive, and go on until nothing changes: the cycles that come again for ever, if any do."""
        self.waits.add(arrives)
        cycles = [*self.cycles()]
        return self.ring(cycles)

    def cycles(self) -> Iterator[Cycle]:
        """Cycles until nothing changes, or all comes again."""
        self.seen, self.again = dict[object, int](), None
        while len(self.seen) < MOST_CYCLES:
            state = tuple(self.runs), frozenset(self.aside), frozenset(self.preempts.items())
            if state in self.seen:
                self.again = self.seen[state]
                return
            self.seen[state] = len(self.seen)
            if (cycle := self._cycle()) is None:
                break
            yield cycle

    def ring(self, cycles: list[Cycle]) -> list[Cycle]:
        """Those of the cycles that come again for ever, if any do."""
        ring = [] if self.again is None else cycles[self.again :]
        return ring if any(one.preempted for one in ring) else []

    def end(self, row: int) -> None:
        """Let a workload that runs end."""
        self._use((row,), -1)
        self.runs.remove(row)
        self.aside.clear()

    def _alike(self, j: int) -> set[int]:
        """What waits and asks for the same as a workload in its queue, with its priority."""
        for k in (j, *self.waits):
            if k not in self.kinds:
                one = self.every[k]
                ways = tuple(tuple(way.items()) for part in parts_of(one) for way in part.ways)
                self.kinds[k] = one.queue, one.priority, ways
        if self.nodes[self.every[j].queue].rules.get(STRATEGY) == STRICT:
            return {k for k in self.waits if self.every[k].queue == self.every[j].queue}
        return {
            k for k in self.waits if self.kinds[k] == self.kinds[j] and self.every[k].created >= self.every[j].created
        }

    def _use(self, rows: Iterable[int], sign: int = 1) -> None:
        """Let workloads use what they ask for, or free it."""
        for j in rows:
            self.nodes[self.every[j].queue].add(self.every[j].uses, sign)

    def _cycle(self) -> Cycle | None:
        """One cycle, or None if all that waits is set aside."""
        every, heads = self.every, dict[str, int]()
        for j in sorted(self.waits - self.aside, key=self._place):
            heads.setdefault(every[j].queue, j)
        if not heads:
            return None
        running = [every[j] for j in self.runs]
        starts = {j: self.start(every[j], running) for j in heads.values()}
        for j, how in starts.items():
            every[j] = every[j]._replace(uses=how.uses)
        targets = {j: None if how.now else [self.runs[k] for k in how.victims] for j, how in starts.items()}
        reserved, gone = list[tuple[Node, Amounts]](), set[int]()
        admitted, preempted = list[int](), list[tuple[int, int]]()
        for name in self.order(self.nodes, {name: (every[j], starts[j]) for name, j in heads.items()}):
            j, node = heads[name], self.nodes[name]
            mine, late = targets[j], False
            if mine and not gone.isdisjoint(mine):  # again, as if those were gone
                self._use(gone, -1)
                rest, late = [k for k in self.runs if k not in gone], node.fits(every[j].uses)
                one = every[j]._replace(parts=())
                mine = [] if late else [rest[k] for k in self.start(one, [every[k] for k in rest]).victims]
                self._use(gone)
            if mine == [] and not late:
                self.aside |= self._alike(j)
                if policy(node, RECLAIM) != ANY and starts[j].need.kind != NO_FIT:
                    most = node.limit if starts[j].need.level else node.own
                    left_over = {one: max(0, most(one) - node.used.get(one, 0)) for one in every[j].uses}
                    kept = {one: min(amount, left_over[one]) for one, amount in every[j].uses.items()}
                    node.add(kept)
                    reserved.append((node, kept))
                continue
            freed = gone.union(mine or ())
            self._use(freed, -1)
            fits = node.fits(every[j].uses)
            self._use(freed)
            if not fits:
                continue
            self._use((j,))
            if mine is None:
                admitted.append(j)
            else:
                reserved.append((node, every[j].uses))
                self.preempts[name] = j
                preempted += [(k, j) for k in mine if k not in gone]
                gone.update(mine)
        for node, amounts in reserved:
            node.add(amounts, -1)
        self._use(gone, -1)
        self.runs = [j for j in self.runs if j not in gone] + admitted
        self.waits = (self.waits - {*admitted}) | gone
        self.preempts = {name: j for name, j in self.preempts.items() if j not in admitted}
        if gone:
            self.aside = set()
        return Cycle(tuple(admitted), tuple(preempted))

    def _place(self, j: int) -> tuple[bool, int, float, int]:
        """Where a workload stands in its queue."""
        one = self.every[j]
        return self.preempts.get(one.queue) != j, -one.priority, one.created, j
