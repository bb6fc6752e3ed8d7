"""What pictures of all kinds have to show, measured by matplotlib as they are drawn."""

from itertools import combinations
from typing import Any

SPARE = 0.03  # inches by which the box of a word is larger than its letters


def inside(figure: Any) -> bool:
    """Whether no word and no other artist lies outside the figure."""
    figure.draw_without_rendering()
    return _inside(figure)


def _inside(figure: Any) -> bool:
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return bool(box.x0 > -SPARE and box.y0 > -SPARE and box.x1 < width + SPARE and box.y1 < height + SPARE)


def overlapping(figure: Any) -> list[tuple[str, str]]:
    """Pairs of words that lie over each other, among those that are level or upright."""
    figure.draw_without_rendering()
    return _overlapping(figure)


def _overlapping(figure: Any) -> list[tuple[str, str]]:
    from matplotlib.text import Text

    axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    ticks = [(tick, sorted(axis.get_view_interval())) for axis in axes for tick in axis.get_major_ticks()]
    hidden = {id(tick.label1) for tick, (low, high) in ticks if not low <= tick.get_loc() <= high}
    words = [
        (word.get_text(), word.get_window_extent())
        for word in figure.findobj(Text)
        if word.get_visible() and word.get_text().strip() and word.get_rotation() % 90 == 0 and id(word) not in hidden
    ]
    least = SPARE * figure.dpi
    return [
        (a, b)
        for (a, one), (b, other) in combinations(words, 2)
        if min(one.x1, other.x1) - max(one.x0, other.x0) > least
        and min(one.y1, other.y1) - max(one.y0, other.y0) > least
    ]


def legible(figure: Any) -> bool:
    """Whether nothing lies outside the figure, and no words over each other."""
    figure.draw_without_rendering()
    return _inside(figure) and _overlapping(figure) == []
