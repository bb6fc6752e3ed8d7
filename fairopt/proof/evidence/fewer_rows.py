"""Evidence of a program with fewer constraints, whose bound also holds for the whole program.

If ``F' >= F`` are the feasible sets with some and with all rows, ``max_F f <= max_F' f <= bound``, so that a point of F
that is optimal in F' is optimal (Proposition 7.12, docs/methods/cone.md). `EnvyFree` of n users has n(n - 1) rows, of
which few have a multiplier: methods and files keep these only. All rows are checked at the point; that the program with
fewer rows is of the same instance, objective and other constraints is checked by `Program.relaxes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.proof import feasibility as conditions
from fairopt.proof.entries import Named
from fairopt.proof.proposal import Evidence, Measured, Reader, as_indices
from fairopt.runtime.arrays import Float
from fairopt.solve.form.program import Program


@dataclass(frozen=True)
class FewerRows(Evidence):
    """Evidence ``found`` of a program that has only the rows ``made``, by block of `Program.many_rows`."""

    program: Program
    found: Evidence
    made: tuple[tuple[int, ...], ...]

    kind = "rows"
    of_solver = True

    @property
    def by_level(self) -> bool:
        return self.found.by_level

    def applies(self, program: Program) -> bool:
        return self.program.relaxes(program) and self.found.applies(self.program)

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        out = self.found.measured(self.program, tasks, bundles)
        broken = [by.max(initial=0.0) for _, by in conditions.broken_rows(program, out.tasks)]
        out.block_violation = float(np.max([out.block_violation, *broken]))
        return out

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        held = self.found.entry(self.program, tasks, names)  # rows that it lacks have no multipliers
        made = [list(rows) for rows in self.made]
        if "loaded" in held:
            return held | {"loaded": {"kind": self.kind, "made": made, "found": held["loaded"]}}
        if held["kind"] not in ("duals", "level duals"):  # by name, and not by position among the rows of a program
            return held
        return {name: held[name] for name in ("why",) if name in held} | {
            "kind": self.kind,
            "made": made,
            "found": held,
        }

    @classmethod
    def of_entry(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        """With the rows that an entry names."""
        made = read.names.rows_made(program, held)
        fewer = program.with_rows(made)
        return cls(fewer, read(fewer, held), tuple(tuple(made[block]) for block in program.many_rows))

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        n = program.instance.n_users
        made = tuple(tuple(as_indices(rows, n * n).tolist()) for rows in held["made"])
        fewer = program.with_rows(dict(zip(program.many_rows, made, strict=True)))
        return cls(fewer, read(fewer, held["found"]), made)
