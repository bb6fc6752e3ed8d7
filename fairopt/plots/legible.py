"""Labels that overlap or leave the picture, measured as they are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["unreadable"]

SPARE = 0.75  # points by which the box of a word is larger than its letters, to a side
LEAST = 0.3  # inches of axes below which nothing can be seen in them


def unreadable(figure: Any) -> list[str]:
    """A phrase for each label that overlaps another or leaves the picture, and for axes that are too small.

    The figure is laid out, and not changed.

    Examples
    --------
    >>> import fairopt as fo
    >>> unreadable(fo.DRF().allocate(fo.datasets.demo()).plot().figure)
    []
    """
    figure.draw_without_rendering()
    pixel, spare = figure.bbox.padded(1), SPARE / 72 * figure.dpi
    words = [(repr(" ".join(text.get_text().split())), _box(text, spare)) for text in _words(figure)]
    out = [f"{name} leaves the picture" for name, box in words if not all(pixel.contains(*p) for p in box.vertices)]
    bounds = np.array([box.get_extents().extents for _, box in words]).reshape(-1, 4)
    for k, (name, box) in enumerate(words):
        near = (bounds[:k, :2] < bounds[k, 2:]).all(axis=1) & (bounds[k, :2] < bounds[:k, 2:]).all(axis=1)
        out += [f"{name} lies over {words[j][0]}" for j in np.flatnonzero(near) if box.intersects_path(words[j][1])]
    panels = [ax for ax in figure.axes if ax.get_visible() and ax.axison and ax.get_label() != "<colorbar>"]
    for legend in [*figure.legends, *(found for ax in panels if (found := ax.get_legend()) is not None)]:
        frame = legend.get_window_extent()
        if not all(pixel.contains(*p) for p in frame.padded(-spare).corners()):
            out.append("the legend leaves the picture")
        if any(frame.overlaps(ax.get_window_extent()) for ax in panels if ax is not legend.axes):
            out.append("the legend lies over a panel")
    least = min((min(ax.get_window_extent().size) / figure.dpi for ax in panels), default=LEAST)
    return [*out, f"a panel is {least:.2f} inches small"] if least < LEAST else out


def _words(figure: Any) -> Iterator[Any]:
    """Texts that are drawn."""
    from matplotlib.text import Text

    hidden = set()
    for ax in figure.axes:
        off = not (ax.get_visible() and ax.axison)
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            room = 1e-9 * (high - low)
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if off or not low - room <= tick.get_loc() <= high + room:
                    hidden |= {tick.label1, tick.label2}
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text not in hidden:
            yield text


def _box(text: Any, spare: float) -> Any:
    """The box of a text, turned with it, as a closed path."""
    from matplotlib.path import Path
    from matplotlib.transforms import Affine2D

    middle, angle = text.get_window_extent(), text.get_rotation()
    text.set_rotation(0)
    level = text.get_window_extent()
    text.set_rotation(angle)
    half = np.array([level.width, level.height]) / 2 - spare
    corners = half * [[-1, -1], [-1, 1], [1, 1], [1, -1], [-1, -1]]
    centre = (np.asarray(middle.p0) + np.asarray(middle.p1)) / 2
    return Path(corners, closed=True).transformed(Affine2D().rotate_deg(angle).translate(*centre))
