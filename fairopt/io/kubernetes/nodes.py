"""Nodes of Kubernetes as servers: what they have for pods, and whom they keep away."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fairopt.io.json_text import Entry
from fairopt.io.kubernetes.lists import amounts, items, labels, refuse_twins
from fairopt.io.kubernetes.placement import Taint, taints_of

__all__ = ["KubernetesServer", "read_nodes"]

_COMMAND = "kubectl get nodes -o json"


@dataclass(frozen=True, eq=False)
class KubernetesServer:
    """One node.

    Attributes
    ----------
    name : str
    labels : dict
    taints : tuple of Taint
        Those that keep pods away.
    cordoned : bool
        Whether it takes no new pods at all.
    allocatable : dict of Fraction
        What it has for pods, in base units by resource; empty if the node does not say.
    assumed : bool
        Whether ``allocatable`` is the whole capacity, where the node says nothing else.
    """

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    cordoned: bool
    allocatable: dict[str, Fraction]
    assumed: bool


def read_nodes(document: Entry) -> list[KubernetesServer]:
    """The nodes of what ``kubectl get nodes -o json`` gives, cordoned ones too."""
    first: dict[str, Entry] = {}
    servers = []
    for item in items(document, "Node", _COMMAND):
        metadata, spec, status = item["metadata"], item["spec"], item["status"]
        name = metadata["name"].name()
        item.called(name)
        refuse_twins(first, name, item, "keep one of them")
        allocatable = amounts(status["allocatable"])
        # without allocatable, Kubernetes itself takes the capacity
        assumed = {} if allocatable else amounts(status["capacity"])
        servers.append(
            KubernetesServer(
                name, labels(metadata), taints_of(spec), spec["unschedulable"].flag(), allocatable or assumed,
                bool(assumed),
            )
        )  # fmt: skip
    return servers
