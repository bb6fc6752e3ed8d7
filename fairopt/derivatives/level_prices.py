"""The prices of a level of a leximin (`Allocation.level_prices`)."""

from __future__ import annotations

from dataclasses import dataclass

from fairopt.runtime.arrays import Float


@dataclass(frozen=True)
class LevelPrices:
    """A level of a leximin, in shares per weight, the labels of its users, and its derivatives by the capacities.

    ``prices`` (n_servers, n_resources) are the rise of the level (the smallest share per weight of these users) per
    unit more of each capacity: negative where earlier levels rise at its cost. ``prices_left`` (n_servers, n_resources)
    are the fall per unit less: infinite if less capacity leaves no allocation.
    """

    level: float
    users: tuple[str, ...]
    prices: Float
    prices_left: Float
