"""Sums of concave functions of shares, bounded by prices.

By weak duality, at prices p >= 0 of capacities C and multipliers y of rows ``A x <= b`` (free for equations), an
objective f of feasible tasks x is at most

    p'C + y'b + sum_j max over low_j <= T_j <= most_j of  [ f_j(x_j) - (p'D + y'A)_j x_j ],

maximised over each user's range of total tasks (Proposition 15.1 in docs/methods/evidence.md). Wrong evidence weakens
the bound and cannot falsify it. The maximum has a closed form:

* a concave term lies below its tangent at any point (`tangents`);
* sorted shares weighted by a decreasing v are at most ``sum_j u_j s_j`` if, for every k, the k smallest u sum to at
  least the k smallest v (`mixture`; Hardy, Littlewood and Pólya 1934);
* a linear function of a user's total tasks is largest at an end of their range, on the user's best server (`bound`).

Alpha-fair utilities are Box-Cox functions (Mo and Walrand 2000); the gap is that of their weighted power means.

Why tangents and not the conjugate of u in closed form: a conjugate has a power of the price, which is irrational, and
the range of tasks cuts it. A tangent needs one power of a level that may be chosen with few digits (`POINT`), so that
floats choose where (`stationary_point`), and only the line is computed in fractions, rounded outwards. A bad choice
only widens the bound: with levels of 20 bits 4 of 21 answers of 30 to 200 users were not proved, with 80 bits all, at
gaps that 200 bits do not lower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .instance import Cluster
from .numbers import (
    BLOCK_VIOLATION,
    CLOSE,
    ONE,
    ROUNDING,
    ZERO,
    Between,
    Fraction,
    LinearRow,
    Place,
    RowName,
    Rows,
    Table,
    approximate_log,
    down,
    dyadic,
    exact_sum,
    intercept,
    log,
    number,
    numbers,
    power,
    sum_of_boxcox,
    together,
    up,
)
from .outcome import CannotCheck, Fault
from .policy import COMPOSED, PARAMETERS, Block, alpha_of, as_alpha_fair, is_levelled, rank_weights
from .teams import TeamNumbers

SIZED = ("Total", "AlphaFair", "MaxMin", "OrderedWeighted", "FairnessEfficiency")  # alone a multiple of the shares
POINT = 80  # bits of the levels where tangents are taken: any level gives a bound, and 80 the same gaps as 200


class Curve(NamedTuple):
    """``sum_j factor_j boxcox(c_j x_j)`` of one alpha; c from above, and from below times ``size``."""

    alpha: Fraction
    factor: dict[int, Fraction]
    below: Table
    size: list[Fraction]
    above: Table

    def levels(self, cluster: Cluster) -> dict[int, Fraction]:
        """What the utilities are of, from below."""
        return {j: z / self.size[j] for j, z in cluster.shares(self.below).items()}


class OfUser(NamedTuple):
    """One user's part of a `Curve`; coefficients are by server."""

    alpha: Fraction
    factor: Fraction
    above: list[Fraction]


class CurveOfNumbers(NamedTuple):
    """``sum_t factor_t boxcox(z_t / (w_t unit))`` of the numbers of teams, or above a base."""

    alpha: Fraction
    factor: dict[str, Fraction]
    of: TeamNumbers
    unit: Fraction

    def levels(self, cluster: Cluster) -> dict[str, Fraction]:
        """What the utilities are of, from below."""
        return {t: z / (self.of.weights[t] * self.unit) for t, z in self.of.values().items()}

    def refuse_negative(self, levels: Mapping[Any, Fraction]) -> None:
        """`Fault` if a level is below 0 by more than its base may be missed: its utility is minus infinity."""
        for t, z in levels.items():
            if z * self.of.weights[t] * self.unit < -BLOCK_VIOLATION * self.of.base[t].high:
                raise Fault(f"{t!r} is below its base, so the objective is minus infinity")


class Ranked(NamedTuple):
    """``factor`` times sorted numbers weighted by the decreasing v: the largest weight on the smallest number.

    They are per weight, in multiples of ``unit``.
    """

    factor: Fraction
    v: list[Fraction]
    of: TeamNumbers
    unit: Fraction

    def levels(self) -> list[Fraction]:
        """What is sorted, from below."""
        return sorted(z / (self.of.weights[t] * self.unit) for t, z in self.of.values().items())


class Goal:
    """A concave function of the tasks: linear, curved and ranked terms, and a constant.

    ``slopes_below`` and ``slopes`` enclose the coefficients of the linear terms by user and server.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.constant = cluster, Between(ZERO, ZERO)
        self.curves, self.ranked, self.numbered = list[Curve](), list[Ranked](), list[CurveOfNumbers]()
        self.slopes_below, self.slopes = ([[ZERO] * cluster.servers for _ in range(cluster.n)] for _ in (0, 1))

    def add(self, objective: Block, times: Fraction, unit: Fraction = ONE) -> None:
        """Add a multiple of an objective, with shares in multiples of ``unit``."""
        cluster = self.cluster
        for factor, term in objective.terms:
            factor *= times
            if factor == 0:
                continue
            if term.name == "FairnessEfficiency" and len(objective.terms) == 1:
                term = as_alpha_fair(term)
            if term.name not in PARAMETERS:
                raise CannotCheck(f"the objective {term.text} is user-defined, and its code is not in the file")
            if term.name not in ("Total", "AlphaFair", "MaxMin", "OrderedWeighted"):
                raise CannotCheck(f"the objective {term.text} cannot be part of a sum")
            alpha = alpha_of(term)
            if alpha and term.share.name not in COMPOSED:
                below, above = cluster.coefficients(term.share)
                sizes = [w * unit for w in cluster.weights]
                above = [[dyadic(v / size) for v in row] for row, size in together(above, sizes)]  # rounded up
                factors = {j: factor * cluster.weights[j] for j in cluster.active}
                self.curves.append(Curve(alpha, factors, below, sizes, above))
                continue
            of = TeamNumbers(cluster, term.share, is_levelled(term))
            if term.name in ("MaxMin", "OrderedWeighted"):
                self.ranked.append(Ranked(factor, rank_weights(term, len(of.weights)), of, unit))
            elif alpha:
                self.numbered.append(CurveOfNumbers(alpha, {t: factor * w for t, w in of.weights.items()}, of, unit))
            else:
                of.add_slopes(self.slopes_below, dict.fromkeys(of.weights, factor / unit), of.below)
                of.add_slopes(self.slopes, dict.fromkeys(of.weights, factor / unit), of.above)
                low, high = (exact_sum(base[k] for base in of.base.values()) * factor / unit for k in (0, 1))
                self.constant = Between(self.constant.low - high, self.constant.high - low)

    def add_kept_levels(self, evidence: Evidence) -> None:
        """Add the kept levels at their multipliers."""
        for (other, level, _), times in together(self.cluster.kept_levels, evidence.kept_multipliers):
            self.add(other, times)
            self.constant = self.constant.plus(-times * level)

    def value(self, scale: Fraction = ONE) -> Fraction:
        """A lower bound on the value at the current tasks times ``scale``."""
        cluster = self.cluster
        total = self.constant.low
        if any(map(any, self.slopes_below)):
            total += scale * exact_sum(cluster.shares(self.slopes_below).values())
        curves: list[Curve | CurveOfNumbers] = [*self.curves, *self.numbered]
        for curve in curves:
            levels: Mapping[Any, Fraction] = curve.levels(cluster)
            factor: Mapping[Any, Fraction] = curve.factor
            if curve.alpha >= 1 and (nothing := [t for t, z in levels.items() if z <= 0]):
                who = cluster.users[nothing[0]] if isinstance(nothing[0], int) else nothing[0]
                raise Fault(f"{who!r} has no share, so the objective is minus infinity")
            if isinstance(curve, CurveOfNumbers):
                curve.refuse_negative(levels)
            pairs = ((factor[t], max(z, ZERO) * scale) for t, z in levels.items())
            total = down(total + sum_of_boxcox(pairs, curve.alpha))
        for term in self.ranked:
            total += scale * term.factor * exact_sum(v * z for v, z in together(term.v, term.levels()))
        return down(total)


class Evidence:
    """Prices by server and resource, multipliers of rows and of kept levels, and mixtures of ranked terms.

    ``cost`` is the cost of a task by user and server, ``size`` the same of absolute terms, as these may cancel, and
    ``row_value`` the multipliers of rows times their right-hand sides. ``costs`` are those of a unit of each user's
    level, if given. ``at_nothing`` is a bound on an objective as written without tasks.
    """

    def __init__(self, cluster: Cluster, entry: Mapping[str, Any], rows: Rows) -> None:
        self.cluster, self.mixtures = cluster, entry.get("mixtures") or []
        # below 0 only by a solver's rounding
        prices = numbers(entry["prices"], "prices", cluster.servers, cluster.m)
        self.prices: Table = [[max(p, ZERO) for p in row] for row in prices]
        y = multipliers(entry.get("rows"), "rows", 3)
        self.rows = [y.get(row.name[:2], ZERO) * row.name.unit for row in rows]
        # a solver's multipliers of inequalities may be below 0 by rounding; 0 is legal, and proves a little less
        self.rows = [t if t > 0 or row.equal else ZERO for t, row in together(self.rows, rows)]
        given = multipliers(entry.get("kept"), "kept", 2)
        self.kept_multipliers = [max(given.get((place,), ZERO), ZERO) for place in cluster.kept_places]
        self.levels = [[number(z, "at") for z in row] for row in entry.get("at") or ()]
        costs = entry.get("costs")
        self.costs = costs and dict(together(cluster.active, numbers(costs, "costs", len(cluster.active))))
        self.cost: Table = [[ZERO] * cluster.servers for _ in range(cluster.n)]
        for j in cluster.active:
            for s in cluster.open[j]:
                need = together(self.prices[s], cluster.demands[j][s])
                self.cost[j][s] = exact_sum(p * d for p, d in need if d)
        self.size: Table = [[*costs] for costs in self.cost]
        for times, row in together(self.rows, rows):
            cluster.clock.check()
            for (j, s), v in row.per_task.items() if times else ():
                self.cost[j][s] += times * v
                self.size[j][s] += abs(times * v)
        self.row_value = exact_sum(times * row.bound for times, row in together(self.rows, rows))
        written, self.at_nothing = entry.get("written"), ZERO
        if written is not None:  # `as_written.Part`
            charge = written.charge(cluster)
            self.at_nothing = charge.value
            self.row_value += charge.value
            for (j, s), v in charge.per_task.items():
                self.cost[j][s] += v
                self.size[j][s] += abs(v)

    def even_out(self, level_per_task: Mapping[int, Mapping[int, Fraction]]) -> None:
        """Scale the prices of servers so that levels which cost a user the same on several up to rounding do exactly.

        Otherwise its tasks on all but the cheapest are slack.
        """
        near: dict[int, dict[int, Fraction]] = {}  # factors of prices on one server relative to another
        for j, each in level_per_task.items():
            costs = {s: self.cost[j][s] / v for s, v in each.items()}
            least = min(costs.values())
            first, *others = (s for s, cost in costs.items() if cost <= least * (1 + ROUNDING))
            for s in others if least > 0 else ():
                near.setdefault(first, {}).setdefault(s, costs[first] / costs[s])
                near.setdefault(s, {}).setdefault(first, costs[s] / costs[first])
        # along a tree of such pairs of servers: factors are 1 up to 1e-12, and any prices prove something
        factors = dict[int, Fraction]()
        for start in near:
            factors.setdefault(start, ONE)
            left = [start]
            while left:
                s = left.pop()
                for t, ratio in near[s].items():
                    if t not in factors:
                        factors[t] = dyadic(factors[s] * ratio)
                        left.append(t)
        for s, factor in factors.items():
            self.prices[s] = [p * factor for p in self.prices[s]]
            for row in self.cost:
                row[s] *= factor

    def right_hand_side(self, room: Mapping[Place, Fraction]) -> Fraction:
        """The dual objective's constant: right-hand sides of capacities and rows times their multipliers."""
        return self.row_value + exact_sum(p * r for (s, i), r in room.items() if (p := self.prices[s][i]))


def multipliers(given: Any, what: str, size: int) -> dict[tuple[Any, ...], Fraction]:
    """Multipliers by name, from lists of a place, a label (of rows), and a number; 0 for others."""
    found: dict[tuple[Any, ...], Fraction] = {}
    for one in given or ():
        if not isinstance(one, list) or len(one) != size or type(one[0]) not in (int, str):
            raise Fault(f"{what} has an entry that is not a place{', a label' * (size == 3)} and a number")
        *name, y = one
        key = tuple(tuple(map(str, part)) if isinstance(part, list) else part for part in name)
        if key in found:
            raise Fault(f"{what} has two multipliers of one row")
        found[key] = number(y, what)
    return found


def mixture(term: Ranked, given: Any) -> tuple[dict[str, Fraction], Fraction]:
    """Weights u >= 0 of what a ranked term sorts that bound it: scaled up until the k smallest sum to at least v's.

    Numbers may be below 0 by their base, so that what the u are more than v in sum counts at the largest base.
    """
    weights = term.of.weights
    u = [max(x, ZERO) for x in numbers(given, "mixtures", len(weights))]
    mine = theirs = ZERO
    scale = ZERO
    for a, b in together(sorted(u), sorted(term.v)):
        mine, theirs = mine + a, theirs + b
        if theirs > 0:
            if mine == 0:  # no factor helps
                raise Fault("mixtures: the weights do not bound sorted shares")
            scale = max(scale, theirs / mine)
    # without a base every number is at least 0, and mixtures may sum to more than v at no cost
    lowest = max(term.of.base[t].high / (w * term.unit) for t, w in weights.items())
    more = max(mine * scale - theirs, ZERO) * max(lowest, ZERO)
    slopes = {t: up(x * scale * term.factor) / (w * term.unit) for (t, w), x in together(weights.items(), u)}
    return slopes, up(term.factor * more)


def bound(goal: Goal, evidence: Evidence, right_hand_side: Fraction) -> Fraction:
    """An upper bound on a goal over all feasible tasks, by weak duality."""
    cluster = goal.cluster
    if len(evidence.mixtures) != len(goal.ranked):
        raise Fault(f"mixtures: there are {len(evidence.mixtures)}, not {len(goal.ranked)}")
    # copied only if terms are added: there may be 3,000 users on 9 servers
    slopes = [row[:] for row in goal.slopes] if goal.ranked or goal.numbered else goal.slopes
    total = dyadic(goal.constant.high + right_hand_side)
    for term, given in together(goal.ranked, evidence.mixtures):
        prices, below = mixture(term, given)
        total += below - term.of.add_slopes(slopes, prices, term.of.above)
    levels = iter(evidence.levels)
    for curve in goal.numbered:
        total = up(total + tangents_of_numbers(cluster, curve, slopes, next(levels, ())))
    for j in cluster.active:
        cluster.clock.check()
        net = {s: slopes[j][s] - evidence.cost[j][s] for s in cluster.open[j]}
        total = up(total + best_of_user(goal, j, net))
    return total


def tangents_of_numbers(cluster: Cluster, curve: CurveOfNumbers, slopes: Table, levels: Sequence[Fraction]) -> Fraction:
    """Add the slopes of tangents of a curve of numbers at ``levels``, or at the tasks, and return their constant."""
    with cluster.at(cluster.tangents_at):
        at = curve.of.values()
    constant, prices = ZERO, dict[str, Fraction]()
    for k, (t, z) in enumerate(at.items()):
        size = curve.of.weights[t] * curve.unit
        # anywhere but at 0, where u has no tangent
        level = levels[k] if len(levels) == len(at) and levels[k] > 0 else max(z, ZERO) / size or ONE
        slope = power(level, -curve.alpha)
        constant += curve.factor[t] * intercept(level, curve.alpha, slope)
        prices[t] = curve.factor[t] * slope.high / size
    return constant - curve.of.add_slopes(slopes, prices, curve.of.above)


def best_of_user(goal: Goal, j: int, net: Mapping[int, Fraction]) -> Fraction:
    """An upper bound on a user's curved terms plus linear terms of slopes ``net``, over its range of total tasks."""
    cluster = goal.cluster
    bounds = cluster.low[j], cluster.most_tasks(j)
    curves = [OfUser(c.alpha, c.factor[j], c.above[j]) for c in goal.curves if c.factor[j].n > 0]
    if not curves:
        return best_at_ends(max(net.values()), *bounds)
    # With several curves or servers the tangents at the tasks may be better than those at the stationary point of the
    # cheapest server. Points that differ by 1e-10 have tangents that differ by its square.
    points = [there := stationary_point(curves, net, *bounds)]
    if len(curves) > 1 or len(net) > 1 or not there[0]:  # else no other point is better
        here = [exact_sum(c.above[s] * cluster.tangents_at[j][s] for s in net) for c in curves]
        points += [here] if any(abs(a - b) > b * CLOSE for a, b in together(here, there)) else []
    return min(tangents(curves, z, net, *bounds) for z in points if min(z) > 0)


def best_at_ends(slope: Fraction, low: Fraction, most: Fraction) -> Fraction:
    """The maximum of a linear function over a range."""
    return slope * (most if slope > 0 else low)


def tangents(
    curves: list[OfUser], at: list[Fraction], net: Mapping[int, Fraction], low: Fraction, most: Fraction
) -> Fraction:
    """`best_of_user` by tangents at the shares ``at``, one per curved term: ``u(z) <= u(at) + u'(at) (z - at)``."""
    constant, slopes = ZERO, dict(net)
    for curve, point in together(curves, at):
        z = dyadic(point, POINT)
        slope = power(z, -curve.alpha)
        constant += dyadic(curve.factor * intercept(z, curve.alpha, slope))
        price = dyadic(curve.factor * slope.high)
        for s in slopes:  # the tangent is a line in tasks on every server
            slopes[s] += price * curve.above[s]
    return dyadic(constant + best_at_ends(max(slopes.values()), low, most))


def stationary_point(
    curves: list[OfUser], net: Mapping[int, Fraction], low: Fraction, most: Fraction
) -> list[Fraction]:
    """Approximate shares at a user's optimum on its cheapest server; any point gives a valid bound, this one a tight
    one.
    """
    first = curves[0].above
    s = min((s for s in net if first[s] > 0), key=lambda s: -net[s] / first[s])
    terms = [(float(alpha), approximate_log(f * c[s]), approximate_log(c[s])) for alpha, f, c in curves if c[s] > 0]
    right = approximate_log(most)  # in logarithms: levels may be outside the range of floats
    left = right - 690.0  # e^-690 is about the least float
    price = approximate_log(-net[s]) if net[s] < 0 else -math.inf
    if net[s] < 0 and len(terms) == 1:
        ((alpha, f, c),) = terms
        left = right = max(min((f - price) / alpha - c, right), left)
    for _ in range(100 if net[s] < 0 and len(terms) > 1 else 0):
        middle = 0.5 * (left + right)
        logs = [f - alpha * (c + middle) - price for alpha, f, c in terms]
        # the marginal utilities over the price: whether they sum to more than 1 is known long before exp overflows
        left, right = (middle, right) if sum(math.exp(min(g, 50.0)) for g in logs) > 1 else (left, middle)
    at = Fraction(math.exp(min(right, 700.0)) * (1 + 1e-13))  # beyond the maximum
    tasks = min(max(at, low), most)
    return [c.above[s] * tasks for c in curves]


def worth_of_tiers(cluster: Cluster, evidence: Evidence, rows: Rows) -> Fraction:
    """What the tasks gain by missing levels of earlier tiers, within their tolerance, at the multipliers of these."""
    missed = [
        (times, exact_sum(v * cluster.tasks[j][s] for (j, s), v in row.per_task.items()) - row.bound)
        for times, row in together(evidence.rows, rows)
        if times and str(row.name.place).startswith("tier")
    ]
    for times, (other, level, _) in together(evidence.kept_multipliers, cluster.kept_levels):
        missed += [(times, level - value_of(cluster, other))] if times else []
    return exact_sum(times * max(by, ZERO) for times, by in missed)


def relative_gap(objective: Block, goal: Goal, top: Fraction, worth: Fraction = ZERO) -> Fraction:
    """The gap of certificates between an upper bound and the value at the tasks.

    ``worth`` is by how much the value may be above the bound, since the tasks miss what it assumes.
    """
    value = goal.value()
    curves: list[Curve | CurveOfNumbers] = [*goal.curves, *goal.numbered]
    # A bound below the value is one of the data without tolerance, and the tasks use the tolerance of 1e-9. The gap is
    # then 0, but where utilities have no lower bound: a small excess of a capacity may be all that a user has.
    if top <= value:
        if not (len(objective.terms) == 1 and curves and curves[0].alpha >= 1) or value <= top + worth:
            return ZERO
        top, value = value, top
    if len(objective.terms) == 1 and curves:  # the logarithm of two weighted power means
        (curve,) = curves
        weight, p = sum(curve.factor.values()), 1 - curve.alpha
        if p == 0:  # of logarithms the difference is that of the logarithms of geometric means
            return (top - value) / weight
        over, under = 1 + p * top / weight, 1 + p * value / weight
        if over <= 0 or under <= 0:
            raise Fault("the prices give no finite bound")
        return (log(over).plus(-log(under).low).high if p > 0 else log(under).plus(-log(over).low).high) / abs(p)
    if len(objective.terms) == 1 and objective.terms[0][1].name in SIZED:
        return (top - value) / top
    # others have no unit: that of docs/methods/cone.md, Bound 7.4. The fall to half alone grows like 2^alpha
    step = Fraction(1, 10**4)
    fall = min(abs(value - goal.value(Fraction(1, 2))), abs(value - goal.value(1 - step)) / step)
    if fall == 0:
        raise Fault("the objective does not depend on the size of the tasks, so no gap is defined")
    return (top - value) / fall


def in_goal_units(cluster: Cluster, objective: Block, level: Fraction) -> Fraction:
    """A level of an objective in the units of `Goal`, whose utilities differ by Box-Cox's constant."""
    for factor, term in objective.terms:
        alpha = alpha_of(term)
        if alpha not in (0, 1):
            weights = TeamNumbers(cluster, term.share, levelled=True).weights.values()
            level -= factor * exact_sum(weights) / (1 - alpha)
    return level


def value_of(cluster: Cluster, objective: Block, scale: Fraction = ONE) -> Fraction:
    """A lower bound on the value of an objective at the current tasks times ``scale``."""
    goal = Goal(cluster)
    goal.add(objective, ONE)
    return goal.value(scale)


def limits_as_rows(cluster: Cluster) -> Rows:
    """Task limits as rows, which prices need if a task's share differs by server."""
    return [
        LinearRow(
            {(j, s): 1 / (high or ONE) for s in cluster.open[j]},
            Fraction(bool(high)),
            False,
            RowName("limits", str(cluster.users[j]), high or ONE),
        )
        for j in cluster.active
        if (high := cluster.high[j]) is not None
    ]


def gap_as_written(cluster: Cluster, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of a user's objective as a program of the file writes it, by prices and the dual point of the program.

    Relative to the largest of its value, its terms, and what it surely falls by as all tasks go to 0, where the dual
    point bounds it.
    """
    if any(isinstance(one, list) and one[:1] == ["limits"] for one in entry.get("rows") or ()):
        rows = rows + limits_as_rows(cluster)
    evidence = Evidence(cluster, entry, rows)
    written, top = entry["written"], bound(Goal(cluster), evidence, evidence.right_hand_side(cluster.usable_units()))
    (value, unit), offset = written.value(), written.program.offset
    top, unit = top - offset, max(unit, value - (evidence.at_nothing - offset))
    if not unit:
        raise Fault("the objective as written is 0, so no gap is defined")
    return abs(top - value) / unit


def gap_by_prices(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of a sum of objectives, by prices."""
    unit = number(entry.get("unit", 1), "unit")
    if unit <= 0 or (unit != 1 and len(objective.terms) > 1):
        raise Fault("unit is not positive, or is not 1 for a sum of objectives")
    alone = Goal(cluster)
    alone.add(objective, ONE, unit)
    # limits are in the ranges of users' totals; where a task's share differs by server they have multipliers too
    if any(isinstance(one, list) and one[:1] == ["limits"] for one in entry.get("rows") or ()):
        rows = rows + limits_as_rows(cluster)
    evidence, bounded = Evidence(cluster, entry, rows), alone
    if cluster.kept_levels:
        bounded = Goal(cluster)
        bounded.add(objective, ONE, unit)
        bounded.add_kept_levels(evidence)
    top = bound(bounded, evidence, evidence.right_hand_side(cluster.usable_units()))
    return relative_gap(objective, alone, top, worth_of_tiers(cluster, evidence, rows))
