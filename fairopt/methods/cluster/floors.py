"""Lower bounds on levels in the interior point, where users have levels of their own and where they share one.

A user with the bound l has the room ``z - l > 0`` above it and a refund ω on each unit of its level, with ``(z - l) ω``
zero at the optimum. Alone, a unit of level is worth ``v - ω`` to it, where v is the soft minimum of its costs. Where
users share the level Z, a user with a bound of its own holds more than both, ``z > l`` and ``z > Z``. Of what it pays,
``v = ω + φ``, the part φ counts for Z, with ``(z - Z) φ`` zero at the optimum.

Only `Interior` uses this: it keeps what users hold, and asks what their bounds add to a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.methods.arrays import Float

NARROW = 1e-9  # of a lower bound: the least room that a limit leaves above it


class Lift(NamedTuple):
    """Changes of rooms and refunds."""

    above: Float
    refunds: Float


def _beyond(apart: Float, centre: Float) -> Float:
    """The x at which ``centre / x + centre / (x + apart) = 1``."""
    less, root = apart - 2.0 * centre, np.hypot(apart, 2.0 * centre)
    return np.where(less > 0, 2.0 * centre * apart / np.where(less > 0, less + root, 1.0), 0.5 * (root - less))


class Floors:
    """Lower bounds ``least`` (n_users,) on levels, 0 for users without one, at steps of the interior point.

    ``above`` and ``refunds`` have a row for these, and where users share a level a second one, z - Z and φ. Users
    without a lower bound have 1 and 0 there.
    """

    def __init__(self, least: Float, together: bool) -> None:
        self.least, self.at = least, least > 0
        self.together = together
        self.above, self.refunds = np.ones((1 + together, len(least))), np.zeros((1 + together, len(least)))

    # -- the start ------------------------------------------------------------------------------------------------

    def common(self, cost: Float, budget: float) -> tuple[float, float]:
        """The level that users can share on a budget where each holds its lower bound at least, and what one more unit
        of it costs.
        """
        low, high = 0.0, budget / np.float64(cost.sum())
        for _ in range(60):
            middle = 0.5 * (low + high)
            over = float(np.maximum(middle, self.least) @ cost) > budget
            low, high = (low, middle) if over else (middle, high)
        level = high if high > 0 and (self.least < high).any() else float(self.least.min())
        return level, float(cost[self.least <= level].sum())

    def start_together(self, level: float, cost: Float, centre: float) -> None:
        """Start where all products are the centre."""
        near = _beyond(np.abs(level - self.least), centre / cost)
        above = near + np.maximum(np.stack([level - self.least, self.least - level]), 0.0)
        self.above = np.where(self.at, above, 1.0)
        self.refunds = np.where(self.at, centre / above, 0.0)

    def start_alone(self, levels: Float, limits: Float, cost: Float, centre: float) -> Float:
        """Levels above the bounds, and near the given ones or in the middle below limits."""
        gap = self.least - levels
        above = _beyond(np.abs(gap), centre / cost) + np.maximum(-gap, 0.0)
        above = np.minimum(above, np.maximum(-gap, 0.5 * (limits - self.least)))
        self.above[0] = np.where(self.at, above, 1.0)
        return np.where(self.at, self.least + above, levels)

    # -- a step ---------------------------------------------------------------------------------------------------

    @property
    def products(self) -> float:
        """The sum of all products."""
        return float(np.einsum("kj,kj->", self.above, self.refunds))

    @property
    def slopes(self) -> Float:
        """How fast refunds fall as rooms grow; of shape of the rooms, 0 without a bound."""
        return self.refunds / self.above

    def worth(self, softest: Float, refunds: Float | None = None) -> Float:
        """What a unit of their level is worth to users, or changes by; where they share it, the part that counts."""
        refunds = self.refunds if refunds is None else refunds
        return np.where(self.at, refunds[1], softest) if self.together else softest - refunds[0]

    def held(self, level: Float) -> Float:
        """What users hold of a level that they share."""
        return np.where(self.at, level[0] + self.above[1], level[0])

    @property
    def follows(self) -> tuple[Float, Float, float]:
        """Of users who share a level: how much their own falls as their costs rise, by what part of its rise they
        follow the shared one, and how fast what counts for that falls in all.
        """
        own, common = self.slopes
        both = np.where(self.at, own + common, 1.0)
        response = np.where(self.at, 1.0 / both, 0.0)
        return response, np.where(self.at, common / both, 1.0), float((own * common / both).sum())

    def push(self, aim: Float) -> Float:
        """What changes of products add to the worth of users' own levels, shape (n_users,)."""
        return np.asarray((aim / self.above).sum(axis=0))

    def lift(self, aim: Float, rises: Float) -> Lift:
        """Changes where rooms rise so, and products by their aims."""
        rises = np.where(self.at, rises, 0.0)
        return Lift(rises, (aim - self.refunds * rises) / self.above)

    def aims(self, look: Lift | None, centre: Float | float) -> Float:
        """Changes of products to the centre, with the curvature seen in a look ahead."""
        aim = centre - self.above * self.refunds
        return np.where(self.at, aim if look is None else aim - look.above * look.refunds, 0.0)

    def shrink(self, lift: Lift) -> float:
        """The largest relative fall of a number that must stay positive."""
        falls = (-lift.above / self.above).max(initial=0.0), (-lift.refunds / self.refunds)[:, self.at].max(initial=0.0)
        return float(max(falls))

    def go(self, length: float, lift: Lift) -> None:
        """Move."""
        self.above = self.above + length * lift.above
        self.refunds = self.refunds + length * lift.refunds
