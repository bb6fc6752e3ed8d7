"""Reads present quotas from any file that holds some, what a writer of quotas wrote, and what an input has."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import json_of_text, read_text, shown
from fairopt_clusters.quotas.accounts import FAIRSHARE, AccountsNow, read_associations, read_sacctmgr
from fairopt_clusters.quotas.cluster_queues import read_cluster_queue_quotas
from fairopt_clusters.quotas.quota import Quota, read_csv
from fairopt_clusters.quotas.resource_quotas import read_resource_quotas
from fairopt_clusters.read.documents import DASH, data_of_text, documents_of, objects_of
from fairopt_clusters.read.kinds import ACCOUNTS, CONTRACTS, NODES_OF_SLURM
from fairopt_clusters.read.kubernetes.objects import at_places

EXPECTED = (
    "expected quotas that fairopt wrote, or the output of kubectl get resourcequotas -A -o json, kubectl get "
    "clusterqueues -o json, or sacctmgr show associations --json"
)
_READERS = {
    "ResourceQuota": (read_resource_quotas, "kubernetes"),
    "ClusterQueue": (read_cluster_queue_quotas, "kueue"),
}
# kinds beside ClusterQueues, and with which they are read
_BESIDE = {"Cohort": "ClusterQueue", "ResourceFlavor": None, "LocalQueue": None}
_OF_INPUT = {"kubernetes": "resourcequotas.json", "kueue": "clusterqueues.json", "slurm": "associations.json"}
_TEXTS = (".txt", ".cfg")  # of sacctmgr and sshare


def read_quotas(path: str | os.PathLike[str]) -> tuple[list[Quota], str]:
    """The quotas in a file, and their format: CSV, lines of sacctmgr, or JSON or YAML of Kubernetes, Kueue or Slurm."""
    name = os.fspath(path)
    if name.lower().endswith(".csv"):
        return read_csv(path), "csv"
    text = read_text(path, EXPECTED)
    if text.lstrip().startswith("{"):
        return _quotas_of(json_of_text(text, name, EXPECTED), name)
    words = {line.split(maxsplit=1)[0] for line in text.splitlines() if line.strip() and not line.startswith("#")}
    if words <= {"sacctmgr"}:
        return read_sacctmgr(text, name), "slurm"
    if name.lower().endswith(_TEXTS):
        return accounts_of(path).quotas, "slurm"
    return _quotas_of(data_of_text(text, name, EXPECTED, as_yaml=True), name)


def quotas_of_input(source: str | os.PathLike[str], format: str | None = None) -> tuple[list[Quota], str] | None:
    """The present quotas that an input of `fairopt.read` has, of a format or of any; None if it has none.

    They are in a file of a folder, such as ``resourcequotas.json``, or in the one document of the input.
    """
    formats = [format] if format in _OF_INPUT else [*_OF_INPUT] if format is None else []
    for document, name in documents_of(source, [_OF_INPUT[one] for one in formats], EXPECTED):
        if {"associations", "shares"} & {*document} or isinstance(document.get("items"), list):
            found, of = _quotas_of(document, name, formats)
            if found:
                return found, of
    found = accounts_of(source).quotas if format in (None, "slurm") and _folder(source) else []
    return (found, "slurm") if found else None


def _folder(source: Any) -> Path | None:
    """The folder that an input is, if it is one."""
    path = None if source is None or isinstance(source, Mapping) or os.fspath(source) == DASH else Path(source)
    return path if path is not None and path.is_dir() else None


def file_in(source: Any, names: Iterable[str]) -> Path | None:
    """The first of some files that the folder of an input has; None without one, and for other inputs."""
    folder = _folder(source)
    return None if folder is None else next((folder / one for one in names if (folder / one).exists()), None)


def resource_quotas_of(source: str | os.PathLike[str] | Mapping[str, Any] | None) -> list[Mapping[str, Any]] | None:
    """The ResourceQuotas as given in an input of `fairopt.read`, or in a file of them; None if it has none."""
    if source is None:
        return None
    documents = documents_of(source, [_OF_INPUT["kubernetes"]], EXPECTED)
    items = [
        item
        for document, name in documents
        if isinstance(document.get("items"), list) or document.get("kind") == "ResourceQuota"
        for kind, item, _ in _items(document, name)
        if kind == "ResourceQuota"
    ]
    known = bool(documents) and not isinstance(source, Mapping) and os.fspath(source) != DASH and Path(source).is_dir()
    return items if items or known else None


def accounts_of(source: Any, present: Any = None) -> AccountsNow:
    """What an input of `fairopt.read` says of accounts of Slurm, and a file of ``present`` quotas in its place."""
    folder, now = _folder(source), _accounts_in(source)
    if present is not None:
        other = _accounts_in(present)
        limits = now.limits if other.limits is None else other.limits
        now = replace(now, shares={**now.shares, **other.shares}, limits=limits, cluster=now.cluster or other.cluster)
    if folder is None or not (folder / CONTRACTS).exists():
        return now
    from fairopt_clusters.read.slurm.contracts import read_contracts  # as the models of pydantic in `accounts`

    return replace(now, contracts=read_contracts(folder / CONTRACTS), there=_there(folder))


def _accounts_in(source: Any) -> AccountsNow:
    """What a folder, a file or a document says of accounts."""
    source, now = file_in(source, ACCOUNTS) or source, AccountsNow()
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix.lower() in (".sh", *_TEXTS):
        return _of_text(os.fspath(source))
    for document, name in documents_of(source, [], EXPECTED):
        now = read_associations(document, name) if {"associations", "shares"} & {*document} else now
    return now


def _there(folder: Path) -> dict[str, float]:
    """What all nodes of a folder of Slurm have."""
    from fairopt_clusters.read.slurm.accounts import amounts_of
    from fairopt_clusters.read.slurm.objects import SlurmServer
    from fairopt_clusters.read.slurm.texts import slurm_document

    total = Counter[str]()
    file = file_in(folder, NODES_OF_SLURM)
    for entry in slurm_document(file, "nodes", EXPECTED)[0]["nodes"] if file is not None else ():
        server = SlurmServer.model_validate(entry)
        total.update({name: float(amount) for name, amount in server.plain.items()} | amounts_of(server.gres))
    return dict(total)


def _of_text(name: str) -> AccountsNow:
    """What lines of sacctmgr say, a dump or another output of sacctmgr or sshare."""
    from fairopt_clusters.read.slurm.texts import document_of_text

    text = read_text(name, EXPECTED)
    if text.startswith(("sacctmgr", "#!", "# Quotas")) or (document := document_of_text(text, name)) is None:
        rows = read_sacctmgr(text, name)
        shares = {row.team: row.amount for row in rows if row.resource == FAIRSHARE}
        limits = [row for row in rows if row.resource != FAIRSHARE]
        return AccountsNow(shares, limits=limits or (None if shares else []))
    return read_associations(document, name) if {"associations", "shares"} & {*document} else AccountsNow()


def _quotas_of(document: Mapping[str, Any], name: str, formats: list[str] | None = None) -> tuple[list[Quota], str]:
    """The quotas in an object or a list of objects of Kubernetes, or in associations of Slurm, and their format.

    With ``formats`` only these are read, and other objects are left out.
    """
    if {"associations", "shares"} & {*document}:
        return (read_associations(document, name).quotas if formats is None or "slurm" in formats else []), "slurm"
    kinds = dict.fromkeys(kind for kind, _, _ in _items(document, name))
    for kind in kinds:
        if formats is None and kind not in _READERS and kind not in _BESIDE:
            raise InvalidInstance(f"{name} holds objects of kind {shown(kind)}; {EXPECTED}")
    for kind, (read, format) in _READERS.items():
        if kind in kinds and (formats is None or format in formats):
            items = _items(document, name)
            return read([(item, place) for one, item, place in items if kind in (one, _BESIDE.get(one))], name), format
    return [], "kubernetes"


def _items(document: Mapping[str, Any], name: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """The objects with their kinds and places."""
    items = document.get("items")
    if not isinstance(items, list) and document.get("kind") not in _READERS:
        raise InvalidInstance(f"{name}: items {'is missing' if items is None else f'is {shown(items)}'}; {EXPECTED}")
    for item, place in at_places(objects_of([(document, "")], name)):
        yield str(item.get("kind") or ""), item, place or "the object"
