"""Guarantees reduced until they fit together: in proportion, or in an order (`Instance.fit_guarantees`).

Rows ``a_k x >= b_k`` of users and teams are scaled to parts t_k of them. All of a group rise together, and at

    max t <= 1   under   a_k x >= t b_k of those that rise,   a_k x >= t_k b_k of those that stopped,
                         capacities and limits,

those with a positive multiplier cannot rise further: they stay at t, and the others go on. This is max-min fairness of
the parts, a program for each level; on one pool with users only it is water-filling (`_parts_on_pool`). With an order
each name is a group of its own. The largest common factor alone would cut teams that have nothing to do with the
conflict.

Floats: a part is within a solver's 1e-9 of what fits. Parts that near to 1 are taken for 1, since nobody should lose
1e-9 of a guarantee; if then something does not fit, they are taken as found, and last with a margin of 1e-9
(`fitted_guarantees`). Amounts are rounded down to `DIGITS`, so that the numbers written are short, and fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.objectives import Total
from fairopt.blocks.rows import Rows
from fairopt.blocks.shares import Tasks
from fairopt.errors import Infeasible, InvalidBlock, NotCertified, nearest
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE, ROUNDING
from fairopt.solve.form.program import Program
from fairopt.solve.unfit_guarantees import USED, Lowest, highest_part, lowest, refuse_unfit

DIGITS = 12  # of reduced amounts, rounded down
NAMED = 10  # reduced guarantees in a note


class _Floor(NamedTuple):
    """Whose lower bound a row is: of a team in units of a resource, or of a user in tasks (``resource`` None)."""

    name: str
    resource: str | None


def fitted_guarantees(instance: Instance, order: Iterable[str] | None = None) -> Instance:
    """The instance with the largest guarantees that fit; see `Instance.fit_guarantees`."""
    chosen = _checked_order(instance, order)
    program = Program(instance.derived.as_given, Total(Tasks()), ())
    if not instance.derived.has_guarantees or program.empty or _fits(program):
        return instance
    low = lowest(program)
    floors, rows = _floors(program, low)
    groups = list(_groups(instance, floors, chosen))
    parts = _parts_on_pool(program, low, groups) if low.of_pool(program) else _parts(program, low, rows, groups)
    # 147 of 200 drawn instances did not fit, and did after the first
    for near, margin in ((NOISE, 0.0), (0.0, 0.0), (0.0, NOISE)):
        made = _reduced(instance, floors, rows, np.where(parts >= 1 - near, 1.0, parts * (1 - margin)), chosen)
        if _fits(Program(made.derived.as_given, Total(Tasks()), ())):
            return made
    raise NotCertified("no reduced guarantees are known to fit: the numbers of this instance differ too much")


def _checked_order(instance: Instance, order: Iterable[str] | None) -> tuple[str, ...]:
    """The names in an order; `InvalidBlock` for a text, and for unknown names."""
    if isinstance(order, str):
        raise InvalidBlock(f"order is {order!r}; give a list of users and teams, such as [{order!r}]")
    chosen, known = tuple(order or ()), {*instance.teams.names, *instance.users}
    for name in chosen:
        if name not in known:
            raise InvalidBlock(f"order names {name!r}, which is no user or team; {nearest(str(name), sorted(known))}")
    return chosen


def _fits(program: Program) -> bool:
    """Whether the guarantees of an instance fit together."""
    try:
        refuse_unfit(program)
    except Infeasible:
        return False
    return True


def _floors(program: Program, low: Lowest) -> tuple[list[_Floor], Rows]:
    """The guarantees of users and teams that are not 0, and their rows ``-units @ x <= -guarantee``."""
    floors = [_Floor(program.instance.users[j], None) for j in low.users.tolist()]
    floors += [_Floor(*label) for one in low.floors[1:] for label in one.labels or ()]
    per_task = sp.vstack([one.per_task for one in low.floors], format="csr")
    return floors, Rows(per_task, np.concatenate([one.right for one in low.floors]))


def _groups(instance: Instance, floors: Sequence[_Floor], order: Sequence[str]) -> Iterator[Indices]:
    """The rows that rise together: those of each name in an order with its members, then all others."""
    left = list(range(len(floors)))
    for name in order:
        mine = {name, *(instance.users[j] for j in instance.teams.names.get(name, ()))}
        yield np.array([k for k in left if floors[k].name in mine], dtype=np.intp)
        left = [k for k in left if floors[k].name not in mine]
    yield np.array(left, dtype=np.intp)


def _parts_on_pool(program: Program, low: Lowest, groups: Sequence[Indices]) -> Float:
    """The part of each guarantee of users of one pool that is kept: all of a group rise until a resource is full."""
    whole = program.whole_capacities[0]
    units = program.instance.per_server_demands[low.users, 0] * low.low[low.users, None]
    loads = units / np.where(whole > 0, whole, 1.0)
    parts, left = np.zeros(len(loads)), np.ones(loads.shape[1])
    for group in groups:
        rising, level = group, 0.0
        while len(rising):
            use = loads[rising].sum(axis=0)
            room = np.divide(np.maximum(left, 0.0), use, out=np.full(len(use), np.inf), where=use > 0)
            step = min(float(room.min()), 1.0 - level)
            level, left = level + step, left - step * use
            parts[rising] = level
            full = room <= step + ROUNDING
            left[full] = 0.0  # and not what rounding leaves, which a later group would be given
            rising = rising[~(loads[rising][:, full] > 0).any(axis=1)] if level < 1 else rising[:0]
    return np.where(parts > NOISE, parts, 0.0)


def _parts(program: Program, low: Lowest, rows: Rows, groups: Sequence[Indices]) -> Float:
    """The part of each guarantee that is kept, at most 1.

    In each group all rise by one factor. Where it can rise no further, those that stop it, by complementary slackness
    the rows with positive multipliers, stay there, and the others rise on.
    """
    parts, need = np.zeros(len(rows)), -rows.right
    for k, group in enumerate(groups):
        rising = group
        while len(rising):
            tell("fitting guarantees", k, len(groups))
            kept = np.flatnonzero(parts > 0)
            before = Rows(rows.per_task[kept], rows.right[kept] * parts[kept])
            highest = highest_part(program, [*low.within, before], [Rows(rows.per_task[rising], rows.right[rising])])
            if highest is None:
                raise NotCertified("no solver found the largest guarantees that fit")
            part = min(float(highest.at[-1]), 1.0)
            part = part if part > NOISE else 0.0  # a solver's 1e-10 of a guarantee is none
            # in parts of what all are worth, as guarantees are in different units
            worth = highest.multipliers[-1] * need[rising]
            stopped = worth > USED * worth.max(initial=0.0)
            stopped |= part >= 1 - ROUNDING or not stopped.any()  # all, if the solver gave no multipliers: this ends
            parts[rising[stopped]] = part
            rising = rising[~stopped]
    return parts


def _reduced(instance: Instance, floors: Sequence[_Floor], rows: Rows, parts: Float, order: Sequence[str]) -> Instance:
    """The instance with parts of its guarantees, and a note that says which were reduced."""
    changes, said = dict[str, Any](), dict[str, list[str]]()
    for floor, need, part in zip(floors, (-rows.right).tolist(), parts.tolist(), strict=True):
        if part == 1:
            continue
        name, resource = floor
        amount = _rounded_down(need * part)
        if resource is None:
            changes[name] = amount
            before, what, who = float(instance.guarantees[instance.user_index(name)]), "tasks", f"user {name!r}"
        else:
            changes.setdefault(name, {})[resource] = amount
            before, what, who = instance.team_guarantees[name][resource], resource, f"team {name!r}"
        said.setdefault(who, []).append(f"from {before:.6g} to {amount:.6g} {what}")
    if not changes:
        return instance
    how = f"in the order {', '.join(order)}" if order else "in proportion"
    some = [f"{who} {' and '.join(how)}" for who, how in said.items()]
    more = [f"{len(some) - NAMED} more"] if len(some) > NAMED else []
    note = f"guarantees that did not fit together were reduced {how}: {'; '.join([*some[:NAMED], *more])}"
    return instance.replace(guarantees=changes, notes=[*instance.notes, note])


def _rounded_down(amount: float) -> float:
    """An amount rounded down to so many digits, but for noise above it."""
    if amount <= 0:
        return 0.0
    unit = 10.0 ** (DIGITS - 1 - int(np.floor(np.log10(amount))))  # of the last digit that is kept
    return float(np.floor(amount * unit * (1 + ROUNDING / 10)) / unit)
