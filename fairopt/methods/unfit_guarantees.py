"""By how much guarantees, or bases of a surplus, do not fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairopt.blocks.guarantees import TeamGuarantees, UserGuarantees, team_floors
from fairopt.blocks.teams import KeptBase
from fairopt.errors import Infeasible
from fairopt.formulation.program import Indices, Mask, Program
from fairopt.instance import Instance
from fairopt.methods.arrays import Float
from fairopt.runtime.lazy import optimize, sp
from fairopt.tolerances import NOISE, ROUNDING, TINY

USED = 1e-9  # of the largest price: a resource that limits what fits, or a guarantee that does not
NAMED = 5  # users and teams in a message


def refuse_unfit(program: Program) -> None:
    """Raise `Infeasible` if the guarantees and bases that a program keeps do not fit within capacities and limits.

    On one pool it says what the guarantees of users need of each resource, else which users and teams conflict, and the
    largest part of all that fits.
    """
    kept = [block for block in program.constraints if isinstance(block, (UserGuarantees, TeamGuarantees, KeptBase))]
    if not kept:
        return
    low, teams = np.zeros(program.instance.n_users), dict[str, Float]()
    for block in kept:
        bounds = block.bounds(program.instance)
        if bounds is None:
            teams = {team: floor.units for team, floor in team_floors(program.instance).items() if floor.units.any()}
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


def _refuse_on_servers(program: Program, low: Float, teams: Mapping[str, Float], what: str) -> None:
    """Raise `Infeasible` with the largest common part of lower bounds and floors that fits, and whose they are.

    By complementary slackness those in conflict are the ones whose rows have multipliers.
    """
    pairs, instance = program.pairs, program.instance
    floors = [(team, i, float(units[i])) for team, units in teams.items() for i in np.flatnonzero(units).tolist()]
    scale = np.where(program.most > 0, program.most, 1.0)[pairs.user]
    of_x = sp.diags_array(scale)
    some, limited = np.flatnonzero(low > 0), np.flatnonzero(np.isfinite(instance.task_limits))
    lower = [sp.diags_array(1.0 / low[some]) @ -pairs.totals[some]]
    for team, i, units in floors:
        mine = np.isin(pairs.user, instance.teams.names[team])
        demands = instance.per_server_demands[pairs.user, pairs.server, i]
        lower.append(sp.csr_array(np.where(mine, -demands / units, 0.0)[None, :]))
    held = sp.vstack(lower) @ of_x  # minus the part of each that is held
    limits, loads = pairs.totals[limited] @ of_x, sp.csr_array(pairs.loads) @ of_x
    rows = sp.vstack([loads, sp.diags_array(1.0 / instance.task_limits[limited]) @ limits, held])
    part = np.concatenate([np.zeros(rows.shape[0] - held.shape[0]), np.ones(held.shape[0])])
    found: Any = optimize.linprog(
        np.append(np.zeros(len(pairs)), -1.0),
        A_ub=sp.hstack([rows, sp.csr_array(part[:, None])]).tocsr(),
        b_ub=1.0 - part,
        bounds=[(0, None)] * len(pairs) + [(0, 1)],
        method="highs",
    )
    if found.x is None or found.x[-1] >= 1 - NOISE:
        return
    prices = -found.ineqlin.marginals[: loads.shape[0]].reshape(-1, instance.n_resources).sum(axis=0)
    scarce = [instance.resources[i] for i in np.flatnonzero(prices > USED * max(prices.max(), TINY))]
    because = f": there is too little {' and '.join(scarce)} where their tasks may run" if scarce else ""
    names = (what, *(f"the capacity of {resource}" for resource in scarce))
    part = -found.ineqlin.marginals[-held.shape[0] :]
    who = _in_conflict(instance, low, some, floors, part > USED * max(part.max(), TINY))
    raise Infeasible(f"{what} cannot be kept, only {found.x[-1]:.4g} times as much for {who}{because}", names)


def _in_conflict(
    instance: Instance, low: Float, users: Indices, floors: Sequence[tuple[str, int, float]], conflict: Mask
) -> str:
    """The users and teams whose guarantees conflict, with these."""
    of_users, by_team = [j for j, some in zip(users, conflict, strict=False) if some], dict[str, list[str]]()
    for (team, i, units), some in zip(floors, conflict[len(users) :], strict=True):
        if some:
            by_team.setdefault(team, []).append(f"{units:.6g} {instance.resources[i]}")
    listed = [f"team {team!r} ({' and '.join(units)})" for team, units in by_team.items()]
    listed += [f"user {instance.users[j]!r} ({low[j]:.6g} tasks)" for j in of_users]
    rest = [f"{len(listed) - NAMED} more"] if len(listed) > NAMED else []
    listed = listed[:NAMED] + rest
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)
