"""Fair shares at moments of a timeline: the divisible optimum of the same notion for the tasks present."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.blocks.objectives import Leximin
from fairopt.blocks.shares import Share
from fairopt.errors import FairoptError, InvalidBlock
from fairopt.instance import Instance
from fairopt.online.timeline import Timeline, moments_of
from fairopt.policy import Policy
from fairopt.progress import by_itself

__all__ = ["with_fair_at"]

Float = NDArray[np.floating[Any]]


def with_fair_at(timeline: Timeline, moments: ArrayLike) -> Timeline:
    """See `Timeline.with_fair_at`; Ctrl-C leaves the rest NaN."""
    at = moments_of(moments, "fair_at")
    if not isinstance(timeline.share, Share):
        raise InvalidBlock(f"the share {timeline.share!r} is known as text only, so that fair shares cannot be found")
    shares = np.full((len(at), len(timeline.users)), np.nan)
    errors: list[str | None] = ["interrupted"] * len(at)
    interrupted = timeline.interrupted
    with by_itself() as tell:
        try:
            for done, (k, present) in enumerate(_present(timeline, at)):
                tell("fair shares", done, len(at))
                if at[k] >= timeline.until:
                    errors[k] = f"interrupted: the simulation ended at {timeline.until:g}"
                    continue
                try:
                    shares[k] = _fair_shares(timeline, present)
                    errors[k] = None
                except FairoptError as error:
                    errors[k] = f"{type(error).__name__}: {error}"
        except KeyboardInterrupt:
            interrupted = True
    return replace(timeline, fair_at=at, fair_shares=shares, fair_errors=tuple(errors), interrupted=interrupted)


def _present(timeline: Timeline, at: Float) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """For each moment, in order of time, its place and the tasks of each kind that run or wait then."""
    table, n_kinds = timeline.table, len(timeline.share_per_task)
    kind = table.kind[timeline.task_job]
    by_arrival, by_end = np.argsort(table.arrival, kind="stable"), np.argsort(timeline.end, kind="stable")
    arrivals, ends = table.arrival[by_arrival], timeline.end[by_end]
    present, came, gone = np.zeros(n_kinds), 0, 0
    for k in np.argsort(at, kind="stable").tolist():
        before, came = came, int(np.searchsorted(arrivals, at[k], "right"))
        new = by_arrival[before:came]
        present += np.bincount(table.kind[new], table.tasks[new], minlength=n_kinds)
        before, gone = gone, int(np.searchsorted(ends, at[k], "right"))
        present -= np.bincount(kind[by_end[before:gone]], minlength=n_kinds)
        yield k, present.astype(np.int64)


def _fair_shares(timeline: Timeline, present: NDArray[np.int64]) -> Float:
    """Fair share of each user by the tasks of each kind that are present: 0 without any."""
    table, cluster, share = timeline.table, timeline.cluster, timeline.share
    kinds = np.flatnonzero(present)
    n_users = len(timeline.users)
    if not len(kinds):
        return np.zeros(n_users)
    assert isinstance(share, Share)
    user = table.user_of_kind[kinds]
    wish = timeline.share_per_task[kinds] * present[kinds]
    wished, several = np.bincount(user, wish, minlength=n_users), np.bincount(user, minlength=n_users) > 1
    mark = " #"
    while any(mark in name for name in timeline.users):  # so that no name of a part is that of a user
        mark += "#"
    names = [f"{timeline.users[j]}{mark}{k}" if several[j] else timeline.users[j] for k, j in enumerate(user)]
    instance = Instance(
        table.demands[kinds], cluster.capacities, weights=table.weights[user] * wish / wished[user],
        task_limits=present[kinds], eligible=table.eligible[kinds] if not table.masks.all() else None, users=names,
        resources=cluster.resources, servers=cluster.servers, server_types=cluster.server_types,
    )  # fmt: skip
    fair = Policy(Leximin(share)).allocate(instance).shares
    return np.bincount(user, fair, minlength=n_users).astype(float)
