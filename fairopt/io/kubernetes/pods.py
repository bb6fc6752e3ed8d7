"""Pods of Kubernetes as tasks: what one takes while it runs, and where it may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from fairopt.io.json_text import Entry
from fairopt.io.kubernetes.lists import amounts, items, labels, refuse_twins
from fairopt.io.kubernetes.placement import Placement, placement_of

__all__ = ["PODS", "Pod", "effective_request", "read_pods"]

PODS = "pods"  # the resource of which each pod takes 1

_COMMAND = "kubectl get pods -A -o json"
_FINISHED = ("Succeeded", "Failed")
_MIRROR = "kubernetes.io/config.mirror"
_ZERO, _ONE = Fraction(0), Fraction(1)
_ANYWHERE = Placement()


@dataclass(frozen=True, eq=False)
class Pod:
    """One pod.

    Attributes
    ----------
    namespace, name : str
    labels : dict
    finished : bool
        Of a finished pod nothing else is read.
    request : dict of Fraction
        The effective request in base units by resource, without zeros.
    placement : Placement
    server : str or None
        Where it runs, or the only place that it could run.
    belongs_to_server : bool
        Whether it is a pod of a DaemonSet or a static pod, which are part of their server.
    unmodelled : bool
        Whether it has required rules or claims that the instance does not know.
    """

    namespace: str
    name: str
    labels: dict[str, str]
    finished: bool = False
    request: dict[str, Fraction] = field(default_factory=dict)
    placement: Placement = _ANYWHERE
    server: str | None = None
    belongs_to_server: bool = False
    unmodelled: bool = False

    @property
    def full_name(self) -> str:
        """Namespace and name, as ``web/nginx-1``."""
        return f"{self.namespace}/{self.name}"

    def asks(self, resource: str) -> Fraction:
        """What it takes of a resource."""
        return _ONE if resource == PODS else self.request.get(resource, _ZERO)


def read_pods(document: Entry) -> list[Pod]:
    """The pods of what ``kubectl get pods -A -o json`` gives, finished ones too."""
    first: dict[str, Entry] = {}
    pods = []
    for item in items(document, "Pod", _COMMAND):
        pod = _pod(item)
        refuse_twins(first, pod.full_name, item, "keep one of them")
        pods.append(pod)
    return pods


def _pod(item: Entry) -> Pod:
    metadata, spec = item["metadata"], item["spec"]
    namespace = metadata["namespace"].name() if metadata["namespace"] else "default"
    name = metadata["name"].name()
    item.called(f"{namespace}/{name}")
    its_labels = labels(metadata)
    if item["status"]["phase"].text("") in _FINISHED:
        return Pod(namespace, name, its_labels, finished=True)
    placement = placement_of(spec)
    return Pod(
        namespace, name, its_labels, False, effective_request(spec), placement,
        spec["nodeName"].text("") or placement.only_server, _belongs_to_server(metadata), _unmodelled(spec),
    )  # fmt: skip


def _belongs_to_server(metadata: Entry) -> bool:
    owners = [owner["kind"].text("") for owner in metadata["ownerReferences"].entries()]
    return "DaemonSet" in owners or "Node" in owners or _MIRROR in metadata["annotations"].object()


def _unmodelled(spec: Entry) -> bool:
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    spread = (
        rule["whenUnsatisfiable"].value == "DoNotSchedule" for rule in spec["topologySpreadConstraints"].entries()
    )
    near, far = spec["affinity"]["podAffinity"][hard], spec["affinity"]["podAntiAffinity"][hard]
    return bool(near.value or far.value or spec["resourceClaims"].value) or any(spread)


def effective_request(spec: Entry) -> dict[str, Fraction]:
    """What Kubernetes keeps free on a server for one pod, by resource, without zeros; from the ``spec`` of the pod.

    The larger of what its containers and sidecars take together and what any init container takes together with the
    sidecars that start before it; or what the pod says as a whole; and the overhead on top.
    """
    running: dict[str, Fraction] = {}
    for container in spec["containers"].entries():
        _add(running, _asked(container["resources"]))
    sidecars: dict[str, Fraction] = {}
    starting: dict[str, Fraction] = {}
    for container in spec["initContainers"].entries():
        takes = _asked(container["resources"])
        if container["restartPolicy"].text("") == "Always":
            _add(sidecars, takes)
            takes = dict(sidecars)
        else:
            _add(takes, sidecars)
        for name, amount in takes.items():
            starting[name] = max(starting.get(name, _ZERO), amount)
    _add(running, sidecars)
    total = {name: max(running.get(name, _ZERO), starting.get(name, _ZERO)) for name in {**running, **starting}}
    total.update(_of_the_pod(spec["resources"], total))
    _add(total, amounts(spec["overhead"]))
    return {name: amount for name, amount in total.items() if amount}


def _asked(resources: Entry) -> dict[str, Fraction]:
    """The requests of a container; where there is none, its limit."""
    return {**amounts(resources["limits"]), **amounts(resources["requests"])}


def _of_the_pod(resources: Entry, of_containers: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """What the pod as a whole asks for; its limits count only where its containers say nothing."""
    limits = {name: amount for name, amount in amounts(resources["limits"]).items() if name not in of_containers}
    asked = {**limits, **amounts(resources["requests"])}
    return {name: amount for name, amount in asked.items() if _for_pods(name)}


def _for_pods(resource: str) -> bool:
    """Kubernetes knows requests of whole pods for these only."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _add(total: dict[str, Fraction], more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, _ZERO) + amount
