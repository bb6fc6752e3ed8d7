"""Whole clusters: the reader against the slow oracle, and what it says of what it left out."""

import copy
import json
import random

import fairopt_clusters as fc
import kube_oracle
import numpy as np
import pytest
from fairopt_clusters import read_kubernetes
from kube_cluster import GPU, cluster, container, node, pod
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import InvalidInstance

RESOURCES = ["cpu", "memory", "ephemeral-storage", GPU]
SCALE = np.array([1, 2**30, 2**30, 1])


def listed(*items):
    return {"kind": "List", "items": list(items)}


def by_namespace(item):
    return item["metadata"]["namespace"]


def by_team(item):
    return item["metadata"]["labels"].get("team", "(no team)")


@pytest.mark.parametrize(("tasks", "seed"), [("mean", 1), ("shapes", 2)])
@pytest.mark.parametrize(("users", "owner_of"), [("namespace", by_namespace), ("label:team", by_team)])
def test_the_reader_finds_what_the_oracle_finds(users, owner_of, tasks, seed):
    nodes, pods = cluster(seed)
    instance = read_kubernetes(nodes, pods, users=users, tasks=tasks, merge=False)
    truth = kube_oracle.answer(nodes, pods, RESOURCES, owner_of, by_shape=tasks == "shapes")
    assert instance.resources == tuple(RESOURCES)
    assert set(instance.servers) == set(truth["capacities"]) and len(instance.servers) == 40
    exact = [[float(truth["capacities"][s][r]) for r in RESOURCES] for s in instance.servers]
    assert_allclose(instance.capacities * SCALE, exact, rtol=1e-15)
    expected = []
    for owner, kinds in truth["users"].items():
        for request, n, allowed in kinds:
            demand = [float(request[r]) for r in RESOURCES]
            able = [
                s in allowed and all(truth["capacities"][s][r] > 0 for r in RESOURCES if request[r])
                for s in instance.servers
            ]
            expected.append((owner, n, 1 / len(kinds), demand, able))
    found = [
        (team, limit, weight, demand, able)
        for team, limit, weight, demand, able in zip(
            instance.teams["team"],
            instance.task_limits.tolist(),
            instance.weights.tolist(),
            (instance.demands * SCALE).tolist(),
            instance.eligible.tolist(),
            strict=True,
        )
    ]
    for got, wanted in zip(sorted(found, key=repr_key), sorted(expected, key=repr_key), strict=True):
        assert got[:2] == wanted[:2] and got[4] == wanted[4]
        assert_allclose([got[2], *got[3]], [wanted[2], *wanted[3]], rtol=1e-13)


def repr_key(user):
    return user[0], user[1], [round(v, 6) for v in user[3]], user[4]


def test_files_and_parsed_data_give_the_same(files, documents):
    nodes, pods = files
    assert read_kubernetes(*documents) == read_kubernetes(nodes, str(pods)) == read_kubernetes(str(nodes), documents[1])


def test_the_order_of_lists_makes_no_difference_but_to_the_order_of_servers(documents):
    nodes, pods = (copy.deepcopy(d) for d in documents)
    for seed in range(3):
        random.Random(seed).shuffle(pods["items"])
        assert read_kubernetes(nodes, pods) == read_kubernetes(*documents)
    random.Random(0).shuffle(nodes["items"])
    other, one = read_kubernetes(nodes, pods, merge=False), read_kubernetes(*documents, merge=False)
    order = [other.servers.index(name) for name in one.servers]
    assert_array_equal(other.capacities[order], one.capacities)
    assert_array_equal(other.eligible[:, order], one.eligible)
    assert other.users == one.users and (other.weights == one.weights).all()


def test_identical_servers_share_a_row(documents):
    merged = read_kubernetes(*documents)
    assert merged == read_kubernetes(*documents, merge=False).merged()
    assert (int(merged.counts.sum()), merged.n_servers) == (40, 6)


def test_units_types_and_labels_are_those_of_the_cluster(documents):
    instance = read_kubernetes(*documents, tasks="mean")
    assert instance.resource_titles == ("cpu (core)", "memory (GiB)", "ephemeral-storage (GiB)", GPU)
    assert set(instance.server_types) == {"general.16", "memory.32", "gpu-large.96", "gpu-small.48"}
    assert instance.users == (
        "analytics/cpu@generation>5,accelerator!=small|zone in (zone-a,zone-b)",
        "api/2.1 cpu@!accelerator",
        "ci/3 cpu with ephemeral-storage",
        "ci/1.25 cpu",
        "ml-serving/1 gpu",
        "ml-training/gpu@accelerator=large",
        "streams/4 cpu",
        "web/cpu",
    )
    assert instance.team_weights == {"ci": 1}


def test_everything_left_out_is_counted_in_notes(documents):
    assert read_kubernetes(*documents, users="label:team", tasks="mean").notes == (
        "45 finished pods were left out (such as ci/build-1000)",
        "1 server cordoned or not ready was left out (memory-09)",
        "20 pods without any request were left out (such as default/toy-0)",
        "3 servers where none of these pods may run were left out (such as control-00)",
        "60 pods of DaemonSets or static: subtracted from the capacity of the servers "
        "(such as kube-system/agent-control-00)",
        "1 pod of DaemonSets or static, on no known server, was left out (kube-system/agent-gone-01)",
        "40 pods without the label 'team': counted as those of '(no team)'",
        "4 pods that fit on no server were left out (such as ml-serving/dream-0)",
        "the different requests of 3 owners are averaged; --tasks shapes (in Python tasks='shapes') keeps them "
        "separate (such as frontend: 3 requests)",
        "3 of 5 owners have several kinds of pods: each kind is a user, and the owner is their team",
    )


NODE = node("n1", "general.16", "zone-a")
POD = pod("web", "site-1", {"containers": [container({"cpu": "1", "memory": "1Gi"})]}, "front")


def changed(item, *path, **values):
    """A copy with some keys changed at a path."""
    made = copy.deepcopy(item)
    inner = made
    for key in path:
        inner = inner.setdefault(key, {}) if isinstance(inner, dict) else inner[key]
    inner.update(values)
    return made


def test_named_resources_are_shared_and_no_others():
    instance = read_kubernetes(listed(NODE), listed(POD), resources=["memory", "pods"])
    assert instance.resources == ("memory", "pods")
    assert_array_equal(instance.demands, [[1, 1]])
    assert_array_equal(instance.capacities, [[60, 110]])


def test_a_pod_counts_as_one_pod_even_if_it_requests_nothing_else():
    silent = pod("toys", "toy-1", {"containers": [container()]})
    instance = read_kubernetes(listed(NODE), listed(POD, silent), resources=["cpu", "pods"])
    assert instance.teams["team"] == ("toys", "web")
    assert_array_equal(instance.demands, [[0, 1], [1, 1]])


def test_pods_without_a_request_for_named_resources_are_left_out():
    other = pod("web", "site-2", {"containers": [container({"memory": "1Gi"})]})
    instance = read_kubernetes(listed(NODE), listed(POD, other), resources=["cpu"])
    assert instance.notes == ("1 pod without a request for cpu was left out (web/site-2)",)


@pytest.mark.parametrize("bound", [True, False])
def test_capacity_below_nothing_is_nothing_and_said(bound):
    where = (
        {"nodeName": "n1"}
        if bound
        else {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                        ]
                    }
                }
            }
        }
    )
    agent = pod(
        "sys", "agent-1", {"containers": [container({"cpu": "99"})], **where}, ownerReferences=[{"kind": "DaemonSet"}]
    )
    other = changed(node("n2", "general.16", "zone-a"))
    instance = read_kubernetes(listed(NODE, other), listed(POD, agent), merge=False)
    assert instance.capacities[:, 0].tolist() == [0, 15.89]
    assert "1 capacity below 0 after these pods were subtracted: set to 0 (cpu of n1)" in instance.notes
    assert instance.eligible.tolist() == [[False, True]]


def test_a_static_pod_is_known_by_its_annotation_alone():
    static = pod(
        "sys",
        "api-1",
        {"containers": [container({"cpu": "890m"})], "nodeName": "n1"},
        annotations={"kubernetes.io/config.mirror": "x"},
    )
    instance = read_kubernetes(listed(NODE), listed(POD, static))
    assert (instance.teams["team"], instance.capacities[0, 0]) == (("web",), 15)


def test_running_pods_have_no_claim_to_their_server():
    running = changed(POD, "spec", nodeName="n1")
    nodes = listed(NODE, node("n2", "general.16", "zone-b"))
    found = read_kubernetes(nodes, listed(running))
    assert found.held.tolist() == [[1]]
    assert found.replace(held=[[0]]) == read_kubernetes(nodes, listed(POD))


def test_a_node_without_allocatable_has_its_capacity_and_one_without_either_is_left_out():
    capacity = changed(NODE, "status", allocatable=None, capacity={"cpu": "7", "memory": "8Gi"})
    nothing = changed(node("n0", "general.16", "z"), status=None)
    instance = read_kubernetes(listed(capacity, nothing), listed(POD))
    assert_array_equal(instance.capacities, [[7, 8]])
    assert instance.notes == (
        "1 server without status.allocatable was left out (n0)",
        "1 server without status.allocatable: assumed to have status.capacity",
    )
    with pytest.raises(InvalidInstance, match=r"no servers to share; 1 server without status.allocatable was left"):
        read_kubernetes(listed(nothing), listed(POD))


def test_types_are_given_only_where_all_servers_have_one():
    bare = changed(node("n2", "general.16", "z"), "metadata", labels={})
    assert read_kubernetes(listed(NODE, bare), listed(POD)).server_types is None


def test_the_same_name_in_two_namespaces_is_fine_and_twice_in_one_is_not():
    same = changed(POD, "metadata", namespace="shop")
    assert read_kubernetes(listed(NODE), listed(POD, same)).teams["team"] == ("shop", "web")
    with pytest.raises(InvalidInstance, match=r"pods: items\[2\] .* pods: items\[0\] .* both named 'web/site-1'"):
        read_kubernetes(listed(NODE), listed(POD, same, POD))
    with pytest.raises(InvalidInstance, match=r"nodes: items\[1\] .* and nodes: items\[0\] .* are both named 'n1'"):
        read_kubernetes(listed(NODE, NODE), listed(POD))


def test_rules_that_are_not_modelled_are_counted():
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
    pods = listed(
        POD,
        changed(changed(POD, "spec", affinity={"podAntiAffinity": rule}), "metadata", name="b"),
        changed(changed(POD, "spec", affinity={"podAffinity": rule}), "metadata", name="c"),
        changed(changed(POD, "spec", resourceClaims=[{"name": "gpu"}]), "metadata", name="d"),
        changed(
            changed(POD, "spec", topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}]),
            "metadata",
            name="e",
        ),
        changed(
            changed(POD, "spec", topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}]),
            "metadata",
            name="f",
        ),
    )
    (note,) = read_kubernetes(listed(NODE), pods).notes
    assert note.startswith("4 pods with required rules") and note.endswith("not modelled (such as web/b)")


@pytest.mark.parametrize("kind", ["List", "PodList", None])
def test_lists_of_any_kind_and_single_objects_are_read(kind):
    pods = {"kind": kind, "items": [changed(POD, kind=None)]}
    assert read_kubernetes(NODE, pods) == read_kubernetes(listed(NODE), POD)


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "pods", "words"),
    [
        (listed(POD), listed(NODE), r'nodes: items\[0\].kind is "Pod"; give nodes only, as kubectl get nodes'),
        ({"kind": "PodList", "items": []}, listed(), 'nodes: kind is "PodList"; give a list of nodes'),
        (listed(NODE), {"kind": "NodeList"}, 'pods: kind is "NodeList"; give a list of pods, as kubectl get pods -A'),
        (listed(NODE), listed(POD, NODE), r'pods: items\[1\].kind is "Node"; give pods only'),
        ({}, listed(POD), "nodes: items is missing; give a list of nodes"),
        (listed(), listed(POD), "nodes and pods: there are no servers to share"),
        (listed(NODE), listed(), "nodes and pods: there are no pods to share servers among"),
        (listed(NODE), listed(changed(POD, "status", phase="Failed")), "no pods .*; 1 finished pod was left out"),
        (listed(changed(NODE, "spec", unschedulable=True)), listed(POD), "no servers .*; 1 server cordoned or not"),
        (listed(NODE), listed(changed(POD, "spec", nodeSelector={"x": "y"})), "1 pod that fit on no server was left"),
        (listed(NODE), listed(changed(POD, "metadata", name="")), r'items\[0\].metadata.name is ""; give a name'),
        (listed(NODE), listed(changed(POD, "metadata", name="a\nb")), "give a name of printable"),
        (listed(NODE), listed(changed(POD, metadata=None)), r"items\[0\].metadata.name is missing; add it"),
        (listed(NODE, 7), listed(POD), r"nodes: items\[1\] is 7; give an object"),
        (listed(NODE), {"items": {"a": POD}}, "pods: items is an object; give a list"),
        (listed(NODE), listed(changed(POD, "spec", containers="main")), r'spec.containers is "main"; give a list'),
        (listed(changed(NODE, "spec", unschedulable="yes")), listed(POD), 'unschedulable is "yes"; give true or false'),
        (listed(changed(NODE, "metadata", labels={"zone": 3})), listed(POD), "metadata.labels.zone is 3; give text"),
        (
            listed(changed(NODE, "status", "allocatable", memory="2GiB")),
            listed(POD),
            r'nodes: items\[0\] \(n1\).status.allocatable.memory is "2GiB"; write 2Gi',
        ),
    ],
)
def test_bad_documents_are_refused_with_place_value_and_fix(nodes, pods, words):
    with pytest.raises(InvalidInstance, match=words):
        read_kubernetes(nodes, pods)


def test_a_bad_quantity_names_file_place_value_and_fix(tmp_path):
    pods = listed(POD, POD, POD, changed(POD, "spec", "containers", 0, "resources", "requests", cpu="-1"))
    for k, each in enumerate(pods["items"]):
        pods["items"][k] = {**each, "metadata": {"name": f"p{k}"}}
    file = tmp_path / "pods.json"
    file.write_text(json.dumps(pods))
    with pytest.raises(InvalidInstance) as caught:
        read_kubernetes(listed(NODE), file)
    place = "items[3] (default/p3).spec.containers[0].resources.requests.cpu"
    assert str(caught.value) == f'{file}: {place} is "-1"; give a quantity >= 0'


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"users": "team"}, "^users is \"team\"; give 'namespace', 'queue' for .*, or 'label:'"),
        ({"users": "label:"}, "users is"),
        ({"users": 3}, "users is 3"),
        ({"users": "queue"}, "users is 'queue', but there are no ClusterQueues; add the output of kubectl get"),
        ({"users": "label:taem"}, "none of 1 pod has a label 'taem'.*'team'"),
        ({"tasks": "median"}, "tasks is 'median'"),
        ({"resources": "cpu"}, "resources is 'cpu'; give a list"),
        ({"resources": []}, "give a list"),
        ({"resources": ["cpu", "cpu"]}, "different names"),
        ({"resources": [3]}, "give a list"),
        ({"resources": ["cpus"]}, "requests 'cpus'; did you mean 'cpu'"),
    ],
)
def test_impossible_options_are_refused(options, words):
    with pytest.raises(InvalidInstance, match=words):
        read_kubernetes(listed(NODE), listed(POD), **options)


def test_pods_without_any_labels_are_shared_by_namespace_only():
    with pytest.raises(InvalidInstance, match=r"has a label 'team'; they have no labels at all"):
        read_kubernetes(listed(NODE), listed(changed(POD, "metadata", labels=None)), users="label:team")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"items": [', "\ufeff", "x" * 100])
def test_files_that_are_no_json_objects_are_refused(tmp_path, content):
    file = tmp_path / "nodes.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInstance, match=r"nodes\.json"):
        read_kubernetes(file, listed(POD))


def test_text_is_no_path():
    with pytest.raises(InvalidInstance, match=r"nodes is JSON text, not the name of a file; pass json.loads"):
        read_kubernetes(json.dumps(listed(NODE)), listed(POD))


def test_pods_with_a_node_are_held_there_even_while_they_start():
    running = changed(POD, "spec", nodeName="n1")
    starting = changed(pod("web", "site-2", POD["spec"]), "status", phase="Pending")
    starting = changed(starting, "spec", nodeName="n2")
    waiting = pod("web", "site-3", POD["spec"])
    nodes = listed(NODE, node("n2", "general.16", "zone-b"))
    found = read_kubernetes(nodes, listed(running, starting, waiting), merge=False)
    assert (found.servers, found.held.tolist(), found.task_limits.tolist()) == (("n1", "n2"), [[1, 1]], [3])
    merged = read_kubernetes(nodes, listed(running, starting, waiting))
    assert (merged.servers, merged.held.tolist()) == (("n[1-2]",), [[2]])


def test_pods_on_servers_that_do_not_count_wait():
    running = changed(POD, "spec", nodeName="n9")
    found = read_kubernetes(listed(NODE), listed(running))
    assert not found.held.any()
    assert "1 pod on servers that do not count counts as waiting (web/site-1)" in found.notes


@pytest.mark.parametrize(
    ("place", "how"),
    [
        (["spec"], {"unschedulable": True}),
        (["spec"], {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}),
        (["status"], {"conditions": [{"type": "Ready", "status": "Unknown"}]}),
    ],
)
def test_a_server_cordoned_or_not_ready_counts_with_what_runs_there_for_the_pods_that_run_there(place, how):
    cordoned = changed(node("n2", "general.16", "zone-b"), *place, **how)
    running, waiting = changed(POD, "spec", nodeName="n2"), pod("web", "site-2", POD["spec"])
    found = read_kubernetes(listed(NODE, cordoned), listed(running, waiting), merge=False)
    assert "1 server cordoned or not ready counts with what runs there, for the pods that run there (n2)" in found.notes
    assert found.servers == ("n1", "n2") and found.capacities[1].tolist() == [1, 1]
    assert found.held_units.sum(axis=0).tolist() == [1, 1] and found.task_limits.sum() == 2
    assert sorted(found.eligible.tolist()) == [[True, False], [True, True]]
    assert read_kubernetes(listed(NODE, cordoned), listed(waiting)).servers == ("n1",)


def test_what_runs_on_a_cordoned_server_counts_first_for_its_namespace():
    """web runs 1 of 2 CPUs on a cordoned server, and waits as ml does for the other: 1 each."""
    cordoned = changed(node("n2", "general.16", "zone-b"), "spec", unschedulable=True)
    small = changed(NODE, "status", allocatable={"cpu": "1", "memory": "4Gi"})
    running = changed(POD, "spec", nodeName="n2")
    waiting = [pod(space, f"more-{k}", POD["spec"]) for space in ("web", "ml") for k in range(3)]
    found = read_kubernetes(listed(small, cordoned), listed(running, *waiting))
    tasks = fo.HDRF().allocate(found).tasks
    assert {team: tasks[found.teams.names[team]].sum() for team in ("web", "ml")} == pytest.approx({"web": 1, "ml": 1})


# -- what KAI and the number of pods limit --------------------------------------------------------------------


def gpu_node(name, gpus, memory=None):
    made = changed(node(name, "general.16", "zone-a"), "status", "allocatable", **{"nvidia.com/gpu": str(gpus)})
    return changed(made, "metadata", "labels", **({} if memory is None else {"nvidia.com/gpu.memory": str(memory)}))


def sharing(number, space="web", **annotations):
    made = [pod(space, f"part-{k}", {"containers": [container({"cpu": "10m"})]}) for k in range(number)]
    return [changed(one, "metadata", annotations=annotations) for one in made]


@pytest.mark.parametrize(
    ("annotations", "asked", "whole"),
    [
        ({"gpu-fraction": "0.5"}, 3, 2),
        ({"gpu-memory": "2000"}, 24, 23),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, 3, 1),
    ],
)
def test_parts_of_gpus_are_counted(annotations, asked, whole):
    found = read_kubernetes(listed(gpu_node("n1", 1, 46068)), listed(*sharing(asked, **annotations)))
    assert found.resources == ("cpu", "nvidia.com/gpu") and found.task_limits.tolist() == [asked]
    assert fo.DRF().allocate(found, integral=True).tasks.tolist() == [whole]
    said = f"{asked} pods with a part of a GPU: the GPUs of a server are one amount, and a part may lie on two"
    assert any(note.startswith(said) for note in found.notes)


def test_memory_of_a_gpu_is_a_part_of_that_of_the_server_or_of_the_smallest():
    nodes = [gpu_node("n1", 1, 40000), gpu_node("n2", 1, 80000)]
    (waits,) = sharing(1, **{"gpu-memory": "20000"})
    runs = changed(waits, "spec", nodeName="n2")
    made = read_kubernetes(listed(*nodes), listed(waits))
    assert made.demands[0, 1] == 0.5
    assert "1 pod with a part of a GPU's memory counts as on the smallest GPU (web/part-0)" in made.notes
    assert read_kubernetes(listed(*nodes), listed(runs)).demands[0, 1] == 0.25
    plain = read_kubernetes(listed(gpu_node("n1", 1)), listed(waits))
    assert plain.demands[0, 1] == 1
    assert any(note.startswith("1 pod with gpu-memory counts as on a whole GPU: no server has") for note in plain.notes)


def test_pods_that_reserve_gpus_for_others_are_left_out():
    whole = pod("kai-resource-reservation", "gpu-1", {"containers": [container({"nvidia.com/gpu": "1"})]})
    made = read_kubernetes(listed(gpu_node("n1", 1)), listed(whole, *sharing(1, **{"gpu-fraction": "0.5"})))
    assert made.demands.tolist() == [[0.01, 0.5]]
    said = "1 pod of kai-resource-reservation, for GPUs that others share, was left out"
    assert any(note.startswith(said) for note in made.notes)


@pytest.mark.parametrize("value", ["half", "0", "-1", "", None])
def test_a_part_that_is_no_number_is_refused(value):
    with pytest.raises(InvalidInstance, match="the annotation gpu-fraction of pod web/part-0 is"):
        read_kubernetes(listed(gpu_node("n1", 1)), listed(*sharing(1, **{"gpu-fraction": value})))


def test_the_number_of_pods_of_a_server_limits_on_request_and_is_said_where_it_would(tmp_path):
    server = changed(NODE, "status", "allocatable", pods="110", cpu="64")
    pods = [pod("web", f"small-{k}", {"containers": [container({"cpu": "10m"})]}) for k in range(400)]
    made = read_kubernetes(listed(server), listed(*pods))
    said = "servers take 110 pods in all, and there are 400: their number is not limited here; --resources with 'pods'"
    assert any(note.startswith(said) for note in made.notes)
    assert fo.DRF().allocate(made).tasks.tolist() == [400]
    for name, document in (("nodes", listed(server)), ("pods", listed(*pods))):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    limited = fo.read(tmp_path, resources=["cpu", "pods"])
    assert fo.DRF().allocate(limited).tasks == pytest.approx([110])
    assert not any("pods in all" in note for note in limited.notes)
    result = CliRunner().invoke(app, ["solve", str(tmp_path), "--resources", "cpu, pods", "--json"])
    assert [*json.loads(result.stdout)["tasks"].values()] == pytest.approx([110]), result.output
    assert not any("pods in all" in note for note in read_kubernetes(listed(server), listed(*pods[:110])).notes)


# -- other schedulers -----------------------------------------------------------------------------------------


def other(version, kind, name, **spec):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {"weight": 3, **spec}}


def test_of_two_other_schedulers_the_queues_that_most_pods_name_are_read(tmp_path):
    in_queue = changed(POD, "metadata", "labels", **{"kai.scheduler/queue": "vision"})
    in_gang = pod("web", "site-2", POD["spec"])
    marks = {"scheduling.k8s.io/group-name": "g", "scheduling.volcano.sh/queue-name": "q"}
    in_gang = changed(in_gang, "metadata", annotations=marks)
    objects = [
        other("scheduling.volcano.sh/v1beta1", "Queue", "q"),
        other("scheduling.run.ai/v2", "Queue", "vision"),
        other("scheduling.run.ai/v2alpha2", "PodGroup", "g"),
        other("scheduling.run.ai/v2alpha2", "PodGroup", "h"),
        other("v1", "ConfigMap", "c"),
    ]
    path = tmp_path / "all.json"
    path.write_text(json.dumps(listed(NODE, in_queue, in_gang, *objects)))
    more = changed(pod("web", "site-3", POD["spec"]), "metadata", labels={"kai.scheduler/queue": "vision"})
    path.write_text(json.dumps(listed(NODE, in_queue, in_gang, more, *objects)))
    by_queue, by_space = fo.read(path), fo.read(path, users="namespace")
    unread = (
        "1 object of the kind Queue of Volcano is not read (items[4] (q))",
        "1 object of the kind ConfigMap is not read (items[8] (c))",
    )
    gang = "1 pod in gangs of scheduling.k8s.io/group-name, all or none of which start: counted one by one (web/site-2)"
    assert by_queue.notes[:2] == by_space.notes[:2] == unread
    queue = (
        "1 pod in queues of scheduling.volcano.sh/queue-name, which are not read; --users "
        "label:scheduling.volcano.sh/queue-name makes them teams (web/site-2)"
    )
    assert by_queue.notes[3:6] == (queue, gang, "1 pod without a queue counts for their namespaces (web/site-2)")
    assert set(by_queue.teams["team"]) == {"vision", "web"}
    assert fo.read(path, users="queue") == by_queue and set(by_space.teams["team"]) == {"web"}


def small_and_large(running=0):
    """Four servers of 8 GPUs; two teams with eight pods of 2 and eight of 8 GPUs each, of which some of 2 run."""
    nodes = [
        {"metadata": {"name": f"n{k}"}, "status": {"allocatable": {GPU: "8", "cpu": "64", "memory": "64Gi"}}}
        for k in range(4)
    ]
    pods = [
        pod(team, f"{gpus}-{k}", {"containers": [container({GPU: str(gpus)})]})
        for team in ("a", "b")
        for gpus in (2, 8)
        for k in range(8)
    ]
    for k in range(running):
        pods[k]["spec"]["nodeName"] = f"n{k % 4}"
    return listed(*nodes), listed(*pods)


def test_quotas_are_of_pods_as_they_are_and_leave_nothing_idle():
    instance = read_kubernetes(*small_and_large())
    assert sorted(zip(instance.users, instance.demands[:, 0].tolist(), strict=True)) == [
        ("a/2 gpu", 2),
        ("a/8 gpu", 8),
        ("b/2 gpu", 2),
        ("b/8 gpu", 8),
    ]
    quotas = fc.quotas(fo.HDRF().allocate(instance))
    assert [(row.team, row.amount) for row in quotas.rows] == [("a", 16), ("b", 16)]
    mean = read_kubernetes(*small_and_large(), tasks="mean")
    assert mean.demands.tolist() == [[5], [5]]  # of which a server has room for one
    assert sum(row.amount for row in fc.quotas(fo.HDRF().allocate(mean)).rows) == 20


def test_what_is_held_is_what_runs_and_no_mean():
    instance = read_kubernetes(*small_and_large(running=6))
    assert instance.held_units.sum(axis=0).tolist() == [12]
    changes = fc.quotas(fo.HDRF().allocate(instance)).diff([])
    assert [(row.team, row.held) for row in changes.rows] == [("a", 12), ("b", 0)]


def test_gangs_of_pod_groups_are_said_to_be_counted_one_by_one(tmp_path):
    groups = [
        other("scheduling.run.ai/v2alpha2", "PodGroup", "train", minMember=4),
        other("scheduling.run.ai/v2alpha2", "PodGroup", "one", minMember=1),
        other("batch.volcano.sh/v1alpha1", "Job", "mpi", minAvailable=8),
        other("scheduling.volcano.sh/v1beta1", "PodGroup", "odd", minMember="4"),
    ]
    path = tmp_path / "all.json"
    path.write_text(json.dumps(listed(NODE, POD, *groups)))
    said = [note for note in fo.read(path).notes if "start together" in note]
    assert said == ["1 PodGroup with pods that start together or not at all: counted one by one (train: 4 pods)"]
    assert "1 object without a template of pods was left out (items[4] (mpi))" in fo.read(path).notes
