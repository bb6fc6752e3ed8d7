"""Rounds of random requests in the manner of Hamzeh et al.'s experiments (2021)."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairopt.errors import InvalidInstance
from fairopt.instance import Instance

sys.path.append(str(Path(__file__).parents[1] / "benchmarks" / "papers"))

from hamzeh_2021_requests import RequestRounds


def in_fair_shares(instance):
    """Requests per fair share of their server, (n_users, n_servers, n_resources)."""
    return instance.per_server_demands / (instance.capacities / instance.n_users)


def test_totals_are_those_of_fig_6_exactly_and_servers_differ():
    rounds = RequestRounds(n_users=20, n_servers=2000, seed=3)
    instance = rounds.instance(0)
    assert_allclose(instance.total_capacities, [2e6, 4e6], rtol=1e-12)
    assert instance.merged().n_servers == 2000
    largest, smallest = instance.capacities.max(axis=0), instance.capacities.min(axis=0)
    assert ((largest / smallest < 4) & (largest / smallest > 3.9)).all()


def test_servers_stay_and_requests_change():
    rounds = RequestRounds(seed=1)
    first, second = rounds.instance(0), rounds.instance(1)
    assert_array_equal(first.capacities, second.capacities)
    assert (first.demands != second.demands).all()


def test_rounds_are_the_same_in_whatever_order_they_are_asked_for():
    one, other = RequestRounds(seed=2), RequestRounds(seed=2)
    late = one.instance(900)
    again = [other.instance(k) for k in (3, 900)][1]
    assert_array_equal(again.demands, late.demands)
    assert_allclose(again.capacities, late.capacities, rtol=1e-12)
    assert RequestRounds(seed=4).instance(900) != late


def test_classes_are_rows_with_counts_as_equal_as_can_be():
    rounds = RequestRounds(n_servers=3000, n_classes=7, by_server=False)
    instance = rounds.instance(0)
    assert instance.n_servers == 7 and instance.counts.sum() == 3000 and np.ptp(instance.counts) == 1
    assert_allclose(instance.total_capacities, [3e6, 6e6])
    assert instance.demands.shape == (4, 2)


def test_dominant_requests_take_the_load_and_others_a_part_of_it():
    rounds = RequestRounds(n_users=50, n_servers=200, load=0.5, user_spread=0.0, noise=0.2, other=(0.25, 0.75))
    shares = in_fair_shares(rounds.instance(0))
    dominant, other = shares.max(axis=2), shares.min(axis=2)
    assert dominant.min() >= 0.4 and dominant.max() <= 0.6 and abs(dominant.mean() - 0.5) < 0.005
    assert (other / dominant).min() >= 0.25 and (other / dominant).max() <= 0.75
    assert abs(shares.argmax(axis=2).mean() - 0.5) < 0.02  # half of the requests are dominant in RAM


def test_users_are_spaced_evenly_around_the_load():
    rounds = RequestRounds(n_users=5, n_servers=20, load=1.0, user_spread=0.5, noise=0.0)
    assert_allclose(in_fair_shares(rounds.instance(3)).max(axis=2), np.linspace(0.5, 1.5, 5)[:, None].repeat(20, 1))


def test_the_probability_of_being_dominant_is_as_asked():
    kinds = in_fair_shares(RequestRounds(n_users=100, n_servers=200, dominant=(3, 1)).instance(0)).argmax(axis=2)
    assert abs(kinds.mean() - 0.25) < 0.01
    assert not in_fair_shares(RequestRounds(dominant=(1, 0)).instance(0)).argmax(axis=2).any()


def test_one_request_for_all_servers_is_in_fair_shares_of_the_mean_server():
    rounds = RequestRounds(n_users=10, by_server=False, load=1.0, noise=0.0, user_spread=0.0)
    assert_allclose((rounds.instance(0).demands / [100, 200]).max(axis=1), 1)


def test_loads_drift_along_their_paths():
    path = ((0.0, 0.5), (0.8, 0.5), (1.0, 2.5))
    rounds = RequestRounds(n_rounds=11, load=path, noise=0.0, user_spread=0.0)
    heaviest = [in_fair_shares(rounds.instance(k)).max() for k in (0, 8, 9, 10)]
    assert_allclose(heaviest, [0.5, 0.5, 1.5, 2.5])


def test_each_resource_may_have_a_path_of_its_own():
    rounds = RequestRounds(n_rounds=2, load=(0.5, ((0, 0.5), (1, 2))), noise=0.0, user_spread=0.0, other=(0, 0))
    heaviest = in_fair_shares(rounds.instance(1)).max(axis=(0, 1))
    assert_allclose(heaviest, [0.5, 2.0])


def test_capacity_that_is_not_provisioned_makes_shortage_with_the_same_requests():
    rounds = RequestRounds(n_rounds=3, load=0.9, other=(0.9, 0.9), provisioned=(1.0, ((0, 1), (0.5, 1), (1, 0.25))))
    plenty, short = rounds.instance(1), rounds.instance(2)
    assert_allclose(short.capacities, plenty.capacities * [1, 0.25])
    assert (plenty.demands.sum(axis=0) <= plenty.capacities).mean() > 0.9
    assert (short.demands[:, :, 1].sum(axis=0) > short.capacities[:, 1]).all()
    assert_allclose(in_fair_shares(short)[..., 1].max() * 0.25, in_fair_shares(plenty)[..., 1].max(), rtol=0.2)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_any_parameters_in_their_ranges_give_an_instance(data):
    servers = data.draw(st.integers(1, 6))
    rounds = RequestRounds(
        data.draw(st.integers(1, 5)),
        servers,
        data.draw(st.integers(1, 5)),
        mean_capacities=(1.0, 1e6, 1e-3),
        resources=("a", "b", "c"),
        spread=data.draw(st.floats(1, 1e6)),
        n_classes=data.draw(st.none() | st.integers(1, servers)),
        by_server=data.draw(st.booleans()),
        user_spread=data.draw(st.floats(0, 0.99)),
        noise=data.draw(st.floats(0, 0.99)),
        other=data.draw(st.sampled_from([(0, 0), (0.0, 1.0), (1, 1)])),
        load=data.draw(st.floats(1e-3, 1e3)),
        provisioned=data.draw(st.floats(1e-3, 1)),
        seed=data.draw(st.integers(0, 2**64)),
    )
    instance = rounds.instance(rounds.n_rounds - 1)
    assert isinstance(instance, Instance) and instance.counts.sum() == servers and instance.eligible.all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_users": 0}, "n_users is 0; give a whole number >= 1"),
        ({"n_servers": 0}, "n_servers is 0"),
        ({"n_rounds": 0}, "n_rounds is 0"),
        ({"spread": 0.5}, "spread is 0.5"),
        ({"n_classes": 91}, "n_classes is 91; give a whole number between 1 and 90"),
        ({"user_spread": 1}, "user_spread or noise of 1 allows requests of 0"),
        ({"noise": 1.5}, "noise is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"resources": ("CPU",)}, "2 mean_capacities for 1 resources"),
        ({"mean_capacities": (0.0, 1.0)}, "mean_capacities is 0.0"),
        ({"other": (0.9, 0.1)}, "other is .* the smaller first"),
        ({"dominant": (0, 0)}, "dominant is .* not all 0"),
        ({"dominant": (1,)}, "dominant is .* give 2 numbers"),
        ({"load": 0.0}, r"load \(value\) is 0.0"),
        ({"load": ()}, "load has 0 paths for 2 resources"),
        ({"load": (0.5, 0.5, 0.5)}, "load has 3 paths for 2 resources"),
        ({"load": ((0.5, 1.0), (0.2, 1.0))}, "put its pairs in the order of time"),
        ({"provisioned": (((2.0, 1.0),), 1.0)}, r"provisioned \(when\) is 2.0; give a number between 0 and 1"),
        ({"provisioned": (((0, 1, 2),), 1.0)}, r"give a number or pairs \(when, value\)"),
    ],
)
def test_parameters_out_of_their_range_are_refused(options, message):
    with pytest.raises(InvalidInstance, match=message):
        RequestRounds(**options)


def test_there_is_no_round_beyond_the_last():
    with pytest.raises(InvalidInstance, match="round is 1000; give a whole number between 0 and 999"):
        RequestRounds().instance(1000)
