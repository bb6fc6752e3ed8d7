"""Capacities and linear constraints of a program as rows.

`ProgramRows` gives bounds their two operations: ``cost`` at prices by (user, server) pair, and ``load`` by row.
Capacities are evaluated in chunks of users; further rows are sparse. So are the demands of a pool of many resources of
which users need few, as paths of a network: 9,903 paths over 486 links take 2.6 ms in chunks and .1 ms sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import brief, call_block, is_ours
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Pairs
from fairopt.blocks.rows import Rows, _WrongRows
from fairopt.errors import Infeasible, InvalidBlock
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import sp

CHUNK = 65_536  # numbers per chunk of demands
MANY, FEW = 32, 0.25  # resources of a pool from which demands may be sparse, and the part of them that users need


class BlockRows(NamedTuple):
    """Rows with the constraint that they belong to and its name for them; bounds on tasks have no block."""

    block: Constraint | None
    name: str
    rows: Rows


def rows_of(block: Constraint, pairs: Pairs) -> list[BlockRows] | None:
    """The nonempty rows of a constraint; None if it is not given as rows.

    `InvalidBlock` for other objects, and `Infeasible` for a row that never holds.
    """
    own = not is_ours(block) and type(block).rows is not Constraint.rows
    try:
        given = call_block(block, "rows", pairs) if own else block.rows(pairs)
    except _WrongRows as error:
        raise InvalidBlock(f"{block}: {error}") from error
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InvalidBlock(f"{block}.rows gave {type(given).__name__}; give a dict of Rows by name")
    for name, rows in given.items() if own else ():
        _check(block, name, rows, pairs)
    return [BlockRows(block, name, rows) for name, rows in given.items() if len(rows)]


def _check(block: Constraint, name: str, rows: Any, pairs: Pairs) -> None:
    """Validate the rows of a user-defined constraint."""
    if not isinstance(rows, Rows):
        raise InvalidBlock(f"{block} gave {brief(rows)} under {name!r}; give fairopt.blocks.rows.Rows")
    if rows.per_task.shape[1] != len(pairs):
        raise InvalidBlock(
            f"{block}: its rows {name!r} have {rows.per_task.shape[1]} coefficients for {len(pairs)} (user, server) "
            "pairs; build them from pairs.totals, pairs.share(share) or pairs.of(values)"
        )
    for values in (rows.per_task.data, rows.right):
        wrong = values[~np.isfinite(values)]
        if len(wrong):
            raise InvalidBlock(f"{block}: its rows {name!r} hold {wrong[0]}; give finite numbers")
    if rows.unit is not None and not ((rows.unit > 0) & np.isfinite(rows.unit)).all():
        raise InvalidBlock(f"{block}: the unit of its rows {name!r} is {rows.unit.min()}; give finite numbers above 0")
    empty = np.asarray(abs(rows.per_task).sum(axis=1)).ravel() == 0
    if (empty & ((rows.right != 0) if rows.equal else (rows.right < 0))).any():
        raise Infeasible(f"{name!r} of `{block}` cannot hold, whatever the tasks", (f"`{block}`",))


class ProgramRows:
    """The rows of a program: capacities, in the order of `Pairs.loads`, and ``further`` linear constraints.

    Feasible x satisfy ``load(x) <= usable``, in fractions of whole capacities, and ``one.rows.load(x) <=
    one.rows.right`` (or ==) for each one of ``further``. So with nonnegative prices and multipliers y (of any sign for
    equations) ``x @ (cost(prices) + sum of one.rows.cost(y)) <= prices @ usable + sum of y @ right``.
    """

    def __init__(self, pairs: Pairs, usable: Float, further: Callable[[], list[BlockRows]]) -> None:
        self.pairs, self.instance, self.usable, self._made_further = pairs, pairs.instance, usable, further
        whole = self.instance.capacities * self.instance.counts[:, None]
        self._per_unit = np.divide(1.0, whole, out=np.zeros(whole.shape), where=whole > 0)

    @cached_property
    def further(self) -> list[BlockRows]:
        """Linear constraints of the blocks, including those whose rows are added lazily."""
        return self._made_further()

    def by_constraint(self, multipliers: Float) -> list[tuple[BlockRows, Float]]:
        """Valid multipliers of further rows, given one after the other, constraint by constraint."""
        ends = np.cumsum([len(one.rows) for one in self.further])
        parts = np.split(multipliers, ends[:-1]) if self.further else ()
        return [(one, one.rows.valid(part)) for one, part in zip(self.further, parts, strict=True)]

    def further_in_fractions(self) -> list[tuple[dict[tuple[int, int], Fraction], Fraction, bool]]:
        """Each further row: coefficients by user and server, right side, and whether it is an equation."""
        pairs = list(zip(self.pairs.user.tolist(), self.pairs.server.tolist(), strict=True))
        return [
            ({pair: Fraction(v) for pair, v in zip(pairs, row, strict=True) if v}, Fraction(right), one.rows.equal)
            for one in self.further
            for row, right in zip(one.rows.per_task.toarray().tolist(), one.rows.right.tolist(), strict=True)
        ]

    @cached_property
    def sparse(self) -> sp.csr_array | None:
        """The demands of users on one pool, (n_users, n_resources), if they are sparse."""
        if not self.pairs.single or self.instance.n_resources < MANY:
            return None
        demands = self.instance.per_server_demands[:, 0]
        return sp.csr_array(demands) if np.count_nonzero(demands) <= FEW * demands.size else None

    def cost(self, prices: Float) -> Float:
        """The cost of one task of each pair at prices by capacity row, shape (n_pairs,)."""
        if self.sparse is not None:
            return np.asarray(self.sparse @ (prices * self._per_unit[0]))
        per_unit, out = prices.reshape(self._per_unit.shape) * self._per_unit, np.empty(len(self.pairs))
        for demands, eligible, columns in self._chunks():
            table = demands @ per_unit.T if demands.ndim == 2 else np.einsum("jsi,si->js", demands, per_unit)
            out[columns] = table[:, 0] if self.pairs.single else table[eligible]
        return out

    def load(self, tasks: Float) -> Float:
        """The fraction of each capacity that tasks by pair use, shape (n_rows,)."""
        if self.sparse is not None:
            return np.asarray(self.sparse.T @ tasks) * self._per_unit[0]
        out = np.zeros(self._per_unit.shape)
        for demands, eligible, columns in self._chunks():
            if self.pairs.single:
                table = tasks[columns, None]
            else:
                table = np.zeros(eligible.shape)
                table[eligible] = tasks[columns]
            out += table.T @ demands if demands.ndim == 2 else np.einsum("js,jsi->si", table, demands)
        return np.ravel(out * self._per_unit)

    def columns(self, place: Indices) -> sp.csr_array:
        """Some columns of `Pairs.loads`; on one pool without the others, of which there may be millions."""
        if not self.pairs.single:
            loads = self.pairs.loads
            return loads if len(place) == len(self.pairs) else sp.csr_array(sp.csc_array(loads)[:, place])
        if self.sparse is not None:
            return sp.csr_array((self.sparse[place] @ sp.diags_array(self._per_unit[0])).T)
        return sp.csr_array((self.instance.per_server_demands[place, 0] * self._per_unit[0]).T)

    def _chunks(self) -> Iterator[tuple[Float, NDArray[np.bool_], slice]]:
        """Demands and eligibility of consecutive users, in chunks that fit the cache, and their pairs."""
        ends, n = np.append(self.pairs.first, len(self.pairs)), self.instance.n_users
        step = max(CHUNK // self._per_unit.size, 64)
        for first in range(0, n, step):
            users = slice(first, min(first + step, n))
            yield self.instance.demands[users], self.instance.eligible[users], slice(ends[first], ends[users.stop])
