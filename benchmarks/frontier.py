"""A frontier of many points against one cold solve by cone program, and its answers against cold solves.

`fo.frontier` starts each point from the prices of the one before. Measured are the sweep of alpha for FDS on one pool,
the same points solved cold by ``allocate``, and alpha = 2 by ``allocate(method="cone")``. Every answer of the sweep is
compared with the cold one: power means of shares agree to the certificates.
Run: python benchmarks/frontier.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo

BUDGET = 40.0  # cold solves by cone program for 1,000 points


def pool(users: int, resources: int, seed: int) -> fo.Instance:
    """Demands over two decades, and capacities for a fifth to all of one task of each user."""
    rng = np.random.default_rng(seed)
    demands = 10 ** rng.uniform(0, 2, (users, resources))
    return fo.Instance(demands, demands.sum(axis=0) * rng.uniform(0.2, 1, resources))


def measure(points: int, users: int, resources: int, processes: int, repeats: int) -> dict[str, Any]:
    """Time the sweep, the cone program and cold solves, and compare the answers."""
    instance, alphas = pool(users, resources, seed=0), np.linspace(10 / points, 10, points)
    cone = median(interleaved({"cone": lambda: fo.FDS(2).allocate(instance, method="cone")}, repeats)["cone"])
    seconds, found = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        found = fo.frontier(fo.FDS, instance, {"alpha": alphas}, processes=processes)
        seconds.append(time.perf_counter() - start)
    assert found is not None and not any(found["error"]) and found["gap"].max() <= 1e-6, f"{found!r}"
    start = time.perf_counter()
    cold = [fo.FDS(alpha).allocate(instance) for alpha in alphas]
    one_by_one = time.perf_counter() - start
    c = instance.dominant_shares
    apart = 0.0
    for k, (alpha, answer) in enumerate(zip(alphas, cold, strict=True)):
        logs = [np.log(c * np.maximum(x, 1e-300)) for x in (found.tasks_by_user[k], answer.tasks)]
        mean = [np.mean(x) if alpha == 1 else np.logaddexp.reduce((1 - alpha) * x) / (1 - alpha) for x in logs]
        apart = max(apart, abs(mean[0] - mean[1]))
    assert apart <= 2e-6, f"answers differ by {apart:.2g}"
    tasks = max(abs(found.tasks_by_user[k].sum() / a.tasks.sum() - 1) for k, a in enumerate(cold))
    return {
        "points": points,
        "users": users,
        "resources": resources,
        "processes": processes,
        "sweep s": median(seconds),
        "ms a point": 1e3 * median(seconds) / points,
        "cold ms a point": 1e3 * one_by_one / points,
        "cone s": cone,
        "ratio to cone": median(seconds) / cone,
        "within": BUDGET * points / 1000,
        "largest gap": found["gap"].max(),
        "apart (log)": apart,
        "tasks apart": tasks,
    }


def main() -> None:
    """One row for each number of processes."""
    options = arguments(str(__doc__), points=1000, users=1000, resources=4, processes=[1, 2], repeats=3)
    rows = [
        measure(options.points, options.users, options.resources, processes, options.repeats)
        for processes in options.processes
    ]
    show("A frontier of FDS over alpha, against one cold cone program at alpha = 2", rows, "frontier")


if __name__ == "__main__":
    main()
