"""Monotonicity of a mechanism: no user loses when another user leaves, or when a capacity grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fairopt.blocks.shares import Share
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.properties.answers import checked
from fairopt.properties.misreports.best import FLOOR
from fairopt.properties.names import when_late, zero_if_noise
from fairopt.properties.uncertainty import error_bound
from fairopt.properties.verdicts import Verdict
from fairopt.properties.work import Wording, Work, work_by
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.clock import Clock, Late
from fairopt.runtime.progress import by_itself
from fairopt.solve.form.program import require_instance

# The instance after a change, the previous indices of its users, the change in words, and a function that makes the
# witness from the loser and its tasks before and after.
Change = tuple[Instance, Indices, str, Callable[[str, float, float], "Departure | Growth"]]

FACTORS = (1.01, 1.1, 1.25, 1.5, 2.0, 4.0)


@dataclass(frozen=True)
class Departure:
    """The user who loses most when another leaves, with its tasks before and after."""

    leaver: str
    loser: str
    before: float
    after: float


@dataclass(frozen=True)
class Growth:
    """The user who loses most when a capacity grows by a factor, with its tasks before and after."""

    server: str
    resource: str
    factor: float
    loser: str
    before: float
    after: float


def population_monotone(
    policy: Any,
    instance: Instance,
    tol: float = 1e-5,
    *,
    share: Share | None = None,
    time_limit: float | None = None,
) -> Verdict:
    """Check that no user runs fewer tasks when another user leaves.

    Parameters
    ----------
    policy : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        Users and servers. Users with a task limit of 0 do not leave.
    tol : float, default 1e-5
        Largest relative loss that counts as none. Losses within what the gaps of both answers leave open do not count.
    share : Share, optional
        What users compare instead of tasks, as in `check`; a task counts the same before and after.
    time_limit : float, optional
        Seconds. If some departures are untested by then and no user was found to lose, ``holds`` is None.

    Returns
    -------
    Verdict
        The margin is the largest relative loss of tasks; the details are a `Departure`, or None if no user can leave.
        Departures after which the mechanism raises `OutOfDomain` are left out. Other exceptions are raised.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 1], [3, 1], [1, 3]], [7, 5], users=["a", "b", "c"])
    >>> print(fo.properties.population_monotone(fo.FDS(1), cluster))
    FDS(alpha=1): when user 'c' leaves, user 'b' runs 1.16667 tasks instead of 1.57735 (-26.036%)
    >>> fo.properties.population_monotone(fo.DRF(), cluster).holds
    True
    """
    part, users = np.flatnonzero(instance.task_limits > 0), instance.users

    def departures() -> Iterable[Change]:
        for k in part if len(part) > 1 else ():
            rest = np.delete(np.arange(instance.n_users), k)
            yield instance.select_users(rest), rest, f"when user {users[k]!r} leaves", partial(Departure, users[k])

    work = work_by(share, policy, instance)
    none = "no user can leave", f"no user {Wording(work).falls} when another leaves"
    total = len(part) if len(part) > 1 else 0
    return _verdict("population-monotone", policy, instance, tol, departures(), total, none, Clock(time_limit), work)


def resource_monotone(
    policy: Any,
    instance: Instance,
    tol: float = 1e-5,
    factors: Iterable[float] = FACTORS,
    *,
    share: Share | None = None,
    time_limit: float | None = None,
) -> Verdict:
    """Check that no user runs fewer tasks when a capacity grows.

    Parameters
    ----------
    policy : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        Users and servers. Each capacity of each server grows alone.
    factors : iterable of float, default 1.01 to 4
        Factors of the growth.
    tol, share, time_limit
        As in `population_monotone`.

    Returns
    -------
    Verdict
        As of `population_monotone`, with a `Growth` as details.

    Raises
    ------
    InvalidBlock
        If a factor is not above 1.

    Examples
    --------
    With more bandwidth each task of the first user has a smaller share, so it runs more tasks and takes memory from
    the other:

    >>> import fairopt as fo
    >>> cluster = fo.Instance([[3, 1], [1, 3]], [4, 4], users=["a", "b"], resources=["bandwidth", "memory"])
    >>> print(fo.properties.resource_monotone(fo.DRF(), cluster))
    DRF: with 4 times as much 'bandwidth', user 'b' runs 0.666667 tasks instead of 1 (-33.333%)
    """
    grown = tuple(float(f) for f in factors)
    for factor in grown:
        if not 1.0 < factor < np.inf:
            raise InvalidBlock(f"a factor is {factor!r}; give finite numbers above 1")
    users = np.arange(instance.n_users)
    places = np.argwhere(instance.capacities > 0) if len(users) else np.zeros((0, 2), dtype=np.intp)

    def growths() -> Iterable[Change]:
        for s, i in places:
            server, resource = instance.servers[s], instance.resources[i]
            where = "" if instance.n_servers == 1 else f" on server {server!r}"
            for factor in grown:
                more = np.array(instance.capacities)
                more[s, i] *= factor
                words = f"with {factor:g} times as much {resource!r}{where}"
                yield instance.with_capacities(more), users, words, partial(Growth, server, resource, factor)

    work = work_by(share, policy, instance)
    none = "no capacity can grow", f"no user {Wording(work).falls} when a capacity grows"
    total = len(places) * len(grown)
    return _verdict("resource-monotone", policy, instance, tol, growths(), total, none, Clock(time_limit), work)


def _verdict(
    name: str,
    policy: Any,
    instance: Instance,
    tol: float,
    changes: Iterable[Change],
    total: int,
    none: tuple[str, str],
    clock: Clock,
    work: Work | None,
) -> Verdict:
    """The verdict on all changes; ``none`` are the sentences without changes and without losses."""
    worth = np.broadcast_to(1.0, instance.eligible.shape) if work is None else work.per_task
    floor, say = FLOOR * (instance.tasks_alone.sum(axis=1) if work is None else work.alone), Wording(work)
    margin, shown, what, done = -np.inf, None, "", 0
    try:
        with by_itself() as tell, clock.enforced():
            before, unsure = _counted(policy, instance, worth)
            for changed, kept, words, witness in changes:
                tell(f"{name}: {words}", done, total)
                try:
                    after, beside = _counted(policy, changed, worth[kept])
                except OutOfDomain:
                    done += 1
                    continue
                done += 1
                j, loss = _largest_loss(before[kept], after, floor[kept], unsure[kept] + beside)
                if shown is None or loss > margin:
                    margin, shown = loss, witness(instance.users[kept[j]], float(before[kept[j]]), float(after[j]))
                    has = say.has(f"{zero_if_noise(shown.after, shown.before):.6g}")
                    what = f"{words}, user {shown.loser!r} {has} instead of {shown.before:.6g} (-{loss:.3%})"
    except Late:
        if not clock.late:  # the limit of the search that calls this one
            raise
    holds: bool | None = margin <= tol
    sentence = none[1] if holds and (shown is not None or done < total) else none[0] if holds else what
    if left := total - done:
        holds = None if holds else False
        sentence += f", as far as was tried: {left:,} of {total:,} changes were left {when_late(clock)}"
    return Verdict(name, holds, 0.0 if shown is None else margin, shown, f"{label(policy)}: {sentence}")


def _counted(policy: Any, instance: Instance, worth: Float) -> tuple[Float, Float]:
    """What the tasks of all users count, (n_users,), and bounds on its relative errors."""
    require_instance(instance)
    answer = checked(policy, instance)
    return (worth * np.asarray(answer.tasks_by_server, dtype=float)).sum(axis=1), error_bound(answer)


def _largest_loss(before: Float, after: Float, floor: Float, unsure: Float) -> tuple[int, float]:
    """The user with the largest relative loss that exceeds the errors, and that loss; negative where all users gain.

    A loss of at most ``floor`` tasks is rounding.
    """
    less = before - after
    lost = np.divide(less, before, out=np.where(less < 0, -1.0, 0.0), where=before > 0)
    lost = np.where((less > 0) & (less <= floor), 0.0, lost)
    sure = np.where(lost > unsure, lost, np.minimum(lost, 0.0))
    j = int(sure.argmax())
    return j, float(sure[j])
