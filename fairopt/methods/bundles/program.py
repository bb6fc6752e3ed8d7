"""Policies that decide bundles: what each user holds of each resource on each server; tasks are what fits in them.

Where everything falls apart by server, resource and group, the answer comes in closed form (`closed`); any solver of
CVXPY can be asked as well, and has to be when the policy speaks of tasks too. The closed form's prices prove all
answers of the first kind; the others are judged by the cone program's own dual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairopt.blocks.base import is_ours
from fairopt.blocks.bundle_model import BundleModel, Triples, cut_at_limits, tasks_within
from fairopt.blocks.bundles import WeightedLog
from fairopt.blocks.constraints import Constraint, EnvyFree
from fairopt.blocks.model import Pairs
from fairopt.blocks.objectives import Leximin, Objective, Tiers
from fairopt.certificate import Try
from fairopt.errors import Infeasible, InvalidBlock, OutOfDomain
from fairopt.formulation import solvers
from fairopt.formulation.program import objective_form, treats_alike, written
from fairopt.instance import Instance
from fairopt.methods.bundles import closed_form
from fairopt.methods.cone import infeasible
from fairopt.methods.cone.chain import by_chain, solve_problem
from fairopt.methods.settings import Settings
from fairopt.progress import tell
from fairopt.proofs import bundles as proofs
from fairopt.proofs.bundles import BundleAnswer, BundleProposal, SolvedBundles

__all__ = ["BundleConeModel", "BundleProgram", "decides_bundles", "solve"]

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
        merge = merge and treats_alike(self.unmerged, (objective, *self.constraints))
        self.instance = self.unmerged.merged() if merge else self.unmerged
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
    def division(self) -> closed_form.Division | None:
        """What is shared out, if the program is that and nothing else."""
        return closed_form.division(self.instance, self.objective, self.constraints)

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

    def gather(self, values: Float) -> Float:
        """Values by server row of the instance that is solved: what `expand` spreads."""
        values = values[self.active]
        if self.instance.n_servers == self.unmerged.n_servers:
            return values
        out = np.zeros((len(values), self.instance.n_servers, *values.shape[2:]))
        for s, row in enumerate(self.unmerged.server_classes):
            out[:, row] += values[:, s]
        return out


def proposal_of(
    program: BundleProgram, held: Float, tasks: Float, method: str, solver: str | None
) -> BundleProposal:
    """Bundles and tasks of the instance as given, of which a program's own dual is the evidence."""
    bundles, run = program.gather(held), program.gather(tasks)
    if program.empty or program.division is not None:
        return BundleProposal(method, program.division, bundles, run, solver)
    cone = BundleConeModel(program, solver)
    form, factor = objective_form(program.objective, cone.model, cone.unknowns)
    return BundleProposal(method, SolvedBundles(cone, form, factor), bundles, run, solver)


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
        return proofs.nothing(program)
    question = program.division
    if method == "closed" and question is None:
        raise OutOfDomain(
            f"closed is exact for WeightedLog under GlobalAggregateResource and AtMostRequested only, not for "
            f"{program.objective!r} under {list(program.constraints)!r}; use method='auto'"
        )
    if question is not None:
        if (method != "cone" and settings.solver is None) or not len(program.triples):  # nothing to hold is no program
            return proofs.judge(program, BundleProposal("closed", question))
        question.answer()  # so that a policy without an answer is refused alike
    tried: list[Try] = []
    best = proofs.nothing(program)
    for proposal in _by_cones(program, settings, question):
        answer = proofs.judge(program, proposal)
        tried += answer.tried
        if answer.ok or answer.gap < best.gap:
            best = answer
        if best.ok:
            break
    return replace(best, tried=tuple(tried))


class BundleConeModel:
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
        self.program = program
        self.rest = [
            (c, x) for c in program.constraints
            for x in written(c, self.model if is_ours(c) else self.model_as_given(tasks)).values()
        ]  # fmt: skip
        self.constraints += [condition for _, condition in self.rest]

    def model_as_given(self, tasks: cp.Expression) -> BundleModel:
        """The model with everybody in it, those with a task limit of 0 too, who hold nothing."""
        program, ours = self.program, self.model.pairs
        given, active = program.given, program.active
        if len(active) == given.n_users:
            return self.model
        who = np.zeros((given.n_users, *self.triples.who.shape[1:]), dtype=bool)
        who[active] = self.triples.who
        pairs = Pairs(given)
        place = pairs.index(active[ours.user], ours.server)
        scale = np.ones(len(pairs))
        scale[place] = self.scale
        spread = sp.csr_array((np.ones(len(place)), (place, np.arange(len(place)))), shape=(len(pairs), len(place)))
        triples, held = Triples(given, who), self.unknowns[: len(self.triples)]
        model = BundleModel(given, held, self.units, triples, spread @ tasks, scale, pairs, self.model.solver)
        model.required = self.model.required
        return model

    @property
    def everything(self) -> list[cp.Constraint]:
        """All that must hold."""
        return [*self.constraints, *self.model.required]

    def bundles(self) -> Float:
        """What a solver left, repaired to the capacities: totals of the rows."""
        held = np.maximum(np.asarray(self.unknowns.value[: len(self.triples)], dtype=float), 0.0) * self.units
        load = np.bincount(self.triples.row, held / self.triples.capacity)
        return self.triples.table(held / np.maximum(load, 1.0)[self.triples.row])


def _by_cones(
    program: BundleProgram, settings: Settings, question: closed_form.Division | None
) -> Iterator[BundleProposal]:
    """What one solver after the other proposes."""

    def propose(name: str) -> Iterator[BundleProposal]:
        cone = BundleConeModel(program, name)
        if question is None:
            form, factor = objective_form(program.objective, cone.model, cone.unknowns)
        else:
            form, factor = cp.sum(cp.multiply(question.parts_of_one(), cp.log(cone.model.held))), None
        tell(f"cone program over bundles by {name}")
        attempt, found = solve_problem(
            cp.Problem(cp.Maximize(form), cone.everything), cone.unknowns, name, settings,
            explain=partial(_refuse_infeasible, cone), objective=program.objective,
        )  # fmt: skip
        if not found:
            yield BundleProposal("cone", attempt=attempt)
        elif question is not None:
            yield BundleProposal("cone", question, cone.bundles(), attempt=attempt)
        else:
            bundles, evidence = cone.bundles(), SolvedBundles(cone, form, factor)
            for tasks in _tasks_in(program, cone, bundles):
                yield BundleProposal("cone", evidence, bundles, tasks, attempt=attempt)

    return by_chain(settings, propose, BundleProposal("cone"), linear=False)


def _tasks_in(program: BundleProgram, cone: BundleConeModel, bundles: Float) -> Iterator[Float]:
    """Tasks in the bundles: all that fit, as many as the constraints allow, and what the solver left."""
    instance, pairs = program.instance, cone.model.pairs
    left = np.maximum(np.asarray(cone.unknowns.value[len(cone.triples) :], dtype=float), 0.0) * cone.scale
    fit = tasks_within(instance, bundles)
    room = cut_at_limits(instance, fit)
    yield room
    wished = cut_at_limits(instance, np.minimum(pairs.table(left), fit))
    held = bundles[cone.triples.user, cone.triples.server, cone.triples.resource] / cone.units
    yield _most_tasks(cone, held, wished)
    yield wished


def _most_tasks(cone: BundleConeModel, held: Float, wished: Float) -> Float:
    """As many tasks as bundles and the policy's constraints have room for: an objective of bundles leaves that open."""
    pairs, k = cone.model.pairs, len(held)
    least = wished[pairs.user, pairs.server] / cone.scale * (1 - 1e-9)
    fixed = [cone.unknowns[:k] == held, cone.unknowns[k:] >= least]
    problem = cp.Problem(cp.Maximize(cp.sum(cone.unknowns[k:])), [*cone.everything, *fixed])
    if next(solvers.statuses(problem)) not in solvers.SOLVED or cone.unknowns.value is None:
        return wished
    return np.asarray(pairs.table(np.maximum(np.asarray(cone.unknowns.value[k:], dtype=float), 0.0) * cone.scale))


def _refuse_infeasible(cone: BundleConeModel) -> None:
    """`Infeasible` with an irreducible set of the policy's conditions; return if a second look finds them to hold."""
    always = [*cone.constraints[: len(cone.constraints) - len(cone.rest)], *cone.model.required]
    asked = {k: [condition] for k, (constraint, condition) in enumerate(cone.rest) if not constraint.added}
    blocks = tuple(dict.fromkeys(f"`{cone.rest[k][0]!r}`" for k in infeasible.irreducible(asked, always)))
    if blocks:
        raise Infeasible(f"{' and '.join(blocks)} cannot hold within the capacities", blocks)
