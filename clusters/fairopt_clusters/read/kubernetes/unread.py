"""What other schedulers than Kueue say of a cluster, and is not read: notes for each kind of object and each mark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from fairopt.io import Notes, shown_key
from fairopt_clusters.read.kubernetes.objects import Pod, at_places, in_note, part, parts
from fairopt_clusters.read.queues.kubernetes_objects import LABELS

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
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "runai/queue",
    "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
)
_NONE = "none"  # the kind of objects without one
_ELASTIC = "ElasticQuota"  # of a namespace, by the plugin of that name
_GANGS = (
    "kueue.x-k8s.io/pod-group-name",
    "pod-group-name",
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "yunikorn.apache.org/task-group-name",
)
QUEUE = "volcano.sh/queue-name"
"""The label of pods that stands for queues in other places than labels."""


def queue_named(marks: Mapping[str, Any]) -> dict[str, str]:
    """The queue that labels and annotations name, under the first of the keys of schedulers."""
    return next(({key: str(marks[key])} for key in _QUEUES if marks.get(key)), {})


def gangs_of(pod: Mapping[str, Any]) -> list[str]:
    """The names of the PodGroups of a pod as given."""
    metadata = part(pod, "metadata")
    marks = {**part(metadata, "labels"), **part(metadata, "annotations")}
    return [str(marks[key]) for key in _GANGS if key in marks]


class Other(NamedTuple):
    """An object that is not read: its kind, the scheduler that it is of, if any, and its place."""

    kind: str
    scheduler: str
    place: str


def others_in(document: Mapping[str, Any], read: Collection[str]) -> tuple[list[Other], list[str]]:
    """The objects in a list of other kinds than those ``read``, and PodGroups whose pods start together."""
    out, gangs = list[Other](), list[str]()
    for item, place in at_places(document):
        kind, group = item.get("kind"), str(item.get("apiVersion", "")).partition("/")[0]
        least = _least(part(item, "spec")) if kind == "PodGroup" else 0
        if not isinstance(kind, str) or kind not in read:
            named = shown_key(kind) if isinstance(kind, str) else _NONE
            where = _elastic(item) if kind == _ELASTIC else in_note(place)
            out.append(Other(named, _GROUPS.get(group, ""), where))
        elif least > 1:
            gangs.append(f"{shown_key(str(part(item, 'metadata').get('name')))}: {least} pods")
    return out, gangs


def _elastic(quota: Mapping[str, Any]) -> str:
    """What an ElasticQuota would hold its namespace to: ``min`` is kept for it, and ``max`` is a limit."""
    spec, space = part(quota, "spec"), part(quota, "metadata").get("namespace") or "default"
    amounts = [f"{key} {name} {amount}" for key in ("min", "max") for name, amount in part(spec, key).items()]
    return f"{shown_key(str(space))}: {', '.join(map(shown_key, amounts)) or 'no amounts'}"


def _least(spec: Mapping[str, Any]) -> int:
    """How many pods of a PodGroup start together, by its spec: of itself, in Kubernetes' words, or of its parts."""
    of_kubernetes = part(part(spec, "schedulingPolicy"), "gang").get("minCount")
    of_parts = [one.get("minMember") for one in parts(spec, "subGroups")]
    numbers = (spec.get("minMember"), of_kubernetes, sum(k for k in of_parts if isinstance(k, int)))
    return next((k for k in numbers if isinstance(k, int)), 0)


def unread_kinds(others: Sequence[Other], of: str) -> str:
    """The end of an error that names kinds that are there and not read, with a place of each; ``of`` as for notes."""
    places = {one.kind: one.place for one in reversed(_unread(others, of))}
    named = [f"{kind} ({place})" if place else kind for kind, place in reversed(places.items())]
    return f"; not read is what is of the kind{'s' * (len(named) > 1)} {', '.join(named[:5])}" if named else ""


def kinds_read(read: Collection[str]) -> str:
    """The kinds that are read, with the queues of other schedulers."""
    return f"the kinds that are read: {', '.join(sorted({*read, 'Queue'}))}"


def _unread(others: Sequence[Other], of: str) -> list[Other]:
    """The objects without the queues of a scheduler, ``""`` for none."""
    queues = ("ConfigMap", "") if of == "YuniKorn" else ("Queue", of)
    return [one for one in others if not of or (one.kind, one.scheduler) != queues]


def note_unread(
    others: Sequence[Other],
    gangs: Sequence[str],
    pods: Sequence[Pod],
    notes: Notes,
    read: Collection[str],
    of: str,
    teams: bool,
) -> None:
    """Say which objects, labels and annotations do not count.

    ``teams`` if the queues of labels are teams; ``of`` is the scheduler whose queues are read, ``""`` for none.
    """
    others = _unread(others, of)
    for kind, scheduler in dict.fromkeys((one.kind, one.scheduler) for one in others):
        places = [one.place for one in others if (one.kind, one.scheduler) == (kind, scheduler)]
        what = "{object} of the kind {kind}{scheduler} {is} not read"
        what = "{document} without a kind {is} not read" if kind == _NONE else what
        if kind == _ELASTIC:
            what = "{object} of the kind {kind}{scheduler} {is} not read, so that these namespaces have no limit here"
        notes.add(what, *places, kind=kind, scheduler=f" of {scheduler}" * bool(scheduler))
    if others:
        notes.say(kinds_read(read))
    notes.add("{PodGroup} with pods that start together or not at all: counted one by one", *gangs)
    read_marks = (*LABELS[of], QUEUE) if of else ()
    for key in () if teams else (key for key in _QUEUES[1:] if key not in read_marks):
        marked = [pod.name for pod in pods if key in pod.labels or key in pod.annotations]
        what = "{pod} in queues of {key}, which are not read; --users label:{key} makes them teams"
        notes.add(what, *marked, key=key)
    _note_gangs(pods, notes)


def _note_gangs(pods: Sequence[Pod], notes: Notes) -> None:
    """Say which pods start together or not at all."""
    for key in _GANGS:
        marked = [pod.name for pod in pods if key in pod.labels or key in pod.annotations]
        notes.add("{pod} in gangs of {key}, all or none of which start: counted one by one", *marked, key=key)
