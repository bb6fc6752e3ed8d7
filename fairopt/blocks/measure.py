"""The measure of fairness and efficiency of given shares, in logarithms, defined on the whole plane."""

from __future__ import annotations

import numpy as np

from fairopt.blocks.powers import log_sum_exp
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import EPS


def log_fairness(shares: Float, weights: Float, beta: float) -> tuple[Float, Float]:
    """``log (sum_j w_j (s_j/(w_j S))^(1-beta)) / beta`` of each row of shares, and bounds on its rounding error.

    Shares have shape (k, n), with a positive sum in each row. The value is infinite if beta > 1 and a share is zero; at
    beta = 1 it is the logarithm of the total weight, as 0^0 = 1.
    """
    k, n = shares.shape
    if beta == 1:
        return np.full(k, np.log(weights.sum())), np.zeros(k)
    part = shares / shares.sum(axis=1, keepdims=True)
    held = part > 0
    with np.errstate(divide="ignore"):
        log_part, log_level = np.log(part), np.where(held, np.log(part / weights), 0.0)
    largest = np.abs(log_level).max(axis=1)
    powers = -beta * log_level  # the sum is that of part * level^-beta, and parts add up to 1
    near = np.abs(beta) * largest <= 1  # for beta -> 0 the result tends to the entropy
    close = np.log1p((part * np.expm1(np.where(near[:, None], powers, 0.0))).sum(axis=1))
    value = np.where(near, close, log_sum_exp(log_part + powers)) / beta
    error = 4 * (n + 8) * EPS * (1 + largest) * np.where(near, 1.0, 1 + 1 / abs(beta))
    return (np.where(held.all(axis=1), value, np.inf) if beta > 1 else value), error


def log_total(shares: Float) -> tuple[Float, Float]:
    """The logarithm of the sum of each row of shares, and bounds on its rounding error."""
    value = np.log(shares.sum(axis=1))
    return value, 4 * (shares.shape[1] + 8) * EPS * (1 + np.abs(value))
