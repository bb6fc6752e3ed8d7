"""Lowest share first in exact fractions, by plain loops: slow and obviously right. Dominant and k-dominant shares."""

from collections import Counter
from fractions import Fraction
from itertools import count
from math import inf, prod
from typing import Any, NamedTuple


class OracleTask(NamedTuple):
    id: int
    user: str
    server: str
    job: int


class OracleScheduler:
    """Users in the order of their first job, each user's jobs in order.

    ``k``: shares are products of the k largest parts of total capacities. ``order="arrival"``: jobs in order. The tasks
    of a gang start together or not, and are returned one after another.
    """

    def __init__(self, capacities, k=1, on_misfit="skip", order="share", servers=None, placement="first-fit"):
        self.placement = placement
        self.capacities = [[Fraction(c) for c in row] for row in capacities]
        self.total = [sum(column) for column in zip(*self.capacities, strict=True)]
        self.free = [row[:] for row in self.capacities]
        n = len(capacities)
        self.servers = servers or (["pool"] if n == 1 else [f"server{s + 1}" for s in range(n)])
        self.k, self.on_misfit, self.order = k, on_misfit, order
        self.jobs: list[dict[str, Any]] = []
        self.weights: dict[str, Fraction] = {}
        self.limits: dict[str, float] = {}
        self.running: dict[int, tuple[int, int]] = {}  # job and server by task
        self.ids = count()
        self.turns: dict[str, Fraction] = {}  # start tags of next tasks
        self.turn = Fraction(0)  # the largest start tag so far
        self.served: dict[str, int] = {}  # the last task that each user started
        self.gang: list[OracleTask] = []

    def submit(self, user, demands, tasks=1, *, weight=None, limit=None, eligible=None, gang=False, at=None):
        self.weights.setdefault(user, Fraction(1))
        if weight is not None:
            self.weights[user] = Fraction(weight)
        if limit is not None:
            self.limits[user] = limit
        row = [Fraction(d) for d in demands]
        parts = sorted((d / c for d, c in zip(row, self.total, strict=True) if c), reverse=True)
        allowed = [True] * len(self.servers) if eligible is None else list(eligible)
        size = tasks if gang else 1
        if not any(job["left"] for job in self.jobs if job["user"] == user):
            self.turns[user] = max(self.turns.get(user, Fraction(0)), self.turn)
        self.jobs.append(
            dict(user=user, demands=row, left=tasks, allowed=allowed, share=prod(parts[: self.k]), size=size)
        )
        return len(self.jobs) - 1

    def withdraw(self, job):
        left, self.jobs[job]["left"] = self.jobs[job]["left"], 0
        return left

    @property
    def shares(self):
        held = dict.fromkeys(self.weights, Fraction(0))
        for job, _ in self.running.values():
            held[self.jobs[job]["user"]] += self.jobs[job]["share"]
        return held

    def _place(self, job):
        """The server that the rule takes among those where a task of the job fits, the first of equals, or None."""
        fits = [
            s
            for s, free in enumerate(self.free)
            if job["allowed"][s] and all(d <= f for d, f in zip(job["demands"], free, strict=True))
        ]
        if self.placement == "first-fit":
            return fits[0] if fits else None

        def load(s):
            rows = zip(self.capacities[s], self.free[s], job["demands"], strict=True)
            parts = [(c - f + d) / c for c, f, d in rows if c]
            return sum(parts) / len(parts)

        return (max if self.placement == "best-fit" else min)(fits, key=load, default=None)

    def _line(self):
        """Jobs with waiting tasks, the first in line first."""
        users, shares = list(self.weights), self.shares
        runs = Counter(self.jobs[k]["user"] for k, _ in self.running.values())

        def below(job):
            return runs[job["user"]] + job["size"] <= self.limits.get(job["user"], inf)

        waiting = [k for k, job in enumerate(self.jobs) if job["left"] and below(job)]
        if self.order == "arrival":
            return waiting
        turns = {user: 0 if shares[user] else self.turns[user] for user in users}
        last = {user: self.served.get(user, -1) for user in users}
        rank = {u: (shares[u] / self.weights[u], turns[u], last[u], users.index(u)) for u in users}
        return sorted(waiting, key=lambda k: (rank[self.jobs[k]["user"]], k))

    def next_task(self, at=None):
        if self.gang:
            return self.gang.pop(0)
        for k in self._line():
            job, free = self.jobs[k], [row[:] for row in self.free]
            for _ in range(job["size"]):
                s = self._place(job)
                if s is None:
                    break
                self.free[s] = [f - d for f, d in zip(self.free[s], job["demands"], strict=True)]
                self.gang.append(OracleTask(0, job["user"], self.servers[s], k))
            else:
                job["left"] -= job["size"]
                self.turn = max(self.turn, self.turns[job["user"]])
                self.turns[job["user"]] += job["size"] * job["share"] / self.weights[job["user"]]
                self.gang = [task._replace(id=next(self.ids)) for task in self.gang]
                self.served[job["user"]] = self.gang[-1].id
                for task in self.gang:
                    self.running[task.id] = (k, self.servers.index(task.server))
                return self.gang.pop(0)
            self.free, self.gang = free, []
            if self.on_misfit == "stop":
                return None
        return None

    def finish(self, task, at=None):
        job, s = self.running.pop(getattr(task, "id", task))
        self.free[s] = [f + d for f, d in zip(self.free[s], self.jobs[job]["demands"], strict=True)]
