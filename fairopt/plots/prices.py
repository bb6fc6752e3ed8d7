"""What one more unit of each resource is worth, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.plots.cells import cells, classes_of, size_of_cells
from fairopt.plots.common import COLOURS, amount, cut, plain, room_for, ticks_below
from fairopt.plots.panels import Picture, one
from fairopt.policy import label

__all__ = ["Prices", "prices"]

Float = NDArray[np.floating[Any]]

NOISE = 1e-6  # of the dearest: what a certificate (relative gap 1e-6) cannot tell from zero
NOTHING = "all prices are zero:\nmore of one resource\nalone raises nothing"
WIDE = 1.5  # inches that this takes
TITLE = "price of the whole capacity\n(% of the dearest)"


class Prices(Picture):
    """Bars by resource, or coloured cells where there are several classes of servers; the numbers are prices."""

    def __init__(self, instance: Instance, allocations: Sequence[Allocation]) -> None:
        if allocations and all(a.prices is None for a in allocations):
            names = ", ".join(dict.fromkeys(label(a.policy) for a in allocations))
            raise InvalidBlock(
                f"no prices to draw: {names} has none; prices come with policies that are solved as one program, "
                "as drf, nash or fds:alpha=1"
            )
        self.instance = instance
        self.classes = classes_of(instance)
        m = instance.n_resources
        self.per = [f"per {unit or 'unit'}" for unit in instance.units or [""] * m]
        self.bars = len(self.classes.names) == 1
        if self.bars:
            self.size = (max(1.5, 0.75 * m), 2.4)
        else:
            self.scale_title = TITLE
            self.size = size_of_cells(self.classes, m, wide=0.6)
            self.below = 0.8
            self.left = room_for(self.classes.labels(" "))

    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """Bars or cells, or a line of text where there are no prices."""
        assert allocation is not None
        missing = allocation.prices is None
        found = np.full(self.classes.capacities.shape, np.nan)
        if allocation.prices is not None:
            found = self._of_classes(allocation.prices)
        worth = np.nan_to_num(found) * self.instance.total_capacities
        dearest = float(worth.max(initial=0.0))
        percent = np.where(np.isnan(found), np.nan, 100 * worth / (dearest or 1.0))
        noise = np.abs(percent) <= 100 * NOISE
        none = "" if missing else "-"
        texts = [[none if np.isnan(p) else "0" if n else amount(p, 2) for p, n in zip(ps, ns, strict=True)]
                 for ps, ns in zip(found.tolist(), noise.tolist(), strict=True)]  # fmt: skip
        percent = np.where(noise, 0.0, percent)
        columns = [f"{cut(r, 14)}\n{cut(per, 14)}" for r, per in zip(self.instance.resources, self.per, strict=True)]
        if self.bars:
            self._bars(ax, percent[0], texts[0], columns)
            image = None
        else:
            image = cells(ax, percent, texts, self.classes, columns, self.size)
        nothing = self.bars and dearest == 0 and self.size[0] >= WIDE
        words = "no prices" if missing else NOTHING if nothing else ""
        if words:
            ax.text(0.5, 0.5, words, transform=ax.transAxes,
                    ha="center", va="center", fontsize=8, color="#404040",
                    bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8})  # fmt: skip
        return image

    def _of_classes(self, by_row: Float) -> Float:
        """Prices of each class, by the number of servers where rows differ; NaN where there is none of a resource."""
        counts = self.instance.counts[:, None].astype(float)
        mean = self.classes.add_up(by_row * counts) / self.classes.counts[:, None]
        return np.where(self.classes.capacities > 0, mean, np.nan)

    def _bars(self, ax: Any, percent: Float, texts: Sequence[str], names: Sequence[str]) -> None:
        at = np.arange(len(names))
        ax.bar(at, np.nan_to_num(percent), width=0.7, color=COLOURS[0])
        for x, (height, text) in enumerate(zip(np.nan_to_num(percent).tolist(), texts, strict=True)):
            ax.text(x, height + 1.5, text, ha="center", va="bottom", fontsize=8, color="#404040")
        ticks_below(ax, names, self.size[0])
        ax.set_xlim(-0.6, len(names) - 0.4)
        ax.set_ylim(0, 110)
        ax.set_yticks(range(0, 101, 20))
        ax.set_ylabel(TITLE, fontsize=9)
        ax.tick_params(axis="y", labelsize=8)
        plain(ax)


def prices(allocation: Allocation, ax: Any = None) -> Any:
    r"""Prices of resources: the number is the derivative of the objective per unit, the length compares resources.

    Parameters
    ----------
    allocation : Allocation
        With `Allocation.prices`. One class of servers gives a bar for each resource; several a row of cells each,
        of the 60 classes with the most servers.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a colour bar goes beside it. Default: the only axes of a new figure, ``ax.figure``.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingExtra
        Without matplotlib.
    InvalidBlock
        If the allocation has no prices.

    Notes
    -----
    A price per core and one per GiB cannot be compared. Heights and colours show the price of as many units as the
    whole cluster has, in percent of the dearest resource (and class). What is less than 1e-6 of the dearest is zero as
    far as certificates can tell, and drawn as zero.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 8], [1, 2]], [16, 64], resources=["cpu", "memory"], units={"memory": "GiB"})
    >>> ax = prices(fo.NashWelfare().allocate(cluster))
    >>> [name.get_text().replace("\n", " ") for name in ax.get_xticklabels()]
    ['cpu per unit', 'memory per GiB']
    """
    return one(Prices(allocation.instance, [allocation]), allocation, ax)
