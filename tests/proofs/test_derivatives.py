"""Prices as derivatives, with the coefficients of shares held: from both sides, and of every level of a leximin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from oracle.instances import pools
from scipy.optimize import linprog

import fairopt as fo


@dataclass(frozen=True, repr=False)
class Held(fo.Share):
    """Coefficients by user that do not move with capacities."""

    c: tuple[float, ...]

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return np.array(self.c)


def largest_total(instance: fo.Instance, capacities: np.ndarray) -> float:
    found = linprog(
        -np.ones(instance.n_users), instance.demands.T, capacities,
        bounds=[(0, None if np.isinf(t) else t) for t in instance.task_limits], method="highs",
    )  # fmt: skip
    return -float(found.fun)


def test_a_user_at_its_limit_sets_no_price() -> None:
    a = fo.Policy(fo.Total(fo.Tasks())).allocate(fo.Instance([[3], [1]], [9], task_limits=[2, None]))
    np.testing.assert_allclose([a.prices, a.prices_left], 1.0, rtol=1e-9)


def test_more_capacity_is_worth_nothing_where_a_limit_holds_the_level_and_less_costs() -> None:
    a = fo.Policy(fo.MaxMin(fo.Tasks())).allocate(fo.Instance([[4], [5]], [9], task_limits=[1, 2]))
    np.testing.assert_allclose(a.prices, 0.0, atol=1e-12)
    np.testing.assert_allclose(a.prices_left, 1 / 9, rtol=1e-9)


@pytest.mark.parametrize("policy", [fo.FDS(1), fo.FDS(2), fo.NoFairness(), fo.Policy(fo.MaxMin())], ids=repr)
def test_of_two_identical_full_resources_neither_is_worth_more_by_itself(policy: fo.Policy) -> None:
    a = policy.allocate(fo.Instance([[1, 1], [2, 2]], [4, 4]))
    np.testing.assert_allclose(a.prices, 0.0, atol=1e-9)
    assert (a.prices_left > 0.01).all()


def test_a_later_level_may_fall_as_capacity_grows() -> None:
    """With one more unit of the first resource user 2 goes from 9 to 8.75."""
    a = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance([[4, 1], [0, 1]], [4, 10]))
    first, second = a.level_prices
    assert (first.level, first.users) == (pytest.approx(1), ("user1",))
    np.testing.assert_allclose(first.prices, [[0.25, 0]], atol=1e-12)
    assert (second.level, second.users) == (pytest.approx(9), ("user2",))
    np.testing.assert_allclose(second.prices, [[-0.25, 1]], rtol=1e-9)


def test_an_ordered_sum_has_a_price_on_a_full_resource() -> None:
    instance = fo.Instance([[2, 3], [2, 1]], [6, 4])
    a = fo.Policy(fo.OrderedWeighted((3, 1), fo.Tasks())).allocate(instance)
    above = [
        fo.Policy(fo.OrderedWeighted((3, 1), fo.Tasks())).allocate(instance.with_capacities(c)).objective
        for c in ([6 + 1e-4, 4], [6, 4 + 1e-4])
    ]
    np.testing.assert_allclose(a.prices[0], (np.array(above) - a.objective) / 1e-4, atol=1e-5)
    assert a.prices.max() > 0.1


@given(pools(max_users=4, max_resources=3))
@settings(max_examples=60, deadline=None)
def test_prices_of_a_total_are_its_derivatives_from_both_sides(instance: fo.Instance) -> None:
    assume((instance.task_limits > 0).any())
    a = fo.NoFairness().allocate(instance)
    c, step = instance.capacities[0], 1e-6
    here = largest_total(instance, c)
    for i in range(instance.n_resources):
        more, less = (largest_total(instance, c + s * step * np.eye(len(c))[i]) for s in (1, -1))
        assert a.prices[0, i] == pytest.approx((more - here) / step, abs=1e-6 * max(here, 1) + 1e-6)
        assert a.prices_left[0, i] == pytest.approx((here - less) / step, abs=1e-6 * max(here, 1) + 1e-6)


@given(pools(max_users=4, max_resources=3))
@settings(max_examples=40, deadline=None)
def test_prices_of_the_first_level_are_its_derivatives_from_the_right(instance: fo.Instance) -> None:
    assume((instance.task_limits > 0).all())
    share = Held(tuple(instance.dominant_shares.tolist()))
    policy, step = fo.Policy(fo.Leximin(share)), 1e-6
    a = policy.allocate(instance)
    c = instance.capacities[0]
    first = fo.DRF().allocate(instance)
    for i in range(instance.n_resources):
        more = policy.allocate(instance.with_capacities(c + step * np.eye(len(c))[i])).objective
        assert first.prices[0, i] == pytest.approx((more - a.objective) / step, abs=1e-6)
        assert first.level_prices[0].prices[0, i] == pytest.approx(first.prices[0, i], abs=1e-9)
