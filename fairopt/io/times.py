"""Dates and times in ISO 8601, as seconds, with or without time zones but never mixed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from fairopt.io.tables import InputTable, short
from fairopt.runtime.arrays import Float

_NAIVE = datetime(1970, 1, 1)
_AWARE = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def are_dates(cells: Sequence[Any]) -> bool:
    """Whether the first cell that is not empty is a date."""
    first = next((cell for cell in cells if cell), "")
    return isinstance(first, str) and _DATE.match(first) is not None


def seconds_of(cells: Sequence[str], table: InputTable, column: str) -> Float:
    """Dates in ISO 8601 as seconds since 1970, NaN for empty cells; all have a time zone, or none has.

    Parameters
    ----------
    cells : sequence of str
        The dates.
    table : InputTable
        The table that they are from, for messages.
    column : str
        Its column.

    Examples
    --------
    >>> import fairopt as fo
    >>> table = fo.io.InputTable("t.csv", {"start": ["1970-01-01T00:01", ""]}, 2, [2, 3])
    >>> fo.io.seconds_of(table.cells("start"), table, "start")
    array([60., nan])
    """
    out = np.full(len(cells), np.nan)
    first: int | None = None  # row of the first date, and whether it has a zone
    zoned = False
    for row, cell in enumerate(cells):
        if not cell:
            continue
        date: datetime | None = None
        if _DATE.match(cell):
            try:
                date = datetime.fromisoformat(cell)
            except ValueError:
                date = None
        if date is None:
            like = "" if first is None else f", and {table.place(first)} has the date {short(cells[first])}"
            table.refuse(
                row, column, f"{short(cell)} is not a date{like}; give all as 2026-03-01T08:00:00, or all as numbers"
            )
        if first is None:
            first, zoned = row, date.tzinfo is not None
        elif (date.tzinfo is not None) != zoned:
            one, other = ("no time zone", "has one") if zoned else ("a time zone", "has none")
            table.refuse(
                row,
                column,
                f"{short(cell)} has {one}, and that on {table.place(first)} {other} ({short(cells[first])}); give all "
                "dates a zone, as 2026-03-01T08:00:00+01:00, or none",
            )
        out[row] = (date - (_AWARE if zoned else _NAIVE)) / _SECOND
    return out
