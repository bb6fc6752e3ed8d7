"""ClusterQueues and Cohorts of Kueue as a tree: quotas are guarantees, by ``flavor:resource`` if flavors differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product
from typing import Any, NamedTuple

from fairopt.io import Notes, checked, in_units, shown
from fairopt_clusters.read.documents import objects_of
from fairopt_clusters.read.kubernetes.additions import Additions
from fairopt_clusters.read.kubernetes.kueue import (
    GROUP,
    ClusterQueue,
    Cohort,
    KueueObjects,
    Preemption,
    ResourceFlavor,
    read_kueue,
)
from fairopt_clusters.read.kubernetes.kueue import Workload as Given
from fairopt_clusters.read.kubernetes.manifests import expanded, with_manifests
from fairopt_clusters.read.kubernetes.objects import read_pods
from fairopt_clusters.read.kubernetes.queues import Queues, Tasks
from fairopt_clusters.read.queues.kai import seconds
from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload

MOST_WAYS = 256  # choices of flavors for the parts of a workload that are tried

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


class Submitted(NamedTuple):
    """What is in a queue, started whole or not at all: what it may use in each choice of flavors, in Kueue's order.

    Of what ``runs`` that is one. Times are in seconds, None where they are not known.
    """

    workload: Workload
    ways: tuple[Mapping[str, float], ...]
    runs: bool = False
    created: float | None = None
    started: float | None = None
    ended: float | None = None


def submitted_in(objects: Mapping[str, Any], name: str) -> tuple[list[Submitted], list[str]]:
    """What Workloads, other objects with templates, and pods among objects ask for in ClusterQueues; and notes.

    As in Kueue by default, the first flavors come first that the rules of the pods allow.
    """
    objects, notes = expanded(objects_of([(objects, "")], name), name), Notes()
    added = Additions(objects, name)
    objects = added.all()
    found = with_manifests(read_kueue([(objects, name)], mixed=True), objects, name, notes, added)
    plain = len({flavor for flavor, _ in found.nominal}) == 1
    groups: dict[tuple[str, bool], list[Tasks]] = {}
    pods = [pod for pod in read_pods(objects, name, mixed=True) if not pod.finished and not pod.belongs_to_server]
    for one in Queues(found, {}, Notes(), in_units).tasks(pods):
        if one.queue is not None and (one.is_held or not one.stop):
            groups.setdefault((one.workload or one.name, one.is_held), []).append(one)
    out = list[Submitted]()
    for (of, runs), tasks in groups.items():
        queue, known = str(tasks[0].queue), found.workloads.get(of)
        ways = tuple(_ways(tasks, found, queue, plain))
        if not ways:
            notes.add("{workload} for which its queue has no flavor {was} left out", of)
            continue
        created = None if known is None else seconds(known.metadata.get("creationTimestamp"))
        started = None if known is None else seconds(known.admitted_at)
        priority = 0 if known is None else known.priority or 0
        out.append(Submitted(Workload(queue, ways[0], priority, created or 0.0, of), ways, runs, created, started))
    return out, notes.sentences()


def ways_of(needs: Mapping[str, float], found: KueueObjects, queue: str) -> Iterator[dict[str, float]]:
    """What a workload that needs amounts uses by flavor and resource, for each flavor of its queue that has all."""
    plain = len({flavor for flavor, _ in found.nominal}) == 1
    for group in found.cluster_queues[queue].groups:
        for flavor in group.flavors if needs.keys() <= group.covered else ():
            yield {(name if plain else f"{flavor.name}:{name}"): amount for name, amount in needs.items()}


def _ways(tasks: Sequence[Tasks], found: KueueObjects, queue: str, plain: bool) -> Iterator[dict[str, float]]:
    """What tasks use by flavor and resource, for each choice of flavors that rules of pods and taints allow."""
    choices, covers = list[list[dict[str, float]]](), found.cluster_queues[queue].covers
    if not tasks[0].is_held and not all(covers(name) for one in tasks for name in one.spec.request):
        return
    for one in tasks:
        for group in found.cluster_queues[queue].groups:
            names = [name for name in sorted(group.covered) if one.spec.requests(name)]
            needs = {name: in_units(one.spec.requests(name) * Fraction(one.count), name) for name in names}
            flavors = [of.name for of in group.flavors if {*names} <= {quota.name for quota in of.resources}]
            held = {(one.assigned or {}).get(name) for name in names} & {*flavors}
            able = [of for of in flavors if (of in held if held else _takes(found.flavors.get(of), one))]
            if names:
                choices.append([{(n if plain else f"{of}:{n}"): amount for n, amount in needs.items()} for of in able])
    for parts in islice(product(*choices), MOST_WAYS):
        uses = dict[str, float]()
        for cell, amount in (entry for part in parts for entry in part.items()):
            uses[cell] = uses.get(cell, 0.0) + amount
        yield uses


def _takes(flavor: ResourceFlavor | None, tasks: Tasks) -> bool:
    """Whether tasks may run on servers of a flavor, by its taints and by labels that both name."""
    if flavor is None:
        return True
    wanted = tasks.spec.nodeSelector
    labels = all(wanted.get(key, value) == value for key, value in flavor.node_labels.items())
    return labels and tasks.spec.tolerates(flavor.taints, flavor.tolerations)


def _rules(given: Preemption) -> dict[str, str]:
    """On whom a queue may preempt."""
    notes = {"reclaimWithinCohort": given.reclaimWithinCohort, "withinClusterQueue": given.withinClusterQueue}
    if (borrowing := given.borrowWithinCohort) is not None:
        notes["borrowWithinCohort"] = borrowing.policy
        if borrowing.maxPriorityThreshold is not None:
            notes["maxPriorityThreshold"] = str(borrowing.maxPriorityThreshold)
    return notes


def _uses(one: Given, queue: ClusterQueue, plain: bool) -> dict[str, float] | None:
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
