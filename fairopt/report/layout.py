"""How a comparison is laid out: its columns, and these for a terminal, Markdown, LaTeX and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.display import sentence, visible
from fairopt.report import markup
from fairopt.report.server_types import PLACEMENT
from fairopt.report.tables import Column, Table, numbers, percents, short, shortened
from fairopt.server_sums import several_types

if TYPE_CHECKING:
    from fairopt.report.comparison import Comparison

__all__ = ["console", "groups", "latex", "listed", "markdown", "page"]

LEGEND = (
    "tasks: NTT, all users together. AUR: units left over, resources added up. Jain: index of dominant shares. "
    "least share: smallest dominant share per weight. Of each resource: the part in use"
)
HELD = ", which is what users hold; by tasks: what their tasks use of it."


def groups(comparison: Comparison, whole_names: bool = False) -> list[list[Column]]:
    """The columns, those together that belong together; the first group is the policies' names."""
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
    gaps = ["-" if r["gap"] is None else f"{r['gap']:.1e}" for r in rows]
    return [
        [Column("policy", names if whole_names else shortened(names), right=False)],
        [column("tasks", "ntt"), column("AUR", "aur"), column("Jain", "jain"),
         column("least share", "smallest_dominant_share")],
        used("utilisation"),
        used("utilisation_of_tasks", ", by tasks") if comparison.by_type.bundles else [],
        [Column("solved by", by, right=False), Column("gap", gaps), column("seconds", "seconds")],
    ]  # fmt: skip


def console(comparison: Comparison) -> Iterator[Any]:
    """What `rich` prints."""
    from rich.text import Text

    first, *others = groups(comparison)
    done, asked = len(comparison.outcomes), len(comparison.outcomes) + len(comparison.unanswered)
    count = f"{done} {'policy' if asked == 1 else 'policies'}" if done == asked else f"{done} of {asked} policies"
    yield Table(f"{count} on {comparison.instance!r}", first[0], others)
    yield from (Text(sentence(finding), style="bold") for finding in comparison.findings())
    yield from (Text(sentence(line), style="red") for line in _failures(comparison))
    names = [o.policy for o in comparison.outcomes]
    long = [(cut, name) for cut, name in zip(first[0].cells, names, strict=True) if cut != name]
    yield from (Text(f"{cut} is {visible(name)}", style="dim") for cut, name in long)
    yield Text(LEGEND + (HELD if comparison.by_type.bundles else "."), style="dim")


def markdown(comparison: Comparison) -> str:
    """See `Comparison.to_markdown`."""
    lines = markup.markdown_table(_all(comparison))
    for line in _sentences(comparison):
        lines += ["", markup.markdown_text(line)]
    for table in _by_type(comparison):
        lines += ["", markup.markdown_text(table.title), "", *markup.markdown_table([table.first, *table.groups[0]])]
    return "\n".join([*lines, "", PLACEMENT] if _by_type(comparison) else lines)


def latex(comparison: Comparison) -> str:
    """See `Comparison.to_latex`."""
    lines = [rf"% \usepackage{{booktabs}}; {sentence(repr(comparison))}", *markup.latex_table(_all(comparison))]
    lines += [f"% {sentence(line)}" for line in _sentences(comparison)]
    for table in _by_type(comparison):
        lines += ["", f"% {sentence(table.title)}", *markup.latex_table([table.first, *table.groups[0]])]
    return "\n".join([*lines, f"% {PLACEMENT}"] if _by_type(comparison) else lines)


def page(comparison: Comparison) -> str:
    """What a notebook shows."""
    parts = [markup.html_table(_all(comparison)), *(f"<p>{markup.html_text(s)}</p>" for s in _sentences(comparison))]
    for table in _by_type(comparison):
        parts += [f"<p>{markup.html_text(table.title)}</p>", markup.html_table([table.first, *table.groups[0]])]
    return "".join(parts)


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them."""
    if not names:
        return "nothing"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _all(comparison: Comparison) -> list[Column]:
    return [column for group in groups(comparison, whole_names=True) for column in group]


def _by_type(comparison: Comparison) -> list[Table]:
    return comparison.server_type_tables(whole_names=True) if several_types(comparison.instance) else []


def _failures(comparison: Comparison) -> list[str]:
    """Why there are fewer answers than policies."""
    lines = [f"{short(name)}: {type(error).__name__}: {error}" for name, error in comparison.errors.items()]
    if comparison.interrupted:
        lines.append(f"interrupted: {len(comparison.unanswered)} more policies were asked for and not answered")
    return lines


def _sentences(comparison: Comparison) -> list[str]:
    """What stands below a table."""
    lines = [*comparison.findings(), *_failures(comparison), *comparison.instance.notes]
    return [" ".join(line.split()) for line in lines]
