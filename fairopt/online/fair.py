"""Fair shares at moments of a timeline: the divisible optimum for the tasks present."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fairopt.blocks.objectives import Leximin
from fairopt.blocks.shares import Tasks
from fairopt.errors import FairoptError
from fairopt.instance import Instance
from fairopt.online.timeline import Timeline, moments_of
from fairopt.policy import Policy
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import begin
from fairopt.runtime.progress import by_itself

LATE = "not reached before the time limit"


def with_fair_at(timeline: Timeline, moments: ArrayLike, time_limit: float | None = None) -> Timeline:
    """See `Timeline.with_fair_at`; after Ctrl-C the remaining moments are NaN."""
    clock = begin(time_limit)
    at = moments_of(moments, "fair_at")
    shares = np.full((len(at), len(timeline.users)), np.nan)
    errors: list[str | None] = ["interrupted"] * len(at)
    interrupted = timeline.interrupted
    with by_itself() as tell:
        try:
            for k in np.flatnonzero(at < timeline.until).tolist():
                tell("fair shares", k, len(at))
                if clock.late:
                    errors[k], interrupted = LATE, True
                    continue
                try:
                    shares[k] = _fair_shares(timeline, at[k], clock.left)
                    errors[k] = None
                except FairoptError as error:
                    errors[k] = f"{type(error).__name__}: {error}"
        except KeyboardInterrupt:
            interrupted = True
    return replace(timeline, fair_at=at, fair_shares=shares, fair_errors=tuple(errors), interrupted=interrupted)


def _fair_shares(timeline: Timeline, at: float, time_limit: float | None) -> Float:
    """Fair share of each user at a moment; 0 for users without running or waiting tasks."""
    table, cluster, n_users = timeline.table, timeline.cluster, len(timeline.users)
    present = np.bincount(table.kind, table.tasks * (table.arrival <= at), minlength=len(table.demands))
    present -= np.bincount(table.kind[timeline.task_job[timeline.end <= at]], minlength=len(table.demands))
    kinds = np.flatnonzero(present)
    if not len(kinds):
        return np.zeros(n_users)
    user, per_task = table.user_of_kind[kinds], timeline.share_per_task[kinds]
    wished = np.bincount(user, per_task * present[kinds], minlength=n_users)
    masks = [table.requests[k].allowed for k in kinds]
    eligible = [np.ones(cluster.n_servers, dtype=bool) if mask is None else mask for mask in masks]
    instance = Instance(  # shares per weight are levelled as tasks over these weights
        table.demands[kinds],
        cluster.capacities,
        weights=table.weights[user] * present[kinds] / wished[user],
        task_limits=present[kinds],
        eligible=np.array(eligible),
        resources=cluster.resources,
        servers=cluster.servers,
        server_types=cluster.server_types,
        users=[f"{timeline.users[j]} #{k}" for k, j in enumerate(user)],
    )
    fair = per_task * Policy(Leximin(Tasks())).allocate(instance, time_limit=time_limit).tasks
    return np.asarray(np.bincount(user, fair, minlength=n_users), dtype=float)
