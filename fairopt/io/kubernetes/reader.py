"""The arguments of an instance from the nodes and pods of a Kubernetes cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.arguments import Arguments
from fairopt.io.json_text import Document, document_of, shown
from fairopt.io.kubernetes.objects import PODS, Node, Pod, read_nodes, read_pods
from fairopt.io.notes import Notes, check_choice, counted
from fairopt.io.text_files import about
from fairopt.io.work import TASKS, Work, arguments_of_work

_GIB = 2**30
_FIRST = ("cpu", "memory", "ephemeral-storage")  # others follow alphabetically
_TYPE = "node.kubernetes.io/instance-type"
_EXPECTED = "expected the output of kubectl get {} -o json"


def read_kubernetes(
    nodes: Document,
    pods: Document,
    users: str = "namespace",
    tasks: str = "mean",
    merge: bool = True,
    resources: Sequence[str] | None = None,
) -> Arguments:
    """Read the output of kubectl; see `fairopt.datasets.kubernetes`."""
    label = _label_of(users)
    check_choice("tasks", tasks, TASKS)
    _check_names(resources)
    servers_data, servers_name = document_of(nodes, "nodes", _EXPECTED.format("nodes"))
    pods_data, pods_name = document_of(pods, "pods", _EXPECTED.format("pods -A"))
    servers, found = read_nodes(servers_data, servers_name), read_pods(pods_data, pods_name)
    with about(servers_name, pods_name):
        values = _arguments(servers, found, label, tasks, resources)
    return Arguments(values, (servers_name, pods_name), merge)


def _label_of(users: object) -> str | None:
    """The key of a label, or None for namespaces."""
    if users == "namespace":
        return None
    if isinstance(users, str) and users.startswith("label:") and users != "label:":
        return users.removeprefix("label:")
    raise InvalidInstance(f"users is {shown(users)}; give 'namespace', or 'label:' and the key of a label of the pods")


def _check_names(resources: object) -> None:
    if resources is None:
        return
    names = resources if isinstance(resources, (list, tuple)) else ()
    texts = [name for name in names if isinstance(name, str)]
    if not texts or len(texts) < len(names) or len(set(texts)) < len(texts):
        raise InvalidInstance(f"resources is {resources!r}; give a list of different names, as ['cpu', 'memory']")


def _arguments(
    servers: list[Node], pods: list[Pod], label: str | None, tasks: str, resources: Sequence[str] | None
) -> dict[str, Any]:
    notes = Notes()
    kept = _kept_servers(servers, notes)
    running = [pod for pod in pods if not pod.finished]
    notes.add("{finished pod} {was} left out", *(pod.name for pod in pods if pod.finished))
    tasks_of_owners = [pod for pod in running if not pod.belongs_to_server]
    names = _resources(kept, tasks_of_owners, resources)
    requesting = [pod for pod in tasks_of_owners if any(pod.requests(name) for name in names)]
    without_request = [pod.name for pod in tasks_of_owners if not any(pod.requests(name) for name in names)]
    which = "any request" if resources is None else "a request for " + " or ".join(names)
    notes.add("{pod} without {which} {was} left out", *without_request, which=which)
    if not requesting:
        raise notes.nothing_left("there are no pods to share servers among")
    allowed = _allowed(requesting, kept)
    usable = np.any(list(allowed.values()), axis=0)
    if usable.any() and not usable.all():
        excluded = [server.name for server, use in zip(kept, usable, strict=True) if not use]
        notes.add("{server} where none of these pods may run {was} left out", *excluded)
        kept = [server for server, use in zip(kept, usable, strict=True) if use]
        allowed = {key: mask[usable] for key, mask in allowed.items()}
    capacities = _capacities(servers, kept, [pod for pod in running if pod.belongs_to_server], names, notes)
    owners = _owners(requesting, label, notes)
    notes.add(
        "{pod} with required rules on other pods, on topology spread, or with resource claims: these are not modelled",
        *(pod.name for pod in requesting if pod.spec.unmodelled),
    )
    types = [server.labels.get(_TYPE, "") for server in kept]
    at = {server.name: s for s, server in enumerate(kept)}
    notes.add(
        "{pod} on servers that were left out {counts} as waiting",
        *(pod.name for pod in requesting if pod.runs_on is not None and pod.runs_on not in at),
    )
    places = {key: spec.texts for key, spec in {pod.spec.key: pod.spec for pod in requesting}.items()}
    return arguments_of_work(
        [
            Work(
                owner,
                tuple(_amount(pod.requests(name), name) for name in names),
                allowed[pod.spec.key],
                1,
                pod.name,
                places[pod.spec.key],
                {at[pod.runs_on]: 1.0} if pod.runs_on in at else {},
            )
            for owner, pod in zip(owners, requesting, strict=True)
        ],
        resources=names,
        capacities=capacities,
        servers=[server.name for server in kept],
        tasks=tasks,
        server_types=types if all(types) else None,
        units={name: _unit(name) for name in names if _unit(name)},
        notes=notes,
        word="pod",
    )


def _kept_servers(servers: list[Node], notes: Notes) -> list[Node]:
    """Servers that take pods and have known capacities."""
    notes.add("{cordoned server} {was} left out", *(server.name for server in servers if server.cordoned))
    usable = [server for server in servers if not server.cordoned]
    without_request = [server.name for server in usable if not server.has]
    notes.add("{server} without status.allocatable {was} left out", *without_request)
    kept = [server for server in usable if server.has]
    assumed = sum(not server.allocatable for server in kept)
    notes.add("{server} without status.allocatable: assumed to have status.capacity", number=assumed)
    if not kept:
        raise notes.nothing_left("there are no servers to share")
    return kept


def _resources(servers: list[Node], pods: list[Pod], chosen: Sequence[str] | None) -> list[str]:
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


def _allowed(pods: list[Pod], servers: list[Node]) -> dict[str, NDArray[np.bool_]]:
    """Eligible servers by the key of the placement rules, shape (n_servers,) each."""
    return {
        key: np.array([rules.allows(server.name, server.labels, server.taints) for server in servers])
        for key, rules in {pod.spec.key: pod.spec for pod in pods}.items()
    }


def _capacities(
    servers: list[Node], kept: list[Node], fixed: list[Pod], names: list[str], notes: Notes
) -> NDArray[np.float64]:
    """Capacities less the pods that are part of servers, shape (n_servers, n_resources)."""
    left: dict[str | None, Any] = {server.name: Counter(server.has) for server in servers}
    known = [pod for pod in fixed if pod.server in left]
    for pod in known:
        left[pod.server].subtract({name: pod.requests(name) for name in names})
    notes.add("{pod} of DaemonSets or static: subtracted from the capacity of the servers", *(p.name for p in known))
    unplaced = [pod.name for pod in fixed if pod.server not in left]
    notes.add("{pod} of DaemonSets or static, on no known server, {was} left out", *unplaced)
    negative = [f"{name} of {server.name}" for server in kept for name in names if left[server.name][name] < 0]
    notes.add("{capacity} below 0 after these pods were subtracted: set to 0", *negative)
    return np.array([[_amount(max(left[server.name][name], Fraction(0)), name) for name in names] for server in kept])


def _owners(pods: list[Pod], label: str | None, notes: Notes) -> list[str]:
    """The owner of each pod."""
    if label is None:
        return [pod.namespace for pod in pods]
    none = f"(no {label})"
    owners = [pod.labels.get(label) or none for pod in pods]
    without = owners.count(none)
    if without == len(pods):
        keys = sorted({key for pod in pods for key in pod.labels})
        fix = nearest(label, keys) if keys else "they have no labels at all: share by namespace"
        raise InvalidInstance(f"none of {counted(len(pods), 'pod')} has a label {label!r}; {fix}")
    what = "{pod} without the label {label}: counted as those of {none}"
    notes.add(what, number=without, label=repr(label), none=repr(none))
    return owners


def _unit(resource: str) -> str:
    if resource == "cpu":
        return "core"
    return "GiB" if resource in _FIRST or resource.startswith("hugepages-") else ""


def _amount(amount: Fraction, resource: str) -> float:
    """An exact amount as a float in the resource's unit."""
    return float(amount / _GIB if _unit(resource) == "GiB" else amount)
