"""Columns of a table as Markdown, LaTeX and HTML, with every name escaped for where it goes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fairopt.display import visible

if TYPE_CHECKING:
    from fairopt.report.tables import Column

__all__ = [
    "html_table", "html_text", "latex_table", "latex_text", "markdown_table", "markdown_text",
]  # fmt: skip

_MARKDOWN = {c: "\\" + c for c in "\\`*_[]|$~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_LATEX = {c: "\\" + c for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
    "[": "{[}", "*": "{*}",  # a row that begins with one would be an option of the end of the row before
}  # fmt: skip
_POWER = re.compile(r"(-?[\d.]+)e([+-]\d+)")


def markdown_text(text: str) -> str:
    r"""Text that Markdown shows as it is, in a cell of a table too.

    Examples
    --------
    >>> print(markdown_text("a|b_c <b>"))
    a\|b\_c &lt;b&gt;
    """
    return "".join(_MARKDOWN.get(c, c) for c in visible(text))


def latex_text(text: str) -> str:
    r"""Text that LaTeX sets as it is, where its engine and font have the letters.

    Examples
    --------
    >>> print(latex_text("50% of a_b"))
    50\% of a\_b
    """
    return "".join(_LATEX.get(c, c) for c in visible(text))


def html_text(text: str) -> str:
    """Text that HTML shows as it is, in attributes too.

    Examples
    --------
    >>> html_text("<script>")
    '&lt;script&gt;'
    """
    return html.escape(visible(text))


def markdown_table(columns: Sequence[Column]) -> list[str]:
    """Lines of a table in Markdown."""
    words = [[markdown_text(word) for word in (c.header, *c.cells)] for c in columns]
    rows = ["| " + " | ".join(row) + " |" for row in zip(*words, strict=True)]
    rows.insert(1, "|" + "|".join("---:" if c.right else "---" for c in columns) + "|")
    return rows


def latex_table(columns: Sequence[Column]) -> list[str]:
    r"""Lines of a tabular with the rules of booktabs; numbers are set to the right, where their decimals agree."""
    words = [[latex_text(c.header), *(_latex_cell(cell, c.right) for cell in c.cells)] for c in columns]
    widths = [max(map(len, column)) for column in words]
    padded = [
        [w.rjust(width) if c.right else w.ljust(width) for w in column]
        for c, column, width in zip(columns, words, widths, strict=True)
    ]
    head, *body = (" & ".join(row) + r" \\" for row in zip(*padded, strict=True))
    kinds = "".join("r" if c.right else "l" for c in columns)
    return [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]


def html_table(columns: Sequence[Column]) -> str:
    """A table in HTML."""
    side = ["right" if c.right else "left" for c in columns]

    def row(tag: str, cells: Iterable[str]) -> str:
        parts = zip(side, cells, strict=True)
        return "<tr>" + "".join(f'<{tag} style="text-align:{s}">{html_text(w)}</{tag}>' for s, w in parts) + "</tr>"

    body = "".join(row("td", cells) for cells in zip(*(c.cells for c in columns), strict=True))
    return f"<table><thead>{row('th', (c.header for c in columns))}</thead><tbody>{body}</tbody></table>"


def _latex_cell(cell: str, number: bool) -> str:
    if number and cell == "-":
        return "--"
    power = _POWER.fullmatch(cell) if number else None
    if power:
        return rf"${power[1]}\cdot 10^{{{int(power[2])}}}$"
    return latex_text(cell)
