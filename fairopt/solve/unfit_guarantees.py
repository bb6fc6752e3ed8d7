"""By how much guarantees, or bases of a surplus, do not fit together.

    max t <= 1   under   A x <= capacities and limits,   a_k x >= t b_k   for all floors k, of users and of teams.

They fit if t = 1. If not, multipliers say why: those of rows A which resource or limit is scarce, and those of floors
who competes for it (complementary slackness); the message names them, and the part t that would fit. On one pool with
users only no program is needed: the floors are sums. Before a policy is solved, since a cone solver's *infeasible*
names nobody, and costs a solve.

Floats: t above 1 - 1e-9 fits, as HiGHS leaves that much; on a pool loads up to 1 + 1e-12 do. Unknowns are relative to
what each user could run, and each floor to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairopt.blocks.guarantees import KeptLimits, TeamGuarantees, UserGuarantees, team_floors
from fairopt.blocks.objectives import Total
from fairopt.blocks.rows import Largest, Rows, largest
from fairopt.blocks.shares import Tasks
from fairopt.blocks.teams import KeptBase
from fairopt.errors import Infeasible
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import NOISE, ROUNDING, TINY
from fairopt.solve.form.program import Program

USED = 1e-9  # of the largest price: a resource that limits what fits, or a guarantee that does not
NAMED = 5  # users and teams in a message
FIT = "lower some, or reduce them until they fit: instance.fit_guarantees(), or --fit-guarantees"


class Lowest(NamedTuple):
    """The lower bounds of a program, and what they must fit ``within``: capacities, task limits, and limits.

    ``low`` are those of all users, of which ``users`` have one; ``floors`` are rows of these and of teams.
    """

    low: Float
    users: Indices
    floors: list[Rows]
    within: list[Rows]
    what: str

    def of_pool(self, program: Program) -> bool:
        """Whether they are guarantees of users of one pool without limits, of which sums say whether they fit."""
        return program.single and len(self.floors) == 1 and len(self.within) == 2


def lowest(program: Program) -> Lowest:
    """The guarantees and bases that a program keeps, and the capacities and limits."""
    pairs, instance = program.pairs, program.instance
    kept = [block for block in program.constraints if isinstance(block, (UserGuarantees, TeamGuarantees, KeptBase))]
    low, teams = np.zeros(instance.n_users), list[Rows]()
    for block in kept:
        bounds = block.bounds(instance)
        if bounds is None:
            teams += [one.rows for one in program.rows_of(block) or ()]
        else:
            low = np.maximum(low, bounds[0])
    users, limited = np.flatnonzero(low > 0), np.flatnonzero(np.isfinite(instance.task_limits))
    within = [Rows(pairs.loads, 1.0), Rows(pairs.totals[limited], instance.task_limits[limited])]
    for limits in program.constraints:
        if isinstance(limits, KeptLimits):
            within += [one.rows for one in program.rows_of(limits) or ()]
    what = " and ".join(dict.fromkeys(str(block) for block in kept))  # each once, though two may print alike
    return Lowest(low, users, [Rows(-pairs.totals[users], -low[users]), *teams], within, what)


def highest_part(program: Program, within: Sequence[Rows], floors: Sequence[Rows]) -> Largest | None:
    """The largest part, at most 1, of all floors at once that fits within rows: the last unknown."""
    n = len(program.pairs)
    # a program of its own, since floors of users are bounds in others: (a_k, -b_k) (x, t) >= 0, each in units of b_k
    scale = np.where(program.most > 0, program.most, 1.0)[program.pairs.user]
    parts = [Rows(sp.hstack([one.per_task, sp.csr_array(-one.right[:, None])]), unit=-one.right) for one in floors]
    return largest(np.append(np.zeros(n), 1.0), [*within, *parts], scale, high=np.append(np.full(n, np.inf), 1.0))


def refuse_closed(instance: Instance) -> None:
    """Raise `Infeasible` if guarantees do not fit beside limits of 0, in the words for limits of other amounts."""
    if instance._given and instance.derived.has_guarantees:
        refuse_unfit(Program(instance.derived.as_given, Total(Tasks()), ()))


def refuse_unfit(program: Program) -> None:
    """Raise `Infeasible` if the guarantees and bases that a program keeps do not fit within capacities and limits.

    On one pool it says what the guarantees of users need of each resource, else which users and teams conflict, and the
    largest part of all that fits.
    """
    if not any(isinstance(block, (UserGuarantees, TeamGuarantees, KeptBase)) for block in program.constraints):
        return
    low = lowest(program)
    if low.of_pool(program):  # sums are exact to 1e-12, and name each resource that is short
        _refuse_on_pool(program, low)
    else:
        _refuse_on_servers(program, low)


def _refuse_on_pool(program: Program, found: Lowest) -> None:
    """Raise `Infeasible` with what lower bounds need of the resources of one pool that they exceed."""
    instance, what = program.instance, found.what
    needed, whole = program.rows.load(found.low) * program.whole_capacities[0], program.whole_capacities[0]  # in units
    over = np.flatnonzero(needed > whole * (1 + ROUNDING))
    if not len(over):
        return
    parts = [
        f"{needed[i]:.6g} {instance.resources[i]} of {whole[i]:.6g}, {needed[i] - whole[i]:.4g} more than there is"
        for i in over
    ]
    names = (what, *(f"the capacity of {instance.resources[i]}" for i in over))
    raise Infeasible(f"{what} cannot be kept: that takes {' and '.join(parts)}{_fix(instance)}", names)


def _refuse_on_servers(program: Program, given: Lowest) -> None:
    """Raise `Infeasible` with the largest common part of lower bounds and floors that fits, and whose they are."""
    instance, what = program.instance, given.what
    highest = highest_part(program, given.within, given.floors)
    # no solver found a part, or all fits: then the program itself will say
    if highest is None or (part := max(0.0, float(highest.at[-1]))) >= 1 - NOISE:  # not -0
        return
    prices = highest.multipliers[0].reshape(-1, instance.n_resources).sum(axis=0)  # by resource, over all servers
    scarce = [instance.resources[i] for i in np.flatnonzero(prices > USED * max(prices.max(), TINY))]
    limits = [
        str(one.labels[k])
        for one, y in zip(given.within[2:], highest.multipliers[2:], strict=False)
        if one.labels is not None
        for k in np.flatnonzero(y > USED * max(y.max(), TINY)).tolist()
    ]
    reasons = [f"there is too little {' and '.join(scarce)} where their tasks may run"] * bool(scarce)
    reasons += [f"limits allow no more ({_listed(limits)})"] * bool(limits)
    names = (what, *(f"the capacity of {resource}" for resource in scarce), *limits)
    # multipliers are per unit of each floor: times the floor they can be compared between users and teams
    worth = [y * -one.right for y, one in zip(highest.multipliers[len(given.within) :], given.floors, strict=True)]
    who, fit = _in_conflict(instance, given.low, worth, scarce, part)
    because = "".join(f"{mark} {reason}" for mark, reason in zip((":", ", and"), reasons, strict=False))
    raise Infeasible(
        f"{what} cannot be kept, only {part:.4g} times as much for {who}{because}; {fit} would fit{_fix(instance)}",
        names,
    )


def _fix(instance: Instance) -> str:
    """How guarantees can be made to fit."""
    return f"; {FIT}" if instance.derived.has_guarantees else ""


def _in_conflict(
    instance: Instance, low: Float, worth: Sequence[Float], scarce: Sequence[str], part: float
) -> tuple[str, str]:
    """The users and teams whose guarantees conflict, with these, and the parts of these that fit.

    By complementary slackness it is those whose lower bounds, of users and then of teams, are ``worth`` something. Of a
    team with a guarantee of what is ``scarce`` that is named.
    """
    least = USED * max(float(some.max(initial=0.0)) for some in worth)  # less is noise of the program's multipliers
    by_team: dict[str, list[tuple[float, str]]] = {}
    if len(worth) > 1:
        floors = [(team, floor.units) for team, floor in team_floors(instance).items()]
        held = [(team, i, float(units[i])) for team, units in floors for i in np.flatnonzero(units > 0).tolist()]
        for (team, i, units), value in zip(held, worth[1], strict=True):
            if value > least:
                by_team.setdefault(team, []).append((units, instance.resources[i]))
        for team, held_of in by_team.items():
            of_scarce = [(units, instance.resources[i]) for name, i, units in held if name == team]
            by_team[team] = [one for one in of_scarce if one[1] in scarce] or held_of
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
