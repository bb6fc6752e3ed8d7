"""Quotas as ResourceQuotas of Kubernetes, one for each namespace, which know no kinds of servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from fairopt.io.json_text import Name, Part, checked
from fairopt.io.kubernetes.quantities import Quantity
from fairopt.io.quotas.objects import object_name, quantity_of, quota_of, resource_name, yaml_list
from fairopt.io.quotas.quota import Quota, by_team

_REQUESTS = "requests."
_FIX = "give teams that are namespaces, another format, or name the teams to write (--team)"


def to_resource_quotas(rows: Iterable[Quota], comments: Sequence[str] = ()) -> str:
    """A list of ResourceQuotas named ``fairopt``."""
    items = []
    for team, quotas in by_team(rows).items():
        object_name(team, "namespace", _FIX)
        hard = {_hard(resource_name(row.resource)): quantity_of(row) for row in quotas}
        metadata = {"name": "fairopt", "namespace": team}
        items.append({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    return yaml_list(items, [*comments, "Kubernetes then refuses pods there that do not request what is limited."])


def _hard(name: str) -> str:
    return name if name == "pods" else f"{_REQUESTS}{name}"


class _Metadata(Part):
    namespace: Name = "default"


class _Spec(Part):
    hard: dict[str, Any] = Field(default_factory=dict)
    scopes: list[Any] = Field(default_factory=list)
    scopeSelector: Annotated[object, Field()] = None  # noqa: N815 - the name of Kubernetes


class _ResourceQuota(Part):
    metadata: _Metadata = Field(default_factory=_Metadata)
    spec: _Spec = Field(default_factory=_Spec)


class _Amounts(Part):
    hard: dict[str, Quantity]


def read_resource_quotas(items: Iterable[tuple[Mapping[str, Any], str]], name: str) -> list[Quota]:
    """The quotas in ResourceQuotas, given with their places in the file ``name``.

    Of several in a namespace the smallest counts, as in Kubernetes; those with scopes, which are for some pods only,
    are left out.
    """
    found: dict[tuple[str, str], Quota] = {}
    for item, place in items:
        one = checked(_ResourceQuota, item, name, place)
        if one.spec.scopes or one.spec.scopeSelector is not None:
            continue
        kept = {key: amount for key, amount in one.spec.hard.items() if _requested(key)}
        amounts = checked(_Amounts, {"hard": kept}, name, f"{place}.spec").hard
        for key, amount in amounts.items():
            quota = quota_of(one.metadata.namespace, _requested(key), "", amount)
            other = found.setdefault((quota.team, quota.resource), quota)
            if quota.amount < other.amount:
                found[quota.team, quota.resource] = quota
    return [*found.values()]


def _requested(key: str) -> str:
    """The resource whose requests are limited; ``""`` for other limits, as on the number of services."""
    if key.startswith(_REQUESTS):
        resource = key.removeprefix(_REQUESTS)
        return "" if resource == "storage" else resource
    return key if key in ("cpu", "memory", "ephemeral-storage", "pods") else ""
