"""Pictures on one axes or on a panel for each policy: same scales, same colours, one legend."""

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
from fairopt.plots.common import (
    Inches,
    escaped,
    fit_numbers,
    inches,
    lay_out,
    lettering,
    matplotlib_or_missing,
    measured,
    new_figure,
    shorter,
    ticks_below,
    ticks_beside,
)
from fairopt.policy import Policy, label

__all__ = [
    "LEGEND",
    "Picture",
    "Size",
    "Two",
    "given",
    "grow",
    "labels_at_the_edge",
    "labels_of",
    "many",
    "one",
    "two_of",
]

Size: TypeAlias = tuple[float | None, float | None]  # inches of a figure, None for what its panels need
Two: TypeAlias = "Sequence[str] | None"  # names of the two users or resources at the axes

PER_ROW = 4  # panels beside each other
WIDEST = 14.5  # inches of panels beside each other, so that they fit a screen with a legend
AROUND = (0.3, 0.9)  # least width and height of the labels of a panel
SENTENCE = "sentence"  # gid of texts that are wrapped to the width of the axes
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 8}
LEAST = 0.3  # inches of axes below which a sentence cannot be read
MOST_LINES = 4  # of a sentence of a title that is not shortened
NAMES = 0.3, 0.4  # largest part of a figure's width and of a panel's height that names take


class Picture(ABC):
    """A kind of picture, with the sizes, colours and scales that its panels share."""

    instance: Instance
    size: Inches  # between the axes of one panel
    what: str  # the picture shows, for its title
    below: Sequence[str] = ()  # names at the axis below
    beside: Sequence[str] = ()  # names at the axis beside
    together: bool = False  # one panel shows all allocations
    scale_title: str = ""  # of the colour bar, where colours stand for numbers
    scale_beyond: bool = False  # some numbers are larger than its end

    @abstractmethod
    def draw(self, ax: Any, allocation: Allocation | None) -> Any:
        """Draw on the axes; return the image that a colour bar explains, if any."""

    def room(self, size: Inches) -> Inches:
        """Room for a number in a cell or above a bar of axes of this size."""
        return size

    def labels(self) -> list[str]:
        """All names that the picture may show."""
        return labels_of(self.instance)

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
    return _drawn(picture, [(allocation, title)], [name], None if ax is None else [ax], alone=True)[0]


def many(picture: Picture, found: Mapping[str, Allocation], axes: Any = None, size: Size | None = None) -> list[Any]:
    """Draw each allocation on its own panel, or all on one if the picture is ``together``.

    The legend goes beside the last of given axes. ``size`` is in inches, None for the preferred size.
    """
    shown: list[tuple[Allocation | None, list[str]]] = [(None, [_sentence(picture.what)])]
    if not picture.together:
        shown = [(a, [_titled(a, name), _tasks(a), picture.finding(a)]) for name, a in found.items()]
    return _drawn(picture, shown, list(found), axes, size or (None, None))


def given(axes: Any, count: int, panels: str) -> list[Any]:
    """The first ``count`` of some axes, or an error that says for which panels they are too few."""
    out = list(np.asarray(axes, dtype=object).ravel())
    if len(out) < count:
        raise InvalidBlock(f"{len(out)} axes for {panels}; give one each")
    for ax in out[:count]:
        measured(ax)
    return out[:count]


def labels_of(instance: Instance) -> list[str]:
    """All names in an instance."""
    return [
        *instance.users,
        *instance.resources,
        *instance.servers,
        *(instance.server_types or ()),
        *(unit or "" for unit in instance.units or ()),
    ]


def two_of(
    names: Sequence[str], asked: Sequence[str] | None, what: str, how: Callable[[str, str], str] | None = None
) -> tuple[int, int]:
    """Positions of the two of some users or resources (``what``) that were asked for, or of the only two.

    ``how`` writes how two names are chosen, as an error says it; by default as ``users=('a', 'b')``.

    Examples
    --------
    >>> two_of(["cpu", "memory", "gpu"], ["gpu", "cpu"], "resources")
    (2, 0)
    """
    if len(names) < 2:
        raise InvalidBlock(f"this picture has two {what} at its axes, and the instance has {len(names)}")
    example = f"{what}=({names[0]!r}, {names[1]!r})" if how is None else how(names[0], names[1])
    if asked is None:
        if len(names) > 2:
            some = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            raise InvalidBlock(
                f"this picture has two {what} at its axes; choose two of the {len(names):,}, as {example}, from {some}"
            )
        return 0, 1
    if isinstance(asked, str) or len(asked) != 2 or asked[0] == asked[1]:
        raise InvalidBlock(f"{what}={asked!r}; give two different names, as {example}")
    for name in asked:
        if name not in names:
            raise InvalidBlock(f"there is no {name!r} among the {what}; {nearest(name, names)}")
    return names.index(asked[0]), names.index(asked[1])


# -- pieces ---------------------------------------------------------------------------------------------------


def _drawn(
    picture: Picture,
    shown: Sequence[tuple[Allocation | None, list[str]]],
    names: Sequence[str],
    axes: Any,
    size: Size = (None, None),
    alone: bool = False,
) -> list[Any]:
    """Draw allocations below their titles, on the given axes or on panels of a new figure."""
    count, columns, panels = len(shown), 0, []
    if axes is None:  # the figure first: the inline backend of notebooks sets rcParams with the first one
        columns = _columns(picture, count, size)
        figure = _new_figure(picture, count, columns, size)
    else:
        matplotlib_or_missing()
        panels = given(axes, count, f"{count} policies with an answer")
    with lettering([*picture.labels(), *names], panels):
        handles = picture.handles()
        if columns:
            panels = _new_panels(figure, count, columns)
        images = [picture.draw(ax, allocation) for ax, (allocation, _) in zip(panels, shown, strict=True)]
        if handles and columns and not alone:
            _figure_legend(panels[0].figure, handles, size)
        elif handles:
            panels[-1].legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), **LEGEND)
        _scale(picture, next((image for image in images if image is not None), None), panels)
        if columns:
            labels_at_the_edge(panels, columns)
        kept = alone and panels[0].get_title()  # a title of given axes
        titles = {} if kept else {ax: title for ax, (_, title) in zip(panels, shown, strict=True)}
        _finish(picture, titles, panels, size if columns else None, columns)
    return panels


def _columns(picture: Picture, count: int, size: Size) -> int:
    """Number of panels in a row, for a given figure size the one that leaves them the most room."""
    (width, height), (wide, high) = picture.size, size
    if wide is None and high is None:
        most = min(max(int(WIDEST / (width + AROUND[0])), 1), PER_ROW)
        return math.ceil(count / math.ceil(count / most))

    def fit(columns: int) -> float:
        part = 1.0 if wide is None else wide / columns / (width + AROUND[0])
        return min(part, 1.0 if high is None else high / math.ceil(count / columns) / (height + AROUND[1]))

    return max(dict.fromkeys(math.ceil(count / rows) for rows in range(1, count + 1)), key=fit)


def _new_figure(picture: Picture, count: int, columns: int, size: Size) -> Any:
    """A figure that is large enough for the layout of its panels."""
    width, height = columns * (picture.size[0] + 1) + 3, math.ceil(count / columns) * (picture.size[1] + 2)
    return new_figure(size[0] or width, size[1] or height)


def _new_panels(figure: Any, count: int, columns: int) -> list[Any]:
    grid = figure.subplots(math.ceil(count / columns), columns, sharex=True, sharey=True, squeeze=False).ravel()
    for unused in grid[count:]:
        unused.set_axis_off()
    return list(grid[:count])


def _finish(
    picture: Picture, titles: Mapping[Any, list[str]], panels: Sequence[Any], size: Size | None, columns: int
) -> None:
    """Fit all labels to the panels; a new figure (``size`` is not None) gets the size that its panels need."""
    figure = panels[0].figure.canvas.figure  # also for axes of a subfigure
    free = size == (None, None)
    for _ in range(1 if free else 2):  # the size of axes depends on that of labels, and the reverse
        if not free:
            lay_out(figure)
        for ax in panels:
            room = picture.size if free else measured(ax)
            under = None if free else ax.xaxis.get_tightbbox()
            whole = room[1] + (under.height / figure.dpi if under else 0.0)
            most = (math.inf, math.inf) if free else (NAMES[0] * figure.get_size_inches()[0], NAMES[1] * whole)
            if picture.below:
                ticks_below(ax, picture.below, room[0], most[1])
            if picture.beside:
                ticks_beside(ax, picture.beside, room[1], most[0])
            _numeric_ticks(ax, picture, room)
            fit_numbers(ax, picture.room(room))
            for text in ax.texts:
                if text.get_gid() == SENTENCE:
                    _wrap(text, room)
            if ax in titles:
                _title(ax, titles[ax], room[0] + AROUND[0] / 3)
        _axis_labels(panels, room, columns)
    if size is not None:
        wanted = (picture.size[0] if size[0] is None else None, picture.size[1] if size[1] is None else None)
        grow(figure, panels[0], wanted, max(columns, 1), math.ceil(len(panels) / max(columns, 1)))


def grow(figure: Any, ax: Any, wanted: Size, columns: int, rows: int) -> None:
    """Resize a figure so that its panels have the wanted size; None keeps a side."""
    if wanted == (None, None):
        return
    for _ in range(2 if len(figure.axes) > columns * rows else 1):  # the width of a colour bar depends on the panels
        lay_out(figure)
        sides = zip(figure.get_size_inches(), measured(ax), wanted, (columns, rows), strict=True)
        legends = [legend.get_window_extent().height / figure.dpi + 0.1 for legend in figure.legends]
        width, height = (old if w is None else old + n * (w - there) for old, there, w, n in sides)
        figure.set_size_inches(width, height if wanted[1] is None else max(height, *legends, 0.5))


def _numeric_ticks(ax: Any, picture: Picture, room: Inches) -> None:
    """Limit the number of ticks to the room, except on axes with names."""
    from matplotlib.ticker import MaxNLocator

    for axis, names, there in zip((ax.xaxis, ax.yaxis), (picture.below, picture.beside), room, strict=True):
        if not names and isinstance(axis.get_major_locator(), MaxNLocator):
            axis.get_major_locator().set_params(nbins=min(max(int(there / 0.45), 1), 5), integer=bool(ax.images))


def _wrap(text: Any, room: Inches) -> None:
    words = " ".join(text.get_text().split())
    text.set_text(textwrap.fill(words, max(int(0.95 * room[0] / inches("n", 7.0)), 6), break_long_words=False))
    text.set(fontsize=7, visible=min(room) >= LEAST)


def _title(ax: Any, words: Sequence[str], room: float) -> None:
    """Set a title of some sentences, wrapped to this many inches."""
    letters, lines = max(int(room / inches("n", 9.0)), 8), []
    for x in (shorter(x, max(len(x), 1)) for x in words):
        whole = textwrap.wrap(x, letters, break_long_words=False)
        if inches(x, 9.0) <= room:
            whole = [x] * bool(x)
        elif len(whole) > MOST_LINES or max(map(len, whole), default=0) > letters:
            whole = textwrap.wrap(shorter(x, 2 * letters), letters)[:3]
        lines += whole
    lines = lines or [" "]
    points = 9.0 * room / max(inches("\n".join(lines), 9.0), 1e-9)
    ax.set_title(escaped("\n".join(lines)), fontsize=min(max(points, 5.0), 9.0))


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _titled(allocation: Allocation, name: str) -> str:
    """The name of an allocation in titles: of an unnamed policy, its objective and constraints."""
    policy = allocation.policy
    if not isinstance(policy, Policy) or policy.name is not None or name != label(policy):
        return name
    under = ", ".join(map(str, policy.constraints))
    return f"{policy.objective}" + (f" under {under}" if under else "")


def _tasks(allocation: Allocation) -> str:
    tasks = allocation.tasks.sum()
    return f"{tasks:{',.0f' if tasks >= 100 else '.4g'}} tasks"


def labels_at_the_edge(panels: Sequence[Any], columns: int) -> None:
    """Keep axis labels at the left and at the bottom of a grid, whose last row may be shorter."""
    for k, ax in enumerate(panels):
        if k % columns:
            ax.set_ylabel("")
        if k + columns < len(panels):
            ax.set_xlabel("")
        else:
            ax.tick_params(labelbottom=True)


def _axis_labels(panels: Sequence[Any], room: Inches, columns: int) -> None:
    """Shrink axis labels to the panels, or write one for all panels where they would overlap."""
    figure, several = panels[0].figure, (columns > 1, len(panels) > columns > 0)
    names = panels[-1].get_xlabel(), panels[0].get_ylabel()
    together = figure.supxlabel, figure.supylabel
    for k, (name, there, write) in enumerate(zip(names, room, together, strict=True)):
        points = min(9.0, 9.0 * (there + 0.1) / max(inches(name.replace(r"\$", "$"), 9.0), 1e-9))
        if several[k] and points < 9:
            write(name, fontsize=9)
        for ax in panels:
            label = (ax.xaxis, ax.yaxis)[k].label
            label.set_size(max(points, 6.0))
            if several[k] and points < 9:
                label.set_text("")


def _figure_legend(figure: Any, handles: list[Any], size: Size) -> None:
    """A legend at the right, or on top of a portrait figure; smaller where a given size requires it."""
    width, height = figure.get_size_inches()
    where: dict[str, Any] = {"handles": handles, "loc": "outside right center"}
    legend = figure.legend(**where, **LEGEND)
    if size == (None, None):
        return
    box = legend.get_window_extent()
    wide, high = box.width / figure.dpi, box.height / figure.dpi
    legend.remove()
    if height > width:
        where |= {"loc": "outside upper center", "ncols": max(int(width / wide), 1)}
        high = high / where["ncols"] * 3  # a third of the picture
        wide = 0.0
    part = min(1.0, 0.95 * height / high, 0.4 * width / max(wide, 1e-9))
    figure.legend(**where, **LEGEND | {"fontsize": max(8 * part, 5.0)})


def _scale(picture: Picture, image: Any, panels: Sequence[Any]) -> None:
    if image is not None and picture.scale_title:
        beyond = "max" if picture.scale_beyond else "neither"
        bar = panels[0].figure.colorbar(image, ax=list(panels), aspect=30, extend=beyond)
        bar.set_label(picture.scale_title, fontsize=8)
        bar.ax.tick_params(labelsize=8, length=2)
        bar.outline.set_visible(False)
