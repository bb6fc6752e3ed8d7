"""What all objects of Kubernetes have in common: lists of one kind, names, labels, amounts of resources."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import Entry
from fairopt.io.kubernetes.quantities import quantity_of

__all__ = ["amounts", "items", "labels", "refuse_twins"]


def items(document: Entry, kind: str, command: str) -> Iterator[Entry]:
    """The objects of a list of one kind, ``Node`` or ``Pod``, as ``command`` gives it; a single one is a list too."""
    given = document["kind"].text("List")
    if given == kind:
        yield document
        return
    if given not in ("List", f"{kind}List"):
        document["kind"].refuse(f"give a list of {kind.lower()}s, as {command} gives it")
    if not document["items"]:
        document["items"].refuse(f"give a list of {kind.lower()}s, as {command} gives it")
    for item in document["items"].entries():
        if item["kind"].text(kind) != kind:
            item["kind"].refuse(f"give {kind.lower()}s only, as {command} gives them")
        yield item


def labels(metadata: Entry) -> dict[str, str]:
    """The labels of an object."""
    return {key: value.text("") for key, value in metadata["labels"].fields()}


def amounts(resources: Entry) -> dict[str, Fraction]:
    """Quantities by resource in base units, those of 0 too."""
    return {name: quantity_of(value) for name, value in resources.fields()}


def refuse_twins(first: dict[str, Entry], name: str, entry: Entry, fix: str) -> None:
    """Remember who has a name, or raise the error that names both."""
    other = first.setdefault(name, entry)
    if other is not entry:
        raise InvalidInstance(f"{entry.place} and {other.place} are both called {name!r}; {fix}")
