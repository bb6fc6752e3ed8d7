"""Parts of an instance, for solves: some of its users or servers, most without copies or checks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.instance import validation
from fairopt.instance.data import Instance
from fairopt.instance.limits import limits_on
from fairopt.instance.teams import Teams
from fairopt.runtime.arrays import Float


def merged_within_limits(instance: Instance) -> Instance:
    """`Instance.merged` with all limits: servers that some limit tells apart stay apart, though it cannot bind now.

    For instances that change: with other capacities it may.
    """
    apart = object.__new__(Instance)
    apart.__dict__.update(instance.__dict__)
    apart.__dict__["_derived"] = {"server_classes": instance.derived.classes_within(instance.limits)}
    made = apart.merged()
    return instance if made is apart else made


def taking_part(instance: Instance, chosen: ArrayLike) -> Instance:
    """`select_users` for a solve: values given for all users, and `Derived.total_weight`, remain valid."""
    rows = np.arange(instance.n_users)[np.asarray(chosen)]
    part = instance._of_users(rows, None)
    # labels are taken from there on demand; weights are as divided among all members of teams
    part.__dict__.update(taken_from=(instance, rows), weights=validation.frozen(instance.weights[rows]))
    return part


def window(instance: Instance, rows: slice, ratios: Float | None = None, demands: Float | None = None) -> Instance:
    """`taking_part` of a slice of users, without copies or checks; ``ratios``, ``demands`` if known."""
    part, known = object.__new__(Instance), {} if demands is None else {"demands": demands}
    part.__dict__.update(
        instance.derived.of_users(rows, **known),
        weights=instance.weights[rows],
        own_weights=instance.own_weights[rows],
        held=None,
        limits=instance.limits,
        _given={},
        teams=instance.teams.take(rows),
        team_weights=instance.team_weights,
        team_guarantees=instance.team_guarantees,
        capacities=instance.capacities,
        counts=instance.counts,
        total_capacities=instance.total_capacities,
        _users=None,
        _resources=instance._resources,
        _servers=instance._given_servers,
        server_types=instance.server_types,
        units=instance.units,
        notes=instance.notes,
        taken_from=(instance, rows),
        merged_from=None,
        _checked=True,
    )
    if ratios is not None:
        part.__dict__["ratios"] = ratios
    return part


def with_rows(instance: Instance, demands: Any) -> Instance:
    """The pool with other users, given by demands only, without copies or checks."""
    n, part = len(demands), window(instance, slice(0))
    part.__dict__.update(
        demands=demands,
        weights=np.broadcast_to(1.0, n),
        own_weights=np.broadcast_to(1.0, n),
        task_limits=np.broadcast_to(np.inf, n),
        eligible=np.broadcast_to(np.True_, (n, 1)),
        guarantees=np.broadcast_to(0.0, n),
        rates=None,
        held=None,
        limits=(),
        teams=Teams({}),
        team_weights={},
        team_guarantees={},
        taken_from=None,
    )
    return part


def server_window(instance: Instance, rows: slice) -> Instance:
    """The instance on a slice of the servers, without copies or checks; users eligible on none remain."""
    part = object.__new__(Instance)
    part.__dict__.update(
        {**instance.__dict__, **instance.derived.of_servers(rows)},
        eligible=instance.eligible[:, rows],
        counts=instance.counts[rows],
        held=None,
        limits=limits_on(instance.limits, rows),
        _servers=instance.servers[rows] if instance._given_servers else None,
        server_types=None if instance.server_types is None else instance.server_types[rows],
        merged_from=None,
    )
    for name in ("ratios", "dominant_shares", "total_capacities", "tasks_alone", "_derived", "servers", "in_fractions"):
        part.__dict__.pop(name, None)
    if "dominance" in part.__dict__:
        part.__dict__["dominance"] = instance.dominance.on(rows)
    return part
