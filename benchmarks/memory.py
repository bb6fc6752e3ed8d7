"""Schedulers that remember: VTC's bound on random traces, and the time of 100,000 jobs under each member.

The bound is Theorem 4.8 of Sheng et al. (2024): two clients who both wait differ by at most twice the cost of the
largest request. Times are CPU seconds of `simulate`, relative to those of DRF on the same jobs. Run:

    python benchmarks/memory.py [--traces 1000] [--tries 400] [--jobs 100000] [--runs 2]
"""

from __future__ import annotations

import time

import numpy as np
from common import arguments, median, show
from memory_traces import requests

import fairopt as fo

COST = {"prefill": 1.0, "decode": 2.0}
ROOM = {"prefill": 1e9, "decode": 1e9}
MEMBERS = {
    "Usage(3600)": fo.online.Usage(3600.0),
    "Usage(3600, lift=False)": fo.online.Usage(3600.0, lift=False),
    "VTC": fo.online.VTC(cost={"cpu": 1.0, "memory": 0.25}),
    "Slurm": fo.online.Slurm(),
    "HTCondor": fo.online.HTCondor(),
    "Kueue": fo.online.Kueue(),
    "KAI": fo.online.KAI(),
    "Karma": fo.online.Karma(),
}
SLOT = {"slot": 1.0}
SHORT = {"half_life": 20.0, "sampling": 1.0}
RULES: dict[str, tuple[fo.online.Usage | None, dict[str, float]]] = {
    "default": (None, SLOT),
    "VTC": (fo.online.VTC(cost=COST), COST),
    "VTC(lift=False)": (fo.online.VTC(cost=COST, lift=False), COST),
    "requests": (fo.online.VTC(cost=SLOT), COST),
    "Usage(20)": (fo.online.Usage(20.0), SLOT),
    "Usage(20, lift=False)": (fo.online.Usage(20.0, lift=False), SLOT),
    "Slurm": (fo.online.Slurm(**SHORT), SLOT),
    "HTCondor": (fo.online.HTCondor(**SHORT, cost=SLOT), SLOT),
    "Kueue": (fo.online.Kueue(**SHORT), SLOT),
    "KAI": (fo.online.KAI(**SHORT), SLOT),
    "KAI(k=4)": (fo.online.KAI(**SHORT, k=4.0), SLOT),
    "Karma": (fo.online.Karma(sampling=1.0), SLOT),
}


def bounds(traces: int) -> list[dict[str, object]]:
    """How often each counter breaks the bound, and its largest gap over the bound."""
    rows: list[dict[str, object]] = []
    for name, usage in {
        "VTC": fo.online.VTC(cost=COST),
        "VTC, no lift": fo.online.VTC(cost=COST, lift=False),
        "requests": fo.online.VTC(cost={"slot": 1.0}),
        "requests, no lift": fo.online.VTC(cost={"slot": 1.0}, lift=False),
        "Usage(20)": fo.online.Usage(20.0),
    }.items():
        ratios = []
        for seed in range(traces):
            capacities = {"slot": 1 + seed % 4, **ROOM}
            run = fo.simulate(capacities, requests(seed), scheduler=fo.Scheduler(capacities, usage=usage))
            gap, bound = fo.online.service_gap(run, COST)
            ratios.append(gap / bound)
        broken = sum(ratio > 1 for ratio in ratios)
        rows.append({"counter": name, "traces that break it": broken, "largest gap / bound": round(max(ratios), 3)})
    return rows


def promises(tries: int) -> list[dict[str, object]]:
    """Each promise under each rule on 1 and 3 slots: kept in all tries, or the smallest trace that breaks it."""
    rows: list[dict[str, object]] = []
    for name, (usage, cost) in RULES.items():
        row: dict[str, object] = {"rule": name}
        for promise in ("bounded-difference", "no-starvation", "newcomers", "splitting"):
            for slots in (1, 3):
                found = fo.online.try_promise(promise, usage, cost=cost, capacities={"slot": slots}, tries=tries)
                row[f"{promise}, {slots}"] = "kept" if found is None else str(found)
        rows.append(row)
    return rows


def cluster(jobs: int) -> tuple[fo.Instance, list[fo.Job]]:
    """Single tasks of 150 users on 150 servers, more than the servers can run as they come."""
    rng = np.random.default_rng(1)
    capacities = np.column_stack(
        [rng.choice(sizes, 150) for sizes in ([32, 64, 96, 128], [128, 256, 512], [0, 0, 2, 4, 8])]
    )
    demands = np.column_stack(
        [rng.choice(sizes, 150) for sizes in ([1, 2, 4, 8, 16], [2, 4, 8, 16, 32, 64], [0, 0, 0, 1, 2])]
    )
    arrivals, who = np.sort(rng.uniform(0, 0.06 * jobs, jobs)).tolist(), rng.integers(0, 150, jobs).tolist()
    last = rng.uniform(20, 200, jobs).tolist()
    rows = [tuple(map(float, row)) for row in demands]
    servers = fo.Instance(np.empty((0, 3)), capacities.astype(float), resources=["cpu", "memory", "gpu"], users=[])
    return servers, [
        fo.Job(f"user{j}", rows[j], duration, arrival=arrival)
        for arrival, j, duration in zip(arrivals, who, last, strict=True)
    ]


def seconds(servers: fo.Instance, jobs: list[fo.Job], usage: fo.online.Usage | None) -> float:
    """CPU seconds of one replay."""
    scheduler = fo.Scheduler(servers, usage=usage)
    start = time.process_time()
    fo.simulate(servers, jobs, scheduler=scheduler)
    return time.process_time() - start


def main() -> None:
    """Three tables."""
    options = arguments(str(__doc__), traces=1000, tries=400, jobs=100_000, runs=2)
    show("VTC's bound on random traces", bounds(options.traces), "memory-bounds")
    show("Promises, and the smallest traces that break them", promises(options.tries), "memory-promises")
    servers, jobs = cluster(options.jobs)
    rows = []
    for name, usage in MEMBERS.items():
        pairs = [(seconds(servers, jobs, None), seconds(servers, jobs, usage)) for _ in range(options.runs)]
        rows.append(
            {
                "member": name,
                "seconds": round(median([b for _, b in pairs]), 2),
                "times DRF": round(median([b / a for a, b in pairs]), 3),
            }
        )
    show(f"{options.jobs:,} jobs under each member", rows, "memory-times")


if __name__ == "__main__":
    main()
