"""Certificates of answers on one pool, each in one pass over the data.

Everything is measured from demands, shares and tasks; from the method come only hints (the order in which to check
resources, the prices to charge), and a bad hint gives a large gap, never a wrong one. Parts of the users, as shards,
are measured apart and added up (`combined`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fairopt.blocks.form import ratio_gap
from fairopt.blocks.shares import SMALLEST
from fairopt.formulation.pool_users import Chunk, Pool, cost, summed
from fairopt.formulation.program import Float, Program
from fairopt.proofs.bound import EPS, gain_of_power, gain_of_total, gap_of_means, power
from fairopt.tolerances import GAP_TOLERANCE

Measures = TypeVar("Measures", bound=Any)  # one of the classes below

ROUNDING = 1e-13  # of a capacity: the rounding of sums over many users

# how measures of parts of the users are combined, by name; those of other names are added up
COMBINED = {name: np.max for name in ("beyond", "short", "floored", "top")}
COMBINED |= {name: np.min for name in ("least", "bare", "stray", "lowest")}


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
    """How well tasks satisfy capacities and bounds.

    ``load`` (n_resources,) is the used fraction of each capacity; ``beyond`` and ``short`` are the largest relative
    excess over a limit and the largest relative shortfall below a lower bound, where there is any (``floored``).
    """

    load: Float
    beyond: float
    short: float
    floored: bool = False

    @classmethod
    def of(cls, chunk: Chunk, tasks: Float) -> Feasibility:
        """The measures of a chunk."""
        low, high = chunk.of(chunk.pool.low), chunk.of(chunk.pool.high)
        beyond, short = (np.inf if tasks.min() < 0 else 0.0), 0.0  # negative tasks are never valid
        if not (isinstance(high, float) and high == np.inf):
            over = tasks > high
            beyond = max(beyond, float(np.max((tasks - high) / np.where(over, high, 1.0), initial=0.0, where=over)))
        floored = not (isinstance(low, float) and low == 0)
        if floored:
            under = tasks < low
            short = float(np.max((low - tasks) / np.where(under, low, 1.0), initial=0.0, where=under))
        return cls(chunk.ratios @ tasks, beyond, short, floored)

    def factor(self, usable: Float, n_users: int) -> float:
        """The factor on all tasks with which capacities hold to the last digit in any order of summation."""
        used, top = self.load > 0, 1.0 - min(1e-17 * n_users, 1e-14)  # sums of a million loads differed by 3e-15
        worst = float(np.max(self.load / np.where(used, usable, 1.0), initial=0.0, where=used))
        return top / worst if worst > top else 1.0

    def scaled(self, factor: float) -> Feasibility:
        """The measures with all tasks multiplied by a factor below 1 (which rounds each by 1e-16)."""
        short = 1.0 - (1.0 - self.short) * factor if self.floored else 0.0
        return self._replace(load=self.load * factor, short=short)

    @property
    def violation(self) -> float:
        """Largest relative excess over a capacity or limit; infinite where a number is not finite."""
        if not np.isfinite(self.load).all():
            return np.inf
        return max(float((self.load - 1.0).max(initial=0.0)), self.beyond)


class Bottlenecks(NamedTuple):
    """The quantities of the bottleneck condition, by resource.

    ``top`` is the highest level ``s / w`` of a user of it that could give way; ``least`` the lowest level of the users
    below their limit for whom it is the first resource, in the order checked, that they need (whom it stops). ``held``
    is the part of the capacity that those of them hold who are above their lower bounds, ``bare`` what the lowest of
    the others hold
    (infinite without any): a user at its lower bound need not rise when others do. ``spare`` is the part held by users
    above their lower bounds by rounding only. ``stray`` is the lowest level of users below their limit without such a
    resource, and ``lowest`` that of all users, NaN where floats have lost the level of a user who runs tasks.
    """

    feasible: Feasibility
    top: Float
    least: Float
    held: Float
    bare: Float
    spare: Float
    stray: float
    lowest: float

    @classmethod
    def empty(cls, m: int) -> Bottlenecks:
        """The measures of no users."""
        nothing = Feasibility(np.zeros(m), 0.0, 0.0)
        return cls(nothing, np.zeros(m), np.full(m, np.inf), np.zeros(m), np.full(m, np.inf), np.zeros(m), np.inf, 0.0)

    def scaled(self, factor: float) -> Bottlenecks:
        """The measures with all tasks multiplied by a factor: levels keep their proportions.

        A factor below 1 by more than rounding moves users off their limits, and then nothing is proved.
        """
        stray = self.stray * factor if factor >= 1.0 - 1e-9 else 0.0
        return Bottlenecks(
            self.feasible.scaled(factor),
            self.top * factor,
            self.least * factor,
            self.held * factor,
            self.bare * factor,
            self.spare * factor,
            stray,
            self.lowest * factor,
        )

    def slack(self, usable: Float) -> Float:
        """What is left of each resource, or could be with all users at or above their lower bounds."""
        left: Float = np.maximum(usable - self.feasible.load, 0.0)
        return left + self.spare

    def full(self, usable: Float) -> bool:
        """Whether all resources that stop users are full, but for rounding."""
        return bool(((self.slack(usable) <= ROUNDING * usable) | np.isinf(self.least)).all())

    def traces(self, usable: Float) -> bool:
        """Whether errors of other levels could be many tasks of users who hold a trace of what stops them (`Owed`)."""
        part = max(self.gap(usable), ROUNDING) / GAP_TOLERANCE
        return bool((np.isfinite(self.least) & ~(self.risen >= part * usable)).any())

    @property
    def risen(self) -> Float:
        """What those hold who would rise together: users above their lower bounds, or the lowest of the others."""
        return np.where((self.held > 0) | np.isinf(self.bare), self.held, self.bare)

    def gap(self, usable: Float, debts: Owed | None = None) -> float:
        """How far the answer is from the bottleneck condition (Bertsekas and Gallager 1992), relatively.

        The condition characterises max-min fairness: every user is at a bound, or needs a full resource on which no
        user who could give way has a larger ``s / w``. The rest of a resource is compared with what the users hold whom
        it stops above their lower bounds, or the lowest at theirs if there are none, unless it is within rounding. What
        users of earlier resources owe belongs to the rest, where it is known.
        """
        if self.lowest != self.lowest or not self.top.max() < np.inf:
            return np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            slack = self.slack(usable) if debts is None else abs(debts.added_to(self.slack(usable), ROUNDING * usable))
            rise = np.where(slack > ROUNDING * usable, slack / self.risen, 0.0)
            over = np.where(self.top > self.least, self.top / self.least - 1.0, 0.0)
            excess = np.maximum(over, rise)
        asked = np.isfinite(self.least)
        worst = float(np.where(asked, np.nan_to_num(excess, nan=np.inf), 0.0).max(initial=0.0))
        return np.inf if np.isfinite(self.stray) else worst


class Owed(NamedTuple):
    """What users hold of every resource, by the resource that stops them, and what they would give back of it.

    ``held`` (n_resources, n_resources) is the load on each (second) of the users above their lower bounds and below
    their limits whom a resource (first) stops, ``excess`` the part of it by which they are above the lowest of them;
    ``past`` (n_resources,) is the load by which users near their limits are past these, below zero if they are short.
    """

    held: Float
    excess: Float
    past: Float

    def added_to(self, slack: Float, rounding: Float) -> Float:
        """What would be left of each resource if those whom earlier ones stop had the one level that fills these.

        They rise from the lowest of their levels by what is left there, and by what they hold beyond it. Since users
        need no resource before the one that stops them, as many rounds as resources settle all.
        """
        own, left = np.diag(self.held), slack
        for _ in own:
            rise = np.diag(self.excess) + np.where(abs(left) > rounding, left, 0.0)
            rise = np.divide(rise, own, out=np.zeros(len(own)), where=own > 0)
            debts = self.excess - rise[:, None] * self.held
            left = slack + self.past + debts.sum(axis=0) - np.diag(debts)
        return left


def first_full(pool: Pool, tasks: Float) -> list[int]:
    """An order in which to check resources: the full ones first, by their top level."""
    found = bottlenecks(pool, tasks, range(pool.m))
    slack = pool.usable - found.feasible.load
    return sorted(range(pool.m), key=lambda i: (slack[i] > 1e-6 * pool.usable[i], found.top[i], found.least[i]))


class Levels:
    """Levels ``s / w`` of a chunk's users; in ``gives`` 0 at a lower bound, in ``wants`` infinite at a limit."""

    def __init__(self, chunk: Chunk, tasks: Float) -> None:
        low, high = chunk.of(chunk.pool.low), chunk.of(chunk.pool.high)
        self.all: Float = tasks * chunk.coefficients / chunk.of(chunk.pool.weights)
        self.floored = not (isinstance(low, float) and low == 0)
        self.limited = not (isinstance(high, float) and high == np.inf)
        self.gives = np.where(tasks > low * (1 + 1e-9), self.all, 0.0) if self.floored else self.all
        self.wants = np.where(tasks < high * (1 - 1e-9), self.all, np.inf) if self.limited else self.all

    @property
    def between(self) -> Any:
        """Who is above its lower bound and below its limit."""
        return (self.gives > 0) & np.isfinite(self.wants)


def bottlenecks(
    pool: Pool,
    tasks: Float,
    order: Sequence[int] | None = None,
    settle: Callable[[Chunk], None] | None = None,
    exact: bool = True,
) -> Bottlenecks:
    """The level of every user, and the resource that stops it; ``settle`` as in `Pool.each`.

    ``order`` are resources in the order in which they became full, by default that of `first_full`. With ``exact`` what
    the lowest users at lower bounds hold is added up, which matters only where resources are not `full`; without,
    ``top`` is of all users who need this resource or one before it: no less, and the same where levels grow along the
    order.
    """
    if order is None:
        order = first_full(pool, tasks)

    def look(chunk: Chunk) -> Bottlenecks:
        x, ratios = tasks[chunk.rows], chunk.ratios
        levels = Levels(chunk, x)
        gives, wants, feasible = levels.gives, levels.wants, Feasibility.of(chunk, x)
        free = x if gives is wants else np.where(levels.between, x, 0.0)
        top, least = np.zeros(pool.m), np.full(pool.m, np.inf)
        held, bare = np.zeros(pool.m), np.full(pool.m, np.inf)
        spare: Float = np.zeros(pool.m)
        if levels.floored:
            spare = ratios @ np.where(gives > 0, 0.0, np.maximum(x - chunk.of(pool.low), 0.0))
        left: Any = slice(None)  # users for whom no resource has been found yet
        reached: Any = 0.0  # the highest level of the others who could give way
        for i in order:
            if not exact and not isinstance(left, slice) and not len(left):
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
            if exact and levels.floored:
                lowest = (gives[stopped] == 0) & (wants[stopped] <= least[i] * (1 + 1e-9))
                if lowest.any():
                    bare[i] = ratios[i][stopped][lowest] @ x[stopped][lowest]
        stray = float(wants[left].min(initial=np.inf))
        lowest = float(levels.all.min())
        if not lowest >= SMALLEST and not ((levels.all >= SMALLEST) | (x == 0)).all():
            lowest = np.nan
        return Bottlenecks(feasible, top, least, held, bare, spare, stray, lowest)

    return combined(pool.each(look, settle))


def owed(
    pool: Pool, tasks: Float, order: Sequence[int], least: Float, settle: Callable[[Chunk], None] | None = None
) -> Owed:
    """What users hold of every resource, above the lowest levels of those whom each stops (`Bottlenecks.least`)."""

    def look(chunk: Chunk) -> Owed:
        x, ratios = tasks[chunk.rows], chunk.ratios
        levels = Levels(chunk, x)
        held, excess, past = np.zeros((pool.m, pool.m)), np.zeros((pool.m, pool.m)), np.zeros(pool.m)
        left = np.arange(chunk.size)  # users for whom no resource has been found yet
        for i in order:
            uses = ratios[i][left] > 0
            stopped, left = left[uses], left[~uses]
            loads = ratios[:, stopped] * x[stopped]
            held[i] = loads @ levels.between[stopped]
            above = levels.gives[stopped] > least[i]
            excess[i] = loads @ np.where(above, 1.0 - least[i] / levels.all[stopped], 0.0)
        if levels.limited:
            past = ratios @ np.where(np.isinf(levels.wants), x - chunk.of(pool.high), 0.0)
        return Owed(held, excess, past)

    return combined(pool.each(look, settle))


class Worth(NamedTuple):
    """The sums over users of the bound for alpha-fairness: weights, ``w u(z)``, and the most that each could gain.

    z is the share per weight in units of a common level, and u as in `bound.power`, with a shift where alpha is near 1.
    ``size`` are the terms of the gains taken positive.
    """

    feasible: Feasibility
    weight: float
    value: float
    gain: float
    size: float

    @classmethod
    def empty(cls, m: int) -> Worth:
        """The measures of no users."""
        return cls(Feasibility(np.zeros(m), 0.0, 0.0), 0.0, 0.0, 0.0, 0.0)

    def scaled(self, factor: float, alpha: float) -> Worth:
        """The measures with all tasks multiplied by a factor."""
        exponent, shift = 1.0 - alpha, self.weight * _shift(alpha)
        if alpha == 1:
            value = self.value + self.weight * float(np.log(factor))
        else:
            value = float(np.float64(factor) ** exponent) * (self.value + shift / exponent) - shift / exponent
        return self._replace(feasible=self.feasible.scaled(factor), value=value)

    def gap(self, spent: float, alpha: float) -> float:
        """log of (bound on the weighted power mean of the shares / the mean achieved), by weak duality.

        The bound is ``sum_j max_z (w_j u(z) - p'r_j z) + p'u``, with the load r_j of a unit of z, and ``spent = p'u``,
        prices times usable capacities.
        """
        if self.weight == 0:
            return 0.0
        top = spent + self.gain + EPS * (spent + self.size)
        return gap_of_means(top, self.value, self.weight, alpha, _shift(alpha))

    def natural(self, alpha: float, level: float) -> float:
        """The objective in natural units."""
        if alpha == 1:
            return self.value + self.weight * float(np.log(level))
        unit = float(np.float64(level) ** (1.0 - alpha))
        return unit * (self.value + self.weight * _shift(alpha) / (1.0 - alpha))


def _shift(alpha: float) -> float:
    """1 for alphas near 1: sums of powers near 1 lose in their logarithm the digits that tell such alphas apart."""
    return 1.0 if abs(1.0 - alpha) < 0.1 else 0.0


def worth(
    pool: Pool,
    tasks: Float,
    log_prices: Float,
    alpha: float,
    level: float,
    settle: Callable[[Chunk], None] | None = None,
) -> Worth:
    """Value of an answer, and the bound on every other at prices per whole capacity, in units of ``level``."""
    shift = _shift(alpha)

    def weigh(weights: Any, values: Float) -> float:
        return weights * float(values.sum()) if isinstance(weights, float) else float(weights @ values)

    def look(chunk: Chunk) -> Worth:
        x, weights = tasks[chunk.rows], chunk.of(pool.weights)
        per_task = chunk.coefficients
        price = (np.exp(log_prices) * level) @ chunk.ratios
        price /= per_task
        z = x * per_task
        z *= 1.0 / (level * weights)
        least, most = (
            chunk.of(b) * (per_task / (level * weights)) if pool.bounded else b for b in (pool.low, pool.high)
        )
        gain = gain_of_power(price, alpha, least, most, shift)
        whole = weights * chunk.size if isinstance(weights, float) else float(weights.sum(dtype=float))
        value = weigh(weights, power(z, alpha, shift))
        left, size = gain.sums(lambda values: weigh(weights, values), mixed=shift > 0)
        return Worth(Feasibility.of(chunk, x), whole, value, left, size)

    return combined(pool.each(look, settle))


class Sums(NamedTuple):
    """The sums over users of the bound for a total: its value, and the most that users could gain at prices."""

    feasible: Feasibility
    value: float
    gain: float
    size: float

    def scaled(self, factor: float) -> Sums:
        """The measures with all tasks multiplied by a factor."""
        return self._replace(feasible=self.feasible.scaled(factor), value=self.value * factor)

    def gap(self, spent: float) -> float:
        """(bound - value) / bound, with the bound ``sum_j max_x (c_j - p'r_j) x + p'u`` and ``spent = p'u``."""
        return ratio_gap(spent + self.gain + EPS * (spent + self.size), self.value)


def totals(pool: Pool, tasks: Float, prices: Float, settle: Callable[[Chunk], None] | None = None) -> Sums:
    """Value of an answer, and the bound on every other at prices per whole capacity (`Sums.gap`)."""

    def look(chunk: Chunk) -> Sums:
        x, share = tasks[chunk.rows], chunk.coefficients
        low = chunk.of(pool.low)
        gain = gain_of_total(share, cost(chunk.ratios, prices), low, low + chunk.room)
        most, size = gain.sums(lambda values: float(values.sum()), mixed=False)
        return Sums(Feasibility.of(chunk, x), summed(share, x), most, size)

    return combined(pool.each(look, settle))


class PoolProof(NamedTuple):
    """What is proved of tasks on one pool, whether its users are in one array or in shards.

    ``factor`` is the factor on all tasks with which capacities hold to the last digit, and ``found`` are the measures
    with it. ``value`` and ``prices`` (per whole capacity) are in natural units of the objective.
    """

    factor: float
    found: Bottlenecks | Worth | Sums
    gap: float
    value: float
    prices: Float | None


def proof_on_pool(
    program: Program,
    usable: Float,
    n_users: int,
    found: Bottlenecks | Worth | Sums,
    prices: Any,
    level: float = 1.0,
    debts: Owed | None = None,
) -> PoolProof:
    """Gap, value and prices that follow from the measures of all users together.

    ``prices`` are those of the method: for `Worth` logarithms, of prices of shares in units of ``level``. ``debts`` are
    those of `Bottlenecks` with `traces`.
    """
    term, factor = program.term, found.feasible.factor(usable, n_users)
    if isinstance(found, Worth):
        alpha = term.alpha
        assert alpha is not None
        found, weight = found.scaled(factor, alpha) if factor < 1 else found, found.weight
        with np.errstate(over="ignore"):  # prices may be beyond the range of floats at large alpha
            gap = found.gap(float(np.exp(prices) @ usable), alpha)
            value, prices = found.natural(alpha, level), np.exp(prices + (1.0 - alpha) * np.log(level))
    else:
        found, weight = found.scaled(factor) if factor < 1 else found, float(program.instance.weights.sum())
        if isinstance(found, Sums):
            gap, value = found.gap(float(prices @ usable)), found.value
        else:  # of leximin, and so of max-min
            gap, value = found.gap(usable, debts), found.lowest
    value, slope = term.natural(value, weight)
    return PoolProof(factor, found, gap, value, None if prices is None else prices * slope)
