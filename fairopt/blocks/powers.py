"""Box-Cox powers, log-sum-exp, and the measure of fairness and efficiency of given shares, in logarithms.

    boxcox(x; p) = (x^p - 1) / p,  log x at p = 0,      log sum exp(a) = t + log sum exp(a - t),  t = max a,
    log f = log(sum_j w_j (s_j / (w_j S))^(1 - beta)) / beta        (docs/methods/objectives.md)

The Box-Cox form is continuous in p at 0, where ``x^p / p`` has a pole: near it ``expm1(p log x) / p`` keeps all digits,
of which ``x^p - 1`` loses log10(1 / p). For beta near 0 the measure tends to the entropy, and a sum near 1 has lost the
digits that the division by beta needs; there it is a sum of expm1 (`log_fairness`). Exponentials overflow above
exp(709), powers before that: logarithms are carried to the end. Error bounds are returned where verdicts depend on
them.
"""

from __future__ import annotations

import math

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import EPS

LARGE = math.log(np.finfo(np.float64).max)  # exp overflows above


def boxcox(x: Float, power: float) -> Float:
    """``(x^power - 1) / power``, the logarithm where the power is 0; minus infinity or ``-1 / power`` at 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if power in (1.0, 0.5, -1.0):  # ten times as fast as powers
            return x - 1.0 if power == 1 else 2.0 * (np.sqrt(x) - 1.0) if power > 0 else 1.0 - 1.0 / x
        log = np.log(x)  # from here on in place
        if power == 0:
            return log
        log *= power
        value = np.expm1(log)
        value /= power
        large = log > LARGE
        if large.any():  # x^power may overflow where x^power / power does not
            value = np.where(large, np.exp(log - math.log(abs(power))) * math.copysign(1.0, power) - 1 / power, value)
    return value


def log_inverse_boxcox(value: float, power: float) -> float:
    """The logarithm of the x whose Box-Cox power is the value."""
    if power == 0:
        return float(value)
    scaled = float(value) * power
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log1p(scaled) if math.isfinite(scaled) else np.log(value / power) + 2 * math.log(abs(power))
    return float(log) / power


def log_sum_exp(logs: Float, weights: Float | float = 1.0) -> Float:
    """The logarithm of the weighted sum of exponentials along the last axis."""
    top = logs.max(axis=-1)
    with np.errstate(divide="ignore"):
        return np.where(np.isfinite(top), _above(logs, weights, np.where(np.isfinite(top), top, 0.0)), top)


def _above(logs: Float, weights: Float | float, top: Float) -> Float:
    return top + np.log((weights * np.exp(logs - top[..., None])).sum(axis=-1))


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
    near = np.abs(beta) * largest <= 1  # for beta -> 0 the result tends to the entropy, as log1p(beta * entropy) / beta
    close = np.log1p((part * np.expm1(np.where(near[:, None], powers, 0.0))).sum(axis=1))
    value = np.where(near, close, log_sum_exp(log_part + powers)) / beta
    error = 4 * (n + 8) * EPS * (1 + largest) * np.where(near, 1.0, 1 + 1 / abs(beta))
    return (np.where(held.all(axis=1), value, np.inf) if beta > 1 else value), error


def log_total(shares: Float) -> tuple[Float, Float]:
    """The logarithm of the sum of each row of shares, and bounds on its rounding error."""
    value = np.log(shares.sum(axis=1))
    return value, 4 * (shares.shape[1] + 8) * EPS * (1 + np.abs(value))
