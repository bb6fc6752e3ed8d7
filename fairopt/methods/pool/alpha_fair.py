"""Alpha-fairness (Mo and Walrand 2000) of any linear share on one pool: Newton's method in the prices of m resources.

At prices p user j wants ``x_j = min(T_j, w_j / b_j (b_j / q_j)^(1/alpha))`` tasks, with ``q_j = g_j . p`` the price of
a task, T_j the limit and b_j the share of a task in units of a common level. At the optimum each resource is full, or
its price is zero.

The unknowns are levels ``eta_i = log(p_i) / alpha``, the equations are on logarithms of the loads: so alpha drops out
of the Jacobian, whose rows are how the users of a resource spend their budgets, and with a single resource one step is
exact. A fictitious user with a small claim on each resource makes all resources full and all prices positive; the claim
is lowered step by step. Far from the solution steps are limited by their effect on loads, and accepted only where the
largest residual falls, or the convex dual falls along the step.

`find_prices` works on `AlphaFairUsers`, who report ``m + m^2`` numbers at given prices: users in memory
(`AlphaFairPool`) or in shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairopt.formulation.pool_users import Chunk, Pool, cost
from fairopt.methods.arrays import Bool, Float
from fairopt.runtime.progress import tell

CLAIMS = (1e-1, 1e-3, 1e-6, 1e-10, 1e-15)  # of the fictitious users, as fractions of a capacity
STEP = 3.0  # largest change of a level, or of its effect on loads, in one round
STEEP = 5.0  # alpha from which every price may change by STEP: at 100, 3 of 237 random instances were lost without it
COUNTS = 0.3  # part of its users' budgets from which on a price is best changed in proportion
REDUNDANT = 1e-12  # smaller singular values are zero: resources full for the same users have no unique prices
ROUNDS = 80  # at one claim; four to ten are usual
WIDE = 600.0  # logarithms of prices beyond which exponentials may overflow
FREE = 1e-6  # of a capacity: what an interior point leaves of resources that are free
EXACT = 1e-12  # residual to reach where no sample gave a first guess
NEARLY = 1e-3  # residual at which the next claim may come
FINE = 1e-10  # gap below which no second try is made
FACTOR, LOWEST = 1.0, 100.0  # of logarithms of prices: how near to the smallest, and how far at most, they are lowered
NO_MORE = 1e-12  # of a capacity: what a lower price may add to the load
CLOSE = 3e-5  # residual from which one more step leaves its square: gaps of 1e-14 to 1e-10 were seen


class Response(NamedTuple):
    """Load of each resource at prices, and minus its derivative by each level (m x m)."""

    load: Float
    turnover: Float

    @classmethod
    def of_all(cls, parts: Sequence[Response]) -> Response:
        """Sums over several groups of users."""
        return cls(np.sum([p.load for p in parts], axis=0), np.sum([p.turnover for p in parts], axis=0))


class AlphaFairUsers(Protocol):
    """Users who report their response to prices, in memory or in shards."""

    usable: Float

    def respond(self, log_prices: Float, alpha: float) -> Response:
        """Response to prices."""

    def sample(self) -> AlphaFairUsers | None:
        """Fewer users with about the same prices, or None."""


def find_prices(
    users: AlphaFairUsers, alpha: float, start: Float | None = None, enough: float = CLOSE, rough: bool = False
) -> Float | None:
    """Logarithms of the prices at which every resource is full or free, in the users' unit of level; None if not found.

    ``start`` is a guess, by default the prices of a sample; from there Newton's method goes on until the residual is
    ``enough``, and takes one more step. ``rough`` prices are only a guess for more users.
    """
    found = _found_prices(users, alpha, start, enough, rough)
    return None if found is None else found.log_prices


class _Found(NamedTuple):
    """Logarithms of prices, and the response to the last ones before them."""

    log_prices: Float
    last: Response


def _found_prices(
    users: AlphaFairUsers, alpha: float, start: Float | None = None, enough: float = CLOSE, rough: bool = False
) -> _Found | None:
    """What `find_prices` finds."""
    if start is None:
        sample = users.sample()
        start = find_prices(sample, alpha, rough=True) if sample is not None else None
    if start is not None:
        first = _PriceState(users, alpha, start / alpha, CLAIMS[-1], float(start.max()) / alpha)
        near = _newton_steps(first, NEARLY if rough else enough)
        if near is not None:
            last = near.newton() if near.size > EXACT else 0.0
            return _Found(alpha * (near.levels + last), near.response)
    return _prices_without_guess(users, alpha, NEARLY if rough else EXACT)


def price_tries(users: AlphaFairUsers, alpha: float, guess: Float | None = None) -> Iterator[Float]:
    """Prices by `find_prices`, then smaller or more precise ones, for a caller who stops at a gap below `FINE`."""
    for enough in (CLOSE, EXACT):
        found = _found_prices(users, alpha, guess, enough)
        if found is None:
            return
        yield found.log_prices
        stuck = np.flatnonzero((np.diag(found.last.turnover) <= REDUNDANT * found.last.load) & (found.last.load > 0))
        if len(stuck):
            yield smallest_prices(users, alpha, found.log_prices, stuck)
        guess = found.log_prices


def smallest_prices(users: AlphaFairUsers, alpha: float, log_prices: Float, stuck: NDArray[np.intp]) -> Float:
    """Prices at which users want the same, lowered where nobody reacts to them: those of the resources ``stuck``.

    Where lower bounds fill a resource, any price from some number on is optimal, and Newton's steps may end at 1e13: a
    bound from there is lost in rounding. To within `FACTOR` of the smallest, by steps that double and are halved.
    """
    found, lowered = users.respond(log_prices, alpha), log_prices.copy()
    for i in stuck.tolist():
        step = FACTOR
        while step >= FACTOR and log_prices[i] - lowered[i] < LOWEST:
            tried = lowered.copy()
            tried[i] -= step
            most = np.maximum(users.usable, found.load) * (1.0 + NO_MORE)
            fits = bool((users.respond(tried, alpha).load <= most).all())
            lowered, step = (tried, 2.0 * step) if fits else (lowered, 0.25 * step)
    return lowered


def of_free_resources(log_prices: Float, left: Float, alpha: float) -> Float:
    """Prices of which those of resources with room ``left`` (n_resources,) are such that the last claim fills it."""
    room = np.log(np.maximum(left, FREE) / CLAIMS[-1])
    return np.where(left > FREE, log_prices.max() - room * max(alpha, 1.0), log_prices)


def _prices_without_guess(users: AlphaFairUsers, alpha: float, enough: float) -> _Found | None:
    """Prices from alpha near 1, where responses are mild, to the alpha wanted, with claims lowered step by step."""
    path = [alpha]
    while path[-1] < 0.7:
        path.append(min(2.5 * path[-1], 1.0))
    with np.errstate(divide="ignore"):
        top = float(np.log(np.max(users.respond(np.zeros(len(users.usable)), path[-1]).load / users.usable)))
    log_prices: Float = np.full(len(users.usable), path[-1] * top if np.isfinite(top) else 0.0)
    state: _PriceState | None = None
    path_start = path[-1]
    while path:
        a = path.pop()
        levels, reference = log_prices / a, float(log_prices.max()) / a
        state = None
        for claim in CLAIMS[int(a < path_start) : None if not path else 2]:
            levels = levels if state is None else state.with_claim(claim)
            last = not path and claim == CLAIMS[-1]
            state = _newton_steps(_PriceState(users, a, levels, claim, reference), enough if last else NEARLY)
            if state is None:
                break
        if state is not None:
            log_prices = state.log_prices
    return _Found(state.log_prices, state.response) if state is not None else None


class _PriceState:
    """Levels, the loads at them, and how far these are from full."""

    def __init__(self, users: AlphaFairUsers, alpha: float, levels: Float, claim: float, reference: float) -> None:
        self.users, self.alpha, self.levels, self.claim, self.reference = users, alpha, levels, claim, reference
        self.log_prices = alpha * levels
        self.kind = min(1.0, alpha)  # a fictitious user is alpha-fair above 1, and a logarithmic barrier below
        self.response = response = users.respond(self.log_prices, alpha)
        with np.errstate(all="ignore"):
            self.slack = claim * users.usable * np.exp(np.clip(self.kind * (reference - levels), -WIDE, WIDE))
            self.taken = response.load + self.slack
            self.residual = np.log(self.taken / users.usable)
            self.turnover = response.turnover
            # where users alone exceed a capacity, the last claim is too small to react
            helps = (response.load < users.usable) | (claim > CLAIMS[-1])
            self.jacobian = (self.turnover + np.diag(self.kind * self.slack * helps)) / self.taken[:, None]
        self.size = float(np.abs(self.residual).max()) if np.isfinite(self.residual).all() else np.inf
        self.sound = self.size < np.inf and bool(np.isfinite(self.jacobian).all())

    def at(self, levels: Float) -> _PriceState:
        """The state at other levels."""
        return _PriceState(self.users, self.alpha, levels, self.claim, self.reference)

    def with_claim(self, claim: float) -> Float:
        """Levels for another claim: where a price matters to no load, it falls with the claim."""
        fall = np.log(claim / self.claim) / self.kind
        return self.levels + np.where((self.slack > 0.01 * self.users.usable) & self._unnoticed(fall, 0.5), fall, 0.0)

    def _unnoticed(self, change: Float | float, little: float) -> Bool:
        """Whether a change of each level has little effect on any load; never so below alpha = 0.5."""
        with np.errstate(over="ignore", invalid="ignore"):
            touched = (self.turnover / self.taken[:, None]).max(axis=0)
            return np.abs(change) * touched < (little if self.alpha >= 0.5 else 0.0)

    def slope(self, direction: Float) -> float:
        """Derivative of the dual (which is least at the solution) along a direction, in units of the largest price."""
        worth = np.exp(self.log_prices - self.log_prices.max())
        return float((worth * (self.users.usable - self.taken)) @ direction)

    def betters(self, other: _PriceState, direction: Float) -> bool:
        """Whether the residual is clearly smaller, or the dual still falls along the direction of the step.

        The dual falls if every price that moved still has to go the same way. That is tested without sums, in which
        the prices of nearly free resources would be lost.
        """
        if not self.sound or self.size < 0.9 * other.size:
            return self.sound
        moved = np.abs(direction) > 1e-6 * np.abs(direction).max()
        if moved.any() and (direction * self.residual)[moved].min() >= 0.0:
            return True
        return self.slope(direction) < 0.0 and other.slope(direction) < 0.0

    def newton(self, cut: float = REDUNDANT) -> Float:
        """Newton's step in levels, with no entry too large."""
        with np.errstate(divide="ignore", invalid="ignore"):  # where the fictitious user takes all that is left
            left = np.maximum(self.users.usable - (self.taken - self.slack), 0.0)
            down = np.nan_to_num(np.log(self.slack / left) / self.kind)
        fall = np.maximum(self._most, np.where(self._unnoticed(down, 0.05), -down, 0.0))
        return _limited_step(self.jacobian, self.residual, self._most, fall, self.alpha, cut)

    def descent(self) -> Float:
        """Newton's step of the dual, along which the dual falls."""
        return _limited_step(self.jacobian, 1.0 - self.users.usable / self.taken, self._most, self._most, self.alpha)

    @property
    def _most(self) -> Float:
        most: Float = np.full(len(self.levels), STEP)
        if self.alpha < 1:  # prices that hardly matter to any user may go further
            touched = np.maximum(self.jacobian.max(axis=0), 1e-3)
            most = np.maximum(np.minimum(STEP / touched, 5.0 / self.alpha), STEP)
        return most


def _newton_steps(state: _PriceState, enough: float) -> _PriceState | None:
    """The state after Newton steps until the residual is small or no step helps; None if that residual is large."""
    for k in range(ROUNDS):
        tell(f"prices, step {k + 1}")
        if not state.sound or state.size <= enough:
            break
        following = _better_state(state)
        if following is None:
            break
        state = following
    return state if state.sound and state.size <= max(enough, NEARLY) else None


def _better_state(state: _PriceState) -> _PriceState | None:
    """The state after a full step if that helps; else one without cut singular values, shortened; else of the dual."""
    first = state.newton()
    after_first = state.at(state.levels + first)
    if after_first.sound and after_first.size < 0.9 * state.size:
        return after_first
    ways: tuple[tuple[Callable[[], Float], int], ...] = ((partial(state.newton, 0.0), 5), (state.descent, 30))
    for find, tries in ways:
        direction = find()
        for k in range(tries):
            way = 0.4**k * direction
            known = np.allclose(way, first, rtol=1e-6, atol=0.0)
            following = after_first if known else state.at(state.levels + way)
            if following.betters(state, direction):
                return following
    return None


def _limited_step(jacobian: Float, residual: Float, rise: Float, fall: Float, alpha: float, cut: float = 0.0) -> Float:
    """Newton's step with no entry too large: the one furthest beyond its bound is set to it, and the others solved for.

    A price that counts little rises as far as Newton's step in the price itself, since its part of budgets, and so its
    effect, grows in proportion to it.
    """
    counts = (np.diag(jacobian) > COUNTS) | (alpha > STEEP)  # at large alpha prices have far to go
    step = np.zeros(len(residual))
    free = np.ones(len(residual), dtype=bool)
    while free.any():
        right = residual[free] - jacobian[np.ix_(free, ~free)] @ step[~free]
        part = jacobian[np.ix_(free, free)]
        scale = np.maximum(part.max(axis=0), 1e-300)  # even a tiny price may decide
        found = np.linalg.lstsq(part / scale, right, rcond=cut)[0] / scale
        found = np.where(np.isfinite(found), found, right)
        rows = np.flatnonzero(free)
        step[rows] = found
        in_price = np.log1p(alpha * np.maximum(found, 0.0)) / alpha
        up = np.where(counts[rows], np.maximum(rise[rows], in_price), in_price)
        most = np.where(found > 0, up, fall[rows])
        worst = int(np.argmax(np.abs(found) / most))
        if abs(found[worst]) <= most[worst]:
            break
        step[rows[worst]] = np.copysign(most[worst], found[worst])
        free[rows[worst]] = False
    return step


def unit_level(rates: Float, usable: Float, first_limit: float, alpha: float) -> float:
    """The unit of level (share per weight): where the first resource is full, bounds aside.

    Above alpha = 1 the poorest count most, so the unit is not above the level of the first user at its limit.
    """
    with np.errstate(divide="ignore"):
        level = float(1.0 / np.max(rates / usable))
    return min(level, first_limit) if alpha > 1 else level


class AlphaFairPool:
    """The users of a pool in memory, as `AlphaFairUsers`.

    ``level`` is the unit of shares per weight, given where it is known. ``tasks`` holds shares of a task until
    `settling` replaces them by tasks. Bounds aside, ``rates`` is the load per level; ``first_limit`` is the level at
    which the first user is at its limit.
    """

    def __init__(self, pool: Pool, alpha: float, level: float | None = None) -> None:
        self.pool, self.alpha, self.usable = pool, alpha, pool.usable
        self.tasks = np.empty(pool.n)
        self.thinner: AlphaFairPool | None = None
        self.read = level is None  # otherwise the first pass over the users is left to the first response
        if level is not None:
            self.level = level
            return
        parts = pool.each(self._start)
        self.rates: Float = np.sum([rates for rates, _ in parts], axis=0)
        self.first_limit = min(limit for _, limit in parts)
        pool.require_level(self.rates)
        self.level = unit_level(self.rates, self.usable, self.first_limit, alpha)

    @classmethod
    def with_samples(cls, pool: Pool, alpha: float) -> AlphaFairPool:
        """Users with the unit of a smaller sample, so that no pass is needed to find it."""
        thinner_pool = pool.sample()
        if thinner_pool is None:
            return cls(pool, alpha)
        thinner = cls.with_samples(thinner_pool, alpha)
        users = cls(pool, alpha, None if alpha > 1 and pool.bounded else thinner.level)
        users.thinner = thinner
        thinner.set_level(users.level)
        return users

    def set_level(self, level: float) -> None:
        """Set the unit of level, of the samples too."""
        self.level = level
        if self.thinner is not None:
            self.thinner.set_level(level)

    def _start(self, chunk: Chunk) -> tuple[Float, float]:
        c = chunk.coefficients
        self.tasks[chunk.rows] = c
        per_level = chunk.of(self.pool.weights) / c
        high = chunk.of(self.pool.high)
        return chunk.ratios @ per_level, float(np.min(high / per_level)) if self.pool.bounded else np.inf

    def _share_of_a_task(self, chunk: Chunk) -> Float:
        held = self.tasks[chunk.rows]
        if not self.read:
            held[:] = chunk.coefficients
        return held

    def sample(self) -> AlphaFairPool | None:
        """The sample, with the same unit."""
        return self.thinner

    def respond(self, log_prices: Float, alpha: float) -> Response:
        """Response to prices."""
        parts = self.pool.each(lambda chunk: self._respond(chunk, log_prices, alpha))
        self.read = True
        return Response.of_all(parts)

    def _respond(self, chunk: Chunk, log_prices: Float, alpha: float) -> Response:
        tasks, spent, ratios = self._wanted(chunk, self._share_of_a_task(chunk), log_prices, alpha)
        load = chunk.ratios @ tasks
        if self.pool.bounded:  # users held by a bound do not react
            low, high = chunk.of(self.pool.low), chunk.of(self.pool.high)
            tasks = tasks * ((tasks > low) & (tasks < high))
        if spent is None:
            return Response(load, (chunk.ratios * tasks) @ ratios.T)
        np.divide(tasks, spent, out=tasks)
        return Response(load, ((ratios * tasks) @ ratios.T) * (np.exp(log_prices) * self.level))

    def _wanted(
        self, chunk: Chunk, c: Float, log_prices: Float, alpha: float, alike: bool = False
    ) -> tuple[Float, Float | None, Float]:
        """Tasks; the price of one by level and the ratios, or with wide prices None and the parts of budgets.

        With ``alike``, identical users get exactly identical tasks.
        """
        weights = chunk.of(self.pool.weights)
        if np.abs(log_prices).max() < WIDE:
            unit_prices = np.exp(log_prices) * self.level
            # BLAS may round a column by its position
            price = cost(chunk.ratios, unit_prices) if alike else unit_prices @ chunk.ratios
            tasks, spent, ratios = (c / price) ** (1.0 / alpha), price, chunk.ratios
        else:
            logs = np.log(chunk.ratios) + log_prices[:, None]
            top = logs.max(axis=0)
            log_price = top + np.log(np.exp(logs - top).sum(axis=0))
            tasks = np.exp((np.log(c / self.level) - log_price) / alpha)
            spent, ratios = None, np.exp(logs - log_price)
        tasks *= weights * self.level / c
        if self.pool.bounded:
            np.clip(tasks, chunk.of(self.pool.low), chunk.of(self.pool.high), out=tasks)
        return tasks, spent, ratios

    def settling(self, log_prices: Float) -> Callable[[Chunk], None]:
        """The function that replaces a chunk's shares of a task by its tasks at prices."""
        read, self.read = self.read, False

        def settle(chunk: Chunk) -> None:
            held = self.tasks[chunk.rows]
            if not read:
                held[:] = chunk.coefficients
            held[:] = self._wanted(chunk, held, log_prices, self.alpha, alike=True)[0]

        return settle
