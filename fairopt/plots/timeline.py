"""Pictures of timelines: shares, utilisation, waiting times, and distance from fair shares."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fairopt.errors import InvalidBlock, optional
from fairopt.online.timeline import Timeline, moments_of
from fairopt.online.units import NAMES, SECONDS, readable
from fairopt.plots.common import (
    COLOURS,
    GREYS,
    check_kind,
    colour,
    cut,
    escaped,
    fall_back_fonts,
    plain,
)
from fairopt.plots.layers import Layer, by_size
from fairopt.plots.panels import legend_beside, panels_on
from fairopt.runtime.arrays import Float, Ints
from fairopt.runtime.display import LONG, shortened, shorter

Span: TypeAlias = tuple[float, float]  # the first and the last moment

TIMELINE_KINDS = {
    "allocation": "what users hold of each resource, stacked",
    "shares": "shares of users, with fair shares as rings",
    "utilisation": "the part of each resource in use",
    "waiting": "tasks by waiting time (cumulative)",
    "distance": "the part of the fair shares that users do not have",
}
WIDTHS, HEIGHT = (5.6, 4.2, 3.4), 2.4  # size of panels in inches; widths by the number of panels in a row
BESIDE, ABOVE = 2.0, 0.4  # inches for a legend and for titles
MOMENTS = 2_000  # most points of a curve; an axes has fewer pixels
NUMBERS = 4_000_000  # largest moments times users of a block, to limit memory
NAME = 40  # letters of a name of a timeline
LINES = 6  # users with a line each
RINGS: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 4, "markerfacecolor": "none"}
STYLES = ("-", "--", ":", "-.")  # distinguish repeated colours
DECADES = 100.0  # ratio of the largest to the median waiting time above which their axis is logarithmic
STEPS = {  # between ticks, by unit
    "s": (1, 2, 5, 10, 20, 30, 60),
    "min": (1, 2, 5, 10, 15, 30, 60),
    "h": (1, 2, 3, 6, 12, 24),
    "d": (1, 2, 7, 14, 28, 56, 91, 182, 364),
}
INTERVALS = 8  # intervals between ticks
LOG_TICKS = [(1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (6 * 3600.0, "6 h")]
LOG_TICKS += [(86400.0, "1 d"), (7 * 86400.0, "1 week"), (28 * 86400.0, "4 weeks")]


def check_timelines(kind: str, between: ArrayLike | None = None) -> None:
    """Raise `InvalidBlock` for an unknown kind of picture or an invalid ``between``; nothing is simulated."""
    check_kind(kind, TIMELINE_KINDS)
    if between is not None:
        ends = moments_of(between, "between")
        if len(ends) != 2 or not ends[0] < ends[1]:
            raise InvalidBlock(f"between is {between!r}; give the first and the last moment, such as (0, 60)")


def draw_timeline(timeline: Timeline, kind: str = "shares", ax: Any = None, between: Any = None) -> Any:
    """A picture of one timeline; see `Timeline.plot`."""
    figure, panels = _drawn({timeline.name: timeline}, kind, ax, between)
    return figure if kind == "allocation" else panels[0]


def draw_timelines(
    timelines: Mapping[str, Timeline],
    kind: str = "shares",
    *,
    ax: Any = None,
    between: tuple[float, float] | None = None,
) -> Any:
    """Draw one or several timelines.

    Parameters
    ----------
    timelines : mapping of str to Timeline
        Runs by name, with the same users for ``"allocation"`` and ``"shares"``, and on the same resources for
        ``"allocation"`` and ``"utilisation"``.
    kind : str, default "shares"
        One of ``TIMELINE_KINDS``; see `Timeline.plot`. For several runs, ``"allocation"`` has a column for each run,
        ``"shares"`` a panel for each run, ``"utilisation"`` a panel for each resource, and ``"waiting"`` and
        ``"distance"`` a line for each run.
    ax : matplotlib.axes.Axes or sequence of Axes, optional
        One for each panel, row by row; by default those of a new figure.
    between : (float, float), optional
        The first and the last moment; for ``"waiting"``, of arrivals. Default: all.

    Returns
    -------
    matplotlib.figure.Figure
        Its ``axes`` are the panels.

    Raises
    ------
    InvalidBlock
        If the kind is unknown, nothing ran, no fair share is known (``"distance"``), axes are too few, the runs have
        different users or resources, or ``between`` is not two moments in order.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job("a", [1, 2], 5, tasks=6), fo.Job("b", [2, 1], 3, tasks=6, arrival=2)]
    >>> schedulers = {order: fo.Scheduler([6, 6], order=order) for order in ("share", "arrival")}
    >>> runs = {name: fo.simulate([6, 6], jobs, scheduler=x, name=name) for name, x in schedulers.items()}
    >>> [ax.get_title(loc="left") for ax in draw_timelines(runs).axes]
    ['share', 'arrival']
    """
    return _drawn(timelines, kind, ax, between)[0]


def _drawn(
    timelines: Mapping[str, Timeline], kind: str, axes: Any, between: tuple[float, float] | None
) -> tuple[Any, list[Any]]:
    """The figure and its panels."""
    check_timelines(kind, between)
    span = _span([*timelines.values()], between)
    _check(timelines, kind, span)
    names = shortened(list(timelines), NAME)
    columns, panels = _plan([*timelines.values()], names, kind, span)
    alone = axes is None
    width = WIDTHS[min(columns, len(WIDTHS)) - 1]
    size = columns * width + BESIDE, math.ceil(len(panels) / columns) * HEIGHT + ABOVE
    same_scale = kind != "shares" or len({_share_name(run) for run in timelines.values()}) == 1
    what = f"{len(panels)} panel{'' if len(panels) == 1 else 's'}"
    axes = panels_on(axes, size, len(panels), columns, what, same_scale)
    letters = int(width / 0.08)
    for k, (ax, (draw, beside)) in enumerate(zip(axes, panels, strict=True)):
        draw(ax)
        if kind != "waiting":
            ax.set_xlim(*span)
        plain(ax)
        unit = next(iter(timelines.values())).time_unit
        label = "waiting time" if kind == "waiting" else "time"
        if unit is not None:
            shown = _in_readable_ticks(ax, unit)
            label += f" ({NAMES[shown]})" if shown else ""
        ax.set_xlabel(label, fontsize=8)
        ax.set_ylabel("\n".join(textwrap.fill(cut(line, LONG), 28) for line in beside.split("\n")), fontsize=8)
        if len(names) > 1 and kind in ("allocation", "shares"):
            if k < columns or kind == "shares":
                ax.set_title(cut(names[k], letters), fontsize=9, loc="left")
        elif alone and k == 0:
            title = TIMELINE_KINDS[kind]
            if kind == "shares" and not len(next(iter(timelines.values())).fair_at):
                title = title.split(",")[0]  # without rings
            title = f"{next(iter(timelines))}: {title}" if len(names) == 1 else title[0].upper() + title[1:]
            ax.set_title(textwrap.fill(cut(title, LONG), letters), fontsize=9, loc="left")
        if alone and same_scale:
            ax.label_outer()
    for ax in axes:  # after all panels are drawn, which may share it
        ax.set_ylim(bottom=0)
    _legend(axes, columns, alone, kind == "allocation", least=1 if kind in ("allocation", "shares") else 2)
    figure = axes[0].figure.canvas.figure
    fall_back_fonts(figure)
    return figure, list(axes)


def _legend(axes: Sequence[Any], columns: int, alone: bool, from_top: bool, least: int) -> None:
    """Add one legend beside the panels if it has ``least`` entries or more; ``from_top`` reverses their order."""
    handles, names = axes[0].get_legend_handles_labels()
    order = slice(None, None, -1 if from_top else 1)
    if len(names) >= least:
        legend_beside(axes[columns - 1], alone, upper=True, handles=handles[order], labels=names[order])


def _span(runs: Sequence[Timeline], between: tuple[float, float] | None) -> Span:
    """The first and the last moment of a picture."""
    if not runs:
        raise InvalidBlock("no timeline is given, so there is nothing to draw")
    if between is None:
        return min(run.span[0] for run in runs), max(run.span[1] for run in runs)
    return float(between[0]), float(between[1])


def _check(timelines: Mapping[str, Timeline], kind: str, span: Span) -> None:
    """Raise `InvalidBlock` for runs with nothing to draw, and for runs that cannot be compared."""
    runs = list(timelines.values())
    for name, run in timelines.items():
        if not ((run.start <= span[1]) & (run.end >= span[0])).any():
            raise InvalidBlock(f"no task of {name!r} runs from {span[0]:g} to {span[1]:g}, so there is nothing to draw")
        if kind == "distance" and not np.isfinite(run.fair_shares).any():
            raise InvalidBlock(
                f"no fair share of {name!r} is known; give fair_at=[...] to simulate, or use "
                "timeline.with_fair_at([...])"
            )
        for what, kinds in (("users", ("allocation", "shares")), ("resources", ("allocation", "utilisation"))):
            if kind in kinds and getattr(run, what) != getattr(runs[0], what):
                raise InvalidBlock(f"the timelines have different {what}; draw them one by one")


def _plan(
    runs: Sequence[Timeline], names: Sequence[str], kind: str, span: Span
) -> tuple[int, list[tuple[Callable[[Any], None], str]]]:
    """The number of columns, and for each panel, row by row, what draws it and the label of its y axis."""
    resources = runs[0].resources
    if kind == "allocation":
        layers = by_size(runs[0].users, _held(runs, span))
        parts = [_percents(run, layers, span) for run in runs]
        return len(runs), [
            (partial(_stack, moments=moments, percents=percents[:, :, i], layers=layers), f"{resource} (%)")
            for i, resource in enumerate(resources)
            for moments, percents in parts
        ]
    if kind == "shares":
        layers = by_size(runs[0].users, _held(runs, span), LINES)
        return math.ceil(len(runs) / math.ceil(len(runs) / 3)), [
            (partial(_shares, run=run, layers=layers, span=span), f"share of a user\n{_share_name(run)}")
            for run in runs
        ]
    if kind == "utilisation" and len(runs) == 1:
        lines = [(resource, runs[0], i) for i, resource in enumerate(resources)]
        return 1, [(partial(_in_use, lines=lines, span=span), "in use (%)")]
    if kind == "utilisation":
        return 1, [
            (
                partial(_in_use, lines=[(name, run, i) for name, run in zip(names, runs, strict=True)], span=span),
                f"{resource} in use (%)",
            )
            for i, resource in enumerate(resources)
        ]
    if kind == "waiting":
        return 1, [(partial(_waits, runs=runs, names=names, span=span), "tasks that waited at most this long (%)")]
    return 1, [(partial(_distances, runs=runs, names=names, span=span), "missing part of fair shares (%)")]


def _share_name(run: Timeline) -> str:
    """The share that a run measures, as text."""
    return shorter(str(run.share), LONG)


def _line_style(k: int) -> dict[str, Any]:
    """Colour and dashes of the k-th line."""
    return {"color": colour(k), "linestyle": STYLES[k // len(COLOURS) % len(STYLES)], "linewidth": 1.2}


# -- panels -----------------------------------------------------------------------------------------------------------


def _stack(ax: Any, moments: Float, percents: Float, layers: Sequence[Layer]) -> None:
    """Draw the percentages of one resource, stacked by layer."""
    bottom = np.zeros(len(moments))
    for k, layer in enumerate(layers):
        top = bottom + percents[:, k]
        ax.fill_between(moments, bottom, top, step="post", linewidth=0, **layer.style)
        bottom = top
    ax.set_ylim(0, 105)


def _shares(ax: Any, run: Timeline, layers: Sequence[Layer], span: Span) -> None:
    """Draw a line and the fair shares for each layer."""
    moments = _moments(run, span)
    values = _in_layers(run.shares, moments, layers, len(run.users))
    for k, layer in enumerate(layers):
        many = len(layer.users)
        name = f"{layer.label}, mean" if many > 1 else layer.label
        ax.plot(moments, values[:, k] / many, drawstyle="steps-post", color=layer.colour, linewidth=1.2, label=name)
        fair = run.fair_shares[:, layer.users].mean(axis=1)
        ax.plot(run.fair_at, np.where(fair > 0, fair, np.nan), color=layer.colour, gid="fair", **RINGS)
    if len(run.fair_at):
        ax.plot([], [], color=GREYS[0], label="fair share", **RINGS)


def _in_use(ax: Any, lines: Sequence[tuple[str, Timeline, int]], span: Span) -> None:
    """Draw a named line for each pair of run and resource."""
    for k, (name, run, i) in enumerate(lines):
        moments = _moments(run, span)
        used = 100 * run.utilisation(moments)[:, i]
        ax.plot(moments, used, drawstyle="steps-post", **_line_style(k), label=escaped(name))
    ax.set_ylim(0, 105)


def _waits(ax: Any, runs: Sequence[Timeline], names: Sequence[str], span: Span) -> None:
    """Draw the distribution functions of waiting times by run, or of a single run by user.

    Tasks that did not start count as waiting for ever.
    """
    groups = [(escaped(name), run, np.arange(len(run.users))) for name, run in zip(names, runs, strict=True)]
    styles = [*map(_line_style, range(len(runs)))]
    if len(runs) == 1 and len(runs[0].users) > 1:
        layers = by_size(runs[0].users, np.bincount(runs[0].table.user, runs[0].table.tasks).astype(np.float64), LINES)
        groups = [("all users", *groups[0][1:]), *((layer.label, runs[0], layer.users) for layer in layers)]
        styles = [{"color": c, "zorder": z} for c, z in [("black", 3), *((x.colour, 2) for x in layers)]]
    waiting = [_waiting_times(run, users, span) for _, run, users in groups]
    every = np.concatenate([waits for waits, _ in waiting])
    some = every[every > 0]
    log = len(some) > 0 and some.max() > DECADES * min(np.median(every), np.median(some))
    left = np.quantile(some, 0.01) if log else 0.0
    right = 1.05 * every.max(initial=left) or 1.0
    for k, ((name, *_), (waits, total)) in enumerate(zip(groups, waiting, strict=True)):
        at = np.unique(np.linspace(0, len(waits), min(len(waits) + 1, MOMENTS)).astype(int))[1:]
        x = np.concatenate([[left], np.maximum(waits[at - 1], left), [right]])
        y = 100 * np.concatenate([[(waits <= left).sum()], at, at[-1:] if len(at) else [0]]) / max(total, 1)
        ax.plot(x, np.maximum.accumulate(y), drawstyle="steps-post", label=name, **{"linewidth": 1.2, **styles[k]})
    if log:
        ax.set_xscale("log")
    ax.set_xlim(left, right)
    ax.set_ylim(0, 105)


def _distances(ax: Any, runs: Sequence[Timeline], names: Sequence[str], span: Span) -> None:
    """Draw a line for each run through the moments with known fair shares."""
    for k, (run, name) in enumerate(zip(runs, names, strict=True)):
        order = np.argsort(run.fair_at, kind="stable")
        order = order[(run.fair_at[order] >= span[0]) & (run.fair_at[order] <= span[1])]
        look = {**_line_style(k), "marker": "o", "markersize": 3, "clip_on": False}
        ax.plot(run.fair_at[order], 100 * run.distance()[order], **look, label=escaped(name))
    ax.set_ylim(top=max(ax.get_ylim()[1], 1.0))  # keeps rounding invisible


# -- numbers ----------------------------------------------------------------------------------------------------------


def _moments(run: Timeline, span: Span) -> Float:
    """All moments at which tasks start or end, or ``MOMENTS`` evenly spaced ones."""
    first, last = max(run.span[0], span[0]), min(run.span[1], run.until, span[1])
    moments = np.unique(np.concatenate([[first], run.start, run.end, [last]]))
    moments = moments[(first <= moments) & (moments <= last)]
    return moments if len(moments) <= MOMENTS else np.linspace(first, last, MOMENTS)


def _in_layers(of: Callable[[Float], Float], moments: Float, layers: Sequence[Layer], width: int) -> Float:
    """Sums of a function of time and user by layer, of shape (n_moments, n_layers, ...)."""
    step = max(1, NUMBERS // width)
    blocks = (of(moments[k : k + step]) for k in range(0, len(moments), step))
    return np.concatenate([np.stack([b[:, x.users].sum(axis=1) for x in layers], axis=1) for b in blocks])


def _percents(run: Timeline, layers: Sequence[Layer], span: Span) -> tuple[Float, Float]:
    """Moments, and percentages of resources held by layers, of shape (n_moments, n_layers, n_resources)."""
    moments, total = _moments(run, span), run.cluster.total_capacities
    units = _in_layers(run.held, moments, layers, len(run.users) * len(total))
    return moments, 100 * units / np.where(total > 0, total, 1.0)


def _held(runs: Sequence[Timeline], span: Span) -> Float:
    """The largest integral over time of each user's share in any of the runs, shape (n_users,)."""
    held = []
    for run in runs:
        kind = run.table.kind[run.task_job]
        length = np.clip(run.end, *span) - np.clip(run.start, *span)
        held.append(np.bincount(run.table.user_of_kind[kind], run.share_per_task[kind] * length, len(run.users)))
    return np.asarray(np.max(held, axis=0))


def _waiting_times(run: Timeline, users: Ints, span: Span) -> tuple[Float, float]:
    """Sorted waiting times of started tasks that arrived within a span, and the number of all that arrived."""
    table = run.table
    chosen = np.isin(table.user, users) & (table.arrival >= span[0]) & (table.arrival <= min(span[1], run.until))
    waits = np.sort(run.waiting[chosen[run.task_job]])
    return waits, len(waits) + float(run.unstarted[chosen].sum())


def _in_readable_ticks(ax: Any, unit: str) -> str:
    """Set round ticks of an x axis in ``unit``; the unit of their numbers, ``""`` if each tick names its own."""
    ticker = optional("matplotlib.ticker", "plots", "a picture")
    low, high = ax.get_xlim()
    if ax.get_xscale() == "log":
        inside = [(at / SECONDS[unit], text) for at, text in LOG_TICKS if low <= at / SECONDS[unit] <= high]
        if len(inside) < 2:
            factor, shown = 1.0, unit
        else:
            ax.xaxis.set_major_locator(ticker.FixedLocator([at for at, _ in inside]))
            ax.xaxis.set_major_formatter(ticker.FixedFormatter([text for _, text in inside]))
            ax.xaxis.set_minor_locator(ticker.NullLocator())
            return ""
    else:
        factor, shown = readable(unit, high - low)
    fits = [step for step in STEPS[shown] if (high - low) / factor <= step * INTERVALS]
    if fits and high - low > factor and ax.get_xscale() != "log":
        ax.xaxis.set_major_locator(ticker.MultipleLocator(fits[0] * factor))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda at, _: f"{at / factor:.6g}"))
    return shown
