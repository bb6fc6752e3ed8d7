"""Tables of quotas of teams, and of their difference from present ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np

from fairopt.io import counted
from fairopt.report import Column, Table, numbers
from fairopt.runtime import shortened
from fairopt_clusters.quotas.accounts import FAIRSHARE
from fairopt_clusters.quotas.quota import Quota
from fairopt_clusters.quotas.team_quotas import Change, Expected, QuotaChanges, Quotas
from fairopt_clusters.quotas.trial import Trial

_Row = TypeVar("_Row", Quota, Change, Expected)
FORMAT = "fairopt.quotas/1"
SCREEN = 40  # rows of a table
SHOWN = 12  # of a longer one
NOTHING_TO_DO = "nothing to do: no quota changes"


def quotas_tables(quotas: Quotas) -> list[Table]:
    """A table for each resource, with teams as rows; of several flavors with one column for each."""
    out = []
    for title, rows in _by_resource(quotas.rows):
        teams, flavors = [*dict.fromkeys(row.team for row in rows)], [*dict.fromkeys(row.flavor for row in rows)]
        amounts = {(row.team, row.flavor): row.amount for row in rows}
        columns = [
            Column(
                of or ("in all" if len(flavors) > 1 else "quota"),
                numbers([amounts.get((t, of), np.nan) for t in teams]),
            )
            for of in flavors
        ]
        if len(flavors) > 1 and "" not in flavors:
            totals = [sum(amounts.get((team, flavor), 0.0) for flavor in flavors) for team in teams]
            columns.append(Column("in all", numbers(totals)))
        out.append(Table(_titled(title), Column(quotas.by, shortened(teams), right=False), [columns]))
    return out


def _titled(title: str) -> str:
    """The title of a table of quotas."""
    return "Fairshares" if title == FAIRSHARE else f"Quotas of {title}"


def _by_resource(rows: Sequence[_Row]) -> list[tuple[str, list[_Row]]]:
    """The rows of each resource, below its name and unit."""
    units = {row.resource: f" ({row.unit})" * bool(row.unit) for row in rows}
    return [(f"{name}{unit}", [row for row in rows if row.resource == name]) for name, unit in units.items()]


def _amounts(rows: Sequence[Any], keys: Mapping[str, str]) -> list[Column]:
    """Columns of numbers with the same decimals, by header and attribute; what is None is not known."""
    given = [getattr(row, key) for key in keys.values() for row in rows]
    texts = numbers([np.nan if amount is None else amount for amount in given])
    return [Column(header, texts[k * len(rows) : (k + 1) * len(rows)]) for k, header in enumerate(keys)]


def expected_tables(quotas: Quotas) -> list[Table]:
    """A table for each resource: what queues own, hold and ask for, what Kueue will give them, and what is fair now."""
    keys = {"owed": "owed", "held": "held", "asks": "asked", "by Kueue": "gives", "fair": "fair"}
    return [
        Table(title, Column(quotas.by, shortened([one.team for one in rows]), right=False), [_amounts(rows, keys)])
        for title, rows in _by_resource(quotas.expected)
    ]


def changes_tables(changes: QuotaChanges, by: str) -> list[Table]:
    """A table for each resource: present quotas, new ones, the change, and what is held."""
    out = []
    for title, rows in _by_resource(changes.rows):
        names = ["owed"] * any(row.owed is not None for row in rows) + ["present", "new", "change", "held"]
        columns = _amounts(rows, dict(zip(names, names, strict=True)))
        if any(row.flavor for row in rows):
            columns.insert(0, Column("servers", [row.flavor or "all" for row in rows], right=False))
        teams = Column(by, shortened([row.team for row in rows]), right=False)
        out.append(Table(_titled(title), teams, [columns]))
    return out


def first_lines(quotas: Quotas, changes: QuotaChanges | None) -> list[str]:
    """What to do, and what comes before that."""
    if quotas.first or changes is None:
        return list(quotas.first)
    number = sum(row.is_change for row in changes.rows)
    return [f"to do: {counted(number, 'quota')} change{'s' * (number == 1)}" if number else NOTHING_TO_DO]


def on_a_screen(table: Table) -> tuple[Table, int]:
    """A table of at most `SCREEN` rows, else its first `SHOWN`, and how many more there are."""
    rows = len(table.first.cells)
    if rows <= SCREEN:
        return table, 0

    def cut(column: Column) -> Column:
        return replace(column, cells=column.cells[:SHOWN])

    return replace(table, first=cut(table.first), groups=[list(map(cut, of)) for of in table.groups]), rows - SHOWN


def trial_table(trial: Trial) -> Table:
    """By queue what was missing of what it is owed, waits, and what was preempted, before and after."""
    table = trial.to_frame()
    columns = [
        Column(
            f"{name} {when}", numbers((100 if name == "short" else 1) * table[f"{name} {key}"].to_numpy(dtype=float))
        )
        for name in ("short", "wait", "preempted")
        for when, key in (("now", "before"), ("then", "after"))
    ]
    title = f"Replayed: {trial.before.resource} (short in % of what is owed; mean wait in hours)"
    return Table(title, Column("queue", shortened([*table.index]), right=False), [columns])


def finite(amount: float) -> float | None:
    """An amount, None where it has no end, as JSON has no infinity."""
    return amount if np.isfinite(amount) else None


def described_quotas(
    quotas: Quotas, policy: str, blocks: str, changes: QuotaChanges | None, trial: Trial | None = None
) -> dict[str, Any]:
    """Quotas as plain data, with their text unless they are in CSV."""
    out: dict[str, Any] = {
        "format": FORMAT,
        "policy": policy,
        "blocks": blocks,
        "by": quotas.by,
        "target": quotas.format,
        "quotas": [asdict(row) for row in quotas.rows],
        "notes": list(quotas.notes),
        "stopped": list(quotas.stopped),
        "text": quotas.text(),
    }
    if quotas.expected:
        out["expected"] = [asdict(one) | {"asked": finite(one.asked)} for one in quotas.expected]
        out["changed"] = list(quotas.changed)
    if trial is not None:
        both = {"before": trial.before, "after": trial.after}
        of_all = {name: {"used": one.used, "short": one.short} for name, one in both.items()}
        queues = trial.to_frame().reset_index().to_dict("records")
        out["replay"] = {"resource": trial.before.resource, "days": trial.days, **of_all, "queues": queues}
        out["replay"]["notes"] = [*trial.sentences, *trial.notes]
    if changes is not None:
        out["changes"] = [asdict(row) | {"change": row.change, "over": row.is_over} for row in changes.rows]
        out["change_notes"] = list(changes.notes)
    return out
