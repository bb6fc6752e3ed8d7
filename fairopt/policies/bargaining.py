"""Bargaining solutions with a disagreement point: of Nash, and of Kalai and Smorodinsky."""

from __future__ import annotations

from typing import Any

from fairopt.blocks.ideal import IdealGain
from fairopt.blocks.objectives import AlphaFair, Leximin
from fairopt.blocks.shares import Tasks
from fairopt.blocks.teams import Surplus
from fairopt.policy import Policy, makes_policies


@makes_policies
def NashBargaining(disagreement: Any = None) -> Policy:
    """The Nash bargaining solution: the largest product of what users have above their disagreement point (Nash 1950).

    Weights are exponents. A user who cannot rise above its disagreement point stays there and leaves the product.

    Parameters
    ----------
    disagreement : scalar, array-like of shape (n_users,) or dict by user, optional
        Tasks of each user if they do not agree, which every user keeps. Default: the guarantees of the instance.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.NashBargaining([2, 0]).allocate(fo.Instance([[1], [1]], [8])).tasks.round(6)
    array([5., 3.])
    """
    return Policy(AlphaFair(1, Surplus(Tasks(), disagreement)), name="Nash bargaining")


@makes_policies
def KalaiSmorodinsky(disagreement: Any = None) -> Policy:
    """The solution of Kalai and Smorodinsky (1975) for many users: leximin of ``(x - b) / (ideal - b)`` (Imai 1983).

    Numbers are compared per weight. b is the disagreement point; the ideal of a user is the most tasks that it could
    run when every other user is at b. A user who cannot rise above b stays there. On several servers the ideals are one
    linear program per user, unless b is 0.

    Parameters
    ----------
    disagreement : scalar, array-like of shape (n_users,) or dict by user, optional
        Tasks of each user if they do not agree, which every user keeps. Default: the guarantees of the instance.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.KalaiSmorodinsky([2, 0]).allocate(fo.Instance([[1], [1]], [8], task_limits=[4, None])).tasks.round(6)
    array([3.5, 4.5])
    """
    return Policy(Leximin(Surplus(IdealGain(disagreement), disagreement)), name="Kalai-Smorodinsky")
