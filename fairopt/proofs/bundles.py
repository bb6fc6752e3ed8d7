"""Bundles of a policy that speaks of tasks as well, judged by the dual of its cone program."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import fall, in_units
from fairopt.formulation.bundle_program import BundleConeModel
from fairopt.proofs.conditions import dual_values, relative_violation
from fairopt.proofs.cone_programs import Bounded, conic_excess
from fairopt.proofs.conic import ASSUMED
from fairopt.proofs.evidence import Solved

__all__ = ["judge_solved_bundles"]

Float = NDArray[np.floating[Any]]


def judge_solved_bundles(evidence: Solved, bundles: Float, tasks: Float) -> Bounded:
    """Bound how much better than bundles and tasks by server row any others can be; prices are per natural unit."""
    cone, (form, factor) = evidence.model, evidence.maximand
    assert isinstance(cone, BundleConeModel)
    program, instance = cone.program, cone.program.instance
    cone.save_point(bundles, tasks)
    typical = {cone.unknowns.id: np.ones(cone.unknowns.size)}
    blocks = max((relative_violation(c, typical) for c in cone.all_constraints), default=0.0)
    top = np.concatenate([cone.triples.capacity / cone.units, cone.alone / cone.scale])
    at = np.nan if form.value is None else float(form.value)
    excess, assumes = conic_excess(evidence, at, top)
    if excess == np.inf:
        gap = np.inf
    elif factor is not None:
        point = program.point(tasks, bundles)
        gap = in_units(excess * factor, program.objective.unit(point), program.objective.value(point))
    else:
        gap = in_units(excess, _form_fall(form, cone), at)
    prices = None
    if not cone.rest and factor is not None:
        by_row = np.zeros(instance.capacities.size)
        by_row[program.capacity_rows] = np.maximum(dual_values(cone.capacity), 0.0) * factor
        whole = np.where(instance.capacities > 0, instance.capacities, np.inf) * instance.counts[:, None]
        prices = by_row.reshape(whole.shape) / whole
    return Bounded(gap, blocks, prices, ASSUMED if assumes else "")


def _form_fall(form: cp.Expression, cone: BundleConeModel) -> float:
    """What a transform is worth at the answer, as `Objective.drop` measures the objective itself."""
    at = np.array(cone.unknowns.value)

    def value(factor: float) -> float:
        cone.unknowns.save_value(at * factor)
        return float(form.value)

    found = fall(value)
    cone.unknowns.save_value(at)
    return found
