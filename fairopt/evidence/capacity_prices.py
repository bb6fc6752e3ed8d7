"""Evidence of ordered weights: prices of capacities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.entries import Imposed, price_entry
from fairopt.proofs.lagrangian import Lagrangian, LagrangianBound, Multipliers, lagrangian_bound
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_list, as_numbers


@dataclass(frozen=True)
class CapacityPrices(Evidence):
    """Prices by row of loads, per whole capacity, in natural units of ordered weights."""

    program: Program
    prices: Float

    kind = "capacity prices"

    def applies(self, program: Program) -> bool:
        term = program.term
        return self.program is program and not program.rest and term.ranks is not None and not term.is_order

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        lagrangian, found = self.bound(tasks)
        prices = lagrangian.multipliers.prices * (found.factor * lagrangian.majorant.unit)
        return Measured(tasks, found.gap, conditions.bounds_violation(program, tasks), prices)

    def bound(self, tasks: Float) -> tuple[Lagrangian, LagrangianBound]:
        """The Lagrangian at the prices, and its bound."""
        program, point = self.program, self.program.point(tasks)
        majorant = program.objective.majorant(point)
        assert majorant is not None
        charged = Multipliers(np.maximum(self.prices, 0.0) / majorant.unit, np.zeros(len(program.pairs)))
        found = lagrangian_bound(program, majorant, program.objective, charged, tasks)
        return Lagrangian(program, majorant, charged, point), found

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        at, found = self.bound(tasks)
        prices = at.multipliers.prices * found.factor * at.majorant.unit
        return price_entry(program, prices, mixtures=at.with_mixtures(found.factor)[1])

    def numbers(self) -> dict[str, Any]:
        return {"kind": self.kind, "prices": as_list(self.prices)}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        return cls(program, as_numbers(held["prices"], (len(program.usable_rows),)))
