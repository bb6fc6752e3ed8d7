"""Values as Slurm writes them: numbers of several versions, states, TRES and GRES, tasks of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from fairopt.io.json_text import Entry, shown

__all__ = ["Amounts", "array_tasks", "flags", "gres", "states", "text", "tres", "whole", "words"]

# slurm.h: NO_VAL16 and NO_VAL, and above them INFINITE; versions before 0.0.39 write them as plain numbers
_UNSET = {16: 0xFFFE, 32: 0xFFFFFFFE}
_NOTHING = {"", "(null)", "N/A", "NA", "n/a", "None"}  # how versions write that there is no value
_DIGITS = re.compile("[0-9]{1,30}")
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTPEkmgtpe]?)")
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_NO_GRES = {"cpu", "mem", "node", "billing", "energy", "vmem", "pages"}


def whole(entry: Entry, bits: int = 32) -> int:
    """A whole number; 0 where it is missing, not set or infinite, which Slurm's fields use for each other.

    ``bits`` (16 or 32) is the size of the number in Slurm, which says how it writes that it is not set.
    """
    if isinstance(entry.value, Mapping):  # {"set": true, "infinite": false, "number": 5}
        infinite = entry["infinite"].flag()
        if infinite or (entry["set"] and not entry["set"].flag()):
            return 0
        entry = entry["number"]
        if not entry:
            entry.refuse("give a whole number >= 0, or set as false")
    value = entry.value.strip() if isinstance(entry.value, str) else entry.value
    number = -1
    if value is None or (isinstance(value, str) and value in _NOTHING):
        number = 0
    elif isinstance(value, str):
        number = int(value) if _DIGITS.fullmatch(value) else -1
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if number < 0:
        entry.refuse("give a whole number >= 0")
    return 0 if number >= _UNSET[bits] else number


def text(entry: Entry) -> str:
    """A text without blanks around it, or words of a list joined by commas; empty where there is none."""
    value = entry.value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = ",".join(value)
    if value is None:
        return ""
    if not isinstance(value, str):
        entry.refuse("give text, or a list of texts")
    value = value.strip()
    return "" if value in _NOTHING else value


def words(entry: Entry) -> list[str]:
    """Words of a list, or of a text with commas between them."""
    return [word for part in text(entry).split(",") if (word := part.strip()) and word not in _NOTHING]


_SIGNS = {  # that sinfo puts behind a state
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip


def states(entry: Entry, short: Mapping[str, str]) -> set[str]:
    """Full names of states in capitals, of a list or of text as ``IDLE+DRAIN`` or ``drng*``.

    ``short`` has the full names of short ones; signs behind states are known.
    """
    found: set[str] = set()
    for word in re.split(r"[\s,+]+", text(entry).upper()):
        name = word.rstrip("".join(_SIGNS))
        found.update(_SIGNS[sign] for sign in word[len(name) :])
        if name:
            found.add(short.get(name, name))
    return found


def flags(entry: Entry) -> set[str]:
    """Words in capitals of a field that some versions write as a number or as true, which then has none."""
    return {word.upper() for word in words(entry)} if isinstance(entry.value, (str, list)) else set()


class Amounts:
    """Generic resources: how many of each name, and how many of each type among them."""

    def __init__(self) -> None:
        self.total: dict[str, Fraction] = {}
        self.typed: dict[tuple[str, str], Fraction] = {}

    def add(self, name: str, amount: Fraction) -> None:
        """So many more of ``gpu`` or ``gpu:a100``."""
        name, _, kind = name.partition(":")
        self.total[name] = self.total.get(name, Fraction(0)) + amount
        if kind:
            self.typed[name, kind] = self.typed.get((name, kind), Fraction(0)) + amount

    def add_missing(self, other: Amounts, factor: Fraction) -> None:
        """What others are, times a factor: numbers of names that are not here yet, and types of names without types."""
        without = {name for name in other.total} - {name for name, _ in self.typed}
        for (name, kind), amount in other.typed.items():
            if name in without:
                self.typed[name, kind] = amount * factor
        for name, amount in other.total.items():
            self.total.setdefault(name, amount * factor)
            types = sum((n for (of, _), n in self.typed.items() if of == name), Fraction(0))
            self.total[name] = max(self.total[name], types)


def tres(entry: Entry) -> tuple[dict[str, Fraction], Amounts]:
    """``cpu=4,mem=16G,node=1,gres/gpu=4,gres/gpu:a100=4``: cpus, MiB of memory and licences by name, and the GRES.

    The number without a type counts those with one too: the four of the example are the same four.
    """
    plain: dict[str, Fraction] = {}
    loose: dict[str, Fraction] = {}
    out = Amounts()
    for name, amount in _items(entry):
        kind, _, generic = name.partition("/")
        if kind == "gres" and ":" in generic:
            out.add(generic, _amount(entry, name, amount or "1"))
        elif kind == "gres" and generic:
            loose[generic] = _amount(entry, name, amount or "1")
        elif name in ("cpu", "mem", "license") or kind == "license":
            plain[kind] = _amount(entry, name, amount or "", mebibytes=kind == "mem")
    for generic, total in loose.items():
        out.total[generic] = max(total, out.total.get(generic, total))
    return plain, out


def gres(entry: Entry, *, requested: bool) -> Amounts:
    """Generic resources, as ``gpu:a100:8(S:0-3)``, ``gres/gpu=8`` or ``gres:gpu:2``.

    In a job's request, as ``tres_per_task``, ``cpu`` and ``mem`` may stand as well; they are left out. A server may
    have a generic resource of the name ``cpu``.
    """
    out = Amounts()
    for name, amount in _items(entry):
        generic = re.sub("^gres[/:]", "", name)
        if requested and generic == name and (name.partition(":")[0] in _NO_GRES or "/" in name):
            continue
        if amount is None:
            head, _, last = generic.rpartition(":")
            generic, amount = (head, last) if head and _AMOUNT.fullmatch(last) else (generic, "1")
        if generic and "no_consume" not in generic.split(":"):
            out.add(generic, _amount(entry, name, amount))
    return out


def _items(entry: Entry) -> Iterator[tuple[str, str | None]]:
    """Names and amounts, without what stands in parentheses, as the sockets of GPUs."""
    for item in re.sub(r"\([^()]*\)", "", text(entry)).split(","):
        name, equals, amount = item.partition("=")
        if name.strip() not in _NOTHING:
            yield name.strip(), amount.strip() if equals else None


def _amount(entry: Entry, name: str, amount: str, mebibytes: bool = False) -> Fraction:
    match = _AMOUNT.fullmatch(amount)
    if match is None:
        entry.refuse(f"give a number for {shown(name[:40])}, as 4 or 16G, not {shown(amount)}")
    suffix = match[2].upper()
    return Fraction(match[1]) * Fraction(1024) ** (_POWER[suffix] - 2 * (mebibytes and suffix != ""))


def array_tasks(text: str) -> tuple[int, bool] | None:
    """How many tasks of an array, as ``1-10,15,20-30:2%5``, wait, and whether the text was cut off (``...``).

    What stands after the ``%`` is how many may run at once. None if the text cannot be understood.

    Examples
    --------
    >>> array_tasks("1-10,15,20-30:2%5")
    (17, False)
    """
    ranges = text.partition("%")[0].strip("[] ")
    if re.fullmatch(r"0x[0-9A-Fa-f]{1,100000}", ranges):
        return int(ranges, 16).bit_count(), False
    count, cut = 0, False
    for part in ranges.split(","):
        if "..." in part:
            cut = True
            part = part.partition("...")[0].rstrip("-:")
            if not part:
                continue
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part.strip())
        if match is None:
            return None
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1:
            return None
        count += (last - first) // step + 1
    return count, cut
