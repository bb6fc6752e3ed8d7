"""A policy's program at the tasks of an allocation: what is full, who is at which bound, what a task brings there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp

from fairopt.blocks.algebra import AtLeast, tiers_of
from fairopt.blocks.base import Block, is_ours
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Objective, OrderedWeighted, Tiers, Total
from fairopt.blocks.shares import Share
from fairopt.formulation.program import ConeModel, Program
from fairopt.proofs.conditions import gradient_of

if TYPE_CHECKING:
    from fairopt.allocation import Allocation

__all__ = [
    "TIES", "Optimum", "Power", "Ranked", "Rest", "first_tier", "log_share_slope", "log_worth", "parts",
]  # fmt: skip

Float = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

# What is left of a capacity that counts as full, and of a task limit that counts as reached. In 600 answers of every
# method full rows had 1e-16 to 1e-6 left (interior points on servers), others 1e-4 and more; limits 1e-16 to 1e-7.
FULL = 1e-6
# The part of a user's tasks that is none: where prices make a server too dear by r, interior points leave 1e-10 / r.
USED = 1e-6
# The part of what a user could run alone that is none, under objectives that may leave users with nothing.
NOTHING = 1e-7
ROUNDING = 1e-15  # and under objectives that level users, where lower bounds of others may leave somebody nothing
# Differences of shares, and distances from limits, that count as none under objectives that level users. Linear
# programs and water-filling leave 1e-16 to 1e-10; the coarser ones are for where that explains nothing, as after tiers
# (and so is ten times as much of a capacity: at alpha = 5 solvers leave 1e-6 to 1e-4 of what only the rich need).
TIES = (1e-8, 1e-6, 1e-5)


class _Unknown(Exception):
    """What the blocks say is not enough, or not for so many."""


class Optimum:
    """A policy's program at the tasks of an allocation: who is at which bound, and what is full."""

    def __init__(self, allocation: Allocation, tie: float) -> None:
        policy = allocation.policy
        self.tie = tie
        self.objective: Objective = first_tier(allocation)
        self.tiered = isinstance(policy.objective, Tiers)
        constraints = tuple(policy.constraints)
        ours = all(is_ours(block) for block in _within((self.objective, constraints)))
        self.program = program = Program(allocation.instance, self.objective, constraints, merge=ours)
        self.evidence = allocation.evidence_prices
        if program.empty:
            return
        self.point = Point(program.instance, program.gather_rows(allocation.tasks_by_server))
        alone = [t for c, t in self.objective.terms() if c > 0]
        self.levelled = len(alone) == 1 and isinstance(alone[0], (MaxMin, Leximin)) and is_ours(alone[0])
        pairs = program.pairs
        tasks = self.point.tasks_by_server[pairs.user, pairs.server]
        # pairs that nothing can ever run at: of users bounded by zero, and of resources reserved altogether
        shut = program.high[pairs.user] <= 0
        if (closed := program.usable_rows <= 0).any():
            shut = shut | (np.asarray(pairs.loads.T @ closed.astype(float)).ravel() > 0)
        self.kept = np.flatnonzero(~shut)
        every = not shut.any()
        self.user, self.tasks = pairs.user[self.kept], tasks[self.kept]
        self.loads = pairs.loads if every else pairs.loads[:, self.kept]
        n = program.instance.n_users
        self.total = np.bincount(self.user, weights=self.tasks, minlength=n)
        bends = any(_bends(t) for t in alone)
        self.reach = self.tasks if bends or self.levelled else program.most[self.user]
        self.runs = self.total > (0.0 if bends else (ROUNDING if self.levelled else NOTHING) * program.most)
        self.used = self.runs[self.user] & (self.tasks > USED * self.total[self.user])
        if program.single and self.levelled:  # whom lower bounds of others leave nothing: it has one place to rise at
            self.used |= ~self.runs[self.user]
        full = max(FULL, 10 * tie)
        near = tie if self.levelled else full
        self.high = np.isfinite(program.high) & (self.total >= program.high * (1 - near))
        self.low = np.where(program.low > 0, self.total <= program.low * (1 + near), ~self.runs)
        used = np.asarray(self.loads @ self.tasks).ravel()
        self.full = np.flatnonzero((used > 0) & (used >= program.usable_rows * (1 - full)))

    def of(self, by_user: Float) -> Float:
        """Values of shape (n_users,) or (n_users, n_servers), by pair."""
        return self.program.pairs.of(by_user)[self.kept]

    def rates(self, share: Share) -> Float:
        """Share per weight of a task of each pair."""
        c = self.of(share.coefficients(self.program.instance))
        return c / self.program.instance.weights[self.user]

    def relative_shares(self, share: Share) -> Float:
        """Shares per weight."""
        return self.point.share(share) / self.program.instance.weights

    def shown(self, by_row: Float) -> Float:
        """Derivatives by usable fraction of each row as (n_servers, n_resources) per natural unit of capacity."""
        with np.errstate(invalid="ignore"):
            usable = np.where(by_row == 0, 0.0, by_row * self.program.usable_rows)
        return self.program.expand_prices(usable)

    @property
    def hint(self) -> Float | None:
        """The evidence, by usable fraction of each full row."""
        program = self.program
        if self.evidence is None or self.evidence.shape != program.given.capacities.shape:
            return None
        first = np.unique(program.unmerged.server_classes, return_index=True)[1] if program.merge else slice(None)
        whole = program.instance.capacities * program.instance.counts[:, None]
        return (self.evidence[first] * whole).ravel() / np.where(program.usable_rows > 0, program.usable_rows, 1.0)

    @cached_property
    def rest(self) -> Rest:
        """The policy's conditions that are no bounds."""
        return _rest(self)


def _within(value: Any) -> Iterator[Block]:
    """Blocks, and those that they hold."""
    if isinstance(value, Block):
        yield value
        value = tuple(vars(value).values())
    if isinstance(value, tuple):
        for part in value:
            yield from _within(part)


# -- what objectives are worth -----------------------------------------------------------------------------------------


class Power(NamedTuple):
    """A derivative ``exp(log_factor) (s_j / w_j)^-alpha`` by each share."""

    log_factor: float
    share: Share
    alpha: float


class Ranked(NamedTuple):
    """``factor`` times the sorted shares per weight, weighted by v."""

    factor: float
    share: Share
    v: tuple[float, ...]


def _bends(objective: Objective) -> bool:
    """Whether an objective gives everybody something: shares near zero are worth ever more."""
    return isinstance(objective, (AlphaFair, FairnessEfficiency)) and _alpha(objective) > 0


def _alpha(objective: AlphaFair | FairnessEfficiency) -> float:
    if isinstance(objective, AlphaFair):
        return objective.alpha
    return objective.beta if objective.beta != 1 else 0.0


def parts(objective: Objective, point: Point) -> tuple[list[Power], list[Ranked]]:
    """A sum of objectives as derivatives in closed form and ranked shares."""
    powers: list[Power] = []
    ranked: list[Ranked] = []
    for factor, term in objective.terms():
        if factor == 0:
            continue
        log_factor = float(np.log(factor))
        if not is_ours(term):
            raise _Unknown
        if isinstance(term, Total):
            powers.append(Power(log_factor, term.share, 0.0))
        elif isinstance(term, AlphaFair):
            powers.append(Power(log_factor, term.share, term.alpha))
        elif isinstance(term, FairnessEfficiency):
            powers += [p._replace(log_factor=p.log_factor + log_factor) for p in _of_measure(term, point)]
        elif isinstance(term, (MaxMin, Leximin)):
            ranked.append(Ranked(factor, term.share, (1.0,)))
        elif isinstance(term, OrderedWeighted):
            ranked.append(Ranked(factor, term.share, term.weights))
        else:
            raise _Unknown
    return powers, ranked


def _of_measure(term: FairnessEfficiency, point: Point) -> list[Power]:
    """``|f| = P^(1/b) S^(lam - (1-b)/b)`` with ``P = sum_j w_j (s_j/w_j)^(1-b)`` and ``S = sum_j s_j``, differentiated.

    The derivative by s_j is ``|f| (a (s_j/w_j)^-b / P + (l - a) / S)``, with P and S the sums of its two logarithms.
    """
    log_f, log_p, log_total = _log_measure(term, point)
    out = []
    if term.threshold > 0:
        out.append(Power(log_f - log_p + float(np.log(term.threshold)), term.share, term.beta))
    extra = term.emphasis - term.threshold
    if extra > 1e-12 * term.threshold:
        out.append(Power(log_f - log_total + float(np.log(extra)), term.share, 0.0))
    return out


def _log_measure(term: FairnessEfficiency, point: Point) -> tuple[float, float, float]:
    """Logarithms of |f|, P and S."""
    w, q = point.weights, 1.0 - term.beta
    with np.errstate(divide="ignore"):
        log_z = np.log(point.share(term.share) / w)
    log_p = float(logsumexp(q * log_z, b=w)) if q else float(np.log(w.sum()))
    log_total = float(logsumexp(log_z, b=w))
    return log_p / term.beta + (term.lam - q / term.beta) * log_total, log_p, log_total


def log_share_slope(term: Objective, point: Point) -> float:
    """Logarithm of the derivative of the equal share of the same value by the objective.

    If all had the same share z per weight, alpha-fairness would be ``W u(z)``, a total ``W z``, the smallest share z,
    ordered weights ``z sum v``, and the measure of fairness and efficiency ``sgn(1-b) W (z W)^lam``: each is solved for
    z (Atkinson 1970, for alpha-fairness: the power mean).
    """
    w = point.weights
    log_weight = float(np.log(w.sum()))
    if isinstance(term, AlphaFair):
        log_z, power = np.log(point.share(term.share) / w), 1.0 - term.alpha
        log_mean = (float(logsumexp(power * log_z, b=w)) - log_weight) / power if power else float(w @ log_z) / w.sum()
        return term.alpha * log_mean - log_weight
    if isinstance(term, FairnessEfficiency):
        log_f = _log_measure(term, point)[0]
        return (log_f - log_weight) / term.lam - log_weight - float(np.log(abs(term.lam))) - log_f
    if isinstance(term, OrderedWeighted):
        return -float(np.log(sum(term.weights[: len(w)])))
    return -log_weight if isinstance(term, Total) else 0.0


def log_worth(optimum: Optimum, powers: Sequence[Power]) -> Float:
    """Logarithm of what a task of each pair brings, by the parts that have a derivative."""
    out: Float = np.full(len(optimum.user), -np.inf)
    for log_factor, share, alpha in powers:
        c = share.coefficients(optimum.program.instance)
        term = log_factor + np.log(optimum.of(c))
        if alpha:
            with np.errstate(divide="ignore"):
                term -= alpha * np.log(optimum.relative_shares(share))[optimum.user]
        out = np.logaddexp(out, term) if len(powers) > 1 else term
    return out


# -- other conditions --------------------------------------------------------------------------------------------------


class Rest(NamedTuple):
    """Conditions that hold with equality, linear or touched where they stand.

    ``charges`` of shape (n_conditions, n_pairs) is what a unit of each multiplier charges per task; ``signed`` says
    which are equations; ``known`` that all of them are linear or in closed form, ``straight`` that all are linear.
    """

    charges: sp.csr_array
    signed: Mask
    known: bool
    straight: bool


def _rest(optimum: Optimum) -> Rest:
    program, point = optimum.program, optimum.point
    rows: list[Any] = []
    signed: list[Mask] = []
    known = straight = True
    if program.rest:
        cone = ConeModel(program)
        pairs = program.pairs
        cone.unknowns.save_value(point.tasks_by_server[pairs.user, pairs.server] / cone.scale)
        for block, _, condition in cone.rest:
            if isinstance(block, AtLeast) and not _straight(condition) and all(map(is_ours, _within(block))):
                if block.objective.value(point) - block.level > FULL * block.objective.drop(point):
                    continue
                powers, ranked = parts(block.objective, point)
                if ranked:
                    raise _Unknown
                rows.append(-sp.csr_array(np.exp(log_worth(optimum, powers))[None, :]))
                signed.append(np.zeros(1, dtype=bool))
                straight = False
                continue
            if not _straight(condition):
                known = straight = False
            found = _touched(condition, cone)
            rows.append(found[0][:, optimum.kept])
            signed.append(found[1])
    empty = sp.csr_array((0, len(optimum.user)))
    return Rest(
        sp.csr_array(sp.vstack([empty, *rows])), np.concatenate([np.zeros(0, dtype=bool), *signed]), known, straight
    )  # fmt: skip


def _straight(condition: cp.Constraint) -> bool:
    return all(argument.is_affine() for argument in condition.args)


def _touched(condition: cp.Constraint, cone: ConeModel) -> tuple[sp.csr_array, Mask]:
    """Rows of a condition that hold with equality, per task of each pair, and whether they are equations."""
    equation = isinstance(condition, (cp.constraints.Equality, cp.constraints.Zero))
    bounds = (cp.constraints.Inequality, cp.constraints.NonPos, cp.constraints.NonNeg)
    if not equation and not isinstance(condition, bounds):
        raise _Unknown
    if any(v.id != cone.unknowns.id for v in condition.variables()):
        raise _Unknown
    expression = condition.expr if hasattr(condition, "expr") else condition.args[0]
    sign = -1.0 if isinstance(condition, cp.constraints.NonNeg) else 1.0
    jacobian = gradient_of(expression, cone.unknowns)
    if jacobian is None:
        raise _Unknown
    jacobian = sign * sp.csr_array(jacobian).T.tocsr()
    value = sign * np.asarray(expression.value, dtype=float).ravel(order="F")
    terms = np.asarray(abs(jacobian) @ np.abs(cone.unknowns.value)).ravel()
    binds = np.flatnonzero(equation | (value >= -FULL * np.maximum(terms, np.abs(value))))
    return jacobian[binds] @ sp.diags_array(1.0 / cone.scale), np.full(len(binds), equation)


def first_tier(allocation: Allocation) -> Any:
    """The objective of an allocation's policy, the first of tiers; None where it has none."""
    objective: Any = getattr(allocation.policy, "objective", None)
    return tiers_of(objective)[0]
