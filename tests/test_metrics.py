"""Metrics of servers and groups against their definitions, written as loops over users."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracle.bundles import hffmra
from oracle.instances import cluster, clusters

import fairopt as fo
from fairopt import metrics
from fairopt.allocation import Allocation
from fairopt.certificate import Certificate

sys.path.append(str(Path(__file__).parents[1] / "benchmarks" / "papers"))

from hamzeh_2021_requests import RequestRounds


def made(instance, tasks=None, bundles=None):
    """An allocation by hand."""
    shape = (instance.n_users, instance.n_servers)
    tasks = np.zeros(shape) if tasks is None else np.asarray(tasks, dtype=float)
    bundles = None if bundles is None else np.asarray(bundles, dtype=float)
    return Allocation(instance, None, tasks, Certificate(0.0, 0.0, "by hand"), 0.0, given_bundles=bundles)


def example_of_004():
    instance = fo.Instance(
        [[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]], resources=["cpu", "ram"], servers=["s1", "s2"]
    )
    bundles = hffmra(instance.demands.tolist(), instance.capacities.tolist(), "raw")
    return made(instance, [[63 / 23, 35 / 23], [48 / 23, 40 / 23]], bundles)


def dominant_by_definition(instance, j, s):
    """The first resource of largest share, in fractions; None where the user takes no part."""
    if not instance.eligible[j, s] or instance.task_limits[j] == 0:
        return None
    shares = [
        Fraction(float(d)) / Fraction(float(c)) if c else Fraction(0)
        for d, c in zip(instance.per_server_demands[j, s], instance.capacities[s], strict=True)
    ]
    return shares.index(max(shares))


def groups_by_definition(instance, s, i):
    """Members of the dominant and of the non-dominant group of a resource on a server."""
    dominant = {j: dominant_by_definition(instance, j, s) for j in range(instance.n_users)}
    here = [j for j, best in dominant.items() if best is not None]
    needs = instance.per_server_demands[:, s, i] > 0
    return [j for j in here if dominant[j] == i], [j for j in here if dominant[j] != i and needs[j]]


def some_tasks(instance, seed):
    return np.random.default_rng(seed).integers(0, 4, (instance.n_users, instance.n_servers)) * instance.eligible


def both(found):
    return found.dominant, found.non_dominant


def test_in_the_example_of_004_the_groups_hold_69_and_31_percent_everywhere():
    shares = metrics.group_shares(example_of_004())
    assert_allclose(shares.dominant, 16 / 23)
    assert_allclose(shares.non_dominant, 7 / 23)


def test_in_the_example_of_004_beta_is_zero_for_bundles_and_not_for_tasks():
    bundles, tasks = (metrics.beta_fairness(example_of_004(), of) for of in ("bundles", "tasks"))
    for group in (bundles.dominant, bundles.non_dominant, bundles.between_resources):
        assert_allclose(list(group.values()), 0, atol=1e-12)
    # user 2's CPU: 48/23 tasks of 3 CPU are 16/23 of 9, and 40/23 tasks of 4 CPU 16/23 of 10
    assert tasks.dominant["cpu"] == pytest.approx(0, abs=1e-12)
    # user 1's RAM: 63/23 tasks of 4 GB are 14/23 of 18, but 35/23 tasks of 5 GB only 35/92 of 20
    assert tasks.dominant["ram"] == pytest.approx(14 / 23 - 35 / 92)


def test_in_the_example_of_004_bundles_are_full_and_tasks_are_not():
    bundles, tasks = (metrics.utilisation(example_of_004(), of) for of in ("bundles", "tasks"))
    assert_allclose(bundles.by_server, 1)
    assert bundles.total == pytest.approx({"cpu": 1, "ram": 1}) and bundles.mean == pytest.approx(bundles.total)
    assert tasks.total["ram"] == pytest.approx((4 * 63 + 48 + 5 * 35 + 3 * 40) / 23 / 38)
    assert tasks.by_server[0, 1] == pytest.approx((4 * 63 + 48) / 23 / 18)
    assert tasks.mean["ram"] == pytest.approx((300 / 18 + 295 / 20) / 23 / 2)


@given(clusters(), st.integers(0, 99), st.booleans())
def test_shares_of_groups_and_their_spread_follow_the_definition(instance, seed, as_bundles):
    tasks = some_tasks(instance, seed)
    held = instance.per_server_demands * tasks[:, :, None]
    a = made(instance, bundles=held) if as_bundles else made(instance, tasks)
    found = metrics.beta_fairness(a, "bundles" if as_bundles else "tasks")
    room = instance.capacities * instance.counts[:, None]
    for which, (shares, beta) in enumerate(zip(both(found.shares), both(found), strict=True)):
        for i, resource in enumerate(instance.resources):
            values = []
            for s in range(instance.n_servers):
                members = groups_by_definition(instance, s, i)[which]
                if members:
                    values.append(sum(held[j, s, i] for j in members) / room[s, i])
                    assert shares[s, i] == pytest.approx(values[-1])
                else:
                    assert math.isnan(shares[s, i])
            if values:
                assert beta[resource] == pytest.approx(max(values) - min(values), abs=1e-12)
            else:
                assert math.isnan(beta[resource])


@given(clusters(), st.integers(0, 99))
def test_jain_of_groups_follows_the_definition(instance, seed):
    tasks = some_tasks(instance, seed)
    found = metrics.group_jain(made(instance, tasks), "tasks")
    held = instance.per_server_demands * tasks[:, :, None]
    for which, index in enumerate(both(found)):
        for s in range(instance.n_servers):
            for i in range(instance.n_resources):
                u = [Fraction(float(held[j, s, i])) for j in groups_by_definition(instance, s, i)[which]]
                squares = sum(v * v for v in u)
                if squares:
                    assert index[s, i] == pytest.approx(float(sum(u) ** 2 / (len(u) * squares)))
                else:
                    assert math.isnan(index[s, i])


@given(clusters(), st.integers(0, 99))
def test_a_count_is_as_many_rows(instance, seed):
    tasks = some_tasks(instance, seed)
    rows = np.repeat(np.arange(instance.n_servers), instance.counts)
    apart = fo.Instance(
        instance.per_server_demands[:, rows],
        instance.capacities[rows],
        eligible=instance.eligible[:, rows],
        task_limits=instance.task_limits,
        weights=instance.weights,
        resources=instance.resources,
    )
    one, other = made(instance, tasks), made(apart, (tasks / instance.counts)[:, rows])
    for number in (metrics.group_shares, metrics.group_jain):
        for group, means in number(one, "tasks").mean().items():
            assert means == pytest.approx(number(other, "tasks").mean()[group], nan_ok=True)
    assert metrics.utilisation(one).total == pytest.approx(metrics.utilisation(other).total)
    assert metrics.utilisation(one).mean == pytest.approx(metrics.utilisation(other).mean)


@given(clusters(), st.integers(0, 99))
def test_multiples_of_demands_have_one_utilisation(instance, seed):
    a = made(instance, some_tasks(instance, seed))
    assert_allclose(metrics.utilisation(a, "tasks").by_server, metrics.utilisation(a, "bundles").by_server)
    assert metrics.utilisation(a).total == pytest.approx(a.metrics()["utilisation"])


def test_users_at_a_limit_of_zero_and_those_who_may_not_run_are_in_no_group():
    instance = fo.Instance(
        [[2, 1], [2, 1], [2, 1]], [[4, 4]] * 2, task_limits=[None, 0, None], eligible=[[1, 1], [1, 1], [0, 1]]
    )
    shares = metrics.group_shares(made(instance, np.ones((3, 2)) * [[1, 1], [0, 0], [0, 1]]))
    assert_array_equal(shares.dominant, [[0.5, np.nan], [1, np.nan]])
    assert_array_equal(shares.non_dominant, [[np.nan, 0.25], [np.nan, 0.5]])


def test_who_needs_nothing_of_a_resource_is_not_in_its_non_dominant_group():
    a = made(fo.Instance([[1, 0], [1, 1], [1, 1]], [9, 10]), [[1], [1], [1]])
    assert_array_equal(metrics.group_jain(a).non_dominant, [[np.nan, 1]])


def test_beta_leaves_out_servers_without_the_group():
    instance = fo.Instance([[2, 1], [1, 2]], [[4, 4], [4, 4], [4, 400]], eligible=[[1, 1, 0], [1, 0, 1]])
    beta = metrics.beta_fairness(made(instance, [[1, 0.5, 0], [1, 0, 1]]), "tasks")
    assert beta.dominant == pytest.approx({"resource1": 0.25, "resource2": 0})  # user 2's RAM dominates on one only
    assert beta.shares.dominant[0, 1] == 0.5
    assert np.isnan(beta.shares.dominant[1:, 1]).all()


def test_beta_between_resources_is_what_fig_9_draws():
    a = made(fo.Instance([[2, 1], [1, 2]], [4, 4]), [[1], [1.5]])
    beta = metrics.beta_fairness(a, "tasks")
    assert set(beta.dominant.values()) == {0}  # one server: nothing differs over servers
    assert beta.between_resources == {"dominant": 0.25, "non-dominant": 0.125}


def test_jain_of_equal_values_is_one_and_of_one_winner_one_over_n():
    assert metrics.jain([3.0] * 7) == 1
    assert metrics.jain([0, 0, 5, 0]) == 0.25
    assert metrics.jain([1, 2, 3]) == pytest.approx(36 / 42)
    assert metrics.jain([[1, 2], [3, 0]]) == metrics.jain([1, 2, 3, 0])


def test_jain_of_nothing_is_one():
    assert metrics.jain([]) == metrics.jain([0, 0]) == 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), st.sampled_from([1e-300, 1e-6, 1, 1e300]))
def test_jain_lies_between_one_over_n_and_one_whatever_the_size(values, size):
    index = metrics.jain(np.array(values) * size)
    assert 1 / len(values) * (1 - 1e-12) <= index <= 1
    assert index == pytest.approx(metrics.jain(values))


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_jain_refuses_what_nobody_can_have(wrong):
    with pytest.raises(fo.errors.OutOfDomain, match=f"one is {wrong}"):
        metrics.jain([1, wrong])


def test_f_beta_is_the_measure_without_efficiency_per_weight():
    values, weights = np.array([1.0, 2, 5]), np.array([1.0, 1, 2])
    for beta in (-3, -1, 0.5, 2, 7):
        fraction = values / weights / values.sum() * weights.sum()
        size = (weights / weights.sum() @ fraction ** (1 - beta)) ** (1 / beta)
        assert metrics.f_beta(values, beta, weights) == pytest.approx(size if beta < 1 else -size)
    assert metrics.f_beta(values, -1) == pytest.approx(metrics.jain(values))
    assert metrics.f_beta([1, 0], 2) == -math.inf and metrics.f_beta([1, 0], 1) == 1


@pytest.mark.parametrize(("values", "beta"), [([1], 0), ([1], math.nan), ([0, 0], 2), ([], 2), ([-1, 1], 2)])
def test_f_beta_refuses_what_has_no_measure(values, beta):
    with pytest.raises(fo.errors.OutOfDomain, match="f_beta needs"):
        metrics.f_beta(values, beta)


@pytest.mark.parametrize("weights", [[1, -1], [0, 0], [1, 1, 1], [1, math.nan]])
def test_f_beta_refuses_weights_that_are_no_entitlements(weights):
    with pytest.raises(fo.errors.OutOfDomain, match="weights"):
        metrics.f_beta([1, 3], 2, weights)


@pytest.mark.parametrize(
    "number", [metrics.beta_fairness, metrics.group_shares, metrics.group_jain, metrics.utilisation]
)
def test_an_unknown_kind_of_use_is_an_error_with_the_known_ones(number):
    with pytest.raises(fo.errors.InvalidBlock, match="did you mean 'bundles'"):
        number(example_of_004(), of="bundle")


def test_servers_without_a_resource_do_not_count_in_its_mean_utilisation():
    a = made(fo.Instance([[1, 0], [1, 2]], [[4, 0], [4, 2]], resources=["cpu", "gpu"]), [[2, 2], [0, 1]])
    found = metrics.utilisation(a)
    assert_array_equal(found.by_server, [[0.5, 0], [0.75, 1]])
    assert found.mean == {"cpu": 0.625, "gpu": 1} and found.total == {"cpu": 0.625, "gpu": 1}
    empty = metrics.utilisation(made(fo.Instance([[1, 0]], [4, 0], resources=["cpu", "gpu"]), [[1]]))
    assert empty.total == {"cpu": 0.25, "gpu": 0} and math.isnan(empty.mean["gpu"])


def test_without_users_there_are_no_groups_and_nothing_is_used():
    a = made(fo.Instance(np.zeros((0, 2)), [[4, 4], [2, 2]]), np.zeros((0, 2)))
    assert np.isnan(metrics.group_shares(a).dominant).all()
    assert np.isnan(metrics.group_jain(a).non_dominant).all()
    assert all(math.isnan(v) for v in metrics.beta_fairness(a).dominant.values())
    assert set(metrics.utilisation(a).total.values()) == {0}


@given(st.integers(0, 2**32 - 1), st.integers(-6, 6), st.integers(-6, 6))
def test_units_of_a_resource_change_no_metric(seed, first, second):
    rng = np.random.default_rng(seed)
    one = cluster(rng, 4, 3, 2)
    units = np.array([2.0**first, 2.0**second]) ** 3  # powers of two: ties stay ties
    other = one.replace(demands=one.demands * units, capacities=one.capacities * units)
    tasks = some_tasks(one, seed)
    for number in (metrics.group_shares, metrics.group_jain):
        for ours, theirs in zip(both(number(made(one, tasks))), both(number(made(other, tasks))), strict=True):
            assert_allclose(ours, theirs)


@given(st.integers(0, 50))
def test_without_shortage_hffmra_is_beta_fair_and_full_in_bundles_where_every_group_has_a_member(seed):
    instance = RequestRounds(30, 5, seed=seed).instance(0)
    a = fo.HFFMRA().allocate(instance)
    beta, full = metrics.beta_fairness(a), metrics.utilisation(a)
    assert not np.isnan(both(beta.shares)).any()
    for values in (beta.dominant, beta.non_dominant, beta.between_resources):
        assert max(values.values()) < 1e-12
    assert_allclose(full.by_server, 1)
    assert_allclose(metrics.group_jain(a).dominant, 1)  # all requests are below the fair share
    assert metrics.utilisation(a, "tasks").total["CPU"] < 0.99
