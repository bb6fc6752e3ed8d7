"""Servers of a cluster without nodes: of a capacity that is given, else of the quotas that queues share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from fairopt.io import Notes, in_base_units
from fairopt_clusters.read.amounts import NAME, by_requested
from fairopt_clusters.read.kubernetes.gpus import GPU, PARTS
from fairopt_clusters.read.kubernetes.kueue import KueueObjects, ResourceFlavor, Template, Workload
from fairopt_clusters.read.kubernetes.objects import Node, Pod, PodSpec
from fairopt_clusters.read.queues.tree import QueueTree

_MARK = "fairopt/flavor-"  # a label of servers that are flavors


def given_server(capacity: Mapping[str, Fraction], requested: Collection[str]) -> Node:
    """One server that has a capacity, in cores, GiB and pieces, by the names that pods request."""
    amounts = by_requested(capacity, requested)
    bytes_too = {name: in_base_units(amount, name) for name, amount in amounts.items()}
    return Node.model_validate({"metadata": {"name": NAME}, "status": {"allocatable": bytes_too}})


def requested_by(pods: Sequence[Pod], kueue: KueueObjects) -> set[str]:
    """The resources that pods and sets of pods request."""
    of_sets = (part.template for one in kueue.workloads.values() for part in one.pod_sets)
    tasks: list[Pod | Template] = [*(pod for pod in pods if not pod.finished), *of_sets]
    of_parts = {GPU for one in tasks if one.annotations.keys() & PARTS}
    return of_parts | {name for one in tasks for name in (*one.spec.request, *one.spec.devices)}


def note_missing(servers: Sequence[Node], requested: Collection[str], notes: Notes) -> None:
    """Say what pods request and a capacity in place of nodes does not have."""
    missing = sorted(name for name in requested if not any(server.has.get(name) for server in servers))
    what = "{resource} that pods request {is} not in the capacity, so that these pods are left out: {names}"
    notes.add(what, number=len(missing), names=", ".join(missing))


def without_rules(pods: Sequence[Pod], kueue: KueueObjects, notes: Notes) -> tuple[list[Pod], KueueObjects]:
    """Pods and sets of pods that may use all of a capacity in place of nodes, which has no labels to choose by."""
    ruled = list[str]()

    def free(spec: PodSpec, name: str) -> PodSpec:
        ruled.extend([name] * bool(spec.texts[0]))
        return spec.anywhere() if spec.texts[0] else spec

    def freed(workload: Workload) -> Workload:
        return workload.with_specs(lambda of: free(of.template.spec, workload.name))

    made = [pod.model_copy(update={"spec": free(pod.spec, pod.name)}) for pod in pods]
    workloads = {name: freed(one) for name, one in kueue.workloads.items()}
    notes.add("{object} with rules on labels of servers may use all of the capacity, which has no labels", *ruled)
    return made, replace(kueue, workloads=workloads)


def servers_of_quotas(
    kueue: KueueObjects, tree: QueueTree | None, requested: Collection[str], notes: Notes
) -> tuple[list[Node], KueueObjects]:
    """The servers that the quotas of queues promise, and the objects of Kueue with flavors that name them."""
    if kueue.cluster_queues:
        notes.say("there are no nodes: flavors count as servers that have the nominal quotas of all queues and cohorts")
        return _of_flavors(kueue, notes)
    total = {} if tree is None else tree.total()
    if not total:
        return [], kueue
    of = "the root queue may use" if tree and tree.capacity else "the queues at the top are guaranteed together"
    notes.say(f"there are no nodes: the servers have what {of}")
    return [given_server({name: Fraction(amount) for name, amount in total.items()}, requested)], kueue


def _of_flavors(kueue: KueueObjects, notes: Notes) -> tuple[list[Node], KueueObjects]:
    """A server for each flavor of the resource that has the most; others are spread over these."""
    sums: dict[str, dict[str, Fraction]] = {}  # by resource and flavor
    for (name, resource), amount in kueue.nominal.items():
        sums.setdefault(resource, {})[name] = amount
    main = max(sums.values(), key=len, default={})
    spread = sorted({name for of in sums.values() for name in of} - {*main})
    labels = {name: {f"{_MARK}{name}": "yes"} for name in main}
    has: dict[str, dict[str, Fraction]] = {name: {} for name in main}
    for resource, of in sums.items():
        others = [flavor for flavor in of if flavor not in main]
        for k, other in enumerate(others):
            mine = [name for j, name in enumerate(main) if j % len(others) == k % len(others)] or [*main]
            whole = sum((main[name] for name in mine), Fraction(0))
            for name in mine:
                part = main[name] / whole if whole else Fraction(1, len(mine))
                has[name][resource] = has[name].get(resource, Fraction(0)) + of[other] * part
                labels[name][f"{_MARK}{other}"] = "yes"
        for name in of.keys() & main.keys():
            has[name][resource] = has[name].get(resource, Fraction(0)) + of[name]
    notes.add("{flavor} of other resources {is} spread over the servers, in proportion", *spread)
    without_object = (ResourceFlavor.model_validate({"metadata": {"name": name}}) for name in (*main, *spread))
    known = {one.name: kueue.flavors.get(one.name, one) for one in without_object}
    marked = {
        name: one.model_copy(update={"node_labels": {**one.node_labels, f"{_MARK}{name}": "yes"}})
        for name, one in known.items()
    }
    for marks in labels.values():  # also those of the flavors of which a server is
        flavors = [known[mark.removeprefix(_MARK)] for mark in marks]
        marks |= {key: value for one in flavors for key, value in one.node_labels.items()}
    nodes = [
        Node.model_validate(
            {
                "metadata": {"name": name, "labels": labels[name]},
                "spec": {"taints": [taint.model_dump() for taint in known[name].taints]},
                "status": {"allocatable": has[name]},
            }
        )
        for name in main
        if any(has[name].values())
    ]
    return nodes, replace(kueue, flavors={**kueue.flavors, **marked})
