"""Reads jobs for simulations from a CSV table; what readers of jobs return."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.assemble import WEIGHT, eligibility, headers_of, refuse_other_unit
from fairopt.io.notes import Notes
from fairopt.io.tables import Column, InputTable, read_table, short
from fairopt.io.times import are_dates, seconds_of
from fairopt.runtime.arrays import Bool, Float, Indices

if TYPE_CHECKING:
    from fairopt.instance import Instance

_REQUIRED = ("user", "arrival", "duration")
_DURATION = Column("duration", "durations", "give a finite number > 0, in the unit of the arrivals", positive=True)
_TASKS = Column("tasks", "tasks", "give a whole number >= 1, or leave it empty for 1", 1.0, positive=True, whole=True)
_ARRIVAL = Column("arrival", "arrivals", "give a finite number >= 0, or dates in all cells, as 2026-03-01T08:00:00")
_LIMIT = Column("limit", "limits", "give a number > 0, or leave it empty for the duration", math.nan, positive=True)
_COLUMNS = (_DURATION, _TASKS, WEIGHT)
_ABOUT_JOBS = ("user", "arrival", *(column.name for column in _COLUMNS), "servers", "team", "gang", "limit")
_LISTS = ("teams", "together", "labels")
_ROUNDING_FACTOR = 1 + 1e-9  # on capacities, when checking whether a task fits
_GANG = {"": False, "0": False, "no": False, "false": False, "1": True, "yes": True, "true": True}


@dataclass(eq=False)
class JobArguments:
    """What a reader of jobs returns: the arguments of jobs, one entry per job.

    Parameters
    ----------
    users : list of str
        The user of each job.
    demands : array of shape (n_jobs, n_resources)
        Units per task, in the order of the servers' resources, see `in_order`.
    durations, arrivals, tasks, weights : array of shape (n_jobs,)
        Times of a task, the number of tasks, and the weight of the user.
    listed : array of int of shape (n_jobs,)
        The index in ``lists`` of each job's list.
    lists : list
        The distinct lists of eligible servers and server types, None for all servers.
    teams : list of str or None, optional
        The team of each job.
    gangs : array of bool, optional
        Whether all tasks of a job start together.
    limits : array, optional
        Limits of durations, NaN for the duration, infinity where no end is planned.
    together : list of str or None, optional
        The label that jobs which start together have in common.
    labels : list of dict or None, optional
        What else is known of each job, such as its partition.
    time_unit : str, optional
        ``"s"`` if times are known to be in seconds.

    Examples
    --------
    >>> import fairopt as fo
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> jobs = fo.io.JobArguments(["web"], np.array([[1.0]]), 60 * one, 0 * one, one, one, np.array([0]), [None])
    >>> jobs.fitting(fo.Instance([], [4]))
    array([ True])
    """

    users: list[str]
    demands: Float
    durations: Float
    arrivals: Float
    tasks: Float
    weights: Float
    listed: Indices
    lists: list[tuple[str, ...] | None]
    teams: list[str | None] = field(default_factory=list)
    gangs: Bool = field(default_factory=lambda: np.zeros(0, dtype=bool))
    limits: Float = field(default_factory=lambda: np.zeros(0))
    together: list[str | None] = field(default_factory=list)
    labels: list[dict[str, str] | None] = field(default_factory=list)
    time_unit: str | None = None

    def __post_init__(self) -> None:
        n = len(self.users)
        for name in _LISTS:
            setattr(self, name, getattr(self, name) or [None] * n)
        self.gangs = self.gangs if len(self.gangs) else np.zeros(n, dtype=bool)
        self.limits = self.limits if len(self.limits) else np.full(n, math.nan)

    def fitting(self, servers: Instance) -> Bool:
        """Whether a task of each job, or its gang, fits on servers where it may run, shape (n_jobs,)."""
        fits = np.zeros(len(self.users), dtype=bool)
        most = np.zeros(len(self.users))  # of a gang at once
        for k, names in enumerate(self.lists):
            jobs, rows = self.listed == k, np.ones(servers.n_servers, dtype=bool)
            if names is not None:
                types = [name for name in names if name not in servers.servers]
                rows = np.isin(servers.servers, names) | np.isin(servers.server_types or "", types)
            sizes, of_row = np.unique(servers.capacities[rows], axis=0, return_inverse=True)
            number = np.bincount(of_row.ravel(), servers.counts[rows], minlength=len(sizes))
            gangs = jobs & self.gangs
            for capacities, count in zip(sizes, number.tolist(), strict=True):
                room = capacities * _ROUNDING_FACTOR
                fits[jobs] |= (self.demands[jobs] <= room).all(axis=1)
                with np.errstate(divide="ignore", invalid="ignore"):
                    most[gangs] += count * np.fmin.reduce(room // self.demands[gangs], axis=1)
        return fits & (~self.gangs | (most >= self.tasks))

    def part(self, kept: Bool) -> JobArguments:
        """The jobs where ``kept`` is true."""
        names = ("demands", "durations", "arrivals", "tasks", "weights", "listed", "gangs", "limits")
        lists: dict[str, Any] = {
            name: [one for one, keep in zip(getattr(self, name), kept, strict=True) if keep]
            for name in ("users", *_LISTS)
        }
        return replace(self, **lists, **{name: getattr(self, name)[kept] for name in names})


# -- a table --------------------------------------------------------------------------------------------------


def read_job_table(path: str | os.PathLike[str], servers: Instance, notes: Notes) -> JobArguments:
    """Read a CSV table of jobs, as `fairopt.online.read_jobs` describes it."""
    table = read_table(path, required=_REQUIRED)
    if not len(table):
        raise InvalidInstance(f"{table.path} has a header only; add a line for at least one job")
    headers = headers_of(servers)
    amounts = {}
    for name in table.columns:
        if name not in _ABOUT_JOBS:
            unknown = f"the cluster has no resource {name!r}: fill in 0, or remove the column"
            amounts[name] = table.numbers(name if name in headers else Column(name, fix=unknown))
    cells = table.cells("servers") if "servers" in table.columns else [""] * len(table)
    firsts, listed = distinct(cells)
    lines = [(table.lines or [])[row] for row in firsts]
    part = InputTable(table.path, {"servers": [cells[row] for row in firsts]}, len(firsts), lines)
    names = np.array(list(dict.fromkeys([*servers.servers, *(servers.server_types or ())])))
    allowed = eligibility(part, "the cluster", names.tolist(), [])
    lists = [
        None if allowed is None or not cells[row] else tuple(names[allowed[k]].tolist()) for k, row in enumerate(firsts)
    ]
    ones = np.ones(len(table))
    dates = are_dates(table.cells("arrival"))
    numbers: dict[str, Float] = {"tasks": ones, "weights": ones, **table.arguments(_COLUMNS)}
    jobs = JobArguments(
        table.labels("user", unique=False),
        in_order(table.path, amounts, servers, notes),
        numbers["durations"],
        tasks=numbers["tasks"],
        weights=numbers["weights"],
        arrivals=_arrivals(table, notes) if dates else table.numbers(_ARRIVAL),
        listed=listed,
        lists=lists,
        teams=[name or None for name in table.texts("team")] if "team" in table.columns else [],
        gangs=_gangs(table),
        limits=_limits(table),
        time_unit="s" if dates else None,
    )
    _check_rows(table, jobs, servers)
    return jobs


def _arrivals(table: InputTable, notes: Notes) -> Float:
    """Dates as seconds since the first one."""
    seconds = since_first(table, "arrival", _ARRIVAL.fix)
    first = table.texts("arrival")[int(seconds.argmin())]
    notes.say(f"times are in seconds, as are durations; 0 is {first}, the first arrival")
    return seconds


def since_first(table: InputTable, column: str, fix: str) -> Float:
    """A column of dates, none empty, as seconds since the first one."""
    seconds = seconds_of(table.texts(column), table, column)
    if np.isnan(seconds).any():
        table.refuse(int(np.isnan(seconds).argmax()), column, f"the cell is empty; {fix}")
    return np.asarray(seconds - seconds.min())


def _gangs(table: InputTable) -> Bool:
    """The column ``gang``."""
    out = np.zeros(len(table), dtype=bool)
    for row, cell in enumerate(table.texts("gang") if "gang" in table.columns else ()):
        if cell.lower() not in _GANG:
            table.refuse(
                row, "gang", f"{short(cell)} is not true or false; give 1 if all tasks start together, or nothing"
            )
        out[row] = _GANG[cell.lower()]
    return out


def _limits(table: InputTable) -> Float:
    """The column ``limit``; NaN where there is none."""
    if "limit" not in table.columns:
        return np.full(len(table), math.nan)
    cells = table.texts("limit")
    given = [row for row, cell in enumerate(cells) if cell]
    part = InputTable(
        table.path, {"limit": [cells[row] for row in given]}, len(given), [(table.lines or [])[row] for row in given]
    )
    out = np.full(len(table), math.nan)
    out[given] = part.numbers(_LIMIT)
    return out


def distinct(cells: list[Any]) -> tuple[list[int], Indices]:
    """The first row of each distinct cell, and for each row the position of its cell among these.

    Parameters
    ----------
    cells : list
        Hashable values.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.distinct(["a", "b", "a"])
    ([0, 1], array([0, 1, 0]))
    """
    first: dict[Any, int] = {}
    at = [first.setdefault(cell, row) for row, cell in enumerate(cells)]
    rows = list(first.values())
    return rows, np.searchsorted(rows, at)


def _check_rows(table: InputTable, jobs: JobArguments, servers: Instance) -> None:
    """Raise an error about a job without demands, one that fits nowhere, or a user with two weights."""
    for bad, problem in (
        (~jobs.demands.any(axis=1), "its task takes no resource; give it a positive demand or remove the line"),
        (
            ~replace(jobs, gangs=jobs.gangs & False).fitting(servers),
            "its task ({}) is larger than any eligible server; make it smaller",
        ),
        (~jobs.fitting(servers), "its gang of tasks ({} each) does not fit on the eligible servers; make it smaller"),
    ):
        if bad.any():
            row = int(np.argmax(bad))
            needs = zip(headers_of(servers), jobs.demands[row].tolist(), strict=True)
            shown = ", ".join(f"{units:.12g} {header}" for header, units in needs if units)
            table.refuse(row, "user", f"{short(jobs.users[row])}: {problem.format(shown)}")
    short_of = jobs.limits < jobs.durations
    if short_of.any():
        row = int(np.argmax(short_of))
        table.refuse(
            row,
            "limit",
            f"the value is {jobs.limits[row]:.12g}, below the duration {jobs.durations[row]:.12g}: the job would be "
            "ended first; give a limit of at least the duration, or the limit as the duration",
        )
    first: dict[str, int] = {}
    for row, user in enumerate(jobs.users):
        before = first.setdefault(user, row)
        if jobs.weights[row] != jobs.weights[before]:
            other = f"{short(user)} has {jobs.weights[before]:.12g} on {table.place(before)}"
            table.refuse(row, "weight", f"the value is {jobs.weights[row]:.12g}, and {other}; give a user one weight")
        if jobs.teams[row] != jobs.teams[before]:
            one, other = ("no team" if jobs.teams[k] is None else short(str(jobs.teams[k])) for k in (row, before))
            there = f"{short(user)} is in {other} on {table.place(before)}"
            table.refuse(row, "team", f"the value is {one}, and {there}; give a user one team")


def in_order(path: str, amounts: Mapping[str, Float], servers: Instance, notes: Notes) -> Float:
    """Demands in the order of the servers' resources, shape (n_jobs, n_resources).

    Parameters
    ----------
    path : str
        The file, for messages.
    amounts : mapping of str to array
        The demands by header, such as ``"memory [GiB]"``.
    servers : Instance
        The servers.
    notes : Notes
        Where resources that are missing are noted.

    Examples
    --------
    >>> import fairopt as fo
    >>> import numpy as np
    >>> servers = fo.Instance([], [[8, 4]], resources=["cpu", "gpu"])
    >>> fo.io.in_order("jobs.csv", {"gpu": np.ones(2)}, servers, fo.io.Notes())
    array([[0., 1.],
           [0., 1.]])
    """
    headers = headers_of(servers)
    for name in set(headers).intersection(_ABOUT_JOBS):
        raise InvalidInstance(f"the cluster has a resource {name!r}, which in {path} has another meaning; rename it")
    if not amounts:
        raise InvalidInstance(f"{path} has no resource columns; add one per resource: {', '.join(headers)}")
    for header in headers:
        if header not in amounts:
            refuse_other_unit(header, amounts, path, "the cluster")
            notes.say(f"{path} has no column {header!r}: jobs take none of it")
    for column, values in amounts.items():
        if column not in headers and values.any():
            raise InvalidInstance(
                f"{path}: the column {column!r} is not a resource of the cluster; {nearest(column, headers)}"
            )
        if column not in headers:
            notes.say(f"{path}: the column {column!r}, 0 everywhere, is not a resource of the cluster and is left out")
    nothing = np.zeros(len(next(iter(amounts.values()))))
    return np.column_stack([amounts.get(header, nothing) for header in headers]).astype(float)
