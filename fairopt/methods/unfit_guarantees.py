"""By how much guarantees, or bases of a surplus, do not fit together."""

from __future__ import annotations

import numpy as np

from fairopt.blocks.guarantees import TeamGuarantees, UserGuarantees
from fairopt.blocks.largest import largest
from fairopt.blocks.rows import Rows
from fairopt.blocks.teams import KeptBase
from fairopt.errors import Infeasible
from fairopt.formulation.program import Program
from fairopt.methods.arrays import Float
from fairopt.runtime.lazy import sp
from fairopt.tolerances import NOISE, ROUNDING

USED = 1e-9  # of the largest price: a resource that limits what fits


def refuse_unfit(program: Program) -> None:
    """Raise `Infeasible` if the guarantees and bases that a program keeps do not fit within capacities and limits.

    On one pool it says what the guarantees of users need of each resource, else the largest part of all that fits.
    """
    kept = [block for block in program.constraints if isinstance(block, (UserGuarantees, TeamGuarantees, KeptBase))]
    if not kept:
        return
    low, teams = np.zeros(program.instance.n_users), list[Rows]()
    for block in kept:
        bounds = block.bounds(program.instance)
        if bounds is None:
            teams += [one.rows for one in program.rows_of(block) or ()]
        else:
            low = np.maximum(low, bounds[0])
    what = " and ".join(dict.fromkeys(str(block) for block in kept))
    if program.single and not teams:
        _refuse_on_pool(program, low, what)
    else:
        _refuse_on_servers(program, low, teams, what)


def _refuse_on_pool(program: Program, low: Float, what: str) -> None:
    """Raise `Infeasible` with what lower bounds need of the resources of one pool that they exceed."""
    instance = program.instance
    needed, whole = program.rows.load(low) * program.whole_capacities[0], program.whole_capacities[0]
    over = np.flatnonzero(needed > whole * (1 + ROUNDING))
    if not len(over):
        return
    parts = [
        f"{needed[i]:.6g} {instance.resources[i]} of {whole[i]:.6g}, {needed[i] - whole[i]:.4g} more than there is"
        for i in over
    ]
    names = (what, *(f"the capacity of {instance.resources[i]}" for i in over))
    raise Infeasible(f"{what} cannot be kept: that takes {' and '.join(parts)}", names)


def _refuse_on_servers(program: Program, low: Float, teams: list[Rows], what: str) -> None:
    """Raise `Infeasible` with the largest common part of lower bounds and floors of teams that fits."""
    pairs, instance = program.pairs, program.instance
    scale = np.where(program.most > 0, program.most, 1.0)[pairs.user]
    some, limited = np.flatnonzero(low > 0), np.flatnonzero(np.isfinite(instance.task_limits))
    floors = [Rows(-pairs.totals[some], -low[some]), *teams]
    rows = [
        Rows(pairs.loads, 1.0),
        Rows(pairs.totals[limited], instance.task_limits[limited]),
        *(Rows(sp.hstack([one.per_task, sp.csr_array(-one.right[:, None])]), unit=-one.right) for one in floors),
    ]
    found = largest(np.append(np.zeros(len(pairs)), 1.0), rows, scale, high=np.append(np.full(len(pairs), np.inf), 1.0))
    if found is None or (part := found.at[-1]) >= 1 - NOISE:
        return
    prices = found.multipliers[0].reshape(-1, instance.n_resources).sum(axis=0)
    scarce = [instance.resources[i] for i in np.flatnonzero(prices > USED * max(prices.max(), 1e-300))]
    because = f": there is too little {' and '.join(scarce)} where their tasks may run" if scarce else ""
    names = (what, *(f"the capacity of {resource}" for resource in scarce))
    raise Infeasible(f"{what} cannot be kept, only {part:.4g} times as much{because}", names)
