"""The exact routes on one pool: from a program to a point with its evidence.

Users are asked in passes (`chunks`), and the level or the prices are found by `waterfill`, `prices` and `linear`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Total
from fairopt.blocks.shares import Share
from fairopt.certificate import Try
from fairopt.errors import NotCertified
from fairopt.formulation.pool_users import Pool
from fairopt.formulation.program import Program
from fairopt.methods.cone import infeasible
from fairopt.methods.cone.solve import Proposals, Settings
from fairopt.methods.pool.alpha_fair import Responding, price_tries
from fairopt.methods.pool.max_sum import Totalling, find_mix
from fairopt.methods.pool.waterfilling import Filling, fill
from fairopt.proofs.evidence import Bottlenecked, FairPrices, Proposal, TotalPrices

Float = NDArray[np.floating[Any]]


def fills(program: Program) -> bool:
    """Whether water-filling is exact: leximin or max-min on one pool with nothing but bounds on tasks.

    Parameters
    ----------
    program : Program
        What to solve.

    Returns
    -------
    bool
    """
    return isinstance(program.objective, (Leximin, MaxMin)) and program.pool_share is not None


def by_waterfill(program: Program, settings: Settings) -> Proposals:
    """Leximin or max-min by water-filling, with the order of bottlenecks as its evidence.

    Parameters
    ----------
    program : Program
        For which `fills` holds.
    settings : Settings
        Plays no part.

    Yields
    ------
    Proposal

    Raises
    ------
    Infeasible
        If the lower bounds do not fit.
    """
    assert program.pool_share is not None
    pool = Pool(program, program.pool_share)
    users = Filling(pool)
    filled = fill(users, pool.usable)
    if filled is None:
        infeasible.explain(program)
        raise NotCertified("the lower bounds do not fit, though no conflict was found; loosen them a little")
    events, order = filled.events, [event.resource for event in filled.events]
    evidence = Bottlenecked(pool, order, filled.prices, lambda chunk: users.settle(chunk, events))
    yield Proposal("water-filling", users.tasks, evidence)


def filled_up(program: Program, share: Share, tasks: Float) -> Float | None:
    """Hand out what an answer leaves, by water-filling above it; None where it does not fit.

    Parameters
    ----------
    program : Program
        On one pool.
    share : Share
        Whose levels rise together.
    tasks : ndarray of shape (n_users,)
        What everybody keeps.

    Returns
    -------
    ndarray of shape (n_users,) or None
    """
    pool = Pool(program, share, low=tasks)
    users = Filling(pool)
    filled = fill(users, pool.usable)
    if filled is None:
        return None
    pool.each(lambda chunk: users.settle(chunk, filled.events))
    return users.tasks


def priced(program: Program) -> bool:
    """Whether the prices route is exact: alpha-fairness on one pool with nothing but bounds on tasks.

    Parameters
    ----------
    program : Program
        What to solve.

    Returns
    -------
    bool
    """
    fair = program.alpha_fair
    return fair is not None and fair.alpha > 0 and program.pool_share is not None and bool((program.usable > 0).all())


def by_prices(program: Program, settings: Settings) -> Proposals:
    """alpha-fairness by prices, which are its evidence.

    Parameters
    ----------
    program : Program
        For which `priced` holds.
    settings : Settings
        Its ``start`` is where to look for prices first.

    Yields
    ------
    Proposal
        A second one where the gap of the first leaves more than it should.

    Raises
    ------
    Infeasible
        If the lower bounds do not fit.
    """
    fair = program.alpha_fair
    assert fair is not None
    begun = time.perf_counter()
    pool = Pool(program, fair.share)
    _least(program, pool)
    users = Responding.with_samples(pool, fair.alpha)
    guess = None
    if settings.start is not None and np.isfinite(settings.start).all():
        whole = np.maximum(settings.start[0] * program.instance.total_capacities, 1e-300)
        guess = np.log(whole) - (1.0 - fair.alpha) * np.log(users.level)
    tries = price_tries(users, fair.alpha, guess)
    log_prices, best, gap = next(tries, None), None, np.inf
    if log_prices is None:
        yield Proposal("prices", attempt=Try("prices", "no prices found", time.perf_counter() - begun))
    while log_prices is not None:
        answer = yield _at_prices(users, log_prices, begun)
        found = np.inf if answer is None else answer.gap
        if best is None or found <= gap:
            best, gap = log_prices, found
        else:  # the better ones come last
            yield _at_prices(users, best, begun)
            return
        try:
            log_prices = tries.send(found)
        except StopIteration:
            return


def _at_prices(users: Responding, log_prices: Float, begun: float) -> Proposal:
    """What users want at prices."""
    if not users.read:  # a second try: the tasks of the first stay what they were
        users.tasks = np.empty(users.pool.n)
    evidence = FairPrices(users.pool, log_prices, users.level, users.settling(log_prices))
    return Proposal("prices", users.tasks, evidence, attempt=Try("prices", "solved", time.perf_counter() - begun))


def totalled(program: Program) -> bool:
    """Whether this route is exact: a total, or alpha-fairness at 0, on one pool with nothing but bounds on tasks.

    Parameters
    ----------
    program : Program
        What to solve.

    Returns
    -------
    bool
    """
    objective = program.alpha_fair or program.objective
    total = isinstance(objective, Total) or (isinstance(objective, AlphaFair) and objective.alpha == 0)
    return total and program.pool_share is not None


def by_totals(program: Program, settings: Settings) -> Proposals:
    """The largest total by prices, which are its evidence.

    Parameters
    ----------
    program : Program
        For which `totalled` holds.
    settings : Settings
        Plays no part.

    Yields
    ------
    Proposal

    Raises
    ------
    Infeasible
        If the lower bounds do not fit.
    """
    assert program.pool_share is not None
    begun = time.perf_counter()
    pool = Pool(program, program.pool_share)
    users = Totalling(pool, _least(program, pool))
    mix = find_mix(users)
    if mix is None:
        yield Proposal("linear", attempt=Try("linear", "no prices found", time.perf_counter() - begun))
        return
    tasks, found = np.empty(pool.n), mix
    evidence = TotalPrices(pool, mix.prices, lambda chunk: users.settle(chunk, found, tasks))
    yield Proposal("linear", tasks, evidence, attempt=Try("linear", "solved", time.perf_counter() - begun))


def _least(program: Program, pool: Pool) -> Float:
    """Load of the lower bounds; `Infeasible` where they do not fit."""
    least, crossed = pool.least()
    if crossed or (least > pool.usable * (1 + 1e-12)).any():
        infeasible.explain(program)
    return least
