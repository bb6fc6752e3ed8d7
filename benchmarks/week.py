"""Policies over time: against a slow simulator, on a made-up week of 20,000 jobs, and their speed.

*Traces*: the order, times and servers of all tasks of random traces, with gangs, limits, teams and placement, beside
plain loops in fractions, under first come, first served, EASY, DRF and hierarchical DRF. *Week*: jobs of four teams
with days and nights, some of them gangs of 8-GPU tasks, on 60 servers; a table and pictures. *Speed*: CPU seconds of
jobs under DRF and first come, first served. Run:

    python benchmarks/week.py [--traces 500] [--jobs 20000] [--speed 100000]

Tables (JSON) and pictures go to benchmarks/out.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from common import OUT, arguments, show

import fairopt as fo
from fairopt.plots.timeline import draw_timelines

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from oracle.simulator import POLICIES, differs

DAY = 86400.0
TEAMS = {  # team: users, part of the jobs, what a task takes (cpu, memory, gpu) with probabilities, tasks of a gang
    "web": (12, 0.45, [((2, 8, 0), 0.7), ((4, 16, 0), 0.3)], (1,)),
    "nlp": (8, 0.25, [((8, 64, 1), 0.6), ((16, 128, 2), 0.4)], (1, 1, 2)),
    "vision": (5, 0.1, [((64, 480, 8), 1.0)], (1, 1, 2, 4)),
    "physics": (6, 0.2, [((32, 64, 0), 0.8), ((64, 128, 0), 0.2)], (1, 2, 4, 8)),
}
SERVERS = ((40, (64, 256, 0)), (20, (96, 768, 8)))


def week(jobs: int, load: float, seed: int = 1) -> tuple[fo.Instance, list[fo.Job]]:
    """A cluster, and jobs of a week that ask for this part of its scarcest resource."""
    rng = np.random.default_rng(seed)
    cluster = fo.Instance(
        np.empty((0, 3)),
        [units for _, units in SERVERS],
        counts=[count for count, _ in SERVERS],
        resources=["cpu", "memory", "gpu"],
        users=[],
        servers=["cpu", "gpu"],
    )
    at = np.sort(rng.uniform(0, 7 * DAY, 3 * jobs))
    busy = 0.3 + 0.7 * np.maximum(np.sin(2 * np.pi * (at / DAY - 0.3)), 0) * np.where(at < 5 * DAY, 1, 0.4)
    at = at[rng.random(len(at)) < busy / busy.mean() / 3 * 1.05][:jobs]
    found = []
    for arrival in at.tolist():
        team = str(rng.choice(list(TEAMS), p=[part for _, part, *_ in TEAMS.values()]))
        users, _, kinds, sizes = TEAMS[team]
        units = kinds[int(rng.choice(len(kinds), p=[p for _, p in kinds]))][0]
        tasks = int(rng.choice(sizes))
        lasts = float(np.clip(rng.lognormal(np.log(1500), 1.3), 20, 2 * DAY))
        found.append(
            fo.Job(
                f"{team}-{int(rng.zipf(1.8)) % users}",
                tuple(map(float, units)),
                round(lasts),
                tasks=tasks,
                arrival=round(arrival),
                gang=tasks > 1,
                limit=round(min(lasts * rng.choice([1.1, 1.5, 3, 10]), 3 * DAY)) + 60,
                team=team,
            )
        )
    needed = sum(np.array(job.demands) * job.tasks * job.duration for job in found)
    factor = load * 7 * DAY * cluster.total_capacities / needed
    scale = float(factor.min())
    return cluster, [
        fo.Job(
            job.user,
            job.demands,
            max(round(job.duration * scale), 1),
            tasks=job.tasks,
            arrival=job.arrival,
            gang=job.gang,
            limit=max(round((job.limit or job.duration) * scale), round(job.duration * scale), 1),
            team=job.team,
        )
        for job in found
    ]


def schedulers(cluster: fo.Instance) -> dict[str, object]:
    """Policies by name."""
    return {
        "FCFS": fo.Scheduler(cluster, order="arrival", on_misfit="stop"),
        "EASY": fo.online.BackfillScheduler(cluster),
        "DRF": fo.Scheduler(cluster),
        "HDRF": fo.online.HierarchicalScheduler(cluster),
    }


def main() -> None:
    """Traces, week and speed."""
    options = arguments(str(__doc__), traces=500, jobs=20_000, load=0.8, speed=100_000)
    wrong = {policy: [seed for seed in range(options.traces) if differs(seed, policy)] for policy in POLICIES}
    rows = [{"policy": policy, "traces": options.traces, "different": len(seeds)} for policy, seeds in wrong.items()]
    show("Random traces that differ from the slow simulator", rows, "week-traces")

    cluster, jobs = week(options.jobs, options.load)
    runs, rows = {}, []
    for name, scheduler in schedulers(cluster).items():
        start = time.process_time()
        runs[name] = fo.simulate(cluster, jobs, scheduler=scheduler, name=name, time_unit="s")
        seconds = time.process_time() - start
        summary = runs[name].summary()
        row = {"policy": name, "CPU s": seconds, "utilisation of gpu": summary["utilisation"]["gpu"]}
        for team, found in runs[name].waits().items():
            row |= {f"{team}, h": found["waiting"]["mean"] / 3600, f"{team}, p95": found["waiting"]["p95"] / 3600}
        rows.append(row | {"worst": summary["worst"]["team"]})
    show(f"A week of {len(jobs):,} jobs", rows, "week")
    for kind in ("waiting", "utilisation", "shares"):
        draw_timelines(runs, kind).savefig(OUT / f"week-{kind}.png", dpi=120)

    cluster, jobs = week(options.speed, options.load, seed=2)
    plain = [fo.Job(job.user, job.demands, job.duration, arrival=job.arrival) for job in jobs]
    rows = []
    for order in ("share", "arrival"):
        start = time.process_time()
        fo.simulate(cluster, plain, scheduler=fo.Scheduler(cluster, order=order))
        rows.append({"jobs": len(plain), "order": order, "CPU s": time.process_time() - start})
    show("Speed", rows, "week-speed")


if __name__ == "__main__":
    main()
