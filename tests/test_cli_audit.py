"""``fairopt audit`` and ``fairopt replay``: what is typed, what is shown, and the ways to get it wrong."""

import json
from pathlib import Path
from typing import Any

import forked
import pytest
from typer.testing import CliRunner, Result

import fairopt.cli.audit  # noqa: F401  (which registers both commands)
from fairopt.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    return invoke


def test_an_audit_shows_verdicts_and_witnesses(run: Any) -> None:
    done = run("audit", "2df", "--property", "si", "--property", "pe", "--max-examples", "200", "--positive")
    assert done.exit_code == 0, done.output
    assert "2-DF under positive demands" in done.stdout and "refuted" in done.stdout
    assert "exact fractions" in done.stdout and "not refuted on 200 instances" in done.stdout


def test_json_is_all_there_is_on_stdout(run: Any) -> None:
    done = run("audit", "most-tasks", "--property", "sp", "--max-examples", "100", "--json")
    told = json.loads(done.stdout)
    assert told["findings"][0]["refuted"] and told["findings"][0]["witness"]["misreport"]


def test_lies_may_be_boosts_only(run: Any) -> None:
    done = run("audit", "2df", "--property", "sp-boosting", "--positive", "--max-examples", "100", "--json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["property"] == "strategy-proof-boosting" and not finding["refuted"]


def test_what_is_saved_can_be_replayed(run: Any, tmp_path: Path) -> None:
    done = run("audit", "fds:alpha=0.5", "--property", "ef", "--save", "found.json", "--max-examples", "600")
    assert done.exit_code == 0 and "written: found.json" in done.stdout
    again = run("replay", "found.json")
    assert again.exit_code == 0 and "still refutes" in again.stdout
    assert json.loads(run("replay", "found.json", "--json").stdout)["counterexamples"][0]["refutes"] is True
    assert run("replay", "found.json", "--policy", "drf").exit_code == 1
    data = json.loads((tmp_path / "found.json").read_text())
    del data["digest"]
    data["findings"][0]["witness"]["instance"]["demands"] = [[1.0], [1.0]]
    data["findings"][0]["witness"]["instance"].update(capacities=[[1.0]], resources=["r"])
    (tmp_path / "found.json").write_text(json.dumps(data))
    edited = run("replay", "found.json")
    assert edited.exit_code == 1 and "no longer refutes" in edited.stdout


def test_a_file_in_which_nothing_was_refuted_says_so(run: Any) -> None:
    assert run("audit", "drf", "--property", "pe", "--max-examples", "40", "--save", "drf.json").exit_code == 0
    assert "the audit refuted no property" in run("replay", "drf.json").stdout


def test_ones_own_policy_that_fails_is_reported(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    def allocate(self, instance):\n        raise ValueError('not today')\n"
    )
    done = run("audit", "mine.py:Mine", "--property", "pe", "--max-examples", "10")
    assert done.exit_code == 1 and "not today" in done.stderr and "no instance was answered" in done.stdout


def test_ctrl_c_shows_what_is_known(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairopt.properties.audit.audit import PropertySearch

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PropertySearch, "_prove", stop)
    done = run("audit", "2df", "--property", "si")
    assert done.exit_code == 130 and "refuted" in done.stdout and "stopped by Ctrl-C" in done.stderr


SHARE = """
from dataclasses import dataclass
import numpy as np
import fairopt as fo

@dataclass(frozen=True, repr=False)
class Work(fo.Share):
    def per_task(self, instance):
        return np.ones(instance.n_users) if instance.rates is None else instance.rates
"""


def test_users_may_compare_a_share_instead_of_tasks(run: Any, tmp_path: Path) -> None:
    options = ("--property", "pe", "--servers", "2", "--limits", "--max-examples", "40", "--save", "found.json")
    done = run("audit", "Leximin(Tasks())", "--share", "ThroughputShare()", *options)
    assert done.exit_code == 0 and "by ThroughputShare()" in done.stdout and "refuted" in done.stdout
    again = run("replay", "found.json")
    assert again.exit_code == 0 and "still refutes" in again.stdout
    (tmp_path / "mine.py").write_text(SHARE)
    done = run("audit", "Leximin(Tasks())", "--share", "mine.py:Work", *options)
    assert done.exit_code == 0 and "could have a Work()" in done.stdout
    unknown = run("replay", "found.json")
    assert unknown.exit_code == 2 and "not one of fairopt's shares" in unknown.stderr
    assert run("replay", "found.json", "--share", "mine.py:Work").exit_code == 0


WRONG = {
    "share": (["audit", "drf", "--share", "Tasks"], "is not a block or a number"),
    "no share": (["audit", "drf", "--share", "Leximin()"], "is not a share; write one such as ThroughputShare()"),
    "property": (["audit", "drf", "--property", "fair"], "no property 'fair'"),
    "policy": (["audit", "dfr"], "no policy 'dfr'"),
    "no examples": (["audit", "drf", "--max-examples", "0"], "max_examples is 0"),
    "condition": (["audit", "drf", "--condition", "calm"], "no condition 'calm'"),
    "no folder": (["audit", "drf", "--save", "nowhere/x.json"], "create the folder nowhere first"),
    "no servers": (["audit", "drf", "--servers", "0"], "servers is 0"),
    "ending": (["audit", "drf", "--save", "x.csv"], "ends in .json"),
    "no file": (["replay", "nowhere.json"], "nowhere.json cannot be read (No such file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_in_one_line(run: Any, case: str) -> None:
    arguments, words = WRONG[case]
    done = run(*arguments)
    assert done.exit_code == 2 and words in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_clusters_of_several_servers_are_drawn_on_request(run: Any) -> None:
    done = run("audit", "drfh", "--property", "ef", "--servers", "2", "--max-examples", "8")
    assert done.exit_code == 0 and "drawn clusters of 2 to 2 servers" in done.stdout
    assert "one pool, 2 to 5 users" in run("audit", "drfh", "--property", "ef", "--max-examples", "40").stdout


def test_what_is_found_is_kept_when_a_mechanism_does_not_come_back(tmp_path: Path) -> None:
    """Python hears Ctrl-C only between calls of compiled code; what is known by then is shown and saved.

    The first property asks for 226 to 290 answers, a look at randomness and speed included, the second for 200 more.
    """
    (tmp_path / "slow.py").write_text(
        "import fairopt as fo\n"
        "class Slow:\n"
        "    name, calls = 'slow', 0\n"
        "    def allocate(self, instance):\n"
        "        self.calls += 1\n"
        "        if self.calls > 300:\n"
        "            print('here', flush=True)\n"
        "            import numpy as np\n"
        "            np.linalg.svd(np.random.default_rng(0).random((6000, 6000)))\n"
        "        return fo.DRF().allocate(instance)\n"
        "SLOW = Slow()\n"
    )
    command = ["audit", "slow.py:SLOW", "--property", "si", "--property", "pe", "--max-examples", "200"]
    program = forked.Program("-m", "fairopt", *command, "--save", "known.json", folder=tmp_path)
    program.wait_for("here", program.err)
    program.interrupt()
    done = program.done()
    assert done.returncode == 130 and "sharing-incentive" in done.stdout
    assert json.loads((tmp_path / "known.json").read_text())["findings"][0]["property"] == "sharing-incentive"


def test_the_time_limit_shows_what_was_found(run: Any) -> None:
    done = run("audit", "drf", "--property", "sp", "--max-examples", "1000000", "--time-limit", "0.05")
    assert done.exit_code == 0 and "(time limit)" in done.stdout
    assert "time_limit is 0" in run("audit", "drf", "--time-limit", "0").stderr
