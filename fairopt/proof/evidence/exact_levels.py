"""Evidence of leximin of users in fractions: an exact point, and the prices that fix each of its levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fairopt.proof import feasibility as conditions
from fairopt.proof.entries import Named, price_rows, priced
from fairopt.proof.fraction_levels import ExactData, _NotProved, distance, rounded_condition
from fairopt.proof.proposal import Evidence, Measured, Reader
from fairopt.solve.form.program import Float, Program

Entry = tuple[int, int, str]


@dataclass(frozen=True)
class ExactLevels(Evidence):
    """Fractions as text: ``point`` by user and server, and for each of the ``levels`` the ``prices`` of units by server
    and resource, multipliers of further ``rows`` in the order of `ProgramRows.further`, and the prices ``of_numbers``,
    of users' levels, that the checker reads too.

    The gap is the largest relative difference of a user's level from the exact one, above or below. ``prices``
    (n_rows,) are the derivatives of the max-min level by each row. Bounds and rows other than numbers of tasks are
    rounded to floats before they are fractions, which the certificate assumes.
    """

    point: Sequence[Entry]
    levels: Sequence[Mapping[str, Any]]
    prices: Float | None = None

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
            duals = [
                (_fractions(one.get("prices", ())), {int(k): Fraction(y) for k, y in one.get("rows", ())})
                for one in self.levels
            ]
            exact = data.proved_levels(_fractions(self.point), duals)
            gap = distance(program, data, exact, tasks)
        except _NotProved:
            gap = np.inf
        violation = conditions.violation_at(program, tasks)
        rounded = rounded_condition(program)
        assumed = f"the numbers of {rounded} are right as rounded" if rounded else ""
        return Measured(tasks, gap, violation, prices, assumed, (gap,) * max(len(self.levels), 1))

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        """By users and servers of the instance as given; identical servers share what the one for them has."""
        if rounded := rounded_condition(program):
            raise ValueError(f"rounding decides its levels, and the numbers of {rounded} are rounded")
        rows, users = _rows_of(program), program.active.tolist()
        point = [[users[j], s, str(Fraction(x) * part)] for j, of, x in self.point for s, part in rows[of]]
        levels = []
        for level in self.levels:
            prices = [[s, i, p] for of, i, p in level.get("prices", ()) for s, _ in rows[of]]
            levels.append({"of_numbers": level.get("of_numbers", {})} | ({"prices": prices} if prices else {}))
        held = {"kind": self.kind, "point": point, "levels": levels}
        return held if self.prices is None else held | priced(program, self.prices)

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        index = {user: j for j, user in enumerate(program.active.tolist())}
        first = {rows[0][0]: of for of, rows in enumerate(_rows_of(program))}
        of_row = {s: of for of, rows in enumerate(_rows_of(program)) for s, _ in rows}
        point = dict[tuple[int, int], Fraction]()
        for j, s, x in held["point"]:
            pair = index[int(j)], of_row[int(s)]
            point[pair] = point.get(pair, Fraction(0)) + Fraction(str(x))
        levels = []
        for level in held["levels"]:
            given = [(first[s], int(i), str(Fraction(str(p)))) for s, i, p in level.get("prices", ()) if s in first]
            levels.append({"of_numbers": dict(level["of_numbers"]), "prices": given})
        prices = price_rows(program, held) if "prices" in held else None
        return cls([(j, s, str(x)) for (j, s), x in point.items()], levels, prices)


def _rows_of(program: Program) -> list[list[tuple[int, Fraction]]]:
    """The servers of the instance as given that each server of a program stands for, and their parts of its tasks."""
    if not program.merge:
        return [[(s, Fraction(1))] for s in range(program.instance.n_servers)]
    classes, counts = program.unmerged._server_classes.tolist(), program.given.counts.tolist()
    rows = [[s for s, k in enumerate(classes) if k == of] for of in range(program.instance.n_servers)]
    return [[(s, Fraction(counts[s], sum(counts[t] for t in mine))) for s in mine] for mine in rows]


def _fractions(entries: Sequence[Entry]) -> dict[tuple[int, int], Fraction]:
    return {(a, b): Fraction(value) for a, b, value in entries}
