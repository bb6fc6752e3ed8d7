"""Answers of a mechanism on one instance or on many pools at once, checked against the instances' data."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.bundles import AtMostRequested, FairShareBase, GlobalAggregateResource, WeightedLog
from fairopt.errors import InvalidBlock, InvalidInstance, NotCertified, OutOfDomain
from fairopt.instance import Instance
from fairopt.policy import Policy, label
from fairopt.properties.feasible import require_feasible
from fairopt.properties.units import quotient
from fairopt.runtime.arrays import Bool, Float, Ints
from fairopt.runtime.clock import Clock, Late, current
from fairopt.runtime.tolerances import VIOLATION_TOLERANCE
from fairopt.scale.many import allocate_together
from fairopt.solve.form.many_instances import Batch

SIDE_BY_SIDE = 2**10  # pools solved as servers of one instance: 1.9 microseconds a pool of 3 x 3, 3.4 with 2**17
SAME = 1e-6  # of the tasks that a user could run alone: two calls of a deterministic mechanism agree to this


def _seconds_left() -> float | None:
    """Seconds until the limit of the search at work, None without one; `Late` if it is over."""
    clock = current()
    if clock is None:
        return None
    if clock.late:
        raise Late
    return clock.left


def time_left(mechanism: Any) -> dict[str, Any]:
    """The time limit of the next answer as an option of ``allocate``, if it takes one; `Late` if the time is over."""
    seconds = _seconds_left()
    if seconds is None or "time_limit" not in inspect.signature(mechanism.allocate).parameters:
        return {}
    return {"time_limit": seconds}


@dataclass(eq=False)
class Outcomes:
    """Answers of a mechanism on many pools."""

    tasks: Float  # (n_instances, n_users); NaN for an instance without an answer
    ok: Bool  # which answers are certified, and feasible as recomputed here, (n_instances,)
    outside: Bool  # where the mechanism raises `OutOfDomain`, which is not a fault, (n_instances,)
    bundles: Float | None = None  # (n_instances, n_users, n_resources); None for tasks times demands
    faults: list[tuple[int, Exception]] = field(default_factory=list)  # other instances without an answer

    def keep(self, where: Any, tasks: Float, bundles: Float | None = None) -> None:
        """Store the answers of some pools."""
        self.tasks[where], self.ok[where] = tasks, True
        if bundles is not None:
            if self.bundles is None:
                self.bundles = np.full((*self.tasks.shape, bundles.shape[-1]), np.nan)
            self.bundles[where] = bundles

    def received(self, demands: Float) -> Float:
        """Bundles of users who reported these demands, shape (n_instances, n_users, n_resources)."""
        return self.tasks[:, :, None] * demands if self.bundles is None else self.bundles


def outcomes_of(mechanism: Any, pools: Batch) -> Outcomes:
    """Run a mechanism on many pools of one shape, and check its answers.

    Policies that `allocate_many` takes are solved in a batch, those of bundles as servers of one instance, all others
    one by one. A pool on which the mechanism raises, answers NaN or exceeds a capacity is a fault.

    Examples
    --------
    >>> import fairopt as fo
    >>> pools = Batch.of([[[40, 8, 8], [8, 5, 1]], [[1, 2, 0], [1, 0, 0]]], [200, 200, 200])
    >>> both = outcomes_of(fo.KDF(2), pools)
    >>> both.tasks[0].round(3), both.outside
    (array([ 1.923, 15.385]), array([False,  True]))
    """
    size, n, _ = pools.demands.shape
    outcomes = Outcomes(np.full((size, n), np.nan), np.zeros(size, dtype=bool), np.zeros(size, dtype=bool))
    left = np.arange(size)
    if size and n and type(mechanism) is Policy:  # a subclass may override allocate
        left = _solve_in_batch(mechanism, pools, outcomes)
    for b in left:
        instance = pools.instance(int(b))
        try:
            answer = checked(mechanism, instance)
        except OutOfDomain:
            outcomes.outside[b] = True
        except Exception as error:
            outcomes.faults.append((int(b), error))
        else:
            outcomes.keep(b, answer.tasks, None if answer.given_bundles is None else answer.given_bundles[:, 0])
    return outcomes


def solved_in_batches(mechanism: Any) -> bool:
    """Whether `outcomes_of` solves pools of the mechanism together."""
    if type(mechanism) is not Policy:
        return False
    two = Batch.of([[[1, 2], [2, 1]], [[1, 1], [1, 3]]], [4, 4])
    nothing = Outcomes(np.full((2, 2), np.nan), np.zeros(2, dtype=bool), np.zeros(2, dtype=bool))
    return not len(_solve_in_batch(mechanism, two, nothing))


def checked(mechanism: Any, instance: Instance) -> Allocation:
    """A mechanism's answer on an instance, checked against the instance's data.

    Raises `NotCertified` if a number is NaN, a capacity or limit is exceeded, or its certificate is not ok, and
    `InvalidBlock` if it is not an allocation of these users.
    """
    try:
        answer = mechanism.allocate(instance, **time_left(mechanism))
    except NotCertified:
        _seconds_left()  # the time of the search may have ended it
        raise
    name = label(mechanism)
    shape = (instance.n_users, instance.n_servers)
    if not isinstance(answer, Allocation) or np.shape(answer.tasks_by_server) != shape:
        raise InvalidBlock(f"{name} answered {type(answer).__name__}; give an Allocation with tasks of shape {shape}")
    if answer.instance is not instance:
        answer = replace(answer, instance=instance)
    try:
        require_feasible(answer, VIOLATION_TOLERANCE)
    except InvalidInstance as error:
        raise NotCertified(f"{name}: {error}", best=answer) from error
    if not answer.certificate.ok:
        raise NotCertified(f"{name} answered, but {answer.certificate}", best=answer)
    return answer


def difference(one: Allocation, other: Allocation) -> float:
    """The largest difference of two answers: of tasks, relative to a user's alone, or of bundles, to capacities."""
    instance = one.instance
    alone = np.minimum(instance.tasks_alone.sum(axis=1), instance.task_limits)
    worst = float(quotient(np.abs(one.tasks - other.tasks), alone).max(initial=0.0))
    if one.given_bundles is not None and other.given_bundles is not None:
        room = instance.capacities * instance.counts[:, None]
        worst = max(worst, float(quotient(np.abs(one.given_bundles - other.given_bundles), room).max(initial=0.0)))
    return worst


def non_deterministic(mechanism: Any, instance: Instance) -> bool:
    """Whether two calls of a mechanism differ on an instance, such as by an exception in one of them."""
    answers: list[Allocation | None] = []
    for _ in range(2):
        try:
            answers.append(checked(mechanism, instance.replace()))
        except Exception:  # the search reports it
            answers.append(None)
    first, again = answers
    if first is None or again is None:
        return first is not again
    return difference(first, again) > SAME


def _solve_in_batch(policy: Policy, pools: Batch, outcomes: Outcomes) -> Ints:
    """Solve the pools that can be solved together; indices of the others."""
    everything = np.arange(len(pools))
    if isinstance(policy.objective, WeightedLog):
        alike = (pools.weights == pools.weights[:, :1]).all(axis=1) & (pools.limits > 0).all(axis=1)
        blocks = _on_servers(policy)
        if blocks is None:
            return everything
        for where in np.array_split(everything[alike], -(-int(alike.sum()) // SIDE_BY_SIDE)) if alike.any() else ():
            alike[where] = _solve_as_servers(blocks, pools[where], where, outcomes)
        return everything[~alike]
    inside = _within_domain(policy, pools)
    if inside is None:
        return everything
    here = np.flatnonzero(inside)
    if not len(here):
        outcomes.outside[:] = True
        return here
    many = allocate_together(policy, pools[here], clock := Clock(_seconds_left()))
    if many is None:
        return everything
    if clock.late and not many.ok.all():
        _seconds_left()
    outcomes.outside[:] = ~inside
    outcomes.keep(here[many.ok], many.tasks[many.ok])
    for b in np.flatnonzero(~many.ok):
        fault = NotCertified(f"{label(policy)}: gap {many.gap[b]:.2g}, violation {many.violation[b]:.2g}")
        outcomes.faults.append((int(here[b]), fault))
    return everything[:0]


def _within_domain(policy: Policy, pools: Batch) -> Bool | None:
    """Pools for which every share of the objective is defined; None if that cannot be told row by row."""
    inside, part, room = np.ones(len(pools), dtype=bool), pools.limits > 0, pools.capacities[:, None]
    ratios = quotient(pools.demands, room)
    levelled = policy.objective.levels_users
    for share in policy.objective.share_blocks() if part.any() else ():
        if not share.by_row:
            return None
        try:
            inside &= pools.coefficients(share, ratios, part, levelled)[1].all(axis=1)
        except OutOfDomain:  # for all pools, as k beyond the number of resources
            return np.zeros(len(pools), dtype=bool)
    return inside


def _on_servers(policy: Policy) -> Policy | None:
    """The policy that does on each server what this one does on a pool, if known."""
    aggregated = [c for c in policy.constraints if type(c) is GlobalAggregateResource]
    known = {type(c) for c in policy.constraints} <= {GlobalAggregateResource, AtMostRequested}
    objective = policy.objective
    if not known or type(objective) is not WeightedLog or type(objective.base) is not FairShareBase:
        return None
    parts = [GlobalAggregateResource(c.units, over="server") for c in aggregated]
    return Policy(objective, [*parts, *(c for c in policy.constraints if type(c) is AtMostRequested)])


def _solve_as_servers(policy: Policy, pools: Batch, where: Any, outcomes: Outcomes) -> Bool:
    """Solve pools as servers of one instance; a mask of those with an answer."""
    room = pools.capacities
    together = Instance(np.ascontiguousarray(pools.demands.swapaxes(0, 1)), room)
    try:
        answer = policy.allocate(together, **time_left(policy))
    except (NotCertified, OutOfDomain):  # one by one, the faulty pool shows
        return np.zeros(len(pools), dtype=bool)
    held = answer.bundles.swapaxes(0, 1)
    good = (held.sum(axis=1) <= room * (1.0 + VIOLATION_TOLERANCE)).all(axis=1)
    tasks = np.minimum(answer.tasks_by_server.T, pools.limits)
    outcomes.keep(where[good], tasks[good], held[good])
    return np.asarray(good)
