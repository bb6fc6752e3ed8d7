"""Bounds on the price of fairness: the relative loss in the sum of shares compared with the largest sum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairopt.blocks.algebra import only_term
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.policy import Policy
from fairopt.runtime.lazy import optimize
from fairopt.runtime.tolerances import NOISE


def largest_price(alpha: float, n: int) -> float:
    """The bound on the price of alpha-fairness (infinity: leximin) among n users whose largest shares are equal.

    ``1 - min over x in [1, n] of (x^(1+1/alpha) + n - x) / (x^(1+1/alpha) + (n-x) x)``, attained if the best x is an
    integer (Bertsimas, Farias and Trichakis 2011 for alpha = 1 and infinity, 2012 for every alpha > 0).

    Examples
    --------
    >>> [round(largest_price(alpha, 4), 6) for alpha in (0, 1, 2, float("inf"))]
    [0.0, 0.25, 0.29917, 0.36]
    """
    if not alpha >= 0:
        raise InvalidBlock(f"alpha is {alpha!r}; give a number >= 0")
    if n <= 1 or alpha == 0:
        return 0.0
    power = min(1 / alpha, 1e100)

    def kept(log_x: Any) -> Any:
        others = (n - np.exp(log_x)) * np.exp(-power * log_x)
        return (1 + others * np.exp(-log_x)) / (1 + others)

    grid = np.linspace(0, math.log(n) * min(2 / (1 + power), 1), 2001)  # the best x^(1+power) is below n^2
    k = int(np.argmin(kept(grid)))
    ends = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    least = optimize.minimize_scalar(kept, bounds=ends, method="bounded", options={"xatol": 1e-10 * ends[1]})
    return 1 - float(least.fun)


def price_bound(mechanism: object, instance: Instance) -> float | str:
    """The bound on the price of fairness among users with task limits above 0, or why there is none."""
    why = "no bound on the price of fairness: "
    term = only_term(mechanism.objective) if isinstance(mechanism, Policy) and not mechanism.constraints else None
    alpha = None if term is None else math.inf if term.is_order else term.alpha
    if term is None or alpha is None:
        return why + "it is known for alpha-fair and leximin policies of one share alone"
    if (instance.weights != instance.weights[:1]).any():
        return why + "it is known for equal weights"
    if not _equal_alone(instance, term.share):
        return why + f"users alone have different largest {term.share}, and it assumes equal"
    return largest_price(alpha, instance.n_users)


def _equal_alone(instance: Instance, share: Share) -> bool:
    """Whether all users have the same share alone."""
    c, alone, limits = share.coefficients(instance), instance.tasks_alone, instance.task_limits
    total = alone.sum(axis=1)
    if c.ndim == 1:
        most = c * np.minimum(total, limits)
    else:  # unknown with limits, which fill the servers of the largest shares first
        most = np.where(limits < total, np.nan, (np.where(instance.eligible, c, 0.0) * alone).sum(axis=1))
    return bool(most.min(initial=np.inf) >= most.max(initial=0.0) * (1 - NOISE))
