"""Rows of curved cones in units of a rough answer, by automorphisms of the cones, for a further try of a solver.

Solvers lose digits where what is inside one cone differs by many powers of ten: ``t >= s^-4`` at s = 1e-2 is a chain
of cones ``u v >= w^2`` with u of 1e8 and v of 1e-8. Units of rows (`equilibration`) cannot mend that, as all rows of
a cone have one. But each cone is mapped onto itself by more than multiples (Boyd and Vandenberghe 2004, section 2.2):

* second-order, s_0 >= |(s_1, ...)|: ``s_0 + s_1`` times 1 / k and ``s_0 - s_1`` times k, a hyperbolic rotation;
* power, s_0^a s_1^(1-a) >= |s_2|: ``s_0 / p, s_1 / q, s_2 / (p^a q^(1-a))``;
* exponential, s_1 exp(s_0 / s_1) <= s_2: ``s_0 + s_1 log c, s_1, c s_2``.

Factors are chosen at the slack ``b - A x`` of the rough answer x so that parts of one cone are of one size there.
With M of these blocks the program has ``M A``, ``M b``, the same x, and multipliers ``M'z``: nothing but units
changes, and the gate judges what is brought back. Of 60 sums of powers of users' shares, written in CVXPY's terms, on
servers where demands differ by decades, 23 were refused without, after 3 s each.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import sp

FAR = 1e6  # by which parts of one cone are moved at most
ROUGH = frozenset({"AlmostSolved", "InsufficientProgress", "MaxIterations"})  # statuses of CLARABEL's rough answers
ANSWERS = ROUGH | {"Solved", "MaxTime"}


class Recentred:
    """A program of CLARABEL with rows of curved cones in units of their slack at a point ``x``."""

    def __init__(self, data: dict[str, Any], x: Float) -> None:
        a, b, dims = sp.csr_array(data["A"]), data["b"], data["dims"]
        slack, start = b - a @ x, dims.zero + dims.nonneg
        diagonal, beside = np.ones(len(b)), np.zeros(len(b))  # of rows, and of others by which rows change
        column = np.arange(len(b))

        sizes = np.array(dims.soc, dtype=np.intp)
        first = start + np.cumsum(sizes) - sizes
        second = np.minimum(first + 1, first + sizes - 1)  # the first itself where it is alone
        plus, minus = _sizes((slack[first] + slack[second]) / 2, (slack[first] - slack[second]) / 2)
        plus[sizes < 2] = minus[sizes < 2] = 1.0
        k, unit = np.sqrt(plus / minus), 1.0 / (np.sqrt(plus) * np.sqrt(minus))
        diagonal[start : start + sizes.sum()] = np.repeat(unit, sizes)
        for rows, other in ((first, second), (second, first)):
            diagonal[rows], beside[rows], column[rows] = unit * (k + 1 / k) / 2, unit * (1 / k - k) / 2, other
        start += sizes.sum()

        first = start + 3 * np.arange(dims.exp)
        middle, last = _sizes(slack[first + 1], slack[first + 2])
        diagonal[first] = diagonal[first + 1] = 1.0 / middle
        diagonal[first + 2] = 1.0 / last
        beside[first], column[first] = np.log(middle / last) / middle, first + 1
        start += 3 * dims.exp

        first, exponent = start + 3 * np.arange(len(dims.p3d)), np.array(dims.p3d, dtype=float)
        p, q = _sizes(slack[first], slack[first + 1])
        diagonal[first], diagonal[first + 1] = 1.0 / p, 1.0 / q
        diagonal[first + 2] = p**-exponent * q ** (exponent - 1)

        others = sp.csr_array((beside, (np.arange(len(b)), column)), shape=a.shape[:1] * 2)
        self.moves = sp.csr_array(sp.diags_array(diagonal) + others)
        self.data = data | {"A": sp.csc_array(self.moves @ a), "b": self.moves @ b}

    @staticmethod
    def helps(data: dict[str, Any], found: Any) -> bool:
        """Whether a solution is a rough one of a program with cones that can be moved."""
        dims, x = data["dims"], found.x
        can_move = bool(dims.soc or dims.exp or dims.p3d)
        return can_move and str(found.status) in ROUGH and len(x) > 0 and bool(np.isfinite(x).all())

    def natural(self, found: Any) -> SimpleNamespace:
        """CLARABEL's solution of `data` as one of the program as given."""
        return SimpleNamespace(**vars(found) | {"z": self.moves.T @ found.z if len(found.z) else found.z})


def is_closer(data: dict[str, Any], found: Any, rough: Any) -> bool:
    """Whether a solution is to replace a rough one. What is no answer never does, such as the claim that none is."""
    return str(found.status) in ANSWERS and error_of(data, found) < error_of(data, rough)


def error_of(data: dict[str, Any], found: Any) -> float:
    """By how much a solution misses optimality: the gap, and what dual residuals cost at its point; NaN without one."""
    x, z = found.x, found.z
    if len(x) != len(data["c"]) or len(z) != len(data["b"]):
        return np.nan
    of_squares = data["P"] @ x if data.get("P") is not None else np.zeros(len(x))
    residual = data["A"].T @ z + data["c"] + of_squares
    return float(abs(x @ (data["c"] + of_squares) + data["b"] @ z) + np.abs(residual) @ np.abs(x))


def _sizes(one: Float, other: Float) -> tuple[Float, Float]:
    """Numbers that are positive inside cones, the smaller of two at least so that factors are at most `FAR`."""
    largest = np.maximum(np.abs(one), np.abs(other))
    least = np.where(largest > 0, largest / FAR**2, 1.0)
    return np.maximum(one, least), np.maximum(other, least)
