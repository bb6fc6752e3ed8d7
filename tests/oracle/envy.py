"""Envy pair by pair, in the arithmetic that the package promises: what `fairopt.properties.envy` finds without that."""

from __future__ import annotations

from math import floor, inf

import numpy as np

import fairopt as fo


def whole(tasks: float) -> float:
    return floor(tasks * (1 + 1e-9)) if tasks < inf else inf


def least_ratio(have: list[float], need: list[float]) -> float:
    return min((h / d for h, d in zip(have, need, strict=True) if d), default=0.0)


def score(a: fo.Allocation, j: int, k: int, property_name: str) -> tuple[float, tuple[float, ...]]:
    """What j could run on the bundle of k, per weight and not cut at limits, and the bundle as j sees it."""
    instance, in_whole, one = a.instance, property_name != "envy-free", a.instance.n_servers == 1
    w, servers = instance.weights.tolist(), np.flatnonzero(instance.eligible[j]).tolist()
    if a.given_bundles is None and instance.demands.ndim == 2 and (one or not in_whole):
        tasks, demands = sum(a.tasks_by_server[k, servers].tolist()), instance.demands.tolist()
        held = [d * tasks for d in demands[k]]
        if property_name == "ef1":
            held = [max(h - d, 0.0) for h, d in zip(held, demands[k], strict=True)]
        held = [h / w[k] for h in held]
        return w[j] * least_ratio(held, demands[j]), tuple(held)
    total, cost, seen = 0.0, 0.0, []
    for s in range(instance.n_servers):
        held, mine, theirs = (
            v.tolist() for v in (a.bundles[k, s], instance.per_server_demands[j, s], instance.per_server_demands[k, s])
        )
        less = [max(h - d, 0.0) / w[k] for h, d in zip(held, theirs, strict=True)]
        held = less if one and property_name == "ef1" else [h / w[k] for h in held]
        seen += held
        if s in servers:
            here = w[j] * least_ratio(held, mine)
            here = whole(here) if in_whole and not one else here
            total += here
            if property_name == "ef1" and not one:
                cost = max(cost, here - whole(w[j] * least_ratio(less, mine)))
    return total - cost, tuple(seen)


def envy_by_pairs(a: fo.Allocation, property_name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The matrix of envy, the largest entry of each row and whom it is for; ties as the package breaks them."""
    instance, n = a.instance, a.instance.n_users
    unit = np.maximum(a.tasks, instance.own_slices)
    matrix, largest, whom = np.zeros((n, n)), np.full(n, -1.0), np.full(n, -1)
    for j in range(n):
        best: tuple[float, tuple[float, ...]] | None = None
        for k in range(n):
            if k == j:
                continue
            now = score(a, j, k, property_name)
            runs, limit = now[0], float(instance.task_limits[j])
            if property_name != "envy-free":
                runs, limit = whole(runs), whole(limit)
            runs = min(runs, limit)
            if property_name == "ef1-own":
                runs = max(runs - 1.0, 0.0)
            matrix[j, k] = (runs - float(a.tasks[j])) / unit[j] if unit[j] > 0 else 0.0
            if best is None or now > best:
                best, largest[j], whom[j] = now, matrix[j, k], k
    return matrix, largest, whom
