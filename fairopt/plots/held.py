"""What runs now beside what policies give, by team or by user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.plots.common import GREYS, GROUP, NUMBER, Inches, bar_style, cut, plain
from fairopt.plots.panels import Picture, Size, panels_of
from fairopt.questions.by_team import teams_shown
from fairopt.questions.held import HeldNow, held_now
from fairopt.runtime.arrays import Float

MAX_BARS = 20  # teams or users with bars
BAR = 0.13  # height of a bar in inches
PANEL = 2.2  # width of a panel in inches
CUT = 2.5  # bars of waiting tasks end at this multiple of the longest other bar
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
    """A figure with a panel for each resource; see `HeldBars`."""
    by = teams_shown(instance)
    known = {name: each for name, a in allocations.items() if (each := held_now(a, by, alone=True)) is not None}
    picture, first = HeldBars(instance, known), next(iter(known.values()))
    some = f" (the largest differences, {MAX_BARS} of {len(first.names):,})" if len(first.names) > MAX_BARS else ""
    nothing = ["" if units else ": none" for units in instance.total_capacities]
    shown = [
        (i, [instance.resources[i] + nothing[i]])
        for i in sorted(range(instance.n_resources), key=lambda i: i != first.scarcest)
    ]
    title = f"Held now beside what is fair, by {by or 'user'}{some}"
    return panels_of(picture, shown, axes, size or (None, None), f"{len(shown)} resources", title)[
        0
    ].figure.canvas.figure


class HeldBars(Picture):
    """Bars, by resource, of what each policy gives, of what is held, and of what waits.

    Teams under the innermost label with a team of several users, or users, are in the order of their differences from
    the first policy, at most 20 of them. Long bars of waiting tasks are cut.
    """

    def __init__(self, instance: Instance, known: Mapping[str, HeldNow]) -> None:
        self.instance, first = instance, next(iter(known.values()))
        rows = first.largest_first[:MAX_BARS]
        self.beside = [first.names[r] for r in rows]
        whole = np.where(first.capacities > 0, first.capacities, np.inf) / 100
        self.fair = {name: each.fair[rows, 1:] / whole for name, each in known.items()}
        self.held, self.waiting = (part[rows, 1:] / whole for part in (first.held, first.waiting))
        drawn = np.maximum(self.held, np.max(list(self.fair.values()), axis=0)).max(initial=0.0) or 1.0
        end = np.where(np.isfinite(self.waiting), self.held + self.waiting, self.held)
        self.end = np.minimum(end, np.maximum(self.held, CUT * drawn))
        self.longest = NUMBERS * max(drawn, self.end.max(initial=0.0))
        self.size = (PANEL, max(len(rows), 2) * (BAR * (1 + len(known)) / GROUP))

    def draw(self, ax: Any, key: Any) -> None:
        """Draw the bars of one resource."""
        parts = {name: each[:, key] for name, each in self.fair.items()}
        _draw(ax, parts, self.held[:, key], self.waiting[:, key], self.end[:, key])
        ax.set_xlim(0, self.longest)
        ax.set_ylim(len(self.beside) - 0.5 if self.beside else 0.5, -0.5)
        ax.set_xlabel("% of the capacity", fontsize=8)

    def room(self, size: Inches) -> Inches:
        """The space of a bar."""
        return size[0], size[1] / max(len(self.beside), 1) / (1 + len(self.fair))

    def handles(self) -> list[Any]:
        """Policies, what is held, and what waits."""
        more = np.where(np.isfinite(self.waiting), self.waiting, 0.0)
        return _handles(list(self.fair), bool((more > 0).any()), is_cut=bool((self.held + more > self.end).any()))


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
