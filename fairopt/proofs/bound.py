"""The bound by weak duality (Boyd and Vandenberghe 2004), user by user: what each could gain at most at given costs.

At any prices >= 0 no allocation is worth more than what each user gains at most, its worth less what its tasks cost,
and what capacities cost in all. The parts are in closed form, or bounded from above by a tangent. What is added up
where differs: `pool` does it in passes over the users of one pool, `batch` over many instances, `servers` at the
cheapest server of each user, `lagrangian` under further conditions; all of them ask here. Rounding is counted: a bound
is raised by `EPS` times its terms taken positive, so that prices whose terms cancel prove little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.form import EPS
from fairopt.blocks.powers import boxcox
from fairopt.formulation.program import Float

__all__ = [
    "EPS",
    "Gain",
    "added",
    "best_response",
    "fair_gap",
    "gain_of_power",
    "gain_of_total",
    "gap_of_means",
    "level_at",
    "power",
]

HALVINGS = 70  # of a logarithm: 1e-19 is left of 70 units


class Gain(NamedTuple):
    """What users gain at most: the worth of what they would take, and what that costs."""

    worth: Float
    spent: Float

    @property
    def most(self) -> Float:
        """What is left of the worth."""
        return self.worth - self.spent

    @property
    def size(self) -> Float:
        """The terms taken positive."""
        return np.abs(self.worth) + np.abs(self.spent)

    def sums(self, weigh: Callable[[Float], float], mixed: bool) -> tuple[float, float]:
        """Weighted sums of what is left and of the terms taken positive; worths have one sign unless ``mixed``."""
        worth, spent = weigh(self.worth), weigh(self.spent)
        return worth - spent, (weigh(np.abs(self.worth)) if mixed else abs(worth)) + spent


@np.errstate(all="ignore")  # zeros and infinities are meant
def level_at(price: Float, alpha: float, low: Any, high: Any) -> Float:
    """Where ``u(z) - price z`` is largest over low <= z <= high; for alpha below 0, where u is convex, smallest."""
    best: Float = np.divide(1.0, price)
    best **= 1.0 / alpha
    if isinstance(low, float) and isinstance(high, float) and low == 0 and high == np.inf and price.min() > 0:
        return best
    if not price.min() > 0:
        best = np.where(price > 0, best, high if alpha > 0 else low)
    return np.clip(best, low, high, out=best)


def power(z: Float, alpha: float, shift: float = 1.0) -> Float:
    """``u(z) = (z^(1-alpha) - shift) / (1-alpha)``, the logarithm at alpha = 1.

    With a shift of 1 there is no jump at alpha = 1; with 0 nothing is lost where powers are tiny.
    """
    return boxcox(z, 1.0 - alpha) if shift or alpha == 1 else z ** (1.0 - alpha) / (1.0 - alpha)


@np.errstate(all="ignore")
def gain_of_power(price: Float, alpha: float, low: Any, high: Any, shift: float = 1.0) -> Gain:
    """``max over low <= z <= high of u(z) - price z``, u as in `power`; for alpha below 0 the smallest instead."""
    best = level_at(price, alpha, low, high)
    worth = power(best, alpha, shift)
    best[best == np.inf] = 0.0  # at a price of 0: a worth that is finite there costs nothing
    best *= price
    return Gain(worth, best)


def gain_of_total(worth: Float, cost: Float, low: Any, high: Any) -> Gain:
    """``max over low <= x <= high of (worth - cost) x`` from above, for worths and costs that are not negative."""
    best = np.where(worth - cost + EPS * (worth + cost) > 0, high, low)
    return Gain(worth * best, cost * best)


def gap_of_means(bound: float, value: float, weight: float, alpha: float, shift: float = 1.0) -> float:
    """Logarithm of the bound on a weighted power mean over the mean achieved, from sums of ``w u(z)``."""
    exponent, bound, value = 1.0 - alpha, bound / weight, value / weight
    if not (np.isfinite(bound) and np.isfinite(value)):
        return np.inf
    if exponent == 0:
        return max(0.0, bound - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log1p if shift else np.log
        gap = float(log(exponent * bound) - log(exponent * value)) / exponent
    return max(0.0, gap) if np.isfinite(gap) else np.inf


@np.errstate(all="ignore")
def fair_gap(weights: Float, z: Float, log_price: Float, alpha: float, low: Any, high: Any, log_paid: Any) -> Any:
    """Logarithm of the bound on a weighted power mean of levels z over the mean achieved, users along the first axis.

    ``log_price`` is the logarithm of what a unit of level costs per weight, and ``log_paid`` that of what is paid for
    capacities and limits in all. Levels are in units of the smallest, so that no power overflows, and differences of
    terms are added up, not terms, so that the gap is right to the last digits. Users of no weight take no part.
    """
    exponent, part = 1.0 - alpha, weights > 0
    smallest = np.where(part, z, np.inf).min(axis=0)
    z, log_unit = z / smallest, np.log(smallest)
    gain = gain_of_power(np.exp(log_price + alpha * log_unit), alpha, low / smallest, high / smallest)
    paid = np.exp(log_paid - exponent * log_unit)
    excess = np.where(part, weights * (gain.worth - boxcox(z, exponent) - gain.spent), 0.0).sum(axis=0) + paid
    excess = np.maximum(excess, 0.0) + EPS * (np.where(part, weights * gain.size, 0.0).sum(axis=0) + paid)
    whole = np.where(part, weights * np.exp(exponent * np.log(z)), 0.0).sum(axis=0)
    gap = np.log1p(np.maximum(exponent * excess / whole, -1.0)) / exponent if exponent else excess / whole
    return np.where(part.any(axis=0), gap, 0.0)


def added(parts: Float, constant: float, eps: float = EPS) -> float:
    """A sum, rounded up."""
    return float(parts.sum() + constant + eps * (np.abs(parts).sum() + abs(constant)))


def best_response(
    cost: Float, terms: Sequence[tuple[Float, Float, float]], low: Float, high: Float, eps: float = EPS
) -> Float:
    """``max over low <= x <= high of sum_t factor_t boxcox(c_t x; 1 - alpha_t) - cost x`` per user, from above."""
    constant = np.zeros(len(cost))
    curved = []
    for c, factor, alpha in terms:
        if alpha == 0:
            cost = cost - factor * c - eps * (np.abs(cost) + np.abs(factor * c))
            constant = constant - factor
        elif np.any(factor != 0):
            curved.append((c, factor, alpha))
    if not curved:
        return constant - cost * np.where(cost < 0, high, low)
    high = np.where(high > 0, high, 1e-300)
    if len(curved) == 1:
        ((c, factor, alpha),) = curved
        found = factor * gain_of_power(cost / (factor * c), alpha, c * low, c * high).most
        return constant + np.where(factor == 0, -cost * np.where(cost < 0, high, low), found)

    def gain(x: Float) -> Float:
        out = constant - cost * x
        for c, factor, alpha in curved:
            out = out + np.where(factor == 0, 0.0, factor * boxcox(c * x, 1.0 - alpha))
        return out

    def slope(x: Float) -> Float:
        out = -cost
        for c, factor, alpha in curved:
            out = out + np.where(factor == 0, 0.0, factor * c * (c * x) ** -alpha)
        return out

    left, right = np.log(np.maximum(low, high * 1e-30)), np.log(high)
    for _ in range(HALVINGS):
        middle = 0.5 * (left + right)
        up = slope(np.exp(middle)) > 0
        left, right = np.where(up, middle, left), np.where(up, right, middle)
    a, b = np.clip(np.exp(left), low, high), np.clip(np.exp(right), low, high)
    rest = np.maximum(slope(a), 0.0) * (b - a)  # concave: the gain between a and b is at most this
    return np.maximum(gain(a) + np.where(np.isfinite(rest), rest, 0.0), gain(b))
