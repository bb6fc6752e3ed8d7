"""Jiang and Wu (2018): the slides of 2-DF, where they print more than the paper of 2021, or other digits.

Run: python benchmarks/papers/jiang_wu_2018.py [--quick]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import jiang_wu_2021 as paper
import numpy as np
from published import Paper, Row, Run, claim, listed, main, number

import fairopt as fo

CLUSTER, D = paper.CLUSTER, paper.CLUSTER.demands


def drf_by_example(run: Run) -> Iterator[Row]:
    """DRF's properties, and what it loses."""
    place, drf = "DRF: properties", fo.DRF().allocate(CLUSTER)
    _, bundles, true = paper.lying(fo.DRF())
    yield number(place, "tasks on 100 units of each resource", "2.5, 12.5", paper.tasks_on(CLUSTER.capacities / 2))
    yield number(place, "tasks after a swap of bundles", "1.6, 4", paper.tasks_on(drf.bundles[::-1, 0]))
    yield number(place, "bundle of user 2 if it reports (10, 9, 9)", "100, 90, 90", bundles[1])
    yield number(place, "true tasks after this misreport", "2.5, 12.5", true)
    place = "DRF: properties, motivation"
    yield number(place, "bundles of 1 and 20 tasks", "40, 8, 8 and 160, 100, 20", [*D[0], *20 * D[1]])
    left, total = paper.unused([1, 20]), drf.tasks.sum()
    measured = f"21 and {total:g} tasks; left: {listed(left)}"
    yield claim(place, "1 and 20 tasks are feasible, and more than under DRF", left.min() >= 0 and total < 21, measured)


def two_df_by_example(run: Run) -> Iterator[Row]:
    """2-DF in whole tasks, a misprint, and a misreport (Fig. 8 of the paper)."""
    place, scheduler = "2-DF: allocation", fo.Scheduler(CLUSTER.capacities[0], fo.KDominantShare(2))
    for user, demands in zip(CLUSTER.users, D, strict=True):
        scheduler.submit(user, demands, 100)
    whole = Counter(task.user for task in iter(scheduler.next_task, None))
    divisible = listed(paper.TWO_DF.allocate(CLUSTER).tasks)
    reading = f"Whole tasks; divisible: {divisible}."
    yield number(place, "tasks under 2-DF", "2, 15", [whole[user] for user in CLUSTER.users], reading=reading)
    cpu = D[:, 2] @ [2, 15]
    why = "The capacity is 200."
    yield claim(place, "CPU: 8 x + y <= 20", cpu <= 20, f"{cpu:g} at x = 2 and y = 15", why=why)
    place, (tasks, bundles, true) = "2-DF: properties", paper.lying(paper.TWO_DF)
    yield number(place, "tasks of user 1 if user 2 reports (10, 9, 9)", "2.65", tasks[0])
    units = bundles[1, 0]
    why = f"It is 200/17; {units:.1f} units of bandwidth were rounded to {units:.0f}."
    yield number(place, "true tasks of user 2 if it reports (10, 9, 9)", "11.75", true[1], why=why)
    left = paper.unused([3, 10])
    yield claim(place, "3 and 10 tasks are feasible", left.min() >= 0, f"left: {listed(left)}")


def first_scenario(run: Run) -> Iterator[Row]:
    """The table of mean NTT, with three decimals."""
    printed = {3: "1.626, 1.342, 1.387", 5: "1.823, 1.481, 1.545"}
    for c, f in paper.scenarios(run).items():
        mean = [f[name] / f["all"] for name in ("NFC", "DRF", "2-DF")]
        yield number("First scenario", f"mean NTT under NFC, DRF, 2-DF, C = {c}", printed[c], mean)


def second_scenario(run: Run) -> Iterator[Row]:
    """The second table of unused resources, Table 3 (b) of the paper."""
    place, (drf, two) = "Second scenario (b)", paper.mean_unused(paper.MIXED, paper.NINE)
    printed, other = ((1218, 1218, 1218), (1271, 998, 1271)), paper.mean_unused((25, 5, 1), paper.NINE)
    yield claim(
        place,
        "user 1 requests (25x, 5x, x)",
        (abs(other - printed) <= 0.5).all(),
        f"{listed(other[0])} and {listed(other[1])}; the printed numbers: {paper.readings(printed)}",
        why="Only (25x, 5x, 5x) gives the printed numbers.",
    )
    reading = "With (25x, 5x, 5x)."
    yield number(place, "mean AUR under DRF, I to III", "1218, 1218, 1218", drf, reading=reading)
    yield number(place, "mean AUR under 2-DF, I and III", "1271, 1271", two[[0, 2]], reading=reading)
    pairs = paper.second_scenario(paper.NINE)[2][1, paper.NINE.index(paper.MIXED)] * np.array([[7.98 / 8], [1]])
    drawn = 3000 - np.einsum("pj,pji->p", fo.allocate_many(paper.TWO_DF, pairs, [1000] * 3).tasks, pairs).mean()
    why = f"Only II depends on x, here 8 and 1; at 7.98 it is {drawn:.1f}."
    yield number(place, "mean AUR under 2-DF, II", "998", two[1], reading=reading, why=why)


EXPERIMENTS = (drf_by_example, two_df_by_example, first_scenario, second_scenario)
PAPER = Paper("jiang-wu-2018", "Jiang and Wu (2018)", "2-DF, the slides", EXPERIMENTS)

if __name__ == "__main__":
    main(PAPER)
