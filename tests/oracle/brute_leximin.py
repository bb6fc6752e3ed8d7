"""Leximin on several servers by linear programs, one per user and level to ask who can rise: naive on purpose.

Written on tables of numbers, not on blocks, so that it shares no code with fairopt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from . import highs

Float = NDArray[np.floating[Any]]
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
SLACK = 1e-9  # what levels found may give way, so that the next program has a point


class NoPoint(Exception):
    """Nothing satisfies all rows."""


@dataclass
class Polytope:
    """Tasks by user and server, flat in the order of users, under rows ``a x <= b`` and ``e x == f``."""

    demands: Float  # (n, S, m)
    capacities: Float  # (S, m), all servers of a row together
    eligible: NDArray[np.bool_]
    limits: Float
    a: list[Float] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    e: list[Float] = field(default_factory=list)
    f: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, servers, m = self.demands.shape
        for s in range(servers):
            for i in range(m):
                row = np.zeros((n, servers))
                row[:, s] = self.demands[:, s, i]
                if row.any() and self.capacities[s, i] > 0:
                    self.at_most(row / self.capacities[s, i], 1.0)
        for j in np.flatnonzero(np.isfinite(self.limits)):
            self.at_most(self.user(int(j)) / max(self.limits[j], 1e-300), 1.0)

    @classmethod
    def of(cls, instance: Any) -> Polytope:
        """The feasible set of an instance."""
        capacities = instance.capacities * instance.counts[:, None]
        limits = instance.task_limits
        eligible = instance.eligible & (limits > 0)[:, None]  # who has a limit of 0 runs nowhere
        return cls(np.array(instance.per_server_demands), capacities, eligible, np.where(limits > 0, limits, np.inf))

    def user(self, j: int, worth: float | Float = 1.0) -> Float:
        """The row that adds up a user's tasks, or their worth by server."""
        row = np.zeros(self.demands.shape[:2])
        row[j] = worth
        return row

    def at_most(self, row: Float, value: float) -> None:
        """One more condition."""
        self.a.append(row.ravel())
        self.b.append(value)

    def equal(self, row: Float, value: float) -> None:
        """One more equation."""
        self.e.append(row.ravel())
        self.f.append(value)

    def maximise(self, row: Float, more: list[tuple[Float, float]] | None = None) -> tuple[float, Float]:
        """Largest value of a row over the polytope and more conditions ``r x >= v``, and where."""
        a = [*self.a, *(-r.ravel() for r, _ in more or [])]
        b = [*self.b, *(-v for _, v in more or [])]
        bounds = [(0, None) if ok else (0, 0) for ok in self.eligible.ravel()]
        x = solved(-row.ravel(), a, b, self.e, self.f, bounds)
        return float(row.ravel() @ x), x.reshape(self.eligible.shape)

    def corners(self, rows: list[Float], more: list[tuple[Float, float]] | None = None) -> Float:
        """Where each row by itself is largest: one program of a copy of the polytope for each, as calls are slow."""
        k = len(rows)
        a = [*self.a, *(-r.ravel() for r, _ in more or [])]
        b = [*self.b, *(-v for _, v in more or [])]
        bounds = [(0, None) if ok else (0, 0) for ok in self.eligible.ravel()]
        copies = [sparse.kron(sparse.identity(k), np.array(table)) if len(table) else [] for table in (a, self.e)]
        cost = -np.concatenate([row.ravel() for row in rows])
        x = solved(cost, copies[0], b * k, copies[1], self.f * k, bounds * k)
        return x.reshape(k, *self.eligible.shape)

    def reaches(self, rows: list[Float], more: list[tuple[Float, float]] | None = None) -> list[float]:
        """The largest value of each row by itself."""
        return [float((r * x).sum()) for r, x in zip(rows, self.corners(rows, more), strict=True)]


def leximin(polytope: Polytope, worth: Float, weights: Float) -> Float:
    """Shares per weight at the leximin: unique, although the tasks by server are not.

    ``worth`` is the share that a task of each user is worth, (n,) or (n, S).
    """
    n = len(weights)
    table = np.broadcast_to(worth[:, None] if worth.ndim == 1 else worth, polytope.eligible.shape)
    rows = [polytope.user(j, table[j] / weights[j]) for j in range(n)]
    tops = polytope.reaches(rows)
    unit = min([t for t in tops if t > 1e-12 * max(tops)], default=1.0)
    rows = [row / unit for row in rows]
    levels = np.zeros(n)
    rising = list(range(n))
    while rising:
        floor = [(rows[k], levels[k] - SLACK * max(levels[k], 1)) for k in range(n) if k not in rising]
        z = _common(polytope, [rows[k] for k in rising], floor)
        same = [(rows[k], z - SLACK * max(z, 1)) for k in rising]
        reach = dict(zip(rising, polytope.reaches([rows[j] for j in rising], floor + same), strict=True))
        stuck = [j for j in rising if reach[j] <= z + 1e-7 * max(z, 1e-3)]
        if not stuck:
            stuck = [min(reach, key=lambda j: reach[j])]
        for j in stuck:
            levels[j] = z
        rising = [j for j in rising if j not in stuck]
    return levels * unit


def _common(polytope: Polytope, rows: list[Float], floor: list[tuple[Float, float]]) -> float:
    """The largest z with every row at least z: one more column."""
    a = [np.append(r, 0.0) for r in polytope.a] + [np.append(-r.ravel(), 1.0) for r in rows]
    a += [np.append(-r.ravel(), 0.0) for r, _ in floor]
    b = [*polytope.b, *[0.0] * len(rows), *(-v for _, v in floor)]
    e = [np.append(r, 0.0) for r in polytope.e]
    bounds = [(0, None) if ok else (0, 0) for ok in polytope.eligible.ravel()] + [(None, None)]
    cost = np.append(np.zeros(polytope.eligible.size), -1.0)
    return float(solved(cost, a, b, e, polytope.f, bounds)[-1])


def solved(cost: Float, a: Any, b: Sequence[float], e: Any, f: Sequence[float], bounds: Sequence[Any]) -> Float:
    """A minimiser, without presolve where presolve cuts off a thin feasible set."""
    stack: Any = sparse.vstack if sparse.issparse(a) or sparse.issparse(e) else np.vstack
    table = stack([rows if len(right) else np.zeros((0, len(cost))) for rows, right in ((a, b), (e, f))])
    low, high = np.array([*[-np.inf] * len(b), *f]), np.array([*b, *f], dtype=float)
    for presolve in (True, False):
        if found := highs.minimise(cost, table, low, high, highs.limits(bounds), presolve, **TIGHT):
            return found.point
    raise NoPoint("HiGHS finds no optimum")
