"""The command line: what a newcomer types, what a program reads, and every way to get it wrong."""

import csv
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app, progress

OWN_NOTION = """
import fairopt as fo

MINE = fo.Policy(fo.AlphaFair(2) + 0.1 * fo.Total(fo.Tasks()), constraints=[fo.SharingIncentive()])
TEXT = "no policy"


def make() -> fo.Policy:
    return fo.KDF(2)


class interrupted:
    name = "stops"

    def allocate(self, instance, **options):
        raise KeyboardInterrupt


class exits:
    def allocate(self, instance, **options):
        raise SystemExit(0)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a small cluster in both formats."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    two = fo.Instance(
        [[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"], resources=["bandwidth", "memory", "cpu"]
    )
    fo.datasets.write(two, tmp_path / "cluster")
    fo.datasets.write(two, tmp_path / "cluster.json")
    fo.datasets.write(fo.Instance([[1, 0], [1, 1]], [2, 2]), tmp_path / "sparse.json")
    fo.datasets.write(fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]]), tmp_path / "servers.json")
    typed = fo.Instance([[2, 1], [1, 0]], [[12, 4], [30, 0], [6, 8]], server_types=["T4", "no GPU", "T4"])
    fo.datasets.write(typed, tmp_path / "typed")
    (tmp_path / "notions.py").write_text(OWN_NOTION)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    yield invoke
    sys.modules.pop("notions", None)


def one_line(result: Result) -> str:
    """The only line on stderr; nothing went to stdout, and there is no traceback."""
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


# -- solve ----------------------------------------------------------------------------------------------------


def test_weights_and_constraints_are_options(run: Any) -> None:
    told = json.loads(run("solve", "cluster", "--weight", "web=3", "--json").stdout)
    cluster = fo.read("cluster")
    tasks = fo.DRF().allocate(cluster.with_weights({"web": 3})).tasks
    assert told["tasks"] == dict(zip(cluster.users, tasks, strict=True))
    told = json.loads(run("solve", "cluster", "-p", "most-tasks", "-c", "SharingIncentive()", "--json").stdout)
    assert told["policy"] == "most tasks under SharingIncentive()"
    assert told["tasks"] == pytest.approx({"batch": 2.5, "web": 12.5})
    both = json.loads(run("compare", "cluster", "-p", "drf", "-p", "most-tasks", "-c", "MaxTasks(2)", "--json").stdout)
    assert [row["ntt"] for row in both["rows"]] == pytest.approx([4, 4])


def test_a_constraint_is_named_in_a_file_as_a_policy_is(run: Any, tmp_path: Path) -> None:
    text = "import fairopt as fo\nFEW = fo.MaxTasks(2)\ndef make() -> fo.Constraint:\n    return FEW\nNUMBER = 3\n"
    (tmp_path / "cons.py").write_text(text)
    for name in ("FEW", "make"):
        told = json.loads(run("solve", "cluster", "-c", f"cons.py:{name}", "--json").stdout)
        assert told["tasks"] == pytest.approx({"batch": 2, "web": 2})
    assert "did you mean 'FEW'" in run("solve", "cluster", "-c", "cons.py:FEWW").stderr
    assert "int, not a constraint" in run("solve", "cluster", "-c", "cons.py:NUMBER").stderr
    assert "a constraint is not a policy; put it in one" in run("solve", "cluster", "-p", "cons.py:FEW").stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--weight", "wob=2"], "unknown user 'wob'; did you mean 'web'"),
        (["--weight", "web"], "as web=2"),
        (["--weight", "web=-1"], "'web'"),
        (["-c", "Tasks()"], "'Tasks()' is not a constraint"),
        (["-p", "ps-dsf", "-c", "MaxTasks(2)"], "PS-DSF is not made of blocks"),
        (["-c", "MaxTasks("], "MaxTasks("),
        (["-c", "FEW"], "(FEW is not a block or a number); write one such as MaxShare(0.3)"),
        (["-c", "nowhere.py:FEW"], "no file 'nowhere.py'"),
    ],
)
def test_weights_and_constraints_that_are_none_are_refused(run: Any, options: list[str], told: str) -> None:
    refused = run("solve", "cluster", *options)
    assert refused.exit_code == 2 and told in one_line(refused)


def test_the_package_runs_as_a_module() -> None:
    done = forked.run("-m", "fairopt", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"fairopt {fo.__version__}")


@pytest.mark.parametrize("path", ["cluster", "cluster.json"])
def test_solve_shows_tasks_and_the_certificate(run: Any, path: str) -> None:
    result = run("solve", path, "--policy", "drf")
    assert result.exit_code == 0
    assert "batch   2.500" in result.stdout
    assert "DRF: 15 tasks; certified: gap" in result.stdout
    assert result.stderr == ""


def test_solve_prints_json_and_nothing_else(run: Any) -> None:
    result = run("solve", "cluster", "--policy", "2df", "--json")
    told = json.loads(result.stdout)
    assert told["tasks"] == pytest.approx({"batch": 25 / 13, "web": 200 / 13})
    assert told["certificate"]["ok"] is True
    assert told["prices"]["pool"]["bandwidth"] > 0
    assert result.stderr == ""


def test_what_solvers_print_never_reaches_stdout(tmp_path: Path, run: Any) -> None:
    command = ["-m", "fairopt", "solve", "cluster", "-p", "fds:alpha=1", "--solver", "clarabel"]
    done = forked.run(*command, "--verbose", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["certificate"]["solver"] == "CLARABEL"
    assert "Clarabel" in done.stderr


@pytest.mark.parametrize(
    "policy", ["drf", "fds:alpha=2", "AlphaFair(1, KDominantShare(2))", "notions.py:MINE", "notions:make"]
)
def test_every_way_to_name_a_policy_works(run: Any, policy: str) -> None:
    assert run("solve", "cluster", "-p", policy).exit_code == 0


@pytest.mark.parametrize("solver", ["CLARABEL", "scs"])
def test_a_solver_can_be_asked_for(run: Any, solver: str) -> None:
    told = json.loads(run("solve", "cluster", "-p", "drf", "--solver", solver, "--json").stdout)
    assert told["certificate"]["solver"] == solver.upper()


def test_pooled_takes_the_walls_away(run: Any) -> None:
    walls = json.loads(run("solve", "servers.json", "--json").stdout)
    pooled = json.loads(run("solve", "servers.json", "--pooled", "--json").stdout)
    assert walls["metrics"]["ntt"] == pytest.approx(20)
    assert pooled["metrics"]["ntt"] == pytest.approx(14 / 1.2 * 2)
    assert list(pooled["placement"]["user1"]) == ["pool"]


@pytest.mark.parametrize("policy", ["mlf-drs", "ffmra", "h-ffmra", "ps-dsf", "per-server", "per-server:policy=kdf:k=2"])
def test_notions_on_servers_are_known_by_name(run: Any, policy: str) -> None:
    result = run("solve", "servers.json", "-p", policy)
    assert result.exit_code == 0, result.output
    assert "certified: gap" in result.stdout


def test_equal_weights_are_for_notions_that_know_no_other(run: Any, tmp_path: Path) -> None:
    fo.datasets.write(fo.Instance([[1, 2], [2, 1]], [4, 4], weights=[1, 2]), tmp_path / "weighted.json")
    refused = run("solve", "weighted.json", "-p", "h-ffmra")
    assert refused.exit_code == 1
    assert "--equal-weights" in one_line(refused)
    assert run("solve", "weighted.json", "-p", "h-ffmra", "--equal-weights").exit_code == 0
    plain = json.loads(run("compare", "weighted.json", "-p", "drf", "--equal-weights", "--json").stdout)
    assert list(plain["rows"][0]["tasks"].values()) == pytest.approx([4 / 3, 4 / 3])


def test_an_option_that_a_mechanism_does_not_take_is_one_line(run: Any) -> None:
    for policy in ("ps-dsf", "per-server:policy=ps-dsf"):
        result = run("solve", "servers.json", "-p", policy, "--solver", "SCS")
        assert result.exit_code == 2
        assert one_line(result) == "InvalidBlock: PS-DSF takes no solver; leave it out"


@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
def test_what_is_written_can_be_loaded(run: Any, tmp_path: Path, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pyarrow is in the extra parquet")
    result = run("solve", "cluster", "--out", name)
    assert f"written: {name}" in result.stdout
    assert fo.Allocation.load(tmp_path / name).tasks == pytest.approx([2.5, 12.5])


def test_csv_holds_a_line_per_user(run: Any, tmp_path: Path) -> None:
    run("solve", "cluster", "--out", "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [r["user"] for r in rows] == ["batch", "web"]
    assert [float(r["tasks"]) for r in rows] == pytest.approx([2.5, 12.5])
    assert [float(r["bandwidth"]) for r in rows] == pytest.approx([100, 100])


def test_verbose_shows_what_was_tried(run: Any) -> None:
    result = run("solve", "cluster", "-p", "fds:alpha=2", "--solver", "CLARABEL", "--verbose")
    assert "tried CLARABEL: optimal" in result.stdout


# -- compare --------------------------------------------------------------------------------------------------


def test_compare_shows_every_number_of_the_issue(run: Any) -> None:
    result = run("compare", "cluster", "-p", "drf", "-p", "2df")
    assert result.exit_code == 0
    for column in ("tasks", "AUR", "Jain", "least share", "bandwidth", "memory", "cpu", "solved by", "gap", "seconds"):
        assert column in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""


def test_compare_prints_json_and_nothing_else(run: Any) -> None:
    result = run("compare", "cluster", "-p", "drf", "-p", "2df", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert [row["ntt"] for row in rows] == pytest.approx([15, 225 / 13])
    assert result.stderr == ""


def test_compare_with_a_policy_without_an_answer_shows_the_others_and_fails(run: Any) -> None:
    result = run("compare", "sparse.json", "-p", "drf", "-p", "2df")
    assert result.exit_code == 1
    assert "2-DF: OutOfDomain: user 'user1'" in result.stdout
    assert result.stderr == "no certified answer from 1 of 2 policies: 2-DF\n"


def test_compare_json_of_a_policy_without_an_answer_is_json_still(run: Any) -> None:
    result = run("compare", "sparse.json", "-p", "2df", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["rows"][0]["error"].startswith("OutOfDomain")


def test_compare_says_when_everything_fits(run: Any, tmp_path: Path) -> None:
    fo.datasets.write(fo.Instance([[1, 2], [2, 1]], [9, 9], task_limits=[1, 2]), tmp_path / "roomy.json")
    result = run("compare", "roomy.json", "-p", "drf", "-p", "nash")
    assert "everything fits: every user runs all its tasks under each policy" in result.stdout


@pytest.mark.parametrize("name", ["t.json", "t.csv", "t.md"])
def test_compare_writes_the_table(run: Any, tmp_path: Path, name: str) -> None:
    result = run("compare", "cluster", "-p", "drf", "-p", "2df", "--out", name)
    assert f"written: {name}" in result.stdout
    text = (tmp_path / name).read_text()
    assert "2-DF" in text
    if name == "t.json":
        assert len(json.loads(text)["rows"]) == 2
    if name == "t.csv":
        assert len(list(csv.DictReader(text.splitlines()))) == 2


def test_compare_shows_tasks_and_use_by_type_of_server(run: Any) -> None:
    result = run("compare", "typed", "-p", "drf", "-p", "most-tasks")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "Tasks on each type of server: T4 x 2, no GPU x 1" in lines
    assert [line.split() for line in lines].count(["policy", "T4", "no", "GPU"]) == 3
    assert "resource2: fraction used by tasks" in lines
    assert "The table shows the one found" in result.stdout
    assert max(map(len, lines)) <= 80


def test_compare_says_nothing_of_types_where_there_are_none(run: Any) -> None:
    assert "type" not in run("compare", "servers.json", "-p", "drf").stdout
    assert "type" not in run("compare", "typed", "-p", "drf", "--pooled").stdout


def test_compare_writes_use_by_type_to_every_kind_of_file(run: Any, tmp_path: Path) -> None:
    for name in ("t.json", "t.csv", "t.md"):
        run("compare", "typed", "-p", "drf", "--out", name)
    rows = json.loads((tmp_path / "t.json").read_text())["by_server_type"]
    assert [(row["server_type"], row["servers"]) for row in rows] == [("T4", 2), ("no GPU", 1)]
    assert rows == json.loads(run("compare", "typed", "-p", "drf", "--json").stdout)["by_server_type"]
    line = next(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert float(line["tasks on T4"]) == pytest.approx(rows[0]["tasks"])
    assert line["used resource2 on no GPU"] == ""
    assert "| policy | T4 | no GPU |" in (tmp_path / "t.md").read_text()


def test_compare_draws_no_picture_without_an_answer(run: Any, tmp_path: Path) -> None:
    assert run("compare", "sparse.json", "-p", "2df", "--plot", "p.png").exit_code == 1
    assert not (tmp_path / "p.png").exists()


@pytest.mark.parametrize("name", ["p.svg"])
def test_compare_draws(run: Any, tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    assert run("compare", "cluster", "-p", "drf", "-p", "2df", "--plot", name).exit_code == 0
    assert (tmp_path / name).stat().st_size > 1000


def test_compare_without_matplotlib_names_the_pip_line(run: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("compare", "cluster", "-p", "drf", "--plot", "p.png")
    assert result.exit_code == 2
    assert one_line(result).endswith("pip install 'fairopt[plots]'")


# -- what there is --------------------------------------------------------------------------------------------


def test_policies_are_listed_with_how_to_write_your_own(run: Any) -> None:
    result = run("policies")
    assert result.exit_code == 0
    for name in fo.policies.known_policies():
        assert name in result.stdout
    assert "--policy notions.py:MINE" in result.stdout
    assert json.loads(run("policies", "--json").stdout)["policies"][0]["name"] == "drf"


def test_solvers_are_listed_installed_or_not(run: Any) -> None:
    lines = run("solvers").stdout.splitlines()
    assert any(line.split()[:5] == ["CLARABEL", "yes", "yes", "yes", "yes"] for line in lines)
    assert any(line.split()[:5] == ["HIGHS", "yes", "yes", "-", "-"] for line in lines)
    assert any(line.startswith("ECOS ") for line in lines)
    assert {"name", "installed", "power"} <= set(json.loads(run("solvers", "--json").stdout)["solvers"][0])


def test_the_demonstration_tells_its_story_and_leaves_files(run: Any, tmp_path: Path) -> None:
    result = run("demo")
    assert result.exit_code == 0
    assert "Why trust this answer?" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert fo.read(tmp_path / "demo-out" / "cluster") == fo.datasets.demo()


@pytest.mark.parametrize("kind", ["file", "read-only"])
def test_the_demonstration_refuses_a_folder_before_it_solves(
    kind: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairopt.report.comparison.compare", None)  # not to be called
    if kind == "file":
        (tmp_path / "out").write_text("")
    else:
        monkeypatch.setattr(os, "access", lambda *given: False)
    result = run("demo", "--folder", "out")
    assert result.exit_code == 2 and result.stdout == "" and "--folder" in result.stderr
    assert not (tmp_path / "out" / "cluster").exists()


def test_the_demonstration_works_without_matplotlib(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("demo", "--folder", "my demo")
    assert result.exit_code == 0
    assert "pip install 'fairopt[plots]'" in result.stdout
    assert [p.name for p in (tmp_path / "my demo").iterdir()] == ["cluster"]
    following = " ".join(result.stdout.split()).partition("Next: ")[2].partition(",")[0]  # for a shell
    assert shlex.split(following) == ["fairopt", "solve", str(Path("my demo", "cluster")), "--policy", "2df"]


def test_the_version_is_the_packages(run: Any) -> None:
    assert run("--version").stdout == f"fairopt {fo.__version__}\n"


@pytest.mark.parametrize("command", [[], ["solve"], ["compare"], ["policies"], ["solvers"], ["demo"]])
def test_help_is_there_for_every_command(run: Any, command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage: fairopt" in result.stdout


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_help_teaches_by_examples(run: Any, command: str) -> None:
    assert f"fairopt {command} cluster/ " in run(command, "--help").stdout


def test_help_of_compare_tells_where_types_of_servers_come_from(run: Any) -> None:
    text = " ".join(run("compare", "--help").stdout.split())
    assert 'the column "type" of servers.csv' in text
    assert "fairopt plot --kind types" in text


# -- wrong input ----------------------------------------------------------------------------------------------

BAD_INPUT = {
    "missing file": ("solve nowhere", "InvalidInstance: nowhere does not exist"),
    "folder without files": ("solve nothing", "InvalidInstance: nothing is empty; give a folder with users.csv"),
    "unknown policy": ("solve cluster -p drff", "InvalidBlock: no policy 'drff'; did you mean 'drf'"),
    "wrong parameter": ("solve cluster -p kdf:q=2", "it takes k=2"),
    "parameter out of range": ("solve cluster -p fds:alpha=-1", "InvalidBlock: alpha is -1"),
    "unknown block": ("solve cluster -p AlphaFare(1)", "InvalidBlock: no block 'AlphaFare'"),
    "code in a policy": ("solve cluster -p __import__('os').getcwd()", "InvalidBlock"),
    "module without the name": ("solve cluster -p notions.py:MIME", "did you mean 'MINE'"),
    "module that is not there": ("solve cluster -p nowhere.py:X", "no file 'nowhere.py'"),
    "name that is no policy": ("solve cluster -p notions.py:TEXT", "is str, not a policy"),
    "unknown solver": ("solve cluster --solver CLARABELL", "SolverUnavailable: no solver 'CLARABELL'; did you mean"),
    "solver not installed": ("solve cluster --solver XPRESS", "SolverUnavailable: solver XPRESS is not installed"),
    "solver without cones": ("solve cluster -p nash --solver HIGHS", "SolverUnavailable: HIGHS cannot"),
    "unknown method": ("solve cluster --method magic", "InvalidBlock: no method 'magic'"),
    "time limit of zero": ("solve cluster --time-limit 0", "InvalidBlock: time_limit is 0.0"),
    "malformed JSON": ("solve broken.json", "InvalidInstance: broken.json"),
    "text in a number": ("solve worded", "many"),
    "ending that cannot be written": ("solve cluster --out a.xls", "InvalidBlock: cannot write a.xls"),
    "folder to write to is missing": ("solve cluster --out no/a.json", "create the folder no first"),
    "picture of an unknown kind": ("compare cluster -p drf --plot a.gif", "ends in .png or .pdf or .svg"),
    "one unknown policy of two": ("compare cluster -p drf -p drff", "InvalidBlock: no policy 'drff'"),
    "unknown solver to compare": ("compare cluster -p drf --solver SCSS", "SolverUnavailable: no solver 'SCSS'"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_and_exit_code_2(run: Any, tmp_path: Path, case: str) -> None:
    (tmp_path / "broken.json").write_text('{"demands": [[1, 2]')
    (tmp_path / "worded").mkdir()
    (tmp_path / "worded" / "users.csv").write_text("user,cpu\nweb,many\n")
    (tmp_path / "worded" / "servers.csv").write_text("server,cpu\nbox,3\n")
    (tmp_path / "nothing").mkdir()
    command, words = BAD_INPUT[case]
    result = run(*command.split())
    assert result.exit_code == 2
    assert words in one_line(result)


@pytest.mark.parametrize(
    "command", ["solve cluster --paths half", "compare cluster", "solve cluster --polcy drf", "sovle"]
)
def test_a_wrong_command_line_is_explained(run: Any, command: str) -> None:
    result = run(*command.split())
    assert result.exit_code == 2
    assert "Usage: fairopt" in result.stderr
    assert "Traceback" not in result.stderr


NO_ANSWER: dict[str, tuple[list[str], str]] = {
    "undefined": (["solve", "sparse.json", "-p", "2df"], "OutOfDomain: user 'user1' has a zero KDominantShare(2)"),
    "k too large": (["solve", "cluster", "-p", "kdf:k=4"], "OutOfDomain"),
    "infeasible": (["solve", "cluster", "-p", "Policy(Leximin(), constraints=[MinShare(0.6)])"], "Infeasible: "),
    "no time": (["solve", "cluster", "-p", "AlphaFair(1) + MaxMin()", "--time-limit", "1e-9"], "NotCertified: "),
}


@pytest.mark.parametrize("case", NO_ANSWER)
def test_no_certified_answer_is_one_line_and_exit_code_1(run: Any, case: str) -> None:
    arguments, start = NO_ANSWER[case]
    result = run(*arguments)
    assert result.exit_code == 1
    assert one_line(result).startswith(start)
    told = json.loads(run(*arguments, "--json").stdout)
    assert told["exit_code"] == 1 and f"{told['error']}: {told['message']}".startswith(start)


def test_no_picture_and_no_file_is_left_by_a_failure(run: Any, tmp_path: Path) -> None:
    run("solve", "sparse.json", "-p", "2df", "--out", "a.json")
    assert not (tmp_path / "a.json").exists()


def test_whole_tasks_are_solved_shown_written_and_compared(run: Any, tmp_path: Path) -> None:
    result = run("solve", "cluster", "-p", "drf", "--integral", "--out", "a.json")
    assert result.exit_code == 0 and "certified whole: loses at most 20% of the divisible" in result.stdout
    assert "note: optimality in whole tasks rests on HiGHS" in " ".join(result.stdout.split())
    assert fo.Allocation.load(tmp_path / "a.json").certificate.whole
    found = json.loads(run("solve", "cluster", "-p", "nash", "--rounded", "--json").stdout)
    assert found["certificate"]["whole"] and found["tasks"] == {"batch": 2, "web": 15} and found["prices"] is None
    table = run("compare", "cluster", "-p", "drf", "-p", "ps-dsf", "--integral")
    assert table.exit_code == 1 and "20.0%" in table.stdout
    assert "fairopt quotas" in " ".join(table.stdout.split())


@pytest.mark.parametrize("option", ["--integral", "--rounded"])
def test_whole_tasks_of_hdrf_are_refused_with_what_rounds_it(run: Any, option: str) -> None:
    result = run("solve", "cluster", "-p", "hdrf", option)
    assert result.exit_code == 1
    assert one_line(result).startswith("OutOfDomain: HDRF divides tasks")
    assert "the command fairopt quotas" in one_line(result)


def test_a_policy_that_exits_gives_no_answer(run: Any) -> None:
    for command in ("solve", "compare"):
        result = run(command, "cluster", "-p", "notions.py:exits")
        assert result.exit_code == 1 and result.stdout == ""
        assert one_line(result) == "a policy called exit(0); return an allocation or raise an error instead"


# -- Ctrl-C ---------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_solve_with_one_line_and_130(run: Any) -> None:
    result = run("solve", "cluster", "-p", "notions.py:interrupted")
    assert result.exit_code == 130
    assert one_line(result) == "stopped by Ctrl-C"


def test_ctrl_c_while_reading_ends_with_one_line_and_130(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fairopt.datasets.read_and_compare", interrupted)
    result = run("solve", "cluster")
    assert result.exit_code == 130
    assert one_line(result) == "stopped by Ctrl-C"


def test_ctrl_c_in_compare_keeps_what_is_done(run: Any, tmp_path: Path) -> None:
    result = run("compare", "cluster", "-p", "drf", "-p", "notions.py:interrupted", "-p", "2df", "--out", "t.json")
    assert result.exit_code == 130
    assert "DRF" in result.stdout
    assert "2-DF" not in result.stdout
    assert result.stderr == "stopped by Ctrl-C after 1 of 3 policies\n"
    assert len(json.loads((tmp_path / "t.json").read_text())["rows"]) == 1


STUCK = """
import os, signal, threading
from fairopt.cli import interrupts, progress

interrupts.GRACE = 0.05
signal.signal(signal.SIGINT, lambda number, frame: None)  # as if the main thread never came back to Python
with progress.working("something long"):
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    threading.Event().wait(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_ctrl_c_ends_a_solver_that_does_not_come_back() -> None:
    done = forked.run("-c", STUCK)
    assert done.returncode == 130
    assert done.stderr == "stopped by Ctrl-C\n"


def test_work_outside_the_main_thread_needs_no_signals() -> None:
    finished = []

    def work() -> None:
        with progress.working("something"):
            finished.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert finished == [True]


# -- as a program ---------------------------------------------------------------------------------------------


def test_the_program_runs_as_a_module_and_pipes_plain_text(tmp_path: Path, run: Any) -> None:
    done = forked.run("-m", "fairopt", "compare", "cluster", "-p", "drf", "-p", "fds:alpha=1", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "FDS(alpha=1)" in done.stdout


def test_a_reader_that_stops_early_sees_no_traceback(tmp_path: Path, run: Any) -> None:
    command = f"{shlex.quote(sys.executable)} -m fairopt policies | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("policy")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_what_cannot_be_written_is_told_before_anything_is_solved(run: Any, option: str, tmp_path: Path) -> None:
    name = "d.json" if option == "--out" else "d.png"
    (tmp_path / name).mkdir()
    done = run("compare", "cluster", "-p", "drf", option, str(tmp_path / name))
    assert done.exit_code == 2 and "IsADirectoryError" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "a.json",
        "a.parquet",
        "a.csv",
        "A.JSON",
        "table.csv",
        "table.md",
        "table.tex",
        "table.json",
        "p.png",
        "f.csv",
        "f.json",
        "f.svg",
        "audit.json",
    ],
)
def test_what_was_there_outlives_a_disk_that_is_full(run: Any, tmp_path: Path, monkeypatch: Any, name: str) -> None:
    command = {
        "table": "compare cluster -p drf --out",
        "p": "compare cluster -p drf --plot",
        "audit": "audit drf --property ef --max-examples 1 --save",
        "f": f"frontier cluster -f fds --alpha 1 {'--plot' if name == 'f.svg' else '--out'}",
    }.get(name.split(".")[0], "solve cluster --out")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / name).write_text("older")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    done = run(*command.split(), name)
    said = done.stderr.splitlines()
    assert done.exit_code == 2 and len(said) == 1
    assert f"No space left on device: '{name}'; the old files are kept" in said[0]
    assert (tmp_path / name).read_text() == "older"
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != ".hypothesis"] == before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("solve cluster.json --out", "cluster.json"),
        ("solve link.json --out", "cluster.json"),
        ("solve cluster --out", "cluster/users.csv"),
        ("compare cluster.json -p drf --out", "./cluster.json"),
        ("frontier cluster.json -f fds --out", "cluster.json"),
        ("simulate jobs.csv --servers cluster --out", "jobs.csv"),
        ("simulate jobs-DRF.csv --servers cluster -p drf -p 2df --out jobs.csv", "jobs-DRF.csv"),
    ],
)
def test_no_command_writes_over_its_own_input(run: Any, tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / "link.json").symlink_to("cluster.json")
    for jobs in ("jobs.csv", "jobs-DRF.csv"):
        (tmp_path / jobs).write_text("user,arrival,duration,bandwidth,memory,cpu\na,0,1,1,1,1\n")
    found = one_line(run(*command.split(), *([name] if command.endswith("--out") else [])))
    assert found.startswith(f"InvalidBlock: cannot write {Path(name)}: the input") and "is read from this file" in found


def test_an_answer_beside_the_input_may_be_written_again(run: Any) -> None:
    assert [run("solve", "cluster", "--out", "cluster/answer.json").exit_code for _ in range(2)] == [0, 0]


def test_a_missing_extra_is_said_before_anything_is_solved(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'fairopt[parquet]'" in one_line(run("solve", "cluster", "--out", "a.parquet"))


def test_a_link_that_leads_back_to_itself_is_one_line(run: Any, tmp_path: Path) -> None:
    (tmp_path / "x.json").symlink_to("x.json")
    said = one_line(run("solve", "cluster", "--out", "x.json"))
    assert "Too many levels of symbolic links: 'x.json'; give another name" in said


@pytest.mark.parametrize("command", ["solve cluster", "compare cluster -p drf", "solve servers.json -p ps-dsf"])
def test_too_little_memory_is_one_line_and_a_code_of_its_own(run: Any, monkeypatch: Any, command: str) -> None:
    from fairopt.solve import dispatch

    def full(*_: Any, **__: Any) -> None:
        np.empty(2**58, dtype="f8")

    monkeypatch.setattr(dispatch, "solve_tiers", full)
    monkeypatch.setattr(fo.PSDSF, "allocate", full)
    done = run(*command.split())
    assert done.exit_code == 3 and "Traceback" not in done.stderr
    assert "OutOfMemory: " in done.stderr + done.stdout and "Unable to allocate 2.00 EiB" in done.stderr + done.stdout


def test_a_file_that_memory_does_not_hold_is_not_called_unreadable(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    np.save(tmp_path / "x.npy", np.ones((2, 1)))
    (tmp_path / "x.json").write_text("{}")
    monkeypatch.setattr(np, "load", full)
    monkeypatch.setattr("fairopt.io.text_files.open", full, raising=False)
    with pytest.raises(
        fo.errors.OutOfMemory, match=r"one of the shards does not fit into memory .*make shards smaller"
    ):
        fo.allocate_sharded(fo.DRF(), tmp_path / "x.npy", capacities=[1])
    with pytest.raises(fo.errors.OutOfMemory, match=r"x\.json does not fit into memory"):
        fo.read(tmp_path / "x.json")


def test_cells_of_answers_are_not_executed_by_spreadsheets(run: Any, tmp_path: Path) -> None:
    two = fo.Instance([[1], [1]], [2], users=["=1+1", "web"], resources=["@cpu"])
    fo.datasets.write(two, tmp_path / "x.json")
    assert run("solve", "x.json", "--out", "a.csv").exit_code == 0
    with (tmp_path / "a.csv").open() as file:
        header, row, _ = csv.reader(file)
    assert row[0] == "'=1+1" and "'@cpu" in header


NOT_UTF8 = os.fsdecode(b"\xff.csv")
NO_READER = "read, write = os.pipe(); os.close(read); os.dup2(write, 1); sys.stdout = open(1, 'w')"
ODD = "from fairopt.cli import main; import os, sys; sys.argv = ['fairopt', *{words}]; {first}; main()"


@pytest.mark.parametrize(
    ("first", "words", "code", "said"),
    [
        ("sys.stdout = None; os.close(1)", ["policies"], 0, ""),
        ("sys.stderr = None; os.close(2)", ["policies", "--json"], 0, ""),
        ("os.dup2(os.open('/dev/full', 1), 1)", ["policies", "--json"], 2, "stdout cannot be written (No space"),
        ("os.dup2(os.open('/dev/full', 1), 1)", ["--help"], 2, "stdout cannot be written (No space"),
        ("os.dup2(os.open('/dev/full', 1), 2)", ["solve", "nowhere"], 2, ""),
        (NO_READER, ["policies"], 0, ""),
        (NO_READER, ["policies", "--json"], 0, ""),
        (NO_READER, ["--help"], 0, ""),
        (NO_READER, ["solve", "nowhere"], 2, "nowhere does not exist"),
        ("sys.stdout.reconfigure(encoding='latin-1')", ["solve", "x.json", "--json", "--out", NOT_UTF8], 0, ""),
        ("sys.stdout.reconfigure(encoding='latin-1')", ["solve", "x.json", "--out", NOT_UTF8], 0, ""),
    ],
    ids=[
        "closed",
        "no stderr",
        "full",
        "help",
        "full stderr",
        "no reader",
        "no reader json",
        "no reader help",
        "no reader error",
        "latin json",
        "latin",
    ],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_streams_that_cannot_take_what_is_said(tmp_path: Path, first: str, words: Any, code: int, said: str) -> None:
    two = fo.Instance([[1], [1]], [2], users=["€", "\U0001f600"])
    fo.datasets.write(two, tmp_path / "x.json")
    done = forked.run("-c", ODD.format(words=words, first=first), folder=tmp_path)
    assert done.returncode == code and said in done.stderr and len(done.stderr.splitlines()) == bool(said)
    if "x.json" in words:
        assert (tmp_path / words[-1]).exists()
        assert "\\u20ac" in done.stdout and "\\ud83d\\ude00" in done.stdout
        assert "--json" not in words or list(json.loads(done.stdout)["tasks"]) == ["€", "\U0001f600"]


def test_a_disk_that_is_full_does_not_cost_the_answers(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairopt.report import files

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_comparison", full)
    monkeypatch.setattr(files, "write_allocation", full)
    for command in (("compare", "cluster", "-p", "drf"), ("solve", "cluster")):
        done = run(*command, "--out", str(tmp_path / "x.json"))
        assert done.exit_code == 2 and "No space left" in done.stderr and "DRF" in done.stdout
