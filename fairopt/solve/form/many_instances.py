"""Many small instances of one shape as arrays, in chunks with the instances along the last axis.

NumPy is fastest on long contiguous axes: if a few thousand instances fit into the cache, an operation costs about a
nanosecond per number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.blocks.base import is_ours
from fairopt.blocks.bundle_model import tasks_within
from fairopt.blocks.shares import BEYOND, Share
from fairopt.errors import InvalidInstance, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.labels import refuse_labels
from fairopt.instance.parts import with_rows
from fairopt.instance.validation import as_floats
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.ranges import fix_or_unit, in_range
from fairopt.runtime.tolerances import EPS

# Demands per chunk. DRF on 200,000 instances of 3 x 3 took 0.53, 0.41, 0.34, 0.35 and 0.79 microseconds each with
# 2**13, 2**14, 2**16, 2**17 and 2**20; alpha = 2 took 13.7, 9.0, 7.0, 6.6 and 7.2.
CHUNK = 2**16


class FairUnits(NamedTuple):
    """Alpha-fair instances in units near their max-min levels.

    ``unit`` (size,) is a level of 1, in shares per weight; ``part`` (n_users, size) marks active users; ``weights``
    (n_users, size) add up to 1. ``rates`` and ``log_per_weight`` (n_users, n_resources, size) are the load of each
    resource per unit of level, and the logarithm of that load per weight (0 for inactive users). ``tops`` and ``alone``
    (n_users, size) are levels at the task limits, and of a user alone.
    """

    unit: Float
    part: Bool
    weights: Float
    rates: Float
    log_per_weight: Float
    tops: Float
    alone: Float


@dataclass(frozen=True)
class BatchChunk:
    """Some instances of a batch, validated; arrays have the instances along the last axis.

    ``demands`` (n_users, n_resources, size) and ``capacities`` (n_resources, size) are in natural units; ``weights``,
    ``limits`` and ``per_task`` (n_users, size) are entitlements, task limits, and the share of one task. Inactive users
    have zero demands, a limit of 0, and weight and coefficient 1. Resources of capacity 0, which no user needs, have
    capacity 1.
    """

    demands: Float
    capacities: Float
    weights: Float
    limits: Float
    per_task: Float

    @cached_property
    def per_level(self) -> Float:
        """Tasks per unit of ``s_j / w_j``, shape (n_users, size)."""
        return self.weights / self.per_task

    @cached_property
    def rates(self) -> Float:
        """Load of each resource per unit of ``s_j / w_j``, shape (n_users, n_resources, size)."""
        return self.demands / self.capacities * self.per_level[:, None]

    @cached_property
    def tops(self) -> Float:
        """``s_j / w_j`` at the task limits, 0 for inactive users, shape (n_users, size)."""
        return self.limits / self.per_level

    @cached_property
    def fair_units(self) -> FairUnits:
        """The chunk in the units of alpha-fairness."""
        tiny, part = np.finfo(float).tiny, self.tops > 0
        unit = 1.0 / np.maximum(self.rates.sum(axis=0).max(axis=0), tiny)
        rates = self.rates * unit
        weights = np.where(part, self.weights, 0.0)
        weights = weights / np.maximum(weights.sum(axis=0), tiny)
        log_per_weight = np.log(np.where(part[:, None], rates / np.where(part, weights, 1.0)[:, None], 1.0))
        tops, alone = np.where(part, self.tops / unit, np.inf), 1.0 / np.maximum(rates.max(axis=1), tiny)
        return FairUnits(unit, part, weights, rates, log_per_weight, tops, alone)

    def loads(self, tasks: Float) -> Float:
        """Used fraction of each resource, shape (n_resources, size)."""
        return np.einsum("jib,jb->ib", self.demands, tasks) / self.capacities

    def tasks_at(self, levels: Float) -> Float:
        """Tasks at levels ``s_j / w_j`` >= 0, feasible for any order of summation."""
        return self.fitted(np.where(levels >= self.tops, self.limits, np.minimum(levels * self.per_level, self.limits)))

    def fitted(self, tasks: Float) -> Float:
        """Tasks scaled down to the capacities, for any order of summation."""
        load = self.loads(tasks).max(axis=0)
        rounding = 1.0 + (len(tasks) + 2) * EPS
        return np.where(load > 1.0, tasks / (load * rounding), tasks)

    def violation(self, tasks: Float) -> Float:
        """Largest relative excess over a capacity or a limit, shape (size,); infinite for NaN."""
        over = (self.loads(tasks) - 1.0).max(axis=0)
        beyond = np.divide(tasks, self.limits, out=np.zeros(tasks.shape), where=self.limits > 0).max(axis=0) - 1.0
        worst = np.maximum(np.maximum(over, beyond), 0.0)
        stray = ((tasks < 0) | ((self.limits <= 0) & (tasks > 0))).any(axis=0)
        return np.where(np.isnan(worst) | stray, np.inf, worst)


@dataclass(frozen=True, eq=False)
class Batch:
    """Many instances of one shape as arrays, each one pool; made by `of`, which sets the defaults.

    ``demands`` (size, n_users, n_resources) and ``capacities`` (size, n_resources) are in natural units, ``weights``
    and ``limits`` (size, n_users) are entitlements and task limits. Users with a limit of 0 are inactive; they pad
    shorter instances.
    """

    demands: Float
    capacities: Float
    weights: Float
    limits: Float

    @classmethod
    def of(cls, demands: ArrayLike, capacities: ArrayLike, weights: Any = None, task_limits: Any = None) -> Batch:
        """A batch from the arguments of `allocate_many`. Shapes are checked here, numbers chunk by chunk during the
        solve.
        """
        refuse_labels(demands=demands, capacities=capacities, weights=weights, task_limits=task_limits)
        need = as_floats(demands, "demands")
        if need.ndim != 3 or need.shape[2] == 0:
            raise wrong_shape(need.shape)
        size, n, m = need.shape
        return cls(
            need,
            _broadcast(as_floats(capacities, "capacities"), "capacities", (size, m), scalar=False),
            _broadcast(as_floats(1.0 if weights is None else weights, "weights"), "weights", (size, n)),
            _broadcast(_limits(task_limits), "task_limits", (size, n)),
        )

    @classmethod
    def of_instance(cls, instance: Instance) -> Batch:
        """A batch of one instance that `is_one_pool`."""
        parts = instance.per_server_demands[:, 0], instance.total_capacities, instance.weights, instance.task_limits
        return cls(*(np.array(part, dtype=float)[None] for part in parts))

    def __len__(self) -> int:
        return len(self.demands)

    def __getitem__(self, chosen: Any) -> Batch:
        """Some of the instances: indices, a mask or a slice."""
        return Batch(self.demands[chosen], self.capacities[chosen], self.weights[chosen], self.limits[chosen])

    @property
    def n_users(self) -> int:
        """Number of users in each instance, padding included."""
        return self.demands.shape[1]

    @property
    def alone(self) -> Float:
        """Tasks that each user could run with all capacities, up to its limit, shape (size, n_users)."""
        return np.minimum(tasks_within(self.capacities[:, None], self.demands), self.limits)

    def instance(self, b: int) -> Instance:
        """One of the instances."""
        return Instance(self.demands[b], self.capacities[b], weights=self.weights[b], task_limits=self.limits[b])

    def taking_part(self, b: int) -> tuple[Instance, NDArray[np.int64]]:
        """One of the instances without inactive users, and the indices of the others."""
        users = np.flatnonzero(self.limits[b] > 0)
        instance = Instance(
            self.demands[b, users],
            self.capacities[b],
            weights=self.weights[b, users],
            task_limits=self.limits[b, users],
            users=[self.labelled.users[j] for j in users],
        )
        return instance, users

    def without_user(self, user: int) -> Batch:
        """The same instances without one user."""
        demands, weights, limits = (np.delete(a, user, axis=1) for a in (self.demands, self.weights, self.limits))
        return Batch(demands, self.capacities, weights, limits)

    @cached_property
    def labelled(self) -> Instance:
        """An instance of this shape, for its labels."""
        _, n, m = self.demands.shape
        return Instance(np.ones((n, m)), np.ones(m))

    def slices(self) -> Iterator[slice]:
        """Slices of the batch whose chunks fit into the cache."""
        _, n, m = self.demands.shape
        step = max(CHUNK // (n * m), 1)
        return (slice(first, min(first + step, len(self))) for first in range(0, len(self), step))

    def valid(self, where: slice) -> tuple[Float, Float, Float, Float]:
        """The demands, capacities, weights and limits of some of the instances; 0, 1 and 1 where nothing is needed.

        `InvalidInstance` for invalid numbers, with the instance, the user and the resource.
        """
        limits = np.array(self.limits[where], dtype=float)
        refuse = partial(_refuse, where.start)
        refuse("task_limits", limits, ~(in_range(limits) | (limits == np.inf)), "give 0 or more, or infinity")
        part = limits > 0
        demands = np.where(part[:, :, None], self.demands[where], 0.0).astype(float, copy=False)
        capacities = np.array(self.capacities[where], dtype=float)
        weights = np.where(part, self.weights[where], 1.0)
        fix = "give a finite number >= 0"
        refuse("demands", demands, ~in_range(demands), fix)
        refuse("capacities", capacities, ~in_range(capacities), fix)
        refuse("weights", weights, ~in_range(weights) | (weights == 0), "give a positive finite number")
        fix = "its tasks would be unlimited: give it a positive demand, or a task limit of 0"
        refuse("the sum of demands", demands.sum(axis=2), part & ~demands.any(axis=2), fix)
        empty = capacities == 0
        fix = "but the capacity is 0: give it capacity, or the user a task limit of 0"
        refuse("demands", demands, empty[:, None, :] & (demands > 0), fix)
        capacities[empty] = 1.0
        return demands, capacities, weights, limits

    def chunk(self, where: slice, share: Share, levelled: bool) -> BatchChunk:
        """Some of the instances, with the coefficients of a share.

        `InvalidInstance` or `OutOfDomain` for invalid numbers, with the instance, the user and the resource.
        """
        demands, capacities, weights, limits = self.valid(where)
        part = limits > 0
        ratios = demands / capacities[:, None, :]
        per_task, defined = self.coefficients(share, ratios, part, levelled, where.start)
        if not defined.all():
            b, user = np.argwhere(~defined)[0].tolist()
            c = per_task[b, user]
            one = self.labelled.with_demands(np.where(part[b, :, None], demands[b], 1.0))
            why = share.why_zero(one, user) if c == 0 else BEYOND
            who = _place((where.start + b, user)) if levelled or c else f"every user of {_place((where.start + b,))}"
            raise OutOfDomain(f"{who} has {share} = {c:g}: {why}")
        return BatchChunk(
            np.ascontiguousarray(demands.transpose(1, 2, 0)),
            np.ascontiguousarray(capacities.T),
            np.ascontiguousarray(weights.T),
            np.ascontiguousarray(limits.T),
            np.ascontiguousarray(per_task.T),
        )

    def coefficients(
        self, share: Share, ratios: Float, part: Bool, levelled: bool, first: int = 0
    ) -> tuple[Float, Bool]:
        """The share of one task, 1 for inactive users, and where it is valid, shapes (size, n_users).

        Valid coefficients are finite, and positive for every user, or for at least one if users are not ``levelled``.
        As fairopt's shares on one pool depend on the ratios of one user at a time, the users of all instances are
        evaluated as one instance with capacities of 1. A user-defined share is evaluated on each instance, from the
        ``first`` on.
        """
        c = np.ones(part.shape)
        if not is_ours(share):
            for b, active in enumerate(part):
                if active.any():
                    given = share.coefficients(self.taking_part(first + b)[0], levelled)
                    c[b, active] = given.reshape(len(given))
        elif part.any():
            together = with_rows(self.labelled, ratios[part])
            if not share.by_row:  # rank weights by user refer to one instance
                together.__dict__["taken_from"] = self.labelled, np.nonzero(part)[1]
            c[part] = share.per_task(together)
        held = c > 0
        if not levelled:
            held |= (c == 0) & (part & held).any(axis=1, keepdims=True)
        return c, held & (c < np.inf)


def is_one_pool(instance: Instance) -> bool:
    """Whether a batch can hold an instance: one server with all users eligible, no rates, teams or guarantees."""
    one = instance.n_servers == 1 and int(instance.counts[0]) == 1 and bool(instance.eligible.all())
    return one and instance.rates is None and not (instance.teams or instance.derived.has_guarantees or instance.limits)


def wrong_shape(shape: tuple[int, ...]) -> InvalidInstance:
    """The error for demands of the wrong number of dimensions."""
    return InvalidInstance(
        f"demands have shape {shape}; give (n_instances, n_users, n_resources), with at least one user and one "
        "resource; pad shorter instances with users of task limit 0"
    )


def _limits(given: Any) -> Float:
    """Limits as numbers, None being infinite."""
    if given is None:
        return np.array(np.inf)
    boxed = np.asarray(given, dtype=object) if isinstance(given, (list, tuple)) else np.asarray(given)
    if boxed.dtype.kind == "O":
        unlimited = np.vectorize(lambda limit: limit is None, otypes=[bool])
        boxed = np.where(unlimited(boxed), np.inf, boxed)
    return as_floats(boxed, "task_limits")


def _broadcast(array: Float, name: str, shape: tuple[int, int], scalar: bool = True) -> Float:
    """A broadcast view."""
    if array.shape not in (shape, shape[1:]) and not (scalar and array.ndim == 0):
        kinds = f"{shape}, {shape[1:]}{' or a number' if scalar else ''}"
        raise InvalidInstance(f"{name} have shape {array.shape}; give {kinds}")
    return np.broadcast_to(array, shape)


def _refuse(first: int, name: str, values: Float, bad: Bool, fix: str) -> None:
    """`InvalidInstance` for the first invalid entry."""
    if bad.any():
        at = tuple(int(k) for k in np.argwhere(bad)[0])
        whose = ("resource",) if name == "capacities" else ("user", "resource")
        fix = fix_or_unit(values[at], fix, name)
        raise InvalidInstance(f"{_place((first + at[0], *at[1:]), whose)}: {name} is {values[at]:g}; {fix}")


def _place(at: tuple[int, ...], whose: tuple[str, ...] = ("user", "resource")) -> str:
    kinds = ("instance", *whose)
    return ", ".join(f"{kind} {k}" for kind, k in zip(kinds, at, strict=False)) + " (counted from 0)"
