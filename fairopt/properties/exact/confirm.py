"""Verification of a counterexample: answers are recomputed, and errors are deducted from the margin."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import only_term
from fairopt.blocks.bundles import AtMostRequested, FairShareBase, GlobalAggregateResource, WeightedLog
from fairopt.blocks.shares import Share
from fairopt.errors import FairoptError, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.policies.bottleneck import BottleneckFairness
from fairopt.policies.tradeoff import NashWelfare
from fairopt.policy import Policy
from fairopt.properties.answers import checked, difference, time_left
from fairopt.properties.exact.pool import (
    ExactAnswer,
    ExactPool,
    alone,
    alpha_fair,
    cut,
    ffmra,
    leximin,
    max_sum,
    mlf_drs,
    tasks_within,
)
from fairopt.properties.margins import exact_envy, margins_of
from fairopt.properties.misreports.best import lying_instance
from fairopt.properties.uncertainty import error_bound
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.form.solvers import CONE_CHAIN, installed

Vector = list[Fraction]

WIDTH = Fraction(1, 10**50)  # relative, of coefficients
ROOTS = Fraction(1, 10**25)  # relative error of results computed to fifty digits
FLOATS = Fraction(1, 10**14)  # relative error assumed of coefficients that are known as floats only
APART = 1e-3  # relative difference from which two methods do not confirm each other
TIMES = 10  # the error assumed, over the difference of two methods
AGAIN = Fraction(1, 10**6)  # relative error assumed where a mechanism is only run again


class _NotDeterministicError(OutOfDomain):
    """Two calls of a mechanism differ."""


class _TiedError(OutOfDomain):
    """Two solvers give different certified answers to a policy."""

    def __init__(self, message: str, first: Allocation) -> None:
        super().__init__(message)
        self.first = first


@dataclass(frozen=True)
class Counterexample:
    """An instance on one pool on which a property may fail, and the user for whom it fails."""

    property: str  # canonical name
    instance: Instance
    user: int  # who loses, envies, lies or could run more
    lie: tuple[float, ...] | None = None  # the demands that the user reports
    changed: Instance | None = None  # the instance after a user has left or a capacity has grown


@dataclass(frozen=True)
class Recomputed:
    """Answers that the notion allows (at least one; of many in closed form, all vertices), and how they were found."""

    answers: tuple[ExactAnswer, ...]
    how: str


@dataclass(frozen=True)
class Verified:
    """A relative margin after errors are deducted, and how it was computed; ``random`` if two calls differ."""

    margin: float
    how: str
    random: bool = False

    @property
    def confirmed(self) -> bool:
        """Whether the property fails beyond all errors."""
        return self.margin > NOISE


def verified(mechanism: Any, case: Counterexample) -> Verified:
    """Recompute a counterexample independently of how it was found.

    The margin is at most 0 if the property holds or the violation could not be confirmed; ``how`` says why.
    """
    pool = ExactPool.of(case.instance)
    if case.instance.n_servers == 1 and not alone(pool, case.user):
        return Verified(-np.inf, f"user {case.instance.users[case.user]!r} may run no tasks, so it loses nothing")
    try:
        return _verified(mechanism, case, pool)
    except _NotDeterministicError as refusal:
        return Verified(-np.inf, f"could not be computed again: {refusal}", True)
    except FairoptError as refusal:
        return Verified(-np.inf, f"could not be computed again: {refusal}")
    except Exception as error:
        return Verified(-np.inf, f"could not be confirmed: {type(error).__name__}: {error}")


def _verified(mechanism: Any, case: Counterexample, pool: ExactPool) -> Verified:
    """The margin of the recomputed answers."""
    try:
        truth = recomputed(mechanism, case.instance)
    except _TiedError as tied:
        if case.property != "pareto":  # that one of two optima is dominated is the finding
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
        # a user who envies the same other at all vertices envies it at all optima, since tasks on the other's bundle
        # are concave
        others = (k for k in range(case.instance.n_users) if k != case.user)
        return Verified(
            float(max(min(exact_envy(pool, case.user, k, one) for one in truth.answers) for k in others)), how
        )
    if (margins := margins_of(case.property)) is not None:
        return Verified(float(min(margins.exact(pool, case.user, one) for one in truth.answers)), how)
    pairs = ((one, two) for one in truth.answers for two in (other.answers if other is not None else ()))
    return Verified(float(min(OF_MECHANISMS[case.property](pool, case, one, two) for one, two in pairs)), how)


def recomputed(mechanism: Any, instance: Instance) -> Recomputed:
    """Answers of a mechanism on one pool, by an independent computation where there is one.

    Leximin, totals and bundles are computed in fractions, roots to fifty digits. For other policies two methods must
    agree; other mechanisms are run again. Raises a `FairoptError` if there is no answer, or two methods disagree.
    """
    if instance.n_servers > 1 or int(instance.counts[0]) > 1:
        raise OutOfDomain(f"{instance!r}: witnesses are verified on one pool; use instance.pooled()")
    policy = NashWelfare() if type(mechanism) is BottleneckFairness else mechanism
    part = [j for j in range(instance.n_users) if instance.task_limits[j] > 0]
    if type(policy) is Policy and part:
        some = instance if len(part) == instance.n_users else taking_part(instance, part)
        answers = _of_policy(policy, some)
        if answers is not None:
            return answers if len(part) == instance.n_users else _with_users_left_out(answers, part, instance)
    return _by_second_way(mechanism, instance)


# -- by definition ----------------------------------------------------------------------------------------------------


def _of_policy(policy: Policy, instance: Instance) -> Recomputed | None:
    """The answers by the definitions in `exact.pool`; None for other policies."""
    pool, objective = ExactPool.of(instance), policy.objective
    if type(objective) is WeightedLog:
        return _of_bundles(policy, objective, pool, instance)
    if policy.constraints:
        return None
    term = only_term(objective)
    if term is None or not term.is_simple:
        return None
    objective.check(instance)  # OutOfDomain, as for the policy itself
    per_task, error, how = coefficients_of(term.share, instance)
    if term.alpha is None:  # fairopt's max-min answer is the leximin one
        return Recomputed((_exact(pool, leximin(pool, per_task), error),), how)
    if term.is_linear:
        corners = max_sum(pool, per_task)
        if corners is None:
            return None
        many = f", at each of {len(corners)} optimal corners" if len(corners) > 1 else ""
        return Recomputed(tuple(_exact(pool, tasks, error) for tasks in corners), how + many)
    near = policy.allocate(instance).tasks
    tasks = alpha_fair(pool, per_task, term.alpha, near.tolist())
    if tasks is None:
        return None
    return Recomputed((_exact(pool, tasks, ROOTS),), "optimality conditions to 30 digits")


def _of_bundles(policy: Policy, objective: WeightedLog, pool: ExactPool, instance: Instance) -> Recomputed | None:
    base, kinds = objective.base, [type(c) for c in policy.constraints]
    if type(base) is not FairShareBase or np.ptp(instance.weights) > 0:
        return None
    aggregated = [c for c in policy.constraints if isinstance(c, GlobalAggregateResource)]
    if not kinds:
        held = mlf_drs(pool, base.growth)
    elif base == FairShareBase() and len(kinds) == 2 and set(kinds) == {AtMostRequested, GlobalAggregateResource}:
        held = ffmra(pool, aggregated[0].units)
    else:
        return None
    tasks = [cut(tasks_within(held[j], row), pool.limits[j]) for j, row in enumerate(pool.demands)]
    return Recomputed((_exact(pool, tasks, Fraction(0), held),), "exact fractions")


def coefficients_of(share: Share, instance: Instance) -> tuple[Vector, Fraction, str]:
    """Coefficients of a share by its definition, their relative error, and how they were computed."""
    if not share.states_exactly:
        return [Fraction(float(c)) for c in share.coefficients(instance)], FLOATS, "fractions of its float coefficients"
    bounds = [row[0] for row in share.enclosed(instance.derived.of_floats(), WIDTH)]
    if all(low == high for low, high in bounds):
        return [low for low, _ in bounds], Fraction(0), "exact fractions"
    return [low for low, _ in bounds], ROOTS, "fractions of roots to 50 digits"


# -- by running it --------------------------------------------------------------------------------------------------


def _by_second_way(mechanism: Any, instance: Instance) -> Recomputed:
    """The answer on which two methods agree, or that of a second run."""
    first = checked(mechanism, instance.replace())
    second = second_answer(mechanism, first)
    if second is None:
        return _by_running_again(mechanism, first)
    if (apart := difference(first, second[0])) > APART:
        raise _TiedError(f"two methods differ by {apart:.1g} of what a user could run alone", first)
    return _with_error(first, *second)


def _by_running_again(mechanism: Any, first: Allocation, instead: str = "") -> Recomputed:
    """The answer, compared with that of a second run."""
    second = checked(mechanism, first.instance.replace())
    if (apart := difference(first, second)) > float(AGAIN):
        raise _NotDeterministicError(f"two calls differ by {apart:.1g} of what a user runs alone")
    how = "run again, and measured in fractions"
    return _with_error(first, second, f"its own answer, {how}; {instead}" if instead else how)


def _with_error(first: Allocation, second: Allocation, how: str) -> Recomputed:
    """An answer, with its error estimated from a second one and from both gaps."""
    off = np.maximum(error_bound(first), error_bound(second)) * np.asarray(first.tasks)
    granted = max(TIMES * Fraction(difference(first, second)), AGAIN)
    pool = ExactPool.of(first.instance)
    error = [max(granted * alone(pool, j), Fraction(float(e))) for j, e in enumerate(off)]
    if first.certificate.whole and (first.tasks_by_server == second.tasks_by_server).all():
        error = [Fraction(0)] * len(error)  # whole numbers are exact
    bundles = [[Fraction(float(v)) for v in row] for row in first.bundles[:, 0]]
    return Recomputed((ExactAnswer([Fraction(float(x)) for x in first.tasks], bundles, error),), how)


def second_answer(mechanism: Any, first: Allocation) -> tuple[Allocation, str] | None:
    """The answer of a policy by the cone method with another solver than that of ``first``, and how it was found."""
    if not isinstance(mechanism, Policy) or "solver" not in inspect.signature(mechanism.allocate).parameters:
        return None
    here = set(installed())
    for solver in (s for s in CONE_CHAIN if s in here and s != first.certificate.solver):
        with contextlib.suppress(FairoptError):  # try the next solver
            second = mechanism.allocate(first.instance, method="cone", solver=solver, **time_left(mechanism))
            return second, f"two methods ({first.certificate.method}, {solver}) agree"
    return None


def _exact(pool: ExactPool, tasks: Vector, part: Fraction, bundles: list[Vector] | None = None) -> ExactAnswer:
    """An answer with an error relative to the tasks that each user could run alone."""
    held = bundles or [[x * d for d in row] for x, row in zip(tasks, pool.demands, strict=True)]
    return ExactAnswer(tasks, held, [part * alone(pool, j) for j in range(len(tasks))])


def _with_users_left_out(truth: Recomputed, part: list[int], instance: Instance) -> Recomputed:
    """The answers extended to users with a task limit of 0."""
    where = {j: k for k, j in enumerate(part)}
    zero, nothing = Fraction(0), [Fraction(0)] * instance.n_resources

    def whole(values: list[Any], otherwise: Any) -> list[Any]:
        return [values[where[j]] if j in where else otherwise for j in range(instance.n_users)]

    parts = ((whole(a.tasks, zero), whole(a.bundles, nothing), whole(a.error, zero)) for a in truth.answers)
    return Recomputed(tuple(ExactAnswer(*part) for part in parts), truth.how)


# -- margins ----------------------------------------------------------------------------------------------------------


def _lie_margin(pool: ExactPool, case: Counterexample, truth: ExactAnswer, lied: ExactAnswer) -> Fraction | float:
    j = case.user
    lying = cut(tasks_within(lied.held(j), pool.demands[j]), pool.limits[j])
    if lying <= alone(pool, j) / 10**9:
        return Fraction(-1)
    return np.inf if truth.tasks[j] <= truth.error[j] else lying / truth.most(j) - 1


def _loss_margin(pool: ExactPool, case: Counterexample, before: ExactAnswer, after: ExactAnswer) -> Fraction:
    assert case.changed is not None
    there = case.changed.users.index(case.instance.users[case.user])
    had = before.least(case.user)
    return 1 - after.most(there) / had if had > 0 else Fraction(-1)


OF_MECHANISMS: dict[str, Callable[[ExactPool, Counterexample, ExactAnswer, ExactAnswer], Fraction | float]] = {
    "strategy-proof": _lie_margin,
    "strategy-proof-boosting": _lie_margin,
    "population-monotone": _loss_margin,
    "resource-monotone": _loss_margin,
}
