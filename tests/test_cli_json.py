"""The JSON of every command, of answers and of errors, against the published schemas."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.cli.application import COMMANDS
from fairopt.report.files import SCHEMAS

CASES: dict[str, list[str]] = {
    "solve": ["cluster.json", "-p", "drf"],
    "compare": ["teams.json", "-p", "hdrf", "-p", "drf", "-p", "kdf:k=5"],
    "policies": [],
    "solvers": [],
    "demo": ["--folder", "demo"],
    "audit": ["drf", "--property", "pareto", "--max-examples", "2"],
    "replay": ["found.json"],
    "buy": ["cluster.json"],
    "certify": ["model.py:problem", "--out", "proof.json"],
    "claims": ["--paper", "DRFH"],
    "convert": ["teams.json", "out.json"],
    "frontier": ["cluster.json", "-f", "kdf", "--k", "1,2"],
    "library": ["--tag", "paper"],
    "plot": ["cluster.json", "-p", "drf"],
    "prefer": ["options.csv", "rankings.csv", "--beta", "1,2", "--lam", "0,1"],
    "prove": ["-p", "most-tasks", "--resources", "2", "--property", "si", "--users", "2"],
    "simulate": ["jobs.csv", "--servers", "servers", "-p", "drf", "-p", "easy"],
    "verify": ["answer.json"],
    "diff": ["answer.json", "later.json"],
    "what-if": ["teams.json", "-p", "drf", "--add", "n1=1"],
    "why": ["teams.json"],
}
FAILURES: dict[str, tuple[list[str], int, str, str]] = {
    "no file": (["solve", "none.json"], 2, "InvalidInstance", "none.json cannot be read (No such file or directory)"),
    "no policy": (
        ["why", "cluster.json", "-p", "dfr"],
        2,
        "InvalidBlock",
        "no policy 'dfr'; did you mean 'kdf' or 'drf'",
    ),
    "infeasible": (["solve", "cluster.json", "-c", "MinTasks('web=99')"], 1, "Infeasible", "the capacity of cpu"),
    "option": (["solve", "cluster.json", "--polcy", "drf"], 2, "NoSuchOption", "No such option: --polcy"),
    "command": (["slove", "cluster.json"], 2, "UsageError", "No such command 'slove'"),
    "argument": (["verify", "none.json"], 2, "BadParameter", "no file none.json"),
    "file": (["convert", "cluster.json", "no/such/folder.json"], 2, "FileNotFoundError", "no/such"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small inputs of all commands."""
    path = tmp_path_factory.mktemp("inputs")
    resources, users = ["cpu", "gpu"], ["train", "web", "tune"]
    plain = fo.Instance([[4, 1], [1, 0], [2, 1]], [32, 4], users=users, resources=resources)
    fo.datasets.write(plain, path / "cluster.json")
    fo.datasets.write(plain, path / "servers")
    rich = fo.Instance(
        [[4, 1], [1, 0], [2, 1]],
        [[32, 4], [32, 4], [8, 0]],
        users=users,
        resources=resources,
        servers=["n1", "n2", "n3"],
        counts=[1, 2, 1],
        server_types=["A100", "A100", "none"],
        units={"cpu": "core"},
        teams={"team": ["vision", None, "vision"]},
        task_limits=[100, np.inf, 20],
        weights={"vision": 2},
        guarantees={"web": 1, "vision": {"gpu": 1}},
        held=[[1, 0, 0], [0, 0, 3], [2, 0, 0]],
        notes=["made for a test"],
    )
    fo.datasets.write(rich, path / "teams.json")
    fo.DRF().allocate(plain).save(path / "answer.json")
    fo.DRF().allocate(plain.replace(capacities=[40, 4], weights=[1, 2, 1])).save(path / "later.json")
    fo.prove(fo.MostTasks(), "si", resources=2, users=2).proofs[0].export(path / "found.json")
    (path / "jobs.csv").write_text("user,team,arrival,duration,cpu,gpu\nweb,a,0,5,1,0\ntune,b,1,5,2,1\n")
    (path / "options.csv").write_text("question,option,a,b\n1,x,2,2\n1,y,1,4\n1,z,3,0\n")
    model = "import cvxpy as cp\nx = cp.Variable(name='x')\nproblem = cp.Problem(cp.Minimize(x), [x >= 1])\n"
    (path / "model.py").write_text(model)
    (path / "rankings.csv").write_text("person,question,option,rank\np,1,x,1\np,1,y,2\np,1,z,3\n")
    return path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    return lambda *words: CliRunner().invoke(app, [*words, "--json"])


def checked(text: str) -> Any:
    """The data of a JSON document, valid under the schema of its format."""
    data = json.loads(text)
    jsonschema.validate(data, fo.report.schema(data["format"]))
    return data


def test_every_command_takes_json_and_has_a_case_here() -> None:
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    assert set(CASES) == set(COMMANDS) <= set(commands)
    assert [name for name, one in commands.items() if "--json" not in {o for p in one.params for o in p.opts}] == []


def test_schemas_are_valid_and_each_is_of_a_command() -> None:
    for file in SCHEMAS.glob("*.json"):
        schema = json.loads(file.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        assert fo.report.schema(schema["title"]) == schema
    with pytest.raises(fo.errors.InvalidBlock, match=r"no format 'fairopt.anser/1'; did you mean 'fairopt.answer/1'"):
        fo.report.schema("fairopt.anser/1")


@pytest.mark.parametrize("command", CASES)
def test_the_json_of_a_command_is_valid_under_its_schema(
    run: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairopt.cli.commands.find_spec", lambda _: None)  # no pictures of the demonstration
    result = run(command, *CASES[command])
    assert result.exit_code == {"compare": 1}.get(command, 0), result.output
    data = checked(result.stdout)
    if command == "demo":
        checked(json.dumps(data["comparison"]))


@pytest.mark.parametrize("case", FAILURES)
def test_errors_are_json_with_the_text_and_the_exit_code(run: Any, case: str) -> None:
    words, code, kind, text = FAILURES[case]
    result = run(*words)
    data = checked(result.stdout)
    assert (result.exit_code, data["exit_code"], data["error"]) == (code, code, kind)
    assert data["format"] == "fairopt.error/1" and text in data["message"]
    assert result.stderr and result.exception.__class__ is SystemExit


def test_a_file_that_cannot_be_written_after_the_answer_leaves_one_document(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "a.json")

    monkeypatch.setattr("fairopt.report.files.write_allocation", full)
    result = run("solve", "cluster.json", "--out", "a.json")
    assert result.exit_code == 2 and "No space left" in result.stderr
    assert checked(result.stdout)["format"] == "fairopt.answer/1"


def test_the_json_of_solve_holds_variables_and_multipliers_of_blocks(run: Any, folder: Path) -> None:
    (folder / "capped.py").write_text(
        "import fairopt as fo\n"
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True, repr=False)\n"
        "class Capped(fo.Constraint):\n"
        "    def constraints(self, model):\n"
        "        most = model.variable(2, name='most', lower=0, upper=9)\n"
        "        model.require('cap', most <= 1)\n"
        "        return {'below': model.tasks[:2] <= most}\n"
        "MINE = fo.Policy(fo.Total(fo.Tasks()), [Capped()])\n"
    )
    data = checked(run("solve", "cluster.json", "-p", "capped.py:MINE", "--divisible").stdout)
    assert data["variables"]["most"] == pytest.approx([1, 1])
    assert data["multipliers"].keys() == {"cap", "below"} and len(data["multipliers"]["cap"]) == 2
    assert checked(run("solve", "cluster.json", "-p", "drf").stdout)["variables"] == {}


def test_exact_tasks_are_fractions_as_text_in_json_and_in_the_table(run: Any) -> None:
    found = checked(run("solve", "cluster.json", "-p", "drf", "--exact").stdout)
    assert {user: {s: float(Fraction(x)) for s, x in of.items()} for user, of in found["exact_tasks"].items()} == (
        found["placement"]
    )
    assert found["certificate"]["gap"] == 0 and found["certificate"]["method"] == "exact"
    assert checked(run("solve", "cluster.json", "-p", "drf").stdout)["exact_tasks"] is None


def test_the_json_of_solve_holds_the_instance_and_the_answer(run: Any) -> None:
    data = checked(run("solve", "teams.json", "-p", "hdrf").stdout)
    instance = fo.read("teams.json")
    answer = fo.HDRF().allocate(instance)
    train = data["users"]["train"]
    assert (train["teams"], train["limit"], train["demands"]) == ({"team": "vision"}, 100, {"cpu": 4, "gpu": 1})
    assert (data["users"]["web"]["limit"], data["users"]["web"]["guarantee"]) == (None, 1)
    assert (train["servers"], data["users"]["web"]["servers"]) == (["n1", "n2"], ["n1", "n2", "n3"])
    assert train["usage"] == {"cpu": 4 * data["tasks"]["train"], "gpu": data["tasks"]["train"]}
    assert data["shares"] == dict(zip(instance.users, answer.shares.tolist(), strict=True))
    assert (data["servers"]["n2"]["count"], data["servers"]["n2"]["type"]) == (2, "A100")
    used = sum(server["usage"]["cpu"] for server in data["servers"].values())
    assert used == pytest.approx(sum(user["usage"]["cpu"] for user in data["users"].values()))
    vision = data["teams"]["team"]["vision"]
    assert (vision["users"], vision["weight"], vision["guarantee"]) == (["train", "tune"], 2, {"gpu": 1})
    assert vision["tasks"] == data["tasks"]["train"] + data["tasks"]["tune"]
    assert data["notes"] == list(instance.notes) and data["instance"]["servers"] == 4
