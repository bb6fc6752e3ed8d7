"""Work: users' tasks counted by a share whose coefficients differ by server, for properties judged by it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairopt.allocation import ChangedByHand
from fairopt.blocks.bundle_model import tasks_within
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import Share, best_server, require_share
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.runtime.arrays import Bool, Float, Indices


@dataclass(frozen=True, eq=False)
class Work:
    """What the tasks of each user are worth on each server, by a share.

    A bundle, or a user's own slice, is worth the most work that the user could do on it: its best servers come first
    where its task limit ends before the bundle does.
    """

    share: Share
    instance: Instance
    per_task: Float  # 0 where a user may not run, (n_users, n_servers)

    def of(self, tasks_by_server: Float) -> Float:
        """The work of an allocation, (n_users,)."""
        return np.einsum("js,js->j", self.per_task, tasks_by_server)

    def most(self, fits: Float, users: Indices | slice = slice(None)) -> Float:
        """The most work of some users within their limits, given tasks that fit on each server, (k, ..., n_servers)."""
        worth, limits = self.per_task[users], self.instance.task_limits[users]
        if np.isinf(limits).all():
            return np.einsum("k...s,ks->k...", fits, worth)
        between = [1] * (fits.ndim - 2)
        best = np.argsort(-worth, axis=1, kind="stable")
        in_order = np.take_along_axis(fits, best.reshape(len(best), *between, -1), axis=-1)
        done = np.minimum(in_order.cumsum(axis=-1), limits.reshape(-1, *between, 1))
        return np.einsum("k...s,ks->k...", np.diff(done, axis=-1, prepend=0.0), np.take_along_axis(worth, best, axis=1))

    @cached_property
    def slices(self) -> Float:
        """The work of each user on its own slice of every server, (n_users,)."""
        instance = self.instance
        return self.most(instance.tasks_alone * (instance.weights / instance.derived.total_weight)[:, None])

    def on_bundle(self, held: Float, user: int) -> float:
        """The most work of one user on a bundle (n_servers, n_resources)."""
        fits = np.where(self.per_task[user] > 0, tasks_within(held, self.instance.per_server_demands[user]), 0.0)
        return float(self.most(fits[None], np.array([user]))[0])

    @cached_property
    def alone(self) -> Float:
        """The work of each user with all servers to itself, (n_users,)."""
        return self.most(self.instance.tasks_alone)

    @cached_property
    def limited(self) -> Bool:
        """Users whose limit bounds tasks but not work, because a task counts more on some servers than on others."""
        return np.isfinite(self.instance.task_limits) & _differs(self.per_task, self.instance)

    def on(self, instance: Instance, servers: Indices) -> Work:
        """The work on one server of each class of ``instance``, in which these servers stand for identical ones."""
        return Work(self.share, instance, self.per_task[:, servers])


class Wording:
    """Phrases about tasks, or about work."""

    def __init__(self, work: Work | None) -> None:
        self.share = None if work is None else repr(work.share)
        self.verb, self.give = ("runs", "run") if self.share is None else ("has", "give")
        self.more = "run more tasks" if self.share is None else f"have a larger {self.share}"
        self.fewer = "runs fewer" if self.share is None else "has a smaller one"
        self.falls = "runs fewer tasks" if self.share is None else f"has a smaller {self.share}"
        self.losing = "running fewer" if self.share is None else "losing any"

    def have(self, number: str) -> str:
        """An infinitive with a number."""
        return f"run {number} tasks" if self.share is None else f"have a {self.share} of {number}"

    def has(self, number: str) -> str:
        """A statement with a number."""
        return f"runs {number} tasks" if self.share is None else f"has a {self.share} of {number}"


def work_by(share: Share | None, policy: Any, instance: Instance) -> Work | None:
    """The work by a share, or by that of the policy's objective; None where it is tasks times a number of each user's.

    Properties compare each user with itself, so tasks then give the same margins. `OutOfDomain` if a share is given and
    a user has none of it.
    """
    given = share is not None
    if share is not None:
        require_share(share, "a property")
    else:
        share = first_share(policy)
    part = np.flatnonzero(instance.task_limits > 0)
    if share is None or not len(part):
        return None
    some = instance if len(part) == instance.n_users else taking_part(instance, part)
    c = share.coefficients(some)
    if given and not (most := best_server(c, some)).all():
        j = int(np.flatnonzero(most == 0)[0])
        raise OutOfDomain(f"user {some.users[j]!r} has a zero {share}: {share.why_zero(some, j)}")
    if c.ndim == 1 or not _differs(c, some).any():
        return None
    worth = np.zeros(instance.eligible.shape)
    worth[part] = np.where(some.eligible, c, 0.0)
    return Work(share, instance, worth)


def first_share(policy: Any) -> Share | None:
    """The first share of a policy's objective; None for other mechanisms."""
    objective = getattr(policy.policy if isinstance(policy, ChangedByHand) else policy, "objective", None)
    return (
        next((share._of_user for share in objective.share_blocks()), None) if isinstance(objective, Objective) else None
    )


def _differs(c: Float, instance: Instance) -> Bool:
    """Users whose coefficients differ between eligible servers."""
    least, most = (f(np.where(instance.eligible, c, o), axis=1) for f, o in ((np.min, np.inf), (np.max, -np.inf)))
    return np.asarray(least < most)
