"""Prices on many servers, from the few of them that each user may use in the end (as in column generation).

An optimum of n users and S server rows of m resources uses about ``n + S m`` of the ``n S`` pairs, those on which a
user's cost ``kappa_js = sum_i G_jsi p_si`` is the least, v_j. `FewServers` takes the steps of `Interior` on ``CHOSEN``
servers of each user, those of the least costs at first prices, and from rough prices (``NEAR``) on those at these. A
step then costs about ``n (CHOSEN m)^2 + (S m)^3 / 3`` operations in place of ``n (S m)^2``. Where another server costs
less than all chosen ones, by more than ``OFF`` at rough prices or by what counts in the gap at the end, steps start
again on twice as many, and on all from ``MOST`` on. So the answer is that of all servers, and it is proved like that.

First prices are those of a smoothed market: a user spreads its level over servers in proportion to ``kappa^-16``, and
prices follow loads to the power of 1 / 16 until both agree, for a sample of users. Servers whose costs differ by less
than that resolves are taken in an order that differs by user (``SPREAD``): else users of equal costs would all take the
same, and leave others without any user.

With rates between buyers and goods this takes .5, .4 and .2 of the CPU time of all servers, for 1,000 buyers of 200
goods, 2,000 of 300, and 10,000 of 1,000; up to three times as long where rates are few whole numbers and servers tie.

Rounding decides which servers are chosen where costs tie, and no more: prices and gap are of all.
"""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Float, Indices
from fairopt.solve.cluster.interior_point import Interior
from fairopt.solve.cluster.utilities import Utilities
from fairopt.solve.form.demands_at_prices import Demands, OnChosen, by_pair
from fairopt.solve.form.units_on_servers import RowUnits

CHOSEN, MOST = 16, 128  # servers of each user at first, and from where on all are taken: 16, 32, 64, all
# Servers, and operations of a step on all, from which this pays: at 500 users and 150 servers it took 1.3 times as
# long, at 1,000 and 200 half as long.
LEAST_SERVERS, LEAST_WORK = 128, 3e7
NEAR, OFF = 1e-3, 1e-2  # relative products at which other servers are looked at first, and what they may cost less then
# Where others cost less for more users than this, servers tie and all are taken: with rates from 1 to 3, steps on 32
# and 64 servers of each user did not end either.
FEW_SHORT = 0.1
MOST_STEPS = 60  # of one choice; 10 to 25 are usual, 46 with weights over three decades
SPREAD = 3e-2  # of costs: with 1e-2 all of 4,000 users with rates from 1 to 5 left some of 400 servers out
SAMPLE, STEPS, DOUBLINGS = 2000, 10, 4  # of the smoothed market: users, steps, and the logarithm of its power


class FewServers:
    """A point as `Interior`'s, whose steps are on few servers of each user."""

    def __init__(self, units: RowUnits, utilities: Utilities, limits: Float) -> None:
        self.units, self.utilities, self.limits = units, utilities, limits
        self.servers: Indices | None = None
        self.point: Interior
        self.rough, self.steps = True, 0
        self._choose(CHOSEN, first_prices(units, utilities, len(limits) == 1))

    @staticmethod
    def applies(units: RowUnits) -> bool:
        """Whether users differ on servers, which are many more than are chosen, and are more than prices.

        Without lower bounds, which may fit on all servers only, and without limits that depend on servers.
        """
        (n, servers), prices = units.eligible.shape, units.usable.size
        if servers < LEAST_SERVERS or n < 2 * prices or n * prices**2 < LEAST_WORK:
            return False
        if units.limit_use is not None or units.floors.any():
            return False
        return units.per_level.shape[1] > 1 or units.program.instance.demands.ndim == 3

    @property
    def prices(self) -> Float:
        """Prices of all server rows, (n_resources, n_servers)."""
        return self.point.prices

    @property
    def parts(self) -> Float:
        """Levels by user and server."""
        if self.servers is None:
            return self.point.parts
        out = by_pair(*self.units.eligible.shape)
        out[:] = 0.0
        np.put_along_axis(out, self.servers, self.point.parts, axis=1)
        return out

    def done(self, tolerance: float, each: float) -> bool:
        """As in `Interior`, on all servers: goes on with others at rough prices, and where these cost less."""
        point, servers = self.point, self.servers
        ended = point.done(tolerance, each)
        if servers is None or not (ended or (self.rough and point.done(NEAR, np.inf))):
            return ended
        chosen, levels, count = point.cheapest, point.user_levels, servers.shape[1]
        less = chosen - self.units.demands.cheapest(point.prices)
        short = less > OFF * chosen
        if self.rough and not short.any():
            self.rough = False
            used = np.where(point.parts * count > levels[:, None], servers, -1)
            self.servers = nearest(self.units.demands, point.prices, count, used, NEAR)
            point.move_to(OnChosen(self.units.demands, self.servers))
            return False
        if float(levels @ less) <= tolerance * float(levels @ chosen):
            return ended
        self._choose(2 * count if short.mean() <= FEW_SHORT else MOST, point.prices)
        return False

    def step(self) -> float:
        """As in `Interior`; where there is none on few servers, or steps do not end, on all."""
        self.steps += 1
        length = self.point.step() if self.servers is None or self.steps <= MOST_STEPS else 0.0
        if length or self.servers is None:
            return length
        self._choose(MOST, self.prices)
        return self.point.step()

    def _choose(self, count: int, prices: Float) -> None:
        """Start on so many servers of each user, at prices; on all servers at equal prices."""
        units, self.rough, self.steps = self.units, True, 0
        if count < min(MOST, units.eligible.shape[1]):
            self.servers = nearest(units.demands, prices, count, self.servers, SPREAD)
            demands = OnChosen(units.demands, self.servers)
            self.point = Interior(demands, units.usable, self.utilities, self.limits, prices=prices)
        else:
            self.servers = None
            self.point = Interior(units.demands, units.usable, self.utilities, self.limits)


def first_prices(units: RowUnits, utilities: Utilities, together: bool) -> Float:
    """Relative prices of the smoothed market."""
    demands, usable = units.demands, units.usable
    some = slice(None, None, max(demands.n_users // SAMPLE, 1))
    costs = demands.costs(np.ones_like(usable), some)
    # at first typical users find all servers alike
    prices = np.ones_like(usable) * (costs.min(axis=1)[:, None] / costs).mean(axis=0)
    every = np.ones(demands.n_users)
    for _ in range(STEPS):
        costs = demands.costs(prices, some)
        least = costs.min(axis=1)
        parts = least[:, None] / costs
        for _ in range(DOUBLINGS):
            parts *= parts
        every[some] = least
        levels = np.ones(len(least)) if together else utilities.levels_at(every, np.ones(len(every)))[some]
        parts *= (levels / parts.sum(axis=1))[:, None]
        loads, worth = demands.loads(parts, some) / usable, prices * usable
        loads *= worth.sum() / (worth * loads).sum()
        prices = prices * np.maximum(loads, 1e-100) ** (0.5**DOUBLINGS)
    return prices


def nearest(demands: Demands, prices: Float, count: int, held: Indices | None, spread: float) -> Indices:
    """The servers of least costs of each user, with those ``held`` (-1 for none): (n_users, count), in order."""
    out = np.empty((demands.n_users, count), dtype=np.intp)
    server = np.arange(demands.n_servers) * 0.6180339887498949  # multiples of irrationals, whose fractions are even
    for users in demands.chunks():
        costs = demands.costs(prices, users)
        by_user = np.arange(demands.n_users)[users, None] * 0.7548776662466927
        costs *= 1.0 + spread * ((server + by_user) % 1.0)
        if held is not None:
            user, column = np.nonzero(held[users] >= 0)
            costs[user, held[users][user, column]] = -1.0
        out[users] = np.sort(np.argpartition(costs, count, axis=1)[:, :count], axis=1)
    return out
