"""A witness is believed only after it has been computed again, by other means than those that found it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.bundles import AtMostRequested, FairShareBase, GlobalAggregateResource, WeightedLog
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Objective, Total
from fairopt.blocks.shares import (
    DominantShare,
    KDominantShare,
    PNormShare,
    ResourceShare,
    Share,
    StandAloneShare,
    Tasks,
)
from fairopt.errors import FairoptError, OutOfDomain
from fairopt.instance import Instance
from fairopt.notions.bottleneck import BottleneckFairness
from fairopt.notions.tradeoff import NashWelfare
from fairopt.policy import Policy
from fairopt.properties.exact_pool import ExactPool, alpha_fair, ffmra, leximin, mlf_drs, most
from fairopt.properties.many import checked

__all__ = ["Answer", "Case", "Recomputed", "Verified", "recomputed", "verified"]

Row = list[Fraction]

LEAST = 1e-9  # of a margin that is believed; those of exact fractions are exact
ROOTS = Fraction(1, 10**25)  # error of what was computed to fifty digits
ROUTES = ("CLARABEL", "ECOS", "SCS")  # solvers of the general route, which must agree
APART = 1e-3  # relative: two routes further apart than this do not confirm each other
TIMES = 10  # a margin must be so many times what two routes differ by
AGAIN = Fraction(1, 10**6)  # error granted to mechanisms that cannot be computed in another way
FULL = Fraction(1, 10**6)  # a resource counts as full if less than this is left over, where answers are not exact


@dataclass(frozen=True)
class Case:
    """What is said to break a property: an instance, who is concerned, and what changes.

    Attributes
    ----------
    property : str
        By its canonical name.
    instance : Instance
        One pool.
    user : int
        Who loses, envies, lies or could have more.
    lie : tuple of float or None
        What that user states instead of its demands.
    changed : Instance or None
        The instance after a user has left or a capacity has grown.
    """

    property: str
    instance: Instance
    user: int
    lie: tuple[float, ...] | None = None
    changed: Instance | None = None


@dataclass(frozen=True)
class Answer:
    """Tasks of all users, and what they hold, in fractions."""

    tasks: Row
    bundles: list[Row]


@dataclass(frozen=True)
class Recomputed:
    """Every answer that a notion allows (corners of them, where there are many), how far off they may be, and how."""

    answers: tuple[Answer, ...]
    error: Fraction
    how: str


@dataclass(frozen=True)
class Verified:
    """A margin that is left when all errors are granted, relative, and how it was computed; believed if positive."""

    margin: float
    how: str

    @property
    def believed(self) -> bool:
        """Whether the property is broken beyond doubt."""
        return self.margin > LEAST


def verified(mechanism: Any, case: Case) -> Verified:
    """Compute a witness again, independently of how it was found.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Whose property.
    case : Case
        What is said to break it.

    Returns
    -------
    Verified
        With a margin of at most 0 if it does not, or if that could not be confirmed.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[1, 1], [1, 1]], [1, 1])
    >>> verified(fo.KDF(2), Case("strategy-proof", pool, 0, (0.5, 0.5)))
    Verified(margin=0.3333333333333333, how='exact fractions')
    """
    try:
        truth = recomputed(mechanism, case.instance)
        other = None
        if case.lie is not None:
            other = recomputed(mechanism, _stating(case.instance, case.user, case.lie))
        elif case.changed is not None:
            other = recomputed(mechanism, case.changed)
    except FairoptError as refusal:
        return Verified(-np.inf, f"could not be computed again: {refusal}")
    how = truth.how if other is None or other.how == truth.how else f"{truth.how}; {other.how}"
    if case.property == "bottleneck" and len(truth.answers) > 1:
        return Verified(-np.inf, f"{how}: there are many optima")
    measure = _MEASURES[case.property]
    pool = ExactPool.of(case.instance)
    error = max(truth.error, other.error if other is not None else Fraction(0))
    margins = [
        measure(pool, case, one, two, error)
        for one in truth.answers
        for two in (other.answers if other is not None else (one,))
    ]
    return Verified(float(min(margins)), how)


def recomputed(mechanism: Any, instance: Instance) -> Recomputed:
    """What a mechanism answers on one pool, by another way than its own where there is one.

    Exact fractions for leximin of any share, for the largest sum of shares (all corners) and for bundles; fifty digits
    where shares or alpha-fairness have roots. For other policies two solvers of the general route, which must agree;
    for other mechanisms there is no second way, so they are run again.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        One pool.

    Returns
    -------
    Recomputed

    Raises
    ------
    FairoptError
        If there is no answer, or two ways to it disagree.

    Examples
    --------
    >>> import fairopt as fo
    >>> recomputed(fo.DRF(), fo.Instance([[2, 3], [2, 1]], [6, 4])).answers[0].tasks
    [Fraction(16, 21), Fraction(12, 7)]
    """
    if instance.n_servers > 1 or int(instance.counts[0]) > 1:
        raise OutOfDomain(f"{instance!r}: witnesses are computed again on one pool; use instance.pooled()")
    policy = NashWelfare() if type(mechanism) is BottleneckFairness else mechanism
    part = [j for j in range(instance.n_users) if instance.task_limits[j] > 0]
    if type(policy) is Policy and part:
        some = instance if len(part) == instance.n_users else instance.taking_part(part)
        found = _of_policy(policy, some)
        if found is not None:
            return found if len(part) == instance.n_users else _spread(found, part, instance)
    return _again(mechanism, instance)


# -- by definition ----------------------------------------------------------------------------------------------------


def _of_policy(policy: Policy, instance: Instance) -> Recomputed | None:
    """By its definition, where that is one of those in `exact_pool`."""
    pool, objective = ExactPool.of(instance), policy.objective
    if type(objective) is WeightedLog:
        return _of_bundles(policy, objective, pool, instance)
    if policy.constraints:
        return None
    parts = [part for factor, part in objective.terms() if factor > 0]
    single: Objective = parts[0] if len(parts) == 1 else objective
    if type(single) is FairnessEfficiency:
        single = single.alpha_fair() or (Total(single.share) if single.beta == 1 else single)
    if type(single) not in (Leximin, MaxMin, Total, AlphaFair):
        return None
    assert isinstance(single, (Leximin, MaxMin, Total, AlphaFair))
    single.share.coefficients(instance)  # OutOfDomain, as for the policy itself
    worth, error, how = _per_task(single.share, pool, instance)
    if isinstance(single, (Leximin, MaxMin)):  # of all max-min points fairopt answers the leximin
        return Recomputed((_multiples(pool, leximin(pool, worth)),), error, how)
    if isinstance(single, Total) or single.alpha == 0:
        corners = most(pool, worth)
        if corners is None:
            return None
        many = f", at each of {len(corners)} optimal corners" if len(corners) > 1 else ""
        return Recomputed(tuple(_multiples(pool, x) for x in corners), error, how + many)
    near = policy.allocate(instance).tasks
    found = alpha_fair(pool, worth, single.alpha, near.tolist())
    if found is None:
        return None
    return Recomputed((_multiples(pool, found),), ROOTS, "optimality conditions to 30 digits")


def _of_bundles(policy: Policy, objective: WeightedLog, pool: ExactPool, instance: Instance) -> Recomputed | None:
    base, kinds = objective.base, [type(c) for c in policy.constraints]
    if type(base) is not FairShareBase or np.ptp(instance.weights) > 0:
        return None
    aggregated = [c for c in policy.constraints if isinstance(c, GlobalAggregateResource)]
    if not kinds:
        held = mlf_drs(pool, base.growth)
    elif base == FairShareBase() and sorted(k.__name__ for k in kinds) == [
        AtMostRequested.__name__, GlobalAggregateResource.__name__,
    ]:  # fmt: skip
        held = ffmra(pool, aggregated[0].units)
    else:
        return None
    tasks = [
        _cut(min(b / d for b, d in zip(bundle, row, strict=True) if d), limit)
        for bundle, row, limit in zip(held, pool.demands, pool.limits, strict=True)
    ]
    return Recomputed((Answer(tasks, held),), Fraction(0), "exact fractions")


def _per_task(share: Share, pool: ExactPool, instance: Instance) -> tuple[Row, Fraction, str]:
    """Coefficients of a share by its definition, how far off they may be, and how they were found."""
    ratios, exact = pool.ratios, (Fraction(0), "exact fractions")
    if type(share) is Tasks:
        return [Fraction(1)] * len(ratios), *exact
    if type(share) in (DominantShare, StandAloneShare):  # 1 / min C/d is the largest d/C
        return [max(row) for row in ratios], *exact
    if type(share) is KDominantShare and share.rank_weights is None:
        largest = [sorted(row, reverse=True)[: share.k] for row in ratios]
        return [_product([r for r in row if r or share.short == "refuse"]) for row in largest], *exact
    if type(share) is ResourceShare:
        i = instance.resource_index(share.resource)
        return [row[i] for row in ratios], *exact
    if type(share) is PNormShare:
        if share.p in (0, 1, np.inf):
            return [Fraction(1) if share.p == 0 else sum(row, Fraction(0)) if share.p == 1 else max(row)
                    for row in ratios], *exact  # fmt: skip
        return [_norm(row, share.p) for row in ratios], ROOTS, "fractions of roots to 50 digits"
    return [Fraction(float(c)) for c in share.coefficients(instance)], *exact


def _norm(row: Row, p: float) -> Fraction:
    with localcontext() as context:
        context.prec = 50
        power = Decimal(str(p))
        powers = (
            (Decimal(r.numerator) / Decimal(r.denominator)) ** power for r in row if r
        )  # fmt: skip
        return Fraction(sum(powers, Decimal(0)) ** (1 / power))


# -- by running it --------------------------------------------------------------------------------------------------


def _again(mechanism: Any, instance: Instance) -> Recomputed:
    """By solvers of the general route that agree, or simply again."""
    first = checked(mechanism, instance.replace())
    parameters = inspect.signature(mechanism.allocate).parameters
    if isinstance(mechanism, Policy) and "solver" in parameters:
        from cvxpy import installed_solvers

        for solver in (s for s in ROUTES if s in installed_solvers()):
            try:
                second = mechanism.allocate(instance, method="cone", solver=solver)
            except FairoptError:
                continue
            apart = _apart(first, second)
            if apart > APART:
                raise OutOfDomain(f"two routes differ by {apart:.1g} of what a user could run alone")
            error = Fraction(max(apart, 1e-7)) * TIMES
            return Recomputed((_taken(first),), error, f"two routes ({first.certificate.method}, {solver}) agree")
    apart = _apart(first, checked(mechanism, instance.replace()))
    if apart > float(AGAIN):
        raise OutOfDomain(f"it answers otherwise when asked again (by {apart:.1g} of what a user could run alone)")
    return Recomputed((_taken(first),), AGAIN, "run again, and measured in fractions")


def _apart(one: Allocation, other: Allocation) -> float:
    alone = np.minimum(one.instance.tasks_alone[:, 0], one.instance.task_limits)
    differing = np.abs(one.tasks - other.tasks)
    worst = float(np.divide(differing, alone, out=np.zeros_like(differing), where=alone > 0).max(initial=0.0))
    if one.given_bundles is not None and other.given_bundles is not None:
        held = np.abs(one.given_bundles - other.given_bundles)[:, 0] / np.maximum(one.instance.total_capacities, 1e-300)
        worst = max(worst, float(held.max(initial=0.0)))
    return worst


def _taken(answer: Allocation) -> Answer:
    bundles = [[Fraction(float(v)) for v in row] for row in answer.bundles[:, 0]]
    return Answer([Fraction(float(x)) for x in answer.tasks], bundles)


def _spread(found: Recomputed, part: list[int], instance: Instance) -> Recomputed:
    """With those who take no part, who have nothing."""
    where = {j: k for k, j in enumerate(part)}
    nothing = [Fraction(0)] * instance.n_resources
    answers = tuple(
        Answer(
            [a.tasks[where[j]] if j in where else Fraction(0) for j in range(instance.n_users)],
            [a.bundles[where[j]] if j in where else nothing for j in range(instance.n_users)],
        )
        for a in found.answers
    )
    return Recomputed(answers, found.error, found.how)


# -- the properties, in fractions; margins when all errors are granted -------------------------------------------------


def _pareto(pool: ExactPool, case: Case, answer: Answer, _: Answer, error: Fraction) -> Fraction:
    j, left = case.user, pool.leftover(answer.tasks)
    more = min(v / d for v, d in zip(left, pool.demands[j], strict=True) if d)
    alone = _alone(pool, j)
    limit = pool.limits[j]
    more = more if limit is None else min(more, limit - answer.tasks[j])
    return more / alone - error * len(pool.demands)


def _sharing(pool: ExactPool, case: Case, answer: Answer, _: Answer, error: Fraction) -> Fraction:
    return 1 - answer.tasks[case.user] * (1 + error) / _slice(pool, case.user)


def _envy(pool: ExactPool, case: Case, answer: Answer, _: Answer, error: Fraction) -> Fraction:
    j, best = case.user, Fraction(0)
    for k, bundle in enumerate(answer.bundles):
        if k != j:
            runs = min(b / d for b, d in zip(bundle, pool.demands[j], strict=True) if d)
            best = max(best, _cut(pool.weights[j] / pool.weights[k] * runs, pool.limits[j]))
    return (best * (1 - error) - answer.tasks[j] * (1 + error)) / max(_slice(pool, j), answer.tasks[j])


def _bottleneck(pool: ExactPool, case: Case, answer: Answer, _: Answer, error: Fraction) -> Fraction:
    j, left = case.user, pool.leftover(answer.tasks)
    limit = pool.limits[j]
    if limit is not None and answer.tasks[j] * (1 + error) >= limit:
        return Fraction(-1)
    part, worst = pool.weights[j] / sum(pool.weights), Fraction(1)
    for c, d, v in zip(pool.capacities, pool.demands[j], left, strict=True):
        if v / c <= max(FULL, error):
            worst = min(worst, 1 - d * answer.tasks[j] * (1 + error) / c / part)
    return worst


def _lie(pool: ExactPool, case: Case, answer: Answer, lied: Answer, error: Fraction) -> Fraction | float:
    j = case.user
    runs = min(b / d for b, d in zip(lied.bundles[j], pool.demands[j], strict=True) if d)
    lying, truth, alone = _cut(runs, pool.limits[j]), answer.tasks[j], _alone(pool, j)
    if lying <= max(error, Fraction(1, 10**9)) * alone:
        return Fraction(-1)
    if truth <= error * alone:
        return np.inf
    return (lying - error * alone) / (truth + error * alone) - 1


def _loss(pool: ExactPool, case: Case, answer: Answer, later: Answer, error: Fraction) -> Fraction:
    assert case.changed is not None
    users = case.changed.users
    name = case.instance.users[case.user]
    before, after = answer.tasks[case.user], later.tasks[users.index(name)]
    slack = error * _alone(pool, case.user)
    return 1 - (after + slack) / (before - slack) if before > slack else Fraction(-1)


_MEASURES: dict[str, Callable[[ExactPool, Case, Answer, Answer, Fraction], Fraction | float]] = {
    "pareto": _pareto,
    "sharing-incentive": _sharing,
    "envy-free": _envy,
    "bottleneck": _bottleneck,
    "strategy-proof": _lie,
    "strategy-proof-boosting": _lie,
    "population-monotone": _loss,
    "resource-monotone": _loss,
}


def _stating(instance: Instance, user: int, lie: tuple[float, ...]) -> Instance:
    demands = instance.per_server_demands[:, 0].copy()
    demands[user] = lie
    return instance.replace(demands=demands)


def _multiples(pool: ExactPool, tasks: Row) -> Answer:
    return Answer(tasks, [[x * d for d in row] for x, row in zip(tasks, pool.demands, strict=True)])


def _alone(pool: ExactPool, j: int) -> Fraction:
    return _cut(min(c / d for c, d in zip(pool.capacities, pool.demands[j], strict=True) if d), pool.limits[j])


def _slice(pool: ExactPool, j: int) -> Fraction:
    part = pool.weights[j] / sum(pool.weights)
    return _cut(
        min(part * c / d for c, d in zip(pool.capacities, pool.demands[j], strict=True) if d), pool.limits[j]
    )  # fmt: skip


def _cut(tasks: Fraction, limit: Fraction | None) -> Fraction:
    return tasks if limit is None else min(tasks, limit)


def _product(numbers: Row) -> Fraction:
    out = Fraction(1)
    for number in numbers:
        out *= number
    return out
