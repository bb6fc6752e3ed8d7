"""One solver or method on one problem: the status that it reports by itself, and the answer that fairopt certifies.

`league` runs these functions in a subprocess, so they take and return plain data.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.model import Point
from fairopt.errors import FairoptError, InvalidBlock, NotCertified, OutOfDomain, SolverUnavailable
from fairopt.instance import Instance
from fairopt.policies.measured import levels_of
from fairopt.policies.registry import named_policy
from fairopt.policy import Policy
from fairopt.proof.read_problem import judge_problem
from fairopt.runtime.lazy import cp
from fairopt.solve.form import solvers
from fairopt.solve.form.highs import silence_banner
from fairopt.solve.form.problem import first_program
from fairopt.solve.form.program import Program

__all__ = [
    "CERTIFIED",
    "NOT_APPLICABLE",
    "NO_CLAIM",
    "REFUSED",
    "RIGHT",
    "WRONG",
    "Certified",
    "Claim",
    "Optimum",
    "certified",
    "claimed",
    "computed",
    "measured",
    "ready",
]

CERTIFIED, REFUSED, NOT_APPLICABLE = "certified", "refused", "not applicable"
RIGHT, WRONG, NO_CLAIM = "right", "wrong", "none"
IMPOSSIBLE = ("infeasible", "unbounded")  # statuses that are wrong where an optimum is known
STEP = 1e-6  # relative change of all tasks, for the unit of gaps
_warm: set[str] = set()  # solvers and methods that have run in this process; the first run also imports


@dataclass(frozen=True)
class Optimum:
    """The optimal value of the first tier, or of the smallest level, and the unit of gaps: the change of the value per
    relative change of all tasks.

    ``levels`` are those of a leximin, from the smallest up.
    """

    value: float
    unit: float
    levels: tuple[float, ...] | None = None

    def shortfall(self, value: float) -> float:
        """How far a value is below the optimum, in units of a certificate's gap; negative above it."""
        short = self.value - value
        if abs(short) <= 1e-15 * abs(self.value):
            return 0.0
        found = short / self.unit if self.unit > 0 else np.inf
        return float(found) if found == found else float(np.inf)

    def of_levels(self, answer: Allocation) -> float:
        """The largest relative loss of a level of a leximin; negative if none is lost, and the smallest is above."""
        known, given = np.array(self.levels), np.sort(levels_of(answer))
        if not len(known):
            return 0.0
        lost = (known - given) / np.where(known > 0, known, 1.0)
        return float(lost.max() if lost.max() > 0 else lost[0])


@dataclass(frozen=True)
class Claim:
    """What a solver reports about the CVXPY problem in natural units, with its own options.

    ``gap`` is the true gap of its answer after the tasks are cut to the capacities, or the violation of a constraint
    if that is larger; None without an answer that the solver calls optimal.
    """

    claim: str
    status: str | None = None
    gap: float | None = None
    seconds: float | None = None
    lacks: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Certified:
    """What ``allocate`` returns with a solver or method.

    ``gap`` is proved; ``true_gap`` is the distance to the known optimum.
    """

    outcome: str
    gap: float | None = None
    true_gap: float | None = None
    seconds: float | None = None
    method: str | None = None
    lacks: tuple[str, ...] = ()
    reason: str | None = None


def ready() -> None:
    """Import what the other functions need."""
    cp.settings  # noqa: B018
    silence_banner()


def computed(policy: Any, instance: Instance, time_limit: float) -> Optimum | str:
    """The certified optimum of a policy on an instance, or the reason why there is none."""
    try:
        mechanism = policy_of(policy)
        answer = mechanism.allocate(instance, time_limit=time_limit)
    except FairoptError as error:
        return _reason(error)
    return optimum_of(mechanism, answer)


def optimum_of(policy: Policy, answer: Allocation) -> Optimum:
    """The value and the unit of gaps of a certified answer."""
    program, point = _at(policy, answer.instance, answer.tasks_by_server, answer.given_bundles)
    if point is None:
        return Optimum(0.0, 0.0)
    value, less = (float(program.objective.value(one)) for one in (point, point.scaled(1 - STEP)))
    return Optimum(value, (value - less) / STEP)


def value_of(policy: Policy, instance: Instance, tasks: Any, bundles: Any) -> float:
    """The objective of the first tier, or the smallest level, at tasks of shape (n_users, n_servers) and bundles."""
    program, point = _at(policy, instance, tasks, bundles)
    with np.errstate(all="ignore"):
        return 0.0 if point is None else float(program.objective.value(point))


def _at(policy: Policy, instance: Instance, tasks: Any, bundles: Any) -> tuple[Program, Point | None]:
    """The program of the first tier, and an allocation as its point; None if no user takes part."""
    program = first_program(policy, instance, policy.constraints)
    if program.empty:
        return program, None
    held = None if bundles is None else program.gather_rows(bundles)
    return program, program.point(program.gather(tasks), held)


def policy_of(given: Any) -> Policy:
    """A policy from its text or itself; `InvalidBlock` if it is another mechanism, which is no CVXPY problem."""
    found = named_policy(given) if isinstance(given, str) else given
    if not isinstance(found, Policy):
        raise InvalidBlock(f"{given} is not made of blocks, so it is no problem for a solver; leave it out")
    return found


def claimed(policy: Any, instance: Instance, solver: str, optimum: Optimum, wrong_above: float) -> Claim:
    """Solve a policy's problem in natural units by a solver as it comes, and compare its answer with the optimum."""
    mechanism = policy_of(policy)
    try:
        problem = mechanism.problem(instance)
    except FairoptError as error:  # no single convex problem
        return Claim(NOT_APPLICABLE, reason=_reason(error))
    if solver == "HIGHS":
        silence_banner()
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver=solver, warm_start=False)
    except Exception as error:  # of CVXPY or of a solver's bindings; the run goes on
        if solvers.refuses(error):
            return Claim(NOT_APPLICABLE, lacks=solvers.lacking(problem, solver), reason=_reason(error))
        return Claim(NO_CLAIM, "solver_error", seconds=time.perf_counter() - begun, reason=_reason(error))
    seconds, status = time.perf_counter() - begun, str(problem.status)
    if status in IMPOSSIBLE:
        return Claim(WRONG, status, seconds=seconds)
    if status != "optimal":
        return Claim(NO_CLAIM, status, seconds=seconds)
    try:
        gap = measured(mechanism, instance, problem, optimum)
    except NotCertified as error:  # "optimal" without an answer
        return Claim(WRONG, status, seconds=seconds, reason=_reason(error))
    return Claim(RIGHT if gap <= wrong_above else WRONG, status, gap, seconds)


def measured(policy: Policy, instance: Instance, problem: cp.Problem, optimum: Optimum) -> float:
    """The true gap of a solved problem's answer, cut to the capacities, or its violation of constraints if larger."""
    answer = judge_problem(policy, problem, instance)
    value = value_of(policy, instance, answer.tasks, answer.bundles)
    return max(optimum.shortfall(value), answer.block_violation, 0.0)


def certified(
    policy: Any,
    instance: Instance,
    options: Mapping[str, Any],
    optimum: Optimum,
    time_limit: float,
) -> Certified:
    """Allocate with a solver or method, within a time limit, and compare the answer with the optimum."""
    mechanism = policy_of(policy)
    name = str([*options.values()])
    for _ in range(1 if name in _warm else 2):
        begun = time.perf_counter()
        try:
            answer = mechanism.allocate(instance, time_limit=time_limit, **options)
        except SolverUnavailable as error:
            return Certified(NOT_APPLICABLE, lacks=error.lacks, reason=_reason(error))
        except (OutOfDomain, InvalidBlock) as error:  # no method for it
            return Certified(NOT_APPLICABLE, reason=_reason(error))
        except Exception as error:  # of fairopt or of a solver's bindings; the run goes on
            return Certified(REFUSED, seconds=time.perf_counter() - begun, reason=_reason(error))
        seconds = time.perf_counter() - begun
    _warm.add(name)
    proof = answer.certificate
    if optimum.levels is not None:
        true_gap = optimum.of_levels(answer)
    else:
        true_gap = optimum.shortfall(value_of(mechanism, instance, answer.tasks_by_server, answer.given_bundles))
    return Certified(CERTIFIED, proof.gap, true_gap, seconds, proof.method)


def _reason(error: BaseException) -> str:
    """The class and the first line of an error."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}".rstrip(": ")
