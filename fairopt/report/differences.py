"""A `Diff` as tables, a data frame, plain data and a page."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.errors import InvalidBlock, nearest
from fairopt.operate.differences import Diff
from fairopt.operate.what_if import WhatIf
from fairopt.policy import label
from fairopt.report.frames import FrameColumns
from fairopt.report.pages import page
from fairopt.report.tables import MAX_ROWS, Column, Table, numbers, scarcest_first
from fairopt.report.what_if import NAME, both_answers
from fairopt.runtime.display import shortened
from fairopt.runtime.lazy import pandas
from fairopt.runtime.tolerances import SAME_TASKS

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "fairopt.diff/1"


def diff_tables(found: Diff) -> list[Table]:
    """Both answers, then what each step adds: by team, outermost first, and by user."""
    instance = found.whole.after.instance
    labels = [by for by in _labels(found) if instance.teams.mixed]
    return [both_answers(found.whole), *(_table(found, by) for by in (*reversed(labels), "user") if found.steps)]


def _labels(found: Diff) -> list[str]:
    """The labels of teams that both instances have, the innermost first."""
    return [by for by in found.whole.after.instance.teams if by in found.whole.before.instance.teams]


def _table(found: Diff, by: str) -> Table:
    """A group of columns for the scarcest resource, one for tasks, and one for each other resource."""
    view = None if by == "user" else by
    gains, steps = found.whole.gains(view, alone=True), found.by_step(view, alone=True)
    rows = gains.largest_first[:MAX_ROWS]
    instance = found.whole.after.instance
    named = dict(zip(instance.resources, shortened(instance.resource_titles), strict=True))
    titles = ["tasks", *(named[r] for r in gains.resources)]
    groups = []
    for k in scarcest_first(gains.scarcest, len(gains.resources)):
        same = SAME_TASKS * max(gains.before[:, k].max(initial=0.0), gains.after[:, k].max(initial=0.0))
        added = [np.where(np.abs(of[rows, k]) <= same, 0.0, of[rows, k]) for of in steps.values()]
        cells = numbers(np.concatenate([gains.before[rows, k], *added, gains.after[rows, k]]))
        parts = [cells[at : at + len(rows)] for at in range(0, len(cells), len(rows))]
        for values, part in zip(added, parts[1:], strict=False):
            part[:] = ["+" * int(x > 0) + text for x, text in zip(values, part, strict=True)]
        headers = (f"{titles[k]}: old", *steps, "new")
        groups.append([Column(header, part) for header, part in zip(headers, parts, strict=True)])
    title = f"What changed because of what, by {by}"
    if len(rows) < len(gains.names):
        title += f" (the largest of {len(gains.names):,})"
    return Table(title, Column(by, shortened([gains.names[r] for r in rows], NAME), right=False), groups)


def certificates(found: Diff) -> list[str]:
    """A sentence for the certificate of each answer."""
    return [f"{when}: {answer.certificate}" for when, answer in found.answers.items()]


def columns_by(found: Diff, by: str) -> dict[str, Any]:
    """Columns with a row per user or team; see `Diff.to_frame`."""
    if by not in (views := ["user", *_labels(found)]):
        raise InvalidBlock(f"no table by {by!r}; {nearest(by, views)}")
    view = None if by == "user" else by
    gains, instance = found.whole.gains(view), found.whole.after.instance
    out = FrameColumns({by: gains.names, "state": gains.states})
    titles = dict(zip(instance.resources, instance.resource_titles, strict=True))
    steps = {f"by {name}": added for name, added in found.by_step(view).items()}
    for k, name in enumerate(("tasks", *(titles[r] for r in gains.resources))):
        for when, values in {"before": gains.before, **steps, "after": gains.after}.items():
            out.add(f"{name} {when}", values[:, k])
    return dict(out)


def frame(found: Diff, by: str) -> pd.DataFrame:
    """See `Diff.to_frame`."""
    columns = columns_by(found, by)
    return pandas().DataFrame(columns).set_index(by)


def described_diff(found: Diff) -> dict[str, Any]:
    """See `Diff.to_dict`."""

    def described(one: WhatIf) -> dict[str, Any]:
        teams = {by: one.gains(by).rows() for by in _labels(found)}
        return {"changes": list(one.changes), "users": one.gains().rows(), "teams": teams}

    answers = found.answers.items()
    return {
        "format": FORMAT,
        "policies": [label(of.policy) for of in (found.whole.before, found.whole.after)],
        "equal": not found.steps,
        "sentences": list(found.sentences),
        "certificates": {when: {"ok": of.certificate.ok, **asdict(of.certificate)} for when, of in answers},
        "whole": described(found.whole),
        "steps": {name: described(step) for name, step in found.steps.items()},
    }


def diff_page(found: Diff) -> str | None:
    """Tables, certificates and sentences, for notebooks."""
    return page(diff_tables(found), [*certificates(found), *found.sentences], "What changed, and because of what")
