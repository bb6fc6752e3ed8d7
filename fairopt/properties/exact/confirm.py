"""A witness is believed only after it has been computed again, by other means than those that found it."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.bundles import AtMostRequested, FairShareBase, GlobalAggregateResource, WeightedLog
from fairopt.blocks.efficiency import single_term
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Total
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
from fairopt.formulation.solvers import CONE_CHAIN, installed
from fairopt.instance import Instance
from fairopt.policies.bottleneck import BottleneckFairness
from fairopt.policies.tradeoff import NashWelfare
from fairopt.policy import Policy
from fairopt.properties.answers import checked
from fairopt.properties.exact.margins import MARGINS, BoundedAnswer, Counterexample, ExactAnswer, alone, cut, envies
from fairopt.properties.exact.pool import ExactPool, alpha_fair, ffmra, leximin, max_sum, mlf_drs
from fairopt.properties.misreports.search import lying_instance
from fairopt.properties.uncertainty import error_bound

__all__ = ["Recomputed", "Verified", "recomputed", "second_answer", "verified"]

Row = list[Fraction]

LEAST = 1e-9  # of a margin that is believed; those of exact fractions are exact
ROOTS = Fraction(1, 10**25)  # error of what was computed to fifty digits
APART = 1e-3  # relative: two methods further apart than this do not confirm each other
TIMES = 10  # a margin must be so many times what two methods differ by
AGAIN = Fraction(1, 10**6)  # error granted to mechanisms that cannot be computed in another way


class _AnswersOtherwiseError(OutOfDomain):
    """A mechanism that is random, or remembers."""


class _TiedError(OutOfDomain):
    """A policy for which two solvers give different answers, both certified."""

    def __init__(self, message: str, first: Allocation) -> None:
        super().__init__(message)
        self.first = first


@dataclass(frozen=True)
class Recomputed:
    """Every answer that a notion allows (corners of them, where there are many), how far off they may be, and how.

    Attributes
    ----------
    answers : tuple of ExactAnswer
        At least one.
    error : list of Fraction
        By how many tasks each user's may be off, in every answer.
    how : str
        How it was computed.
    """

    answers: tuple[ExactAnswer, ...]
    error: Row
    how: str


@dataclass(frozen=True)
class Verified:
    """A margin that is left when all errors are granted, relative, and how it was computed; believed if positive.

    ``random`` says that the mechanism answered otherwise when it was asked again.
    """

    margin: float
    how: str
    random: bool = False

    @property
    def believed(self) -> bool:
        """Whether the property is broken beyond doubt."""
        return self.margin > LEAST


def verified(mechanism: Any, case: Counterexample) -> Verified:
    """Compute a witness again, independently of how it was found.

    The margin is at most 0 if it does not break the property, or if that could not be confirmed; ``how`` says why.
    Where solvers give different answers, both certified, the one that is given has to be efficient.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.exact.margins import Counterexample
    >>> pool = fo.Instance([[1, 1], [1, 1]], [1, 1])
    >>> verified(fo.KDF(2), Counterexample("strategy-proof", pool, 0, (0.5, 0.5)))
    Verified(margin=0.3333333333333333, how='exact fractions', random=False)
    """
    pool = ExactPool.of(case.instance)
    if case.instance.n_servers == 1 and not alone(pool, case.user):
        return Verified(-np.inf, f"user {case.instance.users[case.user]!r} may run no tasks, so nothing is lost to it")
    try:
        return _verified(mechanism, case, pool)
    except _AnswersOtherwiseError as refusal:
        return Verified(-np.inf, f"could not be computed again: {refusal}", True)
    except FairoptError as refusal:
        return Verified(-np.inf, f"could not be computed again: {refusal}")
    except Exception as error:  # of the mechanism itself, or of a library that it or a solver uses
        return Verified(-np.inf, f"could not be confirmed: {type(error).__name__}: {error}")


def _verified(mechanism: Any, case: Counterexample, pool: ExactPool) -> Verified:
    """By another way; where two ways find different optima, by the answer that is given."""
    try:
        truth = recomputed(mechanism, case.instance)
    except _TiedError as tied:
        if case.property != "pareto":  # that a dominated answer is optimal too is what there is to say
            raise
        truth = _by_running_again(mechanism, tied.first, str(tied))
    other = None
    if case.lie is not None:
        other = recomputed(mechanism, lying_instance(case.instance, case.user, np.array(case.lie)))
    elif case.changed is not None:
        other = recomputed(mechanism, case.changed)
    how = truth.how if other is None or other.how == truth.how else f"{truth.how}; {other.how}"
    if case.property == "bottleneck" and len(truth.answers) > 1:
        return Verified(-np.inf, f"{how}: there are many optima")
    if case.property == "envy-free" and len(truth.answers) > 1:
        # what a user would run on another's bundle is concave in the tasks, so who envies the same other at all corners
        # envies it between them; who envies different ones may envy nobody there
        found = [BoundedAnswer(one, truth.error) for one in truth.answers]
        others = (k for k in range(case.instance.n_users) if k != case.user)
        return Verified(float(max(min(envies(pool, case.user, k, one) for one in found) for k in others)), how)
    measure = MARGINS[case.property]
    then = other or truth
    margins = [
        measure(pool, case, BoundedAnswer(one, truth.error), BoundedAnswer(two, then.error))
        for one in truth.answers
        for two in (other.answers if other is not None else (one,))
    ]
    return Verified(float(min(margins)), how)


def recomputed(mechanism: Any, instance: Instance) -> Recomputed:
    """What a mechanism answers on one pool, by another way than its own where there is one.

    Exact fractions for leximin of any share, for the largest sum of shares (all corners) and for bundles; fifty digits
    where shares or alpha-fairness have roots. For other policies two solvers of the general method, which must agree;
    for other mechanisms there is no second way, so they are run again. Raises a `FairoptError` if there is no answer,
    or two ways to it disagree.

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
            return found if len(part) == instance.n_users else _with_users_left_out(found, part, instance)
    return _by_second_way(mechanism, instance)


# -- by definition ----------------------------------------------------------------------------------------------------


def _of_policy(policy: Policy, instance: Instance) -> Recomputed | None:
    """By its definition, where that is one of those in `exact.pool`."""
    pool, objective = ExactPool.of(instance), policy.objective
    if type(objective) is WeightedLog:
        return _of_bundles(policy, objective, pool, instance)
    if policy.constraints:
        return None
    single = single_term(objective)
    if type(single) not in (Leximin, MaxMin, Total, AlphaFair):
        return None
    assert isinstance(single, (Leximin, MaxMin, Total, AlphaFair))
    single.share.coefficients(instance)  # OutOfDomain, as for the policy itself
    worth, error, how = _coefficients(single.share, pool, instance)
    if isinstance(single, (Leximin, MaxMin)):  # of all max-min points fairopt answers the leximin
        return Recomputed((_answer_of_tasks(pool, leximin(pool, worth)),), _error_of(pool, error), how)
    if isinstance(single, Total) or single.alpha == 0:
        corners = max_sum(pool, worth)
        if corners is None:
            return None
        many = f", at each of {len(corners)} optimal corners" if len(corners) > 1 else ""
        return Recomputed(tuple(_answer_of_tasks(pool, x) for x in corners), _error_of(pool, error), how + many)
    near = policy.allocate(instance).tasks
    found = alpha_fair(pool, worth, single.alpha, near.tolist())
    if found is None:
        return None
    return Recomputed((_answer_of_tasks(pool, found),), _error_of(pool, ROOTS), "optimality conditions to 30 digits")


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
        cut(min(b / d for b, d in zip(bundle, row, strict=True) if d), limit)
        for bundle, row, limit in zip(held, pool.demands, pool.limits, strict=True)
    ]
    return Recomputed((ExactAnswer(tasks, held),), _error_of(pool, Fraction(0)), "exact fractions")


def _coefficients(share: Share, pool: ExactPool, instance: Instance) -> tuple[Row, Fraction, str]:
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


def _by_second_way(mechanism: Any, instance: Instance) -> Recomputed:
    """By solvers of the general method that agree, or simply again."""
    first = checked(mechanism, instance.replace())
    found = second_answer(mechanism, first)
    if found is None:
        return _by_running_again(mechanism, first)
    apart = _difference(first, found[0])
    if apart > APART:
        raise _TiedError(f"two routes differ by {apart:.1g} of what a user could run alone", first)
    return _with_error(first, *found)


def _by_running_again(mechanism: Any, first: Allocation, instead: str = "") -> Recomputed:
    """What a mechanism answers when it is run again, where there is no other way, or another does not settle it."""
    second = checked(mechanism, first.instance.replace())
    if (apart := _difference(first, second)) > float(AGAIN):
        raise _AnswersOtherwiseError(
            f"it answers otherwise when asked again (by {apart:.1g} of what a user runs alone)"
        )
    how = "run again, and measured in fractions"
    return _with_error(first, second, f"its own answer, {how}; {instead}" if instead else how)


def _with_error(first: Allocation, second: Allocation, how: str) -> Recomputed:
    """An answer, with what it may be off by two of them."""
    # solvers can stop at the same wrong place of a flat optimum, so the proved gaps bound what is believed too
    off = np.maximum(error_bound(first), error_bound(second)) * np.asarray(first.tasks)
    granted = max(TIMES * Fraction(_difference(first, second)), AGAIN)
    pool = ExactPool.of(first.instance)
    error = [max(granted * alone(pool, j), Fraction(float(e))) for j, e in enumerate(off)]
    return Recomputed((_in_fractions(first),), error, how)


def second_answer(mechanism: Any, first: Allocation) -> tuple[Allocation, str] | None:
    """The answer of a second way than the one that answered first, and its name.

    By the general method with another solver than that of ``first``; None where there is none, as for mechanisms that
    are not policies.
    """
    if not isinstance(mechanism, Policy) or "solver" not in inspect.signature(mechanism.allocate).parameters:
        return None
    here = set(installed())
    for solver in (s for s in CONE_CHAIN if s in here and s != first.certificate.solver):
        with contextlib.suppress(FairoptError):  # the next solver may do
            second = mechanism.allocate(first.instance, method="cone", solver=solver)
            return second, f"two routes ({first.certificate.method}, {solver}) agree"
    return None


def _error_of(pool: ExactPool, part: Fraction) -> Row:
    """So much of what each user could run alone."""
    return [part * alone(pool, j) for j in range(len(pool.demands))]


def _difference(one: Allocation, other: Allocation) -> float:
    alone = np.minimum(one.instance.tasks_alone[:, 0], one.instance.task_limits)
    differing = np.abs(one.tasks - other.tasks)
    worst = float(np.divide(differing, alone, out=np.zeros_like(differing), where=alone > 0).max(initial=0.0))
    if one.given_bundles is not None and other.given_bundles is not None:
        held = np.abs(one.given_bundles - other.given_bundles)[:, 0] / np.maximum(one.instance.total_capacities, 1e-300)
        worst = max(worst, float(held.max(initial=0.0)))
    return worst


def _in_fractions(answer: Allocation) -> ExactAnswer:
    bundles = [[Fraction(float(v)) for v in row] for row in answer.bundles[:, 0]]
    return ExactAnswer([Fraction(float(x)) for x in answer.tasks], bundles)


def _with_users_left_out(found: Recomputed, part: list[int], instance: Instance) -> Recomputed:
    """With those who take no part, who have nothing."""
    where = {j: k for k, j in enumerate(part)}
    nothing = [Fraction(0)] * instance.n_resources
    answers = tuple(
        ExactAnswer(
            [a.tasks[where[j]] if j in where else Fraction(0) for j in range(instance.n_users)],
            [a.bundles[where[j]] if j in where else nothing for j in range(instance.n_users)],
        )
        for a in found.answers
    )
    error = [found.error[where[j]] if j in where else Fraction(0) for j in range(instance.n_users)]
    return Recomputed(answers, error, found.how)


def _answer_of_tasks(pool: ExactPool, tasks: Row) -> ExactAnswer:
    return ExactAnswer(tasks, [[x * d for d in row] for x, row in zip(tasks, pool.demands, strict=True)])


def _product(numbers: Row) -> Fraction:
    out = Fraction(1)
    for number in numbers:
        out *= number
    return out
