"""Pictures of a `Frontier`: efficiency against fairness, tasks by parameter, and a map of two parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock, nearest
from fairopt.plots.common import (
    COLOURS,
    GREYS,
    check_axes,
    check_kind,
    colour,
    colour_bar,
    cut,
    fall_back_fonts,
    new_figure,
    plain,
)
from fairopt.plots.panels import LEGEND
from fairopt.runtime.tolerances import GAP_TOLERANCE
from fairopt.tradeoff.frontier import Frontier

SIZE = (6.4, 3.6)  # inches
SHADES = "viridis"  # legible without colour vision
KINDS = {"tradeoff": (1, 2), "tasks": (1,), "map": (2,)}  # numbers of parameters that each kind supports
WORDS = {
    "fairness": "fairness (smallest dominant share of\nusers who want more, % of DRF)",
    "efficiency": "efficiency (tasks, % of the most)",
    "tasks": "tasks",
    "jain": "Jain's index of dominant shares",
    "f_beta": "f_beta",
    "price_of_fairness": "price of fairness",
    "price_bound": "bound on the price of fairness",
    "gap": "gap",
    "method": "method",
}
UNDER_DRF: dict[str, Any] = {"linewidth": 1, "linestyle": (0, (4, 2))}
DECADES = 1000.0  # ratio of tasks above which their axis is logarithmic
MISSING = {"no value": "#9A9A9A", "not reached": "#FFFFFF", "no answer": "#DDDDDD"}
UNITS = {"fairness": 100, "efficiency": 100, "jain": 1, "f_beta": 1, "price_of_fairness": 1, "price_bound": 1}
SPAN = 1e-3  # least range of colours and axes, relative to the unit or the largest value; smaller ones are rounding


def draw_frontier(
    frontier: Frontier, kind: str = "tradeoff", ax: Any = None, of: str = "fairness", users: Sequence[str] | None = None
) -> Any:
    """A picture of a frontier; see `Frontier.plot`."""
    check(kind, len(frontier.grid), of)
    for name in users or ():
        if name not in frontier.instance.users:
            raise InvalidBlock(f"no user {name!r}; {nearest(name, frontier.instance.users)}")
    if not np.isfinite(frontier["efficiency"]).any() and kind != "map":
        raise InvalidBlock('no point has an answer, so there is nothing to draw; see frontier["error"] for why')
    alone = ax is None
    if alone:
        ax = new_figure(*SIZE).add_subplot()
    check_axes(ax)
    if kind == "tradeoff":
        _tradeoff(frontier, ax, alone)
    elif kind == "tasks":
        _tasks(frontier, ax, users)
    else:
        _map(frontier, ax, of)
    if alone:
        ax.set_title(cut(f"{frontier.family} on {frontier.instance.n_users:,} users", 60), fontsize=9, loc="left")
    fall_back_fonts(ax.figure)
    return ax


def check(kind: str, parameters: int, of: str) -> None:
    """Raise `InvalidBlock` for a picture that a frontier with this number of parameters does not have."""
    check_kind(kind, KINDS)
    if parameters not in KINDS[kind]:
        words = "one parameter" if kind == "tasks" else "two parameters"
        raise InvalidBlock(f"kind={kind!r} needs {words}, but the frontier has {parameters}; try kind='tradeoff'")
    if of not in WORDS:
        raise InvalidBlock(f"of is {of!r}; {nearest(of, WORDS)}")


def _tradeoff(frontier: Frontier, ax: Any, alone: bool) -> None:
    """Draw points, a line along a single numeric parameter, and DRF.

    On a new figure, the first parameter sets colours, and Pareto-efficient points of the sweep are ringed.
    """
    x, y = frontier["fairness"], frontier["efficiency"]
    mine = colour(sum(line.get_gid() == "frontier" for line in ax.lines))
    name, *others = frontier.grid
    words = any(isinstance(v, (bool, str)) for v in frontier.grid[name])
    if not others and not words:
        finite = np.isfinite(x)
        ax.plot(x[finite], y[finite], color=GREYS[2] if alone else mine, linewidth=0.8, zorder=2)
    if alone:
        best = frontier.pareto()
        ring = {"markerfacecolor": "none", "markeredgecolor": GREYS[1], "markeredgewidth": 0.8, "zorder": 2.5}
        ax.plot(x[best], y[best], "o", markersize=8, label="best of the sweep", **ring)
        at, ticks = _numbers(frontier, name)
        title = cut(name, 40) + "".join(f" (any {cut(other)})" for other in others)
        if words:
            for k, value in enumerate(frontier.grid[name]):
                look = {"marker": "os^v"[k // len(COLOURS) % 4], "color": colour(k), "linestyle": "", "zorder": 3}
                ax.plot(x[at == k], y[at == k], markersize=4, label=f"{title}: {cut(str(value))}", **look)
        else:
            bar = colour_bar(ax.scatter(x, y, c=at, cmap=SHADES, s=16, zorder=3), ax, ax.figure, title)
            bar.ax.ticklabel_format(useOffset=False)
            if ticks:
                bar.ax.yaxis.set_ticks(*ticks)
    else:
        ax.plot(x, y, "o", color=mine, markersize=4, zorder=3, gid="frontier", label=cut(frontier.family))
    if "efficiency" in frontier.drf and "DRF" not in {line.get_label() for line in ax.lines}:
        drf = [frontier.drf["fairness"]], [frontier.drf["efficiency"]]
        ax.plot(*drf, "D", color="black", markerfacecolor="none", markersize=10, zorder=2.2, label="DRF")
    ax.update_datalim(np.column_stack([_range(x, "fairness"), _range(y, "efficiency")]))
    ax.autoscale_view()
    ax.ticklabel_format(useOffset=False)
    ax.legend(**LEGEND)
    _finish(ax, WORDS["fairness"], WORDS["efficiency"])


def _tasks(frontier: Frontier, ax: Any, users: Sequence[str] | None) -> None:
    """Draw a line for each user, with a dashed line for DRF; for many users, quartiles and extremes."""
    ((name, values),) = frontier.grid.items()
    line = "o" if any(isinstance(v, (bool, str)) for v in values) else "o-"
    instance, (at, ticks) = frontier.instance, _numbers(frontier, name)
    order = np.argsort(at, kind="stable")
    at, tasks = at[order], frontier.tasks_by_user[order]
    drf = frontier.drf.get("tasks_by_user", np.full(instance.n_users, np.nan))
    if users or instance.n_users <= len(COLOURS):
        chosen = [instance.users.index(user) for user in users or instance.users]
        tasks = tasks[:, chosen]
        for k, j in enumerate(chosen):
            ax.plot(at, tasks[:, k], line, color=colour(k), markersize=3, label=cut(instance.users[j]))
            ax.axhline(drf[j], color=colour(k), **UNDER_DRF)
        ax.plot([], [], color=GREYS[0], label="under DRF", **UNDER_DRF)
    else:
        tasks = np.quantile(tasks, [0, 0.25, 0.5, 0.75, 1], axis=1).T
        ax.fill_between(at, tasks[:, 0], tasks[:, 4], color=COLOURS[4], alpha=0.3, linewidth=0, label="all users")
        ax.fill_between(at, tasks[:, 1], tasks[:, 3], color=COLOURS[0], alpha=0.4, linewidth=0, label="the middle half")
        ax.plot(at, tasks[:, 2], line, color=COLOURS[0], markersize=3, label="median")
        ax.axhline(np.median(drf), color=GREYS[0], label="median under DRF", **UNDER_DRF)
    largest = np.nanmax(tasks, initial=0.0)
    least = np.nanmin(np.where(tasks > GAP_TOLERANCE * largest, tasks, np.nan), initial=np.inf)
    if largest > DECADES * least:
        ax.set_yscale("symlog", linthresh=10.0 ** np.floor(np.log10(least)))
    ax.set_ylim(bottom=0)
    if ticks:
        ax.xaxis.set_ticks(*ticks)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), **LEGEND)
    _finish(ax, cut(name, 40), "tasks of a user")


def _map(frontier: Frontier, ax: Any, of: str) -> None:
    """Draw a cell for each point of the plane; greys show why a value is missing."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    (below, x), (beside, y) = frontier.grid.items()
    kinds = sorted(set(filter(None, frontier["method"]))) if of == "method" else []
    values = [kinds.index(m) if m else np.nan for m in frontier["method"]] if of == "method" else frontier[of]
    cells = np.array(values, dtype=float)
    shades: Any = ListedColormap([colour(k) for k in range(len(kinds))]) if kinds else colormaps[SHADES]
    why = np.where(np.isfinite(cells), -1, np.where(frontier["error"].astype(bool), 2, np.where(frontier.asked, 0, 1)))
    low, high = (-0.5, len(kinds) - 0.5) if kinds else _range(cells, of)
    laid: dict[str, Any] = {"origin": "lower", "aspect": "auto", "interpolation": "nearest"}
    table, holes = (np.reshape(v, (len(x), len(y))).T for v in (cells, why))
    image = ax.imshow(np.ma.masked_invalid(table), cmap=shades.with_extremes(bad="none"), vmin=low, vmax=high, **laid)
    greys = ListedColormap([*MISSING.values()])
    ax.imshow(np.ma.masked_less(holes, 0), cmap=greys, vmin=0, vmax=2, zorder=-1, **laid)
    entries = [Patch(color=colour(k), label=kind) for k, kind in enumerate(kinds)]
    entries += [
        Patch(facecolor=grey, edgecolor=GREYS[1], linewidth=0.5, label=word)
        for k, (word, grey) in enumerate(MISSING.items())
        if k in why
    ]
    if of != "method":
        colour_bar(image, ax, ax.figure, WORDS[of]).ax.ticklabel_format(useOffset=False)
    if entries:
        ax.legend(handles=entries, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, **LEGEND)
    for axis, at in ((ax.xaxis, x), (ax.yaxis, y)):
        shown = np.unique(np.linspace(0, len(at) - 1, min(len(at), 9)).round().astype(int))
        words = [cut(str(v), 12) if isinstance(v, (bool, str)) else f"{round(v, 12) + 0.0:.3g}" for v in at]
        axis.set_ticks(shown, [words[k] for k in shown])
    _finish(ax, cut(below, 40), cut(beside, 40))


def _finish(ax: Any, below: str, beside: str) -> None:
    ax.set_xlabel(below, fontsize=8)
    ax.set_ylabel(beside, fontsize=8)
    plain(ax)


def _range(values: Any, of: str) -> tuple[float, float]:
    """The smallest and largest value, widened if they differ only by rounding."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    more = (SPAN * UNITS.get(of, abs(finite).max()) - np.ptp(finite)) / 2
    return (finite.min() - more, finite.max() + more) if more > 0 else (finite.min(), finite.max())


def _numbers(frontier: Frontier, name: str) -> tuple[Any, tuple[Any, ...]]:
    """A parameter as numbers; if its values are not all finite numbers, indices with ticks that name them."""
    values = frontier.grid[name]
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) and np.isfinite(v) for v in values):
        return frontier[name].astype(float), ()
    at = np.indices([len(v) for v in frontier.grid.values()])[list(frontier.grid).index(name)].ravel()
    return at, (range(len(values)), [cut(str(v), 14) for v in values])
