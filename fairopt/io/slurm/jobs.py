"""What the jobs of a Slurm cluster ask for, and on how many servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from fairopt.io.json_text import Entry
from fairopt.io.slurm.fields import Amounts, array_tasks, flags, gres, states, text, tres, whole, words

__all__ = ["SlurmJob", "job_of", "why_left_out"]

_ALIVE = {"PENDING", "RUNNING", "SUSPENDED"}
_FINISHED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL",
    "OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "TIMEOUT",
}  # fmt: skip
_SHORT = {  # as squeue writes them in a narrow column
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CG": "COMPLETING", "DL": "DEADLINE", "F": "FAILED",
    "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING", "RV": "REVOKED",
    "S": "SUSPENDED", "TO": "TIMEOUT",
}  # fmt: skip
_ALL_MEMORY = "{job} that {asks} for all the memory of a server, as --mem=0 does, {counts} without memory"
_ARRAY = "{job} {has} more tasks of an array than Slurm shows; those not shown are missing"
_LICENCES = "{job} that {requests} licences {counts} without them"
_WHOLE_SERVERS = "{job} that {takes} whole servers {counts} with what they request only"
_HELD = {"JobHeldAdmin", "JobHeldUser"}


@dataclass(frozen=True)
class SlurmJob:
    """A job, or what is left of an array of jobs: equal tasks, one on each server that it takes."""

    name: str
    request: dict[str, Fraction]  # of one task: cpu, memory in GiB
    generic: Amounts  # of one task
    count: int  # tasks: servers of a job times jobs of the array
    servers: int  # of one job
    placement: tuple[tuple[str, ...], str, str, str]  # partitions, constraint, required and excluded servers
    remarks: tuple[str, ...]  # sentences of notes about it


def why_left_out(job: Entry) -> str | None:
    """The sentence of a note about a job that does not count: it is over, or may not start. None if it counts.

    States that are not known count as not finished.
    """
    state = states(job["job_state"], _SHORT)
    if "REVOKED" in state:
        return "{job} that another cluster of the federation runs {was} left out"
    if state & _FINISHED and not state & _ALIVE:
        return "{job} had finished and {was} left out"
    if "PENDING" in state and (job["hold"].value is True or text(job["state_reason"]) in _HELD):
        return "{job} on hold {was} left out"
    return None


def job_of(job: Entry, name: str) -> SlurmJob:
    """Read one of the list ``jobs``, which messages and notes call by ``name``."""
    servers = max(1, whole(job["node_count"]))
    remarks = []
    count, waiting = 1, text(job["array_task_string"])
    if waiting:
        left = array_tasks(waiting)
        if left is None:
            job["array_task_string"].refuse("give ranges of tasks, as 1-10,15,20-30:2%5")
        count = max(1, left[0])
        if left[1]:
            remarks.append(_ARRAY)
    asked, generic = tres(job["tres_req_str"])
    request = _plain(job, asked, servers)
    if "license" in asked or text(job["licenses"]):
        remarks.append(_LICENCES)
    if job["exclusive"].value is True or "TRUE" in flags(job["exclusive"]) or "NONE" in flags(job["shared"]):
        remarks.append(_WHOLE_SERVERS)
    if not request["memory"] and ("mem" in asked or _is_zero(job["memory_per_node"])):
        remarks.append(_ALL_MEMORY)
    placement = (
        tuple(sorted(set(words(job["partition"])))), text(job["features"]), text(job["required_nodes"]),
        text(job["excluded_nodes"]),
    )  # fmt: skip
    return SlurmJob(name, request, _generic(job, generic, servers), count * servers, servers, placement, tuple(remarks))


def _plain(job: Entry, asked: dict[str, Fraction], servers: int) -> dict[str, Fraction]:
    """Cores and GiB of one task: of ``tres_req_str``, which is about the whole job, or of the first that is given."""
    whole_job = asked.get("cpu") or Fraction(whole(job["cpus"]))
    cpu = whole_job / servers or Fraction(whole(job["minimum_cpus_per_node"], bits=16))
    memory = asked.get("mem", Fraction(0)) / servers or Fraction(whole(job["memory_per_node"]))
    memory = memory or whole(job["memory_per_cpu"]) * cpu
    return {"cpu": cpu, "memory": memory / 1024}


def _is_zero(entry: Entry) -> bool:
    """Whether a number is set, to 0."""
    value = entry.value
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) is True and not value.get("infinite") else None
    return value == 0 and value is not False


def _generic(job: Entry, total: Amounts, servers: int) -> Amounts:
    """Generic resources of one task: how many of ``tres_req_str`` or, of those that it lacks, of the requests.

    ``tres_req_str`` has the resources that the cluster accounts for, often without their types; these stand in the
    requests. Several requests for one resource, as by server and by job, are about the same units: the first counts.
    """
    asked = Amounts()
    tasks = Fraction(whole(job["tasks"]) or servers, servers)
    sockets = Fraction(whole(job["sockets_per_node"], bits=16) or 1)
    requests = {"node": Fraction(1), "job": Fraction(1, servers), "task": tasks, "socket": sockets}
    for unit, factor in requests.items():
        asked.add_missing(gres(job[f"tres_per_{unit}"], requested=True), factor)
    out = Amounts()
    out.add_missing(total, Fraction(1, servers))
    out.add_missing(asked, Fraction(1))
    return out
