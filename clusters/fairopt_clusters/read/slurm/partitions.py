"""What partitions of ``slurm.conf`` say of jobs that wait: the default one, whole servers, and limits on each job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fairopt.errors import InvalidInstance
from fairopt.io import Notes, shown
from fairopt_clusters.read.slurm.fields import time_seconds, whole
from fairopt_clusters.read.slurm.objects import SlurmJob

_Fields = Mapping[str, str]  # of a partition, with keys in lower case
_Job = tuple[str, SlurmJob, int]
_ENDLESS = {"", "unlimited", "infinite", "none", "(null)", "n/a", "-1"}


def in_partitions(jobs: Iterable[_Job], partitions: Mapping[str, _Fields], notes: Notes) -> Iterator[_Job]:
    """The jobs, those that wait with the partitions that can start them; those that none can are left out."""
    usual = [name for name, fields in partitions.items() if fields.get("default", "").upper() == "YES"]
    for name, job, count in jobs:
        if job.runs:
            yield name, job, count
            continue
        mine = job.partition or usual[-1:]
        kept = [one for one in mine if one not in partitions or not _too_large(job, one, partitions[one])]
        if mine and not kept:
            why = _too_large(job, mine[0], partitions[mine[0]])
            notes.add("{job} beyond a limit of its partition on each job {was} left out", f"{name}: {why}")
            continue
        whole_servers = [partitions.get(one, {}).get("oversubscribe", "").upper() == "EXCLUSIVE" for one in kept]
        changes: dict[str, object] = {"partition": kept} if kept != job.partition else {}
        if kept and all(whole_servers) and not job.takes_servers:
            changes["exclusive"] = {"TRUE"}
            notes.add("{job} of a partition that gives whole servers {takes} these (OverSubscribe=EXCLUSIVE)", name)
        yield name, job.model_copy(update=changes) if changes else job, count


def limits_of(fields: _Fields) -> tuple[int | None, float | None]:
    """The most servers and the longest time, in seconds, of each job of a partition; None for no limit."""
    out = list[float | None]()
    for name, read in (("MaxNodes", whole), ("MaxTime", time_seconds)):
        text = fields.get(name.lower(), "")
        try:
            out.append(None if text.lower() in _ENDLESS else read(text))
        except InvalidInstance as error:
            raise InvalidInstance(f"{name} is {shown(text)}; {error}, or UNLIMITED") from None
    return None if out[0] is None else int(out[0]), out[1]


def _too_large(job: SlurmJob, name: str, fields: _Fields) -> str:
    """The limit of a partition that a job exceeds, ``""`` if there is none."""
    most, longest = limits_of(fields)
    if most is not None and job.servers > most:
        return f"{name}: MaxNodes={fields['maxnodes']}"
    if longest is not None and job.time_limit is not None and job.time_limit * 60 > longest:
        return f"{name}: MaxTime={fields['maxtime']}"
    return ""
