"""Lists of hosts as Slurm writes them, such as ``a100-[01-09]``: the names in a list, and a list of names."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable

_MOST_HOSTS = 65_536  # the longest range of Slurm


def hosts(text: str) -> frozenset[str] | None:
    """The names in a list such as ``n[001-003,7],login1``, or None if it is malformed or too long."""
    names = names_of(text)
    return None if names is None else frozenset(names)


def names_of(text: str) -> list[str] | None:
    """The different names in a list in its order, or None as in `hosts`."""
    names: dict[str, None] = {}
    for item in re.split(r",(?![^\[]*\])", text):
        pieces = re.split(r"\[([^\[\]]*)\]", item.strip())
        choices: list[list[str]] = []
        for k, piece in enumerate(pieces):
            numbers = _range(piece) if k % 2 else [piece]
            if not numbers or (not k % 2 and re.search(r"[\[\]\s]", piece)):
                return None
            choices.append(numbers)
        if math.prod(map(len, choices)) + len(names) > _MOST_HOSTS:
            return None
        names.update(dict.fromkeys(map("".join, itertools.product(*choices))))
    return [name for name in names if name]


def _range(text: str) -> list[str]:
    out: list[str] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part.strip())
        if match is None:
            return []
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first + len(out) >= _MOST_HOSTS:
            return []
        out += [f"{k:0{len(match[1])}d}" for k in range(first, last + 1)]
    return out


def hostlist(names: Iterable[str]) -> str:
    """A list of different names, those that differ in their last number in brackets, in order of the names.

    Names with brackets, commas or blanks could not be read back; then it is the first name alone.
    """
    given = [*names]
    if len(given) == 1 or any(re.search(r"[\[\],\s]", name) for name in given):
        return given[0]
    parts = [re.fullmatch(r"(.*?)([0-9]{1,18})([^0-9]*)", name) for name in sorted(given)]
    padded = {(part[1], part[3], len(part[2])) for part in parts if part and part[2][0] == "0" != part[2]}
    groups: dict[tuple[str, str, int], list[int]] = {}
    for name, part in zip(sorted(given), parts, strict=True):
        if part is None:
            groups[name, "", 0] = []
            continue
        key = (part[1], part[3], len(part[2]))
        groups.setdefault(key if key in padded else (*key[:2], 1), []).append(int(part[2]))
    return ",".join(_joined(*group, numbers) for group, numbers in groups.items())


def _joined(start: str, end: str, width: int, numbers: list[int]) -> str:
    """One item of a list: a name, or the names with these numbers."""
    if not numbers:
        return start
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = ["-".join(f"{k:0{width}d}" for k in dict.fromkeys(ends)) for ends in ranges]
    return f"{start}[{','.join(texts)}]{end}" if len(numbers) > 1 else f"{start}{texts[0]}{end}"
