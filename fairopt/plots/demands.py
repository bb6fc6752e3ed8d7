"""Demands as rays in the plane of two resources, and the path of an allocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation, units_of
from fairopt.instance import Instance
from fairopt.plots.common import HATCHES, cut, plain
from fairopt.plots.layers import Layer, by_largest
from fairopt.plots.panels import Picture, Two, two_of
from fairopt.runtime.arrays import Float

DASHED = (0, (2.5, 1.0))
STROKES = ("-", (0, (6, 2)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))  # distinguish repeated colours, as hatches do for bars


class DemandLines(Picture):
    """The box of total capacities, a ray for each user, and the cumulative path of what users hold.

    As in Fig. 2 (top) of Joe-Wong et al. (2013). The slope of a user's ray is the ratio of its demands; the ray ends
    where the user alone would exhaust the total capacity of one of the two resources. The dashed path adds up what
    users hold under an allocation, in increasing order of slope; it is straight if all slopes are equal. If demands
    differ by server, slopes are those of what users hold, or without an allocation those of each user's cheapest tasks.
    """

    size = (2.9, 2.7)

    def __init__(self, instance: Instance, allocations: Sequence[Allocation], resources: Two = None) -> None:
        self.instance = instance
        self.two = list(two_of(instance.resources, resources, "resources"))
        self.layers = by_largest(instance, allocations)
        self.path = bool(allocations)
        self.what = "demands and what users hold" if allocations else "demands"
        self.box = instance.total_capacities[self.two]

    def draw(self, ax: Any, allocation: Allocation | None) -> None:
        """Draw the box, the rays, and the path of an allocation."""
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Rectangle

        instance, box = self.instance, self.box
        units = np.zeros((instance.n_users, 2)) if allocation is None else units_of(allocation)[:, self.two]
        slopes = self._slopes(allocation)
        ends = _ray_ends(slopes, box)
        colours = np.empty(instance.n_users, dtype=object)
        for layer in self.layers:
            colours[layer.users] = layer.colour
        ax.add_patch(Rectangle((0, 0), *box, facecolor="#F6F6F6", edgecolor="black", linewidth=1.0, zorder=0.5))
        faint = instance.n_users > 2 * len(self.layers)
        for layer in reversed(self.layers):  # greys below colours
            alone = len(layer.users) == 1
            lines = list(np.stack([np.zeros_like(ends[layer.users]), ends[layer.users]], axis=1))
            ax.add_collection(
                LineCollection(
                    lines,
                    colors=layer.colour,
                    linestyles=[_stroke(layer)],
                    linewidths=1.4 if alone else 0.4,
                    zorder=2 if alone else 1,
                    alpha=0.35 if faint and not alone else 1.0,
                ),
                autolim=False,
            )
        if allocation is not None:
            order = np.argsort(np.arctan2(slopes[:, 1], slopes[:, 0]), kind="stable")
            corners = np.vstack([np.zeros(2), np.cumsum(units[order], axis=0)])
            pieces = list(np.stack([corners[:-1], corners[1:]], axis=1))
            ax.plot(*corners.T, color="white", linewidth=4.0, zorder=2.5)  # sets the path off from the rays
            ax.add_collection(
                LineCollection(pieces, colors=list(colours[order]), linewidths=2.4, linestyles=[DASHED], zorder=3),
                autolim=False,
            )
            ax.plot(*corners[-1], "o", color="black", markersize=5, zorder=4)
        names = [cut(instance.resource_titles[i], 36) for i in self.two]
        ax.set_xlim(0, 1.06 * box[0] or 1.0)
        ax.set_ylim(0, 1.06 * box[1] or 1.0)
        ax.set_xlabel(names[0])
        ax.set_ylabel(names[1])
        plain(ax)

    def _slopes(self, allocation: Allocation | None) -> Float:
        """A direction in the plane of the two resources for each user, in units."""
        if self.instance.demands.ndim == 3 and allocation is not None:
            return np.asarray(units_of(allocation)[:, self.two])
        units = self.instance.derived.cheapest_ratios[:, self.two] * self.box
        return np.where(np.isfinite(units), units, 0.0)  # infinite for a user without an eligible server

    def handles(self) -> list[Any]:
        """Users, the box and the path."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        made: list[Any] = [
            Line2D([], [], color=x.colour, linestyle=_stroke(x), linewidth=1.4, label=x.label) for x in self.layers
        ]
        made.append(Patch(facecolor="#F6F6F6", edgecolor="black", label="all capacity"))
        if self.path:
            words = "what users hold, one\nafter the other"
            made.append(Line2D([], [], color="#404040", linewidth=2.4, linestyle=DASHED, label=words))
            made.append(Line2D([], [], color="black", marker="o", linestyle="", markersize=5, label="in use"))
        return made


def _stroke(layer: Layer) -> Any:
    return STROKES[HATCHES.index(layer.hatch)]


def _ray_ends(slopes: Float, box: Float) -> Float:
    """Where rays from the origin leave the box; the origin for users that need neither resource."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(slopes > 0, box / slopes, np.inf).min(axis=1, initial=np.inf)
    return slopes * np.where(np.isfinite(reach), reach, 0.0)[:, None]
