"""Whole tasks on individual servers: whether they fit, whether one more would, and what dividing tasks could gain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import feasibility, used_by
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
    each = instance.individual()
    placement = np.zeros((each.n_users, each.n_servers))
    np.add.at(placement, (user, server), 1.0)
    demands, free = each.per_server_demands, each.capacities - used_by(each, placement)
    more = []
    below = np.flatnonzero(placement.sum(axis=1) + 1 <= each.task_limits)
    for some in np.array_split(below, max(1, -(-len(below) * each.n_servers // BLOCK))):
        fits = each.eligible[some]
        for i in range(each.n_resources):
            needs = demands[some, :, i]
            fits &= (needs <= free[:, i]) | (needs == 0)
        more.append(some[fits.any(axis=1)])
    return Placed(placement, feasibility(each, placement), np.concatenate(more))


def highest_level(instance: Instance, share: Share) -> float:
    """A level that the smallest share per weight cannot exceed, even of divisible tasks.

    What all users need together at a level fits, as if all servers were one, and each could run its part alone. On one
    pool it is the max-min level.
    """
    c = share.coefficients(instance)
    tasks = instance.weights / (c if c.ndim == 1 else np.where(instance.eligible, c, 0.0).max(axis=1))  # at level 1
    alone = np.minimum(instance.tasks_alone.sum(axis=1), instance.task_limits)
    load = float((tasks @ instance._cheapest_ratios).max())
    return min(float((alone / tasks).min()), 1.0 / load if load > 0 else np.inf)
