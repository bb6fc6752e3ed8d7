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
    """A job with waiting tasks: ``size`` of them start together, and with them all ``parts``, jobs of their own."""

    number: int
    user: str
    kind: int
    size: int
    left: float
    walltime: float
    together: str | None = None
    parts: list[WaitingJob] | None = None  # of the first job of some that start together


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
        self._together: dict[str, WaitingJob] = {}  # the first of waiting jobs that start together, by label
        self._time = -math.inf
        self._prepare()

    def _prepare(self) -> None:
        """Make what a subclass keeps beside it."""

    def _submit(
        self,
        user: str,
        demands: Any,
        tasks: float,
        weight: float,
        eligible: Any,
        gang: bool,
        walltime: float,
        together: str | None,
    ) -> tuple[WaitingJob, bool]:
        """A checked job, and whether it is one of its own, not a part that starts with an earlier job."""
        check_tasks(user, tasks)
        for name, value, most in (("weight", weight, sys.float_info.max), ("walltime", walltime, math.inf)):
            if not is_number(value) or not 0 < value <= most:
                raise InvalidInstance(f"{name} of user {user!r} is {value!r}; give a number > 0")
        _, request, _ = self.requests.of(user, demands, eligible)
        if gang:
            self.requests.check_gang(user, request, tasks)
        size = int(tasks) if gang else 1
        job = WaitingJob(len(self._jobs), user, self._kinds.add(request), size, int(tasks), float(walltime), together)
        if together is not None:
            job.parts = None if together in self._together else []
            first = self._together.setdefault(together, job)
            if first.user != user or size < tasks:
                fix = "give one user, and gang=True where there are several tasks"
                raise InvalidInstance(f"the jobs that start together as {together!r} are not of one user; {fix}")
            if first is not job:
                assert first.parts is not None
                first.parts.append(job)
        self._jobs.append(job)
        self._users.setdefault(user, _Counts()).waiting += job.left
        return job, together is None or job.parts is not None

    def next_task(self, at: float | None = None) -> PlacedTask | None:
        """Start the next task; None if no task can start now. Tasks of a gang follow one another."""
        if self._gang:
            return self._gang.pop()
        self._advance(at)
        job = self._next()
        if job is None:
            return None
        first = self._start(job, self._take(job))
        for part in job.parts or ():
            before = self._gang
            started = self._start(part, WholeJobs._take(self, part))
            self._gang = [*self._gang, started, *before]
        if job.together is not None:
            del self._together[job.together]
        return first

    def _fits(self, job: WaitingJob) -> bool:
        """Whether a task, or the gang, of a job fits now, and with it all that start together."""
        requests = self._kinds.requests
        if self._kinds.total[job.kind] < job.size or not job.parts:
            return bool(self._kinds.total[job.kind] >= job.size)
        parts = [(requests[one.kind], one.size) for one in (job, *job.parts)]
        return self._servers.take_parts(parts, self._rule, keep=False) is not None

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
