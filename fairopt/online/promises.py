"""What a replay kept of promises to users who wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.online.timeline import Timeline
from fairopt.runtime.arrays import Bool, Float, Indices


def service_gap(run: Timeline, cost: Mapping[str, float] | None = None) -> tuple[float, float]:
    """The largest difference of service per weight of two users while both wait, and the bound of VTC's Theorem 4.8.

    Parameters
    ----------
    run : Timeline
        A replay.
    cost : dict of float by resource, optional
        What counts as service. Default: the share of the timeline.

    Returns
    -------
    tuple of float
        The difference, and twice the largest cost of a task per weight.

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1], 1, tasks=9), fo.Job("B", [1], 1, tasks=9, arrival=5)]
    >>> fo.online.service_gap(fo.simulate([1], jobs))
    (1.0, 2.0)
    """
    users, _, weights = who(run)
    costs = service_per_weight(run, cost)
    n, served = len(weights), np.zeros(len(weights))
    high, low = np.full((n, n), -np.inf), np.full((n, n), np.inf)
    gap, both = 0.0, np.zeros((n, n), dtype=bool)
    for k, waiting in enumerate(_waiting(run)):
        still = np.logical_and.outer(waiting, waiting)
        difference = np.subtract.outer(served, served)
        high = np.where(both & still, high, difference)
        low = np.where(both & still, low, difference)
        served[users[k]] += costs[k]
        difference = np.subtract.outer(served, served)
        np.maximum(high, difference, out=high)
        np.minimum(low, difference, out=low)
        gap = max(gap, float((high - low)[still].max(initial=0.0)))
        both = still
    return gap, 2.0 * float(costs.max(initial=0.0))


def longest_wait(run: Timeline, newcomers: bool = False) -> dict[str, int]:
    """The most tasks of others that started while a user waited for its next one.

    Parameters
    ----------
    run : Timeline
        A replay.
    newcomers : bool, default False
        Count the wait for a user's first task only.

    Returns
    -------
    dict of int by user

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1], 1, tasks=9), fo.Job("B", [1], 1, tasks=9, arrival=5)]
    >>> run = fo.simulate([1], jobs)
    >>> fo.online.longest_wait(run), fo.online.longest_wait(run, newcomers=True)
    ({'A': 1, 'B': 1}, {'A': 0, 'B': 0})
    """
    users, *_ = who(run)
    passed, most = np.zeros(len(run.users), dtype=int), np.zeros(len(run.users), dtype=int)
    seen = np.zeros(len(run.users), dtype=bool)
    for user, waiting in zip(users.tolist(), _waiting(run), strict=True):
        passed = np.where(waiting, passed + 1, 0)
        passed[user] = 0
        seen[user] = True
        most = np.maximum(most, np.where(seen, 0, passed) if newcomers else passed)
    return dict(zip(run.users, most.tolist(), strict=True))


def of_old_users(run: Timeline) -> dict[str, int]:
    """How many tasks of users who had been served started while each user waited for its first one."""
    users, *_ = who(run)
    passed, seen = np.zeros(len(run.users), dtype=int), np.zeros(len(run.users), dtype=bool)
    for user, waiting in zip(users.tolist(), _waiting(run), strict=True):
        passed += seen[user] & waiting & ~seen
        seen[user] = True
    return dict(zip(run.users, passed.tolist(), strict=True))


def who(run: Timeline) -> tuple[Indices, Indices, Float]:
    """The users of tasks in order of start, those of jobs, and weights of users."""
    of_job = run.table.user_of_kind[run.table.kind]
    return of_job[run.task_job], of_job, run.table.weights


def service_per_weight(run: Timeline, cost: Mapping[str, float] | None) -> Float:
    """The service of each task over its user's weight, in order of start."""
    kinds, (users, _, weights) = run.table.kind[run.task_job], who(run)
    if cost is None:
        return np.asarray(run.share_per_task[kinds] / weights[users], dtype=float)
    resources = run.cluster.resources
    for name in cost:
        if name not in resources:
            raise InvalidInstance(f"cost names {name!r}; {nearest(name, resources)}")
    costs = run.table.demands[kinds] @ np.array([cost.get(name, 0.0) for name in resources])
    return np.asarray(costs / weights[users])


def _waiting(run: Timeline) -> Iterator[Bool]:
    """Which users wait just before each start."""
    users, of_job, weights = who(run)
    arrival, tasks = run.table.arrival, run.table.tasks
    order, arrived, left = np.argsort(arrival, kind="stable"), 0, np.zeros(len(weights))
    for user, start in zip(users.tolist(), run.start.tolist(), strict=True):
        while arrived < len(order) and arrival[order[arrived]] <= start:
            left[of_job[order[arrived]]] += tasks[order[arrived]]
            arrived += 1
        yield left > 0
        left[user] -= 1
