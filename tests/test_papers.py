"""Published numbers, re-made: what is kept in docs/papers is what the scripts find, and the page is made of it."""

import importlib
import re
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
FOLDER = Path(__file__).parents[1] / "benchmarks" / "papers"


def module(name: str) -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


published = module("published")
PAPERS = {name: module(name).PAPER for name in module("all_papers").SCRIPTS}
EXPERIMENTS = [(name, e) for name, paper in PAPERS.items() for e in paper.experiments]


def kept(key: str) -> list[dict[str, Any]]:
    return next(found["rows"] for found in published.kept() if found["paper"]["key"] == key)


def numbers(text: str) -> list[float]:
    return [float(Fraction(word.replace(",", ""))) for word in published.NUMBER.findall(text)]


def test_every_paper_that_is_kept_has_a_script_and_every_script_is_run() -> None:
    assert sorted(paper.key for paper in PAPERS.values()) == [found["paper"]["key"] for found in published.kept()]
    scripts = {path.stem for path in FOLDER.glob("*.py") if "PAPER = " in path.read_text(encoding="utf-8")}
    assert scripts == set(PAPERS)


@pytest.mark.parametrize(("name", "experiment"), EXPERIMENTS, ids=[f"{name}-{e.__name__}" for name, e in EXPERIMENTS])
def test_what_is_kept_is_what_an_experiment_finds(name: str, experiment: Any) -> None:
    rows = [row for row in kept(PAPERS[name].key) if row["experiment"] == experiment.__name__]
    found = list(experiment(published.Run(full=False)))
    for row, before in zip(found, rows, strict=True):
        for of in ("place", "what", "printed", "verdict", "reading", "why"):
            assert getattr(row, of) == before[of]
        if not row.sampled:
            assert re.sub(published.NUMBER, "", row.ours) == re.sub(published.NUMBER, "", before["ours"])
            assert numbers(row.ours) == pytest.approx(numbers(before["ours"]), rel=1e-4, abs=1e-6)


def test_the_page_is_made_of_what_is_kept() -> None:
    _, mark, below = published.PAGE.read_text(encoding="utf-8").partition(published.BELOW)
    assert mark
    assert below == published.markdown(published.kept())


def test_pictures_that_are_kept_are_those_on_the_page() -> None:
    shown = {f"{found['paper']['key']}/{p['file']}" for found in published.kept() for p in found["pictures"]}
    assert {path.relative_to(published.KEPT).as_posix() for path in published.KEPT.rglob("*.png")} == shown


@pytest.mark.parametrize(
    ("printed", "ours", "verdict"),
    [
        ("2.5", 2.5, "exact"), ("2.5", Fraction(5, 2), "exact"), ("1/125 and 3/4", [Fraction(1, 125), 0.75], "exact"),
        ("1.9, 15.4", [25 / 13, 200 / 13], "to rounding"), ("1.62", 1.62606, "to rounding"),
        ("418", 417.6, "to rounding"), ("13,183 servers", 13183, "exact"),
        ("0.02", 0.0249, "to rounding"), ("-0.5", -0.46, "to rounding"),
        ("56, 28, 42", [56, 28, 42], "exact"),
    ],
)  # fmt: skip
def test_numbers_are_judged_by_their_printed_digits(printed: str, ours: Any, verdict: str) -> None:
    assert published.number("Table 1", "it", printed, ours).verdict == verdict


@pytest.mark.parametrize(
    ("printed", "ours"),
    [("1.56", 1.54454), ("1/3", 0.3334), ("58.8", 58.73), ("56, 28, 42", [12, 6, 9]), ("3", Fraction(18, 5)),
     ("1.9, 15.4", [25 / 13, 16.0])],
)  # fmt: skip
def test_numbers_that_differ_do_not_follow_and_need_a_reason(printed: str, ours: Any) -> None:
    row = published.number("Table 1", "it", printed, ours, why="a misprint")
    assert (row.verdict, row.why) == ("does not follow", "a misprint")
    with pytest.raises(ValueError, match="Table 1"):
        published.number("Table 1", "it", printed, ours)


def test_a_reason_for_what_follows_is_refused_and_so_is_a_number_too_many() -> None:
    with pytest.raises(ValueError, match="exact"):
        published.number("Table 1", "it", "2.5", 2.5, why="it was wrong once")
    with pytest.raises(ValueError, match="2 numbers, and 1"):
        published.number("Table 1", "it", "2.5, 3", 2.5)
    with pytest.raises(ValueError, match="holds"):
        published.claim("Fig. 1", "it grows", True, "from 1 to 2", why="it was wrong once")
