"""All that a program compares linearly: capacities, and the conditions of its blocks as rows by block and name.

`ProgramRows` is what bounds read: ``cost(prices, multipliers)`` by column, a pair of a user and a server, and
``load(tasks)`` by row, over a pool in chunks of users, over several servers as tables, and over sparse further rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import asked, brief, is_ours
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Pairs
from fairopt.blocks.rows import Rows
from fairopt.errors import Infeasible, InvalidBlock
from fairopt.lazy import sp

if TYPE_CHECKING:
    from fairopt.formulation.program import Program

Float = NDArray[np.float64]

CHUNK = 65_536  # numbers in a chunk of a table of demands
EVERY = slice(None)


class BlockRows(NamedTuple):
    """Rows, and the block whose conditions they are, under its name for them; bounds on tasks have no block."""

    block: Constraint | None
    name: str
    rows: Rows


def rows_of(block: Constraint, pairs: Pairs) -> list[BlockRows] | None:
    """The conditions of a block as rows that are not empty; None if it writes none.

    `InvalidBlock` if it gives something else, and `Infeasible` if a row never holds.
    """
    own = not is_ours(block) and type(block).rows is not Constraint.rows
    given = asked(block, "rows", pairs) if own else block.rows(pairs)
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InvalidBlock(f"{block}.rows gave {type(given).__name__}; give a dict of Rows by name")
    for name, rows in given.items() if own else ():
        _check(block, name, rows, pairs)
    return [BlockRows(block, name, rows) for name, rows in given.items() if len(rows)]


def _check(block: Constraint, name: str, rows: Any, pairs: Pairs) -> None:
    """What a block of the user's own gives under a name."""
    if not isinstance(rows, Rows):
        raise InvalidBlock(f"{block} gave {brief(rows)} under {name!r}; give fairopt.blocks.rows.Rows")
    if rows.per_task.shape[1] != len(pairs):
        raise InvalidBlock(
            f"{block}: its rows {name!r} have {rows.per_task.shape[1]} coefficients, and there are {len(pairs)} pairs "
            "of a user and a server it may run on; make them of pairs.totals, pairs.share(share) or pairs.of(values)"
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
    """The rows of a program: capacities per whole capacity, in the order of `Pairs.loads`, and ``further`` ones.

    Every point x of the program has ``load(x) <= usable``, users' tasks between ``program.low`` and ``program.most``,
    and the further rows. So with prices and multipliers at least 0 (of ``equal`` rows of any sign) ``cost @ x`` is at
    most ``prices @ usable + multipliers @ right``, which bounds rest on.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.instance = program, program.instance
        self.usable = program.usable_rows
        self.further = [one for block in program.rest for one in program.rows_of(block) or ()]
        whole = program.whole_capacities
        self._per_unit = np.divide(1.0, whole, out=np.zeros(whole.shape), where=whole > 0)

    @cached_property
    def right(self) -> Float:
        """Right-hand sides of the further rows."""
        return np.concatenate([np.zeros(0), *(one.rows.right for one in self.further)])

    @cached_property
    def equal(self) -> NDArray[np.bool_]:
        """Which of the further rows are equations."""
        kinds = [np.full(len(one.rows), one.rows.equal) for one in self.further]
        return np.concatenate([np.zeros(0, dtype=bool), *kinds])

    @cached_property
    def by_pair(self) -> sp.csr_array:
        """Coefficients of the further rows, shape (n_pairs, n_further)."""
        tables = [one.rows.per_task for one in self.further]
        return sp.csr_array(sp.vstack([sp.csr_array((0, len(self.program.pairs))), *tables]).T)

    def chunks(self) -> Iterator[slice]:
        """Users in chunks of which the table of demands stays in cache."""
        step = max(CHUNK // self._per_unit.size, 64)
        return (slice(k, min(k + step, self.instance.n_users)) for k in range(0, self.instance.n_users, step))

    def columns(self, users: slice) -> slice:
        """The pairs of consecutive users."""
        ends = np.append(self.program.pairs.first, len(self.program.pairs))
        return slice(*ends[list(users.indices(self.instance.n_users)[:2])].tolist())

    def cost(self, prices: Float, multipliers: Float | None = None, users: slice = EVERY) -> tuple[Float, Float]:
        """What a task of each pair of consecutive users costs, and the same with all terms taken positive.

        ``prices`` are by row of capacities, ``multipliers`` by further row.
        """
        per_unit, demands = prices.reshape(self._per_unit.shape) * self._per_unit, self.instance.demands[users]
        table = demands @ per_unit.T if demands.ndim == 2 else np.einsum("jsi,si->js", demands, per_unit)
        cost = table[:, 0] if self.program.single else table[self.instance.eligible[users]]
        if multipliers is None or not len(multipliers):
            return cost, cost
        rows = self.by_pair[self.columns(users)]
        return cost + rows @ multipliers, cost + abs(rows) @ np.abs(multipliers)

    def load(self, tasks: Float) -> Float:
        """What tasks by pair take of each capacity, shape (n_rows,)."""
        out = np.zeros(self._per_unit.shape)
        for users in self.chunks():
            some, demands = tasks[self.columns(users)], self.instance.demands[users]
            table = some[:, None]
            if not self.program.single:
                table = np.zeros(self.instance.eligible[users].shape)
                table[self.instance.eligible[users]] = some
            out += table.T @ demands if demands.ndim == 2 else np.einsum("js,jsi->si", table, demands)
        return np.ravel(out * self._per_unit)

    def load_of_further(self, tasks: Float) -> Float:
        """The left-hand sides of the further rows at tasks by pair."""
        return np.asarray(self.by_pair.T @ tasks)
