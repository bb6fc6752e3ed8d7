"""Evidence of prices: sums of one concave function per user, several servers, and ordered weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.blocks.efficiency import TotalIs
from fairopt.blocks.form import Form
from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions, servers, users
from fairopt.proofs.dual_bound import LagrangianBound, lagrangian_bound
from fairopt.proofs.entries import Imposed, price_entry
from fairopt.proofs.lagrangian import Lagrangian, Multipliers
from fairopt.proofs.plane import LineLagrangian, Optimum, fixed_sum
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_list, as_numbers
from fairopt.proofs.servers import LevelUnits, RowUnits, best_max_min_bound, units_of
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


@dataclass(frozen=True)
class RowPrices(Evidence):
    """Prices (n_resources, n_servers) per whole capacity of a sum over users, in its natural units."""

    units: RowUnits
    prices: Float

    kind = "row prices"

    @classmethod
    def of(cls, units: RowUnits, prices: Float) -> RowPrices:
        """Prices in units of level if those are the units."""
        return LevelPrices(units, prices) if isinstance(units, LevelUnits) else cls(units, prices)

    def applies(self, program: Program) -> bool:
        return self.units.program is program and not program.rest and program.marginal is not None

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        near, pairs = program.pairs.table(tasks), program.pairs
        table = servers.repaired(self.units, near)
        tasks = table[pairs.user, pairs.server]
        gap, prices = self._judged(near, table)
        return Measured(tasks, gap, conditions.bounds_violation(program, tasks), prices)

    def _judged(self, near: Float, table: Float) -> tuple[float, Float]:
        """Gap and prices by row, with tasks (n_users, n_servers) before and after the repair."""
        pairs = self.units.program.pairs
        return users.judge_row_prices(self.units, self.prices, near, table[pairs.user, pairs.server])

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        return price_entry(program, self.prices.T.ravel())

    def numbers(self) -> dict[str, Any]:
        return {"kind": self.kind, "prices": as_list(self.prices)}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> RowPrices:
        shape = program.instance.n_resources, program.instance.n_servers
        return cls.of(units_of(program), as_numbers(held["prices"], shape))


@dataclass(frozen=True)
class LevelPrices(RowPrices):
    """Prices (n_resources, n_servers) per whole capacity of alpha-fairness or max-min, in units of level."""

    units: LevelUnits

    def applies(self, program: Program) -> bool:
        return self.units.program is program and not program.rest and servers.of_level(program)

    def _judged(self, near: Float, table: Float) -> tuple[float, Float]:
        gap, prices = servers.judge_row_prices(self.units, self.prices, table)
        return gap, prices.T.ravel()

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        """For max-min the mixture is the users' marginal utilities, or the user with the lowest limit."""
        units, factor = self.units, program.term.factor
        prices = np.where(units.needed, np.maximum(self.prices, 0.0), 0.0)
        if program.term.is_curved:
            factor *= program.instance.weights.sum()
            return price_entry(program, prices.T.ravel() * factor, unit=units.unit)
        prices /= prices.max()  # as in the bound
        bound, marginals = best_max_min_bound(units, prices, program.objective.value(program.point(tasks)) / factor)
        level = float(marginals.sum())
        if not bound < units.limits.min():
            prices, marginals, level = np.zeros_like(prices), (units.limits == units.limits.min()).astype(float), 1.0
        return price_entry(program, prices.T.ravel() * (factor * units.unit / level), mixtures=[marginals / level])


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
