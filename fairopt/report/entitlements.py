"""What each team and user would get if all had more work than fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from fairopt.allocation import Allocation, units_of
from fairopt.instance import Instance
from fairopt.operate.fitting import too_large
from fairopt.operate.team_sums import team_sums

Entitled: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]  # units by label or "user", name and resource


def at_full_demand(instance: Instance) -> Instance | None:
    """The instance at full demand, where users whose tasks fit nowhere get nothing; None if nobody has a limit.

    Examples
    --------
    >>> import fairopt as fo
    >>> at_full_demand(fo.Instance([[1], [9]], [4], task_limits=[2, 3])).task_limits
    array([inf,  0.])
    """
    if np.isinf(instance.task_limits).all():
        return None
    full = instance.full_demand()
    limits = np.array(full.task_limits)
    limits[too_large(full)] = 0
    return full.replace(task_limits=limits)


def entitled(answer: Allocation) -> Entitled:
    """The units of each team and user in an answer at full demand.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[1], [2]], [12], task_limits=[2, 20], users=["a", "b"], resources=["gpu"])
    >>> entitled(fo.DRF().allocate(pool.full_demand()))
    {'user': {'a': {'gpu': 6.0}, 'b': {'gpu': 6.0}}}
    """
    instance = answer.instance
    found = {by: (sums.names, sums.units) for by in instance.teams for sums in [team_sums(answer, by, alone=True)]}
    found["user"] = (instance.users, units_of(answer))
    return {
        by: {
            name: dict(zip(instance.resources, row, strict=True))
            for name, row in zip(names, units.tolist(), strict=True)
        }
        for by, (names, units) in found.items()
    }


def without_tasks(found: Entitled, by: str, names: tuple[str, ...], resource: str) -> dict[str, float]:
    """The units of a resource of those who are not among the names."""
    return {name: units[resource] for name, units in found.get(by, {}).items() if name not in names}
