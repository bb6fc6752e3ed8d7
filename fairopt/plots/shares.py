"""Who holds how much of what: stacked shares by resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, held_units
from fairopt.instance import Instance
from fairopt.plots.common import percent_ticks, plain, say_none
from fairopt.plots.layers import by_largest, patches
from fairopt.plots.panels import Inches, Picture, one
from fairopt.plots.words import inches, shorter, ticks_below

__all__ = ["StackedShares", "stacked_shares"]

Float = NDArray[np.floating[Any]]

NUMBERS = (7.0, 6.0, 5.0)  # points of numbers above bars
LEFT: dict[str, Any] = {
    "label": "left over", "facecolor": "white", "edgecolor": "#D2D2D2", "hatch": "\\\\\\", "linewidth": 0.5,
}  # fmt: skip


class StackedShares(Picture):
    """A bar for each resource, a piece of it for each user."""

    def __init__(self, instance: Instance, allocations: Sequence[Allocation]) -> None:
        self.instance = instance
        self.layers = by_largest(instance, allocations)
        self.size = (max(1.5, 0.5 * instance.n_resources), 2.6)
        self.names = [shorter(r, 14) for r in instance.resources]
        self.below = 0.15

    def draw(self, ax: Any, allocation: Allocation | None) -> None:
        """The bars, with the percent in use above each."""
        assert allocation is not None
        held = _held(allocation)
        at = np.arange(self.instance.n_resources)
        bottom = np.zeros(self.instance.n_resources)
        for layer in self.layers:
            height = held[layer.users].sum(axis=0)
            ax.bar(at, height, bottom=bottom, width=0.75, color=layer.colour, hatch=layer.hatch,
                   edgecolor="white", linewidth=0.4, label=layer.label)  # fmt: skip
            bottom = bottom + height
        there = self.instance.total_capacities > 0
        ax.bar(at, np.where(there, np.maximum(100 - bottom, 0), 0), bottom=bottom, width=0.75, **LEFT)
        for x, used, some in zip(at, bottom, there, strict=True):
            if some:
                ax.text(x, 101.5, f"{used:.0f}", ha="center", va="bottom", fontsize=7, color="#404040")
            else:
                say_none(ax, float(x))
        ax.set_ylim(0, 108)
        ax.tick_params(axis="y", labelsize=8)
        ax.set_ylabel("share of capacity (%)", fontsize=9)
        plain(ax)

    def fit(self, ax: Any, size: Inches, names: Inches) -> None:
        """Names of resources, and numbers above bars that have room for them."""
        each = size[0] / max(len(self.names), 1)
        points = next((p for p in NUMBERS if inches("100", p) < each), 0.0)
        for text in ax.texts:
            text.set_visible(points > 0)
            text.set_fontsize(points or NUMBERS[-1])
        percent_ticks(ax.yaxis, size[1])
        ticks_below(ax, self.names, size[0], names[1])

    def handles(self) -> list[Any]:
        """Users from the top of the stack down."""
        from matplotlib.patches import Patch

        return [Patch(**LEFT), *patches(self.layers)]


def stacked_shares(allocation: Allocation, ax: Any = None) -> Any:
    """One bar per resource, cut into the parts that users hold, as in Figs. 2 and 7 of Jiang and Wu (2021).

    Parameters
    ----------
    allocation : Allocation
        Any. With more than ten users those with the largest dominant shares have a colour each, and the others are
        added up by the resource that they need most of.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the legend goes beside it, for which ``layout="constrained"`` makes room. Default: the only axes
        of a new figure, ``ax.figure``.

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
    >>> a = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"]))
    >>> ax = stacked_shares(a)
    >>> ax.get_ylabel()
    'share of capacity (%)'
    >>> ax.figure.savefig("shares.png")  # doctest: +SKIP
    """
    return one(StackedShares(allocation.instance, [allocation]), allocation, ax)


def _held(allocation: Allocation) -> Float:
    """Percent of each resource's total capacity that each user holds, shape (n_users, n_resources)."""
    total = allocation.instance.total_capacities
    return 100 * held_units(allocation) / np.where(total > 0, total, 1.0)
