"""ClusterQueues and Cohorts of Kueue as a tree: quotas are guarantees, by ``flavor:resource`` if flavors differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.quantities import in_units, part_of, quantities, quantity_at
from fairopt.io.queues.tree import Queue, QueueTree

GROUP = "kueue.x-k8s.io"
_FIELDS = ("nominalQuota", "lendingLimit", "borrowingLimit")
_FIX = "give a list, as kubectl get clusterqueues,cohorts -o json does"


def tree_of(objects: Iterable[tuple[Mapping[str, Any], str]]) -> QueueTree | None:
    """The tree of the ClusterQueues among objects, given with their places, None if there are none."""
    found = list[Queue]()
    for item, place in objects:
        kind, group = item.get("kind"), str(item.get("apiVersion") or "").partition("/")[0]
        if group == GROUP and kind in ("ClusterQueue", "Cohort"):
            found.append(_queue_of(item, kind == "Cohort", place))
    if not found:
        return None
    known = {queue.name for queue in found}
    implied = dict.fromkeys(queue.parent for queue in found if queue.parent and queue.parent not in known)
    flavors = {name.partition(":")[0] for queue in found for name in queue.guarantee}
    queues = (*map(Queue, implied), *found)
    return QueueTree("Kueue", tuple(map(_without_flavor, queues)) if len(flavors) == 1 else queues)


def _queue_of(item: Mapping[str, Any], is_cohort: bool, place: str) -> Queue:
    """A ClusterQueue or Cohort, of any version."""
    name, spec = part_of(item, "metadata", "name"), item.get("spec") or {}
    if not isinstance(name, str) or not name or not isinstance(spec, Mapping):
        raise InvalidInstance(f"{place} has no metadata.name, or a spec that is no object; give it both")
    place += f" ({shown(name)})"
    above = ("parentName", "parent") if is_cohort else ("cohortName", "cohort")
    parent = next((str(spec[key]) for key in above if spec.get(key)), "")
    amounts: dict[str, dict[str, float]] = {key: {} for key in _FIELDS}
    for j, group in enumerate(_list(spec.get("resourceGroups"), f"{place}.spec.resourceGroups")):
        where = f"{place}.spec.resourceGroups[{j}].flavors"
        for flavor in _list(part_of(group, "flavors"), where):
            for one in _list(part_of(flavor, "resources"), f"{where}.resources"):
                if not isinstance(one, Mapping):
                    raise InvalidInstance(f"{where}.resources has {shown(one)}; give name and nominalQuota")
                for key in _FIELDS:
                    resource = str(one.get("name"))
                    if one.get(key) is not None:
                        for named, amount in quantities({resource: one[key]}, f"{where}.{key}").items():
                            amounts[key][f"{part_of(flavor, 'name')}:{named}"] = amount
    given = part_of(spec, "fairSharing", "weight")
    weight = 1.0 if given is None else in_units(quantity_at(given, f"{place}.spec.fairSharing.weight"), "weight")
    nominal, lending, borrowing = (amounts[key] for key in _FIELDS)
    request: dict[str, float] | None = {} if is_cohort else None  # a cohort without queues asks for nothing
    return Queue(name, parent, weight, nominal, request=request, lending=lending, borrowing=borrowing, place=place)


def _list(given: Any, place: str) -> list[Any]:
    """A list, or none."""
    if given is not None and not isinstance(given, list):
        raise InvalidInstance(f"{place} is {shown(given)}; {_FIX}")
    return given or []


def _without_flavor(queue: Queue) -> Queue:
    """A queue whose amounts have the names of resources alone."""

    def plain(amounts: Mapping[str, float]) -> dict[str, float]:
        return {name.partition(":")[2]: amount for name, amount in amounts.items()}

    return Queue(
        queue.name,
        queue.parent,
        queue.weight,
        plain(queue.guarantee),
        request=queue.request,
        lending=plain(queue.lending),
        borrowing=plain(queue.borrowing),
        place=queue.place,
    )
