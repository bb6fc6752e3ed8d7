"""Measures of allocations: evenness of values, over servers and within groups, and utilisation.

The groups are those of Hamzeh et al. (2021): on each server a user belongs to the dominant group of the resource of
which its task uses the largest fraction of that server's capacity, and to the non-dominant groups of the other
resources that it needs. Only eligible users with a positive task limit count. Equations and figures cited here are of
that paper.

Measures refer to **bundles** (amounts that users hold) or **tasks** (amounts that tasks use). These differ for MLF-DRS,
FFMRA and H-FFMRA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.allocation import Allocation, part_of_capacity
from fairopt.blocks.base import brief
from fairopt.blocks.powers import log_fairness
from fairopt.errors import InvalidBlock, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float

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

OF = ("bundles", "tasks")


@dataclass(frozen=True, eq=False)
class ByGroup:
    """A number for the dominant and the non-dominant group of each resource on each server row.

    Attributes
    ----------
    resources : tuple of str
        Labels of the columns.
    counts : ndarray of int of shape (n_servers,)
        Number of servers in each row.
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
        """Mean over all servers on which the group has a member.

        Returns
        -------
        dict of dict of float
            ``{"dominant": {resource: ...}, "non-dominant": {resource: ...}}``; NaN if there are none.

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
        Largest minus smallest share over the servers (eqs. 12 and 13); NaN for groups without members.
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
        """Largest minus smallest mean share over the **resources**, by group, as in Fig. 9."""
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
        Fraction of the capacity of each server; 0 for capacity 0.
    total : dict of float by resource
        Fraction of the total capacity; 0 for capacity 0.
    mean : dict of float by resource
        Unweighted mean of ``by_server`` over the servers that have the resource (eq. 16); NaN if there are none.

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
    """The share of each server's capacity that the dominant and the non-dominant group of each resource hold.

    Parameters
    ----------
    allocation : Allocation
        The allocation to measure.
    of : {"bundles", "tasks"}, default "bundles"
        Amounts that users hold, or that their tasks use.

    Returns
    -------
    ByGroup

    Raises
    ------
    InvalidBlock
        If ``of`` is something else.

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
    """Beta-fairness: the largest minus the smallest share of capacity that a group holds, over servers.

    Parameters
    ----------
    allocation, of :
        As in `group_shares`.

    Returns
    -------
    BetaFairness

    Notes
    -----
    Source: Hamzeh et al. (2021), eqs. 12 and 13, printed as a chain of differences of all servers; with two servers
    both readings agree. Servers on which the group has no member are ignored. Figs. 7 to 9 compare resources instead
    of servers: see `BetaFairness.between_resources`.

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
    """Jain's index: 1 if all values are equal, ``1/n`` if all but one are 0.

    Parameters
    ----------
    values : array-like of shape (n,)
        Nonnegative numbers.

    Returns
    -------
    float
        ``(sum u)^2 / (n sum u^2)``; 1 if all are 0.

    Raises
    ------
    OutOfDomain
        If a value is negative, infinite or NaN.

    Notes
    -----
    Hamzeh et al. (2021) print eqs. 14 and 15 without the squares in the denominator; their Fig. 10 exceeds 1, which the
    index cannot.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.metrics.jain([2, 2, 2]), fo.metrics.jain([1, 0])
    (1.0, 0.5)
    """
    u = np.asarray(values, dtype=np.float64).ravel()
    wrong = ~(np.isfinite(u) & (u >= 0))
    if wrong.any():
        raise OutOfDomain(f"Jain's index needs finite numbers >= 0, and one is {u[wrong][0]}; leave it out")
    return float(_jain(u[:, None], np.ones((len(u), 1), dtype=np.bool_))[0]) if u.any() else 1.0


def f_beta(values: ArrayLike, beta: float, weights: ArrayLike | None = None) -> float:
    """The fairness measure of type beta, relative to its absolute value at equal values per weight.

    Parameters
    ----------
    values : array-like of shape (n,)
        Nonnegative numbers, such as shares.
    beta : float
        The type, not 0; -1 gives Jain's index. For beta > 1 the measure is negative, -1 at best.
    weights : array-like of shape (n,), optional
        Positive entitlements. Default: equal.

    Returns
    -------
    float
        ``sgn(1-beta) (sum_j w_j (u_j / (w_j U))^(1-beta))^(1/beta)`` with the sum U of the values and weights of
        sum 1; 1 at beta = 1 for all values.

    Raises
    ------
    OutOfDomain
        If beta is 0, infinite or NaN, if all values are 0, or one is negative, infinite or NaN.

    Notes
    -----
    Source: Lan et al. (2010); the fairness factor of Joe-Wong et al. (2013, eq. 3), divided by the number of users. It
    is not related to `beta_fairness`.

    Examples
    --------
    >>> import fairopt as fo
    >>> [round(fo.metrics.f_beta([1, 3], beta), 4) for beta in (-1, 0.5, 1, 2)]
    [0.8, 0.933, 1.0, -1.1547]
    """
    u = np.asarray(values, dtype=np.float64).ravel()
    if not (np.isfinite(u).all() and (u >= 0).all() and (u > 0).any()) or beta == 0 or not np.isfinite(beta):
        raise OutOfDomain(f"f_beta needs finite numbers >= 0, some > 0, and a finite beta other than 0; got {beta=}")
    w = np.ones(len(u)) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    if len(w) != len(u) or not (np.isfinite(w).all() and (w > 0).all()):
        raise OutOfDomain(f"f_beta of {len(u)} values got the weights {brief(weights)}; give as many, finite and > 0")
    size = np.exp(log_fairness(u[None], w / w.sum(), beta)[0][0])
    return float(size if beta <= 1 else -size)


def group_jain(allocation: Allocation, of: str = "bundles") -> ByGroup:
    """Jain's index of the amounts of its resource that the members of each group hold, by server.

    Parameters
    ----------
    allocation, of :
        As in `group_shares`.

    Returns
    -------
    ByGroup
        NaN if the members of a group hold nothing. A group of one has index 1. ``mean()`` ignores sizes of servers.

    Notes
    -----
    Source: eqs. 14 and 15, with the square that they lack (see `jain`). If users run on few servers, as in DRFH, the
    index per server is low even for equal totals; compute `jain` of the totals as well.

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
    allocation, of :
        As in `group_shares`.

    Returns
    -------
    Utilisation

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
    """The index of each column's members; NaN if there are none or they hold nothing."""
    u = np.where(members, held, 0.0)
    top = u.max(axis=0, initial=0.0)
    u /= np.where(top > 0, top, 1.0)  # squares neither underflow nor overflow
    squares = np.einsum("js,js->s", u, u) * members.sum(axis=0)
    index = np.divide(u.sum(axis=0) ** 2, squares, out=np.full(len(top), np.nan), where=squares > 0)
    return np.minimum(index, 1.0)  # rounding


def _mean(values: Float, counts: NDArray[np.int64]) -> Float:
    """Mean of each column without NaN, weighted by counts."""
    weights = np.broadcast_to(counts[:, None], values.shape)
    mean: Any = np.ma.average(np.ma.masked_invalid(values), axis=0, weights=weights)
    return mean.filled(np.nan)


def _spread(values: Float) -> Float:
    """Largest minus smallest number of each column without NaN."""
    return np.ma.masked_invalid(values).ptp(axis=0).filled(np.nan)
