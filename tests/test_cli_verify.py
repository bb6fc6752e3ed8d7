"""``fairopt verify``: statements, faults, JSON and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app

CLUSTER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal in a folder with a proved answer, one of more tasks than fit, and what is no answer."""
    monkeypatch.chdir(tmp_path)
    answer = fo.DRF().allocate(CLUSTER).save("drf.json")
    fo.datasets.write(CLUSTER, "cluster.json")
    fo.datasets.write(CLUSTER.with_weights([1, 2]), "other")
    changed = json.loads(answer.read_text()) | {"tasks_by_server": [[2.5], [12.6]]}
    Path("changed.json").write_text(json.dumps(changed))
    Path("cut.json").write_text(answer.read_text()[:100])

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["verify", *arguments])

    return invoke


def test_a_proved_answer_is_said_to_be(run: Any) -> None:
    result = run("drf.json")
    assert result.exit_code == 0 and "e-60 of Leximin()" in result.stdout
    assert " of Leximin(), for 2 users, 1 server, 3 resources (SHA-256 " in result.stdout


def test_the_cluster_of_an_answer_is_compared_with_the_readers(run: Any) -> None:
    assert run("drf.json", "--input", "cluster.json").exit_code == 0
    result = run("drf.json", "--input", "other")
    assert result.exit_code == 1 and "user 'user2': weight 1.0 in the file, 2.0 in the instance given" in result.stdout
    assert run("drf.json", "--input", "other", "--weight", "user2=1").exit_code == 0


def test_a_time_limit_is_said_to_be_over(run: Any) -> None:
    result = run("drf.json", "--time-limit", "1e-9")
    assert result.exit_code == 1 and "not proved in 1e-09 s: nothing is proved yet" in result.stdout
    assert run("drf.json", "--time-limit", "0").exit_code == 2


def test_what_is_wrong_is_said_of_each_file(run: Any) -> None:
    result = run("drf.json", "changed.json", "cut.json")
    assert result.exit_code == 1
    assert "drf.json: proved" in result.stdout and "changed.json: not feasible" in result.stdout
    assert "'resource1' on server 0: tasks exceed the capacity by 0.004 of it" in result.stdout
    assert "cut.json: not proved" in result.stdout


def test_a_missing_file_ends_the_command_before_it_proves_others(run: Any) -> None:
    result = run("drf.json", "none.json")
    assert result.exit_code == 2 and "no file none.json" in result.output and "proved" not in result.stdout


def test_json_has_an_entry_for_each_file(run: Any) -> None:
    result = run("drf.json", "changed.json", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)["files"]
    assert [one["ok"] for one in found] == [True, False] and len(found[1]["faults"]) == 1


def test_a_file_of_an_earlier_version_is_upgraded(run: Any) -> None:
    old = Path(__file__).parent / "data" / "pool-sum.json"
    result = run(str(old), "--upgrade", "new.json")
    assert result.exit_code == 0 and "proved" in result.stdout
    assert json.loads(Path("new.json").read_text())["format"] == "fairopt.allocation/4"
    assert run("drf.json", "drf.json", "--upgrade", "new.json").exit_code == 2
