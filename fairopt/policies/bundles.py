"""Notions that share out bundles, resource by resource: MLF-DRS, FFMRA and H-FFMRA."""

from __future__ import annotations

from fairopt.blocks.bundles import AtMostRequested, FairShareBase, GlobalAggregateResource, WeightedLog
from fairopt.policy import Policy

__all__ = ["FFMRA", "HFFMRA", "MLFDRS"]


def MLFDRS(growth: str = "proportional") -> Policy:
    """MLF-DRS: every server's resources shared out in proportion to bases (Hamzeh et al. 2019, Algorithm 1).

    Parameters
    ----------
    growth : {"proportional", "equal"}, default "proportional"
        How what the bases leave over is handed out; see `FairShareBase`.

    Returns
    -------
    Policy
        Whose ``Allocation.bundles`` is the answer; ``tasks`` are what those bundles can run.

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


def FFMRA(units: str = "share") -> Policy:
    """FFMRA: MLF-DRS inside dominant and non-dominant groups, each with its part of a server (Hamzeh et al. 2019).

    On several servers each is looked at alone; see `HFFMRA` for groups that add up over the whole cluster.

    Parameters
    ----------
    units : {"share", "raw"}, default "share"
        See `GlobalAggregateResource`.

    Returns
    -------
    Policy

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.FFMRA(units="raw").allocate(fo.Instance([[1, 4], [3, 1]], [9, 18])).bundles[:, 0].round(2)
    array([[ 2.,  14.],
           [ 7.,   4.]])
    """
    return _aggregated("FFMRA", GlobalAggregateResource(units, over="server"))


def HFFMRA(units: str = "share") -> Policy:
    """H-FFMRA: FFMRA on several servers, with one part for all of them (Hamzeh et al. 2020, sec. IV).

    Parameters
    ----------
    units : {"share", "raw"}, default "share"
        See `GlobalAggregateResource`; the paper adds up raw units, which changes with GB or MB.

    Returns
    -------
    Policy
        Whose ``Allocation.bundles`` is the answer; ``tasks`` are what those bundles can run.

    Examples
    --------
    The example of the paper, section III: bundles of both users on the first server, in 23rds.

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
