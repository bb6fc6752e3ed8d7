"""Evidence in the form that `verify` reads: prices by server, and multipliers of the rows that `verify` makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.blocks.constraints import Constraint, MadeRows
from fairopt.formulation.program import Float, Program
from fairopt.formulation.rows import BlockRows

if TYPE_CHECKING:
    from fairopt.proofs import verify

Users = frozenset[int]


class Imposed:
    """The rows that `verify` makes of constraints; a row is identified by its constraint and the signs of users'
    coefficients, and among several of these by their order.
    """

    def __init__(self, conditions: Sequence[Constraint | None], rows: Sequence[verify.Rows]) -> None:
        self.conditions, self.rows = conditions, rows

    @property
    def flat(self) -> verify.Rows:
        """All rows, in order."""
        return [row for some in self.rows for row in some]

    @cached_property
    def _places(self) -> dict[tuple[int, Users, Users], list[tuple[int, verify.Row]]]:
        """The index of each row, and the row."""
        out: dict[tuple[int, Users, Users], list[tuple[int, verify.Row]]] = {}
        at = 0
        for condition, own in zip(self.conditions, self.rows, strict=False):
            for row in own:
                positive = frozenset(j for (j, _), v in row[0].items() if v > 0)
                negative = frozenset(j for (j, _), v in row[0].items() if v < 0)
                out.setdefault((id(condition), positive, negative), []).append((at, row))
                at += 1
        return out

    @cached_property
    def _in_order(self) -> set[int]:
        """The constraints of which several rows have the same signs."""
        return {condition for (condition, _, _), found in self._places.items() if len(found) > 1}

    def multipliers(self, program: Program, found: Iterable[tuple[BlockRows, Float]]) -> dict[str, Any]:
        """Multipliers of `verify`'s rows from those of fairopt's, in natural units; 0 for rows that are not named.

        Bounds on tasks in `verify` need none. Its rows are multiples of fairopt's, except those of a share of 0, where
        larger multipliers prove the same.
        """
        y, user = np.zeros(len(self.flat)), program.active[program.pairs.user]
        before: dict[tuple[int, Users, Users], int] = {}
        for (block, _, rows), values in found:
            condition, table = (block.block if isinstance(block, MadeRows) else block), rows.per_task
            every = id(condition) in self._in_order
            for r in range(len(values)) if every else np.flatnonzero(values).tolist():
                part = slice(table.indptr[r], table.indptr[r + 1])
                users, sizes = user[table.indices[part]], table.data[part]
                positive, negative = frozenset(users[sizes > 0].tolist()), frozenset(users[sizes < 0].tolist())
                key = (id(condition), positive, negative)
                if places := self._places.get(key):
                    at, (row, bound, _) = places[min(before.setdefault(key, 0), len(places) - 1)]
                    before[key] += every
                    theirs = [abs(float(v)) for v in row.values() if v]
                    size = min(theirs) if bound == 0 and not negative else max(theirs)
                    y[at] += values[r] * float(np.abs(sizes).max()) / size
        return {"rows": y.tolist()} if y.any() else {}


def priced(program: Program, by_row: Float) -> dict[str, Any]:
    """Prices by server and resource, from those by row of loads per whole capacity."""
    return {"prices": np.nan_to_num(program.expand_prices(by_row)).tolist()}


def price_entry(program: Program, by_row: Float, unit: float = 1.0, mixtures: Sequence[Float] = ()) -> dict[str, Any]:
    """An entry of prices, for shares in multiples of ``unit``."""
    return {"kind": "prices", "unit": unit, **priced(program, by_row), "mixtures": [u.tolist() for u in mixtures]}
