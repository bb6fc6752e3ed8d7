"""A mechanism on many small pools at once: in step where a fast route allows, else one by one, and never trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.allocation import Allocation, feasibility
from fairopt.blocks.bundles import AtMostRequested, FairShareBase, GlobalAggregateResource, WeightedLog
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Total
from fairopt.blocks.shares import Share
from fairopt.certificate import GAP_TOLERANCE, VIOLATION_TOLERANCE
from fairopt.errors import InvalidBlock, NotCertified, OutOfDomain
from fairopt.instance import Instance
from fairopt.methods.batch.solve import allocate_many
from fairopt.policy import Policy, label

__all__ = ["Outcomes", "answers_otherwise", "checked", "differing", "doubt", "left_open", "outcomes"]

Float = NDArray[np.floating[Any]]
Bool = NDArray[np.bool_]
Fault = tuple[int, Exception]

# Pools that stand side by side as servers of one instance. MLF-DRS took 1.9, 1.9, 2.5, 2.6 and 3.4 microseconds per
# pool of 3 x 3 with 2**8, 2**10, 2**12, 2**14 and 2**17 of them.
SIDE_BY_SIDE = 2**10
ROUNDING = 1e-9  # of tasks that were found by a finite number of operations: water-filling, closed forms, vertices
TWICE = 2.0  # bounds are rounded, and a proved gap holds to first order
SAME = 1e-6  # of what a user could run alone: answers of a mechanism that is not random differ by nothing


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What a mechanism did on many pools.

    Attributes
    ----------
    tasks : ndarray of shape (n_instances, n_users)
        NaN throughout an instance that has no answer.
    ok : ndarray of bool of shape (n_instances,)
        Which answers are certified and within capacities and limits, by our own measure.
    bundles : ndarray of shape (n_instances, n_users, n_resources) or None
        What users hold, where the mechanism decides bundles; None where that is tasks times demands.
    outside : ndarray of bool of shape (n_instances,)
        Where the mechanism is not defined (`OutOfDomain`): no fault of its.
    faults : tuple of (int, Exception)
        The other instances without an answer: what was raised there, or what is wrong with the answer.
    """

    tasks: Float
    ok: Bool
    bundles: Float | None
    outside: Bool
    faults: tuple[Fault, ...]

    def received(self, demands: Float) -> Float:
        """What users hold if these are the demands they stated, shape (n_instances, n_users, n_resources)."""
        return self.tasks[:, :, None] * demands if self.bundles is None else self.bundles


def outcomes(
    mechanism: Any, demands: ArrayLike, capacities: ArrayLike, weights: Any = None, task_limits: Any = None
) -> Outcomes:
    """Run a mechanism on many pools of one shape, and check what it answers.

    Policies that `allocate_many` takes are solved in step, those that decide bundles by bases side by side; anything
    else, and a `Policy` with an ``allocate`` of its own, one by one.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    demands : array-like of shape (n_instances, n_users, n_resources)
        Units of each resource that one task takes.
    capacities : array-like of shape (n_resources,) or (n_instances, n_resources)
        Units of each resource.
    weights, task_limits : array-like of shape (n_users,) or (n_instances, n_users), optional
        As in `Instance`.

    Returns
    -------
    Outcomes
        A mechanism that raises, answers NaN or takes more than there is is at fault there, and the others stand.

    Raises
    ------
    InvalidInstance
        If the numbers are no instances.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.audit.answers import outcomes
    >>> both = outcomes(fo.KDF(2), [[[40, 8, 8], [8, 5, 1]], [[1, 2, 0], [1, 0, 0]]], [200, 200, 200])
    >>> both.tasks[0].round(3), both.outside
    (array([ 1.923, 15.385]), array([False,  True]))
    """
    need = np.asarray(demands, dtype=float)
    size, n, m = need.shape
    room = np.broadcast_to(np.asarray(capacities, dtype=float), (size, m))
    entitled = np.broadcast_to(np.asarray(1.0 if weights is None else weights, dtype=float), (size, n))
    limits = np.broadcast_to(np.asarray(np.inf if task_limits is None else task_limits, dtype=float), (size, n))
    found = _Found(size, n, m)
    left = np.arange(size)
    if size and n and type(mechanism) is Policy:  # a subclass may answer in its own way
        left = _in_step(mechanism, need, room, entitled, limits, found)
    for b in left:
        instance = Instance(need[b], room[b], weights=entitled[b], task_limits=limits[b])
        try:
            answer = checked(mechanism, instance)
        except OutOfDomain:
            found.outside[b] = True
        except Exception as error:  # whatever somebody's own mechanism raises is what there is to report
            found.faults.append((int(b), error))
        else:
            found.keep(b, answer.tasks, None if answer.given_bundles is None else answer.given_bundles[:, 0])
    return Outcomes(found.tasks, found.ok, found.bundles, found.outside, tuple(found.faults))


def checked(mechanism: Any, instance: Instance) -> Allocation:
    """A mechanism's answer, measured on the instance's own data whatever its certificate says.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        Any number of servers.

    Returns
    -------
    Allocation

    Raises
    ------
    NotCertified
        If a number is NaN, or a capacity or a limit is exceeded, or its own certificate says that it is not right.
    InvalidBlock
        If it is no allocation of this instance's users.
    Exception
        Whatever the mechanism raises.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.audit.answers import checked
    >>> checked(fo.DRF(), fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks
    array([ 2.5, 12.5])
    """
    answer = mechanism.allocate(instance)
    name = label(mechanism)
    shape = (instance.n_users, instance.n_servers)
    if not isinstance(answer, Allocation) or np.shape(answer.tasks_by_server) != shape:
        raise InvalidBlock(f"{name} answered {type(answer).__name__}; give an Allocation with tasks of shape {shape}")
    if answer.instance is not instance:  # what was asked counts, not what the mechanism made of it
        answer = replace(answer, instance=instance)
    held = answer.bundles
    wrong = ~np.isfinite(held).all(axis=(1, 2)) | ~np.isfinite(answer.tasks_by_server).all(axis=1)
    if wrong.any():
        user = instance.users[int(wrong.argmax())]
        raise NotCertified(f"{name} gives user {user!r} something that is no finite number", best=answer)
    room = instance.capacities * instance.counts[:, None]
    over = np.divide(answer.usage - room, room, out=np.where(answer.usage > 0, np.inf, 0.0), where=room > 0)
    if over.max(initial=0.0) > VIOLATION_TOLERANCE:
        s, i = np.unravel_index(int(over.argmax()), over.shape)
        raise NotCertified(
            f"{name} hands out {answer.usage[s, i]:.10g} of {instance.resources[i]!r} on server "
            f"{instance.servers[s]!r}, which has {room[s, i]:.10g}",
            best=answer,
        )
    violation = feasibility(instance, np.asarray(answer.tasks_by_server, dtype=float))
    if violation > VIOLATION_TOLERANCE:
        negative = np.argwhere(answer.tasks_by_server < 0)
        if len(negative):
            j, s = negative[0].tolist()
            what = f"gives user {instance.users[j]!r} {answer.tasks_by_server[j, s]:.6g} tasks, fewer than none"
        else:
            what = f"exceeds a capacity or a task limit by {violation:.2g} (or places tasks where they cannot run)"
        raise NotCertified(f"{name} {what}", best=answer)
    if not answer.certificate.ok:
        raise NotCertified(f"{name} answered, but {answer.certificate}", best=answer)
    return answer


def differing(
    mechanism: Any, demands: ArrayLike, capacities: ArrayLike, weights: Any = None, task_limits: Any = None
) -> NDArray[np.int64]:
    """Instances on which a mechanism answers otherwise when asked again: it is random, or remembers.

    Parameters
    ----------
    mechanism, demands, capacities, weights, task_limits
        As in `outcomes`.

    Returns
    -------
    ndarray of int
        Places in the batch.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.audit.answers import differing
    >>> differing(fo.DRF(), [[[40, 8, 8], [8, 5, 1]]], [200, 200, 200])
    array([], dtype=int64)
    """
    need = np.asarray(demands, dtype=float)
    first, again = (outcomes(mechanism, need, capacities, weights, task_limits) for _ in range(2))
    room = np.broadcast_to(np.asarray(capacities, dtype=float), (len(need), need.shape[2]))[:, None]
    alone = np.divide(room, need, out=np.full(need.shape, np.inf), where=need > 0).min(axis=2)
    other = (first.ok != again.ok) | (first.outside != again.outside)
    both = first.ok & again.ok
    apart = np.abs(first.tasks[both] - again.tasks[both]) > SAME * alone[both]
    if first.bundles is not None and again.bundles is not None:
        apart |= (np.abs(first.bundles[both] - again.bundles[both]) > SAME * room[both]).any(axis=2)
    other[both] |= apart.any(axis=1)
    return np.flatnonzero(other)


def answers_otherwise(mechanism: Any, instance: Instance) -> bool:
    """Whether a mechanism answers otherwise when it is asked again about an instance of any number of servers.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``. That it raises is another matter: False.
    instance : Instance
        Where.

    Returns
    -------
    bool
    """
    try:
        first, again = (checked(mechanism, instance.replace()) for _ in range(2))
    except Exception:  # whatever somebody's own mechanism raises is reported where it is needed
        return False
    alone = instance.tasks_alone.sum(axis=1)
    return bool((np.abs(first.tasks - again.tasks) > SAME * alone).any())


def doubt(answer: Allocation) -> Float:
    """By how much each user's tasks may be off, relative to them, judging by the gap that was proved.

    Optima are flat: to be off by the part e_j of its tasks costs alpha-fairness ``alpha / 2 sum_j r_j e_j**2`` of its
    power mean, where ``r_j`` is user j's part of ``sum_j w_j (s_j / w_j)**(1 - alpha)``. So a gap of 1e-12 leaves about
    1e-6, and more to those who count for little: users of small weight, and for large alpha the rich.

    Parameters
    ----------
    answer : Allocation
        With its certificate. Of other objectives than alpha-fairness users count by their weights.

    Returns
    -------
    ndarray of shape (n_users,)
        At most 1.
    """
    objective = getattr(answer.policy, "objective", None)
    alpha, part = 1.0, answer.instance.weights / answer.instance.weights.sum()
    if isinstance(objective, AlphaFair) and objective.alpha > 0:
        alpha, part = objective.alpha, _parts(answer, objective.share, objective.alpha)
    with np.errstate(divide="ignore", over="ignore"):
        off = 2.0 * np.sqrt(max(answer.certificate.gap, 0.0) / (min(alpha, 1.0) * part))
    return np.minimum(ROUNDING + np.nan_to_num(off, nan=1.0), 1.0)


def left_open(answer: Allocation) -> tuple[float, Float]:
    """What the certificate does not rule out: a part of each capacity that is left, and further tasks of each user.

    With the proved gap as a part of every user's tasks, as much of each capacity is left; no gap sees less than that.
    One of alpha-fairness, or of a total, sees users by their ``r_j`` as in `doubt`: if user j could run the part e_j
    more while no other user loses, the power mean would be larger by about ``r_j e_j``, so e_j is at most the gap over
    ``r_j``.

    Parameters
    ----------
    answer : Allocation
        With its certificate, of which no gap above the tolerance counts.

    Returns
    -------
    tuple of float and ndarray of shape (n_users,)
        The tasks are 0 for other objectives.
    """
    objective, tasks = getattr(answer.policy, "objective", None), answer.tasks
    proved, more = answer.certificate.gap, np.zeros(answer.instance.n_users)
    gap = TWICE * min(proved, GAP_TOLERANCE) if proved > 0 else 0.0  # of NaN too
    if isinstance(objective, FairnessEfficiency):
        objective = objective.alpha_fair()
    if isinstance(objective, (AlphaFair, Total)):
        part = _parts(answer, objective.share, objective.alpha if isinstance(objective, AlphaFair) else 0.0)
        np.divide(gap * tasks, part, out=more, where=(part > 0) & (tasks > 0))
    return gap, more


def _parts(answer: Allocation, share: Share, alpha: float) -> Float:
    """Each user's part of the sum whose power is the mean that an alpha-fair objective has of shares."""
    shares = np.maximum(answer.share(share), np.finfo(float).tiny)
    logs = alpha * np.log(answer.instance.weights) + (1.0 - alpha) * np.log(shares)
    counts = np.exp(logs - logs.max(initial=-np.inf))
    return np.asarray(counts / counts.sum())


class _Found:
    """What is known so far."""

    def __init__(self, size: int, n: int, m: int) -> None:
        self.tasks = np.full((size, n), np.nan)
        self.ok, self.outside = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        self.bundles: Float | None = None
        self.shape = (size, n, m)
        self.faults: list[Fault] = []

    def keep(self, where: Any, tasks: Float, bundles: Float | None = None) -> None:
        self.tasks[where], self.ok[where] = tasks, True
        if bundles is not None:
            if self.bundles is None:
                self.bundles = np.full(self.shape, np.nan)
            self.bundles[where] = bundles


def _in_step(
    policy: Policy, need: Float, room: Float, weights: Float, limits: Float, found: _Found
) -> NDArray[np.int64]:
    """Solve what a fast route takes, and say what is left."""
    everything = np.arange(len(need))
    if isinstance(policy.objective, WeightedLog):
        alike = (weights == weights[:, :1]).all(axis=1) & (limits > 0).all(axis=1)
        blocks = _side_by_side(policy)
        if blocks is None:
            return everything
        for where in np.array_split(everything[alike], -(-int(alike.sum()) // SIDE_BY_SIDE)) if alike.any() else ():
            alike[where] = _bundles(blocks, need[where], room[where], limits[where], where, found)
        return everything[~alike]
    inside = _inside(policy, need, room, limits)
    if inside is None:
        return everything
    here = np.flatnonzero(inside)
    if not len(here):
        found.outside[:] = True
        return here
    try:
        many = allocate_many(policy, need[here], room[here], weights=weights[here], task_limits=limits[here])
    except OutOfDomain:  # of another kind than it solves
        return everything
    found.outside[:] = ~inside
    found.keep(here[many.ok], many.tasks[many.ok])
    for b in np.flatnonzero(~many.ok):
        found.faults.append((
            int(here[b]), NotCertified(f"{label(policy)}: gap {many.gap[b]:.2g}, violation {many.violation[b]:.2g}")
        ))  # fmt: skip
    return everything[:0]


def _inside(policy: Policy, need: Float, room: Float, limits: Float) -> Bool | None:
    """For which pools every share of the objective is defined; None where that is not known by row."""
    inside = np.ones(len(need), dtype=bool)
    part = limits > 0
    b, user = np.nonzero(part)
    if not len(b):
        return inside
    ratios = np.divide(need, room[:, None], out=np.zeros(need.shape), where=room[:, None] > 0)
    together = Instance(ratios[b, user], np.ones(need.shape[2]))
    for share in policy.objective.share_blocks():
        if not share.by_row:
            return None
        try:
            c = np.asarray(share.per_task(together), dtype=float)
        except OutOfDomain:  # of none, as k beyond the number of resources
            inside[:] = False
            return inside
        inside[b[~((c > 0) & (c < np.inf))]] = False
    return inside


def _side_by_side(policy: Policy) -> Policy | None:
    """The policy that does on each server what this one does on a pool; None if that is not known."""
    aggregated = [c for c in policy.constraints if type(c) is GlobalAggregateResource]
    known = {type(c) for c in policy.constraints} <= {GlobalAggregateResource, AtMostRequested}
    objective = policy.objective
    if not known or type(objective) is not WeightedLog or type(objective.base) is not FairShareBase:
        return None
    parts = [GlobalAggregateResource(c.units, over="server") for c in aggregated]
    return Policy(objective, [*parts, *(c for c in policy.constraints if type(c) is AtMostRequested)])


def _bundles(policy: Policy, need: Float, room: Float, limits: Float, where: Any, found: _Found) -> Bool:
    """Pools as servers of one instance; which of them have an answer."""
    together = Instance(np.ascontiguousarray(need.swapaxes(0, 1)), room)
    try:
        answer = policy.allocate(together)
    except (NotCertified, OutOfDomain):  # one by one it is known where
        return np.zeros(len(need), dtype=bool)
    held = answer.bundles.swapaxes(0, 1)
    good = (held.sum(axis=1) <= room * (1.0 + VIOLATION_TOLERANCE)).all(axis=1)
    tasks = np.minimum(answer.tasks_by_server.T, limits)
    found.keep(where[good], tasks[good], held[good])
    return np.asarray(good)
