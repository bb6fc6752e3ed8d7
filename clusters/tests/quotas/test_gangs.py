"""Gangs of an input, and those that the quotas of their teams can never admit."""

import json

import pytest
from fairopt_clusters.quotas.gangs import read_gangs
from fairopt_clusters.quotas.work import Work
from typer.testing import CliRunner

from fairopt.cli import app

GPU = "nvidia.com/gpu"


def thing(kind, name, namespace=None, **more):
    return {"kind": kind, "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}), **more}


def pods(gpus, **more):
    return {"containers": [{"resources": {"requests": {"cpu": str(gpus), GPU: str(gpus)}}}]} | more


def workload(team, name, *parts, **status):
    sets = [
        {"name": f"s{k}", "count": count, "template": {"spec": pods(gpus, **more)}}
        for k, (count, gpus, more) in enumerate(parts)
    ]
    return thing("Workload", name, team, spec={"queueName": "main", "podSets": sets}, status=status)


def cluster(*workloads, flavors=("a",), nodes=4, quota=0):
    """Servers of 8 GPUs of each flavor, two queues with equal quotas in a cohort, and workloads."""
    items = [
        thing("Node", f"{f}{k}", status={"allocatable": {"cpu": "64", GPU: "8"}}) | {}
        for f in flavors
        for k in range(nodes)
    ]
    for item in items:
        item["metadata"]["labels"] = {"kind": item["metadata"]["name"][0]}
    for name in ("x", "y"):
        quotas = [
            {
                "name": f,
                "resources": [{"name": "cpu", "nominalQuota": "0"}, {"name": GPU, "nominalQuota": str(quota)}],
            }
            for f in flavors
        ]
        groups = [{"coveredResources": ["cpu", GPU], "flavors": quotas}]
        spec = {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": groups}
        items.append(thing("ClusterQueue", name, spec=spec))
        items.append(thing("LocalQueue", "main", name, spec={"clusterQueue": name}))
    whole = [
        {
            "name": f,
            "resources": [{"name": "cpu", "nominalQuota": "999"}, {"name": GPU, "nominalQuota": str(8 * nodes)}],
        }
        for f in flavors
    ]
    items.append(
        thing("Cohort", "all", spec={"resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": whole}]})
    )
    items += [thing("ResourceFlavor", f, spec={"nodeLabels": {"kind": f}}) for f in flavors]
    return {"kind": "List", "items": [*items, *workloads]}


def notes(document, *words, target="kueue"):
    result = CliRunner().invoke(
        app, ["quotas", "-", "--caps", "--anyway", "--format", target, *words], input=json.dumps(document)
    )
    assert result.exit_code == 0, result.output
    return [line.removeprefix("note: ") for line in result.stderr.splitlines() if "started whole" in line]


def gangs_in(document, users=None):
    return read_gangs(document, users, Work.of(document).inside.waits)


WHAT = "started whole or not at all, and too large for the new quotas of their teams: "
SINGLE = workload("y", "many", (1, 1, {}))


def many(team, gpus):
    return [workload(team, f"many-{k}", (1, 1, {})) for k in range(gpus)]


def test_a_workload_that_its_quota_can_never_admit_is_named_with_what_it_needs():
    """Four pods of 8 GPUs, of which the fair quota is 16."""
    document = cluster(workload("x", "train", (4, 8, {})), *many("y", 32))
    found = notes(document)
    assert found == [f"{WHAT}x/train of x asks for 32 {GPU}, and x may have 16"]
    assert notes(cluster(workload("x", "train", (2, 8, {})), *many("y", 32))) == []


def test_a_table_of_quotas_by_type_of_server_names_it_too():
    document = cluster(workload("x", "train", (4, 8, {})), *many("y", 32))
    amounts = f"asks for 32 cpu, and x may have 16; asks for 32 {GPU}, and x may have 16"
    assert notes(document, target="csv") == [f"{WHAT}x/train of x {amounts}"]


def test_the_guarantee_that_it_needs_makes_room():
    document = cluster(workload("x", "train", (3, 8, {})), *many("y", 32))
    assert len(notes(document)) == 1
    assert notes(document, "--guarantee", "x=24gpu") == []


def test_pods_of_a_part_take_one_flavor():
    """16 GPUs in all, 8 of each kind of servers, for eight pods of 2 GPUs; as two parts they fit."""
    one = cluster(workload("x", "one", (8, 2, {})), flavors=("a", "b"), nodes=1)
    assert notes(one)[0].endswith(
        f"x/one of x asks for 16 {GPU} of a, and x may have 8; asks for 16 {GPU} of b, and x may have 8"
    )
    two = cluster(workload("x", "two", (4, 2, {}), (4, 2, {})), flavors=("a", "b"), nodes=1)
    assert notes(two) == []
    pinned = [(4, 2, {"nodeSelector": {"kind": "a"}}), (4, 2, {"nodeSelector": {"kind": "b"}})]
    assert notes(cluster(workload("x", "p", *pinned), *many("y", 40), flavors=("a", "b"), nodes=2)) == []


@pytest.mark.parametrize(
    "status",
    [
        {"admission": {"clusterQueue": "x", "podSetAssignments": []}},
        {"conditions": [{"type": "Finished", "status": "True"}]},
    ],
)
def test_workloads_that_do_not_wait_are_no_gangs(status):
    assert gangs_in(cluster(workload("x", "train", (4, 8, {}), **status))) == []
    assert gangs_in(cluster(SINGLE)) == []


def test_workloads_in_stopped_queues_are_no_gangs():
    for kind, space in (("ClusterQueue", None), ("LocalQueue", "x")):
        document = cluster(workload("x", "train", (4, 8, {})))
        for item in document["items"]:
            if item["kind"] == kind and item["metadata"].get("namespace") == space:
                item["spec"]["stopPolicy"] = "Hold"
        assert gangs_in(document) == []


def test_teams_are_those_that_users_makes():
    document = cluster(workload("x", "train", (2, 8, {}), (1, 1, {})))
    (gang,) = gangs_in(document)
    assert (gang.queue, gang.uses) == ("x", {"cpu": 17, GPU: 17})
    assert [one.queue for one in gangs_in(document, "namespace")] == ["x"]
    assert gangs_in(document, "label:team") == []


def job(account, servers, gpus, state="PENDING", **more):
    request = f"cpu={8 * servers},mem={8 * servers}G,node={servers},gres/gpu={gpus}"
    return {"account": account, "job_state": [state], "tres_req_str": request, "node_count": servers} | more


def test_jobs_on_several_servers_that_their_limit_can_never_admit_are_named():
    servers = [{"name": f"n{k}", "cpus": 64, "real_memory": 262144, "gres": "gpu:a100:8"} for k in range(4)]
    others = [job("y", 1, 1) for _ in range(32)]

    def cluster_of(*jobs):
        return {"nodes": servers, "jobs": [{"job_id": k, **one} for k, one in enumerate([*jobs, *others], start=7)]}

    assert notes(cluster_of(job("x", 4, 32)), target="slurm") == [
        f"{WHAT}7 of x asks for 32 cpu, and x may have 28; asks for 32 gpu, and x may have 16"
    ]
    assert notes(cluster_of(job("x", 2, 16)), target="slurm") == []
    (gang,) = read_gangs(cluster_of(job("x", 4, 32), job("x", 4, 32, "RUNNING", nodes="n[0-3]")))
    assert (gang.queue, gang.uses) == ("x", {"cpu": 32, "memory": 32, "gpu": 32})


def refused(document, *words, target="kueue"):
    found = CliRunner().invoke(app, ["quotas", "-", "--format", target, *words], input=json.dumps(document))
    return found.exit_code, found.stdout, found.stderr


def test_quotas_that_would_stop_what_could_start_are_refused_with_a_code_of_their_own(tmp_path):
    """Two gangs of 64 GPUs take turns in a cohort of 64: limits of 32, which are fair, would stop both."""
    document = cluster(workload("x", "gx", (8, 8, {})), workload("y", "gy", (8, 8, {})), nodes=8)
    for item in document["items"]:
        item["apiVersion"] = "kueue.x-k8s.io/v1beta2" if item["kind"] != "Node" else "v1"
    code, out, err = refused(document)
    assert code == 0 and "borrowingLimit" not in out  # what is written by default limits nobody
    file = tmp_path / "quotas.yaml"
    for words in (["--caps"], ["--caps", "--out", file], ["--caps", "--diff", "--out", file], ["--caps", "--json"]):
        code, out, err = refused(document, *map(str, words))
        assert code == 5 and not file.exists()
        assert "could start before, could not: x/gx of x" in err and "--anyway writes it" in err
    assert [text.partition(",")[0] for text in json.loads(out)["stopped"]] == [
        f"x/gx of x asks for 64 {GPU}",
        f"y/gy of y asks for 64 {GPU}",
    ]
    code, out, _ = refused(document, "--caps", "--anyway", "--out", str(file))
    assert code == 0 and "borrowingLimit" in file.read_text()


def test_a_head_and_a_worker_are_a_gang_too():
    """Each set has one pod, as of a RayJob: with 4 of 8 GPUs for each queue neither of two pairs of 5 could start."""
    pair = [(1, 4, {}), (1, 1, {})]
    document = cluster(workload("x", "px", *pair), workload("y", "py", *pair), nodes=1)
    (gang, other) = gangs_in(document)
    assert (gang.uses, other.name) == ({"cpu": 5, GPU: 5}, "y/py")
    code, _, err = refused(document, "--caps")
    assert code == 5 and f"asks for 5 {GPU}" in err
    alone = cluster(workload("x", "huge", (1, 8, {}), (1, 8, {})), nodes=1)
    assert f"too large with or without this: x/huge of x asks for 16 {GPU}" in " ".join(
        refused(alone, "--caps")[2].split()
    )


def test_what_could_not_start_before_either_is_a_note_and_stops_nobody():
    """A gang of 72 GPUs in a cohort of 64, or one whose pods have no flavor."""
    pinned = {"nodeSelector": {"kind": "z"}}
    for one in (workload("x", "huge", (9, 8, {})), workload("x", "lost", (2, 8, pinned))):
        document = cluster(one, *many("y", 40), nodes=8)
        code, out, _ = refused(document, "--caps")
        assert code == 0 and "items:" in out
    huge = cluster(workload("x", "huge", (9, 8, {})), *many("y", 40), nodes=8)
    assert "too large with or without this: x/huge of x asks for 72" in " ".join(refused(huge, "--caps")[2].split())


def test_a_job_of_slurm_that_its_limit_would_stop_is_refused():
    servers = [{"name": f"n{k}", "cpus": 64, "real_memory": 262144, "gres": "gpu:a100:8"} for k in range(4)]
    jobs = [job("x", 4, 32), *(job("y", 1, 1) for _ in range(32))]
    document = {"nodes": servers, "jobs": [{"job_id": k, **one} for k, one in enumerate(jobs, start=7)]}
    code, out, err = refused(document, "--caps", target="slurm")
    assert code == 5 and not out and "7 of x asks for 32" in err
    assert refused(document, "--caps", "--anyway", target="slurm")[0] == 0
    assert refused(document, target="slurm")[0] == 0  # fairshares stop nobody
    assert refused({**document, "nodes": servers[:3]}, "--caps", target="slurm")[0] == 0  # which has no place anyway


def test_a_job_in_a_text_of_slurm_is_refused_as_that_in_json(tmp_path):
    servers = [{"name": f"n{k}", "cpus": 64, "real_memory": 262144, "gres": "gpu:8"} for k in range(4)]
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": servers}))
    many, titles = "y|PENDING|1|8|8G|gres/gpu:1\n", "JOBID|ACCOUNT|STATE|NODES|CPUS|MIN_MEMORY|TRES_PER_NODE\n"
    (tmp_path / "squeue.txt").write_text(f"{titles}7|x|PENDING|4|32|8G|gres/gpu:8\n8_[1-32]|{many}")
    (gang,) = read_gangs(tmp_path)
    assert (gang.name, gang.queue, gang.uses) == ("7", "x", {"cpu": 32, "memory": 32, "gpu": 32})
    found = CliRunner().invoke(app, ["quotas", str(tmp_path), "--format", "slurm", "--caps"])
    assert found.exit_code == 5 and "7 of x asks for 32" in found.stderr


def test_fewer_pods_that_will_do_are_what_starts_together():
    one = workload("x", "elastic", (4, 8, {}))
    one["spec"]["podSets"][0]["minCount"] = 1
    assert gangs_in(cluster(one)) == []
    one["spec"]["podSets"][0]["minCount"] = 2
    (gang,) = gangs_in(cluster(one))
    assert gang.uses == {"cpu": 16, GPU: 16}
