"""Clusters with Kueue beside linear programs of the drawn ones: answers, and quotas written, applied and read back."""

import sys
from fractions import Fraction
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[4] / "benchmarks"))

from kueue import apart, drawn_with_pods, faults_of_quotas, read, verified
from kueue_cluster import lenders, objects
from oracle.hierarchy import Problem, filled

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


@pytest.mark.parametrize("seed", [3, 5, 6])
def test_twelve_queues_that_lend_a_part_of_their_quotas_get_what_linear_programs_give(seed):
    cluster = lenders(seed)
    instance = read(objects(cluster))
    lending = [q.quotas["f", "cpu"].lending for q in cluster.queues]
    assert len(lending) == 12 and None not in lending
    assert not any("not all combinations" in note for note in instance.notes)
    assert apart(named("kueue")(instance).allocate(instance), cluster) < 1e-6


def tree_of(instance, by, members):
    """The children of a team in the tree of the labels ``by``, the outermost first, as `oracle.hierarchy` has them."""
    if not by:
        return members
    labelling, out = instance.teams.labelling(by[0]), []
    for t in dict.fromkeys(labelling.of_user[members].tolist()):
        inside = tree_of(instance, by[1:], [j for j in members if labelling.of_user[j] == t])
        name = labelling.names[t] if t >= 0 else None
        out += inside if name is None else [(instance.team_weights.get(name, 1.0), inside)]
    return out


def simple(amount):
    """The simple fraction that the float nearest to it is."""
    return Fraction(float(amount)).limit_denominator(100_000)


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 7, 8, 9, 12])
def test_the_default_policy_gives_what_hierarchical_drf_in_fractions_gives(seed):
    instance = read(drawn_with_pods(seed)[1])
    members, index = instance.teams.names, {name: i for i, name in enumerate(instance.resources)}
    policy = named(None)(instance)
    assert isinstance(policy, fo.HDRF) and instance.limits
    fits = (instance.demands[:, None, :] <= instance.capacities).all(axis=2)
    problem = Problem(
        instance.demands.tolist(),
        (instance.capacities * instance.counts[:, None]).tolist(),
        (1, tree_of(instance, policy.by, list(range(instance.n_users)))),
        instance.own_weights.tolist(),
        instance.task_limits.tolist(),
        instance.eligible & fits,
        [simple(x) for x in instance.guarantees],
        [
            (members[team].tolist(), {index[name]: simple(x) for name, x in of.items()})
            for team, of in instance.team_guarantees.items()
        ],
        [
            (index[one.resource], simple(one.amount), one.counts(members, instance.n_users, instance.n_servers))
            for one in instance.limits
        ],
    )
    right = [float(x) for x in filled(problem)]
    assert policy.allocate(instance).tasks == pytest.approx(right, rel=1e-9, abs=1e-9)


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
