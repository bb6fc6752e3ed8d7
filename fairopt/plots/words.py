"""How much room words take, measured with the font, and names that fit the room there is."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

__all__ = [
    "Names", "arranged", "axis_name", "block", "cut", "escaped", "inches", "lines_high", "shorter", "ticks_below",
    "ticks_beside", "title",
]  # fmt: skip

ASLANT = 35  # degrees
SIZES = (8.0, 7.0, 6.0, 5.0)  # points, the first that fits; smaller ones cannot be read on paper
GAP = 0.05  # inches between names
HINTED = 1.05  # letters on whole pixels, at 100 dots per inch: names of resources were up to 6 % wider
FEWEST = 5  # letters that a name keeps


def shorter(name: str, most: int = 26) -> str:
    """A name on one line that leaves room for the picture; long ones lose their middle."""
    shown = "".join(c if c.isprintable() else " " for c in name)
    if len(shown) > most:  # names that begin alike often end differently
        end = (most - 1) // 2
        shown = shown[: most - 1 - end] + "…" + shown[len(shown) - end :]
    return shown


def escaped(name: str) -> str:
    """A name that matplotlib takes literally, and not for mathematics."""
    return name.replace("$", r"\$")


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
        warnings.simplefilter("ignore")  # letters without a sign: it is said when they are drawn
        widths = [text_to_path.get_text_width_height_descent(line, font, False)[0] for line in text.split("\n") if line]
    return HINTED * max(widths, default=0.0) / 72


def lines_high(count: int, points: float = 8.0) -> float:
    """Inches that lines take on top of each other: 1.1 of the font's size each, and 0.1 between them."""
    return HINTED * points / 72 * (1.2 * count - 0.1)


@dataclass(frozen=True)
class Names:
    """Names at an axis as there is room for them."""

    shown: tuple[str, ...]
    rotation: int
    points: float
    step: int
    high: float  # inches


def arranged(names: Sequence[str], each: float, most: float = math.inf) -> Names:
    """Names side by side, aslant or upright, where each has so many inches, and no higher than ``most``."""
    lines = max((name.count("\n") + 1 for name in names), default=1)
    across, up = math.cos(math.radians(ASLANT)), math.sin(math.radians(ASLANT))
    flat = lines_high(lines)
    widest = max(map(inches, names), default=0.0)
    if widest + GAP <= each:
        return Names(tuple(names), 0, SIZES[0], 1, flat)
    if flat <= each * up:
        kept = tuple(_within(name, max(most - flat * across, 0) / up, SIZES[0]) for name in names)
        return Names(kept, ASLANT, SIZES[0], 1, max(map(inches, kept)) * up + flat * across)
    points = next((p for p in SIZES[1:] if lines_high(1, p) <= each), SIZES[-1])
    kept = tuple(_on_one_line(name, most, points) for name in names)
    step = max(1, math.ceil(lines_high(1, points) / max(each, 1e-9)))
    return Names(kept, 90, points, step, max(inches(name, points) for name in kept))


def ticks_below(ax: Any, names: Sequence[str], width: float, most: float = math.inf) -> None:
    """Names below axes of so many inches, no higher than ``most``; where they have no room some are left out."""
    n = arranged(names, width / max(len(names), 1), most)
    how: dict[str, Any] = {"rotation": n.rotation, "fontsize": n.points}
    if n.rotation == ASLANT:
        how |= {"ha": "right", "rotation_mode": "anchor"}
    else:
        how |= {"ha": "center", "rotation_mode": "default"}
    ax.set_xticks(range(0, len(names), n.step), [escaped(name) for name in n.shown[:: n.step]], **how)


def ticks_beside(ax: Any, names: Sequence[str], height: float, most: float = math.inf) -> None:
    """Names left of axes of so many inches, no wider than ``most``; where they have no room some are left out."""
    each = height / max(len(names), 1)
    points = next((p for p in SIZES if lines_high(1, p) <= each), SIZES[-1])
    step = max(1, math.ceil(lines_high(1, points) / max(each, 1e-9)))
    shown = [escaped(_within(name, most, points)) for name in names[::step]]
    ax.set_yticks(range(0, len(names), step), shown, fontsize=points)


def axis_name(axis: Any, room: float, points: float = 9.0) -> None:
    """The name of an axis no longer than so many inches, as far as letters of 6 points make it so."""
    found = axis.get_label_text().replace(r"\$", "$")
    wide = inches(found, points)
    axis.label.set_size(points if wide <= room else max(points * room / wide, 6.0))


def title(ax: Any, name: str, tasks: str, room: float) -> None:
    """A policy's name on up to two lines and its tasks, no wider than so many inches."""
    letters = max(int(room / inches("n", 9.0)), 8)
    whole = shorter(name, 2 * letters)
    lines = [whole] if inches(whole, 7.5) <= room else textwrap.wrap(whole, letters)[:2]
    lines = [*(lines or [" "]), *([tasks] if inches(tasks, 6.0) <= room else tasks.split(" "))]
    points = min(9.0, 9.0 * room / max(inches("\n".join(lines), 9.0), 1e-9))
    ax.set_title(escaped("\n".join(lines)), fontsize=max(points, SIZES[-1]))


def block(text: str, room: tuple[float, float]) -> tuple[str, float]:
    """A sentence on as many lines as fit into so many inches, and its size in points; small where nothing fits."""
    width, height = room
    lines = [text]
    for points in SIZES:
        letters = max(int(width / inches("n", points)), 5)
        lines = textwrap.wrap(text, letters, break_long_words=False)
        if inches("\n".join(lines), points) <= width and lines_high(len(lines), points) <= height:
            return "\n".join(lines), points
    return "\n".join(lines), SIZES[-1]


def _within(name: str, most: float, points: float) -> str:
    """Lines no wider than so many inches, as far as that can be had by leaving letters out."""
    return "\n".join(_line_within(line, most, points) for line in name.split("\n"))


def _on_one_line(name: str, most: float, points: float) -> str:
    """Lines after each other; where there is no room for all, letters of the first are left out."""
    first, *rest = name.split("\n")
    tail = "".join(f" {line}" for line in rest)
    return _line_within(first, most - inches(tail, points), points) + tail


def _line_within(line: str, most: float, points: float) -> str:
    shown, letters = line, len(line)
    while letters > FEWEST and inches(shown, points) > most:
        letters -= 1
        shown = shorter(line.replace("…", ""), letters)
    return shown
