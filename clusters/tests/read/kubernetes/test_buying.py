"""What quotas of Kueue leave idle, and what to buy, counted by hand: of 64 GPUs 20 are ads', 20 web's, 15 dev's."""

from typing import Any

import fairopt_clusters as fc
import pytest

import fairopt as fo
from fairopt.questions import idle_sentence, purchases
from fairopt.questions.waiting import idle_by_limits

GPU = "nvidia.com/gpu"
KUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta1"}


def _queue(name: str, nominal: int, **limits: int) -> dict[str, Any]:
    quota = {"name": GPU, "nominalQuota": nominal, **limits}
    group = {"coveredResources": [GPU], "flavors": [{"name": "any", "resources": [quota]}]}
    spec = {"cohort": "all", "namespaceSelector": {}, "resourceGroups": [group]}
    return KUEUE | {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def _cluster(waiting: dict[str, int]) -> fo.Instance:
    """Eight servers; ads lends 12 of its 20, web borrows 5 at most; so many pods of one GPU wait in each queue."""
    queues = [_queue("ads", 20, lendingLimit=12), _queue("web", 20, borrowingLimit=5), _queue("dev", 15)]
    items: list[dict[str, Any]] = [KUEUE | {"kind": "ResourceFlavor", "metadata": {"name": "any"}}, *queues]
    for k in range(8):
        items.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{k}"},
                "status": {
                    "allocatable": {GPU: "8", "cpu": "64", "pods": "100"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
    for name, number in waiting.items():
        local = {"name": name, "namespace": name}
        items.append(KUEUE | {"kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": name}})
        items += [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{k}", "namespace": name, "labels": {"kueue.x-k8s.io/queue-name": name}},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {GPU: "1"}}}]},
                "status": {"phase": "Pending"},
            }
            for k in range(number)
        ]
    nodes, pods, of_kueue = (
        {"kind": "List", "items": [one for one in items if one["kind"] in kinds]}
        for kinds in (("Node",), ("Pod",), ("ClusterQueue", "LocalQueue", "ResourceFlavor"))
    )
    made: fo.Instance = fc.read_kubernetes(nodes, pods, kueue=of_kueue)
    return made


NOBODY, LENDS, BORROWS = "in nobody's quota", "by the lending limit of ads", "by the borrowing limit of web"


@pytest.mark.parametrize(
    ("waiting", "parts"),
    [
        ({"web": 60}, {NOBODY: 9, LENDS: 8, BORROWS: 22}),  # web has 25: 55 - 8 - 25 are left
        ({"ads": 2, "web": 60}, {NOBODY: 9, BORROWS: 28}),  # ads uses 2 of what it keeps
        ({"ads": 2, "web": 60, "dev": 60}, {NOBODY: 9, LENDS: 6}),
        ({"ads": 80}, {NOBODY: 9}),
    ],
)
def test_idle_gpus_by_reason(waiting, parts):
    (found,) = idle_by_limits(fo.HDRF().allocate(_cluster(waiting)))
    assert found.parts == pytest.approx(parts)


def test_nobody_waits_so_that_nothing_is_said():
    assert idle_sentence(fo.HDRF().allocate(_cluster({"web": 4}))) == ""


def test_the_report_begins_with_it():
    first = fc.report("hdrf", _cluster({"web": 60})).sentences[0]
    assert first == f"39 of 64 gpu idle though 35 are waited for: 9 {NOBODY}, 8 {LENDS}, 22 {BORROWS}."


def test_a_cordoned_server_is_not_for_sale():
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {GPU: "8", "pods": "9"}}}
    cordoned = {"metadata": {"name": "old"}, "spec": {"unschedulable": True}, "status": node["status"]}
    one = {"containers": [{"name": "c", "resources": {"requests": {GPU: "2"}}}]}
    pods = [{"metadata": {"name": f"p{k}", "namespace": "a"}, "spec": one} for k in range(9)]
    pods[0] = pods[0] | {"spec": one | {"nodeName": "old"}, "status": {"phase": "Running"}}
    lists = (
        {"kind": "List", "items": [{"kind": kind} | item for item in of]}
        for kind, of in (("Node", [node, cordoned]), ("Pod", pods))
    )
    cluster = fc.read_kubernetes(*lists)
    assert cluster.servers == ("n", "old")
    assert [row.server for row in purchases(fo.DRF().allocate(cluster)).servers] == ["n"]
