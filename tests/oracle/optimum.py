"""Independent optima: alpha-fairness on one pool from its optimality conditions, and linear objectives by linprog."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar, root

from .brute_leximin import NoPoint, Polytope, solved

Float = NDArray[np.floating[Any]]


def alpha_fair(ratios: Float, worth: Float, weights: Float, limits: Float, alpha: float) -> Float:
    """Tasks at the optimum of weighted alpha-fairness on one pool, alpha > 0, to about 1e-9.

    At prices p user j wants ``min(T, (w^alpha c^(1-alpha) / g.p)^(1/alpha))`` tasks. Every set of scarce resources is
    tried: prices at which exactly these are full, all others free and not overfull, are optimal.
    """
    n, m = ratios.shape
    size = 1.0 / (ratios @ np.ones(m)) / n

    def wants(p: Float) -> Float:
        cost = ratios @ p
        with np.errstate(divide="ignore", over="ignore"):
            logs = (alpha * np.log(weights) + (1 - alpha) * np.log(worth) - np.log(cost)) / alpha
            return np.minimum(np.where(cost > 0, np.exp(np.minimum(logs, 700.0)), np.inf), limits)

    if np.isfinite(limits).all() and (limits @ ratios <= 1 + 1e-12).all():
        return limits.astype(float)
    needed = [i for i in range(m) if ratios[:, i].any()]
    for k in range(1, len(needed) + 1):
        for chosen in combinations(needed, k):
            rows = list(chosen)

            def excess(logs: Float, rows: list[int] = rows) -> Float:
                p = np.zeros(m)
                p[rows] = np.exp(np.clip(logs, -600, 600))
                x = np.minimum(wants(p), 1e12 * size)
                return np.log(np.maximum((x @ ratios)[rows], 1e-300))

            worthy = float(np.log((weights**alpha * (worth * size) ** (1 - alpha)).sum()))
            for spread in (0.0, -3.0, 3.0):
                start = np.full(k, worthy) + spread * np.arange(k)
                found = root(excess, start, method="hybr", options={"xtol": 1e-14})
                if np.abs(excess(found.x)).max() > 1e-9:
                    continue
                p = np.zeros(m)
                p[rows] = np.exp(np.clip(found.x, -600, 600))
                x = wants(p)
                if np.isfinite(x).all() and (x @ ratios <= 1 + 1e-8).all():
                    return x / max(1.0, float((x @ ratios).max()))
    raise NoPoint("no set of scarce resources fits")


def linear(polytope: Polytope, worth: Float) -> float:
    """The largest ``sum worth x``."""
    table = np.broadcast_to(worth[:, None] if worth.ndim == 1 else worth, polytope.eligible.shape)
    return polytope.maximise(np.array(table))[0]


def ordered(polytope: Polytope, worth: Float, weights: Float, v: Float) -> float:
    """The largest generalised Gini value, by ``sum of k smallest = max_t k t - sum (t - z)+`` for each k."""
    n, servers = polytope.eligible.shape
    table = np.broadcast_to(worth[:, None] if worth.ndim == 1 else worth, (n, servers))
    z = [polytope.user(j, table[j] / weights[j]).ravel() for j in range(n)]
    full = np.zeros(n + 1)
    full[: min(n, len(v))] = v[:n]
    drops = full[:-1] - full[1:]
    pairs, extra = n * servers, n * (1 + n)  # for each k: t_k and n shortfalls
    cost = np.zeros(pairs + extra)
    a = [np.append(r, np.zeros(extra)) for r in polytope.a]
    b = list(polytope.b)
    bounds: list[tuple[float | None, float | None]] = [(0, None) if ok else (0, 0) for ok in polytope.eligible.ravel()]
    for k in range(n):
        at = pairs + k * (n + 1)
        cost[at] = -drops[k] * (k + 1)
        cost[at + 1 : at + 1 + n] = drops[k]
        bounds += [(0, None)] * (n + 1)
        for j in range(n):
            row = np.zeros(pairs + extra)
            row[:pairs], row[at], row[at + 1 + j] = -z[j], 1.0, -1.0
            a.append(row)
            b.append(0.0)
    return -float(cost @ solved(cost, a, b, [], [], bounds))


def best_of_two(ratios: Float, limits: Float, value: Any) -> tuple[Float, float]:
    """The best point of two users for an increasing concave value, by one search along the Pareto frontier."""
    with np.errstate(divide="ignore"):
        top = min(float(np.min(1.0 / ratios[0][ratios[0] > 0])), limits[0])

    def other(x: float) -> float:
        needs = ratios[1] > 0
        return float(min(np.min((1.0 - ratios[0] * x)[needs] / ratios[1][needs]), limits[1]))

    def loss(x: float) -> float:
        return -value(np.array([x, max(other(x), 0.0)]))

    grid = np.linspace(0.0, top, 41)
    with np.errstate(all="ignore"):
        losses = np.nan_to_num([loss(x) for x in grid], nan=np.inf)
        k = int(np.argmin(losses))
        found = minimize_scalar(
            loss, bounds=(grid[max(k - 1, 0)], grid[min(k + 1, 40)]), method="bounded", options={"xatol": 1e-13 * top}
        )
    x = float(found.x) if found.fun <= losses[k] else float(grid[k])
    return np.array([x, max(other(x), 0.0)]), -min(float(found.fun), float(losses[k]))


def random_points(polytope: Polytope, rng: np.random.Generator, count: int) -> list[Float]:
    """Feasible tasks by user and server: vertices in random directions, mixed at random, scaled at random."""
    n, servers = polytope.eligible.shape
    found = polytope.corners([rng.exponential(size=(n, servers)) for _ in range(4)])
    corners = [np.zeros((n, servers)), *np.maximum(found, 0.0)]
    points = []
    for _ in range(count):
        mix = rng.dirichlet(np.full(len(corners), 0.5))
        points.append(sum(m * c for m, c in zip(mix, corners, strict=True)) * (1 - 1e-9))
    return points
