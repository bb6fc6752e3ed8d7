"""Evidence under envy-freeness on one pool: bottlenecks with users bound by envy (`fairopt.proofs.envy`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from fairopt.blocks.constraints import EnvyFree
from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.entries import Imposed
from fairopt.proofs.envy import EnvyProgram, envy_gap
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_list, as_numbers


@dataclass(frozen=True)
class EnvyBottlenecks(Evidence):
    """Leximin or max-min under envy-freeness on one pool, which needs no multipliers.

    ``prices`` (n_resources,) are derivatives of the max-min level by each whole capacity.
    """

    envy: EnvyProgram
    prices: Float | None = None

    kind = "pulled"

    def applies(self, program: Program) -> bool:
        fits = self.envy.program is program and program.single and all(type(c) is EnvyFree for c in program.rest)
        return fits and bool(program.rest) and program.term.is_smallest

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        shortfalls = [float(by.max(initial=0.0)) for _, by in conditions.broken_rows(program, tasks)]
        of_blocks = max(conditions.bounds_violation(program, tasks), *shortfalls)
        prices = None if self.prices is None else program.term.factor * self.prices
        return Measured(tasks, envy_gap(self.envy, tasks), of_blocks, prices)

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        return {"kind": self.kind}

    def numbers(self) -> dict[str, Any]:
        return {"kind": self.kind, "prices": as_list(self.prices)}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        prices = None if held["prices"] is None else as_numbers(held["prices"], program.usable.shape)
        return cls(EnvyProgram(program), prices)
