"""Tasks in queues of other schedulers: teams, guarantees, limits, and servers that quotas or options give."""

import json

import pytest

import fairopt as fo
from fairopt.errors import InvalidInstance

GPU = "nvidia.com/gpu"


def queue(name, parent="", **spec):
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parentQueue": parent, "resources": spec},
    }


def of_volcano(name, path, weights):
    marks = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    metadata = {"name": name, "annotations": marks}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": {"weight": 1}}


def pods(number, label, name, **request):
    request = {{"gpu": GPU}.get(key, key): str(value) for key, value in request.items()}
    spec = {"containers": [{"resources": {"requests": request}}]}
    return [
        {"kind": "Pod", "metadata": {"name": f"{name.replace('.', '-')}-{k}", "labels": {label: name}}, "spec": spec}
        for k in range(number)
    ]


def node(name="n1", **has):
    allocatable = {{"gpu": GPU}.get(key, key): str(value) for key, value in has.items()}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


@pytest.fixture
def read(tmp_path):
    def of(*items, **options):
        file = tmp_path / "all.json"
        file.write_text(json.dumps({"kind": "List", "items": [one for some in items for one in some]}))
        return fo.read(file, **options)

    return of


HDRF = [
    of_volcano("eng-prod", "root/eng/prod", "1/2/8"),
    of_volcano("eng-dev", "root/eng/dev", "1/2/2"),
    of_volcano("sci-prod", "root/sci/prod", "1/8/8"),
    of_volcano("sci-dev", "root/sci/dev", "1/8/2"),
]
WORK = [
    one
    for name in ("eng-prod", "eng-dev", "sci-prod", "sci-dev")
    for one in pods(6, "volcano.sh/queue-name", name, cpu=0.5)
]


def test_hierarchical_weights_of_volcano_are_those_of_hdrf(read):
    instance = read(HDRF, WORK, [node(cpu=6)])
    answer = fo.HDRF(by=["queue", "team"]).allocate(instance)
    # of 12 tasks eng has 2 of 10 parts, 2.4, and prod has 8 of 10 of them; sci-prod stops at its 6 tasks
    assert dict(zip(instance.teams["team"], answer.tasks.tolist(), strict=True)) == pytest.approx(
        {"eng-prod": 1.92, "eng-dev": 0.48, "sci-prod": 6, "sci-dev": 3.6}
    )


def test_a_capacity_stands_for_a_server(read):
    assert read(HDRF, WORK, capacity={"cpu": "6"}).capacities.tolist() == [[6]]
    with pytest.raises(InvalidInstance, match=r"there are nodes, which say it; leave out --capacity"):
        read(HDRF, WORK, [node(cpu=6)], capacity={"cpu": "6"})
    with pytest.raises(InvalidInstance, match=r"no object of kind Node.*or give --capacity cpu=64"):
        read(HDRF, WORK)
    with pytest.raises(InvalidInstance, match=r'capacity of "cpu" is "6Gib"; write 6Gi'):
        read(HDRF, WORK, capacity={"cpu": "6Gib"})


def test_queues_without_jobs_say_what_there_is_and_what_is_missing(read):
    with pytest.raises(
        InvalidInstance, match=r"6 queues of Volcano in 2 levels \(eng, sci\) and no jobs; add the pods"
    ):
        read(HDRF)


def test_quotas_of_kai_are_owed_and_limits_hold(read):
    gpus = dict(limit=-1, overQuotaWeight=1)
    queues = [
        queue("lab", gpu={"quota": 8} | gpus),
        queue("a", "lab", gpu={"quota": 6} | gpus, cpu={"quota": -1, "limit": -1}),
        queue("b", "lab", gpu={"quota": 2, "limit": 4}, cpu={"quota": -1, "limit": -1}),
    ]
    work = [*pods(3, "kai.scheduler/queue", "a", gpu=1, cpu=1), *pods(9, "kai.scheduler/queue", "b", gpu=1, cpu=1)]
    instance = read(queues, work, [node(gpu=8, cpu=64)])
    assert instance.guarantees.tolist() == [3, 2]  # a has three tasks
    assert [(one.name, one.amount) for one in instance.limits] == [(f"{GPU} of queue b", 4)]
    assert fo.HDRF(by=["queue", "team"]).allocate(instance).tasks.tolist() == pytest.approx([3, 4])


def test_a_queue_above_may_be_owed_more_than_those_below_it(read):
    gpus = dict(limit=-1, overQuotaWeight=1)
    queues = [queue("lab", gpu={"quota": 6} | gpus), queue("a", "lab"), queue("b", "lab", gpu={"quota": 1} | gpus)]
    work = [one for name in ("a", "b", "c") for one in pods(9, "kai.scheduler/queue", name, gpu=1)]
    instance = read(queues, work, [node(gpu=8)])
    assert instance.guarantees.tolist() == [0, 1, 0]
    assert instance.team_guarantees["lab"] == {GPU: 6}
    assert fo.HDRF(by=["queue", "team"]).allocate(instance).tasks.tolist() == pytest.approx([3, 3, 2])


def test_without_nodes_there_is_what_the_queues_at_the_top_are_guaranteed(read):
    queues = [queue("a", gpu={"quota": 6, "limit": -1}), queue("b", gpu={"quota": 2, "limit": -1})]
    work = [*pods(9, "kai.scheduler/queue", "a", gpu=1), *pods(9, "kai.scheduler/queue", "b", gpu=1)]
    instance = read(queues, work)
    assert (instance.servers, instance.capacities.tolist()) == (("capacity",), [[8]])
    assert "there are no nodes: the servers have what the queues at the top are guaranteed together" in instance.notes


def test_a_queue_that_may_use_nothing_of_a_resource_has_no_tasks_with_it(read):
    queues = [queue("a", gpu={"quota": 0, "limit": 0}), queue("b", gpu={"quota": 1, "limit": -1})]
    work = [*pods(2, "kai.scheduler/queue", "a", gpu=1), *pods(2, "kai.scheduler/queue", "b", gpu=1)]
    instance = read(queues, work, [node(gpu=8)])
    assert instance.users == ("b/1 gpu",)
    assert f"2 pods of a, which may use no {GPU}, were left out (such as default/a-0)" in instance.notes


def cluster_queue(name, **nominal):
    quotas = [{"name": key, "nominalQuota": amount} for key, amount in nominal.items()]
    kinds = [{"name": kind, "resources": [{"name": GPU, "nominalQuota": q}]} for kind, q in (("a", 6), ("h", 2))]
    groups = [
        {"coveredResources": ["cpu"], "flavors": [{"name": "plain", "resources": quotas}]},
        {"coveredResources": [GPU], "flavors": kinds},
    ]
    spec = {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": groups}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def test_flavors_of_kueue_are_servers_that_have_the_quotas_of_all_queues(read):
    flavors = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {"kind": name}},
        }
        for name in ("a", "h")
    ]
    local = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterQueue": name},
        }
        for name in ("x", "y")
    ]
    work = [one for name in ("x", "y") for one in pods(20, "kueue.x-k8s.io/queue-name", name, cpu=1, gpu=1)]
    instance = read([cluster_queue("x", cpu=16), cluster_queue("y", cpu=16)], flavors, local, work)
    has = dict(zip(instance.servers, instance.capacities.tolist(), strict=True))
    assert has == {"a": [24, 12], "h": [8, 4]}  # cores in proportion to GPUs
    assert fo.HDRF(by=["cohort", "team"]).allocate(instance).tasks.tolist() == pytest.approx([8, 8])


def test_transformations_of_kueue_are_requests_too(read):
    groups = [
        {"coveredResources": [name], "flavors": [{"name": flavor, "resources": [{"name": name, "nominalQuota": n}]}]}
        for name, flavor, n in (("cpu", "any", 18), ("cpu_credits", "credits", 14))
    ]
    metadata = {"name": "x", "namespace": "default"}
    version = "kueue.x-k8s.io/v1beta2"
    queues = [
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": "x"},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
        {"apiVersion": version, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "x"}},
    ]
    made = {"input": "cpu", "strategy": "Retain", "outputs": {"cpu_credits": 1}}
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "resources": {"transformations": [made]},
    }
    work = pods(20, "kueue.x-k8s.io/queue-name", "x", cpu=3)
    assert fo.DRF().allocate(read(queues, work)).tasks.tolist() == pytest.approx([6])  # of 18 cores
    assert fo.DRF().allocate(read(queues, work, [config])).tasks.tolist() == pytest.approx([14 / 3])
    servers = read(queues, work, [config], [node(cpu=30)])
    assert servers.capacities.tolist() == [[30, 30]]  # a credit for each core
    assert fo.DRF().allocate(servers).tasks.tolist() == pytest.approx([14 / 3])
    made["outputs"] = {"cpu_credits": "1Gib"}
    with pytest.raises(InvalidInstance, match=r'transformations\[0\].outputs.cpu_credits is "1Gib"; write 1Gi'):
        read(queues, work, [config])


def test_pods_of_yunikorn_name_paths_or_their_namespace_does(read):
    tree = {
        "partitions": [{"name": "default", "queues": [{"name": "root", "queues": [{"name": "a"}, {"name": "web"}]}]}]
    }
    config = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"queues.yaml": json.dumps(tree)}}
    alone = pods(1, "app", "x", cpu=1)
    alone[0]["metadata"]["namespace"] = "web"
    instance = read([config], pods(2, "queue", "root.a", cpu=1), alone, [node(cpu=2)])
    assert instance.teams["team"] == ("root.a", "root.web")


CONF = """ClusterName=tux   # a comment
GresTypes=gpu
NodeName=DEFAULT RealMemory=262144 ThreadsPerCore=2
NodeName=g[1-2] Sockets=2 CoresPerSocket=16 \\
  Gres=gpu:a100:4 Feature=nvme,ib State=UNKNOWN
NodeName=c[01-04] CPUs=64 RealMemory=524288 State=DOWN
NodeSet=fast Feature=nvme
PartitionName=gpu Nodes=fast Default=YES AllowAccounts=bio
PartitionName=all Nodes=ALL
"""
NODES = """NodeName=g1 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUEfctv=62 CPUTot=64 CPULoad=0.1
   AvailableFeatures=nvme,ib
   Gres=gpu:a100:4(S:0-1)
   OS=Linux 5.14.0 #1 SMP Mon Jan 1
   RealMemory=262144 AllocMem=0
   State=IDLE+DRAIN ThreadsPerCore=2
   Partitions=gpu,all
   CfgTRES=cpu=62,mem=256G

NodeName=g2 CPUTot=64 RealMemory=262144 State=IDLE Gres=gpu:a100:4 Partitions=gpu
"""
JOBS = {
    "jobs": [
        {"account": "bio", "job_state": ["PENDING"], "partition": "gpu", "tres_req_str": "cpu=8,mem=32G,gres/gpu=1"},
        {"account": "cfd", "job_state": ["PENDING"], "partition": "all", "tres_req_str": "cpu=32,mem=64G"},
    ]
}
DUMP = """Cluster - 'tux':Fairshare=1
Parent - 'root'
Account - 'bio':Fairshare=10:GrpTRES=cpu=16
Account - 'eng':Fairshare=30
Parent - 'eng'
Account - 'cfd':Fairshare=2
"""


@pytest.fixture
def slurm(tmp_path):
    def of(files, jobs=JOBS, **options):
        for name, text in {"jobs.json": json.dumps(jobs), **files}.items():
            (tmp_path / name).write_text(text)
        return fo.read(tmp_path, **options)

    return of


def test_slurm_conf_has_servers_types_features_and_partitions(slurm):
    instance = slurm({"slurm.conf": CONF})
    assert instance.servers == ("g[1-2]",)  # the others are down
    assert instance.capacities.tolist() == [[64, 256, 4]] and instance.counts.tolist() == [2]
    assert instance.server_types == ("a100",)
    text = CONF.replace(" State=DOWN", "")
    instance = slurm({"slurm.conf": text})
    eligible = dict(zip(instance.users, instance.eligible.tolist(), strict=True))
    assert instance.servers == ("g[1-2]", "c[01-04]")
    assert [mask for user, mask in eligible.items() if user.startswith("bio")] == [[True, False]]
    assert "1 partition for some accounts only: not modelled without the tree of accounts (gpu)" in instance.notes
    assert slurm({"slurm.conf": text + "DownNodes=c[02-04] State=DRAIN\n"}).counts.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ("AllowAccounts=bio", {"bio"}),
        ("AllowAccounts=eng", {"cfd"}),  # those below are allowed, too
        ("AllowAccounts=eng DenyAccounts=cfd", {"cfd"}),  # denied are only those of partitions that name none to allow
        ("DenyAccounts=eng", {"bio"}),
        ("AllowQos=long", {"cfd"}),
        ("DenyQos=long,night", {"bio"}),
        ("AllowAccounts=ALL AllowQos=all", {"bio", "cfd"}),
        ("AllowGroups=staff", {"bio", "cfd"}),
    ],
)
def test_partitions_take_jobs_of_some_accounts_and_qos(slurm, rules, left):
    conf = f"NodeName=n1 CPUs=16 RealMemory=1024\nNodeName=n2 CPUs=16\nPartitionName=p Nodes=n1 {rules}\n"
    waiting = [
        {"account": "bio", "qos": "short", "job_state": ["PENDING"], "partition": "p", "tres_req_str": "cpu=4"},
        {"account": "cfd", "qos": "long", "job_state": ["PENDING"], "partition": "p", "tres_req_str": "cpu=2"},
    ]
    tree = {"slurm.conf": conf + "PartitionName=q Nodes=n2\n", "accounts.cfg": DUMP}
    instance = slurm(tree, {"jobs": waiting})
    assert {*instance.teams["team"]} == left
    assert any("does not take" in note for note in instance.notes) == (len(left) < 2)
    assert any("some groups only" in note for note in instance.notes) == ("Groups" in rules)
    both = [{**job, "partition": "p,q"} for job in waiting]  # those that p does not take run in q alone
    instance = slurm(tree, {"jobs": both})
    only_q = [user for user, mask in zip(instance.teams["team"], instance.eligible, strict=True) if not mask.all()]
    assert {*only_q} == {"bio", "cfd"} - left
    running = [{**job, "job_state": ["RUNNING"], "nodes": "n1"} for job in waiting]
    assert {*slurm(tree, {"jobs": running}).teams["team"]} == {"bio", "cfd"}


def test_text_of_scontrol_is_read_as_its_json(slurm):
    instance = slurm({"nodes.txt": NODES})
    assert (instance.servers, instance.capacities.tolist()) == (("g2",), [[64, 256, 4]])
    usable = slurm({"nodes.txt": NODES.replace("IDLE+DRAIN", "IDLE")})
    assert dict(zip(usable.servers, usable.capacities[:, 0].tolist(), strict=True)) == {"g1": 62, "g2": 64}


def test_a_dump_gives_levels_weights_and_limits(slurm):
    many = {"jobs": [one | {"array_task_string": "1-20"} for one in JOBS["jobs"]]}
    instance = slurm({"slurm.conf": CONF.replace(" State=DOWN", ""), "cluster.cfg": DUMP}, many)
    assert instance.team_weights == {"bio": 10, "eng": 30, "cfd": 2}
    assert [(one.name, one.amount) for one in instance.limits] == [("cpu of queue bio", 16)]
    bio = fo.HDRF(by=["account", "team"]).allocate(instance).tasks[0]
    assert bio == pytest.approx(2)  # 16 cores of 8; 2.53 without the limit


def test_a_capacity_is_a_server_of_slurm(slurm):
    instance = slurm({}, capacity={"cpu": 320, "memory": "1Ti", "gpu": 8})
    assert (instance.servers, instance.capacities.tolist()) == (("capacity",), [[320, 1024, 8]])


@pytest.mark.parametrize(
    "text, message",
    [
        ("Configuration data as of 2026-01-01\nClusterName = tux\n", r"names no servers; give slurm.conf"),
        (CONF.replace("Nodes=ALL", "Nodes=x1"), r'line 9: the partition "all" has the node "x1", which is not there'),
        (CONF.replace("c[01-04]", "g1"), r'line 6: the node "g1" is there twice'),
        (CONF.replace("g[1-2]", "g[1-"), r"line 4: .* is no list of nodes"),
        (CONF.replace("CPUs=64", "CPUs=many"), r"line 6: cpus=many; give a whole number"),
    ],
)
def test_faults_of_slurm_conf_are_named(slurm, text, message):
    with pytest.raises(InvalidInstance, match=message):
        slurm({"slurm.conf": text})


def test_tables_may_have_queues_of_yarn_beside_them(tmp_path):
    (tmp_path / "users.csv").write_text("user,team,cpu\netl,root.prod,4\nadhoc,root.dev,1\n")
    (tmp_path / "servers.csv").write_text("server,count,cpu\nnode,10,10\n")
    (tmp_path / "fair-scheduler.xml").write_text(
        "<allocations><queue name='prod'><weight>3</weight><maxResources>cpu=60%</maxResources></queue>"
        "<queue name='dev'/></allocations>"
    )
    instance = fo.read(tmp_path)
    assert instance.team_weights == {"root.dev": 1, "root.prod": 3}
    assert fo.HDRF().allocate(instance).tasks.tolist() == pytest.approx([15, 40])  # 60 of 100 cores, and the rest


def test_a_label_of_users_that_queues_above_others_have_too_is_refused(tmp_path):
    (tmp_path / "users.csv").write_text("user,team,queue [team],cpu\na,root.x.y,mine,1\n")
    (tmp_path / "servers.csv").write_text("server,cpu\ns,4\n")
    (tmp_path / "fair-scheduler.xml").write_text("<allocations><queue name='x'><queue name='y'/></queue></allocations>")
    with pytest.raises(InvalidInstance, match=r"the column 'queue' of users\.csv is named as the label of queues"):
        fo.read(tmp_path)


def test_a_promise_that_does_not_fit_is_noted_beside_tables_too(tmp_path):
    (tmp_path / "users.csv").write_text("user,team,cpu\na,root.x,1\nb,root.y,1\n")
    (tmp_path / "servers.csv").write_text("server,cpu\ns1,8\n")
    queues = "<queue name='x'><minResources>6 vcores</minResources></queue>"
    queues += "<queue name='y'><minResources>10 vcores</minResources></queue>"
    (tmp_path / "fair-scheduler.xml").write_text(f"<allocations>{queues}</allocations>")
    notes = fo.read(tmp_path).notes
    assert "what is owed does not fit on the servers together: 0.5 of it counts, for all queues" in notes


def test_queues_secure_for_users_without_a_task_limit_on_several_kinds_of_servers(tmp_path):
    (tmp_path / "users.csv").write_text("user,team,cpu,memory [GiB]\na,root.x,1,2\nb,root.y,2,1\nc,root.x,1,4\n")
    (tmp_path / "servers.csv").write_text("server,cpu,memory [GiB]\ns1,8,32\ns2,16,8\n")
    queues = [f"<queue name='{name}'><minResources>4096 mb, 4 vcores</minResources></queue>" for name in "xy"]
    (tmp_path / "fair-scheduler.xml").write_text(f"<allocations>{''.join(queues)}</allocations>")
    # of shares 1/20 and 1/10 a task 1 and 1/2 use up 4 GiB; 2 use up 4 cores
    assert fo.read(tmp_path).guarantees.tolist() == pytest.approx([1, 2, 0.5])
