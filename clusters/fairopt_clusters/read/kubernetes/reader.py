"""The arguments of an instance from the nodes, the pods and the queues of a Kubernetes cluster."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.io import About, Arguments, Notes, about, capacity_of, check_choice, counted, in_units, shown, unit_of
from fairopt.runtime import Bool, Float
from fairopt_clusters.read.documents import (
    Document,
    Objects,
    data_in,
    data_of_file,
    document_of,
    documents_in_folder,
    objects_of,
)
from fairopt_clusters.read.kubernetes.additions import (
    Additions,
    FullQuotas,
    ResourceQuota,
    of_resource_quotas,
    read_resource_quotas,
)
from fairopt_clusters.read.kubernetes.capacity import (
    given_server,
    note_missing,
    requested_by,
    servers_of_quotas,
    without_rules,
)
from fairopt_clusters.read.kubernetes.gpus import GPU, note_models, slice_of, with_parts_of_gpus, with_slices
from fairopt_clusters.read.kubernetes.kueue import COMMAND, LOCAL_QUEUE, KueueObjects, read_kueue
from fairopt_clusters.read.kubernetes.manifests import READ, expanded, with_manifests
from fairopt_clusters.read.kubernetes.objects import PODS, Node, Pod, read_nodes, read_pods
from fairopt_clusters.read.kubernetes.queues import Queues, Servers, Tasks
from fairopt_clusters.read.kubernetes.topology import fits_nowhere
from fairopt_clusters.read.kubernetes.transformations import transformations_in, with_outputs
from fairopt_clusters.read.kubernetes.unread import Other, kinds_read, note_unread, others_in, queue_named, unread_kinds
from fairopt_clusters.read.queues.kubernetes_objects import most_used, owners_of, trees_of_objects
from fairopt_clusters.read.queues.reader import without_jobs
from fairopt_clusters.read.queues.teams import arguments_of_tree, barred
from fairopt_clusters.read.queues.tree import QueueTree
from fairopt_clusters.read.secured import ROUNDING_FACTOR
from fairopt_clusters.read.slurm.devices import ANY
from fairopt_clusters.read.work import TASKS, NothingAsked, Work, arguments_of_work

_FIRST = ("cpu", "memory", "ephemeral-storage")  # others follow alphabetically
_TYPE = "node.kubernetes.io/instance-type"
_EXPECTED = "expected the output of kubectl {} -o json"
_HELD = "{pod} without a server {counts} as held, since Kueue has admitted them"
_QUEUE, _NAMED, _OTHERS = "queue", "the queues that labels name", "queues of another scheduler"
_READ = {
    *("Node", "Pod", "Workload", "ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "ResourceQuota", "PodGroup"),
    "Namespace",
    *("LimitRange", "RuntimeClass", "AppWrapper", *READ),
    *("DeviceClass", "ResourceClaimTemplate", "ResourceClaim", "ResourceSlice"),
    "Configuration",
}
_Objects = list[tuple[Mapping[str, Any], str]]


@dataclass(frozen=True)
class _Options:
    """The options of `fairopt_clusters.read_kubernetes`.

    With ``full_demand`` all have unlimited work; ClusterQueues without pods have that of all others.
    """

    users: str | None = None
    tasks: str = "auto"
    merge: bool = True
    resources: Sequence[str] | None = None
    full_demand: bool = False
    scale_quotas: bool = True
    capacity: Any = None

    def __post_init__(self) -> None:
        check_choice("tasks", self.tasks, TASKS)
        if self.resources is not None:
            names = self.resources if isinstance(self.resources, (list, tuple)) else ()
            texts = [name for name in names if isinstance(name, str)]
            if not texts or len(texts) < len(names) or len(set(texts)) < len(texts):
                fix = "give a list of different names, as ['cpu', 'memory']"
                raise InvalidInstance(f"resources is {self.resources!r}; {fix}")
        of_label = isinstance(self.users, str) and self.users.startswith("label:") and self.users != "label:"
        if not of_label and self.users not in (None, "namespace", _QUEUE):
            raise InvalidInstance(
                f"users is {shown(self.users)}; give 'namespace', 'queue' for the ClusterQueues of Kueue, or 'label:' "
                "and the key of a label of the pods"
            )


def arguments_of_kubernetes(nodes: Document | None, pods: Document, *kueue: Document | None, **given: Any) -> Arguments:
    """Read the output of kubectl; see `fairopt_clusters.read_kubernetes`. ``kueue`` are further outputs, or None."""
    options = _Options(**given)
    found_nodes = None if nodes is None else document_of(nodes, "nodes", _EXPECTED.format("get nodes"))
    pods_data, pods_name = document_of(pods, "pods", _EXPECTED.format("get pods -A"))
    further = [document_of(one, "kueue", f"expected the output of {COMMAND}") for one in kueue if one is not None]
    places = (*([] if found_nodes is None else [found_nodes[1]]), pods_name, *(name for _, name in further))
    quotas = read_resource_quotas(further)
    of_others = [(document, name) for document, name in further if _of_other_queues(document)]
    of_kueue = [one for one in further if not of_resource_quotas(one[0]) and one not in of_others]
    servers = [] if found_nodes is None else read_nodes(*found_nodes)
    with about(*places):
        listed = objects_of(of_others, "")
        if of_others and isinstance(pods_data.get("items"), list):
            added = Additions(listed, "")
            pods_data = {**pods_data, "items": [added.to_pod(item) for item in pods_data["items"]]}
        objects, found = [*zip(listed["items"], listed["items"].places, strict=True)], read_pods(pods_data, pods_name)
        values = _arguments(
            servers,
            found,
            read_kueue(of_kueue),
            quotas,
            {},
            options,
            Notes(),
            most_used(trees_of_objects(objects), found),
            objects,
        )
    return Arguments(values, places, options.merge, same_at_full_demand="guarantees" not in values)


def read_list(document: Mapping[str, Any], name: str, **given: Any) -> Arguments:
    """Read objects of any kinds, in one list or one alone, as `arguments_of_kubernetes` reads lists of one kind."""
    options = _Options(**given)
    capacity = options.capacity
    fix = "give one list with all, as kubectl get nodes,pods -A -o json prints it"
    if not isinstance(document.get("items"), Objects):
        document = objects_of([(document, "")], name)
    document = expanded(document, name)
    added = Additions(document, name, capacity or ())
    document = added.all()
    servers = read_nodes(document, name, mixed=True)
    notes = Notes()
    pods, kueue = read_pods(document, name, mixed=True), read_kueue([(document, name)], mixed=True)
    kueue = with_manifests(kueue, document, name, notes, added)
    objects = [
        (item, f"{name}: {at}" if at else name)
        for item, at in zip(document["items"], document["items"].places, strict=True)
    ]
    tree = most_used(trees_of_objects(objects), [*pods, *kueue.workloads.values()])
    others = others_in(document, _READ)
    fix += unread_kinds(others[0], "" if tree is None else tree.scheduler)
    if not pods and not kueue.workloads:
        if tree is not None:
            raise without_jobs(tree, name, bool(servers or capacity))
        if kueue.cluster_queues:
            queues = f"{counted(len(kueue.cluster_queues), 'cluster queue')} of Kueue"
            raise NothingAsked(f"{name} holds {queues} and no jobs; add the pods or the workloads of the queues")
        kind = "Pod" if servers or capacity is not None else "Node"
        fix += f"; {kinds_read(_READ)}" * bool(others[0])
        error = NothingAsked if kind == "Pod" else InvalidInstance
        raise error("; ".join([f"{name}: there is no object of kind {kind}; {fix}", *notes.sentences()]))
    if not servers and capacity is None and not kueue.cluster_queues and (tree is None or not tree.total()):
        asked = ", ".join(sorted(requested_by(pods, kueue) | added.unknown))
        fix += ", or give --capacity cpu=64" + f" and so on, of what pods request: {asked}" * bool(asked)
        raise InvalidInstance(f"{name}: there is no object of kind Node; {fix}")
    with about(name):
        values = _arguments(
            servers,
            pods,
            kueue,
            read_resource_quotas([(document, name)]),
            _parents(document),
            options,
            notes,
            tree,
            objects,
            others,
        )
    return Arguments(values, (name,), options.merge, same_at_full_demand="guarantees" not in values)


def read_documents(found: Sequence[tuple[Any, str]], name: str, **given: Any) -> Arguments:
    """Read documents of objects, as `read_list` with its options."""
    return read_list(data_in(found, name, "expected objects of Kubernetes"), name, **given)


def read_snapshot(path: Path, **given: Any) -> Arguments:
    """Read a snapshot of KAI, as `read_list` with its options."""
    name = os.fspath(path)
    with about(name):
        return read_list(data_of_file(path, "expected a snapshot of the KAI scheduler"), name, **given)


def _of_other_queues(document: Mapping[str, Any]) -> bool:
    """Whether a document holds queues of other schedulers than Kueue, or nothing but ConfigMaps."""
    items = document["items"] if isinstance(document.get("items"), list) else [document]
    kinds = {item.get("kind") for item in items if isinstance(item, Mapping)}
    return not kinds.isdisjoint(("Queue", "PodGroup", "ConfigMap"))


def read_folder(folder: Path, **given: Any) -> Arguments:
    """Read the objects in the files of a folder, as `read_list` with its options."""
    name = os.fspath(folder)
    documents = documents_in_folder(folder)
    with about(name):
        return read_list(objects_of(documents, name), name, **given)


def _parents(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """The uids of the owners of each object in a list, by its uid."""
    out = {}
    for item in document["items"]:
        metadata = item.get("metadata")
        if isinstance(metadata, Mapping) and isinstance(metadata.get("ownerReferences"), list):
            owners = [one.get("uid") for one in metadata["ownerReferences"] if isinstance(one, Mapping)]
            out[str(metadata.get("uid"))] = [uid for uid in owners if isinstance(uid, str)]
    return out


def _arguments(
    servers: list[Node],
    pods: list[Pod],
    kueue: KueueObjects,
    quotas: Sequence[ResourceQuota],
    parents: Mapping[str, Collection[str]],
    options: _Options,
    notes: Notes,
    tree: QueueTree | None,
    objects: _Objects,
    others: tuple[Sequence[Other], Sequence[str]] = ((), ()),
) -> dict[str, Any]:
    users, resources, capacity = options.users, options.resources, options.capacity
    transformations = transformations_in(objects, notes)
    pods, transformed, servers = with_outputs(transformations, pods, kueue.workloads, servers, notes)
    kueue = replace(kueue, workloads=transformed)
    if capacity is not None and servers:
        raise InvalidInstance("a capacity is given, and there are nodes, which say it; leave out --capacity")
    pods, workloads = with_parts_of_gpus(pods, kueue.workloads, servers, notes)
    kueue = replace(kueue, workloads=workloads)
    if not servers:
        requested = requested_by(pods, kueue)
        if capacity is not None:
            servers = [given_server(capacity_of(capacity), requested)]
            labelled = [name for name, one in sorted(kueue.flavors.items()) if one.node_labels]
            if labelled and kueue.cluster_queues:
                which = f"a capacity has no labels, by which servers are of the flavor {labelled[0]}"
                raise InvalidInstance(f"{which}; leave it out, so that quotas are servers, or add nodes")
        else:
            servers, kueue = servers_of_quotas(kueue, tree, requested, notes)
        if capacity is not None or not kueue.cluster_queues:
            note_missing(servers, requested if resources is None else requested & {*resources}, notes)
            pods, kueue = without_rules(pods, kueue, notes)
    waits = {name: one for name, one in kueue.workloads.items() if not one.admitted}
    never = {name: fits_nowhere(one, servers, kueue.flavors) for name, one in waits.items()}
    what = "{workload} that can never start {was} left out"
    notes.add(what, *(f"{name}: {why}" for name, why in never.items() if why))
    kept_workloads = {name: one for name, one in kueue.workloads.items() if not never.get(name)}
    kueue = replace(kueue, workloads=kept_workloads)
    queues = Queues(kueue, parents, notes, in_units, [taint for server in servers for taint in server.taints])
    running = [pod for pod in pods if not pod.finished]
    notes.add("{finished pod} {was} left out", *(pod.name for pod in pods if pod.finished))
    of_owners = _with_shared_claims(list(queues.tasks([pod for pod in running if not pod.belongs_to_server])), notes)
    of_tree = users in (None, _QUEUE) and not queues and tree is not None
    if tree is not None and queues and users in (None, _QUEUE):
        notes.say(f"left out, as teams are the cluster queues of Kueue: {tree.described()}")
    named = users in (None, _QUEUE) and not queues and not of_tree and any(queue_named(one.labels) for one in of_owners)
    if users == _QUEUE and not queues and not named and not of_tree:
        raise InvalidInstance(f"users is {_QUEUE!r}, but there are no ClusterQueues; add the output of {COMMAND}")
    users = _OTHERS if of_tree else _NAMED if named else users or (_QUEUE if queues else "namespace")
    note_unread(*others, running, notes, _READ, "" if tree is None else tree.scheduler, teams=named)
    outside = list[Tasks]()
    if users == _QUEUE:
        of_owners, outside = queues.split(of_owners)
        of_owners = _on_closed(queues.admissible(of_owners), servers, queues, notes)
    if of_tree and tree is not None:
        of_tasks = owners_of(tree, of_owners, {pod.name: pod.annotations for pod in running}, notes)
        of_owners = _of_queues(of_owners, of_tasks, tree, notes)
    kept, closed = _kept_servers(servers, {one.runs_on for one in of_owners}, notes)
    if users == _QUEUE and (unpromised := queues.unpromised(Servers(kept))):
        notes.say(About(f"in nobody's quota, so that no queue may use them: {', '.join(unpromised)}"))
    of_owners += queues.of_idle(of_owners) if users == _QUEUE and options.full_demand else []
    names = _resources(kept, of_owners, resources)
    if users == _QUEUE and resources is None and kueue.flavors_with(PODS):
        counted = all(PODS in server.has for server in kept)
        names += [PODS] * counted
        notes.say(
            "the number of pods counts as a resource, of which there are quotas"
            if counted
            else "quotas of pods are left out: servers do not say how many they take"
        )
    requesting = [one for one in of_owners if any(one.spec.requests(name) for name in names)]
    without_request = [one for one in of_owners if not any(one.spec.requests(name) for name in names)]
    claiming = [one for one in without_request if one.spec.resourceClaims]
    what = "{pod} that {requests} devices by claims alone, of no class that a server or the capacity has"
    notes.add(what, *(one.name for one in claiming), number=sum(one.count for one in claiming))
    which = "any request" if resources is None else "a request for " + " or ".join(names)
    number = sum(one.count for one in without_request)
    notes.add(
        "{pod} without {which} {was} left out", *(one.name for one in without_request), number=number, which=which
    )
    if not requesting:
        raise NothingAsked(str(notes.nothing_left("there are no pods to share servers among")))
    allowed = _allowed(requesting, queues, Servers(kept))
    usable = np.any(allowed, axis=0)  # of servers that start pods
    if usable.any() and not usable.all():
        excluded = [server.name for server, use in zip(kept, usable, strict=True) if not use]
        notes.add("{server} where none of these pods may run {was} left out", *excluded)
        kept = [server for server, use in zip(kept, usable, strict=True) if use]
        allowed = [mask[usable] for mask in allowed]
    fixed = [pod for pod in running if pod.belongs_to_server]
    capacities = _capacities(servers, kept, fixed, outside, names, notes)
    if PODS not in names:
        _note_number_of_pods(requesting, servers, running, notes)
    requests = [tuple(in_units(one.spec.requests(name), name) for name in names) for one in requesting]
    note_models(kept, names, kueue.flavors_with(GPU) if users == _QUEUE else (), notes)
    if users != _QUEUE:  # whose quotas are of nvidia.com/gpu
        tasks_with_places = zip((one.name for one in requesting), requests, allowed, strict=True)
        names, capacities, requests = with_slices(kept, names, capacities, list(tasks_with_places), notes)
    elif slices := sorted({kind for server in kept if server.has.get(GPU) and (kind := slice_of(server))}):
        notes.say(f"slices of GPUs count as whole ones among ClusterQueues: {', '.join(slices)}")
    for server in closed:
        here = np.array([one.count * (one.runs_on == server.name) for one in requesting])
        capacities = np.vstack([capacities, here @ np.array(requests)])
        allowed = [np.append(mask, runs) for mask, runs in zip(allowed, (here > 0).tolist(), strict=True)]
    kept = [*kept, *closed]
    teams: dict[str, Any] = {}
    if users == _QUEUE:
        owners = [str(one.queue) for one in requesting]
        labels, cohorts = queues.labels(set(owners))
        there = Servers(kept, names, capacities, in_units)
        weights = queues.weights(set(owners), cohorts)
        owed = queues.owed(list(zip(requesting, allowed, strict=True)), cohorts, there, options.scale_quotas)
        teams = dict(labels=labels, weights=weights, owed=replace(owed, weights=weights))
    elif users == _OTHERS and tree is not None:
        owners = [str(one.owner) for one in requesting]
        totals = dict(zip(names, capacities.sum(axis=0).tolist(), strict=True))
        teams = arguments_of_tree(tree, {*owners}, names, totals, len(kept), notes)
    else:
        queues.note_other_teams()
        if tree is not None:
            what = f"{tree.described()} {'is' if len(tree.queues) == 1 else 'are'} left out"
            notes.say(f"{what}: --users queue shares among them")
        label = users.removeprefix("label:") if users.startswith("label:") else None
        owners = _of_named_queues(requesting, notes) if named else _owners(requesting, label, notes)
    unmodelled = [one for one in requesting if one.spec.unmodelled]
    notes.add(
        "{pod} with required rules on other pods, on topology spread, or with resource claims: these are not modelled",
        *(one.name for one in unmodelled),
        number=sum(one.count for one in unmodelled),
    )
    gated = [one.name for one in requesting if one.spec.schedulingGates and one.runs_on is None]
    notes.add("{pod} with scheduling gates {counts} as waiting", *gated)
    types = [server.labels.get(_TYPE, "") for server in kept]
    at = {server.name: s for s, server in enumerate(kept)}
    notes.add(
        "{pod} on servers that do not count {counts} as waiting",
        *(one.name for one in requesting if one.runs_on is not None and one.runs_on not in at),
    )
    runs = [{at[one.runs_on]: one.count} if one.runs_on in at else dict[int, float]() for one in requesting]
    if users == _QUEUE:
        _hold_admitted(runs, requesting, allowed, np.array(requests), capacities, queues, there, notes)
        requesting, allowed = _only_held(requesting, allowed, runs, np.array(requests), capacities, notes)
    full = FullQuotas(quotas, pods)
    more = full.barred([(one.namespace, one.spec) for one in requesting], notes, seen=users == _QUEUE)
    places = {key: spec.texts for key, spec in {one.spec.key: one.spec for one in requesting}.items()}
    return arguments_of_work(
        [
            Work(
                owner,
                request,
                mask,
                one.count,
                one.name,
                places[one.spec.key],
                held,
                unseen,
                one.count * any(one.runs_on == server.name for server in closed),
            )
            for owner, one, mask, request, held, unseen in zip(
                owners, requesting, allowed, requests, runs, more, strict=True
            )
        ],
        resources=names,
        capacities=capacities,
        servers=[server.name for server in kept],
        tasks=options.tasks,
        server_types=types if all(types) else None,
        units={name: unit_of(name) for name in names if unit_of(name)},
        notes=notes,
        word="pod",
        full_demand=options.full_demand,
        says_what_runs=True,
        limiting=[name for name in names if name.endswith(f":{ANY}")],
        **teams,
    )


def _with_shared_claims(tasks: list[Tasks], notes: Notes) -> list[Tasks]:
    """Tasks that also request the devices of claims that they name: of each claim, all that name it an equal part."""
    sharing = Counter[str]()
    for one in tasks:
        sharing.update(dict.fromkeys(one.spec.sharedClaims, one.count))
    what = "{claim} that several pods share {counts} once, an equal part for each pod"
    notes.add(what, *(claim for claim, number in sharing.items() if number > 1))
    out = list[Tasks]()
    for one in tasks:
        spec = one.spec
        for claim, amounts in spec.sharedClaims.items():
            part = 1 / Fraction(max(1, sharing[claim]))
            spec = spec.with_more({name: amount * part for name, amount in amounts.items()})
        out.append(one if spec is one.spec else replace(one, spec=spec))
    return out


def _of_queues(tasks: Sequence[Tasks], queues: Sequence[str], tree: QueueTree, notes: Notes) -> list[Tasks]:
    """Tasks with their queues, of those that may use something of all that their tasks request."""
    out = list[Tasks]()
    for one, queue in zip(tasks, queues, strict=True):
        if resource := barred(tree, queue, one.spec.request.keys()):
            what = "{pod} of {queue}, which may use no {resource}, {was} left out"
            notes.add(what, one.name, number=one.count, queue=queue, resource=resource)
        else:
            out.append(replace(one, owner=queue))
    return out


def _kept_servers(servers: list[Node], in_use: Collection[str | None], notes: Notes) -> tuple[list[Node], list[Node]]:
    """Servers that take pods and have known capacities, and cordoned ones and ones not ready where pods run."""
    closed = [server for server in servers if server.closed and server.name in in_use]
    what = "{server} cordoned or not ready {counts} with what runs there, for the pods that run there"
    notes.add(what, *(server.name for server in closed))
    empty = [server.name for server in servers if server.closed and server.name not in in_use]
    notes.add("{server} cordoned or not ready {was} left out", *empty)
    usable = [server for server in servers if not server.closed]
    without_request = [server.name for server in usable if not server.has]
    notes.add("{server} without status.allocatable {was} left out", *without_request)
    kept = [server for server in usable if server.has]
    assumed = sum(not server.allocatable for server in kept)
    notes.add("{server} without status.allocatable: assumed to have status.capacity", number=assumed)
    if not kept:
        raise notes.nothing_left("there are no servers to share")
    return kept, closed


def _note_number_of_pods(requesting: Sequence[Tasks], servers: list[Node], running: list[Pod], notes: Notes) -> None:
    """Say if servers may take fewer pods than there are, which only the resource `PODS` counts."""
    room = sum((node.has.get(PODS, Fraction(0)) for node in servers if not node.closed), Fraction(0))
    number = sum(one.count for one in requesting) + sum(pod.belongs_to_server for pod in running)
    if room and number > room and all(PODS in node.has for node in servers):
        notes.say(
            f"servers take {float(room):,.12g} pods in all, and there are {number:,.12g}: their number is not limited "
            f"here; --resources with {PODS!r} among the names does it"
        )


def _resources(servers: list[Node], pods: Sequence[Tasks], chosen: Sequence[str] | None) -> list[str]:
    """Names of the resources to share, in their order."""
    requested = {name for pod in pods for name in pod.spec.request}
    if chosen is None:
        others = sorted(requested.difference(_FIRST))
        return [*(name for name in _FIRST if name in requested), *others]
    known = {PODS, *requested, *(name for server in servers for name in server.has)}
    for name in chosen:
        if name not in known:
            raise InvalidInstance(f"no server has and no pod requests {name!r}; {nearest(name, sorted(known))}")
    return list(chosen)


def _allowed(pods: Sequence[Tasks], queues: Queues, servers: Servers) -> list[Bool]:
    """The eligible servers of each pod, shape (n_servers,) each, one array for equal rules."""
    known: dict[tuple[str, str | None, frozenset[str], str | None], Bool] = {}
    at, out = {node.name: s for s, node in enumerate(servers.nodes)}, []
    for pod in pods:
        requested = frozenset() if pod.queue is None else frozenset(pod.spec.request)
        rules = pod.spec.key, pod.queue, requested
        if (*rules, None) not in known:
            known[*rules, None] = queues.allowed(replace(pod, runs_on=None), servers)
        runs_on = None
        if pod.runs_on in at and not known[*rules, None][at[pod.runs_on]]:
            runs_on = pod.runs_on
            if (*rules, runs_on) not in known:
                known[*rules, runs_on] = queues.allowed(pod, servers)
        out.append(known[*rules, runs_on])
    return out


def _on_closed(tasks: Sequence[Tasks], servers: list[Node], queues: Queues, notes: Notes) -> list[Tasks]:
    """Admitted tasks without a server, on one that takes no new pods where all servers of their flavors take none."""
    there, out = Servers(servers), list[Tasks]()
    closed, everywhere = np.array([server.closed for server in servers]), np.ones(len(servers), dtype=np.bool_)
    for one in tasks:
        if one.assigned and one.runs_on is None:
            on = queues.held_on(one, everywhere, there)
            if on.any() and closed[on].all():
                one = replace(one, runs_on=servers[int(on.argmax())].name)
                notes.add(_HELD, one.name, number=one.count)
        out.append(one)
    return out


def _hold_admitted(
    runs: list[dict[int, float]],
    tasks: Sequence[Tasks],
    allowed: Sequence[Bool],
    requests: Float,
    capacities: Float,
    queues: Queues,
    servers: Servers,
    notes: Notes,
) -> None:
    """Add to what runs, by index of the server, admitted pods that do not, since Kueue counts them.

    They are put on servers of the flavors that Kueue holds for them, where most of them fit beside what runs.
    """
    left = capacities.copy()
    for request, on in zip(requests, runs, strict=True):
        for s, number in on.items():
            left[s] -= number * request
    for k, one in enumerate(tasks):
        if one.assigned is None or one.runs_on is not None:
            continue
        able = np.flatnonzero(queues.held_on(one, allowed[k], servers))
        if not len(able):
            what = "{pod} that Kueue has admitted on flavors without servers that count {is} not held"
            notes.add(what, one.name, number=one.count)
            continue
        needs = requests[k] > 0
        fits = np.floor((left[able][:, needs] * ROUNDING_FACTOR / requests[k][needs]).min(axis=1)).clip(0)
        number, order = one.count, np.argsort(-fits, kind="stable").tolist()
        for s, most in [*((able[k], fits[k]) for k in order), (able[order[0]], np.inf)]:
            taken = min(number, float(most))
            if taken:
                runs[k][int(s)] = runs[k].get(int(s), 0.0) + taken
                left[s] -= taken * requests[k]
                number -= taken
        notes.add(_HELD, one.name, number=one.count)


def _only_held(
    tasks: Sequence[Tasks],
    allowed: Sequence[Bool],
    runs: Sequence[Mapping[int, float]],
    requests: Float,
    capacities: Float,
    notes: Notes,
) -> tuple[list[Tasks], list[Bool]]:
    """The tasks, and where they may run: those held where their queue has no quota now stay there, and get no more."""
    kept, places = list(tasks), list(allowed)
    for k, one in enumerate(tasks):
        if runs[k] and not (allowed[k] & (capacities[:, requests[k] > 0] > 0).all(axis=1)).any():
            kept[k], places[k] = replace(one, count=0.0), np.zeros(len(capacities), dtype=np.bool_)
            places[k][list(runs[k])] = True
            what = "{pod} that {queue} holds where it neither has nor may borrow a quota {counts} as held, for no more"
            notes.add(what, one.name, number=one.count, queue=str(one.queue))
    return kept, places


def _capacities(
    servers: list[Node], kept: list[Node], fixed: list[Pod], outside: Sequence[Tasks], names: list[str], notes: Notes
) -> Float:
    """Capacities less the pods that are part of servers or in no queue, shape (n_servers, n_resources)."""
    left: dict[str | None, Any] = {server.name: Counter(server.has) for server in servers}
    known = [pod for pod in fixed if pod.server in left]
    for pod in known:
        left[pod.server].subtract({name: pod.spec.requests(name) for name in names})
    notes.add("{pod} of DaemonSets or static: subtracted from the capacity of the servers", *(p.name for p in known))
    unplaced = [pod.name for pod in fixed if pod.server not in left]
    notes.add("{pod} of DaemonSets or static, on no known server, {was} left out", *unplaced)
    for one in outside:
        if one.runs_on in left:
            left[one.runs_on].subtract({name: one.spec.requests(name) for name in names})
    what = "{pod} in no cluster queue, which Kueue counts for nobody: subtracted from the capacity of the servers"
    notes.add(what, *(one.name for one in outside))
    negative = [f"{name} of {server.name}" for server in kept for name in names if left[server.name][name] < 0]
    notes.add("{capacity} below 0 after these pods were subtracted: set to 0", *negative)
    return np.array([[in_units(max(left[server.name][name], Fraction(0)), name) for name in names] for server in kept])


def _owners(pods: Sequence[Tasks], label: str | None, notes: Notes) -> list[str]:
    """The owner of each pod: its namespace, or the value of a label."""
    if label is None:
        return [pod.namespace for pod in pods]
    none = f"(no {label})"
    owners = [pod.labels.get(label) or none for pod in pods]
    without = sum(pod.count for pod, owner in zip(pods, owners, strict=True) if owner == none)
    if set(owners) == {none}:
        keys = sorted({key for pod in pods for key in pod.labels})
        fix = nearest(label, keys) if keys else "they have no labels at all: share by namespace"
        raise InvalidInstance(f"none of {counted(without, 'pod')} has a label {label!r}; {fix}")
    what = "{pod} without the label {label}: counted as those of {none}"
    notes.add(what, number=without, label=repr(label), none=repr(none))
    return owners


def _of_named_queues(pods: Sequence[Tasks], notes: Notes) -> list[str]:
    """The owner of each pod: the queue that a label or an annotation names, else its namespace.

    Where two namespaces have a LocalQueue of one name, the only one of a namespace is called as the namespace, and
    others have the namespace before their name.
    """
    links = [next(iter(queue_named(pod.labels).items()), ("", "")) for pod in pods]
    spaces, queues = dict[str, set[str]](), dict[str, set[str]]()
    for pod, (key, queue) in zip(pods, links, strict=True):
        if key == LOCAL_QUEUE:
            spaces.setdefault(queue, set()).add(pod.namespace)
            queues.setdefault(pod.namespace, set()).add(queue)
    keys = sorted({key for key, _ in links if key})
    notes.say(About(f"the teams are the queues that pods name, by {' and '.join(keys)}"))
    what = "{pod} without a queue {counts} for its namespace"
    notes.add(what, number=sum(pod.count for pod, (key, _) in zip(pods, links, strict=True) if not key))

    def owner(space: str, key: str, queue: str) -> str:
        if key != LOCAL_QUEUE or len(spaces[queue]) == 1:
            return queue or space
        return space if len(queues[space]) == 1 else f"{space}/{queue}"

    return [owner(pod.namespace, *of) for pod, of in zip(pods, links, strict=True)]
