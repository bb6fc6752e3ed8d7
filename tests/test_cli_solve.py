"""``fairopt solve`` on one screen: what is shown, what is counted as not shown, and files that are always complete."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app

TEAMS = ["vision"] * 4 + ["nlp"] * 4 + ["audio"] * 3 + ["search"] * 3
RESOURCES = ["cpu", "memory", "nvidia.com/gpu", "efa"]
CLUSTER = fo.Instance(
    [[4 + j % 5, 16, j % 3, int(j % 3 == 2)] for j in range(14)],
    [[96, 768, 8, 4]] * 6 + [[64, 256, 0, 0]] * 4 + [[96, 512, 8, 0]] * 5,
    users=[f"{team}/kind-{j}" for j, team in enumerate(TEAMS)],
    resources=RESOURCES,
    teams={"team": TEAMS},
    task_limits=[20.0 + j for j in range(14)],
    held=[float(j % 4) for j in range(14)],
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a cluster of 14 users in 4 teams, and one of 40 users."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fo.datasets.write(CLUSTER, "teams.json")
    demands = [[1 + j % 7, 2 + j % 3, j % 5, 1 + j % 2, j % 4] for j in range(40)]
    many = fo.Instance(demands, [[100, 90, 80, 70, 60], [80, 200, 30, 40, 50]])
    fo.datasets.write(many, "many.json")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["solve", *arguments])

    return invoke


def test_many_users_of_teams_take_one_screen_and_all_is_shown_on_request(run: Any) -> None:
    brief, full = run("teams.json").stdout, run("teams.json", "--all").stdout
    assert len(brief.splitlines()) <= 40 < 100 < len(full.splitlines())
    assert all(user in full for user in CLUSTER.users) and not any(user in brief for user in CLUSTER.users)
    assert "not shown" not in full
    words = " ".join(brief.split())
    assert "not shown: 14 users, 3 of 4 resources, the use of servers; --all shows them, and --out and --json" in words
    answer = fo.HDRF().allocate(CLUSTER)
    for team in dict.fromkeys(TEAMS):
        rows = [j for j, name in enumerate(TEAMS) if name == team]
        (line,) = (line for line in brief.splitlines() if line.startswith(team))
        users, tasks, asked, _, fair, held, apart, waiting = (float(x.replace(",", "")) for x in line.split()[1:])
        assert (users, asked) == (len(rows), CLUSTER.task_limits[rows].sum())
        assert tasks == pytest.approx(answer.tasks[rows].sum(), abs=1e-3)
        gpus = CLUSTER.demands[rows, 2]
        assert fair == pytest.approx(gpus @ answer.tasks[rows], abs=1e-3)
        assert held == gpus @ CLUSTER.held_tasks[rows] and apart == pytest.approx(held - fair, abs=2e-3)
        assert waiting == gpus @ (CLUSTER.task_limits - CLUSTER.held_tasks)[rows]


def test_of_many_users_those_with_the_smallest_and_the_largest_shares_are_shown(run: Any) -> None:
    brief = run("many.json", "-p", "drf").stdout
    names = re.findall(r"^user\d+", brief, re.M)
    assert len(names) == len({*names}) == 12 and "user (12 of 40)" in brief and len(brief.splitlines()) <= 40
    assert "not shown: 28 of 40 users, 2 of 5 resources, the use of servers" in " ".join(brief.split())


def test_files_and_json_are_complete_where_the_screen_is_not(run: Any) -> None:
    for options in ((), ("--all",)):
        assert run("teams.json", *options, "--out", "answer.json").exit_code == 0
        assert len(fo.Allocation.load("answer.json").tasks) == 14
        run("teams.json", *options, "--out", "answer.csv")
        assert [row["user"] for row in csv.DictReader(Path("answer.csv").read_text().splitlines())] == [*CLUSTER.users]
        assert [*json.loads(run("teams.json", *options, "--json").stdout)["tasks"]] == [*CLUSTER.users]


def test_an_answer_that_fits_on_a_screen_is_shown_whole(run: Any) -> None:
    fo.datasets.write(fo.Instance([[1, 2], [2, 1]], [9, 9]), "small.json")
    assert run("small.json").stdout.split("certified")[0] == run("small.json", "--all").stdout.split("certified")[0]
    assert "not shown" not in run("small.json").stdout


def test_what_would_run_is_said_first_beside_what_runs(tmp_path: Path) -> None:
    pool = fo.Instance([[1], [1]], [8], users=["a", "b"], resources=["gpu"], held=[6, 1], task_limits=[8, 8])
    fo.datasets.write(pool, tmp_path / "now.json")
    lines = CliRunner().invoke(app, ["solve", str(tmp_path / "now.json")]).stdout.splitlines()
    assert lines[0] == "DRF would run 8 tasks; 7 run, 1 of 2 users waits below what is fair"


def test_a_table_has_control_characters_as_the_terminal_shows_them(tmp_path: Path) -> None:
    pool = fo.Instance([[1], [1]], [8], users=["=a\x1b[31m", "b\u202e"], resources=["gpu"])
    fo.datasets.write(pool, tmp_path / "pool.json")
    CliRunner().invoke(app, ["solve", str(tmp_path / "pool.json"), "--out", str(tmp_path / "out.csv")])
    rows = [*csv.reader((tmp_path / "out.csv").open(encoding="utf-8"))]
    assert [row[0] for row in rows[1:]] == ["'=a\\x1b[31m", "b\\u202e"]


def test_what_is_in_use_begins_with_the_resource_of_the_table() -> None:
    cluster = fo.Instance(
        [[1, 1], [1, 4], [0, 4]], [8, 16], users=["a", "b", "c"], resources=["gpu", "efa"], task_limits=[2, 9, 9]
    )
    assert fo.report.in_use(fo.DRF().allocate(cluster)) == "47% of gpu is in use; efa is used up (all 16)."
