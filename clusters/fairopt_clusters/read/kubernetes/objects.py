"""Models of Kubernetes objects in lists: capacities of nodes, and requests of pods."""

# ruff: noqa: N815 - fields of pydantic models, under the names of Kubernetes

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from pydantic import AliasChoices, AliasPath, Field, ValidationInfo, field_validator, model_validator

from fairopt.errors import InvalidInstance
from fairopt.io import Part, checked, shown, shown_key
from fairopt.runtime import steps
from fairopt_clusters.read.amounts import Name, Quantity
from fairopt_clusters.read.documents import Objects
from fairopt_clusters.read.kubernetes.placement import HARD, Placement, Taint

OF_SERVERS = ("DaemonSet", "Node")  # kinds of owners of pods that belong to servers
MIRROR = "kubernetes.io/config.mirror"  # the annotation of a static pod
PODS = "pods"  # the resource of which each pod takes 1
_FINISHED = ("Succeeded", "Failed")
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")  # taints by Kubernetes
_Amounts = dict[str, Quantity]


def at(*path: str, default: Any = ..., older: tuple[str, ...] = ()) -> Any:
    """A field of a nested object, which stood at another path in ``older`` versions."""
    alias: Any = AliasChoices(AliasPath(*path), AliasPath(*older)) if older else AliasPath(*path)
    if isinstance(default, type):  # pydantic deep-copies a mutable default each time
        return Field(default_factory=default, validation_alias=alias)
    return Field(default, validation_alias=alias)


class Object(Part):
    """A model with fields of nested objects."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    status: dict[str, Any] = Field(default_factory=dict)

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None or (field := cls.model_fields[info.field_name or ""]).is_required():
            return value
        return field.get_default(call_default_factory=True)


class InNamespace(Object):
    """An object of a namespace."""

    short_name: Name = at("metadata", "name")
    namespace: Name = at("metadata", "namespace", default="default")
    labels: dict[str, str] = at("metadata", "labels", default=dict)

    @property
    def name(self) -> str:
        """Namespace and name, as ``web/nginx-1``."""
        return f"{self.namespace}/{self.short_name}"


class Owner(Part):
    """A reference to the object that controls another."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Condition(Part):
    """What Kubernetes says of the state of an object."""

    type: str = ""
    status: str = ""
    lastTransitionTime: str = ""


class Node(Object):
    """A server."""

    name: Name = at("metadata", "name")
    labels: dict[str, str] = at("metadata", "labels", default=dict)
    spec: dict[str, Any] = Field(default_factory=dict)
    taints: list[Taint] = at("spec", "taints", default=list)
    unschedulable: bool = at("spec", "unschedulable", default=False)
    conditions: list[Condition] = at("status", "conditions", default=list)
    allocatable: _Amounts = at("status", "allocatable", default=dict)
    capacity: _Amounts = at("status", "capacity", default=dict)

    @property
    def ready(self) -> bool:
        """Whether nothing says that it is not ready."""
        return all(one.type != "Ready" or one.status == "True" for one in self.conditions)

    @property
    def closed(self) -> bool:
        """Whether it takes no new pods: it is cordoned, or not ready."""
        return self.unschedulable or not self.ready or any(taint.key in _NOT_READY for taint in self.taints)

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
    schedulerName: str = ""
    topologySpreadConstraints: list[_Spread] = Field(default_factory=list)
    schedulingGates: list[Any] = Field(default_factory=list)
    resourceClaims: object = None
    sharedClaims: dict[str, dict[str, int]] = Field(default_factory=dict)  # amounts by claim; not of Kubernetes

    @cached_property
    def request(self) -> dict[str, Fraction]:
        """The amounts that Kubernetes reserves for the pod, in base units by resource, without zeros.

        The larger of the sum over containers and sidecars and of any init container with the sidecars that start before
        it; or the requests of the whole pod; plus the overhead.
        """
        total = self._over_containers(lambda resources: resources.effective)
        named = set().union(*(container.resources.effective for container in (*self.initContainers, *self.containers)))
        limits = {name: amount for name, amount in self.resources.limits.items() if name not in named}
        whole = {**limits, **self.resources.requests}
        # Kubernetes allows requests of whole pods for these only
        whole = {k: v for k, v in whole.items() if k in ("cpu", "memory") or k.startswith("hugepages-")}
        request: Any = Counter({**total, **whole})
        return dict(request + Counter(self.overhead))

    @cached_property
    def limit(self) -> dict[str, Fraction]:
        """The limits of the containers together, added up as requests are, and of the overhead."""
        return dict(self._over_containers(lambda resources: resources.limits) + Counter(self.overhead))

    def _over_containers(self, of: Callable[[_Resources], Mapping[str, Fraction]]) -> Any:
        """A counter of amounts of containers: the larger of those that run together and of each init container."""
        sidecars: Any = Counter()  # of counters, + adds and | takes the maximum
        total: Any = Counter()
        for container in self.initContainers:
            needed = sidecars + Counter(of(container.resources))
            total |= needed
            if container.restartPolicy == "Always":
                sidecars = needed
        total |= sum((Counter(of(container.resources)) for container in self.containers), sidecars)
        return total

    @property
    def devices(self) -> set[str]:
        """The resources of claims that it may share with other pods."""
        return {name for amounts in self.sharedClaims.values() for name in amounts}

    def with_more(self, amounts: Mapping[str, Fraction]) -> PodSpec:
        """The same with further amounts."""
        changed = self.model_copy(update={"overhead": dict(Counter(self.overhead) + Counter(amounts))})
        changed.__dict__.pop("request", None)  # as cached
        return changed

    def requests(self, resource: str) -> Fraction:
        """The amount of a resource that the pod requests."""
        return Fraction(1) if resource == PODS else self.request.get(resource, Fraction(0))

    @property
    def extended(self) -> set[str]:
        """The requested resources that are not those of Kubernetes itself."""
        return {name for name in self.request if is_extended(name)}

    @property
    def unmodelled(self) -> bool:
        """Whether the pod has required rules or claims that are not modelled."""
        spread = any(rule.whenUnsatisfiable == "DoNotSchedule" for rule in self.topologySpreadConstraints)
        rules = self.affinity.podAffinity.get(HARD) or self.affinity.podAntiAffinity.get(HARD)
        return bool(rules or self.resourceClaims or spread)


class Pod(InNamespace):
    """A task. The ``spec`` of a finished pod is ignored."""

    uid: str = at("metadata", "uid", default="")
    annotations: dict[str, Any] = at("metadata", "annotations", default=dict)
    owners: list[Owner] = at("metadata", "ownerReferences", default=list)
    spec: PodSpec = Field(default_factory=PodSpec)
    phase: str = at("status", "phase", default="")

    @model_validator(mode="before")
    @classmethod
    def _without_spec_if_finished(cls, data: Any) -> Any:
        ended = isinstance(data, Mapping) and part(data, "status").get("phase") in _FINISHED
        return {**data, "spec": None} if ended else data

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
        return MIRROR in self.annotations or any(owner.kind in OF_SERVERS for owner in self.owners)


def is_extended(resource: str) -> bool:
    """Whether a resource is none of those of Kubernetes itself."""
    return "/" in resource and not resource.partition("/")[0].endswith("kubernetes.io")


def read_nodes(document: Mapping[str, Any], name: str, mixed: bool = False) -> list[Node]:
    """The nodes in the output of ``kubectl get nodes -o json``, cordoned ones too; ``mixed`` as in `listed`."""
    return [*read_objects([(document, name)], {"Node": Node}, "kubectl get nodes -o json", mixed)["Node"].values()]


def read_pods(document: Mapping[str, Any], name: str, mixed: bool = False) -> list[Pod]:
    """The pods in the output of ``kubectl get pods -A -o json``, finished ones too; ``mixed`` as in `listed`."""
    return [*read_objects([(document, name)], {"Pod": Pod}, "kubectl get pods -A -o json", mixed)["Pod"].values()]


def read_objects(
    documents: Iterable[tuple[Mapping[str, Any], str]],
    models: Mapping[str, type[Object]],
    command: str,
    mixed: bool = False,
    group: str = "",
) -> dict[str, dict[str, Any]]:
    """The objects of some kinds in lists, by kind and name; with a ``group`` those of this group of the API only."""
    known: dict[str, dict[str, tuple[Any, str]]] = {kind: {} for kind in models}
    for document, name in documents:
        for kind, item, place in listed(document, name, models, command, mixed):
            version = item.get("apiVersion") if isinstance(item, Mapping) and group and kind != "Namespace" else None
            if not isinstance(version, str) or version.startswith(f"{group}/"):
                add_unique(known[kind], checked(models[kind], item, name, place), f"{name}: {place}")
            elif not mixed:  # Kubernetes has Workloads too
                fix = f"give the {kind}s of {group}, as {command} gives them"
                raise InvalidInstance(f"{name}: {place}.apiVersion is {shown(version)}; {fix}")
    return {kind: {key: one for key, (one, _) in things.items()} for kind, things in known.items()}


def listed(
    document: Mapping[str, Any], name: str, kinds: Collection[str], command: str, mixed: bool = False
) -> Iterator[tuple[str, Any, str]]:
    """The objects of some kinds in a list, with their kinds and places; a single object is a list too.

    A list of one kind may leave out the kinds of its objects. Other kinds are an error, or with ``mixed`` left out.
    """
    given, items = document.get("kind"), document.get("items")
    several = " or ".join(f"{kind.lower()}s" for kind in kinds)
    if given in kinds and items is None:
        given, items = None, [document]
    of_list = str(given or "").removesuffix("List") or next(iter(kinds))
    if given not in (None, "List") and of_list not in kinds:
        raise InvalidInstance(f"{name}: kind is {shown(given)}; give a list of {several}, as {command} gives it")
    if not isinstance(items, (list, tuple)):
        what = "is missing" if items is None else f"is {shown(items)}"
        raise InvalidInstance(f"{name}: items {what}; give a list of {several}, as {command} gives it")
    for k, item in enumerate(steps(items, f"{several} of {os.path.basename(name)}", len(items))):
        place, kind = "" if item is document else f"items[{k}]", of_list
        if isinstance(items, Objects):
            place, kind = items.places[k], item.get("kind")
        elif isinstance(item, Mapping):
            kind = item.get("kind") or of_list
        if isinstance(item, Mapping):
            if not (isinstance(kind, str) and kind in kinds):
                if mixed:
                    continue
                fix = f"give {several} only, as {command} gives them"
                raise InvalidInstance(f"{name}: {place}.kind is {shown(item['kind'])}; {fix}")
            place = _named(place, item, kind)
        elif mixed:
            raise InvalidInstance(f"{name}: {place} is {shown(item)}; give objects of Kubernetes")
        yield kind, item, place


def at_places(document: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The objects in a list of `objects_of`, with their places and names."""
    items = document["items"]
    for item, place in zip(items, items.places, strict=True):
        kind = item.get("kind")
        yield item, _named(place, item, kind if isinstance(kind, str) else "")


def _named(place: str, item: Mapping[str, Any], kind: str) -> str:
    """A place with the name of the object there."""
    metadata = part(item, "metadata")
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return place
    space = metadata.get("namespace") or ("default" if kind == "Pod" else "")
    return f"{place} ({shown_key((f'{space}/' if space else '') + metadata['name'])})".lstrip()


def in_note(place: str) -> str:
    """A place as notes have it, in parentheses: of a document that is one object its name alone."""
    return place[1:-1] if place.startswith("(") else place


def as_mapping(value: Any) -> Mapping[str, Any]:
    """A value, or an empty mapping in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def part(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of an object as given, empty if there is none."""
    return as_mapping(item.get(key))


def parts(item: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The mappings in a list that is a part of an object, none if it is none."""
    given = item.get(key)
    return [as_mapping(one) for one in given] if isinstance(given, list) else []


def key_of(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """The namespace and the name in the metadata of an object."""
    return str(metadata.get("namespace") or "default"), str(metadata.get("name"))


def add_unique(known: dict[str, tuple[Any, str]], thing: Any, place: str) -> None:
    """Add an object with its place under its name; `InvalidInstance` if there is one of this name."""
    other = known.setdefault(thing.name, (thing, place))
    if other[0] is not thing:
        raise InvalidInstance(f"{place} and {other[1]} are both named {thing.name!r}; keep one of them")
