"""Chains of users on servers: each leaves a small part of the resource on which the next one rests."""

from __future__ import annotations

from typing import Any

import numpy as np


def chain(seed: int) -> dict[str, Any]:
    """An instance as `fairopt.Instance` takes it: three or four users, two or three servers of different sizes."""
    rng = np.random.default_rng(seed)
    links = int(rng.integers(2, 4))
    parts = 10.0 ** -(rng.uniform(8, 14) * rng.dirichlet(np.full(links, 20.0)))
    n, servers = links + 1, int(rng.integers(2, 4))
    held = np.concatenate([[1.0], parts])  # tasks that each user can run
    demands, weights = np.eye(n), np.ones(n)
    for k in range(n):
        weights[k] = np.prod(held[: k + 1] if seed % 2 else held[k : k + 1]) / (rng.uniform(1, 2) * (k + 1))
        if k < links:
            demands[k, k + 1] = (1 - parts[k]) / held[k]
    demands *= rng.uniform(0.5, 2, (n, 1))
    units = rng.uniform(0.3, 3, n)
    eligible = np.ones((n, servers), dtype=bool)
    eligible[-1, 0] = rng.random() < 0.5
    capacities = rng.uniform(0.5, 1.5, (servers, 1)) * units
    return {"demands": demands * units, "capacities": capacities, "weights": weights, "eligible": eligible}
