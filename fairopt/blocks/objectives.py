"""Objectives: concave functions of the shares, to maximise (math.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.special import inv_boxcox

from fairopt.blocks.base import Block, parameter
from fairopt.blocks.majorant import Majorant, PowerTerm, RankedTerm
from fairopt.blocks.model import Model, Point
from fairopt.blocks.sorting import sorted_from_below
from fairopt.blocks.shares import DominantShare, Share, require_share
from fairopt.errors import InvalidBlock, NotConcave
from fairopt.instance import Instance

if TYPE_CHECKING:
    from fairopt.blocks.constraints import AtLeast

__all__ = ["AlphaFair", "FairnessEfficiency", "Leximin", "MaxMin", "Objective", "OrderedWeighted", "Sum", "Tiers", "Total"]

Float = NDArray[np.floating[Any]]

# n users times the steps of OrderedWeighted: beyond, a sorting network is smaller than a sum of k-smallest sums (300
# users, all weights different: 5 s against 12 s; cutting planes had not converged after 400 programs).
NETWORK_FROM = 10_000


class Objective(Block):
    """Base of all objectives: subclass as a frozen dataclass and write `expression`.

    Objectives add, and multiply by non-negative numbers; ``objective >= level`` is a constraint, and
    ``a.then(b)`` maximises ``b`` among what is best for ``a``.

    Examples
    --------
    An objective that nobody has named yet, entropy-like fairness of the task counts:

    >>> import cvxpy as cp, fairopt as fo
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Roots(fo.Objective):
    ...     def expression(self, model):
    ...         return cp.sum(cp.sqrt(model.tasks))
    >>> fo.Policy(Roots()).allocate(fo.Instance([[1], [1]], [4])).tasks.round(4)
    array([2., 2.])
    """

    def __post_init__(self) -> None:
        if hasattr(self, "share"):
            require_share(self.share, self)

    majorant_is_natural: ClassVar[bool] = True  # False where `majorant` bounds a transform of the objective

    def expression(self, model: Model) -> cp.Expression:
        """The objective in natural units, as a concave scalar expression.

        Parameters
        ----------
        model : Model
            Offers ``share(block)``, ``tasks``, ``bundles``, ``weights`` and ``instance``.

        Returns
        -------
        cvxpy.Expression of shape ()
        """
        raise InvalidBlock(f"{type(self).__name__} has no expression(model); write it")

    def solver_form(self, model: Model) -> cp.Expression | None:
        """An increasing transform of `expression` that solvers like better, for an objective that stands alone."""
        return None

    def value(self, point: Point) -> float:
        """The objective at an allocation, in natural units."""
        expression = self.expression(point)  # type: ignore[arg-type]  # a Point has the names of a Model
        return float(expression.value if isinstance(expression, cp.Expression) else expression)

    def majorant(self, point: Point) -> Majorant | None:
        """A bound from above, tight at ``point``, that certificates can maximise exactly; None for the tangent."""
        return None

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """How far a bound lies above the value, relatively (math.md section 10, "anything else").

        Parameters
        ----------
        bound, value : float
            Both in the units of `majorant`.
        point : Point
            Where the value was measured.

        Returns
        -------
        float
        """
        drop = abs(self.value(point) - self.value(point.scaled(0.5)))
        return (bound - value) / drop if drop > 0 else bound - value

    def share_blocks(self) -> tuple[Share, ...]:
        """The shares it is about, the first one first."""
        share = getattr(self, "share", None)
        return (share,) if isinstance(share, Share) else ()

    def check(self, instance: Instance) -> None:
        """Raise `OutOfDomain` or `NotConcave` where the objective has no meaning or no optimum to promise."""
        for share in self.share_blocks():
            share.coefficients(instance)

    # -- algebra ----------------------------------------------------------------------------------------------

    def terms(self) -> tuple[tuple[float, Objective], ...]:
        """The objective as a sum of multiples."""
        return ((1.0, self),)

    def __add__(self, other: object) -> Objective:
        if isinstance(other, (int, float)) and other == 0:  # so that sum([...]) works
            return self
        if not isinstance(other, Objective):
            return NotImplemented
        for side in (self, other):
            side._refuse_arithmetic()
        return Sum(self.terms() + other.terms())

    __radd__ = __add__

    def __mul__(self, factor: object) -> Objective:
        if isinstance(factor, Block):
            return NotImplemented
        self._refuse_arithmetic()
        number = parameter(factor, f"the factor of {self!r}", low=0.0, high=1e300, fix="give a finite number >= 0: "
                           "a negative multiple of a concave objective is not concave")  # fmt: skip
        parts = tuple((number * c, t) for c, t in self.terms())
        return parts[0][1] if len(parts) == 1 and parts[0][0] == 1 else Sum(parts)

    __rmul__ = __mul__

    def __sub__(self, other: object) -> NoReturn:
        raise InvalidBlock(f"{self!r} minus something is not concave; only add, or multiply by numbers >= 0")

    def __rsub__(self, other: object) -> NoReturn:
        raise InvalidBlock(f"something minus {self!r} is not concave; only add, or multiply by numbers >= 0")

    def __neg__(self) -> NoReturn:
        raise InvalidBlock(f"minus {self!r} is not concave; only add, or multiply by numbers >= 0")

    def __ge__(self, level: object) -> AtLeast:
        from fairopt.blocks.constraints import AtLeast

        self._refuse_arithmetic()
        return AtLeast(self, parameter(level, f"the level of {self!r}", low=-1e300, high=1e300, fix="give a finite number"))

    def then(self, other: Objective) -> Tiers:
        """Maximise ``other`` among what is within 1e-7 of the best for this objective.

        Parameters
        ----------
        other : Objective
            The next tier.

        Returns
        -------
        Tiers

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.MaxMin().then(fo.Total(fo.Tasks()))
        MaxMin().then(Total(Tasks()))
        """
        return Tiers((*_tiers(self), *_tiers(other)))

    def _refuse_arithmetic(self) -> None:
        """`Leximin` and tiers are orders, not numbers: they override this with the error."""


@dataclass(frozen=True, repr=False)
class Sum(Objective):
    """A sum of non-negative multiples of objectives; written ``a + 0.1 * b``."""

    parts: tuple[tuple[float, Objective], ...]

    def expression(self, model: Model) -> cp.Expression:
        """The sum of the parts' natural units."""
        return sum(c * t.expression(model) for c, t in self.parts if c > 0) + cp.Constant(0.0)

    def value(self, point: Point) -> float:
        """The sum of the parts' values."""
        return float(sum(c * t.value(point) for c, t in self.parts if c > 0))

    def majorant(self, point: Point) -> Majorant | None:
        """The sum of the parts' bounds, if all have one."""
        total = Majorant()
        for c, t in self.parts:
            part = t.majorant(point) if c > 0 else Majorant()
            if part is None or not t.majorant_is_natural:
                return None
            total = total.plus(part, c)
        return total

    def share_blocks(self) -> tuple[Share, ...]:
        """Those of the parts, in order."""
        return tuple(s for _, t in self.parts for s in t.share_blocks())

    def check(self, instance: Instance) -> None:
        """Every part, and that each is concave in natural units."""
        for _, t in self.parts:
            t.check(instance)
            if isinstance(t, FairnessEfficiency):
                t.natural_is_concave()

    def terms(self) -> tuple[tuple[float, Objective], ...]:
        """The parts."""
        return self.parts

    def __repr__(self) -> str:
        return " + ".join(repr(t) if c == 1 else f"{c!r} * {t!r}" for c, t in self.parts)


@dataclass(frozen=True, repr=False)
class Total(Objective):
    """The sum of the shares; on `Tasks` the number of tasks ("no fairness constraints", 000 sec. 6.1.1).

    Parameters
    ----------
    share : Share, default DominantShare()

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Policy(fo.Total(fo.Tasks())).allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks
    array([ 0., 25.])
    """

    share: Share = field(default_factory=DominantShare)

    def expression(self, model: Model) -> cp.Expression:
        """The sum of the shares."""
        return cp.sum(model.share(self.share))

    def solver_form(self, model: Model) -> cp.Expression:
        """The sum in units of the max-min level: coefficients near 1, since solvers' tolerances are absolute."""
        return cp.sum(model.share(self.share)) / (model.level(self.share) * model.weights.mean())

    def value(self, point: Point) -> float:
        """The sum of the shares."""
        return float(point.share(self.share).sum())

    def majorant(self, point: Point) -> Majorant:
        """Itself: linear."""
        n = point.instance.n_users
        return Majorant(powers=(PowerTerm(self.share.coefficients(point.instance), np.ones(n), 0.0),), constant=float(n))

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """(bound - f) / bound."""
        return (bound - value) / bound if bound > 0 else 0.0


@dataclass(frozen=True, repr=False)
class AlphaFair(Objective):
    """Weighted alpha-fairness, ``sum_j w_j u(s_j / w_j)`` with ``u(z) = z^(1-alpha) / (1-alpha)``, log at 1.

    At alpha = 0 the sum of shares, at 1 Nash welfare, and as alpha grows ever closer to max-min (Mo and Walrand;
    003 eq. 1 with lambda = (1-beta)/beta).

    Parameters
    ----------
    alpha : float
        At least 0 and finite; for infinity say `Leximin`.
    share : Share, default DominantShare()

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

    def expression(self, model: Model) -> cp.Expression:
        """Natural units, with the max-min level taken out of the power."""
        unit, shift = self._natural(model.level(self.share), model.weights.sum())
        return unit * self._mean_power(model) + (shift if self.alpha == 1 else 0.0)

    def _natural(self, level: float, total_weight: float) -> tuple[float, float]:
        """Unit and shift with natural value = unit * (mean of Box-Cox of the relative shares) + shift."""
        power = 1.0 - self.alpha
        with np.errstate(over="ignore"):
            unit = float(total_weight * np.float64(level) ** power)
        return unit, unit / power if power else float(total_weight * np.log(level))

    def _mean_power(self, model: Model) -> cp.Expression:
        """The weighted mean of ``z^(1-alpha)/(1-alpha)``, or of log z, of the relative shares z."""
        u, factor = model.split_share(self.share)
        mean = _mean(model.weights)
        if self.alpha == 0:
            return (mean * factor) @ u
        if self.alpha == 1:
            return mean @ cp.log(u) + mean @ np.log(factor)
        power = 1.0 - self.alpha
        return ((mean * factor**power) @ cp.power(u, power, approx=not model.exact_powers)) / power

    def solver_form(self, model: Model) -> cp.Expression:
        """Logarithm of the power mean above alpha = 1 (exponential cones only); the mean power below."""
        if self.alpha <= 1:
            # Solvers' tolerances are absolute, so a sum beats a mean: ECOS failed on the mean of 1,000 logarithms, and
            # SCS took 10 times as long. Only Clarabel does better on the mean of powers (a gap of 3e-10 against 2.6).
            mean = self.solver_wants_mean(model.solver)
            return self._mean_power(model) * (1 if mean else model.instance.n_users)
        power = 1.0 - self.alpha
        u, factor = model.split_share(self.share)
        return cp.log_sum_exp(power * cp.log(u) + power * np.log(factor) + np.log(_mean(model.weights))) / power

    def solver_wants_mean(self, solver: str | None) -> bool:
        """Whether to give the solver the mean of the powers instead of their sum."""
        return 0 < self.alpha < 1 and solver == "CLARABEL"

    def value(self, point: Point) -> float:
        """Natural units; minus infinity where a share is zero (alpha >= 1) or where floats end."""
        unit, shift = self._natural(point.level(self.share), point.weights.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            value = unit * self.majorant(point).value(point) + shift
        return float(value) if np.isfinite(value) else -np.inf

    def majorant(self, point: Point) -> Majorant:
        """Itself: a sum of one concave function per user, in units of the max-min level."""
        level, w = point.level(self.share), point.weights
        unit, shift = self._natural(level, w.sum())
        c = self.share.coefficients(point.instance)
        relative = c / (w * level) if c.ndim == 1 else c / (w * level)[:, None]
        return Majorant(powers=(PowerTerm(relative, _mean(w), self.alpha),), unit=unit, shift=shift)

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """log of (bound on the weighted power mean / the one achieved)."""
        power = 1.0 - self.alpha
        if self.alpha > 1 and bound * power <= -1:  # the bound allows infinite shares
            return np.inf
        return float(np.log(inv_boxcox(bound, power)) - np.log(inv_boxcox(value, power)))


@dataclass(frozen=True, repr=False)
class MaxMin(Objective):
    """The smallest share per weight, ``min_j s_j / w_j``.

    Not Pareto-efficient by itself once demands have zeros or users have limits: see `Leximin`.

    Parameters
    ----------
    share : Share, default DominantShare()

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Policy(fo.MaxMin()).allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).objective
    0.5
    """

    share: Share = field(default_factory=DominantShare)

    def expression(self, model: Model) -> cp.Expression:
        """The smallest share per weight."""
        return model.level(self.share) * cp.min(model.relative_share(self.share))

    def solver_form(self, model: Model) -> cp.Expression:
        """The same in units of the max-min level."""
        return cp.min(model.relative_share(self.share))

    def value(self, point: Point) -> float:
        """The smallest share per weight."""
        return float((point.share(self.share) / point.weights).min(initial=np.inf))

    def majorant(self, point: Point) -> Majorant:
        """Any convex combination of the shares per weight."""
        return _ranked(point, self.share, (1.0,))

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """(bound - f) / bound."""
        return (bound - value) / bound if bound > 0 else 0.0


@dataclass(frozen=True, repr=False)
class OrderedWeighted(Objective):
    """Weights on the sorted shares per weight, the largest on the smallest (generalised Gini).

    Parameters
    ----------
    weights : sequence of float
        ``v_1 >= v_2 >= ... >= 0``, padded with zeros: ``(1,)`` is max-min, ``(1, 1, ...)`` the sum.
    share : Share, default DominantShare()

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> fo.Policy(fo.OrderedWeighted((1, 0.5))).allocate(cluster).certificate.ok
    True
    """

    weights: tuple[float, ...]
    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        super().__post_init__()
        v = tuple(parameter(x, "a weight of OrderedWeighted", low=0.0, high=1e300) for x in np.atleast_1d(self.weights))
        if any(b > a for a, b in zip(v, v[1:], strict=False)):
            raise InvalidBlock(f"weights {v} of OrderedWeighted grow; give v_1 >= v_2 >= ..., the largest for the poorest")
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
        """``sum_k (v_k - v_{k+1}) (sum of the k smallest)``."""
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
        """The sorted shares, weighted."""
        ordered = np.sort(point.share(self.share) / point.weights)
        v = np.asarray(self.weights[: len(ordered)])
        return float(ordered[: len(v)] @ v)

    def majorant(self, point: Point) -> Majorant:
        """Any mixture of permutations of the weights."""
        return _ranked(point, self.share, self.weights)

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """(bound - f) / bound."""
        return (bound - value) / bound if bound > 0 else 0.0


@dataclass(frozen=True, repr=False)
class FairnessEfficiency(Objective):
    """The measure of fairness and efficiency of 003 (eq. 3, 7, 19; after Lan et al.).

    ``f = sgn(1-beta) (sum_j w_j (s_j/(w_j S))^(1-beta))^(1/beta) S^lam`` with ``S = sum_j s_j``. Solved where it is
    concave after an increasing transform: beta > 0 and ``lam * sgn(1-beta) >= |1-beta|/beta``.

    Parameters
    ----------
    beta, lam : float
        The type of fairness, and the emphasis on efficiency. On the edge ``lam = (1-beta)/beta`` it is
        `AlphaFair` with alpha = beta.
    share : Share, default DominantShare()

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18])
    >>> fo.Policy(fo.FairnessEfficiency(2, -0.5, fo.Tasks())).allocate(cluster).tasks.round(5)
    array([3.29423, 1.90192])
    """

    majorant_is_natural: ClassVar[bool] = False

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
        """``l = lam * sgn(1 - beta)``, the emphasis on efficiency (math.md section 3)."""
        return self.lam if self.beta <= 1 else -self.lam

    @property
    def threshold(self) -> float:
        """``a = |1 - beta| / |beta|``: the emphasis from which on it is concave (beta > 0)."""
        return abs(1 - self.beta) / abs(self.beta)

    def check(self, instance: Instance) -> None:
        """Share defined, and in the concave region."""
        super().check(instance)
        if self.beta < 0 or self.emphasis < self.threshold * (1 - 1e-12):
            sign = ">=" if self.beta < 1 else "<="
            edge = (1 - self.beta) / self.beta
            where = f"lam {sign} {edge:.6g} at beta = {self.beta:g}" if self.beta > 0 else "beta > 0"
            raise NotConcave(
                f"FairnessEfficiency(beta={self.beta:g}, lam={self.lam:g}) is not concave; it is for {where} "
                "(beta > 0 and lam * sgn(1-beta) >= |1-beta|/beta)"
            )

    def natural_is_concave(self) -> None:
        """`NotConcave` unless the measure itself, not only its logarithm, is known to be concave."""
        if self.beta < 1:
            raise NotConcave(
                f"FairnessEfficiency(beta={self.beta:g}, ...) below beta = 1 is concave only after a transform, "
                "so it cannot stand in a sum or a level; use AlphaFair, or let it stand alone"
            )

    def alpha_fair(self) -> AlphaFair | None:
        """The `AlphaFair` with the same optimum, on the edge of the region."""
        on_edge = self.beta > 0 and abs(self.emphasis - self.threshold) <= 1e-12 * self.threshold
        return AlphaFair(self.beta, self.share) if on_edge and self.beta != 1 else None

    def expression(self, model: Model) -> cp.Expression:
        """``-exp(-h)`` above beta = 1, h the solver form; the logarithm of the measure below (a transform)."""
        h = self._log_measure(model) + self.emphasis * np.log(model.level(self.share))
        return -cp.exp(-h) if self.beta > 1 else h

    def _log_measure(self, model: Model) -> cp.Expression:
        """``a log M_q + (l - a) log S`` with relative shares: logarithm of the measure, an increasing transform."""
        w, q, a = model.weights, 1 - self.beta, self.threshold
        u, factor = model.split_share(self.share)
        parts = []
        if q < 0:
            parts.append(a / q * cp.log_sum_exp(q * cp.log(u) + q * np.log(factor) + np.log(w)))
        elif q > 0:
            parts.append(a / q * cp.log((w * factor**q) @ cp.power(u, q, approx=not model.exact_powers)))
        if self.emphasis > a or q == 0:
            parts.append((self.emphasis - a) * cp.log((w * factor) @ u))
        return sum(parts)

    def solver_form(self, model: Model) -> cp.Expression:
        """That of `AlphaFair` on the edge, the sum of shares at beta = 1, else the logarithm of the measure."""
        edge = self.alpha_fair()
        if edge is not None:
            return edge.solver_form(model)
        return Total(self.share).solver_form(model) if self.beta == 1 else self._log_measure(model)

    def value(self, point: Point) -> float:
        """The measure itself, 003 eq. 3."""
        s, w = point.share(self.share), point.weights
        total = s.sum()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            fairness = (w * (s / (w * total)) ** (1 - self.beta)).sum() ** (1 / self.beta)
            return float((1 if self.beta <= 1 else -1) * fairness * total**self.lam)

    def majorant(self, point: Point) -> Majorant:
        """Of the logarithm of the measure; on the edge, that of `AlphaFair`."""
        edge = self.alpha_fair()
        if edge is not None:
            return edge.majorant(point)
        if self.beta == 1:
            return Total(self.share).majorant(point)
        level, w, q, a = point.level(self.share), point.weights, 1 - self.beta, self.threshold
        c = self.share.coefficients(point.instance)
        relative = c / (w * level) if c.ndim == 1 else c / (w * level)[:, None]
        z = point.share(self.share) / (w * level)
        total = float(w @ z)
        extra = self.emphasis - a
        # log S <= log S0 - 1 + S / S0
        powers = [PowerTerm(relative, extra * w / total, 0.0)] if extra > 0 else []
        constant = extra * (np.log(total) - 1.0 + w.sum() / total)
        if q < 0:  # log-sum-exp >= any mixture plus its entropy, so log M_q <= a mixture of logarithms
            with np.errstate(divide="ignore"):
                logs = q * np.log(z) + np.log(w)
            pi = np.exp(logs - logs.max())
            pi /= pi.sum()
            held = pi > 0
            entropy = float((pi[held] * (np.log(w[held]) - np.log(pi[held]))).sum())
            powers.append(PowerTerm(relative, a * pi, 1.0))
            constant += a / q * entropy
        else:  # log P <= log P0 - 1 + P / P0
            p0 = float(w @ z**q)
            powers.append(PowerTerm(relative, a * w / p0, self.beta))
            constant += a / q * (np.log(p0) - 1.0 + w.sum() / p0)
        return Majorant(powers=tuple(powers), constant=float(constant))

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """log of (bound / achieved) of a share-sized quantity."""
        edge = self.alpha_fair()
        if edge is not None:
            return edge.relative_gap(bound, value, point)
        if self.beta == 1:
            return (bound - value) / bound if bound > 0 else 0.0
        return (bound - value) / self.emphasis


@dataclass(frozen=True, repr=False)
class Leximin(Objective):
    """Maximise the smallest share per weight, then the second smallest, and so on. DRF is ``Leximin(DominantShare())``.

    An order, not a number: it adds to nothing.

    Parameters
    ----------
    share : Share, default DominantShare()

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Policy(fo.Leximin()).allocate(fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], task_limits=[1.5, None, 1])).tasks
    array([1.5       , 2.16666667, 1.        ])
    """

    share: Share = field(default_factory=DominantShare)

    def expression(self, model: Model) -> cp.Expression:
        """The first level: the smallest share per weight."""
        return MaxMin(self.share).expression(model)

    def value(self, point: Point) -> float:
        """The first level."""
        return MaxMin(self.share).value(point)

    def majorant(self, point: Point) -> Majorant:
        """That of the first level."""
        return MaxMin(self.share).majorant(point)

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """Of the first level, (bound - f) / bound."""
        return MaxMin(self.share).relative_gap(bound, value, point)

    def _refuse_arithmetic(self) -> None:
        raise InvalidBlock(
            f"{self!r} is an order, not a number: it cannot be added, multiplied or bounded. "
            "Use MaxMin for its first level, or Leximin(...).then(other) for what decides among ties"
        )


@dataclass(frozen=True, repr=False)
class Tiers(Objective):
    """One objective after the other; written ``a.then(b)``. An order, not a number."""

    tiers: tuple[Objective, ...]

    def expression(self, model: Model) -> cp.Expression:
        """The first tier."""
        return self.tiers[0].expression(model)

    def solver_form(self, model: Model) -> cp.Expression | None:
        """That of the first tier."""
        return self.tiers[0].solver_form(model)

    def value(self, point: Point) -> float:
        """The first tier."""
        return self.tiers[0].value(point)

    def majorant(self, point: Point) -> Majorant | None:
        """That of the first tier."""
        return self.tiers[0].majorant(point)

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """Of the first tier."""
        return self.tiers[0].relative_gap(bound, value, point)

    def share_blocks(self) -> tuple[Share, ...]:
        """Those of the tiers, in order."""
        return tuple(s for t in self.tiers for s in t.share_blocks())

    def check(self, instance: Instance) -> None:
        """Every tier."""
        for tier in self.tiers:
            tier.check(instance)

    def _refuse_arithmetic(self) -> None:
        raise InvalidBlock(f"{self!r} is an order, not a number: it cannot be added, multiplied or bounded")

    def __repr__(self) -> str:
        first = f"({self.tiers[0]!r})" if isinstance(self.tiers[0], Sum) else repr(self.tiers[0])
        return first + "".join(f".then({t!r})" for t in self.tiers[1:])


def _tiers(objective: Objective) -> tuple[Objective, ...]:
    if not isinstance(objective, Objective):
        raise InvalidBlock(f"then({objective!r}): give an objective")
    return objective.tiers if isinstance(objective, Tiers) else (objective,)


def _mean(weights: Float) -> Float:
    return weights / weights.sum()


def _ranked(point: Point, share: Share, v: tuple[float, ...]) -> Majorant:
    c = share.coefficients(point.instance)
    per_weight = c / point.weights if c.ndim == 1 else c / point.weights[:, None]
    return Majorant(ranked=(RankedTerm(per_weight, v, 1.0),))
