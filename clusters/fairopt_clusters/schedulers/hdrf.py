"""Hierarchical DRF as Volcano's plugin ``drf`` computes it, task by task.

A task changes one node at each level. Each node keeps the sums that its share is computed from, and heaps of the nodes
below it, so that a task takes a few operations at each level, however many nodes there are.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from fairopt_clusters.read.queues.tree import QueueTree
from fairopt_clusters.schedulers.base import Given, deepest_first

SPLIT = 2.0**13 + 1  # leaves 40 bits of a number, by Dekker's method: shares that only rounding tells apart are equal


class _Node:
    """A node of the hierarchy; those without nodes below are jobs."""

    def __init__(self, weight: float, above: _Node | None, total: list[float]) -> None:
        self.weight, self.above, self.total = max(weight, 1.0), above, total
        self.used = self.zero = [0.0] * len(total)  # scaled, of inner nodes
        self.share, self.saturated, self.version, self.place = 0.0, False, 0, 0
        self.scaled = self.plain = self.zero  # what it adds to the sums of the node above
        self.left, self.task = 0, self.zero  # of jobs
        self.below, self.waiting, self.unsaturated = list[_Node](), 0, 0
        self.sum_scaled = self.sum_plain = self.zero  # of nodes below: use over share, use of those that are not scaled
        self.order, self.shares = list[tuple[bool, float, int, int]](), list[tuple[float, int, int]]()
        if above is not None:
            self.place = len(above.below)
            above.below.append(self)
            above.unsaturated += 1

    def wait(self, tasks: int) -> None:
        """Have so many tasks that wait."""
        node: _Node | None = self
        change = (tasks > 0) - (self.left > 0)
        self.left = tasks
        while node is not None and change:
            node.waiting += change
            node = node.above

    def saturate(self) -> None:
        """Count as saturated from now on."""
        node: _Node | None = self
        while node is not None and not node.unsaturated:
            node.saturated = True
            node = node.above
            if node is not None:
                node.unsaturated -= 1

    def update(self) -> None:
        """Compute its share after a change, and those of the nodes above it; the root is compared with none."""
        node = self
        while (above := node.above) is not None:
            if node.below:
                scale = node.scale()
                node.used = [b + scale * a for a, b in zip(node.sum_scaled, node.sum_plain, strict=True)]
            node.share = max([a / b for a, b in zip(node.used, node.total, strict=True)])
            node.version += 1
            by_weight = node.share / node.weight
            rounded = by_weight * SPLIT - (by_weight * SPLIT - by_weight)
            heappush(above.order, (node.saturated, rounded, node.place, node.version))
            if above.above is not None:
                above.take(node)
            node = above

    def take(self, child: _Node) -> None:
        """Have a node below in the sums as it is now."""
        used, share = child.used, child.share
        if child.saturated or not share:
            scaled, plain = child.zero, used
        else:
            scaled, plain = [amount / share for amount in used], child.zero
            heappush(self.shares, (share, child.place, child.version))
        if scaled != child.scaled:
            self.sum_scaled = [a + b - c for a, b, c in zip(self.sum_scaled, scaled, child.scaled, strict=True)]
            child.scaled = scaled
        if plain is not child.plain:
            self.sum_plain = [a + b - c for a, b, c in zip(self.sum_plain, plain, child.plain, strict=True)]
            child.plain = plain

    def scale(self) -> float:
        """The smallest share of nodes below that are not saturated."""
        shares, below = self.shares, self.below
        while shares and below[shares[0][1]].version != shares[0][2]:
            heappop(shares)
        return min(1.0, shares[0][0]) if shares else 1.0

    def first(self) -> _Node:
        """The job whose task is tried next."""
        node = self
        while node.below:
            *_, place, version = node.order[0]
            child = node.below[place]
            if child.waiting and child.version == version:
                node = child
            else:
                heappop(node.order)
        return node


def served(tree: QueueTree, asked: Given, tasks: int) -> dict[str, list[float]]:
    """What each queue uses of each resource after the tasks of all jobs were tried, the first of the hierarchy next."""
    total = [*tree.total().values()]
    root, jobs = _Node(1.0, None, total), dict[str, _Node]()
    nodes = [("", root)]
    while nodes:
        name, node = nodes.pop()
        below = [(queue.name, _Node(queue.weight, node, total)) for queue in tree.children[name]]
        nodes += below
        if not below and name:
            jobs[name] = node
            node.task = [amount / tasks for amount in asked[name].values()]
            node.wait(tasks * any(node.task))
    _run(root, jobs.values(), total, tasks)
    used = dict[str, list[float]]()
    for queue in deepest_first(tree):
        parts = [used[one.name] for one in tree.children[queue.name]]
        used[queue.name] = [*map(sum, zip(*parts, strict=True))] if parts else jobs[queue.name].used
    return used


def _run(root: _Node, jobs: Collection[_Node], total: list[float], tasks: int) -> None:
    """Start the tasks that fit."""
    for job in jobs:
        job.update()
    used, most = [0.0] * len(total), [there * (1 + 1e-12) for there in total]
    while root.waiting:
        job = root.first()
        before, used = used, [amount + more for amount, more in zip(used, job.task, strict=True)]
        if any([amount > there for amount, there in zip(used, most, strict=True)]):
            used = before
            job.wait(0)
            continue
        job.wait(job.left - 1)
        job.used = [(tasks - job.left) * amount for amount in job.task]
        if not job.left:
            job.saturate()
        job.update()
        if any([a < there <= b for a, b, there in zip(before, used, total, strict=True)]):
            full = [r for r, there in enumerate(total) if used[r] >= there]
            for one in jobs:
                if not one.saturated and any(one.task[r] for r in full):
                    one.saturate()
                    one.update()
