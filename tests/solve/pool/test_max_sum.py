"""The largest total on one pool against exact fractions and HiGHS, and on hard instances."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.instances import log_uniform, pools
from scipy.optimize import linprog

import fairopt as fo
from fairopt.errors import Infeasible
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.pool_gaps import total_sums
from fairopt.solve.dispatch import best
from fairopt.solve.form.pool_users import Pool
from fairopt.solve.form.program import Program
from fairopt.solve.pool import max_sum
from fairopt.solve.settings import Settings
from fairopt.solve.table import TABLE

Float = np.ndarray
SHARES = {
    "tasks": fo.Tasks(),
    "dominant": fo.DominantShare(),
    "two dominant": fo.KDominantShare(2, short="positive"),
    "sum of ratios": fo.PNormShare(1),
}


def applies(program: Program) -> bool:
    """Whether the table has the method for a program."""
    return any(method.name == "linear" and method.applies(program, Settings()) for method in TABLE)


def solve(instance: fo.Instance, objective: fo.Objective, *constraints: fo.Constraint) -> JudgedPoint:
    """The answer of the method."""
    program = Program(instance, objective, constraints)
    assert applies(program), "'linear' does not apply"
    with np.errstate(all="ignore"):
        return best(program, max_sum.solve_max_sum(program, Settings()))


def by_duality(program: Program, share: fo.Share) -> float:
    """The largest total in exact fractions: the least of the dual over all corners of the prices.

    The dual is convex and straight between the planes on which a price is zero, or a task costs its share.
    """
    instance = program.instance
    m, users = instance.n_resources, range(instance.n_users)
    whole = [Fraction(c) for c in instance.capacities[0]]
    ratios = [[Fraction(d) / c for d, c in zip(row, whole, strict=True)] for row in instance.demands]
    worth = [Fraction(c) for c in share.coefficients(instance).tolist()]
    usable = [Fraction(u) for u in program.usable.tolist()]
    low = [Fraction(v) for v in program.low.tolist()]
    high = []
    for j in users:
        alone = min(u / g for u, g in zip(usable, ratios[j], strict=True) if g)
        limit = float(program.high[j])
        high.append(alone if limit == np.inf else min(alone, Fraction(limit)))

    def dual(prices: list[Fraction]) -> Fraction:
        remains = [worth[j] - sum(g * p for g, p in zip(ratios[j], prices, strict=True)) for j in users]
        gain = sum(max(r * a, r * b) for r, a, b in zip(remains, low, high, strict=True))
        return gain + sum(p * u for p, u in zip(prices, usable, strict=True))

    planes = [([Fraction(i == k) for i in range(m)], Fraction(0)) for k in range(m)]
    planes += [(ratios[j], worth[j]) for j in users]
    corners = (corner(list(chosen)) for chosen in combinations(planes, m))
    return float(min(dual(p) for p in corners if p is not None and min(p) >= 0))


def corner(planes: list[tuple[list[Fraction], Fraction]]) -> list[Fraction] | None:
    """Where planes meet, if in one point: Gauss and Jordan."""
    rows = [[*left, right] for left, right in planes]
    m = len(rows)
    for k in range(m):
        pivot = next((i for i in range(k, m) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(m):
            if i != k:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
    return [row[m] for row in rows]


def by_highs(program: Program, share: fo.Share) -> float:
    """The largest total by a solver that sees all users at once."""
    c = share.coefficients(program.instance)
    unit = float(np.median(c))
    bounds = np.column_stack([program.low, program.high])
    found = linprog(-c / unit, program.instance.ratios.T, program.usable, bounds=bounds, method="highs-ds")
    return -float(found.fun) * unit


def assert_right(answer: JudgedPoint, value: float, tolerance: float = 1e-12) -> None:
    """Certified, within capacities to the last digit, and as large as it can be."""
    assert answer.ok and answer.violation == 0
    assert answer.gap <= tolerance
    assert answer.value == pytest.approx(value, rel=tolerance, abs=1e-300)


@pytest.mark.parametrize("name", SHARES)
@given(instance=pools(max_users=4, max_resources=3))
@settings(max_examples=8)
def test_it_is_the_largest_total_in_exact_fractions(name: str, instance: fo.Instance) -> None:
    share = SHARES[name]
    if name == "two dominant" and instance.n_resources == 1:
        share = fo.DominantShare()
    program = Program(instance, fo.Total(share), ())
    if not program.empty:
        assert_right(solve(instance, fo.Total(share)), by_duality(program, share))


@given(pools(max_users=4, max_resources=3), st.data())
@settings(max_examples=8)
def test_it_is_exact_with_lower_bounds_and_reserves(instance: fo.Instance, data: st.DataObject) -> None:
    floors = data.draw(st.lists(st.integers(0, 4), min_size=instance.n_users, max_size=instance.n_users))
    reserve = fo.Reserve(0, data.draw(st.sampled_from([0.0, 0.25, 1.0])))
    conditions = (fo.MinTasks([f / 16 for f in floors]), reserve)
    try:
        program = Program(instance, fo.Total(fo.Tasks()), conditions)
        fits = program.empty or (
            (program.low @ program.instance.ratios <= program.usable).all() and (program.low <= program.high).all()
        )
        if not fits:
            with pytest.raises(Infeasible):
                solve(instance, fo.Total(fo.Tasks()), *conditions)
        elif not program.empty:
            assert_right(solve(instance, fo.Total(fo.Tasks()), *conditions), by_duality(program, fo.Tasks()))
    except Infeasible:
        assert (np.array(floors)[instance.task_limits == 0] > 0).any()


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("limits", [0.0, 0.5, 1.0])
def test_it_agrees_with_highs_when_few_users_are_looked_at_by_themselves(
    name: str, limits: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(max_sum, "FEW", 30)
    monkeypatch.setattr(max_sum, "MAX_KEPT_USERS", 90)
    rng = np.random.default_rng(7)
    for n, m in ((61, 1), (300, 2), (1000, 4), (3000, 3)):
        instance = log_uniform(rng, n, m, limits=limits, decades=2.0)
        share = SHARES["dominant" if m == 1 else name]
        answer = solve(instance, fo.Total(share))
        assert_right(answer, by_highs(Program(instance, fo.Total(share), ()), share), 1e-9)


@cache
def hard() -> dict[str, tuple[fo.Instance, tuple[fo.Constraint, ...]]]:
    """Extreme ties, scales or bounds, with more users than fit into one program."""
    n, rng = max_sum.MAX_KEPT_USERS + 600, np.random.default_rng(3)
    plain, ones = rng.uniform(1, 10, (n, 4)), np.ones(n)
    some = plain.sum(axis=0) * 0.3
    wide = 10.0 ** rng.uniform(-6, 6, (n, 4))
    integers = rng.integers(1, 5, (n, 4)).astype(float)
    same = np.tile([1.0, 2.0, 3.0, 4.0], (n, 1))
    needless = plain * [1, 1, 0, 1]
    half = plain.copy()
    half[: n // 2, 3] = 0
    misleading = plain.copy()
    misleading[::16, 0] *= 50
    Instance = fo.Instance
    return {
        "all users identical": (Instance(same, [5, 5, 5, 5]), ()),
        "all users identical, with limits": (Instance(same, [n / 2, n, n, 9 * n], task_limits=ones), ()),
        "nearly identical": (Instance(same * (1 + 1e-9 * plain), [n / 2, n, n, 9 * n], task_limits=ones), ()),
        "small integers": (Instance(integers, [n * 0.8, n, n * 0.7, n * 0.9], task_limits=ones), ()),
        "sixteen types": (Instance(np.tile(plain[:16], (n // 16, 1)), some, task_limits=ones[: n // 16 * 16]), ()),
        "every limit binds": (Instance(plain, some * 1e3, task_limits=ones), ()),
        "every limit binds and all is full": (Instance(plain, plain.sum(axis=0), task_limits=ones), ()),
        "one resource": (Instance(plain[:, :1], some[:1], task_limits=ones), ()),
        "a resource no user needs": (Instance(needless, some, task_limits=ones), ()),
        "a resource that is all reserved": (Instance(half, some, task_limits=ones), (fo.Reserve(3, 1.0),)),
        "demands over 12 decades": (Instance(wide, wide.sum(axis=0) * 0.3), ()),
        "demands and limits over 12 decades": (Instance(wide, wide.sum(axis=0) * 0.3, task_limits=wide[::-1, 0]), ()),
        "lower bounds fill everything": (Instance(np.ones((n, 2)), [n, 2 * n]), (fo.MinTasks(1.0),)),
        "lower bounds": (Instance(plain, some), (fo.SharingIncentive(),)),
        "a sample that misleads": (Instance(misleading, misleading.sum(axis=0) * 0.3, task_limits=ones), ()),
        "one user": (Instance([[1.0, 2.0]], [3, 4]), ()),
    }


HARD = [
    "all users identical",
    "all users identical, with limits",
    "nearly identical",
    "small integers",
    "sixteen types",
    "every limit binds",
    "every limit binds and all is full",
    "one resource",
    "a resource no user needs",
    "a resource that is all reserved",
    "demands over 12 decades",
    "demands and limits over 12 decades",
    "lower bounds fill everything",
    "lower bounds",
    "a sample that misleads",
    "one user",
]


WORTH = [fo.Tasks(), fo.DominantShare(), fo.PNormShare(1), fo.ResourceShare(0)]


@pytest.mark.parametrize(("name", "share"), [(name, WORTH[k % 4]) for k, name in enumerate(HARD)])
def test_hard_cases_are_proved_right(name: str, share: fo.Share) -> None:
    instance, constraints = hard()[name]
    answer = solve(instance, fo.Total(share), *constraints)
    assert answer.ok and answer.gap <= 1e-9 and answer.violation == 0
    assert answer.block_violation <= 1e-12


def test_who_needs_what_is_all_reserved_gets_nothing() -> None:
    instance, constraints = hard()["a resource that is all reserved"]
    answer = solve(instance, fo.Total(fo.Tasks()), *constraints)
    assert answer.tasks[instance.demands[:, 3] > 0].max() == 0


def test_prices_are_zero_where_limits_leave_something() -> None:
    instance, _ = hard()["every limit binds"]
    answer = solve(instance, fo.Total())
    assert answer.prices is not None and not answer.prices.any()
    assert np.array_equal(answer.tasks, instance.task_limits)


@pytest.mark.parametrize("limits", [0.0, 1.0])
def test_the_order_of_users_and_the_units_of_resources_change_nothing(limits: float) -> None:
    rng = np.random.default_rng(11)
    instance = log_uniform(rng, 4000, 3, limits=limits, decades=2.0)
    order, units = rng.permutation(4000), np.array([1e-3, 7.0, 1024.0])
    other = fo.Instance(
        instance.demands[order] * units, instance.capacities[0] * units, task_limits=instance.task_limits[order]
    )
    first, second = solve(instance, fo.Total()), solve(other, fo.Total())
    assert second.value == pytest.approx(first.value, rel=1e-12)
    assert second.prices == pytest.approx(first.prices, rel=1e-6, abs=1e-9)


def test_alpha_fairness_at_zero_is_the_total_whatever_the_weights() -> None:
    instance = log_uniform(np.random.default_rng(2), 500, 3, limits=0.5)
    assert len(set(instance.weights)) > 1
    total, fair = solve(instance, fo.Total(fo.Tasks())), solve(instance, fo.AlphaFair(0, fo.Tasks()))
    np.testing.assert_allclose(total.tasks, fair.tasks, rtol=1e-12)
    assert total.value == pytest.approx(fair.value, rel=1e-12)


def test_prices_are_what_more_capacity_is_worth() -> None:
    instance = log_uniform(np.random.default_rng(4), 3000, 3, limits=1.0, decades=1.0)
    answer = solve(instance, fo.Total())
    for i in range(3):
        more = instance.capacities[0] * np.where(np.arange(3) == i, 1 + 1e-7, 1.0)
        second = solve(
            fo.Instance(instance.demands, more, task_limits=instance.task_limits), fo.Total(of_old(instance))
        )
        assert answer.prices is not None and answer.value is not None and second.value is not None
        assert (second.value - answer.value) / 1e-7 == pytest.approx(answer.prices[i], rel=1e-3, abs=1e-4)


def of_old(instance: fo.Instance) -> fo.Share:
    """Dominant shares of an instance, also under other capacities."""
    return _Given(tuple(instance.dominant_shares.tolist()))


@dataclass(frozen=True, repr=False)
class _Given(fo.Share):
    values: tuple[float, ...]

    def per_task(self, instance: fo.Instance) -> Any:
        return np.array(self.values)

    def __repr__(self) -> str:
        return "given shares"


@given(pools(max_users=4, max_resources=3), st.lists(st.integers(0, 5), min_size=3, max_size=3))
@settings(max_examples=10)
def test_no_prices_prove_less_than_the_optimum(instance: fo.Instance, prices: list[int]) -> None:
    program = Program(instance, fo.Total(), ())
    if program.empty:
        return
    pool = Pool(program, fo.DominantShare())
    charged = np.array(prices[: pool.m], dtype=float)
    with np.errstate(all="ignore"):
        found = total_sums(pool, np.zeros(pool.n), charged)
    assert float(charged @ pool.usable) + found.gain >= by_duality(program, fo.DominantShare()) * (1 - 1e-14)
    assert found.gap(float(charged @ pool.usable)) == 1.0


def test_a_linear_program_that_fails_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(max_sum, "_vertex", lambda *_: None)
    answer = solve(fo.Instance([[1, 2], [2, 1]], [4, 4]), fo.Total())
    assert not answer.ok and answer.gap == np.inf
    assert [t.solver for t in answer.tried] == ["linear"]


def test_a_small_program_needs_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("scipy.optimize.linprog")
    answer = solve(fo.Instance([[1, 2], [2, 1]], [4, 4]), fo.Total(fo.Tasks()))
    assert_right(answer, 8 / 3)


def test_a_vertex_that_its_duals_do_not_prove_is_found_again_by_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (0.0, np.nan):
        monkeypatch.setattr(max_sum.Simplex, "run", lambda self, w=wrong: (np.full((2, 1), w), np.zeros((2, 1))))
        one = np.ones(2)
        x, duals = max_sum._vertex(one, np.array([[1.0, 2.0], [2.0, 1.0]]), one, one) or pytest.fail("no vertex")
        assert x == pytest.approx([1 / 3, 1 / 3]) and duals == pytest.approx([1 / 3, 1 / 3])


@pytest.mark.fast_methods
def test_it_is_for_totals_on_one_pool_with_nothing_but_bounds_and_on_servers_without() -> None:
    pool = fo.Instance([[1, 2], [2, 1]], [4, 4])
    servers = fo.Instance([[1, 2], [2, 1]], [[4, 4], [1, 3]])

    def fits(instance: fo.Instance, objective: fo.Objective, *constraints: fo.Constraint) -> bool:
        return applies(Program(instance, objective, constraints))

    assert fits(pool, fo.Total(), fo.MinTasks(0.1), fo.Reserve(0, 0.5)) and fits(pool, fo.AlphaFair(0))
    assert not fits(pool, fo.AlphaFair(0.5)) and not fits(pool, fo.Leximin())
    assert fits(servers, fo.Total()) and not fits(servers, fo.Total(), fo.MinTasks(0.1))
    assert not fits(pool, fo.Total(), fo.EnvyFree()) and not fits(servers, fo.Total(), fo.EnvyFree())


def test_lower_bounds_that_do_not_fit_are_infeasible() -> None:
    with pytest.raises(Infeasible):
        solve(fo.Instance([[1, 2], [2, 1]], [4, 4]), fo.Total(), fo.MinTasks(3))


def test_extra_memory_stays_under_half_of_the_demands() -> None:
    rng = np.random.default_rng(0)
    n = 200_000
    demands = rng.uniform(1, 10, (n, 4))
    program = Program(fo.Instance(demands, demands.sum(axis=0) * 0.3, task_limits=np.ones(n)), fo.Total(), ())
    tracemalloc.start()
    answer = best(program, max_sum.solve_max_sum(program, Settings()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.gap <= 1e-12
    assert peak < demands.nbytes / 2
