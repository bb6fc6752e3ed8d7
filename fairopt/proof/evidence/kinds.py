"""The kinds of evidence in files, by their names there.

A file holds numbers, a kind says how they bound the gap, and the program is made anew from the policy and the instance
of the file: nothing of the program is read from evidence. Numbers of the wrong shape are an error here; wrong numbers
of the right shape give a weak bound. ``loaded`` stands beside an entry that the checker reads where the gate has a
closer bound by the solver's own numbers (docs/methods/evidence.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairopt.blocks.constraints import Constraint
from fairopt.proof.entries import Named
from fairopt.proof.evidence.exact_levels import ExactLevels
from fairopt.proof.evidence.fewer_rows import FewerRows
from fairopt.proof.evidence.levels import LevelDuals
from fairopt.proof.evidence.number_levels import NumberLevels
from fairopt.proof.evidence.pool import Bottlenecked, EnvyBottlenecks
from fairopt.proof.evidence.prices import read_prices
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.evidence.tangents import Lines
from fairopt.proof.proposal import Evidence, Reader
from fairopt.solve.form.program import Program

KINDS = {
    "bottlenecks": Bottlenecked.restored,
    "pulled": EnvyBottlenecks.restored,
    "prices": read_prices,
    "levels": LevelDuals.of_entry,
    "number levels": NumberLevels.restored,
    "exact levels": ExactLevels.restored,
    "lines": Lines.restored,
    "duals": Solved.restored,
    "level duals": LevelDuals.restored,
    "rows": FewerRows.restored,
}
OF_ALL_ROWS = ("bottlenecks", "pulled", "duals", "level duals", "rows")  # need the whole program


def restored(
    program: Program, held: Mapping[str, Any], solver: str | None, constraints: Sequence[Constraint] = ()
) -> Evidence:
    """The evidence that `Evidence.entry` wrote, for a program of the same blocks and instance.

    ``constraints`` are those of the policy. `KeyError`, `TypeError` or `ValueError` if it is malformed or of another
    program.
    """
    read = Reader(KINDS, Named(constraints or program.constraints), solver)
    held = held.get("loaded", held)
    if program.many_rows and held["kind"] not in OF_ALL_ROWS:
        return FewerRows.of_entry(program, held, read)
    return read(program, held)
