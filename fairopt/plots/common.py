"""The look of all pictures: colours, sizes, names; and the error without matplotlib."""

from __future__ import annotations

from typing import Any

from fairopt.errors import MissingExtra

__all__ = ["COLOURS", "HATCHES", "cut", "matplotlib_or_missing", "new_figure", "plain"]

# Okabe and Ito's palette, told apart with any colour vision; black is for text, and repeats get a hatch.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
HATCHES = ("", "////", "....", "xxxx")


def matplotlib_or_missing() -> Any:
    """Matplotlib with its figures, or `MissingExtra`."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots", "a picture") from error
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """A figure of so many inches that no screen knows of, with room made for what stands beside its axes."""
    return matplotlib_or_missing().figure.Figure(figsize=(width, height), layout="constrained")


def plain(ax: Any) -> None:
    """Axes without a box around them."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=2)


def cut(name: str, most: int = 26) -> str:
    """A name that leaves room for the picture, taken literally."""
    shown = name if len(name) <= most else name[: most - 1] + "…"
    return shown.replace("$", r"\$")  # matplotlib would read mathematics
