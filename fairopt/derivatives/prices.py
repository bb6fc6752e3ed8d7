"""Prices as derivatives: the value of one more unit of a capacity, and the cost of one unit less (Definition 10.1).

They follow from the policy's blocks, the instance and the tasks; a method's evidence is only a hint. Share coefficients
are constants, and so are task limits, bounds in tasks (also those of `SharingIncentive`, although slices grow with
capacity), levels of other constraints, and eligibility. A `Reserve` of a fraction f stays a fraction.

The value V of a concave program has one-sided derivatives: the smallest and largest of its optimal multipliers,

    V'(C; +e_i) = min p_i,   -V'(C; -e_i) = max p_i   over optimal p

(Rockafellar 1970; `multipliers`). Those of each leximin level are in `level_rises`. Why not the multipliers that
evidence has: methods differ in them where several are optimal, and some have none.

In floats the objective's unit is kept as a logarithm, since powers of shares leave the range at alpha = 50 over seven
decades. Ties and slacks are tried at 1e-8 first and then coarser (`TIES`), as points of interior methods are exact to
1e-6 only; a point that satisfies the conditions at none of them has no prices, or the evidence's where these fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairopt.allocation import ChangedByHand
from fairopt.blocks.normal_form import Term
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import coefficients_cached
from fairopt.derivatives.level_prices import LevelPrices
from fairopt.derivatives.level_rises import level_derivatives
from fairopt.derivatives.multipliers import TRUST, MultiplierSet
from fairopt.derivatives.optimum import (
    TIES,
    OptimalityConditions,
    Optimum,
    _NoDerivative,
    first_term,
    first_tier,
    log_marginal_utilities,
)
from fairopt.errors import InvalidBlock
from fairopt.proof.gradients import gradient_of
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.runtime.threads import one_thread
from fairopt.solve.form.program import ConeModel

if TYPE_CHECKING:
    from fairopt.allocation import Allocation


@dataclass(frozen=True)
class Prices:
    """Derivatives (n_servers, n_resources) of an objective from the right and from the left, up to a common factor.

    The factor is given by its logarithm, since powers of shares exceed the range of floats.
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


@one_thread()
@coefficients_cached()
def prices(allocation: Allocation) -> Prices | None:
    """Derivatives of the objective (of its first level or tier) by each capacity.

    None if the tasks do not satisfy the optimality conditions, for user-defined blocks without suitable evidence, for a
    problem that was changed by hand, for shares of teams and surpluses, and for `FairnessEfficiency` where it is not
    concave. If the policy does not decide tasks, the evidence's prices, if any.
    """
    if isinstance(allocation.policy, ChangedByHand) or not _of_users(allocation):
        return None
    if not _decides_tasks(allocation):
        evidence = allocation.evidence_prices
        return None if evidence is None else Prices(evidence, evidence)
    term = first_term(allocation)
    # without concavity multipliers are no derivatives: an optimum may jump
    if term is not None and term.alpha is None and term.measure is not None and not term.measure.concave:
        return None
    for tie in TIES:  # the finest at which the conditions hold
        optimum = Optimum(allocation, tie)
        if optimum.program.empty:
            nothing = np.zeros(allocation.instance.capacities.shape)
            return Prices(nothing, nothing)
        try:
            sides = _of_first_level(optimum) if optimum.levelled else _of_value(optimum)
        except _NoDerivative:
            sides = _of_evidence(optimum)  # one point of the set, shown on both sides if it satisfies the conditions
        if sides is not None:
            right, left, log_factor = sides
            return Prices(optimum.shown(right), optimum.shown(left), log_factor)
    return None


@one_thread()
@coefficients_cached()
def level_prices(allocation: Allocation) -> tuple[LevelPrices, ...] | None:
    """Every level of a leximin with its derivatives, from the lowest up.

    None for other policies, for shares of teams and surpluses, with nonlinear active constraints, and for points that
    are not exact enough.
    """
    term = first_term(allocation)
    if term is None or not term.is_order or not _decides_tasks(allocation) or not _of_users(allocation):
        return None
    for tie in TIES:
        optimum = Optimum(allocation, tie)
        if optimum.program.empty:
            return ()
        try:
            of_levels = level_derivatives(optimum)
        except _NoDerivative:
            return None
        if of_levels is not None:
            labels, nothing = optimum.program.instance.users, np.zeros(allocation.instance.capacities.shape)
            nothing.setflags(write=False)  # shared by all levels that only limits fix
            levels: list[LevelPrices] = []
            for h in of_levels:
                least = -np.inf if levels else 0.0  # the first level never falls as capacity grows, later ones may
                sides = (nothing if x is None else optimum.shown(np.maximum(x, least)) for x in (h.right, h.left))
                levels.append(LevelPrices(h.level, tuple(labels[j] for j in h.users), *sides))
            return tuple(levels)
    return None


@coefficients_cached()
def share_prices(allocation: Allocation) -> Float | None:
    """Derivatives of the equal share per weight of the same value (Proposition 10.5).

    None if `prices` is; `InvalidBlock` if the objective's value corresponds to no share.
    """
    both = prices(allocation)
    if both is None:
        return None
    term = first_term(allocation) if _decides_tasks(allocation) else None
    optimum = None if term is None or term.share is None else Optimum(allocation, TIES[0])
    if optimum is not None and optimum.program.empty:
        return both.right
    slope = None
    if optimum is not None and term is not None and term.kind.is_known:
        slope = term.kind.log_share_slope(optimum.log_levels(term.share), optimum.point.weights)
    if slope is None or term is None:
        raise InvalidBlock(
            f"no share corresponds to the value of {first_tier(allocation)}: share_prices need a single objective of "
            "fairopt that decides tasks; use prices, in units of the objective, or allocate by one of its parts"
        )
    return both.times(slope - float(np.log(term.factor)))[0]


def _of_users(allocation: Allocation) -> bool:
    """Whether the first tier, if any, is not of teams or above a base, whose derivatives are not known."""
    tier = first_tier(allocation)
    return not isinstance(tier, Objective) or all(share._is_plain for share in tier.share_blocks())


def _decides_tasks(allocation: Allocation) -> bool:
    return allocation.given_bundles is None and isinstance(first_tier(allocation), Objective)


# -- computation -------------------------------------------------------------------------------------------------------


def _of_first_level(optimum: Optimum) -> tuple[Float, Float, float] | None:
    """As `_of_value`, of the smallest share per weight."""
    levels = level_derivatives(optimum, first=True)
    if levels is None:
        return None
    nothing = np.zeros(len(optimum.program.usable_rows))
    right, left = (nothing if side is None else np.maximum(side, 0.0) for side in (levels[0].right, levels[0].left))
    return right, left, float(np.log(optimum.program.term.factor))


def _of_value(optimum: Optimum) -> tuple[Float, Float, float] | None:
    """Right and left derivatives by the usable fraction of each row, and the logarithm of their factor."""
    optimal, scale, log_factor = _optimal_multipliers(optimum)
    if not optimal.consistent:
        return None
    n_rows = len(optimum.program.usable_rows)
    right, left = np.zeros(n_rows), np.zeros(n_rows)
    for k, row in enumerate(optimum.full):
        ends = []
        for sign in (1.0, -1.0):
            if optimal.determined[k]:
                ends.append(float(optimal.theta[k]))
                continue
            goal = np.zeros(len(optimal.theta))
            goal[k] = sign
            least = optimal.least(goal)
            if least is None:
                return None
            ends.append(sign * least[0])
        right[row], left[row] = (max(end, 0.0) * scale[k] for end in ends)  # below 0 by slacks only
    return right, left, log_factor


@np.errstate(over="ignore")  # the objective's units are kept as logarithms
def _optimal_multipliers(optimum: Optimum) -> tuple[MultiplierSet, Float, float]:
    """The optimal multipliers of a sum of objectives, their units, and the logarithm of the objective's unit."""
    if not optimum.binding.known:
        raise _NoDerivative
    marginal, ranked, log_factor = _marginal_utilities(optimum)
    unbounded = np.zeros(optimum.program.instance.n_users, dtype=bool)  # possible at a bound only
    unbounded[optimum.user[~np.isfinite(marginal)]] = True
    # a marginal utility is infinite at no tasks: then only a limit of 0 can hold the user there
    if (unbounded & ~optimum.high).any():
        raise _NoDerivative
    system = OptimalityConditions(optimum, np.where(unbounded[optimum.user], 0.0, marginal))
    ties = system.rank(ranked, float(np.exp(-log_factor)))
    payments = optimum.tasks * system.marginal * ~unbounded[optimum.user]
    whole = float(payments.sum()) + system.ranked_value or 1.0
    # a price is about what the row's users pay, over its capacity
    on_row = np.asarray(optimum.loads[optimum.full] @ payments).ravel() + system.ranked_value
    scale = np.where(on_row > 0, on_row, whole) / optimum.program.usable_rows[optimum.full]
    conditions, units = system.conditions(optimum.full, scale, whole, unbounded)
    hint = None
    if optimum.hint is not None and len(units) == len(optimum.full):
        with np.errstate(invalid="ignore"):
            hint = optimum.hint[optimum.full] * np.exp(-log_factor) / units
    # tiers give up 1e-7 of the first one's optimum, which moves tasks and their marginal utilities by its root
    return MultiplierSet(conditions, ties, hint, 1e-3 if optimum.tiered else 0.0), units, log_factor


def _marginal_utilities(optimum: Optimum) -> tuple[Float, list[Term], float]:
    """The marginal utility of a task of each pair up to a factor, ranked terms, and the factor's logarithm."""
    (logs, ranked), log_factor = log_marginal_utilities(optimum.objective, optimum), 0.0
    for chosen in (optimum.used & ~optimum.high[optimum.user], optimum.used, np.ones(len(logs), dtype=bool)):
        finite = logs[chosen & np.isfinite(logs)]
        if len(finite):  # the largest marginal utility that prices have to explain: others may underflow to 0
            log_factor = float(finite.max())
            break
    with np.errstate(over="ignore"):
        return np.exp(logs - log_factor), ranked, log_factor


@np.errstate(over="ignore")
def _of_evidence(optimum: Optimum) -> tuple[Float, Float, float] | None:
    """The method's prices, for both sides, if they are optimal with some multipliers of other constraints."""
    prices, tasks = optimum.hint, optimum.tasks
    if prices is None or not np.isfinite(prices).all():
        return None
    try:
        try:
            marginal, ranked, log_factor = _marginal_utilities(optimum)
        except _NoDerivative:
            marginal, ranked, log_factor = _by_gradient(optimum), [], 0.0
        by_row = prices * np.exp(-log_factor)
        system = OptimalityConditions(optimum, marginal)
        ties = system.rank(ranked, float(np.exp(-log_factor)))
        cost = np.asarray(optimum.loads.T @ by_row).ravel()
        whole = float(tasks @ np.maximum(system.marginal[: len(tasks)], cost)) or 1.0
        slack = np.maximum(optimum.program.usable_rows - np.asarray(optimum.loads @ tasks).ravel(), 0.0)
        if not (np.isfinite(whole) and by_row.min() >= -TRUST * whole and float(by_row @ slack) <= TRUST * whole):
            return None
        conditions, _ = system.conditions(np.zeros(0, dtype=np.intp), np.zeros(0), whole, paid=cost)
    except _NoDerivative:
        return None
    return (prices, prices, 0.0) if MultiplierSet(conditions, ties).consistent else None


def _by_gradient(optimum: Optimum) -> Float:
    """The marginal utility of a task of each pair by CVXPY's gradient of the objective (at a kink, one of several)."""
    cone = ConeModel(optimum.program)
    required = len(cone.model.required)
    expression = cp.sum(optimum.objective.expression(cone.model))
    if len(cone.model.required) > required or any(v.id != cone.unknowns.id for v in expression.variables()):
        raise _NoDerivative
    pairs = optimum.program.pairs
    cone.unknowns.save_value(optimum.point.tasks_by_server[pairs.user, pairs.server] / cone.scale)
    gradient = gradient_of(expression, cone.unknowns)
    if gradient is None:
        raise _NoDerivative
    marginal: Float = (gradient.toarray().ravel() / cone.scale)[optimum.open_pairs]
    if not np.isfinite(marginal).all():
        raise _NoDerivative
    return marginal
