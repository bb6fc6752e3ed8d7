"""What runs and waits in the ClusterQueues of an input, and what Kueue gives it under other settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairopt_clusters.read.documents import documents_of, objects_of
from fairopt_clusters.read.kubernetes.kueue import COMMAND
from fairopt_clusters.read.kubernetes.objects import Pod, read_pods
from fairopt_clusters.read.queues.kueue import InQueues, submitted_in, tree_of
from fairopt_clusters.read.queues.tree import QueueTree
from fairopt_clusters.schedulers.cohorts import Node, nodes_of
from fairopt_clusters.schedulers.course import Settled, Timed, settled
from fairopt_clusters.schedulers.start import could_start, least_of, parts_of
from fairopt_clusters.schedulers.whole import never_start

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
    """The objects of Kubernetes of an input, with their places, and what is in its ClusterQueues."""

    objects: Sequence[tuple[Raw, str]] = ()

    @classmethod
    def of(cls, source: Any) -> Work:
        """That of an input of `fairopt.read`, which may be None."""
        return cls(cls.objects_of(source))

    @cached_property
    def inside(self) -> InQueues | None:
        """What runs and waits in the ClusterQueues, None without any."""
        items = [one for one, _ in self.objects]
        of_kueue = any(one.get("kind") == "ClusterQueue" for one in items)
        return submitted_in({"kind": "List", "items": items}, "") if of_kueue else None

    def pods_where(self, wanted: Callable[[Raw], bool]) -> list[Pod]:
        """The pods that are ``wanted`` as given, before they are read."""
        mine = [one for one, _ in self.objects if one.get("kind") == "Pod" and wanted(one)]
        return read_pods({"kind": "PodList", "items": mine}, "the pods")

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

    def settled(self, changed: Mapping[tuple[str, str], Raw] | None = None) -> Settled:
        """What queues use, and what waits, once Kueue has admitted and preempted all that it will."""
        tree = self.tree(changed)
        owned = tree is not None and any(amount for one in tree.queues for amount in one.guarantee.values())
        if tree is None or self.inside is None or not owned:
            return Settled({}, frozenset())
        return settled(tree, self.inside.runs, [Timed(one, 0.0, 1.0) for one in self.inside.waits])

    def too_large(self, changed: Mapping[tuple[str, str], Raw] | None = None) -> dict[str, str]:
        """What waits, starts several pods together, and could not start if nothing else ran: its name, and why."""
        tree = self.tree(changed)
        if tree is None or self.inside is None:
            return {}
        gangs = [one for one in self.inside.waits if least_of(one) > 1]
        return {one.name: f"{one.name} of {one.queue} {'; '.join(why)}" for one, why in never_start(tree, gangs)}

    def gangs_in(self, queue: str, names: Collection[str]) -> list[str]:
        """Those of some workloads that wait in a queue and start several pods together, the largest first."""
        waits = self.inside.waits if self.inside else ()
        mine = [one for one in waits if one.queue == queue and one.name in names and least_of(one) > 1]
        return [one.name for one in sorted(mine, key=lambda one: -sum(one.uses.values()))]

    @cached_property
    def cohorts_with_larger(self) -> dict[str, str]:
        """The queues in a tree of cohorts with a workload that is larger than what its queue owns, and that workload.

        If others take back what they own, such a workload is stopped whenever one of them wants it, and wins nothing
        back: it must borrow.
        """
        tree, out = self.tree(), dict[str, str]()
        nodes = {} if tree is None else nodes_of(tree)
        for one in (*self.inside.runs, *self.inside.waits) if self.inside else ():
            node = nodes.get(one.queue)
            if node is None or node.parent is None:
                continue
            owns = any(node.nominal.get(cell) for part in parts_of(one) for way in part.ways for cell in way)
            alone = {node.name: Node(node.name, node.nominal, rules=node.rules, is_queue=True)}
            if owns and not could_start(alone, one) and could_start(nodes, one):  # else it never runs
                for other in nodes.values():
                    if not other.children and other.root is node.root:
                        out.setdefault(other.name, f"{one.name} in {node.name}")
        return out
