"""Text made safe for terminals, on one line and without control characters; names of resources in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["LONG", "label", "of_units", "sentence", "shorter", "visible", "without_vendor"]

LONG = 100  # longer names, such as the text of a block, are shortened, in characters

_JOINERS = "\u200c\u200d"  # part of words in some scripts and of emoji


def visible(text: str) -> str:
    r"""A name on one line, with control and direction characters escaped.

    Examples
    --------
    >>> print(visible("two\nlines and a colour: \x1b[31m"))
    two\nlines and a colour: \x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode() for c in text)


def sentence(text: str) -> str:
    """A sentence on one line."""
    return visible(" ".join(text.split()))


def shorter(name: str, most: int = 26) -> str:
    """A name on one line; the middle of a long one is cut."""
    shown = "".join(c if c.isprintable() else " " for c in name)
    if len(shown) > most:  # similar names often differ at the end
        end = (most - 1) // 2
        shown = shown[: most - 1 - end] + "…" + shown[len(shown) - end :]
    return shown


def without_vendor(resources: Sequence[str]) -> list[str]:
    """Names of resources after their last slash; those that would become equal as they are.

    Examples
    --------
    >>> without_vendor(["nvidia.com/gpu", "a.com/rdma", "b.com/rdma"])
    ['gpu', 'a.com/rdma', 'b.com/rdma']
    """
    last = [name.rpartition("/")[2] for name in resources]
    return [one if last.count(one) == 1 else name for one, name in zip(last, resources, strict=True)]


def of_units(resources: Sequence[str], units: Sequence[str] | None) -> list[str]:
    """What follows an amount of each resource in a sentence; cores of a CPU go without saying.

    Examples
    --------
    >>> of_units(["cpu", "memory", "nvidia.com/gpu"], ["core", "GiB", ""])
    ['cpu', 'GiB of memory', 'gpu']
    """
    names = without_vendor(resources)
    if units is None:
        return names
    return [name if unit in ("", "core") else f"{unit} of {name}" for name, unit in zip(names, units, strict=True)]


def label(mechanism: Any) -> str:
    """The name of a mechanism in tables and messages: its name, its short text, or its class."""
    if name := getattr(mechanism, "name", None):
        return str(name)
    if not isinstance(mechanism, str) and type(mechanism).__str__ is not object.__str__:  # type: ignore[comparison-overlap]
        return str(mechanism)  # blocks and policies shorten their parameters
    text = mechanism if isinstance(mechanism, str) else repr(mechanism)
    return type(mechanism).__name__ if text == object.__repr__(mechanism) else shorter(sentence(text), LONG)
