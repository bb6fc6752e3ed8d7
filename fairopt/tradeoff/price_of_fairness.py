"""Bounds on the price of fairness: how much smaller than the largest the sum of shares of a fair allocation can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from fairopt.blocks.efficiency import single_term
from fairopt.blocks.objectives import AlphaFair, Leximin, Total
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.policy import Policy

__all__ = ["alpha_on_one_share", "equal_alone", "largest_price"]

EQUAL = 1e-9  # relative difference of shares alone that is rounding


def largest_price(alpha: float, n: int) -> float:
    """The bound on the price of alpha-fairness among n users whose largest shares are equal.

    Parameters
    ----------
    alpha : float
        At least 0; 1 is proportional fairness, infinity leximin.
    n : int
        Number of users.

    Returns
    -------
    float
        ``1 - min over x in [1, n] of (x^(1+1/alpha) + n - x) / (x^(1+1/alpha) + (n-x) x)``, reached by some instance
        where the best x is whole.

    Raises
    ------
    InvalidBlock
        If alpha is negative or NaN.

    Notes
    -----
    Source: Bertsimas, Farias and Trichakis (2011) for alpha = 1, where it is ``1 - (2 sqrt(n) - 1)/n``, and for
    infinity, where it is ``1 - 4n/(n+1)^2``; (2012) for every alpha > 0.

    Examples
    --------
    >>> largest_price(1, 4), round(largest_price(2, 4), 6), largest_price(float("inf"), 3)
    (0.25, 0.29917, 0.25)
    """
    if not alpha >= 0:
        raise InvalidBlock(f"alpha is {alpha!r}; give a number >= 0")
    if n <= 1 or alpha == 0:
        return 0.0
    if math.isinf(alpha):
        return 1 - 4 * n / (n + 1) ** 2
    if alpha == 1:
        return 1 - (2 * math.sqrt(n) - 1) / n
    power = 1 / alpha

    def kept(log_x: Any) -> Any:
        x = np.exp(log_x)
        return (1 + (n - x) * x ** (-power - 1)) / (1 + (n - x) * x**-power)

    grid = np.linspace(0, math.log(n), 2001)
    values = kept(grid)
    k = int(np.argmin(values))
    ends = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    best = minimize_scalar(kept, bounds=ends, method="bounded", options={"xatol": 1e-10})
    return 1 - min(float(best.fun), float(values[k]))


def alpha_on_one_share(mechanism: object) -> tuple[float, Share] | None:
    """Alpha and the share of a policy without further constraints that is alpha-fair on it, infinity for leximin."""
    if not isinstance(mechanism, Policy) or mechanism.constraints:
        return None
    objective = mechanism.objective
    if isinstance(objective, Leximin):
        return math.inf, objective.share
    term = single_term(objective)
    if type(term) is AlphaFair:
        return term.alpha, term.share
    return (0.0, term.share) if type(term) is Total else None


def equal_alone(instance: Instance, share: Share) -> bool:
    """Whether all users, with a task limit above 0, have the same share when they are alone."""
    c, alone, limits = share.coefficients(instance), instance.tasks_alone, instance.task_limits
    total = alone.sum(axis=1)
    if c.ndim == 1:
        most = c * np.minimum(total, limits)
    else:  # with a limit, the servers of the largest shares count first: then it is not known here
        most = np.where(limits < total, np.nan, (np.where(instance.eligible, c, 0.0) * alone).sum(axis=1))
    return bool(most.min(initial=np.inf) >= most.max(initial=0.0) * (1 - EQUAL))
