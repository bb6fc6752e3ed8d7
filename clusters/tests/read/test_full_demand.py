"""What each gets if all have more work than fits, by hand: idle queues of Kueue, idle accounts of Slurm."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.cli.inputs import Source


def thing(kind: str, name: str, namespace: str = "", **others: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **others}


def kueue(nominal: dict[str, int], asked: dict[str, int], weights: dict[str, float] | None = None) -> dict[str, Any]:
    """Four nodes of 8 GPUs, a queue for each nominal quota in one cohort, and pods of one GPU that wait."""
    has = {"cpu": "64", "nvidia.com/gpu": "8"}
    items = [thing("Node", f"n{k}", status={"allocatable": has}) for k in range(4)]
    for queue, gpus in nominal.items():
        resources = [{"name": "cpu", "nominalQuota": 8 * gpus}, {"name": "nvidia.com/gpu", "nominalQuota": gpus}]
        groups = [{"coveredResources": [*has], "flavors": [{"name": "all", "resources": resources}]}]
        share = {"fairSharing": {"weight": str(weights[queue])}} if weights else {}
        spec = {"cohort": "lab", "namespaceSelector": {}, "resourceGroups": groups, **share}
        items.append(thing("ClusterQueue", queue, spec=spec))
        items.append(thing("LocalQueue", "main", queue, spec={"clusterQueue": queue}))
    requests = {"cpu": "4", "nvidia.com/gpu": "1"}
    spec = {"containers": [{"resources": {"requests": requests}}]}
    for queue, count in asked.items():
        sets = [{"name": "main", "count": count, "template": {"spec": spec}}]
        items.append(thing("Workload", "more", queue, spec={"queueName": "main", "podSets": sets}))
    return {"kind": "List", "items": [*items, thing("ResourceFlavor", "all", spec={})]}


def gpus(instance: fo.Instance) -> dict[str, float]:
    """The GPUs of each queue under hierarchical DRF."""
    answer = fo.HDRF(by=instance.teams.outermost_first).allocate(instance)
    units = answer.tasks * instance.demands[:, instance.resource_index("nvidia.com/gpu")]
    return {
        team: pytest.approx(units[[j for j, of in enumerate(instance.teams["team"]) if of == team]].sum(), abs=1e-6)
        for team in sorted(set(instance.teams["team"]))
    }


def read(tmp_path: Path, document: dict[str, Any], **options: Any) -> fo.Instance:
    file = tmp_path / "now.json"
    file.write_text(json.dumps(document))
    return fo.read(file, **options)


def test_an_idle_queue_is_entitled_to_its_part_and_lends_it_now(tmp_path: Path) -> None:
    document = kueue({"a": 16, "b": 16}, {"a": 40})
    assert gpus(read(tmp_path, document)) == {"a": 32}
    full = read(tmp_path, document, full_demand=True)
    assert gpus(full) == {"a": 16, "b": 16}
    assert "1 cluster queue without pods counts with those of all others together (b)" in full.notes
    assert without_limits(full)


def without_limits(instance: fo.Instance) -> bool:
    """Whether no user has a task limit."""
    return bool((instance.task_limits == float("inf")).all())


def test_what_is_owed_counts_in_full_although_a_queue_asks_for_little_now(tmp_path: Path) -> None:
    document = kueue({"a": 24, "b": 8}, {"a": 2, "b": 40})
    now = read(tmp_path, document)
    assert gpus(now) == {"a": 2, "b": 30}
    assert gpus(read(tmp_path, document, full_demand=True)) == {"a": 24, "b": 8}
    assert gpus(now.full_demand()) == {"a": 16, "b": 16}  # the reader cut what is owed at what is asked for


def test_beyond_what_is_owed_weights_of_idle_queues_count(tmp_path: Path) -> None:
    document = kueue({"a": 2, "b": 2, "c": 4}, {"a": 9, "b": 1}, {"a": 1, "b": 1, "c": 2})
    shared = [{"name": "cpu", "nominalQuota": 192}, {"name": "nvidia.com/gpu", "nominalQuota": 24}]
    groups = [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [{"name": "all", "resources": shared}]}]
    document["items"].append(thing("Cohort", "lab", spec={"resourceGroups": groups}))
    assert gpus(read(tmp_path, document, full_demand=True)) == {"a": 8, "b": 8, "c": 16}


def test_an_idle_queue_that_may_admit_nothing_is_left_out(tmp_path: Path) -> None:
    document = kueue({"a": 16, "b": 16}, {"a": 40})
    (idle,) = (one for one in document["items"] if one["kind"] == "ClusterQueue" and one["metadata"]["name"] == "b")
    group = idle["spec"]["resourceGroups"][0]
    group["coveredResources"] = ["cpu"]
    group["flavors"][0]["resources"] = group["flavors"][0]["resources"][:1]
    full = read(tmp_path, document, full_demand=True)
    assert gpus(full) == {"a": 16}  # the GPUs of the cohort
    assert "1 cluster queue without pods that it may admit was left out (b)" in full.notes


def test_an_idle_account_of_slurm_is_entitled_by_its_fairshare(tmp_path: Path) -> None:
    nodes = [
        {"name": f"n{k}", "cpus": 4, "real_memory": 1024, "state": ["IDLE"], "partitions": ["all"]} for k in (1, 2)
    ]
    job = {"job_id": 1, "account": "bio", "job_state": ["PENDING"], "tres_req_str": "cpu=1,node=1", "partition": "all"}
    accounts = [
        {"account": name, "cluster": "c", "parent_account": parent, "shares_raw": shares}
        for name, parent, shares in (("sci", "root", 1), ("bio", "sci", 1), ("cfd", "sci", 3), ("none", "sci", 0))
    ]
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": [job | {"array_task_string": "1-50"}]}))
    (tmp_path / "associations.json").write_text(json.dumps({"associations": accounts}))
    full = fo.read(tmp_path, full_demand=True)
    answer = fo.HDRF(by=full.teams.outermost_first).allocate(full)
    assert dict(zip(full.teams["team"], answer.tasks.round(6).tolist(), strict=True)) == {"bio": 2, "cfd": 6}
    assert "1 account without jobs counts with those of all others together (cfd)" in full.notes


def test_commands_take_full_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "now.json").write_text(json.dumps(kueue({"a": 16, "b": 16}, {"a": 40})))
    run = CliRunner().invoke
    done = run(app, ["solve", "now.json", "--full-demand", "--json"])
    assert done.exit_code == 0, done.stderr
    teams = json.loads(done.stdout)["teams"]["team"]
    assert {name: team["units"]["nvidia.com/gpu"] for name, team in teams.items()} == {"a": 16, "b": 16}
    quotas = run(app, ["quotas", "now.json", "--full-demand", "--format", "csv"])
    assert quotas.exit_code == 0, quotas.stderr
    assert {"a,nvidia.com/gpu,,16,", "b,nvidia.com/gpu,,16,"} <= set(quotas.stdout.splitlines())


def slurm(folder: Path, idle: bool) -> Path:
    """Two nodes and the jobs of two accounts, with the tree of accounts, in which one may be idle."""
    nodes = [
        {"name": f"n{k}", "cpus": 4, "real_memory": 1024, "state": ["IDLE"], "partitions": ["all"]} for k in (1, 2)
    ]
    jobs = [
        {"job_id": k, "account": name, "job_state": ["PENDING"], "tres_req_str": "cpu=1,node=1", "partition": "all"}
        for k, name in enumerate(("bio", "bio", "cfd"))
    ]
    accounts = [
        {"account": name, "cluster": "c", "parent_account": parent, "shares_raw": shares}
        for name, parent, shares in (
            ("sci", "root", 1),
            ("bio", "sci", 1),
            ("cfd", "sci", 3),
            *[("x", "sci", 1)] * idle,
        )
    ]
    (folder / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    (folder / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    (folder / "associations.json").write_text(json.dumps({"associations": accounts}))
    return folder


def of_tables(folder: Path) -> Path:
    """Tables, which say nothing of who is idle."""
    fo.datasets.write(fo.datasets.demo(), folder / "tables")
    return folder / "tables"


def of_kueue(folder: Path, asked: dict[str, int]) -> Path:
    (folder / "now.json").write_text(json.dumps(kueue({"a": 16, "b": 16}, asked)))
    return folder / "now.json"


@pytest.mark.parametrize(
    ("made", "reads"),
    [
        pytest.param(of_tables, 1, id="tables"),
        pytest.param(lambda folder: slurm(folder, False), 1, id="Slurm"),
        pytest.param(lambda folder: slurm(folder, True), 2, id="Slurm with an idle account"),
        pytest.param(lambda folder: of_kueue(folder, {"a": 40}), 2, id="Kueue with an idle queue"),
        pytest.param(lambda folder: of_kueue(folder, {"a": 40, "b": 1}), 2, id="Kueue, whose guarantees ask for tasks"),
    ],
)
def test_what_full_demand_does_not_change_is_read_once(
    made: Any, reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read_path, done = made(tmp_path), fo.datasets.read_path, []
    monkeypatch.setattr(fo.datasets, "read_path", lambda *given, **how: done.append(1) or read_path(*given, **how))
    source = Source(str(path), {})
    source.read()
    full = source.read_at_full_demand()
    assert len(done) == reads
    expected = fo.read(path, full_demand=True)
    assert set(expected.notes) == set(full.notes)
    assert full == expected
