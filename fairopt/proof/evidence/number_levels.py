"""Evidence of leximin of teams, or of what is above a base: a dual solution for each level.

At prices y of capacities and rows, and pi >= 0 of numbers ``z_t = sum_p c_p x_p - b_t``, every feasible x has
``sum_t pi_t z_t <= V``; so no number rises by more than ``(V - sum_u pi_u floor_u) / pi_t`` while the others keep their
floors (Proposition 7.16, docs/methods/cone.md; `fairopt.proof.number_level_bounds`). Each level stands alone, with
prices by name of numbers: a position would be one of the program, which leaves numbers out that cannot rise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.proof import feasibility as conditions
from fairopt.proof.dual import Dual
from fairopt.proof.entries import Named, price_rows, priced
from fairopt.proof.number_level_bounds import NumberBounds, judge_number_levels
from fairopt.proof.proposal import Evidence, Measured, Reader, as_indices
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.form.program import Program


@dataclass(frozen=True)
class NumberLevels(Evidence):
    """Dual solutions, by level, that fix every number; ``prices`` (n_rows,) are derivatives of the max-min level."""

    duals: Sequence[Dual]
    prices: Float

    kind = "number levels"

    @property
    def by_level(self) -> bool:
        return True

    def applies(self, program: Program) -> bool:
        # rows of another program may say what does not hold in this one
        rows, held = {len(dual.prices) for dual in self.duals}, {id(one.rows) for one in program.rows.further}
        ours = all(id(one.rows) in held for dual in self.duals for one, _ in dual.rows)
        return program.term.is_order and rows <= {len(program.usable_rows)} and ours

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.without_rounding(program, conditions.repair(program, tasks))
        gap, gaps, assumed = judge_number_levels(program, self.duals, tasks)
        of_blocks = conditions.violation_at(program, tasks)
        return Measured(tasks, gap, of_blocks, program.term.factor * self.prices, gaps=gaps or (gap,), assumed=assumed)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        labels, levels = program.term.share._names(program.instance), []
        for dual in self.duals:
            # only what is paid and fixed is written, by name
            paying, ends = np.flatnonzero(dual.of_numbers > 0).tolist(), dual.fixed.tolist()
            entry = {"numbers": [labels[t] for t in ends], **priced(program, dual.prices)}
            entry["of_numbers"] = {labels[t]: float(dual.of_numbers[t]) for t in paying}
            levels.append(entry | names.multipliers(program, dual.rows))
        # first, so that their numbers are known at the levels above them
        levels = [*self._by_rows(program, tasks, names), *levels]
        return {"kind": self.kind, "levels": levels} | (priced(program, self.prices) if len(self.prices) else {})

    def _by_rows(self, program: Program, tasks: Float, names: Named) -> Iterator[dict[str, Any]]:
        """Levels of numbers that single rows keep where they are, which the gate needs no level for."""
        bounds, labels = NumberBounds(program), program.term.share._names(program.instance)
        most, multiplier, place, _ = bounds.by_rows
        held = bounds.at(tasks) >= np.minimum(most, bounds.most) * (1 - NOISE)
        held[np.concatenate([np.zeros(0, dtype=np.intp), *(dual.fixed for dual in self.duals)])] = False
        nothing = np.zeros(len(program.usable_rows))
        for t in np.flatnonzero(held & (most < bounds.most)).tolist():
            this = np.arange(sum(len(one.rows) for one in program.rows.further)) == place[t]
            entry = {"numbers": [labels[t]], **priced(program, nothing), "of_numbers": {labels[t]: multiplier[t]}}
            yield entry | names.multipliers(program, program.rows.by_constraint(this.astype(float)))

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        place = {label: t for t, label in enumerate(program.term.share._names(program.instance))}
        duals, n = list[Dual](), len(place)
        bounded, further = NumberBounds(program).by_rows.place >= 0, {id(one.rows) for one in program.rows.further}
        for level in held["levels"]:
            by_row = not np.any(level["prices"]) and len(level.get("rows", ())) == len(level["numbers"]) == 1
            if by_row and bounded[place[level["numbers"][0]]]:
                continue
            numbers, of_numbers = as_indices([place[label] for label in level["numbers"]], n), np.zeros(n)
            for label, price in level["of_numbers"].items():
                of_numbers[place[label]] = float(price)
            rows = [(one, y) for one, y in read.names.restored(program, level) if id(one.rows) in further]
            duals.append(Dual(price_rows(program, level), rows, mixtures=[of_numbers], fixed=numbers))
        return cls(duals, price_rows(program, held) if "prices" in held else np.zeros(program.usable_rows.shape))
