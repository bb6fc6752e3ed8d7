"""The smallest sets of workloads whose preemption lets one that waits in."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from fairopt.errors import OutOfDomain
from fairopt.runtime import optimize, sp
from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.schedulers.cohorts import Node
from fairopt_clusters.schedulers.preemption import Ordering, allowed, candidates, turns

MOST_STEPS = 20_000


def by_rules(
    nodes: Mapping[str, Node],
    incoming: Workload,
    workloads: Sequence[Workload],
    strategies: Sequence[str],
    among: Collection[int] | None = None,
) -> list[int]:
    """The smallest set that can be preempted one by one, each as a rule allows then, in such an order; by size."""
    preemptor, rows = nodes[incoming.queue], candidates(nodes, incoming, workloads)
    rows = [j for j in rows if among is None or j in among]
    kinds = dict[tuple[object, ...], list[int]]()  # of equal workloads
    for j in rows:
        one = workloads[j]
        kinds.setdefault((one.queue, one.priority, *sorted(one.uses.items())), []).append(j)
    alike, ordering = [*kinds.values()], Ordering(nodes, preemptor, {}, ())
    within = all(
        preemptor.used.get(name, 0) + incoming.uses[name] <= preemptor.quota.get(name, 0)
        for name in preemptor.lacks(incoming.uses)
    )

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


def of_any(nodes: Mapping[str, Node], incoming: Workload, workloads: Sequence[Workload]) -> list[int]:
    """The smallest set of workloads, whatever rules say, by HiGHS, and checked by addition.

    What passes to a cohort from below is convex in what is used there, so that rows of inequalities say it exactly.
    """
    preemptor, request = nodes[incoming.queue], incoming.uses
    if preemptor.fits(request):
        return []
    tree = [node for node in nodes.values() if node.root is preemptor.root]
    rows = [j for j in turns(workloads, incoming.queue) if nodes[workloads[j].queue].root is preemptor.root]
    cells = [(node, name) for node in tree for name in request]
    passes = {(node.name, name): len(rows) + k for k, (node, name) in enumerate(cells)}
    entries, bounds = list[tuple[int, int, float]](), list[float]()

    def limit(use: Mapping[int, float], most: float, scale: float) -> None:
        entries.extend((len(bounds), column, value / scale) for column, value in use.items())
        bounds.append(most / scale)

    path = preemptor.above(itself=True)
    for node, name in cells:
        below = sum(max(0, one.used.get(name, 0) - one.local(name)) for one in node.children)
        own = node.used.get(name, 0) - below + (request[name] if node is preemptor else 0)
        use = {
            k: -float(amount)
            for k, j in enumerate(rows)
            if workloads[j].queue == node.name and (amount := workloads[j].uses.get(name, 0))
        }
        use |= {passes[one.name, name]: 1.0 for one in node.children}
        scale = float(max(1, node.root.quota.get(name, 0)))
        limit({**use, passes[node.name, name]: -1.0}, float(node.local(name) - own), scale)
        if node in path and request[name] and math.isfinite(node.limit(name)):
            limit(use, float(node.limit(name) - own), scale)
    n = len(rows) + len(cells)
    at, columns, values = zip(*entries, strict=True)
    matrix = sp.coo_array((values, (at, columns)), shape=(len(bounds), n))
    constraints = [optimize.LinearConstraint(matrix, -np.inf, bounds)]
    whole = (np.arange(n) < len(rows)).astype(int)
    box = optimize.Bounds(np.zeros(n), np.where(whole, 1, np.inf))
    chosen = list[int]()
    for cost in ([1.0] * len(workloads), *_costs(nodes, incoming, workloads)):
        costs = np.array([*(cost[j] for j in rows), *[0.0] * len(cells)])
        solution = optimize.milp(costs, integrality=whole, bounds=box, constraints=constraints)
        if solution.x is None:
            return chosen
        chosen = [j for k, j in enumerate(rows) if solution.x[k] > 0.5]
        constraints.append(optimize.LinearConstraint(costs, -np.inf, sum(cost[j] for j in chosen)))
    for j in chosen:
        nodes[workloads[j].queue].add(workloads[j].uses, -1)
    fits = preemptor.fits(request)
    for j in chosen:
        nodes[workloads[j].queue].add(workloads[j].uses)
    if not fits:
        raise OutOfDomain("Kueue: HiGHS rounds amounts as small as those of these workloads; give larger units")
    return chosen


def _costs(nodes: Mapping[str, Node], incoming: Workload, workloads: Sequence[Workload]) -> list[list[float]]:
    """What equally large sets are compared by: ranks of priorities, and parts of the tree of cohorts that are freed."""
    rank = {priority: k for k, priority in enumerate(sorted({one.priority for one in workloads}))}
    there = {name: float(max(1, nodes[incoming.queue].root.quota.get(name, 0))) for name in incoming.uses}
    parts = [sum(float(one.uses.get(name, 0)) / all_of for name, all_of in there.items()) for one in workloads]
    return [[float(rank[one.priority]) for one in workloads], parts]
