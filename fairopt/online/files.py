"""Jobs from files: a table, or what readers of other distributions know."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairopt import datasets
from fairopt.blocks.shares import DominantShare
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.io.files import place_of, reader_of_folder
from fairopt.io.jobs import read_job_table
from fairopt.io.notes import Notes
from fairopt.io.readers import Reader, function_of, readers_to_ask
from fairopt.online.jobs import Job
from fairopt.online.requests import Requests, individual_servers
from fairopt.runtime.extensions import JOBS, broken, looks_like, missing
from fairopt.solve.whole.servers import Servers


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
    compress: float = 1.0,
    **options: Any,
) -> JobTrace:
    r"""Read jobs with arrivals and durations from a table, or from a file that another distribution reads.

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
        * a trace of requests to language models (of Azure, BurstGPT or Mooncake), with ``tenants`` or
          ``tenant_column``, see :doc:`/serving`,
        * with fairopt-clusters output of Slurm's ``sacct --json`` or ``sacct -P``, or a folder of the openb trace, see
          :doc:`/clusters/files`; or a trace in the Standard Workload Format (``.swf``, ``.swf.gz``).
    servers : Instance, optional
        The servers and resources. Default for a folder and ``.swf``: those that `fairopt.read` reads there.
    compress : float, default 1.0
        Divide all arrivals by this number; durations stay.
    **options
        Of the reader, such as ``users`` and ``pods`` of the openb trace.

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
    place, given = place_of(path), {name: value for name, value in options.items() if value is not None}
    kind = _reader_of(place, given)
    of_jobs = kind.takes if kind else set[str]()
    of_servers = reader_of_folder(place, {})[0].takes if servers is None and place.is_dir() else set[str]()
    with_servers = servers is None and has_servers(place)
    for name in given.keys() - of_jobs - of_servers:
        raise InvalidInstance(f"{name!r} is no option for {kind.shown if kind else place}; leave it out")
    if with_servers:
        servers = datasets.read(place, **{name: given[name] for name in given if name in of_servers})
    if servers is None:
        raise InvalidInstance(f"the servers of {path} are missing; give the cluster too, as fo.read('cluster')")
    if kind is None:
        read = read_job_table(path, servers, notes)
    else:
        taken = {name: given[name] for name in given if name in of_jobs}
        read = function_of(kind.read)(place, servers, notes, **taken)
    if compress != 1:
        notes.say(f"arrivals are divided by {compress:.12g}; durations are as in the file")
    lists = [None if names is None else _individual(names, servers) for names in read.lists]
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
            together=together,
            labels=labels,
        )
        for user, demands, duration, tasks, arrival, weight, k, gang, limit, team, together, labels in zip(
            read.users,
            map(tuple, read.demands.tolist()),
            read.durations.tolist(),
            read.tasks.tolist(),
            read.arrivals.tolist(),
            read.weights.tolist(),
            read.listed.tolist(),
            read.gangs.tolist(),
            read.limits.tolist(),
            read.teams,
            read.together,
            read.labels,
            strict=True,
        )
    )
    kept = _fitting_together([*jobs], servers, notes)
    if not kept:
        raise notes.nothing_left(f"{path} has no job that fits on the servers")
    return JobTrace(tuple(kept), tuple(notes.sentences()), read.time_unit)


def has_servers(place: Path) -> bool:
    """Whether jobs come with their servers: in a folder, or in a file that is read as servers too."""
    return place.is_dir() or any(kind.asked(kind.path, place, ()) for kind in readers_to_ask())


def _fitting_together(jobs: list[Job], servers: Instance, notes: Notes) -> list[Job]:
    """The jobs without those that start together and do not fit on the empty servers together."""
    parts = dict[str, list[Job]]()
    for job in jobs:
        if job.together is not None:
            parts.setdefault(job.together, []).append(job)
    if not parts:
        return jobs
    alone = individual_servers(servers, None, None, None, pooled=False)
    requests, large = Requests(alone, Servers(alone.capacities), DominantShare()), list[str]()
    for name, some in parts.items():
        try:
            requests.check_parts(
                name, [(requests.of(one.user, one.demands, one.eligible)[1], one.tasks) for one in some]
            )
        except InvalidInstance:
            units = np.sum([np.array(one.demands) * one.tasks for one in some], axis=0).tolist()
            asked = zip(servers.resources, units, servers.total_capacities.tolist(), strict=True)
            large.append(
                f"{name}: {', '.join(f'{unit:.12g} {what} of {there:.12g}' for what, unit, there in asked if unit)}"
            )
    notes.add("{heterogeneous job} whose parts do not fit on the servers together {was} left out", *large)
    gone = {text.partition(": ")[0] for text in large}
    return [job for job in jobs if job.together not in gone]


def _reader_of(place: Path, given: Mapping[str, Any]) -> Reader | None:
    """The reader of jobs in a file or folder, None for a table; options that a table does not take are refused."""
    known = readers_to_ask(jobs=True)
    for kind in known:
        if kind.asked(kind.path, place, ()):
            return kind
    names = [one.name for one in place.iterdir()] if place.is_dir() else [place.name]
    if like := looks_like(names):
        raise missing(f"{place} looks like one of {like}, which")
    if place.is_dir():
        shown = ", or ".join(["a CSV table of jobs", *(one.shown for one in known)])
        raise InvalidInstance(f"{place} is a folder; give {shown}{broken(JOBS)}")
    for name in given:
        takers = " and ".join(one.shown for one in known if name in one.takes)
        what = f"an option for {takers}" if takers else "no option of a reader"
        raise InvalidInstance(f"{name!r} is {what}, and {place} is a table of jobs; leave it out")
    return None


def _individual(names: Sequence[str], servers: Instance) -> tuple[str, ...]:
    """Servers and types by name; rows with counts are replaced by the names of their individual servers."""
    counts = dict(zip(servers.servers, servers.counts.tolist(), strict=True))
    return tuple(
        one
        for name in names
        for one in ([name] if counts.get(name, 1) == 1 else [f"{name} #{k + 1}" for k in range(counts[name])])
    )
