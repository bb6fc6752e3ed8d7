"""Comparisons of policies and tables of allocations, as data and for `rich`; nothing here prints.

* `comparison`: several policies on one instance, as data, as tables, as Markdown and as LaTeX.
* `outcomes`: one row of a comparison: a policy's allocation and its numbers, or why it has none.
* `tables`: tables for `rich`: of an allocation, an instance, types of server. `markup`: these as Markdown and LaTeX.
* `pages`: these as HTML, by Jinja2 (the extra ``html``).
* `frontiers`: frontiers as tables. `timelines`: runs of whole tasks as tables.
* `frames`: an allocation as a data frame. `files`: output files, and values as JSON.
* `catalogue`: the policies and solvers that there are. `demonstration`: what ``fairopt demo`` shows.
"""

from fairopt.report import files
from fairopt.report.catalogue import policy_rows, solver_rows
from fairopt.report.comparison import Comparison, compare
from fairopt.report.frames import user_rows
from fairopt.report.outcomes import Outcome, ask_all, mechanisms, outcome
from fairopt.report.tables import PLACEMENT, Table, allocation_tables, describe

__all__ = [
    "PLACEMENT",
    "Comparison",
    "Outcome",
    "Table",
    "allocation_tables",
    "ask_all",
    "compare",
    "describe",
    "files",
    "mechanisms",
    "outcome",
    "policy_rows",
    "solver_rows",
    "user_rows",
]
