"""The text of ``fairopt demo``: five policies on the example cluster."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairopt import datasets
from fairopt.blocks.shares import DominantShare
from fairopt.io.saving import unwritable
from fairopt.report.comparison import Comparison
from fairopt.report.files import write_picture
from fairopt.report.tables import allocation_tables

POLICIES = ("drf", "2df", "fds:alpha=1", "tsf", "most-tasks")


def story(result: Comparison) -> Iterator[Any]:
    """The parts of the demonstration, for `rich`."""
    from rich.table import Table

    cluster = result.instance
    yield (
        f"{cluster.n_users} users share {int(cluster.counts.sum())} servers of {cluster.n_servers} kinds, with "
        f"{', '.join(cluster.resources[:-1])} and {cluster.resources[-1]}. They ask for more than there is. Some users "
        f"can run only on some servers, and {int((cluster.weights > 1).sum())} have twice the weight of the others. "
        "How many tasks should each user run? Five policies give five answers:\n"
    )
    yield result
    yield "\nFindings:\n"
    points = Table.grid(padding=(0, 1))
    for sentence in findings(result):
        points.add_row(" *", sentence)
    yield points
    yield "\nUnder DRF in detail:\n"
    drf = result.allocations["DRF"]
    yield from allocation_tables(drf)
    yield (
        f"Why trust this answer? It is {drf.certificate}. The gap is an upper bound on how much better, relative "
        "to the optimum, any other allocation can be. fairopt computes it from the data and from dual prices. "
        "Wrong prices would widen the gap, never hide an error, so the solver need not be trusted. fairopt "
        f"returns no answer that it "
        "cannot certify.\n"
    )


def findings(result: Comparison) -> list[str]:
    """What the numbers of the demonstration show, as sentences."""
    found, instance = result.allocations, result.instance
    tasks = {name: a.tasks for name, a in found.items()}
    metrics = {name: a.metrics() for name, a in found.items()}
    done = tasks["DRF"] >= instance.task_limits * (1 - 1e-6)
    level = float((found["DRF"].share(DominantShare()) / instance.weights)[~done].min())
    full = [u for u, d in zip(instance.users, done, strict=True) if d]
    least = float(tasks["most tasks"].max()) * 1e-6
    nothing = [u for u, x in zip(instance.users, tasks["most tasks"], strict=True) if x <= least]

    def ntt(name: str) -> str:
        return f"{metrics[name]['ntt']:.0f} tasks"

    def gpus(name: str) -> str:
        return f"{100 * metrics[name]['utilisation']['gpu']:.0f}%"

    def least_share(name: str) -> str:
        return f"{100 * metrics[name]['smallest_dominant_share']:.1f}%"

    return [
        f"Most tasks runs {ntt('most tasks')}, which is the maximum, but {len(nothing)} of {instance.n_users} users "
        f"get nothing: {', '.join(nothing)}.",
        f"DRF gives all users the same dominant share per weight, {100 * level:.1f}%, except those who need less to "
        f"run all their tasks ({', '.join(full)}). It runs {ntt('DRF')}.",
        f"2-DF equalises tasks times the product of a task's two largest shares. It runs {ntt('2-DF')}, but its "
        f"smallest dominant share per weight is only {least_share('2-DF')}, and it uses only {gpus('2-DF')} of "
        f"the GPUs.",
        f"FDS with alpha = 1 gives a user more where the others lose little: it uses {gpus('FDS(alpha=1)')} of the "
        f"GPUs, while DRF uses {gpus('DRF')}.",
        f"TSF measures each user's tasks against what it could run alone on the whole cluster. It runs {ntt('TSF')}, "
        f"and its smallest dominant share per weight is {least_share('TSF')}.",
    ]


def check(folder: Path) -> None:
    """Make the folder; raise, before anything is solved, if it cannot be written to."""
    fix = "give another place with --folder"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error.errno or errno.EACCES, fix) from None
    if not os.access(folder, os.W_OK):
        raise unwritable(folder, errno.EACCES, fix)


def save(result: Comparison, folder: Path, picture: bool) -> list[Path]:
    """Write the cluster as CSV files, and pictures if ``picture``; return the paths."""
    datasets.write(result.instance, folder / "cluster")
    pictures: dict[str, Any] = {}
    if picture:
        drf = result.allocations["DRF"]
        pictures = {"shares.png": result.plot(), "dominant-shares.png": drf.plot("dominant").figure}
    for name, figure in pictures.items():
        write_picture(figure, folder / name)
    return [folder / "cluster", *(folder / name for name in pictures)]
