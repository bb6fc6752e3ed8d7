"""Proven intervals for optimal values, also where these are irrational (`Allocation.exact_bounds`).

A policy on an instance is a concave program in rational numbers, or in balls where a share is a norm:

    max g'x + sum_t f_t u((R x - b)_t) + c log M   subject to capacities, limits, bounds and linear constraints.

Columns are the tasks of users on the servers where they may run. A sum of the k smallest shares is ``k t - sum_j d_j``
with ``t - d_j`` at most each share, so that ordered weights and max-min add columns t and d; sums over all users need
none. `FairnessEfficiency` enters by its logarithm, where it is concave; the interval of the value is that of the
logarithm put through exp, wider by the size of the value. Programs are written here and enclosed in
`fairopt.exact.concave`.

Why not the gap of the certificate: it is computed in floats, and says nothing below 1e-9. The answer is a start only.
What rounding decides is refused and not enclosed: whether a user can rise above its base at all (at alpha >= 1 the
value is then minus infinity, or that of fewer users), in rationals otherwise than in floats. Ends are rounded outwards,
and tests hold them against closed forms of 60 digits (docs/exact.md, *Intervals for other optima*).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from fairopt.allocation import Allocation, ChangedByHand
from fairopt.blocks.algebra import AtLeast, Objective, Tiers
from fairopt.blocks.base import parameter
from fairopt.blocks.built_in import in_built_in
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, OrderedWeighted, Total
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.errors import NotCertified, OutOfDomain
from fairopt.exact import bundles, modelling
from fairopt.exact.allocate import explained, of_surpluses, reading_of
from fairopt.exact.cluster import Cluster, ExactNumbers, Rows, text
from fairopt.exact.concave import Arb, ConcaveProgram, Curve, LogMean, enclose, precision, relative_width
from fairopt.exact.interval import ExactBounds
from fairopt.exact.proof import settled
from fairopt.exact.rationals import Rational, as_fraction, as_rational, flint, required, total
from fairopt.exact.tiers import (
    guaranteed,
    impose,
    is_linear,
    is_surplus,
    keep_bases,
    limited,
    rank_weights,
    share_of,
    smallest,
    terms_of,
    tiers,
)
from fairopt.runtime.clock import begin
from fairopt.runtime.display import label
from fairopt.runtime.tolerances import ROUNDING
from fairopt.solve.form.program import Program
from fairopt.solve.form.rising import names_at_base

SMALLEST = 1e-300  # width: smaller ones underflow, as widths are floats
EDGE = ROUNDING  # relative distance from the edge of alpha-fairness that counts as on it, as for `allocate`


class PolicyProgram:
    """The program of an objective and constraints; ``columns`` are the first of its columns, by user and server.

    If ``sign`` is not 0, the program maximises ``sign`` times the logarithm of the objective, whose sign it is.
    """

    def __init__(self, cluster: Cluster, objective: Objective, conditions: Sequence[Constraint]) -> None:
        self.cluster, self.sign = cluster, 0
        self.rows: list[tuple[dict[int, Any], Rational]] = []
        self.equations: list[tuple[dict[int, Any], Rational]] = []
        self.linear: dict[int, Any] = {}
        self.curves: list[Curve] = []
        self.mean: LogMean | None = None
        self.constant: Any = flint.fmpq(0)
        imposed = self._imposed(objective, conditions)
        given, objective = objective, self._of_those_who_rise(objective, imposed, conditions)
        self.of_nobody = objective is not given  # and its value 0
        self._add_columns()
        self._add_bounds()
        for coefficients, bound, equal in imposed:
            row = {self.place[pair]: v for pair, v in coefficients.items() if pair in self.place}
            (self.equations if equal else self.rows).append((row, bound))
        terms = [(factor, term) for factor, term in terms_of(objective) if factor and self.cluster.active]
        for factor, term in terms:
            if isinstance(term, FairnessEfficiency):
                if len(terms) > 1 or factor != 1:
                    raise OutOfDomain(f"{term} has exact bounds only where it stands alone")
                self._add_measure(term)
            else:
                self._add(factor, term)

    @property
    def program(self) -> ConcaveProgram:
        """The program."""
        return ConcaveProgram(self.top, self.rows, self.equations, self.linear, self.curves, self.mean, self.constant)

    # -- columns and rows

    def _imposed(self, objective: Objective, conditions: Sequence[Constraint]) -> Rows:
        """The floors of teams and the constraints as rows; the bases of surpluses become lower bounds on tasks."""
        cluster = self.cluster
        for condition in conditions:
            if isinstance(condition, AtLeast) and not (is_linear(condition.objective) or smallest(condition.objective)):
                raise OutOfDomain(f"{condition} bounds no sum of shares, and exact bounds take linear constraints only")
            # a row of roots is no row in fractions, in which feasibility is decided
            share = getattr(condition, "share", None)
            if isinstance(share, Share) and cluster.is_irrational(share._of_user):
                raise OutOfDomain(
                    f"{condition}: coefficients of its share are irrational, so that it has no exact bounds"
                )
        if cluster.instance.team_guarantees:
            shares = [share_of(term) for _, term in objective.summands()]
            teams = [share.share for share in shares if isinstance(share, Surplus)]
            modelling.floors(cluster, {team.share for team in teams if isinstance(team, OfTeam)})
        keep_bases(cluster, objective)
        return guaranteed(cluster) + limited(cluster) + impose(cluster, conditions)[0]

    def _of_those_who_rise(self, objective: Objective, rows: Rows, conditions: Sequence[Constraint]) -> Objective:
        """Find who cannot rise above the base of a surplus (`Cluster.stays`), and the objective if that is everyone."""
        for _, term in objective.summands():
            if is_surplus(term) and isinstance(share := share_of(term), Surplus):
                # from below: who can rise does not depend on the last digits of roots
                compared = ExactNumbers(self.cluster, share).from_below()
                # a leximin that ends once all that are left can be above 0 together
                stays = modelling.leximin(self.cluster, compared, rows, until=self.cluster.zero)[2]
                self.cluster.stays[text(share)] = stays
                if _is_infinite_at_zero(term):
                    program = Program(self.cluster.instance, objective, conditions)
                    _refuse_other_numbers(share, stays, names_at_base(program, share))
                if stays == compared.keys() and len(objective.summands()) == 1:
                    return Total(share.share)
        return objective

    def _add_columns(self) -> None:
        cluster = self.cluster
        self.columns: list[tuple[int, int]] = []
        self.top: list[Rational] = []
        # users whose limits are below what capacities leave to them alone: other limits are rows that never bind
        self.limited = set[int]()
        for j in cluster.active:
            high, alone = cluster.high[j], [cluster.tasks_alone(j, s, cluster.usable) for s in cluster.open[j]]
            if high is not None and (None in alone or total(x for x in alone if x) > high):
                self.limited.add(j)
            for s, most in zip(cluster.open[j], alone, strict=True):
                bound = min(b for b in (most, high) if b is not None)
                if bound > 0:  # an interior point needs room in every column
                    self.columns.append((j, s))
                    self.top.append(bound)
        self.place = {pair: c for c, pair in enumerate(self.columns)}

    def _add_bounds(self) -> None:
        """Rows of capacities, and of limits and lower bounds on tasks."""
        cluster, of_user = self.cluster, dict[int, list[int]]()
        loads: dict[tuple[int, int], dict[int, Rational]] = {}
        for c, (j, s) in enumerate(self.columns):
            of_user.setdefault(j, []).append(c)
            for i, d in enumerate(cluster.demands[j][s]):
                if d:
                    loads.setdefault((s, i), {})[c] = d
        units = cluster.units
        for place, row in loads.items():
            self.rows.append((row, units[place]))
        for j in cluster.active:
            mine, high = of_user.get(j, []), cluster.high[j]
            if high is not None and high == cluster.low[j]:  # two rows without a point inside: one equation
                self.equations.append((dict.fromkeys(mine, flint.fmpq(1)), high))
                continue
            if high is not None and j in self.limited:
                self.rows.append((dict.fromkeys(mine, flint.fmpq(1)), high))
            if cluster.low[j] > 0:
                self.rows.append((dict.fromkeys(mine, flint.fmpq(-1)), -cluster.low[j]))

    def _column(self, top: Any) -> int:
        """A new column."""
        self.top.append(top)
        return len(self.top) - 1

    # -- objectives

    def compared(self, term: Objective) -> list[Curve]:
        """What a term compares: the line ``w z`` of each number z per weight w."""
        cluster, share = self.cluster, share_of(term)
        numbers = ExactNumbers(cluster, share)
        stay = cluster.stays.get(text(share), set()) if is_surplus(term) else set()
        rows: dict[str, dict[int, Any]] = {t: {} for t in numbers.weights if t not in stay}
        for j, t in numbers.of_user.items():
            for s in cluster.open[j] if t not in stay else ():
                c = ball(numbers.below[j][s], numbers.above[j][s])
                if c != 0 and (j, s) in self.place:
                    rows[t][self.place[j, s]] = c / numbers.weights[t]
        line, weights = flint.fmpq(0), numbers.weights
        return [Curve(weights[t], line, row, ball(*numbers.base[t]) / weights[t]) for t, row in rows.items()]

    def _add(self, factor: Rational, term: Objective) -> None:
        """Add a multiple of a term."""
        if not isinstance(term, (Total, AlphaFair, MaxMin, Leximin, OrderedWeighted)):
            raise OutOfDomain(f"{term} is none of the objectives that have exact bounds")
        compared = self.compared(term)
        alpha = self.cluster.number(term.alpha) if isinstance(term, AlphaFair) else flint.fmpq(0)
        if isinstance(term, (MaxMin, Leximin, OrderedWeighted)):
            self._add_ranked(factor, term, compared)
        elif alpha == 0:
            for one in compared:
                self._add_linear(factor * one.factor, one)
        else:  # w u(z), as weights count users
            self.curves += [one._replace(factor=factor * one.factor, alpha=alpha) for one in compared]

    def _add_linear(self, factor: Any, of: Curve) -> None:
        for c, v in of.coefficients.items():
            self.linear[c] = self.linear.get(c, 0) + factor * v
        self.constant -= factor * of.base

    def _add_ranked(self, factor: Rational, term: MaxMin | Leximin | OrderedWeighted, compared: list[Curve]) -> None:
        """Sorted shares per weight; of leximin its first level, the smallest."""
        n = len(compared)
        if not n:
            return
        v = rank_weights(term, n)
        most = [sum((a * self.top[c] for c, a in one.coefficients.items()), flint.fmpq(0)) for one in compared]
        top = max(map(above, most))  # a proven range for the columns t and d
        for k in range(1, n + 1):
            step = v[k - 1] - (v[k] if k < n else 0)
            if step == 0:
                continue
            if k == n:  # the sum of all is linear
                for one in compared:
                    self._add_linear(factor * step, one)
                continue
            level = self._column(top)
            self.linear[level] = factor * step * k
            for one in compared:
                # t - d <= z; of the smallest number alone t <= z
                row = {c: -a for c, a in one.coefficients.items()} | {level: flint.fmpq(1)}
                if k > 1:
                    row[self._column(top)] = flint.fmpq(-1)
                    self.linear[len(self.top) - 1] = -factor * step
                self.rows.append((row, -one.base))

    def _add_measure(self, term: FairnessEfficiency) -> None:
        """``sgn(1 - beta)`` times the logarithm of the measure of fairness and efficiency."""
        compared = self.compared(term)
        beta, lam = self.cluster.number(term.beta), self.cluster.number(term.lam)
        q = 1 - beta
        self.sign = 1 if q >= 0 else -1
        edge, emphasis = abs(q) / abs(beta), lam * self.sign
        # lambda = -2/3 at beta = 3 is a decimal 1e-16 below the edge, and would be refused as not concave
        if abs(emphasis - edge) <= self.cluster.number(EDGE) * edge:
            emphasis = edge
        if beta < 0 or emphasis < edge:
            raise OutOfDomain(f"{term} is not concave, so that it has no exact bounds")
        weights = [one.factor for one in compared]
        if q != 0:
            first = len(self.curves)
            self.curves += [one._replace(factor=flint.fmpq(0), alpha=beta) for one in compared]
            self.mean = LogMean(edge, q, range(first, len(self.curves)), weights)
        else:
            self.constant = flint.arb(sum(weights, flint.fmpq(0))).log()
        if emphasis > edge:  # what is left of efficiency is a logarithm of the sum of shares
            total: dict[int, Any] = {}
            for one in compared:
                for c, a in one.coefficients.items():
                    total[c] = total.get(c, 0) + one.factor * a
            base = sum((one.factor * one.base for one in compared), flint.fmpq(0))
            self.curves.append(Curve(emphasis - edge, flint.fmpq(1), total, base))


def _is_infinite_at_zero(term: Objective) -> bool:
    """Whether a term is minus infinity, or 0 as a product is, where a number is 0."""
    power = term.alpha if isinstance(term, AlphaFair) else term.beta if isinstance(term, FairnessEfficiency) else 0
    return bool(power >= 1)


def _refuse_other_numbers(share: Surplus, stays: set[str], in_floats: set[str]) -> None:
    """`OutOfDomain` if others leave an objective in rational numbers than in floats, as a guarantee just fits.

    At alpha >= 1 a number that can rise by no more than rounding decides the value.
    """
    if other := sorted(stays ^ in_floats):
        what, where = ("user", "team")[share._counts_teams], ("rational numbers", "floats")[other[0] in stays]
        raise OutOfDomain(
            f"whether {what} {other[0]!r} can rise above the base of {share} is decided by rounding: in {where} it "
            "can, otherwise not; lower its base a little, or give numbers as Fractions"
        )


def above(x: Any) -> Rational:
    """A fraction that is not below a number."""
    if isinstance(x, flint.fmpq):
        return x
    mantissa, exponent = x.upper().man_exp()
    return flint.fmpq(mantissa) * flint.fmpq(2) ** int(exponent)


def ball(low: Rational, high: Rational) -> Any:
    """A number between two others: a fraction if they are equal, else a ball."""
    return low if low == high else flint.arb(low).union(flint.arb(high))


def objective_of(policy: Any) -> tuple[Objective, str]:
    """The part of a policy's objective that bounds are of, and what it is."""
    objective = policy.objective
    if isinstance(objective, Tiers):
        first = objective.tiers[0]
        return first, "the first level of the first tier" if isinstance(first, Leximin) else "the first tier"
    return objective, "the first level" if isinstance(objective, Leximin) else "the objective"


def exact_bounds(allocation: Allocation, width: float, time_limit: float | None) -> ExactBounds:
    """`Allocation.exact_bounds`."""
    width, policy = parameter(width, "width", low=SMALLEST, high=1.0), allocation.policy
    if isinstance(policy, ChangedByHand) or allocation.certificate.whole:
        what = "a problem changed by hand" if isinstance(policy, ChangedByHand) else "whole tasks"
        raise OutOfDomain(f"exact bounds are for the divisible optimum of a policy, not for {what}")
    if getattr(policy, "objective", None) is None:
        raise OutOfDomain(f"{label(policy)} is a mechanism without an objective, whose value could be bounded")
    clock = begin(time_limit, needs_cvxpy=False)
    allocation = replace(allocation, policy=in_built_in(policy))
    return clock.run(lambda: _enclosed(allocation, width))


def _enclosed(allocation: Allocation, width: float) -> ExactBounds:
    """The bounds of a policy."""
    policy, instance = allocation.policy, allocation.instance
    objective, of = objective_of(policy)
    bits, reading = precision(width), reading_of(policy, instance)
    # an exact answer's value needs no program
    if allocation.exact_tasks is not None and not bundles.decides_bundles(policy):
        value = _at_exact_tasks(allocation)
        rows = tuple(map(tuple, allocation.exact_tasks))
        return ExactBounds(value, value, rows, 0.0, of, reading)
    required()
    with explained(policy, instance, "exact bounds"), flint.ctx.workprec(bits):
        cluster = Cluster(instance, Fraction(1, 2**bits))
        if bundles.decides_bundles(policy):
            ends, tasks, reached = _of_bundles(cluster, policy)
        else:
            ends, tasks, reached = _of_tasks(cluster, objective, allocation, width)
        lower, upper = _fraction(ends[0].lower()), _fraction(ends[1].upper())
    if not reached <= width:  # also NaN
        raise NotCertified(f"exact bounds: {bits} bits reached a width of {reached:.2g}; give a width above {width:g}")
    return ExactBounds(lower, upper, tasks, reached, of, reading)


def _at_exact_tasks(allocation: Allocation) -> Fraction:
    """The value of an exact answer."""
    assert allocation.exact_tasks is not None and allocation.exact_proof is not None
    policy, cluster = allocation.policy, Cluster(allocation.instance)
    modelling.floors(cluster, of_surpluses(policy))
    tasks = [list(map(as_rational, row)) for row in allocation.exact_tasks]
    tier = next(tiers(cluster, policy, settled(cluster, allocation.exact_proof["proof"]), lambda: tasks))
    return as_fraction(tier.value(tasks))


Found = tuple[Sequence[Arb], tuple[tuple[Fraction, ...], ...], float]


def _of_tasks(cluster: Cluster, objective: Objective, allocation: Allocation, width: float) -> Found:
    """The ends for an objective of tasks, in natural units."""
    made = PolicyProgram(cluster, objective, allocation.policy.constraints)
    program = made.program
    start = [float(allocation.tasks_by_server[j, s]) for j, s in made.columns]
    start += [float(top) / 2 for top in program.top[len(start) :]]  # of t and d
    enclosure = enclose(program, start, width, absolute=made.sign != 0)
    ends: list[Arb] = [flint.arb(0)] * 2 if made.of_nobody else [enclosure.lower, enclosure.upper]
    if made.sign:  # of the logarithm of a measure
        ends = [made.sign * (made.sign * end).exp() for end in ends]  # increasing for both signs
    n, servers = allocation.instance.eligible.shape
    tasks = [[Fraction(0)] * servers for _ in range(n)]
    for (j, s), x in zip(made.columns, enclosure.point, strict=False):
        tasks[j][s] = Fraction(int(x.p), int(x.q))
    return ends, tuple(map(tuple, tasks)), enclosure.width


def _of_bundles(cluster: Cluster, policy: Any) -> Found:
    """The ends for weighted logarithms of bundles, at the optimal bundles."""
    value, gain = flint.arb(0), flint.fmpq(0)
    best = bundles.optimal_bundles(cluster, policy)
    factor = sum(factor for factor, _ in terms_of(policy.objective))
    for group in bundles.groups_of(cluster, policy):
        for j, base in group.base.items():
            held = best[j][group.server][group.resource] / group.copies  # on one of the equal servers
            weight = base * group.copies * factor
            value, gain = value + weight * flint.arb(held).log(), gain + weight
    rows = tuple(tuple(map(as_fraction, row)) for row in bundles.tasks_in(cluster, best))
    return [value, value], rows, relative_width(value.lower(), value.upper(), flint.arb(gain))


def _fraction(x: Any) -> Fraction:
    """A ball of one number as a fraction."""
    mantissa, exponent = (int(v) for v in x.mid().man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent
