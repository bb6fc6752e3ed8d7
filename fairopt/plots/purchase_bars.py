"""Additional tasks for more of each resource, as bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fairopt.derivatives.sensitivity import Purchase, Sensitivity
from fairopt.errors import InvalidBlock
from fairopt.plots.common import (
    amount,
    check_kind,
    cut,
    fall_back_fonts,
    matplotlib_or_missing,
    new_figure,
    signed_bars,
)
from fairopt.policy import label
from fairopt.runtime.display import shortened, without_vendor

MAX_BARS = 12  # bars shown
KINDS = ("purchases",)


def purchases(
    sensitivity: Sensitivity, kind: str = "purchases", ax: Any = None, costs: Mapping[str, float] | None = None
) -> Any:
    """Bars of additional tasks per 1 % more of each resource, or per unit of cost, for the 12 best resources.

    The text beside each bar gives the tasks per unit and the range in units. See `Sensitivity.plot`.

    Examples
    --------
    >>> import fairopt as fo
    >>> s = fo.sensitivity(fo.MostTasks().allocate(fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "ram"])))
    >>> [name.get_text() for name in purchases(s).get_yticklabels()]
    ['ram', 'cpu']
    """
    check_kind(kind, KINDS, "sensitivity")
    return bars(sensitivity.purchases(costs), label(sensitivity.allocation.policy), costs is not None, ax)


def bars(purchases: Sequence[Purchase], policy: str, by_cost: bool, ax: Any = None, lead: str | None = None) -> Any:
    """Bars of purchases, the best first, under the name of a policy, by tasks or by a resource that leads."""
    matplotlib_or_missing()
    known = [row for row in purchases if not row.reason]
    rows, fewer = known[:MAX_BARS], f" (the best {MAX_BARS} of {len(known):,})" if len(known) > MAX_BARS else ""
    if not rows:
        raise InvalidBlock("there are no rates to draw: no resource is full, or derivatives are not known")
    if ax is None:
        ax = new_figure(5.6, 1.1 + 0.34 * len(rows)).subplots()
    what = "tasks" if lead is None else without_vendor([lead])[0]
    names, texts = shortened([row.name for row in rows], 30), [_rate(row, what) for row in rows]
    signed_bars(ax, [row.rate for row in rows], names, texts, 0.9)
    gain = cut(what, 30) + " in use" * (lead is not None)
    ax.set_xlabel(f"{gain} per {'unit of cost' if by_cost else '1 % more capacity'}{fewer}", fontsize=9)
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
