"""Reads present quotas from any file that holds some, and what a writer of quotas wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from fairopt.errors import InvalidInstance, optional
from fairopt.io.json_text import read_json_text, shown
from fairopt.io.quotas.accounts import read_associations, read_sacctmgr
from fairopt.io.quotas.cluster_queues import read_cluster_queue_quotas
from fairopt.io.quotas.csv_table import read_csv
from fairopt.io.quotas.quota import Quota
from fairopt.io.quotas.resource_quotas import read_resource_quotas
from fairopt.io.text_files import read_text

EXPECTED = (
    "expected quotas that fairopt wrote, or the output of kubectl get resourcequotas -A -o json, kubectl get "
    "clusterqueues -o json, or sacctmgr show associations --json"
)
_READERS = {"ResourceQuota": read_resource_quotas, "ClusterQueue": read_cluster_queue_quotas}
_BESIDE = ("ResourceFlavor",)  # written beside ClusterQueues


def read_quotas(path: str | os.PathLike[str]) -> list[Quota]:
    """The quotas in a file: CSV, lines of sacctmgr, or JSON or YAML of Kubernetes, Kueue or Slurm."""
    name = os.fspath(path)
    if name.lower().endswith(".csv"):
        return read_csv(path)
    text = read_text(path, EXPECTED)
    if text.lstrip().startswith("{"):
        return quotas_of(read_json_text(path, EXPECTED), name)
    words = {line.split(maxsplit=1)[0] for line in text.splitlines() if line.strip()} - {"#"}
    if words <= {"sacctmgr"}:
        return read_sacctmgr(text, name)
    yaml = optional("yaml", "yaml", "reading YAML files", package="PyYAML")
    try:
        data = yaml.safe_load(text)
        json.dumps(data)  # refuses what JSON cannot hold, as dates
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInstance(f"{name} is not YAML of such quotas ({' '.join(str(error).split())[:200]}); {EXPECTED}") from None
    if not isinstance(data, Mapping):
        raise InvalidInstance(f"{name} holds neither an object nor a list of them; {EXPECTED}")
    return quotas_of(data, name)


def quotas_of(document: Mapping[str, Any], name: str) -> list[Quota]:
    """The quotas in an object or a list of objects of Kubernetes, or in associations of Slurm."""
    if "associations" in document:
        return read_associations(document, name)
    out: list[Quota] = []
    for kind in dict.fromkeys(kind for kind, _, _ in _items(document, name)):
        if kind in _READERS:
            out += _READERS[kind](((item, place) for one, item, place in _items(document, name) if one == kind), name)
        elif kind not in _BESIDE:
            raise InvalidInstance(f"{name} holds objects of kind {shown(kind)}; {EXPECTED}")
    return out


def _items(document: Mapping[str, Any], name: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """The objects with their kinds and places."""
    given, items = document.get("kind"), document.get("items")
    if items is None and given in _READERS:
        yield str(given), document, "the object"
        return
    if not isinstance(items, list):
        raise InvalidInstance(f"{name}: items {'is missing' if items is None else f'is {shown(items)}'}; {EXPECTED}")
    of_list = str(given or "").removesuffix("List")
    for k, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise InvalidInstance(f"{name}: items[{k}] is {shown(item)}; {EXPECTED}")
        yield str(item.get("kind") or of_list), item, f"items[{k}]"
