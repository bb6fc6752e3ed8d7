"""Gradients of CVXPY's expressions beside differences of their values."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from fairopt.proof.gradients import gradients_of

x, y = cp.Variable(3), cp.Variable()
EXPRESSIONS = {
    "affine": 2 * x[:2] + y,
    "logarithms": cp.sum(cp.log(2 * x + 1)) + 3 * y,
    "by entry": np.array([1.0, 2.0, 3.0]) @ cp.sqrt(x) - cp.square(y - 1),
    "in each other": cp.log(cp.sum(cp.sqrt(x + y))),
    "one atom twice": (root := cp.sqrt(x + y)) + 2 * root[::-1],
    "norm": cp.norm(x - 2, 2) - cp.exp(y),
    "entries": cp.hstack([cp.square(x), cp.inv_pos(y)]) - 1,
    "quotient": cp.quad_over_lin(x, y) / 3,
    "softmax": cp.log_sum_exp(3 * x) + y,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gradients_are_those_of_the_values(name: str) -> None:
    expression, at = EXPRESSIONS[name], np.array([1.1, 0.4, 2.3, 0.7])

    def value(point: np.ndarray) -> np.ndarray:
        x.value, y.value = point[:3], point[3]
        return np.ravel(expression.value, order="F")

    step = 1e-6
    expected = np.array([(value(at + d) - value(at - d)) / (2 * step) for d in step * np.eye(4)])
    value(at)
    of_x, of_y = gradients_of(expression, [x, y])
    assert of_x is not None and of_y is not None
    np.testing.assert_allclose(np.vstack([of_x.toarray(), of_y.toarray()]), expected, rtol=1e-6, atol=1e-8)


def test_there_is_no_gradient_outside_the_domain() -> None:
    x.value = np.array([1.0, 0.0, -1.0])
    assert gradients_of(cp.sum(cp.log(x)), [x]) == [None]
    assert gradients_of(2 * cp.sum(cp.log(x)) + y, [x])[0] is None


def test_affine_atoms_that_cvxpy_writes_with_constraints_have_gradients() -> None:
    x = cp.Variable(3)
    x.save_value(np.array([1.0, 2.0, 3.0]))
    (slopes,) = gradients_of(2 * cp.cumsum(x) + cp.sum(cp.square(x)), [x])
    assert slopes is not None
    expected = 2 * np.triu(np.ones((3, 3))) + 2 * np.array([[1.0], [2.0], [3.0]])
    assert np.array_equal(slopes.toarray(), expected)
