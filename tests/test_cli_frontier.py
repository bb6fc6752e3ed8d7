"""``fairopt frontier``: what is typed, what is shown and written, and the ways to get it wrong."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
import fairopt.cli.frontier as module
from fairopt.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a small cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fo.datasets.write(fo.Instance([[1, 4], [3, 1]], [9, 18], users=["batch", "web"]), tmp_path / "cluster.json")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["frontier", "cluster.json", *arguments])

    return invoke


@pytest.mark.fast_methods
def test_the_table_fits_80_columns_and_marks_the_best_of_the_sweep(run: Any) -> None:
    done = run("--family", "gfj", "--alpha", "0:8:17")
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "GFJ on Instance(2 users" in done.stdout and "solved by: prices (16), linear (1)" in done.stdout
    assert " *" in next(line for line in done.stdout.splitlines() if line.split()[:1] == ["2.5"])
    assert done.stdout.count("no bound on the price of fairness") == 1


def test_values_are_ranges_lists_single_numbers_and_words(run: Any) -> None:
    made = "def gar(on) -> fo.Policy:\n    return fo.HFFMRA() if on else fo.MLFDRS()\n"
    Path("mine.py").write_text(f"import fairopt as fo\n\n{made}")
    for words, expected in (
        (["--alpha", "0:10:5"], {"alpha": [0, 2.5, 5, 7.5, 10]}),
        (["--alpha", "0.5,1, 2"], {"alpha": [0.5, 1, 2]}),
        (["--beta", "-2:2:3", "--lam", "-1"], {"beta": [-2, 0, 2], "lam": [-1]}),
        (["--family", "kdf", "--k", "1:2:2"], {"k": [1, 2]}),
        (["--family", "pnorm:alpha=1", "--p", "1,inf"], {"p": [1, None]}),
        (["--family", "h-ffmra", "--grid", "units=raw,share"], {"units": ["raw", "share"]}),
        (["--family", "mine.py:gar", "--grid", "on=on,off"], {"on": [True, False]}),
    ):
        done = run(*(["--family", "fds"] if "--family" not in words else []), *words, "--json")
        assert done.exit_code in (0, 1), done.output
        assert json.loads(done.stdout)["grid"] == expected


def test_files_hold_all_points(run: Any) -> None:
    assert run("-f", "fds", "--alpha", "0:4:41", "--out", "f.csv").exit_code == 0
    with open("f.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 41 and float(rows[10]["alpha"]) == 1 and float(rows[10]["fairness"]) > 70
    assert run("-f", "fds", "--alpha", "1", "--out", "f.json").exit_code == 0
    assert json.loads(Path("f.json").read_text())["rows"][0]["tasks_by_user"]["web"] == pytest.approx(18 / 11)


def test_constraints_hold_at_each_point(run: Any) -> None:
    plain = json.loads(run("-f", "fds", "--alpha", "0", "--json").stdout)["rows"][0]
    shared = json.loads(run("-f", "fds", "--alpha", "0", "-c", "MinTasks({'web': 2.2})", "--json").stdout)["rows"][0]
    assert plain["tasks_by_user"]["web"] < 2.2 <= shared["tasks_by_user"]["web"] + 1e-9
    assert shared["price_bound"] is None
    assert "fds with MaxShare(0.3) on" in run("-f", "fds", "--alpha", "0", "-c", "MaxShare( 0.3 )").stdout


def test_pictures_are_drawn(run: Any) -> None:
    pytest.importorskip("matplotlib")
    for kind, words in (
        ("tradeoff", ["--alpha", "0,1"]),
        ("tasks", ["--alpha", "0,1"]),
        ("map", ["--beta", "2", "--lam", "-.5,1"]),
    ):
        done = run("-f", "gfj", *words, "--kind", kind, "--plot", f"{kind}.png")
        assert done.exit_code == 0 and f"written: {kind}.png" in done.stdout, done.output
        assert Path(f"{kind}.png").read_bytes()[:4] == b"\x89PNG"


def test_missing_matplotlib_is_said_before_anything_is_solved(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = run("-f", "fds", "--alpha", "1", "--plot", "f.png")
    assert done.exit_code == 2 and done.stdout == "" and "pip install 'fairopt[plots]'" in done.stderr


def test_no_answer_at_all_is_exit_code_1_and_one_line_for_errors_alike(run: Any) -> None:
    done = run("-f", "fds", "--beta", "2", "--lam", "0.5:1:6")
    assert done.exit_code == 1 and done.stdout.count("has no optimum") == 1 and "and 5 more alike" in done.stdout
    assert run("-f", "fds", "--beta", "0,2", "--lam", "-0.5").exit_code == 0


def test_resume_goes_on_after_ctrl_c(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any, **options: Any) -> fo.tradeoff.Frontier:
        def stop(what: str, done: int | None, total: int | None) -> None:
            if done == 3:
                raise KeyboardInterrupt

        with fo.progress(stop):
            return fo.frontier(*arguments, **options)

    words = ("-f", "fds", "--alpha", "0:4:9", "--resume", "kept.json")
    with monkeypatch.context() as patch:
        patch.setattr(module, "frontier", stopped)
        first = run(*words)
    assert first.exit_code == 130 and "stopped after 3 of 9 points" in first.stdout
    assert "kept.json holds the finished points" in first.stderr
    second = run(*words)
    assert second.exit_code == 0 and "stopped" not in second.stdout
    other = run("-f", "fds", "--alpha", "0:5:9", "--resume", "kept.json")
    assert other.exit_code == 2 and "another grid" in other.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-f", "fdz", "--alpha", "1"], "did you mean 'fds'"),
        (["-f", "fds"], "no parameter to sweep"),
        (["-f", "fds", "--alpha", "0:1"], "--alpha 0:1: give from:to:count"),
        (["-f", "fds", "--alpha", "0:1:0"], "with 1 to 10,000 numbers"),
        (["-f", "fds", "--alpha", "0:inf:3"], "give from:to:count"),
        (["-f", "fds", "--alpha", "1,,2"], "--alpha 1,,2: give from:to:count"),
        (["-f", "fds", "--alpha", "two"], "--alpha two: give"),
        (["-f", "fds", "--alpha", "on"], "--alpha on: give"),
        (["-f", "fds", "--grid", "alpha=1,"], "--grid alpha 1,: give"),
        (["-f", "fds", "--alpha", "0:1:10001"], "10,000"),
        (["-f", "fds", "--alpha", "nan"], "has nan"),
        (["-f", "fds", "--k", "2"], "'k'; it takes alpha, beta, lam"),
        (["-f", "fds", "--grid", "alfa=1"], "'alfa'; it takes alpha"),
        (["-f", "fds", "--grid", "1:2:3"], "give a parameter and its values"),
        (["-f", "fds", "--alpha", "1", "--grid", "alpha=1"], "alpha is given twice"),
        (["-f", "fds", "--alpha", "1", "--beta", "1", "--lam", "1"], "one or two parameters"),
        (["-f", "ps-dsf", "--grid", "rounds=1"], "it takes"),
        (["-f", "drf:", "--alpha", "1"], "it takes no parameter"),
        (["-f", "fds", "--alpha", "1", "--out", "f.txt"], "ends in .csv or .json"),
        (["-f", "fds", "--alpha", "1", "--plot", "f.doc"], "ends in .png"),
        (["-f", "fds", "--alpha", "1", "--plot", "f.png", "--kind", "map"], "map' needs two parameters"),
        (["-f", "fds", "--alpha", "1", "--plot", "f.png", "--kind", "bars"], "no kind of picture 'bars'"),
        (["-f", "fds", "--alpha", "1", "--of", "zz"], "of is 'zz'"),
        (["-f", "fds", "--alpha", "1", "-c", "Foo()"], "Foo"),
        (["-f", "fds:beta=2", "--beta", "1", "--lam", "1"], "beta is 2"),
        (["-f", "fds:beta=2", "--beta", "1", "--lam", "1", "-c", "MaxShare(0.3)"], "beta is 2"),
        (["-f", "fds", "--alpha", "1", "--processes", "0"], "processes is 0"),
        (["-f", "missing.py:F", "--alpha", "1"], "no file 'missing.py'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Any, words: list[str], message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1 and message in lines[0] and done.stdout == "", done.output


def test_of_many_points_the_best_stay_and_errors_go_first(run: Any) -> None:
    done = run("-f", "gfj", "--beta=-2:2:9", "--lam", "-0.5:0.5:5", "--out", "found.json")
    lines = done.stdout.splitlines()
    rows = [line for line in lines if line.split()[:1] and line.split()[0].endswith(",") and "%" in line]
    data = json.loads(Path("found.json").read_text())
    keys = [f"{data['rows'][k]['beta']:g}, {data['rows'][k]['lam']:g}" for k in data["pareto"]]
    starred = {line.strip().partition("  ")[0] for line in rows if " *" in line}
    assert len(rows) == 20 and starred == set(keys) and "left out: 25 points" in done.stdout
    assert sum(line.split()[:2] == ["beta,", "lam"] for line in lines) == 1 and "at most" not in lines[1]


def test_more_best_points_than_rows_are_counted(run: Any) -> None:
    done = run("-f", "fds", "--alpha", "0:4:41")
    assert "(20 of 41 points)" in done.stdout and "left out: 21 points, 21 of them on the frontier" in done.stdout
    assert "left out" not in run("-f", "fds", "--alpha", "0:4:20").stdout


def test_the_time_limit_shows_the_points_reached(run: Any) -> None:
    done = run("-f", "fds", "--alpha", "0:10:11", "--time-limit", "1e-9")
    assert done.exit_code == 0
    assert "stopped by the time limit after 0 of 11 points" in done.stdout
    assert json.loads(run("-f", "fds", "--alpha", "1", "--time-limit", "1e-9", "--json").stdout)["late"] is True
