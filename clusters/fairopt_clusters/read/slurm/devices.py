"""What tasks take of generic resources: GPUs, slices of GPUs (MIG), and GPUs of a type."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from fairopt.io import About, Notes
from fairopt.runtime import Bool
from fairopt_clusters.read.slurm.fields import Amounts, Key

UNNAMED = "unnamed GPU"  # the type of GPUs without one
ANY = "any"  # as a type: one device of any type, whole or a slice
_SLICE = re.compile(  # 1g.10gb, a100_1g.5gb, 1c.2g.10gb+me; shared-8 of Kubernetes
    r"(^|[^0-9A-Za-z])\d+g[._]?\d+gb|^shared-\d+$", re.IGNORECASE
)


def is_slice(kind: str) -> bool:
    """Whether a type of GPU is a slice of one, as NVIDIA names profiles of MIG, or a part that is shared.

    Examples
    --------
    >>> is_slice("1g.10gb"), is_slice("nvidia_a100_3g.20gb"), is_slice("a100-80gb")
    (True, True, False)
    """
    return bool(_SLICE.search(kind))


@dataclass(frozen=True, eq=False)
class Devices:
    """The resources that generic resources of servers become, and their amounts.

    A name such as ``gpu`` counts whole devices of all types. Slices of each type are a resource of their own. Two
    further resources only limit what fits together, and set no share:

    * ``gpu:a100``, if a server has a100 beside other whole GPUs and jobs request them: these need both. On servers with
      GPUs of one type it does not bind, and there is so much that its total is at least that of ``gpu``.
    * ``gpu:any``, if a request without a type may run on slices and on other devices: all requests need it. Each server
      has as many as devices.
    """

    servers: Sequence[Amounts]
    keys: tuple[Key, ...] = ()
    elsewhere: Mapping[Key, int] = field(default_factory=dict)  # of a type that limits: its multiple of the devices

    def of_server(self, amounts: Amounts) -> dict[Key, Fraction]:
        """What a server has of each resource."""
        out: dict[Key, Fraction] = {}
        for name, kind in self.keys:
            whole, there = whole_of(amounts, name), amounts.typed.get((name, kind), Fraction(0))
            if not kind:
                out[name, kind] = whole
            elif kind == ANY:
                out[name, kind] = amounts.total.get(name, Fraction(0))
            elif is_slice(kind) or 0 < there < whole:
                out[name, kind] = there
            else:
                out[name, kind] = whole * self.elsewhere[name, kind]
        return out

    def of_task(self, amounts: Amounts, allowed: Bool) -> dict[Key, Fraction]:
        """The devices that a task uses if it may run on the ``allowed`` servers."""
        out: dict[Key, Fraction] = {}
        for name, total in amounts.total.items():
            free = untyped(amounts, name)
            chosen = self.choice(name, allowed) if free else ""
            of_kinds = {kind: n for (of, kind), n in amounts.typed.items() if of == name}
            if chosen and chosen != ANY:
                of_kinds[chosen] = of_kinds.get(chosen, Fraction(0)) + free
            of_kinds[""] = whole_of(amounts, name) - (free if chosen else 0)
            of_kinds[ANY] = total
            out |= {(name, kind): n for kind, n in of_kinds.items() if n and (name, kind) in self.keys}
        return out

    def choice(self, name: str, allowed: Bool) -> str:
        """The resource of a request without a type: ``""`` for whole devices, a type of slices, or `ANY`."""
        kinds = [kind for kind, has in self._with[name].items() if (has & allowed).any()]
        return "" if not kinds else kinds[0] if len(kinds) == 1 else ANY

    @cached_property
    def _with(self) -> dict[str, dict[str, Bool]]:
        """The servers with whole devices (``""``) and with slices of each type, by name."""
        empty = np.zeros(len(self.servers), dtype=np.bool_)
        out: dict[str, dict[str, Bool]] = defaultdict(lambda: defaultdict(empty.copy))
        for s, server in enumerate(self.servers):
            for name in server.total:
                out[name][""][s] = whole_of(server, name) > 0
            for (name, kind), amount in server.typed.items():
                if is_slice(kind):
                    out[name][kind][s] = amount > 0
        return out


def whole_of(amounts: Amounts, name: str) -> Fraction:
    """The devices of a name that are no slices."""
    slices = (n for (of, kind), n in amounts.typed.items() if of == name and is_slice(kind))
    return max(Fraction(0), amounts.total.get(name, Fraction(0)) - sum(slices, Fraction(0)))


def untyped(amounts: Amounts, name: str) -> Fraction:
    """The devices of a name without a type."""
    return amounts.total.get(name, Fraction(0)) - sum(n for (of, _), n in amounts.typed.items() if of == name)


def devices_of(
    servers: Sequence[Amounts],
    closed: Sequence[Amounts],
    tasks: Sequence[tuple[str, Amounts, Bool]],
    notes: Notes,
    word: str = "job",
) -> Devices:
    """The resources for the requests of tasks, given with the names of their jobs and where they may run.

    ``closed`` are servers with what runs there only. Notes call a task by ``word``.
    """
    devices = Devices(servers)
    keys, elsewhere = list[Key](), dict[Key, int]()
    for name in sorted({name for _, amounts, _ in tasks for name, amount in amounts.total.items() if amount}):
        mine = [(job, amounts, allowed) for job, amounts, allowed in tasks if amounts.total.get(name)]
        typed = {kind for _, amounts, _ in mine for (of, kind), n in amounts.typed.items() if of == name and n}
        free = [(job, devices.choice(name, allowed)) for job, amounts, allowed in mine if untyped(amounts, name)]
        wanted = typed | {kind for _, kind in free}
        if any(not is_slice(kind) and kind != ANY for kind in wanted):
            keys.append((name, ""))
        for kind in sorted(wanted - {"", ANY}):
            if is_slice(kind):
                keys.append((name, kind))
            elif (most := _elsewhere(servers, closed, name, kind, notes)) is not None:
                keys.append((name, kind))
                elsewhere[name, kind] = most
        if ANY in wanted:
            keys.append((name, ANY))
            what = "without a type of {generic} may run on slices too: counted as {generic}:any, of all devices"
            what = f"{{{word}}} {what}"
            notes.add(what, *(job for job, kind in free if kind == ANY), generic=name)
        slices = sorted({kind for server in servers for of, kind in server.typed if of == name and is_slice(kind)})
        if slices:
            listed = ", ".join(f"{name}:{kind}" for kind in slices)
            notes.say(f"slices of GPUs are resources of their own, and not counted as {name}: {listed}")
    return Devices(servers, tuple(keys), elsewhere)


def _elsewhere(servers: Sequence[Amounts], closed: Sequence[Amounts], name: str, kind: str, notes: Notes) -> int | None:
    """What servers with one type have of a type that limits, as a multiple of their devices; None if it does not."""
    total, on, there = Fraction(0), Fraction(0), Fraction(0)
    for server in servers:
        whole, of_kind = whole_of(server, name), server.typed.get((name, kind), Fraction(0))
        total += whole
        if 0 < of_kind < whole:
            on += whole
            there += of_kind
    if not on:
        return None
    open_elsewhere = total - on
    if not open_elsewhere:
        notes.say(
            f"each server with {name} has several types, so requests for {name}:{kind} are measured by what there is "
            "of it"
        )
        return 0
    what = f"{name}:{kind} only limits what fits on servers with several types, and does not bind on others"
    notes.say(About(what))
    total += sum((whole_of(server, name) for server in closed), Fraction(0))
    return math.ceil((total - there) / open_elsewhere)
