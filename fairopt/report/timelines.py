"""Tables of simulations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairopt.allocation import part_of_capacity
from fairopt.io.notes import counted
from fairopt.io.saving import write_whole
from fairopt.online import Service
from fairopt.online.frames import by_task
from fairopt.online.timeline import Timeline
from fairopt.online.units import NAMES, readable
from fairopt.report.frames import csv_lines
from fairopt.report.tables import Column, Table, both_ends, numbers, percents
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import shortened

COUNTED_ONLY = 1e-6  # utilisation below which a resource is only counted, as tokens are


def timelines_table(runs: Mapping[str, Timeline]) -> Table:
    """A row per run: tasks, waiting, slowdown, utilisation and distance from the fair share."""
    summaries: list[dict[str, Any]] = [run.summary() for run in runs.values()]
    first = next(iter(runs.values()))
    title = f"{counted(len(first.jobs), 'job')} of {counted(len(first.users), 'user')} on "
    title += counted(len(first.servers), "server")
    late = any(f["unstarted"] for f in summaries)
    tasks = [f"{f['tasks']:,}" + f" of {f['tasks'] + f['unstarted']:,}" * late for f in summaries]
    groups = [[Column("tasks", tasks), _times("makespan", [f["makespan"] for f in summaries], first)]]
    factor, unit = _unit(first, [f["waiting"]["p95"] for f in summaries])
    groups.append(_spread("waiting" + unit, [f["waiting"] for f in summaries], factor))
    groups.append(_spread("slowdown", [f["slowdown"] for f in summaries]))
    used = [_use_under_load(run) for run in runs.values()]
    shown = [i for i in range(len(first.resources)) if any(u[i] >= COUNTED_ONLY for u in used)]
    names = shortened(first.resources)
    groups.append([Column(names[i], percents(u[i] for u in used)) for i in shown or range(len(names))])
    if any(len(run.fair_at) for run in runs.values()):
        groups.append([Column("distance", percents(f["distance"]["mean"] for f in summaries))])
    return Table(title, Column("policy", list(runs), right=False), groups)


def waits_table(runs: Mapping[str, Timeline], threshold: float) -> Table | None:
    """Rows of teams, or without teams of users, by run: waiting and bounded slowdown. None for a single user.

    Of many, those that wait least and longest under the first run.
    """
    first = next(iter(runs.values()))
    by = "team" if first.teams else "user"
    if len(first.users) < 2:
        return None
    waits = {name: run.waits(by, threshold) for name, run in runs.items()}
    names = list(next(iter(waits.values())))
    means = np.array([next(iter(waits.values()))[name]["waiting"]["mean"] for name in names])
    chosen = [names[k] for k in both_ends(np.nan_to_num(means))]
    rows = [(name, run) for name in chosen for run in runs]
    one = [waits[run][name] for name, run in rows]
    late = any(f["unstarted"] for f in one)
    factor, unit = _unit(first, [f["waiting"]["p95"] for f in one])
    header = by if len(chosen) == len(names) else f"{by} ({len(chosen)} of {len(names):,})"
    labels = dict(zip(chosen, shortened(chosen), strict=True))
    groups = [
        [Column("policy", [run for _, run in rows], right=False)] * (len(runs) > 1),
        [Column("tasks", [f"{f['tasks']:,}" + f" of {f['tasks'] + f['unstarted']:,}" * late for f in one])],
        [
            *_spread("waiting" + unit, [f["waiting"] for f in one], factor),
            Column("longest", numbers([f["waiting"]["max"] / factor for f in one])),
        ],
        _spread("slowdown", [f["bounded_slowdown"] for f in one]),
    ]
    return Table(
        f"Waiting and bounded slowdown by {by}", Column(header, [labels[name] for name, _ in rows], right=False), groups
    )


def timeline_remarks(runs: Mapping[str, Timeline], threshold: float) -> Iterator[str]:
    """Lines below the tables: who waits longest, the meaning of the columns, and errors."""
    for name, run in runs.items():
        worst = run.summary()["worst"]
        if worst is not None and len(run.users) > 1:
            by = next(iter(worst))
            mean, high = worst["waiting"]["mean"], worst["waiting"]["max"]
            if not high:
                yield f"{name}: no task waits"
                continue
            all_of = run.summary()["waiting"]["mean"]
            factor, unit = readable(run.time_unit, mean)
            shown = [f"{time / factor:,.4g} {unit}".strip() for time in (mean, high, all_of)]
            yield (
                f"{name}: the {by} {shortened([worst[by]])[0]!r} waits longest, {shown[0]} on average and up to "
                f"{shown[1]} (all: {shown[2]})"
            )
    time_unit = next(iter(runs.values())).time_unit
    unit = "the unit of the jobs" if time_unit is None else f"{NAMES[time_unit]} unless a column names its unit"
    yield (
        "Means and 95th percentiles (p95). waiting: from the arrival of a task, or of a gang, which counts once, to "
        "its start; slowdown: from the arrival of a job to its end, divided by the duration of one task (bounded "
        f"slowdown: with durations below {threshold:g} counted as {threshold:g}); percentages: utilisation from the "
        "first arrival to the last start. "
        f"Times are in {unit}."
    )
    moments = max(len(run.fair_at) for run in runs.values())
    if moments:
        yield (
            "distance: fraction of the fair shares that users lack; these are the divisible optimum for the users "
            "present under the share that the policy compares (for hdrf, fcfs and easy under that of DRF); mean over "
            f"{counted(moments, 'time')} up to the last start."
        )
    for name, run in runs.items():
        errors = [error for error in run.fair_errors if error]
        if errors:
            yield f"{name}: no fair shares at {len(errors):,} of {len(run.fair_at):,} times: {errors[0]}"


def _unit(run: Timeline, times: Sequence[float]) -> tuple[float, str]:
    """What to divide times of a column by, and the end of its header."""
    finite = [time for time in times if np.isfinite(time)]
    factor, name = readable(run.time_unit, max(finite, default=0.0))
    return factor, f" ({name})" if name else ""


def _spread(header: str, rows: Sequence[Mapping[str, float]], factor: float = 1.0) -> list[Column]:
    """Columns of means and of 95th percentiles."""
    keys = {header: "mean", "p95": "p95"}
    return [Column(name, numbers([row[key] / factor for row in rows])) for name, key in keys.items()]


def _times(header: str, times: Sequence[float], run: Timeline) -> Column:
    """A column of times in a readable unit."""
    factor, unit = _unit(run, times)
    return Column(header + unit, numbers([time / factor for time in times]))


def _use_under_load(run: Timeline) -> Float:
    """Mean utilisation from the first arrival to the last start; NaN if both are the same time."""
    first, last = run.table.arrival.min(initial=np.inf), run.start.max(initial=-np.inf)
    demands = run.table.demands[run.table.kind[run.task_job]]
    return part_of_capacity(
        (np.minimum(run.end, last) - run.start) @ demands, max(last - first, 0.0) * run.cluster.total_capacities
    )


def services_table(services: Mapping[str, Service]) -> Table:
    """A row per run: service, its largest gap, and Jain's index by window; then the service of users."""
    of = list(services.values())
    first = of[0]
    index = [one.jain[np.isfinite(one.jain)] for one in of]
    groups = [
        [Column("total", numbers([one.served.sum() for one in of]))],
        [
            Column("largest gap", numbers([one.gap for one in of])),
            Column("VTC's bound", numbers([one.bound for one in of])),
        ],
        [
            Column("Jain", numbers([values.mean() if len(values) else np.nan for values in index])),
            Column("worst", numbers([values.min(initial=np.inf) if len(values) else np.nan for values in index])),
        ],
    ]
    shown = both_ends(np.array([*first.total.values()]))
    names = shortened([first.users[j] for j in shown])
    groups.append(
        [Column(name, numbers([one.served[:, j].sum() for one in of])) for name, j in zip(names, shown, strict=True)]
    )
    title = f"Service per weight, in {counted(len(first.jain), 'window')} of {first.edges[1] - first.edges[0]:.6g}"
    return Table(title, Column("policy", list(services), right=False), groups)


def service_data(of: Service) -> dict[str, Any]:
    """The numbers of a `Service`, for JSON."""
    return {
        "total": of.total,
        "largest_gap": of.gap,
        "bound": of.bound,
        "edges": of.edges.tolist(),
        "jain": of.jain.tolist(),
        "served": dict(zip(of.users, of.served.T.tolist(), strict=True)),
    }


def timeline_data(run: Timeline, threshold: float, service: Service | None = None) -> dict[str, Any]:
    """`Timeline.summary` with the other numbers of the tables."""
    used = dict(zip(run.resources, _use_under_load(run).tolist(), strict=True))
    return {
        **run.summary(),
        "utilisation_until_last_start": used,
        "teams": run.waits("team", threshold) if run.teams else {},
        "users": run.waits("user", threshold),
        "slowdown_threshold": threshold,
        "time_unit": run.time_unit,
        "interrupted": run.interrupted,
        **({} if service is None else {"service": service_data(service)}),
    }


def write_tasks(run: Timeline, path: Path) -> None:
    """Write ``to_frame("task")`` as CSV."""
    columns = by_task(run)
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    write_whole(path, csv_lines(columns, rows))
