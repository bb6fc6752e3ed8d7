"""Published numbers, recomputed: docs/papers holds what the scripts find, and the page is made of it."""

import importlib
import re
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
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


def kept(key: str) -> dict[str, Any]:
    return next(found for found in published.kept() if found["paper"]["key"] == key)


def numbers(text: str) -> list[float]:
    return [float(Fraction(word.replace(",", ""))) for word in published.NUMBER.findall(text)]


def test_every_paper_that_is_kept_has_a_script_and_every_script_is_run() -> None:
    assert sorted(paper.key for paper in PAPERS.values()) == [found["paper"]["key"] for found in published.kept()]
    scripts = {path.stem for path in FOLDER.glob("*.py") if "PAPER = " in path.read_text(encoding="utf-8")}
    assert scripts == set(PAPERS)


class Quick(published.Run):  # type: ignore[name-defined]
    """A smaller run that makes all pictures, and renders the first."""

    def save(self, figure: Any, name: str, caption: str) -> None:
        if self.pictures:
            self.pictures.append({"file": f"{name}.png", "caption": caption})
            published.plt.close(figure)
        else:
            super().save(figure, name, caption)


@pytest.mark.parametrize("name", PAPERS)
def test_what_is_kept_is_what_the_experiments_find(name: str, tmp_path: Path) -> None:
    run, before = Quick(full=False, folder=tmp_path), kept(PAPERS[name].key)
    for (experiment, row), was in zip(PAPERS[name].rows(run), before["rows"], strict=True):
        assert experiment == was["experiment"]
        for of in ("place", "what", "printed", "verdict", "reading", "why", "sampled"):
            assert getattr(row, of) == was[of]
        ours = was["quick" if row.sampled else "ours"]
        assert re.sub(published.NUMBER, "", row.ours) == re.sub(published.NUMBER, "", ours)
        assert numbers(row.ours) == pytest.approx(numbers(ours), rel=1e-4, abs=1e-6)
    assert (PAPERS[name].about, run.pictures) == (before["paper"], before["pictures"])


def test_the_page_is_made_of_what_is_kept() -> None:
    _, mark, rest = published.PAGE.read_text(encoding="utf-8").partition(published.BELOW)
    below, end, _ = rest.partition(published.END)
    assert mark and end
    assert below == published.markdown(published.kept())


def test_pictures_that_are_kept_are_those_on_the_page() -> None:
    shown = {f"{found['paper']['key']}/{p['file']}" for found in published.kept() for p in found["pictures"]}
    assert {path.relative_to(published.KEPT).as_posix() for path in published.KEPT.rglob("*.png")} == shown


@pytest.mark.parametrize(
    ("printed", "ours", "verdict"),
    [
        ("2.5", 2.5, "exact"),
        ("2.5", Fraction(5, 2), "exact"),
        ("1/125 and 3/4", [Fraction(1, 125), 0.75], "exact"),
        ("1.9, 15.4", [25 / 13, 200 / 13], "rounded"),
        ("1.62", 1.62606, "rounded"),
        ("418", 417.6, "rounded"),
        ("13,183 servers", 13183, "exact"),
        ("0.02", 0.0249, "rounded"),
        ("-0.5", -0.46, "rounded"),
        ("56, 28, 42", [56, 28, 42], "exact"),
        ("0.95-0.96", [0.95, 0.96], "exact"),
        ("1/1000", 0.001, "exact"),
    ],
)
def test_numbers_are_judged_by_their_printed_digits(printed: str, ours: Any, verdict: str) -> None:
    assert published.number("Table 1", "it", printed, ours).verdict == verdict


@pytest.mark.parametrize(
    ("printed", "ours"),
    [
        ("1.56", 1.54454),
        ("1/3", 0.3334),
        ("58.8", 58.73),
        ("56, 28, 42", [12, 6, 9]),
        ("3", Fraction(18, 5)),
        ("1.9, 15.4", [25 / 13, 16.0]),
        ("0.5", -0.5),
        ("1/1000", 0.0010005),
        ("0.0", np.nan),
        ("3", np.inf),
    ],
)
def test_numbers_that_differ_need_a_reason(printed: str, ours: Any) -> None:
    row = published.number("Table 1", "it", printed, ours, why="a misprint")
    assert (row.verdict, row.why) == ("differs", "a misprint")
    with pytest.raises(ValueError, match="Table 1"):
        published.number("Table 1", "it", printed, ours)


def test_a_reason_for_equal_numbers_is_refused_and_so_is_a_number_too_many() -> None:
    with pytest.raises(ValueError, match="exact"):
        published.number("Table 1", "it", "2.5", 2.5, why="it was wrong once")
    with pytest.raises(ValueError, match="2 numbers, and 1"):
        published.number("Table 1", "it", "2.5, 3", 2.5)
    for unread in (".5", "\u22125"):
        with pytest.raises(ValueError, match="0 numbers, and 1"):
            published.number("Table 1", "it", unread, 5)
    with pytest.raises(ValueError, match="holds"):
        published.claim("Fig. 1", "it grows", True, "from 1 to 2", why="it was wrong once")


def test_a_script_that_fails_or_is_asked_for_help_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, page = tmp_path / "papers", tmp_path / "papers.md"
    monkeypatch.setattr(published, "KEPT", folder)
    monkeypatch.setattr(published, "PAGE", page)
    page.write_text(f"above\n{published.BELOW}{published.END}below\n", encoding="utf-8")

    def pictured(name: str) -> Any:
        def experiment(run: Any) -> Any:
            if run.draws:
                run.save(published.plt.figure(figsize=(1, 1)), name, f"Fig. {name}.")
            yield published.number("Table 1", "it", "2.5", 2.5)

        return experiment

    def failing(run: Any) -> Any:
        yield published.number("Table 1", "it", "2.5", 3)

    def files(*options: str, of: Any, fails: type[BaseException] | None = None) -> dict[str, bytes]:
        monkeypatch.setattr(sys, "argv", ["script", *options])
        paper = published.Paper("a-2000", "A (2000)", "it", of)
        if fails:
            with pytest.raises(fails):
                published.main(paper)
        else:
            published.main(paper)
        return {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*.*")}

    before = files(of=[pictured("1")])
    assert sorted(before) == ["papers.md", "papers/a-2000.json", "papers/a-2000/1.png"]
    assert "| [A (2000)](papers/a-2000.json) | 1 |" in before["papers.md"].decode()
    assert before["papers.md"].decode().endswith(f"{published.END}below\n")
    assert files(of=[pictured("2"), failing], fails=ValueError) == before
    assert files("--quick", of=[pictured("2")]) == before
    assert files("--fast", of=[pictured("2")], fails=SystemExit) == before
    assert files("--help", of=[pictured("2")], fails=SystemExit) == before
    assert "a smaller run that keeps nothing" in capsys.readouterr().out
    assert sorted(files(of=[pictured("2")])) == ["papers.md", "papers/a-2000.json", "papers/a-2000/2.png"]
    page.write_text("", encoding="utf-8")
    files(of=[pictured("2")], fails=ValueError)
    assert page.read_text(encoding="utf-8") == ""
