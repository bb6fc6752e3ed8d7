"""Evidence of a sum of one concave function per user: prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.blocks.efficiency import TotalIs
from fairopt.blocks.form import Form
from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.entries import Imposed, price_entry
from fairopt.proofs.lagrangian import Lagrangian, Multipliers
from fairopt.proofs.plane import LineLagrangian, Optimum, fixed_sum
from fairopt.proofs.proposal import Measured, Reader, as_list, as_numbers
from fairopt.proofs.users import judge_user_prices


@dataclass(frozen=True)
class UserPrices(Optimum):
    """Prices by row of `Pairs.loads`, per whole capacity, in natural units of the objective.

    ``of_sum`` is the price of the sum of shares if that is fixed (`TotalIs`), of either sign. On several servers they
    prove only the most even shares of a fixed sum (`Tangents`).
    """

    program: Program
    prices: Float
    of_sum: float = 0.0

    kind = "user prices"

    def applies(self, program: Program) -> bool:
        return self.program is program and program.single and not program.rest

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        near, tasks = tasks, conditions.repair(program, tasks)
        gap, prices = judge_user_prices(program, self.prices, near, tasks)
        return Measured(tasks, gap, conditions.bounds_violation(program, tasks), prices)

    def most_rise(self, program: Program, tasks: Float) -> Float:
        if self.program.pairs is not program.pairs:
            return super().most_rise(program, tasks)
        return conditions.rise_at_prices(program, self.prices, tasks)

    def is_of_cut(self, cut: Program) -> bool:
        return self.program is cut and all(type(block) is TotalIs for block in cut.rest)

    def line_lagrangian(self, program: Program, tasks: Float, powers: Form, unit: float) -> LineLagrangian:
        multipliers = Multipliers(np.maximum(self.prices, 0.0), np.zeros(len(program.pairs)))
        total = fixed_sum(program)
        if total is not None:
            c = program.pairs.of(program.term.share.coefficients(program.instance))
            multipliers.pair_cost = (self.of_sum / total) * c
            multipliers.constant, multipliers.constant_size = self.of_sum, abs(self.of_sum)
        (term,) = powers.curves
        lagrangian = Lagrangian(program, powers, multipliers, program.point(tasks))
        return LineLagrangian(lagrangian, self.of_sum, [float(unit ** (term.alpha - 1.0))], in_units=True)

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        return price_entry(program, self.prices)

    def numbers(self) -> dict[str, Any]:
        return {"kind": self.kind, "prices": as_list(self.prices), "of_sum": as_list(self.of_sum)}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        return cls(program, as_numbers(held["prices"], program.usable_rows.shape), float(held["of_sum"]))
