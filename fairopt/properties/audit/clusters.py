"""Small clusters of several servers: drawn, and made smaller where a property fails on them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance
from fairopt.instance import Instance

__all__ = ["drawn_cluster", "reduced"]

LARGEST = 8  # of a number: witnesses that one can check by hand


def drawn_cluster(
    rng: np.random.Generator, servers: int, *, positive: bool = False, weights: bool = False, limits: bool = False
) -> Instance:
    """A cluster of small whole numbers: two or three users and resources, some users kept from some servers.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where chance comes from.
    servers : int
        At most so many, from two on.
    positive : bool, default False
        No zero demands.
    weights, limits : bool, default False
        Entitlements from 1 to 4; limits for some users, where they bind.

    Returns
    -------
    Instance

    Examples
    --------
    >>> import numpy as np
    >>> drawn_cluster(np.random.default_rng(0), 3)
    Instance(3 users x 3 resources on 3 servers)
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
    if limits:
        part = cluster.tasks_alone.sum(axis=1) * rng.choice([0.125, 0.25, 0.5, np.inf, np.inf], size=n)
        cluster = cluster.with_task_limits(part)
    return cluster


def reduced(instance: Instance, fails: Callable[[Instance], bool], seconds: float) -> Instance:
    """A smaller cluster on which something still fails: fewer users, servers and resources, smaller numbers.

    Parameters
    ----------
    instance : Instance
        Where it fails.
    fails : callable
        Whether it fails on an instance.
    seconds : float
        When to stop.

    Returns
    -------
    Instance
        The instance itself where nothing smaller fails.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[3, 2], [1, 4]], [[4, 4], [6, 7]])
    >>> small = reduced(cluster, lambda other: other.demands[0, 0] > 1, 5.0)
    >>> small.demands, small.capacities
    (array([[2.]]), array([[1.]]))
    """
    end = time.perf_counter() + seconds
    again = True
    while again:
        again = False
        for smaller in _steps(instance):
            if time.perf_counter() > end:
                return instance
            if fails(smaller):
                instance, again = smaller, True
                break
    return instance


def _steps(instance: Instance) -> Iterator[Instance]:
    """Everything one step smaller, the largest steps first."""
    demands, capacities, eligible = instance.demands, instance.capacities, instance.eligible
    for kept in _all_but_one(instance.n_users):
        yield instance.select_users(kept)
    for kept in _all_but_one(instance.n_servers):
        yield from _if_legal(instance, capacities=capacities[kept], eligible=eligible[:, kept])
    for kept in _all_but_one(instance.n_resources):
        yield from _if_legal(instance, demands=demands[:, kept], capacities=capacities[:, kept])
    plain = {"eligible": eligible.all(), "task_limits": np.isinf(instance.task_limits).all(),
             "weights": (instance.weights == 1).all()}  # fmt: skip
    for name in (name for name, already in plain.items() if not already):
        yield from _if_legal(instance, **{name: None})
    for name, numbers in (("demands", demands), ("capacities", capacities)):
        for at in map(tuple, np.argwhere(numbers > 1)):
            for less in dict.fromkeys((1.0, numbers[at] // 2, numbers[at] - 1)):
                changed = numbers.copy()
                changed[at] = less
                yield from _if_legal(instance, **{name: changed})


def _all_but_one(size: int) -> Iterator[NDArray[np.int64]]:
    """What is left of so many when one goes; nothing of one."""
    yield from (np.delete(np.arange(size), k) for k in range(size) if size > 1)


def _if_legal(instance: Instance, **changes: Any) -> Iterator[Instance]:
    """The instance with changes, its labels new; nothing where that is none, as with a user left without demands."""
    names = ("demands", "capacities", "eligible", "weights", "task_limits")
    with contextlib.suppress(InvalidInstance):
        yield Instance(**{name: getattr(instance, name) for name in names} | changes)
