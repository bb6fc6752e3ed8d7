"""Values and rounding at many points at once are those of CVXPY at each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from fairopt.blocks.written_values import rounding_of
from fairopt.proof.many_values import values_and_errors, values_at

N = 5
A, B = np.arange(15.0).reshape(3, N) - 4, np.linspace(0.5, 2.0, N)
EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "soft minimum": lambda s, t: -cp.log_sum_exp(-10 * s),
    "soft minimum of few": lambda s, t: -cp.log_sum_exp(-A @ s),
    "roots": lambda s, t: B @ cp.sqrt(s) + cp.sum(cp.log(t)),
    "smallest": lambda s, t: cp.min(s) - cp.max(t),
    "two smallest": lambda s, t: cp.sum_smallest(s, 2),
    "geometric mean": lambda s, t: cp.geo_mean(s),
    "norms": lambda s, t: -cp.pnorm(1 - s, 3) - cp.norm(s - cp.sum(s) / N) - cp.norm1(t) - cp.norm_inf(A @ t),
    "squares": lambda s, t: -cp.sum_squares(s - t) - cp.quad_form(s, np.diag(B)),
    "harmonic mean": lambda s, t: cp.harmonic_mean(s),
    "a scalar inside": lambda s, t: cp.sum(cp.minimum(s, cp.min(t))) - cp.sum(cp.kl_div(s, cp.sum(t))),
    "of a scalar": lambda s, t: -cp.sum(cp.maximum(cp.sum(s), t)) + cp.log(cp.sum(cp.sqrt(s))),
    "relative entropy": lambda s, t: -cp.sum(cp.rel_entr(s, cp.sum(s) / N)),
    "rows of a matrix": lambda s, t: cp.sum(cp.min(cp.vstack([s, t]), axis=1)),
    "a matrix": lambda s, t: (
        cp.sum(cp.sqrt(cp.outer(B, s))) + cp.sum(cp.sqrt(cp.reshape(s, (1, N), order="C") @ A.T + 90))
    ),
    "indices": lambda s, t: cp.sqrt(s[0]) + cp.sum(cp.entr(s[1:3])) + cp.sum(cp.sqrt(cp.cumsum(t))),
    "divided": lambda s, t: cp.sum(s / B) - cp.sum(cp.huber(t, 0.5)) - cp.sum(cp.inv_pos(s)),
    "powers": lambda s, t: cp.sum(cp.power(s, 0.3)) - cp.sum(cp.exp(s - t)),
    "terms that cancel": lambda s, t: 1e15 * s[0] + cp.sum(cp.sqrt(s)) - 1e15 * s[0],
    "a matrix of a kind": lambda s, t: cp.log_det(cp.diag(s)) + cp.lambda_min(cp.diag(t)),
}


@pytest.mark.parametrize("size", [1, 4, N])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_rounding_are_those_of_each_point(name: str, size: int) -> None:
    s, t = cp.Variable(N, nonneg=True), cp.Variable(N, nonneg=True)
    expression = cp.sum(EXPRESSIONS[name](s, t))
    rng = np.random.default_rng(0)
    at, typical = ({v.id: rng.uniform(0.1, 2.0, (size, N)) for v in (s, t)} for _ in range(2))
    values, errors = values_and_errors(expression, at, typical, size)
    np.testing.assert_array_equal(values_at(expression, at, size), values)
    for k in range(size):
        for v in (s, t):
            v.value = at[v.id][k]
        assert values[k] == pytest.approx(float(expression.value), rel=1e-13, abs=1e-13)
        one = rounding_of(expression, {key: there[k] for key, there in typical.items()})
        # the rounding of one point is bounded alike; curved atoms move by rounding, which differs itself
        assert 0.3 * one - 1e-15 <= errors[k] <= 3 * one + 1e-15


def test_a_point_where_an_atom_fails_has_no_value() -> None:
    s = cp.Variable(2, nonneg=True)
    inverse = -cp.matrix_frac(np.ones(2), cp.diag(s))  # of a singular matrix
    values = values_at(inverse, {s.id: np.array([[1.0, 2.0], [0.0, 1.0]])}, 2)
    np.testing.assert_array_equal(values, [-1.5, np.nan])
