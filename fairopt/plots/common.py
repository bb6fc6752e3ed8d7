"""The look of all pictures: colours, sizes, names; and the error without matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairopt.errors import MissingExtra

__all__ = [
    "COLOURS",
    "GREYS",
    "HATCHES",
    "HELD",
    "LETTER",
    "amount",
    "beside",
    "colour",
    "cut",
    "look",
    "matplotlib_or_missing",
    "new_figure",
    "numbered",
    "plain",
    "room_for",
    "ticks_below",
]

# Okabe and Ito's palette, told apart with any colour vision; black is for text, and repeats get a hatch.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
HATCHES = ("", "////", "....", "xxxx")
GREYS = ("#5A5A5A", "#8C8C8C", "#B4B4B4", "#D2D2D2")
ROOM_ASLANT = 0.17  # inches between names that are aslant, for each line of theirs
HELD = 0.35  # opacity of what is held beyond what tasks use
LETTER = 0.072  # inches that a letter of a legend takes, at 8 points


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
    """A name on one line that leaves room for the picture, taken literally; long ones lose their middle."""
    shown = "".join(c if c.isprintable() else " " for c in name)
    if len(shown) > most:  # names that begin alike often end differently
        end = (most - 1) // 2
        shown = shown[: most - 1 - end] + "…" + shown[len(shown) - end :]
    return shown.replace("$", r"\$")  # matplotlib would read mathematics


def colour(k: int) -> str:
    """Colour of the k-th thing; see `look` for a hatch that tells repeats apart."""
    return COLOURS[k % len(COLOURS)]


def look(k: int) -> dict[str, Any]:
    """Colour and hatch of the k-th kind of bar."""
    hatch = HATCHES[k // len(COLOURS) % len(HATCHES)]
    return {"facecolor": colour(k), "hatch": hatch, "edgecolor": "white", "linewidth": 0}


def amount(value: float, digits: int = 3) -> str:
    """A number in few letters, as ``330``, ``0.0045`` or ``2.1e-5``."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def numbered(ax: Any, size: tuple[float, float]) -> None:
    """Axes in natural units: ticks for which so many inches have room, numbers of the size of everything else."""
    for axis, inches in zip("xy", size, strict=True):
        ax.locator_params(axis=axis, nbins=min(max(int(inches / 0.5), 1), 5))
    ax.tick_params(labelsize=8)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set_size(8)
    plain(ax)


def room_for(names: Sequence[str]) -> float:
    """Inches that the longest of these lines takes."""
    return 0.5 + LETTER * max((len(line) for name in names for line in name.split("\n")), default=0)


def ticks_below(ax: Any, names: Sequence[str], width: float) -> None:
    """Names at the axis, aslant or upright where axes of so many inches have no room for them side by side."""
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    each = width / max(len(names), 1)
    if longest * LETTER <= each:
        ax.set_xticks(range(len(names)), names, fontsize=8)
    elif each > ROOM_ASLANT * (1 + max(name.count("\n") for name in names)):
        ax.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor", fontsize=8)
    else:
        upright = [name.replace("\n", " ") for name in names]
        ax.set_xticks(range(len(names)), upright, rotation=90, fontsize=7)


def beside(handles: list[Any]) -> float:
    """Inches that a legend of these entries takes."""
    return room_for([str(h.get_label()) for h in handles]) if handles else 0.0
