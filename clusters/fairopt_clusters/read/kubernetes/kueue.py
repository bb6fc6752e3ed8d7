"""Models of the objects of Kueue, ``kueue.x-k8s.io`` v1beta1 and v1beta2.

In a ClusterQueue of v1beta1 the cohort is ``spec.cohort``, in v1beta2 ``spec.cohortName``; the parent of a Cohort was
``spec.parent`` in v1alpha1, and is ``spec.parentName``. Either is read in any version.
"""

# ruff: noqa: N815 - fields of pydantic models, under the names of Kueue

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, model_validator

from fairopt.errors import InvalidInstance
from fairopt.io import Part, quantity, shown
from fairopt_clusters.read.amounts import Name, Quantity
from fairopt_clusters.read.kubernetes.objects import (
    Condition,
    InNamespace,
    Object,
    Owner,
    PodSpec,
    at,
    part,
    parts,
    read_objects,
)
from fairopt_clusters.read.kubernetes.placement import NamespaceSelector, Taint, Toleration

GROUP = "kueue.x-k8s.io"
LOCAL_QUEUE, JOB_UID = f"{GROUP}/queue-name", f"{GROUP}/job-uid"  # labels
COMMAND = "kubectl get workloads,clusterqueues,localqueues,cohorts,resourceflavors,namespaces -A -o json"


LENT = "fairopt/lent"
"""The annotation of ClusterQueues with what is lent for now, in JSON by flavor and resource: what the queue may use
(``fair``), the borrowing limit written for it (``borrowing``), and that of its owners (``before``, null for none)."""
_FINISHED = ("Finished", "True")  # type and status of a condition
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Lent = dict[str, dict[str, dict[str, Any]]]
_Cells = dict[tuple[str, str], float]


def lent_of(metadata: Mapping[str, Any]) -> Lent:
    """The annotation `LENT` of an object, empty without one."""
    given = metadata.get("annotations")
    annotations: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    text = annotations.get(LENT)
    if text is None:
        return {}
    try:
        shares = json.loads(text)
        for of_flavor in shares.values():
            for one in of_flavor.values():
                for name in ("fair", "borrowing", "before"):
                    quantity(one[name] if one[name] is not None else 0)
    except (TypeError, ValueError, KeyError, AttributeError, InvalidInstance):
        name, fix = shown(metadata.get("name")), "take the annotation off, or have fairopt quotas write it again"
        raise InvalidInstance(f"the annotation {LENT} of {name} is not what fairopt writes; {fix}") from None
    return _without_applied(dict(shares), annotations.get(APPLIED))


def _without_applied(lent: Lent, applied: Any) -> Lent:
    """What is lent, but for limits that the owners have applied since, in a manifest without `LENT`: these are theirs.

    So a limit of theirs counts though it is equal to the one written over theirs.
    """
    try:
        given = json.loads(applied)
        if LENT in (given["metadata"].get("annotations") or {}):
            return lent
        entries = [
            (flavor["name"], entry)
            for group in given["spec"].get("resourceGroups") or ()
            for flavor in group["flavors"]
            for entry in flavor["resources"]
        ]
    except (TypeError, ValueError, KeyError, AttributeError):  # none, or of another tool
        return lent
    for flavor, entry in entries:
        told, limit = lent.get(flavor, {}).get(entry["name"]), entry.get("borrowingLimit")
        if told is not None and None not in (limit, told["borrowing"]):
            told["before"] = limit if quantity(limit) == quantity(told["borrowing"]) else told["before"]
    return lent


def own_limit(lent: Lent, flavor: str, entry: Mapping[str, Any]) -> Any:
    """The borrowing limit that the owners of a queue gave, as given: that of `LENT`, if it stands there, is not it."""
    told, limit = lent.get(flavor, {}).get(entry["name"]), entry.get("borrowingLimit")
    if told is None or limit is None or told["borrowing"] is None:
        return limit
    now = limit if isinstance(limit, Fraction) else quantity(limit)
    return told["before"] if now == quantity(told["borrowing"]) else limit


class _Quota(Part):
    name: Name
    nominalQuota: Quantity
    borrowingLimit: Quantity | None = None
    lendingLimit: Quantity | None = None


class FlavorQuotas(Part):
    """The quotas of one flavor in a group of resources."""

    name: Name
    resources: list[_Quota] = Field(default_factory=list)


class ResourceGroup(Part):
    """Resources with the flavors that provide them."""

    coveredResources: list[str] = Field(default_factory=list)
    flavors: list[FlavorQuotas] = Field(default_factory=list)

    @property
    def covered(self) -> set[str]:
        """The resources."""
        return {*self.coveredResources, *(quota.name for flavor in self.flavors for quota in flavor.resources)}


class _FairSharing(Part):
    weight: Quantity = Fraction(1)


class _WithQuotas(Object):
    """An object with quotas and a weight."""

    name: Name = at("metadata", "name")
    groups: list[ResourceGroup] = at("spec", "resourceGroups", default=list)
    fair_sharing: _FairSharing = at("spec", "fairSharing", default=_FairSharing)

    @cached_property
    def lent(self) -> Lent:
        """What `fairopt quotas` wrote into it."""
        return lent_of(self.metadata)

    def borrowing(self, flavor: str, quota: _Quota) -> Fraction | None:
        """The borrowing limit of its owners: what `fairopt quotas` wrote over it is not theirs."""
        limit = own_limit(self.lent, flavor, {"name": quota.name, "borrowingLimit": quota.borrowingLimit})
        return None if limit is None else limit if isinstance(limit, Fraction) else quantity(limit)

    def quotas(self) -> Iterator[tuple[str, _Quota]]:
        """Its quotas, each after its flavor."""
        return ((flavor.name, one) for group in self.groups for flavor in group.flavors for one in flavor.resources)

    def amounts(self, number: Callable[..., float], in_force: bool = False) -> tuple[_Cells, _Cells, _Cells]:
        """Its nominal quotas, lending limits and borrowing limits by flavor and resource, as ``number`` has them.

        Borrowing limits are those of its owners, or those ``in_force``.
        """
        out = _Cells(), _Cells(), _Cells()
        for flavor, one in self.quotas():
            borrowing = one.borrowingLimit if in_force else self.borrowing(flavor, one)
            for made, amount in zip(out, (one.nominalQuota, one.lendingLimit, borrowing), strict=True):
                if amount is not None:
                    made[flavor, one.name] = number(amount, one.name)
        return out

    def covers(self, resource: str) -> bool:
        """Whether it has quotas of a resource."""
        return any(resource in group.covered for group in self.groups)


class _Borrowing(Part):
    policy: str = "Never"
    maxPriorityThreshold: int | None = None


class Preemption(Part):
    """Whom workloads of a queue may preempt; `borrowWithinCohort` is not of fair sharing."""

    reclaimWithinCohort: str = "Never"
    withinClusterQueue: str = "Never"
    borrowWithinCohort: _Borrowing | None = None


class Fungibility(Part):
    """Whether to try the next flavor before it borrows or preempts, and what is better."""

    whenCanBorrow: str | None = None
    whenCanPreempt: str | None = None
    preference: str | None = None


class ClusterQueue(_WithQuotas):
    """A queue with quotas, for the namespaces that it selects; without a selector for none."""

    preemption: Preemption = at("spec", "preemption", default=Preemption)
    fungibility: Fungibility = at("spec", "flavorFungibility", default=Fungibility)
    queueing: str = at("spec", "queueingStrategy", default="BestEffortFIFO")
    cohort: str = at("spec", "cohortName", default="", older=("spec", "cohort"))
    stop: str = at("spec", "stopPolicy", default="None")
    namespaces: NamespaceSelector | None = at("spec", "namespaceSelector", default=None)
    conditions: list[Condition] = at("status", "conditions", default=list)
    checks: list[Any] = at("spec", "admissionChecks", default=list)
    strategy: dict[str, Any] = at("spec", "admissionChecksStrategy", default=dict)
    admission_mode: str = at("spec", "admissionScope", "admissionMode", default="")

    @property
    def has_checks(self) -> bool:
        """Whether jobs must pass admission checks."""
        return bool(self.checks or self.strategy.get("admissionChecks"))

    @property
    def inactive(self) -> bool:
        """Whether Kueue says that it admits nothing now."""
        return any((one.type, one.status) == ("Active", "False") for one in self.conditions)


class Cohort(_WithQuotas):
    """ClusterQueues and cohorts that borrow from each other; its own quotas come on top of theirs."""

    parent: str = at("spec", "parentName", default="", older=("spec", "parent"))


class LocalQueue(InNamespace):
    """The name of a ClusterQueue within a namespace."""

    cluster_queue: str = at("spec", "clusterQueue", default="")
    stop: str = at("spec", "stopPolicy", default="None")


class ResourceFlavor(Object):
    """A kind of servers, by their labels."""

    name: Name = at("metadata", "name")
    node_labels: dict[str, str] = at("spec", "nodeLabels", default=dict)
    taints: list[Taint] = at("spec", "nodeTaints", default=list)
    tolerations: list[Toleration] = at("spec", "tolerations", default=list)
    topology: str = at("spec", "topologyName", default="")

    def takes(self, spec: PodSpec) -> bool:
        """Whether pods may have it, by its taints and by rules of theirs on its labels."""
        return spec.tolerates(self.taints, self.tolerations) and spec.may_have(self.node_labels)


class Namespace(Object):
    """A namespace, which ClusterQueues select by its labels."""

    name: Name = at("metadata", "name")
    labels: dict[str, str] = at("metadata", "labels", default=dict)


class Template(Object):
    """The template of pods."""

    labels: dict[str, str] = at("metadata", "labels", default=dict)
    annotations: dict[str, Any] = at("metadata", "annotations", default=dict)
    spec: PodSpec = Field(default_factory=PodSpec)


class TopologyRequest(Part):
    """That pods lie close to each other: all in one domain of a level of a topology, if it is ``required``."""

    required: str | None = None
    podSetGroupName: str | None = None


class PodSet(Part):
    """Equal pods of a Workload, of which Kueue may admit at least ``minCount``."""

    name: str = "main"
    count: int = Field(1, ge=0)
    minCount: int | None = Field(None, ge=0)
    template: Template = Field(default_factory=Template)
    topologyRequest: TopologyRequest = Field(default_factory=TopologyRequest)

    @property
    def least(self) -> int:
        """How many of them start together."""
        return self.count if self.minCount is None else min(self.count, self.minCount)


class Assignment(Part):
    """What Kueue admitted of a set of pods: the flavor of each resource, and how many pods if they are fewer."""

    name: str = "main"
    flavors: dict[str, str] = Field(default_factory=dict)
    count: int | None = Field(None, ge=0)
    resourceUsage: dict[str, Quantity] = Field(default_factory=dict)


class _Admission(Part):
    clusterQueue: str = ""
    podSetAssignments: list[Assignment] = Field(default_factory=list)


class _Reclaimable(Part):
    name: str = "main"
    count: int = Field(0, ge=0)


class Workload(InNamespace):
    """A job in a queue. The pod sets of a finished one are ignored.

    Those that `manifests` makes say of which kind of object they are, and how many pods start together if not all.
    """

    owners: list[Owner] = at("metadata", "ownerReferences", default=list)
    pod_sets: list[PodSet] = at("spec", "podSets", default=list)
    queue: str = at("spec", "queueName", default="")
    active: bool = at("spec", "active", default=True)
    priority: int | None = at("spec", "priority", default=None)
    conditions: list[Condition] = at("status", "conditions", default=list)
    admission: _Admission = at("status", "admission", default=_Admission)
    other_cluster: str = at("status", "clusterName", default="")
    reclaimable: list[_Reclaimable] = at("status", "reclaimablePods", default=list)
    of: str = "Workload"
    least: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_spec_if_finished(cls, data: Any) -> Any:
        states = parts(part(data, "status"), "conditions") if isinstance(data, Mapping) else []
        ended = any((one.get("type"), one.get("status")) == _FINISHED for one in states)
        return {**data, "spec": None} if ended else data

    def with_specs(self, change: Callable[[PodSet], PodSpec]) -> Workload:
        """The same with other specs of its sets of pods."""
        sets = [
            one.model_copy(update={"template": one.template.model_copy(update={"spec": change(one)})})
            for one in self.pod_sets
        ]
        return self.model_copy(update={"pod_sets": sets})

    @property
    def together(self) -> int:
        """How many of its pods start together or not at all, 0 if one may start alone."""
        number = sum(part.least for part in self.pod_sets)
        number = number if self.least is None else min(number, self.least)
        return number if number > 1 else 0

    @property
    def admitted(self) -> bool:
        """Whether Kueue holds quota for it."""
        return bool(self.admission.clusterQueue)

    def assignment(self, part: PodSet) -> Assignment:
        """What Kueue admitted of a set of pods, in no flavor if it does not say."""
        given = (one for one in self.admission.podSetAssignments if one.name == part.name)
        return next(given, Assignment(name=part.name, count=None))

    @property
    def admitted_at(self) -> str:
        """When Kueue reserved quota for it, as Kubernetes writes times."""
        return next((one.lastTransitionTime for one in self.conditions if one.type == "QuotaReserved"), "")

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return any((one.type, one.status) == _FINISHED for one in self.conditions)


_MODELS: dict[str, type[Object]] = {
    model.__name__: model for model in (Workload, ClusterQueue, LocalQueue, Cohort, ResourceFlavor, Namespace)
}


@dataclass(frozen=True)
class KueueObjects:
    """The objects of Kueue, and the namespaces that its queues select, by kind and name."""

    workloads: dict[str, Workload] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueue] = field(default_factory=dict)
    local_queues: dict[str, LocalQueue] = field(default_factory=dict)
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    flavors: dict[str, ResourceFlavor] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)

    def stop(self, queue: str, local: LocalQueue | None) -> Literal["", "hold", "drain"]:
        """How a ClusterQueue of these and a LocalQueue are stopped: the stricter of the two."""
        of_all = self.cluster_queues[queue]
        how = {of_all.stop, "None" if local is None else local.stop}
        if "HoldAndDrain" in how:
            return "drain"
        return "hold" if how != {"None"} or of_all.inactive else ""

    def excludes(self, queue: str, namespace: str) -> bool:
        """Whether a ClusterQueue of these admits nothing from a namespace, as far as its labels are known."""
        selector, known = self.cluster_queues[queue].namespaces, self.namespaces.get(namespace)
        return selector is None or selector.excludes(namespace, None if known is None else known.labels)

    @cached_property
    def nominal(self) -> dict[tuple[str, str], Fraction]:
        """The nominal quotas of all queues and cohorts together, by flavor and resource."""
        out: dict[tuple[str, str], Fraction] = {}
        for one in (*self.cluster_queues.values(), *self.cohorts.values()):
            for flavor, quota in one.quotas():
                cell = flavor, quota.name
                out[cell] = out.get(cell, Fraction(0)) + quota.nominalQuota
        return out

    def flavors_with(self, resource: str) -> set[str]:
        """The flavors for which some queue or cohort has a quota of a resource."""
        return {flavor for flavor, name in self.nominal if name == resource}


def read_kueue(documents: Iterable[tuple[Mapping[str, Any], str]], mixed: bool = False) -> KueueObjects:
    """The objects in outputs of kubectl; ``mixed`` leaves out objects of other kinds and of other API groups."""
    return KueueObjects(*read_objects(documents, _MODELS, COMMAND, mixed, GROUP).values())
