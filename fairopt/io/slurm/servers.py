"""Nodes of a Slurm cluster as servers: what they have, and whether they may start jobs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fairopt.io.json_text import Entry, shown_key
from fairopt.io.notes import Notes
from fairopt.io.slurm.fields import Amounts, gres, states, whole, words

__all__ = ["SlurmServer", "read_servers"]

_UNUSABLE = {
    "BLOCKED", "DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVALID", "INVALID_REG",
    "MAINT", "MAINTENANCE", "NOT_RESPONDING", "NO_RESPOND", "PERFCTRS", "POWER_DRAIN", "UNKNOWN",
}  # fmt: skip
_ASLEEP = {"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"}
_USABLE = {
    "ALLOCATED", "CLOUD", "COMPLETING", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "IDLE", "MIXED", "NET", "PLANNED",
    "POWERING_UP", "POWER_UP", "REBOOT", "REBOOT_CANCELED", "REBOOT_ISSUED", "REBOOT_REQUESTED", "RES", "RESERVED",
    "RESUME", "UNDRAIN",
}  # fmt: skip
_SHORT = {  # as sinfo writes them in a narrow column
    "ALLOC": "ALLOCATED", "BLCK": "BLOCKED", "BOOT": "REBOOT", "COMP": "COMPLETING", "DRNG": "DRAINING",
    "FAILG": "FAILING", "FUTR": "FUTURE", "INVAL": "INVALID_REG", "MIX": "MIXED", "NPC": "PERFCTRS", "PLND": "PLANNED",
    "POW_DN": "POWERING_DOWN", "POW_UP": "POWERING_UP", "RESV": "RESERVED", "UNK": "UNKNOWN",
}  # fmt: skip


@dataclass(frozen=True)
class SlurmServer:
    """A node that may start jobs."""

    name: str
    has: dict[str, Fraction]
    generic: Amounts
    partitions: frozenset[str] | None  # None: not known
    features: frozenset[str]


def read_servers(nodes: list[Entry], notes: Notes) -> list[SlurmServer]:
    """The servers among the nodes of a cluster; what is left out or assumed is added to the notes."""
    servers: dict[str, SlurmServer] = {}
    for node in nodes:
        name = node["name"].name().strip()
        node.called(name)
        state = states(node["state"], _SHORT) | states(node["state_flags"], _SHORT)
        if state & _UNUSABLE:
            notes.add("{server} that can start no jobs {was} left out", f"{name}: {min(state & _UNUSABLE)}")
            continue
        if name in servers:
            node["name"].refuse("give each node once")
        strange = state - _USABLE - _ASLEEP
        if strange:
            example = f"{name}: {shown_key(min(strange))}"
            notes.add("{server} in a state that is not known here {counts} as usable", example)
        if state & _ASLEEP:
            notes.add("{server} {is} powered down and {counts} as there, since Slurm wakes them", name)
        partitions = frozenset(words(node["partitions"])) if node["partitions"] else None
        if partitions is None:
            notes.add("{server} without a list of partitions {counts} as in all of them", name)
        servers[name] = SlurmServer(name, *_capacities(node), partitions, _features(node))
    if not servers:
        raise notes.nothing_left("there are no servers to share" if nodes else "the list of nodes is empty")
    return list(servers.values())


def _capacities(node: Entry) -> tuple[dict[str, Fraction], Amounts]:
    cpus = whole(node["cpus"], bits=16)
    special = whole(node["specialized_cores"], bits=16) * max(1, whole(node["threads"], bits=16))
    cpus = min(cpus, whole(node["effective_cpus"], bits=16) or max(0, cpus - special))
    memory = max(0, whole(node["real_memory"]) - whole(node["specialized_memory"]))
    generic, drained = gres(node["gres"], requested=False), gres(node["gres_drained"], requested=False)
    for name in generic.total:
        generic.total[name] = max(Fraction(0), generic.total[name] - drained.total.get(name, 0))
    for key in generic.typed:
        generic.typed[key] = max(Fraction(0), generic.typed[key] - drained.typed.get(key, 0))
    return {"cpu": Fraction(cpus), "memory": Fraction(memory, 1024)}, generic


def _features(node: Entry) -> frozenset[str]:
    return frozenset(words(node["active_features"]) or words(node["features"]))
