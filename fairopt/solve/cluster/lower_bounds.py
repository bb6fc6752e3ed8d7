"""Lower bounds on levels in the interior point, for users with levels of their own or a common one (Proposition 5.16).

A bound ``z_j >= low_j`` has the slack ``xi_j = z_j - low_j`` and the multiplier omega_j, with ``xi_j omega_j = mu`` on
the central path, and takes omega_j off the cost of the user's level. With a common level Z a bounded user has a level
of its own, ``z_j >= Z`` as well: ``e_j = z_j - Z``, ``e_j phi_j = mu``, and its cost is split, ``v_j = omega_j +
phi_j``, of which only phi_j counts for Z. Else a user whose bound is above Z would hold Z up.

Slacks are kept as numbers of their own, since ``z - low`` has no digits left at a bound that binds. `Interior` keeps
the levels, and asks what lower bounds add to a step.

CPU seconds with guarantees, and by cone programs without this: .006 to .009 instead of .009 to .012 for 20 users on 3
servers (max-min and alpha 1 and 2), .01 instead of .13 to .3 for 1,000 on 8, .02 instead of 1.4 to 2.2 for 3,000.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.runtime.arrays import Float


class BoundMove(NamedTuple):
    """Changes of slacks and multipliers."""

    slack: Float
    multipliers: Float


def _root(distance: Float, centre: Float) -> Float:
    """The x at which ``centre / x + centre / (x + distance) = 1``."""
    # the root of x^2 + (d - 2 c) x - c d = 0, in the form without cancellation for either sign of d - 2 c
    less, root = distance - 2.0 * centre, np.hypot(distance, 2.0 * centre)
    return np.where(less > 0, 2.0 * centre * distance / np.where(less > 0, less + root, 1.0), 0.5 * (root - less))


class LowerBounds:
    """Lower bounds ``low`` (n_users,) on levels, 0 for users without one.

    ``slack`` and ``multipliers`` have a row for ``z - low`` and ω. With a common level Z a second row is for ``z - Z``
    and φ. Users without a lower bound have 1 and 0 there.
    """

    def __init__(self, low: Float, together: bool) -> None:
        self.low, self.bounded = low, low > 0
        self.together = together
        self.slack, self.multipliers = np.ones((1 + together, len(low))), np.zeros((1 + together, len(low)))

    def common_level(self, cost: Float, budget: float) -> tuple[float, float]:
        """The largest common level within a budget that also pays for lower bounds, and its cost per unit."""
        low, high = 0.0, budget / np.float64(cost.sum())
        # spending is piecewise linear and increases in the level; 60 halvings end at the last digit
        for _ in range(60):
            middle = 0.5 * (low + high)
            over = float(np.maximum(middle, self.low) @ cost) > budget
            low, high = (low, middle) if over else (middle, high)
        # nobody within the budget: the smallest bound is where a common level begins to cost anything
        level = high if high > 0 and (self.low < high).any() else float(self.low.min())
        return level, float(cost[self.low <= level].sum())

    def start_together(self, level: float, cost: Float, centre: float) -> None:
        """Set slacks and multipliers at which all products are the centre."""
        # both slacks, one of which is larger by |Z - low|: their products are the centre if omega + phi is the cost
        near = _root(np.abs(level - self.low), centre / cost)
        slack = near + np.maximum(np.stack([level - self.low, self.low - level]), 0.0)
        self.slack = np.where(self.bounded, slack, 1.0)
        self.multipliers = np.where(self.bounded, centre / slack, 0.0)

    def start_alone(self, levels: Float, limits: Float, cost: Float, centre: float) -> Float:
        """Set slacks, and return levels above the bounds: near the given ones, or halfway to the limits."""
        distance = self.low - levels
        slack = _root(np.abs(distance), centre / cost) + np.maximum(-distance, 0.0)
        # a user between near bounds starts in the middle
        slack = np.minimum(slack, np.maximum(-distance, 0.5 * (limits - self.low)))
        self.slack[0] = np.where(self.bounded, slack, 1.0)
        return np.where(self.bounded, self.low + slack, levels)

    @property
    def products(self) -> float:
        """The sum of all complementarity products."""
        return float(np.einsum("kj,kj->", self.slack, self.multipliers))

    @property
    def ratios(self) -> Float:
        """Multipliers over slacks, 0 without a bound."""
        return self.multipliers / self.slack

    def net(self, smoothed: Float, multipliers: Float | None = None) -> Float:
        """Smoothed minima less multipliers, or with a common level the part φ that counts for it; also of changes."""
        multipliers = self.multipliers if multipliers is None else multipliers
        # with a common level omega is paid for by v_j, and phi is what is left of that for Z
        return np.where(self.bounded, multipliers[1], smoothed) if self.together else smoothed - multipliers[0]

    def user_levels(self, level: Float) -> Float:
        """The levels of users who have a common one."""
        return np.where(self.bounded, level[0] + self.slack[1], level[0])

    @property
    def shared(self) -> tuple[Float, Float, float]:
        """With a common level, ϱ_j and k_j of Proposition 5.16, and the sum of ``A_j B_j / (A_j + B_j)``."""
        own, common = self.ratios
        both = np.where(self.bounded, own + common, 1.0)
        response = np.where(self.bounded, 1.0 / both, 0.0)
        return response, np.where(self.bounded, common / both, 1.0), float((own * common / both).sum())

    def lifted(self, aim: Float) -> Float:
        """The change of multipliers, (n_users,), that changes of products ask for at constant slacks."""
        return np.asarray((aim / self.slack).sum(axis=0))

    def move(self, aim: Float, rises: Float) -> BoundMove:
        """The changes at which slacks rise by ``rises`` and products change by ``aim``."""
        rises = np.where(self.bounded, rises, 0.0)
        return BoundMove(rises, (aim - self.multipliers * rises) / self.slack)

    def aims(self, predictor: BoundMove | None, centre: Float | float) -> Float:
        """The changes of products to the centre, with the second-order terms of a predictor."""
        aim = centre - self.slack * self.multipliers
        return np.where(self.bounded, aim if predictor is None else aim - predictor.slack * predictor.multipliers, 0.0)

    def shrink(self, move: BoundMove) -> float:
        """The largest relative fall of a slack or multiplier."""
        multipliers = (-move.multipliers / self.multipliers)[:, self.bounded]
        return max(float((-move.slack / self.slack).max(initial=0.0)), float(multipliers.max(initial=0.0)))

    def go(self, length: float, move: BoundMove) -> None:
        """Move."""
        self.slack = self.slack + length * move.slack
        self.multipliers = self.multipliers + length * move.multipliers
