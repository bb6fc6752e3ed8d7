"""Sums over groups of servers (classes of identical ones, or types), and the part of their capacity in use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.instance import Instance

__all__ = ["capacity_of", "part_of", "sum_by"]

Float = NDArray[np.floating[Any]]


def sum_by(groups: NDArray[np.int64], by_row: Float) -> Float:
    """Sums over the server rows of each group.

    Parameters
    ----------
    groups : ndarray of int of shape (n_servers,)
        Group of each row, numbered from 0 without gaps, as `Instance.server_classes`.
    by_row : ndarray of shape (n_servers, ...)
        Numbers of each row.

    Returns
    -------
    ndarray of shape (n_groups, ...)

    Examples
    --------
    >>> sum_by(np.array([0, 1, 0]), np.array([[1.0], [2.0], [3.0]])).tolist()
    [[4.0], [2.0]]
    """
    out = np.zeros((int(groups.max()) + 1, *by_row.shape[1:]))
    np.add.at(out, groups, by_row)
    return out


def capacity_of(instance: Instance, groups: NDArray[np.int64]) -> Float:
    """Units of each resource that all servers of each group have together.

    Parameters
    ----------
    instance : Instance
        Rows that stand for several servers count as often.
    groups : ndarray of int of shape (n_servers,)
        Group of each row.

    Returns
    -------
    ndarray of shape (n_groups, n_resources)
    """
    return sum_by(groups, instance.capacities * instance.counts[:, None])


def part_of(instance: Instance, groups: NDArray[np.int64], units: Float) -> Float:
    """The part of each group's capacity that so many units are.

    Parameters
    ----------
    instance : Instance
        Whose capacities.
    groups : ndarray of int of shape (n_servers,)
        Group of each row.
    units : ndarray of shape (n_servers, n_resources)
        Units of all servers of a row, as `Allocation.usage`.

    Returns
    -------
    ndarray of shape (n_groups, n_resources)
        From 0 to 1; NaN where a group has none of a resource.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 1]], [[4, 2], [4, 2], [8, 0]], counts=[1, 2, 1])
    >>> part_of(cluster, cluster.server_classes, np.array([[1.0, 1.0], [5.0, 5.0], [2.0, 0.0]])).tolist()
    [[0.5, 1.0], [0.25, nan]]
    """
    capacity = capacity_of(instance, groups)
    return np.divide(sum_by(groups, units), capacity, out=np.full(capacity.shape, np.nan), where=capacity > 0)
