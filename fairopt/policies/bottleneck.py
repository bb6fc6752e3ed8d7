"""Bottleneck fairness (Dolev et al. 2012): a check of any allocation, and a mechanism for one pool."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import NotCertified
from fairopt.instance import Instance
from fairopt.policies.mechanism import BySolvers, require_pool
from fairopt.policies.tradeoff import NashWelfare
from fairopt.runtime.clock import Clock, check


@dataclass(frozen=True)
class BottleneckVerdict:
    """The verdict of `bottleneck_fairness`.

    Attributes
    ----------
    holds : bool
        Whether no user has a justified complaint.
    witness : str or None
        The user furthest below its entitlement.
    resource : str or None
        The full resource of which that user has the largest share; None if it uses none.
    best_share : float
        Its share of that resource, or 0.
    entitlement : float
        ``w_j / sum w``.
    """

    holds: bool
    witness: str | None = None
    resource: str | None = None
    best_share: float = 0.0
    entitlement: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it holds."""
        return self.holds

    def __str__(self) -> str:
        if self.holds:
            return "no user has a justified complaint"
        where = "uses no full resource" if self.resource is None else f"has {self.best_share:.8g} of {self.resource!r}"
        return f"user {self.witness!r} {where}, is entitled to {self.entitlement:.8g} of one, and asks for more"


def bottleneck_fairness(allocation: Allocation, tol: float = 1e-6) -> BottleneckVerdict:
    """Check that each user reaches its task limit, or has its entitlement of some full resource that it uses.

    "No justified complaints" of Dolev et al. (2012), with entitlements ``w_j / sum w``.

    Parameters
    ----------
    allocation : Allocation
        An allocation on one pool or identical servers.
    tol : float, default 1e-6
        Relative tolerance of full capacities, limits and entitlements.

    Returns
    -------
    BottleneckVerdict

    Raises
    ------
    OutOfDomain
        If servers differ.

    Examples
    --------
    Under DRF both users have a dominant share of 0.6, but the second one's dominant resource is not full:

    >>> import fairopt as fo
    >>> cluster = fo.Instance([[0, 1], [1, 1]], [4, 6], users=["a", "b"], resources=["cpu", "memory"])
    >>> print(fo.policies.bottleneck_fairness(fo.DRF().allocate(cluster)))
    user 'b' has 0.4 of 'memory', is entitled to 0.5 of one, and asks for more
    """
    instance = allocation.instance
    require_pool(instance, "bottleneck fairness")
    tasks = allocation.tasks
    capacity = instance.total_capacities
    used = instance.per_server_demands[:, 0] * tasks[:, None]
    shares = np.divide(used, capacity, out=np.zeros(used.shape), where=capacity > 0)
    shares[:, shares.sum(axis=0) < 1.0 - tol] = 0.0  # of full resources only
    best, entitled = shares.max(axis=1, initial=0.0), instance.weights / instance.derived.total_weight
    content = (tasks >= instance.task_limits * (1.0 - tol)) | (best >= entitled * (1.0 - tol))
    if content.all():
        return BottleneckVerdict(True)
    j = int(np.argmin(np.where(content, np.inf, best / entitled)))
    resource = instance.resources[int(shares[j].argmax())] if best[j] > 0 else None
    return BottleneckVerdict(False, instance.users[j], resource, float(best[j]), float(entitled[j]))


@dataclass(frozen=True)
class BottleneckFairness(BySolvers):
    """A bottleneck-fair allocation of one pool, by weighted Nash welfare and the check `bottleneck_fairness`.

    At the optimum each user below its limit pays its weight ``w_j`` for its tasks, and prices sum to at most ``sum w``;
    with less than ``w_j / sum w`` of every full resource it would pay less than ``w_j`` (Gutman and Nisan 2012).

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.BottleneckFairness().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks.round(6)
    array([ 2.5, 12.5])
    """

    _name = "bottleneck fairness"

    def _solved(self, instance: Instance, clock: Clock, **options: Any) -> Allocation:
        require_pool(instance, self._name)
        answer = NashWelfare().allocate(instance, time_limit=clock.time_limit, **options)
        allocation = dataclasses.replace(answer, policy=self)
        check("the test of bottleneck fairness")
        verdict = bottleneck_fairness(allocation)
        if not verdict.holds:
            raise NotCertified(
                f"the allocation found is not bottleneck-fair: {verdict}. Fix: leave method and solver out; see .best "
                "for what was found",
                best=allocation,
                tried=answer.certificate.tried,
            )
        return allocation
