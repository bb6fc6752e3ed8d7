"""Gaps and violations on one pool, in one pass over the data.

Everything is measured from demands, shares and tasks, with z_j = s_j / w_j and g_ji the part of capacity i that a task
of user j takes. The gap is

    max_i max(top_i / least_i - 1, slack_i / held_i)                                    of leximin (Bound 4.3),
    log M(p'r + sum_j max_z (w_j u(z) - pi_j z)) - log M(sum_j w_j u(z_j))              of alpha-fairness (Bound 4.6),
    (B - total) / B,  B = p'r + sum_j max_x (c_j - pi_j) x                              of a total (Bound 4.9)

(docs/methods/pool.md). The method gives only hints (the order of resources, the prices), and a bad hint gives a large
gap, never a wrong one. All are sums and maxima over users, so that a pass over chunks of users is enough, without a
matrix of pairs, and parts of the users, such as shards, are measured separately and `combined`. `lagrangian` gives the
same bounds (tests/proof/test_pool.py).

Floats: full means full to `SUM_ROUNDING` of a capacity. Where users hold very little of the resource that fixes them,
that rounding is much of their level, and what lower levels owe moves it: `Corrections` count it to first order, and on
pools of up to `MAX_USERS` users levels are bounded in fractions where it decides (`exact_filling`). Of three users, of
whom the last needs 2^-42 of a resource, a level of 1.5 met the condition to 1e-12 where it should be 5.5. Sums of
powers lose digits near alpha = 1, hence the shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fairopt.blocks.form import ratio_gap
from fairopt.proof.bound import gain_of_power, gain_of_total, gap_of_means, power
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import EPS, GAP_TOLERANCE, ROUNDING, SUM_ROUNDING, TERM_ROUNDING
from fairopt.solve.form.pool_users import Chunk, Pool, cost
from fairopt.solve.form.program import Program

MAX_USERS = 2_000  # of a pool that is filled in fractions: some 0.5 seconds

Measures = TypeVar("Measures", bound=Any)

# how fields are combined; others are added
COMBINED = {name: np.max for name in ("above_limit", "below_bound", "has_lower_bounds", "top")}
COMBINED |= {name: np.min for name in ("least", "held_at_bounds", "unstopped", "lowest")}


def combined(parts: Sequence[Measures]) -> Measures:
    """The measures of all parts of the users together."""
    if len(parts) == 1:
        return parts[0]
    values, kind = [], type(parts[0])
    for name, of_parts in zip(kind._fields, zip(*parts, strict=True), strict=True):
        if name == "feasible":
            values.append(combined(of_parts))
        else:
            value: Any = COMBINED.get(name, np.sum)(of_parts, axis=0)
            values.append(value if np.ndim(value) else value.item())
    return kind(*values)


class Feasibility(NamedTuple):
    """How far tasks are from capacities and bounds.

    ``load`` (n_resources,) is the used fraction of each capacity; ``above_limit`` and ``below_bound`` are the largest
    relative violations of limits and of lower bounds. ``has_lower_bounds`` says whether there are any of these.
    """

    load: Float
    above_limit: float
    below_bound: float
    has_lower_bounds: bool = False

    @classmethod
    def of(cls, chunk: Chunk, tasks: Float) -> Feasibility:
        """The measures of a chunk."""
        # bounds are single numbers where all users have the same: then most passes over users are spared
        low, high = chunk.of(chunk.pool.low), chunk.of(chunk.pool.high)
        above_limit, below_bound = (np.inf if tasks.min() < 0 else 0.0), 0.0  # negative tasks are never feasible
        if not (isinstance(high, float) and high == np.inf):
            over = tasks > high
            above_limit = max(
                above_limit, float(np.max((tasks - high) / np.where(over, high, 1.0), initial=0.0, where=over))
            )
        has_lower_bounds = not (isinstance(low, float) and low == 0)
        if has_lower_bounds:
            under = tasks < low
            below_bound = float(np.max((low - tasks) / np.where(under, low, 1.0), initial=0.0, where=under))
        return cls(chunk.ratios @ tasks, above_limit, below_bound, has_lower_bounds)

    def factor(self, usable: Float, n_users: int) -> float:
        """The factor on all tasks with which capacities hold exactly, in any order of summation."""
        margin = min(1e-17 * n_users, 1e-14)  # sums of a million loads differed by 3e-15
        # one factor for all users instead of one for each resource: levels keep their ratios, and so the gap of leximin
        worst = float(np.fmax.reduce(self.load / usable, initial=0.0))  # ignores 0 / 0, of what nobody may use
        # what exceeds a capacity is rounded when it is scaled, and again where identical servers share it
        top = 1.0 - max(margin, 2 * EPS if worst > 1.0 else 0.0)
        return top / worst if worst > top else 1.0

    def scaled(self, factor: float) -> Feasibility:
        """The measures with all tasks multiplied by a factor below 1 (which rounds each by 1e-16)."""
        # (low - t x) / low, of the user who has least of its bound, at 0 below it at first
        below_bound = 1.0 - (1.0 - self.below_bound) * factor if self.has_lower_bounds else 0.0
        return self._replace(load=self.load * factor, below_bound=below_bound)

    @property
    def violation(self) -> float:
        """Largest relative excess over a capacity or limit; infinite where a number is not finite."""
        excess = float(self.load.max(initial=1.0)) - 1.0  # a NaN if there is one
        return max(excess, self.above_limit) if excess < np.inf else np.inf


class Bottlenecks(NamedTuple):
    """The quantities of the bottleneck condition by resource (Bound 4.3).

    ``top`` is the highest level ``s / w`` of a resource's users above their lower bounds. A user below its limit is
    charged to the first resource, in the order checked, that it needs; ``least`` is the lowest level of the charged
    users, ``held`` the load of those above their lower bounds, and ``held_at_bounds`` the load of the lowest of the
    others (infinite without any), who need not rise when others do. ``above_bounds`` is the load by which users at
    their lower bounds exceed them through rounding. ``unstopped`` is the lowest level of users below their limit who
    are charged to no resource, ``lowest`` that of all users.
    """

    feasible: Feasibility
    top: Float
    least: Float
    held: Float
    held_at_bounds: Float
    above_bounds: Float
    unstopped: float
    lowest: float

    @classmethod
    def empty(cls, m: int) -> Bottlenecks:
        """The measures of no users."""
        nothing = Feasibility(np.zeros(m), 0.0, 0.0)
        return cls(nothing, np.zeros(m), np.full(m, np.inf), np.zeros(m), np.full(m, np.inf), np.zeros(m), np.inf, 0.0)

    def scaled(self, factor: float) -> Bottlenecks:
        """The measures with all tasks times a factor.

        A factor below 1 by more than rounding moves users off their limits, and nothing is proved.
        """
        measures: Any = self[1:]
        out = Bottlenecks(self.feasible.scaled(factor), *(measure * factor for measure in measures))
        return out if factor >= 1.0 - 1e-9 else out._replace(unstopped=0.0)

    def slack(self, usable: Float) -> Float:
        """The unused part of each resource, with what users at their lower bounds have above them."""
        left: Float = np.maximum(usable - self.feasible.load, 0.0)
        return left + self.above_bounds

    def full(self, usable: Float) -> bool:
        """Whether all resources with charged users are full up to rounding."""
        return bool(((self.slack(usable) <= SUM_ROUNDING * usable) | np.isinf(self.least)).all())

    def has_small_holdings(self, usable: Float, gap: float | None = None) -> bool:
        """Whether errors of other levels could be many tasks of users who hold very little of their bottleneck
        (`Corrections`); ``gap`` is that without these, if it is known.
        """
        # an error of the gap in lower levels is a part of this size of users who hold so much less of the resource
        part = max(self.gap(usable) if gap is None else gap, SUM_ROUNDING) / GAP_TOLERANCE
        return bool((np.isfinite(self.least) & ~(self.rising >= part * usable)).any())

    @property
    def rising(self) -> Float:
        """The load of the users who would rise together: those above lower bounds, or the lowest of the others."""
        if not self.feasible.has_lower_bounds:
            return self.held
        return np.where((self.held > 0) | np.isinf(self.held_at_bounds), self.held, self.held_at_bounds)

    def gap(self, usable: Float, adjustments: Corrections | None = None) -> float:
        """The relative distance from the bottleneck condition (Bertsekas and Gallager 1992; Bound 4.3).

        The condition characterises max-min fairness: every user is at its limit, or needs a full resource on which no
        user above its lower bound has a larger ``s / w``. A resource's slack, with ``adjustments`` if given, is
        compared with the load of `rising` users, unless it is rounding. Beside lower bounds users who hold no more than
        rounding hold nothing for certain.
        """
        if not self.top.max() < np.inf:
            return np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            slack, rising = self.slack(usable), self.rising
            if adjustments is not None:
                slack = abs(adjustments.corrected(slack, SUM_ROUNDING * usable))
            # where nobody holds anything, the lower bounds of others fill the resource up to rounding
            tolerated = np.where(rising > 0, SUM_ROUNDING, ROUNDING) * usable
            rise = np.where(slack > tolerated, slack / rising, 0.0)
            if self.feasible.has_lower_bounds:  # what lower bounds leave of a capacity may be all rounding
                rise = np.where((rising > 0) & (rising <= ROUNDING * usable), np.inf, rise)
            over = np.where(self.top > self.least, self.top / self.least - 1.0, 0.0)  # 1 / 0 of a user without tasks
            excess = np.maximum(over, rise)
        worst = float(excess[np.isfinite(self.least)].max(initial=0.0))  # a NaN if there is one
        return np.inf if np.isfinite(self.unstopped) or np.isnan(worst) else worst


class Corrections(NamedTuple):
    """First-order corrections of levels: loads on every resource by the resource to which users are charged.

    ``held`` (n_resources, n_resources) is the load on each (second) resource of the users between their bounds charged
    to a resource (first), ``excess`` the part of it by which they are above the lowest of them; ``past`` (n_resources,)
    is the load by which users near their limits exceed these, negative if they are below.
    """

    held: Float
    excess: Float
    past: Float

    def corrected(self, slack: Float, rounding: Float) -> Float:
        """The slack of each resource if the users charged to earlier ones had the one level that fills these.

        They rise from the lowest of their levels by the slack there and by what they hold beyond it. Users need no
        resource before their own, so as many rounds as resources are enough.
        """
        # users of resource i rise by the part rise_i, of what they hold and of what fills it; that changes the slack of
        # other resources by held_ik rise_i
        own, left = np.diag(self.held), slack
        for _ in own:
            rise = np.diag(self.excess) + np.where(abs(left) > rounding, left, 0.0)
            rise = np.divide(rise, own, out=np.zeros(len(own)), where=own > 0)
            adjustments = self.excess - rise[:, None] * self.held
            left = slack + self.past + adjustments.sum(axis=0) - np.diag(adjustments)
        return left


def first_full(pool: Pool, tasks: Float) -> list[int]:
    """An order in which to check resources: the full ones first, by their top level."""
    measures = bottlenecks(pool, tasks, range(pool.m))
    slack = pool.usable - measures.feasible.load
    # by levels, as water-filling would have filled them; that 1e-6 is left says only that a resource is tried later
    return sorted(range(pool.m), key=lambda i: (slack[i] > 1e-6 * pool.usable[i], measures.top[i], measures.least[i]))


class LevelsOfPool:
    """Levels ``s / w`` of a chunk's users; ``gives`` is 0 at a lower bound, ``wants`` infinite at a limit."""

    def __init__(self, chunk: Chunk, tasks: Float) -> None:
        low, high = chunk.of(chunk.pool.low), chunk.of(chunk.pool.high)
        self.all: Float = tasks * chunk.coefficients / chunk.of(chunk.pool.weights)
        self.has_lower_bounds = not (isinstance(low, float) and low == 0)
        self.limited = not (isinstance(high, float) and high == np.inf)
        # within 1e-9 of a bound users are at it: what that hides of a lower bound counts as slack (`above_bounds`)
        self.gives = np.where(tasks > low * (1 + 1e-9), self.all, 0.0) if self.has_lower_bounds else self.all
        self.wants = np.where(tasks < high * (1 - 1e-9), self.all, np.inf) if self.limited else self.all

    @property
    def between(self) -> Any:
        """Users above their lower bounds and below their limits."""
        return (self.gives > 0) & np.isfinite(self.wants)


def bottlenecks(pool: Pool, tasks: Float, order: Sequence[int] | None = None, exact: bool = True) -> Bottlenecks:
    """The quantities of the bottleneck condition.

    ``order`` are resources in the order in which they became full, by default that of `first_full`. Without ``exact``
    ``held_at_bounds`` is left out, which matters only if resources are not `full`, and ``top`` is over the users of
    this resource or an earlier one: no less, and the same if levels grow along the order.
    """
    if order is None:
        order = first_full(pool, tasks)
    return combined(pool.each(lambda chunk: bottlenecks_of(chunk, tasks[chunk.rows], order, exact)))


def bottlenecks_of(chunk: Chunk, x: Float, order: Sequence[int], exact: bool = True) -> Bottlenecks:
    """`bottlenecks` of the tasks of a chunk."""
    pool, ratios = chunk.pool, chunk.ratios
    levels = LevelsOfPool(chunk, x)
    gives, wants, feasible = levels.gives, levels.wants, Feasibility.of(chunk, x)
    free = x if gives is wants else np.where(levels.between, x, 0.0)  # without bounds both are the levels themselves
    top, least = np.zeros(pool.m), np.full(pool.m, np.inf)
    held, held_at_bounds = np.zeros(pool.m), np.full(pool.m, np.inf)
    above_bounds: Float = np.zeros(pool.m)
    if levels.has_lower_bounds:
        above_bounds = ratios @ np.where(gives > 0, 0.0, np.maximum(x - chunk.of(pool.low), 0.0))
    left: Any = slice(None)  # users not charged to a resource yet
    reached: Any = 0.0  # the highest level of the others above their lower bounds
    for i in order:
        if not exact and not isinstance(left, slice) and not len(left):  # everybody is charged: usually after the first
            top[i] = reached
            continue
        part = ratios[i][left]
        uses = part > 0
        if isinstance(left, slice):
            held[i] = feasible.load[i] if free is x else part @ free
            stopped, left = left if uses.all() else np.flatnonzero(uses), np.flatnonzero(~uses)
        else:
            held[i] = part @ free[left]
            stopped, left = left[uses], left[~uses]
        least[i] = wants[stopped].min(initial=np.inf)
        reached = np.maximum(reached, gives[stopped].max(initial=0.0))
        top[i] = np.where(ratios[i] > 0, gives, 0.0).max() if exact else reached
        if exact and levels.has_lower_bounds:
            lowest = (gives[stopped] == 0) & (wants[stopped] <= least[i] * (1 + 1e-9))
            if lowest.any():
                held_at_bounds[i] = ratios[i][stopped][lowest] @ x[stopped][lowest]
    unstopped = float(wants[left].min(initial=np.inf))
    return Bottlenecks(feasible, top, least, held, held_at_bounds, above_bounds, unstopped, float(levels.all.min()))


def corrections(pool: Pool, tasks: Float, order: Sequence[int], least: Float) -> Corrections:
    """`Corrections` at tasks, given the lowest level charged to each resource (`Bottlenecks.least`)."""
    return combined(pool.each(lambda chunk: corrections_of(chunk, tasks[chunk.rows], order, least)))


def corrections_of(chunk: Chunk, x: Float, order: Sequence[int], least: Float) -> Corrections:
    """`corrections` of the tasks of a chunk."""
    pool, ratios = chunk.pool, chunk.ratios
    levels = LevelsOfPool(chunk, x)
    held, excess, past = np.zeros((pool.m, pool.m)), np.zeros((pool.m, pool.m)), np.zeros(pool.m)
    left = np.arange(chunk.size)  # users not charged to a resource yet
    for i in order:
        uses = ratios[i][left] > 0
        stopped, left = left[uses], left[~uses]
        loads = ratios[:, stopped] * x[stopped]
        held[i] = loads @ levels.between[stopped]
        above = levels.gives[stopped] > least[i]
        excess[i] = loads @ np.where(above, 1.0 - least[i] / levels.all[stopped], 0.0)
    if levels.limited:
        past = ratios @ np.where(np.isinf(levels.wants), x - chunk.of(pool.high), 0.0)
    return Corrections(held, excess, past)


class AlphaFairSums(NamedTuple):
    """The sums over users in the bound for alpha-fairness: weights, ``w u(z)``, and the largest gains.

    z is the share per weight in units of a common level, and u as in `bound.power`, with a shift if alpha is near 1.
    ``size`` is the sum of the gains' absolute terms.
    """

    feasible: Feasibility
    weight: float
    value: float
    gain: float
    size: float

    @classmethod
    def empty(cls, m: int) -> AlphaFairSums:
        """The measures of no users."""
        return cls(Feasibility(np.zeros(m), 0.0, 0.0), 0.0, 0.0, 0.0, 0.0)

    def scaled(self, factor: float, alpha: float) -> AlphaFairSums:
        """The measures with all tasks times a factor."""
        # V(t z) = t^(1 - alpha) (V(z) + W / (1 - alpha)) - W / (1 - alpha) with a shift, and without one V(t z) = t^..
        # V
        exponent, shift = 1.0 - alpha, self.weight * _shift(alpha)
        if alpha == 1:
            value = self.value + self.weight * float(np.log(factor))
        else:
            value = float(np.float64(factor) ** exponent) * (self.value + shift / exponent) - shift / exponent
        return self._replace(feasible=self.feasible.scaled(factor), value=value)

    def gap(self, limit: float, alpha: float) -> float:
        """The logarithm of (bound on the weighted power mean of the shares / mean achieved), by weak duality.

        The bound is ``sum_j max_z (w_j u(z) - p'r_j z) + p'u``, with the load r_j of a unit of z; ``limit`` is ``p'u``,
        prices times usable capacities.
        """
        if self.weight == 0:
            return 0.0
        top = limit + self.gain + TERM_ROUNDING * (limit + self.size)
        return gap_of_means(top, self.value, self.weight, alpha, _shift(alpha))

    def natural(self, alpha: float, level: float) -> float:
        """The objective in natural units."""
        if alpha == 1:
            return self.value + self.weight * float(np.log(level))
        unit = float(np.float64(level) ** (1.0 - alpha))
        return unit * (self.value + self.weight * _shift(alpha) / (1.0 - alpha))


def _shift(alpha: float) -> float:
    """1 for alpha near 1, where logarithms of sums of powers lose digits.

    At alpha = 1 + 1e-4 and 1 - 1e-4 gaps are up to 2e-11 without it, and 1e-12 with it.
    """
    return 1.0 if abs(1.0 - alpha) < 0.1 else 0.0


def alpha_fair_sums(pool: Pool, tasks: Float, log_prices: Float, alpha: float, level: float) -> AlphaFairSums:
    """The sums at an answer, and of the gains at prices per whole capacity, in units of ``level``."""
    parts = pool.each(lambda chunk: alpha_fair_sums_of(chunk, tasks[chunk.rows], log_prices, alpha, level))
    return combined(parts)


def alpha_fair_sums_of(chunk: Chunk, x: Float, log_prices: Float, alpha: float, level: float) -> AlphaFairSums:
    """`alpha_fair_sums` of the tasks of a chunk."""

    def weigh(weights: Any, values: Float) -> float:
        return weights * float(values.sum()) if isinstance(weights, float) else float(weights @ values)

    pool, shift = chunk.pool, _shift(alpha)
    weights = chunk.of(pool.weights)
    per_task = chunk.coefficients
    price = (np.exp(log_prices) * level) @ chunk.ratios
    price /= per_task  # of a unit of share; gains are per weight, so that weights are applied last
    z = x * per_task
    z *= 1.0 / (level * weights)
    least, most = (chunk.of(b) * (per_task / (level * weights)) if pool.bounded else b for b in (pool.low, pool.high))
    gain = gain_of_power(price, alpha, least, most, shift)
    whole = weights * chunk.size if isinstance(weights, float) else float(weights.sum(dtype=float))
    value = weigh(weights, power(z, alpha, shift))
    left, size = gain.sums(lambda values: weigh(weights, values), mixed=shift > 0)
    return AlphaFairSums(Feasibility.of(chunk, x), whole, value, left, size)


class TotalSums(NamedTuple):
    """The sums over users in the bound for a total: its value, and the largest gains at prices."""

    feasible: Feasibility
    value: float
    gain: float
    size: float

    def scaled(self, factor: float) -> TotalSums:
        """The measures with all tasks times a factor."""
        return self._replace(feasible=self.feasible.scaled(factor), value=self.value * factor)

    def gap(self, limit: float) -> float:
        """(bound - value) / bound, with the bound ``sum_j max_x (c_j - p'r_j) x + p'u`` and ``limit = p'u``."""
        return ratio_gap(limit + self.gain + TERM_ROUNDING * (limit + self.size), self.value)


def total_sums(pool: Pool, tasks: Float, prices: Float) -> TotalSums:
    """The sums at an answer, and of the gains at prices per whole capacity."""

    def look(chunk: Chunk) -> TotalSums:
        x, share = tasks[chunk.rows], chunk.coefficients
        low = chunk.of(pool.low)
        gain = gain_of_total(share, cost(chunk.ratios, prices), low, low + chunk.room)
        most, size = gain.sums(lambda values: float(values.sum()), mixed=False)
        return TotalSums(Feasibility.of(chunk, x), float(share @ x), most, size)

    return combined(pool.each(look))


class PoolProof(NamedTuple):
    """What is proved of tasks on one pool.

    ``factor`` is the factor on all tasks with which capacities hold exactly, and ``found`` are the measures with it.
    ``value`` and ``prices`` (per whole capacity) are in natural units of the objective.
    """

    factor: float
    found: Bottlenecks | AlphaFairSums | TotalSums
    gap: float
    value: float
    prices: Float | None


def proof_on_pool(
    program: Program,
    usable: Float,
    n_users: int,
    found: Bottlenecks | AlphaFairSums | TotalSums,
    prices: Any,
    level: float = 1.0,
    adjustments: Corrections | None = None,
) -> PoolProof:
    """Gap, value and prices from the measures of all users together.

    ``prices`` are those of the method: for alpha-fairness logarithms, for shares in multiples of ``level``.
    ``adjustments`` are for `Bottlenecks` with small holdings.
    """
    term, factor = program.term, found.feasible.factor(usable, n_users)
    if isinstance(found, AlphaFairSums):
        alpha = term.alpha
        assert alpha is not None
        found, weight = found.scaled(factor, alpha) if factor < 1 else found, found.weight
        gap = found.gap(float(np.exp(prices) @ usable), alpha)
        value, prices = found.natural(alpha, level), np.exp(prices + (1.0 - alpha) * np.log(level))
    else:
        found, weight = found.scaled(factor) if factor < 1 else found, float(program.instance.weights.sum())
        if isinstance(found, TotalSums):
            gap, value = found.gap(float(prices @ usable)), found.value
        else:  # of leximin, and so of max-min
            gap, value = found.gap(usable, adjustments), found.lowest
    value, slope = term.natural(value, weight)
    return PoolProof(factor, found, gap, value, None if prices is None else prices * slope)


def rounding_decides(program: Program, found: Bottlenecks) -> bool:
    """Whether the rounding of one load may move a level by more than the tolerance, on a pool of few users."""
    if program.instance.n_users > MAX_USERS or program.term.share is None:
        return False
    # an error of eps in the first level, times 1 / (part held) at each resource after it
    rising = found.rising
    growth = np.where(np.isfinite(found.least) & (rising > 0), program.usable / rising, 1.0)
    return bool(EPS * np.maximum(growth, 1.0).prod() > GAP_TOLERANCE)
