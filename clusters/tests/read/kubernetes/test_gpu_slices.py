"""Slices of GPUs that servers offer under the name of whole ones, and GPUs of several models."""

import fairopt_clusters as fc
import pytest
from fairopt_clusters.read.kubernetes.gpus import slice_of
from fairopt_clusters.read.kubernetes.objects import Node

import fairopt as fo

GPU = "nvidia.com/gpu"
A100, MIG = "NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"
SINGLE = {"nvidia.com/gpu.product": MIG, "nvidia.com/mig.strategy": "single"}


def node(name, gpus, **labels):
    given = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {"kind": "Node", "metadata": {"name": name, "labels": given}, "status": {"allocatable": {GPU: str(gpus)}}}


def of_labels(labels):
    return Node.model_validate({"metadata": {"name": "n", "labels": labels}})


def pods(team, number, product=None, on=None):
    spec = {"containers": [{"resources": {"requests": {GPU: "1"}}}]} | ({"nodeName": on} if on else {})
    spec |= {"nodeSelector": {"nvidia.com/gpu.product": product}} if product else {}
    return [
        {"kind": "Pod", "metadata": {"namespace": team, "name": f"{product}-{on}-{k}"}, "spec": spec}
        for k in range(number)
    ]


WHOLE = node("g0", 8, nvidia_com__gpu_product=A100)
SLICED = node("m0", 56, nvidia_com__gpu_product=MIG, nvidia_com__mig_strategy="single")


def read(nodes, items):
    return fc.read_kubernetes({"kind": "List", "items": nodes}, {"kind": "List", "items": items})


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (SINGLE, "1g.10gb"),
        ({**SINGLE, "nvidia.com/gpu.product": MIG + "-SHARED", "nvidia.com/gpu.replicas": "4"}, "1g.10gb"),
        ({"nvidia.com/mig.strategy": "single", "nvidia.com/mig.config": "all-3g.40gb"}, "3g.40gb"),
        ({"nvidia.com/mig.strategy": "single", "nvidia.com/mig.config": "all-disabled"}, ""),
        ({**SINGLE, "nvidia.com/gpu.product": A100}, ""),
        ({"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.product": A100}, ""),
        ({"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "8"}, "shared-8"),
        ({"nvidia.com/gpu.replicas": "1"}, ""),
        ({}, ""),
    ],
)
def test_labels_say_what_a_gpu_is_a_slice_of(labels, kind):
    assert slice_of(of_labels(labels)) == kind


def test_slices_do_not_count_against_whole_gpus():
    """8 GPUs and 56 slices: nlp has 8 slices and wants 8 GPUs, vision 12: each has 4 of the 8."""
    items = [*pods("edu", 40, MIG, "m0"), *pods("nlp", 8, MIG, "m0"), *pods("nlp", 8, A100), *pods("vision", 12, A100)]
    cluster = read([WHOLE, SLICED], items)
    assert cluster.resources == (GPU, f"{GPU}:1g.10gb")
    assert cluster.capacities.tolist() in ([[8, 0], [0, 56]], [[0, 56], [8, 0]])
    answer = fo.HDRF().allocate(cluster)
    found = {
        user.split("/")[0] + ("" if ":" not in user else " slices"): n
        for user, n in zip(cluster.users, answer.tasks.round(6).tolist(), strict=True)
    }
    assert found == {"edu slices": 40, "nlp": 4, "nlp slices": 8, "vision": 4}
    assert any("slices of GPUs are resources of their own" in note for note in cluster.notes)
    made = fc.quotas(answer, "kubernetes", queues={"kind": "List", "items": [WHOLE, SLICED, *items]})
    amounts = {row.team: row.amount for row in made.rows}
    assert {row.resource for row in made.rows} == {GPU} and amounts["vision"] == 4
    assert sum(amounts.values()) == 64  # with the 8 slices that nobody uses
    assert any("in total, slices too" in note for note in made.notes)
    table = {(row.team, row.resource): row.amount for row in fc.quotas(answer, "csv", caps=True).rows if row.amount}
    assert table["nlp", GPU] == 12 and table["edu", GPU] == 40


def test_pods_that_may_run_on_both_count_as_any_device():
    cluster = read([WHOLE, SLICED], [*pods("any", 100), *pods("whole", 8, A100)])
    assert set(cluster.resources) == {GPU, f"{GPU}:any"}
    tasks = dict(zip(cluster.users, fo.MostTasks().allocate(cluster).tasks.round(6), strict=True))
    assert sum(tasks.values()) == 64
    shared = node("s0", 32, nvidia_com__gpu_replicas="8")
    alone = read([shared], pods("any", 100))
    assert alone.resources == (f"{GPU}:shared-8",) and alone.total_capacities.tolist() == [32]


def test_models_that_count_alike_are_named():
    other = node("h0", 8, nvidia_com__gpu_product="NVIDIA-H100-80GB-HBM3")
    note = f"one {GPU} counts as much as another, of whatever model: {A100}, NVIDIA-H100-80GB-HBM3"
    assert note in read([WHOLE, other], pods("a", 9)).notes
    assert not any("whatever model" in one for one in read([WHOLE, SLICED], pods("a", 9)).notes)
