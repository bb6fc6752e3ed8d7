"""YARN's ``fair-scheduler.xml``: queues in each other, or named by paths such as ``root.research.nlp``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.queues.amounts import number, usual
from fairopt.io.queues.tree import ALL, Queue, QueueTree
from fairopt.io.queues.xml_text import place_of, text_of

_ROOT = "root"
_AMOUNT = r"([0-9]+(?:\.[0-9]+)?)"
_OLD = re.compile(rf"{_AMOUNT}\s*(mb|vcores?)", re.IGNORECASE)
_PART = re.compile(rf"{_AMOUNT}\s*%\s*(memory|cpu|vcores)?", re.IGNORECASE)
_FIX = "give amounts as '10240 mb, 12 vcores' or 'memory-mb=10240, vcores=12', or parts as '50%'"
_ELEMENTS = {"minResources": ("guarantee", "guarantee_parts"), "maxResources": ("limit", "limit_parts")}
_READ = {"queue", "pool", "weight", *_ELEMENTS}


def tree_of(root: Element, name: str) -> QueueTree:
    """The queues of a file."""
    queues = list[Queue]()
    for child in root:
        if child.tag in ("queue", "pool"):
            queues += _queue(child, "", name)
    others = dict.fromkeys(child.tag for child in root if child.tag not in ("queue", "pool"))
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
