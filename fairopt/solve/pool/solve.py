"""The exact methods on one pool: the proposals of each, with evidence."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fairopt.blocks.shares import Share
from fairopt.certificate import Try
from fairopt.errors import NotCertified
from fairopt.proof.evidence.pool import Bottlenecked, FairPrices, TotalPrices
from fairopt.proof.pool_gaps import bottlenecks, rounding_decides
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import ROUNDING, TINY
from fairopt.solve.form.pool_users import Pool, bounds_fit
from fairopt.solve.form.program import Program
from fairopt.solve.pool.waterfilling import WaterfillingPool, find_events
from fairopt.solve.settings import Proposals, Settings

if TYPE_CHECKING:
    from fairopt.solve.pool.alpha_fair import AlphaFairPool

FEW = 200  # users whose first guess is an interior point's: 2 users took 1.9 ms with it, and 2.7 to 7 ms without
EXCESS = 1e-11  # of a capacity: more than this and best responses do not fit
UNSOLD = 1e-9  # of all capacities at their prices: more than this and best responses leave too much


def solve_waterfilling(program: Program, settings: Settings) -> Proposals:
    """Leximin or max-min with the order of bottlenecks as evidence; raises `Infeasible` if lower bounds do not fit."""
    assert program.pool_share is not None
    pool = Pool(program, program.pool_share)
    users = WaterfillingPool(pool)
    filled = find_events(users, pool.usable)
    if filled is None:
        _explain(program)
        raise NotCertified("the lower bounds do not fit, though no conflict was found; loosen them a little")
    events, order = filled.events, [event.resource for event in filled.events]
    pool.each(lambda chunk: users.settle(chunk, events))
    evidence = Bottlenecked(pool, order, filled.prices)
    answer = yield Proposal("water-filling", users.tasks, evidence)
    if answer is None or answer.ok:
        return
    if rounding_decides(program, bottlenecks(pool, answer.tasks, order)):
        from fairopt.exact.pool import fill

        tasks = fill(program)
        if tasks is not None:
            yield Proposal("water-filling", tasks, evidence)


def fill_leftover(program: Program, share: Share, tasks: Float) -> Float | None:
    """Tasks with the leftover of the given ones shared out by water-filling; None if those do not fit."""
    pool = Pool(program, share, low=tasks)
    users = WaterfillingPool(pool)
    filled = find_events(users, pool.usable)
    if filled is None:
        return None
    pool.each(lambda chunk: users.settle(chunk, filled.events))
    return users.tasks


def solve_alpha_fair(program: Program, settings: Settings) -> Proposals:
    """Alpha-fairness with prices as evidence; raises `Infeasible` if the lower bounds do not fit.

    The first guess is ``settings.start``, or for `FEW` users the prices of an interior point. Further proposals follow
    while the gap is larger than rounding.
    """
    from fairopt.solve.pool import interior
    from fairopt.solve.pool.alpha_fair import FINE, AlphaFairPool, of_free_resources, price_tries

    term, alpha = program.term, program.term.alpha
    assert alpha is not None
    begun = time.perf_counter()
    pool = Pool(program, term.share)
    _load_of_lower_bounds(program, pool)
    users = AlphaFairPool.with_samples(pool, alpha)
    guess = None
    if settings.start is not None and np.isfinite(settings.start).all():
        whole = np.maximum(settings.start[0] / term.factor * program.instance.total_capacities, TINY)
        guess = np.log(whole) - (1.0 - alpha) * np.log(users.level)
    elif pool.n <= FEW and program.marginal is not None:
        with np.errstate(all="ignore"):
            found = interior.solve_pool(interior.of_program(program, program.marginal), quick=True)
            if found is not None:
                prices = np.log(found.prices / term.factor) - (1.0 - alpha) * np.log(users.level)
                guess = of_free_resources(prices, found.slack / pool.usable, alpha)
    best, gap = None, np.inf
    for log_prices in price_tries(users, alpha, guess):
        answer = yield _at_prices(users, log_prices, begun)
        found_gap = np.inf if answer is None else answer.gap
        if best is not None and found_gap > gap:  # its tasks overwrote those of the better try
            yield _at_prices(users, best, begun)
            return
        best, gap = log_prices, found_gap
        if gap <= FINE:
            return
    if best is None:
        yield Proposal("prices", attempt=Try("prices", "no prices found", time.perf_counter() - begun))


def _at_prices(users: AlphaFairPool, log_prices: Float, begun: float) -> Proposal:
    """The best responses to prices, which overwrite the tasks of the last try."""
    users.pool.each(users.settling(log_prices))
    evidence = FairPrices(users.pool, log_prices, users.level)
    return Proposal("prices", users.tasks, evidence, attempt=Try("prices", "solved", time.perf_counter() - begun))


def solve_max_sum(program: Program, settings: Settings) -> Proposals:
    """The largest total with prices as evidence; raises `Infeasible` if the lower bounds do not fit."""
    from fairopt.solve.pool.max_sum import MaxSumPool, find_mix

    assert program.pool_share is not None
    begun = time.perf_counter()
    pool = Pool(program, program.pool_share)
    users = MaxSumPool(pool, _load_of_lower_bounds(program, pool))
    mix = find_mix(users)
    if mix is None:
        yield Proposal("linear", attempt=Try("linear", "no prices found", time.perf_counter() - begun))
        return
    tasks = np.empty(pool.n)
    pool.each(partial(users.settle, mix=mix, tasks=tasks))
    evidence = TotalPrices(pool, mix.prices)
    yield Proposal("linear", tasks, evidence, attempt=Try("linear", "solved", time.perf_counter() - begun))


def solve_sum(program: Program, settings: Settings) -> Proposals:
    """A sum of one concave function per user with prices as evidence, from the guess ``settings.start`` if any.

    Raises `Infeasible` if the lower bounds do not fit.
    """
    from fairopt.proof.evidence.prices import UserPrices
    from fairopt.solve.pool import interior

    begun = time.perf_counter()
    assert program.marginal is not None
    refuse_lower_bounds(program)
    with np.errstate(all="ignore"):  # NaN stops the steps
        problem = interior.of_program(program, program.marginal)
        guesses = []
        if settings.start is not None and np.isfinite(settings.start).all():
            guesses.append(settings.start[0] * program.instance.total_capacities)
        found = interior.solve_pool(problem, None if guesses else interior.sample_of(program, problem), guesses)
        attempt = Try("prices", "no prices found" if found is None else "solved", time.perf_counter() - begun)
        if found is None:
            yield Proposal("prices", attempt=attempt)
            return
        # if the best responses to the prices fill what has a price, they are more precise for single users
        response = problem.response(found.prices, found.tasks)
        left, worth = problem.usable - problem.ratios @ response, float(found.prices @ problem.usable)
        fills = bool((left >= -EXCESS * problem.usable).all()) and float(found.prices @ left) <= UNSOLD * worth
    tasks = problem.whole(response if fills else found.tasks)
    yield Proposal("prices", tasks, UserPrices(program, found.prices), attempt=attempt)


def _explain(program: Program) -> None:
    """Raise `Infeasible` with the lower bounds that conflict, if any do."""
    from fairopt.solve.infeasible import explain

    explain(program)


def refuse_lower_bounds(program: Program) -> None:
    """Raise `Infeasible` if the lower bounds on tasks of one pool do not fit."""
    if not program.low.any():
        return
    crossed = bool(np.any(program.low > program.high * (1 + ROUNDING)))
    if not bounds_fit(program.pairs.loads @ program.low, crossed, program.usable):
        _explain(program)


def _load_of_lower_bounds(program: Program, pool: Pool) -> Float:
    """The load of the lower bounds by resource; raises `Infeasible` if they do not fit."""
    load, crossed = pool.least()
    if not bounds_fit(load, crossed, pool.usable):
        _explain(program)
    return load
