"""Programs that change from solve to solve."""

import numpy as np
import pytest
from scipy import sparse

from fairopt.runtime.clock import Clock
from fairopt.solve.form.simplex import Simplex


def solved(simplex, costs, columns, rows, matrix, basis, size=1.0):
    simplex.give(costs, columns, rows, matrix, basis, size)
    assert simplex.run(Clock(None))
    simplex.refine()
    return simplex.values, simplex.duals


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_what_is_changed_in_a_program_gives_the_optimum_of_a_new_one(seed, size):
    rng = np.random.default_rng(seed)
    n, m = 30, 20
    matrix = sparse.random_array((m, n), density=0.3, rng=rng, format="csc")
    matrix.data += 0.1
    costs, high, right = -rng.random(n), 1 + rng.random(n), 1 + rng.random(m)
    kept, basis = Simplex(), None
    for _ in range(6):
        program = costs.copy(), (np.zeros(n), high.copy()), (np.full(m, -np.inf), right.copy()), matrix.copy()
        values, duals = solved(kept, *program, basis, size)
        basis = kept.of_columns, kept.of_rows
        anew, prices = solved(Simplex(), *program, None, size)
        assert costs @ values == pytest.approx(costs @ anew, rel=1e-12)
        np.testing.assert_allclose(values, anew, atol=1e-12)
        np.testing.assert_allclose(duals, prices, atol=1e-12)
        costs[rng.integers(n)] -= 0.5
        high[rng.integers(n)] += 0.5
        right[rng.integers(m)] += 0.3
        matrix.data[rng.integers(len(matrix.data))] *= 1.5


def test_values_and_duals_of_a_basis_are_exact_to_rounding():
    matrix = sparse.csc_array(np.array([[3.0, 1.0], [1.0, 7.0]]))
    values, duals = solved(Simplex(), np.array([-1.0, -1.0]), (np.zeros(2), np.full(2, np.inf)), RIGHT, matrix, None)
    assert values.tolist() == [0.3, 0.1]
    np.testing.assert_allclose(duals, [-0.3, -0.1], rtol=1e-16)


RIGHT = np.full(2, -np.inf), np.ones(2)
