"""Text made safe for terminals: on one line, without control characters; names cut where they are the same, and names
of resources in sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

LONG = 100  # longer names, such as the text of a block, are shortened, in characters

NAME = 24  # characters of a name: leaves room for numbers on 80 columns
CORES = ("core", "cores")  # units that go without saying
LEAST = 6  # characters of a name on a narrow terminal
_WORD_AT_START, _WORD_AT_END = re.compile(r"\A[^\W_]+"), re.compile(r"[^\W_]+\Z")
_JOINERS = "\u200c\u200d"  # part of words in some scripts and of emoji


class About(str):
    """A note that explains an input and changes no number.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.About("weights are those of the file")
    'weights are those of the file'
    """


def visible(text: str) -> str:
    r"""A name on one line, with control and direction characters escaped.

    Examples
    --------
    >>> from fairopt.runtime import visible
    >>> visible("two\nlines")
    'two\\nlines'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode() for c in text)


def sentence(text: str) -> str:
    """A sentence on one line."""
    return visible(" ".join(text.split()))


def shorter(name: str, most: int = 26) -> str:
    """A name on one line; the middle of a long one is cut.

    Examples
    --------
    >>> from fairopt.runtime import shorter
    >>> shorter("abcdefghij", 6)
    'abc…ij'
    """
    shown = "".join(c if c.isprintable() else " " for c in name)
    if len(shown) > most:  # similar names often differ at the end
        end = (most - 1) // 2
        shown = shown[: most - 1 - end] + "…" + shown[len(shown) - end :]
    return shown


def tasks_in_words(number: str) -> str:
    """A formatted number of tasks, as "1 task" or "2.5 tasks"."""
    return f"{number} task{'s' * (number != '1')}"


def first_of(names: Iterable[str], most: int = 5) -> str:
    """The first names, and how many more there are.

    Examples
    --------
    >>> from fairopt.runtime import first_of
    >>> first_of("abcd", 2)
    'a, b and 2 more'
    """
    every = [*names]
    return ", ".join(every[:most]) + f" and {len(every) - most:,} more" * (len(every) > most)


def without_vendor(resources: Sequence[str]) -> list[str]:
    """Names of resources after their last slash; those that would become equal as they are.

    Examples
    --------
    >>> from fairopt.runtime import without_vendor
    >>> without_vendor(["cpu", "nvidia.com/gpu"])
    ['cpu', 'gpu']
    """
    last = [name.rpartition("/")[2] for name in resources]
    return [one if last.count(one) == 1 else name for one, name in zip(last, resources, strict=True)]


def of_units(resources: Sequence[str], units: Sequence[str] | None) -> list[str]:
    """What follows an amount of each resource in a sentence; cores of a CPU go without saying.

    Examples
    --------
    >>> from fairopt.runtime import of_units
    >>> of_units(["cpu", "memory"], ["core", "GiB"])
    ['cpu', 'GiB of memory']
    """
    names = without_vendor(resources)
    if units is None:
        return names
    return [
        f"{shown} of {name}" if (shown := unit_shown(unit)) else name for name, unit in zip(names, units, strict=True)
    ]


def unit_shown(unit: str) -> str:
    """The unit beside the name of a resource; empty for cores.

    Examples
    --------
    >>> from fairopt.runtime import unit_shown
    >>> unit_shown("GiB"), unit_shown("core")
    ('GiB', '')
    """
    return "" if unit in CORES else unit


def label(mechanism: Any) -> str:
    """The name of a mechanism in tables and messages: its name, its short text, or its class."""
    if name := getattr(mechanism, "name", None):
        return str(name)
    if not isinstance(mechanism, str) and type(mechanism).__str__ is not object.__str__:  # type: ignore[comparison-overlap]
        return str(mechanism)  # blocks and policies shorten their parameters
    text = mechanism if isinstance(mechanism, str) else repr(mechanism)
    return type(mechanism).__name__ if text == object.__repr__(mechanism) else shorter(sentence(text), LONG)


def width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def short(name: str, most: int = NAME) -> str:
    """A name cut in the middle to a width, since names may differ at both ends.

    Examples
    --------
    >>> from fairopt.runtime import short
    >>> short("team-vision-training", 12)
    'team-vis…ing'
    """
    name = visible(name)
    if width(name) <= most:
        return name
    tail = _cut(name[::-1], (most - 1) // 3)[::-1]
    return _cut(name, most - 1 - width(tail)) + "…" + tail


def shortened(names: Sequence[str], most: int = NAME) -> list[str]:
    """Names cut to a width where they are the same; those that differ in too much for it get a number.

    Examples
    --------
    >>> from fairopt.runtime import shortened
    >>> shortened(["team-vision-training-1", "team-vision-training-2"], 12)
    ['team-visio…1', 'team-visio…2']
    """
    cut = _differing([*dict.fromkeys(map(visible, names))], most)
    used = {name: name for name in cut if width(name) <= most}
    for name, text in cut.items():
        k = 1
        while used.setdefault(cut[name], name) != name:
            k += 1
            cut[name] = short(text, most - len(f" {k}")) + f" {k}"
    return [cut[visible(name)] for name in names]


def _differing(names: Sequence[str], most: int) -> dict[str, str]:
    """Names cut to a width, by name; those that begin alike keep the part in which they differ."""
    cut = {name: short(name, most) for name in names}
    groups: dict[str, list[str]] = {}
    for name in names:
        if width(name) > most:
            groups.setdefault(cut[name].partition("…")[0], []).append(name)
    for group in groups.values():
        if len(group) > 1:
            cut |= _around_difference(group, most)
    return cut


def _around_difference(names: Sequence[str], most: int) -> dict[str, str]:
    """Names cut around the words in which they differ or, if these are too long, around the characters."""
    first, start = names[0], _same(names)
    end = len(first) - _same([name[start:][::-1] for name in names])
    before, after, left = _WORD_AT_END.sub("", first[:start]), _WORD_AT_START.sub("", first[end:]), most - 2
    parts = {name: name[len(before) : len(name) - len(after)] for name in names}
    if max(map(width, parts.values())) > left:  # which leaves room for "…" on both sides
        before, after = first[:start], first[end:]
        parts = {name: name[len(before) : len(name) - len(after)] for name in names}
        if max(map(width, parts.values())) > left:
            left = most - LEAST
    if left < LEAST:
        return {}
    shown = _differing([*parts.values()], left)
    room = most - max(map(width, shown.values()))
    after = _beginning(after[::-1], max(room // 2, room - width(before)))[::-1]
    before = _beginning(before, room - width(after))
    return {name: before + shown[part] + after for name, part in parts.items()}


def _beginning(text: str, places: int) -> str:
    """The beginning of a text, with "…" for what is cut to a width."""
    return text if width(text) <= places else _cut(text, places - 1) + "…"


def _cut(text: str, places: int) -> str:
    """The beginning of a text, cut to a width."""
    while width(text) > places:
        text = text[: min(places, len(text) - 1)]
    return text


def _same(names: Sequence[str]) -> int:
    """The number of characters with which all names begin."""
    places = (k for k, characters in enumerate(zip(*names, strict=False)) if len(set(characters)) > 1)
    return next(places, min(map(len, names)))


def with_all_digits(value: Fraction) -> str:
    """A fraction such as ``5/11`` as text, also beyond the number of digits that Python converts by default."""
    n, d = value.as_integer_ratio()
    return f"{Decimal(n)}" + (f"/{Decimal(d)}" if d != 1 else "")
