"""Random traces, and those on which schedulers that remember break a promise, or reward a user who splits in two."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import fairopt as fo
from fairopt.online import Timeline, Usage


def requests(seed: int, clients: tuple[int, int] = (2, 20)) -> list[fo.Job]:
    """Requests of some clients with weights and two kinds of tokens, that come and go."""
    draw = random.Random(seed)
    names = [f"c{k}" for k in range(draw.randint(*clients))]
    weights = {name: draw.choice([1, 1, 2, 3]) for name in names}
    return [
        fo.Job(
            name := draw.choice(names),
            {"slot": 1, "prefill": draw.randint(1, 500), "decode": draw.randint(1, 300)},
            draw.randint(1, 4),
            tasks=draw.randint(1, 8),
            arrival=draw.randint(0, 60),
            weight=weights[name],
        )
        for _ in range(draw.randint(5, 60))
    ]


def gain_of_splitting(capacities: Any, jobs: Sequence[fo.Job], user: str, usage: Usage, until: float) -> int:
    """How many more tasks of a user start before a time if each of its jobs goes by turns to one of two names."""
    own = [k for k, job in enumerate(jobs) if job.user == user]
    halves = list(jobs)
    for turn, k in enumerate(own):
        halves[k] = replace(jobs[k], user=f"{user} {turn % 2 + 1}")
    counts = []
    for trace in (jobs, halves):
        run = fo.simulate(capacities, trace, scheduler=fo.Scheduler(capacities, usage=usage))
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
) -> list[fo.Job] | None:
    """The smallest trace on one slot that breaks a promise, found by a random search and then made smaller."""
    draw = random.Random(seed)

    def breaks(jobs: Sequence[fo.Job]) -> bool:
        room = [1, *[1000] * (len(resources) - 1)]
        labels = dict(zip(resources, room, strict=True))
        return bool(broken(fo.simulate(labels, jobs, scheduler=fo.Scheduler(labels, usage=usage))))

    for k in range(tries):
        size = 2 + 8 * k // tries
        jobs = [
            fo.Job(
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


def _smaller(jobs: list[fo.Job]) -> Iterator[list[fo.Job]]:
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
