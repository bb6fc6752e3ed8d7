"""Hierarchical DRF of Volcano's plugin ``drf`` in fractions: all shares are computed again after each task."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from fairopt_clusters.read.queues.tree import QueueTree


@dataclass(eq=False)
class _Node:
    weight: Fraction
    children: list[_Node] = field(default_factory=list)
    task: list[Fraction] = field(default_factory=list)
    used: list[Fraction] = field(default_factory=list)  # scaled, of inner nodes
    left: int = 0
    started: int = 0
    share: Fraction = Fraction(0)
    saturated: bool = False

    def waits(self) -> bool:
        return self.left > 0 or any(child.waits() for child in self.children)

    def update(self, total: list[Fraction], full: list[bool], tasks: int) -> None:
        if self.children:
            for child in self.children:
                child.update(total, full, tasks)
            smallest = min([Fraction(1), *(c.share for c in self.children if c.share and not c.saturated)])
            scales = [smallest / c.share if c.share and not c.saturated else Fraction(1) for c in self.children]
            self.used = [
                sum((scale * child.used[r] for child, scale in zip(self.children, scales, strict=True)), Fraction(0))
                for r in range(len(total))
            ]
            self.saturated = all(child.saturated for child in self.children)
        else:
            self.used = [self.started * amount for amount in self.task]
            blocked = any(amount and stop for amount, stop in zip(self.task, full, strict=True))
            self.saturated = blocked or (any(self.task) and self.started == tasks)
        self.share = max(amount / there for amount, there in zip(self.used, total, strict=True))

    def first(self) -> _Node:
        if not self.children:
            return self
        waiting = [child for child in self.children if child.waits()]
        return min(waiting, key=lambda one: (one.saturated, one.share / max(one.weight, Fraction(1)))).first()


def started(tree: QueueTree, tasks: int) -> dict[str, int]:
    """How many tasks of each queue without queues below start, of queues with requests and weights in floats."""
    total = [Fraction(amount) for amount in tree.total().values()]
    nodes = {queue.name: _Node(Fraction(queue.weight)) for queue in tree.queues}
    root, jobs = _Node(Fraction(1)), {queue.name: nodes[queue.name] for queue in tree.leaves}
    for queue in tree.queues:
        (nodes[queue.parent] if queue.parent else root).children.append(nodes[queue.name])
        if queue.name in jobs:
            job = jobs[queue.name]
            job.task = [Fraction((queue.request or {}).get(name, 0)) / tasks for name in tree.total()]
            job.left = tasks if any(job.task) else 0
    used = [Fraction(0)] * len(total)
    while root.waits():
        root.update(total, [a >= b for a, b in zip(used, total, strict=True)], tasks)
        job = root.first()
        after = [a + b for a, b in zip(used, job.task, strict=True)]
        if any(a > b for a, b in zip(after, total, strict=True)):
            job.left = 0
        else:
            used, job.left, job.started = after, job.left - 1, job.started + 1
    return {name: job.started for name, job in jobs.items()}
