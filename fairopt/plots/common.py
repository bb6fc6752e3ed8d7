"""Colours, numbers, names and fonts shared by all pictures."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fairopt.errors import InvalidBlock, nearest, optional
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import shorter
from fairopt.runtime.tolerances import GAP_TOLERANCE

Inches: TypeAlias = tuple[float, float]  # width and height

# The palette of Okabe and Ito, distinct for any colour vision; black is for text, and repeated colours get a hatch.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
HATCHES = ("", "////", "....", "xxxx")
GREYS = ("#5A5A5A", "#8C8C8C", "#B4B4B4", "#D2D2D2")
GROUP = 0.84  # fraction of a group's width covered by its bars
HELD_OPACITY = 0.35  # opacity of bars for units held but not used by tasks
NUMBER = "number"  # gid of numbers in cells and above bars, which `fit_numbers` shrinks or hides
LETTER, LINE = 0.72, 1.25  # width of a digit with its margin, and height of a line, relative to the font size
LARGEST, SMALLEST = 8.0, 5.0  # font sizes of names and numbers in points
FONTS = (
    "Noto",
    "Source Han",
    "Droid",
    "WenQuanYi",
    "PingFang",
    "Hiragino",
    "Microsoft",
    "SimHei",
    "Malgun",
    "STIXGeneral",
)


def matplotlib_or_missing() -> Any:
    """Import `matplotlib.figure`, or raise `MissingExtra`."""
    return optional("matplotlib.figure", "plots", "a picture")


def check_kind(kind: str, kinds: Iterable[str], of: str = "") -> None:
    """Raise `InvalidBlock` with the nearest ones if there is no such kind of picture of something."""
    if kind not in kinds:
        what = f"picture {kind!r} of a {of}" if of else f"kind of picture {kind!r}"
        raise InvalidBlock(f"there is no {what}; {nearest(kind, kinds)}")


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches, with constrained layout.

    If pyplot is loaded, or in a notebook, the figure becomes pyplot's current figure, which ``plt.savefig`` writes.
    Otherwise it is not registered with pyplot.
    """
    figure = matplotlib_or_missing().Figure
    if "matplotlib.pyplot" in sys.modules or "ipykernel" in sys.modules:
        import matplotlib.pyplot as plt

        figure = plt.figure
    return figure(figsize=(width, height), layout="constrained")


def lay_out(figure: Any) -> None:
    """Apply the layout of a figure now so that the sizes of its axes are known."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)


def check_axes(ax: Any) -> None:
    """Raise `InvalidBlock` unless ``ax`` is a matplotlib Axes."""
    if not hasattr(ax, "get_window_extent"):
        raise InvalidBlock(f"ax={ax!r}; give a matplotlib Axes, or omit ax to draw on a new figure")


def size_of(ax: Any) -> Inches:
    """Width and height of axes in inches."""
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


# -- bars and numbers -------------------------------------------------------------------------------------------------


def plain(ax: Any) -> None:
    """Remove the top and right spines and shorten the ticks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(which="both", length=2, labelsize=8)  # logarithmic axes name minor ticks too


def colour(k: int) -> str:
    """The k-th colour; `bar_style` adds a hatch to repeated colours."""
    return COLOURS[k % len(COLOURS)]


def bar_style(k: int) -> dict[str, Any]:
    """Colour and hatch of the k-th series of bars."""
    hatch = HATCHES[k // len(COLOURS) % len(HATCHES)]
    return {"facecolor": colour(k), "hatch": hatch, "edgecolor": "white", "linewidth": 0}


def bars_used(ax: Any, x: Any, used: Float, held: Float, label: str, **how: Any) -> Any:
    """Bars of percentages used by tasks, with a lighter part for what is held beyond; the topmost bars."""
    low = np.nan_to_num(used)
    more = np.maximum(np.nan_to_num(held) - low, 0.0)
    top = ax.bar(x, low, label=label, **how)
    if more.max(initial=0.0) > 100 * GAP_TOLERANCE:
        top = ax.bar(x, more, bottom=low, alpha=HELD_OPACITY, **how)
    return top


def lighter() -> Any:
    """The legend entry for units held but not used by tasks."""
    from matplotlib.patches import Patch

    return Patch(color=GREYS[0], alpha=HELD_OPACITY, linewidth=0, label="lighter: held, but not\nused by tasks")


def label_bars(ax: Any, bars: Any, percents: Iterable[float]) -> None:
    """Write percentages above bars, and "none" for NaN."""
    words = ["none" if math.isnan(x) else f"{x:.0f}" for x in percents]
    for text in ax.bar_label(bars, words, padding=1, fontsize=7, color="#505050", gid=NUMBER):
        if text.get_text() == "none":
            text.set(rotation=90, fontsize=6.5, gid=None)


def amount(value: float, digits: int = 3) -> str:
    """Format a number briefly, such as ``330``, ``0.0045`` or ``2.1e-5``."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def fit_numbers(ax: Any, room: Inches) -> None:
    """Set the largest font size at which every number fits into a space of this size, or hide the numbers."""
    numbers = [text for text in ax.texts if text.get_gid() == NUMBER]
    longest = max((len(text.get_text()) for text in numbers), default=1)
    points = min(LARGEST, 72 * room[1] / LINE, 72 * room[0] / (LETTER * max(longest, 1)))
    for text in numbers:
        text.set(fontsize=max(points, SMALLEST), visible=points >= SMALLEST)


def number_in_cell(ax: Any, column: int, row: int, text: str, on_dark: bool) -> None:
    """Write a number in a cell of a table; `fit_numbers` sets its size."""
    colour = "white" if on_dark else "black"
    ax.text(column, row, text, ha="center", va="center", fontsize=7, gid=NUMBER, in_layout=False, color=colour)


def colour_bar(image: Any, ax: Any, figure: Any, title: str, **options: Any) -> Any:
    """Add a colour bar without an outline."""
    bar = figure.colorbar(image, ax=ax, aspect=30, **options)
    bar.set_label(title, fontsize=8)
    bar.ax.tick_params(labelsize=8, length=2)
    bar.outline.set_visible(False)
    return bar


# -- names ------------------------------------------------------------------------------------------------------------


def escaped(name: str) -> str:
    """Escape dollar signs so that matplotlib does not parse a name as mathematics."""
    return name.replace("$", r"\$")


def cut(name: str, most: int = 26) -> str:
    """Shorten a name to one line and escape it."""
    return escaped(shorter(name, most))


def ticks_below(ax: Any, names: Sequence[str], width: float) -> None:
    """Label the x axis, of this width in inches; rotate names, or omit some, where they do not fit."""
    each = width / max(len(names), 1)
    letters = max((len(line) for name in names for line in name.split("\n")), default=0)
    slanted = each >= 0.25 * (1 + max((name.count("\n") for name in names), default=0))
    turn = 0 if LETTER * LARGEST * letters / 72 <= each else 35 if slanted else 90
    points, step = (LARGEST, 1) if turn < 90 else _column(each)
    ax.set_xticks(
        range(0, len(names), step),
        [escaped(name.replace("\n", " ") if turn == 90 else name) for name in names[::step]],
        fontsize=points,
        rotation=turn,
        ha="right" if turn == 35 else "center",
        rotation_mode="anchor" if turn == 35 else "default",
    )


def ticks_beside(ax: Any, names: Sequence[str], height: float) -> None:
    """Label the y axis, of this height in inches; omit some names where they do not fit."""
    points, step = _column(height / max(len(names), 1))
    ax.set_yticks(range(0, len(names), step), [escaped(name) for name in names[::step]], fontsize=points)


def _column(each: float) -> tuple[float, int]:
    """Font size for lines ``each`` inches apart, and the step between the lines shown."""
    points = min(max(72 * each / LINE, SMALLEST), LARGEST)
    return points, max(1, math.ceil(LINE * points / 72 / max(each, 1e-9)))


def fall_back_fonts(figure: Any) -> None:
    """Let texts in non-Latin scripts fall back to installed fonts that may cover them."""
    from matplotlib.font_manager import get_font_names
    from matplotlib.text import Text

    others = [text for text in figure.findobj(Text) if any(c > "\u017f" for c in text.get_text())]
    fonts = sorted(name for name in get_font_names() if name.startswith(FONTS)) if others else []
    for text in others:
        text.set_fontfamily(list(dict.fromkeys([*text.get_fontfamily(), *fonts])))
