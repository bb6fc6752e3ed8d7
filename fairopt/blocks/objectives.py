"""Objectives: concave functions of the shares, to maximise."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from fairopt.blocks.algebra import Objective
from fairopt.blocks.base import brief, once, parameter
from fairopt.blocks.normal_form import Linear, Order, Power, Ranked, Term
from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import InvalidBlock

__all__ = ["AlphaFair", "Leximin", "MaxMin", "Objective", "OrderedWeighted", "Total"]


@dataclass(frozen=True, repr=False)
class Total(Objective):
    """The sum of the shares; with `Tasks` the number of tasks ("no fairness constraints", Jiang and Wu 2021).

    Parameters
    ----------
    share : Share, default DominantShare()
        The share that is summed.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Policy(fo.Total(fo.Tasks())).allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks
    array([ 0., 25.])
    """

    share: Share = field(default_factory=DominantShare)

    @once
    def terms(self) -> tuple[Term, ...]:
        return (Term(1.0, Linear(), self.share),)


@dataclass(frozen=True, repr=False)
class AlphaFair(Objective):
    """Weighted alpha-fairness, ``sum_j w_j u(s_j / w_j)`` with ``u(z) = z^(1-alpha) / (1-alpha)``, log z at 1.

    The sum of shares at alpha = 0, Nash welfare at 1, and max-min in the limit (Mo and Walrand 2000; Joe-Wong et al.
    2013, eq. 1 with ``lambda = (1-beta)/beta``).

    Parameters
    ----------
    alpha : float
        From 0 to 1e6; for infinity use `Leximin`.
    share : Share, default DominantShare()
        The share that is compared between users.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> fo.Policy(fo.AlphaFair(1)).allocate(cluster).tasks.round(4)
    array([0.6667, 2.    ])
    """

    alpha: float
    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        super().__post_init__()
        fix = "give a finite number >= 0; for alpha = infinity use Leximin"
        object.__setattr__(self, "alpha", parameter(self.alpha, "alpha", low=0.0, high=1e6, fix=fix))

    @once
    def terms(self) -> tuple[Term, ...]:
        return (Term(1.0, Power(self.alpha), self.share),)


@dataclass(frozen=True, repr=False)
class MaxMin(Objective):
    """The smallest share per weight, ``min_j s_j / w_j``.

    Not Pareto-efficient if demands have zeros or users have limits: see `Leximin`.

    Parameters
    ----------
    share : Share, default DominantShare()
        The share that is compared between users.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Policy(fo.MaxMin()).allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).objective
    0.5
    """

    share: Share = field(default_factory=DominantShare)

    @once
    def terms(self) -> tuple[Term, ...]:
        return (Term(1.0, Ranked((1.0,)), self.share),)


@dataclass(frozen=True, repr=False)
class OrderedWeighted(Objective):
    """A weighted sum of the sorted shares per weight, with the largest weight on the smallest (generalised Gini).

    Parameters
    ----------
    weights : sequence of float
        ``v_1 >= v_2 >= ... >= 0``, padded with zeros: ``(1,)`` is max-min, ``(1, 1, ...)`` the sum.
    share : Share, default DominantShare()
        The share that is sorted.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> fo.Policy(fo.OrderedWeighted((1, 0.5))).allocate(cluster).shares.round(4)
    array([0.5714, 0.5714])
    """

    weights: tuple[float, ...]
    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        super().__post_init__()
        v = tuple(parameter(x, "a weight of OrderedWeighted", low=0.0, high=1e300) for x in np.atleast_1d(self.weights))
        if any(b > a for a, b in pairwise(v)):
            raise InvalidBlock(
                f"weights {brief(v)} of OrderedWeighted increase; give v_1 >= v_2 >= ..., the largest first"
            )
        if not v or v[0] == 0:
            raise InvalidBlock("weights of OrderedWeighted are all zero; give at least one positive")
        object.__setattr__(self, "weights", v)

    @once
    def terms(self) -> tuple[Term, ...]:
        return (Term(1.0, Ranked(self.weights), self.share),)


@dataclass(frozen=True, repr=False)
class Leximin(Objective):
    """Maximise the smallest share per weight, then the second smallest, and so on; with dominant shares this is DRF.

    An order, not a number: it cannot be added or bounded (`MaxMin`, its first level, can).

    Parameters
    ----------
    share : Share, default DominantShare()
        The share that is compared between users.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], task_limits=[1.5, None, 1])
    >>> fo.Policy(fo.Leximin()).allocate(cluster).tasks
    array([1.5       , 2.16666667, 1.        ])
    """

    share: Share = field(default_factory=DominantShare)

    @once
    def terms(self) -> tuple[Term, ...]:
        return (Term(1.0, Order(), self.share),)

    def _refuse_arithmetic(self) -> None:
        raise InvalidBlock(
            f"{self} is an order, not a number: it cannot be added, multiplied or bounded. "
            "Use MaxMin for its first level, or Leximin(...).then(other) to choose among ties"
        )
