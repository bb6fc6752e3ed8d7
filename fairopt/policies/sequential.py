"""SequentialMinMax: whole tasks in sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.base import brief
from fairopt.blocks.guarantees import refuse_guarantees
from fairopt.blocks.shares import DominantShare, Share, coefficients_cached
from fairopt.errors import InvalidBlock, NotCertified, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.policies.mechanism import NotOfBlocks
from fairopt.proof import gate
from fairopt.proof.whole_tasks import measured
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import begin, check
from fairopt.solve.form.no_whole_task import slack
from fairopt.solve.form.program import require_instance
from fairopt.solve.whole.greedy import one_after_the_other
from fairopt.solve.whole.servers import Placement, Servers, placement_rule

MAX_TASKS = 1e9  # tasks of a user: placing as many takes an hour


@dataclass(frozen=True)
class SequentialMinMax(NotOfBlocks):
    """Whole tasks in sequence (Parkes, Procaccia and Shah 2015).

    Each step gives a task to the user whose share per weight is smallest after it, among those for whom one fits. Ties
    (shares that agree to 36 bits) go to the first user. The result is not leximin: one resource of 5 units and demands
    1 and 4 give (5, 0), where (1, 1) is leximin.

    With equal weights on one pool and dominant shares, it has the sharing incentive and Pareto efficiency in whole
    tasks, and ``ef1-own`` of `check`; ``ef1`` may fail, as at (5, 0).

    Parameters
    ----------
    share : Share, default DominantShare()
        A share that is the same on every server where a user may run.
    placement : {"first-fit", "best-fit", "least-loaded"} or callable, default "first-fit"
        The server of a task, as in `Scheduler`; a row of q identical servers is q servers.

    Raises
    ------
    InvalidBlock
        If ``share`` is not a share, or there is no such placement.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.SequentialMinMax().allocate(fo.Instance([[1, 4], [3, 1]], [9, 18])).tasks
    array([3., 2.])
    >>> fo.SequentialMinMax().allocate(fo.Instance([[1], [4]], [5])).tasks
    array([5., 0.])
    """

    share: Share = field(default_factory=DominantShare)
    placement: str | Placement = "first-fit"

    def __post_init__(self) -> None:
        if not isinstance(self.share, Share):
            raise InvalidBlock(f"SequentialMinMax({brief(self.share)}): give a share, such as DominantShare()")
        placement_rule(self.placement)

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        share = "" if self.share == DominantShare() else str(self.share)
        rule = self.placement if isinstance(self.placement, str) else getattr(self.placement, "__name__", "own rule")
        options = ", ".join(filter(None, (share, "" if rule == "first-fit" else rule)))
        return f"SequentialMinMax({options})" if options else "SequentialMinMax"

    @coefficients_cached()
    def allocate(
        self, instance: Instance, *, integral: bool | Literal["rounded"] = True, time_limit: float | None = None
    ) -> Allocation:
        """Place tasks one by one, and certify that they fit and that no further task fits.

        Parameters
        ----------
        instance : Instance
            Users and servers.
        integral : True or "rounded", default True
            No effect; for comparisons with whole tasks of other policies.
        time_limit : float, optional
            Seconds.

        Returns
        -------
        Allocation
            Its objective is the smallest share per weight. Its gap is the loss relative to the max-min level of
            divisible tasks, with all servers as one pool; ``ok`` does not depend on it.

        Raises
        ------
        InvalidBlock
            If ``integral`` is False.
        OutOfDomain
            If demands or the share of a user differ by server, its share is zero, or it could run more than 1e9 tasks.
        NotCertified
            If the answer could not be certified, or the time was over.

        Notes
        -----
        A million tasks of 1,000 users take 3 seconds on one pool, and 8 on 1,500 servers.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.SequentialMinMax().allocate(fo.Instance([[2], [3]], [4], counts=[2]))
        >>> a.tasks, round(a.certificate.gap, 3), a.certificate.ok
        (array([2., 1.]), 0.25, True)
        """
        clock = begin(time_limit)
        if integral is not True and integral != "rounded":
            raise InvalidBlock(f"integral is {integral!r}, and {self.name} gives whole tasks only; leave it out")
        require_instance(instance)
        refuse_guarantees(instance, self.name)
        return clock.run(lambda: self._solved(instance, clock.begun))

    def _solved(self, instance: Instance, begun: float) -> Allocation:
        """The certified allocation."""
        n, part = instance.n_users, np.flatnonzero(instance.task_limits > 0)
        per_task = np.ones(n)
        if len(part):
            some = instance if len(part) == n else taking_part(instance, part)
            per_task[part] = _alike(some, self.share) / some.weights
        most = np.minimum(instance.tasks_alone.sum(axis=1), instance.task_limits)
        for j in np.flatnonzero(most > MAX_TASKS)[:1]:
            many = f"{most[j]:.3g} tasks, and up to {MAX_TASKS:g} are placed one by one; give it a task limit"
            raise OutOfDomain(f"user {instance.users[j]!r} could run {many}")
        each, units = instance.individual(), _units(instance)
        servers = Servers(each.capacities, slack(each, each.capacities))
        allowed = [None] * n if instance.derived.everywhere else each.eligible
        requests = [servers.request(units[j], allowed[j]) for j in range(n)]
        check("placing tasks one after the other")
        user, server = one_after_the_other(servers, requests, per_task, instance.task_limits, self.placement)
        placed = measured(instance, user, server)
        allocation = gate.of_steps(self, instance, placed, self.share, begun)
        if not allocation.certificate.ok:
            raise NotCertified(
                f"{self.name} could not be proved: violation {placed.violation:.2g} (tolerance 1e-9), and one more "
                f"task of {len(placed.unsatisfied)} users would fit. Fix: see .best for what was found",
                best=allocation,
            )
        return allocation


def _alike(instance: Instance, share: Share) -> Float:
    """The share of one task of each user, (n_users,); `OutOfDomain` where it differs by server."""
    c = share.coefficients(instance, levelled=True)
    if c.ndim == 1:
        return c
    low, high = np.where(instance.eligible, c, np.inf).min(axis=1), np.where(instance.eligible, c, 0.0).max(axis=1)
    if (differs := high > low).any():
        user = instance.users[int(differs.argmax())]
        raise OutOfDomain(f"{share} of one task of user {user!r} differs by server; use one that is the same on each")
    return high


def _units(instance: Instance) -> Float:
    """Demands of each user, (n_users, n_resources); `OutOfDomain` where they differ by server."""
    if instance.demands.ndim == 2:
        return instance.demands
    first = instance.demands[np.arange(instance.n_users), instance.eligible.argmax(axis=1)]
    other = (instance.demands != first[:, None]).any(axis=2) & instance.eligible
    if other.any():
        user = instance.users[int(other.any(axis=1).argmax())]
        raise OutOfDomain(f"demands of user {user!r} differ by server; give it the same on every server where it runs")
    return first
