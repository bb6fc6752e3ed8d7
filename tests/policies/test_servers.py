"""What every notion for several servers has in common: capacities, placement, merging, order, and bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracle.instances import cluster

import fairopt as fo
from fairopt.allocation import feasibility

UNWEIGHTED = [fo.MLFDRS(), fo.MLFDRS("equal"), fo.FFMRA(), fo.HFFMRA(), fo.HFFMRA("raw")]
WEIGHTED = [fo.DRF(), fo.TSF(), fo.PSDSF(), fo.NaivePerServer(fo.DRF()), fo.NaivePerServer(fo.FDS(2))]
EVERY = WEIGHTED + UNWEIGHTED
ROW_11 = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]])


def drawn(seed, n, servers, m, by_server, policy):
    instance = cluster(np.random.default_rng(seed), n, servers, m, by_server)
    return instance.with_weights(1) if policy in UNWEIGHTED else instance


@pytest.mark.parametrize("policy", EVERY, ids=repr)
@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_nobody_exceeds_a_capacity_a_limit_or_leaves_where_it_may_run(policy, seed, n, servers, m, by_server):
    instance = drawn(seed, n, servers, m, by_server, policy)
    a = policy.allocate(instance)
    assert a.certificate.ok
    assert feasibility(instance, a.tasks_by_server) <= 1e-9
    assert (a.tasks_by_server[~instance.eligible] == 0).all() and (a.bundles[~instance.eligible] == 0).all()
    assert (a.usage <= instance.capacities * instance.counts[:, None] * (1 + 1e-9)).all()
    assert (a.task_usage <= a.usage * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("policy", EVERY, ids=repr)
@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 3), st.booleans())
def test_the_order_of_users_and_servers_changes_nothing(policy, seed, n, servers, by_server):
    instance = drawn(seed, n, servers, 2, by_server, policy)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(n), rng.permutation(servers)
    demands = instance.demands[rows] if instance.demands.ndim == 2 else instance.demands[rows][:, columns]
    mixed = fo.Instance(
        demands,
        instance.capacities[columns],
        weights=instance.weights[rows],
        task_limits=instance.task_limits[rows],
        eligible=instance.eligible[rows][:, columns],
        counts=instance.counts[columns],
    )
    a, b = policy.allocate(instance), policy.allocate(mixed)
    assert a.certificate.ok and b.certificate.ok
    if policy == fo.PSDSF():  # equilibria need not be unique: both are proved
        return
    if policy in (fo.DRF(), fo.TSF()):  # where demands differ by server, equal shares can be other tasks
        assert_allclose(b.shares, a.shares[rows], rtol=2e-6, atol=1e-7)
    else:
        assert_allclose(b.tasks, a.tasks[rows], rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("policy", EVERY, ids=repr)
@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_counts_are_as_many_servers(policy, seed, n, servers):
    instance = drawn(seed, n, servers, 2, False, policy)
    split = np.repeat(np.arange(servers), instance.counts)
    apart = instance.replace(capacities=instance.capacities[split], eligible=instance.eligible[:, split], counts=None)
    assert_allclose(policy.allocate(apart).tasks, policy.allocate(instance).tasks, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("policy", [p for p in EVERY if p != fo.HFFMRA("raw")], ids=repr)
@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_memory_in_mb_or_gb_changes_nothing(policy, seed, n, servers):
    instance = drawn(seed, n, servers, 2, False, policy)
    instance = instance.replace(demands=instance.demands / 10, capacities=instance.capacities / 10)  # rounded: ties too
    unit = np.array([1.0, 1000.0])
    other = instance.replace(demands=instance.demands * unit, capacities=instance.capacities * unit)
    assert_allclose(policy.allocate(other).tasks, policy.allocate(instance).tasks, rtol=2e-6, atol=1e-7)


def test_row_11_drfh_has_5_7_and_10_tasks_each():
    a = fo.DRF().allocate(ROW_11)
    assert_allclose(a.tasks, [10, 10], rtol=1e-9)
    assert_allclose(a.shares, [5 / 7, 5 / 7], rtol=1e-9)


def test_row_11_tsf_has_5_6_and_10_tasks_each():
    a = fo.TSF().allocate(ROW_11)
    assert_allclose(a.tasks, [10, 10], rtol=1e-9)
    assert_allclose(a.shares, [5 / 6, 5 / 6], rtol=1e-9)


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_user_eligible_where_something_it_needs_is_missing_does_not_run_there(policy):
    instance = fo.Instance([[1, 0], [1, 2]], [[4, 0], [4, 4]], eligible=[[1, 1], [1, 1]])
    a = policy.allocate(instance)
    assert a.tasks_by_server[1, 0] == 0 and a.tasks_by_server[1, 1] > 0
    assert a.certificate.ok


@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_zero_capacity_of_one_resource_on_one_server_is_no_trouble(policy):
    instance = fo.Instance([[1, 0], [2, 0], [1, 1]], [[6, 0], [0, 5], [6, 6]])
    a = policy.allocate(instance)
    assert a.certificate.ok and (a.usage[1] == 0).all()
    assert (a.tasks > 0).all()


def test_demands_for_some_servers_only_need_placement_to_say_so():
    demands = [[[1, 1], [0, 0]], [[2, 1], [1, 1]]]
    with pytest.raises(fo.errors.InvalidInstance, match=r"'user1' demands nothing on server 'server2'.*not eligible"):
        fo.Instance(demands, [[4, 4], [4, 4]])
    with pytest.raises(fo.errors.InvalidInstance, match=r"user1.*nan"):
        fo.Instance([[[1, 1], [np.nan, np.nan]], [[2, 1], [1, 1]]], [[4, 4], [4, 4]])
    instance = fo.Instance(demands, [[4, 4], [4, 4]], eligible=[[1, 0], [1, 1]])
    for policy in EVERY:
        a = policy.allocate(instance)
        assert a.certificate.ok and a.tasks_by_server[0, 1] == 0


@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_all_servers_in_one_group_are_one_server_with_a_count(policy):
    one = fo.Instance([[1, 2], [2, 1]], [6, 8], counts=[5])
    rows = fo.Instance([[1, 2], [2, 1]], [[6, 8]] * 5)
    assert_allclose(policy.allocate(rows).tasks, policy.allocate(one).tasks, rtol=1e-7)
    assert rows.merged().counts.tolist() == [5]


def test_counts_of_0_are_refused():
    with pytest.raises(fo.errors.InvalidInstance, match=r"count of server 'server2' is 0.*whole number >= 1"):
        fo.Instance([[1, 2]], [[4, 4], [4, 4]], counts=[1, 0])


@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_nobody_and_one(policy):
    for instance in (fo.Instance([], [[4, 4], [2, 2]]), fo.Instance([[1, 1]], [[4, 4], [2, 2]], task_limits=0)):
        a = policy.allocate(instance)
        assert a.certificate.ok and a.tasks.sum() == 0
    a = policy.allocate(fo.Instance([[1, 2]], [[4, 4], [2, 2]]))
    assert_allclose(a.tasks, [3], rtol=1e-6)
