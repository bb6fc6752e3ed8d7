"""Jobs: batches of equal tasks with an arrival and a duration; and many of them as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.online.requests import MOST_TASKS, Requests, checked_demands, checked_places
from fairopt.runtime.arrays import Float, Ints
from fairopt.solve.whole.servers import Request

Time = float | Fraction  # whole numbers too
_OPTIONAL = ("gang", "limit", "team", "together", "labels")


@dataclass(frozen=True, slots=True)
class Job:
    """Equal tasks of one user, which arrive together, for `simulate`.

    Parameters
    ----------
    user : str
        Label of the user. A user may have several jobs.
    demands : array-like of shape (n_resources,) or dict by resource
        Units of each resource that one task takes; at least one is positive. A dict may leave resources out.
    duration : float
        Time that each task runs, > 0, in the unit of all times of the simulation.
    tasks : int, default 1
        Number of tasks, at least 1.
    arrival : float, default 0
        Time from which the tasks wait.
    weight : float, default 1
        Entitlement of the user, > 0; the same in all jobs of a user.
    eligible : sequence of str or of bool, optional
        Labels of servers, or of types of servers, where the tasks may run, or booleans by server. Default: all.
    gang : bool, default False
        Whether all tasks start at the same moment, or none.
    limit : float, optional
        The longest that a task may run, as the user requested it; at least ``duration``, which is the default.
        Backfilling plans with it. ``math.inf`` is no limit: no end is planned.
    team : str, optional
        Team of the user; the same in all jobs of a user. Hierarchical DRF and tables by team read it.
    together : str, optional
        A label of several jobs of a user with one arrival, whose tasks all start at the same moment, such as the parts
        of a heterogeneous job. Each has one task or is a gang.
    labels : dict of str by str, optional
        What else is known of the job, such as ``{"partition": "gpu", "qos": "high"}``, for schedulers that read it.

    Raises
    ------
    InvalidInstance
        If a value is wrong.

    Notes
    -----
    Times given as whole numbers or as `fractions.Fraction` are added up exactly.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Job("batch", [2.5, 3], 30, tasks=450)
    Job(user='batch', demands=(2.5, 3.0), duration=30, tasks=450, arrival=0, weight=1.0, eligible=None)
    >>> fo.Job("web", {"cpu": 1}, duration=0)
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: duration of a job of user 'web' is 0; give a finite number > 0
    """

    user: str
    demands: ArrayLike | Mapping[str, float]
    duration: Time
    tasks: int = field(default=1, kw_only=True)
    arrival: Time = field(default=0, kw_only=True)  # whole, so that fractions stay fractions
    weight: float = field(default=1.0, kw_only=True)
    eligible: Sequence[str] | Sequence[bool] | None = field(default=None, kw_only=True)
    gang: bool = field(default=False, kw_only=True)
    limit: Time | None = field(default=None, kw_only=True)
    team: str | None = field(default=None, kw_only=True)
    together: str | None = field(default=None, kw_only=True)
    labels: Mapping[str, str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.user, str) or not self.user:
            raise InvalidInstance(f"the user of a job is {self.user!r}; give a label, as 'web'")
        tasks = _number(self.user, "tasks", self.tasks, positive=True)
        if tasks != int(tasks) or tasks > MOST_TASKS:
            fix = "give a whole number >= 1 and up to 2**53"
            raise InvalidInstance(f"tasks of a job of user {self.user!r} is {tasks!r}; {fix}")
        for name, value in (
            ("demands", checked_demands(self.user, self.demands)),
            ("tasks", int(tasks)),
            ("duration", _number(self.user, "duration", self.duration, positive=True)),
            ("arrival", _number(self.user, "arrival", self.arrival)),
            ("weight", float(_number(self.user, "weight", self.weight, positive=True))),
            ("eligible", checked_places(self.user, self.eligible)),
        ):
            object.__setattr__(self, name, value)
        self._check_options()

    def _check_options(self) -> None:
        """Check ``gang``, ``limit``, ``team``, ``together`` and ``labels``."""
        if self.gang is False and all(getattr(self, name) is None for name in _OPTIONAL[1:]):
            return
        gang: Any = self.gang
        if not isinstance(gang, (bool, np.bool_)):
            raise InvalidInstance(f"gang of a job of user {self.user!r} is {gang!r}; give True or False")
        object.__setattr__(self, "gang", bool(gang))
        if self.limit is not None and self.limit != math.inf:
            limit = _number(self.user, "limit", self.limit, positive=True)
            object.__setattr__(self, "limit", limit)
            if limit < self.duration:
                raise InvalidInstance(
                    f"limit of a job of user {self.user!r} is {limit}, below its duration {self.duration}: its tasks "
                    "would be ended first; give a limit of at least the duration, or the limit as the duration"
                )
        for name in ("team", "together"):
            label = getattr(self, name)
            if label is not None and (not isinstance(label, str) or not label):
                raise InvalidInstance(f"{name} of a job of user {self.user!r} is {label!r}; give a label, as 'nlp'")
        if self.together is not None and self.tasks > 1 and not self.gang:
            raise InvalidInstance(
                f"a job of user {self.user!r} starts together with others and has {self.tasks} tasks; give gang=True"
            )
        if self.labels is not None:
            given: Any = self.labels
            if not isinstance(given, Mapping) or not all(
                isinstance(one, str) for pair in given.items() for one in pair
            ):
                fix = "give a dict of texts, such as {'partition': 'gpu'}"
                raise InvalidInstance(f"labels of a job of user {self.user!r} are {given!r}; {fix}")
            object.__setattr__(self, "labels", dict(given))

    def __repr__(self) -> str:
        optional = {"gang": False, **dict.fromkeys(_OPTIONAL[1:])}  # shown if given
        names = [f.name for f in fields(self) if optional.get(f.name, "") != getattr(self, f.name)]
        return f"Job({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def walltime(self) -> Time:
        """The limit, or without one the duration."""
        return self.duration if self.limit is None else self.limit


def _number(user: str, name: str, value: Any, positive: bool = False) -> Any:
    """A finite number; whole numbers and fractions stay exact, others become floats."""
    if type(value) is float and (0.0 if positive else -math.inf) < value < math.inf:
        return value
    if type(value) not in (float, int, Fraction, bool) and isinstance(value, Real):
        value = int(value) if isinstance(value, Integral) else float(value)
    try:
        right = type(value) in (float, int, Fraction) and math.isfinite(value) and not (positive and value <= 0)
    except OverflowError:
        right = False
    if not right:
        fix = "give a finite number > 0" if positive else "give a finite number"
        raise InvalidInstance(f"{name} of a job of user {user!r} is {value!r}; {fix}")
    return value


class JobTable:
    """Jobs as arrays. Jobs of one *kind* have the same user, demands and eligible servers.

    ``users`` are in order of their first job, with ``weights`` and ``team_of_user``, indices of ``teams`` (-1 for users
    without a team). ``kind``, ``user``, ``tasks``, ``arrival`` and
    ``duration`` are by job; ``user_of_kind``, ``demands``, ``requests`` and ``share`` (of one task) by kind.
    """

    def __init__(self, jobs: Iterable[Job], requests: Requests) -> None:
        """Check the jobs and the share against the servers."""
        if isinstance(jobs, Job) or not isinstance(jobs, Iterable):
            raise InvalidInstance(f"jobs is {jobs!r}; give a list of fo.Job(user, demands, duration, ...)")
        self.jobs = tuple(jobs)
        users: dict[str, int] = {}
        kinds: dict[Any, int] = {}
        self.requests: list[Request] = []
        kind, user_of_kind, shares = [], [], []
        weights: list[float] = []
        teams: dict[str, int] = {}
        team_of_user: list[str | None] = []
        gangs: set[tuple[int, int]] = set()  # checked
        self.parts: dict[str, list[int]] = {}  # the jobs that start together, by label
        for k, job in enumerate(self.jobs):
            if not isinstance(job, Job):
                raise InvalidInstance(f"jobs[{k}] is {job!r}; give a list of fo.Job(user, demands, duration, ...)")
            user = users.setdefault(job.user, len(users))
            if user == len(weights):
                weights.append(job.weight)
                team_of_user.append(job.team)
                if job.team is not None:
                    teams.setdefault(job.team, len(teams))
            elif weights[user] != job.weight:
                both = f"{weights[user]:g} and {job.weight:g}"
                raise InvalidInstance(
                    f"user {job.user!r} has jobs of weights {both}; give all its jobs the same weight"
                )
            elif team_of_user[user] != job.team:
                both = f"{team_of_user[user]!r} and {job.team!r}"
                raise InvalidInstance(f"user {job.user!r} has jobs of teams {both}; give all its jobs the same team")
            row: Any = tuple(job.demands.items()) if isinstance(job.demands, Mapping) else job.demands
            kind.append(kinds.setdefault((user, row, job.eligible), len(kinds)))
            if kind[-1] == len(self.requests):
                _, request, share = requests.of(job.user, job.demands, job.eligible)
                if isinstance(share, list):
                    if min(share) < max(share):
                        what = f"{requests.share!r} of user {job.user!r} differs by server"
                        raise InvalidBlock(f"{what}; use a share that is the same on each")
                    share = share[0]
                self.requests.append(request)
                user_of_kind.append(user)
                shares.append(share)
            if job.gang and (k_size := (kind[-1], job.tasks)) not in gangs:
                gangs.add(k_size)
                requests.check_gang(job.user, self.requests[kind[-1]], job.tasks)
            if job.together is not None:
                self.parts.setdefault(job.together, []).append(k)
        for name, parts in self.parts.items():
            if len({(self.jobs[k].user, self.jobs[k].arrival) for k in parts}) > 1:
                what = f"the jobs that start together as {name!r} have several users or arrivals"
                raise InvalidInstance(f"{what}; give them one user and one arrival")
            requests.check_parts(name, [(self.requests[kind[k]], self.jobs[k].tasks) for k in parts])
        self.users, self.weights = tuple(users), np.array(weights, dtype=float)
        self.teams = tuple(teams)
        self.team_of_user: Ints = np.array([-1 if t is None else teams[t] for t in team_of_user], dtype=np.int64)
        self.kind, self.user_of_kind = np.array(kind, dtype=np.int64), np.array(user_of_kind, dtype=np.int64)
        n_resources = requests.instance.n_resources
        self.demands: Float = np.array([r.units for r in self.requests], dtype=float).reshape(-1, n_resources)
        self.share: Float = np.array(shares, dtype=float)
        self.user: Ints = self.user_of_kind[self.kind]
        self.tasks: Ints = np.array([job.tasks for job in self.jobs], dtype=np.int64)
        self.arrival: Float = np.array([job.arrival for job in self.jobs], dtype=float)
        self.duration: Float = np.array([job.duration for job in self.jobs], dtype=float)
