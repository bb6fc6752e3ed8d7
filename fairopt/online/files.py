"""Jobs from files: a table, and the openb trace."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairopt_clusters.read.slurm.accounting import is_accounting, read_accounting

from fairopt import datasets
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.io.jobs import is_openb, read_job_table, read_openb_jobs
from fairopt.io.notes import Notes
from fairopt.online.jobs import Job


@dataclass(frozen=True, repr=False)
class JobTrace(Sequence[Job]):
    """The jobs of a file, for `simulate`, and the notes of its reader.

    Attributes
    ----------
    jobs : tuple of Job
        In the order of the file.
    notes : tuple of str
        What was left out or assumed.
    time_unit : str or None
        The unit of times, ``"s"`` in traces and tables with dates; None if the file does not say it.

    Examples
    --------
    >>> import fairopt as fo
    >>> trace = fo.online.JobTrace((fo.Job("web", [1, 4], 60), fo.Job("batch", [3, 1], 300, arrival=5)))
    >>> len(trace), trace[1].user, trace.notes
    (2, 'batch', ())
    """

    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()
    time_unit: str | None = None

    def __getitem__(self, at: Any) -> Any:
        return self.jobs[at]

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        return f"<JobTrace of {len(self.jobs):,} jobs of {len({job.user for job in self.jobs}):,} users>"


def read_jobs(
    path: str | os.PathLike[str],
    servers: Instance | None = None,
    *,
    users: str | None = None,
    pods: str | None = None,
    compress: float = 1.0,
) -> JobTrace:
    r"""Read jobs with arrivals and durations from a table, from Slurm's accounting or from the openb trace.

    Parameters
    ----------
    path : path-like
        One of

        * a CSV file with a line for each job: ``user``, ``arrival`` and ``duration`` (of one task, in the same unit of
          time, or an arrival as a date such as ``2026-03-01T08:00:00``, with time zones in all lines or in none, and a
          duration in seconds); optionally ``tasks`` (default 1), ``weight`` and ``team`` (of the user, the same on all
          its lines), ``gang`` (1 if all tasks start together), ``limit`` (default the duration) and ``servers``
          (servers or types of servers joined by ``|``, default all). Every other column is a resource, in units per
          task, with the header that the servers have, as ``memory [GiB]``; nothing is converted,
        * output of Slurm's ``sacct --json`` or ``sacct -P``, see Notes,
        * a folder of the openb trace, see Notes.
    servers : Instance, optional
        The servers and resources. Default for openb: those of the folder.
    users : str, optional
        For openb ``"shape"`` (default) groups tasks into users by equal demands and types of GPU, as
        `fairopt.datasets.openb`, and ``"qos"`` by quality of service. For sacct a user is a ``"user"`` of an account
        (default), as ``bio/ann``, or an ``"account"``.
    pods : str, default "default"
        For openb only: the list of tasks.
    compress : float, default 1.0
        Divide all arrivals by this number; durations stay.

    Returns
    -------
    JobTrace
        In the order of the file.

    Raises
    ------
    InvalidInstance
        If a file is wrong, jobs need a resource that the servers do not have, or a task of a table fits on no server
        where it may run.

    Notes
    -----
    Resources are matched by name. A resource that the table lacks has zero demand, and a column of zeros that the
    servers lack is ignored, each with a note.

    *sacct*: a job that ran arrives at ``Submit``, runs for ``Elapsed`` and has the limit ``Timelimit``; its account is
    its team. On k servers it is a gang of k tasks, each with 1/k of ``ReqTRES`` (without it, of ``AllocTRES``), which
    may share a server. A type of GPU decides on which types of servers it may run. Jobs that have not ended, never ran
    or fit on no servers, and steps are left out, with a note. Partitions and reservations are not modelled.

    *openb*: each pod is a job of one task that arrives at ``creation_time``, runs for
    ``deletion_time - scheduled_time`` seconds and may run where `fairopt.datasets.openb` allows it. Pods without these
    times or larger than any server are left out, with a note.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "jobs.csv"
    >>> _ = file.write_text("user,arrival,duration,tasks,cpu,memory\nweb,0,60,10,1,4\nbatch,5,300,2,3,1\n")
    >>> cluster = fo.Instance([], [9, 18], resources=["cpu", "memory"])
    >>> jobs = fo.online.read_jobs(file, cluster)
    >>> jobs
    <JobTrace of 2 jobs of 2 users>
    >>> fo.simulate(cluster, jobs).summary()["tasks"]
    12
    """
    if not (isinstance(compress, (int, float)) and 0 < compress < math.inf):
        raise InvalidInstance(f"compress is {compress!r}; give a finite number > 0, as 100")
    notes = Notes()
    if servers is not None and pods is None and is_accounting(path):
        found = read_accounting(path, servers, notes, "user" if users is None else users)
    elif is_openb(path):
        pods = "default" if pods is None else pods
        servers = datasets.openb(path, pods) if servers is None else servers
        found = read_openb_jobs(path, servers, notes, "shape" if users is None else users, pods)
    elif users is not None or pods is not None:
        name = "users" if pods is None else "pods"
        of = "the openb trace" if pods is not None else "the openb trace and output of sacct"
        raise InvalidInstance(f"{name!r} is an option for {of}, and {path} is neither; leave it out")
    elif servers is None:
        raise InvalidInstance(f"the servers of {path} are missing; give the cluster too, as fo.read('cluster')")
    else:
        found = read_job_table(path, servers, notes)
    if compress != 1:
        notes.say(f"arrivals are divided by {compress:.12g}; durations are as in the file")
    lists = [None if names is None else _individual(names, servers) for names in found.lists]
    jobs = (
        Job(
            user,
            demands,
            duration,
            tasks=int(tasks),
            arrival=arrival / compress,
            weight=weight,
            eligible=lists[k],
            gang=gang,
            limit=None if math.isnan(limit) else limit,
            team=team,
        )
        for user, demands, duration, tasks, arrival, weight, k, gang, limit, team in zip(
            found.users,
            map(tuple, found.demands.tolist()),
            found.durations.tolist(),
            found.tasks.tolist(),
            found.arrivals.tolist(),
            found.weights.tolist(),
            found.listed.tolist(),
            found.gangs.tolist(),
            found.limits.tolist(),
            found.teams,
            strict=True,
        )
    )
    return JobTrace(tuple(jobs), tuple(notes.sentences()), found.time_unit)


def _individual(names: Sequence[str], servers: Instance) -> tuple[str, ...]:
    """Servers and types by name; rows with counts are replaced by the names of their individual servers."""
    counts = dict(zip(servers.servers, servers.counts.tolist(), strict=True))
    return tuple(
        one
        for name in names
        for one in ([name] if counts.get(name, 1) == 1 else [f"{name} #{k + 1}" for k in range(counts[name])])
    )
