"""Sums of one concave function per user on several different servers, by prices per server and resource.

The steps are those of alpha-fairness (`interior_point`), with the derivatives of each user's function instead of a
power of its level. A bound by tangents certifies what comes out (`fairopt.proofs.users`).
"""

from __future__ import annotations

import time

import numpy as np

from fairopt.blocks.marginal import Marginal, PowerMarginal
from fairopt.formulation.program import Program
from fairopt.methods.arrays import Float
from fairopt.methods.cluster.alpha_fair import LARGEST_ALPHA, SMALLEST_ALPHA, by_steps, prices_on_servers
from fairopt.methods.cluster.worths import Curves
from fairopt.methods.settings import Proposals, Settings
from fairopt.proofs.servers import RowUnits


def sum_on_servers_applies(program: Program) -> bool:
    """Whether prices of a sum over users are exact on several different servers, under bounds on tasks only.

    Every user's function has to grow and to bend at all numbers of tasks that are possible: users for whom more tasks
    are worth the same from some number on would tie.
    """
    if program.term.alpha is not None or not prices_on_servers(program):
        return False
    marginal = program.marginal
    return marginal is not None and _bends(marginal, program.size, program.most)


def _bends(marginal: Marginal, size: Float, most: Float) -> bool:
    """Whether all functions grow and bend at typical tasks and at the most that are possible."""
    if isinstance(marginal, PowerMarginal):
        curved = [(factor, alpha) for factor, _, alpha in marginal.curved]
        known = all(SMALLEST_ALPHA <= alpha <= LARGEST_ALPHA and (factor > 0).all() for factor, alpha in curved)
        return known and len(curved) > 0
    for x in (np.minimum(size, most), most):
        slope, curvature = marginal.both(x)
        if not ((slope > 0) & (curvature < 0) & (slope < np.inf)).all():
            return False
    return True


def solve_sum_on_servers(program: Program, settings: Settings) -> Proposals:
    """Tasks and prices by Newton's method: one proposal, also where the steps or the time did not suffice."""
    begun = time.perf_counter()
    marginal = program.marginal
    assert marginal is not None
    with np.errstate(all="ignore"):  # NaN stops the steps, and is judged like any answer
        units = RowUnits(program, program.size[:, None])
        size = program.size
        unit = float(marginal.slope(size) @ size)
        worths = Curves(marginal, size, unit, units.reach)
    yield by_steps(units, worths, units.limits, unit, settings, begun)
