"""Jobs of an input that wait and start whole or not at all: Workloads of several pods, jobs on several servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairopt.io import Notes
from fairopt_clusters.quotas.objects import quota_of
from fairopt_clusters.read.documents import documents_of, objects_of
from fairopt_clusters.read.kubernetes.additions import Additions
from fairopt_clusters.read.kubernetes.kueue import COMMAND, KueueObjects, read_kueue
from fairopt_clusters.read.kubernetes.manifests import expanded, with_manifests

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
        objects_read = read_kueue(lists, mixed=True)
        for document, name in lists:
            objects = expanded(objects_of([(document, "")], name), name)
            objects_read = with_manifests(objects_read, objects, name, Notes(), Additions(objects, name))
        out += _of_kueue(objects_read, users)
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
            needs = {name: amount * of.least for name, amount in spec.request.items()}
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
    from fairopt_clusters.read.slurm.objects import read_jobs  # models of pydantic, which other inputs do not need

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
