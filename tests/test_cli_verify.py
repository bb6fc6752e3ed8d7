"""``fairopt verify``: statements, faults, JSON and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal in a folder with a proved answer, one of more tasks than fit, and what is no answer."""
    monkeypatch.chdir(tmp_path)
    answer = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).save("drf.json")
    changed = json.loads(answer.read_text()) | {"tasks_by_server": [[2.5], [12.6]]}
    Path("changed.json").write_text(json.dumps(changed))
    Path("cut.json").write_text(answer.read_text()[:100])

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["verify", *arguments])

    return invoke


def test_a_proved_answer_is_said_to_be(run: Any) -> None:
    result = run("drf.json")
    assert result.exit_code == 0 and result.stdout == "proved: gap <= 0.0e+00 of Leximin()\n"


def test_what_is_wrong_is_said_of_each_file(run: Any) -> None:
    result = run("drf.json", "changed.json", "cut.json", "none.json")
    assert result.exit_code == 1
    assert "drf.json: proved" in result.stdout and "changed.json: not feasible" in result.stdout
    assert "'resource1' on server 0: tasks exceed the capacity by 0.004 of it" in result.stdout
    assert "cut.json: not proved" in result.stdout and "none.json: not proved" in result.stdout


def test_json_has_an_entry_for_each_file(run: Any) -> None:
    result = run("drf.json", "changed.json", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [one["ok"] for one in found] == [True, False] and len(found[1]["faults"]) == 1
