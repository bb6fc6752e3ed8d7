"""Ordered weights on several servers, by an interior point in prices, weights of users and multipliers of limits.

With ``G_jsi`` what a unit of level of user j needs of resource i on server s, in parts of a capacity, ``e_js`` the part
of the task limit that it uses, and S_k(u) the sum of the k smallest of u, the dual of ``max sum_k v_k z_(k)`` is

    min  sum usable_si p_si + sum_j q_j     over p, q >= 0 and u                       multipliers
         sum_i G_jsi p_si + e_js q_j - u_j >= 0     for each user and server           x_js, levels by server
         S_k(u) >= v_n + ... + v_(n-k+1)            for each k                         lambda_k, steps between levels

(Proposition 4.12). S_k are sums over a sorted order, so that the n rows of the order at hand stand for all 2^n groups:
in sums ``w_k = u_(1) + ... + u_(k)`` they are bounds, and the system of a Newton step has two bands beside its
diagonal. What remains are the prices: a step costs a sort, a few passes and ``n (Sm)^2``.

S_k is concave and has a kink where two users tie. Without a model of the kinks steps end at the first of them: 80 of
them left a gap of 30%. Where neighbours k and k + 1 are g apart, a step that brings them x closer costs ``(x - g)+ <=
x^2 / 4g`` of S_k; that curvature, times lambda_k and a factor that grows while steps are cut and falls while they are
not, is added to the system, and a step is cut until all rows hold.

Rounding: bands from 1e-15 to 1e15 may cost the system its definiteness; the steps then end. The weights are proposed
to the gate as the mixture that bounds the answer (`_Interior.mixture`), levels are fitted to capacities and limits, and
the gate has the last word.

On 4 servers of 3 resources, with demands that differ by server, 1,000, 3,000 and 10,000 users take .1, .2 and .9 s of
CPU in 40 to 60 steps, with limits .15, .5 and 2.3 s in 70 to 150; on 8 servers of 4 resources 3,000 take .8 and 1.3 s.
Programs in which the order of users is fixed took .5, 6 and over 30 s, and with weights or limits were refused after
minutes at 1,000. Where demands differ by user only, `fairopt.solve.pool.ordered` says from when cutting planes are
faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fairopt.blocks.ranked import padded
from fairopt.certificate import Try
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import linalg
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import EPS
from fairopt.solve.cluster.alpha_fair import prices_on_servers
from fairopt.solve.form.program import Program
from fairopt.solve.form.units_on_servers import LevelUnits
from fairopt.solve.pool.ordered import are_cuts_made, solve_ordered
from fairopt.solve.settings import Proposals, Settings

USERS = 50  # below, a cone program takes .03 to .1 s too, and ends at smaller gaps
STEPS = 150  # 30 to 40 are usual without limits, 40 to 100 with limits
GAP = 1e-9  # relative gap at which to stop
BACK = 0.99  # of the way to the boundary
LEAST, MOST = 0.5, 1e3  # factor of the curvature of kinks
NEAR = 1e-6  # relative distance of neighbours below which they count as that far apart
SHORTER, CUTS = 0.7, 100  # what a cut leaves of a step, and how many there may be


def ordered_on_servers_applies(program: Program, settings: Settings) -> bool:
    """Whether the program is ordered weights of users on several servers with nothing but limits.

    Few users are left to cone programs, unless ``method="prices"`` asks.
    """
    term = program.term
    ranked = program.of_users and term.ranks is not None and not (term.is_order or term.is_smallest)
    many = program.instance.n_users >= USERS or settings.method == "prices"
    return bool(ranked and many and prices_on_servers(program) and not program.low.any())


def solve_ordered_on_servers(program: Program, settings: Settings) -> Proposals:
    """A proposal with prices, even if steps or time run out; with ``method="prices"`` cutting planes come next."""
    begun = time.perf_counter()
    with np.errstate(all="ignore"):  # NaN stops the steps
        point = _Interior(LevelUnits(program))
        for k in range(STEPS):
            tell("prices of ordered weights, steps", k, STEPS)
            if point.done() or settings.clock.late or not point.step():
                break
        units = point.units
        tasks = units.fitted(np.where(units.eligible, point.best * units.per_level, 0.0))
        prices = units.natural_prices(point.prices) * units.unit * point.total
    attempt = Try("prices", f"solved ({k + 1} steps)", time.perf_counter() - begun)
    yield Proposal("prices", tasks, Prices(program, Dual(prices, mixtures=[point.mixture()])), attempt=attempt)
    if settings.method == "prices" and are_cuts_made(program):  # of few users a tenth is not certified
        yield from solve_ordered(program, settings)


class _Interior:
    """The primal-dual point: four arrays of slacks and of their multipliers, with ordered weights of sum 1.

    The slacks are those of pairs (n_users, n_servers), of the sums of the k smallest weights, the prices (n_resources,
    n_servers), and the multipliers of limits, 1 where there is none. What does not exist has the multiplier 0.
    """

    def __init__(self, units: LevelUnits) -> None:
        program, self.units, self.demands = units.program, units, units.demands
        term, n = program.term, program.instance.n_users
        v = term.factor * padded(term.ranks or (), n)
        self.total = float(v.sum())
        self.v = v / self.total
        self.smallest = np.cumsum(self.v[::-1])
        self.every, self.eligible = slice(0, n), units.eligible
        self.limited = np.isfinite(program.high)
        use = units.per_level / program.high[:, None] if units.limit_use is None else units.limit_use
        self.use = np.where(self.eligible, use, 0.0)
        there = (self.eligible, np.ones(n, dtype=bool), np.ones(units.usable.shape, dtype=bool), self.limited)
        self.there = [one.astype(float) for one in there]
        self.count = float(sum(one.sum() for one in there))
        # equal prices at which all rows hold with room
        ones = np.ones(units.usable.shape)
        cost = np.where(self.eligible, self.demands.price(ones, self.every), np.inf).min(axis=1)
        high = 2.0 * float((self.smallest / np.cumsum(np.sort(cost))).max())
        self.prices, self.weights = high * ones, 0.75 * high * cost
        least = np.where(self.eligible, self.use, np.inf).min(axis=1)
        self.of_limits = np.where(self.limited, 0.1 * self.weights / least, 1.0)
        self.order, self.slacks = self._at(self.prices, self.weights, self.of_limits)
        central = self.value() / self.count
        self.multipliers = [central * is_there / slack for is_there, slack in zip(self.there, self.slacks, strict=True)]
        self.curvature, self.best, self.least = 3.0, np.zeros(self.eligible.shape), -np.inf

    def _at(self, prices: Float, weights: Float, of_limits: Float) -> tuple[Indices, list[Float]]:
        """The order of users by weight, and the slacks."""
        pairs = self.demands.price(prices, self.every) + of_limits[:, None] * self.use - weights[:, None]
        order = np.argsort(weights, kind="stable")
        sums = np.cumsum(weights[order]) - self.smallest
        return order, [np.where(self.eligible, pairs, 1.0), sums, prices, of_limits]

    def value(self) -> float:
        """The dual objective, an upper bound on ordered weights."""
        return float((self.units.usable * self.prices).sum()) + float(self.of_limits @ self.there[3])

    def mixture(self) -> Float:
        """The weights with the largest cut to one number, so that their sum is that of v.

        Then v majorises them, as sums of the smallest are linear where they are cut and G is convex. Scaled to the sum
        they would miss that by 1e-10, and 1e-10 of the mean is much for users who cost a millionth of it: 4e-4 of gap.
        """
        ordered = self.weights[self.order]
        sums, above = np.cumsum(ordered), np.arange(len(ordered))[::-1]
        cut = int(np.searchsorted(sums + above * ordered, 1.0))
        if cut == len(ordered):  # by rounding
            return self.weights
        return np.minimum(self.weights, (1.0 - (sums[cut - 1] if cut else 0.0)) / (above[cut] + 1))

    def done(self) -> bool:
        """Keep the levels that fit if they are the best so far; whether the gap is closed."""
        x = self.multipliers[0]
        fit = x / np.maximum((x * self.use).sum(axis=1), 1.0)[:, None]
        load = float((self.demands.all_loads(fit) / self.units.usable).max())
        fit /= max(load, 1.0 if self.limited.any() else 0.0)
        value = float(np.sort(fit.sum(axis=1)) @ self.v)
        if value > self.least:
            self.best, self.least = fit, value
        return self.value() - self.least <= GAP * self.least

    def step(self) -> bool:
        """A step towards the centre that the affine step asks for; whether there was one.

        Without Mehrotra's correction of second order: it does not know the kinks. With it 150 steps under limits ended
        at gaps of 1e-4 to 1e-9, without it 80 to 140 at 1e-9.
        """
        mean = self._complementarity(self.slacks, self.multipliers) / self.count
        try:
            direction = self._factorised()
        except (np.linalg.LinAlgError, ValueError):  # not definite, or not finite
            return False
        _, slacks, multipliers = direction([0.0 * one for one in self.there])
        up, down = _longest(self.slacks, slacks), _longest(self.multipliers, multipliers)
        after = self._complementarity(_moved(self.slacks, slacks, up), _moved(self.multipliers, multipliers, down))
        centre = min(max((after / self.count / mean) ** 3, 1e-4), 0.9) * mean
        targets = [centre * is_there for is_there in self.there]
        moves, slacks, multipliers = direction(targets)
        up = min(1.0, BACK * _longest(self.slacks, slacks))
        down = min(1.0, BACK * _longest(self.multipliers, multipliers))
        if not (up > 0 and down > 0):  # NaN
            return False
        cuts = 0
        while cuts < CUTS:
            new = _moved([self.prices, self.weights, self.of_limits], moves, up)
            order, at = self._at(*new)
            # the sums are concave: those of a short enough step are near those of the order
            least = (1 - BACK) * np.minimum(self.slacks[1], self.slacks[1] + up * slacks[1])
            if (at[1] >= least - EPS).all():
                break
            up, cuts = up * SHORTER, cuts + 1
        self.curvature = min(max(self.curvature * (2.0 if cuts > 2 else 1.0 if cuts else 0.7), LEAST), MOST)
        (self.prices, self.weights, self.of_limits), self.order = new, order
        self.slacks = [np.maximum(one, EPS) for one in at]  # differences, which rounding may take to 0
        self.multipliers = _moved(self.multipliers, multipliers, down)
        return True

    def _complementarity(self, slacks: list[Float], multipliers: list[Float]) -> float:
        """The sum of the products."""
        return sum(float((s * m).sum()) for s, m in zip(slacks, multipliers, strict=True))

    def _factorised(self) -> Callable[[list[Float]], tuple[list[Float], list[Float], list[Float]]]:
        """Newton's direction for targets of the products: moves of prices, weights and multipliers of limits, changes
        of slacks, and of multipliers.

        Multipliers of limits are eliminated user by user, then weights by bands, and prices remain.
        """
        demands, every, order = self.demands, self.every, self.order
        ratios = [m / s for m, s in zip(self.multipliers, self.slacks, strict=True)]
        theta, of_sums, of_prices, of_limits = ratios
        with_use = theta * self.use
        users = with_use.sum(axis=1)
        limits = (with_use * self.use).sum(axis=1) + of_limits + (1.0 - self.there[3])
        # weights: a diagonal, the kinks between neighbours, and sums of the smallest as a second diagonal
        diagonal = (theta.sum(axis=1) - users**2 / limits)[order]
        sorted_weights = self.weights[order]
        apart = np.maximum(np.diff(sorted_weights), NEAR * sorted_weights[1:])
        central = self._complementarity(self.slacks, self.multipliers) / self.count / self.slacks[1]
        kinks = self.curvature * (self.multipliers[1] + central)[:-1] / (4.0 * apart)
        diagonal[:-1] += kinks
        diagonal[1:] += kinks
        bands = np.zeros((3, len(order)))  # with u_k = w_k - w_(k-1)
        bands[2] = diagonal + of_sums
        bands[2, :-1] += diagonal[1:] + 2.0 * kinks
        bands[1, 1:] = -diagonal[1:] - kinks
        bands[1, 1:-1] -= kinks[1:]
        bands[0, 2:] = kinks[1:]
        banded = linalg.cholesky_banded(bands)

        def weights_of(right: Float) -> Float:
            right = right.copy()
            right[:-1] -= right[1:].copy()
            sums = linalg.cho_solve_banded((banded, False), right)
            return np.diff(sums, axis=0, prepend=0.0 * sums[:1])

        coupling = demands.stacked(-theta + (users / limits)[:, None] * with_use, every)[order]
        by_price = weights_of(coupling)
        size, (m, servers) = of_prices.size, of_prices.shape
        by_server, at = np.zeros((m, servers, m, servers)), np.arange(servers)
        for i, k, part in zip(*demands.upper, demands.curvature(theta, every), strict=True):
            by_server[i, at, k, at] = by_server[k, at, i, at] = part
        system = by_server.reshape(size, size)
        system[np.arange(size), np.arange(size)] += of_prices.ravel()
        if self.limited.any():
            demands.subtract_products(system, with_use / np.sqrt(limits)[:, None], every)
        system -= coupling.T @ by_price
        scale = 1.0 / np.sqrt(np.diag(system))
        factors = linalg.cho_factor(system * scale * scale[:, None], lower=True)

        def direction(targets: list[Float]) -> tuple[list[Float], list[Float], list[Float]]:
            """Multipliers that the targets ask for at the present slacks, and what they leave of the dual rows."""
            wanted = [target / slack for target, slack in zip(targets, self.slacks, strict=True)]
            left = (demands.all_loads(wanted[0]) + wanted[2] - self.units.usable).ravel()
            of_limit = self.there[3] * ((wanted[0] * self.use).sum(axis=1) + wanted[3] - 1.0)
            of_weight = users / limits * of_limit - wanted[0].sum(axis=1)
            of_weight[order] += np.cumsum(wanted[1][::-1])[::-1]
            left -= demands.all_loads(with_use * (of_limit / limits)[:, None]).ravel()
            fixed = weights_of(of_weight[order])
            price = scale * linalg.cho_solve(factors, scale * (left - coupling.T @ fixed))
            smallest, weight = fixed - by_price @ price, np.empty(len(order))
            weight[order] = smallest
            price = price.reshape(of_prices.shape)
            cost = demands.price(price, every)
            limit = (of_limit + users * weight - (with_use * cost).sum(axis=1)) / limits
            pairs = self.there[0] * (cost + limit[:, None] * self.use - weight[:, None])
            slacks = [pairs, np.cumsum(smallest), price, limit]
            changes = zip(wanted, self.multipliers, ratios, slacks, strict=True)
            return [price, weight, limit], slacks, [w - m - ratio * s for w, m, ratio, s in changes]

        return direction


def _moved(arrays: list[Float], changes: list[Float], part: float) -> list[Float]:
    """Arrays after a part of their changes."""
    return [one + part * change for one, change in zip(arrays, changes, strict=True)]


def _longest(arrays: list[Float], changes: list[Any]) -> float:
    """The largest part of the changes, at most 1, after which no array is negative."""
    pairs = zip(arrays, changes, strict=True)
    fallen = (float(np.max(-change / np.where(one > 0, one, np.inf))) for one, change in pairs)
    return 1.0 / max(1.0, *fallen)
