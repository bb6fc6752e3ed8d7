"""Gavel's water-filling in two levels (Narayanan et al. 2020, sec. 4.3), by a linear program for each event."""

from typing import Any

import numpy as np
from scipy.optimize import linprog


def two_levels(rates: Any, factors: Any, gpus: Any, weights: Any, entity: Any, entity_weights: Any) -> Any:
    """Levels of jobs: throughput over that on an equal slice, times GPUs.

    An entity's weight is divided among its jobs that still rise, by their weights; all levels rise at these rates until
    some job cannot rise unless another falls.
    """
    n, s = rates.shape
    level = np.array(factors)[:, None] * rates / (rates @ np.array(gpus) / np.sum(gpus))[:, None]
    capacity = np.zeros((s, n * s))
    for k in range(s):
        capacity[k, k::s] = factors
    hours = np.kron(np.eye(n), np.ones(s))
    levels = np.zeros((n, n * s))
    for j in range(n):
        levels[j, j * s : (j + 1) * s] = level[j]
    above = np.vstack([capacity, hours, -levels])
    right = np.concatenate([gpus, np.ones(n)])
    now, rising = np.zeros(n), np.ones(n, dtype=bool)

    def most(goal: Any, rate: Any) -> float:
        found = linprog(-goal, np.column_stack([above, np.r_[np.zeros(s + n), rate]]), np.r_[right, -now * (1 - 1e-10)])
        assert found.success
        return float(-found.fun)

    while rising.any():
        rate = np.zeros(n)
        for e in np.unique(entity[rising]):
            inside = rising & (entity == e)
            rate[inside] = entity_weights[e] * weights[inside] / weights[inside].sum()
        now = now + rate * most(np.r_[np.zeros(n * s), 1.0], rate)
        for j in np.flatnonzero(rising):
            goal = np.r_[levels[j], 0.0]
            rising[j] = most(goal, np.zeros(n)) > now[j] * (1 + 1e-7) + 1e-9
    return now
