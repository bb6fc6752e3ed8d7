"""Snapshots of the KAI scheduler: one JSON document in a zip file, with the objects of a cluster in lists by kind."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import check_file, check_memory, decoded, shown
from fairopt_clusters.read.amounts import part_of

OBJECTS = "rawObjects"
_FILE = "snapshot.json"
_KINDS = {  # of the lists that bear on what queues get; the objects in them have no kind
    "nodes": ("v1", "Node"),
    "queues": ("scheduling.run.ai/v2", "Queue"),
    "podGroups": ("scheduling.run.ai/v2alpha2", "PodGroup"),
    "pods": ("v1", "Pod"),
    "deviceClasses": ("resource.k8s.io/v1", "DeviceClass"),
    "resourceClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "resourceSlices": ("resource.k8s.io/v1", "ResourceSlice"),
}
_BINDING = "bindRequests"
_EXPECTED = "give a snapshot of the KAI scheduler, as curl -o snapshot.zip localhost:8081/get-snapshot writes it"


def text_of_zip(path: str | os.PathLike[str]) -> str:
    """The document in the zip file of a snapshot."""
    name = os.fspath(path)
    check_file(path, _EXPECTED)
    try:
        with zipfile.ZipFile(path) as opened:
            names = opened.namelist()
            if _FILE not in names:
                inside = shown(", ".join(names[:5]))[1:-1] or "nothing"
                raise InvalidInstance(f"{name} holds {inside}, and no {_FILE}; {_EXPECTED}")
            check_memory(name, 2 * opened.getinfo(_FILE).file_size)  # its bytes and its text
            raw = opened.read(_FILE)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise InvalidInstance(f"{name} cannot be unpacked ({error}); it may be cut off; {_EXPECTED}") from error
    return decoded(raw, f"{name}/{_FILE}", _EXPECTED)


def objects_in(data: Mapping[str, Any], name: str) -> list[tuple[Any, str]]:
    """The objects in the document of a snapshot, with their kinds and places.

    A pod that KAI is binding to a server runs there.
    """
    lists = data[OBJECTS]
    if not isinstance(lists, Mapping):
        raise InvalidInstance(f"{name}: {OBJECTS} is {shown(lists)}; {_EXPECTED}")
    bound = {
        _named(one, "spec", "podName"): part_of(one, "spec", "selectedNode")
        for one in _list(lists, _BINDING, name)
        if part_of(one, "status", "phase") != "Failed"
    }
    out = list[tuple[Any, str]]()
    for key, (version, kind) in _KINDS.items():
        for k, item in enumerate(_list(lists, key, name)):
            if isinstance(item, Mapping):
                item = {"apiVersion": version, "kind": kind, **item}
            if kind == "Pod":
                server = bound.get(_named(item, "metadata", "name"))
                spec = part_of(item, "spec")
                if server is not None and isinstance(spec, Mapping) and not spec.get("nodeName"):
                    item = {**item, "spec": {**spec, "nodeName": server}}
            out.append((item, f"{key}[{k}]"))
    return out


def _named(item: Any, *name: str) -> str:
    """A pod's namespace and the name at a path, whatever stands there."""
    return f"{part_of(item, 'metadata', 'namespace')}/{part_of(item, *name)}"


def _list(lists: Mapping[str, Any], key: str, name: str) -> list[Any]:
    """A list of objects; null is none."""
    objects = lists.get(key)
    if objects is not None and not isinstance(objects, list):
        raise InvalidInstance(f"{name}: {OBJECTS}.{key} is {shown(objects)}; give a list of objects")
    return objects or []
