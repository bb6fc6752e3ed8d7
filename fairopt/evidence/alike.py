"""Evidence of a program of kinds of users, which bounds the gap for the users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fairopt.formulation.alike import Alike, alike
from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.entries import Imposed
from fairopt.proofs.proposal import Evidence, Measured, Reader

PORTABLE = {"kind", "prices", "unit", "mixtures", "levels"}  # what an entry may hold, users apart


@dataclass(frozen=True)
class OfKinds(Evidence):
    """Evidence ``found`` of a program with one user for each kind of users who are alike.

    A point that treats users of a kind differently is measured as if each had what the one with least per weight has.
    """

    kinds: Alike
    found: Evidence

    kind = "users alike"

    @property
    def by_level(self) -> bool:
        return self.found.by_level

    def applies(self, program: Program) -> bool:
        return self.kinds.program is program and self.found.applies(self.kinds.inner)

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        kinds, inner = self.kinds, self.kinds.inner
        found = self.found.measured(inner, kinds.gathered(tasks), None)
        spread = kinds.spread(found.tasks)
        total = program.pairs.sum(spread)
        cut = np.where(total > program.high, program.high / np.where(total > 0, total, 1.0), 1.0)  # by rounding
        spread = spread * cut[program.pairs.user]
        apart = kinds.apart(program.point(spread), inner.point(found.tasks))
        of_bounds = max(found.block_violation, conditions.bounds_violation(program, spread))
        return replace(
            found, tasks=spread, gap=found.gap + apart, block_violation=of_bounds, violation=None, value=None
        )

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        inner = self.kinds.inner
        held = self.found.entry(inner, self.kinds.gathered(tasks), rows)
        if not held.keys() <= PORTABLE or any(level.keys() - {"users", "prices"} for level in held.get("levels", ())):
            raise ValueError(f"{program.objective} of users who are alike has no portable evidence")
        for level in held.get("levels", ()):
            level["users"] = np.flatnonzero(np.isin(self.kinds.of_user, level["users"])).tolist()
        if "mixtures" in held:
            mixtures = (np.asarray(theta)[self.kinds.of_user] * self.kinds.part for theta in held["mixtures"])
            held["mixtures"] = [theta.tolist() for theta in mixtures]
        return held

    def numbers(self) -> dict[str, Any] | None:
        found = self.found.numbers()
        return None if found is None else {"kind": self.kind, "found": found}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        kinds = alike(program)
        if kinds is None:
            raise ValueError("evidence of kinds of users for another program")
        return cls(kinds, read(kinds.inner, held["found"]))
