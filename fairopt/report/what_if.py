"""A `WhatIf` as tables, a data frame, plain data and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock, nearest
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.questions.what_if import Gains, WhatIf
from fairopt.report.comparison import measured, proved
from fairopt.report.frames import FrameColumns
from fairopt.report.outcomes import Outcome
from fairopt.report.pages import page
from fairopt.report.tables import MAX_ROWS, Column, Table, numbers, percents, scarcest_first, signed
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import shortened
from fairopt.runtime.lazy import pandas

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "fairopt.what-if/1"
NAME = 20  # characters of a name: leaves room for the scarcest resource on 80 columns


def what_if_tables(found: WhatIf) -> list[Table]:
    """Both answers, then who gains and loses: by team, outermost first, and by user.

    Of many rows those with the largest differences are shown.
    """
    instance = found.before.instance
    labels = instance.teams.outermost_first if instance.teams.mixed else ()
    teams = [(by, found.gains(by, alone=True)) for by in labels if by in found.after.instance.teams]
    return [both_answers(found), *[_table(found, by, gains) for by, gains in (*teams, ("user", found.gains()))]]


def both_answers(found: WhatIf) -> Table:
    """Totals and certificates, a row each for before and after."""
    rows = [Outcome("", a, None, 0.0).row() for a in (found.before, found.after)]
    by, gaps = proved(rows)
    groups = [
        measured(rows),
        [
            Column(name, percents(row["utilisation"][r] for row in rows))
            for r, name in zip(found.resources, shortened(found.resources), strict=True)
        ],
        [Column("certified", ["yes" if row["certified"] else "NO" for row in rows], right=False), gaps, by],
    ]
    return Table(f"{label(found.before.policy)} before and after", Column("", ["before", "after"], right=False), groups)


def _table(found: WhatIf, by: str, gains: Gains) -> Table:
    """A group of columns for the scarcest resource, one for tasks, one for shares, and one for each other resource."""
    rows = gains.largest_first[:MAX_ROWS]
    instance = found.before.instance
    names = dict(zip(instance.resources, shortened(instance.resource_titles), strict=True))
    titles = ["tasks", *(names[r] for r in gains.resources)]
    groups = []
    for k in scarcest_first(gains.scarcest, len(gains.resources)):
        cells = signed(gains.before[rows, k], gains.after[rows, k], gains.difference[rows, k])
        headers = (f"{titles[k]}: before", "after", "+/-")
        groups.append([Column(header, texts) for header, texts in zip(headers, cells, strict=True)])
    groups[0].insert(0, Column("state", [gains.states[r] for r in rows], right=False))
    shares = numbers(100 * gains.shares[rows].T.ravel())
    groups.insert(2, [Column("dominant share (%): before", shares[: len(rows)]), Column("after", shares[len(rows) :])])
    title = f"Who gains and loses, by {by}"
    if len(rows) < len(gains.names):
        title += " (the largest differences)"
        by += f" ({len(rows)} of {len(gains.names):,})"
    return Table(title, Column(by, shortened([gains.names[r] for r in rows], NAME), right=False), groups)


def certificates(found: WhatIf) -> list[str]:
    """A sentence for each of the two certificates."""
    return [f"{when}: {a.certificate}" for when, a in (("before", found.before), ("after", found.after))]


def columns_by(found: WhatIf, by: str) -> dict[str, Any]:
    """Columns with a row per user or team; see `WhatIf.to_frame`."""
    gains = gains_by(found, by)
    parts = {"before": gains.before, "after": gains.after, "difference": gains.difference}
    out = columns_of(gains, by, found.before.instance, parts)
    for k, when in enumerate(("before", "after")):
        out.add(f"dominant share {when}", gains.shares[:, k], "of the largest")
    return dict(out)


def gains_by(found: WhatIf, by: str, alone: bool = False) -> Gains:
    """Who has what: users, or teams under a label of both instances."""
    if by not in (views := ["user", *labels_of(found)]):
        raise InvalidBlock(f"no table by {by!r}; {nearest(by, views)}")
    return found.gains(None if by == "user" else by, alone)


def labels_of(found: WhatIf) -> list[str]:
    """The labels of teams that both instances have, the innermost first."""
    return [by for by in found.before.instance.teams if by in found.after.instance.teams]


def columns_of(gains: Gains, by: str, instance: Instance, parts: Mapping[str, Float]) -> FrameColumns:
    """Names and states, then tasks and units of each resource, each in all parts."""
    out = FrameColumns({by: gains.names, "state": gains.states})
    titles = dict(zip(instance.resources, instance.resource_titles, strict=True))
    for k, name in enumerate(("tasks", *(titles[r] for r in gains.resources))):
        for when, values in parts.items():
            out.add(f"{name} {when}", values[:, k])
    return out


def frame(found: WhatIf, by: str) -> pd.DataFrame:
    """See `WhatIf.to_frame`."""
    columns = columns_by(found, by)
    pd = pandas()
    return pd.DataFrame(columns).set_index(by)


def described_what_if(found: WhatIf) -> dict[str, Any]:
    """See `WhatIf.to_dict`."""
    instance, gains = found.before.instance, found.gains()
    return {
        "format": FORMAT,
        "policy": label(found.before.policy),
        "blocks": repr(found.before.policy),
        "changes": list(found.changes),
        "sentences": list(found.sentences),
        "warnings": list(found.warnings),
        "before": _side(found.before),
        "after": _side(found.after),
        "scarcest": gains.resources[gains.scarcest],
        "users": gains.rows(),
        "teams": {by: found.gains(by).rows() for by in labels_of(found)},
        "units": None if instance.units is None else dict(zip(instance.resources, instance.units, strict=True)),
        "notes": list(found.after.instance.notes),
    }


def _side(allocation: Allocation) -> dict[str, Any]:
    """Totals and the certificate of one answer."""
    instance = allocation.instance
    return {
        "tasks": float(allocation.tasks.sum()),
        "objective": allocation.objective,
        "metrics": allocation.metrics(),
        "capacities": dict(zip(instance.resources, instance.total_capacities.tolist(), strict=True)),
        "certificate": {"ok": allocation.certificate.ok, **asdict(allocation.certificate)},
    }


def what_if_page(found: WhatIf) -> str | None:
    """Tables, both certificates and sentences, for notebooks."""
    lines = [*certificates(found), *found.sentences]
    return page(what_if_tables(found), lines, f"What if: {'; '.join(found.changes)}")
