"""Fairness and efficiency in the plane of (beta, lambda) (Lan et al. 2010), by lines.

With ``q = 1 - beta``, the power mean M of exponent q and the mean m of levels, the logarithm of the measure is
``first log M + second log m``: a product of powers, not concave in general, so that no prices bound it directly. But M
is concave (convex if q > 1) and lies below its gradient at any levels; weak duality bounds that linear function for
every slope, so that each entry of the evidence gives a line ``M <= at + slope m`` over all feasible tasks. Under lines
the measure is a function of m alone, and its maximum is at one of finitely many means (Propositions 7.8 and 15.8).

Why levels in the file and not the tasks: lines of the search were taken at other tasks than the best ones, and a line
at the best tasks bounds little elsewhere. Gradients and powers are intervals, rounded towards the weaker line; the
powers are of ratios of levels, so that none is large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .instance import LINE, Cluster, check_keys
from .numbers import ONE, ZERO, Between, Fraction, Rows, exact_sum, log, number, numbers, power, together, up
from .outcome import CannotCheck, Fault
from .policy import Block
from .sums import Evidence, Goal, bound


def power_mean(values: Mapping[Any, Fraction], weights: Mapping[Any, Fraction], q: Fraction) -> Between:
    """The power mean of exponent q of numbers >= 0, with weights that sum to one."""
    if q < 0 and not all(values.values()):
        return Between(ZERO, ZERO)
    unit = max(values.values()) if q > 0 else min(values.values())  # then no power is above 1
    if unit == 0:
        return Between(ZERO, ZERO)
    parts = [power(v / unit, q).times(weights[j]) for j, v in values.items() if v]
    ends = sorted(power(exact_sum(part[k] for part in parts), 1 / q)[k ^ (q < 0)] for k in (0, 1))
    return Between(*ends).times(unit)


class Plane:
    """`FairnessEfficiency`: ``first log M + second log m``, with the power mean M of exponent ``q = 1 - beta`` and the
    mean m.

    Lines ``M <= at + slope * m`` (``>=`` if q > 1) bound M over all feasible tasks. M lies below its gradient at any
    levels (above, if q > 1), and `bound` bounds that linear function for any slope. The line of slope 1 at 0 is the
    mean inequality. Between crossings one line is the tightest, and its function of m has at most one stationary point.
    So the maximum is at a crossing, a stationary point, or an end of the range of means (Proposition 15.8).
    """

    def __init__(self, cluster: Cluster, term: Block, rows: Rows) -> None:
        self.cluster, self.rows = cluster, rows
        beta, lam = number(term.given["beta"], "beta"), number(term.given["lam"], "lam")
        self.q = 1 - beta
        self.emphasis = lam if beta < 1 else -lam
        if self.q == 0 or beta == 0 or self.emphasis < 0:
            raise Fault(f"{term.text} has no optimum, or is a sum of shares")
        self.first = abs(self.q) / beta
        self.second = self.emphasis - self.first
        self.sign = 1 if beta > 0 else -1
        self.below, self.above = cluster.coefficients(term.share)
        self.total = exact_sum(cluster.weights[j] for j in cluster.active)
        self.parts = {j: cluster.weights[j] / self.total for j in cluster.active}

    def linear(self, factors: Mapping[int, Fraction], entry: Mapping[str, Any]) -> Fraction:
        """An upper bound on a weighted sum of shares, by prices."""
        check_keys(entry, LINE, "a line of the evidence")
        if entry.get("mixtures"):
            raise CannotCheck("the evidence of the most even shares has mixtures of further levels")
        if entry.get("kind", "prices") != "prices" or entry.get("unit", 1) != 1:
            raise Fault("lines are proved by prices in natural units")
        goal = Goal(self.cluster)
        for j, factor in factors.items():
            for s in self.cluster.open[j]:
                goal.slopes[j][s] = max(factor * self.below[j][s], factor * self.above[j][s])
        evidence = Evidence(self.cluster, entry, self.rows)
        goal.add_kept_levels(evidence)
        return bound(goal, evidence, evidence.right_hand_side(self.cluster.usable_units()))

    def line(self, entry: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
        """A line of the evidence, by the gradient of M at the given levels."""
        users, slope = self.cluster.active, number(entry["slope"], "slope")
        levels = dict(together(users, numbers(entry["levels"], "levels", len(users))))
        if min(levels.values()) <= 0:
            raise Fault("levels: a level is not positive, so there is no gradient")
        middle, factors = power_mean(levels, self.parts, self.q), {}
        for j in users:
            ends = [power(levels[j] / end, self.q - 1) for end in middle]
            gradient = max(e.high for e in ends) if self.sign > 0 else min(e.low for e in ends)
            # outwards: a steeper gradient makes a higher line (a lower one if q > 1)
            factors[j] = self.sign * (gradient - slope) / self.total
        return self.sign * self.linear(factors, entry), slope

    def means(self, entry: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
        """Bounds on the means of feasible tasks that can be optimal.

        The measure does not fall while all tasks grow by one factor. So the lower bound covers only tasks of which no
        larger multiple is feasible.
        """
        cluster, each = self.cluster, dict.fromkeys(self.cluster.active, ONE)
        best = {j: max(self.above[j][s] for s in cluster.open[j]) for j in each}
        high = up(exact_sum(best[j] * cluster.most_tasks(j) for j in each) / self.total)
        if entry.get("largest"):
            high = min(high, self.linear(each, entry["largest"]) / self.total)
        low = ZERO
        if entry.get("smallest"):
            low = max(low, -self.linear(dict.fromkeys(each, -1 / self.total), entry["smallest"]))
        per_task = {(j, s): self.below[j][s] for j in each for s in cluster.open[j]}
        full = [
            ({(j, s): d for j, s in per_task if s == t and (d := cluster.demands[j][s][i])}, room)
            for (t, i), room in cluster.usable_units().items()
        ]
        full += [
            ({pair: ONE for pair in per_task if pair[0] == j}, h) for j in each if (h := cluster.high[j]) is not None
        ]
        full += [(row.per_task, row.bound) for row in self.rows if row.bound > 0 or (row.equal and row.bound)]
        if all(not row.equal or not row.bound for row in self.rows):
            per_unit = (min((per_task[p] / v for p, v in row.items() if v > 0), default=None) for row, _ in full)
            reached = [rate * b for rate, (_, b) in together(per_unit, full) if rate is not None]
            low = max(low, min(reached, default=ZERO) / self.total)
        return low, high

    def log_measure(self) -> Fraction:
        """A lower bound on ``first log M + second log m`` at the file's tasks."""
        cluster = self.cluster
        tables = [cluster.shares(c) for c in (self.below, self.above)]
        levels = [{j: z / cluster.weights[j] for j, z in shares.items()} for shares in tables]
        middle = power_mean(levels[self.sign < 0], self.parts, self.q)[self.sign < 0]
        mean = exact_sum(tables[self.second < 0].values()) / self.total
        if middle <= 0:
            raise Fault("a user has no share, or all have none, where the objective needs one")
        return log(middle).times(self.first).low + log(mean).times(self.second).low

    def gap(self, entry: Mapping[str, Any]) -> Fraction:
        """The largest value that the lines allow, minus the logarithm of the measure."""
        lines = [(ZERO, ONE), *map(self.line, entry["lines"])]
        low, high = self.means(entry)
        if not low and not self.emphasis:
            raise Fault("the measure depends on ratios of shares only, and nothing bounds the shares from below")
        tried = {low, high}
        for at, slope in lines:  # crossings, and where the derivative along a line is 0
            tried |= {(at - a) / (b - slope) for a, b in lines if b != slope}
            tried |= {-self.second * at / (slope * self.emphasis)} if slope and self.emphasis else set()
        tops = []
        for mean in (m for m in tried if low <= m <= high and m > 0):
            of_lines = [at + slope * mean for at, slope in lines]
            middle = min(of_lines) if self.sign > 0 else max(of_lines)
            if middle > 0:  # otherwise no feasible tasks have this mean
                tops.append(log(middle).times(self.first).high + log(mean).times(self.second).high)
        if not tops:
            raise Fault("lines: they exclude all feasible tasks")
        return max(max(tops) - self.log_measure(), ZERO)


def gap_by_lines(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of `FairnessEfficiency` alone, by lines."""
    if len(objective.terms) > 1:
        raise Fault("lines are no evidence for a sum of objectives")
    return Plane(cluster, objective.terms[0][1], rows).gap(entry)
