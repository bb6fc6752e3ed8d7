"""A policy on an instance as a concave program in rational numbers, or in balls where a share is a norm.

Columns are the tasks of users on the servers where they may run. A sum of the k smallest shares is ``k t - sum_j d_j``
with ``t - d_j`` at most each share, so that ordered weights and max-min add columns t and d.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fairopt.errors import OutOfDomain
from fairopt.exact import modelling
from fairopt.exact.concave import Coefficients, ConcaveProgram, Curve, LogMean, Rational
from fairopt.exact.flint import flint
from fairopt.exact.modelling import as_rational
from fairopt.exact.reading import Exactly
from fairopt.proofs import rational

EDGE = rational.ROUNDING  # relative distance from the edge of alpha-fairness that counts as on it, as for `allocate`


class Compared(NamedTuple):
    """What an objective compares: coefficients, base and weight of each number, by the name of its user or team."""

    coefficients: Mapping[str, Coefficients]
    base: dict[str, Any]
    weights: dict[str, Rational]


class Written:
    """The program of an objective and constraints; ``columns`` are the first of its columns, by user and server.

    If ``sign`` is not 0, the program maximises ``sign`` times the logarithm of the objective, whose sign it is.
    """

    def __init__(self, read: Exactly, objective: rational.Block, conditions: Iterable[rational.Block]) -> None:
        self.cluster, self.sign = read.cluster, 0
        self.rows: list[tuple[dict[int, Any], Rational]] = []
        self.equations: list[tuple[dict[int, Any], Rational]] = []
        self.linear: dict[int, Any] = {}
        self.curves: list[Curve] = []
        self.mean: LogMean | None = None
        self.constant: Any = flint.fmpq(0)
        floors = self._floors(objective)
        self._keep_bases(objective)
        imposed = floors + [row for condition in conditions for row in self._imposed(condition)]
        given, objective = objective, self._of_those_who_rise(objective, imposed)
        self.of_nobody = objective is not given  # and its value 0
        self._add_columns()
        self._add_bounds()
        for coefficients, bound, equal in imposed:
            row = {self.place[pair]: as_rational(v) for pair, v in coefficients.items() if pair in self.place}
            (self.equations if equal else self.rows).append((row, as_rational(bound)))
        terms = [(factor, term) for factor, term in objective.terms if factor and self.cluster.active]
        for factor, term in terms:
            if term.name == "FairnessEfficiency":
                if len(terms) > 1 or factor != 1:
                    raise OutOfDomain(f"{term.text} has exact bounds only where it stands alone")
                self._add_measure(term)
            else:
                self._add(as_rational(factor), term)

    @property
    def program(self) -> ConcaveProgram:
        """The program."""
        return ConcaveProgram(self.top, self.rows, self.equations, self.linear, self.curves, self.mean, self.constant)

    # -- columns and rows

    def _floors(self, objective: rational.Block) -> rational.Rows:
        """The floors of teams as rows."""
        if self.cluster.team_guarantees:
            shares = {
                term.share.share.of_user.text: term.share.share.of_user
                for _, term in objective.terms
                if term.name in rational.OBJECTIVES
                and term.share.name == "Surplus"
                and term.share.share.name == "OfTeam"
            }
            modelling.floors(self.cluster, shares.values())
        return rational.guaranteed(self.cluster)

    def _keep_bases(self, objective: rational.Block) -> None:
        """Make the bases of surpluses lower bounds on tasks."""
        for _, term in objective.terms:
            if term.name in rational.OBJECTIVES and term.share.name == "Surplus":
                for j, x in rational.Numbers(self.cluster, term.share).kept.items():
                    self.cluster.low[j] = max(self.cluster.low[j], x)

    def _of_those_who_rise(self, objective: rational.Block, rows: rational.Rows) -> rational.Block:
        """Find who cannot rise above the base of a surplus (`Cluster.stays`), and the objective if that is everyone."""
        for share in (term.share for _, term in objective.terms if rational.is_surplus(term)):
            numbers = rational.Numbers(self.cluster, share)
            compared = {t: rational.Number({}, base.low) for t, base in numbers.base.items()}
            for j, t in numbers.of_user.items():  # norms from below: who can rise does not depend on their last digits
                compared[t].row.update({(j, s): numbers.below[j][s] for s in self.cluster.open[j]})
            stays = modelling.leximin(self.cluster, compared, rows, until=flint.fmpq(0))[2]
            self.cluster.stays[share.text] = stays
            if stays == compared.keys() and len(objective.terms) == 1:
                return rational.Block("Total", {"share": share.share}, objective.text)
        return objective

    def _imposed(self, condition: rational.Block) -> rational.Rows:
        rows = self.cluster.impose(condition)
        if self.cluster.kept_levels:
            raise OutOfDomain(
                f"{condition.text} bounds no sum of shares, and exact bounds take linear constraints only"
            )
        share = condition.given.get("share")
        of_user = None if share is None else share.share.of_user if share.name == "Surplus" else share.of_user
        if of_user is not None and of_user.name == "PNormShare" and of_user.given["p"] not in (0, 1, float("inf")):
            raise OutOfDomain(f"{condition.text}: coefficients of norms are irrational, so that it has no exact bounds")
        return rows

    def _add_columns(self) -> None:
        cluster = self.cluster
        self.columns: list[tuple[int, int]] = []
        self.top: list[Rational] = []
        self.limited = set[int]()  # users whose limits are below what capacities leave to them alone
        for j in cluster.active:
            high, alone = cluster.high[j], [cluster.tasks_alone(j, s, cluster.usable) for s in cluster.open[j]]
            if high is not None and (None in alone or rational.exact_sum(filter(None, alone)) > high):
                self.limited.add(j)
            for s, most in zip(cluster.open[j], alone, strict=True):
                bound = min(b for b in (most, high) if b is not None)
                if bound > 0:
                    self.columns.append((j, s))
                    self.top.append(as_rational(bound))
        self.place = {pair: c for c, pair in enumerate(self.columns)}

    def _add_bounds(self) -> None:
        """Rows of capacities, and of limits and lower bounds on tasks."""
        cluster, of_user = self.cluster, dict[int, list[int]]()
        loads: dict[tuple[int, int], dict[int, Rational]] = {}
        for c, (j, s) in enumerate(self.columns):
            of_user.setdefault(j, []).append(c)
            for i, d in enumerate(cluster.demands[j][s]):
                if d:
                    loads.setdefault((s, i), {})[c] = as_rational(d)
        units = cluster.usable_units()
        for place, row in loads.items():
            self.rows.append((row, as_rational(units[place])))
        for j in cluster.active:
            mine, high = of_user.get(j, []), cluster.high[j]
            if high is not None and high == cluster.low[j]:
                self.equations.append((dict.fromkeys(mine, flint.fmpq(1)), as_rational(high)))
                continue
            if high is not None and j in self.limited:
                self.rows.append((dict.fromkeys(mine, flint.fmpq(1)), as_rational(high)))
            if cluster.low[j] > 0:
                self.rows.append((dict.fromkeys(mine, flint.fmpq(-1)), -as_rational(cluster.low[j])))

    def _column(self, top: Any) -> int:
        """A new column."""
        self.top.append(top)
        return len(self.top) - 1

    # -- objectives

    def compared(self, term: rational.Block) -> Compared:
        """What a term compares."""
        cluster = self.cluster
        numbers = rational.Numbers(cluster, term.share)
        stay = cluster.stays.get(term.share.text, set()) if rational.is_surplus(term) else set()
        weights = {t: as_rational(w) for t, w in numbers.weights.items() if t not in stay}
        share = term.share.share if term.share.name == "Surplus" else term.share
        of = {j: {s: self._per_task(share.of_user, j, s) for s in cluster.open[j]} for j in numbers.of_user}
        rows: dict[str, dict[int, Any]] = {t: {} for t in weights}
        base: dict[str, Any] = {t: as_rational(b.low) for t, b in numbers.base.items()}
        irrational = [t for t, b in numbers.base.items() if b.low != b.high]
        base |= dict.fromkeys(irrational, flint.fmpq(0))
        for j, t in numbers.of_user.items():
            if t in stay:
                continue
            for s, c in of[j].items():
                if c != 0 and (j, s) in self.place:
                    rows[t][self.place[j, s]] = c
            if t in irrational and (x := numbers.kept.get(j)):
                base[t] += as_rational(x) * smallest(of[j].values())
        return Compared(rows, base, weights)

    def _per_task(self, share: rational.Block, j: int, s: int) -> Any:
        """The share of a task, as a fraction or a ball."""
        cluster = self.cluster
        p = share.given.get("p")
        if share.name != "PNormShare" or p in (0, 1, float("inf")):
            return as_rational(cluster.coefficients(share)[0][j][s])
        ratios = [d / c for d, c in zip(cluster.demands[j][s], cluster.capacity, strict=True) if c and d]
        if len(ratios) == 1:
            return as_rational(ratios[0])
        power = flint.arb(as_rational(rational.number(p, "p")))
        return sum((flint.arb(as_rational(r)) ** power for r in ratios), flint.arb(0)) ** (1 / power)

    def _add(self, factor: Rational, term: rational.Block) -> None:
        """Add a multiple of a term."""
        if term.name not in ("Total", "AlphaFair", "MaxMin", "Leximin", "OrderedWeighted"):
            raise OutOfDomain(f"{term.text} has no exact bounds: these are for fairopt's own objectives of tasks")
        compared = self.compared(term)
        alpha = (
            as_rational(rational.number(term.given["alpha"], "alpha", 0)) if term.name == "AlphaFair" else flint.fmpq(0)
        )
        if term.name in ("MaxMin", "Leximin", "OrderedWeighted"):
            self._add_ranked(factor, term, compared)
        elif alpha == 0:
            for t in compared.weights:
                self._add_linear(factor, compared, t)
        else:
            for t, w in compared.weights.items():
                row = {c: v / w for c, v in compared.coefficients[t].items()}
                self.curves.append(Curve(factor * w, alpha, row, compared.base[t] / w))

    def _add_linear(self, factor: Any, compared: Compared, t: str) -> None:
        for c, v in compared.coefficients[t].items():
            self.linear[c] = self.linear.get(c, 0) + factor * v
        self.constant -= factor * compared.base[t]

    def _add_ranked(self, factor: Rational, term: rational.Block, compared: Compared) -> None:
        """Sorted shares per weight; of leximin its first level, the smallest."""
        names = list(compared.weights)
        if not names:
            return
        v = [as_rational(x) for x in rational.rank_weights(term, len(names))]
        most = {
            t: sum((a * self.top[c] for c, a in compared.coefficients[t].items()), flint.fmpq(0)) / compared.weights[t]
            for t in names
        }
        top = max(above(value) for value in most.values())
        for k in range(1, len(names) + 1):
            step = v[k - 1] - (v[k] if k < len(names) else 0)
            if step == 0:
                continue
            if k == len(names):
                for t, w in compared.weights.items():
                    self._add_linear(factor * step / w, compared, t)
                continue
            level = self._column(top)
            self.linear[level] = factor * step * k
            for t, w in compared.weights.items():
                row = {c: -a / w for c, a in compared.coefficients[t].items()} | {level: flint.fmpq(1)}
                if k > 1:
                    row[self._column(top)] = flint.fmpq(-1)
                    self.linear[len(self.top) - 1] = -factor * step
                self.rows.append((row, -compared.base[t] / w))

    def _add_measure(self, term: rational.Block) -> None:
        """``sgn(1 - beta)`` times the logarithm of the measure of fairness and efficiency."""
        compared = self.compared(term)
        beta, lam = (as_rational(rational.number(term.given[name], name)) for name in ("beta", "lam"))
        q = 1 - beta
        self.sign = 1 if q >= 0 else -1
        edge, emphasis = abs(q) / abs(beta), lam * self.sign
        if abs(emphasis - edge) <= as_rational(EDGE) * edge:
            emphasis = edge
        if beta < 0 or emphasis < edge:
            raise OutOfDomain(f"{term.text} is not concave, so that it has no exact bounds")
        if q != 0:
            first = len(self.curves)
            for t in compared.weights:
                self.curves.append(Curve(flint.fmpq(0), beta, compared.coefficients[t], compared.base[t]))
            parts = [flint.arb(w) ** flint.arb(beta) for w in compared.weights.values()]
            self.mean = LogMean(edge, q, range(first, len(self.curves)), parts)
        else:
            self.constant = flint.arb(sum(compared.weights.values(), flint.fmpq(0))).log()
        if emphasis > edge:
            total: dict[int, Any] = {}
            for row in compared.coefficients.values():
                for c, a in row.items():
                    total[c] = total.get(c, 0) + a
            base = sum(compared.base.values(), flint.fmpq(0))
            self.curves.append(Curve(emphasis - edge, flint.fmpq(1), total, base))


def above(x: Any) -> Rational:
    """A fraction that is not below a number."""
    if isinstance(x, flint.fmpq):
        return x
    mantissa, exponent = x.upper().man_exp()
    return flint.fmpq(mantissa) * flint.fmpq(2) ** int(exponent)


def smallest(values: Iterable[Any]) -> Any:
    """A ball with the smallest of several numbers."""
    least, *others = map(flint.arb, values)
    for value in others:
        least = least.min(value)
    return least


def objective_of(policy: rational.Block) -> tuple[rational.Block, str]:
    """The part of a policy's objective that bounds are of, and what it is."""
    objective = policy.given["objective"]
    if objective.name == "Tiers":
        objective, what = objective.given["tiers"][0], "the first tier"
        return objective, "the first level of the first tier" if objective.name == "Leximin" else what
    return objective, "the first level" if objective.name == "Leximin" else "the objective"


def conditions_of(policy: rational.Block) -> Iterable[rational.Block]:
    """A policy's constraints."""
    given: Mapping[str, Any] = policy.given
    return rational.as_list(given.get("constraints") or [])
