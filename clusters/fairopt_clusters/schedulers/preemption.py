"""Whom Kueue preempts with fair sharing, and in what order queues are asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from fairopt.errors import InvalidInstance, nearest
from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.schedulers.cohorts import DominantShare, Node

FINAL, INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
STRATEGIES = (FINAL, INITIAL)
ANY, NEVER, LOWER, NEWER = "Any", "Never", "LowerPriority", "LowerOrNewerEqualPriority"
RECLAIM, WITHIN, BORROW = "reclaimWithinCohort", "withinClusterQueue", "borrowWithinCohort"
MOST_PRIORITY = "maxPriorityThreshold"  # a note beside the last
POLICIES = {RECLAIM: (ANY, NEVER, LOWER), WITHIN: (NEVER, LOWER, NEWER), BORROW: (NEVER, LOWER)}


class Ordering:
    """Queues as they are asked for workloads: from the root down, the child of the largest share each time."""

    def __init__(self, nodes: Mapping[str, Node], preemptor: Node, left: Mapping[str, list[int]], order: Sequence[int]):
        self.preemptor, self.ancestors = preemptor, preemptor.above()
        self.left = {name: [*rows] for name, rows in left.items()}
        self.rank = {j: place for place, j in enumerate(order)}
        self.pruned, self.nodes = set[Node](), nodes

    def __iter__(self) -> Iterator[Node]:
        root = self.ancestors[-1] if self.ancestors else self.preemptor
        if root is self.preemptor:
            while self.left.get(root.name) and root not in self.pruned:
                yield root
            return
        while root not in self.pruned:
            if (node := self._next(root)) is not None:
                yield node

    def pop(self, node: Node) -> int:
        """The next workload of a queue."""
        return self.left[node.name].pop(0)

    def almost(self, node: Node) -> tuple[Node, Node]:
        """The nodes of the preemptor and of a queue just below the first node above both."""
        common = next(one for one in node.above() if one in self.ancestors)
        below = [next(one for one in of.above(itself=True) if one.parent is common) for of in (self.preemptor, node)]
        return below[0], below[1]

    def _next(self, cohort: Node) -> Node | None:
        """The queue below a cohort, or None if only nodes were pruned."""
        queue, cohort_below = self._queue(cohort), self._cohort(cohort)
        if queue is None and cohort_below is None:
            self.pruned.add(cohort)
            return None
        if cohort_below is not None and (queue is None or cohort_below.share().key >= queue.share().key):
            return self._next(cohort_below)
        return queue

    def _queue(self, cohort: Node) -> Node | None:
        """The queue of the largest share right below a cohort, of those that borrow and have workloads left."""
        best: Node | None = None
        for node in cohort.children:
            if node.children or node in self.pruned:
                continue
            if not self.left.get(node.name) or not (node.share().borrowed or node is self.preemptor):
                self.pruned.add(node)
            elif best is None or node.share().key > best.share().key:
                best = node
            elif node.share().key == best.share().key:
                earlier = self.rank[self.left[node.name][0]] < self.rank[self.left[best.name][0]]
                best = node if earlier else best
        return best

    def _cohort(self, cohort: Node) -> Node | None:
        """The cohort of the largest share right below a cohort, of those that borrow or have the preemptor below."""
        best: Node | None = None
        for node in cohort.children:
            if not node.children or node in self.pruned:
                continue
            if not node.share().borrowed and node not in self.ancestors:
                self.pruned.add(node)
            elif best is None or node.share().key >= best.share().key:
                best = node
        return best


def turns(workloads: Sequence[Workload], queue: str) -> list[int]:
    """Rows of workloads in the order of preemption for a queue: its own last, then by priority, the latest first."""
    return sorted(range(len(workloads)), key=lambda j: (workloads[j].queue == queue, workloads[j].priority, -j))


def allowed(strategy: str, new: DominantShare, before: DominantShare, after: DominantShare) -> bool:
    """Whether a rule lets a preemptor of a new share take a workload of a node of a share before and after it."""
    return new.key <= after.key if strategy == FINAL else new.key < before.key


def policy(node: Node, key: str) -> str:
    """A rule of a queue on whom it may preempt, such as ``reclaimWithinCohort``, from its notes."""
    value, known = node.rules.get(key, POLICIES[key][0]), POLICIES[key]
    if value not in known:
        raise InvalidInstance(f"{key} of {node.name!r} is {value!r}; {nearest(value, known)}")
    return value


def most_priority(queue: str, rules: Mapping[str, str]) -> int | None:
    """Up to what priority a queue preempts whatever the shares are, from its notes; None is any."""
    text = rules.get(MOST_PRIORITY)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise InvalidInstance(f"{MOST_PRIORITY} of {queue!r} is {text!r}; give a whole number") from None


def permits(rule: str, incoming: Workload, other: Workload) -> bool:
    """Whether a rule lets a workload preempt another one, by their priorities and ages."""
    if rule == NEWER and incoming.priority == other.priority:
        return incoming.created < other.created
    return rule == ANY or (rule != NEVER and incoming.priority > other.priority)


def candidates(
    nodes: Mapping[str, Node], incoming: Workload, workloads: Sequence[Workload], needed: Collection[str]
) -> list[int]:
    """Rows of workloads that rules of queues let be preempted, in order: each of a queue that borrows, or its own."""
    preemptor = nodes[incoming.queue]
    reclaim, root = policy(preemptor, RECLAIM), preemptor.root
    out = list[int]()
    for j in turns(workloads, incoming.queue):
        node, one = nodes[workloads[j].queue], workloads[j]
        borrows = any(node.used.get(name, 0) > node.quota.get(name, 0) for name in needed)
        rule = policy(preemptor, WITHIN) if node is preemptor else reclaim
        there = node is preemptor or (node.root is root and borrows)
        if there and any(one.uses.get(name, 0) > 0 for name in needed) and permits(rule, incoming, one):
            out.append(j)
    return out


def victims(
    nodes: Mapping[str, Node],
    incoming: Workload,
    workloads: Sequence[Workload],
    needed: Collection[str],
    strategies: Sequence[str],
    below_threshold: bool = False,
) -> list[int]:
    """The rows of workloads that are preempted for a workload, or none if they would not do.

    It lacks what is ``needed``.
    """
    queue, request = incoming.queue, incoming.uses
    preemptor, order = nodes[queue], turns(workloads, queue)
    left = dict[str, list[int]]()
    for j in candidates(nodes, incoming, workloads, needed):
        left.setdefault(workloads[j].queue, []).append(j)
    threshold = _threshold(preemptor, incoming) if below_threshold else -math.inf
    preemptor.add(request)
    within = all(preemptor.used.get(name, 0) <= preemptor.quota.get(name, 0) for name in needed)
    taken, again = list[int](), dict[str, list[int]]()

    def take(node: Node, j: int) -> bool:
        node.add(workloads[j].uses, -1)
        taken.append(j)
        return all(preemptor.available(name) >= 0 for name, amount in request.items() if amount)

    def first() -> bool:
        ordering = Ordering(nodes, preemptor, left, order)
        for node in ordering:
            if within or node is preemptor:
                if take(node, ordering.pop(node)):
                    return True
                continue
            mine, other = ordering.almost(node)
            new, before = mine.share(), other.share()
            while ordering.left[node.name]:
                j = ordering.pop(node)
                node.add(workloads[j].uses, -1)
                after = other.share()
                node.add(workloads[j].uses)
                if workloads[j].priority < threshold or allowed(strategies[0], new, before, after):
                    if take(node, j):
                        return True
                    break
                again.setdefault(node.name, []).append(j)
        return False

    def second() -> bool:
        ordering = Ordering(nodes, preemptor, again, order)
        for node in ordering:
            mine, other = ordering.almost(node)
            j = ordering.pop(node)
            if allowed(INITIAL, mine.share(), other.share(), other.share()) and take(node, j):
                return True
            ordering.pruned.add(node)
        return False

    fits = first() or (len(strategies) > 1 and second())
    preemptor.add(request, -1)
    if fits:
        put_back(nodes, workloads, taken, lambda: preemptor.fits(request))
    for j in taken:
        nodes[workloads[j].queue].add(workloads[j].uses)
    return taken if fits else []


def put_back(
    nodes: Mapping[str, Node], workloads: Sequence[Workload], taken: list[int], fits: Callable[[], bool]
) -> None:
    """Leave out of what is taken what fits again, the last taken first."""
    for place in range(len(taken) - 2, -1, -1):
        node, freed = nodes[workloads[taken[place]].queue], workloads[taken[place]].uses
        node.add(freed)
        if fits():
            taken[place] = taken[-1]
            taken.pop()
        else:
            node.add(freed, -1)


def _threshold(preemptor: Node, incoming: Workload) -> float:
    """Below what priority workloads could be preempted whatever the shares are, before Kueue's 87e9a0a6."""
    if policy(preemptor, BORROW) == NEVER:
        return -math.inf
    most = most_priority(preemptor.name, preemptor.rules)
    return incoming.priority if most is None else min(incoming.priority, most + 1)
