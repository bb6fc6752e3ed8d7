"""PS-DSF: certified on any cluster, DRF on one pool, indifferent to labels and to how servers are written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from oracle.instances import cluster, clusters, log_uniform, pools

import fairopt as fo
from fairopt.allocation import feasibility
from fairopt.policies.psdsf import PSDSF
from fairopt.proof.server_rises import largest_gain
from fairopt.report.outcomes import outcome
from fairopt.runtime.clock import Clock
from fairopt.solve.cluster.psdsf import equilibrium


@given(clusters())
def test_every_answer_is_certified_and_fits_on_each_server(instance: fo.Instance) -> None:
    a = PSDSF().allocate(instance)
    assert a.certificate.ok and a.certificate.gap == largest_gain(instance, a.tasks_by_server).gain
    assert (a.usage <= instance.capacities * instance.counts[:, None] * (1 + 1e-9)).all()
    assert (a.tasks <= instance.task_limits * (1 + 1e-9)).all()
    assert not a.tasks_by_server[~instance.eligible].any()
    assert (a.tasks_by_server >= 0).all()


@given(pools())
def test_on_one_pool_it_is_drf(instance: fo.Instance) -> None:
    ours, drf = PSDSF().allocate(instance), fo.DRF().allocate(instance)
    np.testing.assert_allclose(ours.tasks, drf.tasks, rtol=1e-8, atol=1e-12)
    assert ours.objective == pytest.approx(drf.objective, rel=1e-8)


def test_a_hand_made_cluster() -> None:
    # gamma is 3 and 3 on server 1, 1 and 2 on server 2; user 2 alone fills server 2 (2 tasks), and on server 1 both
    # stand at the same level, 2 x1 + (x2 - 2) = 6 of resource 2 with x1 = x2
    a = PSDSF().allocate(fo.Instance([[1, 2], [2, 1]], [[6, 6], [4, 2]]))
    np.testing.assert_allclose(a.tasks_by_server, [[8 / 3, 0], [2 / 3, 2]], rtol=1e-12)


def test_drfh_row_11_has_each_user_where_it_fits() -> None:
    a = PSDSF().allocate(fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]]))
    np.testing.assert_allclose(a.tasks_by_server, [[10, 0], [0, 10]], rtol=1e-12)


def test_weights_are_levels() -> None:
    a = PSDSF().allocate(fo.Instance([[1], [1]], [[4], [8]], weights=[1, 2]))
    np.testing.assert_allclose(a.tasks, [4, 8], rtol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_a_row_of_q_servers_is_q_servers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = cluster(rng, 6, 4, 3, by_server=seed % 2 == 1)
    rows = np.repeat(np.arange(4), instance.counts)
    single = instance.replace(
        demands=instance.demands if instance.demands.ndim == 2 else instance.demands[:, rows],
        capacities=instance.capacities[rows],
        eligible=instance.eligible[:, rows],
        counts=None,
        servers=None,
    )
    a, b = PSDSF().allocate(instance), PSDSF().allocate(single)
    np.testing.assert_allclose(b.tasks, a.tasks, rtol=1e-6)
    for s in range(4):
        found, right = b.tasks_by_server[:, rows == s].sum(axis=1), a.tasks_by_server[:, s]
        np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-13 * a.tasks.max())


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_users_and_servers_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = log_uniform(rng, 12, 3, servers=5, limits=0.3 * (seed % 2))
    users, servers = rng.permutation(12), rng.permutation(5)
    other = instance.select_users(users)
    other = other.replace(
        capacities=other.capacities[servers], eligible=other.eligible[:, servers], counts=other.counts[servers]
    )
    a, b = PSDSF().allocate(instance), PSDSF().allocate(other)
    np.testing.assert_allclose(b.tasks_by_server, a.tasks_by_server[users][:, servers], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_units_of_resources_do_not_matter(seed: int) -> None:
    instance = log_uniform(np.random.default_rng(seed), 10, 3, servers=4, limits=0.3)
    units = np.array([1e-6, 1.0, 1e9])
    other = instance.replace(demands=instance.demands * units, capacities=instance.capacities * units)
    np.testing.assert_allclose(PSDSF().allocate(other).tasks, PSDSF().allocate(instance).tasks, rtol=1e-6)


def test_where_users_at_their_limit_run_is_open() -> None:
    instance = fo.Instance(
        [[1], [1], [1]], [[4], [4]], task_limits=[1, None, None], eligible=[[True, True], [True, False], [False, True]]
    )
    for x in ([[1, 0], [3, 0], [0, 4]], [[0, 1], [4, 0], [0, 3]]):
        assert largest_gain(instance, np.array(x, dtype=float)).gain == 0


def test_users_with_a_limit_of_0_change_nothing() -> None:
    demands, capacities = [[1, 2], [2, 1], [3, 3]], [[6, 6], [4, 2]]
    a = PSDSF().allocate(fo.Instance(demands, capacities, task_limits=[None, None, 0]))
    np.testing.assert_allclose(a.tasks, [8 / 3, 8 / 3, 0], rtol=1e-12)


@pytest.mark.parametrize("limits", [None, 0])
def test_nobody_to_serve_is_certified(limits: int | None) -> None:
    n = 0 if limits is None else 2
    a = PSDSF().allocate(fo.Instance(np.ones((n, 2)), [[1, 1], [2, 2]], task_limits=limits))
    assert a.certificate.ok and a.certificate.method == "empty" and not a.tasks.any() and a.objective == 0


def test_a_server_that_lacks_a_resource_serves_those_who_do_without() -> None:
    a = PSDSF().allocate(fo.Instance([[1, 1], [1, 0]], [[3, 0], [2, 2]]))
    assert a.tasks_by_server[0, 0] == 0
    np.testing.assert_allclose(a.tasks, [2, 3], rtol=1e-12)


def test_a_task_that_is_nothing_beside_those_elsewhere_keeps_to_the_capacity() -> None:
    a = PSDSF().allocate(fo.Instance([[1e-60, 1]], [[1e10, 1], [1, 1e10]]))
    np.testing.assert_allclose(a.tasks_by_server, [[1, 1e10]], rtol=1e-7)
    assert a.certificate.violation <= 1e-9


def test_without_time_it_is_refused_with_the_best_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fairopt.policies.psdsf.equilibrium", lambda some, clock, keep: equilibrium(some, Clock(1e-9), keep)
    )
    instance = log_uniform(np.random.default_rng(0), 60, 3, servers=10)
    with pytest.raises(
        fo.errors.NotCertified, match=r"could still rise by .* on server 'server\d+' .*time_limit"
    ) as caught:
        PSDSF().allocate(instance, time_limit=60)
    best = caught.value.best
    assert feasibility(instance, best.tasks_by_server) <= 1e-9 and not best.certificate.ok


@pytest.mark.parametrize("wrong", [0, -1.0, "1"])
def test_a_time_limit_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit"):
        PSDSF().allocate(fo.Instance([[1]], [1]), time_limit=wrong)


def test_something_else_than_an_instance_is_refused() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="not an instance"):
        PSDSF().allocate([[1]])  # type: ignore[arg-type]


def test_it_can_be_compared_and_pasted() -> None:
    assert eval(repr(PSDSF()), {"PSDSF": PSDSF}) == PSDSF()
    found = outcome("PS-DSF", PSDSF(), fo.Instance([[1]], [[1], [2]]), time_limit=9, solver=None)
    assert found.allocation is not None and found.row()["certified"]
    assert "PS-DSF" in repr(found.allocation)


def test_weights_and_tasks_of_any_size_say_nothing_of_who_gets_more() -> None:
    """Levels beyond floats made it run on for ever, or look for a resource in none."""
    plain, wild = fo.Instance([[4], [1]], [[11], [9]]), fo.Instance([[4e59], [1e59]], [[11], [9]], weights=[1e60] * 2)
    np.testing.assert_allclose(PSDSF().allocate(wild).tasks, PSDSF().allocate(plain).tasks * 1e-59, rtol=1e-9)
