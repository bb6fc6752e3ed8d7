"""Batches against exact fractions, independent optima, and the same instances one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import fractions_waterfill as exact
from oracle import optimum
from scipy.optimize import linprog

import fairopt as fo
from fairopt.properties.uncertainty import error_bound
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import progress
from fairopt.scale.many import Allocations, allocate_many
from fairopt.solve.batch import alpha_fair as batch_prices
from fairopt.solve.batch import max_sum
from fairopt.solve.form import many_instances as batch_data

SHARES = {
    "dominant": (fo.DominantShare(), 1),
    "two dominant": (fo.KDominantShare(2, short="positive"), 2),
    "tasks": (fo.Tasks(), None),
}
POLICIES = {
    "DRF": fo.DRF(),
    "2-DF": fo.KDF(2, short="positive"),
    "max-min": fo.Policy(fo.MaxMin()),
    "TSF": fo.TSF(),
    "p-norm": fo.PNormFairness(2, 0.5),
    "Nash": fo.NashWelfare(),
    "FDS 2": fo.FDS(2),
    "GFJ 5": fo.GFJ(5),
    "most tasks": fo.MostTasks(),
    "most shares": fo.Policy(fo.Total()),
}
BY_POLICY = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
TWO = [[40, 8, 8], [8, 5, 1]], [200, 200, 200]


@st.composite
def batches(draw: st.DrawFn, limits: bool = True) -> dict[str, Any]:
    """A few instances of small integers, with zeros, weights, and limits, some of them 0."""
    size, n, m = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(2, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    demands = rng.integers(0, 5, size=(size, n, m)).astype(float)
    demands[..., 0] += ~demands.any(axis=2)
    some = rng.choice([np.inf, np.inf, 0, 0.25, 0.5, 1, 3], size=(size, n)) if limits else np.full((size, n), np.inf)
    return {
        "demands": demands,
        "capacities": rng.integers(1, 25, size=(size, m)).astype(float),
        "weights": rng.integers(1, 4, size=(size, n)).astype(float),
        "task_limits": some,
    }


def one(given_: dict[str, Any], b: int) -> fo.Instance:
    """One instance of a batch, with all users in it."""
    return fo.Instance(**{name: values[b] for name, values in given_.items()})


def leximin(given_: dict[str, Any], b: int, k: int | None) -> np.ndarray:
    """Leximin in exact fractions."""
    demands, capacities = given_["demands"][b].tolist(), given_["capacities"][b].tolist()
    worth = [1] * len(demands) if k is None else exact.dominant(demands, capacities, k)
    found = exact.leximin(demands, capacities, worth, given_["weights"][b].tolist(), given_["task_limits"][b].tolist())
    assert found is not None
    return np.array([float(x) for x in found])


def assert_proved(found: Allocations) -> None:
    assert found.ok.all()
    assert not found.one_by_one.any()
    assert found.violation.max(initial=0.0) == 0


def spread_out(seed: int, size: int, n: int, m: int, decades: float, limits: float = 0.3) -> dict[str, Any]:
    """Log-uniform demands over some decades, some zeros, weights, and limits near the tasks without them."""
    rng = np.random.default_rng(seed)
    demands = 10.0 ** rng.uniform(0, decades, size=(size, n, m)) * (rng.random((size, n, m)) >= 0.2)
    demands[..., 0] += ~demands.any(axis=2)
    capacities = demands.sum(axis=1) * 10.0 ** rng.uniform(-1, 1, size=(size, m)) + 1.0
    reach = 1.0 / (demands / capacities[:, None]).max(axis=2) / n * rng.uniform(0.1, 3.0, size=(size, n))
    return {
        "demands": demands,
        "capacities": capacities,
        "weights": rng.uniform(0.5, 2.0, size=(size, n)),
        "task_limits": np.where(rng.random((size, n)) < limits, reach, np.inf),
    }


# -- right -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHARES)
@given(batches())
def test_water_filling_is_the_exact_leximin(name: str, given_: dict[str, Any]) -> None:
    share, k = SHARES[name]
    found = allocate_many(fo.Policy(fo.Leximin(share)), **given_)
    assert_proved(found)
    for b in range(len(found)):
        np.testing.assert_allclose(found.tasks[b], leximin(given_, b, k), rtol=1e-12, atol=1e-13)


@BY_POLICY
@settings(max_examples=5)
@given(batches())
def test_it_agrees_with_one_by_one(policy: fo.Policy, given_: dict[str, Any]) -> None:
    found = allocate_many(policy, **given_)
    assert_proved(found)
    for b in range(len(found)):
        alone = policy.allocate(one(given_, b))
        if np.any(given_["task_limits"][b] > 0):
            assert found[b].objective == pytest.approx(alone.objective, rel=1e-6, abs=1e-9)
        if found.method != "simplex":  # the largest sum is reached in many ways
            np.testing.assert_allclose(found.tasks[b], alone.tasks, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 1, 2, 5, 20, 100])
@settings(max_examples=7)
@given(batches())
def test_alpha_fairness_is_where_the_optimality_conditions_hold(alpha: float, given_: dict[str, Any]) -> None:
    found = allocate_many(fo.FDS(alpha), **given_)
    assert_proved(found)
    for b in range(len(found)):
        part = given_["task_limits"][b] > 0
        if not part.any():
            continue
        ratios = (given_["demands"][b] / given_["capacities"][b])[part]
        weights, limits = given_["weights"][b][part], given_["task_limits"][b][part]
        try:
            right = optimum.alpha_fair(ratios, ratios.max(axis=1), weights, limits, alpha)
        except optimum.NoPoint:  # the oracle's root finder gives up at extreme alpha
            continue
        level = ratios.max(axis=1) * right / weights
        atol = 1e-5 * level.max() * weights / ratios.max(axis=1)  # a limit that just binds, at no price: 1e-6
        assert (abs(found.tasks[b][part] - right) <= atol).all()


def test_the_last_step_is_proved_where_residuals_stay_above_the_tolerance() -> None:
    """A limit and two resources bind at once; the residual of costs stays at 2.5e-8."""
    found = allocate_many(
        fo.FDS(20), [[[2, 0, 2, 4], [4, 4, 0, 2]]], [19, 2, 9, 3], weights=2, task_limits=[0.5, np.inf]
    )
    assert_proved(found)
    np.testing.assert_allclose(found.tasks, 0.5, rtol=1e-9)


@settings(max_examples=8)
@given(batches(), st.sampled_from([fo.Tasks(), fo.DominantShare()]))
def test_the_largest_sum_is_that_of_a_linear_program(given_: dict[str, Any], share: fo.Share) -> None:
    found = allocate_many(fo.Policy(fo.Total(share)), **given_)
    assert_proved(found)
    for b in range(len(found)):
        worth = share.per_task(one(given_, b))
        bounds = [(0.0, None if np.isinf(t) else t) for t in given_["task_limits"][b]]
        best = linprog(-worth, given_["demands"][b].T, given_["capacities"][b], bounds=bounds)
        assert worth @ found.tasks[b] == pytest.approx(-best.fun, rel=1e-9, abs=1e-12)


def test_table_1_of_000_with_two_units_is_exact() -> None:
    rows = list(product((1, 2), repeat=3))
    demands = np.array(list(product(rows, repeat=3)), dtype=float)
    assert demands.shape == (512, 3, 3)
    for policy, k in ((fo.DRF(), 1), (fo.KDF(2), 2)):
        found = allocate_many(policy, demands, [2, 2, 2])
        assert_proved(found)
        for chosen in combinations_with_replacement(rows, 3):  # in any order of users
            right = exact.leximin(chosen, [2, 2, 2], exact.dominant(chosen, [2, 2, 2], k))
            assert right is not None
            for order in set(permutations(zip(chosen, right, strict=True))):
                (at,) = np.flatnonzero((demands == [row for row, _ in order]).all(axis=(1, 2)))
                np.testing.assert_allclose(found.tasks[at], [float(x) for _, x in order], rtol=1e-14)
    found = allocate_many(fo.MostTasks(), demands, [2, 2, 2])
    assert_proved(found)
    best = {chosen: most_tasks(chosen) for chosen in combinations_with_replacement(rows, 3)}
    right = [float(best[tuple(sorted(map(tuple, instance)))]) for instance in demands.astype(int).tolist()]
    np.testing.assert_allclose(found.tasks.sum(axis=1), right, rtol=1e-14)


def most_tasks(rows: list[tuple[int, ...]]) -> Fraction:
    """The most tasks of three users on two units of three resources, by trying every vertex in fractions."""
    faces = [([Fraction(row[i]) for row in rows], Fraction(2)) for i in range(3)]
    faces += [([Fraction(int(i == j)) for j in range(3)], Fraction(0)) for i in range(3)]
    best = Fraction(0)
    for chosen in combinations(faces, 3):
        x = solved([row for row, _ in chosen], [side for _, side in chosen])
        if x and min(x) >= 0 and all(sum(a * v for a, v in zip(row, x, strict=True)) <= 2 for row, _ in faces[:3]):
            best = max(best, sum(x, Fraction(0)))
    return best


def solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """Cramer's rule for three unknowns."""

    def determinant(a: list[list[Fraction]]) -> Fraction:
        return sum(
            (
                a[0][i] * (a[1][(i + 1) % 3] * a[2][(i + 2) % 3] - a[1][(i + 2) % 3] * a[2][(i + 1) % 3])
                for i in range(3)
            ),
            Fraction(0),
        )

    whole = determinant(matrix)
    if whole == 0:
        return None
    swapped = [[[right[r] if c == k else matrix[r][c] for c in range(3)] for r in range(3)] for k in range(3)]
    return [determinant(a) / whole for a in swapped]


def test_the_averages_of_table_1_of_000_with_three_units() -> None:
    demands = np.array(list(product(product((1, 2, 3), repeat=3), repeat=3)), dtype=float)
    for policy, right in ((fo.MostTasks(), 1.62606), (fo.DRF(), 1.34280), (fo.KDF(2), 1.38720)):
        found = allocate_many(policy, demands, [3, 3, 3])
        assert_proved(found)
        assert round(float(found.tasks.sum(axis=1).mean()), 5) == right


# -- hard cases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_leximin_is_exact_with_demands_over_twelve_decades(seed: int) -> None:
    given_ = spread_out(seed, 20, 6, 4, 12)
    for share, k in SHARES.values():
        found = allocate_many(fo.Policy(fo.Leximin(share)), **given_)
        assert_proved(found)
        for b in range(len(found)):
            np.testing.assert_allclose(found.tasks[b], leximin(given_, b, k), rtol=1e-10)


@pytest.mark.parametrize("decades", [1, 4, 12])
@pytest.mark.parametrize("policy", [fo.FDS(0.01), fo.NashWelfare(), fo.GFJ(2), fo.FDS(100), fo.MostTasks()], ids=str)
def test_few_of_many_random_instances_have_to_be_solved_again(policy: fo.Policy, decades: float) -> None:
    found = allocate_many(policy, **spread_out(3, 500, 6, 4, decades))
    assert found.ok.all()
    assert found.one_by_one.sum() <= 2
    assert found.violation.max() <= 1e-15


@BY_POLICY
def test_identical_users_and_a_resource_that_no_user_needs(policy: fo.Policy) -> None:
    demands = np.tile([3.0, 1.0, 0.0], (4, 7, 1))
    for free in (0.0, 5.0):
        found = allocate_many(policy, demands, [[21, 11, free]] * 4)
        assert_proved(found)
        np.testing.assert_allclose(found.tasks.sum(axis=1), 7, rtol=1e-9)
        if found.method != "simplex":
            np.testing.assert_allclose(found.tasks, 1, rtol=1e-9)


@pytest.mark.fast_methods
@pytest.mark.parametrize("policy", [fo.DRF(), fo.NashWelfare(), fo.FDS(5)], ids=str)
def test_weights_over_six_decades(policy: fo.Policy) -> None:
    weights = 10.0 ** np.random.default_rng(0).uniform(-3, 3, size=(50, 4))
    demands = np.random.default_rng(1).integers(0, 5, size=(50, 4, 3)) + np.eye(1, 3)
    found = allocate_many(policy, demands, [10, 12, 15], weights=weights)
    assert found.ok.all()
    for b in range(0, 50, 10):
        alone = policy.allocate(fo.Instance(demands[b], [10, 12, 15], weights=weights[b]))
        np.testing.assert_allclose(found.tasks[b], alone.tasks, rtol=1e-6, atol=1e-9)


@BY_POLICY
def test_everybody_at_its_limit_leaves_capacity_free(policy: fo.Policy) -> None:
    found = allocate_many(policy, [[[1, 2], [2, 1]]] * 3, [100, 100], task_limits=[3, 4])
    assert_proved(found)
    np.testing.assert_allclose(found.tasks, [[3, 4]] * 3, rtol=1e-9)


@pytest.mark.parametrize("policy", [p for name, p in POLICIES.items() if name != "2-DF"], ids=str)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 3), (3, 1)])
def test_one_user_or_one_resource(policy: fo.Policy, n: int, m: int) -> None:
    demands = np.arange(1.0, 1 + 2 * n * m).reshape(2, n, m)
    found = allocate_many(policy, demands, np.full(m, 10.0))
    assert_proved(found)
    loads = np.einsum("bji,bj->bi", demands, found.tasks) / 10
    np.testing.assert_allclose(loads.max(axis=1), 1, rtol=1e-9)


def test_demands_of_float32_count_as_what_they_are() -> None:
    given_ = spread_out(5, 30, 4, 3, 3)
    small = given_["demands"].astype(np.float32)
    a = allocate_many(fo.FDS(2), **{**given_, "demands": small})
    b = allocate_many(fo.FDS(2), **{**given_, "demands": small.astype(float)})
    assert_proved(a)
    np.testing.assert_allclose(a.tasks, b.tasks, rtol=1e-12)  # counted in float32, they would differ by 1e-7


def test_a_simplex_without_patience_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    given_ = spread_out(6, 200, 6, 4, 2)
    right = allocate_many(fo.MostTasks(), **given_)
    monkeypatch.setattr(max_sum, "PATIENCE", 0)  # Bland's rule from the first pivot on
    found = allocate_many(fo.MostTasks(), **given_)
    assert_proved(found)
    np.testing.assert_allclose(found.tasks.sum(axis=1), right.tasks.sum(axis=1), rtol=1e-12)


# -- padding, order, chunks --------------------------------------------------------------------------------------


@BY_POLICY
@settings(max_examples=5)
@given(batches(), st.sampled_from([0.0, np.nan]))
def test_padding_changes_nothing(policy: fo.Policy, given_: dict[str, Any], filler: float) -> None:
    size, n, m = given_["demands"].shape
    demands = np.full((size, n + 2, m + 1), filler)
    demands[:, 1:-1, :m], demands[:, 1:-1, m] = given_["demands"], 0.0
    weights, limits = np.full((size, n + 2), np.nan), np.zeros((size, n + 2))
    weights[:, 1:-1], limits[:, 1:-1] = given_["weights"], given_["task_limits"]
    capacities = np.concatenate([given_["capacities"], np.zeros((size, 1))], axis=1)
    a = allocate_many(policy, **given_)
    b = allocate_many(policy, demands, capacities, weights=weights, task_limits=limits)
    assert_proved(b)
    assert not b.tasks[:, [0, -1]].any()
    if a.method == "simplex":
        share = policy.objective.share_blocks()[0]
        sums = [[found[k].share(share).sum() for k in range(size)] for found in (a, b)]
        np.testing.assert_allclose(*sums, rtol=1e-10, atol=1e-13)
    elif a.method == "water-filling":
        np.testing.assert_allclose(b.tasks[:, 1:-1], a.tasks, rtol=1e-8, atol=1e-10)
    else:  # optima are flat: both are as near to them as their gaps prove
        for one, other in ((a[k], b[k]) for k in range(size)):
            off = (error_bound(one) + error_bound(other)) * one.tasks
            assert (abs(other.tasks - one.tasks) <= off + 1e-10).all()


@BY_POLICY
def test_neither_the_order_nor_the_chunks_matter(policy: fo.Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    given_ = spread_out(7, 40, 5, 3, 2)
    order = np.random.default_rng(0).permutation(40)
    whole = allocate_many(policy, **given_)
    assert_proved(whole)
    monkeypatch.setattr(batch_data, "CHUNK", 100)
    steps: list[tuple[int, int]] = []
    with progress(lambda what, done, of: steps.append((done, of))):
        parts = allocate_many(policy, **{k: v[order] for k, v in given_.items()})
    np.testing.assert_allclose(parts.tasks, whole.tasks[order], rtol=1e-9, atol=1e-12)
    assert [done for done, _ in steps] == [0, 6, 12, 18, 24, 30, 36, 40]
    assert {of for _, of in steps} == {40}


def test_what_is_given_once_counts_for_every_instance() -> None:
    demands = np.random.default_rng(0).integers(1, 5, size=(6, 3, 2))
    short = allocate_many(fo.DRF(), demands, [6, 7], weights=[1, 2, 3], task_limits=[None, 1, 2])
    full = allocate_many(
        fo.DRF(),
        demands,
        np.tile([6, 7], (6, 1)),
        weights=np.tile([1.0, 2, 3], (6, 1)),
        task_limits=np.tile([np.inf, 1, 2], (6, 1)),
    )
    np.testing.assert_allclose(short.tasks, full.tasks, rtol=8 * np.finfo(float).eps)
    assert (allocate_many(fo.DRF(), demands, [6, 7], weights=2, task_limits=0).tasks == 0).all()


@BY_POLICY
def test_an_empty_batch_and_instances_in_which_no_user_takes_part(policy: fo.Policy) -> None:
    nothing = allocate_many(policy, np.zeros((0, 3, 2)), [1, 1])
    assert len(nothing) == 0
    assert "0 instances" in repr(nothing)
    idle = allocate_many(policy, np.full((2, 2, 2), np.nan), [1, 0], task_limits=0)
    assert_proved(idle)
    assert idle.tasks.tolist() == [[0, 0], [0, 0]]
    assert idle[0].tasks.shape == (0,)


@pytest.mark.parametrize(
    "share",
    [
        fo.KDominantShare(2, rank_weights=[(1, 2, 1), (0.5, 1, 3)]),
        fo.KDominantShare(2, rank_weights={"user1": (1, 2, 1), "user2": (0.5, 1, 3)}),
        fo.KDominantShare(2, rank_weights={"user2": (0.5, 1)}),
        fo.ResourceShare(1),
        fo.PNormShare(3),
        fo.StandAloneShare(),
    ],
    ids=str,
)
def test_a_share_means_what_it_means_for_one_instance(share: fo.Share) -> None:
    demands = np.array([TWO[0], [[8, 5, 1], [40, 8, 8]], [[1, 2, 3], [9, 1, 1]]])
    found = allocate_many(fo.Policy(fo.Leximin(share)), demands, TWO[1], task_limits=[[np.inf, np.inf]] * 2 + [[0, 5]])
    assert_proved(found)
    for b in range(2):
        alone = fo.Policy(fo.Leximin(share)).allocate(fo.Instance(demands[b], TWO[1]))
        np.testing.assert_allclose(found.tasks[b], alone.tasks, rtol=1e-13)


# -- the result --------------------------------------------------------------------------------------------------


def test_one_allocation_of_many_is_an_allocation() -> None:
    found = allocate_many(fo.FDS(2), [TWO[0], [[1, 2, 3], [9, 1, 1]]], TWO[1], task_limits=[[None, None], [0, 4]])
    assert len(found) == 2
    a, alone = found[0], fo.FDS(2).allocate(fo.Instance(*TWO))
    assert a.certificate.ok
    assert a.certificate.method == "prices"
    assert a.objective == pytest.approx(alone.objective, rel=1e-9)
    np.testing.assert_allclose(a.shares, alone.shares, rtol=1e-5)
    assert found[-1].instance.users == ("user2",)  # who takes no part is left out
    assert found[-1].tasks.tolist() == [4]
    assert [len(a.tasks) for a in found] == [2, 1]
    with pytest.raises(IndexError):
        found[2]
    assert repr(found).startswith("<Allocations of 2 instances (2 users x 3 resources) by FDS")


@pytest.mark.parametrize(
    ("policy", "same"),
    [
        (fo.FDS(beta=2, lam=-0.5), fo.FDS(2)),
        (fo.Policy(3.0 * fo.AlphaFair(2)), fo.FDS(2)),
        (fo.Policy(fo.AlphaFair(2) + 0 * fo.Total()), fo.FDS(2)),
        (fo.Policy(fo.AlphaFair(0)), fo.Policy(fo.Total())),
        (fo.Policy(fo.FairnessEfficiency(1, 2)), fo.Policy(fo.Total())),
    ],
    ids=str,
)
def test_the_same_notion_in_other_words_has_the_same_answer(policy: fo.Policy, same: fo.Policy) -> None:
    given_ = spread_out(8, 20, 4, 3, 1)
    np.testing.assert_allclose(allocate_many(policy, **given_).tasks, allocate_many(same, **given_).tasks, rtol=1e-12)


def test_what_cannot_be_proved_at_once_is_solved_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_prices, "STEPS", 6)
    given_ = spread_out(9, 20, 3, 2, 1)
    found = allocate_many(fo.FDS(2), **given_)
    assert 0 < found.one_by_one.sum() < 20
    assert found.ok.all()
    assert "one by one" in repr(found)
    b = int(np.flatnonzero(found.one_by_one)[0])
    assert found[b].certificate.ok
    np.testing.assert_allclose(found.tasks[b], fo.FDS(2).allocate(one(given_, b)).tasks, rtol=1e-12)


@pytest.mark.parametrize("attached", [True, False])
def test_what_cannot_be_proved_at_all_is_not_ok(monkeypatch: pytest.MonkeyPatch, attached: bool) -> None:
    def refuse(policy: fo.Policy, instance: fo.Instance, **_: Any) -> fo.Allocation:
        tasks = np.full((instance.n_users, 1), 0.1)
        certificate = fo.Certificate(gap=0.5, violation=0.0, method="cone")
        raise fo.errors.NotCertified(
            "no", best=fo.Allocation(instance, policy, tasks, certificate, 0.0) if attached else None
        )

    monkeypatch.setattr(batch_prices, "STEPS", 0)
    monkeypatch.setattr(fo.Policy, "allocate", refuse)
    found = allocate_many(fo.FDS(2), [TWO[0]], TWO[1])
    assert found.ok.tolist() == [False]
    assert found.gap[0] == (0.5 if attached else np.inf)
    assert found.tasks.tolist() == [[0.1, 0.1] if attached else [0, 0]]
    assert "1 NOT certified" in repr(found)


# -- refused -----------------------------------------------------------------------------------------------------

GOOD = {"demands": np.ones((3, 2, 2)), "capacities": np.full((3, 2), 4.0)}


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("demands", (2, 1, 0), np.nan, r"instance 2, user 1, resource 0 .*: demands is nan; give a finite number >= 0"),
        ("demands", (1, 0, 1), -2.0, r"instance 1, user 0, resource 1 .*: demands is -2; give"),
        ("demands", (1, 0, 1), np.inf, r"instance 1, user 0, resource 1 .*: demands is inf; give"),
        ("demands", (1, 1), 0.0, r"instance 1, user 1 .*its tasks would be unlimited: give it a positive demand"),
        ("capacities", (2, 1), np.nan, r"instance 2, resource 1 .*: capacities is nan; give"),
        ("capacities", (2, 1), -1.0, r"instance 2, resource 1 .*: capacities is -1; give"),
        ("capacities", (2, 1), 0.0, r"instance 2, user 0, resource 1 .*the capacity is 0: give it capacity"),
        ("capacities", (2, 1), 5e-324, r"instance 2, resource 1 .*: capacities is .*count capacities in another unit"),
        ("weights", (1, 1), 1e61, r"instance 1, user 1 .*: weights is 1e\+61; .*count weights in another unit"),
        ("weights", (1, 1), 0.0, r"instance 1, user 1 .*: weights is 0; give a positive finite number"),
        ("weights", (1, 1), np.inf, r"instance 1, user 1 .*: weights is inf; give"),
        ("task_limits", (2, 0), -1.0, r"instance 2, user 0 .*: task_limits is -1; give 0 or more"),
        ("task_limits", (2, 0), np.nan, r"instance 2, user 0 .*: task_limits is nan; give 0 or more"),
    ],
)
def test_a_wrong_number_is_named_with_its_place_and_the_fix(
    name: str, at: tuple[int, ...], value: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_data, "CHUNK", 4)  # one instance at a time: the index is still that of the batch
    given_ = {**GOOD, "weights": np.ones((3, 2)), "task_limits": np.full((3, 2), np.inf)}
    given_[name] = given_[name].copy()
    given_[name][at] = value
    for policy in (fo.DRF(), fo.DRF().with_constraints(fo.EnvyFree())):  # together and one by one
        with pytest.raises(fo.errors.InvalidInstance, match=message):
            allocate_many(policy, **given_)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"demands": np.ones((3, 2))}, r"demands have shape \(3, 2\); give \(n_instances"),
        ({"demands": np.ones((3, 2, 0)), "capacities": []}, "at least one user and one resource"),
        ({"demands": [[[1, "x"]]]}, "cannot be read as numbers"),
        ({"capacities": [1, 2, 3]}, r"capacities have shape \(3,\); give \(3, 2\), \(2,\)$"),
        ({"capacities": 4}, r"capacities have shape \(\)"),
        ({"weights": np.ones((3, 1))}, r"weights have shape \(3, 1\); give \(3, 2\), \(2,\) or a number"),
        ({"task_limits": [1, 2, 3]}, r"task_limits have shape \(3,\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(fo.errors.InvalidInstance, match=message):
        allocate_many(fo.DRF(), **{**GOOD, **wrong})


def test_a_share_that_is_not_defined_names_the_user() -> None:
    demands = np.ones((3, 2, 2))
    demands[1, 1, 0] = 0.0
    with pytest.raises(fo.errors.OutOfDomain, match=r"instance 1, user 1 .*KDominantShare\(2\) = 0.*short='positive'"):
        allocate_many(fo.KDF(2), demands, [4, 4])
    assert allocate_many(fo.KDF(2), demands, [4, 4], task_limits=[[9, 9], [9, 0], [9, 9]]).ok.all()
    assert allocate_many(fo.KDF(2, short="positive"), demands, [4, 4]).ok.all()
    with pytest.raises(fo.errors.OutOfDomain, match="k is larger"):
        allocate_many(fo.KDF(3), demands, [4, 4])


@dataclass(frozen=True, repr=False)
class Own(fo.Share):
    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return np.ones(instance.n_users)


@dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    def expression(self, model: fo.blocks.Model) -> cp.Expression:
        return cp.sum(cp.sqrt(model.tasks))


@pytest.mark.parametrize(
    "policy",
    [
        fo.Policy(fo.Leximin(), [fo.EnvyFree()]),
        fo.Policy(fo.OrderedWeighted((2, 1))),
        fo.Policy(fo.AlphaFair(1) + fo.Total()),
        fo.Policy(fo.MaxMin().then(fo.Total())),
        fo.FDS(beta=2, lam=-1),
        fo.Policy(Roots()),
        fo.NaivePerServer(fo.DRF()),
    ],
    ids=str,
)
def test_other_policies_are_solved_one_by_one(policy: fo.Policy) -> None:
    given_ = spread_out(4, 3, 3, 2, 1)
    found = allocate_many(policy, **given_)
    assert found.ok.all() and found.one_by_one.all() and found.asked.all() and found.method == "one by one"
    for b in range(3):
        np.testing.assert_allclose(found.tasks[b], policy.allocate(one(given_, b)).tasks, rtol=1e-6)
        assert found[b].certificate.ok and found[b].policy == policy
    assert "all certified" in repr(found) and repr(found).endswith(", one by one>")


@dataclass(frozen=True, repr=False)
class Half(fo.Share):
    """Half of what a task takes of the scarcest resource, and 1 unit of a resource of any capacity."""

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return instance.ratios.mean(axis=-1) + 1.0 / instance.capacities.sum()


@pytest.mark.parametrize("policy", [fo.Policy(fo.Leximin(Half())), fo.Policy(fo.AlphaFair(2, Half()))], ids=str)
def test_a_share_of_ones_own_is_solved_together_at_the_capacities_as_given(policy: fo.Policy) -> None:
    given_ = spread_out(5, 20, 4, 3, 1)
    found = allocate_many(policy, **given_)
    assert found.ok.all() and not found.one_by_one.any()
    for b in range(20):
        np.testing.assert_allclose(found.tasks[b], policy.allocate(one(given_, b)).tasks, rtol=1e-6)


def test_a_policy_with_an_allocate_of_its_own_is_asked_itself() -> None:
    class Favoured(fo.Policy):
        def allocate(self, instance: fo.Instance, **options: Any) -> fo.Allocation:
            return super().allocate(instance.with_weights([2.0, 1.0]), **options)

    found = allocate_many(Favoured(fo.DRF().objective), [[[1, 1], [1, 1]]], [3, 3])
    np.testing.assert_allclose(found.tasks, [[2, 1]])


def test_what_has_no_answer_is_named_by_place_and_the_others_stand() -> None:
    held = fo.Policy(fo.MostTasks().objective, [fo.MinTasks(2)])
    found = allocate_many(held, [[[1.0], [1.0]], [[1.0], [9.0]], [[2.0], [1.0]]], [[6.0]] * 3)
    assert found.ok.tolist() == [True, False, True]
    assert list(found.failures) == [1] and isinstance(found.failures[1], fo.errors.Infeasible)
    assert found.tasks[1].tolist() == [0, 0] and "1 without an answer: see failures" in repr(found)
    with pytest.raises(fo.errors.Infeasible):
        found[1]
    assert found[2].tasks.tolist() == pytest.approx([2, 2])


def test_one_by_one_an_answer_is_certified_if_its_certificate_says_so() -> None:
    whole = allocate_many(fo.SequentialMinMax(fo.DominantShare()), [[[1.0], [1.5]]], [4.0])
    assert whole.ok.all() and whole.gap.max() > 1e-6

    class Breaks:
        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            answer = fo.DRF().allocate(instance)
            return replace(answer, certificate=replace(answer.certificate, block_violation=1.0))

    assert not allocate_many(Breaks(), **GOOD).ok.any()


@pytest.mark.parametrize("answer", [None, fo.DRF().allocate(fo.Instance([[1.0]], [2.0]))])
def test_an_answer_that_is_none_of_the_instance_is_refused(answer: Any) -> None:
    class Stray:
        def allocate(self, instance: fo.Instance) -> Any:
            return answer

    with pytest.raises(fo.errors.InvalidBlock, match=r"Stray answered instance 0 .*return an Allocation"):
        allocate_many(Stray(), **GOOD)


def test_what_is_not_a_policy_is_refused() -> None:
    with pytest.raises(fo.FairoptError, match="not a policy"):
        allocate_many("drf", **GOOD)


def test_at_the_time_limit_what_was_done_is_kept_and_the_rest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    demands = np.random.default_rng(1).integers(1, 9, (40_000, 3, 3))
    late = iter([False, False, *[True] * 100])
    monkeypatch.setattr(Clock, "late", property(lambda self: next(late)))
    found = fo.allocate_many(fo.DRF(), demands, [20, 20, 20], time_limit=60)
    done = int(found.asked.sum())
    assert 0 < done < 40_000 and found.asked[:done].all()
    assert (found.ok == found.asked).all() and (found.tasks[done:] == 0).all()
    assert f"{40_000 - done} not reached before the time limit, all others certified" in repr(found)


def test_a_batch_takes_a_positive_time_limit_only() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit is 0"):
        fo.allocate_many(fo.DRF(), [[[1, 2]]], [1, 1], time_limit=0)
