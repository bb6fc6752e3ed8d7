"""What runs and waits in the ClusterQueues of an input, and what Kueue gives it under other settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairopt_clusters.read.documents import documents_of, objects_of
from fairopt_clusters.read.kubernetes.kueue import COMMAND
from fairopt_clusters.read.queues.kueue import InQueues, submitted_in, tree_of
from fairopt_clusters.read.queues.tree import QueueTree
from fairopt_clusters.schedulers.cohorts import nodes_of
from fairopt_clusters.schedulers.course import Timed, settled

Raw = Mapping[str, Any]
_KINDS = (
    "nodes",
    "pods",
    "workloads",
    "clusterqueues",
    "localqueues",
    "cohorts",
    "resourceflavors",
    "namespaces",
    "jobs",
)
_FILES = [f"{kind}.json" for kind in _KINDS]


@dataclass(frozen=True, eq=False)
class Work:
    """The objects of an input with ClusterQueues, and what is in these."""

    objects: Sequence[tuple[Raw, str]] = ()
    inside: InQueues | None = None

    @classmethod
    def of(cls, source: Any) -> Work:
        """That of an input of `fairopt.read`."""
        objects = cls.objects_of(source)
        return cls(objects, submitted_in({"kind": "List", "items": [one for one, _ in objects]}, ""))

    @staticmethod
    def objects_of(source: Any) -> list[tuple[Raw, str]]:
        """The objects of an input, with their places."""
        documents = documents_of(source, _FILES, f"expected the output of {COMMAND}")
        listed = [(document, name) for document, name in documents if "items" in document or "kind" in document]
        objects = objects_of(listed, "")
        return [*zip(objects["items"], objects["items"].places, strict=True)]

    def tree(self, changed: Mapping[tuple[str, str], Raw] | None = None) -> QueueTree | None:
        """The queues, with objects that have changed, by kind and name; None without any."""
        now = changed or {}
        keys = [(str(one.get("kind")), str((one.get("metadata") or {}).get("name"))) for one, _ in self.objects]
        return tree_of([(now.get(key, one), at) for key, (one, at) in zip(keys, self.objects, strict=True)])

    def settled(self, changed: Mapping[tuple[str, str], Raw] | None = None) -> dict[str, dict[str, float]]:
        """What queues use of each resource once Kueue has admitted and preempted all that it will."""
        tree = self.tree(changed)
        running = [one.workload for one in sorted(self.submitted, key=lambda one: one.started or 0.0) if one.runs]
        waiting = [Timed(one.workload, 0.0, 1.0, one.ways) for one in self.submitted if not one.runs]
        owned = tree is not None and any(amount for one in tree.queues for amount in one.guarantee.values())
        return settled(tree, running, waiting) if tree is not None and owned else {}

    def waiting_in(self, queue: str) -> list[str]:
        """What waits in a queue, the largest first."""
        mine = [one.workload for one in self.submitted if not one.runs and one.workload.queue == queue]
        return [one.name for one in sorted(mine, key=lambda one: -sum(one.uses.values()))]

    @cached_property
    def cohorts_with_larger(self) -> dict[str, str]:
        """The queues in a tree of cohorts with a workload that is larger than what its queue owns, and that workload.

        If others take back what they own, such a workload is stopped whenever one of them wants it, and wins nothing
        back: it must borrow.
        """
        tree, out = self.tree(), dict[str, str]()
        nodes = {} if tree is None else nodes_of(tree)
        for one in self.submitted:
            node = nodes.get(one.workload.queue)
            if node is None or node.parent is None:
                continue
            owns = {cell for cell in node.nominal if node.nominal[cell]}
            ways = [way for way in one.ways if owns & way.keys()]
            if ways and all(any(way[cell] > node.nominal.get(cell, 0.0) for cell in way) for way in ways):
                for other in nodes.values():
                    if not other.children and other.root is node.root:
                        out.setdefault(other.name, f"{one.workload.name} in {node.name}")
        return out
