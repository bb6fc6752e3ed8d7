"""Policies that decide bundles: what each user holds of each resource on each server; tasks are what fits in them.

Where everything falls apart by server, resource and group, the answer comes in closed form (`closed`); any solver of
CVXPY can be asked as well, and has to be when the policy speaks of tasks too. The closed form's prices prove all
answers of the first kind; the others are judged by the cone program's own dual.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, feasibility
from fairopt.blocks.algebra import fall
from fairopt.blocks.bundle_model import BundleModel, BundlePoint, Triples, cut_at_limits, tasks_within
from fairopt.blocks.bundles import WeightedLog
from fairopt.blocks.constraints import Constraint, EnvyFree
from fairopt.blocks.model import Pairs
from fairopt.blocks.objectives import Leximin, Objective, Tiers
from fairopt.certificate import BLOCK_TOLERANCE, Certificate, Try, within_tolerance
from fairopt.errors import Infeasible, InvalidBlock, OutOfDomain
from fairopt.instance import Instance
from fairopt.routes import certify, closed, solvers
from fairopt.routes.cone import Settings, is_linear, objective_form
from fairopt.routes.conic_bound import conic_bound
from fairopt.routes.program import is_ours, written
from fairopt.routes.unbounded import refuse_unbounded
from fairopt.telling import tell

__all__ = ["BundleAnswer", "BundleProgram", "decides_bundles", "finished", "solve"]

Float = NDArray[np.floating[Any]]


def decides_bundles(objective: Objective) -> bool:
    """Whether a policy with this objective decides bundles, and not only tasks.

    Parameters
    ----------
    objective : Objective
        Of the policy.

    Returns
    -------
    bool
    """
    tiers = objective.tiers if isinstance(objective, Tiers) else (objective,)
    return any(part.of_bundles for tier in tiers for _, part in tier.terms())


@dataclass(frozen=True)
class BundleAnswer:
    """Bundles and the tasks in them, by server row of the instance that was solved, with their evidence."""

    bundles: Float
    tasks: Float
    gap: float
    violation: float
    block_violation: float
    method: str
    value: float = 0.0
    prices: Float | None = None
    solver: str | None = None
    tried: tuple[Try, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it can be certified."""
        return within_tolerance(self.gap, self.violation, self.block_violation)


class BundleProgram:
    """A policy over bundles on an instance: who takes part, servers merged, and what is shared out if that is all.

    Parameters
    ----------
    instance : Instance
        As the user gave it.
    objective : Objective
        A number, no order.
    constraints : sequence of Constraint
        Beside those of the instance.
    merge : bool, default True
        Solve identical servers as one row with a count.
    """

    def __init__(
        self, instance: Instance, objective: Objective, constraints: Sequence[Constraint], merge: bool = True
    ) -> None:
        if isinstance(objective, Leximin):
            raise InvalidBlock(f"{objective!r} beside an objective over bundles; give MaxMin, which is a number")
        self.given, self.objective, self.constraints = instance, objective, tuple(constraints)
        takes_part = instance.task_limits > 0
        self.active = np.flatnonzero(takes_part)
        self.unmerged = instance if takes_part.all() else instance.taking_part(self.active)
        ours = all(is_ours(block) for block in (*self.constraints, *(t for _, t in objective.terms())))
        bases = (t.base for _, t in objective.terms() if isinstance(t, WeightedLog))
        self.instance = self.unmerged.merged() if merge and ours and all(map(is_ours, bases)) else self.unmerged
        if self.empty:
            return
        for constraint in self.constraints:
            if isinstance(constraint, EnvyFree):
                raise InvalidBlock(f"{constraint!r} is not convex where bundles are decided; leave it out")
            constraint.check(self.instance)
        if self.division is None:
            objective.check(self.instance)

    @property
    def empty(self) -> bool:
        """Whether nobody takes part."""
        return self.instance.n_users == 0

    @cached_property
    def division(self) -> closed.Division | None:
        """What is shared out, if the program is that and nothing else."""
        return closed.division(self.instance, self.objective, self.constraints)

    @cached_property
    def triples(self) -> Triples:
        """Who has a use for what: for its base, and unless that is all the policy speaks of, for its tasks."""
        instance = self.instance
        who = np.zeros((instance.n_users, instance.n_servers, instance.n_resources), dtype=bool)
        for factor, term in self.objective.terms():
            if isinstance(term, WeightedLog) and factor > 0:
                who |= term.bases(instance) > 0
        if self.division is None:
            who |= (instance.per_server_demands > 0) & instance.eligible[:, :, None]
        return Triples(instance, who)

    def on_rows(self, one_server: Float) -> Float:
        """Values on one server of each row as totals of the rows."""
        counts = self.instance.counts
        return one_server if (counts == 1).all() else one_server * counts.reshape(-1, *[1] * (one_server.ndim - 2))

    def expand(self, by_row: Float) -> Float:
        """Values by server row of the instance given: spread over identical servers, zero for who takes no part."""
        if self.instance.n_servers != self.unmerged.n_servers:
            classes, counts = self.unmerged.server_classes, self.unmerged.counts
            portion = counts / self.instance.counts[classes]
            by_row = by_row[:, classes] * portion.reshape(-1, *[1] * (by_row.ndim - 2))
        if len(self.active) == self.given.n_users:
            return by_row
        out = np.zeros((self.given.n_users, *by_row.shape[1:]))
        out[self.active] = by_row
        return out


def solve(program: BundleProgram, settings: Settings, method: str) -> BundleAnswer:
    """The best bundles, in closed form where that is all, else by the first solver whose answer can be certified.

    Parameters
    ----------
    program : BundleProgram
        What to solve.
    settings : Settings
        Solver, options, time.
    method : {"auto", "cone", "closed"}
        Which way.

    Returns
    -------
    BundleAnswer
        The caller looks at ``ok``.

    Raises
    ------
    OutOfDomain
        If the closed form is asked for where there is none, or somebody with a base can hold nothing.
    Infeasible, Unbounded, NotConcave, SolverUnavailable
    """
    if program.empty:
        shape = (0, program.instance.n_servers)
        return BundleAnswer(np.zeros((*shape, program.instance.n_resources)), np.zeros(shape), 0.0, 0.0, 0.0, "empty")
    question = program.division
    if method == "closed" and question is None:
        raise OutOfDomain(
            f"closed is exact for WeightedLog under GlobalAggregateResource and AtMostRequested only, not for "
            f"{program.objective!r} under {list(program.constraints)!r}; use method='auto'"
        )
    if question is None:
        return _by_cones(program, settings, None)
    if (method != "cone" and settings.solver is None) or not len(program.triples):  # nothing to hold is no program
        return _judged(program, question.answer(), "closed")
    question.answer()  # so that a policy without an answer is refused alike
    return _by_cones(program, settings, question)


def _judged(program: BundleProgram, found: closed.Judged, method: str) -> BundleAnswer:
    """Bundles on one server of each row, with what the closed form's prices say about them."""
    factor = sum(c for c, _ in program.objective.terms())
    tasks = cut_at_limits(program.instance, program.on_rows(found.tasks))
    return BundleAnswer(
        program.on_rows(found.bundles), tasks, found.gap, found.violation, found.part_violation, method,
        value=factor * found.value, prices=factor * found.prices,
    )  # fmt: skip


class _ConeModel:
    """A `BundleProgram` as CVXPY constraints in unknowns near 1: bundles first, then tasks."""

    def __init__(self, program: BundleProgram, solver: str | None) -> None:
        instance = program.instance
        self.triples, pairs = program.triples, Pairs(instance)
        there = np.maximum(instance.eligible.sum(axis=0), 1)
        self.units = self.triples.capacity / there[self.triples.server]  # an equal part of each capacity
        room = self.triples.table(self.units)
        scale = tasks_within(instance, room)[pairs.user, pairs.server]
        self.alone = instance.tasks_alone[pairs.user, pairs.server]
        self.scale = np.where(scale > 0, scale, self.alone)
        speaks_of_tasks = program.division is None
        k = len(self.triples)
        self.unknowns = cp.Variable(k + len(pairs) * speaks_of_tasks, name="bundles and tasks in units", nonneg=True)
        tasks = self.unknowns[k:] if speaks_of_tasks else cp.Constant(np.zeros(len(pairs)))
        self.model = BundleModel(
            instance, self.unknowns[:k], self.units, self.triples, tasks, self.scale, pairs, solver
        )  # fmt: skip
        rows = np.unique(self.triples.row)
        self.capacity = self.model.loads[rows] <= 1
        self.rows = rows
        self.constraints: list[cp.Constraint] = [self.capacity]
        if speaks_of_tasks:
            self.constraints.append(self.model.fits())
            limited = np.flatnonzero(np.isfinite(instance.task_limits))
            if len(limited):
                self.constraints.append(cp.multiply(self.model.tasks[limited], 1 / instance.task_limits[limited]) <= 1)
        self.named = {f"{c!r}: {n}": x for c in program.constraints for n, x in written(c, self.model).items()}
        self.constraints += self.named.values()

    @property
    def everything(self) -> list[cp.Constraint]:
        """All that must hold."""
        return [*self.constraints, *self.model.required]

    def bundles(self) -> Float:
        """What a solver left, repaired to the capacities: totals of the rows."""
        held = np.maximum(np.asarray(self.unknowns.value[: len(self.triples)], dtype=float), 0.0) * self.units
        load = np.bincount(self.triples.row, held / self.triples.capacity)
        return self.triples.table(held / np.maximum(load, 1.0)[self.triples.row])


def _by_cones(program: BundleProgram, settings: Settings, question: closed.Division | None) -> BundleAnswer:
    tried: list[Try] = []
    best: BundleAnswer | None = None
    for name in settings.chain(False):
        if settings.late:
            tried.append(Try(name, "not tried", 0.0, message="time limit reached"))
            break
        start = time.perf_counter()
        cone = _ConeModel(program, name)
        if question is None:
            form, factor = objective_form(program.objective, cone.model, cone.unknowns)
        else:
            form, factor = cp.sum(cp.multiply(question.parts_of_one(), cp.log(cone.model.held))), None
        problem = cp.Problem(cp.Maximize(form), cone.everything)
        tell(f"cone program over bundles by {name}")
        attempt = solvers.run(
            problem, name, options=settings.options, time_limit=settings.left(), verbose=settings.verbose
        )  # fmt: skip
        if attempt.status.startswith("infeasible"):
            _refuse_infeasible(program, cone)
        if "unbounded" in attempt.status:
            refuse_unbounded(program.objective, form, cone.everything, cone.unknowns)
        if attempt.status in solvers.SOLVED and cone.unknowns.value is not None:
            if question is None:
                answer = _by_own_dual(program, cone, problem, form, factor)
            else:
                answer = _judged(program, question.answer(cone.bundles() / program.instance.counts[:, None]), "cone")
            attempt = replace(attempt, gap=answer.gap, violation=answer.violation)
            if best is None or (not best.ok and answer.gap < best.gap):
                best = replace(answer, solver=name)
        tried.append(replace(attempt, seconds=time.perf_counter() - start))
        if best is not None and best.ok:
            break
    if best is None:
        shape = (program.instance.n_users, program.instance.n_servers)
        nothing = np.zeros((*shape, program.instance.n_resources))
        best = BundleAnswer(nothing, np.zeros(shape), np.inf, 0.0, np.inf, "cone")
    return replace(best, tried=tuple(tried))


def _by_own_dual(
    program: BundleProgram, cone: _ConeModel, problem: cp.Problem, form: cp.Expression, factor: float | None
) -> BundleAnswer:
    """Bundles of a policy that speaks of tasks as well, judged by the dual of its cone program."""
    bundles, instance = cone.bundles(), program.instance
    pairs = cone.model.pairs
    wished = np.maximum(np.asarray(cone.unknowns.value[len(cone.triples) :], dtype=float), 0.0) * cone.scale
    room = tasks_within(instance, bundles)
    held = bundles[cone.triples.user, cone.triples.server, cone.triples.resource] / cone.units
    wished, room = cut_at_limits(instance, np.minimum(pairs.table(wished), room)), cut_at_limits(instance, room)
    for tasks in (room, _most_tasks(cone, held, wished), wished):  # all that fit, unless a constraint wants fewer
        cone.unknowns.save_value(np.concatenate([held, tasks[pairs.user, pairs.server] / cone.scale]))
        blocks = max((certify.relative_violation(c) for c in cone.named.values()), default=0.0)
        if blocks <= BLOCK_TOLERANCE:
            break
    point = BundlePoint(instance, bundles, tasks)
    value, drop = program.objective.value(point), program.objective.drop(point)
    top = np.concatenate([cone.triples.capacity / cone.units, cone.alone / cone.scale])
    bound, at = conic_bound(problem, cone.unknowns, top), form.value
    gap = np.inf
    if bound is not None and at is not None and np.isfinite(bound - float(at)):
        excess = bound - float(at)
        gap = excess * factor / (drop or 1.0) if factor is not None else excess / _form_fall(form, cone)
    capacity = np.zeros(instance.capacities.size)
    capacity[cone.rows] = np.maximum(certify.dual_values(cone.capacity), 0.0) * (factor or 1.0)
    whole = np.where(instance.capacities > 0, instance.capacities, np.inf) * instance.counts[:, None]
    prices = capacity.reshape(whole.shape) / whole if not cone.named and factor is not None else None
    return BundleAnswer(
        bundles, tasks, max(gap, 0.0) if gap >= 0 or gap < 0 else np.inf, feasibility(instance, tasks), blocks, "cone",
        value=value, prices=prices,
    )  # fmt: skip


def _most_tasks(cone: _ConeModel, held: Float, wished: Float) -> Float:
    """As many tasks as bundles and the policy's constraints have room for: an objective of bundles leaves that open."""
    pairs, k = cone.model.pairs, len(held)
    least = wished[pairs.user, pairs.server] / cone.scale * (1 - 1e-9)
    fixed = [cone.unknowns[:k] == held, cone.unknowns[k:] >= least]
    problem = cp.Problem(cp.Maximize(cp.sum(cone.unknowns[k:])), [*cone.everything, *fixed])
    linear = all(is_linear(c) for c in problem.constraints)
    attempt = solvers.run(problem, solvers.chain(linear)[0])
    if attempt.status not in solvers.SOLVED or cone.unknowns.value is None:
        return wished
    return np.asarray(pairs.table(np.maximum(np.asarray(cone.unknowns.value[k:], dtype=float), 0.0) * cone.scale))


def _form_fall(form: cp.Expression, cone: _ConeModel) -> float:
    """What a transform is worth at the answer, as `Objective.drop` measures the objective itself."""
    at = np.array(cone.unknowns.value)

    def value(factor: float) -> float:
        cone.unknowns.save_value(at * factor)
        return float(form.value)

    found = fall(value)
    cone.unknowns.save_value(at)
    return found or 1.0


def _refuse_infeasible(program: BundleProgram, cone: _ConeModel) -> None:
    """`Infeasible` with an irreducible set of the policy's conditions; return if a second look finds them to hold."""

    def feasible(names: Sequence[str]) -> bool:
        must = [c for c in cone.constraints if not any(c is x for x in cone.named.values())]
        conditions = [*must, *cone.model.required, *(cone.named[name] for name in names)]
        problem = cp.Problem(cp.Minimize(0), conditions)
        for solver in solvers.chain(all(is_linear(c) for c in conditions)):
            status = solvers.run(problem, solver).status
            if status.startswith("infeasible"):
                return False
            if status in solvers.SOLVED:
                return True
        return True

    added = tuple(f"{c!r}: " for c in program.constraints if c.added)
    kept = [name for name in cone.named if not name.startswith(added)]
    if not kept or feasible(kept):
        return
    for name in list(kept):
        without = [other for other in kept if other != name]
        if not feasible(without):
            kept = without
    blocks = tuple(dict.fromkeys(f"`{name.rpartition(': ')[0]}`" for name in kept))
    raise Infeasible(f"{' and '.join(blocks)} cannot hold within the capacities", blocks)


def finished(policy: Any, program: BundleProgram, answers: Sequence[BundleAnswer], seconds: float) -> Allocation:
    """The allocation of an answer, as `choose.allocate` returns it.

    Parameters
    ----------
    policy : Policy
        Who asked.
    program : BundleProgram
        Of the first tier.
    answers : sequence of BundleAnswer
        One per tier.
    seconds : float
        The whole call.

    Returns
    -------
    Allocation
    """
    first, last = answers[0], answers[-1]
    certificate = Certificate(
        gap=max(a.gap for a in answers), violation=last.violation, method=last.method, solver=last.solver,
        seconds=seconds, block_violation=last.block_violation, tried=tuple(t for a in answers for t in a.tried),
        gaps=tuple(a.gap for a in answers) if len(answers) > 1 else (),
    )  # fmt: skip
    value = first.value
    if last is not first:
        value = program.objective.value(BundlePoint(program.instance, last.bundles, last.tasks))
    prices = first.prices
    if prices is not None and program.instance.n_servers != program.unmerged.n_servers:
        prices = prices[program.unmerged.server_classes]
    bundles = program.expand(last.bundles)
    return Allocation(program.given, policy, program.expand(last.tasks), certificate, value, prices, bundles)
