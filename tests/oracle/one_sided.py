"""Derivatives by solving again with a little more and a little less: exact where the optimum is piecewise linear."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fairopt as fo

from .brute_leximin import NoPoint, Polytope
from .optimum import linear, ordered

Float = NDArray[np.floating[Any]]


@dataclass(frozen=True, repr=False)
class Held(fo.Share):
    """Coefficients that do not move with the capacities."""

    numbers: tuple[Any, ...]

    def per_task(self, instance: fo.Instance) -> Float:
        return np.array(self.numbers)


def held(block: Any, instance: fo.Instance) -> Any:
    """An objective or constraint with the coefficients that its shares have on this instance.

    Of a leximin the first level; slices of `SharingIncentive` as bounds in tasks.
    """
    if isinstance(block, fo.SharingIncentive):
        return fo.MinTasks(instance.own_slices)
    if hasattr(block, "parts"):
        return sum(c * held(t, instance) for c, t in block.parts)
    if hasattr(block, "objective"):
        return dataclasses.replace(block, objective=held(block.objective, instance))
    if not hasattr(block, "share"):
        return block
    c = block.share.coefficients(instance)
    share = Held(tuple(map(tuple, c.tolist())) if c.ndim == 2 else tuple(c.tolist()))
    return fo.MaxMin(share) if isinstance(block, fo.Leximin) else dataclasses.replace(block, share=share)


def piecewise_linear(
    instance: fo.Instance, capacities: Float, objective: Any, low: Float, high: Float, usable: Float
) -> float:
    """The largest total, smallest share or generalised Gini of the instance's shares, by one linear program."""
    n = instance.n_users
    polytope = Polytope(
        np.array(instance.per_server_demands),
        capacities * usable,
        instance.eligible,
        np.minimum(instance.task_limits, high),
    )
    for j in np.flatnonzero(low > 0):
        polytope.at_most(-polytope.user(int(j)) / low[j], -1.0)
    worth = objective.share.coefficients(instance)
    if isinstance(objective, fo.Total):
        return linear(polytope, worth)
    v = np.array(getattr(objective, "weights", (1.0,)))
    return ordered(polytope, worth, instance.weights, v[:n])


def sides(value: Callable[[Float], float], capacities: Float, s: int, i: int, step: float = 2e-4) -> list[float]:
    """Slopes of a piecewise linear function of capacities to the right and to the left; NaN where a kink is near.

    Infinite where less capacity leaves nothing (`NoPoint`).
    """
    here, out = value(capacities), []
    for sign in (1.0, -1.0):
        slopes = []
        for part in (1.0, 0.5):
            changed = np.array(capacities)
            run = step * part * capacities[s, i]
            changed[s, i] += sign * run
            try:
                slopes.append(sign * (value(changed) - here) / run)
            except NoPoint:
                slopes.append(np.inf)
        straight = slopes[0] == slopes[1] or abs(slopes[0] - slopes[1]) <= 2e-5 * abs(here) / capacities[s, i]
        out.append(slopes[1] if straight else np.nan)
    return out


def curved_sides(value: Callable[[Float], float], capacities: Float, s: int, i: int) -> list[float]:
    """The same of a smooth function, by Richardson's extrapolation; NaN where the extrapolations differ."""
    here, out = value(capacities), []
    for sign in (1.0, -1.0):
        slopes = []
        for part in (2e-3, 1e-3, 5e-4):
            changed = np.array(capacities)
            changed[s, i] *= 1 + sign * part
            slopes.append(sign * (value(changed) - here) / (part * capacities[s, i]))
        first, second = 2 * slopes[1] - slopes[0], 2 * slopes[2] - slopes[1]
        same = abs(first - second) <= 3e-5 * max(abs(second), abs(here) / capacities[s, i])
        out.append(second if same else np.nan)
    return out
