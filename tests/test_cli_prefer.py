"""``fairopt prefer``: tables, files and pictures of a survey, and every way to ask wrongly."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app
from fairopt.runtime.clock import Clock

OPTIONS = {"1": (24, 28), "2": (12, 32), "3": (36, 24), "4": (45, 0), "5": (27, 27)}
PEOPLE = {"ann": "35124", "bob": "53124", "cy": "43512"}
HEADER = "person,question,option,rank"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with two questions, the second of half the size."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rows = [f"{q},{k},{a / q},{b / q}" for q in (1, 2) for k, (a, b) in OPTIONS.items()]
    Path("options.csv").write_text("\n".join(["question,option,A,B", *rows]))
    answers = [f"{p},{q},{k},{r + 1}" for q in (1, 2) for p, order in PEOPLE.items() for r, k in enumerate(order)]
    Path("rankings.csv").write_text("\n".join([HEADER, *answers]))
    for name, scale in (("big.json", 1), ("small.json", 2)):
        made = fo.Instance([[1, 4], [3, 1]], [108 / scale, 180 / scale], users=["A", "B"], resources=["CPU", "storage"])
        fo.datasets.write(made, name)

    def invoke(*arguments: str, options: str = "options.csv", rankings: str = "rankings.csv") -> Result:
        return CliRunner().invoke(app, ["prefer", options, rankings, *arguments])

    return invoke


def last_line(result: Result, code: int) -> str:
    assert result.exit_code == code and "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]


def test_tables_show_each_question_and_its_clusters(run: Any) -> None:
    result = run("--beta", "2", "--lam", "-0.25,-0.15,-0.1")
    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    for question in ("1", "2"):  # of three people two have a point, one pair of the third's is wrong at -0.25
        row = next(words for words in lines if words[:1] == [question] and len(words) > 4)
        assert row[1] == "3" and row[4:6] == ["66.7%", "1"]
    assert [words[:2] for words in lines].count(["cluster", "2"]) == 4  # two questions, in two tables of 80 columns
    assert lines.count(["cluster", "2", "4", "1", "2", "-0.25"]) == 2  # cy: option 4 is wrong in four pairs
    assert "differ only in scale: 1" in " ".join(result.stdout.split())
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_a_time_limit_ends_the_comparison(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter([False] * (40 + 3))  # all values of beta, and all people, of the first question

    class Steps(Clock):
        late = property(lambda self: next(steps, True))  # type: ignore[assignment]

    monkeypatch.setattr("fairopt.tradeoff.preferences.Clock", Steps)
    first = run("--time-limit", "60", "--json")
    assert last_line(first, 0) == "stopped by the time limit after 3 of 6 answers"
    assert list(json.loads(first.stdout)["questions"]) == ["1"]
    assert "0 of 40 values of beta were compared before the time limit" in last_line(run("--time-limit", "60"), 1)


def test_json_holds_what_the_survey_finds(run: Any) -> None:
    result = run("--instance", "1=big.json", "--instance", "2=small.json", "--family", "fds", "--json")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    betas = np.delete(np.linspace(-5, 5, 41), 20)
    found = fo.tradeoff.preferences.Survey(
        OPTIONS,
        {p: list(order) for p, order in PEOPLE.items()},
        "fds",
        betas=betas,
        lams=np.linspace(-2, 2, 41),
        instance=fo.read("big.json"),
    )
    one, two = data["questions"]["1"], data["questions"]["2"]
    assert one["betas"] == betas.tolist()  # without 0
    assert one["counts"] == found.counts.tolist() == two["counts"]
    assert (one["wrong_pairs"], [tuple(p) for p in one["best"]]) == found.best()
    assert tuple(one["best_point"]) == found.best_point
    assert one["explained"] == pytest.approx(found.explained.mean())
    assert sum(c["people"] for c in one["clusters"]) == 3
    assert np.average([c["efficiency"] for c in one["clusters"]], weights=[c["people"] for c in one["clusters"]]) == (
        pytest.approx(one["efficiency"])
    )
    assert data["all_questions"]["tau"] == pytest.approx(1)
    assert [answer["person"] for answer in one["answers"]] == [*PEOPLE]
    assert one["answers"][0]["efficiency"] == pytest.approx((5 * 60 + 4 * 54 + 3 * 52 + 2 * 44 + 45) / 15)
    assert one["answers"][0]["compatible_points"] == (found.wrong[0] == 0).sum()


def test_a_picture_is_written(run: Any) -> None:
    pytest.importorskip("matplotlib")
    result = run("--plot", "survey.png", "--instance", "big.json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "written: survey.png" and Path("survey.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--instance", "small.json"], "question '1': option '1' needs 108 of 'CPU', 54 more than the capacity 54"),
        (["--instance", "3=big.json"], "unknown question '3'"),
        (["--instance", "nothing/"], "nothing does not exist"),
        (["--family", "fds"], "--instance"),
        (["--family", "drf"], "family 'drf' takes no beta and lam"),
        (["--family", "pnorm"], "needs p, as pnorm:p=2"),
        (["--family", "fdz"], "did you mean"),
        (["--beta", "0"], "betas hold 0"),
        (["--beta", "-5:5"], "--beta -5:5: give from:to:count"),
        (["--lam", "-5:5:0"], "--lam -5:5:0: give"),
        (["--lam", "-5:5:-1"], "--lam -5:5:-1: give"),
        (["--lam", "-5:5:1000000000"], "1 to 10,000 numbers"),
        (["--lam", "nan"], "lams hold nan"),
        (["--lam", "x"], "--lam x: give"),
        (["--plot", "a.gif"], "give a name that ends in .png"),
    ],
)
def test_wrong_options_are_one_line_and_code_2(arguments: list[str], words: str, run: Any) -> None:
    result = run(*arguments)
    assert result.stdout == "" and words in last_line(result, 2)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rankings", f"{HEADER}\nann,1,1,1\nann,1,2,1", "person 'ann' ranks options '1' and '2' alike"),
        (
            "rankings",
            f"{HEADER}\nann,1,3,1\nann,1,5,2\nann,1,1,3\nann,1,2,4\nann,1,4,6",
            "'ann' has the ranks [1.0, 2.0",
        ),
        ("rankings", f"{HEADER}\nann,1,1,1", "question '1': person 'ann' leaves out option '2'"),
        ("rankings", f"{HEADER}\nann,1,6,1", "question '1': person 'ann' ranks an unknown option '6'"),
        ("rankings", "", "rankings.csv is empty"),
        ("options", "question,option,A,C\n1,1,2,3", "users"),
        ("options", "\x89PNG\r\n\x1a\n", "is not UTF-8"),
    ],
)
def test_wrong_files_are_one_line_and_code_2(name: str, text: str, words: str, run: Any) -> None:
    Path(f"{name}.csv").write_bytes(text.encode("latin-1"))
    if words == "users":  # a file of another instance
        Path("rankings.csv").write_text(f"{HEADER}\nann,1,1,1")
        words = "question '1': option '1' names an unknown user 'C'; known: A, B"
    assert words in last_line(run("--instance", "big.json"), 2)


def test_without_matplotlib_a_picture_is_refused_before_anything_is_read(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'fairopt[plots]'" in last_line(run("--plot", "a.png", options="missing.csv"), 2)
