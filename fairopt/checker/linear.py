"""Optima of piecewise linear objectives in fractions, proved by prices without tolerances.

For a linear function ``q @ x`` of tasks, prices p >= 0 of capacities C and multipliers y of rows ``A x <= b``, every
feasible x has

    q @ x <= p @ C + y @ b + sum_j max over low_j <= T <= most_j of  T max_s (q_js - p_s @ d_js - y @ A_js).

By strong duality an optimum has rational multipliers whose bound is its value, so that the comparison needs no
tolerance. Levels of leximin are proved from the lowest up (`prove_levels`): prices fix the numbers that are at their
level at every optimum. So answers in floats are proved too whose levels rounding decides (`gap_by_exact_levels`;
Proposition 5.17 in docs/methods/servers.md). Where demands differed by 1e-10 between servers, a first level that was
5e-11 too low gave a later user 0.28 instead of 0.16; a point in fractions leaves nothing to later levels.

Why a second writing of `fairopt.exact.proof`, line by line: the checker may be run where nothing else of fairopt is,
and a fault of one is found by the other. Numbers of one sum are brought to one denominator (`in_common`), else each
addition would find a common denominator of numbers of hundreds of digits anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .instance import Cluster, check_keys
from .numbers import (
    ONE,
    ZERO,
    Fraction,
    LinearRow,
    Pair,
    RowName,
    Rows,
    Table,
    exact_sum,
    exact_text,
    fraction,
    in_common,
    position,
    rational,
    together,
)
from .outcome import CannotCheck, Fault
from .policy import Block, as_alpha_fair, rank_weights
from .teams import LIMITED, TeamNumbers


class Number(NamedTuple):
    """What an exact objective compares: ``sum c x - base`` per weight, of a user or a team."""

    row: dict[Pair, Fraction]
    base: Fraction

    def at(self, tasks: Table) -> Fraction:
        """The number at tasks."""
        return exact_sum(v * tasks[j][s] for (j, s), v in self.row.items()) - self.base


def exact_coefficients(cluster: Cluster, share: Block) -> Table:
    """The share of one task by user and server, where it is rational."""
    below, above = cluster.coefficients(share)
    for j in cluster.active:
        for s in cluster.open[j]:
            rational(below[j][s], above[j][s], f"{share.text} of user {cluster.users[j]!r}")
    return below


def exact_numbers(cluster: Cluster, share: Block, levelled: bool) -> dict[str, Number]:
    """The numbers of a share by label, per weight if they are ``levelled``; without those in `Cluster.stays`."""
    c, out, compared = exact_coefficients(cluster, share.of_user), dict[str, Number](), TeamNumbers(cluster, share)
    for t, weight in compared.weights.items():  # rational bases only: an irrational one has no exact level
        w, base = weight if levelled else ONE, rational(*compared.base[t], f"what {share.text} of {t!r} is above")
        out[t] = Number({}, base / w)
    for j, t in compared.of_user.items():
        w = compared.weights[t] if levelled else ONE
        out[t].row.update({(j, s): c[j][s] / w for s in cluster.open[j]})
    stay = cluster.stays.get(share.text, set()) if levelled and share.name == "Surplus" else set()
    return {t: one for t, one in out.items() if t not in stay}


class ExactRanked(NamedTuple):
    """``factor`` times sorted numbers weighted by the decreasing v, the largest weight on the smallest number."""

    factor: Fraction
    v: list[Fraction]
    numbers: dict[str, Number]


class ExactGoal:
    """A piecewise linear concave function of the tasks: ``linear`` by pair, ``constant``, and ranked terms."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.constant = cluster, ZERO
        self.linear: dict[Pair, Fraction] = {}
        self.ranked: list[ExactRanked] = []

    def add(self, objective: Block, times: Fraction) -> None:
        """Add a multiple of an objective; `CannotCheck` for objectives with irrational optima."""
        cluster = self.cluster
        for factor, term in objective.terms:
            factor = factor * times
            if not factor:
                continue
            if term.name == "FairnessEfficiency" and term.given["beta"] == 1 and len(objective.terms) == 1:
                term = as_alpha_fair(term)
            if term.name in ("MaxMin", "OrderedWeighted"):
                compared = exact_numbers(cluster, term.share, True)
                if compared:
                    self.ranked.append(ExactRanked(factor, rank_weights(term, len(compared)), compared))
            elif term.name == "Total" or (term.name == "AlphaFair" and term.given["alpha"] == 0):
                for one in exact_numbers(cluster, term.share, False).values():
                    self.constant -= factor * one.base
                    for pair, v in one.row.items():
                        self.linear[pair] = self.linear.get(pair, ZERO) + factor * v
            else:
                raise CannotCheck(f"the optimum of {term.text} is not rational")

    def at(self, tasks: Table) -> Fraction:
        """The value at tasks."""
        total = self.constant + exact_sum(v * tasks[j][s] for (j, s), v in self.linear.items())
        for term in self.ranked:
            ordered = sorted(one.at(tasks) for one in term.numbers.values())
            total += term.factor * exact_sum(v * z for v, z in together(term.v, ordered))
        return total


KeptGoal = tuple[ExactGoal, Fraction]  # a goal, and the level that it keeps
EXACT_PRICES = ("prices", "rows", "kept", "mixtures")


class ExactProof:
    """Prices by server and resource, and multipliers of rows, as a file gives them: ``[[s, i, "5/11"], ...]``."""

    def __init__(self, cluster: Cluster, entry: Mapping[str, Any], rows: Rows) -> None:
        self.cluster, self.rows_given = cluster, rows
        prices = {(position(s), position(i)): fraction(p) for s, i, p in entry.get("prices") or ()}
        multipliers = {position(k): fraction(y) for k, y in entry.get("rows") or ()}
        places = cluster.usable_units()
        if prices.keys() - places.keys() or multipliers.keys() - {*range(len(rows))}:
            raise Fault("prices or multipliers are of unknown places or rows")
        if any(p < 0 for p in prices.values()) or any(y < 0 and not rows[k][2] for k, y in multipliers.items()):
            raise Fault("a price or a multiplier is negative")
        # one denominator for all of an entry: products with demands of one denominator then add without gcd
        common = iter(in_common([*prices.values(), *multipliers.values()]))
        self.prices = {place: next(common) for place in prices}
        self.multipliers = {k: next(common) for k in multipliers}

    def bound(self, slopes: Mapping[Pair, Fraction]) -> Fraction:
        """The largest value of a linear function over all feasible tasks, at most, by weak duality."""
        cluster, rows = self.cluster, self.rows_given
        total = exact_sum(p * cluster.usable_units()[place] for place, p in self.prices.items())
        total += exact_sum(y * rows[k][1] for k, y in self.multipliers.items())
        of_rows: dict[Pair, Fraction] = {}
        for k, y in self.multipliers.items():
            for pair, v in rows[k][0].items():
                of_rows[pair] = of_rows.get(pair, ZERO) + y * v
        at_server: dict[int, list[tuple[int, Fraction]]] = {}
        for (s, i), p in self.prices.items():
            at_server.setdefault(s, []).append((i, p))
        for j in cluster.active:
            cluster.clock.check()
            nets = []
            for s in cluster.open[j]:
                need = cluster.demands[j][s]
                cost = exact_sum(p * need[i] for i, p in at_server.get(s, ()) if need[i])
                nets.append(slopes.get((j, s), ZERO) - cost - of_rows.get((j, s), ZERO))
            net = max(nets)  # a user's total goes to its best server, up to its range
            if net > 0:
                high = cluster.high[j]
                alone = [cluster.tasks_alone(j, s, cluster.usable) for s in cluster.open[j]]
                most = high if high is not None or None in alone else exact_sum(filter(None, alone))
                if most is None:
                    raise Fault(f"the prices give no bound for user {cluster.users[j]!r}")
                total += net * most
            elif net < 0:
                total += net * cluster.low[j]
        return total


def slopes_of(weights: Mapping[str, Fraction], compared: Mapping[str, Number]) -> tuple[dict[Pair, Fraction], Fraction]:
    """A weighted sum of numbers as slopes by pair, and the weighted sum of bases."""
    slopes: dict[Pair, Fraction] = {}
    for t, weight in weights.items():
        for pair, v in compared[t].row.items():
            slopes[pair] = slopes.get(pair, ZERO) + weight * v
    return slopes, exact_sum(weight * compared[t].base for t, weight in weights.items())


def weights_given(entry: Any, compared: Mapping[str, Number]) -> dict[str, Fraction]:
    """Weights of numbers as a file gives them, in a common denominator."""
    found = {str(t): fraction(v) for t, v in dict(entry).items()}
    if found.keys() - compared.keys() or any(v < 0 for v in found.values()):
        raise Fault("a weight is negative, or of an unknown user or team")
    return dict(together(found, in_common(found.values())))


def prove_levels(
    cluster: Cluster, compared: Mapping[str, Number], rows: Rows, kept: Sequence[KeptGoal], entries: Any
) -> dict[str, Fraction]:
    """The levels of numbers at every leximin optimum, by prices for each level from the lowest up.

    At prices of a level, ``sum_t pi_t z_t`` has a bound. Numbers of earlier levels are fixed, so the smallest of the
    others is at most what the bound leaves, per price. The tasks reach it; so does every optimum, in which all others
    with a price are at that level too.
    """
    fixed: dict[str, Fraction] = {}
    at = {t: one.at(cluster.tasks) for t, one in compared.items()}
    for k, entry in enumerate(entries):
        check_keys(entry, ("of_numbers", *EXACT_PRICES), f"level {k} of the exact proof")
        # prices may be of fixed numbers too: what these are paid is known, and leaves the bound
        pi, others = weights_given(entry["of_numbers"], compared), compared.keys() - fixed.keys()
        new = {t: p for t, p in pi.items() if t in others and p}
        if not new:
            raise Fault(f"level {k} of the exact proof has no price of a number that it fixes")
        slopes, base = slopes_of(pi, compared)
        left = exact_bound(cluster, slopes, [], rows, kept, entry) - base
        left -= exact_sum(p * fixed[t] for t, p in pi.items() if t in fixed)
        # the tasks' own level of the others: a bound above it proves less, and is refused
        level = min(at[t] for t in others)
        if left > level * exact_sum(new.values()):
            raise Fault(f"level {k} of the exact proof: the prices do not prove {exact_text(level)}")
        if any(at[t] != level for t in new):
            raise Fault(f"level {k} of the exact proof: not all numbers that it fixes are at it")
        fixed |= dict.fromkeys(new, level)
    return fixed


def prove_goal(cluster: Cluster, goal: ExactGoal, rows: Rows, kept: Sequence[KeptGoal], entry: Any) -> None:
    """Prove that the tasks maximise a goal, by prices, multipliers and mixtures of ranked terms."""
    top = exact_bound(cluster, goal.linear, goal.ranked, rows, kept, entry) + goal.constant
    value = goal.at(cluster.tasks)
    if top > value:
        raise Fault(f"the prices prove at most {exact_text(top)}, and the tasks reach {exact_text(value)}")


def exact_bound(
    cluster: Cluster,
    linear: Mapping[Pair, Fraction],
    ranked: Sequence[ExactRanked],
    rows: Rows,
    kept: Sequence[KeptGoal],
    entry: Any,
) -> Fraction:
    """The largest value of a linear function plus ranked terms, at most, where goals are ``kept`` above levels."""
    times = [fraction(y) for y in entry.get("kept") or ["0"] * len(kept)]
    if len(times) != len(kept) or any(y < 0 for y in times):
        raise Fault("multipliers of kept levels are missing or negative")
    slopes, constant, terms = dict(linear), ZERO, [(ONE, term) for term in ranked]
    for y, (other, level) in together(times, kept):
        constant += y * (other.constant - level)
        for pair, v in other.linear.items():
            slopes[pair] = slopes.get(pair, ZERO) + y * v
        terms += [(y, term) for term in other.ranked]
    mixtures = entry.get("mixtures") or [{}] * len(terms)
    if len(mixtures) != len(terms):
        raise Fault(f"mixtures: there are {len(mixtures)}, not {len(terms)}")
    for (y, term), given in together(terms, mixtures):
        weights = dict.fromkeys(term.numbers, ZERO) | weights_given(given, term.numbers)
        mine = theirs = ZERO
        for a, b in together(sorted(weights.values()), sorted(term.v)):
            mine, theirs = mine + a, theirs + b * term.factor * y
            if mine < theirs:  # of some k the k smallest weights are too small (Proposition 15.3)
                raise Fault("mixtures: the weights do not bound sorted numbers")
        some, base = slopes_of(weights, term.numbers)
        lowest = max((one.base for one in term.numbers.values()), default=ZERO)  # no number is further below 0
        constant += (mine - theirs) * lowest - base
        for pair, v in some.items():
            slopes[pair] = slopes.get(pair, ZERO) + v
    return ExactProof(cluster, entry, rows).bound(slopes) + constant


def broken_exactly(cluster: Cluster, rows: Rows, kept: Sequence[KeptGoal] = ()) -> list[str]:
    """What tasks violate, without any tolerance."""
    tasks, faults = cluster.tasks, list[str]()
    for (s, i), usable in cluster.usable_units().items():
        if cluster.load(s, i) > usable:
            faults.append(f"{cluster.resources[i]!r} on server {s}: tasks exceed the capacity")
    for j, user in enumerate(cluster.users):
        total, high, limit = cluster.total(j), cluster.high[j], cluster.limits[j]
        if min(tasks[j], default=ZERO) < 0 or any(
            tasks[j][s] for s in range(cluster.servers) if s not in cluster.open[j]
        ):
            faults.append(f"user {user!r} has negative tasks, or tasks where it may not run")
        if (limit is not None and total > limit) or (high is not None and total > high) or total < cluster.low[j]:
            faults.append(f"user {user!r} runs {exact_text(total)} tasks, outside its bounds")
    for k, (of_pairs, bound, equal, name) in enumerate(rows):
        excess = exact_sum(v * tasks[j][s] for (j, s), v in of_pairs.items()) - bound
        if excess > 0 and name.place == LIMITED:
            faults.append(f"the limit {name.of!r} is exceeded")
        elif excess > 0 or (equal and excess):
            faults.append(f"row {k} of the policy's constraints is violated")
    return faults + ["a level is not kept" for goal, level in kept if goal.at(tasks) < level]


def table_of(cluster: Cluster, tasks: Iterable[tuple[int, int, str]]) -> Table:
    """Tasks by user and server from a list of those that are not 0."""
    table = [[ZERO] * cluster.servers for _ in range(cluster.n)]
    for j, s, x in tasks:
        table[position(j)][position(s)] += fraction(x)
    return table


def kept_row(one: Number, level: Fraction) -> LinearRow:
    """A row that keeps a number at a level or above it."""
    return LinearRow({pair: -v for pair, v in one.row.items()}, -(level + one.base), False, RowName("tier"))


def gap_by_exact_levels(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The largest relative distance of the tasks' levels from those of a ``point`` in fractions, which is proved.

    So the gap does not depend on what the rounding of lower levels leaves to later ones.
    """
    if cluster.kept_levels:  # curved ones: rationals may have no point at the level
        raise CannotCheck("levels in fractions are proved under linear constraints only")
    compared = exact_numbers(cluster, objective.share, True)
    with cluster.at(table_of(cluster, entry["point"])):
        if faults := broken_exactly(cluster, rows):
            raise Fault(f"the point in fractions: {faults[0]}")
        levels = prove_levels(cluster, compared, rows, (), entry["levels"])
    if missing := compared.keys() - levels.keys():
        raise Fault(f"nothing proves the level of {min(missing)!r}")
    gap = ZERO
    for t, z in levels.items():
        apart = abs(compared[t].at(cluster.tasks) - z)
        gap = max(gap, apart / z if z else ONE if apart else ZERO)  # in either direction: more is no better than less
    return gap
