"""Constraint generation (Proposition 7.12): constraints with very many linear rows, of which violated ones are added.

    max f over F'  with  F' >= F:  a point of F that is optimal in F' is optimal in F.

`EnvyFree` of n users has n(n - 1) rows, of which an optimum meets a few with equality. The first program has none of
these rows, so that any method may be exact for it, such as water-filling. Then the rows that the answer breaks most are
added, some of each user. After a few programs all rows that imply the others are added (of users who may run on all
servers the neighbours in m orders, Proposition 7.13), or all if these are unknown, unless they are too many. For a sum
of shares the rows that imply the others come first, as the broken ones are more: half the time at 400 and 1,000 users,
.8 of it at 2,000. With a curved objective an interior-point solver would take them, in 25 times the time at 400 and
2,000 users. The gate checks all rows at the answer, and evidence keeps only those with a multiplier, so that files stay
small.

Floats: a row counts as broken by 1e-9, a hundredth of what is tolerated, since solvers leave as much on rows that they
were given; if nothing is broken by more and the answer is still not certified, this method has nothing to add.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from fairopt.proof import feasibility as conditions
from fairopt.proof.evidence.fewer_rows import FewerRows
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Indices
from fairopt.runtime.clock import check
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import BLOCK_TOLERANCE
from fairopt.solve.dispatch import ask
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Proposals, Settings
from fairopt.solve.table import MOST_ROWS, TABLE, is_fast

PART = 0.01  # of the tolerance: rows violated by more are added
ROWS_AT_ONCE = 40_000  # about: with more a program takes long, with fewer there are more programs
MOST_PROGRAMS = 100
FEW = 3  # programs after which all rows are added: each program finds rows that the last missed


def solve_with_rows(program: Program, settings: Settings) -> Proposals:
    """The answers of programs with some of `Program.many_rows`; if none is not enough, fast methods take all of them.

    Where these proposals are not certified, later methods take all rows if they are not too many.
    """
    blocks, n = program.many_rows, program.instance.n_users
    added: list[dict[int, None]] = [{} for _ in blocks]
    of_fewer = replace(settings, last_tier=False)
    complete = False
    for k in range(MOST_PROGRAMS):
        tell("rows added", sum(map(len, added)), n * n * len(blocks))
        rows = tuple(tuple(of_block) for of_block in added)
        fewer = program.with_rows(dict(zip(blocks, rows, strict=True)))
        relaxed = ask(fewer, of_fewer, lambda method: not method.reduces)
        if relaxed.evidence is None:
            answer = yield Proposal(relaxed.method, tried=relaxed.tried)
        else:
            # without rows of multiplier zero, so that files and proofs have only those that bind
            evidence = FewerRows(*(relaxed.evidence.of_charged_rows(program) or (fewer, relaxed.evidence, rows)))
            answer = yield Proposal(
                relaxed.method, relaxed.tasks, evidence, relaxed.solver, tried=relaxed.tried, note=relaxed.note
            )
        if answer is None or answer.ok or settings.clock.late or (complete and not relaxed.ok):
            return
        if k == 0:  # with all rows at once, if a method of ours takes them; adding rows comes first as most need few
            known = yield from _by_fast_methods(program, settings)
            if known is not None and known.ok:
                return
        # all rows at once if a program was not certified: more of those that are broken will not help
        every = not relaxed.ok or k + 1 >= FEW
        implying = _implying(program, every) if not complete and (every or program.term.is_linear) else None
        if implying is not None:
            complete, added = True, [dict.fromkeys(rows.tolist()) for rows in implying]
            continue
        if relaxed.evidence is None:
            return
        broken = conditions.broken_rows(program, answer.tasks, max(1, ROWS_AT_ONCE // n))
        n_added = sum(map(len, added))
        for of_block, (row, violation) in zip(added, broken, strict=True):
            of_block.update(dict.fromkeys(row[violation > PART * BLOCK_TOLERANCE].tolist()))
        if sum(map(len, added)) == n_added:
            return


def _by_fast_methods(
    program: Program, settings: Settings
) -> Generator[Proposal, JudgedPoint | None, JudgedPoint | None]:
    """The proposals of fast methods that are exact under all rows; returns the last answer."""
    answer: JudgedPoint | None = None
    for method in filter(is_fast, TABLE):
        if method.is_asked(settings) and method.applies(program, settings):
            check(f"the method {method.name}")
            proposals, answer = method.solve(program, settings), None
            while True:
                try:
                    proposal = proposals.send(answer)
                except StopIteration:
                    break
                answer = yield proposal
            if answer is not None and answer.ok:
                break
    return answer


def _implying(program: Program, every: bool) -> list[Indices] | None:
    """Rows of each block that imply all of its rows, or ``every`` row; None if they are unknown or too many."""
    n, out = program.instance.n_users, []
    for block in program.many_rows:
        rows = block.implying(program.instance, MOST_ROWS)
        if rows is None and not (every and n * n <= MOST_ROWS):
            return None
        out.append(np.flatnonzero(~np.eye(n, dtype=bool)) if rows is None else rows)
    return out
