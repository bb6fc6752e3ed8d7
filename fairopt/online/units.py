"""Units of time: seconds, minutes, hours and days."""

from __future__ import annotations

from fairopt.errors import InvalidInstance, nearest

SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
NAMES = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
LARGE = 3.0  # of a unit, from which on numbers are shown in it


def check_unit(unit: str | None) -> None:
    """Raise `InvalidInstance` unless it is a unit of time, or None."""
    if unit is not None and unit not in SECONDS:
        raise InvalidInstance(f"time_unit is {unit!r}; {nearest(unit, SECONDS)}")


def readable(unit: str | None, largest: float) -> tuple[float, str]:
    """What to divide times up to ``largest`` by for display, and the name of their unit then; ``""`` without a unit."""
    if unit is None:
        return 1.0, ""
    fits = [name for name, long in SECONDS.items() if long >= SECONDS[unit] and largest * SECONDS[unit] >= LARGE * long]
    shown = fits[-1] if fits else unit
    return SECONDS[shown] / SECONDS[unit], shown
