"""What ResourceQuotas of Kubernetes count beside the tasks of teams: pods of DaemonSets, and static pods."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fairopt.io.json_text import json_of_text, read_json_text
from fairopt.io.kubernetes.objects import MIRROR, OF_SERVERS, PodSpec, read_pods
from fairopt.io.standard_input import DASH, standard_input

__all__ = ["read_fixed"]

_EXPECTED = "expected the output of kubectl get pods -A -o json"


def read_fixed(source: Any) -> dict[str, list[PodSpec]]:
    """The pods of an input of `fairopt.read` that belong to servers, by namespace; none of other inputs."""
    out: dict[str, list[PodSpec]] = {}
    for document, name in _documents(source):
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


def _documents(source: Any) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The documents of an input that may have pods, with their names."""
    if isinstance(source, Mapping):
        yield source, "the document"
    elif source is None:
        return
    elif os.fspath(source) == DASH:
        text = standard_input()
        if text.lstrip().startswith("{"):
            yield json_of_text(text, "standard input", _EXPECTED), "standard input"
    else:
        path = Path(source)
        file = path / "pods.json" if path.is_dir() else path
        if file.suffix.lower() == ".json" and file.exists():
            yield read_json_text(file, _EXPECTED), os.fspath(file)
