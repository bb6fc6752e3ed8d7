"""What runs now beside what policies give, by team or by user."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.operate.held import held_now
from fairopt.operate.team_sums import teams_shown
from fairopt.plots.common import (
    GREYS,
    GROUP,
    NUMBER,
    bar_style,
    cut,
    escaped,
    fall_back_fonts,
    fit_numbers,
    lay_out,
    plain,
    size_of,
    ticks_beside,
)
from fairopt.plots.panels import NAMES, Size, grow, labels_outside, legend_beside, panels_on
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import shortened

MAX_BARS = 20  # teams or users with bars
BAR = 0.13  # height of a bar in inches
PANEL = 2.2  # width of a panel in inches
PER_ROW = 3  # most panels in a row
CUT = 2.5  # bars of waiting tasks end at this multiple of the longest other bar
LETTER = 0.07  # width of a letter of a title in inches
NUMBERS = 1.35  # length of the axis, with the space of numbers, relative to the longest bar
WAITING: dict[str, Any] = {"facecolor": "white", "edgecolor": GREYS[1], "hatch": "////", "linewidth": 0.5}


def check_held(instance: Instance) -> None:
    """Raise `InvalidBlock` if it is not known what is held."""
    if instance.held is None:
        raise InvalidBlock(
            "kind='held': it is not known which tasks run now; give Instance(held=...) or a column held of users.csv"
        )


def held_bars(
    instance: Instance, allocations: Mapping[str, Allocation], axes: Any = None, size: Size | None = None
) -> Any:
    """A figure with a panel for each resource: bars of what each policy gives, of what is held, and of what waits.

    Teams under the innermost label with a team of several users, or users, are in the order of their differences from
    the first policy, at most 20 of them. Long bars of waiting tasks are cut.
    """
    by = teams_shown(instance)
    found = {name: held_now(a, by, alone=True) for name, a in allocations.items()}
    known = {name: each for name, each in found.items() if each is not None}
    first = next(iter(known.values()))
    rows = first.largest_first[:MAX_BARS]
    names = [first.names[r] for r in rows]
    whole = np.where(first.capacities > 0, first.capacities, np.inf) / 100
    fair = {name: each.fair[rows, 1:] / whole for name, each in known.items()}
    held, waiting = (part[rows, 1:] / whole for part in (first.held, first.waiting))
    drawn = np.maximum(held, np.max(list(fair.values()), axis=0)).max(initial=0.0) or 1.0
    end = np.minimum(np.where(np.isfinite(waiting), held + waiting, held), np.maximum(held, CUT * drawn))
    longest = NUMBERS * max(drawn, end.max(initial=0.0))
    shown = sorted(range(instance.n_resources), key=lambda i: i != first.scarcest)
    count = len(shown)
    columns = min(count, PER_ROW)
    height = max(len(names), 2) * (BAR * (1 + len(fair)) / GROUP)
    wide, high = size or (None, None)
    lines, width = math.ceil(count / columns), columns * PANEL + 3
    panels = panels_on(axes, (wide or width, high or lines * (height + 1) + 1), count, columns, f"{count} resources")
    figure = panels[0].figure.canvas.figure
    for ax, i in zip(panels, shown, strict=True):
        parts = {name: each[:, i] for name, each in fair.items()}
        _draw(ax, parts, held[:, i], waiting[:, i], end[:, i])
        ax.set_xlim(0, longest)
        ax.set_ylim(len(names) - 0.5 if names else 0.5, -0.5)
        ax.set_xlabel("% of the capacity", fontsize=8)
    more = np.where(np.isfinite(waiting), waiting, 0.0)
    handles = _handles(list(fair), bool((more > 0).any()), is_cut=bool((held + more > end).any()))
    legend_beside(panels[-1], axes is None, handles=handles)
    if axes is None:
        some = f" (the largest differences, {MAX_BARS} of {len(first.names):,})" if len(first.names) > MAX_BARS else ""
        title = textwrap.fill(f"Held now beside what is fair, by {by or 'user'}{some}", int((wide or width) / LETTER))
        figure.suptitle(escaped(title), x=0.01, ha="left", fontsize=9)
        labels_outside(panels, columns)
    named = panels if axes is not None else panels[::columns]
    room = (PANEL, height)
    for measured in (False,) if axes is None and not (wide or high) else (False, True):  # names take room from axes
        if measured:
            lay_out(figure)
            room = size_of(panels[0])
        letters = max(int(min(NAMES * figure.get_size_inches()[0], 30)), 5)
        for ax in named:
            ticks_beside(ax, shortened(names, letters), room[1])
        for ax, i in zip(panels, shown, strict=True):
            none = ": none" if instance.total_capacities[i] == 0 else ""
            ax.set_title(cut(instance.resources[i], max(int(room[0] / LETTER) - len(none), 4)) + none, fontsize=8)
            fit_numbers(ax, (room[0], room[1] / max(len(names), 1) / (1 + len(fair))))
    fall_back_fonts(figure)
    if axes is None:
        grow(figure, panels[0], (None if wide else PANEL, None if high else height), columns, lines)
    return figure


def _draw(ax: Any, fair: Mapping[str, Float], held: Float, waiting: Float, end: Float) -> None:
    """Bars of one resource: of each policy, then of what is held and waits."""
    thick = GROUP / (1 + len(fair))
    at = np.arange(len(held))

    def numbered(y: Any, ends: Float, texts: Sequence[str]) -> None:
        for place, x, text in zip(y, ends, texts, strict=True):
            ax.annotate(text, (x, place), (2, 0), textcoords="offset points", va="center", color="#404040", gid=NUMBER)

    for k, values in enumerate(fair.values()):
        y = at + (k - len(fair) / 2) * thick
        ax.barh(y, values, height=0.9 * thick, **bar_style(k))
        numbered(y, values, [_number(x) for x in values])
    y = at + len(fair) / 2 * thick
    ax.barh(y, held, height=0.9 * thick, color=GREYS[0])
    ax.barh(y, end - held, left=held, height=0.9 * thick, **WAITING)
    waits = [f" + {_number(x)}" if 0 < x < np.inf else "" for x in waiting.tolist()]
    numbered(y, end, [_number(x) + more for x, more in zip(held.tolist(), waits, strict=True)])
    plain(ax)


def _number(percent: float) -> str:
    """A percentage in at most three digits."""
    return f"{percent:,.0f}" if percent >= 10 or percent == 0 else f"{percent:.1f}" if percent >= 0.05 else "<0.1"


def _handles(policies: Sequence[str], waits: bool, is_cut: bool) -> list[Any]:
    """Policies, what is held, and what waits."""
    from matplotlib.patches import Patch

    fair = [Patch(label=f"fair: {cut(name)}", **bar_style(k)) for k, name in enumerate(policies)]
    return [
        *fair,
        Patch(color=GREYS[0], label="held now"),
        *[Patch(label="waiting (+)" + ", cut" * is_cut, **WAITING)] * waits,
    ]
