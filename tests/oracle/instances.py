"""Small instances for tests, drawn by Hypothesis or from a seed: integers, zeros, ties, limits, placement."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import fairopt as fo

Float = NDArray[np.floating[Any]]


NEEDS, NONE = st.integers(0, 4), st.none()
LIMITS = NONE | st.integers(0, 12).map(lambda k: k / 4)


@cache  # as Hypothesis looks through every new strategy, which takes longer than to draw from it
def exactly(size: int, element: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists of a size."""
    return st.lists(element, min_size=size, max_size=size)


@cache
def needy(size: int, element: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists of a size that hold something else than zeros."""
    return exactly(size, element).filter(any)


@st.composite
def pools(draw: st.DrawFn, max_users: int = 6, max_resources: int = 4, limits: bool = True) -> fo.Instance:
    """One pool of small integers."""
    n, m = draw(st.integers(1, max_users)), draw(st.integers(1, max_resources))
    demands, capacities = draw(exactly(n, needy(m, NEEDS))), draw(exactly(m, st.integers(1, 24)))
    weights = draw(exactly(n, st.integers(1, 3)))
    return fo.Instance(demands, capacities, weights=weights, task_limits=draw(exactly(n, LIMITS if limits else NONE)))


@st.composite
def clusters(draw: st.DrawFn, max_users: int = 5, max_servers: int = 3, max_resources: int = 3) -> fo.Instance:
    """Several servers, some alike, with counts, placement, limits, weights and now and then demands by server."""
    seed = draw(st.integers(0, 2**32 - 1))
    n, servers, m = (draw(st.integers(1, most)) for most in (max_users, max_servers, max_resources))
    return cluster(np.random.default_rng(seed), n, servers, m, by_server=draw(st.integers(0, 3)) == 0)


def cluster(rng: np.random.Generator, n: int, servers: int, m: int, by_server: bool = False) -> fo.Instance:
    """A cluster of small integers, always valid."""
    demands = rng.integers(0, 4, size=(n, servers, m) if by_server else (n, m)).astype(float)
    demands[..., 0] += ~demands.any(axis=-1)
    capacities = rng.integers(1, 12, size=(servers, m)).astype(float)
    if servers > 1 and rng.random() < 0.3:
        capacities[1] = capacities[0]
    eligible = rng.random((n, servers)) < 0.7
    eligible[np.arange(n), rng.integers(0, servers, size=n)] = True
    limits = np.where(rng.random(n) < 0.4, rng.integers(1, 16, size=n) / 4, np.inf)
    return fo.Instance(
        demands,
        capacities,
        eligible=eligible,
        task_limits=limits,
        weights=rng.integers(1, 4, size=n),
        counts=rng.integers(1, 4, size=servers),
    )


def log_uniform(
    rng: np.random.Generator,
    n: int,
    m: int,
    servers: int = 1,
    zeros: float = 0.2,
    limits: float = 0.0,
    decades: float = 4.0,
) -> fo.Instance:
    """Demands log-uniform over some decades, some zeros, weights, and limits near what users would get."""
    demands = 10.0 ** rng.uniform(0, decades, size=(n, m)) * (rng.random((n, m)) >= zeros)
    demands[np.arange(n), rng.integers(0, m, size=n)] += 1.0
    capacities = demands.sum(axis=0) * 10.0 ** rng.uniform(-1, 1, size=(servers, m)) + 1.0
    weights = rng.uniform(0.5, 2.0, size=n)
    mu = (demands / capacities.sum(axis=0)).max(axis=1)
    level = 1.0 / ((weights / mu) @ (demands / capacities.sum(axis=0))).max()
    reach = level * weights / mu * rng.uniform(0.1, 3.0, size=n)
    eligible = rng.random((n, servers)) < 0.6
    eligible[np.arange(n), rng.integers(0, servers, size=n)] = True
    return fo.Instance(
        demands,
        capacities,
        weights=weights,
        eligible=eligible,
        task_limits=np.where(rng.random(n) < limits, reach, np.inf),
    )
