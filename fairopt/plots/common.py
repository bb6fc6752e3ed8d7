"""Colours, sizes, numbers, names and fonts that all pictures share."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeAlias

from fairopt.display import shorter
from fairopt.errors import InvalidBlock, MissingExtra

__all__ = [
    "COLOURS",
    "GREYS",
    "GROUP",
    "HATCHES",
    "HELD",
    "NOISE",
    "NUMBER",
    "Inches",
    "amount",
    "colour",
    "cut",
    "escaped",
    "fit_numbers",
    "inches",
    "label_bars",
    "lay_out",
    "lettering",
    "lighter",
    "look",
    "matplotlib_or_missing",
    "measured",
    "new_figure",
    "plain",
    "shorter",
    "ticks_below",
    "ticks_beside",
]

Inches: TypeAlias = tuple[float, float]  # width and height

# The palette of Okabe and Ito, distinct for any colour vision; black is for text, and repeated colours get a hatch.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
HATCHES = ("", "////", "....", "xxxx")
GREYS = ("#5A5A5A", "#8C8C8C", "#B4B4B4", "#D2D2D2")
GROUP = 0.84  # part of a group's width that its bars take
HELD = 0.35  # opacity of what is held beyond what tasks use
NOISE = 1e-6  # relative to the largest: zero within the gap of a certificate (1e-6)
NUMBER = "number"  # gid of texts in cells and above bars, which get smaller or are hidden where they do not fit
SIZES = (8.0, 7.0, 6.0, 5.0)  # points of names and numbers; smaller ones cannot be read on paper
ASLANT = 35  # degrees
FEWEST = 5  # letters that a name keeps
LATIN = 0x17F  # the last of the letters that every font has
BOX = "\u25a1"  # replaces a letter that no font has
PREFERRED = ("Noto Sans", "Source Han Sans", "WenQuanYi", "Microsoft YaHei", "SimHei", "PingFang", "Hiragino", "Arial")
INSIDE = ("fairopt", "contextlib")  # modules between a picture and the code that asked for it
_LOST: ContextVar[set[str]] = ContextVar("letters that no font has")


def matplotlib_or_missing() -> Any:
    """The matplotlib package; raises `MissingExtra` without it."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots", "a picture") from error
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches, with constrained layout.

    Where pyplot is in use, and in notebooks, it is the current figure of pyplot, which ``plt.savefig`` writes;
    elsewhere it is not registered with pyplot.
    """
    figure = matplotlib_or_missing().figure.Figure
    if "matplotlib.pyplot" in sys.modules or "ipykernel" in sys.modules:
        import matplotlib.pyplot as plt

        figure = plt.figure
    return figure(figsize=(width, height), layout="constrained")


def lay_out(figure: Any) -> None:
    """Apply the layout of a figure now, so that its axes can be measured."""
    engine = figure.get_layout_engine()
    if engine is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # matplotlib warns again when the figure is drawn
            engine.execute(figure)


def measured(ax: Any) -> Inches:
    """Width and height of axes in inches."""
    if not hasattr(ax, "get_window_extent"):
        raise InvalidBlock(f"{ax!r} given as axes; give matplotlib Axes, or none; what to draw is kind=...")
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


# -- bars and numbers -------------------------------------------------------------------------------------------------


def plain(ax: Any) -> None:
    """Remove the box around axes and shorten their ticks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=2, labelsize=8)


def colour(k: int) -> str:
    """The k-th colour; see `look` for a hatch that separates repeated colours."""
    return COLOURS[k % len(COLOURS)]


def look(k: int) -> dict[str, Any]:
    """Colour and hatch of the k-th kind of bar."""
    hatch = HATCHES[k // len(COLOURS) % len(HATCHES)]
    return {"facecolor": colour(k), "hatch": hatch, "edgecolor": "white", "linewidth": 0}


def lighter() -> Any:
    """The legend entry for lighter parts of bars."""
    from matplotlib.patches import Patch

    return Patch(color=GREYS[0], alpha=HELD, linewidth=0, label="lighter: held, but not\nused by tasks")


def label_bars(ax: Any, bars: Any, percents: Iterable[float]) -> None:
    """Write numbers above bars, and "none" for NaN."""
    words = ["none" if math.isnan(x) else f"{x:.0f}" for x in percents]
    for text in ax.bar_label(bars, words, padding=1, fontsize=7, color="#505050", gid=NUMBER):
        if text.get_text() == "none":
            text.set(rotation=90, fontsize=6.5, gid=None)


def amount(value: float, digits: int = 3) -> str:
    """A number as short text, as ``330``, ``0.0045`` or ``2.1e-5``."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def fit_numbers(ax: Any, room: Inches) -> None:
    """Set the largest font size at which all numbers fit, or hide them."""
    numbers = [text for text in ax.texts if text.get_gid() == NUMBER]
    shown = {text.get_text() for text in numbers}
    sizes = (p for p in SIZES if _high(1, p) <= room[1] and all(inches(text, p) + 0.03 <= room[0] for text in shown))
    points = next(sizes, None)
    for text in numbers:
        text.set_visible(points is not None)
        text.set_fontsize(points or SIZES[-1])


# -- names ------------------------------------------------------------------------------------------------------------


def escaped(name: str) -> str:
    """A name that matplotlib does not read as mathematics, with boxes for letters that no font has."""
    lost = _LOST.get(set())
    return "".join(BOX if c in lost else c for c in name).replace("$", r"\$")


def cut(name: str, most: int = 26) -> str:
    """A name on one line, shortened and escaped."""
    return escaped(shorter(name, most))


@lru_cache(maxsize=10_000)
def inches(text: str, points: float = 8.0) -> float:
    """Width in inches of the widest line of a text (not escaped)."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks: they are boxes
        lines = [text_to_path.get_text_width_height_descent(x, font, False)[0] for x in text.split("\n") if x]
    return 1.05 * max(lines, default=0.0) / 72  # letters on whole pixels were up to 6 % wider


def _high(lines: int, points: float) -> float:
    """Height in inches of lines of text."""
    return 1.25 * lines * points / 72


def fitted(name: str, most: float, points: float) -> str:
    """A name whose lines are at most ``most`` inches wide, escaped."""
    lines = []
    for line in name.split("\n"):
        shown, letters = shorter(line, len(line)), len(line)
        while letters > FEWEST and inches(shown, points) > most:
            letters -= 1
            shown = shorter(line, letters)
        lines.append(shown)
    return escaped("\n".join(lines))


def ticks_below(ax: Any, names: Sequence[str], width: float, most: float = math.inf) -> None:
    """Write names below axes of this width, at most ``most`` high: level, aslant, upright, or not all."""
    each, lines = width / max(len(names), 1), 1 + max((name.count("\n") for name in names), default=0)
    slope, across = math.sin(math.radians(ASLANT)), math.cos(math.radians(ASLANT))
    widest, step = max(map(inches, names), default=0.0), 1
    if widest + 0.05 <= each:
        turn, points, most = 0, SIZES[0], each
    elif _high(lines, SIZES[0]) <= each * slope and widest * across <= 2 * each:  # not far beyond the axes
        turn, points, most = ASLANT, SIZES[0], max(most - _high(lines, SIZES[0]), 0.0) / slope
    else:
        names = [name.replace("\n", " ") for name in names]
        turn, (points, step) = 90, _column(each)
    ax.set_xticks(
        range(0, len(names), step),
        [fitted(name, most, points) for name in names[::step]],
        fontsize=points,
        rotation=turn,
        ha="right" if turn == ASLANT else "center",
        rotation_mode="anchor" if turn == ASLANT else "default",
    )


def ticks_beside(ax: Any, names: Sequence[str], height: float, most: float = math.inf) -> None:
    """Write names left of axes of this height, at most ``most`` wide, or not all."""
    points, step = _column(height / max(len(names), 1))
    ax.set_yticks(range(0, len(names), step), [fitted(x, most, points) for x in names[::step]], fontsize=points)


def _column(each: float) -> tuple[float, int]:
    """Font size of lines of text at this distance, and the step between lines that are shown."""
    points = next((p for p in SIZES if _high(1, p) <= each), SIZES[-1])
    return points, max(1, math.ceil(_high(1, points) / max(each, 1e-9)))


# -- fonts ------------------------------------------------------------------------------------------------------------


@contextmanager
def lettering(words: Iterable[str], axes: Iterable[Any]) -> Iterator[None]:
    """Draw with installed fonts that have the letters of these words, on axes that may have labels already.

    One warning names the letters that no font has.
    """
    matplotlib = matplotlib_or_missing()
    letters = set().union(*words)
    families: list[str] = list(matplotlib.rcParams["font.family"])
    more: list[str] = []
    lost = {c for c in letters if ord(c) > LATIN and c.isprintable() and not c.isspace()}
    if lost:
        more, lost = _fonts_with(lost, families)
    token = _LOST.set(lost)
    try:
        with matplotlib.rc_context({"font.family": [*families, *more]}):
            yield
    finally:
        _LOST.reset(token)
    if more:
        from matplotlib.text import Text

        for text in (text for ax in axes for text in ax.findobj(Text)):
            text.set_fontfamily(list(dict.fromkeys([*text.get_fontfamily(), *more])))
    if lost:
        some = " ".join(sorted(lost)[:20]) + (f" and {len(lost) - 20} more" if len(lost) > 20 else "")
        warnings.warn(
            f"no installed font has the letters {some}: names show {BOX} in their place; install a font that "
            "has them, as Noto Sans CJK",
            stacklevel=_depth(),
        )


def _depth() -> int:
    """The stack level of the code that asked for a picture."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None and frame.f_globals["__name__"].split(".")[0] in INSIDE:
        frame, depth = frame.f_back, depth + 1
    return depth


def _fonts_with(letters: set[str], families: Sequence[str]) -> tuple[list[str], set[str]]:
    """Font families for letters that the given families lack, and the letters that no font has."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    for family in families:
        letters = letters - _letters_of(findfont(FontProperties(family=[family])))
    rank = {name: k for k, name in enumerate(PREFERRED)}
    known = [e for e in fontManager.ttflist if "Last Resort" not in e.name]  # a font with a box for every letter
    known.sort(key=lambda e: (min((k for name, k in rank.items() if e.name.startswith(name)), default=99), e.name))
    more: list[str] = []
    for entry in known:
        found = letters & _letters_of(entry.fname) if letters else set()
        if found:
            more.append(entry.name)
            letters = letters - found
    return more, letters


@lru_cache(maxsize=10_000)
def _letters_of(path: str) -> frozenset[str]:
    """The letters of a font file; none if matplotlib cannot draw it, as colour emoji."""
    from matplotlib.font_manager import get_font

    try:
        font = get_font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
