"""What queues have, ask for and use, from the nodes and pods in the same list as their objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairopt.io import Notes, in_units
from fairopt_clusters.read.amounts import matching
from fairopt_clusters.read.kubernetes.additions import Additions
from fairopt_clusters.read.kubernetes.gpus import with_parts_of_gpus
from fairopt_clusters.read.kubernetes.kueue import read_kueue
from fairopt_clusters.read.kubernetes.manifests import expanded, with_manifests
from fairopt_clusters.read.kubernetes.objects import Node, read_nodes, read_pods
from fairopt_clusters.read.kubernetes.queues import Queues, Tasks
from fairopt_clusters.read.queues import kai
from fairopt_clusters.read.queues.kubernetes_objects import owners_of
from fairopt_clusters.read.queues.tree import QueueTree

_OTHER = "default-scheduler"  # that of Kubernetes
Amounts = dict[str, float]


def with_work(tree: QueueTree, document: Mapping[str, Any], name: str) -> QueueTree:
    """The tree with what the nodes of a list have, less pods in no queue; and what tasks in its queues need and use.

    As KAI counts: servers that are not ready have nothing, cordoned ones all that they have, and pods of Kubernetes'
    own scheduler are in no queue. Without nodes the tree has the capacity that it states, and without tasks its queues
    have no requests.
    """
    document, notes = expanded(document, name), Notes()
    added = Additions(document, name)
    document = added.all()
    servers = [server for server in read_nodes(document, name, mixed=True) if server.ready]
    kueue = with_manifests(read_kueue([(document, name)], mixed=True), document, name, notes, added)
    pods, workloads = with_parts_of_gpus(read_pods(document, name, mixed=True), kueue.workloads, servers, notes)
    pods = [pod for pod in pods if not pod.finished]
    fixed = {pod.name for pod in pods if pod.belongs_to_server or pod.spec.schedulerName == _OTHER}
    tasks = [*Queues(replace(kueue, workloads=workloads), {}, notes, in_units).tasks(pods)]
    able = [one for one in tasks if one.name not in fixed]
    owners = owners_of(tree, able, {pod.name: pod.annotations for pod in pods}, notes)
    mine = [(one, owner) for one, owner in zip(able, owners, strict=True) if owner in tree.by_name]
    meant = _resources(tree, servers, [one for one, _ in mine])
    if servers:
        inside, there = {one.name for one, _ in mine}, {server.name for server in servers}
        others = [one for one in tasks if one.name not in inside and one.runs_on in there]
        taken, capacity = _needed(others, meant), dict[str, float]()
        for one, known in meant.items():
            has = sum((in_units(server.has[one], one) for server in servers if one in server.has), 0.0)
            capacity[known] = max(0.0, has - taken[known])
        tree = replace(tree, capacity={**capacity, **tree.capacity})
    tree = replace(tree, notes=(*tree.notes, *notes.sentences()))
    return _with_tasks(tree, mine, meant) if mine else tree


def _resources(tree: QueueTree, servers: Sequence[Node], tasks: Sequence[Tasks]) -> dict[str, str]:
    """The resources to count, with their names in the tree: of KAI those that it divides, else what tasks request."""
    requested = dict.fromkeys(name for one in tasks for name in one.spec.request)
    there = dict.fromkeys([name for server in servers for name in server.has] + [*requested])
    named = (*kai.UNITS, *(name for one in tree.queues for name in (*one.guarantee, *one.limit)))
    meant = {resource: name for name in named if (resource := matching(name, there)) is not None}
    return meant if tree.scheduler == "KAI" else {name: meant.get(name, name) for name in requested}


def _needed(tasks: Sequence[Tasks], meant: Mapping[str, str]) -> Amounts:
    """What tasks request in all."""
    return {
        name: sum(one.count * in_units(one.spec.requests(key), key) for one in tasks) for key, name in meant.items()
    }


def _with_tasks(tree: QueueTree, tasks: Collection[tuple[Tasks, str]], meant: Mapping[str, str]) -> QueueTree:
    """The tree whose queues ask for and use what tasks of them, and of the queues below, do."""
    of_queue: dict[str, list[Tasks]] = {queue.name: [] for queue in tree.queues}
    for one, owner in tasks:
        for name in (owner, *tree.above(owner)):
            of_queue[name].append(one)
    queues = [
        replace(
            queue,
            request=_needed(of_queue[queue.name], meant),
            used=_needed([one for one in of_queue[queue.name] if one.runs_on is not None], meant),
        )
        for queue in tree.queues
    ]
    return replace(tree, queues=tuple(queues))
