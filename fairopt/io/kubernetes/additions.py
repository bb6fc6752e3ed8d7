"""What Kubernetes adds to pods when they are made: defaults of LimitRanges, overhead of RuntimeClasses; and devices.

Devices that pods claim (Dynamic Resource Allocation) are amounts of their DeviceClass, on servers that have some in
ResourceSlices. A class is what a driver publishes; classes with further conditions are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from fairopt.io.documents import objects_of
from fairopt.io.json_text import Name, Part, checked
from fairopt.io.kubernetes.objects import Object, as_mapping, at, at_places, part
from fairopt.io.kubernetes.quantities import Quantity
from fairopt.io.kubernetes.unread import QUEUE, gangs_of

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


class Additions:
    """What the objects of a list add to pods and servers in it."""

    def __init__(self, document: Json, name: str) -> None:
        self._document, self._name = document, name
        self._defaults: dict[str, list[Json]] = {}  # as given, by namespace: limits, with what is requested
        self._overheads: dict[str, Json] = {}
        self._classes: dict[str, str] = {}  # drivers by DeviceClass
        self._claims: dict[tuple[str, str], Any] = {}
        self._devices: dict[str, dict[str, int]] = {}  # numbers by server and driver
        self._queues: dict[tuple[str, str], str] = {}  # of PodGroups
        covered: set[str] | None = None  # by quotas, without which queues of Kueue admit no pod
        for item, place in at_places(document):
            metadata, spec = part(item, "metadata"), part(item, "spec")
            space, kind = str(metadata.get("namespace") or "default"), item.get("kind")
            if kind == "LimitRange":
                checked(_LimitRange, item, name, place)
                self._defaults.setdefault(space, []).extend(
                    one for one in spec.get("limits") or () if as_mapping(one).get("type") == "Container"
                )
            elif kind == "RuntimeClass":
                checked(_RuntimeClass, item, name, place)
                self._overheads[str(metadata.get("name"))] = part(part(item, "overhead"), "podFixed")
            elif kind == "DeviceClass":
                self._classes[str(metadata.get("name"))] = _driver(spec)
            elif kind == "ResourceClaimTemplate":
                self._claims[space, str(metadata.get("name"))] = part(part(spec, "spec"), "devices").get("requests")
            elif kind == "ResourceSlice" and isinstance(spec.get("devices"), list):
                mine = self._devices.setdefault(str(spec.get("nodeName")), {})
                driver = str(spec.get("driver"))
                mine[driver] = mine.get(driver, 0) + len(spec["devices"])
            elif kind == "PodGroup" and isinstance(spec.get("queue"), str):
                self._queues[space, str(metadata.get("name"))] = spec["queue"]
            elif kind == "ClusterQueue":
                covered = {*(covered or ()), *_covered(spec)}
        drivers = {driver for of in self._devices.values() for driver in of}
        known = {driver: driver for driver in drivers if driver not in self._classes} | self._classes
        self._known = {  # classes that count, with their drivers; one without an object has the name of its driver
            one: driver for one, driver in known.items() if driver in drivers and (covered is None or one in covered)
        }

    def all(self) -> Json:
        """The list, with what is added to servers, to pods that are not there yet, and claims."""
        return objects_of(((self._with(item), place) for item, place in self._items()), self._name)

    def _items(self) -> Iterator[tuple[Any, str]]:
        items = self._document["items"]
        return zip(items, items.places, strict=True)

    def _with(self, item: Any) -> Any:
        metadata = part(item, "metadata")
        if item.get("kind") == "Pod" and isinstance(item.get("spec"), Mapping):
            space = str(metadata.get("namespace") or "default")
            queue = next((self._queues[space, one] for one in gangs_of(item) if (space, one) in self._queues), None)
            if queue is not None:
                item = {**item, "metadata": {**metadata, "labels": {QUEUE: queue, **part(metadata, "labels")}}}
            return self.to_template(item, space, new="status" not in item)
        devices = self._devices.get(str(metadata.get("name")))
        if item.get("kind") == "Node" and devices:
            status = part(item, "status")
            has = part(status, "allocatable") or part(status, "capacity")
            named = {one: devices[driver] for one, driver in self._known.items() if driver in devices}
            return {**item, "status": {**status, "allocatable": {**named, **has}}}
        return item

    def to_template(self, template: Any, namespace: str, new: bool = True) -> Any:
        """A template, or a pod, with what is added to it; defaults only if it is ``new``."""
        spec = template.get("spec") if isinstance(template, Mapping) else None
        if not isinstance(spec, Mapping):
            return template
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
        claims = spec.get("resourceClaims")
        if not isinstance(claims, list):
            return spec
        amounts, others = dict[str, int](), []
        for claim in claims:
            requests = self._claims.get((namespace, str(as_mapping(claim).get("resourceClaimTemplateName"))))
            found = [_devices(one) for one in requests] if isinstance(requests, list) and requests else [("", 0)]
            if all(one in self._known for one, _ in found):
                for one, number in found:
                    amounts[one] = amounts.get(one, 0) + number
            else:
                others.append(claim)
        return {**spec, "resourceClaims": others, "overhead": {**part(spec, "overhead"), **amounts}}


def _driver(spec: Json) -> str:
    """The driver all of whose devices are in a DeviceClass, ``""`` if that is not all that it says."""
    selectors = spec.get("selectors")
    found = [part(as_mapping(one), "cel").get("expression") for one in selectors] if isinstance(selectors, list) else []
    match = _DRIVER.fullmatch(str(found[0])) if len(found) == 1 else None
    return match[1] if match else ""


def _covered(spec: Json) -> Iterator[str]:
    groups = spec.get("resourceGroups")
    for group in groups if isinstance(groups, list) else ():
        covered = as_mapping(group).get("coveredResources")
        yield from (str(one) for one in (covered if isinstance(covered, list) else ()))


def _devices(request: Any) -> tuple[str, int]:
    """The class and the number of devices of a request; ``("", 0)`` if it asks for all, or for one of some classes."""
    exact = as_mapping(request)
    exact = part(exact, "exactly") or exact
    number = exact.get("count", 1)
    if exact.get("allocationMode", "ExactCount") != "ExactCount" or not isinstance(number, int):
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
