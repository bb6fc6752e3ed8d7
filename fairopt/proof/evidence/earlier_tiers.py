"""How far earlier tiers may move a later one (Bound 7.21, docs/methods/cone.md).

A tier is proved given what earlier ones keep, ``f_a(x) >= level``, which is 1e-7 below their values. Multipliers that
prove ``f_b(x) <= U`` there, with l of that row, prove ``f_b(x) <= U + l d`` where the level is lower by d. So with d
what the level is below the value, beside what the answer breaks it by, ``l d`` says what the tolerance of the earlier
tier is worth to the later one: little in most policies, and all where some users have only what an earlier tier gives
up.

The bound is computed by the same evidence at lower levels, and where that leaves a gap at the levels too: the
difference is what is said, as what either lacks to a tight bound cancels. Evidence is read for both programs as files
hold it, or as a solver left it where what files hold proves nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairopt.blocks.algebra import KeptLevel, KeptShares, Objective
from fairopt.blocks.constraints import Constraint
from fairopt.errors import FairoptError
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.evidence.levels import LevelDuals
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.proposal import Evidence
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import GAP_TOLERANCE
from fairopt.solve.form.program import Program


@np.errstate(all="ignore")  # zero prices are expected
def moved_by_earlier(
    program: Program,
    objective: Objective,
    tasks: Float,
    evidence: Evidence | None,
    entry: Mapping[str, Any],
    solver: str | None,
    constraints: Sequence[Constraint],
) -> float:
    """What a later tier's gap may grow by if earlier ones give up as much again as they did; NaN if unknown.

    ``entry`` is its ``evidence`` in files, of a policy with ``constraints``.
    """
    point = program.point(tasks)
    looser = [c.looser(point) if isinstance(c, (KeptLevel, KeptShares)) else c for c in program.constraints]
    try:
        relaxed = Program(program.given, objective, looser, program.merge)
    except FairoptError:
        return np.nan
    as_left = [evidence.numbers()] if isinstance(evidence, (LevelDuals, Solved)) else []
    if as_left or "loaded" in entry:  # in the units of the program that was solved
        relaxed.units = program.units
    largest = np.nan
    for held in (entry, *as_left):

        def gap(one: Program, held: Mapping[str, Any] = held) -> float:
            read = restored(one, held, solver, constraints)
            if isinstance(read, Solved):
                read = replace(read, more=False)  # no second solve
            return read.measured(one, tasks, None).gap

        try:
            lower = gap(relaxed)
            before = 0.0 if lower <= GAP_TOLERANCE else gap(program)
        except (FairoptError, LookupError, TypeError, ValueError, ArithmeticError):
            continue
        if before <= GAP_TOLERANCE:
            return lower - before
        largest = float(np.fmax(largest, lower - before))  # others prove more of the tier, and may charge its rows more
    return largest if largest > GAP_TOLERANCE else np.nan  # between bounds that prove nothing it says nothing
