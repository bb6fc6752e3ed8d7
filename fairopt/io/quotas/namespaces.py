"""What ResourceQuotas of Kubernetes count beside the tasks of teams: pods of DaemonSets, and static pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairopt.io.documents import documents_of
from fairopt.io.kubernetes.objects import MIRROR, OF_SERVERS, PodSpec, read_pods

__all__ = ["read_fixed"]

_EXPECTED = "expected the output of kubectl get pods -A -o json"


def read_fixed(source: Any) -> dict[str, list[PodSpec]]:
    """The pods of an input of `fairopt.read` that belong to servers, by namespace; none of other inputs."""
    out: dict[str, list[PodSpec]] = {}
    for document, name in documents_of(source, ["pods.json"], _EXPECTED):
        items = document.get("items")
        mine = [item for item in items if _may_be_fixed(item)] if isinstance(items, list) else []
        for pod in read_pods({"kind": document.get("kind"), "items": mine}, name, mixed=True):
            if pod.belongs_to_server and not pod.finished:
                out.setdefault(pod.namespace, []).append(pod.spec)
    return out


def _may_be_fixed(item: Any) -> bool:
    """Whether an object has an owner or an annotation by which a pod may belong to a server."""
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    if not isinstance(metadata, Mapping):
        return False
    owners = metadata.get("ownerReferences") or ()
    kinds = [one.get("kind") for one in owners if isinstance(one, Mapping)]
    return MIRROR in (metadata.get("annotations") or ()) or any(kind in OF_SERVERS for kind in kinds)
