"""Prices on many servers, from the few of them that each user may use in the end (as in column generation).

An optimum of n users and S server rows of m resources uses about ``n + S m`` of the ``n S`` pairs, those on which a
user's cost ``kappa_js = sum_i G_jsi p_si`` is the least, v_j. `FewServers` takes the steps of `Interior` on ``CHOSEN``
servers of each user, those of the least costs at first prices. A step then costs about ``n CHOSEN^2 + (S m)^3 / 3``
operations in place of ``n (S m)^2``. Where another server costs less than all chosen ones, as many again are added:
near the end of the steps if it costs less by more than ``OFF`` of v_j, and at the end if that counts in the gap. After
``ROUNDS`` all servers are taken. So the answer is that of all servers, and it is proved like that.

First prices are those of a smoothed market: a user spreads its level over servers in proportion to ``kappa^-16``, and
prices follow loads to the power of 1 / 16 until both agree, for a sample of users. Servers whose costs differ by less
than that resolves are taken in an order that differs by user (``SPREAD``): else users of equal costs would all take the
same, and leave others without any user.

Rounding decides which servers are chosen where costs tie, and no more: prices and gap are of all.
"""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Float, Indices
from fairopt.solve.cluster.interior_point import Interior
from fairopt.solve.cluster.utilities import Utilities
from fairopt.solve.form.demands_at_prices import Demands, OnChosen, by_pair
from fairopt.solve.form.units_on_servers import RowUnits

CHOSEN, ROUNDS = 16, 3  # servers of each user at first, twice as many in each further round: 16, 32 and 64
NEAR, OFF = 1e-3, 1e-2  # relative products at which other servers are looked at first, and what they may cost less then
SPREAD = 3e-2  # of costs: of 4,000 users with rates from 1 to 5 on 400 servers, 1e-2 left servers without users twice
SAMPLE, STEPS, DOUBLINGS = 2000, 10, 4  # of the smoothed market: users, steps, and the logarithm of its power


class FewServers:
    """A point as `Interior`'s, whose steps are on few servers of each user."""

    def __init__(self, units: RowUnits, utilities: Utilities, limits: Float) -> None:
        self.units, self.utilities, self.limits = units, utilities, limits
        self.rounds, self.servers = 0, None
        self._choose(first_prices(units, utilities, len(limits) == 1))

    @staticmethod
    def applies(units: RowUnits) -> bool:
        """Whether users have many more servers than are chosen, and are more than prices, without lower bounds."""
        (n, servers), prices = units.eligible.shape, units.usable.size
        return servers >= 8 * CHOSEN and n >= 2 * prices and units.limit_use is None and not units.floors.any()

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
        """As in `Interior`, on all servers; goes on with others if these cost less, and from rough prices."""
        point, ended = self.point, self.point.done(tolerance, each)
        if self.servers is None or not (ended or (self.rough and point.done(NEAR, np.inf))):
            return ended
        chosen, levels = point.cheapest, point.user_levels
        less = chosen - self.units.demands.cheapest(point.prices)
        if (less > OFF * chosen).any():
            self._choose(point.prices)
        elif self.rough:
            self.rough = False
            count = self.servers.shape[1]
            used = np.where(point.parts * count > levels[:, None], self.servers, -1)
            self.servers = nearest(self.units.demands, point.prices, count, used, NEAR)
            point.move_to(OnChosen(self.units.demands, self.servers))
        elif float(levels @ less) <= tolerance * float(levels @ chosen):
            return True
        else:
            self._choose(point.prices)
        return False

    def step(self) -> float:
        """As in `Interior`; where there is none on few servers, on more."""
        length = self.point.step()
        if not length and self.servers is not None:
            self._choose(self.prices)
            return self.step()
        return length

    def _choose(self, prices: Float) -> None:
        """Start at prices, on more servers of each user."""
        units, count = self.units, CHOSEN << self.rounds
        demands, self.rough = units.demands, True
        if self.rounds < ROUNDS:
            self.servers = nearest(demands, prices, count, self.servers, SPREAD)
            demands = OnChosen(demands, self.servers)
        else:
            self.servers = None
        self.rounds += 1
        self.point = Interior(demands, units.usable, self.utilities, self.limits, prices=prices)


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
        user = np.arange(demands.n_users)[users, None] * 0.7548776662466927
        costs *= 1.0 + spread * ((server + user) % 1.0)
        if held is not None:
            user, column = np.nonzero(held[users] >= 0)
            costs[user, held[users][user, column]] = -1.0
        out[users] = np.sort(np.argpartition(costs, count, axis=1)[:, :count], axis=1)
    return out
