"""Constraint generation (Proposition 7.12): constraints with very many linear rows, of which violated ones are added.

The first program has none of these rows, so that any method may be exact for it. After a few programs all rows that
imply the others are added, unless these are too many. The gate checks all rows at the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairopt.certificate import Try
from fairopt.proof import feasibility as conditions
from fairopt.proof import gate
from fairopt.proof.evidence.fewer_rows import FewerRows
from fairopt.proof.gate import Answer
from fairopt.proof.proposal import Proposal
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import BLOCK_TOLERANCE
from fairopt.solve.form.program import Indices, Program
from fairopt.solve.settings import Settings

PART = 0.01  # of the tolerance: rows violated by more are added
ROWS_AT_ONCE = 40_000  # about: with more a program takes long, with fewer there are more programs
MOST_PROGRAMS = 100
FEW = 3  # programs after which all rows that imply the others are added
MOST_ROWS = 200_000  # of these: HiGHS takes 4 s for a sum of shares of 2,000 users under 120,000


def solve_with_rows(
    program: Program, settings: Settings, solve: Callable[[Program], Answer], fast: Callable[[Program], Answer | None]
) -> Answer:
    """The answer of a program with `Program.many_rows`, by programs with some of these.

    If none of the rows is not enough, ``fast`` tries to solve the program with all of them.
    """
    blocks, n = program.many_rows, program.instance.n_users
    added: list[dict[int, None]] = [{} for _ in blocks]
    tried: tuple[Try, ...] = ()
    answer, best, complete = gate.nothing(program), gate.nothing(program), False
    for k in range(MOST_PROGRAMS):
        tell("rows added", sum(map(len, added)), n * n * len(blocks))
        rows = tuple(tuple(of_block) for of_block in added)
        fewer = program.with_rows(dict(zip(blocks, rows, strict=True)))
        found = solve(fewer)
        tried += found.tried
        if found.evidence is not None:
            # without rows of multiplier zero, so that files and proofs have only those that bind
            evidence = FewerRows(*(found.evidence.of_charged_rows(program) or (fewer, found.evidence, rows)))
            answer = gate.judge(program, Proposal(found.method, found.tasks, evidence, found.solver))
            answer.note = found.note
            best = min(best, answer, key=Answer.missing)
        if answer.ok or settings.clock.late or (complete and not found.ok):
            break
        if k == 0 and (known := fast(program)) is not None and known.ok:
            best, tried = known, tried + known.tried
            break
        implying = None if complete or (found.ok and k + 1 < FEW) else _implying(program)
        if implying is not None:
            complete, added = True, [dict.fromkeys(rows.tolist()) for rows in implying]
            continue
        if found.evidence is None:
            break
        broken = conditions.broken_rows(program, answer.tasks, max(1, ROWS_AT_ONCE // n))
        n_added = sum(map(len, added))
        for of_block, (row, violation) in zip(added, broken, strict=True):
            of_block.update(dict.fromkeys(row[violation > PART * BLOCK_TOLERANCE].tolist()))
        if sum(map(len, added)) == n_added:
            break
    if not (best.ok or settings.clock.late) and n * n <= MOST_ROWS:  # with all rows
        last = solve(program)
        best, tried = min(best, last, key=Answer.missing), tried + last.tried
    return replace(best, tried=tried)


def _implying(program: Program) -> list[Indices] | None:
    """Rows of each block that imply all of its rows; None if they are too many."""
    n, found = program.instance.n_users, []
    for block in program.many_rows:
        rows = block.implying(program.instance, MOST_ROWS)
        if rows is None and n * n > MOST_ROWS:
            return None
        found.append(np.flatnonzero(~np.eye(n, dtype=bool)) if rows is None else rows)
    return found
