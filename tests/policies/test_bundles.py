"""MLF-DRS, FFMRA and H-FFMRA: the papers' numbers, in closed form and by every solver; what matters and what not."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracle import bundles as oracle
from oracle.instances import cluster

import fairopt as fo

TABLE_I = fo.Instance([[3, 1], [5, 3], [1, 5], [2, 7]], [18, 36])
EXAMPLE = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]])
SOLVERS = [None, *(s for s in ("CLARABEL", "ECOS", "SCS") if s in cp.installed_solvers())]


def floats(nested):
    return np.array([[[float(v) for v in row] for row in rows] for rows in nested])


@pytest.mark.parametrize("solver", SOLVERS)
def test_table_one_of_002(solver):
    a = fo.MLFDRS().allocate(TABLE_I, solver=solver)
    cpu = np.array([4.5, 5, 1, 2]) * 18 / 12.5
    ram = np.array([1, 3, 9, 9]) * 36 / 22
    assert_allclose(a.bundles[:, 0], np.stack([cpu, ram], axis=1), rtol=1e-4)
    assert a.certificate.gap <= 1e-6


@pytest.mark.parametrize("solver", SOLVERS)
def test_equal_growth_is_what_table_one_printed_for_ram_of_users_1_and_2(solver):
    a = fo.MLFDRS(growth="equal").allocate(TABLE_I, solver=solver)
    assert_allclose(a.bundles[:2, 0, 1], [1 + 14 * 4 / 22 / 2, 3 + 14 * 4 / 22 / 2], rtol=1e-4)
    assert_allclose(a.bundles[:2, 0, 1].round(1), [2.3, 4.3])


@pytest.mark.parametrize("solver", SOLVERS)
def test_example_of_004(solver):
    a = fo.HFFMRA(units="raw").allocate(EXAMPLE, solver=solver)
    expected = np.array([[[63, 288], [70, 320]], [[144, 126], [160, 140]]]) / 23
    assert_allclose(a.bundles, expected, rtol=1e-4)
    assert_allclose(a.tasks, [98 / 23, 88 / 23], rtol=1e-4)
    assert a.certificate.gap <= 1e-6
    assert_allclose(a.usage, EXAMPLE.capacities, rtol=1e-6)


def test_full_use_of_bundles_is_not_full_use_by_tasks():
    a = fo.HFFMRA(units="raw").allocate(EXAMPLE)
    used = np.einsum("jsi,js->si", EXAMPLE.demands, a.tasks_by_server)
    assert (a.usage >= EXAMPLE.capacities * (1 - 1e-12)).all()
    assert (used < 0.95 * EXAMPLE.capacities).any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_closed_form_is_the_oracle(seed, n, servers, m, by_server):
    instance = cluster(np.random.default_rng(seed), n, servers, m, by_server).replace(weights=None, task_limits=None)
    demands, eligible = instance.per_server_demands.tolist(), instance.eligible.tolist()
    for units in ("share", "raw"):
        a = fo.HFFMRA(units).allocate(instance)
        exact = oracle.hffmra(demands, instance.capacities.tolist(), units, eligible, instance.counts.tolist())
        assert_allclose(a.bundles, floats(exact), rtol=1e-9, atol=1e-12)
        assert_allclose(a.tasks_by_server, [[float(v) for v in row] for row in oracle.tasks(demands, exact)], rtol=1e-9)
    for growth in ("proportional", "equal"):
        a = fo.MLFDRS(growth).allocate(instance)
        for s in range(servers):
            rows, here = [row[s] for row in demands], instance.eligible[:, s].tolist()
            exact = oracle.mlf_drs(rows, instance.capacities[s].tolist(), growth, here) if any(here) else [[0] * m] * n
            assert_allclose(a.bundles[:, s] / instance.counts[s], np.array(exact, dtype=float), rtol=1e-9, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_with_one_server_hffmra_is_ffmra(seed, n, m):
    instance = cluster(np.random.default_rng(seed), n, 1, m).replace(weights=None)
    for units in ("share", "raw"):
        one, other = fo.HFFMRA(units).allocate(instance), fo.FFMRA(units).allocate(instance)
        assert_allclose(one.bundles, other.bundles, rtol=1e-12)


def test_ffmra_on_several_servers_is_ffmra_on_each():
    whole = fo.FFMRA().allocate(EXAMPLE)
    for s in range(2):
        alone = fo.FFMRA().allocate(fo.Instance(EXAMPLE.demands[:, s], EXAMPLE.capacities[s]))
        assert_allclose(whole.bundles[:, s], alone.bundles[:, 0], rtol=1e-12)
    assert not np.allclose(whole.bundles, fo.HFFMRA().allocate(EXAMPLE).bundles, rtol=1e-3)


@pytest.mark.parametrize("policy", [fo.MLFDRS(), fo.FFMRA()], ids=repr)
def test_what_looks_at_each_server_alone_anyway_is_the_same_per_server(policy):
    instance = EXAMPLE.replace(counts=[1, 3], task_limits=[2, None])
    a, b = fo.NaivePerServer(policy).allocate(instance), policy.allocate(instance)
    assert_allclose(a.bundles, b.bundles, rtol=1e-12)
    assert_allclose(a.tasks_by_server, b.tasks_by_server, rtol=1e-12)
    assert_allclose(a.objective, b.objective, rtol=1e-9)
    other = fo.NaivePerServer(fo.HFFMRA()).allocate(instance)  # its sums are over one server then: FFMRA
    assert_allclose(other.bundles, fo.FFMRA().allocate(instance).bundles, rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_units_of_memory_change_nothing_by_shares(seed, n, servers):
    instance = cluster(np.random.default_rng(seed), n, servers, 2, by_server=True).replace(weights=None)
    instance = instance.replace(demands=instance.demands / 10, capacities=instance.capacities / 10)  # rounded: ties too
    in_mb = np.array([1.0, 1000.0])
    other = instance.replace(demands=instance.demands * in_mb, capacities=instance.capacities * in_mb)
    for policy in (fo.MLFDRS(), fo.MLFDRS("equal"), fo.FFMRA(), fo.HFFMRA()):
        a, b = policy.allocate(instance), policy.allocate(other)
        assert_allclose(a.bundles * in_mb, b.bundles, rtol=1e-9)
        assert_allclose(a.tasks, b.tasks, rtol=1e-9)


def test_ties_are_not_decided_by_rounding():
    for unit in (1, 1000):
        a = fo.MLFDRS().allocate(fo.Instance(np.array([[0.3 * unit, 1], [0.2 * unit, 0.5]]), [3 * unit, 10]))
        assert_allclose(a.tasks, [5, 20 / 3], rtol=1e-9)
    thirds = fo.HFFMRA().allocate(fo.Instance([[0.1], [0.2], [0.3]], [0.6]))  # no shortage: 0.1 + 0.2 + 0.3 is 0.6
    assert_allclose(thirds.tasks, fo.HFFMRA().allocate(fo.Instance([[1], [2], [3]], [6])).tasks, rtol=1e-9)


@pytest.mark.fast_methods
def test_a_part_that_is_tiny_beside_the_other_keeps_its_digits():
    tiny = fo.Instance([[1, 1e-17], [1e-17, 1], [1, 1e-17]], [10, 10])
    exact = floats(oracle.hffmra([[row] for row in tiny.demands.tolist()], tiny.capacities.tolist()))
    assert_allclose(fo.HFFMRA().allocate(tiny).bundles, exact, rtol=1e-9)


def test_units_change_raw_sums():
    in_mb = np.array([1.0, 1024.0])
    other = EXAMPLE.replace(demands=EXAMPLE.demands * in_mb, capacities=EXAMPLE.capacities * in_mb)
    a, b = fo.HFFMRA("raw").allocate(EXAMPLE), fo.HFFMRA("raw").allocate(other)
    assert abs(a.tasks - b.tasks).max() > 0.01


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_bundles_fill_no_server_beyond_its_capacity_and_stay_where_users_may_run(seed, n, servers, by_server):
    instance = cluster(np.random.default_rng(seed), n, servers, 2, by_server).replace(weights=None)
    room = instance.capacities * instance.counts[:, None]
    for policy in (fo.MLFDRS(), fo.MLFDRS("equal"), fo.FFMRA(), fo.HFFMRA()):
        a = policy.allocate(instance)
        assert (a.bundles.sum(axis=0) <= room * (1 + 1e-12)).all()
        assert (a.bundles[~instance.eligible] == 0).all() and (a.tasks_by_server[~instance.eligible] == 0).all()
        assert (a.tasks <= instance.task_limits * (1 + 1e-12)).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 4))
def test_order_and_merging_change_nothing(seed, n, servers):
    rng = np.random.default_rng(seed)
    instance = cluster(rng, n, servers, 2).replace(weights=None)
    rows, columns = rng.permutation(n), rng.permutation(servers)
    mixed = instance.replace(
        demands=instance.demands[rows],
        eligible=instance.eligible[rows][:, columns],
        counts=instance.counts[columns],
        capacities=instance.capacities[columns],
        task_limits=instance.task_limits[rows],
    )
    split = np.repeat(np.arange(servers), instance.counts)
    apart = instance.replace(capacities=instance.capacities[split], eligible=instance.eligible[:, split], counts=None)
    for policy in (fo.MLFDRS(), fo.HFFMRA()):
        a = policy.allocate(instance)
        assert_allclose(policy.allocate(mixed).bundles, a.bundles[rows][:, columns], rtol=1e-9, atol=1e-12)
        one = policy.allocate(apart)
        assert_allclose(one.bundles * instance.counts[split][:, None], a.bundles[:, split], rtol=1e-9, atol=1e-12)
        assert_allclose(one.tasks, a.tasks, rtol=1e-9)


def test_task_limits_cut_the_tasks_not_the_bundles():
    free = fo.HFFMRA().allocate(EXAMPLE)
    a = fo.HFFMRA().allocate(EXAMPLE.with_task_limits([1, None]))
    assert_allclose(a.bundles, free.bundles, rtol=1e-12)
    assert_allclose(a.tasks, [1, free.tasks[1]], rtol=1e-12)
    assert_allclose(a.tasks_by_server[0] / a.tasks[0], free.tasks_by_server[0] / free.tasks[0], rtol=1e-12)


def test_user_with_task_limit_0_leaves_the_bases():
    with_idle = fo.Instance([[3, 1], [9, 9], [1, 5]], [18, 36], task_limits=[None, 0, None])
    without = fo.Instance([[3, 1], [1, 5]], [18, 36])
    for policy in (fo.MLFDRS(), fo.HFFMRA()):
        a = policy.allocate(with_idle)
        assert_allclose(a.bundles[[0, 2]], policy.allocate(without).bundles, rtol=1e-12)
        assert (a.bundles[1] == 0).all()


def test_unequal_weights_are_refused():
    for policy in (fo.MLFDRS(), fo.FFMRA(), fo.HFFMRA()):
        with pytest.raises(fo.errors.OutOfDomain, match="user 'user2' 3"):
            policy.allocate(TABLE_I.with_weights([1, 3, 1, 1]))
        assert policy.allocate(TABLE_I.with_weights(7)).certificate.ok


def test_nobody_takes_part():
    for policy in (fo.MLFDRS(), fo.HFFMRA()):
        for instance in (fo.Instance([], [4, 4]), TABLE_I.with_task_limits(0)):
            a = policy.allocate(instance)
            assert a.certificate.ok and a.certificate.method == "empty"
            assert a.bundles.shape == (instance.n_users, 1, 2) and not a.bundles.any()


def test_one_user_gets_everything_it_can_use():
    a = fo.HFFMRA().allocate(fo.Instance([[2, 1, 0]], [[8, 8, 8], [4, 8, 8]]))
    assert_allclose(a.bundles[0], [[8, 8, 0], [4, 8, 0]])
    assert_allclose(a.tasks_by_server[0], [4, 2])


def test_one_resource_is_shared_among_those_dominant_in_it():
    a = fo.HFFMRA().allocate(fo.Instance([[1], [4]], [6]))
    assert_allclose(a.bundles[:, 0, 0], [3 * 6 / 7, 4 * 6 / 7])


def test_all_servers_in_one_group():
    both = fo.Instance([[[4, 1], [4, 1]], [[3, 1], [2, 1]]], [[9, 9], [8, 8]])  # all users are dominant in the first
    a = fo.HFFMRA().allocate(both)
    assert_allclose(a.usage, both.capacities)


def test_zero_capacity_of_one_resource_on_one_server():
    gpu = fo.Instance([[1, 0], [1, 1]], [[4, 0], [4, 4]], resources=["cpu", "gpu"])
    for policy in (fo.MLFDRS(), fo.FFMRA(), fo.HFFMRA()):
        a = policy.allocate(gpu)
        assert a.tasks_by_server[1, 0] == 0 and (a.bundles[1, 0] == 0).all()
        assert_allclose(a.bundles[0, 0], [4, 0])


@pytest.mark.fast_methods
def test_what_a_resource_lacks_altogether_stays_unused():
    a = fo.MLFDRS().allocate(fo.Instance([[1, 0], [2, 0]], [[4, 5], [4, 5]]))
    assert (a.usage[:, 1] == 0).all() and (a.usage[:, 0] == 4).all()


def test_shortage_leaves_nobody_more_than_requested():
    short = fo.Instance([[6, 1], [7, 5], [0.5, 0.2]], [8, 6])
    a = fo.HFFMRA().allocate(short)
    assert (a.bundles[:, 0] <= short.demands * (1 + 1e-12)).all()
    assert_allclose(a.usage[0], [8, 6], rtol=1e-12)
    assert (fo.MLFDRS().allocate(short).bundles[:, 0] > short.demands).any()  # MLF-DRS has no such rule


def test_names_and_parameters():
    assert repr(fo.HFFMRA("raw")) == (
        "Policy(WeightedLog(), constraints=[GlobalAggregateResource('raw'), AtMostRequested()], name='H-FFMRA(raw)')"
    )
    assert fo.MLFDRS("equal").name == "MLF-DRS(equal)"
    with pytest.raises(fo.errors.InvalidBlock, match="'proportional' or 'equal'"):
        fo.MLFDRS("faster")
    with pytest.raises(fo.errors.InvalidBlock, match="'share' or 'raw'"):
        fo.HFFMRA(units="GB")
