"""The most even shares of a fixed sum on several servers, by prices per server and resource and one of the sum.

`FairnessEfficiency` away from alpha-fairness is solved by a search along that sum. The price of the sum, of either
sign, is one more number beside the prices of capacities in each of Newton's steps (`interior_point`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.formulation.demands_at_prices import by_pair
from fairopt.methods.arrays import Float
from fairopt.methods.cluster.interior_point import Interior, Move, PriceSystem
from fairopt.methods.cluster.worths import Powers
from fairopt.proofs.servers import LevelUnits
from fairopt.runtime.progress import tell

STEPS = 100  # of 32 searches over demands 23 decades apart that took more, 28 found nothing
DONE, EACH = 1e-11, 1e-6  # lines are as close as their prices, and the search compares many
EMPTY = 1e-14  # products at which rounding ends the steps
NEARLY, FITS = 1e-8, 1e-2  # products that are enough, and how far tasks are then from what fits: they are cut down


class FixedSum(Interior):
    """`Interior` where ``row @ levels`` is ``total``, at a price: ``extra`` is that price times the row.

    Limits are on levels.
    """

    def __init__(self, units: LevelUnits, worths: Powers, row: Float, total: float) -> None:
        self.row, self.total = row, total
        self._column_margins = by_pair(units.demands.n_users, units.demands.n_servers)
        super().__init__(units.demands, units.usable, worths, units.limits)

    @property
    def price(self) -> float:
        """The price of the sum."""
        return float(np.asarray(self.extra)[0] / self.row[0])

    @property
    def charged(self) -> Float:
        """What a unit of level is worth, as without scarce capacities users pay nothing."""
        return np.abs(self.worth)

    def _first(self) -> Float:
        """Start at equal levels, as without capacities, which are worth about half of what the sum is."""
        wanted = np.minimum(np.full(len(self.row), self.total / np.float64(self.row.sum())), self.limits)
        worth = self.worths.at(wanted)
        part = (worth / self.row).min()
        self.extra = (0.5 if part > 0 else 1.5) * part * self.row
        half, free = 0.5 * self.demands.cheapest(np.ones_like(self.usable)), worth - self.extra
        scale = float(free @ wanted / np.float64(half @ wanted))
        if part < 0:
            scale = min(scale, float((0.5 * np.abs(self.extra) / half).min()))
        self.prices, self.softest = np.full_like(self.usable, scale), half * scale
        return wanted

    def done(self, tolerance: float, each: float) -> bool:
        """Whether the sum is right as well."""
        off = float(self.row @ self.levels / np.float64(self.total)) - 1.0
        return abs(off) <= tolerance and super().done(tolerance, each)

    def _corrected(self, system: PriceSystem) -> Move | None:
        """With what one more unit of the price of the sum changes."""
        nothing = np.zeros(len(self.row))
        pull = -self.row
        prices, softest, _, _ = system.solve(
            system.response * pull, nothing, np.zeros_like(self.prices), 0.0, self._column_margins
        )
        levels = system.response * (pull - softest)
        rents = self.rents * levels / self.room * self.limited
        self._column = Move(prices, -self.slack / self.prices * prices, softest, levels, rents, -levels, self.row)
        return super()._corrected(system)

    def _solve(
        self,
        system: PriceSystem,
        sums: Float,
        taken: Float,
        pushed: Float,
        target: Float,
        aim: Float,
        raised: Float | None = None,
    ) -> Move:
        """Changes at which the sum is what it has to be."""
        move, column = super()._solve(system, sums, taken, pushed, target, aim, raised), self._column
        short = self.total - float(self.row @ (self.levels + move.levels))
        by = short / np.float64(self.row @ column.levels)  # 0 gives NaN, which ends the steps
        for users in self.demands.chunks():
            self._dmargins[users] += by * self._column_margins[users]
        return Move(
            move.prices + by * column.prices,
            move.slack + by * column.slack,
            move.softest + by * column.softest,
            move.levels + by * column.levels,
            move.rents + by * column.rents,
            move.room + by * column.room,
            by * column.extra,
        )


class Even(NamedTuple):
    """Parts of level by user and server, prices by resource and server, and that of the sum (0 where it is free)."""

    parts: Float
    prices: Float
    price: float


def most_even(units: LevelUnits, weights: Float, beta: float, mean: float | None) -> Even | None:
    """The most even shares of a mean, or of any for None: largest ``sign(beta) sum_j w_j u(z_j)``; None if not found.

    ``weights`` add up to 1, so that the mean is ``weights @ levels``. Limits are on levels.
    """
    worths = Powers(weights, beta)
    point: Interior
    if mean is None:
        point = Interior(units.demands, units.usable, worths, units.limits)
    else:
        point = FixedSum(units, worths, weights, mean)
    for k in range(STEPS):
        tell(f"prices, step {k + 1}")
        empty = point.complementarity <= EMPTY * float(point.levels @ np.abs(point.worth))
        if empty or point.done(DONE, EACH) or not point.step():
            break
    worth, excess = float(point.levels @ np.abs(point.worth)), float((point.used / point.usable).max()) - 1.0
    if not (point.complementarity <= NEARLY * worth and excess <= FITS):
        return None
    return Even(point.parts, point.prices, point.price if isinstance(point, FixedSum) else 0.0)
