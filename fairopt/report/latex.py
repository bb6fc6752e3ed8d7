"""Allocations, frontiers and reports by property in LaTeX."""

from __future__ import annotations

from typing import Any

from fairopt.allocation import Allocation
from fairopt.policy import label
from fairopt.properties.verdicts import ByProperty
from fairopt.report.frontiers import frontier_table, remarks
from fairopt.report.held import held_sentences, held_tables
from fairopt.report.markup import latex
from fairopt.report.pages import property_table
from fairopt.report.tables import allocation_tables
from fairopt.tradeoff.frontier import Frontier


def allocation_latex(allocation: Allocation) -> str:
    """See `Allocation.to_latex`."""
    tables = [*allocation_tables(allocation, whole_names=True), *held_tables(allocation, whole_names=True)]
    lines = [str(allocation.certificate), *held_sentences(allocation), *allocation.instance.notes]
    return latex(f"{label(allocation.policy)} on {allocation.instance!r}", tables, lines)


def frontier_latex(frontier: Frontier) -> str:
    """See `Frontier.to_latex`."""
    return latex(repr(frontier), [frontier_table(frontier)], remarks(frontier))


def property_latex(report: ByProperty[Any]) -> str:
    """See `ByProperty.to_latex`."""
    return latex(report._heading(), [property_table(report)], ())
