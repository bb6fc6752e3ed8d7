"""Objects whose pods are made from templates, such as Jobs and Deployments, as Workloads of Kueue.

A table says where templates and numbers of pods stand in each kind. As Workloads they count less the pods that are
there already, in the queue that they name, by the rules of `queues`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf, prod
from typing import Any, NamedTuple

from fairopt.errors import InvalidInstance
from fairopt.io import Notes, checked, quantity, shown
from fairopt_clusters.read.amounts import part_of
from fairopt_clusters.read.documents import objects_of
from fairopt_clusters.read.kubernetes.additions import Additions
from fairopt_clusters.read.kubernetes.kueue import JOB_UID, LOCAL_QUEUE, KueueObjects, Template, Workload
from fairopt_clusters.read.kubernetes.objects import add_unique, as_mapping, at_places, in_note, key_of, part, parts
from fairopt_clusters.read.kubernetes.unread import QUEUE, queue_named

Json = Mapping[str, Any]


class _Pods(NamedTuple):
    """Where equal pods stand in an object: their template and what their number is the product of.

    Paths separated by | are alternatives. ``each`` is the path of a list or a mapping of parts, to which the others
    are relative; ``less`` is subtracted from the first number, and ``most`` is at least the last one.
    """

    template: str
    numbers: tuple[str, ...] = ()
    each: str = ""
    less: int = 0
    most: str = ""


class _Kind(NamedTuple):
    """The pods of a kind of objects, whether all of them start together or not at all, and what the kind is called."""

    pods: tuple[_Pods, ...]
    together: bool = False
    called: str = ""


def _ray(spec: str) -> tuple[_Pods, ...]:
    hosts = ("replicas|minReplicas", "numOfHosts")
    return _Pods(f"{spec}.headGroupSpec.template"), _Pods("template", hosts, f"{spec}.workerGroupSpecs")


def _job(spec: str, each: str = "", *numbers: str) -> tuple[_Pods]:
    return (_Pods(f"{spec}.template", (*numbers, f"{spec}.parallelism"), each, most=f"{spec}.completions"),)


_REPLICAS = _Kind((_Pods("spec.template", ("spec.replicas",)),))
_GROUP = "spec.leaderWorkerTemplate"
KINDS: dict[str, dict[str, _Kind]] = {  # by group of the API
    "batch": {"Job": _Kind(_job("spec")), "CronJob": _Kind(_job("spec.jobTemplate.spec"))},
    "apps": {"Deployment": _REPLICAS, "ReplicaSet": _REPLICAS, "StatefulSet": _REPLICAS},
    "v1": {"ReplicationController": _REPLICAS},
    "jobset.x-k8s.io": {"JobSet": _Kind(_job("template.spec", "spec.replicatedJobs", "replicas"), True)},
    "leaderworkerset.x-k8s.io": {
        "LeaderWorkerSet": _Kind(
            (
                _Pods(f"{_GROUP}.leaderTemplate|{_GROUP}.workerTemplate", ("spec.replicas",)),
                _Pods(f"{_GROUP}.workerTemplate", (f"{_GROUP}.size", "spec.replicas"), less=1),
            ),
            True,
        )
    },
    "ray.io": {
        "RayCluster": _Kind(_ray("spec")),
        "RayJob": _Kind((*_ray("spec.rayClusterSpec"), _Pods("spec.submitterPodTemplate"))),
        "RayService": _Kind(_ray("spec.rayClusterConfig")),
        "RayCronJob": _Kind((*_ray("spec.jobTemplate.rayClusterSpec"), _Pods("spec.jobTemplate.submitterPodTemplate"))),
    },
    "kubeflow.org": {
        kind: _Kind((_Pods("template", ("replicas",), f"spec.{replicas}ReplicaSpecs"),), together=True)
        for kind, replicas in (
            *(("PyTorchJob", "pytorch"), ("TFJob", "tf"), ("MPIJob", "mpi")),
            *(("XGBoostJob", "xgb"), ("PaddleJob", "paddle"), ("JAXJob", "jax")),
        )
    },
    "batch.volcano.sh": {
        "Job": _Kind((_Pods("template", ("replicas",), "spec.tasks"),), True, "vcjob"),
        "CronJob": _Kind((_Pods("template", ("replicas",), "spec.jobTemplate.spec.tasks"),), True, "vccronjob"),
    },
    "sparkoperator.k8s.io": dict.fromkeys(
        ("SparkApplication", "ScheduledSparkApplication"),
        _Kind((_Pods("driver.template"), _Pods("executor.template", ("executor.instances",)))),
    ),
    "trainer.kubeflow.org": {"TrainJob": _Kind((_Pods("trainer.template", ("spec.trainer.numNodes",)),), True)},
}
_SCHEDULES = ("CronJob", "RayCronJob", "ScheduledSparkApplication")
_LEAST = ("spec.minAvailable", "spec.runPolicy.schedulingPolicy.minAvailable")  # pods that start together
_LEAST_MARKS = ("kai.scheduler/batch-min-member", "scheduling.volcano.sh/group-min-member")  # annotations of it
_QUEUES = (
    *("spec.queue", "spec.jobTemplate.spec.queue"),
    *("spec.runPolicy.schedulingPolicy.queue", "spec.batchSchedulerOptions.queue"),
)
_SUSPENDED = ("spec.suspend", "spec.runPolicy.suspend")
_PHASES = ("status.state.phase", "status.applicationState.state", "status.jobDeploymentStatus", "status.jobStatus")
_ENDED = {"complete", "completed", "failed", "succeeded", "stopped", "aborted", "terminated"}
_OF_OWNERS = {  # labels of what a controller makes, and the kind of the object that they name
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
    "ray.io/originated-from-cr-name": "RayJob",
}


def with_manifests(found: KueueObjects, document: Json, name: str, notes: Notes, added: Additions) -> KueueObjects:
    """The objects of Kueue with Workloads for objects with templates of pods, but for those that have one."""
    made: dict[str, tuple[Workload, str]] = {}
    objects = _Manifests(document, name, found, notes, added)
    for item, place in at_places(document):
        kind, named = kind_of(item), item.get("kind")
        if kind is None and isinstance(named, str) and named in READ:  # of another group
            example = f"{in_note(place)} of {shown(item['apiVersion'])}"
            notes.add("{object} of the kind {kind} {is} not read", example, kind=named)
        elif kind is not None and not objects.counts_elsewhere(item):
            workload = objects.workload(item, kind, place)
            if workload is not None:
                add_unique(made, workload, f"{name}: {place}")
    return replace(found, workloads=found.workloads | {key: one for key, (one, _) in made.items()})


def kind_of(item: Any) -> _Kind | None:
    """What is known of the kind of an object; without an API version it is the first of its name."""
    kind = item.get("kind") if isinstance(item, Mapping) else None
    if not isinstance(kind, str):
        return None
    group = item.get("apiVersion")
    if isinstance(group, str):
        return KINDS.get(group.partition("/")[0], {}).get(kind)
    return next((kinds[kind] for kinds in KINDS.values() if kind in kinds), None)


READ = {kind for kinds in KINDS.values() for kind in kinds}


def expanded(document: Json, name: str) -> Json:
    """A list in which the parts of AppWrappers stand for them, in their queue and namespace."""
    items = zip(document["items"], document["items"].places, strict=True)
    return objects_of(((one, place) for item, at in items for one, place in _parts(item, at)), name)


def _parts(item: Any, place: str) -> Iterator[tuple[Any, str]]:
    components = _get(item, "spec.components") if isinstance(item, Mapping) else None
    if not isinstance(components, list) or item.get("kind") != "AppWrapper":
        yield item, place
        return
    outer = part(item, "metadata")
    for k, component in enumerate(components):
        inner = _get(component, "template")
        if isinstance(inner, Mapping):
            metadata = {"namespace": outer.get("namespace"), **part(inner, "metadata")}
            metadata["labels"] = {**part(outer, "labels"), **part(metadata, "labels")}
            metadata["uid"] = metadata.get("uid")
            yield {**inner, "metadata": metadata}, f"{place}.spec.components[{k}].template"


class _Manifests:
    """What the objects of a list say of each other."""

    def __init__(self, document: Json, name: str, found: KueueObjects, notes: Notes, added: Additions) -> None:
        self._name, self._found, self._notes = name, found, notes
        self._additions = added
        self._above = set[tuple[str, ...]]()  # what counts for what it owns: uids, and kinds, namespaces and names
        for item, _ in at_places(document):
            if kind_of(item) is not None and item["kind"] not in _SCHEDULES:
                self._above |= _marks(item["kind"], part(item, "metadata"))
        self._with_workload = {
            mark
            for one in found.workloads.values()
            for owner in one.owners
            for mark in _marks(owner.kind, {"uid": owner.uid, "name": owner.name, "namespace": one.namespace})
        }

    def counts_elsewhere(self, item: Json) -> bool:
        """Whether an object has a Workload, or its owner counts for it."""
        metadata = part(item, "metadata")
        space, _ = key_of(metadata)
        if _marks(item["kind"], metadata) & self._with_workload:
            return True
        owners = parts(metadata, "ownerReferences")
        marks = {mark for one in owners for mark in _marks(str(one.get("kind")), {"namespace": space, **one})}
        labels = part(metadata, "labels")
        marks |= {(kind, space, str(labels[key])) for key, kind in _OF_OWNERS.items() if key in labels}
        return bool((marks - _marks(item["kind"], metadata)) & self._above)

    def workload(self, item: Json, kind: _Kind, place: str) -> Workload | None:
        """The Workload of an object; None for one that starts no pods now."""
        metadata = part(item, "metadata")
        space, name = key_of(metadata)
        where = f"{kind.called or item['kind'].lower()}-{name}"
        labels = _labels(item)
        of_kueue = labels.get(LOCAL_QUEUE, "default" * (f"{space}/default" in self._found.local_queues))
        if (why := _idle(item, of_kueue)) is not None:
            self._notes.add(f"{{object}} with templates of pods that {{is}} {why} {{was}} left out", f"{space}/{where}")
            return None
        sets = list(self._sets(item, kind, space, place))
        if not sets:
            self._notes.add("{object} without a template of pods {was} left out", in_note(place))
            return None
        least = next((k for path in _LEAST if isinstance(k := _get(item, path), int)), None)
        marks = part(metadata, "annotations")
        marked = next((marks[key] for key in _LEAST_MARKS if str(marks.get(key)).isdecimal()), None)
        least = least if marked is None or item["kind"] == "JobSet" else int(marked)  # of a JobSet: of its parts
        together = kind.together or (of_kueue and item["kind"] not in ("Deployment", "ReplicaSet"))
        uid = str(metadata.get("uid") or "")
        made = {
            "metadata": {
                "name": where,
                "namespace": space,
                "labels": {**labels, JOB_UID: uid},
                "ownerReferences": [{"kind": item["kind"], "name": metadata.get("name"), "uid": uid}],
            },
            "spec": {"podSets": sets, "queueName": of_kueue},
            "least": least if least is not None or together else 1,
            "of": item["kind"],
        }
        return checked(Workload, made, self._name, place)

    def _sets(self, item: Json, kind: _Kind, space: str, place: str) -> Iterator[dict[str, Any]]:
        """The sets of equal pods of an object."""
        name = self._name
        made = _MADE.get(item["kind"])
        source = item if made is None else {**item, **made(item, name, place)}
        for pods in kind.pods:
            for key, group in _groups(_get(source, pods.each) if pods.each else {"": source}):
                path = next((one for one in pods.template.split("|") if _get(group, one) is not None), None)
                if path is None:
                    continue
                where = f"{place}.{pods.each}[{key}]" if pods.each else place
                numbers: list[float] = [_number(group, one, name, where) for one in pods.numbers]
                if pods.less:
                    numbers[0] = max(0, numbers[0] - pods.less)
                if pods.most:
                    numbers[-1] = min(numbers[-1], _left(item, _get(group, pods.most)))
                of_path = path.removesuffix(".template").rpartition(".")[2]
                named = str(group.get("name") or group.get("groupName") or key or of_path)
                given = self._additions.to_template(_get(group, path), space)
                template = checked(Template, given, name, f"{where}.{path}")
                yield {"name": named, "count": int(prod(numbers)), "template": template}


def _labels(item: Json) -> dict[str, str]:
    """The labels of an object and of the Jobs of a CronJob, with its queue, wherever it stands."""
    of_job = as_mapping(_get(item, "spec.jobTemplate.metadata"))
    labels: dict[str, str] = {}
    for metadata in (part(item, "metadata"), of_job):
        marks = {**part(metadata, "annotations"), **part(metadata, "labels")}
        known = {key: str(value) for key, value in part(metadata, "labels").items()}
        labels |= known | queue_named(marks)
    given = next((queue for path in _QUEUES if isinstance(queue := _get(item, path), str) and queue), None)
    return labels if given is None else {QUEUE: given, **labels}


def _marks(kind: str, metadata: Json) -> set[tuple[str, ...]]:
    """By what an object is referred to."""
    space, name, uid = str(metadata.get("namespace") or "default"), metadata.get("name"), metadata.get("uid")
    named: set[tuple[str, ...]] = {(kind, space, str(name))} if name else set()
    return named | {("uid", str(uid))} if uid else named


def _idle(item: Json, of_kueue: str) -> str | None:
    """Why an object in a queue of Kueue, or in none, starts no pods now, None if it does."""
    conditions = parts(part(item, "status"), "conditions")
    states = [str(one.get("type")) for one in conditions if one.get("status") == "True"]
    states += [state for path in _PHASES if isinstance(state := _get(item, path), str)]
    if item["kind"] not in ("Deployment", "ReplicaSet", "StatefulSet") and _ENDED & {one.lower() for one in states}:
        return "finished"
    suspended = any(_get(item, path) is True for path in _SUSPENDED)  # by Kueue, too, until it admits
    if suspended and (item["kind"] in _SCHEDULES or not of_kueue):
        return "suspended"
    if item["kind"] in _SCHEDULES and "uid" in part(item, "metadata"):
        return "a schedule, whose Jobs count,"
    return None


def _left(item: Json, completions: Any) -> float:
    """How many pods of a Job are left to complete."""
    done = _get(item, "status.succeeded")
    return max(0, completions - (done if isinstance(done, int) else 0)) if isinstance(completions, int) else inf


def _number(group: Json, paths: str, name: str, place: str) -> int:
    """A number of pods, 1 if there is none."""
    for path in paths.split("|"):
        value = _get(group, path)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidInstance(f"{name}: {place}.{path} is {shown(value)}; give a whole number >= 0")
        return value
    return 1


def _groups(given: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a list or a mapping, with their keys as text."""
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given if isinstance(given, list) else ())
    return ((str(key), one) for key, one in pairs)


def _get(data: Any, path: str) -> Any:
    """The value at a path, None if there is none."""
    return part_of(data, *path.split("."))


# -- templates that are made of other fields ----------------------------------------------------------------------


def _of_train_job(item: Json, name: str, place: str) -> dict[str, Any]:
    """The template of the nodes of a TrainJob, if it says what each requests; a runtime is not read."""
    resources = _get(item, "spec.trainer.resourcesPerNode")
    template = {"spec": {"containers": [{"resources": resources}]}}
    return {} if resources is None else {"trainer": {"template": template}}


_SIZE = re.compile(r"([0-9]+)([kmgtp]?)b?", re.IGNORECASE)  # as Java writes it, in MiB without a suffix
_MIB = 2**20
_LEAST_OVERHEAD = 384 * _MIB


def _of_spark(item: Json, name: str, place: str) -> dict[str, Any]:
    """The driver and the executors of a SparkApplication, each with a template of a pod.

    Spark adds to the memory a tenth of it, or 0.4 where it does not run on Java, and at least 384 MiB.
    """
    spec = part(item, "spec")
    spec = part(spec, "template") if item["kind"] == "ScheduledSparkApplication" else spec
    of_java = str(spec.get("type", "Java")) in ("Java", "Scala")
    try:
        factor = quantity(spec.get("memoryOverheadFactor", "0.1" if of_java else "0.4"))
    except InvalidInstance as error:
        raise InvalidInstance(f"{name}: {place}.spec.memoryOverheadFactor: {error}") from None
    out: dict[str, Any] = {}
    for role in ("driver", "executor"):
        given, where = part(spec, role), f"{place}.spec.{role}"
        memory = _bytes(given.get("memory", "1g"), f"{name}: {where}.memory")
        over = given.get("memoryOverhead")
        least = _LEAST_OVERHEAD if factor else 0
        extra = max(int(memory * factor), least) if over is None else _bytes(over, f"{name}: {where}.memoryOverhead")
        requests = {"cpu": given.get("coreRequest", given.get("cores", 1)), "memory": memory + extra}
        gpu = part(given, "gpu")
        if gpu:
            requests[str(gpu.get("name"))] = gpu.get("quantity", 1)
        placed = {key: given[key] for key in ("nodeSelector", "affinity", "tolerations") if key in given}
        about = {key: given[key] for key in ("labels", "annotations") if key in given}
        template = {"metadata": about, "spec": {"containers": [{"resources": {"requests": requests}}], **placed}}
        out[role] = {"template": template, "instances": given.get("instances", 1)}
    dynamic = part(spec, "dynamicAllocation")
    if dynamic.get("enabled") is True:
        executors = (dynamic.get(key) for key in ("initialExecutors", "minExecutors"))
        out["executor"]["instances"] = next((k for k in executors if k is not None), out["executor"]["instances"])
    return out


def _bytes(text: Any, where: str) -> int:
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise InvalidInstance(f"{where} is {shown(text)}; give a size as Java writes it, as 512m or 2g")
    power = " kmgtp".index(match[2].lower()) if match[2] else 2
    return int(match[1]) * 1024**power


_SUBMITTER = {"resources": {"requests": {"cpu": "500m", "memory": "200Mi"}}}  # KubeRay, common/job.go


def _of_ray_job(item: Json, name: str, place: str) -> dict[str, Any]:
    """A RayJob with the pod that submits it, which KubeRay adds; in the mode of a sidecar a container of the head."""
    is_schedule = item["kind"] == "RayCronJob"
    outer = part(item, "spec")
    spec = dict(part(outer, "jobTemplate") if is_schedule else outer)
    mode, given = spec.get("submissionMode") or "K8sJobMode", spec.pop("submitterPodTemplate", None)
    head = _get(spec, "rayClusterSpec.headGroupSpec.template.spec.containers")
    if mode == "K8sJobMode":
        spec["submitterPodTemplate"] = {"spec": {"containers": [_SUBMITTER]}} if given is None else given
    elif mode == "SidecarMode" and isinstance(head, list):
        group = spec["rayClusterSpec"]["headGroupSpec"]
        pod = group["template"]["spec"] | {"containers": [*head, _SUBMITTER]}
        group = {**group, "template": {**group["template"], "spec": pod}}
        spec["rayClusterSpec"] = {**spec["rayClusterSpec"], "headGroupSpec": group}
    return {"spec": {**outer, "jobTemplate": spec} if is_schedule else spec}


_MADE = {
    **dict.fromkeys(("SparkApplication", "ScheduledSparkApplication"), _of_spark),
    **dict.fromkeys(("RayJob", "RayCronJob"), _of_ray_job),
    "TrainJob": _of_train_job,
}
