"""A timeline as data frames with a row per task, job, user, server or moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.errors import InvalidBlock, nearest
from fairopt.online.timeline import Timeline, moments_of
from fairopt.runtime.arrays import Float, Ints
from fairopt.runtime.lazy import pandas

if TYPE_CHECKING:
    import pandas as pd

JOB_ID = "JobID"  # a label of jobs


def frame(timeline: Timeline, by: str, times: ArrayLike | None) -> pd.DataFrame:
    """See `Timeline.to_frame`."""
    if by not in _VIEWS:
        raise InvalidBlock(f"no table by {by!r}; {nearest(by, _VIEWS)}")
    if times is not None and by != "time":
        raise InvalidBlock(f"times belong to the table by 'time', not to that by {by!r}; leave them out")
    columns = _by_time(timeline, times) if by == "time" else _VIEWS[by](timeline)
    return pandas().DataFrame(columns).set_index(by)


def by_task(timeline: Timeline) -> dict[str, Any]:
    """Columns by task that started; see `Timeline.to_frame`."""
    table, job = timeline.table, timeline.task_job
    return {
        "task": np.arange(len(job)),
        "job": job,
        "user": _names(timeline.users, table.user[job]),
        "server": _names(timeline.servers, timeline.task_server),
        "arrival": table.arrival[job],
        "start": timeline.start,
        "end": timeline.end,
        "waiting": timeline.waiting,
        **{name: column[job] for name, column in _of_jobs(timeline).items()},
    }


def _of_jobs(timeline: Timeline) -> dict[str, Any]:
    """Columns by job of what its file calls it, and of its team, where jobs have them."""
    columns = {
        JOB_ID: [(job.labels or {}).get(JOB_ID, "") for job in timeline.jobs],
        "team": [job.team or "" for job in timeline.jobs],
    }
    return {name: np.array(of, dtype=object) for name, of in columns.items() if any(of)}


def _by_job(timeline: Timeline) -> dict[str, Any]:
    table, n = timeline.table, len(timeline.jobs)
    first, last, most = np.full((3, n), np.nan)
    np.fmin.at(first, timeline.task_job, timeline.start)
    np.fmax.at(last, timeline.task_job, timeline.end)
    np.fmax.at(most, timeline.task_job, timeline.waiting)
    return {
        "job": np.arange(n),
        "user": _names(timeline.users, table.user),
        "tasks": table.tasks,
        "not started": timeline.unstarted,
        "arrival": table.arrival,
        "first start": first,
        "last end": last,
        "mean waiting": _means(timeline.waiting, timeline.task_job, n),
        "longest waiting": most,
        "completion": timeline.completion,
        "slowdown": timeline.slowdown,
        **_of_jobs(timeline),
    }


def _by_user(timeline: Timeline) -> dict[str, Any]:
    table, n = timeline.table, len(timeline.users)
    of_task, length = table.user[timeline.task_job], timeline.end - timeline.start
    done = np.flatnonzero(timeline.unstarted == 0)
    begun, ended = timeline.span
    held = np.bincount(of_task, timeline.share_per_task[table.kind[timeline.task_job]] * length, minlength=n)
    return {
        "user": timeline.users,
        "weight": table.weights,
        "tasks": np.bincount(of_task, minlength=n),
        "not started": np.bincount(table.user, timeline.unstarted, minlength=n).astype(np.int64),
        "task time": np.bincount(of_task, length, minlength=n),
        "mean waiting": _means(timeline.waiting, of_task, n),
        **_spreads(timeline, "user"),
        "mean completion": _means(timeline.completion[done], table.user[done], n),
        "mean slowdown": _means(timeline.slowdown[done], table.user[done], n),
        "mean share": held / (ended - begun) if ended > begun else np.full(n, np.nan),
        **({"mean shortfall": timeline.shortfalls().mean(axis=0)} if len(timeline.fair_at) else {}),
    }


def _by_team(timeline: Timeline) -> dict[str, Any]:
    waits = timeline.waits("team")
    return {
        "team": list(waits),
        "tasks": [one["tasks"] for one in waits.values()],
        "not started": [one["unstarted"] for one in waits.values()],
        "mean waiting": [one["waiting"]["mean"] for one in waits.values()],
        **_spreads(timeline, "team"),
    }


def _spreads(timeline: Timeline, by: str) -> dict[str, Any]:
    """Columns of `Timeline.waits`."""
    waits = timeline.waits(by).values()
    return {
        "p95 waiting": [one["waiting"]["p95"] for one in waits],
        "longest waiting": [one["waiting"]["max"] for one in waits],
        "mean bounded slowdown": [one["bounded_slowdown"]["mean"] for one in waits],
        "p95 bounded slowdown": [one["bounded_slowdown"]["p95"] for one in waits],
    }


def _by_server(timeline: Timeline) -> dict[str, Any]:
    used = timeline.mean_utilisation()
    return {
        "server": timeline.servers,
        **({} if timeline.server_types is None else {"type": timeline.server_types}),
        "tasks": np.bincount(timeline.task_server, minlength=len(timeline.servers)),
        **{f"used {name}": used[:, i] for i, name in enumerate(timeline.resources)},
    }


def _by_time(timeline: Timeline, times: ArrayLike | None = None) -> dict[str, Any]:
    table, start, end = timeline.table, timeline.start, timeline.end
    if times is None:
        known = np.unique(np.concatenate([table.arrival, start, end, timeline.fair_at]))
        times = known[known < timeline.until]
    moments = moments_of(times, "times")
    order = np.argsort(table.arrival)
    arrived = np.append(0, table.tasks[order].cumsum())[np.searchsorted(table.arrival[order], moments, "right")]
    started, ended = (np.searchsorted(when, moments, "right") for when in (start, np.sort(end)))
    shares, used = timeline.shares(moments), timeline.utilisation(moments)
    distance = dict(zip(timeline.fair_at.tolist(), timeline.distance().tolist(), strict=True))
    return {
        "time": moments,
        **{f"share of {name}": shares[:, j] for j, name in enumerate(timeline.users)},
        **{f"used {name}": used[:, i] for i, name in enumerate(timeline.resources)},
        "running": started - ended,
        "waiting": arrived - started,
        **({"distance": [distance.get(t, np.nan) for t in moments.tolist()]} if distance else {}),
    }


_VIEWS: dict[str, Callable[[Timeline], dict[str, Any]]] = {
    "task": by_task,
    "job": _by_job,
    "user": _by_user,
    "team": _by_team,
    "server": _by_server,
    "time": _by_time,
}


def _names(labels: tuple[str, ...], index: Ints) -> Any:
    return np.array(labels, dtype=object)[index]


def _means(values: Float, group: Ints, n: int) -> Float:
    """The mean of each group, NaN for empty ones."""
    many = np.bincount(group, minlength=n)
    return np.divide(np.bincount(group, values, minlength=n), many, out=np.full(n, np.nan), where=many > 0)
