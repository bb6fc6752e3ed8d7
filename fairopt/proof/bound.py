"""Bounds by weak duality (Boyd and Vandenberghe 2004), user by user: the largest gain at given costs.

At any prices p >= 0 of rows ``A x <= h``, with k_j the cost of a task of user j where it is cheapest,

    max_x sum_j f_j(x_j)  <=  h'p + sum_j max_(low_j <= x <= high_j) f_j(x) - k_j x.

Utility less cost is a user's gain. Its maximum has a closed form for a power, a logarithm and a line, and is bounded by
tangents for a sum of several. `lagrangian` adds these up, and in passes over a pool `pool_gaps` and `many_pool_gaps`.
Nothing is solved here: the prices are a method's, and as the best responses maximise the gains, errors of prices enter
by their squares. Two more numbers have a best value at given prices: the multiplier of a limit on tasks where shares
differ by server (`along_hull`), and the smallest level of all users (`smallest_level`).

Floats: a bound that rounding lowers is none. So `TERM_ROUNDING` times the sum of the absolute terms is added. That is
negligible but where lower bounds fill a resource, whose price may then be anything: two users are proved to 1e-11 at a
price of 1e3, and to more than 1e-3 at 1e13 (0.0 before rounding was counted). Powers of levels overflow at large alpha,
hence levels relative to the smallest (`fair_gap`) and logarithms of prices. A NaN proves nothing.

Proofs: Propositions 4.4 and 4.9 (docs/methods/pool.md), 5.1, 5.11 and 5.16 (servers.md), Bound 7.1 (cone.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.form import Curve
from fairopt.blocks.marginal import PowerMarginal
from fairopt.blocks.powers import boxcox
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.tolerances import ROUNDING, TERM_ROUNDING
from fairopt.solve.form.demands_at_prices import cheapest_of

BESIDE = 1e-9  # relative distance from best responses of tangents, where these have no closed form
FLOOR_STEPS = 100  # for the smallest level above lower bounds: 2 were too few for 5 of 200 instances


class Gain(NamedTuple):
    """Utility and cost of users' best responses."""

    utility: Float
    cost: Float

    @property
    def most(self) -> Float:
        """Utility less cost."""
        return self.utility - self.cost

    @property
    def size(self) -> Float:
        """The sum of absolute terms."""
        return np.abs(self.utility) + np.abs(self.cost)

    def sums(self, weigh: Callable[[Float], float], mixed: bool) -> tuple[float, float]:
        """Weighted sums of `most` and `size`; utilities have one sign unless ``mixed``."""
        utility, cost = weigh(self.utility), weigh(self.cost)
        return utility - cost, (weigh(np.abs(self.utility)) if mixed else abs(utility)) + cost


@np.errstate(all="ignore")  # zeros and infinities are expected
def level_at(price: Float, alpha: float, low: Any, high: Any) -> Float:
    """The maximiser of ``u(z) - price z`` over low <= z <= high; for alpha < 0, where u is convex, the minimiser."""
    best: Float = np.divide(1.0, price)
    best **= 1.0 / alpha  # in place: a pool may have a million users
    if isinstance(low, float) and isinstance(high, float) and low == 0 and high == np.inf and price.min() > 0:
        return best
    if not price.min() > 0:  # who pays nothing runs all it can
        best = np.where(price > 0, best, high if alpha > 0 else low)
    return np.clip(best, low, high, out=best)


def power(z: Float, alpha: float, shift: float = 1.0) -> Float:
    """``u(z) = (z^(1-alpha) - shift) / (1-alpha)``, the logarithm at alpha = 1.

    A shift of 1 makes u continuous in alpha at 1; a shift of 0 keeps the digits of tiny powers.
    """
    return boxcox(z, 1.0 - alpha) if shift or alpha == 1 else z ** (1.0 - alpha) / (1.0 - alpha)


@np.errstate(all="ignore")
def gain_of_power(price: Float, alpha: float, low: Any, high: Any, shift: float = 1.0) -> Gain:
    """``max over low <= z <= high of u(z) - price z``, u as in `power`; for alpha < 0 the minimum."""
    best = level_at(price, alpha, low, high)
    utility = power(best, alpha, shift)
    best[best == np.inf] = 0.0  # at a price of 0, where a finite utility costs nothing
    best *= price
    return Gain(utility, best)


def gain_of_total(utility: Float, cost: Float, low: Any, high: Any) -> Gain:
    """``max over low <= x <= high of (utility - cost) x``, from above; both coefficients are nonnegative."""
    # where rounding decides the sign, the user counts as gaining at its upper end; the sums add the rounding of both
    best = np.where(utility - cost + TERM_ROUNDING * (utility + cost) > 0, high, low)
    return Gain(utility * best, cost * best)


def gap_of_means(bound: float, value: float, weight: float, alpha: float, shift: float = 1.0) -> float:
    """The logarithm of (bound on a weighted power mean / mean achieved), from sums of ``w u(z)``.

    Its absolute value: a mean above the bound is owed to capacity that rounding adds.
    """
    # log M = log(shift + exponent * mean of u) / exponent
    exponent, bound, value = 1.0 - alpha, bound / weight, value / weight
    if not (np.isfinite(bound) and np.isfinite(value)):
        return np.inf
    if exponent == 0:
        return abs(bound - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log1p if shift else np.log
        gap = float(log(exponent * bound) - log(exponent * value)) / exponent
    return abs(gap) if np.isfinite(gap) else np.inf


@np.errstate(all="ignore")
def fair_gap(weights: Float, z: Float, log_price: Float, alpha: float, low: Any, high: Any, log_limit: Any) -> Any:
    """The logarithm of (bound on a weighted power mean of levels z / mean achieved); users are along the first axis.

    ``log_price`` is the log cost of a unit of level per weight, ``log_limit`` that of prices times capacities and
    limits. Levels are divided by the smallest one, so that no power overflows, and differences of terms are summed for
    accuracy. Users of weight 0 are left out.
    """
    exponent, active = 1.0 - alpha, weights > 0
    smallest = np.where(active, z, np.inf).min(axis=0)
    z, log_unit = z / smallest, np.log(smallest)
    # in multiples of the smallest level, with u in multiples of smallest^(1 - alpha), prices are smallest^alpha times
    gain = gain_of_power(np.exp(log_price + alpha * log_unit), alpha, low / smallest, high / smallest)
    limit = np.exp(log_limit - exponent * log_unit)
    # bound less value, as a sum of each user's gain over what it has: two totals would cancel in the gap's digits
    excess = np.where(active, weights * (gain.utility - boxcox(z, exponent) - gain.cost), 0.0).sum(axis=0) + limit
    excess = np.maximum(excess, 0.0) + TERM_ROUNDING * (np.where(active, weights * gain.size, 0.0).sum(axis=0) + limit)
    # M of the bound is (whole + exponent * excess)^(1 / exponent); for alpha > 1 nothing may be left: an infinite gap
    whole = np.where(active, weights * np.exp(exponent * np.log(z)), 0.0).sum(axis=0)
    gap = np.log1p(np.maximum(exponent * excess / whole, -1.0)) / exponent if exponent else excess / whole
    return np.where(active.any(axis=0), gap, 0.0)


def rounded_up_sum(parts: Float, constant: float) -> float:
    """A sum, rounded up."""
    return float(parts.sum() + constant + TERM_ROUNDING * (np.abs(parts).sum() + abs(constant)))


def best_response(cost: Float, curves: Sequence[Curve], low: Float, high: Float, near: Float | None = None) -> Float:
    """``max over low <= x <= high of sum_t factor_t boxcox(c_t x; 1 - alpha_t) - cost x`` per user, from above.

    Lines are without the constant of Box-Cox: beside a tiny total it has no digits of it.
    Several curves have no closed form: tangents beside a point found by Newton's method, from ``near``, bound them.
    """
    curved = [one for one in curves if one.alpha and np.any(one.factor != 0)]
    for one in curves:
        if one.alpha == 0:  # a line is part of the cost; what cancels there is rounded down, so that the gain is not
            line = one.factor * one.c
            cost = cost - line - TERM_ROUNDING * (np.abs(cost) + np.abs(line))
    if not curved:
        return -cost * np.where(cost < 0, high, low)
    high = np.where(high > 0, high, 1e-300)  # a user without room has a logarithm too
    if len(curved) == 1:
        c, factor = curved[0].c, curved[0].factor
        most = factor * gain_of_power(cost / (factor * c), curved[0].alpha, c * low, c * high).most
        return np.where(factor == 0, -cost * np.where(cost < 0, high, low), most)

    def slope(x: Float) -> Float:
        return sum((one.slopes(one.c * x) * one.c for one in curved), -cost)

    def gain(x: Float) -> Float:
        return sum((one.values(one.c * x) for one in curved), -cost * x)

    start = np.where(np.isfinite(high), high, 1.0)
    start = start if near is None else np.where(near > 0, near, start)
    x = PowerMarginal(curved).response(cost, low, high, start)
    # where it ends does not matter to what is proved: a concave function is below its tangents on either side
    a, b = np.clip(x * (1 - BESIDE), low, high), np.clip(x * (1 + BESIDE), low, high)
    rise, fall, beyond = np.maximum(slope(a), 0.0), np.maximum(-slope(a), 0.0), np.maximum(slope(b), 0.0)
    with np.errstate(invalid="ignore"):
        between = gain(a) + np.maximum(
            np.where(rise > 0, rise * (b - a), 0.0), np.where(fall > 0, fall * (a - low), 0.0)
        )
        return np.maximum(between, gain(b) + np.where(beyond > 0, beyond * (high - b), 0.0))


@np.errstate(all="ignore")  # at no prices no level costs anything
def smallest_level(cost: Float, right: float, low: Float) -> tuple[float, Bool]:
    """The level Z with ``sum_j cost_j max(Z, low_j) = right``, and the users whose lower bounds are below it.

    Newton's method from above: the left side is convex in Z, and any set of users gives a bound.
    """
    free, level = np.full(len(cost), True), np.inf
    for _ in range(FLOOR_STEPS):
        given = float(cost[~free] @ low[~free])
        rest = np.maximum(right - given + TERM_ROUNDING * (abs(right) + abs(given)), 0.0)
        new = float(rest / cost[free].sum())
        if not new < level:
            break
        level, used = new, free
        free = low <= level
        if free.all():
            break
    return (level, used) if level < np.inf else (np.inf, free)


@np.errstate(all="ignore")  # no limit is enough for anything
def along_hull(
    costs: Float, use: Float, curves: Sequence[Curve], most: Float, wanted: Float | None, paid: Float | None = None
) -> tuple[Float, Float]:
    """Users' marginal costs where limits are just enough, and the multipliers of limits there, both (n_users,).

    A unit of a user's variable costs ``costs`` (n_users, n_servers), infinite where it may not run, and uses the part
    ``use`` of its limit, 0 without one. What users want follows from curves, is at least ``wanted`` and at most
    ``most``. With a multiplier l of the limit the cheapest server has ``min_s costs_s + l use_s``, a walk along the
    lower convex hull of the points (use, cost): to servers that cost more and use less of the limit, until the limit is
    enough. Any marginal cost h is valid with the multiplier ``max_s (h - costs_s)+ / use_s``; of users who have limits
    and are ``paid`` for each unit, what they are paid is the best.
    """
    marginal, server = cheapest_of(costs)
    least, here, at = marginal.copy(), server, np.arange(len(marginal))
    used, wants, bound, known = use[at, here], wanted, most, curves
    for _ in range(costs.shape[1]):
        z = 1.0 / used  # what the limit is enough for on this server, and the marginal utility of that
        enough = sum((one.c * one.slopes(one.c * z) for one in known), np.zeros(len(at)))
        if wants is not None:
            enough[wants > z * (1 + ROUNDING)] = np.inf
        moves = np.flatnonzero((enough > marginal[at]) & (bound * used > 1.0))
        if not len(moves):
            break
        at, here, used, enough = at[moves], here[moves], used[moves], enough[moves]
        cost, others, of_others = costs[at, here][:, None], use[at], costs[at]
        fewer = others - used[:, None]
        crossings = np.divide(
            cost * others - of_others * used[:, None],
            fewer,
            out=np.full_like(fewer, np.inf),
            where=(fewer < 0) & (of_others < np.inf),
        )
        # the marginal cost at which two servers are as cheap; the lowest is the next edge of the hull
        edge, there = cheapest_of(crossings)
        step = np.minimum(edge, enough)
        marginal[at] = np.where(step < np.inf, step, marginal[at])  # else no server uses less of the limit
        passed = edge < enough
        at = at[passed]
        here, used = there[passed], use[at, there[passed]]
        wants, bound = None if wanted is None else wanted[at], most[at]
        known = [one.take(at) for one in curves]
    # rounding might lower it below the cheapest server, where the bound does not hold
    marginal = np.maximum(marginal, least)
    if paid is not None:
        marginal = np.where((use > 0).any(axis=1), np.maximum(least, paid), marginal)
    multipliers = np.zeros(len(marginal))
    above = np.flatnonzero(marginal > least)
    part, costs, use = marginal[above], costs[above], use[above]
    most_of = np.zeros(len(above))
    for s in range(costs.shape[1]):
        per = np.where(use[:, s] > 0, use[:, s], np.inf)
        np.maximum(most_of, np.maximum(part - costs[:, s], 0.0) / per, out=most_of)
    multipliers[above] = most_of
    return marginal, multipliers
