"""ClusterQueues and Cohorts of Kueue as a tree: quotas are guarantees, by ``flavor:resource`` if flavors differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fairopt.io.json_text import checked, shown
from fairopt.io.kubernetes.kueue import GROUP, ClusterQueue, Cohort
from fairopt.io.quantities import in_units
from fairopt.io.queues.tree import Queue, QueueTree

_MODELS: dict[str, type[ClusterQueue | Cohort]] = {"ClusterQueue": ClusterQueue, "Cohort": Cohort}


def tree_of(objects: Iterable[tuple[Mapping[str, Any], str]]) -> QueueTree | None:
    """The tree of the ClusterQueues among objects, given with their places, None if there are none."""
    named = list[Queue]()
    for item, place in objects:
        model = _MODELS.get(str(item.get("kind")))
        if model is not None and str(item.get("apiVersion") or "").partition("/")[0] == GROUP:
            named.append(_queue_of(checked(model, item, place), place))
    if not named:
        return None
    known = {queue.name for queue in named}
    implied = dict.fromkeys(queue.parent for queue in named if queue.parent and queue.parent not in known)
    flavors = {name.partition(":")[0] for queue in named for name in queue.guarantee}
    queues = (*map(Queue, implied), *named)
    return QueueTree("Kueue", tuple(map(_without_flavor, queues)) if len(flavors) == 1 else queues)


def _queue_of(given: ClusterQueue | Cohort, place: str) -> Queue:
    """A ClusterQueue or Cohort, with the borrowing limits that are in force."""
    nominal, lending, borrowing = dict[str, float](), dict[str, float](), dict[str, float]()
    for group in given.groups:
        for flavor in group.flavors:
            for one in flavor.resources:
                quotas = ((nominal, one.nominalQuota), (lending, one.lendingLimit), (borrowing, one.borrowingLimit))
                for amounts, amount in quotas:
                    if amount is not None:
                        amounts[f"{flavor.name}:{one.name}"] = in_units(amount, one.name)
    return Queue(
        given.name,
        given.parent if isinstance(given, Cohort) else given.cohort,
        float(given.fair_sharing.weight),
        nominal,
        request={} if isinstance(given, Cohort) else None,  # a cohort without queues asks for nothing
        lending=lending,
        borrowing=borrowing,
        place=f"{place} ({shown(given.name)})",
    )


def _without_flavor(queue: Queue) -> Queue:
    """A queue whose amounts have the names of resources alone."""

    def plain(amounts: Mapping[str, float]) -> dict[str, float]:
        return {name.partition(":")[2]: amount for name, amount in amounts.items()}

    return replace(
        queue, guarantee=plain(queue.guarantee), lending=plain(queue.lending), borrowing=plain(queue.borrowing)
    )
