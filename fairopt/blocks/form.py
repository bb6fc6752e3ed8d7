"""What an objective says of an instance, as numbers: concave functions of each user's share, and sorted shares.

A `Form` is the objective itself where its terms are curves or sorted shares. Elsewhere it is a majorant: above the
objective f, with equality at one point, and with a maximum over a box that is known in closed form. The closer it
follows f, the less an inexact solution costs: tangents were 1e-6 to 3e-5 off where these were 1e-11.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.powers import boxcox
from fairopt.blocks.ranked import best_levels, legal, mixture_at, padded

__all__ = ["EPS", "Curve", "Form", "Sorted"]

Float = NDArray[np.float64]

EPS = 8 * float(np.finfo(float).eps)  # relative to the terms of a sum: more than the rounding error


@dataclass(frozen=True)
class Curve:
    """``sum_j factor_j * boxcox(c_j x_j; 1 - alpha)``: logarithm at alpha = 1, linear at 0.

    The Box-Cox form ``(z^p - 1)/p`` differs from ``z^p / p`` by a constant and has no jump at p = 0.
    """

    c: Float
    factor: Float
    alpha: float

    def values(self, share: Float) -> Float:
        """Terms at shares ``c_j x_j``, shape (n_users,)."""
        with np.errstate(divide="ignore"):
            return np.where(self.factor == 0, 0.0, self.factor * boxcox(share, 1.0 - self.alpha))

    def slopes(self, share: Float) -> Float:
        """Derivatives of the terms by the shares, shape (n_users,)."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return np.where(self.factor == 0, 0.0, self.factor * share**-self.alpha)

    def log_slopes(self, log_x: Float) -> Float:
        """Logarithms of the derivatives by x, at logarithms of x: the derivatives themselves may overflow."""
        log_c = np.log(self.c)
        return np.log(self.factor) + log_c - (self.alpha * (log_c + log_x) if self.alpha else 0.0)


@dataclass(frozen=True)
class Sorted:
    """``factor`` times the sorted shares weighted by v (largest weight on the smallest share).

    The smallest of all mixtures ``sum_j theta_j c_j x_j`` with theta below a permutation of v: v = (1,) is the minimum.
    """

    c: Float
    v: tuple[float, ...]
    factor: float

    def value(self, share: Float) -> float:
        """At shares ``c_j x_j``."""
        ordered = np.sort(share)
        v = np.asarray(self.v[: len(ordered)])
        return float(self.factor * (ordered[: len(v)] @ v))

    def sorted_by(self, reach: Float) -> Float:
        """The legal theta that puts the largest weight on the user who can reach least."""
        v = np.zeros(len(reach))
        given = min(len(reach), len(self.v))
        v[np.argsort(reach)[:given]] = self.v[:given]
        return v * self.factor

    def cheapest(self, cost: Float, low: Float, high: Float) -> Float:
        """A legal theta that leaves least of the term beyond costs, over shares within finite bounds."""
        v = padded(self.v, len(cost)) * self.factor
        return mixture_at(v, cost, low, high, best_levels(v, cost, low, high))

    def mixture(self, share: Float, wanted: Float, pinned: NDArray[np.bool_], tie: float) -> Float:
        """A legal theta that is tight at the shares, and among ties as near as possible to ``wanted``.

        All arrays are of shape (n_users,). ``wanted >= 0`` is what costs explain; ``pinned`` users are at their limit
        and may get more. Neighbours that differ by at most ``tie``, relatively, count as equal. For all shares,
        ``theta @ shares`` is at least the term.
        """
        n = len(share)
        v = padded(self.v, n) * self.factor
        order = np.argsort(share, kind="stable")
        ordered = share[order]
        starts = np.flatnonzero(np.concatenate([[True], np.diff(ordered) > tie * np.abs(ordered[1:])]))
        theta = v.copy()
        for first, end in zip(starts, [*starts[1:], n], strict=True):
            if end - first > 1 and v[first] > 0:
                group = order[first:end]
                theta[first:end] = _explained(v[first:end], wanted[group], pinned[group])
        out = np.empty(n)
        out[order] = theta
        return out


def _explained(v: Float, wanted: Float, pinned: NDArray[np.bool_]) -> Float:
    """Weights near the wanted ones; what their sum lacks goes to pinned users."""
    missing = v.sum() - wanted.sum()
    if missing > 0 and pinned.any():
        wanted = wanted + np.where(pinned, missing / pinned.sum(), 0.0)
    return legal(v, wanted)


@dataclass(frozen=True)
class Form:
    """``unit * (curves + ranked + constant) + shift``, in natural units of the objective.

    ``unit`` and ``shift`` keep numbers near 1 for an objective that stands alone.
    """

    curves: tuple[Curve, ...] = ()
    ranked: tuple[Sorted, ...] = ()
    constant: float = 0.0
    unit: float = 1.0
    shift: float = 0.0

    def plus(self, other: Form, times: float) -> Form:
        """The sum with a multiple of another one, in natural units."""
        factor = times * other.unit
        return replace(
            self,
            curves=self.curves + tuple(replace(curve, factor=curve.factor * factor) for curve in other.curves),
            ranked=self.ranked + tuple(replace(r, factor=r.factor * factor) for r in other.ranked),
            constant=self.constant + factor * other.constant + times * other.shift,
        )

    def value(self, point: Any) -> float:
        """At a point, without unit and shift."""
        curves = sum(float(curve.values(weigh(curve.c, point)).sum()) for curve in self.curves)
        return float(curves + sum(r.value(weigh(r.c, point)) for r in self.ranked) + self.constant)


def weigh(c: Float, point: Any) -> Float:
    """Shares of shape (n_users,) at a point, with coefficients c by user, or by user and server."""
    if c.ndim == 1:
        return c * point.tasks
    return (np.where(point.instance.eligible, c, 0.0) * point.tasks_by_server).sum(axis=1)


def ratio_gap(bound: float, value: float) -> float:
    """``(bound - value) / bound`` for what is never negative; infinite where the bound is not finite."""
    if not (np.isfinite(bound) and np.isfinite(value)):
        return float("inf")
    if bound <= value:
        return 0.0
    return (bound - value) / bound if bound > 0 else float("inf")
