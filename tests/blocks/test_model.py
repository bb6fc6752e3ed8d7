"""Model and Point: the same names mean the same numbers, in the shapes that are documented."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fairopt as fo
from fairopt.blocks.model import Pairs, Point

SHARES = [fo.Tasks(), fo.DominantShare(), fo.KDominantShare(1), fo.PNormShare(1.5), fo.StandAloneShare()]


@st.composite
def placed(draw):
    """An instance on 1 to 3 servers, and tasks by user and server, zero where a user may not run."""
    n, m, servers = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = (n, servers, m) if draw(st.booleans()) else (n, m)
    size = int(np.prod(shape))
    demands = np.reshape(draw(st.lists(st.floats(0.05, 20), min_size=size, max_size=size)), shape)
    capacities = np.reshape(draw(st.lists(st.floats(5, 100), min_size=servers * m, max_size=servers * m)), (servers, m))
    eligible = np.reshape(draw(st.lists(st.booleans(), min_size=n * servers, max_size=n * servers)), (n, servers))
    eligible[:, -1] = True
    instance = fo.Instance(
        demands,
        capacities,
        eligible=eligible,
        weights=draw(st.lists(st.floats(0.2, 5), min_size=n, max_size=n)),
        counts=draw(st.lists(st.integers(1, 3), min_size=servers, max_size=servers)),
    )
    numbers = draw(st.lists(st.floats(0, 10), min_size=n * servers, max_size=n * servers))
    return instance, np.where(eligible, np.reshape(numbers, (n, servers)), 0.0)


def model_at(instance, tasks, scale=None):
    pairs = Pairs(instance)
    scale = np.ones(len(pairs)) if scale is None else scale
    unknowns = cp.Variable(len(pairs))
    unknowns.value = tasks[pairs.user, pairs.server] / scale
    return fo.Model(instance, unknowns, scale)


@given(placed())
def test_pairs_of_a_whole_table_are_those_by_indices(at):
    instance, tasks = at
    pairs, by_pair = Pairs(instance), tasks[instance.eligible]
    if pairs.single:
        return
    assert pairs.full == instance.eligible.all()
    table = pairs.table(by_pair)
    assert_array_equal(table, tasks)
    assert_array_equal(pairs.of(tasks), by_pair)
    assert_array_equal(pairs.of(instance.weights), instance.weights[pairs.user])
    assert_array_equal(pairs.min(by_pair), np.where(instance.eligible, tasks, np.inf).min(axis=1))
    by_pair += 1.0  # neither shares memory with what it was made of
    pairs.of(tasks)[:] = -1.0
    assert_array_equal(table, tasks)
    assert (tasks >= 0).all()


@given(placed(), st.floats(0.01, 100))
def test_model_and_point_agree(at, unit):
    instance, tasks = at
    scale = unit * (1.0 + np.arange(int(instance.eligible.sum())) % 4)
    model, point = model_at(instance, tasks, scale), Point(instance, tasks)
    assert_allclose(model.tasks.value, point.tasks, rtol=1e-12, atol=1e-12)
    assert_allclose(model.tasks_by_server.value, point.tasks_by_server, rtol=1e-12, atol=1e-12)
    assert_allclose(model.bundles.value, point.bundles, rtol=1e-12, atol=1e-12)
    assert_array_equal(model.weights, point.weights)
    for share in SHARES:
        assert_allclose(model.share(share).value, point.share(share), rtol=1e-12, atol=1e-12)
        assert model.level(share) == pytest.approx(point.level(share), rel=1e-14)


@given(placed())
def test_loads_are_the_used_fraction_of_each_row_with_its_count(at):
    instance, tasks = at
    used = np.einsum("jsi,js->si", instance.per_server_demands, tasks)
    expected = used / (instance.capacities * instance.counts[:, None])
    assert_allclose(model_at(instance, tasks).loads.value, expected.ravel(), rtol=1e-12, atol=1e-14)


@given(placed())
def test_relative_shares_are_shares_per_weight_in_units_of_the_level(at):
    instance, tasks = at
    model = model_at(instance, tasks)
    for share in SHARES:
        expected = Point(instance, tasks).share(share) / instance.weights / model.level(share)
        assert_allclose(model.relative_share(share).value, expected, rtol=1e-12, atol=1e-14)
        near_one, factor = model.split_share(share)
        assert_allclose(near_one.value * factor, expected, rtol=1e-12, atol=1e-14)


@given(placed())
def test_shapes_are_those_documented(at):
    instance, tasks = at
    n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
    for view in (model_at(instance, tasks), Point(instance, tasks)):
        assert view.tasks.shape == (n,)
        assert view.tasks_by_server.shape == (n, servers)
        assert view.bundles.shape == (n, servers, m)
        assert view.share(fo.DominantShare()).shape == (n,)
        assert view.weights.shape == (n,)
    assert model_at(instance, tasks).loads.shape == (servers * m,)


@given(placed())
def test_expressions_are_linear_in_the_unknowns(at):
    instance, tasks = at
    model = model_at(instance, tasks)
    for expression in (model.tasks, model.tasks_by_server, model.bundles, model.loads, model.share(fo.DominantShare())):
        assert expression.is_affine()


@given(placed())
def test_only_pairs_where_a_user_may_run_are_unknown(at):
    instance, _ = at
    pairs = Pairs(instance)
    assert len(pairs) == instance.eligible.sum()
    assert instance.eligible[pairs.user, pairs.server].all()
    assert (np.diff(pairs.user) >= 0).all()


@given(placed(), st.floats(0, 3))
def test_a_scaled_point_has_all_tasks_times_the_factor(at, factor):
    instance, tasks = at
    assert_allclose(Point(instance, tasks).scaled(factor).tasks, tasks.sum(axis=1) * factor, rtol=1e-14, atol=1e-300)


@given(placed())
def test_the_level_is_an_upper_bound_of_the_max_min_share_per_weight(at):
    instance, _ = at
    for share in (fo.DominantShare(), fo.Tasks()):
        best = fo.Policy(fo.MaxMin(share)).allocate(instance).objective
        assert best <= Point(instance, np.zeros(instance.eligible.shape)).level(share) * (1 + 1e-9)


def test_the_level_is_the_max_min_share_on_one_pool_without_limits():
    instance = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    assert Point(instance, np.zeros((2, 1))).level(fo.DominantShare()) == pytest.approx(0.5, rel=1e-14)


def test_tasks_where_a_share_has_no_meaning_count_for_nothing():
    demands = [[[1, 1], [1, 1]], [[1, 1], [2, 4]]]
    instance = fo.Instance(demands, [[10, 10], [10, 30]], eligible=[[1, 0], [1, 1]])
    tasks = np.array([[3.0, 0.0], [1.0, 2.0]])
    assert_allclose(Point(instance, tasks).share(fo.DominantShare()), [3 / 20, 1 / 20 + 2 * 4 / 40], rtol=1e-14)
    assert_allclose(
        model_at(instance, tasks).share(fo.DominantShare()).value, [3 / 20, 1 / 20 + 2 * 4 / 40], rtol=1e-14
    )


def test_a_model_of_nobody_is_empty():
    instance = fo.Instance(np.zeros((0, 2)), [[1, 1], [2, 2]])
    assert len(Pairs(instance)) == 0
    assert Point(instance, np.zeros((0, 2))).level(fo.DominantShare()) == 1.0
