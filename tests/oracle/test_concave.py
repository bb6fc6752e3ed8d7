"""The oracle of concave objectives: closed forms, the optimality conditions on one pool, and its own bounds."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from oracle import optimum
from oracle.concave import has_room, maximise, power_mean
from oracle.exact_cluster import Cluster
from oracle.exact_lp import NoPoint
from oracle.instances import log_uniform


def best(exact, worth, alpha):
    rows, values = (np.array(part, dtype=float) for part in zip(*exact.rows, strict=True))
    forms, reach = np.array(exact.forms(worth), dtype=float), np.array(exact.reach(), dtype=float)
    return maximise(power_mean(np.array(exact.weights, dtype=float), alpha), forms, rows, values, reach)


@pytest.mark.parametrize(
    ("demands", "capacities", "alpha", "tasks"),
    [
        ([[2, 3], [2, 1]], [6, 4], 1, [2 / 3, 2]),
        ([[2, 3], [2, 1]], [6, 4], 0.5, [4 / 7, 16 / 7]),
        ([[1, 4], [3, 1]], [9, 18], 2, [9 * (sqrt(2) - 1), 3 * (2 - sqrt(2))]),
    ],
)
def test_closed_forms_of_two_users(demands, capacities, alpha, tasks):
    exact = Cluster(demands, capacities)
    found = best(exact, exact.dominant(), alpha)
    np.testing.assert_allclose(found.point, tasks, rtol=1e-4)
    assert found.low <= found.high <= found.low + 2e-9


def test_demands_that_differ_by_server_leave_both_users_half():
    exact = Cluster([[[2], [4]], [[1], [2]]], [[4], [4]])
    found = best(exact, exact.dominant(), 10)
    assert found.low == pytest.approx(log(0.5), abs=1e-9)
    shares = np.array(exact.forms(exact.dominant()), dtype=float) @ found.point
    np.testing.assert_allclose(shares, [0.5, 0.5], rtol=1e-7)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, 7.0])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_hold_the_optimum_of_a_pool(alpha, seed):
    instance = log_uniform(np.random.default_rng(seed), 5, 3, decades=1.0, limits=0.4)
    limits = [None if np.isinf(t) else t for t in instance.task_limits]
    exact = Cluster(instance.demands, instance.capacities, instance.weights, limits)
    found = best(exact, exact.dominant(), alpha)
    ratios = instance.demands / instance.capacities
    x = optimum.alpha_fair(ratios, ratios.max(axis=1), instance.weights, instance.task_limits, alpha)
    value = power_mean(np.array(instance.weights), alpha)(ratios.max(axis=1) * x / instance.weights)[0]
    assert found.low - 1e-8 <= value <= found.high + 1e-8 and found.high - found.low <= 1e-7


def test_no_point_is_found_where_there_is_no_room():
    rows, values, top = np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), np.array([2.0])
    assert not has_room(rows, values, top) and has_room(rows, np.array([1.0, -0.5]), top)
    with pytest.raises(NoPoint):
        maximise(power_mean(np.ones(1), 2.0), np.ones((1, 1)), rows, values, top)
