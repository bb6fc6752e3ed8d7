"""The openb trace replayed task by task: DRF, 2-DF and first come, first served, with real arrivals and placement.

The trace is of a cluster with room to spare (a third of a percent of its GPUs on average), so there is contention only
on a part of the servers and with arrivals pushed together: every tenth server of each type, and all arrival times
divided by 300, durations as they are, unless asked otherwise. Contention is the part of the time, from the arrival of
the first hundredth of the tasks to the last arrival, in which more than 90% of GPUs are in use. What is measured over
time is measured in that window, since a few tasks run for months. Users are request shapes, then qualities of service.

`FCFS` starts the first task in line that fits; `FCFS, no skipping` starts nothing before the first in line fits.
Distances from the fair share are measured for every run in dominant and in 2-dominant shares. Run:

    python benchmarks/openb_replay.py [--openb ../shared/data/openb] [--every 10 --compress 300 --moments 30]

Pictures and tables (JSON) go to benchmarks/out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import fairopt_clusters as fc
import numpy as np
from common import OUT, arguments, show
from numpy.typing import NDArray

import fairopt as fo
from fairopt.plots.timeline import draw_timelines

OPENB = Path(__file__).parents[1] / ".." / "shared" / "data" / "openb"
PODS = "gpuspec33"  # the list with placement constraints: a third of the GPU tasks name types of GPU
DRF, TWO_DF = fo.DominantShare(), fo.KDominantShare(2)
POLICIES: Mapping[str, tuple[fo.Share, dict[str, Any]]] = {
    "DRF": (DRF, {}),
    "2-DF": (TWO_DF, {}),
    "FCFS": (DRF, {"order": "arrival"}),
    "FCFS, no skipping": (DRF, {"order": "arrival", "on_misfit": "stop"}),
}
FULL = 0.9  # of the GPUs in use: contention
FREQUENT = 5  # users with the most tasks, whose waiting is told apart

Float = NDArray[np.floating[Any]]


def part_of(cluster: fo.Instance, every: int) -> fo.Instance:
    """Every so many servers of each type."""
    types = np.array(cluster.server_types)
    rows = np.sort(np.concatenate([np.flatnonzero(types == kind)[::every] for kind in np.unique(types)]))
    return fo.Instance(
        [],
        cluster.capacities[rows],
        resources=cluster.resources,
        servers=[cluster.servers[r] for r in rows],
        server_types=types[rows].tolist(),
    )


def replayed(
    cluster: fo.Instance, jobs: Any, moments: Float
) -> Iterator[tuple[str, fo.online.Timeline, fo.online.Timeline, float]]:
    """Each policy's run, measured in dominant and in 2-dominant shares, and the CPU seconds of one simulation."""
    for name, (share, options) in POLICIES.items():
        seconds, runs = [], []
        for measured in (DRF, TWO_DF):
            scheduler = fo.Scheduler(cluster, share, **options)
            start = time.process_time()
            run = fo.simulate(cluster, jobs, measured, scheduler=scheduler, name=name)
            seconds.append(time.process_time() - start)
            runs.append(run.with_fair_at(moments))
        assert (runs[0].start == runs[1].start).all() and not any((*runs[0].fair_errors, *runs[1].fair_errors))
        yield name, *runs, min(seconds)


def in_window(run: fo.online.Timeline, window: tuple[float, float]) -> tuple[Float, float]:
    """Mean part of each resource in use, and the part of the time in which GPUs are ``FULL``."""
    events = np.concatenate([run.start, run.end])
    at = np.unique(np.concatenate([window, events[(window[0] < events) & (events < window[1])]]))
    used, length = run.utilisation(at[:-1]), np.diff(at) / (window[1] - window[0])
    return length @ used, float(length @ (used[:, -1] > FULL))


def times(name: str, run: fo.online.Timeline, other: fo.online.Timeline, seconds: float) -> dict[str, Any]:
    """Waiting, slowdown, and when all is over; in seconds of the trace but for the last."""
    told = run.summary()
    wait, slow = told["waiting"], told["slowdown"]
    return {
        "policy": name,
        "waiting, mean": round(wait["mean"]),
        "median": round(wait["median"]),
        "95th": round(wait["p95"]),
        "slowdown, mean": slow["mean"],
        "median slowdown": slow["median"],
        "95th slowdown": slow["p95"],
        "last start": round(run.start.max()),
        "makespan": round(told["makespan"]),
        "CPU seconds": seconds,
    }


def use(name: str, run: fo.online.Timeline, other: fo.online.Timeline, window: tuple[float, float]) -> dict[str, Any]:
    """Percents in use in the window, and distances from the fair share."""
    used, full = in_window(run, window)
    far = {label: timeline.summary()["distance"] for label, timeline in (("DRF", run), ("2-DF", other))}
    return {
        "policy": name,
        "CPU": 100 * used[0],
        "memory": 100 * used[1],
        "GPU": 100 * used[2],
        "time with GPU > 90%": 100 * full,
        **{f"from {label}, {what}": 100 * far[label][what] for label in far for what in ("mean", "largest")},
    }


def waits(name: str, run: fo.online.Timeline) -> dict[str, Any]:
    """Mean waiting of tasks by how many tasks their user has, and by the GPUs they demand."""
    tasks = np.bincount(run.table.user, run.table.tasks)
    frequent = np.isin(run.table.user, np.argsort(-tasks)[:FREQUENT])[run.task_job]
    gpus = run.table.demands[run.table.kind[run.task_job], -1] / 1000
    groups = {
        f"{FREQUENT} most frequent users": frequent,
        "other users": ~frequent,
        "no GPU": gpus == 0,
        "part of a GPU": (gpus > 0) & (gpus < 1),
        "1 GPU": gpus == 1,
        "more": gpus > 1,
    }
    found = {
        f"{group} ({chosen.sum():,})": round(run.waiting[chosen].mean())
        for group, chosen in groups.items()
        if chosen.any()
    }
    users = np.bincount(run.table.user[run.task_job], run.waiting) / np.bincount(run.table.user[run.task_job])
    return {"policy": name, **found, "mean of users' means": round(users.mean())}


def experiment(folder: str, users: str, every: int, compress: float, moments: int) -> None:
    """All policies for one notion of a user."""
    cluster = part_of(fc.read_openb(folder, pods=PODS), every)
    jobs = fo.online.read_jobs(folder, cluster, users=users, pods=PODS, compress=compress)
    print(f"users by {users}: {len(jobs):,} tasks on {cluster.n_servers} servers\n  " + "\n  ".join(jobs.notes))
    arrivals = np.array([job.arrival for job in jobs])
    window = float(np.quantile(arrivals, 0.01)), float(arrivals.max())
    at = np.quantile(arrivals, 0.01 + 0.99 * (np.arange(moments) + 0.5) / moments)  # as many arrivals between any two
    found = {name: rest for name, *rest in replayed(cluster, jobs, at)}
    where = f"openb by {users}, every {every}th server, arrivals / {compress:g}, {window[0]:.0f} to {window[1]:.0f} s"
    rows = [times(name, *rest) for name, rest in found.items()]
    show(f"{where}: seconds", rows, f"openb-replay-{users}-times")
    rows = [use(name, run, other, window) for name, (run, other, _) in found.items()]
    show(f"{where}: percent", rows, f"openb-replay-{users}-use")
    show(
        "Mean waiting in seconds",
        [waits(name, run) for name, (run, *_) in found.items()],
        f"openb-replay-{users}-waits",
    )
    runs = {name: run for name, (run, *_) in found.items()}
    others = {name: other for name, (_, other, _) in found.items()}
    for name, kind, drawn in (
        ("waiting", "waiting", runs),
        ("utilisation", "utilisation", runs),
        ("shares", "shares", runs),
        ("allocation", "allocation", runs),
        ("distance-drf", "distance", runs),
        ("distance-2df", "distance", others),
    ):
        figure = draw_timelines(drawn, kind, between=window)
        figure.savefig(OUT / f"openb-replay-{users}-{name}.png", dpi=120)


def by_load(folder: str, every: int, factors: list[float]) -> Iterator[dict[str, Any]]:
    """Waiting in seconds by how far arrivals are pushed together."""
    cluster = part_of(fc.read_openb(folder, pods=PODS), every)
    for factor in factors:
        jobs = fo.online.read_jobs(folder, cluster, pods=PODS, compress=factor)
        arrivals = np.array([job.arrival for job in jobs])
        window = float(np.quantile(arrivals, 0.01)), float(arrivals.max())
        row: dict[str, Any] = {"arrivals divided by": factor}
        for name, (share, options) in POLICIES.items():
            if "on_misfit" not in options:
                run = fo.simulate(cluster, jobs, share, scheduler=fo.Scheduler(cluster, share, **options))
                row |= {"GPU > 90% (% of time)": 100 * in_window(run, window)[1]} if name == "DRF" else {}
                wait = run.summary()["waiting"]
                row |= {f"{name}, {what}": round(wait[what]) for what in ("mean", "median", "p95")}
        yield row


def main() -> None:
    """Both notions of a user."""
    factors = [30.0, 100.0, 200.0, 300.0, 1000.0]
    options = arguments(str(__doc__), openb=str(OPENB), every=10, compress=300.0, moments=30, factors=factors)
    if not (Path(options.openb) / "openb_node_list_all_node.csv").is_file():
        print(f"no openb trace in {options.openb}: skipped; say where it is by --openb FOLDER")
        return
    for users in ("shape", "qos"):
        experiment(options.openb, users, options.every, options.compress, options.moments)
    rows = [*by_load(options.openb, options.every, options.factors)]
    show("Waiting in seconds by load, users by shape", rows, "openb-replay-load")


if __name__ == "__main__":
    main()
