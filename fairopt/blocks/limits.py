"""The limits of an instance as a constraint, which every policy keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Pairs
from fairopt.blocks.rows import Rows
from fairopt.instance import Instance
from fairopt.runtime.lazy import sp

__all__ = ["KeptLimits", "beyond_limits", "kept_limits", "limited_units"]


Float = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class KeptLimits(Constraint):
    """The limits of an instance: ``sum of d_jsi x_js <= amount`` over the users and servers of each."""

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        instance, per_task, kept = pairs.instance, [], []
        for limit, units in zip(instance.limits, limited_units(instance), strict=True):
            row = units[pairs.user, pairs.server]
            if row.any():
                per_task.append(sp.csr_array(row[None, :]))
                kept.append(limit)
        if not kept:
            return {}
        right, labels = [limit.amount for limit in kept], [limit.name for limit in kept]
        return {"limited": Rows(sp.vstack(per_task, format="csr"), right, labels=labels)}

    def __repr__(self) -> str:
        return "the limits of the instance"


def kept_limits(instance: Instance) -> tuple[KeptLimits, ...]:
    """The limits of an instance as constraints."""
    return (KeptLimits(),) if instance.limits else ()


def limited_units(instance: Instance) -> Iterator[Float]:
    """What a task takes of each limit, shape (n_users, n_servers) each."""
    members = {user: j for j, user in enumerate(instance.users)} | dict(instance.teams.names)
    shape, demands = (instance.n_users, instance.n_servers), instance.per_server_demands
    for limit in instance.limits:
        yield np.where(limit.counts(members, *shape), demands[:, :, instance.resource_index(limit.resource)], 0.0)


def beyond_limits(instance: Instance, tasks: Float) -> float:
    """By how much tasks (n_users, n_servers) exceed a limit, relative to it."""
    over = [
        float((units * tasks).sum()) / limit.amount - 1
        for limit, units in zip(instance.limits, limited_units(instance), strict=True)
    ]
    return max([0.0, *over])
