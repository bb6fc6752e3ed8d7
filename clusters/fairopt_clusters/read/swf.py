"""Traces of parallel computers in the Standard Workload Format (``.swf``, ``.swf.gz``), version 2.2.

Chapin et al. (1999), *Benchmarks and Standards for the Evaluation of Parallel Job Schedulers*. Below comments that
begin with ``;``, a job is a line of 18 numbers, -1 where one is unknown.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io import Arguments, JobArguments, Notes, check_choice, counted, in_order, read_text, shown
from fairopt.runtime import Float

if TYPE_CHECKING:
    from fairopt import Instance

ENDINGS = (".swf", ".swf.gz")
FIELDS = (
    *("job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time"),
    *("used memory", "requested processors", "requested time", "requested memory", "status", "user", "group"),
    *("executable", "queue", "partition", "preceding job", "think time"),
)
_ENDS = {0: "{job} that had failed: what ran counts", 5: "{job} that {was} cancelled: what ran counts"}  # by status
_PARTS = (2, 3, 4)  # statuses of parts of jobs, which the archive lists beside the whole; 1 is completed
_KB_IN = {"KiB": 1.0, "MiB": 2.0**-10, "GiB": 2.0**-20, "TiB": 2.0**-30, "MB": 1.024e-3, "GB": 1.024e-6}
LARGEST = 1e15  # seconds, kilobytes and numbers in fields are below
_EXPECTED = "expected a trace in the Standard Workload Format"


def is_swf(path: Path, kinds: Sequence[str]) -> bool:
    """Whether a file is named as such a trace."""
    return path.name.lower().endswith(ENDINGS) and path.is_file()


def read_swf_servers(path: Path) -> Arguments:
    """One server with all processors of the header, or as many as the largest job that ran asks for."""
    header, lines = _lines(path)
    stated = (re.match(r"[1-9]\d*", header.get(key, "")) for key in ("MaxProcs", "MaxNodes"))  # and perhaps words
    given = next(filter(None, stated), None)
    if given is None:
        jobs = _numbers(path, lines)
        most = int(_processors(jobs[jobs[:, FIELDS.index("run time")] > 0]).max(initial=1))
    else:
        most = int(given[0])
    source = "that the largest job that ran asks for" if given is None else "of the header"
    notes = [f"one server with {counted(most, 'processor')}, {source}; --servers gives others"]
    values = {
        "demands": np.zeros((0, 1)),
        "capacities": [[float(most)]],
        "resources": ["cpu"],
        "servers": ["processors"],
    }
    return Arguments(values | {"users": [], "notes": notes}, (os.fspath(path),), False)


def read_swf_jobs(path: Path, servers: Instance, notes: Notes, users: str = "user") -> JobArguments:
    """Read jobs that ran.

    A job arrives at its submit time, runs for its run time, and has its requested time as limit, or no planned end. It
    asks for its requested processors, else those allocated: of one server where one has so many, else it is a gang of
    as many tasks. Memory is that per processor. Users are those of groups, which are teams, or are groups.
    """
    check_choice("users", users, ("user", "group"))
    header, lines = _lines(path)
    given = _numbers(path, lines)
    field = dict(zip(FIELDS, given.T, strict=True)) if len(given) else dict.fromkeys(FIELDS, np.zeros(0))
    name, unknown = path.name, [of for of in FIELDS if len(given) and (field[of] == -1).all()]
    if unknown:
        notes.say(f"-1, which is unknown, for every job: {', '.join(unknown)}")
    if said := [f"{key} {header[key]}" for key in ("Computer", "UnixStartTime") if key in header]:
        notes.say(f"{name}: {', '.join(said)}")
    processors, status = _processors(given), field["status"]
    kept = np.ones(len(given), dtype=bool)
    for why, bad in (
        ("{job} that {is} a part of one that was interrupted {was} left out", np.isin(status, _PARTS)),
        ("{job} that never ran {was} left out", ~(field["run time"] > 0)),
        ("{job} without a number of processors {was} left out", ~(processors > 0)),
        ("{job} without a submit time {was} left out", field["submit time"] < 0),
    ):
        left = kept & bad
        notes.add(why, *_names(field["job number"][left]))
        kept &= ~left
    for code, what in _ENDS.items():
        notes.add(what, number=int((status[kept] == code).sum()))
    notes.add(
        "{job} after a preceding one {counts} as independent", number=int((field["preceding job"][kept] > 0).sum())
    )
    if not kept.any():
        raise notes.nothing_left(f"{path} has no job that ran")
    field, processors = {of: values[kept] for of, values in field.items()}, processors[kept]
    cores = servers.capacities[:, servers.resource_index("cpu")].max() if "cpu" in servers.resources else math.inf
    tasks = np.where(processors > cores, processors, 1.0)
    units = dict(zip(servers.resources, servers.units or [""] * servers.n_resources, strict=True))
    columns = {"cpu": processors / tasks} | _memory(field, processors / tasks, units, notes)
    amounts = {f"{of} [{units[of]}]" if units.get(of) else of: column for of, column in columns.items()}
    limits = np.where(field["requested time"] > 0, field["requested time"], math.inf)
    notes.add("{job} without a requested time {has} no planned end", number=int(np.isinf(limits).sum()))
    notes.add("{job} ran longer than requested, which counts", number=int((limits < field["run time"]).sum()))
    names = _names(field["job number"])
    twice = [name for name, n in Counter(names).items() if n > 1]
    notes.add("{job number} {is} there several times, and each job counts", *twice)
    teams, of_users = (
        [f"{kind}{n:.0f}" if n >= 0 else f"no {kind}" for n in field[kind].tolist()] for kind in ("group", "user")
    )
    jobs = JobArguments(
        teams if users == "group" else [f"{team}/{user}" for team, user in zip(teams, of_users, strict=True)],
        in_order(os.fspath(path), amounts, servers, notes),
        field["run time"],
        field["submit time"] - field["submit time"].min(),
        tasks,
        np.ones(len(tasks)),
        np.zeros(len(tasks), dtype=int),
        [None],
        teams=list(teams),
        gangs=tasks > 1,
        labels=[{"JobID": name} for name in names],
        limits=np.maximum(limits, field["run time"]),
        time_unit="s",
    )
    fits = jobs.fitting(servers)
    notes.add("{job} larger than the servers {was} left out", *_names(field["job number"][~fits]))
    if not fits.any():
        raise notes.nothing_left(f"{path} has no job that fits on the servers")
    return jobs.part(fits)


def _memory(field: dict[str, Float], processors: Float, units: dict[str, str], notes: Notes) -> dict[str, Float]:
    """Memory per task in the unit of the servers, if they have some: requested, else used, per processor."""
    known = np.where(field["requested memory"] > 0, field["requested memory"], np.maximum(field["used memory"], 0.0))
    if "memory" not in units:
        notes.add("memory of {job} does not count: the servers have none", number=int((known > 0).sum()))
        return {}
    unit = units["memory"] or "GiB"
    if unit not in _KB_IN:
        raise InvalidInstance(f"the cluster has memory in {unit!r}, which is not known; give it in GiB")
    return {"memory": known * processors * _KB_IN[unit]}


def _names(numbers: Float) -> list[str]:
    """Jobs in notes, and in what is written."""
    return [f"{number:.0f}" for number in numbers.tolist()]


def _processors(rows: Float) -> Float:
    """The processors of each job: requested, else allocated."""
    requested, allocated = (rows[:, FIELDS.index(f"{one} processors")] for one in ("requested", "allocated"))
    return np.where(requested > 0, requested, allocated)


def _lines(path: Path) -> tuple[dict[str, str], list[tuple[int, str]]]:
    """The header by key, and the lines of jobs with their numbers."""
    header, rows = dict[str, str](), list[tuple[int, str]]()
    for number, line in enumerate(read_text(path, _EXPECTED).splitlines(), 1):
        if match := re.match(r"\s*;\s*(\w+)\s*:\s*(.*\S)?", line):
            header.setdefault(match[1], match[2] or "")
        elif line.strip() and not line.lstrip().startswith(";"):
            rows.append((number, line))
    return header, rows


def _numbers(path: Path, lines: list[tuple[int, str]]) -> Float:
    """The fields of jobs, (n_jobs, 18)."""
    cells = [line.split() for _, line in lines]
    for (number, _), row in zip(lines, cells, strict=True):
        if len(row) != len(FIELDS):
            raise InvalidInstance(
                f"{path}, line {number}: the row has {len(row)} fields, not {len(FIELDS)}; {_EXPECTED}"
            )
    with suppress(ValueError):  # the cell that is no number is named below
        made = np.array([[*map(float, row)] for row in cells]).reshape(-1, len(FIELDS))
        if (np.abs(made) < LARGEST).all():
            return made
    number, k, cell = next(
        (number, k, cell)
        for (number, _), row in zip(lines, cells, strict=True)
        for k, cell in enumerate(row)
        if not _is_number(cell)
    )
    raise InvalidInstance(
        f"{path}, line {number}, column {k + 1} ({FIELDS[k]}): {shown(cell)} is no number below 1e15; {_EXPECTED}"
    )


def _is_number(cell: str) -> bool:
    """Whether a cell is a number of a size that fields have."""
    with suppress(ValueError):
        return abs(float(cell)) < LARGEST
    return False
