"""Frontiers as tables for a terminal and for notebooks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from fairopt.report import markup
from fairopt.report.tables import MOST, Column, Table, numbers, percents
from fairopt.tradeoff.frontier import Frontier

__all__ = ["frontier_page", "frontier_table", "remarks"]


def frontier_table(frontier: Frontier) -> Table:
    """Parameters and measures by point, of many points some at equal steps; "*" marks points that none dominates."""
    asked = np.flatnonzero(frontier.asked)
    shown = asked[np.linspace(0, len(asked) - 1, min(len(asked), MOST)).round().astype(int)]
    best = set(frontier.pareto().tolist())
    first, *others = (Column(name, list(map(_word, frontier[name][shown].tolist()))) for name in frontier.grid)
    column = {name: values[shown] for name, values in frontier.columns.items()}
    words = percents(column["fairness"] / 100)
    fairness = [word + " *" * (k in best) for k, word in zip(shown.tolist(), words, strict=True)]
    groups = [
        others,
        [Column("fairness", fairness), Column("efficiency", percents(column["efficiency"] / 100))],
        [Column("tasks", numbers(column["tasks"])), Column("Jain", numbers(column["jain"]))],
        [Column("f_beta", numbers(column["f_beta"]))],
        [Column("price", percents(column["price_of_fairness"])), Column("at most", percents(column["price_bound"]))],
    ]
    fewer = "" if len(shown) == len(frontier) else f" ({len(shown)} of {len(frontier):,} points)"
    return Table(f"{frontier.family} on {frontier.instance!r}{fewer}", first, groups)


def remarks(frontier: Frontier) -> Iterator[str]:
    """Lines below the table: what the columns are, notes, and errors with the first point that has each."""
    yield (
        "fairness: smallest dominant share per weight, of that under DRF (* no other point is better in both); "
        "efficiency: tasks, of the most possible; price: of fairness, in the policy's own shares, and what it can be "
        "at most."
    )
    counts = Counter(filter(None, frontier["method"]))
    yield f"solved by: {', '.join(f'{name} ({count:,})' for name, count in counts.most_common()) or 'no method'}"
    yield from frontier.notes
    alike: dict[str, list[int]] = {}
    for k, error in enumerate(frontier["error"]):
        if error is not None:
            alike.setdefault(re.sub(r"-?\d[\d.e+-]*", "#", error.partition(";")[0]), []).append(k)
    for first, *others in alike.values():
        at = ", ".join(f"{name} = {_word(frontier[name][first].item())}" for name in frontier.grid)
        yield f"{at}: {frontier['error'][first]}" + (f" (and {len(others)} more alike)" if others else "")
    if frontier.interrupted:
        yield f"stopped after {int(frontier.asked.sum()):,} of {len(frontier):,} points"


def frontier_page(frontier: Frontier) -> str:
    """A frontier as HTML."""
    table = frontier_table(frontier)
    lines = "".join(f"<p>{markup.html_text(line)}</p>" for line in remarks(frontier))
    return f"<p><b>{markup.html_text(table.title)}</b></p>{markup.html_table(table.columns)}{lines}"


def _word(value: bool | float | str) -> str:
    """A parameter in a table."""
    return str(value) if isinstance(value, (bool, str)) else f"{value:.4g}"
