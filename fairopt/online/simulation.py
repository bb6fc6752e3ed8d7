"""A discrete-event simulation: jobs arrive, a scheduler starts their tasks, and tasks end after their duration."""

from __future__ import annotations

import heapq
import inspect
import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.online.jobs import Job, JobTable
from fairopt.online.scheduler import Scheduler
from fairopt.online.timeline import Timeline, moments_of
from fairopt.online.units import check_unit
from fairopt.online.usage import Usage
from fairopt.online.waiting import WholeJobs
from fairopt.policy import label
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import VIOLATION_TOLERANCE
from fairopt.solve.whole.servers import Servers

_DOMINANT = DominantShare()
_OPTIONS = {"weight", "eligible", "gang", "walltime", "team", "together", "labels", "at"}  # of submit
CHECKED = 64  # questions for the next task between two looks at the time limit
OFTEN = 1000  # tasks that end between two reports of progress


def simulate(
    capacities: ArrayLike | Mapping[str, Any] | Instance,
    jobs: Iterable[Job],
    share: Share = _DOMINANT,
    *,
    scheduler: Any = None,
    fair_at: ArrayLike = (),
    name: str | None = None,
    time_unit: str | None = None,
    time_limit: float | None = None,
) -> Timeline:
    """Simulate jobs on servers.

    Parameters
    ----------
    capacities : array-like of shape (n_resources,) or (n_servers, n_resources), dict by resource, or Instance
        Units on each server. Of an instance its servers, one for each count, and labels are used.
    jobs : iterable of Job
        In any order.
    share : Share, default DominantShare()
        The share that the scheduler levels and the timeline measures.
    scheduler : object, optional
        Default ``Scheduler(capacities, share)``. A new `Scheduler` with other options, or your own object with the
        methods ``submit(user, demands, tasks)``, which returns a job number, ``next_task()``, which returns an object
        with ``.job`` and ``.server`` (a label) or None, and ``finish(task)``. Methods that take ``at`` get the time;
        ``submit`` gets ``weight``, ``eligible`` (booleans by server, or None), ``gang``, ``walltime`` (the limit of a
        task, or its duration), ``team``, ``together`` and ``labels`` if it takes them. It starts the tasks of a gang,
        and of jobs with the same ``together``, at the same moment.
    fair_at : array-like of shape (n_moments,), optional
        Moments at which the divisible optimum for the tasks present is found, for `Timeline.distance`.
    name : str, optional
        Name of the run. Default: the share, or the scheduler.
    time_unit : {"s", "min", "h", "d"}, optional
        The unit of all times, for pictures and tables. Default: that of a `JobTrace`, else unknown.
    time_limit : float, optional
        Seconds for the call.

    Returns
    -------
    Timeline
        After Ctrl-C or the time limit it is ``interrupted``. Tasks that never started are counted in ``unstarted``.

    Raises
    ------
    InvalidInstance
        If a value is wrong, or a task fits on no server where it may run; before anything runs.
    InvalidBlock
        If a scheduler starts a task that does not wait or does not fit, or only a part of a gang.
    OutOfDomain
        If the share is zero or not defined for a job.

    Notes
    -----
    At each moment tasks end first, in order of their start; then jobs arrive, in the order given; then the scheduler is
    asked until it returns None. Times given as whole numbers or fractions are added exactly; times that are equal as
    floats are one moment.

    Fair shares are those of ``Policy(Leximin(share))`` on the users present, with their running and waiting tasks as
    limits. A user with tasks of several demands counts as several users, who divide its weight in proportion to the
    total shares of their tasks.

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
    clock = Clock(time_limit)
    moments = moments_of(fair_at, "fair_at")
    time_unit = getattr(jobs, "time_unit", None) if time_unit is None else time_unit
    check_unit(time_unit)
    usual = Scheduler(capacities, share)
    for method in ("submit", "next_task", "finish") if scheduler is not None else ():
        if isinstance(scheduler, type) or not callable(getattr(scheduler, method, None)):
            raise InvalidBlock(f"scheduler is {scheduler!r}, without {method}(); give an object as fo.Scheduler(...)")
    if isinstance(scheduler, (Scheduler, WholeJobs)):
        ours, theirs = usual.instance.total_capacities, scheduler.instance.total_capacities
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=VIOLATION_TOLERANCE, atol=0.0):
            totals = f"{theirs.tolist()} in total, not {ours.tolist()}"
            raise InvalidInstance(f"the scheduler has capacities {totals}; give both the same")
        if isinstance(scheduler, Scheduler) and scheduler.requests.share == share:
            usual = scheduler
        else:
            usual = Scheduler(scheduler.instance, share)  # of its pools, if pooled
    table = JobTable(jobs, usual.requests)
    with np.errstate(over="ignore"):
        if not np.isfinite(np.abs(table.arrival).max(initial=0.0) + table.duration @ table.tasks):
            raise InvalidInstance("the times of all jobs add up to more than floats hold; give them in a larger unit")
    run = _Run(usual if scheduler is None else scheduler, usual.instance, table)
    try:
        run.events(clock)
        interrupted = math.isfinite(run.until)
    except KeyboardInterrupt:
        interrupted = True
    job, server, start, end = (np.array(x[: len(run.end)]) for x in (run.task_job, run.task_server, run.start, run.end))
    timeline = Timeline(
        usual.instance,
        table,
        share,
        table.share,
        job,
        server,
        start,
        end,
        np.zeros(0),
        np.zeros((0, len(table.users))),
        (),
        float(run.until),
        interrupted,
        _name(run.scheduler) if name is None else name,
        time_unit,
    )
    return timeline.with_fair_at(moments, time_limit=clock.left) if len(moments) else timeline


class _Run:
    """A simulation in progress: the tasks that started; events before ``until`` are complete."""

    def __init__(self, scheduler: Any, cluster: Instance, table: JobTable) -> None:
        self.scheduler, self.cluster, self.table = scheduler, cluster, table
        self.servers, self.row_of = Servers(cluster.capacities), {name: s for s, name in enumerate(cluster.servers)}
        self.until: Any = min((job.arrival for job in table.jobs), default=math.inf)
        self.left = table.tasks.tolist()
        self.job_of: dict[Any, int] = {}  # by the scheduler's job number
        self.task_job, self.task_server = array("q"), array("q")
        self.start, self.end = array("d"), array("d")

    def events(self, clock: Clock) -> None:
        """Run to the end, or until the clock is late."""
        jobs, requests = self.table.jobs, [self.table.requests[k] for k in self.table.kind.tolist()]
        durations, arrivals = [job.duration for job in jobs], [job.arrival for job in jobs]
        ours = type(self.scheduler) is Scheduler  # which keeps capacities and gangs itself
        ask, ends_now = self.scheduler.next_task, self.scheduler.finish
        if not ours:
            next_task, finish = _with_time(ask), _with_time(ends_now)
        elif self.scheduler._timed:
            next_task, finish = ask, ends_now
        else:  # it needs no times
            next_task, finish = (lambda now: ask()), (lambda task, now: ends_now(task))
        submit = self._submit_to_ours() if ours else self._submit_to(self.scheduler.submit)
        order = sorted(range(len(jobs)), key=arrivals.__getitem__)
        ends: list[tuple[Any, int, int, int, Any]] = []  # heap: time, order of start, job, server, task
        gangs: set[int] = set()  # of which tasks start now
        task_job, task_server = self.task_job.append, self.task_server.append
        start, end = self.start.append, self.end.append
        arrived, started, asked, n, late = 0, 0, 0, len(order), clock.late
        total = sum(self.left)
        while ends or arrived < n:
            now: Any = ends[0][0] if ends else math.inf
            if arrived < n:
                now = min(now, arrivals[order[arrived]])
            self.until, moment = now, float(now)
            while ends and float(ends[0][0]) == moment:
                over, _, job, s, task = heapq.heappop(ends)
                now = max(now, over)
                finish(task, now)
                if not ours:
                    self.servers.give_back(requests[job], s)
                if not (started - len(ends)) % OFTEN:
                    tell("tasks ended", started - len(ends), total)
            while arrived < n and float(arrivals[order[arrived]]) == moment:
                job = order[arrived]
                now = max(now, arrivals[job])
                number = submit(job, now)
                try:
                    twice = self.job_of.setdefault(number, job) != job
                except TypeError:
                    twice = True
                if twice:
                    fix = "return a number that no other job has"
                    raise InvalidBlock(f"{self.name}: submit returned {number!r}; {fix}")
                arrived += 1
            while True:
                if not asked % CHECKED:
                    late = clock.late
                asked += 1
                if late or (task := next_task(now)) is None:
                    break
                if ours and task.job in self.job_of:
                    job, s = self.job_of[task.job], self.row_of[task.server]
                else:
                    job, s = self.place(task, now)
                    self.servers.take(requests[job], s)
                    if jobs[job].gang:
                        gangs.add(job)
                    if (label := jobs[job].together) is not None:
                        gangs.update(self.table.parts[label])
                self.left[job] -= 1
                over = now + durations[job]
                heapq.heappush(ends, (over, started, job, s, task))
                started += 1
                task_job(job)
                task_server(s)
                start(now)
                end(over)
            if late:
                return
            for job in gangs:
                if self.left[job]:
                    some, all_of = jobs[job].tasks - self.left[job], jobs[job].tasks
                    raise InvalidBlock(
                        f"{self.name}: at {float(now):g} it started {some} of the {all_of} tasks of a gang of user "
                        f"{jobs[job].user!r}; start all of them, and of jobs with the same together=, at once, or none"
                    )
            gangs.clear()
        self.until = math.inf

    def _submit_to_ours(self) -> Callable[[int, Any], int]:
        """What submits a job to a `Scheduler`: jobs are checked already, once for each kind."""
        table, scheduler = self.table, self.scheduler
        asked = [
            scheduler.requests.of(table.users[user], tuple(row.tolist()), request.allowed)
            for user, row, request in zip(table.user_of_kind.tolist(), table.demands, table.requests, strict=True)
        ]
        kind = table.kind.tolist()

        def submit(k: int, now: Any) -> int:
            job = table.jobs[k]
            if scheduler._timed:
                scheduler._advance(now)
            return int(scheduler._add(job.user, asked[kind[k]], job.tasks, job.weight, None, job.gang, job.together))

        return submit

    def _submit_to(self, method: Callable[..., Any]) -> Callable[[int, Any], Any]:
        """What submits a job that arrives to a scheduler, with the options that it takes."""
        takes = _keywords(method, _OPTIONS)

        def submit(k: int, now: Any) -> Any:
            job, request = self.table.jobs[k], self.table.requests[self.table.kind[k]]
            used = {"weight": job.weight != 1, "eligible": request.allowed is not None, "gang": job.gang}
            used["together"] = job.together is not None
            for key in [key for key, given in used.items() if given and key not in takes]:
                what = f"submit takes no {key}=, and a job of user {job.user!r} has one"
                raise InvalidBlock(f"{self.name}: {what}; add it")
            options = {
                "weight": job.weight,
                "eligible": request.allowed,
                "gang": job.gang,
                "walltime": job.walltime,
                "team": job.team,
                "together": job.together,
                "labels": job.labels,
                "at": now,
            }
            given = {key: value for key, value in options.items() if key in takes}
            return method(job.user, request.units, job.tasks, **given)

        return submit

    def place(self, task: Any, now: Any) -> tuple[int, int]:
        """Job and server of a task that starts; `InvalidBlock` if it may not."""
        try:
            job, s = self.job_of.get(task.job), self.row_of.get(task.server)
        except (AttributeError, TypeError) as error:
            fix = "return an object with .job, as submit returned it, and .server, a label"
            raise InvalidBlock(f"{self.name}: next_task returned {task!r} ({error}); {fix}") from error
        if job is None:
            fault = f"of job {task.job!r}, which was not submitted in this run; give a new scheduler"
        elif not self.left[job]:
            fault = f"of job {task.job!r}, all of whose tasks ({self.table.jobs[job].tasks}) have started"
        elif s is None:
            fault = f"for server {task.server!r}; {nearest(task.server, self.row_of)}"
        elif self.servers.fits(request := self.table.requests[self.table.kind[job]], s):
            return job, s
        elif request.allowed is not None and not request.allowed[s]:
            fault = f"for server {task.server!r}, where job {task.job!r} may not run"
        else:
            there, resources = self.servers.free[s].tolist(), self.cluster.resources
            fault = f"for server {task.server!r}, which has {dict(zip(resources, there, strict=True))} left"
        raise InvalidBlock(f"{self.name}: next_task at {float(now):g} gave a task {fault}")

    @property
    def name(self) -> str:
        """The scheduler's name in errors."""
        return label(self.scheduler)


def _keywords(method: Callable[..., Any], known: set[str]) -> set[str]:
    """The optional keywords that a method of a scheduler takes."""
    parameters = inspect.signature(method).parameters.values()
    return known if any(p.kind is p.VAR_KEYWORD for p in parameters) else known & {p.name for p in parameters}


def _with_time(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a scheduler, called with the time last, which is dropped if it does not take ``at``."""
    if _keywords(method, {"at"}):
        return lambda *given: method(*given[:-1], at=given[-1])
    return lambda *given: method(*given[:-1])


def _name(scheduler: Any) -> str:
    """The default name of a run: the share that is levelled and options, or the scheduler's label."""
    if not isinstance(scheduler, Scheduler):
        return label(scheduler)
    usual: dict[str, Any] = {"placement": "first-fit", "on_misfit": "skip", "order": "share", "half_life": None}
    if scheduler.half_life is None:
        usual["usage"] = Usage()
    given = {key: getattr(scheduler, key) for key in usual}
    return ", ".join([str(scheduler.share), *(f"{key}={v!r}" for key, v in given.items() if v != usual[key])])
