"""Notions that level shares: DRF, k-DF and TSF."""

from __future__ import annotations

from typing import Any

from fairopt.blocks.objectives import Leximin
from fairopt.blocks.shares import DominantShare, KDominantShare, StandAloneShare
from fairopt.policy import Policy, makes_policies


@makes_policies
def DRF() -> Policy:
    """Dominant Resource Fairness: leximin of dominant shares per weight (Ghodsi et al. 2011).

    On several servers shares are of total capacity, which the literature calls DRFH (Wang, Liang and Li 2015).

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks
    array([ 2.5, 12.5])
    """
    return Policy(Leximin(DominantShare()), name="DRF")


@makes_policies
def KDF(k: int = 2, rank_weights: Any = None, short: str = "refuse") -> Policy:
    """k-Dominant Fairness: leximin of the product of each user's k largest ratios (Jiang and Wu 2021, sec. 4).

    Parameters
    ----------
    k : int, default 2
        Number of ratios: 2 is 2-DF, 1 is DRF.
    rank_weights : sequence of float, sequence of those by user, or dict of those by user, optional
        Factors of the ratios; only their product matters, so factors common to all users change nothing.
    short : {"refuse", "positive"}, default "refuse"
        For users of fewer than k resources: raise `OutOfDomain`, or multiply their positive ratios only.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.KDF(k=2).allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks.round(4)
    array([ 1.9231, 15.3846])
    """
    return Policy(Leximin(KDominantShare(k, rank_weights, short)), name=f"{k}-DF")


@makes_policies
def TSF() -> Policy:
    """Task Share Fairness: leximin of tasks relative to the whole cluster alone (Wang, Li, Liang and Li 2016).

    The tasks alone ignore placement constraints, as in `StandAloneShare`.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]])
    >>> fo.TSF().allocate(cluster).shares.round(6)
    array([0.833333, 0.833333])
    """
    return Policy(Leximin(StandAloneShare()), name="TSF")
