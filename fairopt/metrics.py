"""How even an allocation is over servers and within groups, and how full: numbers that need no solve.

The groups are those of H-FFMRA (Hamzeh et al. 2020): on each server a user belongs to the dominant group of the
resource of which its task takes the largest share of that server's capacity, and to the non-dominant groups of whatever
else it needs. Users who take part are those who are eligible on the server and have a task limit above zero.

Equations and figures cited here are those of Hamzeh et al. (2020).

What is measured are **bundles** (what users hold) or **tasks** (what their tasks use): the two are the same where
bundles are multiples of the demands, and far apart for MLF-DRS, FFMRA and H-FFMRA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.allocation import Allocation, part_of_capacity
from fairopt.errors import InvalidBlock, OutOfDomain, nearest
from fairopt.instance import Instance

__all__ = [
    "BetaFairness", "ByGroup", "Utilisation", "beta_fairness", "group_jain", "group_shares", "jain", "utilisation",
]  # fmt: skip

Float = NDArray[np.floating[Any]]
OF = ("bundles", "tasks")


@dataclass(frozen=True, eq=False)
class ByGroup:
    """A number for the dominant and the non-dominant group of each resource on each server row.

    Attributes
    ----------
    resources : tuple of str
        Labels of the columns.
    counts : ndarray of int of shape (n_servers,)
        How many servers each row stands for.
    dominant, non_dominant : ndarray of shape (n_servers, n_resources)
        NaN where the group has no member.
    """

    resources: tuple[str, ...]
    counts: NDArray[np.int64]
    dominant: Float
    non_dominant: Float

    def mean(self) -> dict[str, dict[str, float]]:
        """Mean over all servers on which the group has a member, each as often as its count.

        Returns
        -------
        dict of dict of float
            ``{"dominant": {resource: ...}, "non-dominant": {resource: ...}}``; NaN where there is no such server.
        """
        return self._each(lambda values: _mean(values, self.counts))

    def spread(self) -> dict[str, dict[str, float]]:
        """Largest minus smallest value over the servers on which the group has a member, in the shape of `mean`."""
        return self._each(_spread)

    def _each(self, number: Any) -> dict[str, dict[str, float]]:
        groups = {"dominant": self.dominant, "non-dominant": self.non_dominant}
        return {name: _labelled(self.resources, number(values)) for name, values in groups.items()}


@dataclass(frozen=True, eq=False)
class BetaFairness:
    """How unevenly a group's share of capacity falls over the servers: 0 is even.

    Attributes
    ----------
    dominant, non_dominant : dict of float by resource
        Largest minus smallest share over the servers (eqs. 12 and 13); NaN where no server has such a group.
    shares : ByGroup
        The shares of capacity that they come from.
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
    """How full the servers are.

    Attributes
    ----------
    by_server : ndarray of shape (n_servers, n_resources)
        Units in use per unit of capacity; 0 where a server has none.
    total : dict of float by resource
        Units in use on all servers together per unit of capacity on all of them; 0 where there is none.
    mean : dict of float by resource
        Mean of ``by_server`` over the servers that have the resource, large and small alike (eq. 16); NaN where
        none has it.
    """

    by_server: Float
    total: dict[str, float]
    mean: dict[str, float]


def group_shares(allocation: Allocation, of: str = "bundles") -> ByGroup:
    """Share of each server's capacity that the dominant and the non-dominant group of each resource hold together.

    Parameters
    ----------
    allocation : Allocation
        Any.
    of : {"bundles", "tasks"}
        What users hold, or what their tasks use.

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
        Any.
    of : {"bundles", "tasks"}
        What users hold, or what their tasks use.

    Returns
    -------
    BetaFairness

    Raises
    ------
    InvalidBlock
        If ``of`` is neither.

    Notes
    -----
    Source: Hamzeh et al. (2020), eqs. 12 and 13, printed as differences of all servers in a row; with two servers both
    readings agree. Servers on which the group has no member are left out. Figs. 7 to 9 compare resources instead of
    servers: see `BetaFairness.between_resources`.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [[9, 18], [9, 18]], resources=["cpu", "memory"])
    >>> beta_fairness(fo.DRFH().allocate(cluster)).dominant["cpu"] < 1e-9
    True
    """
    shares = group_shares(allocation, of)
    spread = shares.spread()
    return BetaFairness(spread["dominant"], spread["non-dominant"], shares)


def jain(values: ArrayLike) -> float:
    """Jain's index: 1 where all have the same, ``1/n`` where one has everything.

    Parameters
    ----------
    values : array-like
        What each of n users has, 0 or more.

    Returns
    -------
    float
        ``(sum u)^2 / (n sum u^2)``, never above 1; 1 where all have nothing.

    Raises
    ------
    OutOfDomain
        If a value is negative, infinite or no number.

    Notes
    -----
    Hamzeh et al. (2020) print eqs. 14 and 15 without the square of the terms in the denominator, and their Fig. 10 goes
    beyond 1, which the index cannot.

    Examples
    --------
    >>> jain([2, 2, 2]), jain([1, 0])
    (1.0, 0.5)
    """
    u = np.asarray(values, dtype=np.float64).ravel()
    wrong = ~(np.isfinite(u) & (u >= 0))
    if wrong.any():
        raise OutOfDomain(f"Jain's index is of finite numbers >= 0, but one of them is {u[wrong][0]}; leave it out")
    return float(_jain(u[:, None], np.ones((len(u), 1), dtype=np.bool_))[0]) if u.any() else 1.0


def group_jain(allocation: Allocation, of: str = "bundles") -> ByGroup:
    """Jain's index of what the members of each group hold of its resource, server by server.

    Parameters
    ----------
    allocation : Allocation
        Any.
    of : {"bundles", "tasks"}
        What users hold, or what their tasks use.

    Returns
    -------
    ByGroup
        NaN also where the members of a group hold nothing. A group of one has index 1. ``mean()`` counts each
        server alike, whatever its size.

    Raises
    ------
    InvalidBlock
        If ``of`` is neither.

    Notes
    -----
    Source: eqs. 14 and 15, with the square that they lack (see `jain`). Where users are placed on some servers
    only, as by DRFH, an index per server is low however even the totals are: take `jain` of those as well.

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
    """How much of each resource is in use, by server and in total.

    Parameters
    ----------
    allocation : Allocation
        Any.
    of : {"bundles", "tasks"}
        What users hold, or what their tasks use: H-FFMRA hands out nearly everything, and its tasks use less.

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
    """For each resource: what each user holds on each server, and who is in its dominant and non-dominant group."""
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
    # rounding may put equal values a few ulps above 1, which Cauchy and Schwarz forbid
    index = np.divide(u.sum(axis=0) ** 2, squares, out=np.full(len(top), np.nan), where=squares > 0)
    return np.minimum(index, 1.0)


def _mean(values: Float, counts: NDArray[np.int64]) -> Float:
    """Mean of each column over its numbers, each row as often as its count."""
    there = ~np.isnan(values)
    weight = np.where(there, counts[:, None], 0).astype(np.float64)
    total = weight.sum(axis=0)
    sums = (weight * np.where(there, values, 0.0)).sum(axis=0)
    return np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)


def _spread(values: Float) -> Float:
    """Largest minus smallest number of each column, NaN where there is none."""
    there = ~np.isnan(values)
    largest = np.where(there, values, -np.inf).max(axis=0, initial=-np.inf)
    smallest = np.where(there, values, np.inf).min(axis=0, initial=np.inf)
    return np.where(there.any(axis=0), largest - smallest, np.nan)
