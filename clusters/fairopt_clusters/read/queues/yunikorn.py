"""YuniKorn's ``queues.yaml``, alone or as text in its ConfigMap.

A queue is named by its path from the root, as pods name it. YuniKorn has no weights: it serves the queue with the least
use for its guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import shown
from fairopt_clusters.read.amounts import part_of, quantities
from fairopt_clusters.read.queues.tree import Queue, QueueTree

LABELS = ("yunikorn.apache.org/queue", "queue")
FILE = "queues.yaml"  # the key of its ConfigMap
_ROOT = "root"
_NOT_MODELLED = ("submitacl", "adminacl", "maxapplications", "childtemplate", "limits")
_NO_WEIGHTS = "YuniKorn has no weights: it compares what queues use with their guarantees; here siblings weigh the same"


def is_queues(data: Any) -> bool:
    """Whether data are those of such a file."""
    partitions = part_of(data, "partitions")
    return (
        isinstance(partitions, list)
        and bool(partitions)
        and all(isinstance(one, Mapping) and "queues" in one for one in partitions)
    )


def tree_of(data: Mapping[str, Any], place: str) -> QueueTree:
    """The queues of the file's partition."""
    partitions = [(one, f"{place}: partitions[{k}]") for k, one in enumerate(data["partitions"])]
    if len(partitions) > 1:
        names = ", ".join(shown(one.get("name")) for one, _ in partitions)
        raise InvalidInstance(f"{place} has {len(partitions)} partitions, {names}; give a file with one of them")
    partition, where = partitions[0]
    notes = [_NO_WEIGHTS] + ["placement rules are not modelled"] * bool(partition.get("placementrules"))
    capacity: dict[str, float] = {}
    queues = list[Queue]()
    for given, at in _each(partition.get("queues"), f"{where}.queues"):
        if str(given.get("name")).lower() == _ROOT:
            capacity = quantities(part_of(given, "resources", "max"), f"{at}.resources.max")
            queues += _below(given, _ROOT, "", at)
        else:
            queues += _queue(given, _ROOT, "", at)
    return QueueTree("YuniKorn", tuple(queues), capacity, tuple(notes))


def _each(given: Any, place: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    if given is not None and not isinstance(given, list):
        raise InvalidInstance(f"{place} is {shown(given)}; give a list of queues")
    for k, one in enumerate(given or ()):
        name = one.get("name") if isinstance(one, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InvalidInstance(f"{place}[{k}] has the name {shown(name)}; give each queue a name, as text")
        yield one, f"{place}[{k}] ({name})"


def _below(given: Mapping[str, Any], path: str, parent: str, at: str) -> Iterator[Queue]:
    for one, place in _each(given.get("queues"), f"{at}.queues"):
        yield from _queue(one, path, parent, place)


def _queue(given: Mapping[str, Any], path: str, parent: str, at: str) -> Iterator[Queue]:
    """A queue, and those below it."""
    name = f"{path}.{given['name']}".lower()
    notes = {key: "set" for key in _NOT_MODELLED if given.get(key)}
    properties = given.get("properties")
    notes |= {str(key): str(value) for key, value in properties.items()} if isinstance(properties, Mapping) else {}
    resources = given.get("resources")
    yield Queue(
        name,
        parent,
        guarantee=quantities(part_of(resources, "guaranteed"), f"{at}.resources.guaranteed"),
        limit=quantities(part_of(resources, "max"), f"{at}.resources.max"),
        notes=notes,
        place=at,
    )
    yield from _below(given, name, name, at)
