"""Jobs that ended, with times, from ``sacct --json`` or ``sacct -P``."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from fairopt.errors import InvalidInstance
from fairopt.io import (
    InputTable,
    JobArguments,
    Notes,
    Part,
    check_choice,
    check_columns,
    checked,
    distinct,
    in_order,
    read_json_text,
    read_text,
    seconds_of,
    short,
    shown,
    shown_key,
)
from fairopt.runtime import steps
from fairopt_clusters.read.slurm.devices import ANY, is_slice
from fairopt_clusters.read.slurm.fields import (
    Amounts,
    States,
    Text,
    Trackable,
    Whole,
    states,
    tres,
    tres_of_list,
    whole,
)

if TYPE_CHECKING:
    from fairopt import Instance

_EXPECTED = "expected the output of sacct --json, or of sacct -P with a header"
_NEVER = {"", "Unknown", "None", "N/A"}
_GIB = {"KiB": 2.0**20, "MiB": 2.0**10, "GiB": 1.0, "TiB": 2.0**-10, "MB": 1.073741824e3, "GB": 1.073741824}
_LASTS = re.compile(r"(?:(?:(\d{1,6})-)?(\d{1,6}):)?(\d{1,6}):(\d\d(?:\.\d{1,9})?)")
_STEP = re.compile(r"[^.]*\.")
_PART = re.compile(r"(\d+)\+\d+")  # of a heterogeneous job


@dataclass
class _Record:
    """One job; times in seconds, NaN if unknown."""

    name: str
    user: str
    account: str
    state: set[str]
    submit: float
    lasted: float
    limit: float
    nodes: int
    amounts: Amounts = field(default_factory=Amounts)
    labels: dict[str, str] = field(default_factory=dict)  # partition and QOS
    together: str | None = None  # the heterogeneous job that it is a part of


def is_accounting(path: Path, kinds: Sequence[str]) -> bool:
    """Whether a file is output of sacct: JSON, or a first line with ``|`` or ``JobID`` first, and without commas."""
    if path.is_dir():
        return False
    text = read_text(path, "expected a CSV table of jobs, or output of sacct").lstrip()
    first = text.partition("\n")[0]
    return text.startswith("{") or ("," not in first and ("|" in first or first.startswith("JobID")))


def read_accounting(
    path: str | os.PathLike[str],
    servers: Instance,
    notes: Notes,
    users: str = "user",
    limit_default: float | None = None,
    partitions: Mapping[str, Sequence[str]] | None = None,
) -> JobArguments:
    """Read jobs that ran.

    A job arrives at ``Submit``, runs for ``Elapsed`` and has the limit ``Timelimit``, without one ``limit_default`` or
    no planned end; its account is its team. On k servers it is a gang of k tasks, each with 1/k of ``ReqTRES`` (without
    it, of ``AllocTRES``), which may share a server; parts of a heterogeneous job start together. A type of GPU, and
    ``partitions`` with the servers in each, decide on which servers it may run. Jobs that have not ended, never ran or
    fit on no servers, and steps are left out, with a note. Reservations are not modelled.
    """
    check_choice("users", users, ("user", "account"))
    if limit_default is not None and not 0 < limit_default < math.inf:
        raise InvalidInstance(
            f"limit_default (--limit-default) is {limit_default:g}; give seconds, a finite number > 0"
        )
    name = os.fspath(path)
    text = read_text(path, _EXPECTED)
    records = list(_of_json(path, name) if text.lstrip().startswith("{") else _of_table(text, name, notes))
    kept = [record for record in records if _counts(record, notes)]
    if not kept:
        raise notes.nothing_left(f"{name} has no job that ran" if records else f"{name} lists no jobs")
    return _arguments(kept, name, servers, notes, users, limit_default, partitions or {})


def _counts(record: _Record, notes: Notes) -> bool:
    """Whether a job is replayed; notes say why not."""
    if record.state & {"PENDING", "PD", "RUNNING", "R", "SUSPENDED", "S", "REQUEUED", "RQ", "RESIZING", "RS"}:
        reason = "that {has} not ended {was} left out"
    elif not record.lasted > 0:
        reason = "that never ran {was} left out"
    elif math.isnan(record.submit):
        reason = "without a time of submission {was} left out"
    elif not (record.amounts.total or any(record.amounts.plain.get(key) for key in ("cpu", "mem"))):
        reason = "that {requests} nothing {was} left out"
    else:
        return True
    notes.add("{job} " + reason, record.name)
    return False


def _arguments(
    records: list[_Record],
    name: str,
    servers: Instance,
    notes: Notes,
    users: str,
    limit_default: float | None,
    partitions: Mapping[str, Sequence[str]],
) -> JobArguments:
    n = len(records)
    anything = {record.name: dict(record.amounts.total) for record in records}
    for record in records:
        _count_slices_apart(record, servers, notes)
    nodes = np.array([float(record.nodes) for record in records])
    generic = sorted({kind for record in records for kind in record.amounts.total})
    for kind in [kind for kind in generic if kind != "gpu" and kind not in servers.resources]:
        without = [record.name for record in records if record.amounts.total.get(kind)]
        notes.add("{job} that {requests} {kind} {counts} without: the cluster has none", *without, kind=kind)
        generic.remove(kind)
    amounts: dict[str, list[Any]] = {"cpu": [record.amounts.plain.get("cpu", 0) for record in records]}
    memory = [record.amounts.plain.get("mem", Fraction(0)) / 1024 for record in records]
    if any(memory) or "memory" in servers.resources:
        amounts["memory"] = memory
    amounts |= {kind: [record.amounts.total.get(kind, 0) for record in records] for kind in generic}
    typed = {f"{of}:{kind}" for record in records for of, kind in record.amounts.typed} & {*servers.resources}
    for column in sorted(typed):
        of, _, kind = column.partition(":")
        amounts[column] = [record.amounts.typed.get((of, kind), 0) for record in records]
    for kind in generic:
        if f"{kind}:{ANY}" in servers.resources:
            amounts[f"{kind}:{ANY}"] = [anything[record.name].get(kind, 0) for record in records]
    lists, listed = _places(records, servers, typed, partitions, notes)
    durations = np.array([record.lasted for record in records])
    limits = np.array([record.limit for record in records])
    without = np.isnan(limits)
    what = "no planned end (--limit-default gives one)" if limit_default is None else f"one of {limit_default:g} s"
    notes.add("{job} without a limit {has} {what}", number=int(without.sum()), what=what)
    limits[without] = math.inf if limit_default is None else limit_default
    over = np.flatnonzero(limits < durations)
    notes.add("{job} ran longer than the limit, which counts as the time that it ran", *(records[k].name for k in over))
    limits[over] = durations[over]
    submit = np.array([record.submit for record in records])
    accounts = [record.account or "no account" for record in records]
    names = [record.user or "no user" for record in records]
    twice = [name for name, n in Counter(record.name for record in records).items() if n > 1]
    notes.add("{JobID} {is} there several times, as of jobs that ran again, and each run counts", *twice)
    if nodes.max() > 1:
        notes.add(
            "{job} on several servers {is} a gang of as many tasks, which may share a server",
            number=int((nodes > 1).sum()),
        )
    jobs = JobArguments(
        accounts if users == "account" else [f"{a}/{u}" for a, u in zip(accounts, names, strict=True)],
        in_order(name, _columns(amounts, nodes, servers), servers, notes),
        durations,
        _same_arrivals(submit - submit.min(), records),
        nodes,
        np.ones(n),
        listed,
        lists,
        teams=list(accounts),
        gangs=nodes > 1,
        limits=limits,
        together=[record.together for record in records],
        labels=[{"JobID": record.name} | record.labels for record in records],
        time_unit="s",
    )
    fits = jobs.fitting(servers)
    halves = {one for one, fit in zip(jobs.together, fits.tolist(), strict=True) if not fit}
    fits &= np.array([one is None or one not in halves for one in jobs.together])
    notes.add("{job} larger than the servers {was} left out", *(records[k].name for k in np.flatnonzero(~fits)))
    if not fits.any():
        raise notes.nothing_left(f"{name} has no job that fits on the servers")
    return jobs.part(fits)


def _count_slices_apart(record: _Record, servers: Instance, notes: Notes) -> None:
    """Take slices of GPUs out of the whole ones, where they are a resource of the servers."""
    for (name, kind), amount in record.amounts.typed.items():
        if f"{name}:{kind}" in servers.resources and is_slice(kind):
            record.amounts.total[name] -= amount
        elif is_slice(kind):
            notes.add("{job} that {requests} slices of GPUs that no server has {counts} with whole ones", record.name)


def _columns(amounts: dict[str, list[Any]], nodes: Any, servers: Instance) -> dict[str, Any]:
    """Amounts per task under the headers of the servers; memory, in GiB, is converted to their unit."""
    units = dict(zip(servers.resources, servers.units or [""] * servers.n_resources, strict=True))
    out = {}
    for key, values in amounts.items():
        unit, per_task = units.get(key, ""), np.array([float(value) for value in values]) / nodes
        if key == "memory" and unit:
            if unit not in _GIB:
                raise InvalidInstance(f"the cluster has memory in {unit!r}, which is not known; give it in GiB")
            per_task = per_task * _GIB[unit]
        out[f"{key} [{unit}]" if unit else key] = per_task
    return out


def _same_arrivals(arrivals: Any, records: list[_Record]) -> Any:
    """Arrivals in which the parts of a heterogeneous job arrive with the last of them."""
    last = dict[str | None, float]()
    for arrival, record in zip(arrivals.tolist(), records, strict=True):
        last[record.together] = max(arrival, last.get(record.together, 0.0))
    return np.array([a if r.together is None else last[r.together] for a, r in zip(arrivals, records, strict=True)])


def _places(
    records: list[_Record],
    servers: Instance,
    resources: set[str],
    partitions: Mapping[str, Sequence[str]],
    notes: Notes,
) -> tuple[list[tuple[str, ...] | None], Any]:
    """Servers, or types of servers, where jobs with a type of GPU or a known partition may run."""
    kinds = {kind: {*re.sub(r":\d+(?=\||$)", "", kind.lower()).split("|")} for kind in servers.server_types or ()}
    type_of = dict(zip(servers.servers, servers.server_types or [""] * servers.n_servers, strict=True))
    known = dict[tuple[tuple[str, ...], str], tuple[str, ...]]()
    wanted = []
    for record in records:
        types = {
            kind for (of, kind), amount in record.amounts.typed.items() if amount and f"{of}:{kind}" not in resources
        }
        fits = tuple(kind for kind, has in kinds.items() if {one.lower() for one in types} <= has)
        if types and not fits:
            notes.add("{job} of a type of GPU that no server has may run on any", record.name)
        fits = fits if types else ()
        key = fits, record.labels.get("partition", "")
        if key not in known:
            named = [host for one in key[1].split(",") for host in partitions.get(one, ())]
            both = tuple(host for host in dict.fromkeys(named) if not fits or type_of.get(host) in fits)
            known[key] = both or (fits if not named else ())
        if partitions and key[1] and not known[key]:
            notes.add("{job} of a partition without such servers may run on any", f"{record.name}: {key[1]}")
        wanted.append(known[key])
    firsts, listed = distinct(wanted)
    return [wanted[row] or None for row in firsts], listed


# -- sacct -P -------------------------------------------------------------------------------------------------


def _of_table(text: str, name: str, notes: Notes) -> Iterator[_Record]:
    table = _table(text, name)
    columns = table.columns

    def cells(*names: str) -> list[Any]:
        """The first of some columns that is there."""
        empty: list[Any] = [""] * len(table)
        return next((list(columns[one]) for one in names if one in columns), empty)

    def times(column: str) -> Any:
        return seconds_of(["" if cell in _NEVER else cell for cell in cells(column)], table, column)

    ids = cells("JobID", "JobIDRaw")
    requests, allocated = cells("ReqTRES"), cells("AllocTRES")
    submit, start, end = times("Submit"), times("Start"), times("End")
    _same_zones(table, columns)
    lasted, limits = _lasted(table, "Elapsed", 1.0), _lasted(table, "Timelimit", 60.0)
    of_nodes = next((one for one in ("NNodes", "AllocNodes", "ReqNodes") if one in columns), "NNodes")
    nodes, who, accounts, in_state = cells(of_nodes), cells("User"), cells("Account"), cells("State")
    labels = {"partition": cells("Partition"), "qos": cells("QOS")}
    for row in steps(range(len(table)), f"jobs of {os.path.basename(name)}", len(table)):
        if _STEP.match(ids[row]):
            notes.add("{step} of jobs {was} left out (sacct -X leaves them out too)", number=1)
            continue
        try:
            of = [tres(requests[row]), tres(allocated[row])]
            amounts = next((one for one in of if one.plain or one.total), Amounts())
        except InvalidInstance as error:
            table.refuse(row, "ReqTRES" if "ReqTRES" in columns else "AllocTRES", str(error))
        try:
            count = whole(nodes[row])
        except InvalidInstance as error:
            table.refuse(row, of_nodes, f"{short(nodes[row])}: {error}")
        yield _Record(
            ids[row] or f"on {table.place(row)}",
            who[row],
            accounts[row],
            states(in_state[row].split(" ")[0]),
            float(submit[row]),
            float(end[row] - start[row]) if math.isnan(lasted[row]) else lasted[row],
            limits[row],
            max(count or int(amounts.plain.get("node", 0)), 1),
            amounts,
            {key: column[row] for key, column in labels.items() if column[row] not in _NEVER},
            match[1] if (match := _PART.fullmatch(ids[row])) else None,
        )


def _table(text: str, name: str) -> InputTable:
    """The cells of a file whose columns are separated by ``|``."""
    lines = [(k + 1, line.rstrip("\r")) for k, line in enumerate(text.split("\n")) if line.strip()]
    header = lines[0][1].removesuffix("|").split("|")
    if len(header) == 1:
        raise InvalidInstance(f"{name}, line {lines[0][0]}: the columns are not separated by '|'; give {_COMMAND}")
    check_columns(
        header, f"{name}, line {lines[0][0]}", ("JobID" if "JobIDRaw" not in header else "JobIDRaw", "Submit")
    )
    if not {"ReqTRES", "AllocTRES"} & {*header}:
        raise InvalidInstance(f"{name} has no column ReqTRES; give {_COMMAND}")
    if not ({"Elapsed", "ElapsedRaw"} & {*header} or {"Start", "End"} <= {*header}):
        raise InvalidInstance(f"{name} has neither Elapsed nor Start and End; give {_COMMAND}")
    rows = []
    for number, line in lines[1:]:
        cells = line.split("|")
        cells = cells[:-1] if len(cells) == len(header) + 1 and not cells[-1] else cells
        if len(cells) != len(header):
            fix = f"leave out columns that may hold '|', as with {_COMMAND}"
            fix = "it is cut off: save the file again, or leave this row out" if len(cells) < len(header) else fix
            raise InvalidInstance(
                f"{name}, line {number}: the row has {len(cells)} cells where the header has {len(header)}; {fix}"
            )
        rows.append([cell.strip() for cell in cells])
    columns: dict[str, Any] = {column: [row[k] for row in rows] for k, column in enumerate(header)}
    return InputTable(name, columns, len(rows), [number for number, _ in lines[1:]])


_COMMAND = "sacct -P -X -o JobID,User,Account,State,Submit,Start,End,Elapsed,Timelimit,NNodes,ReqTRES"
_NO_LIMIT = {"UNLIMITED", "Partition_Limit", "INVALID", *_NEVER}


def _same_zones(table: InputTable, columns: Mapping[str, Any]) -> None:
    """Raise an error if times have a zone in one column and none in another."""
    seen: dict[bool, str] = {}
    for column in ("Submit", "Start", "End"):
        cell = next((one for one in columns.get(column, ()) if one not in _NEVER), "")
        if cell:
            seen.setdefault(bool(re.search(r"(Z|[+-]\d\d:?\d\d)$", cell)), column)
    if len(seen) > 1:
        raise InvalidInstance(
            f"{table.path}: times of the column {seen[True]!r} have time zones, and those of {seen[False]!r} none; "
            "give all of them zones, or none"
        )


def _lasted(table: InputTable, column: str, raw: float) -> list[float]:
    """Durations in seconds; NaN where there is none, as for ``UNLIMITED``. ``raw`` is the unit of the raw column."""
    name = column if column in table.columns else f"{column}Raw"
    out, fix = list[float](), "a time such as 1-02:30:00" if name == column else "a whole number"
    for row, cell in enumerate(table.columns.get(name, [""] * len(table))):
        seconds = duration_seconds(cell) if name == column else None
        if name != column and re.fullmatch(r"\d{1,12}", cell):
            seconds = float(cell) * raw
        if seconds is None and cell not in _NO_LIMIT:
            table.refuse(row, name, f"{short(cell)} is no time; give {fix}, or UNLIMITED for no limit")
        out.append(math.nan if seconds is None else seconds)
    return out


# -- sacct --json ---------------------------------------------------------------------------------------------


class _Resources(Part):
    requested: list[Trackable] = Field(default_factory=list)
    allocated: list[Trackable] = Field(default_factory=list)


class _Times(Part):
    submission: Whole = None
    start: Whole = None
    end: Whole = None
    elapsed: Whole = None
    limit: Whole = None


class _State(Part):
    current: States = Field(default_factory=set)


class _Heterogeneous(Part):
    job_id: Whole = None


class _Job(Part):
    job_id: Whole = None
    partition: Text = ""
    qos: Text = ""
    het: _Heterogeneous = Field(default_factory=_Heterogeneous)
    user: Text = ""
    account: Text = ""
    allocation_nodes: Whole = None
    state: _State = Field(default_factory=_State)
    time: _Times = Field(default_factory=_Times)
    tres: _Resources = Field(default_factory=_Resources)


def _of_json(path: str | os.PathLike[str], name: str) -> Iterator[_Record]:
    entries = read_json_text(path, _EXPECTED).get("jobs")
    if not isinstance(entries, list):
        problem = "no list 'jobs'" if entries is None else f"'jobs' that is {shown(entries)}, not a list"
        raise InvalidInstance(f"{name} has {problem}; {_EXPECTED}, or a CSV table of jobs")
    for k, entry in enumerate(steps(entries, f"jobs of {os.path.basename(name)}", len(entries))):
        number = entry.get("job_id") if isinstance(entry, Mapping) else None
        job = checked(_Job, entry, name, f"jobs[{k}]" + (f" (job {shown_key(str(number))})" if number else ""))
        requested, allocated = tres_of_list(job.tres.requested), tres_of_list(job.tres.allocated)
        amounts = requested if requested.plain or requested.total else allocated
        times = job.time
        lasted = times.elapsed or max((times.end or 0) - (times.start or times.end or 0), 0)
        yield _Record(
            str(job.job_id) if job.job_id is not None else f"number {k + 1} of the list",
            job.user,
            job.account,
            job.state.current,
            math.nan if not times.submission else float(times.submission),
            float(lasted),
            math.nan if not times.limit else times.limit * 60.0,
            max(job.allocation_nodes or int(amounts.plain.get("node", 0)), 1),
            amounts,
            {key: value for key, value in (("partition", job.partition), ("qos", job.qos)) if value},
            str(job.het.job_id) if job.het.job_id else None,
        )


def duration_seconds(text: str) -> float | None:
    """A duration ``[[days-]hours:]minutes:seconds`` in seconds; None for other text.

    Examples
    --------
    >>> duration_seconds("1-02:00:30"), duration_seconds("05:00"), duration_seconds("UNLIMITED")
    (93630.0, 300.0, None)
    """
    match = _LASTS.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
