"""What Kubernetes adds to pods: defaults of LimitRanges, overhead of RuntimeClasses, devices; and pods that it refuses.

Devices that pods claim (Dynamic Resource Allocation) are amounts of their DeviceClass, on servers that have some in
ResourceSlices, or where a capacity in place of nodes names the class. A class is what a driver publishes; classes with
further conditions are not counted. Kueue's Configuration may give classes other names, those of quotas. A ResourceClaim
that several pods name is one amount, of which each has a part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import Field

from fairopt.io import Notes, Part, checked, quantity
from fairopt_clusters.read.amounts import Name, Quantity
from fairopt_clusters.read.documents import objects_of
from fairopt_clusters.read.kubernetes.objects import (
    PODS,
    Object,
    Pod,
    PodSpec,
    as_mapping,
    at,
    at_places,
    key_of,
    listed,
    part,
    parts,
)
from fairopt_clusters.read.kubernetes.transformations import configurations_in
from fairopt_clusters.read.kubernetes.unread import QUEUE, gangs_of

Json = Mapping[str, Any]
_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*["']([^"']+)["']\s*""")


class _Defaults(Part):
    type: str = ""
    default: dict[str, Quantity] = Field(default_factory=dict)
    defaultRequest: dict[str, Quantity] = Field(default_factory=dict)  # noqa: N815 - the name in Kubernetes


class _LimitRange(Object):
    namespace: Name = at("metadata", "namespace", default="default")
    limits: list[_Defaults] = at("spec", "limits", default=list)


class _RuntimeClass(Object):
    name: Name = at("metadata", "name")
    overhead: dict[str, Quantity] = at("overhead", "podFixed", default=dict)


_CHECKED: dict[str, type[Object]] = {"LimitRange": _LimitRange, "RuntimeClass": _RuntimeClass}


class Additions:
    """What the objects of a list add to pods and servers in it."""

    def __init__(self, document: Json, name: str, capacity: Iterable[str] = ()) -> None:
        self._document, self._name = document, name
        of_kind = dict[str, list[tuple[tuple[str, str], Json, Json]]]()  # namespace and name, spec, object
        for item, place in at_places(document):
            if (model := _CHECKED.get(kind := str(item.get("kind")))) is not None:
                checked(model, item, name, place)
            of_kind.setdefault(kind, []).append((key_of(part(item, "metadata")), part(item, "spec"), item))

        def every(kind: str) -> Iterable[tuple[tuple[str, str], Json, Json]]:
            return of_kind.get(kind, ())

        self._defaults: dict[str, list[Json]] = {}  # as given, by namespace: limits, with what is requested
        for (space, _), spec, _ in every("LimitRange"):
            of_containers = [one for one in parts(spec, "limits") if one.get("type") == "Container"]
            self._defaults.setdefault(space, []).extend(of_containers)
        self._overheads = {one: part(part(item, "overhead"), "podFixed") for (_, one), _, item in every("RuntimeClass")}
        self._classes = {one: _driver(spec) for (_, one), spec, _ in every("DeviceClass")}  # drivers
        of_templates = ((key, part(spec, "spec")) for key, spec, _ in every("ResourceClaimTemplate"))
        self._claims = {key: part(spec, "devices").get("requests") for key, spec in of_templates}  # of templates
        self._named = {key: part(spec, "devices").get("requests") for key, spec, _ in every("ResourceClaim")}
        self._devices: dict[str, Counter[str]] = {}  # numbers by server and driver
        for _, spec, _ in every("ResourceSlice"):
            mine = self._devices.setdefault(str(spec.get("nodeName")), Counter())
            mine[str(spec.get("driver"))] += len(parts(spec, "devices"))
        groups = [(key, spec) for key, spec, _ in every("PodGroup")]
        self._queues = {key: spec["queue"] for key, spec in groups if isinstance(spec.get("queue"), str)}
        self._of_groups = {  # claims that the pods of a PodGroup share
            (*key, str(claim.get("name"))) for key, spec in groups for claim in parts(spec, "resourceClaims")
        }
        self.unknown = set[str]()  # classes that pods claim and that do not count
        quotas = [spec for _, spec, _ in every("ClusterQueue")]  # with some, queues of Kueue admit what these cover
        covered = {one for spec in quotas for one in _covered(spec)} if quotas else None
        nodes = "Node" in of_kind
        drivers = {driver for of in self._devices.values() for driver in of}
        known = {driver: driver for driver in drivers if driver not in self._classes} | self._classes
        self._names = _names_of_classes(document)
        if not nodes:  # quotas are all that there is
            known = dict.fromkeys([*self._names, *(covered or ())], "") | known
        self._known = {  # classes that count, with their drivers; one without an object has the name of its driver
            one: driver
            for one, driver in known.items()
            if (driver in drivers or not nodes) and (covered is None or self._names.get(one, one) in covered)
        } | {one: self._classes.get(one, "") for one in capacity}

    def all(self) -> Json:
        """The list, with what is added to servers, to pods that are not there yet, and claims."""
        return objects_of(((self._with(item), place) for item, place in self._items()), self._name)

    def _items(self) -> Iterator[tuple[Any, str]]:
        items = self._document["items"]
        return zip(items, items.places, strict=True)

    def _with(self, item: Any) -> Any:
        metadata = part(item, "metadata")
        if item.get("kind") == "Pod":
            return self.to_pod(item)
        devices = self._devices.get(str(metadata.get("name")))
        if item.get("kind") == "Node" and devices:
            status = part(item, "status")
            has = part(status, "allocatable") or part(status, "capacity")
            of_name: dict[str, set[str]] = {}
            for one, driver in self._known.items():
                of_name.setdefault(self._names.get(one, one), set()).add(driver)
            named = {one: sum(devices.get(driver, 0) for driver in of) for one, of in of_name.items()}
            named = {one: number for one, number in named.items() if number}
            return {**item, "status": {**status, "allocatable": {**named, **has}}}
        return item

    def to_pod(self, item: Any) -> Any:
        """A pod with what is added to it; defaults only if it is new."""
        if not isinstance(item, Mapping) or not isinstance(item.get("spec"), Mapping):
            return item
        return self.to_template(item, key_of(part(item, "metadata"))[0], new="status" not in item)

    def to_template(self, template: Any, namespace: str, new: bool = True) -> Any:
        """A template, or a pod, with what is added to it; defaults only if it is ``new``."""
        spec = template.get("spec") if isinstance(template, Mapping) else None
        if not isinstance(spec, Mapping):
            return template
        metadata = part(template, "metadata")
        queue = next(
            (self._queues[namespace, one] for one in gangs_of(template) if (namespace, one) in self._queues), None
        )
        if queue is not None:
            template = {**template, "metadata": {**metadata, "labels": {QUEUE: queue, **part(metadata, "labels")}}}
        spec = self._with_claims(spec, namespace)
        overhead = self._overheads.get(str(spec.get("runtimeClassName")))
        if new and overhead:
            spec = {**spec, "overhead": {**overhead, **part(spec, "overhead")}}
        for defaults in self._defaults.get(namespace, ()) if new else ():
            for key in ("containers", "initContainers"):
                if isinstance(spec.get(key), list):
                    spec = {**spec, key: [_with_defaults(one, defaults) for one in spec[key]]}
        return template if spec is template["spec"] else {**template, "spec": spec}

    def _with_claims(self, spec: Json, namespace: str) -> Json:
        """A spec in which claims of devices whose class is known are amounts."""
        if not isinstance(spec.get("resourceClaims"), list):
            return spec
        amounts, shared, others = dict[str, int](), dict[str, dict[str, int]](), []
        for claim in parts(spec, "resourceClaims"):
            named = str(claim.get("resourceClaimName") or "")
            key = (namespace, named or str(claim.get("resourceClaimTemplateName")))
            requests = (self._named if named else self._claims).get(key)
            of_group = (namespace, str(part(spec, "schedulingGroup").get("podGroupName")), str(claim.get("name")))
            named = named or "/".join(of_group[1:]) * (of_group in self._of_groups)
            devices = [_devices(one) for one in requests] if isinstance(requests, list) and requests else [("", 0)]
            if all(one in self._known for one, _ in devices):
                into = shared.setdefault(f"{namespace}/{named}", {}) if named else amounts
                for one, number in ((self._names.get(one, one), number) for one, number in devices):
                    into[one] = into.get(one, 0) + number
            else:
                others.append(claim)
                self.unknown |= {one for one, _ in devices if one and one not in self._known}
        overhead = {**part(spec, "overhead"), **amounts}
        return {**spec, "resourceClaims": others, "overhead": overhead, "sharedClaims": shared}


def _names_of_classes(document: Json) -> dict[str, str]:
    """The names that quotas of Kueue have for DeviceClasses, but for those of parts of devices."""
    out: dict[str, str] = {}
    for data, _ in configurations_in(zip(document["items"], document["items"].places, strict=True)):
        for one in parts(part(data, "resources"), "deviceClassMappings"):
            classes = one.get("deviceClassNames")
            if isinstance(classes, list) and not one.get("sources"):
                out |= dict.fromkeys(map(str, classes), str(one.get("name")))
    return out


def _driver(spec: Json) -> str:
    """The driver all of whose devices are in a DeviceClass, ``""`` if that is not all that it says."""
    expressions = [part(one, "cel").get("expression") for one in parts(spec, "selectors")]
    match = _DRIVER.fullmatch(str(expressions[0])) if len(expressions) == 1 else None
    return match[1] if match else ""


def _covered(spec: Json) -> Iterator[str]:
    for group in parts(spec, "resourceGroups"):
        covered = group.get("coveredResources")
        yield from map(str, covered if isinstance(covered, list) else ())


def _devices(request: Any) -> tuple[str, int]:
    """The class and the number of devices of a request; ``("", 0)`` for all, parts, or one of several classes."""
    exact = as_mapping(request)
    exact = part(exact, "exactly") or exact
    number = exact.get("count", 1)
    whole = exact.get("allocationMode", "ExactCount") == "ExactCount" and "capacity" not in exact
    if not whole or not isinstance(number, int):
        return "", 0
    return str(exact.get("deviceClassName", "")), number


def _with_defaults(container: Any, defaults: Json) -> Any:
    """A container with the defaults of a LimitRange; a limit of its own is also its request."""
    if not isinstance(container, Mapping):
        return container
    resources = part(container, "resources")
    limits, requests = part(resources, "limits"), part(resources, "requests")
    default = part(defaults, "default")
    requests = {**default, **part(defaults, "defaultRequest"), **limits, **requests}
    return {**container, "resources": {**resources, "limits": {**default, **limits}, "requests": requests}}


# -- ResourceQuotas -------------------------------------------------------------------------------------------


_COMMAND = "kubectl get resourcequotas -A -o json"
_KINDS = ("ResourceQuota", "ResourceQuotaList")
_MOST_NAMED = 5


class ResourceQuota(Object):
    """Limits of a namespace, and what its pods use of them."""

    name: Name = at("metadata", "name", default="fairopt")
    namespace: Name = at("metadata", "namespace", default="default")
    hard: dict[str, Any] = at("spec", "hard", default=dict)
    used: dict[str, Any] = at("status", "used", default=dict)
    scopes: list[Any] = at("spec", "scopes", default=list)
    scope_selector: object = at("spec", "scopeSelector", default=None)

    @property
    def is_scoped(self) -> bool:
        """Whether it is for some pods only."""
        return bool(self.scopes) or self.scope_selector is not None


def of_resource_quotas(document: Mapping[str, Any]) -> bool:
    """Whether a document has ResourceQuotas and nothing else."""
    kinds = {item.get("kind") for item in parts(document, "items") if item}
    return document.get("kind") in _KINDS or kinds == {"ResourceQuota"}


def read_resource_quotas(documents: Iterable[tuple[Mapping[str, Any], str]]) -> list[ResourceQuota]:
    """The ResourceQuotas in lists of objects, given with their names."""
    return [
        checked(ResourceQuota, item, name, place)
        for document, name in documents
        for _, item, place in listed(document, name, ("ResourceQuota",), _COMMAND, mixed=True)
    ]


def amount_of(spec: PodSpec, key: str) -> Fraction:
    """What a pod counts of a limit of a ResourceQuota, such as ``requests.cpu``, ``limits.memory`` or ``pods``."""
    if key in (PODS, "count/pods"):
        return Fraction(1)
    kind, _, resource = key.partition(".")
    if kind == "limits":
        return spec.limit.get(resource, Fraction(0))
    return spec.request.get(resource if kind == "requests" else key, Fraction(0))


@dataclass(frozen=True)
class _Limit:
    """One limit of a namespace: its name, its amount, and what is used of it."""

    key: str
    hard: Fraction
    used: Fraction


class FullQuotas:
    """What ResourceQuotas leave to further pods of their namespaces; those with scopes do not count."""

    def __init__(self, quotas: Sequence[ResourceQuota], pods: Sequence[Pod]) -> None:
        of_space: dict[str, list[Pod]] = {one.namespace: [] for one in quotas}
        for pod in pods:
            if pod.namespace in of_space and not pod.finished:
                of_space[pod.namespace].append(pod)
        self._limits: dict[str, list[_Limit]] = {}
        for one in quotas:
            for key, given in () if one.is_scoped else one.hard.items():
                known = one.used.get(key)
                mine = (amount_of(pod.spec, key) for pod in of_space[one.namespace])
                used = sum(mine, Fraction(0)) if known is None else quantity(known)
                self._limits.setdefault(one.namespace, []).append(_Limit(key, quantity(given), used))

    def bar(self, namespace: str, spec: PodSpec) -> _Limit | None:
        """A limit of a namespace that has no room for one more such pod."""
        for limit in self._limits.get(namespace, ()):
            amount = amount_of(spec, limit.key)
            if amount and limit.used + amount > limit.hard:
                return limit
        return None

    def barred(self, pods: Sequence[tuple[str, PodSpec]], notes: Notes, seen: bool) -> list[bool]:
        """Which pods, given with their namespaces, there may be more of than are listed, and notes.

        None with ``seen``, where the work of refused pods is listed elsewhere, as in Workloads of Kueue.
        """
        known: dict[tuple[str, str, int], _Limit | None] = {}
        full: dict[str, str] = {}
        out = []
        for namespace, spec in pods if self._limits else ():
            key = (namespace, spec.key, hash((*sorted(spec.request.items()), *sorted(spec.limit.items()))))
            if key not in known:
                known[key] = self.bar(namespace, spec)
            if (limit := known[key]) is not None:
                full.setdefault(namespace, f"{namespace} with {_shown(limit.used)} of {_shown(limit.hard)} {limit.key}")
            out.append(limit is not None and not seen)
        if full:
            what = "pods beyond a ResourceQuota are refused "
            what += (
                "though Kueue admits them, which answers leave out: give --limit QUEUE=AMOUNT; full are {those}"
                if seen
                else "and not seen here, and any number of them counts as waiting (--limit USER=NUMBER sets it); "
                "full are {those}"
            )
            notes.add(what, number=1, those=_listed(sorted(full.values())))
        zero = [
            f"{limit.key} of {namespace}"
            for namespace, limits in self._limits.items()
            for limit in limits
            if not limit.hard and not limit.used and (limit.key == PODS or limit.key.startswith("requests."))
        ]
        if zero:
            what = "pods that need what a ResourceQuota sets to 0 are refused and not seen here: {those}"
            notes.add(what, number=1, those=_listed(sorted(zero)))
        return out or [False] * len(pods)


def _shown(amount: Fraction) -> str:
    """An amount as a number, or in GiB."""
    return f"{float(amount / 2**30):,.6g}Gi" if amount >= 2**30 else f"{float(amount):,.6g}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
