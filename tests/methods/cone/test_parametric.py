"""`FairnessEfficiency` inside its concave region: by the search for the weight of efficiency."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from oracle.brute_leximin import Polytope
from oracle.instances import log_uniform
from oracle.lies import lying
from oracle.optimum import best_of_two, random_points

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.formulation.program import Program
from fairopt.methods.cone import parametric
from fairopt.methods.dispatch import best
from fairopt.methods.settings import Settings

CONES = [s for s in ("CLARABEL", "ECOS", "SCS") if s in cp.installed_solvers()]
PARAMETERS = [(0.3, 3), (0.5, 1.5), (0.5, 5), (0.9, 0.2), (1.1, -0.2), (2, -0.6), (2, -2), (5, -1), (20, -1), (20, -20)]


def measure(objective: fo.FairnessEfficiency, instance: fo.Instance, tasks: np.ndarray) -> float:
    """log of the size of f, per unit of emphasis: changes by 1 per relative change of all shares."""
    f = objective.value(Point(instance, tasks[:, None]))
    return float(np.sign(f) * np.log(abs(f)) / objective.emphasis) if np.isfinite(f) and f else -np.inf


@pytest.mark.parametrize(("beta", "lam"), PARAMETERS)
def test_the_search_finds_the_best_of_two_users(beta: float, lam: float) -> None:
    objective = fo.FairnessEfficiency(beta, lam)
    for demands, capacities, weights in (
        ([[1, 4], [3, 1]], [9, 18], [1, 1]), ([[40, 8, 8], [8, 5, 1]], [200, 200, 200], [1, 3]),
    ):  # fmt: skip
        instance = fo.Instance(demands, capacities, weights=weights)
        right, _ = best_of_two(instance.ratios, instance.task_limits, lambda x, i=instance: measure(objective, i, x))
        program = Program(instance, objective, ())
        answer = best(program, parametric.solve_fairness_efficiency(program, Settings(solver="CLARABEL")))
        assert answer.ok, answer.tried
        assert measure(objective, instance, right) - measure(objective, instance, answer.tasks) <= 2e-6
        np.testing.assert_allclose(answer.tasks, right, atol=3e-3 * right.max())


@pytest.mark.parametrize("solver", CONES)
def test_each_solver_agrees_or_says_that_it_cannot(solver: str) -> None:
    instance = log_uniform(np.random.default_rng(1), 20, 3, limits=0.3)
    for beta, lam in ((0.5, 2), (2, -2)):
        policy = fo.FDS(beta=beta, lam=lam)
        exact = policy.allocate(instance)
        try:
            a = policy.allocate(instance, solver=solver)
        except fo.NotCertified:
            continue
        objective = policy.objective
        assert abs(measure(objective, instance, a.tasks) - measure(objective, instance, exact.tasks)) <= 2e-6


@pytest.mark.parametrize(("beta", "lam"), PARAMETERS[::3])
def test_no_feasible_point_is_better(beta: float, lam: float) -> None:
    rng = np.random.default_rng(7)
    instance = log_uniform(rng, 12, 3, limits=0.3)
    objective = fo.FairnessEfficiency(beta, lam)
    a = fo.Policy(objective).allocate(instance)
    for point in random_points(Polytope.of(instance), rng, 50):
        mixed = 0.9 * a.tasks + 0.1 * point[:, 0]
        assert measure(objective, instance, mixed) <= measure(objective, instance, a.tasks) + 2e-6


def test_the_edge_of_the_region_is_alpha_fairness() -> None:
    instance = log_uniform(np.random.default_rng(2), 20, 3)
    for beta in (0.5, 2.0, 5.0):
        a = fo.FDS(beta=beta, lam=(1 - beta) / beta).allocate(instance)
        np.testing.assert_allclose(a.tasks, fo.FDS(beta).allocate(instance).tasks, rtol=1e-4)
        assert not parametric.parametric_applies(Program(instance, fo.FairnessEfficiency(beta, (1 - beta) / beta), ()))


def test_much_emphasis_on_efficiency_tends_to_the_sum() -> None:
    instance = log_uniform(np.random.default_rng(3), 10, 3)
    most = fo.Policy(fo.Total()).allocate(instance).objective
    for beta in (0.5, 2.0):
        a = fo.FDS(beta=beta, lam=1e4 * np.sign(1 - beta)).allocate(instance)
        assert a.shares.sum() >= most * (1 - 1e-2)


def test_it_ends_when_the_time_is_up() -> None:
    instance = log_uniform(np.random.default_rng(4), 100, 3)
    program = Program(instance, fo.FairnessEfficiency(2, -2), ())
    answer = best(program, parametric.solve_fairness_efficiency(program, Settings(deadline=0.0)))
    assert not answer.ok and answer.tried


def test_a_misleading_solver_gives_no_wrong_answer() -> None:
    policy, instance = fo.FDS(beta=2, lam=-3), fo.Instance([[1, 4], [3, 1]], [9, 18])
    for point in (lambda x: 0.9 * x, lambda x: 0 * x, lambda x: np.where(np.arange(len(x)) == 0, 1e-3 * x, x)):
        with lying(point), pytest.raises(fo.NotCertified):
            policy.allocate(instance)
