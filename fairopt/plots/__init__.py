"""Pictures of allocations with matplotlib (the extra ``plots``); no screen is needed.

* `kinds`: the pictures by name, of an allocation, an instance, or several policies.
* `shares`: stacked shares by resource. `dominant`: dominant shares, sorted. `envy`: the envy matrix.
* `use_bars`: utilisation by class of servers. `price_bars`: prices of resources. `servers`: tasks and use by type.
* `purchase_bars`: what more of each resource brings.
* `demands`: demands in the plane of two resources. `region`: what two users can run, and where policies put them.
* `frontier`: the corners of that region. `tradeoff`: pictures of a `Frontier`.
* `timeline`: pictures of a `Timeline`, and of several side by side.
* `survey`: people who answered a survey: compatible points of the plane, and tastes.
* `panels`: one axes, or a panel for each policy: sizes, titles, legends, and names that fit.
* `cells`: tables of coloured cells by class of servers. `layers`: which users have a colour of their own.
* `common`: colours, numbers, shortened names, fonts. `legible`: whether labels overlap or are cut off.
"""

from fairopt.plots.demands import demand_lines
from fairopt.plots.dominant import dominant_shares
from fairopt.plots.envy import envy_matrix
from fairopt.plots.kinds import KINDS, PLANES, check, comparison, draw
from fairopt.plots.legible import unreadable
from fairopt.plots.price_bars import prices
from fairopt.plots.region import feasible_region
from fairopt.plots.servers import server_types
from fairopt.plots.shares import stacked_shares
from fairopt.plots.survey import preferences, questions
from fairopt.plots.timeline import TIMELINE_KINDS, draw_timelines
from fairopt.plots.use_bars import utilisation

__all__ = [
    "KINDS",
    "PLANES",
    "TIMELINE_KINDS",
    "check",
    "comparison",
    "demand_lines",
    "dominant_shares",
    "draw",
    "draw_timelines",
    "envy_matrix",
    "feasible_region",
    "preferences",
    "prices",
    "questions",
    "server_types",
    "stacked_shares",
    "unreadable",
    "utilisation",
]
