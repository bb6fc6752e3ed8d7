"""Decisions of the scheduler, beside a plain loop over a sorted list; and a million tasks on 1,500 servers.

One pool, users with random demands for three resources and endless backlogs. *Fill*: decisions from empty until half
full. *Turn*: on the full pool a random task ends, and one decision follows. The plain loop keeps (share, last start,
user) in a sorted list and takes the first user whose task fits; it knows no jobs, labels, weights, limits or servers.
Both make the same decisions, as is checked. Run:

    python benchmarks/online.py [--users 10,1000,100000] [--tasks 1000000] [--servers 1500]
"""

from __future__ import annotations

import random
import resource
import time
from bisect import bisect_left, insort

import numpy as np
from common import arguments, median, show

import fairopt as fo

RUNS = 3


class Plain:
    """The first user in a sorted list whose task fits."""

    def __init__(self, capacity: list[float], demands: list[list[float]]) -> None:
        self.free, self.demands = list(capacity), demands
        self.room = [1e-9 * c for c in capacity]
        self.per_task = [max(d / c for d, c in zip(row, capacity, strict=True)) for row in demands]
        self.order = [(0.0, -1, j) for j in range(len(demands))]
        self.keys, self.running = list(self.order), [0] * len(demands)
        self.started, self.last = 0, [-1] * len(demands)

    def next_task(self) -> int | None:
        """The user whose task starts."""
        free, room = self.free, self.room
        for j in (j for *_, j in self.order):
            for d, f, r in zip(self.demands[j], free, room, strict=True):
                if d > f + r:
                    break
            else:
                self.change(j, 1)
                return j
        return None

    def change(self, j: int, by: int) -> None:
        """Start (1) or end (-1) a task of a user."""
        self.free = [f - by * d for f, d in zip(self.free, self.demands[j], strict=True)]
        del self.order[bisect_left(self.order, self.keys[j])]
        self.running[j] += by
        if by > 0:
            self.last[j], self.started = self.started, self.started + 1
        self.keys[j] = (round(self.per_task[j] * self.running[j], 12), self.last[j], j)
        insort(self.order, self.keys[j])


def decisions(n: int, each: int, seed: int) -> dict[str, float | int]:
    """Decisions per second of both, filling a pool and on the full pool."""
    rng = np.random.default_rng(seed)
    demands = (rng.integers(10, 101, (n, 3)) / 100).tolist()
    capacity = [0.55 * max(2 * each, 4 * n)] * 3  # for about twice as many tasks as are started from empty
    ours, plain = fo.Scheduler(capacity), Plain(capacity, demands)
    for j, row in enumerate(demands):
        ours.submit(str(j), row, tasks=10**9)
    found = {}
    start = time.process_time()
    tasks = [ours.next_task() for _ in range(each)]
    found["fill"] = each / (time.process_time() - start)
    start = time.process_time()
    same = [plain.next_task() for _ in range(each)]
    found["plain fill"] = each / (time.process_time() - start)
    assert [int(task.user) for task in tasks if task] == same
    while (task := ours.next_task()) is not None:
        tasks.append(task)
        plain.change(int(task.user), 1)
    order = random.Random(seed)
    order.shuffle(tasks)
    turns = tasks[: each // 4]
    start = time.process_time()
    for task in turns:
        ours.finish(task)
        same.append(ours.next_task())
    found["turn"] = len(turns) / (time.process_time() - start)
    start, theirs = time.process_time(), []
    for task in turns:
        plain.change(int(task.user), -1)
        theirs.append(plain.next_task())
    found["plain turn"] = len(turns) / (time.process_time() - start)
    assert [task and int(task.user) for task in same[each:]] == theirs
    return found


def trace(tasks: int, servers: int, seed: int) -> tuple[fo.Instance, list[fo.Job]]:
    """Jobs of 50 tasks of 150 users on servers of several sizes, about as many as the cluster can run."""
    rng = np.random.default_rng(seed)
    capacities = np.column_stack(
        [rng.choice(sizes, servers) for sizes in ([32, 64, 96, 128], [128, 256, 512], [0, 0, 2, 4, 8])]
    )
    demands = np.column_stack(
        [rng.choice(sizes, 150) for sizes in ([1, 2, 4, 8, 16], [2, 4, 8, 16, 32, 64], [0, 0, 0, 1, 2])]
    )
    jobs = tasks // 50
    arrivals, who = np.sort(rng.uniform(0, 0.3 * jobs, jobs)), rng.integers(0, 150, jobs)
    last = rng.uniform(20, 200, jobs)
    labels = dict(resources=["cpu", "memory", "gpu"], users=[])
    cluster = fo.Instance(np.empty((0, 3)), capacities.astype(float), **labels)
    rows = [tuple(map(float, row)) for row in demands]
    return cluster, [
        fo.Job(f"user{j}", rows[j], duration, tasks=50, arrival=arrival)
        for arrival, j, duration in zip(arrivals.tolist(), who.tolist(), last.tolist(), strict=True)
    ]


def main() -> None:
    """Two tables; the simulation first, for its memory."""
    options = arguments(str(__doc__), users=[10, 1000, 100_000], decisions=100_000, tasks=1_000_000, servers=1500)
    cluster, jobs = trace(options.tasks, options.servers, seed=1)
    start = time.process_time()
    run = fo.simulate(cluster, jobs)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    summary = run.summary()
    last = float(run.start.max())
    row = {
        "tasks": len(run.start),
        "servers": options.servers,
        "CPU s": seconds,
        "tasks/s": len(run.start) / seconds,
        "MB at most": peak,
        "mean waiting": summary["waiting"]["mean"],
        "cpu in use": float(run.utilisation(np.linspace(0, last, 200))[:, 0].mean()),
    }
    show("A simulation", [row], "online_simulation")

    rows = []
    for n in options.users:
        runs = [decisions(n, options.decisions, seed) for seed in range(RUNS)]
        middle = {key: median([run[key] for run in runs]) for key in runs[0]}
        rows.append({"users": n, **{f"{key}/s": int(value) for key, value in middle.items()}})
        rows[-1] |= {"fill, of plain": middle["fill"] / middle["plain fill"]}
        rows[-1] |= {"turn, of plain": middle["turn"] / middle["plain turn"]}
        print(rows[-1], flush=True)
    show(f"Decisions per second on one pool, median of {RUNS}", rows, "online_decisions")


if __name__ == "__main__":
    main()
