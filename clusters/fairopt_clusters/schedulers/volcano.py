"""Volcano's plugins that divide a cluster among queues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers.base import Deployed, deepest_first, request_of, resources_of, usable_of
from fairopt_clusters.schedulers.filling import by_level, by_use
from fairopt_clusters.schedulers.hdrf import served

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
    >>> import fairopt_clusters as fc
    >>> from fairopt_clusters import Queue, QueueTree
    >>> queues = Queue("a", weight=3, request={"cpu": 5}), Queue("b", request={"cpu": 9})
    >>> fc.schedulers.Volcano().divide(QueueTree("Volcano", queues, {"cpu": 8}))["cpu"].tolist()
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
        return {"proportion": _proportion, "capacity": _capacity, "hdrf": self._hdrf}[self.plugin](tree)

    def _hdrf(self, tree: QueueTree) -> dict[str, dict[str, float]]:
        """The plugin ``drf`` with its hierarchy."""
        names, asked = resources_of(tree), request_of(tree)
        for queue in tree.leaves:
            if not all(map(math.isfinite, asked[queue.name].values())):
                raise InvalidInstance(f"{self.name}: {queue.name!r} has no request; give one, in amounts")
        used = served(tree, asked, self.tasks)
        return {name: dict(zip(names, amounts, strict=True)) for name, amounts in used.items()}


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
    most = dict.fromkeys(((name, "") for name in resources_of(tree)), math.inf)

    def divide(name: str, above: str, below: Sequence[Queue], amount: float) -> list[float]:
        free = max(0.0, most[name, above] - sum(queue.reserved.get(name, 0.0) for queue in below))
        bases, caps = list[float](), list[float]()
        for queue in below:
            reserved = queue.reserved.get(name, 0.0)
            cap = min(free + reserved, _capability(queue, name, most[name, above]))
            most[name, queue.name] = cap
            bases.append(max(min(queue.guarantee.get(name, 0.0), cap), reserved))
            caps.append(min(usable[queue.name][name], cap))
        return by_use(bases, caps, amount)

    return by_level(tree, tree.total(), divide)


def _capability(queue: Queue, name: str, default: float = math.inf) -> float:
    """The most that a queue may have; 0 is none set for CPU and memory."""
    amount = queue.limit.get(name, default)
    return default if name in ("cpu", "memory") and amount <= 0 else amount


CAPACITY, HDRF = Volcano("capacity"), Volcano("hdrf")  # for commands
