"""Types of pydantic models for values as Slurm writes them: numbers, states, TRES and GRES, array tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, NamedTuple

from pydantic import PlainValidator

from fairopt.errors import InvalidInstance
from fairopt.io import Part, shown

# NO_VAL16 and NO_VAL of slurm.h (INFINITE is above them); versions before 0.0.39 write them as plain numbers
_UNSET = {16: 0xFFFE, 32: 0xFFFFFFFE, 64: 0xFFFFFFFFFFFFFFFE}
_NOTHING = {"", "(null)", "N/A", "NA", "n/a", "None"}  # missing values, by version
_DIGITS = re.compile("[0-9]{1,30}")
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTPEkmgtpe]?)")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
Key = tuple[str, str]  # a generic resource and its type: ("gpu", "") of any type, or ("gpu", "a100")
_NOT_GENERIC = {"cpu", "mem", "node", "billing", "energy", "vmem", "pages"}


def whole(value: object, bits: int = 32) -> int | None:
    """A whole number; None if it is unset or infinite, which Slurm does not distinguish.

    ``bits`` (16, 32 or 64) is the size of the number in Slurm, which determines the mark of an unset one.
    """
    if isinstance(value, Mapping):  # {"set": true, "infinite": false, "number": 5}
        for key in ("set", "infinite"):
            if not isinstance(value.get(key), (bool, type(None))):
                raise InvalidInstance(f"give true or false as {key!r}, not {shown(value[key])}")
        if value.get("infinite") or value.get("set") is False:
            return None
        if isinstance(value.get("number"), (Mapping, type(None))):
            raise InvalidInstance("give 'number' as a whole number >= 0, or 'set' as false")
        value = value["number"]
    number = -1
    if isinstance(value, str):
        word = value.strip()
        if word in _NOTHING:
            return None
        number = int(word) if _DIGITS.fullmatch(word) else -1
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if not 0 <= number < 2**64:
        raise InvalidInstance(f"give a whole number >= 0{' below 2**64, the largest of Slurm' * (number > 0)}")
    return None if number >= _UNSET[bits] else number


def text(value: object) -> str:
    """Text without surrounding blanks, or a list joined by commas; empty if Slurm has no value."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = ",".join(value)
    if not isinstance(value, str):
        raise InvalidInstance("give text, or a list of texts")
    value = value.strip()
    return "" if value in _NOTHING else value


def words(value: object) -> list[str]:
    """The words of a list, or of a text with commas."""
    return [word for part in text(value).split(",") if (word := part.strip()) and word not in _NOTHING]


_SIGNS = {  # sinfo appends these to a state
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


def states(value: object) -> set[str]:
    """States in capitals from a list or a text such as ``IDLE+DRAIN`` or ``drng*``, whose sign is a state too."""
    found: set[str] = set()
    for word in re.split(r"[\s,+]+", text(value).upper()):
        name = word.rstrip("".join(_SIGNS))
        found.update({name} - {""}, (_SIGNS[sign] for sign in word[len(name) :]))
    return found


def flags(value: object) -> set[str]:
    """Words in capitals; TRUE for true; nothing for numbers, which some versions write."""
    if isinstance(value, (str, list)):
        return {word.upper() for word in words(value)}
    return {"TRUE"} if value is True else set()


@dataclass
class Amounts:
    """Generic resources by name and by name and type, and plain resources."""

    total: dict[str, Fraction] = field(default_factory=dict)
    typed: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    plain: dict[str, Fraction] = field(default_factory=dict)

    def add(self, name: str, amount: Fraction) -> None:
        """Add an amount of ``gpu`` or ``gpu:a100``."""
        name, _, kind = name.partition(":")
        self.total[name] = self.total.get(name, Fraction(0)) + amount
        if kind:
            self.typed[name, kind] = self.typed.get((name, kind), Fraction(0)) + amount

    def add_missing(self, other: Amounts, factor: Fraction) -> None:
        """Add amounts times a factor: totals of names that are missing, and types of names without types."""
        without = {name for name in other.total} - {name for name, _ in self.typed}
        self.typed |= {(name, kind): amount * factor for (name, kind), amount in other.typed.items() if name in without}
        for name, amount in other.total.items():
            self.total.setdefault(name, amount * factor)
            types = sum((n for (of, _), n in self.typed.items() if of == name), Fraction(0))
            self.total[name] = max(self.total[name], types)


def tres(value: object) -> Amounts:
    """``cpu=4,mem=16G,node=1,gres/gpu=4,gres/gpu:a100=4``: GRES, and ``plain`` resources.

    Plain resources are cpus, MiB of memory, servers and licences. An amount without a type includes those with one: the
    example has four GPUs in all.
    """
    loose: dict[str, Fraction] = {}
    out = Amounts()
    for name, amount in _items(value):
        kind, _, generic = name.partition("/")
        if kind == "gres" and ":" in generic:
            out.add(generic, amount_of(name, amount or "1"))
        elif kind == "gres" and generic:
            loose[generic] = amount_of(name, amount or "1")
        elif name in ("cpu", "mem", "node", "license") or kind == "license":
            out.plain[kind] = amount_of(name, amount or "", mebibytes=kind == "mem")
    for generic, total in loose.items():
        out.total[generic] = max(total, out.total.get(generic, total))
    return out


def gres(value: object, requested: bool = False) -> Amounts:
    """Generic resources, as ``gpu:a100:8(S:0-3)``, ``gres/gpu=8`` or ``gres:gpu:2``.

    A job's request, such as ``tres_per_task``, may contain ``cpu`` and ``mem``, which are left out. A server may have a
    generic resource named ``cpu``.
    """
    out = Amounts()
    for name, amount in _items(value):
        generic = re.sub("^gres[/:]", "", name)
        if requested and generic == name and (name.partition(":")[0] in _NOT_GENERIC or "/" in name):
            continue
        if amount is None:
            head, _, last = generic.rpartition(":")
            generic, amount = (head, last) if head and _AMOUNT.fullmatch(last) else (generic, "1")
        if generic and "no_consume" not in generic.split(":"):
            out.add(generic, amount_of(name, amount))
    return out


def _items(value: object) -> Iterator[tuple[str, str | None]]:
    """Names and amounts, without parts in parentheses, as the sockets of GPUs."""
    for item in re.sub(r"\([^()]*\)", "", text(value)).split(","):
        name, equals, amount = item.partition("=")
        if name.strip() not in _NOTHING:
            yield name.strip(), amount.strip() if equals else None


def amount_of(name: str, amount: str, mebibytes: bool = False) -> Fraction:
    """A number with a suffix such as G, of memory in MiB where it has none."""
    match = _AMOUNT.fullmatch(amount)
    if match is None:
        raise InvalidInstance(f"give a number for {shown(name[:40])}, as 4 or 16G, not {shown(amount)}")
    suffix = match[2].upper()
    return Fraction(match[1]) * Fraction(1024) ** ("KMGTPE".find(suffix or "-") + 1 - 2 * (mebibytes and suffix != ""))


def time_seconds(text: str) -> float:
    """A time ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds`` or ``days-hours[:minutes[:seconds]]``."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise InvalidInstance("give a time such as 14-0, days and hours")
    days, *parts = match.groups()
    given = [float(part) for part in parts if part is not None]
    units = [3600.0, 60.0, 1.0] if days is not None or len(given) == 3 else [60.0, 1.0]
    return float(days or 0) * 86400 + sum(n * unit for n, unit in zip(given, units, strict=False))


class HostShare(NamedTuple):
    """Cores, and MiB of memory, that a job has on one server."""

    cpus: int = 0
    memory: int = 0


def host_shares(value: object) -> dict[str, HostShare]:
    """What a job has on each of its servers, from ``job_resources``; empty where a version does not say it.

    Newer versions list ``name``, ``cpus.count`` and ``memory.allocated`` in ``nodes.allocation``, older ones
    ``nodename`` and ``memory_allocated`` in ``allocated_nodes``.
    """
    of_job = value if isinstance(value, Mapping) else {}
    nodes = of_job.get("nodes")
    entries = nodes.get("allocation") if isinstance(nodes, Mapping) else of_job.get("allocated_nodes")
    out = dict[str, HostShare]()
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping):
            continue
        name, cpus, memory = entry.get("name", entry.get("nodename")), entry.get("cpus"), entry.get("memory")
        counted = cpus.get("count") if isinstance(cpus, Mapping) else None
        there = memory.get("allocated") if isinstance(memory, Mapping) else entry.get("memory_allocated")
        if isinstance(name, str):
            out[name] = HostShare(*((whole(one) or 0) if one is not None else 0 for one in (counted, there)))
    return out


def details(value: object) -> list[Amounts]:
    """Generic resources of a job on each of its servers, as ``["gpu:a100:2(IDX:0-1)"]``."""
    return [gres(one) for one in value] if isinstance(value, list) else []


class ArrayText(NamedTuple):
    """The number of waiting tasks of an array (0 without one), whether the text is truncated, and the limit in it."""

    waiting: int = 0
    cut: bool = False
    at_once: int | None = None


def array_tasks(value: object) -> ArrayText:
    """The waiting tasks of an array ``1-10,15,20-30:2%5``; the number after ``%`` limits how many run at once."""
    ranges, throttle, limit = text(value).strip("[] ").partition("%")
    if throttle and not _DIGITS.fullmatch(limit.strip("[] .")):
        raise InvalidInstance("give a number of tasks at once after %, as 1-400%50")
    at_once = int(limit.strip("[] .")) or None if throttle else None
    ranges = ranges.strip("[] ")
    if re.fullmatch(r"0x[0-9A-Fa-f]{1,100000}", ranges):
        return ArrayText(int(ranges, 16).bit_count(), False, at_once)
    count, cut = 0, False
    for part in ranges.split(",") if text(value) else ():
        if "..." in part:
            cut = True
            part = part.partition("...")[0].rstrip("-:")
            if not part:
                continue
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part.strip())
        first, last, step = (int(match[1]), int(match[2] or match[1]), int(match[3] or 1)) if match else (1, 0, 1)
        if last < first or step < 1:
            raise InvalidInstance("give ranges of tasks, as 1-10,15,20-30:2%5")
        count += (last - first) // step + 1
    return ArrayText(max(count, 1) if text(value) else 0, cut, at_once)


Whole = Annotated[int | None, PlainValidator(whole)]
Whole16 = Annotated[int | None, PlainValidator(lambda value: whole(value, bits=16))]
Whole64 = Annotated[int | None, PlainValidator(lambda value: whole(value, bits=64))]
Text = Annotated[str, PlainValidator(text)]
Words = Annotated[list[str], PlainValidator(words)]
States = Annotated[set[str], PlainValidator(states)]
Flags = Annotated[set[str], PlainValidator(flags)]
Tres = Annotated[Amounts, PlainValidator(tres)]
Gres = Annotated[Amounts, PlainValidator(gres)]
Requested = Annotated[Amounts, PlainValidator(lambda value: gres(value, requested=True))]
Hosts = Annotated[dict[str, HostShare], PlainValidator(host_shares)]
Details = Annotated[list[Amounts], PlainValidator(details)]
ArrayTasks = Annotated[ArrayText, PlainValidator(array_tasks)]


class Trackable(Part):
    """An entry of a list of trackable resources in JSON, such as ``{"type": "gres", "name": "gpu", "count": 8}``."""

    type: Text = ""
    name: Text = ""
    count: Whole = None


def tres_of_list(entries: Iterable[Trackable]) -> Amounts:
    """Trackable resources of a list, as `tres` reads those of a text; memory is in MiB there."""
    return tres(
        ",".join(
            f"{one.type}{'/' * bool(one.name)}{one.name}={one.count}{'M' * (one.type == 'mem')}"
            for one in entries
            if one.count is not None
        )
    )


# -- constraints ----------------------------------------------------------------------------------------------


def satisfies(constraint: str) -> Callable[[frozenset[str]], bool] | None:
    """Whether a set of features meets a constraint, as ``a100&(ib|roce)``.

    Features are joined by ``&`` (or a comma) and ``|``, read strictly from left to right as Slurm does, with
    parentheses. Brackets, which require the same feature on all servers of a job, are read as parentheses. None if the
    constraint is malformed or counts servers, as in ``rack1*2``.

    Examples
    --------
    >>> satisfies("a|b&c")({"a"}), satisfies("a&(b|c)")({"a", "c"})
    (False, True)
    """
    tokens = re.findall(r"[&|,()\[\]]|[^&|,()\[\]]+", constraint.replace(" ", ""))
    if "*" in constraint or _value(tokens, frozenset()) is None:
        return None
    return lambda features: bool(_value(tokens, features))


def _value(tokens: list[str], features: frozenset[str]) -> bool | None:
    """The value of a constraint for some features, None if it is not well formed."""
    outer: list[tuple[bool | None, str, str]] = []  # value, operator and closing mark of each open parenthesis
    value: bool | None = None  # of the part left of the operator, if any
    operator = "start"
    for token in tokens:
        if token in "([" and operator:
            outer.append((value, operator, ")" if token == "(" else "]"))
            value, operator = None, "start"
        elif token in "&|," and not operator:
            operator = token
        else:
            right: bool | None = token in features
            if token in ")]":
                if operator or not outer or outer[-1][2] != token:
                    return None
                right = value
                value, operator, _ = outer.pop()
            if not operator or token in "&|,([":
                return None
            value = right if operator == "start" else value or right if operator == "|" else value and right
            operator = ""
    return None if operator or outer else value
