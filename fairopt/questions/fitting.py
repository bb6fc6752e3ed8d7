"""Tasks that fit on no server: larger in some resource than each server where they may run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime.display import of_units

if TYPE_CHECKING:
    from fairopt.instance import Instance

_ROUNDED = 1 + 1e-9  # on capacities, as in the readers
_SHOWN = 3  # users named in a sentence


def too_large(instance: Instance) -> NDArray[np.intp]:
    """The users of which a single task fits on no server where it may run, in their order."""
    demands, capacities = instance.per_server_demands, instance.capacities
    left = np.arange(instance.n_users)
    for s in np.argsort(-capacities.sum(axis=1)).tolist():
        if not len(left):
            break
        fits = instance.eligible[left, s] & (demands[left, s] <= capacities[s] * _ROUNDED).all(axis=1)
        left = left[~fits]
    return left


def why_too_large(instance: Instance, users: NDArray[np.intp]) -> str:
    """A sentence on users whose tasks are too large, with the resource of which each asks too much."""
    names = [f"{instance.users[j]} ({_reason(instance, j)})" for j in users[:_SHOWN].tolist()]
    more = f" and {len(users) - _SHOWN:,} more users" if len(users) > _SHOWN else ""
    return f"no server can run a task of {', '.join(names)}{more}"


def _reason(instance: Instance, user: int) -> str:
    """Why no server fits a task of a user: the resource that is exceeded by most, if a single one is to blame."""
    where = np.flatnonzero(instance.eligible[user])
    least = instance.per_server_demands[user, where].min(axis=0)
    most = instance.capacities[where].max(axis=0)
    beyond = np.flatnonzero(least > most * _ROUNDED)
    if not len(beyond):
        return "each server has too little of one resource or another"
    i = int(beyond[np.argmax(least[beyond] / most[beyond])])
    name = of_units(instance.resources, instance.units)[i]
    whose = "server where it may run" if instance.capacities[:, i].max() > most[i] else "server"
    return f"{least[i]:,.6g} {name} a task; the largest {whose} has {most[i]:,.6g}"
