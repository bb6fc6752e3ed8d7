"""Bars of what each team or user gains by a change, and of what more of each resource brings."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from fairopt.derivatives.sensitivity import Purchase, Sensitivity
from fairopt.errors import InvalidBlock
from fairopt.plots.common import (
    COLOURS,
    amount,
    check_kind,
    cut,
    escaped,
    fall_back_fonts,
    matplotlib_or_missing,
    new_figure,
    plain,
)
from fairopt.policy import label
from fairopt.questions.what_if import GAINS, LOSES, Gains, WhatIf
from fairopt.runtime.display import shortened, shorter, without_vendor

MOST_GAINS, MOST_PURCHASES = 20, 12  # bars shown
WIDTH, LETTERS = 6.8, 92  # inches of a figure of gains, and letters of its title in a line


def gains(found: WhatIf, kind: str = "gains", ax: Any = None) -> Any:
    """Bars of what teams under the innermost label, or users, gain and lose, for the 20 largest differences.

    A bar is the difference in the scarcest resource that the team or user uses, in percent of the capacity after the
    change. The text beside it gives units, or the tasks of a user, before and after. See `WhatIf.plot`.
    """
    check_kind(kind, ("gains",), "what-if")
    matplotlib_or_missing()
    by, each = found.shown
    rows = each.largest_first[:MOST_GAINS]
    percent = 100 * each.of_capacity[rows, each.judged[rows]]
    own = ax is None
    ax = new_figure(WIDTH, 1.4 + 0.3 * max(len(rows), 2)).subplots() if own else ax
    names, texts = [cut(each.names[r], 30) for r in rows], [_text(each, r) for r in rows]
    _bars(ax, percent.tolist(), names, texts, 0.8, "difference in % of the capacity after the change")
    some = f" (the largest differences, {MOST_GAINS} of {len(each.names):,})" if len(each.names) > MOST_GAINS else ""
    words = f"{label(found.before.policy)}, by {by}{some}: {'; '.join(found.changes)}"
    title = escaped(textwrap.fill(shorter(words, 3 * LETTERS), LETTERS))
    if own:
        ax.figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    else:
        ax.set_title(title, fontsize=9, loc="left")
    fall_back_fonts(ax.figure)
    return ax


def _text(each: Gains, r: int) -> str:
    """The difference in units of the resource of the bar, before and after."""
    i = 1 + int(each.judged[r])
    if each.states[r] not in (GAINS, LOSES) and not each.difference[r, i]:
        return f"no change ({amount(each.after[r, i])} {cut(each.resources[i - 1], 16)})"
    apart = each.difference[r, i]
    sign = "+" if apart > 0 else "-" if apart < 0 else ""
    out = f"{sign}{amount(abs(apart))} {cut(each.resources[i - 1], 16)}"
    was, now = each.before[r, i], each.after[r, i]
    return f"{out} ({amount(was)} to {amount(now)})" + f", {each.states[r]}" * (each.states[r] not in (GAINS, LOSES))


def purchases(
    sensitivity: Sensitivity, kind: str = "purchases", ax: Any = None, costs: Mapping[str, float] | None = None
) -> Any:
    """Bars of additional tasks per 1 % more of each resource, or per unit of cost, for the 12 best resources.

    The text beside each bar gives the tasks per unit and the range in units. See `Sensitivity.plot`.
    """
    check_kind(kind, ("purchases",), "sensitivity")
    return bars(sensitivity.purchases(costs), label(sensitivity.allocation.policy), costs is not None, ax)


def bars(purchases: Sequence[Purchase], policy: str, by_cost: bool, ax: Any = None, lead: str | None = None) -> Any:
    """Bars of purchases, the best first, under the name of a policy, by tasks or by a resource that leads."""
    matplotlib_or_missing()
    known = [row for row in purchases if not row.reason]
    rows = known[:MOST_PURCHASES]
    fewer = f" (the best {MOST_PURCHASES} of {len(known):,})" if len(known) > len(rows) else ""
    if not rows:
        raise InvalidBlock("there are no rates to draw: no resource is full, or derivatives are not known")
    ax = new_figure(5.6, 1.1 + 0.34 * len(rows)).subplots() if ax is None else ax
    what = "tasks" if lead is None else without_vendor([lead])[0]
    names, texts = shortened([row.name for row in rows], 30), [_rate(row, what) for row in rows]
    gain = cut(what, 30) + " in use" * (lead is not None)
    title = f"{gain} per {'unit of cost' if by_cost else '1 % more capacity'}{fewer}"
    _bars(ax, [row.rate for row in rows], names, texts, 0.9, title)
    ax.set_title(cut(f"What more of each resource brings: {policy}", 70), fontsize=9)
    fall_back_fonts(ax.figure)
    return ax


def _rate(row: Purchase, what: str) -> str:
    """Tasks, or units in use of what leads, per unit, and the number of units for which the rate holds."""
    gain = row.tasks if row.lead_units is None else row.lead_units
    if gain == 0:
        return f"no {cut(what, 12)} more"
    end = f", up to {amount(row.up_to)}" if math.isfinite(row.up_to) else ""
    return f"{amount(gain)} per {cut(row.unit, 12)}{end}"


def _bars(
    ax: Any, values: Sequence[float], names: Sequence[str], texts: Sequence[str], space: float, title: str
) -> None:
    """Horizontal bars from the top down, with a text beside each; losses have another colour.

    ``space`` for the texts is relative to the length of the axis.
    """
    ax.barh(range(len(values)), values, color=[COLOURS[0] if x >= 0 else COLOURS[5] for x in values], height=0.7)
    low, high = min([0.0, *values]), max([0.0, *values])
    span = (high - low) or 1.0
    for k, (value, text) in enumerate(zip(values, texts, strict=True)):
        ax.text(max(value, 0.0) + 0.02 * span, k, text, va="center", fontsize=7, color="#404040")
    ax.set_xlim(low - 0.05 * span, high + space * span)
    ax.set_yticks(range(len(values)), names, fontsize=8)
    ax.invert_yaxis()
    ax.axvline(0.0, color="#404040", linewidth=0.8)
    ax.set_xlabel(title, fontsize=9)
    plain(ax)
