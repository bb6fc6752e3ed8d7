"""``fairopt queues``: what is asked for, of flavors in order; whether a job would start; what is fair in whole gangs.

Each cluster is written here; the right values are worked out by hand, as the comments say.
"""

import json
from pathlib import Path
from typing import Any

import fairopt_clusters as fc
import pytest
from fairopt_clusters.read.queues.tree import Part, Queue, QueueTree, Workload
from fairopt_clusters.schedulers import Kueue
from fairopt_clusters.schedulers.in_order import with_work
from fairopt_clusters.schedulers.trial import gives
from fairopt_clusters.schedulers.whole import in_whole_gangs
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app

GPU = "nvidia.com/gpu"
API = "kueue.x-k8s.io/v1beta2"


def flavor(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": labels or {}, **spec}}


def queue(name: str, quotas: dict[str, dict[str, Any]], cohort: str = "org", **spec: Any) -> list[dict[str, Any]]:
    """A ClusterQueue with quotas by flavor and resource, or entries in their place, and a LocalQueue of its name."""
    flavors = [
        {
            "name": of,
            "resources": [
                {"name": r, **(one if isinstance(one, dict) else {"nominalQuota": str(one)})} for r, one in each.items()
            ],
        }
        for of, each in quotas.items()
    ]
    covered = [*dict.fromkeys(resource for each in quotas.values() for resource in each)]
    groups = [{"coveredResources": covered, "flavors": flavors}]
    spec = {"namespaceSelector": {}, "cohortName": cohort, "resourceGroups": groups, **spec}
    return [
        {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
        {"kind": "LocalQueue", "metadata": {"name": "main", "namespace": name}, "spec": {"clusterQueue": name}},
    ]


def pods(request: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": request}}], **spec}}


def workload(
    space: str, name: str, count: int, request: dict[str, Any], runs_on: str = "", **more: Any
) -> dict[str, Any]:
    part = {"name": "main", "count": count, "template": pods(request, **more.pop("placed", {}))}
    part |= {key: more.pop(key) for key in ("minCount", "topologyRequest") if key in more}
    status = {}
    if runs_on:
        flavors = dict.fromkeys(request, runs_on)
        assignment = {"name": "main", "count": count, "flavors": flavors}
        status = {"admission": {"clusterQueue": space, "podSetAssignments": [assignment]}}
    metadata = {"name": name, "namespace": space, "creationTimestamp": "2026-11-01T00:00:00Z"}
    spec = {"queueName": "main", "podSets": [part], **more}
    return {"kind": "Workload", "metadata": metadata, "spec": spec, "status": status}


def job(space: str, name: str, count: int, request: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": space, "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    spec = {"parallelism": count, "completions": count, "suspend": True, "template": pods(request)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def node(name: str, has: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": has},
    }


def write(path: Path, *items: Any) -> Path:
    flat = [one for item in items for one in (item if isinstance(item, list) else [item])]
    path.write_text(json.dumps({"kind": "List", "items": [{"apiVersion": API, **one} for one in flat]}))
    return path


def run(*words: str | Path, code: int = 0) -> str:
    found = CliRunner().invoke(app, [*map(str, words)])
    assert found.exit_code == code, found.output
    return found.output


def table(path: Path, *words: str) -> dict[str, dict[str, float]]:
    """Rows of the JSON by queue, of one resource alone."""
    data = json.loads(run("queues", path, "--scheduler", "kueue", "--json", *words).partition("\nnote:")[0])
    return {row["queue"] + "/" + row["resource"]: row for row in data["queues"]}


# -- what is asked for ---------------------------------------------------------------------------------------------


def test_what_queues_ask_for_counts(tmp_path: Path) -> None:
    """Before: 4 and 4, as if both asked for all there is; a asks for 8, and b for nothing."""
    file = write(tmp_path / "all.json", flavor("f"), queue("a", {"f": {"cpu": 4}}), queue("b", {"f": {"cpu": 4}}))
    assert {name: row["gives"] for name, row in table(file).items()} == {"a/cpu": 4, "b/cpu": 4}  # nobody said
    given = json.loads(file.read_text())["items"]
    for one in (workload("a", "w", 8, {"cpu": 1}), job("a", "j", 8, {"cpu": 1})):
        write(file, *given, one)
        found = table(file)
        assert {name: (row["gives"], row["fair"]) for name, row in found.items()} == {"a/cpu": (8, 8), "b/cpu": (0, 0)}
        assert (found["a/cpu"]["asks"], found["a/cpu"]["holds"]) == (8, 0)
    bare = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{k}", "namespace": "a", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
            **pods({"cpu": 1}, nodeName="n" if k < 3 else ""),
            "status": {"phase": "Running" if k < 3 else "Pending"},
        }
        for k in range(8)
    ]
    row = table(write(file, *given, bare))["a/cpu"]
    assert (row["asks"], row["holds"], row["gives"]) == (8, 3, 8)


def test_what_an_idle_queue_lends_is_shared_by_weight(tmp_path: Path) -> None:
    """qa and qb own 4 each, qc 8, which it does not ask for: lent by weights 1 and 3, so that they get 6 and 10."""
    queues = [
        queue(name, {"f": {GPU: own}}, fairSharing={"weight": weight})
        for name, own, weight in (("qa", 4, "1"), ("qb", 4, "3"), ("qc", 8, "1"))
    ]
    asks = [workload(name, "w", 16, {GPU: 1}) for name in ("qa", "qb")]
    found = table(write(tmp_path / "all.json", flavor("f"), *queues, *asks))
    for key in ("gives", "fair"):
        assert [row[key] for row in found.values()] == pytest.approx([6, 10, 0])


def test_lending_limits_bind_what_others_take_alone(tmp_path: Path) -> None:
    """qa and qb own 8 each, and qa lends 4: both get 8. If qa asks for 2, qb gets 8 + 4."""
    limited = {"nominalQuota": "8", "lendingLimit": "4"}
    both = [queue("qa", {"f": {GPU: limited}}), queue("qb", {"f": {GPU: 8}})]
    found = table(write(tmp_path / "all.json", flavor("f"), *both))
    assert [(row["gives"], row["fair"]) for row in found.values()] == [(8, 8), (8, 8)]
    asks = [workload("qa", "w", 2, {GPU: 1}), workload("qb", "w", 16, {GPU: 1}, minCount=1)]
    found = table(write(tmp_path / "all.json", flavor("f"), *both, *asks))
    for key in ("gives", "fair"):
        assert [row[key] for row in found.values()] == pytest.approx([2, 12])


def test_lending_limits_in_cohorts_in_cohorts() -> None:
    """Inner owns 4, keeps 3 of them and asks for 6; outer owns 4 and asks for 9: 1 is lent, to whoever weighs more."""
    inner = Queue("inner", "left", 1, {"gpu": 4}, lending={"gpu": 1}, request={"gpu": 2})
    rows = Queue("root"), Queue("left", "root"), inner, Queue("outer", "root", 1, {"gpu": 4}, request={"gpu": 9})
    found, notes = fc.schedulers.beside(Kueue(), QueueTree("Kueue", rows))
    assert found["gives"].tolist() == found["fair"].tolist() == [2, 5] and notes == []


def test_a_queue_gets_nothing_of_a_flavor_that_it_never_asks_for(tmp_path: Path) -> None:
    """The cohort left owns 6 res and right 4, and spot is of both: l asks for 20 spot and 6 res, r for 10 res."""
    own = {"spot": {"cpu": 0}, "res": {"cpu": 0}}
    cohorts = [
        {"kind": "Cohort", "metadata": {"name": name}, "spec": {"parentName": parent, "resourceGroups": [group]}}
        for name, parent, of, amount in (
            ("root", "", "spot", "20"),
            ("left", "root", "res", "6"),
            ("right", "root", "res", "4"),
        )
        for group in [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": of, "resources": [{"name": "cpu", "nominalQuota": amount}]}],
            }
        ]
    ]
    placed = {of: {"placed": {"nodeSelector": {"tier": of}}} for of in own}
    asks = [
        workload("l", "spot", 20, {"cpu": 1}, **placed["spot"]),
        workload("l", "res", 6, {"cpu": 1}, **placed["res"]),
        workload("r", "res", 10, {"cpu": 1}, **placed["res"]),
    ]
    flavors = [flavor(of, {"tier": of}) for of in own]
    found = table(
        write(tmp_path / "all.json", *flavors, *cohorts, queue("l", own, "left"), queue("r", own, "right"), *asks)
    )
    for key in ("gives", "fair"):
        amounts = {name: row[key] for name, row in found.items()}
        assert amounts == pytest.approx({"l/spot:cpu": 20, "r/spot:cpu": 0, "l/res:cpu": 6, "r/res:cpu": 4})


def in_order(*work: Workload, **notes: str) -> dict[str, dict[str, float]]:
    """What queues a and b, which own 4 and 4 of od and 2 and 0 of spot, get if they ask in order."""
    queues = [
        Queue(name, "all", 1, {"od:gpu": 4.0, "spot:gpu": spot}, notes=notes) for name, spot in (("a", 2.0), ("b", 0.0))
    ]
    tree = QueueTree("Kueue", (Queue("all"), *queues))
    asked = with_work(tree, [], work, lambda one: gives(Kueue(), one))
    return Kueue().divide(asked).loc[["a", "b"]].round(9).T.to_dict()


def ways(*flavors: str, gpus: float) -> tuple[Part, ...]:
    return (Part(tuple({f"{of}:gpu": gpus} for of in flavors)),)


def test_what_finds_a_flavor_full_asks_for_the_next() -> None:
    """a asks for 7 of either, b for 6 of od alone: od is 4 and 4 by quota, so that a takes its other 2 from spot."""
    a = Workload("a", {}, parts=ways("od", "spot", gpus=7.0))
    b = Workload("b", {}, parts=ways("od", gpus=6.0))
    assert in_order(a, b) == {"a": {"od:gpu": 4, "spot:gpu": 2}, "b": {"od:gpu": 4, "spot:gpu": 0}}
    assert in_order(a) == {"a": {"od:gpu": 7, "spot:gpu": 0}, "b": {"od:gpu": 0, "spot:gpu": 0}}  # by borrowing
    last = in_order(a, whenCanBorrow="TryNextFlavor")
    assert last["a"] == {"od:gpu": 5, "spot:gpu": 2}  # what it owns of both first
    both = in_order(a, Workload("b", {}, parts=ways("spot", "od", gpus=6.0)))
    assert both == {"a": {"od:gpu": 4, "spot:gpu": 2}, "b": {"od:gpu": 4, "spot:gpu": 0}}


def test_the_order_of_queues_in_the_file_changes_nothing() -> None:
    a = [Workload("a", {}, parts=ways("od", "spot", gpus=5.0)), Workload("b", {}, parts=ways("spot", "od", gpus=3.0))]
    assert in_order(*a) == in_order(*a[::-1])


def test_kais_status_says_who_waits_and_who_borrows(tmp_path: Path) -> None:
    """Of 40 GPUs a is owed 16 and asks for them, cold asks for 9 of 15, and night borrows: 16, 9 and 15."""
    text = """apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {resources: {gpu: {quota: %s, overQuotaWeight: 1, limit: -1}}}
status: {allocated: {nvidia.com/gpu: "%s"}, requested: {nvidia.com/gpu: "%s"}}
"""
    file = tmp_path / "queues.yaml"
    file.write_text("---\n".join(text % row for row in (("a", 16, 4, 16), ("night", 9, 27, 40), ("cold", 15, 9, 9))))
    words = " ".join(run("queues", file, "--scheduler", "kai", "--capacity", "gpu=40").split())
    assert "a gpu 16 4 16 16 0" in words and "night gpu 40 27 15 15 0" in words and "cold gpu 9 9 9 9 0" in words
    said = run("why", file, "night", code=2)
    assert "fairopt queues FILE --scheduler kai" in " ".join(said.split())
    assert "waits for what is fair: a 4 of 16" in words and "holds more than is fair: night 27 of 15" in words


# -- would it start ------------------------------------------------------------------------------------------------


def two(*more: Any, **spec: Any) -> list[Any]:
    """Queues qa and qb that own 4 GPUs of od each, and qa 2 of spot, which is tainted."""
    taint = [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]
    return [
        flavor("od", {"tier": "od"}),
        flavor("spot", {"tier": "spot"}, nodeTaints=taint),
        queue("qa", {"od": {GPU: 4}, "spot": {GPU: 2}}, **spec),
        queue("qb", {"od": {GPU: 4}}, preemption={"reclaimWithinCohort": "Any"}),
        *more,
    ]


def submitted(tmp_path: Path, given: list[Any], one: dict[str, Any], code: int = 0) -> str:
    now, new = write(tmp_path / "now.json", *given), write(tmp_path / "job.json", one)
    return " ".join(run("queues", now, "--scheduler", "kueue", "--submit", new, code=code).split())


def test_a_job_starts_by_borrowing_or_preempting_or_waits(tmp_path: Path) -> None:
    said = submitted(tmp_path, two(), job("qa", "j", 6, {GPU: 1}))
    assert said == f"qa/job-j would start now in od, borrowing 2 {GPU} of od"
    busy = two(workload("qa", "large", 7, {GPU: 1}, "od"))
    said = submitted(tmp_path, busy, job("qb", "j", 4, {GPU: 1}))
    assert said == "qb/job-j would start after preempting qa/large in od"
    said = submitted(tmp_path, busy, job("qa", "j", 4, {GPU: 1}), code=4)
    assert said == (
        f"qa/job-j would wait: asks for 4 {GPU} of od, of which 1 are free and qa may have 8; by its rules qa preempts "
        "nobody"
    )
    said = submitted(tmp_path, busy, job("qb", "j", 9, {GPU: 1}), code=4)
    assert said.startswith("qb/job-j can never start: asks for 9")
    said = submitted(tmp_path, busy, job("qb", "j", 1, {"amd.com/gpu": 1}), code=4)
    assert said.startswith("qb/job-j can never start: no flavor of qb for its amd.com/gpu")


def test_taints_and_affinities_decide_the_flavor(tmp_path: Path) -> None:
    busy, tolerant = two(workload("qa", "large", 8, {GPU: 1}, "od")), {"key": "spot", "operator": "Exists"}
    one = job("qa", "j", 2, {GPU: 1})
    assert "would wait" in submitted(tmp_path, busy, one, code=4)
    one["spec"]["template"]["spec"]["tolerations"] = [tolerant]
    assert submitted(tmp_path, busy, one).startswith("qa/job-j would start now in spot")
    term = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["spot"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    one["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    assert "would wait" in submitted(tmp_path, busy, one, code=4)
    one["spec"]["template"]["spec"]["affinity"] = {}
    del busy[-1]
    assert "now in od" in submitted(tmp_path, busy, one)
    fungible = two(workload("qa", "some", 3, {GPU: 1}, "od"), flavorFungibility={"whenCanBorrow": "TryNextFlavor"})
    assert submitted(tmp_path, fungible, one) == "qa/job-j would start now in spot"  # before it borrows of od


def test_fewer_pods_start_where_a_job_says_how_few_will_do(tmp_path: Path) -> None:
    """Of 8 GPUs 3 run: of 7 pods, at least 2, 5 start; at least 6 do not."""
    busy = two(workload("qb", "some", 3, {GPU: 1}, "od"))
    some = workload("qa", "w", 7, {GPU: 1}, minCount=2)
    assert submitted(tmp_path, busy, some).startswith("qa/w would start now in od, without 2 of its pods, borrowing 1")
    assert "would wait" in submitted(tmp_path, busy, workload("qa", "w", 7, {GPU: 1}, minCount=6), code=4)


def test_what_waits_first_in_a_strict_queue_stops_a_job(tmp_path: Path) -> None:
    waiting = workload("qa", "first", 8, {GPU: 1}), workload("qb", "runs", 4, {GPU: 1}, "od")
    strict = two(*waiting, queueingStrategy="StrictFIFO")
    said = submitted(tmp_path, strict, job("qa", "j", 1, {GPU: 1}), code=4)
    assert said.startswith("qa/job-j would wait: qa is StrictFIFO, and first comes qa/first")
    assert "would start now" in submitted(tmp_path, two(*waiting), job("qa", "j", 1, {GPU: 1}))
    file = write(tmp_path / "now.json", *strict)
    assert any("with StrictFIFO, where what comes first" in note for note in fo.read(file).notes)
    words = " ".join(run("queues", file, "--scheduler", "kueue").split())
    assert "1 cluster queue with StrictFIFO: what comes first there and cannot start stops all behind it (qa)" in words


def test_pods_that_must_lie_in_one_rack(tmp_path: Path) -> None:
    """Two racks of two servers with 8 GPUs: two pods of 8 fit in one, four do not; without the label none do."""
    servers = [node(f"n{k}", {"cpu": "64", GPU: "8"}, rack=f"r{k // 2}") for k in range(4)]
    base = [flavor("f"), queue("q", {"f": {GPU: 32}}), *servers]
    for count, level, why in (
        (2, "rack", ""),
        (4, "rack", "4 pods must lie in one rack, and at most 2 fit in any"),
        (2, "net/block", "2 pods must lie in one block, and no server for them has the label net/block"),
    ):
        one = workload("q", "w", count, {GPU: 8}, topologyRequest={"required": level})
        said = submitted(tmp_path, base, one, code=4 if why else 0)
        assert said.startswith(f"q/w can never start: {why}" if why else "q/w would start now")
        file = write(tmp_path / "all.json", *base, one, workload("q", "other", 1, {GPU: 1}))
        notes = fo.read(file).notes
        assert any("can never start" in text and why in text for text in notes) == bool(why)
    few = workload("q", "w", 4, {GPU: 8}, topologyRequest={"required": "rack"}, minCount=2)
    assert "can never start" not in submitted(tmp_path, base, few)


def test_a_workload_larger_than_all_quotas_is_left_out_and_said(tmp_path: Path) -> None:
    file = write(
        tmp_path / "all.json", flavor("f"), queue("q", {"f": {"cpu": 2}}), workload("q", "w", 5, {"cpu": "500m"})
    )
    words = " ".join(run("queues", file, "--scheduler", "kueue").split())
    assert "1 workload that can never start was left out (q/w: asks for 2.5 cpu, and q may have 2" in words
    assert table(file)["q/cpu"]["asks"] == 0


def test_errors_of_submit(tmp_path: Path) -> None:
    now, new = write(tmp_path / "now.json", *two()), write(tmp_path / "job.json", job("nowhere", "j", 1, {GPU: 1}))
    assert "holds no job for a ClusterQueue" in run("queues", now, "--scheduler", "kueue", "--submit", new, code=2)
    kai = tmp_path / "kai.yaml"
    kai.write_text("apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\nspec: {}\n")
    said = run("queues", kai, "--scheduler", "kai", "--capacity", "gpu=4", "--submit", new, code=2)
    assert "--submit asks Kueue, and not KAI" in said


def test_without_fair_sharing_priorities_decide(tmp_path: Path) -> None:
    """qa owns 4 and asks for 4, and preempts a lower priority of its own that borrows the rest."""
    own = {"preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"}}
    configured = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "fairSharing": {"preemptionStrategies": []},
    }
    low = workload("qa", "low", 8, {GPU: 1}, "od", priority=-1)
    now = write(tmp_path / "now.json", *two(low, workload("qa", "w", 4, {GPU: 1}), **own), configured)
    words = " ".join(run("queues", now, "--scheduler", "kueue-classical").split())
    assert "qa/w qa od qa/low" in words and "Kueue divides nothing beyond quotas" in words
    assert "fair sharing is on in Kueue's Configuration here: --scheduler kueue" in words


# -- in whole gangs ------------------------------------------------------------------------------------------------


def whole(*work: Workload, own: float = 32.0) -> dict[str, float]:
    queues = [Queue(name, "all", guarantee={"gpu": own}) for name in ("a", "b")]
    tree = with_work(QueueTree("Kueue", (Queue("all"), *queues)), [], work, lambda one: gives(Kueue(), one))
    found, _ = fc.schedulers.beside(Kueue(), tree)
    amounts, notes = in_whole_gangs(Kueue(), tree, found, work)
    assert notes == []
    return {} if amounts is None else dict(zip(found["queue"], amounts, strict=True))


def gang(of: str, pods: int, spare: int = 0) -> Workload:
    return Workload(of, {"gpu": float(pods)}, 0, 0.0, f"{of}{pods}", (Part(({"gpu": float(pods)},), pods, spare),))


def test_gangs_run_whole_or_not_at_all() -> None:
    """Of 64 GPUs, 32 are fair for each of two gangs of 64: the first runs; of 40 and 24 singles both have a part."""
    assert whole(gang("a", 64), gang("b", 64)) == pytest.approx({"a": 64, "b": 0})
    singles = [Workload("b", {"gpu": 1.0}, 0, 0.0, f"s{k}", (Part(({"gpu": 1.0},)),)) for k in range(60)]
    assert whole(gang("a", 40), *singles) == pytest.approx({"a": 40, "b": 24})
    assert whole(*singles) == {}  # all start one by one


def test_parts_of_a_pod_each_start_together() -> None:
    """As a head and a worker: of 64 GPUs one of two pairs of 30 and 10 runs."""
    pairs = [
        Workload(of, {"gpu": 40.0}, 0, 0.0, of, (Part(({"gpu": 30.0},)), Part(({"gpu": 10.0},)))) for of in ("a", "b")
    ]
    assert whole(*pairs) == pytest.approx({"a": 40, "b": 0})


def test_the_gang_that_loses_least_waits() -> None:
    """8 and 56 are fair where a owns 8 of 64 and asks for no more, and b for a gang of 64: b runs, as it loses 56."""
    queues = Queue("a", "all", guarantee={"gpu": 8.0}), Queue("b", "all", guarantee={"gpu": 56.0})
    work = gang("a", 8), gang("b", 64)
    tree = with_work(QueueTree("Kueue", (Queue("all"), *queues)), [], work, lambda one: gives(Kueue(), one))
    found, _ = fc.schedulers.beside(Kueue(), tree)
    assert found["fair"].tolist() == pytest.approx([8, 56])
    assert in_whole_gangs(Kueue(), tree, found, work)[0] == pytest.approx([0, 64])


def test_an_elastic_gang_has_at_least_its_smallest_size() -> None:
    assert whole(gang("a", 64, 44), gang("b", 64, 44)) == pytest.approx({"a": 32, "b": 32})
    assert whole(gang("a", 64, 24), gang("b", 64, 44)) == pytest.approx({"a": 40, "b": 24})


def test_pods_of_a_deployment_start_one_by_one(tmp_path: Path) -> None:
    """Of 8 GPUs of od 3 are in use: of 7 pods 5 start, and they are no gang."""
    one = job("qa", "j", 7, {GPU: 1})
    one |= {"apiVersion": "apps/v1", "kind": "Deployment"}
    one["spec"] = {"replicas": 7, "template": one["spec"]["template"]}
    busy = two(workload("qb", "some", 3, {GPU: 1}, "od"))
    assert "would start now in od, without 2 of its pods" in submitted(tmp_path, busy, one)
    rows = table(write(tmp_path / "all.json", *two(one)))
    assert "whole" not in rows[f"qa/od:{GPU}"] and rows[f"qa/od:{GPU}"]["gives"] == 7


def test_equal_workloads_have_one_row(tmp_path: Path) -> None:
    waiting = [workload("qa", f"w{k}", 2, {GPU: 1}) for k in range(9)]
    file = write(tmp_path / "all.json", *two(*waiting))
    data = json.loads(run("queues", file, "--scheduler", "kueue", "--json").partition("\nnote:")[0])
    assert [row["workload"] for row in data["preemption"]] == ["qa/w0 and 8 alike"]


def test_queues_of_another_scheduler_beside_those_of_kueue_are_named(tmp_path: Path) -> None:
    other = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "v"},
        "spec": {"weight": 1},
    }
    file = write(tmp_path / "all.json", *two(workload("qa", "w", 2, {GPU: 1})), other)
    assert "left out, as teams are the cluster queues of Kueue: 1 queue of Volcano" in fo.read(file).notes


@pytest.mark.parametrize("name", ["associations.json", "sshare.txt"])
def test_accounts_of_slurm_are_read_from_the_file_or_its_folder_and_need_a_capacity(tmp_path: Path, name: str) -> None:
    """Of 100 cores ml has 40 and hep, alone in physics, 60."""
    rows = [("root", "", 1), ("ml", "root", 40), ("physics", "root", 60), ("hep", "physics", 7)]
    listed = [{"account": one, "parent_account": above, "shares_raw": n} for one, above, n in rows]
    levels = ("Account|User|RawShares", "root||", " ml||40", " physics||60", "  hep||7")
    text = json.dumps({"associations": listed}) if name.endswith("json") else "\n".join(levels)
    (tmp_path / name).write_text(text)
    (tmp_path / "jobs.json").write_text('{"jobs": []}')
    for file in (tmp_path / name, tmp_path):
        found = json.loads(run("queues", file, "--capacity", "cpu=100", "--json"))
        assert {one["queue"]: one["gives"] for one in found["queues"]} == {"ml": 40, "hep": 60}
    assert "there is no capacity to divide; give --capacity cpu=64" in " ".join(run("queues", tmp_path, code=2).split())
