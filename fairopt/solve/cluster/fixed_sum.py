"""The most even shares of a fixed sum on several servers, for the search of `FairnessEfficiency` (Proposition 5.15).

The problem is ``max sum_j w_j u(z_j)`` (or the least, for exponents below 0) under capacities, limits and ``sum_j rho_j
z_j = c``. The equation adds one multiplier lambda, of either sign, to the conditions of the central path: ``w_j u'(z_j)
= v_j + nu_j + lambda rho_j``. Each Newton step solves the same factored system for two right sides, the step at fixed
lambda and its derivative by lambda, and combines them so that the sum is c after a whole step. So `Interior` is as it
is, and serves for both signs of lambda.

Prices may all tend to 0, if the sum is less than what capacities allow: products are then measured by all costs in
absolute value. The search compares many such answers on a line, so that steps go on to 1e-11.

CPU seconds of a search with it, and by cone programs, for (beta, lam) = (3, -.05) and (-2, 1): .07 and .11 instead of
.17 and .12 for 20 users on 3 servers; .13 and .24 instead of 1.7 and 4.4 for 1,000 on 5; .2 and .4 instead of 10 and 23
for 3,000.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.progress import tell
from fairopt.solve.cluster.interior_point import Interior, Move, PriceSystem, Right
from fairopt.solve.cluster.utilities import Powers
from fairopt.solve.form.demands_at_prices import by_pair
from fairopt.solve.form.units_on_servers import LevelUnits

STEPS = 100  # of 32 searches over demands 23 decades apart that took more, 28 found nothing
DONE, EACH = 1e-11, 1e-6  # tolerances of `Interior.done`: the search compares many lines
EMPTY = 1e-14  # relative products at which rounding ends the steps
# Relative products and excess loads that are accepted where steps end early: tasks are scaled to fit, and the search
# takes what bound their prices prove (Proposition 7.8).
NEARLY, FITS = 1e-8, 1e-2


class FixedSum(Interior):
    """`Interior` with the equation ``row @ levels = total``, whose multiplier times the row is ``sum_cost``.

    Limits are on levels.
    """

    def __init__(self, units: LevelUnits, utilities: Powers, row: Float, total: float) -> None:
        self.row, self.total = row, total
        self._column_reduced = by_pair(units.demands.n_users, units.demands.n_servers)
        super().__init__(units.demands, units.usable, utilities, units.limits)

    @property
    def price(self) -> float:
        """The multiplier of the sum."""
        return float(np.asarray(self.sum_cost)[0] / self.row[0])

    @property
    def charged(self) -> Float:
        """All costs, as those of capacities may be 0."""
        return np.abs(self.cost)

    def _first(self) -> Float:
        """Start at equal levels, with about half of their marginal utility in the multiplier of the sum."""
        wanted = np.minimum(np.full(len(self.row), self.total / np.float64(self.row.sum())), self.limits)
        utility = self.utilities.at(wanted)
        # utility - lambda rho is what prices have to be at first, and must be positive for every user
        part = (utility / self.row).min()
        self.sum_cost = (0.5 if part > 0 else 1.5) * part * self.row
        half, rest = 0.5 * self.demands.cheapest(np.ones_like(self.usable)), utility - self.sum_cost
        scale = float(rest @ wanted / np.float64(half @ wanted))
        if part < 0:  # utilities are negative; prices start small beside the multiplier that makes up for them
            scale = min(scale, float((0.5 * np.abs(self.sum_cost) / half).min()))
        self.prices, self.smoothed = np.full_like(self.usable, scale), half * scale
        return wanted

    def done(self, tolerance: float, each: float) -> bool:
        """As in `Interior`, and whether the sum is met."""
        residual = float(self.row @ self.levels / np.float64(self.total)) - 1.0
        return abs(residual) <= tolerance and super().done(tolerance, each)

    def _corrected(self, system: PriceSystem) -> Move | None:
        """As in `Interior`, after a solve for the derivative of the step by the multiplier of the sum."""
        # where lambda rises by 1 the right side of each user's equation falls by rho_j, and nothing else changes
        nothing = np.zeros(len(self.row))
        of_level = -self.row
        prices, smoothed, _, _ = system.solve(
            system.response * of_level, nothing, np.zeros_like(self.prices), 0.0, self._column_reduced
        )
        levels = system.response * (of_level - smoothed)
        limit_multipliers = self.limit_multipliers * levels / self.limit_slack * self.limited
        self._column = Move(
            prices, -self.slack / self.prices * prices, smoothed, levels, limit_multipliers, -levels, self.row
        )
        return super()._corrected(system)

    def _solve(self, system: PriceSystem, right: Right) -> Move:
        """As in `Interior`, with the change of the multiplier that meets the sum."""
        move, column = super()._solve(system, right), self._column
        short = self.total - float(self.row @ (self.levels + move.levels))
        by = short / np.float64(self.row @ column.levels)  # 0 gives NaN, which stops the steps
        for users in self.demands.chunks():
            self._dreduced[users] += by * self._column_reduced[users]
        return Move(
            move.prices + by * column.prices,
            move.slack + by * column.slack,
            move.smoothed + by * column.smoothed,
            move.levels + by * column.levels,
            move.limit_multipliers + by * column.limit_multipliers,
            move.limit_slack + by * column.limit_slack,
            by * column.sum_cost,
        )


class Even(NamedTuple):
    """Parts of level by user and server, prices by resource and server, and the multiplier of the sum or 0."""

    parts: Float
    prices: Float
    price: float


def most_even(units: LevelUnits, weights: Float, beta: float, mean: float | None) -> Even | None:
    """The largest ``sign(beta) sum_j w_j u(z_j)`` at a mean level, or at any for None; None if not found.

    ``weights`` sum to 1, so that the mean is ``weights @ levels``. Limits are on levels.
    """
    utilities = Powers(weights, beta)
    point: Interior
    if mean is None:
        point = Interior(units.demands, units.usable, utilities, units.limits)
    else:
        point = FixedSum(units, utilities, weights, mean)
    for k in range(STEPS):
        tell(f"prices, step {k + 1}")
        # rounding of products that are 1e-14 of spending is as large as they are: no step helps
        empty = point.complementarity <= EMPTY * float(point.levels @ np.abs(point.cost))
        if empty or point.done(DONE, EACH) or not point.step():
            break
    unit, excess = float(point.levels @ np.abs(point.cost)), float((point.used / point.usable).max()) - 1.0
    if not (point.complementarity <= NEARLY * unit and excess <= FITS):
        return None
    return Even(point.parts, point.prices, point.price if isinstance(point, FixedSum) else 0.0)
