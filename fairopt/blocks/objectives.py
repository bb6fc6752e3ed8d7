"""Objectives: concave functions of the shares, to maximise."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import Objective, Sum, Tiers
from fairopt.blocks.base import brief, parameter
from fairopt.blocks.constraints import MinShare
from fairopt.blocks.majorant import Majorant, PowerTerm, RankedTerm, ratio_gap
from fairopt.blocks.marginal import PowerMarginal
from fairopt.blocks.model import Model, Point
from fairopt.blocks.powers import log_inverse_boxcox
from fairopt.blocks.shares import DominantShare, Share
from fairopt.blocks.sorting import sorted_from_below
from fairopt.blocks.symbols import OutcomeSymbols, UserSymbols
from fairopt.blocks.terms import Condition, all_of, any_of, simple_fraction
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.lazy import cp

__all__ = ["AlphaFair", "Leximin", "MaxMin", "Objective", "OrderedWeighted", "Sum", "Tiers", "Total"]

Float = NDArray[np.float64]

# n users times the steps of OrderedWeighted: beyond, a sorting network is smaller than a sum of k-smallest sums (300
# users, all weights different: 5 s against 12 s; cutting planes had not converged after 400 programs).
NETWORK_FROM = 10_000


class _Ratio(Objective):
    """An objective that is never negative and whose gap is relative to the bound."""

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        return ratio_gap(bound, value)

    def loss(self, best: Point, gap: float, point: Point) -> float:
        return 1.0 - (1.0 - ratio_gap(self.value(best), self.value(point))) * (1.0 - gap)


@dataclass(frozen=True, repr=False)
class Total(_Ratio):
    """The sum of the shares; of `Tasks` the number of tasks ("no fairness constraints", Jiang and Wu 2021).

    Parameters
    ----------
    share : Share, default DominantShare()
        The share that is added up.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Policy(fo.Total(fo.Tasks())).allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks
    array([ 0., 25.])
    """

    share: Share = field(default_factory=DominantShare)

    def expression(self, model: Model) -> cp.Expression:
        return cp.sum(model.share(self.share))

    def solver_form(self, model: Model) -> cp.Expression:
        """The sum in units of a level: coefficients near 1, since solvers' tolerances are absolute."""
        return cp.sum(model.share(self.share)) / model.unweighted_level(self.share)

    def value(self, point: Point) -> float:
        return float(point.share(self.share).sum())

    def conditions(self, symbols: OutcomeSymbols) -> Condition:
        return _of_total(symbols)

    def by_user(self, instance: Instance) -> PowerMarginal | None:
        c = self.share.coefficients(instance)
        return PowerMarginal([PowerTerm(c, np.ones(len(c)), 0.0)]) if c.ndim == 1 else None

    def majorant(self, point: Point) -> Majorant:
        """The objective itself, which is linear."""
        n, level = point.instance.n_users, point.unweighted_level(self.share)
        relative = self.share.coefficients(point.instance) / level
        return Majorant(powers=(PowerTerm(relative, np.ones(n), 0.0),), constant=float(n), unit=level)


@dataclass(frozen=True, repr=False)
class AlphaFair(Objective):
    """Weighted alpha-fairness, ``sum_j w_j u(s_j / w_j)`` with ``u(z) = z^(1-alpha) / (1-alpha)``, log z at 1.

    At alpha = 0 the sum of shares, at 1 Nash welfare, and as alpha grows ever closer to max-min (Mo and Walrand 2000;
    Joe-Wong et al. 2013, eq. 1 with ``lambda = (1-beta)/beta``).

    Parameters
    ----------
    alpha : float
        From 0 to 1e6; for infinity use `Leximin`.
    share : Share, default DominantShare()
        The share that is levelled.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> fo.Policy(fo.AlphaFair(1)).allocate(cluster).tasks.round(4)
    array([0.6667, 2.    ])
    """

    alpha: float
    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        super().__post_init__()
        fix = "give a finite number >= 0; for alpha = infinity use Leximin"
        object.__setattr__(self, "alpha", parameter(self.alpha, "alpha", low=0.0, high=1e6, fix=fix))

    @property
    def levels_users(self) -> bool:
        """Whether shares are levelled: for alpha > 0."""
        return self.alpha > 0

    def expression(self, model: Model) -> cp.Expression:
        unit, shift = self._natural(model.level(self.share), model.weights.sum())
        return unit * self._mean_power(model) + (shift if self.alpha == 1 else 0.0)

    def _natural(self, level: float, total_weight: float) -> tuple[float, float]:
        """Unit and shift with natural value = unit * (mean of Box-Cox of the relative shares) + shift."""
        power = 1.0 - self.alpha
        with np.errstate(over="ignore"):
            unit = float(total_weight * np.float64(level) ** power)
        return unit, unit / power if power else float(total_weight * np.log(level))

    def _mean_power(self, model: Model, as_sum: bool = False) -> cp.Expression:
        """The weighted mean (or mean times number) of ``z^(1-alpha)/(1-alpha)``, or log z, of relative shares z."""
        total = model.weights.mean() if as_sum else model.weights.sum()
        if self.alpha == 0:
            return cp.sum(model.share(self.share)) / (model.level(self.share) * total)
        u, factor = model.split_share(self.share)
        mean = model.weights / total
        if self.alpha == 1:
            return mean @ cp.log(u) + mean @ np.log(factor)
        power = 1.0 - self.alpha
        return ((mean * factor**power) @ cp.power(u, power, approx=not model.exact_powers)) / power

    def solver_form(self, model: Model) -> cp.Expression:
        """Logarithm of the power mean above alpha = 1 (exponential cones only); the mean power below."""
        if self.alpha <= 1:
            # Solvers' tolerances are absolute, so a sum beats a mean: ECOS failed on the mean of 1,000 logarithms, and
            # SCS took 10 times as long. Only Clarabel does better on the mean of powers (a gap of 3e-10 against 2.6).
            return self._mean_power(model, as_sum=not self.solver_wants_mean(model.solver))
        power = 1.0 - self.alpha
        u, factor = model.split_share(self.share)
        relative = model.weights / model.weights.mean()
        return cp.log_sum_exp(power * cp.log(u) + power * np.log(factor) + np.log(relative)) / power

    def solver_wants_mean(self, solver: str | None) -> bool:
        """Whether to give the solver the mean of the powers instead of their sum."""
        return 0 < self.alpha < 1 and solver == "CLARABEL"

    def value(self, point: Point) -> float:
        """Natural units; minus infinity where a share is zero (alpha >= 1) or the value overflows."""
        unit, shift = self._natural(point.level(self.share), point.weights.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            value = unit * self.majorant(point).value(point) + shift
        return float(value) if np.isfinite(value) else -np.inf

    def conditions(self, symbols: OutcomeSymbols) -> Condition | None:
        """With level ``v^b`` and alpha = a/b, a bundle costs ``v^(b-a)`` per weight, and at a limit no more."""
        alpha = simple_fraction(self.alpha)
        if not alpha:
            return None if alpha is None else _of_total(symbols)
        a, b = alpha.as_integer_ratio()

        def spends(user: UserSymbols) -> Condition:
            v = symbols.root(user.level, b)
            pays, worth = v ** max(a - b, 0) * symbols.cost(user), v ** max(b - a, 0)
            return any_of([all_of([user.below_limit, pays == worth]), all_of([user.at_limit, pays <= worth])])

        return all_of(map(spends, symbols.users))

    def by_user(self, instance: Instance) -> PowerMarginal | None:
        c, w = self.share.coefficients(instance, self.levels_users), instance.weights
        return PowerMarginal([PowerTerm(c / w, w, self.alpha)]) if c.ndim == 1 else None

    def majorant(self, point: Point) -> Majorant:
        """The objective itself, a sum of one concave function per user, in units of the max-min level."""
        level, w = point.level(self.share), point.weights
        unit, shift = self._natural(level, w.sum())
        c = self.share.coefficients(point.instance)
        relative = c / (w * level) if c.ndim == 1 else c / (w * level)[:, None]
        return Majorant(powers=(PowerTerm(relative, _mean(w), self.alpha),), unit=unit, shift=shift)

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """The logarithm of the bound on the weighted power mean over the mean achieved."""
        power = 1.0 - self.alpha
        if self.alpha > 1 and bound * power <= -1:  # the bound allows infinite shares
            return np.inf
        return log_inverse_boxcox(bound, power) - log_inverse_boxcox(value, power)

    def loss(self, best: Point, gap: float, point: Point) -> float:
        """The part of the weighted power mean."""
        held = self.majorant(point).value(point)
        if not held > -np.inf:  # a share of 0 at alpha >= 1: so is the power mean
            return 1.0
        return -float(np.expm1(-gap - max(self.relative_gap(self.majorant(best).value(best), held, point), 0.0)))


@dataclass(frozen=True, repr=False)
class _Smallest(_Ratio):
    """Common to `MaxMin` and `Leximin`: the smallest share per weight, the first level of a leximin."""

    share: Share = field(default_factory=DominantShare)
    levels_users: ClassVar[bool] = True

    def expression(self, model: Model) -> cp.Expression:
        return model.level(self.share) * cp.min(model.relative_share(self.share))

    def value(self, point: Point) -> float:
        return float((point.share(self.share) / point.weights).min(initial=np.inf))

    def conditions(self, symbols: OutcomeSymbols) -> Condition:
        """Those of the leximin answer, which that of max-min is too."""
        return all_of(map(symbols.stopped, symbols.users))

    def loss(self, best: Point, gap: float, point: Point) -> float:
        """The gap counts twice: one of bottlenecks bounds the smallest level by its square (`proofs.pool`)."""
        return super().loss(best, 2.0 * gap, point)

    def majorant(self, point: Point) -> Majorant:
        """Any convex combination of the shares per weight."""
        return _ranked(point, self.share, (1.0,))


@dataclass(frozen=True, repr=False)
class MaxMin(_Smallest):
    """The smallest share per weight, ``min_j s_j / w_j``.

    By itself not Pareto-efficient where demands have zeros or users have limits: see `Leximin`.

    Parameters
    ----------
    share : Share, default DominantShare()
        The share that is levelled.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Policy(fo.MaxMin()).allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).objective
    0.5
    """

    def solver_form(self, model: Model) -> cp.Expression:
        """The same in units of the max-min level."""
        return cp.min(model.relative_share(self.share))

    def _as_shares(self, level: float, instance: Instance) -> MinShare:
        return MinShare(tuple(np.maximum(level, 0.0) * instance.weights), self.share)


@dataclass(frozen=True, repr=False)
class OrderedWeighted(_Ratio):
    """The weighted sum of the sorted shares per weight, with the largest weight on the smallest (generalised Gini).

    Parameters
    ----------
    weights : sequence of float
        ``v_1 >= v_2 >= ... >= 0``, padded with zeros: ``(1,)`` is max-min, ``(1, 1, ...)`` the sum.
    share : Share, default DominantShare()
        The share that is sorted.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> fo.Policy(fo.OrderedWeighted((1, 0.5))).allocate(cluster).shares.round(4)
    array([0.5714, 0.5714])
    """

    levels_users: ClassVar[bool] = True

    weights: tuple[float, ...]
    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        super().__post_init__()
        v = tuple(parameter(x, "a weight of OrderedWeighted", low=0.0, high=1e300) for x in np.atleast_1d(self.weights))
        if any(b > a for a, b in pairwise(v)):
            raise InvalidBlock(
                f"weights {brief(v)} of OrderedWeighted grow; give v_1 >= v_2 >= ..., the largest for the poorest"
            )
        if not v or v[0] == 0:
            raise InvalidBlock("weights of OrderedWeighted are all zero; give at least one positive")
        object.__setattr__(self, "weights", v)

    def steps(self, n_users: int) -> list[tuple[int, float]]:
        """``(k, v_k - v_{k+1})`` where the weights step down, for n users."""
        v = np.zeros(n_users + 1)
        given = min(len(self.weights), n_users)
        v[:given] = self.weights[:given]
        drop = v[:-1] - v[1:]
        return [(int(k) + 1, float(drop[k])) for k in np.flatnonzero(drop)]

    def expression(self, model: Model) -> cp.Expression:
        """The sum of ``v_k - v_{k+1}`` times the sum of the k smallest, or beyond `NETWORK_FROM` a sorting network."""
        z = model.relative_share(self.share)
        n = model.instance.n_users
        steps = self.steps(n)
        if n * len(steps) > NETWORK_FROM:
            v = np.zeros(n)
            v[: len(self.weights)] = self.weights[:n]
            return model.level(self.share) * (v @ sorted_from_below(z, model.required))
        parts = [drop * (cp.sum(z) if k == n else cp.sum_smallest(z, k)) for k, drop in steps]
        return model.level(self.share) * sum(parts)

    def solver_form(self, model: Model) -> cp.Expression:
        """The same in units of the max-min level and of the weights' sum."""
        unit = model.level(self.share) * sum(self.weights[: model.instance.n_users])
        return self.expression(model) / unit

    def value(self, point: Point) -> float:
        ordered = np.sort(point.share(self.share) / point.weights)
        v = np.asarray(self.weights[: len(ordered)])
        return float(ordered[: len(v)] @ v)

    def majorant(self, point: Point) -> Majorant:
        """Any mixture of permutations of the weights."""
        return _ranked(point, self.share, self.weights)


@dataclass(frozen=True, repr=False)
class Leximin(_Smallest):
    """Maximise the smallest share per weight, then the second smallest, and so on; of dominant shares it is DRF.

    An order, not a number: it cannot stand in a sum or a level (`MaxMin`, its first level, can).

    Parameters
    ----------
    share : Share, default DominantShare()
        The share that is levelled.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], task_limits=[1.5, None, 1])
    >>> fo.Policy(fo.Leximin()).allocate(cluster).tasks
    array([1.5       , 2.16666667, 1.        ])
    """

    def loss(self, best: Point, gap: float, point: Point) -> float:
        return float(self.losses(best, gap, point).max(initial=0.0))

    def losses(self, best: Point, gap: float, point: Point) -> Float:
        """The part that each level loses, from the smallest share per weight up; the gap counts twice, as above."""
        held, here = (np.sort(p.share(self.share) / p.weights) for p in (best, point))
        kept = np.divide(here, held, out=np.ones(len(held)), where=held > 0)
        return np.maximum(1.0 - np.minimum(kept, 1.0) * (1.0 - 2.0 * gap), 0.0)

    def _refuse_arithmetic(self) -> None:
        raise InvalidBlock(
            f"{self} is an order, not a number: it cannot be added, multiplied or bounded. "
            "Use MaxMin for its first level, or Leximin(...).then(other) to choose among ties"
        )


def _of_total(symbols: OutcomeSymbols) -> Condition:
    """A task's share is at most its price where the user runs fewer than it may, and at least where it runs any."""

    def best(user: UserSymbols) -> Condition:
        share, price = user.coefficient, symbols.task_price(user)
        return all_of([any_of([user.at_limit, share <= price]), any_of([user.tasks == 0, share >= price])])

    return all_of(map(best, symbols.users))


def _mean(weights: Float) -> Float:
    return weights / weights.sum()


def _ranked(point: Point, share: Share, v: tuple[float, ...]) -> Majorant:
    c = share.coefficients(point.instance)
    per_weight = c / point.weights if c.ndim == 1 else c / point.weights[:, None]
    return Majorant(ranked=(RankedTerm(per_weight, v, 1.0),))
