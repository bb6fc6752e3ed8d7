"""Pictures of allocations with matplotlib (the extra ``plots``); no screen is needed.

* `kinds`: selects a picture of an allocation, an instance or several policies by name.
* `shares`: stacked shares by resource. `dominant`: sorted dominant shares. `envy`: the envy matrix.
* `use_bars`: utilisation by class of servers. `price_bars`: prices of resources. `servers`: tasks and use by type.
* `held`: what runs now beside what policies give.
* `gains`: what each team or user gains and loses by a change; additional tasks for more of each resource.
* `demands`: demands in the plane of two resources. `region`: feasible tasks of two users, and points of policies.
* `tradeoff`: pictures of a `Frontier`.
* `timeline`: pictures of one or several `Timeline` objects.
* `service`: service of users over time.
* `survey`: pictures of a `Survey`: compatible people for each point of the plane, and preferences.
* `panels`: lays out one axes, or a panel for each policy, with sizes, titles and legends.
* `cells`: tables of coloured cells by class of servers. `layers`: selects the users that get a colour of their own.
* `common`: shared colours, numbers, names and fonts.
"""

from fairopt.plots.envy import envy_matrix
from fairopt.plots.kinds import KINDS, PLANES, check, comparison, draw
from fairopt.plots.service import draw_services
from fairopt.plots.survey import preferences, questions
from fairopt.plots.timeline import TIMELINE_KINDS, check_timelines, draw_timelines

__all__ = [
    "KINDS",
    "PLANES",
    "TIMELINE_KINDS",
    "check",
    "check_timelines",
    "comparison",
    "draw",
    "draw_services",
    "draw_timelines",
    "envy_matrix",
    "preferences",
    "questions",
]
