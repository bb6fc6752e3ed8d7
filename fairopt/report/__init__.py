"""Comparisons of policies and tables of allocations, as data and for `rich`; nothing here prints.

The names for users: `Comparison`, which `fairopt.compare` returns; `cluster_report`, which makes a `ClusterReport`, a
page for those who run a cluster; `prometheus`, the metrics of an answer; and `schema`, the JSON Schema of output of
commands.

The files:

* `comparison`: several policies on one instance; `outcomes`: the result of one of them, an allocation or an error.
* `tables`: tables for `rich`; `markup`: tables as Markdown and LaTeX; `pages`: answers as HTML and LaTeX.
* `brief`: an answer on one screen; `network`: one on a network.
* `frontiers`, `quotas`, `timelines`, `why`: tables of frontiers, quotas, simulations and explanations.
* `frames`: allocations as data frames.
* `files`: output files, JSON, and its schemas in the folder ``schemas``;
  `demonstration`: ``fairopt demo``.
* `library`: the library of instances, and one case.
* `what_if`: answers before and after a change; `differences`: what changed between two answers.
* `cluster`: a report on a cluster; `cluster_words`: its sentences; `cluster_page`: its page, by Jinja2 (extra
  ``report``) from the folder ``templates``.
* `held`: tables and sentences of what runs now beside what is fair; `exposition`: the same as metrics.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
