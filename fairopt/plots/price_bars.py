"""What one more unit of each resource is worth, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.objectives import Leximin
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.plots.cells import cells, classes_of, fit_cells, size_of_cells
from fairopt.plots.common import COLOURS, NOISE, amount, percent_ticks, plain, room_for
from fairopt.plots.panels import Inches, Picture, one
from fairopt.plots.words import block, inches, shorter, ticks_below
from fairopt.policy import label

__all__ = ["PriceBars", "prices"]

Float = NDArray[np.floating[Any]]

NUMBERS = (8.0, 7.0, 6.0, 5.0)  # points of prices above bars
SENTENCE = "a sentence on prices"  # marks the text that says what the numbers do not
LEAST = (0.3, 0.3)  # inches of axes for a sentence
TITLE = "price of the whole capacity\n(% of the dearest)"


class PriceBars(Picture):
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
        self.names = [
            f"{shorter(r, 14)}\n{shorter(per, 14)}" for r, per in zip(instance.resources, self.per, strict=True)
        ]
        self.below = 0.15
        if self.bars:
            self.size = (max(1.5, 0.75 * m), 2.4)
        else:
            self.scale_title = TITLE
            self.size = size_of_cells(self.classes, m, wide=0.6)
            self.left = room_for(self.classes.labels(" "))

    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """Bars or cells, or a line of text where there are no prices."""
        assert allocation is not None
        missing = allocation.prices is None
        found = np.full(self.classes.capacities.shape, np.nan)
        less = found
        if allocation.prices is not None and allocation.prices_left is not None:
            found, less = self._of_classes(allocation.prices), self._of_classes(allocation.prices_left)
        worth = np.nan_to_num(found) * self.instance.total_capacities
        dearest = float(worth.max(initial=0.0))
        percent = np.where(np.isnan(found), np.nan, 100 * worth / (dearest or 1.0))
        noise = np.abs(percent) <= 100 * NOISE
        words = "no prices" if missing else _why_zero(allocation) if dearest == 0 else ""
        none = "" if words else "-"
        zero = "" if words and not self.bars else "0"  # the sentence says it
        texts = [[none if np.isnan(p) else zero if n else amount(p, 2) for p, n in zip(ps, ns, strict=True)]
                 for ps, ns in zip(found.tolist(), noise.tolist(), strict=True)]  # fmt: skip
        lost = np.where(np.isfinite(less), less, 0.0) * self.instance.total_capacities
        for k, i in np.argwhere(lost - worth > NOISE * lost.max(initial=0.0)) if zero else ():
            texts[k][i] = f"{texts[k][i] or 0} to {amount(float(less[k, i]), 2)}"
        percent = np.where(noise, 0.0, percent)
        if self.bars:
            self._bars(ax, percent[0], texts[0])
            image = None
        else:
            image = cells(ax, percent, texts, self.classes)
        if words:
            ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", color="#404040",
                    gid=SENTENCE, in_layout=False,
                    bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 1})  # fmt: skip
        return image

    def fit(self, ax: Any, size: Inches, names: Inches) -> None:
        """Names, numbers that have room, and a sentence on as many lines as it needs."""
        for text in ax.texts:
            if text.get_gid() == SENTENCE:
                words, points = block(text.get_text().replace("\n", " "), (0.96 * size[0], 0.8 * size[1]))
                text.set_text(words)
                text.set_fontsize(points)
                text.set_visible(all(there >= least for there, least in zip(size, LEAST, strict=True)))
        if not self.bars:
            fit_cells(ax, self.classes, self.names, size, names)
            return
        percent_ticks(ax.yaxis, size[1])
        ticks_below(ax, self.names, size[0], names[1])
        numbers = [text for text in ax.texts if text.get_gid() != SENTENCE]
        each = size[0] / max(len(numbers), 1)
        points = next((p for p in NUMBERS if all(inches(t.get_text(), p) < each for t in numbers)), 0.0)
        for text in numbers:
            text.set_visible(points > 0)
            text.set_fontsize(points or NUMBERS[-1])

    def _of_classes(self, by_row: Float) -> Float:
        """Prices of each class, by the number of servers where rows differ; NaN where there is none of a resource."""
        counts = self.instance.counts[:, None].astype(float)
        mean = self.classes.add_up(by_row * counts) / self.classes.counts[:, None]
        return np.where(self.classes.capacities > 0, mean, np.nan)

    def _bars(self, ax: Any, percent: Float, texts: Sequence[str]) -> None:
        at = np.arange(len(texts))
        ax.bar(at, np.nan_to_num(percent), width=0.7, color=COLOURS[0])
        for x, (height, text) in enumerate(zip(np.nan_to_num(percent).tolist(), texts, strict=True)):
            ax.text(x, height + 1.5, text, ha="center", va="bottom", fontsize=8, color="#404040")
        ax.set_xlim(-0.6, len(texts) - 0.4)
        ax.set_ylim(0, 110)
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
    far as certificates can tell, and drawn as zero. Where one unit less costs more than one unit more is worth, both
    numbers are there, as ``0 to 0.5``.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 8], [1, 2]], [16, 64], resources=["cpu", "memory"], units={"memory": "GiB"})
    >>> ax = prices(fo.NashWelfare().allocate(cluster))
    >>> [name.get_text().replace("\n", " ") for name in ax.get_xticklabels()]
    ['cpu per unit', 'memory per GiB']
    """
    return one(PriceBars(allocation.instance, [allocation]), allocation, ax)


def _why_zero(allocation: Allocation) -> str:
    """What it means that no resource has a price: more of one alone raises nothing."""
    limits, objective = allocation.instance.task_limits, getattr(allocation.policy, "objective", None)
    done = allocation.tasks >= limits * (1 - NOISE)
    if done.all():
        return "all prices are zero: all tasks run"
    if not isinstance(objective, Leximin):
        return "all prices are zero: more of one resource alone raises nothing"
    level = np.where(limits > 0, allocation.share(objective.share) / allocation.instance.weights, np.inf)
    lowest = level <= level.min() * (1 + NOISE)
    why = "a task limit sets it" if done[lowest].any() else "more of one resource alone does not raise it"
    return f"all prices are zero: they are of the first level, and {why}"
