"""Pictures of service over time: a panel for each run, a line for each user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock
from fairopt.online import Service
from fairopt.online.units import NAMES
from fairopt.plots.common import cut, fall_back_fonts, plain
from fairopt.plots.layers import by_size
from fairopt.plots.panels import legend_beside, panels_on
from fairopt.runtime.display import shortened

WHAT = "service of users over time"
WIDTH, HEIGHT, BESIDE, ABOVE = 4.2, 2.4, 2.0, 0.4  # inches of a panel; for a legend, and for titles
COLUMNS, LINES, NAME = 3, 6, 40  # panels in a row, users with a line each, letters of a name


def draw_services(services: Mapping[str, Service], *, ax: Any = None, time_unit: str | None = None) -> Any:
    """Draw the service of users by window, with Jain's index in the titles.

    Parameters
    ----------
    services : mapping of str to Service
        By name, of the same users.
    ax : matplotlib.axes.Axes or sequence of Axes, optional
        One for each; by default those of a new figure.
    time_unit : {"s", "min", "h", "d"}, optional
        Of the times.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidBlock
        If nothing is given, or users differ.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1], 1, tasks=9), fo.Job("B", [1], 1, tasks=4, arrival=4)]
    >>> run = fo.simulate([1], jobs)
    >>> [ax.get_title(loc="left") for ax in draw_services({"drf": fo.online.service(run, window=4)}).axes]
    ["drf (Jain's index 1.00)"]
    """
    of = list(services.values())
    if not of:
        raise InvalidBlock("no service is given, so there is nothing to draw")
    if any(one.users != of[0].users for one in of):
        raise InvalidBlock("the runs have different users; draw them one by one")
    layers = by_size(of[0].users, np.max([one.served.sum(axis=0) for one in of], axis=0), LINES)
    columns = math.ceil(len(of) / math.ceil(len(of) / COLUMNS))
    size = columns * WIDTH + BESIDE, math.ceil(len(of) / columns) * HEIGHT + ABOVE
    axes = panels_on(ax, size, len(of), columns, f"{len(of)} panel{'' if len(of) == 1 else 's'}")
    for panel, name, one in zip(axes, shortened(list(services), NAME), of, strict=True):
        for layer in layers:
            mean = one.served[:, layer.users].mean(axis=1)
            label = f"{layer.label}, mean" if len(layer.users) > 1 else layer.label
            panel.stairs(mean, one.edges, color=layer.colour, linewidth=1.2, label=label)
        plain(panel)
        panel.set_ylim(bottom=0)
        panel.set_xlim(one.edges[0], one.edges[-1])
        panel.set_xlabel(f"time ({NAMES[time_unit]})" if time_unit else "time", fontsize=8)
        panel.set_ylabel("service per window", fontsize=8)
        compared = one.jain[np.isfinite(one.jain)]
        index = f" (Jain's index {compared.mean():.2f})" if len(compared) else ""
        panel.set_title(cut(name + index, int(WIDTH / 0.08)), fontsize=9, loc="left")
        if ax is None:
            panel.label_outer()
    handles, names = axes[0].get_legend_handles_labels()
    legend_beside(axes[columns - 1], ax is None, upper=True, handles=handles, labels=names)
    figure = axes[0].figure.canvas.figure
    fall_back_fonts(figure)
    return figure
