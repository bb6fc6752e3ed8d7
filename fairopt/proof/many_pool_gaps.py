"""The gaps of `pool_gaps` for all instances of a batch's chunk at once.

The formulas are those of one pool (Bound 8.4, docs/methods/batch_and_shards.md), with instances along the last axis:

    max_j min_(i : d_ji > 0) max(top_i / z_j - 1, slack_i / (g_ji x_j))                  of leximin and max-min,

and the bounds by prices of alpha-fairness and totals of `pool_gaps`. An instance takes 0.4 to 11 microseconds, hardly
more than a call of NumPy, so that nothing is done instance by instance. Each user is compared with the resource that
serves it best, so that no order of resources is needed; slack is compared with the user's own load, which is stricter
than with that of all who rise. An instance that is not proved is solved again on its own.

Floats: prices are logarithms, as powers of 1 / alpha overflow. Rounding is counted as in `bound`.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.algebra import Objective
from fairopt.proof.bound import fair_gap, gain_of_total
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import SUM_ROUNDING, TERM_ROUNDING
from fairopt.solve.form.many_instances import BatchChunk


def judge_batch(chunk: BatchChunk, objective: Objective, tasks: Float, prices: Float | None) -> tuple[Float, Float]:
    """Gap and violation of each instance of a chunk at tasks (n_users, size); a gap is NaN or infinite if unproved.

    ``prices`` (n_resources, size) are the evidence: None for leximin and max-min; logarithms of prices per whole
    capacity, in `FairUnits`, for alpha-fairness; prices per whole capacity for a total, up to a factor per instance.
    """
    term = objective.term
    if term.is_smallest:
        gap = bottleneck_gap(chunk, tasks)
    elif prices is None:
        gap = np.full(tasks.shape[1], np.inf)
    elif term.alpha:
        gap = alpha_fair_gap(chunk, tasks, prices, term.alpha)
    else:
        gap = total_gap(chunk, tasks, np.maximum(prices, 0.0))
    return gap, chunk.violation(tasks)


def bottleneck_gap(chunk: BatchChunk, tasks: Float) -> Float:
    """The relative distance of each instance from the bottleneck condition (Bertsekas and Gallager 1992).

    Each user below its limit must need a full resource on which no user has a higher level ``s / w``. The slack of a
    resource is compared with the user's load. At a gap of g no allocation has a smallest level above 1 + g times this
    one.
    """
    level = tasks / chunk.per_level
    slack = np.maximum(1.0 - chunk.loads(tasks), 0.0)
    slack[slack <= SUM_ROUNDING] = 0.0  # beside a trace of a load, rounding of a sum would be an infinite rise
    excess = np.full(level.shape, np.inf)
    for i, room in enumerate(slack):
        users = chunk.demands[:, i] > 0
        top = np.where(users, level, 0.0).max(axis=0)
        over = np.divide(top, level, out=np.full(level.shape, np.inf), where=level > 0) - 1.0
        if room.any():
            held = chunk.demands[:, i] * tasks / chunk.capacities[i]
            over = np.maximum(over, np.divide(room, held, out=np.full(level.shape, np.inf), where=held > 0))
        np.minimum(excess, over, out=excess, where=users)
    free = tasks < chunk.limits * (1 - 1e-9)  # within rounding of its limit a user needs no bottleneck
    return np.where(free, excess, 0.0).max(axis=0)


def total_gap(chunk: BatchChunk, tasks: Float, prices: Float) -> Float:
    """(bound - value) / bound, with the bound ``sum_i p_i + sum_j max(0, c_j - sum_i p_i r_ji) X_j``.

    ``X_j`` is the smaller of user j's limit and what it could run alone.
    """
    ratios = chunk.demands / chunk.capacities
    alone = np.divide(1.0, ratios.max(axis=1), out=np.full(tasks.shape, np.inf), where=ratios.any(axis=1))
    room = np.where(chunk.limits > 0, np.minimum(chunk.limits, alone), 0.0)
    gain, limit = gain_of_total(chunk.per_task, np.einsum("jib,ib->jb", ratios, prices), 0.0, room), prices.sum(axis=0)
    bound = (limit + gain.most.sum(axis=0)) + TERM_ROUNDING * (limit + gain.size.sum(axis=0))
    achieved = (chunk.per_task * tasks).sum(axis=0)
    return np.divide(np.maximum(bound - achieved, 0.0), bound, out=np.zeros(bound.shape), where=bound != 0)


def alpha_fair_gap(chunk: BatchChunk, tasks: Float, log_prices: Float, alpha: float) -> Float:
    """The logarithm of (bound on the weighted power mean / mean achieved), by weak duality at any prices."""
    units = chunk.fair_units
    z = np.where(units.part, tasks / chunk.per_level / units.unit, 1.0)
    log_price, log_limit = log_sum(units.log_per_weight + log_prices[None]), log_sum(log_prices[None])[0]
    return np.asarray(fair_gap(units.weights, z, log_price, alpha, 0.0, np.minimum(units.tops, units.alone), log_limit))


def log_sum(logs: Float) -> Float:
    """The logarithm of the sum of exponentials over resources, (n_users, n_resources, size) to (n_users, size)."""
    top = logs.max(axis=1)  # so that the largest exponential is 1
    return top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
