"""What a replay kept of promises to users who wait; and the smallest trace in which a scheduler breaks one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.online.jobs import Job
from fairopt.online.scheduler import Scheduler
from fairopt.online.simulation import simulate
from fairopt.online.timeline import Timeline
from fairopt.online.usage import Usage
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
    users, _, weights = _who(run)
    costs = _costs(run, cost) / weights[users]
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


def longest_wait(run: Timeline) -> dict[str, int]:
    """The most tasks of others that started while a user waited for its next one.

    Parameters
    ----------
    run : Timeline
        A replay.

    Returns
    -------
    dict of int by user

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.longest_wait(fo.simulate([1], [fo.Job("A", [1], 1, tasks=9), fo.Job("B", [1], 1, tasks=9)]))
    {'A': 1, 'B': 1}
    """
    return _waits(run, newcomers=False)


def newcomer_wait(run: Timeline) -> dict[str, int]:
    """The tasks of others that started between a user's first arrival and its first start.

    Parameters
    ----------
    run : Timeline
        A replay.

    Returns
    -------
    dict of int by user

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1], 1, tasks=9), fo.Job("B", [1], 1, tasks=9, arrival=5)]
    >>> fo.online.newcomer_wait(fo.simulate([1], jobs))
    {'A': 0, 'B': 0}
    """
    return _waits(run, newcomers=True)


def gain_of_splitting(capacities: Any, jobs: Sequence[Job], user: str, usage: Usage, until: float) -> int:
    """How many more tasks of a user start before a time if each of its jobs goes by turns to one of two names.

    Parameters
    ----------
    capacities : array-like, dict by resource, or Instance
        As for `simulate`.
    jobs : sequence of Job
        Of all users.
    user : str
        Who splits; both halves keep its weight.
    usage : Usage
        What the scheduler remembers.
    until : float
        The time.

    Returns
    -------
    int

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job(user, [1], 1) for user in "AB" * 6]
    >>> fo.online.gain_of_splitting([1], jobs, "A", fo.online.VTC(cost={"resource1": 1}), until=6)
    1
    """
    if user not in (names := list(dict.fromkeys(job.user for job in jobs))):
        raise InvalidInstance(f"no job of user {user!r}; {nearest(user, names)}")
    own = [k for k, job in enumerate(jobs) if job.user == user]
    halves = list(jobs)
    for turn, k in enumerate(own):
        halves[k] = replace(jobs[k], user=f"{user} {turn % 2 + 1}")
    counts = []
    for trace in (jobs, halves):
        run = simulate(capacities, trace, scheduler=Scheduler(capacities, usage=usage))
        counts.append(int(np.isin(run.task_job[run.start < until], own).sum()))
    return counts[1] - counts[0]


def smallest_trace(
    usage: Usage,
    broken: Callable[[Timeline], Any],
    *,
    resources: Sequence[str] = ("slot",),
    users: int = 2,
    tries: int = 2000,
    seed: int = 0,
) -> list[Job] | None:
    """The smallest trace on one slot that breaks a promise, found by a random search and then made smaller.

    Parameters
    ----------
    usage : Usage
        What the scheduler remembers.
    broken : callable
        Whether a promise is broken in a `Timeline`.
    resources : sequence of str, default ("slot",)
        A task takes 1 of the first, of which there is 1, and 1 to 4 of each other, of which there is enough.
    users : int, default 2
        The most users.
    tries : int, default 2000
        Traces that are tried.
    seed : int, default 0
        Of the search.

    Returns
    -------
    list of Job, or None if none was found

    Examples
    --------
    Counters without lift let a newcomer have more than its part:

    >>> import fairopt as fo
    >>> def unfair(run):
    ...     gap, bound = fo.online.service_gap(run, {"slot": 1})
    ...     return gap > bound
    >>> for job in fo.online.smallest_trace(fo.online.VTC(cost={"slot": 1}, lift=False), unfair):
    ...     print(job.user, job.tasks, "from", job.arrival)
    B 4 from 0
    A 3 from 3
    >>> fo.online.smallest_trace(fo.online.VTC(cost={"slot": 1}), unfair, tries=200) is None
    True
    """
    if not (isinstance(users, int) and 1 <= users <= 26):
        raise InvalidBlock(f"users is {users!r}; give a whole number from 1 to 26")
    draw = random.Random(seed)

    def breaks(jobs: Sequence[Job]) -> bool:
        room = [1, *[1000] * (len(resources) - 1)]
        labels = dict(zip(resources, room, strict=True))
        return bool(broken(simulate(labels, jobs, scheduler=Scheduler(labels, usage=usage))))

    for k in range(tries):
        size = 2 + 8 * k // tries
        jobs = [
            Job(
                chr(65 + draw.randrange(users)),
                dict(zip(resources, [1, *(draw.randint(1, 4) for _ in resources[1:])], strict=True)),
                1,
                tasks=draw.randint(1, 8),
                arrival=draw.randint(0, 8),
            )
            for _ in range(size)
        ]
        if breaks(jobs):
            while (less := next((one for one in _smaller(jobs) if breaks(one)), None)) is not None:
                jobs = less
            return sorted(jobs, key=lambda job: job.arrival)
    return None


def _smaller(jobs: list[Job]) -> Iterator[list[Job]]:
    """Traces with less: a job, tasks, later arrivals, or demands."""
    for k, job in enumerate(jobs):
        rest = jobs[:k], jobs[k + 1 :]
        if len(jobs) > 1:
            yield [*rest[0], *rest[1]]
        for tasks in sorted({1, job.tasks // 2, job.tasks - 1} - {0, job.tasks}):
            yield [*rest[0], replace(job, tasks=tasks), *rest[1]]
        for arrival in sorted({0, int(job.arrival) - 1} - {-1, job.arrival}):
            yield [*rest[0], replace(job, arrival=arrival), *rest[1]]
        demands = dict(job.demands) if isinstance(job.demands, Mapping) else {}
        for name in [name for name, units in demands.items() if units > 1]:
            yield [*rest[0], replace(job, demands=demands | {name: demands[name] - 1}), *rest[1]]


def _who(run: Timeline) -> tuple[Indices, Indices, Float]:
    """The users of tasks in order of start, those of jobs, and weights of users."""
    of_job = run.table.user_of_kind[run.table.kind]
    return of_job[run.task_job], of_job, run.table.weights


def _costs(run: Timeline, cost: Mapping[str, float] | None) -> Float:
    """The service of each task, in order of start."""
    kinds = run.table.kind[run.task_job]
    if cost is None:
        return np.asarray(run.share_per_task[kinds], dtype=float)
    resources = run.cluster.resources
    for name in cost:
        if name not in resources:
            raise InvalidInstance(f"cost names {name!r}; {nearest(name, resources)}")
    return np.asarray(run.table.demands[kinds] @ np.array([cost.get(name, 0.0) for name in resources]))


def _waiting(run: Timeline) -> Iterator[Bool]:
    """Which users wait just before each start."""
    users, of_job, weights = _who(run)
    arrival, tasks = run.table.arrival, run.table.tasks
    order, arrived, left = np.argsort(arrival, kind="stable"), 0, np.zeros(len(weights))
    for user, start in zip(users.tolist(), run.start.tolist(), strict=True):
        while arrived < len(order) and arrival[order[arrived]] <= start:
            left[of_job[order[arrived]]] += tasks[order[arrived]]
            arrived += 1
        yield left > 0
        left[user] -= 1


def _waits(run: Timeline, newcomers: bool) -> dict[str, int]:
    """Tasks of others that started while each user waited."""
    users, *_ = _who(run)
    passed, most = np.zeros(len(run.users), dtype=int), np.zeros(len(run.users), dtype=int)
    seen = np.zeros(len(run.users), dtype=bool)
    for user, waiting in zip(users.tolist(), _waiting(run), strict=True):
        passed = np.where(waiting, passed + 1, 0)
        passed[user] = 0
        seen[user] = True
        most = np.maximum(most, np.where(seen, 0, passed) if newcomers else passed)
    return dict(zip(run.users, most.tolist(), strict=True))
