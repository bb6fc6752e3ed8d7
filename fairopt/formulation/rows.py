"""Linear conditions of blocks as rows in a program's pairs, checked, by block and name."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.base import asked, brief, is_ours
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Pairs
from fairopt.blocks.rows import Rows
from fairopt.errors import Infeasible, InvalidBlock


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
