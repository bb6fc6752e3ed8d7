"""Cone programs rebuilt where only CVXPY can evaluate a constraint, since evidence holds numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from fairopt.formulation.bundle_program import BundleConeModel, BundleProgram
from fairopt.formulation.program import ConeModel, Program
from fairopt.runtime.lazy import cp


@dataclass(frozen=True)
class Written:
    """The program of a cone model, its ``solver``, and ``own``, the values of variables that blocks added."""

    program: Program
    solver: str | None = None
    own: Sequence[Any] = ()

    @classmethod
    def of(cls, cone: ConeModel) -> Self:
        """A model as its solver left it."""
        return cls(cone.program, cone.model.solver, [variable.value for variable in _own_variables(cone)])

    @cached_property
    def model(self) -> ConeModel:
        """The rebuilt model, with the values of variables that blocks added."""
        of_bundles = isinstance(self.program, BundleProgram)
        cone = BundleConeModel(self.program, self.solver) if of_bundles else ConeModel(self.program, self.solver)
        variables = _own_variables(cone)
        if [v.shape for v in variables] == [np.shape(value) for value in self.own]:
            for variable, value in zip(variables, self.own, strict=True):
                variable.save_value(value)
        return cone


def _own_variables(cone: ConeModel) -> list[cp.Variable]:
    """The variables besides the unknowns in blocks' constraints, and in objectives of bundles, in order."""
    parts = [condition for _, _, condition in cone.rest]
    if isinstance(cone, BundleConeModel):
        parts.append(cone.maximand[0])
    elif not (cone.program.objective.is_known or cone.program.term.is_order):
        _ = cone.maximand  # for the conditions that it requires
    found = dict.fromkeys(v for part in (*parts, *cone.required) for v in part.variables())
    return [v for v in found if v.id != cone.unknowns.id]
