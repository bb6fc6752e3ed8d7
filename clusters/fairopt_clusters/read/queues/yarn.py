"""YARN's ``fair-scheduler.xml`` and ``capacity-scheduler.xml``.

In the former, queues are in each other, or named by paths such as ``root.research.nlp``. The latter has properties such
as ``yarn.scheduler.capacity.root.research.capacity``: a percentage of the queue above, a weight such as ``2w``, or
amounts such as ``[memory=10240,vcores=12]``. What is over is shared in proportion to capacities, so that a percentage
is a weight too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from fairopt.errors import InvalidInstance
from fairopt.io import About, shown
from fairopt.runtime import first_of
from fairopt_clusters.read.amounts import number, usual
from fairopt_clusters.read.queues.tree import ALL, Queue, QueueTree

_DEEPEST = 100  # levels


def root_of(text: str, name: str) -> Element:
    """The root element of a text; errors name the line."""
    parser, builder = expat.ParserCreate(), TreeBuilder()
    depth = 0

    def refuse(*_: Any) -> None:
        raise InvalidInstance(
            f"{name}, line {parser.CurrentLineNumber}: a document type (DTD) is not read; remove <!DOCTYPE ...>"
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise InvalidInstance(f"{name}, line {parser.CurrentLineNumber}: this is nested too deeply")
        element = builder.start(tag, attributes)
        element.set(_LINE, str(parser.CurrentLineNumber))

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code)
        raise InvalidInstance(f"{name}, line {error.lineno}: {problem}; check the tags there") from None
    return builder.close()


_LINE = "{fairopt}line"  # an attribute that no file has


def place_of(element: Element, name: str) -> str:
    """The file and the line of an element."""
    return f"{name}, line {element.get(_LINE)}"


def text_of(element: Element) -> str:
    """The text of an element without surrounding blanks."""
    return (element.text or "").strip()


_ROOT = "root"
_AMOUNT = r"([0-9]+(?:\.[0-9]+)?)"
_OLD = re.compile(rf"{_AMOUNT}\s*(mb|vcores?)", re.IGNORECASE)
_PART = re.compile(rf"{_AMOUNT}\s*%\s*(memory|cpu|vcores)?", re.IGNORECASE)
_FIX = "give amounts as '10240 mb, 12 vcores' or 'memory-mb=10240, vcores=12', or parts as '50%'"
_ELEMENTS = {"minResources": ("guarantee", "guarantee_parts"), "maxResources": ("limit", "limit_parts")}
_READ = {"queue", "pool", "weight", *_ELEMENTS}
_DEFAULT_LIMIT = "queueMaxResourcesDefault"  # of queues without maxResources


def tree_of(root: Element, name: str) -> QueueTree:
    """The queues of a file."""
    queues, usual_limit, usual_parts = list[Queue](), dict[str, float](), dict[str, float]()
    for child in root:
        if child.tag in ("queue", "pool"):
            queues += _queue(child, "", name)
        elif child.tag == _DEFAULT_LIMIT:
            usual_limit, usual_parts = _resources(text_of(child), f"{place_of(child, name)}: {child.tag}")
            usual_limit = {resource: amount for resource, amount in usual_limit.items() if amount}
    queues = [
        queue
        if queue.limit or queue.limit_parts or any(key.startswith("maxResources") for key in queue.notes)
        else replace(queue, limit=usual_limit, limit_parts=usual_parts)
        for queue in queues
    ]
    others = dict.fromkeys(child.tag for child in root if child.tag not in ("queue", "pool", _DEFAULT_LIMIT))
    notes = [f"not modelled of {name}: {', '.join(others)}"] if others else []
    return QueueTree("YARN (fair scheduler)", tuple(queues), {}, tuple(notes), parts_of_all=True)


def _queue(element: Element, above: str, name: str) -> Iterator[Queue]:
    """A queue, and those below it; the root is none."""
    place, short = place_of(element, name), (element.get("name") or "").strip()
    if not short:
        raise InvalidInstance(f'{place}: a queue has no name; give it one, as <queue name="research">')
    path = short if above or short == _ROOT or short.startswith(f"{_ROOT}.") else f"{_ROOT}.{short}"
    path = f"{above}.{short}" if above else path
    values: dict[str, Any] = {key: {} for keys in _ELEMENTS.values() for key in keys}
    weight, notes = 1.0, dict[str, str]()
    for child in element:
        where, text = f"{place_of(child, name)}: {child.tag} of queue {path}", text_of(child)
        if child.tag == "weight":
            weight = number(text, where)
        elif child.tag in _ELEMENTS:
            amounts, parts = _ELEMENTS[child.tag]
            values[amounts], values[parts] = _resources(text, where)
        elif child.tag not in _READ:
            notes[child.tag] = text or "set"
    for resource in [name for name, amount in values["limit"].items() if not amount]:
        del values["limit"][resource]  # as 0vcores of YARN's own example, where cores are not counted
        notes[f"maxResources of 0 {resource}"] = "no limit"
    values["guarantee"] = {name: amount for name, amount in values["guarantee"].items() if amount}
    if path != _ROOT:
        parent = path.rpartition(".")[0]
        yield replace(Queue(path, "" if parent == _ROOT else parent, weight, notes=notes, place=place), **values)
    for child in element:
        if child.tag in ("queue", "pool"):
            yield from _queue(child, path, name)


def _resources(text: str, place: str) -> tuple[dict[str, float], dict[str, float]]:
    """Amounts by resource, in cores, GiB and pieces, and parts of the cluster."""
    amounts, parts = dict[str, float](), dict[str, float]()
    for item in filter(None, (one.strip() for one in text.split(","))):
        key, equals, value = (one.strip() for one in item.partition("="))
        old, part = _OLD.fullmatch(item), _PART.fullmatch(value if equals else item)
        if old:
            resource = "memory" if old[2].lower() == "mb" else "cpu"
            amounts[resource] = float(old[1]) / (1024 if resource == "memory" else 1)
        elif part:
            resource = usual((key if equals else part[2] or ALL).lower())
            parts[resource] = float(part[1]) / 100
        elif equals and re.fullmatch(_AMOUNT, value):
            amounts[usual(key)] = float(value) / (1024 if usual(key) == "memory" else 1)
        else:
            raise InvalidInstance(f"{place} is {shown(text)}; {_FIX}")
    return amounts, parts


# -- capacity-scheduler.xml -----------------------------------------------------------------------------------


_PREFIX = "yarn.scheduler.capacity."
_CAPACITY_READ = ("queues", "capacity", "maximum-capacity", "max-capacity", "weight")
_CAPACITY_FIX = "give a percentage as 40, a weight as 2w, or amounts as [memory=10240,vcores=12]"
_LABELS = re.compile(r"(.+)\.(?:default-node-label-expression|accessible-node-labels)(?:\.([^.]+)\..+)?$")
_Properties = dict[str, tuple[str, str]]  # value and place


def is_capacity_scheduler(root: Element) -> bool:
    """Whether a document has properties of the scheduler."""
    return any(text_of(one).startswith(_PREFIX) for one in root.iter("name"))


def tree_of_capacities(root: Element, name: str) -> QueueTree:
    """The queues of a file."""
    properties: _Properties = {}
    for element in root.iter("property"):
        parts = {child.tag: text_of(child) for child in element}
        key, place = parts.get("name", ""), place_of(element, name)
        if key.startswith(_PREFIX):
            properties[key.removeprefix(_PREFIX)] = parts.get("value", ""), place  # the last counts, as in Hadoop
    queues = tuple(_below(_ROOT, "", properties))
    if not queues:
        raise InvalidInstance(f"{name} names no queues; give the property {_PREFIX}{_ROOT}.queues")
    general = [key for key in properties if not key.startswith(f"{_ROOT}.")]
    notes = [f"not modelled of {name}: {', '.join(general)}"] if general else []
    of_labels = {
        f"{of[2] or value} ({of[1]})": None for key, (value, _) in properties.items() if (of := _LABELS.match(key))
    }
    if of_labels:
        notes.append(
            f"node labels and capacities by label are not modelled, as if all servers had none: {first_of(of_labels)}"
        )
    notes.append(
        About("a percentage of capacity is a guarantee of that part of the queue above, and the weight beyond it")
    )
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
        queue = _capacity_queue(child, parent, found, at)
        percentages += queue.guarantee_parts.get(ALL, 0.0)
        yield queue
        yield from _below(child, child, found)
    if percentages and abs(percentages - 1) > 1e-6:
        raise InvalidInstance(
            f"{at}: the capacities of the queues below {path!r} sum to {100 * percentages:g}%; make them sum to 100"
        )


def _capacity_queue(path: str, parent: str, found: _Properties, at: str) -> Queue:
    mine = {key.removeprefix(f"{path}."): value for key, value in found.items() if key.startswith(f"{path}.")}
    own = {key: value for key, value in mine.items() if not (_is_below(key, mine) or _LABELS.match(f"{path}.{key}"))}
    weight, amounts, parts = _capacity(*own["capacity"], f"capacity of queue {path}")
    of_limit = next((key for key in ("maximum-capacity", "max-capacity") if key in own), "")
    _, most, limit_parts = (
        _capacity(*own[of_limit], f"{of_limit} of queue {path}") if of_limit else (1.0, {}, dict[str, float]())
    )
    limit_parts = {} if limit_parts.get(ALL) == 1 else limit_parts
    notes = {key: value for key, (value, _) in own.items() if key not in _CAPACITY_READ and not key.startswith("acl_")}
    notes |= {"access lists": "set"} if any(key.startswith("acl_") for key in own) else {}
    return Queue(path, parent, weight, amounts, most, parts, limit_parts, notes=notes, place=own["capacity"][1] or at)


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
            amounts[resource] = number(value, where, fix=_CAPACITY_FIX) / (1024 if resource == "memory" else 1)
        return 1.0, amounts, {}
    if text.endswith("w"):
        return number(text[:-1], where, fix=_CAPACITY_FIX), {}, {}
    if text == "-1":
        return 1.0, {}, {}
    percentage = number(text.removesuffix("%"), where, fix=_CAPACITY_FIX)
    if percentage > 100:
        raise InvalidInstance(f"{where} is {shown(text)}; give at most 100")
    return percentage, {}, {ALL: percentage / 100}
