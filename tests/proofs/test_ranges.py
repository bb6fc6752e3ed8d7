"""Ranges that linear rows imply hold for all points, and are exact where the other variables can be at their ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from fairopt.proofs.ranges import implied_ranges


def test_a_chain_of_rows_bounds_every_variable() -> None:
    """0 <= x <= 2, y <= 3 x, z >= -y and z <= 1 - x, though y has no lower bound."""
    rows = sparse.csr_array([[-3.0, 1.0, 0.0], [0.0, -1.0, -1.0], [1.0, 0.0, 1.0]])
    least, most = implied_ranges(
        rows, np.array([0, 0, 1.0]), np.array([0, -np.inf, -np.inf]), np.array([2, np.inf, np.inf])
    )
    np.testing.assert_allclose(least, [0, -1, -6])
    np.testing.assert_allclose(most, [2, 6, 1])


def test_no_bound_comes_from_a_row_with_two_open_variables() -> None:
    open_ = np.array([-np.inf, -np.inf]), np.array([np.inf, np.inf])
    least, most = implied_ranges(sparse.csr_array([[1.0, 1.0]]), np.ones(1), *open_)
    assert (least == -np.inf).all() and (most == np.inf).all()


@pytest.mark.parametrize("seed", range(20))
def test_no_feasible_point_lies_outside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (5, 4)).astype(float), rng.integers(0, 9, 5).astype(float)
    least, most = np.where(rng.random(4) < 0.5, 0.0, -np.inf), np.where(rng.random(4) < 0.5, 5.0, np.inf)
    low, high = implied_ranges(sparse.csr_array(a), b, least, most)
    assert (low >= least).all() and (high <= most).all()
    for k in range(4):
        for sign, bound in ((1.0, low[k]), (-1.0, -high[k])):
            found = linprog(sign * np.eye(4)[k], a, b, bounds=list(zip(least, most, strict=True)))
            assert found.status == 3 or found.fun >= bound - 1e-9 * (1 + abs(bound))
            assert found.status != 3 or bound == -np.inf
