"""Linear programs over tasks: optimum and multipliers in natural units, whatever the sizes of numbers."""

import numpy as np
import pytest

from fairopt.blocks.rows import Rows, largest


@pytest.mark.parametrize("size", [1.0, 1e-6, 1e6])
def test_optima_and_multipliers_are_in_natural_units(size: float) -> None:
    # x + y <= 4, x = 3 y and a further unknown z <= y: x + z is at most 4, at (3, 1, 1), by multipliers 1, 0 and 1
    rows = [
        Rows([[1, 1]], [4 * size]),
        Rows([[1, -3]], [0], equal=True),
        Rows([[0, -1 / size, 1]], [0]),
    ]
    found = largest(np.array([1.0, 0.0, size]), rows, np.full(2, size))
    assert found is not None
    np.testing.assert_allclose(found.at, [3 * size, size, 1], rtol=1e-9)
    np.testing.assert_allclose(np.concatenate(found.multipliers), [1, 0, size], rtol=1e-9, atol=1e-9 * size)


def test_there_is_none_where_rows_exclude_each_other() -> None:
    assert largest(np.ones(1), [Rows([[1]], [1]), Rows([[-1]], [-2])], np.ones(1)) is None


def test_bounds_hold_without_rows_that_bind() -> None:
    found = largest(np.array([1.0, -1.0]), [Rows([[1, 1]], [100])], np.array([10.0, 1.0]), low=-2.0, high=7.0)
    assert found is not None and found.at.tolist() == [7, -2]
    assert found.multipliers[0].tolist() == [0]
