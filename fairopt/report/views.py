"""Allocations and instances as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.report.markup import html_table, html_text
from fairopt.report.tables import Table, allocation_tables, instance_tables

__all__ = ["allocation_page", "instance_page"]


def allocation_page(allocation: Allocation) -> str:
    """Who runs and holds what, what is in use where, and the certificate.

    Of many users those at both ends of the dominant shares; of many classes of servers the busiest.
    """
    title = f"<p><b>{html_text(label(allocation.policy))}</b> on {html_text(repr(allocation.instance))}</p>"
    return title + _tables(allocation_tables(allocation)) + f"<p>{html_text(str(allocation.certificate))}</p>"


def instance_page(instance: Instance) -> str:
    """What tasks take and what there is, and what a reader left out or assumed."""
    notes = "".join(f"<p>{html_text(note)}</p>" for note in instance.notes)
    return f"<p><b>{html_text(repr(instance))}</b></p>" + _tables(instance_tables(instance)) + notes


def _tables(tables: Sequence[Table]) -> str:
    """Tables under their titles."""
    return "".join(
        f"<p>{html_text(table.title)}</p>{html_table([table.first, *(c for group in table.groups for c in group)])}"
        for table in tables
    )
