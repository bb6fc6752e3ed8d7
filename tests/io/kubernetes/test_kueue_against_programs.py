"""Clusters with Kueue beside linear programs of the drawn ones: answers, and quotas written, applied and read back."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from kueue import apart, drawn_with_pods, faults_of_quotas, read, verified

from fairopt.cli.commands import named

SEEDS = range(1000, 1008)


@pytest.mark.parametrize("seed", SEEDS)
def test_queues_get_what_linear_programs_of_quotas_give(seed):
    cluster, items = drawn_with_pods(seed)
    instance = read(items)
    for policy in ("kueue", None):
        answer = named(policy)(instance).allocate(instance)
        assert verified(answer)
        assert policy is None or apart(answer, cluster) < 1e-6
        assert faults_of_quotas(answer, items, cluster) == []


def test_the_drawn_clusters_have_all_that_is_hard():
    clusters = [drawn_with_pods(seed)[0] for seed in SEEDS]
    quotas = [quota for one in clusters for node in one.nodes.values() for quota in node.quotas.values()]
    assert any(q.borrowing is not None for q in quotas) and any(q.lending is not None for q in quotas)
    assert any(q.nominal == 0 for q in quotas) and any(one.hidden for one in clusters)
    assert any(not q.kinds for one in clusters for q in one.queues)  # idle
    nested = {one.nodes[node.parent].parent for one in clusters for node in one.nodes.values() if node.parent}
    assert nested - {None}
    assert sum(bool(read(drawn_with_pods(seed)[1]).limits) for seed in SEEDS) > len(SEEDS) / 2
