"""Objectives on an instance as numbers: concave functions of each user's share, and sorted shares.

    unit * (sum_curves sum_j f_j boxcox(c_j x_j; 1 - alpha) + sum_ranked f sum_k v_k z_(k) + constant) + shift.

If all terms are of these two kinds, a `Form` is the objective. Otherwise it is a majorant (Bound 7.2): an upper bound,
tight at one point, whose maximum over a box is known in closed form. Proofs read forms and never the class of an
objective, so that a new one that writes its form needs no bound of its own.

Floats: the sum in brackets is near 1, and unit and shift, which may be 1e300 at large alpha, are applied last, or not
at all: gaps are relative. Mixtures of weights must be tight at the point, and so may exchange weights only between
shares that tie; which tie floats do not say, hence a relative ``tie``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.numbers import Numbers, shares_at
from fairopt.blocks.powers import boxcox
from fairopt.blocks.ranked import best_levels, majorised, mixture_at, padded
from fairopt.runtime.arrays import Bool, Float


class _OfNumbers:
    """A function of numbers, which are shares of users if ``numbers`` is None."""

    c: Float
    numbers: Numbers | None

    def at(self, point: Any) -> Float:
        """The numbers at a point."""
        return shares_at(self.c, point) if self.numbers is None else self.numbers.at(point)


class Common(NamedTuple):
    """How a change of all users' weights or shares scales the derivatives of a curve down.

    The logarithm falls by ``parts`` per change of log w with shares per weight fixed, and by ``power * parts`` per
    change of log s.
    """

    parts: Float
    power: float


@dataclass(frozen=True)
class Curve(_OfNumbers):
    """``sum_j factor_j * boxcox(c_j x_j; 1 - alpha)``: logarithm at alpha = 1, linear at 0.

    The Box-Cox form ``(z^p - 1)/p`` differs from ``z^p / p`` by a constant and has no jump at p = 0.
    """

    c: Float
    factor: Float
    alpha: float
    numbers: Numbers | None = None  # what it is of, if not of users; then `factor` has one entry for each
    common: Common | None = None  # if the coefficients depend on the point

    def values(self, share: Float) -> Float:
        """Terms at shares ``c_j x_j``, shape (n_users,)."""
        with np.errstate(divide="ignore"):
            # a user without weight has no value either, where the logarithm of no share is minus infinity
            return np.where(self.factor == 0, 0.0, self.factor * boxcox(share, 1.0 - self.alpha))

    def slopes(self, share: Float) -> Float:
        """Derivatives by the shares, shape (n_users,)."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return np.where(self.factor == 0, 0.0, self.factor * share**-self.alpha)

    def take(self, chosen: Any) -> Curve:
        """The terms of some users, by slice, mask or indices."""
        return replace(self, c=self.c[chosen], factor=self.factor[chosen])

    def log_slopes(self, log_x: Float) -> Float:
        """Logarithms of the derivatives by x, at logarithms of x; the derivatives may overflow."""
        log_c = np.log(self.c)
        return np.log(self.factor) + log_c - (self.alpha * (log_c + log_x) if self.alpha else 0.0)


@dataclass(frozen=True)
class Sorted(_OfNumbers):
    """``factor`` times the sum of v times the shares sorted in increasing order, v decreasing.

    It is the minimum of ``theta @ shares`` over all theta that v majorises (Proposition 3.6); v = (1,) is the minimum.
    """

    c: Float
    v: tuple[float, ...]
    factor: float
    numbers: Numbers | None = None  # what is sorted, if not shares of users

    def value(self, share: Float) -> float:
        """The term at shares ``c_j x_j``."""
        if len(self.v) == 1:
            return float(self.factor * self.v[0] * share.min(initial=np.inf))
        ordered = np.sort(share)
        v = np.asarray(self.v[: len(ordered)])
        return float(self.factor * (ordered[: len(v)] @ v))

    def sorted_by(self, reach: Float) -> Float:
        """The permutation of v with the largest weight on the user of the smallest reach."""
        v = np.zeros(len(reach))
        given = min(len(reach), len(self.v))
        v[np.argsort(reach)[:given]] = self.v[:given]  # without costs all are at their limits
        return v * self.factor

    def cheapest(self, cost: Float, low: Float, high: Float) -> Float:
        """A theta majorised by v with the least excess of the term over costs, for shares within finite bounds."""
        v = padded(self.v, len(cost)) * self.factor
        return mixture_at(v, cost, low, high, best_levels(v, cost, low, high))

    def mixture(self, share: Float, wanted: Float, pinned: Bool, tie: float) -> Float:
        """A theta majorised by v that is tight at the shares, and among ties as near as possible to ``wanted``.

        All arrays have shape (n_users,). ``wanted >= 0`` are the costs to match; ``pinned`` users are at their limit
        and may get more. Neighbours whose relative difference is at most ``tie`` count as equal.
        """
        n = len(share)
        v = padded(self.v, n) * self.factor
        order = np.argsort(share, kind="stable")
        ordered = share[order]
        # groups of users in a chain of near ties; inside one any mixture of its weights is tight, up to the ties' width
        starts = np.flatnonzero(np.concatenate([[True], np.diff(ordered) > tie * np.abs(ordered[1:])]))
        theta, sizes = v.copy(), np.diff(starts, append=n)
        for size in np.unique(sizes[(sizes > 1) & (v[starts] > 0)]):  # groups of one size at once
            at = starts[(sizes == size) & (v[starts] > 0), None] + np.arange(size)
            theta[at] = _matched(v[at], wanted[order[at]], pinned[order[at]])
        out = np.empty(n)
        out[order] = theta
        return out


def _matched(v: Float, wanted: Float, pinned: Bool) -> Float:
    """Weights near the wanted ones, majorised by v; pinned users get what is missing in the sum. By row."""
    # the sums have to be equal, and who is at a limit may cost less than it is paid
    missing = np.maximum(v.sum(axis=-1) - wanted.sum(axis=-1), 0.0)
    each = missing / np.maximum(pinned.sum(axis=-1), 1)
    return majorised(v, wanted + np.where(pinned, each[:, None], 0.0))


@dataclass(frozen=True)
class Form:
    """``unit * (curves + ranked + constant) + shift``, in natural units; the sum in brackets is near 1."""

    curves: tuple[Curve, ...] = ()
    ranked: tuple[Sorted, ...] = ()
    constant: float = 0.0
    unit: float = 1.0
    shift: float = 0.0

    def plus(self, other: Form, times: float) -> Form:
        """The sum with a multiple of another form, in natural units."""
        factor = times * other.unit  # the unit and shift of the other form go into its terms: this one's stay
        return replace(
            self,
            curves=self.curves + tuple(replace(curve, factor=curve.factor * factor) for curve in other.curves),
            ranked=self.ranked + tuple(replace(r, factor=r.factor * factor) for r in other.ranked),
            constant=self.constant + factor * other.constant + times * other.shift,
        )

    def value(self, point: Any) -> float:
        """The value at a point, without unit and shift."""
        curves = sum(float(curve.values(curve.at(point)).sum()) for curve in self.curves if curve.alpha)
        lines = sum(float(curve.factor @ curve.at(point)) for curve in self.curves if curve.alpha == 0)
        return float(curves + lines + sum(r.value(r.at(point)) for r in self.ranked) + self.constant_beside_lines)

    @property
    def constant_beside_lines(self) -> float:
        """The constant less those of lines, ``boxcox(z; 1) = z - 1``, beside which a tiny total has no digits."""
        return self.constant - sum(float(curve.factor.sum()) for curve in self.curves if curve.alpha == 0)

    @property
    def is_curved(self) -> bool:
        """Whether it is a sum of curves, not all linear."""
        return not self.ranked and any(curve.alpha > 0 for curve in self.curves)

    @property
    def of_users(self) -> bool:
        """Whether all terms are of shares of users, not of teams or above a base."""
        return all(curve.numbers is None for curve in self.curves) and all(r.numbers is None for r in self.ranked)


def ratio_gap(bound: float, value: float) -> float:
    """``(bound - value) / bound`` for nonnegative numbers; infinite if either is not finite."""
    if not (np.isfinite(bound) and np.isfinite(value)):
        return float("inf")
    if bound <= value:
        return 0.0
    return (bound - value) / bound if bound > 0 else float("inf")
