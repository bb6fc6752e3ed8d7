"""Answers of policies that decide bundles: judged by the prices of the closed form, or by the cone program's dual."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import feasibility, holdings_violation
from fairopt.blocks.algebra import fall, in_units
from fairopt.blocks.bundle_model import BundlePoint, cut_at_limits
from fairopt.certificate import Try, within_tolerance
from fairopt.methods.bundles import closed_form
from fairopt.proofs.conditions import dual_values, relative_violation
from fairopt.proofs.conic import ASSUMED, conic_bound

if TYPE_CHECKING:
    from fairopt.methods.bundles.program import BundleConeModel, BundleProgram

__all__ = ["BundleAnswer", "BundleProposal", "SolvedBundles", "judge"]

Float = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class SolvedBundles:
    """A cone program over bundles that a solver left with values; ``form`` was maximised, as in `Solved`."""

    model: BundleConeModel
    form: cp.Expression
    factor: float | None


@dataclass(frozen=True)
class BundleProposal:
    """Bundles and tasks by server row, or (None) those of the closed form, and the evidence for them."""

    method: str
    evidence: closed_form.Division | SolvedBundles | None = None
    bundles: Float | None = None
    tasks: Float | None = None
    solver: str | None = None
    attempt: Try | None = None


@dataclass
class BundleAnswer:
    """Bundles and the tasks in them as the gate leaves them, and what it measured, as in `Answer`."""

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
    assumed: str = ""
    evidence: closed_form.Division | SolvedBundles | None = None

    @property
    def ok(self) -> bool:
        """Whether it can be certified."""
        return within_tolerance(self.gap, self.violation, self.block_violation)

    def at(self, bundles: Float, tasks: Float) -> BundleProposal:
        """Another point, with the evidence of this answer."""
        return BundleProposal(self.method, self.evidence, bundles, tasks)


def nothing(program: BundleProgram, method: str = "cone") -> BundleAnswer:
    """No point at all: empty bundles, of which nothing is proved (where no user takes part, they are the best)."""
    shape = (program.instance.n_users, program.instance.n_servers)
    bundles, tasks = np.zeros((*shape, program.instance.n_resources)), np.zeros(shape)
    if program.empty:
        return BundleAnswer(bundles, tasks, 0.0, 0.0, 0.0, "empty")
    return BundleAnswer(bundles, tasks, np.inf, 0.0, np.inf, method)


def judge(program: BundleProgram, proposal: BundleProposal) -> BundleAnswer:
    """Bring proposed bundles within capacities, and measure them.

    Parameters
    ----------
    program : BundleProgram
        The blocks and the instance as given.
    proposal : BundleProposal
        Bundles with evidence, or the record of an attempt that left none.

    Returns
    -------
    BundleAnswer
    """
    evidence = proposal.evidence
    if evidence is None or program.empty:
        answer = nothing(program, proposal.method)
    elif isinstance(evidence, SolvedBundles):
        answer = _by_own_dual(program, proposal, evidence)
    else:
        counts, given = program.instance.counts, proposal.bundles
        answer = _divided(program, evidence.answer(None if given is None else given / counts[:, None]), proposal.method)
    answer.solver, answer.evidence, attempt = proposal.solver, evidence, proposal.attempt
    if attempt is not None:
        answer.tried = (attempt if evidence is None else replace(attempt, gap=answer.gap, violation=answer.violation),)
    return answer


def _divided(program: BundleProgram, found: closed_form.Judged, method: str) -> BundleAnswer:
    """Bundles on one server of each row, with what the closed form's prices say about them."""
    factor = sum(c for c, _ in program.objective.terms())
    tasks = cut_at_limits(program.instance, program.on_rows(found.tasks))
    return BundleAnswer(
        program.on_rows(found.bundles), tasks, found.gap, found.violation, found.part_violation, method,
        value=factor * found.value, prices=factor * found.prices,
    )  # fmt: skip


def _by_own_dual(program: BundleProgram, proposal: BundleProposal, evidence: SolvedBundles) -> BundleAnswer:
    """Bundles of a policy that speaks of tasks as well, judged by the dual of its cone program."""
    cone, form, factor, instance = evidence.model, evidence.form, evidence.factor, program.instance
    bundles, tasks = proposal.bundles, proposal.tasks
    assert bundles is not None and tasks is not None
    held = bundles[cone.triples.user, cone.triples.server, cone.triples.resource] / cone.units
    pairs = cone.model.pairs
    cone.unknowns.save_value(np.concatenate([held, tasks[pairs.user, pairs.server] / cone.scale]))
    typical = {cone.unknowns.id: np.ones(cone.unknowns.size)}
    conditions = cone.everything
    blocks = max((relative_violation(c, typical) for c in conditions), default=0.0)
    point = BundlePoint(instance, bundles, tasks)
    value = program.objective.value(point)
    top = np.concatenate([cone.triples.capacity / cone.units, cone.alone / cone.scale])
    bound, at = conic_bound(cp.Problem(cp.Maximize(form), cone.everything), cone.unknowns, top), form.value
    gap = np.inf
    if bound is not None and at is not None:
        excess = bound.value - float(at)
        if factor is not None:
            gap = in_units(excess * factor, program.objective.unit(point), value)
        else:
            gap = in_units(excess, _form_fall(form, cone), float(at))
    capacity = np.zeros(instance.capacities.size)
    capacity[cone.rows] = np.maximum(dual_values(cone.capacity), 0.0) * (factor or 1.0)
    whole = np.where(instance.capacities > 0, instance.capacities, np.inf) * instance.counts[:, None]
    prices = capacity.reshape(whole.shape) / whole if not cone.rest and factor is not None else None
    return BundleAnswer(
        bundles, tasks, max(gap, 0.0) if np.isfinite(gap) else np.inf,
        max(feasibility(instance, tasks), holdings_violation(instance, bundles)), blocks,
        proposal.method, value=value, prices=prices, assumed=ASSUMED if bound is not None and bound.assumes else "",
    )  # fmt: skip


def _form_fall(form: cp.Expression, cone: BundleConeModel) -> float:
    """What a transform is worth at the answer, as `Objective.drop` measures the objective itself."""
    at = np.array(cone.unknowns.value)

    def value(factor: float) -> float:
        cone.unknowns.save_value(at * factor)
        return float(form.value)

    found = fall(value)
    cone.unknowns.save_value(at)
    return found
