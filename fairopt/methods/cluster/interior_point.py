"""Prices per server and resource, by Newton's method on a softened minimum over servers.

Everything is in units of level: user j at level ``z_j`` (share per weight) holds ``z_js`` of it on server s, each unit
of which takes ``g_jsi`` of resource i there and so costs ``q_js = sum_i g_jsi p_si``. At the optimum a user buys only
where that is cheapest. The minimum is softened by a logarithm: ``v_j < min_s q_js`` is the cost at which
``sum_s mu / (q_js - v_j) = z_j``, and ``mu / (q_js - v_j)`` is what user j holds on server s. As mu falls to zero,
``v_j`` rises to the minimum, and what is held on more expensive servers vanishes.

Where a unit of level takes different parts of a user's own limit on different servers, as rates under a budget of time
do, each user has a multiplier beside ``v_j``: the rent of its limit, found in the same steps.

All conditions are solved together by Newton steps with Mehrotra's corrector (a primal-dual interior point; Mehrotra
1992). Pairs are eliminated one by one, then users or prices, whichever are more (`PriceSystem`), so that a step costs a
few passes over the users and one product of their stacked loads. Ties need no special treatment, and the tasks come
with the prices.

A power mean, ``(sum_s q_js^-r)^(-1/r)``, is a soft minimum as well. Newton's method on it was measured at 2.8 s where
this one takes 0.2 s (20,000 users on 27 servers), and it leaves no feasible allocation where many servers tie. A start
from known prices was measured to save one step of seven, so there is none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairopt.formulation.demands_at_prices import Demands, by_pair, cheapest_of
from fairopt.methods.arrays import Float, Int
from fairopt.methods.cluster.floors import NARROW, Floors, Lift
from fairopt.methods.cluster.worths import Worths
from fairopt.runtime.lazy import linalg

BACK = 0.995  # part of the way to the nearest bound that a step goes
SMALLEST_CENTRE = 1e-4  # a step aims at products no smaller than this part of the present ones
# A group whose logarithms of level and worth disagree by more than FAR is brought nearer after each step, by no more
# than a factor of SETTLE. Without, 4% of small random instances did not converge at alpha = 2 and 5% at alpha = 5; with
# it all did. Doing so at smaller disagreements disturbed the last steps.
FAR, SETTLE = 1.0, 3.0
JITTER = 1e-14  # of the diagonal, after scaling: a matrix that is singular but for rounding can still be factored


class Interior:
    """A point strictly inside all bounds, and Newton steps towards the optimum of a sum over groups of users.

    Users come in groups that share one level: each alone for alpha-fairness and other sums; all together for max-min,
    where maximising the logarithm of the common level is the same as maximising the level.

    ``demands`` are those of a unit of level. ``usable`` (n_resources, n_servers) is the fraction of each capacity that
    may be used, positive. ``worths`` are of groups, what one more unit of their level is worth, and ``limits``
    (n_groups,) their highest levels, positive or infinite. Where limits are not on levels, ``takes`` (n_users,
    n_servers) is the part of the user's limit that a unit of level takes, 0 for users without one; ``limits`` are then
    levels that cannot be exceeded. ``least`` (n_users,) are users' lowest levels, where some have one above 0 and
    limits are on levels; see `Floors`.

    ``prices`` (per whole capacity) and ``slack`` (what is left of each) are of shape (n_resources, n_servers); the
    levels that users hold by server, ``parts``, and the costs of servers beyond the soft minimum, ``margins``, of shape
    (n_users, n_servers); the soft minima over servers, ``softest``, of shape (n_users,); ``levels``, the ``room`` below
    their limits and the ``rents``, which are the prices of these limits, of shape (n_groups,); with ``takes`` rooms are
    parts of limits, rents enter margins, and both are of shape (n_users,).

    Writing p and σ for prices and slack, z and y for parts and margins, τ and ν for room and rents, a point on the
    central path has ``p σ = z y = τ ν = mu`` and, for each group, what one more unit of its level is worth is ``h = ν +
    sum of the soft minima``. Logarithms of both treat levels and prices over many decades alike.
    """

    def __init__(
        self,
        demands: Demands,
        usable: Float,
        worths: Worths,
        limits: Float,
        takes: Float | None = None,
        least: Float | None = None,
    ) -> None:
        self.demands, self.usable, self.worths = demands, usable, worths
        self.together = len(limits) == 1 and demands.n_users > 1
        self.floors = None if least is None or not least.any() else Floors(least, self.together)
        if self.floors is not None and not self.together:
            limits = np.maximum(limits, self.floors.least * (1.0 + NARROW))
        self.takes, self.limits = takes, limits
        self.limited = np.isfinite(limits) if takes is None else takes.max(axis=1) > 0
        self.extra: Float | float = 0.0
        self._start(self._first())

    def _first(self) -> Float:
        """Equal prices, scaled so that users spend what capacities earn, half of the true minima, and levels wanted."""
        prices = np.ones_like(self.usable)
        worth, budget = self._by_group(0.5 * self.demands.cheapest(prices)), float((self.usable * prices).sum())
        least: Float | float = 0.0
        if self.floors is not None:
            if self.together:
                return self._first_above_floors(prices, budget)
            least = self.floors.least
        budget = min(budget, 0.5 * float((self.limits + least) @ worth))
        self.prices = prices * self.worths.scale(worth, self.limits, budget, least)
        self.softest = 0.5 * self.demands.cheapest(self.prices)
        worth = self._by_group(self.softest)
        return self.worths.wanted(worth, np.ones(len(worth)))

    def _first_above_floors(self, prices: Float, budget: float) -> Float:
        """The same where users share a level, but for those whose lower bounds are above it."""
        assert self.floors is not None
        softest = 0.5 * self.demands.cheapest(prices)
        level, cost = self.floors.common(softest, budget)
        self.prices, self.softest = prices / (level * cost), softest / (level * cost)
        return np.array([level])

    def _start(self, wanted: Float) -> None:
        """Start near the levels wanted at the first prices."""
        demands, takes = self.demands, self.takes
        shape = (demands.n_users, demands.n_servers)
        bounded = np.isfinite(self.limits)
        worth = self._by_group(self.softest)
        if self.floors is not None and self.together:
            worth = 1.0 / wanted
        centre = float((np.minimum(wanted, self.limits) * worth).sum()) / (shape[0] * shape[1])
        # where a limit holds a group back, its rent is far above the other numbers, and the room below it far below
        at_limit = np.where(bounded, self.limits, 1.0)
        rents = np.maximum(self.worths.at(at_limit) - self.extra - worth, 0.0)
        room = np.clip(centre / np.maximum(rents, 1e-300), 1e-30 * at_limit, 0.5 * at_limit)
        self.levels = np.minimum(wanted, np.where(bounded, at_limit - room, np.inf))
        if takes is None:
            self.room = np.where(wanted >= at_limit - room, room, self.limits - self.levels)
            self.room[~self.limited] = 1.0
            beside = worth + self.extra  # where levels are worth less than nothing, rents leave it so
            most = np.where(beside < 0, np.maximum(rents, -0.5 * beside), np.inf)
            self.rents = np.where(self.limited, np.minimum(np.maximum(centre / self.room, rents), most), 0.0)
        else:
            self.rents = np.where(self.limited, centre, 0.0)
            if not self.together:  # at limits levels are worth more than they cost, and rents make up for it
                self.softest = np.maximum(self.softest, self.worths.at(self.levels))
        if self.floors is not None:
            self._start_above_floors(centre)
        self.margins, self.parts, self._ratios, self._dmargins, self._dparts = (by_pair(*shape) for _ in range(5))
        by_user = self.held
        for users in demands.chunks():
            self.margins[users] = demands.costs(self.prices, users) - self.softest[users, None]
            if takes is not None:
                part = takes[users]
                short = np.divide(-self.margins[users], part, out=np.zeros_like(part), where=part > 0)
                self.rents[users] += 2.0 * np.maximum(short.max(axis=1), 0.0)
                self.margins[users] += part * self.rents[users, None]
            parts = np.divide(1.0, self.margins[users], out=self.parts[users])
            parts *= (by_user[users] / parts.sum(axis=1))[:, None]
        if takes is not None:
            self.room = np.where(self.limited, np.maximum(1.0 - self._taken(), 0.5), 1.0)
        self.used = demands.all_loads(self.parts)
        self.slack = np.maximum(self.usable - self.used, 0.5 * self.usable)

    def _start_above_floors(self, centre: float) -> None:
        """Start above lower bounds, with refunds and rents that make up for the worth of levels there."""
        floors, cost = self.floors, self.softest
        assert floors is not None
        if self.together:
            floors.start_together(float(self.levels[0]), cost, centre)
            return
        levels = floors.start_alone(self.levels, self.limits, cost, centre)
        moved = levels > self.levels
        self.room = np.where(moved & self.limited, self.limits - levels, self.room)
        self.levels = levels
        lacks = self.worths.at(levels) - cost
        least = np.minimum(centre / np.where(lacks > 0, floors.above[0], self.room), cost)
        rents = np.where(self.limited, np.where(lacks > 0, least + lacks, least), 0.0)
        self.rents = np.where(floors.at, rents, self.rents)
        floors.refunds[0] = np.where(floors.at, np.maximum(self.rents - lacks, 0.0), 0.0)

    def _taken(self) -> Float:
        """The part of each user's own limit that its parts take."""
        assert self.takes is not None
        return np.einsum("js,js->j", self.parts, self.takes)

    def _by_group(self, by_user: Float) -> Float:
        return by_user.sum(keepdims=True) if self.together else by_user

    def _by_user(self, by_group: Float) -> Float:
        return np.broadcast_to(by_group, (self.demands.n_users,)) if self.together else by_group

    @property
    def held(self) -> Float:
        """The level of each user."""
        if self.floors is not None and self.together:
            return self.floors.held(self.levels)
        return self._by_user(self.levels)

    @property
    def worth(self) -> Float:
        """The marginal worth of each group's level: soft minima, rent, and what is paid besides (``extra``), less
        refunds.
        """
        softest = self.softest if self.floors is None else self.floors.worth(self.softest)
        worth = self._by_group(softest) + self.extra
        return worth + self.rents if self.takes is None else worth

    @property
    def disagreement(self) -> Float:
        """The logarithm of what a level is worth to each group at its level, less that of `worth`."""
        return self.worths.logs(self.levels) - np.log(self.worth)

    @property
    def cheapest(self) -> Float:
        """The true minimum over servers of each user's cost of a unit of level."""
        out: Float = self.softest + self.margins.min(axis=1)
        return out

    @property
    def charged(self) -> Float:
        """What each user pays for a unit of level."""
        return self.cheapest

    @property
    def complementarity(self) -> float:
        """The sum of all products that are zero at the optimum."""
        pairs = float(np.einsum("js,js->", self.parts, self.margins))
        if self.floors is not None:
            pairs += self.floors.products
        return pairs + float((self.prices * self.slack).sum()) + float((self.room * self.rents)[self.limited].sum())

    def done(self, tolerance: float, each: float) -> bool:
        """Whether products are small beside what users pay, and no capacity is exceeded by more than the tolerance.

        The tolerance is for all products together; where limits make prices vanish, they are compared with a thousandth
        of the worth of all levels. ``each`` is for what a user below its limit pays for capacities that are not full,
        with its products: at large alpha the rich hardly count in the sum. Users who share one level are not tested.
        """
        paid = np.maximum(self.held, self.worths.least) * self.charged
        excess, unit = float((self.used / self.usable).max()) - 1.0, float(self.levels @ np.abs(self.worth))
        if self.takes is None:
            spent = max(float(paid.sum()), 1e-3 * unit)
            unit = spent if self.floors is None else min(spent, unit)  # lower bounds may cost more than all is worth
        else:
            paid = np.maximum(paid - self.rents * (1.0 - self.room), 0.0)
            excess = max(excess, float(self._taken().max()) - 1.0)
        if not (self.complementarity <= tolerance * unit and excess <= tolerance):
            return False
        if self.together:
            return True
        below = ~self.limited | (self.room > each * (self.levels if self.takes is None else 1.0))
        spare = self.prices * (self.slack / self.usable)
        for users in self.demands.chunks():
            over = self.margins[users] + self.demands.price(spare, users)
            wasted = np.einsum("js,js->j", self.parts[users], np.where(self.demands.eligible[users], over, 0.0))
            if (wasted > each * paid[users])[below[users]].any():
                return False
        return True

    def step(self) -> float:
        """Move by one Newton step with a corrector: how far, from 0 to 1; 0 where no step can be computed."""
        self._pull = self.worths.pull(self.levels, self.worth)
        response, own, beside = self._pull.stiffness, None, None
        if self.takes is None:
            response = response + self.rents / self.room
            if self.floors is not None and self.together:
                *beside, falls = self.floors.follows
                response = response + falls
            elif self.floors is not None:
                response = response + self.floors.slopes[0]
        else:
            own = self.takes, np.where(self.limited, self.room / np.maximum(self.rents, 1e-300), 1.0)
        response = 1.0 / response
        for users in self.demands.chunks():
            np.divide(self.parts[users], self.margins[users], out=self._ratios[users])
        kind = ByUsers if self.demands.n_users < self.prices.size else ByPrices
        try:
            system = kind(self.demands, self._ratios, self.slack / self.prices, response, self.together, own, beside)
        except (np.linalg.LinAlgError, ValueError):  # NaN or infinite, or not positive definite
            return 0.0
        move = self._corrected(system)
        if move is None:
            return 0.0
        shrink = self._shrink(move)
        for users in self.demands.chunks():
            shrink = max(shrink, -float((self._dparts[users] / self.parts[users]).min()))
            shrink = max(shrink, -float((self._dmargins[users] / self.margins[users]).min()))
        if not np.isfinite(shrink):
            return 0.0
        length = min(1.0, BACK / max(shrink, 1e-300))
        self._go(length, move)
        return length

    def _solve(
        self,
        system: PriceSystem,
        sums: Float,
        taken: Float,
        pushed: Float,
        target: Float,
        aim: Float,
        raised: Float | None = None,
    ) -> Move:
        """Changes for given pushes; writes those of margins to ``_dmargins``.

        ``sums`` (n_users,) are the pushes on each user's parts, added up, and ``taken`` the same in parts of limits;
        ``pushed`` (n_resources, n_servers) their loads with the pushes on slack, ``target`` the latter alone; ``aim``
        the changes of the products of room and rents, and ``raised`` those of `Floors`.
        """
        pull = self._pull.excess
        if self.takes is None:
            pull = pull - aim / self.room
        else:  # without a limit rents are zero, and so is what moves them
            rents = np.where(self.limited, self.rents, 1.0)
            missing = np.where(self.limited, 1.0 - self._taken() - self.room, 0.0)
            taken = missing - taken - aim / rents
        push, floors = np.zeros(len(sums)), self.floors
        if floors is not None and raised is not None:
            push = floors.push(raised)
            if self.together:
                push += np.where(floors.at, floors.refunds.sum(axis=0) - self.softest, 0.0)
                pull = pull - float((raised[1] / floors.above[1] - system.joins * push)[floors.at].sum())
            else:
                pull = pull + push
        short = self.held - self.parts.sum(axis=1) + system.give * push if self.together else system.response * pull
        common = float(pull[0]) if self.together else 0.0
        prices, softest, level, more = system.solve(short - sums, taken, pushed, common, self._dmargins)
        # not the sum over servers of the parts' changes: far below its worth at a limit, that is all rounding
        levels = np.array([level]) if self.together else system.response * (pull - softest)
        slack = target - self.slack / self.prices * prices
        if self.takes is None:
            more, room = (aim + self.rents * levels) / self.room * self.limited, -levels
        else:
            room = (aim - self.room * more) / rents * self.limited
        lift = None
        if floors is not None and raised is not None:
            rises = levels[None]
            if self.together:
                alone = system.give * (push - softest)
                rises = np.stack([alone + system.joins * level, alone - system.give * floors.slopes[0] * level])
            lift = floors.lift(raised, rises)
        return Move(prices, slack, softest, levels, more, room, lift=lift)

    def _corrected(self, system: PriceSystem) -> Move | None:
        """The direction of the step, or None if there is none; writes changes by pair to ``_dparts``, ``_dmargins``."""
        slack, limited, takes = self.slack, self.limited, self.takes
        totals = self.parts.sum(axis=1)
        nothing = np.zeros_like(totals)
        # products shrink together, each in proportion to what its user pays or its capacity earns
        by_user = np.ones_like(totals) if self.together else np.maximum(self.levels, self.worths.little) * self.charged
        by_user /= by_user.mean()
        by_group = limited * (1.0 if self.together and takes is None else by_user)
        by_row = np.ones_like(slack) if self.together else self.usable * self.prices
        by_row /= by_row.mean()
        n_products = float(by_user.sum()) * self.parts.shape[1] + float(by_group.sum()) + float(by_row.sum())
        floors = self.floors
        if floors is not None:
            n_products += float(by_user[floors.at].sum()) * len(floors.above)
        products = self.complementarity
        missing = self.usable - self.used - slack

        # first towards products of zero, to see how long a step would be
        own = nothing if takes is None else -self._taken()
        raised = None if floors is None else floors.aims(None, 0.0)
        look = self._solve(system, -totals, own, -self.used - missing - slack, -slack, -self.room * self.rents, raised)
        shrink = second = 0.0
        sums, inverse_sums = np.empty_like(totals), np.empty_like(totals)
        taken, inverse_taken = (nothing, nothing) if takes is None else (np.empty_like(totals), np.empty_like(totals))
        loads, inverse_loads = np.zeros_like(slack), np.zeros_like(slack)
        for users in self.demands.chunks():
            parts, margins, turns = self.parts[users], self.margins[users], self._dparts[users]
            dmargins = self._dmargins[users]
            np.divide(dmargins, margins, out=turns)
            shrink = max(shrink, -float(turns.min()), 1.0 + float(turns.max()))
            turned = parts * turns
            second -= float(np.einsum("js,js->", turned, dmargins)) + float(np.einsum("js,js->", turned, margins))
            turns += 1.0
            turns *= turned  # minus the product of both changes, per margin
            turns -= parts
            sums[users] = turns.sum(axis=1)
            if takes is not None:
                taken[users] = np.einsum("js,js->j", turns, takes[users])
            loads += self.demands.loads(turns, users)
            np.divide(by_user[users, None], margins, out=turned)
            inverse_sums[users] = turned.sum(axis=1)
            if takes is not None:
                inverse_taken[users] = np.einsum("js,js->j", turned, takes[users])
            inverse_loads += self.demands.loads(turned, users)
        shrink = max(shrink, self._shrink(look))
        if not 0 < shrink < np.inf:
            return None
        length = min(1.0, 1.0 / shrink)
        second += float((look.prices * look.slack).sum()) + float(look.room @ look.rents)
        if look.lift is not None:
            second += float((look.lift.above * look.lift.refunds).sum())
        left = max((1.0 - length) * products + length**2 * second, 0.0) / products
        centre = max(min(left, 1.0) ** 3, SMALLEST_CENTRE) * products / n_products

        # then to products of that size, with the curvature that the first solution shows
        target = (centre * by_row - look.slack * look.prices) / self.prices - slack
        aim = (centre * by_group - self.room * self.rents - look.room * look.rents) * limited
        sums += centre * inverse_sums
        loads += centre * inverse_loads - missing + target
        raised = None if floors is None else floors.aims(look.lift, centre * by_user)
        move = self._solve(system, sums, taken + centre * inverse_taken, loads, target, aim, raised)
        for users in self.demands.chunks():
            self._dparts[users] += (centre * by_user[users, None]) / self.margins[users]
            self._dparts[users] -= self._ratios[users] * self._dmargins[users]
        return move

    def _shrink(self, move: Move) -> float:
        """The largest relative fall of a number that must stay positive, but for those by pair."""
        at, softest, first = self.limited, move.softest, 0.0
        if self.floors is not None and move.lift is not None:
            softest, first = self.floors.worth(softest, move.lift.refunds), self.floors.shrink(move.lift)
        falls = (
            -move.prices / self.prices,
            -move.slack / self.slack,
            -move.levels / self.levels,
            -(self._by_group(softest) + move.extra + (move.rents if self.takes is None else 0.0)) / self.worth,
            -move.rents[at] / self.rents[at],
            -move.room[at] / self.room[at],
        )
        return max(first, *(float(fall.max(initial=0.0)) for fall in falls))

    def _go(self, length: float, move: Move) -> None:
        for users in self.demands.chunks():
            self.parts[users] += length * self._dparts[users]
            self.margins[users] += length * self._dmargins[users]
        self.prices = self.prices + length * move.prices
        self.slack = self.slack + length * move.slack
        self.softest = self.softest + length * move.softest
        self.rents = self.rents + length * move.rents
        self.extra = self.extra + length * move.extra
        self.room = np.where(self.limited, self.room + length * move.room, 1.0)
        self.levels = self.levels + length * move.levels if self.together else self.parts.sum(axis=1)
        if self.floors is not None and move.lift is not None:
            self.floors.go(length, move.lift)
        if not self.together:
            self._settle()
        self.used = self.demands.all_loads(self.parts)

    def _settle(self) -> None:
        """Bring levels and worths that have drifted apart nearer, where their relation is far from linear."""
        far = np.abs(self.disagreement) > FAR
        if not far.any():
            return
        floors, refunds = self.floors, np.zeros_like(self.levels) if self.floors is None else self.floors.refunds[0]
        elasticity = self.worths.elasticity(self.levels)
        far &= elasticity != 1  # there logarithms are linear
        steep = far & (elasticity < 1) & (self.softest > 0)
        if steep.any():  # the worth hardly depends on the level
            aim = self.worths.at(self.levels) - self.rents - self.extra + refunds
            top = self.softest + (1.0 - 1.0 / SETTLE) * self.margins.min(axis=1)
            softest = np.where(steep, np.clip(aim, self.softest / SETTLE, top), self.softest)
            self.margins -= (softest - self.softest)[:, None]
            self.softest = softest
        if self.takes is None:
            beside = self.softest - refunds
            aim = self.worths.at(self.levels) - beside - self.extra
            rents = np.clip(aim, self.rents / SETTLE, self.rents * SETTLE)
            self.rents = np.where(far & self.limited & (beside + rents > 0), rents, self.rents)
        if floors is not None:
            beside = self.softest + self.rents
            aim = np.clip(beside - self.worths.at(self.levels), refunds / SETTLE, refunds * SETTLE)
            floors.refunds[0] = np.where(far & floors.at & (beside > aim), aim, refunds)
        taken = self.levels if self.takes is None else self._taken()
        levels = self.worths.wanted(self.worth, self.levels, self.levels / SETTLE, self.levels * SETTLE)
        top = np.where(self.limited, (1.0 + (1.0 - 1.0 / SETTLE) * self.room / taken) * self.levels, np.inf)
        levels = np.where(far, np.minimum(levels, top), self.levels)
        if floors is not None:
            bottom = np.where(floors.at, self.levels - (1.0 - 1.0 / SETTLE) * floors.above[0], 0.0)
            levels = np.maximum(levels, bottom)
            floors.above[0] = np.where(floors.at, floors.above[0] + (levels - self.levels), 1.0)
        self.parts *= (levels / self.levels)[:, None]
        self.room = np.where(self.limited, self.room - taken * (levels / self.levels - 1.0), 1.0)
        self.levels = levels


class Move(NamedTuple):
    """Changes of a point but for those by pair."""

    prices: Float
    slack: Float
    softest: Float
    levels: Float
    rents: Float
    room: Float
    extra: Float | float = 0.0
    lift: Lift | None = None


class PriceSystem(ABC):
    """The linear system of a step, factored: changes of prices and soft minima.

    With ``θ = parts / margins`` by pair and ``V_j`` the stack over servers and resources of ``θ_js g_jsi``, changes p
    of prices and v of soft minima obey

        B p - sum_j V_j v_j = pushed,    B = block-diagonal in servers: sum_j θ_js g_jsi g_jsk, plus slack / prices
        v_j / a_j - V_j . p = lack_j + level,    a_j = 1 / (response_j + sum_s θ_js)

    where users who share one level have no response of their own, and ``sum_j v_j + level / response = pull``. With a
    lower bound of its own such a user has one, and follows the level by a part k_j: ``k_j level`` above and ``sum_j k_j
    v_j`` (``beside``: the responses, and k). Where prices are fewer, users are eliminated (`ByPrices`: a system in S m
    prices); where users are fewer, prices are, server by server, as each server's block is small (`ByUsers`: a system
    in n users). Both are symmetric and positive.

    Of 3,300 solves of random instances (1 to 60 users, 2 to 150 servers, demands and capacities over up to seven
    decades, zeros, ties, weights, limits, counts) 7 were not certified by users and 8 by prices, 7 of them the same.
    With as many users as prices both take the same time.

    Limits of users' own, of which a unit of level takes ``t_js``, add a second number by user, the fall r of its rent,
    with ``W_j`` the stack of ``θ_js t_js g_jsi`` and ``b_j = room_j / rent_j + sum_s θ_js t_js^2``:

        B p - sum_j (V_j v_j + W_j r_j) = pushed,    c_j = sum_s θ_js t_js
        v_j / a_j + c_j r_j - V_j . p = lack_j + level,    c_j v_j + b_j r_j - W_j . p = lack of the limit.

    ``ratios`` (n_users, n_servers) are parts over margins, ``per_price`` (n_resources, n_servers) is slack over prices,
    ``response`` (n_groups,) is how much levels fall as soft minima rise, ``own`` are t and room over rent. Raises
    `numpy.linalg.LinAlgError` or ValueError if a number is NaN or infinite, or the matrix not positive definite.
    """

    def __init__(
        self,
        demands: Demands,
        ratios: Float,
        per_price: Float,
        response: Float,
        together: bool,
        own: tuple[Float, Float] | None = None,
        beside: Sequence[Float] | None = None,
    ) -> None:
        self.demands, self.ratios, self.per_price, self.together = demands, ratios, per_price, together
        self.response, self.own = response, own
        if beside is not None:
            self.give, self.joins = beside
        else:
            self.give, self.joins = np.zeros(demands.n_users) if together else response, np.ones(demands.n_users)
        self._factor(self.give)

    @abstractmethod
    def _factor(self, give: Float) -> None:
        """Factor the matrix; ``give`` (n_users,) is the response of each user's own level."""

    @abstractmethod
    def solve(
        self, lack: Float, own_lack: Float, pushed: Float, pull: float, dmargins: Float
    ) -> tuple[Float, Float, float, Float]:
        """Changes of prices (n_resources, n_servers), soft minima (n_users,), the level that users share, and rents.

        ``lack`` (n_users,) is the shortfall of each user's parts, ``own_lack`` that of its limit, ``pushed``
        (n_resources, n_servers) the push on loads, ``pull`` that on the level that users share, or 0. Changes of
        margins are written to ``dmargins``.
        """


def factored(matrix: Float) -> tuple[tuple[Float, bool], Float]:
    """Cholesky factor of a symmetric matrix scaled to a diagonal of one, and the scale; overwrites the matrix."""
    diagonal = np.arange(len(matrix))
    unit = 1.0 / np.sqrt(matrix[diagonal, diagonal])
    matrix *= unit * unit[:, None]
    matrix[diagonal, diagonal] += JITTER
    return linalg.cho_factor(matrix, lower=True, overwrite_a=True), unit


class ByPrices(PriceSystem):
    """Users eliminated: ``B - sum_j a_j V_j V_j'``, plus ``v v' / A`` for a level that users share.

    There ``v = sum_j a_j V_j`` and ``A = sum_j a_j + 1 / response``.
    """

    def _factor(self, give: Float) -> None:
        demands, (m, s) = self.demands, self.per_price.shape
        self.stiffness = np.empty(demands.n_users)
        blocks = np.zeros((len(demands.upper[0]), s))
        matrix = np.zeros((m * s, m * s))
        self.shared, self.inertia = np.zeros(m * s), 0.0
        if self.own is not None:  # the average of t, and the second pivot
            self.middle, self.pivot = np.empty(demands.n_users), np.empty(demands.n_users)
        for users in demands.chunks():
            ratios = self.ratios[users]
            # theta (1 - a theta) would cancel on a server that holds nearly all of a user
            row, (least, top) = np.arange(len(ratios)), cheapest_of(-ratios)
            most = -least
            ratios[row, top] = 0.0
            others = ratios.sum(axis=1) + give[users]
            ratios[row, top] = most
            a = self.stiffness[users] = 1.0 / (others + most)
            if self.own is None:
                own = ratios * (1.0 - a[:, None] * ratios)
                own[row, top] = most * others * a
                stacked = demands.stacked(ratios, users)
                weights = a
            else:
                own, second = self._beside_limits(users, give[users], row, top)
                stacked = demands.stacked(ratios, users)
                other = demands.stacked(second, users)
                weights = a + self.middle[users] ** 2 / self.pivot[users]
                if self.together:
                    self.shared -= (self.middle[users] / self.pivot[users]) @ other
                other /= np.sqrt(self.pivot[users])[:, None]
                matrix -= other.T @ other
            blocks += demands.curvature(own, users)
            if self.together:
                joins = self.joins[users]
                self.shared += (a * joins) @ stacked
                self.inertia += float(weights @ joins**2)
            stacked *= np.sqrt(a)[:, None]
            matrix -= stacked.T @ stacked
        server = np.arange(s)
        for block, i, k in zip(blocks, *demands.upper, strict=True):  # instead of differences that cancel
            matrix[i * s + server, k * s + server] = matrix[k * s + server, i * s + server] = block
        diagonal = np.arange(m * s)
        matrix[diagonal, diagonal] += self.per_price.ravel()
        if self.together:
            self.inertia += float(1.0 / np.float64(self.response[0]))
            matrix += np.outer(self.shared, self.shared / self.inertia)
        self.factor, self.unit = factored(matrix)

    def _beside_limits(self, users: slice, give: Float, row: Int, top: Int) -> tuple[Float, Float]:
        """Curvature of each server's own, and ``θ (t - average)``, where users have limits of their own.

        With ``D(θ)`` the determinant of a user's two equations the first is ``θ_s D(θ without s) / D(θ)``: no
        difference that cancels, on the two servers that may hold nearly all of a user.
        """
        assert self.own is not None
        takes, ease, ratios = self.own[0][users], self.own[1][users], self.ratios[users]

        def pivots() -> tuple[Float, Float, Float, Float]:
            first = ratios.sum(axis=1) + give
            middle = np.einsum("js,js->j", ratios, takes) / first
            beside = takes - middle[:, None]
            turned = ratios * beside
            return first, middle, turned, np.einsum("js,js->j", turned, beside) + give * middle**2 + ease

        first, middle, second, pivot = pivots()
        self.middle[users], self.pivot[users] = middle, pivot
        own: Float = ratios - ratios**2 / first[:, None] - second**2 / pivot[:, None]
        most = ratios[row, top]
        ratios[row, top] = 0.0
        after = cheapest_of(-ratios)[1]
        for server, held in ((top, most), (after, ratios[row, after])):
            ratios[row, top] = most
            ratios[row, server] = 0.0
            without, _, _, rest = pivots()
            own[row, server] = held * (without / first) * (rest / pivot)
            ratios[row, server] = held
        return own, second

    def solve(
        self, lack: Float, own_lack: Float, pushed: Float, pull: float, dmargins: Float
    ) -> tuple[Float, Float, float, Float]:
        """Prices first; see `PriceSystem.solve`."""
        offset, rents = self._by_user(lack, own_lack)
        right = pushed.copy()
        for users in self.demands.chunks():
            right += self.demands.loads(self.ratios[users] * self._falls(offset, rents, users), users)
        flat, level = right.ravel(), 0.0
        common = pull - float(self.joins @ offset)
        if self.together:
            flat = flat + self.shared * (common / self.inertia)
        flat = self.unit * linalg.cho_solve(self.factor, self.unit * flat, check_finite=False)
        if self.together:
            level = float(common - self.shared @ flat) / self.inertia
        prices, along, across = flat.reshape(pushed.shape), lack + self.joins * level, own_lack.copy()
        for users in self.demands.chunks():
            change = dmargins[users]
            change[:] = self.demands.price(prices, users)
            along[users] += np.einsum("js,js->j", self.ratios[users], change)
            if self.own is not None:
                across[users] += np.einsum("js,js,js->j", self.ratios[users], self.own[0][users], change)
        softest, rents = self._by_user(along, across)
        for users in self.demands.chunks():
            dmargins[users] -= self._falls(softest, rents, users)
        return prices, softest, level, -rents

    def _by_user(self, lack: Float, own_lack: Float) -> tuple[Float, Float]:
        """Each user's two equations solved by themselves: the changes v and r."""
        if self.own is None:
            return self.stiffness * lack, own_lack
        rents = (own_lack - self.middle * lack) / self.pivot
        return self.stiffness * lack - self.middle * rents, rents

    def _falls(self, softest: Float, rents: Float, users: slice) -> Float:
        """How much margins fall by these changes."""
        falls = softest[users, None]
        return falls if self.own is None else falls + self.own[0][users] * rents[users, None]


class ByUsers(PriceSystem):
    """Prices eliminated: ``1 / a - V B^-1 V'``, plus ``response`` everywhere for a level that users share.

    Each server's block is factored, ``B_s = L_s L_s'``, and ``rows`` are ``V L'^-1``.
    """

    def _factor(self, give: Float) -> None:
        demands, (m, s) = self.demands, self.per_price.shape
        blocks = np.zeros((len(demands.upper[0]), s))
        sums = np.empty(demands.n_users)
        for users in demands.chunks():
            blocks += demands.curvature(self.ratios[users], users)
            sums[users] = self.ratios[users].sum(axis=1)
        square = np.zeros((s, m, m))
        for block, i, k in zip(blocks, *demands.upper, strict=True):
            square[:, i, k] = square[:, k, i] = block
        diagonal = np.arange(m)
        square[:, diagonal, diagonal] += self.per_price.T
        unit = 1.0 / np.sqrt(square[:, diagonal, diagonal])
        square *= unit[:, :, None] * unit[:, None, :]
        square[:, diagonal, diagonal] += JITTER
        # (m, m, s): the inverse of L by row and column
        self.inverse = np.moveaxis(np.linalg.inv(np.linalg.cholesky(square)) * unit[:, None, :], 0, 2).copy()
        n = demands.n_users
        self.rows = np.empty((n if self.own is None else 2 * n, m, s))
        for users in demands.chunks():
            for row in range(m):
                np.multiply(self.ratios[users], demands.price(self.inverse[row], users), out=self.rows[:n][users, row])
        every = np.arange(n)
        if self.own is not None:
            takes, ease = self.own
            np.multiply(self.rows[:n], takes[:, None, :], out=self.rows[n:])
        flat = self.rows.reshape(len(self.rows), -1)
        matrix = -(flat @ flat.T)
        matrix[every, every] += sums + give
        if self.own is not None:
            both = np.einsum("js,js->j", self.ratios, takes)
            matrix[every, n + every] += both
            matrix[n + every, every] += both
            matrix[n + every, n + every] += np.einsum("js,js,js->j", self.ratios, takes, takes) + ease
        if self.together:
            matrix[:n, :n] += self.response[0] * np.outer(self.joins, self.joins)
        self.factor, self.unit = factored(matrix)

    def solve(
        self, lack: Float, own_lack: Float, pushed: Float, pull: float, dmargins: Float
    ) -> tuple[Float, Float, float, Float]:
        """Soft minima first; see `PriceSystem.solve`."""
        n, flat = len(lack), self.rows.reshape(len(self.rows), -1)
        white = np.einsum("iks,ks->is", self.inverse, pushed)
        right = (lack if self.own is None else np.concatenate([lack, own_lack])) + flat @ white.ravel()
        if self.together:
            right[:n] += self.response[0] * pull * self.joins
        falls = self.unit * linalg.cho_solve(self.factor, self.unit * right, check_finite=False)
        softest, rents = falls[:n], falls[n:] if self.own is not None else own_lack
        level = float(self.response[0] * (pull - self.joins @ softest)) if self.together else 0.0
        white += (falls @ flat).reshape(white.shape)
        prices = np.einsum("iks,is->ks", self.inverse, white)
        for users in self.demands.chunks():
            dmargins[users] = self.demands.price(prices, users) - softest[users, None]
            if self.own is not None:
                dmargins[users] -= self.own[0][users] * rents[users, None]
        return prices, softest, level, -rents
