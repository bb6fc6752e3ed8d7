"""What each team or user gains and loses by a change, as bars."""

from __future__ import annotations

import textwrap
from typing import Any

from fairopt.operate.what_if import GAINS, LOSES, Gains, WhatIf
from fairopt.plots.common import (
    amount,
    check_kind,
    cut,
    escaped,
    fall_back_fonts,
    matplotlib_or_missing,
    new_figure,
    signed_bars,
)
from fairopt.policy import label
from fairopt.runtime.display import shorter

MAX_BARS = 20  # bars shown
KINDS = ("gains",)
WIDTH, LETTERS = 6.8, 92  # inches of a figure, and letters of its title in a line


def gains(found: WhatIf, kind: str = "gains", ax: Any = None) -> Any:
    """Bars of what teams under the innermost label, or users, gain and lose, for the 20 largest differences.

    A bar is the difference in the scarcest resource that the team or user uses, in percent of the capacity after the
    change. The text beside it gives units, or the tasks of a user, before and after. See `WhatIf.plot`.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8], [8, 5]], [200, 200], users=["batch", "web"], resources=["cpu", "memory"])
    >>> ax = fo.what_if("drf", cluster, weights={"web": 2}).plot()
    >>> [text.get_text() for text in ax.texts]
    ['-33.3 cpu (100 to 66.7)', '+33.3 cpu (100 to 133)']
    """
    check_kind(kind, KINDS, "what-if")
    matplotlib_or_missing()
    by, each = found.shown
    rows = each.largest_first[:MAX_BARS]
    percent = 100 * each.of_capacity[rows, each.judged[rows]]
    own = ax is None
    if own:
        ax = new_figure(WIDTH, 1.4 + 0.3 * max(len(rows), 2)).subplots()
    names, texts = [cut(each.names[r], 30) for r in rows], [_text(each, r) for r in rows]
    signed_bars(ax, percent.tolist(), names, texts, 0.8)
    ax.set_xlabel("difference in % of the capacity after the change", fontsize=9)
    some = f" (the largest differences, {MAX_BARS} of {len(each.names):,})" if len(each.names) > MAX_BARS else ""
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
