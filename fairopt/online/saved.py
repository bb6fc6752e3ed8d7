"""Timelines as JSON files; nothing in a file is executed, and loading simulates its events again."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import FairoptError, InvalidInstance
from fairopt.instance import Instance
from fairopt.io.json_file import arguments_of_data
from fairopt.io.json_text import checked, read_json_text
from fairopt.io.saving import write_whole
from fairopt.online.jobs import Job
from fairopt.online.simulation import simulate
from fairopt.online.timeline import Timeline
from fairopt.policies.parse import parse_block

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Part = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Index = Annotated[int, Field(ge=0)]
_Long = Field(fail_fast=True)  # each fault takes 1 kB


def _text(time: Any) -> Any:
    """A time for JSON; fractions and infinity are text."""
    return f"{time.numerator}/{time.denominator}" if isinstance(time, Fraction) else "inf" if time == math.inf else time


def _time(given: Any) -> Any:
    """A time from `_text`."""
    try:
        if given == "inf":
            return math.inf
        return Fraction(*map(int, given.split("/"))) if isinstance(given, str) else given
    except (ValueError, TypeError, ZeroDivisionError):
        raise ValueError("give a number, or a fraction as '1/3'") from None


_Time = Annotated[Any, AfterValidator(_time)]


class _Job(BaseModel):
    """A job, whose numbers `Job` checks; ``eligible`` is an index into ``places``."""

    model_config = ConfigDict(strict=True, extra="forbid")

    user: str
    demands: Any
    duration: _Time
    tasks: Any
    arrival: _Time
    weight: Any
    eligible: _Index | None
    gang: Any = False
    limit: _Time = None
    team: Any = None
    together: Any = None
    labels: Any = None


class _File(BaseModel):
    """A timeline."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal["fairopt.timeline/1"]
    name: str
    share: str
    cluster: dict[str, Any]
    places: list[list[str] | list[bool]]
    jobs: Annotated[list[_Job], _Long]
    share_per_task: list[_Part]
    task_job: Annotated[list[_Index], _Long]
    task_server: Annotated[list[_Index], _Long]
    start: Annotated[list[_Finite], _Long]
    end: Annotated[list[_Finite], _Long]
    fair_at: list[_Finite]
    fair_shares: list[list[_Part] | None]
    fair_errors: list[str | None]
    until: _Finite | None
    interrupted: bool
    time_unit: str | None = None


def save(timeline: Timeline, path: Path) -> Path:
    """See `Timeline.save`."""
    if path.suffix.lower() != ".json":
        raise InvalidInstance(f"cannot write {path}; give a name that ends in .json, or use to_frame().to_csv()")
    places = {place: k for k, place in enumerate(dict.fromkeys(job.eligible for job in timeline.jobs if job.eligible))}
    data = {
        "format": "fairopt.timeline/1",
        "name": timeline.name,
        "share": timeline.share if isinstance(timeline.share, str) else repr(timeline.share),
        "cluster": timeline.cluster.to_dict(),
        "places": list(map(list, places)),
        "jobs": [
            asdict(job)
            | {key: _text(getattr(job, key)) for key in ("duration", "arrival", "limit")}
            | {"eligible": places.get(job.eligible)}
            for job in timeline.jobs
        ],
        **{
            key: getattr(timeline, key).tolist()
            for key in ("share_per_task", "task_job", "task_server", "start", "end", "fair_at")
        },
        "fair_shares": [None if np.isnan(row).any() else row.tolist() for row in timeline.fair_shares],
        "fair_errors": timeline.fair_errors,
        "until": timeline.until if math.isfinite(timeline.until) else None,
        "interrupted": timeline.interrupted,
        "time_unit": timeline.time_unit,
    }
    write_whole(path, json.dumps(data, allow_nan=False) + "\n")
    return path


def load(path: Path) -> Timeline:
    """See `Timeline.load`."""
    data = checked(_File, read_json_text(path, "expected a file that Timeline.save made"), str(path))
    share = _share(data.share)
    try:
        if not len(data.task_job) == len(data.task_server) == len(data.start):
            raise InvalidInstance("task_job, task_server and start differ in length")
        cluster = Instance(**arguments_of_data(data.cluster, "cluster").values)
        jobs = [_job(one, data.places) for one in data.jobs]
        measured = share if isinstance(share, Share) else DominantShare()
        saved = _Saved(data, jobs, cluster.servers)
        again = simulate(cluster, jobs, measured, scheduler=saved, name=data.name, time_unit=data.time_unit)
        return _joined(data, again, share)
    except FairoptError as error:
        raise InvalidInstance(f"{path}: {error}; the file was changed after it was saved") from error


def _job(given: _Job, places: list[list[str] | list[bool]]) -> Job:
    if given.eligible is not None and given.eligible >= len(places):
        raise InvalidInstance(f"eligible of a job is {given.eligible}, and there are {len(places)} places")
    return Job(**(dict(given) | {"eligible": None if given.eligible is None else places[given.eligible]}))


class _Task(NamedTuple):
    job: int
    server: str


class _Saved:
    """A scheduler that replays the starts of a file."""

    name = "the saved run"

    def __init__(self, data: _File, jobs: list[Job], servers: tuple[str, ...]) -> None:
        self.jobs = iter(sorted(range(len(jobs)), key=lambda k: jobs[k].arrival))  # as `simulate` submits them
        self.tasks = list(zip(data.start, data.task_job, data.task_server, strict=True))[::-1]
        self.servers = servers

    def submit(self, *job: Any, weight: float, eligible: Any, gang: bool, together: Any) -> int:
        return next(self.jobs)

    def next_task(self, at: float) -> _Task | None:
        if not self.tasks or self.tasks[-1][0] > float(at):
            return None
        _, job, server = self.tasks.pop()
        return _Task(job, self.servers[server] if server < len(self.servers) else str(server))

    def finish(self, task: _Task) -> None:
        pass


def _joined(data: _File, again: Timeline, share: Share | str) -> Timeline:
    """The timeline of a file, which must agree with its replay."""
    users, fair = len(again.users), data.fair_shares
    for key in ("start", "end", "share_per_task"):
        given, computed = np.array(getattr(data, key), dtype=float), getattr(again, key)
        if given.shape != computed.shape:
            raise InvalidInstance(f"{key} has {len(given)} entries, and {len(computed)} follow from the jobs")
        known = key != "share_per_task" or isinstance(share, Share)
        for k in np.flatnonzero(given != computed) if known else ():
            raise InvalidInstance(f"{key}[{k}] is {given[k]:.12g}, and {computed[k]:.12g} follows from the jobs")
    if not len(data.fair_at) == len(fair) == len(data.fair_errors) or any(row and len(row) != users for row in fair):
        raise InvalidInstance(f"fair_shares does not have a row for {users} users at each moment of fair_at")
    rows = [[math.nan] * users if row is None else row for row in fair]
    return replace(
        again,
        share=share,
        share_per_task=np.array(data.share_per_task),
        fair_at=np.array(data.fair_at, dtype=float),
        fair_shares=np.array(rows, dtype=float).reshape(len(rows), users),
        fair_errors=tuple(data.fair_errors),
        until=math.inf if data.until is None else data.until,
        interrupted=data.interrupted,
    )


def _share(text: str) -> Share | str:
    """The share of a repr, or the text itself if it is not one of fairopt's blocks."""
    try:
        share: Share = parse_block(text, Share, "a share", "DominantShare()")
    except FairoptError:
        return text
    return share
