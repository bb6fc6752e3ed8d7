"""The exact routes on one pool: from a program to a certified answer.

Users are asked in passes (`chunks`), the level or the prices are found by `waterfill` and `prices`, and the answer is
judged by `evidence`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Total
from fairopt.blocks.shares import Share
from fairopt.certificate import GAP_TOLERANCE, Try
from fairopt.errors import NotCertified
from fairopt.routes import conflict
from fairopt.routes.chunks import Pool
from fairopt.routes.cone import Answer, Settings
from fairopt.routes.linear import find_mix
from fairopt.routes.prices import judged_prices, natural_prices
from fairopt.routes.program import Program
from fairopt.routes.responding import Responding
from fairopt.routes.totalling import Totalling, sums
from fairopt.routes.waterfill import Filling, fill

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


def by_waterfill(program: Program, settings: Settings) -> Answer:
    """Leximin or max-min by water-filling, with the bottleneck condition as its certificate.

    Parameters
    ----------
    program : Program
        For which `fills` holds.
    settings : Settings
        Plays no part.

    Returns
    -------
    Answer

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
        conflict.explain(program)
        raise NotCertified("the lower bounds do not fit, though no conflict was found; loosen them a little")
    found = users.judged(filled.events)
    factor = found.feasible.factor(pool.usable, pool.n)
    if factor < 1:  # by rounding
        users.tasks *= factor
        found = found.scaled(factor)
    gap = found.gap(pool.usable)  # of leximin, and so of max-min
    return Answer(
        users.tasks, gap, found.feasible.violation, "water-filling", filled.prices,
        block_violation=found.feasible.short, value=found.lowest,
    )  # fmt: skip


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


def by_prices(program: Program, settings: Settings) -> Answer:
    """alpha-fairness by prices, with the dual they give as its certificate.

    Parameters
    ----------
    program : Program
        For which `priced` holds.
    settings : Settings
        Its ``start`` is where to look for prices first.

    Returns
    -------
    Answer
        With an infinite gap where no prices were found.

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
    found = judged_prices(users, users.judged, fair.alpha, pool.n, guess)
    if found is None:
        lost = Try("prices", "no prices found", time.perf_counter() - begun)
        return Answer(np.zeros(pool.n), np.inf, 0.0, "prices", tried=(lost,))
    if found.factor < 1:
        users.tasks *= found.factor
    feasible, gap = found.worth.feasible, found.gap
    value = found.worth.natural(fair.alpha, users.level)
    prices = natural_prices(found.log_prices, fair.alpha, users.level)
    if isinstance(program.objective, FairnessEfficiency):
        value, slope = program.objective.of_alpha_fair(value)
        prices = prices * slope
    status = "solved" if gap <= GAP_TOLERANCE else "no certified prices"
    solved = Try("prices", status, time.perf_counter() - begun, gap, feasible.violation)
    return Answer(
        users.tasks, gap, feasible.violation, "prices", prices,
        block_violation=feasible.short, value=value, tried=(solved,),
    )  # fmt: skip


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


def by_totals(program: Program, settings: Settings) -> Answer:
    """The largest total by prices, with the dual they give as its certificate.

    Parameters
    ----------
    program : Program
        For which `totalled` holds.
    settings : Settings
        Plays no part.

    Returns
    -------
    Answer
        With an infinite gap where a linear program failed.

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
        lost = Try("linear", "no prices found", time.perf_counter() - begun)
        return Answer(np.zeros(pool.n), np.inf, 0.0, "linear", tried=(lost,))
    tasks = np.empty(pool.n)
    found = sums(users, tasks, mix.prices, lambda chunk: users.settle(chunk, mix, tasks))
    factor = found.feasible.factor(pool.usable, pool.n)
    if factor < 1:
        tasks *= factor
        found = found.scaled(factor)
    gap = found.gap(float(mix.prices @ pool.usable))
    status = "solved" if gap <= GAP_TOLERANCE else "no certified prices"
    solved = Try("linear", status, time.perf_counter() - begun, gap, found.feasible.violation)
    return Answer(
        tasks, gap, found.feasible.violation, "linear", mix.prices,
        block_violation=found.feasible.short, value=found.value, tried=(solved,),
    )  # fmt: skip


def _least(program: Program, pool: Pool) -> Float:
    """Load of the lower bounds; `Infeasible` where they do not fit."""
    least, crossed = pool.least()
    if crossed or (least > pool.usable * (1 + 1e-12)).any():
        conflict.explain(program)
    return least
