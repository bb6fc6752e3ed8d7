"""Lists of objects of Kubernetes, as YAML, and their names and quantities."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import in_units, unit_of
from fairopt_clusters.quotas.quota import Quota, is_memory
from fairopt_clusters.read.kubernetes.kueue import APPLIED

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OWN = ("cpu", "memory", "ephemeral-storage", "pods")  # resources of Kubernetes without a domain
_GPU = "nvidia.com/gpu"
_OF_SERVER = ("status",)  # what the server of Kubernetes writes
_OF_METADATA = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


def as_applied(item: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an object without what the server of Kubernetes writes, as ``kubectl apply`` takes it."""
    made = {key: copy.deepcopy(value) for key, value in item.items() if key not in _OF_SERVER}
    metadata = {key: value for key, value in made["metadata"].items() if key not in _OF_METADATA}
    applied = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != APPLIED}
    metadata.pop("annotations", None)
    return made | {"metadata": metadata | ({"annotations": applied} if applied else {})}


def yaml_list(items: Sequence[Mapping[str, Any]], comments: Sequence[str] = ()) -> str:
    """A list of objects as YAML, below lines of comments."""
    from fairopt.io import yaml_text  # takes a twentieth of a second, which other formats need not spend

    lines = "".join(f"# {comment}\n" for comment in comments)
    return lines + yaml_text({"apiVersion": "v1", "kind": "List", "items": list(items)})


def object_name(name: str, kind: str, fix: str, dots: bool = False) -> str:
    """The name, if an object of Kubernetes can have it; ``dots`` allows several parts."""
    parts = name.split(".") if dots else [name]
    if len(name) <= (253 if dots else 63) and all(map(_LABEL.fullmatch, parts)):
        return name
    allowed = "lower-case letters, digits and '-'" + ", and dots" * dots
    raise InvalidInstance(f"{name!r} cannot be the name of a {kind}, which has {allowed} only; {fix}")


def resource_name(resource: str) -> str:
    """The name of a resource in Kubernetes; ``gpu`` is NVIDIA's."""
    if "/" in resource or resource in _OWN or resource.startswith("hugepages-"):
        return resource
    if resource == "gpu":
        return _GPU
    raise InvalidInstance(
        f"Kubernetes has no resource {resource!r}; name it as pods request it, such as example.com/{resource}, or name "
        "the resources to write without it (--resource)"
    )


def quantity_of(row: Quota) -> str:
    """The amount as a quantity, such as ``1500m``, ``64Gi`` or ``8``."""
    if not row.amount:
        return "0"
    if row.is_cpu:
        return str(row.steps // 1000) if row.steps % 1000 == 0 else f"{row.steps}m"
    if is_memory(row.unit):
        return f"{row.steps // 1024}Gi" if row.steps % 1024 == 0 else f"{row.steps}Mi"
    if unit_of(row.resource) == "GiB":
        raise InvalidInstance(
            f"the unit of {row.resource!r} is {row.unit or 'unknown'!r}; give it in GiB or MiB, as the column "
            f"'{row.resource} [GiB]'"
        )
    return str(row.steps)


def quota_of(team: str, resource: str, flavor: str, amount: Fraction) -> Quota:
    """A quota in cores, GiB or pieces, given in cores, bytes or pieces."""
    return Quota(team, resource, flavor, in_units(amount, resource), unit_of(resource))
