"""INPUT of the commands: objects of Kubernetes and of Slurm on standard input, and a capacity instead of servers."""

import json
from typing import Any

import pytest
import yaml
from fairopt_clusters.quotas.cluster_queues import read_queues
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app

SMALL = json.dumps({"demands": [[1]], "capacities": [4], "users": ["a"]})


def run(*arguments: str, given: str | None = None) -> Any:
    return CliRunner().invoke(app, [*arguments], input=given)


@pytest.fixture(autouse=True)
def _here(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


NODE = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}

POD = {
    "kind": "Pod",
    "metadata": {"namespace": "web", "name": "p", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
    "spec": {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
}

KUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2"}

ALL = {"name": "all", "resources": [{"name": name, "nominalQuota": "4Gi"} for name in ("cpu", "memory")]}

OWED = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [ALL]}]}

QUEUE = KUEUE | {"kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": OWED}

OF_WEB = {"name": "main", "namespace": "web"}

LOCAL = KUEUE | {"kind": "LocalQueue", "metadata": OF_WEB, "spec": {"clusterQueue": "q"}}

KUBERNETES = json.dumps({"kind": "List", "items": [NODE, POD, QUEUE, LOCAL]})

SLURM = json.dumps(
    {
        "nodes": [{"name": "n1", "cpus": 64, "real_memory": 262144}],
        "jobs": [{"account": "bio", "job_state": ["PENDING"], "tres_req_str": "cpu=8,mem=32G,node=1"}],
    }
)

DOCUMENTS = yaml.safe_dump_all([NODE, {"kind": "List", "items": [POD, QUEUE]}, LOCAL])


def test_options_of_the_input_count_there_too() -> None:
    assert '"bio/8 cpu 32 GiB memory"' in run("solve", "-", "--tasks", "shapes", "--json", given=SLURM).stdout
    refused = run("solve", "-", "--tasks", "shapes", given=SMALL)
    assert refused.exit_code == 2 and "'tasks' is an option for folders of Kubernetes and Slurm" in refused.stderr


def test_what_was_read_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(KUBERNETES.encode())))
    first = fo.read("-")
    assert fo.read("-") == first and read_queues("-").raw == {"q": QUEUE}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    assert fo.read("-").users == ("a",) and not read_queues("-").raw


PODS = json.dumps(
    {"kind": "List", "items": [POD | {"metadata": {"namespace": "web", "name": f"p{k}"}} for k in range(8)]}
)


@pytest.mark.parametrize("command", ["solve", "compare", "why"])
def test_a_capacity_stands_for_servers_on_every_command_that_reads(command: str) -> None:
    words = {"solve": ("-p", "drf"), "compare": ("-p", "drf"), "why": ("web", "-p", "drf")}[command]
    name, *others = (*words, "--json") if command != "why" else ("web", *words[1:], "--json")
    given = ("--capacity", "cpu=2", "--capacity", "memory=4Gi")
    result = run(command, "-", name, *others, *given, given=PODS)
    assert result.exit_code == 0, result.stderr
    assert "4.0" in result.stdout  # tasks of half a core and a GiB


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu", "'cpu' has no name and amount; give such as --capacity cpu=64"),
        ("cpu=2Gib", 'the capacity of "cpu" is "2Gib"; write 2Gi'),
        ("cpu=0", "give an amount above 0"),
    ],
)
def test_a_wrong_capacity_is_refused(text: str, message: str) -> None:
    result = run("solve", "-", "--capacity", text, given=PODS)
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())


def test_a_capacity_beside_nodes_or_for_other_inputs_is_refused() -> None:
    assert "leave out --capacity" in " ".join(run("solve", "-", "--capacity", "cpu=1", given=KUBERNETES).stderr.split())
    assert "'capacity' is an option for" in " ".join(
        run("solve", "-", "--capacity", "cpu=1", given=SMALL).stderr.split()
    )


@pytest.mark.parametrize(("text", "user"), [(KUBERNETES, "q/0.5 cpu"), (DOCUMENTS, "q/0.5 cpu"), (SLURM, "bio/8 cpu")])
def test_a_dash_is_standard_input_of_any_kind(text: str, user: str) -> None:
    result = run("solve", "-", "-p", "drf", "--json", given=text)
    assert result.exit_code == 0, result.output
    assert [*json.loads(result.stdout)["tasks"]] == [user]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"nodes": []}', "standard input is none of the kinds that are read: its keys are 'nodes'; expected"),
        (json.dumps({"kind": "List", "items": []}), "standard input: there is no object of kind Node"),
        ("kind: List\nitems: []\n", "standard input: there is no object of kind Node"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, message: str) -> None:
    result = run("solve", "-", given=text)
    assert result.exit_code == 2 and message in " ".join(result.stderr.split()), result.output


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("solve tables --pods default", "InvalidInstance: 'pods' is an option for folders of the openb trace"),
        ("solve trace --capacity-scale -1", "InvalidInstance: capacity_scale is -1.0"),
        ("solve trace --pods defalt", "did you mean 'default'"),
    ],
)
def test_wrong_options_of_the_trace_are_refused(tmp_path: Any, command: str, words: str) -> None:
    fo.datasets.write(fo.datasets.demo(), tmp_path / "tables")
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "openb_node_list_all_node.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n")
    (tmp_path / "trace" / "openb_pod_list_default.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1,1,0,0,\n"
    )
    result = run(*command.split())
    assert result.exit_code == 2 and words in " ".join(result.stderr.split())


@pytest.mark.parametrize("name", ["tables/nodes.json", "trace/openb_pod_list_more.csv", "manifests/more.json"])
def test_no_command_writes_what_would_be_read_as_a_part_of_its_input(tmp_path: Any, name: str) -> None:
    folder = name.partition("/")[0]
    if folder == "manifests":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "all.yaml").write_text(DOCUMENTS)
    else:
        fo.datasets.write(fo.datasets.demo(), tmp_path / folder)
    result = run("solve", folder, "--out", name)
    assert result.exit_code == 2 and not (tmp_path / name).exists(), result.output


def test_notes_come_below_those_that_change_numbers_first_and_others_on_request() -> None:
    idle = POD | {"metadata": POD["metadata"] | {"name": "idle"}, "spec": {"containers": [{}]}}
    waiting = json.dumps({"kind": "List", "items": [NODE, POD, idle, QUEUE, LOCAL]})
    lines = run("solve", "-", "-p", "drf", given=waiting).stderr.splitlines()
    assert lines[0].startswith("note: 1 pod without any request was left out")
    assert lines[-1] == "note: 3 more on INPUT that change no number: --notes"
    every = run("solve", "-", "-p", "drf", "--notes", given=waiting).stderr.splitlines()
    assert every[: len(lines) - 1] == lines[:-1]
    assert any(line.startswith("note: nominal quotas, by flavor, are what queues are owed") for line in every)
    assert len(every) == len(lines) - 1 + 3
