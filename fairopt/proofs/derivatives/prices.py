"""Prices as derivatives: what one more unit of a capacity is worth, and what one unit less costs.

Worked out from the policy's blocks, the instance and the tasks; what a method found on its way is a hint at most. The
coefficients of shares are held as they are, and so are task limits, bounds in tasks (those of `SharingIncentive` too,
although slices grow with capacity), levels of other constraints, and who may run where. A `Reserve` of a fraction f
stays a fraction: of one more unit 1 - f can be used.

A concave program's value has a derivative from each side, the least and the largest of its optimal multipliers
(`multipliers`). Those of leximin, level by level, are in `level_rises`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import is_ours
from fairopt.blocks.objectives import Leximin, Objective
from fairopt.blocks.shares import asked_once
from fairopt.errors import InvalidBlock
from fairopt.formulation.program import ConeModel
from fairopt.proofs.conditions import gradient_of
from fairopt.proofs.derivatives.level_rises import heights
from fairopt.proofs.derivatives.multipliers import TRUST, Face
from fairopt.proofs.derivatives.optimality import MOST_COLUMNS, OptimalityConditions
from fairopt.proofs.derivatives.optimum import (
    TIES,
    Optimum,
    Ranked,
    _Unknown,
    first_tier,
    log_share_slope,
    log_worth,
    parts,
)

if TYPE_CHECKING:
    from fairopt.allocation import Allocation

__all__ = ["LevelPrices", "Prices", "level_prices", "prices", "share_prices"]

Float = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class LevelPrices:
    """A level of a leximin, and what capacities are worth to it.

    Attributes
    ----------
    level : float
        Share per weight of the users held there.
    users : tuple of str
        Their labels.
    prices : ndarray of shape (n_servers, n_resources)
        By how much the level (the smallest share per weight of these users) rises per unit more of each capacity.
        Negative where earlier levels rise at its cost.
    prices_left : ndarray of shape (n_servers, n_resources)
        By how much it falls per unit less; infinite where less capacity leaves no allocation.
    """

    level: float
    users: tuple[str, ...]
    prices: Float
    prices_left: Float


@dataclass(frozen=True)
class Prices:
    """Derivatives of an objective from the right and from the left, up to a common factor.

    Attributes
    ----------
    right, left : ndarray of shape (n_servers, n_resources)
        Without the factor.
    log_factor : float
        Its logarithm: powers of shares leave the range of floats.
    """

    right: Float
    left: Float
    log_factor: float = 0.0

    def times(self, log_factor: float = 0.0) -> tuple[Float, Float]:
        """Both sides, with the factor and another one."""
        with np.errstate(over="ignore", invalid="ignore"):
            factor = np.exp(self.log_factor + log_factor)
            right, left = (np.where(p == 0, 0.0, p * factor) for p in (self.right, self.left))
        return right, left


@asked_once()
def prices(allocation: Allocation) -> Prices | None:
    """Derivatives of the objective (of its first level, or first tier) by each capacity.

    None where the tasks are no optimum of the policy as far as these conditions can tell, and where blocks of one's own
    have no evidence that satisfies them. The evidence itself, if any, of what is not a policy that decides tasks.
    """
    if not _decides_tasks(allocation):
        evidence = allocation.evidence_prices
        return None if evidence is None else Prices(evidence, evidence)
    for tie in TIES:
        optimum = Optimum(allocation, tie)
        if optimum.program.empty:
            nothing = np.zeros(allocation.instance.capacities.shape)
            return Prices(nothing, nothing)
        try:
            found = _of_first_level(optimum) if optimum.levelled else _of_value(optimum)
        except _Unknown:
            found = _of_evidence(optimum)
        if found is not None:
            right, left, log_factor = found
            return Prices(optimum.shown(right), optimum.shown(left), log_factor)
    return None


@asked_once()
def level_prices(allocation: Allocation) -> tuple[LevelPrices, ...] | None:
    """Every level of a leximin with its derivatives, from the lowest up, one for each height at which users stand.

    None for other policies, and where the structure is not covered: curved conditions that bind, points that are not
    exact enough.
    """
    objective = first_tier(allocation)
    if not (isinstance(objective, Leximin) and _decides_tasks(allocation)):
        return None
    for tie in TIES:
        optimum = Optimum(allocation, tie)
        if optimum.program.empty:
            return ()
        try:
            found = heights(optimum)
        except _Unknown:
            return None
        if found is not None:
            labels, nothing = optimum.program.instance.users, np.zeros(allocation.instance.capacities.shape)
            nothing.setflags(write=False)  # shared by all levels that limits decide
            return tuple(
                LevelPrices(
                    h.level, tuple(labels[j] for j in h.users),
                    *(nothing if x is None else optimum.shown(np.maximum(x, least)) for x in (h.right, h.left)),
                )
                for h, least in zip(found, [0.0, *[-np.inf] * len(found)], strict=False)  # the first never falls
            )  # fmt: skip
    return None


@asked_once()
def share_prices(allocation: Allocation) -> Float | None:
    """Derivatives of the share, equal for all per weight, that the objective would value as much.

    None where `prices` is; `InvalidBlock` if no share stands for the objective's value.
    """
    found = prices(allocation)
    if found is None:
        return None
    objective = first_tier(allocation)
    parts_of = [(c, t) for c, t in objective.terms() if c > 0] if _decides_tasks(allocation) else []
    if len(parts_of) != 1 or not is_ours(parts_of[0][1]):
        raise InvalidBlock(
            f"no share stands for the value of {objective!r}: share_prices are of a single objective of fairopt that "
            "decides tasks; read prices, in units of the objective, or allocate by one of its parts"
        )
    optimum = Optimum(allocation, TIES[0])
    if optimum.program.empty:
        return found.right
    factor, term = parts_of[0]
    with np.errstate(divide="ignore"):
        return found.times(log_share_slope(term, optimum.point) - float(np.log(factor)))[0]


def _decides_tasks(allocation: Allocation) -> bool:
    return allocation.given_bundles is None and isinstance(first_tier(allocation), Objective)


# -- how it is found ---------------------------------------------------------------------------------------------------


def _of_first_level(optimum: Optimum) -> tuple[Float, Float, float] | None:
    """As `_of_value`, of the smallest share per weight."""
    found = heights(optimum, first=True)
    if found is None:
        return None
    nothing = np.zeros(len(optimum.program.usable_rows))
    right, left = (nothing if side is None else np.maximum(side, 0.0) for side in (found[0].right, found[0].left))
    return right, left, float(np.log(sum(factor for factor, _ in optimum.objective.terms())))


def _of_value(optimum: Optimum) -> tuple[Float, Float, float] | None:
    """Derivatives by the usable fraction of each row, from the right and from the left, and their common factor."""
    face, scale, log_factor = _face(optimum)
    if not face.sound:
        return None
    n_rows = len(optimum.program.usable_rows)
    right, left = np.zeros(n_rows), np.zeros(n_rows)
    for k, row in enumerate(optimum.full):
        ends = []
        for sign in (1.0, -1.0):
            if face.pinned[k]:
                ends.append(float(face.theta[k]))
                continue
            goal = np.zeros(len(face.theta))
            goal[k] = sign
            found = face.least(goal)
            if found is None:
                return None
            ends.append(sign * found[0])
        right[row], left[row] = (max(end, 0.0) * scale[k] for end in ends)
    return right, left, log_factor


def _face(optimum: Optimum) -> tuple[Face, Float, float]:
    """All optimal multipliers of a sum of objectives, their units, and the logarithm of the objective's."""
    if not optimum.rest.known:
        raise _Unknown
    powers, ranked = parts(optimum.objective, optimum.point)
    logs = log_worth(optimum, powers)
    log_factor = _largest_log(optimum, logs) if powers else 0.0
    with np.errstate(over="ignore"):
        worth = np.exp(logs - log_factor)
    lost = np.zeros(optimum.program.instance.n_users, dtype=bool)  # worth beyond floats: only a bound explains that
    lost[optimum.user[~np.isfinite(worth)]] = True
    if (lost & ~optimum.high).any():
        raise _Unknown
    system = OptimalityConditions(optimum, np.where(lost[optimum.user], 0.0, worth))
    ties = [found for term in ranked for found in system.rank(term, float(np.exp(-log_factor)))]
    system.bounds_apart()
    money = optimum.tasks * system.worth * ~lost[optimum.user]
    whole = float(money.sum()) + system.ranked_value or 1.0
    on_row = np.asarray(optimum.loads[optimum.full] @ money).ravel() + system.ranked_value
    scale = np.where(on_row > 0, on_row, whole) / optimum.program.usable_rows[optimum.full]
    conditions, units = system.conditions(optimum.full, scale, whole, lost)
    if len(units) > MOST_COLUMNS:
        raise _Unknown
    hint = None
    if optimum.hint is not None and len(units) == len(optimum.full):
        with np.errstate(over="ignore", invalid="ignore"):
            hint = optimum.hint[optimum.full] * np.exp(-log_factor) / units
    # tiers give up 1e-7 of the first one's best, which moves tasks, and what they are worth, by its root
    return Face(conditions, ties, hint, 1e-3 if optimum.tiered else 0.0), units, log_factor


def _largest_log(optimum: Optimum, log_worth: Float) -> float:
    """Of those that prices have to explain."""
    for chosen in (optimum.used & ~optimum.high[optimum.user], optimum.used, np.ones(len(log_worth), dtype=bool)):
        finite = log_worth[chosen & np.isfinite(log_worth)]
        if len(finite):
            return float(finite.max())
    return 0.0


def _of_evidence(optimum: Optimum) -> tuple[Float, Float, float] | None:
    """The method's prices, on both sides, if with some multipliers of other conditions they are optimal ones."""
    prices, tasks = optimum.hint, optimum.tasks
    if prices is None or not np.isfinite(prices).all():
        return None
    try:
        ranked: list[Ranked] = []
        log_factor = 0.0
        try:
            powers, ranked = parts(optimum.objective, optimum.point)
            logs = log_worth(optimum, powers)
            log_factor = _largest_log(optimum, logs) if powers else 0.0
            with np.errstate(over="ignore"):
                worth = np.exp(logs - log_factor)
        except _Unknown:
            worth = _by_gradient(optimum)
        with np.errstate(over="ignore"):
            by_row = prices * np.exp(-log_factor)
        system = OptimalityConditions(optimum, worth)
        ties = [found for term in ranked for found in system.rank(term, float(np.exp(-log_factor)))]
        system.bounds_apart()
        cost = np.asarray(optimum.loads.T @ by_row).ravel()
        whole = float(tasks @ np.maximum(system.worth[: len(tasks)], cost)) or 1.0
        spare = np.maximum(optimum.program.usable_rows - np.asarray(optimum.loads @ tasks).ravel(), 0.0)
        if not (np.isfinite(whole) and by_row.min() >= -TRUST * whole and float(by_row @ spare) <= TRUST * whole):
            return None
        none = np.zeros(0, dtype=np.intp)
        conditions, units = system.conditions(none, np.zeros(0), whole, paid=cost)
    except _Unknown:
        return None
    if len(units) > MOST_COLUMNS or not Face(conditions, ties).sound:
        return None
    return prices, prices, 0.0


def _by_gradient(optimum: Optimum) -> Float:
    """What a task of each pair brings by CVXPY's gradient of the objective (where it has a kink: one of several)."""
    cone = ConeModel(optimum.program)
    required = len(cone.model.required)
    expression = cp.sum(optimum.objective.expression(cone.model))
    if len(cone.model.required) > required or any(v.id != cone.unknowns.id for v in expression.variables()):
        raise _Unknown
    pairs = optimum.program.pairs
    cone.unknowns.save_value(optimum.point.tasks_by_server[pairs.user, pairs.server] / cone.scale)
    gradient = gradient_of(expression, cone.unknowns)
    if gradient is None:
        raise _Unknown
    worth: Float = (gradient.toarray().ravel() / cone.scale)[optimum.kept]
    if not np.isfinite(worth).all():
        raise _Unknown
    return worth
