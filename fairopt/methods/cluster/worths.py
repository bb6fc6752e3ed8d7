"""What one more unit of level is worth to groups of users: a power of their level, or a function of each user's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from fairopt.blocks.marginal import CURVED, Marginal, PowerMarginal
from fairopt.methods.arrays import Float

LEAST, LITTLE = 1e-6, 1e-3  # levels, which are about 1
SAMPLE, ENOUGH = 300, 0.2  # users who tell the scale of first prices, and the precision of its logarithm
ROUNDS = 20  # in which it is found; three to six are usual
STRAIGHT = 1e-12  # elasticity below which a function is a line but for rounding


class Pull(NamedTuple):
    """By how much a level is worth more than is paid for it, and how fast that falls as the level rises; by group.

    On the scale on which Newton's step is more nearly exact.
    """

    excess: Float
    stiffness: Float


class Worths(ABC):
    """Marginal worths of levels: falling, and all of one sign.

    ``least`` is a level below which users count as if they had that much, and ``little`` the same for the pace at which
    products shrink: where worths are finite at zero, users may end with nothing.
    """

    least = little = 0.0

    @abstractmethod
    def at(self, levels: Float) -> Float:
        """The worth of one more unit at levels."""

    @abstractmethod
    def logs(self, levels: Float) -> Float:
        """The logarithm of its size."""

    @abstractmethod
    def elasticity(self, levels: Float) -> Float:
        """By how much that logarithm falls as that of the level rises."""

    @abstractmethod
    def wanted(self, worth: Float, start: Float, low: Float | float = LEAST, high: Float | float = np.inf) -> Float:
        """Levels at which one more unit is worth so much, between bounds, from a guess."""

    @abstractmethod
    def pull(self, levels: Float, worth: Float) -> Pull:
        """How levels are drawn to where one more unit is worth so much."""

    @abstractmethod
    def scale(self, worth: Float, limits: Float, budget: float, least: Float | float = 0.0) -> float:
        """The factor on worths at which the levels wanted, between bounds, cost about the budget."""


class Powers(Worths):
    """``weights * level^-alpha``, with weights by group; below nothing for alpha below 0."""

    def __init__(self, weights: Float, alpha: float) -> None:
        self.weights, self.alpha, self.log_weights = weights, alpha, np.log(weights)
        if alpha < 0:
            self.least, self.little = LEAST, LITTLE

    def at(self, levels: Float) -> Float:
        """The power."""
        return np.asarray(np.copysign(self.weights * levels**-self.alpha, self.alpha))

    def logs(self, levels: Float) -> Float:
        """Without the power, which may overflow."""
        return np.asarray(self.log_weights - self.alpha * np.log(levels))

    def elasticity(self, levels: Float) -> Float:
        """Alpha for all."""
        return np.full(len(levels), self.alpha)

    def wanted(self, worth: Float, start: Float, low: Float | float = 0.0, high: Float | float = np.inf) -> Float:
        """In closed form."""
        return np.clip((self.weights / worth) ** (1 / self.alpha), low, high)

    def pull(self, levels: Float, worth: Float) -> Pull:
        """On logarithms, where powers are linear."""
        return Pull(worth * (self.logs(levels) - np.log(np.abs(worth))), self.alpha * worth / levels)

    def scale(self, worth: Float, limits: Float, budget: float, least: Float | float = 0.0) -> float:
        """In closed form without bounds, else by halving."""
        wanted = (self.weights / worth) ** (1 / self.alpha)
        if not np.isfinite(limits).any() and not np.any(least):
            return float((float(wanted @ worth) / budget) ** self.alpha)
        low, high = -700.0, 700.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            spent = float(np.clip(wanted * np.exp(-middle / self.alpha), least, limits) @ worth)
            low, high = (middle, high) if spent > budget else (low, middle)
        return float(np.exp(middle))


class Curves(Worths):
    """The derivatives of a sum of one concave function per user, that are positive.

    ``marginal`` is by tasks, ``per_level`` (n_users,) are tasks per unit of level, and ``unit`` is that of worths. No
    user can exceed its level of ``reach`` (n_users,).
    """

    least, little = LEAST, LITTLE

    def __init__(self, marginal: Marginal, per_level: Float, unit: float, reach: Float) -> None:
        self.marginal, self.per_level, self.unit, self.reach = marginal, per_level, unit, reach

    def _both(self, levels: Float) -> tuple[Float, Float]:
        """Worths, and how fast they fall by the logarithm of the level."""
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
        worth, falls = self._both(levels)
        return falls / worth

    def wanted(self, worth: Float, start: Float, low: Float | float = LEAST, high: Float | float = np.inf) -> Float:
        """By Newton's steps, within reach."""
        per, high = self.per_level, np.minimum(high, self.reach)
        low, start = np.minimum(low, high), np.minimum(start, high)
        return self.marginal.response(worth * (self.unit / per), low * per, high * per, start * per) / per

    def pull(self, levels: Float, worth: Float) -> Pull:
        """On logarithms where elasticities are large."""
        mine, falls = self._both(levels)
        falls = np.maximum(falls, STRAIGHT * np.abs(mine))
        part = worth / mine
        powers = (falls > CURVED * mine) & (mine > 0) & (part > 0)
        excess = np.where(powers, -worth * np.log(np.where(powers, part, 1.0)), mine - worth)
        return Pull(excess, np.where(powers, falls * part, falls) / levels)

    def scale(self, worth: Float, limits: Float, budget: float, least: Float | float = 0.0) -> float:
        """By Newton's steps on logarithms between bounds, of some users, who have their part of the budget."""
        least = np.maximum(least, np.full_like(worth, LEAST))
        budget = min(budget, 0.5 * float((self.reach + least) @ worth))
        one, most = self, np.minimum(limits, self.reach)
        if isinstance(self.marginal, PowerMarginal):
            some = slice(None, None, max(len(worth) // SAMPLE, 1))
            budget *= float(worth[some].sum() / worth.sum())
            one = Curves(self.marginal.take(some), self.per_level[some], self.unit, self.reach[some])
            worth, most, least = worth[some], most[some], least[some]
        low = float(np.log((one.at(most) / worth).min()))
        high = float(np.log((one.at(np.minimum(LEAST, most)) / worth).max()))
        levels = np.minimum(1.0, one.reach)
        log = float(np.log(np.median(one.at(levels) / worth)))
        for _ in range(ROUNDS):
            levels = one.wanted(worth * np.exp(log), levels, least, most)
            spent = levels * worth
            over = float(np.log(spent.sum() / budget))
            if abs(over) <= ENOUGH:
                break
            low, high = (log, high) if over > 0 else (low, log)
            inside = (levels > least) & (levels < most)
            falls = float((spent / np.maximum(one.elasticity(levels), CURVED))[inside].sum())
            log += over * float(spent.sum()) / falls if falls > 0 else np.inf
            if not low < log < high:
                log = 0.5 * (low + high)
        return float(np.exp(log))
