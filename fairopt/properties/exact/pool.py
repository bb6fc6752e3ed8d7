"""Notions on one pool, written from their definitions in fractions, or to fifty digits where there are roots.

For small witnesses: slow, and without any code of `fairopt.solve`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException, localcontext
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from fairopt.instance import Instance
from fairopt.runtime.lazy import optimize
from fairopt.runtime.tolerances import ROUNDING

Vector = list[Fraction]

DIGITS = 50  # of Newton's method on prices
CLOSE = Decimal(10) ** -35  # its tolerance
TIE = Fraction(ROUNDING)  # of the definition of bundles: dominance and scarcity
MOST_CORNERS = 20_000  # combinations of constraints tried for the vertices of a polytope


@dataclass(frozen=True)
class ExactPool:
    """An instance on one pool, in fractions equal to its floats."""

    demands: list[Vector]
    capacities: Vector
    weights: Vector
    limits: list[Fraction | None]

    @classmethod
    def of(cls, instance: Instance) -> ExactPool:
        """The pool of an instance."""
        limits = [None if np.isinf(t) else Fraction(float(t)) for t in instance.task_limits]
        demands = [[Fraction(float(v)) for v in row] for row in instance.per_server_demands[:, 0]]
        total = [Fraction(float(v)) for v in instance.total_capacities]
        return cls(demands, total, [Fraction(float(w)) for w in instance.weights], limits)

    @property
    def ratios(self) -> list[Vector]:
        """Demands over capacities; 0 where nothing is needed."""
        return [
            [d / c if d else Fraction(0) for d, c in zip(row, self.capacities, strict=True)] for row in self.demands
        ]

    def leftover(self, tasks: Sequence[Fraction]) -> Vector:
        """Units of each resource that tasks leave over."""
        used = [
            sum((x * d[i] for x, d in zip(tasks, self.demands, strict=True)), Fraction(0))
            for i in range(len(self.capacities))
        ]
        return [c - u for c, u in zip(self.capacities, used, strict=True)]


@dataclass(frozen=True)
class ExactAnswer:
    """Tasks and bundles of all users, and bounds on the errors of tasks, in fractions."""

    tasks: Vector
    bundles: list[Vector]
    error: Vector

    def least(self, j: int) -> Fraction:
        """A lower bound on a user's tasks."""
        return self.tasks[j] - self.error[j]

    def most(self, j: int) -> Fraction:
        """An upper bound on a user's tasks."""
        return self.tasks[j] + self.error[j]

    def held(self, j: int) -> Vector:
        """A lower bound on a user's bundle."""
        part = max(1 - self.error[j] / self.tasks[j], Fraction(0)) if self.tasks[j] else Fraction(1)
        return [b * part for b in self.bundles[j]]


def alone(pool: ExactPool, j: int) -> Fraction:
    """Tasks that a user could run alone, up to its limit."""
    return cut(tasks_within(pool.capacities, pool.demands[j]), pool.limits[j])


def own_slice(pool: ExactPool, j: int) -> Fraction:
    """Tasks that a user could run on its own slice, up to its limit."""
    part = pool.weights[j] / sum(pool.weights)
    return cut(part * tasks_within(pool.capacities, pool.demands[j]), pool.limits[j])


def tasks_within(bundle: Vector, demands: Vector) -> Fraction:
    """Tasks that fit on a bundle."""
    return min(b / d for b, d in zip(bundle, demands, strict=True) if d)


def cut(tasks: Fraction, limit: Fraction | None) -> Fraction:
    """Tasks cut at a limit."""
    return tasks if limit is None else min(tasks, limit)


def leximin(pool: ExactPool, per_task: Vector) -> Vector:
    """Tasks of the leximin of ``c_j x_j / w_j``: all levels rise until a resource is full or a limit is met."""
    n, m = len(pool.demands), len(pool.capacities)
    speed = [w / c for w, c in zip(pool.weights, per_task, strict=True)]
    tasks, rising, level = [Fraction(0)] * n, set(range(n)), Fraction(0)
    while rising:
        room = pool.leftover(tasks)
        load = [sum((speed[j] * pool.demands[j][i] for j in rising), Fraction(0)) for i in range(m)]
        steps = [room[i] / load[i] for i in range(m) if load[i] > 0]
        steps += [limit / speed[j] - level for j in rising if (limit := pool.limits[j]) is not None]
        step = min(steps)
        level += step
        for j in rising:
            tasks[j] += step * speed[j]
        full = {i for i, left in enumerate(pool.leftover(tasks)) if left == 0}
        rising = {j for j in rising if tasks[j] != pool.limits[j] and not any(pool.demands[j][i] for i in full)}
    return tasks


def max_sum(pool: ExactPool, coefficients: Vector) -> list[Vector] | None:
    """All vertices that maximise ``sum c_j x_j``; None if there are too many candidates."""
    n = len(pool.demands)
    rows: list[tuple[Vector, Fraction]] = [
        ([d[i] for d in pool.demands], c) for i, c in enumerate(pool.capacities) if any(d[i] for d in pool.demands)
    ]
    unit = [[Fraction(int(j == k)) for k in range(n)] for j in range(n)]
    rows += [(unit[j], limit) for j in range(n) if (limit := pool.limits[j]) is not None]
    rows += [(unit[j], Fraction(0)) for j in range(n)]
    if comb(len(rows), n) > MOST_CORNERS:
        return None
    best = Fraction(-1)
    corners: list[Vector] = []
    for chosen in combinations(rows, n):
        x = solve_equations([r for r, _ in chosen], [b for _, b in chosen])
        if x is None or min(x) < 0 or min(pool.leftover(x)) < 0:
            continue
        if any(limit is not None and v > limit for v, limit in zip(x, pool.limits, strict=True)):
            continue
        value = sum((c * v for c, v in zip(coefficients, x, strict=True)), Fraction(0))
        if value > best:
            best, corners = value, []
        if value == best and x not in corners:
            corners.append(x)
    return corners


def alpha_fair(pool: ExactPool, per_task: Vector, alpha: float, near: Sequence[float]) -> Vector | None:
    """Tasks of weighted alpha-fairness to thirty digits, alpha > 0, or None if Newton's method does not converge.

    ``near`` is a starting point. The result satisfies the optimality conditions: at prices ``p`` of the full resources
    user j runs ``x_j = min(T_j, (w_j^alpha c_j^(1-alpha) / (g_j . p))^(1/alpha))``.
    """
    with localcontext() as context:
        context.prec = DIGITS
        try:
            return _alpha_fair(pool, per_task, Decimal(str(alpha)), near)
        except DecimalException:
            return None


def _alpha_fair(pool: ExactPool, per_task: Vector, alpha: Decimal, near: Sequence[float]) -> Vector | None:
    g = [[_decimal(v) for v in row] for row in pool.ratios]
    limits = [None if limit is None else _decimal(limit) for limit in pool.limits]
    scale = [
        _decimal(w) ** alpha * _decimal(c) ** (1 - alpha) for w, c in zip(pool.weights, per_task, strict=True)
    ]  # marginal utility of a task at x = 1
    everything = [limit for limit in pool.limits if limit is not None]
    if len(everything) == len(g) and min(pool.leftover(everything)) >= 0:
        return everything
    floats = np.array([[float(v) for v in row] for row in g])
    x = np.maximum(np.asarray(near, dtype=float), 1e-300)
    below = np.array([t is None or v < float(t) * (1 - 1e-9) for v, t in zip(x, limits, strict=True)])
    full = np.flatnonzero(floats.T @ x > 1 - 1e-4)
    if not below.any() or not len(full):
        return None
    marginal = np.array([float(s) for s in scale]) * x ** -float(alpha)
    start = optimize.nnls(floats[below][:, full] / marginal[below, None], np.ones(int(below.sum())))[0]
    typical = float(start.max()) or 1.0
    order = sorted(range(len(full)), key=lambda i: -start[i])
    likely = int((start > 1e-9 * typical).sum())
    for k in sorted(range(1, len(full) + 1), key=lambda size: abs(size - likely)):
        for chosen in combinations(order, k):
            priced = [int(full[i]) for i in chosen]
            prices = [Decimal(repr(float(max(start[i], 1e-3 * typical)))) for i in chosen]
            root = _newton(g, scale, limits, alpha, priced, prices)
            if root is not None:
                return [Fraction(v) for v in root]
    return None


def _newton(
    g: list[list[Decimal]],
    scale: list[Decimal],
    limits: list[Decimal | None],
    alpha: Decimal,
    priced: list[int],
    prices: list[Decimal],
) -> list[Decimal] | None:
    """Tasks at prices of these resources at which they are exactly full and no other is overfull."""
    one = Decimal(1)
    for _ in range(60):
        cost = [sum((row[i] * p for i, p in zip(priced, prices, strict=True)), Decimal(0)) for row in g]
        x: list[Decimal] = []
        for s, c, limit in zip(scale, cost, limits, strict=True):
            if c == 0 and limit is None:
                return None
            wanted = limit if c == 0 else (s / c) ** (one / alpha)
            assert wanted is not None
            x.append(wanted if limit is None else min(wanted, limit))
        excess = [sum((v * row[i] for v, row in zip(x, g, strict=True)), Decimal(-1)) for i in range(len(g[0]))]
        if all(abs(excess[i]) < CLOSE for i in priced):
            return x if max(excess) < CLOSE else None
        free = [j for j, limit in enumerate(limits) if cost[j] > 0 and (limit is None or x[j] < limit)]
        slope = [
            [sum((g[j][i] * g[j][k] * x[j] / (alpha * cost[j]) for j in free), Decimal(0)) for k in priced]
            for i in priced
        ]
        step = solve_equations(slope, [excess[i] for i in priced])
        if step is None:
            return None
        # damped: no price changes by more than a factor of ten
        prices = [min(max(p + d, p / 10), p * 10) for p, d in zip(prices, step, strict=True)]
    return None


def mlf_drs(pool: ExactPool, growth: str) -> list[Vector]:
    """Bundles of MLF-DRS (Hamzeh et al. 2019, Algorithm 1)."""
    dominant = _dominant(pool)
    held = [[Fraction(0)] * len(pool.capacities) for _ in pool.demands]
    for i, capacity in enumerate(pool.capacities):
        base = _bases(pool, dominant, i)
        whole = sum(base, Fraction(0))
        left = capacity - whole
        for j, own in enumerate(base):
            if own == 0:
                continue
            if growth == "proportional" or left < 0:
                held[j][i] = own * capacity / whole
            else:
                group = [b for k, b in enumerate(base) if b and (dominant[k] == i) == (dominant[j] == i)]
                held[j][i] = own + left * sum(group) / whole / len(group)
    return held


def ffmra(pool: ExactPool, units: str) -> list[Vector]:
    """Bundles of FFMRA, which H-FFMRA is on one pool (Hamzeh et al. 2021, section IV)."""
    dominant, users = _dominant(pool), range(len(pool.demands))
    sizes = pool.ratios if units == "share" else pool.demands
    of_dominant = sum((sizes[j][dominant[j]] for j in users), Fraction(0))
    phi = of_dominant / sum((sum(row, Fraction(0)) for row in sizes), Fraction(0))
    held = [[Fraction(0)] * len(pool.capacities) for _ in users]
    for i, capacity in enumerate(pool.capacities):
        base = _bases(pool, dominant, i)
        groups = [[j for j in users if base[j] and (dominant[j] == i) is first] for first in (True, False)]
        parts = [phi * capacity, (1 - phi) * capacity]
        for mine in (0, 1):
            if not groups[mine]:
                parts[mine], parts[1 - mine] = Fraction(0), capacity
        requested = [sum((pool.demands[j][i] for j in group), Fraction(0)) for group in groups]
        short = sum(requested) > capacity * (1 + TIE)
        if short:
            parts = [min(max(parts[k], capacity - requested[1 - k]), requested[k]) for k in (0, 1)]
        for group, part in zip(groups, parts, strict=True):
            open_users = list(group)
            while open_users:
                rate = part / sum(base[j] for j in open_users)
                capped = [j for j in open_users if short and rate * base[j] >= pool.demands[j][i]]
                for j in capped or open_users:
                    held[j][i] = pool.demands[j][i] if capped else rate * base[j]
                    part -= held[j][i] if capped else 0
                open_users = [j for j in open_users if j not in capped] if capped else []
    return held


def solve_equations(a: Sequence[Sequence[Any]], b: Sequence[Any]) -> list[Any] | None:
    """The solution of square linear equations in fractions or decimals; None if they are singular."""
    n = len(b)
    rows = [[*row, v] for row, v in zip(a, b, strict=True)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda r: abs(rows[r][k]))
        if rows[pivot][k] == 0:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for r in range(n):
            if r != k and rows[r][k] != 0:
                factor = rows[r][k] / rows[k][k]
                rows[r] = [v - factor * w for v, w in zip(rows[r], rows[k], strict=True)]
    return [rows[k][n] / rows[k][k] for k in range(n)]


def _dominant(pool: ExactPool) -> list[int]:
    """Each user's dominant resource: the first of the largest ratios, with the ties of `dominance_of`."""
    least = [max(row) * (1 - TIE) for row in pool.ratios]
    return [next(i for i, ratio in enumerate(row) if ratio >= v) for row, v in zip(pool.ratios, least, strict=True)]


def _bases(pool: ExactPool, dominant: list[int], i: int) -> Vector:
    """The larger of request and fair share of users for whom resource i is dominant, the smaller of others."""
    fair = pool.capacities[i] / len(pool.demands)
    return [max(fair, d[i]) if dominant[j] == i else min(fair, d[i]) for j, d in enumerate(pool.demands)]


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
