"""Monotonicity of a mechanism: no user loses when another user leaves, or when there is more of something."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.formulation.program import require_instance
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.properties.answers import checked
from fairopt.properties.misreports.search import FLOOR
from fairopt.properties.uncertainty import error_bound
from fairopt.properties.verdicts import Verdict

__all__ = ["FACTORS", "Departure", "Growth", "population_monotone", "resource_monotone"]

Float = NDArray[np.floating[Any]]

FACTORS = (1.01, 1.1, 1.25, 1.5, 2.0, 4.0)  # by which a capacity grows


@dataclass(frozen=True)
class Departure:
    """Who loses most when a user leaves: tasks before and after."""

    leaver: str
    loser: str
    before: float
    after: float


@dataclass(frozen=True)
class Growth:
    """Who loses most when the capacity of a resource on a server grows by a factor: tasks before and after."""

    server: str
    resource: str
    factor: float
    loser: str
    before: float
    after: float


def population_monotone(mechanism: Any, instance: Instance, tol: float = 1e-5) -> Verdict:
    """Whether nobody gets fewer tasks when another user leaves.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        Any number of servers. Users with a task limit of 0 do not leave.
    tol : float, default 1e-5
        Relative loss that counts as none; a loss must also be beyond what the gaps of both answers leave open.

    Returns
    -------
    Verdict
        Its margin is the largest relative loss of tasks, and its witness the `Departure` of it (None where no
        user can leave). Departures after which the mechanism is not defined are passed over.

    Raises
    ------
    Exception
        Whatever the mechanism raises, with and without a user.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.monotone import population_monotone
    >>> cluster = fo.Instance([[1, 1], [3, 1], [1, 3]], [7, 5], users=["a", "b", "c"])
    >>> print(population_monotone(fo.FDS(1), cluster))
    FDS(alpha=1) here: when user 'c' leaves, user 'b' gets 1.16667 tasks instead of 1.57735 (-26.036%)
    >>> population_monotone(fo.DRF(), cluster).holds
    True
    """
    before, unsure = _tasks_of(mechanism, instance)
    floor = FLOOR * instance.tasks_alone.sum(axis=1)
    worst: tuple[float, Departure] | None = None
    part = np.flatnonzero(instance.task_limits > 0)
    for k in part if len(part) > 1 else ():
        rest = np.delete(np.arange(instance.n_users), k)
        try:
            after, beside = _tasks_of(mechanism, instance.select_users(rest))
        except OutOfDomain:
            continue
        j, loss = _largest_loss(before[rest], after, floor[rest], unsure[rest] + beside)
        if worst is None or loss > worst[0]:
            users = instance.users
            worst = loss, Departure(users[k], users[rest[j]], float(before[rest[j]]), float(after[j]))
    name = "population-monotone"
    if worst is None:
        return Verdict(name, True, 0.0, None, f"{label(mechanism)} here: there is nobody to leave")
    loss, shown = worst
    if loss <= tol:
        return Verdict(name, True, loss, shown, f"{label(mechanism)} here: whoever leaves, nobody gets fewer tasks")
    return Verdict(
        name, False, loss, shown,
        f"{label(mechanism)} here: when user {shown.leaver!r} leaves, user {shown.loser!r} gets {shown.after:.6g} "
        f"tasks instead of {shown.before:.6g} (-{loss:.3%})",
    )  # fmt: skip


def resource_monotone(
    mechanism: Any, instance: Instance, tol: float = 1e-5, factors: Iterable[float] = FACTORS
) -> Verdict:
    """Whether nobody gets fewer tasks when a capacity grows.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        Any number of servers: each resource of each row grows by itself.
    tol : float, default 1e-5
        As in `population_monotone`.
    factors : iterable of float, default 1.01 to 4
        By which a capacity grows.

    Returns
    -------
    Verdict
        Its margin is the largest relative loss of tasks, and its witness the `Growth` of it (None where nothing can
        grow).

    Raises
    ------
    InvalidBlock
        If a factor is not above 1.
    Exception
        Whatever the mechanism raises, before and after.

    Examples
    --------
    With more bandwidth a task of the first user counts for less, so it gets more of them, with the other's memory:

    >>> import fairopt as fo
    >>> from fairopt.properties.monotone import resource_monotone
    >>> cluster = fo.Instance([[3, 1], [1, 3]], [4, 4], users=["a", "b"], resources=["bandwidth", "memory"])
    >>> print(resource_monotone(fo.DRF(), cluster))
    DRF here: with 4 times as much 'bandwidth', user 'b' gets 0.666667 tasks instead of 1 (-33.333%)
    """
    grown = tuple(float(f) for f in factors)
    for factor in grown:
        if not 1.0 < factor < np.inf:
            raise InvalidBlock(f"a factor is {factor!r}; give finite numbers above 1")
    before, unsure = _tasks_of(mechanism, instance)
    floor = FLOOR * instance.tasks_alone.sum(axis=1)
    worst: tuple[float, Growth] | None = None
    for s, i in np.argwhere(instance.capacities > 0):
        for factor in grown if instance.n_users else ():
            more = np.array(instance.capacities)
            more[s, i] *= factor
            try:
                after, beside = _tasks_of(mechanism, instance.with_capacities(more))
            except OutOfDomain:
                continue
            j, loss = _largest_loss(before, after, floor, unsure + beside)
            if worst is None or loss > worst[0]:
                worst = loss, Growth(
                    instance.servers[s], instance.resources[i], factor, instance.users[j], float(before[j]),
                    float(after[j]),
                )  # fmt: skip
    name = "resource-monotone"
    if worst is None:
        return Verdict(name, True, 0.0, None, f"{label(mechanism)} here: there is nothing to grow")
    loss, shown = worst
    if loss <= tol:
        return Verdict(name, True, loss, shown, f"{label(mechanism)} here: whatever grows, nobody gets fewer tasks")
    where = "" if instance.n_servers == 1 else f" on server {shown.server!r}"
    return Verdict(
        name, False, loss, shown,
        f"{label(mechanism)} here: with {shown.factor:g} times as much {shown.resource!r}{where}, user {shown.loser!r} "
        f"gets {shown.after:.6g} tasks instead of {shown.before:.6g} (-{loss:.3%})",
    )  # fmt: skip


def _tasks_of(mechanism: Any, instance: Instance) -> tuple[Float, Float]:
    """Tasks, and by how much of them they may be off."""
    require_instance(instance)
    answer = checked(mechanism, instance)
    return np.asarray(answer.tasks, dtype=float), error_bound(answer)


def _largest_loss(before: Float, after: Float, floor: Float, unsure: Float) -> tuple[int, float]:
    """Who loses most of its tasks, and how much beyond doubt; negative where all users gain.

    A loss that is next to nothing beside what the user could run alone is none.
    """
    less = before - after
    lost = np.divide(less, before, out=np.where(less < 0, -1.0, 0.0), where=before > 0)
    lost = np.where((less > 0) & (less <= floor), 0.0, lost)
    sure = np.where(lost > unsure, lost, np.minimum(lost, 0.0))
    j = int(sure.argmax())
    return j, float(sure[j])
