"""What the objects of Kueue say of a cluster: waiting pods, the team of each pod, what is owed, limits, placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import Any, Literal

import numpy as np

from fairopt.errors import nearest
from fairopt.io import About, Notes, shown
from fairopt.runtime import Bool, Float
from fairopt_clusters.read.kubernetes.cohorts import Cohorts
from fairopt_clusters.read.kubernetes.kueue import (
    GROUP,
    JOB_UID,
    LOCAL_QUEUE,
    KueueObjects,
    PodSet,
    ResourceFlavor,
    ResourceGroup,
    Workload,
)
from fairopt_clusters.read.kubernetes.objects import PODS, Node, Pod, PodSpec, is_extended
from fairopt_clusters.read.kubernetes.placement import Taint, Toleration
from fairopt_clusters.read.kubernetes.unread import queue_named
from fairopt_clusters.read.queues.cohorts import MOST_AHEAD, MOST_LENDERS, QueueNode
from fairopt_clusters.read.queues.teams import labels_of, positive
from fairopt_clusters.read.secured import Entitlement, Limit, Owed

_WORKLOAD, _POD_GROUP = f"{GROUP}/workload", f"{GROUP}/pod-group-name"
_CLUSTER_QUEUE = f"{GROUP}/cluster-queue-name"
_JOB_NAMES = (  # labels of pods with the name of the job that a Workload is of
    "batch.kubernetes.io/job-name",
    "job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "volcano.sh/job-name",
    "sparkoperator.k8s.io/app-name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "ray.io/originated-from-cr-name",
)
_ROUNDED = 1 + 1e-9  # on capacities
_OF_KUBERNETES = ("cpu", "memory", "ephemeral-storage", PODS)
_POD_SET = f"{GROUP}/podset"
_GATE = f"{GROUP}/admission"
_DEFAULT = "default"  # the LocalQueue of jobs that name none
_ANY = ResourceFlavor.model_validate({"metadata": {"name": "any"}})  # for a flavor without an object
_Link = tuple[str, ...]
_Asked = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class Tasks:
    """Equal pods: one that exists, or those of a Workload that are not there yet. ``queue`` is their ClusterQueue.

    ``assigned`` are the flavors by resource that Kueue holds for them, None if it has not admitted their Workload.
    ``stop`` is how their queues are stopped. ``owner`` is their queue of another scheduler, and ``workload`` the name
    of their Workload.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec
    count: float = 1.0
    runs_on: str | None = None
    queue: str | None = None
    assigned: Mapping[str, str] | None = None
    stop: Literal["", "hold", "drain"] = ""
    owner: str | None = None
    workload: str = ""

    @property
    def is_held(self) -> bool:
        """Whether they run, or Kueue has admitted them."""
        return self.runs_on is not None or self.assigned is not None


class Queues:
    """The ClusterQueues, and what is in them.

    ``parents`` are the uids of the owners of objects that are no pods, by uid, such as those of a Job in a JobSet.
    ``taints`` are those of servers.
    """

    def __init__(
        self,
        found: KueueObjects,
        parents: Mapping[str, Collection[str]],
        notes: Notes,
        amount: Callable[[Fraction, str], float],
        taints: Collection[Taint] = (),
    ) -> None:
        self._found, self._parents, self._notes = found, parents, notes
        self._tainted = {taint.key for taint in taints if taint.effect == "NoSchedule"}
        self._cohorts, self._amount = Cohorts(found, amount), amount
        self._unknown = set[str]()  # flavors
        self._selecting: dict[str, str] = {}  # a label of namespaces that a queue asks for
        self._shared = set[tuple[str, str]]()  # flavors and queues with servers of several flavors
        self._queue_of: dict[str, str] = {}  # of a LocalQueue's namespace and name
        for name, local in found.local_queues.items():
            if local.cluster_queue in found.cluster_queues:
                self._queue_of[name] = local.cluster_queue
            elif found.cluster_queues:
                fix = nearest(local.cluster_queue, found.cluster_queues)
                notes.add(
                    "{local queue} of a cluster queue that is not there: its pods and workloads are in no queue",
                    f"{name} of {shown(local.cluster_queue)}; {fix}",
                )

    def __bool__(self) -> bool:
        return bool(self._found.cluster_queues)

    # -- pods ---------------------------------------------------------------------------------------------------

    def tasks(self, pods: Sequence[Pod]) -> Iterator[Tasks]:
        """The pods, with their ClusterQueues, and those of the pod sets of Workloads that are not among them."""
        waiting = dict(self._waiting())
        known: dict[_Link, Workload] = {}
        for workload in waiting.values():
            for link in self._links_of_workload(workload):
                known.setdefault(link, workload)
        seen = Counter[tuple[str, str]]()  # pods by Workload and set
        workloads = [next((known[link] for link in self._links_of_pod(pod) if link in known), None) for pod in pods]
        queues = [self._queue_of_pod(pod, mine) for pod, mine in zip(pods, workloads, strict=True)]
        given = self._given_selectors(pods, workloads, queues)
        for pod, mine, queue in zip(pods, workloads, queues, strict=True):
            part = None if mine is None else _part_of(pod, mine)
            assigned = None
            if mine is not None:
                seen[mine.name, "" if part is None else part.name] += 1
                if mine.admitted:
                    assigned = {} if part is None else mine.assignment(part).flavors
            elif queue is not None and self._admitted(pod):
                assigned = {}
            of_kueue = part if mine is not None and mine.of == "Workload" else None
            spec = self._as_given(pod, of_kueue, queue, given)
            local = pod.labels.get(LOCAL_QUEUE) or ("" if mine is None else mine.queue)
            stop = self._stop(queue, f"{pod.namespace}/{local}")
            labels = {**({} if mine is None else mine.labels), **queue_named(pod.annotations), **pod.labels}
            of = "" if mine is None else mine.name
            yield Tasks(pod.name, pod.namespace, labels, spec, 1.0, pod.runs_on, queue, assigned, stop, workload=of)
        self._note_workloads(waiting)
        for workload in waiting.values():
            yield from self._pod_sets(workload, seen)

    def _stop(self, queue: str | None, local: str) -> Literal["", "hold", "drain"]:
        """How what is in a ClusterQueue, by a LocalQueue, is stopped."""
        return "" if queue is None else self._found.stop(queue, self._found.local_queues.get(local))

    def _waiting(self) -> Iterator[tuple[str, Workload]]:
        """The Workloads that count."""
        for name, workload in self._found.workloads.items():
            if workload.finished:
                self._notes.add("{finished workload} {was} left out", name)
            elif not workload.active:
                self._notes.add("{workload} that {is} not active {was} left out", name)
            elif workload.other_cluster:
                self._notes.add("{workload} on another cluster {was} left out", f"{name} on {workload.other_cluster}")
            else:
                yield name, workload

    def _note_workloads(self, waiting: Mapping[str, Workload]) -> None:
        """Say what of Workloads is not modelled."""
        if len({one.priority for one in waiting.values()}) > 1:
            ranked = [name for name, one in waiting.items() if one.priority]
            self._notes.add(
                "the priorities of {workload} are left out: within a queue kinds of pods share evenly", *ranked
            )
        of_kueue = [name for name, one in waiting.items() if one.of == "Workload" and one.together]
        what = "{workload} of several pods, which Kueue admits whole: here pods are counted one by one"
        self._notes.add(what, *of_kueue)
        others = {name: one.together for name, one in waiting.items() if one.of != "Workload" and one.together}
        what = "{object} with pods that start together or not at all: counted one by one"
        self._notes.add(what, *(f"{name}: {number} pods" for name, number in others.items()))

    # -- what Kueue adds to pods ----------------------------------------------------------------------------------

    def _as_given(self, pod: Pod, part: PodSet | None, queue: str | None, given: Collection[_Asked]) -> PodSpec:
        """The pod as its owner gave it: Kueue adds the labels of the flavor and its tolerations where it is admitted.

        Placement is that of its set of pods in the Workload. Without that, labels of a flavor of its queue are taken
        off a pod that Kueue admitted, unless pods that wait ask for the same.
        """
        if part is not None:
            return self._tolerant(pod.spec.placed_as(part.template.spec), pod.name, 1)
        if queue is None or not self._admitted(pod):
            return pod.spec
        for flavor in self._flavors_of(queue):
            added = self._found.flavors[flavor].node_labels if flavor in self._found.flavors else {}
            if added and added.items() <= pod.spec.nodeSelector.items() and _asked(pod, queue) not in given:
                what = "labels of flavors in the node selectors of {pod} count as added by Kueue, and not as asked for"
                self._notes.add(what, pod.name)
                return pod.spec.without_labels(added)
        return pod.spec

    def _tolerant(self, spec: PodSpec, name: str, number: int) -> PodSpec:
        """A template with what Kubernetes adds to its pods: tolerations of taints named as resources they request."""
        keys = sorted(self._tainted & spec.extended)
        keys = [key for key in keys if not spec.tolerates([Taint(key=key, effect="NoSchedule")])]
        what = "{pod} of templates {is} taken to tolerate {taints} of servers, as ExtendedResourceToleration adds"
        self._notes.add(what, name, number=number * bool(keys), taints="the taint " + " and ".join(keys))
        return spec.tolerating(keys)

    def _given_selectors(
        self, pods: Sequence[Pod], found: Sequence[Workload | None], queues: Sequence[str | None]
    ) -> set[_Asked]:
        """The requests and node selectors of pods that wait for Kueue, which are as their owners gave them."""
        return {
            _asked(pod, queue)
            for pod, mine, queue in zip(pods, found, queues, strict=True)
            if queue is not None and mine is None and not self._admitted(pod)
        }

    def _admitted(self, pod: Pod) -> bool:
        """Whether Kueue has admitted a pod of a queue."""
        return pod.runs_on is not None or (self._is_marked(pod) and not _is_gated(pod))

    def _is_marked(self, pod: Pod) -> bool:
        """Whether Kueue has put a mark on a pod."""
        return _POD_SET in pod.labels or _WORKLOAD in pod.annotations or _is_gated(pod)

    def _flavors_of(self, queue: str) -> list[str]:
        groups = self._found.cluster_queues[queue].groups
        return list(dict.fromkeys(flavor.name for group in groups for flavor in group.flavors))

    def _pod_sets(self, workload: Workload, seen: Mapping[tuple[str, str], int]) -> Iterator[Tasks]:
        """The pods of a Workload that are not there: of each set all that it counts, less those done and those seen."""
        queue = self._queue_of_workload(workload)
        if queue is None and self and workload.queue:
            self._notes.add("{workload} in no known cluster queue", f"{workload.name} in {shown(workload.queue)}")
        done = {one.name: one.count for one in workload.reclaimable}
        of_some_set, stop = (
            seen.get((workload.name, ""), 0),
            self._stop(queue, f"{workload.namespace}/{workload.queue}"),
        )
        for part in workload.pod_sets:
            admitted = workload.assignment(part)
            count = part.count if admitted.count is None else min(part.count, admitted.count)
            count = max(0, count - done.get(part.name, 0) - seen.get((workload.name, part.name), 0))
            count, of_some_set = max(0, count - of_some_set), max(0, of_some_set - count)
            name = workload.name if len(workload.pod_sets) == 1 else f"{workload.name}/{part.name}"
            labels = {**workload.labels, **queue_named(part.template.annotations), **part.template.labels}
            waits = count * (not workload.admitted)
            self._notes.add("{pod} of workloads that are not there yet {counts} as waiting", name, number=waits)
            if count:
                spec = self._tolerant(part.template.spec, name, count)
                assigned = admitted.flavors if workload.admitted else None
                space, of = workload.namespace, workload.name
                yield Tasks(name, space, labels, spec, float(count), None, queue, assigned, stop, workload=of)

    def _queue_of_workload(self, workload: Workload) -> str | None:
        admitted = workload.admission.clusterQueue
        if admitted in self._found.cluster_queues:
            return admitted
        return self._queue_of.get(f"{workload.namespace}/{workload.queue}")

    def _queue_of_pod(self, pod: Pod, workload: Workload | None) -> str | None:
        """The ClusterQueue of a pod: of its Workload or its labels.

        Of a pod with Kueue's marks and nothing more it is that of the LocalQueue ``default`` of its namespace, else of
        the first by name.
        """
        queue = None if workload is None else self._queue_of_workload(workload)
        if queue is None and pod.labels.get(_CLUSTER_QUEUE) in self._found.cluster_queues:
            queue = pod.labels[_CLUSTER_QUEUE]
        queue = queue or self._queue_of.get(f"{pod.namespace}/{pod.labels.get(LOCAL_QUEUE, '')}")
        if queue is not None or LOCAL_QUEUE in pod.labels or not self._is_marked(pod):
            return queue
        mine = sorted(name for name in self._queue_of if name.startswith(f"{pod.namespace}/"))
        for name in sorted(mine, key=lambda name: name != f"{pod.namespace}/{_DEFAULT}")[:1]:
            what = "{pod} of Kueue without the name of a queue {counts} for {name}"
            self._notes.add(what, pod.name, name=name)
            return self._queue_of[name]
        return None

    def _links_of_pod(self, pod: Pod) -> Iterator[_Link]:
        """What a pod may have in common with its Workload, the most certain first."""
        for key in (_WORKLOAD, _POD_GROUP):
            name = pod.annotations.get(key) or pod.labels.get(key)
            if isinstance(name, str):
                yield "workload", pod.namespace, name
        above = [pod.uid, *(owner.uid for owner in pod.owners)]
        for uid in above:  # grows
            if uid:
                yield "uid", uid
                above += [one for one in self._parents.get(uid, ()) if one not in above]
        for owner in pod.owners:
            yield "owner", pod.namespace, owner.kind, owner.name
            if owner.kind == "ReplicaSet":  # of a Deployment, with a hash after its name
                yield "owner", pod.namespace, "Deployment", owner.name.rpartition("-")[0]
        for key in _JOB_NAMES:
            if key in pod.labels:
                yield "job", pod.namespace, pod.labels[key]

    def _links_of_workload(self, workload: Workload) -> Iterator[_Link]:
        yield "workload", workload.namespace, workload.short_name
        for uid in (workload.labels.get(JOB_UID, ""), *(owner.uid for owner in workload.owners)):
            if uid:
                yield "uid", uid
        for owner in workload.owners:
            if owner.name:
                yield "owner", workload.namespace, owner.kind, owner.name
                yield "job", workload.namespace, owner.name

    # -- teams --------------------------------------------------------------------------------------------------

    def note_other_teams(self) -> None:
        """Say that quotas do not count where teams are not the ClusterQueues."""
        what = "the quotas and weights of {cluster queue} were left out, since teams are not cluster queues"
        self._notes.add(what, *self._found.cluster_queues)

    def split(self, tasks: Sequence[Tasks]) -> tuple[list[Tasks], list[Tasks]]:
        """The tasks in ClusterQueues, and those in none that run.

        Kueue counts the latter for nobody, whatever their namespace, and cannot move them.
        """
        outside = [one for one in tasks if one.queue is None]
        waiting = [one for one in outside if one.runs_on is None]
        what = "{waiting pod} in no cluster queue {was} left out: --users namespace shares among namespaces"
        self._notes.add(what, *(one.name for one in waiting), number=sum(one.count for one in waiting))
        return [one for one in tasks if one.queue is not None], [one for one in outside if one.runs_on is not None]

    def labels(self, owners: Collection[str]) -> tuple[dict[str, dict[str, str | None]], dict[str, str]]:
        """The labels of owners, and the shown names of cohorts.

        A cohort has one label everywhere: those at the top have the last, ``cohort2`` in a tree of two levels. A cohort
        with the name of an owner gets a mark.
        """
        paths = {owner: self._cohorts.above(owner) for owner in sorted(owners)}
        names = {one: one + " (cohort)" * (one in paths) for path in paths.values() for one in path}
        labels = labels_of({owner: [names[one] for one in path] for owner, path in paths.items()}, "cohort")
        alone = [owner for owner, path in paths.items() if not path and owner in self._found.cluster_queues]
        if names:
            self._notes.add(About("{cluster queue} in no cohort {counts} beside the cohorts at the top"), *alone)
        missing = sorted(names.keys() - self._found.cohorts.keys())
        self._notes.add("{cohort} without an object {counts} as one without a parent, as in Kueue", *missing)
        return labels, names

    def weights(self, owners: Collection[str], names: Mapping[str, str]) -> dict[str, float]:
        """The weights of ClusterQueues and cohorts."""
        given: dict[str, Fraction] = {}
        for owner in sorted(owners):
            if owner in self._found.cluster_queues:
                given[owner] = self._found.cluster_queues[owner].fair_sharing.weight
        for cohort, name in names.items():
            if cohort in self._found.cohorts:
                given[name] = self._found.cohorts[cohort].fair_sharing.weight
        what = "{team} with a fair sharing weight of 0 {counts} with a thousandth of the smallest other weight"
        return positive(given, what, self._notes)

    # -- what is owed, and limits -------------------------------------------------------------------------------

    def admissible(self, tasks: Sequence[Tasks]) -> list[Tasks]:
        """The tasks that Kueue may admit: of queues with quotas of all that they request, or something to borrow.

        What waits in a queue that is stopped or inactive is left out; what runs there counts, unless the queue is
        drained: then Kueue evicts it.

        Resources without a quota that admitted pods of some queue request are those that Kueue is set to ignore.
        """
        ignored, out = self._ignored(tasks), list[Tasks]()
        in_queues = {one.workload: one.queue for one in tasks if one.queue is not None and not one.is_held}
        listed = ((name, self._found.workloads.get(name), queue) for name, queue in in_queues.items())
        never = {name: why for name, one, of in listed if one is not None and (why := self._too_large(one, of))}
        unlike = {name for name in never if len(self._found.workloads[name].pod_sets) > 1}
        alike = [f"{name}: {why}" for name, why in never.items() if name not in unlike]
        self._notes.add("{workload} that Kueue never admits whole {counts} pod by pod all the same", *alike)
        for one in tasks:
            lacks = [] if one.queue is None else self._lacks(one, one.queue, ignored)
            if one.stop == "drain" and one.is_held:
                what = "{admitted pod} of queues that are drained {was} left out, as Kueue evicts them"
                self._notes.add(what, one.name, number=one.count)
            elif one.stop and not one.is_held:
                what = "{waiting pod} of queues that are stopped or inactive {was} left out"
                self._notes.add(what, one.name, number=one.count)
            elif why := self._not_selected(one):
                what = f"{{waiting pod}} {why} {{was}} left out"
                self._notes.add(what, one.name, number=one.count, queue=str(one.queue))
            elif lacks:
                what = "{pod} that Kueue can never admit, for want of a quota in {queue}, {was} left out"
                self._notes.add(what, f"{one.name}: {lacks[0]}", number=one.count, queue=str(one.queue))
            elif one.workload in unlike and not one.is_held:
                what = "{pod} of workloads of unlike pods that Kueue never admits whole {was} left out"
                self._notes.add(what, f"{one.workload}: {never[one.workload]}", number=one.count)
            elif one.queue is not None and not one.is_held and not self._may_have(one, one.queue):
                what = "{pod} of {queue}, which neither has nor may borrow what they request, {was} left out"
                self._notes.add(what, one.name, number=one.count, queue=one.queue)
            else:
                out.append(one)
        what = "{cluster queue} with a namespaceSelector by labels of namespaces that are not in the input: these count"
        self._notes.add(what, *(f"{queue}: {label}" for queue, label in self._selecting.items()))
        return out

    def _too_large(self, workload: Workload, queue: str) -> str:
        """Why the quotas of a queue never admit a Workload, if nobody else used anything; empty if they may."""
        if workload.least is not None or not workload.together:
            return ""
        branch, asked = self._cohorts.queues[queue], dict[str, Fraction]()
        for part in workload.pod_sets:
            for name, amount in part.template.spec.request.items():
                asked[name] = asked.get(name, Fraction(0)) + part.least * amount
        for group in self._found.cluster_queues[queue].groups:
            for name in sorted(asked.keys() & group.covered):
                wants = self._amount(asked[name], name)
                most = sum(max(0.0, branch.potential((flavor.name, name))) for flavor in group.flavors)
                if wants > most * _ROUNDED:
                    return f"asks for {wants:,.6g} {name}, and {queue} may have {most:,.6g}"
        return ""

    def _not_selected(self, tasks: Tasks) -> str:
        """Why tasks wait in a namespace from which their queue admits none, as far as the input tells; else empty."""
        if tasks.queue is None or tasks.is_held:
            return ""
        selector = self._found.cluster_queues[tasks.queue].namespaces
        if selector is None:
            return "of {queue}, whose namespaceSelector is null, which selects no namespace (an empty one selects all),"
        if self._found.excludes(tasks.queue, tasks.namespace):
            return "in namespaces that the namespaceSelector of {queue} leaves out"
        if tasks.namespace not in self._found.namespaces and selector.other_labels:
            self._selecting[tasks.queue] = selector.other_labels[0]
        return ""

    def _ignored(self, tasks: Sequence[Tasks]) -> set[str]:
        """Resources without a quota that admitted pods of some queue request."""
        out = set[str]()
        for one in tasks:
            if one.queue is not None and one.runs_on is not None:
                out |= {name for name in one.spec.request if not self._found.cluster_queues[one.queue].covers(name)}
        return out

    def _lacks(self, tasks: Tasks, queue: str, ignored: Collection[str]) -> list[str]:
        """The resources that tasks request and for which a queue has no quota."""
        covers = self._found.cluster_queues[queue].covers
        return [name for name in tasks.spec.request if not covers(name) and name not in ignored]

    def of_idle(self, tasks: Sequence[Tasks]) -> list[Tasks]:
        """For each queue without tasks those that all others have, as far as it may admit them."""
        busy = {one.queue for one in tasks}
        kinds: dict[tuple[str, frozenset[tuple[str, Fraction]]], Tasks] = {}
        for one in tasks:
            key = one.spec.key, frozenset(one.spec.request.items())
            count = one.count + (kinds[key].count if key in kinds else 0.0)
            kinds[key] = replace(kinds.get(key, one), count=count)
        ignored, out = self._ignored(tasks), list[Tasks]()
        for queue in sorted(self._found.cluster_queues.keys() - busy):
            may = [
                Tasks(queue, queue, {}, one.spec, one.count, None, queue)
                for one in kinds.values()
                if self._found.cluster_queues[queue].namespaces is not None
                and not self._lacks(one, queue, ignored)
                and self._may_have(one, queue)
            ]
            what = "{cluster queue} without pods {counts} with those of all others together"
            self._notes.add(what if may else "{cluster queue} without pods that it may admit {was} left out", queue)
            out += may
        return out

    def _may_have(self, tasks: Tasks, queue: str) -> bool:
        """Whether some flavor of each group has, or may borrow, of all that tasks request."""
        branch = self._cohorts.queues[queue]
        return all(
            any(all(branch.potential((flavor.name, name)) > 0 for name in names) for flavor in group.flavors)
            for group in self._found.cluster_queues[queue].groups
            if (names := [name for name in group.covered if tasks.spec.requests(name)])
        )

    def owed(
        self, places: Sequence[tuple[Tasks, Bool]], names: Mapping[str, str], servers: Servers, scaled: bool = True
    ) -> Owed:
        """What nominal quotas owe to queues, and to cohorts in cohorts; and the limits of queues and cohorts.

        ``places`` are tasks with the servers where they may run. With ``scaled`` quotas of a flavor beyond what its
        servers have, as far as tasks want them, are scaled.
        """
        of_queue: dict[str, list[tuple[Tasks, Bool]]] = {}
        for place in places:
            if place[0].queue is not None:
                of_queue.setdefault(place[0].queue, []).append(place)
        masks = {queue: self._masks(queue, servers) for queue in of_queue}
        of_team: dict[str, list[Entitlement]] = {queue: [] for queue in of_queue}
        limits, cells = list[Limit](), [cell for cell in self._cohorts.cells if cell[1] in servers.resources]
        most: dict[tuple[str, str], dict[str, float]] = {}
        for flavor, resource in cells:
            mine = {queue: of[flavor, resource] for queue, of in masks.items() if (flavor, resource) in of}
            most[flavor, resource] = wanted = {
                queue: sum(
                    one.count * servers.amount(one.spec.requests(resource), resource)
                    for one, able in of_queue[queue]
                    if (able & on).any()
                )
                for queue, on in mine.items()
            }
            nominal = {queue: self._cohorts.queues[queue].nominal[flavor, resource] for queue in mine}
            unused = [f"{resource} of {flavor} of {queue}" for queue in mine if nominal[queue] and not wanted[queue]]
            self._notes.add("{quota} of flavors where no pod of their queue may run {counts} for nothing", *unused)
            needed = sum(min(nominal[queue], wanted[queue]) for queue in mine)
            there = servers.total(self.servers_of(flavor, servers), resource)
            part = min(1.0, there / needed) if needed and scaled else 1.0
            what = "{quota} beyond what the servers of their flavors have: scaled to it, for all of their queues"
            example = f"{needed:,.6g} {resource} of {flavor}, of which there is {there:,.6g}"
            self._notes.add(what, example, number=part < 1 / _ROUNDED)
            for queue, on in mine.items():
                amount = nominal[queue] if part == 1 else part * min(nominal[queue], wanted[queue])
                of_team[queue].append(Entitlement(resource, amount, {queue: on}))
            limits += self._limits((flavor, resource), wanted, mine, servers)
        nested = any(one.parent for one in self._cohorts.cohorts.values())
        outer = self._of_cohorts(most, masks, names, servers) if nested else {}
        checked = [name for name in of_queue if self._found.cluster_queues[name].has_checks]
        self._notes.add("{cluster queue} with admission checks: not modelled", *checked)
        strict = [name for name in of_queue if self._found.cluster_queues[name].queueing == "StrictFIFO"]
        what = (
            "{cluster queue} with StrictFIFO, where what comes first and cannot start stops all behind it: not modelled"
        )
        self._notes.add(what, *strict)
        by_use = [name for name in of_queue if "FairSharing" in self._found.cluster_queues[name].admission_mode]
        what = "{cluster queue} that {shares} among local queues by past use: not modelled, their pods count together"
        self._notes.add(what, *by_use)
        own = {name for _, name in self._cohorts.cells if "/" not in name} - {*servers.resources, *_OF_KUBERNETES}
        what = "{quota} of what no pod requests: if Kueue's transformations make it of others, add its Configuration"
        self._notes.add(what, *own)
        self._note_rules(of_queue, limits)
        self._note_alike([able for _, able in places], limits, servers)
        return Owed(of_team, outer, limits, scaled=scaled)

    def _limits(
        self, cell: tuple[str, str], wanted: Mapping[str, float], masks: Mapping[str, Bool], servers: Servers
    ) -> Iterator[Limit]:
        """The limits of queues and cohorts on a resource of a flavor that some servers have."""
        (flavor, resource), made = cell, dict[tuple[tuple[str, ...], str], int]()
        every = [*self._cohorts.queues.values(), *self._cohorts.cohorts.values()]
        busy = {queue for queue, amount in wanted.items() if amount}
        beyond = _kept_from_all(every, cell, busy)
        for branch, one in self._cohorts.sums(cell, wanted):
            on = np.any([masks[queue] for queue in one.queues], axis=0)
            if one.amount <= 0 or not servers.total(on, resource):
                continue
            number = made[(), branch.name] = made.get(((), branch.name), 0) + 1
            name = f"{resource} of {flavor} in {'queue' if branch.is_queue else 'cohort'} {branch.name}"
            of = {queue: servers.as_tuple(masks[queue]) for queue in one.queues}
            rest = _kept_from(branch, cell, {*one.queues}, busy), -inf
            yield Limit(name + f" ({number})" * (number > 1), resource, one.amount, of, (*beyond, rest))

    def _of_cohorts(
        self,
        wanted: Mapping[tuple[str, str], Mapping[str, float]],
        masks: Mapping[str, Mapping[tuple[str, str], Bool]],
        names: Mapping[str, str],
        servers: Servers,
    ) -> dict[str, tuple[list[str], list[Entitlement]]]:
        """What cohorts in cohorts are owed: their quotas and those below them, the inner ones first.

        Others in their tree leave it to them, on the servers of each flavor, unless lending limits are there too.
        """
        paths = {queue: self._cohorts.above(queue) for queue in masks}
        depth = {name: len(path) - k for path in paths.values() for k, name in enumerate(path)}
        out: dict[str, tuple[list[str], list[Entitlement]]] = {}
        for cohort in sorted(depth, key=lambda name: -depth[name]):
            branch = self._cohorts.cohorts[cohort]
            inside = [queue for queue, path in paths.items() if cohort in path]
            if branch.parent is None:
                continue
            root, made = branch.above()[-1], list[Entitlement]()
            beside = [queue for queue, path in paths.items() if path[-1:] == [root.name] and queue not in inside]
            for cell, of_cell in wanted.items():
                amount, of_all = branch.quota.get(cell, 0.0), root.quota.get(cell, 0.0)
                name = f"{cell[1]} of {cell[0]} owed to cohort {cohort}"
                others = {queue: servers.as_tuple(masks[queue][cell]) for queue in beside if cell in masks[queue]}
                others = {} if root.lends(cell) or not amount else others
                for one in self._cohorts.uses(branch, cell, of_cell):
                    on = {queue: masks[queue][cell] for queue in one.queues}
                    made.append(Entitlement(cell[1], amount + one.amount, on, name, others, of_all))
            out[names[cohort]] = inside, made
        return out

    def unpromised(self, servers: Servers) -> list[str]:
        """The devices of servers, by flavors, that are in no quota of a queue or a cohort."""
        nominal, out = self._found.nominal, list[str]()
        on = {of: self.servers_of(of, servers) for of in sorted({*self._found.flavors, *(of for of, _ in nominal)})}
        named, by_label = {name for _, name in nominal}, {k for k, of in self._found.flavors.items() if of.node_labels}
        for resource in sorted({name for node in servers.nodes for name in node.has}):
            if not is_extended(resource) or not (resource in named or "gpu" in resource):
                continue
            promised, others = dict[frozenset[str], Fraction](), dict[frozenset[str], Fraction]()
            for s, node in enumerate(servers.nodes):
                mine = frozenset(of for of, mask in on.items() if mask[s] and of in by_label)
                known = frozenset(of for of, mask in on.items() if mask[s] and nominal.get((of, resource)))
                amount, sums = node.has.get(resource, Fraction(0)), promised if known else others
                for one in [one for one in promised if one & known]:  # flavors with common servers count together
                    amount, known = amount + promised.pop(one), known | one
                sums[known or mine] = sums.get(known or mine, Fraction(0)) + amount
            for of, there in [*promised.items(), *others.items()]:
                left = there - sum((nominal.get((flavor, resource), Fraction(0)) for flavor in of), Fraction(0))
                where = f"of {' and '.join(sorted(of))}" if of else "on servers of no flavor"
                out += [f"{float(left):,.12g} of {float(there):,.12g} {resource} {where}"] * (left > 0)
        return out

    def _note_rules(self, of_queue: Collection[str], limits: Collection[Limit]) -> None:
        """Say which numbers of the objects are what is owed, and which are limits."""
        if not of_queue:
            return
        what = "nominal quotas, by flavor, are what queues are owed, as far as their pods can use them"
        self._notes.say(About(what))
        what = "{limit} on what queues use together: quotas of cohorts, and limits on borrowing and lending"
        self._notes.add(About(what), *(one.name for one in limits))
        what = (
            "{cohort} where more than {most} queues may or may not use all that they keep for themselves: not all "
            "combinations are limits, so that the answer may be more than Kueue admits"
        )
        self._notes.add(what, *self._cohorts.partly, most=str(MOST_LENDERS))
        what = "limits of {cohort} with more than {most} lending limits are those of the tasks and servers of now"
        self._notes.add(what, *(self._cohorts.now - self._cohorts.partly), most=str(MOST_AHEAD))
        what = "fair sharing in Kueue compares what is borrowed: -p kueue; HDRF compares all that teams hold"
        self._notes.say(About(what))

    def _note_alike(self, able: Collection[Bool], limits: Collection[Limit], servers: Servers) -> None:
        """Name flavors with equal servers between which limits that can bind leave it open how a queue is divided."""
        on = [(one, np.any([*one.of.values()], axis=0)) for one in limits]
        binding = [mask for one, mask in on if one.amount * _ROUNDED < servers.total(mask, one.resource)]
        masks, told = [*{id(mask): mask for mask in able}.values()], dict[tuple[str, ...], None]()
        if not binding or not masks:
            return
        alike = np.unique(np.vstack([servers.capacities.T, *masks]), axis=1, return_inverse=True)[1].ravel()
        apart = np.unique(np.vstack(binding), axis=1, return_inverse=True)[1].ravel()
        several = Counter(kind for kind, _ in {*zip(alike.tolist(), apart.tolist(), strict=True)})
        for kind in (kind for kind, number in several.items() if number > 1):
            mine = alike == kind
            by_flavor = {of: self.servers_of(of, servers)[mine] for of in sorted({of for of, _ in self._cohorts.cells})}
            if any(mask[mine].any() for mask in masks):
                told[tuple(of for of, there in by_flavor.items() if there.any() and not there.all())] = None
        for flavors in told:
            self._notes.say(
                f"the flavors {' and '.join(flavors)} have equal servers, and limits tell them apart: what a queue has "
                "in all is fair, and how it is divided between these is one of several ways"
            )

    # -- placement ----------------------------------------------------------------------------------------------

    def allowed(self, tasks: Tasks, servers: Servers) -> Bool:
        """The servers where tasks may run, by their own rules and by the flavors of their ClusterQueue.

        For each group of resources of which the tasks request some, one of its flavors must have the server, and a
        quota of each of them, or something that may be borrowed.
        """
        out = np.zeros(len(servers.nodes), dtype=np.bool_)
        more: list[list[Toleration]] = [[] for _ in servers.nodes]
        able = np.ones(len(servers.nodes), dtype=np.bool_)
        for group in () if tasks.queue is None else self._found.cluster_queues[tasks.queue].groups:
            names = [name for name in group.covered if tasks.spec.requests(name)]
            if not names:
                continue
            of_group, places = np.zeros(len(servers.nodes), dtype=np.bool_), self.places(tasks.queue or "", servers)
            for flavor in (one.name for one in group.flavors):
                known = self._found.flavors.get(flavor, _ANY)
                if not tasks.spec.tolerates(known.taints, known.tolerations):
                    continue
                on = np.all([places[flavor, name] for name in names], axis=0)
                of_group |= on
                for s in np.flatnonzero(on).tolist() if known.tolerations else ():
                    more[s] += known.tolerations
            able &= of_group
        for s in np.flatnonzero(able).tolist():
            node = servers.nodes[s]
            out[s] = tasks.spec.allows(node.name, node.labels, node.taints, more[s])
            out[s] |= node.name == tasks.runs_on  # whatever its rules are now
        return out

    def places(self, queue: str, servers: Servers) -> dict[tuple[str, str], Bool]:
        """The servers on which what a queue uses of a resource counts for a flavor, by flavor and resource.

        Kueue takes the first flavor with quotas of all that a set of pods requests. So a server counts for the one of
        its flavors with quotas of most of what the server has, the first of several.
        """
        if queue not in servers.places:
            made: dict[tuple[str, str], Bool] = {}
            for group in self._found.cluster_queues[queue].groups:
                made |= self._places_in(queue, group, servers)
            servers.places[queue] = made
        return servers.places[queue]

    def _places_in(self, queue: str, group: ResourceGroup, servers: Servers) -> dict[tuple[str, str], Bool]:
        branch, names = self._cohorts.queues[queue], [one.name for one in group.flavors]
        on = np.array([self.servers_of(name, servers) for name in names]).reshape(len(names), len(servers.nodes))
        some = {of: np.array([branch.potential((name, of)) > 0 for name in names]) for of in sorted(group.covered)}
        number = np.zeros(on.shape)
        for of, has_quota in some.items():
            there = np.array([of == PODS or node.has.get(of, 0) > 0 for node in servers.nodes], dtype=np.bool_)
            number += has_quota[:, None] & there
        made = {}
        for of, has_quota in some.items():
            able = on & has_quota[:, None]
            first = np.argmax(np.where(able, number + 1, 0), axis=0) if names else np.zeros(0)
            for k, name in enumerate(names):
                made[name, of] = able[k] & (first == k)
        for k, name in enumerate(names):
            told = [f"{name} of {queue}"] * ((name, queue) not in self._shared)
            wanted = [of for of, has_quota in some.items() if has_quota[k]]
            lost = [of for of in wanted if (on[k] & ~made[name, of]).any()]
            if lost and told:
                self._shared.add((name, queue))
                none = not any(made[name, of].any() for of in wanted)
                rule = "each counts for that with quotas of most of what it has"
                lost_all = "they count for that one, and what it has counts for nothing"
                what = f"{{flavor}} with servers of another flavor of its queue: {lost_all if none else rule}"
                self._notes.add(what, *told)
        return made

    def _masks(self, queue: str, servers: Servers) -> dict[tuple[str, str], Bool]:
        """The places of which the queue has a quota."""
        quotas = self._cohorts.queues[queue].nominal
        return {cell: on for cell, on in self.places(queue, servers).items() if cell in quotas}

    def held_on(self, tasks: Tasks, able: Bool, servers: Servers) -> Bool:
        """The servers of the flavors that Kueue holds for admitted tasks, if possible those on which they may run."""
        flavors = {*(tasks.assigned or {}).values()}
        on = np.all([self.servers_of(flavor, servers) for flavor in flavors], axis=0) if flavors else able
        return on & able if (on & able).any() else on

    def servers_of(self, flavor: str, servers: Servers) -> Bool:
        """The servers with the labels of a flavor: all if the flavor is not known."""
        if flavor not in servers.of_flavor:
            flavor_object = self._found.flavors.get(flavor)
            if flavor_object is None and flavor not in self._unknown:
                self._notes.add("{flavor} without an object {counts} as on all servers", flavor)
                self._unknown.add(flavor)
            labels = flavor_object.node_labels if flavor_object else {}
            servers.of_flavor[flavor] = np.array(
                [all(node.labels.get(key) == value for key, value in labels.items()) for node in servers.nodes]
            )
        return servers.of_flavor[flavor]


@dataclass
class Servers:
    """The servers that count, their capacities (n_servers, n_resources), and those of each flavor by its labels."""

    nodes: Sequence[Node]
    resources: Sequence[str] = ()
    capacities: Float = field(default_factory=lambda: np.zeros((0, 0)))
    amount: Callable[[Fraction, str], float] = lambda amount, resource: float(amount)
    of_flavor: dict[str, Bool] = field(default_factory=dict)
    places: dict[str, dict[tuple[str, str], Bool]] = field(default_factory=dict)
    tuples: dict[bytes, tuple[bool, ...]] = field(default_factory=dict)

    def as_tuple(self, mask: Bool) -> tuple[bool, ...]:
        """A mask as a tuple, one object for equal masks."""
        return self.tuples.setdefault(mask.tobytes(), tuple(mask.tolist()))

    def total(self, mask: Bool, resource: str) -> float:
        """What some servers have of a resource."""
        return float(self.capacities[mask, self.resources.index(resource)].sum())


def _kept_from_all(every: Sequence[QueueNode[Any]], cell: tuple[str, str], busy: Set[str]) -> list[tuple[str, float]]:
    """Why what is there of a cell beyond some amounts is idle: it is in no quota, or idle queues do not lend it."""
    beyond = sum(one.nominal.get(cell, 0.0) for one in every)
    out = [("in nobody's quota", beyond)]
    for lender in (lender for one in every if one.parent is None for lender in _keeping(one, cell, busy)):
        beyond -= lender.local(cell)
        out.append((f"by the lending limit of {lender.name}", beyond))
    return out


def _kept_from(branch: QueueNode[Any], cell: tuple[str, str], queues: Set[str], busy: Set[str]) -> str:
    """Why the rest of it is idle where a limit of a branch stops some queues."""
    if branch.parent is not None:
        return f"by the borrowing limit of {branch.name}"
    idle = _keeping(branch, cell, busy)
    kept = [one.name for one in _keeping(branch, cell, queues) if one not in idle]
    lenders = f"by the lending limit{'s' * (len(kept) > 1)} of {' and '.join(kept)}"
    return lenders if kept else "in quotas of others than may borrow them"


def _keeping(branch: QueueNode[Any], cell: tuple[str, str], queues: Set[str]) -> list[QueueNode[Any]]:
    """The outermost branches below one that keep something for themselves, and have none of some queues."""
    out = list[QueueNode[Any]]()
    for one in branch.children:
        if queues & _queues_of(one):
            out += _keeping(one, cell, queues)
        elif one.local(cell) > 0:
            out.append(one)
    return out


def _queues_of(branch: QueueNode[Any]) -> set[str]:
    """The queues below a branch, or itself."""
    return {branch.name} if branch.is_queue else {name for one in branch.children for name in _queues_of(one)}


def _part_of(pod: Pod, workload: Workload) -> PodSet | None:
    """The set of a Workload that a pod is of: by its label, the only one, or the only one with its requests."""
    named = [part for part in workload.pod_sets if part.name == pod.labels.get(_POD_SET)]
    alike = [part for part in workload.pod_sets if part.template.spec.request == pod.spec.request]
    for found in (named, workload.pod_sets, alike):
        if len(found) == 1:
            return found[0]
    return None


def _is_gated(pod: Pod) -> bool:
    """Whether Kueue keeps a pod from starting."""
    return _GATE in {gate.get("name") for gate in pod.spec.schedulingGates if isinstance(gate, Mapping)}


def _asked(pod: Pod, queue: str) -> _Asked:
    """The requests and node selectors by which kinds of pods of a queue are distinguished."""
    return queue, repr(sorted(pod.spec.request.items())), repr(sorted(pod.spec.nodeSelector.items()))
