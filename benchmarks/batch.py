"""Many small instances at once: Table 1 of Jiang and Wu, and random ones, against the cone method one by one.

Table 1 asks every combination of three users' requests of 1 to C units of three resources with C units each:
C^9 instances. Averages are compared with the constants below (at C = 5 the paper prints 1.81 and 1.56 for the first and
last). Both sides answer the same sample, and answers must agree. Run: python benchmarks/batch.py
"""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
from common import arguments, show

import fairopt as fo
from fairopt.scale.many import Allocations, allocate_many

TABLE_1 = {
    3: {"most tasks": 1.62606, "DRF": 1.34280, "2-DF": 1.38720},
    5: {"most tasks": 1.82315, "DRF": 1.48135, "2-DF": 1.54454},
}
POLICIES = {
    "DRF": fo.DRF(),
    "2-DF": fo.KDF(2, short="positive"),
    "most tasks": fo.MostTasks(),
    "FDS 0.01": fo.FDS(0.01),
    "FDS 0.5": fo.FDS(0.5),
    "FDS 1": fo.FDS(1),
    "FDS 2": fo.FDS(2),
    "FDS 5": fo.FDS(5),
    "FDS 100": fo.FDS(100),
}


def requests(units: int) -> np.ndarray:
    """All instances of Table 1, shape (C^9, 3, 3)."""
    kinds = np.array(list(product(range(1, units + 1), repeat=3)), dtype=float)
    return kinds[np.indices((len(kinds),) * 3).reshape(3, -1).T]


def random_batch(size: int, n: int, m: int, decades: float = 2.0) -> dict[str, Any]:
    """Demands log-uniform, some zeros, weights, and limits near what users would get."""
    rng = np.random.default_rng(1)
    demands = 10.0 ** rng.uniform(0, decades, size=(size, n, m)) * (rng.random((size, n, m)) >= 0.1)
    demands[..., 0] += ~demands.any(axis=2)
    capacities = demands.sum(axis=1) * 10.0 ** rng.uniform(-1, 1, size=(size, m)) + 1.0
    reach = rng.uniform(0.1, 3.0, size=(size, n)) / (demands / capacities[:, None]).max(axis=2) / n
    return {
        "demands": demands,
        "capacities": capacities,
        "weights": rng.uniform(0.5, 2.0, size=(size, n)),
        "task_limits": np.where(rng.random((size, n)) < 0.3, reach, np.inf),
    }


def against_the_cone_route(found: Allocations, policy: fo.Policy, sample: int) -> dict[str, Any]:
    """Milliseconds apiece of the cone method on some of the instances, and how far values and tasks differ.

    At large alpha the value hardly depends on the rich, so tasks may differ; the largest sum is reached in many ways.
    """
    chosen = np.random.default_rng(0).choice(len(found), size=min(sample, len(found)), replace=False)
    seconds, values, tasks = [], [], []
    for b in chosen:
        ours = found[int(b)]
        start = time.perf_counter()
        cone = policy.allocate(ours.instance, method="cone")
        seconds.append(time.perf_counter() - start)
        values.append(abs(ours.objective / cone.objective - 1))
        size = np.maximum(cone.tasks, 1e-3 / ours.instance.dominant_shares)
        tasks.append(float((abs(ours.tasks - cone.tasks) / size).max()))
    each = float(np.median(seconds))
    return {
        "cone ms each": 1e3 * each,
        "times faster": each / (found.seconds / len(found)),
        "values agree to": max(values),
        "tasks agree to": "" if found.method == "simplex" else max(tasks),
    }


def measured(name: str, policy: fo.Policy, batch: dict[str, Any], repeats: int) -> tuple[dict[str, Any], Allocations]:
    """The middle one of a few runs."""
    runs = sorted((allocate_many(policy, **batch) for _ in range(repeats)), key=lambda found: found.seconds)
    found = runs[len(runs) // 2]
    assert found.ok.all()
    row = {
        "policy": name,
        "instances": len(found),
        "s": found.seconds,
        "us each": 1e6 * found.seconds / len(found),
        "worst gap": float(found.gap.max()),
        "worst violation": float(found.violation.max()),
        "one by one": int(found.one_by_one.sum()),
    }
    return row, found


def main() -> None:
    """Print both tables; fail where an average is not the one that follows from the definitions."""
    options = arguments(str(__doc__), units=[3, 5], sample=50, instances=20_000, users=6, resources=4, repeats=3)
    rows = []
    for units in options.units:
        policies = {"most tasks": fo.MostTasks(), "DRF": fo.DRF(), "2-DF": fo.KDF(2)}
        batch = {"demands": requests(units), "capacities": np.full(3, float(units))}
        total = 0.0
        for name, policy in policies.items():
            row, found = measured(name, policy, batch, 1)
            average = float(found.tasks.sum(axis=1).mean())
            assert round(average, 5) == TABLE_1[units][name], (units, name, average)
            total += found.seconds
            rows.append(
                {"C": units, **row, "tasks": f"{average:.5f}", **against_the_cone_route(found, policy, options.sample)}
            )
        rows.append({**dict.fromkeys(rows[-1], ""), "C": units, "policy": "together", "s": total})
    show("Table 1 of Jiang and Wu: average number of tasks, every combination of requests", rows, "batch-table-1")
    batch = random_batch(options.instances, options.users, options.resources)
    rows = []
    for name, policy in POLICIES.items():
        row, found = measured(name, policy, batch, options.repeats)
        rows.append({**row, **against_the_cone_route(found, policy, options.sample)})
    show(f"Random batches, {options.users} users x {options.resources} resources, with limits", rows, "batch")


if __name__ == "__main__":
    main()
