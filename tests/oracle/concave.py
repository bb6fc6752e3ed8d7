"""The largest value of a concave function over a polytope, between bounds: a barrier method written out.

What is best of it is feasible, and what is at most is proved by the function's tangent and the barrier's multipliers,
so neither needs to be trusted, only how close they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from .brute_leximin import TIGHT
from .exact_lp import NoPoint

Float = NDArray[np.floating[Any]]
Function = Callable[[Float], tuple[float, Float, Float]]  # value, gradient and Hessian of linear forms


class Bracket(NamedTuple):
    """A feasible point, its value, and a bound on every other."""

    low: float
    high: float
    point: Float


def maximise(function: Function, forms: Float, rows: Float, values: Float, top: Float, close: float = 1e-9) -> Bracket:
    """The largest ``function(forms @ x)`` over ``0 <= x <= top`` with ``rows @ x <= values``.

    ``top`` must be finite; where the rows imply it, it costs nothing. There must be room inside: no equations.
    """
    forms = forms * top  # x in units of its range
    sides, ends = _sides(rows, values, top)
    x = _inside(sides, ends)
    best, high, sharp = Bracket(-np.inf, np.inf, x), np.inf, 1.0
    while best.low < high - close and sharp <= 1e13:
        for _ in range(50):
            slack = ends - sides @ x
            _, slope, bend = function(forms @ x)
            gradient = sharp * forms.T @ slope - sides.T @ (1.0 / slack)
            hessian = sharp * forms.T @ bend @ forms - (sides.T / slack**2) @ sides
            unit = 1.0 / np.sqrt(-np.diag(hessian))
            step = unit * np.linalg.lstsq(hessian * unit * unit[:, None], -gradient * unit, rcond=None)[0]
            x = _moved(function, forms, sides, ends, x, step, float(gradient @ step), sharp)
            if gradient @ step < 1e-9:
                break
        value, slope, _ = function(forms @ x)
        if value > best.low:
            best = Bracket(value, high, x)
        if sharp >= 1e9:
            high = min(high, value + _most(forms.T @ slope, sides, ends, x))
        sharp *= 10.0
    return Bracket(best.low, high, best.point * top)


def power_mean(weights: Float, alpha: float) -> Function:
    """The logarithm of the weighted power mean, of power ``1 - alpha``, of shares per weight."""
    part, power = weights / weights.sum(), 1.0 - alpha

    def function(z: Float) -> tuple[float, Float, Float]:
        logs = np.log(z)
        if power == 0:
            value, pull = float(part @ logs), part
        else:
            high = float((power * logs).max())
            terms = part * np.exp(power * logs - high)
            value, pull = (high + float(np.log(terms.sum()))) / power, terms / terms.sum()
        slope = pull / z
        return value, slope, np.diag((power - 1) * pull / z**2) - power * np.outer(slope, slope)

    return function


def has_room(rows: Float, values: Float, top: Float) -> bool:
    """Whether some point has room on every side, as `maximise` asks."""
    try:
        _inside(*_sides(rows, values, top))
    except NoPoint:
        return False
    return True


def _sides(rows: Float, values: Float, top: Float) -> tuple[Float, Float]:
    """All sides of the polytope in units of each variable's range, each by its own size."""
    scaled = rows * top
    size = np.abs(scaled).max(axis=1, initial=0.0)
    some = size > 0
    sides = np.vstack([scaled[some] / size[some, None], -np.eye(len(top)), np.eye(len(top))])
    return sides, np.concatenate([values[some] / size[some], np.zeros(len(top)), np.ones(len(top))])


def _inside(sides: Float, ends: Float) -> Float:
    """A point with room on every side."""
    cost = np.append(np.zeros(sides.shape[1]), -1.0)
    room = np.hstack([sides, np.ones((len(ends), 1))])
    found: Any = linprog(cost, room, ends, bounds=[(None, None)] * sides.shape[1] + [(0, 1)], method="highs")
    if found.x is None or found.x[-1] <= 1e-12:
        raise NoPoint("no room inside")
    return np.asarray(found.x[:-1])


def _most(worth: Float, sides: Float, ends: Float, x: Float) -> float:
    """A bound on ``worth @ (y - x)`` for every y: HiGHS's prices, with what they leave over charged at its range."""
    found: Any = linprog(-worth, sides, ends, bounds=[(None, None)] * len(x), method="highs", options=TIGHT)
    if found.x is None:
        return float("inf")
    price = np.maximum(-found.ineqlin.marginals, 0.0)
    return float(price @ ends - worth @ x + np.maximum(worth - sides.T @ price, 0.0).sum())


def _moved(
    function: Function, forms: Float, sides: Float, ends: Float, x: Float, step: Float, rise: float, sharp: float
) -> Float:
    """Along the step, as far as all sides hold and the barrier's own value grows."""

    def height(at: Float) -> float:
        slack = ends - sides @ at
        return sharp * function(forms @ at)[0] + float(np.log(slack).sum()) if (slack > 0).all() else -np.inf

    length, start = 1.0, height(x)
    with np.errstate(all="ignore"):
        while length > 1e-12 and not height(x + length * step) >= start + 0.1 * length * rise:
            length /= 2
    return x + length * step if length > 1e-12 else x
