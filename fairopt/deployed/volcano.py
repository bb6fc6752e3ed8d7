"""Volcano's plugins that divide a cluster among queues."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from fairopt.datasets import Queue, QueueTree
from fairopt.deployed.base import Deployed, deepest_first, in_order, request_of, resources_of, usable_of
from fairopt.deployed.filling import filled
from fairopt.errors import InvalidBlock, InvalidInstance

PLUGINS = ("proportion", "capacity", "hdrf")
LEAST = 1e-4  # less of a resource counts as nothing: 0.1 of a thousandth
LEAST_MEMORY = 0.1 / 2**30  # 0.1 bytes, in GiB


@dataclass(frozen=True)
class Volcano(Deployed):
    """What a plugin of Volcano gives queues.

    ``"proportion"``: all queues that have none below them share the cluster by weight in rounds. In each, a queue gets
    its part of what is left, up to what it may have and what it asks for, but no less than what is reserved for it; one
    that asks for no more, or got no more, leaves. What is reserved for others cannot be had.

    ``"capacity"``: at each level the queue with the least use over what it deserves is served next, for each resource
    by itself; one that deserves nothing counts as served in full by any use.

    ``"hdrf"``: hierarchical DRF as the plugin ``drf`` computes it. Tasks start one after the other, each in the queue
    that is first at each level by share over weight, those that are saturated at the end. The share of an inner node
    is that of the sum of its nodes below, those that are not saturated scaled to the smallest of their dominant
    shares, without their weights. Queues without queues below are jobs, and their tasks are `tasks` parts of what
    they ask for.

    Parameters
    ----------
    plugin : {"proportion", "capacity", "hdrf"}
    tasks : int, default 100
        Of ``"hdrf"``: into how many tasks the request of each queue is divided.

    Notes
    -----
    From ``pkg/scheduler/plugins/proportion/proportion.go``, ``capacity/capacity.go`` and ``drf/drf.go`` of
    volcano-sh/volcano at ed72c7c8.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.datasets import Queue, QueueTree
    >>> queues = Queue("a", weight=3, request={"cpu": 5}), Queue("b", request={"cpu": 9})
    >>> fo.deployed.Volcano().divide(QueueTree("Volcano", queues, {"cpu": 8}))["cpu"].tolist()
    [5.0, 3.0]
    """

    plugin: str = "proportion"
    tasks: int = 100

    scheduler: ClassVar[str] = "Volcano"

    def __post_init__(self) -> None:
        if self.plugin not in PLUGINS:
            raise InvalidBlock(f"Volcano: plugin is {self.plugin!r}; give one of {list(PLUGINS)}")
        if not isinstance(self.tasks, int) or self.tasks < 1:
            raise InvalidBlock(f"Volcano: tasks is {self.tasks!r}; give a whole number > 0")

    @property
    def source(self) -> str:  # type: ignore[override]
        """The file and the commit."""
        return f"{self.plugin.removeprefix('h')}.go of Volcano at ed72c7c8"

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return f"Volcano as deployed ({self.plugin})"

    def _divided(self, tree: QueueTree) -> dict[str, dict[str, float]]:
        divide = {"proportion": _proportion, "capacity": _capacity, "hdrf": self._hdrf}[self.plugin]
        return in_order(tree, divide(tree))

    def _hdrf(self, tree: QueueTree) -> dict[str, dict[str, float]]:
        """Task by task."""
        total, asked = tree.total(), request_of(tree)
        nodes = {queue.name: _Node(queue) for queue in tree.queues}
        root = _Node(Queue("", weight=1.0))
        for queue in tree.queues:
            (nodes[queue.parent] if queue.parent else root).children.append(nodes[queue.name])
        used = dict.fromkeys(total, 0.0)
        jobs = [nodes[queue.name] for queue in tree.leaves]
        for job in jobs:
            job.request = asked[job.queue.name]
            if not all(map(math.isfinite, job.request.values())):
                raise InvalidInstance(f"{self.name}: {job.queue.name!r} has no request; give one, in amounts")
            job.left = self.tasks if any(job.request.values()) else 0
        while root.waits:
            root.update(total, {name for name in total if used[name] < total[name]})
            job = root.first()
            task = {name: amount / self.tasks for name, amount in job.request.items()}
            if any(used[name] + amount > total[name] * (1 + 1e-12) for name, amount in task.items()):
                job.left = 0
                continue
            job.left -= 1
            for name, amount in task.items():
                job.used[name] = job.used.get(name, 0.0) + amount
                used[name] += amount
        return {name: {one: node.sum(one) for one in total} for name, node in nodes.items()}


@dataclass(eq=False)
class _Node:
    """A node of the hierarchy of the plugin ``drf``; those without nodes below are jobs."""

    queue: Queue
    children: list[_Node] = field(default_factory=list)
    request: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)  # scaled, of inner nodes
    left: int = 0
    share: float = 0.0
    saturated: bool = False

    @property
    def waits(self) -> bool:
        """Whether there are tasks that have not been tried."""
        return self.left > 0 or any(child.waits for child in self.children)

    def sum(self, name: str) -> float:
        """What jobs below it use."""
        return sum(child.sum(name) for child in self.children) if self.children else self.used.get(name, 0.0)

    def update(self, total: dict[str, float], free: set[str]) -> None:
        """Compute its share and whether it is saturated, with those of all nodes below it."""
        if self.children:
            smallest = 1.0
            for child in self.children:
                child.update(total, free)
                if child.share and not child.saturated:
                    smallest = min(smallest, child.share)
            self.used, self.saturated = {}, all(child.saturated for child in self.children)
            for child in self.children:
                scale = 1.0 if child.saturated or not child.share else smallest / child.share
                for name, amount in child.used.items():
                    self.used[name] = self.used.get(name, 0.0) + scale * amount
        else:
            asked = [name for name, amount in self.request.items() if amount]
            served = any(self.used.get(name, 0.0) >= self.request[name] * (1 - 1e-12) for name in asked)
            self.saturated = served or not {*asked} <= free
        self.share = max((self.used.get(name, 0.0) / amount for name, amount in total.items()), default=0.0)

    def first(self) -> _Node:
        """The job whose task is tried next."""
        if not self.children:
            return self
        waiting = [child for child in self.children if child.waits]
        return min(waiting, key=lambda one: (one.saturated, one.share / max(one.queue.weight, 1.0))).first()


def _proportion(tree: QueueTree) -> dict[str, dict[str, float]]:
    """The plugin ``proportion``."""
    names, asked, leaves = resources_of(tree), request_of(tree), tree.leaves
    left, zero = tree.total(), dict.fromkeys(resources_of(tree), 0.0)
    reserved = {name: sum(queue.reserved.get(name, 0.0) for queue in tree.queues) for name in names}
    may = {
        queue.name: {
            name: min(max(0.0, left[name] - reserved[name]) + queue.reserved.get(name, 0.0), _capability(queue, name))
            for name in names
        }
        for queue in leaves
    }
    given, open_rows = {queue.name: dict(zero) for queue in tree.queues}, list(leaves)
    while open_rows and (weights := sum(queue.weight for queue in open_rows)):
        change, still = dict(zero), list[Queue]()
        for queue in open_rows:
            before, ask, cap = given[queue.name], asked[queue.name], may[queue.name]
            now = {
                name: max(
                    min(before[name] + left[name] * queue.weight / weights, cap[name], ask[name]),
                    queue.reserved.get(name, 0.0),
                )
                for name in names
            }
            given[queue.name] = now
            for name in names:
                change[name] += now[name] - before[name]
            if now != before and any(ask[name] > now[name] for name in names):
                still.append(queue)
        before_round, open_rows = left, still
        left = {name: max(0.0, left[name] - change[name]) for name in names}
        if left == before_round or all(
            amount < (LEAST_MEMORY if n == "memory" else LEAST) for n, amount in left.items()
        ):
            break
    for queue in deepest_first(tree):
        if below := tree.children[queue.name]:
            given[queue.name] = {name: sum(given[one.name][name] for one in below) for name in names}
    return given


def _capacity(tree: QueueTree) -> dict[str, dict[str, float]]:
    """The plugin ``capacity``, with its hierarchy."""
    usable = usable_of(tree)
    given: dict[str, dict[str, float]] = {queue.name: {} for queue in tree.queues}
    for name in resources_of(tree):
        waiting = [("", tree.total()[name], math.inf)]
        while waiting:
            above, amount, most = waiting.pop()
            below = tree.children[above]
            kept = sum(queue.reserved.get(name, 0.0) for queue in below)
            caps = [
                min(max(0.0, most - kept) + queue.reserved.get(name, 0.0), _capability(queue, name, most))
                for queue in below
            ]
            bases = [
                max(min(queue.guarantee.get(name, 0.0), cap), queue.reserved.get(name, 0.0))
                for queue, cap in zip(below, caps, strict=True)
            ]
            parts = filled(bases, [min(usable[q.name][name], cap) for q, cap in zip(below, caps, strict=True)], amount)
            for queue, part, cap in zip(below, parts, caps, strict=True):
                given[queue.name][name] = part
                waiting += [(queue.name, part, cap)] * bool(tree.children[queue.name])
    return given


def _capability(queue: Queue, name: str, default: float = math.inf) -> float:
    """The most that a queue may have; 0 is none set for CPU and memory."""
    amount = queue.limit.get(name, default)
    return default if name in ("cpu", "memory") and amount <= 0 else amount
