"""Namespaces at their ResourceQuotas, whose further pods no list has."""

import json

import fairopt_clusters as fc
import numpy as np
import pytest

import fairopt as fo

GPU = "nvidia.com/gpu"


def listed(*items):
    return {"kind": "List", "items": list(items)}


def node(name):
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "96", GPU: "8"}}}


def pod(namespace, name, on, requests, limits=None):
    resources = {"requests": requests} | ({"limits": limits} if limits else {})
    spec = {"containers": [{"resources": resources}]} | ({"nodeName": on} if on else {})
    return {"kind": "Pod", "metadata": {"namespace": namespace, "name": name}, "spec": spec}


def pods(holds, waits=()):
    made = [pod(team, f"r{k}", None, {GPU: "1"}) for team, n in holds.items() for k in range(n)]
    for k, one in enumerate(made):
        one["spec"]["nodeName"] = f"g{k // 8}"
    return made + [pod(team, f"w{k}", None, {GPU: "1"}) for team, n in dict(waits).items() for k in range(n)]


def quota(namespace, hard, used=None, **spec):
    status = {"status": {"used": used}} if used is not None else {}
    return {
        "kind": "ResourceQuota",
        "metadata": {"namespace": namespace, "name": "q"},
        "spec": {"hard": hard, **spec},
        **status,
    }


def gpus(namespace, amount):
    return quota(namespace, {f"requests.{GPU}": str(amount)})


def fair(cluster):
    return dict(zip(cluster.users, fo.DRF().allocate(cluster).tasks.round(9).tolist(), strict=True))


NODES = listed(node("g0"), node("g1"))


def read(*items, **options):
    return fc.read_kubernetes(NODES, listed(*(i for i in items if i["kind"] == "Pod")), **options)


def with_quotas(items, *quotas, **options):
    return read(*items, kueue=listed(*quotas), **options)


def test_a_namespace_at_its_quota_wants_more_so_that_a_quiet_hour_does_not_decide_for_ever():
    """Week 1: nlp wants 2 of 16 GPUs. Later it wants 20, of which pods beyond 2 are refused and in no list."""
    first = fair(read(*pods({"vision": 12, "nlp": 2}, {"vision": 10})))
    assert first == {"nlp/1 gpu": 2, "vision/1 gpu": 14}
    week = with_quotas(pods({"vision": 14, "nlp": 2}), gpus("vision", 14), gpus("nlp", 2))
    assert fair(week) == {"nlp/1 gpu": 8, "vision/1 gpu": 8} and np.isinf(week.task_limits).all()
    assert any(
        "refused and not seen here, and any number of them counts as waiting" in note
        and "nlp with 2 of 2 requests.nvidia.com/gpu, vision with 14 of 14" in note
        for note in week.notes
    )
    week = with_quotas(pods({"vision": 6, "nlp": 2}), gpus("vision", 14), gpus("nlp", 2))
    assert fair(week) == {"nlp/1 gpu": 10, "vision/1 gpu": 6}
    assert fair(week.replace(task_limits={"nlp/1 gpu": 3})) == {"nlp/1 gpu": 3, "vision/1 gpu": 6}


@pytest.mark.parametrize(
    ("hard", "full"),
    [
        ({f"requests.{GPU}": "3"}, True),  # the next one needs two
        ({f"requests.{GPU}": "4"}, False),
        ({"pods": "1"}, True),
        ({"count/pods": "2"}, False),
        ({"limits.cpu": "5"}, True),
        ({"limits.cpu": "6"}, False),
        ({"cpu": "3999m"}, True),
        ({"count/jobs.batch": "1", "services": "0"}, False),
    ],
)
def test_what_a_quota_leaves_decides_whether_one_more_pod_may_start(hard, full):
    mine = pod("web", "a", "g0", {GPU: "2", "cpu": "2"}, {"cpu": "3"})
    assert np.isinf(with_quotas([mine], quota("web", hard)).task_limits).tolist() == [full]
    assert not np.isinf(with_quotas([mine], quota("other", hard)).task_limits).any()
    assert not np.isinf(with_quotas([mine], quota("web", hard, scopes=["BestEffort"])).task_limits).any()


def test_only_kinds_of_pods_that_the_quota_refuses_may_be_more():
    items = [pod("web", "a", "g0", {GPU: "2"}), pod("web", "b", "g0", {"cpu": "2"})]
    cluster = with_quotas(items, gpus("web", 2))
    assert dict(zip(cluster.users, cluster.task_limits, strict=True)) == {
        "web/2 cpu": 1,
        "web/2 gpu without cpu": np.inf,
    }


def test_what_kubernetes_counts_as_used_is_believed():
    """Such as of pods that no list has, or under another name."""
    mine = pod("web", "a", "g0", {GPU: "1"})
    full = quota("web", {f"requests.{GPU}": "4"}, {f"requests.{GPU}": "4"})
    assert np.isinf(with_quotas([mine], full).task_limits).all()


def test_a_quota_of_zero_is_said():
    cluster = with_quotas([pod("web", "a", "g0", {"cpu": "1"})], gpus("web", 0))
    assert cluster.task_limits.tolist() == [1]
    assert any(f"sets to 0 are refused and not seen here: requests.{GPU} of web" in note for note in cluster.notes)


def test_quotas_are_read_from_a_folder_and_from_a_list(tmp_path):
    items, limit = pods({"vision": 6, "nlp": 2}), gpus("nlp", 2)
    for name, content in (("nodes", NODES), ("pods", listed(*items)), ("resourcequotas", listed(limit))):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "all.json").write_text(json.dumps(listed(*NODES["items"], *items, limit)))
    for place in (tmp_path, tmp_path / "all.json"):
        assert fair(fo.read(place)) == {"nlp/1 gpu": 10, "vision/1 gpu": 6}
