"""What other schedulers than Kueue say of a cluster, and is not read: notes for each kind of object and each mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairopt.io.json_text import shown_key
from fairopt.io.kubernetes.objects import Pod
from fairopt.io.notes import Notes
from fairopt.io.queues.kubernetes_objects import LABELS

_GROUPS = {  # of APIs
    "scheduling.volcano.sh": "Volcano",
    "batch.volcano.sh": "Volcano",
    "scheduling.incubator.k8s.io": "Volcano",
    "scheduling.run.ai": "KAI",
    "kai.scheduler": "KAI",
    "scheduling.x-k8s.io": "coscheduling",
    "yunikorn.apache.org": "YuniKorn",
}
_QUEUES = (  # labels and annotations of pods
    "kai.scheduler/queue",
    "runai/queue",
    "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
)
_GANGS = (
    "pod-group-name",
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "yunikorn.apache.org/task-group-name",
)
_LEAST = ("minMember", "minAvailable")  # of a PodGroup, and of a Job of Volcano


class Other(NamedTuple):
    """An object of another scheduler, and how many pods of it start together at least, if it says so."""

    kind: str
    scheduler: str
    name: str
    least: int


def others_in(document: Mapping[str, Any]) -> list[Other]:
    """The objects in a list that are of other schedulers."""
    out = []
    for item in document["items"]:
        group = str(item.get("apiVersion", "")).partition("/")[0]
        metadata = item.get("metadata")
        if group in _GROUPS and isinstance(item.get("kind"), str):
            name = str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""
            spec = item.get("spec")
            given = [spec.get(key) for key in _LEAST] if isinstance(spec, Mapping) else []
            least = max((k for k in given if isinstance(k, int)), default=0)
            out.append(Other(item["kind"], _GROUPS[group], shown_key(name) if name else "", least))
    return out


def note_unread(others: Sequence[Other], pods: Sequence[Pod], notes: Notes, read: str = "") -> None:
    """Say which objects, labels and annotations of other schedulers do not count; ``read`` is one whose queues do."""
    others = [one for one in others if (one.kind, one.scheduler) != ("Queue", read)]
    for kind, scheduler in dict.fromkeys((one.kind, one.scheduler) for one in others):
        alike = [one for one in others if (one.kind, one.scheduler) == (kind, scheduler)]
        named, what = [one.name for one in alike], "{object} of the kind {kind} of {scheduler} {is} not read"
        notes.add(what, *named, number=len(alike), kind=kind, scheduler=scheduler)
        gangs = [f"{one.name}: {one.least} pods" for one in alike if one.least > 1]
        what = (
            "{object} of the kind {kind} of {scheduler} with pods that start together or not at all: counted one by one"
        )
        notes.add(what, *gangs, kind=kind, scheduler=scheduler)
    for key in (key for key in _QUEUES if key not in LABELS.get(read, ())):
        in_labels = [pod.name for pod in pods if key in pod.labels]
        what = "{pod} in queues of {key}, which are not read; --users label:{key} makes them teams"
        notes.add(what, *in_labels, key=key)
        in_annotations = [pod.name for pod in pods if key in pod.annotations and key not in pod.labels]
        notes.add("{pod} in queues of the annotation {key}, which are not read", *in_annotations, key=key)
    for key in _GANGS:
        marked = [pod.name for pod in pods if key in pod.labels or key in pod.annotations]
        notes.add("{pod} in gangs of {key}, all or none of which start: counted one by one", *marked, key=key)
