"""Timelines as JSON files; nothing in a file is executed, and numbers that contradict each other are refused."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fairopt.blocks.objectives import Leximin
from fairopt.blocks.shares import Share
from fairopt.certificate import VIOLATION_TOLERANCE
from fairopt.errors import FairoptError, InvalidInstance
from fairopt.instance import Instance
from fairopt.io.json_file import arguments_of_data
from fairopt.io.json_text import checked, read_json_text
from fairopt.io.saving import replacing
from fairopt.online.jobs import Job, JobTable, coefficients, table_of
from fairopt.online.timeline import Timeline
from fairopt.policies.parse import parse_policy

__all__ = ["load", "save"]

FORMAT = "fairopt.timeline/1"
EXPECTED = "expected a file that Timeline.save made"
SAME = 1e-9  # relative: sums of times and of units in another order

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Index = Annotated[int, Field(ge=0)]


class _Job(BaseModel):
    """A job; ``eligible`` is the number of a list of places."""

    model_config = ConfigDict(strict=True, extra="forbid")

    user: str
    demands: list[_Finite] | dict[str, _Finite]
    duration: _Finite
    tasks: int
    arrival: _Finite
    weight: _Finite
    eligible: _Index | None


class _File(BaseModel):
    """A timeline."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal["fairopt.timeline/1"]
    name: str
    share: str
    cluster: dict[str, Any]
    places: list[list[str] | list[bool]]
    jobs: Annotated[list[_Job], Field(fail_fast=True)]
    share_per_task: list[_Finite]
    task_job: Annotated[list[_Index], Field(fail_fast=True)]
    task_server: Annotated[list[_Index], Field(fail_fast=True)]
    start: Annotated[list[_Finite], Field(fail_fast=True)]
    end: Annotated[list[_Finite], Field(fail_fast=True)]
    fair_at: list[_Finite]
    fair_shares: list[list[_Finite] | None]
    fair_errors: list[str | None]
    until: _Finite | None
    interrupted: bool


def save(timeline: Timeline, path: Path) -> Path:
    """See `Timeline.save`."""
    if path.suffix.lower() != ".json":
        raise InvalidInstance(f"cannot write {path}; give a name that ends in .json, or use to_frame().to_csv()")
    places: dict[Any, int] = {None: -1}
    jobs = []
    for job in timeline.jobs:
        place = places.setdefault(job.eligible, len(places) - 1)
        times = {"duration": float(job.duration), "arrival": float(job.arrival)}
        jobs.append(asdict(job) | times | {"eligible": None if place < 0 else place})
    fair = [None if np.isnan(row).any() else row.tolist() for row in timeline.fair_shares]
    data = {
        "format": FORMAT, "name": timeline.name,
        "share": timeline.share if isinstance(timeline.share, str) else repr(timeline.share),
        "cluster": timeline.cluster.to_dict(), "places": [list(place) for place in places if place is not None],
        "jobs": jobs, "share_per_task": timeline.share_per_task.tolist(),
        **{key: getattr(timeline, key).tolist() for key in ("task_job", "task_server", "start", "end", "fair_at")},
        "fair_shares": fair, "fair_errors": list(timeline.fair_errors),
        "until": timeline.until if math.isfinite(timeline.until) else None, "interrupted": timeline.interrupted,
    }  # fmt: skip
    with replacing([path]) as (part,):
        part.write_text(json.dumps(data, allow_nan=False) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> Timeline:
    """See `Timeline.load`."""
    name = str(path)
    data = checked(_File, read_json_text(path, EXPECTED), name)
    try:
        cluster = Instance(**arguments_of_data(data.cluster, "cluster").values)
        table = table_of([_job(one, data.places) for one in data.jobs], cluster)
        timeline = _timeline(data, cluster, table)
        fault = _fault(timeline)
    except (FairoptError, ArithmeticError, IndexError) as error:
        raise InvalidInstance(f"{name}: {error}") from error
    if fault is not None:
        raise InvalidInstance(f"{name}: {fault}; the file was changed after it was saved, so save it again")
    return timeline


def _job(given: _Job, places: list[list[str] | list[bool]]) -> Job:
    values = given.model_dump()
    if given.eligible is not None:
        values["eligible"] = places[given.eligible]
    return Job(**values)


def _share(text: str) -> Share | str:
    """The share of a repr, or the text itself where that is not of fairopt's blocks."""
    try:
        objective = parse_policy(f"Leximin({text})").objective
    except FairoptError:
        return text
    return objective.share if isinstance(objective, Leximin) else text


def _timeline(data: _File, cluster: Instance, table: JobTable) -> Timeline:
    """The timeline in a file, its arrays of equal length."""
    n, k = len(data.task_job), len(data.fair_at)
    for key, size in (("task_server", n), ("start", n), ("end", n), ("fair_shares", k), ("fair_errors", k),
                      ("share_per_task", len(table.demands))):  # fmt: skip
        if len(getattr(data, key)) != size:
            raise InvalidInstance(f"{key} has {len(getattr(data, key))} entries where {size} are due; save it again")
    if any(row is not None and len(row) != len(table.users) for row in data.fair_shares):
        raise InvalidInstance(f"fair_shares has a row that is not of {len(table.users)} users; save it again")
    nothing = [math.nan] * len(table.users)
    fair = [nothing if row is None else row for row in data.fair_shares]
    return Timeline(
        cluster, table, _share(data.share), np.array(data.share_per_task, dtype=float),
        np.array(data.task_job, dtype=np.int64), np.array(data.task_server, dtype=np.int64),
        np.array(data.start, dtype=float), np.array(data.end, dtype=float), np.array(data.fair_at, dtype=float),
        np.array(fair, dtype=float).reshape(k, len(table.users)), tuple(data.fair_errors),
        math.inf if data.until is None else data.until, data.interrupted, data.name,
    )  # fmt: skip


def _fault(timeline: Timeline) -> str | None:
    """The first contradiction, or None."""
    table, job, server = timeline.table, timeline.task_job, timeline.task_server
    start, end = timeline.start, timeline.end
    for key, index, size in (("job", job, len(table.jobs)), ("server", server, len(timeline.servers))):
        if (index >= size).any():
            return f"there is no {key} {index.max()}, of {size}"
    due = start + table.duration[job]
    for wrong, words in (
        (np.diff(start, prepend=-np.inf) < 0, "starts before the one ahead of it"),
        (start < table.arrival[job], "starts before its job arrives"),
        (end < start, "ends before it starts"),
        (np.abs(end - due) > SAME * np.maximum(np.abs(due), np.abs(start)), "does not end after its duration"),
        (~table.eligible[table.kind[job], server], "runs where its job may not"),
    ):
        if wrong.any():
            return f"task {np.flatnonzero(wrong)[0]} {words}"
    if (timeline.unstarted < 0).any():
        k = int(np.flatnonzero(timeline.unstarted < 0)[0])
        return f"job {k} has more tasks started than its {table.tasks[k]}"
    over = _over_capacity(timeline)
    if over is not None:
        return over
    if isinstance(timeline.share, Share):
        again = coefficients(table, timeline.cluster, timeline.share)
        if not np.allclose(again, timeline.share_per_task, rtol=SAME, atol=0.0):
            return f"share_per_task is not that of {timeline.share!r}"
    elif (timeline.share_per_task <= 0).any():
        return "share_per_task holds numbers that are not positive"
    if (timeline.fair_shares < 0).any():
        return "fair_shares holds negative numbers"
    return None


def _over_capacity(timeline: Timeline) -> str | None:
    """A server with tasks beyond its capacity, or None."""
    n = len(timeline.start)
    kind = timeline.table.kind[timeline.task_job]
    server = np.tile(timeline.task_server, 2)
    ends = np.repeat([0, 1], n)
    moments = np.where(ends == 1, np.tile(timeline.end, 2), np.tile(timeline.start, 2))
    order = np.lexsort((1 - ends, moments, server))  # by server, in order of time, ends first
    server, sign = server[order], np.where(ends == 1, -1.0, 1.0)[order]
    for i, resource in enumerate(timeline.resources):
        needed = timeline.table.demands[kind, i]
        room = timeline.capacities[timeline.task_server, i]
        part = np.divide(needed, room, out=np.zeros(n), where=room > 0)  # demands of what is not there: not eligible
        used = (sign * np.tile(part, 2)[order]).cumsum()
        if (used > 1 + SAME + VIOLATION_TOLERANCE).any():
            k = int(np.flatnonzero(used > 1 + SAME + VIOLATION_TOLERANCE)[0])
            name, when = timeline.servers[server[k]], moments[order][k]
            return f"server {name!r} has tasks beyond its capacity of {resource} at {when:g}"
    return None
