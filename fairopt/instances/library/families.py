"""Instances of any size, generated from a seed, shaped like those that are easy, common or hard for solvers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from fairopt.errors import InvalidInstance, UnknownName, nearest
from fairopt.instance import Instance
from fairopt.instances.cloud_data_centers import google_servers
from fairopt.instances.random import log_uniform, require

LONGEST_CHAIN = 10_000  # users, of a table of users and servers that takes 100 MB


def shared_pool(n_users: int, seed: int = 0, *, n_resources: int = 4, weights: bool = False) -> Instance:
    """One pool; demands log-uniform over four decades, a tenth of them zero."""
    return log_uniform(n_users, n_resources, weights=weights, min_positive=min(2, n_resources), seed=seed)


def servers(n_users: int, seed: int = 0, *, n_servers: int = 10, n_resources: int = 3) -> Instance:
    """Different servers; task limits, and users who may run on most of them."""
    return log_uniform(
        n_users,
        n_resources,
        n_servers=n_servers,
        different_servers=True,
        ineligible=0.3,
        limits=True,
        decades=2.0,
        seed=seed,
    )


def cpu_cluster(n_users: int, seed: int = 0, *, n_servers: int = 1000) -> Instance:
    """Google's mix of servers in 2011 with cpu and memory; requests of one to four cores and 0.5 to 8 GiB a core."""
    require(n_users, "n_users", 0, whole=True)
    rng = _rng(seed)
    there = google_servers(n_servers, cpu=16, memory=128)
    cores = rng.choice([0.5, 1.0, 2.0, 4.0], n_users, p=[0.3, 0.4, 0.2, 0.1])
    demands = np.stack([cores, cores * 2.0 ** rng.integers(-1, 4, n_users)], axis=1)
    return Instance(
        demands,
        there.capacities,
        counts=there.counts,
        servers=there.servers,
        resources=there.resources,
        units={"cpu": "core", "memory": "GiB"},
        task_limits=np.ceil(rng.pareto(1.2, n_users) * 10 + 1),
    )


def gpu_cluster(n_users: int, seed: int = 0, *, nodes_per_model: int = 50) -> Instance:
    """Four models of GPU nodes and nodes without; most users need GPUs of any model, some of one, a third none."""
    require(n_users, "n_users", 0, whole=True)
    require(nodes_per_model, "nodes_per_model", 1, whole=True)
    rng = _rng(seed)
    capacities = [[96, 768, 8], [64, 512, 8], [96, 384, 4], [48, 256, 2], [128, 512, 0]]
    gpus = rng.choice([0.0, 0.5, 1.0, 2.0, 4.0, 8.0], n_users, p=[0.33, 0.12, 0.3, 0.1, 0.05, 0.1])
    cores = np.where(gpus > 0, gpus * rng.choice([4.0, 8.0, 12.0], n_users), rng.choice([1.0, 4.0, 16.0], n_users))
    demands = np.stack([cores, cores * rng.choice([2.0, 4.0, 8.0], n_users), gpus], axis=1)
    eligible = np.ones((n_users, 5), dtype=bool)
    chooses = (rng.random(n_users) < 0.2) & (gpus > 0)
    eligible[chooses] = False
    eligible[np.flatnonzero(chooses), rng.integers(0, 4, n_users)[chooses]] = True
    return Instance(
        demands,
        capacities,
        counts=[nodes_per_model] * 5,
        eligible=eligible,
        servers=["large", "older", "half", "small", "cpu-only"],
        resources=["cpu", "memory", "gpu"],
        units={"cpu": "core", "memory": "GiB"},
        task_limits=np.ceil(rng.pareto(1.1, n_users) * 4 + 1),
    )


def teams(n_users: int, seed: int = 0, *, n_teams: int = 10) -> Instance:
    """One pool shared by teams of different weights and sizes, within organisations."""
    require(n_users, "n_users", 0, whole=True)
    require(n_teams, "n_teams", 1, whole=True)
    rng = _rng(seed)
    of = np.minimum(rng.geometric(0.3, n_users) - 1, n_teams - 1)
    names = [f"team{k + 1}" for k in range(n_teams)]
    there = sorted(set(of.tolist()))
    return Instance(
        rng.integers(1, 9, (n_users, 3)).astype(float),
        [40.0 * max(n_users, 1)] * 3,
        teams={"org": [f"org{k % 3 + 1}" for k in of.tolist()], "team": [names[k] for k in of.tolist()]},
        weights={names[k]: k % 4 + 1 for k in there},
    )


def rates(n_users: int, seed: int = 0) -> Instance:
    """GPU nodes of three generations on which users' tasks run at different speeds; one task takes one GPU."""
    require(n_users, "n_users", 0, whole=True)
    rng = _rng(seed)
    slow = rng.uniform(0.1, 0.9, (n_users, 2))
    speeds = np.concatenate([np.ones((n_users, 1)), slow.max(1, keepdims=True), slow.min(1, keepdims=True)], axis=1)
    each = max(1.0, n_users / 6)
    return Instance(
        np.ones((n_users, 1)),
        [[each], [each], [2 * each]],
        rates=np.round(speeds, 3),
        task_limits=1,
        servers=["newest", "middle", "oldest"],
        resources=["gpu"],
    )


def ties(n_users: int, seed: int = 0, *, n_resources: int = 3) -> Instance:
    """Small whole demands, so that most levels and bottlenecks are tied."""
    require(n_users, "n_users", 0, whole=True)
    require(n_resources, "n_resources", 1, whole=True)
    demands = _rng(seed).integers(1, 4, (n_users, n_resources)).astype(float)
    return Instance(demands, [2.0 * max(n_users, 1)] * n_resources)


def near_ties(n_users: int, seed: int = 0, *, apart: float = 1e-10) -> Instance:
    """One pool where all users ask for nearly the same, so that levels differ in the last digits only."""
    require(n_users, "n_users", 0, whole=True)
    require(apart, "apart", 0, 1)
    noise = _rng(seed).uniform(-1, 1, (n_users, 3))
    return Instance(np.array([1.0, 2.0, 3.0]) * (1 + apart * noise), np.array([1.0, 2.0, 3.0]) * max(n_users, 1) / 2)


def spread(n_users: int, seed: int = 0, *, decades: float = 18.0) -> Instance:
    """One pool with demands from 1 to ``10 ** decades`` in each resource."""
    return log_uniform(n_users, 3, decades=decades, zeros=0.2, min_positive=2, seed=seed)


def chain(n_users: int, seed: int = 0) -> Instance:
    """User k may run on servers k and k + 1 of a line of n + 1: many levels under leximin; up to 10,000 users."""
    require(n_users, "n_users", 0, LONGEST_CHAIN, whole=True)
    size = np.cumsum(_rng(seed).integers(1, 4, n_users + 1)).astype(float)
    eligible = np.eye(n_users, n_users + 1, dtype=bool) | np.eye(n_users, n_users + 1, k=1, dtype=bool)
    return Instance(np.ones((n_users, 1)), size[:, None], eligible=eligible)


FAMILIES: dict[str, Callable[..., Instance]] = {
    "shared-pool": shared_pool,
    "servers": servers,
    "cpu-cluster": cpu_cluster,
    "gpu-cluster": gpu_cluster,
    "teams": teams,
    "rates": rates,
    "ties": ties,
    "near-ties": near_ties,
    "spread": spread,
    "chain": chain,
}


def summary_of(name: str) -> str:
    """What the instances of a family are."""
    return (inspect.getdoc(FAMILIES[name]) or "").splitlines()[0]


def parameters_of(name: str) -> str:
    """The parameters of a family, with their defaults."""
    known = inspect.signature(FAMILIES[name]).parameters.values()
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in known)


def made(name: str, **parameters: Any) -> Instance:
    """An instance of a family."""
    if name not in FAMILIES:
        raise UnknownName(f"no family {name!r}; {nearest(name, FAMILIES)}")
    try:
        inspect.signature(FAMILIES[name]).bind(**parameters)
    except TypeError as error:
        raise InvalidInstance(f"family {name!r}: {error}; it takes {parameters_of(name)}") from None
    return FAMILIES[name](**parameters)


def _rng(seed: int) -> np.random.Generator:
    require(seed, "seed", 0, whole=True)
    return np.random.default_rng(seed)
