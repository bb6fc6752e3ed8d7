"""Evidence of bundles: prices in closed form (`fairopt.solve.form.division`), or the dual of a cone program.

Alone, ``max sum_jsi base_jsi log a_jsi`` separates into one problem for each resource, server and group: at a price q
bundles are worth at most ``sum_j base_j log a*_j - q (sum_j a*_j - P)`` with best responses a* (Bound 6.5,
docs/methods/bundles.md). The prices are recomputed from the instance, so that `Divided` holds no numbers at all and
proves any bundles. With other objectives or constraints nothing separates: then the dual of the cone form over bundles
(Bound 7.3) is all there is, and files cannot be checked by it.

Floats: bundles are judged as proposed, without a repair here; violations are relative to unknowns of size 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fairopt.allocation import feasibility
from fairopt.blocks.algebra import in_units
from fairopt.blocks.bundle_model import cut_at_limits
from fairopt.proof import feasibility as conditions
from fairopt.proof.conic import conic_gap
from fairopt.proof.evidence.written import Written
from fairopt.proof.proposal import Evidence, Measured
from fairopt.runtime.arrays import Float
from fairopt.solve.form.bundle_program import BundleConeModel, BundleProgram
from fairopt.solve.form.division import Division
from fairopt.solve.form.program import Program


@dataclass(frozen=True)
class Divided(Evidence):
    """A policy that divides each resource by itself; its prices prove any bundles, by default its own."""

    division: Division

    has_point: ClassVar[bool] = True

    def applies(self, program: Program) -> bool:
        return isinstance(program, BundleProgram) and self.division is program.division

    def measured(self, program: Program, tasks: Any, bundles: Float | None) -> Measured:
        assert isinstance(program, BundleProgram)
        instance, factor = program.instance, sum(c for c, _ in program.objective.summands())
        divided = self.division.answer(None if bundles is None else bundles / instance.counts[:, None])
        bundles, tasks = program.on_rows(divided.bundles), cut_at_limits(instance, program.on_rows(divided.tasks))
        return Measured(
            tasks,
            divided.gap,
            divided.part_violation,
            factor * divided.prices,
            bundles=bundles,
            violation=max(divided.violation, feasibility(program.given, program.expand(tasks))),
            value=factor * divided.value,
        )


@dataclass(frozen=True)
class SolvedBundles(Evidence):
    """A cone program over bundles, with prices per whole capacity by row of `Program.capacity_rows`."""

    written: Written
    capacity: Float

    @classmethod
    def of(cls, cone: BundleConeModel) -> Self:
        """What a solver left in a cone program."""
        return cls(Written.of(cone), conditions.dual_values(cone.capacity))

    def applies(self, program: Program) -> bool:
        return self.written.program is program

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        cone = self.written.model
        assert isinstance(cone, BundleConeModel) and bundles is not None
        program, (form, factor) = cone.program, cone.maximand
        cone.save_point(bundles, tasks)
        typical = {cone.unknowns.id: np.ones(cone.unknowns.size)}  # unknowns are about 1 by their units
        blocks = max((conditions.relative_violation(c, typical) for c in cone.all_constraints), default=0.0)
        top, at = np.concatenate([cone.triples.capacity / cone.units, cone.alone / cone.scale]), conditions.number(form)

        def relative(excess: float, _: object) -> float:
            if factor is None:  # of a transform, in units of its fall
                return in_units(excess, conditions.fall_of(form, [cone.unknowns]), at)
            point = program.point(tasks, bundles)
            return in_units(excess * factor, *program.objective.units(point))

        gap, assumed = conic_gap(form, cone.all_constraints, cone.unknowns, top, at, relative)
        prices = None
        # under other constraints prices of capacities alone are no derivatives; of a transform they have no units
        if not cone.rest and factor is not None:
            whole = np.where(program.whole_capacities > 0, program.whole_capacities, np.inf)
            prices = np.zeros(whole.size)
            prices[program.capacity_rows] = np.maximum(self.capacity, 0.0)
            prices = prices.reshape(whole.shape) * factor / whole
        variables = cone.model.own.values()
        return Measured(tasks, gap, blocks, prices, assumed, bundles=bundles, variables=variables)
