"""What came out, for people: policies side by side, and tables of one allocation, as data and for `rich` to draw.

Nothing here prints; ``rich.print(comparison)`` does, and so does the command line.

* `comparison`: several policies on one instance. `outcomes`: what each gave, or the reason why it gave nothing.
* `layout`: a comparison for a terminal, Markdown, LaTeX and HTML. `markup`: columns in these, with names escaped.
* `tables`: tables that `rich` draws, and those of one allocation. `server_types`: tables by type of server.
* `frames`: one allocation as a data frame. `views`: as a page of a notebook. `files`: answers as files and JSON.
* `catalogue`: the policies known by name, and the solvers. `demonstration`: what ``fairopt demo`` shows.
"""

from fairopt.report import files
from fairopt.report.catalogue import policy_rows, solver_rows
from fairopt.report.comparison import Comparison, compare
from fairopt.report.frames import user_rows
from fairopt.report.outcomes import Outcome, ask_all, mechanisms, outcome
from fairopt.report.server_types import PLACEMENT
from fairopt.report.tables import Table, allocation_tables, describe

__all__ = [
    "PLACEMENT", "Comparison", "Outcome", "Table", "allocation_tables", "ask_all", "compare", "describe", "files",
    "mechanisms", "outcome", "policy_rows", "solver_rows", "user_rows",
]  # fmt: skip
