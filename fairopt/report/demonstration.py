"""The story of ``fairopt demo``: policies on the small example cluster, with what their numbers show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairopt import datasets
from fairopt.blocks.shares import DominantShare
from fairopt.report.comparison import Comparison
from fairopt.report.files import write_picture
from fairopt.report.tables import allocation_tables

__all__ = ["POLICIES", "findings", "save", "story"]

POLICIES = ("drf", "2df", "fds:alpha=1", "tsf", "most-tasks")


def story(result: Comparison) -> Iterator[Any]:
    """The demonstration of `POLICIES` on `fairopt.datasets.demo`, part by part, for `rich` to print."""
    from rich.table import Table

    cluster = result.instance
    yield (
        f"{cluster.n_users} users share {int(cluster.counts.sum())} servers of {cluster.n_servers} classes, with "
        f"{', '.join(cluster.resources[:-1])} and {cluster.resources[-1]}. Together they want more than the capacity, "
        "some may only run on some servers, and "
        f"{int((cluster.weights > 1).sum())} are entitled to twice as much as the others. The policies below answer "
        "differently how many tasks each should run:\n"
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
        f"Why believe it? DRF's answer is {drf.certificate}. The gap bounds how much better any allocation can be, as "
        "a fraction. It is computed from the data above and from prices, which may come from a solver: wrong prices "
        "would only widen the gap. An answer that cannot be certified is not returned.\n"
    )


def findings(result: Comparison) -> list[str]:
    """Sentences on the numbers of the demonstration, made from these numbers."""
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
        f"Most tasks runs {ntt('most tasks')}, the most possible, and gives {len(nothing)} of {instance.n_users} users "
        f"nothing: {', '.join(nothing)}.",
        f"DRF gives every user that could use more the same dominant share per weight, {100 * level:.1f}%, which makes "
        f"{ntt('DRF')} ({', '.join(full)} can run all its tasks on less).",
        f"2-DF looks at the two largest shares of each user. It runs {ntt('2-DF')}, but its smallest dominant share "
        f"per weight is {least_share('2-DF')}, and it uses only {gpus('2-DF')} of the GPUs.",
        f"FDS at alpha = 1 uses {gpus('FDS(alpha=1)')} of the GPUs, DRF {gpus('DRF')}: it gives a user more where the "
        "others lose little.",
        f"TSF compares each user with what it could run alone on the whole cluster. It runs {ntt('TSF')}, and its "
        f"smallest dominant share per weight is {least_share('TSF')}.",
    ]


def save(result: Comparison, folder: Path, picture: bool) -> list[Path]:
    """Write the cluster as CSV files, and pictures of the answers; return the paths."""
    datasets.write(result.instance, folder / "cluster")
    pictures: dict[str, Any] = {}
    if picture:
        drf = result.allocations["DRF"]
        pictures = {"shares.png": result.plot(), "dominant-shares.png": drf.plot("dominant").figure}
    for name, figure in pictures.items():
        write_picture(figure, folder / name)
    return [folder / "cluster", *(folder / name for name in pictures)]
