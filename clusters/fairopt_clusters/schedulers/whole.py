"""What is fair where workloads start whole or not at all, beside the divisible answer.

The pods of a queue that ask for the same are one user, whose tasks are 0 or at least the smallest number that starts
together (``MinTasks(..., or_zero=True)``). Who runs is chosen so that as much as possible is kept of what is fair: of a
gang that is larger than the fair share of its queue, which it must have whole, that share counts. How much the others
then get is leximin by fair shares. Both are certified. Each is in the flavor that Kueue gives it if nothing else runs.

Why not leximin alone: of two that cannot both run it takes the one that gets more beyond its fair share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt import Instance, Leximin, MinTasks, Policy, Tasks, Total
from fairopt.errors import FairoptError
from fairopt_clusters.read.queues.cohorts import Together
from fairopt_clusters.read.queues.tree import QueueTree, Workload
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.cohorts import exact, exactly, nodes_of
from fairopt_clusters.schedulers.start import could_start, least_of, missing, parts_of, start

if TYPE_CHECKING:
    import pandas as pd

SECONDS = 10.0
_SMALL = 1e-6  # what a queue counts that is owed nothing


def in_whole_gangs(
    scheduler: Deployed, tree: QueueTree, table: pd.DataFrame, work: Sequence[Workload]
) -> tuple[list[float] | None, list[str]]:
    """For the rows of a table of `beside`: what is fair in whole workloads, None if all start pod by pod; and notes."""
    given, kinds = scheduler.checked(tree), dict[tuple[str, tuple[tuple[str, float], ...]], tuple[int, int]]()
    nodes, total = nodes_of(given), given.total()
    for one in work:
        uses = one.uses if not one.parts else start(nodes, one, (), lambda *_: []).uses
        pods = sum(part.pods for part in parts_of(one))
        least = least_of(one)
        if any(uses.values()) and all(total.get(cell) for cell, amount in uses.items() if amount):
            each = tuple(sorted((cell, float(amount) / pods) for cell, amount in uses.items() if amount))
            smallest, number = kinds.get((one.queue, each), (least, 0))
            kinds[one.queue, each] = min(least, smallest), number + pods
    if all(first <= 1 for first, _ in kinds.values()) or table["fair"].isna().any():
        return None, []
    cells, users = [*total], [f"{queue} {k}" for k, (queue, _) in enumerate(kinds, 1)]
    of_queue = {queue: [j for j, (of, _) in enumerate(kinds) if of == queue] for queue, _ in kinds}
    rows, parts = table.to_dict("records"), dict[tuple[str, str], float]()  # of what queues ask for, what is fair
    for row in rows:
        parts[row["queue"], row["resource"]] = min(1.0, row["fair"] / row["asks"]) if row["asks"] else 0.0
    demands = np.array([[dict(each).get(cell, 0.0) for cell in cells] for _, each in kinds])
    starting, numbers = (np.array([of[k] for of in kinds.values()], dtype=float) for k in (0, 1))
    share = (demands / [total[cell] for cell in cells]).max(axis=1)  # of a pod
    due = [min(parts[queue, cell] for cell, _ in each) for queue, each in kinds]
    fair = np.maximum(due, _SMALL) * share * numbers
    fair = np.array([float(f"{one:.9g}") for one in fair])  # so that ties do not depend on rounding
    most = np.minimum(numbers, np.maximum(starting, fair / share))  # of which all that is fair counts
    limits = [
        {"name": f"{cell} {k}", "resource": cell, "amount": amount, "of": of}
        for cell in cells
        for k, (names, amount) in enumerate(_sums(given, cell, [*of_queue]), 1)
        if amount < total[cell] and (of := [users[j] for queue in names for j in of_queue[queue]])
    ]
    capacities = [[total[cell] for cell in cells]]
    options: dict[str, Any] = {"users": users, "resources": cells, "limits": limits}
    worth = fair / most  # of a pod
    chosen = Instance(demands / worth[:, None], capacities, task_limits=fair, **options)
    starts = {user: float(v * of) for user, v, of in zip(users, starting, worth, strict=True) if v > 1}
    try:
        rule = [MinTasks(starts, or_zero=True)]
        runs = Policy(Total(Tasks()), rule).allocate(chosen, time_limit=SECONDS).tasks > _SMALL * fair
        at_least = np.where(runs & (starting > 1), starting, 0.0)
        rest = Instance(demands, capacities, task_limits=np.where(runs, numbers, 0.0), weights=fair, **options)
        tasks = Policy(Leximin(), [MinTasks(at_least)]).allocate(rest, time_limit=SECONDS).tasks
    except FairoptError as error:
        return None, [f"no certified answer in whole workloads: {str(error).partition('. ')[0]}"]
    sums = dict[tuple[str, str], float]()
    for (queue, each), number in zip(kinds, tasks.tolist(), strict=True):
        for cell, amount in each:
            sums[queue, cell] = sums.get((queue, cell), 0.0) + number * amount
    return [sums.get((row["queue"], row["resource"]), 0.0) for row in rows], []


def _sums(tree: QueueTree, cell: str, queues: Sequence[str]) -> list[tuple[tuple[str, ...], float]]:
    """What queues may use of a cell together."""
    sums = Together(nodes_of(tree).values()).sums(cell, dict.fromkeys(queues, math.inf))
    return [(one.queues, one.amount) for _, one in sums]


def never_start(tree: QueueTree, work: Sequence[Workload]) -> list[tuple[Workload, list[str]]]:
    """What could not start if nothing else ran, and why."""
    nodes = nodes_of(tree, exact)
    given = map(exactly, work)
    return [(one, missing(nodes[one.queue], one)[1]) for one in given if not could_start(nodes, one)]
