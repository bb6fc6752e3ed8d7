"""Whether the most efficient allocation is also the fairest; measures of heterogeneity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.constraints import EqualShares
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import DominantShare, Share, Tasks, require_share
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.policy import Policy
from fairopt.properties.exact.confirm import coefficients_of
from fairopt.properties.exact.pool import ExactPool, max_sum
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import begin
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.form.program import require_instance

CORNERS = 2000  # combinations of constraints up to which all optimal vertices are computed in fractions
SHOWN = 5  # users and resources named in a reason


@dataclass(frozen=True, eq=False)
class TradeoffReport:
    """Whether equal shares attain the largest number of tasks; made by `no_tradeoff`.

    Attributes
    ----------
    shortfall : float
        The fraction of the largest number of tasks that equal shares lose.
    always : bool or None
        Whether all allocations with the most tasks have equal shares; None if only one is known.
    most_tasks, equal : Allocation
        An allocation with the most tasks, and that with the most tasks among those with equal shares per weight.
    sums : ndarray of shape (n_servers, n_resources)
        The part of each capacity that a unit of equal share takes, ``sum_j w_j d_ji / (c_j C_i)``, on one pool (15),
        (16); NaN on several servers, where it depends on the placement.
    tight : tuple of str
        Capacities that ``most_tasks`` uses up.
    square, condition : bool
        Proposition 7: whether there are as many tight capacities as users, and whether their ``sums`` are equal.
    idle : tuple of (str, str)
        Users who need more of every resource than another user without a limit, with that user: they run no tasks in
        any allocation with the most tasks (Corollary 5).
    exact : bool
        Whether it was decided in fractions.
    reasons : tuple of str
        The reasons in words.

    Examples
    --------
    >>> import fairopt as fo
    >>> found = fo.tradeoff.no_tradeoff(fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"]))
    >>> found.holds, round(found.shortfall, 4)
    (False, 0.127)
    """

    shortfall: float
    always: bool | None
    most_tasks: Allocation
    equal: Allocation
    sums: Float
    tight: tuple[str, ...]
    square: bool
    condition: bool
    idle: tuple[tuple[str, str], ...]
    exact: bool
    reasons: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether some allocation with equal shares has the most tasks, to within 1e-9."""
        return self.shortfall <= NOISE

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return "\n".join(self.reasons)


def no_tradeoff(instance: Instance, share: Share | None = None, *, time_limit: float | None = None) -> TradeoffReport:
    """Test whether the most efficient allocation is also the fairest: equal shares with the most tasks.

    Parameters
    ----------
    instance : Instance
        Users and servers.
    share : Share, default DominantShare()
        The share that is equal per weight: dominant shares for FDS, `Tasks` for GFJ.
    time_limit : float, optional
        Seconds for the call. If it is over after the two linear programs, ``exact`` is False.

    Returns
    -------
    TradeoffReport

    Raises
    ------
    InvalidBlock
        If the arguments are not an instance and a share.
    OutOfDomain
        If no user may run tasks, or a user has a zero share.
    NotCertified
        If the linear programs take longer than the time limit.

    Notes
    -----
    Generalises Joe-Wong et al. (2013, Propositions 7 and 8, Corollaries 5 and 6): in fractions on one pool of few
    users, else by two certified linear programs. Proposition 7 is false if tight capacities are not independent, and
    Corollary 6 if several allocations have the most tasks.

    Examples
    --------
    Memory of ``6 sqrt(3)`` makes dominant shares equal where most tasks run, and 11.25 numbers of tasks:

    >>> import fairopt as fo
    >>> fo.tradeoff.no_tradeoff(fo.Instance([[1, 4], [3, 1]], [9, 6 * 3**0.5])).holds
    True
    >>> print(fo.tradeoff.no_tradeoff(fo.Instance([[1, 4], [3, 1]], [9, 11.25]), fo.Tasks()).reasons[0])
    Equal shares run 4.5 tasks, and no allocation runs more.

    Counterexamples to Proposition 7, where two capacities are full for the same users, and to Corollary 6, where users
    need the same of one resource:

    >>> found = fo.tradeoff.no_tradeoff(fo.Instance([[1, 1], [2, 2]], [2, 2]))
    >>> found.square, found.condition, found.holds
    (True, True, False)
    >>> found = fo.tradeoff.no_tradeoff(fo.Instance([[1], [1]], [2]))
    >>> found.holds, found.always
    (True, False)
    """
    require_instance(instance)
    share = DominantShare() if share is None else share
    require_share(share, no_tradeoff)
    part = np.flatnonzero(instance.task_limits > 0)
    if not len(part):
        raise OutOfDomain("there are no users with a task limit above 0; add some")
    clock = begin(time_limit)
    most = Policy(Total(Tasks()), name="most tasks").allocate(instance, time_limit=clock.left)
    equally = Policy(Total(Tasks()), [EqualShares(share)], name=f"equal {share}")
    equal = equally.allocate(instance, time_limit=clock.left)
    shortfall = max(0.0, 1 - float(equal.tasks.sum()) / float(most.tasks.sum()))
    some, room = taking_part(instance, part), instance.capacities * instance.counts[:, None]
    exactly, sums = None, np.full(room.shape, np.nan)
    if instance.n_servers == 1:
        exactly = None if clock.late else _exactly(some, share)
        c = share.coefficients(some)
        sums[0] = (some.weights / c) @ some.per_server_demands[:, 0] / np.where(room[0] > 0, room[0], np.nan)
    shortfall, always = exactly or (shortfall, None if shortfall <= NOISE else False)
    full = (most.leftover <= NOISE * room) & (room > 0)
    tight = tuple(
        instance.resources[i] + (f" on {instance.servers[s]}" if instance.n_servers > 1 else "")
        for s, i in np.argwhere(full)
    )
    square, condition = len(tight) == len(part), full.any() and np.ptp(sums[full]) <= NOISE * sums[full].max()
    report = TradeoffReport(
        shortfall, always, most, equal, sums, tight, square, bool(condition), _idle(some), exactly is not None, ()
    )
    return replace(report, reasons=tuple(_reasons(report, sums[full])))


def _exactly(instance: Instance, share: Share) -> tuple[float, bool] | None:
    """The shortfall, and whether all allocations with the most tasks have equal shares; None for too many users."""
    n, m = instance.n_users, instance.n_resources
    if comb(m + n + int(np.isfinite(instance.task_limits).sum()), n) > CORNERS:
        return None
    pool = ExactPool.of(instance)
    speed = [w / c for w, c in zip(pool.weights, coefficients_of(share, instance)[0], strict=True)]
    takes = [sum((v * d[i] for v, d in zip(speed, pool.demands, strict=True)), Fraction(0)) for i in range(m)]
    steps = [cap / take for cap, take in zip(pool.capacities, takes, strict=True) if take > 0]
    level = min(steps + [t / v for t, v in zip(pool.limits, speed, strict=True) if t is not None])
    corners = max_sum(pool, [Fraction(1)] * n)
    assert corners, "as few combinations as these are never refused"
    best = sum(corners[0])
    lost = float(1 - level * sum(speed) / best)
    near = [max(abs(x - level * v) for x, v in zip(corner, speed, strict=True)) <= NOISE * best for corner in corners]
    return lost, lost <= NOISE and all(near)


def _idle(instance: Instance) -> tuple[tuple[str, str], ...]:
    """Users who need more of every resource everywhere than another user without a limit, with that user."""
    d = instance.per_server_demands
    free = np.flatnonzero(np.isinf(instance.task_limits) & instance.eligible.all(axis=1))
    less = ((j, free[(d[free] < d[j]).all(axis=(1, 2))]) for j in range(instance.n_users))
    return tuple((instance.users[j], instance.users[k[0]]) for j, k in less if len(k))


def _reasons(report: TradeoffReport, sums: Float) -> Iterator[str]:
    """The reasons in words; ``sums`` are those of tight capacities."""
    fair, best = float(report.equal.tasks.sum()), float(report.most_tasks.tasks.sum())
    if report.holds:
        yield f"Equal shares run {fair:.6g} tasks, and no allocation runs more."
        if report.always is False:
            yield "Other allocations, with unequal shares, run as many."
        return
    yield f"Equal shares run {fair:.6g} tasks, and another allocation runs {best:.6g}."
    for j, k in report.idle[:SHOWN]:
        yield f"{j} needs more of everything than {k}, so {j} runs no tasks where most run."
    if len(report.idle) > SHOWN:
        yield f"So do {len(report.idle) - SHOWN} more users."
    users = report.most_tasks.instance.users
    held = report.equal.tasks >= (1 - NOISE) * report.equal.instance.task_limits
    for j in np.flatnonzero(held & (report.equal.tasks > 0))[:SHOWN]:
        yield f"Equal shares cannot grow beyond the task limit of {users[j]}."
    without = [users[j] for j in np.flatnonzero(report.most_tasks.tasks <= NOISE * best)]
    if without and not report.idle:
        names = ", ".join(without[:SHOWN]) + (f" and {len(without) - SHOWN} more" if len(without) > SHOWN else "")
        yield f"Most tasks run where {names} run{'s' if len(without) == 1 else ''} none."
    names = ", ".join(report.tight[:SHOWN])
    if report.square and not np.isnan(sums).any():
        parts = ", ".join(f"{name} {x:.4g}" for name, x in zip(report.tight[:SHOWN], sums, strict=False))
        yield f"Most tasks use up {names}, of which equal shares take unequal parts: {parts}."
    elif report.tight:
        yield f"Most tasks use up {names} only, fewer than there are users."


@dataclass(frozen=True, eq=False)
class Heterogeneity:
    """How much the demands of users differ; made by `heterogeneity`.

    Attributes
    ----------
    sigma : ndarray of shape (n_users,)
        Demand for the second resource over that for the first.
    tau : ndarray of shape (n_resources,)
        Demand of the first user over that of the second.
    sigma_variance, tau_variance : float
        Sample variances of ``sigma`` and ``tau``; they depend on units and on sizes of tasks.
    log_ratio_variance : float
        Total variance of demands as compositions (Aitchison 1986): the sum over pairs of resources of the sample
        variance over users of the logarithm of their ratio, over the number of resources. It does not depend on units,
        sizes of tasks or capacities; it is 0 if all users need the same proportions, and infinite if some need
        resources that others do not.

    Examples
    --------
    >>> import fairopt as fo
    >>> found = fo.tradeoff.heterogeneity(fo.Instance([[1, 4], [3, 3]], [9, 18]))
    >>> found.sigma, round(found.sigma_variance, 4), round(found.tau_variance, 4)
    (array([4., 1.]), 4.5, 0.5)
    """

    sigma: Float
    tau: Float
    sigma_variance: float
    tau_variance: float
    log_ratio_variance: float


def heterogeneity(
    instance: Instance, *, users: Sequence[str] | None = None, resources: Sequence[str] | None = None
) -> Heterogeneity:
    """Slopes of Joe-Wong et al. (2013, Fig. 2), their variances, and a measure for any number of resources.

    ``instance.plot(kind="demands")`` and ``kind="region"`` draw the lines.

    Parameters
    ----------
    instance : Instance
        Users and servers; demands must be the same on all servers.
    users : (str, str), optional
        The two users of ``tau``; by default the first two.
    resources : (str, str), optional
        The two resources of ``sigma``; by default the first two.

    Returns
    -------
    Heterogeneity
        NaN stands for the quotient of two zeros, for variances of fewer than two or of infinite slopes, and for
        ``sigma`` or ``tau`` of fewer than two resources or users.

    Raises
    ------
    InvalidBlock
        If ``instance`` is not one, or users or resources are not two names.
    OutOfDomain
        If demands differ by server.

    Examples
    --------
    >>> import fairopt as fo
    >>> round(fo.tradeoff.heterogeneity(fo.Instance([[1, 2, 4], [2, 4, 8]], [9, 18, 5])).log_ratio_variance, 12)
    0.0
    """
    require_instance(instance)
    for name, given in (("users", users), ("resources", resources)):
        if given is not None and (isinstance(given, str) or len(given) != 2):
            raise InvalidBlock(f"{name} are {given!r}; give two names, as {getattr(instance, name)[:2]}")
    if instance.demands.ndim == 3:
        raise OutOfDomain("demands differ by server, so users' proportions are not defined; give (n_users, m)")
    d, n, m = instance.demands, *instance.demands.shape
    columns = [instance.resource_index(r) for r in resources or instance.resources[:2]]
    rows = [instance.user_index(u) for u in users or instance.users[:2]]
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = d[:, columns[1]] / d[:, columns[0]] if len(columns) == 2 else np.full(n, np.nan)
        tau = d[rows[0]] / d[rows[1]] if len(rows) == 2 else np.full(m, np.nan)
    held = d > 0
    alike = bool((held == held[:1]).all())
    total = np.inf
    if alike:
        logs = np.log(d[:, held[0]]) if n else np.zeros((0, m))
        centred = logs - logs.mean(axis=1, keepdims=True)
        total = float(centred.var(axis=0, ddof=1).sum()) if n > 1 else 0.0
    return Heterogeneity(sigma, tau, _variance(sigma), _variance(tau), total)


def _variance(slopes: Float) -> float:
    return float(slopes.var(ddof=1)) if len(slopes) > 1 and np.isfinite(slopes).all() else float("nan")
