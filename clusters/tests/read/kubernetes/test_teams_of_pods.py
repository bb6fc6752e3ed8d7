"""A team of several kinds of pods on a cluster of 40 servers: what it gets when it also queues pods without GPUs."""

import fairopt_clusters as fc
import numpy as np
import pytest
from kube_cluster import GPU, GPU_TOLERATION, container, node, pod

import fairopt as fo

# vision's GPUs and dominant share with so many pods of 4 cores more: by commit 730a2c9e, and by HDRF
BEFORE = {0: (24.0, 0.25), 20: (23.46967837, 0.24447582), 200: (19.57648986, 0.20392177)}
AFTER = {0: (24.0, 0.25), 20: (24.0, 0.25), 200: (24.0, 0.25)}


def cluster(extra: int) -> fo.Instance:
    """12 servers of 8 GPUs and 28 without, for five namespaces; vision has ``extra`` pods of 4 cores."""
    nodes = [node(f"gpu-{k:02}", "gpu-large.96", "zone-a") for k in range(12)]
    nodes += [node(f"general-{k:02}", "general.16", "zone-a") for k in range(28)]

    def some(number, namespace, name, cpu, memory, gpus=0):
        requests = {"cpu": str(cpu), "memory": f"{memory}Gi"} | ({GPU: str(gpus)} if gpus else {})
        spec = {"containers": [container(requests)], "tolerations": [GPU_TOLERATION] * bool(gpus)}
        return [pod(namespace, f"{name}-{k}", spec, phase="Pending") for k in range(number)]

    pods = [
        *some(20, "vision", "train", 48, 384, 8),
        *some(60, "nlp", "tune", 16, 128, 4),
        *some(200, "speech", "serve", 8, 48, 1),
        *some(80, "search", "rank", 6, 32, 2),
        *some(300, "web", "site", 2, 4),
        *some(extra, "vision", "parse", 4, 8),
    ]
    return fc.read_kubernetes({"kind": "List", "items": nodes}, {"kind": "List", "items": pods})


def vision(allocation: fo.Allocation) -> tuple[float, float]:
    """GPUs and dominant share of the team."""
    row = allocation.to_frame("team").loc["vision"]
    return row[GPU], row["dominant share"]


def test_kinds_keep_their_names_whatever_else_their_team_queues():
    assert cluster(0).users == ("nlp/4 gpu", "search/2 gpu", "speech/1 gpu", "vision/8 gpu", "web/2 cpu")
    assert {*cluster(20).users} - {*cluster(0).users} == {"vision/4 cpu"}
    assert cluster(200).users == cluster(20).users


@pytest.mark.parametrize("extra", [0, 20, 200])
def test_a_team_gets_as_many_gpus_when_it_also_queues_pods_without_them(extra):
    instance = cluster(extra)
    assert int(instance.counts.sum()) == 40
    answer = fo.HDRF().allocate(instance)
    np.testing.assert_allclose(vision(answer), AFTER[extra], rtol=1e-6)
    if extra == 20:
        assert answer.tasks[instance.user_index("vision/4 cpu")] == pytest.approx(20)


@pytest.mark.parametrize("extra", [0, 20, 200])
def test_a_team_lost_gpus_when_its_weight_was_divided_by_what_its_kinds_ask_for(extra):
    instance = cluster(extra)
    asked = instance.task_limits * instance.dominant_shares
    of_vision = np.array([team == "vision" for team in instance.teams["team"]])
    weights = np.where(of_vision, asked / asked[of_vision].sum(), 1.0)
    np.testing.assert_allclose(vision(fo.DRF().allocate(instance.replace(weights=weights))), BEFORE[extra], rtol=1e-7)
