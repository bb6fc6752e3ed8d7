"""The look of all pictures: colours, sizes, numbers; and the error without matplotlib."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from fairopt.errors import MissingExtra
from fairopt.plots.words import cut, inches

__all__ = [
    "COLOURS",
    "GREYS",
    "GROUP",
    "HATCHES",
    "HELD",
    "NOISE",
    "amount",
    "beside",
    "colour",
    "cut",
    "lighter",
    "look",
    "matplotlib_or_missing",
    "new_figure",
    "numbered",
    "percent_ticks",
    "plain",
    "room_for",
    "say_none",
]

# Okabe and Ito's palette, told apart with any colour vision; black is for text, and repeats get a hatch.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
HATCHES = ("", "////", "....", "xxxx")
GREYS = ("#5A5A5A", "#8C8C8C", "#B4B4B4", "#D2D2D2")
GROUP = 0.84  # of the room of a group of bars, what its bars take
HELD = 0.35  # opacity of what is held beyond what tasks use
NOISE = 1e-6  # of the largest: what a certificate (relative gap 1e-6) cannot tell from zero
TICK = 0.15  # inches that a number at an upright axis needs


def matplotlib_or_missing() -> Any:
    """Matplotlib with its figures, or `MissingExtra`."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots", "a picture") from error
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """A figure of so many inches, with room made for what stands beside its axes.

    Where pyplot is in use, and in notebooks, it is the current figure of pyplot, which ``plt.savefig`` writes;
    elsewhere no screen knows of it.
    """
    figure = matplotlib_or_missing().figure.Figure
    if "matplotlib.pyplot" in sys.modules or "ipykernel" in sys.modules:
        import matplotlib.pyplot as plt

        figure = plt.figure
    return figure(figsize=(width, height), layout="constrained")


def plain(ax: Any) -> None:
    """Axes without a box around them."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=2)


def colour(k: int) -> str:
    """Colour of the k-th thing; see `look` for a hatch that tells repeats apart."""
    return COLOURS[k % len(COLOURS)]


def look(k: int) -> dict[str, Any]:
    """Colour and hatch of the k-th kind of bar."""
    hatch = HATCHES[k // len(COLOURS) % len(HATCHES)]
    return {"facecolor": colour(k), "hatch": hatch, "edgecolor": "white", "linewidth": 0}


def lighter() -> Any:
    """The entry of a legend that says what lighter parts of bars are."""
    from matplotlib.patches import Patch

    return Patch(color=GREYS[0], alpha=HELD, linewidth=0, label="lighter: held, but not\nused by tasks")


def say_none(ax: Any, at: float) -> None:
    """Where a bar would stand, that there is nothing to hold."""
    ax.text(at, 1.5, "none", ha="center", va="bottom", fontsize=6.5, rotation=90, color="#707070", in_layout=False)


def amount(value: float, digits: int = 3) -> str:
    """A number in few letters, as ``330``, ``0.0045`` or ``2.1e-5``."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def numbered(ax: Any, size: tuple[float, float]) -> None:
    """Axes in natural units: ticks for which so many inches have room, numbers of the size of everything else."""
    for axis, room in zip("xy", size, strict=True):
        ax.locator_params(axis=axis, nbins=min(max(int(room / 0.5), 1), 5))
    ax.tick_params(labelsize=8)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set_size(8)
    plain(ax)


def percent_ticks(axis: Any, room: float) -> None:
    """Ticks from 0 to 100 for which so many inches have room."""
    step = next((s for s in (20, 25, 50) if 100 / s * TICK <= room), 100)
    axis.set_ticks(range(0, 101, step))


def room_for(names: Sequence[str]) -> float:
    """Inches that the longest of these lines takes, with what stands beside it."""
    return 0.5 + max(map(inches, names), default=0.0)


def beside(handles: list[Any]) -> float:
    """Inches that a legend of these entries takes."""
    return room_for([str(h.get_label()).replace(r"\$", "$") for h in handles]) if handles else 0.0
