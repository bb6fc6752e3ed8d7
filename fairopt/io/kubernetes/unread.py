"""What other schedulers than Kueue say of a cluster, and is not read: notes for each kind of object and each mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairopt.io.json_text import shown_key
from fairopt.io.kubernetes.objects import Pod
from fairopt.io.notes import Notes

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


def others_in(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The scheduler, with the kind, of each object in a list that is one of other schedulers; and its name."""
    out = []
    for item in document["items"]:
        group = str(item.get("apiVersion", "")).partition("/")[0]
        metadata = item.get("metadata")
        if group in _GROUPS and isinstance(item.get("kind"), str):
            name = str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""
            out.append((f"{item['kind']} of {_GROUPS[group]}", name))
    return out


def note_unread(others: Sequence[tuple[str, str]], pods: Sequence[Pod], notes: Notes) -> None:
    """Say which objects, labels and annotations of other schedulers do not count."""
    for what in dict.fromkeys(what for what, _ in others):
        kind, _, scheduler = what.partition(" of ")
        named = [shown_key(name) if name else "" for one, name in others if one == what]
        counted = {"kind": kind, "scheduler": scheduler}
        notes.add("{object} of the kind {kind} of {scheduler} {is} not read", *named, number=len(named), **counted)
    for key in _QUEUES:
        in_labels = [pod.name for pod in pods if key in pod.labels]
        what = "{pod} in queues of {key}, which are not read; --users label:{key} makes them teams"
        notes.add(what, *in_labels, key=key)
        in_annotations = [pod.name for pod in pods if key in pod.annotations and key not in pod.labels]
        notes.add("{pod} in queues of the annotation {key}, which are not read", *in_annotations, key=key)
    for key in _GANGS:
        marked = [pod.name for pod in pods if key in pod.labels or key in pod.annotations]
        notes.add("{pod} in gangs of {key}, all or none of which start: counted one by one", *marked, key=key)
