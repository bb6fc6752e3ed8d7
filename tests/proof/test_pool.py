"""Certificates on one pool: a lie is never certified, the bound is that of the Lagrangian, and parts add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from oracle.instances import log_uniform, pools

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.certificate import within_tolerance
from fairopt.instance.parts import window
from fairopt.proof import dual_bound, lagrangian
from fairopt.proof.pool_gaps import (
    AlphaFairSums,
    Bottlenecks,
    Feasibility,
    alpha_fair_sums,
    bottlenecks,
    combined,
    corrections,
    first_full,
)
from fairopt.solve.form import pool_users
from fairopt.solve.form.pool_users import Pool
from fairopt.solve.form.program import Program
from fairopt.solve.pool.alpha_fair import AlphaFairPool, find_prices

ALPHAS = (0.1, 0.5, 0.95, 1.0, 1.05, 2.0, 5.0, 20.0)
SHARES = (fo.DominantShare(), fo.Tasks(), fo.PNormShare(2))


class Solved:
    """An instance with its prices, and what the evidence says about tasks and prices."""

    def __init__(self, instance: fo.Instance, alpha: float, share: fo.Share, low: Any = None) -> None:
        floors = [] if low is None else [fo.MinTasks(low)]
        self.alpha, self.share = alpha, share
        self.program = Program(instance, fo.AlphaFair(alpha, share), floors)
        self.pool = Pool(self.program, share)
        users = AlphaFairPool(self.pool, alpha)
        self.level = users.level
        found = find_prices(users, alpha)
        if found is None:
            raise LookupError("no prices found")
        self.log_prices = found.log_prices
        self.pool.each(users.settling(found.log_prices))
        self.tasks = users.tasks

    def worth(self, tasks: np.ndarray, log_prices: np.ndarray | None = None) -> tuple[AlphaFairSums, float]:
        log_prices = self.log_prices if log_prices is None else log_prices
        with np.errstate(all="ignore"):
            found = alpha_fair_sums(self.pool, tasks, log_prices, self.alpha, self.level)
            return found, found.gap(float(np.exp(log_prices) @ self.pool.usable), self.alpha)

    def certifies(self, tasks: np.ndarray, log_prices: np.ndarray | None = None) -> bool:
        found, gap = self.worth(tasks, log_prices)
        return within_tolerance(gap, found.feasible.violation, found.feasible.below_bound)

    def lagrangian(self, log_prices: np.ndarray) -> dual_bound.LagrangianBound:
        """The bound that the cone method would prove at the same prices, which it wants in the majorant's units."""
        objective = self.program.objective
        point = Point(self.program.instance, self.program.pairs.table(self.tasks))
        majorant = objective.majorant(point)
        total, level = point.weights.sum(), point.level(self.share)
        unit = np.log(total) + (1 - self.alpha) * (np.log(level) - np.log(self.level))
        multipliers = lagrangian.Multipliers(np.exp(log_prices - unit), np.zeros(len(self.program.pairs)))
        with np.errstate(all="ignore"):
            return dual_bound.lagrangian_bound(self.program, majorant, objective, multipliers, self.tasks, refine=False)


def solved(data: st.DataObject, alpha: float, floors: bool = False) -> Solved:
    instance = data.draw(pools())
    assume((instance.task_limits > 0).all())
    low = None
    if floors:
        low = np.minimum(instance.tasks_alone[:, 0] / (3 * instance.n_users), instance.task_limits / 2)
    try:
        return Solved(instance, alpha, data.draw(st.sampled_from(SHARES)), low)
    except LookupError:
        reject()


# -- alpha-fairness -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@given(data=st.data(), spread=st.sampled_from([0.0, 0.01, 1.0]))
@settings(max_examples=8)
def test_the_bound_is_that_of_the_lagrangian(alpha: float, data: st.DataObject, spread: float) -> None:
    case = solved(data, alpha, floors=data.draw(st.booleans()))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    log_prices = case.log_prices + spread * rng.normal(size=case.pool.m)
    other = case.lagrangian(log_prices)
    assert other.gap <= case.worth(case.tasks, log_prices)[1] + 1e-9
    # it knows that no user can run more than alone, and may fit a common factor to the prices; then they are the same
    case.pool.high = case.program.most
    _, gap = case.worth(case.tasks, log_prices + np.log(other.factor))
    assert gap == pytest.approx(other.gap, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@given(data=st.data(), spread=st.sampled_from([0.01, 1.0, 30.0]))
@settings(max_examples=7)
def test_prices_that_are_wrong_weaken_the_bound_and_never_break_it(
    alpha: float, data: st.DataObject, spread: float
) -> None:
    case = solved(data, alpha)
    _, best = case.worth(case.tasks)
    assume(best <= 1e-9)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    part = 1e-9 + rng.random()
    less = case.tasks * part  # all users give up as much, and so does the mean
    _, gap = case.worth(less, case.log_prices + spread * rng.normal(size=case.pool.m))
    assert gap >= -np.log(part) - 1e-8


@pytest.mark.parametrize("alpha", ALPHAS)
@given(data=st.data(), factor=st.sampled_from([1 - 1e-5, 0.5, 1e-3]))
@settings(max_examples=7)
def test_tasks_scaled_down_have_the_gap_that_they_give_up(alpha: float, data: st.DataObject, factor: float) -> None:
    case = solved(data, alpha)
    found, best = case.worth(case.tasks)
    assume(best <= 1e-9)
    _, gap = case.worth(case.tasks * factor)
    assert gap == pytest.approx(-np.log(factor), rel=1e-6, abs=2e-9)
    assert not case.certifies(case.tasks * factor)
    with np.errstate(all="ignore"):
        scaled = found.scaled(factor, alpha).gap(float(np.exp(case.log_prices) @ case.pool.usable), alpha)
    assert scaled == pytest.approx(gap, rel=1e-6, abs=2e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@given(data=st.data(), factor=st.sampled_from([1 + 1e-8, 2.0, 1e6]))
@settings(max_examples=7)
def test_tasks_scaled_up_exceed_a_capacity_or_a_limit(alpha: float, data: st.DataObject, factor: float) -> None:
    case = solved(data, alpha)
    found, _ = case.worth(case.tasks * factor)
    full = (case.tasks * factor @ case.program.instance.ratios > 1).any()
    assume(full or (case.tasks * factor > case.program.high).any())
    assert found.feasible.violation >= 0.5 * (factor - 1)
    assert not case.certifies(case.tasks * factor)


@pytest.mark.parametrize("alpha", (0.5, 1.0, 2.0))
@pytest.mark.parametrize("seed", range(3))
def test_lies_about_tasks_and_prices_are_not_certified(alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = Solved(log_uniform(rng, 40, 3, limits=0.3), alpha, fo.DominantShare())
    assert case.certifies(case.tasks * (1 - 1e-9))
    moved = case.tasks.copy()
    moved[0] *= 0.98
    for tasks in (rng.permutation(case.tasks), np.roll(case.tasks, 1), case.tasks * 0, moved):
        assert not case.certifies(tasks)
    safe = case.tasks * (1 - 1e-9)
    for prices in (case.log_prices + 0.1, case.log_prices - 0.1, case.log_prices[::-1] + 1, case.log_prices * 0 - 900):
        assert not case.certifies(safe, prices)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("wrong", (np.nan, np.inf, -np.inf))
def test_numbers_that_are_none_are_not_certified(alpha: float, wrong: float) -> None:
    instance = fo.Instance([[1, 4], [3, 1], [0, 2]], [9, 18], task_limits=[None, 1, None])
    for limited in (instance, instance.with_task_limits(None)):
        case = Solved(limited, alpha, fo.DominantShare())
        for j in range(3):
            tasks = case.tasks.copy()
            tasks[j] = wrong
            assert not case.certifies(tasks)
        for i in range(2):
            prices = case.log_prices.copy()
            prices[i] = wrong if wrong != -np.inf else np.nan  # minus infinity is a price of zero, which is one
            assert not case.certifies(case.tasks, prices)
        assert not case.certifies(case.tasks, np.full(2, -np.inf))


@pytest.mark.parametrize("alpha", (0.5, 1.0, 2.0, 3.0))
@pytest.mark.parametrize("size", (1e-30, 1e-15, 1e-3, 1.0))
def test_tasks_below_zero_are_not_certified_however_small(alpha: float, size: float) -> None:
    instance = fo.Instance(np.array([[1, 4], [3, 1], [0, 2]]) / size, [9, 18])
    case = Solved(instance, alpha, fo.DominantShare())
    assert case.certifies(case.tasks * (1 - 1e-12))
    for j in range(3):
        tasks = case.tasks * (1 - 1e-12)
        tasks[j] *= -1
        assert not case.certifies(tasks)
    assert not case.certifies(-case.tasks)


# -- leximin --------------------------------------------------------------------------------------------------


def pool_of(instance: fo.Instance, share: fo.Share | None = None, *constraints: fo.Constraint) -> Pool:
    share = share or fo.DominantShare()
    return Pool(Program(instance, fo.Leximin(share), constraints), share)


def judged(pool: Pool, tasks: np.ndarray, order: Any = None) -> tuple[float, float]:
    with np.errstate(all="ignore"):
        found = bottlenecks(pool, tasks, order)
        return found.gap(pool.usable), found.feasible.violation


def leximin(instance: fo.Instance, share: fo.Share) -> np.ndarray:
    return fo.Policy(fo.Leximin(share)).allocate(instance).tasks


@given(pools(), st.sampled_from(SHARES), st.randoms(use_true_random=False))
def test_the_order_of_resources_is_a_hint_that_cannot_certify_a_lie(
    instance: fo.Instance, share: fo.Share, random: Any
) -> None:
    assume((instance.task_limits > 0).all())
    pool, right = pool_of(instance, share), leximin(instance, share)
    assert judged(pool, right)[0] <= 1e-9
    order = list(range(pool.m))
    random.shuffle(order)
    part = random.choice([0.5, 0.9, 0.999])
    lie = right * part
    at_limit = (right >= instance.task_limits * (1 - 1e-9)).all()
    for hint in (None, order, order[:1], []):
        assert judged(pool, lie, hint)[0] >= (1 - part) * (1 - 1e-9) or (at_limit and not right.any())


@given(pools(), st.sampled_from(SHARES), st.integers(0, 5), st.sampled_from([0.5, 0.9, 0.999]))
def test_the_gap_is_at_least_what_the_poorest_could_gain(
    instance: fo.Instance, share: fo.Share, j: int, part: float
) -> None:
    """One user gives up some: then it, or another, is that far below what the max-min of all is at least."""
    assume((instance.task_limits > 0).all())
    pool, right = pool_of(instance, share), leximin(instance, share)
    j %= instance.n_users
    lie = right.copy()
    lie[j] *= part
    level = share.coefficients(instance) * right / instance.weights
    gap, violation = judged(pool, lie)
    assert violation <= 1e-12
    assert gap > 0  # a user who has less than at the leximin, and no user more, could have more
    if level[j] == level.min():
        assert gap >= (1 - part) * (1 - 1e-9)


@given(pools(), st.sampled_from(SHARES))
def test_who_has_too_much_is_a_gap_or_a_violation(instance: fo.Instance, share: fo.Share) -> None:
    assume((instance.task_limits > 0).all())
    pool, right = pool_of(instance, share), leximin(instance, share)
    for j in range(instance.n_users):
        lie = right.copy()
        lie[j] *= 1.1
        used = lie @ instance.ratios
        lie /= max(1.0, used.max())
        lie = np.minimum(lie, instance.task_limits)
        if np.abs(lie / right - 1).max() < 1e-3:
            continue
        gap, _ = judged(pool, lie)
        assert gap >= 1e-4


def test_what_lower_bounds_hold_makes_no_rest_of_a_capacity_small() -> None:
    """The last user could have twice as much: the rest is all that it has, though little beside the lower bound."""
    floors = fo.Instance([[1], [1]], [1])
    for floor in (0.9, 1 - 2e-7):
        pool = pool_of(floors, fo.Tasks(), fo.MinTasks([floor, 0]))
        gap, violation = judged(pool, np.array([floor, (1 - floor) / 2]))
        assert gap == pytest.approx(1, rel=1e-8) and violation == 0
        gap, _ = judged(pool, np.array([floor, 1 - floor]))
        assert gap <= 1e-9
    both = pool_of(floors, fo.Tasks(), fo.MinTasks([0.3, 0.5]))
    gap, _ = judged(both, np.array([0.3, 0.5]))  # the lowest of those at their bounds could have 2/3 more
    assert gap == pytest.approx(2 / 3)


@pytest.mark.parametrize("limits", (False, True))
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_the_smallest_level_below_its_limit_can_grow_by_no_more_than_the_gap_says(limits: bool, seed: int) -> None:
    """Under lower bounds too: those below their limits all at (1 + gap)^2 times their smallest level do not fit."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    demands = rng.uniform(0.1, 1, (n, m)) * (rng.random((n, m)) < 0.7)
    demands[~demands.any(axis=1), 0] = 1
    high = rng.uniform(0.1, 1, n) if limits else np.full(n, np.inf)
    part = np.where(rng.random(n) < 0.5, 0.1 * rng.random(n) / n, 0)
    part[0] = rng.choice([0, 0.5, 0.89])  # one lower bound may be most of a capacity
    low = np.minimum(part / demands.max(axis=1), high)
    instance = fo.Instance(demands, np.ones(m), task_limits=high)
    constraints = [fo.MinTasks(low)] if low.any() else []
    pool = pool_of(instance, fo.Tasks(), *constraints)
    right = fo.Policy(fo.Leximin(fo.Tasks()), constraints).allocate(instance).tasks
    tasks = np.maximum(right * np.where(rng.random(n) < 0.5, 1, rng.choice([1e-3, 0.5, 0.999], n)), low)
    gap, _ = judged(pool, tasks)
    below = tasks < high * (1 - 1e-9)
    if below.any() and np.isfinite(gap):
        asked = (1 + gap) ** 2 * tasks[below].min() * (1 + 1e-6)
        wanted = np.maximum(tasks, np.where(below, asked, 0))
        assert (wanted > high).any() or (wanted @ demands).max() > 1


@pytest.mark.parametrize("wrong", (np.nan, np.inf, -np.inf, -1e-10, -1.0))
def test_levels_that_are_none_or_below_zero_are_not_certified(wrong: float) -> None:
    instance = fo.Instance([[1, 4], [3, 1], [0, 2]], [9, 18], task_limits=[None, 1, None])
    for limited in (instance, instance.with_task_limits(None)):
        right = leximin(limited, fo.DominantShare())
        for j in range(3):
            lie = right.copy()
            lie[j] = wrong
            for order in (None, [0, 1], [1, 0], [0]):
                gap, violation = judged(pool_of(limited), lie, order)
                assert not within_tolerance(gap, violation, 0.0)


def test_a_user_below_zero_is_no_bargain_for_the_others() -> None:
    instance = fo.Instance([[1e10], [1e10]], [1])  # tasks are so few that the smallest slip would be within 1e-9
    gap, violation = judged(pool_of(instance), np.array([-1e-10, 2e-10]))
    assert not within_tolerance(gap, violation, 0.0)


def test_max_min_is_judged_by_the_tasks_and_not_by_the_level_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairopt.solve.pool import waterfilling

    honest = waterfilling.find_events

    def lying(users: Any, usable: Any) -> Any:  # all levels, and what is said about them, are half of the right ones
        found = honest(users, usable)
        assert found is not None
        half = tuple(event._replace(level=event.level / 2) for event in found.events)
        return type(found)(half, found.prices)

    monkeypatch.setattr(waterfilling, "find_events", lying)
    instance = fo.Instance([[1, 4], [3, 1]], [9, 18])
    for objective in (fo.MaxMin(), fo.Leximin()):
        with pytest.raises(fo.errors.NotCertified):
            fo.Policy(objective).allocate(instance, method="water-filling")


# -- feasibility, and parts put together ----------------------------------------------------------------------


def test_violations_are_relative_and_the_largest() -> None:
    instance = fo.Instance([[1, 0], [0, 1], [1, 1]], [10, 20], task_limits=[4, None, None])
    pool = pool_of(instance, None, fo.MinTasks([0, 2, 0]))

    def at(*tasks: float) -> Feasibility:
        return bottlenecks(pool, np.array(tasks, dtype=float)).feasible

    assert at(4, 2, 6).violation == 0
    assert at(5, 2, 0).violation == pytest.approx(0.25)
    assert at(0, 22, 0).violation == pytest.approx(0.1)
    assert at(4, 2, 8).violation == pytest.approx(0.2)
    assert at(4, 1, 0).below_bound == pytest.approx(0.5)
    assert at(0, 2, 0).below_bound == 0
    np.testing.assert_allclose(at(4, 2, 6).load, [1.0, 0.4])


@given(pools(), st.integers(0, 99), st.sampled_from([1.0, 1.5, 1e3]))
def test_the_repair_makes_capacities_hold_whatever_the_order_of_summing(
    instance: fo.Instance, seed: int, size: float
) -> None:
    assume((instance.task_limits > 0).all())
    rng = np.random.default_rng(seed)
    pool = pool_of(instance.with_task_limits(None))
    tasks = size * rng.random(instance.n_users) * instance.tasks_alone[:, 0]
    found = bottlenecks(pool, tasks).feasible
    factor = found.factor(pool.usable, pool.n)
    assert factor <= 1
    used = (tasks * factor) @ pool.instance.ratios
    assert used.max() <= 1 + 4e-16
    assert found.scaled(factor).violation == 0
    if (tasks @ pool.instance.ratios).max() < 1 - 1e-12:
        assert factor == 1


@pytest.mark.parametrize("cut", (0, 1, 17, 40))
@pytest.mark.parametrize("limits", (0.0, 0.4))
def test_parts_judged_apart_and_put_together_are_the_whole(cut: int, limits: float) -> None:
    instance = log_uniform(np.random.default_rng(cut), 40, 3, limits=limits)
    alpha, share = 2.0, fo.DominantShare()
    case = Solved(instance, alpha, share)
    whole, _ = case.worth(case.tasks)
    tasks = leximin(instance, share)
    pool = pool_of(instance)
    of_levels = bottlenecks(pool, tasks, range(3))
    worths, levels = [], []
    for rows in (slice(0, cut), slice(cut, 40)):
        n = rows.stop - rows.start
        if n == 0:
            worths.append(AlphaFairSums.empty(3))
            levels.append(Bottlenecks.empty(3))
            continue
        part = Pool(Program(window(instance, rows), fo.AlphaFair(alpha, share), ()), share)
        worths.append(alpha_fair_sums(part, case.tasks[rows], case.log_prices, alpha, case.level))
        levels.append(bottlenecks(part, tasks[rows], range(3)))
    together = combined(worths)
    spent = float(np.exp(case.log_prices).sum())
    np.testing.assert_allclose(together.feasible.load, whole.feasible.load, rtol=1e-13)
    assert together.weight == pytest.approx(whole.weight, rel=1e-13)
    assert together.value == pytest.approx(whole.value, rel=1e-13)
    assert together.gain == pytest.approx(whole.gain, rel=1e-13)
    assert together.gap(spent, alpha) == pytest.approx(whole.gap(spent, alpha), abs=1e-12)
    of_all = combined(levels)
    np.testing.assert_array_equal(of_all.top, of_levels.top)
    np.testing.assert_array_equal(of_all.least, of_levels.least)
    assert of_all.unstopped == of_levels.unstopped
    if 0 < cut < 40:
        assert of_all.lowest == of_levels.lowest
    assert of_all.gap(pool.usable) == pytest.approx(of_levels.gap(pool.usable), abs=1e-13)


@pytest.mark.parametrize("size", (192, 1_000))
def test_the_size_of_chunks_does_not_matter(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = log_uniform(np.random.default_rng(1), 2_000, 3, limits=0.2)
    case = Solved(instance, 0.5, fo.DominantShare())
    whole, gap = case.worth(case.tasks)
    monkeypatch.setattr(pool_users, "CHUNK", size)
    parts, same = case.worth(case.tasks)
    assert parts.value == pytest.approx(whole.value, rel=1e-13)
    assert same == pytest.approx(gap, abs=1e-12)
    tasks = leximin(instance, fo.DominantShare())
    assert judged(pool_of(instance), tasks)[0] <= 1e-12


@pytest.mark.parametrize("above", [0.0, 1e-10], ids=["at the bound", "above it by rounding"])
def test_users_at_a_lower_bound_do_not_hide_what_others_could_gain(above: float) -> None:
    least = 1 - 1e-6  # of the first user, which leaves a millionth to the second one
    program = Program(fo.Instance([[1.0], [1.0]], [1.0]), fo.Leximin(), [fo.MinTasks([least, 0.0])])
    pool = Pool(program, fo.DominantShare())
    right, poor = np.array([least * (1 + above), 1e-6 - least * above]), np.array([least * (1 + above), 1e-7])
    assert bottlenecks(pool, poor).gap(pool.usable) == pytest.approx(9, rel=1e-2)
    assert bottlenecks(pool, right).gap(pool.usable) == pytest.approx(above * 1e6, rel=1e-2, abs=1e-9)


def test_what_levels_owe_counts_where_a_user_needs_a_trace_of_it() -> None:
    e, trace = 2.0**-40, 2.0**-42
    instance = fo.Instance([[1, 0], [2.0**-20, 1], [0, trace]], [1 - e + 2.0**-20, 1 + 1.5 * trace])
    program = Program(instance, fo.Leximin(fo.Tasks()), ())
    pool = Pool(program, fo.Tasks())

    def gap(tasks: np.ndarray, *cuts: int) -> float:
        order, parts = first_full(pool, tasks), []
        for rows in np.split(np.arange(3), cuts):
            of = Pool(Program(window(instance, rows), program.objective, ()), fo.Tasks())
            parts.append((of, tasks[rows], bottlenecks(of, tasks[rows], order)))
        found = combined([part for _, _, part in parts])
        assert found.has_small_holdings(pool.usable)
        adjustments = [corrections(of, some, order, found.least) for of, some, _ in parts]
        return found.gap(pool.usable, combined(adjustments))

    fair, answer = fo.Policy(fo.Leximin(fo.Tasks())), np.array([1 - e, 1, 1.5])
    for cuts in ((), (1,), (1, 2)):
        assert gap(answer, *cuts) == pytest.approx(8 / 3, rel=1e-3)
    right = fair.allocate(instance)
    assert right.certificate.ok
    np.testing.assert_allclose(right.tasks, [1, 1, 5.5], rtol=1e-5)
    assert gap(right.tasks) < 1e-6
    sharded = fo.allocate_sharded(fair, [instance.demands.reshape(3, 2)], capacities=instance.capacities[0])
    assert sharded.certificate.ok
    np.testing.assert_allclose(sharded.tasks(0), right.tasks, rtol=1e-3)
