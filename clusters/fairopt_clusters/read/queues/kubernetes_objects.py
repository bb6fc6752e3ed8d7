"""Queue objects of KAI and Volcano, and the ConfigMap of YuniKorn, in lists of Kubernetes; the queue of each pod."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import Notes, documents_of_yaml, shown, shown_key
from fairopt_clusters.read.amounts import part_of
from fairopt_clusters.read.queues import kai, volcano, yunikorn
from fairopt_clusters.read.queues.tree import Queue, QueueTree

_Objects = Iterable[tuple[Mapping[str, Any], str]]
_SCHEDULERS: dict[str, tuple[tuple[str, ...], Callable[..., Queue]]] = {
    "KAI": (kai.GROUPS, kai.queue_of),
    "Volcano": (volcano.GROUPS, volcano.queue_of),
}
LABELS = {"KAI": kai.LABELS, "Volcano": volcano.LABELS, "YuniKorn": yunikorn.LABELS}  # labels or annotations of pods
_DEFAULT = {"KAI": kai.DEFAULT, "Volcano": volcano.DEFAULT}


def trees_of_objects(objects: _Objects) -> list[QueueTree]:
    """The queues among objects given with their places, a tree for each scheduler."""
    by_scheduler: dict[str, list[tuple[Queue, Mapping[str, Any]]]] = {}
    trees = list[QueueTree]()
    for item, place in objects:
        if "kind" not in item and yunikorn.is_queues(item):
            trees.append(yunikorn.tree_of(item, place))
        name = part_of(item, "metadata", "name")
        place += f" ({shown_key(name)})" if isinstance(name, str) else ""
        of_map = item.get("data") if item.get("kind") == "ConfigMap" else item  # or its data alone
        text = part_of(of_map, yunikorn.FILE)
        if isinstance(text, str):
            trees.append(_of_text(text, f"{place}{'.data' * (of_map is not item)}[{yunikorn.FILE!r}]"))
        group = str(item.get("apiVersion") or "").partition("/")[0]
        for scheduler, (groups, queue_of) in _SCHEDULERS.items():
            if item.get("kind") == "Queue" and group in groups:
                if not isinstance(name, str) or not name:
                    raise InvalidInstance(f"{place}.metadata.name is {shown(name)}; give the queue a name")
                if not isinstance(item.get("spec") or {}, Mapping):
                    raise InvalidInstance(f"{place}.spec is {shown(item['spec'])}; give an object")
                by_scheduler.setdefault(scheduler, []).append((queue_of(item, name, place), item))
    for scheduler, of_scheduler in by_scheduler.items():
        queues = volcano.with_hierarchy(of_scheduler) if scheduler == "Volcano" else [one for one, _ in of_scheduler]
        trees.append(QueueTree(scheduler, tuple(queues)))
    return trees


def most_used(trees: Sequence[QueueTree], pods: Iterable[Any]) -> QueueTree | None:
    """The tree of the scheduler whose queues most pods name, the first of several, None if there are none."""
    marks = [{*pod.labels, *getattr(pod, "annotations", ())} for pod in pods]
    return max(trees, key=lambda tree: sum(not own.isdisjoint(LABELS[tree.scheduler]) for own in marks), default=None)


def _of_text(text: str, place: str) -> QueueTree:
    data = next((one.data for one in documents_of_yaml(text, place)), None)
    if data is None or not yunikorn.is_queues(data):
        raise InvalidInstance(f"{place} has no list partitions with queues; give YuniKorn's configuration")
    return yunikorn.tree_of(data, place)


def owners_of(
    tree: QueueTree, tasks: Iterable[Any], annotations: Mapping[str, Mapping[str, Any]], notes: Notes
) -> list[str]:
    """The queue of each task: of its labels or annotations, else the scheduler's default, else its namespace.

    ``annotations`` are those of pods by name.
    """
    out, known = list[str](), tree.by_name
    for one in tasks:
        marks = {**annotations.get(one.name, {}), **one.labels}
        keys = (*LABELS[tree.scheduler], volcano.LABELS[1])  # the last is also that of groups of pods
        given = next((marks[key] for key in keys if marks.get(key)), None)
        if given is not None:
            out.append(tree.named(str(given)))
            continue
        usual = _DEFAULT.get(tree.scheduler) or f"root.{one.namespace}"
        usual = usual if usual in known else "root.default"
        found = usual if usual in known else one.namespace
        what = "{pod} without a queue {counts} for {found}"
        found_or = found if usual in known else "their namespaces"
        notes.add(what, one.name, number=one.count, found=found_or)
        out.append(found)
    return out
