"""INPUT of the commands: standard input, and users whose tasks fit on no server."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app, inputs

SMALL = json.dumps({"demands": [[1]], "capacities": [4], "users": ["a"]})
YAML = "demands: [[1]]\ncapacities: [4]\nusers: [a]\n"


def run(*arguments: str, given: str | None = None) -> Any:
    return CliRunner().invoke(app, [*arguments], input=given)


@pytest.fixture(autouse=True)
def _here(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "user"),
    [
        (SMALL, "a"),
        ("\ufeff" + SMALL, "a"),
        (YAML, "a"),
    ],
)
def test_a_dash_is_standard_input_of_any_kind(text: str, user: str) -> None:
    result = run("solve", "-", "-p", "drf", "--json", given=text)
    assert result.exit_code == 0, result.output
    assert [*json.loads(result.stdout)["tasks"]] == [user]


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "-", "-p", "drf"),
        ("frontier", "-", "-f", "fds", "--alpha", "0,1"),
        ("buy", "-"),
        ("convert", "-", "out.json"),
        ("plot", "-", "-p", "drf"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_reads_it(command: tuple[str, ...], tmp_path: Any) -> None:
    result = run(*command, given=SMALL)
    assert result.exit_code == 0, result.output
    if command[0] == "plot":
        assert (tmp_path / "input-shares.png").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "standard input is empty: the command before it wrote nothing; pipe JSON or YAML into it"),
        (" \n", "standard input is empty"),
        ("No resources found", "standard input holds one value"),
        ("{} {}", "line 1, column 4: Extra data; give one object; 'jq -s add' makes one of several"),
        ('{"kind": "List"', "the file seems to be truncated"),
        ("[1]", "the text does not start with '{'; expected an instance with the keys"),
        ("{}", "standard input: demands is missing"),
        ('{"x": []}', "standard input is none of the kinds that are read: its keys are 'x'; expected"),
        ("\x00\x01", "standard input"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, message: str) -> None:
    result = run("solve", "-", given=text)
    assert result.exit_code == 2 and message in " ".join(result.stderr.split()), result.output
    assert "Traceback" not in result.output


def test_a_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        closed = False

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    with pytest.raises(fo.errors.InvalidInstance, match="standard input is a terminal; pipe JSON or YAML into it"):
        fo.read("-")


# -- tasks that fit on no server ------------------------------------------------------------------------------

LARGE = fo.Instance(
    [[4, 16], [2, 1]], [[64, 8], [32, 4]], users=["ml", "web"], resources=["cpu", "gpu"], task_limits=[3, 20]
)
LINE = (
    "no server can run a task of ml (16 gpu a task; the largest server has 8): it gets nothing; --divisible shares as "
    "if tasks could be split"
)


@pytest.fixture
def large() -> str:
    fo.datasets.write(LARGE, "large.json")
    return "large.json"


@pytest.mark.parametrize(
    "command",
    [
        ("solve", "-p", "drf"),
        ("compare", "-p", "drf", "-p", "most-tasks"),
        ("frontier", "-f", "fds", "--alpha", "0,1"),
        ("buy",),
    ],
    ids=lambda command: command[0],
)
def test_below_every_table_stands_who_gets_nothing_and_why(large: str, command: tuple[str, ...]) -> None:
    result = run(command[0], large, *command[1:])
    assert result.exit_code == 0, result.output
    assert " ".join(result.stdout.split()).endswith(LINE)
    again = run(command[0], large, *command[1:], "--divisible")
    assert again.exit_code == 0 and "no server can run" not in again.output


def test_the_commands_give_them_nothing_and_the_rest_as_if_they_were_not_there(large: str) -> None:
    data = json.loads(run("solve", large, "-p", "drf", "--json").stdout)
    assert data["tasks"] == {"ml": 0.0, "web": pytest.approx(12.0)}
    assert LINE in data["notes"]
    result = run("solve", large, "-p", "drf", "--json")
    assert f"note: {LINE}" in " ".join(result.stderr.split())
    divisible = json.loads(run("solve", large, "-p", "drf", "--json", "--divisible").stdout)
    assert divisible["tasks"]["ml"] == pytest.approx(fo.DRF().allocate(LARGE).tasks[0]) and not divisible["notes"]


def test_a_cluster_where_no_task_fits_is_refused_with_the_way_out() -> None:
    fo.datasets.write(fo.Instance([[16]], [8]), "none.json")
    result = run("solve", "none.json")
    assert result.exit_code == 2
    said = "none.json: no server can run a task of user1 (16 resource1 a task; the largest server has 8); --divisible"
    assert said in " ".join(result.stderr.split())
    assert (
        run("solve", "none.json", "--divisible").exit_code == run("solve", "none.json", "--pooled").exit_code - 2 == 0
    )


def test_conversion_and_python_leave_the_limits_as_they_are(large: str) -> None:
    assert run("convert", large, "out.yaml").exit_code == 0
    assert fo.read("out.yaml") == fo.read(large) == LARGE


def test_an_answer_is_verified_against_the_input_as_the_command_shared_it(large: str) -> None:
    assert run("solve", large, "-p", "drf", "--out", "answer.json").exit_code == 0
    assert run("verify", "answer.json", "--input", large).exit_code == 0
    assert run("verify", "answer.json", "--input", large, "--divisible").exit_code == 1


QUOTAS = json.dumps(
    {
        "demands": [[1], [1]],
        "capacities": [12],
        "resources": ["gpu"],
        "users": ["a", "b"],
        "teams": {"team": ["A", "B"]},
        "guarantees": {"A": {"gpu": 8}, "B": {"gpu": 8}},
    }
)


def test_guarantees_that_do_not_fit_are_reduced_on_request_and_the_answer_says_so() -> None:
    refused = run("solve", "-", "--json", given=QUOTAS)
    assert refused.exit_code == 1 and "--fit-guarantees" in refused.stdout
    for how, tasks in (("scale", [6, 6]), ("A,B", [8, 4]), ("B", [4, 8])):
        shown = json.loads(run("solve", "-", "--fit-guarantees", how, "--json", given=QUOTAS).stdout)
        assert [*shown["tasks"].values()] == pytest.approx(tasks)
        assert "guarantees that did not fit together were reduced" in shown["notes"][-1]
    wrong = run("solve", "-", "--fit-guarantees", "C", given=QUOTAS)
    assert wrong.exit_code == 2 and "'C', which is no user or team" in wrong.stderr


@pytest.mark.parametrize("command", [("why",), ("compare", "-p", "drf", "-p", "hdrf"), ("convert",)])
def test_other_commands_reduce_guarantees_too(command: tuple[str, ...]) -> None:
    name, *options = command
    made = run(name, "-", *(["out.json"] if name == "convert" else []), *options, "--fit-guarantees", "A", given=QUOTAS)
    assert made.exit_code == 0 and "in the order A: team 'B' from 8 to 4 gpu" in made.stderr


def test_what_if_fits_guarantees_before_and_after_a_change_of_what_was_given() -> None:
    change = ("what-if", "-", "--guarantee", "A=4gpu", "--fit-guarantees", "scale", "--json")
    found = json.loads(run(*change, given=QUOTAS).stdout)
    assert [found["users"][user]["tasks"]["before"] for user in "ab"] == pytest.approx([6, 6])
    assert [found["users"][user]["tasks"]["after"] for user in "ab"] == pytest.approx([4, 8])


def test_a_limit_in_units_is_of_a_team_at_every_policy() -> None:
    teams = json.dumps({**json.loads(QUOTAS), "guarantees": {}})
    for policy in ("drf", "hdrf"):
        shown = json.loads(run("solve", "-", "-p", policy, "--limit", "A=3gpu", "--json", given=teams).stdout)
        assert shown["tasks"] == pytest.approx({"a": 3, "b": 9})
    found = json.loads(run("what-if", "-", "-p", "hdrf", "--limit", "A=3gpu", "--json", given=teams).stdout)
    assert found["changes"] == ["limit on gpu of A 3 instead of none"]
    refused = run("solve", "-", "-p", "hdrf", "-c", "MaxShare('A=3gpu')", given=teams)
    assert refused.exit_code == 2 and "--limit vision=16gpu" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cpu"], "'cpu' has no name and amount; give such as --capacity cpu=64"),
        (["cpu=2Gib"], 'the capacity of "cpu" is "2Gib"; write 2Gi'),
        (["cpu=0"], "give an amount above 0"),
        (["cpu=1", "cpu=2"], "--capacity gives 'cpu' twice; keep one"),
    ],
    ids=lambda words: str(words),
)
def test_a_wrong_capacity_is_refused(tmp_path: Any, words: list[str], message: str) -> None:
    (tmp_path / "jobs.csv").write_text("user,arrival,duration,cpu [core]\na,0,10,2\n")
    result = run("simulate", "jobs.csv", *(one for word in words for one in ("--capacity", word)))
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())


def test_jobs_are_simulated_on_a_capacity(tmp_path: Any) -> None:
    (tmp_path / "jobs.csv").write_text("user,arrival,duration,tasks,cpu [core],gpu\na,0,10,4,2,1\n")
    result = run("simulate", "jobs.csv", "--capacity", "cpu=4", "--capacity", "gpu=8", "-p", "drf", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["policies"]["DRF"]["makespan"] == 20  # two tasks of two cores at a time


def test_options_of_readers_that_are_missing_name_their_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_MISSING", ("capacity_scale",))
    with pytest.raises(fo.errors.MissingExtra, match=r"--capacity-scale needs fairopt-clusters, .*: pip install"):
        inputs._as_given("capacity_scale", "2")
