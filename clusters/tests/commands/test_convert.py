"""``fairopt convert`` of files of clusters."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a small cluster, and one with notes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fo.datasets.write(fo.datasets.demo(), tmp_path / "cluster")
    nodes = [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "64Gi"}}}]
    pods = [
        {
            "metadata": {"namespace": name, "name": "p", "labels": {"team": "all"}},
            "spec": {"containers": [{"resources": {"requests": requests}}]},
        }
        for name, requests in (("web", {"cpu": "1"}), ("batch", {"cpu": "2", "memory": "1Gi"}), ("x", {}))
    ]
    (tmp_path / "kube").mkdir()
    (tmp_path / "kube" / "nodes.json").write_text(json.dumps({"kind": "List", "items": nodes}))
    (tmp_path / "kube" / "pods.json").write_text(json.dumps({"kind": "List", "items": pods}))

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    return invoke


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("convert cluster out.json --users namespace", "'users' is an option for folders of Kubernetes"),
        ("convert cluster out.json --at 3", "'at' is an option for folders of ClusterData 2019"),
    ],
)
def test_options_of_other_inputs_are_refused(run: Any, command: str, words: str) -> None:
    result = run(*command.split())
    assert result.exit_code == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1
    assert not Path("out.json").exists()


def test_help_teaches_where_files_come_from(run: Any) -> None:
    text = " ".join(run("convert", "--help").stdout.split())
    for words in ("kubectl get pods -A -o json > now/pods.json", "scontrol show node --json", "a .zip file"):
        assert words in text


def test_help_lists_the_users_of_every_kind(run: Any) -> None:
    text = " ".join(run("convert", "--help").stdout.replace("│", " ").split())
    for who in ("namespace", "label:team", "account", "partition", "qos", "collection", "priority", "tier"):
        assert f"'{who}'" in text


@pytest.mark.parametrize("command", [["convert", "kube", "out.json"], ["solve", "kube", "-p", "drf"]])
def test_notes_of_a_reader_are_told_on_stderr(run: Any, command: list[str]) -> None:
    result = run(*command)
    assert result.exit_code == 0
    assert result.stderr.startswith("note: ")
    assert "x/p" in result.stderr
    assert "note:" not in result.stdout


def test_notes_leave_json_alone(run: Any) -> None:
    result = run("solve", "kube", "--json", "--users", "label:team", "--tasks", "shapes")
    assert set(json.loads(result.stdout)["tasks"]) == {"all/1 cpu", "all/2 cpu 1 GiB memory"}
    assert result.stderr.startswith("note: ")
