"""Prices by server row and resource, by Newton's method on smoothed minima over servers (Propositions 5.2 to 5.4).

The problem is ``max sum_j U_j(z_j)``, ``z_j = sum_s z_js``, under ``sum_j G_jsi z_js <= r_i`` on each server row s,
with z_j at most L_j and at least low_j. With products of slacks and multipliers at mu instead of 0, its conditions are

    p_si sigma_si = z_js y_js = tau_j nu_j = mu,   y_js = kappa_js - v_j,   U_j'(z_j) = v_j + nu_j,

where ``kappa_js = sum_i G_jsi p_si`` is what a unit of level costs and ``v_j`` a smoothed minimum of it over servers.
As mu falls to 0, v_j becomes the cost on the cheapest server, and only such servers are used. Max-min is one group of
users with a common level. Steps are those of Mehrotra (1992).

Of ``n S + S m + n`` unknowns, pairs of users and servers are eliminated one by one in closed form, then users or
prices, whichever are more: `ByPrices` factors a matrix of S m rows, `ByUsers` one of n (Proposition 5.3). A step costs
O(n S m min(n, S m)), and five numbers per pair are kept. A power mean ``(sum_s q_js^-r)^(-1/r)`` as smoothed minimum
took 2.8 s where this takes 0.2 s (20,000 users on 27 servers), and leaves no feasible allocation where many servers
tie. A start from known prices saved one step of seven, so there is none.

Rounding: near the end theta = z / y ranges over as many decades as products are small. Sums of positive terms stand
where differences would cancel (``own`` below), matrices have a diagonal of one before they are factored, and what keeps
being positive is updated as a number of its own, never found as a difference. NaN or a matrix that is not positive
definite ends the steps, and the gate judges the last point by Proposition 5.1, which needs no optimality.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import linalg
from fairopt.runtime.tolerances import NOISE, TINY
from fairopt.solve.cluster.lower_bounds import BoundMove, LowerBounds
from fairopt.solve.cluster.utilities import Utilities
from fairopt.solve.form.demands_at_prices import Demands, by_pair, cheapest_of

BACK = 0.995  # part of the way to the nearest bound that a step goes
# A step aims at products of at least this part of the present ones. With 1e-9, 2 of 58 small instances with lower
# bounds at alpha = 5 were not certified.
SMALLEST_CENTRE = 1e-4
# A group whose logarithms of marginal utility and cost differ by more than FAR is moved nearer after each step, by at
# most a factor of SETTLE. Without, 4% of small random instances did not converge at alpha = 2 and 5% at alpha = 5; with
# it all did. At smaller differences it disturbed the last steps.
FAR, SETTLE = 1.0, 3.0
# Of the diagonal, after scaling: a matrix that is singular but for rounding can still be factored, as where two
# resources are full for the same users.
JITTER = 1e-14
# Of a limit, by which a level may be further from it than its slack says: a tenth of the tolerance of gaps, as users at
# limits pay at most what they are worth. Below, where single users hardly count, it is rounding that no step mends.
STRAYED = 1e-7


class Interior:
    """A point strictly inside all bounds, and Newton steps towards the optimum of a sum over groups of users.

    A group shares one level. Each user is a group for alpha-fairness and other sums; all users are one group for
    max-min, where maximising the logarithm of the common level is the same as maximising the level.

    ``demands`` are those of a unit of level. ``usable`` (n_resources, n_servers) is the usable fraction of each
    capacity, positive. ``utilities`` are marginal utilities of groups, ``limits`` (n_groups,) their highest levels. If
    users' limits are not on levels, ``limit_coefficients`` (n_users, n_servers) is the part of the limit that a unit of
    level takes, 0 for users without a limit; ``limits`` are then levels that cannot be exceeded. ``low`` (n_users,) are
    lower bounds on levels; see `LowerBounds`.

    In the notation of Proposition 5.2 the point is: ``prices`` p, per whole capacity, and ``slack`` σ, (n_resources,
    n_servers); ``parts`` z_js and ``reduced`` costs y_js, (n_users, n_servers); ``smoothed`` minima v (n_users,);
    ``levels`` z, ``limit_slack`` τ and ``limit_multipliers`` ν, (n_groups,), the last two (n_users,) with
    ``limit_coefficients``.
    """

    def __init__(
        self,
        demands: Demands,
        usable: Float,
        utilities: Utilities,
        limits: Float,
        limit_coefficients: Float | None = None,
        low: Float | None = None,
        prices: Float | None = None,
    ) -> None:
        self.demands, self.usable, self.utilities = demands, usable, utilities
        self.together = len(limits) == 1 and demands.n_users > 1
        self.lower_bounds = None if low is None or not low.any() else LowerBounds(low, self.together)
        if self.lower_bounds is not None and not self.together:  # equal bounds leave no level strictly between
            limits = np.maximum(limits, self.lower_bounds.low * (1.0 + NOISE))
        self.limit_coefficients, self.limits = limit_coefficients, limits
        self.limited = np.isfinite(limits) if limit_coefficients is None else limit_coefficients.max(axis=1) > 0
        self.sum_cost: Float | float = 0.0  # of a fixed sum, by group; see `FixedSum`
        self.prices = np.ones_like(usable) if prices is None else prices
        self._start(self._first())

    def _first(self) -> Float:
        """Scale prices so that spending equals usable capacities; levels at half of the cheapest costs."""
        prices = self.prices
        cost, budget = self._by_group(0.5 * self.demands.cheapest(prices)), float((self.usable * prices).sum())
        low: Float | float = 0.0
        if self.lower_bounds is not None:
            if self.together:
                return self._first_above_bounds(prices, budget)
            low = self.lower_bounds.low
        # where limits bind, capacities are left over: users cannot spend more than halfway to their limits
        budget = min(budget, 0.5 * float((self.limits + low) @ cost))
        self.prices = prices * self.utilities.scale(cost, self.limits, budget, low)
        self.smoothed = 0.5 * self.demands.cheapest(self.prices)
        cost = self._by_group(self.smoothed)
        return self.utilities.levels_at(cost, np.ones(len(cost)))

    def _first_above_bounds(self, prices: Float, budget: float) -> Float:
        """The same with a common level and lower bounds."""
        assert self.lower_bounds is not None
        smoothed = 0.5 * self.demands.cheapest(prices)
        level, cost = self.lower_bounds.common_level(smoothed, budget)
        self.prices, self.smoothed = prices / (level * cost), smoothed / (level * cost)
        return np.array([level])

    def _start(self, wanted: Float) -> None:
        """Start near the levels wanted at the first prices."""
        demands, coefficients = self.demands, self.limit_coefficients
        shape = demands.eligible.shape
        finite = np.isfinite(self.limits)
        cost = self._by_group(self.smoothed)
        if self.lower_bounds is not None and self.together:
            cost = 1.0 / wanted
        centre = float((np.minimum(wanted, self.limits) * cost).sum()) / (shape[0] * shape[1])
        # the multiplier of a limit that binds is far above the centre, and its slack far below
        at_limit = np.where(finite, self.limits, 1.0)
        multipliers = np.maximum(self.utilities.at(at_limit) - self.sum_cost - cost, 0.0)
        slack = np.clip(centre / np.maximum(multipliers, TINY), 1e-30 * at_limit, 0.5 * at_limit)
        self.levels = np.minimum(wanted, np.where(finite, at_limit - slack, np.inf))
        if coefficients is None:
            self.limit_slack = np.where(wanted >= at_limit - slack, slack, self.limits - self.levels)
            self.limit_slack[~self.limited] = 1.0
            without = cost + self.sum_cost  # negative costs stay negative
            most = np.where(without < 0, np.maximum(multipliers, -0.5 * without), np.inf)
            self.limit_multipliers = np.where(
                self.limited, np.minimum(np.maximum(centre / self.limit_slack, multipliers), most), 0.0
            )
        else:
            self.limit_multipliers = np.where(self.limited, centre, 0.0)
            if not self.together:  # at limits marginal utility exceeds costs, and multipliers make up for it
                self.smoothed = np.maximum(self.smoothed, self.utilities.at(self.levels))
        if self.lower_bounds is not None:
            self._start_above_bounds(centre)
        self._spread()
        if coefficients is not None:
            self.limit_slack = np.where(self.limited, np.maximum(1.0 - self._used_limits(), 0.5), 1.0)
        self.slack = np.maximum(self.usable - self.used, 0.5 * self.usable)  # loads need not fit yet

    def _spread(self) -> None:
        """Spread the level of each user over its servers, by reduced costs at prices and smoothed minima."""
        demands, coefficients, levels = self.demands, self.limit_coefficients, self.user_levels
        shape = demands.eligible.shape
        self.reduced, self.parts, self._ratios, self._dreduced, self._dparts = (by_pair(*shape) for _ in range(5))
        for users in demands.chunks():
            self.reduced[users] = demands.costs(self.prices, users) - self.smoothed[users, None]
            if coefficients is not None:
                part = coefficients[users]
                # the multiplier of the limit makes the reduced costs positive that v_j leaves negative
                short = np.divide(-self.reduced[users], part, out=np.zeros_like(part), where=part > 0)
                self.limit_multipliers[users] += 2.0 * np.maximum(short.max(axis=1), 0.0)
                self.reduced[users] += part * self.limit_multipliers[users, None]
            # in proportion to 1 / y_js, so that all products of a user are equal
            parts = np.divide(1.0, self.reduced[users], out=self.parts[users])
            parts *= (levels[users] / parts.sum(axis=1))[:, None]
        self.used = demands.all_loads(self.parts)

    def move_to(self, demands: Demands) -> None:
        """Go on with other pairs of users and servers, on which users' least costs are about the same."""
        near = self.reduced.min(axis=1)
        self.demands = demands
        self.smoothed = np.minimum(self.smoothed, demands.cheapest(self.prices) - 0.5 * near)
        self._spread()

    def _start_above_bounds(self, centre: float) -> None:
        """Start above lower bounds, with multipliers that make up for marginal utilities there."""
        bounds, cost = self.lower_bounds, self.smoothed
        assert bounds is not None
        if self.together:
            bounds.start_together(float(self.levels[0]), cost, centre)
            return
        levels = bounds.start_alone(self.levels, self.limits, cost, centre)
        moved = levels > self.levels
        self.limit_slack = np.where(moved & self.limited, self.limits - levels, self.limit_slack)
        self.levels = levels
        excess = self.utilities.at(levels) - cost
        # whichever bound binds has the large multiplier, and the other one that of the centre
        least = np.minimum(centre / np.where(excess > 0, bounds.slack[0], self.limit_slack), cost)
        multipliers = np.where(self.limited, np.where(excess > 0, least + excess, least), 0.0)
        self.limit_multipliers = np.where(bounds.bounded, multipliers, self.limit_multipliers)
        bounds.multipliers[0] = np.where(bounds.bounded, np.maximum(self.limit_multipliers - excess, 0.0), 0.0)

    def _used_limits(self) -> Float:
        """The part of each user's limit that its parts take."""
        assert self.limit_coefficients is not None
        return np.einsum("js,js->j", self.parts, self.limit_coefficients)

    @property
    def _strayed(self) -> Float:
        """By how much levels are further from their limits than the slack says, by group; 0 up to `STRAYED`.

        A level is the sum of its parts, whose steps are less exact than those of slack where matrices are singular.
        """
        if self.limit_coefficients is not None:
            return np.zeros_like(self.limit_slack)
        limits = np.where(self.limited, self.limits, 1.0)
        strayed = np.where(self.limited, limits - self.levels - self.limit_slack, 0.0)
        return np.where(np.abs(strayed) > STRAYED * limits, strayed, 0.0)

    def _by_group(self, by_user: Float) -> Float:
        return by_user.sum(keepdims=True) if self.together else by_user

    @property
    def user_levels(self) -> Float:
        """The level of each user."""
        if not self.together:
            return self.levels
        if self.lower_bounds is not None:
            return self.lower_bounds.user_levels(self.levels)
        return np.broadcast_to(self.levels, (self.demands.n_users,))

    @property
    def cost(self) -> Float:
        """What a unit of level costs each group, with all multipliers: the right side of its optimality condition."""
        smoothed = self.smoothed if self.lower_bounds is None else self.lower_bounds.net(self.smoothed)
        cost = self._by_group(smoothed) + self.sum_cost
        return cost + self.limit_multipliers if self.limit_coefficients is None else cost

    @property
    def disagreement(self) -> Float:
        """The logarithm of each group's marginal utility, less that of `cost`."""
        return self.utilities.logs(self.levels) - np.log(self.cost)

    @property
    def cheapest(self) -> Float:
        """Each user's cost of a unit of level on its cheapest server."""
        out: Float = self.smoothed + self.reduced.min(axis=1)
        return out

    @property
    def charged(self) -> Float:
        """The cost of a unit of level by which products are measured, (n_users,)."""
        return self.cheapest

    @property
    def complementarity(self) -> float:
        """The sum of all complementarity products."""
        pairs = float(np.einsum("js,js->", self.parts, self.reduced))
        if self.lower_bounds is not None:
            pairs += self.lower_bounds.products
        of_limits = float((self.limit_slack * self.limit_multipliers)[self.limited].sum())
        return pairs + float((self.prices * self.slack).sum()) + of_limits

    def done(self, tolerance: float, each: float) -> bool:
        """Whether products are small relative to spending, and no capacity is exceeded by more than the tolerance.

        ``each`` bounds what a user below its limit pays for unused capacities, with its products, relative to its
        spending: at large alpha users of high levels hardly count in the sum. It is not tested for a common level.
        """
        spending = np.maximum(self.user_levels, self.utilities.least) * self.charged
        excess, unit = float((self.used / self.usable).max()) - 1.0, float(self.levels @ np.abs(self.cost))
        if self.limit_coefficients is None:
            total = max(float(spending.sum()), 1e-3 * unit)  # limits may make prices vanish
            unit = total if self.lower_bounds is None else min(total, unit)  # lower bounds may cost more than utilities
        else:
            spending = np.maximum(spending - self.limit_multipliers * (1.0 - self.limit_slack), 0.0)
            excess = max(excess, float(self._used_limits().max()) - 1.0)
        products = self.complementarity + float(np.abs(self._strayed) @ self.limit_multipliers)
        if not (products <= tolerance * unit and excess <= tolerance):
            return False
        if self.together:
            return True
        whole = self.levels if self.limit_coefficients is None else 1.0
        below = ~self.limited | (self.limit_slack > each * whole)
        unused = self.prices * (self.slack / self.usable)
        for users in self.demands.chunks():
            over = self.reduced[users] + self.demands.price(unused, users)
            wasted = np.einsum("js,js->j", self.parts[users], np.where(self.demands.eligible[users], over, 0.0))
            if (wasted > each * spending[users])[below[users]].any():
                return False
        return True

    def step(self) -> float:
        """Take one Newton step with a corrector; returns its length, from 0 to 1, and 0 if there is no step."""
        self._residual = self.utilities.residual(self.levels, self.cost)
        stiffness, limits, shared = self._residual.stiffness, None, None
        if self.limit_coefficients is None:
            stiffness = stiffness + self.limit_multipliers / self.limit_slack
            if self.lower_bounds is not None and self.together:
                *shared, of_level = self.lower_bounds.shared
                stiffness = stiffness + of_level
            elif self.lower_bounds is not None:
                stiffness = stiffness + self.lower_bounds.ratios[0]
        else:
            # here the limit has an equation of its own, and a second unknown per user (Proposition 5.12)
            ratio = self.limit_slack / np.maximum(self.limit_multipliers, TINY)
            limits = self.limit_coefficients, np.where(self.limited, ratio, 1.0)
        response = 1.0 / stiffness
        for users in self.demands.chunks():
            np.divide(self.parts[users], self.reduced[users], out=self._ratios[users])
        # with as many users as prices both take the same time
        kind = ByUsers if self.demands.n_users < self.prices.size else ByPrices
        try:
            system = kind(self.demands, self._ratios, self.slack / self.prices, response, self.together, limits, shared)
        except (np.linalg.LinAlgError, ValueError):  # NaN, infinite or not positive definite
            return 0.0
        move = self._corrected(system)
        if move is None:
            return 0.0
        shrink = self._shrink(move)  # 1 / shrink of the step ends at the nearest bound
        for users in self.demands.chunks():
            shrink = max(shrink, -float((self._dparts[users] / self.parts[users]).min()))
            shrink = max(shrink, -float((self._dreduced[users] / self.reduced[users]).min()))
        if not np.isfinite(shrink):
            return 0.0
        length = min(1.0, BACK / max(shrink, TINY))
        self._go(length, move)
        return length

    def _solve(self, system: PriceSystem, right: Right) -> Move:
        """The changes for right-hand sides; writes those of reduced costs to ``_dreduced``."""
        excess, of_limits = self._residual.excess, right.used_limits
        if self.limit_coefficients is None:
            to_limits = right.limits - self.limit_multipliers * (strayed := self._strayed)
            excess = excess - to_limits / self.limit_slack
        else:  # without a limit multipliers stay 0
            multipliers = np.where(self.limited, self.limit_multipliers, 1.0)
            missing = np.where(self.limited, 1.0 - self._used_limits() - self.limit_slack, 0.0)
            of_limits = missing - of_limits - right.limits / multipliers
        lifted, bounds = np.zeros(len(right.parts)), self.lower_bounds
        if bounds is not None and right.bounds is not None:
            lifted = bounds.lifted(right.bounds)
            if self.together:
                lifted += np.where(bounds.bounded, bounds.multipliers.sum(axis=0) - self.smoothed, 0.0)
                shared = (right.bounds[1] / bounds.slack[1] - system.follows * lifted)[bounds.bounded]
                excess = excess - float(shared.sum())
            else:
                excess = excess + lifted
        if self.together:
            short = self.user_levels - self.parts.sum(axis=1) + system.responses * lifted
        else:
            short = system.response * excess
        of_level = float(excess[0]) if self.together else 0.0
        prices, smoothed, level, multipliers = system.solve(
            short - right.parts, of_limits, right.loads, of_level, self._dreduced
        )
        # not the sum over servers of the parts' changes, which is only rounding where multipliers of limits are large
        levels = np.array([level]) if self.together else system.response * (excess - smoothed)
        slack = right.slack - self.slack / self.prices * prices
        if self.limit_coefficients is None:
            multipliers = (to_limits + self.limit_multipliers * levels) / self.limit_slack * self.limited
            limit_slack = strayed - levels
        else:
            own = np.where(self.limited, self.limit_multipliers, 1.0)
            limit_slack = (right.limits - self.limit_slack * multipliers) / own * self.limited
        move = None
        if bounds is not None and right.bounds is not None:
            rises = levels[None]
            if self.together:
                alone = system.responses * (lifted - smoothed)
                rises = np.stack([alone + system.follows * level, alone - system.responses * bounds.ratios[0] * level])
            move = bounds.move(right.bounds, rises)
        return Move(prices, slack, smoothed, levels, multipliers, limit_slack, bounds=move)

    def _corrected(self, system: PriceSystem) -> Move | None:
        """The direction of the step, or None; writes changes by pair to ``_dparts`` and ``_dreduced``."""
        slack, limited, coefficients = self.slack, self.limited, self.limit_coefficients
        totals = self.parts.sum(axis=1)
        nothing = np.zeros_like(totals)
        # Products shrink in proportion to the spending of their user or the earnings of their capacity. If all are
        # equal, gaps are the same, but tasks of single users of little spending differ by up to 8e-4 at alpha = 5.
        if self.together:
            by_user, by_row = np.ones_like(totals), np.ones_like(slack)
        else:
            by_user = np.maximum(self.levels, self.utilities.little) * self.charged
            by_row = self.usable * self.prices
        by_user /= by_user.mean()
        by_row /= by_row.mean()
        by_group = limited * (1.0 if self.together and coefficients is None else by_user)
        n_products = float(by_user.sum()) * self.parts.shape[1] + float(by_group.sum()) + float(by_row.sum())
        bounds = self.lower_bounds
        if bounds is not None:
            n_products += float(by_user[bounds.bounded].sum()) * len(bounds.slack)
        products = self.complementarity
        missing = self.usable - self.used - slack

        # the predictor aims at products of 0
        right = Right(
            -totals,
            nothing if coefficients is None else -self._used_limits(),
            -self.used - missing - slack,
            -slack,
            -self.limit_slack * self.limit_multipliers,
            None if bounds is None else bounds.aims(None, 0.0),
        )
        predictor = self._solve(system, right)
        shrink = second = 0.0
        sums, inverse_sums = np.empty_like(totals), np.empty_like(totals)
        if coefficients is None:
            used_limits, inverse_limits = nothing, nothing
        else:
            used_limits, inverse_limits = np.empty_like(totals), np.empty_like(totals)
        loads, inverse_loads = np.zeros_like(slack), np.zeros_like(slack)
        for users in self.demands.chunks():
            parts, reduced, changes = self.parts[users], self.reduced[users], self._dparts[users]
            dreduced = self._dreduced[users]
            # relative changes: dz / z = -1 - dy / y at products of 0, of which one falls below 0 if |dy / y| is large
            np.divide(dreduced, reduced, out=changes)
            shrink = max(shrink, -float(changes.min()), 1.0 + float(changes.max()))
            scaled = parts * changes
            second -= float(np.einsum("js,js->", scaled, dreduced)) + float(np.einsum("js,js->", scaled, reduced))
            changes += 1.0
            changes *= scaled  # minus the product of both changes, per reduced cost
            changes -= parts
            sums[users] = changes.sum(axis=1)
            if coefficients is not None:
                used_limits[users] = np.einsum("js,js->j", changes, coefficients[users])
            loads += self.demands.loads(changes, users)
            np.divide(by_user[users, None], reduced, out=scaled)
            inverse_sums[users] = scaled.sum(axis=1)
            if coefficients is not None:
                inverse_limits[users] = np.einsum("js,js->j", scaled, coefficients[users])
            inverse_loads += self.demands.loads(scaled, users)
        shrink = max(shrink, self._shrink(predictor))
        if not 0 < shrink < np.inf:
            return None
        length = min(1.0, 1.0 / shrink)
        of_limits = float(predictor.limit_slack @ predictor.limit_multipliers)
        second += float((predictor.prices * predictor.slack).sum()) + of_limits
        if predictor.bounds is not None:
            second += float((predictor.bounds.slack * predictor.bounds.multipliers).sum())
        # products after the predictor: linear in its length, plus the product of both changes
        left = max((1.0 - length) * products + length**2 * second, 0.0) / products
        centre = max(min(left, 1.0) ** 3, SMALLEST_CENTRE) * products / n_products

        # the corrector aims at the centre, with the second-order terms of the predictor
        to_slack = (centre * by_row - predictor.slack * predictor.prices) / self.prices - slack
        to_limits = centre * by_group - self.limit_slack * self.limit_multipliers
        to_limits = (to_limits - predictor.limit_slack * predictor.limit_multipliers) * limited
        sums += centre * inverse_sums
        loads += centre * inverse_loads - missing + to_slack
        to_bounds = None if bounds is None else bounds.aims(predictor.bounds, centre * by_user)
        right = Right(sums, used_limits + centre * inverse_limits, loads, to_slack, to_limits, to_bounds)
        move = self._solve(system, right)
        for users in self.demands.chunks():
            self._dparts[users] += (centre * by_user[users, None]) / self.reduced[users]
            self._dparts[users] -= self._ratios[users] * self._dreduced[users]
        return move

    def _shrink(self, move: Move) -> float:
        """The largest relative fall of a number that must stay positive, without those by pair."""
        limited, smoothed, first = self.limited, move.smoothed, 0.0
        if self.lower_bounds is not None and move.bounds is not None:
            smoothed = self.lower_bounds.net(smoothed, move.bounds.multipliers)
            first = self.lower_bounds.shrink(move.bounds)
        cost = self._by_group(smoothed) + move.sum_cost
        falls = (
            -move.prices / self.prices,
            -move.slack / self.slack,
            -move.levels / self.levels,
            -(cost + (move.limit_multipliers if self.limit_coefficients is None else 0.0)) / self.cost,
            -move.limit_multipliers[limited] / self.limit_multipliers[limited],
            -move.limit_slack[limited] / self.limit_slack[limited],
        )
        return max(first, *(float(fall.max(initial=0.0)) for fall in falls))

    def _go(self, length: float, move: Move) -> None:
        for users in self.demands.chunks():
            self.parts[users] += length * self._dparts[users]
            self.reduced[users] += length * self._dreduced[users]
        self.prices = self.prices + length * move.prices
        self.slack = self.slack + length * move.slack
        self.smoothed = self.smoothed + length * move.smoothed
        self.limit_multipliers = self.limit_multipliers + length * move.limit_multipliers
        self.sum_cost = self.sum_cost + length * move.sum_cost
        self.limit_slack = np.where(self.limited, self.limit_slack + length * move.limit_slack, 1.0)
        # The sum, as levels that are moved by themselves part from it by the rounding of all steps: with lower bounds
        # at alpha = 5 gaps up to 4e-8 instead of 6e-9.
        self.levels = self.levels + length * move.levels if self.together else self.parts.sum(axis=1)
        if self.lower_bounds is not None and move.bounds is not None:
            self.lower_bounds.go(length, move.bounds)
        if not self.together:
            self._settle()
        self.used = self.demands.all_loads(self.parts)

    def _settle(self) -> None:
        """Move marginal utilities and costs that differ by more than `FAR` nearer, if logarithms are not linear."""
        far = np.abs(self.disagreement) > FAR
        if not far.any():
            return
        bounds = self.lower_bounds
        of_bounds = np.zeros_like(self.levels) if bounds is None else bounds.multipliers[0]
        elasticity = self.utilities.elasticity(self.levels)
        far &= elasticity != 1  # there logarithms are linear
        flat = far & (elasticity < 1) & (self.smoothed > 0)
        if flat.any():  # marginal utility hardly depends on the level
            aim = self.utilities.at(self.levels) - self.limit_multipliers - self.sum_cost + of_bounds
            # not so far that a reduced cost of some server, which falls as much, is no longer positive
            top = self.smoothed + (1.0 - 1.0 / SETTLE) * self.reduced.min(axis=1)
            smoothed = np.where(flat, np.clip(aim, self.smoothed / SETTLE, top), self.smoothed)
            self.reduced -= (smoothed - self.smoothed)[:, None]
            self.smoothed = smoothed
        if self.limit_coefficients is None:
            net = self.smoothed - of_bounds
            aim = self.utilities.at(self.levels) - net - self.sum_cost
            # else the multiplier of the limit takes what differs
            multipliers = np.clip(aim, self.limit_multipliers / SETTLE, self.limit_multipliers * SETTLE)
            changed = far & self.limited & (net + multipliers > 0)
            self.limit_multipliers = np.where(changed, multipliers, self.limit_multipliers)
        if bounds is not None:
            cost = self.smoothed + self.limit_multipliers
            aim = np.clip(cost - self.utilities.at(self.levels), of_bounds / SETTLE, of_bounds * SETTLE)
            bounds.multipliers[0] = np.where(far & bounds.bounded & (cost > aim), aim, of_bounds)
        used = self.levels if self.limit_coefficients is None else self._used_limits()
        levels = self.utilities.levels_at(self.cost, self.levels, self.levels / SETTLE, self.levels * SETTLE)
        top = np.where(self.limited, (1.0 + (1.0 - 1.0 / SETTLE) * self.limit_slack / used) * self.levels, np.inf)
        levels = np.where(far, np.minimum(levels, top), self.levels)
        if bounds is not None:
            bottom = np.where(bounds.bounded, self.levels - (1.0 - 1.0 / SETTLE) * bounds.slack[0], 0.0)
            levels = np.maximum(levels, bottom)
            bounds.slack[0] = np.where(bounds.bounded, bounds.slack[0] + (levels - self.levels), 1.0)
        # last the level itself; its parts keep their proportions
        self.parts *= (levels / self.levels)[:, None]
        self.limit_slack = np.where(self.limited, self.limit_slack - used * (levels / self.levels - 1.0), 1.0)
        self.levels = levels


class Right(NamedTuple):
    """Right-hand sides of the linearised conditions: changes that products and residuals ask for.

    ``parts`` (n_users,) are sums over servers, ``used_limits`` the same in parts of limits, ``loads`` are of parts and
    slack, ``slack`` of slack alone, ``limits`` and ``bounds`` of products of limits and lower bounds.
    """

    parts: Float
    used_limits: Float
    loads: Float
    slack: Float
    limits: Float
    bounds: Float | None


class Move(NamedTuple):
    """Changes of a point, without those by pair."""

    prices: Float
    slack: Float
    smoothed: Float
    levels: Float
    limit_multipliers: Float
    limit_slack: Float
    sum_cost: Float | float = 0.0
    bounds: BoundMove | None = None


class PriceSystem(ABC):
    """The linear system of a step, factored (Propositions 5.3 and 5.12).

    With prices as unknowns users are eliminated (`ByPrices`, S m equations), else prices are, server by server
    (`ByUsers`, n equations). Of 3,300 random instances (1 to 60 users, 2 to 150 servers, demands and capacities over up
    to seven decades, zeros, ties, weights, limits, counts) 7 were not certified by users and 8 by prices, 7 of them the
    same. With as many users as prices both take the same time.

    ``ratios`` (n_users, n_servers) are θ, parts over reduced costs, ``per_price`` (n_resources, n_servers) are slacks
    over prices, ``response`` (n_groups,) is ϱ. ``limits`` are the coefficients in limits and slacks over multipliers of
    these, if limits are not on levels. ``shared`` are, for a common level, each user's own response and the part by
    which it follows the level, if there are lower bounds (Proposition 5.16). Raises `numpy.linalg.LinAlgError` or
    ValueError if a number is NaN or infinite, or the matrix not positive definite.
    """

    def __init__(
        self,
        demands: Demands,
        ratios: Float,
        per_price: Float,
        response: Float,
        together: bool,
        limits: tuple[Float, Float] | None = None,
        shared: Sequence[Float] | None = None,
    ) -> None:
        self.demands, self.ratios, self.per_price, self.together = demands, ratios, per_price, together
        self.response, self.limits = response, limits
        if shared is not None:
            self.responses, self.follows = shared
        else:
            self.responses, self.follows = np.zeros(demands.n_users) if together else response, np.ones(demands.n_users)
        self._factor(self.responses)

    @abstractmethod
    def _factor(self, responses: Float) -> None:
        """Factor the matrix; ``responses`` (n_users,) is the response of each user's own level."""

    @abstractmethod
    def solve(
        self, of_users: Float, of_limits: Float, of_loads: Float, of_level: float, dreduced: Float
    ) -> tuple[Float, Float, float, Float]:
        """Changes of prices (n_resources, n_servers), smoothed minima (n_users,), the common level, and multipliers.

        The right-hand sides are δ ``of_users`` (n_users,), those ``of_limits`` (n_users,) if limits are not on levels,
        β ``of_loads`` (n_resources, n_servers), and that ``of_level``, 0 without a common level. Changes of reduced
        costs are written to ``dreduced``.
        """


def factored(matrix: Float) -> tuple[tuple[Float, bool], Float]:
    """Cholesky factor of a symmetric matrix scaled to a diagonal of one, and the scale; overwrites the matrix."""
    diagonal = np.arange(len(matrix))
    unit = 1.0 / np.sqrt(matrix[diagonal, diagonal])
    matrix *= unit * unit[:, None]
    matrix[diagonal, diagonal] += JITTER
    return linalg.cho_factor(matrix, lower=True, overwrite_a=True), unit


class ByPrices(PriceSystem):
    """Users eliminated: ``B - sum_j a_j V_j V_j'``, plus ``v v' / A`` for a common level."""

    def _factor(self, responses: Float) -> None:
        demands, (m, s) = self.demands, self.per_price.shape
        self.stiffness = np.empty(demands.n_users)
        blocks = np.zeros((len(demands.upper[0]), s))
        matrix = np.zeros((m * s, m * s))
        self.shared, self.inertia = np.zeros(m * s), 0.0  # v and A of Proposition 5.3, for a common level
        if self.limits is not None:  # the average coefficient, and the second pivot
            self.middle, self.pivot = np.empty(demands.n_users), np.empty(demands.n_users)
        for users in demands.chunks():
            ratios = self.ratios[users]
            # B less the user's own part: theta (1 - a theta) = theta a (1 / a - theta) would cancel on a server with
            # nearly all of a user's level, where a theta is 1 but for the last digits
            row, (least, top) = np.arange(len(ratios)), cheapest_of(-ratios)
            most = -least
            ratios[row, top] = 0.0
            others = ratios.sum(axis=1) + responses[users]
            ratios[row, top] = most
            a = self.stiffness[users] = 1.0 / (others + most)
            if self.limits is None:
                own = ratios * (1.0 - a[:, None] * ratios)
                own[row, top] = most * others * a
                weights = a
            else:
                own, second = self._with_limits(users, responses[users], row, top)
                weights = a + self.middle[users] ** 2 / self.pivot[users]
                if self.together:
                    part = (self.middle[users] / self.pivot[users])[:, None]
                    self.shared -= demands.loads(second * part, users).ravel()
                demands.subtract_products(matrix, second / np.sqrt(self.pivot[users])[:, None], users)
            blocks += demands.curvature(own, users)
            if self.together:
                follows = self.follows[users]
                self.shared += demands.loads(ratios * (a * follows)[:, None], users).ravel()
                self.inertia += float(weights @ follows**2)
            demands.subtract_products(matrix, ratios * np.sqrt(a)[:, None], users)
        server = np.arange(s)
        # blocks of one server replace what products of users left there: these differences would cancel
        for block, i, k in zip(blocks, *demands.upper, strict=True):
            matrix[i * s + server, k * s + server] = matrix[k * s + server, i * s + server] = block
        diagonal = np.arange(m * s)
        matrix[diagonal, diagonal] += self.per_price.ravel()
        if self.together:
            self.inertia += float(1.0 / np.float64(self.response[0]))
            matrix += np.outer(self.shared, self.shared / self.inertia)  # rank one: the common level is eliminated last
        self.factor, self.unit = factored(matrix)

    def _with_limits(self, users: slice, responses: Float, row: Indices, top: Indices) -> tuple[Float, Float]:
        """The diagonal curvature of each server, and θ times the coefficient less its average, with users' limits.

        On the two servers with most of a user's level the former is ``θ_s D(θ without s) / D(θ)``, D being the
        determinant of the user's two equations: a difference would cancel.
        """
        assert self.limits is not None
        coefficients, per_multiplier, ratios = self.limits[0][users], self.limits[1][users], self.ratios[users]

        def pivots() -> tuple[Float, Float, Float, Float]:
            first = ratios.sum(axis=1) + responses
            middle = np.einsum("js,js->j", ratios, coefficients) / first
            centred = coefficients - middle[:, None]
            turned = ratios * centred
            return (
                first,
                middle,
                turned,
                np.einsum("js,js->j", turned, centred) + responses * middle**2 + per_multiplier,
            )

        first, middle, second, pivot = pivots()
        self.middle[users], self.pivot[users] = middle, pivot
        own: Float = ratios - ratios**2 / first[:, None] - second**2 / pivot[:, None]
        most = ratios[row, top]
        ratios[row, top] = 0.0
        after = cheapest_of(-ratios)[1]
        for server, theta in ((top, most), (after, ratios[row, after])):
            ratios[row, top] = most
            ratios[row, server] = 0.0
            without, _, _, rest = pivots()
            own[row, server] = theta * (without / first) * (rest / pivot)
            ratios[row, server] = theta
        return own, second

    def solve(
        self, of_users: Float, of_limits: Float, of_loads: Float, of_level: float, dreduced: Float
    ) -> tuple[Float, Float, float, Float]:
        """See `PriceSystem.solve`; prices come first."""
        offset, multipliers = self._by_user(of_users, of_limits)
        right = of_loads.copy()
        for users in self.demands.chunks():
            right += self.demands.loads(self.ratios[users] * self._falls(offset, multipliers, users), users)
        flat, level = right.ravel(), 0.0
        common = of_level - float(self.follows @ offset)
        if self.together:
            flat = flat + self.shared * (common / self.inertia)
        flat = self.unit * linalg.cho_solve(self.factor, self.unit * flat, check_finite=False)
        if self.together:
            level = float(common - self.shared @ flat) / self.inertia
        prices, along, across = flat.reshape(of_loads.shape), of_users + self.follows * level, of_limits.copy()
        for users in self.demands.chunks():
            change = dreduced[users]
            change[:] = self.demands.price(prices, users)
            along[users] += np.einsum("js,js->j", self.ratios[users], change)
            if self.limits is not None:
                across[users] += np.einsum("js,js,js->j", self.ratios[users], self.limits[0][users], change)
        smoothed, multipliers = self._by_user(along, across)
        for users in self.demands.chunks():
            dreduced[users] -= self._falls(smoothed, multipliers, users)
        return prices, smoothed, level, -multipliers

    def _by_user(self, of_users: Float, of_limits: Float) -> tuple[Float, Float]:
        """The solution of each user's two equations."""
        if self.limits is None:
            return self.stiffness * of_users, of_limits
        multipliers = (of_limits - self.middle * of_users) / self.pivot
        return self.stiffness * of_users - self.middle * multipliers, multipliers

    def _falls(self, smoothed: Float, multipliers: Float, users: slice) -> Float:
        """The fall of reduced costs by these changes."""
        falls = smoothed[users, None]
        return falls if self.limits is None else falls + self.limits[0][users] * multipliers[users, None]


class ByUsers(PriceSystem):
    """Prices eliminated: ``1 / a - V B^-1 V'``, plus ``response`` everywhere for a common level.

    With the factors ``B_s = L_s L_s'`` of each server's block, ``rows`` are ``V L'^-1``.
    """

    def _factor(self, responses: Float) -> None:
        demands, (m, s) = self.demands, self.per_price.shape
        blocks = np.zeros((len(demands.upper[0]), s))
        sums = np.empty(demands.n_users)
        for users in demands.chunks():
            blocks += demands.curvature(self.ratios[users], users)
            sums[users] = self.ratios[users].sum(axis=1)
        square = np.zeros((s, m, m))  # B by server, with a diagonal of one
        for block, i, k in zip(blocks, *demands.upper, strict=True):
            square[:, i, k] = square[:, k, i] = block
        diagonal = np.arange(m)
        square[:, diagonal, diagonal] += self.per_price.T
        unit = 1.0 / np.sqrt(square[:, diagonal, diagonal])
        square *= unit[:, :, None] * unit[:, None, :]
        square[:, diagonal, diagonal] += JITTER
        # (m, m, s): the inverse of L by row and column; m is small, and all servers are multiplied at once
        self.inverse = np.moveaxis(np.linalg.inv(np.linalg.cholesky(square)) * unit[:, None, :], 0, 2).copy()
        n = demands.n_users
        self.rows = np.empty((n if self.limits is None else 2 * n, m, s))
        for users in demands.chunks():
            for row in range(m):
                np.multiply(self.ratios[users], demands.price(self.inverse[row], users), out=self.rows[:n][users, row])
        every = np.arange(n)
        if self.limits is not None:
            coefficients, per_multiplier = self.limits
            np.multiply(self.rows[:n], coefficients[:, None, :], out=self.rows[n:])
        flat = self.rows.reshape(len(self.rows), -1)
        # positive definite in exact numbers; where rounding takes that away the factor fails, and steps end
        matrix = -(flat @ flat.T)
        matrix[every, every] += sums + responses
        if self.limits is not None:
            both = np.einsum("js,js->j", self.ratios, coefficients)
            matrix[every, n + every] += both
            matrix[n + every, every] += both
            matrix[n + every, n + every] += (
                np.einsum("js,js,js->j", self.ratios, coefficients, coefficients) + per_multiplier
            )
        if self.together:
            matrix[:n, :n] += self.response[0] * np.outer(self.follows, self.follows)
        self.factor, self.unit = factored(matrix)

    def solve(
        self, of_users: Float, of_limits: Float, of_loads: Float, of_level: float, dreduced: Float
    ) -> tuple[Float, Float, float, Float]:
        """See `PriceSystem.solve`; smoothed minima come first."""
        n, flat = len(of_users), self.rows.reshape(len(self.rows), -1)
        white = np.einsum("iks,ks->is", self.inverse, of_loads)
        right = (of_users if self.limits is None else np.concatenate([of_users, of_limits])) + flat @ white.ravel()
        if self.together:
            right[:n] += self.response[0] * of_level * self.follows
        falls = self.unit * linalg.cho_solve(self.factor, self.unit * right, check_finite=False)
        smoothed, multipliers = falls[:n], falls[n:] if self.limits is not None else of_limits
        level = float(self.response[0] * (of_level - self.follows @ smoothed)) if self.together else 0.0
        white += (falls @ flat).reshape(white.shape)
        prices = np.einsum("iks,is->ks", self.inverse, white)
        for users in self.demands.chunks():
            dreduced[users] = self.demands.price(prices, users) - smoothed[users, None]
            if self.limits is not None:
                dreduced[users] -= self.limits[0][users] * multipliers[users, None]
        return prices, smoothed, level, -multipliers
