"""Pictures of a frontier: efficiency against fairness, tasks along the parameter, and the plane of two parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock, nearest
from fairopt.plots.common import COLOURS, colour, cut, lettering, measured, new_figure, plain
from fairopt.plots.panels import LEGEND
from fairopt.tradeoff.frontier import Frontier

__all__ = ["check", "draw_frontier"]

SIZE = (6.4, 3.6)  # inches
SHADES = "viridis"  # from dark to light, for any colour vision
WORDS = {
    "fairness": "fairness (smallest dominant share, % of DRF)", "efficiency": "efficiency (tasks, % of the most)",
    "tasks": "tasks", "leftover": "units left over", "jain": "Jain's index of dominant shares", "f_beta": "f_beta",
    "price_of_fairness": "price of fairness", "price_bound": "bound on the price of fairness", "gap": "gap",
    "method": "method",
}  # fmt: skip
OF_DRF = {"color": "black", "linestyle": "", "marker": "D", "markersize": 6, "zorder": 5}
DECADES = 1000.0  # ratio of tasks above which their axis is logarithmic
NO_ANSWER = "#DDDDDD"


def draw_frontier(
    frontier: Frontier, ax: Any = None, kind: str = "tradeoff", of: str = "fairness", users: Sequence[str] | None = None
) -> Any:
    """A picture of a frontier; see `Frontier.plot`.

    Examples
    --------
    >>> import fairopt as fo
    >>> f = fo.frontier("fds", fo.Instance([[1, 4], [3, 1]], [9, 18]), {"alpha": [0, 1, 2]})
    >>> draw_frontier(f).get_xlabel()
    'fairness (smallest dominant share, % of DRF)'
    """
    check(kind, len(frontier.grid), of)
    for name in users or ():
        if name not in frontier.instance.users:
            raise InvalidBlock(f"no user {name!r}; {nearest(name, frontier.instance.users)}")
    if not np.isfinite(frontier["efficiency"]).any() and kind != "map":
        raise InvalidBlock('no point has an answer, so there is nothing to draw; see frontier["error"] for why')
    alone = ax is None
    if alone:
        ax = new_figure(*SIZE).add_subplot()
    measured(ax)
    with lettering([*(users or frontier.instance.users[:50]), frontier.family, *frontier.grid], [ax]):
        KINDS[kind](frontier, ax, {"of": of, "users": users, "alone": alone})
        if alone:
            ax.set_title(cut(f"{frontier.family} on {frontier.instance.n_users:,} users", 60), fontsize=9, loc="left")
    return ax


def check(kind: str, parameters: int, of: str) -> None:
    """Refuse a picture that a frontier of so many parameters does not have."""
    if kind not in KINDS:
        raise InvalidBlock(f"there is no kind of picture {kind!r}; {nearest(kind, KINDS)}")
    needed = {"tasks": 1, "map": 2}.get(kind, parameters)
    if needed != parameters:
        words = "one parameter" if needed == 1 else "two parameters"
        raise InvalidBlock(f"kind={kind!r} is of {words}, and the frontier has {parameters}; give 'tradeoff', say")
    if of not in WORDS:
        raise InvalidBlock(f"of is {of!r}; {nearest(of, WORDS)}")


def _tradeoff(frontier: Frontier, ax: Any, how: dict[str, Any]) -> None:
    """Points coloured by the first parameter, a line along it if there is no other, DRF, and rings around the best."""
    x, y, (name, values) = frontier["fairness"], frontier["efficiency"], next(iter(frontier.grid.items()))
    mine = colour(sum(line.get_gid() == "frontier" for line in ax.lines))
    if len(frontier.grid) == 1:
        held = np.isfinite(x)
        ax.plot(x[held], y[held], color="#B4B4B4" if how["alone"] else mine, linewidth=0.8, zorder=2)
    if how["alone"]:
        best = frontier.pareto()
        ring = {"markerfacecolor": "none", "markeredgecolor": "#8C8C8C", "markeredgewidth": 0.8, "zorder": 2.5}
        ax.plot(x[best], y[best], "o", markersize=8, label="not dominated", **ring)
        at = _numbers(frontier, name)
        dots = ax.scatter(x, y, c=at, cmap=SHADES, s=16, zorder=3)
        bar = ax.figure.colorbar(dots, ax=ax, aspect=30)
        bar.set_label(cut(name, 40), fontsize=8)
        bar.ax.tick_params(labelsize=8)
        _ticks(bar.ax.yaxis, values)
    else:
        ax.plot(x, y, "o", color=mine, markersize=4, zorder=3, gid="frontier", label=cut(frontier.family))
    for words, (fair, efficient, _) in list(frontier.references.items())[:1]:
        if words not in {line.get_label() for line in ax.lines}:
            ax.plot([fair], [efficient], label=words, **OF_DRF)
    ax.set_xlabel(WORDS["fairness"], fontsize=8)
    ax.set_ylabel(WORDS["efficiency"], fontsize=8)
    ax.ticklabel_format(useOffset=False)
    ax.legend(**LEGEND)
    plain(ax)


def _tasks(frontier: Frontier, ax: Any, how: dict[str, Any]) -> None:
    """A line for each of a few users, and dashed that of DRF; of many the smallest, the quartiles and the largest."""
    ((name, values),) = frontier.grid.items()
    at, instance = _numbers(frontier, name), frontier.instance
    order = np.argsort(at, kind="stable")
    at, tasks = at[order], frontier.tasks_by_user[order]
    drf = frontier.references["DRF"][2] if frontier.references else None
    chosen = list(how["users"] or ())
    if chosen or instance.n_users <= len(COLOURS):
        for k, user in enumerate(chosen or instance.users):
            j = instance.users.index(user)
            ax.plot(at, tasks[:, j], "o-", color=colour(k), markersize=3, linewidth=1.4, label=cut(user))
            if drf is not None:
                ax.axhline(drf[j], color=colour(k), linewidth=1, linestyle=(0, (4, 2)))
        shown = tasks[:, [instance.users.index(u) for u in chosen]] if chosen else tasks
        ax.plot([], [], color="#5A5A5A", linewidth=1, linestyle=(0, (4, 2)), label="under DRF")
    else:
        shown = np.quantile(tasks, [0, 0.25, 0.5, 0.75, 1], axis=1).T
        ax.fill_between(at, shown[:, 0], shown[:, 4], color=COLOURS[4], alpha=0.3, linewidth=0, label="all users")
        ax.fill_between(at, shown[:, 1], shown[:, 3], color=COLOURS[0], alpha=0.4, linewidth=0, label="the middle half")
        ax.plot(at, shown[:, 2], "o-", color=COLOURS[0], markersize=3, linewidth=1.4, label="median")
        if drf is not None:
            ax.axhline(np.median(drf), color="#5A5A5A", linewidth=1, linestyle=(0, (4, 2)), label="median under DRF")
    largest = np.nanmax(shown, initial=0.0)
    least = np.nanmin(np.where(shown > 1e-6 * largest, shown, np.nan), initial=np.inf)
    if largest > DECADES * least:
        ax.set_yscale("symlog", linthresh=10.0 ** np.floor(np.log10(least)))
    ax.set_ylim(bottom=0)
    ax.set_xlabel(cut(name, 40), fontsize=8)
    ax.set_ylabel("tasks of a user", fontsize=8)
    _ticks(ax.xaxis, values)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), **LEGEND)
    plain(ax)


def _map(frontier: Frontier, ax: Any, how: dict[str, Any]) -> None:
    """A cell for each point of the plane; grey where there is no answer."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    (below, x), (beside, y) = frontier.grid.items()
    shades: Any
    scale: tuple[float | None, float | None] = (None, None)
    if how["of"] == "method":
        kinds = sorted({m for m in frontier.method if m})
        cells = np.array([kinds.index(m) if m else np.nan for m in frontier.method])
        shades, scale = ListedColormap([colour(k) for k in range(len(kinds))] or ["white"]), (-0.5, len(kinds) - 0.5)
    else:
        cells, kinds, shades = frontier[how["of"]], [], colormaps[SHADES]
        scale = scale if np.isfinite(cells).any() else (0, 1)
    table = np.ma.masked_invalid(np.asarray(cells, dtype=float).reshape(len(x), len(y)).T)
    image = ax.imshow(table, cmap=shades.with_extremes(bad=NO_ANSWER), vmin=scale[0], vmax=scale[1], origin="lower",
                      aspect="auto", interpolation="nearest")  # fmt: skip
    if kinds:
        entries = [Patch(color=colour(k), label=kind) for k, kind in enumerate(kinds)]
    else:
        bar = ax.figure.colorbar(image, ax=ax, aspect=30)
        bar.set_label(WORDS[how["of"]], fontsize=8)
        bar.ax.tick_params(labelsize=8)
        entries = []
    if table.mask.any():
        entries.append(Patch(color=NO_ANSWER, label="no answer"))
    if entries:
        ax.legend(handles=entries, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, **LEGEND)
    for axis, values in ((ax.xaxis, x), (ax.yaxis, y)):
        shown = np.unique(np.linspace(0, len(values) - 1, min(len(values), 9)).round().astype(int))
        words = [cut(str(v), 12) if isinstance(v, (bool, str)) else f"{v:.3g}" for v in values]
        axis.set_ticks(shown, [words[k] for k in shown])
    ax.set_xlabel(cut(below, 40), fontsize=8)
    ax.set_ylabel(cut(beside, 40), fontsize=8)
    ax.tick_params(length=2, labelsize=8)


def _numbers(frontier: Frontier, name: str) -> Any:
    """A parameter as numbers: its place among the values where they are not finite numbers."""
    values = frontier.grid[name]
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) and np.isfinite(v) for v in values):
        return frontier[name].astype(float)
    return np.array([values.index(v) for v in frontier.parameters[name].tolist()], dtype=float)


def _ticks(axis: Any, values: Sequence[Any]) -> None:
    """Names at the places of values that are not finite numbers."""
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and np.isfinite(v) for v in values):
        axis.set_ticks(range(len(values)), [cut(str(v), 14) for v in values])


KINDS: dict[str, Callable[..., None]] = {"tradeoff": _tradeoff, "tasks": _tasks, "map": _map}
