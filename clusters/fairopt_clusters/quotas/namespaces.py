"""What of an input is in namespaces: pods that belong to servers, which ResourceQuotas count, and LocalQueues."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fairopt_clusters.quotas.work import Work
from fairopt_clusters.read.kubernetes.kueue import LOCAL_QUEUE
from fairopt_clusters.read.kubernetes.objects import MIRROR, OF_SERVERS, PodSpec, as_mapping, part
from fairopt_clusters.read.kubernetes.unread import queue_named


def read_fixed(work: Work) -> dict[str, list[PodSpec]]:
    """The pods of an input that belong to servers, by namespace."""
    out: dict[str, list[PodSpec]] = {}
    for pod in work.pods_where(_may_be_fixed):
        if pod.belongs_to_server and not pod.finished:
            out.setdefault(pod.namespace, []).append(pod.spec)
    return out


def _may_be_fixed(item: Mapping[str, Any]) -> bool:
    """Whether an object has an owner or an annotation by which a pod may belong to a server."""
    metadata = part(item, "metadata")
    kinds = [as_mapping(one).get("kind") for one in metadata.get("ownerReferences") or ()]
    return MIRROR in (metadata.get("annotations") or ()) or any(kind in OF_SERVERS for kind in kinds)


def local_queues_of(work: Work, users: str | None, teams: Collection[str]) -> dict[str, dict[tuple[str, str], str]]:
    """The LocalQueues of teams that ``users`` makes of an input, by namespace and name, with their ClusterQueues.

    They are those that tasks of the team name, else one called as the team. A LocalQueue that is not in the input has
    no ClusterQueue, an empty text.
    """
    by_team: dict[str, dict[str, set[str]]] = {}  # names by team and namespace
    there, label = dict[tuple[str, str], str](), (users or "").partition("label:")[2]
    for item, _ in work.objects:
        metadata, given = part(item, "metadata"), part(item, "spec")
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
            by_team.setdefault(team, {}).setdefault(space, set()).update({named.get(LOCAL_QUEUE, "")} - {""})
    return {
        team: {
            (space, name): there.get((space, name), "")
            for space, names in of.items()
            for name in sorted(names or {team})
        }
        for team, of in by_team.items()
    }
