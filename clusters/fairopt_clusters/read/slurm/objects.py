"""Models of Slurm nodes and jobs: capacities and states of servers, and requests of tasks."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from pydantic import Field

from fairopt.errors import InvalidInstance
from fairopt.io import Notes, Part, checked, shown, shown_key
from fairopt.runtime import steps
from fairopt_clusters.read.amounts import Name
from fairopt_clusters.read.slurm.fields import (
    Amounts,
    ArrayTasks,
    ArrayText,
    Details,
    Flags,
    Gres,
    Hosts,
    HostShare,
    Requested,
    States,
    Text,
    Tres,
    Whole,
    Whole16,
    Words,
    states,
)

# -- servers --------------------------------------------------------------------------------------------------

_UNUSABLE = states(
    "BLOCKED DOWN DRAIN DRAINED DRAINING ERROR FAIL FAILING FUTURE INVALID INVALID_REG MAINT MAINTENANCE "
    "NOT_RESPONDING NO_RESPOND PERFCTRS POWER_DRAIN UNKNOWN"
)
_POWERED_DOWN = states("POWERED_DOWN POWERING_DOWN POWER_DOWN")
_RESERVED = states("RES RESERVED")
_USABLE = states(
    "ALLOCATED CLOUD COMPLETING DYNAMIC_FUTURE DYNAMIC_NORM IDLE MIXED NET PLANNED POWERING_UP POWER_UP REBOOT "
    "REBOOT_CANCELED REBOOT_ISSUED REBOOT_REQUESTED RES RESERVED RESUME UNDRAIN"
)
_STATE_ABBREVIATIONS = {  # abbreviations of sinfo
    "ALLOC": "ALLOCATED",
    "BLCK": "BLOCKED",
    "BOOT": "REBOOT",
    "COMP": "COMPLETING",
    "DRNG": "DRAINING",
    "FAILG": "FAILING",
    "FUTR": "FUTURE",
    "INVAL": "INVALID_REG",
    "MIX": "MIXED",
    "NPC": "PERFCTRS",
    "PLND": "PLANNED",
    "POW_DN": "POWERING_DOWN",
    "POW_UP": "POWERING_UP",
    "RESV": "RESERVED",
    "UNK": "UNKNOWN",
}


class _ServerState(Part):
    name: Name
    state: States = Field(default_factory=set)
    state_flags: States = Field(default_factory=set)


class SlurmServer(_ServerState):
    """A node that may start jobs."""

    cpus: Whole16 = None
    effective_cpus: Whole16 = None
    specialized_cores: Whole16 = None
    threads: Whole16 = None
    real_memory: Whole = None
    specialized_memory: Whole = None
    gres: Gres = Field(default_factory=Amounts)
    gres_drained: Gres = Field(default_factory=Amounts)
    partitions: Words | None = None
    features: Words = Field(default_factory=list)
    active_features: Words = Field(default_factory=list)

    @cached_property
    def generic(self) -> Amounts:
        """Generic resources without the drained ones."""
        has, drained = self.gres, self.gres_drained
        total = {k: max(Fraction(0), n - drained.total.get(k, 0)) for k, n in has.total.items()}
        typed = {k: max(Fraction(0), n - drained.typed.get(k, 0)) for k, n in has.typed.items()}
        return Amounts(total, {(name, kind): min(n, total[name]) for (name, kind), n in typed.items()})

    @cached_property
    def plain(self) -> dict[str, Fraction]:
        """Cores and GiB of memory for jobs."""
        cpus, special = self.cpus or 0, (self.specialized_cores or 0) * max(1, self.threads or 0)
        cpus = min(cpus, self.effective_cpus or max(0, cpus - special))
        memory = max(0, (self.real_memory or 0) - (self.specialized_memory or 0))
        return {"cpu": Fraction(cpus), "memory": Fraction(memory, 1024)}


def read_servers(
    entries: list[Any], document: str, notes: Notes, in_use: Collection[str] = ()
) -> tuple[list[SlurmServer], list[SlurmServer]]:
    """The usable servers, and those that start no jobs but are ``in_use``; notes on omissions and assumptions."""
    servers: dict[str, SlurmServer] = {}
    closed: dict[str, SlurmServer] = {}
    for k, entry in enumerate(steps(entries, f"nodes of {os.path.basename(document)}", len(entries))):
        given_name = entry.get("name") if isinstance(entry, Mapping) else None
        of_text = str(entry.get("place") or "").removeprefix(f"{document}, ") if isinstance(entry, Mapping) else ""
        place = (of_text or f"nodes[{k}]") + (
            f" ({shown_key(given_name.strip())})" if isinstance(given_name, str) else ""
        )
        node = checked(_ServerState, entry, document, place)
        name, state = node.name, {_STATE_ABBREVIATIONS.get(word, word) for word in node.state | node.state_flags}
        if state & _UNUSABLE and name in in_use and name not in closed:
            what = "{server} that can start no jobs {counts} with what runs there, for the jobs that run there"
            notes.add(what, f"{name}: {min(state & _UNUSABLE)}")
            closed[name] = checked(SlurmServer, entry, document, place)
            continue
        if state & _UNUSABLE:
            notes.add("{server} that can start no jobs {was} left out", f"{name}: {min(state & _UNUSABLE)}")
            continue
        if name in servers:
            raise InvalidInstance(f"{document}: {place}.name is {shown(name)}; give each node once")
        server = servers[name] = checked(SlurmServer, entry, document, place)
        unknown = state - _USABLE - _POWERED_DOWN
        if unknown:
            example = f"{name}: {shown_key(min(unknown))}"
            notes.add("{server} in an unknown state {counts} as usable", example)
        if state & _POWERED_DOWN:
            notes.add("{server} {is} powered down and {counts} as available, since Slurm wakes them", name)
        if server.generic != server.gres:
            notes.add("{server} with drained GPUs or other generic resources {counts} without them", name)
        if server.plain != {"cpu": server.cpus or 0, "memory": Fraction(server.real_memory or 0, 1024)}:
            notes.add("{server} with cores or memory set aside for the system {counts} without them", name)
        if server.partitions is None:
            notes.add("{server} without a list of partitions {counts} as in all of them", name)
        if state & _RESERVED:
            notes.add("{server} in a reservation {counts} as open to all: reservations are not modelled", name)
    if not servers:
        raise notes.nothing_left("there are no servers to share" if entries else "the list of nodes is empty")
    return list(servers.values()), [server for name, server in closed.items() if name not in servers]


# -- jobs -----------------------------------------------------------------------------------------------------

JOB_ID = "JobID"  # key of what is read of texts: as it stands there, such as 7_[2-9] of an array or 7+1 of parts
_SAME = ("cluster", "job_id", "array_task_id", "array_task_string", "het_job_offset")  # which tell jobs apart in JSON
_ALIVE = states("PENDING PD RUNNING R SUSPENDED S")  # with the abbreviations of squeue
_FINISHED = states(
    "BOOT_FAIL BF CANCELLED CA COMPLETED CD COMPLETING CG DEADLINE DL FAILED F LAUNCH_FAILED NODE_FAIL NF "
    "OUT_OF_MEMORY OOM PREEMPTED PR RECONFIG_FAIL TIMEOUT TO"
)
_HELD = ("JobHeldAdmin", "JobHeldUser")
_NOT_YET = ("Dependency", "BeginTime")
_NEVER = re.compile(  # what the job or a limit on each job must be changed for, by Slurm's list of reason codes
    "AccountNotAllowed|BadConstraints|DependencyNeverSatisfied|InvalidAccount|InvalidQOS|PartitionTimeLimit|QOSNotAllowed"
    r"|(Assoc|QOS)Max\w*Per(Job|Node)(Limit)?|QOSMin\w+"
)


class _JobState(Part):
    job_state: States = Field(default_factory=set)
    hold: object = None
    state_reason: Text = ""

    @property
    def reason_to_omit(self) -> str | None:
        """The note on a job that is left out, else None. A job in an unknown state counts."""
        if self.job_state & {"REVOKED", "RV"}:
            return "{job} that another cluster of the federation runs {was} left out"
        if self.job_state & _FINISHED and not self.job_state & _ALIVE:
            return "{job} had finished and {was} left out"
        if self.job_state & {"PENDING", "PD"} and (self.hold is True or self.state_reason in _HELD):
            return "{job} on hold {was} left out"
        if self.job_state & {"PENDING", "PD"} and _NEVER.fullmatch(self.state_reason):
            return "{job} that Slurm never starts as requested {was} left out"
        return None


class _OwnFields(Part):
    """What differs between jobs with equal requests."""

    account: Text = ""
    user_name: Text = ""
    user_id: object = None
    array_job_id: Whole = None
    nodes: Text = ""
    gres_detail: Details = Field(default_factory=list)
    job_resources: Hosts = Field(default_factory=dict)


class SlurmJob(_OwnFields, _JobState):
    """A job, or the waiting part of a job array, as identical tasks, one for each server that it uses."""

    qos: Text = ""
    partition: Words = Field(default_factory=list)
    node_count: Whole = None
    tasks: Whole = None
    array_task_string: ArrayTasks = ArrayText()
    array_max_tasks: Whole = None
    tres_req_str: Tres = Field(default_factory=Amounts)
    tres_alloc_str: Tres = Field(default_factory=Amounts)
    cpus: Whole = None
    minimum_cpus_per_node: Whole16 = None
    memory_per_node: Whole = None
    memory_per_cpu: Whole = None
    tres_per_node: Requested = Field(default_factory=Amounts)
    tres_per_job: Requested = Field(default_factory=Amounts)
    tres_per_task: Requested = Field(default_factory=Amounts)
    tres_per_socket: Requested = Field(default_factory=Amounts)
    sockets_per_node: Whole16 = None
    licenses: Text = ""
    exclusive: Flags = Field(default_factory=set)
    shared: Flags = Field(default_factory=set)
    features: Text = ""
    required_nodes: Text = ""
    excluded_nodes: Text = ""
    resv_name: Text = ""
    memory_per_tres: Text = ""
    het_job_id: Whole = None
    time_limit: Whole = None

    @property
    def runs(self) -> bool:
        """Whether the job runs now; suspended jobs have given their resources back."""
        return bool(self.job_state & {"RUNNING", "R"})

    @cached_property
    def servers(self) -> int:
        """Servers of one job: ``node_count`` or, without it, the ``node=`` of what was requested or allocated."""
        strings = (self.tres_req_str, self.tres_alloc_str)
        return max(1, self.node_count or next((int(n) for s in strings if (n := s.plain.get("node"))), 1))

    @property
    def of_array(self) -> int:
        """Jobs of the array that wait, or 1."""
        return max(1, self.array_task_string.waiting)

    @property
    def at_once(self) -> int | None:
        """The most jobs of the array that may run at once, None for no limit."""
        return self.array_task_string.at_once or self.array_max_tasks or None

    @property
    def placement(self) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...], str, str, str]:
        """Types of generic resources, partitions, constraint, required and excluded servers."""
        return self.types, tuple(sorted(set(self.partition))), self.features, self.required_nodes, self.excluded_nodes

    @cached_property
    def types(self) -> tuple[tuple[str, str], ...]:
        """The requested types of generic resources, as ``("gpu", "l40s")``."""
        return tuple(sorted(kind for kind, amount in self.generic.typed.items() if amount))

    @property
    def place(self) -> str:
        """The placement as text."""
        types, partitions, features, required, excluded = self.placement
        parts = {"partition": "|".join(partitions), "constraint": features, "nodes": required, "exclude": excluded}
        return ",".join([*(kind for _, kind in types), *(f"{word}={text}" for word, text in parts.items() if text)])

    @cached_property
    def plain(self) -> dict[str, Fraction]:
        """Cores and GiB of one task: from ``tres_req_str``, which is for the whole job, else the first field given."""
        requested = self.tres_req_str.plain
        cpu = (requested.get("cpu") or Fraction(self.cpus or 0)) / self.servers
        cpu = cpu or Fraction(self.minimum_cpus_per_node or 0)
        memory = requested.get("mem", Fraction(0)) / self.servers or Fraction(self.memory_per_node or 0)
        memory = memory or (self.memory_per_cpu or 0) * cpu
        return {"cpu": cpu, "memory": memory / 1024}

    @cached_property
    def is_empty(self) -> bool:
        """Whether the job requests nothing that counts."""
        return not any((*self.plain.values(), *self.generic.total.values()))

    @property
    def takes_servers(self) -> bool:
        """Whether the job takes whole servers (``--exclusive``)."""
        return "TRUE" in self.exclusive or "NONE" in self.shared

    def requested(self, smallest: SlurmServer | None) -> tuple[dict[str, Fraction], Amounts]:
        """What one task takes that waits: what it requests and, of whole servers, the rest of the ``smallest`` one.

        As in Slurm, whole servers are all their cores and generic resources, and the memory that is requested.
        """
        if smallest is None or not self.takes_servers:
            return self.plain, self.generic
        taken = Amounts(dict(smallest.generic.total), dict(smallest.generic.typed))
        return self.plain | {"cpu": max(self.plain["cpu"], smallest.plain["cpu"])}, taken

    def allocated(self, host: str, position: int) -> tuple[dict[str, Fraction], Amounts]:
        """What a job that runs takes on one of its servers, the one at a position of their list.

        Cores and memory are those of ``job_resources`` there, else an equal part of ``tres_alloc_str``, else what is
        requested. Generic resources are counted in the same order (``gres_detail``); of which types they happen to be
        makes no request for a type, except where the job takes whole servers.
        """
        plain, given = dict(self.plain), self.tres_alloc_str.plain
        on_host = self.job_resources.get(host, HostShare())
        cpu = Fraction(on_host.cpus) or given.get("cpu", Fraction(0)) / self.servers
        memory = Fraction(on_host.memory) or given.get("mem", Fraction(0)) / self.servers
        plain |= {"cpu": cpu} if cpu else {}
        plain |= {"memory": memory / 1024} if memory else {}
        taken = Amounts()
        taken.add_missing(
            self.gres_detail[position] if len(self.gres_detail) == self.servers else Amounts(), Fraction(1)
        )
        taken.add_missing(self.tres_alloc_str, Fraction(1, self.servers))
        taken.add_missing(self.generic, Fraction(1))
        if self.takes_servers:
            return plain, taken
        asked = self.generic
        times = {name: taken.total[name] / amount for name, amount in asked.total.items() if amount}
        return plain, Amounts(
            {name: amount * times.get(name, 1) for name, amount in asked.total.items()},
            {(name, kind): amount * times.get(name, 1) for (name, kind), amount in asked.typed.items()},
        )

    @cached_property
    def generic(self) -> Amounts:
        """Generic resources of one task: amounts of ``tres_req_str``, completed from the other requests.

        ``tres_req_str`` has the resources that the cluster accounts for, often without types; the other requests
        name them. Of several requests for a resource, such as per server and per job, the first counts.
        """
        requested, out = Amounts(), Amounts()
        requested.add_missing(self.tres_per_node, Fraction(1))
        requested.add_missing(self.tres_per_job, Fraction(1, self.servers))
        requested.add_missing(self.tres_per_task, Fraction(self.tasks or self.servers, self.servers))
        requested.add_missing(self.tres_per_socket, Fraction(self.sockets_per_node or 1))
        out.add_missing(self.tres_req_str, Fraction(1, self.servers))
        out.add_missing(requested, Fraction(1))
        return out

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """The notes about this job."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        if self.array_task_string.cut:
            yield "{job} {has} more tasks of an array than Slurm shows; those not shown are missing"
        if "license" in self.tres_req_str.plain or self.licenses:
            yield "{job} that {requests} licences {counts} without them"
        if self.takes_servers and not self.runs:
            yield "{job} that {takes} whole servers {counts} with all cores and GRES of the smallest server for it"
        if self.het_job_id:
            yield "{job} of heterogeneous jobs, whose parts start together: {counts} as a job of its own"
        if self.resv_name:
            yield "{job} in a reservation may run on any server"
        if not self.runs and self.state_reason in _NOT_YET:
            yield "{job} that {waits} for another job or for a time {counts}"
        if self.generic.total.keys() & {"shard", "mps"}:
            yield "{job} that {requests} parts of GPUs (shard, mps): not counted as GPUs"
        if self.memory_per_tres and not self.plain["memory"]:
            yield "{job} that {requests} memory by GPU {counts} without memory"
        if not self.plain["memory"] and ("mem" in self.tres_req_str.plain or self.memory_per_node == 0):
            yield "{job} that {requests} all the memory of a server, as --mem=0 does, {counts} without memory"

    def owner(self, users: str) -> str:
        """The account, user, first partition or quality of service, ``""`` if there is none."""
        number = str(self.user_id) if isinstance(self.user_id, int) else ""
        first = next(iter(self.partition), "")
        owners = {"account": self.account, "user": self.user_name or number, "partition": first, "qos": self.qos}
        return owners[users]


_REQUEST = [name for name in SlurmJob.model_fields if name not in _OwnFields.model_fields]


def read_jobs(entries: list[Any], document: str, notes: Notes) -> Iterator[tuple[str, SlurmJob, int]]:
    """The jobs that count, with their names in messages and notes, and the number of tasks of each.

    Of an array with a limit on jobs at once, as many wait as may start beside those that run.
    """
    jobs = list(_jobs(entries, document, notes))
    running = Counter(job.array_job_id for _, job in jobs if job.runs)
    for name, job in jobs:
        count = job.of_array
        if job.at_once is not None and not job.runs:
            count = (
                min(count, max(0, job.at_once - running[job.array_job_id]))
                if job.array_job_id
                else min(count, job.at_once)
            )
            example = f"{name}: {job.of_array:,} wait, {job.at_once:,} at once"
            what = "{waiting job} of arrays beyond the limit on jobs at once {was} left out"
            notes.add(what, example, number=job.of_array - count)
        if count:
            yield name, job, job.servers * count


def _jobs(entries: list[Any], document: str, notes: Notes) -> Iterator[tuple[str, SlurmJob]]:
    # Few requests differ: each is read once, with what follows from it. Of 20,000 jobs with 1,700 requests the whole
    # reading takes 3 s, and took 5.
    requests, seen = dict[str, SlurmJob](), set[str]()
    for k, entry in enumerate(steps(entries, f"jobs of {os.path.basename(document)}", len(entries))):
        number = entry.get("job_id") if isinstance(entry, Mapping) else None
        known = isinstance(number, int) and 0 <= number < 2**63
        name = str(number) if known else f"number {k + 1} of the list"
        place = f"jobs[{k}] (job {name})" if known else f"jobs[{k}]"
        if known:  # a text may name a job in several partitions for each (squeue -P), a file hold two dumps
            same = str(entry.get(JOB_ID) or [*map(entry.get, _SAME)])
            if same in seen:
                notes.add("{JobID} {is} there several times, and {counts} once, as at first", entry.get(JOB_ID, name))
                continue
            seen.add(same)
        request = repr([*map(entry.get, _REQUEST)]) if isinstance(entry, dict) else None
        if request in requests:
            own = checked(_OwnFields, {key: entry.get(key) for key in _OwnFields.model_fields}, document, place)
            job = requests[request].model_copy(update=dict(own))
        else:
            state = checked(_JobState, entry, document, place)
            reason = state.reason_to_omit
            if reason is not None:
                notes.add(reason, f"{name}: {state.state_reason}" if _NEVER.fullmatch(state.state_reason) else name)
                continue
            job = checked(SlurmJob, entry, document, place)
            if request is not None:
                requests[request] = job
        if job.is_empty:
            notes.add("{job} that {requests} nothing {was} left out", name)
            continue
        for remark in job.remarks:
            notes.add(remark, name)
        yield name, job
