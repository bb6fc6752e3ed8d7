"""What is wrong with an answer: judged by hand, in exact fractions or between proven bounds, for corners.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import common  # noqa: F401  # puts the oracles at hand
import numpy as np
from oracle import concave, exact_lp
from oracle.exact_cluster import Cluster, Worth
from oracle.exact_lp import dot

Float = np.ndarray
Rows = list[tuple[list[Fraction], Fraction]]
GAP, FIT, BLOCKS = 1e-6, 1e-9, 1e-7  # what a certificate allows
OPEN = "?"


def unfit(cluster: Cluster, tasks: Float, rows: Rows, equal: Rows) -> str:
    """Which capacity, limit or condition an answer breaks, each by its own size.

    A condition that compares users has no size where they run next to nothing: 1e-9 of the largest that it could have
    is rounding.
    """
    excess = cluster.excess(tasks)
    if not excess <= FIT:
        return f"over: a capacity, limit or sign by {excess:.1e}"
    at, reach = cluster.at(tasks), cluster.reach()
    both_ways = [([-v for v in row], -value) for row, value in equal]
    for row, value in (*rows, *equal, *both_ways):
        over = dot(row, at) - value
        size = max(abs(value), dot(map(abs, row), at))
        if over > max(size * Fraction(BLOCKS), dot(map(abs, row), reach) * Fraction(FIT)):
            return f"condition: broken by {float(over / size):.1e} of its size"
    return ""


@dataclass(frozen=True)
class Goal:
    """What is maximised: a kind, what a task of each user is worth on each server, and alpha or sorted weights."""

    kind: str
    worth: Worth
    parameter: Any = None

    def verdict(self, cluster: Cluster, answer: Any, rows: Rows | None = None, equal: Rows | None = None) -> str:
        """Whether the answer is as good as the reference's, and its objective what it says."""
        more, same = rows or [], equal or []
        if wrong := unfit(cluster, answer.tasks_by_server, more, same):
            return wrong
        at = cluster.at(answer.tasks_by_server)
        forms = cluster.forms(self.worth, per_weight=self.kind != "total")
        z = [dot(form, at) for form in forms]
        if self.kind == "alpha":
            return self._alpha_fair(cluster, answer, z, forms, more, same)
        held = [*cluster.rows, *more]
        if self.kind == "total":
            goal = [sum(column, Fraction(0)) for column in zip(*forms, strict=True)]
            got, best = [sum(z, Fraction(0))], [exact_lp.maximise(goal, held, same).value]
        elif self.kind == "least":
            got, best = [min(z)], [exact_lp.smallest(forms, held, same)]
        elif self.kind == "leximin":
            got, best = sorted(z), sorted(exact_lp.leximin(forms, held, same))
        else:
            v = [Fraction(w) for w in self.parameter]
            got = [sum((w * s for w, s in zip(v, sorted(z), strict=False)), Fraction(0))]
            best = [exact_lp.ordered(forms, v, held, same)]
        for mine, right in zip(got, best, strict=True):
            if abs(mine - right) > right * Fraction(GAP):
                if mine > right and (more or same):  # what conditions may give way buys it
                    break
                way = "worse" if mine < right else "other"
                return f"{way}: {list(map(float, got))} where {list(map(float, best))} is right"
        return claimed(answer, float(got[0]))

    def _alpha_fair(
        self, cluster: Cluster, answer: Any, z: list[Fraction], forms: Any, more: Rows, same: Rows
    ) -> str:  # fmt: skip
        weights, power = np.array([cluster.weights[j] for j in cluster.users], dtype=float), 1.0 - self.parameter
        if min(z) <= 0:
            return f"worse: shares per weight {list(map(float, z))} where all can be positive"
        function = concave.power_mean(weights, self.parameter)
        got = function(np.array(z, dtype=float))[0]
        if same:  # equal shares: one number
            low = high = float(np.log(float(exact_lp.smallest(forms, [*cluster.rows, *more], same))))
        else:
            low, high, point = best_between(function, cluster, np.array(forms, dtype=float), more)
        if got < low - GAP or (got > high + GAP and not more):
            shares = "" if same else f" ({(np.array(forms, dtype=float) @ point).tolist()})"
            means = f"a power mean of {np.exp(got):.9g} where {np.exp(low):.9g} can be had"
            return f"{'worse' if got < low else 'other'}: shares per weight {list(map(float, z))}, {means}{shares}"
        with np.errstate(all="ignore"):
            natural = weights.sum() * (got if power == 0 else np.exp(power * got) / power)
            says = answer.objective / weights.sum()
            says = says if power == 0 else np.log(says * power) / power
        if np.isfinite(natural) and natural != 0 and not abs(says - got) <= GAP:
            return f"objective: says {answer.objective:.9g} where its shares are worth {natural:.9g}"
        return OPEN if got < high - 1.01 * GAP else ""


def claimed(answer: Any, value: float, rounding: float = 0.0) -> str:
    """Whether the objective that is reported is that of the tasks."""
    if abs(answer.objective - value) <= GAP * abs(value) + rounding:
        return ""
    return f"objective: says {answer.objective:.9g} where its tasks are worth {value:.9g}"


def best_between(function: concave.Function, cluster: Cluster, forms: Float, rows: Rows) -> concave.Bracket:
    """The best of a concave function of shares, between bounds."""
    return concave.maximise(function, forms, *polytope(cluster, rows))


def polytope(cluster: Cluster, rows: Rows) -> tuple[Float, Float, Float]:
    """What fits as floats: coefficients, the most that they add up to, and the most of each pair."""
    coefficients, values = zip(*cluster.rows, *rows, strict=True)
    return np.array(coefficients, dtype=float), np.array(values, dtype=float), np.array(cluster.reach(), dtype=float)


Curve = tuple[Callable[[Float], Float], Callable[[Float], Float], Callable[[Float], Float]]  # with two derivatives


def curve(kind: str, k: Float) -> Curve:
    """A function of each user's tasks."""
    if kind == "Saturating":
        return lambda x: -np.exp(-k * x), lambda x: k * np.exp(-k * x), lambda x: -(k**2) * np.exp(-k * x)
    if kind == "Logarithms":
        return lambda x: np.log1p(k * x), lambda x: k / (1 + k * x), lambda x: -((k / (1 + k * x)) ** 2)
    if kind == "Roots":
        return lambda x: np.sqrt(k * x), lambda x: np.sqrt(k / x) / 2, lambda x: -np.sqrt(k / x) / (4 * x)
    if kind == "Near":
        return lambda x: -((x - k) ** 2), lambda x: 2 * (k - x), lambda x: np.full(len(k), -2.0)
    return lambda x: k * x, lambda x: k, lambda x: np.zeros(len(k))


def bent(k: Float, x: Float) -> Float:
    """The piecewise linear one."""
    return np.minimum(np.minimum(k * x, 1 + k * x / 4), 3)


def curves_verdict(
    cluster: Cluster, answer: Any, terms: Sequence[tuple[float, str, Float]], rows: Rows | None = None
) -> str:
    """A sum of multiples of curves: as good as the reference, in units of its fall to half of the tasks."""
    if wrong := unfit(cluster, answer.tasks_by_server, rows or [], []):
        return wrong
    smooth = [(factor, curve(kind, k)) for factor, kind, k in terms if not kind.startswith("Bent")]
    corners = [(factor, k) for factor, kind, k in terms if kind.startswith("Bent")]
    n, pairs = cluster.n, len(cluster.pairs)

    def value(x: Float) -> float:
        parts = [f * c[0](x) for f, c in smooth] + [f * bent(k, x) for f, k in corners]
        return float(np.sum(parts))

    tasks = answer.tasks_by_server.sum(axis=1)
    got = value(tasks)
    forms = np.array(cluster.forms(cluster.tasks(), per_weight=False), dtype=float)
    matrix, values, reach = polytope(cluster, rows or [])
    if [kind for _, kind, _ in terms] == ["Saturating"]:  # the logarithm of what is lost keeps its digits
        k = np.asarray(terms[0][2])

        def lost(x: Float) -> tuple[float, Float, Float]:
            least = float((k * x).min())
            part = np.exp(least - k * x)
            pull = k * part / part.sum()
            return least - float(np.log(part.sum())), pull, np.outer(pull, pull) - np.diag(k * pull)

        found = concave.maximise(lost, forms, matrix, values, reach)
        low, high = (-terms[0][0] * float(np.exp(-bound)) for bound in found[:2])
    else:
        scale = abs(value(forms @ reach) - value(np.zeros(n))) + abs(value(forms @ reach / 2) - value(np.zeros(n)))
        extra = [np.zeros((len(corners) * n, pairs)), np.eye(len(corners) * n)]
        for at, (_, k) in enumerate(corners):  # a variable for the least of the pieces
            own = np.eye(len(corners) * n)[at * n : (at + 1) * n]
            for slope, most in ((1.0, 0.0), (0.25, 1.0), (0.0, 3.0)):
                piece = np.hstack([-slope * k[:, None] * forms, own])
                matrix = np.vstack([np.pad(matrix, ((0, 0), (0, piece.shape[1] - matrix.shape[1]))), piece])
                values = np.append(values, np.full(n, most))
        shapes = np.vstack([np.pad(forms, ((0, 0), (0, len(corners) * n))), np.hstack(extra)])
        factors = np.repeat([f for f, _ in corners], n)

        def together(at: Float) -> tuple[float, Float, Float]:
            x, least = at[:n], at[n:]
            with np.errstate(all="ignore"):
                parts = [np.sum([f * c[d](x) for f, c in smooth], axis=0) + np.zeros(n) for d in range(3)]
            slope = np.concatenate([parts[1], factors])
            bend = np.diag(np.concatenate([parts[2], np.zeros(len(least))]))
            return (float(parts[0].sum()) + float(factors @ least)) / scale, slope / scale, bend / scale

        found = concave.maximise(together, shapes, matrix, values, np.append(reach, np.full(len(corners) * n, 3.0)))
        low, high = found.low * scale, found.high * scale
    size = float(np.sum([abs(f * c[0](tasks)).sum() for f, c in smooth])) + sum(3.0 * f * n for f, _ in corners)
    fall = abs(got - value(tasks / 2)) or 1.0
    allowed = GAP * fall + 1e-14 * size
    if got < low - allowed:
        return f"worse: tasks {tasks.tolist()} are worth {got:.12g} where {low:.12g} can be had"
    return claimed(answer, got, allowed) or (OPEN if got < high - 1.01 * allowed else "")
