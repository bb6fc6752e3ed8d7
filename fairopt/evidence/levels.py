"""Evidence of leximin by programs: a dual solution for each level (`fairopt.proofs.levels`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from fairopt.evidence.written import Written
from fairopt.formulation.program import ConeModel, Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.conic import ConicConditions, further_conditions
from fairopt.proofs.entries import Imposed, priced
from fairopt.proofs.levels import LevelDual, judge_levels, self_contained_duals
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_indices, as_list, as_numbers


@dataclass(frozen=True)
class LevelDuals(Evidence):
    """Dual solutions, by level, that fix every user below its limit.

    ``written`` is the cone program if there are constraints besides bounds, and ``further`` are these constraints;
    ``prices`` (n_rows,) are the derivatives of the max-min level by each row.
    """

    holdings: Sequence[LevelDual]
    written: Written | None = None
    prices: Float | None = None
    further: ConicConditions | None = None

    kind = "levels"

    @property
    def by_level(self) -> bool:
        return True

    def applies(self, program: Program) -> bool:
        of_program = not program.rest if self.written is None else self.written.program is program
        return program.term.is_order and of_program

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.without_rounding(program, conditions.repair(program, tasks))
        gap, gaps, assumed = judge_levels(program, self.holdings, self.further, tasks)
        cone, variables = None, dict[str, Float]()
        if self.written is not None and not conditions.all_known(program):
            cone, variables = self.written.settled(tasks)
        of_blocks = conditions.violation_at(program, tasks, cone)
        prices = None if self.prices is None else program.term.factor * self.prices
        return Measured(tasks, gap, of_blocks, prices, assumed, gaps or (gap,), variables=variables)

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        further, levels = self.further, []
        for one in self_contained_duals(program, self.holdings, further, tasks):
            entry = {"users": one.users.tolist(), **priced(program, one.prices)}
            if further is not None and one.dual is not None:
                entry |= rows.multipliers(program, further.multipliers(one.dual))
            levels.append(entry)
        return {"kind": self.kind, "levels": levels}

    def numbers(self) -> dict[str, Any]:
        names = ("users", "prices", "dual", "sizes")
        holdings = [{name: as_list(getattr(h, name)) for name in names} for h in self.holdings]
        held = {"kind": self.kind, "holdings": holdings, "prices": as_list(self.prices)}
        return held if self.written is None else held | self.written.numbers()

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        rows, n = len(program.usable_rows), program.instance.n_users
        free = all(h["dual"] is None for h in held["holdings"]) and not program.rest
        further = None if free else further_conditions(ConeModel(program, read.solver))
        shapes = {"dual": (0,), "sizes": (0,)}
        if further is not None:
            shapes = {"dual": further.right.shape, "sizes": further.on_others.shape[1:]}
        holdings = []
        for h in held["holdings"]:
            dual = {name: None if h[name] is None else as_numbers(h[name], shape) for name, shape in shapes.items()}
            holdings.append(LevelDual(as_indices(h["users"], n), as_numbers(h["prices"], (rows,)), **dual))
        written = None if free else Written.restored(program, read.solver, held)
        return cls(holdings, written, as_numbers(held["prices"], (rows,)), further)
