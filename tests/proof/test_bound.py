"""The parts of the bound by weak duality: closed forms against many levels, and rounding that counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairopt as fo
from fairopt.blocks.form import Curve
from fairopt.proof import gate
from fairopt.proof.bound import best_response, fair_gap, gain_of_power, gain_of_total, power, smallest_level
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.pool import PoolPrices
from fairopt.proof.proposal import Proposal
from fairopt.runtime.tolerances import TERM_ROUNDING
from fairopt.solve.form.pool_users import Pool
from fairopt.solve.form.program import Program
from fairopt.solve.pool.alpha_fair import AlphaFairPool, smallest_prices

NUMBERS = st.floats(0.1, 10.0)
ALPHAS = st.sampled_from([0.3, 0.5, 1.0, 1.0001, 2.0, 5.0])


@given(NUMBERS, ALPHAS, NUMBERS, NUMBERS, st.sampled_from([0.0, 1.0]))
def test_no_level_within_bounds_gains_more_than_the_closed_form(price, alpha, low, high, shift):
    low, high = min(low, high), max(low, high)
    most = gain_of_power(np.array([price]), alpha, low, high, shift).most[0]
    z = np.linspace(low, high, 201)
    gains = power(z, alpha, shift) - price * z
    assert gains.max() <= most + 1e-12 * (abs(most) + price * high)
    finest = np.linspace(*z[[max(gains.argmax() - 1, 0), min(gains.argmax() + 1, 200)]], 2001)
    assert most <= (power(finest, alpha, shift) - price * finest).max() + 1e-4 * (1 + price * (high - low))


def test_a_free_level_costs_nothing_where_its_worth_is_finite():
    gain = gain_of_power(np.array([0.0, 1.0]), 2.0, 0.0, np.inf)
    assert gain.most.tolist() == [1.0, -1.0] and gain.cost.tolist() == [0.0, 1.0]
    assert gain_of_power(np.array([0.0]), 0.5, 0.0, np.inf).most[0] == np.inf


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_total_is_bounded_at_an_end_of_the_range(worth, cost, low, high):
    low, high = min(low, high), max(low, high)
    most = gain_of_total(np.array([worth]), np.array([cost]), low, high).most[0]
    best = max((worth - cost) * low, (worth - cost) * high)
    assert best - TERM_ROUNDING * (worth + cost) * high <= most <= best + TERM_ROUNDING * (worth + cost) * high


@given(st.lists(st.tuples(NUMBERS, ALPHAS), min_size=1, max_size=3), NUMBERS, NUMBERS)
def test_a_sum_of_powers_gains_no_more_than_its_bound(terms, cost, high):
    made = [Curve(np.array([1.0]), np.array([factor]), alpha) for factor, alpha in terms]
    most = best_response(np.array([cost]), made, np.zeros(1), np.array([high]))[0]
    x = np.linspace(high * 1e-6, high, 2001)
    gains = sum(factor * power(x, alpha) for factor, alpha in terms) - cost * x
    assert gains.max() <= most + 1e-9 * (1 + abs(most))


@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_level_above_lower_bounds_is_what_the_costs_allow(seed):
    rng = np.random.default_rng(seed)
    cost, low = rng.uniform(0.1, 2, 6), rng.uniform(0, 2, 6) * rng.integers(0, 2, 6)
    right = float(cost @ low) + rng.uniform(0, 3)
    level, free = smallest_level(cost, right, low)
    assert cost @ np.maximum(level, low) == pytest.approx(right, rel=1e-12)
    assert (low[free] <= level * (1 + 1e-12)).all() and (low[~free] >= level * (1 - 1e-12)).all()


def test_free_users_have_no_smallest_level():
    assert smallest_level(np.zeros(2), 1.0, np.zeros(2))[0] == np.inf


@pytest.mark.parametrize("unit", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, 5.0, 100.0])
def test_the_gap_of_a_power_mean_does_not_depend_on_the_unit(unit, alpha):
    """Two users of one resource: at the optimal price the gap is rounding, and at 5% more tasks of one it is not."""
    weights, z = np.array([0.25, 0.75]), np.array([0.25, 0.75]) ** (0.0) * 0.5
    log_price = -alpha * np.log(z * unit)
    log_paid = np.log(weights @ z) + np.log(unit) + log_price[0]
    assert fair_gap(weights, z * unit, log_price, alpha, 0.0, np.inf, log_paid) <= 1e-13
    other = z * np.array([1.3, 0.9])
    assert fair_gap(weights, other * unit, log_price, alpha, 0.0, np.inf, log_paid) >= 1e-3


def full_by_lower_bounds(n: int) -> fo.Instance:
    rng = np.random.default_rng(n)
    return fo.Instance(rng.uniform(0.5, 2, (n, 1)), [10.0], weights=rng.uniform(0.5, 2, n))


def test_prices_of_any_size_are_optimal_where_lower_bounds_fill_a_resource_but_large_ones_prove_nothing():
    policy = fo.Policy(fo.AlphaFair(1), [fo.SharingIncentive()])
    program = Program(full_by_lower_bounds(2), policy.objective, policy.constraints)
    users = AlphaFairPool(Pool(program, fo.DominantShare()), 1.0)

    def gap(price: float) -> float:
        log_prices = np.log(np.array([price]))
        users.pool.each(users.settling(log_prices))
        evidence = PoolPrices(users.pool, Dual(np.exp(log_prices), unit=users.level))
        return gate.judge(program, Proposal("prices", users.tasks, evidence)).gap

    assert gap(1e13) > 1e-3 and gap(1e3) <= 1e-11
    lowered = smallest_prices(users, 1.0, np.log(np.array([1e13])), np.array([0]))
    assert np.exp(lowered[0]) < 100 and gap(float(np.exp(lowered[0]))) <= 1e-13


@pytest.mark.parametrize("alpha", [0.5, 1, 2, 5])
@pytest.mark.parametrize("n", [2, 5, 300])
def test_own_slices_that_fill_a_pool_are_proved_by_prices(n, alpha):
    a = fo.Policy(fo.AlphaFair(alpha), [fo.SharingIncentive()]).allocate(full_by_lower_bounds(n))
    assert a.certificate.method == "prices" and a.certificate.gap <= 1e-9


def test_lower_bounds_that_fill_shards_are_proved_by_smaller_prices():
    demands = np.ones((400, 1))
    a = fo.allocate_sharded(
        fo.Policy(fo.AlphaFair(0.5), [fo.MinTasks(1 / 400)]), [demands[:250], demands[250:]], capacities=[1.0]
    )
    assert a.certificate.ok


def test_a_power_with_factor_zero_moves_no_best_response():
    one, half = np.ones(2), np.array([0.5, 0.5])
    factors = ((np.array([2.0, 0.0]), 1.0), (half, 0.5), (np.array([0.0, 2.0]), 1.0))
    terms = [Curve(one, factor, alpha) for factor, alpha in factors]
    most = best_response(np.full(2, 0.25), terms, np.zeros(2), np.full(2, 40.0))
    x = np.linspace(1e-3, 40, 40_001)
    best = (2 * power(x, 1.0) + 0.5 * power(x, 0.5) - 0.25 * x).max()
    assert most == pytest.approx([best, best], rel=1e-6) and (most >= best - 1e-9).all()
