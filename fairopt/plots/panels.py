"""Lays out pictures on one axes, or on a panel for each policy with shared scales, colours and legend."""

from __future__ import annotations

import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock, nearest
from fairopt.instance import Instance
from fairopt.instance.labels import whole_name
from fairopt.plots.common import (
    Inches,
    check_axes,
    colour_bar,
    escaped,
    fall_back_fonts,
    fit_numbers,
    lay_out,
    matplotlib_or_missing,
    new_figure,
    size_of,
    ticks_below,
    ticks_beside,
)
from fairopt.policy import Policy, label
from fairopt.runtime.display import shortened, shorter, tasks_in_words

Size: TypeAlias = tuple[float | None, float | None]  # width and height of a figure in inches; None fits the panels
Two: TypeAlias = "Sequence[str] | None"  # names of the two users or resources on the axes

PER_ROW = 4  # most panels in a row
WIDEST = 14.5  # width in inches of a row of panels; with a legend it fits a screen
AROUND = (0.3, 0.9)  # least width and height in inches of the labels of a panel
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 8}
TITLE = 0.08  # width of a letter of a title in inches
NAMES = 3.0  # letters of a name per inch of the width of a given figure, or of the height of a row


class Picture(ABC):
    """A kind of picture, with the sizes, colours and scales shared by its panels."""

    instance: Instance
    size: Inches  # of the axes of one panel
    what: str  # subject of the picture, for its title
    below: Sequence[str] = ()  # names on the x axis
    beside: Sequence[str] = ()  # names on the y axis
    together: bool = False  # one panel shows all allocations
    scale_title: str = ""  # title of the colour bar, if there is one
    scale_beyond: bool = False  # some numbers exceed the largest on the scale

    @abstractmethod
    def draw(self, ax: Any, key: Any) -> Any:
        """Draw an allocation, or another part, on the axes; return the image that a colour bar explains, if any."""

    def room(self, size: Inches) -> Inches:
        """The space for a number in a cell or above a bar, for axes of this size."""
        return size

    def finding(self, allocation: Allocation | None) -> str:
        """A sentence below the title."""
        return ""

    def handles(self) -> list[Any]:
        """Entries of the legend, from the top down."""
        return []


def one(picture: Picture, allocation: Allocation | None, ax: Any = None) -> Any:
    """Draw one allocation on the given axes, or on a new figure."""
    name = "" if allocation is None else _titled(allocation, label(allocation.policy))
    title = [f"{name}: {picture.what}" if name else _sentence(picture.what), picture.finding(allocation)]
    return panels_of(picture, [(allocation, title)], None if ax is None else [ax], alone=True)[0]


def many(picture: Picture, found: Mapping[str, Allocation], axes: Any = None, size: Size | None = None) -> list[Any]:
    """Draw each allocation on its own panel, or all on one panel if ``picture.together``.

    The legend goes beside the last of given axes. ``size`` is in inches, None for the preferred size.
    """
    shown: list[tuple[Allocation | None, list[str]]] = [(None, [_sentence(picture.what)])]
    if not picture.together:
        shown = [(a, [_titled(a, name), _tasks(a), picture.finding(a)]) for name, a in found.items()]
    return panels_of(picture, shown, axes, size or (None, None), f"{len(shown)} policies with an answer")


def _given(axes: Any, count: int, panels: str) -> list[Any]:
    """The first ``count`` of some axes; raise `InvalidBlock` if they are too few for ``panels``."""
    out = list(np.asarray(axes, dtype=object).ravel())
    if len(out) < count:
        raise InvalidBlock(f"{len(out)} axes for {panels}; give one for each panel")
    for ax in out[:count]:
        check_axes(ax)
    return out[:count]


def two_of(
    names: Sequence[str], chosen: Sequence[str] | None, what: str, how: Callable[[str, str], str] | None = None
) -> tuple[int, int]:
    """Positions of the two chosen users or resources (``what``), or of the only two.

    ``how`` formats an example of a choice of two names for error messages; by default ``users=('a', 'b')``.
    """
    if len(names) < 2:
        raise InvalidBlock(f"this picture has two {what} on its axes, but the instance has {len(names)}")
    example = f"{what}=({names[0]!r}, {names[1]!r})" if how is None else how(names[0], names[1])
    if chosen is None:
        if len(names) > 2:
            some = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            raise InvalidBlock(
                f"this picture has two {what} on its axes; "
                f"choose two of the {len(names):,}, such as {example}, from {some}"
            )
        return 0, 1
    if isinstance(chosen, str) or len(chosen) != 2 or chosen[0] == chosen[1]:
        raise InvalidBlock(f"{what}={chosen!r}; give two different names, such as {example}")
    whole = [whole_name(name, names) if what == "resources" else name for name in chosen]
    for name in whole:
        if name not in names:
            raise InvalidBlock(f"there is no {name!r} among the {what}; {nearest(name, names)}")
    return names.index(whole[0]), names.index(whole[1])


# -- pieces -----------------------------------------------------------------------------------------------------------


def panels_of(
    picture: Picture,
    shown: Sequence[tuple[Any, list[str]]],
    axes: Any,
    size: Size = (None, None),
    what: str = "",
    heading: str = "",
    alone: bool = False,
) -> list[Any]:
    """Draw allocations, or what else ``picture.draw`` takes, with titles, on the given axes or on a new figure."""
    count, columns = len(shown), 0
    if axes is None:
        columns = _columns(picture, count, size)
    width, height = columns * (picture.size[0] + 1) + 3, math.ceil(count / (columns or 1)) * (picture.size[1] + 2)
    new = size[0] or width, size[1] or height
    panels = panels_on(axes, new, count, columns, what)
    figure, free = panels[0].figure.canvas.figure, axes is None and size == (None, None)
    images = [picture.draw(ax, allocation) for ax, (allocation, _) in zip(panels, shown, strict=True)]
    if handles := picture.handles():
        if alone or heading or not columns:
            legend_beside(panels[-1], own=bool(heading and columns), handles=handles)
        else:
            _figure_legend(figure, handles, size)
    _scale(picture, next((image for image in images if image is not None), None), panels)
    if columns:
        labels_outside(panels, columns)
        if heading:
            figure.suptitle(escaped(textwrap.fill(heading, int(new[0] / TITLE))), x=0.01, ha="left", fontsize=9)
    # given axes keep their title
    titles = {} if alone and panels[0].get_title() else dict(zip(panels, shown, strict=True))
    (wide, high), rows = figure.get_size_inches(), math.ceil(count / columns) if columns else 1
    for measured in (False,) if free else (False, True, True):  # the size of axes depends on that of their labels
        if measured:
            lay_out(figure)
        for ax in panels:
            room = size_of(ax) if measured else picture.size
            _fit(picture, ax, room, (math.inf, math.inf) if free else (wide, high / rows))
            if ax in titles:
                _title(ax, titles[ax][1], room)
    if not free:  # numbers stay out of the way of each other in the last layout
        lay_out(figure)
        for ax in panels:
            fit_numbers(ax, picture.room(size_of(ax)))
    fall_back_fonts(figure)
    if columns:
        wanted = (picture.size[0] if size[0] is None else None, picture.size[1] if size[1] is None else None)
        grow(figure, panels[0], wanted, columns, rows)
    return panels


def _columns(picture: Picture, count: int, size: Size) -> int:
    """The number of panels in a row; for a given figure size, the number that makes the panels largest."""
    (width, height), (wide, high) = picture.size, size
    if wide is None and high is None:
        most = min(max(int(WIDEST / (width + AROUND[0])), 1), PER_ROW)
        return math.ceil(count / math.ceil(count / most))

    def fit(columns: int) -> float:
        part = 1.0 if wide is None else wide / columns / (width + AROUND[0])
        return min(part, 1.0 if high is None else high / math.ceil(count / columns) / (height + AROUND[1]))

    return max(dict.fromkeys(math.ceil(count / rows) for rows in range(1, count + 1)), key=fit)


def panels_on(axes: Any, size: Inches, count: int, columns: int, what: str, sharey: bool = True) -> list[Any]:
    """The given axes, or panels of a new figure with the same scales, row by row."""
    if axes is not None:
        matplotlib_or_missing()
        return _given(axes, count, what)
    rows = math.ceil(count / columns)
    grid = new_figure(*size).subplots(rows, columns, sharex=True, sharey=sharey, squeeze=False).ravel()
    for unused in grid[count:]:
        unused.remove()
    return list(grid[:count])


def legend_beside(ax: Any, own: bool, upper: bool = False, **entries: Any) -> None:
    """A legend at the right of a figure of our own, or of given axes."""
    if own:
        ax.figure.legend(loc=f"outside right {'upper' if upper else 'center'}", **LEGEND, **entries)
    else:
        at = {"loc": "upper left" if upper else "center left", "bbox_to_anchor": (1.01, 1.0 if upper else 0.5)}
        ax.legend(**at, **LEGEND, **entries)


def labels_outside(panels: Sequence[Any], columns: int) -> None:
    """Keep only the outer tick labels of a grid, with one label for all x axes and one for all y axes."""
    names = panels[-1].get_xlabel(), panels[0].get_ylabel()
    several = columns > 1, len(panels) > columns
    for write, name, many in zip((panels[0].figure.supxlabel, panels[0].figure.supylabel), names, several, strict=True):
        if many and name:
            write(name, fontsize=9)
    for k, ax in enumerate(panels):
        ax.set_xlabel("" if several[0] or k + columns < len(panels) else names[0], fontsize=9)
        ax.set_ylabel("" if several[1] or k % columns else names[1], fontsize=9)
        ax.tick_params(labelbottom=k + columns >= len(panels), labelleft=k % columns == 0)


def _fit(picture: Picture, ax: Any, room: Inches, figure: Inches) -> None:
    """Shorten and scale names and numbers to fit axes of size ``room`` and a row of the figure."""
    wide, high = (max(int(min(NAMES * side, 40)), 5) for side in figure)
    if picture.below:
        lines = [name.split("\n") for name in picture.below]
        first = shortened([of[0] for of in lines], high)
        below = ([name, *(shorter(line, high) for line in of[1:])] for name, of in zip(first, lines, strict=True))
        names = ["\n".join(of) for of in below]
        ticks_below(ax, names, room[0])
    if picture.beside:
        ticks_beside(ax, shortened(picture.beside, wide), room[1])
    for name, letters in zip((ax.xaxis.label, ax.yaxis.label), (int(side / 0.08) for side in room), strict=True):
        if max(map(len, name.get_text().split("\n"))) > letters:
            name.set_text(textwrap.fill(name.get_text(), max(letters, 12)))
    fit_numbers(ax, picture.room(room))


def grow(figure: Any, ax: Any, wanted: Size, columns: int, rows: int) -> None:
    """Resize a figure so that its panels have the wanted size; None keeps a dimension."""
    if wanted == (None, None):
        return
    for _ in range(2 if len(figure.axes) > columns * rows else 1):  # the width of a colour bar depends on the panels
        lay_out(figure)
        sides = zip(figure.get_size_inches(), size_of(ax), wanted, (columns, rows), strict=True)
        legends = [legend.get_window_extent().height / figure.dpi + 0.1 for legend in figure.legends]
        width, height = (old if w is None else old + n * (w - there) for old, there, w, n in sides)
        figure.set_size_inches(width, height if wanted[1] is None else max(height, *legends, 0.5))


def _title(ax: Any, words: Sequence[str], room: Inches) -> None:
    """Set a title of the first sentence and as many others as fit above axes of this size."""
    points = 9.0 if room[0] >= 1.2 else 7.0
    letters = max(int(room[0] / TITLE * 9.0 / points), 6)
    lines: list[str] = []
    for sentence in words:
        more = textwrap.wrap(shorter(sentence, max(len(sentence), 1)), letters, max_lines=6, placeholder=" …")
        if not lines or len(lines) + len(more) <= max(4 * room[1], 2):
            lines += more
    ax.set_title(escaped("\n".join(lines) or " "), fontsize=points)


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _titled(allocation: Allocation, name: str) -> str:
    """The name of an allocation in titles; an unnamed policy is described by its objective and constraints."""
    policy = allocation.policy
    if not isinstance(policy, Policy) or policy.name is not None or name != label(policy):
        return name
    under = ", ".join(map(str, policy.constraints))
    return f"{policy.objective}" + (f" under {under}" if under else "")


def _tasks(allocation: Allocation) -> str:
    tasks = allocation.tasks.sum()
    return tasks_in_words(f"{tasks:{',.0f' if tasks >= 100 else '.4g'}}")


def _figure_legend(figure: Any, handles: list[Any], size: Size) -> None:
    """Add a legend at the right, or on top of a portrait figure, in a smaller font where a given size requires it."""
    lines = [line for handle in handles for line in handle.get_label().split("\n")]
    width, height = (side or math.inf for side in size)
    longest, points = max(map(len, lines)) + 6, 8.0  # with the space of the symbol
    where: dict[str, Any] = {"loc": "outside right center"}
    if size[1] is not None and height > figure.get_size_inches()[0]:
        columns = max(int(figure.get_size_inches()[0] / (0.6 * longest * points / 72)), 1)
        where = {"loc": "outside upper center", "ncols": columns}
    else:
        points = min(points, 0.4 * width * 72 / (0.6 * longest), height * 72 / (1.5 * len(lines)))
    figure.legend(handles=handles, **where, **LEGEND | {"fontsize": max(points, 5.0)})


def _scale(picture: Picture, image: Any, panels: Sequence[Any]) -> None:
    if image is not None and picture.scale_title:
        beyond = "max" if picture.scale_beyond else "neither"
        colour_bar(image, list(panels), panels[0].figure, picture.scale_title, extend=beyond)
