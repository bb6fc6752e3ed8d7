"""``fairopt why``: one sentence each, or sentences and tables of those named; JSON; and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 200 columns in a folder with a cluster of three teams, and one without teams."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    cluster = fo.Instance(
        [[4, 2], [4, 1], [1, 0], [8, 4], [2, 1]],
        [[64, 8], [64, 8], [256, 8]],
        users=["train", "label", "parse", "bert", "asr"],
        resources=["cpu", "gpu"],
        servers=["a100-01", "a100-02", "v100"],
        task_limits={"parse": 20, "asr": 3},
        teams={"team": ["vision", "vision", "vision", "nlp", "audio"]},
    )
    fo.datasets.write(cluster, "cluster.json")
    fo.datasets.write(fo.Instance([[4, 1], [1, 4]], [10, 10], users=["batch", "web"]), "pool.json")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["why", *arguments])

    return invoke


def test_without_a_name_each_team_has_a_sentence_and_who_has_all_comes_last(run: Any) -> None:
    result = run("cluster.json")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["nlp", "vision", "audio"]
    assert lines[-1] == "audio has 3 gpu: its own task limit stops it."
    assert [line.split()[0] for line in run("pool.json").stdout.splitlines()] == ["batch", "web"]


def test_a_team_by_name_has_sentences_a_table_and_its_users(run: Any) -> None:
    result = run("cluster.json", "vision", "nlp")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "because gpu is full on all servers and parse has reached its task limit; nlp stops there too" in text
    assert "What stops vision" in text and "Users of vision" in text and "What stops nlp" in text
    assert "a100-[01-02]" in text and "Users of nlp" not in text


def test_several_policies_are_told_apart(run: Any) -> None:
    result = run("pool.json", "web", "-p", "drf", "-p", "most-tasks", "--constraint", "MaxShare(0.3)")
    assert result.exit_code == 0, result.stderr
    assert "DRF under MaxShare(0.3):" in result.stdout and "most tasks under MaxShare(0.3):" in result.stdout


def test_json_has_the_records(run: Any) -> None:
    data = json.loads(run("cluster.json", "vision", "--json").stdout)
    assert data["format"] == "fairopt.explanations/1"
    (found,) = data["explanations"]
    assert {b["name"] for b in found["binding"] if b["kind"] == "resource"} == {"gpu"}
    assert [m["name"] for m in found["members"]] == ["train", "label", "parse"]


def test_who_is_named_is_told_what_it_holds_and_json_is_not(run: Any) -> None:
    held = fo.read("cluster.json").replace(held=[[1, 0, 0], [0, 0, 2], [0, 0, 0], [0, 0, 1], [0, 0, 0]])
    fo.datasets.write(held, "held.json")
    text = " ".join(run("held.json", "vision").stdout.split())
    assert (
        "held now: vision holds 12 cpu, 39.5 less than its fair share" in text
    )  # of 4 gpu it has more of what is fair
    assert "held now" not in run("held.json").stdout + run("cluster.json", "vision").stdout
    assert "held now" not in run("held.json", "vision", "--json").stdout


def test_an_unknown_name_is_refused(run: Any) -> None:
    result = run("cluster.json", "visoin")
    assert result.exit_code == 2 and "there is no user or team 'visoin'; did you mean 'vision'?" in result.stderr


def test_a_user_whose_tasks_fit_on_no_server_is_told_so(run: Any) -> None:
    fo.datasets.write(fo.Instance([[16], [1]], [[8], [4]], users=["large", "small"], resources=["gpu"]), "large.json")
    result = run("large.json", "large")
    assert result.exit_code == 0, result.stderr
    assert "no server can run a task of large (16 gpu a task; the largest server has 8)." in result.stdout
