"""Marginal utilities of tasks, for objectives that are a sum of one concave function per user.

For ``f(x) = sum_j f_j(x_j)`` methods by prices ask for f_j' and f_j'' at all users at once, and for the best response

    x_j(k) = argmax_(low <= x <= high) f_j(x) - k x,    f_j'(x_j) = k_j between the bounds.

In closed form for one power and a line (`PowerMarginal`), else by Newton's method for each user. Where the elasticity
``-x f'' / f'`` is large, log f' = log k is solved for log x, which is a line for a power: one step instead of tens, and
none that leaves x > 0. Where it is small f' = k is, since log f' of a nearly linear function is flat; with a
user-defined one f' may also be negative. Derivatives of user-defined blocks need not be right: certificates take
tangents of their CVXPY expressions (`fairopt.proof.evidence.prices`), and wrong ones cost time or a refusal. Those of
fairopt's own kinds are part of the proof; `tests/blocks/test_normal_form.py` holds each against its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairopt.blocks.form import Curve
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import SUM_ROUNDING

# Elasticity of the marginal utility above which Newton's method works on logarithms. With none, of 200 small sums 16
# were not solved at the first try; with all, as many as with this.
CURVED = 0.3
FARTHEST = 5.0  # largest change of a logarithm in one step: 2 decades, from guesses that are off by more
ROUNDS = 30  # Newton steps: one for a power, four to ten for sums of powers


@dataclass(frozen=True)
class Marginal:
    """First and second derivatives of an objective by the tasks of each user, where the objective is a sum over users.

    `Objective.by_user` returns them, so that the objective is solved by prices of resources. Certificates do not use
    the derivatives of user-defined blocks: wrong ones cost time only.

    Parameters
    ----------
    slope : callable
        The first derivatives, shape (n_users,), from tasks of shape (n_users,), all positive.
    curvature : callable
        The second derivatives, at most 0.

    Examples
    --------
    >>> import numpy as np, fairopt as fo
    >>> roots = fo.blocks.Marginal(lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5)
    >>> roots.slope(np.array([1.0, 4.0]))
    array([0.5 , 0.25])
    """

    slope: Callable[[Float], Float]
    curvature: Callable[[Float], Float]

    def both(self, x: Float) -> tuple[Float, Float]:
        """First and second derivatives."""
        return self.slope(x), self.curvature(x)

    def response(self, cost: Float, low: Float, high: Float, start: Float) -> Float:
        """About the tasks (n_users,) that each user would run within bounds at these costs of a task, from a guess.

        Newton's method for each user, on logarithms where the elasticity is large, which is exact for a power. Users
        with a linear function stay at the guess.
        """
        x = np.clip(start, low, high)
        for _ in range(ROUNDS):
            slope, curvature = self.both(x)
            elastic = -curvature * x
            powers = (elastic > CURVED * slope) & (slope > 0) & (cost > 0)
            wanted = np.where(powers, np.log(np.where(powers, slope / cost, 1.0)) * slope, slope - cost)
            # of log x: (log f' - log k) f' / (-x f''), or (f' - k) / (-x f'')
            change = np.divide(wanted, elastic, out=np.zeros(len(x)), where=elastic > 0)
            new = np.clip(x * np.exp(np.clip(change, -FARTHEST, FARTHEST)), low, high)
            moved = float(np.max(np.abs(new - x) / np.maximum(new, x), initial=0.0))
            x = new
            if not moved > SUM_ROUNDING:
                break
        return x


class PowerMarginal(Marginal):
    """The derivatives of a sum of powers, logarithms and linear functions of each user's tasks."""

    def __init__(self, terms: Sequence[Curve]) -> None:
        self.terms = tuple(terms)
        self.linear: Any = sum((t.factor * t.c for t in terms if t.alpha == 0), np.float64(0.0))
        self.curved = [(t.factor * t.c, t.c, t.alpha) for t in terms if t.alpha]
        super().__init__(lambda x: self.both(x)[0], lambda x: self.both(x)[1])

    def __repr__(self) -> str:
        return f"PowerMarginal({self.terms!r})"

    def both(self, x: Float) -> tuple[Float, Float]:
        slope, curvature = np.full(x.shape, self.linear, dtype=float), np.zeros(len(x))
        for factor, c, alpha in self.curved:
            part = factor * (1.0 / (c * x)) ** alpha  # fast where alpha is 1/2, 1 or 2
            slope += part
            curvature -= alpha * part
        return slope, curvature / x

    def response(self, cost: Float, low: Float, high: Float, start: Float) -> Float:
        """In closed form if one term is curved."""
        if len(self.curved) != 1:
            return super().response(cost, low, high, start)
        ((factor, c, alpha),) = self.curved
        # factor (c x)^-alpha = cost - linear; where a line pays the whole cost, the user runs all it can
        rest = factor / (cost - self.linear)
        at_end = high if alpha > 0 else low
        return np.clip(np.where(rest > 0, np.maximum(rest, 0.0) ** (1.0 / alpha) / c, at_end), low, high)

    def take(self, chosen: Any) -> PowerMarginal:
        """The derivatives of some users, by slice or mask."""
        return PowerMarginal([t.take(chosen) for t in self.terms])


def added(parts: Sequence[tuple[float, Marginal]]) -> Marginal:
    """The derivatives of a sum of multiples."""
    if all(isinstance(part, PowerMarginal) for _, part in parts):
        return PowerMarginal(
            [replace(t, factor=factor * t.factor) for factor, part in parts for t in getattr(part, "terms", ())]
        )
    return Marginal(
        lambda x: sum((factor * part.slope(x) for factor, part in parts), np.zeros(len(x))),
        lambda x: sum((factor * part.curvature(x) for factor, part in parts), np.zeros(len(x))),
    )


def among(marginal: Marginal, held: Float) -> Marginal:
    """The derivatives by the tasks of users whose ``held`` (n_users,) is NaN; the other users run ``held`` tasks."""
    free = np.isnan(held)
    if isinstance(marginal, PowerMarginal):
        return marginal.take(free)

    def part(of: Callable[[Float], Float]) -> Callable[[Float], Float]:
        def of_free(x: Float) -> Float:
            whole = held.copy()
            whole[free] = x
            return of(whole)[free]

        return of_free

    return Marginal(part(marginal.slope), part(marginal.curvature))
