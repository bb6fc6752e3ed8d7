"""A cluster run by Slurm, from ``scontrol show node --json`` and ``squeue --json``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.datasets.jsontext import Entry, entry_of
from fairopt.datasets.slurm_fields import Amounts, gres, states, text, whole, words
from fairopt.datasets.slurm_jobs import Job, has_finished, is_held, job_of
from fairopt.datasets.slurm_places import hosts, satisfies
from fairopt.datasets.work import Work, check_tasks, counted, instance_of
from fairopt.errors import InvalidInstance, nearest
from fairopt.instance import Instance

__all__ = ["slurm"]

_OWNERS = {"account": "account", "user": "user_name", "partition": "partition", "qos": "qos"}
_NODES = "expected the output of scontrol show node --json"
_JOBS = "expected the output of squeue --json"
_UNUSABLE = {
    "BLOCKED", "DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVALID", "INVALID_REG",
    "MAINT", "MAINTENANCE", "NOT_RESPONDING", "NO_RESPOND", "PERFCTRS", "POWER_DRAIN", "UNKNOWN",
}  # fmt: skip
_NOTES = {
    "unusable": "{servers} that can start no jobs {were} left out (as {example})",
    "asleep": "{servers} {are} powered down and {count} as there, since Slurm wakes them",
    "anywhere": "{servers} without a list of partitions {count} as in all of them",
    "finished": "{jobs} had finished and {were} left out (as {example})",
    "held": "{jobs} on hold {were} left out (as {example})",
    "nothing": "{jobs} that {request} nothing {were} left out (as {example})",
    "nobody": "{jobs} without {owner} {count} as those of {nobody} (as {example})",
    "cut": "{jobs} {list} more tasks of an array than Slurm shows; those not shown are missing (as {example})",
    "constraint": "{jobs} with a constraint or list of servers that is not modelled may run more widely (as {example})",
    "exclusive": "{jobs} that {take} whole servers {count} with what they request only (as {example})",
    "license": "{jobs} that {request} licences {count} without them (as {example})",
}


def slurm(
    nodes: str | os.PathLike[str] | Mapping[str, Any], jobs: str | os.PathLike[str] | Mapping[str, Any],
    users: str = "account", tasks: str = "mean", merge: bool = True,
) -> Instance:  # fmt: skip
    """A Slurm cluster as an instance: accounts share its servers by what their jobs ask for.

    Parameters
    ----------
    nodes, jobs : path-like or Mapping
        What ``scontrol show node --json`` and ``squeue --json`` printed: files, or what `json.load` made of them. The
        forms of Slurm 20.11 to 25.05 (data parser v0.0.36 to v0.0.43) are understood.
    users : {"account", "user", "partition", "qos"}, default "account"
        Whose tasks the jobs are. Of several partitions the first counts.
    tasks : {"mean", "shapes"}, default "mean"
        ``"mean"``: an owner's jobs that need the same resources on the same servers make one user, who demands their
        mean request. ``"shapes"``: only jobs of equal requests do.
    merge : bool, default True
        Identical servers as one row with a count.

    Returns
    -------
    Instance
        Resources ``cpu``, ``memory`` (GiB), and the generic ones, all as far as some job asks for them. Owners are
        entitled to equal parts, as `Instance.weights` say. `Instance.notes` say what was left out or assumed.

    Raises
    ------
    InvalidInstance
        If a file is not what it should be; the message names file, place, value and fix.

    Notes
    -----
    **Servers** have ``effective_cpus`` or else ``cpus`` less the specialised cores, ``real_memory`` less the
    specialised memory, and ``gres`` less what is drained of it. Usable is what may start jobs: servers that are down,
    drained, failing, under maintenance, unknown, in the future or not responding are left out; those that sleep to
    save power count, since Slurm wakes them, and reserved ones too. The type of a server is that of its GPUs.

    **Jobs** of k servers are k tasks of a k-th of it each, and an array is as many tasks as wait. Requests count, not
    what was allocated, alike for jobs that wait, run or are suspended: cores and memory of ``tres_req_str``, else of
    ``cpus``, ``minimum_cpus_per_node``, ``memory_per_node`` and ``memory_per_cpu``; generic resources of
    ``tres_req_str``, else of ``tres_per_node``, ``tres_per_job``, ``tres_per_task`` and ``tres_per_socket``. Jobs on
    hold and finished ones are left out; those that wait for a time, a licence or another job count.

    **GPUs** are the resource ``gpu`` whatever their type; any fits a request without a type. Where jobs ask for a type
    that is not the only one, it is a resource of its own besides, as ``gpu:a100``, of which such jobs need as many:
    what fits by these numbers fits in truth. So too for other generic resources.

    **Placement** follows from partitions, constraints (``&``, ``|`` and parentheses, from left to right), excluded
    servers, and required ones if they are at least as many as the job takes. Not modelled are counts in constraints,
    reservations, licences, limits of accounts, priorities, topology, whole servers for one job, memory by GPU, and
    that ``shard`` and ``mps`` are pieces of GPUs.

    Source: Slurm's REST API, slurm.schedmd.com/rest_api.html, and the manuals of scontrol, squeue and sbatch.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.datasets.slurm(
    ...     {"nodes": [{"name": "n1", "cpus": 64, "real_memory": 262144, "gres": "gpu:a100:4(S:0-1)"}]},
    ...     {"jobs": [
    ...         {"account": "bio", "job_state": ["PENDING"], "tres_req_str": "cpu=8,mem=32G,node=1,gres/gpu=1"},
    ...         {"account": "cfd", "job_state": ["RUNNING"], "tres_req_str": "cpu=32,mem=64G,node=1"},
    ...     ]},
    ... )
    >>> cluster.users, cluster.resource_titles
    (('bio', 'cfd'), ('cpu', 'memory (GiB)', 'gpu'))
    >>> cluster.demands
    array([[ 8., 32.,  1.],
           [32., 64.,  0.]])
    """
    check_tasks(tasks)
    if users not in list(_OWNERS):
        raise InvalidInstance(f"users is {users!r}; {nearest(users, _OWNERS)}")
    said = _Notes(f"a{'n' * (users == 'account')} {users}", f"no {users}")
    servers = _servers(_listed(entry_of(nodes, "nodes", _NODES), "nodes", _NODES), said)
    waiting = _jobs(_listed(entry_of(jobs, "jobs", _JOBS), "jobs", _JOBS), users, said)
    resources = _resources(servers, [job for _, job in waiting])
    places = _Places(servers)
    work = []
    for owner, job in waiting:
        allowed = places.of(job, said)
        request = tuple(float(_of(key, job.request, job.generic)) for key in resources)
        work.append(Work(owner, request, allowed, job.count, job.name))
    instance = instance_of(
        work, resources=[_label(key) for key in resources],
        capacities=[[float(_of(key, server.has, server.generic)) for key in resources] for server in servers],
        servers=[server.name for server in servers], tasks=tasks, server_types=_types(servers),
        units={"memory": "GiB"}, notes=said.sentences(), word="job",
    )  # fmt: skip
    return instance.merged() if merge else instance


class _Notes:
    """How often something was left out or assumed, with an example of each."""

    def __init__(self, owner: str, nobody: str) -> None:
        self.owner, self.nobody = owner, nobody
        self.found: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, example: str) -> None:
        """One more."""
        number, first = self.found.get(kind, (0, example))
        self.found[kind] = (number + 1, first)

    def sentences(self) -> list[str]:
        """What there is to say."""
        out = []
        for kind, sentence in _NOTES.items():
            if kind not in self.found:
                continue
            number, example = self.found[kind]
            one = number == 1
            verbs = {verb: verb + "s" * one for verb in ("count", "request", "take")}
            out.append(sentence.format(
                jobs=counted(number, "job"), servers=counted(number, "server"), example=example, owner=self.owner,
                nobody=repr(self.nobody), were="was" if one else "were", are="is" if one else "are",
                list="has" if one else "have", **verbs,
            ))  # fmt: skip
        return out


@dataclass(frozen=True)
class _Server:
    name: str
    has: dict[str, Fraction]
    generic: Amounts
    partitions: frozenset[str] | None  # None: not known
    features: frozenset[str]


def _listed(document: Entry, key: str, expected: str) -> list[Entry]:
    if not document[key]:
        known = ", ".join(map(str, list(document.object())[:8])) or "nothing"
        raise InvalidInstance(f"{document.place} has no list {key!r} but {known[:200]}; {expected}")
    return list(document[key].entries())


def _servers(nodes: list[Entry], said: _Notes) -> list[_Server]:
    servers: dict[str, _Server] = {}
    for node in nodes:
        name = node["name"].name().strip()
        state = states(node["state"]) | states(node["state_flags"])
        if state & _UNUSABLE:
            said.add("unusable", f"{name}: {min(state & _UNUSABLE)}")
            continue
        if name in servers:
            node["name"].refuse("give each node once")
        if state & {"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"}:
            said.add("asleep", name)
        partitions = frozenset(words(node["partitions"])) if node["partitions"] else None
        if partitions is None:
            said.add("anywhere", name)
        servers[name] = _Server(name, *_capacities(node), partitions, _features(node))
    if not servers:
        what = "; ".join(said.sentences()) or f"the list of nodes is empty; {_NODES}"
        raise InvalidInstance(f"there are no servers to share: {what}")
    return list(servers.values())


def _capacities(node: Entry) -> tuple[dict[str, Fraction], Amounts]:
    cpus = whole(node["cpus"])
    special = whole(node["specialized_cores"]) * max(1, whole(node["threads"]))
    cpus = min(cpus, whole(node["effective_cpus"]) or max(0, cpus - special))
    memory = max(0, whole(node["real_memory"]) - whole(node["specialized_memory"]))
    generic, drained = gres(node["gres"], requested=False), gres(node["gres_drained"], requested=False)
    for name in generic.total:
        generic.total[name] = max(Fraction(0), generic.total[name] - drained.total.get(name, 0))
    for key in generic.typed:
        generic.typed[key] = max(Fraction(0), generic.typed[key] - drained.typed.get(key, 0))
    return {"cpu": Fraction(cpus), "memory": Fraction(memory, 1024)}, generic


def _features(node: Entry) -> frozenset[str]:
    return frozenset(words(node["active_features"]) or words(node["features"]))


def _types(servers: list[_Server]) -> list[str] | None:
    """Types of servers' GPUs, if any has some."""
    out = []
    for server in servers:
        kinds = sorted(kind for (name, kind), amount in server.generic.typed.items() if name == "gpu" and amount)
        none = "unnamed GPU" if server.generic.total.get("gpu") else "no GPU"
        out.append("|".join(kinds) or none)
    return out if any(name != "no GPU" for name in out) else None


def _jobs(entries: list[Entry], users: str, said: _Notes) -> list[tuple[str, Job]]:
    out = []
    for k, entry in enumerate(entries):
        number = entry["job_id"].value
        name = str(number) if isinstance(number, int) and 0 <= number < 2**63 else f"number {k + 1} of the list"
        if has_finished(entry):
            said.add("finished", name)
        elif is_held(entry):
            said.add("held", name)
        else:
            job = job_of(entry, name)
            if not any(job.request.values()) and not any(job.generic.total.values()):
                said.add("nothing", name)
                continue
            for remark in job.remarks:
                said.add(remark, name)
            out.append((_owner(entry, users, said, name), job))
    return out


def _owner(job: Entry, users: str, said: _Notes, name: str) -> str:
    entry = job[_OWNERS[users]]
    owner = next(iter(words(entry)), "") if users == "partition" else text(entry)
    if not owner and users == "user" and isinstance(job["user_id"].value, int):
        owner = str(job["user_id"].value)
    if not owner:
        said.add("nobody", name)
        return said.nobody
    if not owner.isprintable():
        entry.refuse("give a name of printable characters")
    return owner


_Key = tuple[str, str]  # ("cpu", ""), ("gpu", "") of any type, or ("gpu", "a100"); generic ones after "gres/"


def _resources(servers: list[_Server], jobs: list[Job]) -> list[_Key]:
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

    def __init__(self, servers: list[_Server]) -> None:
        self.servers = servers
        self.known: dict[Any, tuple[NDArray[np.bool_], bool]] = {}

    def of(self, job: Job, said: _Notes) -> NDArray[np.bool_]:
        """Servers that a job may use; a constraint that is not understood leaves them all."""
        required = job.placement[2]
        key = (*job.placement, min(job.servers, len(self.servers) + 1) if required else 0)
        if key not in self.known:
            self.known[key] = self._allowed(job)
        allowed, understood = self.known[key]
        if not understood:
            said.add("constraint", job.name)
        return allowed

    def _allowed(self, job: Job) -> tuple[NDArray[np.bool_], bool]:
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
