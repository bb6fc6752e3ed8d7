"""Measures of allocations: evenness of values, over servers and within groups, and utilisation.

The groups are those of Hamzeh et al. (2021): on each server a user belongs to the dominant group of the resource of
which its task takes the largest share of that server's capacity, and to the non-dominant groups of the other resources
that it needs. Only users who are eligible on the server and have a task limit above 0 count. Equations and figures
cited here are of that paper.

Measured are **bundles** (what users hold) or **tasks** (what their tasks use): equal where bundles are multiples of the
demands, and different for MLF-DRS, FFMRA and H-FFMRA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.allocation import Allocation, part_of_capacity
from fairopt.blocks.base import brief
from fairopt.blocks.measure import log_fairness
from fairopt.errors import InvalidBlock, OutOfDomain, nearest
from fairopt.instance import Instance

__all__ = [
    "BetaFairness",
    "ByGroup",
    "Utilisation",
    "beta_fairness",
    "f_beta",
    "group_jain",
    "group_shares",
    "jain",
    "utilisation",
]

Float = NDArray[np.float64]
OF = ("bundles", "tasks")


@dataclass(frozen=True, eq=False)
class ByGroup:
    """A number for the dominant and the non-dominant group of each resource on each server row.

    Attributes
    ----------
    resources : tuple of str
        Labels of the columns.
    counts : ndarray of int of shape (n_servers,)
        Number of servers that each row stands for.
    dominant, non_dominant : ndarray of shape (n_servers, n_resources)
        The numbers of the groups, NaN for a group without members.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.DRF().allocate(fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"]))
    >>> shares = fo.metrics.group_shares(a)
    >>> shares.dominant.round(3), shares.non_dominant.round(3)
    (array([[0.667, 0.667]]), array([[0.333, 0.111]]))
    """

    resources: tuple[str, ...]
    counts: NDArray[np.int64]
    dominant: Float
    non_dominant: Float

    def mean(self) -> dict[str, dict[str, float]]:
        """Mean over all servers on which the group has a member, with counts.

        Returns
        -------
        dict of dict of float
            ``{"dominant": {resource: ...}, "non-dominant": {resource: ...}}``; NaN without such servers.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[1, 4], [4, 1]], [8, 8], resources=["cpu", "memory"]))
        >>> fo.metrics.group_shares(a).mean()["dominant"]
        {'cpu': 0.8, 'memory': 0.8}
        """
        return self._each(lambda values: _mean(values, self.counts))

    def spread(self) -> dict[str, dict[str, float]]:
        """Largest minus smallest value over the servers on which the group has a member, in the form of `mean`.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 4], [4, 1]], [[8, 8], [4, 4]], resources=["cpu", "memory"])
        >>> a = fo.NaivePerServer(fo.DRF()).allocate(cluster)
        >>> fo.metrics.group_shares(a).spread()["dominant"]
        {'cpu': 0.0, 'memory': 0.0}
        """
        return self._each(_spread)

    def _each(self, number: Any) -> dict[str, dict[str, float]]:
        groups = {"dominant": self.dominant, "non-dominant": self.non_dominant}
        return {name: _labelled(self.resources, number(values)) for name, values in groups.items()}


@dataclass(frozen=True, eq=False)
class BetaFairness:
    """Beta-fairness: the range over servers of a group's share of capacity; 0 is even.

    Attributes
    ----------
    dominant, non_dominant : dict of float by resource
        Largest minus smallest share over the servers (eqs. 12 and 13); NaN where no server has such a group.
    shares : ByGroup
        The shares by server.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [[9, 18], [9, 18]], resources=["cpu", "memory"])
    >>> found = fo.metrics.beta_fairness(fo.HFFMRA().allocate(cluster))
    >>> round(found.dominant["memory"], 6), sorted(found.between_resources)
    (0.0, ['dominant', 'non-dominant'])
    """

    dominant: dict[str, float]
    non_dominant: dict[str, float]
    shares: ByGroup

    @property
    def between_resources(self) -> dict[str, float]:
        """Largest minus smallest mean share over the **resources**, by group: what Fig. 9 draws."""
        return {
            group: float(_spread(np.array(list(means.values()))[:, None])[0])
            for group, means in self.shares.mean().items()
        }


@dataclass(frozen=True, eq=False)
class Utilisation:
    """Fractions of capacity in use.

    Attributes
    ----------
    by_server : ndarray of shape (n_servers, n_resources)
        Fraction of the capacity of each server; 0 where that is 0.
    total : dict of float by resource
        Fraction of the capacity of all servers together; 0 where that is 0.
    mean : dict of float by resource
        Mean of ``by_server`` over the servers that have the resource, large and small alike (eq. 16); NaN without
        such servers.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 1]], [[8, 8], [2, 4]], resources=["cpu", "memory"])
    >>> found = fo.metrics.utilisation(fo.DRF().allocate(cluster))
    >>> found.by_server.round(3).tolist(), found.mean
    ([[1.0, 1.0], [1.0, 0.5]], {'cpu': 1.0, 'memory': 0.75})
    """

    by_server: Float
    total: dict[str, float]
    mean: dict[str, float]


def group_shares(allocation: Allocation, of: str = "bundles") -> ByGroup:
    """Share of each server's capacity that the dominant and the non-dominant group of each resource hold together.

    Parameters
    ----------
    allocation : Allocation
        The allocation to measure.
    of : {"bundles", "tasks"}, default "bundles"
        Measure what users hold, or what their tasks use.

    Returns
    -------
    ByGroup

    Raises
    ------
    InvalidBlock
        If ``of`` is neither.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.DRF().allocate(fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"]))
    >>> group_shares(a).dominant.round(3)
    array([[0.667, 0.667]])
    """
    instance = allocation.instance
    room = instance.capacities * instance.counts[:, None]
    out = _empty(instance)
    for i, held, groups in _groups(allocation, of):
        for share, members in zip((out.dominant, out.non_dominant), groups, strict=True):
            there = members.any(axis=0)
            share[there, i] = np.einsum("js,js->s", held, members)[there] / room[there, i]
    return out


def beta_fairness(allocation: Allocation, of: str = "bundles") -> BetaFairness:
    """Beta-fairness: over servers, the largest minus the smallest share of capacity that a group holds.

    Parameters
    ----------
    allocation : Allocation
        The allocation to measure.
    of : {"bundles", "tasks"}, default "bundles"
        Measure what users hold, or what their tasks use.

    Returns
    -------
    BetaFairness

    Raises
    ------
    InvalidBlock
        If ``of`` is neither.

    Notes
    -----
    Source: Hamzeh et al. (2021), eqs. 12 and 13, printed as differences of all servers in a row; with two servers both
    readings agree. Servers on which the group has no member are left out. Figs. 7 to 9 compare resources instead of
    servers: see `BetaFairness.between_resources`.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [[9, 18], [9, 18]], resources=["cpu", "memory"])
    >>> beta_fairness(fo.DRF().allocate(cluster)).dominant["cpu"] < 1e-9
    True
    """
    shares = group_shares(allocation, of)
    spread = shares.spread()
    return BetaFairness(spread["dominant"], spread["non-dominant"], shares)


def jain(values: ArrayLike) -> float:
    """Jain's index: 1 where all values are equal, ``1/n`` where all but one are 0.

    Parameters
    ----------
    values : array-like of shape (n,)
        Numbers from 0.

    Returns
    -------
    float
        ``(sum u)^2 / (n sum u^2)``, at most 1; 1 where all are 0.

    Raises
    ------
    OutOfDomain
        If a value is negative, infinite or NaN.

    Notes
    -----
    Hamzeh et al. (2021) print eqs. 14 and 15 without the square of the terms in the denominator, and their Fig. 10 goes
    beyond 1, which the index cannot.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.metrics.jain([2, 2, 2]), fo.metrics.jain([1, 0])
    (1.0, 0.5)
    """
    u = np.asarray(values, dtype=np.float64).ravel()
    wrong = ~(np.isfinite(u) & (u >= 0))
    if wrong.any():
        raise OutOfDomain(f"Jain's index is of finite numbers >= 0, and one of them is {u[wrong][0]}; leave it out")
    return float(_jain(u[:, None], np.ones((len(u), 1), dtype=np.bool_))[0]) if u.any() else 1.0


def f_beta(values: ArrayLike, beta: float, weights: ArrayLike | None = None) -> float:
    """The fairness measure of type beta: 1 where all values per weight are equal, in units of its largest size.

    Parameters
    ----------
    values : array-like of shape (n,)
        Numbers from 0, as shares.
    beta : float
        The type, not 0; -1 gives Jain's index, and for beta > 1 the measure is negative: -1 at best, towards minus
        infinity the less even the values are.
    weights : array-like of shape (n,), optional
        Entitlements > 0, by default equal.

    Returns
    -------
    float
        ``sgn(1-beta) (sum_j w_j (u_j / (w_j U))^(1-beta))^(1/beta)`` with the sum U of the values and weights of
        sum 1; 1 at beta = 1, where the measure does not tell values apart.

    Raises
    ------
    OutOfDomain
        If beta is 0, infinite or NaN, if all values are 0, or one is negative, infinite or NaN.

    Notes
    -----
    Source: Lan et al. (2010); the part of the measure of Joe-Wong et al. (2013, eq. 3) without efficiency, divided by
    the number of users. It is another measure than `beta_fairness`.

    Examples
    --------
    >>> import fairopt as fo
    >>> [round(fo.metrics.f_beta([1, 3], beta), 4) for beta in (-1, 0.5, 1, 2)]
    [0.8, 0.933, 1.0, -1.1547]
    """
    u = np.asarray(values, dtype=np.float64).ravel()
    if not (np.isfinite(u).all() and (u >= 0).all() and (u > 0).any()) or beta == 0 or not np.isfinite(beta):
        raise OutOfDomain(f"f_beta is of finite numbers >= 0, some > 0, and a finite beta other than 0; got {beta=}")
    w = np.ones(len(u)) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    if len(w) != len(u) or not (np.isfinite(w).all() and (w > 0).all()):
        raise OutOfDomain(f"f_beta of {len(u)} values got the weights {brief(weights)}; give as many, finite and > 0")
    size = np.exp(log_fairness(u[None], w / w.sum(), beta)[0][0])
    return float(size if beta <= 1 else -size)


def group_jain(allocation: Allocation, of: str = "bundles") -> ByGroup:
    """Jain's index of the amounts of its resource that the members of each group hold, server by server.

    Parameters
    ----------
    allocation : Allocation
        The allocation to measure.
    of : {"bundles", "tasks"}, default "bundles"
        Measure what users hold, or what their tasks use.

    Returns
    -------
    ByGroup
        NaN also where the members of a group hold nothing. A group of one has index 1. ``mean()`` weighs servers of all
        sizes alike.

    Raises
    ------
    InvalidBlock
        If ``of`` is neither.

    Notes
    -----
    Source: eqs. 14 and 15, with the square that they lack (see `jain`). Where users run on some servers only, as by
    DRFH, an index per server is low even for equal totals: take `jain` of the totals as well.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.DRF().allocate(fo.Instance([[2, 1], [1, 0.5], [1, 3]], [9, 18], resources=["cpu", "memory"]))
    >>> group_jain(a).mean()["dominant"]
    {'cpu': 1.0, 'memory': 1.0}
    """
    out = _empty(allocation.instance)
    for i, held, groups in _groups(allocation, of):
        for index, members in zip((out.dominant, out.non_dominant), groups, strict=True):
            index[:, i] = _jain(held, members)
    return out


def utilisation(allocation: Allocation, of: str = "bundles") -> Utilisation:
    """Fraction of each resource in use, by server and in total.

    Parameters
    ----------
    allocation : Allocation
        The allocation to measure.
    of : {"bundles", "tasks"}, default "bundles"
        Measure what users hold, or what their tasks use (less, for H-FFMRA).

    Returns
    -------
    Utilisation

    Raises
    ------
    InvalidBlock
        If ``of`` is neither.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], resources=["net", "ram", "cpu"]))
    >>> utilisation(a).total
    {'net': 1.0, 'ram': 0.4125, 'cpu': 0.1625}
    """
    instance = allocation.instance
    used = allocation.task_usage if _checked(of) == "tasks" else allocation.usage
    by_server = part_of_capacity(used, instance.capacities * instance.counts[:, None], 0.0)
    total = part_of_capacity(used.sum(axis=0), instance.total_capacities, 0.0)
    mean = _mean(np.where(instance.capacities > 0, by_server, np.nan), instance.counts)
    return Utilisation(by_server, _labelled(instance.resources, total), _labelled(instance.resources, mean))


# -- what they share ------------------------------------------------------------------------------------------------


def _checked(of: str) -> str:
    if of not in OF:
        raise InvalidBlock(f"of is {of!r}; {nearest(of, OF)}")
    return of


def _labelled(resources: tuple[str, ...], values: Float) -> dict[str, float]:
    return {r: float(v) for r, v in zip(resources, values, strict=True)}


def _empty(instance: Instance) -> ByGroup:
    shape = (instance.n_servers, instance.n_resources)
    return ByGroup(instance.resources, instance.counts, np.full(shape, np.nan), np.full(shape, np.nan))


def _groups(allocation: Allocation, of: str) -> Any:
    """For each resource: units that users hold, and members of its two groups, (n_users, n_servers) each."""
    by_tasks = _checked(of) == "tasks"
    instance = allocation.instance
    dominant, demands = instance.dominance.dominant, instance.per_server_demands
    part = instance.eligible & (instance.task_limits > 0)[:, None]
    for i in range(instance.n_resources):
        held = demands[:, :, i] * allocation.tasks_by_server if by_tasks else allocation.bundles[:, :, i]
        mine = part & dominant[:, :, i]
        yield i, held, (mine, part & ~mine & (demands[:, :, i] > 0))


def _jain(held: Float, members: NDArray[np.bool_]) -> Float:
    """The index of each column's members; NaN where they hold nothing, or there are none."""
    u = np.where(members, held, 0.0)
    top = u.max(axis=0, initial=0.0)
    u /= np.where(top > 0, top, 1.0)  # so that squares neither vanish nor overflow
    squares = np.einsum("js,js->s", u, u) * members.sum(axis=0)
    # rounding may put the index of equal values a few ulps above 1
    index = np.divide(u.sum(axis=0) ** 2, squares, out=np.full(len(top), np.nan), where=squares > 0)
    return np.minimum(index, 1.0)


def _mean(values: Float, counts: NDArray[np.int64]) -> Float:
    """Mean of each column without NaN, weighted by counts."""
    weights = np.broadcast_to(counts[:, None], values.shape)
    mean: Any = np.ma.average(np.ma.masked_invalid(values), axis=0, weights=weights)
    return mean.filled(np.nan)


def _spread(values: Float) -> Float:
    """Largest minus smallest number of each column without NaN."""
    return np.ma.masked_invalid(values).ptp(axis=0).filled(np.nan)
