"""Water-filling against leximin in exact fractions, and hard cases in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import fractions_waterfill as exact
from oracle.instances import log_uniform, pools

import fairopt as fo
from fairopt.proof.evidence.pool import Bottlenecked, pool_of
from fairopt.proof.gate import judge
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program
from fairopt.solve.pool.waterfilling import fill_leftover

SHARES = {
    "dominant": (fo.DominantShare(), 1),
    "two dominant": (fo.KDominantShare(2, short="positive"), 2),
    "tasks": (fo.Tasks(), None),
}
ROUNDED = 8 * np.finfo(float).eps  # a sum over three users, and the five operations that make tasks of it


def exactly(instance: fo.Instance, k: int | None = 1, floors: Any = None, usable: Any = None) -> np.ndarray | None:
    """Leximin in fractions; zero for users whose limit is zero, who take no part."""
    capacities = instance.capacities[0].tolist()
    worth = [1] * instance.n_users if k is None else exact.dominant(instance.demands.tolist(), capacities, k)
    room = capacities if usable is None else [exact.Fraction(c) * u for c, u in zip(capacities, usable, strict=True)]
    limits, weights = instance.task_limits.tolist(), instance.weights.tolist()
    found = exact.leximin(instance.demands.tolist(), room, worth, weights, limits, floors)
    return None if found is None else np.array([float(x) for x in found])


def assert_close(instance: fo.Instance, tasks: np.ndarray, right: np.ndarray, tolerance: float = 1e-12) -> None:
    """Relative error, and absolute where the share of everything is below one in ten thousand."""
    size = np.maximum(right, 1e-4 / instance.dominant_shares)
    assert np.max(np.abs(tasks - right) / size, initial=0.0) <= tolerance


def by_user(instance: fo.Instance, most: int, part: int) -> st.SearchStrategy[list[float]]:
    """A number by user, from 0 to most / part."""
    n = instance.n_users
    return st.lists(st.integers(0, most).map(lambda k: k / part), min_size=n, max_size=n)


@pytest.mark.parametrize("name", SHARES)
@given(data=st.data())
def test_water_filling_is_the_exact_leximin(name: str, data: st.DataObject) -> None:
    share, k = SHARES[name]
    instance = data.draw(pools().filter(lambda i: k != 2 or i.n_resources > 1))
    a = fo.Policy(fo.Leximin(share)).allocate(instance)
    assert a.certificate.method in ("water-filling", "empty")
    assert_close(instance, a.tasks, exactly(instance, k))


@given(pools(), st.data())
def test_it_is_exact_with_lower_bounds(instance: fo.Instance, data: st.DataObject) -> None:
    floors = data.draw(by_user(instance, 8, 16))
    right = exactly(instance, floors=floors)
    policy = fo.Policy(fo.Leximin(), [fo.MinTasks(floors)])
    if right is None:
        with pytest.raises(fo.errors.Infeasible):
            policy.allocate(instance)
    else:
        assert_close(instance, policy.allocate(instance).tasks, right)


@given(pools(limits=False))
def test_it_is_exact_under_sharing_incentive(instance: fo.Instance) -> None:
    n = instance.n_users
    weights = [exact.Fraction(w) for w in instance.weights.tolist()]
    ratios = exact.dominant(instance.demands.tolist(), instance.capacities[0].tolist())
    slices = [w / sum(weights) / mu for w, mu in zip(weights, ratios, strict=True)]
    a = fo.Policy(fo.Leximin(fo.Tasks()), [fo.SharingIncentive()]).allocate(instance)
    assert a.certificate.method == "water-filling"
    assert_close(instance, a.tasks, exactly(instance, None, floors=slices), 1e-12 * n)


@given(pools(), st.integers(0, 3), st.sampled_from([0.25, 0.5, 0.75]))
def test_it_leaves_a_reserve_free(instance: fo.Instance, i: int, fraction: float) -> None:
    i = i % instance.n_resources
    usable = [exact.Fraction(1 - fraction) if k == i else exact.Fraction(1) for k in range(instance.n_resources)]
    a = fo.Policy(fo.Leximin(), [fo.Reserve(i, fraction)]).allocate(instance)
    assert_close(instance, a.tasks, exactly(instance, usable=usable))


@given(pools(limits=False), st.data())
def test_upper_bounds_are_task_limits_by_another_name(instance: fo.Instance, data: st.DataObject) -> None:
    high = data.draw(by_user(instance, 12, 4))
    a = fo.Policy(fo.Leximin(), [fo.MaxTasks(high)]).allocate(instance)
    assert_close(instance, a.tasks, exactly(instance.with_task_limits(high)))


@given(pools())
def test_max_min_has_the_first_level_of_leximin(instance: fo.Instance) -> None:
    a, b = fo.Policy(fo.MaxMin()).allocate(instance), fo.Policy(fo.Leximin()).allocate(instance)
    assert a.objective == pytest.approx(b.objective, rel=1e-12)


@given(pools(), st.randoms(use_true_random=False))
def test_the_order_of_users_does_not_matter(instance: fo.Instance, random: Any) -> None:
    order = list(range(instance.n_users))
    random.shuffle(order)
    a, b = fo.DRF().allocate(instance), fo.DRF().allocate(instance.select_users(order))
    np.testing.assert_allclose(b.tasks, a.tasks[order], rtol=1e-12, atol=1e-13)


@given(pools(), st.integers(-9, 9), st.integers(-9, 9))
def test_the_units_of_resources_do_not_matter(instance: fo.Instance, p: int, q: int) -> None:
    units = 10.0 ** np.where(np.arange(instance.n_resources) % 2, p, q)
    other = instance.replace(demands=instance.demands * units, capacities=instance.capacities * units)
    a, b = fo.DRF().allocate(instance).tasks, fo.DRF().allocate(other).tasks
    np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_exact_with_demands_over_twelve_decades(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = log_uniform(rng, 30, 4, limits=0.3, decades=12)
    for share, k in SHARES.values():
        a = fo.Policy(fo.Leximin(share)).allocate(instance)
        right = exactly(instance, k)
        np.testing.assert_allclose(a.tasks, right, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_exact_for_sixty_users(seed: int) -> None:
    instance = log_uniform(np.random.default_rng(seed), 60, 4, limits=0.4)
    assert_close(instance, fo.DRF().allocate(instance).tasks, exactly(instance), 1e-12)


def test_capacities_of_1e_minus_9_and_1e15_in_one_instance() -> None:
    instance = fo.Instance([[1e-9, 1e15], [2e-9, 1e13], [1e-12, 3e14]], [1e-9, 1e15])
    np.testing.assert_allclose(fo.DRF().allocate(instance).tasks, exactly(instance), rtol=1e-12)


def test_identical_users_get_the_same() -> None:
    instance = fo.Instance([[3, 1, 2]] * 7, [10, 11, 12])
    tasks = fo.DRF().allocate(instance).tasks
    np.testing.assert_allclose(tasks, 10 / 21, rtol=1e-14)
    assert np.ptp(tasks) == 0


def test_a_resource_that_no_user_needs_changes_nothing() -> None:
    for room in (1, 0):
        tasks = fo.DRF().allocate(fo.Instance([[1, 0], [2, 0]], [6, room])).tasks
        np.testing.assert_allclose(tasks, [3, 1.5], rtol=ROUNDED)


def test_everybody_at_its_limit_leaves_capacity_free() -> None:
    a = fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], [100, 100], task_limits=[3, 4]))
    assert a.tasks.tolist() == [3, 4]
    assert a.prices is not None and not a.prices.any()


def test_one_user_gets_everything() -> None:
    np.testing.assert_allclose(fo.DRF().allocate(fo.Instance([[2, 1]], [6, 10])).tasks, [3], rtol=ROUNDED)


def test_resources_that_fill_together() -> None:
    instance = fo.Instance([[1, 1, 1], [1, 1, 1], [0, 1, 1], [0, 0, 1]], [2, 3, 4])
    np.testing.assert_allclose(fo.DRF().allocate(instance).tasks, exactly(instance), rtol=1e-14)
    same = fo.Instance([[2, 1], [1, 2]], [6, 6])
    np.testing.assert_allclose(fo.DRF().allocate(same).tasks, [2, 2], rtol=ROUNDED)


def test_limits_equal_to_the_bottleneck_level() -> None:
    instance = fo.Instance([[1, 0], [1, 1], [0, 1]], [4, 8], task_limits=[2, 2, 6])
    np.testing.assert_allclose(fo.DRF().allocate(instance).tasks, [2, 2, 6], rtol=ROUNDED)


def test_worked_examples_with_limits_and_with_zeros() -> None:
    limited = fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], task_limits=[1.5, None, 1])
    np.testing.assert_allclose(fo.DRF().allocate(limited).tasks, [3 / 2, 13 / 6, 1], rtol=1e-12)
    zeros = fo.Instance([[2, 0, 1], [1, 3, 0], [0, 2, 0], [0, 0, 1]], [12, 18, 10])
    np.testing.assert_allclose(fo.DRF().allocate(zeros).tasks, [15 / 4, 3, 9 / 2, 25 / 4], rtol=1e-12)


def test_lower_bounds_that_do_not_fit_are_infeasible() -> None:
    instance = fo.Instance([[1, 1], [1, 2]], [4, 4])
    with pytest.raises(fo.errors.Infeasible):
        fo.Policy(fo.Leximin(), [fo.MinTasks([2, 1.5])]).allocate(instance)
    with pytest.raises(fo.errors.Infeasible):
        fo.Policy(fo.Leximin(), [fo.MinTasks(1)]).allocate(instance.with_task_limits([0.5, None]))


def test_lower_bounds_that_just_fit_are_the_answer() -> None:
    instance = fo.Instance([[3], [3], [3]], [1])
    tasks = fo.Policy(fo.Leximin(), [fo.MinTasks(1 / 9)]).allocate(instance).tasks
    np.testing.assert_allclose(tasks, 1 / 9, rtol=ROUNDED)


def test_prices_are_the_derivative_of_the_max_min_level() -> None:
    instance = fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], weights=[1, 2, 3])
    a, step = fo.DRF().allocate(instance), 1e-6
    for i in range(2):
        more = instance.capacities[0].copy()
        more[i] += step
        # shares are of the capacity: hold c_j fixed, so that only what is available changes
        c = fo.DominantShare().per_task(instance)
        level = min(exactly_held(instance, more, c))
        assert a.prices[0, i] == pytest.approx((level - a.objective) / step, rel=1e-4, abs=1e-9)


def exactly_held(instance: fo.Instance, capacities: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Levels of the exact leximin on other capacities, with coefficients held."""
    found = exact.leximin(instance.demands.tolist(), capacities.tolist(), c.tolist(), instance.weights.tolist())
    return np.array([float(x) for x in found]) * c / instance.weights


def test_the_method_is_refused_where_it_is_not_exact() -> None:
    two = fo.Instance([[1, 2]], [[1, 2], [2, 1]])
    linked = fo.Policy(fo.Leximin(), [fo.EqualShares()])
    for policy, instance in ((fo.DRF(), two), (fo.FDS(2), two.pooled()), (linked, two.pooled())):
        with pytest.raises(fo.errors.OutOfDomain):
            policy.allocate(instance, method="water-filling")


def test_lower_bounds_that_exceed_a_capacity_by_rounding_fill_it_and_others_rise() -> None:
    cluster = fo.Instance([[1, 0], [2, 4], [1, 1], [3, 2]], [30, 15])
    low = np.array([6.5, 0.0, 5.0 + 2e-13, 5.0])
    program = Program(cluster, fo.Leximin(fo.Tasks()), ())
    filled = fill_leftover(program, fo.Tasks(), low)
    assert filled is not None
    np.testing.assert_allclose(filled, [10, 0, 5, 5], atol=1e-12)


def test_a_user_whose_lower_bound_is_just_above_a_full_resource_rises_from_there() -> None:
    """Its bound as a quotient and as a product of levels differed in the last digit, and it went to infinity."""
    instance = fo.Instance([[0, 9], [1, 0]], [1, 5], weights=[5, 5.64])
    a = fo.Policy(fo.Leximin(), [fo.MinTasks((0.5, 0))]).allocate(instance, method="water-filling")
    np.testing.assert_allclose(a.tasks, [5 / 9, 1], rtol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_lower_bounds_just_above_full_resources_are_exact(seed: int) -> None:
    """Somebody starts to rise within 3% of the level at which another stops: 32 of 2,930 had no answer."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        n = int(rng.integers(2, 5))
        demands, capacities = np.diag(rng.integers(1, 10, n)), rng.integers(1, 10, n).astype(float)
        if n > 2 and rng.random() < 0.5:
            demands[0, 1] = 1
        weights = np.round(rng.uniform(1, 10, n), 2)
        per_level = weights * capacities / np.diag(demands)
        full = capacities / np.diag(demands) / per_level
        low, last = np.zeros(n), int(np.argmax(full))
        low[last] = per_level[last] * min(full) * (1 + rng.uniform(0, 0.029))
        given = demands.tolist(), capacities.tolist()
        right = exact.leximin(*given, exact.dominant(*given), weights.tolist(), None, low.tolist())
        instance, policy = fo.Instance(*given, weights=weights), fo.Policy(fo.Leximin(), [fo.MinTasks(tuple(low))])
        if right is None:
            with pytest.raises(fo.errors.Infeasible):
                policy.allocate(instance)
        else:
            tasks = policy.allocate(instance, method="water-filling").tasks
            np.testing.assert_allclose(tasks, np.array(right, dtype=float), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("part", [1e-5, 1e-6, 1e-7, 1e-9])
def test_levels_that_rounding_of_lower_ones_moves_are_those_of_fractions(part: float) -> None:
    # each user leaves the next one a part of the resource that fixes it: errors of the first grow by 1 / part^2
    first = np.pi / 3
    demands = [[first, first * (1 - part), 0], [0, 1, (1 - part) / part], [0, 0, 1]]
    pool = fo.Instance(demands, [1, 1, 1], weights=[1, 0.1, part**2])
    answer = fo.DRF().allocate(pool)
    assert answer.certificate.ok
    np.testing.assert_allclose(answer.tasks, exactly(pool), rtol=2e-6 if part == 1e-5 else 1e-14)


def test_a_level_that_rounding_moved_is_not_certified() -> None:
    first, part = np.pi / 3, 1e-6
    demands = [[first, first * (1 - part), 0], [0, 1, (1 - part) / part], [0, 0, 1]]
    pool = fo.Instance(demands, [1, 1, 1], weights=[1, 0.1, part**2])
    answer = fo.DRF().allocate(pool)
    program = Program(pool, fo.Leximin(), ())
    off = answer.tasks * [1, 1, 1 + 1e-5]  # 1e-11 of the resource
    assert judge(program, Proposal("", off, Bottlenecked(pool_of(program)))).gap > 5e-6
