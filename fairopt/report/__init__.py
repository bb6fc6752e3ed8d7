"""Comparisons of policies and tables of allocations, as data and for `rich`; nothing here prints.

The name for users, beside `fairopt.compare`, which returns it: `Comparison`.

The files:

* `comparison`: several policies on one instance, as data, as tables, as Markdown and as LaTeX.
* `outcomes`: one row of a comparison: a policy's allocation and its numbers, or why it has none.
* `tables`: tables for `rich`: of an allocation, an instance, types of server. `markup`: these as Markdown and LaTeX.
* `pages`: these as HTML, by Jinja2 (the extra ``html``).
* `frontiers`: frontiers as tables. `timelines`: runs of whole tasks as tables.
* `frames`: an allocation as a data frame. `files`: output files, and values as JSON.
* `catalogue`: the policies and solvers that there are. `demonstration`: what ``fairopt demo`` shows.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
