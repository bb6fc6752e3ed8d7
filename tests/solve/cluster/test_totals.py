"""The largest sum of shares on several servers, server by server."""

import numpy as np
import pytest

import fairopt as fo

TOTALS = {
    "tasks": fo.MostTasks(),
    "dominant shares": fo.Policy(fo.Total()),
    "a multiple": fo.Policy(3 * fo.AlphaFair(0, fo.KDominantShare(1))),
    "with a reserve": fo.Policy(fo.Total(fo.Tasks()), [fo.Reserve("resource1", 0.3)]),
}


def cluster(seed, by_server=False):
    rng = np.random.default_rng(seed)
    n, s, m = rng.integers(1, 12), rng.integers(2, 7), rng.integers(1, 5)
    demands = 10.0 ** rng.uniform(-2, 2, (n, s, m) if by_server else (n, m))
    demands[..., 1:] *= rng.random((*demands.shape[:-1], m - 1)) < 0.8
    eligible = rng.random((n, s)) < 0.7
    eligible[np.arange(n), rng.integers(s, size=n)] = True
    capacities, counts = 10.0 ** rng.uniform(-1, 2, (s, m)), rng.integers(1, 4, s)
    return fo.Instance(demands, capacities, weights=rng.uniform(1, 3, n), eligible=eligible, counts=counts)


@pytest.mark.fast_methods
@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("seed", range(6))
def test_server_by_server_the_total_is_that_of_one_program(total, seed):
    instance = cluster(seed)
    found = TOTALS[total].allocate(instance)
    assert found.certificate.method == "linear"
    assert found.certificate.ok
    one = TOTALS[total].allocate(instance, method="cone")
    assert found.objective == pytest.approx(one.objective, rel=1e-7)


@pytest.mark.fast_methods
def test_demands_may_differ_by_server():
    instance = cluster(1, by_server=True)
    found = fo.MostTasks().allocate(instance)
    assert found.certificate.method == "linear"
    assert found.objective == pytest.approx(fo.MostTasks().allocate(instance, method="cone").objective, rel=1e-7)


def test_a_server_that_nobody_may_use_stays_empty():
    instance = fo.Instance([[1, 2], [2, 1]], [[6, 6], [4, 2], [9, 9]], eligible=[[1, 1, 0], [1, 0, 0]])
    found = fo.MostTasks().allocate(instance)
    assert found.objective == pytest.approx(5.0)
    assert not found.tasks_by_server[:, 2].any()


@pytest.mark.parametrize("bounds", [{"task_limits": [1, None]}, {"guarantees": [0.5, 0.5]}])
def test_bounds_on_all_of_a_users_tasks_couple_servers(bounds):
    instance = fo.Instance([[1, 2], [2, 1]], [[6, 6], [4, 2]], **bounds)
    found = fo.MostTasks().allocate(instance)
    assert found.certificate.method != "linear"


@pytest.mark.fast_methods
def test_a_chunk_of_servers_at_a_time_gives_the_same(monkeypatch):
    instance = cluster(3)
    whole = fo.MostTasks().allocate(instance)
    monkeypatch.setattr("fairopt.solve.cluster.totals.CHUNK", 1)
    assert (fo.MostTasks().allocate(instance).tasks_by_server == whole.tasks_by_server).all()


def test_a_saved_answer_is_proved(tmp_path):
    found = fo.MostTasks().allocate(cluster(2))
    assert fo.verify(found.save(tmp_path / "answer.json")).ok
