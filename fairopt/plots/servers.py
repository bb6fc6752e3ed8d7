"""What runs on each type of server, and what of it is in use, policy beside policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidBlock
from fairopt.plots.common import GROUP, HELD, cut, lighter, look, matplotlib_or_missing, new_figure, plain
from fairopt.plots.measure import measured, settled
from fairopt.plots.words import shorter, ticks_below
from fairopt.server_sums import ByType, by_type

__all__ = ["server_types"]

Float = NDArray[np.floating[Any]]

BAR = 0.11  # inches that a bar takes
NARROWEST = 0.55  # inches for the bars of one type, so that most names fit under them


def server_types(comparison: Any, axes: Sequence[Any] | None = None) -> list[Any]:
    """Tasks per server, and the part of each resource in use, by type of server: one panel each, one bar per policy.

    Parameters
    ----------
    comparison : Comparison
        What `compare` returns. Policies without an answer are left out; of more than 20 types, those with the most
        servers are drawn. Where a policy decides bundles, what is held beyond what tasks use is lighter.
    axes : sequence of matplotlib.axes.Axes, optional
        One for the tasks and one for each resource; the legend goes beside the first. Default: panels of a new figure.

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
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [[6, 4], [9, 2]], resources=["cpu", "gpu"], server_types=["T4", "A10"])
    >>> panels = fo.compare(["drf", "most-tasks"], cluster).plot_server_types()
    >>> [panel.get_ylabel() for panel in panels]
    ['tasks per server', 'cpu in use (%)', 'gpu in use (%)']
    """
    if not comparison.allocations:
        raise InvalidBlock("no policy gave an answer, so there is nothing to draw; see .errors for why")
    found = by_type(comparison.instance, comparison.allocations)
    shown = found.most()
    count = 1 + len(found.resources)
    width = max(BAR * len(found.tasks) / GROUP, NARROWEST) * len(shown)
    width = max(width, 3.0)  # inches, of all bars
    if axes is None:
        figure = new_figure(width + 2.6, 0.5 + 1.7 * count)
        panels = list(figure.subplots(count, 1, sharex=True, squeeze=False).ravel())
    else:
        matplotlib_or_missing()
        panels = list(np.asarray(axes, dtype=object).ravel())
        if len(panels) < count:
            raise InvalidBlock(f"{len(panels)} axes for tasks and {count - 1} resources; give one each")
        panels = panels[:count]
    per_server = {p: (tasks / found.servers)[shown] for p, tasks in found.tasks.items()}
    _bars(panels[0], per_server, per_server)
    panels[0].set_ylabel("tasks per server", fontsize=8)
    for i, (ax, resource) in enumerate(zip(panels[1:], found.resources, strict=True)):
        _bars(ax, *({p: 100 * parts[shown, i] for p, parts in of.items()} for of in (found.used, found.held)))
        ax.set_ylim(0, 104)
        ax.set_yticks(range(0, 101, 25))
        ax.set_ylabel(f"{cut(resource, 16)} in use (%)", fontsize=8)
    names = [f"{shorter(found.names[t], 14)}\n({found.servers[t]:,})" for t in shown]
    panels[-1].set_xlabel("type of server (number of servers)", fontsize=8)
    options: dict[str, Any] = {"handles": _handles(found), "frameon": False, "fontsize": 8}
    if axes is None:
        figure.align_ylabels(panels)
        figure.legend(loc="outside right upper", **options)
    else:
        panels[0].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), **options)
    for _ in settled(panels):
        ticks_below(panels[-1], names, measured(panels[-1])[0])
    return panels


# -- pieces ---------------------------------------------------------------------------------------------------


def _bars(ax: Any, used: Mapping[str, Float], held: Mapping[str, Float]) -> None:
    """Groups of bars by type; a type without any of the resource says so."""
    width = GROUP / len(used)
    at = np.arange(len(next(iter(used.values()))))
    for k, policy in enumerate(used):
        x = at + (k - (len(used) - 1) / 2) * width
        ax.bar(x, np.nan_to_num(used[policy]), width=0.9 * width, label=policy, **look(k))
        more = np.maximum(np.nan_to_num(held[policy] - used[policy]), 0.0)
        if more.any():
            ax.bar(x, more, bottom=np.nan_to_num(used[policy]), width=0.9 * width, alpha=HELD, **look(k))
    for t in np.flatnonzero(np.isnan(next(iter(used.values())))):
        ax.text(t, 2, "none there", ha="center", va="bottom", fontsize=7, color="#8C8C8C")
    ax.set_xlim(-0.5, len(at) - 0.5)
    ax.set_axisbelow(True)
    ax.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    for t in at[1:]:
        ax.axvline(t - 0.5, color="#E6E6E6", linewidth=0.6)
    ax.tick_params(axis="y", labelsize=8)
    plain(ax)
    ax.tick_params(axis="x", length=0)


def _handles(found: ByType) -> list[Any]:
    from matplotlib.patches import Patch

    handles = [Patch(label=cut(policy), **look(k)) for k, policy in enumerate(found.tasks)]
    if found.bundles:
        handles.append(lighter())
    return handles
