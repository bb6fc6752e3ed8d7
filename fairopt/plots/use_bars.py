"""Utilisation by class of servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.plots.cells import LETTERS, cells, classes_of
from fairopt.plots.common import GROUP, Inches, bar_style, bars_used, escaped, label_bars, lighter, plain
from fairopt.plots.panels import Picture
from fairopt.runtime.display import shortened

BARS = 24  # most bars in a picture; more become cells


class UseBars(Picture):
    """Bars by class and resource; instead of more than 24 bars, coloured cells with percentages.

    If a policy determines bundles, units held but not used by tasks are lighter parts of bars, or cells have separate
    columns for units held and units used by tasks.
    """

    what = "utilisation"

    def __init__(self, instance: Instance, allocations: Sequence[Allocation]) -> None:
        self.instance = instance
        self.classes = classes_of(instance)
        self.bundles = any(a.given_bundles is not None for a in allocations)
        n_classes, m = len(self.classes.names), instance.n_resources
        self.bars = n_classes * m <= BARS
        self.by_resource = n_classes == 1  # a single class has resources on the x axis and no legend
        self.below = shortened(instance.resources)
        if self.bars:
            self.size = (max(1.8, 0.25 * n_classes * m, 0.62 * max(n_classes, m * self.by_resource)), 2.4)
            self.below = self.below if self.by_resource else self.classes.labels("\n", 24)
        else:
            self.scale_title = "in use (%)"
            if self.bundles:
                self.below = [f"{name}\n{words}" for words in ("held", "by tasks") for name in self.below]
            self.size = self.classes.size(len(self.below), wide=0.48 if self.bundles else 0.42)
            self.beside = self.classes.labels()

    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """Draw units used by tasks, and units held as lighter bars or in separate columns."""
        assert allocation is not None
        used, held = self.classes.part(allocation.task_usage), self.classes.part(allocation.usage)
        if self.bars:
            return self._bars(ax, used, held)
        if self.bundles:
            used = np.hstack([held, used])
        texts = [["-" if np.isnan(x) else f"{x:.0f}" for x in row] for row in used.tolist()]
        image = cells(ax, used, texts, self.classes)
        if self.bundles:
            ax.axvline(self.instance.n_resources - 0.5, color="white", linewidth=4)
        return image

    def _bars(self, ax: Any, used: Any, held: Any) -> None:
        m, at = self.instance.n_resources, np.arange(len(used))
        width = GROUP / m
        for i, resource in enumerate(shortened(self.instance.resources, LETTERS)):
            x = np.array([float(i)]) if self.by_resource else at + (i - (m - 1) / 2) * width
            how = {"width": 0.7 if self.by_resource else 0.9 * width, **bar_style(0 if self.by_resource else i)}
            top = bars_used(ax, x, used[:, i], held[:, i], escaped(resource), **how)
            label_bars(ax, top, held[:, i])
        ax.set_axisbelow(True)
        ax.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        ax.set_ylabel("in use (%)")
        ax.set_ylim(0, 108)
        ax.set_xlim(-0.6, len(self.below) - 0.4)
        if not self.by_resource:
            ax.set_xlabel("class of servers (number of servers)")
        plain(ax)

    def room(self, size: Inches) -> Inches:
        """The space above each bar, or the size of a cell."""
        if not self.bars:
            return self.classes.room(size, len(self.below))
        return size[0] / len(self.below) * (1.0 if self.by_resource else GROUP / self.instance.n_resources), size[1]

    def handles(self) -> list[Any]:
        """Resources, and the entry for lighter parts of bars."""
        from matplotlib.patches import Patch

        if not self.bars:
            return []
        named = () if self.by_resource else shortened(self.instance.resources, LETTERS)
        return [Patch(label=escaped(r), **bar_style(i)) for i, r in enumerate(named)] + [lighter()] * self.bundles
