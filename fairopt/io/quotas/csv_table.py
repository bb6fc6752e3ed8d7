"""Quotas as a CSV table: team, resource, flavor, amount, unit."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable

from fairopt.io.quotas.quota import Quota
from fairopt.io.tables import Column, escaped, read_table

COLUMNS = ("team", "resource", "flavor", "amount", "unit")


def to_csv(rows: Iterable[Quota]) -> str:
    """The table as text; names that a spreadsheet would execute get an apostrophe, which the reader removes."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        amount = int(row.amount) if row.amount.is_integer() else row.amount
        writer.writerow([*map(escaped, row.key), amount, escaped(row.unit)])
    return file.getvalue()


def read_csv(path: str | os.PathLike[str]) -> list[Quota]:
    """The quotas in a table; the columns ``flavor`` and ``unit`` may be missing."""
    table = read_table(path, ("team", "resource", "amount"))
    teams, resources = table.labels("team", unique=False), table.labels("resource", unique=False)
    flavors, units = (table.texts(name) if name in table.columns else [""] * len(table) for name in ("flavor", "unit"))
    amounts = table.numbers(Column("amount")).tolist()
    seen: dict[tuple[str, str, str], int] = {}
    out = []
    for row, quota in enumerate(map(Quota, teams, resources, flavors, amounts, units)):
        if seen.setdefault(quota.key, row) != row:
            there = table.place(seen[quota.key])
            table.refuse(row, "team", f"{quota.team!r} has a quota of {quota.resource!r} on {there} too; keep one")
        out.append(quota)
    return out
