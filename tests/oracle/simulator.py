"""A cluster moment by moment in exact fractions, by plain loops: slow and obviously right.

Policies are first come, first served (``stop``: nothing passes the first job in line; ``skip``: who fits passes it),
EASY backfilling, DRF and hierarchical DRF; tasks go to the first server where they fit. Gangs start together or not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import fairopt as fo

POLICIES = ("fcfs", "stop", "easy", "drf", "hdrf")


class Started(NamedTuple):
    """One task that started."""

    start: Fraction
    job: int
    server: int


def simulated(capacities: list[list[Any]], jobs: list[fo.Job], policy: str, of_team: dict[str, Any]) -> list[Started]:
    """All tasks in order of their start."""
    cluster = Cluster(capacities, jobs, of_team)
    times = {Fraction(job.arrival) for job in jobs}
    while times:
        cluster.now = min(times)
        times.remove(cluster.now)
        while (found := getattr(cluster, policy)()) is not None:
            job, servers = found
            for s in servers:
                cluster.started.append(Started(cluster.now, job, s))
                times.add(cluster.now + Fraction(jobs[job].duration))
    return cluster.started


class Cluster:
    """What ran until now, and which job is next."""

    def __init__(self, capacities: list[list[Any]], jobs: list[fo.Job], of_team: dict[str, Any]) -> None:
        self.capacities = [[Fraction(c) for c in row] for row in capacities]
        self.total = [sum(column) for column in zip(*self.capacities, strict=True)]
        self.jobs, self.of_team, self.now = jobs, of_team, Fraction(0)
        self.demands = [[Fraction(d) for d in job.demands] for job in jobs]
        self.order = sorted(range(len(jobs)), key=lambda k: jobs[k].arrival)
        self.started: list[Started] = []

    # -- what is free ---------------------------------------------------------------------------------------------

    def running(self) -> list[Started]:
        return [task for task in self.started if task.start + Fraction(self.jobs[task.job].duration) > self.now]

    def free(self, at: Fraction | None = None) -> list[list[Fraction]]:
        """What is free now, or at a later moment if running tasks end at their limits."""
        room = [row[:] for row in self.capacities]
        for task in self.running():
            job = self.jobs[task.job]
            if at is None or planned(task.start, job) > at:
                room[task.server] = _less(room[task.server], self.demands[task.job])
        return room

    def waiting(self) -> list[int]:
        """Jobs with waiting tasks, in order of arrival."""
        runs = [task.job for task in self.started]
        return [k for k in self.order if self.jobs[k].arrival <= self.now and runs.count(k) < self.jobs[k].tasks]

    def placed(self, k: int, room: list[list[Fraction]]) -> list[int] | None:
        """First fit of the next task of a job, or of its gang."""
        room, servers = [row[:] for row in room], list[int]()
        for _ in range(self.jobs[k].tasks if self.jobs[k].gang else 1):
            for s, row in enumerate(room):
                allowed = self.jobs[k].eligible is None or self.jobs[k].eligible[s]
                if allowed and all(d <= f for d, f in zip(self.demands[k], row, strict=True)):
                    room[s] = _less(row, self.demands[k])
                    servers.append(s)
                    break
            else:
                return None
        return servers

    def first(self, line: list[int]) -> tuple[int, list[int]] | None:
        """The first job of a line that fits."""
        free = self.free()
        for k in line:
            if (servers := self.placed(k, free)) is not None:
                return k, servers
        return None

    # -- policies -------------------------------------------------------------------------------------------------

    def fcfs(self) -> Any:
        return self.first(self.waiting())

    def stop(self) -> Any:
        return self.first(self.waiting()[:1])

    def easy(self) -> Any:
        line = self.waiting()
        if (found := self.first(line[:1])) is not None or not line:
            return found
        head = line[0]
        ends = sorted({planned(t.start, self.jobs[t.job]) for t in self.running()})
        moment = next(end for end in ends if self.placed(head, self.free(end)) is not None)
        later = self.free(moment)
        for s in self.placed(head, later) or ():
            later[s] = _less(later[s], self.demands[head])
        for k in line[1:]:
            free, job = self.free(), self.jobs[k]
            if planned(self.now, job) > moment:
                free = [[min(a, b) for a, b in zip(*rows, strict=True)] for rows in zip(free, later, strict=True)]
            if (servers := self.placed(k, free)) is not None:
                return k, servers
        return None

    def users(self) -> list[str]:
        """In order of their first submission."""
        return list(dict.fromkeys(self.jobs[k].user for k in self.order if self.jobs[k].arrival <= self.now))

    def vector(self, user: str) -> list[Fraction]:
        """What a user's running tasks hold, as parts of total capacities."""
        held = [Fraction(0)] * len(self.total)
        for task in self.running():
            if self.jobs[task.job].user == user:
                parts = zip(self.demands[task.job], self.total, strict=True)
                held = _less(held, [-d / c if c else Fraction(0) for d, c in parts])
        return held

    def drf(self) -> Any:
        users, weight = self.users(), {job.user: Fraction(job.weight) for job in self.jobs}
        share = dict.fromkeys(users, Fraction(0))
        for task in self.running():  # the sum of dominant shares of tasks
            parts = [d / c for d, c in zip(self.demands[task.job], self.total, strict=True) if c]
            share[self.jobs[task.job].user] += max(parts)
        turns = {user: Fraction(0) if share[user] else turn for user, turn in self.turns(weight, self.user).items()}
        served = self.served(self.user)
        rank = {u: (share[u] / weight[u], turns[u], served.get(u, -1), users.index(u)) for u in users}
        return self.first(sorted(self.waiting(), key=lambda k: rank[self.jobs[k].user]))

    def user(self, k: int) -> Any:
        return self.jobs[k].user

    def child(self, k: int) -> Any:
        """The team of a job's user, or the user."""
        job = self.jobs[k]
        return ("team", job.team) if job.team else ("user", job.user)

    def served(self, name: Callable[[int], Any]) -> dict[Any, int]:
        """The last task of each user, or of what else is a name of a job."""
        return {name(task.job): number for number, task in enumerate(self.started)}

    def turns(
        self, weight: dict[Any, Fraction], name: Callable[[int], Any], of: Callable[[int], bool] = lambda _: True
    ) -> dict[Any, Fraction]:
        """What each name of some jobs was given per weight, from what had been given when it began to wait."""
        events = [(Fraction(self.jobs[k].arrival), 0, place, k) for place, k in enumerate(self.order)]
        events = [event for event in events if event[0] <= self.now]
        events += [(task.start, 1, place, task.job) for place, task in enumerate(self.started)]
        events = [event for event in events if of(event[-1])]
        turns, waits, latest, gangs = dict[Any, Fraction](), dict[Any, int](), Fraction(0), set[int]()
        for _, starts, _, k in sorted(events):
            job, user = self.jobs[k], name(k)
            if not starts:
                if not waits.get(user):
                    turns[user] = max(turns.get(user, Fraction(0)), latest)
                waits[user] = waits.get(user, 0) + int(job.tasks)
            elif k not in gangs:
                latest, size = max(latest, turns[user]), int(job.tasks) if job.gang else 1
                parts = [d / c for d, c in zip(self.demands[k], self.total, strict=True) if c]
                turns[user] += size * max(parts) / weight[user]
                waits[user] -= size
                gangs |= {k} if job.gang else set()
        return turns

    def hdrf(self) -> Any:
        users = self.users()
        team = {job.user: job.team for job in self.jobs}
        weight = {job.user: Fraction(job.weight) for job in self.jobs}
        vectors = {user: self.vector(user) for user in users}
        used = [sum(column) for column in zip(*vectors.values(), strict=True)]
        counts = [i for i, c in enumerate(self.total) if c and used[i] < 1]
        line = self.waiting()
        of_user = {user: self.first([k for k in line if self.jobs[k].user == user]) for user in users}
        next_of = {user: found for user, found in of_user.items() if found is not None}

        def level(vector: list[Fraction], by: Fraction) -> Fraction:
            return max((vector[i] for i in counts), default=Fraction(0)) / by

        levels = {user: level(vectors[user], weight[user]) for user in users}
        own = {user: max(vectors[user]) / weight[user] for user in users}
        children: dict[Any, list[str]] = {}
        for user in users:
            children.setdefault(("team", team[user]) if team[user] else ("user", user), []).append(user)
        of_child = {
            child: Fraction(self.of_team.get(child[1], 1)) if child[0] == "team" else weight[child[1]]
            for child in children
        }
        turns, served = self.turns(of_child, self.child), self.served(self.child)
        best = []
        for place, (child, members) in enumerate(children.items()):
            rising = [user for user in members if user in next_of]
            if not rising:
                continue
            by = of_child[child]
            low = min(levels[user] for user in rising)
            scaled, plain = [Fraction(0)] * len(self.total), [Fraction(0)] * len(self.total)
            for user in members:
                factor = low / levels[user] if user in rising and levels[user] > low else Fraction(1)
                scaled = _less(scaled, [-factor * v for v in vectors[user]])
                plain = _less(plain, [-v for v in vectors[user]])
            turn = Fraction(0) if any(plain) else turns[child]
            best.append((level(scaled, by), max(plain) / by, turn, served.get(child, -1), place, child, rising))
        if not best:
            return None
        *_, child, rising = min(best)
        turns, served = self.turns(weight, self.user, lambda k: self.child(k) == child), self.served(self.user)
        rank = {
            u: (levels[u], own[u], Fraction(0) if own[u] else turns[u], served.get(u, -1), users.index(u))
            for u in rising
        }
        return next_of[min(rising, key=rank.__getitem__)]


def planned(start: Fraction, job: fo.Job) -> Any:
    """When a job that starts ends at its limit."""
    return start + Fraction(job.walltime) if job.walltime != math.inf else math.inf


def _less(row: list[Fraction], other: list[Fraction]) -> list[Fraction]:
    return [a - b for a, b in zip(row, other, strict=True)]


# -- random traces ------------------------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[list[list[int]], list[fo.Job], dict[str, int]]:
    """Servers, jobs of users in teams, and weights of teams: small whole numbers, so that times and levels tie."""
    r = random.Random(seed)
    m, n_servers = r.randint(1, 3), r.choice([1, 1, 2, 3])
    capacities = [[r.choice([2, 4, 6, 8]) for _ in range(m)] for _ in range(n_servers)]
    users = [(f"u{j}", r.choice([None, "x", "y"]), r.choice([1, 1, 2])) for j in range(r.randint(1, 5))]
    jobs = []
    for _ in range(r.randint(2, 18)):
        home = r.randrange(n_servers)
        mask = [s == home or r.random() < 0.5 for s in range(n_servers)] if r.random() < 0.3 else None
        demands = [r.choice([0, 0, 1, 1, 2, c]) for c in capacities[home]]
        demands = [min(d, c) for d, c in zip(demands, capacities[home], strict=True)]
        demands = demands if any(demands) else [1] * m
        places = [s for s in range(n_servers) if mask is None or mask[s]]
        fit = sum(min(capacities[s][i] // d for i, d in enumerate(demands) if d) for s in places)
        gang = r.random() < 0.4
        user, team, weight = r.choice(users)
        duration = r.randint(1, 7)
        options = {"limit": duration + r.choice([0, 1, 4, 9])} if r.random() < 0.6 else {}
        jobs.append(
            fo.Job(
                user,
                demands,
                duration,
                tasks=r.randint(1, fit if gang else 4),
                arrival=r.randint(0, 8),
                weight=weight,
                eligible=mask,
                gang=gang,
                team=team,
                **options,
            )
        )
    return capacities, jobs, {team: r.choice([1, 1, 2]) for team in ("x", "y")}


def scheduler(policy: str, capacities: list[list[int]], of_team: dict[str, int]) -> Any:
    """The scheduler of the package."""
    if policy == "easy":
        return fo.online.BackfillScheduler(capacities)
    if policy == "hdrf":
        return fo.online.HierarchicalScheduler(capacities, of_team)
    if policy == "drf":
        return fo.Scheduler(capacities)
    return fo.Scheduler(capacities, order="arrival", on_misfit="stop" if policy == "stop" else "skip")


def differs(seed: int, policy: str) -> str | None:
    """How the package's simulation of a random trace differs, or None."""
    capacities, jobs, of_team = drawn(seed)
    run = fo.simulate(capacities, jobs, scheduler=scheduler(policy, capacities, of_team))
    exact = simulated(capacities, jobs, policy, of_team)
    found = [*zip(run.start.tolist(), run.task_job.tolist(), run.task_server.tolist(), strict=True)]
    expected = [(float(task.start), task.job, task.server) for task in exact]
    if found == expected:
        return None
    both = enumerate(zip(found, expected, strict=False))
    k = next((k for k, pair in both if pair[0] != pair[1]), min(len(found), len(expected)))
    return f"seed {seed}, {policy}: task {k} is {found[k : k + 1]}, not {expected[k : k + 1]}"
