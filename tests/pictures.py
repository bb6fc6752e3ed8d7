"""What pictures of all kinds have to show, measured by matplotlib as they are drawn."""

from typing import Any

SPARE = 0.03  # inches by which the box of a word is larger than its letters


def inside(figure: Any) -> bool:
    """Whether no word and no other artist lies outside the figure."""
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return bool(box.x0 > -SPARE and box.y0 > -SPARE and box.x1 < width + SPARE and box.y1 < height + SPARE)
