"""Random instances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float

LARGEST = 1e300  # bound of parameters without another upper bound


def log_uniform(
    n_users: int,
    n_resources: int = 4,
    *,
    decades: float = 4.0,
    zeros: float = 0.1,
    min_positive: int = 1,
    weights: bool = False,
    limits: bool = False,
    n_servers: int = 1,
    different_servers: bool = False,
    different_demands: bool = False,
    ineligible: float = 0.0,
    seed: int = 0,
) -> Instance:
    """A random instance whose demands differ by several orders of magnitude.

    Parameters
    ----------
    n_users : int
        Number of users; may be 0.
    n_resources : int, default 4
        Number of resources.
    decades : float, default 4.0
        Demands are log-uniform between 1 and ``10 ** decades`` units per task.
    zeros : float between 0 and 1, default 0.1
        Probability that a user does not need a resource.
    min_positive : int, default 1
        Minimum number of resources that a user needs (2 for 2-DF).
    weights : bool, default False
        Weights log-uniform over one decade around 1; otherwise all 1.
    limits : bool, default False
        Task limits for about half of the users, log-uniform between a quarter and four times the tasks on the user's
        weighted part of every server, so that some bind.
    n_servers : int, default 1
        Number of server rows; total capacity does not depend on it.
    different_servers : bool, default False
        Capacities of servers differ, by log-uniform factors over one decade.
    different_demands : bool, default False
        Demands differ by server, by log-uniform factors over one decade.
    ineligible : float between 0 and 1, default 0.0
        Probability that a user is not eligible on a server; every user keeps at least one.
    seed : int, default 0
        Seed; options do not change the other random numbers.

    Returns
    -------
    Instance
        With total capacities of ``n_users * 10 ** (decades / 2)`` units of each resource.

    Raises
    ------
    InvalidInstance
        If a parameter is out of its range.

    Notes
    -----
    Cone solvers fail more often on demands that are log-uniform over four decades, with zeros.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.datasets.log_uniform(1000, 3, limits=True, n_servers=5, ineligible=0.2, seed=1)
    Instance(1000 users x 3 resources on 5 servers, task limits, placement constraints)
    """
    require(n_users, "n_users", 0, whole=True)
    require(n_resources, "n_resources", 1, whole=True)
    require(n_servers, "n_servers", 1, whole=True)
    require(min_positive, "min_positive", 1, n_resources, whole=True)
    require(decades, "decades", 0, 100)
    require(zeros, "zeros", 0, 1)
    require(ineligible, "ineligible", 0, 1)
    require(seed, "seed", 0, whole=True)
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(7)]
    for_demands, for_zeros, for_weights, for_limits, for_servers, for_places, for_differences = streams

    demands = _spread(for_demands, (n_users, n_resources), 0.0, decades)
    demands[_zeros(for_zeros, (n_users, n_resources), zeros, min_positive)] = 0.0
    if different_demands:
        demands = demands[:, None, :] * _spread(for_differences, (n_users, n_servers, n_resources), -0.5, 0.5)
    parts = np.ones((n_servers, n_resources))
    if different_servers:
        parts = _spread(for_servers, parts.shape, -0.5, 0.5)
    capacities = parts / parts.sum(axis=0) * (max(n_users, 1) * 10 ** (decades / 2))
    instance = Instance(
        demands,
        capacities,
        weights=_spread(for_weights, (n_users,), -0.5, 0.5) if weights else None,
        eligible=_eligibility(for_places, (n_users, n_servers), ineligible) if ineligible else None,
    )
    if limits and n_users:
        part = instance.tasks_alone.sum(axis=1) * instance.weights / instance.weights.sum()
        quarter = math.log10(4)
        limit = part * _spread(for_limits, (n_users,), -quarter, quarter)
        limit[for_limits.random(n_users) < 0.5] = np.inf
        instance = instance.with_task_limits(limit)
    return instance


def _spread(rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> Float:
    out = rng.uniform(low, high, shape)
    return np.power(10.0, out, out=out)


def _zeros(rng: np.random.Generator, shape: tuple[int, int], part: float, min_positive: int) -> NDArray[np.bool_]:
    zero = rng.random(shape) < part
    poor = np.flatnonzero(shape[1] - zero.sum(axis=1) < min_positive)
    keys = rng.random((poor.size, shape[1]))
    keys[~zero[poor]] = -1.0  # positive demands are kept first
    kept = np.argsort(keys, axis=1)[:, :min_positive]
    zero[poor[:, None], kept] = False
    return zero


def _eligibility(rng: np.random.Generator, shape: tuple[int, int], part: float) -> NDArray[np.bool_]:
    allowed = rng.random(shape) >= part
    home = rng.integers(shape[1], size=shape[0])
    nowhere = ~allowed.any(axis=1)
    allowed[nowhere, home[nowhere]] = True
    return allowed


def require(value: Any, name: str, low: float, high: float = math.inf, whole: bool = False) -> None:
    """`InvalidInstance` unless a value is a number, or an integer, within bounds."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        number = "whole number" if whole else "number" if high < LARGEST else "finite number"
        limits = f"between {low} and {high}" if high < LARGEST else "> 0" if low == 1 / LARGEST else f">= {low}"
        raise InvalidInstance(f"{name} is {value!r}; give a {number} {limits}")
