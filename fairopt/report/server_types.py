"""Tables of what runs on each type of server (as each model of GPU), and what of it is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.report.tables import NAME, Column, Table, numbers, percents, shortened
from fairopt.server_sums import ByType

__all__ = ["PLACEMENT", "type_tables"]

Float = NDArray[np.floating[Any]]

PLACEMENT = (
    "Users who may run on several types can often be placed otherwise with as many tasks for everybody; shown is the "
    "placement found."
)
ROOM = 12  # characters of a type's name above a column of numbers


def type_tables(found: ByType, whole_names: bool = False) -> list[Table]:
    """Policies down, types across: one table of tasks, and one of each resource."""
    shown = found.most()

    def labels(names: Sequence[str], most: int) -> list[str]:
        return list(names) if whole_names else shortened(names, most)

    def table(title: str, rows: list[str], columns: list[list[str]]) -> Table:
        headers = labels([found.names[t] for t in shown], ROOM)
        group = [Column(h, cells) for h, cells in zip(headers, columns, strict=True)]
        return Table(title, Column("policy", rows, right=False), [group])

    policies = list(found.tasks)
    cut = dict(zip(policies, labels(policies, NAME), strict=True))
    counts = ", ".join(f"{found.names[t]} x {found.servers[t]:,}" for t in shown)
    fewer = f" ({len(shown)} largest of {len(found.names)})" if len(shown) < len(found.names) else ""
    out = [table(f"Tasks on each type of server{fewer}: {counts}", [cut[p] for p in policies],
                 [numbers([found.tasks[p][t] for p in policies]) for t in shown])]  # fmt: skip
    lines: list[tuple[str, Float]] = []
    for p in policies:
        lines.append((cut[p], found.used[p]))
        if p in found.bundles:
            lines.append(("  held", found.held[p]))
    for i, resource in enumerate(found.resources):
        title = f"{resource}: the part in use by tasks" + (", and the part held" if found.bundles else "")
        cells = [percents(parts[t, i] for _, parts in lines) for t in shown]
        out.append(table(title, [name for name, _ in lines], cells))
    return out
