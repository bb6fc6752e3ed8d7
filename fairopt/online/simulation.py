"""A simulation by events: jobs arrive, a scheduler starts their tasks, and tasks end after their duration."""

from __future__ import annotations

import heapq
import inspect
import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.blocks.shares import DominantShare, Share, require_share
from fairopt.certificate import VIOLATION_TOLERANCE
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.online.jobs import Job, JobTable, coefficients, table_of
from fairopt.online.scheduler import Scheduler
from fairopt.online.timeline import Timeline, moments_of
from fairopt.policy import label
from fairopt.progress import tell

__all__ = ["simulate"]

_DOMINANT = DominantShare()
EXCESS = 2 * VIOLATION_TOLERANCE  # of a capacity: schedulers add up in another order than is checked here
OFTEN = 1000  # events between two reports of progress


def simulate(
    capacities: ArrayLike | Mapping[str, Any] | Instance, jobs: Iterable[Job], share: Share = _DOMINANT, *,
    scheduler: Any = None, fair_at: ArrayLike = (), name: str | None = None,
) -> Timeline:  # fmt: skip
    """Run jobs on servers task by task, event by event.

    Parameters
    ----------
    capacities : array-like of shape (n_resources,) or (n_servers, n_resources), dict by resource, or Instance
        Units on each server; of an instance its servers (rows with a count as individual servers) and labels.
    jobs : iterable of Job
        In any order of arrival.
    share : Share, default DominantShare()
        What the scheduler levels, and what is measured.
    scheduler : object, optional
        Default ``Scheduler(capacities, share)``. A new `Scheduler` with other options, or one of your own with the
        methods ``submit(user, demands, tasks)``, which returns a number of the job, ``next_task()``, which returns an
        object with ``.job`` and ``.server`` (a label) or None, and ``finish(task)``. Where these take ``at``, it is
        the time, and ``submit`` gets ``weight`` and ``eligible``, True and False by server or None, if it takes them.
    fair_at : array-like of shape (n_moments,), optional
        Moments, in any order, at which the divisible optimum of the same notion is found for the tasks present, for
        `Timeline.distance`.
    name : str, optional
        What the run is called. Default: the share, or the scheduler.

    Returns
    -------
    Timeline
        Ctrl-C returns the part done: ``interrupted`` is True. Tasks that the scheduler never starts are counted in
        ``unstarted``.

    Raises
    ------
    InvalidInstance
        If a value is wrong, or a task is larger than any server where it may run; before anything runs.
    InvalidBlock
        If a scheduler starts what it cannot: a task that does not wait, or one that does not fit.
    OutOfDomain
        If the share is zero or not defined for a job.

    Notes
    -----
    At one moment tasks end first, in order of their start; then jobs arrive, in the order given; then the scheduler is
    asked until it returns None. Times are exact sums of those given: floats are rounded, whole numbers and fractions
    are not.

    A fair share is that of ``Policy(Leximin(share))`` on all users with tasks that run or wait, with these as task
    limits. A user with tasks of several demands is several users, who divide its weight in proportion to the total
    shares of their tasks; its fair share is their sum.

    Examples
    --------
    >>> import fairopt as fo
    >>> batch = fo.Job("batch", {"cpu": 1, "memory": 4}, duration=10, tasks=5)
    >>> web = fo.Job("web", {"cpu": 3, "memory": 1}, duration=4, tasks=3)
    >>> run = fo.simulate({"cpu": 9, "memory": 18}, [batch, web], fair_at=[0, 10])
    >>> run.to_frame("user")[["tasks", "mean waiting", "mean completion"]]
           tasks  mean waiting  mean completion
    user
    batch      5      2.800000             20.0
    web        3      1.333333              8.0
    >>> run.distance().round(3)
    array([0., 0.])
    """
    require_share(share, simulate)
    if scheduler is not None:
        for method in ("submit", "next_task", "finish"):
            if isinstance(scheduler, type) or not callable(getattr(scheduler, method, None)):
                raise InvalidBlock(
                    f"scheduler is {scheduler!r}, without {method}(); give an object like fo.Scheduler(...)"
                )
    moments = moments_of(fair_at, "fair_at")
    usual = Scheduler(capacities, share)
    cluster = usual.instance
    if isinstance(scheduler, Scheduler):  # its pools, if pooled
        cluster = _same_capacity(cluster, scheduler.instance)
    table = table_of(jobs, cluster)
    per_task = coefficients(table, cluster, share)
    _check_range(table)
    if name is None:
        name = _name(usual if scheduler is None else scheduler)
    record = Record(min((job.arrival for job in table.jobs), default=math.inf))
    interrupted = False
    try:
        _run(usual if scheduler is None else scheduler, cluster, table, record)
    except KeyboardInterrupt:
        interrupted = True
    done = len(record.end)  # appended last
    timeline = Timeline(
        cluster, table, share, per_task, np.array(record.task_job[:done], dtype=np.int64),
        np.array(record.task_server[:done], dtype=np.int64), np.array(record.start[:done], dtype=float),
        np.array(record.end[:done], dtype=float), np.zeros(0), np.zeros((0, len(table.users))), (),
        float(record.until), interrupted, name,
    )  # fmt: skip
    return timeline.with_fair_at(moments) if len(moments) else timeline


@dataclass
class Record:
    """The tasks that started so far; before ``until`` nothing more happens."""

    until: Any
    task_job: array[int] = field(default_factory=lambda: array("q"))
    task_server: array[int] = field(default_factory=lambda: array("q"))
    start: array[float] = field(default_factory=lambda: array("d"))
    end: array[float] = field(default_factory=lambda: array("d"))


def _run(scheduler: Any, cluster: Instance, table: JobTable, record: Record) -> None:
    """Run all events."""
    jobs, kind, left = table.jobs, table.kind.tolist(), table.tasks.tolist()
    asked, room = _Asked(scheduler, cluster, table), _Room(cluster, table)
    order = sorted(range(len(jobs)), key=lambda k: jobs[k].arrival)
    ends: list[tuple[Any, int, int, int, Any]] = []  # heap: time, number in order of start, job, server, task
    arrived = started = events = 0
    total = sum(left)
    while ends or arrived < len(order):
        now: Any = ends[0][0] if ends else math.inf
        if arrived < len(order):
            now = min(now, jobs[order[arrived]].arrival)
        record.until = now
        while ends and ends[0][0] == now:
            _, _, job, s, task = heapq.heappop(ends)
            asked.finish(task, now)
            room.give_back(kind[job], s)
            events += 1
            if not events % OFTEN:
                tell("tasks ended", started - len(ends), total)
        while arrived < len(order) and jobs[order[arrived]].arrival == now:
            asked.submit(order[arrived], now)
            arrived += 1
        while (task := asked.next_task(now)) is not None:
            job, s = asked.place(task, now)
            if not left[job]:
                asked.refuse(
                    f"one more task of job {job}, all of whose tasks ({jobs[job].tasks}) have started", job, now
                )
            if (fault := room.take(kind[job], s)) is not None:
                asked.refuse(f"a task for server {cluster.servers[s]!r}, {fault}", job, now)
            left[job] -= 1
            over = now + jobs[job].duration
            heapq.heappush(ends, (over, started, job, s, task))
            started += 1
            record.task_job.append(job)
            record.task_server.append(s)
            record.start.append(now)
            record.end.append(over)
    record.until = math.inf


class _Room:
    """What is free on each server."""

    def __init__(self, cluster: Instance, table: JobTable) -> None:
        self.rows, self.mask_of = table.demands.tolist(), table.mask_of_kind.tolist()
        self.masks = [None if mask.all() else mask.tolist() for mask in table.masks]
        self.resources = cluster.resource_titles
        self.whole = (cluster.capacities * (1 + EXCESS)).tolist()
        self.free = [row[:] for row in self.whole]
        self.tasks = [0] * cluster.n_servers

    def take(self, kind: int, s: int) -> str | None:
        """Place a task on a server, or say why it may not run there."""
        allowed, free, needs = self.masks[self.mask_of[kind]], self.free[s], self.rows[kind]
        if allowed is not None and not allowed[s]:
            return "where it may not run"
        for i, needed in enumerate(needs):
            if needed > free[i]:
                most = max(free[i] - self.whole[s][i] * EXCESS, 0.0)
                return f"which has {most:g} of {self.resources[i]} left, and it needs {needed:g}"
        for i, needed in enumerate(needs):
            free[i] -= needed
        self.tasks[s] += 1
        return None

    def give_back(self, kind: int, s: int) -> None:
        """End a task; an empty server is free without any rounding."""
        self.tasks[s] -= 1
        if not self.tasks[s]:
            self.free[s] = self.whole[s][:]
            return
        free = self.free[s]
        for i, needed in enumerate(self.rows[kind]):
            free[i] += needed


class _Asked:
    """A scheduler of any kind, asked for tasks; what it returns is checked."""

    def __init__(self, scheduler: Any, cluster: Instance, table: JobTable) -> None:
        self.scheduler, self.table = scheduler, table
        self.servers = {server: s for s, server in enumerate(cluster.servers)}
        self.job_of: dict[Any, int] = {}  # by the number that the scheduler gave
        self.takes = _keywords(scheduler.submit)
        self.next_task, self.finish = _with_time(scheduler.next_task), _with_time(scheduler.finish)

    def submit(self, k: int, now: Any) -> None:
        """Hand over a job that arrives."""
        job = self.table.jobs[k]
        mask = self.table.masks[self.table.mask_of_kind[self.table.kind[k]]]
        options = {"weight": job.weight, "eligible": None if job.eligible is None else mask, "at": now}
        for key, usual in (("weight", 1.0), ("eligible", None)):
            if key not in self.takes and options[key] is not usual and options[key] != usual:
                raise InvalidBlock(
                    f"{self.name}.submit takes no {key}=, and a job of user {job.user!r} has one; add it"
                )
        given = {key: value for key, value in options.items() if key in self.takes}
        number = self.scheduler.submit(job.user, self.table.demands[self.table.kind[k]], job.tasks, **given)
        try:
            earlier = self.job_of.setdefault(number, k)
        except TypeError:
            raise InvalidBlock(f"{self.name}.submit returned {number!r}; return a number of the job") from None
        if earlier != k:
            raise InvalidBlock(
                f"{self.name}.submit returned {number!r} for two jobs; return a different number for each"
            )

    def place(self, task: Any, now: Any) -> tuple[int, int]:
        """Job and server of a task."""
        try:
            number, server = task.job, task.server
            job = self.job_of.get(number)
        except (AttributeError, TypeError) as error:
            fix = "return an object with .job, as submit returned it, and .server, a label"
            raise InvalidBlock(f"{self.name}.next_task returned {task!r} ({error}); {fix}") from error
        if job is None:
            raise InvalidBlock(
                f"{self.name}.next_task at {float(now):g} gave a task of job {number!r}, which was not submitted in "
                "this run; give a new scheduler, and return what submit returned"
            )
        s = self.servers.get(server)
        if s is None:
            self.refuse(f"a task for server {server!r}; {nearest(server, self.servers)}", job, now)
        assert s is not None
        return job, s

    @property
    def name(self) -> str:
        """How errors call the scheduler."""
        return type(self.scheduler).__name__

    def refuse(self, fault: str, job: int, now: Any) -> None:
        """`InvalidBlock` for a task that may not start."""
        user = self.table.jobs[job].user
        raise InvalidBlock(f"{self.name}.next_task at {float(now):g} gave user {user!r} {fault}")


def _keywords(method: Callable[..., Any]) -> set[str]:
    """Which of the keywords that a scheduler may want it takes."""
    known = {"weight", "eligible", "at"}
    try:
        parameters = inspect.signature(method).parameters.values()
    except ValueError:  # of a function in C
        return known
    return known if any(p.kind is p.VAR_KEYWORD for p in parameters) else known & {p.name for p in parameters}


def _with_time(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a scheduler, called with the time last, which it gets if it takes ``at``."""
    if "at" in _keywords(method):
        return lambda *given: method(*given[:-1], at=given[-1])
    return lambda *given: method(*given[:-1])


def _name(scheduler: Any) -> str:
    """What a run is called: the share that is levelled, and other options; or as `label` does."""
    if not isinstance(scheduler, Scheduler):
        return label(scheduler)
    usual = {"placement": "first-fit", "on_misfit": "skip", "order": "share", "half_life": None}
    given = {key: getattr(scheduler, key) for key in usual}
    return ", ".join([repr(scheduler.share), *(f"{key}={v!r}" for key, v in given.items() if v != usual[key])])


def _same_capacity(cluster: Instance, of_scheduler: Instance) -> Instance:
    """The servers of a scheduler, which have the capacity that is given."""
    ours, theirs = cluster.total_capacities, of_scheduler.total_capacities
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=VIOLATION_TOLERANCE, atol=0.0):
        raise InvalidInstance(
            f"the scheduler has capacities {theirs.tolist()} in total, not {ours.tolist()} as given; give both the same"
        )
    return of_scheduler


def _check_range(table: JobTable) -> None:
    """`InvalidInstance` if times could leave the range of floats."""
    with np.errstate(over="ignore"):
        last = np.abs(table.arrival).max(initial=0.0) + (table.duration * table.tasks).sum()
    if not np.isfinite(last):
        raise InvalidInstance("the times of all jobs add up to more than floats can hold; give them in a larger unit")
