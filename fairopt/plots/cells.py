"""Classes of identical servers, and tables of coloured cells by class and resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.instance import Instance
from fairopt.plots.words import lines_high, shorter, ticks_below, ticks_beside
from fairopt.server_sums import capacity_of, part_of, sum_by

__all__ = ["NONE_THERE", "Classes", "cells", "classes_of", "fit_cells", "size_of_cells"]

Float = NDArray[np.floating[Any]]

MOST = 60  # classes in a picture; of more, those with the most servers
NAME = 26  # letters of a class's name
NONE_THERE = "#DDDDDD"
COLOUR_MAP = "Blues"  # one hue from light to dark, so that no colour vision is needed
NUMBERS = (7.0, 6.0)  # points of numbers in cells
WIDE = 0.22  # inches that a cell must have for a number, which has up to four letters at 6 points


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes that a picture shows.

    Attributes
    ----------
    names : tuple of str
        Of each shown class, with its type where the instance names types.
    counts : ndarray of shape (n_shown,)
        Servers of each.
    capacities : ndarray of shape (n_shown, n_resources)
        Units of all servers of the class.
    n_classes : int
        Shown or not.
    """

    names: tuple[str, ...]
    counts: NDArray[np.int64]
    capacities: Float
    n_classes: int
    _instance: Instance
    _shown: NDArray[np.int64]

    def add_up(self, by_row: Float) -> Float:
        """Sums over the server rows of each shown class."""
        return sum_by(self._instance.server_classes, by_row)[self._shown]

    def part(self, units: Float) -> Float:
        """Percent of each shown class's capacity that units by server row are, NaN where there is none."""
        return 100 * part_of(self._instance, self._instance.server_classes, units)[self._shown]

    def labels(self, between: str) -> list[str]:
        """Names with the number of servers."""
        return [f"{n}{between}({q:,})" for n, q in zip(self.names, self.counts.tolist(), strict=True)]

    @property
    def title(self) -> str:
        """What the axis of classes says."""
        fewer = "" if len(self.names) == self.n_classes else f": the {len(self.names)} largest of {self.n_classes:,}"
        return f"servers (number){fewer}"


def classes_of(instance: Instance) -> Classes:
    """Classes of identical servers, those of a type beside each other."""
    alike = instance.merged()
    largest = np.sort(np.argsort(-alike.counts, kind="stable")[:MOST])
    names = list(alike.servers)
    types = alike.server_types
    if types is not None:
        position = {kind: t for t, kind in enumerate(dict.fromkeys(types))}
        largest = np.array(sorted(largest.tolist(), key=lambda s: position[types[s]]))
        names = [f"{kind}: {name}" for kind, name in zip(types, names, strict=True)]
    return Classes(
        names=tuple(shorter(names[s], NAME) for s in largest), counts=alike.counts[largest],
        capacities=capacity_of(instance, instance.server_classes)[largest], n_classes=alike.n_servers,
        _instance=instance, _shown=largest,
    )  # fmt: skip


def cells(
    ax: Any,
    percent: Float,
    texts: Sequence[Sequence[str]],
    classes: Classes,
) -> Any:  # fmt: skip
    """A row of cells for each class, coloured from 0 to 100 percent; grey where there is none of the resource."""
    from matplotlib import colormaps

    shades = colormaps[COLOUR_MAP].with_extremes(bad=NONE_THERE)
    shown = np.ma.masked_invalid(percent)
    image = ax.imshow(shown, cmap=shades, vmin=0, vmax=100, aspect="auto", interpolation="nearest")
    n_rows, n_columns = percent.shape
    for row in range(n_rows):
        for column in range(n_columns):
            dark = not np.isnan(percent[row, column]) and percent[row, column] > 55
            ax.text(column, row, texts[row][column], ha="center", va="center", fontsize=NUMBERS[0],
                    color="white" if dark else "black", in_layout=False)  # fmt: skip
    ax.set_ylabel(classes.title, fontsize=8)
    ax.set_xticks(np.arange(n_columns - 1) + 0.5, minor=True)
    ax.set_yticks(np.arange(n_rows - 1) + 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=0.6)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    return image


def fit_cells(
    ax: Any, classes: Classes, columns: Sequence[str], size: tuple[float, float], names: tuple[float, float]
) -> None:
    """Names of rows and columns, and numbers in cells that have room for them."""
    high, wide = size[1] / len(classes.names), size[0] / len(columns)
    points = next((p for p in NUMBERS if lines_high(1, p) <= high), 0.0)
    for text in ax.texts[: len(classes.names) * len(columns)]:
        text.set_visible(points > 0 and wide >= WIDE)
        text.set_fontsize(points or NUMBERS[-1])
    ticks_beside(ax, classes.labels(" "), size[1], names[0])
    ticks_below(ax, columns, size[0], names[1])


def size_of_cells(classes: Classes, n_columns: int, wide: float = 0.42) -> tuple[float, float]:
    """Inches that cells want."""
    high = len(classes.names) * (0.2 if len(classes.names) <= 30 else 0.16)
    return max(1.5, wide * n_columns), max(high, 1.6)  # the colour bar has a title
