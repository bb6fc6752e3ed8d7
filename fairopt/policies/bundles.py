"""Notions that divide each resource separately: MLF-DRS, FFMRA and H-FFMRA."""

from __future__ import annotations

from fairopt.blocks.bundles import AtMostRequested, FairShareBase, GlobalAggregateResource, WeightedLog
from fairopt.policy import Policy, makes_policies


@makes_policies
def MLFDRS(growth: str = "proportional") -> Policy:
    """MLF-DRS: each server's resources in proportion to bases (Hamzeh et al. 2019, Algorithm 1).

    Parameters
    ----------
    growth : {"proportional", "equal"}, default "proportional"
        How the remainder is divided, as in `FairShareBase`.

    Returns
    -------
    Policy
        It decides `Allocation.bundles`; tasks are those that fit on them.

    Examples
    --------
    >>> import fairopt as fo
    >>> table = fo.Instance([[3, 1], [5, 3], [1, 5], [2, 7]], [18, 36])
    >>> fo.MLFDRS().allocate(table).bundles[:, 0].round(2)
    array([[ 6.48,  1.64],
           [ 7.2 ,  4.91],
           [ 1.44, 14.73],
           [ 2.88, 14.73]])
    """
    return Policy(WeightedLog(FairShareBase(growth)), name="MLF-DRS" + (f"({growth})" if growth == "equal" else ""))


@makes_policies
def FFMRA(units: str = "share") -> Policy:
    """MLF-DRS within dominant and non-dominant groups, each with its part of a server (Hamzeh et al. 2019, FFMRA).

    Servers are separate; `HFFMRA` sums groups over the whole cluster.

    Parameters
    ----------
    units : {"share", "raw"}, default "share"
        Units of the sums of requests, as in `GlobalAggregateResource`.

    Returns
    -------
    Policy
        It decides `Allocation.bundles`; tasks are those that fit on them.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.FFMRA(units="raw").allocate(fo.Instance([[1, 4], [3, 1]], [9, 18])).bundles[:, 0].round(2)
    array([[ 2.,  14.],
           [ 7.,   4.]])
    """
    return _aggregated("FFMRA", GlobalAggregateResource(units, over="server"))


@makes_policies
def HFFMRA(units: str = "share") -> Policy:
    """H-FFMRA: FFMRA on several servers, with one part for all of them (Hamzeh et al. 2021, sec. IV).

    Parameters
    ----------
    units : {"share", "raw"}, default "share"
        Units of the sums of requests, as in `GlobalAggregateResource`; the paper uses raw ones.

    Returns
    -------
    Policy
        It decides `Allocation.bundles`; tasks are those that fit on them.

    Examples
    --------
    The example of the paper, section III; bundles on the first server in 23rds:

    >>> import fairopt as fo
    >>> example = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]])
    >>> a = fo.HFFMRA(units="raw").allocate(example)
    >>> (a.bundles[:, 0] * 23).round(6)
    array([[ 63., 288.],
           [144., 126.]])
    >>> a.tasks.round(3)
    array([4.261, 3.826])
    """
    return _aggregated("H-FFMRA", GlobalAggregateResource(units))


def _aggregated(name: str, parts: GlobalAggregateResource) -> Policy:
    return Policy(WeightedLog(), [parts, AtMostRequested()], name=name + ("(raw)" if parts.units == "raw" else ""))
