"""Capacity that a solver left unused, distributed so that no share falls (Proposition 7.11)."""

from __future__ import annotations

from dataclasses import replace

from fairopt.blocks.algebra import KeptShares
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import Tasks
from fairopt.errors import Infeasible
from fairopt.proof import gate
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.cone.solve import solve_number
from fairopt.solve.dispatch import best
from fairopt.solve.form.program import Program
from fairopt.solve.pool.waterfilling import fill_leftover
from fairopt.solve.settings import Settings

# At alpha = 5 with three users, certified answers of three solvers gave one of them 0.54 to 0.89 tasks where 2 fit; at
# alpha = 2 none of 25 random instances of 6 users on 3 servers was dominated.
STEEP = 2  # alpha above which large shares hardly count in the objective


def distribute_leftover(program: Program, answer: JudgedPoint, settings: Settings) -> JudgedPoint:
    """Distribute the capacity that a solver left unused (Proposition 7.11); the gate judges the new point."""
    objective = program.objective
    shares = tuple(dict.fromkeys(objective.share_blocks()))
    if not shares or not objective.is_known or not isinstance(answer.evidence, Solved):
        return answer
    tasks = answer.tasks
    if program.single and not program.rest:
        levelled = program.of_users and shares[0].coefficients(program.instance).all()
        share = shares[0] if levelled else Tasks()
        more = fill_leftover(program, share, tasks) if _fits_more(program, tasks) else None
    elif max((t.measure.beta if t.measure else t.alpha or 0.0 for t in objective.terms()), default=0.0) > STEEP:
        kept = [KeptShares.at(program.point(tasks), share, 1e-12) for share in shares]
        above = Program(program.given, Total(shares[0]), (*program.constraints, *kept))
        try:
            second = best(above, solve_number(above, settings))
        except Infeasible:  # within a solver's tolerance, nothing more fits
            return answer
        more = second.tasks if second.ok else None
    else:
        more = None
    if more is None:
        return answer
    after = gate.judge(program, Proposal(answer.method, more, answer.evidence, answer.solver))
    return replace(after, tried=answer.tried) if after.ok else answer


def _fits_more(program: Program, tasks: Float) -> bool:
    """Whether a user on the pool is below its limit and no resource that it needs is full."""
    loads = program.pairs.loads
    scarce = program.usable - loads @ tasks <= NOISE * program.usable
    return bool(((tasks < program.high * (1 - NOISE)) & ~(loads[scarce] > 0).any(axis=0)).any())
