"""Models of programs over bundles: an amount per user, server and resource, and tasks that fit in the amounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.model import Model, Pairs, Point, Written
from fairopt.instance import Instance
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import cp, sp


class Triples:
    """The (user, server, resource) triples with ``who`` true: the columns of such a program."""

    def __init__(self, instance: Instance, who: Bool) -> None:
        self.instance, self.who = instance, who
        self.user, self.server, self.resource = np.nonzero(who)
        self.row = self.server * instance.n_resources + self.resource
        capacity = (instance.capacities * instance.counts[:, None]).ravel()
        self.capacity = capacity[self.row]
        self.demand = instance.per_server_demands[self.user, self.server, self.resource]

    def __len__(self) -> int:
        return len(self.user)

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        instance = self.instance
        place = np.full((instance.n_users, instance.n_servers, instance.n_resources), -1)
        place[self.user, self.server, self.resource] = np.arange(len(self))
        return place

    def index(self, user: Indices, server: Indices, resource: Indices) -> Indices:
        """The positions of given triples."""
        return self._place[user, server, resource]

    def table(self, values: Float) -> Float:
        """Values as (n_users, n_servers, n_resources), zero elsewhere."""
        out = np.zeros(self._place.shape)
        out[self.user, self.server, self.resource] = values
        return out

    def together(self, per_unit: Float, chosen: Any = slice(None)) -> sp.csr_array:
        """Matrix of shape (n_servers * n_resources, n_triples) that sums the fractions of each capacity held."""
        instance, column = self.instance, np.arange(len(self))[chosen]
        values = (per_unit / self.capacity)[chosen]
        shape = (instance.n_servers * instance.n_resources, len(self))
        return sp.csr_array((values, (self.row[chosen], column)), shape=shape)


class BundleModel(Model):
    """A `Model` with ``held``, bundles divided by ``units``, both of shape (n_triples,); tasks must fit in them."""

    def __init__(
        self,
        instance: Instance,
        held: cp.Expression,
        units: Float,
        triples: Triples,
        tasks: cp.Expression,
        scale: Float,
        pairs: Pairs,
        solver: str | None = None,
    ) -> None:
        super().__init__(instance, tasks, scale, pairs, solver)
        self.held, self.units, self.triples = held, units, triples

    def fits(self) -> cp.Constraint:
        """The constraints ``d x <= a`` of tasks x and bundles a, in units of the bundle."""
        needed = np.flatnonzero(self.triples.demand > 0)
        pair = self.pairs.index(self.triples.user[needed], self.triples.server[needed])
        per_unit = self.triples.demand[needed] * self.scale[pair] / self.units[needed]
        return cp.multiply(per_unit, self.unknowns[pair]) <= self.held[needed]

    @cached_property
    def bundles(self) -> cp.Expression:
        shape = (self.instance.n_users, self.instance.n_servers, self.instance.n_resources)
        flat = np.ravel_multi_index((self.triples.user, self.triples.server, self.triples.resource), shape)
        place = sp.csr_array((self.units, (flat, np.arange(len(flat)))), shape=(int(np.prod(shape)), len(flat)))
        return cp.reshape(place @ self.held, shape, order="C")

    @cached_property
    def loads(self) -> cp.Expression:
        """Fraction of each capacity that is held, shape (n_servers * n_resources,), server by server."""
        return self.triples.together(self.units) @ self.held

    @property
    def can_hold(self) -> Bool:
        return self.triples.who

    def split_bundles(self, user: Indices, server: Indices, resource: Indices) -> tuple[cp.Expression, Float]:
        triple = self.triples.index(user, server, resource)
        everything = len(triple) == len(self.triples) and bool((triple == np.arange(len(triple))).all())
        return (self.held if everything else self.held[triple]), self.units[triple]

    def held_together(self, who: Bool) -> cp.Expression:
        chosen = who[self.triples.user, self.triples.server, self.triples.resource]
        return self.triples.together(self.units, chosen) @ self.held


class BundlePoint(Point):
    """A `Point` with bundles of shape (n_users, n_servers, n_resources) and tasks of shape (n_users, n_servers)."""

    def __init__(
        self,
        instance: Instance,
        bundles: Float,
        tasks_by_server: Float,
        variables: Callable[[], Mapping[str, Float]] | None = None,
        written: Written | None = None,
    ) -> None:
        super().__init__(instance, tasks_by_server, variables, written)
        self._bundles = bundles

    @property
    def bundles(self) -> Float:
        return self._bundles

    def scaled(self, factor: float) -> BundlePoint:
        bundles, tasks = self._bundles * factor, self.tasks_by_server * factor
        return BundlePoint(self.instance, bundles, tasks, self._variables(factor), self.written)

    def typical(self) -> BundlePoint:
        """Another point: equal parts of all capacities, and the tasks that fit in them."""
        instance = self.instance
        part = instance.capacities * instance.counts[:, None] / max(instance.n_users, 1)
        bundles = np.where(instance.eligible[:, :, None], part, 0.0)
        tasks = cut_at_limits(instance, tasks_in_bundles(instance, bundles))
        return BundlePoint(instance, bundles, tasks, written=self.written)

    def towards_typical(self, part: float) -> BundlePoint:
        there = self.typical()
        tasks = self.tasks_by_server + part * (there.tasks_by_server - self.tasks_by_server)
        bundles = self._bundles + part * (there.bundles - self._bundles)
        return BundlePoint(self.instance, bundles, tasks, self._variables(), self.written)


def tasks_within(bundles: Float, demands: Float) -> Float:
    """Tasks that fit in bundles, ``min_i b_i / d_i`` over the last axis; infinite if they need nothing.

    Evaluated column by column, since reductions along short rows are slow.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        tasks = np.asarray(bundles[..., 0] / demands[..., 0])  # infinite, or 0 / 0, where a task needs nothing
        for i in range(1, demands.shape[-1]):
            np.fmin(tasks, bundles[..., i] / demands[..., i], out=tasks)
    return np.fmin(tasks, np.inf, out=tasks)


def tasks_in_bundles(instance: Instance, bundles: Float) -> Float:
    """Tasks of shape (n_users, n_servers) that fit in bundles; task limits are ignored."""
    tasks = tasks_within(bundles, instance.per_server_demands)
    return tasks if instance.derived.everywhere else np.where(instance.eligible, tasks, 0.0)


def cut_at_limits(instance: Instance, tasks: Float) -> Float:
    """Tasks of shape (n_users, n_servers), scaled down for users above their task limit."""
    total = tasks.sum(axis=1)
    over = total > instance.task_limits
    if over.any():
        tasks = tasks.copy()
        tasks[over] *= (instance.task_limits[over] / total[over])[:, None]
    return tasks
