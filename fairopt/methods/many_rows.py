"""Conditions of very many linear rows, of which only those are made that some answer breaks.

This is how Dantzig, Fulkerson and Johnson (1954) solved their travelling salesman problem. The first program has none
of them, so that any method may be exact for it. Rows that its answer breaks are added, the most broken ones of each
user, until none is. The gate measures all rows; the bound is of the program with the rows made, which no point of the
whole program exceeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fairopt.certificate import BLOCK_TOLERANCE, Try
from fairopt.formulation.program import Program
from fairopt.methods.settings import Settings
from fairopt.progress import tell
from fairopt.proofs import conditions, gate
from fairopt.proofs.evidence import FewerRows, Proposal
from fairopt.proofs.gate import Answer

PART = 0.01  # of the tolerance: rows broken by more are made
MADE = 40_000  # rows made at once, about: programs with more take long, and fewer take more programs
MOST = 100  # programs
FEW = 4  # programs after which all rows are made where these are few
WHOLE = 160_000  # rows, of 400 users: HiGHS takes 5 s for a sum of shares under them, and 30 s for programs with fewer


def solve_with_rows(program: Program, settings: Settings, solve: Callable[[Program], Answer]) -> Answer:
    """The answer of a program with `Program.many_rows`, by programs with some of these."""
    blocks = program.many_rows
    made: list[dict[int, None]] = [{} for _ in blocks]
    tried: tuple[Try, ...] = ()
    answer, n_rows = gate.nothing(program), program.instance.n_users**2 * len(blocks)
    for k in range(MOST):
        tell("rows made", sum(map(len, made)), n_rows)
        rows = tuple(tuple(some) for some in made)
        fewer = program.with_rows(dict(zip(blocks, rows, strict=True)))
        found = solve(fewer)
        tried += found.tried
        if found.evidence is None:
            break
        evidence = FewerRows(fewer, found.evidence, rows)
        answer = gate.judge(program, Proposal(found.method, found.tasks, evidence, found.solver))
        answer.note = found.note
        if answer.ok or settings.late or (n_rows <= WHOLE and (k + 1 == FEW or not found.ok)):
            break
        each = max(1, MADE // program.instance.n_users)
        more = [
            [row for row in at[by > PART * BLOCK_TOLERANCE].tolist() if row not in own]
            for (at, by), own in zip(conditions.broken_rows(program, answer.tasks, each), made, strict=True)
        ]
        if not any(more):
            break
        for own, new in zip(made, more, strict=True):
            own.update(dict.fromkeys(new))
    if not (answer.ok or settings.late) and n_rows <= WHOLE:
        whole = solve(program)
        tried += whole.tried
        answer = min(answer, whole, key=lambda one: (not one.ok, one.gap + one.violation + one.block_violation))
    return replace(answer, tried=tried)
