"""ClusterQueues and Cohorts of Kueue as a tree: quotas are guarantees, by ``flavor:resource`` if flavors differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fairopt.io import Notes, checked, in_units, shown
from fairopt_clusters.read.kubernetes.kueue import GROUP, ClusterQueue, Cohort, Preemption, read_kueue
from fairopt_clusters.read.kubernetes.kueue import Workload as Submitted
from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload

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
    for flavor, one in given.quotas():
        limits = (lending, one.lendingLimit), (borrowing, one.borrowingLimit)
        for amounts, amount in ((nominal, one.nominalQuota), *limits):
            if amount is not None:
                amounts[f"{flavor}:{one.name}"] = in_units(amount, one.name)
    return Queue(
        given.name,
        given.parent if isinstance(given, Cohort) else given.cohort,
        float(given.fair_sharing.weight),
        nominal,
        request={} if isinstance(given, Cohort) else None,  # a cohort without queues asks for nothing
        lending=lending,
        borrowing=borrowing,
        notes={} if isinstance(given, Cohort) else _rules(given.preemption),
        place=f"{place} ({shown(given.name)})",
    )


def workloads_of(objects: Mapping[str, Any], name: str) -> tuple[list[Workload], list[Workload], list[str]]:
    """The Workloads among objects: those that run, the one admitted first at first; those that wait, by age; and notes.

    Kueue tries flavors one after the other, so that those that wait in a queue of several are left out.
    """
    known, notes = read_kueue([(objects, name)], mixed=True), Notes()
    plain = len({flavor for flavor, _ in known.nominal}) == 1
    made = [str(one.metadata.get("creationTimestamp") or "") for one in known.workloads.values()]
    ages = {time: float(k) for k, time in enumerate(sorted({*made}))}
    runs, waits = list[tuple[str, Workload]](), list[Workload]()
    for (name, one), time in zip(known.workloads.items(), made, strict=True):
        local = known.local_queues.get(f"{one.namespace}/{one.queue}")
        queue = one.admission.clusterQueue or ("" if local is None else local.cluster_queue)
        if one.finished or not one.active or one.other_cluster or queue not in known.cluster_queues:
            notes.add("{workload} that {is} finished, not active, or in no known queue {was} left out", name)
        elif not one.admitted and known.stop(queue, local):
            notes.add("{workload} in a stopped queue {was} left out", name)
        elif (uses := _uses(one, known.cluster_queues[queue], plain)) is None:
            notes.add(
                "{workload} that {waits} for one of several flavors, or a resource without quota, {was} left out", name
            )
        else:
            workload = Workload(queue, uses, one.priority or 0, ages[time], name)
            if one.admitted:
                runs.append((one.admitted_at, workload))
            else:
                waits.append(workload)
    runs.sort(key=lambda one: one[0])
    waits.sort(key=lambda one: one.created)
    return [one for _, one in runs], waits, notes.sentences()


def _rules(given: Preemption) -> dict[str, str]:
    """On whom a queue may preempt."""
    notes = {"reclaimWithinCohort": given.reclaimWithinCohort, "withinClusterQueue": given.withinClusterQueue}
    if (borrowing := given.borrowWithinCohort) is not None:
        notes["borrowWithinCohort"] = borrowing.policy
        if borrowing.maxPriorityThreshold is not None:
            notes["maxPriorityThreshold"] = str(borrowing.maxPriorityThreshold)
    return notes


def _uses(one: Submitted, queue: ClusterQueue, plain: bool) -> dict[str, float] | None:
    """What a Workload uses, or asks for, of the quotas of its queue; None if that is not known."""
    flavors = {name: [of.name for of in group.flavors] for group in queue.groups for name in sorted(group.covered)}
    done, out = {of.name: of.count for of in one.reclaimable}, dict[str, float]()
    for part in one.pod_sets:
        given = one.assignment(part)
        admitted = part.count if given.count is None else given.count
        count = max(0, admitted - done.get(part.name, 0))
        request = part.template.spec.request
        if not one.admitted and not flavors.keys() >= request.keys():
            return None
        for name, several in flavors.items():
            each = (
                given.resourceUsage[name] / max(1, admitted)
                if name in given.resourceUsage
                else (part.template.spec.requests(name))
            )
            if not count or not each:
                continue
            if name not in given.flavors and len(several) > 1:
                return None
            key = name if plain else f"{given.flavors.get(name, several[0])}:{name}"
            out[key] = out.get(key, 0.0) + in_units(each * count, name)
    return out


def _without_flavor(queue: Queue) -> Queue:
    """A queue whose amounts have the names of resources alone."""

    def plain(amounts: Mapping[str, float]) -> dict[str, float]:
        return {name.partition(":")[2]: amount for name, amount in amounts.items()}

    return replace(
        queue, guarantee=plain(queue.guarantee), lending=plain(queue.lending), borrowing=plain(queue.borrowing)
    )
