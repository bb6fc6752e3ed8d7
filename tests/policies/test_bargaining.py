"""Bargaining solutions against programs written by hand."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import fairopt as fo
from fairopt.blocks.ideal import IdealGain
from fairopt.errors import Infeasible


def drawn(rng, servers):
    n, m = rng.integers(2, 6), rng.integers(1, 4)
    demands = rng.integers(1, 6, (n, m)).astype(float)
    capacities = rng.integers(10, 40, (servers, m)).astype(float)
    eligible = rng.random((n, servers)) < 0.8
    eligible[:, 0] = True
    limits = np.where(rng.random(n) < 0.3, rng.integers(1, 5, n), np.inf)
    given = fo.Instance(demands, capacities, eligible=eligible, task_limits=limits, weights=rng.uniform(0.5, 2, n))
    held = fo.DRF().allocate(given).tasks
    return given, held * rng.uniform(0, 0.9, n) * (rng.random(n) < 0.8)


def by_hand(given, base):
    """Tasks by user in a CVXPY expression, and the conditions on them."""
    x = cp.Variable(given.eligible.shape, nonneg=True)
    total = cp.sum(x, axis=1)
    conditions = [x.T @ given.demands <= given.capacities, x[~given.eligible] == 0, total >= base]
    limited = np.isfinite(given.task_limits)
    return total, [*conditions, total[limited] <= given.task_limits[limited]]


@pytest.mark.parametrize("servers", [1, 3])
def test_nash_bargaining_is_the_largest_product_above_the_disagreement_point(servers):
    rng = np.random.default_rng(servers)
    for _ in range(10):
        given, base = drawn(rng, servers)
        total, conditions = by_hand(given, base)
        value = given.weights @ cp.log(total - base)
        cp.Problem(cp.Maximize(value), conditions).solve(solver="CLARABEL")
        answer = fo.NashBargaining(base).allocate(given)
        np.testing.assert_allclose(answer.tasks, total.value, rtol=2e-3, atol=2e-3)
        assert given.weights @ np.log(answer.tasks - base) >= value.value - 1e-5


@pytest.mark.parametrize("servers", [1, 3])
def test_ideals_are_linear_programs_over_all_placements(servers):
    rng = np.random.default_rng(10 + servers)
    for _ in range(10):
        given, base = drawn(rng, servers)
        user, server = np.nonzero(given.eligible)
        loads = np.vstack([(server == s) * given.demands[user].T for s in range(servers)])
        totals = (user == np.arange(given.n_users)[:, None]).astype(float)
        limited = np.isfinite(given.task_limits)
        rows = np.vstack([loads, totals[limited], -totals])
        right = np.concatenate([given.capacities.ravel(), given.task_limits[limited], -base])
        ideal = [-linprog(-row, A_ub=rows, b_ub=right).fun for row in totals]
        np.testing.assert_allclose(1 / IdealGain(base).per_task(given), ideal - base, rtol=1e-6)


def test_kalai_smorodinsky_levels_parts_of_the_ideal_gain():
    given = fo.Instance([[1], [2], [1]], [20], task_limits=[4, None, None])
    gains = (fo.KalaiSmorodinsky([2, 1, 0]).allocate(given).tasks - [2, 1, 0]) / [2, 8, 16]
    np.testing.assert_allclose(gains, 16 / (2 + 2 * 8 + 16), rtol=1e-12)


def test_user_that_cannot_rise_stays_at_its_disagreement_point():
    given = fo.Instance([[1, 0], [1, 1], [0, 1]], [4, 9], guarantees=[3, 1, 2])
    for policy in (fo.NashBargaining(), fo.KalaiSmorodinsky()):
        np.testing.assert_allclose(policy.allocate(given).tasks, [3, 1, 8], rtol=1e-9)


def test_ideals_are_those_among_all_users_where_some_leave():
    given = fo.Instance([[1, 0], [1, 1], [0, 1]], [10, 10], guarantees=[3, 1, 2], task_limits=[3, None, None])
    np.testing.assert_allclose(1 / IdealGain().per_task(given)[1:], [6, 7])
    gains = fo.KalaiSmorodinsky().allocate(given).tasks[1:] - [1, 2]
    assert gains[0] / 6 == pytest.approx(gains[1] / 7, rel=1e-12)


@pytest.mark.parametrize("make", [fo.NashBargaining, fo.KalaiSmorodinsky])
def test_disagreement_point_that_does_not_fit_is_infeasible(make):
    for servers in ([[4]], [[2], [2.5]]):
        with pytest.raises(Infeasible):
            make([3, 3]).allocate(fo.Instance([[1], [1]], servers))


@pytest.mark.parametrize(
    "policy", [fo.NashBargaining(), fo.Policy(fo.AlphaFair(2, fo.Surplus())), fo.KalaiSmorodinsky()]
)
def test_saved_answers_on_identical_servers_are_proved(policy, tmp_path):
    given = fo.Instance([[4, 8], [2, 0], [8, 4]], [[100, 48], [100, 48]], guarantees=[1, 2, 1])
    policy.allocate(given).save(tmp_path / "answer.json")
    assert fo.verify(tmp_path / "answer.json").ok
