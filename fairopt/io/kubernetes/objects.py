"""Models of Kubernetes nodes and pods: capacities of servers, and requests of pods."""

# ruff: noqa: N815 - fields of pydantic models, under the names of Kubernetes

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from pydantic import AliasPath, Field, ValidationInfo, field_validator

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import Name, Part, checked, shown, shown_key
from fairopt.io.kubernetes.placement import HARD, Placement, Taint
from fairopt.io.kubernetes.quantities import Quantity
from fairopt.runtime.progress import steps

PODS = "pods"  # the resource of which each pod takes 1
_FINISHED = ("Succeeded", "Failed")
_Amounts = dict[str, Quantity]


def _at(*path: str, default: Any = ...) -> Any:
    """A field of a nested object."""
    if isinstance(default, type):  # pydantic deep-copies a mutable default each time
        return Field(default_factory=default, validation_alias=AliasPath(*path))
    return Field(default, validation_alias=AliasPath(*path))


class _Object(Part):
    """A model with fields of nested objects."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None or (field := cls.model_fields[info.field_name or ""]).is_required():
            return value
        return field.get_default(call_default_factory=True)


class _Owner(Part):
    kind: str = ""


class Node(_Object):
    """A server."""

    name: Name = _at("metadata", "name")
    labels: dict[str, str] = _at("metadata", "labels", default=dict)
    spec: dict[str, Any] = Field(default_factory=dict)
    taints: list[Taint] = _at("spec", "taints", default=list)
    cordoned: bool = _at("spec", "unschedulable", default=False)
    allocatable: _Amounts = _at("status", "allocatable", default=dict)
    capacity: _Amounts = _at("status", "capacity", default=dict)

    @property
    def has(self) -> dict[str, Fraction]:
        """Capacity in base units by resource; Kubernetes, too, uses ``capacity`` if ``allocatable`` is missing."""
        return self.allocatable or self.capacity


class _Resources(Part):
    requests: _Amounts = Field(default_factory=dict)
    limits: _Amounts = Field(default_factory=dict)

    @property
    def effective(self) -> dict[str, Fraction]:
        """The requests; a missing one is the limit."""
        return {**self.limits, **self.requests}


class _Container(Part):
    resources: _Resources = Field(default_factory=_Resources)
    restartPolicy: str = ""


class _Spread(Part):
    whenUnsatisfiable: object = None


class PodSpec(Placement):
    """The requests of a pod, and where it may run."""

    containers: list[_Container] = Field(default_factory=list)
    initContainers: list[_Container] = Field(default_factory=list)
    resources: _Resources = Field(default_factory=_Resources)
    overhead: _Amounts = Field(default_factory=dict)
    nodeName: str = ""
    topologySpreadConstraints: list[_Spread] = Field(default_factory=list)
    resourceClaims: object = None

    @cached_property
    def request(self) -> dict[str, Fraction]:
        """The amounts that Kubernetes reserves for the pod, in base units by resource, without zeros.

        The larger of the sum over containers and sidecars and of any init container with the sidecars that start before
        it; or the requests of the whole pod; plus the overhead.
        """
        sidecars: Any = Counter()  # of counters, + adds and | takes the maximum
        total: Any = Counter()
        for container in self.initContainers:
            needed = sidecars + Counter(container.resources.effective)
            total |= needed
            if container.restartPolicy == "Always":
                sidecars = needed
        total |= sum((Counter(container.resources.effective) for container in self.containers), sidecars)
        named = set().union(*(container.resources.effective for container in (*self.initContainers, *self.containers)))
        limits = {name: amount for name, amount in self.resources.limits.items() if name not in named}
        whole = {**limits, **self.resources.requests}
        # Kubernetes allows requests of whole pods for these only
        whole = {k: v for k, v in whole.items() if k in ("cpu", "memory") or k.startswith("hugepages-")}
        request: Any = Counter({**total, **whole})
        return dict(request + Counter(self.overhead))

    @property
    def unmodelled(self) -> bool:
        """Whether the pod has required rules or claims that are not modelled."""
        spread = any(rule.whenUnsatisfiable == "DoNotSchedule" for rule in self.topologySpreadConstraints)
        rules = self.affinity.podAffinity.get(HARD) or self.affinity.podAntiAffinity.get(HARD)
        return bool(rules or self.resourceClaims or spread)


class Pod(_Object):
    """A task. The ``spec`` of a finished pod is ignored."""

    short_name: Name = _at("metadata", "name")
    namespace: Name = _at("metadata", "namespace", default="default")
    labels: dict[str, str] = _at("metadata", "labels", default=dict)
    annotations: dict[str, Any] = _at("metadata", "annotations", default=dict)
    owners: list[_Owner] = _at("metadata", "ownerReferences", default=list)
    spec: PodSpec = Field(default_factory=PodSpec)
    phase: str = _at("status", "phase", default="")

    @property
    def name(self) -> str:
        """Namespace and name, as ``web/nginx-1``."""
        return f"{self.namespace}/{self.short_name}"

    @property
    def finished(self) -> bool:
        """Whether the pod has ended."""
        return self.phase in _FINISHED

    @property
    def server(self) -> str | None:
        """The server where the pod runs, or the only one where it may run."""
        return self.spec.nodeName or self.spec.only_server

    @property
    def runs_on(self) -> str | None:
        """The server that reserves the requests of the pod, None while it waits."""
        return self.spec.nodeName or None

    @property
    def belongs_to_server(self) -> bool:
        """Whether it is a pod of a DaemonSet or a static pod, which count as part of their server."""
        kinds = {owner.kind for owner in self.owners}
        return bool(kinds & {"DaemonSet", "Node"}) or "kubernetes.io/config.mirror" in self.annotations

    def requests(self, resource: str) -> Fraction:
        """The amount of a resource that the pod requests."""
        return Fraction(1) if resource == PODS else self.spec.request.get(resource, Fraction(0))


def read_nodes(document: Mapping[str, Any], name: str) -> list[Node]:
    """The nodes in the output of ``kubectl get nodes -o json``, cordoned ones too."""
    nodes: dict[str, tuple[Node, str]] = {}
    for item, place in _items(document, name, "Node", "kubectl get nodes -o json"):
        node = checked(Node, item, name, place)
        _add_unique(nodes, node, f"{name}: {place}")
    return [node for node, _ in nodes.values()]


def read_pods(document: Mapping[str, Any], name: str) -> list[Pod]:
    """The pods in the output of ``kubectl get pods -A -o json``, finished ones too."""
    pods: dict[str, tuple[Pod, str]] = {}
    for item, place in _items(document, name, "Pod", "kubectl get pods -A -o json"):
        status = item.get("status") if isinstance(item, Mapping) else None
        if isinstance(status, Mapping) and status.get("phase") in _FINISHED:
            item = {**item, "spec": None}
        _add_unique(pods, checked(Pod, item, name, place), f"{name}: {place}")
    return [pod for pod, _ in pods.values()]


def _items(document: Mapping[str, Any], name: str, kind: str, command: str) -> Iterator[tuple[Any, str]]:
    """The objects of a list of one kind, with their places; a single object is a list too."""
    given, items = document.get("kind"), document.get("items")
    if given == kind:
        given, items = None, [document]
    if given not in (None, "List", f"{kind}List"):
        raise InvalidInstance(f"{name}: kind is {shown(given)}; give a list of {kind.lower()}s, as {command} gives it")
    if not isinstance(items, (list, tuple)):
        what = "is missing" if items is None else f"is {shown(items)}"
        raise InvalidInstance(f"{name}: items {what}; give a list of {kind.lower()}s, as {command} gives it")
    for k, item in enumerate(steps(items, f"{kind.lower()}s of {os.path.basename(name)}", len(items))):
        place = "" if item is document else f"items[{k}]"
        if isinstance(item, Mapping):
            if item.get("kind") not in (None, kind):
                fix = f"give {kind.lower()}s only, as {command} gives them"
                raise InvalidInstance(f"{name}: {place}.kind is {shown(item['kind'])}; {fix}")
            metadata = item.get("metadata")
            if isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str) and metadata["name"]:
                space = f"{metadata.get('namespace') or 'default'}/" if kind == "Pod" else ""
                place += f" ({shown_key(space + metadata['name'])})"
        yield item, place


def _add_unique(known: dict[str, tuple[Any, str]], thing: Any, place: str) -> None:
    other = known.setdefault(thing.name, (thing, place))
    if other[0] is not thing:
        raise InvalidInstance(f"{place} and {other[1]} are both named {thing.name!r}; keep one of them")
