"""Why no allocation satisfies all constraints: an irreducible set of constraints that conflict, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fairopt.blocks.base import is_ours
from fairopt.blocks.constraints import Constraint, MinShare, MinTasks, SharingIncentive
from fairopt.errors import Infeasible
from fairopt.formulation import solvers
from fairopt.formulation.program import ConeModel, Program, checked_conditions
from fairopt.lazy import cp
from fairopt.progress import tell

Name = TypeVar("Name")
Groups = dict[str, tuple[Constraint | None, "list[cp.Constraint]"]]  # by name: the block, if any, and its conditions


def explain(program: Program, cone: ConeModel | None = None) -> None:
    """Raise `Infeasible` with an irreducible conflict; return if the constraints can hold together after all.

    Constraints that a method added to the policy's own hold at a known point, and are left out. A ``cone`` of one's own
    is of whole tasks, where the divisible constraints can hold together.
    """
    whole, cone = cone is not None, cone or ConeModel(program)
    groups = _groups(program, cone)
    names = tuple(irreducible({name: conditions for name, (_, conditions) in groups.items()}))
    if not names:
        return
    if len(names) == 1:
        sentence = f"{names[0]} cannot hold"
    else:
        sentence = f"{', '.join(names[:-1])} and {names[-1]} cannot hold together"
    if whole:
        raise Infeasible(f"{sentence} in whole tasks; in divisible tasks they can", names)
    raise Infeasible(sentence + _how_far(program, cone, groups, names), names)


def _groups(program: Program, cone: ConeModel) -> Groups:
    instance, model = program.instance, cone.model
    groups: Groups = {}
    limited = np.flatnonzero(np.isfinite(instance.task_limits))
    for i, resource in enumerate(instance.resources):
        rows = np.arange(instance.n_servers) * instance.n_resources + i
        rows = rows[np.isin(rows, program.capacity_rows)]
        if len(rows):
            groups[f"the capacity of {resource}"] = (None, cone.within_capacity(rows))
    if len(limited):
        unit = 1.0 / instance.task_limits[limited]
        groups["the task limits"] = (None, [cp.multiply(model.tasks[limited], unit) <= 1])
    for constraint in program.constraints:
        if constraint.added:
            continue
        before = len(model.required)
        view = model if is_ours(constraint) else cone.model_as_given()
        conditions = list(checked_conditions(constraint, view).values())
        name = f"`{constraint}`"
        while name in groups:  # another block that prints alike
            name += " (another)"
        groups[name] = (constraint, conditions + model.required[before:])
    return groups


def _feasible(conditions: Iterable[cp.Constraint]) -> bool:
    """Whether all conditions can hold together; True if no solver finds out."""
    for status in solvers.statuses(cp.Problem(cp.Minimize(0), list(conditions))):
        if status.startswith("infeasible"):
            return False
        if status in solvers.SOLVED:
            return True
    return True


def irreducible(groups: Mapping[Name, Sequence[cp.Constraint]], always: Sequence[cp.Constraint] = ()) -> list[Name]:
    """Names of an irreducible set of conflicting groups by a deletion filter (Chinneck and Dravnieks 1991), or []."""
    kept = list(groups)
    if not kept or _feasible([*always, *(c for name in kept for c in groups[name])]):
        return []
    for k, name in enumerate(groups):
        tell("looking for what conflicts, conditions", k, len(groups))
        others = [other for other in kept if other != name]
        if not _feasible([*always, *(c for other in others for c in groups[other])]):
            kept = others
    return kept


def _how_far(program: Program, cone: ConeModel, groups: Groups, names: tuple[str, ...]) -> str:
    """For a lower bound in the conflict: the part of it that all other conditions leave room for."""
    for name in names:
        constraint, _ = groups[name]
        if not isinstance(constraint, (MinShare, MinTasks, SharingIncentive)):
            continue
        bounds = constraint.bounds(program.instance)
        if bounds is None:
            continue
        floors = np.flatnonzero(bounds[0] > 0)
        most = min(float((program.most[floors] / bounds[0][floors]).min()), 1.0)
        if most == 0:
            return _as_words(constraint, name, 0.0)
        factor = cp.Variable(nonneg=True)  # as a part of the most that a single user could have, near 1
        wanted = cp.multiply(cone.model.tasks[floors], 1.0 / (most * bounds[0][floors])) >= factor
        others = [c for other, (_, conditions) in groups.items() if other != name for c in conditions]
        problem = cp.Problem(cp.Maximize(factor), [wanted, factor <= 1, *others])
        if "optimal" in solvers.statuses(problem):  # does not try further solvers
            return _as_words(constraint, name, most * float(factor.value))
    return ""


def _as_words(constraint: Any, name: str, factor: float) -> str:
    if isinstance(constraint, MinShare) and isinstance(constraint.level, float):
        return f"; the largest common share is {factor * constraint.level:.4g}"
    return f"; there is room for {factor:.4g} times what {name} asks"
