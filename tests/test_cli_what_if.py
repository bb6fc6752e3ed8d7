"""``fairopt what-if``: tables, sentences, JSON, files, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app

TEAMS = fo.Instance(
    [[4, 1], [1, 0], [2, 1], [9, 9]],
    [[30, 5], [30, 5], [40, 0]],
    servers=["g1", "g2", "c1"],
    users=["train", "parse", "tune", "huge"],
    resources=["cpu", "gpu"],
    teams={"team": ["vision", "vision", "nlp", "nlp"]},
    task_limits=[9, 10, 8, 3],
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fo.datasets.write(TEAMS, tmp_path / "teams.json")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["what-if", "teams.json", *arguments])

    return invoke


def test_changes_tables_both_certificates_and_who_gains(run: Any) -> None:
    result = run("--add", "g2=1", "--add", "g2=1", "--weight", "nlp=2")
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert words.startswith("What if: 2 more servers like g2; weight of nlp 2 instead of none HDRF before and after")
    assert "Who gains and loses, by team" in words and "Who gains and loses, by user" in words
    assert "before: certified: gap" in words and "after: certified: gap" in words
    assert "nlp gains" in words and "no server can run a task of huge" in words
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_weight_limit_and_guarantee_are_changes_and_not_of_the_input(run: Any) -> None:
    result = run("--weight", "vision=3", "--limit", "parse=2", "--guarantee", "nlp=gpu:4", "--json")
    found = json.loads(result.stdout)
    assert found["format"] == "fairopt.what-if/1" and found["policy"] == "HDRF"
    assert found["changes"] == [
        "weight of vision 3 instead of none",
        "task limit of parse 2 instead of 10",
        "guarantee of nlp 4 gpu instead of nothing",
    ]
    limits = {"task_limits": [9, 10, 8, 0]}  # huge fits nowhere
    before = fo.HDRF().allocate(TEAMS.replace(**limits))
    changes: dict[str, Any] = {"weights": {"vision": 3}, "guarantees": {"nlp": {"gpu": 4}}}
    after = fo.HDRF().allocate(TEAMS.replace(task_limits=[9, 2, 8, 0], **changes))
    for side, allocation in (("before", before), ("after", after)):
        assert found[side]["certificate"]["ok"]
        tasks = [row["tasks"][side] for row in found["users"].values()]
        assert tasks == pytest.approx(allocation.tasks.tolist())


def test_whose_tasks_fit_once_a_resource_is_not_shared_runs_them(run: Any) -> None:
    found = json.loads(run("--drop-resource", "gpu", "--without", "vision", "--json").stdout)
    assert found["changes"] == [
        "gpu is not shared",
        "without team vision (2 users)",
        "task limit of huge 3 instead of 0",
    ]
    assert found["users"]["huge"]["tasks"] == {"before": 0, "after": 3, "difference": 3}


def test_servers_are_added_by_name_before_they_are_pooled(run: Any) -> None:
    found = json.loads(run("--pooled", "-p", "drf", "--add", "g1=1", "--without", "huge", "--json").stdout)
    assert found["changes"] == ["other capacities: in all cpu 130 instead of 100, gpu 15 instead of 10", "without huge"]


def test_files_are_written(run: Any) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    result = run("-p", "drf", "--limit", "parse=2", "--plot", "a.png", "--out", "a.csv")
    assert result.exit_code == 0 and "written: a.csv" in result.stdout and "written: a.png" in result.stdout
    header, *rows = Path("a.csv").read_text().splitlines()
    assert header.startswith("user,state,tasks before,tasks after") and rows[1].startswith("parse,loses,")
    assert Path("a.png").stat().st_size > 5000
    assert run("--limit", "parse=2", "--out", "a.json", "--json").exit_code == 0
    assert json.loads(Path("a.json").read_text())["changes"] == ["task limit of parse 2 instead of 10"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "no change is given; give one, such as --add SERVER=4"),
        (["--limit", "parse=10"], 2, "nothing changes: the instance is so already"),
        (["--add", "g1"], 2, "give the server and a number, such as a100-00=4"),
        (["--add", "g9=1"], 2, "no server 'g9'"),
        (["--add", "g1=0"], 2, "give a whole number of at least 1"),
        (["--weight", "npl=2"], 2, "did you mean 'nlp'"),
        (["--without", "nlpp"], 2, "did you mean 'nlp'"),
        (["--guarantee", "nlp=gpu:8", "--guarantee", "vision=gpu:9"], 1, "this is after the change (guarantee of"),
        (["--limit", "parse=2", "--out", "a.txt"], 2, "a.txt"),
        (["--limit", "parse=2", "--out", "teams.json"], 2, "is read from this file"),
    ],
)
def test_what_is_refused(run: Any, arguments: list[str], code: int, words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code and words in " ".join(result.stderr.split())


def test_help_has_each_change_once() -> None:
    text = CliRunner().invoke(app, ["what-if", "--help"], env={"COLUMNS": "100"}).stdout
    assert text.count("--weight  ") == 1 and "Changes" in text and "fairopt what-if cluster/ --add a100-00=4" in text
