"""Classes of identical servers, and tables of coloured cells by class and resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.instance import Instance
from fairopt.plots.common import Inches, number_in_cell
from fairopt.questions.by_server import capacity_of, part_of
from fairopt.runtime.arrays import Float, Ints
from fairopt.runtime.display import shortened

MAX_CLASSES = 60  # classes shown: those with the most servers
LETTERS = 40  # of a name beside cells
ZERO_CAPACITY = "#DDDDDD"
COLOUR_MAP = "Blues"  # a single hue, legible without colour vision


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes shown, with server counts of shape (n_shown,) and total capacities (n_shown, n_resources)."""

    instance: Instance
    shown: Ints
    names: tuple[str, ...]
    counts: Ints
    capacities: Float
    n_classes: int

    def part(self, units: Float) -> Float:
        """Units by server row as percentages of the capacity of each class shown; NaN for zero capacity."""
        return 100 * part_of(self.instance, self.instance.derived.server_classes, units)[self.shown]

    def labels(self, between: str = " ", most: int = LETTERS) -> list[str]:
        """Names with the number of servers."""
        names = shortened(self.names, most)
        return [f"{name}{between}({q:,})" for name, q in zip(names, self.counts.tolist(), strict=True)]

    def size(self, n_columns: int, wide: float = 0.42) -> Inches:
        """Preferred size of the axes."""
        rows = len(self.names)
        return max(1.8, wide * n_columns), max(rows * (0.2 if rows <= 30 else 0.16), 1.6)  # the colour bar has a title

    def room(self, size: Inches, n_columns: int) -> Inches:
        """Size of each cell."""
        return size[0] / n_columns, size[1] / len(self.names)


def classes_of(instance: Instance) -> Classes:
    """Group identical servers into classes, sorted by type; of more than 60, keep those with the most servers."""
    merged = instance.merged()
    shown = np.sort(np.argsort(-merged.counts, kind="stable")[:MAX_CLASSES])
    names, types = list(merged.servers), merged.server_types
    if types is not None:
        position = {kind: t for t, kind in enumerate(dict.fromkeys(types))}
        shown = np.array(sorted(shown.tolist(), key=lambda s: position[types[s]]))
        names = [name if kind == name else f"{kind}: {name}" for kind, name in zip(types, names, strict=True)]
    capacities = capacity_of(instance, instance.derived.server_classes)[shown]
    return Classes(instance, shown, tuple(names[s] for s in shown), merged.counts[shown], capacities, merged.n_servers)


def cells(ax: Any, percent: Float, texts: Sequence[Sequence[str]], classes: Classes) -> Any:
    """Draw a row of cells for each class, coloured from 0 to 100 percent; zero capacity is grey."""
    from matplotlib import colormaps

    shades = colormaps[COLOUR_MAP].with_extremes(bad=ZERO_CAPACITY)
    shown = np.ma.masked_invalid(percent)
    image = ax.imshow(shown, cmap=shades, vmin=0, vmax=100, aspect="auto", interpolation="nearest")
    for (row, column), value in np.ndenumerate(percent):
        number_in_cell(ax, column, row, texts[row][column], on_dark=bool(value > 55))
    fewer = "" if len(percent) == classes.n_classes else f": the {len(percent)} largest of {classes.n_classes:,}"
    ax.set_ylabel(f"servers (number){fewer}")
    ax.set_xticks(np.arange(percent.shape[1] - 1) + 0.5, minor=True)
    ax.set_yticks(np.arange(len(percent) - 1) + 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=0.6)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    return image
