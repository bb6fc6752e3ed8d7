"""What of an input quotas must have room for: jobs that start whole or not at all, and what is in namespaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairopt.io.documents import documents_of, objects_of
from fairopt.io.kubernetes.kueue import COMMAND, LOCAL_QUEUE, KueueObjects, read_kueue
from fairopt.io.kubernetes.manifests import expanded, with_manifests
from fairopt.io.kubernetes.objects import MIRROR, OF_SERVERS, Pod, PodSpec, as_mapping, part, read_pods
from fairopt.io.kubernetes.unread import queue_named
from fairopt.io.notes import Notes
from fairopt.io.quotas.objects import quota_of
from fairopt.io.slurm.objects import read_jobs

_FILES = (
    *("workloads.json", "clusterqueues.json", "localqueues.json", "resourceflavors.json", "namespaces.json"),
    "jobs.json",
)
_SEVERAL = re.compile(r"\bnode=(?!1\b)")  # of a request of Slurm


@dataclass(frozen=True)
class Gang:
    """What starts whole: its team, its name, and units by resource of each part, which has one flavor.

    ``barred`` are the flavors of each part where its pods may not run.
    """

    team: str
    name: str
    parts: tuple[Mapping[str, float], ...]
    barred: tuple[frozenset[str], ...] = field(default=())

    @property
    def units(self) -> dict[str, float]:
        """Units of all parts together."""
        return {name: sum(part.get(name, 0.0) for part in self.parts) for part in self.parts for name in part}


def read_gangs(source: Any, users: str | None = None) -> list[Gang]:
    """The gangs that wait in an input of `fairopt.read`, with the teams that ``users`` makes; empty if it has none."""
    documents = documents_of(source, _FILES, f"expected the output of {COMMAND}, or of squeue --json")
    jobs = [(document, name) for document, name in documents if isinstance(document.get("jobs"), list)]
    lists = [(document, name) for document, name in documents if isinstance(document.get("items"), list)]
    out = list[Gang]()
    if lists and users in (None, "queue", "namespace"):
        found = read_kueue(lists, mixed=True)
        for document, name in lists:
            found = with_manifests(found, expanded(objects_of([(document, "")], name), name), name, Notes())
        out += _of_kueue(found, users)
    for document, name in jobs:
        out += _of_slurm(document["jobs"], name, users or "account")
    return out


def _of_kueue(found: KueueObjects, users: str | None) -> Iterator[Gang]:
    """The Workloads of several pods that Kueue has not admitted."""
    labels = {name: flavor.node_labels for name, flavor in found.flavors.items()}
    for one in found.workloads.values():
        local = found.local_queues.get(f"{one.namespace}/{one.queue}")
        queue = local.cluster_queue if local is not None else ""
        waits = one.active and not one.finished and not one.other_cluster and not one.admitted
        if not waits or queue not in found.cluster_queues or found.stop(queue, local) or not one.together:
            continue
        if found.excludes(queue, one.namespace):
            continue
        parts, barred = list[dict[str, float]](), list[frozenset[str]]()
        for of in one.pod_sets:
            spec = of.template.spec
            needs = {name: amount * of.count for name, amount in spec.request.items()}
            parts.append({name: quota_of("", name, "", amount).amount for name, amount in needs.items()})
            selected = spec.nodeSelector
            barred.append(
                frozenset(
                    flavor
                    for flavor, of in labels.items()
                    if any(of.get(key, value) != value for key, value in selected.items())
                )
            )
        yield Gang(one.namespace if users == "namespace" else queue, one.name, tuple(parts), tuple(barred))


def _of_slurm(entries: Iterable[Any], document: str, users: str) -> Iterator[Gang]:
    """The jobs on several servers that wait."""
    several = [entry for entry in entries if isinstance(entry, Mapping) and _on_several(entry)]
    for name, job, _ in read_jobs(several, document, Notes()):
        if not job.runs and job.servers > 1:
            units = {**job.plain, **job.generic.total}
            yield Gang(job.owner(users), name, ({key: float(one * job.servers) for key, one in units.items()},))


def _on_several(entry: Mapping[str, Any]) -> bool:
    """Whether a job may be on several servers, before it is read."""
    number = entry.get("node_count")
    number = number.get("number") if isinstance(number, Mapping) else number
    texts = (entry.get("tres_req_str"), entry.get("tres_alloc_str"))
    return number not in (None, 0, 1) or any(isinstance(text, str) and _SEVERAL.search(text) for text in texts)


# -- namespaces -----------------------------------------------------------------------------------------------


_EXPECTED = "expected the output of kubectl get pods -A -o json"


def pods_where(source: Any, wanted: Callable[[Mapping[str, Any]], bool]) -> Iterator[Pod]:
    """The pods of an input of `fairopt.read` that are ``wanted`` as given, before they are read."""
    for document, name in documents_of(source, ["pods.json"], _EXPECTED):
        items = document.get("items")
        mine = [one for one in items if isinstance(one, Mapping) and wanted(one)] if isinstance(items, list) else []
        yield from read_pods({"kind": document.get("kind"), "items": mine}, name, mixed=True)


def read_fixed(source: Any) -> dict[str, list[PodSpec]]:
    """The pods of an input of `fairopt.read` that belong to servers, by namespace; none of other inputs."""
    out: dict[str, list[PodSpec]] = {}
    for pod in pods_where(source, _may_be_fixed):
        if pod.belongs_to_server and not pod.finished:
            out.setdefault(pod.namespace, []).append(pod.spec)
    return out


def _may_be_fixed(item: Mapping[str, Any]) -> bool:
    """Whether an object has an owner or an annotation by which a pod may belong to a server."""
    metadata = part(item, "metadata")
    kinds = [as_mapping(one).get("kind") for one in metadata.get("ownerReferences") or ()]
    return MIRROR in (metadata.get("annotations") or ()) or any(kind in OF_SERVERS for kind in kinds)


def local_queues_of(source: Any, users: str | None, teams: Collection[str]) -> dict[str, dict[tuple[str, str], str]]:
    """The LocalQueues of teams that ``users`` makes of an input, by namespace and name, with their ClusterQueues.

    They are those that tasks of the team name, else one called as the team. A LocalQueue that is not in the input has
    no ClusterQueue, an empty text.
    """
    found: dict[str, dict[str, set[str]]] = {}  # names by team and namespace
    there, label = dict[tuple[str, str], str](), (users or "").partition("label:")[2]
    files = ["pods.json", "workloads.json", "localqueues.json"]
    for document, _ in documents_of(source, files, _EXPECTED):
        for item in document["items"] if isinstance(document.get("items"), list) else ():
            metadata, given = (part(item, "metadata"), part(item, "spec")) if isinstance(item, Mapping) else ({}, {})
            space, labels = metadata.get("namespace"), part(metadata, "labels")
            if "clusterQueue" in given:
                there[str(space), str(metadata.get("name"))] = str(given["clusterQueue"])
            if not isinstance(space, str) or "clusterQueue" in given:
                continue
            named = {LOCAL_QUEUE: str(given["queueName"])} if given.get("queueName") else {}
            named |= queue_named({**part(metadata, "annotations"), **labels})
            queue = next(iter(named.values()), space)
            names = [str(labels.get(label, ""))] if label else [space] if users == "namespace" else [queue]
            names += [f"{space}/{queue}", space] if users in (None, "queue") else []
            if team := next((name for name in names if name in teams), None):
                found.setdefault(team, {}).setdefault(space, set()).update({named.get(LOCAL_QUEUE, "")} - {""})
    return {
        team: {
            (space, name): there.get((space, name), "")
            for space, names in of.items()
            for name in sorted(names or {team})
        }
        for team, of in found.items()
    }
