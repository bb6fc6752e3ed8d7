"""Evidence of leximin on servers in fractions: an exact point, and the prices that fix each of its levels."""

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


@dataclass(frozen=True)
class ExactLevels(Evidence):
    """Fractions as text: ``point`` by user and server, and ``levels``, prices of units by server and resource.

    The gap is the largest relative difference of a user's level from the exact one, above or below. ``prices``
    (n_rows,) are the derivatives of the max-min level by each row.
    """

    point: Sequence[Entry]
    levels: Sequence[Sequence[Entry]]
    prices: Float | None = None

    kind = "exact levels"

    @property
    def by_level(self) -> bool:
        return True

    def applies(self, program: Program) -> bool:
        if program.single or program.rest or not program.term.is_order or not program.of_users:
            return False
        return program.term.share.coefficients(program.instance).ndim == 1

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        prices = None if self.prices is None else program.term.factor * self.prices
        try:
            data = ExactData.of(program)
            exact = data.proved_levels(_fractions(self.point), [_fractions(one) for one in self.levels])
            gap = distance(program, data, exact, tasks)
        except _NotProved:
            gap = np.inf
        of_bounds = conditions.bounds_violation(program, tasks)
        return Measured(tasks, gap, of_bounds, prices, gaps=(gap,) * max(len(self.levels), 1))

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        why = "rounding decides its levels; Allocation.load proves them in fractions, and verify does not yet"
        return {"why": why, "of_solver": self.numbers()}

    def numbers(self) -> dict[str, Any]:
        levels = [[list(one) for one in level] for level in self.levels]
        point = [list(one) for one in self.point]
        return {"kind": self.kind, "point": point, "levels": levels, "prices": as_list(self.prices)}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        prices = None if held["prices"] is None else as_numbers(held["prices"], (len(program.usable_rows),))
        return cls(_entries(held["point"]), [_entries(level) for level in held["levels"]], prices)


def _entries(held: Any) -> list[Entry]:
    return [(int(a), int(b), str(Fraction(str(value)))) for a, b, value in held]


def _fractions(entries: Sequence[Entry]) -> dict[tuple[int, int], Fraction]:
    return {(a, b): Fraction(value) for a, b, value in entries}
