"""One property on one instance of any number of servers; and the sentence about a counterexample."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.properties.answers import checked
from fairopt.properties.audit.findings import Unconfirmed, Witness
from fairopt.properties.checks import check
from fairopt.properties.exact.confirm import Counterexample, second_answer
from fairopt.properties.misreports.best import Misreport, best_misreport, lying_instance, tasks_on
from fairopt.properties.monotone import population_monotone, resource_monotone
from fairopt.properties.names import OF_ALLOCATIONS, percent, zero_if_noise
from fairopt.properties.uncertainty import error_bound

__all__ = ["search_instance", "sentence_of", "witness_of_lie"]


def sentence_of(mechanism: Any, case: Counterexample) -> str | None:
    """Which user loses what, by the mechanism's own answers; None where a check of them does not show it."""
    instance, user = case.instance, case.instance.users[case.user]
    answer = checked(mechanism, instance)
    truth = float(answer.tasks[case.user])
    if case.lie is not None:
        lied = checked(mechanism, lying_instance(instance, case.user, np.array(case.lie)))
        runs = tasks_on(lied.bundles[case.user], instance, case.user)
        told, gain = tuple(map(float, case.lie)), runs / truth - 1 if truth > 0 else np.inf
        return str(Misreport.on(instance, case.user, told, gain=gain, truthful=truth, lying=runs, family=""))
    if case.changed is not None:
        after = checked(mechanism, case.changed)
        runs = float(after.tasks[case.changed.users.index(user)])
        gone = [u for u in instance.users if u not in case.changed.users]
        if gone:
            what = f"user {gone[0]!r} leaves"
        else:
            i = int(np.flatnonzero(case.changed.total_capacities != instance.total_capacities)[0])
            before, now = instance.total_capacities[i], case.changed.total_capacities[i]
            what = f"the capacity of {instance.resources[i]!r} grows from {before:.6g} to {now:.6g}"
        return f"when {what}, user {user!r} falls from {truth:.6g} to {zero_if_noise(runs, truth):.6g} tasks"
    verdict = check(answer, [case.property])[case.property]
    return None if verdict.holds else verdict.sentence


def search_instance(
    mechanism: Any, name: str, instance: Instance, positive: bool, seed: int, budget: int | None = None
) -> Witness | Unconfirmed | Exception | None:
    """What shows that a mechanism breaks a property on one instance of any number of servers; None for nothing.

    An exception of the mechanism is returned, `OutOfDomain` where it is not defined. There is a witness only if a
    second answer agrees (of the general method with another solver, where the mechanism is a policy, else of a second
    run), and only if the margin is above what the proved gaps leave open. ``positive``, ``seed`` and ``budget`` are
    those of `best_misreport`.
    """
    try:
        if name in OF_ALLOCATIONS:
            return _search_allocation(mechanism, name, instance)
        if name in ("strategy-proof", "strategy-proof-boosting"):
            boosting = name == "strategy-proof-boosting"
            lies = [
                best_misreport(mechanism, instance, j, boosting=boosting, positive=positive, seed=seed, budget=budget)
                for j in np.flatnonzero(instance.task_limits > 0).tolist()
            ]
            found = max((lie for lie in lies if lie is not None), key=lambda lie: lie.gain, default=None)
            return None if found is None else witness_of_lie(instance, found)
        search = population_monotone if name == "population-monotone" else resource_monotone
        verdict = search(mechanism, instance)
    except Exception as error:
        return error
    if verdict.holds:
        return None
    how = "before and after solved again, with proof"
    return Witness(instance, verdict.sentence, verdict.margin, None, None, None, how)


def witness_of_lie(instance: Instance, lie: Misreport) -> Witness:
    """A profitable lie as a witness."""
    how = "truth and lie solved again, with proof"
    return Witness(instance, str(lie), lie.gain, lie.user, lie.demands, lie.gain, how)


def _search_allocation(mechanism: Any, name: str, instance: Instance) -> Witness | Unconfirmed | None:
    """A property of allocations, checked on the answer and confirmed on a second one."""
    first = checked(mechanism, instance)
    verdict = check(first, [name])[name]
    if verdict.holds:
        return None
    try:
        margin, unsure, how = _confirm_margin(mechanism, name, instance, first, verdict.margin)
    except Exception as error:  # any exception of the mechanism or of a solver
        return Unconfirmed(instance, verdict.sentence, f"could not be confirmed: {type(error).__name__}: {error}")
    if margin <= unsure:
        reason = f"{how}; the margin is {percent(margin)}, and the gaps leave {percent(unsure)} open"
        return Unconfirmed(instance, verdict.sentence, reason)
    return Witness(instance, verdict.sentence, margin, None, None, None, how)


def _confirm_margin(
    mechanism: Any, name: str, instance: Instance, first: Allocation, margin: float
) -> tuple[float, float, str]:
    """The margin in both answers, how much of it the gaps leave open, and how the second answer was found."""
    second, how = None, "run again"
    if (found := second_answer(mechanism, first)) is not None:
        second, how = found
        again = check(second, [name])[name]
        if again.holds:
            how = how.replace("agree", "differ")
            if name == "pareto":  # two optima, if both are right, of which one is dominated: that is the finding
                second, how = None, f"its own answer, run again; {how}"
    if second is None:
        second = checked(mechanism, instance.replace())
        again = check(second, [name])[name]
    margin = min(margin, again.margin)
    # with no user off by more than this part of its tasks, no margin is off by more than so much
    unsure = sum(float(error_bound(answer).sum()) for answer in (first, second)) * (1.0 + max(margin, 0.0))
    return margin, unsure, how
