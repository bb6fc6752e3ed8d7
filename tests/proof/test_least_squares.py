"""Minimum-norm solutions of equations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from fairopt.proof import least_squares
from fairopt.runtime.clock import Clock, Late


def equations(seed):
    """Equations that have solutions, in columns of which most are empty."""
    rng = np.random.default_rng(seed)
    matrix = sparse.random_array((20, 400), density=0.01, rng=rng, format="csr")
    return matrix, matrix @ rng.normal(size=400)


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_give_the_pseudoinverse_times_the_right_side(seed):
    matrix, right = equations(seed)
    exact = np.linalg.pinv(matrix.toarray()) @ right
    assert_allclose(least_squares.by_iteration(matrix, right), exact, atol=1e-12)
    assert_allclose(least_squares.least_squares(matrix, right), exact, atol=1e-12)
    assert (least_squares.by_iteration(matrix, right)[abs(matrix).sum(axis=0) == 0] == 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_products_solve_few_equations_of_which_some_follow_from_others(monkeypatch, seed):
    monkeypatch.setattr(least_squares, "by_iteration", None)
    rng = np.random.default_rng(seed)
    some = sparse.random_array((20, 60), density=0.2, rng=rng, format="csr")
    matrix = sparse.csr_array(sparse.vstack([some, some[:3] + some[4:7], np.zeros((1, 60))]))
    right = matrix @ rng.normal(size=60)
    found = least_squares.minimum_norm(matrix, right)
    assert_allclose(found, np.linalg.pinv(matrix.toarray()) @ right, atol=1e-9)


def test_equations_without_a_solution_are_left_to_iterations():
    matrix, right = sparse.csr_array([[1.0, 1.0], [1.0, 1.0]]), np.array([1.0, -1.0])
    assert_allclose(least_squares.minimum_norm(matrix, right), [0, 0], atol=1e-12)


def test_equations_that_share_no_column_are_solved_one_by_one(monkeypatch):
    monkeypatch.setattr(least_squares, "sparse_linalg", None)  # no iterations
    matrix = sparse.csr_array([[2.0, 0, 0, -1, 0], [0, 0, 3, 0, 0], [0, 0, 0, 0, 0]])
    right = np.array([1.0, -2, 5])
    exact = np.linalg.pinv(matrix.toarray()) @ right
    assert_allclose(least_squares.by_iteration(matrix, right), exact, rtol=1e-14)


def test_no_entries_give_zeros_and_infinite_ones_nothing():
    assert least_squares.by_iteration(sparse.csr_array((2, 3)), np.ones(2)).tolist() == [0, 0, 0]
    assert np.isnan(least_squares.least_squares(sparse.csr_array([[np.inf]]), np.ones(1))).all()


def test_iterations_end_when_the_time_of_the_call_is_over():
    matrix, right = equations(0)
    clock = Clock(1e-9, grace=False)
    with clock.enforced(), pytest.raises(Late):
        least_squares.by_iteration(matrix, right)


@pytest.mark.parametrize("crowded", [0, 3])
def test_many_sparse_equations_are_solved_by_their_products(monkeypatch: pytest.MonkeyPatch, crowded: int) -> None:
    rng = np.random.default_rng(crowded)
    matrix = sparse.random_array((400, 900), density=0.006, rng=rng, data_sampler=rng.normal).tolil()
    matrix[:, :crowded] = rng.normal(size=(400, crowded))
    matrix.setdiag(1.0)
    matrix = sparse.csr_array(matrix)
    right = rng.normal(size=400)
    monkeypatch.setattr(least_squares, "by_iteration", None)
    found = least_squares.minimum_norm(matrix, right)
    assert_allclose(found, np.linalg.lstsq(matrix.toarray(), right)[0], atol=1e-6)


def many_equations(condition):
    """1,500 sparse equations of 4,500 unknowns, badly conditioned if those that half of them have alone are small."""
    rng = np.random.default_rng(3)
    n, each = 1500, 4
    a = sparse.csr_array(
        (rng.normal(size=n * each), (np.repeat(np.arange(n), each), rng.integers(0, n // 2, n * each))),
        shape=(n, n // 2),
    )
    own = sparse.diags_array(np.where(np.arange(n) < n // 2, 3.0, 3.0 / condition))
    return sparse.csr_array(sparse.hstack([a, own, own])), rng.normal(size=n)


def test_well_conditioned_equations_are_solved_by_a_few_steps_and_others_by_products(monkeypatch):
    found = []
    by_products = least_squares._by_products
    monkeypatch.setattr(least_squares, "_by_products", lambda *given: found.append(True) or by_products(*given))
    for condition, products in ((1.0, False), (1e4, True)):
        matrix, right = many_equations(condition)
        found.clear()
        solution = least_squares.minimum_norm(matrix, right)
        assert bool(found) == products
        assert np.abs(right - matrix @ solution).max() <= 1e-3 * np.abs(right).max()
        again = least_squares.minimum_norm(matrix, right - matrix @ solution)
        assert np.abs(right - matrix @ (solution + again)).max() <= 1e-5 * np.abs(right).max()
        own = solution[-3000:]
        assert own[:1500] == pytest.approx(own[1500:], rel=1e-9, abs=1e-12)  # of least norm: both parts are alike
