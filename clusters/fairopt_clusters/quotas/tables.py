"""Tables of quotas of teams, and of their difference from present ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from fairopt.io import counted
from fairopt.report import Column, Table, numbers
from fairopt.runtime import shortened
from fairopt_clusters.quotas.quota import Quota
from fairopt_clusters.quotas.team_quotas import Change, QuotaChanges, Quotas
from fairopt_clusters.quotas.trial import Trial

FORMAT = "fairopt.quotas/1"
SCREEN = 40  # rows of a table
SHOWN = 12  # of a longer one
NOTHING_TO_DO = "nothing to do: no quota changes"


def quotas_tables(quotas: Quotas) -> list[Table]:
    """A table for each resource, with teams as rows; of several flavors with one column for each."""
    return [_table(resource, unit, quotas) for resource, unit in _resources(quotas.rows).items()]


def _resources(rows: Sequence[Quota | Change]) -> dict[str, str]:
    return {row.resource: row.unit for row in rows}


def _table(resource: str, unit: str, quotas: Quotas) -> Table:
    rows = [row for row in quotas.rows if row.resource == resource]
    teams, flavors = [*dict.fromkeys(row.team for row in rows)], [*dict.fromkeys(row.flavor for row in rows)]
    amounts = {(row.team, row.flavor): row.amount for row in rows}
    columns = [
        Column(
            flavor or ("in all" if len(flavors) > 1 else "quota"),
            numbers([amounts.get((team, flavor), np.nan) for team in teams]),
        )
        for flavor in flavors
    ]
    if len(flavors) > 1 and "" not in flavors:
        totals = [sum(amounts.get((team, flavor), 0.0) for flavor in flavors) for team in teams]
        columns.append(Column("in all", numbers(totals)))
    title = f"Quotas of {resource}" + (f" ({unit})" if unit else "")
    return Table(title, Column(quotas.by, shortened(teams), right=False), [columns])


def expected_tables(quotas: Quotas) -> list[Table]:
    """A table for each resource: what queues own, hold and ask for, what Kueue will give them, and what is fair now."""
    out = []
    for resource, unit in {one.resource: one.unit for one in quotas.expected}.items():
        rows = [one for one in quotas.expected if one.resource == resource]
        keys = {"owed": "owed", "held": "held", "asked": "asks", "gives": "by Kueue", "fair": "fair"}
        amounts = [np.nan if (given := getattr(one, key)) is None else given for key in keys for one in rows]
        texts = numbers(amounts)  # with the same decimals
        columns = [Column(header, texts[k * len(rows) : (k + 1) * len(rows)]) for k, header in enumerate(keys.values())]
        title = resource + (f" ({unit})" if unit else "")
        out.append(Table(title, Column(quotas.by, shortened([one.team for one in rows]), right=False), [columns]))
    return out


def changes_tables(changes: QuotaChanges, by: str) -> list[Table]:
    """A table for each resource: present quotas, new ones, the change, and what is held."""
    out = []
    for resource, unit in _resources(changes.rows).items():
        rows = [row for row in changes.rows if row.resource == resource]
        columns: list[Column] = []
        if any(row.flavor for row in rows):
            columns.append(Column("servers", [row.flavor or "all" for row in rows], right=False))
        headers = ["owed"] * any(row.owed is not None for row in rows) + ["present", "new", "change", "held"]
        amounts = [getattr(row, header) for header in headers for row in rows]
        texts = numbers([np.nan if amount is None else amount for amount in amounts])  # with the same decimals
        for k, header in enumerate(headers):
            columns.append(Column(header, texts[k * len(rows) : (k + 1) * len(rows)]))
        title = f"Quotas of {resource}" + (f" ({unit})" if unit else "")
        out.append(Table(title, Column(by, shortened([row.team for row in rows]), right=False), [columns]))
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
