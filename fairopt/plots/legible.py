"""Whether the words of a picture can be read: measured as they are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["unreadable"]

Float = NDArray[np.floating[Any]]

SPARE = 0.75  # points by which the box of a word is larger than its letters, to a side
LEAST = 0.3  # inches of axes below which nothing can be seen in them


def unreadable(figure: Any) -> list[str]:
    """Words over each other, words and legends that leave the picture, axes too small to show anything: a phrase each.

    The figure is laid out, and not changed.

    Examples
    --------
    >>> import fairopt as fo
    >>> unreadable(fo.DRF().allocate(fo.datasets.demo()).plot().figure)
    []
    """
    figure.draw_without_rendering()
    words = list(_words(figure))
    boxes = [_box(text, figure.dpi) for text in words]
    names = [repr(" ".join(text.get_text().split())) for text in words]
    out = [f"{name} leaves the picture" for name, box in zip(names, boxes, strict=True) if not _inside(figure, box)]
    out += [f"{names[a]} lies over {names[b]}" for a, b in _pairs(boxes)]
    panels = [ax for ax in figure.axes if ax.get_visible() and ax.axison and ax.get_label() != "<colorbar>"]
    legends = [*figure.legends, *(found for ax in panels if (found := ax.get_legend()) is not None)]
    for legend in legends:
        frame = legend.get_window_extent()
        if not _inside(figure, frame.padded(-SPARE / 72 * figure.dpi).corners()):
            out.append("the legend leaves the picture")
        if any(frame.overlaps(ax.get_window_extent()) for ax in panels if ax is not legend.axes):
            out.append("the legend lies over a panel")
    least = min((min(ax.get_window_extent().size) / figure.dpi for ax in panels), default=LEAST)
    if least < LEAST:
        out.append(f"a panel is {least:.2f} inches small")
    return out


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


def _box(text: Any, dpi: float) -> Float:
    """Corners of the box of a text, turned with it, shape (4, 2)."""
    spare, angle = SPARE / 72 * dpi, text.get_rotation() % 360
    around = text.get_window_extent()
    if angle % 90 == 0:
        return np.asarray(around.padded(-spare).corners())[[0, 1, 3, 2]]
    text.set_rotation(0)
    level = text.get_window_extent()
    text.set_rotation(angle)
    half = np.array([level.width, level.height]) / 2 - spare
    corners = half * [[-1, -1], [-1, 1], [1, 1], [1, -1]]
    turn = np.radians(angle)
    middle = (np.asarray(around.p0) + np.asarray(around.p1)) / 2
    return np.asarray(corners @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]] + middle)


def _inside(figure: Any, corners: Float) -> bool:
    low, high = np.asarray(figure.bbox.p0) - 1, np.asarray(figure.bbox.p1) + 1  # a pixel
    return bool((corners >= low).all() and (corners <= high).all())


def _pairs(boxes: list[Float]) -> Iterator[tuple[int, int]]:
    """Boxes that overlap."""
    if not boxes:
        return
    low, high = np.min(boxes, axis=1), np.max(boxes, axis=1)
    for k in range(1, len(boxes)):
        near = ((low[:k] < high[k]) & (low[k] < high[:k])).all(axis=1)
        yield from ((k, int(j)) for j in np.flatnonzero(near) if _overlap(boxes[k], boxes[j]))


def _overlap(one: Float, other: Float) -> bool:
    """Whether two rectangles do: no side of either lies between them."""
    for box in (one, other):
        for side in (box[1] - box[0], box[2] - box[1]):
            a, b = one @ side, other @ side
            if a.max() <= b.min() or b.max() <= a.min():
                return False
    return True
