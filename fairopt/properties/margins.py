"""Margins of each property of allocations: of many pools at once in floats, and of one answer in fractions.

The two share no code, since an audit calls a property refuted only if the exact margin confirms the other.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.bundle_model import tasks_within
from fairopt.properties.answers import Outcomes
from fairopt.properties.envy import at_own_weights, whole
from fairopt.properties.exact import pool as exact_pool
from fairopt.properties.exact.pool import ExactAnswer, ExactPool, cut, own_slice
from fairopt.properties.names import BY_NAME
from fairopt.properties.units import TRACE
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import later
from fairopt.runtime.tolerances import SUM_ROUNDING
from fairopt.solve.form.many_instances import Batch

NEARLY_FULL = 1e-4  # relative leftover of a bottleneck in answers of numerical methods
FULL = Fraction(1, 10**6)  # the same in recomputed answers


class Margins(NamedTuple):
    """Relative margins of a property, positive where it fails."""

    of_many: Callable[[Batch, Outcomes], Float]  # of each user of each pool, (n_pools, n_users)
    exact: Callable[[ExactPool, int, ExactAnswer], Fraction]  # of one user


def _slices(pools: Batch) -> Float:
    part = pools.weights / pools.weights.sum(axis=1, keepdims=True)
    return np.minimum(tasks_within(part[:, :, None] * pools.capacities[:, None], pools.demands), pools.limits)


def _pareto(pools: Batch, outcomes: Outcomes) -> Float:
    left = np.maximum(pools.capacities - np.einsum("bjm,bj->bm", pools.demands, outcomes.tasks), 0.0)
    left = np.where(left <= SUM_ROUNDING * pools.capacities, 0.0, left)
    slices = _slices(pools)
    runs = np.where(outcomes.tasks > TRACE * slices, outcomes.tasks, slices)
    return np.minimum(tasks_within(left[:, None], pools.demands), pools.limits - outcomes.tasks) / runs


def _exact_pareto(pool: ExactPool, j: int, answer: ExactAnswer) -> Fraction:
    limit = pool.limits[j]
    left = pool.leftover([answer.most(k) for k in range(len(pool.demands))])
    more = exact_pool.tasks_within(left, pool.demands[j])
    more = more if limit is None else min(more, limit - answer.most(j))
    runs, own = answer.tasks[j], own_slice(pool, j)
    return more / (runs if runs > Fraction(TRACE) * own else own)


def _sharing(pools: Batch, outcomes: Outcomes) -> Float:
    return 1.0 - outcomes.tasks / _slices(pools)


def _exact_sharing(pool: ExactPool, j: int, answer: ExactAnswer) -> Fraction:
    return 1 - answer.most(j) / own_slice(pool, j)


def _envy(pools: Batch, outcomes: Outcomes) -> Float:
    held = outcomes.received(pools.demands)
    on_theirs = tasks_within(held[:, None], pools.demands[:, :, None])  # (size, envious, envied)
    wanted = at_own_weights(on_theirs, pools.weights, pools.weights, pools.limits).max(axis=2)
    return (wanted - outcomes.tasks) / np.maximum(_slices(pools), outcomes.tasks)


def exact_envy(pool: ExactPool, j: int, k: int, answer: ExactAnswer) -> Fraction:
    """The envy of user j towards user k."""
    runs = exact_pool.tasks_within(answer.held(k), pool.demands[j])
    wanted = cut(pool.weights[j] / pool.weights[k] * runs, pool.limits[j])
    return (wanted - answer.most(j)) / max(own_slice(pool, j), answer.tasks[j])


def _exact_envy(pool: ExactPool, j: int, answer: ExactAnswer) -> Fraction:
    others = (k for k in range(len(pool.demands)) if k != j)
    return max((exact_envy(pool, j, k, answer) for k in others), default=Fraction(-1))


def _one_task(pools: Batch, outcomes: Outcomes, theirs: bool) -> Float:
    """Envy up to one task of the other (``theirs``) or of the user's own."""
    held = outcomes.received(pools.demands)
    held = np.maximum(held - pools.demands, 0.0) if theirs else held
    on_theirs = tasks_within(held[:, None], pools.demands[:, :, None])
    on_theirs = on_theirs * (pools.weights[:, :, None] / pools.weights[:, None])
    wanted = np.where(np.eye(pools.n_users, dtype=bool), 0.0, whole(on_theirs) - (not theirs)).max(axis=2)
    return (np.minimum(wanted, whole(pools.limits)) - outcomes.tasks) / np.maximum(_slices(pools), outcomes.tasks)


def _exact_one_task(pool: ExactPool, j: int, answer: ExactAnswer, theirs: bool) -> Fraction:
    """The same of one user, in fractions."""
    margin = Fraction(-1)
    for k in range(len(pool.demands)):
        less = [max(b - d * theirs, Fraction(0)) for b, d in zip(answer.held(k), pool.demands[k], strict=True)]
        runs = floor(pool.weights[j] / pool.weights[k] * exact_pool.tasks_within(less, pool.demands[j]))
        wanted = cut(Fraction(runs - (not theirs)), pool.limits[j])
        if k != j:
            margin = max(margin, (wanted - answer.most(j)) / max(own_slice(pool, j), answer.tasks[j]))
    return margin


def _bottleneck(pools: Batch, outcomes: Outcomes) -> Float:
    used = pools.demands * outcomes.tasks[:, :, None] / pools.capacities[:, None]
    part = (pools.weights / pools.weights.sum(axis=1, keepdims=True))[:, :, None]
    full = used.sum(axis=1)[:, None] >= 1.0 - NEARLY_FULL
    lacking = 1.0 - np.where(full, used / part, 0.0).max(axis=2)
    at_limit = outcomes.tasks >= pools.limits * (1 - 1e-9)
    return np.where(at_limit, 0.0, lacking)


def _exact_bottleneck(pool: ExactPool, j: int, answer: ExactAnswer) -> Fraction:
    limit = pool.limits[j]
    if limit is not None and answer.most(j) >= limit:
        return Fraction(-1)
    left = pool.leftover([answer.most(k) for k in range(len(pool.demands))])
    part, worst = pool.weights[j] / sum(pool.weights), Fraction(1)
    for c, d, v in zip(pool.capacities, pool.demands[j], left, strict=True):
        if v / c <= FULL:
            worst = min(worst, 1 - d * answer.most(j) / c / part)
    return worst


pareto = Margins(_pareto, _exact_pareto)
sharing_incentive = Margins(_sharing, _exact_sharing)
envy_free = Margins(_envy, _exact_envy)
bottleneck = Margins(_bottleneck, _exact_bottleneck)
ef1, ef1_own = (
    Margins(partial(_one_task, theirs=theirs), partial(_exact_one_task, theirs=theirs)) for theirs in (True, False)
)


def margins_of(name: str) -> Margins | None:
    """The margins of a property; None if it has none."""
    place = BY_NAME[name].margins
    margins: Any = later(f"fairopt.properties.{place}") if place else None
    return margins
