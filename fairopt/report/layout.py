"""Comparisons for a terminal, Markdown, LaTeX and HTML; allocations and instances as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.display import sentence, visible
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.report import markup
from fairopt.report.tables import (
    PLACEMENT,
    Column,
    Table,
    allocation_tables,
    instance_tables,
    numbers,
    percents,
    short,
    shortened,
)

if TYPE_CHECKING:
    from fairopt.report.comparison import Comparison

__all__ = ["allocation_page", "console", "groups", "instance_page", "latex", "listed", "markdown", "page"]

EXACT = 1e-12  # a smaller gap is rounding, and shown as 0
LEGEND = (
    "tasks: NTT, all users together. Jain: index of dominant shares. least share: smallest dominant share per weight. "
    "Of each resource: the part in use"
)
LOST = ". gap of whole tasks: how much of the divisible optimum they lose at most"
HELD = ", which is what users hold; by tasks: what their tasks use of it"
AUR = "AUR: units left over, resources added up"
MIXED = " though their units may differ, as Jiang and Wu (2021) do"


def groups(comparison: Comparison, whole_names: bool = False) -> list[list[Column]]:
    """The columns in groups that a table keeps together; the first group is the policies' names."""
    rows, instance = comparison.rows(), comparison.instance
    resources = instance.resources if whole_names else shortened(instance.resources)
    names = [r["policy"] for r in rows]

    def column(header: str, key: str) -> Column:
        return Column(header, numbers([np.nan if r[key] is None else r[key] for r in rows]))

    def used(key: str, words: str = "") -> list[Column]:
        none = dict.fromkeys(instance.resources)
        return [
            Column(name + words, percents((r[key] or none)[i] for r in rows))
            for i, name in zip(instance.resources, resources, strict=True)
        ]

    by = ["-" if r["method"] is None else " ".join(filter(None, (r["method"], r["solver"]))) for r in rows]
    gaps = [
        "-" if r["gap"] is None else "0" if r["gap"] < EXACT else f"{r['gap']:.{'1%' if r['whole'] else '1e'}}"
        for r in rows
    ]
    return [
        [Column("policy", names if whole_names else shortened(names), right=False)],
        [column("tasks", "ntt"), column("Jain", "jain"), column("least share", "smallest_dominant_share")],
        used("utilisation"),
        used("utilisation_of_tasks", ", by tasks") if comparison.by_type.bundles else [],
        [Column("solved by", by, right=False), Column("gap", gaps), column("seconds", "seconds")],
        [column(f"AUR ({_unit(instance) or 'units added'})", "aur")],
    ]


def console(comparison: Comparison) -> Iterator[Any]:
    """The parts of a comparison for `rich` to print."""
    from rich.text import Text

    first, *others = groups(comparison)
    done, asked = len(comparison.outcomes), len(comparison.outcomes) + len(comparison.unanswered)
    count = f"{done} {'policy' if asked == 1 else 'policies'}" if done == asked else f"{done} of {asked} policies"
    yield Table(f"{count} on {comparison.instance!r}", first[0], others)
    yield from (Text(sentence(finding), style="bold") for finding in comparison.findings())
    yield from (Text(sentence(line), style="red") for line in _failures(comparison))
    names = zip(first[0].cells, (o.policy for o in comparison.outcomes), strict=True)
    yield from (Text(f"{cut} is {visible(name)}", style="dim") for cut, name in names if cut != name)
    held, unit = comparison.by_type.bundles, _unit(comparison.instance)
    whole = any(row["whole"] for row in comparison.rows())
    legend = LEGEND + (HELD if held else "") + (LOST if whole else "")
    yield Text(f"{legend}. {AUR}{'' if unit else MIXED}.", style="dim")


def markdown(comparison: Comparison) -> str:
    """See `Comparison.to_markdown`."""
    lines = markup.markdown_table(_all(comparison))
    for line in _sentences(comparison):
        lines += ["", markup.markdown_text(line)]
    for table in (tables := comparison.server_type_tables(whole_names=True)):
        lines += ["", markup.markdown_text(table.title), "", *markup.markdown_table(table.columns)]
    return "\n".join([*lines, "", PLACEMENT] if tables else lines)


def latex(comparison: Comparison) -> str:
    """See `Comparison.to_latex`."""
    lines = [rf"% \usepackage{{booktabs}}; {sentence(repr(comparison))}", *markup.latex_table(_all(comparison))]
    lines += [f"% {sentence(line)}" for line in _sentences(comparison)]
    for table in (tables := comparison.server_type_tables(whole_names=True)):
        lines += ["", f"% {sentence(table.title)}", *markup.latex_table(table.columns)]
    return "\n".join([*lines, f"% {PLACEMENT}"] if tables else lines)


def page(comparison: Comparison) -> str:
    """A comparison as HTML."""
    notes = "".join(f"<p>{markup.html_text(line)}</p>" for line in _sentences(comparison))
    return markup.html_table(_all(comparison)) + notes + _html(comparison.server_type_tables(whole_names=True))


def allocation_page(allocation: Allocation) -> str:
    """An allocation as HTML: tasks and units by user, use by class of servers, and the certificate."""
    words = (label(allocation.policy), repr(allocation.instance), str(allocation.certificate))
    name, instance, certificate = map(markup.html_text, words)
    return f"<p><b>{name}</b> on {instance}</p>{_html(allocation_tables(allocation))}<p>{certificate}</p>"


def instance_page(instance: Instance) -> str:
    """An instance as HTML: demands and capacities, and what a reader left out or assumed."""
    notes = "".join(f"<p>{markup.html_text(note)}</p>" for note in instance.notes)
    return f"<p><b>{markup.html_text(repr(instance))}</b></p>" + _html(instance_tables(instance)) + notes


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "nothing"


def _unit(instance: Instance) -> str | None:
    """The common unit of all resources, if they have one."""
    units = set(instance.units or ())
    return units.pop() if len(units) == 1 else None


def _html(tables: Sequence[Table]) -> str:
    return "".join(f"<p>{markup.html_text(table.title)}</p>{markup.html_table(table.columns)}" for table in tables)


def _all(comparison: Comparison) -> list[Column]:
    return [column for group in groups(comparison, whole_names=True) for column in group]


def _failures(comparison: Comparison) -> list[str]:
    """Lines on policies without an answer."""
    lines = [f"{short(name)}: {type(error).__name__}: {error}" for name, error in comparison.errors.items()]
    if comparison.interrupted:
        lines.append(f"interrupted: {len(comparison.unanswered)} more policies were asked for and not answered")
    return lines


def _sentences(comparison: Comparison) -> list[str]:
    """The lines below a table."""
    lines = [*comparison.findings(), *_failures(comparison), *comparison.instance.notes]
    return [" ".join(line.split()) for line in lines]
