"""Tables of simulations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import part_of_capacity
from fairopt.io.notes import counted
from fairopt.io.saving import write_whole
from fairopt.online.frames import by_task
from fairopt.online.timeline import Timeline
from fairopt.report.frames import csv_lines
from fairopt.report.tables import Column, Table, numbers, percents, shortened

__all__ = ["timeline_data", "timeline_remarks", "timelines_table", "write_tasks"]

Float = NDArray[np.float64]


def timelines_table(runs: Mapping[str, Timeline]) -> Table:
    """A row per run: tasks, waiting, slowdown, utilisation and distance from the fair share."""
    found: list[dict[str, Any]] = [run.summary() for run in runs.values()]
    first = next(iter(runs.values()))
    title = f"{counted(len(first.jobs), 'job')} of {counted(len(first.users), 'user')} on "
    title += counted(len(first.servers), "server")
    late = any(f["unstarted"] for f in found)
    tasks = [f"{f['tasks']:,}" + f" of {f['tasks'] + f['unstarted']:,}" * late for f in found]
    groups = [[Column("tasks", tasks), Column("makespan", numbers([f["makespan"] for f in found]))]]
    for name in ("waiting", "slowdown"):
        mean, high = ([f[name][key] for f in found] for key in ("mean", "p95"))
        groups.append([Column(name, numbers(mean)), Column("p95", numbers(high))])
    used = [_use_under_load(run) for run in runs.values()]
    groups.append([Column(r, percents(u[i] for u in used)) for i, r in enumerate(shortened(first.resources))])
    if any(len(run.fair_at) for run in runs.values()):
        groups.append([Column("distance", percents(f["distance"]["mean"] for f in found))])
    return Table(title, Column("policy", list(runs), right=False), groups)


def timeline_remarks(runs: Mapping[str, Timeline]) -> Iterator[str]:
    """Lines below the table: the meaning of the columns, and errors."""
    yield (
        "Means and 95th percentiles (p95). waiting: from the arrival of a task to its start; slowdown: from the "
        "arrival of a job to its end, divided by the duration of one task; percentages: utilisation from the first "
        "arrival to the last start. Times are in the unit of the jobs."
    )
    moments = max(len(run.fair_at) for run in runs.values())
    if moments:
        yield (
            "distance: fraction of the fair shares that users lack, where fair shares are the divisible optimum of "
            f"the same notion for the users present; mean over {counted(moments, 'time')} up to the last start."
        )
    for name, run in runs.items():
        errors = [error for error in run.fair_errors if error]
        if errors:
            yield f"{name}: no fair shares at {len(errors):,} of {len(run.fair_at):,} times: {errors[0]}"


def _use_under_load(run: Timeline) -> Float:
    """Mean utilisation from the first arrival to the last start; NaN if both are the same time."""
    first, last = run.table.arrival.min(initial=np.inf), run.start.max(initial=-np.inf)
    demands = run.table.demands[run.table.kind[run.task_job]]
    return part_of_capacity(
        (np.minimum(run.end, last) - run.start) @ demands, max(last - first, 0.0) * run.cluster.total_capacities
    )


def timeline_data(run: Timeline) -> dict[str, Any]:
    """`Timeline.summary` with the other numbers of the table."""
    used = dict(zip(run.resources, _use_under_load(run).tolist(), strict=True))
    return {**run.summary(), "utilisation_until_last_start": used, "interrupted": run.interrupted}


def write_tasks(run: Timeline, path: Path) -> None:
    """Write ``to_frame("task")`` as CSV."""
    columns = by_task(run)
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    write_whole(path, csv_lines(columns, rows))
