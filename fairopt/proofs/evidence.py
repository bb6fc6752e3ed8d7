"""What a method hands over: a point, and evidence for it.

Evidence is prices, levels and multipliers: numbers that may be wrong, which then prove little, but never too much.
What a solver says of itself (its status, its objective value, its bound) is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.certificate import Try
from fairopt.formulation.division import Division

if TYPE_CHECKING:
    from fairopt.formulation.pool_users import Chunk, Pool
    from fairopt.formulation.program import ConeModel
    from fairopt.proofs.servers import LevelUnits

__all__ = [
    "Bottlenecked", "Evidence", "FairPrices", "HeldLevels", "Holding", "Proposal", "RowPrices", "Solved", "TotalPrices",
]  # fmt: skip

Float = NDArray[np.floating[Any]]
Settle = Callable[["Chunk"], None]


@dataclass
class Bottlenecked:
    """Leximin or max-min on one pool: each user is held by a full resource or by its limit, which needs no evidence.

    ``order`` are resources in the order in which they became full, a hint; ``prices`` the derivative of the max-min
    level by each whole capacity. ``settle`` writes the tasks of a chunk of users while the gate looks at them, which
    saves a pass over the demands.
    """

    pool: Pool
    order: Sequence[int] | None = None
    prices: Float | None = None
    settle: Settle | None = None


@dataclass
class FairPrices:
    """Alpha-fairness on one pool: logarithms of prices per whole capacity, for shares in units of ``level``."""

    pool: Pool
    log_prices: Float
    level: float
    settle: Settle | None = None


@dataclass
class TotalPrices:
    """The largest total on one pool: prices per whole capacity."""

    pool: Pool
    prices: Float
    settle: Settle | None = None


@dataclass(frozen=True)
class RowPrices:
    """Alpha-fairness and max-min on several servers: prices of shape (n_resources, n_servers), in units of level."""

    units: LevelUnits
    prices: Float


@dataclass(frozen=True)
class Holding:
    """Prices that hold some users of a leximin at their level.

    Attributes
    ----------
    users : ndarray of int
        Who is held.
    prices : ndarray of shape (n_rows,)
        By row of `Pairs.loads`, per whole capacity.
    duals : sequence of ndarray
        Of the further conditions of the model (`charged_conditions`), flat in column order.
    at : ndarray of shape (n_pairs,) or None
        Tasks at which to linearise those that are not linear.
    """

    users: NDArray[np.intp]
    prices: Float
    duals: Sequence[Float] = ()
    at: Float | None = None


@dataclass(frozen=True)
class HeldLevels:
    """Leximin by programs: for every user below its limit the prices that hold it, by level.

    ``model`` is the cone program, where there are further conditions to be checked; ``prices`` the derivative of the
    max-min level by each row.
    """

    holdings: Sequence[Holding]
    model: ConeModel | None = None
    prices: Float | None = None


@dataclass(frozen=True)
class Solved:
    """A cone program that a solver left with values and dual values.

    What was maximised is what the model makes of the objective (`ConeModel.maximand`), or the objective itself in
    another ``unit``, unless something ``stands_in``: that only has the same optimum, and says nothing about the
    objective but in which units dual values may be.
    """

    model: ConeModel
    stands_in: cp.Expression | None = None
    unit: float | None = None

    @cached_property
    def maximand(self) -> tuple[cp.Expression, float | None]:
        """What the solver was given, and natural units per unit of it; None for an increasing transform."""
        if self.stands_in is not None:
            return self.stands_in, None
        if self.unit is None:
            return self.model.maximand
        return cp.sum(self.model.program.objective.expression(self.model.model)) / self.unit, self.unit


Evidence = Bottlenecked | FairPrices | TotalPrices | RowPrices | HeldLevels | Solved | Division


@dataclass(frozen=True)
class Proposal:
    """What one attempt of a method came to: a point with evidence, or no point at all.

    Tasks are by pair of a user and a server; where bundles are decided, both are by server row. A `Division` without a
    point stands for its own best.
    """

    method: str
    tasks: Float | None = None
    evidence: Evidence | None = None
    solver: str | None = None
    attempt: Try | None = None
    bundles: Float | None = None
