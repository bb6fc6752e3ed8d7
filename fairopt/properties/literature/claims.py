"""What the literature claims of fairness notions, and whether it is so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fairopt.errors import InvalidBlock, nearest
from fairopt.properties.literature.claim import OTHER, PAPERS, Case, Claim
from fairopt.properties.literature.sharing import ONE_POOL
from fairopt.properties.literature.tradeoff import TRADEOFF

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["OTHER", "PAPERS", "Case", "Claim", "claims", "markdown", "summary", "tables"]

TABLE = tuple(sorted((*ONE_POOL, *TRADEOFF), key=lambda claim: list(PAPERS).index(claim.paper)))


def claims(paper: str | None = None) -> tuple[Claim, ...]:
    """Every property claim of the papers, with our verdict.

    Parameters
    ----------
    paper : str, optional
        Only those of papers in whose line of `PAPERS` (authors, year, title, notions) these words stand, as
        ``DRF``, ``k-DF``, ``Joe-Wong`` or ``Hamzeh et al. 2019``.

    Returns
    -------
    tuple of Claim

    Raises
    ------
    InvalidBlock
        If there is no such paper.

    Examples
    --------
    >>> from fairopt.properties.literature.claims import claims
    >>> [claim.where for claim in claims("MLF-DRS") if claim.verdict == "refuted"][:3]
    ['Theorem 1', 'Theorem 2', 'Theorem 3']
    """
    if paper is None:
        return TABLE
    words = re.compile(rf"(?<![\w-]){re.escape(str(paper).strip())}(?![\w-])", re.IGNORECASE)
    found = [key for key, title in PAPERS.items() if str(paper).strip() and words.search(f"{key}: {title}")]
    if not found:
        raise InvalidBlock(f"no claims of a paper {paper!r} are known; {nearest(paper, PAPERS)}")
    return tuple(claim for claim in TABLE if claim.paper in found)


def summary(found: Iterable[Claim]) -> str:
    """How many of each verdict, in a sentence.

    Parameters
    ----------
    found : iterable of Claim

    Returns
    -------
    str

    Examples
    --------
    >>> from fairopt.properties.literature.claims import claims, summary
    >>> summary(claims("slides"))
    '6 claims: 5 proved, 1 refuted'
    """
    counts = Counter("hold on what was searched" if c.verdict.startswith("holds") else c.verdict for c in found)
    total = sum(counts.values())
    parts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    return f"{total} claim{'s' * (total != 1)}: {parts}"


def markdown(found: Iterable[Claim] = TABLE) -> str:
    """A table for a README: one line for each claim, and the witness of each refuted one.

    Parameters
    ----------
    found : iterable of Claim, optional
        All by default.

    Returns
    -------
    str

    Examples
    --------
    >>> from fairopt.properties.literature.claims import claims, markdown
    >>> print(markdown(claims("slides")).splitlines()[2])
    | Jiang and Wu 2018, slide DRF | DRF satisfies pareto | proved |
    """
    chosen = tuple(found)
    lines = ["| paper | claim | verdict |", "|---|---|---|"]
    for claim in chosen:
        verdict = f"**{claim.verdict}**" if claim.verdict == "refuted" else claim.verdict
        lines.append(f"| {claim.paper}, {claim.where} | {_claimed(claim)} | {verdict} |")
    refuted = [claim for claim in chosen if claim.verdict == "refuted"]
    if refuted:
        lines += ["", "Refuted by:", ""]
        lines += [f"* {claim.paper}, {claim.where} ({claim.property}): {_evidence(claim)}" for claim in refuted]
    return "\n".join(lines)


def tables(found: Iterable[Claim] = TABLE, reasons: bool = False) -> list[RenderableType]:
    """The claims for a terminal, by paper; the library itself prints nothing.

    Parameters
    ----------
    found : iterable of Claim, optional
        All by default.
    reasons : bool, default False
        Whether every claim's argument, instance and note stand beside it, or only where an instance decides.

    Returns
    -------
    list of rich renderables

    Examples
    --------
    >>> from fairopt.properties.literature.claims import claims, tables
    >>> len(tables(claims("H-FFMRA")))  # the title and the table
    2
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    chosen = tuple(found)
    parts: list[RenderableType] = []
    for paper, title in PAPERS.items():
        rows = [claim for claim in chosen if claim.paper == paper]
        if not rows:
            continue
        table = Table("where", "claim", "verdict", "why", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column, ratio in zip(table.columns, (15, 30, 11, 44), strict=True):
            column.ratio = ratio
        table.expand = True
        for claim in rows:
            shown = reasons or claim.verdict == "refuted" or claim.cases
            table.add_row(
                Text(claim.where), Text(_claimed(claim)),
                Text(claim.verdict, style="bold red" if claim.verdict == "refuted" else ""),
                Text(_evidence(claim, notes=reasons) if shown else ""),
            )  # fmt: skip
        parts += [Text(f"{paper}: {title}", style="bold"), table]
    return parts


def _claimed(claim: Claim) -> str:
    if claim.says in ("satisfies", "violates"):
        what = f" {claim.says} {claim.property}"
    elif claim.property in OTHER:
        what = f": {claim.says}"
    else:
        what = f": {claim.property}, {claim.says}"
    return claim.about + what + (f" ({claim.conditions})" if claim.conditions else "")


def _evidence(claim: Claim, notes: bool = False) -> str:
    words = [claim.argument] if claim.argument else []
    words += [f"{case}." for case in claim.cases]
    if claim.searched and claim.verdict == "proved":
        words.append(f"None found in {claim.searched:,} instances.")
    if notes and claim.note:
        words.append(f"[{claim.note}]")
    return " ".join(words)
