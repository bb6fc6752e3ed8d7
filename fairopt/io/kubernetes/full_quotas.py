"""Namespaces that hold all of a ResourceQuota: Kubernetes refuses further pods, so that no list of pods has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fairopt.io.json_text import Name, checked
from fairopt.io.kubernetes.objects import PODS, Object, Pod, PodSpec, at, listed
from fairopt.io.kubernetes.quantities import quantity
from fairopt.io.notes import Notes

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
    items = document.get("items")
    kinds = [item.get("kind") for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return document.get("kind") in _KINDS or (bool(kinds) and {*kinds} == {"ResourceQuota"})


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
            what = (
                "pods beyond a ResourceQuota are refused and not seen here, and any number of them counts as waiting "
            )
            what += "(--limit USER=NUMBER sets it); full are {those}"
            if seen:
                what = (
                    "pods beyond a ResourceQuota are refused though Kueue admits them, which answers leave out: give "
                )
                what += "--limit QUEUE=AMOUNT; full are {those}"
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
