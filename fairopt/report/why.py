"""Tables of explanations."""

from __future__ import annotations

import numpy as np

from fairopt.questions.explanation import KINDS, Binding, Explanation, listed
from fairopt.report.pages import page
from fairopt.report.tables import Column, Table, numbers
from fairopt.runtime.display import shortened

SERVERS = 24  # characters of a list of servers


def explanation_tables(found: Explanation) -> list[Table]:
    """What stops a user or team and what else moves it, and what stops each member of a team."""
    out = []
    rows = [*((b, "stops it") for b in found.binding), *((b, "moves it") for b in found.also)]
    if rows:
        names = Column("by", shortened([b.name for b, _ in rows]), right=False)
        columns = [
            Column(
                "how", [role if b.kind in ("resource", "block") else KINDS[b.kind] for b, role in rows], right=False
            ),
            Column("on", shortened([listed(b.servers, 2) or "-" for b, _ in rows], SERVERS), right=False),
            Column("there is", numbers([_or_nan(b.amount) for b, _ in rows])),
            Column("tasks for one more", numbers([_per_unit(b) for b, _ in rows])),
            Column("others lose", numbers([_lost(b) for b, _ in rows])),
            Column("mostly", shortened([_loser(b) for b, _ in rows]), right=False),
        ]
        out.append(Table(f"What stops {found.name}", names, [columns[:2], columns[2:4], columns[4:]]))
    if found.members:
        names = Column("user", shortened([m.name for m in found.members]), right=False)
        stops = [
            listed(dict.fromkeys(b.name if b.kind != "limit" else "its limit" for b in m.binding), 3) or "-"
            for m in found.members
        ]
        columns = [
            Column("tasks", numbers([m.tasks for m in found.members])),
            Column("level", numbers([_or_nan(m.level) for m in found.members])),
            Column("stopped by", shortened(stops, 32), right=False),
        ]
        out.append(Table(f"Users of {found.name}", names, [columns]))
    return out


def explanation_page(found: Explanation) -> str | None:
    """Tables and sentences of an explanation for notebooks."""
    return page(explanation_tables(found), found.sentences, found.name, f" under {found.policy}")


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _per_unit(b: Binding) -> float:
    """The gain per unit; NaN where it is of another change."""
    return np.nan if b.kind in ("block", "together") or b.amount is None else _or_nan(b.gain)


def _lost(b: Binding) -> float:
    """What others lose together."""
    return -sum(min(change, 0.0) for change in b.others.values()) if b.gain is not None else np.nan


def _loser(b: Binding) -> str:
    """Who loses most."""
    lost = {name: change for name, change in b.others.items() if change < 0}
    return min(lost, key=lambda name: lost[name]) if lost else "-"
