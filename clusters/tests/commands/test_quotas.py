"""``fairopt quotas`` on small clusters of Kubernetes, Kueue and Slurm, and on tables."""

import json
from pathlib import Path

import pytest
import yaml
from fairopt_clusters.quotas import Quota
from fairopt_clusters.quotas.present import read_quotas
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app


def listed(kind, *items):
    return {"kind": "List", "items": [{"kind": kind, **item} for item in items]}


def node(name, kind, cpu, gpus):
    labels = {"node.kubernetes.io/instance-type": kind}
    status = {"allocatable": {"cpu": cpu, "nvidia.com/gpu": str(gpus)}}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def pod(namespace, name, cpu, gpus, server=None):
    requests = {"cpu": cpu, "nvidia.com/gpu": str(gpus)}
    metadata = {"namespace": namespace, "name": name, "labels": {"kueue.x-k8s.io/queue-name": "main", "lab": namespace}}
    spec = {"containers": [{"resources": {"requests": requests}}]} | ({"nodeName": server} if server else {})
    return {"metadata": metadata, "spec": spec}


def queue(name, *quotas):
    flavors = [
        {
            "name": flavor,
            "resources": [{"name": "cpu", "nominalQuota": "64"}, {"name": "nvidia.com/gpu", "nominalQuota": gpus}],
        }
        for flavor, gpus in zip(("big", "small"), quotas, strict=True)
    ]
    groups = [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": flavors}]
    spec = {"cohort": "all", "namespaceSelector": {}, "resourceGroups": groups}
    metadata = {"name": name, "uid": f"of {name}"}
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "metadata": metadata, "spec": spec, "status": {}}


NODES = listed("Node", node("a100-01", "a100", "64", 8), node("a100-02", "a100", "64", 8), node("t4-1", "t4", "32", 4))
PODS = listed(
    "Pod",
    *(pod("vision", f"train-{k}", "8", 4, f"a100-0{1 + k // 2}" if k < 4 else None) for k in range(6)),
    *(pod("nlp", f"tune-{k}", "1500m", 1, "t4-1" if k < 2 else None) for k in range(12)),
)
KUEUE = {
    "clusterqueues": listed("ClusterQueue", queue("vision-queue", "8", "0"), queue("nlp-queue", "4", "4")),
    "localqueues": listed(
        "LocalQueue",
        *(
            {"metadata": {"namespace": n, "name": "main"}, "spec": {"clusterQueue": f"{n}-queue"}}
            for n in ("vision", "nlp")
        ),
    ),
    "resourceflavors": listed(
        "ResourceFlavor",
        *(
            {"metadata": {"name": f}, "spec": {"nodeLabels": {"node.kubernetes.io/instance-type": t}}}
            for f, t in (("big", "a100"), ("small", "t4"))
        ),
    ),
}
SLURM = {
    "nodes": {
        "nodes": [
            {"name": "n1", "cpus": 64, "real_memory": 262144, "gres": "gpu:a100:4(S:0-1)", "partitions": ["all"]},
            {"name": "n2", "cpus": 64, "real_memory": 262144, "gres": "gpu:h100:4", "partitions": ["all"]},
        ]
    },
    "jobs": {
        "jobs": [
            {"account": "bio", "job_state": ["RUNNING"], "nodes": "n1", "tres_req_str": "cpu=8,mem=32G,gres/gpu=3"},
            {
                "account": "cfd",
                "job_state": ["PENDING"],
                "tres_req_str": "cpu=16,mem=64G,gres/gpu=1",
                "tres_per_node": "gres:gpu:h100:1",
                "array_task_string": "1-3",
            },
        ]
    },
    "associations": {
        "associations": [
            {"account": "root", "user": "", "parent_account": ""},
            {
                "account": "bio",
                "user": "",
                "parent_account": "root",
                "max": {"tres": {"total": [{"type": "gres", "name": "gpu", "count": 2}]}},
            },
            {"account": "cfd", "user": "", "parent_account": "root"},
        ]
    },
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    for folder, files in (("kube", {"nodes": NODES, "pods": PODS}), ("slurm", SLURM)):
        (tmp_path / folder).mkdir()
        for name, document in files.items():
            (tmp_path / folder / f"{name}.json").write_text(json.dumps(document))

    def command(*words, code=0, given=None):
        result = CliRunner().invoke(app, ["quotas", *words], input=given)
        assert result.exit_code == code, result.output
        return result

    return command


def with_kueue(folder):
    for name, document in KUEUE.items():
        (folder / f"{name}.json").write_text(json.dumps(document))


def test_a_format_is_printed_alone_and_notes_go_to_stderr(run, tmp_path):
    result = run("kube", "-p", "most-tasks", "--format", "kubernetes", "--caps")
    (tmp_path / "q.yaml").write_text(result.stdout)
    assert read_quotas("q.yaml") == (
        [
            Quota("nlp", "cpu", "", 84.706, "core"),  # 18 of the 34 that are used, of 160
            Quota("nlp", "nvidia.com/gpu", "", 13.0),  # all 12 have a place, and a pod beyond them is to be seen
            Quota("vision", "cpu", "", 75.294, "core"),
            Quota("vision", "nvidia.com/gpu", "", 8.0),
        ],
        "kubernetes",
    )
    assert "note: most tasks: 14 whole tasks (14 in the certified divisible answer)" in result.stderr


def test_cluster_queues_of_the_input_get_other_numbers_by_flavor(run, tmp_path):
    with_kueue(tmp_path / "kube")
    result = run("kube", "-p", "most-tasks", "--format", "kueue", "--caps")
    made = {item["metadata"]["name"]: item for item in yaml.safe_load(result.stdout)["items"]}
    assert {item["apiVersion"] for item in made.values()} == {"kueue.x-k8s.io/v1beta1"}
    given = (("vision-queue", "8", "0"), ("nlp-queue", "4", "4"))
    expected = {name: json.loads(json.dumps(queue(name, *gpus))) for name, *gpus in given}
    total = {}
    for name, item in made.items():
        assert item["metadata"].keys() == {"name", "annotations"} and "status" not in item
        for mine, flavor in zip(
            expected[name]["spec"]["resourceGroups"][0]["flavors"],
            item["spec"]["resourceGroups"][0]["flavors"],
            strict=True,
        ):
            for one, other in zip(mine["resources"], flavor["resources"], strict=True):
                one["borrowingLimit"] = other["borrowingLimit"]
                key, told = (name, one["name"]), json.loads(item["metadata"]["annotations"]["fairopt/lent"])
                fair = float(told[flavor["name"]][one["name"]]["fair"])
                assert float(other["borrowingLimit"]) == max(fair - float(one["nominalQuota"]), 0)
                total[key] = total.get(key, 0.0) + fair
        assert item["spec"] == expected[name]["spec"]
    # of 16 big GPUs the quotas of the cohort have 12
    assert total["vision-queue", "nvidia.com/gpu"] == 8 and total["nlp-queue", "nvidia.com/gpu"] == 4 + 4


def test_one_list_on_standard_input_has_servers_queues_and_present_quotas(run):
    items = [item for document in (NODES, PODS, *KUEUE.values()) for item in document["items"]]
    given = json.dumps({"kind": "List", "items": items})
    told = json.loads(run("-", "-p", "most-tasks", "--reclaim", "--diff", "--json", given=given, code=4).stdout)
    assert told["target"] == "kueue"
    gpus = {(r["team"], r["flavor"]): r["present"] for r in told["changes"] if r["resource"] == "nvidia.com/gpu"}
    assert gpus == {  # without limits on borrowing each may use what the cohort has
        ("vision-queue", "big"): 8 + 4,
        ("vision-queue", "small"): 0 + 4,
        ("nlp-queue", "big"): 8 + 4,
        ("nlp-queue", "small"): 0 + 4,
    }


def items_of(result, kind):
    return [one for one in yaml.safe_load(result.stdout)["items"] if one["kind"] == kind]


def test_new_queues_have_local_queues_in_the_namespaces_of_their_jobs(run, tmp_path):
    """By namespace, by the queue that pods name, and by a label whose pods are in two namespaces."""
    made = run("kube", "--users", "namespace", "--format", "kueue")
    local = items_of(made, "LocalQueue")
    assert [one["metadata"] for one in local] == [{"name": "main", "namespace": n} for n in ("nlp", "vision")]
    assert [one["spec"]["clusterQueue"] for one in local] == ["nlp", "vision"]
    assert local[0]["apiVersion"] == items_of(made, "ClusterQueue")[0]["apiVersion"]
    (tmp_path / "made.yaml").write_text(made.stdout)
    assert run("kube", "--users", "namespace", "--diff", "--present", "made.yaml").exit_code == 0
    pods = json.loads(json.dumps(PODS))
    for one in pods["items"]:
        one["metadata"]["labels"] = {}
    (tmp_path / "kube" / "pods.json").write_text(json.dumps(pods))
    local = items_of(run("kube", "--users", "namespace", "--format", "kueue"), "LocalQueue")
    assert [one["metadata"] for one in local] == [{"name": n, "namespace": n} for n in ("nlp", "vision")]
    for k, one in enumerate(pods["items"]):
        one["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "all", "org": f"o{k % 2}"}
    pods["items"].append(json.loads(json.dumps(pods["items"][0])))
    pods["items"][-1]["metadata"] |= {"name": "alone", "labels": {}}
    (tmp_path / "kube" / "pods.json").write_text(json.dumps(pods))
    local = items_of(run("kube", "--users", "namespace", "--format", "kueue"), "LocalQueue")
    assert {one["metadata"]["name"] for one in local} == {"all"} and len(local) == 2
    spaces = {
        (one["metadata"]["namespace"], one["metadata"]["name"]): one["spec"]["clusterQueue"]
        for one in (items_of(run("kube", "--users", "label:org", "--format", "kueue", "--team", "o1"), "LocalQueue"))
    }
    assert spaces == {("vision", "all"): "o1", ("nlp", "all"): "o1"}
    there = listed("LocalQueue", {"metadata": {"namespace": "nlp", "name": "all"}, "spec": {"clusterQueue": "old"}})
    (tmp_path / "kube" / "localqueues.json").write_text(json.dumps(there))
    result = run("kube", "--users", "label:org", "--format", "kueue", "--team", "o1")
    assert [one["metadata"]["namespace"] for one in items_of(result, "LocalQueue")] == ["vision"]
    assert "o1: its jobs are in LocalQueues of other ClusterQueues: nlp/all of old" in result.stdout


def test_queues_that_no_local_queue_leads_to_are_named(run, tmp_path):
    with_kueue(tmp_path / "kube")
    queues = json.loads((tmp_path / "kube" / "clusterqueues.json").read_text())
    queues["items"].append({"kind": "ClusterQueue", **queue("new", "0", "0")})
    (tmp_path / "kube" / "clusterqueues.json").write_text(json.dumps(queues))
    words = " ".join(run("kube", "-p", "most-tasks", "--format", "kueue").stderr.split())
    assert "no LocalQueue leads to these ClusterQueues, so that no job reaches them: new note: " in words


def test_teams_that_are_no_queues_are_not_written_as_the_queues_of_the_input(run, tmp_path):
    with_kueue(tmp_path / "kube")
    refused = run("kube", "--users", "namespace", "--format", "kueue", code=2)
    assert "serve others than the teams of --users namespace" in " ".join(refused.output.split())


def test_limits_on_borrowing_that_change_are_said_and_are_a_change(run, tmp_path):
    with_kueue(tmp_path / "kube")
    result = run("kube", "-p", "most-tasks", "--format", "kueue", "--diff", "--caps", code=4)
    words = " ".join(result.output.split())
    assert "to do: borrowingLimit of" in words
    assert "only as their jobs end, by reclaimWithinCohort of Never: nlp-queue, vision-queue" in words


def test_a_missing_cohort_is_said(run, tmp_path):
    with_kueue(tmp_path / "kube")
    result = run("kube", "--format", "csv")
    assert "1 cohort without an object counts as one without a parent" in result.stderr


def test_the_difference_names_teams_that_hold_more_than_their_new_quota(run, tmp_path):
    with_kueue(tmp_path / "kube")
    words = " ".join(run("kube", "-p", "most-tasks", "--diff", "--reclaim", code=4).stdout.split())
    assert "Quotas of nvidia.com/gpu team servers owed present new change held" in words
    assert "vision-queue big 8 12 " in words
    assert "vision-queue holds 16 nvidia.com/gpu of big, more than its new quota of " in words
    told = json.loads(run("kube", "-p", "most-tasks", "--diff", "--json").stdout)
    row = next(r for r in told["changes"] if (r["team"], r["flavor"], r["unit"]) == ("vision-queue", "big", ""))
    assert (row["present"], row["owed"], row["held"], row["over"]) == (12, 8, 16, True)
    fair = {(q["team"], q["resource"], q["flavor"]): q["amount"] for q in told["quotas"]}
    assert row["change"] == row["new"] - 12 and row["new"] == max(8, fair["vision-queue", "nvidia.com/gpu", "big"])
    gpus = [r for r in told["changes"] if r["team"] == "nlp-queue" and r["resource"] == "nvidia.com/gpu"]
    assert all(r["change"] == r["new"] - r["present"] for r in gpus) and sum(r["held"] for r in gpus) == 2
    assert told["format"] == "fairopt.quotas/1" and told["target"] == "kueue" and told["text"].startswith("# Quotas")


def test_limits_of_accounts_are_shown_beside_those_of_associations(run):
    assert "nobody says which are a contract's" in str(run("slurm", "-f", "slurm", "--caps", code=2).output)
    Path("slurm/contracts.csv").write_text("account,resource,limit\n")
    result = run("slurm", "--format", "slurm", "--caps")
    bio, cfd = result.stdout.splitlines()[-2:]
    where = "sacctmgr -i modify account where name="
    assert bio == f"{where}bio set GrpTRES=cpu=18,mem=74898M,gres/gpu=4,gres/gpu:a100=4,gres/gpu:h100=0"
    assert cfd == f"{where}cfd set GrpTRES=cpu=110,mem=449390M,gres/gpu=4,gres/gpu:a100=0,gres/gpu:h100=4"
    words = " ".join(run("slurm", "--diff", "--caps", code=4).stdout.split())
    assert "bio all 2 4 2 3" in words and "holds" not in words


def slurm_of(tmp_path, nodes, jobs):
    (tmp_path / "slurm" / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    (tmp_path / "slurm" / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    (tmp_path / "slurm" / "associations.json").unlink()


def limits_of(result):
    """The limits of each account in lines of sacctmgr."""
    found = {}
    for line in result.stdout.splitlines():
        if line.startswith("sacctmgr"):
            account, limits = line.split(" where name=")[1].split(" set GrpTRES=")
            assert len({one.split("=")[0] for one in limits.split(",")}) == len(limits.split(","))
            found[account] = {name: int(amount) for name, amount in (one.split("=") for one in limits.split(","))}
    return found


def test_gpus_that_run_without_a_type_beside_a_server_of_two_types_are_in_the_limit_of_their_type(run, tmp_path):
    nodes = [
        {"name": "g1", "cpus": 64, "gres": "gpu:a100:8", "partitions": ["all"]},
        {"name": "m1", "cpus": 64, "gres": "gpu:a100:2,gpu:1g.10gb:14", "partitions": ["mig"]},
    ]
    any_type = {"account": "bio", "tres_req_str": "cpu=1,gres/gpu=1", "partition": "all"}
    jobs = [any_type | {"job_state": "RUNNING", "nodes": "g1", "job_id": k} for k in range(4)]
    jobs += [
        any_type | {"job_state": "PENDING", "array_task_string": "1-9", "job_id": 10},
        {"account": "vis", "tres_req_str": "cpu=1,gres/gpu:a100=1", "array_task_string": "1-9", "job_id": 11},
        {"account": "web", "tres_req_str": "cpu=1,gres/gpu:1g.10gb=1", "array_task_string": "1-20", "job_id": 12},
    ]
    slurm_of(tmp_path, nodes, jobs)
    found = limits_of(run("slurm", "--format", "slurm", "--caps"))
    assert found == {
        "bio": {"cpu": 27, "gres/gpu": 5, "gres/gpu:1g.10gb": 0, "gres/gpu:a100": 5},
        "vis": {"cpu": 27, "gres/gpu": 5, "gres/gpu:1g.10gb": 0, "gres/gpu:a100": 5},
        "web": {"cpu": 74, "gres/gpu": 14, "gres/gpu:1g.10gb": 14, "gres/gpu:a100": 0},
    }
    told = json.loads(run("slurm", "--format", "slurm", "--diff", "--json", "--caps", code=4).stdout)
    held = {(row["team"], row["flavor"]): row["held"] for row in told["changes"] if row["resource"] == "gpu"}
    assert held["bio", ""] == held["bio", "a100"] == 4 and held["bio", "1g.10gb"] == 0


def test_gpus_of_any_type_on_a_server_of_several_are_in_the_limits_of_those_that_are_left(run, tmp_path):
    nodes = [{"name": "m1", "cpus": 64, "gres": "gpu:a100:2,gpu:t4:3,gpu:1g.10gb:7"}]
    jobs = [
        {"account": "any", "tres_req_str": "cpu=1,gres/gpu=1", "array_task_string": "1-20", "job_id": 1},
        {"account": "one", "tres_req_str": "cpu=1,gres/gpu:a100=1", "array_task_string": "1-2", "job_id": 2},
    ]
    slurm_of(tmp_path, nodes, jobs)
    result = run("slurm", "--format", "slurm", "--caps")
    assert limits_of(result) == {
        "any": {"cpu": 53, "gres/gpu": 10, "gres/gpu:1g.10gb": 7, "gres/gpu:a100": 0, "gres/gpu:t4": 3},
        "one": {"cpu": 11, "gres/gpu": 2, "gres/gpu:1g.10gb": 0, "gres/gpu:a100": 2, "gres/gpu:t4": 0},
    }
    assert "are counted as the type with the most left there" in result.stdout
    table = [line.split(",") for line in run("slurm", "--format", "csv").stdout.splitlines()]
    gpus = {(team, kind): int(amount) for team, resource, kind, amount, _ in table[1:] if resource == "gpu"}
    assert {resource for _, resource, *_ in table[1:]} == {"cpu", "gpu"}
    assert gpus == {
        ("any", "1g.10gb"): 7,
        ("any", "a100"): 0,
        ("any", "t4"): 3,
        ("one", "1g.10gb"): 0,
        ("one", "a100"): 2,
        ("one", "t4"): 0,
    }


def test_where_types_by_server_are_not_known_limits_of_gpus_are_in_total(run, tmp_path):
    """A file has one row for servers that differ in type only."""
    nodes = [{"name": f"{kind}-1", "cpus": 64, "gres": f"gpu:{kind}:8"} for kind in ("a100", "h100")]
    nodes.append({"name": "m1", "cpus": 64, "gres": "gpu:a100:2,gpu:1g.10gb:14"})
    jobs = [
        {"account": "any", "tres_req_str": "cpu=1,gres/gpu=1", "array_task_string": "1-20", "job_id": 1},
        {"account": "one", "tres_req_str": "cpu=1,gres/gpu:1g.10gb=1", "array_task_string": "1-2", "job_id": 2},
    ]
    slurm_of(tmp_path, nodes, jobs)
    fo.datasets.write(fo.read(tmp_path / "slurm"), tmp_path / "cluster.json")
    result = run("cluster.json", "--format", "slurm", "--caps")
    assert limits_of(result) == {"any": {"cpu": 175, "gres/gpu": 29}, "one": {"cpu": 17, "gres/gpu": 3}}
    assert "types of GPUs by server are not known, so quotas are in total" in result.stdout
    of_folder = limits_of(run("slurm", "--format", "slurm", "--caps"))
    kinds = ("a100", "h100", "1g.10gb")
    assert [of_folder["one"][f"gres/gpu:{kind}"] for kind in kinds[:2]] == [0, 0]
    for account, used in (("any", 20), ("one", 2)):  # and what is left of the types that they use
        of_types = sum(of_folder[account][f"gres/gpu:{kind}"] for kind in kinds)
        assert used <= of_types == of_folder[account]["gres/gpu"]


def test_a_file_of_quotas_is_written_and_compared_with(run, tmp_path):
    result = run("kube", "-p", "most-tasks", "--out", "q.csv", "--caps")
    assert "written: q.csv" in result.stdout and "Quotas of cpu (core)" in result.stdout
    rows = read_quotas(tmp_path / "q.csv")[0]
    assert sum(row.amount for row in rows if row.team == "vision" and row.resource == "nvidia.com/gpu") == 8
    told = json.loads(run("kube", "-p", "most-tasks", "--present", "q.csv", "--diff", "--json", "--caps").stdout)
    assert told["target"] == "csv" and {row["change"] for row in told["changes"]} == {0}
    Path("slurm/contracts.csv").write_text("account,resource,limit\nbio,gpu,2\n")
    run("slurm", "--out", "q.sh", "--caps")
    assert "#   AccountingStorageEnforce=" in (tmp_path / "q.sh").read_text()


def test_present_resource_quotas_of_other_namespaces_stay(run, tmp_path):
    spec = {"hard": {"requests.nvidia.com/gpu": "16"}}
    quotas = listed("ResourceQuota", *({"metadata": {"namespace": n}, "spec": spec} for n in ("vision", "gone")))
    (tmp_path / "kube" / "resourcequotas.json").write_text(json.dumps(quotas))
    words = " ".join(run("kube", "-p", "most-tasks", "--diff", "--caps", code=4).stdout.split())
    assert "vision 16 8 -8 16" in words
    assert "limits of namespaces without tasks now stay in effect: gone 16 nvidia.com/gpu" in words
    assert "after applying, limits add up to 37 of 20 nvidia.com/gpu" in words


def test_without_present_quotas_the_difference_says_so(run):
    words = " ".join(run("kube", "-p", "most-tasks", "--diff", "--by", "team", code=4).stdout.split())
    assert "no present quotas of these are known: kube has none; give --present FILE" in words
    assert "vision holds 16 nvidia.com/gpu" in words


def test_present_quotas_of_nobody_here_are_said_to_be_so(run, tmp_path):
    (tmp_path / "old.csv").write_text("team,resource,flavor,amount,unit\nvision,amd.com/gpu,,8,\n")
    words = " ".join(run("kube", "-p", "most-tasks", "--diff", "--present", "old.csv", code=4).stdout.split())
    assert "present quotas without new ones stay as they are: amd.com/gpu" in words
    assert "no quota in old.csv is for a team, a resource and servers of these" in words
    assert "kube has none" not in words


def test_users_without_teams_have_quotas_each(run, tmp_path):
    (tmp_path / "users.csv").write_text("user,task_limit,cpu,gpu\na,4,4,1\nb,2,2,0\n")
    (tmp_path / "servers.csv").write_text("server,count,cpu,gpu\ns,2,16,2\n")
    result = run(".", "-p", "drf", "--format", "csv", "--resource", "gpu", "--caps")
    assert result.stdout == "team,resource,flavor,amount,unit\na,gpu,,4,\nb,gpu,,0,\n"
    assert "note: users have no teams, so each user has quotas" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("kube", "--users", "label:lab", "-f", "kubernetes"),
            "but the teams of kube are the values of label:lab; give",
        ),
        (
            ("slurm", "--users", "qos", "-f", "slurm"),
            "fairshares and limits of Slurm are of accounts, but --users qos makes",
        ),
        (("kube", "-f", "yaml"), "--format yaml: give csv, kubernetes, kueue or slurm"),
        (("kube", "--out", "q.pdf"), "cannot write q.pdf; give a name that ends in .csv"),
        (("kube", "--resource", "tpu"), "there is no resource 'tpu'"),
        (("kube", "--team", "visoin"), "there is no team 'visoin'; did you mean 'vision'?"),
        (("kube", "--present", "missing.csv"), "missing.csv cannot be read"),
        (("kube", "-f", "kueue", "--api-version", "v2"), "the API version is 'v2'; give v1beta2 or v1beta1"),
    ],
)
def test_what_does_not_fit_is_refused(run, words, message):
    assert message in " ".join(run(*words, code=2).stderr.split())


def test_teams_of_cluster_queues_are_no_namespaces(run, tmp_path):
    with_kueue(tmp_path / "kube")
    error = " ".join(run("kube", "-f", "kubernetes", code=2).stderr.split())
    assert "but the teams of kube are the ClusterQueues of Kueue; give --users namespace" in error
    assert "kind: ResourceQuota" in run("kube", "-f", "kubernetes", "--users", "namespace").stdout


def test_patches_of_the_queues_of_the_input_are_written_to_a_script(run, tmp_path):
    with_kueue(tmp_path / "kube")
    run("kube", "-p", "most-tasks", "--format", "kueue", "--reclaim", "--out", "q.sh")
    text = (tmp_path / "q.sh").read_text()
    assert text.count("\nkubectl patch clusterqueues.") == 2 and "# A patch that is refused ends the script" in text
    run("kube", "-p", "most-tasks", "--reclaim", "--out", "again.sh")  # since the teams are ClusterQueues
    assert (tmp_path / "again.sh").read_text() == text
    refused = run("kube", "--users", "namespace", "--format", "kueue", "--out", "new.sh", code=2)
    assert "serve others than the teams" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("words", "found"),
    [((), "rounded"), (("--rounded",), "rounded"), (("--integral",), "in whole tasks rests on HiGHS")],
)
def test_notes_say_whether_whole_tasks_are_rounded_or_found_by_integer_programs(run, words, found):
    notes = json.loads(run("kube", "-p", "drf", "--json", *words).stdout)["notes"]
    assert sum(found in note for note in notes if note.startswith("DRF: ")) == 1


def test_a_table_of_many_rows_is_twelve_and_says_where_all_are(run, tmp_path):
    many = fo.Instance([[1]] * 50, [200], users=[f"u{k:02}" for k in range(50)], resources=["gpu"])
    fo.datasets.write(many, tmp_path / "many.json")
    shown = run("many.json", "-p", "drf").stdout
    assert "u11" in shown and "u12" not in shown
    assert "38 more rows: --out FILE or --json has all" in shown


def test_what_to_do_comes_first_and_nothing_where_no_quota_changes(run, tmp_path):
    one = fo.Instance([[1]], [8], users=["a"], resources=["gpu"], held=[2])
    fo.datasets.write(one, tmp_path / "one.json")
    run("one.json", "--out", "now.csv")
    same = run("one.json", "--present", "now.csv", "--diff")
    assert same.stdout.startswith("nothing to do: no quota changes")
    (tmp_path / "now.csv").write_text("team,resource,amount\na,gpu,4\n")
    other = run("one.json", "--present", "now.csv", "--diff", code=4)
    assert other.stdout.startswith("to do: 1 quota changes")
