"""Stacked shares of each resource by user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation, units_of
from fairopt.instance import Instance
from fairopt.plots.common import Inches, label_bars, plain
from fairopt.plots.layers import by_largest, by_team
from fairopt.plots.panels import Picture
from fairopt.questions.by_team import teams_shown
from fairopt.runtime.display import shortened

LEFT: dict[str, Any] = {
    "label": "left over",
    "facecolor": "white",
    "edgecolor": "#D2D2D2",
    "hatch": "\\\\\\",
    "linewidth": 0.5,
}


class StackedShares(Picture):
    """A bar for each resource, divided into shares of users, as in Figs. 2 and 7 of Jiang and Wu (2021), or of teams.

    With more than ten users, those with the largest dominant shares have a colour each; the others are grouped by
    dominant resource.
    """

    what = "shares of resources"

    def __init__(self, instance: Instance, allocations: Sequence[Allocation]) -> None:
        self.instance = instance
        by = teams_shown(instance)
        self.layers = by_largest(instance, allocations) if by is None else by_team(allocations, by)
        self.size = (max(1.8, 0.5 * instance.n_resources), 2.6)
        self.below = shortened(instance.resources)

    def draw(self, ax: Any, allocation: Allocation | None) -> None:
        """Draw the bars with the percentage in use above each."""
        assert allocation is not None
        total = self.instance.total_capacities
        units = 100 * units_of(allocation) / np.where(total > 0, total, 1.0)
        at, bottom = np.arange(len(total)), np.zeros(len(total))
        for layer in self.layers:
            height = units[layer.users].sum(axis=0)
            ax.bar(at, height, bottom=bottom, width=0.75, linewidth=0.4, **layer.style)
            bottom = bottom + height
        rest = ax.bar(at, np.where(total > 0, np.maximum(100 - bottom, 0), 0), bottom=bottom, width=0.75, **LEFT)
        label_bars(ax, rest, np.where(total > 0, bottom, np.nan))
        ax.set_ylim(0, 108)
        ax.set_ylabel("share of capacity (%)")
        plain(ax)

    def room(self, size: Inches) -> Inches:
        """The space above each bar."""
        return size[0] / len(self.below), size[1]

    def handles(self) -> list[Any]:
        """Users or teams from the top of the stack down."""
        from matplotlib.patches import Patch

        return [Patch(**LEFT), *(Patch(**layer.style) for layer in self.layers[::-1])]
