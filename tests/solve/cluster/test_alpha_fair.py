"""Prices on several servers: against the cone method, on hard instances, and their guarantees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle.instances import cluster, clusters, log_uniform

import fairopt as fo
from fairopt.allocation import feasibility
from fairopt.blocks.model import Point
from fairopt.instance.parts import taking_part
from fairopt.proof import dual_bound, lagrangian
from fairopt.proof.gate import JudgedPoint
from fairopt.runtime.clock import Clock
from fairopt.solve.cluster.alpha_fair import alpha_fair_on_servers_applies as applies
from fairopt.solve.cluster.alpha_fair import solve_alpha_fair_on_servers
from fairopt.solve.cluster.interior_point import Interior
from fairopt.solve.cluster.utilities import Powers
from fairopt.solve.dispatch import best
from fairopt.solve.form.demands_at_prices import demands_of
from fairopt.solve.form.program import Program
from fairopt.solve.form.units_on_servers import LevelUnits
from fairopt.solve.settings import Settings

OBJECTIVES = {
    "max-min": fo.MaxMin(),
    "max-min of tasks": fo.MaxMin(fo.Tasks()),
    "proportional": fo.AlphaFair(1),
    "alpha = 2": fo.AlphaFair(2),
    "alpha = 5": fo.AlphaFair(5),
    "alpha = 1/2 of tasks": fo.AlphaFair(0.5, fo.Tasks()),
    "edge of the (beta, lambda) plane": fo.FairnessEfficiency(2, -0.5),
}


def solved(
    instance: fo.Instance, objective: fo.Objective, *constraints: fo.Constraint
) -> tuple[JudgedPoint, np.ndarray]:
    """The certified answer, and tasks by user and server."""
    program = Program(instance, objective, constraints)
    assert applies(program)
    answer = best(program, solve_alpha_fair_on_servers(program, Settings()))
    assert answer is not None
    assert answer.ok and answer.violation == 0.0 and answer.method == "prices"
    table = program.expand(answer.tasks)
    assert feasibility(instance, table) == 0.0
    return answer, table


def point_of(instance: fo.Instance, table: np.ndarray) -> Point:
    """The point without users whose limit is zero, whom objectives leave out."""
    part = instance.task_limits > 0
    return Point(taking_part(instance, part), table[part])


def value(instance: fo.Instance, objective: fo.Objective, table: np.ndarray) -> float:
    return objective.value(point_of(instance, table))


def agree(instance: fo.Instance, objective: fo.Objective) -> None:
    """Require that the cone method's answer is better by its gap at most, and that its bound agrees on the prices."""
    answer, table = solved(instance, objective)
    other = fo.Policy(objective).allocate(instance, method="cone")
    point = point_of(instance, table)
    majorant = objective.majorant(point)
    assert majorant is not None
    here, best = majorant.value(point), majorant.value(point_of(instance, other.tasks_by_server))
    assert best <= here or objective.relative_gap(best, here, point) <= 1e-6
    program = Program(instance, objective, ())
    if LevelUnits(program).limit_use is not None:  # what limits charge is not in the evidence, but found by the gate
        return
    assert answer.prices is not None
    majorant = objective.majorant(Point(program.instance, program.pairs.table(answer.tasks)))  # servers merged
    assert majorant is not None
    multipliers = lagrangian.Multipliers(answer.prices / majorant.unit, np.zeros(len(program.pairs)))
    bound = dual_bound.lagrangian_bound(
        program, majorant, objective, multipliers, answer.tasks, natural=objective.majorant_is_natural
    )
    assert bound.gap <= 1e-6


@pytest.mark.parametrize("name", OBJECTIVES)
@settings(max_examples=5)
@given(instance=clusters())
def test_prices_agree_with_the_cone_route(name: str, instance: fo.Instance) -> None:
    objective = OBJECTIVES[name]
    assume(applies(Program(instance, objective, ())))  # not one server
    agree(instance, objective)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("seed", range(3))
def test_demands_over_four_decades_with_limits_are_certified(name: str, seed: int) -> None:
    instance = log_uniform(np.random.default_rng(seed), 60, 3, servers=4, limits=0.3)
    solved(instance, OBJECTIVES[name])


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0, 3.0, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_alpha_from_a_twentieth_to_five_is_certified(alpha: float, seed: int) -> None:
    instance = cluster(np.random.default_rng(seed), 8, 3, 2)
    solved(instance, fo.AlphaFair(alpha))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_cone_route_agrees_on_two_hundred_users(name: str) -> None:
    instance = fo.datasets.log_uniform(
        200, 3, n_servers=5, different_servers=True, ineligible=0.3, decades=2.0, weights=True, limits=True, seed=1
    )
    answer, table = solved(instance, OBJECTIVES[name])
    other = fo.Policy(OBJECTIVES[name]).allocate(instance, method="cone")
    assert value(instance, OBJECTIVES[name], table) == pytest.approx(other.objective, rel=1e-5)
    assert answer.gap <= 1e-7


@pytest.mark.parametrize("name", OBJECTIVES)
def test_demands_that_differ_by_server_are_certified(name: str) -> None:
    instance = fo.datasets.log_uniform(
        100, 3, n_servers=4, different_servers=True, different_demands=True, ineligible=0.3, decades=2.0, seed=2
    )
    agree(instance, OBJECTIVES[name])


# -- hard cases -----------------------------------------------------------------------------------------------

PAIR = [[6.0, 4.0], [3.0, 9.0]]
HARD = {
    "all users identical": fo.Instance([[1, 2]] * 6, PAIR),
    "one eligible server each": fo.Instance([[1, 2], [2, 1], [1, 1]], PAIR, eligible=[[1, 0], [0, 1], [1, 0]]),
    "a resource no user needs": fo.Instance([[1, 0], [2, 0]], PAIR),
    "a resource no user needs on one server": fo.Instance([[1, 0], [2, 1]], PAIR, eligible=[[1, 0], [0, 1]]),
    "prices of zero": fo.Instance([[1, 1e-3], [2, 1e-3]], PAIR),
    "limits that all bind": fo.Instance([[1, 1], [1, 2]], PAIR, task_limits=[0.5, 0.25]),
    "a limit far below the others": fo.Instance([[1, 1], [1, 2], [2, 1]], PAIR, task_limits=[1e-6, None, None]),
    "limits far above": fo.Instance([[1, 1], [1, 2]], PAIR, task_limits=[1e9, 1e9]),
    "one user": fo.Instance([[1, 2]], PAIR),
    "one user at its limit": fo.Instance([[1, 2]], PAIR, task_limits=[1]),
    "a limit of zero": fo.Instance([[1, 2], [2, 1]], PAIR, task_limits=[0, None]),
    "a server that lacks what a user needs": fo.Instance([[1, 2], [1, 0]], [[6, 0], [3, 9]]),
    "users who need nothing scarce": fo.Instance([[1, 0], [1, 0], [0, 1e-4]], PAIR),
    "counts": fo.Instance([[1, 2], [2, 1]], PAIR, counts=[3, 1]),
    "weights over six decades": fo.Instance([[1, 2], [2, 1], [1, 1]], PAIR, weights=[1e-3, 1, 1e3]),
    "capacities over nine decades": fo.Instance([[1e-3, 2e5], [2e-3, 1e5]], [[6e-3, 4e6], [3, 9e2]]),
}


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, list(OBJECTIVES)[(k + i) % len(OBJECTIVES)]) for k, case in enumerate(HARD) for i in (0, 2, 3)],
)
def test_hard_cases_are_certified_and_no_worse_than_the_cone_route(case: str, name: str) -> None:
    instance, objective = HARD[case], OBJECTIVES[name]
    _, table = solved(instance, objective)
    other = fo.Policy(objective).allocate(instance, method="cone")
    best = value(instance, objective, table)
    assert best >= other.objective - 1e-5 * abs(other.objective) - 1e-9


def test_users_at_limits_that_all_bind_get_them() -> None:
    for objective in OBJECTIVES.values():
        if not isinstance(objective, fo.MaxMin):  # which stops at the first limit
            _, table = solved(HARD["limits that all bind"], objective)
            np.testing.assert_allclose(table.sum(axis=1), [0.5, 0.25], rtol=1e-6)


def test_the_example_of_drfh() -> None:
    _, table = solved(fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]]), fo.MaxMin())
    np.testing.assert_allclose(table, [[10, 0], [0, 10]], rtol=1e-6, atol=1e-6)


def test_a_reserve_is_left_free() -> None:
    instance = fo.Instance([[1, 2], [2, 1]], PAIR)
    for objective in OBJECTIVES.values():
        _, table = solved(instance, objective, fo.Reserve(0, 0.25))
        assert (table.T @ instance.demands[:, 0] <= 0.75 * instance.capacities[:, 0]).all()


def test_no_user_runs_where_all_of_a_needed_resource_is_reserved() -> None:
    demands = [[[1, 0], [0, 2]], [[0, 1], [1, 0]]]
    instance = fo.Instance(demands, PAIR)
    for objective in OBJECTIVES.values():
        _, table = solved(instance, objective, fo.Reserve(0, 1.0))
        assert table[0, 0] == 0.0 and table[1, 1] == 0.0 and (table.sum(axis=1) > 0).all()


# -- what the answer means ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objective",
    [
        fo.MaxMin(fo.Tasks()),
        fo.AlphaFair(0.5, fo.Tasks()),
        fo.AlphaFair(3, fo.Tasks()),
        fo.FairnessEfficiency(2, -0.5, fo.Tasks()),
    ],
)
def test_prices_are_derivatives_of_the_objective_by_capacity(objective: fo.Objective) -> None:
    # in tasks: dominant shares would move with the capacities
    instance = fo.datasets.log_uniform(12, 2, n_servers=3, different_servers=True, decades=1.0, weights=True, seed=3)
    program = Program(instance, objective, ())
    answer, _ = solved(instance, objective)
    assert answer.prices is not None
    prices = program.expand_prices(answer.prices)
    step = 1e-4
    for s, i in np.ndindex(*prices.shape):
        ends = []
        for sign in (1, -1):
            capacities = instance.capacities.copy()
            capacities[s, i] *= 1 + sign * step
            other = instance.with_capacities(capacities)
            ends.append(value(other, objective, solved(other, objective)[1]))
        slope = (ends[0] - ends[1]) / (2 * step)
        worth = float((prices * instance.capacities).sum())
        assert slope == pytest.approx(prices[s, i] * instance.capacities[s, i], abs=2e-3 * worth)


@pytest.mark.parametrize("name", OBJECTIVES)
@given(seed=st.integers(0, 1000))
@settings(max_examples=5)
def test_the_order_of_users_and_servers_does_not_matter(name: str, seed: int) -> None:
    objective = OBJECTIVES[name]
    rng = np.random.default_rng(seed)
    instance = fo.datasets.log_uniform(20, 2, n_servers=3, different_servers=True, ineligible=0.2, seed=seed)
    users, servers = rng.permutation(20), rng.permutation(3)
    other = fo.Instance(
        instance.demands[users], instance.capacities[servers], eligible=instance.eligible[users][:, servers]
    )
    x, y = solved(instance, objective)[1], solved(other, objective)[1]
    unit = abs(value(instance, objective, x))
    assert value(other, objective, y) == pytest.approx(value(instance, objective, x), abs=1e-6 * unit)
    if isinstance(objective, fo.AlphaFair):  # levels are unique, who holds them where is not
        np.testing.assert_allclose(y.sum(axis=1), x.sum(axis=1)[users], rtol=1e-4)


@pytest.mark.parametrize("alpha", [2.0, 5.0])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_left_over_is_of_no_use_to_any_user(alpha: float, seed: int) -> None:
    # the gap hardly sees the rich at large alpha
    instance = log_uniform(np.random.default_rng(seed), 40, 3, servers=4, limits=0.3)
    _, table = solved(instance, fo.AlphaFair(alpha))
    left = np.maximum(instance.capacities - table.T @ instance.demands, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(instance.demands[:, None, :] > 0, left / instance.demands[:, None, :], np.inf).min(axis=2)
    tasks = table.sum(axis=1)
    more = np.minimum(np.where(instance.eligible, more, 0.0).sum(axis=1), instance.task_limits - tasks)
    assert (more <= 1e-3 * tasks).all()


def test_a_deadline_that_has_passed_gives_no_answer() -> None:
    instance = fo.datasets.log_uniform(50, 2, n_servers=3, different_servers=True, seed=1)
    program = Program(instance, fo.AlphaFair(1), ())
    assert not best(program, solve_alpha_fair_on_servers(program, Settings(clock=Clock(1e-9)))).ok


def test_demands_may_be_single_floats() -> None:
    instance = fo.datasets.log_uniform(50, 2, n_servers=3, different_servers=True, seed=1)
    single = fo.Instance(instance.demands.astype(np.float32), instance.capacities)
    a, _ = solved(single, fo.AlphaFair(1))
    assert a.gap <= 1e-7


@pytest.mark.parametrize(
    ("objective", "constraints", "why"),
    [
        (fo.Leximin(), (), "an order"),
        (fo.Total(), (), "linear"),
        (fo.AlphaFair(0), (), "linear"),
        (fo.AlphaFair(0.01), (), "too small"),
        (fo.AlphaFair(100), (), "too large"),
        (fo.AlphaFair(1) + fo.Total(), (), "a sum"),
        (fo.FairnessEfficiency(2, -2), (), "off the edge"),
        (fo.AlphaFair(1), (fo.EnvyFree(),), "users are linked"),
    ],
)
def test_it_leaves_what_it_cannot_do_to_the_cone_route(objective: Any, constraints: Any, why: str) -> None:
    assert not applies(Program(fo.Instance([[1, 2], [2, 1]], PAIR), objective, constraints)), why


def test_it_leaves_pools_to_others() -> None:
    assert not applies(Program(fo.Instance([[1, 2], [2, 1]], [6, 4]), fo.AlphaFair(1), ()))
    assert not applies(Program(fo.Instance([[1, 2], [2, 1]], [[6, 4], [6, 4]]), fo.AlphaFair(1), ()))


# -- the parts ------------------------------------------------------------------------------------------------


def by_hand(demands: np.ndarray, capacities: np.ndarray, per_level: np.ndarray) -> np.ndarray:
    """``g`` as (users, resources, servers)."""
    table = demands if demands.ndim == 3 else np.broadcast_to(demands[:, None, :], (len(demands), *capacities.shape))
    return np.swapaxes(table / capacities * per_level[:, :, None], 1, 2)


@pytest.mark.parametrize("by_server", [False, True])
def test_loads_and_costs_are_those_written_out(by_server: bool) -> None:
    rng = np.random.default_rng(1)
    n, servers, m = 40, 3, 2
    demands = rng.uniform(size=(n, servers, m) if by_server else (n, m))
    capacities, per_level = rng.uniform(1, 2, (servers, m)), rng.uniform(size=(n, servers if by_server else 1))
    kind = demands_of(demands, capacities, per_level, np.ones((n, servers), dtype=bool))
    g = by_hand(demands, capacities, np.broadcast_to(per_level, (n, servers)))
    parts, prices, every = rng.uniform(size=(n, servers)), rng.uniform(size=(m, servers)), slice(0, n)
    np.testing.assert_allclose(kind.costs(prices, every), np.einsum("jis,is->js", g, prices))
    np.testing.assert_allclose(kind.all_loads(parts), np.einsum("jis,js->is", g, parts))
    np.testing.assert_allclose(kind.stacked(parts, every), (g * parts[:, None, :]).reshape(n, -1))
    pairs = np.stack([np.einsum("js,js,js->s", parts, g[:, i], g[:, k]) for i, k in zip(*kind.upper, strict=True)])
    np.testing.assert_allclose(kind.curvature(parts, every), pairs)


@pytest.mark.parametrize("together", [False, True])
def test_a_step_keeps_everything_positive_and_margins_what_prices_say(together: bool) -> None:
    rng = np.random.default_rng(2)
    n, servers, m = 30, 3, 2
    demands = demands_of(
        rng.uniform(0.5, 2, (n, m)), rng.uniform(1, 2, (servers, m)) * n, np.ones((n, 1)), np.ones((n, servers), bool)
    )
    groups = 1 if together else n
    point = Interior(demands, np.ones((m, servers)), Powers(np.full(groups, 1 / groups), 1.0), np.full(groups, np.inf))
    for _ in range(8):
        assert point.step() > 0
        for positive in (point.parts, point.reduced, point.prices, point.slack, point.levels, point.cost):
            assert (positive > 0).all()
        costs = demands.costs(point.prices, slice(0, n))
        np.testing.assert_allclose(costs - point.smoothed[:, None], point.reduced, atol=1e-12 * costs.max())
    assert point.done(1e-6, 1e-2)
