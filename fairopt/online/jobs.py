"""Jobs, batches of equal tasks that arrive at a time and run for one; and many of them as arrays, by number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.blocks.shares import Share
from fairopt.certificate import VIOLATION_TOLERANCE
from fairopt.errors import InvalidBlock, InvalidInstance, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.labels import by_label
from fairopt.validation import as_floats

__all__ = ["Job", "JobTable", "coefficients", "table_of"]

Float = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Time = float | Fraction  # whole numbers too

MOST = 2_000_000  # numbers of a block of kinds times servers that is compared at once


@dataclass(frozen=True, slots=True)
class Job:
    """Equal tasks of one user, which arrive together and run one by one or at once, for `simulate`.

    Parameters
    ----------
    user : str
        Label of the user. A user may have several jobs.
    demands : array-like of shape (n_resources,) or dict by resource
        Units of each resource that one task takes; at least one is positive. A dict may leave resources out.
    duration : float
        How long each task runs, > 0, in the unit of all times of the simulation, as seconds.
    tasks : int, default 1
        Number of tasks, at least 1.
    arrival : float, default 0
        When the tasks start to wait.
    weight : float, default 1
        Entitlement of the user, > 0; the same in all jobs of a user.
    eligible : sequence of str or of bool, optional
        Labels of the servers, or of types of servers, where the tasks may run, or True and False by server. Default
        everywhere.

    Raises
    ------
    InvalidInstance
        If a value is wrong; the message names the user, the value and the fix.

    Notes
    -----
    Times given as whole numbers or as `fractions.Fraction` are added up exactly.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Job("batch", [2.5, 3], 30, tasks=450)
    Job(user='batch', demands=(2.5, 3.0), duration=30, tasks=450, arrival=0.0, weight=1.0, eligible=None)
    >>> fo.Job("web", {"cpu": 1}, duration=0)
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: duration of a job of user 'web' is 0; give a finite number > 0
    """

    user: str
    demands: ArrayLike | Mapping[str, float]
    duration: Time
    tasks: int = field(default=1, kw_only=True)
    arrival: Time = field(default=0.0, kw_only=True)
    weight: float = field(default=1.0, kw_only=True)
    eligible: Sequence[str] | Sequence[bool] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.user, str) or not self.user:
            raise InvalidInstance(f"the user of a job is {self.user!r}; give a label, as 'web'")
        tasks = _number(self.user, "tasks", self.tasks, positive=True)
        if tasks != int(tasks):
            raise InvalidInstance(f"tasks of a job of user {self.user!r} is {tasks!r}; give a whole number >= 1")
        for name, value in (
            ("demands", _demands(self.user, self.demands)), ("tasks", int(tasks)),
            ("duration", _number(self.user, "duration", self.duration, positive=True)),
            ("arrival", _number(self.user, "arrival", self.arrival)),
            ("weight", float(_number(self.user, "weight", self.weight, positive=True))),
            ("eligible", _eligible(self.user, self.eligible)),
        ):  # fmt: skip
            object.__setattr__(self, name, value)


def _number(user: str, name: str, value: Any, positive: bool = False) -> Any:
    """A finite number: whole numbers and fractions as they are, others as float."""
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


def _demands(user: str, given: Any) -> Any:
    """Units by resource as a tuple, not copied where it is one of floats, or as a dict."""
    if type(given) is tuple and all(type(units) is float for units in given):
        named: Iterable[tuple[Any, float]] = enumerate(given, 1)
    else:
        given = by_label(given)
        if isinstance(given, Mapping):
            given = {str(name): float(_number(user, f"demand for {name!r}", units)) for name, units in given.items()}
            named = given.items()
        else:
            array = as_floats(given, f"demands of a job of user {user!r}")
            if array.ndim != 1:
                raise InvalidInstance(
                    f"demands of a job of user {user!r} have shape {array.shape}; give (n_resources,)"
                )
            given = tuple(array.tolist())
            named = enumerate(given, 1)
    some = False
    for name, units in named:
        if not 0 <= units < math.inf:
            where = f"resource {name!r}" if isinstance(name, str) else f"resource number {name}"
            raise InvalidInstance(f"demand of user {user!r} for {where} is {units!r}; give a finite number >= 0")
        some = some or units > 0
    if not some:
        raise InvalidInstance(
            f"a job of user {user!r} demands nothing at all; give it a positive demand or leave it out"
        )
    return given


def _eligible(user: str, given: Any) -> tuple[str, ...] | tuple[bool, ...] | None:
    """Labels or a mask as a tuple, not copied where it is one."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInstance(f"eligible of a job of user {user!r} is {given!r}; give a list of labels of servers")
    if type(given) is not tuple:
        given = tuple(given.tolist() if isinstance(given, np.ndarray) else given)
    if not given or not (all(isinstance(x, str) for x in given) or all(isinstance(x, bool) for x in given)):
        fix = "give labels of servers, at least one, or True or False for each server; leave it out for all servers"
        raise InvalidInstance(f"eligible of a job of user {user!r} is {list(given)[:5]!r}; {fix}")
    return given


@dataclass(frozen=True, eq=False)
class JobTable:
    """Jobs on servers as arrays. Jobs of one *kind* have the same user, demands and servers where they may run."""

    jobs: tuple[Job, ...]
    users: tuple[str, ...]  # in order of their first job
    weights: Float  # (n_users,)
    kind: Ints  # of each job
    user_of_kind: Ints
    demands: Float  # (n_kinds, n_resources)
    masks: NDArray[np.bool_]  # (n_masks, n_servers)
    mask_of_kind: Ints

    @cached_property
    def user(self) -> Ints:
        """User of each job."""
        return self.user_of_kind[self.kind]

    @cached_property
    def tasks(self) -> Ints:
        """Number of tasks of each job."""
        return np.array([job.tasks for job in self.jobs], dtype=np.int64)

    @cached_property
    def arrival(self) -> Float:
        """Arrival of each job."""
        return np.array([job.arrival for job in self.jobs], dtype=float)

    @cached_property
    def duration(self) -> Float:
        """Duration of each job's tasks."""
        return np.array([job.duration for job in self.jobs], dtype=float)

    @cached_property
    def eligible(self) -> NDArray[np.bool_]:
        """Where tasks of each kind may run, shape (n_kinds, n_servers)."""
        return self.masks[self.mask_of_kind]


def table_of(jobs: Iterable[Job], cluster: Instance) -> JobTable:
    """Jobs checked against the servers: the first task that fits on no empty server is an error."""
    listed = tuple(jobs)
    users: dict[str, int] = {}
    kinds: dict[Any, int] = {}
    masks: dict[Any, int] = {}
    weights: list[float] = []
    kind: list[int] = []
    for k, job in enumerate(listed):
        if not isinstance(job, Job):
            raise InvalidInstance(f"jobs[{k}] is {job!r}; give a list of fo.Job(user, demands, duration, ...)")
        j = users.setdefault(job.user, len(users))
        if j == len(weights):
            weights.append(job.weight)
        elif weights[j] != job.weight:
            both = f"{weights[j]:g} and {job.weight:g}"
            raise InvalidInstance(
                f"user {job.user!r} has jobs of weights {both}; give all jobs of a user the same weight"
            )
        given: Any = job.demands
        row = given if isinstance(given, tuple) else _row(job.user, given, cluster.resources)
        if len(row) != cluster.n_resources:
            raise InvalidInstance(
                f"a job of user {job.user!r} has {len(row)} demands, and servers have {cluster.n_resources} resources "
                f"({', '.join(cluster.resources)}); give a number for each, or a dict by resource"
            )
        mask = masks.setdefault(job.eligible, len(masks))
        kind.append(kinds.setdefault((j, row, mask), len(kinds)))
    places = _places(cluster)
    first = dict(zip(reversed(kind), reversed(listed), strict=True))  # of each kind
    columns = [*zip(*kinds, strict=True)] or [(), (), ()]
    table = JobTable(
        listed, tuple(users), np.array(weights, dtype=float), np.array(kind, dtype=np.int64),
        np.array(columns[0], dtype=np.int64), np.array(columns[1], dtype=float).reshape(-1, cluster.n_resources),
        np.array([_mask(cluster, places, m) for m in masks], dtype=bool).reshape(-1, cluster.n_servers),
        np.array(columns[2], dtype=np.int64),
    )  # fmt: skip
    for k in np.flatnonzero(~_fitting(table, cluster)).tolist():
        _refuse_large(first[k].user, table.demands[k], cluster, table.masks[table.mask_of_kind[k]])
    return table


def _row(user: str, demands: Mapping[str, float], resources: Sequence[str]) -> tuple[float, ...]:
    """A dict by resource as a row."""
    for name in demands:
        if name not in resources:
            raise InvalidInstance(
                f"a job of user {user!r} demands {name!r}, which servers do not have; {nearest(name, resources)} (give "
                "capacities as a dict by resource, or an Instance, to name theirs)"
            )
    return tuple(demands.get(name, 0.0) for name in resources)


def _places(cluster: Instance) -> dict[str, list[int]]:
    """Rows of servers by label, and by type where no server has that label."""
    places = {name: [s] for s, name in enumerate(cluster.servers)}
    for s, name in enumerate(cluster.server_types or ()):
        if name not in cluster.servers:
            places.setdefault(name, []).append(s)
    return places


def _mask(cluster: Instance, places: Mapping[str, list[int]], given: Any) -> NDArray[np.bool_]:
    """Where tasks may run, shape (n_servers,)."""
    if given is None:
        return np.ones(cluster.n_servers, dtype=bool)
    if isinstance(given[0], bool):
        if len(given) != cluster.n_servers:
            raise InvalidInstance(
                f"eligible of a job has {len(given)} entries for {cluster.n_servers} servers; give one each"
            )
        return np.array(given)
    mask = np.zeros(cluster.n_servers, dtype=bool)
    for name in given:
        if name not in places:
            raise InvalidInstance(f"eligible of a job names {name!r}, which is not a server; {nearest(name, places)}")
        mask[places[name]] = True
    return mask


def _fitting(table: JobTable, cluster: Instance) -> NDArray[np.bool_]:
    """Whether a task of each kind fits on an empty server where it may run."""
    sizes, size_of = np.unique(cluster.capacities, axis=0, return_inverse=True)
    allowed = np.zeros((len(table.masks), len(sizes)), dtype=bool)
    for mask, sizes_there in zip(table.masks, allowed, strict=True):
        sizes_there[size_of[mask]] = True
    room = sizes * (1 + VIOLATION_TOLERANCE)
    step = max(1, MOST // sizes.size)
    fits = [
        ((table.demands[k : k + step, None] <= room).all(axis=2) & allowed[table.mask_of_kind[k : k + step]]).any(
            axis=1
        )
        for k in range(0, len(table.demands), step)
    ]
    return np.concatenate([np.zeros(0, dtype=bool), *fits])


def _refuse_large(user: str, units: Float, cluster: Instance, mask: NDArray[np.bool_]) -> None:
    """`InvalidInstance` for a task that fits nowhere."""
    most = cluster.capacities[mask].max(axis=0, initial=0.0)
    where = "no server" if mask.all() else "no server where it may run"
    fix = "make the task smaller, or leave the job out"
    for name, needed, there in zip(cluster.resource_titles, units, most, strict=True):
        if needed > there:
            raise InvalidInstance(
                f"a task of user {user!r} needs {needed:g} of {name}, and {where} has more than {there:g}; {fix}"
            )
    listed = ", ".join(f"{d:g} of {name}" for name, d in zip(cluster.resource_titles, units, strict=True) if d > 0)
    raise InvalidInstance(f"a task of user {user!r} needs {listed}, and {where} has all of it; {fix}")


def coefficients(table: JobTable, cluster: Instance, share: Share) -> Float:
    """The share of one task of each kind, as that of an instance of its user alone: shape (n_kinds,)."""
    n = len(table.demands)
    step = max(1, MOST // cluster.capacities.size) if share.by_row else 1
    parts = []
    for k in range(0, n, step):
        try:
            parts.append(_alone(table, cluster, share, range(k, min(k + step, n))))
        except OutOfDomain:
            for one in range(k, min(k + step, n)):
                _alone(table, cluster, share, range(one, one + 1))  # its error names the user
            raise
    return np.concatenate([np.zeros(0), *parts])


def _alone(table: JobTable, cluster: Instance, share: Share, kinds: range) -> Float:
    """`coefficients` of some kinds."""
    rows = np.arange(kinds.start, kinds.stop)
    one = len(rows) == 1
    c = share.coefficients(Instance(
        table.demands[rows], cluster.capacities, users=[table.users[table.user_of_kind[rows[0]]]] if one else None,
        eligible=table.eligible[rows] if one else None, resources=cluster.resources, servers=cluster.servers,
        server_types=cluster.server_types,
    ))  # fmt: skip
    if c.ndim != 1:
        raise InvalidBlock(f"{share!r} differs by server for the same demands; give a share that is one number by user")
    return c
