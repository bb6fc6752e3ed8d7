"""Objects with templates of pods: what each kind counts, in which team, and once where their pods are there."""

import copy
import json
import random

import pytest
import yaml
from fairopt_clusters.quotas.gangs import read_gangs
from fairopt_clusters.quotas.work import Work
from fairopt_clusters.read.documents import objects_of
from fairopt_clusters.read.kubernetes.additions import Additions
from fairopt_clusters.read.kubernetes.kueue import KueueObjects
from fairopt_clusters.read.kubernetes.manifests import KINDS, with_manifests
from fairopt_clusters.read.kubernetes.reader import read_list
from settings import THOROUGH

import fairopt as fo
from fairopt.errors import InvalidInstance
from fairopt.io.notes import Notes

QUEUE = "kueue.x-k8s.io/queue-name"


def template(cpu=1, labels=None, **more):
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}], **more}
    return {"metadata": {"labels": labels or {}}, "spec": spec}


def thing(api, kind, name="x", namespace="team", labels=None, spec=None, **more):
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec or {}, **more}


def node(name="n1", cpu=64, **more):
    has = {"cpu": str(cpu), "memory": "256Gi", **more}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": has}}


def replicas(**numbers):
    return {name: {"replicas": number, "template": template(number)} for name, number in numbers.items()}


RAY = {
    "headGroupSpec": {"template": template(2)},
    "workerGroupSpecs": [
        {"groupName": "a", "replicas": 3, "numOfHosts": 2, "template": template(1)},
        {"groupName": "b", "minReplicas": 2, "template": template(4)},
    ],
}
OF_RAY = {"headGroupSpec": (2, 1), "a": (1, 6), "b": (4, 2)}
SETS = {  # by API and kind: a spec, and its sets of pods as cpu of one and how many
    ("batch/v1", "Job"): ({"parallelism": 5, "completions": 3, "template": template(2)}, {"spec": (2, 3)}),
    ("batch/v1", "CronJob"): (
        {"jobTemplate": {"spec": {"parallelism": 4, "completions": 2, "template": template(2)}}},
        {"spec": (2, 2)},
    ),
    ("apps/v1", "Deployment"): ({"replicas": 3, "template": template(2)}, {"spec": (2, 3)}),
    ("apps/v1", "ReplicaSet"): ({"template": template(2)}, {"spec": (2, 1)}),
    ("apps/v1", "StatefulSet"): ({"replicas": 0, "template": template(2)}, {"spec": (2, 0)}),
    ("v1", "ReplicationController"): ({"replicas": 2, "template": template(2)}, {"spec": (2, 2)}),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): (
        {
            "replicatedJobs": [
                {"name": "driver", "template": {"spec": {"template": template(3)}}},
                {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": template(1)}}},
            ]
        },
        {"driver": (3, 1), "workers": (1, 8)},
    ),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): (
        {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 4, "leaderTemplate": template(2), "workerTemplate": template(1)},
        },
        {"leaderTemplate": (2, 2), "workerTemplate": (1, 6)},
    ),
    ("ray.io/v1", "RayCluster"): (RAY, OF_RAY),
    ("ray.io/v1", "RayJob"): (
        {"rayClusterSpec": RAY, "submitterPodTemplate": template(1)},
        OF_RAY | {"submitterPodTemplate": (1, 1)},
    ),
    ("ray.io/v1", "RayService"): ({"rayClusterConfig": RAY}, OF_RAY),
    ("kubeflow.org/v1", "PyTorchJob"): (
        {"pytorchReplicaSpecs": replicas(Master=1, Worker=3)},
        {"Master": (1, 1), "Worker": (3, 3)},
    ),
    ("kubeflow.org/v1", "TFJob"): ({"tfReplicaSpecs": replicas(PS=2, Worker=3)}, {"PS": (2, 2), "Worker": (3, 3)}),
    ("kubeflow.org/v2beta1", "MPIJob"): ({"mpiReplicaSpecs": replicas(Worker=2)}, {"Worker": (2, 2)}),
    ("kubeflow.org/v1", "XGBoostJob"): ({"xgbReplicaSpecs": replicas(Worker=2)}, {"Worker": (2, 2)}),
    ("kubeflow.org/v1", "PaddleJob"): ({"paddleReplicaSpecs": replicas(Worker=2)}, {"Worker": (2, 2)}),
    ("kubeflow.org/v1", "JAXJob"): ({"jaxReplicaSpecs": replicas(Worker=2)}, {"Worker": (2, 2)}),
    ("batch.volcano.sh/v1alpha1", "Job"): (
        {
            "minAvailable": 3,
            "tasks": [{"name": "a", "replicas": 2, "template": template(1)}, {"template": template(5)}],
        },
        {"a": (1, 2), "1": (5, 1)},
    ),
    ("batch.volcano.sh/v1alpha1", "CronJob"): (
        {"jobTemplate": {"spec": {"queue": "q", "tasks": [{"name": "a", "replicas": 2, "template": template(1)}]}}},
        {"a": (1, 2)},
    ),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): (
        {
            "type": "Scala",
            "driver": {"coreRequest": "500m", "memory": "512m"},
            "executor": {"cores": 2, "instances": 4, "memory": "10g"},
        },
        {"driver": (0.5, 1), "executor": (2, 4)},
    ),
    ("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication"): (
        {"template": {"driver": {"cores": 3}, "executor": {"cores": 2, "instances": 4}}},
        {"driver": (3, 1), "executor": (2, 4)},
    ),
    ("ray.io/v1", "RayCronJob"): (
        {"jobTemplate": {"rayClusterSpec": RAY}},
        OF_RAY | {"submitterPodTemplate": (0.5, 1)},
    ),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): (
        {"trainer": {"numNodes": 5, "resourcesPerNode": {"limits": {"cpu": 3}}}},
        {"trainer": (3, 5)},
    ),
}


def workload_of(item):
    objects = objects_of([(item, "")], "all")
    found = with_manifests(KueueObjects(), objects, "all", Notes(), Additions(objects, "all"))
    return next(iter(found.workloads.values()))


@pytest.mark.parametrize(("api", "kind"), SETS)
def test_pods_of_each_kind(api, kind):
    spec, sets = SETS[api, kind]
    found = workload_of(thing(api, kind, spec=spec)).pod_sets
    assert {one.name: (float(one.template.spec.request["cpu"]), one.count) for one in found} == sets


@pytest.mark.parametrize(
    ("mode", "head", "submitter"),
    [
        ({}, 2, {"cpu": 0.5, "memory": 200 * 2**20}),
        ({"submissionMode": "K8sJobMode", "submitterPodTemplate": template(3)}, 2, {"cpu": 3, "memory": 2**30}),
        ({"submissionMode": "SidecarMode"}, 2.5, None),
        ({"submissionMode": "HTTPMode", "submitterPodTemplate": template(3)}, 2, None),
        ({"submissionMode": "InteractiveMode"}, 2, None),
    ],
)
def test_a_ray_job_has_the_pod_that_submits_it_by_its_mode(mode, head, submitter):
    item = thing("ray.io/v1", "RayJob", spec={"rayClusterSpec": RAY, **mode})
    found = {one.name: one.template.spec.request for one in workload_of(item).pod_sets}
    assert float(found["headGroupSpec"]["cpu"]) == head and found.get("submitterPodTemplate") == submitter
    assert len(RAY["headGroupSpec"]["template"]["spec"]["containers"]) == 1


def test_pods_of_a_job_that_are_done_do_not_count():
    spec = {"parallelism": 10, "completions": 100, "template": template(1)}
    for done, left in ((0, 10), (95, 5), (100, 0)):
        [found] = workload_of(thing("batch/v1", "Job", spec=spec, status={"succeeded": done})).pod_sets
        assert found.count == left


def test_every_kind_of_the_table_is_tried():
    assert {(api.partition("/")[0], kind) for api, kind in SETS} == {
        (group, kind) for group, kinds in KINDS.items() for kind in kinds
    }


def test_spark_adds_to_memory_a_tenth_or_at_least_384_mib_and_more_without_java():
    spec = {"driver": {"memory": "1g"}, "executor": {"memory": "10g", "gpu": {"name": "nvidia.com/gpu", "quantity": 2}}}
    api = "sparkoperator.k8s.io/v1beta2"
    driver, executor = (
        one.template.spec.request for one in workload_of(thing(api, "SparkApplication", spec=spec)).pod_sets
    )
    assert driver["memory"] == (1024 + 384) * 2**20 and executor["memory"] == 11 * 2**30
    assert executor["nvidia.com/gpu"] == 2 and executor["cpu"] == 1
    [first, _] = workload_of(thing(api, "SparkApplication", spec=spec | {"type": "Python"})).pod_sets
    assert int(first.template.spec.request["memory"]) == 2**30 + int(2**30 * 0.4)


def read_all(tmp_path, *items, **options):
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all(items))
    return fo.read(path, **options)


def job(name="x", queue=None, key=QUEUE, number=2, **more):
    spec = {"parallelism": number, "template": template(1)}
    return thing("batch/v1", "Job", name, labels={key: queue} if queue else {}, spec=spec | more)


@pytest.mark.parametrize(
    ("item", "team"),
    [
        (job(), "team"),
        (job(queue="q"), "q"),
        (job(queue="q", key="kai.scheduler/queue"), "q"),
        (job(queue="root.a", key="yunikorn.apache.org/queue"), "root.a"),
        (job(template=template(1, {"kai.scheduler/queue": "q"})), "q"),
        (thing("batch.volcano.sh/v1alpha1", "Job", spec={"queue": "q", "tasks": [{"template": template()}]}), "q"),
        (
            thing(
                "kubeflow.org/v1",
                "PyTorchJob",
                spec={"pytorchReplicaSpecs": replicas(Worker=2), "runPolicy": {"schedulingPolicy": {"queue": "q"}}},
            ),
            "q",
        ),
    ],
)
def test_the_team_is_the_queue_that_the_object_names_else_its_namespace(tmp_path, item, team):
    assert set(read_all(tmp_path, node(), item).teams["team"]) == {team}


def test_a_kind_of_this_name_in_another_group_is_not_read(tmp_path):
    cluster = read_all(tmp_path, node(), job(), {**job("y"), "apiVersion": "example.com/v1"})
    note = '1 object of the kind Job is not read (document 3 (team/y) of "example.com/v1")'
    assert cluster.task_limits.tolist() == [2] and note in cluster.notes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "Thing"}, "not read is what is of the kind Thing (team/x)"),
        ({"apiVersion": "example.com/v1"}, '1 object of the kind Job is not read (team/x of "example.com/v1")'),
    ],
)
def test_a_document_that_is_one_object_is_named_in_single_parentheses(tmp_path, changes, said):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(job() | changes))
    with pytest.raises(fo.errors.InvalidInstance) as error:
        fo.read(path, capacity={"cpu": 8, "memory": 8})
    assert said in str(error.value)


def test_queues_of_two_namespaces_with_one_name_are_two():
    there = [{"name": name, "namespace": "b", "labels": {QUEUE: queue}} for name, queue in (("y", "q"), ("z", "r"))]
    items = [node(), job(queue="q"), {**job(), "metadata": there[0]}]
    assert read_list({"kind": "List", "items": items}, "all").values["teams"]["team"] == ["b", "team"]
    document = {"kind": "List", "items": [*items, {**job(), "metadata": there[1]}]}
    assert read_list(document, "all").values["teams"]["team"] == ["b/q", "r", "team"]


def test_pods_of_a_pod_group_are_in_its_queue(tmp_path):
    pod = {**thing("v1", "Pod"), **template(1)}
    pod["metadata"] = {"name": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    group = thing("scheduling.volcano.sh/v1beta1", "PodGroup", "g", "default", spec={"queue": "q", "minMember": 2})
    cluster = read_all(tmp_path, node(), pod, group)
    assert cluster.teams["team"] == ("q",) and "(g: 2 pods)" in "".join(cluster.notes)


def test_work_in_queues_of_kueue_counts_there(tmp_path):
    quotas = [{"name": "cpu", "nominalQuota": 8}, {"name": "memory", "nominalQuota": "64Gi"}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "f", "resources": quotas}]}]
    api = "kueue.x-k8s.io/v1beta2"
    queue = {
        "apiVersion": api,
        "kind": "ClusterQueue",
        "metadata": {"name": "research"},
        "spec": {"namespaceSelector": {}, "resourceGroups": groups},
    }
    locals_ = [thing(api, "LocalQueue", name, spec={"clusterQueue": "research"}) for name in ("main", "default")]
    items = node(), queue, *locals_, job("a", queue="main", suspend=True), job("b", number=3, suspend=True)
    cluster = read_all(tmp_path, *items)
    assert cluster.users == ("research/1 cpu",) and cluster.task_limits.tolist() == [5]
    gangs = read_gangs(tmp_path / "all.yaml", waits=Work.of(tmp_path / "all.yaml").inside.waits)
    assert [(one.queue, one.uses["cpu"]) for one in gangs] == [("research", 2), ("research", 3)]


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (job(suspend=True), "suspended"),
        ({**job(), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}, "finished"),
        (
            thing(
                "batch.volcano.sh/v1alpha1",
                "Job",
                spec={"tasks": [{"template": template()}]},
                status={"state": {"phase": "Aborted"}},
            ),
            "finished",
        ),
        (
            thing("batch/v1", "CronJob", spec={"suspend": True, "jobTemplate": {"spec": {"template": template()}}}),
            "suspended",
        ),
    ],
)
def test_what_starts_no_pods_is_left_out(tmp_path, item, why):
    cluster = read_all(tmp_path, node(), item, job("other"))
    assert cluster.task_limits.tolist() == [2]
    assert any(f"that is {why} was left out" in note for note in cluster.notes)


# -- counted once -----------------------------------------------------------------------------------------------


def owned(item, kind, name, uid=None, labels=None):
    owner = {"kind": kind, "name": name, **({"uid": uid} if uid else {})}
    return {**item, "metadata": {**item["metadata"], "ownerReferences": [owner], "labels": labels or {}}}


def pod(name, cpu=1, **more):
    return {**thing("v1", "Pod", name), **{"spec": template(cpu)["spec"]}, "status": {"phase": "Pending"}, **more}


def with_uid(item, uid):
    return {**item, "metadata": {**item["metadata"], "uid": uid}}


DEPLOYMENT = thing("apps/v1", "Deployment", "web", spec={"replicas": 5, "template": template(1)})
OF_WEB = thing("apps/v1", "ReplicaSet", "web-abc", spec={"replicas": 5, "template": template(1)})
JOBSET = thing("jobset.x-k8s.io/v1alpha2", "JobSet", "set", spec=SETS["jobset.x-k8s.io/v1alpha2", "JobSet"][0])
SPARK = thing("sparkoperator.k8s.io/v1beta2", "SparkApplication", "spark", spec={"executor": {"instances": 3}})
ONCE = {
    "pods of a Job": [job(number=4), owned(pod("a"), "Job", "x"), owned(pod("b"), "Job", "x")],
    "by the name of the ReplicaSet": [DEPLOYMENT, owned(pod("a"), "ReplicaSet", "web-abc", "2")],
    "by the uid of the ReplicaSet": [
        with_uid(DEPLOYMENT, "1"),
        owned(with_uid(OF_WEB, "2"), "Deployment", "web", "1"),
        owned(pod("a"), "ReplicaSet", "web-abc", "2"),
    ],
    "more pods than replicas": [
        {**DEPLOYMENT, "spec": {"replicas": 1, "template": template(1)}},
        *(owned(pod(f"p{k}"), "ReplicaSet", f"web-{k}") for k in range(3)),
    ],
}
LIMITS = {
    "pods of a Job": 4,
    "by the name of the ReplicaSet": 5,
    "by the uid of the ReplicaSet": 5,
    "more pods than replicas": 3,
}


@pytest.mark.parametrize("case", ONCE)
def test_pods_that_are_there_are_not_counted_twice(tmp_path, case):
    assert read_all(tmp_path, node(), *ONCE[case]).task_limits.tolist() == [LIMITS[case]]


def test_what_an_object_makes_is_not_counted_beside_it(tmp_path):
    mark = {"jobset.sigs.k8s.io/jobset-name": "set"}
    jobs = [owned(job(f"set-{k}", number=4), "JobSet", "set", labels=mark) for k in range(2)]
    pods = [owned(pod(f"p{k}", 3), "Job", "set-0", labels=mark) for k in range(1)]
    alone = read_all(tmp_path, node(), JOBSET)
    assert alone.task_limits.tolist() == [8, 1]
    assert read_all(tmp_path, node(), JOBSET, *jobs, *pods) == alone


def test_a_job_with_a_workload_of_kueue_counts_as_its_workload(tmp_path):
    sets = [{"name": "main", "count": 3, "template": template(1)}]
    workload = thing("kueue.x-k8s.io/v1beta2", "Workload", "job-x-1f", spec={"podSets": sets})
    workload["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "x", "uid": ""}]
    assert read_all(tmp_path, node(), workload, job(number=7)).task_limits.tolist() == [3]


def test_a_schedule_in_a_dump_counts_with_its_jobs_only(tmp_path):
    cron = with_uid(thing("batch/v1", "CronJob", "c", spec={"jobTemplate": {"spec": {"template": template(1)}}}), "1")
    assert read_all(tmp_path, node(), cron, owned(job("c-1"), "CronJob", "c", "1")).task_limits.tolist() == [2]


# -- what is added to templates ---------------------------------------------------------------------------------


def test_defaults_of_limit_ranges_and_overhead_of_runtime_classes_count(tmp_path):
    bare = {"containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": 3}}}], "runtimeClassName": "vm"}
    limits = [{"type": "Container", "default": {"cpu": 2, "memory": "2Gi"}, "defaultRequest": {"cpu": "500m"}}]
    items = [
        node(),
        thing("v1", "LimitRange", spec={"limits": limits}),
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "vm"},
            "overhead": {"podFixed": {"cpu": 1}},
        },
        job(template={"spec": bare}),
    ]
    cluster = read_all(tmp_path, *items)
    assert cluster.demands.tolist() == [[4.5, 4.0]]  # 0.5 + 3 + 1 of cpu, twice 2 GiB
    running = {**pod("p"), "spec": bare, "status": {"phase": "Running"}}
    assert read_all(tmp_path, *items[:3], running).demands.tolist() == [[3.0]]  # as the cluster has it


def test_sidecars_and_parts_of_gpus_of_templates_count(tmp_path):
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": 2}}}
    of = template(1, initContainers=[sidecar])
    of["metadata"]["annotations"] = {"gpu-fraction": "0.25"}
    cluster = read_all(tmp_path, node(**{"nvidia.com/gpu": "8"}), job(template=of))
    assert cluster.demands.tolist() == [[3.0, 1.0, 0.25]]


def test_claims_of_devices_count_as_their_class_where_servers_have_some(tmp_path):
    exact = [{"name": "g", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]
    claim = thing("resource.k8s.io/v1", "ResourceClaimTemplate", "two", spec={"spec": {"devices": {"requests": exact}}})
    claims = [{"name": "g", "resourceClaimTemplateName": "two"}]
    devices = {"nodeName": "n1", "driver": "gpu.example.com", "devices": [{"name": f"d{k}"} for k in range(6)]}
    slices = thing("resource.k8s.io/v1", "ResourceSlice", "s", spec=devices)
    of = template(1, resourceClaims=claims)
    cluster = read_all(tmp_path, node(), claim, slices, job(template=of))
    assert cluster.resources == ("cpu", "memory", "gpu.example.com")
    assert cluster.demands.tolist() == [[1, 1, 2]] and cluster.capacities.tolist() == [[64, 256, 6]]
    without = read_all(tmp_path, node(), claim, job(template=of))
    assert without.resources == ("cpu", "memory") and "resource claims" in "".join(without.notes)


def claims_of(name, kind="resourceClaimName"):
    return [{"name": "g", kind: name}]


def test_a_claim_that_pods_share_counts_once_whoever_shares_it(tmp_path):
    requests = [{"name": "g", "exactly": {"deviceClassName": "fpga.example.com", "count": 3}}]
    claim = thing("resource.k8s.io/v1", "ResourceClaim", "three", spec={"devices": {"requests": requests}})
    of = template(1, resourceClaims=claims_of("three"))
    deployment = thing("apps/v1", "Deployment", "d", spec={"replicas": 4, "template": of})
    alone = thing("v1", "Pod", "p", spec=of["spec"], status={"phase": "Pending"})
    gone = thing("v1", "Pod", "q", spec=of["spec"], status={"phase": "Succeeded"})
    made = owned(thing("v1", "Pod", "d-1", spec=of["spec"], status={"phase": "Pending"}), "Deployment", "d", "u")
    deployment = with_uid(deployment, "u")
    capacity = {"cpu": 8, "memory": 8, "fpga.example.com": 12}
    cluster = read_all(tmp_path, claim, deployment, alone, gone, made, capacity=capacity)
    devices = cluster.demands[:, cluster.resources.index("fpga.example.com")]
    assert devices @ cluster.task_limits == pytest.approx(3) and cluster.task_limits.sum() == 5
    assert devices.tolist() == [0.6] and "1 claim that several pods share counts once" in "".join(cluster.notes)


def test_a_claim_of_a_pod_group_counts_once_for_the_group(tmp_path):
    requests = [{"name": "g", "exactly": {"deviceClassName": "fpga.example.com"}}]
    spec = {"spec": {"devices": {"requests": requests}}}
    one = thing("resource.k8s.io/v1", "ResourceClaimTemplate", "one", spec=spec)
    claims = claims_of("one", "resourceClaimTemplateName")
    group = thing(
        "scheduling.k8s.io/v1alpha2",
        "PodGroup",
        "all",
        spec={"resourceClaims": claims, "schedulingPolicy": {"gang": {"minCount": 4}}},
    )
    of = template(1, resourceClaims=claims, schedulingGroup={"podGroupName": "all"})
    capacity = {"cpu": 8, "memory": 8, "fpga.example.com": 12}
    cluster = read_all(tmp_path, one, group, job(template=of, number=4), capacity=capacity)
    assert cluster.demands.tolist() == [[1, 1, 0.25]] and cluster.task_limits.tolist() == [4]
    assert "1 PodGroup with pods that start together or not at all: counted one by one (all: 4 pods)" in cluster.notes


def test_a_capacity_is_refused_where_flavors_have_labels(tmp_path):
    flavors = [{"name": "f", "resources": [{"name": name, "nominalQuota": "4Gi"} for name in ("cpu", "memory")]}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
    of_kueue = "kueue.x-k8s.io/v1beta2"
    items = [
        thing(of_kueue, "ClusterQueue", "all", spec={"namespaceSelector": {}, "resourceGroups": groups}),
        thing(of_kueue, "LocalQueue", "mine", spec={"clusterQueue": "all"}),
        job(queue="mine"),
    ]
    plain, labelled = (thing(of_kueue, "ResourceFlavor", "f", spec=spec) for spec in ({}, {"nodeLabels": {"a": "b"}}))
    capacity = {"cpu": 8, "memory": 8}
    assert read_all(tmp_path, *items, plain, capacity=capacity).capacities.tolist() == [[8, 8]]
    with pytest.raises(InvalidInstance, match="no labels, by which servers are of the flavor f; leave it out"):
        read_all(tmp_path, *items, labelled, capacity=capacity)
    assert read_all(tmp_path, *items, labelled).users == ("all/1 cpu",)


def test_quotas_of_kueue_may_have_names_of_their_own_for_classes(tmp_path):
    requests = [{"name": "g", "exactly": {"deviceClassName": "fpga.example.com", "count": 2}}]
    claim = thing(
        "resource.k8s.io/v1", "ResourceClaimTemplate", "two", spec={"spec": {"devices": {"requests": requests}}}
    )
    amounts = {"cpu": 7, "memory": "7Gi", "boards": 7}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    flavors = [{"name": "f", "resources": quotas}]
    groups = [{"coveredResources": [*amounts], "flavors": flavors}]
    of_kueue = "kueue.x-k8s.io/v1beta2"
    items = [
        claim,
        thing(of_kueue, "ClusterQueue", "all", spec={"namespaceSelector": {}, "resourceGroups": groups}),
        thing(of_kueue, "LocalQueue", "mine", spec={"clusterQueue": "all"}),
        job(
            queue="mine", number=5, template=template(0.5, resourceClaims=claims_of("two", "resourceClaimTemplateName"))
        ),
    ]
    mapped = [{"name": "boards", "deviceClassNames": ["fpga.example.com"]}]
    config = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    config["resources"] = {"deviceClassMappings": mapped}
    in_map = {"controller_manager_config.yaml": yaml.safe_dump(config)}
    as_text = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager"}, "data": in_map}
    devices = {"nodeName": "n1", "driver": "fpga.example.com", "devices": [{"name": f"d{k}"} for k in range(6)]}
    slices = thing("resource.k8s.io/v1", "ResourceSlice", "s", spec=devices)
    for more, capacity in (([config], 7), ([as_text], 7), ([config, node(), slices], 6)):
        cluster = read_all(tmp_path, *items, *more)
        boards = cluster.resources.index("boards")
        assert (cluster.demands[0, boards], cluster.capacities[0, boards]) == (2, capacity)
    assert "boards" not in read_all(tmp_path, *items).resources


def test_claims_of_parts_of_devices_do_not_count_and_errors_name_classes(tmp_path):
    exact = {"deviceClassName": "fpga.example.com", "capacity": {"requests": {"fpga.example.com/memory": "4Gi"}}}
    spec = {"spec": {"devices": {"requests": [{"name": "g", "exactly": exact}]}}}
    part = thing("resource.k8s.io/v1", "ResourceClaimTemplate", "part", spec=spec)
    of = template(1, resourceClaims=claims_of("part", "resourceClaimTemplateName"))
    cluster = read_all(tmp_path, part, job(template=of), capacity={"cpu": 8, "memory": 8, "fpga.example.com": 12})
    assert cluster.resources == ("cpu", "memory") and "resource claims" in "".join(cluster.notes)
    whole = {"spec": {"devices": {"requests": [{"name": "g", "deviceClassName": "fpga.example.com"}]}}}
    part = {**part, "spec": whole}
    with pytest.raises(InvalidInstance, match=r"of what pods request: cpu, fpga\.example\.com, memory"):
        read_all(tmp_path, part, job(template=of))


def test_pods_may_use_all_of_a_capacity_in_place_of_nodes(tmp_path):
    rule = {"key": "zone", "operator": "In", "values": ["a"]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    items = [
        job("a", template=template(1, nodeSelector={"disk": "fast"})),
        job("b", template=template(2, affinity={"nodeAffinity": terms})),
    ]
    cluster = read_all(tmp_path, *items, capacity={"cpu": 8, "memory": 8})
    assert cluster.demands.tolist() == [[2, 1], [1, 1]] and cluster.eligible.all()
    assert "2 objects with rules on labels of servers may use all of the capacity" in "".join(cluster.notes)
    with pytest.raises(InvalidInstance, match=r"1 resource that pods request is not in the capacity, .*: memory;"):
        read_all(tmp_path, *items, capacity={"cpu": 8})


def test_parts_of_gpus_count_beside_a_capacity(tmp_path):
    of = template(1)
    of["metadata"]["annotations"] = {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}
    with pytest.raises(InvalidInstance, match=r"of what pods request: cpu, memory, nvidia\.com/gpu"):
        read_all(tmp_path, job(template=of))
    cluster = read_all(tmp_path, job(template=of), capacity={"cpu": 8, "memory": 8, "gpu": 4})
    assert cluster.resources[2] == "nvidia.com/gpu" and cluster.demands.tolist() == [[1, 1, 0.5]]


@pytest.mark.parametrize(
    ("items", "note"),
    [
        (
            [{**job(number=6), "metadata": {"name": "x", "annotations": {"kai.scheduler/batch-min-member": "2"}}}],
            "1 object with pods that start together or not at all: counted one by one (default/job-x: 2 pods)",
        ),
        (
            [
                job(number=6),
                thing("scheduling.run.ai/v2alpha2", "PodGroup", "g", spec={"subGroups": [{"minMember": 2}] * 2}),
            ],
            "1 PodGroup with pods that start together or not at all: counted one by one (g: 4 pods)",
        ),
        (
            [thing("v1", "Pod", "p", labels={"kueue.x-k8s.io/pod-group-name": "g"}, spec=template(1)["spec"])],
            "1 pod in gangs of kueue.x-k8s.io/pod-group-name, all or none of which start: counted one by one (team/p)",
        ),
    ],
)
def test_gangs_of_other_words_are_noted(tmp_path, items, note):
    assert note in read_all(tmp_path, node(), *items).notes


def test_what_of_queues_of_kueue_is_not_modelled_is_noted(tmp_path):
    quotas = [{"name": "cpu", "nominalQuota": 9}, {"name": "credits", "nominalQuota": 14}]
    groups = [{"coveredResources": ["cpu", "credits"], "flavors": [{"name": "f", "resources": quotas}]}]
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    spec = {"namespaceSelector": {}, "resourceGroups": groups, "admissionScope": scope}
    of_kueue = "kueue.x-k8s.io/v1beta2"
    queues = [
        thing(of_kueue, "ClusterQueue", "all", spec=spec),
        thing(of_kueue, "LocalQueue", "mine", spec={"clusterQueue": "all"}),
    ]
    only_cpu = {"spec": {"containers": [{"resources": {"requests": {"cpu": 3}}}]}}
    notes = read_all(tmp_path, *queues, job(queue="mine", template=only_cpu)).notes
    assert any("1 cluster queue that shares among local queues by past use" in note for note in notes)
    assert any("1 quota of what no pod requests" in note and note.endswith("(credits)") for note in notes)
    rules = [{"input": "cpu", "outputs": {"credits": 1}}]
    config = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    config["resources"] = {"transformations": rules}
    notes = read_all(tmp_path, *queues, config, job(queue="mine", template=only_cpu)).notes
    assert not any("no pod requests" in note for note in notes)


def test_what_is_not_read_is_named_with_what_would_be(tmp_path):
    with pytest.raises(
        InvalidInstance, match=r"kind Workflow \(w\); the kinds that are read: AppWrapper, .*Queue, .*Tr"
    ):
        read_all(tmp_path, {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"}})
    bare = thing("trainer.kubeflow.org/v1alpha1", "TrainJob", "t", spec={"trainer": {"numNodes": 2}})
    with pytest.raises(InvalidInstance, match=r"1 object without a template of pods was left out \(team/t\)"):
        read_all(tmp_path, bare)


BAD = {
    "quantity": (
        job(template=template("1Gib")),
        r'document 2 \(team/x\)\.spec\.template\.spec\..*cpu is "1Gib"; write 1Gi',
    ),
    "number": (job(parallelism="3"), r'document 2 \(team/x\)\.spec\.parallelism is "3"; give a whole number >= 0'),
    "negative": (
        thing("apps/v1", "Deployment", spec={"replicas": -1, "template": template()}),
        r"document 2 \(team/x\)\.spec\.replicas is -1",
    ),
    "Java": (
        thing("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec={"driver": {"memory": "1Gi"}}),
        r'document 2 \(team/x\)\.spec\.driver\.memory is "1Gi"; give a size as Java writes it',
    ),
    "list": (job(template=[1]), r"document 2 \(team/x\)\.spec\.template is a list; give an object"),
    "limits": (
        thing("v1", "LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "x"}}]}),
        r'document 2 \(team/x\)\.spec\.limits\[0\]\.default\.cpu is "x"',
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_document_the_object_and_the_place(tmp_path, case):
    item, message = BAD[case]
    with pytest.raises(InvalidInstance, match=rf"all\.yaml: {message}"):
        read_all(tmp_path, node(), item)


def test_two_objects_of_one_kind_and_name_are_refused_but_generated_names_differ(tmp_path):
    with pytest.raises(InvalidInstance, match=r"document 3 .* and .*document 2 .* are both named 'team/job-x'"):
        read_all(tmp_path, node(), job(), job())
    made = {**job(), "metadata": {"generateName": "x-", "namespace": "team"}}
    assert read_all(tmp_path, node(), made, made).task_limits.tolist() == [4]


WRONG = [None, 0, -1, 1.5, "", "x", "1Gib", [], {}, [1], [None], {"a": 1}, True, float("nan")]


def places(thing, path=()):
    """The paths to all values in a document."""
    children = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in children:
        yield (*path, key)
        yield from places(value, (*path, key))


def test_objects_with_wrong_values_anywhere_are_read_or_refused_by_name():
    objects = [thing(api, kind, spec=spec) for (api, kind), (spec, _) in SETS.items()]
    limits = [{"type": "Container", "default": {"cpu": 2}}]
    part = thing("workload.codeflare.dev/v1beta2", "AppWrapper", "w", spec={"components": [{"template": job("in")}]})
    more = [thing("v1", "LimitRange", spec={"limits": limits}), part, owned(pod("p"), "Job", "x")]
    whole, rng, refused = {"kind": "List", "items": [node(), *objects, *more]}, random.Random(5), 0
    found = [path for path in places(whole) if path[0] == "items"]
    for path in rng.sample(found, 150):
        changed = copy.deepcopy(whole)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = rng.choice(WRONG)
        try:
            read_list(changed, "all")
        except InvalidInstance as error:
            refused += str(error).startswith("all: items[")
    assert 40 < refused < 130


# -- one cluster, written in four ways --------------------------------------------------------------------------


DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # in C, where libyaml is there


def random_cluster(rng):
    """Servers, objects with templates, and the pods that their controllers would make."""
    nodes = [node(f"n{k}", rng.choice([16, 32, 64])) for k in range(rng.randint(1, 4))]
    objects, pods = [], []
    for k in range(rng.randint(1, 7)):
        api, kind = rng.choice(
            [("batch/v1", "Job"), ("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("", "JobSet")]
        )
        space, queue = rng.choice("abc"), rng.choice(["", "", "fast", "slow"])
        labels = {"kai.scheduler/queue": queue} if queue else {}
        of, number, several = template(rng.choice([1, 2, "500m"]), labels), rng.randint(1, 5), rng.randint(1, 3)
        if rng.random() < 0.3:
            of["spec"]["initContainers"] = [{"restartPolicy": "Always", "resources": {"limits": {"cpu": "250m"}}}]
        name, uid = f"o{k}", f"uid-{k}"
        if kind == "JobSet":
            inner = {"spec": {"parallelism": number, "template": of}}
            spec = {"replicatedJobs": [{"name": "r", "replicas": several, "template": inner}]}
            objects.append(with_uid(thing("jobset.x-k8s.io/v1alpha2", kind, name, space, spec=spec), uid))
            number *= several
        else:
            spec = {"parallelism" if kind == "Job" else "replicas": number, "template": of}
            api = "batch/v1" if kind == "Job" else "apps/v1"
            objects.append(with_uid(thing(api, kind, name, space, spec=spec), uid))
        for p in range(number):
            one = thing("v1", "Pod", f"{name}-{p}", space, labels, spec=of["spec"], status={"phase": "Pending"})
            pods.append(owned(one, kind, name, uid, labels))
    return nodes, objects, pods


def test_manifests_and_dumps_in_json_and_yaml_are_the_same_instance(tmp_path):
    rng = random.Random(7)
    for k in range(100 if THOROUGH else 30):
        nodes, objects, pods = random_cluster(rng)
        some = rng.sample(pods, rng.randint(0, len(pods)))
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "nodes.yml").write_text(yaml.dump_all(nodes, Dumper=DUMPER))
        for j, item in enumerate(objects):
            bare = {**item, "metadata": {key: of for key, of in item["metadata"].items() if key != "uid"}}
            with (folder / f"{rng.choice(['jobs', 'more'])}-{j % 3}.yaml").open("a") as file:
                file.write("---\n" + yaml.dump(bare, Dumper=DUMPER))
        dump = {"apiVersion": "v1", "kind": "List", "items": [*nodes, *objects, *some]}
        (tmp_path / "dump.json").write_text(json.dumps(dump))
        (tmp_path / "dump.yaml").write_text(yaml.dump(dump, Dumper=DUMPER))
        (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))
        expected = fo.read(tmp_path / "pods.json")
        for way in (folder, tmp_path / "dump.json", tmp_path / "dump.yaml"):
            assert fo.read(way) == expected, (k, way)


def test_an_elastic_quota_is_named_with_what_it_would_limit(tmp_path):
    quota = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    quota |= {"metadata": {"name": "q", "namespace": "ml"}, "spec": {"min": {"cpu": "4"}, "max": {"cpu": "10"}}}
    notes = read_all(tmp_path, node(), quota, job()).notes
    assert any(
        "ElasticQuota of coscheduling is not read" in note and "ml: min cpu 4, max cpu 10" in note for note in notes
    )
