"""`FairnessEfficiency` by the search along the sum of shares, inside its concave region and outside."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.brute_leximin import Polytope
from oracle.instances import log_uniform
from oracle.lies import lying
from oracle.optimum import best_of_two, random_points

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.proof import gate
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.proposal import Proposal
from fairopt.solve.cone import parametric
from fairopt.solve.form.program import Program
from fairopt.solve.table import parametric_applies
from fairopt.testing import instances

CONES = [s for s in ("CLARABEL", "ECOS", "SCS") if s in cp.installed_solvers()]
LIES = (lambda x: 0.9 * x, lambda x: 0 * x, lambda x: np.where(np.arange(len(x)) == 0, 1e-3 * x, x))
CONCAVE = [(0.3, 3), (0.5, 1.5), (0.5, 5), (0.9, 0.2), (1.1, -0.2), (2, -0.6), (2, -2), (5, -1), (20, -1), (20, -20)]
# fairness weighs more than Pareto efficiency allows, and below beta = 0
OTHER = [(0.5, 0.3), (0.1, 2), (2, -0.25), (5, -0.1), (50, -0.9), (-1, 1), (-1, 0.05), (-3, 0.5), (-0.2, 2), (-40, 0.2)]


def measure(objective: fo.FairnessEfficiency, instance: fo.Instance, tasks: np.ndarray) -> float:
    """The logarithm of the size of f, with the sign by which it is to be large."""
    f = objective.value(Point(instance, tasks[:, None]))
    return float(np.sign(f) * np.log(abs(f))) if np.isfinite(f) and f else -np.inf


def measure_per_emphasis(objective: fo.FairnessEfficiency, instance: fo.Instance, tasks: np.ndarray) -> float:
    """As `measure`, per unit of emphasis: changes by 1 per relative change of all shares."""
    return measure(objective, instance, tasks) / objective.emphasis


def best_on_the_edge(objective: fo.FairnessEfficiency, instance: fo.Instance) -> float:
    """The largest measure of two users: along each ray it grows, so that the best is at full use, at some angle."""
    angles = np.linspace(0, np.pi / 2, 201)[1:-1]
    for _ in range(5):
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        with np.errstate(divide="ignore"):
            reach = np.minimum(1 / (rays @ instance.ratios).max(axis=1), (instance.task_limits / rays).min(axis=1))
        values = [measure(objective, instance, ray) for ray in rays * reach[:, None]]
        k, step = int(np.argmax(values)), angles[1] - angles[0]
        angles = np.linspace(max(angles[k] - step, 1e-12), min(angles[k] + step, np.pi / 2 - 1e-12), 41)
    return max(values)


@pytest.mark.parametrize(("k", "beta", "lam"), [(k, *at) for k, at in enumerate(OTHER)])
def test_outside_the_concave_region_it_finds_the_best_of_two_users(k: int, beta: float, lam: float) -> None:
    instance = (
        fo.Instance([[1, 4], [3, 1]], [9, 18]),
        fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], weights=[1, 3], task_limits=[np.inf, 9]),
    )[k % 2]
    a = fo.GFJ(beta=beta, lam=lam).allocate(instance)
    assert (a.certificate.ok, a.certificate.method) == (True, "parametric")
    right, found = best_on_the_edge(a.policy.objective, instance), measure(a.policy.objective, instance, a.tasks)
    assert abs(right - found) <= 1e-6


@pytest.mark.parametrize("beta", [0.5, 2, -1])
def test_without_emphasis_on_efficiency_the_largest_equal_shares_are_best(beta: float) -> None:
    instance = log_uniform(np.random.default_rng(5), 6, 3)
    a = fo.FDS(beta=beta, lam=0).allocate(instance)
    level = fo.Policy(fo.MaxMin()).allocate(instance).objective
    np.testing.assert_allclose(a.shares / instance.weights, level, rtol=1e-9)


@pytest.mark.parametrize(
    ("beta", "lam", "constraints"),
    [
        (0.5, 0.3, (fo.SharingIncentive(),)),
        (-1, 0.5, (fo.SharingIncentive(),)),
        (2, 0, (fo.EnvyFree(),)),
        (0.5, 0.3, (fo.EnvyFree(),)),
        (2, -0.25, (fo.MaxShare(0.4), fo.Reserve(0, 0.2))),
        (-1, 0.5, (fo.MaxShare(0.4), fo.Reserve(0, 0.2))),
    ],
)
def test_it_takes_further_constraints(beta: float, lam: float, constraints: tuple[fo.Constraint, ...]) -> None:
    instance = log_uniform(np.random.default_rng(8), 4, 2)
    policy = fo.Policy(fo.FairnessEfficiency(beta, lam, fo.Tasks()), constraints)
    a = policy.allocate(instance)
    assert a.certificate.ok
    others = [fo.Policy(o, constraints) for o in (fo.MaxMin(), fo.Total(), fo.Total(fo.Tasks()), fo.AlphaFair(1))]
    corners = [a.tasks, *(other.allocate(instance).tasks for other in others)]
    top = measure(policy.objective, instance, a.tasks) + 1e-6
    for mix in np.random.default_rng(0).dirichlet(np.full(len(corners), 0.5), 100):
        assert measure(policy.objective, instance, mix @ np.array(corners)) <= top


@pytest.mark.parametrize(("beta", "lam"), [(0.5, 0.3), (2, -0.25), (-1, 0.5), (-1, 0)])
def test_several_servers_like_one_pool_where_users_run_on_one_server_each(beta: float, lam: float) -> None:
    alone = fo.Instance([[1, 4], [3, 1]], [[9, 18], [6, 9]], eligible=[[True, False], [False, True]])
    pool = fo.Instance([[1, 4, 0, 0], [0, 0, 3, 1]], [9, 18, 6, 9])
    one, other = (fo.GFJ(beta=beta, lam=lam).allocate(i) for i in (alone, pool))
    np.testing.assert_allclose(one.tasks, other.tasks, rtol=1e-4)
    assert one.objective == pytest.approx(other.objective, rel=1e-6)


def test_an_optimum_that_is_dominated_says_so() -> None:
    apart = fo.Instance([[1, 0], [0, 1]], [1, 4], users=["a", "b"])
    note = fo.GFJ(beta=2, lam=-0.25).allocate(apart).certificate.note
    assert "user 'b' could run 4 tasks, not 2" in note
    assert fo.GFJ(beta=2, lam=-0.45).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18])).certificate.note == ""


def test_it_is_a_method_by_name() -> None:
    instance = fo.Instance([[1, 4], [3, 1]], [9, 18])
    inside = fo.FDS(beta=2, lam=-2).allocate(instance, method="parametric")
    assert inside.certificate.method == "parametric"
    np.testing.assert_allclose(inside.tasks, fo.FDS(beta=2, lam=-2).allocate(instance).tasks, rtol=1e-4)
    with pytest.raises(fo.errors.OutOfDomain, match="FairnessEfficiency"):
        fo.FDS(2).allocate(instance, method="parametric")


@pytest.mark.parametrize(("n", "method"), [(10, "cone"), (50, "cone"), (51, "parametric")])
def test_a_concave_measure_of_few_users_is_one_program(n: int, method: str) -> None:
    instance, policy = fo.datasets.log_uniform(n, n_resources=4, seed=1), fo.FDS(beta=2, lam=-1)
    a, other = policy.allocate(instance), policy.allocate(instance, method="parametric")
    assert (a.certificate.method, other.certificate.method) == (method, "parametric")
    assert a.objective == pytest.approx(other.objective, rel=1e-7)
    np.testing.assert_allclose(a.tasks, other.tasks, rtol=1e-3)


@pytest.mark.parametrize("beta", [-1e6, -1e-6, 1e-6, 1 - 1e-7, 1 + 1e-7, 1e6])
def test_extreme_kinds_of_fairness(beta: float) -> None:
    instance = fo.Instance([[1, 4], [3, 1]], [9, 18])
    lam = 0.5 * abs(1 - beta) / beta * np.sign(1 - beta) if beta > 0 else 0.5
    assert fo.GFJ(beta=beta, lam=lam).allocate(instance).certificate.ok


def test_prices_are_not_shown_where_multipliers_are_no_derivatives() -> None:
    a = fo.GFJ(beta=-1, lam=1).allocate(fo.Instance([[1, 0], [0, 1]], [1, 4]))
    assert a.prices is None and a.prices_left is None and a.share_prices is None


@pytest.mark.parametrize(("beta", "lam"), [(2, -0.25), (-1, 1), (0.5, 0.3)])
def test_a_saved_answer_is_proved_by_its_own_evidence(beta: float, lam: float, tmp_path: Path) -> None:
    policy = fo.Policy(fo.FairnessEfficiency(beta, lam), [fo.SharingIncentive()])
    a = policy.allocate(log_uniform(np.random.default_rng(6), 4, 2))
    program = Program(a.instance, policy.objective, policy.constraints)
    (kept,) = a.evidence
    found = gate.judge(program, Proposal("saved", program.gather(a.tasks_by_server), restored(program, kept, None)))
    assert found.ok and found.gap <= 2 * a.certificate.gap + 1e-9
    loaded = fo.Allocation.load(a.save(tmp_path / "answer.json"))
    assert loaded.certificate.ok and loaded.certificate.method == "parametric"


@settings(max_examples=5)
@given(instances(3, 2, zeros=False), st.sampled_from(OTHER))
def test_scaled_and_mixed_points_are_never_better(instance: fo.Instance, at: tuple[float, float]) -> None:
    policy = fo.GFJ(beta=at[0], lam=at[1])
    a = policy.allocate(instance)
    points = [fo.DRF().allocate(instance), fo.MostTasks().allocate(instance), fo.GFJ(2).allocate(instance)]
    for other in points:
        for t in (0.01, 0.5, 1.0):
            mixed = t * other.tasks_by_server + (1 - t) * a.tasks_by_server
            f = policy.objective.value(Point(instance, mixed))
            assert f <= a.objective + 1e-5 * abs(a.objective)


@pytest.mark.parametrize(("beta", "lam"), CONCAVE)
def test_the_search_finds_the_best_of_two_users(beta: float, lam: float) -> None:
    objective = fo.FairnessEfficiency(beta, lam)
    for demands, capacities, weights in (
        ([[1, 4], [3, 1]], [9, 18], [1, 1]),
        ([[40, 8, 8], [8, 5, 1]], [200, 200, 200], [1, 3]),
    ):
        instance = fo.Instance(demands, capacities, weights=weights)
        worth = partial(measure_per_emphasis, objective, instance)
        right, _ = best_of_two(instance.ratios, instance.task_limits, worth)
        a = fo.Policy(objective).allocate(instance, method="parametric", solver="CLARABEL")
        short = measure_per_emphasis(objective, instance, right) - measure_per_emphasis(objective, instance, a.tasks)
        assert short <= 2e-6
        np.testing.assert_allclose(a.tasks, right, atol=3e-3 * right.max())


@pytest.mark.parametrize("solver", CONES)
def test_each_solver_agrees_or_says_that_it_cannot(solver: str) -> None:
    instance, compared = log_uniform(np.random.default_rng(1), 20, 3, limits=0.3), 0
    for beta, lam in ((0.5, 2), (2, -2)):
        policy = fo.FDS(beta=beta, lam=lam)
        exact = policy.allocate(instance)
        try:
            a = policy.allocate(instance, solver=solver)
        except fo.errors.NotCertified:
            continue
        objective = policy.objective
        values = (measure_per_emphasis(objective, instance, x.tasks) for x in (a, exact))
        assert abs(next(values) - next(values)) <= 2e-6
        compared += 1
    assert compared


@pytest.mark.parametrize(("beta", "lam"), CONCAVE[::3])
def test_no_feasible_point_is_better(beta: float, lam: float) -> None:
    rng = np.random.default_rng(7)
    instance = log_uniform(rng, 12, 3, limits=0.3)
    objective = fo.FairnessEfficiency(beta, lam)
    a = fo.Policy(objective).allocate(instance)
    top = measure_per_emphasis(objective, instance, a.tasks) + 2e-6
    for point in random_points(Polytope.of(instance), rng, 50):
        assert measure_per_emphasis(objective, instance, 0.9 * a.tasks + 0.1 * point[:, 0]) <= top


def test_the_edge_of_the_region_is_alpha_fairness() -> None:
    instance = log_uniform(np.random.default_rng(2), 20, 3)
    for beta in (0.5, 2.0, 5.0):
        a = fo.FDS(beta=beta, lam=(1 - beta) / beta).allocate(instance)
        np.testing.assert_allclose(a.tasks, fo.FDS(beta).allocate(instance).tasks, rtol=1e-4)
        assert not parametric_applies(Program(instance, fo.FairnessEfficiency(beta, (1 - beta) / beta), ()))


def test_much_emphasis_on_efficiency_tends_to_the_sum() -> None:
    instance = log_uniform(np.random.default_rng(3), 10, 3)
    most = fo.Policy(fo.Total()).allocate(instance).objective
    for beta in (0.5, 2.0):
        a = fo.FDS(beta=beta, lam=1e4 * np.sign(1 - beta)).allocate(instance)
        assert a.shares.sum() >= most * (1 - 1e-2)


def test_it_ends_when_the_time_is_up() -> None:
    instance = log_uniform(np.random.default_rng(4), 100, 3)
    with pytest.raises(fo.errors.NotCertified, match="time_limit") as caught:
        fo.FDS(beta=2, lam=-0.3).allocate(instance, time_limit=0.02, solver="CLARABEL")
    assert caught.value.best is not None and not caught.value.best.certificate.ok


def test_a_misleading_solver_gives_no_wrong_answer() -> None:
    instance, refused = fo.Instance([[1, 4], [3, 1]], [9, 18]), 0
    policies = (fo.FDS(beta=2, lam=-3), fo.FDS(beta=2, lam=-0.25), fo.FDS(beta=-1, lam=1))
    answers = [(policy, policy.allocate(instance)) for policy in policies]
    for (policy, right), point in product(answers, LIES):
        with lying(point):
            try:
                # tasks that are all too small grow until they fit no more
                found = policy.allocate(instance, solver="CLARABEL")
                assert abs(found.objective - right.objective) <= 1e-6 * abs(right.objective)
            except fo.errors.NotCertified:
                refused += 1
    assert refused >= 4


def test_a_search_whose_programs_do_not_lower_the_bound_solves_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCS took 2 s for each of 52 equal programs."""
    means: list[float | None] = []

    def solve(search: parametric._Search, mean: float | None, gap: float) -> str:
        means.append(mean)
        return "optimal"

    monkeypatch.setattr(parametric._Search, "solve", solve)
    policy = fo.Policy(fo.FairnessEfficiency(2, -0.2), [fo.EnvyFree()])
    with pytest.raises(fo.errors.NotCertified, match="gap"):
        policy.allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]), solver="CLARABEL")
    assert 1 <= len(means) == len(set(means)) <= parametric.STALLED + 1
