"""Promises to users who wait, tried on random traces: the smallest trace that breaks one."""

from __future__ import annotations

import csv
import io
import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fairopt.blocks.base import brief
from fairopt.errors import InvalidBlock, nearest
from fairopt.io import escaped
from fairopt.io.saving import write_whole
from fairopt.online.jobs import Job
from fairopt.online.promises import longest_wait, of_old_users, service_gap, service_per_weight, who
from fairopt.online.scheduler import Scheduler
from fairopt.online.simulation import simulate
from fairopt.online.timeline import Timeline
from fairopt.online.usage import Usage
from fairopt.properties.names import require_whole
from fairopt.runtime.arrays import Float

Cost: TypeAlias = Mapping[str, float] | None
Replay: TypeAlias = Callable[[Sequence[Job]], Timeline]
SHRUNK = 8  # so many traces that break a promise are made smaller, and the smallest is shown
ROOM = 1e6  # of resources other than the slot, which only count
TOLERANCE = 1e-9


@dataclass(frozen=True)
class BrokenPromise:
    """A trace on which a promise is broken.

    Attributes
    ----------
    promise : str
        Its name.
    sentence : str
        What happens.
    jobs : tuple of Job
        The trace, for `simulate`.
    capacities : dict of float by resource
        The server.

    Examples
    --------
    >>> import fairopt as fo
    >>> print(fo.online.try_promise("bounded-difference", fo.online.Slurm(sampling=1)))
    the service of users who both wait differs by 3, more than 2; A: 4 tasks from 0; B: 3 tasks from 3
    """

    promise: str
    sentence: str
    jobs: tuple[Job, ...]
    capacities: Mapping[str, float]

    def __str__(self) -> str:
        return "; ".join([self.sentence, *map(_text, self.jobs)])

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace as a table that `read_jobs` and ``fairopt simulate --capacity slot=1`` read; its path."""
        path, names = Path(path), list(self.capacities)
        if path.suffix.lower() != ".csv":
            raise InvalidBlock(f"cannot write {path}; give a name that ends in .csv")
        table = io.StringIO()
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow(["user", "arrival", "duration", "tasks", "weight", "gang", *map(escaped, names)])
        for job in self.jobs:
            units = _units(job, names)
            row = [units.get(name, 0) for name in names]
            rows.writerow([escaped(job.user), job.arrival, job.duration, job.tasks, job.weight, int(job.gang), *row])
        write_whole(path, table.getvalue())
        return path


def try_promise(
    promise: str,
    usage: Usage | None = None,
    *,
    cost: Mapping[str, float] | None = None,
    traces: Iterable[Sequence[Job]] | None = None,
    capacities: Mapping[str, float] | None = None,
    tries: int = 400,
    seed: int = 0,
) -> BrokenPromise | None:
    """The smallest trace that was found on which a `Scheduler` breaks a promise; None if it kept it on all.

    Parameters
    ----------
    promise : {"bounded-difference", "no-starvation", "newcomers", "splitting"}
        The service per weight of two users who both wait differs by at most twice the largest cost of a task. While a
        user waits, each other starts at most 1 + (largest cost / smallest cost) tasks on average. A user who waits for
        its first task waits only for the first tasks of others. No user ever has more tasks started by giving every
        other one to a second name.
    usage : Usage, optional
        What the scheduler remembers.
    cost : dict of float by resource, optional
        What counts as service. Default: the cost of the usage, or else slots.
    traces : iterable of lists of Job, optional
        Traces to try in place of random ones.
    capacities : dict of float by resource, optional
        Default: one slot, and room for all else.
    tries, seed : int
        Random traces have 2 to 9 jobs of two users, whose tasks take a slot for a time of 1. Samples and half-lives of
        deployed rules should be as short.

    Returns
    -------
    BrokenPromise or None

    Examples
    --------
    >>> import fairopt as fo
    >>> tokens = {"input": 1, "output": 2}
    >>> fo.online.try_promise("bounded-difference", fo.online.VTC(cost=tokens)) is None
    True
    >>> fair_in_requests = fo.online.VTC(cost={"slot": 1})
    >>> print(fo.online.try_promise("bounded-difference", fair_in_requests, cost=tokens).sentence)
    the service of users who both wait differs by 15, more than 14
    """
    if not isinstance(promise, str) or promise not in PROMISES:
        raise InvalidBlock(f"promise is {promise!r}; {nearest(promise, PROMISES)}")
    if usage is not None and not isinstance(usage, Usage):
        raise InvalidBlock(f"usage is {brief(usage)}; give one such as fo.online.Usage(half_life=3600)")
    require_whole(tries, "tries")
    require_whole(seed, "seed", 0)
    cost = usage.cost if cost is None and usage is not None else Usage(cost=cost).cost
    if not isinstance(capacities, Mapping | None):
        raise InvalidBlock(f"capacities is {capacities!r}; give a dict by resource, such as {{'slot': 3}}")
    if not isinstance(traces, Iterable | None):
        raise InvalidBlock(f"traces is {traces!r}; give a list of lists of Job")
    server, judge = dict.fromkeys(cost or (), ROOM) | {"slot": 1} | dict(capacities or {}), PROMISES[promise]
    first = Scheduler(server, usage=usage)

    def replay(jobs: Sequence[Job]) -> Timeline:
        scheduler = Scheduler(first.instance, usage=usage)
        scheduler.requests = first.requests  # traces have the same few tasks, which are checked once
        return simulate(first.instance, jobs, first.requests.share, scheduler=scheduler)

    def broken(jobs: Sequence[Job]) -> str | None:
        return judge(replay, jobs, cost)

    def smallest() -> Iterator[list[Job]]:
        tried: Iterable[Any] = _random_traces(list(server), tries, seed) if traces is None else traces
        for trace in tried:
            if not isinstance(trace, Iterable):
                what = "a job" if isinstance(trace, Job) else brief(trace)
                raise InvalidBlock(f"traces holds {what}; give a list of lists of Job, as [jobs]")
            jobs = list(trace)
            if jobs and broken(jobs):
                while (less := next(filter(broken, _smaller(jobs)), None)) is not None:
                    jobs = less
                yield jobs

    best = min(islice(smallest(), SHRUNK), key=_size, default=None)
    if best is None:
        return None
    best = sorted(best, key=lambda job: job.arrival)
    if traces is None:  # names of users say nothing
        names = dict(zip(dict.fromkeys(job.user for job in best), "AB", strict=False))
        best = [replace(job, user=names[job.user]) for job in best]
    return BrokenPromise(promise, str(broken(best)), tuple(best), server)


def in_two(jobs: Sequence[Job], user: str) -> list[Job]:
    """The jobs if every other task of a user is of a second one."""
    halves, turn = list[Job](), 0
    for job in jobs:
        if job.user != user:
            halves.append(job)
            continue
        for name, tasks in ((f"{user} 1", job.tasks - (job.tasks + turn) // 2), (f"{user} 2", (job.tasks + turn) // 2)):
            halves += [replace(job, user=name, tasks=tasks)] if tasks else []
        turn = (turn + job.tasks) % 2
    return halves


def _difference(replay: Replay, jobs: Sequence[Job], cost: Cost) -> str | None:
    """Theorem 4.8 of Sheng et al. (2024)."""
    gap, bound = service_gap(replay(jobs), cost)
    if gap <= bound * (1 + TOLERANCE):
        return None
    return f"the service of users who both wait differs by {gap:g}, more than {bound:g}"


def _starvation(replay: Replay, jobs: Sequence[Job], cost: Cost) -> str | None:
    run = replay(jobs)
    costs = service_per_weight(run, cost)
    least = costs[costs > 0].min(initial=math.inf)
    bound = (len(run.users) - 1) * math.floor(1 + costs.max(initial=0.0) / least + TOLERANCE)
    user, many = max(longest_wait(run).items(), key=lambda one: one[1])
    return None if many <= bound else f"{user} waits while others start {many} tasks, more than {bound}"


def _newcomers(replay: Replay, jobs: Sequence[Job], cost: Cost) -> str | None:
    many = of_old_users(replay(jobs))
    user = max(many, key=many.__getitem__)
    return f"{user} waits for its first task while others start {many[user]} after their first" if many[user] else None


def _splitting(replay: Replay, jobs: Sequence[Job], cost: Cost) -> str | None:
    whole = replay(jobs)
    for user in whole.users:
        run = replay(in_two(jobs, user))
        before, after = _starts(whole, {user}), _starts(run, {f"{user} 1", f"{user} 2"})
        times = np.unique(after)
        counts = np.searchsorted(after, times, side="right"), np.searchsorted(before, times, side="right")
        k = int(np.argmax(counts[0] - counts[1]))
        if counts[0][k] > counts[1][k]:
            two, one = int(counts[0][k]), int(counts[1][k])
            started = f"{two} task{'s' * (two != 1)} by time {times[k]:g}"
            return f"{user} has started {started} under two names, {one} under one"
    return None


def _starts(run: Timeline, users: set[str]) -> Float:
    """When the tasks of some users start, in order."""
    mine = np.array([user in users for user in run.users])
    return np.asarray(run.start[mine[who(run)[0]]], dtype=float)


PROMISES: dict[str, Callable[[Replay, Sequence[Job], Cost], str | None]] = {
    "bounded-difference": _difference,
    "no-starvation": _starvation,
    "newcomers": _newcomers,
    "splitting": _splitting,
}


def _random_traces(resources: Sequence[str], tries: int, seed: int) -> Iterator[list[Job]]:
    """Traces of two users on one slot, first of few jobs."""
    draw = random.Random(seed)
    for k in range(tries):
        yield [
            Job(
                "AB"[draw.randrange(2)],
                {name: 1 if name == "slot" else draw.randint(1, 4) for name in resources},
                1,
                tasks=draw.randint(1, draw.choice((8, 8, 40))),
                arrival=draw.randint(0, draw.choice((8, 8, 40))),
            )
            for _ in range(2 + 8 * k // tries)
        ]


def _units(job: Job, resources: Iterable[str] = ()) -> dict[str, Any]:
    """Demands by resource; those of a row only of known resources."""
    if isinstance(job.demands, Mapping):
        return dict(job.demands)
    return dict(zip(resources, np.asarray(job.demands).tolist(), strict=False))


def _size(jobs: Sequence[Job]) -> tuple[float, ...]:
    """Which traces are smaller: few jobs, tasks, late arrivals and units."""
    tasks, arrivals = sum(job.tasks for job in jobs), sum(float(job.arrival) for job in jobs)
    return len(jobs), tasks, arrivals, sum(sum(_units(job).values()) for job in jobs)


def _smaller(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Traces with less: jobs, tasks, later arrivals, or demands."""
    first = min(int(job.arrival) for job in jobs)
    if first > 0:
        yield [replace(job, arrival=job.arrival - first) for job in jobs]
    for k, job in enumerate(jobs):
        before, after = jobs[:k], jobs[k + 1 :]
        if len(jobs) > 1:
            yield [*before, *after]
        for tasks in sorted({1, job.tasks // 2, job.tasks - 1} - {0, job.tasks}):
            yield [*before, replace(job, tasks=tasks), *after]
        for arrival in sorted({0, int(job.arrival) - 1} - {-1, job.arrival}):
            yield [*before, replace(job, arrival=arrival), *after]
        units = _units(job)
        for name in [name for name, number in units.items() if number > 1]:
            yield [*before, replace(job, demands=units | {name: units[name] - 1}), *after]
        for other in after:
            if not job.gang and replace(other, tasks=job.tasks) == job:  # a larger gang may not fit
                yield [
                    *before,
                    replace(job, tasks=job.tasks + other.tasks),
                    *(one for one in after if one is not other),
                ]
    if len(jobs) == 2 and all(job.tasks > 1 for job in jobs):
        yield [replace(job, tasks=job.tasks - 1) for job in jobs]


def _text(job: Job) -> str:
    """A job in words."""
    units = ", ".join(f"{number:g} {name}" for name, number in _units(job).items() if name != "slot")
    many = f"{job.tasks} task{'s' * (job.tasks > 1)}"
    return f"{job.user}: {many}{f' of {units}' if units else ''} from {job.arrival:g}"
