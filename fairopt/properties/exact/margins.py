"""Counterexamples, and their margins after all errors are allowed for, in fractions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fairopt.instance import Instance
from fairopt.properties.exact.pool import ExactPool
from fairopt.properties.units import TRACE

__all__ = ["MARGINS", "BoundedAnswer", "Counterexample", "ExactAnswer", "alone", "cut", "envies"]

Row = list[Fraction]

FULL = Fraction(1, 10**6)  # a resource counts as full if less than this is left over, where answers are not exact


@dataclass(frozen=True)
class Counterexample:
    """What is said to break a property: an instance on one pool, the user concerned, and what changes."""

    property: str  # by its canonical name
    instance: Instance
    user: int  # the user who loses, envies, lies or could run more
    lie: tuple[float, ...] | None = None  # the demands that it reports
    changed: Instance | None = None  # the instance after a user has left or a capacity has grown


@dataclass(frozen=True)
class ExactAnswer:
    """Tasks of all users, and what they hold, in fractions."""

    tasks: Row
    bundles: list[Row]


@dataclass(frozen=True)
class BoundedAnswer:
    """An answer, and by how many tasks each user's may be off."""

    answer: ExactAnswer
    error: Row

    def least(self, j: int) -> Fraction:
        """Tasks of a user at least."""
        return self.answer.tasks[j] - self.error[j]

    def most(self, j: int) -> Fraction:
        """Tasks of a user at most."""
        return self.answer.tasks[j] + self.error[j]

    def held(self, j: int) -> Row:
        """What a user holds at least."""
        tasks = self.answer.tasks[j]
        part = max(1 - self.error[j] / tasks, Fraction(0)) if tasks else Fraction(1)
        return [b * part for b in self.answer.bundles[j]]


def _pareto_margin(pool: ExactPool, case: Counterexample, found: BoundedAnswer, _: BoundedAnswer) -> Fraction:
    j, limit = case.user, pool.limits[case.user]
    left = pool.leftover([found.most(k) for k in range(len(pool.demands))])
    more = _tasks_within(left, pool.demands[j])
    more = more if limit is None else min(more, limit - found.most(j))
    runs, own = found.answer.tasks[j], _slice(pool, j)
    return more / (runs if runs > Fraction(TRACE) * own else own)


def _sharing_margin(pool: ExactPool, case: Counterexample, found: BoundedAnswer, _: BoundedAnswer) -> Fraction:
    own = _slice(pool, case.user)
    return 1 - found.most(case.user) / own


def envies(pool: ExactPool, j: int, k: int, found: BoundedAnswer) -> Fraction:
    """How much user j envies user k."""
    runs = _tasks_within(found.held(k), pool.demands[j])
    wanted = cut(pool.weights[j] / pool.weights[k] * runs, pool.limits[j])
    return (wanted - found.most(j)) / max(_slice(pool, j), found.answer.tasks[j])


def _envy_margin(pool: ExactPool, case: Counterexample, found: BoundedAnswer, _: BoundedAnswer) -> Fraction:
    others = (k for k in range(len(pool.demands)) if k != case.user)
    return max((envies(pool, case.user, k, found) for k in others), default=Fraction(-1))


def _bottleneck_margin(pool: ExactPool, case: Counterexample, found: BoundedAnswer, _: BoundedAnswer) -> Fraction:
    j, limit = case.user, pool.limits[case.user]
    if limit is not None and found.most(j) >= limit:
        return Fraction(-1)
    left = pool.leftover([found.most(k) for k in range(len(pool.demands))])
    part, worst = pool.weights[j] / sum(pool.weights), Fraction(1)
    for c, d, v in zip(pool.capacities, pool.demands[j], left, strict=True):
        if v / c <= FULL:  # it may be
            worst = min(worst, 1 - d * found.most(j) / c / part)
    return worst


def _lie_margin(pool: ExactPool, case: Counterexample, truth: BoundedAnswer, lied: BoundedAnswer) -> Fraction | float:
    j = case.user
    lying = cut(_tasks_within(lied.held(j), pool.demands[j]), pool.limits[j])
    if lying <= alone(pool, j) / 10**9:
        return Fraction(-1)
    return np.inf if truth.answer.tasks[j] <= truth.error[j] else lying / truth.most(j) - 1


def _loss_margin(pool: ExactPool, case: Counterexample, before: BoundedAnswer, after: BoundedAnswer) -> Fraction:
    assert case.changed is not None
    there = case.changed.users.index(case.instance.users[case.user])
    had = before.least(case.user)
    return 1 - after.most(there) / had if had > 0 else Fraction(-1)


MARGINS: dict[str, Callable[[ExactPool, Counterexample, BoundedAnswer, BoundedAnswer], Fraction | float]] = {
    "pareto": _pareto_margin,
    "sharing-incentive": _sharing_margin,
    "envy-free": _envy_margin,
    "bottleneck": _bottleneck_margin,
    "strategy-proof": _lie_margin,
    "strategy-proof-boosting": _lie_margin,
    "population-monotone": _loss_margin,
    "resource-monotone": _loss_margin,
}


def alone(pool: ExactPool, j: int) -> Fraction:
    """Tasks that a user could run with everything, up to its limit."""
    return cut(_tasks_within(pool.capacities, pool.demands[j]), pool.limits[j])


def _slice(pool: ExactPool, j: int) -> Fraction:
    part = pool.weights[j] / sum(pool.weights)
    return cut(part * _tasks_within(pool.capacities, pool.demands[j]), pool.limits[j])


def _tasks_within(bundle: Row, demands: Row) -> Fraction:
    return min(b / d for b, d in zip(bundle, demands, strict=True) if d)


def cut(tasks: Fraction, limit: Fraction | None) -> Fraction:
    """No more tasks than a limit."""
    return tasks if limit is None else min(tasks, limit)
