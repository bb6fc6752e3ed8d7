"""Cone programs rebuilt where only CVXPY can evaluate a constraint, since evidence holds numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from fairopt.proof.feasibility import settled
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.solve.form.bundle_program import BundleConeModel, BundleProgram
from fairopt.solve.form.program import ConeModel, Program


@dataclass(frozen=True)
class Written:
    """The program of a cone model, its ``solver``, and ``own``, the values of variables that blocks added.

    ``variables`` are those of users' blocks in natural units, by key, and ``units`` those that were solved in.
    """

    program: Program
    solver: str | None = None
    own: Sequence[Any] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, cone: ConeModel, keep: bool = False) -> Self:
        """A model as its solver left it, which is kept instead of rebuilt if nothing else will use it."""
        values, own = [variable.value for variable in _own_variables(cone)], cone.model.own
        made = cls(cone.program, cone.model.of_solver, values, own.values(), own.units)
        if keep:
            vars(made)["model"] = cone  # as `model` would rebuild it
        return made

    @cached_property
    def model(self) -> ConeModel:
        """The rebuilt model, with the values of variables that blocks added."""
        of_bundles = isinstance(self.program, BundleProgram)
        kind = BundleConeModel if of_bundles else ConeModel
        cone = kind(self.program, self.solver, self.units)
        variables = _own_variables(cone)
        if [v.shape for v in variables] == [np.shape(value) for value in self.own]:
            for variable, value in zip(variables, self.own, strict=True):
                variable.save_value(value)
        cone.model.own.save(self.variables)
        return cone

    def numbers(self) -> dict[str, Any]:
        """The values and units of variables for files, empty without any."""
        values = {key: np.asarray(value).tolist() for key, value in self.variables.items()}
        return ({"variables": values} if values else {}) | ({"units": dict(self.units)} if self.units else {})

    @classmethod
    def restored(cls, program: Program, solver: str | None, held: Mapping[str, Any]) -> Self:
        """What `numbers` wrote, for a program of the same blocks and instance."""
        values = {str(key): np.asarray(value, dtype=float) for key, value in held.get("variables", {}).items()}
        units = {str(key): float(unit) for key, unit in held.get("units", {}).items()}
        if not all(0 < unit < np.inf for unit in units.values()):
            raise ValueError(f"the units of variables are {units}, not numbers > 0")
        return cls(program, solver, variables=values, units=units)

    def settled(self, tasks: Float) -> tuple[ConeModel, dict[str, Float], float | None]:
        """The model with its variables at tasks by pair, the values of those of users' blocks, by key, and the
        violation of blocks there if it was measured.
        """
        cone = self.model
        cone.model.own.save(self.variables)
        return cone, *settled(cone, tasks)


def _own_variables(cone: ConeModel) -> list[cp.Variable]:
    """The variables besides the unknowns in blocks' constraints, and in objectives of bundles, in order."""
    parts = [condition for _, _, condition in cone.rest]
    if isinstance(cone, BundleConeModel):
        parts.append(cone.maximand[0])
    elif not (cone.program.objective.is_known or cone.program.term.is_order):
        _ = cone.maximand  # for the conditions that it requires
    variables = dict.fromkeys(v for part in (*parts, *cone.required) for v in part.variables())
    return [v for v in variables if v.id != cone.unknowns.id]
