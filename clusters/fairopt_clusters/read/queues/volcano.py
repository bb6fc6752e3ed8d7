"""Queue objects of Volcano, ``scheduling.volcano.sh/v1beta1``, in levels by their annotations or by ``spec.parent``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import shown
from fairopt_clusters.read.amounts import number, part_of, quantities
from fairopt_clusters.read.queues.tree import DEEPEST, Queue

GROUPS = ("scheduling.volcano.sh", "scheduling.incubator.k8s.io")
LABELS = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
DEFAULT = "default"
_HIERARCHY, _WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
_NOT_MODELLED = ("reclaimable", "affinity", "extendClusters", "dequeueStrategy")


def queue_of(item: Mapping[str, Any], name: str, place: str) -> Queue:
    """A Queue object without its annotations."""
    spec = item.get("spec") or {}
    reserved = quantities(part_of(spec, "guarantee", "resource"), f"{place}.spec.guarantee.resource")
    deserved = quantities(spec.get("deserved"), f"{place}.spec.deserved")
    notes = {key: "set" for key in _NOT_MODELLED if spec.get(key) not in (None, True, "traverse")}
    if reserved and deserved:
        notes["a guarantee beside deserved"] = "what it deserves is owed"
    priority, parent, weight = spec.get("priority"), spec.get("parent"), spec.get("weight")
    return Queue(
        name,
        "" if parent in (None, "root") else str(parent),
        1.0 if weight is None else number(weight, f"{place}.spec.weight"),
        {**reserved, **deserved},
        quantities(spec.get("capability"), f"{place}.spec.capability"),
        reserved=reserved,
        priority=None if priority is None else int(number(priority, f"{place}.spec.priority")),
        notes=notes,
        place=place,
    )


def with_hierarchy(found: Sequence[tuple[Queue, Mapping[str, Any]]]) -> list[Queue]:
    """Queues with their objects in the levels of the annotations, with the weights that stand there.

    ``root/eng/prod`` with ``1/2/8`` puts the queue, of weight 8, below ``eng``, of weight 2.
    """
    paths = {queue.name: _path(item, _HIERARCHY)[1:] for queue, item in found}
    of_object = {tuple(path): name for name, path in paths.items() if path}
    inner: dict[tuple[str, ...], Queue] = {}

    def named(path: tuple[str, ...]) -> str:
        name = of_object.get(path) or "/".join(path)
        return name if path in of_object or name not in paths else "/".join(("root", *path))

    out = list[Queue]()
    for queue, item in found:
        path, weights = tuple(paths[queue.name]), _path(item, _WEIGHTS)[1:]
        if not path:
            out += [queue] * (queue.name != "root")
            continue
        where = f"{queue.place}: the annotation {_WEIGHTS}"
        if len(path) > DEEPEST:
            raise InvalidInstance(f"{queue.place}: {_HIERARCHY} has {len(path):,} names; give at most {DEEPEST}")
        if len(weights) != len(path):
            given = part_of(item, "metadata", "annotations", _WEIGHTS)
            raise InvalidInstance(f"{where} is {shown(given)}; give as many weights as {_HIERARCHY} has names")
        for k in range(1, len(path)):
            above = path[:k]
            weight = number(weights[k - 1], where)
            made = Queue(named(above), named(above[:-1]) if k > 1 else "", weight, place=queue.place)
            other = inner.setdefault(above, made)
            if other.weight != weight:
                both = f"the weight {weight:g}, and {other.place} gives it {other.weight:g}"
                raise InvalidInstance(f"{where} gives {made.name!r} {both}; give it one weight")
        parent = named(path[:-1]) if len(path) > 1 else ""
        out.append(replace(queue, parent=parent, weight=number(weights[-1], where)))
    return [*(queue for path, queue in inner.items() if path not in of_object), *out]


def _path(item: Mapping[str, Any], annotation: str) -> list[str]:
    """The parts of an annotation with slashes."""
    text = part_of(item, "metadata", "annotations", annotation)
    return [part.strip() for part in text.split("/") if part.strip()] if isinstance(text, str) else []
