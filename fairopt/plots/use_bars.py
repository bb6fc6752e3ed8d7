"""How much of what is in use on each class of servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.plots.cells import cells, classes_of, fit_cells, size_of_cells
from fairopt.plots.common import GROUP, HELD, cut, lighter, look, percent_ticks, plain, room_for, say_none
from fairopt.plots.panels import Inches, Picture, one
from fairopt.plots.words import inches, lines_high, shorter, ticks_below

__all__ = ["UseBars", "utilisation"]

BARS = 24  # up to so many bars, else cells
NUMBER = 6.5  # points of a number above a bar
LOW = 0.09  # inches of a bar for a number that stands upright above it


class UseBars(Picture):
    """Bars by class and resource, or coloured cells where there are many."""

    def __init__(self, instance: Instance, allocations: Sequence[Allocation]) -> None:
        self.instance = instance
        self.classes = classes_of(instance)
        self.bundles = any(a.given_bundles is not None for a in allocations)
        n_classes, m = len(self.classes.names), instance.n_resources
        self.bars = n_classes * m <= BARS
        self.by_resource = n_classes == 1  # one class: resources stand at the axis, and need no legend
        if self.bars:
            self.size = (max(1.5, 0.25 * n_classes * m, 0.62 * max(n_classes, m * self.by_resource)), 2.4)
            self.names = [shorter(r, 14) for r in instance.resources] if self.by_resource else self.classes.labels("\n")
            self.below = 0.15 if self.by_resource else 0.35
        else:
            self.scale_title = "in use (%)"
            self.names = [shorter(r, 14) for r in instance.resources]
            if self.bundles:
                self.names = [f"{name}\n{words}" for words in ("held", "by tasks") for name in self.names]
            self.size = size_of_cells(self.classes, len(self.names), wide=0.48 if self.bundles else 0.42)
            self.below = 0.15
            self.left = room_for(self.classes.labels(" "))

    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """What tasks use, and lighter (or in columns of its own) what is held beyond that."""
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
        for i, resource in enumerate(self.instance.resources):
            x = np.array([float(i)]) if self.by_resource else at + (i - (m - 1) / 2) * width
            wide = 0.7 if self.by_resource else 0.9 * width
            there = np.nan_to_num(used[:, i])
            style = look(0 if self.by_resource else i)
            ax.bar(x, there, width=wide, label=cut(resource), **style)
            more = np.maximum(np.nan_to_num(held[:, i] - used[:, i]), 0.0)
            if more.max(initial=0.0) > 1e-6:  # percent: what rounding leaves is not drawn
                ax.bar(x, more, bottom=there, width=wide, alpha=HELD, **style)
            for place, amount in zip(x, held[:, i].tolist(), strict=True):
                if np.isnan(amount):
                    say_none(ax, place)
                else:
                    ax.text(place, amount + 1.5, f"{amount:.0f}", ha="center", va="bottom", fontsize=NUMBER,
                            color="#707070", in_layout=False)  # fmt: skip
        ax.set_axisbelow(True)
        ax.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        ax.set_ylabel("in use (%)", fontsize=9)
        ax.set_xlim(-0.6, len(self.names) - 0.4)
        if not self.by_resource:
            ax.set_xlabel("class of servers (number of servers)", fontsize=9)
        ax.tick_params(axis="y", labelsize=8)
        plain(ax)

    def fit(self, ax: Any, size: Inches, names: Inches) -> None:
        """Names, and numbers above bars or in cells that have room for them."""
        if not self.bars:
            fit_cells(ax, self.classes, self.names, size, names)
            return
        percent_ticks(ax.yaxis, size[1])
        ticks_below(ax, self.names, size[0], names[1])
        room = size[0] / len(self.names) * (1.0 if self.by_resource else GROUP / self.instance.n_resources)
        upright = inches("100", NUMBER) > room
        above = inches("100", NUMBER) if upright else lines_high(1, NUMBER)
        numbers = room > LOW and size[1] > 3 * above
        for text in ax.texts:
            text.set_visible(numbers)
            text.set_rotation(90 if upright or text.get_text() == "none" else 0)
        top = 100 * size[1] / (size[1] - above) if numbers else 100.0
        ax.set_ylim(0, max(top + 3, 108))  # numbers above full bars are within the axes

    def handles(self) -> list[Any]:
        """Resources, and what lighter means."""
        from matplotlib.patches import Patch

        if not self.bars:
            return []
        named = () if self.by_resource else self.instance.resources
        made = [Patch(label=cut(r), **look(i)) for i, r in enumerate(named)]
        if self.bundles:
            made.append(lighter())
        return made


def utilisation(allocation: Allocation, ax: Any = None) -> Any:
    r"""The part of each resource in use on each class of identical servers.

    Parameters
    ----------
    allocation : Allocation
        Any. Up to 24 bars stand side by side; more are coloured cells with the percent in them, of the 60 classes with
        the most servers. Where bundles are decided, what is held beyond what tasks use is lighter, or a column of
        its own.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a legend or colour bar goes beside it. Default: the only axes of a new figure, ``ax.figure``.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 1], [1, 0]], [[8, 4], [16, 0]], counts=[2, 1], servers=["gpu", "cpu"])
    >>> ax = utilisation(fo.DRF().allocate(cluster))
    >>> [name.get_text().replace("\n", " ") for name in ax.get_xticklabels()]
    ['gpu (2)', 'cpu (1)']
    """
    return one(UseBars(allocation.instance, [allocation]), allocation, ax)
