"""Claims of papers about fairness notions, with verdicts, from ``claims.csv`` and ``cases.csv``.

In these files spaces separate numbers of a row and semicolons separate rows; users count from 0. ``searched`` is the
number of instances of a search for counterexamples, with 2 to 4 users, 2 or 3 resources (on servers, 2 each) and small
integers, half of them with zero demands. ``tests/properties/literature/test_claims.py`` repeats a part of it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.errors import InvalidBlock, nearest
from fairopt.instance import Instance
from fairopt.policies.registry import named_policy
from fairopt.properties.names import PROPERTIES

if TYPE_CHECKING:
    from rich.console import RenderableType

PAPERS = {
    "Ghodsi et al. 2011": "Dominant Resource Fairness (DRF, CEEI), NSDI",
    "Wang et al. 2014": "Dominant Resource Fairness with Heterogeneous Servers (DRFH), INFOCOM",
    "Jiang and Wu 2021": "Multi-resource Allocation in Cloud Data Centers (2-DF, k-DF)",
    "Jiang and Wu 2018": "2-Dominant Resource Fairness (2-DF), slides",
    "Hamzeh et al. 2019": "MLF-DRS: A Multi-level Fair Resource Allocation Algorithm",
    "Joe-Wong et al. 2013": (
        "Multi-Resource Allocation: Fairness-Efficiency Tradeoffs in a Unifying Framework (FDS, GFJ)"
    ),
    "Hamzeh et al. 2021": "H-FFMRA: A Multi Resource Fully Fair Resources Allocation Algorithm (FFMRA)",
    "Parkes et al. 2015": (
        "Beyond Dominant Resource Fairness: Extensions, Limitations, and Indivisibilities (SequentialMinMax)"
    ),
    "Kash et al. 2014": "No Agent Left Behind: Dynamic Fair Division of Multiple Resources (dynamic DRF)",
}
OTHER = {  # subjects of claims that are no properties of `check` or `audit`
    "answer": "what the answer is",
    "efficiency": "how many tasks run in total",
    "full-use": "every resource is allocated and used",
}


@dataclass(frozen=True)
class Case:
    """An instance that decides a claim, in numbers that can be checked by hand."""

    demands: tuple[tuple[int, ...], ...]  # by user and resource
    capacities: tuple[Any, ...]  # integers, or tuples of integers by server
    tasks: tuple[Fraction, ...]  # the exact answer, or the best one with the property if that has no short form
    breaks: str  # the property that fails here
    why: str  # a sentence
    mechanism: str | None = None  # for `named_policy`
    user: int | None = None  # who loses, envies or lies
    misreport: tuple[int, ...] | None = None  # the demands that ``user`` reports
    leaves: int | None = None  # the user who leaves
    more: tuple[int, ...] | None = None  # the larger capacities
    after: tuple[Fraction, ...] | None = None  # tasks of the remaining users after that, true ones for the liar
    instead: tuple[Fraction, ...] | None = None  # feasible tasks that dominate ``tasks``, or have a larger objective

    @property
    def instance(self) -> Instance:
        """The case as an `Instance`."""
        return Instance(np.array(self.demands, dtype=float), np.array(self.capacities, dtype=float))

    def __str__(self) -> str:
        return f"Demands {_rows(self.demands)}; capacities {_rows(self.capacities)}: {self.why}"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper about a mechanism, with a verdict."""

    paper: str  # a key of `PAPERS`
    where: str  # theorem, section or table
    mechanism: str  # a member of the family, for `named_policy`; ``claim.make()`` makes it
    about: str  # the mechanism in the paper's words, as ``FDS, beta > 1``
    property: str  # a name of `PROPERTIES` or of `OTHER`
    says: str  # ``satisfies``, ``violates``, ``not guaranteed`` or a short quotation
    conditions: str  # under which the claim is made, or true; may be empty
    verdict: str  # on the claim: ``proved``, ``refuted``, or ``holds on N instances``
    argument: str
    cases: tuple[Case, ...] = ()  # instances that prove or refute the claim
    searched: int = 0  # instances searched for a counterexample
    note: str = ""  # the interpretation of ambiguous claims
    machine: str = ""  # the result of `prove`, by numbers of users n and resources m; may be empty

    def __post_init__(self) -> None:
        if self.paper not in PAPERS:
            raise ValueError(f"unknown paper {self.paper!r}")
        if self.property not in PROPERTIES and self.property not in OTHER:
            raise ValueError(f"unknown property {self.property!r}")
        if self.verdict not in ("proved", "refuted", f"holds on {self.searched:,} instances"):
            raise ValueError(f"unknown verdict {self.verdict!r}")

    def make(self) -> Any:
        """Make the mechanism; `InvalidBlock` where it has no optimum (Joe-Wong et al. 2013, Prop. 3 as printed)."""
        return named_policy(self.mechanism)

    def to_dict(self) -> dict[str, Any]:
        """The claim as plain data, with fractions as text and without None."""

        def plain(fields: list[tuple[str, Any]]) -> dict[str, Any]:
            fractions = ("tasks", "after", "instead")
            return {k: list(map(str, v)) if k in fractions else v for k, v in fields if v is not None}

        return asdict(self, dict_factory=plain)


# -- the two files --------------------------------------------------------------------------------------------------


def _integers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def _fractions(text: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, text.split()))


def _rows_of(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(map(_integers, text.split(";")))


READ: dict[str, Callable[[str], Any]] = {  # columns of cases.csv that are not text
    "demands": _rows_of,
    "capacities": lambda text: _rows_of(text) if ";" in text else _integers(text),
    "tasks": _fractions,
    "user": int,
    "misreport": _integers,
    "leaves": int,
    "more": _integers,
    "after": _fractions,
    "instead": _fractions,
}


def _records(name: str) -> list[dict[str, Any]]:
    with Path(__file__).with_name(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _table() -> tuple[Claim, ...]:
    """All claims; cases have the property of their claim, and its mechanism unless they name another."""
    cases = {
        case.pop("name"): {name: READ.get(name, str)(text) for name, text in case.items() if text}
        for case in _records("cases.csv")
    }

    def claim(given: dict[str, Any]) -> Claim:
        shared = {"breaks": given["property"], "mechanism": given["mechanism"]}
        chosen = tuple(Case(**(shared | cases[name])) for name in given["cases"].split())
        return Claim(**(given | {"cases": chosen, "searched": int(given["searched"] or 0)}))

    return tuple(map(claim, _records("claims.csv")))


TABLE = _table()

# -- tables ---------------------------------------------------------------------------------------------------------


def claims(paper: str | None = None) -> tuple[Claim, ...]:
    """All claims, or those of the papers whose authors, year, title or notions contain ``paper``, as ``k-DF``.

    `InvalidBlock` if no paper does.

    Examples
    --------
    >>> [claim.where for claim in claims("MLF-DRS") if claim.verdict == "refuted"][:3]
    ['Theorem 1', 'Theorem 2', 'Theorem 3']
    >>> claims("k-DF")[2].to_dict()["cases"][0]["tasks"]
    ['1/6', '2/3']
    """
    if paper is None:
        return TABLE
    words = re.compile(rf"(?<![\w-]){re.escape(str(paper).strip())}(?![\w-])", re.IGNORECASE)
    papers = [key for key, title in PAPERS.items() if str(paper).strip() and words.search(f"{key}: {title}")]
    if not papers:
        raise InvalidBlock(f"no claims of a paper {paper!r} are known; {nearest(paper, PAPERS)}")
    return tuple(claim for claim in TABLE if claim.paper in papers)


def summary(found: Iterable[Claim]) -> str:
    """The number of claims with each verdict, in words.

    Examples
    --------
    >>> summary(claims("slides"))
    '6 claims: 5 proved, 1 refuted'
    """
    counts = Counter("hold on what was searched" if c.verdict.startswith("holds") else c.verdict for c in found)
    total = sum(counts.values())
    parts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    return f"{total} claim{'s' * (total != 1)}: {parts}"


def tables(found: Iterable[Claim] = TABLE, reasons: bool = False) -> list[RenderableType]:
    """A title and a Rich table for each paper, with the arguments and notes of all claims if ``reasons``."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    chosen = tuple(found)
    parts: list[RenderableType] = []
    for paper, title in PAPERS.items():
        rows = [claim for claim in chosen if claim.paper == paper]
        if not rows:
            continue
        columns = ("where", "claim", "verdict", "by machine", "why")
        table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column, ratio in zip(table.columns, (15, 28, 12, 15, 30), strict=True):
            column.ratio, column.overflow = ratio, "fold"
        table.expand = True
        for claim in rows:
            refuted = claim.verdict == "refuted"
            why = evidence(claim, notes=reasons) if reasons or refuted or claim.cases else ""
            style = "bold red" if refuted else ""
            cells = claim.where, claimed(claim), Text(claim.verdict, style=style), claim.machine, why
            table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
        parts += [Text(f"{paper}: {title}", style="bold"), table]
    return parts


def claimed(claim: Claim, others: Iterable[Claim] = ()) -> str:
    """A claim in words, with the properties of others that differ in nothing else."""
    if claim.says in ("satisfies", "violates"):
        what = f" {claim.says} {', '.join(dict.fromkeys(each.property for each in (claim, *others)))}"
    elif claim.property in OTHER:
        what = f": {claim.says}"
    else:
        what = f": {claim.property}, {claim.says}"
    return claim.about + what + (f" ({claim.conditions})" if claim.conditions else "")


def evidence(claim: Claim, notes: bool = False) -> str:
    """The argument and the cases that prove or refute a claim."""
    words = [claim.argument] if claim.argument else []
    words += [f"{case}." for case in claim.cases]
    if claim.searched and claim.verdict == "proved":
        words.append(f"No counterexample in {claim.searched:,} instances.")
    if notes and claim.note:
        words.append(f"[{claim.note}]")
    return " ".join(words)


def _rows(rows: tuple[Any, ...]) -> str:
    if rows and isinstance(rows[0], tuple):
        return ", ".join(map(_rows, rows))
    return "(" + ", ".join(map(str, rows)) + ")"
