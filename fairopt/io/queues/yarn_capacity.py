"""YARN's ``capacity-scheduler.xml``: properties such as ``yarn.scheduler.capacity.root.research.capacity``.

A capacity is a percentage of the queue above, a weight such as ``2w``, or amounts such as ``[memory=10240,vcores=12]``.
What is over is shared in proportion to capacities, so that a percentage is a weight too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.queues.amounts import number, usual
from fairopt.io.queues.tree import ALL, Queue, QueueTree
from fairopt.io.queues.xml_text import place_of, text_of

_PREFIX, _ROOT = "yarn.scheduler.capacity.", "root"
_READ = ("queues", "capacity", "maximum-capacity", "max-capacity", "weight")
_FIX = "give a percentage as 40, a weight as 2w, or amounts as [memory=10240,vcores=12]"
_Properties = dict[str, tuple[str, str]]  # value and place


def is_capacity_scheduler(root: Element) -> bool:
    """Whether a document has properties of the scheduler."""
    return any(text_of(one).startswith(_PREFIX) for one in root.iter("name"))


def tree_of(root: Element, name: str) -> QueueTree:
    """The queues of a file."""
    found: _Properties = {}
    for element in root.iter("property"):
        parts = {child.tag: text_of(child) for child in element}
        key, place = parts.get("name", ""), place_of(element, name)
        if key.startswith(_PREFIX):
            short = key.removeprefix(_PREFIX)
            if short in found:
                raise InvalidInstance(f"{place}: {key} is given twice; the other one is {found[short][1]}; keep one")
            found[short] = parts.get("value", ""), place
    queues = tuple(_below(_ROOT, "", found))
    if not queues:
        raise InvalidInstance(f"{name} names no queues; give the property {_PREFIX}{_ROOT}.queues")
    general = [key for key in found if not key.startswith(f"{_ROOT}.")]
    notes = [f"not modelled of {name}: {', '.join(general)}"] if general else []
    notes.append("a percentage of capacity is a guarantee of that part of the queue above, and the weight beyond it")
    return QueueTree("YARN (capacity scheduler)", queues, {}, tuple(notes))


def _below(path: str, parent: str, found: _Properties) -> Iterator[Queue]:
    """The queues below one, each with those below it."""
    listed, at = found.get(f"{path}.queues", ("", ""))
    names = [one.strip() for one in listed.split(",") if one.strip()]
    if len({*names}) < len(names):
        raise InvalidInstance(f"{at}: {path}.queues is {shown(listed)}; name each queue once")
    children = [f"{path}.{one}" for one in names]
    percentages = 0.0
    for child in children:
        if f"{child}.capacity" not in found:
            raise InvalidInstance(f"{at}: the queue {child!r} has no capacity; give {_PREFIX}{child}.capacity")
        queue = _queue(child, parent, found, at)
        percentages += queue.guarantee_parts.get(ALL, 0.0)
        yield queue
        yield from _below(child, child, found)
    if percentages and abs(percentages - 1) > 1e-6:
        raise InvalidInstance(
            f"{at}: the capacities of the queues below {path!r} sum to {100 * percentages:g}%; make them sum to 100"
        )


def _queue(path: str, parent: str, found: _Properties, at: str) -> Queue:
    mine = {key.removeprefix(f"{path}."): value for key, value in found.items() if key.startswith(f"{path}.")}
    own = {key: value for key, value in mine.items() if not _is_below(key, mine)}
    weight, amounts, parts = _capacity(*own["capacity"], f"capacity of queue {path}")
    of_limit = next((key for key in ("maximum-capacity", "max-capacity") if key in own), "")
    _, most, limit_parts = (
        _capacity(*own[of_limit], f"{of_limit} of queue {path}") if of_limit else (1.0, {}, dict[str, float]())
    )
    limit_parts = {} if limit_parts.get(ALL) == 1 else limit_parts
    notes = {key: value for key, (value, _) in own.items() if key not in _READ and not key.startswith("acl_")}
    notes |= {"access lists": "set"} if any(key.startswith("acl_") for key in own) else {}
    return Queue(
        path,
        parent,
        weight,
        amounts,
        most,
        parts,
        limit_parts,
        notes=notes,
        place=own["capacity"][1] or at,
    )


def _is_below(key: str, mine: Mapping[str, object]) -> bool:
    """Whether a property is of a queue below."""
    return any(f"{key[: k.start()]}.capacity" in mine for k in re.finditer(r"\.", key))


def _capacity(text: str, place: str, what: str) -> tuple[float, dict[str, float], dict[str, float]]:
    """The weight, the amounts by resource, and the parts of what the queue above has."""
    where = f"{place}: {what}"
    if match := re.fullmatch(r"\[(.*)\]", text):
        amounts = dict[str, float]()
        for item in match[1].split(","):
            key, _, value = (one.strip() for one in item.partition("="))
            resource = usual(key)
            amounts[resource] = number(value, where, fix=_FIX) / (1024 if resource == "memory" else 1)
        return 1.0, amounts, {}
    if text.endswith("w"):
        return number(text[:-1], where, fix=_FIX), {}, {}
    if text == "-1":
        return 1.0, {}, {}
    percentage = number(text.removesuffix("%"), where, fix=_FIX)
    if percentage > 100:
        raise InvalidInstance(f"{where} is {shown(text)}; give at most 100")
    return percentage, {}, {ALL: percentage / 100}
