"""How many panels stand beside each other, where the legend goes, and how large everything is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fairopt.plots.common import beside
from fairopt.plots.words import SIZES, arranged

if TYPE_CHECKING:
    from fairopt.plots.panels import Picture

__all__ = ["BETWEEN", "Arrangement", "Size", "around", "arrange", "below", "one_size"]

Size: TypeAlias = "tuple[float | None, float | None] | None"

PER_ROW = 4  # panels beside each other
WIDEST = 16.0  # inches that panels beside each other take: what a screen shows
BETWEEN = 0.15  # inches between panels
LINE = 0.18  # inches of a line of the legend at 8 points
TITLE = 0.5  # inches above a panel
SCALE = 0.9  # inches for a colour bar
MOST_NAMES = 0.45  # of what a panel of a given size has, what names below it may take


@dataclass(frozen=True)
class Arrangement:
    """Panels and a legend on a figure; sizes in inches."""

    columns: int
    rows: int
    panel: tuple[float, float]
    figure: tuple[float, float]
    legend: dict[str, Any]


@dataclass(frozen=True)
class _Way:
    columns: int
    on_top: bool
    points: float


def around(picture: Picture, handles: list[Any]) -> float:
    """Inches of width for what is not panels."""
    return picture.left + beside(handles) + (SCALE if picture.scale_title else BETWEEN)


def below(picture: Picture, width: float) -> float:
    """Inches for what stands below a panel of so many."""
    if not picture.names:
        return picture.below
    return picture.below + arranged(picture.names, max(width, 0.1) / len(picture.names)).high


def one_size(high: float) -> float:
    """How long a colour bar is beside panels."""
    return 0.6 if high > 3 else 1.0


def arrange(
    picture: Picture, count: int, size: tuple[float | None, float | None], handles: list[Any]
) -> Arrangement:  # fmt: skip
    """The way in which panels come nearest to the size that they want, with a legend that can be read."""
    wide, high = size
    lines = [str(h.get_label()).count("\n") + 1 for h in handles]
    fixed = around(picture, []) if handles else around(picture, handles)

    def legend(way: _Way) -> tuple[int, float, float]:
        """Columns of the legend, and its inches."""
        scale, one = way.points / SIZES[0], beside(handles) * way.points / SIZES[0]
        columns = max(int((wide or 2 * one) / one), 1) if way.on_top and handles else 1
        per = math.ceil(len(lines) / columns)
        high_ = max((sum(lines[k : k + per]) for k in range(0, len(lines), per)), default=0) if lines else 0
        return columns, one * columns, (LINE * high_ + 0.1) * scale if handles else 0.0

    def room(way: _Way) -> tuple[float, float]:
        """What there is for each panel, of a size that is given or wanted."""
        rows = math.ceil(count / way.columns)
        width, height = picture.size
        _, aside, over = legend(way)
        if wide is not None:
            width = (wide - fixed - aside * (not way.on_top) - BETWEEN * (way.columns - 1)) / way.columns
        if high is not None:
            each = (high - over * way.on_top) / rows
            height = each - _above(picture) - min(below(picture, width), MOST_NAMES * each + picture.below)
        return max(width, 0.1), max(height, 0.1)

    def fit(way: _Way) -> float:
        """The least part of what panels want that they get, small letters and a legend that is cut off counted in."""
        part = min(there / wanted for there, wanted in zip(room(way), picture.size, strict=True))
        whole = high or math.inf
        cut_off = legend(way)[2] > whole * (0.5 if way.on_top else 1.0)
        return min(part, 1.5) * (way.points / SIZES[0]) ** 0.5 * (0.1 if cut_off else 1.0)

    most = max(int((WIDEST - around(picture, handles)) / (picture.size[0] + BETWEEN)), 1)
    chosen = _Way(math.ceil(count / math.ceil(count / min(most, PER_ROW))), False, SIZES[0])
    if wide is not None or high is not None:
        full = dict.fromkeys(math.ceil(count / rows) for rows in range(1, count + 1))  # with the fewest gaps
        sizes = SIZES if handles else SIZES[:1]
        tops = (False, True) if handles else (False,)
        chosen = max((_Way(c, top, points) for points in sizes for top in tops for c in full), key=fit)
    rows, panel = math.ceil(count / chosen.columns), room(chosen)
    in_a_row, aside, over = legend(chosen)
    where = {"loc": "outside upper center", "ncols": in_a_row} if chosen.on_top else {"loc": "outside right center"}
    return Arrangement(
        chosen.columns, rows, panel,
        (wide or chosen.columns * panel[0] + BETWEEN * (chosen.columns - 1) + fixed + aside * (not chosen.on_top),
         high or rows * (panel[1] + below(picture, panel[0]) + _above(picture)) + over * chosen.on_top),
        {"fontsize": chosen.points, **where},
    )  # fmt: skip


def _above(picture: Picture) -> float:
    return BETWEEN if picture.together else TITLE
