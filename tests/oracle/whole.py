"""The best whole tasks by brute force in exact fractions: every way to fill every server, for small instances."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import fairopt as fo

Vector = tuple[Fraction, ...]


def small(rng: np.random.Generator, by_server: bool = False) -> fo.Instance:
    """An instance of 1 to 4 users, 1 to 3 resources and 1 to 3 servers: zeros, limits, weights, counts, placement."""
    n, m, rows = (int(rng.integers(1, most + 1)) for most in (3 if by_server else 4, 3, 3))
    demands = rng.integers(0, 5, size=(n, rows, m) if by_server else (n, m)).astype(float)
    demands[..., 0] += ~demands.any(axis=-1)
    capacities = rng.integers(1, 6 if by_server else 9, size=(rows, m)).astype(float)
    counts = [2, 1] if rows == 2 and rng.random() < 0.3 else None
    if rows > 1 and rng.random() < 0.3:
        capacities[1] = capacities[0]
    eligible = rng.random((n, rows)) < 0.8
    eligible[np.arange(n), rng.integers(0, rows, size=n)] = True
    limits = np.where(rng.random(n) < 0.4, rng.integers(0, 9, size=n) / 2, np.inf)
    weights = rng.integers(1, 4, size=n) if rng.random() < 0.5 else None
    return fo.Instance(demands, capacities, task_limits=limits, weights=weights, eligible=eligible, counts=counts)


def exact(values: Any) -> Any:
    """Floats as the fractions that they are."""
    return [exact(v) for v in values] if np.ndim(values) else Fraction(float(values))


def of_instance(instance: fo.Instance) -> tuple[Any, Any, Vector]:
    """Demands by user and server row, capacities of one server of each row, and capacities of all servers."""
    capacities = exact(instance.capacities)
    columns = zip(*capacities, strict=True)
    total = tuple(sum(c * int(q) for c, q in zip(column, instance.counts, strict=True)) for column in columns)
    return exact(instance.per_server_demands), capacities, total


def largest_part(demand: Vector, total: Vector) -> Fraction:
    """The dominant share of a task."""
    return max((d / c for d, c in zip(demand, total, strict=True) if c), default=Fraction(0))


def fillings(demands: list[Vector], room: Vector) -> Iterator[tuple[int, ...]]:
    """All whole numbers of tasks of these demands that fit within a room."""
    if not demands:
        yield ()
        return
    first, *others = demands
    k = 0
    while all(k * d <= c for d, c in zip(first, room, strict=True)):
        for rest in fillings(others, tuple(c - k * d for d, c in zip(first, room, strict=True))):
            yield (k, *rest)
        k += 1


def added(x: Vector, y: Vector) -> Vector:
    """The sum of two vectors."""
    return tuple(a + b for a, b in zip(x, y, strict=True))


def outcomes(instance: fo.Instance) -> set[tuple[Vector, Vector]]:
    """Tasks and dominant shares of all users with a limit above 0, of enough whole allocations to hold every best one.

    Where shares do not differ by server these are the largest fillings of each server, cut at the limits.
    """
    users = np.flatnonzero(instance.task_limits > 0)
    demands, capacities, total = of_instance(instance)
    by_server = instance.demands.ndim == 3
    limits = [int(t) if np.isfinite(t) else 10**9 for t in instance.task_limits[users]]
    zero = (Fraction(0),) * len(users)
    found = {(zero, zero)}
    for s in np.repeat(np.arange(instance.n_servers), instance.counts):
        may = [j for j in users if instance.eligible[j, s]]
        ways = set(fillings([tuple(demands[j][s]) for j in may], tuple(capacities[s])))
        if not by_server:
            ways = {
                x for x in ways if not any(tuple(v + (i == k) for i, v in enumerate(x)) in ways for k in range(len(x)))
            }
        per = {j: largest_part(demands[j][s], total) for j in may}
        step = []
        for way in ways:
            run = dict(zip(may, way, strict=True))
            tasks = tuple(Fraction(run.get(j, 0)) for j in users)
            step.append((tasks, tuple(run.get(j, 0) * per.get(j, Fraction(0)) for j in users)))
        grown = set()
        for (x, a), (y, b) in product(found, step):
            tasks, shares = added(x, y), added(a, b)
            if any(t > limit for t, limit in zip(tasks, limits, strict=True)):
                if by_server:
                    continue
                cut = [min(t, Fraction(limit)) for t, limit in zip(tasks, limits, strict=True)]
                shares = tuple(v * c / t if t else v for v, c, t in zip(shares, cut, tasks, strict=True))
                tasks = tuple(cut)
            grown.add((tasks, shares))
        found = grown
    return found


def able(instance: fo.Instance, user: int) -> bool:
    """Whether one whole task of a user fits within its limit and on some server by itself."""
    servers = np.flatnonzero(instance.eligible[user])
    demands = instance.per_server_demands[user]
    return bool(instance.task_limits[user] >= 1 and any((demands[s] <= instance.capacities[s]).all() for s in servers))


def levels(instance: fo.Instance, shares: Vector) -> Vector:
    """Sorted shares per weight of the users of whom a whole task fits; shares are of users with a limit above 0."""
    users = np.flatnonzero(instance.task_limits > 0)
    weights = exact(instance.weights[users])
    return tuple(sorted(s / w for s, w, j in zip(shares, weights, users, strict=True) if able(instance, int(j))))


def best(instance: fo.Instance) -> tuple[Fraction, Fraction, Vector]:
    """The most whole tasks, the largest smallest share per weight, and the leximin levels."""
    found = outcomes(instance)
    ordered = [levels(instance, shares) for _, shares in found]
    most = max(sum(tasks, Fraction(0)) for tasks, _ in found)
    return most, max((v[0] for v in ordered if v), default=Fraction(0)), max(ordered)


def of_answer(answer: fo.Allocation) -> tuple[Vector, Vector]:
    """Tasks and dominant shares of an answer, in fractions, of the users with a limit above 0."""
    instance = answer.instance
    users = np.flatnonzero(instance.task_limits > 0)
    demands, _, total = of_instance(instance)
    x = exact(answer.tasks_by_server)
    shares = tuple(
        sum(
            (x[j][s] * largest_part(demands[j][s], total) for s in range(instance.n_servers)),
            Fraction(0),
        )
        for j in users
    )
    return tuple(sum(x[j], Fraction(0)) for j in users), shares


def fits(answer: fo.Allocation) -> bool:
    """Whether tasks are whole, and fit on individual servers and within limits, in exact arithmetic."""
    given, placed = answer.instance.individual(), answer.placement
    assert placed is not None
    x, demands, capacities = exact(placed), exact(given.per_server_demands), exact(given.capacities)
    users, servers = range(given.n_users), range(given.n_servers)
    whole = all(v >= 0 and v.denominator == 1 for row in x for v in row)
    within = all(
        sum((x[j][s] * demands[j][s][i] for j in users), Fraction(0)) <= capacities[s][i]
        for s in servers
        for i in range(given.n_resources)
    )
    limited = all(sum(x[j], Fraction(0)) <= t for j, t in enumerate(given.task_limits.tolist()) if t < np.inf)
    allowed = all(x[j][s] == 0 or given.eligible[j, s] for j in users for s in servers)
    return whole and within and limited and allowed
