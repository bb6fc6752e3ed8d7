"""Evidence of prices on several servers: alpha-fairness, max-min, and sums of one concave function per user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions, servers, users
from fairopt.proofs.entries import Imposed, price_entry
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_list, as_numbers
from fairopt.proofs.servers import LevelUnits, RowUnits, best_max_min_bound, units_of


@dataclass(frozen=True)
class RowPrices(Evidence):
    """Prices (n_resources, n_servers) per whole capacity, in units of level; for a sum in its natural units."""

    units: RowUnits
    prices: Float

    kind = "row prices"

    def applies(self, program: Program) -> bool:
        known = servers.of_level(program) if isinstance(self.units, LevelUnits) else program.marginal is not None
        return self.units.program is program and not program.rest and known

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        near, pairs = program.pairs.table(tasks), program.pairs
        table = servers.repaired(self.units, near)
        tasks = table[pairs.user, pairs.server]
        if isinstance(self.units, LevelUnits):
            gap, by_server = servers.judge_row_prices(self.units, self.prices, table)
            prices = by_server.T.ravel()
        else:
            gap, prices = users.judge_row_prices(self.units, self.prices, near, tasks)
        return Measured(tasks, gap, conditions.bounds_violation(program, tasks), prices)

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        """For max-min the mixture is the users' marginal utilities, or the user with the lowest limit."""
        units, factor = self.units, program.term.factor
        if not isinstance(units, LevelUnits):
            return price_entry(program, self.prices.T.ravel())
        prices = np.where(units.needed, np.maximum(self.prices, 0.0), 0.0)
        if program.term.is_curved:
            factor *= program.instance.weights.sum()
            return price_entry(program, prices.T.ravel() * factor, unit=units.unit)
        bound, marginals = best_max_min_bound(units, prices, program.objective.value(program.point(tasks)) / factor)
        level = float(marginals.sum())
        if not bound < units.limits.min():
            prices, marginals, level = np.zeros_like(prices), (units.limits == units.limits.min()).astype(float), 1.0
        return price_entry(program, prices.T.ravel() * (factor * units.unit / level), mixtures=[marginals / level])

    def numbers(self) -> dict[str, Any]:
        return {"kind": self.kind, "prices": as_list(self.prices)}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        shape = program.instance.n_resources, program.instance.n_servers
        return cls(units_of(program), as_numbers(held["prices"], shape))
