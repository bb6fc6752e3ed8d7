"""Pictures of allocations with matplotlib (the extra ``plots``); no screen is needed.

* `kinds`: the pictures by name, of an allocation, an instance, or several policies.
* `shares`: stacked shares by resource. `dominant`: dominant shares, sorted. `envy`: the envy matrix.
* `use_bars`: utilisation by class of servers. `price_bars`: prices of resources. `servers`: tasks and use by type.
* `purchase_bars`: what more of each resource brings.
* `demands`: demands in the plane of two resources. `region`: what two users can run, and where policies put them.
* `frontier`: the corners of that region. `tradeoff`: pictures of a `Frontier`.
* `timeline`: pictures of a `Timeline`, and of several side by side.
* `survey`: people who answered a survey: compatible points of the plane, and tastes.
* `panels`: one axes, or a panel for each policy: sizes, titles and legends.
* `cells`: tables of coloured cells by class of servers. `layers`: which users have a colour of their own.
* `common`: colours, numbers, names, fonts.
"""

from fairopt.plots.envy import envy_matrix
from fairopt.plots.kinds import KINDS, PLANES, check, comparison, draw
from fairopt.plots.survey import preferences, questions
from fairopt.plots.timeline import TIMELINE_KINDS, draw_timelines

__all__ = [
    "KINDS",
    "PLANES",
    "TIMELINE_KINDS",
    "check",
    "comparison",
    "draw",
    "draw_timelines",
    "envy_matrix",
    "preferences",
    "questions",
]
