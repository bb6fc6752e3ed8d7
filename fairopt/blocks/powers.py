"""Box-Cox powers and log-sum-exp in NumPy."""

from __future__ import annotations

import math

import numpy as np

from fairopt.runtime.arrays import Float

LARGE = math.log(np.finfo(np.float64).max)  # exp overflows above


def boxcox(x: Float, power: float) -> Float:
    """``(x^power - 1) / power``, the logarithm where the power is 0; minus infinity or ``-1 / power`` at 0.

    Examples
    --------
    >>> boxcox(np.array([0.0, 1.0, 4.0]), 0.5)
    array([-2.,  0.,  2.])
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if power in (1.0, 0.5, -1.0):  # ten times as fast as powers
            return x - 1.0 if power == 1 else 2.0 * (np.sqrt(x) - 1.0) if power > 0 else 1.0 - 1.0 / x
        log = np.log(x)
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
    """The logarithm of the x whose Box-Cox power is the value.

    Examples
    --------
    >>> round(log_inverse_boxcox(2.0, 0.5), 4)  # the logarithm of 4
    1.3863
    """
    if power == 0:
        return float(value)
    scaled = float(value) * power
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log1p(scaled) if math.isfinite(scaled) else np.log(value / power) + 2 * math.log(abs(power))
    return float(log) / power


def log_sum_exp(logs: Float, weights: Float | float = 1.0) -> Float:
    """The logarithm of the weighted sum of exponentials along the last axis.

    Examples
    --------
    >>> log_sum_exp(np.log([1.0, 2.0]), np.array([3.0, 1.0])).round(4)  # the logarithm of 3 * 1 + 1 * 2
    np.float64(1.6094)
    """
    top = logs.max(axis=-1)
    with np.errstate(divide="ignore"):
        return np.where(np.isfinite(top), _above(logs, weights, np.where(np.isfinite(top), top, 0.0)), top)


def _above(logs: Float, weights: Float | float, top: Float) -> Float:
    return top + np.log((weights * np.exp(logs - top[..., None])).sum(axis=-1))
