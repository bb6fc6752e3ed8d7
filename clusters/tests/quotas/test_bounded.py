"""What ResourceQuotas and limits of accounts bound: what tasks request, with what is left over, beside what stays."""

import json
import re
from fractions import Fraction
from functools import partial
from math import ceil, floor

import fairopt_clusters as fc
import numpy as np
import pytest
import yaml
from fairopt_clusters.quotas.bounded import spread
from fairopt_clusters.quotas.teams import Teams, idled
from fairopt_clusters.quotas.whole_tasks import whole_answer
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fairopt as fo

caps = partial(fc.quotas, caps=True)  # of a moment

GPU = "nvidia.com/gpu"


# -- Kubernetes -----------------------------------------------------------------------------------------------


def amounts(cpu=None, memory=None, gpus=None):
    given = {"cpu": cpu, "memory": memory, GPU: gpus}
    return {name: str(amount) for name, amount in given.items() if amount is not None}


def node(name, **has):
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts(**has)}}


def pods(namespace, number, on=None, owner=None, **requests):
    spec = {"containers": [{"resources": {"requests": amounts(**requests)}}]} | ({"nodeName": on} if on else {})
    owners = {"ownerReferences": [{"kind": owner, "name": "x", "uid": "u"}]} if owner else {}
    return [
        {"kind": "Pod", "metadata": {"namespace": namespace, "name": f"{on or 'w'}{k}-{owner}"} | owners, "spec": spec}
        for k in range(number)
    ]


def quota(namespace, name="compute", **hard):
    given = {key.replace("__", "/").replace("_", "."): amount for key, amount in hard.items()}
    given = {f"requests.{GPU}" if key == "gpus" else key: amount for key, amount in given.items()}
    return {"kind": "ResourceQuota", "metadata": {"namespace": namespace, "name": name}, "spec": {"hard": given}}


def written(*items, **options):
    """What ResourceQuotas of the fair answer limit, by namespace, and the notes."""
    document = {"kind": "List", "items": list(items)}
    instance = fc.read_kubernetes(
        {"kind": "List", "items": [i for i in items if i["kind"] == "Node"]},
        {"kind": "List", "items": [i for i in items if i["kind"] == "Pod"]},
        kueue={"kind": "List", "items": [i for i in items if i["kind"] == "ResourceQuota"]},
    )
    made = caps(fo.DRF().allocate(instance), "kubernetes", queues=document, **options)
    text = made.text()
    for note in made.notes:
        assert f"# {note}" in text  # also without --diff
    found = {one["metadata"]["namespace"]: one["spec"]["hard"] for one in yaml.safe_load(text)["items"]}
    return found, "\n".join(made.notes)


SERVERS = [node("n0", cpu=32, memory="128Gi", gpus=8), node("n1", cpu=32, memory="128Gi")]
SYSTEM = [
    *pods("kube-system", 1, "n0", "DaemonSet", cpu="250m", memory="512Mi"),
    *pods("kube-system", 1, "n1", "DaemonSet", cpu="250m", memory="512Mi"),
    *pods("kube-system", 2, "n1", "ReplicaSet", cpu="100m", memory="70Mi"),
]
WEB = pods("web", 6, "n1", cpu="500m")
VISION = [*pods("vision", 2, "n0", cpu=8, memory="32Gi", gpus=2), *pods("vision", 1, cpu=8, memory="32Gi", gpus=2)]


def test_a_namespace_has_no_quota_of_what_its_pods_do_not_request():
    """A quota of memory, even a large one, refuses pods without a request for it; one of 0 GPUs hides demand."""
    found, notes = written(*SERVERS, *WEB, *VISION)
    assert found["web"].keys() == {"requests.cpu"}
    assert found["vision"].keys() == {"requests.cpu", "requests.memory", f"requests.{GPU}"}
    assert f"memory of web; {GPU} of web" in notes


def test_cpu_is_limited_where_every_pod_requests_it():
    found, notes = written(*SERVERS, *VISION, *pods("vision", 1, "n1", cpu=1))
    assert found["vision"].keys() == {"requests.cpu", f"requests.{GPU}"}
    assert "memory of vision" in notes


def test_storage_is_limited_where_some_pod_requests_it():
    """Kubernetes refuses pods without a request for it neither way."""
    for one in (nodes := [node("n0", cpu=32)]):
        one["status"]["allocatable"]["ephemeral-storage"] = "64Gi"
    some = pods("web", 1, cpu=1)
    some[0]["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = "8Gi"
    found, _ = written(*nodes, *some, *pods("web", 1, "n0", cpu=1))
    assert found["web"] == {"requests.cpu": "32", "requests.ephemeral-storage": "64Gi"}


def test_a_namespace_with_pods_of_servers_has_no_new_quota():
    found, notes = written(*SERVERS, *SYSTEM, *VISION)
    assert found.keys() == {"vision"}
    assert "no quota, since pods of DaemonSets or static pods are there and would be refused: kube-system" in notes


@pytest.mark.parametrize("named", [False, True])
def test_where_it_has_one_the_use_of_these_pods_is_added(named):
    mine = [*SYSTEM, *pods("kube-system", 1, "n0", "Node", cpu="1")]
    beside = [] if named else [quota("kube-system", requests_cpu="1", requests_memory="1Gi")]
    found, notes = written(*SERVERS, *mine, *beside, **({"teams": ["kube-system"]} if named else {}))
    # 64 cores less 1.5 of the servers are left for kube-system alone; one static pod requests no memory
    assert found["kube-system"]["requests.cpu"] == "64"
    assert found["kube-system"].get("requests.memory") == (None if named else "1Gi")
    assert "with what pods of DaemonSets and static pods there request: kube-system" in notes


def test_other_limits_that_bind_are_named():
    """Of 14 pods that are fair, the limit on pods lets 8 exist."""
    waiting = pods("vision", 30, cpu=2, memory="4Gi", gpus=1)
    cap = quota("vision", requests_cpu="40", limits_cpu="24", limits_memory="900Gi", pods="5", count__jobs_batch="3")
    cap["spec"]["hard"]["services"] = "2"
    found, notes = written(*SERVERS, *waiting, cap)
    assert found["vision"][f"requests.{GPU}"] == "8" and found["vision"]["pods"] == "5"
    assert "limited for the first time: requests.memory, requests.nvidia.com/gpu" in notes
    assert "below them, and so what binds, are: limits.cpu 24 (requests may be 64), pods 5 (8 are fair)" in notes
    assert "beside them stay: limits.memory 900Gi, count/jobs.batch 3" in notes and "services" not in notes
    alone, notes = written(*SERVERS, *waiting, quota("vision", requests_cpu="40"), quota("vision", "b", pods="5"))
    assert "pods" not in alone["vision"] and "binds, are: pods 5 (8 are fair)" in notes


def test_quotas_that_stay_are_named_and_counted():
    idle, old = quota("idle", gpus="8"), quota("web", gpus="3")
    _, notes = written(*SERVERS, *WEB, *VISION, idle, old)
    assert f"limits of namespaces without tasks now stay in effect: idle 8 {GPU}" in notes
    assert f"limits that stay in effect without a new one: web 3 {GPU}" in notes
    assert f"after applying, limits add up to 19 of 8 {GPU}" in notes
    _, notes = written(*SERVERS, *WEB, *VISION, idle, old, teams=["vision"])
    assert "web 3" not in notes and "add up" not in notes


def test_a_team_all_of_whose_tasks_have_a_place_has_room_for_one_more():
    items = [*pods("a", 3, "n0", gpus=1), *pods("b", 20, gpus=1)]
    found, notes = written(*SERVERS, *items)
    assert found == {"a": {f"requests.{GPU}": "4"}, "b": {f"requests.{GPU}": "5"}}
    assert f"room for one more task, so that it is seen, though together quotas then are 9 of 8 {GPU}: a" in notes
    found, notes = written(*SERVERS, *items[:4], *pods("b", 4, gpus=1)[1:3])  # with what is left there is room already
    assert sum(int(one[f"requests.{GPU}"]) for one in found.values()) == 8 and "room" not in notes


def level_of(wanted, total):
    """The equal share of those who want more than it: max-min fair, in fractions."""
    left, rest = Fraction(total), sorted(wanted)
    while rest and rest[0] * len(rest) <= left:
        left -= rest.pop(0)
    return left / len(rest) if rest else None


@pytest.mark.parametrize("seed", range(2))
def test_weeks_in_which_pods_beyond_quotas_are_seen_nowhere(seed):
    """Demand changes every fourth week, and is in no list beyond the quotas: in the third week they are fair."""
    rng, teams, total = np.random.default_rng(seed), ["a", "b", "c"], 16
    servers = [node("n0", gpus=8), node("n1", gpus=8)]
    allowed = dict.fromkeys(teams, 1)
    for week in range(12):
        if week % 4 == 0:
            wanted = {team: int(rng.integers(1, 21)) for team in teams}
        seen = {team: min(wanted[team], allowed[team]) for team in teams}
        items, used = [], 0
        for team, number in seen.items():
            mine = pods(team, number, gpus=1)
            for pod in mine:
                if used < total:
                    pod["spec"]["nodeName"] = f"n{used // 8}"
                used += 1
            items += mine
        present = [quota(team, gpus=str(allowed[team])) for team in teams]
        found, _ = written(*servers, *items, *present)
        allowed = {team: int(found[team][f"requests.{GPU}"]) for team in teams}
        assert sum(allowed.values()) <= total + len(teams)
        if week % 4 >= 2:
            level = level_of([*wanted.values()], total)
            for team, most in wanted.items():
                least, up = (most, total) if level is None else (min(most, floor(level)), min(most, ceil(level)))
                assert least <= allowed[team] <= up + 1, (week, wanted, allowed)


# -- Slurm ----------------------------------------------------------------------------------------------------

NODES = [{"name": f"g{k}", "cpus": 64, "real_memory": 512 * 1024, "gres": "gpu:a100:8"} for k in range(2)]


def job(number, account, request, **others):
    return {"job_id": number, "account": account, "job_state": ["PENDING"], "tres_req_str": request} | others


def account(name, parent="root", **limits):
    of_gres = [{"type": "gres", "name": "gpu", "count": n} for n in [limits.get("gpu")] if n is not None]
    plain = [{"type": kind, "name": "", "count": limits[kind]} for kind in ("cpu", "mem") if kind in limits]
    total = {"max": {"tres": {"total": [*plain, *of_gres]}}} if limits else {}
    return {"account": name, "parent_account": parent, "user": "", "cluster": limits.get("cluster", "c")} | total


def limits_of(folder, jobs, accounts, nodes=NODES, contracts=""):
    for name, entries in (("nodes", nodes), ("jobs", jobs), ("associations", accounts)):
        (folder / f"{name}.json").write_text(json.dumps({name: entries}))
    (folder / "contracts.csv").write_text(f"account,resource,limit\n{contracts}")
    made = caps(fo.HDRF().allocate(fo.read(folder)), "slurm", queues=folder)
    lines = re.findall(r"where name=(\S+)( cluster=c)? set GrpTRES=(.*)", made.text())
    of = {name: dict(one.split("=") for one in found.split(",")) for name, _, found in lines}
    return of, "\n".join(made.notes), {cluster.strip() for _, cluster, _ in lines}


def test_limits_of_accounts_are_of_what_jobs_request_with_all_that_is_left(tmp_path):
    jobs = [
        job(2, "vision", "cpu=8,mem=64G,node=1,gres/gpu=1", array_task_string="1-12"),
        job(3, "hpc", "cpu=32,node=1"),
    ]
    accounts = [account("vision"), account("hpc", gpu=0), account("quiet", cpu=64, gpu=8)]
    found, notes, cluster = limits_of(tmp_path, jobs, accounts, contracts="hpc,gpu,0\nquiet,cpu,64\nquiet,gpu,8\n")
    assert found == {"hpc": {"cpu": "32"}, "vision": {"cpu": "96", "mem": "1048576M", "gres/gpu": "16"}}
    assert "left over, and added to quotas in proportion: 256 of 1,024 GiB memory, 4 of 16 gpu" in notes
    assert "limits of accounts without tasks now stay in effect: quiet 64 cpu, quiet 8 gpu" in notes
    assert "limits of contracts stay: hpc 0 gpu" in notes
    assert "after applying, limits add up to 192 of 128 cpu, 24 of 16 gpu" in notes
    assert cluster == {"cluster=c"}
    assert limits_of(tmp_path, jobs, [*accounts, account("x", cluster="d")], contracts="hpc,gpu,0\n")[2] == {""}


def test_an_account_whose_task_does_not_fit_keeps_cores_for_smaller_jobs(tmp_path):
    """8 GPUs each of two servers: four accounts with jobs of 1 and one with a job of 8, of which a part is fair."""
    jobs = [job(k, f"a{k}", "cpu=2,mem=8G,node=1,gres/gpu=1", array_task_string="1-30") for k in range(4)]
    jobs.append(job(9, "big", "cpu=8,mem=64G,node=1,gres/gpu=8"))
    found, notes, _ = limits_of(tmp_path, jobs, [account(f"a{k}") for k in range(4)] + [account("big")])
    big = found.pop("big")
    assert big["gres/gpu"] == "0" and int(big["cpu"]) >= 3 and int(big["mem"].rstrip("M")) > 0
    assert (
        "no whole task fits, so that the quota is 0 in each run with these tasks: big (0.4 of a task is fair" in notes
    )
    assert sum(int(one["gres/gpu"]) for one in found.values()) == 16
    full = [one | {"cpus": 16} for one in NODES]  # of which the others use all
    found, notes, _ = limits_of(tmp_path, jobs, [], full)
    assert found["big"].keys() == {"mem", "gres/gpu"}
    assert "no quota, since others use all and a quota of 0 would stop every task: cpu of big" in notes


def test_jobs_of_accounts_above_and_their_limits_are_said(tmp_path):
    jobs = [job(1, "nlp", "cpu=8,node=1,gres/gpu=1"), job(2, "ml", "cpu=8,node=1,gres/gpu=2")]
    found, notes, _ = limits_of(tmp_path, jobs, [account("ml", gpu=4), account("nlp", "ml")], contracts="ml,gpu,4\n")
    assert found.keys() == {"nlp"}
    assert "without a team, and so without a quota, as jobs of an account above others: ml/2 gpu" in notes
    assert "limits of accounts above stay in effect for those below: ml 4 gpu" in notes


# -- Kueue ----------------------------------------------------------------------------------------------------


def of_kueue(kind, name, **spec):
    return {"kind": kind, "metadata": {"name": name}, "apiVersion": "kueue.x-k8s.io/v1beta2", "spec": spec}


def resources_of(cpu, gpus, limit=None):
    return [
        {"name": "cpu", "nominalQuota": str(cpu)} | ({"borrowingLimit": str(limit)} if limit is not None else {}),
        {"name": GPU, "nominalQuota": str(gpus)},
    ]


def groups(*args, **options):
    flavors = [{"name": "all", "resources": resources_of(*args, **options)}]
    return {"resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": flavors}]}


@pytest.mark.parametrize(
    ("owed", "limit", "expected"),
    [
        (0, None, {"a": "256", "b": "256"}),  # in proportion to what they use, 32 and 32 of 512 cores
        (0, 100, {"a": "100", "b": "256"}),  # no more than the owners of a let it borrow
        (300, None, {"a": "0", "b": "212"}),  # what is owed to a is not lent
    ],
)
def test_cores_that_nobody_uses_or_is_owed_are_lent_too(owed, limit, expected):
    """Of 512 cores 64 are used where 32 GPUs are; a later pod with more cores per GPU is not stopped by that."""
    nodes = [node(f"g{k}", cpu=128, gpus=8) for k in range(4)]
    waiting = [*pods("a", 40, cpu=2, gpus=1), *pods("b", 40, cpu=2, gpus=1)]
    for one in waiting:
        one["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "main"}
    queues = [
        of_kueue("ClusterQueue", "a", cohortName="lab", namespaceSelector={}, **groups(owed, 0, limit=limit)),
        of_kueue("ClusterQueue", "b", cohortName="lab", namespaceSelector={}, **groups(0, 0)),
        of_kueue("Cohort", "lab", **groups(512 - owed, 32)),
        of_kueue("ResourceFlavor", "all"),
    ]
    for name in "ab":
        local = of_kueue("LocalQueue", "main", clusterQueue=name)
        local["metadata"]["namespace"] = name
        queues.append(local)
    document = {"kind": "List", "items": [*nodes, *waiting, *queues]}
    instance = fc.read_kubernetes(
        {"kind": "List", "items": nodes}, {"kind": "List", "items": waiting}, kueue={"kind": "List", "items": queues}
    )
    made = caps(fo.HDRF().allocate(instance), "kueue", queues=document)
    written = {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load(made.text())["items"]}
    entries = {name: spec["resourceGroups"][0]["flavors"][0]["resources"] for name, spec in written.items()}
    assert {name: of[0]["borrowingLimit"] for name, of in entries.items()} == expected
    assert {of[1]["borrowingLimit"] for of in entries.values()} == {"16"}
    assert any(note.startswith("left over, owed to no queue, and lent too in proportion: ") for note in made.notes)


# -- left over ------------------------------------------------------------------------------------------------


@given(arrays(float, (4, 3), elements=st.floats(0, 100)), arrays(float, 3, elements=st.floats(0.1, 1000)))
def test_what_is_left_is_added_in_proportion(used, more):
    capacity = used.sum(axis=0) + more
    made = spread(used, capacity)
    some = used.sum(axis=0) > 1e-6
    np.testing.assert_allclose(made.sum(axis=0)[some], capacity[some])
    assert (made >= used).all() and not made[:, used.sum(axis=0) == 0].any()
    np.testing.assert_allclose((made / capacity)[:, some], used[:, some] / used.sum(axis=0)[some])


def test_a_table_keeps_what_whole_tasks_use():
    pool = fo.Instance([[1, 1]], [8, 4], resources=["cpu", "gpu"], teams={"team": ["a"]}, task_limits=[2])
    answer = fo.DRF().allocate(pool)
    assert [row.amount for row in caps(answer).rows] == [2, 2]
    assert "requests.cpu: '8'" in caps(answer, "kubernetes").text()
    assert json.dumps(caps(answer, "slurm").text()).count("cpu=8,gres/gpu=4") == 1


# -- what limits idle -----------------------------------------------------------------------------------------


def test_what_waits_for_another_resource_idles_by_no_limit():
    """All 100 GPUs are in use, so that 900 GiB idle whatever is limited."""
    asks, more = [[1, 1], [1, 1]], {"resources": ["memory", "gpu"], "units": {"memory": "GiB"}, "weights": [1, 9]}
    pool = fo.Instance(asks, [1000, 100], task_limits=[200, 400], teams={"team": ["a", "b"]}, **more)
    made = caps(fo.DRF().allocate(pool), "slurm")
    assert made.notes[0] == "these limits idle nothing now that could be used"


def test_a_limit_idles_what_the_same_tasks_would_use_of_other_resources():
    tasks = fo.Instance([[1, 1, 0], [0, 0, 2]], [8, 16, 4], task_limits=[6, 1], teams={"team": ["a", "b"]})
    labelling = tasks.teams.labelling("team")
    whole = whole_answer(fo.DRF().allocate(tasks), labelling, False, None)
    teams = Teams(whole, "team", labelling, ("a", "b"), tasks.resources)
    assert idled(teams, {}) == [] and idled(teams, {("a", "resource1"): 6.0, ("b", "resource3"): 2.0}) == []
    assert idled(teams, {("a", "resource1"): 2.0}) == ["4 of 8 resource1", "4 of 16 resource2"]
    assert idled(teams, {("b", "resource3"): 0.0}) == ["2 of 4 resource3"]


def test_types_of_gpus_that_nobody_uses_are_left_over_and_in_no_limit():
    nodes = [{"name": f"n{k}", "cpus": 8, "real_memory": 8192, "gres": f"gpu:{of}:4"} for k, of in enumerate("ab")]
    job = {"account": "x", "job_state": ["RUNNING"], "nodes": "n0", "tres_req_str": "cpu=2,mem=1G,node=1,gres/gpu=3"}
    cluster = fc.read_slurm({"nodes": nodes}, {"jobs": [job]})
    made = caps(fo.DRF().allocate(cluster), "slurm")
    assert [(row.flavor, row.amount) for row in made.rows if row.resource == "gpu"] == [("", 4), ("a", 4), ("b", 0)]
    (left,) = [note for note in made.notes if note.startswith("left over, and added")]
    assert left.endswith(": 14 of 16 cpu, 15 of 16 GiB memory, 1 of 8 gpu") and "in no quota: 4 of 8 gpu" in made.notes
