"""Policies of throughput at users' rates, against linear programs in fractions, and Gavel's policies by other means."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from oracle import exact_lp
from oracle.exact_cluster import Cluster

import fairopt as fo
from fairopt.testing import instances

SHARE = fo.ThroughputShare()
RATES = instances(
    (1, 4), (1, 2), (1, 3), weights=True, limits=True, placement=True, by_server=True, counts=True, rates=True
)


def exact(instance: fo.Instance) -> Cluster:
    return Cluster(**{k: v for k, v in instance.to_dict().items() if k not in ("users", "servers", "resources")})


@settings(max_examples=25)
@given(RATES)
def test_leximin_max_min_and_total_of_throughput_are_those_in_fractions(instance: fo.Instance) -> None:
    cluster = exact(instance)
    if not cluster.users:
        return
    worth = cluster.throughput()
    levels, shares = cluster.forms(worth), cluster.forms(worth, per_weight=False)
    here = cluster.users
    answer = fo.Policy(fo.Leximin(SHARE)).allocate(instance)
    found = answer.share(SHARE)[here] / instance.weights[here]
    np.testing.assert_allclose(found, np.array(exact_lp.leximin(levels, cluster.rows), dtype=float), rtol=1e-6)
    least = fo.Policy(fo.MaxMin(SHARE)).allocate(instance)
    assert least.objective == pytest.approx(float(exact_lp.smallest(levels, cluster.rows)), rel=1e-6)
    total = [sum(column) for column in zip(*shares, strict=True)]
    most = fo.Policy(fo.Total(SHARE)).allocate(instance)
    assert most.objective == pytest.approx(float(exact_lp.maximise(total, cluster.rows).value), rel=1e-6)


@given(instances((1, 4), 1, (1, 3), weights=True, limits=True, counts=True))
def test_drf_on_each_server_by_itself_gives_each_job_its_slice_cut_at_its_budget(instance: fo.Instance) -> None:
    speeds = np.arange(1.0, 1 + instance.eligible.size).reshape(instance.eligible.shape)
    jobs = instance.replace(rates=speeds, task_limits=np.maximum(instance.task_limits, 0.25))
    levels = fo.NaivePerServer(fo.DRF()).allocate(jobs).share(SHARE) / jobs.weights
    np.testing.assert_allclose(levels, jobs.n_users / jobs.weights.sum(), rtol=1e-9)


def test_users_who_scale_all_their_rates_change_nothing() -> None:
    jobs = fo.Instance(
        [[1, 2], [2, 1], [1, 1]], [[3, 4], [5, 2]], task_limits=[1, 2, None], rates=[[1, 2], [3, 1], [2, 2]]
    )
    faster = jobs.replace(rates=jobs.rates * np.array([[10], [0.5], [1]]))
    policy = fo.Policy(fo.Leximin(SHARE))
    np.testing.assert_allclose(policy.allocate(jobs).share(SHARE), policy.allocate(faster).share(SHARE), rtol=1e-9)


def test_identical_servers_with_other_rates_are_not_one() -> None:
    apart = fo.Instance([[1], [1]], [[2], [2], [2]], rates=[[1, 3, 1], [2, 1, 2]])
    merged = apart.merged()
    assert merged.counts.tolist() == [2, 1] and merged.rates.tolist() == [[1, 3], [2, 1]]
    policy = fo.Policy(fo.Leximin(SHARE))
    np.testing.assert_allclose(policy.allocate(apart).share(SHARE), policy.allocate(merged).share(SHARE), rtol=1e-9)
    answer = policy.allocate(apart)
    np.testing.assert_allclose(answer.tasks_by_server[:, 0], answer.tasks_by_server[:, 2], rtol=1e-12)


@pytest.mark.parametrize(
    "objective", [fo.AlphaFair(1, SHARE), fo.AlphaFair(2, SHARE), fo.OrderedWeighted((3, 1), SHARE)]
)
def test_prices_and_cone_solvers_agree_on_throughput(objective: fo.Objective) -> None:
    rng = np.random.default_rng(3)
    jobs = fo.Instance(
        rng.uniform(1, 4, (5, 2)),
        rng.uniform(4, 9, (3, 2)),
        task_limits=rng.uniform(0.5, 2, 5),
        rates=rng.uniform(1, 9, (5, 3)),
    )
    first, second = (fo.Policy(objective).allocate(jobs, method=method) for method in ("auto", "cone"))
    np.testing.assert_allclose(first.share(SHARE), second.share(SHARE), rtol=1e-4)


def test_derivatives_are_refused_where_coefficients_depend_on_limits_and_weights() -> None:
    cut = fo.Instance([[1], [1]], [[2], [2]], task_limits=[1, None])
    with pytest.raises(fo.errors.OutOfDomain, match="it is not known how ThroughputShare"):
        fo.sensitivity(fo.Policy(fo.AlphaFair(2, SHARE)).allocate(cut))
    assert fo.sensitivity(fo.Policy(fo.AlphaFair(2, SHARE)).allocate(cut.replace(task_limits=[3, None]))).capacities


def test_proofs_do_not_state_throughput() -> None:
    pytest.importorskip("z3")
    report = fo.prove(fo.Policy(fo.Leximin(SHARE)), ["pe"], resources=1, time_limit=0.3)
    assert report["pe"].verdict == "unknown" and "ThroughputShare() has no polynomial conditions" in str(report)
