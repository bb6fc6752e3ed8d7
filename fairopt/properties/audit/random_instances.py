"""Small random instances: seeded families of pools, many of one shape at a time, clusters of several servers, teams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairopt.instance import Instance
from fairopt.runtime.arrays import Float, Rng
from fairopt.solve.form.many_instances import Batch

LARGEST = 8  # largest integer drawn, so that witnesses can be checked by hand
SHAPES = ((2, 2), (3, 2), (2, 3), (3, 3), (4, 2), (4, 3), (2, 4), (5, 4))  # users and resources


def _integers(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Batch:
    """Demands and capacities are integers from 1 to 8."""
    demands = _some_zeros(rng, rng.integers(1, LARGEST + 1, size=(size, n, m)).astype(float), zeros)
    return Batch.of(demands, rng.integers(1, LARGEST + 1, size=(size, m)).astype(float))


def _binding(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Batch:
    """Demands are integers, and some capacities are exactly used up by integer tasks."""
    demands = _some_zeros(rng, rng.integers(1, LARGEST + 1, size=(size, n, m)).astype(float), zeros)
    return Batch.of(demands, _scarce(rng, demands, rng.integers(1, LARGEST + 1, size=(size, n)).astype(float), True))


def _logarithmic(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Batch:
    """Demands are log-uniform over three decades, and some capacities are used up near equal shares."""
    demands = _some_zeros(rng, 10.0 ** rng.uniform(-1.5, 1.5, size=(size, n, m)), zeros)
    point = rng.uniform(0.5, 2.0, size=(size, n)) / demands.max(axis=2)
    return Batch.of(demands, _scarce(rng, demands, point, False))


def _near_ties(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Batch:
    """The two largest ratios of each user are nearly equal, and both resources are scarce."""
    demands: Float = rng.uniform(0.2, 1.0, size=(size, n, m))
    demands[:, :, :2] = rng.uniform(0.8, 1.0, size=(size, n, min(m, 2)))
    demands = _some_zeros(rng, demands, zeros)
    return Batch.of(demands, np.maximum(demands.sum(axis=1) * rng.choice([1.0, 1.1, 2.0], size=(size, m)), 0.1))


FAMILIES: dict[str, Callable[[Rng, int, int, int, bool], Batch]] = {
    "integers": _integers,
    "binding integers": _binding,
    "log space": _logarithmic,
    "near ties": _near_ties,
}


def random_pools(
    rng: Rng,
    family: str,
    shape: tuple[int, int],
    size: int,
    *,
    positive: bool = False,
    weights: bool = False,
    limits: bool = False,
) -> Batch:
    """Draw ``size`` pools of a family, of one shape (users, resources).

    Without ``positive`` about a third of them have zero demands. ``weights`` are integers from 1 to 4; ``limits`` give
    some users a binding task limit.
    """
    n, m = shape
    pools = FAMILIES[family](rng, size, n, m, not positive)
    if weights:
        pools = replace(pools, weights=rng.integers(1, 5, size=(size, n)).astype(float))
    if limits:
        part = pools.alone * rng.choice([0.125, 0.25, 0.5, np.inf, np.inf], size=(size, n))
        if family in ("integers", "binding integers"):
            part = np.where(np.isfinite(part), np.maximum(np.round(part * 2) / 2, 0.5), np.inf)
        pools = replace(pools, limits=part)
    return pools


def random_cluster(
    rng: Rng,
    servers: int,
    *,
    positive: bool = False,
    weights: bool = False,
    limits: bool = False,
    rates: bool = False,
) -> Instance:
    """Draw a cluster of small integers: two or three users and resources, two to ``servers`` servers.

    Some users are not eligible on some servers. The options are those of `random_pools`; ``rates`` draws rates too.
    """
    n, m, s = int(rng.integers(2, 4)), int(rng.integers(2, 4)), int(rng.integers(2, max(servers, 2) + 1))
    most = int(rng.choice([4, LARGEST]))
    demands = rng.integers(1, most + 1, size=(n, m)).astype(float)
    if not positive and rng.random() < 1 / 2:
        gone = rng.random((n, m)) < 1 / 3
        gone[np.arange(n), rng.integers(0, m, size=n)] = False
        demands = np.where(gone, 0.0, demands)
    capacities = rng.integers(1, most + 1, size=(s, m)).astype(float)
    eligible = rng.random((n, s)) < rng.choice([1.0, 0.7])
    eligible[np.arange(n), rng.integers(0, s, size=n)] = True
    cluster = Instance(
        demands, capacities, eligible=eligible, weights=rng.integers(1, 5, size=n).astype(float) if weights else None
    )
    if rates:
        cluster = cluster.replace(rates=rng.integers(1, most + 1, size=(n, s)).astype(float))
    if limits:
        part = cluster.tasks_alone.sum(axis=1) * rng.choice([0.125, 0.25, 0.5, np.inf, np.inf], size=n)
        cluster = cluster.with_task_limits(part)
    return cluster


def with_teams(
    rng: Rng, instance: Instance, labels: Sequence[str], *, everyone: bool = False, weights: bool = False
) -> Instance:
    """The instance with users in teams under each label, the outermost first, each team within one of the outer label.

    Unless ``everyone`` is in one, some users are in none. ``weights`` of teams are integers from 1 to 4.
    """
    outer = np.zeros(instance.n_users, dtype=np.int64)
    teams: dict[str, list[str | None]] = {}
    for label in labels:
        inner = outer * 3 + rng.integers(0, rng.choice([2, 3]), size=len(outer))
        without = (rng.random(len(outer)) < 0.15) & (not everyone)
        places, position = np.unique(inner, return_inverse=True)
        teams[label] = [None if none else f"{label}{t + 1}" for t, none in zip(position, without, strict=True)]
        outer = np.where(without, outer + 3 * len(places) * len(outer), position)
    made = instance.replace(teams={label: teams[label] for label in reversed(labels)})
    if weights:
        names = [name for label in labels for name in made.teams.labelling(label).names]
        given = dict(zip(names, rng.integers(1, 5, size=len(names)).tolist(), strict=True))
        made = made.replace(weights={**dict(zip(made.users, instance.weights.tolist(), strict=True)), **given})
    return made


def with_guarantees(rng: Rng, instance: Instance) -> Instance:
    """The instance with guarantees, of users or of whole teams, that fit together: quarters of equal slices."""
    n = instance.n_users
    tasks = rng.integers(0, 5, size=n) / 4 * instance.tasks_alone.sum(axis=1) / n
    given: dict[str, Any] = {}
    for team, members in instance.teams.names.items():
        if rng.random() < 1 / 3 and tasks[members].any():
            units = tasks[members] @ instance.demands[members]
            given[team] = {r: u for r, u in zip(instance.resources, units.tolist(), strict=True) if u > 0}
            tasks[members] = 0.0
    return instance.replace(guarantees={**dict(zip(instance.users, tasks.tolist(), strict=True)), **given})


def _some_zeros(rng: Rng, demands: Float, zeros: bool) -> Float:
    """Set demands to zero in a third of the pools, never a whole row."""
    if zeros:
        size, n, m = demands.shape
        gone = (rng.random(demands.shape) < 0.35) & (rng.random((size, 1, 1)) < 1 / 3)
        gone[np.arange(size)[:, None], np.arange(n), rng.integers(0, m, size=(size, n))] = False
        demands = np.where(gone, 0.0, demands)
    return demands


def _scarce(rng: Rng, demands: Float, point: Float, whole: bool) -> Float:
    """Capacities, at least one of which these tasks use up exactly."""
    size, _, m = demands.shape
    load = np.einsum("bjm,bj->bm", demands, point)
    slack = rng.uniform(1.2, 4.0, size=(size, m))
    binding = rng.random((size, m)) < rng.choice([0.2, 0.6, 1.0], size=(size, 1))
    binding[np.arange(size), rng.integers(0, m, size=size)] = True
    room = load * np.where(binding, 1.0, slack)
    return np.maximum(np.ceil(room - 1e-9) if whole else room, 1.0 if whole else 1e-3)
