"""One allocation as a page of a notebook."""

from __future__ import annotations

from fairopt.allocation import Allocation
from fairopt.policy import label
from fairopt.report.markup import html_table, html_text
from fairopt.report.tables import allocation_tables

__all__ = ["page"]


def page(allocation: Allocation) -> str:
    """An allocation as HTML: who runs and holds what, what is in use where, and the certificate.

    Of many users those at both ends of the dominant shares; of many classes of servers the busiest.
    """
    parts = [f"<p><b>{html_text(label(allocation.policy))}</b> on {html_text(repr(allocation.instance))}</p>"]
    for table in allocation_tables(allocation):
        columns = [table.first, *(column for group in table.groups for column in group)]
        parts += [f"<p>{html_text(table.title)}</p>", html_table(columns)]
    return "".join([*parts, f"<p>{html_text(str(allocation.certificate))}</p>"])
