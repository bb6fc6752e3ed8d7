"""Conditions of very many linear rows, of which only those are made that some answer breaks.

This is how Dantzig, Fulkerson and Johnson (1954) solved their travelling salesman problem. The first program has none
of them, so that any method may be exact for it. Rows that its answer breaks are added, the most broken ones of each
user, until none is; after a few programs all that imply the others, if these are not too many. The gate measures all
rows; the bound is of the program with the rows made, which no point of the whole program exceeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairopt.certificate import Try
from fairopt.evidence.fewer_rows import FewerRows
from fairopt.formulation.program import Indices, Program
from fairopt.methods.settings import Settings
from fairopt.proofs import conditions, gate
from fairopt.proofs.gate import Answer
from fairopt.proofs.proposal import Proposal
from fairopt.runtime.progress import tell
from fairopt.tolerances import BLOCK_TOLERANCE

PART = 0.01  # of the tolerance: rows broken by more are made
MADE = 40_000  # rows made at once, about: programs with more take long, and fewer take more programs
MOST = 100  # programs
FEW = 3  # programs after which all rows that imply the others are made
WHOLE = 200_000  # of them at most: HiGHS takes 4 s for a sum of shares of 2,000 users under 120,000


def solve_with_rows(
    program: Program, settings: Settings, solve: Callable[[Program], Answer], fast: Callable[[Program], Answer | None]
) -> Answer:
    """The answer of a program with `Program.many_rows`, by programs with some of these.

    If that with none of them is not enough, ``fast`` is asked for an answer with all.
    """
    blocks, n = program.many_rows, program.instance.n_users
    made: list[dict[int, None]] = [{} for _ in blocks]
    tried: tuple[Try, ...] = ()
    answer, best, whole = gate.nothing(program), gate.nothing(program), False
    for k in range(MOST):
        tell("rows made", sum(map(len, made)), n * n * len(blocks))
        rows = tuple(tuple(some) for some in made)
        fewer = program.with_rows(dict(zip(blocks, rows, strict=True)))
        found = solve(fewer)
        tried += found.tried
        if found.evidence is not None:
            # without rows of no price, so that files and proofs have those that bind only
            evidence = FewerRows(*(found.evidence.of_charged_rows(program) or (fewer, found.evidence, rows)))
            answer = gate.judge(program, Proposal(found.method, found.tasks, evidence, found.solver))
            answer.note = found.note
            best = min(best, answer, key=Answer.missing)
        if answer.ok or settings.late or (whole and not found.ok):
            break
        if k == 0 and (known := fast(program)) is not None and known.ok:
            best, tried = known, tried + known.tried
            break
        every = None if whole or (found.ok and k + 1 < FEW) else _implying(program)
        if every is not None:
            whole, made = True, [dict.fromkeys(rows.tolist()) for rows in every]
            continue
        if found.evidence is None:
            break
        broken, n_made = conditions.broken_rows(program, answer.tasks, max(1, MADE // n)), sum(map(len, made))
        for own, (at, by) in zip(made, broken, strict=True):
            own.update(dict.fromkeys(at[by > PART * BLOCK_TOLERANCE].tolist()))
        if sum(map(len, made)) == n_made:
            break
    if not (best.ok or settings.late) and n * n <= WHOLE:  # by all solvers, which are judged by all rows
        last = solve(program)
        best, tried = min(best, last, key=Answer.missing), tried + last.tried
    return replace(best, tried=tried)


def _implying(program: Program) -> list[Indices] | None:
    """Rows of each block that imply all of it; None of too many."""
    n, found = program.instance.n_users, []
    for block in program.many_rows:
        rows = block.implying(program.instance, WHOLE)
        if rows is None and n * n > WHOLE:
            return None
        found.append(np.flatnonzero(~np.eye(n, dtype=bool)) if rows is None else rows)
    return found
