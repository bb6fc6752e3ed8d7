"""Comparisons of policies and tables of allocations, as data and for `rich`; nothing here prints.

The names for users: `Comparison`, which `fairopt.compare` returns; and `schema`, the JSON Schema of output of commands.

The names for packages that report on answers:

* A `Table` of a `Column` for each number: `numbers`, `percents` and `signed` write its cells; `unusual` leaves out what
  is the same everywhere; `short_titles` and `scarcest_first` are headers and their order. `amount` is for sentences.
* `outcome`: the `Outcome` of a policy; `mechanisms`: policies by name.
* `in_use` and `percent_in_use` say what is in use, in sentences; up to `FULL`, what is left over counts as none.
* `check_output`: whether a file can be written, before anything is solved.

The files:

* `comparison`: several policies on one instance; `outcomes`: the result of one of them, an allocation or an error.
* `tables`: tables for `rich`; `markup`: tables as Markdown and LaTeX; `pages`: answers as HTML and LaTeX.
* `brief`: an answer on one screen; `network`: one on a network.
* `frontiers`, `timelines`, `why`: tables of frontiers, simulations and explanations.
* `frames`: allocations as data frames.
* `files`: output files, JSON, and its schemas in the folder ``schemas``;
  `demonstration`: ``fairopt demo``.
* `library`: the library of instances, and one case.
* `what_if`: answers before and after a change; `differences`: what changed between two answers.
* `held`: tables and sentences of what runs now beside what is fair.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
