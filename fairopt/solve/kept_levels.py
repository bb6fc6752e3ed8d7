"""What later tiers, and improvements of an answer, keep of what was reached: values of objectives, and shares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairopt.blocks.algebra import Kept, KeptLevel, KeptShares
from fairopt.blocks.base import ByUser
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import AlphaFair, Objective
from fairopt.blocks.shares import Share
from fairopt.proof.gate import Answer
from fairopt.solve.form.program import Program

TIER_LOSS = 1e-7  # relative loss of an earlier tier's value that later tiers may cause
ALMOST_NONE, LEAST = 1e-2, 1e-10  # of the usual size of a user's tasks: below it units follow, down to


def keep_level(objective: Objective, point: Point) -> Constraint:
    """The constraint that keeps the value of a tier at a point in later tiers."""
    term = objective.term
    if term.is_order or term.is_curved:  # numbers are unique, and these rows linear
        return keep_shares(point, term.share, TIER_LOSS)
    if term.measure is not None and term.alpha is not None:
        objective = term.factor * AlphaFair(term.alpha, term.share)
    elif term.kind.in_logs:
        return Kept(objective, float(np.log(objective.value(point))) - TIER_LOSS * term.measure.emphasis)
    value = objective.value(point)
    return KeptLevel(objective, value - TIER_LOSS * objective.drop(point))


def keep_shares(point: Point, share: Share, loss: float) -> KeptShares:
    """The constraint that every user or team keeps its share less a relative loss."""
    held = np.maximum(point.share(share) * (1 - loss), 0.0)
    return KeptShares(ByUser(dict(zip(share._names(point.instance), held.tolist(), strict=True))), share)


def narrow(program: Program, earlier: Iterable[tuple[Program, Answer]]) -> None:
    """Measure the tasks of users to whom earlier totals leave almost none in units of what they leave.

    At prices p of a total with slopes g all tasks that keep its level have ``sum_j (p'd_j - g_j) x_j <= p'C - level``.
    """
    pairs, most = program.pairs, program.most[program.pairs.user]
    kept = [block for block in program.rest if type(block) is KeptLevel]
    for block, prices in ((b, a.prices) for b in kept for p, a in earlier if p.objective == b.objective):
        rows = program.rows_of(block)
        if not rows or prices is None or len(prices) != pairs.loads.shape[0]:
            continue
        table, right = rows[0].rows.in_units(np.ones(len(pairs)))
        if len(right) != 1 or not right[0]:
            continue
        slopes = table.toarray()[0] * (block.level / right[0])
        reduced = np.asarray(pairs.loads.T @ prices) - slopes
        slack = float(prices @ program.usable_rows - block.level + np.maximum(-reduced, 0.0) @ most)
        reach = np.full(len(reduced), np.inf)
        np.divide(max(slack, 0.0), reduced, out=reach, where=reduced > 0)
        of_users = np.zeros(program.instance.n_users)
        np.maximum.at(of_users, pairs.user, reach)
        narrowed = np.maximum(np.maximum(of_users, LEAST * program.size), program.low)
        program.units = np.where(of_users < ALMOST_NONE * program.units, narrowed, program.units)
