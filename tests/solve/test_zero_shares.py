"""Shares that are zero for some users: limits, floors and totals are defined there, against programs in fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle.exact_cluster import Cluster, Worth
from oracle.exact_lp import NoPoint, dot, leximin, maximise, smallest
from oracle.instances import cluster
from scipy.optimize import linprog

import fairopt as fo
from fairopt.blocks.shares import PART, nobody_has
from fairopt.proof.dual_bound import lagrangian_bound
from fairopt.proof.lagrangian import Multipliers
from fairopt.solve.form.program import Program

CLOSE = 2e-6  # of a value: twice the tolerated gap
SHARE = fo.ResourceShare(2)


def instance_of(seed: int, kind: str) -> fo.Instance:
    """A random instance on which about half of the users need nothing of the last resource, in places or at all."""
    rng = np.random.default_rng(seed)
    servers = 1 if kind == "pool" else int(rng.integers(2, 4))
    drawn = cluster(rng, int(rng.integers(2, 5)), servers, 3, by_server=kind == "by server")
    demands = np.array(drawn.demands)
    demands[rng.random(demands.shape[:-1]) < 0.5, -1] = 0.0
    demands[..., 0] += ~demands.any(axis=-1)
    return drawn.replace(demands=demands)


def exactly(instance: fo.Instance) -> tuple[Cluster, Worth]:
    """The instance in fractions, and shares of the last resource."""
    limits = instance.task_limits.tolist()
    exact = Cluster(
        instance.demands, instance.capacities, instance.weights.tolist(), limits, instance.eligible, instance.counts
    )
    return exact, [[row[-1] / exact.total[-1] for row in rows] for rows in exact.demands]


def added(forms: list[list[Fraction]]) -> list[Fraction]:
    """The sum of linear forms."""
    return [sum(column, Fraction(0)) for column in zip(*forms, strict=True)]


def check(exact: Cluster, answer: fo.Allocation, forms: list[list[Fraction]], best: Fraction) -> None:
    """Feasible, certified, and of the best value."""
    assert answer.certificate.ok and exact.excess(answer.tasks_by_server) <= 1e-9
    assert_allclose(float(dot(added(forms), exact.at(answer.tasks_by_server))), float(best), rtol=CLOSE, atol=1e-12)


def check_prices(exact: Cluster, answer: fo.Allocation, goal: list[Fraction], best: Fraction) -> None:
    """Prices are what a little more of each capacity is worth."""
    assert answer.prices is not None
    for row, price in enumerate(answer.prices.ravel().tolist()):
        (form, value), more = exact.rows[row], Fraction(1, 10**9)
        gain = maximise(goal, [*exact.rows[:row], (form, value + more), *exact.rows[row + 1 :]]).value - best
        assert_allclose(price, float(gain / more), rtol=1e-6, atol=1e-7)


CASES = [(kind, seed) for kind in ("pool", "servers", "by server") for seed in range(4)]


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_totals_sums_and_levels_of_a_share_that_is_zero_for_some_are_exact(kind: str, seed: int) -> None:
    instance = instance_of(seed, kind)
    exact, worth = exactly(instance)
    forms = exact.forms(worth, per_weight=False)
    if not any(map(any, forms)):
        with pytest.raises(fo.errors.OutOfDomain, match="zero for every user"):
            fo.Policy(fo.Total(SHARE)).allocate(instance)
        return
    best = maximise(added(forms), exact.rows).value
    for objective in (fo.FairnessEfficiency(1, 2, SHARE), fo.AlphaFair(0, SHARE), fo.Total(SHARE)):
        answer = fo.Policy(objective).allocate(instance)
        check(exact, answer, forms, best)
        assert not answer.certificate.assumed  # by prices, not by the dual of CVXPY's cone program
    uncoupled = kind == "servers" and not np.isfinite(instance.task_limits).any()  # each server by itself
    assert answer.certificate.method == ("linear" if uncoupled or instance.merged().n_servers == 1 else "cone")
    check_prices(exact, answer, added(forms), best)

    tasks = exact.forms(exact.tasks(), per_weight=False)
    both = [[a + 2 * b for a, b in zip(x, y, strict=True)] for x, y in zip(forms, tasks, strict=True)]
    answer = fo.Policy(fo.Total(SHARE) + 2 * fo.Total(fo.Tasks())).allocate(instance)
    check(exact, answer, both, maximise(added(both), exact.rows).value)

    level = float(best) * 0.7
    rows = [*exact.rows, ([-v for v in added(forms)], -Fraction(level))]
    answer = fo.Policy(fo.Total(fo.Tasks()), [fo.Total(SHARE) >= level]).allocate(instance)
    check(exact, answer, tasks, maximise(added(tasks), rows).value)
    with pytest.raises(fo.errors.Infeasible):
        fo.Policy(fo.Total(fo.Tasks()), [fo.Total(SHARE) >= float(best) * 1.01]).allocate(instance)

    weights = instance.weights[exact.users]
    answer = fo.Policy(fo.Total(SHARE).then(fo.MaxMin(fo.Tasks()))).allocate(instance)
    per_weight = exact.forms(exact.tasks())
    highest = smallest(per_weight, [*exact.rows, ([-v for v in added(forms)], -best)])
    check(exact, answer, forms, best)
    assert_allclose(float(min(answer.tasks[exact.users] / weights)), float(highest), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_limits_and_floors_on_a_share_that_is_zero_for_some_are_exact(kind: str, seed: int) -> None:
    instance = instance_of(seed + 100, kind)
    exact, worth = exactly(instance)
    rng = np.random.default_rng(seed)
    forms = exact.forms(worth, per_weight=False)
    high = rng.choice([0.0, 0.05, 0.2], size=instance.n_users)
    low = [float(0.3 * high[j]) if any(form) else 0.0 for j, form in zip(exact.users, forms, strict=True)]
    rows = [*exact.rows, *((form, Fraction(high[j])) for j, form in zip(exact.users, forms, strict=True))]
    rows += [([-v for v in form], -Fraction(least)) for form, least in zip(forms, low, strict=True)]
    blocks = [
        fo.MaxShare(dict(zip(instance.users, high.tolist(), strict=True)), SHARE),
        fo.MinShare({instance.users[j]: least for j, least in zip(exact.users, low, strict=True)}, SHARE),
    ]
    tasks, per_weight = exact.forms(exact.tasks(), per_weight=False), exact.forms(exact.tasks())
    try:
        best = maximise(added(tasks), rows)
    except NoPoint:
        with pytest.raises(fo.errors.Infeasible):
            fo.Policy(fo.Total(fo.Tasks()), blocks).allocate(instance)
        return
    check(exact, fo.Policy(fo.Total(fo.Tasks()), blocks).allocate(instance), tasks, best.value)
    if kind == "by server" and not high.all():  # a limit of 0 on some servers only is beyond the proof of leximin
        return
    answer = fo.Policy(fo.Leximin(fo.Tasks()), blocks).allocate(instance)
    levels = [float(level) for level in leximin(per_weight, rows)]
    assert answer.certificate.ok
    assert_allclose(np.sort((answer.tasks / instance.weights)[exact.users]), np.sort(levels), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("seed", [4, 5, 9, 10, 13, 14])
def test_prices_bound_a_total_whose_share_is_zero_on_some_servers(seed: int) -> None:
    instance, rng = instance_of(seed, "by server"), np.random.default_rng(seed)
    exact, worth = exactly(instance)
    best = float(maximise(added(exact.forms(worth, per_weight=False)), exact.rows).value)
    program = Program(instance, fo.Total(SHARE), ())
    nothing, _ = program.zero_point()
    majorant = program.objective.majorant(program.point(nothing))
    assert majorant is not None
    for _ in range(20):
        prices = rng.uniform(0, 3, size=program.instance.capacities.size) * rng.integers(0, 2)
        multipliers = Multipliers(prices, np.zeros(len(program.pairs)))
        bound = lagrangian_bound(program, majorant, program.objective, multipliers, nothing).value
        assert best <= bound * majorant.unit < np.inf


def test_many_pools_at_once_add_up_shares_that_are_zero_for_some() -> None:
    pools = [instance_of(seed + 200, "pool") for seed in range(60)]
    pools = [p for p in pools if p.n_users == 3 and (p.demands[p.task_limits > 0, 2] > 0).any()]
    assert len(pools) > 5
    many = fo.allocate_many(
        fo.Policy(fo.Total(SHARE)),
        [p.demands for p in pools],
        [p.total_capacities for p in pools],
        task_limits=[p.task_limits for p in pools],
    )
    assert many.ok.all() and not many.one_by_one.any()
    for pool, tasks in zip(pools, many.tasks, strict=True):
        exact, worth = exactly(pool.replace(capacities=pool.total_capacities, counts=None))
        forms = exact.forms(worth, per_weight=False)
        found = dot(added(forms), exact.at(tasks[:, None]))
        assert_allclose(float(found), float(maximise(added(forms), exact.rows).value), rtol=CLOSE)
    with pytest.raises(fo.errors.OutOfDomain, match=r"every user of instance 1 .* has ResourceShare\(2\) = 0"):
        fo.allocate_many(fo.Policy(fo.Total(SHARE)), [[[1, 0, 1]], [[1, 1, 0]]], [4, 4, 4])
    with pytest.raises(fo.errors.OutOfDomain, match=r"instance 0, user 1 .* has ResourceShare\(2\) = 0"):
        fo.allocate_many(fo.Policy(fo.Leximin(SHARE)), [[[1, 0, 1], [1, 1, 0]]], [4, 4, 4])


def test_a_large_pool_where_few_users_have_any_share() -> None:
    rng = np.random.default_rng(3)
    demands = rng.uniform(0.5, 2.0, size=(4_000, 3))
    demands[rng.random(4_000) < 0.9, 2] = 0.0
    demands[::50] = [0.0, 1.0, 0.0]  # of what has no price
    rooms = [60, 6_000, 200]  # the share of the third is scarce by the first
    instance = fo.Instance(demands, rooms)
    answer = fo.Policy(fo.Total(SHARE), [fo.MinTasks(0.002)]).allocate(instance)
    some = demands[:, 2] > 0
    room = np.array(rooms) - 0.002 * demands.sum(axis=0)
    least = 0.002 * demands[some, 2].sum() / 200
    best = linprog(-demands[some, 2] / 200, demands[some].T, room, method="highs")
    assert answer.certificate.ok and answer.certificate.method == "linear"
    assert_allclose(answer.objective, least - best.fun, rtol=CLOSE)
    with pytest.raises(fo.errors.OutOfDomain, match="zero for every user"):
        fo.Policy(fo.Total(SHARE)).allocate(fo.Instance(demands * [1, 1, 0], rooms))


def test_a_total_that_nobody_adds_to_is_refused_by_its_program_whatever_solves_it() -> None:
    pool = fo.Instance([[1, 2, 0], [2, 1, 0]], [4, 4, 4])
    for objective in (fo.Total(SHARE), fo.AlphaFair(0, SHARE), fo.Total(fo.Tasks()) + fo.Total(SHARE)):
        with pytest.raises(fo.errors.OutOfDomain, match="zero for every user"):
            Program(pool, objective, ())
    Program(pool, fo.MaxMin(SHARE), ())  # which is refused by whatever reads the users
    problem = fo.MostTasks().problem(pool)
    problem.solve(solver="CLARABEL")
    for ask in (
        lambda p: p.allocate(pool),
        lambda p: p.allocate(pool, method="cone"),
        lambda p: p.certify(problem, pool),
    ):
        with pytest.raises(fo.errors.OutOfDomain, match="'user1' has a zero"):
            ask(fo.Policy(fo.MaxMin(SHARE)))


def test_users_are_looked_at_up_to_the_first_who_has_some_of_a_share() -> None:
    asked: list[int] = []

    def per_task(self: fo.Share, instance: fo.Instance) -> Any:
        asked.append(instance.n_users)
        return instance.demands[:, 2]

    kind = type("Third", (fo.Share,), {"per_task": per_task, "by_row": True})
    share: Any = dataclass(frozen=True, repr=False)(kind)()
    some = np.zeros((2 * PART + 5, 3))
    some[:, 0] = some[PART, 2] = 1.0
    many = fo.Instance(some, [9, 9, 9])
    assert not nobody_has(share, many)
    assert asked == [PART, PART]
    assert nobody_has(share, many.with_demands(some * [1, 1, 0]))
    assert asked == [*[PART] * 4, 5]


def test_users_in_shards_may_have_no_share_that_is_limited() -> None:
    rng = np.random.default_rng(4)
    demands = rng.uniform(0.5, 2.0, size=(40, 3))
    demands[::2, 2] = 0.0
    policy = fo.Policy(fo.Leximin(), [fo.MaxShare(0.01, SHARE)])
    parts = fo.allocate_sharded(policy, [demands[:25], demands[25:]], capacities=[30, 30, 30])
    whole = policy.allocate(fo.Instance(demands, [30, 30, 30]))
    assert_allclose(np.concatenate([parts.tasks(0), parts.tasks(1)]), whole.tasks, rtol=1e-9)
    assert whole.share(SHARE).max() <= 0.01 * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["pool", "servers", "by server"])
def test_prepared_read_saved_and_whole_answers_take_zero_shares(kind: str, tmp_path: Path) -> None:
    instance = instance_of(17, kind)
    policies = [fo.Policy(fo.Total(SHARE)), fo.Policy(fo.AlphaFair(1), [fo.MaxShare(0.5, SHARE)])]
    for policy in policies:
        answer = policy.allocate(instance)
        again = policy.prepare(instance).allocate(capacities=2 * instance.capacities)
        doubled = policy.allocate(instance.replace(capacities=2 * instance.capacities))
        assert_allclose(again.objective, doubled.objective, rtol=CLOSE)
        problem = policy.problem(instance)
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        assert_allclose(policy.certify(problem, instance).objective, answer.objective, rtol=1e-5)
        answer.save(tmp_path / "answer.json")
        assert fo.Allocation.load(tmp_path / "answer.json").certificate.ok
        whole = policy.allocate(instance, integral="rounded")
        assert whole.certificate.ok and whole.certificate.whole


def test_rounding_hands_out_what_is_left_to_users_of_no_share_last() -> None:
    cluster = fo.Instance([[1, 1], [1, 0]], [5.5, 5.5])
    for integral in (True, "rounded"):
        policy = fo.Policy(fo.Total(fo.ResourceShare(1)), [fo.MaxTasks({"user1": 3.5})])
        tasks = policy.allocate(cluster, integral=integral).tasks
        assert tasks.tolist() == [3, 2]


@pytest.mark.parametrize("kind", ["pool", "servers"])
def test_derivatives_of_a_total_are_right_where_a_share_is_zero(kind: str) -> None:
    demands, rooms = [[2, 1, 1], [1, 3, 0], [1, 0, 2]], [[6, 9, 50]] if kind == "pool" else [[6, 9, 50], [5, 2, 50]]
    instance = fo.Instance(demands, rooms)
    (exact, worth), more = exactly(instance), 1e-5
    found = fo.sensitivity(fo.Policy(fo.Total(SHARE)).allocate(instance)).capacities.welfare
    best = maximise(added(exact.forms(worth)), exact.rows).value
    for s, i in np.ndindex(*instance.capacities.shape):
        room = np.array(instance.capacities)
        room[s, i] += more
        other, of = exactly(instance.replace(capacities=room))
        gain = float(maximise(added(other.forms(of)), other.rows).value - best) / more
        assert np.isnan(found[s, i]) or abs(found[s, i] - gain) <= 1e-4
    assert not np.isnan(found).all()


def test_tasks_that_are_worth_nothing_and_cost_nothing_have_no_derivative() -> None:
    answer = fo.Policy(fo.Total(SHARE)).allocate(fo.Instance([[1, 0, 1], [0, 1, 0]], [4, 5, 9]))
    found = fo.sensitivity(answer).capacities
    assert np.isnan(found.tasks).all() and "several" in str(found.reason[0, 0])
