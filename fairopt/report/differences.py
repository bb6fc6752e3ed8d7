"""A `Diff` as tables, a data frame, plain data and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.policy import label
from fairopt.questions.differences import Diff
from fairopt.questions.what_if import Gains
from fairopt.report.pages import page
from fairopt.report.tables import MAX_ROWS, Column, Table, numbers, scarcest_first
from fairopt.report.what_if import NAME, both_answers, columns_of, gains_by, labels_of
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import shortened
from fairopt.runtime.lazy import pandas
from fairopt.runtime.tolerances import SAME_TASKS

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "fairopt.diff/1"


def diff_tables(found: Diff) -> list[Table]:
    """Both answers, then what each step adds: by team, outermost first, and by user."""
    instance = found.whole.after.instance
    labels = [by for by in labels_of(found.whole) if instance.teams.mixed]
    return [both_answers(found.whole), *(_table(found, by) for by in (*reversed(labels), "user") if found.steps)]


def _parts(found: Diff, by: str, alone: bool = False) -> tuple[Gains, dict[str, Float]]:
    """Who has what, and numbers before, by each step and after."""
    gains = gains_by(found.whole, by, alone)
    steps = found.by_step(None if by == "user" else by, alone)
    return gains, {"before": gains.before, **steps, "after": gains.after}


def _table(found: Diff, by: str) -> Table:
    """A group of columns for the scarcest resource, one for tasks, and one for each other resource."""
    gains, parts = _parts(found, by, alone=True)
    rows = gains.largest_first[:MAX_ROWS]
    instance = found.whole.after.instance
    named = dict(zip(instance.resources, shortened(instance.resource_titles), strict=True))
    titles = ["tasks", *(named[r] for r in gains.resources)]
    groups = []
    for k in scarcest_first(gains.scarcest, len(gains.resources)):
        columns = np.array([of[rows, k] for of in parts.values()])
        columns[np.abs(columns) <= SAME_TASKS * np.abs(columns).max(initial=0.0)] = 0.0
        cells = np.array(numbers(columns.ravel()), dtype=object).reshape(columns.shape)
        cells[1:-1] = np.where(columns[1:-1] > 0, "+", "") + cells[1:-1]
        headers = (f"{titles[k]}: before", *found.steps, "after")
        groups.append([Column(header, part.tolist()) for header, part in zip(headers, cells, strict=True)])
    title = f"What changed because of what, by {by}"
    if len(rows) < len(gains.names):
        title += f" (the largest of {len(gains.names):,})"
    return Table(title, Column(by, shortened([gains.names[r] for r in rows], NAME), right=False), groups)


def certificates(found: Diff) -> list[str]:
    """A sentence for the certificate of each answer."""
    return [f"{when}: {answer.certificate}" for when, answer in found.answers.items()]


def frame(found: Diff, by: str) -> pd.DataFrame:
    """See `Diff.to_frame`."""
    gains, parts = _parts(found, by)
    named = {f"by {when}" if when in found.steps else when: values for when, values in parts.items()}
    columns = columns_of(gains, by, found.whole.after.instance, named)
    return pandas().DataFrame(dict(columns)).set_index(by)


def described_diff(found: Diff) -> dict[str, Any]:
    """See `Diff.to_dict`."""
    return {
        "format": FORMAT,
        "policies": [label(answer.policy) for answer in (found.whole.before, found.whole.after)],
        "sentences": list(found.sentences),
        "changes": {name: list(step.changes) for name, step in found.steps.items()},
        "certificates": {
            when: {"ok": of.certificate.ok, "gap": of.certificate.gap, "text": str(of.certificate)}
            for when, of in found.answers.items()
        },
        "users": _described(found, "user"),
        "teams": {by: _described(found, by) for by in labels_of(found.whole)},
    }


def _described(found: Diff, by: str) -> dict[str, Any]:
    """Tasks and units by name."""
    gains, parts = _parts(found, by)
    out = {}
    for name, state, rows in zip(gains.names, gains.states, np.stack([*parts.values()], axis=2).tolist(), strict=True):
        tasks, *units = [dict(zip(parts, row, strict=True)) for row in rows]
        out[name] = {"state": state, "tasks": tasks, "units": dict(zip(gains.resources, units, strict=True))}
    return out


def diff_page(found: Diff) -> str | None:
    """Tables, certificates and sentences, for notebooks."""
    return page(diff_tables(found), [*certificates(found), *found.sentences], "What changed, and because of what")
