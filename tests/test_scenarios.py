"""The notions of the page on uncertain capacities are the optima of programs written by hand."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo

PAGE = (Path(__file__).parents[1] / "docs" / "scenarios.md").read_text(encoding="utf-8")
SEEDS = range(3)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the Python blocks of the page define."""
    held: dict[str, Any] = {"__name__": __name__}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "scenarios.md", "exec"), held)
    return held


class Drawn:
    """A random pool with scenarios, and what runs in each as a program in fractions of capacities."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n, m, k = rng.integers(2, 5), rng.integers(1, 4), rng.integers(2, 4)
        demands, capacities = rng.integers(1, 9, (n, m)), rng.integers(20, 60, m)
        self.weights = rng.integers(1, 4, n)
        self.instance = fo.Instance(demands, capacities, weights=self.weights)
        self.left = rng.integers(2, 11, (k, m)) / 10
        self.chances = rng.dirichlet(np.ones(k))
        self.parts = demands / capacities
        self.tasks = cp.Variable(n, nonneg=True)
        self.runs = [cp.Variable(n, nonneg=True) for _ in range(k)]
        self.levels = cp.hstack([cp.min(cp.multiply(self.parts.max(axis=1) / self.weights, y)) for y in self.runs])
        self.constraints = [self.parts.T @ self.tasks <= 1]
        for runs, left in zip(self.runs, self.left, strict=True):
            self.constraints += [runs <= self.tasks, self.parts.T @ runs <= left]

    @property
    def scenarios(self) -> tuple[tuple[float, ...], ...]:
        return tuple(map(tuple, self.left.tolist()))

    def best(self, objective: cp.Expression) -> float:
        return float(cp.Problem(cp.Maximize(objective), self.constraints).solve(solver="HIGHS"))

    def cvar(self, part: float) -> cp.Expression:
        """The largest ``t - E (t - level)+ / part``."""
        t = cp.Variable()
        return t - self.chances @ cp.pos(t - self.levels) / part


def assert_optimal(answer: fo.Allocation, best: float) -> None:
    assert answer.certificate.ok and answer.certificate.assumed == ""
    assert answer.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_expected_and_worst_levels_are_those_of_programs_by_hand(page: dict[str, Any], seed: int) -> None:
    drawn = Drawn(seed)
    expected = fo.Policy(page["Expected"](drawn.scenarios, tuple(drawn.chances.tolist()))).allocate(drawn.instance)
    assert_optimal(expected, drawn.best(drawn.chances @ drawn.levels))
    assert_optimal(fo.Policy(page["Worst"](drawn.scenarios)).allocate(drawn.instance), drawn.best(cp.min(drawn.levels)))
    for k, left in enumerate(drawn.left):
        runs = expected.variables[f"runs in {k}"]
        assert (runs <= expected.tasks * (1 + 1e-7)).all() and (drawn.parts.T @ runs <= left * (1 + 1e-7)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_cvar_is_that_of_a_program_by_hand_and_the_mean_of_the_lowest_levels(page: dict[str, Any], seed: int) -> None:
    drawn, part = Drawn(seed), 0.4
    answer = fo.Policy(page["CVaR"](drawn.scenarios, tuple(drawn.chances.tolist()), part)).allocate(drawn.instance)
    assert_optimal(answer, drawn.best(drawn.cvar(part)))
    left, mean = part, 0.0
    for k in np.argsort(answer.variables["levels"]):
        taken = min(drawn.chances[k], left)
        left, mean = left - taken, mean + taken / part * answer.variables["levels"][k]
    assert answer.objective == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_robust_tasks_are_those_that_fit_for_every_choice_of_users(page: dict[str, Any], seed: int) -> None:
    drawn, rise = Drawn(seed), 0.3
    most = fo.Policy(fo.Total(fo.Tasks()), [page["Robust"](1, rise)]).allocate(drawn.instance)
    higher = [np.where(np.arange(len(drawn.parts))[:, None] == j, 1 + rise, 1.0) for j in range(len(drawn.parts))]
    fits = [(drawn.parts * factor).T @ drawn.tasks <= 1 for factor in higher]
    best = cp.Problem(cp.Maximize(cp.sum(drawn.tasks)), fits).solve(solver="HIGHS")
    assert_optimal(most, best)


def test_on_one_resource_levels_are_exact_fractions(page: dict[str, Any]) -> None:
    """All users need only cpu, so that in a scenario all levels are its part of 1 / total weight."""
    pool, level = fo.Instance([[1], [2], [3]], [12], weights=[1, 2, 3]), Fraction(1, 6)
    left, chances = (Fraction(1, 4), Fraction(1, 2), Fraction(1)), (Fraction(1, 8), Fraction(3, 8), Fraction(1, 2))
    scenarios, floats = tuple((float(part),) for part in left), tuple(map(float, chances))
    mean = level * sum(part * chance for part, chance in zip(left, chances, strict=True))
    lowest = level * (left[0] * chances[0] + left[1] * (Fraction(1, 4) - chances[0])) * 4
    for objective, exact in (
        (page["Expected"](scenarios, floats), mean),
        (page["CVaR"](scenarios, floats, 1.0), mean),
        (page["CVaR"](scenarios, floats, 0.25), lowest),
        (page["CVaR"](scenarios, floats, 0.125), level * left[0]),
        (page["Worst"](scenarios), level * left[0]),
    ):
        assert fo.Policy(objective).allocate(pool).objective == pytest.approx(float(exact), rel=1e-9)


def test_what_runs_is_shared_by_an_objective_and_a_bound(page: dict[str, Any]) -> None:
    drawn = Drawn(1)
    worst, chances = drawn.best(cp.min(drawn.levels)), tuple(drawn.chances.tolist())
    bounded = fo.Policy(page["Expected"](drawn.scenarios, chances), [page["Worst"](drawn.scenarios) >= 0.99 * worst])
    drawn.constraints.append(cp.min(drawn.levels) >= 0.99 * worst)
    answer = bounded.allocate(drawn.instance)
    assert_optimal(answer, drawn.best(drawn.chances @ drawn.levels))
    assert len(answer.variables) == 1 + len(drawn.left)
    assert not any("another" in name or " of `" in name for name in answer.multipliers)
