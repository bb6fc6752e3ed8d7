"""Published numbers beside computed ones: rows with verdicts, and the JSON, pictures and documentation page of them.

Each paper has a script in this folder with a `Paper`. Its experiments yield rows, made by `number`, `claim` and
`cannot`, which decide the verdict by comparison. `main` runs them and writes the results to docs/papers.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from string import ascii_lowercase
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from fairopt.io.saving import replacing, write_whole

DOCS = Path(__file__).parents[2] / "docs"
KEPT = DOCS / "papers"  # JSON and pictures of each paper
PAGE = DOCS / "papers.md"
BELOW = "<!-- `make papers` writes what is below. -->\n"
END = "\n<!-- It ends here. -->\n"
DETAILS = "```{include} _build/papers.txt\n```"

EXACT, ROUNDED, HOLDS, FALSE, OPEN = "exact", "rounded", "holds", "differs", "not given"
VERDICTS = (EXACT, ROUNDED, HOLDS, FALSE, OPEN)
SAME = 1e-6  # relative, between a printed number and a computed one: as exact as a certified answer is
# The hyphen in 10-20 is not a sign; .5 and a number after a typographic minus do not match, so that 5 is never read.
NUMBER = re.compile(r"(?:(?<![\d.])-)?(?<![.\d\u2212])\d+(?:,\d{3}(?!\d))*(?:\.\d+)?(?:/\d+)?")
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # Okabe and Ito


@dataclass(frozen=True, kw_only=True)
class Row:
    """A published number or claim beside what is computed here.

    Attributes
    ----------
    place : str
        Where it is printed: ``"Table 1"``.
    what : str
        What it is.
    printed, ours : str
        The published value and the computed one.
    verdict : str
        One of `VERDICTS`.
    reading : str
        How an ambiguous definition is read here.
    why : str
        Why it differs or is not given, in a sentence.
    sampled : bool
        Whether ``ours`` depends on the size of a run; the verdict must not. The text of a quick run is kept too.
    """

    place: str
    what: str
    printed: str
    ours: str
    verdict: str
    reading: str = ""
    why: str = ""
    sampled: bool = False


def number(
    place: str, what: str, printed: str, ours: Any, *, reading: str = "", why: str = "", sampled: bool = False
) -> Row:
    """A row of numbers, judged by the digits that are printed.

    Parameters
    ----------
    place, what, reading, sampled
        As in `Row`.
    printed : str
        As published: numbers, decimal or as fractions ``3/4``, with any text around them; several are separated by a
        comma and a space, since 1,000 is a thousand.
    ours : int, Fraction, float or a sequence of them
        As many numbers. An int or a Fraction is exact and is compared as such.
    why : str
        Required if a number differs, refused if none does.

    Returns
    -------
    Row
        "exact"; "rounded" if all agree in the printed digits, rounded or cut after decimals; else "differs".
    """
    words, values = NUMBER.findall(printed), [*np.atleast_1d(np.asarray(ours, dtype=object))]
    if len(words) != len(values):
        raise ValueError(f"{place}, {what}: {printed!r} has {len(words)} numbers, and {len(values)} are computed")
    verdicts = [_agreement(word, value) for word, value in zip(words, values, strict=True)]
    worst = max(verdicts, key=VERDICTS.index)
    return _row(place, what, printed, ", ".join(map(_text, values)), worst, reading, why, sampled)


def claim(
    place: str, printed: str, holds: Any, ours: str, *, reading: str = "", why: str = "", sampled: bool = False
) -> Row:
    """A row of words: what the paper says, whether it holds, and what was measured.

    ``why`` is required if it does not hold, and refused if it does.
    """
    return _row(place, "", printed, ours, HOLDS if holds else FALSE, reading, why, sampled)


def cannot(place: str, what: str, printed: str, why: str) -> Row:
    """A row for what the paper does not determine."""
    return _row(place, what, printed, "", OPEN, "", why, False)


def _row(place: str, what: str, printed: str, ours: str, verdict: str, reading: str, why: str, sampled: bool) -> Row:
    if bool(why) != (verdict in (FALSE, OPEN)):
        raise ValueError(f"{place}, {what or printed}: {verdict} ({ours}), and the reason given is {why!r}")
    return Row(
        place=place, what=what, printed=printed, ours=ours, verdict=verdict, reading=reading, why=why, sampled=sampled
    )


def _agreement(printed: str, ours: Any) -> str:
    value = Fraction(printed.replace(",", ""))
    if isinstance(ours, (int, np.integer, Fraction)):
        exact = Fraction(ours) == value
    else:
        exact = abs(ours - float(value)) <= SAME * (abs(float(value)) or 1.0)
    if exact or "/" in printed or not math.isfinite(ours):
        return EXACT if exact else FALSE
    unit = Fraction(1, 10 ** len(printed.partition(".")[2]))
    found = Fraction(ours)
    rounded = abs(found - value) <= unit / 2 * (1 + Fraction(1, 10**9))
    cut = unit < 1 and int(found / unit) * unit == value
    return ROUNDED if rounded or cut else FALSE


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (int, np.integer, Fraction)) else f"{value:.6g}"


@dataclass
class Run:
    """The size of a run, and the folder of its pictures.

    Attributes
    ----------
    full : bool
        Whether to run everything; a quick run has the same rows and verdicts.
    folder : Path, optional
        Where pictures are saved; None draws none.
    pictures : list of dict
        File names and captions.
    """

    full: bool = True
    folder: Path | None = None
    pictures: list[dict[str, str]] = field(default_factory=list)

    @property
    def draws(self) -> bool:
        """Whether pictures are wanted."""
        return self.folder is not None

    def save(self, figure: Any, name: str, caption: str) -> None:
        """Save a figure as ``name.png`` with a caption."""
        if self.folder is not None:
            figure.savefig(self.folder / f"{name}.png", dpi=100, metadata={"Software": None})
            self.pictures.append({"file": f"{name}.png", "caption": caption})
        plt.close(figure)


Experiment = Callable[[Run], Iterator[Row]]


@dataclass(frozen=True)
class Paper:
    """A paper and the experiments that recompute it, in the order of its pages.

    Attributes
    ----------
    key : str
        Name in the bibliography and of the files: ``"jiang-wu-2021"``.
    cite : str
        ``"Jiang and Wu (2021)"``.
    title : str
        The subject in a few words.
    experiments : sequence of callable
        Each takes a `Run` and yields rows.
    note : str
        Printed above the table.
    """

    key: str
    cite: str
    title: str
    experiments: Sequence[Experiment]
    note: str = ""

    @property
    def about(self) -> dict[str, str]:
        """All but the experiments."""
        return {"key": self.key, "cite": self.cite, "title": self.title, "note": self.note}

    def rows(self, run: Run) -> Iterator[tuple[str, Row]]:
        """All rows, with the names of their experiments."""
        for experiment in self.experiments:
            for row in experiment(run):
                yield experiment.__name__, row


def main(paper: Paper) -> None:
    """Run all experiments, print the rows and save them at the end."""
    parser = argparse.ArgumentParser(description=f"Recompute the numbers of {paper.cite}, and keep them in {KEPT}.")
    parser.add_argument("--quick", action="store_true", help="a smaller run that keeps nothing")
    quick = parser.parse_args().quick
    with TemporaryDirectory() as folder:
        run = Run(not quick, None if quick else Path(folder))
        found = [{"experiment": name, **asdict(row)} for name, row in paper.rows(run)]
        table = Table(title=paper.cite)
        for column in ("place", "printed", "ours", "verdict"):
            table.add_column(column)
        for row in found:
            table.add_row(row["place"], " ".join([row["what"], row["printed"]]).strip(), row["ours"], row["verdict"])
        Console(width=160).print(table)
        if not quick:
            for row, (_, small) in zip(found, paper.rows(Run(full=False)), strict=True):
                if row["sampled"]:
                    row["quick"] = small.ours  # what the tests compare
            _keep(paper, found, run.pictures, Path(folder))


def _keep(paper: Paper, rows: Sequence[Any], pictures: Sequence[Mapping[str, str]], drawn: Path) -> None:
    """Replace the results of an earlier run, each file as a whole: other scripts may read it now."""
    text = json.dumps({"paper": paper.about, "rows": rows, "pictures": pictures}, indent=1, ensure_ascii=False)
    folder = KEPT / paper.key
    files = {folder / picture["file"]: (drawn / picture["file"]).read_bytes() for picture in pictures}
    files[KEPT / f"{paper.key}.json"] = f"{text}\n".encode()
    with replacing([*files], folder if pictures else KEPT) as streams:
        for stream, content in zip(streams, files.values(), strict=True):
            stream.write(content)
    for old in set(folder.glob("*.png")) - set(files):
        old.unlink()
    write_page()


def listed(values: Any, form: str = ".4g") -> str:
    """Numbers separated by commas."""
    return ", ".join(f"{value:{form}}" for value in np.ravel(values))


# -- the page -------------------------------------------------------------------------------------------------------


def kept() -> list[dict[str, Any]]:
    """Results of the last full run of each paper, in the order of keys."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(KEPT.glob("*.json"))]


def write_page() -> None:
    """Write the verdicts by paper into the documentation, whose build adds `details`."""
    above, mark, below = PAGE.read_text(encoding="utf-8").partition(BELOW)
    _, end, after = below.partition(END)
    if not (mark and end):
        raise ValueError(f"{PAGE} has lost the line {(END if mark else BELOW).strip()!r}")
    write_whole(PAGE, f"{above}{mark}{markdown(kept())}{end}{after}")


def markdown(papers: Sequence[Mapping[str, Any]]) -> str:
    """Verdicts by paper."""
    lines = ["", f"| paper | {' | '.join(VERDICTS)} |", "|---" * (len(VERDICTS) + 1) + "|"]
    for found in papers:
        count = Counter(row["verdict"] for row in found["rows"])
        cells = (str(count[verdict] or "") for verdict in VERDICTS)
        lines.append(f"| [{found['paper']['cite']}](papers/{found['paper']['key']}.json) | {' | '.join(cells)} |")
    return "\n".join([*lines, "", DETAILS, ""])


def details() -> str:
    """For each paper what differs, repeated reasons by letter, and pictures: for the built documentation."""
    lines = []
    for found in kept():
        about = found["paper"]
        lines += ["", f"## {about['cite']}: {about['title']}"]
        lines += ["", about["note"]] if about["note"] else []
        differs = _together(row for row in found["rows"] if row["verdict"] in (FALSE, OPEN))
        notes = Counter(note for rows in differs for note in _notes(rows[0]))
        letters = {
            note: f"({letter})"
            for note, letter in zip((note for note, n in notes.items() if n > 1), ascii_lowercase, strict=False)
        }
        if differs:
            lines += ["", ":::{table} Differs or is not given", ":class: published", ""]
            lines += _lines(differs, letters)
        lines += ["", " ".join(f"{letter} {note}" for note, letter in letters.items())] if letters else []
        for picture in found["pictures"]:
            lines += ["", f":::{{figure}} papers/{about['key']}/{picture['file']}", "", picture["caption"], ":::"]
    return "\n".join(lines)


def _notes(row: Mapping[str, Any]) -> list[str]:
    return [note for note in (row["why"], row["reading"]) if note]


def _together(rows: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Rows by place; those of one place with the same notes share a line, but for claims that do not hold."""
    lines: dict[str, dict[Any, list[Mapping[str, Any]]]] = {}
    for k, row in enumerate(rows):
        key = k if not row["what"] and row["why"] else (row["why"], row["reading"])
        lines.setdefault(row["place"], {}).setdefault(key, []).append(row)
    return [alike for place in lines.values() for alike in place.values()]


def _lines(groups: Sequence[Sequence[Mapping[str, Any]]], letters: Mapping[str, str]) -> list[str]:
    """Lines of the table of what differs or is not given."""
    lines = ["| place | printed | computed | reason |", "|---|---|---|---|"]
    place = None
    for rows in groups:
        notes = " ".join(letters.get(note, note) for note in _notes(rows[0]))
        shown = [": ".join(filter(None, (row["what"], row["printed"]))) for row in rows]
        ours = [row["ours"] or OPEN for row in rows]
        computed = OPEN if set(ours) == {OPEN} else "; ".join(ours)
        cells = ["" if rows[0]["place"] == place else rows[0]["place"], "; ".join(shown), computed, notes]
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        place = rows[0]["place"]
    return [*lines, ":::"]
