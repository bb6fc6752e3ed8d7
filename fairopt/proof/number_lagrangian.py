"""The Lagrangian bound for objectives of teams, or of what is above a base.

Many users may add to a number ``z_t = sum_p c_p x_p - b_t``. At any price pi_t of it, a concave term f u(z_t) is at
most ``max_z (f u(z) - pi_t z) + pi_t z_t``, so that the Lagrangian separates into these maxima and, for each user, the
gain ``max_p (sum_t pi_t c_p - cost_p) x_p`` of tasks within its range (Bound 7.15, docs/methods/cone.md):

    f(x) <= right sides + sum_t (max_z (f_t u(z) - pi_t z) - pi_t b_t) + sum_j max_x (psi_j(x) + gain_j x).

Any prices give a bound. The best ones clear the market of each number: what its users supply, the cheapest first, is
what is demanded at the price,

    supply_t(pi) = sum_(j of t : cost_j <= pi c_j) c_j most_j   =   (f_t / pi)^(1 / alpha) + b_t,

which a sort of the users of each number finds. The slopes ``f_t z_t^-alpha`` at the point are prices too, and worse: of
200 programs of two teams the largest gap was 9e-7 by these alone, and 6e-11 by prices that clear. With several terms of
the same users each is cleared given the others, which need not be best, so both are tried. The prices of a ranked term
are one of its mixtures.

Floats: as in `lagrangian` costs are rounded down, here after what numbers pay is subtracted. A price of 0 of a power
has no level; in files the level at the point stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairopt.blocks.form import Curve, Form, Sorted
from fairopt.blocks.model import Point
from fairopt.blocks.numbers import Numbers
from fairopt.blocks.shares import best_server
from fairopt.proof.bound import best_response, gain_of_power, rounded_up_sum
from fairopt.proof.lagrangian import Lagrangian, Multipliers, charged
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.tolerances import TERM_ROUNDING
from fairopt.solve.form.program import Program

TIES = (1e-9, 1e-6, 1e-4)  # relative differences of levels that count as equal, after solvers of more or fewer digits
NEAR_LIMIT = 1e-7  # relative: a supply that near to what a number has is used up, as solvers leave 1e-8


class Supply(NamedTuple):
    """What the users of each number supply at rising prices, the cheapest first.

    ``price`` and ``total`` are by user in the order of numbers and prices: the price from which the user runs all it
    can, and the number's supply with it and all before. ``first`` (n_numbers + 1,) are the positions of each number,
    ``least`` its supply at no price.
    """

    price: Float
    total: Float
    first: Indices
    least: Float

    def crossing(self, meets: Bool) -> tuple[Indices, Bool]:
        """The position of each number's first user with ``meets``, and whether there is one."""
        at = np.where(meets, np.arange(len(meets)), len(meets))
        places = np.append(at, len(meets))
        first = np.minimum.reduceat(places, self.first[:-1]) if len(meets) else np.zeros(0, dtype=np.intp)
        some = (first < self.first[1:]) & (self.first[:-1] < self.first[1:])
        return np.where(some, first, self.first[1:] - 1), some

    def before(self, position: Indices) -> Float:
        """The supply of numbers before the users at these positions."""
        first = position == self.first[:-1]
        return np.where(first, self.least, self.total[np.maximum(position - 1, 0)])


class NumbersLagrangian(Lagrangian):
    """The Lagrangian bound of an objective of which some terms are not of users' own shares."""

    def __init__(self, program: Program, majorant: Form, multipliers: Multipliers, point: Point) -> None:
        self.program, self.majorant, self.multipliers = program, majorant, multipliers
        self.point, self.pairs = point, program.pairs
        self.by_pair, self.right_side = charged(program, multipliers)
        self.low, self.high, self.at = program.low, program.most, point.tasks
        self._best = None

    # -- terms ----------------------------------------------------------------------------------------------------

    def _terms(self, factor: float) -> tuple[list[Curve], list[Curve | Sorted], Float, float]:
        """Curves of users, terms of numbers, slopes of linear terms by pair, and the constant."""
        forms = [self.majorant, *(Form().plus(extra, factor * times) for extra, times in self.multipliers.extra)]
        own, others, slopes = list[Curve](), list[Curve | Sorted](), np.zeros(len(self.pairs))
        constant = factor * self.right_side
        for form in forms:
            constant += form.constant
            others += [r for r in form.ranked if r.factor > 0]
            for curve in form.curves:
                if curve.alpha == 0:
                    numbers = _numbers_of(curve)
                    of_pair = curve.factor[numbers.of_pairs(self.pairs.user)]
                    slopes = slopes + of_pair * self.pairs.of(curve.c)
                    base = 0.0 if numbers.base is None else float(curve.factor @ numbers.base)
                    constant -= float(curve.factor.sum()) + base
                elif curve.numbers is None and curve.c.ndim == 1:
                    own.append(curve)
                else:
                    others.append(curve)
        return own, others, slopes, constant

    def _value(
        self,
        own: Sequence[Curve],
        others: Sequence[Curve | Sorted],
        cost: Float,
        prices: Sequence[Float],
        constant: float,
    ) -> float:
        """The bound at prices of the numbers of ``others``; ``cost`` is by pair, rounded down."""
        parts = []
        for term, price in zip(others, prices, strict=True):
            numbers = _numbers_of(term)
            worth = price[numbers.of_pairs(self.pairs.user)] * self.pairs.of(term.c)
            cost = cost - worth - TERM_ROUNDING * (np.abs(cost) + worth)
            if isinstance(term, Curve):
                parts.append(self._gains(term, numbers, price))
            if numbers.base is not None:
                parts.append(-price * numbers.base)
        parts.append(best_response(self.pairs.min(cost), own, self.low, self.high))
        return rounded_up_sum(np.concatenate(parts), constant)

    def _gains(self, curve: Curve, numbers: Numbers, price: Float) -> Float:
        """``max_z (f u(z) - price z)`` over 0 <= z at most what each number can be."""
        high = np.maximum(numbers.above(best_server(curve.c, self.program.instance) * self.high), 0.0)
        with np.errstate(all="ignore"):
            gains = curve.factor * gain_of_power(price / curve.factor, curve.alpha, np.zeros(len(high)), high).most
        return np.where(curve.factor == 0, 0.0, gains)

    # -- prices of numbers ----------------------------------------------------------------------------------------

    def supply(self, term: Curve | Sorted, cost: Float) -> Supply:
        """The supply of the numbers of a term at costs by pair."""
        numbers, c = _numbers_of(term), self.pairs.of(term.c)
        with np.errstate(divide="ignore", invalid="ignore"):
            per_unit = np.where(c > 0, np.maximum(cost, 0.0) / c, np.inf)
        price = self.pairs.min(per_unit)
        # of several servers at the same price the one where a task counts most: then it supplies all it can
        best = np.where(per_unit <= price[self.pairs.user], c, 0.0)
        coefficient = -self.pairs.min(-best)
        of_user = np.arange(len(price)) if numbers.of_user is None else numbers.of_user
        order = np.lexsort((price, of_user))  # numbers one after the other, and in each the cheapest users first
        first = np.searchsorted(of_user[order], np.arange(len(numbers) + 1))
        least = numbers.sums(coefficient * self.low)
        more = (coefficient * (self.high - self.low))[order]
        running = np.cumsum(more)
        start = np.append(0.0, running)[first[:-1]]
        number = of_user[order]
        return Supply(price[order], running - start[number] + least[number], first, least)

    def _clearing(self, curve: Curve, supply: Supply) -> Float:
        """The price at which what each number's users supply is what it demands."""
        numbers, alpha = _numbers_of(curve), curve.alpha
        base = np.zeros(len(numbers)) if numbers.base is None else numbers.base
        number = np.repeat(np.arange(len(numbers)), np.diff(supply.first))
        with np.errstate(all="ignore"):
            demanded = (curve.factor[number] / supply.price) ** (1.0 / alpha) + base[number]
            position, some = supply.crossing(demanded <= supply.total)
            # demand falls in the price and supply rises by steps: they cross on a step, at its user's price, or between
            # two, where what is supplied before is demanded; past the last step all is supplied
            before = np.where(some, supply.before(position), supply.total[position])
            between = curve.factor * np.maximum(before - base, 0.0) ** -alpha
            price = np.where(some & (demanded[position] >= before), supply.price[position], between)
        return np.where(np.isfinite(price), price, 0.0)  # of a number that nobody supplies

    def _marginal(self, term: Sorted, supply: Supply, z: Float, tie: float) -> tuple[Float, Bool]:
        """The cost of the last unit of each number at the point, and whether more is at a higher cost only."""
        numbers = _numbers_of(term)
        number = np.repeat(np.arange(len(numbers)), np.diff(supply.first))
        held = z if numbers.base is None else z + numbers.base
        position, some = supply.crossing(supply.total >= held[number] * (1 - tie))
        price = np.where(some, supply.price[position], 0.0)
        return np.where(np.isfinite(price), price, 0.0), ~some | (supply.total[position] <= held * (1 + NEAR_LIMIT))

    def _slopes_at_point(self, curve: Curve) -> Float:
        slopes = curve.slopes(curve.at(self.point))
        return np.where(np.isfinite(slopes), slopes, 0.0)

    # -- the bound ------------------------------------------------------------------------------------------------

    def with_mixtures(self, factor: float) -> tuple[float, list[Float]]:
        """The bound, and the prices of the numbers of each term that has some."""
        own, others, slopes, constant = self._terms(factor)
        by_pair = factor * self.by_pair
        cost = by_pair - slopes - TERM_ROUNDING * (np.abs(by_pair) + np.abs(slopes))
        best: tuple[float, list[Float]] = np.inf, []
        for tie in TIES if any(isinstance(term, Sorted) for term in others) else (0.0,):
            start = [self._slopes_at_point(t) if isinstance(t, Curve) else np.zeros(0) for t in others]
            for prices in self._prices(own, others, cost, start, tie):
                top = self._value(own, others, cost, prices, constant)
                if top < best[0] or not best[1]:
                    best = top, prices
        return best

    def mixtures(self, factor: float) -> list[Float]:
        """The mixture of each ranked term; curves have prices instead."""
        others = self._terms(factor)[1]
        each = zip(others, self.with_mixtures(factor)[1], strict=True)
        return [prices for term, prices in each if isinstance(term, Sorted)]

    def tangent_levels(self, factor: float) -> list[Float]:
        """For each curve of numbers the levels whose slopes are its prices; those of the point if a price is 0."""
        each, out = zip(self._terms(factor)[1], self.with_mixtures(factor)[1], strict=True), list[Float]()
        for term, prices in each:
            if isinstance(term, Curve) and term.numbers is not None:
                with np.errstate(divide="ignore"):
                    levels = (term.factor / prices) ** (1.0 / term.alpha)
                out.append(np.where(np.isfinite(levels) & (levels > 0), levels, term.at(self.point)))
        return out

    def _prices(
        self, own: Sequence[Curve], others: Sequence[Curve | Sorted], cost: Float, start: list[Float], tie: float
    ) -> list[list[Float]]:
        """Prices to try: the slopes at the point, and those that clear each market given the others."""
        prices, given = list(start), cost
        # what users' own curves pay of a task does not need to be paid by their numbers
        of_own = sum((c.slopes(c.at(self.point)) * c.c for c in own), np.zeros(len(self.at)))
        given = cost - np.where(np.isfinite(of_own), of_own, 0.0)[self.pairs.user]
        for k, term in enumerate(others):
            rest = given
            for other, price in zip(others, prices, strict=True):
                if other is not term and len(price):
                    rest = rest - price[_numbers_of(other).of_pairs(self.pairs.user)] * self.pairs.of(other.c)
            supply = self.supply(term, rest)
            if isinstance(term, Curve):
                prices[k] = self._clearing(term, supply)
            else:
                z = term.at(self.point)
                wanted, pinned = self._marginal(term, supply, z, tie)
                prices[k] = term.mixture(z, wanted, pinned, tie)
        at_point = [first if len(first) else cleared for first, cleared in zip(start, prices, strict=True)]
        return [prices] if all(len(one) == 0 for one in start) else [prices, at_point]

    def fitted_factor(self) -> float | None:
        """The factor at which the costs of users strictly inside their ranges are what their numbers pay."""
        own, others, slopes, _ = self._terms(1.0)
        curves = [term for term in others if isinstance(term, Curve)]
        inside = (self.at > self.low * (1 + 1e-6)) & (self.at < self.high * (1 - 1e-6))
        tasks = np.where(inside[self.pairs.user], self.point.tasks_by_server[self.pairs.user, self.pairs.server], 0.0)
        cost = float(self.by_pair @ tasks)
        if len(curves) < len(others):
            term = others[0]
            if len(others) > 1 or isinstance(term, Curve) or own or slopes.any() or any(term.v[1:]):
                return None
            z = term.at(self.point)  # max-min: prices of the smallest numbers sum to one
            wanted = self._marginal(term, self.supply(term, self.by_pair), z, NEAR_LIMIT)[0]
            total = float(wanted[z <= z.min() * (1 + 1e-6)].sum())
            return float(term.factor * term.v[0] / total) if total > 0 else None
        utility = float(slopes @ tasks)
        utility += sum(float((c.slopes(c.at(self.point)) * c.c)[self.pairs.user] @ tasks) for c in own)
        for curve in curves:
            paid = self._slopes_at_point(curve)[_numbers_of(curve).of_pairs(self.pairs.user)]
            utility += float((paid * self.pairs.of(curve.c)) @ tasks)
        return utility / cost if cost * utility > 0 and np.isfinite(utility) else None


def _numbers_of(term: Curve | Sorted) -> Numbers:
    """The numbers of a term; of users if it has none."""
    if term.numbers is not None:
        return term.numbers
    return Numbers(term.c, np.ones(len(term.c)))
