"""The smallest sets of workloads whose preemption lets one that waits in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from fairopt.errors import OutOfDomain
from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.schedulers.cohorts import Node
from fairopt_clusters.schedulers.preemption import Ordering, allowed, candidates

MOST_STEPS = 20_000


def by_rules(
    nodes: Mapping[str, Node],
    incoming: Workload,
    workloads: Sequence[Workload],
    needed: Collection[str],
    strategies: Sequence[str],
    among: Collection[int] | None = None,
) -> list[int]:
    """The smallest set that can be preempted one by one, each as a rule allows then, in such an order; by size."""
    preemptor, rows = nodes[incoming.queue], candidates(nodes, incoming, workloads, needed)
    rows = [j for j in rows if among is None or j in among]
    kinds = dict[tuple[object, ...], list[int]]()  # of equal workloads
    for j in rows:
        one = workloads[j]
        kinds.setdefault((one.queue, one.priority, *sorted(one.uses.items())), []).append(j)
    alike, ordering = [*kinds.values()], Ordering(nodes, preemptor, {}, ())
    within = all(preemptor.used.get(name, 0) + incoming.uses[name] <= preemptor.quota.get(name, 0) for name in needed)

    def allows(node: Node) -> Callable[[Workload], bool]:
        """Which workloads of a queue may be preempted as shares are now."""
        if node is preemptor:
            return lambda _: True
        mine, other = ordering.almost(node)
        path = node.above(itself=True)
        if not all(each.share().borrowed for each in path[: path.index(other) + 1]):
            return lambda _: False
        new, before = mine.share(), other.share()

        def may(one: Workload) -> bool:
            node.add(one.uses, -1)
            after = other.share()
            node.add(one.uses)
            return within or any(allowed(rule, new, before, after) for rule in strategies)

        return may

    def change(counts: Sequence[int], sign: int) -> None:
        for number, kind in zip(counts, alike, strict=True):
            for j in kind[:number]:
                nodes[workloads[j].queue].add(workloads[j].uses, sign)

    firsts = [workloads[kind[0]] for kind in alike]
    level, tried = {(0,) * len(alike): None}, 0
    preemptor.add(incoming.uses)
    try:
        while level:
            doing, longer = list[list[int]](), dict[tuple[int, ...], None]()
            for counts in level:
                change(counts, -1)
                if all(preemptor.available(name) >= 0 for name, amount in incoming.uses.items() if amount):
                    doing.append([j for number, kind in zip(counts, alike, strict=True) for j in kind[:number]])
                else:
                    may = {name: allows(nodes[name]) for name in dict.fromkeys(one.queue for one in firsts)}
                    open_kinds = [k for k, number in enumerate(counts) if number < len(alike[k])]
                    tried += len(open_kinds)
                    open_kinds = [k for k in open_kinds if may[firsts[k].queue](firsts[k])]
                    longer.update(dict.fromkeys((*counts[:k], counts[k] + 1, *counts[k + 1 :]) for k in open_kinds))
                change(counts, 1)
                if tried > MOST_STEPS:
                    raise OutOfDomain(f"Kueue: more than {MOST_STEPS:,} steps are to be tried")
            if doing:
                costs = _costs(nodes, incoming, workloads)
                return min(doing, key=lambda one: [sum(cost[j] for j in one) for cost in costs])
            level = longer
    finally:
        preemptor.add(incoming.uses, -1)
    return []


def _costs(nodes: Mapping[str, Node], incoming: Workload, workloads: Sequence[Workload]) -> list[list[float]]:
    """What equally large sets are compared by: ranks of priorities, and parts of the tree of cohorts that are freed."""
    rank = {priority: k for k, priority in enumerate(sorted({one.priority for one in workloads}))}
    there = {name: float(max(1, nodes[incoming.queue].root.quota.get(name, 0))) for name in incoming.uses}
    parts = [sum(float(one.uses.get(name, 0)) / all_of for name, all_of in there.items()) for one in workloads]
    return [[float(rank[one.priority]) for one in workloads], parts]
