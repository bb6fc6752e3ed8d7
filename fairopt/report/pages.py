"""Answers in notebooks, as HTML by Jinja2 (the extra ``html``; without it notebooks show plain text)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.properties.verdicts import ByProperty
from fairopt.report.frontiers import frontier_table, remarks
from fairopt.report.held import held_sentences, held_tables
from fairopt.report.tables import Column, Table, allocation_tables, instance_tables
from fairopt.runtime.display import sentence, visible
from fairopt.tradeoff.frontier import Frontier

if TYPE_CHECKING:
    import jinja2

FOLDED = ("verdict", "what shows it")  # columns of properties that may be folded
TEMPLATE = """\
{% if heading %}<p><b>{{ heading }}</b>{{ about }}</p>{% endif %}
{% for table in tables %}
{% if table.title %}<p>{{ table.title }}</p>{% endif %}
<table><thead><tr>
{%- for c in table.columns %}<th style="text-align:{{ c.side }}">{{ c.header }}</th>{% endfor -%}
</tr></thead><tbody>
{%- for row in table.rows %}<tr>
{%- for cell in row %}<td style="text-align:{{ cell.side }}">
{%- if cell.tone == "bad" %}<b>{{ cell.text }}</b>{% else %}{{ cell.text }}{% endif %}</td>{% endfor -%}
</tr>{% endfor -%}
</tbody></table>
{% endfor %}
{% for line in lines %}<p>{{ line }}</p>{% endfor %}
"""


@cache
def _template() -> jinja2.Template | None:
    try:
        from jinja2 import Environment
    except ImportError:
        return None
    return Environment(autoescape=True, finalize=visible, trim_blocks=True).from_string(TEMPLATE)


def page(tables: Iterable[Table], lines: Iterable[str] = (), heading: str = "", about: str = "") -> str | None:
    """A heading, tables, then sentences. None without Jinja2."""
    if (template := _template()) is None:
        return None
    return template.render(tables=list(tables), lines=list(lines), heading=heading, about=about)


def allocation_page(allocation: Allocation) -> str | None:
    """Tables of an allocation, its certificate, and what is held now."""
    about = f" on {allocation.instance!r}"
    return page(
        [*allocation_tables(allocation), *held_tables(allocation)],
        [str(allocation.certificate), *held_sentences(allocation)],
        label(allocation.policy),
        about,
    )


def instance_page(instance: Instance) -> str | None:
    """Demands, capacities and notes."""
    return page(instance_tables(instance), instance.notes, repr(instance))


def frontier_page(frontier: Frontier) -> str | None:
    """The table of a frontier, and remarks."""
    table = frontier_table(frontier)
    return page([Table("", table.first, table.groups)], remarks(frontier), table.title)


def property_page(report: ByProperty[Any]) -> str | None:
    """A row per property."""
    return page([property_table(report)], heading=report._heading())


def property_table(report: ByProperty[Any], title: str = "", shown: Callable[[str], str] = sentence) -> Table:
    """A row per property; violations stand out."""
    rows = [*map(report._row, report.values())]
    cells: Sequence[tuple[str, ...]] = [*zip(*(row for _, row in rows), strict=True)] or [()] * len(report._columns)
    faults = ["bad" * fault for fault, _ in rows]
    first, *others = (
        Column(header, [*map(shown, column)], False, header in FOLDED, tones=faults if k == 1 else ())
        for k, (header, column) in enumerate(zip(report._columns, cells, strict=True))
    )
    return Table(title, first, [others])


def property_report(report: ByProperty[Any]) -> Table:
    """The same for a terminal, with a line for each sentence."""
    return property_table(report, report._heading(), str)
