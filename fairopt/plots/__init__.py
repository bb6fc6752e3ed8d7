"""Pictures of allocations: who holds how much of what, and where. They need the extra ``plots``, and no screen."""

from fairopt.plots.demands import demand_lines
from fairopt.plots.dominant import dominant_shares
from fairopt.plots.envy import envy_matrix
from fairopt.plots.kinds import KINDS, check, comparison, draw
from fairopt.plots.prices import prices
from fairopt.plots.region import feasible_region
from fairopt.plots.servers import server_types
from fairopt.plots.shares import stacked_shares
from fairopt.plots.utilisation import utilisation

__all__ = [
    "KINDS",
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
    "utilisation",
]
