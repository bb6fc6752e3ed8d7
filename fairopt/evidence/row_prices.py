"""Evidence of prices on several servers: of alpha-fairness, max-min and sums of one concave function per user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions, servers, users
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_list, as_numbers
from fairopt.proofs.servers import LevelUnits, RowUnits, units_of


@dataclass(frozen=True)
class RowPrices(Evidence):
    """Prices (n_resources, n_servers) per whole capacity, in units of level; where the objective is a sum, in its
    natural units.
    """

    units: RowUnits
    prices: Float

    kind = "row prices"

    def applies(self, program: Program) -> bool:
        term = program.term
        of_level = isinstance(self.units, LevelUnits)
        known = term.is_curved or (term.is_smallest and not term.is_order) if of_level else program.marginal is not None
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

    def numbers(self) -> dict[str, Any]:
        return {"kind": self.kind, "prices": as_list(self.prices)}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        shape = program.instance.n_resources, program.instance.n_servers
        return cls(units_of(program), as_numbers(held["prices"], shape))
