"""Evidence for `proofs.verify` from the tasks of an answer alone, by linear programs.

Tangents at the tasks replace curves. The dual of the linear program gives prices and multipliers that minimise the
bound of a file (Proposition 15.1), with the accuracy of a simplex basis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.formulation.highs import silence_banner
from fairopt.formulation.program import Float
from fairopt.proofs import verify
from fairopt.runtime.lazy import cp
from fairopt.tolerances import NOISE

LARGEST = 100_000  # entries of the largest matrix of a program
NEAR = (np.inf, 1e-2)  # relative distance from the tasks within which terms are bounded: first any, then small
RISE = 1e-7  # relative: users who could rise by more get further prices
OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "solver": "simplex"}


def is_small(cluster: verify.Cluster, rows: verify.Rows) -> bool:
    """Whether the programs are small enough."""
    pairs = sum(len(cluster.open[j]) for j in cluster.active)
    return pairs * (cluster.servers * cluster.m + len(rows)) + len(cluster.active) ** 3 <= LARGEST


class _Slopes(NamedTuple):
    """A goal with tangents in place of curves: a constant, slopes (n_pairs,) and ranked terms."""

    constant: float
    slopes: Float
    ranked: list[verify.Ranked]

    def times(self, factor: float) -> _Slopes:
        """The goal times a factor."""
        ranked = [one._replace(factor=one.factor * verify.Fraction(factor)) for one in self.ranked]
        return _Slopes(self.constant * factor, self.slopes * factor, ranked)

    def size(self, tasks: Float) -> float:
        """The order of magnitude of the goal at the tasks."""
        return float(abs(self.slopes) @ tasks) + sum(float(one.factor * sum(one.v)) for one in self.ranked) or 1.0


class Supporting:
    """The bound of `verify` at the tasks of a cluster, as a linear function of prices, multipliers and mixtures.

    Pairs are of users who take part and their servers. Prices are per whole capacity. Rows and kept levels are scaled
    by what all users could have.
    """

    def __init__(self, cluster: verify.Cluster, rows: verify.Rows, near: float) -> None:
        self.cluster = cluster
        self.pairs = [(j, s) for j in cluster.active for s in cluster.open[j]]
        at = {pair: p for p, pair in enumerate(self.pairs)}
        place = {j: u for u, j in enumerate(cluster.active)}
        self.user = np.array([place[j] for j, _ in self.pairs])
        self.low = np.array([float(cluster.low[j]) for j in cluster.active])
        self.high = np.array([float(cluster.most_tasks(j)) for j in cluster.active])
        total = np.array([float(cluster.total(j)) for j in cluster.active])
        width = near * self.high
        self.low, self.high = np.maximum(self.low, total - width), np.minimum(self.high, total + width)
        self.rooms = [(place, float(usable)) for place, usable in cluster.usable_units().items() if usable]
        needs = [
            [float(cluster.demands[j][s][i] / cluster.usable_units()[s, i]) * (s == t) for (s, i), _ in self.rooms]
            for j, t in self.pairs
        ]
        slopes = np.zeros((len(self.pairs), len(rows)))
        for k, (row, _, _) in enumerate(rows):
            for pair, v in row.items():
                slopes[at[pair], k] = float(v)
        self.right = np.array([float(b) for _, b, _ in rows])
        self.size = np.maximum(abs(self.right), (abs(slopes) * self.high[self.user, None]).max(axis=0, initial=0.0))
        self.size = np.where(self.size > 0, self.size, 1.0)
        self.prices, self.rows = cp.Variable(len(self.rooms), nonneg=True), cp.Variable(len(rows))
        self.bound = cp.sum(self.prices)
        self.reduced = -np.array(needs) @ self.prices  # marginal utility less cost, by pair
        self.conditions = [self.rows[k] >= 0 for k, (_, _, equal) in enumerate(rows) if not equal]
        if rows:
            self.bound += (self.right / self.size) @ self.rows
            self.reduced -= (slopes / self.size) @ self.rows
        self.kept: list[tuple[cp.Variable, float]] = []
        self.mixed: list[tuple[cp.Variable | float, cp.Expression]] = []

    def tangent(self, goal: verify.Goal) -> _Slopes:
        """The tangents of a goal at the tasks."""
        table, constant = [row[:] for row in goal.slopes], float(goal.constant.high)
        for of_numbers in goal.numbered:
            constant += float(verify.tangents_of_numbers(self.cluster, of_numbers, table, ()))
        slopes = {(j, s): float(table[j][s]) for j, s in self.pairs}
        for curve in goal.curves:
            for j, z in self.cluster.shares(curve.below).items():
                if z <= 0:
                    raise verify.CannotCheck(f"user {self.cluster.users[j]!r} has no share")
                slope = float(curve.factor[j] * verify.power(z, -curve.alpha).high)
                constant += float(curve.factor[j] * verify.boxcox(z, curve.alpha).high) - slope * float(z)
                for s in self.cluster.open[j]:
                    slopes[j, s] += slope * float(curve.above[j][s])
        return _Slopes(constant, np.array([slopes[pair] for pair in self.pairs]), goal.ranked)

    def add(self, goal: _Slopes, times: cp.Variable | float) -> None:
        """Add a multiple of a goal to the bound."""
        self.bound += times * goal.constant
        self.reduced += times * goal.slopes
        for term in goal.ranked:  # doubly stochastic mixtures of the weights
            n = len(self.high)
            orders = cp.Variable((n, n), nonneg=True)
            self.conditions += [cp.sum(orders, axis=k) == times * float(term.factor) for k in (0, 1)]
            mixture = orders @ np.array([float(v) for v in term.v])
            self.reduced += cp.multiply([float(term.above[j][s]) for j, s in self.pairs], mixture[self.user])
            self.mixed.append((times, mixture))

    def keep(self) -> None:
        """Add the kept levels of constraints and earlier tiers, with multipliers."""
        for other, level, _ in self.cluster.kept_levels:
            goal = verify.Goal(self.cluster)
            goal.add(other, verify.ONE)
            goal.constant = goal.constant.plus(-level)
            slopes, times = self.tangent(goal), cp.Variable(nonneg=True)
            scale = 1.0 / slopes.size(self.high[self.user])
            self.kept.append((times, scale))
            self.add(slopes.times(scale), times)

    def solve(self, size: float = 1.0) -> dict[str, Any]:
        """The prices and multipliers that minimise the bound, as `verify` reads them; ``size`` is the goal's unit."""
        users = cp.Variable(len(self.high))
        ends = [users[self.user] >= cp.multiply(end[self.user], self.reduced) for end in (self.low, self.high)]
        problem = cp.Problem(cp.Minimize(self.bound + cp.sum(users)), [*self.conditions, *ends])
        silence_banner()
        try:
            problem.solve(solver=cp.HIGHS, highs_options=OPTIONS)
        except (cp.error.SolverError, ValueError) as error:
            raise verify.CannotCheck("no multipliers were found at the tasks") from error
        if self.prices.value is None:
            raise verify.CannotCheck("no multipliers were found at the tasks")
        prices = np.zeros((self.cluster.servers, self.cluster.m))
        for ((s, i), usable), p in zip(self.rooms, self.prices.value, strict=True):
            prices[s, i] = max(p, 0.0) / usable * size
        rows = (self.rows.value / self.size * size).tolist() if self.right.size else []
        kept = [max(float(times.value), 0.0) * scale * size for times, scale in self.kept]
        mixed = [u for times, u in self.mixed if not isinstance(times, cp.Variable) or times.value > 0]
        mixtures = [np.maximum(u.value, 0.0).tolist() for u in mixed]
        return {"prices": prices.tolist(), "rows": rows, "kept": kept, "mixtures": mixtures}


def _supporting_levels(cluster: verify.Cluster, share: verify.Block, rows: verify.Rows) -> dict[str, Any]:
    """Evidence that no user of a leximin can rise above its level, from the lowest level up."""
    c, _ = cluster.coefficients(share)
    z = {j: s / cluster.weights[j] for j, s in cluster.shares(c).items()}
    if min(z.values()) <= 0:
        raise verify.CannotCheck("a user who takes part has no share")
    best = {j: max(c[j][s] for s in cluster.open[j]) / cluster.weights[j] for j in z}
    most = {j: max(best[j] * cluster.most_tasks(j), z[j]) for j in z}
    left, level_per_task = [j for j in z if most[j] > z[j] * (1 + verify.GAP)], cluster.level_per_task(c)
    out: list[dict[str, Any]] = []
    while left:
        level = min(z[j] for j in left)
        lowest = [j for j in left if float(z[j]) <= float(level) * (1 + NOISE)]
        floors = {j: min(v, level) for j, v in z.items()}
        rise, multipliers = np.full(len(lowest), np.inf), dict[str, Any]()
        for near in NEAR:
            if rise.min() <= RISE / 10:
                break
            found = _level_prices(cluster, c, rows, floors, lowest, near)
            upper = dict(most)
            prices = verify.Evidence(cluster, found, rows, len(cluster.kept_levels))
            verify.tighten_upper_bounds(
                cluster,
                level_per_task,
                prices,
                floors,
                upper,
                lowest,
                prices.right_hand_side(cluster.usable_units()),
                {},
            )
            rises = np.array([float(upper[j] / z[j] - 1) for j in lowest])
            if not multipliers or rises.min() < rise.min():
                rise, multipliers = rises, found
        fixed = [j for j, r in zip(lowest, rise, strict=True) if r <= max(RISE, rise.min())]
        out.append({"users": [cluster.active.index(j) for j in fixed], **multipliers})
        left = [j for j in left if j not in fixed]
    return {"kind": "levels", "levels": out}


def _level_prices(
    cluster: verify.Cluster,
    c: verify.Table,
    rows: verify.Rows,
    floors: Mapping[int, verify.Fraction],
    lowest: Sequence[int],
    near: float,
) -> dict[str, Any]:
    """Prices that minimise the slack above the floors; those of the ``lowest`` users cost 1 together."""
    dual = Supporting(cluster, rows, near)
    dual.keep()
    per = [float(c[j][s] / cluster.weights[j] / floors[j]) for j, s in dual.pairs]
    costs = cp.Variable(len(floors), nonneg=True)  # of users' floors
    dual.bound -= cp.sum(costs)
    dual.reduced += cp.multiply(per, costs[dual.user])
    dual.conditions.append(sum(costs[u] for u, j in enumerate(cluster.active) if j in lowest) == 1)
    found = dual.solve()
    if cluster.kept_levels:
        found["costs"] = [max(float(k), 0.0) / float(floors[j]) for k, j in zip(costs.value, floors, strict=True)]
    return found


def supporting(
    cluster: verify.Cluster, objective: verify.Block, rows: verify.Rows, unit: float, near: float
) -> dict[str, Any]:
    """Evidence of an objective from the cluster's tasks, with shares in a unit, within a relative distance ``near``."""
    if objective.name == "Leximin":
        return _supporting_levels(cluster, objective.share, rows)
    goal = verify.Goal(cluster)
    goal.add(objective, verify.ONE, verify.Fraction(unit))
    dual = Supporting(cluster, rows, near)
    slopes = dual.tangent(goal)
    size = slopes.size(np.array([float(cluster.tasks[j][s]) for j, s in dual.pairs]))
    dual.add(slopes.times(1.0 / size), 1.0)
    dual.keep()
    return {"kind": "prices", "unit": unit, **dual.solve(size)}
