"""Tables as Markdown and LaTeX, with names escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fairopt.runtime.display import sentence, visible

if TYPE_CHECKING:
    from fairopt.report.tables import Column, Table

_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_[]|$~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})
_LATEX = str.maketrans(
    {c: "\\" + c for c in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "|": r"\textbar{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "[": "{[}",
        "*": "{*}",  # at the start of a row it would be read as an option of `\\\\`
    }
)
_POWER = re.compile(r"(-?[\d.]+)e([+-]\d+)")


def markdown_text(text: str) -> str:
    """Text escaped for Markdown, table cells included."""
    return visible(text).translate(_MARKDOWN)


def latex_text(text: str) -> str:
    """Text escaped for LaTeX."""
    return visible(text).translate(_LATEX)


def markdown_table(columns: Sequence[Column]) -> list[str]:
    """Lines of a table in Markdown."""
    words = [[markdown_text(word) for word in (c.header, *c.cells)] for c in columns]
    rows = ["| " + " | ".join(row) + " |" for row in zip(*words, strict=True)]
    rows.insert(1, "|" + "|".join("---:" if c.right else "---" for c in columns) + "|")
    return rows


def latex(about: str, tables: Iterable[Table], lines: Iterable[str]) -> str:
    """Tables as tabulars, each below its title, then sentences; titles and sentences are comments."""
    text = [latex_comment(rf"\usepackage{{booktabs}}; {about}")]
    for k, table in enumerate(tables):
        text += [""] * (k > 0) + [latex_comment(table.title)] * bool(table.title) + latex_table(table.columns)
    return "\n".join([*text, *map(latex_comment, lines)])


def latex_comment(text: str) -> str:
    """A sentence as a comment."""
    return f"% {sentence(text)}"


def latex_table(columns: Sequence[Column]) -> list[str]:
    """Lines of a tabular with booktabs rules; numbers are aligned to the right."""
    words = [[latex_text(c.header), *(_latex_cell(cell, c.right) for cell in c.cells)] for c in columns]
    padded = [
        [w.rjust(max(map(len, column))) if c.right else w.ljust(max(map(len, column))) for w in column]
        for c, column in zip(columns, words, strict=True)
    ]
    head, *body = (" & ".join(row) + r" \\" for row in zip(*padded, strict=True))
    kinds = "".join("r" if c.right else "l" for c in columns)
    return [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]


def _latex_cell(cell: str, number: bool) -> str:
    power = _POWER.fullmatch(cell) if number else None
    if power:
        return rf"${power[1]}\cdot 10^{{{int(power[2])}}}$"
    return "--" if number and cell == "-" else latex_text(cell)
