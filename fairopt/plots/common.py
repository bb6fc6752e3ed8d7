"""What all pictures share: colours, numbers, names cut to the room there is, fonts that have their letters."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeAlias

from fairopt.errors import InvalidBlock, MissingExtra

__all__ = [
    "COLOURS", "GREYS", "GROUP", "HATCHES", "HELD", "NOISE", "NUMBER", "Inches", "amount", "colour", "cut", "escaped",
    "fit_numbers", "inches", "label_bars", "lay_out", "lettering", "lighter", "look", "matplotlib_or_missing",
    "measured", "new_figure", "plain", "shorter", "ticks_below", "ticks_beside",
]  # fmt: skip

Inches: TypeAlias = tuple[float, float]  # width and height

# Okabe and Ito's palette, told apart with any colour vision; black is for text, and repeats get a hatch.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
HATCHES = ("", "////", "....", "xxxx")
GREYS = ("#5A5A5A", "#8C8C8C", "#B4B4B4", "#D2D2D2")
GROUP = 0.84  # of the room of a group of bars, what its bars take
HELD = 0.35  # opacity of what is held beyond what tasks use
NOISE = 1e-6  # of the largest: what a certificate (relative gap 1e-6) cannot tell from zero
NUMBER = "number"  # gid of texts in cells and above bars: these get smaller or are left out where there is no room
SIZES = (8.0, 7.0, 6.0, 5.0)  # points of names and numbers; smaller ones cannot be read on paper
ASLANT = 35  # degrees
FEWEST = 5  # letters that a name keeps
BOX = "\u25a1"  # in the place of a letter that no font has
PREFERRED = ("Noto Sans", "Source Han Sans", "WenQuanYi", "Microsoft YaHei", "SimHei", "PingFang", "Hiragino", "Arial")
_LOST: ContextVar[set[str]] = ContextVar("letters that no font has")


def matplotlib_or_missing() -> Any:
    """Matplotlib with its figures, or `MissingExtra`."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots", "a picture") from error
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """A figure of this many inches with constrained layout.

    Where pyplot is in use, and in notebooks, it is the current figure of pyplot, which ``plt.savefig`` writes;
    elsewhere it needs no screen.
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
    """Inches between the axes."""
    if not hasattr(ax, "get_window_extent"):
        raise InvalidBlock(f"{ax!r} given as axes; give matplotlib Axes, or none; what to draw is kind=...")
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


# -- bars and numbers -------------------------------------------------------------------------------------------------


def plain(ax: Any) -> None:
    """Axes without a box around them."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=2, labelsize=8)


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


def label_bars(ax: Any, bars: Any, percents: Iterable[float]) -> None:
    """Numbers above bars; "none" where there is nothing to hold (NaN)."""
    words = ["none" if math.isnan(x) else f"{x:.0f}" for x in percents]
    for text in ax.bar_label(bars, words, padding=1, fontsize=7, color="#505050", gid=NUMBER):
        if text.get_text() == "none":
            text.set(rotation=90, fontsize=6.5, gid=None)


def amount(value: float, digits: int = 3) -> str:
    """A number in few letters, as ``330``, ``0.0045`` or ``2.1e-5``."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def fit_numbers(ax: Any, room: Inches) -> None:
    """Numbers as large as the room of each; none where they cannot be read."""
    numbers = [text for text in ax.texts if text.get_gid() == NUMBER]
    shown = {text.get_text() for text in numbers}
    sizes = (p for p in SIZES if _high(1, p) <= room[1] and all(inches(text, p) + 0.03 <= room[0] for text in shown))
    points = next(sizes, None)
    for text in numbers:
        text.set_visible(points is not None)
        text.set_fontsize(points or SIZES[-1])


# -- names ------------------------------------------------------------------------------------------------------------


def shorter(name: str, most: int = 26) -> str:
    """A name on one line that leaves room for the picture; long ones lose their middle."""
    shown = "".join(c if c.isprintable() else " " for c in name)
    if len(shown) > most:  # names that begin alike often end differently
        end = (most - 1) // 2
        shown = shown[: most - 1 - end] + "…" + shown[len(shown) - end :]
    return shown


def escaped(name: str) -> str:
    """A name that matplotlib takes literally, and not for mathematics; boxes for letters that no font has."""
    lost = _LOST.get(set())
    return "".join(BOX if c in lost else c for c in name).replace("$", r"\$")


def cut(name: str, most: int = 26) -> str:
    """A name on one line that leaves room for the picture, taken literally."""
    return escaped(shorter(name, most))


@lru_cache(maxsize=10_000)
def inches(text: str, points: float = 8.0) -> float:
    """Width of the widest line of a text (not escaped), as the font has it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks: they are boxes
        lines = [text_to_path.get_text_width_height_descent(x, font, False)[0] for x in text.split("\n") if x]
    return 1.05 * max(lines, default=0.0) / 72  # on whole pixels letters were up to 6 % wider


def _high(lines: int, points: float) -> float:
    """Inches that lines take on top of each other."""
    return 1.25 * lines * points / 72


def fitted(name: str, most: float, points: float) -> str:
    """A name, on one line or several, of which each is no wider than so many inches."""
    lines = []
    for line in name.split("\n"):
        shown, letters = shorter(line, len(line)), len(line)
        while letters > FEWEST and inches(shown, points) > most:
            letters -= 1
            shown = shorter(line, letters)
        lines.append(shown)
    return escaped("\n".join(lines))


def ticks_below(ax: Any, names: Sequence[str], width: float, most: float = math.inf) -> None:
    """Names below axes of this width, no higher than ``most``: level, aslant, or upright, then with gaps."""
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
        range(0, len(names), step), [fitted(name, most, points) for name in names[::step]], fontsize=points,
        rotation=turn, ha="right" if turn == ASLANT else "center",
        rotation_mode="anchor" if turn == ASLANT else "default",
    )  # fmt: skip


def ticks_beside(ax: Any, names: Sequence[str], height: float, most: float = math.inf) -> None:
    """Names left of axes of this height, no wider than ``most``; where there is no room some are left out."""
    points, step = _column(height / max(len(names), 1))
    ax.set_yticks(range(0, len(names), step), [fitted(x, most, points) for x in names[::step]], fontsize=points)


def _column(each: float) -> tuple[float, int]:
    """Points of names of which each line has so many inches, and every how many-th is shown."""
    points = next((p for p in SIZES if _high(1, p) <= each), SIZES[-1])
    return points, max(1, math.ceil(_high(1, points) / max(each, 1e-9)))


# -- fonts ------------------------------------------------------------------------------------------------------------


@contextmanager
def lettering(words: Iterable[str]) -> Iterator[None]:
    """Draw with installed fonts that have the letters of these words; one warning names letters that none has."""
    rc = matplotlib_or_missing().rcParams
    letters = set().union(*words)
    families = list(rc["font.family"])
    lost = {c for c in letters if c.isprintable() and not c.isspace()} if any(map(_foreign, letters)) else set()
    if lost:
        more, lost = _fonts_with(lost, families)
        families += more
    token = _LOST.set(lost)
    try:
        with matplotlib_or_missing().rc_context({"font.family": families}):
            yield
    finally:
        _LOST.reset(token)
    if lost:
        some = " ".join(sorted(lost)[:20]) + (f" and {len(lost) - 20} more" if len(lost) > 20 else "")
        warnings.warn(f"no installed font has the letters {some}: names show {BOX} in their place; install a font that "
                      "has them, as Noto Sans CJK", stacklevel=2)  # fmt: skip


def _foreign(letter: str) -> bool:
    return ord(letter) > 0x17F  # what every font has: Latin letters with their accents


def _fonts_with(letters: set[str], families: Sequence[str]) -> tuple[list[str], set[str]]:
    """Families that add letters which those given lack, and the letters that none has."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    for family in families:
        letters = letters - _letters_of(findfont(FontProperties(family=[family])))
    rank = {name: k for k, name in enumerate(PREFERRED)}
    known = [e for e in fontManager.ttflist if "Last Resort" not in e.name]  # which has a box for every letter
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
    """The letters that a font file has; none where matplotlib cannot draw it, as fonts of coloured pictures."""
    from matplotlib.font_manager import get_font

    try:
        font = get_font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
