"""A cluster run by Slurm, from ``scontrol show node --json`` and ``squeue --json``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance
from fairopt.io.arguments import Arguments
from fairopt.io.json_text import Document, Entry, entry_of, shown, shown_key
from fairopt.io.notes import Notes, check_choice
from fairopt.io.slurm.fields import Amounts, text, words
from fairopt.io.slurm.jobs import SlurmJob, job_of, why_left_out
from fairopt.io.slurm.places import hosts, satisfies
from fairopt.io.slurm.servers import SlurmServer, read_servers
from fairopt.io.text_files import about
from fairopt.io.work import TASKS, Work, arguments_of_work

__all__ = ["read_slurm"]

_OWNERS = {"account": "account", "user": "user_name", "partition": "partition", "qos": "qos"}
_NODES = "expected the output of scontrol show node --json"
_JOBS = "expected the output of squeue --json"


def read_slurm(
    nodes: Document, jobs: Document, users: str = "account", tasks: str = "mean", merge: bool = True
) -> Arguments:
    """Read what Slurm gives of a cluster; see `fairopt.datasets.slurm`."""
    check_choice("tasks", tasks, TASKS)
    check_choice("users", users, tuple(_OWNERS))
    notes = Notes()
    of_nodes, of_jobs = entry_of(nodes, "nodes", _NODES), entry_of(jobs, "jobs", _JOBS)
    with about(of_nodes.place):
        servers = read_servers(_listed(of_nodes, "nodes", _NODES, notes), notes)
    with about(of_jobs.place):
        waiting = _jobs(_listed(of_jobs, "jobs", _JOBS, notes), users, notes)
    _remark_large(servers, [job for _, job in waiting], notes)
    resources = _resources(servers, [job for _, job in waiting])
    places = _Places(servers)
    work = []
    for owner, job in waiting:
        allowed = places.of(job, notes)
        request = tuple(float(_of(key, job.request, job.generic)) for key in resources)
        work.append(Work(owner, request, allowed, job.count, job.name))
    with about(of_nodes.place, of_jobs.place):
        values = arguments_of_work(
            work, resources=[_label(key) for key in resources],
            capacities=[[float(_of(key, server.has, server.generic)) for key in resources] for server in servers],
            servers=[server.name for server in servers], tasks=tasks, server_types=_types(servers),
            units={"cpu": "core", "memory": "GiB"}, notes=notes, word="job",
        )  # fmt: skip
    return Arguments(values, (of_nodes.place, of_jobs.place), merge)


def _listed(document: Entry, key: str, expected: str, notes: Notes) -> list[Entry]:
    """The entries of a list; what Slurm itself says went wrong is repeated."""
    errors = document["errors"].value if isinstance(document["errors"].value, list) else []
    wrong = [shown(error.get("description")) for error in errors if isinstance(error, Mapping)]
    notes.add("Slurm reported {error} in {place}", *wrong, place=document.place)
    if not document[key]:
        known = ", ".join(map(str, list(document.object())[:8])) or "nothing"
        raise InvalidInstance(
            "; ".join([f"{document.place} has no list {key!r} but {known[:200]}", *notes.sentences(), expected])
        )
    return list(document[key].entries())


def _types(servers: list[SlurmServer]) -> list[str] | None:
    """Types of servers' GPUs, if any has some."""
    out = []
    for server in servers:
        kinds = sorted(kind for (name, kind), amount in server.generic.typed.items() if name == "gpu" and amount)
        none = "unnamed GPU" if server.generic.total.get("gpu") else "no GPU"
        out.append("|".join(kinds) or none)
    return out if any(name != "no GPU" for name in out) else None


def _jobs(entries: list[Entry], users: str, notes: Notes) -> list[tuple[str, SlurmJob]]:
    out = []
    for k, entry in enumerate(entries):
        number = entry["job_id"].value
        known = isinstance(number, int) and 0 <= number < 2**63
        name = str(number) if known else f"number {k + 1} of the list"
        if known:
            entry.called(f"job {name}")
        reason = why_left_out(entry)
        if reason is not None:
            notes.add(reason, name)
            continue
        job = job_of(entry, name)
        if not any(job.request.values()) and not any(job.generic.total.values()):
            notes.add("{job} that {requests} nothing {was} left out", name)
            continue
        for remark in job.remarks:
            notes.add(remark, name)
        out.append((_owner(entry, users, notes, name), job))
    return out


def _remark_large(servers: list[SlurmServer], jobs: list[SlurmJob], notes: Notes) -> None:
    """Count jobs that want more of a generic resource on one server than any has, as 4090 of ``gpu:4090``."""
    most: dict[str, Fraction] = {}
    for server in servers:
        for name, amount in server.generic.total.items():
            most[name] = max(amount, most.get(name, amount))
    for job in jobs:
        for name, amount in job.generic.total.items():
            if amount > most.get(name, amount):
                notes.add(
                    "{job} that {asks} for more of a generic resource on a server than any has {counts} all the same",
                    f"{job.name}: {float(amount):g} of {shown_key(name)}",
                )  # fmt: skip


def _owner(job: Entry, users: str, notes: Notes, name: str) -> str:
    entry = job[_OWNERS[users]]
    owner = next(iter(words(entry)), "") if users == "partition" else text(entry)
    if not owner and users == "user" and isinstance(job["user_id"].value, int):
        owner = str(job["user_id"].value)
    if not owner:
        nobody = f"no {users}"
        kind = f"a{'n' * (users == 'account')} {users}"
        notes.add("{job} without {kind} {counts} as those of {nobody}", name, kind=kind, nobody=repr(nobody))
        return nobody
    if not owner.isprintable():
        entry.refuse("give a name of printable characters")
    return owner


_Key = tuple[str, str]  # ("cpu", ""), ("gpu", "") of any type, or ("gpu", "a100"); generic ones after "gres/"


def _resources(servers: list[SlurmServer], jobs: list[SlurmJob]) -> list[_Key]:
    """What jobs ask for: plain resources, generic ones, and types that are not the only ones of their name."""
    keys = [(name, "") for name in ("cpu", "memory") if any(job.request[name] for job in jobs)]
    names = sorted({name for job in jobs for name, amount in job.generic.total.items() if amount})
    types = sorted({key for job in jobs for key, amount in job.generic.typed.items() if amount})
    for name in names:
        keys.append((f"gres/{name}", ""))
        keys += [
            (f"gres/{name}", kind) for of, kind in types
            if of == name and any(s.generic.typed.get((of, kind), 0) != s.generic.total.get(of, 0) for s in servers)
        ]  # fmt: skip
    return keys


def _of(key: _Key, plain: dict[str, Fraction], generic: Amounts) -> Fraction:
    name, kind = key
    if not name.startswith("gres/"):
        return plain[name]
    name = name.removeprefix("gres/")
    return (generic.typed.get((name, kind)) if kind else generic.total.get(name)) or Fraction(0)


def _label(key: _Key) -> str:
    name = key[0].removeprefix("gres/")
    return (key[0] if name in ("cpu", "memory") else name) + (f":{key[1]}" if key[1] else "")


class _Places:
    """Where jobs may run, each combination of partitions, constraint and lists worked out once."""

    def __init__(self, servers: list[SlurmServer]) -> None:
        self.servers = servers
        self.known: dict[Any, tuple[NDArray[np.bool_], bool]] = {}

    def of(self, job: SlurmJob, notes: Notes) -> NDArray[np.bool_]:
        """Servers that a job may use; a constraint that is not understood leaves them all."""
        required = job.placement[2]
        key = (*job.placement, min(job.servers, len(self.servers) + 1) if required else 0)
        if key not in self.known:
            self.known[key] = self._allowed(job)
        allowed, understood = self.known[key]
        if not understood:
            what = "{job} with a constraint or list of servers that is not modelled may run more widely"
            notes.add(what, job.name)
        return allowed

    def _allowed(self, job: SlurmJob) -> tuple[NDArray[np.bool_], bool]:
        partitions, constraint, required, excluded = job.placement
        meets = satisfies(constraint) if constraint else lambda features: True
        wanted = hosts(required) if required else None
        avoided = hosts(excluded) if excluded else frozenset[str]()
        if wanted is not None and len(wanted) < job.servers:  # the others may be anywhere
            wanted = None
        understood = meets is not None and avoided is not None and (wanted is not None or not required)
        allowed = np.array([
            (server.partitions is None or not partitions or not server.partitions.isdisjoint(partitions))
            and (meets is None or meets(server.features))
            and (wanted is None or server.name in wanted)
            and (avoided is None or server.name not in avoided)
            for server in self.servers
        ], dtype=np.bool_)  # fmt: skip
        return allowed, understood
