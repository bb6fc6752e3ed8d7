"""Objectives kept at a level, as a constraint, and what routes add: that something achieved is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.constraints import Constraint, MinShare
from fairopt.blocks.objectives import MaxMin, Objective
from fairopt.instance import Instance

if TYPE_CHECKING:
    from fairopt.blocks.model import Model

__all__ = ["AtLeast", "Kept", "KeptLevel", "KeptShares"]

Float = NDArray[np.floating[Any]]


@dataclass(frozen=True, repr=False)
class AtLeast(Constraint):
    """An objective kept at a level or above; written ``objective >= level``.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> fo.Policy(fo.Leximin(), [fo.Total(fo.Tasks()) >= 17]).allocate(cluster).tasks.round(6)
    array([ 2., 15.])
    """

    objective: Objective
    level: float

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        if not isinstance(self.objective, MaxMin):
            return None
        return MinShare(tuple(np.maximum(self.level, 0.0) * instance.weights), self.objective.share).bounds(instance)

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        unit = abs(self.level) or 1.0
        return {"at least": self.objective.expression(model) / unit >= self.level / unit}

    def check(self, instance: Instance) -> None:
        self.objective.check(instance)
        self.objective.natural_is_concave()

    def __repr__(self) -> str:
        return f"{self.objective!r} >= {self.level!r}"


@dataclass(frozen=True, repr=False)
class KeptLevel(AtLeast):
    """What an earlier tier achieved."""

    added = True


@dataclass(frozen=True, repr=False)
class Kept(KeptLevel):
    """What an earlier tier achieved, in the units of its expression, which may be a transform of the objective."""

    def check(self, instance: Instance) -> None:
        self.objective.check(instance)


@dataclass(frozen=True, repr=False)
class KeptShares(MinShare):
    """The shares that an earlier tier achieved, or an answer that is topped up."""

    added = True
