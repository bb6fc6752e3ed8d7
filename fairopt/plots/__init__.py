"""Pictures of allocations: who holds how much of what, and where. They need the extra ``plots``, and no screen.

* `kinds`: the pictures by name, of one allocation, of an instance, of policies side by side.
* `shares`, `dominant`, `use_bars`, `price_bars`, `envy`, `demands`, `region`: a picture each.
* `servers`: tasks and use by type of server. `frontier`: the corners of a region.
* `panels`: what all pictures have in common; panels side by side. `arrange`: where panels and the legend go.
* `cells`: tables of coloured cells by class of servers. `layers`: users with a colour of their own, and the others.
* `common`: colours, sizes and numbers. `words`: names that fit. `measure`: the room that axes have.
* `chosen`: the two users or resources at the axes. `legible`: whether the words of a picture can be read.
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
from fairopt.plots.use_bars import utilisation

__all__ = [
    "KINDS",
    "PLANES",
    "check",
    "comparison",
    "demand_lines",
    "dominant_shares",
    "draw",
    "envy_matrix",
    "feasible_region",
    "prices",
    "server_types",
    "stacked_shares",
    "unreadable",
    "utilisation",
]
