"""Ranges that rows and cones imply hold for all points, and are exact where other variables can be at their ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from fairopt.proof.ranges import Entries, coordinates, implied_ranges, ranges_within_cones
from fairopt.solve.form.compiled import Cones


def test_a_chain_of_rows_bounds_every_variable() -> None:
    """0 <= x <= 2, y <= 3 x, z >= -y and z <= 1 - x, though y has no lower bound."""
    rows = sparse.csr_array([[-3.0, 1.0, 0.0], [0.0, -1.0, -1.0], [1.0, 0.0, 1.0]])
    least, most = implied_ranges(
        Entries.of(rows), np.array([0, 0, 1.0]), np.array([0, -np.inf, -np.inf]), np.array([2, np.inf, np.inf])
    )
    np.testing.assert_allclose(least, [0, -1, -6])
    np.testing.assert_allclose(most, [2, 6, 1])


def test_no_bound_comes_from_a_row_with_two_open_variables() -> None:
    open_ = np.array([-np.inf, -np.inf]), np.array([np.inf, np.inf])
    least, most = implied_ranges(Entries.of(sparse.csr_array([[1.0, 1.0]])), np.ones(1), *open_)
    assert (least == -np.inf).all() and (most == np.inf).all()


@pytest.mark.parametrize("seed", range(20))
def test_no_feasible_point_lies_outside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (5, 4)).astype(float), rng.integers(0, 9, 5).astype(float)
    least, most = np.where(rng.random(4) < 0.5, 0.0, -np.inf), np.where(rng.random(4) < 0.5, 5.0, np.inf)
    low, high = implied_ranges(Entries.of(sparse.csr_array(a)), b, least, most)
    assert (low >= least).all() and (high <= most).all()
    for k in range(4):
        for sign, bound in ((1.0, low[k]), (-1.0, -high[k])):
            found = linprog(sign * np.eye(4)[k], a, b, bounds=list(zip(least, most, strict=True)))
            assert found.status == 3 or found.fun >= bound - 1e-9 * (1 + abs(bound))
            assert found.status != 3 or bound == -np.inf


def test_ranges_of_rows_without_a_point_stay_as_far_as_they_were() -> None:
    """x >= 1 + 2 y and y >= x, x and y >= 0: each round would double them, up to 2^20."""
    rows = Entries.of(sparse.csr_array([[-1.0, 2.0], [1.0, -1.0], [1.0, 1.0]]))
    low, high = implied_ranges(rows, np.array([-1.0, 0.0, 10.0]), np.zeros(2), np.full(2, np.inf))
    assert (low <= high).all() and (high <= 10).all()


def cones(**sizes: Any) -> Any:
    return SimpleNamespace(**({"zero": 0, "nonneg": 0, "soc": [], "psd": [], "exp": 0, "p3d": []} | sizes))


def test_a_logarithm_is_at_most_that_of_the_most_and_an_exponential_at_least_that_of_the_least() -> None:
    """exp(v) <= w with 0 <= w <= 5, then with -1 <= v."""
    rows, one = sparse.csr_array([[-1.0, 0.0], [0.0, 0.0], [0.0, -1.0]]), np.array([0.0, 1.0, 0.0])
    inf = np.inf
    low, high = ranges_within_cones(Entries.of(rows), one, cones(exp=1), np.array([-inf, 0]), np.array([inf, 5.0]))
    np.testing.assert_allclose([low, high], [[-inf, 0], [np.log(5), 5]])
    low, high = ranges_within_cones(Entries.of(rows), one, cones(exp=1), np.array([-1, -inf]), np.array([inf, inf]))
    np.testing.assert_allclose([low, high], [[-1, np.exp(-1)], [inf, inf]])


def test_rows_and_cones_bound_one_another() -> None:
    """|v| <= t with t + w <= 3 and 1 <= w, as exp(0) <= w: t <= 2."""
    s = np.array([[-1, 0, -1], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]], dtype=float)  # of (t, v, w)
    right = np.array([3.0, 0, 0, 0, 1, 0])
    rows, open_ = Entries.of(sparse.csr_array(-s)), np.full(3, np.inf)
    low, high = ranges_within_cones(rows, right, cones(nonneg=1, soc=[2], exp=1), -open_, open_)
    np.testing.assert_allclose([low, high], [[0, -2, 1], [2, 2, 3]])


@pytest.mark.parametrize("seed", range(20))
def test_no_point_of_a_cone_lies_outside_the_ranges_of_its_coordinates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = cones(soc=[3], exp=1, p3d=[0.3])
    s = rng.normal(size=(400, 9)) * 10.0 ** rng.uniform(-2, 2, 9)
    s[:, 0] = np.hypot(s[:, 1], s[:, 2]) * rng.uniform(1, 2, 400)
    s[:, 4] = np.abs(s[:, 4]) + 1e-3
    s[:, 3] = s[:, 4] * rng.uniform(-3, 3, 400)
    s[:, 5] = s[:, 4] * np.exp(s[:, 3] / s[:, 4]) * rng.uniform(1, 2, 400)
    s[:, 6:8] = np.abs(s[:, 6:8])
    s[:, 8] = s[:, 6] ** 0.3 * s[:, 7] ** 0.7 * rng.uniform(-1, 1, 400)
    at = s[0]
    given = np.where(rng.random(9) < 0.5, at - rng.uniform(0, 2, 9), -np.inf)
    above = np.where(rng.random(9) < 0.5, at + rng.uniform(0, 2, 9), np.inf)
    low, high = coordinates(given, above, sizes)
    inside = ((s >= given) & (s <= above)).all(axis=1)
    assert inside[0] and (s[inside] >= low - 1e-9 * (1 + abs(low))).all()
    assert (s[inside] <= high + 1e-9 * (1 + abs(high))).all()


def test_entries_of_a_semidefinite_matrix_lie_between_roots_of_products_of_its_diagonal() -> None:
    high = np.array([4.0, 9.0, 9.0])  # of the diagonal, with what is beside it between
    low, most = coordinates(np.full(3, -np.inf), np.array([4.0, np.inf, 9.0]), cones(psd=[2]))
    assert low[[0, 2]].tolist() == [0.0, 0.0] and most[[0, 2]].tolist() == high[[0, 2]].tolist()
    assert most[1] == -low[1] == pytest.approx(6 * np.sqrt(2))


@pytest.mark.parametrize("kind", ["absolute value", "product"])
def test_sums_of_two_rows_bound_what_neither_does(kind: str) -> None:
    if kind == "absolute value":  # |x| <= t and t <= 5
        rows, right, dims = [[1.0, -1.0], [-1.0, -1.0], [0.0, 1.0]], np.array([0.0, 0.0, 5.0]), cones(nonneg=3)
    else:  # (x + t, x - t, 2) in the cone is x t >= 1, with t <= 5
        rows, right, dims = [[0.0, 1.0], [-1, -1], [-1, 1], [0, 0]], np.array([5.0, 0, 0, 2]), cones(nonneg=1, soc=[3])
    free = np.full(2, np.inf)
    least, most = ranges_within_cones(Entries.of(sparse.csr_array(np.array(rows))), right, dims, -free, free)
    assert least[1] >= -1e-9 and most[1] == pytest.approx(5.0)
    if kind == "absolute value":
        assert least[0] == pytest.approx(-5.0) and most[0] == pytest.approx(5.0)
    else:
        assert least[0] >= -1e-9


def test_what_two_rows_leave_by_rounding_limits_nothing() -> None:
    """x = y, written twice: in floats only 0 satisfies both rows, and 0 was proved to be the optimum."""
    rows = Entries.of(sparse.csr_array([[1.0, -0.9999999999999999], [-1.0, 1.0]]))
    least, most = ranges_within_cones(rows, np.zeros(2), Cones(0, 2), np.zeros(2), np.ones(2))
    np.testing.assert_allclose(most, 1.0, rtol=1e-12)
    np.testing.assert_allclose(least, 0.0, atol=1e-12)
