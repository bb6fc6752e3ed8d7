"""Evidence in files: prices by server and resource, and multipliers of rows that are named by what they are about.

A row has a place and a label. The place is the position of its constraint in the policy, or ``"guarantees"`` of teams,
``"limits of the instance"``, ``"limits"`` or ``"floors"`` of users' tasks, or ``"tier k"``, by which later tiers keep
tier k (from 0). The label is a user, a team, a limit, a pair of these, or empty (`Rows.labels`); in a user's constraint
it is the name and position of the row. Multipliers are in natural units: of the objective, per unit of the row's
right-hand side. So readers find rows by their own reading of the policy.

Why names and not positions: rows are made by methods in their own order, scaled and some of them left out, and the
checker makes them by code of its own. A name that a reader does not know leaves its row out, which can only weaken the
bound: a multiplier of 0 is always valid. Prices are given per server as the instance has them; those of one row for
several identical servers are the mean of theirs, as a mean of valid multipliers is valid and the bound is convex.
Multipliers are written with all digits, and recomputed bounds differ by rounding, for which the gate leaves a fifth of
the tolerance (`fairopt.proof.dual_bound.ENOUGH`). See docs/methods/evidence.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import AtLeast, KeptLevel, KeptShares
from fairopt.blocks.base import is_ours
from fairopt.blocks.constraints import Constraint, MadeRows, ManyRows
from fairopt.blocks.guarantees import KeptLimits, TeamGuarantees
from fairopt.blocks.rows import Rows
from fairopt.runtime.arrays import Float
from fairopt.solve.form.program import Program
from fairopt.solve.form.program_rows import BlockRows

Place = int | str


class Named:
    """The names of rows under the ``constraints`` of a policy."""

    def __init__(self, constraints: Sequence[Constraint] = ()) -> None:
        self.constraints = tuple(constraints)

    def places(self, program: Program) -> list[tuple[Constraint, Place]]:
        """The constraints of a program that are named in files, without `MadeRows`, and their places."""
        out, tiers = list[tuple[Constraint, Place]](), 0
        for one in program.constraints:
            block = one.block if isinstance(one, MadeRows) else one
            if isinstance(block, TeamGuarantees):
                out.append((block, "guarantees"))
            elif isinstance(block, KeptLimits):
                out.append((block, "limits of the instance"))
            elif isinstance(block, (KeptLevel, KeptShares)):
                out.append((block, f"tier {tiers}"))
                tiers += 1
            else:  # by identity first: two blocks that print and compare alike may both be in a policy
                same = [k for k, given in enumerate(self.constraints) if given is block]
                same += [k for k, given in enumerate(self.constraints) if type(given) is type(block) and given == block]
                out += [(block, k) for k in same[:1]]
        return out

    def place(self, program: Program, block: Constraint | None, name: str = "") -> Place | None:
        """The place of a constraint, or of bounds on tasks by their ``name``; None if it has none."""
        if block is None:
            return name
        block = block.block if isinstance(block, MadeRows) else block
        return next((place for one, place in self.places(program) if one is block), None)

    def multipliers(
        self,
        program: Program,
        charged: Iterable[tuple[BlockRows, Float]],
        kept: Iterable[tuple[Constraint, float]] = (),
    ) -> dict[str, Any]:
        """Multipliers of rows, and of ``kept`` levels of objectives, as an entry has them; without zeros."""
        rows, levels = dict[tuple[Place, Any], float](), dict[Place, float]()
        for one, values in charged:
            place, labels = self.place(program, one.block, one.name), labels_of(one)
            if place is None or labels is None:
                continue
            for r in np.flatnonzero(values).tolist():  # a row that is not named has the multiplier 0
                key = place, label_of(labels[r])
                rows[key] = rows.get(key, 0.0) + float(values[r])
        for block, value in kept:
            if value and (place := self.place(program, block)) is not None:
                levels[place] = levels.get(place, 0.0) + value
        named = [[place, list(of) if isinstance(of, tuple) else of, y] for (place, of), y in rows.items()]
        return ({"rows": named} if named else {}) | ({"kept": [[*one] for one in levels.items()]} if levels else {})

    def restored(self, program: Program, entry: Mapping[str, Any]) -> list[tuple[BlockRows, Float]]:
        """The rows of a program with the multipliers of an entry; names of other rows are left out."""
        given = dict[Place, dict[Any, float]]()
        for place, label, y in entry.get("rows") or ():
            given.setdefault(place, {})[label_of(label)] = float(y)
        some = [
            (rows, given[place])
            for block, place in self.places(program)
            if place in given
            for rows in self._rows_of(program, block)
        ]
        some += [(bounds_as_rows(program, name), given[name]) for name in ("limits", "floors") if name in given]
        charged = [
            (one, np.array([y.get(label_of(of), 0.0) for of in labels]))
            for one, y in some
            if (labels := labels_of(one)) is not None
        ]
        return [(one, one.rows.valid(y)) for one, y in charged]

    def _rows_of(self, program: Program, block: Constraint) -> Sequence[BlockRows]:
        """The rows of a constraint, or those that a program has of it."""
        made = [c for c in program.constraints if isinstance(c, MadeRows) and c.block is block]
        if isinstance(block, ManyRows) and not made:  # n(n - 1) rows are not written out to find a few
            return ()
        return program.rows_of(made[0] if made else block) or ()

    def kept(self, program: Program, entry: Mapping[str, Any]) -> list[tuple[AtLeast, float]]:
        """The kept levels of objectives with the multipliers of an entry."""
        # a level of teams' smallest number is written as a row for each team (`Dual.of_blocks`)
        given, of_rows = {place: float(y) for place, y in entry.get("kept") or ()}, dict[Place, dict[str, float]]()
        for place, label, y in entry.get("rows") or ():
            if isinstance(label, str):
                of_rows.setdefault(place, {})[label] = float(y)
        levels = list[tuple[Constraint, float]]()
        for block, place in self.places(program):
            if place in given:
                levels.append((block, given[place]))
            elif place in of_rows and isinstance(block, AtLeast) and program.rows_of(block) is None:
                term = block.objective.term
                share = term.share  # rows of numbers, of which a mixture is at least the level
                weights = share._numbers(program.instance, levelled=True).weights
                each = zip(share._names(program.instance), weights.tolist(), strict=True)
                levels.append((block, sum(of_rows[place].get(label, 0.0) * w for label, w in each) / term.factor))
        return [(block, max(y, 0.0)) for block, y in levels if isinstance(block, AtLeast)]

    def rows_made(self, program: Program, entry: Any) -> dict[ManyRows, list[int]]:
        """The rows of `Program.many_rows` that an entry names, by index."""
        pairs = dict[Place, dict[Any, None]]()
        _collect(entry, pairs)
        index, n = {user: j for j, user in enumerate(program.instance.users)}, program.instance.n_users
        return {
            block: [index[j] * n + index[k] for j, k in pairs.get(place, ()) if j in index and k in index]
            for block, place in self.places(program)
            if isinstance(block, ManyRows)
        }


def _collect(entry: Any, pairs: dict[Place, dict[Any, None]]) -> None:
    """Add the pairs of users whose rows an entry names, by place."""
    if isinstance(entry, list):
        for one in entry:
            _collect(one, pairs)
    elif isinstance(entry, Mapping):
        for place, label, _ in entry.get("rows") or ():
            if not isinstance(label, str) and len(label) == 2:
                pairs.setdefault(place, {})[label_of(label)] = None
        for key, one in entry.items():  # levels, lines and ends hold rows of their own
            if key not in ("rows", "loaded", "written"):
                _collect(one, pairs)


def bounds_as_rows(program: Program, name: str) -> BlockRows:
    """The limits of users' tasks as rows, or their floors."""
    users, totals = np.array(program.instance.users, dtype=object), program.pairs.totals
    if name == "limits":
        some = np.flatnonzero(np.isfinite(program.high))
        return BlockRows(None, name, Rows(totals[some], program.high[some], labels=users[some]))
    some = np.flatnonzero(program.low > 0)
    return BlockRows(None, name, Rows(-totals[some], -program.low[some], labels=users[some]))


def labels_of(one: BlockRows) -> Sequence[Any] | NDArray[np.object_] | None:
    """The labels of rows, None if they have none; of a user's constraint by position, whatever labels it gave."""
    if one.block is None or is_ours(one.block):
        return one.rows.labels
    return [label_by_position(one.name, r) for r in range(len(one.rows))]


def label_by_position(name: str, row: int) -> str:
    """The label of a row of a user's constraint."""
    return f"{name}[{row}]"


def label_of(label: Any) -> str | tuple[str, ...]:
    """A label of `Rows` that can be compared."""
    return label if isinstance(label, str) else tuple(map(str, label))


def priced(program: Program, by_row: Float) -> dict[str, Any]:
    """Prices by server and resource, from those by row of loads per whole capacity."""
    each = program.expand_prices(by_row)
    # JSON has no number for those that are not finite, and any price gives a bound
    return {"prices": np.where(np.isfinite(each), each, 0.0).tolist()}


def price_rows(program: Program, entry: Mapping[str, Any]) -> Float:
    """Prices per whole capacity by row of loads, from those by server and resource of an entry."""
    given, instance = np.asarray(entry["prices"], dtype=float), program.given
    if given.shape != instance.capacities.shape:
        raise ValueError(f"prices of shape {given.shape}, not {instance.capacities.shape}")
    if not np.isfinite(given).all():
        raise ValueError("prices are not finite")
    if program.merge:
        classes = program.unmerged.derived.server_classes
        given = np.array([given[classes == k].mean(axis=0) for k in range(program.instance.n_servers)])
    by_row: Float = (given * program.whole_capacities).ravel()
    return by_row
