"""Alpha-fairness, max-min and other sums on several servers, by prices per server row and resource (chapter 5).

The problem is ``max sum_j w_j u(z_j)`` with ``u'(z) = z^-alpha``, or ``max min_j z_j``, where a unit of level of user j
on server s needs ``G_jsi`` of each resource. At prices p it costs ``k_js = sum_i G_jsi p_si``; an optimum uses the
cheapest servers only, and ``w_j u'(z_j)`` is that cost (plus the multiplier of a limit). The interior point finds
prices, and a point for them; the gap is that of the dual bound (Proposition 5.1), which any prices give.

Of a sum ``sum_j f_j(x_j)`` with f_j concave and increasing, ``f_j'(x_j)`` is the cost of a task at the cheapest server,
plus the multiplier of the limit: the central path with another marginal utility (Proposition 5.14).

Levels go as prices to the power of -1 / alpha. So at small alpha a user runs nearly all or nothing at a price, and at
large alpha high levels hardly count in the sum and may stay far from theirs: hence the bounds on alpha, measured below,
and the test of each user (`EACH`). NaN ends the steps, and the gate judges what is there.
"""

from __future__ import annotations

import time

import numpy as np

from fairopt.blocks.marginal import Marginal, PowerMarginal
from fairopt.certificate import Try
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.progress import tell
from fairopt.solve import infeasible
from fairopt.solve.cluster.few_servers import FewServers
from fairopt.solve.cluster.interior_point import Interior
from fairopt.solve.cluster.utilities import Curves, Powers, Utilities
from fairopt.solve.form.program import Program
from fairopt.solve.form.units_on_servers import LevelUnits, RowUnits
from fairopt.solve.settings import Proposals, Settings

# From 0.05 to 5 all of 214 random instances (1 to 200 users, 2 to 7 servers, weights, limits, demands over up to four
# decades) were certified, at 10 all but 1, at 20 all but 25; at 0.01 and 100 most over four decades were not. A single
# user could rise by 4e-8 at alpha = 2, 6e-5 at 5, and 7% at 10, so alpha ends at 5.
SMALLEST_ALPHA, LARGEST_ALPHA = 0.05, 5.0
LARGEST_SYSTEM = 3000  # users or prices, whichever are fewer: beyond, a dense factorisation takes seconds a step
# 7 to 10 are typical. At alpha = 0.05 a tenth of the instances over four decades took more than 60, and 10,000 users
# of which many almost tie on 27 servers up to 130.
STEPS = 300
DONE = 1e-8  # one more step would give about 1e-10
CLEAR = 1e-7  # relative excess of lower bounds that solvers see too
EACH = 1e-4  # of a user's spending; without it, one of 148 random answers at alpha = 5 let a user rise by 43%


def alpha_fair_on_servers_applies(program: Program) -> bool:
    """Whether the program is max-min or alpha-fairness (alpha from 0.05 to 5) on several servers under bounds only.

    Lower bounds need one coefficient of the share per user.
    """
    term = program.term
    known = term.is_smallest if term.alpha is None else SMALLEST_ALPHA <= term.alpha <= LARGEST_ALPHA
    if not known or term.is_order or not program.of_users:
        return False
    if program.low.any() and term.share.coefficients(program.instance).ndim == 2:
        return False
    return prices_on_servers(program)


def prices_on_servers(program: Program) -> bool:
    """Whether the interior point applies: several servers, bounds only, users who can run, and few enough unknowns."""
    instance = program.instance
    if program.empty or program.single or program.rest or not program.of_users:
        return False
    # points are strictly inside: every user can run tasks, and the bounds of some leave a range
    unknowns = min(instance.n_users, instance.n_servers * instance.n_resources)
    return unknowns <= LARGEST_SYSTEM and bool((program.most > 0).all() and (program.low < program.high).any())


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


def solve_alpha_fair_on_servers(program: Program, settings: Settings) -> Proposals:
    """Tasks and prices by Newton's method: one proposal, even if steps or time run out.

    It takes about 80 bytes of memory per user and server: 0.5 GB and 1 s on 100,000 users and 27 servers. 200 users on
    2,000 servers take 0.2 s, and 1 s if demands differ by server.
    """
    begun = time.perf_counter()
    with np.errstate(all="ignore"):  # NaN stops the steps
        units, fair = LevelUnits(program), program.term.alpha
        if fair is None:
            groups, alpha, limits = np.ones(1), 1.0, units.limits.min(keepdims=True)
        else:
            weights = program.instance.weights
            groups, alpha, limits = weights / weights.sum(), fair, units.limits
        utilities = Powers(groups, alpha)
        yield by_steps(units, utilities, limits, 1.0, settings, begun)


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


def by_steps(
    units: RowUnits, utilities: Utilities, limits: Float, unit: float, settings: Settings, begun: float
) -> Proposal:
    """The last point of the steps, with prices times a unit; `Infeasible` if lower bounds do not fit.

    The interior point, with five numbers per user and server, is freed before the proof begins.
    """
    with np.errstate(all="ignore"):  # NaN stops the steps
        point: Interior | FewServers
        if FewServers.applies(units):
            point = FewServers(units, utilities, limits)
        else:
            point = Interior(units.demands, units.usable, utilities, limits, units.limit_use, units.floors)
        for k in range(STEPS):
            tell(f"prices, step {k + 1}")
            # any prices prove that lower bounds do not fit; without the test prices grow without end
            if _impossible(units, point.prices):
                infeasible.explain(units.program)
                break
            if point.done(DONE, EACH) or settings.clock.late or not point.step():
                break
    status = "time limit reached" if settings.clock.late else "solved"
    return _proposal(units, point.parts, point.prices * unit, status, begun)


def _impossible(units: RowUnits, prices: Float) -> bool:
    """Whether a lower bound exceeds the user's reach, or all cost more than the capacities (Proposition 5.16, 3)."""
    floors = units.floors
    if not floors.any():
        return False
    if (floors > units.reach * (1.0 + CLEAR)).any():
        return True
    return float(floors @ units.demands.cheapest(prices)) > (1.0 + CLEAR) * float((units.usable * prices).sum())


def _proposal(units: RowUnits, parts: Float, prices: Float, status: str, begun: float) -> Proposal:
    """Tasks from parts of level, with prices as evidence."""
    curved = units.program.term.is_curved
    with np.errstate(all="ignore"):
        tasks = units.fitted(np.where(units.eligible, parts * units.per_level, 0.0))
        dual = Dual(units.natural_prices(prices), unit=units.unit if curved and isinstance(units, LevelUnits) else 1.0)
    return Proposal(
        "prices",
        tasks,
        Prices(units.program, dual),
        attempt=Try("prices", status, time.perf_counter() - begun),
    )
