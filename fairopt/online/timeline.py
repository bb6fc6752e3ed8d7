"""The result of a simulation: tasks with start and end, and measures of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.allocation import part_of_capacity
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.instance import Instance
from fairopt.instance.validation import as_floats
from fairopt.io.notes import counted
from fairopt.online.jobs import JobTable
from fairopt.runtime.arrays import Bool, Float, Ints
from fairopt.runtime.lazy import later, sp

if TYPE_CHECKING:
    import pandas as pd

THRESHOLD = 10.0  # of bounded slowdowns, in seconds in the literature on batch systems
MAX_CELLS = 4_000_000  # moments times kinds of jobs computed at a time


def _part(of: str, name: str, doc: str) -> Any:
    """A property that forwards to an attribute of an attribute."""

    def get(self: Timeline) -> Any:
        return getattr(getattr(self, of), name)

    get.__doc__ = doc
    return property(get)


@dataclass(frozen=True, eq=False, repr=False)
class Timeline:
    """The tasks that ran, with start, end and server; made by `simulate`.

    A task counts at time t if ``start <= t < end``. Times are in the unit of the jobs.

    Attributes
    ----------
    cluster : Instance
        The individual servers, without users.
    table : JobTable
        The jobs as arrays.
    share : Share or str
        The share that is measured; a loaded one that is not one of fairopt's blocks is text.
    share_per_task : ndarray of shape (n_kinds,)
        Share of one task of each kind of jobs in ``table``.
    task_job, task_server : ndarray of int of shape (n_tasks,)
        Job and server of each task that started, in order of start.
    start, end : ndarray of shape (n_tasks,)
        When it started and ended.
    fair_at : ndarray of shape (n_moments,)
        Moments at which the divisible optimum is known.
    fair_shares : ndarray of shape (n_moments, n_users)
        Shares of the divisible optimum for the tasks present; 0 for users without any, NaN where it is unknown.
    fair_errors : tuple of str or None
        Why the fair shares of a moment are unknown.
    until : float
        Events before this moment are complete; infinity unless Ctrl-C or the time limit ended the simulation.
    interrupted : bool
        Whether Ctrl-C or the time limit ended the simulation, or the search for fair shares.
    name : str
        The name of the run.
    time_unit : {"s", "min", "h", "d"}, optional
        The unit of all times, if it is known.

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1, 4], 10, tasks=5), fo.Job("B", [3, 1], 10, tasks=3)]
    >>> run = fo.simulate({"cpu": 9, "memory": 18}, jobs)
    >>> run
    <Timeline of DominantShare(): 8 tasks of 2 users on 1 server, from 0 to 20>
    >>> run.start
    array([ 0.,  0.,  0.,  0.,  0., 10., 10., 10.])
    >>> run.shares([0, 10]).round(3)
    array([[0.667, 0.667],
           [0.444, 0.333]])
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
    time_unit: str | None = None

    jobs = _part("table", "jobs", "The jobs as given.")
    users = _part("table", "users", "Labels of the users.")
    teams = _part("table", "teams", "Labels of the teams.")
    capacities = _part("cluster", "capacities", "Units, shape (n_servers, n_resources).")
    resources = _part("cluster", "resources", "Labels of the resources.")
    servers = _part("cluster", "servers", "Labels of the servers.")
    server_types = _part("cluster", "server_types", "The type of each server, or None.")
    units = _part("cluster", "units", "The unit of each resource, or None.")

    @cached_property
    def unstarted(self) -> Ints:
        """Number of tasks of each job that never started, shape (n_jobs,)."""
        return self.table.tasks - np.bincount(self.task_job, minlength=len(self.jobs))

    @property
    def waiting(self) -> Float:
        """Time from the arrival of each task to its start, shape (n_tasks,)."""
        return self.start - self.table.arrival[self.task_job]

    @cached_property
    def once(self) -> Bool:
        """Whether a task counts where waiting is averaged: of a gang, which is one job, one of its tasks does."""
        first = np.zeros(len(self.task_job), dtype=bool)
        first[np.unique(self.task_job, return_index=True)[1]] = True
        gangs = np.array([job.gang for job in self.jobs], dtype=bool)
        return first | ~gangs[self.task_job]

    @cached_property
    def completion(self) -> Float:
        """Time from the arrival of each job to its last end, NaN if a task never started, shape (n_jobs,)."""
        last = np.full(len(self.jobs), -np.inf)
        np.maximum.at(last, self.task_job, self.end)
        return np.where(self.unstarted > 0, np.nan, last - self.table.arrival)

    @property
    def slowdown(self) -> Float:
        """`completion` of each job over the duration of a task, at least 1, shape (n_jobs,)."""
        return self.completion / self.table.duration

    def bounded_slowdown(self, threshold: float = THRESHOLD) -> Float:
        """`completion` of each job over the duration of a task or, if that is longer, a threshold; at least 1.

        Otherwise jobs of a few seconds, which wait for minutes, decide the mean. NaN if a task never started.
        """
        check_threshold(threshold)
        return np.maximum(self.completion / np.maximum(self.table.duration, threshold), 1.0)

    def waits(self, by: str = "team", threshold: float = THRESHOLD) -> dict[str, dict[str, Any]]:
        """Waiting of tasks, of a gang once, and bounded slowdown of jobs of each team or user.

        Parameters
        ----------
        by : {"team", "user"}, default "team"
            Users without a team are ``"(no team)"``.
        threshold : float, default 10
            Of `bounded_slowdown`, in the unit of the jobs.

        Returns
        -------
        dict
            By name ``tasks`` that ran, ``unstarted`` tasks, complete ``jobs``, and ``waiting`` and
            ``bounded_slowdown``, each with ``mean``, ``p95`` and ``max``; NaN where there is nothing to measure.

        Examples
        --------
        >>> import fairopt as fo
        >>> jobs = [fo.Job("ann", [1], 10, tasks=4, team="nlp"), fo.Job("bob", [4], 40, team="vision")]
        >>> found = fo.simulate([4], jobs).waits()
        >>> found["vision"]["waiting"], found["vision"]["bounded_slowdown"]["mean"]
        ({'mean': 10.0, 'p95': 10.0, 'max': 10.0}, 1.25)
        """
        return later("fairopt.online.groups:waits")(self, by, threshold)

    @property
    def span(self) -> tuple[float, float]:
        """The first arrival and the end of the last task; their difference is the makespan."""
        begun = float(self.table.arrival.min(initial=np.inf)) if self.jobs else 0.0
        return begun, float(self.end.max(initial=begun))

    def shares(self, times: ArrayLike) -> Float:
        """Share of each user at some moments: the sum of the shares of its running tasks.

        Parameters
        ----------
        times : array-like of shape (n_times,)
            Moments in any order.

        Returns
        -------
        ndarray of shape (n_times, n_users)

        Examples
        --------
        >>> import fairopt as fo
        >>> run = fo.simulate([4, 10], [fo.Job("a", [1, 2], 5, tasks=6)])
        >>> run.shares([0, 5, 10])
        array([[1. ],
               [0.5],
               [0. ]])
        """
        return self._running(times, self._by_user(self.share_per_task[:, None]))

    def held(self, times: ArrayLike) -> Float:
        """Units of each resource in use by each user, shape (n_times, n_users, n_resources)."""
        shape = np.size(times), len(self.users), len(self.resources)
        return self._running(times, self._by_user(self.table.demands)).reshape(shape)

    def utilisation(self, times: ArrayLike) -> Float:
        """Fraction of each total capacity in use, shape (n_times, n_resources); NaN for zero capacities."""
        used = self._running(times, self.table.demands)
        return part_of_capacity(used, np.broadcast_to(self.cluster.total_capacities, used.shape))

    def _by_user(self, values: Float) -> Any:
        """Values (n_kinds, n) in columns of the user of each kind: a sparse array (n_kinds, n_users * n)."""
        n_kinds, n = values.shape
        columns = self.table.user_of_kind[:, None] * n + np.arange(n)
        places = np.repeat(np.arange(n_kinds), n), columns.ravel()
        return sp.csr_array((values.ravel(), places), shape=(n_kinds, len(self.users) * n))

    def _running(self, times: ArrayLike, per_task: Any) -> Float:
        """Sums over running tasks of ``per_task`` (n_kinds, width) at some moments."""
        moments, kind = moments_of(times, "times"), self.table.kind[self.task_job]
        order = np.argsort(moments)
        first, last = (np.searchsorted(moments[order], when) for when in (self.start, self.end))  # where it is reached
        n, (n_kinds, width) = len(moments), per_task.shape
        out, step = np.zeros((n, width)), max(1, MAX_CELLS // (n + 1))
        for low in range(0, n_kinds, step):  # tasks of each kind are counted in whole numbers, so that 0 is exact
            part = slice(low, min(low + step, n_kinds))
            here = (kind >= low) & (kind < part.stop)
            size = part.stop - low
            change = np.bincount(first[here] * size + kind[here] - low, minlength=(n + 1) * size)
            change -= np.bincount(last[here] * size + kind[here] - low, minlength=(n + 1) * size)
            out += change.reshape(n + 1, size).cumsum(axis=0)[:n].astype(float) @ per_task[part]
        return out[np.argsort(order)]

    def shortfalls(self) -> Float:
        """Fair shares less shares at the moments ``fair_at``, at least 0, shape (n_moments, n_users)."""
        return np.maximum(self.fair_shares - self.shares(self.fair_at), 0.0)

    def distance(self) -> Float:
        """Sum of `shortfalls` over the sum of fair shares at the moments ``fair_at``: 0 is fair.

        Returns
        -------
        ndarray of shape (n_moments,)
            Between 0 and 1; 0 where no user is present, NaN where the fair shares are unknown.

        Examples
        --------
        >>> import fairopt as fo
        >>> jobs = [fo.Job("early", [1], 10, tasks=4), fo.Job("late", [1], 10, tasks=4, arrival=5)]
        >>> run = fo.simulate([4], jobs, fair_at=[0, 5, 10, 30])
        >>> run.distance().round(6), run.shortfalls()[1].round(6)
        (array([0. , 0.5, 0. , 0. ]), array([0. , 0.5]))
        """
        fair = self.fair_shares.sum(axis=1)
        return part_of_capacity(self.shortfalls().sum(axis=1), fair, 0.0) + np.where(np.isnan(fair), np.nan, 0.0)

    def with_fair_at(self, moments: ArrayLike, *, time_limit: float | None = None) -> Timeline:
        """The same timeline with the divisible optimum at other moments, as ``simulate(..., fair_at=moments)``.

        Parameters
        ----------
        moments : array-like of shape (n_moments,)
            Moments in any order.
        time_limit : float, optional
            Seconds for the call. Moments not reached are NaN, with ``fair_errors``.

        Returns
        -------
        Timeline
        """
        return later("fairopt.online.fair:with_fair_at")(self, moments, time_limit)

    def mean_utilisation(self) -> Float:
        """Mean fraction of each server in use over the makespan, (n_servers, n_resources); NaN of zero capacity."""
        begun, ended = self.span
        needed = self.table.demands[self.table.kind[self.task_job]] * (self.end - self.start)[:, None]
        used = [np.bincount(self.task_server, column, minlength=len(self.servers)) for column in needed.T]
        return part_of_capacity(np.stack(used, axis=1), self.capacities * (ended - begun))

    def summary(self) -> dict[str, Any]:
        """The run in numbers.

        Returns
        -------
        dict
            ``tasks`` that ran, ``unstarted`` tasks, complete ``jobs``, ``makespan``; ``waiting`` of tasks (of a gang
            once) and ``slowdown`` of complete jobs, each with ``mean``, ``median`` and ``p95``; mean ``utilisation`` by
            resource;
            ``distance`` with ``mean`` and ``largest``; ``worst``, the name of the team whose tasks wait longest on
            average (without teams, of the user), with its `waits`, None without tasks. NaN where there is nothing to
            measure.

        Examples
        --------
        >>> import fairopt as fo
        >>> found = fo.simulate([4], [fo.Job("a", [1], 10, tasks=6)]).summary()
        >>> found["makespan"], found["utilisation"], found["slowdown"]["mean"]
        (20.0, {'resource1': 0.75}, 2.0)
        """
        begun, ended = self.span
        slowdown, distance, total = self.slowdown, self.distance(), self.cluster.total_capacities
        worst, usual = spread(distance[np.isfinite(distance)], "mean", "max"), ("mean", "median", "p95")
        used = np.nansum(self.mean_utilisation() * self.capacities, axis=0)
        return {
            "tasks": len(self.start),
            "unstarted": int(self.unstarted.sum()),
            "jobs": int((self.unstarted == 0).sum()),
            "makespan": ended - begun,
            "waiting": spread(self.waiting[self.once], *usual),
            "slowdown": spread(slowdown[np.isfinite(slowdown)], *usual),
            "utilisation": dict(zip(self.resources, part_of_capacity(used, total).tolist(), strict=True)),
            "worst": later("fairopt.online.groups:worst")(self),
            "distance": {"mean": worst["mean"], "largest": worst["max"]},
        }

    def to_frame(self, by: str = "task", times: ArrayLike | None = None) -> pd.DataFrame:
        """A pandas frame.

        Parameters
        ----------
        by : {"task", "job", "user", "team", "server", "time"}, default "task"
            What has a row. ``"task"``: job, user, server, arrival, start, end and waiting of tasks that started.
            ``"job"``: tasks, first start, last end, waiting, completion, slowdown. ``"user"``: tasks, their time,
            waiting, completion, slowdown, mean share and shortfall. ``"team"``: as `waits`. ``"server"``: tasks and
            mean utilisation. ``"time"``: shares, utilisation, running and waiting tasks, and distance.
        times : array-like of shape (n_times,), optional
            Moments for ``"time"``. Default: all events, and ``fair_at``.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        InvalidBlock
            If ``by`` is not one of these.
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
        return later("fairopt.online.frames:frame")(self, by, times)

    def plot(self, kind: str = "shares", *, ax: Any = None, between: tuple[float, float] | None = None) -> Any:
        """Draw the timeline; needs the extra ``plots``.

        Parameters
        ----------
        kind : str, default "shares"
            ``"shares"``: the share of each user over time, with rings for fair shares. ``"allocation"``: the part of
            each resource in use by each user, stacked, one panel by resource (Jiang and Wu 2021, Figs. 12a and 12b).
            ``"utilisation"``: the part of each resource in use. ``"waiting"``: the distribution of waiting times, of
            all users and by user. ``"distance"``: `distance` over time.
        ax : matplotlib.axes.Axes, optional
            Where to draw; for ``"allocation"`` one for each resource.
        between : (float, float), optional
            The first and the last moment drawn; for ``"waiting"`` those of arrivals. Default: all.

        Returns
        -------
        matplotlib.axes.Axes
            For ``"allocation"`` a Figure with a panel for each resource.

        Raises
        ------
        InvalidBlock
            If the kind is unknown, no task runs between the two moments, or no fair share is known (``"distance"``).
        MissingExtra
            Without matplotlib.

        Notes
        -----
        Only the users with the largest shares (``"waiting"``: the most tasks) are drawn separately; the others are
        added up, or averaged (``"shares"``). At most 2,000 moments are drawn. `fairopt.plots.draw_timelines` draws
        several runs side by side.

        Examples
        --------
        >>> import fairopt as fo
        >>> jobs = [fo.Job("a", [1, 2], 5, tasks=6), fo.Job("b", [2, 1], 3, tasks=6, arrival=2)]
        >>> timeline = fo.simulate({"cpu": 6, "memory": 6}, jobs)
        >>> [ax.get_ylabel() for ax in timeline.plot("allocation").axes]
        ['cpu (%)', 'memory (%)']
        """
        return later("fairopt.plots.timeline:draw_timeline")(self, kind, ax, between)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the timeline as JSON for `load`; return the path.

        `InvalidInstance` if the name does not end in ``.json``.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import fairopt as fo
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
        >>> saved = fo.simulate([4], [fo.Job("a", [1], 10, tasks=6)]).save(path)
        >>> fo.online.Timeline.load(saved)
        <Timeline of DominantShare(): 6 tasks of 1 user on 1 server, from 0 to 20>
        """
        return later("fairopt.online.saved:save")(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Timeline:
        """Read a file of `save`; `InvalidInstance` if it is not one, or its numbers contradict each other.

        Its events are simulated again to check them; its fair shares are not solved again.
        """
        return later("fairopt.online.saved:load")(Path(path))

    def __repr__(self) -> str:
        many, of = counted(len(self.start), "task"), counted(len(self.users), "user")
        on, (begun, ended) = counted(len(self.servers), "server"), self.span
        left = f"; {self.unstarted.sum():,} not started" if self.unstarted.any() else ""
        stopped = "; interrupted" if self.interrupted else ""
        return f"<Timeline of {self.name}: {many} of {of} on {on}, from {begun:g} to {ended:g}{left}{stopped}>"


def check_threshold(threshold: float) -> None:
    """Raise `InvalidBlock` unless bounded slowdowns are defined."""
    if not (isinstance(threshold, (int, float)) and 0 <= threshold < math.inf):
        raise InvalidBlock(f"threshold is {threshold!r}; give a finite number >= 0, such as 10")


def moments_of(times: ArrayLike, name: str) -> Float:
    """Moments as an array of shape (n_times,)."""
    moments = np.atleast_1d(as_floats(times, name))
    if moments.ndim != 1:
        raise InvalidInstance(f"{name} have shape {moments.shape}; give a list of moments")
    for k in np.flatnonzero(~np.isfinite(moments)):
        raise InvalidInstance(f"{name}[{k}] is {moments[k]}; give finite numbers")
    return moments


MEASURES: dict[str, Callable[[Float], Any]] = {
    "mean": np.mean,
    "median": lambda values: np.percentile(values, 50),
    "p95": lambda values: np.percentile(values, 95),
    "max": np.max,
}


def spread(values: Float, *names: str) -> dict[str, float]:
    """Some `MEASURES`, NaN without values."""
    return {name: float(MEASURES[name](values)) if len(values) else math.nan for name in names}
