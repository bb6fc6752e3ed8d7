"""Clusters with Kueue beside linear programs of the drawn ones: answers, and quotas written, applied and read back."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[4] / "benchmarks"))

from kueue import apart, apart_by_default, drawn_with_pods, faults_of_quotas, read, verified
from kueue_cluster import lenders, objects

import fairopt as fo
from fairopt.cli.commands import named

SEEDS = range(1000, 1004)


@pytest.mark.parametrize("seed", SEEDS)
def test_queues_get_what_linear_programs_of_quotas_give(seed):
    cluster, items = drawn_with_pods(seed)
    instance = read(items)
    for policy in ("kueue", None):
        answer = named(policy)(instance).allocate(instance)
        assert verified(answer)
        assert policy is None or apart(answer, cluster) < 1e-6
        assert faults_of_quotas(answer, items, cluster) == []


@pytest.mark.parametrize("seed", range(25))
def test_queues_of_cohorts_that_own_quotas_in_several_flavors_get_what_linear_programs_give(seed):
    """At two levels; what is written is applied and read back, and the second run writes nothing."""
    cluster, items = drawn_with_pods(2000 + seed, owning=True, most=4)
    owned = [{flavor for flavor, _ in one.quotas} for one in cluster.nodes.values() if not one.is_queue]
    assert len(owned) == 3 and min(map(len, owned)) >= 2
    instance = read(items)
    answer = named(None)(instance).allocate(instance)
    assert apart_by_default(answer, cluster) < 1e-6
    if seed % 2 == 0:
        assert faults_of_quotas(answer, items, cluster, [False]) == []
    if seed % 5 == 0:
        assert apart(named("kueue")(instance).allocate(instance), cluster) < 1e-6


@pytest.mark.parametrize("seed", [3, 5, 6])
def test_twelve_queues_that_lend_a_part_of_their_quotas_get_what_linear_programs_give(seed):
    cluster = lenders(seed)
    instance = read(objects(cluster))
    lending = [q.quotas["f", "cpu"].lending for q in cluster.queues]
    assert len(lending) == 12 and None not in lending
    assert not any("not all combinations" in note for note in instance.notes)
    assert apart(named("kueue")(instance).allocate(instance), cluster) < 1e-6


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 7, 8, 9, 12])
def test_the_default_policy_gives_what_hierarchical_drf_in_fractions_gives(seed):
    cluster, items = drawn_with_pods(seed)
    instance = read(items)
    policy = named(None)(instance)
    assert isinstance(policy, fo.HDRF) and instance.limits
    assert apart_by_default(policy.allocate(instance), cluster) < 1e-9


def test_with_more_queues_a_note_says_that_the_answer_may_be_more_than_kueue_admits(monkeypatch):
    cluster = lenders(2)
    right = read(objects(cluster))
    monkeypatch.setattr("fairopt_clusters.read.queues.cohorts.MOST_LENDERS", 4)
    some = read(objects(cluster))
    assert any("may be more than Kueue admits (root)" in note for note in some.notes)
    assert len(some.limits) < len(right.limits)
    kueue = named("kueue")
    assert apart(kueue(right).allocate(right), cluster) < 1e-6 < apart(kueue(some).allocate(some), cluster)


def test_the_drawn_clusters_have_all_that_is_hard():
    clusters = [drawn_with_pods(seed)[0] for seed in SEEDS]
    quotas = [quota for one in clusters for node in one.nodes.values() for quota in node.quotas.values()]
    assert any(q.borrowing is not None for q in quotas) and any(q.lending is not None for q in quotas)
    assert any(q.nominal == 0 for q in quotas) and any(one.hidden for one in clusters)
    assert any(not q.kinds for one in clusters for q in one.queues)  # idle
    nested = {one.nodes[node.parent].parent for one in clusters for node in one.nodes.values() if node.parent}
    assert nested - {None}
    assert sum(bool(read(drawn_with_pods(seed)[1]).limits) for seed in SEEDS) > len(SEEDS) / 2
