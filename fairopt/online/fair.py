"""Fair shares at moments of a timeline: the divisible optimum of the same notion for the tasks present."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.blocks.base import ByUser
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
            for k in np.flatnonzero(at < timeline.until).tolist():
                tell("fair shares", k, len(at))
                try:
                    shares[k] = _fair_shares(timeline, timeline.share, at[k])
                    errors[k] = None
                except FairoptError as error:
                    errors[k] = f"{type(error).__name__}: {error}"
        except KeyboardInterrupt:
            interrupted = True
    return replace(timeline, fair_at=at, fair_shares=shares, fair_errors=tuple(errors), interrupted=interrupted)


@dataclass(frozen=True, repr=False)
class _Known(Share):
    """Shares by label, where they depend on the user and not only on its demands."""

    by_label: ByUser

    def per_task(self, instance: Instance) -> Float:
        return instance.per_user(dict(self.by_label.pairs), "shares")


def _fair_shares(timeline: Timeline, share: Share, at: float) -> Float:
    """Fair share of each user at a moment; 0 without tasks that run or wait."""
    table, cluster, n_users = timeline.table, timeline.cluster, len(timeline.users)
    present = np.bincount(table.kind, table.tasks * (table.arrival <= at), minlength=len(table.demands))
    present -= np.bincount(table.kind[timeline.task_job[timeline.end <= at]], minlength=len(table.demands))
    kinds = np.flatnonzero(present)
    if not len(kinds):
        return np.zeros(n_users)
    user = table.user_of_kind[kinds]
    per_task = timeline.share_per_task[kinds]
    wish = per_task * present[kinds]
    wished, several = np.bincount(user, wish, minlength=n_users), np.bincount(user, minlength=n_users) > 1
    mark = " #"
    while any(mark in name for name in timeline.users):  # so that no name of a part is that of a user
        mark += "#"
    names = [f"{timeline.users[j]}{mark}{k}" if several[j] else timeline.users[j] for k, j in enumerate(user)]
    masks = [table.requests[k].allowed for k in kinds]
    eligible = [np.ones(cluster.n_servers, dtype=bool) if mask is None else mask for mask in masks]
    instance = Instance(
        table.demands[kinds], cluster.capacities, weights=table.weights[user] * wish / wished[user],
        task_limits=present[kinds], eligible=np.array(eligible), users=names,
        resources=cluster.resources, servers=cluster.servers, server_types=cluster.server_types,
    )  # fmt: skip
    levelled = share if share.by_row else _Known(ByUser(dict(zip(names, per_task, strict=True))))
    fair = Policy(Leximin(levelled)).allocate(instance).shares
    return np.asarray(np.bincount(user, fair, minlength=n_users), dtype=float)
