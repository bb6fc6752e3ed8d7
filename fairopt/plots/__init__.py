"""Pictures of allocations: who holds how much of what, and where. They need the extra ``plots``, and no screen."""

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
