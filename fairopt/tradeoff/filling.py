"""Water-filling with rates: the leximin on one pool, and its one-sided derivative along any change of the data.

Water-filling adds, multiplies, divides and compares, so it can run on numbers ``a + b t`` with an infinitely small
t > 0: where levels are equal, rates decide. What it gives is the derivative from the right, at kinks too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIMIT", "Filled", "Flow", "fill"]

Float = NDArray[np.floating[Any]]
TIE = 1e-9  # relative difference of levels that count as equal
LIMIT = -1  # the cause of users who are held by their task limit


class Flow(NamedTuple):
    """Data of a pool, or their rates: tasks per level b = w/c, (n,), demands (n, m), capacities (m,)."""

    speed: Float
    demands: Float
    capacities: Float


class Filled(NamedTuple):
    """Tasks, their rates, and what holds each user: a resource, or `LIMIT`; (n_users,) each."""

    tasks: Float
    rates: Float
    cause: NDArray[np.intp]


def fill(pool: Flow, limits: Float, rate: Flow | None = None) -> Filled:
    """Raise a common level until resources are full or limits are reached; along rates, if given."""
    b, d, room_of = pool
    n, m = d.shape
    db, dd, dc = rate or Flow(np.zeros(n), np.zeros((n, m)), np.zeros(m))
    x, dx, cause = np.zeros(n), np.zeros(n), np.full(n, LIMIT)
    rising = np.ones(n, dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(np.isfinite(limits), limits / b, np.inf)
        own_rate = np.where(np.isfinite(limits), -own * db / b, 0.0)
    while rising.any():
        load = b[rising] @ d[rising]
        load_rate = db[rising] @ d[rising] + b[rising] @ dd[rising]
        room, room_rate = room_of - x @ d, dc - x @ dd - dx @ d
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(load > 0, np.maximum(room, 0.0) / load, np.inf)
            level_rate = np.where(load > 0, (room_rate - level * load_rate) / load, 0.0)
        levels = np.append(level, np.where(rising, own, np.inf))
        rates = np.append(level_rate, own_rate)
        near = np.flatnonzero(levels <= levels.min() * (1 + TIE))
        slowest = rates[near].min()
        first = near[rates[near] <= slowest + TIE * np.abs(rates[near]).max()][0]
        z, dz = levels[first], rates[first]
        if first < m:
            held = rising & (d[:, first] > 0)
            x[held], dx[held], cause[held] = z * b[held], dz * b[held] + z * db[held], first
        else:
            held = np.arange(n) == first - m
            x[held] = limits[held]
        rising &= ~held
    return Filled(x, dx, cause)
