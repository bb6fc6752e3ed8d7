"""Evidence of leximin of users in fractions: an exact point, and the prices that fix each of its levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.entries import Named
from fairopt.proofs.exact_levels import ExactData, _NotProved, distance
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_list, as_numbers

Entry = tuple[int, int, str]
Charge = tuple[int, str]


@dataclass(frozen=True)
class ExactLevels(Evidence):
    """Fractions as text: ``point`` by user and server, and ``levels``, prices of units by server and resource.

    ``charges`` are multipliers of further rows by level, in the order of `ProgramRows.further`. The
    gap is the largest relative difference of a user's level from the exact one, above or below. ``prices``
    (n_rows,) are the derivatives of the max-min level by each row.
    """

    point: Sequence[Entry]
    levels: Sequence[Sequence[Entry]]
    prices: Float | None = None
    charges: Sequence[Sequence[Charge]] = ()

    kind = "exact levels"

    @property
    def by_level(self) -> bool:
        return True

    def applies(self, program: Program) -> bool:
        if program.empty or not (program.term.is_order and program.of_users):
            return False
        if any(program.rows_of(block) is None for block in program.rest):
            return False
        return program.term.share.coefficients(program.instance).ndim == 1

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        prices = None if self.prices is None else program.term.factor * self.prices
        try:
            data = ExactData.of(program)
            charges = self.charges or [()] * len(self.levels)
            duals = [
                (_fractions(one), {k: Fraction(value) for k, value in of_rows})
                for one, of_rows in zip(self.levels, charges, strict=True)
            ]
            exact = data.proved_levels(_fractions(self.point), duals)
            gap = distance(program, data, exact, tasks)
        except _NotProved:
            gap = np.inf
        violation = conditions.violation_at(program, tasks)
        return Measured(tasks, gap, violation, prices, gaps=(gap,) * max(len(self.levels), 1))

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        why = "rounding decides its levels; Allocation.load proves them in fractions, and verify does not yet"
        return {"why": why, "of_solver": self.numbers()}

    def numbers(self) -> dict[str, Any]:
        levels = [[list(one) for one in level] for level in self.levels]
        point = [list(one) for one in self.point]
        return {"kind": self.kind, "point": point, "levels": levels, "prices": as_list(self.prices)} | (
            {"charges": [[list(one) for one in level] for level in self.charges]} if self.charges else {}
        )

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        prices = None if held["prices"] is None else as_numbers(held["prices"], (len(program.usable_rows),))
        charges = [[(int(k), str(Fraction(str(v)))) for k, v in level] for level in held.get("charges", ())]
        return cls(_entries(held["point"]), [_entries(level) for level in held["levels"]], prices, charges)


def _entries(held: Any) -> list[Entry]:
    return [(int(a), int(b), str(Fraction(str(value)))) for a, b, value in held]


def _fractions(entries: Sequence[Entry]) -> dict[tuple[int, int], Fraction]:
    return {(a, b): Fraction(value) for a, b, value in entries}
