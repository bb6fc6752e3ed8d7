"""The (beta, lambda) plane of fairness and efficiency (Joe-Wong et al. 2013).

With q = 1 - beta, ``P = sum_j w_j z_j^q``, the power mean M of exponent q, and the sum S of the shares,

    f = sgn(1-beta) P^(1/beta) S^(lam - q/beta),   log abs(f) = first * log M + second * log m + const.

An increasing transform is concave if beta > 0 and the emphasis l = lam sgn(1-beta) is at least a = abs(q) / beta:

    h = a log M + (l - a) log S.

At l = a it is alpha-fairness with alpha = beta (`AlphaFairPlane`), at beta = 1 the sum. Below, and for beta < 0, it may
have several local maxima, and the optimum is searched along S (`fairopt.proof.plane_bound`). Propositions 3.8 and 3.9,
docs/methods/objectives.md.

The majorant bounds h and not f: ``log S`` by its tangent, and for q < 0 ``log P`` by Jensen's inequality with weights
pi_j proportional to w_j z_j^q, which makes it a sum of logarithms (Bound 7.2, docs/methods/cone.md). Floats: P may
overflow at large beta, so that everything is in logarithms, and slopes are of shares over their means. Whether l is on
the edge is decided up to 1e-12, since lam = (1-beta)/beta is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fairopt.blocks.base import once, parameter
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.form import Common, Curve, Form
from fairopt.blocks.model import Model, Pairs, Point
from fairopt.blocks.normal_form import Kind, Linear, Power, Spread, Term, per_weight
from fairopt.blocks.objectives import AlphaFair, Objective
from fairopt.blocks.powers import log_fairness, log_sum_exp, log_total
from fairopt.blocks.rows import Rows
from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import InvalidBlock, NotConcave
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.runtime.tolerances import ROUNDING

__all__ = ["AlphaFairPlane", "FairnessEfficiency", "Plane", "PowerSpread", "TotalIs"]


@dataclass(frozen=True, repr=False)
class FairnessEfficiency(Objective):
    """The measure of fairness and efficiency of Joe-Wong et al. (2013, eqs. 3, 7 and 19; after Lan et al. 2010).

    ``f = sgn(1-beta) (sum_j w_j (s_j/(w_j S))^(1-beta))^(1/beta) S^lam`` with ``S = sum_j s_j``. An increasing
    transform of it is concave if beta > 0 and ``lam * sgn(1-beta) >= |1-beta|/beta``. Elsewhere the optimum is found by
    a certified search along S; it may be dominated, and the objective cannot be used in sums, in lower bounds or with
    `Policy.problem`.

    Parameters
    ----------
    beta : float
        The type of fairness, not 0.
    lam : float
        The emphasis on efficiency. At ``lam = (1-beta)/beta`` the optimum is that of `AlphaFair` with alpha = beta.
    share : Share, default DominantShare()
        The share that is measured.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18])
    >>> fo.Policy(fo.FairnessEfficiency(2, -0.5, fo.Tasks())).allocate(cluster).tasks.round(5)
    array([3.29423, 1.90192])
    """

    beta: float
    lam: float
    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        super().__post_init__()
        beta = parameter(self.beta, "beta", low=-1e6, high=1e6)
        lam = parameter(self.lam, "lam", low=-1e6, high=1e6)
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "lam", lam)
        if beta == 0:
            raise InvalidBlock("beta is 0, where the measure is undefined (1/beta); give another beta")
        if beta == 1 and lam <= 0:
            raise InvalidBlock(
                f"beta = 1 leaves S^lam alone, which has no optimum for lam = {lam:g}; "
                "give lam > 0, or AlphaFair(1) for proportional fairness"
            )
        if self.emphasis < 0:
            raise InvalidBlock(
                f"(beta, lam) = ({beta:g}, {lam:g}) has no optimum: the measure grows as all shares shrink to nothing; "
                f"give lam {'<=' if beta > 1 else '>='} 0"
            )

    @property
    def emphasis(self) -> float:
        """``l = lam * sgn(1 - beta)``, the emphasis on efficiency."""
        return self.lam if self.beta <= 1 else -self.lam

    @property
    def threshold(self) -> float:
        """``a = |1 - beta| / |beta|``: the smallest emphasis for which it is concave (beta > 0)."""
        return abs(1 - self.beta) / abs(self.beta)

    @property
    def concave(self) -> bool:
        """Whether an increasing transform of the measure is concave."""
        return self.beta > 0 and self.emphasis >= self.threshold * (1 - ROUNDING)  # (1 - beta) / beta is rounded

    @property
    def strictly_concave(self) -> bool:
        """Whether its logarithm is a strictly concave function of the shares, so that the best shares are unique."""
        return self.concave and self.beta != 1

    def require_concave(self) -> None:
        """Raise `NotConcave` outside the concave region."""
        if not self.concave:
            sign, edge = ">=" if self.beta < 1 else "<=", (1 - self.beta) / self.beta
            where = f"lam {sign} {edge:.6g} at beta = {self.beta:g}" if self.beta > 0 else "beta > 0"
            raise NotConcave(
                f"FairnessEfficiency(beta={self.beta:g}, lam={self.lam:g}) is not concave, so it can only stand alone, "
                f"for allocate; give {where} (beta > 0 and lam * sgn(1-beta) >= |1-beta|/beta)"
            )

    def natural_is_concave(self) -> None:
        """Raise `NotConcave` unless the measure itself is concave, not only its logarithm."""
        self.require_concave()
        if self.beta <= 1:
            other = "AlphaFair" if self.beta < 1 else "Total"
            raise NotConcave(
                f"FairnessEfficiency(beta={self.beta:g}, ...) up to beta = 1 is concave only after a transform, "
                f"so it cannot stand in a sum or a level; use {other}, or let it stand alone"
            )

    @property
    def exponents(self) -> tuple[float, float]:
        """The logarithm of the measure is ``first * log M + second * log m`` plus a constant (Proposition 7.8).

        M is the weighted power mean of exponent 1 - beta, and m the weighted mean, of the shares per weight.
        """
        first = self.threshold if self.beta > 0 else -self.threshold
        return first, self.emphasis - first

    @property
    def evenness(self) -> Objective:
        """The concave objective that maximises the measure at a fixed sum of shares: M, or -M for beta < 0."""
        return AlphaFair(self.beta, self.share) if self.beta > 0 else PowerSpread(1 - self.beta, self.share)

    @once
    def terms(self) -> tuple[Term, ...]:
        alpha_fair = self.beta > 0 and abs(self.emphasis - self.threshold) <= ROUNDING * self.threshold
        # of one term whose kind knows both: as alpha-fairness or a sum it has methods by prices, and its own value
        kind: Kind = Plane(self)
        if self.beta == 1 or alpha_fair:
            kind = AlphaFairPlane(self, Linear() if self.beta == 1 else Power(self.beta))
        return (Term(1.0, kind, self.share),)


@dataclass(frozen=True)
class Plane(Kind):
    """The measure of fairness and efficiency; its majorant bounds the logarithm."""

    is_natural: ClassVar[bool] = False

    measure: FairnessEfficiency

    @property
    def is_concave(self) -> bool:
        return self.measure.concave

    @property
    def in_logs(self) -> bool:
        return self.measure.beta <= 1

    def expression(self, share: Share, model: Model) -> cp.Expression:
        """``-exp(-h)`` for beta > 1, h being the logarithm of the measure; h itself otherwise."""
        measure = self.measure
        h = self._log_measure(share, model) + measure.emphasis * np.log(model.level(share))
        return -cp.exp(-h) if measure.beta > 1 else h

    def solver_form(self, share: Share, model: Model) -> cp.Expression:
        """The logarithm of the measure."""
        return self._log_measure(share, model)

    def _log_measure(self, share: Share, model: Model) -> cp.Expression:
        """``a log M_q + (l - a) log S`` of relative shares, the logarithm of the measure (Proposition 3.8)."""
        measure = self.measure
        measure.require_concave()
        w, q, a = model.weights_of(share), 1 - measure.beta, measure.threshold
        parts = []
        if q:
            u, factor = model.split_share(share)
            total = (w * factor) @ u
        else:  # shares may be zero, and none is a logarithm of its own
            total = cp.sum(model.share(share)) / model.level(share)
        if q < 0:
            parts.append(a / q * cp.log_sum_exp(q * cp.log(u) + q * np.log(factor) + np.log(w)))
        elif q > 0:
            parts.append(a / q * cp.log((w * factor**q) @ cp.power(u, q, approx=not model.exact_powers)))
        else:
            parts.append(np.log(w.sum()))
        if measure.emphasis > a or q == 0:  # at the edge a term of weight 0 would still need S > 0
            parts.append((measure.emphasis - a) * cp.log(total))
        return sum(parts)

    def value(self, share: Share, point: Point) -> float:
        s, measure = point.share(share)[None], self.measure
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            logs = log_fairness(s, point.weights_of(share), measure.beta)[0] + measure.lam * log_total(s)[0]
            return float((1 if measure.beta <= 1 else -1) * np.exp(logs[0]))

    def majorant(self, share: Share, point: Point) -> Form:
        """An upper bound on the logarithm of the measure, tight at the point (Bound 7.2)."""
        w, level = point.weights_of(share), point.level(share)
        relative, numbers = per_weight(share, point.instance, level)
        with np.errstate(divide="ignore"):
            log_z = np.log(point.share(share) / (w * level))
        powers = []
        for one in self.curves(log_z, w):
            # tangents log S <= log S0 - 1 + S / S0 and, for beta < 1, log P <= log P0 - 1 + P / P0; for beta > 1, where
            # a / q < 0, log-sum-exp is at least a mixture plus entropy: log P >= sum pi_j (q log z_j + log(w_j / pi_j))
            alpha, factor = one.alpha, one.factor * one.c ** (1.0 - one.alpha)
            if alpha > 1 and one.common is not None:
                alpha, factor = 1.0, self.measure.threshold * one.common.parts
            powers.append(Curve(relative, factor, alpha, numbers))
        made, sign = Form(curves=tuple(powers)), 1 if self.measure.beta <= 1 else -1
        return replace(made, constant=sign * self._logs(log_z, w)[0] - made.value(point))

    @property
    def steep_at_zero(self) -> bool:
        return 0 < self.measure.beta != 1

    def log_unit(self, log_z: Float, weights: Float) -> float:
        """The logarithm of ``|f|``, as curves are of the logarithm of the measure."""
        return self._logs(log_z, weights)[0]

    def curves(self, log_z: Float, weights: Float) -> tuple[Curve, ...]:
        """With ``P = sum_j w_j z_j^(1-b)`` and ``S = sum_j w_j z_j``, ``|f| = P^(1/b) S^(lam - (1-b)/b)``.

        Its derivative by z_j is ``|f| w_j (a z_j^-b / P + (l - a) / S)``, with threshold a and emphasis l. Shares are
        divided by their means ``(P/W)^(1/(1-b))`` and ``S/W``, since P may overflow.
        """
        measure, q = self.measure, 1.0 - self.measure.beta
        _, log_p, log_total = self._logs(log_z, weights)
        each, log_w, log_weight = list[Curve](), np.log(weights), float(np.log(weights.sum()))

        def add(part: float, log_mean: float, alpha: float, parts: Float) -> None:
            # per mean: P and its slopes may overflow where their ratio is of size 1
            relative = np.full(len(weights), np.exp(-log_mean))
            factor = part * weights / weights.sum()
            each.append(Curve(relative, factor, alpha, common=Common(parts, 1.0 - alpha)))

        if measure.threshold > 0:
            add(measure.threshold, (log_p - log_weight) / q, measure.beta, np.exp(log_w + q * log_z - log_p))
        extra = measure.emphasis - measure.threshold
        if extra > ROUNDING * measure.threshold:
            add(extra, log_total - log_weight, 0.0, np.exp(log_w + log_z - log_total))
        return tuple(each)

    def _logs(self, log_z: Float, weights: Float) -> tuple[float, float, float]:
        """Logarithms of |f|, P and S."""
        beta, q = self.measure.beta, 1.0 - self.measure.beta
        log_p = float(log_sum_exp(q * log_z, weights)) if q else float(np.log(weights.sum()))  # as 0^0 = 1
        log_total = float(log_sum_exp(log_z, weights))
        return log_p / beta + (self.measure.lam - q / beta) * log_total, log_p, log_total

    def rate(self, z: Float, w: Float, dz: Float, dw: Float, d_alpha: float) -> float:
        """Along the curve ``lam = (1-b)/b`` if alpha changes."""
        b, q = self.measure.beta, 1 - self.measure.beta
        # f = sgn P^(1/b) S^extra: df / f = dP / (b P) + extra dS / S, and along the curve b and extra change too
        extra, power, total = self.measure.lam - q / b, float((w * z**q).sum()), float(w @ z)
        d_power = float(dw @ z**q) + (q * float((w * z**-b) @ dz) if q else 0.0)
        d_power -= d_alpha * float((w * z**q) @ np.log(z)) if d_alpha else 0.0
        f = (1 if b <= 1 else -1) * power ** (1 / b) * total**extra
        d_total = float(dw @ z + w @ dz)
        return float(f * (d_power / power / b - d_alpha * np.log(power) / b**2 + extra * d_total / total))

    def log_share_slope(self, log_z: Float, weights: Float) -> float:
        lam, log_weight = self.measure.lam, float(np.log(weights.sum()))
        log_f = self._logs(log_z, weights)[0]
        return (log_f - log_weight) / lam - log_weight - float(np.log(abs(lam))) - log_f

    def relative_gap(self, bound: float, value: float, share: Share, point: Point) -> float | None:
        """The logarithm of bound / value, per unit of the emphasis on total shares."""
        # h(t z) = h(z) + l log t: a gap of g is worth a factor of e^g on all shares
        return (bound - value) / self.measure.emphasis

    def loss(self, best: Point, gap: float, share: Share, point: Point) -> float | None:
        """The fraction of the total share equivalent to the measure; of the measure itself if the emphasis is 0."""
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs([self.value(share, best), self.value(share, point)]))
        logs = logs * (1 if self.measure.beta < 1 else -1)  # for beta > 1 values are negative: larger is worse
        if not np.isfinite(logs).all():
            return 1.0
        # gaps are of the logarithm, possibly divided by the emphasis
        lost = max(float(logs[0] - logs[1]), 0.0) + gap * max(self.measure.emphasis, 1.0)
        return -float(np.expm1(-lost / (self.measure.emphasis or 1.0)))


@dataclass(frozen=True)
class AlphaFairPlane(Plane):
    """The measure where its optimum is that of alpha-fairness (``l = a``) or of a total (beta = 1)."""

    same: Power

    @property
    def alpha(self) -> float:
        """The alpha of the alpha-fairness with the same optimum."""
        return self.same.alpha

    @property
    def levels_users(self) -> bool:
        return self.same.levels_users

    @property
    def simplest(self) -> Kind:
        return self.same

    def in_sum(self) -> Kind:
        return Plane(self.measure)

    def natural(self, value: float, weight: float) -> tuple[float, float]:
        """For the sum of powers ``V = (1-b) F``: ``sgn(1-b) V^(1/b)``. At b = 1, for the sum S: ``W S^lam``."""
        beta, lam = self.measure.beta, self.measure.lam
        with np.errstate(all="ignore"):  # the value may overflow
            # V is the sum of powers times 1 / (1 - b), S at b = 1; and the derivative by it
            if beta == 1:
                return float(weight * np.float64(value) ** lam), float(weight * lam * np.float64(value) ** (lam - 1.0))
            measure = np.sign(1.0 - beta) * np.float64((1.0 - beta) * value) ** (1.0 / beta)
            return float(measure), float(measure / (beta * value))


@dataclass(frozen=True, repr=False)
class PowerSpread(Objective):
    """``-sum_j w_j ((s_j/w_j)^power - 1) / power`` with power >= 1, in units of the max-min level and the total weight.

    Internal: for beta < 0 it maximises `FairnessEfficiency` at a fixed sum of shares, and at power 1 minimises the sum.
    """

    power: float
    share: Share = field(default_factory=DominantShare)

    @once
    def terms(self) -> tuple[Term, ...]:
        return (Term(1.0, Spread(self.power), self.share),)


@dataclass(frozen=True, repr=False)
class TotalIs(Constraint):
    """Fix a sum of shares; internal, for the search along that sum."""

    added: ClassVar[bool] = True

    level: float
    share: Share = field(default_factory=DominantShare)

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        return {"sum of shares": Rows(pairs.of(self.share.coefficients(pairs.instance)), self.level, equal=True)}
