"""Waiting and slowdown of each team or user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock, nearest
from fairopt.online.timeline import Timeline, spread
from fairopt.runtime.arrays import Float, Ints

NO_TEAM = "(no team)"


def waits(timeline: Timeline, by: str, threshold: float) -> dict[str, dict[str, Any]]:
    """See `Timeline.waits`."""
    names, of_job = _groups(timeline, by)
    n = len(names)
    once, of_task = timeline.once, of_job[timeline.task_job]
    waiting, ran = [*_parts(timeline.waiting[once], of_task[once], n)], np.bincount(of_task, minlength=n)
    slowdown = [*_parts(timeline.bounded_slowdown(threshold), of_job, n)]
    unstarted = np.bincount(of_job, timeline.unstarted, minlength=n)
    return {name: _measures(int(ran[k]), waiting[k], slowdown[k], unstarted[k]) for k, name in enumerate(names)}


def worst(timeline: Timeline) -> dict[str, Any] | None:
    """The team, or without teams the user, with the longest mean waiting; None without tasks."""
    if not len(timeline.start):
        return None
    by = "team" if timeline.teams else "user"
    names, of_job = _groups(timeline, by)
    ran, once = of_job[timeline.task_job], timeline.once
    of_task, waiting = ran[once], timeline.waiting[once]
    tasks = np.bincount(of_task, minlength=len(names))
    k = int(np.argmax(np.bincount(of_task, waiting, minlength=len(names)) / np.maximum(tasks, 1)))
    unstarted = float(timeline.unstarted[of_job == k].sum())
    slowdown = timeline.bounded_slowdown()[of_job == k]
    return {by: names[k], **_measures(int((ran == k).sum()), waiting[of_task == k], slowdown, unstarted)}


def _groups(timeline: Timeline, by: str) -> tuple[Sequence[str], Ints]:
    """The names of teams or users, and the position of each job's."""
    table = timeline.table
    if by not in ("team", "user"):
        raise InvalidBlock(f"by is {by!r}; {nearest(by, ('team', 'user'))}")
    if by == "user":
        return timeline.users, table.user
    names, of_user = table.teams, table.team_of_user
    if (of_user < 0).any():
        others = names.index(NO_TEAM) if NO_TEAM in names else len(names)  # a team may have this name
        names, of_user = tuple(dict.fromkeys([*names, NO_TEAM])), np.where(of_user < 0, others, of_user)
    return names, of_user[table.user]


def _measures(tasks: int, waiting: Float, slowdown: Float, unstarted: float) -> dict[str, Any]:
    """The numbers of one team or user."""
    done, usual = slowdown[np.isfinite(slowdown)], ("mean", "p95", "max")
    return {
        "tasks": tasks,
        "unstarted": int(unstarted),
        "jobs": len(done),
        "waiting": spread(waiting, *usual),
        "bounded_slowdown": spread(done, *usual),
    }


def _parts(values: Float, group: Ints, n: int) -> Iterator[Float]:
    """The values of each of n groups."""
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(1, n))
    yield from np.split(values[order], ends) if n else ()
