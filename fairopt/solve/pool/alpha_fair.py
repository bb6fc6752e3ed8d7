"""Alpha-fairness of a linear share on one pool, by Newton's method in logarithms of prices (Proposition 4.5).

The problem is

    max sum_j w_j u(c_j x_j / w_j),  u'(z) = z^-alpha,  under  sum_j d_ji x_j <= C_i,  low_j <= x_j <= high_j.

At prices p of whole capacities a task costs ``v_j = sum_i (d_ji / C_i) p_i``, and the best response is ``x_j = (w_j /
c_j) (c_j / v_j)^(1 / alpha)``, cut at the bounds. Optimal prices clear each market: the load is C_i where p_i > 0, and
at most C_i elsewhere. So there are as many unknowns as resources, and users are read in passes (Proposition 4.4).

Why ``eta = log(p) / alpha``: the derivatives of logarithms of loads by eta are parts of users' budgets, between 0 and 1
for every alpha; by log(p) they are 1 / alpha of that, and at large alpha prices cover hundreds of decades. A resource
that is not full has eta of minus infinity; a fictitious load that falls from a tenth to 1e-15 of its capacity keeps it
finite. Bisection is no way, as the excess of one resource is no function of its own price alone.

Rounding: prices of resources that are full for the same users are not unique (a singular matrix: singular values are
cut), prices to which nobody reacts may grow without effect, and exponentials may overflow. What ends far from the
optimum shows in the gap of Bound 4.6, which any prices give; a smaller gap is tried for until it is rounding. Of 100
small pools at alpha = 100 at most 1, and at 0.01 at most 2, are left to the cone method (tests).

`find_prices` works on `AlphaFairUsers`, who report loads and their derivatives at prices: users in memory
(`AlphaFairPool`) or in shards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairopt.certificate import Try
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.pool import PoolPrices
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import ROUNDING, TINY
from fairopt.solve.form.pool_users import Chunk, Pool, cost, refuse_unfit_bounds
from fairopt.solve.form.program import Program
from fairopt.solve.pool import interior
from fairopt.solve.settings import Proposals, Settings

# Fictitious loads, as fractions of a capacity. Of 100 small instances without a guess, 1 at alpha = 100 and 2 at 0.01
# end without prices if the first load is followed by the last.
EPSILONS = (1e-1, 1e-3, 1e-6, 1e-10, 1e-15)
LARGEST_STEP = 3.0  # largest change of eta, or of its effect on loads, in one step
STEEP = 5.0  # alpha from which any price may change by LARGEST_STEP: at 100, 3 of 237 random instances failed without
COUNTS = 0.3  # part of its users' budgets from which a price may change by LARGEST_STEP
SINGULAR = 1e-12  # smaller singular values are zero: prices of resources that are full for the same users
STEPS = 80  # at one fictitious load; 4 to 10 are usual
WIDE = 600.0  # logarithms of prices beyond which exponentials may overflow
FREE = 1e-6  # of a capacity: resources with more slack at an interior point are not full
EXACT = 1e-12  # residual to reach where no sample gave a first guess
NEARLY = 1e-3  # residual at which the fictitious load is lowered
FINE = 1e-10  # gap below which no second try is made
FACTOR, LOWEST = 1.0, 100.0  # of logarithms of prices: precision of the smallest ones, and the most by which they fall
FEW = 200  # users whose first guess is an interior point's: 2 users took 1.9 ms with it, and 2.7 to 7 ms without
CLOSE = 3e-5  # residual from which one more step leaves its square: gaps of 1e-14 to 1e-10


def solve_alpha_fair(program: Program, settings: Settings) -> Proposals:
    """Alpha-fairness with prices as evidence; raises `Infeasible` if the lower bounds do not fit.

    The first guess is ``settings.start``, or for `FEW` users the prices of an interior point, which are proposed as
    they are where no user has bounds. Further proposals follow while the gap is larger than rounding.
    """
    term, alpha = program.term, program.term.alpha
    assert alpha is not None
    begun = time.perf_counter()
    pool = Pool(program, term.share)
    refuse_unfit_bounds(program, *pool.least())
    users = AlphaFairPool.with_samples(pool, alpha)
    guess, optimal = None, list[Float]()
    if settings.start is not None and np.isfinite(settings.start).all():
        # to prices of whole capacities, in units in which levels are near 1: u(level z) is level^(1 - alpha) u(z)
        whole = np.maximum(settings.start[0] / term.factor * program.instance.total_capacities, TINY)
        guess = np.log(whole) - (1.0 - alpha) * np.log(users.level)
    elif pool.n <= FEW and program.marginal is not None:
        with np.errstate(all="ignore"):
            optimum = interior.solve_pool(interior.of_program(program, program.marginal), quick=True)
            if optimum is not None:
                prices = np.log(optimum.prices / term.factor) - (1.0 - alpha) * np.log(users.level)
                guess = of_free_resources(prices, optimum.slack / pool.usable, alpha)
                optimal += [] if pool.bounded else [guess]  # lower bounds were missed by up to 5e-12
    best, gap = None, np.inf
    for log_prices in chain(optimal, price_tries(users, alpha, guess)):
        answer = yield _at_prices(users, log_prices, begun)
        found_gap = np.inf if answer is None else answer.gap
        if best is not None and found_gap > gap:  # its tasks overwrote those of the better try
            yield _at_prices(users, best, begun)
            return
        best, gap = log_prices, found_gap
        if gap <= (EXACT if log_prices is guess else FINE):
            return
    if best is None:
        yield Proposal("prices", attempt=Try("prices", "no prices found", time.perf_counter() - begun))


def _at_prices(users: AlphaFairPool, log_prices: Float, begun: float) -> Proposal:
    """The best responses to prices, which overwrite the tasks of the last try."""
    users.pool.each(users.settling(log_prices))
    dual = Dual(users.pool.program.term.factor * np.exp(log_prices), unit=users.level)
    evidence = PoolPrices(users.pool, dual)
    return Proposal("prices", users.tasks, evidence, attempt=Try("prices", "solved", time.perf_counter() - begun))


class Response(NamedTuple):
    """Load of each resource at prices, and minus its derivative by each eta (m x m)."""

    load: Float
    slopes: Float

    @classmethod
    def of_all(cls, parts: Sequence[Response]) -> Response:
        """Sums over several groups of users."""
        return cls(reduce(np.add, (p.load for p in parts)), reduce(np.add, (p.slopes for p in parts)))


class AlphaFairUsers(Protocol):
    """Users who report their response to prices, in memory or in shards."""

    usable: Float

    def respond(self, log_prices: Float, alpha: float) -> Response:
        """Response to prices."""

    def sample(self) -> AlphaFairUsers | None:
        """Fewer users with about the same prices, or None."""


class FoundPrices(NamedTuple):
    """Logarithms of prices in the users' unit of level, and the response to those of the step before."""

    log_prices: Float
    last: Response


def find_prices(
    users: AlphaFairUsers, alpha: float, start: Float | None = None, enough: float = CLOSE, rough: bool = False
) -> FoundPrices | None:
    """Prices at which every resource is full or free; None if not found.

    ``start`` is a guess, by default the prices of a sample. Newton's method runs until the residual is ``enough``, and
    takes one more step. ``rough`` prices are only a guess for more users.
    """
    if start is None:
        sample = users.sample()
        guess = find_prices(sample, alpha, rough=True) if sample is not None else None
        start = None if guess is None else guess.log_prices
    if start is not None:
        first = _PriceState(users, alpha, start / alpha, EPSILONS[-1], float(start.max()) / alpha)
        near = _newton_steps(first, NEARLY if rough else enough)
        if near is not None:
            # one more step without a look at where it leads: the gate's pass over the users does that. Without the step
            # 30 of 100 gaps at alpha = 0.01 were above 1e-12, and tasks off by up to 2e-6.
            last = near.newton() if near.size > EXACT else 0.0
            return FoundPrices(alpha * (near.eta + last), near.response)
    return _prices_without_guess(users, alpha, NEARLY if rough else EXACT)


def price_tries(users: AlphaFairUsers, alpha: float, guess: Float | None = None) -> Iterator[Float]:
    """Prices by `find_prices`, then smaller or more precise ones; the caller stops at a gap below `FINE`."""
    for enough in (CLOSE, EXACT):
        prices = find_prices(users, alpha, guess, enough)
        if prices is None:
            return
        yield prices.log_prices
        last = prices.last
        # Full by lower bounds and by users at limits: nobody reacts to the price. Of 109 pools whose lower bounds fill
        # a resource to 1e-7 or less, 20 have no certified answer without smaller prices, and 6 without the second
        # round.
        insensitive = np.flatnonzero((np.diag(last.slopes) <= SINGULAR * last.load) & (last.load > 0))
        if len(insensitive):
            yield smallest_prices(users, alpha, prices.log_prices, insensitive)
        guess = prices.log_prices


def smallest_prices(users: AlphaFairUsers, alpha: float, log_prices: Float, insensitive: NDArray[np.intp]) -> Float:
    """Prices with the same response, of which those of ``insensitive`` resources are within `FACTOR` of the smallest.

    Where lower bounds fill a resource, any large enough price is optimal, and Newton's method may end at 1e13: a bound
    from there is lost in rounding.
    """
    found, lowered = users.respond(log_prices, alpha), log_prices.copy()
    for i in insensitive.tolist():
        step = FACTOR
        while step >= FACTOR and log_prices[i] - lowered[i] < LOWEST:
            tried = lowered.copy()
            tried[i] -= step
            # the load may exceed a capacity by as much as it did before, and by rounding
            most = np.maximum(users.usable, found.load) * (1.0 + ROUNDING)
            fits = bool((users.respond(tried, alpha).load <= most).all())
            lowered, step = (tried, 2.0 * step) if fits else (lowered, 0.25 * step)
    return lowered


def of_free_resources(log_prices: Float, left: Float, alpha: float) -> Float:
    """Prices at which the smallest fictitious load fills what is ``left`` (n_resources,) of resources not full."""
    # the fictitious load is epsilon (p_0 / p_i)^(kappa / alpha), with kappa = min(1, alpha)
    fall = np.log(np.maximum(left, FREE) / EPSILONS[-1])
    return np.where(left > FREE, log_prices.max() - fall * max(alpha, 1.0), log_prices)


def _prices_without_guess(users: AlphaFairUsers, alpha: float, enough: float) -> FoundPrices | None:
    """Prices along a path from alpha near 1 to the given alpha, each with smaller and smaller fictitious loads."""
    path = [alpha]
    # at small alpha demands are nearly steps of prices; prices of an alpha 2.5 times as large are a good guess
    while path[-1] < 0.7:
        path.append(min(2.5 * path[-1], 1.0))
    with np.errstate(divide="ignore"):
        top = float(np.log(np.max(users.respond(np.zeros(len(users.usable)), path[-1]).load / users.usable)))
    log_prices: Float = np.full(len(users.usable), path[-1] * top if np.isfinite(top) else 0.0)
    state: _PriceState | None = None
    path_start = path[-1]
    while path:
        a = path.pop()
        eta, reference = log_prices / a, float(log_prices.max()) / a
        state = None
        # later alphas start from prices that nearly clear, so without the largest load; only the last needs the
        # smallest
        for epsilon in EPSILONS[int(a < path_start) : None if not path else 2]:
            eta = eta if state is None else state.eta_at(epsilon)
            last = not path and epsilon == EPSILONS[-1]
            state = _newton_steps(_PriceState(users, a, eta, epsilon, reference), enough if last else NEARLY)
            if state is None:
                break
        if state is not None:
            log_prices = state.log_prices
    return FoundPrices(state.log_prices, state.response) if state is not None else None


class _PriceState:
    """Prices as ``eta = log(p) / alpha``, the loads at them, and the residual of full resources."""

    def __init__(self, users: AlphaFairUsers, alpha: float, eta: Float, epsilon: float, reference: float) -> None:
        self.users, self.alpha, self.eta, self.epsilon, self.reference = users, alpha, eta, epsilon, reference
        self.log_prices = alpha * eta
        self.kappa = min(1.0, alpha)  # the fictitious load is that of an alpha-fair user, or of a logarithmic barrier
        self.response = response = users.respond(self.log_prices, alpha)
        with np.errstate(all="ignore"):
            # powers of exp(600) do not overflow; beyond that a load is all or nothing anyway
            self.slack = epsilon * users.usable * np.exp(np.clip(self.kappa * (reference - eta), -WIDE, WIDE))
            self.total = response.load + self.slack
            self.residual = np.log(self.total / users.usable)
            self.slopes = response.slopes
            # Minus the derivatives of log(total) by eta (Proposition 4.5). Where users alone exceed a capacity, the
            # smallest fictitious load does not count as reacting: a higher price cannot take away what is not there.
            helps = (response.load < users.usable) | (epsilon > EPSILONS[-1])
            self.jacobian = (self.slopes + np.diag(self.kappa * self.slack * helps)) / self.total[:, None]
        self.size = float(np.abs(self.residual).max()) if np.isfinite(self.residual).all() else np.inf
        self.sound = self.size < np.inf and bool(np.isfinite(self.jacobian).all())

    def at(self, eta: Float) -> _PriceState:
        """The state at other prices."""
        return _PriceState(self.users, self.alpha, eta, self.epsilon, self.reference)

    def eta_at(self, epsilon: float) -> Float:
        """The start for another fictitious load: prices that hardly matter to users fall with it."""
        fall = np.log(epsilon / self.epsilon) / self.kappa
        return self.eta + np.where((self.slack > 0.01 * self.users.usable) & self._hardly_matters(fall, 0.5), fall, 0.0)

    def _hardly_matters(self, change: Float | float, little: float) -> Bool:
        """Whether a change of each eta has little effect on any load; always False below alpha = 0.5."""
        with np.errstate(over="ignore", invalid="ignore"):
            effect = (self.slopes / self.total[:, None]).max(axis=0)
            return np.abs(change) * effect < (little if self.alpha >= 0.5 else 0.0)

    def dual_slope(self, direction: Float) -> float:
        """Derivative of the dual objective, which is minimised, along a direction, in units of the largest price."""
        prices = np.exp(self.log_prices - self.log_prices.max())
        return float((prices * (self.users.usable - self.total)) @ direction)

    def improves_on(self, other: _PriceState, direction: Float) -> bool:
        """Whether the residual is clearly smaller, or the dual still falls along the direction of the step.

        The dual falls if every price that moved still has to move the same way. That is tested without sums, in which
        prices of resources that are not full would be lost.
        """
        if not self.sound or self.size < 0.9 * other.size:
            return self.sound
        moved = np.abs(direction) > 1e-6 * np.abs(direction).max()  # smaller entries are rounding of the solve
        if moved.any() and (direction * self.residual)[moved].min() >= 0.0:
            return True
        return self.dual_slope(direction) < 0.0 and other.dual_slope(direction) < 0.0

    def newton(self, cut: float = SINGULAR) -> Float:
        """Newton's step in eta, with no entry too large."""
        with np.errstate(divide="ignore", invalid="ignore"):  # where the fictitious load is all that is left
            left = np.maximum(self.users.usable - (self.total - self.slack), 0.0)
            down = np.nan_to_num(np.log(self.slack / left) / self.kappa)
        # a resource that is far from full may go to its price in one step, if hardly anybody spends on it
        fall = np.maximum(self._largest_change, np.where(self._hardly_matters(down, 0.05), -down, 0.0))
        return _limited_step(self.jacobian, self.residual, self._largest_change, fall, self.alpha, cut)

    def descent(self) -> Float:
        """Newton's step for the dual, a direction of descent."""
        return _limited_step(
            self.jacobian, 1.0 - self.users.usable / self.total, self._largest_change, self._largest_change, self.alpha
        )

    @property
    def _largest_change(self) -> Float:
        most: Float = np.full(len(self.eta), LARGEST_STEP)
        # prices that hardly matter to any user may go further: at 0.01, 41 of 100 small instances without a guess ended
        # early
        if self.alpha < 1:
            effect = np.maximum(self.jacobian.max(axis=0), 1e-3)
            most = np.maximum(np.minimum(LARGEST_STEP / effect, 5.0 / self.alpha), LARGEST_STEP)
        return most


def _newton_steps(state: _PriceState, enough: float) -> _PriceState | None:
    """Newton steps until the residual is small or no step helps; None if it stays large."""
    for k in range(STEPS):
        tell(f"prices, step {k + 1}")
        if not state.sound or state.size <= enough:
            break
        following = _better_state(state)
        if following is None:
            break
        state = following
    return state if state.sound and state.size <= max(enough, NEARLY) else None


def _better_state(state: _PriceState) -> _PriceState | None:
    """The state after a full step, else after a shortened one that cuts no singular values, else after a dual step."""
    first = state.newton()  # nearly always enough
    after_first = state.at(state.eta + first)
    if after_first.sound and after_first.size < 0.9 * state.size:
        return after_first
    # without the dual's steps 5 of 100 small instances at alpha = 100, and 3 at 0.01, ended early
    ways: tuple[tuple[Callable[[], Float], int], ...] = ((partial(state.newton, 0.0), 5), (state.descent, 30))
    for find, tries in ways:
        direction = find()
        for k in range(tries):
            way = 0.4**k * direction
            known = np.allclose(way, first, rtol=1e-6, atol=0.0)
            following = after_first if known else state.at(state.eta + way)
            if following.improves_on(state, direction):
                return following
    return None


def _limited_step(jacobian: Float, residual: Float, rise: Float, fall: Float, alpha: float, cut: float = 0.0) -> Float:
    """Newton's step with no entry too large: the one furthest beyond its bound is set to it, and the others solved for.

    A price that is a small part of budgets rises at most by Newton's step in the price itself: its effect grows in
    proportion to it.
    """
    counts = (np.diag(jacobian) > COUNTS) | (alpha > STEEP)  # at large alpha prices have far to go
    step = np.zeros(len(residual))
    free = np.ones(len(residual), dtype=bool)
    while free.any():
        # entries at their bounds are given; what they do to the loads goes to the right side
        right = residual[free] - jacobian[np.ix_(free, ~free)] @ step[~free]
        part = jacobian[np.ix_(free, free)]
        scale = np.maximum(part.max(axis=0), TINY)  # even a tiny price may matter
        newton = np.linalg.lstsq(part / scale, right, rcond=cut)[0] / scale
        newton = np.where(np.isfinite(newton), newton, right)
        rows = np.flatnonzero(free)
        step[rows] = newton
        # p (1 + alpha deta) instead of p exp(alpha deta)
        in_price = np.log1p(alpha * np.maximum(newton, 0.0)) / alpha
        up = np.where(counts[rows], np.maximum(rise[rows], in_price), in_price)
        most = np.where(newton > 0, up, fall[rows])
        worst = int(np.argmax(np.abs(newton) / most))
        if abs(newton[worst]) <= most[worst]:
            break
        step[rows[worst]] = np.copysign(most[worst], newton[worst])
        free[rows[worst]] = False
    return step


def unit_level(rates: Float, usable: Float, first_limit: float, alpha: float) -> float:
    """The unit of level: the max-min level without bounds, and above alpha = 1 at most that of the first limit."""
    with np.errstate(divide="ignore"):
        level = float(1.0 / np.max(rates / usable))
    # above 1 utilities are powers below 0, which overflow at levels far below the unit
    return min(level, first_limit) if alpha > 1 else level


class AlphaFairPool:
    """The users of a pool in memory, as `AlphaFairUsers`.

    ``level`` is the unit of level, if it is known. ``tasks`` holds the share's coefficients until `settling` replaces
    them by tasks. ``rates`` is the load per level without bounds, ``first_limit`` the lowest level at a limit.
    """

    def __init__(self, pool: Pool, alpha: float, level: float | None = None) -> None:
        self.pool, self.alpha, self.usable = pool, alpha, pool.usable
        self.tasks = np.empty(pool.n)
        self.subsample: AlphaFairPool | None = None
        self.read = level is None  # whether `tasks` holds the coefficients; else the first response reads them
        if level is not None:
            self.level = level
            return
        parts = pool.each(self._start)
        self.rates: Float = reduce(np.add, (rates for rates, _ in parts))
        self.first_limit = min(limit for _, limit in parts)
        self.level = unit_level(self.rates, self.usable, self.first_limit, alpha)

    @classmethod
    def with_samples(cls, pool: Pool, alpha: float) -> AlphaFairPool:
        """Users with the unit of level of a sample, which saves a pass, and that sample."""
        smaller = pool.sample()
        if smaller is None:
            return cls(pool, alpha)
        subsample = cls.with_samples(smaller, alpha)
        users = cls(pool, alpha, None if alpha > 1 and pool.bounded else subsample.level)
        users.subsample = subsample
        subsample.set_level(users.level)
        return users

    def set_level(self, level: float) -> None:
        """Set the unit of level, of the samples too."""
        self.level = level
        if self.subsample is not None:
            self.subsample.set_level(level)

    def _start(self, chunk: Chunk) -> tuple[Float, float]:
        c = chunk.coefficients
        self.tasks[chunk.rows] = c
        per_level = chunk.of(self.pool.weights) / c
        high = chunk.of(self.pool.high)
        return chunk.ratios @ per_level, float(np.min(high / per_level)) if self.pool.bounded else np.inf

    def _coefficients(self, chunk: Chunk, read: bool) -> Float:
        """The share's coefficients in the memory of a chunk's tasks."""
        out = self.tasks[chunk.rows]
        if not read:
            out[:] = chunk.coefficients
        return out

    def sample(self) -> AlphaFairPool | None:
        """The sample, with the same unit."""
        return self.subsample

    def respond(self, log_prices: Float, alpha: float) -> Response:
        """Response to prices."""
        parts = self.pool.each(lambda chunk: self._respond(chunk, log_prices, alpha))
        self.read = True
        return Response.of_all(parts)

    def _respond(self, chunk: Chunk, log_prices: Float, alpha: float) -> Response:
        tasks, price, ratios = self._best_response(chunk, self._coefficients(chunk, self.read), log_prices, alpha)
        load = chunk.ratios @ tasks
        if self.pool.bounded:  # users at a bound do not react
            low, high = chunk.of(self.pool.low), chunk.of(self.pool.high)
            tasks = tasks * ((tasks > low) & (tasks < high))
        if price is None:
            return Response(load, (chunk.ratios * tasks) @ ratios.T)
        np.divide(tasks, price, out=tasks)
        return Response(load, ((ratios * tasks) @ ratios.T) * (np.exp(log_prices) * self.level))

    def _best_response(
        self, chunk: Chunk, c: Float, log_prices: Float, alpha: float, alike: bool = False
    ) -> tuple[Float, Float | None, Float]:
        """Tasks, and the price of one with the ratios; with prices beyond `WIDE` None and parts of budgets instead.

        With ``alike``, identical users get exactly identical tasks.
        """
        weights = chunk.of(self.pool.weights)
        if np.abs(log_prices).max() < WIDE:
            unit_prices = np.exp(log_prices) * self.level
            # BLAS may round a column by its position in the chunk, and users of equal demands would differ in the last
            # digit; the final pass is written in a fixed order
            price = cost(chunk.ratios, unit_prices) if alike else unit_prices @ chunk.ratios
            tasks, spent, ratios = (c / price) ** (1.0 / alpha), price, chunk.ratios
        else:
            logs = np.log(chunk.ratios) + log_prices[:, None]  # the sum by its largest term, so that nothing overflows
            top = logs.max(axis=0)
            log_price = top + np.log(np.exp(logs - top).sum(axis=0))
            tasks = np.exp((np.log(c / self.level) - log_price) / alpha)
            spent, ratios = None, np.exp(logs - log_price)
        tasks *= weights * self.level / c
        if self.pool.bounded:
            np.clip(tasks, chunk.of(self.pool.low), chunk.of(self.pool.high), out=tasks)
        return tasks, spent, ratios

    def settling(self, log_prices: Float) -> Callable[[Chunk], None]:
        """The function that replaces a chunk's coefficients by its tasks at prices."""
        read, self.read = self.read, False

        def settle(chunk: Chunk) -> None:
            tasks = self._coefficients(chunk, read)
            tasks[:] = self._best_response(chunk, tasks, log_prices, self.alpha, alike=True)[0]

        return settle
