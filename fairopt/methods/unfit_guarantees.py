"""By how much guarantees, or bases of a surplus, do not fit together."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.blocks.guarantees import TeamGuarantees, UserGuarantees
from fairopt.blocks.rows import Rows
from fairopt.blocks.teams import KeptBase
from fairopt.errors import Infeasible
from fairopt.formulation.program import Program
from fairopt.methods.arrays import Float
from fairopt.runtime.lazy import optimize, sp
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
    of_x = sp.diags_array(scale)
    some, limited = np.flatnonzero(low > 0), np.flatnonzero(np.isfinite(instance.task_limits))
    lower = [sp.diags_array(1.0 / low[some]) @ -pairs.totals[some]]
    lower += [sp.diags_array(1.0 / -one.right) @ one.per_task for one in teams]
    floors = sp.vstack(lower) @ of_x  # minus the part of each that is held
    limits, loads = pairs.totals[limited] @ of_x, sp.csr_array(pairs.loads) @ of_x
    rows = sp.vstack([loads, sp.diags_array(1.0 / instance.task_limits[limited]) @ limits, floors])
    part = np.concatenate([np.zeros(rows.shape[0] - floors.shape[0]), np.ones(floors.shape[0])])
    right = np.concatenate([np.ones(rows.shape[0] - floors.shape[0]), np.zeros(floors.shape[0])])
    found: Any = optimize.linprog(
        np.append(np.zeros(len(pairs)), -1.0),
        A_ub=sp.hstack([rows, sp.csr_array(part[:, None])]).tocsr(),
        b_ub=right,
        bounds=[(0, None)] * len(pairs) + [(0, 1)],
        method="highs",
    )
    if found.x is None or found.x[-1] >= 1 - NOISE:
        return
    prices = -found.ineqlin.marginals[: loads.shape[0]].reshape(-1, instance.n_resources).sum(axis=0)
    scarce = [instance.resources[i] for i in np.flatnonzero(prices > USED * max(prices.max(), 1e-300))]
    because = f": there is too little {' and '.join(scarce)} where their tasks may run" if scarce else ""
    names = (what, *(f"the capacity of {resource}" for resource in scarce))
    raise Infeasible(f"{what} cannot be kept, only {found.x[-1]:.4g} times as much{because}", names)
