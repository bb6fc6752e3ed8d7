"""Whole tasks on individual servers: whether they fit, whether one more would, and what dividing tasks could gain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import feasibility
from fairopt.blocks.shares import Share
from fairopt.formulation.program import Float
from fairopt.instance import Instance

BLOCK = 1 << 22  # pairs of users and servers looked at in a row


class Placed(NamedTuple):
    """What is measured of a placement: the largest violation, and the users who could run more."""

    placement: Float  # (n_users, number of individual servers)
    violation: float  # relative, on each individual server, as of `feasibility`
    unsatisfied: NDArray[np.intp]  # users below their limits for whom one more task fits on some server


def measured(instance: Instance, user: NDArray[Any], server: NDArray[Any]) -> Placed:
    """Measure tasks, (n_tasks,) users and servers each; server row s stands for ``counts[s]`` consecutive servers."""
    row = np.repeat(np.arange(instance.n_servers), instance.counts.astype(int))
    demands, room = instance.per_server_demands, instance.capacities[row]
    placement = np.zeros((instance.n_users, len(row)))
    np.add.at(placement, (user, server), 1.0)
    tasks = instance.by_row(placement)
    used = np.stack(
        [np.bincount(server, demands[user, row[server], i], len(row)) for i in range(instance.n_resources)], axis=1
    )
    over = np.divide(used - room, room, out=np.where(used > 0, np.inf, 0.0), where=room > 0)
    violation = max(feasibility(instance, tasks), float(over.max(initial=0.0)))
    free, more = room - used, []
    below = np.flatnonzero(tasks.sum(axis=1) + 1 <= instance.task_limits)
    for some in np.array_split(below, max(1, -(-len(below) * len(row) // BLOCK))):
        fits = instance.eligible[some][:, row]
        for i in range(instance.n_resources):
            needs = demands[some, :, i][:, row]
            fits &= (needs <= free[:, i]) | (needs == 0)
        more.append(some[fits.any(axis=1)])
    return Placed(placement, violation, np.concatenate(more))


def highest_level(instance: Instance, share: Share) -> float:
    """A level that the smallest share per weight cannot exceed, even of divisible tasks.

    What all users need together at a level fits, as if all servers were one, and each could run its part alone. On one
    pool it is the max-min level.
    """
    c = share.coefficients(instance)
    tasks = instance.weights / (c if c.ndim == 1 else np.where(instance.eligible, c, 0.0).max(axis=1))  # at level 1
    alone = np.minimum(instance.tasks_alone.sum(axis=1), instance.task_limits)
    load = float((tasks @ instance.cheapest_ratios).max())
    return min(float((alone / tasks).min()), 1.0 / load if load > 0 else np.inf)
