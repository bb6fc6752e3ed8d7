"""Many small instances of one shape, solved together: each step of a method is vectorised over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import only_term
from fairopt.blocks.base import is_ours
from fairopt.blocks.normal_form import Term
from fairopt.blocks.objectives import Objective
from fairopt.errors import InvalidBlock, NotCertified, OutOfDomain
from fairopt.proof import gate
from fairopt.proof.evidence.pool import Bottlenecked, TotalPrices
from fairopt.proof.gate import MeasuredPart
from fairopt.proof.many_pool_gaps import judge_batch
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.display import label
from fairopt.runtime.progress import by_itself
from fairopt.runtime.threads import one_thread
from fairopt.runtime.tolerances import GAP_TOLERANCE, VIOLATION_TOLERANCE
from fairopt.solve import dispatch
from fairopt.solve.batch.alpha_fair import alpha_fair_of_chunk
from fairopt.solve.batch.max_sum import max_sum_of_chunk
from fairopt.solve.batch.waterfilling import leximin_of_chunk
from fairopt.solve.form.many_instances import Batch, BatchChunk, wrong_shape


@dataclass
class _Found:
    """The evidence of a batch, for files: prices per whole capacity, (n_instances, n_resources); none for leximin.

    For alpha-fairness they are logarithms, with levels in ``units`` (n_instances,). ``alone`` is the evidence of
    instances that were solved one by one.
    """

    prices: Float | None = None
    units: Float | None = None
    alone: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def add(self, where: slice, chunk: BatchChunk, prices: Float | None) -> None:
        """Keep the prices of a chunk, for weights as given."""
        if self.prices is None or prices is None:
            return
        self.prices[where] = prices.T
        if self.units is not None:
            units = chunk.fair_units
            self.units[where] = units.unit
            self.prices[where] += np.log(np.where(units.part, chunk.weights, 0.0).sum(axis=0))[:, None]

    def evidence(self, term: Term, b: int, capacities: Float) -> tuple[Any, ...]:
        """The evidence of one instance of these ``capacities``, in the form of `Evidence.entry`."""
        if b in self.alone:
            return self.alone[b]
        if term.is_smallest:
            return ({"kind": Bottlenecked.kind},)
        assert self.prices is not None
        unit, prices = (1.0, self.prices[b]) if self.units is None else (float(self.units[b]), np.exp(self.prices[b]))
        each = np.divide(term.factor * prices, capacities, out=np.zeros(capacities.shape), where=capacities > 0)
        return ({"kind": TotalPrices.kind, "unit": unit, "prices": each.tolist()},)


@dataclass(frozen=True, eq=False, repr=False)
class Allocations:
    """Allocations of many instances of one shape; ``[b]`` gives one as an `Allocation`.

    Attributes
    ----------
    policy : Policy
        The policy that was solved.
    tasks : ndarray of shape (n_instances, n_users)
        Tasks of each user; 0 for users who take no part.
    gap, violation : ndarray of shape (n_instances,)
        As in `Certificate`.
    method : str
        ``water-filling``, ``prices`` or ``simplex``.
    one_by_one : ndarray of bool of shape (n_instances,)
        Which instances were solved again by `Policy.allocate`, as the first answer was not certified.
    asked : ndarray of bool of shape (n_instances,)
        Which instances were solved before the time limit; the others have zero tasks and an infinite gap.
    seconds : float
        Time of the whole call.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.allocate_many(fo.DRF(), [[[40, 8, 8], [8, 5, 1]], [[1, 2, 0], [1, 1, 1]]], [200, 200, 200])
    >>> a
    <Allocations of 2 instances (2 users x 3 resources) by DRF: all certified, largest gap 0.0e+00, by water-filling>
    >>> a[0].usage
    array([[200. ,  82.5,  32.5]])
    """

    policy: Any
    tasks: Float
    gap: Float
    violation: Float
    method: str
    one_by_one: Bool
    asked: Bool
    seconds: float
    _batch: Batch = field(repr=False)
    _found: _Found = field(repr=False)

    def __post_init__(self) -> None:
        for judged in (self.tasks, self.gap, self.violation, self.one_by_one, self.asked):
            judged.flags.writeable = False

    @cached_property
    def ok(self) -> Bool:
        """Which answers are certified: gap at most 1e-6, violation at most 1e-9."""
        return (self.gap <= GAP_TOLERANCE) & (self.violation <= VIOLATION_TOLERANCE)

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, b: int) -> Allocation:
        """The allocation of one instance, without the users who take no part and without dual values."""
        b = range(len(self))[b]  # allows negative indices
        instance, users = self._batch.taking_part(b)
        part = MeasuredPart(
            float(self.gap[b]), float(self.violation[b]), "one by one" if self.one_by_one[b] else self.method
        )
        term, capacities = self.policy.objective.term, instance.capacities * instance.counts[:, None]
        evidence = self._found.evidence(term, b, capacities) if self.ok[b] and len(users) else ()
        return gate.of_batch(self.policy, instance, self.tasks[b, users], part, self.seconds / len(self), evidence)

    def __repr__(self) -> str:
        name = label(self.policy)
        size, n, m = self._batch.demands.shape
        wrong, left = int((self.asked & ~self.ok).sum()), int((~self.asked).sum())
        verdict = f"{wrong} NOT certified" if wrong else "all certified"
        if left:
            verdict = f"{left} not reached before the time limit, {verdict.replace('all', 'all others')}"
        alone = f", {int(self.one_by_one.sum())} one by one" if self.one_by_one.any() else ""
        return (
            f"<Allocations of {size} instance{'s' * (size != 1)} ({n} user{'s' * (n != 1)} x {m} "
            f"resource{'s' * (m != 1)}) by {name}: {verdict}, "
            f"largest gap {self.gap[self.asked].max(initial=0.0):.1e}, by {self.method}{alone}>"
        )


def allocate_many(
    policy: Any,
    demands: ArrayLike,
    capacities: ArrayLike,
    *,
    weights: Any = None,
    task_limits: Any = None,
    time_limit: float | None = None,
) -> Allocations:
    """Solve a policy on many instances of one pool each, in microseconds each, with a certificate for every answer.

    For max-min and leximin (`DRF`, `KDF`), alpha-fairness (`FDS`, `GFJ`, `NashWelfare`) and the largest sum of shares
    (`MostTasks`), with any share of fairopt and no constraints but task limits.

    Parameters
    ----------
    policy : Policy
        The policy, or any object with ``objective`` and ``constraints``.
    demands : array-like of shape (n_instances, n_users, n_resources)
        Units of each resource that one task takes.
    capacities : array-like of shape (n_instances, n_resources) or (n_resources,)
        Units of each resource.
    weights, task_limits : scalar, array-like of shape (n_users,) or (n_instances, n_users), optional
        As in `Instance`, by position: data frames and series with labels are refused.
    time_limit : float, optional
        Seconds for the call. Answers found by then are kept, and ``asked`` is False for the other instances.

    Returns
    -------
    Allocations
        An instance whose answer is not certified is solved again by `Policy.allocate`, in milliseconds: a few in
        10,000, but most instances at alpha below 0.001. If that fails too, its ``ok`` is False and its tasks are the
        best found.

    Raises
    ------
    InvalidInstance
        If a number is invalid; names the instance, the user and the resource, counted from 0.
    OutOfDomain
        If the share is not defined for a user, or the policy is of another kind.

    Notes
    -----
    Instances with fewer users or resources are padded. A user with a task limit of 0 takes no part: its demands and
    weight may be anything, even NaN. A resource that no user needs may have capacity 0.

    Examples
    --------
    >>> import fairopt as fo
    >>> demands = [[[40, 8, 8], [8, 5, 1]], [[1, 2, 0], [1, 1, 1]]]
    >>> fo.allocate_many(fo.DRF(), demands, [200, 200, 200], task_limits=[None, 10]).tasks
    array([[ 3., 10.],
           [95., 10.]])
    """
    clock = Clock(time_limit)
    batch = Batch.of(demands, capacities, weights, task_limits)
    if not batch.n_users:
        raise wrong_shape(batch.demands.shape)
    return allocate_batch(policy, batch, clock)


@one_thread()
def allocate_batch(policy: Any, batch: Batch, clock: Clock | None = None) -> Allocations:
    """Solve a `Batch` as `allocate_many` does, on the clock of a call."""
    clock = Clock(None) if clock is None else clock
    method, term, solve = _method_for(policy)
    tasks = np.zeros((len(batch), batch.n_users))
    gap, violation = np.full(len(batch), np.inf), np.zeros(len(batch))
    alone, asked = np.zeros(len(batch), dtype=bool), np.zeros(len(batch), dtype=bool)
    kept = _Found()
    if not term.is_smallest:
        kept.prices = np.full((len(batch), batch.demands.shape[2]), np.nan)
        kept.units = np.full(len(batch), np.nan) if term.is_curved else None
    with by_itself() as tell:
        tell("instances", 0, len(batch))
        for where in takewhile(lambda _: not clock.late, batch.slices()):
            with np.errstate(all="ignore"):  # NaN is not certified
                chunk = batch.chunk(where, term.share, term.kind.levels_users)
                found, prices = solve(chunk)
                tasks[where] = found.T
                gap[where], violation[where] = judge_batch(chunk, policy.objective, found, prices)
                kept.add(where, chunk, prices)
            asked[where] = True
            certified = (gap[where] <= GAP_TOLERANCE) & (violation[where] <= VIOLATION_TOLERANCE)
            for b in takewhile(lambda _: not clock.late, where.start + np.flatnonzero(~certified)):
                alone[b] = True
                tasks[b], gap[b], violation[b], kept.alone[int(b)] = _allocate_one(policy, batch, int(b), clock.left)
            tell("instances", where.stop, len(batch))
    return Allocations(policy, tasks, gap, violation, method, alone, asked, clock.seconds, batch, kept)


def _method_for(policy: Any) -> tuple[str, Term, Callable[[BatchChunk], tuple[Float, Float | None]]]:
    """The name of the method, the only term, and the function from a chunk to tasks, (n_users, size), and prices."""
    objective = getattr(policy, "objective", None)
    if not isinstance(objective, Objective):
        raise InvalidBlock(f"{policy} is not a policy: it has no objective; allocate one by one")
    if policy.constraints:
        raise OutOfDomain(
            f"allocate_many solves policies without constraints, not {policy.constraints[0]}; "
            "use task_limits for limits on tasks, or allocate one by one: policy.allocate(instance)"
        )
    if not objective.is_known or not all(map(is_ours, objective.share_blocks())):
        raise OutOfDomain(
            f"{objective} is not made of fairopt's own blocks, which treat each user by its own row; "
            "allocate one by one: policy.allocate(instance)"
        )
    if not all(share._is_plain for share in objective.share_blocks()):
        raise OutOfDomain(
            f"allocate_many solves shares of users, not of teams or above a base as {objective}; allocate one by one: "
            "policy.allocate(instance)"
        )
    term = only_term(objective)
    if term is not None:
        if term.is_smallest:
            return "water-filling", term, leximin_of_chunk
        if term.is_linear:
            return "simplex", term, max_sum_of_chunk
        if term.alpha is not None:
            return "prices", term, partial(alpha_fair_of_chunk, alpha=term.alpha)
    raise OutOfDomain(
        f"allocate_many solves Leximin, and multiples of MaxMin, AlphaFair and Total of one share, not {objective}; "
        "allocate one by one: policy.allocate(instance)"
    )


def _allocate_one(
    policy: Any, batch: Batch, b: int, time_limit: float | None
) -> tuple[Float, float, float, tuple[Any, ...]]:
    """Tasks, gap, violation and evidence of one instance by `Policy.allocate`; the best found if none is certified."""
    instance, users = batch.taking_part(b)
    tasks = np.zeros(batch.n_users)
    try:
        answer: Allocation | None = dispatch.allocate(policy, instance, time_limit=time_limit)
    except NotCertified as error:
        answer = error.best
    if answer is None:
        return tasks, np.inf, 0.0, ()
    tasks[users] = answer.tasks
    return tasks, answer.certificate.gap, answer.certificate.violation, answer.evidence
