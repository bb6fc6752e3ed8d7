"""Seconds of deployed schedulers' divisions by the number of queues: flat and in 3 levels, of 1 and 3 resources.

Seconds are of the processor. Half of the queues without queues below ask for a finite amount, for hierarchical DRF all;
half of all have a guarantee, weights are from 1 to 5, and the cluster has half of what is asked for. ``beside`` adds
the certified answer to KAI's division, of queues in one level: a tree of so many takes too long.

Run: python benchmarks/schedulers_speed.py [--queues 10000]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import arguments, show
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import KAI, Kueue, Slurm, Volcano, YuniKorn, beside
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.slurm import BILLED

RESOURCES = ("cpu", "memory", "gpu")
TOP, MIDDLE = 20, 400


def drawn(scheduler: str, n: int, levels: int, names: tuple[str, ...], finite: float = 0.5, seed: int = 0) -> QueueTree:
    """A tree of n queues; in 3 levels 20 are at the top and 400 below these."""
    rng = np.random.default_rng(seed)
    top, middle = (n, 0) if levels == 1 else (TOP, MIDDLE)
    parents = [""] * top + [f"q{j}" for j in rng.integers(top, size=middle)]
    parents += [f"q{top + j}" for j in rng.integers(middle, size=n - top - middle)] if middle else []
    inner, asks = {*parents}, rng.uniform(1, 99, (n, len(names))).round(1)
    whole = asks.sum(axis=0)
    queues = []
    for j, parent in enumerate(parents):
        part = rng.uniform(0, 1.5) * whole / len(parents) if rng.random() < 0.5 else 0 * whole
        of = dict(zip(names, asks[j].tolist(), strict=True))
        owed = dict(zip(names, part.round(1).tolist(), strict=True)) if scheduler == "Kueue" or part.any() else {}
        request = of if f"q{j}" not in inner and rng.random() < finite else None
        queues.append(
            Queue(f"q{j}", parent, float(rng.integers(1, 6)), owed, request=request, used={BILLED: float(asks[j, 0])})
        )
    return QueueTree(scheduler, tuple(queues), dict(zip(names, (whole / 2).round(1).tolist(), strict=True)))


def one_cohort(tree: QueueTree) -> QueueTree:
    """The same queues below one more."""
    queues = [Queue("all"), *(Queue(**{**vars(one), "parent": one.parent or "all"}) for one in tree.queues)]
    return QueueTree(tree.scheduler, tuple(queues), tree.capacity)


def seconds(run: Callable[[], object]) -> float:
    """Seconds of the processor that a run takes, the least of 2 where it is short."""
    taken = []
    while not taken or (len(taken) < 2 and taken[0] < 5):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def main() -> None:
    """Time all, and show them."""
    given = arguments(__doc__, queues=10_000)
    whole = (Volcano("proportion"), Volcano("capacity"), Volcano("hdrf"))
    mechanisms: list[Deployed] = [KAI(), Kueue(), YuniKorn(), *whole, Slurm()]
    rows: list[dict[str, Any]] = []
    for levels in (1, 3):
        for names in (RESOURCES[2:], RESOURCES):
            for one in mechanisms:
                finite = 1.0 if one == Volcano("hdrf") else 0.5
                tree = drawn(one.scheduler, given.queues, levels, names, finite)
                tree = one_cohort(tree) if isinstance(one, Kueue) else tree
                print(one.name, levels, len(names), flush=True)
                runs = {one.name.removesuffix(" as deployed"): lambda one=one, tree=tree: one.divide(tree)}
                if isinstance(one, Slurm) and len(names) == 1:
                    billed = QueueTree("Slurm", tree.queues, {BILLED: 1.0})
                    runs["Slurm, factors"] = lambda one=one, tree=billed: one.factors(tree)
                if isinstance(one, Kueue):
                    runs["Kueue, shares"] = lambda one=one, tree=tree: one.shares(tree)
                if isinstance(one, KAI) and levels == 1:
                    runs["KAI, beside"] = lambda one=one, tree=tree: beside(one, tree)
                for name, run in runs.items():
                    rows.append({"mechanism": name, "levels": levels, "resources": len(names), "seconds": seconds(run)})
                    print(rows[-1], flush=True)
    show("Divisions of queues", rows, "schedulers_speed")


if __name__ == "__main__":
    main()
