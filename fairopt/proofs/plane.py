"""The bound of `FairnessEfficiency` outside its concave region, by tangents along the sum of shares.

Let m be the mean and M the power mean of exponent ``q = 1 - beta`` of the shares per weight, weighted and in units of
the max-min level. The logarithm of the measure (Joe-Wong et al. 2013) is ``first * log M + second * log m`` but for a
constant, with ``first`` of the sign of beta. Among allocations of mean m, the best power sum ``G = M^q`` lies on the
side of a line ``g + e m`` that weak duality gives at any prices, whatever m; and M is at most m (at least m where
``q > 1``). So the logarithm is at most ``(first / q) log(g + e m) + second * log m`` for each line, and at most
``(first + second) log m``. The largest value of the least of these over m, up to the largest mean that is possible, is
at a crossing of lines, at an end, or where one of them has slope zero, all in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairopt.blocks.efficiency import FairnessEfficiency, TotalIs
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Total
from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.cone_programs import slope
from fairopt.proofs.evidence import Solved, Tangents
from fairopt.proofs.lagrangian import EPS, lagrangian_bound

GRID = 40  # at most so many lines that hold whatever the data, from the mean inequality


class Line(NamedTuple):
    """``G <= at + slope * mean`` (or >= where G is to be small), from one optimum at a fixed sum of shares."""

    at: float
    slope: float


def mean_of(objective: FairnessEfficiency, point: Point) -> float:
    """The weighted mean of the shares per weight, in units of the max-min level."""
    return float(point.share(objective.share).sum() / (point.weights.sum() * point.level(objective.share)))


def log_measure(objective: FairnessEfficiency, point: Point) -> float:
    """The logarithm of the measure, but for a constant: ``first * log M + second * log m``."""
    first, second = objective.exponents
    q, w = 1 - objective.beta, point.weights / point.weights.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(point.share(objective.share) / (point.weights * point.level(objective.share)))
        powers = q * logs + np.log(w)
    top = powers.max()
    if not np.isfinite(top):  # no shares at all, or a share of zero where that counts most
        return -np.inf
    mean = np.exp(logs) @ w
    return float(first / q * (top + np.log(np.exp(powers - top).sum())) + second * np.log(mean))


def line_of(program: Program, evidence: Solved, tasks: Float) -> Line | None:
    """The line that the dual values of an optimum at a fixed sum of shares prove; None where they prove nothing."""
    cone, objective = evidence.model, program.objective
    total = next(block for block in program.constraints if isinstance(block, TotalIs))
    point = program.point(tasks)
    majorant = objective.majorant(point)
    if majorant is None:
        return None
    per_form = slope(majorant, evidence.maximand[0], point, cone, tasks)
    multipliers = conditions.relaxed_multipliers(cone, tasks)
    found = lagrangian_bound(program, majorant, objective, multipliers, tasks, natural=False, start=per_form)
    dual = next(conditions.dual_values(c)[0] for block, _, c in cone.rest if block is total)
    # the Lagrangian's value changes with the right-hand side of the condition, at its multiplier
    power = objective.power if hasattr(objective, "power") else 1 - objective.alpha
    sign = -1.0 if hasattr(objective, "power") else 1.0
    level = total.level / (point.weights.sum() * point.level(objective.share))
    rise = found.factor * float(dual) / level
    at = 1.0 + sign * power * (found.value - rise * level)
    slack = EPS * (abs(found.value) + 2 * abs(rise * level)) * abs(power)
    toward = 1.0 if power * sign > 0 else -1.0
    line = Line(at + toward * slack, sign * power * rise)
    return line if np.isfinite(line).all() else None


@dataclass(frozen=True)
class Ceiling:
    """The least of the bounds of all lines, over means from ``low`` to ``high``."""

    objective: FairnessEfficiency
    lines: Sequence[Line]
    low: float
    high: float

    def highest(self) -> tuple[float, float]:
        """The largest value of the ceiling, and the mean at which it is."""
        first, second = self.objective.exponents
        q = 1 - self.objective.beta
        kappa = first / q
        means = np.geomspace(max(self.low, 1e-12 * self.high), self.high, GRID)
        at = np.concatenate([[line.at for line in self.lines], (1 - q) * means**q])
        rise = np.concatenate([[line.slope for line in self.lines], q * means ** (q - 1)])
        with np.errstate(all="ignore"):
            crossings = -(at[:, None] - at) / (rise[:, None] - rise)
            turns = -second * at / (rise * (kappa + second))
            tried = np.concatenate([[self.low, self.high], crossings.ravel(), turns])
            tried = np.unique(np.clip(tried[np.isfinite(tried)], self.low, self.high))
            sums = at[:, None] + np.outer(rise, tried)
            best = sums.min(axis=0) if kappa > 0 else sums.max(axis=0)
            none = -np.inf if kappa > 0 else np.inf  # no such mean, or nothing proved of it
            top = np.where(best > 0, kappa * np.log(np.where(best > 0, best, 1.0)), none) + second * np.log(tried)
            even = self.objective.emphasis * np.log(tried)
        # between neighbours the lines' bound is monotone, and the mean inequality's grows
        left, right = slice(None, -1) if len(tried) > 1 else slice(None), slice(-len(tried) + 1, None)
        between = np.minimum(np.maximum(top[left], top[right]), even[right])
        k = int(np.argmax(between))
        ends = tried[left][k], tried[right][k]
        higher = ends[int(top[right][k] > top[left][k])]
        return float(between[k]), float(higher if np.isfinite(top[right][k] + top[left][k]) else np.sqrt(ends[0] * ends[1]))


def ceiling(objective: FairnessEfficiency, lines: Sequence[Line], value: float, largest: float) -> Ceiling:
    """The ceiling above the means at which the mean inequality allows more than a value."""
    emphasis = objective.emphasis
    low = float(np.exp(min(value / emphasis, np.log(largest)))) if emphasis > 0 and value > -np.inf else 0.0
    if emphasis == 0 and value >= -1e-12:
        low = largest
    return Ceiling(objective, lines, low, largest)


def belongs(program: Program, evidence: Tangents) -> bool:
    """Whether evidence is of the same instance and blocks: the largest sum, and the evenness at fixed sums."""
    objective = program.objective
    if not isinstance(objective, FairnessEfficiency) or objective.beta == 1:
        return False
    largest, of_total = evidence.largest[0], Total(objective.share)
    if largest.given is not program.given or largest.objective != of_total or largest.constraints != program.constraints:
        return False
    return all(
        solved.model.program is cut and cut.given is program.given and cut.objective == objective.evenness
        and cut.constraints[:-1] == program.constraints and isinstance(cut.constraints[-1], TotalIs)
        and cut.constraints[-1].share == objective.share
        for cut, _, solved in evidence.cuts
    )


def gap_of(program: Program, evidence: Tangents, tasks: Float, largest_sum: float) -> float:
    """The gap of the logarithm of the measure at tasks by pair, given the proven largest sum of shares."""
    objective = program.objective
    assert isinstance(objective, FairnessEfficiency)
    point = program.point(tasks)
    value = log_measure(objective, point)
    found = [line_of(cut, solved, at) for cut, at, solved in evidence.cuts]
    unit = point.weights.sum() * point.level(objective.share)
    top, _ = ceiling(objective, [line for line in found if line], value, largest_sum / unit).highest()
    return max(top - value, 0.0) if np.isfinite(top - value) else np.inf
