"""The exact routes on one pool: from a program to a certified answer.

Users are asked in passes (`chunks`), the level or the prices are found by `waterfill` and `prices`, and the answer is
judged by `evidence`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.objectives import Leximin, MaxMin
from fairopt.errors import NotCertified
from fairopt.routes import certify, conflict
from fairopt.routes.chunks import Pool
from fairopt.routes.cone import Answer
from fairopt.routes.evidence import bottlenecks
from fairopt.routes.program import Program
from fairopt.routes.waterfill import Filling, fill

Float = NDArray[np.floating[Any]]


def fills(program: Program) -> bool:
    """Whether water-filling is exact: leximin or max-min on one pool with nothing but bounds on tasks.

    Parameters
    ----------
    program : Program
        What to solve.

    Returns
    -------
    bool
    """
    return isinstance(program.objective, (Leximin, MaxMin)) and program.single and not program.rest


def by_waterfill(program: Program) -> Answer:
    """Leximin or max-min by water-filling, with the bottleneck condition as its certificate.

    Parameters
    ----------
    program : Program
        For which `fills` holds.

    Returns
    -------
    Answer

    Raises
    ------
    Infeasible
        If the lower bounds do not fit.
    """
    objective = program.objective
    assert isinstance(objective, (Leximin, MaxMin))
    pool = Pool(program, objective.share)
    users = Filling(pool)
    filled = fill(users, pool.usable)
    if filled is None:
        conflict.explain(program)
        raise NotCertified("the lower bounds do not fit, though no conflict was found; loosen them a little")
    order = [event.resource for event in filled.events]
    found = bottlenecks(pool, users.tasks, order)
    worst = float(np.max(found.feasible.load / np.where(pool.usable > 0, pool.usable, np.inf), initial=0.0))
    if worst > 1.0 or found.feasible.violation > 0:  # by rounding: scaled down, and judged again
        np.multiply(users.tasks, (1.0 - 1e-15) / max(worst, 1.0), out=users.tasks)
        found = bottlenecks(pool, users.tasks, order)
    if isinstance(objective, MaxMin):
        gap = max(filled.first_level / max(found.lowest, 1e-300) - 1.0, 0.0)
    else:
        gap = found.gap(pool.usable)
    return Answer(users.tasks, gap, found.feasible.violation, "water-filling", filled.prices, value=found.lowest)
