"""Objectives and constraints of a policy in rational numbers: what an exact answer maximises, under which rows.

A tier is either the leximin of numbers, or a piecewise linear concave function of the tasks x by pair (`Goal`),

    g(x)  =  constant + linear'x + sum_t factor_t sum_k v_tk z_t(k),      z_t = R_t x - base_t in increasing order,

with v_t1 >= v_t2 >= ... >= 0. Constraints become bounds on tasks, rows ``a'x <= b``, or levels of goals that are kept.
A tier leaves for the next what it reached at its tasks x*: rows ``z_t >= z_t(x*)`` after leximin, ``z_t >= min z(x*)``
after the smallest of numbers, and else ``g(x) >= g(x*)``. These are exact, without the part of 1e-7 that answers in
floats give up: in fractions the point at that value exists, and a linear program needs no points inside.

What rounds in floats must not round here otherwise than in the checker: parameters are read as decimals or as the
Fractions given (docs/exact.md, *How numbers are read*), and rows stand in the checker's order, as multipliers name them
by position. Terms with roots or logarithms are refused with `OutOfDomain` (`why_irrational`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from fairopt.blocks.algebra import AtLeast, Objective, tiers_of
from fairopt.blocks.base import is_ours
from fairopt.blocks.constraints import (
    Constraint,
    MaxShare,
    MaxTasks,
    MinShare,
    MinTasks,
    Reserve,
    SharingIncentive,
)
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, OrderedWeighted, Total
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus
from fairopt.errors import OutOfDomain
from fairopt.exact.cluster import Cluster, ExactNumbers, Number, Pair, Row, Rows, Table, text
from fairopt.exact.rationals import Rational, as_rational, rational, total
from fairopt.instance.in_fractions import as_fraction

BOUNDS = "without exact=True, answer.exact_bounds() encloses its optimal value"
LEVELLED = (MaxMin, OrderedWeighted, Leximin, AlphaFair)


def terms_of(objective: Objective) -> list[tuple[Rational, Objective]]:
    """The objectives of a sum, with their factors."""
    return [(as_rational(as_fraction(factor)), term) for factor, term in objective.summands()]


def share_of(term: Objective) -> Share:
    """The share of a term; `OutOfDomain` for users' own objectives and those of bundles."""
    share = getattr(term, "share", None)
    if not is_ours(term) or not isinstance(share, Share):
        raise OutOfDomain(f"{term} is none of fairopt's own objectives of tasks")
    return share


def is_linear(objective: Objective) -> bool:
    """Whether an objective is a sum of shares."""
    return all(term.term.is_linear for _, term in objective.summands())


def is_surplus(term: Objective) -> bool:
    """Whether a term compares what is above a base."""
    return isinstance(term, LEVELLED) and not term.term.is_linear and isinstance(term.share, Surplus)


def smallest(objective: Objective) -> tuple[Rational, Share] | None:
    """The factor and the share of an objective of the smallest share per weight alone; None for others."""
    held = [(factor, term) for factor, term in terms_of(objective) if factor]
    if len(held) != 1 or not isinstance(term := held[0][1], (MaxMin, OrderedWeighted)):
        return None
    first, *others = _weights(term)
    # further weights of 0 rank nothing: the smallest alone becomes a bound for each number, not a ranked term
    return (held[0][0] * first, term.share) if first and not any(others) else None


def _weights(term: MaxMin | OrderedWeighted | Leximin) -> list[Rational]:
    given = term.weights if isinstance(term, OrderedWeighted) else (1,)
    return [as_rational(as_fraction(w)) for w in given]


def rank_weights(term: MaxMin | OrderedWeighted | Leximin, count: int) -> list[Rational]:
    """The weights of a term by rank, of so many ranks."""
    return (_weights(term) + [rational(0)] * count)[:count]


class Ranked(NamedTuple):
    """``factor`` times sorted numbers weighted by the decreasing v, the largest weight on the smallest number."""

    factor: Rational
    v: list[Rational]
    numbers: dict[str, Number]


class Goal:
    """A piecewise linear concave function of the tasks: ``linear`` by pair, ``constant``, and ranked terms."""

    def __init__(self) -> None:
        self.constant = rational(0)
        self.linear: dict[Pair, Rational] = {}
        self.ranked: list[Ranked] = []

    @classmethod
    def of(cls, cluster: Cluster, objective: Objective) -> Self:
        """An objective; `OutOfDomain` for those with irrational optima."""
        goal = cls()
        for factor, term in terms_of(objective):
            if not factor:
                continue
            if isinstance(term, (MaxMin, OrderedWeighted)):
                compared = ExactNumbers(cluster, term.share).exactly(True)
                if compared:  # of nobody the term is 0
                    goal.ranked.append(Ranked(factor, rank_weights(term, len(compared)), compared))
            elif term.term.is_linear:
                for one in ExactNumbers(cluster, share_of(term)).exactly(False).values():
                    goal.constant -= factor * one.base
                    for pair, v in one.row.items():
                        goal.linear[pair] = goal.linear.get(pair, rational(0)) + factor * v
            else:
                raise OutOfDomain(f"the optimum of {term} is not rational")
        return goal

    def at(self, tasks: Table) -> Rational:
        """The value at tasks."""
        value = self.constant + total(v * tasks[j][s] for (j, s), v in self.linear.items())
        for term in self.ranked:
            ordered = sorted(one.at(tasks) for one in term.numbers.values())
            value += term.factor * total(v * z for v, z in zip(term.v, ordered, strict=True))
        return value


def why_irrational(objective: Objective) -> Iterator[str]:
    """Why terms of an objective have no rational optimum in general."""
    for _, term in objective.summands():
        if isinstance(term, AlphaFair) and term.alpha != 0:
            curves = "logarithms" if term.alpha == 1 else "powers"
            yield f"{term} is a sum of {curves}, whose optimum is not rational in general; {BOUNDS}"
        elif isinstance(term, FairnessEfficiency) and term.beta != 1:
            yield f"{term} has powers and logarithms, whose optimum is not rational in general; {BOUNDS}"


KeptGoal = tuple[Goal, Rational]  # a goal, and the level that it keeps
Imposed = tuple[Rows, list[KeptGoal]]


def impose(cluster: Cluster, conditions: Sequence[Constraint]) -> Imposed:
    """Apply constraints: bounds and reserves change the cluster; rows and levels of objectives are returned."""
    rows, kept = Rows(), list[KeptGoal]()
    for condition in conditions:
        if isinstance(condition, AtLeast):
            of_level = _level(cluster, condition)
            if isinstance(of_level, list):
                rows += of_level
            else:
                kept.append(of_level)
        else:
            rows += _rows(cluster, condition)
    return rows, kept


def _rows(cluster: Cluster, condition: Constraint) -> Rows:
    """The rows of a constraint; bounds and reserves change the cluster."""
    if isinstance(condition, (MinTasks, MaxTasks)):
        most = isinstance(condition, MaxTasks)
        bounds = cluster.of_user(condition.tasks, type(condition).__name__, float("inf") if most else 0)
        for j in cluster.active:
            _bound(cluster, j, bounds[j], most)
    elif isinstance(condition, SharingIncentive):
        whole = as_rational(cluster.instance.in_fractions.total_weight)
        for j in cluster.active:
            alone = total(cluster.tasks_alone(j, s) or 0 for s in cluster.open[j])
            # an equal split of every server row, by weight, and no more than the user's limit
            entitled, limit = cluster.weights[j] / whole * alone, cluster.limits[j]
            _bound(cluster, j, entitled if limit is None else min(entitled, limit), False)
    elif isinstance(condition, Reserve):
        i = cluster.instance.resource_index(condition.resource)
        # reserves do not add up: each is a part of the whole capacity that stays free, and the largest holds for all
        cluster.usable[i] = min(cluster.usable[i], 1 - cluster.number(condition.fraction))
    elif isinstance(condition, (MinShare, MaxShare)):
        return _share_bounds(cluster, condition)
    elif (rows := condition._exact_rows(cluster)) is not None:
        return [Row(*row) for row in rows]
    else:
        raise OutOfDomain(f"the constraint {condition} is computed by code, in floats")
    return []


def _bound(cluster: Cluster, j: int, bound: Rational | None, most: bool) -> None:
    """Bound a user's tasks."""
    if bound is None:
        return
    if not most:
        cluster.low[j] = max(cluster.low[j], bound)
    elif cluster.high[j] is None or bound < cluster.high[j]:
        cluster.high[j] = bound


def _share_bounds(cluster: Cluster, condition: MinShare | MaxShare) -> Rows:
    """Bounds on shares: bounds on tasks if a task's share is the same on all servers, else rows.

    A bound that names a team is a row of the sum of its members' shares, after those of users.
    """
    share, most, level = condition.share, isinstance(condition, MaxShare), condition.level
    name, of_teams = type(condition).__name__, dict[str, Any]()
    if not share._counts_teams:
        level, of_teams = cluster.instance.by_user_or_team(level, name)
        by_user = cluster.of_user(level, name, float("inf"))
    if share._is_plain:
        rows = bound_shares(cluster, share, by_user, most, name)
    else:
        numbers = ExactNumbers(cluster, share)
        if share._counts_teams:
            names = share._names(cluster.instance)
            each = level if isinstance(level, Sequence) else [level] * len(names)
            given = level if isinstance(level, Mapping) else dict(zip(names, each, strict=True))
            levels = {
                t: None if given[t] == float("inf") else cluster.number(given[t]) for t in numbers.weights if t in given
            }
        else:
            levels = {str(cluster.users[j]): by_user[j] for j in cluster.active}
        rows = numbers.bounded(levels, most)
    for team, bound in of_teams.items():
        numbers = ExactNumbers(cluster, share)
        mine = [j for j in cluster.members[team] if j in numbers.of_user]
        rows.append(numbers.bound(mine, [numbers.of_user[j] for j in mine], cluster.number(bound), most))
    return rows


def bound_shares(cluster: Cluster, share: Share, levels: Sequence[Rational | None], most: bool, name: str) -> Rows:
    """Bounds on the shares of users."""
    rows, alike = Rows(), cluster.same_on_servers(share)
    c, sign = cluster.between(share)[0 if most else 1], rational(1 if most else -1)
    for j in cluster.active:
        level, one = levels[j], c[j][cluster.open[j][0]]
        if level is None or (level == 0 and not most):
            continue
        if alike and one > 0:
            _bound(cluster, j, level / one, most)
        elif alike and not most:
            raise OutOfDomain(f"{name}: tasks of user {cluster.users[j]!r} have no such share")
        elif not alike and level == 0 and all(c[j][s] > 0 for s in cluster.open[j]):
            # positive coefficients leave no tasks at a share of 0: a bound, and no row
            _bound(cluster, j, cluster.zero, True)
        elif not alike:
            row = {(j, s): sign * c[j][s] / (level or 1) for s in cluster.open[j]}
            rows.append(Row(row, sign if level else cluster.zero))  # divided by the level, as the checker writes it
    return rows


def _level(cluster: Cluster, condition: AtLeast) -> Rows | KeptGoal:
    """A lower level of an objective: rows if it is a sum of shares or the smallest one, else a goal and its level."""
    objective, level = condition.objective, cluster.number(condition.level)
    if (least_share := smallest(objective)) is not None:
        factor, share = least_share
        # shares are never below 0, and a lower bound there is none; what is above a base may be
        least = level / factor if isinstance(share, Surplus) else max(level / factor, cluster.zero)
        if not share._is_plain:
            numbers = ExactNumbers(cluster, share)
            return numbers.bounded({t: least * w for t, w in numbers.weights.items()}, False)
        if cluster.same_on_servers(share):
            return bound_shares(cluster, share, [least * w for w in cluster.weights], False, repr(condition))
    goal = Goal.of(cluster, objective)
    if not is_linear(objective):  # a level of sorted numbers takes columns of its own, which the program adds
        return goal, level
    return [Row({pair: -v for pair, v in goal.linear.items()}, goal.constant - level)]


class Tier(NamedTuple):
    """A tier: the leximin of ``compared`` numbers, or else a goal, under rows and kept levels of other goals.

    Where nobody can rise above the base of a surplus the goal is a total that nobody changes, and the value 0.
    """

    rows: Rows
    kept: list[KeptGoal]
    compared: dict[str, Number] | None
    goal: Goal
    of_nobody: bool = False

    def value(self, tasks: Table) -> Rational:
        """The value of the goal at tasks, or the smallest number."""
        if self.of_nobody:
            return rational(0)
        if self.compared is None:
            return self.goal.at(tasks)
        return min((one.at(tasks) for one in self.compared.values()), default=rational(0))


Settle = Callable[[int, Share, Tier], set[str]]


def tiers(cluster: Cluster, policy: Any, settle: Settle, tasks: Callable[[], Table]) -> Iterator[Tier]:
    """The tiers of a policy; each leaves its rows for the next, at the ``tasks`` by then.

    ``settle`` gives those numbers of a tier's surplus that cannot rise above their base.
    """
    imposed, kept = impose(cluster, policy.constraints)
    # multipliers name rows by position, and the checker has the same order
    rows = guaranteed(cluster) + limited(cluster) + imposed
    for k, objective in enumerate(tiers_of(policy.objective)):
        # who stays at its base is decided before numbers are compared, by a leximin that ends at level 0
        keep_bases(cluster, objective)
        for _, term in terms_of(objective):
            if is_surplus(term):
                share = share_of(term)
                tier = Tier(rows, kept, ExactNumbers(cluster, share).exactly(True), Goal())
                cluster.stays.setdefault(text(share), set()).update(settle(k, share, tier))
        objective, of_nobody = of_those_who_rise(cluster, objective)
        compared, first = None, smallest(objective)
        if isinstance(objective, Leximin):
            compared, goal = ExactNumbers(cluster, objective.share).exactly(True), Goal()
        else:
            goal = Goal.of(cluster, objective)
        yield Tier(rows, kept, compared, goal, of_nobody)
        point = tasks()
        if compared is not None:
            # every number at what it has: leximin fixes all of them
            rows = rows + [kept_row(one, one.at(point)) for one in compared.values()]
        elif first is not None:  # every number at what the smallest has: the next tier may lower the others to it
            compared = ExactNumbers(cluster, first[1]).exactly(True)
            level = min((one.at(point) for one in compared.values()), default=rational(0))
            rows = rows + [kept_row(one, level) for one in compared.values()]
        elif not goal.ranked:  # a sum is one row
            rows = [*rows, kept_row(whole := Number(goal.linear, rational(0)), whole.at(point))]
        else:
            kept = [*kept, (goal, goal.at(point))]


def keep_bases(cluster: Cluster, objective: Objective) -> None:
    """Make the bases of an objective's surpluses lower bounds on tasks."""
    for _, term in objective.summands():
        if isinstance(share := share_of(term), Surplus):
            for j, x in ExactNumbers(cluster, share).kept.items():
                cluster.low[j] = max(cluster.low[j], x)


def of_those_who_rise(cluster: Cluster, objective: Objective) -> tuple[Objective, bool]:
    """A term of which nobody can rise above the base is the total of shares that nobody changes; and whether it is."""
    ((_, term), *others) = objective.summands()
    share = share_of(term)
    if others or not is_surplus(term) or not isinstance(share, Surplus) or ExactNumbers(cluster, share).exactly(True):
        return objective, False
    return Total(share.share), True


def guaranteed(cluster: Cluster) -> Rows:
    """The floors of teams as rows."""
    rows = Rows()
    active = {*cluster.active}
    for team, floor in cluster.floors.items():
        members = sorted({*cluster.members[team]} & active)  # users of limit 0 have no columns
        for i, v in floor.items():
            held = {(j, s): -d for j in members for s in cluster.open[j] if (d := cluster.demands[j][s][i])}
            rows.append(Row(held, -v))
    return rows


def limited(cluster: Cluster) -> Rows:
    """The limits of the instance on what users take together, as rows."""
    instance, rows = cluster.instance, Rows()
    members = {user: j for j, user in enumerate(cluster.users)} | dict(instance.teams.names)
    for limit in instance.limits:
        i, counts = instance.resource_index(limit.resource), limit.counts(members, cluster.n, cluster.servers)
        pairs = [(j, s) for j in cluster.active for s in cluster.open[j] if counts[j, s]]
        if use := {(j, s): d for j, s in pairs if (d := cluster.demands[j][s][i])}:
            rows.append(Row(use, as_rational(instance.in_fractions.parameter(limit.amount))))
    return rows


def at_base(cluster: Cluster, objective: Objective, tasks: Table) -> dict[str, dict[str, Number]]:
    """The numbers of each surplus that an objective ranks, if some of them are at their base."""
    shares = {text(share_of(term)): share_of(term) for _, term in objective.summands() if is_surplus(term)}
    ranked = {name: ExactNumbers(cluster, share).exactly(True) for name, share in shares.items()}
    return {name: of for name, of in ranked.items() if not all(one.at(tasks) for one in of.values())}


def kept_row(one: Number, level: Rational) -> Row:
    """A row that keeps a number at a level or above it."""
    return Row({pair: -v for pair, v in one.row.items()}, -(level + one.base))
