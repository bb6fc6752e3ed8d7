"""An irreducible set of conflicting constraints, by name, and the message of `Infeasible` (Proposition 7.9).

Groups of constraints G_1 .. G_n have no common point. A deletion filter goes through them and drops each without which
the rest has none either; what is left is infeasible, and feasible without any one of its groups: n feasibility problems
(Chinneck and Dravnieks 1991). Which of several conflicts is found depends on the order, capacities first, so that the
policy's own blocks stay if they can. Then the rows inside each group are filtered, and one bound is relaxed,

    min t >= 0   under   row + t >= bound,  all other conditions,

for what could be had instead. Solvers say *infeasible* of rows that hold far from 0, and a dual ray names more rows
than conflict: that a subset has no point is proved by a bound above 0 on the minimum of 0
(`fairopt.proof.conic.cannot_hold`), but for whole tasks, where a solver says so. What is not proved counts as feasible;
then no conflict is named, and the caller goes on to `NotCertified`.

Rows are in the units that users wrote, for messages; bounds are relative to what a user could run alone, so that the
factor is near 1. The domain of a user-defined objective, which CVXPY knows for logarithms and roots, counts as a
constraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from fairopt.blocks.algebra import AtLeast, expression_of
from fairopt.blocks.base import is_ours
from fairopt.blocks.constraints import (
    UNNAMED,
    Constraint,
    MinShare,
    MinTasks,
    SharingIncentive,
    conditions_in_words,
)
from fairopt.blocks.objectives import Objective
from fairopt.errors import Infeasible
from fairopt.proof.conic import cannot_hold, conic_excess
from fairopt.proof.gradients import gradient_of
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import cp
from fairopt.runtime.progress import tell
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import values_kept
from fairopt.solve.form.program import ConeModel, Program, checked_conditions, unique
from fairopt.solve.unfit_guarantees import refuse_unfit

Name = TypeVar("Name")

PART = 1e-3  # of the largest multiplier: users with smaller ones are not named; interior points leave some on all


class _Group(NamedTuple):
    """Conditions by name that enter a conflict together, and their block, if any."""

    block: Constraint | Objective | None
    conditions: dict[str, cp.Constraint]
    of_domain: bool = False


def explain(program: Program, cone: ConeModel | None = None) -> None:
    """Raise `Infeasible` with an irreducible conflict; return if the constraints are feasible after all.

    Constraints that a method added hold at a known point and are left out. A ``cone`` is given for whole tasks only,
    whose divisible relaxation is feasible.
    """
    if cone is None:
        refuse_unfit(program)
    # whole tasks come with a model of their own, of which the divisible one is feasible
    whole, cone = cone is not None, cone or ConeModel(program)
    groups = _groups(program, cone)
    names = tuple(irreducible({name: list(group.conditions.values()) for name, group in groups.items()}))
    if not names:
        return
    rows = _rows(groups, names)
    blocks = [groups[name].block for name in names]
    parts = [
        name if block is None else conditions_in_words(block, rows[name], name)
        for name, block in zip(names, blocks, strict=True)
    ]
    if len(parts) == 1:
        sentence = f"{parts[0]} cannot hold" + (" together" if len(rows[names[0]]) > 1 else "")
    else:
        sentence = f"{', '.join(parts[:-1])} and {parts[-1]} cannot hold together"
    if whole:
        raise Infeasible(f"{sentence} in whole tasks; in divisible tasks they can", names)
    raise Infeasible(sentence + _what_is_possible(program, cone, groups, names, rows), names)


def most_left(program: Program) -> float:
    """A bound on the total of all users' tasks under the constraints, relative to typical tasks."""
    cone = ConeModel(program)
    top = program.most[program.pairs.user] / cone.scale
    return conic_excess(cp.sum(cone.unknowns), cone.all_constraints, cone.unknowns, top, 0.0)[0]


def _groups(program: Program, cone: ConeModel) -> dict[str, _Group]:
    """All conditions of a program: capacities by resource, task limits, constraints and domains."""
    instance, model = program.instance, cone.model
    groups: dict[str, _Group] = {}
    limited = np.flatnonzero(np.isfinite(instance.task_limits))
    for i, resource in enumerate(instance.resources):
        # a resource on all servers is one group: which server is short of it depends on where tasks are put
        rows = np.arange(instance.n_servers) * instance.n_resources + i
        rows = rows[np.isin(rows, program.capacity_rows)]
        if len(rows):
            groups[f"the capacity of {resource}"] = _Group(None, _numbered(cone.within_capacity(rows)))
    if len(limited):
        unit = 1.0 / instance.task_limits[limited]
        groups["the task limits"] = _Group(None, {"": cp.multiply(model.tasks[limited], unit) <= 1})
    for constraint in program.constraints:
        if constraint.added:  # what a method keeps of an earlier answer holds there, and is no word of the user's
            continue
        before = len(model.required)
        # ours are written in natural units by CVXPY; a user's rows as rows, since its expressions may be anything
        known = None if is_ours(constraint) else program.rows_of(constraint)
        if known is None:
            view = model if is_ours(constraint) else cone.model_as_given()
            conditions = checked_conditions(constraint, view) | _required(cone, before)
        else:  # in the natural units of messages
            conditions = {one.name: replace(one.rows, unit=1.0).constraint(model) for one in known}
        groups[unique(f"`{constraint}`", groups)] = _Group(constraint, conditions)
    for _, term in program.objective.summands():
        if not is_ours(term):
            before = len(model.required)
            domain = _numbered(cp.sum(expression_of(term, model)).domain)
            if required := _required(cone, before):
                groups[unique(f"`{term}`", groups)] = _Group(term, required)
            if domain:
                groups[unique(f"the domain of `{term}`", groups)] = _Group(None, domain, True)
    return groups


def _required(cone: ConeModel, before: int) -> dict[str, cp.Constraint]:
    """The conditions on its own variables that a block has added to the model, by name."""
    out = dict[str, cp.Constraint]()
    for k, condition in enumerate(cone.model.required[before:], start=1):
        out[unique(condition.label or f"required {k}", out)] = condition
    return out


def _numbered(conditions: Iterable[cp.Constraint]) -> dict[str, cp.Constraint]:
    """Conditions without names, numbered."""
    return {str(k): condition for k, condition in enumerate(conditions, start=1)}


def _rows(groups: Mapping[str, _Group], names: Sequence[str]) -> dict[str, list[str]]:
    """The conditions of each group that an irreducible conflict needs, by name."""
    rows = {name: list(groups[name].conditions) for name in names}
    for name in names:
        if len(rows[name]) > 1:
            others = [groups[other].conditions[row] for other in names if other != name for row in rows[other]]
            rows[name] = irreducible({row: [groups[name].conditions[row]] for row in rows[name]}, others) or rows[name]
    return rows


def _feasible(conditions: Sequence[cp.Constraint]) -> bool:
    """Whether conditions can hold together for all that is proved, or for whole tasks, that a solver says."""
    if not any(v.attributes["integer"] or v.attributes["boolean"] for c in conditions for v in c.variables()):
        return not cannot_hold(conditions)
    statuses = solvers.statuses(cp.Problem(cp.Minimize(0), list(conditions)))
    known = (status for status in statuses if status.startswith("infeasible") or status in solvers.SOLVED)
    return next(known, "optimal") in solvers.SOLVED


def irreducible(groups: Mapping[Name, Sequence[cp.Constraint]], always: Sequence[cp.Constraint] = ()) -> list[Name]:
    """Names of an irreducible set of conflicting groups by a deletion filter (Chinneck and Dravnieks 1991), or []."""
    kept = list(groups)
    if not kept or _feasible([*always, *(c for name in kept for c in groups[name])]):
        return []
    for k, name in enumerate(groups):
        tell("searching for conflicting constraints", k, len(groups))
        others = [other for other in kept if other != name]
        if not _feasible([*always, *(c for other in others for c in groups[other])]):
            kept = others  # the conflict is among these
    return kept


def _what_is_possible(
    program: Program,
    cone: ConeModel,
    groups: Mapping[str, _Group],
    names: Sequence[str],
    rows: Mapping[str, Sequence[str]],
) -> str:
    """The end of the message: the nearest value of one bound in the conflict that all other conditions allow."""
    for name in names:
        if part := _part_of_bounds(program, cone, groups, name):
            return part
    for name in names:
        block, conditions, of_domain = groups[name]
        if not of_domain and (block is None or (is_ours(block) and not isinstance(block, AtLeast))):
            continue
        for row in rows[name]:
            # first under all others, so that what is said is possible; under the conflict's own if these conflict too
            others = [c for other, g in groups.items() for k, c in g.conditions.items() if (other, k) != (name, row)]
            named = [groups[other].conditions[k] for other in names for k in rows[other] if (other, k) != (name, row)]
            nearest = _nearest(conditions[row], others) or _nearest(conditions[row], named)  # if others conflict too
            if nearest is None:
                continue
            if isinstance(block, AtLeast):
                return f"; at most {nearest.at * (abs(block.level) or 1.0):.4g} can be had for `{block.objective}`"
            who = _users_in(program, cone, conditions[row], nearest.multipliers)
            what = "the domain" if of_domain else f"`{block}`" if row == UNNAMED else repr(row)
            return nearest.in_words(what, f" of {_users(program, who)}" if len(who) else "")
    return ""


def _part_of_bounds(program: Program, cone: ConeModel, groups: Mapping[str, _Group], name: str) -> str:
    """The part of a lower bound on tasks that all other conditions allow, in words; empty for other conditions."""
    block = groups[name].block
    if not isinstance(block, (MinShare, MinTasks, SharingIncentive)):
        return ""
    bounds = block.bounds(program.instance)
    if bounds is None:
        return ""
    floors = np.flatnonzero(bounds[0] > 0)
    most = min(float((program.most[floors] / bounds[0][floors]).min()), 1.0)  # by what each could run alone
    users = f" of {_users(program, floors)}"
    if most == 0:
        return _in_words(block, name, users, 0.0)
    factor = cp.Variable(nonneg=True)  # relative to the most that a user alone could have, so that it is near 1
    wanted = cp.multiply(cone.model.tasks[floors], 1.0 / (most * bounds[0][floors])) >= factor
    others = [c for other, group in groups.items() if other != name for c in group.conditions.values()]
    problem = cp.Problem(cp.Maximize(factor), [wanted, factor <= 1, *others])
    if "optimal" in solvers.statuses(problem):  # stops at the first optimum
        return _in_words(block, name, users, most * float(factor.value))
    return ""


def _in_words(constraint: Constraint, name: str, users: str, factor: float) -> str:
    """What the other conditions allow of a lower bound."""
    if isinstance(constraint, MinShare) and isinstance(constraint.level, float):
        return f"; the largest common share is {factor * constraint.level:.4g}"
    if isinstance(constraint, MinTasks) and isinstance(constraint.tasks, float):
        return f"; the largest common number of tasks is {factor * constraint.tasks:.4g}"
    return f"; there is room for {factor:.4g} times what {name} asks{users}"


def _users(program: Program, who: Indices) -> str:
    """Users by label: all, or the first three and the number of others."""
    if 3 < len(who) == program.instance.n_users:
        return "all users"
    labels = [repr(program.instance.users[j]) for j in who[:3]]
    if len(who) > 3:
        return f"users {', '.join(labels)} and {len(who) - 3} more"
    return f"user {labels[0]}" if len(labels) == 1 else f"users {', '.join(labels[:-1])} and {labels[-1]}"


class _Nearest(NamedTuple):
    """The nearest that the other conditions allow to a condition, and the multipliers of its rows.

    ``kind`` is "least" or "most" if all rows require at least, or at most, the same level, of which ``at`` is possible;
    "part" if they require different levels, of which the fraction ``at`` is possible; else "missed", by ``at``.
    """

    kind: str
    at: float
    multipliers: Float

    def in_words(self, what: str, whose: str) -> str:
        """The end of a message."""
        at = f"{self.at:.4g}"
        if self.kind == "least" and what == "the domain":
            return f"; the largest common level{whose} is {at}"
        return {
            "least": f"; at most {at} can be had for {what}{whose}",
            "most": f"; {what}{whose} comes to at least {at}",
            "part": f"; there is room for {at} times what {what} asks{whose}",
            "missed": f"; {what}{whose} is missed by at least {at}",
        }[self.kind]


def _nearest(condition: cp.Constraint, others: Sequence[cp.Constraint]) -> _Nearest | None:
    """The nearest that others allow to a condition; None for cones and equations, or if no solver can tell."""
    if not isinstance(condition, cp.constraints.Inequality):
        return None
    low, high = condition.args
    level, kind = _level(low, high)
    size = float(np.abs(level).max(initial=0.0)) or 1.0
    if kind != "missed" and np.ptp(level) > 1e-12 * size:  # by more than rounding: not one level for all rows
        kind = "part" if kind == "least" and (level > 0).all() else "missed"
    short = cp.Variable(nonneg=True)  # relative to the level, so that a solver's 1e-9 is small beside it
    wanted = cp.multiply(high - low, 1.0 / (level if kind == "part" else size)) + short >= 0
    if "optimal" not in solvers.statuses(cp.Problem(cp.Minimize(short), [wanted, *others])):
        return None
    by, multipliers = float(short.value), np.abs(np.ravel(wanted.dual_value, order="F"))
    if kind in ("least", "most"):
        return _Nearest(kind, float(np.mean(level)) + by * (size if kind == "most" else -size), multipliers)
    return _Nearest(kind, max(1.0 - by, 0.0) if kind == "part" else by * size, multipliers)


def _level(low: cp.Expression, high: cp.Expression) -> tuple[Float, str]:
    """The constant in ``low <= high``, and whether it is a lower ("least") or an upper bound ("most") of the rest."""
    room, zero = high - low, np.zeros((high - low).shape)
    if room.is_affine():  # its value at zeros is the constant
        with values_kept(room.variables()):
            for variable in room.variables():
                variable.save_value(np.zeros(variable.shape))
            constant = zero + np.asarray(room.value, dtype=float)
        if low.is_constant() or (not high.is_constant() and (constant < 0).all()):
            return -constant, "least"
        return constant, "most" if high.is_constant() or (constant > 0).all() else "missed"
    if high.is_constant():
        return zero + high.value, "most"
    return (zero + low.value, "least") if low.is_constant() else (zero, "missed")


def _users_in(program: Program, cone: ConeModel, condition: cp.Constraint, multipliers: Float) -> Indices:
    """The users in rows of a condition whose multipliers are not negligible."""
    slopes = gradient_of(condition.args[1] - condition.args[0], cone.unknowns)
    if slopes is None:
        return np.zeros(0, dtype=np.intp)
    rows = multipliers > PART * multipliers.max(initial=0.0)  # of the relaxed condition: what keeps it from holding
    return np.unique(program.pairs.user[np.flatnonzero(abs(slopes) @ rows.astype(float))])
