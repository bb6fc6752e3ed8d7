"""What ran when: the tasks of a simulation with start and end, and what is measured of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fairopt.accessor import later
from fairopt.allocation import part_of_capacity
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.online.jobs import Job, JobTable
from fairopt.validation import as_floats

__all__ = ["Timeline"]

Float = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]

MOST = 4_000_000  # numbers of a block of moments times kinds of jobs


@dataclass(frozen=True, eq=False, repr=False)
class Timeline:
    """What ran when; made by `simulate`.

    Functions of time are steps, continuous from the right: a task counts at t if ``start <= t < end``. Times are in the
    unit of the jobs.

    Attributes
    ----------
    cluster : Instance
        The servers, one by one, without users; its parts are ``capacities`` (n_servers, n_resources), ``resources``,
        ``servers``, ``server_types`` and ``units`` of the timeline.
    table : JobTable
        The jobs as arrays; ``jobs`` and ``users`` (in order of their first job) are tuples.
    share : Share or str
        The share that is measured; a loaded one that is not made of fairopt's blocks is known as text only.
    share_per_task : ndarray of shape (n_kinds,)
        Share of one task of each kind of jobs in ``table``.
    task_job, task_server : ndarray of int of shape (n_tasks,)
        Job and server of each task that started, in order of start.
    start, end : ndarray of shape (n_tasks,)
        When it started and ended.
    fair_at : ndarray of shape (n_moments,)
        Moments at which the divisible optimum is known.
    fair_shares : ndarray of shape (n_moments, n_users)
        Shares of the divisible optimum for the tasks present then, 0 for users who have none; NaN where it was not
        found, and why is in ``fair_errors``: a text for each moment, or None.
    until : float
        Events before this moment are complete: infinity, unless Ctrl-C ended the simulation.
    interrupted : bool
        Whether Ctrl-C ended the simulation, or the search for fair shares.
    name : str
        The scheduler, or the share it levels.

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1, 4], 10, tasks=5), fo.Job("B", [3, 1], 10, tasks=3, arrival=5)]
    >>> timeline = fo.simulate({"cpu": 9, "memory": 18}, jobs)
    >>> timeline
    <Timeline of DominantShare(): 8 tasks of 2 users on 1 server, from 0 to 30>
    >>> timeline.start
    array([ 0.,  0.,  0.,  0.,  5., 10., 10., 20.])
    >>> timeline.shares([0, 5, 10]).round(3)
    array([[0.889, 0.   ],
           [0.889, 0.333],
           [0.222, 0.667]])
    """

    cluster: Instance
    table: JobTable
    share: Share | str
    share_per_task: Float
    task_job: Ints
    task_server: Ints
    start: Float
    end: Float
    fair_at: Float
    fair_shares: Float
    fair_errors: tuple[str | None, ...]
    until: float
    interrupted: bool
    name: str

    # -- data -----------------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs as given."""
        return self.table.jobs

    @property
    def users(self) -> tuple[str, ...]:
        """Labels of the users, in order of their first job."""
        return self.table.users

    @property
    def capacities(self) -> Float:
        """Units on each server, shape (n_servers, n_resources)."""
        return self.cluster.capacities

    @property
    def resources(self) -> tuple[str, ...]:
        """Labels of the resources."""
        return self.cluster.resources

    @property
    def servers(self) -> tuple[str, ...]:
        """Labels of the servers."""
        return self.cluster.servers

    @property
    def server_types(self) -> tuple[str, ...] | None:
        """The type of each server, or None."""
        return self.cluster.server_types

    @property
    def units(self) -> tuple[str, ...] | None:
        """The unit of each resource, or None."""
        return self.cluster.units

    @cached_property
    def unstarted(self) -> Ints:
        """Number of tasks of each job that never started, shape (n_jobs,)."""
        return self.table.tasks - np.bincount(self.task_job, minlength=len(self.jobs))

    @property
    def waiting(self) -> Float:
        """Time between arrival and start of each task that started, shape (n_tasks,)."""
        return self.start - self.table.arrival[self.task_job]

    @cached_property
    def completion(self) -> Float:
        """Time from the arrival of each job to the end of its last task, NaN if not all started, shape (n_jobs,)."""
        last = np.full(len(self.jobs), -np.inf)
        np.maximum.at(last, self.task_job, self.end)
        return np.where(self.unstarted > 0, np.nan, last - self.table.arrival)

    @property
    def slowdown(self) -> Float:
        """`completion` of each job over the duration of its tasks, at least 1, shape (n_jobs,)."""
        return self.completion / self.table.duration

    @cached_property
    def span(self) -> tuple[float, float]:
        """From the first arrival to the end of the last task: their difference is the makespan."""
        begun = float(self.table.arrival.min(initial=np.inf))
        return (begun, max(begun, float(self.end.max(initial=begun)))) if self.jobs else (0.0, 0.0)

    # -- functions of time ----------------------------------------------------------------------------------------

    def shares(self, times: ArrayLike) -> Float:
        """Share of each user at some moments: the sum of the shares of its running tasks.

        Parameters
        ----------
        times : array-like of shape (n_times,)
            Moments in any order.

        Returns
        -------
        ndarray of shape (n_times, n_users)

        Raises
        ------
        InvalidInstance
            If a moment is not a finite number.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.simulate([4], [fo.Job("a", [1], 5, tasks=6)]).shares([0, 5, 10])
        array([[1. ],
               [0.5],
               [0. ]])
        """
        kinds = np.arange(len(self.share_per_task))
        shape = (len(kinds), len(self.users))
        return self._running(times, csr_array((self.share_per_task, (kinds, self.table.user_of_kind)), shape=shape))

    def held(self, times: ArrayLike) -> Float:
        """Units of each resource that the running tasks of each user take at some moments.

        Parameters
        ----------
        times : array-like of shape (n_times,)
            Moments in any order.

        Returns
        -------
        ndarray of shape (n_times, n_users, n_resources)

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.simulate([4, 9], [fo.Job("a", [1, 2], 5, tasks=6)]).held([0, 5])
        array([[[4., 8.]],
        <BLANKLINE>
               [[2., 4.]]])
        """
        n_kinds, m = self.table.demands.shape
        columns = self.table.user_of_kind[:, None] * m + np.arange(m)
        units = csr_array(
            (self.table.demands.ravel(), (np.repeat(np.arange(n_kinds), m), columns.ravel())),
            shape=(n_kinds, len(self.users) * m),
        )
        return self._running(times, units).reshape(np.size(times), len(self.users), m)

    def utilisation(self, times: ArrayLike) -> Float:
        """Part of the total capacity of each resource in use at some moments; NaN for a capacity of 0.

        Parameters
        ----------
        times : array-like of shape (n_times,)
            Moments in any order.

        Returns
        -------
        ndarray of shape (n_times, n_resources)

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.simulate([4, 10], [fo.Job("a", [1, 2], 5, tasks=6)]).utilisation([0, 5])
        array([[1. , 0.8],
               [0.5, 0.4]])
        """
        total = np.broadcast_to(self.cluster.total_capacities, (np.size(times), len(self.resources)))
        return part_of_capacity(self._running(times, self.table.demands), total)

    def running_tasks(self, times: ArrayLike) -> Float:
        """Number of running tasks of each user at some moments, shape (n_times, n_users)."""
        return self._running(times, self._ones)

    def waiting_tasks(self, times: ArrayLike) -> Float:
        """Number of tasks of each user that have arrived and not started at some moments, shape (n_times, n_users)."""
        kind, last = self.table.kind, np.full(len(self.jobs), np.inf)
        came = self._sum(times, kind, self.table.arrival, last, self._ones, self.table.tasks)
        gone = self._sum(times, kind[self.task_job], self.start, np.full(len(self.start), np.inf), self._ones)
        return came - gone

    @property
    def _ones(self) -> Any:
        """One for the user of each kind, for `_running`."""
        kinds = np.arange(len(self.share_per_task))
        return csr_array((np.ones(len(kinds)), (kinds, self.table.user_of_kind)), shape=(len(kinds), len(self.users)))

    def _running(self, times: ArrayLike, per_task: Any) -> Float:
        """Sums over running tasks of a row for each kind: ``per_task`` of shape (n_kinds, width)."""
        return self._sum(times, self.table.kind[self.task_job], self.start, self.end, per_task)

    def _sum(self, times: ArrayLike, kind: Ints, start: Float, end: Float, per_task: Any, weights: Any = None) -> Float:
        """Sums over intervals [start, end) that hold each moment; whole numbers by kind first, so that 0 is exact."""
        moments = moments_of(times, "times")
        out = np.zeros((len(moments), per_task.shape[1]))
        for kinds, counts in _counts(moments, kind, start, end, per_task.shape[0], weights):
            out += counts @ per_task[kinds]
        return out

    # -- measures -------------------------------------------------------------------------------------------------

    def shortfalls(self) -> Float:
        """How much less than its fair share each user holds at the moments ``fair_at``, at least 0.

        Returns
        -------
        ndarray of shape (n_moments, n_users)
            NaN where the fair shares were not found.

        Examples
        --------
        >>> import fairopt as fo
        >>> jobs = [fo.Job("early", [1], 10, tasks=4), fo.Job("late", [1], 10, tasks=4, arrival=5)]
        >>> fo.simulate([4], jobs, fair_at=[5]).shortfalls().round(6)
        array([[0. , 0.5]])
        """
        return np.maximum(self.fair_shares - self.shares(self.fair_at), 0.0)

    def distance(self) -> Float:
        """Part of the fair shares that users do not have at the moments ``fair_at``: 0 is fair, 1 the most.

        Returns
        -------
        ndarray of shape (n_moments,)
            The sum of `shortfalls` over the sum of fair shares: 0 where no user is present, NaN where the fair shares
            were not found.

        Examples
        --------
        >>> import fairopt as fo
        >>> jobs = [fo.Job("early", [1], 10, tasks=4), fo.Job("late", [1], 10, tasks=4, arrival=5)]
        >>> fo.simulate([4], jobs, fair_at=[0, 5, 10, 30]).distance().round(6)
        array([0. , 0.5, 0. , 0. ])
        """
        fair = self.fair_shares.sum(axis=1)
        return part_of_capacity(self.shortfalls().sum(axis=1), fair, 0.0) + np.where(np.isnan(fair), np.nan, 0.0)

    def with_fair_at(self, moments: ArrayLike) -> Timeline:
        """The same timeline with the divisible optimum at other moments, as ``simulate(..., fair_at=moments)``.

        Parameters
        ----------
        moments : array-like of shape (n_moments,)
            Moments in any order.

        Returns
        -------
        Timeline

        Raises
        ------
        InvalidInstance
            If a moment is not a finite number.
        InvalidBlock
            If the share is known as text only.

        Examples
        --------
        >>> import fairopt as fo
        >>> timeline = fo.simulate([4], [fo.Job("a", [1], 10, tasks=6)])
        >>> timeline.with_fair_at([0, 10]).fair_shares.round(6)
        array([[1. ],
               [0.5]])
        """
        return later("Timeline.with_fair_at")(self, moments)

    def mean_utilisation(self) -> Float:
        """Part of the capacity of each server that tasks use, on average over the makespan.

        Returns
        -------
        ndarray of shape (n_servers, n_resources)
            NaN where the capacity is 0, and everywhere if nothing ran.
        """
        begun, ended = self.span
        used = np.zeros(self.capacities.shape)
        demands, length = self.table.demands[self.table.kind[self.task_job]], self.end - self.start
        for i in range(len(self.resources)):
            used[:, i] = np.bincount(self.task_server, demands[:, i] * length, minlength=len(self.servers))
        return part_of_capacity(used, self.capacities * (ended - begun))

    def summary(self) -> dict[str, Any]:
        """The run in numbers.

        Returns
        -------
        dict
            ``tasks`` that ran and ``unstarted``, ``jobs`` that are complete; ``makespan``, from the first arrival to
            the last end; ``waiting`` of tasks and ``slowdown`` of complete jobs, as dicts with ``mean``, ``median`` and
            ``p95``, the 95th percentile; ``utilisation``, the mean over the makespan by resource; ``distance`` with
            ``mean`` and ``largest`` over the moments where it is known. NaN where there is nothing to measure.

        Examples
        --------
        >>> import fairopt as fo
        >>> found = fo.simulate([4], [fo.Job("a", [1], 10, tasks=6)]).summary()
        >>> found["makespan"], found["utilisation"], found["slowdown"]["mean"]
        (20.0, {'resource1': 0.75}, 2.0)
        """
        begun, ended = self.span
        slowdown, distance = self.slowdown, self.distance()
        known = distance[np.isfinite(distance)]
        total = self.cluster.total_capacities
        used = np.where(self.capacities > 0, self.mean_utilisation() * self.capacities, 0.0).sum(axis=0)
        return {
            "tasks": len(self.start), "unstarted": int(self.unstarted.sum()),
            "jobs": int((self.unstarted == 0).sum()), "makespan": ended - begun,
            "waiting": _spread(self.waiting), "slowdown": _spread(slowdown[np.isfinite(slowdown)]),
            "utilisation": dict(zip(self.resources, part_of_capacity(used, total).tolist(), strict=True)),
            "distance": {"mean": _mean(known), "largest": float(known.max()) if len(known) else math.nan},
        }  # fmt: skip

    # -- other forms ----------------------------------------------------------------------------------------------

    def to_frame(self, by: str = "task", times: ArrayLike | None = None) -> Any:
        """A pandas frame.

        Parameters
        ----------
        by : {"task", "job", "user", "server", "time"}, default "task"
            What has a row. ``"task"``: job, user, server, arrival, start, end, waiting of each that started. ``"job"``:
            tasks, first start, last end, waiting, completion, slowdown. ``"user"``: tasks, their time, means of
            waiting, completion, slowdown and of the share over the makespan, and of the shortfall over ``fair_at``.
            ``"server"``: tasks, and the mean part in use of each resource. ``"time"``: shares, parts in use, running
            and waiting tasks, and the distance where it is known.
        times : array-like of shape (n_times,), optional
            Moments for ``"time"``; by default all at which tasks arrive, start or end, and those of ``fair_at``.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        InvalidBlock
            If there is no such table.
        MissingExtra
            Without pandas.

        Examples
        --------
        >>> import fairopt as fo
        >>> timeline = fo.simulate({"cpu": 9}, [fo.Job("a", [3], 10, tasks=4), fo.Job("b", [2], 5, arrival=4)])
        >>> timeline.to_frame("job")[["user", "tasks", "last end", "completion", "slowdown"]]
            user  tasks  last end  completion  slowdown
        job
        0      a      4      20.0        20.0       2.0
        1      b      1      15.0        11.0       2.2
        """
        return later("Timeline.to_frame")(self, by, times)

    def plot(self, kind: str = "shares", ax: Any = None) -> Any:
        """Draw the timeline; needs the extra ``plots``.

        Parameters
        ----------
        kind : str, default "shares"
            ``"shares"``: the share of each user over time; others are named in the error for an unknown one.
        ax : matplotlib.axes.Axes, optional
            Where to draw.

        Returns
        -------
        matplotlib.axes.Axes
        """
        return later("Timeline.plot")(self, kind, ax)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything as JSON, from where `load` reads it; return the path.

        Parameters
        ----------
        path : path-like
            A name that ends in ``.json``.

        Raises
        ------
        InvalidInstance
            If the name does not end so, or it cannot be written there.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import fairopt as fo
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
        >>> saved = fo.simulate([4], [fo.Job("a", [1], 10, tasks=6)]).save(path)
        >>> fo.Timeline.load(saved)
        <Timeline of DominantShare(): 6 tasks of 1 user on 1 server, from 0 to 20>
        """
        return later("Timeline.save")(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Timeline:
        """Read what `save` wrote; nothing in the file is executed, and its numbers are checked.

        Parameters
        ----------
        path : path-like
            A ``.json`` file.

        Raises
        ------
        InvalidInstance
            If it is not such a file, or its numbers contradict each other, as tasks beyond a capacity.

        Notes
        -----
        Fractions are saved as floats. The fair shares are taken as they are: `with_fair_at` solves again.
        """
        return later("Timeline.load")(Path(path))

    def __repr__(self) -> str:
        many = f"{len(self.start):,} task{'' if len(self.start) == 1 else 's'}"
        of = f"{len(self.users):,} user{'' if len(self.users) == 1 else 's'}"
        on = f"{len(self.servers):,} server{'' if len(self.servers) == 1 else 's'}"
        begun, ended = self.span
        left = f"; {self.unstarted.sum():,} not started" if self.unstarted.any() else ""
        stopped = "; interrupted" if self.interrupted else ""
        return f"<Timeline of {self.name}: {many} of {of} on {on}, from {begun:g} to {ended:g}{left}{stopped}>"


def moments_of(times: ArrayLike, name: str) -> Float:
    """Moments as an array of shape (n_times,)."""
    moments = np.atleast_1d(as_floats(times, name))
    if moments.ndim != 1:
        raise InvalidInstance(f"{name} have shape {moments.shape}; give a list of moments")
    for k in np.flatnonzero(~np.isfinite(moments)):
        raise InvalidInstance(f"{name}[{k}] is {moments[k]}; give finite numbers")
    return moments


def _counts(
    moments: Float, kind: Ints, start: Float, end: Float, n_kinds: int, weights: Any
) -> Iterator[tuple[slice, Float]]:
    """The number of intervals by kind that hold each moment, shape (n_moments, n), for some kinds at a time."""
    order = np.argsort(moments, kind="stable")
    back = np.argsort(order, kind="stable")
    n, ranked = len(moments), moments[order]
    first, last = np.searchsorted(ranked, start), np.searchsorted(ranked, end)  # the first moment >= start, >= end
    step = max(1, MOST // (n + 1))
    for low in range(0, n_kinds, step):
        high = min(low + step, n_kinds)
        chosen: Any = slice(None) if high - low == n_kinds else (low <= kind) & (kind < high)
        width, of = high - low, kind[chosen] - low
        change = np.zeros((n + 1) * width)
        for at, sign in ((first, 1), (last, -1)):
            many = None if weights is None else weights[chosen]
            change += sign * np.bincount(at[chosen] * width + of, many, minlength=len(change))
        yield slice(low, high), change.reshape(n + 1, width).cumsum(axis=0)[:n][back]


def _mean(values: Float) -> float:
    """The mean, NaN of nothing."""
    return float(values.mean()) if len(values) else math.nan


def _spread(values: Float) -> dict[str, float]:
    """Mean, median and 95th percentile, NaN of nothing."""
    middle, high = np.percentile(values, [50, 95]).tolist() if len(values) else (math.nan, math.nan)
    return {"mean": _mean(values), "median": middle, "p95": high}
