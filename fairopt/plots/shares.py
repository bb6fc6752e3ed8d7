"""Who holds how much of what: stacked shares by resource, and dominant shares by user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.shares import DominantShare
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.plots.common import COLOURS, HATCHES, cut, matplotlib_or_missing, new_figure, plain
from fairopt.report.tables import held_units

__all__ = ["comparison", "dominant_shares", "stacked_shares"]

Float = NDArray[np.floating[Any]]

GREYS = ("#5A5A5A", "#8C8C8C", "#B4B4B4", "#D2D2D2")
LEFT: dict[str, Any] = {
    "label": "left over", "facecolor": "white", "edgecolor": "#D2D2D2", "hatch": "\\\\\\", "linewidth": 0.5,
}  # fmt: skip
MOST = 10  # users with a colour of their own; the others share greys
PER_ROW = 4  # panels beside each other


@dataclass(frozen=True)
class _Layer:
    """A piece of each bar: some users together, how it looks and what the legend says."""

    label: str
    users: NDArray[np.int64]
    colour: str
    hatch: str = ""


def stacked_shares(allocation: Allocation, ax: Any = None) -> Any:
    """One bar per resource, cut into the parts that users hold, as in 000 Figs. 2 and 7.

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
    if ax is None:
        ax = new_figure(1.6 + 0.9 * max(allocation.instance.n_resources, 3), 4.0).subplots()
    else:
        matplotlib_or_missing()
    layers = _layers(allocation.instance, allocation.share(DominantShare()))
    _draw(ax, allocation, layers)
    _legend(ax, layers)
    return ax


def comparison(comparison: Any, axes: Sequence[Any] | None = None) -> list[Any]:
    r"""Stacked shares of each policy beside the others, in the same colours, with one legend.

    Parameters
    ----------
    comparison : Comparison
        What `compare` returns. Policies without an answer are left out.
    axes : sequence of matplotlib.axes.Axes, optional
        One per policy with an answer; the legend goes beside the last. Default: panels of a new figure.

    Returns
    -------
    list of matplotlib.axes.Axes

    Raises
    ------
    MissingExtra
        Without matplotlib.
    InvalidBlock
        If there is nothing to draw, or not enough axes to draw it on.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> panels = fo.compare(["drf", "2df"], cluster).plot()
    >>> [panel.get_title() for panel in panels]
    ['DRF\n15 tasks', '2-DF\n17.31 tasks']
    """
    found = comparison.allocations
    if not found:
        raise InvalidBlock("no policy gave an answer, so there is nothing to draw; see .errors for why")
    instance = comparison.instance
    if axes is None:
        rows = math.ceil(len(found) / PER_ROW)
        columns = math.ceil(len(found) / rows)
        width = max(1.3, 0.55 * instance.n_resources)
        figure = new_figure(columns * (width + 0.35) + 2.9, 2.9 * rows + 0.4)
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
        for unused in grid[len(found) :]:
            unused.set_axis_off()
        panels = list(grid[: len(found)])
    else:
        matplotlib_or_missing()
        panels = list(np.asarray(axes, dtype=object).ravel())
        if len(panels) < len(found):
            raise InvalidBlock(f"{len(panels)} axes for {len(found)} policies with an answer; give one each")
        panels = panels[: len(found)]
    largest = np.max([a.share(DominantShare()) for a in found.values()], axis=0)
    layers = _layers(instance, largest)
    for k, (panel, (name, allocation)) in enumerate(zip(panels, found.items(), strict=True)):
        _draw(panel, allocation, layers)
        tasks = allocation.tasks.sum()
        panel.set_title(f"{cut(name)}\n{tasks:{',.0f' if tasks >= 100 else '.4g'}} tasks", fontsize=9)
        if axes is None and k % columns:
            panel.set_ylabel("")
    if axes is None:
        handles = _handles(layers)
        panels[0].figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=8)
    else:
        _legend(panels[-1], layers)
    return panels


def dominant_shares(allocation: Allocation, ax: Any = None) -> Any:
    """Dominant shares per weight, from the smallest to the largest; users that run all their tasks are lighter.

    Parameters
    ----------
    allocation : Allocation
        Any.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: the only axes of a new figure, ``ax.figure``.

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
    >>> ax = dominant_shares(fo.DRF().allocate(fo.datasets.demo()))
    >>> ax.get_xlabel()
    'dominant share per weight (%)'
    """
    instance = allocation.instance
    shares = 100 * allocation.share(DominantShare()) / instance.weights
    few = instance.n_users <= 30
    if ax is None:
        ax = new_figure(5.2, 0.8 + 0.24 * max(instance.n_users, 4)) if few else new_figure(6.0, 3.6)
        ax = ax.subplots()
    else:
        matplotlib_or_missing()
    order = np.argsort(shares, kind="stable")
    done = (allocation.tasks >= instance.task_limits * (1 - 1e-6))[order]
    colours = np.where(done, COLOURS[4], COLOURS[0])
    at = np.arange(instance.n_users)
    title = "dominant share per weight (%)"
    if few:
        ax.barh(at, shares[order], color=colours, height=0.75)
        ax.set_yticks(at, [cut(instance.users[j]) for j in order], fontsize=8)
        ax.set_xlabel(title)
        ax.margins(y=0.02)
    else:
        ax.scatter(at, shares[order], c=colours, s=5, linewidths=0)
        ax.set_xlabel(f"{instance.n_users:,} users, from the smallest share to the largest")
        ax.set_ylabel(title)
        ax.margins(x=0.01)
        positive = shares[shares > 0]
        if positive.size and positive.max() > 100 * positive.min():  # zeros stay in sight, unlike on a "log" scale
            ax.set_yscale("symlog", linthresh=float(positive.min()))
            ax.yaxis.set_major_formatter("{x:g}")
    if done.any():
        from matplotlib.patches import Patch

        handles = [Patch(color=COLOURS[0], label="wants more"), Patch(color=COLOURS[4], label="runs all its tasks")]
        ax.legend(handles=handles, frameon=False, fontsize=8, loc="lower right" if few else "upper left")
    plain(ax)
    return ax


# -- pieces ---------------------------------------------------------------------------------------------------


def _layers(instance: Instance, shares: Float) -> list[_Layer]:
    """Who has a colour, and how the others are added up."""
    n = instance.n_users
    most = n if n <= MOST + 1 else MOST  # one other would take as much room as its own name
    named = np.sort(np.argsort(-shares, kind="stable")[:most])
    layers = [
        _Layer(cut(instance.users[j]), np.array([j]), COLOURS[k % len(COLOURS)], HATCHES[k // len(COLOURS)])
        for k, j in enumerate(named.tolist())
    ]  # fmt: skip
    rest = np.setdiff1d(np.arange(n), named)
    if len(rest) == 0:
        return layers
    if instance.n_resources > len(GREYS):
        return [*layers, _Layer(f"{len(rest):,} others", rest, GREYS[1])]
    dominant = instance.cheapest_ratios[rest].argmax(axis=1)
    for i, name in enumerate(instance.resources):
        group = rest[dominant == i]
        if len(group):
            others = "other" if len(group) == 1 else "others"
            layers.append(_Layer(f"{len(group):,} {others}, mostly {cut(name)}", group, GREYS[i]))
    return layers


def _held(allocation: Allocation) -> Float:
    """Percent of each resource's total capacity that each user holds, shape (n_users, n_resources)."""
    total = allocation.instance.total_capacities
    return 100 * held_units(allocation) / np.where(total > 0, total, 1.0)


def _draw(ax: Any, allocation: Allocation, layers: Sequence[_Layer]) -> None:
    instance = allocation.instance
    held = _held(allocation)
    at = np.arange(instance.n_resources)
    bottom = np.zeros(instance.n_resources)
    for layer in layers:
        height = held[layer.users].sum(axis=0)
        ax.bar(at, height, bottom=bottom, width=0.75, color=layer.colour, hatch=layer.hatch,
               edgecolor="white", linewidth=0.4, label=layer.label)  # fmt: skip
        bottom = bottom + height
    ax.bar(at, np.maximum(100 - bottom, 0), bottom=bottom, width=0.75, **LEFT)
    for x, used in zip(at, bottom, strict=True):
        ax.text(x, 101.5, f"{used:.0f}", ha="center", va="bottom", fontsize=7, color="#404040")
    ax.set_ylim(0, 108)
    ax.set_yticks(range(0, 101, 20))
    ax.tick_params(axis="y", labelsize=8)
    ax.set_ylabel("share of capacity (%)")
    names = [cut(r, 14) for r in instance.resources]
    crowded = max(map(len, names), default=0) > 6 and instance.n_resources > 2
    ax.set_xticks(at, names, rotation=35 if crowded else 0, ha="right" if crowded else "center",
                  rotation_mode="anchor", fontsize=8)  # fmt: skip
    plain(ax)


def _handles(layers: Sequence[_Layer]) -> list[Any]:
    """Legend entries in the order of the stack, from the top down."""
    from matplotlib.patches import Patch

    parts = [Patch(facecolor=x.colour, hatch=x.hatch, edgecolor="white", label=x.label) for x in layers]
    return [Patch(**LEFT), *reversed(parts)]


def _legend(ax: Any, layers: Sequence[_Layer]) -> None:
    ax.legend(handles=_handles(layers), loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
