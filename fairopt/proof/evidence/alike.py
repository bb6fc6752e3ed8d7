"""Evidence of a program of kinds of users, which bounds the gap for the users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.blocks.constraints import Constraint, EnvyFree, MadeRows
from fairopt.blocks.rows import Rows
from fairopt.proof import feasibility as conditions
from fairopt.proof.entries import Named
from fairopt.proof.proposal import Evidence, Measured
from fairopt.runtime.arrays import Float
from fairopt.solve.form.alike import Alike
from fairopt.solve.form.program import Program
from fairopt.solve.form.program_rows import BlockRows, rows_of

BY_KIND = {"users", "pairs", "mixtures", "levels", "lines", "largest", "smallest", "point", "of_numbers"}  # of users
OF_ENTRY = BY_KIND | {"kind", "order", "prices", "unit", "slope", "rows"}  # what it may have


def of_users(kinds: Alike, entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of evidence of kinds, whose rows are those of users, as one of users."""
    if not entry.keys() <= OF_ENTRY:
        raise ValueError(f"{kinds.program.objective} of users who are alike has no evidence of users")
    out = dict(entry)
    for name in BY_KIND & entry.keys():
        value = entry[name]
        if name == "users":
            out[name] = np.flatnonzero(np.isin(kinds.of_user, value)).tolist()
        elif name == "pairs":
            index = {user: j for j, user in enumerate(kinds.inner.instance.users)}
            users, n = kinds.program.instance.users, kinds.program.instance.n_users
            rows = [row for j, k in value for row in kinds.envy_rows(index[j], index[k])[0].tolist()]
            out[name] = [[users[row // n], users[row % n]] for row in dict.fromkeys(rows)]
        elif name == "point":
            weights, active = _exact_weights(kinds), kinds.program.active.tolist()
            sums = [sum(of_kind.values(), Fraction(0)) for of_kind in weights]
            out[name] = [
                [active[j], s, str(Fraction(x) * w / sums[k])] for k, s, x in value for j, w in weights[k].items()
            ]
        elif name == "of_numbers":  # per weight of the kind as rounded, so that shares cost the same
            given, made, weights = kinds.program.instance.users, kinds.inner.instance, _exact_weights(kinds)
            of_kind = {user: (k, Fraction(w)) for k, (user, w) in enumerate(zip(made.users, made.weights, strict=True))}
            out[name] = {
                given[j]: str(Fraction(p) * w / of_kind[user][1])
                for user, p in value.items()
                for j, w in weights[of_kind[user][0]].items()
            }
        elif name == "mixtures":
            out[name] = [(np.asarray(theta)[kinds.of_user] * kinds.part).tolist() for theta in value]
        elif isinstance(value, Mapping):
            out[name] = of_users(kinds, value)
        elif not value or isinstance(value[0], Mapping):
            out[name] = [of_users(kinds, one) for one in value]
        else:  # levels at which a tangent is taken, per weight
            out[name] = np.asarray(value)[kinds.of_user].tolist()
    return out


def _exact_weights(kinds: Alike) -> list[dict[int, Fraction]]:
    """The weights of the users of each kind."""
    weights, n = kinds.program.instance.weights.tolist(), kinds.inner.instance.n_users
    return [{j: Fraction(weights[j]) for j in np.flatnonzero(kinds.of_user == k).tolist()} for k in range(n)]


class OfUsers(Named):
    """The names of rows of users, with multipliers of those of their kinds."""

    def __init__(self, kinds: Alike, names: Named) -> None:
        super().__init__(names.constraints)
        self.kinds = kinds

    def multipliers(
        self, program: Program, found: Iterable[tuple[BlockRows, Float]], kept: Iterable[tuple[Constraint, float]] = ()
    ) -> dict[str, Any]:
        users, charged = self.kinds.program, list[tuple[BlockRows, Float]]()
        if any(value for _, value in kept):
            raise ValueError(f"{users.objective} of users who are alike has no evidence of users")
        for (block, _, rows), values in found:
            envy = block.block if isinstance(block, MadeRows) else block
            if not isinstance(envy, EnvyFree):  # added by methods, and charged elsewhere
                continue
            parts = [(r, *self.kinds.envy_rows(*envious(program, rows, r))) for r in np.flatnonzero(values).tolist()]
            if parts:
                made = MadeRows(envy, tuple(np.concatenate([some for _, some, _ in parts]).tolist()))
                times = np.concatenate([values[r] * times for r, _, times in parts])
                charged += [(one, times) for one in rows_of(made, users.pairs) or ()]
        return super().multipliers(users, charged)


def envious(program: Program, rows: Rows, r: int) -> tuple[int, int]:
    """The kind that does not envy, and the other, of a row."""
    part = slice(rows.per_task.indptr[r], rows.per_task.indptr[r + 1])
    user, sizes = program.pairs.user[rows.per_task.indices[part]], rows.per_task.data[part]
    return int(user[sizes < 0][0]), int(user[sizes > 0][0])


@dataclass(frozen=True)
class OfKinds(Evidence):
    """Evidence ``found`` of a program with one user for each kind of users who are alike.

    A point that treats users of a kind differently is measured as if each had what the one with least per weight has.
    """

    kinds: Alike
    found: Evidence

    of_solver = True

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
        envy = [float(by.max(initial=0.0)) for _, by in conditions.broken_rows(program, spread)]
        of_bounds = max(found.block_violation, conditions.bounds_violation(program, spread), *envy)
        return replace(
            found, tasks=spread, gap=found.gap + apart, block_violation=of_bounds, violation=None, value=None
        )

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        inner = self.kinds.inner
        held = self.found.entry(inner, self.kinds.gathered(tasks), OfUsers(self.kinds, names))
        return of_users(self.kinds, held)
