"""Box-Cox powers and logarithms of sums, against SciPy's."""

import numpy as np
import pytest
from scipy import special

from fairopt.blocks.powers import boxcox, log_inverse_boxcox, log_sum_exp

POWERS = (-1e6, -300.5, -2.0, -0.5, -1e-9, 0.0, 1e-15, 1e-6, 0.3, 1.0, 4.0)


@pytest.mark.parametrize("power", POWERS)
def test_powers_are_those_of_scipy_from_zero_to_overflow(power: float) -> None:
    x = np.array([0.0, 1e-300, 1e-5, 1 - 1e-12, 1.0, 1 + 1e-12, 3.0, 1e10, 1e300, np.inf])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(boxcox(x, power), special.boxcox(x, power), rtol=1e-12)


@pytest.mark.parametrize("power", POWERS)
def test_inverses_are_those_of_scipy_where_these_are_finite(power: float) -> None:
    for value in (-np.inf, -1e305, -1e3, -0.5, -1e-12, 0.0, 1e-12, 0.5, 1e3, 1e308):
        with np.errstate(all="ignore"):
            x = special.inv_boxcox(value, power)
        if 0 < x < np.inf:
            assert log_inverse_boxcox(value, power) == pytest.approx(np.log(x), rel=1e-12, abs=1e-15)
    assert log_inverse_boxcox(-np.inf, min(power, 0.0)) == -np.inf


def test_logarithms_of_sums_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    logs, weights = rng.normal(0, 300, (5, 7)), rng.uniform(0.1, 3, 7)
    logs[1, 2], logs[2, :] = -np.inf, -np.inf
    logs[3, 1] = np.inf
    np.testing.assert_allclose(log_sum_exp(logs, weights), special.logsumexp(logs, axis=1, b=weights), rtol=1e-12)
    np.testing.assert_allclose(log_sum_exp(logs), special.logsumexp(logs, axis=1), rtol=1e-12)
