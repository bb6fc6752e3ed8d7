"""Upper bounds on the optimum by weak duality (Boyd and Vandenberghe 2004; Bound 7.1).

With prices p of capacities ``A x <= u``, multipliers y of further constraints ``g(x) <= 0``, and a majorant G of the
objective f (``G >= f``, with equality at the point), every feasible x has

    f(x)  <=  max_x  G(x) - p'(A x - u) - y'g(x)
           =  p'u + const + sum_j max_(low_j <= t <= most_j) psi_j(t) - t min_s (p'A + y'Dg)_js,

where curved g are replaced by their tangents. It is one bound for one pool and several servers, prices alone and
further constraints. The maximum separates by user and has a closed form over the user's proven range of tasks: ranges
keep the bound finite where multipliers are a little too small, and cost nothing where they are right. Where shares
differ by server, a limit on tasks is no range of the share, and has the multiplier that is best at the prices
(`along_hull`): without, 39 of 50 instances with rates had gaps above 1e-6. Inaccurate multipliers weaken the bound and
cannot falsify it. A solver's own dual objective is not read: it is of its scaled program, and of what it calls zero.

Floats: costs are rounded down and constants up (`charged`), by sizes that count each term in absolute value, since
multipliers of opposite rows cancel. Where blocks have variables without a bound, any cost that a solver's multipliers
leave on these makes the bound infinite: they are moved by least squares until it has the right sign (`_balanced`). At a
value of 0 a small bound proves nothing, hence ``forced`` (Proposition 7.17).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairopt.blocks.form import Curve, Form, Sorted
from fairopt.blocks.model import Point
from fairopt.blocks.numbers import shares_at
from fairopt.blocks.own import ranges
from fairopt.blocks.ranked import majorised, padded
from fairopt.blocks.rows import Rows
from fairopt.proof.bound import along_hull, best_response, level_at, rounded_up_sum, smallest_level
from fairopt.proof.least_squares import by_iteration
from fairopt.proof.ranges import Entries, implied_ranges
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import ROUNDING, TERM_ROUNDING
from fairopt.solve.form.program import Program

CHUNK = 16_384  # users at a time, or pairs where limits have multipliers
# On the piecewise linear bound of max-min under limits, from the value at the answer: the first proved 200 small
# instances with rates, as that value is near the optimum.
NEWTON_STEPS = 3
BALANCING = 10  # least-squares steps: cutting multipliers of inequalities at 0 undoes a part of each


class LinearRows(NamedTuple):
    """Rows ``values <= 0`` (or == 0) of a constraint, with slopes (n_unknowns, n_rows).

    ``others`` are slopes by variables of blocks, in their units.
    """

    slopes: sp.csr_array
    values: Float
    inequality: bool
    others: Mapping[cp.Variable, sp.csr_array] = {}

    def valid(self, dual: Float) -> Float:
        """Multipliers of the right sign."""
        return np.maximum(dual, 0.0) if self.inequality else dual


@dataclass
class Multipliers:
    """Dual values, which may be inaccurate.

    ``prices`` (n_rows,) are by row of `Pairs.loads`, per whole capacity. ``pair_cost`` (n_pairs,) is the cost of a task
    by further constraints, ``constant`` the multipliers times right-hand sides. ``extra`` are concave functions with
    lower bounds and their multipliers (the bounds are in ``constant``). ``size`` (n_pairs,) and ``constant_size`` are
    ``pair_cost`` and ``constant`` with absolute terms, to which rounding is relative. ``forced`` (n_pairs,) is the part
    of ``pair_cost`` by rows with right-hand side 0, rounded down; of rows that only CVXPY knows, at tasks 0.
    ``mixtures`` (n_users,) are weights that a method proposes for the objective's ranked terms, of any size.
    """

    prices: Float
    pair_cost: Float | float = 0.0
    constant: float = 0.0
    extra: tuple[tuple[Form, float], ...] = ()
    size: Float | None = None
    constant_size: float = 0.0
    forced: Float | float = 0.0
    mixtures: Sequence[Float] = ()

    def charge(
        self, rows: LinearRows, dual: Float, at: Float, unit: Float | float = 1.0, place: Indices | slice = slice(None)
    ) -> None:
        """Add a constraint ``g(z) <= 0`` (or == 0) at multipliers y: the costs ``y'Dg`` and the constant ``y'(Dg z -
        g)``.

        ``place`` are the unknowns of pairs, of ``unit`` tasks each; the others are zero.
        """
        dual = rows.valid(dual)
        per_unit = np.asarray(rows.slopes @ dual).ravel()[place]
        size = np.asarray(abs(rows.slopes) @ np.abs(dual)).ravel()[place]
        self.size = (np.abs(self.pair_cost) if self.size is None else self.size) + size / unit
        self.pair_cost = self.pair_cost + per_unit / unit
        self.constant += float(per_unit @ at) - float(rows.values @ dual)
        self.constant_size += float(size @ np.abs(at)) + float(np.abs(rows.values * dual).sum())
        # linearised at no tasks, and 0 there: the row says that the tasks cost nothing at most
        if not at.any() and not rows.others and not rows.values[dual != 0].any():
            self.forced = self.forced + (per_unit - TERM_ROUNDING * size) / unit

    def charge_jointly(
        self,
        rows: Sequence[tuple[LinearRows, Float]],
        at: Float,
        unit: Float,
        top: Float,
        slopes: Mapping[cp.Variable, Float] | None = None,
    ) -> None:
        """Charge rows with other variables, and no others, and what they leave of these less the objective's slopes.

        That is charged at the variables' ranges, which follow from their bounds and the rows, the unknowns being at
        most ``top``. The constant is infinite if a variable without a bound has a cost.
        """
        reach = _reach([one for one, _ in rows], at, top, list(slopes or {}))
        duals = _balanced(rows, slopes or {}, reach)
        costs = {variable: -slope for variable, slope in (slopes or {}).items()}
        sizes = {variable: np.abs(slope) for variable, slope in (slopes or {}).items()}
        for (one, _), y in zip(rows, duals, strict=True):
            self.charge(one, y, at, unit)
            for variable, of_rows in one.others.items():
                held = np.asarray(variable.value, dtype=float).ravel(order="F")
                cost, size = np.asarray(of_rows @ y).ravel(), np.asarray(abs(of_rows) @ np.abs(y)).ravel()
                self.constant += float(cost @ held)
                self.constant_size += float(size @ np.abs(held))
                costs[variable], sizes[variable] = costs.get(variable, 0.0) + cost, sizes.get(variable, 0.0) + size
        left = 0.0  # minus the least value of what is left of each variable's cost, over its range
        for variable, cost in costs.items():
            # what is left of the cost after cancellation may have either sign: the worse of both is charged
            rounding = TERM_ROUNDING * sizes[variable]
            left -= float(charged_at(cost - rounding, cost + rounding, *reach[variable]).sum())
        self.constant += left
        self.constant_size += left
        if left < np.inf and not slopes and not at.any() and _of_zero([one for one, _ in rows], reach):
            # ranges, and so what is left, are at most multiples of the largest part x_p / top_p, hence of their sum
            absolute = 0.0 if self.size is None else self.size
            self.forced = self.pair_cost - TERM_ROUNDING * absolute - (1 + ROUNDING) * left / (top * unit)

    def plus(self, other: Multipliers) -> None:
        """Add the costs and constants of others."""
        self.size = (np.abs(self.pair_cost) if self.size is None else self.size) + (
            np.abs(other.pair_cost) if other.size is None else other.size
        )
        self.pair_cost = self.pair_cost + other.pair_cost
        self.constant += other.constant
        self.constant_size += other.constant_size
        self.forced = self.forced + other.forced

    def charge_rows(self, rows: Rows, multipliers: Float) -> None:
        """Add linear rows at multipliers in natural units."""
        y = rows.valid(multipliers)
        self.size = (np.abs(self.pair_cost) if self.size is None else self.size) + rows.cost_size(y)
        self.pair_cost = self.pair_cost + rows.cost(y)
        self.constant += float(rows.right @ y)
        self.constant_size += float(np.abs(rows.right) @ np.abs(y))
        of_zero = np.where(rows.right == 0, y, 0.0)
        self.forced = self.forced + rows.cost(of_zero) - TERM_ROUNDING * rows.cost_size(of_zero)

    def times(self, factor: float) -> Multipliers:
        """All multipliers times a factor."""
        return Multipliers(
            self.prices * factor,
            self.pair_cost * factor,
            self.constant * factor,
            tuple((m, t * factor) for m, t in self.extra),
            None if self.size is None else self.size * factor,
            self.constant_size * factor,
            self.forced * factor,
        )


def charged(program: Program, multipliers: Multipliers) -> tuple[Float, float]:
    """The cost of a task of each pair, rounded down, so that bounds hold after cancellation, and the right-hand side,
    rounded up.
    """
    cost, limit = program.rows.cost(multipliers.prices), float(multipliers.prices @ program.usable_rows)
    # of what each term was before it cancelled: multipliers of an equation can be as large as a solver likes
    size = np.abs(multipliers.pair_cost) if multipliers.size is None else multipliers.size
    constant_size = limit + max(multipliers.constant_size, abs(multipliers.constant))
    cost *= 1.0 - TERM_ROUNDING
    cost += multipliers.pair_cost - TERM_ROUNDING * size
    return cost, limit + multipliers.constant + TERM_ROUNDING * constant_size


def _balanced(
    rows: Sequence[tuple[LinearRows, Float]],
    slopes: Mapping[cp.Variable, Float],
    reach: Mapping[cp.Variable, tuple[Float, Float]],
) -> list[Float]:
    """Multipliers of rows near those given, with costs of variables without a lower or upper bound on the other side.

    A solver's multipliers miss that by rounding or more.
    """
    y = np.concatenate([np.zeros(0), *(one.valid(dual) for one, dual in rows)])
    ends = np.cumsum([len(dual) for _, dual in rows])
    inequality = np.concatenate([np.zeros(0, dtype=bool), *(np.full(len(d), one.inequality) for one, d in rows)])
    parts, wanted, signs = [sp.csr_array((0, len(y)))], [np.zeros(0)], [np.zeros(0)]
    for variable, (least, most) in reach.items():
        open_ = np.flatnonzero(~(np.isfinite(least) & np.isfinite(most)))
        if len(open_) and rows:
            none = sp.csr_array((variable.size, 0))
            every = [one.others.get(variable, sp.csr_array((variable.size, len(d)))) for one, d in rows]
            parts.append(sp.csr_array(sp.hstack([none, *every]))[open_])
            wanted.append(np.asarray(slopes.get(variable, np.zeros(variable.size)))[open_])
            signs.append(np.isfinite(least[open_]) * 1.0 - np.isfinite(most[open_]))  # 0: the cost has to vanish
    matrix, aim, sign = sp.csr_array(sp.vstack(parts)), np.concatenate(wanted), np.concatenate(signs)
    for _ in range(BALANCING if matrix.shape[0] else 0):
        size = abs(matrix) @ np.abs(y) + np.abs(aim)
        left = matrix @ y - aim
        if (left * sign >= TERM_ROUNDING * size)[sign != 0].all():
            break
        # past 0 by more than the rounding of the next step, so that the sign is right after it
        y = y - by_iteration(matrix, left - 16 * TERM_ROUNDING * sign * size)
        y = np.where(inequality, np.maximum(y, 0.0), y)
    return np.split(y, ends[:-1]) if rows else []


def charged_at(low: Float, high: Float, least: Float, most: Float) -> Float:
    """The smallest product of a number in [low, high] and one in [least, most]; minus infinity if there is none."""
    with np.errstate(invalid="ignore"):
        products = [np.where(a == 0, 0.0, a * b) for a in (low, high) for b in (least, most)]
    return np.asarray(np.min(products, axis=0))


def _reach(
    rows: Sequence[LinearRows], at: Float, top: Float, more: Sequence[cp.Variable]
) -> dict[cp.Variable, tuple[Float, Float]]:
    """The ranges of the other variables in rows that were linearised at unknowns, and of ``more`` variables."""
    variables = list(dict.fromkeys([*more, *(variable for one in rows for variable in one.others)]))
    if not variables:
        return {}
    cuts = np.cumsum([len(top), *(variable.size for variable in variables)])
    least = np.concatenate([np.zeros(len(top)), *(ranges(variable)[0] for variable in variables)])
    most = np.concatenate([top, *(ranges(variable)[1] for variable in variables)])
    parts, right = [sp.csr_array((0, cuts[-1]))], [np.zeros(0)]
    for one in rows:
        n = len(one.values)
        others = {variable: sp.csr_array(slopes.T) for variable, slopes in one.others.items()}
        row = sp.hstack(
            [one.slopes.T, *(others.get(variable, sp.csr_array((n, variable.size))) for variable in variables)]
        )
        side = one.slopes.T @ at - one.values  # Dg z <= Dg z0 - g(z0)
        for variable, slopes in others.items():
            side = side + slopes @ np.asarray(variable.value, dtype=float).ravel(order="F")
        parts += [sp.csr_array(row)] if one.inequality else [sp.csr_array(row), sp.csr_array(-row)]
        right += [side] if one.inequality else [side, -side]
    least, most = implied_ranges(Entries.of(sp.csr_array(sp.vstack(parts))), np.concatenate(right), least, most)
    return {v: (least[i:j], most[i:j]) for v, i, j in zip(variables, cuts[:-1], cuts[1:], strict=True)}


def _of_zero(rows: Sequence[LinearRows], variables: Iterable[cp.Variable]) -> bool:
    """Whether other variables are 0, and the right-hand sides of rows at unknowns 0 and of these variables' bounds."""
    sides = [side[np.isfinite(side)] for variable in variables for side in ranges(variable)]
    return not any(np.any(some) for some in (*sides, *(v.value for v in variables), *(one.values for one in rows)))


class Smallest(NamedTuple):
    """The bound on the smallest level, the best factor on multipliers, and the mixture of users' levels there."""

    top: float
    factor: float
    mixture: Float


class Lagrangian:
    """The Lagrangian bound as a function of a common factor on all multipliers."""

    def __init__(self, program: Program, majorant: Form, multipliers: Multipliers, point: Point) -> None:
        pairs, instance = program.pairs, program.instance
        self.program, self.majorant, self.multipliers = program, majorant, multipliers
        self.point, self.pairs = point, pairs
        powers = [p for m in (majorant, *(m for m, _ in multipliers.extra)) for p in m.curves]
        shares = [p.c for p in powers if p.alpha]
        shares += [r.c for m in (majorant, *(m for m, _ in multipliers.extra)) for r in m.ranked]
        # one variable per user needs one unit: other shares are counted per unit of this one, from above
        by_server = [c for c in (*shares, *(p.c for p in powers)) if c.ndim == 2]
        # a user's variable: its tasks, or the share that differs by server
        self.reference = _nowhere_zero(by_server[0]) if by_server else None
        self.by_pair, self.right_side = charged(program, multipliers)
        self.slopes: Float | None = None  # of lines, by pair
        self._best: tuple[float, float, list[Float]] | None = None  # bound, factor, mixtures: files ask for these again
        self._of_reference: dict[int, tuple[Float, Float]] = {}  # coefficients of shares per unit of it
        if self.reference is None:
            self.low, self.high, self.at = program.low, program.most, point.tasks
        else:
            unit = pairs.of(self.reference)
            self.by_pair = self.by_pair / unit
            for p in majorant.curves:
                if p.alpha == 0:
                    slopes = pairs.of(p.factor) * pairs.of(p.c) / unit
                    self.slopes = slopes if self.slopes is None else self.slopes + slopes
            for m, times in multipliers.extra:
                for p in m.curves:
                    if p.alpha == 0:
                        self.by_pair = self.by_pair - times * pairs.of(p.factor) * pairs.of(p.c) / unit
            alone = pairs.sum(unit * pairs.of(instance.tasks_alone))
            self.low, self.high = np.zeros(len(alone)), np.minimum(alone, -pairs.min(-unit) * program.most)
            self.at = shares_at(self.reference, point)
            if self.reference is by_server[0]:
                self._of_reference[id(self.reference)] = self.reference, np.ones(len(alone))
        # whether limits need multipliers, as they are no ranges of a share that differs by server
        self.limited = self.reference is not None and bool(np.isfinite(program.high).any())
        # nobody pays on a server where it has to run nothing, unless it has no other
        zero = program.zero_pairs
        self.closed = zero & ~(pairs.min(zero.astype(float)) > 0)[pairs.user] if zero.any() else None

    @cached_property
    def cost(self) -> Float:
        """The cost of a unit of each user's variable where it is cheapest, without what limits charge."""
        return self._cheapest(self.by_pair)

    def _per_unit(self, c: Float) -> Float:
        """Coefficients of a share per unit of the reference."""
        if self.reference is None:
            return c
        if id(c) not in self._of_reference:
            # c x per unit of r x: x is at most (r x) / (the least r), as shares grow with tasks
            eligible = self.program.instance.eligible
            if c.ndim == 1:  # an upper bound, on the server with the smallest reference
                ratio = c / np.where(eligible, self.reference, np.inf).min(axis=1)
            else:
                ratio = np.where(eligible, c / self.reference, -np.inf).max(axis=1)
            self._of_reference[id(c)] = c, ratio  # c is kept, and so its id
        return self._of_reference[id(c)][1]

    def _parts(self, factor: float) -> tuple[list[Curve], list[Sorted], float]:
        """Curves per unit, ranked terms, and the constant without those of lines, which it cancels."""
        forms = [self.majorant, *(Form().plus(extra, factor * times) for extra, times in self.multipliers.extra)]
        powers = [p for form in forms for p in form.curves]
        ranked = [r for form in forms for r in form.ranked if r.factor > 0]
        constant = sum(form.constant_beside_lines for form in forms)
        if self.reference is not None:  # linear terms enter pair by pair
            powers = [p for p in powers if p.alpha]
        return self._in_units(powers), ranked, constant

    def _in_units(self, curves: Sequence[Curve]) -> list[Curve]:
        """Curves of users' variables."""
        return [*curves] if self.reference is None else [replace(p, c=self._per_unit(p.c)) for p in curves]

    def _slopes(self, curves: Sequence[Curve]) -> Float:
        return sum((p.slopes(p.c * self.at) * p.c for p in curves), np.zeros(len(self.at)))

    @cached_property
    def of_smallest(self) -> Smallest | None:
        """The bound if the majorant is a multiple of the smallest level; None if costs or others are not positive.

        With costs k_j of a unit of level the bound is the level Z with ``sum_j k_j max(Z, low_j)`` the right side, as
        users whose lower bounds exceed Z have no weight, or the least of what a user can have at most, at no prices.
        Limits of shares that differ by server make k_j convex and piecewise linear in Z.
        """
        ranked = self.majorant.ranked
        if len(ranked) != 1 or self.majorant.curves or any(ranked[0].v[1:]) or self.multipliers.extra:
            return None
        c, best, weight = self._per_unit(ranked[0].c), (np.inf, np.ones(1)), ranked[0].factor * ranked[0].v[0]
        level = float((c * self.at).min(initial=np.inf))
        for _ in range(NEWTON_STEPS if self.limited else 1):
            cost, right = self._costs(1.0, (), level / c)
            cost = cost / c
            if cost.min(initial=0.0) < 0:
                return None
            level, free = smallest_level(cost, self.right_side + right, c * self.low)
            if not level < best[0]:
                break
            best = level, np.where(free, cost, 0.0)
        most = c * self.high
        if len(most) and most.min() <= best[0]:
            factor, mixture = 0.0, np.where(np.arange(len(most)) == most.argmin(), weight, 0.0)
        else:
            factor = weight / float(best[1].sum())
            mixture = factor * best[1]
        top = self.majorant.constant + weight * min(best[0], float(most.min(initial=np.inf))) * (1.0 + TERM_ROUNDING)
        return Smallest(top, factor, mixture)

    def fitted_factor(self) -> float | None:
        """The factor that best matches marginal utilities and costs of users strictly inside their ranges."""
        if self.majorant.ranked:
            return None
        # at a bound of its tasks a user's marginal utility may differ from its cost
        inside = (self.at > self.low * (1 + 1e-6)) & (self.at < self.high * (1 - 1e-6))
        slopes = self._slopes(self._in_units(self.majorant.curves))
        if all(p.alpha == 0 for p in self.majorant.curves) and not self.multipliers.extra:
            return self._linear_factor(slopes)
        cost = float((self.at * self.cost)[inside].sum())
        utility = float(np.nan_to_num(self.at[inside] * slopes[inside], posinf=0.0).sum())
        return utility / cost if cost * utility > 0 else None

    def _linear_factor(self, slopes: Float) -> float | None:
        """The factor of the smallest bound if utilities are linear: where the bound's slope changes sign."""
        paying = np.flatnonzero((self.cost > 0) & (slopes > 0))
        # L(t) = t R + sum_j high_j (s_j - t k_j)+ has the slope R - sum_(s_j > t k_j) high_j k_j
        kinks = slopes[paying] / self.cost[paying]
        order = np.argsort(-kinks)
        demand = np.cumsum((self.high * self.cost)[paying][order])  # of all users who gain at a smaller factor
        k = int(np.searchsorted(demand, self.right_side))
        return float(kinks[order][k]) if k < len(kinks) else None

    def levels(self, factor: float) -> Float:
        """The maximising values ``c_j x_j`` of the majorant's only term, shape (n_users,)."""
        (term,) = self._in_units(self.majorant.curves)
        price = factor * self.cost / (term.factor * term.c)  # of a unit of z: factor u'(z) c = t k
        return level_at(price, term.alpha, term.c * self.low, term.c * self.high)

    def __call__(self, factor: float) -> float:
        """The bound with all multipliers times a factor, in the units of the majorant."""
        top, mixtures = self.with_mixtures(factor)
        if self._best is None or top < self._best[0]:
            self._best = top, factor, mixtures
        return top

    def mixtures(self, factor: float) -> list[Float]:
        """The mixture of each ranked term."""
        return self._best[2] if self._best and self._best[1] == factor else self.with_mixtures(factor)[1]

    def tangent_levels(self, factor: float) -> list[Float]:
        """For each curve of teams, or above a base, the levels whose slopes are its prices."""
        return []

    def _cheapest(self, by_pair: Float) -> Float:
        """The smallest of each user's pairs that are not closed."""
        return self.pairs.min(by_pair if self.closed is None else np.where(self.closed, np.inf, by_pair))

    def _costs(
        self, factor: float, powers: Sequence[Curve], wanted: Float | None, paid: Float | None = None
    ) -> tuple[Float, float]:
        """The cost of a unit of each user's variable where it is cheapest, rounded down, and what limits charge.

        A limit has the best multiplier for users who want what ``powers`` say, or at least ``wanted``, or are ``paid``
        for each unit.
        """
        if self.reference is None:
            return factor * self.cost, 0.0
        pairs, eligible, (n, servers) = self.pairs, self.program.instance.eligible, self.reference.shape
        ends, out, right, step = np.append(pairs.first, len(pairs)), np.empty(n), 0.0, max(CHUNK // servers, 1)
        for start in range(0, n, step):
            users = slice(start, min(start + step, n))
            some = slice(ends[start], ends[users.stop])
            cost = factor * self.by_pair[some]
            size = np.abs(cost)
            if self.slopes is not None:
                cost -= self.slopes[some]
                size += np.abs(self.slopes[some])
            cost -= TERM_ROUNDING * size
            if self.closed is not None:
                cost[self.closed[some]] = np.inf
            if not self.limited:
                out[users] = np.minimum.reduceat(cost, pairs.first[users] - some.start)
                continue
            if pairs.full:
                table = cost.reshape(-1, servers)
            else:
                table = np.full((users.stop - start, servers), np.inf)
                table[eligible[users]] = cost
            use = 1.0 / (self.reference[users] * self.program.high[users, None])  # the part of a limit, by a unit
            at_least = None if wanted is None else wanted[users]
            wants = [p.take(users) for p in powers]
            of_unit = None if paid is None else paid[users]
            out[users], multipliers = along_hull(table, use, wants, self.high[users], at_least, of_unit)
            right += float(multipliers.sum()) * (1.0 + TERM_ROUNDING)
        return out - TERM_ROUNDING * np.abs(out), right

    def with_mixtures(self, factor: float) -> tuple[float, list[Float]]:
        """The bound, and for each ranked term its mixture of shares by user."""
        powers, ranked, constant = self._parts(factor)
        if ranked and self.of_smallest is not None:  # with the factor that is best
            return self.of_smallest.top, [self.of_smallest.mixture]
        needed, of_needed = self._costs(factor, powers, self.at if ranked else None)
        right_side = factor * self.right_side

        def top(mixtures: Sequence[Float]) -> float:
            total, size, cost, of_limits = 0.0, 0.0, needed, of_needed
            if self.limited and ranked and not powers:
                of_each = [theta * self._per_unit(r.c) for r, theta in zip(ranked, mixtures, strict=True)]
                paid = np.sum(of_each, axis=0)
                cost, of_limits = self._costs(factor, powers, self.at, paid)
            for first in range(0, len(cost), CHUNK):
                users = slice(first, first + CHUNK)
                left = cost[users]
                for r, theta in zip(ranked, mixtures, strict=True):
                    worth = theta[users] * self._per_unit(r.c)[users]
                    left = left - worth - TERM_ROUNDING * (np.abs(left) + worth)
                some = [p.take(users) for p in powers]
                gains = best_response(left, some, self.low[users], self.high[users], self.at[users])
                total, size = total + float(gains.sum()), size + float(np.abs(gains).sum())
            return total + rounded_up_sum(np.array([constant, right_side, of_limits]), TERM_ROUNDING * size)

        if not ranked:
            return top([]), []
        # A mixture theta is a choice of prices of shares. It has to be tight at the point, so that only users whose
        # shares tie may exchange weights, and should leave no user a gain: near the cost that curves do not pay.
        left = np.maximum(needed - np.nan_to_num(self._slopes(powers), posinf=0.0), 0.0)
        weight = sum(r.factor * sum(r.v) for r in ranked)  # several terms share what is left in proportion to these
        pinned = self.at >= self.high * (1 - 1e-7)  # at a limit, where more weight than the cost is free
        if self.limited:
            pinned |= self.point.tasks_by_server.max(axis=1) >= self.program.high * (1 - 1e-7)
        tried = list[list[Float]]()
        # A solver may leave levels that should tie apart by what it calls 0; a wider tie costs its width in the bound.
        # None of 400 programs by CLARABEL and HiGHS needed more than the first.
        for tie in (1e-9, 1e-6, 1e-4) if left.any() else (0.0,):
            mixtures = []
            for r in ranked:
                c, part = self._per_unit(r.c), r.factor * sum(r.v) / weight
                mixtures.append(
                    r.mixture(c * self.at, left * part / c, pinned, tie) if tie else r.sorted_by(c * self.high)
                )
            tried.append(mixtures)
        if len(ranked) == 1 and left.any():
            v = padded(ranked[0].v, len(left)) * ranked[0].factor
            tried += [[majorised(v, given)] for given in self.multipliers.mixtures]
        # of one term the mixture that is best at these costs is known, whatever the point
        if len(ranked) == 1 and left.any() and np.isfinite(self.high).all():
            c = self._per_unit(ranked[0].c)
            tried.append([ranked[0].cheapest(left / c, c * self.low, c * self.high)])
        return min(((top(mixtures), mixtures) for mixtures in tried), key=lambda one: (one[0] != one[0], one[0]))


def _nowhere_zero(c: Float) -> Float:
    """Coefficients (n_users, n_servers) with zeros replaced by the user's smallest positive one, else by 1."""
    if (c > 0).all():
        return c
    smallest = np.where(c > 0, c, np.inf).min(axis=1, keepdims=True)
    return np.where(c > 0, c, np.where(smallest < np.inf, smallest, 1.0))
