"""Prices as derivatives: examples by hand, and exact slopes to the right and to the left of optima found anew."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracle import fractions_waterfill as waterfill
from oracle.brute_leximin import NoPoint, Polytope, leximin
from oracle.instances import cluster, clusters, log_uniform, pools
from oracle.one_sided import Held, curved_sides, held, piecewise_linear, sides
from oracle.optimum import alpha_fair

import fairopt as fo
from fairopt.derivatives import prices as derivatives
from fairopt.derivatives.multipliers import Conditions, MultiplierSet, Ties

PAIR = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
SHARES = [fo.Tasks(), fo.DominantShare(), fo.PNormShare(1)]


def both(policy: fo.Policy, instance: fo.Instance) -> tuple[Any, Any]:
    a = policy.allocate(instance)
    assert a.prices is not None and a.prices_left is not None
    return a.prices, a.prices_left


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_price_of_a_total_is_what_the_last_task_of_the_user_who_gets_more_takes() -> None:
    right, left = both(fo.Policy(fo.Total(fo.Tasks())), fo.Instance([[3], [1]], [9], task_limits=[2, None]))
    assert_allclose([right, left], np.ones((2, 1, 1)), rtol=1e-12)


def test_smallest_share_at_a_limit_rises_with_nothing_and_falls_with_the_resource() -> None:
    right, left = both(fo.Policy(fo.MaxMin(fo.Tasks())), fo.Instance([[4], [5]], [9], task_limits=[1, 2]))
    assert_allclose([right, left], [[[0]], [[1 / 9]]], rtol=1e-9, atol=1e-9)


def test_ordered_weights_on_a_full_resource_at_limits_have_a_price_to_the_left() -> None:
    a = fo.Policy(fo.OrderedWeighted((2, 1), fo.Tasks())).allocate(fo.Instance([[2], [4]], [6], task_limits=[1, 1]))
    assert not a.evidence_prices.any()  # the dual values that the linear program came with
    assert_allclose([a.prices, a.prices_left], [[[0]], [[0.5]]], atol=1e-9)  # the task of 4 units goes, weighted 2


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(1), fo.FDS(2), fo.Policy(fo.MaxMin()), fo.MostTasks()], ids=str)
def test_two_resources_full_for_the_same_users_have_no_price_to_the_right_and_the_whole_to_the_left(
    policy: fo.Policy,
) -> None:
    one = policy.allocate(fo.Instance([[1], [2]], [4]))
    right, left = both(policy, fo.Instance([[1, 1], [2, 2]], [4, 4]))
    assert_allclose(right, np.zeros((1, 2)), atol=1e-9)
    assert_allclose(left, np.repeat(one.prices, 2, axis=1), rtol=1e-7)


def test_a_level_falls_as_capacity_grows_where_an_earlier_one_rises_at_its_cost() -> None:
    a = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance([[4, 1], [0, 1]], [4, 10], users=["few", "many"]))
    first, second = a.level_prices
    assert (first.level, first.users, second.level, second.users) == (1.0, ("few",), 9.0, ("many",))
    assert_allclose(first.prices, [[1 / 4, 0]], atol=1e-12)
    assert_allclose(second.prices, [[-1 / 4, 1]], atol=1e-12)  # 9 to 8.75 as 4 becomes 5
    assert_allclose([first.prices_left, second.prices_left], [first.prices, second.prices], atol=1e-12)
    assert_allclose(a.prices, first.prices)


def test_levels_that_limits_decide_have_zeros_and_those_that_resources_decide_have_not() -> None:
    instance = fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], task_limits=[1.5, None, 1])
    levels = fo.DRF().allocate(instance).level_prices
    assert [found.users for found in levels] == [("user3",), ("user1",), ("user2",)]
    assert not levels[0].prices.any() and not levels[1].prices.any()
    assert_allclose(levels[2].prices, [[1 / 9, 0]])  # 3 cores a task, each a third of the share of 3/9


def test_users_of_one_level_who_part_are_priced_by_the_one_who_gains_least() -> None:
    """Two clusters at the same level by chance: more of one helps one of them, less of it lowers the smallest."""
    instance = fo.Instance([[1], [1]], [[2], [2]], eligible=[[True, False], [False, True]])
    (level,) = fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance).level_prices
    assert level.users == ("user1", "user2")
    assert_allclose(level.prices, [[0], [0]], atol=1e-12)
    assert_allclose(level.prices_left, [[1], [1]], rtol=1e-9)


def test_lower_bounds_that_take_all_make_the_price_to_the_left_infinite() -> None:
    a = fo.Policy(fo.Leximin(fo.Tasks()), [fo.MinTasks([1, 2])]).allocate(fo.Instance([[1], [1]], [3]))
    assert_allclose(a.prices, [[1]])
    assert a.prices_left.tolist() == [[np.inf]]
    assert [found.prices_left.tolist() for found in a.level_prices] == [[[np.inf]], [[np.inf]]]
    assert_allclose([found.prices for found in a.level_prices], [[[1]], [[0]]], atol=1e-9)  # the first catches up


def test_of_a_unit_of_a_reserved_resource_the_rest_counts() -> None:
    instance = fo.Instance([[1, 0], [1, 1]], [8, 6])
    plain = fo.FDS(1).allocate(instance.with_capacities([6, 6]))
    reserved = fo.Policy(fo.AlphaFair(1, fo.Tasks()), [fo.Reserve(0, 0.25)]).allocate(instance)
    assert_allclose(reserved.tasks, plain.tasks, rtol=1e-8)
    assert_allclose(reserved.prices, plain.prices * [0.75, 1], rtol=1e-6)


def test_what_a_server_has_none_of_and_what_no_user_needs_have_no_price() -> None:
    a = fo.NashWelfare().allocate(fo.Instance([[1, 1, 0], [1, 0, 0]], [[4, 2, 5], [4, 0, 5]]))
    assert a.prices[:, 2].tolist() == [0, 0] == a.prices_left[:, 2].tolist() and a.prices[1, 1] == 0
    assert (a.prices[:, 0] > 0).all()


# -- identical servers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(2), fo.MostTasks(), fo.Policy(fo.MaxMin())], ids=str)
def test_servers_that_are_alike_have_the_price_of_their_row_together_or_apart(policy: fo.Policy) -> None:
    users = [[2, 1], [1, 3], [1, 0]]
    counted = policy.allocate(fo.Instance(users, [[6, 4], [5, 5]], counts=[3, 1], task_limits=[None, 2, 4]))
    apart = policy.allocate(fo.Instance(users, [[6, 4]] * 3 + [[5, 5]], task_limits=[None, 2, 4]))
    for name in ("prices", "prices_left"):
        together = getattr(counted, name)
        assert_allclose(getattr(apart, name), together[[0, 0, 0, 1]], rtol=1e-6, atol=1e-9)
    if counted.level_prices is not None:
        for one, other in zip(counted.level_prices, apart.level_prices, strict=True):
            assert_allclose(other.prices, one.prices[[0, 0, 0, 1]], atol=1e-9)


@dataclasses.dataclass(frozen=True, repr=False)
class ByServer(fo.Share):
    """Worth other amounts on servers that are alike."""

    def per_task(self, instance: fo.Instance) -> Any:
        return np.array([[1.0, 2.0, 4.0], [1.0, 1.0, 4.0]])


def test_a_share_of_ones_own_tells_servers_apart_that_are_alike() -> None:
    instance = fo.Instance([[1], [1]], [[64], [64], [64]])
    tasks = np.array([[0, 64, 24.0], [64, 0, 40.0]])  # 224 each
    a = fo.Allocation(instance, fo.Policy(fo.MaxMin(ByServer())), tasks, fo.Certificate(0, 0, "x"), 224.0)
    # the last server is worth 4 to each: 8 p = 4 (u1 + u2) / 2; the others are worth 2 and 1 to those who use them
    assert_allclose(a.prices, [[0.5], [1.0], [2.0]], rtol=1e-9)
    assert_allclose(a.prices_left, a.prices, rtol=1e-9)


# -- linear programs, exactly ------------------------------------------------------------------------------------------


@st.composite
def questions(draw: st.DrawFn) -> tuple[fo.Instance, Any, list[fo.Constraint], dict[str, Any]]:
    instance = draw(st.one_of(pools(max_users=4, max_resources=3), clusters(max_users=4)))
    limits = np.where(instance.task_limits > 0, instance.task_limits, 1.0)
    instance, n = instance.with_task_limits(limits), instance.n_users
    share = draw(st.sampled_from(SHARES))
    v = sorted(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any)), reverse=True)
    kinds = [fo.Total(share), fo.MaxMin(share), fo.Leximin(share), fo.OrderedWeighted(v, share)]
    held_as: dict[str, Any] = {"low": np.zeros(n), "high": np.full(n, np.inf), "usable": np.ones(instance.n_resources)}
    constraints: list[fo.Constraint] = []
    which = draw(st.sampled_from(["none", "none", "low", "high", "slices", "reserve"]))
    if which == "low":
        held_as["low"] = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))) / 8
        constraints.append(fo.MinTasks(held_as["low"]))
    elif which == "high":
        held_as["high"] = np.array(draw(st.lists(st.integers(1, 8), min_size=n, max_size=n))) / 4
        constraints.append(fo.MaxTasks(held_as["high"]))
    elif which == "slices":
        held_as["low"] = instance.own_slices
        constraints.append(fo.SharingIncentive())
    elif which == "reserve":
        held_as["usable"][0] = 0.7
        constraints.append(fo.Reserve(0, 0.3))
    return instance, draw(st.sampled_from(kinds)), constraints, held_as


@given(questions())
@settings(max_examples=8)
def test_prices_are_the_exact_slopes_of_linear_programs(question: Any) -> None:
    instance, objective, constraints, held_as = question
    try:
        a = fo.Policy(objective, constraints).allocate(instance)
    except fo.errors.Infeasible:
        assume(False)
    capacities = instance.capacities * instance.counts[:, None]
    for s, i in np.ndindex(capacities.shape):
        right, left = sides(lambda c: piecewise_linear(instance, c, objective, **held_as), capacities, s, i)
        unit = abs(a.objective) / capacities[s, i]
        for found, slope in ((a.prices[s, i], right), (a.prices_left[s, i], left)):
            if np.isinf(slope):
                assert np.isinf(found)
            elif not np.isnan(slope):  # a kink nearer than the step tells nothing
                assert abs(found - slope) <= 5e-5 * unit + 1e-5 * abs(slope)


# -- leximin, exactly --------------------------------------------------------------------------------------------------


@given(pools(max_users=5, max_resources=3), st.booleans(), st.data())
@settings(max_examples=8)
def test_prices_of_every_level_are_the_exact_slopes_of_water_filling(
    instance: fo.Instance, of_tasks: bool, data: st.DataObject
) -> None:
    limits = np.where(instance.task_limits > 0, instance.task_limits, 1.0)
    instance, n = instance.with_task_limits(limits), instance.n_users
    demands = instance.demands.astype(int).tolist()
    room = [Fraction(int(c)) for c in instance.capacities[0]]
    c = [Fraction(1)] * n if of_tasks else waterfill.dominant(demands, room)
    w = instance.weights.astype(int).tolist()
    floors = [Fraction(k, 8) for k in data.draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=n, max_size=n))]

    def heights(capacities: list[Fraction]) -> list[Fraction] | None:
        limit = [None if np.isinf(t) else Fraction(t) for t in limits]
        x = waterfill.leximin(demands, capacities, c, w, limit, floors)
        return None if x is None else [t * k / e for t, k, e in zip(x, c, w, strict=True)]

    here = heights(room)
    assume(here is not None)
    assert here is not None
    share = fo.Tasks() if of_tasks else fo.DominantShare()
    constraints = [fo.MinTasks([float(f) for f in floors])] if any(floors) else []
    levels = fo.Policy(fo.Leximin(share), constraints).allocate(instance).level_prices
    distinct = sorted(set(here))
    assert [found.level for found in levels] == pytest.approx([float(z) for z in distinct])
    step = Fraction(1, 10**9)
    for i, sign in itertools.product(range(len(room)), (1, -1)):
        more = [r + sign * step * (k == i) for k, r in enumerate(room)]
        there = heights(more)
        for found, z in zip(levels, distinct, strict=True):
            users = [j for j in range(n) if here[j] == z]
            assert [instance.users[j] for j in users] == list(found.users)
            price = (found.prices if sign > 0 else found.prices_left)[0, i]
            if there is None:
                assert price == np.inf
            else:
                slope = float(sign * (min(there[j] for j in users) - z) / step)
                assert price == pytest.approx(slope, rel=1e-7, abs=1e-7 * float(z / room[i]))


@pytest.mark.parametrize("seed", range(4))
def test_prices_of_every_level_are_the_slopes_of_leximin_on_servers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = cluster(rng, 4, 3, 2, by_server=seed % 4 == 3)
    share = SHARES[seed % 2]
    capacities = instance.capacities * instance.counts[:, None]
    c, step = share.coefficients(instance), 2e-3

    def heights(changed: Any) -> Any:
        polytope = Polytope(np.array(instance.per_server_demands), changed, instance.eligible, instance.task_limits)
        return leximin(polytope, c, instance.weights)

    here = heights(capacities)
    levels = fo.Policy(fo.Leximin(share)).allocate(instance).level_prices
    for (s, i), sign in itertools.product(np.ndindex(capacities.shape), (1, -1)):
        changed = capacities.copy()
        changed[s, i] *= 1 + sign * step
        there = heights(changed)
        for found in levels:
            users = [instance.users.index(u) for u in found.users]
            slope = sign * (there[users].min() - here[users].min()) / (step * capacities[s, i])
            price = (found.prices if sign > 0 else found.prices_left)[s, i]
            assert price == pytest.approx(slope, abs=1e-4 * here.max() / capacities[s, i])


def test_levels_of_many_servers_add_up_to_what_is_paid_for() -> None:
    """Without limits all there is of a level comes from capacities: with all of them larger, levels are too."""
    for seed in range(3):
        instance = log_uniform(np.random.default_rng(seed), 60, 3, servers=8, decades=2)
        for found in fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance).level_prices:
            assert float((found.prices * instance.capacities).sum()) == pytest.approx(found.level, rel=1e-7)
            assert_allclose(found.prices_left, found.prices, atol=1e-7 * np.abs(found.prices).max())


@pytest.mark.parametrize("seed", range(2))
def test_levels_with_many_ties_are_those_of_answers_found_anew(seed: int) -> None:
    instance = cluster(np.random.default_rng(seed), 14, 4, 3)
    c = fo.DominantShare().coefficients(instance)
    policy = fo.Policy(fo.Leximin(Held(tuple(c.tolist()))))
    a, step = policy.allocate(instance), 1e-4
    capacities = instance.capacities * instance.counts[:, None]
    for (s, i), sign in itertools.product(np.ndindex(capacities.shape), (1, -1)):
        changed = np.array(instance.capacities)
        changed[s, i] *= 1 + sign * step
        there = c * policy.allocate(instance.with_capacities(changed)).tasks / instance.weights
        for found in a.level_prices:
            users = [instance.users.index(u) for u in found.users]
            slope = sign * (there[users].min() - found.level) / (step * capacities[s, i])
            price = (found.prices if sign > 0 else found.prices_left)[s, i]
            assert price == pytest.approx(slope, abs=2e-4 * a.level_prices[-1].level / capacities[s, i])


# -- curved objectives, sums and further constraints -------------------------------------------------------------------


@given(pools(max_users=3, max_resources=2), st.sampled_from([0.5, 1.0, 2.0, 4.0]), st.sampled_from(SHARES))
@settings(max_examples=7)
def test_prices_of_alpha_fairness_are_slopes_of_the_search_over_sets_of_scarce_resources(
    instance: fo.Instance, alpha: float, share: fo.Share
) -> None:
    instance = instance.with_task_limits(np.where(instance.task_limits > 0, instance.task_limits, 1.0))
    c, w = share.coefficients(instance), instance.weights

    def value(capacities: Any) -> float:
        x = alpha_fair(instance.demands / capacities, c, w, instance.task_limits, alpha)
        z = c * x / w
        return float(w @ (np.log(z) if alpha == 1 else z ** (1 - alpha) / (1 - alpha)))

    a = fo.Policy(fo.AlphaFair(alpha, share)).allocate(instance)
    size = np.abs(a.prices_left * instance.capacities).max()
    for i in range(instance.n_resources):
        try:
            right, left = curved_sides(lambda c: value(c[0]), instance.capacities, 0, i)
        except NoPoint:  # the search did not come near enough
            continue
        for found, slope in ((a.prices[0, i], right), (a.prices_left[0, i], left)):
            if not np.isnan(slope):
                assert abs(found - slope) <= 2e-4 * size / instance.capacities[0, i] + 1e-4 * abs(slope)


TASKS, DOMINANT = fo.Tasks(), fo.DominantShare()
OBJECTIVES = [
    fo.AlphaFair(2, TASKS),
    fo.FairnessEfficiency(2, -1, DOMINANT),
    fo.FairnessEfficiency(0.5, 2, TASKS),
    fo.FairnessEfficiency(2, -0.5, TASKS),
    fo.FairnessEfficiency(1, 2, TASKS),
    fo.AlphaFair(1, TASKS) + fo.Total(DOMINANT),
    fo.AlphaFair(2, DOMINANT) + fo.MaxMin(TASKS),
    fo.MaxMin(TASKS) + fo.MaxMin(DOMINANT),
    fo.OrderedWeighted((3, 1), DOMINANT) + 0.3 * fo.Total(TASKS),
    fo.OrderedWeighted((2, 1), TASKS) + fo.OrderedWeighted((1, 1, 0), DOMINANT),
    2 * fo.MaxMin(TASKS),
]
CONSTRAINTS: list[fo.Constraint | None] = [
    None,
    fo.EnvyFree(),
    fo.EqualShares(TASKS),
    fo.MinShare(0.05, DOMINANT),
    fo.MaxShare(0.4, DOMINANT),
    fo.Total(TASKS) >= 2,
    fo.AlphaFair(1, TASKS) >= -0.5,
    fo.SharingIncentive(),
    fo.Reserve(0, 0.2),
]


@pytest.mark.parametrize("k", range(len(OBJECTIVES)), ids=[repr(o) for o in OBJECTIVES])
def test_prices_are_slopes_of_answers_found_anew(k: int) -> None:
    """Each objective under some of the constraints, on a pool and on servers with demands by server."""
    pool = fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 12], weights=[1, 2, 1], task_limits=[None, None, 2])
    servers = fo.Instance([[[1, 2], [2, 1]], [[3, 1], [1, 4]]], [[10, 10], [10, 15]], counts=[1, 2], weights=[2, 1])
    checked = 0
    for instance, n in ((pool, k), (servers, k + 5)):
        constraint = CONSTRAINTS[n % len(CONSTRAINTS)]
        constraints = [] if constraint is None else [constraint]
        again = fo.Policy(held(OBJECTIVES[k], instance), [held(c, instance) for c in constraints])
        try:
            a = fo.Policy(OBJECTIVES[k], constraints).allocate(instance)
        except fo.errors.Infeasible:
            continue

        here = again.allocate(instance).objective

        def value(
            capacities: Any, again: fo.Policy = again, instance: fo.Instance = instance, here: float = here
        ) -> float:
            same = (capacities == instance.capacities).all()
            return here if same else again.allocate(instance.with_capacities(capacities)).objective

        size = np.nan_to_num(a.prices_left, posinf=0.0).max() + 1e-3 * abs(a.objective) / instance.capacities.max()
        for s, i in np.ndindex(instance.capacities.shape):
            if (s + i + k) % 2 or s != k // 2 % len(instance.capacities):  # the others with other objectives
                continue
            try:
                slopes = curved_sides(value, instance.capacities, s, i)
            except fo.errors.Infeasible:
                assert np.isinf(a.prices_left[s, i])
                continue
            for found, slope in ((a.prices[s, i], slopes[0]), (a.prices_left[s, i], slopes[1])):
                slope /= instance.counts[s]
                if not np.isnan(slope):
                    assert abs(found - slope) <= 2e-4 * size + 1e-4 * abs(slope), (constraint, s, i, found, slope)
                    checked += 1
    assert checked >= 4


# -- shares ------------------------------------------------------------------------------------------------------------


def equal_share(objective: Any, value: float, weights: Any) -> float:
    """The share per weight that, equal for all, has this value: by trying."""

    def worth(z: float) -> float:
        shares = z * weights
        instance = fo.Instance(np.ones((len(weights), 1)), [1.0], weights=weights)
        point = SimpleNamespace(
            share=lambda block: shares,
            weights_of=lambda block: weights,
            instance=instance,
            level=lambda block: 1.0,
            tasks=shares,
        )
        if isinstance(objective, fo.AlphaFair):
            power = 1 - objective.alpha
            return float(weights.sum() * (np.log(z) if power == 0 else z**power / power))
        return float(type(objective).value(objective, point))

    low, high = 1e-9, 1e9
    for _ in range(200):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if worth(middle) < value else (low, middle)
    return low


@pytest.mark.parametrize(
    "objective",
    [
        fo.Total(),
        fo.AlphaFair(0.5),
        fo.AlphaFair(1, TASKS),
        fo.AlphaFair(3),
        fo.MaxMin(),
        fo.Leximin(TASKS),
        fo.OrderedWeighted((3, 1, 0.5, 7 / 16)),
        fo.FairnessEfficiency(2, -0.5),
        fo.FairnessEfficiency(2, -2),
        fo.FairnessEfficiency(0.5, 3, TASKS),
        fo.FairnessEfficiency(1, 2),
        3 * fo.AlphaFair(2),
    ],
    ids=repr,
)
def test_share_prices_are_slopes_of_the_equal_share_of_the_same_value(objective: Any) -> None:
    instance = fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 12], weights=[1, 2, 3])
    a = fo.Policy(objective).allocate(instance)
    ((_, term),) = objective.summands()
    for i in range(2):
        ends = []
        for sign in (-1, 1):
            changed = np.array(instance.capacities)
            changed[0, i] *= 1 + sign * 1e-4
            b = fo.Policy(held(term, instance)).allocate(instance.with_capacities(changed))
            ends.append(equal_share(term, b.objective, instance.weights))
        slope = (ends[1] - ends[0]) / (2e-4 * instance.capacities[0, i])
        assert a.share_prices[0, i] == pytest.approx(slope, rel=1e-5, abs=1e-7)
    assert a.share_prices.any()


def test_notions_of_one_share_compare() -> None:
    """Where one resource is scarce for all alike, all of them are worth the same in shares."""
    for policy in (fo.DRF(), fo.FDS(0.5), fo.FDS(2), fo.FDS(beta=2, lam=-1), fo.Policy(fo.OrderedWeighted((2, 1)))):
        assert_allclose(policy.allocate(PAIR).share_prices, [[1 / 400, 0, 0]], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("alpha", (200.0, 2000.0))
def test_share_prices_are_numbers_where_the_objective_has_none(alpha: float) -> None:
    instance = PAIR.with_weights([1, 3])
    a = fo.Policy(fo.AlphaFair(alpha)).allocate(instance)
    assert not np.isnan(a.prices).any()
    assert_allclose(a.share_prices, fo.DRF().allocate(instance).share_prices, rtol=1e-2, atol=1e-12)


def test_sums_have_no_share_that_stands_for_them() -> None:
    a = fo.Policy(fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks())).allocate(PAIR)
    with pytest.raises(
        fo.errors.InvalidBlock, match=r"no share corresponds to the value of AlphaFair\(1\) \+ 0.1 \* Total"
    ):
        _ = a.share_prices
    bundles = fo.HFFMRA().allocate(PAIR)
    if bundles.prices is not None:
        with pytest.raises(fo.errors.InvalidBlock, match="decides tasks"):
            _ = bundles.share_prices


# -- what is not known -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    def expression(self, model: Any) -> cp.Expression:
        return cp.sum(cp.sqrt(model.tasks))


@dataclasses.dataclass(frozen=True, repr=False)
class Poorest(fo.Objective):
    def expression(self, model: Any) -> cp.Expression:
        return cp.min(model.tasks)


@dataclasses.dataclass(frozen=True, repr=False)
class AtMostTwice(fo.Constraint):
    def constraints(self, model: Any) -> dict[str, cp.Constraint]:
        return {"at most twice": model.tasks[0] <= 2 * model.tasks[1]}


@dataclasses.dataclass(frozen=True, repr=False)
class InACircle(fo.Constraint):
    def constraints(self, model: Any) -> dict[str, cp.Constraint]:
        return {"in a circle": cp.sum_squares(model.tasks) <= 2}


def test_prices_of_an_objective_of_ones_own_are_the_method_s_if_they_fit() -> None:
    instance = fo.Instance([[1], [4]], [10])  # sqrt(x1) + sqrt(x2) at x = (8, 1/2): x^-1/2 / 2 = d p
    a = fo.Policy(Roots()).allocate(instance)
    assert_allclose(a.prices, [[8**-0.5 / 2]], rtol=1e-4)
    assert a.prices is a.evidence_prices or (a.prices == a.evidence_prices).all()
    for wrong in (None, 0 * a.evidence_prices, 1.1 * a.evidence_prices, np.nan * a.evidence_prices):
        assert dataclasses.replace(a, evidence_prices=wrong).prices is None
    assert a.level_prices is None


def test_prices_of_an_objective_of_ones_own_with_a_kink_lie_between_both_sides() -> None:
    instance = fo.Instance([[4], [5]], [9], task_limits=[1, 2])
    a = fo.Policy(Poorest()).allocate(instance)
    right, left = both(fo.Policy(fo.MaxMin(fo.Tasks())), instance)
    assert a.prices is not None and (right <= a.prices + 1e-9).all() and (a.prices <= left + 1e-9).all()


def test_a_linear_constraint_of_ones_own_is_taken_as_it_is() -> None:
    a = fo.Policy(fo.Total(), [AtMostTwice()]).allocate(fo.Instance([[1], [2]], [8]))
    assert_allclose(a.tasks, [4, 2], rtol=1e-6)  # 1 / 8 and 2 / 8 a task: all the same
    assert_allclose(a.prices, [[1 / 8]], rtol=1e-9)
    b = fo.Policy(fo.Total(fo.Tasks()), [AtMostTwice()]).allocate(fo.Instance([[1], [2]], [8]))
    assert_allclose(b.prices, [[3 / 4]], rtol=1e-9)  # a unit more is 1/2 and 1/4 task


def test_a_curved_constraint_of_ones_own_leaves_the_method_s_prices_if_they_fit() -> None:
    instance = fo.Instance([[1, 1], [1, 2]], [2, 2])
    a = fo.Policy(fo.Total(fo.Tasks()), [InACircle()]).allocate(instance)
    assert a.prices is not None
    wrong = dataclasses.replace(a, evidence_prices=a.evidence_prices + 1.0)
    assert wrong.prices is None
    assert fo.Policy(fo.Leximin(), [InACircle()]).allocate(instance.with_capacities([9, 9])).level_prices is None


def test_a_point_that_is_no_optimum_has_no_prices() -> None:
    best = fo.FDS(1).allocate(PAIR)
    for tasks in ([[2.4], [13.0]], [[2.5], [12.0]], [[1.0], [1.0]]):
        assert dataclasses.replace(best, tasks_by_server=np.array(tasks)).prices is None
    most = fo.MostTasks().allocate(PAIR)
    assert dataclasses.replace(most, tasks_by_server=np.array([[5.0], [0.0]])).prices is None
    lower = dataclasses.replace(fo.DRF().allocate(PAIR), tasks_by_server=np.array([[2.4], [12.0]]))
    assert lower.prices is None and lower.level_prices is None


def test_an_answer_of_a_problem_that_was_changed_has_prices_only_if_the_policy_explains_it() -> None:
    policy = fo.MostTasks()
    problem = policy.problem(PAIR)
    problem.solve(solver="HIGHS")
    assert_allclose(policy.certify(problem, PAIR).prices, [[1 / 8, 0, 0]], atol=1e-9)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(problem.objective, [*problem.constraints, tasks[1] <= 6 * tasks[0]])
    changed.solve(solver="HIGHS")
    assert policy.certify(changed, PAIR).prices is None


def test_mechanisms_and_policies_that_decide_bundles_keep_what_they_have() -> None:
    evidence = np.array([[0.25, 0.5, 0.0]])
    by_hand = SimpleNamespace(name="by hand")
    a = fo.Allocation(PAIR, by_hand, np.ones((2, 1)), fo.Certificate(0, 0, "x"), 0.0, evidence)
    assert a.prices is evidence or (a.prices == evidence).all()
    assert (a.prices_left == evidence).all() and a.level_prices is None
    assert fo.Allocation(PAIR, by_hand, np.ones((2, 1)), fo.Certificate(0, 0, "x"), 0.0).prices is None
    bundles = fo.HFFMRA().allocate(PAIR)
    assert (bundles.prices is None) == (bundles.evidence_prices is None) and bundles.level_prices is None


# -- hints, tiers, numbers ---------------------------------------------------------------------------------------------


def test_prices_need_no_evidence() -> None:
    for policy in (fo.DRF(), fo.FDS(2), fo.MostTasks(), fo.Policy(fo.AlphaFair(1) + fo.Total())):
        a = policy.allocate(PAIR)
        without = dataclasses.replace(a, evidence_prices=None)
        wrong = dataclasses.replace(a, evidence_prices=3 * a.evidence_prices + 1)
        assert_allclose([without.prices, wrong.prices], [a.prices, a.prices], rtol=1e-6, atol=1e-12)


def test_prices_of_tiers_are_those_of_the_first() -> None:
    instance = fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 12])
    for first in (fo.AlphaFair(2), fo.MaxMin(fo.Tasks()), fo.Leximin()):
        alone, tiered = (fo.Policy(o).allocate(instance) for o in (first, first.then(fo.Total(fo.Tasks()))))
        assert_allclose(tiered.prices, alone.prices, rtol=1e-5, atol=1e-7)
    assert [found.users for found in tiered.level_prices] == [found.users for found in alone.level_prices]


def test_users_who_take_no_part_change_no_price() -> None:
    instance = fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 12], task_limits=[None, 0, None])
    for policy in (fo.DRF(), fo.FDS(2), fo.MostTasks()):
        some, those = policy.allocate(instance), policy.allocate(instance.select_users([0, 2]))
        assert_allclose(some.prices, those.prices, rtol=1e-7, atol=1e-12)
        if some.level_prices is not None:
            assert {u for found in some.level_prices for u in found.users} == {"user1", "user3"}
    idle = fo.DRF().allocate(instance.with_task_limits(0))
    assert not idle.prices.any() and idle.level_prices == () and not idle.share_prices.any()


@pytest.mark.fast_methods
def test_a_user_near_its_limit_by_chance_does_not_decide_the_level_of_many() -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    demands = rng.uniform(1, 10, size=(n, 3))
    instance = fo.Instance(demands, demands.sum(axis=0) * 0.3, task_limits=rng.uniform(0.05, 2.0, n))
    a = fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance)
    rising = a.tasks < instance.task_limits * (1 - 1e-9)
    scarce = int(np.argmin(a.leftover[0] / instance.capacities[0]))
    (top,) = [found for found in a.level_prices if found.prices.any()]
    assert len(top.users) == rising.sum()
    assert_allclose(top.prices[0, scarce], 1 / demands[rising, scarce].sum(), rtol=1e-9)
    assert sum(len(found.users) for found in a.level_prices) == n


# -- multipliers -------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=4).filter(any),
    st.lists(st.integers(1, 5), min_size=8, max_size=8),
    st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
)
@settings(max_examples=8)
def test_least_over_a_permutahedron_is_that_over_all_mixtures_of_its_corners(
    weights: list[int], numbers: list[int], bounds: list[int]
) -> None:
    """Users tied on one pool of two resources: prices p with ``d_j p = u_j``, at least or at most at a bound."""
    from scipy.optimize import linprog

    v = np.array(sorted(weights, reverse=True), dtype=float)
    n = len(v)
    demands = np.array(numbers, dtype=float).reshape(4, 2)[:n]
    bound = np.array(bounds[:n])
    own, ones = np.ones(n, dtype=bool), np.ones(n)
    conditions = Conditions(
        demands.T, np.zeros(n), ones, np.arange(n), ones, ones, own, bound < 0, bound > 0, own, np.zeros(2, dtype=bool)
    )
    optimal = MultiplierSet(conditions, [Ties(np.arange(n), v)])
    corners = np.array(list(set(itertools.permutations(v)))).T
    k = corners.shape[1]
    # columns: p (2), mixture (k); d p - corners @ mix (<=, ==, >=) 0 by user
    both_sides = np.hstack([demands, -corners])
    for goal in np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-2, 1]]):
        upper = np.vstack([both_sides[bound > 0], -both_sides[bound < 0]])
        equal = np.vstack([both_sides[bound == 0], np.append(np.zeros(2), np.ones(k))])
        exact = linprog(
            np.append(goal, np.zeros(k)),
            upper if len(upper) else None,
            np.zeros(len(upper)) if len(upper) else None,
            equal,
            np.append(np.zeros((bound == 0).sum()), 1.0),
            method="highs",
        )
        found = optimal.least(goal)
        if exact.status == 2:
            assert found is None
        elif exact.status == 3:
            assert found is not None and found[0] == -np.inf
        else:
            assert found is not None and found[0] == pytest.approx(exact.fun, abs=1e-6)


def test_prices_say_what_they_are_given() -> None:
    found = derivatives.Prices(np.array([[1.0, 0.0]]), np.array([[2.0, np.inf]]), 800.0)
    right, left = found.times(-800.0)
    assert right.tolist() == [[1.0, 0.0]] and left.tolist() == [[2.0, np.inf]]
    assert found.times()[0].tolist() == [[np.inf, 0.0]]


def test_no_price_of_a_first_level_is_below_zero() -> None:
    a = fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], [[10, 10], [5, 8]]))
    assert a.prices is not None and a.prices_left is not None and a.level_prices is not None
    for prices in (a.prices, a.prices_left, a.share_prices, a.level_prices[0].prices, a.level_prices[0].prices_left):
        assert prices is not None and (prices >= 0).all()


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
@pytest.mark.filterwarnings("error")
def test_prices_in_shares_at_large_alpha_do_not_depend_on_units_of_tasks(unit: float) -> None:
    demands = np.array([[1, 2], [3, 1], [1, 1]])
    a = fo.Policy(fo.AlphaFair(300, fo.Tasks())).allocate(fo.Instance(demands * unit, [10, 8]))
    assert a.prices is not None  # of the objective in its own units, which may be zero or infinite
    usual = fo.Policy(fo.AlphaFair(300, fo.Tasks())).allocate(fo.Instance(demands, [10, 8]))
    assert_allclose(a.share_prices * unit, usual.share_prices, rtol=1e-5)
    rates = fo.sensitivity(a).capacities.tasks * unit
    assert_allclose(rates, fo.sensitivity(usual).capacities.tasks, rtol=1e-5)
