"""Queue objects of the KAI Scheduler, ``scheduling.run.ai/v2``.

Quotas and limits are in millicores, megabytes and GPUs; -1 is unlimited, and a limit that is 0 or missing allows
nothing beyond the quota (``docs/queues`` of KAI).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import shown
from fairopt_clusters.read.amounts import matching, number, part_of, quantities
from fairopt_clusters.read.queues.tree import Queue

GROUPS = ("scheduling.run.ai", "kai.scheduler")
LABELS = ("kai.scheduler/queue", "runai/queue")
DEFAULT = "default-queue"
UNITS = {"gpu": 1.0, "cpu": 1e-3, "memory": 1e6 / 2**30}  # in pieces, cores and GiB
_NOT_MODELLED = ("preemptMinRuntime", "reclaimMinRuntime")
_FIX = "give a number >= 0, or -1 for no limit"


def queue_of(item: Mapping[str, Any], name: str, place: str) -> Queue:
    """A Queue object."""
    spec = item.get("spec") or {}
    guarantee, limit, weights = {}, {}, {}
    notes = {key: str(spec[key]) for key in _NOT_MODELLED if spec.get(key) is not None}
    for resource, unit in UNITS.items():
        given = part_of(spec, "resources", resource)
        if given is None:
            continue
        where = f"{place}.spec.resources.{resource}"
        if not isinstance(given, Mapping):
            raise InvalidInstance(f"{where} is {shown(given)}; give quota, limit and overQuotaWeight")
        quota, most = (number(given.get(key) or 0, f"{where}.{key}", -1, _FIX) for key in ("quota", "limit"))
        weights[resource] = number(given.get("overQuotaWeight") or 0, f"{where}.overQuotaWeight")
        if quota >= 0:
            guarantee[resource] = quota * unit
        else:
            notes[f"an unlimited quota of {resource}"] = "-1"
        if most >= 0 and quota >= 0:
            limit[resource] = max(quota, most) * unit
    priority = spec.get("priority")
    return Queue(
        name,
        str(spec.get("parentQueue") or ""),
        weights.get("gpu", next(iter(weights.values()), 1.0)),
        guarantee,
        limit,
        weights=weights,
        priority=None if priority is None else int(number(priority, f"{place}.spec.priority", -(2.0**31))),
        request=_of_status(item, "requested", place),
        used=_of_status(item, "allocated", place) or {},
        created=seconds(part_of(item, "metadata", "creationTimestamp")) or 0.0,
        notes=notes,
        place=place,
    )


def _of_status(item: Mapping[str, Any], key: str, place: str) -> dict[str, float] | None:
    """What KAI says that the pods of a queue request, those that run included, or hold; None if it does not."""
    given = part_of(item, "status", key)
    if given is None:
        return None
    amounts = quantities(given, f"{place}.status.{key}")
    known = {name: found for name in UNITS if (found := matching(name, amounts)) is not None}
    return {name: amounts[found] for name, found in known.items()}


def seconds(time: Any) -> float | None:
    """A time of Kubernetes in seconds since 1970, None where there is none."""
    try:
        return datetime.fromisoformat(time).timestamp() if isinstance(time, str) else None
    except ValueError:
        return None
