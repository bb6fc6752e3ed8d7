"""By how much guarantees, or bases of a surplus, do not fit together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairopt.blocks.guarantees import TeamGuarantees, UserGuarantees, team_floors
from fairopt.blocks.largest import largest
from fairopt.blocks.rows import Rows
from fairopt.blocks.teams import KeptBase
from fairopt.errors import Infeasible
from fairopt.formulation.program import Program
from fairopt.instance import Instance
from fairopt.methods.arrays import Float
from fairopt.runtime.lazy import sp
from fairopt.tolerances import NOISE, ROUNDING

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
    """Raise `Infeasible` with the largest common part of lower bounds and floors that fits, and whose they are."""
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
    worth = [y * -one.right for y, one in zip(found.multipliers[2:], floors, strict=True)]
    who, fit = _in_conflict(instance, low, worth, scarce, float(part))
    fits = f"; {fit} would fit"
    raise Infeasible(f"{what} cannot be kept, only {part:.4g} times as much for {who}{because}{fits}", names)


def _in_conflict(
    instance: Instance, low: Float, worth: Sequence[Float], scarce: Sequence[str], part: float
) -> tuple[str, str]:
    """The users and teams whose guarantees conflict, with these, and the parts of these that fit.

    By complementary slackness it is those whose lower bounds, of users and then of teams, are ``worth`` something. Of a
    team with a guarantee of what is ``scarce`` that is named.
    """
    least = USED * max(float(some.max(initial=0.0)) for some in worth)
    by_team: dict[str, list[tuple[float, str]]] = {}
    if len(worth) > 1:
        floors = [(team, floor.units) for team, floor in team_floors(instance).items()]
        held = [(team, i, float(units[i])) for team, units in floors for i in np.flatnonzero(units > 0).tolist()]
        for (team, i, units), value in zip(held, worth[1], strict=True):
            if value > least:
                by_team.setdefault(team, []).append((units, instance.resources[i]))
        for team, found in by_team.items():
            of_scarce = [(units, instance.resources[i]) for name, i, units in held if name == team]
            by_team[team] = [one for one in of_scarce if one[1] in scarce] or found
    of = [(f"team {team!r}", amounts) for team, amounts in by_team.items()]
    users = np.flatnonzero(low > 0)[worth[0] > least].tolist()
    of += [(f"user {instance.users[j]!r}", [(float(low[j]), "tasks")]) for j in users]
    who = [f"{name} ({' and '.join(f'{units:.6g} {what}' for units, what in amounts)})" for name, amounts in of]
    fit = [f"{part * units:.4g} {what}" for _, amounts in of for units, what in amounts]
    return _listed(who), _listed(fit)


def _listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    some = names[:NAMED] + ([f"{len(names) - NAMED} more"] if len(names) > NAMED else [])
    return " and ".join([", ".join(some[:-1]), some[-1]] if len(some) > 1 else some)
