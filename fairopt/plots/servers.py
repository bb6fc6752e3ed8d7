"""Tasks and utilisation by type of server, with one bar per policy."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.plots.common import (
    GROUP,
    bar_style,
    bars_used,
    cut,
    fall_back_fonts,
    lay_out,
    lighter,
    plain,
    size_of,
    ticks_below,
)
from fairopt.plots.panels import Size, grow, legend_beside, panels_on
from fairopt.questions.by_server import by_type
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import shortened

BAR = 0.11  # width of a bar in inches
NARROWEST = 0.55  # least width in inches of the bars of one type, which most names fit below


def server_types(
    instance: Instance, allocations: Mapping[str, Allocation], axes: Any = None, size: Size | None = None
) -> Any:
    """A figure with panels for tasks per server and for the use of each resource, by type of server.

    Of more than 20 types, those with the most servers are drawn. If a policy determines bundles, units held but
    not used by tasks are lighter.
    """
    types = by_type(instance, allocations)
    shown = types.most()
    count = 1 + len(types.resources)
    width = max(max(BAR * len(types.tasks) / GROUP, NARROWEST) * len(shown), 3.0)
    wide, high = size or (None, None)
    new = wide or width + 3, high or 2 * count
    panels = panels_on(axes, new, count, 1, f"tasks and {count - 1} resources", sharey=False)
    figure = panels[0].figure.canvas.figure
    per_server = {p: (tasks / types.servers)[shown] for p, tasks in types.tasks.items()}
    _bars(panels[0], per_server, per_server)
    panels[0].set_ylabel("tasks per server", fontsize=8)
    for i, (ax, resource) in enumerate(zip(panels[1:], types.resources, strict=True)):
        _bars(ax, *({p: 100 * parts[shown, i] for p, parts in of.items()} for of in (types.used, types.held)))
        ax.set_ylim(0, 104)
        ax.set_yticks(range(0, 101, 25))
        ax.set_ylabel(textwrap.fill(f"{cut(resource, 20)} in use (%)", 20), fontsize=8)
    panels[-1].set_xlabel("type of server (number of servers)", fontsize=8)
    kinds = shortened([types.names[t] for t in shown], 24)
    names = [f"{kind}\n({types.servers[t]:,})" for kind, t in zip(kinds, shown, strict=True)]
    legend_beside(panels[0], axes is None, upper=True, handles=_handles(types))
    if axes is None:
        figure.align_ylabels(panels)
        panels[0].set_title("Tasks and use by type of server", fontsize=9)
    if axes is not None or wide is not None:
        lay_out(figure)
        width = size_of(panels[-1])[0]
    ticks_below(panels[-1], names, width)
    fall_back_fonts(figure)
    if axes is None:
        grow(figure, panels[0], (None if wide else width, None if high else 1.3), 1, count)
    return figure


def _bars(ax: Any, used: Mapping[str, Float], held: Mapping[str, Float]) -> None:
    """Draw groups of bars by type; label types that have none of the resource."""
    width = GROUP / len(used)
    at = np.arange(len(next(iter(used.values()))))
    for k, policy in enumerate(used):
        x = at + (k - (len(used) - 1) / 2) * width
        bars_used(ax, x, used[policy], held[policy], policy, width=0.9 * width, **bar_style(k))
    for t in np.flatnonzero(np.isnan(next(iter(used.values())))):
        ax.text(t, 2, "none there", ha="center", va="bottom", fontsize=7, color="#8C8C8C")
    ax.set_xlim(-0.5, len(at) - 0.5)
    ax.set_axisbelow(True)
    ax.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    for t in at[1:]:
        ax.axvline(t - 0.5, color="#E6E6E6", linewidth=0.6)
    plain(ax)
    ax.tick_params(axis="x", length=0)


def _handles(found: Any) -> list[Any]:
    from matplotlib.patches import Patch

    return [Patch(label=cut(p), **bar_style(k)) for k, p in enumerate(found.tasks)] + [lighter()] * bool(found.bundles)
