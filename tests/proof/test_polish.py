"""Proofs of what users write with CVXPY's functions: without assumptions, and at the optimum in closed form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import fairopt as fo
from fairopt.proof import conic
from fairopt.proof.polish import Curves, cancelled
from fairopt.proof.ranges import Entries

SHARE = fo.DominantShare()
TWO_FULL = fo.Instance([[1, 0], [1, 1], [0, 1]], [1, 3])  # users 1 and 2 share a unit, and user 3 has more


@pytest.mark.parametrize("theta", [100.0, 1_000.0, 20_000.0])
def test_a_soft_minimum_is_proved_however_sharp(theta: float) -> None:
    answer = fo.Policy(lambda model: -cp.log_sum_exp(-theta * model.share(SHARE)) / theta).allocate(TWO_FULL)
    assert answer.certificate.ok and not answer.certificate.assumed
    assert answer.objective == pytest.approx(0.5 - np.log(2) / theta, rel=1e-8)  # user 3 counts exp(-theta / 3)


def test_a_norm_whose_arguments_have_no_multipliers_keeps_none() -> None:
    cones = Curves(np.zeros(0, dtype=np.intp), (slice(0, 3),))
    assert cones.at(np.array([-1.0, 0.0, 0.0])).tolist() == [-1.0, 0.0, 0.0]


def test_what_is_as_large_as_the_terms_is_no_rounding() -> None:
    y, rows = np.array([1.0, 1.0]), sparse.csr_array(np.array([[1.0, -1.0]]))
    free = np.array([True])
    assert cancelled(y, np.array([1e300]), rows, free, slice(0, 2)).tolist() == y.tolist()


@pytest.mark.parametrize(
    "expression",
    [
        lambda s: cp.sum_smallest(s, 2),
        lambda s: cp.sum(s) - 0.5 * cp.sum_largest(s, 2),
        lambda s: cp.sum(s) - 2 * cp.max(s) + cp.min(s),
        lambda s: cp.sum(s) - cp.norm(s),
        lambda s: cp.sum(cp.log(s)),
        lambda s: cp.sum(cp.entr(s)),
        lambda s: -cp.log_sum_exp(-5 * s),
        lambda s: -cp.sum(cp.exp(-3 * s)),
        lambda s: cp.harmonic_mean(s),
        lambda s: -cp.sum_squares(s - 1),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_expressions_need_no_assumption(expression: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = fo.Instance(rng.integers(1, 9, (4, 2)), rng.integers(5, 40, (3, 2)))
    certificate = fo.Policy(lambda model: expression(model.share(SHARE))).allocate(instance).certificate
    assert certificate.ok and not certificate.assumed


def test_sums_of_the_smallest_have_the_value_of_ordered_weights() -> None:
    instance = fo.Instance([[1, 2], [2, 1], [1, 1]], [[4, 6], [6, 4], [3, 2]])
    found = fo.Policy(lambda model: cp.sum_smallest(model.share(SHARE), 2)).allocate(instance)
    assert found.objective == pytest.approx(
        fo.Policy(fo.OrderedWeighted((1, 1))).allocate(instance).objective, rel=1e-6
    )
    assert not found.certificate.assumed


def test_polished_points_are_in_the_dual_cones_and_cost_no_more() -> None:
    dims: Any = SimpleNamespace(zero=0, nonneg=1, soc=[3], psd=[], exp=2, p3d=[])
    a = sparse.csr_array(np.diag([1.0, 1, 1, 1, 1, 0, 1, 1, 1, 1]))  # the first exponential cone has a number
    b = np.ones(10)
    curves = Curves.of(Entries.of(a), b, dims, np.arange(10) != 1)
    assert curves.exponentials.tolist() == [4] and curves.norms == (slice(1, 4),)
    for y in np.random.default_rng(0).normal(size=(200, 10)):
        polished = curves.at(y)
        polished[:2] = np.maximum(polished[:2], 0.0)  # of which the dual cone takes care
        moved = conic.into_dual_cone(polished, dims)
        np.testing.assert_allclose(moved[:7], polished[:7], rtol=1e-12, atol=1e-12)
        other = conic.into_dual_cone(np.concatenate([y[:4], polished[[4]], y[[5]], y[6:]]), dims)
        if other[6] == polished[6]:  # the same first and third multipliers: the second is the least
            assert polished[5] <= other[5] + 1e-12


def test_residuals_of_variables_without_a_range_vanish_exactly() -> None:
    rng = np.random.default_rng(1)
    signs = sparse.csr_array(np.array([[-1.0, -1, -1, -1, 0], [0, 0, 0, 0, 3.0]]))
    for _ in range(50):
        y = rng.random(5)
        c = np.array([y[:4].sum() * (1 + 1e-15), -3 * y[4]])
        found = cancelled(y, c, signs, np.array([True, True]), slice(0, 5))
        at_zero = conic.exact_sums(sparse.csr_array(np.hstack([signs.toarray()[:1], [[c[0]]]])), np.append(found, 1.0))
        assert at_zero[0] == 0.0
        np.testing.assert_allclose(found, y, rtol=0, atol=2e-15)
        assert found[4] == y[4]  # three is no power of two


def test_what_terms_do_not_nearly_cancel_is_left_as_it_is() -> None:
    """Moving 1 by 1e39 is no rounding, and as many units of the last place are no 64-bit integer."""
    y, rows = np.array([1.0, 1.0]), sparse.csr_array(np.array([[1.0, -1.0]]))
    found = cancelled(y, np.array([1e39]), rows, np.array([True]), slice(0, 2))
    assert found.tolist() == y.tolist()


def test_a_zero_that_is_stored_leaves_multipliers_numbers() -> None:
    y, rows = np.array([1.0, 3.0, 2.0]), sparse.csr_array((np.array([1.0, -1.0, 0.0]), [0, 1, 2], [0, 3]), shape=(1, 3))
    found = cancelled(y, np.array([2.0 + 1e-15]), rows, np.array([True]), slice(0, 3))
    assert found.tolist() == y.tolist()
