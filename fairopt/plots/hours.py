"""Axes of time in minutes, hours or days."""

from __future__ import annotations

from typing import Any

from fairopt.errors import optional
from fairopt.online.units import SECONDS, readable

_STEPS = {  # between ticks, by unit
    "s": (1, 2, 5, 10, 20, 30, 60),
    "min": (1, 2, 5, 10, 15, 30, 60),
    "h": (1, 2, 3, 6, 12, 24),
    "d": (1, 2, 7, 14, 28, 56, 91, 182, 364),
}
_MOST = 8  # intervals between ticks
_LOG = [(1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (6 * 3600.0, "6 h")]
_LOG += [(86400.0, "1 d"), (7 * 86400.0, "1 week"), (28 * 86400.0, "4 weeks")]


def in_readable_ticks(ax: Any, unit: str) -> str:
    """Set round ticks of an x axis in ``unit``; the unit of their numbers, ``""`` if each tick names its own."""
    ticker = optional("matplotlib.ticker", "plots", "a picture")
    low, high = ax.get_xlim()
    if ax.get_xscale() == "log":
        inside = [(at / SECONDS[unit], text) for at, text in _LOG if low <= at / SECONDS[unit] <= high]
        if len(inside) < 2:
            factor, shown = 1.0, unit
        else:
            ax.xaxis.set_major_locator(ticker.FixedLocator([at for at, _ in inside]))
            ax.xaxis.set_major_formatter(ticker.FixedFormatter([text for _, text in inside]))
            ax.xaxis.set_minor_locator(ticker.NullLocator())
            return ""
    else:
        factor, shown = readable(unit, high - low)
    fits = [step for step in _STEPS[shown] if (high - low) / factor <= step * _MOST]
    if fits and high - low > factor and ax.get_xscale() != "log":
        ax.xaxis.set_major_locator(ticker.MultipleLocator(fits[0] * factor))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda at, _: f"{at / factor:.6g}"))
    return shown
