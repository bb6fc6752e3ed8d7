"""Many small instances of one shape: where a method is vectorised over instances together, else one by one."""

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
from fairopt.blocks.base import brief
from fairopt.blocks.normal_form import Term
from fairopt.blocks.objectives import Objective
from fairopt.errors import FairoptError, InvalidBlock, NotCertified
from fairopt.instance import Instance
from fairopt.policy import Policy, accepted, is_mechanism
from fairopt.proof import gate
from fairopt.proof.evidence.pool import Bottlenecked, PoolPrices
from fairopt.proof.gate import MeasuredPart
from fairopt.proof.many_pool_gaps import judge_batch
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.display import label
from fairopt.runtime.progress import by_itself
from fairopt.runtime.threads import one_thread
from fairopt.runtime.tolerances import GAP_TOLERANCE, VIOLATION_TOLERANCE
from fairopt.scale.own_notions import OwnNotions
from fairopt.solve.batch.alpha_fair import alpha_fair_of_chunk
from fairopt.solve.batch.max_sum import max_sum_of_chunk
from fairopt.solve.batch.waterfilling import leximin_of_chunk
from fairopt.solve.form.many_instances import Batch, BatchChunk, wrong_shape

ONE_BY_ONE, CONES = "one by one", "cone"


@dataclass
class _Found:
    """The evidence of a batch, for files: prices per whole capacity, (n_instances, n_resources); none for leximin.

    For alpha-fairness they are logarithms, with levels in ``units`` (n_instances,). ``alone`` are answers of instances
    that were solved one by one, and ``failures`` the errors of those without an answer.
    """

    prices: Float | None = None
    units: Float | None = None
    own: OwnNotions | None = None
    alone: dict[int, Allocation] = field(default_factory=dict)
    failures: dict[int, FairoptError] = field(default_factory=dict)

    def add(self, where: slice, chunk: BatchChunk, prices: Float | None) -> None:
        """Keep the prices of a chunk, for weights as given."""
        if self.prices is None or prices is None:
            return
        self.prices[where] = prices.T
        if self.units is not None:
            units = chunk.fair_units
            self.units[where] = units.unit
            self.prices[where] += np.log(np.where(units.part, chunk.weights, 0.0).sum(axis=0))[:, None]

    def ask(self, policy: Any, batch: Batch, b: int, time_limit: float | None) -> Allocation | None:
        """Solve one instance by the policy itself; the best answer if none is certified, None if there is none."""
        answer: Any = None
        instance, _ = batch.taking_part(b)
        try:
            answer = policy.allocate(instance, **accepted(policy, time_limit=time_limit))
        except FairoptError as error:
            answer = error.best if isinstance(error, NotCertified) else None
            if answer is None:
                self.failures[b] = error
                return None
        if not isinstance(answer, Allocation) or answer.instance.users != instance.users:
            raise InvalidBlock(
                f"{label(policy)} answered instance {b} (counted from 0) by {brief(answer)}; return an Allocation of "
                "the instance that it is given"
            )
        self.alone[b] = answer
        return answer

    def evidence(self, policy: Any, b: int, instance: Instance, tasks: Float) -> tuple[Any, ...]:
        """The evidence of one instance at its tasks, in the form of `Evidence.entry`."""
        if self.own is not None:
            return self.own.evidence(b, tasks)
        term, capacities = policy.objective.term, instance.capacities * instance.counts[:, None]
        if term.is_smallest:
            return ({"kind": Bottlenecked.kind},)
        assert self.prices is not None
        unit, prices = (1.0, self.prices[b]) if self.units is None else (float(self.units[b]), np.exp(self.prices[b]))
        each = np.divide(term.factor * prices, capacities, out=np.zeros(capacities.shape), where=capacities > 0)
        return ({"kind": PoolPrices.kind, "unit": unit, "prices": each.tolist()},)


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
        ``water-filling``, ``prices``, ``simplex``, ``cone`` or ``one by one``.
    one_by_one : ndarray of bool of shape (n_instances,)
        Which instances were solved by `Policy.allocate`: all of a policy that no method solves together, else those
        whose first answer was not certified.
    failures : dict of int to FairoptError
        The errors of instances without an answer, by their numbers, such as `Infeasible`; their tasks are 0.
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

    @property
    def failures(self) -> dict[int, FairoptError]:
        """The errors of instances without an answer."""
        return dict(self._found.failures)

    @cached_property
    def ok(self) -> Bool:
        """Which answers are certified: gap at most 1e-6, violation at most 1e-9; one by one if their certificates say
        so, which know the violations of constraints too, and that no gap of whole tasks is restricted.
        """
        out = (self.gap <= GAP_TOLERANCE) & (self.violation <= VIOLATION_TOLERANCE)
        for b, answer in self._found.alone.items():
            out[b] = answer.certificate.ok
        return out

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, b: int) -> Allocation:
        """The allocation of one instance, without the users who take no part; if solved together without dual values.

        Raises the error of an instance that has no answer.
        """
        b = range(len(self))[b]  # allows negative indices
        if b in self._found.failures:
            raise self._found.failures[b]
        if b in self._found.alone:
            return self._found.alone[b]
        instance, users = self._batch.taking_part(b)
        part = MeasuredPart(float(self.gap[b]), float(self.violation[b]), self.method)
        tasks = self.tasks[b, users]
        evidence = self._found.evidence(self.policy, b, instance, tasks) if self.ok[b] and len(users) else ()
        return gate.of_batch(self.policy, instance, tasks, part, self.seconds / len(self), evidence)

    def __repr__(self) -> str:
        name = label(self.policy)
        size, n, m = self._batch.demands.shape
        wrong, left = int((self.asked & ~self.ok).sum()), int((~self.asked).sum())
        verdict = f"{wrong} NOT certified" if wrong else "all certified"
        if self.failures:
            verdict += f" ({len(self.failures)} without an answer: see failures)"
        if left:
            verdict = f"{left} not reached before the time limit, {verdict.replace('all', 'all others')}"
        together = self.method != ONE_BY_ONE
        by, again = f"by {self.method}" if together else self.method, int(self.one_by_one.sum())
        alone = f", {again} one by one" if together and again else ""
        return (
            f"<Allocations of {size} instance{'s' * (size != 1)} ({n} user{'s' * (n != 1)} x {m} "
            f"resource{'s' * (m != 1)}) by {name}: {verdict}, "
            f"largest gap {self.gap[self.asked].max(initial=0.0):.1e}, {by}{alone}>"
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
    """Solve a policy on many instances of one pool each, with a certificate for every answer.

    In microseconds each for max-min and leximin (`DRF`, `KDF`), alpha-fairness (`FDS`, `GFJ`, `NashWelfare`) and the
    largest sum of shares (`MostTasks`), with any share of fairopt and no constraints but task limits; a share of your
    own adds a fraction of a millisecond. An objective of your own that reads of the model only shares, tasks, weights,
    labels and how many users and resources there are is written once for all instances of a shape, and takes 0.7 ms for
    20 users. Other policies, such as those with constraints, and mechanisms are asked one by one, in milliseconds each.

    Parameters
    ----------
    policy : Policy or mechanism
        What to solve: anything with ``allocate(instance)``.
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
        best found; without any its error is in ``failures``, and the other instances are solved all the same.

    Raises
    ------
    InvalidInstance
        If a number is invalid; names the instance, the user and the resource, counted from 0.
    OutOfDomain
        If instances are solved together and the share is not defined for a user of one.
    InvalidBlock
        If the policy has no ``allocate``, takes no time limit, or its answer is none of the instance.

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
    if not is_mechanism(policy):
        raise InvalidBlock(f"{brief(policy)} is not a policy: it has no allocate(instance); give one, such as DRF()")
    accepted(policy, time_limit=time_limit)
    return allocate_batch(policy, batch, clock)


@one_thread()
def allocate_batch(policy: Any, batch: Batch, clock: Clock) -> Allocations:
    """Solve a `Batch` as `allocate_many` does, on the clock of a call."""
    known = method_of(policy)
    method, term, solve = known or (ONE_BY_ONE, None, None)
    tasks = np.zeros((len(batch), batch.n_users))
    gap, violation = np.full(len(batch), np.inf), np.zeros(len(batch))
    alone, asked = np.zeros(len(batch), dtype=bool), np.zeros(len(batch), dtype=bool)
    own = OwnNotions.of(policy, batch)
    kept = _Found(own=own)
    for where in batch.slices() if solve is None else ():  # else when they are solved
        batch.valid(where)
    if term is not None and not term.is_smallest:
        kept.prices = np.full((len(batch), batch.demands.shape[2]), np.nan)
        kept.units = np.full(len(batch), np.nan) if term.is_curved else None
    with by_itself() as tell:
        tell("instances", 0, len(batch))
        for where in takewhile(lambda _: not clock.late, batch.slices()):
            if term is not None and solve is not None:
                with np.errstate(all="ignore"):  # NaN is not certified
                    chunk = batch.chunk(where, term.share, term.kind.levels_users)
                    found, prices = solve(chunk)
                    tasks[where] = found.T
                    gap[where], violation[where] = judge_batch(chunk, policy.objective, found, prices)
                    kept.add(where, chunk, prices)
                asked[where] = True
            for piece in own.pieces(where, clock) if own is not None else ():
                found_of, method = piece.which, CONES
                tasks[found_of[:, None], piece.users], asked[found_of] = piece.tasks, True
                gap[found_of], violation[found_of] = piece.gap, piece.violation
                tell("instances", int(asked.sum()), len(batch))
            certified = (gap[where] <= GAP_TOLERANCE) & (violation[where] <= VIOLATION_TOLERANCE)
            for b in takewhile(lambda _: not clock.late, (where.start + np.flatnonzero(~certified)).tolist()):
                alone[b] = asked[b] = True
                answer = kept.ask(policy, batch, b, clock.left)
                tasks[b], gap[b], violation[b] = 0.0, np.inf, 0.0
                if answer is not None:
                    tasks[b, batch.limits[b] > 0] = answer.tasks
                    gap[b], violation[b] = answer.certificate.gap, answer.certificate.violation
                if solve is None:
                    tell("instances", int(asked.sum()), len(batch))
            tell("instances", where.stop, len(batch))
    return Allocations(policy, tasks, gap, violation, method, alone, asked, clock.seconds, batch, kept)


def allocate_together(policy: Any, batch: Batch, clock: Clock) -> Allocations | None:
    """The same of a policy that is solved on many instances together; None for others, and without users."""
    return allocate_batch(policy, batch, clock) if batch.n_users and method_of(policy) is not None else None


def method_of(policy: Any) -> tuple[str, Term, Callable[[BatchChunk], tuple[Float, Float | None]]] | None:
    """How a policy is solved on many instances together: the name of the method, the only term, and the function from a
    chunk to tasks, (n_users, size), and prices. None if it is not.
    """
    objective = getattr(policy, "objective", None)
    plain = getattr(type(policy), "allocate", None) is Policy.allocate and not policy.constraints
    if not plain or not isinstance(objective, Objective) or not objective.is_known:
        return None
    # of users, and not of teams or above a base
    if not all(share._is_plain for share in objective.share_blocks()):
        return None
    term = only_term(objective)
    if term is None or term.share is None:
        return None
    if term.is_smallest:
        return "water-filling", term, leximin_of_chunk
    if term.is_linear:
        return "simplex", term, max_sum_of_chunk
    return None if term.alpha is None else ("prices", term, partial(alpha_fair_of_chunk, alpha=term.alpha))
