"""ClusterQueues and Cohorts of Kueue as a tree: quotas are guarantees, by ``flavor:resource`` if flavors differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from fairopt.io import Notes, checked, in_units, shown
from fairopt_clusters.read.amounts import part_of
from fairopt_clusters.read.documents import objects_of
from fairopt_clusters.read.kubernetes.additions import Additions
from fairopt_clusters.read.kubernetes.kueue import (
    GROUP,
    ClusterQueue,
    Cohort,
    KueueObjects,
    PodSet,
    Template,
    TopologyRequest,
    read_kueue,
)
from fairopt_clusters.read.kubernetes.kueue import Workload as Given
from fairopt_clusters.read.kubernetes.manifests import expanded, with_manifests
from fairopt_clusters.read.kubernetes.objects import PODS, PodSpec, read_nodes, read_pods
from fairopt_clusters.read.kubernetes.queues import Queues, Tasks
from fairopt_clusters.read.kubernetes.topology import fits_nowhere
from fairopt_clusters.read.kubernetes.transformations import configurations_in, transformations_in, with_outputs
from fairopt_clusters.read.queues.kai import seconds
from fairopt_clusters.read.queues.tree import Part, Queue, QueueTree, Workload

_MODELS: dict[str, type[ClusterQueue | Cohort]] = {"ClusterQueue": ClusterQueue, "Cohort": Cohort}


def tree_of(objects: Iterable[tuple[Mapping[str, Any], str]]) -> QueueTree | None:
    """The tree of the ClusterQueues among objects, given with their places, None if there are none."""
    named = list[Queue]()
    for item, place in objects:
        model = _MODELS.get(str(item.get("kind")))
        if model is not None and str(item.get("apiVersion") or GROUP).partition("/")[0] == GROUP:
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
    every = given.amounts(in_units, in_force=True)
    nominal, lending, borrowing = ({f"{of}:{name}": x for (of, name), x in amounts.items()} for amounts in every)
    return Queue(
        given.name,
        given.parent if isinstance(given, Cohort) else given.cohort,
        float(given.fair_sharing.weight),
        nominal,
        request={} if isinstance(given, Cohort) else None,  # a cohort without queues asks for nothing
        lending=lending,
        borrowing=borrowing,
        notes={} if isinstance(given, Cohort) else _rules(given),
        place=f"{place} ({shown(given.name)})",
    )


class Submitted(NamedTuple):
    """What is in a queue, started whole or not at all.

    Times are in seconds, None where they are not known.
    """

    workload: Workload
    runs: bool = False
    created: float | None = None
    started: float | None = None
    ended: float | None = None


class InQueues(NamedTuple):
    """What Workloads, other objects with templates, and pods among objects ask for in ClusterQueues; and notes.

    What is ``never`` admitted is not among these, and says why. ``fair`` says whether fair sharing is on by Kueue's
    Configuration, None without one.
    """

    submitted: list[Submitted]
    notes: list[str]
    never: dict[str, str]
    fair: bool | None = None

    @property
    def runs(self) -> list[Workload]:
        """What runs, the one admitted first at first."""
        return [one.workload for one in sorted(self.submitted, key=lambda one: one.started or 0.0) if one.runs]

    @property
    def waits(self) -> list[Workload]:
        """What waits, by age."""
        return sorted((one.workload for one in self.submitted if not one.runs), key=lambda one: one.created)


def submitted_in(objects: Mapping[str, Any], name: str) -> InQueues:
    """What is in the ClusterQueues among objects.

    A set of pods has the flavors of its queue that their rules allow, in order, and of those that run the one that
    Kueue has given them.
    """
    objects, notes = expanded(objects_of([(objects, "")], name), name), Notes()
    added = Additions(objects, name)
    objects = added.all()
    placed = [*zip(objects["items"], objects["items"].places, strict=True)]
    found = with_manifests(read_kueue([(objects, name)], mixed=True), objects, name, notes, added)
    given = read_pods(objects, name, mixed=True)
    given, workloads, _ = with_outputs(transformations_in(placed, notes), given, found.workloads, [], Notes())
    found = replace(found, workloads=workloads)
    groups: dict[tuple[str, bool], list[Tasks]] = {}
    pods = [pod for pod in given if not pod.finished and not pod.belongs_to_server]
    for one in Queues(found, {}, Notes(), in_units).tasks(pods):
        if one.queue is not None and (one.is_held or not one.stop):
            groups.setdefault((one.workload or one.name, one.is_held), []).append(one)
        elif one.workload and found.cluster_queues:
            why = "in a stopped queue" if one.stop else "in no queue that is there"
            notes.add(f"{{workload}} {why} {{was}} left out", one.workload)
    out, plain, never = list[Submitted](), is_plain(found), dict[str, str]()
    nodes = read_nodes(objects, name, mixed=True)
    for (of, runs), tasks in groups.items():
        queue, known = str(tasks[0].queue), found.workloads.get(of)
        known = None if known is not None and known.least == 1 else known  # its pods start one by one
        if not runs and found.excludes(queue, tasks[0].namespace):
            notes.add("{workload} in a namespace that its queue does not select {was} left out", of)
            continue
        if not runs and known is not None and (of, True) in groups:
            continue  # pods of what runs
        parts = tuple(parts_in(sets_of(tasks, known), found, queue, plain, known if runs else None))
        missing = next((name for name, part in parts if not part.ways), None)
        why = "" if runs or known is None else fits_nowhere(known, nodes, found.flavors)
        if why := why if missing is None else f"no flavor of {queue} for its {missing}":
            notes.add("{workload} that can never start {was} left out", f"{of}: {why}")
            never[of] = why
            continue
        created = None if known is None else seconds(known.metadata.get("creationTimestamp"))
        started = None if known is None else seconds(known.admitted_at)
        priority = 0 if known is None else known.priority or 0
        uses = dict[str, float]()
        for _, part in parts:
            for cell, amount in part.ways[0].items():
                uses[cell] = uses.get(cell, 0.0) + amount
        choices = tuple(part for _, part in parts)
        out.append(Submitted(Workload(queue, uses, priority, created or 0.0, of, choices), runs, created, started))
    strict = [name for name, one in found.cluster_queues.items() if one.queueing == "StrictFIFO"]
    what = "{cluster queue} with StrictFIFO: what comes first there and cannot start stops all behind it"
    notes.add(what, *(name for name in strict if any(one.workload.queue == name for one in out)))
    switches = [part_of(one, "fairSharing") for one, _ in configurations_in(placed)]
    fair = None if not switches else any(one is not None and part_of(one, "enable") is not False for one in switches)
    return InQueues(out, notes.sentences(), never, fair)


def is_plain(found: KueueObjects) -> bool:
    """Whether there is one flavor alone, which amounts then do not name."""
    return len({flavor for flavor, _ in found.nominal}) == 1


def sets_of(tasks: Sequence[Tasks], workload: Given | None) -> list[PodSet]:
    """The sets of pods of a Workload, less those that are done; without one those of equal tasks."""
    if workload is None:
        alike = dict[str, list[Tasks]]()
        for one in tasks:
            alike.setdefault(f"{one.spec.key} {sorted(one.spec.request.items())}", []).append(one)
        return [
            PodSet.model_construct(
                name=first.name,
                count=int(sum(one.count for one in (first, *others))),
                minCount=1,
                template=Template.model_construct(labels={}, annotations={}, spec=first.spec),
                topologyRequest=TopologyRequest(),
            )
            for first, *others in alike.values()
        ]
    done = {one.name: one.count for one in workload.reclaimable}
    sets = list[PodSet]()
    for part in workload.pod_sets:
        admitted = workload.assignment(part).count
        count = max(0, (part.count if admitted is None else admitted) - done.get(part.name, 0))
        least = workload.least if workload.least is not None and len(workload.pod_sets) == 1 else part.minCount
        sets += [part.model_copy(update={"count": count, "minCount": least})] * (count > 0)
    return sets


def parts_in(
    sets: Sequence[PodSet], found: KueueObjects, queue: str, plain: bool, admitted: Given | None = None
) -> Iterator[tuple[str, Part]]:
    """What sets of pods use of each group of resources of their queue, in the flavors that they may have.

    Sets of one group of a topology have one flavor. What is ``admitted`` has the flavors and amounts that Kueue says.
    """
    covers, together = found.cluster_queues[queue].covers, dict[str, list[PodSet]]()
    group_of = {name: group for group in found.cluster_queues[queue].groups for name in group.covered}
    for k, one in enumerate(sets):
        together.setdefault(one.topologyRequest.podSetGroupName or f"{k}", []).append(one)
    for of in together.values():
        needs = dict[str, Fraction]()
        for one in of:
            given = None if admitted is None else admitted.assignment(one)
            for name in (*one.template.spec.request, PODS):
                each = one.template.spec.requests(name)
                if given is not None and name in given.resourceUsage:
                    each = given.resourceUsage[name] / max(1, given.count or one.count)
                needs[name] = needs.get(name, Fraction(0)) + each * one.count
        flavors = {} if admitted is None else {k: v for one in of for k, v in admitted.assignment(one).flavors.items()}
        spare = sum(one.count - one.least for one in of)
        for name in needs if admitted is None else ():
            if not covers(name) and name != PODS:
                yield name, Part(())
        for group in found.cluster_queues[queue].groups:
            mine = {name: in_units(needs[name], name) for name in sorted(needs) if group_of.get(name) is group}
            able = [one.name for one in group.flavors if {*mine} <= {quota.name for quota in one.resources}]
            if held := {flavors.get(name) for name in mine} & {*able}:
                able = [name for name in able if name in held]
            elif admitted is None:
                known = found.flavors
                able = [name for name in able if name not in known or all(map(known[name].takes, _specs(of)))]
            ways = tuple({(n if plain else f"{one}:{n}"): amount for n, amount in mine.items()} for one in able)
            if mine:
                yield next(iter(mine)), Part(ways, sum(one.count for one in of), spare)


def _specs(sets: Iterable[PodSet]) -> list[PodSpec]:
    return [one.template.spec for one in sets]


def ways_of(needs: Mapping[str, float], found: KueueObjects, queue: str) -> Iterator[dict[str, float]]:
    """What a workload that needs amounts uses by flavor and resource, for each flavor of its queue that has all."""
    plain = is_plain(found)
    for group in found.cluster_queues[queue].groups:
        for flavor in group.flavors if needs.keys() <= group.covered else ():
            yield {(name if plain else f"{flavor.name}:{name}"): amount for name, amount in needs.items()}


def _rules(queue: ClusterQueue) -> dict[str, str]:
    """Whom a queue may preempt, in what order it tries flavors, and what waits for what comes first."""
    given, flavors = queue.preemption, queue.fungibility
    notes = {"reclaimWithinCohort": given.reclaimWithinCohort, "withinClusterQueue": given.withinClusterQueue}
    others = {"queueingStrategy": queue.queueing, **flavors.model_dump()}
    notes |= {key: value for key, value in others.items() if value not in (None, "BestEffortFIFO")}
    if (borrowing := given.borrowWithinCohort) is not None:
        notes["borrowWithinCohort"] = borrowing.policy
        if borrowing.maxPriorityThreshold is not None:
            notes["maxPriorityThreshold"] = str(borrowing.maxPriorityThreshold)
    return notes


def _without_flavor(queue: Queue) -> Queue:
    """A queue whose amounts have the names of resources alone."""

    def plain(amounts: Mapping[str, float]) -> dict[str, float]:
        return {name.partition(":")[2]: amount for name, amount in amounts.items()}

    return replace(
        queue, guarantee=plain(queue.guarantee), lending=plain(queue.lending), borrowing=plain(queue.borrowing)
    )
