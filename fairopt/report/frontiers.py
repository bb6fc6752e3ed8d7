"""Frontiers as tables for a terminal and for notebooks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from fairopt.report.tables import MAX_ROWS, Column, Table, numbers, percents
from fairopt.runtime.display import LONG, shorter
from fairopt.tradeoff.frontier import Frontier


def frontier_table(frontier: Frontier) -> Table:
    """Parameters and measures of the points in `_shown`; "*" marks points on the frontier."""
    shown = _shown(frontier)
    best = set(frontier.pareto().tolist())
    column = {name: values[shown] for name, values in frontier.columns.items()}
    first = Column(", ".join(frontier.grid), [_point(frontier, k) for k in shown])
    words = percents(column["fairness"] / 100)
    fairness = [word + " *" * (k in best) for k, word in zip(shown, words, strict=True)]
    groups = [
        [Column("fairness", fairness), Column("efficiency", percents(column["efficiency"] / 100))],
        [Column("tasks", numbers(column["tasks"])), Column("Jain", numbers(column["jain"]))],
        [Column("f_beta", numbers(column["f_beta"]))],
        [Column("price", percents(column["price_of_fairness"])), Column("at most", percents(column["price_bound"]))],
    ]
    fewer = "" if len(shown) == len(frontier) else f" ({len(shown)} of {len(frontier):,} points)"
    filled = [[c for c in group if {*c.cells} != {"-"}] for group in groups]
    return Table(f"{shorter(frontier.family, LONG)} on {frontier.instance!r}{fewer}", first, filled)


def _shown(frontier: Frontier) -> list[int]:
    """At most `MAX_ROWS` points: the frontier, then other answers, then errors, each sampled evenly."""
    best = np.isin(np.arange(len(frontier)), frontier.pareto())
    answered = frontier["method"] != None  # noqa: E711
    shown: list[int] = []
    for kind in (best, answered & ~best, frontier.asked & ~answered):
        places = np.flatnonzero(kind)
        room = min(MAX_ROWS - len(shown), len(places))
        shown += places[np.linspace(0, len(places) - 1, room).round().astype(int)].tolist()
    return sorted(shown)


def remarks(frontier: Frontier) -> Iterator[str]:
    """Lines below the table: the columns, notes, and each kind of error with its first point."""
    best, left = len(frontier.pareto()), int(frontier.asked.sum()) - len(_shown(frontier))
    if left:
        stars = f", {best - MAX_ROWS:,} of them on the frontier" if best > MAX_ROWS else ""
        yield f"left out: {left:,} points{stars}; --out, --json, to_dict() and to_frame() contain all"
    yield (
        "fairness: smallest dominant share per weight of users who want more, relative to DRF; efficiency: tasks, "
        "relative to the maximum; *: no other point is better in both; price: price of fairness in the policy's own "
        "shares; at most: its bound."
    )
    counts = Counter(filter(None, frontier["method"]))
    yield f"solved by: {', '.join(f'{name} ({count:,})' for name, count in counts.most_common()) or 'no method'}"
    yield from frontier.notes
    if len(dominated := np.flatnonzero(frontier["dominated"])):
        first = int(dominated[0])
        where, user = _point(frontier, first, named=True), frontier["dominated"][first].partition(": ")[2]
        yield f"Pareto-dominated (column dominated): {len(dominated):,} points; the first, {where}: {user}"
    alike: dict[str, list[int]] = {}
    for k, error in enumerate(frontier["error"]):
        if error is not None:
            alike.setdefault(re.sub(r"-?\d[\d.e+-]*", "#", error.partition(";")[0]), []).append(k)
    for first, *others in alike.values():
        more = f" (and {len(others)} more alike)" if others else ""
        yield f"{_point(frontier, first, named=True)}: {frontier['error'][first]}{more}"
    if frontier.interrupted or frontier.late:
        why = " by the time limit" if frontier.late else ""
        yield f"stopped{why} after {int(frontier.asked.sum()):,} of {len(frontier):,} points"


def _point(frontier: Frontier, place: int, named: bool = False) -> str:
    """The parameters of a point."""
    return ", ".join(f"{k} = " * named + _word(frontier[k][place].item()) for k in frontier.grid)


def _word(value: bool | float | str) -> str:
    """A parameter value as text; rounding errors around 0 are removed."""
    return str(value) if isinstance(value, (bool, str)) else f"{round(value, 12) + 0.0:.4g}"
