"""Quotas as ResourceQuotas of Kubernetes, one for each namespace, which know no kinds of servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import checked, quantity, quantity_at
from fairopt_clusters.quotas.objects import as_applied, object_name, quantity_of, quota_of, resource_name, yaml_list
from fairopt_clusters.quotas.quota import Quota, by_team
from fairopt_clusters.read.kubernetes.additions import ResourceQuota

Raw = Mapping[str, Any]
_REQUESTS = "requests."
_STORAGE = ("requests.storage", "ephemeral-storage", "persistentvolumeclaims")  # ends of names of limits on storage
_NO_PODS = (  # names of limits on what are no pods
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
_FIX = "give teams that are namespaces, another format, or name the teams to write (--team)"


def to_resource_quotas(
    rows: Iterable[Quota],
    present: Sequence[Raw] | None = None,
    comments: Sequence[str] = (),
    tasks: Mapping[str, int] | None = None,
) -> tuple[str, list[str]]:
    """A list of ResourceQuotas, and notes. ``tasks`` are the numbers of pods for which namespaces have their quotas.

    Kubernetes enforces the smallest of several limits. So each object of ``present`` that limits a resource is written
    again by its name with the new amount, and keeps its other limits. What no object limits goes to the first of the
    namespace, or to a new one named ``fairopt``. Objects with scopes, which are for some pods only, stay.
    """
    items, notes, scoped = list[Raw](), list[str](), dict[str, list[str]]()
    if present is None:
        notes.append(
            "present ResourceQuotas are not known: if a namespace has one, the smaller limit stays in effect; give the "
            "output of kubectl get resourcequotas -A -o json, in the input or by --present"
        )
    of_space: dict[str, list[dict[str, Any]]] = {}
    for item in present or ():
        one = checked(ResourceQuota, item, "present quotas", "items")
        if one.is_scoped:
            scoped.setdefault(one.namespace, []).append(one.name)
            continue
        given = as_applied({"metadata": {}, "spec": {}, **item})
        given["metadata"] |= {"name": one.name, "namespace": one.namespace}
        given["spec"] = {**(given["spec"] or {}), "hard": dict(one.hard)}
        of_space.setdefault(one.namespace, []).append(given)
    for team, quotas in by_team(rows).items():
        object_name(team, "namespace", _FIX)
        new = {resource_name(row.resource): quantity_of(row) for row in quotas}
        mine = sorted(of_space.get(team, ()), key=lambda item: str(item["metadata"]["name"]))
        left = dict(new)
        for item in mine:
            hard = item["spec"]["hard"]
            for key in [key for key in hard if _requested(key) in new]:
                hard[key] = new[_requested(key)]
                left.pop(_requested(key), None)
        if left and not mine:
            mine = [{"metadata": {"name": "fairopt", "namespace": team}, "spec": {"hard": {}}}]
        if left:
            mine[0]["spec"]["hard"] |= {_hard(name): amount for name, amount in left.items()}
        head = {"apiVersion": "v1", "kind": "ResourceQuota"}
        written = [item for item in mine if any(_requested(key) in new for key in item["spec"]["hard"])]
        items += [head | item for item in written]
        if team in of_space:
            names = ", ".join(str(item["metadata"]["name"]) for item in written)
            beside = _beside(mine, new, (tasks or {}).get(team))
            added = [_hard(name) for name in left if any(new.keys() - left.keys())]
            parts = [f"in effect after this is applied are these amounts, in its own ResourceQuota {names}"]
            parts += [f"limited for the first time: {', '.join(added)}"] if added else []
            parts += [f"{words}: {', '.join(found)}" for words, found in beside.items() if found]
            notes.append(f"{team}: {'; '.join(parts)}")
        if team in scoped:
            notes.append(f"{team}: limits of {', '.join(scoped[team])}, which has scopes, stay in effect beside these")
    refused = [
        name
        for name in ("cpu", "memory")
        if any(_requested(key) == name for item in items for key in item["spec"]["hard"])
    ]
    if refused:
        what = f"Kubernetes then refuses pods there that request no {' or no '.join(refused)}, where it is limited,"
        comments = [*comments, *notes, f"{what} and pods beyond these amounts, which then appear nowhere."]
    else:
        comments = [*comments, *notes, "Kubernetes then refuses pods beyond these amounts, which then appear nowhere."]
    return yaml_list(items, comments), notes


def _beside(items: Sequence[Raw], new: Mapping[str, str], tasks: int | None) -> dict[str, list[str]]:
    """The limits of a namespace that stay beside new ones: those that bind first, and others that may.

    Limits of containers (``limits.cpu``) are at least their requests, and ``pods`` counts tasks.
    """
    binding, other = list[str](), list[str]()
    for item in items:
        for key, given in item["spec"]["hard"].items():
            name = key.removeprefix("limits.")
            if _requested(key) in new or key in _NO_PODS or key.endswith(_STORAGE):
                continue
            try:
                amount = quantity(given)
            except InvalidInstance:
                continue
            above, fair = False, ""
            if key in ("pods", "count/pods") and tasks is not None:
                above, fair = amount < tasks, f"{tasks:,} are fair"
            elif key.startswith("limits.") and name in new:
                above, fair = amount < quantity(new[name]), f"requests may be {new[name]}"
            text = f"{key} {given}" + f" ({fair})" * above
            (binding if above else other).append(text)
    return {"below them, and so what binds, are": binding, "beside them stay": other}


def _hard(name: str) -> str:
    return name if name == "pods" else f"{_REQUESTS}{name}"


def present_amounts(items: Sequence[Raw]) -> list[Quota]:
    """The quotas in ResourceQuotas of an input."""
    return read_resource_quotas(((item, "items") for item in items), "present quotas")


def read_resource_quotas(items: Iterable[tuple[Mapping[str, Any], str]], name: str) -> list[Quota]:
    """The quotas in ResourceQuotas, given with their places in the file ``name``.

    Of several in a namespace the smallest counts, as in Kubernetes; those with scopes, which are for some pods only,
    are left out.
    """
    quotas: dict[tuple[str, str], Quota] = {}
    for item, place in items:
        one = checked(ResourceQuota, item, name, place)
        if one.is_scoped:
            continue
        for key, amount in one.hard.items():
            if not (resource := _requested(key)):
                continue
            quota = quota_of(one.namespace, resource, "", quantity_at(amount, f"{name}: {place}.spec.hard.{key}"))
            other = quotas.setdefault((quota.team, quota.resource), quota)
            if quota.amount < other.amount:
                quotas[quota.team, quota.resource] = quota
    return [*quotas.values()]


def _requested(key: str) -> str:
    """The resource whose requests are limited; ``""`` for other limits, as on the number of services."""
    if key.startswith(_REQUESTS):
        resource = key.removeprefix(_REQUESTS)
        return "" if resource == "storage" else resource
    return key if key in ("cpu", "memory", "ephemeral-storage", "pods") else ""
