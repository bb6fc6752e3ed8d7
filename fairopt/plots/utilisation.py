"""How much of what is in use on each class of servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.plots.cells import cells, classes_of, size_of_cells
from fairopt.plots.common import HELD, cut, look, plain, room_for, ticks_below
from fairopt.plots.panels import Picture, one

__all__ = ["Utilisation", "utilisation"]

BARS = 24  # up to so many bars, else cells
LOW, ACROSS = 0.08, 0.17  # inches of a bar's width for a number above it: upright, and across
GROUP = 0.84  # of the room of a class, what its bars take


class Utilisation(Picture):
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
        else:
            self.scale_title = "in use (%)"
            self.size = size_of_cells(self.classes, m * (1 + self.bundles))
            self.below = 0.8
            self.left = room_for(self.classes.labels(" "))

    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """What tasks use, and lighter (or in columns of its own) what is held beyond that."""
        assert allocation is not None
        used, held = self.classes.part(allocation.task_usage), self.classes.part(allocation.usage)
        if self.bars:
            return self._bars(ax, used, held)
        columns = [cut(r, 14) for r in self.instance.resources]
        if self.bundles:
            columns = [f"{c}\n{words}" for words in ("held", "by tasks") for c in columns]
            used = np.hstack([held, used])
        texts = [["-" if np.isnan(x) else f"{x:.0f}" for x in row] for row in used.tolist()]
        image = cells(ax, used, texts, self.classes, columns, self.size)
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
            room = self.size[0] / (m if self.by_resource else len(used)) * wide  # inches of a bar
            for place, amount in zip(x, held[:, i].tolist(), strict=True) if room > LOW else ():
                none = bool(np.isnan(amount))
                ax.text(place, 1.5 if none else amount + 1.5, "none" if none else f"{amount:.0f}", ha="center",
                        va="bottom", fontsize=6.5, rotation=90 if none or room < ACROSS else 0, color="#707070",
                        in_layout=False)  # fmt: skip
        ax.set_ylim(0, 108)
        ax.set_yticks(range(0, 101, 20))
        ax.set_axisbelow(True)
        ax.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        ax.set_ylabel("in use (%)", fontsize=9)
        names = [cut(r, 14) for r in self.instance.resources] if self.by_resource else self.classes.labels("\n")
        ticks_below(ax, names, self.size[0])
        ax.set_xlim(-0.6, len(names) - 0.4)
        if not self.by_resource:
            ax.set_xlabel("class of servers (number of servers)", fontsize=9)
        ax.tick_params(axis="y", labelsize=8)
        plain(ax)

    def handles(self) -> list[Any]:
        """Resources, and what lighter means."""
        from matplotlib.patches import Patch

        if not self.bars:
            return []
        named = () if self.by_resource else self.instance.resources
        made = [Patch(label=cut(r), **look(i)) for i, r in enumerate(named)]
        if self.bundles:
            made.append(Patch(color="#5A5A5A", alpha=HELD, linewidth=0, label="lighter: held, but not\nused by tasks"))
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
    return one(Utilisation(allocation.instance, [allocation]), allocation, ax)
