"""Solving again with other capacities, weights and limits: policy.allocate against a prepared policy.

Every turn changes all three, draws them once for both sides, and compares the answers.
Run: python benchmarks/resolve.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo
from fairopt.solve.prepared import Prepared

POLICIES = [
    ("AlphaFair(1)", fo.Policy(fo.AlphaFair(1))),
    ("AlphaFair(2)", fo.Policy(fo.AlphaFair(2))),
    ("FDS(0.5)", fo.FDS(0.5)),
    ("AlphaFair(1) + 0.1 * Total()", fo.Policy(fo.AlphaFair(1) + 0.1 * fo.Total())),
    ("MostTasks()", fo.MostTasks()),
    ("MaxMin()", fo.Policy(fo.MaxMin())),
]


def cluster(users: int, servers: int, seed: int) -> fo.Instance:
    """Demands over two decades, servers that differ, and limits on about half of the users."""
    rng = np.random.default_rng(seed)
    demands = 10 ** rng.uniform(0, 2, (users, 4))
    instance = fo.Instance(demands, demands.sum(axis=0) / servers * rng.uniform(0.5, 2, (servers, 4)))
    return instance.replace(**change(instance, rng))


def change(instance: fo.Instance, rng: np.random.Generator) -> dict[str, Any]:
    """Other capacities, weights and limits, up to twice or half as much."""
    n = instance.n_users
    limits = 4 * instance.tasks_alone.sum(axis=1) / n * rng.uniform(0.5, 2, n)
    return {
        "capacities": instance.capacities * rng.uniform(0.5, 2, instance.capacities.shape),
        "weights": rng.uniform(0.5, 2, n),
        "task_limits": np.where(rng.random(n) < 0.5, limits, np.inf),
    }


def solved(run: Callable[[], fo.Allocation]) -> fo.Allocation | None:
    """The answer; None where none could be certified."""
    try:
        return run()
    except fo.errors.NotCertified:
        return None


def measure(name: str, policy: fo.Policy, instance: fo.Instance, repeats: int) -> dict[str, Any]:
    """Time both sides in turn, and check that the answers agree."""
    rng = np.random.default_rng(1)
    changes = [change(instance, rng) for _ in range(repeats + 1)]
    turns = {"allocate": iter(changes), "prepared": iter(changes)}
    prepared = Prepared(policy, instance)
    start = time.perf_counter()
    solved(prepared.allocate)
    first = time.perf_counter() - start
    ordinary: list[fo.Allocation | None] = []
    kept: list[fo.Allocation | None] = []

    def allocate() -> None:
        turn = next(turns["allocate"])
        ordinary.append(solved(lambda: policy.allocate(instance.replace(**turn))))

    def again() -> None:
        turn = next(turns["prepared"])
        kept.append(solved(lambda: prepared.allocate(**turn)))

    sides = {"allocate": allocate, "prepared": again}
    seconds = {side: median(each) for side, each in interleaved(sides, repeats).items()}
    both = [(a, b) for a, b in zip(ordinary, kept, strict=True) if a is not None and b is not None]
    agree = max(abs(a.objective - b.objective) / abs(a.objective) for a, b in both)
    assert agree < 1e-6, f"{name} on {instance}: answers differ by {agree:.2g}"
    return {
        "policy": name,
        "servers": instance.n_servers,
        "users": instance.n_users,
        "allocate ms": seconds["allocate"] * 1e3,
        "prepared ms": seconds["prepared"] * 1e3,
        "ratio": seconds["allocate"] / seconds["prepared"],
        "first ms": first * 1e3,
        "agree to": agree,
        "fell back": sum(len(b.certificate.tried) > 1 for _, b in both),
        "failed": f"{ordinary.count(None)}, {kept.count(None)}",
    }


def main() -> None:
    """One row for each policy and size."""
    warnings.simplefilter("ignore")  # "Solution may be inaccurate": that is for the certificate to say
    options = arguments(str(__doc__), users=[2, 100, 1000], servers=[1, 5], repeats=15)
    rows = []
    for servers in options.servers:
        for users in options.users:
            instance = cluster(users, servers, seed=users + servers)
            rows += [measure(*policy, instance, options.repeats) for policy in POLICIES]
    show("Solving again with other capacities, weights and limits (medians)", rows, "resolve")


if __name__ == "__main__":
    main()
