"""Waiting jobs, and how many of their tasks fit on each server: the base of backfilling and hierarchical DRF."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fairopt.blocks.shares import DominantShare
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.online.task_scheduler import PlacedTask, TaskScheduler, check_tasks
from fairopt.runtime.arrays import Float
from fairopt.solve.whole.servers import Placement, Request, Servers

Key: TypeAlias = tuple[tuple[float, ...], bytes | None]


def is_number(value: Any) -> bool:
    """Whether a value is a real number, and not true or false."""
    return isinstance(value, (int, float, Fraction, np.integer, np.floating)) and not isinstance(value, bool)


class Kinds:
    """How many tasks of each kind fit on each server; a kind is a request. ``total`` is by kind."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.requests: list[Request] = []
        self.number: dict[Key, int] = {}
        self._most = np.zeros((8, servers.n_servers))
        self._units = np.full((8, servers.n_resources), np.inf)
        self._allowed = np.zeros((8, servers.n_servers), dtype=bool)
        self._total = np.zeros(8)

    @property
    def total(self) -> Float:
        """How many tasks of each kind fit on all servers, shape (n_kinds,)."""
        return self._total[: len(self.requests)]

    def add(self, request: Request) -> int:
        """The number of a kind."""
        key = tuple(request.units.tolist()), None if request.allowed is None else request.allowed.tobytes()
        if key not in self.number:
            k = self.number[key] = len(self.requests)
            if k == len(self._total):
                for name in ("_most", "_units", "_allowed", "_total"):
                    setattr(self, name, np.concatenate([getattr(self, name)] * 2))
            self.requests.append(request)
            self._units[k] = np.where(request.units > 0, request.units, np.nan)
            self._allowed[k] = True if request.allowed is None else request.allowed
            self._most[k] = self.servers.most_of(request)
            self._total[k] = self._most[k].sum()
        return self.number[key]

    def changed(self, row: int) -> None:
        """Count again on a server."""
        n = len(self.requests)
        fits = np.fmin.reduce(self.servers.room([row])[0] // self._units[:n], axis=1)
        fits = np.maximum(fits, 0.0) * self._allowed[:n, row]
        self._total[:n] += fits - self._most[:n, row]
        self._most[:n, row] = fits


@dataclass(slots=True, eq=False)
class WaitingJob:
    """A job with waiting tasks: ``size`` of them start together."""

    number: int
    user: str
    kind: int
    size: int
    left: float
    walltime: float


@dataclass(slots=True)
class _Counts:
    """The tasks of a user."""

    running: int = 0
    waiting: float = 0


class WholeJobs(TaskScheduler):
    """A scheduler of jobs on servers; subclasses say which job is next."""

    def __init__(
        self,
        capacities: ArrayLike | Mapping[str, Any] | Instance,
        *,
        resources: Sequence[str] | None = None,
        servers: Sequence[str] | None = None,
        server_types: Sequence[str] | None = None,
        placement: str | Placement = "first-fit",
    ) -> None:
        super().__init__(capacities, DominantShare(), resources, servers, server_types, placement)
        self._kinds = Kinds(self._servers)
        self._jobs: list[WaitingJob] = []
        self._time = -math.inf
        self._prepare()

    def _prepare(self) -> None:
        """Make what a subclass keeps beside it."""

    def _submit(
        self, user: str, demands: Any, tasks: float, weight: float, eligible: Any, gang: bool, walltime: float
    ) -> WaitingJob:
        """A checked job."""
        check_tasks(user, tasks)
        for name, value, most in (("weight", weight, sys.float_info.max), ("walltime", walltime, math.inf)):
            if not is_number(value) or not 0 < value <= most:
                raise InvalidInstance(f"{name} of user {user!r} is {value!r}; give a number > 0")
        _, request, _ = self.requests.of(user, demands, eligible)
        if gang:
            self.requests.check_gang(user, request, tasks)
        size = int(tasks) if gang else 1
        job = WaitingJob(len(self._jobs), user, self._kinds.add(request), size, int(tasks), float(walltime))
        self._jobs.append(job)
        self._users.setdefault(user, _Counts()).waiting += job.left
        return job

    def next_task(self, at: float | None = None) -> PlacedTask | None:
        """Start the next task; None if no task can start now. Tasks of a gang follow one another."""
        if self._gang:
            return self._gang.pop()
        self._advance(at)
        job = self._next()
        if job is None:
            return None
        return self._start(job, self._take(job))

    def finish(self, task: PlacedTask | int, at: float | None = None) -> None:
        """End a running task, and release its resources."""
        number, job, row = self._end(task, at)
        self._servers.give_back(self._kinds.requests[job.kind], row)
        self._kinds.changed(row)
        self._users[job.user].running -= 1
        self._ended(job, row, number)

    def _advance(self, at: float | None) -> None:
        """Set the time of a call."""
        if at is None:
            return
        if not is_number(at) or not self._time <= at < math.inf:
            raise InvalidInstance(f"at is {at!r} after {self._time!r}; give at= as a time that never decreases")
        self._time = float(at)

    def _start(self, job: WaitingJob, rows: list[int]) -> PlacedTask:
        """Record tasks whose resources are taken."""
        for row in dict.fromkeys(rows):
            self._kinds.changed(row)
        job.left -= len(rows)
        counts = self._users[job.user]
        counts.running += len(rows)
        counts.waiting -= len(rows)
        first = self._placed(job, job.user, job.number, rows)
        self._begun(job, rows, first.id)
        return first

    def _take(self, job: WaitingJob) -> list[int]:
        """Take the resources of the task, or the gang, that starts; the servers."""
        rows = self._servers.take_all(self._kinds.requests[job.kind], self._rule, job.size)
        assert rows is not None
        return rows

    @abstractmethod
    def _next(self) -> WaitingJob | None:
        """The job of which a task, or a gang, starts now: it fits."""

    @abstractmethod
    def _begun(self, job: WaitingJob, rows: list[int], number: int) -> None:
        """Tasks of a job started, the first with this number."""

    @abstractmethod
    def _ended(self, job: WaitingJob, row: int, number: int) -> None:
        """A task ended."""
