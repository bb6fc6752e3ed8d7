"""The normal form of objectives: a sum of terms, each a multiple of a function (a `Kind`) of one share.

    f(x) = sum_t factor_t kind_t(s^t(x)),   s^t_j = c_j x_j of user j, or of a team, or above a base; z_j = s_j / w_j

    Linear    sum_j s_j                                     Ranked    sum_k v_k z_(k), v_1 >= v_2 >= ... >= 0
    Power     sum_j w_j z_j^(1-alpha) / (1-alpha)           Order     leximin, whose value is z_(1)
    Spread    minus a sum of convex powers                  Plane     fairness and efficiency (`efficiency`)

A block returns its terms; value, CVXPY expression, solver form, majorant and derivatives follow from these. Dispatch
reads properties of terms (`Term.alpha`, `Term.ranks`, `Term.is_order`, ...), never the class of an objective. So a
multiple, a sum and a named notion of the same kind are solved and proved alike, and a user's kind beside them.

Floats: tolerances of solvers are absolute, hence a ``solver_form``: shares relative to the max-min level, and for alpha
above 1 the logarithm of a sum of exponentials, since ``z^-19`` has no usable scale. Values in natural units may
overflow at large alpha, where certificates still compare means (`Power.relative_gap`). Near alpha = 1 the form is
Box-Cox (`fairopt.blocks.form`). The mathematics is in docs/methods/objectives.md, chapter 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fairopt.blocks.base import is_ours
from fairopt.blocks.form import Curve, Form, Sorted, ratio_gap
from fairopt.blocks.marginal import Marginal, PowerMarginal
from fairopt.blocks.model import Model, Point
from fairopt.blocks.numbers import Numbers
from fairopt.blocks.powers import log_inverse_boxcox, log_sum_exp
from fairopt.blocks.shares import Share
from fairopt.blocks.terms import Condition, OutcomeSymbols, UserSymbols, all_of, any_of, simple_fraction
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import cp

# Number of users times steps of ordered weights above which a sorting network replaces sums of smallest entries (300
# users, all weights different: 5 s and 12 s; cutting planes had not converged after 400 programs).
NETWORK_FROM = 10_000
LARGEST = 1e6  # alpha: the rounding of a level is alpha times as much of its power, 2e-10 there
ALLOWED = "give Linear(), Power(alpha), Ranked(weights), Order(), or a direct subclass of Kind"


@dataclass(frozen=True)
class Kind:
    """A concave function of the shares of all users; frozen, so that terms compare."""

    is_natural: ClassVar[bool] = True  # False if `majorant` bounds a transform of `value`
    in_levels: ClassVar[bool] = False  # whether values are in units of the max-min level

    @property
    def levels_users(self) -> bool:
        """Whether shares are compared between users, so that each must be positive."""
        return True

    @property
    def is_known(self) -> bool:
        """Whether fairopt defines it, so that it has a bound and treats users and servers symmetrically."""
        return is_ours(self)

    @property
    def is_concave(self) -> bool:
        """Whether it, or an increasing transform of it, is concave."""
        return True

    @property
    def in_logs(self) -> bool:
        """Whether `expression` is the logarithm of the function."""
        return False

    @property
    def steep_at_zero(self) -> bool:
        """Whether its derivative is infinite at a share of zero, so that every user runs tasks."""
        return False

    @property
    def simplest(self) -> Kind:
        """The simplest kind with the same optimum."""
        return self

    @property
    def of_bundles(self) -> bool:
        """Whether it is a function of bundles, which need not be multiples of demands."""
        return False

    def expression(self, share: Any, model: Model) -> cp.Expression:
        """The function in natural units, concave by CVXPY's rules."""
        raise InvalidBlock(f"{type(self).__name__} has no expression(share, model); write it")

    def solver_form(self, share: Any, model: Model) -> cp.Expression | None:
        """An increasing transform that is better conditioned for solvers; None for none."""
        return None

    def value(self, share: Any, point: Point) -> float:
        """The function at an allocation, in natural units."""
        raise InvalidBlock(f"{type(self).__name__} has no value(share, point); write it")

    def majorant(self, share: Any, point: Point) -> Form | None:
        """An upper bound, tight at the point, that certificates maximise exactly; None for the tangent."""
        return None

    def marginal(self, share: Any, instance: Instance) -> Marginal | None:
        """Its derivatives by the tasks of each user, if it is a sum of one concave function per user.

        Of fairopt's own kinds certificates use them as they are, of users' kinds the CVXPY expression.
        """
        return None

    def curves(self, log_z: Float, weights: Float) -> tuple[Curve, ...] | None:
        """Curves of shares per weight that have its derivatives at logarithms of these, over ``exp(log_unit)``.

        None if it is not differentiable. Curves whose coefficients depend on the point have a `Common`.
        """
        return None

    def log_unit(self, log_z: Float, weights: Float) -> float:
        """The logarithm of natural units per unit of `curves`."""
        return 0.0

    def rate(self, z: Float, w: Float, dz: Float, dw: Float, d_alpha: float) -> float:
        """Its natural derivative along changes of shares per weight z, weights w and alpha; NaN if unknown."""
        return np.nan

    def log_share_slope(self, log_z: Float, weights: Float) -> float | None:
        """The logarithm of the derivative by the value of the equal share with this value; None if unknown.

        With equal shares z per weight alpha-fairness is ``W u(z)``, a sum ``W z``, ordered weights ``z sum v``, and the
        measure of fairness and efficiency ``sgn(1-b) W (z W)^lam``. For alpha-fairness z is the power mean (Atkinson
        1970).
        """
        return None

    def conditions(self, symbols: OutcomeSymbols) -> Condition | None:
        """The optimality conditions of an outcome on one pool, in polynomials; None if not stated."""
        return None

    def relative_gap(self, bound: float, value: float, share: Any, point: Point) -> float | None:
        """The relative gap of a bound and a value in the units of `majorant`; None for the unit of the objective."""
        return None

    def loss(self, best: Point, gap: float, share: Any, point: Point) -> float | None:
        """The fraction of the optimum that a point loses, ``best`` being within ``gap``; None for the objective's."""
        return None

    def losses(self, best: Point, gap: float, share: Any, point: Point) -> Float | None:
        """The same for each level of a leximin; None for other kinds."""
        return None

    def natural(self, value: float, weight: float) -> tuple[float, float]:
        """The function and its derivative at a total weight, given the value of alpha-fairness of the same optimum."""
        return value, 1.0

    def in_sum(self) -> Kind:
        """The kind to use beside other terms, where natural values are added."""
        return self

    def fault(self, alone: bool) -> str:
        """Why this kind of fairopt's cannot be used in user-defined terms, with the fix; empty if it can."""
        return ALLOWED


@dataclass(frozen=True)
class Power(Kind):
    """``sum_j w_j u(s_j / w_j)`` with ``u(z) = z^(1-alpha) / (1-alpha)``, log z at alpha = 1; alpha > 0."""

    alpha: float

    @property
    def steep_at_zero(self) -> bool:
        return self.alpha > 0

    def _natural(self, level: float, total_weight: float) -> tuple[float, float]:
        """Unit and shift: natural value = unit * (mean of Box-Cox of the relative shares) + shift."""
        power = 1.0 - self.alpha
        with np.errstate(over="ignore"):  # an infinite unit leaves the gap, which is relative, as it is
            unit = float(total_weight * np.float64(level) ** power)
        return unit, unit / power if power else float(total_weight * np.log(level))

    def expression(self, share: Share, model: Model) -> cp.Expression:
        unit, shift = self._natural(model.level(share), model.weights_of(share).sum())
        return unit * self._mean_power(share, model) + (shift if self.alpha == 1 else 0.0)

    def _mean_power(self, share: Share, model: Model, as_sum: bool = False) -> cp.Expression:
        """The weighted mean, or mean times number, of ``z^(1-alpha)/(1-alpha)`` (log z at 1) of relative shares z."""
        total = model.weights_of(share).mean() if as_sum else model.weights_of(share).sum()
        u, factor = model.split_share(share)  # z = level * factor * u, with u near 1 at the estimated optimum
        mean = model.weights_of(share) / total
        # z = factor u: powers of the factor are numbers of a program, and powers of u near 1
        if self.alpha == 1:
            return mean @ cp.log(u) + mean @ np.log(factor)
        power = 1.0 - self.alpha
        return ((mean * factor**power) @ cp.power(u, power, approx=not model.exact_powers)) / power

    def solver_form(self, share: Share, model: Model) -> cp.Expression:
        """The logarithm of the power mean for alpha > 1 (exponential cones only); the mean power otherwise."""
        if self.alpha <= 1:
            # Tolerances of solvers are absolute, so a sum is better than a mean: ECOS failed on the mean of 1,000
            # logarithms, and SCS took 10 times as long. Clarabel prefers the mean of powers (gap 3e-10, not 2.6).
            return self._mean_power(share, model, as_sum=not wants_mean(self.alpha, model.solver))
        power = 1.0 - self.alpha
        u, factor = model.split_share(share)
        relative = model.weights_of(share) / model.weights_of(share).mean()
        return cp.log_sum_exp(power * cp.log(u) + power * np.log(factor) + np.log(relative)) / power

    def value(self, share: Share, point: Point) -> float:
        """Minus infinity if a share is zero (alpha >= 1) or the value overflows."""
        w, power = point.weights_of(share), 1.0 - self.alpha
        z = point.share(share) / w
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value = float((w * (z**power / power if power else np.log(z))).sum())
        return value if np.isfinite(value) else -np.inf

    def majorant(self, share: Share, point: Point) -> Form:
        """The function itself, in units of the max-min level."""
        level, w = point.level(share), point.weights_of(share)
        unit, shift = self._natural(level, w.sum())
        relative, numbers = per_weight(share, point.instance, level)
        curve = Curve(relative, w / w.sum(), self.alpha, numbers)
        return Form(curves=(curve,), unit=unit, shift=shift)

    def marginal(self, share: Share, instance: Instance) -> Marginal | None:
        if not share._is_plain:
            return None
        c, w = share.coefficients(instance, levelled=True), instance.weights
        return PowerMarginal([Curve(c / w, w, self.alpha)]) if c.ndim == 1 else None

    def fault(self, alone: bool) -> str:
        return "" if 0 <= self.alpha <= LARGEST else f"give an alpha from 0 to {LARGEST:g}"

    def curves(self, log_z: Float, weights: Float) -> tuple[Curve, ...]:
        return (Curve(np.ones(len(weights)), weights, self.alpha),)

    def rate(self, z: Float, w: Float, dz: Float, dw: Float, d_alpha: float) -> float:
        alpha = self.alpha
        u = np.log(z) if alpha == 1 else z ** (1 - alpha) / (1 - alpha)
        # d(w u(z)) = w u' dz + u dw; a user without a share has u = -inf, which counts only if its weight changes
        out = float((w * z**-alpha * dz).sum()) + float(dw[dw != 0] @ u[dw != 0])
        if d_alpha:  # at alpha = 1 powers become logarithms: not differentiable
            out += d_alpha * float((w * u * (1 / (1 - alpha) - np.log(z))).sum()) if alpha != 1 else np.nan
        return out if np.isfinite(out) else np.nan

    def log_share_slope(self, log_z: Float, weights: Float) -> float:
        power, log_weight = 1.0 - self.alpha, float(np.log(weights.sum()))
        # dV / dM of V = W M^(1-alpha) / (1-alpha) is W M^-alpha, for the power mean M
        if power:
            log_mean = (float(log_sum_exp(power * log_z, weights)) - log_weight) / power
        else:
            log_mean = float(weights @ log_z) / weights.sum()
        return self.alpha * log_mean - log_weight

    def conditions(self, symbols: OutcomeSymbols) -> Condition | None:
        """With level ``v^b`` and alpha = a/b, a bundle costs ``v^(b-a)`` per weight, and at a limit at most that."""
        alpha = simple_fraction(self.alpha)
        if not alpha:  # no fraction of small numbers: powers would have no polynomial
            return None
        a, b = alpha.as_integer_ratio()

        def optimal(user: UserSymbols) -> Condition:
            v = symbols.root(user.level, b)
            cost, utility = v ** max(a - b, 0) * symbols.cost(user), v ** max(b - a, 0)
            return any_of([all_of([user.below_limit, cost == utility]), all_of([user.at_limit, cost <= utility])])

        return all_of(map(optimal, symbols.users))

    def relative_gap(self, bound: float, value: float, share: Share, point: Point) -> float:
        """The logarithm of the ratio of the bound on the weighted power mean to its value."""
        power = 1.0 - self.alpha
        if self.alpha > 1 and bound * power <= -1:  # the bound allows infinite shares: Box-Cox is below 1 / (alpha - 1)
            return np.inf
        return log_inverse_boxcox(bound, power) - log_inverse_boxcox(value, power)

    def loss(self, best: Point, gap: float, share: Share, point: Point) -> float:
        """The fraction of the weighted power mean."""
        value = self.majorant(share, point).value(point)
        if not value > -np.inf:  # a share of 0 at alpha >= 1: the power mean is 0 too
            return 1.0
        # as parts of the power mean: 1 - e^-(gap + log of the ratio)
        lost = self.relative_gap(self.majorant(share, best).value(best), value, share, point)
        return -float(np.expm1(-gap - max(lost, 0.0)))


@dataclass(frozen=True)
class Linear(Power):
    """The sum of the shares: the power at alpha = 0, in which weights cancel."""

    alpha: float = field(default=0.0, init=False, repr=False)

    @property
    def levels_users(self) -> bool:
        return False

    def expression(self, share: Share, model: Model) -> cp.Expression:
        return cp.sum(model.share(share))

    def solver_form(self, share: Share, model: Model) -> cp.Expression:
        """The sum in units of a level, with coefficients near 1: tolerances of solvers are absolute."""
        return cp.sum(model.share(share)) / model.unweighted_level(share)

    def value(self, share: Share, point: Point) -> float:
        return float(point.share(share).sum())

    def majorant(self, share: Share, point: Point) -> Form:
        """The sum itself."""
        # sum c x / level = sum of boxcox(c x / level; 1) + n, less what bases take
        level, numbers = point.unweighted_level(share), share._numbers(point.instance)
        base = 0.0 if numbers.base is None else float(numbers.base.sum()) / level
        relative = numbers.per_task / level  # a sum over teams is one over users
        ones = np.ones(point.instance.n_users)
        return Form(curves=(Curve(relative, ones, 0.0),), constant=float(len(ones)) - base, unit=level)

    def marginal(self, share: Share, instance: Instance) -> Marginal | None:
        c = share._numbers(instance).per_task
        return PowerMarginal([Curve(c, np.ones(len(c)), 0.0)]) if c.ndim == 1 else None

    def conditions(self, symbols: OutcomeSymbols) -> Condition:
        """The share of a task is at most its cost below the limit, and at least its cost where tasks run."""

        def best(user: UserSymbols) -> Condition:
            share, price = user.coefficient, symbols.task_price(user)
            return all_of([any_of([user.at_limit, share <= price]), any_of([user.tasks == 0, share >= price])])

        return all_of(map(best, symbols.users))

    def relative_gap(self, bound: float, value: float, share: Share, point: Point) -> float:
        return ratio_gap(bound, value)

    def loss(self, best: Point, gap: float, share: Share, point: Point) -> float:
        return _ratio_loss(self.value(share, best), self.value(share, point), gap)


@dataclass(frozen=True)
class Ranked(Kind):
    """``sum_k v_k z_(k)``: shares per weight z in increasing order, with ``v_1 >= v_2 >= ... >= 0``."""

    ranks: tuple[float, ...]

    def expression(self, share: Share, model: Model) -> cp.Expression:
        """Sums of the k smallest times ``v_k - v_{k+1}``, or above `NETWORK_FROM` a sorting network."""
        z = model.relative_share(share)
        if len(self.ranks) == 1:
            return self.ranks[0] * model.level(share) * cp.min(z)
        n, steps = z.shape[0], self.steps(z.shape[0])
        if n * len(steps) > NETWORK_FROM:
            v = np.zeros(n)
            v[: len(self.ranks)] = self.ranks[:n]
            return model.level(share) * (v @ sorted_from_below(z, model.required))
        parts = [drop * (cp.sum(z) if k == n else cp.sum_smallest(z, k)) for k, drop in steps]
        return model.level(share) * sum(parts)

    def fault(self, alone: bool) -> str:
        falls = all(a >= b >= 0 for a, b in pairwise((*self.ranks, 0.0)))
        some = bool(self.ranks) and 0 < self.ranks[0] < np.inf
        return "" if falls and some else "give weights v_1 >= v_2 >= ... >= 0, the first above 0"

    def steps(self, n_users: int) -> list[tuple[int, float]]:
        """``(k, v_k - v_{k+1})`` where the weights decrease, for n users."""
        v = np.zeros(n_users + 1)  # with v_(n+1) = 0: sum_k (v_k - v_(k+1)) S_k (Proposition 3.6)
        given = min(len(self.ranks), n_users)
        v[:given] = self.ranks[:given]
        drop = v[:-1] - v[1:]
        return [(int(k) + 1, float(drop[k])) for k in np.flatnonzero(drop)]

    def solver_form(self, share: Share, model: Model) -> cp.Expression:
        """The same in units of the max-min level and of the sum of weights."""
        if len(self.ranks) == 1:
            return cp.min(model.relative_share(share))
        # so that the optimum is about 1, whatever the weights sum to
        unit = model.level(share) * sum(self.ranks[: len(model.weights_of(share))])
        return self.expression(share, model) / unit

    def value(self, share: Share, point: Point) -> float:
        levels = point.share(share) / point.weights_of(share)
        if len(self.ranks) == 1:
            return float(self.ranks[0] * levels.min(initial=np.inf))
        v = np.asarray(self.ranks[: len(levels)])  # weights beyond the users have nobody to weigh
        return float(np.sort(levels)[: len(v)] @ v)

    def majorant(self, share: Share, point: Point) -> Form:
        """Any mixture of permutations of the weights."""
        relative, numbers = per_weight(share, point.instance)
        return Form(ranked=(Sorted(relative, self.ranks, 1.0, numbers),))

    def log_share_slope(self, log_z: Float, weights: Float) -> float:
        return -float(np.log(sum(self.ranks[: len(weights)])))

    def conditions(self, symbols: OutcomeSymbols) -> Condition | None:
        """For max-min the conditions of leximin, which also maximises the smallest level."""
        return all_of(map(symbols.stopped, symbols.users)) if len(self.ranks) == 1 else None

    def relative_gap(self, bound: float, value: float, share: Share, point: Point) -> float:
        return ratio_gap(bound, value)

    def loss(self, best: Point, gap: float, share: Share, point: Point) -> float:
        """For max-min the gap counts twice, since bottlenecks bound it by its square (Bound 4.3)."""
        twice = 2.0 if len(self.ranks) == 1 else 1.0
        return _ratio_loss(self.value(share, best), self.value(share, point), twice * gap)


@dataclass(frozen=True)
class Order(Ranked):
    """The leximin order of the shares per weight; its value is the first level, the smallest."""

    ranks: tuple[float, ...] = (1.0,)
    order: ClassVar[bool] = True

    def fault(self, alone: bool) -> str:
        return (
            ""
            if alone
            else "an order is not a number and cannot be added; give it alone, or Ranked((1.0,)), its first level"
        )

    def losses(self, best: Point, gap: float, share: Share, point: Point) -> Float:
        """The fraction that each level loses, from the lowest up; gaps count twice as in `Ranked.loss`."""
        optimal, levels = (np.sort(p.share(share) / p.weights_of(share)) for p in (best, point))
        # level by level of the sorted vectors, whoever has them
        kept = np.divide(levels, optimal, out=np.ones(len(optimal)), where=optimal > 0)
        return np.maximum(1.0 - np.minimum(kept, 1.0) * (1.0 - 2.0 * gap), 0.0)


@dataclass(frozen=True)
class Spread(Kind):
    """``-sum_j w_j ((s_j/w_j)^power - 1) / power``, power >= 1, in units of the max-min level and the total weight."""

    in_levels: ClassVar[bool] = True

    power: float

    def expression(self, share: Share, model: Model) -> cp.Expression:
        u, factor = model.split_share(share)
        w = model.weights_of(share) / model.weights_of(share).sum()
        return (1.0 - (w * factor**self.power) @ cp.power(u, self.power, approx=not model.exact_powers)) / self.power

    def solver_form(self, share: Share, model: Model) -> cp.Expression:
        """The negative norm, since powers of shares of different magnitude are badly conditioned."""
        # w u^p as the p-norm of w^(1/p) u: all entries near 1 instead of powers that differ by p times their decades
        u, factor = model.split_share(share)
        relative = (model.weights_of(share) / model.weights_of(share).sum()) ** (1 / self.power) * factor
        # CVXPY approximates powers by fractions with denominators of up to 1,024
        if self.power - 1 <= (0 if model.exact_powers else 1e-3):
            return -(relative @ u)
        return -cp.pnorm(cp.multiply(relative, u), self.power, approx=not model.exact_powers)

    def value(self, share: Share, point: Point) -> float:
        return self.majorant(share, point).value(point)

    def majorant(self, share: Share, point: Point) -> Form:
        """The function itself."""
        w = point.weights_of(share)
        relative, numbers = per_weight(share, point.instance, point.level(share))
        return Form(curves=(Curve(relative, -w / w.sum(), 1.0 - self.power, numbers),))

    def marginal(self, share: Share, instance: Instance) -> Marginal | None:
        curves = self.majorant(share, Point(instance, np.zeros((instance.n_users, instance.n_servers)))).curves
        return PowerMarginal(curves) if curves[0].c.ndim == 1 and share._is_plain else None

    def relative_gap(self, bound: float, value: float, share: Share, point: Point) -> float:
        """Relative to the sum of powers."""
        return ratio_gap(1.0 - self.power * value, 1.0 - self.power * bound) / self.power


@dataclass(frozen=True)
class Several(Kind):
    """Stands for a sum of several terms where one term is expected; it has no properties."""

    @property
    def levels_users(self) -> bool:
        return False


@dataclass(frozen=True)
class Term:
    """``factor`` times a function of one share.

    Attributes
    ----------
    factor : float
        At least 0.
    kind : Kind
        The function.
    share : Share
        The argument; None if there is none, or several.
    """

    factor: float
    kind: Kind
    share: Any

    def __post_init__(self) -> None:
        if not 0 <= self.factor < np.inf:
            raise InvalidBlock(
                f"a term has the factor {self.factor!r}; give a finite number >= 0: a negative multiple of a concave "
                "objective is not concave"
            )
        if self.kind == Power(0.0):
            object.__setattr__(self, "kind", Linear())
        elif isinstance(self.kind, Ranked):
            ranks = self.kind.ranks
            if ranks != (1.0,) and (len(ranks) == 1 or not all(ranks[-1:])):  # normalised already
                self._normalise(self.kind, np.trim_zeros(np.asarray(ranks, dtype=float), "b"))

    def _normalise(self, kind: Ranked, ranks: Float) -> None:
        """Remove zero weights, and write a multiple of the smallest level as such."""
        if len(ranks) == 1:
            object.__setattr__(self, "factor", float(self.factor * ranks[0]))
            ranks = ranks / ranks[0]
        object.__setattr__(self, "kind", replace(kind, ranks=tuple(ranks.tolist())))

    # -- properties that select a method ---------------------------------------------------------------------------

    @cached_property
    def alpha(self) -> float | None:
        """The alpha of the alpha-fairness with the same optimum, 0 for a sum of shares; None for other kinds."""
        return self._attribute("alpha")

    @property
    def is_linear(self) -> bool:
        """Whether a sum of shares has the same optimum."""
        return self.alpha == 0

    @property
    def is_curved(self) -> bool:
        """Whether alpha-fairness with alpha > 0 has the same optimum."""
        return self.alpha is not None and self.alpha > 0

    @property
    def is_simple(self) -> bool:
        """Whether a sum of shares, alpha-fairness or max-min has the same optimum."""
        return self.alpha is not None or self.is_smallest

    @cached_property
    def ranks(self) -> tuple[float, ...] | None:
        """The weights of the sorted shares per weight, from the smallest share up; None for other kinds."""
        return self._attribute("ranks")

    @property
    def is_order(self) -> bool:
        """Whether it is the leximin order."""
        return bool(self._attribute("order"))

    @property
    def is_smallest(self) -> bool:
        """Whether it is a multiple of the smallest share per weight: max-min, or the first level of leximin."""
        return self.ranks is not None and len(self.ranks) == 1

    @property
    def measure(self) -> Any:
        """The `FairnessEfficiency` of a term of the (beta, lambda) plane; None for other kinds."""
        return self._attribute("measure")

    def _attribute(self, name: str) -> Any:
        """An attribute of a kind of fairopt's; in users' kinds the name may mean something else."""
        return getattr(self.kind, name, None) if self.kind.is_known else None

    def fault(self, alone: bool) -> str:
        """Why it cannot be used in user-defined terms, ``alone`` or not, with the fix; empty if it can."""
        kind: Any = self.kind
        if not isinstance(kind, Kind):
            return ALLOWED
        if is_ours(kind):
            return kind.fault(alone)
        # attributes inherited from another kind may contradict its own
        return "" if type(kind).__bases__ == (Kind,) and not kind.is_known else ALLOWED

    # -- values ----------------------------------------------------------------------------------------------------

    def expression(self, model: Model) -> cp.Expression:
        """In natural units, or the logarithm if that is the expression of the kind."""
        expression = self.kind.expression(self.share, model)
        if self.factor == 1:
            return expression
        return expression + np.log(self.factor) if self.kind.in_logs else self.factor * expression

    def times(self, factor: float) -> Term:
        """A multiple."""
        return replace(self, factor=self.factor * factor)

    def value(self, point: Point) -> float:
        """At an allocation, in natural units."""
        return self.factor * self.kind.value(self.share, point)

    def majorant(self, point: Point) -> Form | None:
        """An upper bound, tight at the point, with the factor in its unit and shift."""
        form = self.kind.simplest.majorant(self.share, point)
        if form is None or self.factor == 1:
            return form
        return replace(form, unit=self.factor * form.unit, shift=self.factor * form.shift)

    def natural(self, value: float, weight: float) -> tuple[float, float]:
        """The term and its derivative, for users of this total weight, given the value of that alpha-fairness."""
        value, slope = self.kind.natural(value, weight)
        return self.factor * value, self.factor * slope


def wants_mean(alpha: float, solver: str | None) -> bool:
    """Whether a solver is more accurate for the mean of powers than for their sum."""
    return 0 < alpha < 1 and solver == "CLARABEL"


def per_weight(share: Share, instance: Instance, level: float = 1.0) -> tuple[Float, Numbers | None]:
    """Coefficients of a share per weight, in units of a level, and the numbers so divided, None if of users alone."""
    numbers = share._numbers(instance)
    w = numbers.weights * level
    of_user = w if numbers.of_user is None else w[numbers.of_user]
    c = numbers.per_task / (of_user if numbers.per_task.ndim == 1 else of_user[:, None])
    if share._is_plain:
        return c, None
    return c, replace(numbers, per_task=c, base=None if numbers.base is None else numbers.base / w)


def _ratio_loss(best: float, value: float, gap: float) -> float:
    """The fraction of a nonnegative optimum that a value loses, including a gap."""
    return 1.0 - (1.0 - ratio_gap(best, value)) * (1.0 - gap)


def sorted_from_below(values: cp.Expression, required: list[cp.Constraint]) -> cp.Expression:
    """Variables of shape (n,) that equal the sorted values wherever a sum of them with decreasing weights is maximised.

    Each comparator of a and b adds ``low <= a, low <= b, low + high == a + b`` to ``required``.
    """
    n = values.shape[0]
    # A maximum sorts exactly: a decreasing weighting gains nothing by less order (Proposition 3.7). O(n log^2 n) rows
    # instead of the n^2 of sums of the k smallest for every k.
    for low, high in layers(n):
        rest = np.setdiff1d(np.arange(n), np.concatenate([low, high]))
        after = cp.Variable(n)
        required += [after[low] <= values[low], after[low] <= values[high]]
        required.append(after[low] + after[high] == values[low] + values[high])
        if len(rest):
            required.append(after[rest] == values[rest])
        values = after
    return values


def layers(n: int) -> list[tuple[Indices, Indices]]:
    """The comparators of Batcher's odd-even merge sort of n values, in layers that touch each index at most once.

    Each layer is a pair: the indices that get the smaller values, and those that get the larger ones.

    Examples
    --------
    >>> [(low.tolist(), high.tolist()) for low, high in layers(3)]
    [([0], [1]), ([0], [2]), ([1], [2])]
    """
    out = []
    block = 1  # sorted blocks of this length are merged in pairs; comparators past n are left out, as if by infinities
    while block < n:
        step = block
        while step >= 1:
            start = np.arange(step % block, n - step, 2 * step)
            low = (start[:, None] + np.arange(step)).ravel()
            low = low[low + step < n]
            low = low[low // (2 * block) == (low + step) // (2 * block)]
            if len(low):
                out.append((low, low + step))
            step //= 2
        block *= 2
    return out
