"""The room that axes have, once a figure has laid out what stands beside them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from fairopt.errors import InvalidBlock

__all__ = ["measured", "settled"]

ROUNDS = 2  # words take room from axes and axes give room to words: a third round moved nothing that mattered


def measured(ax: Any) -> tuple[float, float]:
    """Inches between axes."""
    if not hasattr(ax, "get_window_extent"):
        raise InvalidBlock(f"{ax!r} given as axes; give matplotlib Axes, or none; what to draw is kind=...")
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def settled(panels: Sequence[Any]) -> Iterator[bool]:
    """Rounds in which words are fitted to panels; before each the figure is laid out, and the last one is True."""
    figure = panels[0].figure.canvas.figure  # that of a subfigure too
    for k in range(ROUNDS):
        engine = figure.get_layout_engine()
        if engine is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what it has to say is said when the figure is drawn
                engine.execute(figure)
        yield k == ROUNDS - 1
