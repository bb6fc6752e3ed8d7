"""Pictures of allocations: who holds how much of what, and where. They need the extra ``plots``, and no screen."""

from fairopt.plots.envy import envy_matrix
from fairopt.plots.servers import server_types
from fairopt.plots.shares import comparison, dominant_shares, stacked_shares

__all__ = ["comparison", "dominant_shares", "envy_matrix", "server_types", "stacked_shares"]
