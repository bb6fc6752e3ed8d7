"""Derivatives of objectives by users' tasks, against differences, and what users run at prices."""

from __future__ import annotations

import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.efficiency import PowerSpread
from fairopt.blocks.marginal import PowerMarginal, added, among

INSTANCE = fo.Instance([[1, 4], [3, 1], [2, 2]], [90, 180], weights=[1, 2, 3])


@pytest.mark.parametrize(
    "objective",
    [
        fo.Total(),
        fo.AlphaFair(0),
        fo.AlphaFair(0.3),
        fo.AlphaFair(1, fo.Tasks()),
        fo.AlphaFair(4),
        fo.AlphaFair(2) + 3 * fo.Total(fo.Tasks()),
        PowerSpread(1.0),
        PowerSpread(2.5),
    ],
    ids=repr,
)
def test_derivatives_are_those_of_the_value(objective: fo.Objective) -> None:
    marginal, x, step = objective.by_user(INSTANCE), np.array([2.0, 5.0, 7.0]), 1e-4
    assert marginal is not None
    for j, e in enumerate(np.eye(3) * step):
        values = [objective.value(fo.blocks.model.Point(INSTANCE, (x + k * e)[:, None])) for k in (-1, 0, 1)]
        assert (values[2] - values[0]) / (2 * step) == pytest.approx(marginal.slope(x)[j], rel=1e-6)
        second = (values[2] - 2 * values[1] + values[0]) / step**2
        assert second == pytest.approx(marginal.curvature(x)[j], rel=1e-3, abs=1e-6 * np.abs(marginal.slope(x)).max())


def test_there_are_none_where_users_or_servers_matter() -> None:
    assert fo.MaxMin().by_user(INSTANCE) is None
    assert fo.FairnessEfficiency(2, -3).by_user(INSTANCE) is None
    assert (fo.Total() + fo.MaxMin()).by_user(INSTANCE) is None
    by_server = fo.Instance([[[4], [3]], [[3], [2]]], [[4], [2]])
    assert fo.Total().by_user(by_server) is None and fo.AlphaFair(1).by_user(by_server) is None


@pytest.mark.parametrize("start", [1e-3, 1.0, 1e3])
def test_what_users_run_at_prices(start: float) -> None:
    one = fo.AlphaFair(2, fo.Tasks()).by_user(INSTANCE)
    other = fo.AlphaFair(0.5, fo.Tasks()).by_user(INSTANCE)
    assert one is not None and other is not None
    both = added([(1.0, one), (2.0, other)])
    own = fo.blocks.Marginal(both.slope, both.curvature)  # in no closed form
    cost, low, high = np.array([0.1, 3.0, 1e-9]), np.array([0.0, 0.5, 0.0]), np.array([1e9, 1e9, 1e3])
    guess = np.full(3, start)
    for marginal in (one, both, own):
        x = marginal.response(cost, low, high, guess)
        inside = (x > low) & (x < high)
        np.testing.assert_allclose(marginal.slope(x)[inside], cost[inside], rtol=1e-9)
        assert x[2] == high[2] and inside[0]
    np.testing.assert_allclose(own.response(cost, low, high, guess), both.response(cost, low, high, guess), rtol=1e-9)


def test_parts_of_the_users() -> None:
    whole = (fo.AlphaFair(2) + fo.Total()).by_user(INSTANCE)
    assert isinstance(whole, PowerMarginal)
    x, held = np.array([2.0, 5.0, 7.0]), np.array([np.nan, 5.0, np.nan])
    for marginal in (whole, fo.blocks.Marginal(whole.slope, whole.curvature)):
        np.testing.assert_allclose(among(marginal, held).slope(x[[0, 2]]), whole.slope(x)[[0, 2]])
