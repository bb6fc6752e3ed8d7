"""Seeded random instances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairopt.datasets import log_uniform
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance


def test_demands_are_log_uniform_over_the_decades():
    demands = log_uniform(20_000, 3, decades=4, zeros=0, seed=1).demands
    assert demands.min() >= 1 and demands.max() <= 1e4
    quartiles = np.quantile(np.log10(demands), [0.25, 0.5, 0.75])
    assert_allclose(quartiles, [1, 2, 3], atol=0.05)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5])
def test_the_fraction_of_zeros_is_as_asked(part):
    demands = log_uniform(20_000, 8, zeros=part, seed=2).demands
    assert abs((demands == 0).mean() - part) < 0.01


@pytest.mark.parametrize(("part", "least"), [(1.0, 1), (0.9, 2), (0.99, 4), (0.5, 3)])
def test_no_user_needs_fewer_resources_than_asked(part, least):
    positive = (log_uniform(5000, 4, zeros=part, min_positive=least, seed=3).demands > 0).sum(axis=1)
    assert positive.min() == least
    if part == 1:
        assert positive.max() == least


def test_which_resource_is_kept_of_a_row_of_zeros_is_drawn_evenly():
    kept = (log_uniform(8000, 4, zeros=1.0, seed=4).demands > 0).mean(axis=0)
    assert_allclose(kept, 0.25, atol=0.02)


def test_the_same_seed_gives_the_same_instance_and_another_seed_another():
    options = {"weights": True, "limits": True, "n_servers": 3, "ineligible": 0.3, "different_servers": True}
    assert log_uniform(50, seed=5, **options) == log_uniform(50, seed=5, **options)
    assert log_uniform(50, seed=5, **options) != log_uniform(50, seed=6, **options)


@pytest.mark.parametrize(
    "option",
    [
        {"weights": True},
        {"limits": True},
        {"ineligible": 0.3, "n_servers": 3},
        {"different_servers": True, "n_servers": 3},
    ],
)
def test_switching_an_option_on_leaves_the_demands_as_they_were(option):
    assert_array_equal(log_uniform(50, seed=7, **option).demands, log_uniform(50, seed=7).demands)


def test_weights_are_log_uniform_over_one_decade():
    weights = log_uniform(20_000, weights=True, seed=8).weights
    assert weights.min() >= 10**-0.5 and weights.max() <= 10**0.5
    assert_allclose(np.median(np.log10(weights)), 0, atol=0.02)


def test_about_half_of_the_users_have_limits_and_some_bind_under_an_equal_split():
    cluster = log_uniform(10_000, weights=True, limits=True, seed=9)
    limited = np.isfinite(cluster.task_limits)
    assert abs(limited.mean() - 0.5) < 0.02
    split = cluster.tasks_alone.sum(axis=1) * cluster.weights / cluster.weights.sum()
    ratio = (cluster.task_limits / split)[limited]
    assert ratio.min() >= 0.25 and ratio.max() <= 4
    assert 0.3 < (ratio < 1).mean() < 0.7


def test_servers_share_the_same_capacity_however_many_and_different_they_are():
    one = log_uniform(100, 3, seed=10)
    assert_allclose(one.total_capacities, 100 * 10**2)
    for different in (False, True):
        many = log_uniform(100, 3, n_servers=7, different_servers=different, seed=10)
        assert_allclose(many.total_capacities, one.total_capacities)
        assert many.merged().n_servers == (7 if different else 1)


def test_the_fraction_of_forbidden_pairs_is_as_asked_and_everybody_runs_somewhere():
    cluster = log_uniform(5000, n_servers=10, ineligible=0.3, seed=11)
    assert abs((~cluster.eligible).mean() - 0.3) < 0.01
    lonely = log_uniform(500, n_servers=10, ineligible=1.0, seed=11)
    assert (lonely.eligible.sum(axis=1) == 1).all()


def test_demands_may_differ_by_server():
    cluster = log_uniform(50, 3, n_servers=4, different_demands=True, zeros=0.3, seed=12)
    plain = log_uniform(50, 3, zeros=0.3, seed=12)
    assert cluster.demands.shape == (50, 4, 3)
    needed = plain.demands > 0
    assert_array_equal((cluster.demands > 0).all(axis=1), needed)
    factor = (cluster.demands / np.where(needed, plain.demands, 1)[:, None, :]).swapaxes(1, 2)[needed]
    assert factor.min() >= 10**-0.5 and factor.max() <= 10**0.5


def test_a_million_users_have_no_python_objects_for_labels():
    assert log_uniform(1_000_000, weights=True, limits=True, seed=13)._users is None


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_parameters_in_their_ranges_give_an_instance(data):
    m = data.draw(st.integers(1, 5))
    cluster = log_uniform(
        data.draw(st.integers(0, 20)),
        m,
        decades=data.draw(st.floats(0, 20)),
        zeros=data.draw(st.floats(0, 1)),
        min_positive=data.draw(st.integers(1, m)),
        weights=data.draw(st.booleans()),
        limits=data.draw(st.booleans()),
        n_servers=data.draw(st.integers(1, 5)),
        different_servers=data.draw(st.booleans()),
        different_demands=data.draw(st.booleans()),
        ineligible=data.draw(st.floats(0, 1)),
        seed=data.draw(st.integers(0, 2**64)),
    )
    assert isinstance(cluster, Instance)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_users": -1}, "n_users is -1; give a whole number >= 0"),
        ({"n_users": 2.5}, "n_users is 2.5; give a whole number"),
        ({"n_resources": 0}, "n_resources is 0; give a whole number >= 1"),
        ({"n_servers": 0}, "n_servers is 0; give a whole number >= 1"),
        ({"min_positive": 5}, "min_positive is 5; give a whole number between 1 and 4"),
        ({"decades": -1}, "decades is -1; give a number between 0"),
        ({"decades": float("nan")}, "decades is nan"),
        ({"zeros": 1.1}, "zeros is 1.1; give a number between 0 and 1"),
        ({"zeros": "some"}, "zeros is 'some'"),
        ({"ineligible": -0.1}, "ineligible is -0.1"),
        ({"seed": None}, "seed is None; give a whole number >= 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_parameters_out_of_their_range_are_refused(options, message):
    with pytest.raises(InvalidInstance, match=message):
        log_uniform(**{"n_users": 5, **options})
