"""Servers to buy: of a type that a cluster has not, which are not for sale, and limits raised with the capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidBlock, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.instance.labels import whole_name
from fairopt.instance.limits import Limit

NAME = "new server"
RELATIVE = 1e-9  # of a capacity: sums of what runs are rounded


@dataclass(frozen=True)
class NewServer:
    """A server to buy: its capacities by resource, others being 0.

    ``like`` names a server of the cluster: those who may run there may run on the new one. Without it these are the
    users who may run on every server with the same resources where a task of theirs fits (on every server, if none has
    the same resources): of others it is not known whether they accept the new server. Of tasks too large for any server
    that counts whether they may run on these but for their size. ``cost`` is that of the server.
    """

    capacities: Mapping[str, float] = field(hash=False)
    name: str = NAME
    like: str | None = None
    cost: float | None = None

    def check(self, instance: Instance) -> None:
        """`InvalidBlock` for unknown resources and wrong amounts, `InvalidInstance` for an unknown server."""
        self.row(instance)
        if self.like is not None:
            instance.server_index(self.like)

    def row(self, instance: Instance) -> NDArray[np.float64]:
        """Its capacities in the order of the resources of an instance."""
        out = np.zeros(instance.n_resources)
        for given, units in self.capacities.items():
            resource = whole_name(given, instance.resources)
            if resource not in instance.resources:
                raise InvalidBlock(f"{self.name} has {given!r}; {nearest(str(given), instance.resources)}")
            if isinstance(units, bool) or not isinstance(units, (int, float, np.number)) or not 0 <= units < np.inf:
                raise InvalidBlock(f"{given!r} of {self.name} is {units!r}; give a finite number >= 0")
            out[instance.resource_index(resource)] = units
        if not out.any():
            raise InvalidBlock(f"{self.name} has nothing; give capacities, such as {instance.resources[0]}=8")
        return out


def with_new_server(instance: Instance, new: NewServer, asked: NDArray[np.float64] | None = None) -> Instance:
    """The instance with one new server as its last row.

    ``asked`` are the task limits before those of tasks too large for any server were set to 0; the new one may be large
    enough.

    `OutOfDomain` if demands or rates differ by server and no server is named that it is like.
    """
    row, like = new.row(instance), None if new.like is None else instance.server_index(new.like)
    if like is None:
        what = "demands" if instance.demands.ndim == 3 else "rates" if instance.rates is not None else ""
        if what:
            raise OutOfDomain(f"{what} differ by server; name one that {new.name} is like")
    may = _may_run(instance, row, like)
    name = next(one for one in (new.name, f"{new.name} (new)") if one not in instance.servers)
    changes: dict[str, Any] = {
        "capacities": np.vstack([instance.capacities, row]),
        "eligible": np.column_stack([instance.eligible, may]),
        "counts": [*instance.counts.tolist(), 1],
        "servers": [*instance.servers, name],
        "limits": tuple(
            replace(one, of=tuple((who, _counted(instance, one.resource, where, like)) for who, where in one.of))
            for one in instance.limits
        ),
    }
    if asked is not None:
        fits = may & np.all(instance.per_server_demands[:, like or 0] <= row, axis=1)
        changes["task_limits"] = np.where(fits & (instance.task_limits == 0), asked, instance.task_limits)
    if like is not None and instance.demands.ndim == 3:
        changes["demands"] = np.concatenate([instance.demands, instance.demands[:, like : like + 1]], axis=1)
    if like is not None and instance.rates is not None:
        changes["rates"] = np.column_stack([instance.rates, instance.rates[:, like]])
    if instance.server_types is not None:
        changes["server_types"] = [*instance.server_types, name if like is None else instance.server_types[like]]
    if instance.held is not None and instance.held.ndim == 2:
        changes["held"] = np.column_stack([instance.held, np.zeros(instance.n_users)])
    return instance.replace(**changes)


def _may_run(instance: Instance, row: NDArray[np.float64], like: int | None) -> NDArray[np.bool_]:
    """Who may run on the new server and has all that a task needs there."""
    demands = instance.per_server_demands
    has = np.all((demands[:, 0 if like is None else like] <= 0) | (row > 0), axis=1)
    fits = np.all(demands <= instance.capacities, axis=2)
    alike = np.all((instance.capacities > 0) == (row > 0), axis=1)
    alike = alike if alike.any() else np.ones_like(alike)
    fits = np.where(np.any(fits & alike, axis=1)[:, None], fits & alike, alike)  # where a task is large: all of these
    everywhere = ~np.any(fits & ~instance.eligible, axis=1)
    may: NDArray[np.bool_] = has & (everywhere if like is None else instance.eligible[:, like])
    return may


def _counted(
    instance: Instance, resource: str, where: tuple[bool, ...] | None, like: int | None
) -> tuple[bool, ...] | None:
    """Where a limit counts: on the new server as on the one it is like, or as on all that have the resource."""
    if where is None:
        return None
    has = instance.capacities[:, instance.resource_index(resource)] > 0
    return (*where, where[like] if like is not None else bool(np.array(where)[has].all()))


def closed(instance: Instance) -> NDArray[np.bool_]:
    """The rows of servers that start no tasks, so that nobody buys more of them.

    As readers give them, such a server has what runs there and nothing more, and nobody else may use it.
    """
    held = instance.held
    if held is None or held.ndim == 1:
        return np.zeros(instance.n_servers, dtype=np.bool_)
    there = instance.capacities * instance.counts[:, None]
    full = np.isclose(np.einsum("js,jsi->si", held, instance.per_server_demands), there, rtol=RELATIVE, atol=0)
    out: NDArray[np.bool_] = full.all(axis=1) & (held > 0).any(axis=0) & ~(instance.eligible & (held <= 0)).any(axis=0)
    return out


def with_limits_raised(before: Instance, after: Instance) -> Instance:
    """An instance with more capacity, and limits that state their reasons raised in proportion to it.

    What is owed to users and teams stays.
    """
    limits = list[Limit]()
    for one, was in zip(after.limits, before.limits, strict=True):
        i = after.resource_index(one.resource)
        new, old = (_room(instance, limit, i) for instance, limit in ((after, one), (before, was)))
        factor = new / old if one.reasons and old else 1.0
        reasons = tuple((reason, amount * factor) for reason, amount in one.reasons)
        limits.append(replace(one, amount=one.amount * factor, reasons=reasons))
    return after.replace(limits=limits)


def _room(instance: Instance, limit: Limit, i: int) -> float:
    """What the servers of a limit have of its resource."""
    masks = [where for _, where in limit.of]
    on = slice(None) if None in masks else np.any(np.array(masks, dtype=np.bool_), axis=0)
    return float((instance.capacities[on, i] * instance.counts[on]).sum())
