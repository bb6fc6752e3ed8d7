"""Objects of Kueue: what waits without pods, teams by ClusterQueue, quotas, weights, flavors, and what is wrong."""

import copy
import json
import random
import tempfile
from pathlib import Path

import fairopt_clusters as fc
import numpy as np
import pytest
from fairopt_clusters import read_kubernetes
from fairopt_clusters.quotas.cluster_queues import read_queues
from kube_cluster import GPU, GPU_TOLERATION, container, pod

import fairopt as fo
from fairopt.datasets import read
from fairopt.errors import InvalidInstance

BETA1, BETA2 = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


def listed(*items):
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def node(name, cpu, gpus=0, **labels):
    taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}] if gpus else []
    has = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", **({GPU: str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": has},
    }


NODES = [
    *(node(f"a100-{k}", 64, 8, accelerator="a100") for k in (1, 2)),
    node("t4-1", 32, 4, accelerator="t4"),
    *(node(f"cpu-{k}", 32) for k in (1, 2, 3)),
]


def spec(cpu, gpus=0, **more):
    requests = {"cpu": str(cpu)} | ({GPU: str(gpus)} if gpus else {})
    return {"containers": [container(requests)], "tolerations": [GPU_TOLERATION] * bool(gpus), **more}


def queue(name, cohort=None, version=BETA2, weight=None, **quotas):
    """A ClusterQueue; quotas by flavor, with dashes as underscores, of (cpu, gpus)."""
    flavors = [
        {
            "name": flavor.replace("_", "-"),
            "resources": [{"name": "cpu", "nominalQuota": cpu}, {"name": GPU, "nominalQuota": str(gpus)}],
        }
        for flavor, (cpu, gpus) in quotas.items()
    ]
    of = {"resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": flavors}]} if quotas else {}
    if cohort:
        of["cohort" if version == BETA1 else "cohortName"] = cohort
    if weight is not None:
        of["fairSharing"] = {"weight": weight}
    of["namespaceSelector"] = {}
    return {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": of}


def local(namespace, name, cluster_queue):
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": BETA2, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": cluster_queue}}


def cohort(name, parent=None, **more):
    of = {**({"parentName": parent} if parent else {}), **more}
    return {"apiVersion": BETA2, "kind": "Cohort", "metadata": {"name": name}, "spec": of}


def flavor(name, tolerations=(), **labels):
    of = {"nodeLabels": labels, "tolerations": list(tolerations)}
    return {"apiVersion": BETA2, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": of}


def workload(namespace, name, local_queue, *pod_sets, admitted=None, uid=None, conditions=(), owner="", **of):
    """A Workload with pod sets of (count, spec)."""
    sets = [
        {"name": f"set{k}", "count": count, "template": {"metadata": {"labels": {"team": "x"}}, "spec": one}}
        for k, (count, one) in enumerate(pod_sets)
    ]
    owners = [{"kind": "Job", "name": owner or name, "uid": uid}] if uid else []
    status = {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}
    if admitted:
        status["admission"] = {"clusterQueue": admitted, "podSetAssignments": []}
    return {
        "apiVersion": BETA2,
        "kind": "Workload",
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners},
        "spec": {"queueName": local_queue, "podSets": sets, **of},
        "status": status,
    }


FLAVORS = [flavor("a100", accelerator="a100"), flavor("t4", accelerator="t4"), flavor("plain")]
QUEUES = [
    queue("vision", "research", weight="2", a100=(64, 8), t4=(16, 2)),
    queue("nlp", "research", BETA1, a100=(64, 8)),
    queue("web", None, plain=(48, 0)),
]
LOCAL = [local("vis", "main", "vision"), local("nlp", "main", "nlp"), local("site", "main", "web")]
WORKLOADS = [
    workload("vis", "train", "main", (3, spec(8, 4))),
    workload("vis", "running", "main", (2, spec(4, 2)), admitted="vision", uid="u1", conditions=["Admitted"]),
    workload("nlp", "tune", "main", (1, spec(2, tolerations=[GPU_TOLERATION])), (1, spec(8, 8))),
    workload("nlp", "old", "main", (9, spec(8, 8)), conditions=["Finished"]),
    workload("nlp", "off", "main", (9, spec(8, 8)), active=False),
]
RUNNING = [
    pod("vis", f"running-{k}", spec(4, 2, nodeName="a100-1"), ownerReferences=[{"kind": "Job", "uid": "u1"}])
    for k in range(2)
]
SITE = [pod("site", f"web-{k}", spec(2), **{}) for k in range(8)]
for one in SITE:
    one["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "main"
OTHER = [pod("tools", "shell-0", spec(1))]
PODS = [*RUNNING, *SITE, *OTHER]


def made(*kueue, nodes=NODES, pods=PODS, **options):
    return read_kubernetes(listed(*nodes), listed(*pods), kueue=listed(*kueue), **options)


def said(instance, start):
    return [note for note in instance.notes if note.startswith(start)]


CLUSTER = made(*FLAVORS, *QUEUES, *LOCAL, *WORKLOADS)


def tasks_of(instance, team):
    return sum(
        limit for limit, name in zip(instance.task_limits.tolist(), instance.teams["team"], strict=True) if name == team
    )


def test_teams_are_cluster_queues_with_the_pods_that_exist_and_those_of_workloads_without_any():
    assert dict(CLUSTER.teams) == {
        "team": ("nlp", "nlp", "vision", "vision", "web"),
        "cohort": ("research", "research", "research", "research", None),
    }
    assert [tasks_of(CLUSTER, team) for team in ("vision", "nlp", "web")] == [3 + 2, 1 + 1, 8]
    assert said(CLUSTER, "5 pods of workloads that are not there yet count as waiting (such as nlp/tune/set0)")
    assert said(CLUSTER, "1 finished workload was left out (nlp/old)")
    assert said(CLUSTER, "1 workload that is not active was left out (nlp/off)")
    what = "1 waiting pod in no cluster queue was left out: --users namespace shares among namespaces (tools/shell-0)"
    assert said(CLUSTER, what)
    assert said(CLUSTER, "1 cohort without an object counts as one without a parent, as in Kueue (research)")
    assert CLUSTER.held.sum() == 2


def test_a_workload_counts_once_however_its_pods_are_tied_to_it():
    """Its pods that are not there yet count beside the one that is; of 4, of which 1 is tied to it, 3 are not."""
    alone = workload("vis", "job", "main", (4, spec(4, 1)), uid="job-uid", owner="job")
    for metadata in (
        {"annotations": {"kueue.x-k8s.io/workload": "job"}},
        {"labels": {"kueue.x-k8s.io/pod-group-name": "job"}},
        {"ownerReferences": [{"kind": "Job", "uid": "job-uid"}]},
        {"labels": {"jobset.sigs.k8s.io/jobset-name": "job"}},
        {"uid": "job-uid"},
    ):
        tied = pod("vis", "job-0", spec(4, 1), phase="Pending")
        tied["metadata"] |= metadata
        found = made(*FLAVORS, *QUEUES, *LOCAL, alone, pods=[tied])
        assert tasks_of(found, "vision") == 4
        assert said(found, "3 pods of workloads that are not there yet count as waiting")
    other = pod("vis", "job-0", spec(4, 1), ownerReferences=[{"kind": "Job", "uid": "another"}])
    assert tasks_of(made(*FLAVORS, *QUEUES, *LOCAL, alone, pods=[other]), "vision") == 4  # it is in no queue
    ended = pod("vis", "job-0", spec(4, 1), phase="Failed", ownerReferences=[{"kind": "Job", "uid": "job-uid"}])
    assert tasks_of(made(*FLAVORS, *QUEUES, *LOCAL, alone, pods=[ended, *SITE]), "vision") == 4


def test_owners_of_owners_in_one_list_tie_pods_to_their_workload():
    alone = workload("vis", "set", "main", (4, spec(4, 1)), uid="top", owner="set")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"uid": "middle", "ownerReferences": [{"kind": "JobSet", "uid": "top"}]},
    }
    tied = pod("vis", "set-0", spec(4, 1), ownerReferences=[{"kind": "Job", "uid": "middle"}])
    for items, outside in (([job], 0), ([], 1)):
        found = read_from(listed(*NODES, tied, *items, *FLAVORS, *QUEUES, *LOCAL, alone))
        assert sum(found.task_limits) == 4
        assert len(said(found, "1 waiting pod in no cluster queue was left out")) == outside


def read_from(document, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.json"
        path.write_text(json.dumps(document))
        return read(path, **options)


def test_a_workload_on_another_cluster_does_not_wait_here():
    away = copy.deepcopy(WORKLOADS[0])
    away["status"]["clusterName"] = "north"
    found = made(*FLAVORS, *QUEUES, *LOCAL, away, WORKLOADS[1])
    assert tasks_of(found, "vision") == 2
    assert said(found, "1 workload on another cluster was left out (vis/train on north)")


def test_pods_that_a_job_no_longer_needs_do_not_wait():
    one = workload("nlp", "half", "main", (4, spec(8, 8)))
    one["status"]["reclaimablePods"] = [{"name": "set0", "count": 3}]
    assert tasks_of(made(*FLAVORS, *QUEUES, *LOCAL, one, pods=SITE), "nlp") == 1


def test_nominal_quotas_by_flavor_are_guarantees_and_fair_sharing_weighs_teams():
    """As much of them as the tasks take together: of vision 8 gpu on a100 and 2 on t4, 4 of them by its 2 pods of 2."""
    of_vision = {"vision/4 gpu": 6 / 4, "vision/2 gpu": 4 / 2}
    wanted = {"nlp/8 gpu": 1, "nlp/2 cpu": 1, **of_vision, "web/2 cpu": 8}
    assert dict(zip(CLUSTER.users, CLUSTER.guarantees, strict=True)) == {u: pytest.approx(x) for u, x in wanted.items()}
    assert CLUSTER.team_weights == {"vision": 2, "nlp": 1, "web": 1}
    answer = fo.HDRF().allocate(CLUSTER)
    assert answer.certificate.ok
    assert answer.to_frame("team").loc["nlp", GPU] == pytest.approx(8)
    assert said(CLUSTER, "nominal quotas, by flavor, are what queues are owed, as far as their pods can use them")


def test_both_api_versions_say_the_same():
    def all_of(version):
        return [queue("vision", "research", version, a100=(64, 8)), queue("nlp", "research", version, a100=(64, 8))]

    first, second = (made(*FLAVORS, *all_of(version), *LOCAL[:2], *WORKLOADS) for version in (BETA1, BETA2))
    assert first == second and first.teams["cohort"] == second.teams["cohort"]


def test_cohorts_of_cohorts_are_outer_labels_and_their_own_quotas_come_on_top():
    own = {"resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": "a100", "resources": [GPU_QUOTA]}]}]}
    tree = [cohort("research", "all", fairSharing={"weight": "3"}), cohort("all", **own)]
    found = made(*FLAVORS, *QUEUES[:2], queue("web", "all", plain=(48, 0)), *LOCAL, *WORKLOADS, *tree)
    by_team = dict(
        zip(found.teams["team"], zip(found.teams["cohort"], found.teams["cohort2"], strict=True), strict=True)
    )
    assert by_team == {
        "nlp": ("research", "all"),
        "vision": ("research", "all"),
        "web": (None, "all"),
    }
    assert found.team_weights["research"] == 3
    # what is owed to cohorts in others: 16 of 16 a100, and the 2 of 4 t4 of which there are quotas
    assert found.team_guarantees["research"][GPU] == pytest.approx(16 + 2)
    assert not said(found, "1 cohort without")


def test_weights_of_cohorts_of_one_queue_each_divide_the_cluster():
    """Cohorts with weights of .75 and .25 have 9 and 3 of 12 CPUs."""
    weights = (("left", "750m"), ("right", "250m"))
    tree = [cohort(name, "all", fairSharing={"weight": weight}) for name, weight in weights]
    tree += [{**queue("all", plain=(12, 0)), "kind": "Cohort"}, flavor("plain")]
    queues = [queue("vision", "left", plain=(0, 0)), queue("nlp", "right", plain=(0, 0))]
    jobs = [workload(namespace, "job", "main", (24, spec(1))) for namespace in ("vis", "nlp")]
    found = made(*queues, *LOCAL[:2], *jobs, *tree, nodes=[node("n", 12)], pods=[])
    assert found.teams.outermost_first == ("cohort2", "cohort", "team")
    assert said(
        found, "2 workloads that Kueue never admits whole count pod by pod all the same (such as nlp/job: asks for 24"
    )
    small = [workload(namespace, "job", "main", (12, spec(1))) for namespace in ("vis", "nlp")]
    assert not said(made(*queues, *LOCAL[:2], *small, *tree, nodes=[node("n", 12)], pods=[]), "never admits whole")
    answer = fo.HDRF(by=found.teams.outermost_first).allocate(found)
    assert dict(zip(found.teams["team"], answer.tasks.tolist(), strict=True)) == {"vision": 9, "nlp": 3}


def test_a_workload_of_unlike_pods_that_its_queue_never_admits_whole_is_left_out():
    """A head without its workers is of no use; equal pods count one by one, as far as they would fit."""
    tune = workload("nlp", "tune", "main", (1, spec(2, tolerations=[GPU_TOLERATION])), (2, spec(8, 8)))
    train = workload("nlp", "train", "main", (3, spec(8, 4)))
    found = made(*FLAVORS, queue("nlp", a100=(64, 8)), *LOCAL[1:2], tune, train, pods=OTHER)
    assert tasks_of(found, "nlp") == 3
    asks = "such as nlp/tune: asks for 16 nvidia.com/gpu, and nlp may have 8"
    assert said(found, f"3 pods of workloads of unlike pods that Kueue never admits whole were left out ({asks})")
    assert said(
        found, "1 workload that Kueue never admits whole counts pod by pod all the same (nlp/train: asks for 12"
    )
    more = made(*FLAVORS, queue("nlp", a100=(64, 16)), *LOCAL[1:2], tune, train, pods=OTHER)
    assert tasks_of(more, "nlp") == 6 and not said(more, "never admits whole")


def test_a_cohort_is_owed_its_own_quotas_and_those_below_it():
    def own(gpus):
        resources = [{"name": GPU, "nominalQuota": gpus}]
        return {"resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": "a100", "resources": resources}]}]}

    tree = [cohort("research", "all", **own(3)), cohort("all", **own(2))]
    found = made(*FLAVORS, queue("nlp", "research", a100=(64, 4)), *LOCAL[1:2], WORKLOADS[2], *tree, pods=OTHER)
    assert found.team_guarantees["research"][GPU] == pytest.approx(4 + 3)
    assert 8 * found.guarantees[found.users.index("nlp/8 gpu")] == pytest.approx(4)
    gpus = [limit.amount for limit in found.limits if limit.resource == GPU]
    assert gpus == [4 + 3 + 2]  # of the cohort at the top


GPU_QUOTA = {"name": GPU, "nominalQuota": 4}


def test_quotas_beyond_the_servers_are_scaled_so_that_they_can_be_kept():
    tune = workload("nlp", "tune", "main", (1, spec(2, tolerations=[GPU_TOLERATION])), (4, spec(8, 8)))
    found = made(*FLAVORS, queue("nlp", a100=(1000, 64)), *LOCAL[1:2], tune, pods=OTHER)
    assert found.guarantees @ found.demands == pytest.approx([18, 16])
    assert said(found, "1 quota beyond what the servers of their flavors have: scaled to it") == [
        "1 quota beyond what the servers of their flavors have: scaled to it, for all of their queues "
        "(32 nvidia.com/gpu of a100, of which there is 16)"
    ]
    assert fo.DRF().allocate(found).certificate.ok


def test_pods_run_on_the_servers_of_the_flavors_of_their_queue_alone():
    where = {
        user: [name for name, able in zip(CLUSTER.servers, row, strict=True) if able]
        for user, row in zip(CLUSTER.users, CLUSTER.eligible, strict=True)
    }
    assert where["nlp/8 gpu"] == ["a100-[1-2]"] and where["vision/2 gpu"] == ["a100-[1-2]", "t4-1"]
    assert where["web/2 cpu"] == ["cpu-[1-3]"]
    tainted = [node("a100-1", 64, 8, accelerator="a100")]
    tainted[0]["spec"]["taints"][0]["key"] = "dedicated"
    plain = spec(8, 8) | {"tolerations": []}
    one = workload("nlp", "tune", "main", (1, plain))
    with pytest.raises(InvalidInstance, match=r"no pods to share servers among; .*1 pod that fit on no server"):
        made(*FLAVORS, QUEUES[1], LOCAL[1], one, nodes=tainted, pods=[])
    tolerant = flavor("a100", [GPU_TOLERATION | {"key": "dedicated"}], accelerator="a100")
    assert made(tolerant, QUEUES[1], LOCAL[1], one, nodes=tainted, pods=[]).users == ("nlp/8 gpu",)


def test_pods_tolerate_taints_named_as_resources_that_they_request():
    """Kubernetes adds that to pods when they are created, and never to templates."""
    plain = workload("nlp", "tune", "main", (1, spec(8, 8) | {"tolerations": []}))
    tainted = [node("a100-1", 64, 8, accelerator="a100")]
    found = made(*FLAVORS, QUEUES[1], LOCAL[1], plain, nodes=tainted, pods=[])
    assert found.users == ("nlp/8 gpu",)
    assert said(found, "1 pod of templates is taken to tolerate the taint nvidia.com/gpu of servers")


@pytest.mark.parametrize("order", [1, -1])
def test_a_flavor_of_all_servers_without_gpus_hides_no_gpus(order):
    """Kueue takes the first flavor with quotas of all that pods request, wherever it stands."""
    flavors = [
        {"name": "plain", "resources": [{"name": "cpu", "nominalQuota": "64"}, {"name": GPU, "nominalQuota": "0"}]},
        {"name": "a100", "resources": [{"name": "cpu", "nominalQuota": "64"}, {"name": GPU, "nominalQuota": "8"}]},
    ][::order]
    queue = json.loads(json.dumps(QUEUES[1]))
    queue["spec"]["resourceGroups"] = [{"coveredResources": ["cpu", GPU], "flavors": flavors}]
    one = workload("nlp", "tune", "main", (1, spec(8, 8)))
    servers = [node("a100-1", 64, 8, accelerator="a100"), node("cpu-1", 64, 0)]
    found = made(flavor("plain"), flavor("a100", accelerator="a100"), queue, LOCAL[1], one, nodes=servers, pods=[])
    assert found.users == ("nlp/8 gpu",)
    assert fo.HDRF().allocate(found).tasks == pytest.approx([1])


def test_a_quota_of_a_flavor_where_no_pod_of_the_queue_may_run_is_no_guarantee():
    chosen = spec(8, 4, nodeSelector={"accelerator": "a100"})
    found = made(*FLAVORS, QUEUES[0], LOCAL[0], workload("vis", "train", "main", (3, chosen)), pods=[])
    assert found.guarantees @ found.demands == pytest.approx([16, 8])
    assert said(
        found, "2 quotas of flavors where no pod of their queue may run count for nothing (such as cpu of t4 of"
    )


def test_users_may_be_namespaces_or_labels_all_the_same():
    found = made(*FLAVORS, *QUEUES, *LOCAL, *WORKLOADS, users="namespace")
    assert set(found.teams["team"]) == {"vis", "nlp", "site", "tools"} and not found.team_guarantees
    assert tasks_of(found, "vis") == 5
    assert said(found, "the quotas and weights of 3 cluster queues were left out, since teams are not cluster queues")
    assert tasks_of(made(*FLAVORS, *QUEUES, *LOCAL, *WORKLOADS, users="label:team"), "x") == 5


def test_without_cluster_queues_workloads_count_by_namespace():
    found = made(*WORKLOADS, pods=OTHER)
    assert set(found.teams["team"]) == {"vis", "nlp", "tools"} and tasks_of(found, "vis") == 5
    assert not said(found, "1 workload in no known") and set(found.teams) == {"team"}


def test_names_that_two_things_have_are_told_apart():
    found = made(*FLAVORS, queue("nlp", "nlp", a100=(64, 8)), LOCAL[1], WORKLOADS[2])
    assert set(found.teams["cohort"]) == {"nlp (cohort)"}


def test_what_runs_outside_kueue_is_taken_off_the_servers_and_counts_for_no_queue():
    """Of 16 GPUs 2 are in a namespace without a queue, 4 in that of nlp's: 10 are left for vision and nlp, 5 each."""
    outside = [
        pod("tools", "serve-0", spec(4, 2, nodeName="a100-1")),
        pod("nlp", "shell-0", spec(8, 4, nodeName="a100-2")),
    ]
    queues = [queue(name, "research", a100=(64, 0)) for name in ("vision", "nlp")]
    every = cohort("research", resourceGroups=queue("", a100=(0, 16))["spec"]["resourceGroups"])
    jobs = [workload(space, "train", "main", (20, spec(1, 1))) for space in ("vis", "nlp")]
    found = made(*FLAVORS, *queues, every, *LOCAL[:2], *jobs, nodes=NODES[:2], pods=outside)
    assert found.teams["team"] == ("nlp", "vision") and not found.held.any()
    np.testing.assert_allclose(found.capacities[:, found.resource_index(GPU)], [6, 4])
    np.testing.assert_allclose(found.capacities[:, found.resource_index("cpu")], [60, 56])
    np.testing.assert_allclose(fo.HDRF().allocate(found).tasks, [5, 5], rtol=1e-6)
    assert said(found, "2 pods in no cluster queue, which Kueue counts for nobody: subtracted from the capacity of")


def test_a_pod_that_kueue_has_marked_is_in_the_default_queue_of_its_namespace():
    """Else in the first by name; a pod without a mark, or with the name of a queue that is not there, is in none."""
    marked = pod("vis", "job-0", spec(4, 1, nodeName="a100-1"), labels={"kueue.x-k8s.io/podset": "main"})
    unknown = pod("vis", "job-1", spec(4, 1, nodeName="a100-1"))
    unknown["metadata"]["labels"] = {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/queue-name": "lost"}
    plain = pod("vis", "job-2", spec(4, 1, nodeName="a100-1"))
    first, second = local("vis", "a", "nlp"), local("vis", "default", "vision")
    for queues, team in (([first, second], "vision"), ([first], "nlp")):
        found = made(*FLAVORS, *QUEUES, *queues, pods=[marked, unknown, plain])
        assert found.teams["team"] == (team,) and found.held.sum() == 1
        assert said(found, "1 pod of Kueue without the name of a queue counts for vis/")


def test_kueue_holds_what_it_has_admitted_though_not_all_pods_run():
    """Of 9 admitted, 2 are done, 1 runs and 1 waits for a server: 7 are held, with those of which there is no pod.

    Its flavor has 12 GPUs of 2 servers beside the 4 of the other flavor.
    """
    job = workload("vis", "job", "main", (9, spec(4, 1)), admitted="vision")
    admitted = {"name": "set0", "count": 9, "flavors": {"cpu": "a100", GPU: "a100"}}
    job["status"]["admission"]["podSetAssignments"] = [admitted]
    job["status"]["reclaimablePods"] = [{"name": "set0", "count": 2}]
    pods = [pod("vis", f"job-{k}", spec(4, 1, nodeName=on)) for k, on in enumerate(("a100-2", ""))]
    for one in pods:
        one["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": "job"}
    waits = workload("nlp", "tune", "main", (4, spec(8, 1)))
    found = made(*FLAVORS, *QUEUES, *LOCAL, job, waits, pods=pods, merge=False)
    by_team = dict(zip(found.teams["team"], found.held, strict=True))
    at = {name: s for s, name in enumerate(found.servers)}
    assert tasks_of(found, "vision") == 7 and by_team["vision"].sum() == 7 and by_team["nlp"].sum() == 0
    assert by_team["vision"][at["a100-1"]] + by_team["vision"][at["a100-2"]] == 7
    assert by_team["vision"][at["a100-2"]] >= 1
    assert said(found, "6 pods without a server count as held, since Kueue has admitted them (such as vis/job)")
    admitted["flavors"], admitted["count"] = {"cpu": "t4", GPU: "t4"}, 6  # fewer than asked for
    found = made(*FLAVORS, *QUEUES, *LOCAL, job, waits, pods=pods[1:], merge=False)
    vision = found.held[list(found.teams["team"]).index("vision")]
    assert vision.sum() == vision[{name: s for s, name in enumerate(found.servers)}["t4-1"]] == 6 - 2


def test_the_workers_of_a_set_count_though_only_its_head_is_there():
    """A RayCluster whose head runs, and 16 workers that are not there: 17 tasks, all held."""
    ray = workload("vis", "ray", "main", (1, spec(2)), (16, spec(2, 1)), admitted="vision", uid="u9")
    head = pod("vis", "head", spec(2, nodeName="a100-1"), ownerReferences=[{"kind": "RayCluster", "uid": "u9"}])
    found = made(*FLAVORS, *QUEUES, *LOCAL, ray, pods=[head])
    assert tasks_of(found, "vision") == found.held.sum() == 17


@pytest.mark.parametrize("where", ["cluster queue", "local queue"])
@pytest.mark.parametrize(
    ("stop", "teams"), [("None", {"vision", "nlp"}), ("Hold", {"vision", "nlp"}), ("HoldAndDrain", {"nlp"})]
)
def test_what_runs_in_a_held_queue_counts_and_in_a_drained_one_does_not(where, stop, teams):
    """Of 16 GPUs vision runs 4 and asks for 16 more, nlp asks for 20: 8 and 8; 4 and 12; 0 and 16."""
    queues = [queue(name, "research", a100=(64, 8)) for name in ("vision", "nlp")]
    of_vision = LOCAL[0] | {"spec": {"clusterQueue": "vision"}}
    (queues[0] if where == "cluster queue" else of_vision)["spec"]["stopPolicy"] = stop
    jobs = [
        workload("vis", "running", "main", (4, spec(1, 1)), admitted="vision", uid="u1"),
        workload("vis", "more", "main", (16, spec(1, 1))),
        workload("nlp", "train", "main", (20, spec(1, 1))),
    ]
    pods = [
        pod("vis", f"running-{k}", spec(1, 1, nodeName="a100-1"), ownerReferences=[{"kind": "Job", "uid": "u1"}])
        for k in range(4)
    ]
    found = made(*FLAVORS, *queues, of_vision, LOCAL[1], *jobs, nodes=NODES[:2], pods=pods)
    gpus = {"None": [8, 8], "Hold": [12, 4], "HoldAndDrain": [16]}
    assert set(found.teams["team"]) == teams
    np.testing.assert_allclose(fo.HDRF().allocate(found).tasks, gpus[stop], rtol=1e-6)
    assert found.held.sum() == (0 if stop == "HoldAndDrain" else 4)
    drained = said(found, "4 admitted pods of queues that are drained were left out, as Kueue evicts them")
    waits = said(found, "16 waiting pods of queues that are stopped or inactive were left out (such as vis/more)")
    assert len(drained) == (stop == "HoldAndDrain") and len(waits) == (stop != "None")


def test_a_weight_of_0_counts_as_very_small():
    found = made(*FLAVORS, queue("vision", weight="0"), queue("nlp", weight="500m"), *LOCAL[:2], *WORKLOADS)
    assert found.team_weights["vision"] == pytest.approx(0.0005) and found.team_weights["nlp"] == 0.5
    assert said(found, "1 team with a fair sharing weight of 0 counts with a thousandth of the smallest other weight")


@pytest.mark.parametrize("how", ["stopPolicy", "Active"])
def test_what_waits_in_a_stopped_queue_takes_nothing_from_others(how):
    queues = [queue(name, "research", a100=(64, 8)) for name in ("vision", "nlp")]
    if how == "Active":
        queues[0]["status"] = {"conditions": [{"type": "Active", "status": "False"}]}
    else:
        queues[0]["spec"]["stopPolicy"] = "HoldAndDrain"
    jobs = [workload(name, "train", "main", (2, spec(8, 8))) for name in ("vis", "nlp")]
    found = made(*FLAVORS, *queues, *LOCAL[:2], *jobs, pods=[])
    assert set(found.teams["team"]) == {"nlp"} and fo.HDRF().allocate(found).tasks.sum() == pytest.approx(2)
    assert said(found, "2 waiting pods of queues that are stopped or inactive were left out (such as vis")


def test_what_is_not_modelled_is_said_where_it_is_there():
    limited = queue("nlp", "research", a100=(64, 8))
    limited["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]["borrowingLimit"] = "2"
    limited["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "provision"}]}
    gated = pod("nlp", "gated-0", spec(8, 8, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), phase="Pending")
    found = made(limited, LOCAL[1], WORKLOADS[2], pods=[gated])
    for sentence in (
        "1 cluster queue with admission checks: not modelled (nlp)",
        "1 pod with scheduling gates counts as waiting (nlp/gated-0)",
        "1 flavor without an object counts as on all servers (a100)",
    ):
        assert said(found, sentence), sentence
    assert said(CLUSTER, "1 cluster queue") == [
        "1 cluster queue in no cohort counts beside the cohorts at the top (web)"
    ]


# -- one list, files, and what is wrong -----------------------------------------------------------------------


def test_one_list_and_a_folder_of_files_are_the_same(tmp_path):
    assert read_from(listed(*NODES, *PODS, *FLAVORS, *QUEUES, *LOCAL, *WORKLOADS)) == CLUSTER
    parts = {
        "nodes": NODES,
        "pods": PODS,
        "workloads": WORKLOADS,
        "clusterqueues": QUEUES,
        "localqueues": LOCAL,
        "resourceflavors": FLAVORS,
    }
    for name, items in parts.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(listed(*items)))
    assert read(tmp_path) == CLUSTER
    assert read(tmp_path, users="queue") == CLUSTER != read(tmp_path, users="namespace")


def test_cluster_queues_are_given_back_as_they_are(tmp_path):
    def given(source):
        return read_queues(source).raw

    everything = listed(*NODES, *PODS, *FLAVORS, *QUEUES, *LOCAL, *WORKLOADS)
    wanted = {item["metadata"]["name"]: item for item in QUEUES}
    (tmp_path / "all.json").write_text(json.dumps(everything))
    folder = tmp_path / "now"
    folder.mkdir()
    assert given(folder) == {}
    (folder / "clusterqueues.json").write_text(json.dumps(listed(*QUEUES)))
    assert given(everything) == given(tmp_path / "all.json") == wanted
    assert given(folder) == wanted and given(QUEUES[0]) == {"vision": QUEUES[0]}
    fo.datasets.write(fo.datasets.demo(), tmp_path / "demo.json")
    assert given(tmp_path / "demo.json") == given(tmp_path / "gone.yaml") == {}


def changed(thing, path, value):
    out = copy.deepcopy(thing)
    place = out
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return out


QUOTA = ["spec", "resourceGroups", 0, "flavors", 0, "resources", 0]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([changed(QUEUES[0], [*QUOTA, "nominalQuota"], "8GB")], r"items\[0\] \(vision\).*nominalQuota.*write 8G"),
        ([changed(QUEUES[0], [*QUOTA, "nominalQuota"], None)], r"nominalQuota is missing; add it"),
        ([QUEUES[0], QUEUES[0]], r"items\[1\] \(vision\) and .*items\[0\].* are both named 'vision'"),
        ([changed(WORKLOADS[0], ["spec", "podSets", 0, "count"], -1)], r"\(vis/train\).*podSets.*count is -1; .*>= 0"),
        ([changed(WORKLOADS[0], ["apiVersion"], "core.oam.dev/v1")], "give the Workloads of kueue.x-k8s.io"),
        ([node("n", 1)], r'kind is "Node"; give workloads or clusterqueues or .* only'),
        ([*QUEUES, cohort("research", "top"), cohort("top", "research")], "cohort .* is above itself; correct"),
        (["text"], r"items\[0\]"),
    ],
)
def test_wrong_objects_are_refused_with_their_place_and_the_fix(items, message):
    with pytest.raises(InvalidInstance, match=message):
        made(*items, *(LOCAL if len(items) > 2 else []), *WORKLOADS[:3] * (len(items) > 2))


def test_a_local_queue_of_an_unknown_cluster_queue_says_which_is_near():
    found = made(*FLAVORS, *QUEUES, LOCAL[0], local("nlp", "main", "nlpp"), LOCAL[2], *WORKLOADS)
    assert set(found.teams["team"]) == {"vision", "web"}
    assert said(
        found, "1 local queue of a cluster queue that is not there: its pods and workloads are in no queue"
    ) == [
        "1 local queue of a cluster queue that is not there: its pods and workloads are in no queue "
        "(nlp/main of \"nlpp\"; did you mean 'nlp'?)"
    ]
    assert said(found, '1 workload in no known cluster queue (nlp/tune in "main")')


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "all.json: there is no object of kind Node; give one list with all, as kubectl get nodes,pods -A -o json"),
        (NODES, "all.json: there is no object of kind Pod"),
        ([*NODES, *PODS, 3], "items.* is 3; give objects of Kubernetes"),
        ([*NODES, *PODS, QUEUES[0], QUEUES[0]], "both named 'vision'"),
    ],
)
def test_a_list_without_what_it_needs_is_refused(items, message):
    with pytest.raises(InvalidInstance, match=message):
        read_from(listed(*items))


WRONG = [None, 0, -1, 1.5, "", "x", "9" * 70, [], {}, [1], {"a": 1}, True, float("nan"), "\n", [None], 10**30]


def places(thing, path=()):
    """The paths to all values in a document."""
    children = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in children:
        yield (*path, key)
        yield from places(value, (*path, key))


def test_a_single_object_is_no_cluster():
    with pytest.raises(InvalidInstance, match=r"all\.json: there is no object of kind Pod; give one list"):
        read_from(NODES[0])


def test_documents_with_wrong_values_anywhere_are_read_or_refused():
    rng, whole = random.Random(3), listed(*NODES[:2], *PODS[:3], *FLAVORS, *QUEUES, *LOCAL, *WORKLOADS)
    found = [path for path in places(whole) if path[0] == "items"]
    refused = 0
    for path in rng.sample(found, 60):
        try:
            read_from(changed(whole, path, rng.choice(WRONG)))
        except InvalidInstance as error:
            refused += "all.json" in str(error)
    assert 20 < refused < 60


def test_workloads_of_other_groups_in_one_list_are_left_alone():
    of_kubernetes = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "metadata": {"name": "w"}}
    assert read_from(listed(*NODES, *PODS, of_kubernetes)) == read_kubernetes(listed(*NODES), listed(*PODS))
    assert np.array_equal(
        read_from(listed(*NODES, *PODS)).capacities, read_kubernetes(listed(*NODES), listed(*PODS)).capacities
    )


def test_gpus_in_nobodys_quota_are_named_with_their_flavor():
    """Of 16 A100 12 are in quotas (4 of them a cohort's), of 4 T4 none, and one server has no flavor."""
    whole = cohort("research", resourceGroups=queue("", a100=(0, 4))["spec"]["resourceGroups"])
    nodes = [*NODES, node("loose", 8, 3)]
    found = made(*FLAVORS, queue("vision", "research", a100=(64, 8)), whole, *LOCAL, *WORKLOADS, nodes=nodes, pods=[])
    left = f"4 of 16 {GPU} of a100, 4 of 4 {GPU} of t4, 3 of 3 {GPU} on servers of no flavor"
    assert f"in nobody's quota, so that no queue may use them: {left}" in found.notes
    common = flavor("any")  # all servers: its quota may be of any of them
    found = made(
        *FLAVORS, common, queue("vision", a100=(64, 8), any=(64, 99)), *LOCAL, *WORKLOADS, nodes=nodes, pods=[]
    )
    assert not said(found, "in nobody's quota")


@pytest.mark.parametrize("form", ["labels", "expression"])
def test_a_namespace_that_a_queue_does_not_select_waits_for_nothing(form):
    """Of 16 GPUs nlp, whose own namespace is not selected, has only what runs there; vision has the rest."""
    name = "kubernetes.io/metadata.name"
    of_name = {"key": name, "operator": "In", "values": ["research"]}
    selects = {"labels": {"matchLabels": {name: "research"}}, "expression": {"matchExpressions": [of_name]}}[form]
    queues = [queue(one, "research", a100=(64, 8)) for one in ("vision", "nlp")]
    queues[0]["spec"]["namespaceSelector"] = {"matchLabels": {"team": "vision"}}
    queues[1]["spec"]["namespaceSelector"] = selects
    jobs = [workload(space, "train", "main", (20, spec(1, 1))) for space in ("vis", "nlp")]
    runs = workload("nlp", "runs", "main", (2, spec(1, 1)), admitted="nlp")
    found = made(*FLAVORS, *queues, *LOCAL[:2], *jobs, runs, nodes=NODES[:2], pods=[])
    answer = fo.HDRF().allocate(found)
    assert dict(zip(found.teams["team"], answer.tasks.round(6).tolist(), strict=True)) == {"vision": 14, "nlp": 2}
    assert said(found, "20 waiting pods in namespaces that the namespaceSelector of nlp leaves out were left out")
    assert said(
        found, "1 cluster queue with a namespaceSelector by labels of namespaces that are not in the input: these "
    )


@pytest.mark.parametrize(
    ("selects", "selected"),
    [
        (None, []),
        ({}, ["vis", "nlp", "new"]),
        ({"matchLabels": {"team": "vision"}}, ["vis", "new"]),  # new has no object
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["vision"]}]}, ["nlp", "new"]),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, ["vis", "new"]),
        ({"matchLabels": {"team": "vision", "kubernetes.io/metadata.name": "nlp"}}, []),
    ],
)
def test_namespaces_are_selected_by_their_labels(selects, selected):
    """Three namespaces with a LocalQueue of one queue; a null selector selects none, as in Kueue, and {} all."""
    objects = [queue("shared", a100=(64, 8)), queue("other", a100=(64, 8))]
    objects[0]["spec"]["namespaceSelector"] = selects
    for name, labels in {"vis": {"team": "vision"}, "nlp": {}}.items():
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    for name in ("vis", "nlp", "new", "rest"):
        of = {"clusterQueue": "other" if name == "rest" else "shared"}
        place = {"namespace": name, "name": "main"}
        objects.append({"apiVersion": BETA2, "kind": "LocalQueue", "metadata": place, "spec": of})
        objects.append(workload(name, "job", "main", (1, spec(1, 1))))
    found = made(*FLAVORS, *objects, nodes=NODES[:2], pods=[])
    assert found.task_limits.sum() == 1 + len(selected)
    null = said(found, "3 waiting pods of shared, whose namespaceSelector is null, which selects no namespace")
    assert bool(null) == (selects is None)
    unknown = said(found, "1 cluster queue with a namespaceSelector by labels of namespaces that are not in the input")
    assert bool(unknown) == (len(selected) == 2)


def test_what_runs_where_its_queue_has_no_quota_now_is_held_and_gets_no_more():
    """vision runs 3 GPUs on t4, of which it has a quota of 0 and nlp 4: nlp has 4 there, and vision waits for a100."""
    queues = [queue("vision", "research", a100=(64, 8), t4=(0, 0)), queue("nlp", "research", t4=(32, 4))]
    for one in queues[0]["spec"]["resourceGroups"][0]["flavors"][1]["resources"]:
        one["borrowingLimit"] = "0"
    on_t4 = spec(1, 1, nodeSelector={"accelerator": "t4"})
    jobs = [workload("vis", "train", "main", (20, spec(1, 1))), workload("nlp", "tune", "main", (20, on_t4))]
    runs = workload("vis", "runs", "main", (3, on_t4), admitted="vision", uid="u1")
    pods = [
        pod("vis", f"runs-{k}", {**on_t4, "nodeName": "t4-1"}, ownerReferences=[{"kind": "Job", "uid": "u1"}])
        for k in range(3)
    ]
    found = made(*FLAVORS, *queues, *LOCAL[:2], *jobs, runs, nodes=NODES[1:3], pods=pods)
    answer = fo.HDRF().allocate(found)
    by_team = {team: answer.tasks[rows].sum() for team, rows in found.teams.names.items() if team != "research"}
    assert by_team == pytest.approx({"vision": 8, "nlp": 4})
    assert said(found, "3 pods that vision holds where it neither has nor may borrow a quota count as held")
    everything = listed(*NODES[1:3], *FLAVORS, *queues, *LOCAL[:2])
    changes = fc.quotas(answer, "kueue", queues=everything, integral="rounded").diff([])
    held = {(row.team, row.flavor): row.held for row in changes.rows if row.resource == GPU}
    assert held == {("vision", "a100"): 0, ("vision", "t4"): 3, ("nlp", "t4"): 0}
    queues[0]["spec"]["resourceGroups"][0]["flavors"].pop()  # no quota of t4 at all
    found = made(*FLAVORS, *queues, *LOCAL[:2], *jobs, runs, nodes=NODES[1:3], pods=pods)
    answer = fo.HDRF().allocate(found)
    everything = listed(*NODES[1:3], *FLAVORS, *queues, *LOCAL[:2])
    changes = fc.quotas(answer, "kueue", queues=everything, integral="rounded").diff([])
    assert f"vision holds 3 {GPU} more, on servers of flavors of which it has no quota" in changes.notes


@pytest.mark.parametrize("state", ["no quota", "cordoned", "gone"])
def test_what_is_admitted_is_held_where_no_other_pod_may_run(state):
    """vision holds 3 GPUs of t4, whose pods are not there; its only server is out of quotas, cordoned or gone.

    A server that nobody may use counts for nothing, so that it changes nobody's share, and a note says what is there.
    """
    queues = [queue("vision", "research", a100=(64, 8), t4=(32, 4)), queue("nlp", "research", a100=(64, 8))]
    t4 = node("t4-1", 32, 4, accelerator="t4")
    t4["spec"]["unschedulable"] = state == "cordoned"
    if state == "no quota":
        queues[0]["spec"]["resourceGroups"][0]["flavors"].pop()
    jobs = [workload(space, "train", "main", (20, spec(1, 1))) for space in ("vis", "nlp")]
    holds = workload("vis", "holds", "main", (3, spec(1, 1)), admitted="vision")
    flavors = {"name": "set0", "flavors": {"cpu": "t4", GPU: "t4"}}
    holds["status"]["admission"]["podSetAssignments"] = [flavors]
    nodes = NODES[:2] if state == "gone" else [*NODES[:2], t4]
    found = made(*FLAVORS, *queues, *LOCAL[:2], *jobs, holds, nodes=nodes, pods=[], merge=False)
    if state != "cordoned":
        assert found.servers == ("a100-1", "a100-2") and not found.held.any()
        assert said(found, "3 pods that Kueue has admitted on flavors without servers that count are not held")
        return
    assert found.servers == ("a100-1", "a100-2", "t4-1") and found.held.sum(axis=0).tolist() == [0, 0, 3]
    assert said(found, "3 pods without a server count as held, since Kueue has admitted them")
    tasks = fo.HDRF().allocate(found).tasks
    by_team = {team: tasks[found.teams.names[team]].sum() for team in ("vision", "nlp")}
    assert by_team == pytest.approx({"vision": 11, "nlp": 8})  # owed 8 and 3 of the 4 on t4, and 8


def test_flavors_with_equal_servers_that_limits_tell_apart_are_named():
    nodes = [node(name, 64, 8, kind=name) for name in ("x", "y")]
    flavors, jobs = [flavor("x", kind="x"), flavor("y", kind="y")], [workload("vis", "j", "main", (20, spec(1, 1)))]
    what = "the flavors x and y have equal servers, and limits tell them apart: what a queue has in all is fair"
    for gpus, named in ((8, False), (7, True)):
        of = [queue("vision", x=(64, 8), y=(64, gpus)), *LOCAL[:1], *jobs]
        assert bool(said(made(*flavors, *of, nodes=nodes, pods=[]), what)) == named
    nodes[1]["status"]["allocatable"]["cpu"] = "65"
    assert not said(made(*flavors, *of, nodes=nodes, pods=[]), what)


def test_where_nothing_runs_0_is_held():
    queues = [queue(name, "research", a100=(64, 8)) for name in ("vision", "nlp")]
    jobs = [workload(space, "train", "main", (20, spec(1, 1))) for space in ("vis", "nlp")]
    everything = [*FLAVORS, *queues, *LOCAL[:2], *jobs]
    answer = fo.HDRF().allocate(made(*everything, nodes=NODES[:2], pods=[]))
    changes = fc.quotas(answer, "kueue", queues=listed(*everything), integral="rounded").diff([])
    assert {row.held for row in changes.rows} == {0} and not any("not known" in note for note in changes.notes)


def test_what_runs_on_a_cordoned_server_counts_first_to_what_its_queue_is_owed():
    """vision runs 8 GPUs on a cordoned server and waits for more; each queue is owed 12 of 24, and has them."""
    queues = [queue(name, "research", a100=(96, 12)) for name in ("vision", "nlp")]
    cordoned = node("a100-3", 64, 8, accelerator="a100")
    cordoned["spec"]["unschedulable"] = True
    runs = workload("vis", "runs", "main", (8, spec(1, 1)), admitted="vision", uid="u1")
    jobs = [workload(space, "train", "main", (20, spec(1, 1))) for space in ("vis", "nlp")]
    owners = [{"kind": "Job", "uid": "u1"}]
    pods = [pod("vis", f"runs-{k}", spec(1, 1, nodeName="a100-3"), ownerReferences=owners) for k in range(8)]
    found = made(*FLAVORS, *queues, *LOCAL[:2], *jobs, runs, nodes=[*NODES[:2], cordoned], pods=pods)
    assert not said(found, "what is owed does not fit")
    tasks = fo.HDRF().allocate(found).tasks
    assert {team: tasks[found.teams.names[team]].sum() for team in ("vision", "nlp")} == pytest.approx(
        {"vision": 12, "nlp": 12}
    )
