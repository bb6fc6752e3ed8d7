"""Sums of one concave function per user on several different servers, by prices (Proposition 5.14).

The problem is ``max sum_j f_j(x_j)`` with f_j concave and increasing. At an optimum ``f_j'(x_j)`` is the cost of a task
at the cheapest server, plus the multiplier of the limit: the central path with another marginal utility.
"""

from __future__ import annotations

import time

import numpy as np

from fairopt.blocks.marginal import Marginal, PowerMarginal
from fairopt.proof.server_bounds import RowUnits
from fairopt.runtime.arrays import Float
from fairopt.solve.cluster.alpha_fair import LARGEST_ALPHA, SMALLEST_ALPHA, by_steps, prices_on_servers
from fairopt.solve.cluster.utilities import Curves
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Proposals, Settings


def sum_on_servers_applies(program: Program) -> bool:
    """Whether the program is a sum of one increasing, curved function per user on several servers, under bounds only.

    Users of functions with linear pieces would tie.
    """
    if program.term.alpha is not None or not prices_on_servers(program):
        return False
    marginal = program.marginal
    return marginal is not None and _curved(marginal, program.size, program.most)


def _curved(marginal: Marginal, size: Float, most: Float) -> bool:
    """Whether all functions increase and have curvature at typical numbers of tasks and at the largest."""
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
    """Tasks and prices by Newton's method: one proposal, even if steps or time run out."""
    begun = time.perf_counter()
    marginal = program.marginal
    assert marginal is not None
    with np.errstate(all="ignore"):  # NaN stops the steps
        units = RowUnits(program, program.size[:, None])
        size = program.size
        unit = float(marginal.slope(size) @ size)
        utilities = Curves(marginal, size, unit, units.reach)
    yield by_steps(units, utilities, units.limits, unit, settings, begun)
