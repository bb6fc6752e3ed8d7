"""Lower bounds on tasks of users of several servers, by prices: against programs written by hand in CVXPY."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from oracle.instances import log_uniform

import fairopt as fo
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.gate import judge
from fairopt.proof.proposal import Proposal
from fairopt.solve.cluster.alpha_fair import alpha_fair_on_servers_applies as applies
from fairopt.solve.cluster.interior_point import Interior
from fairopt.solve.cluster.utilities import Powers
from fairopt.solve.form.program import Program
from fairopt.solve.form.units_on_servers import LevelUnits

PAIR = [[6.0, 4.0], [3.0, 9.0]]
OBJECTIVES = {
    "max-min": fo.MaxMin(),
    "max-min of tasks": fo.MaxMin(fo.Tasks()),
    "proportional": fo.AlphaFair(1),
    "alpha = 3": fo.AlphaFair(3),
    "alpha = 1/2": fo.AlphaFair(0.5),
    "on the edge": fo.FairnessEfficiency(2, -0.5),
}


def instance_of(seed: int, n: int = 8, servers: int = 3, limits: float = 0.0) -> fo.Instance:
    """Random users, of whom some have limits, near what is fair."""
    rng = np.random.default_rng(seed)
    given = fo.Instance(
        rng.uniform(0.2, 2, (n, 2)),
        rng.uniform(1, 5, (servers, 2)),
        weights=rng.integers(1, 4, n),
        eligible=(rng.random((n, servers)) < 0.8) | (np.arange(servers) == seed % servers),
    )
    most = np.where(rng.random(n) < limits, rng.uniform(0.5, 2, n) * fo.DRF().allocate(given).tasks, np.inf)
    return given.replace(task_limits=most)


def by_hand(instance: fo.Instance, objective: Any, least: np.ndarray) -> float:
    """The best weighted power mean of levels, or the best smallest level, by a cone program."""
    n, servers = instance.n_users, instance.n_servers
    tasks = cp.Variable((n, servers), nonneg=True)
    total = cp.sum(tasks, axis=1)
    edge = fo.AlphaFair(objective.beta, objective.share) if isinstance(objective, fo.FairnessEfficiency) else objective
    c = edge.share.coefficients(instance)
    levels = cp.multiply(total, c / instance.weights)
    rows = [tasks[:, s] @ instance.demands <= instance.capacities[s] for s in range(servers)]
    rows += [total >= least, cp.multiply(tasks, 1.0 - instance.eligible) == 0]
    limited = np.isfinite(instance.task_limits)
    rows += [total[limited] <= instance.task_limits[limited]] if limited.any() else []
    w = instance.weights / instance.weights.sum()
    if isinstance(edge, fo.MaxMin):
        goal = cp.min(levels)
    elif edge.alpha == 1:
        goal = w @ cp.log(levels)
    else:
        goal = w @ cp.power(levels, 1 - edge.alpha) / (1 - edge.alpha)
    cp.Problem(cp.Maximize(goal), rows).solve(solver=cp.CLARABEL)
    return mean(instance, objective, np.asarray(total.value))


def mean(instance: fo.Instance, objective: Any, tasks: np.ndarray) -> float:
    edge = fo.AlphaFair(objective.beta, objective.share) if isinstance(objective, fo.FairnessEfficiency) else objective
    levels, w = edge.share.coefficients(instance) * tasks / instance.weights, instance.weights / instance.weights.sum()
    if isinstance(edge, fo.MaxMin):
        return float(levels.min())
    if edge.alpha == 1:
        return float(np.exp(w @ np.log(levels)))
    return float((w @ levels ** (1 - edge.alpha)) ** (1 / (1 - edge.alpha)))


def solved(instance: fo.Instance, objective: Any, least: np.ndarray) -> fo.Allocation:
    """The answer by prices, which holds all bounds and is the best."""
    a = fo.Policy(objective, [fo.MinTasks(least)]).allocate(instance, method="prices")
    assert len(a.certificate.tried) == 1 and a.certificate.method == "prices"
    assert (a.tasks >= least * (1 - 1e-7)).all()
    assert mean(instance, objective, a.tasks) == pytest.approx(by_hand(instance, objective, least), rel=2e-6)
    return a


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("limits", [0.0, 0.5])
@pytest.mark.parametrize("part", [0.5, 1.3])
def test_answers_are_those_of_a_program_by_hand(name: str, limits: float, part: float) -> None:
    instance, objective = instance_of(len(name), limits=limits), OBJECTIVES[name]
    free = fo.Policy(objective).allocate(instance).tasks
    some = np.arange(instance.n_users) % 3 == 0
    least = np.where(some, np.minimum(part * free, instance.task_limits), 0.0)
    solved(instance, objective, least)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("seed", range(2))
def test_own_slices_are_kept_where_limits_are_no_higher(name: str, seed: int) -> None:
    instance = instance_of(seed, limits=0.3)
    instance = instance.replace(task_limits=np.minimum(instance.task_limits, np.where(np.arange(8) < 2, 0.1, np.inf)))
    least = instance.own_slices
    assert (least == instance.task_limits).any()
    a = fo.Policy(OBJECTIVES[name], [fo.SharingIncentive()]).allocate(instance)
    assert a.certificate.method == "prices" and (a.tasks >= least * (1 - 1e-7)).all()
    expected = by_hand(instance, OBJECTIVES[name], least)
    assert mean(instance, OBJECTIVES[name], a.tasks) == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_bounds_that_leave_no_room_end_at_the_right_answer(name: str) -> None:
    # all of the optimum is asked for: one allocation of tasks is left
    instance = instance_of(3)
    best = fo.Policy(OBJECTIVES[name]).allocate(instance)
    a = fo.Policy(OBJECTIVES[name], [fo.MinTasks(best.tasks)]).allocate(instance)
    expected = mean(instance, OBJECTIVES[name], best.tasks)
    assert mean(instance, OBJECTIVES[name], a.tasks) == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize(
    "objective",
    [
        fo.AlphaFair(0.5) + 0.1 * fo.Total(),
        fo.AlphaFair(2) + fo.AlphaFair(0.5, fo.Tasks()),
        fo.AlphaFair(1) + 10 * fo.Total(fo.Tasks()),
    ],
    ids=repr,
)
@pytest.mark.parametrize("limits", [0.0, 0.5])
def test_sums_agree_with_the_cone_route(objective: Any, limits: float) -> None:
    instance = instance_of(7, limits=limits)
    free = fo.Policy(objective).allocate(instance).tasks
    least = np.where(np.arange(8) % 3 == 0, np.minimum(1.2 * free, instance.task_limits), 0.0)
    for asked in (fo.MinTasks(least), fo.SharingIncentive()):
        a, b = (fo.Policy(objective, [asked]).allocate(instance, method=m) for m in ("prices", "cone"))
        assert len(a.certificate.tried) == 1 and a.objective == pytest.approx(b.objective, rel=1e-6)
    with pytest.raises(fo.errors.Infeasible, match="MinTasks"):
        fo.Policy(objective, [fo.MinTasks(0.5 * instance.tasks_alone.sum(axis=1))]).allocate(instance)


def test_one_user_whose_own_slice_is_all_there_is() -> None:
    instance = fo.Instance([[1, 2]], PAIR)
    for objective in OBJECTIVES.values():
        a = fo.Policy(objective, [fo.SharingIncentive()]).allocate(instance)
        np.testing.assert_allclose(a.tasks, [2.0 + 3.0], rtol=1e-7)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("seed", range(2))
def test_demands_over_four_decades_are_certified(name: str, seed: int) -> None:
    instance = log_uniform(np.random.default_rng(seed), 60, 3, servers=4, limits=0.3)
    a = fo.Policy(OBJECTIVES[name], [fo.SharingIncentive()]).allocate(instance)
    assert a.certificate.method == "prices" and (a.tasks >= instance.own_slices * (1 - 1e-7)).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_cannot_hold_is_named(name: str) -> None:
    instance = instance_of(1)
    alone = instance.tasks_alone.sum(axis=1)
    for least in (np.where(np.arange(8) == 2, 1.01 * alone, 0.0), 0.3 * alone):  # by one user, by all together
        with pytest.raises(fo.errors.Infeasible, match=r"MinTasks.*times what") as caught:
            fo.Policy(OBJECTIVES[name], [fo.MinTasks(least), fo.MaxTasks(1e6)]).allocate(instance)
        assert any("MinTasks" in part for part in caught.value.conflict)
        assert not any("MaxTasks" in part for part in caught.value.conflict)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_no_prices_bound_below_the_optimum_and_bounds_that_break_are_not_certified(name: str) -> None:
    instance, objective, rng = instance_of(5), OBJECTIVES[name], np.random.default_rng(1)
    free = fo.Policy(objective).allocate(instance).tasks
    least = np.where(np.arange(8) % 2, 1.1 * free, 0.0)
    best = solved(instance, objective, least)
    program = Program(instance, objective, (fo.MinTasks(least),))
    at = program.gather(best.tasks_by_server)
    for some in (rng.uniform(0, 1, (2, 3)), 10 ** rng.uniform(-9, 9, (2, 3)), np.zeros((2, 3))):
        found = judge(program, Proposal("prices", 0.9 * at, Prices(program, Dual(some.T.ravel()))))
        achieved = mean(instance, objective, program.expand(found.tasks).sum(axis=1))
        assert found.gap >= 1.0 - achieved / mean(instance, objective, best.tasks) - 2e-6 and not found.ok
    asked = np.where(least > 0, 0.5 * instance.tasks_alone.sum(axis=1), 0.0)  # more than there is
    program = Program(instance, objective, (fo.MinTasks(asked),))
    prices = np.array(best.evidence[0]["prices"]) * program.whole_capacities  # of the program without more
    short = judge(program, Proposal("prices", at, Prices(program, Dual(prices.ravel()))))
    assert short.block_violation >= 1e-3 and not short.ok


def test_saved_answers_are_proved(tmp_path: Any) -> None:
    instance = instance_of(2, limits=0.3)
    for name, objective in OBJECTIVES.items():
        a = fo.Policy(objective, [fo.SharingIncentive()]).allocate(instance)
        assert fo.verify(a.save(tmp_path / "answer.json")).ok, name


def test_bounds_of_shares_that_differ_by_server_are_left_to_the_cone_route() -> None:
    instance = fo.Instance([[[1, 2], [2, 1]], [[2, 1], [1, 1]]], PAIR)
    assert applies(Program(instance, fo.AlphaFair(1), ()))
    assert not applies(Program(instance, fo.AlphaFair(1), (fo.MinTasks(0.1),)))
    assert not applies(Program(fo.Instance([[1, 2], [2, 1]], PAIR, task_limits=[1, 1]), fo.MaxMin(), (fo.MinTasks(1),)))
    assert fo.Policy(fo.AlphaFair(1), [fo.MinTasks(0.1)]).allocate(instance).certificate.method == "cone"


@pytest.mark.parametrize("together", [False, True])
def test_steps_keep_rooms_what_levels_say(together: bool) -> None:
    instance = instance_of(4, n=20)
    objective = fo.MaxMin() if together else fo.AlphaFair(2)
    units = LevelUnits(Program(instance, objective, (fo.SharingIncentive(),)))
    weights = np.ones(1) if together else instance.weights / instance.weights.sum()
    limits = units.limits.min(keepdims=True) if together else units.limits
    utilities = Powers(weights, 1.0 if together else 2.0)
    point = Interior(units.demands, units.usable, utilities, limits, None, units.floors)
    bounds = point.lower_bounds
    assert bounds is not None
    for _ in range(6):
        assert point.step() > 0
        assert (bounds.slack > 0).all() and (bounds.multipliers > 0).all() and (point.cost > 0).all()
        np.testing.assert_allclose(point.user_levels - units.floors, bounds.slack[0], atol=1e-10)
        if together:
            np.testing.assert_allclose(point.user_levels - point.levels[0], bounds.slack[1], atol=1e-10)
            np.testing.assert_allclose(bounds.multipliers.sum(axis=0), point.smoothed, rtol=1e-8)
