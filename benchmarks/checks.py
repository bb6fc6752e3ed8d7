"""Time and memory of `fo.check`, and of its search for envy beside the comparison of all pairs.

First pools of three resources, demands from 1 to 10: DRF, 2-DF and alpha-fairness, each in a process of its own, where
``check`` is all properties, ``envy`` that alone, and ``more MB`` what the check takes beyond the answer. Up to --pairs
users all pairs are compared as well: both must find the same worst envy. Then bundles none of which has more of
everything than another (on a sphere of the resources), the hardest for the tree: held by users who ask for what they
hold, or for something else. ``beyond`` is by how many seconds a time limit of --limit is passed. Seconds are of the
processor, but for ``beyond``.

Run: python benchmarks/checks.py [--users 10000,100000,1000000 --pairs 30000 --hard 100000 --limit 1]
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from common import arguments, show

import fairopt as fo

POLICIES = {"DRF": fo.DRF(), "2-DF": fo.KDF(2), **{f"FDS {alpha}": fo.FDS(alpha) for alpha in (1, 2, 0.5)}}
BLOCK = 2**18  # pairs compared in a row


def by_pairs(answer: fo.Allocation) -> float:
    """The worst envy on one pool of users without limits or weights, from all pairs."""
    demands, tasks, n = answer.instance.demands, answer.tasks, answer.instance.n_users
    unit, worst, step = np.maximum(tasks, answer.instance.own_slices), -1.0, max(1, BLOCK // n)
    held = answer.bundles[:, 0]
    for first in range(0, n, step):
        rows = np.arange(first, min(first + step, n))
        runs = held[:, 0] / demands[rows, 0, None]
        for i in range(1, demands.shape[1]):
            np.minimum(runs, held[:, i] / demands[rows, i, None], out=runs)
        runs[rows - first, rows] = 0.0
        worst = max(worst, float(((runs.max(axis=1) - tasks[rows]) / unit[rows]).max()))
    return worst


def pool(name: str, n: int, pairs: int) -> dict[str, Any]:
    """One answer on a pool, checked."""
    demands = np.random.default_rng(0).uniform(1, 10, (n, 3))
    answer = POLICIES[name].allocate(fo.Instance(demands, [float(n)] * 3))
    fo.check(POLICIES[name].allocate(fo.Instance(demands[:10], [10.0] * 3)))  # imports
    before, begun = peak(), time.process_time()
    report = fo.check(answer)
    row = {"policy": name, "users": n, "check s": time.process_time() - begun, "more MB": peak() - before}
    begun = time.process_time()
    verdict = fo.check(answer, "envy-free")["envy-free"]
    row |= {"envy s": time.process_time() - begun, "envious": len(verdict.witness.enviers(1e-6)), "all pairs s": None}
    if n <= pairs:
        begun = time.process_time()
        worst = by_pairs(answer)
        row["all pairs s"] = time.process_time() - begun
        if verdict.holds != (worst <= 1e-6) or (not verdict.holds and abs(worst / verdict.margin - 1) > 1e-12):
            raise AssertionError(f"{name}, {n} users: {verdict}; all pairs have {worst}")
    assert report["envy-free"].margin == verdict.margin
    return row


def on_a_sphere(n: int, m: int, own: bool, limit: float) -> dict[str, Any]:
    """Bundles on a sphere of users who ask for that direction or for another, checked with and without a limit."""
    rng = np.random.default_rng(m)
    held, asked = (np.abs(rng.normal(size=(n, m))) for _ in range(2))
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    demands = held * rng.uniform(0.5, 2.0, (n, 1)) if own else asked
    tasks = (held / demands).min(axis=1)[:, None]
    instance = fo.Instance(demands, held.sum(axis=0) * (1 + 1e-9))
    answer = fo.Allocation(instance, None, tasks, fo.Certificate(0.0, 0.0, "by hand"), 0.0, None, held[:, None])
    fo.check(fo.DRF().allocate(fo.Instance(demands[:10], np.ones(m))))  # imports
    begun = time.perf_counter()
    short = fo.check(answer, "envy-free", time_limit=limit)["envy-free"]
    beyond = time.perf_counter() - begun - limit
    begun = time.process_time()
    verdict = fo.check(answer, "envy-free")["envy-free"]
    words = {True: "yes", False: "no", None: "open"}
    return {
        "asks for": "its own" if own else "another",
        "resources": m,
        "users": n,
        "envy s": time.process_time() - begun,
        "envious": len(verdict.witness.enviers(1e-6)),
        "with a limit": words[short.holds],
        "left": short.witness.left,
        "beyond s": max(beyond, 0.0),
    }


def peak() -> float:
    """Most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print both tables."""
    options = arguments(str(__doc__), users=[10_000, 100_000, 1_000_000], pairs=30_000, hard=100_000, limit=1.0)
    alone = {"max_workers": 1, "max_tasks_per_child": 1, "mp_context": multiprocessing.get_context("spawn")}
    with ProcessPoolExecutor(**alone) as workers:
        rows = [workers.submit(pool, p, n, options.pairs).result() for n in options.users for p in POLICIES]
        show("Checks of a pool", rows, "checks")
        hard = [
            workers.submit(on_a_sphere, options.hard, m, own, options.limit).result()
            for own in (True, False)
            for m in (3, 4, 6, 8)
        ]
        show("Envy where no bundle has more of everything than another", hard, "checks-hard")


if __name__ == "__main__":
    main()
