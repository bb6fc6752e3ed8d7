"""Evidence of leximin of teams, or of what is above a base: a dual solution for each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.entries import Imposed, priced
from fairopt.proofs.number_levels import (
    NumberBounds,
    NumberDual,
    further_multipliers,
    judge_number_levels,
    n_further,
)
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_indices, as_list, as_numbers


@dataclass(frozen=True)
class NumberLevels(Evidence):
    """Dual solutions, by level, that fix every number; ``prices`` (n_rows,) are derivatives of the max-min level."""

    duals: Sequence[NumberDual]
    prices: Float

    kind = "number levels"

    @property
    def by_level(self) -> bool:
        return True

    def applies(self, program: Program) -> bool:
        sizes = {(len(dual.prices), len(dual.further)) for dual in self.duals}
        return program.term.is_order and sizes <= {(len(program.usable_rows), n_further(program))}

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.without_rounding(program, conditions.repair(program, tasks))
        gap, gaps, _ = judge_number_levels(program, self.duals, tasks)
        of_blocks = conditions.violation_at(program, tasks)
        return Measured(tasks, gap, of_blocks, program.term.factor * self.prices, gaps=gaps or (gap,))

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        names = program.term.share._names(program.instance)
        levels = []
        for dual in self.duals:
            paying, ends = np.flatnonzero(dual.of_numbers > 0).tolist(), dual.numbers.tolist()
            entry = {"numbers": [names[t] for t in ends], **priced(program, dual.prices)}
            entry["of_numbers"] = {names[t]: float(dual.of_numbers[t]) for t in paying}
            levels.append(entry | rows.multipliers(program, further_multipliers(program, dual)))
        return {"kind": self.kind, "levels": levels}

    def numbers(self) -> dict[str, Any]:
        names = ("numbers", "prices", "of_numbers", "further")
        levels = [{name: as_list(getattr(dual, name)) for name in names} for dual in self.duals]
        return {"kind": self.kind, "levels": levels, "prices": as_list(self.prices)}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        n, rows = len(NumberBounds(program).most), program.usable_rows.shape
        duals = [
            NumberDual(
                as_indices(level["numbers"], n),
                as_numbers(level["prices"], rows),
                as_numbers(level["of_numbers"], (n,)),
                as_numbers(level["further"], (n_further(program),)),
            )
            for level in held["levels"]
        ]
        return cls(duals, as_numbers(held["prices"], rows))
