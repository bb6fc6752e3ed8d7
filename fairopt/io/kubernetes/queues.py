"""What the objects of Kueue say of a cluster: waiting pods, the team of each pod, guarantees, weights and placement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.json_text import shown
from fairopt.io.kubernetes.kueue import GROUP, ClusterQueue, Cohort, KueueObjects, Workload
from fairopt.io.kubernetes.objects import Node, Pod, PodSpec
from fairopt.io.kubernetes.placement import Toleration
from fairopt.io.notes import Notes

_WORKLOAD, _POD_GROUP = f"{GROUP}/workload", f"{GROUP}/pod-group-name"
_CLUSTER_QUEUE, _LOCAL_QUEUE = f"{GROUP}/cluster-queue-name", f"{GROUP}/queue-name"
_JOB_UID = f"{GROUP}/job-uid"
_JOB_NAMES = (  # labels of pods with the name of the job that a Workload is of
    "batch.kubernetes.io/job-name",
    "job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "ray.io/originated-from-cr-name",
)
_SMALL = Fraction(1, 1000)  # of the smallest other weight, for a weight of 0
_ROUNDED = 1 + 1e-9  # on capacities
_Link = tuple[str, ...]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tasks:
    """Equal pods: one that exists, or those of a Workload that has none yet. ``queue`` is their ClusterQueue."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec
    count: float = 1.0
    runs_on: str | None = None
    queue: str | None = None


class Queues:
    """The ClusterQueues, and what is in them.

    ``parents`` are the uids of the owners of objects that are no pods, by uid, such as those of a Job in a JobSet.
    """

    def __init__(self, found: KueueObjects, parents: Mapping[str, Collection[str]], notes: Notes) -> None:
        self._found, self._parents, self._notes = found, parents, notes
        self._unknown = set[str]()  # flavors
        self._queue_of: dict[str, str] = {}  # of a LocalQueue's namespace and name
        for name, local in found.local_queues.items():
            if local.cluster_queue in found.cluster_queues:
                self._queue_of[name] = local.cluster_queue
            elif found.cluster_queues:
                fix = nearest(local.cluster_queue, found.cluster_queues)
                notes.add(
                    "{local queue} of a cluster queue that is not there: its pods and workloads count by namespace",
                    f"{name} of {shown(local.cluster_queue)}; {fix}",
                )

    def __bool__(self) -> bool:
        return bool(self._found.cluster_queues)

    # -- pods ---------------------------------------------------------------------------------------------------

    def tasks(self, pods: Sequence[Pod]) -> Iterator[Tasks]:
        """The pods, with their ClusterQueues, and the pod sets of Workloads without a pod among them."""
        waiting = dict(self._waiting())
        known: dict[_Link, Workload] = {}
        for workload in waiting.values():
            for link in self._links_of_workload(workload):
                known.setdefault(link, workload)
        with_pods = set[str]()
        for pod in pods:
            mine = next((known[link] for link in self._links_of_pod(pod) if link in known), None)
            if mine is not None:
                with_pods.add(mine.name)
            queue = self._queue_of_pod(pod, mine)
            yield Tasks(pod.name, pod.namespace, pod.labels, pod.spec, 1.0, pod.runs_on, queue)
        for name, workload in waiting.items():
            if name not in with_pods:
                yield from self._pod_sets(workload)

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

    def _pod_sets(self, workload: Workload) -> Iterator[Tasks]:
        queue = self._queue_of_workload(workload)
        if queue is None and self:
            what = "{workload} in no known cluster queue: counted by namespace"
            self._notes.add(what, f"{workload.name} in {shown(workload.queue)}")
        done = {one.name: one.count for one in workload.reclaimable}
        for part in workload.pod_sets:
            count = max(0, part.count - done.get(part.name, 0))
            name = workload.name if len(workload.pod_sets) == 1 else f"{workload.name}/{part.name}"
            labels = {**workload.labels, **part.template.labels}
            self._notes.add("{pod} of workloads that have none yet {counts} as waiting", name, number=count)
            if count:
                yield Tasks(name, workload.namespace, labels, part.template.spec, float(count), None, queue)

    def _queue_of_workload(self, workload: Workload) -> str | None:
        admitted = workload.admission.clusterQueue
        if admitted in self._found.cluster_queues:
            return admitted
        return self._queue_of.get(f"{workload.namespace}/{workload.queue}")

    def _queue_of_pod(self, pod: Pod, workload: Workload | None) -> str | None:
        queue = None if workload is None else self._queue_of_workload(workload)
        if queue is None and pod.labels.get(_CLUSTER_QUEUE) in self._found.cluster_queues:
            queue = pod.labels[_CLUSTER_QUEUE]
        return queue or self._queue_of.get(f"{pod.namespace}/{pod.labels.get(_LOCAL_QUEUE, '')}")

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
        for key in _JOB_NAMES:
            if key in pod.labels:
                yield "job", pod.namespace, pod.labels[key]

    def _links_of_workload(self, workload: Workload) -> Iterator[_Link]:
        yield "workload", workload.namespace, workload.short_name
        for uid in (workload.labels.get(_JOB_UID, ""), *(owner.uid for owner in workload.owners)):
            if uid:
                yield "uid", uid
        for owner in workload.owners:
            if owner.name:
                yield "job", workload.namespace, owner.name

    # -- teams --------------------------------------------------------------------------------------------------

    def note_other_teams(self) -> None:
        """Say that quotas do not count where teams are not the ClusterQueues."""
        what = "the quotas and weights of {cluster queue} were left out, since teams are not cluster queues"
        self._notes.add(what, *self._found.cluster_queues)

    def owners(self, tasks: Sequence[Tasks]) -> list[str]:
        """The ClusterQueue of each or, in no queue, the only one of its namespace; else the namespace.

        So a team is one, whether its pods are in its queue or not. A namespace with the name of a ClusterQueue that is
        not its own gets a mark.
        """
        of_space: dict[str, set[str]] = {}
        for name, queue in self._queue_of.items():
            of_space.setdefault(name.partition("/")[0], set()).add(queue)
        only = {space: next(iter(queues)) for space, queues in of_space.items() if len(queues) == 1}
        without = [one for one in tasks if one.queue is None]
        beside = [one.name for one in without if one.namespace in only]
        self._notes.add("{pod} in no cluster queue {counts} for the team of the queue of the namespace", *beside)
        alone = [one.name for one in without if one.namespace not in only]
        self._notes.add("{pod} in no cluster queue {counts} by namespace", *alone)
        taken = self._found.cluster_queues
        spaces = {one.namespace: one.namespace + " (in no queue)" * (one.namespace in taken) for one in tasks}
        return [one.queue or only.get(one.namespace) or spaces[one.namespace] for one in tasks]

    def labels(self, owners: Collection[str]) -> tuple[dict[str, dict[str, str | None]], dict[str, str]]:
        """The labels of owners, and the shown names of cohorts.

        A cohort has one label everywhere: those at the top have the last, ``cohort2`` in a tree of two levels. A cohort
        with the name of an owner gets a mark.
        """
        paths = {owner: self._above(owner) for owner in sorted(owners)}
        names = {one: one + " (cohort)" * (one in paths) for path in paths.values() for one in path}
        depth = max(map(len, paths.values()), default=0)
        labels: dict[str, dict[str, str | None]] = {"team": {owner: owner for owner in paths}}
        labels |= {_label(level): {} for level in range(1, depth + 1)}
        for owner, path in paths.items():
            for k, cohort in enumerate(reversed(path)):
                labels[_label(depth - k)][owner] = names[cohort]
        alone = [owner for owner, path in paths.items() if not path and owner in self._found.cluster_queues]
        if depth:
            self._notes.add("{cluster queue} in no cohort {counts} beside the cohorts at the top", *alone)
        missing = sorted(names.keys() - self._found.cohorts.keys())
        self._notes.add("{cohort} without an object {counts} as one without a parent, as in Kueue", *missing)
        return labels, names

    def _above(self, queue: str) -> list[str]:
        """The cohorts above a ClusterQueue, the nearest first."""
        found = self._found.cluster_queues.get(queue)
        out: list[str] = []
        one = found.cohort if found else ""
        while one:
            if one in out:
                raise InvalidInstance(f"the cohort {shown(one)} is above itself; correct its spec.parentName")
            out.append(one)
            one = self._found.cohorts[one].parent if one in self._found.cohorts else ""
        return out

    def weights(self, owners: Collection[str], names: Mapping[str, str]) -> dict[str, float]:
        """The weights of ClusterQueues and cohorts."""
        given: dict[str, Fraction] = {}
        for owner in sorted(owners):
            if owner in self._found.cluster_queues:
                given[owner] = self._found.cluster_queues[owner].fair_sharing.weight
        for cohort, name in names.items():
            if cohort in self._found.cohorts:
                given[name] = self._found.cohorts[cohort].fair_sharing.weight
        least = min((weight for weight in given.values() if weight), default=Fraction(1)) * _SMALL
        zero = [name for name, weight in given.items() if not weight]
        what = "{team} with a fair sharing weight of 0 {counts} with a thousandth of the smallest other weight"
        self._notes.add(what, *zero)
        return {name: float(weight or least) for name, weight in given.items()}

    def quotas(
        self, places: Sequence[tuple[Tasks, Mask]], names: Mapping[str, str], servers: Servers
    ) -> dict[str, list[tuple[Mask, dict[str, float]]]]:
        """Nominal quotas of ClusterQueues with tasks, and of their cohorts that have some, with those of all below.

        They are units by resource on the servers of a flavor. ``places`` are tasks with the servers where they may run.
        A quota of a flavor counts where a task of the queue that requests the resource may run on its servers; quotas
        of a flavor beyond what its servers have are scaled.
        """
        of_queue: dict[str, list[tuple[Tasks, Mask]]] = {}
        for place in places:
            if place[0].queue is not None:
                of_queue.setdefault(place[0].queue, []).append(place)
        below = {
            cohort: [queue for queue in of_queue if cohort in self._above(queue)]
            for cohort in names
            if cohort in self._found.cohorts and self._found.cohorts[cohort].groups
        }
        quotas: dict[tuple[str, str], dict[str, float]] = {}  # by flavor and resource, then by team
        for queue, mine in of_queue.items():
            self._add_quotas(quotas, queue, self._found.cluster_queues[queue], mine, servers)
            self._note_unmodelled(queue, self._found.cluster_queues[queue])
        for cohort, queues in below.items():
            mine = [place for queue in queues for place in of_queue[queue]]
            self._add_quotas(quotas, names[cohort], self._found.cohorts[cohort], mine, servers)
        out: dict[str, dict[str, dict[str, float]]] = {}  # by team, flavor and resource
        for (flavor, resource), of_teams in quotas.items():
            there, given = servers.total(self._servers_of(flavor, servers), resource), sum(of_teams.values())
            what = "{quota} beyond what the servers of their flavors have: scaled to it, for all of their queues"
            example = f"{given:,.6g} {resource} of {flavor}, of which there is {there:,.6g}"
            self._notes.add(what, example, number=given > there * _ROUNDED)
            for team, amount in of_teams.items():
                _add(out, team, flavor, resource, amount * min(1.0, there / given))
        own = {team: {flavor: dict(units) for flavor, units in of_team.items()} for team, of_team in out.items()}
        for cohort, queues in below.items():
            paths = [self._above(queue) for queue in queues]
            inner = {one for path in paths for one in path[: path.index(cohort)] if one in below}
            for team in (*queues, *(names[one] for one in sorted(inner))):
                for flavor, units in own.get(team, {}).items():
                    for resource, amount in units.items():
                        _add(out, names[cohort], flavor, resource, amount)
        return {
            team: [(self._servers_of(flavor, servers), units) for flavor, units in of_flavors.items()]
            for team, of_flavors in out.items()
        }

    def _add_quotas(
        self,
        quotas: dict[tuple[str, str], dict[str, float]],
        team: str,
        found: ClusterQueue | Cohort,
        places: Sequence[tuple[Tasks, Mask]],
        servers: Servers,
    ) -> None:
        """Add the quotas of a ClusterQueue or a cohort that count."""
        for flavor in (flavor for group in found.groups for flavor in group.flavors):
            on = self._servers_of(flavor.name, servers)
            for quota in flavor.resources:
                amount = servers.amount(quota.nominalQuota, quota.name)
                wanting = [mask for one, mask in places if one.spec.requests(quota.name)]
                if not amount or not wanting or quota.name not in servers.resources:
                    continue
                if any((mask & on).any() for mask in wanting):
                    of_teams = quotas.setdefault((flavor.name, quota.name), {})
                    of_teams[team] = of_teams.get(team, 0.0) + amount
                else:
                    what = "{quota} of flavors where no pod of their queue may run {counts} for nothing"
                    self._notes.add(what, f"{quota.name} of {flavor.name} of {team}")

    def _note_unmodelled(self, name: str, queue: ClusterQueue) -> None:
        self._notes.add(
            "{cluster queue} with limits on what it borrows or lends: not modelled", *[name] * queue.limited
        )
        checks = bool(queue.checks or queue.strategy.get("admissionChecks"))
        self._notes.add("{cluster queue} with admission checks: not modelled", *[name] * checks)
        self._notes.add("{cluster queue} that {is} stopped {counts} all the same", *[name] * (queue.stop != "None"))

    # -- placement ----------------------------------------------------------------------------------------------

    def allowed(self, tasks: Tasks, servers: Servers) -> Mask:
        """The servers where tasks may run, by their own rules and by the flavors of their ClusterQueue.

        For each group of resources of which the tasks request some, one of its flavors must have the server.
        """
        groups: list[list[str]] = []
        if tasks.queue is not None:
            for group in self._found.cluster_queues[tasks.queue].groups:
                covered = {*group.coveredResources, *(q.name for f in group.flavors for q in f.resources)}
                if any(tasks.spec.requests(name) for name in covered):
                    groups.append([flavor.name for flavor in group.flavors])
        masks = [[self._servers_of(name, servers) for name in flavors] for flavors in groups]
        out = np.zeros(len(servers.nodes), dtype=np.bool_)
        for s, node in enumerate(servers.nodes):
            if all(any(mask[s] for mask in of_group) for of_group in masks):
                more: list[Toleration] = []
                for flavors, of_group in zip(groups, masks, strict=True):
                    for name, mask in zip(flavors, of_group, strict=True):
                        if mask[s] and name in self._found.flavors:
                            more += self._found.flavors[name].tolerations
                out[s] = tasks.spec.allows(node.name, node.labels, node.taints, more)
        return out

    def _servers_of(self, flavor: str, servers: Servers) -> Mask:
        """The servers with the labels of a flavor: all if the flavor is not known."""
        if flavor not in servers.of_flavor:
            found = self._found.flavors.get(flavor)
            if found is None and flavor not in self._unknown:
                self._notes.add("{flavor} without an object {counts} as on all servers", flavor)
                self._unknown.add(flavor)
            labels = found.node_labels if found else {}
            servers.of_flavor[flavor] = np.array(
                [all(node.labels.get(key) == value for key, value in labels.items()) for node in servers.nodes]
            )
        return servers.of_flavor[flavor]


@dataclass
class Servers:
    """The servers that count, their capacities (n_servers, n_resources), and those of each flavor by its labels."""

    nodes: Sequence[Node]
    resources: Sequence[str] = ()
    capacities: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    amount: Callable[[Fraction, str], float] = lambda amount, resource: float(amount)
    of_flavor: dict[str, Mask] = field(default_factory=dict)

    def total(self, mask: Mask, resource: str) -> float:
        """What some servers have of a resource."""
        return float(self.capacities[mask, self.resources.index(resource)].sum())


def _add(out: dict[str, dict[str, dict[str, float]]], team: str, flavor: str, resource: str, amount: float) -> None:
    units = out.setdefault(team, {}).setdefault(flavor, {})
    units[resource] = units.get(resource, 0.0) + amount


def _label(level: int) -> str:
    return "cohort" if level == 1 else f"cohort{level}"
