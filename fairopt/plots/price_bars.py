"""Prices of resources by class of servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.plots.cells import cells, classes_of
from fairopt.plots.common import COLOURS, HELD_OPACITY, NUMBER, Inches, amount, plain
from fairopt.plots.panels import Picture
from fairopt.policy import label
from fairopt.questions.by_server import sum_by
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import shortened, shorter
from fairopt.runtime.tolerances import GAP_TOLERANCE

TITLE = "price of the whole capacity\n(% of the highest)"


class PriceBars(Picture):
    """Bars by resource, or coloured cells for several classes of servers.

    A price per core and one per GiB cannot be compared. Lengths, colours and their numbers are therefore prices of the
    whole capacity, in percent of the highest; the price per unit is below the name of a resource. Where one unit less
    costs more than one unit more is worth, both are shown, as ``0 to 50``, and the bar is lighter between them.
    """

    what = "prices"

    def __init__(self, instance: Instance, allocations: Sequence[Allocation]) -> None:
        if allocations and all(a.prices is None for a in allocations):
            names = ", ".join(dict.fromkeys(label(a.policy) for a in allocations))
            fix = "policies solved as one optimisation problem with divisible tasks have prices, such as drf, nash or"
            raise InvalidBlock(f"no prices to draw: {names} has none; {fix} fds:alpha=1")
        self.instance = instance
        self.classes = classes_of(instance)
        self.bars = len(self.classes.names) == 1
        self.below = shortened(instance.resources)
        if not self.bars:
            self.scale_title = TITLE
            self.size = self.classes.size(instance.n_resources, wide=0.6)
            self.beside = self.classes.labels()
            return
        self.size = (max(1.8, 0.6 * instance.n_resources), 2.4)
        if len(allocations) == 1:  # the labels hold the prices, which differ between panels
            self.size = (max(1.8, 0.85 * instance.n_resources), 2.4)
            each = self._of_classes(np.asarray(allocations[0]._shown_prices[0]))[0]
            values = np.nan_to_num(each) * instance.total_capacities
            each = np.where(values > GAP_TOLERANCE * values.max(initial=0.0), each, 0.0)
            units = instance.units or [None] * len(each)
            self.below = [
                f"{name}\n{amount(price, 2)} per {shorter(unit or 'unit', 10)}"
                for name, price, unit in zip(self.below, each.tolist(), units, strict=True)
            ]

    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """Draw bars or cells with numbers; return no image if no price is positive."""
        assert allocation is not None
        right = left = np.full(self.classes.capacities.shape, np.nan)
        more, less = allocation._shown_prices
        if more is not None and less is not None:
            total = self.instance.total_capacities
            right, left = (self._of_classes(p) * total for p in (more, less))
        left = np.where(np.isfinite(left), np.fmax(left, right), right)
        highest = float(np.nan_to_num(left).max(initial=0.0)) or 1.0
        low, high = (np.where(np.abs(p) <= GAP_TOLERANCE * highest, 0.0, 100 * p / highest) for p in (right, left))
        words = self.finding(allocation)
        texts = [
            [self._text(*pair, bool(words)) for pair in zip(*rows, strict=True)]
            for rows in zip(low.tolist(), high.tolist(), strict=True)
        ]
        image = self._bars(ax, low[0], high[0], texts[0]) if self.bars else cells(ax, low, texts, self.classes)
        return None if words else image

    def _text(self, low: float, high: float, explained: bool) -> str:
        """Percentages for one unit more and, if it differs, one unit less; empty if the title says why."""
        if explained and (np.isnan(low) or not self.bars):
            return ""
        if np.isnan(low):
            return "-"
        least = f"{low:.0f}" if low == 0 or low >= 0.5 else "<1"
        return f"{least} to {high:.0f}" if high - low > 0.5 else least

    def finding(self, allocation: Allocation | None) -> str:
        """The reason if there are no prices or all are zero."""
        prices = None if allocation is None else allocation._shown_prices[0]
        if allocation is None or prices is None:
            return "no prices"
        prices = np.nan_to_num(prices)[self.instance.capacities > 0]
        return "" if (prices > 0).any() else _why_zero(allocation)

    def room(self, size: Inches) -> Inches:
        """The space above each bar, or the size of a cell."""
        return (size[0] / len(self.below), size[1]) if self.bars else self.classes.room(size, len(self.below))

    def _of_classes(self, by_row: Float) -> Float:
        """Mean prices of each class over its servers; NaN for zero capacity."""
        counts = self.instance.counts[:, None].astype(float)
        sums = sum_by(self.instance.derived.server_classes, by_row * counts)[self.classes.shown]
        mean = sums / self.classes.counts[:, None]
        return np.where(self.classes.capacities > 0, mean, np.nan)

    def _bars(self, ax: Any, low: Float, high: Float, texts: Sequence[str]) -> Any:
        at, low, high = np.arange(len(texts)), np.nan_to_num(low), np.nan_to_num(high)
        ax.bar(at, low, width=0.7, color=COLOURS[0])
        top = ax.bar(at, high - low, bottom=low, width=0.7, color=COLOURS[0], alpha=HELD_OPACITY)
        ax.bar_label(top, texts, padding=1, fontsize=8, color="#404040", gid=NUMBER)
        ax.set_xlim(-0.6, len(texts) - 0.4)
        ax.set_ylim(0, 110)
        ax.set_ylabel(TITLE)
        plain(ax)


def _why_zero(allocation: Allocation) -> str:
    """A sentence that explains why all prices are zero."""
    done = not allocation.wanting_more.any()
    return f"all prices are zero: {'all tasks run' if done else 'more of one resource alone raises nothing'}"
