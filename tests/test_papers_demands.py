"""The demands of Jiang and Wu (2021): that they are what the paper says (test_papers.py has its tables)."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fairopt.errors import InvalidInstance

sys.path.append(str(Path(__file__).parents[1] / "benchmarks" / "papers"))

from jiang_wu_2021_demands import REQUEST_TYPES, heavy_light_demands, jiang_wu_demands

# -- the first scenario ---------------------------------------------------------------------------------------------


def test_the_first_scenario_is_every_combination_once():
    demands = jiang_wu_demands(2)
    assert demands.shape == (2**9, 3, 3)
    assert {tuple(d.ravel()) for d in demands} == set(itertools.product((1.0, 2.0), repeat=9))


def test_parts_of_the_first_scenario_are_parts_of_the_whole():
    whole = jiang_wu_demands(3)
    assert_array_equal(jiang_wu_demands(3, 100, 200), whole[100:200])
    assert_array_equal(jiang_wu_demands(3, 19_000), whole[19_000:])
    assert jiang_wu_demands(3, 5, 5).shape == (0, 3, 3)
    assert jiang_wu_demands(100, 10**18 - 2).tolist()[-1] == [[100.0] * 3] * 3


@pytest.mark.parametrize("capacity", [0, 2.5, "3", True, None])
def test_a_capacity_that_is_no_whole_number_is_refused_at_the_call(capacity):
    with pytest.raises(InvalidInstance, match=r"capacity is .*whole number >= 1"):
        jiang_wu_demands(capacity)


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4), (0, 19_684), (19_684, None)])
def test_a_part_outside_of_the_combinations_is_refused(start, stop):
    with pytest.raises(InvalidInstance, match="<= 19683"):
        jiang_wu_demands(3, start, stop)


# -- the second scenario --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("combination", "x"), [("I", (8, 8)), ("II", (8, 1)), ("III", (1, 1))])
def test_without_variance_requests_are_the_types_times_8_or_1(combination, x):
    demands = heavy_light_demands(combination, repeats=2)
    assert demands.shape == (8, 8, 2, 2, 3)
    for a, b, r in itertools.product(range(8), range(8), range(2)):
        assert_array_equal(demands[a, b, r], np.array([REQUEST_TYPES[a], REQUEST_TYPES[b]]) * np.array(x)[:, None])


def test_with_variance_requests_are_positive_and_spread_around_the_mean():
    demands = heavy_light_demands("II", variance=4.0, repeats=100, seed=1)
    heavy, light = demands[0, :, :, 0, 0] / 25, demands[:, 0, :, 1, 0] / 25
    assert (demands > 0).all()
    assert abs(heavy.mean() - 8) < 0.3 and abs(heavy.std() - 2) < 0.3
    assert light.min() > 0 and light.mean() > 1


def test_two_heavy_users_have_the_same_x_in_an_experiment():
    demands = heavy_light_demands("I", variance=1.0, seed=2)
    assert_allclose(demands[0, 0, :, 0], demands[0, 0, :, 1])
    assert np.ptp(demands[0, 0, :, 0, 0]) > 0


def test_the_seed_decides_the_draws():
    draw = [heavy_light_demands("I", variance=1.0, seed=s) for s in (3, 3, 4)]
    assert_array_equal(draw[0], draw[1])
    assert (draw[0] != draw[2]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"combination": "IV"}, "no combination 'IV'; did you mean"),
        ({"variance": -1}, "variance is -1; give a finite number >= 0"),
        ({"variance": float("nan")}, "variance is nan"),
        ({"repeats": 0}, "repeats is 0; give a whole number >= 1"),
        ({"types": [(1, 2)]}, r"types have shape \(1, 2\)"),
    ],
)
def test_parameters_of_the_second_scenario_out_of_their_range_are_refused(options, message):
    with pytest.raises(InvalidInstance, match=message):
        heavy_light_demands(**options)
