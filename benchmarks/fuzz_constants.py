"""Objectives made of CVXPY's atoms, sums, multiples and constants, beside the same without constants; for fuzz.py.

The reference maximises the objective without constants by CVXPY and CLARABEL alone, and makes its point feasible. That
point is wrongly missed if it is better than a certified answer by more than twice the tolerance, in the unit of gaps.
What constants hide is forgiven nowhere: answers that they drown must be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from fuzz_blocks import NAMES, OWN, Draw

import fairopt as fo

Expression = Any
UNKNOWN = "?"  # as in `fuzz_verdicts`, which imports this module
MISSED = 2e-6  # of the unit: an answer that is worse by more is wrong
NOISE = 1e-9  # of what the objective changes to other points: the tolerance of solvers
LAST_DIGITS = 8  # roundings of a constant in a value: in each of a few terms, and of their differences
FLAT = 1e-6  # of the same: less to half the tasks is the rest of an optimum without tasks, or with none that count


def _spread(n: int) -> Any:
    """A positive definite matrix with neighbours that are related."""
    return 2.0 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)


def _aims(n: int) -> Any:
    """A point inside small instances."""
    return 1.5 - 0.25 * np.arange(n)


# Concave functions of tasks times rates, (n,).
ATOMS: dict[str, Callable[[Expression], Expression]] = {
    "sum": cp.sum,
    "min": cp.min,
    "sqrt": lambda x: cp.sum(cp.sqrt(x)),
    "log": lambda x: cp.sum(cp.log(x)),
    "log1p": lambda x: cp.sum(cp.log1p(x)),
    "log_of_sum": lambda x: cp.log(1 + cp.sum(x)),
    "entr": lambda x: cp.sum(cp.entr(x)),
    "exp": lambda x: -cp.sum(cp.exp(-x)),
    "norm": lambda x: -cp.norm(x - _aims(x.size)),
    "norm1": lambda x: -cp.norm1(x - _aims(x.size)),
    "norm_inf": lambda x: -cp.norm_inf(x - _aims(x.size)),
    "pnorm": lambda x: -cp.pnorm(x - _aims(x.size), 3),
    "sum_squares": lambda x: -cp.sum_squares(x - _aims(x.size)),
    "square": lambda x: -cp.sum(cp.square(x - _aims(x.size))),
    "huber": lambda x: -cp.sum(cp.huber(x - _aims(x.size), 0.5)),
    "abs": lambda x: -cp.sum(cp.abs(x - _aims(x.size))),
    "minimum": lambda x: cp.sum(cp.minimum(x, 1.7)),
    "maximum": lambda x: -cp.sum(cp.maximum(x, 1.2)),
    "max": lambda x: -cp.max(x),
    "pos": lambda x: -cp.sum(cp.pos(x - 1.0)),
    "neg": lambda x: -cp.sum(cp.neg(x - 1.0)),
    "geo_mean": cp.geo_mean,
    "harmonic_mean": cp.harmonic_mean,
    "sum_smallest": lambda x: cp.sum_smallest(x, max(x.size - 1, 1)),
    "sum_smallest_of_all": lambda x: cp.sum_smallest(x, x.size),
    "sum_largest": lambda x: -cp.sum_largest(x, max(x.size - 1, 1)),
    "sum_largest_of_all": lambda x: -cp.sum_largest(x, x.size),
    "cvar": lambda x: -cp.cvar(-x, 0.5),
    "log_sum_exp": lambda x: -cp.log_sum_exp(x),
    "logistic": lambda x: -cp.sum(cp.logistic(-x)),
    "power": lambda x: cp.sum(cp.power(x, 0.3)),
    "inv_pos": lambda x: -cp.sum(cp.inv_pos(1 + x)),
    "steep": lambda x: -cp.sum(cp.power(x, 1.5)),
    "quad_over_lin": lambda x: -cp.quad_over_lin(x - _aims(x.size), 1 + cp.sum(x)),
    "quad_form": lambda x: -cp.quad_form(x - _aims(x.size), _spread(x.size)),
    "rel_entr": lambda x: -cp.sum(cp.rel_entr(x, 1.0 + np.arange(x.size))),
    "kl_div": lambda x: -cp.sum(cp.kl_div(x, 1.0 + np.arange(x.size))),
    "tv": lambda x: -cp.tv(x) if x.size > 1 else -cp.abs(x[0] - 1),
    "var": lambda x: -cp.var(x),
    "std": lambda x: -cp.std(x),
    "ptp": lambda x: -cp.ptp(x),
    "dotsort": lambda x: -cp.dotsort(x, np.arange(x.size)),
    "scalene": lambda x: -cp.sum(cp.scalene(x - 1.0, 0.3, 0.7)),
    "inv_prod": lambda x: -cp.inv_prod(1 + x),
    "cumsum": lambda x: cp.min(cp.cumsum(x)),
    "cummax": lambda x: -cp.sum(cp.cummax(x)),
    "diff": lambda x: -cp.norm(cp.diff(x)) if x.size > 1 else -cp.square(x[0] - 1),
    "matrix_frac": lambda x: -cp.matrix_frac(x - _aims(x.size), _spread(x.size)),
    "xexp": lambda x: -cp.sum(cp.xexp(0.1 * x)),
    "lambda_min": lambda x: cp.lambda_min(cp.diag(x)),  # of matrices, which are refused
}
# Atoms with f(x + c) = f(x) + k c for all c and some k: constants inside drown differences of x.
SHIFTED = ("sum", "min", "max", "sum_smallest", "sum_largest", "log_sum_exp", "ptp", "var")
# Terms of a constant k and tasks x that change nothing, or little, but in floats; and what they are without k.
DROWNING: dict[str, tuple[Callable[[Expression, float], Expression], Callable[[Expression], Expression]]] = {
    "maximum": (lambda x, k: -cp.maximum(k, x[0]), lambda x: 0),
    "maximum_of_sum": (lambda x, k: -cp.maximum(k, cp.sum(x)), lambda x: 0),
    "minimum": (lambda x, k: cp.minimum(k, k + x[0]), lambda x: 0),
    "minimum_above": (lambda x, k: cp.minimum(k + 1, k + x[0]), lambda x: cp.minimum(1, x[0])),
    "abs": (lambda x, k: -cp.abs(x[0] - k), lambda x: x[0]),
    "cancels": (lambda x, k: k * x[0] - k * x[0], lambda x: 0),
    "sum_cancels": (lambda x, k: k * cp.sum(x) - k * cp.sum(x), lambda x: 0),
    "shifted": (lambda x, k: cp.sum(x + k - k), cp.sum),
    "": (lambda x, k: 0, lambda x: 0),
}


@dataclass(frozen=True, repr=False)
class OfAtoms(fo.Objective):
    """A sum of ``factor * (atom(rates * tasks + inside) + added)``, a term that drowns it, and a constant of some kind.

    The kind "required" is a row of a variable of its own.
    """

    atoms: tuple[tuple[float, str, float, float, float], ...]
    constant: float
    kind: str
    drowning: tuple[str, float] = ("", 0.0)

    def expression(self, model):
        total = DROWNING[self.drowning[0]][0](model.tasks, self.drowning[1])
        for factor, atom, rate, inside, added in self.atoms:
            total = total + factor * (ATOMS[atom](rate * model.tasks + inside) + added)
        if self.kind == "required":
            value = model.variable(())
            model.require("value", value <= total + self.constant)
            return value
        if self.kind == "parameter":
            return total + cp.Parameter(value=self.constant)
        if self.kind == "vector":
            return cp.sum(cp.hstack([total, self.constant / 2, self.constant / 2]))
        if self.kind == "product":
            return (total / 2 + cp.Constant(self.constant) / 2) * 2
        return self.constant + total if self.kind == "before" else total - (-self.constant)

    def plain(self, tasks):
        """The same without the constants that are added, of tasks."""
        parts = sum(factor * ATOMS[atom](rate * tasks) for factor, atom, rate, _, _ in self.atoms)
        return parts + DROWNING[self.drowning[0]][1](tasks)

    def size(self, tasks):
        """The size of the terms that are rounded in it."""
        values = [abs(float(ATOMS[atom](cp.Constant(rate * tasks)).value)) for _, atom, rate, _, _ in self.atoms]
        sizes = zip(self.atoms, values, strict=True)
        return sum(part[0] * (value + part[2] * tasks.sum()) for part, value in sizes)


NAMES["OfAtoms"] = OWN["OfAtoms"] = OfAtoms


def _size(rng: np.random.Generator) -> float:
    """A constant: none, an ordinary one, or a large one."""
    sign, word = rng.choice([-1.0, 1.0]), rng.random()
    return float(sign * (0.0 if word < 0.15 else 10 ** rng.uniform(-3, 4) if word < 0.4 else 10 ** rng.uniform(10, 15)))


def constants(rng: np.random.Generator) -> Draw:
    """A small instance and an objective of one to three atoms."""
    n, m = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    demands = rng.integers(0, 6, (n, m))
    demands[:, 0] += demands.sum(axis=1) == 0
    given: dict[str, Any] = {"demands": demands.tolist(), "capacities": rng.integers(2, 30, (1, m)).tolist()}
    if rng.random() < 0.2:
        given["task_limits"] = [None if rng.random() < 0.5 else int(k) / 2 for k in rng.integers(1, 12, n)]
    parts = []
    for _ in range(rng.integers(1, 4)):
        atom = str(rng.choice(list(ATOMS)))
        inside = _size(rng) if atom in SHIFTED and rng.random() < 0.25 else 0.0
        added = _size(rng) if rng.random() < 0.3 else 0.0
        factor = float(f"{10 ** rng.uniform(-3, 1.5):.3g}")
        parts.append((factor, atom, float(rng.choice([0.1, 0.5, 1.0, 2.0])), inside, added))
    kind = str(rng.choice(["before", "after", "parameter", "vector", "product", "required"]))
    drowning = (str(rng.choice(list(DROWNING))), float(10 ** rng.uniform(3, 17))) if rng.random() < 0.25 else ("", 0.0)
    return Draw(given, fo.Policy(OfAtoms(tuple(parts), _size(rng), kind, drowning)), how=("constants",))


def written_out(given: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Demands, capacities and limits of a draw."""
    demands, room = np.array(given["demands"], dtype=float), np.array(given["capacities"][0], dtype=float)
    return (
        demands,
        room,
        np.array([np.inf if t is None else t for t in given.get("task_limits", [None] * len(demands))]),
    )


def reference(draw: Draw) -> tuple[Any, Callable[[Any], float]] | None:
    """The best tasks without the constants, and the objective without them as a function of tasks; None without one."""
    (demands, room, limits), objective = written_out(draw.given), draw.policy.objective
    x = cp.Variable(len(demands), nonneg=True)
    some = np.isfinite(limits)
    conditions = [demands.T @ x <= room, *([x[some] <= limits[some]] if some.any() else [])]
    problem = cp.Problem(cp.Maximize(objective.plain(x)), conditions)
    try:
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    except cp.error.SolverError:
        return None
    if x.value is None:
        return None
    best = np.minimum(np.maximum(x.value, 0.0), limits)
    best /= max(1.0, float((best @ demands / room).max()))

    def value(at: Any) -> float:
        x.value = at
        return float(objective.plain(x).value)

    return best, value


def drowned(draw: Draw) -> bool:
    """Whether a last digit of the constants inside hides a millionth of what the objective changes on the way to half.

    Constants that are only added hide nothing, unless a row of a variable of one's own has them.
    """
    objective, found = draw.policy.objective, reference(draw)
    if found is None:
        return False
    best, value = found
    inside = [abs(factor * (inside if atom in SHIFTED else 0.0)) for factor, atom, _, inside, _ in objective.atoms]
    drowning, k = objective.drowning
    if drowning:  # those that cancel are multiples of tasks
        inside.append(k * max(1.0, float(best.sum())) if "cancels" in drowning else k)
    if objective.kind == "required":
        inside += [abs(objective.constant), *(abs(factor * added) for factor, *_, added in objective.atoms)]
    with np.errstate(all="ignore"):
        change = abs(value(best) - value(best / 2))
    return bool(np.spacing(max(inside, default=0.0)) * LAST_DIGITS >= MISSED / 2 * change)


def missed(draw: Draw, answer: Any) -> str:
    """What is wrong with a certified answer; nothing if no better point is found, and `UNKNOWN` without a reference."""
    (demands, room, limits), objective = written_out(draw.given), draw.policy.objective
    tasks = np.asarray(answer.tasks)
    if (tasks < 0).any() or (tasks > limits * (1 + 1e-9)).any() or (tasks @ demands > room * (1 + 1e-9)).any():
        return "over: a capacity or limit"
    found = reference(draw)
    if found is None:
        return UNKNOWN
    best, value = found
    with np.errstate(all="ignore"):
        got, there = value(tasks), value(best)
        short = there - got
        half, slope = abs(got - value(tasks / 2)), abs(got - value(tasks * (1 - 1e-4))) / 1e-4
        unit = min(half, slope if slope >= half else max(slope, got - value(2 * tasks)))
        alone = np.min(np.divide(room, demands, out=np.full(demands.shape, np.inf), where=demands > 0), axis=1)
        parts = np.minimum(alone, limits) / len(tasks)
        changes = [abs(got - value(other)) for other in (parts, 0 * tasks, 0 * tasks + 1, *np.diag(parts))]
        changes = [change for change in changes if np.isfinite(change)]
        # differences within the rounding of values, or the tolerance of solvers, count as none
        most = max(changes, default=0.0)
        noise = max(1e-13 * objective.size(tasks), NOISE * most)
        if unit <= max(noise, FLAT * most):  # the unit of certificates is then the change to other points
            unit = next((change for change in changes if change > noise), abs(short))
    return "" if short <= MISSED * unit + noise else f"worse: {short:.2e}, {short / unit:.1e} of the unit"
