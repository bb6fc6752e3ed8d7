"""Whole tasks on individual servers: whether they fit, whether one more would, and a bound for divisible tasks.

Whole tasks placed one by one (`SequentialMinMax`) are no optimum of anything, so that the proof has two parts: nobody's
next task fits anywhere, which is seen by trying each; and the smallest share per weight is compared with

    min(min_j alone_j c_j / w_j,  1 / max_i sum_j (w_j / c_j) min_s d_jsi / C_i),

which no divisible tasks exceed: at a common level of 1 user j runs w_j / c_j tasks, and all servers are taken for one.
On one pool it is the max-min level. Tasks are counted as floats that are whole, and fit exactly or not at all: no
tolerance is added to free capacities here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import feasibility, used_by
from fairopt.blocks.shares import Share
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float

BLOCK = 1 << 22  # pairs of users and servers per block


class Placed(NamedTuple):
    """Measures of a placement."""

    placement: Float  # (n_users, number of individual servers)
    violation: float  # of individual servers, as in `feasibility`
    unsatisfied: NDArray[np.intp]  # users who could run one more task


def measured(instance: Instance, user: NDArray[Any], server: NDArray[Any]) -> Placed:
    """Measure tasks given by users and servers, (n_tasks,) each; server row s is ``counts[s]`` consecutive servers."""
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
    """An upper bound on the smallest share per weight, also of divisible tasks; on one pool the max-min level.

    All users' demands at a level fit if all servers are one, and each user can run its part alone.
    """
    c = share.coefficients(instance)
    tasks = instance.weights / (c if c.ndim == 1 else np.where(instance.eligible, c, 0.0).max(axis=1))  # at level 1
    alone = np.minimum(instance.tasks_alone.sum(axis=1), instance.task_limits)
    load = float((tasks @ instance.derived.cheapest_ratios).max())
    return min(float((alone / tasks).min()), 1.0 / load if load > 0 else np.inf)
