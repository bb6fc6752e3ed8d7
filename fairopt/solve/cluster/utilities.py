"""Marginal utilities of levels: a power of the level, or a function of each user.

The central path asks of a user only ``omega(z)``, what one more unit of level is worth to it, and the slope of this.
The condition ``omega(z) = h``, h being the cost, is linearised in logarithms for alpha-fairness, where ``omega = w
z^-alpha``:

    log w - alpha log z = log h   with   excess = h (log omega - log h),   stiffness = alpha h / z,

so that the step in z is ``(excess - change of h) / stiffness``. It is exact in log z, for any alpha and from any level,
where a step in z itself leaves the positive numbers from above the optimum. For max-min all users have one common
level, at alpha = 1.

For other functions (`Curves`) logarithms are taken where the elasticity is above .3; nearly linear ones have hardly any
slope in them. They may be finite at level 0, so that users end there: products of a user are then measured as if it had
at least ``LEAST`` or ``LITTLE``, or those of idle users would be asked to vanish faster than all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.blocks.marginal import CURVED, Marginal, PowerMarginal
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import ROUNDING

# Levels, which are about 1, below which users count as at these: in the size of products at the end, and in the pace at
# which they shrink. Without the first 6 of 60 small sums on servers were not certified.
LEAST, LITTLE = 1e-6, 1e-3
SAMPLE, PRECISION = 300, 0.2  # users for the scale of first prices, and the precision of its logarithm: only a start
ROUNDS = 20  # for that scale; 3 to 6 are usual


class Residual(NamedTuple):
    """Marginal utility less cost, and minus its derivative by the level, by group; or the same of logarithms."""

    excess: Float
    stiffness: Float


class Powers:
    """``weights * level^-alpha``, with weights by group; negative for alpha below 0.

    Below the level ``least`` a user counts as there in the size of products, and below ``little`` in the pace at which
    these shrink: where marginal utilities are finite at level 0 users may end there.
    """

    least = little = 0.0

    def __init__(self, weights: Float, alpha: float) -> None:
        self.weights, self.alpha, self.log_weights = weights, alpha, np.log(weights)
        if alpha < 0:
            self.least, self.little = LEAST, LITTLE

    def at(self, levels: Float) -> Float:
        """Marginal utilities at levels."""
        return np.asarray(np.copysign(self.weights * levels**-self.alpha, self.alpha))

    def logs(self, levels: Float) -> Float:
        """Their logarithms, in absolute value, without the power, which may overflow."""
        return np.asarray(self.log_weights - self.alpha * np.log(levels))

    def elasticity(self, levels: Float) -> Float:
        """Minus the derivative of these logarithms by that of the level."""
        return np.full(len(levels), self.alpha)

    def levels_at(self, cost: Float, start: Float, low: Float | float = 0.0, high: Float | float = np.inf) -> Float:
        """Levels between bounds at which marginal utility equals cost, whatever the start."""
        return np.clip((self.weights / cost) ** (1 / self.alpha), low, high)

    def residual(self, levels: Float, cost: Float) -> Residual:
        """The residual of logarithms, which are linear in that of the level."""
        return Residual(cost * (self.logs(levels) - np.log(np.abs(cost))), self.alpha * cost / levels)

    def scale(self, cost: Float, limits: Float, budget: float, low: Float | float = 0.0) -> float:
        """The factor on costs at which levels between bounds cost about the budget."""
        levels = (self.weights / cost) ** (1 / self.alpha)
        if not np.isfinite(limits).any() and not np.any(low):
            return float((float(levels @ cost) / budget) ** self.alpha)
        least, most = -700.0, 700.0  # logarithms of all floats; 50 halvings leave 1e-12
        for _ in range(50):
            middle = 0.5 * (least + most)
            spent = float(np.clip(levels * np.exp(-middle / self.alpha), low, limits) @ cost)
            least, most = (middle, most) if spent > budget else (least, middle)
        return float(np.exp(middle))


class Curves:
    """Positive derivatives of a sum of one concave function per user.

    ``marginal`` is by tasks, ``per_level`` (n_users,) are tasks per unit of level, ``unit`` is the unit of utilities,
    and no user can exceed its level of ``reach`` (n_users,).
    """

    least, little = LEAST, LITTLE

    def __init__(self, marginal: Marginal, per_level: Float, unit: float, reach: Float) -> None:
        self.marginal, self.per_level, self.unit, self.reach = marginal, per_level, unit, reach

    def _both(self, levels: Float) -> tuple[Float, Float]:
        """Marginal utilities, and minus their derivatives by the logarithm of the level."""
        tasks, per = levels * self.per_level, self.per_level / self.unit
        slope, curvature = self.marginal.both(tasks)
        return slope * per, -curvature * tasks * per

    def at(self, levels: Float) -> Float:
        """The first derivative."""
        return self.marginal.slope(levels * self.per_level) * (self.per_level / self.unit)

    def logs(self, levels: Float) -> Float:
        """Of the first derivative."""
        return np.log(self.at(levels))

    def elasticity(self, levels: Float) -> Float:
        """By the second derivative."""
        utility, fall = self._both(levels)
        return fall / utility

    def levels_at(self, cost: Float, start: Float, low: Float | float = LEAST, high: Float | float = np.inf) -> Float:
        """By Newton's method, within reach."""
        per, high = self.per_level, np.minimum(high, self.reach)
        low, start = np.minimum(low, high), np.minimum(start, high)
        return self.marginal.response(cost * (self.unit / per), low * per, high * per, start * per) / per

    def residual(self, levels: Float, cost: Float) -> Residual:
        """Of logarithms where elasticities are large."""
        utility, fall = self._both(levels)
        fall = np.maximum(fall, ROUNDING * np.abs(utility))  # a stiffness of 0 would make the user's response infinite
        part = cost / utility
        powers = (fall > CURVED * utility) & (utility > 0) & (part > 0)
        excess = np.where(powers, -cost * np.log(np.where(powers, part, 1.0)), utility - cost)
        return Residual(excess, np.where(powers, fall * part, fall) / levels)

    def scale(self, cost: Float, limits: Float, budget: float, low: Float | float = 0.0) -> float:
        """By Newton's method on logarithms in a bracket, for a sample of users with its part of the budget."""
        low = np.maximum(low, np.full_like(cost, LEAST))
        budget = min(budget, 0.5 * float((self.reach + low) @ cost))
        sample, high = self, np.minimum(limits, self.reach)
        if isinstance(self.marginal, PowerMarginal):  # users' own derivatives may be of all users together
            some = slice(None, None, max(len(cost) // SAMPLE, 1))
            budget *= float(cost[some].sum() / cost.sum())
            sample = Curves(self.marginal.take(some), self.per_level[some], self.unit, self.reach[some])
            cost, high, low = cost[some], high[some], low[some]
        # at the first factor all users are at their highest levels, at the other nobody is above the least
        below = float(np.log((sample.at(high) / cost).min()))
        above = float(np.log((sample.at(np.minimum(LEAST, high)) / cost).max()))
        levels = np.minimum(1.0, sample.reach)
        log = float(np.log(np.median(sample.at(levels) / cost)))
        for _ in range(ROUNDS):
            levels = sample.levels_at(cost * np.exp(log), levels, low, high)
            spent = levels * cost
            over = float(np.log(spent.sum() / budget))
            if abs(over) <= PRECISION:
                break
            below, above = (log, above) if over > 0 else (below, log)
            inside = (levels > low) & (levels < high)
            slope = float((spent / np.maximum(sample.elasticity(levels), CURVED))[inside].sum())
            log += over * float(spent.sum()) / slope if slope > 0 else np.inf
            if not below < log < above:
                log = 0.5 * (below + above)
        return float(np.exp(log))


Utilities = Powers | Curves
