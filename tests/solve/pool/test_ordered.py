"""Ordered weights on one pool by prices: against linear programs with all rows, and refusals."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.instances import pools

import fairopt as fo

FALLING = st.lists(st.integers(0, 4), min_size=1, max_size=6).map(lambda v: tuple(sorted(v, reverse=True)))


def by_hand(instance: fo.Instance, v: tuple[float, ...], low: float = 0.0) -> float:
    """The optimum over tasks, by all sums of k smallest levels."""
    n = instance.n_users
    by_server = cp.Variable(instance.eligible.shape, nonneg=True)
    x, limited = cp.sum(by_server, axis=1), np.isfinite(instance.task_limits)
    rows = [instance.demands.T @ by_server <= instance.capacities.T, cp.multiply(by_server, ~instance.eligible) == 0]
    rows += [x[limited] <= instance.task_limits[limited], x >= low]
    z = cp.multiply(1.0 / instance.weights, x)
    term = fo.OrderedWeighted(v).term
    form = sum(term.factor * drop * (cp.sum(z) if k == n else cp.sum_smallest(z, k)) for k, drop in term.kind.steps(n))
    return float(cp.Problem(cp.Maximize(form), rows).solve(solver="HIGHS"))


@settings(max_examples=10)
@given(pools(max_users=4, max_resources=3).filter(lambda pool: (pool.task_limits > 0).all()), FALLING)
def test_the_optimum_is_that_of_a_program_with_all_rows(instance, v):
    v = (v[0] + 1, *v[1:])
    a = fo.Policy(fo.OrderedWeighted(v, fo.Tasks())).allocate(instance, method="prices")
    assert a.objective == pytest.approx(by_hand(instance, v), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("low", [0.0, 0.2])
@pytest.mark.parametrize("limits", [False, True])
def test_many_users_with_weights_that_all_differ_and_bounds(limits, low):
    rng = np.random.default_rng(7)
    n, v = 12, tuple(np.linspace(1, 0.2, 12))
    most = np.where(rng.random(n) < 0.5, rng.uniform(0.3, 1.5, n), np.inf) if limits else None
    instance = fo.Instance(rng.uniform(0.1, 4, (n, 3)), np.full(3, 1.0 * n), task_limits=most)
    bounds = [fo.MinTasks(low)] if low else []
    a = fo.Policy(fo.OrderedWeighted(v, fo.Tasks()), bounds).allocate(instance)
    assert a.certificate.method == "prices" and a.certificate.gap <= 1e-9
    assert a.objective == pytest.approx(by_hand(instance, v, low), rel=1e-7)


@pytest.mark.fast_methods
@pytest.mark.parametrize("seed", range(4))
def test_on_few_servers_the_optimum_is_that_of_a_program_with_all_rows(seed):
    rng = np.random.default_rng(seed)
    n, servers, v = 14, 3, tuple(np.linspace(1, 0.2, 14))
    most = np.where(rng.random(n) < 0.5, rng.uniform(0.3, 1.5, n), np.inf) if seed % 2 else None
    eligible = rng.random((n, servers)) < 0.7
    eligible[np.arange(n), rng.integers(0, servers, n)] = True
    demands, capacities = rng.uniform(0.1, 4, (n, 3)), rng.uniform(0.5, 2, (servers, 3)) * n / servers
    instance = fo.Instance(demands, capacities, task_limits=most, eligible=eligible, weights=rng.integers(1, 4, n))
    a = fo.Policy(fo.OrderedWeighted(v, fo.Tasks()), [fo.Reserve(0, 0.25)]).allocate(instance, method="prices")
    assert a.certificate.method == "prices" and a.certificate.gap <= 1e-9
    within = instance.replace(capacities=capacities * [0.75, 1, 1])
    assert a.objective == pytest.approx(by_hand(within, v), rel=1e-7)


@pytest.mark.fast_methods
@pytest.mark.parametrize("decades", [2.0, 4.0])
def test_demands_over_decades_on_servers_have_a_proof(decades):
    """Cone programs of 1,000 took 5 s, or ended without a proof."""
    instance = fo.datasets.log_uniform(1_000, 3, n_servers=4, different_servers=True, decades=decades, seed=1)
    a = fo.Policy(fo.OrderedWeighted(tuple(range(1_000, 0, -1)))).allocate(instance)
    assert a.certificate.method == "prices" and a.certificate.gap <= 1e-9


@pytest.mark.fast_methods
@pytest.mark.parametrize("n", [100, 3_000])
def test_users_are_not_too_many_for_the_proof(n):
    rng = np.random.default_rng(n)
    instance = fo.Instance(rng.uniform(0.1, 4, (n, 4)), np.full(4, 1.0 * n))
    assert fo.Policy(fo.OrderedWeighted(tuple(np.linspace(1, 0.01, n)))).allocate(instance).certificate.gap <= 1e-9


@pytest.mark.fast_methods
@pytest.mark.parametrize("v", [tuple(range(400, 0, -1)), tuple(0.9**k for k in range(400)), (3, 2, 1)])
def test_demands_over_four_decades_with_zeros_have_prices(v):
    """The first program prices few resources, of which some users need none."""
    a = fo.Policy(fo.OrderedWeighted(v)).allocate(fo.datasets.log_uniform(400, 4, seed=1), method="prices")
    assert a.certificate.gap <= 1e-9


def test_lower_bounds_that_do_not_fit_are_infeasible():
    instance = fo.Instance([[1], [2]], [6])
    with pytest.raises(fo.errors.Infeasible, match="MinTasks"):
        fo.Policy(fo.OrderedWeighted((2, 1)), [fo.MinTasks(3)]).allocate(instance)


def test_lower_bounds_that_fill_the_pool_are_the_answer():
    a = fo.Policy(fo.OrderedWeighted((2, 1)), [fo.MinTasks(2)]).allocate(fo.Instance([[1], [2]], [6]))
    np.testing.assert_allclose(a.tasks, 2)


def test_the_evidence_of_a_file_proves_the_answer_again(tmp_path):
    instance = fo.Instance([[1, 2], [2, 1], [1, 1]], [6, 5], task_limits=[1, None, 3])
    a = fo.Policy(fo.OrderedWeighted((2, 1, 0.5))).allocate(instance)
    assert fo.Allocation.load(a.save(tmp_path / "a.json")).certificate.gap <= 1e-9
