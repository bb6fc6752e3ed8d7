"""A cluster run by Slurm, from ``scontrol show node --json`` and ``squeue --json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance
from fairopt.hostlists import hosts
from fairopt.io.arguments import Arguments
from fairopt.io.json_text import Document, document_of, shown
from fairopt.io.notes import Notes, check_choice
from fairopt.io.slurm.accounts import read_accounts
from fairopt.io.slurm.fields import Key
from fairopt.io.slurm.objects import SlurmJob, SlurmServer, read_jobs, read_servers
from fairopt.io.slurm.places import satisfies
from fairopt.io.text_files import about
from fairopt.io.work import TASKS, Work, arguments_of_work

_Named = tuple[dict[str, Any], str]  # a document and its name
_OWNERS = ("account", "user", "partition", "qos")
_NODES = "expected the output of scontrol show node --json"
_JOBS = "expected the output of squeue --json"
_ASSOCIATIONS = "expected the output of sacctmgr show associations --json"


def read_slurm(
    nodes: Document,
    jobs: Document,
    associations: Document | None = None,
    users: str = "account",
    tasks: str = "mean",
    merge: bool = True,
) -> Arguments:
    """Read the output of Slurm's commands; see `fairopt.datasets.slurm`."""
    check_choice("tasks", tasks, TASKS)
    check_choice("users", users, _OWNERS)
    tree = None if associations is None or users != "account" else associations
    return _arguments(
        document_of(nodes, "nodes", _NODES),
        document_of(jobs, "jobs", _JOBS),
        None if tree is None else document_of(tree, "associations", _ASSOCIATIONS),
        users,
        tasks,
        merge,
    )


def read_together(
    document: dict[str, Any], name: str, users: str = "account", tasks: str = "mean", merge: bool = True
) -> Arguments:
    """Read one document with the keys ``nodes``, ``jobs`` and perhaps ``associations``."""
    check_choice("tasks", tasks, TASKS)
    check_choice("users", users, _OWNERS)
    tree = (document, name) if "associations" in document and users == "account" else None
    return _arguments((document, name), (document, name), tree, users, tasks, merge)


def _arguments(
    nodes: _Named, jobs: _Named, associations: _Named | None, users: str, tasks: str, merge: bool
) -> Arguments:
    notes = Notes()
    (nodes_data, nodes_name), (jobs_data, jobs_name) = nodes, jobs
    with about(nodes_name):
        servers = read_servers(_listed(nodes_data, nodes_name, "nodes", _NODES, notes), nodes_name, notes)
    with about(jobs_name):
        entries = _listed(jobs_data, jobs_name, "jobs", _JOBS, notes)
        found = list(read_jobs(entries, jobs_name, notes))
        owned = [(_owner(job, users, notes, name), name, job, count) for name, job, count in found]
    labels: dict[str, dict[str, str | None]] | None = None
    weights: dict[str, float] = {}
    if associations is not None:
        accounts = read_accounts(*associations)
        without = {owner for owner in {owner for owner, *_ in owned} if accounts.without_share(owner)}
        left_out = [name for owner, name, *_ in owned if owner in without]
        notes.add("{job} of accounts with a fairshare of 0 {was} left out", *left_out)
        owned = [one for one in owned if one[0] not in without]
        labels, weights = accounts.teams(sorted({owner for owner, *_ in owned}), notes)
    keys = _resources(servers, [job for _, _, job, _ in owned])
    at = {server.name: s for s, server in enumerate(servers)}
    work = [
        Work(owner, _amounts(keys, job), allowed, count, name, (job.place, job.place), _held(job, name, at, notes))
        for (owner, name, job, count), allowed in zip(
            owned, _places(servers, [(name, job) for _, name, job, _ in owned], notes), strict=True
        )
    ]
    with about(nodes_name, jobs_name):
        values = arguments_of_work(
            work,
            resources=[_label(key) for key in keys],
            capacities=[_amounts(keys, server) for server in servers],
            servers=[server.name for server in servers],
            tasks=tasks,
            server_types=_types(servers),
            units={"cpu": "core", "memory": "GiB"},
            notes=notes,
            word="job",
            labels=labels,
            weights=weights,
        )
    return Arguments(values, (nodes_name, jobs_name), merge)


def _listed(document: dict[str, Any], name: str, key: str, expected: str, notes: Notes) -> list[Any]:
    """The entries of a list; errors that Slurm reports become notes."""
    errors = document.get("errors") if isinstance(document.get("errors"), list) else []
    wrong = [shown(error.get("description")) for error in errors or () if isinstance(error, Mapping)]
    notes.add("Slurm reported {error} in {place}", *wrong, place=name)
    entries = document.get(key)
    if entries is None:
        known = ", ".join([str(name) for name in document if name != key][:8]) or "nothing"
        problem = f"{name} has no list {key!r} but {known[:200]}"
        raise InvalidInstance("; ".join([problem, *notes.sentences(), expected]))
    if not isinstance(entries, list):
        raise InvalidInstance(f"{name}: {key} is {shown(entries)}; give a list")
    return entries


def _types(servers: list[SlurmServer]) -> list[str] | None:
    """Types of servers' GPUs, if any server has GPUs."""
    out = []
    for server in servers:
        kinds = sorted(kind for (name, kind), amount in server.generic.typed.items() if name == "gpu" and amount)
        none = "unnamed GPU" if server.generic.total.get("gpu") else "no GPU"
        out.append("|".join(kinds) or none)
    return out if any(name != "no GPU" for name in out) else None


def _owner(job: SlurmJob, users: str, notes: Notes, name: str) -> str:
    owner = job.owner(users)
    if not owner.isprintable():
        raise InvalidInstance(f"the {users} of job {name} is {shown(owner)}; give a name of printable characters")
    if not owner:
        kind = f"a{'n' * (users == 'account')} {users}"
        notes.add("{job} without {kind} {counts} as those of {none}", name, kind=kind, none=repr(f"no {users}"))
    return owner or f"no {users}"


def _resources(servers: list[SlurmServer], jobs: list[SlurmJob]) -> list[Key]:
    """Requested resources: plain, generic, and types of servers that have other types too.

    Elsewhere a type is a matter of placement.
    """
    requested = {key for job in jobs for key, amount in job.amounts.items() if amount}
    plain = [key for key in (("cpu", ""), ("memory", "")) if key in requested]
    return plain + [
        (name, kind)
        for name, kind in sorted(requested.difference(plain))
        if not kind or any(0 < s.amounts.get((name, kind), 0) < s.amounts[name, ""] for s in servers)
    ]


def _amounts(keys: list[Key], has: SlurmServer | SlurmJob) -> tuple[float, ...]:
    return tuple(float(has.amounts.get(key, 0)) for key in keys)


def _held(job: SlurmJob, name: str, at: Mapping[str, int], notes: Notes) -> dict[int, float]:
    """The tasks of a running job by index of the server, one on each."""
    if not job.runs:
        return {}
    names = hosts(job.nodes) or frozenset()
    if len(names) != job.servers:
        notes.add("{running job} without a list of its servers {counts} as waiting", name)
        return {}
    if not names <= at.keys():
        notes.add("{running job} on servers that were left out: tasks there count as waiting", name)
    return {at[host]: 1.0 for host in names if host in at}


def _label(key: Key) -> str:
    name = key[0].removeprefix("gres/")
    return (key[0] if name in ("cpu", "memory") else name) + (f":{key[1]}" if key[1] else "")


def _places(servers: list[SlurmServer], jobs: list[tuple[str, SlurmJob]], notes: Notes) -> list[NDArray[np.bool_]]:
    """Eligible servers of each job; a constraint that is not understood excludes none."""
    known: dict[Any, tuple[NDArray[np.bool_], bool]] = {}
    out = []
    for name, job in jobs:
        key = (*job.placement, min(job.servers, len(servers) + 1) if job.required_nodes else 0)
        if key not in known:
            known[key] = _allowed(job, servers)
        allowed, understood = known[key]
        if not understood:
            what = "{job} with a constraint or list of servers that is not modelled may run more widely"
            notes.add(what, name)
        out.append(allowed)
    return out


def _allowed(job: SlurmJob, servers: list[SlurmServer]) -> tuple[NDArray[np.bool_], bool]:
    """Servers that a job may use, and whether all its rules were understood."""
    feature_rule = satisfies(job.features) if job.features else lambda features: True
    required = hosts(job.required_nodes) if job.required_nodes else None
    excluded = hosts(job.excluded_nodes) if job.excluded_nodes else frozenset[str]()
    if required is not None and len(required) < job.servers:  # the other servers may be any
        required = None
    allowed = [
        (server.partitions is None or not job.partition or not set(job.partition).isdisjoint(server.partitions))
        and (feature_rule is None or feature_rule(frozenset(server.active_features or server.features)))
        and (required is None or server.name in required)
        and (excluded is None or server.name not in excluded)
        and all(server.generic.typed.get(kind) for kind in job.types)
        for server in servers
    ]
    understood = feature_rule is not None and excluded is not None and (required is not None or not job.required_nodes)
    return np.array(allowed, dtype=np.bool_), understood
