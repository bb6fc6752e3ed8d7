"""The limits of an instance as a constraint, which every policy keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Pairs
from fairopt.blocks.rows import Rows
from fairopt.instance import Instance
from fairopt.runtime.lazy import sp

__all__ = ["KeptLimits", "kept_limits"]


@dataclass(frozen=True, repr=False)
class KeptLimits(Constraint):
    """The limits of an instance: ``sum of d_jsi x_js <= amount`` over the users and servers of each."""

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        instance, per_task, right, labels = pairs.instance, [], list[float](), list[str]()
        demands, members = instance.per_server_demands, members_of(instance)
        for limit in instance.limits:
            counts = limit.counts(members, instance.n_users, instance.n_servers)[pairs.user, pairs.server]
            row = np.where(counts, demands[pairs.user, pairs.server, instance.resource_index(limit.resource)], 0.0)
            if row.any():
                per_task.append(sp.csr_array(row[None, :]))
                right.append(limit.amount)
                labels.append(limit.name)
        return {"limited": Rows(sp.vstack(per_task, format="csr"), right, labels=labels)} if right else {}

    def __repr__(self) -> str:
        return "the limits of the instance"


def members_of(instance: Instance) -> dict[str, object]:
    """The rows of users by the name of a user or team."""
    return {user: j for j, user in enumerate(instance.users)} | dict(instance.teams.names)


def kept_limits(instance: Instance) -> tuple[KeptLimits, ...]:
    """The limits of an instance as constraints."""
    return (KeptLimits(),) if instance.limits else ()
