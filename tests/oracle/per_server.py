"""PS-DSF by its definition: a linear program for each user and server."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

import fairopt as fo


def can_rise(instance: fo.Instance, tasks: NDArray[np.floating[Any]], j: int, s: int, tolerance: float = 1e-6) -> float:
    """How far ``x_js`` can rise, relative to all that j has, without lowering any user on s at its level or below.

    Levels are tasks everywhere over what one server of the row could run of that user alone, per weight; who stands
    above by more than the tolerance may be lowered.
    """
    demands, counts = instance.per_server_demands[:, s], float(instance.counts[s])
    users = np.flatnonzero(instance.eligible[:, s])
    total = tasks.sum(axis=1)
    alone = np.array([min(c / d for c, d in zip(instance.capacities[s], demands[k], strict=True) if d) for k in users])
    level = dict(zip(users, total[users] / alone / instance.weights[users], strict=True))
    low = [0.0 if level[k] > level[j] * (1 + tolerance) else tasks[k, s] for k in users]
    high = [instance.task_limits[k] - total[k] + tasks[k, s] for k in users]
    bounds = [(min(a, b), b) for a, b in zip(low, np.maximum(high, tasks[users, s]), strict=True)]
    goal = -(users == j).astype(float)
    room = np.maximum(instance.capacities[s] * counts, tasks[users, s] @ demands[users])
    found = linprog(goal, A_ub=demands[users].T, b_ub=room, bounds=bounds, method="highs")
    assert found.status == 0, found.message
    return float((-found.fun - tasks[j, s]) / total[j]) if total[j] > 0 else np.inf * (-found.fun)
