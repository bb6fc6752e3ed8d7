"""Ordered weights against costs, by trying all levels, and mixtures by Hardy, Littlewood and Polya's conditions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairopt.blocks.ranked import best_levels, majorised, mixture_at


@st.composite
def questions(draw):
    n, quarters = draw(st.integers(1, 5)), st.integers(0, 12).map(lambda k: k / 4)
    many = st.lists(quarters, min_size=n, max_size=n).map(np.array)
    v = np.sort(draw(many))[::-1]
    low = draw(many) * draw(st.sampled_from([0, 1]))
    return v + (np.arange(n) == 0), draw(many), low, low + draw(many)


@given(questions())
def test_levels_are_the_best_of_all_at_bounds_and_the_mixture_proves_them(question):
    v, cost, low, high = question
    levels = best_levels(v, cost, low, high)
    assert (low <= levels).all() and (levels <= high).all()
    steps = np.unique([0.0, *low, *high])
    all_levels = product(*(steps[(steps >= a) & (steps <= b)] for a, b in zip(low, high, strict=True)))
    best = max(np.sort(z) @ v - cost @ z for z in map(np.array, all_levels))
    assert np.sort(levels) @ v - cost @ levels == pytest.approx(best, abs=1e-12)
    theta = mixture_at(v, cost, low, high, levels)
    assert theta.sum() == pytest.approx(v.sum(), rel=1e-14)
    assert (np.cumsum(np.sort(theta)[::-1]) <= np.cumsum(v) * (1 + 1e-14)).all()
    assert np.maximum((theta - cost) * low, (theta - cost) * high).sum() == pytest.approx(best, abs=1e-12)


def test_weights_of_many_users_that_v_majorises_stay_what_they_are():
    v = np.linspace(1, 0.01, 5_000)
    wanted = np.random.default_rng(1).permutation(0.9 * v + 0.1 * v.mean())
    np.testing.assert_allclose(majorised(v, wanted), wanted, rtol=1e-9)
