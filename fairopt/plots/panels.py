"""Pictures on one axes or on a panel for each policy: same scales, same colours, one legend."""

from __future__ import annotations

import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.plots.common import LETTER, beside, cut, matplotlib_or_missing, new_figure

__all__ = ["Picture", "Size", "many", "one"]

Size: TypeAlias = "tuple[float | None, float | None] | None"

PER_ROW = 4  # panels beside each other
TITLE_LETTER = 0.075  # inches of a letter of a title, at 9 points
BETWEEN = 0.15  # inches between panels
LINE = 0.18  # inches of a line of the legend
TITLE = 0.5  # inches above a panel
SCALE = 0.9  # inches for a colour bar


class Picture(ABC):
    """What is drawn of an allocation, with everything that panels have in common decided beforehand."""

    size: tuple[float, float]  # inches between the axes of one panel: what is wanted, and then what there is
    left: float = 0.75  # inches for what stands left of the first panel
    below: float = 0.6  # inches for what stands below a panel
    together: bool = False  # one panel shows all allocations
    scale_title: str = ""  # of the colour bar, where colours stand for numbers

    @abstractmethod
    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """Draw on the axes; gives what a colour bar explains, if anything."""

    def handles(self) -> list[Any]:
        """Entries of the legend, from the top down."""
        return []


def one(picture: Picture, allocation: Allocation | None, ax: Any = None) -> Any:
    """Draw one allocation, on given axes or on the only ones of a new figure."""
    handles = picture.handles() if matplotlib_or_missing() else []
    if ax is None:
        width, height = picture.size
        ax = new_figure(width + _around(picture, handles), height + picture.below + BETWEEN).subplots()
    else:
        picture.size = _room(ax)
    image = picture.draw(ax, allocation)
    _legend(ax, handles)
    _scale(picture, image, [ax])
    return ax


def many(picture: Picture, found: Mapping[str, Allocation], axes: Any = None, size: Size = None) -> list[Any]:
    """Draw each allocation on a panel of its own, or all on one where the picture says so.

    Parameters
    ----------
    picture : Picture
        What to draw.
    found : mapping of str to Allocation
        By policy.
    axes : Axes or sequence of Axes, optional
        One per policy; the legend goes beside the last. Default: panels of a new figure.
    size : (float or None, float or None), optional
        Inches of the new figure; None for what the picture needs.

    Returns
    -------
    list of matplotlib.axes.Axes
    """
    handles = picture.handles() if matplotlib_or_missing() else []
    count = 1 if picture.together else len(found)
    figure, columns = None, 1
    if axes is not None:
        panels = list(np.asarray(axes, dtype=object).ravel())
        if len(panels) < count:
            raise InvalidBlock(f"{len(panels)} axes for {count} policies with an answer; give one each")
        panels = panels[:count]
        picture.size = min(map(_room, panels))
    else:
        panels, figure, columns = _new_panels(picture, count, size or (None, None), handles)
    image = None
    if picture.together:
        image = picture.draw(panels[0], None)
    else:
        letters = max(int(picture.size[0] / TITLE_LETTER), 13)  # room for 1,000,000 tasks
        for panel, (name, allocation) in zip(panels, found.items(), strict=True):
            drawn = picture.draw(panel, allocation)
            image = image if drawn is None else drawn
            panel.set_title(_title(name, allocation, letters), fontsize=9)
    if figure is None:
        _legend(panels[-1], handles)
    else:
        _labels_at_the_edge(panels, columns, picture.size)
    _scale(picture, image, panels)
    return panels


# -- pieces ---------------------------------------------------------------------------------------------------


def _new_panels(
    picture: Picture, count: int, size: tuple[float | None, float | None], handles: list[Any]
) -> tuple[list[Any], Any, int]:
    """Panels of a new figure with its legend, the figure, and how many panels stand beside each other."""
    wide, high = size
    above = picture.below + (BETWEEN if picture.together else TITLE)
    around, legend = _around(picture, handles), beside(handles)
    in_a_row = max(int((wide or legend) / legend), 1) if handles else 1
    on_top = 0.1 + LINE * math.ceil(len(handles) / in_a_row)  # inches of a legend above the panels

    def room(columns: int, top: bool) -> tuple[float, float]:
        """What there is for each panel, of a size that is given or wanted."""
        rows = math.ceil(count / columns)
        width, height = picture.size
        if wide is not None:
            width = (wide - around + legend * top - BETWEEN * (columns - 1)) / columns
        if high is not None:
            height = (high - on_top * top) / rows - above
        return max(width, 0.1), max(height, 0.1)

    def fit(way: tuple[int, bool]) -> float:
        return min(there / wanted for there, wanted in zip(room(*way), picture.size, strict=True))

    way = math.ceil(count / math.ceil(count / PER_ROW)), False
    if wide is not None or high is not None:
        full = dict.fromkeys(math.ceil(count / rows) for rows in range(1, count + 1))  # with the fewest gaps
        way = max(((columns, top) for top in (False, True) for columns in full), key=fit)
    columns, top = way
    rows, (width, height) = math.ceil(count / columns), picture.size
    picture.size = room(columns, top)
    figure = new_figure(
        wide or columns * width + BETWEEN * (columns - 1) + around - legend * top,
        high or rows * (height + above) + on_top * top,
    )
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for unused in grid[count:]:
        unused.set_axis_off()
    if handles:
        where = {"loc": "outside upper center", "ncols": in_a_row} if top else {"loc": "outside right center"}
        figure.legend(handles=handles, frameon=False, fontsize=8, **where)
    return list(grid[:count]), figure, columns


def _around(picture: Picture, handles: list[Any]) -> float:
    """Inches of width for what is not panels."""
    return picture.left + beside(handles) + (SCALE if picture.scale_title else BETWEEN)


def _room(ax: Any) -> tuple[float, float]:
    """Inches between given axes."""
    if not hasattr(ax, "get_window_extent"):
        raise InvalidBlock(f"{ax!r} given as axes; give matplotlib Axes, or none; what to draw is kind=...")
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def _title(name: str, allocation: Allocation, letters: int) -> str:
    lines = textwrap.wrap(cut(name, 2 * letters), letters)[:2] or [" "]
    tasks = allocation.tasks.sum()
    return "\n".join([*lines, f"{tasks:{',.0f' if tasks >= 100 else '.4g'}} tasks"])


def _labels_at_the_edge(panels: Sequence[Any], columns: int, size: tuple[float, float]) -> None:
    """Names of axes at the left and at the bottom only, where a column may end early; one where they have no room."""
    figure, names = panels[0].figure, (panels[0].get_xlabel(), panels[0].get_ylabel())
    several = columns > 1, len(panels) > columns
    crowded = [s and len(name) * LETTER > inches for s, name, inches in zip(several, names, size, strict=True)]
    for one, write, name in zip(crowded, (figure.supxlabel, figure.supylabel), names, strict=True):
        if one:
            write(name, fontsize=9)
    for k, ax in enumerate(panels):
        if k % columns or crowded[1]:
            ax.set_ylabel("")
        if k + columns < len(panels) or crowded[0]:
            ax.set_xlabel("")
        if k + columns >= len(panels):
            ax.tick_params(labelbottom=True)


def _legend(ax: Any, handles: list[Any]) -> None:
    if handles:
        ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)


def _scale(picture: Picture, image: Any, panels: Sequence[Any]) -> None:
    if image is not None and picture.scale_title:
        bar = panels[0].figure.colorbar(image, ax=list(panels), shrink=0.6 if picture.size[1] > 3 else 1.0, aspect=30)
        bar.set_label(picture.scale_title, fontsize=8)
        bar.ax.tick_params(labelsize=8, length=2)
        bar.outline.set_visible(False)
