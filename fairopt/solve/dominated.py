"""Whether an optimum of a measure of fairness and efficiency is Pareto-dominated, as a note of its certificate.

With little emphasis on efficiency the best measure may leave capacity unused, as more for one user is less even
(Proposition 3.9, docs/methods/objectives.md). That is no fault of the answer, but users should know. Three questions,
of which the first that decides is the last: what is left of capacities, for one pool exact; what the evidence's prices
allow each user beside the others, ``(p'C - sum_j v_j x_j) / v_j``; and else the program

    max sum_j s_j   under   s_j >= s*_j (1 - 1e-9) for all j and all constraints.

Gains below `DOMINATED` are not told: an answer within the tolerated gap may leave as much.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairopt.blocks.algebra import KeptShares
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import Share, Tasks
from fairopt.errors import Infeasible
from fairopt.proof.evidence.tangents import Tangents
from fairopt.proof.feasibility import room_left
from fairopt.proof.gate import JudgedPoint
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.dispatch import ask
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings, of_other_programs

DOMINATED = 1e-4  # of a user's tasks: an answer within the tolerated gap may leave less than this unused


def note_if_dominated(program: Program, answer: JudgedPoint, settings: Settings) -> JudgedPoint:
    """The answer, with a note if a user could run more tasks while no other runs fewer."""
    if not isinstance(answer.evidence, Tangents):
        return answer
    held = program.pairs.sum(answer.tasks)
    unit = np.maximum(held, DOMINATED * program.size)
    could = held if program.rest else held + room_left(program, answer.tasks)
    if (program.rest or not program.single) and (could - held <= DOMINATED * unit).all():
        rise = answer.evidence.most_rise(program, answer.tasks)
        if (rise <= DOMINATED * unit).all():
            return answer
        share: Share = program.term.share
        if share.coefficients(program.instance).ndim == 2:  # equal shares may be different numbers of tasks
            share = Tasks()
        kept = KeptShares.at(program.point(answer.tasks), share, NOISE)
        above = Program(program.given, Total(share), (*program.constraints, kept))
        try:
            more = ask(above, of_other_programs(settings))
        except Infeasible:  # within a solver's tolerance, nothing more fits
            return answer
        if not more.ok:
            return replace(answer, note="whether the answer is Pareto-dominated is not known")
        could = program.pairs.sum(more.tasks)
    gain = (could - held) / unit
    user = int(np.argmax(gain))
    if gain[user] <= DOMINATED:
        return answer
    label = program.instance.users[user]
    note = f"user {label!r} could run {could[user]:.6g} tasks, not {held[user]:.6g}, while no other user runs fewer"
    return replace(answer, note=f"Pareto-dominated, as optima with little emphasis on efficiency can be: {note}")
