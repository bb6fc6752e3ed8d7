"""Pictures on one axes or on a panel for each policy: same scales, same colours, one legend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock
from fairopt.plots.arrange import BETWEEN, Size, around, arrange, below, one_size
from fairopt.plots.common import matplotlib_or_missing, new_figure, percent_ticks
from fairopt.plots.measure import measured, settled
from fairopt.plots.words import axis_name, inches, title

__all__ = ["Picture", "Size", "many", "one"]

Inches: TypeAlias = tuple[float, float]


class Picture(ABC):
    """What is drawn of an allocation, with everything that panels have in common decided beforehand."""

    size: Inches  # between the axes of one panel: what is wanted, and then what there is
    left: float = 0.75  # inches for what stands left of the first panel
    below: float = 0.6  # inches for what stands below a panel, names of `names` left out
    names: Sequence[str] = ()  # at the axis below, where there are names
    together: bool = False  # one panel shows all allocations
    scale_title: str = ""  # of the colour bar, where colours stand for numbers
    scale_beyond: bool = False  # some numbers are larger than its end

    @abstractmethod
    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """Draw on the axes; gives what a colour bar explains, if anything."""

    @abstractmethod
    def fit(self, ax: Any, size: Inches, names: Inches) -> None:
        """Give words the room there is: inches between the axes, and for names left of them and below."""

    def handles(self) -> list[Any]:
        """Entries of the legend, from the top down."""
        return []


def one(picture: Picture, allocation: Allocation | None, ax: Any = None) -> Any:
    """Draw one allocation, on given axes or on the only ones of a new figure."""
    handles = picture.handles() if matplotlib_or_missing() else []
    if ax is None:
        width, height = picture.size
        ax = new_figure(width + around(picture, handles), height + below(picture, width) + BETWEEN).subplots()
    else:
        picture.size = measured(ax)
    image = picture.draw(ax, allocation)
    _legend(ax, handles)
    _scale(picture, image, [ax])
    for _ in settled([ax]):
        _fit(picture, ax)
    return ax


def many(picture: Picture, found: Mapping[str, Allocation], axes: Any = None, size: Size = None) -> list[Any]:
    """Draw each allocation on a panel of its own, or all on one where the picture says so.

    The legend goes beside the last of given axes. ``size`` is in inches, None for what the picture needs.
    """
    handles = picture.handles() if matplotlib_or_missing() else []
    count = 1 if picture.together else len(found)
    columns = 0
    if axes is not None:
        panels = list(np.asarray(axes, dtype=object).ravel())
        if len(panels) < count:
            raise InvalidBlock(f"{len(panels)} axes for {count} policies with an answer; give one each")
        panels = panels[:count]
        picture.size = min(map(measured, panels))
    else:
        panels, columns = _new_panels(picture, count, size or (None, None), handles)
    shown = {panels[0]: ("", None)} if picture.together else dict(zip(panels, found.items(), strict=True))
    images = [picture.draw(panel, allocation) for panel, (_, allocation) in shown.items()]
    if columns == 0:
        _legend(panels[-1], handles)
    _scale(picture, next((image for image in images if image is not None), None), panels)
    for last in settled(panels):
        for panel, (name, allocation) in shown.items():
            _fit(picture, panel)
            if allocation is not None:
                title(panel, name, _tasks(allocation), measured(panel)[0] + BETWEEN / 3)
        if columns and last:
            _labels_at_the_edge(panels, columns)
    return panels


# -- pieces ---------------------------------------------------------------------------------------------------


def _new_panels(
    picture: Picture, count: int, size: tuple[float | None, float | None], handles: list[Any]
) -> tuple[list[Any], int]:
    """Panels of a new figure with its legend, and how many stand beside each other."""
    way = arrange(picture, count, size, handles)
    picture.size = way.panel
    figure = new_figure(*way.figure)
    grid = figure.subplots(way.rows, way.columns, sharex=True, sharey=True, squeeze=False).ravel()
    for unused in grid[count:]:
        unused.set_axis_off()
    if handles:
        figure.legend(handles=handles, frameon=False, **way.legend)
    return list(grid[:count]), way.columns


def _fit(picture: Picture, ax: Any) -> None:
    """Words of the picture and of its axes, as there is room for them."""
    size = measured(ax)
    whole, under = ax.figure.bbox.width / ax.figure.dpi, ax.xaxis.get_tightbbox()
    high = size[1] + (0.0 if under is None else under.height / ax.figure.dpi)
    picture.fit(ax, size, (0.3 * whole, 0.45 * high))
    for axis, room in zip((ax.xaxis, ax.yaxis), size, strict=True):
        axis_name(axis, room + 2 * BETWEEN)


def _tasks(allocation: Allocation) -> str:
    tasks = allocation.tasks.sum()
    return f"{tasks:{',.0f' if tasks >= 100 else '.4g'}} tasks"


def _labels_at_the_edge(panels: Sequence[Any], columns: int) -> None:
    """Names of axes at the left and at the bottom only, where a column may end early; one where they have no room."""
    figure, names = panels[0].figure, (panels[0].get_xlabel(), panels[0].get_ylabel())
    several = columns > 1, len(panels) > columns
    crowded = [s and inches(name, 9) > room for s, name, room in zip(several, names, measured(panels[0]), strict=True)]
    for wanted, write, name in zip(crowded, (figure.supxlabel, figure.supylabel), names, strict=True):
        if wanted:
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
        high = picture.size[1]
        beyond = "max" if picture.scale_beyond else "neither"
        bar = panels[0].figure.colorbar(image, ax=list(panels), shrink=one_size(high), aspect=30, extend=beyond)
        if image.get_clim() == (0, 100):
            percent_ticks(bar, high)
        bar.set_label(picture.scale_title, fontsize=8)
        bar.ax.tick_params(labelsize=8, length=2)
        bar.outline.set_visible(False)
