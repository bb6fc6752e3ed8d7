"""Certificates: bad prices give weak bounds, never wrong ones; and only the optimum has no gap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.brute_leximin import Polytope
from oracle.instances import cluster, log_uniform, pools
from oracle.optimum import linear, random_points

import fairopt as fo
from fairopt.allocation import feasibility
from fairopt.blocks.model import Point
from fairopt.blocks.rows import Rows
from fairopt.proof import dual_bound, lagrangian
from fairopt.proof import feasibility as conditions
from fairopt.proof.conic import conic_bound, least_squares
from fairopt.proof.pool_gaps import bottlenecks
from fairopt.runtime.clock import Clock, Late
from fairopt.solve.form.pool_users import Pool
from fairopt.solve.form.program import ConeModel, Program

OBJECTIVES = [
    fo.Total(),
    fo.Total(fo.Tasks()),
    fo.AlphaFair(0),
    fo.AlphaFair(0.3),
    fo.AlphaFair(1, fo.Tasks()),
    fo.AlphaFair(3),
    fo.AlphaFair(20),
    fo.MaxMin(),
    fo.Leximin(fo.Tasks()),
    fo.OrderedWeighted((3, 2, 1)),
    fo.OrderedWeighted((1, 1), fo.Tasks()),
    fo.FairnessEfficiency(0.5, 1),
    fo.FairnessEfficiency(0.5, 4),
    fo.FairnessEfficiency(3, -2),
    fo.FairnessEfficiency(1, 2),
    fo.AlphaFair(1) + 0.5 * fo.Total(fo.Tasks()),
    fo.AlphaFair(2, fo.Tasks()) + fo.MaxMin() + fo.OrderedWeighted((2, 1)),
    fo.AlphaFair(0.5) + fo.AlphaFair(2, fo.Tasks()) + fo.MaxMin(),
]


def drawn(seed: int, by_server: bool) -> tuple[np.random.Generator, fo.Instance]:
    rng = np.random.default_rng(seed)
    return rng, cluster(rng, int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 4)), by_server)


def pairs_of(program: Program, table: np.ndarray) -> np.ndarray:
    return table[program.pairs.user, program.pairs.server]


def feasible(program: Program, rng: np.random.Generator, count: int) -> Iterator[np.ndarray]:
    """Feasible tasks by pair that keep the program's bounds too."""
    polytope = Polytope.of(program.instance)
    for j, (low, high) in enumerate(zip(program.low, program.high, strict=True)):
        if low > 0:
            polytope.at_most(-polytope.user(j), -low)
        if np.isfinite(high):
            polytope.at_most(polytope.user(j), high)
    corners = polytope.corners([rng.normal(size=polytope.eligible.shape) for _ in range(4)])
    for _ in range(count):
        mix = rng.dirichlet(np.full(4, 0.5))
        yield pairs_of(program, sum(m * np.maximum(c, 0) for m, c in zip(mix, corners, strict=True)))


def value(objective: fo.Objective, program: Program, tasks: np.ndarray, majorant: object) -> float:
    """The objective in its majorant's units."""
    point = Point(program.instance, program.pairs.table(tasks))
    return float(objective.majorant(point).value(point))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@given(seed=st.integers(0, 2**16), by_server=st.booleans(), scale=st.sampled_from([0.0, 0.01, 1.0, 100.0, 1e6]))
@settings(max_examples=5)
def test_no_feasible_point_beats_the_bound_at_any_prices(
    objective: fo.Objective, seed: int, by_server: bool, scale: float
) -> None:
    rng, instance = drawn(seed, by_server)
    low = rng.random(instance.n_users) * 0.02 * instance.tasks_alone.max(axis=1) / instance.n_users
    bounded = [fo.MinTasks(np.minimum(low, instance.task_limits))] if rng.random() < 0.5 else []
    with np.errstate(all="ignore"):
        program = Program(instance, objective, bounded)
        points = list(feasible(program, rng, 8))
        rows = program.pairs.loads.shape[0]
        prices = scale * rng.exponential(size=rows) * (rng.random(rows) < 0.7)
        at = 0.5 * points[0] + 0.5 * points[1] + 1e-9 * program.size[program.pairs.user]
        majorant = objective.majorant(Point(program.instance, program.pairs.table(at)))
        multipliers = lagrangian.Multipliers(prices, np.zeros(len(program.pairs)))
        for natural in (True, False):
            top = dual_bound.lagrangian_bound(program, majorant, objective, multipliers, at, natural=natural).value
            for x in points:
                own = majorant.value(Point(program.instance, program.pairs.table(x)))
                assert not own > top + 1e-9 * max(abs(top), abs(own), 1e-3)


def test_the_search_for_a_factor_ends_with_the_time_of_the_call() -> None:
    _, instance = drawn(3, False)
    objective = fo.AlphaFair(0.5) + fo.MaxMin()
    program = Program(instance, objective, ())
    tasks = 1e-3 * program.size[program.pairs.user]  # far from any optimum, so that there is a search
    majorant = objective.majorant(Point(program.instance, program.pairs.table(tasks)))
    multipliers = lagrangian.Multipliers(np.ones(program.pairs.loads.shape[0]), np.zeros(len(program.pairs)))
    assert dual_bound.lagrangian_bound(program, majorant, objective, multipliers, tasks).gap > 1e-6
    late = Clock(1e-9, grace=False)
    with late.enforced(), pytest.raises(Late):
        dual_bound.lagrangian_bound(program, majorant, objective, multipliers, tasks)
    assert late.at == "the proof"


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@given(seed=st.integers(0, 2**16), by_server=st.booleans())
@settings(max_examples=5)
def test_a_majorant_is_above_the_objective_and_touches_it(objective: fo.Objective, seed: int, by_server: bool) -> None:
    rng, instance = drawn(seed, by_server)
    program = Program(instance, objective, ())
    tiny = 1e-6 * program.size[program.pairs.user]
    points = [x + tiny for x in feasible(program, rng, 6)]

    def measured(x: np.ndarray) -> float:
        """In natural units, or the logarithm of the measure."""
        point = Point(program.instance, program.pairs.table(x))
        own = objective.majorant(point)
        return own.unit * own.value(point) + own.shift if objective.majorant_is_natural else own.value(point)

    for x0 in points[:2]:
        point = Point(program.instance, program.pairs.table(x0))
        majorant = objective.majorant(point)
        natural = majorant.unit * majorant.value(point) + majorant.shift
        if objective.majorant_is_natural:
            assert natural == pytest.approx(objective.value(point), rel=1e-9)
        else:  # a transform: its order is that of the measure
            other = Point(program.instance, program.pairs.table(points[-1]))
            rise = objective.majorant(other).value(other) - majorant.value(point)
            assert rise * (objective.value(other) - objective.value(point)) >= -1e-9
        for x in points:
            above = majorant.value(Point(program.instance, program.pairs.table(x)))
            above = majorant.unit * above + majorant.shift if objective.majorant_is_natural else above
            assert above >= measured(x) - 1e-9 * max(abs(above), 1.0)


@pytest.mark.parametrize("objective", [fo.AlphaFair(1), fo.AlphaFair(3), fo.Total(fo.Tasks()), fo.MaxMin()], ids=repr)
@pytest.mark.parametrize("seed", range(2))
def test_a_worse_point_has_a_gap_as_large_as_what_it_gives_up(objective: fo.Objective, seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = log_uniform(rng, 8, 3, limits=0.3)
    a = fo.Policy(objective).allocate(instance, method="cone")
    program = Program(instance, objective, ())
    prices = (a.prices * instance.capacities).ravel()
    for part in (0.5, 0.9, 0.99, 0.9999):
        tasks = part * a.tasks
        majorant = objective.majorant(Point(program.instance, tasks[:, None]))
        multipliers = lagrangian.Multipliers(prices / majorant.unit, np.zeros(len(tasks)))
        gap = dual_bound.lagrangian_bound(program, majorant, objective, multipliers, tasks).gap
        # every objective here falls by 1 - part, or by its logarithm
        assert gap >= (1 - part) * (1 - 1e-3)


@pytest.mark.parametrize("value", [np.inf, 1e308, np.nan])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_a_bound_that_is_no_number_proves_nothing(objective: fo.Objective, value: float) -> None:
    instance = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    program = Program(instance, objective, ())
    tasks = np.array([0.1, 0.1])
    with np.errstate(all="ignore"):
        majorant = objective.majorant(Point(instance, tasks[:, None]))
        multipliers = lagrangian.Multipliers(np.full(3, value), np.zeros(2))
        for natural in (True, False):
            found = dual_bound.lagrangian_bound(program, majorant, objective, multipliers, tasks, natural=natural)
            assert not found.gap <= 1e-6


# -- leximin on one pool ---------------------------------------------------------------------------------------


def bottleneck_gap(program: Program, tasks: np.ndarray) -> float:
    pool = Pool(program, program.objective.share)
    return bottlenecks(pool, tasks).gap(pool.usable)


@given(pools(limits=False), st.floats(1e-4, 0.5))
@settings(max_examples=15)
def test_the_bottleneck_gap_is_zero_at_the_leximin_only(instance: fo.Instance, part: float) -> None:
    program = Program(instance, fo.Leximin(), ())
    a = fo.DRF().allocate(instance)
    assert bottleneck_gap(program, a.tasks) <= 1e-12
    assert bottleneck_gap(program, a.tasks * (1 - part)) >= 0.9 * part
    for j in range(instance.n_users):  # one user gives up some, to no other's benefit
        less = a.tasks.copy()
        less[j] *= 1 - part
        assert bottleneck_gap(program, less) >= 0.01 * part


def test_who_has_more_on_the_same_bottleneck_is_a_gap() -> None:
    instance = fo.Instance([[1], [1]], [4])
    program = Program(instance, fo.Leximin(), ())
    assert bottleneck_gap(program, np.array([2.0, 2.0])) == 0
    assert bottleneck_gap(program, np.array([1.0, 3.0])) == pytest.approx(2)
    held_up = Program(instance, fo.Leximin(), [fo.MinTasks([0, 3])])
    assert bottleneck_gap(held_up, np.array([1.0, 3.0])) == 0
    limited = Program(instance.with_task_limits([1, None]), fo.Leximin(), ())
    assert bottleneck_gap(limited, np.array([1.0, 3.0])) == 0
    assert bottleneck_gap(limited, np.array([0.5, 3.5])) > 1


# -- cone programs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["linear", "square root", "logarithm", "norm", "entropy", "power"])
def test_the_conic_bound_is_above_the_optimum_and_close(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = cluster(rng, 4, 2, 2)
    program = Program(instance, fo.Total(), ())
    model = ConeModel(program)
    x = model.unknowns
    form = {
        "linear": cp.sum(x),
        "square root": cp.sum(cp.sqrt(x)),
        "logarithm": cp.sum(cp.log(x + 0.1)),
        "norm": cp.sum(x) - cp.norm(x),
        "entropy": cp.sum(cp.entr(x)) + cp.sum(x),
        "power": cp.sum(cp.power(x, 0.3)),
    }[kind]
    problem = cp.Problem(cp.Maximize(form), model.all_constraints)
    top = program.most[program.pairs.user] / model.scale
    found = conic_bound(problem, x, top)
    assert found is not None
    bound = found.value
    polytope = Polytope.of(program.instance)
    for point in random_points(polytope, rng, 20):
        x.value = np.maximum(pairs_of(program, point) / model.scale, 0)
        assert float(form.value) <= bound + 1e-9 * max(abs(bound), 1)
    problem.solve(solver="CLARABEL")
    assert bound == pytest.approx(problem.value, abs=2e-6 * max(abs(problem.value), 1))
    if kind == "linear":
        c = (1 / model.scale[program.pairs.first])[: program.instance.n_users]
        assert bound >= linear(polytope, c) * (1 - 1e-9)


# -- feasibility -----------------------------------------------------------------------------------------------

TWO = fo.Instance([[1, 2], [2, 1]], [[10, 10], [4, 4]], task_limits=[5, None], eligible=[[1, 0], [1, 1]], counts=[1, 2])


@pytest.mark.parametrize(
    ("tasks", "violation"),
    [
        ([[5, 0], [0, 4]], 0.0),
        ([[5, 0], [0, 4.4]], 0.1),  # 8.8 of 8 units of resource 1 on both servers of row 2
        ([[5.5, 0], [0, 0]], 0.1),  # over its limit, and 11 of 10
        ([[2, 0], [4.5, 0]], 0.1),  # 11 of 10 units
        ([[4, 1], [0, 0]], 0.2),  # a fifth of its tasks where it may not run
        ([[1, 0], [2, -0.5]], 1 / 3),  # negative, of 1.5
        ([[np.nan, 0], [0, 0]], np.inf),
        ([[0, 0], [np.inf, 0]], np.inf),
        ([[0, 0], [0, 0]], 0.0),
    ],
)
def test_feasibility_counts_each_kind_of_violation(tasks: list, violation: float) -> None:
    assert feasibility(TWO, np.array(tasks, dtype=float)) == pytest.approx(violation)


def test_feasibility_with_no_capacity_a_limit_of_zero_and_a_reserve() -> None:
    nothing = fo.Instance([[1, 0], [1, 0]], [4, 0], task_limits=[0, None])
    assert feasibility(nothing, np.array([[0.0], [4.0]])) == 0
    assert feasibility(nothing, np.array([[1e-12], [1.0]])) == np.inf
    half = fo.Instance([[1, 0], [1, 0]], [2, 0], task_limits=[0, None])
    assert feasibility(half, np.array([[0.0], [4.0]])) == pytest.approx(1.0)


@given(seed=st.integers(0, 2**16), by_server=st.booleans(), size=st.sampled_from([0.0, 0.5, 1.0, 1.5, 1e6]))
@settings(max_examples=12)
def test_repair_makes_anything_feasible_and_leaves_the_feasible_alone(seed: int, by_server: bool, size: float) -> None:
    rng, instance = drawn(seed, by_server)
    program = Program(instance, fo.Total(), [fo.Reserve(0, 0.25)])
    tasks = size * rng.exponential(size=len(program.pairs))
    fixed = conditions.repair(program, tasks)
    assert feasibility(program.given, program.expand(fixed)) <= 1e-14 + 1e-12
    assert (fixed <= tasks).all()
    used = program.pairs.loads @ fixed
    assert (used <= program.usable_rows * (1 + 1e-12)).all()
    np.testing.assert_allclose(conditions.repair(program, fixed), fixed, rtol=1e-12)


def test_repair_costs_others_nothing_where_a_resource_may_not_be_used_at_all() -> None:
    program = Program(fo.Instance([[1, 0], [1, 1]], [10, 10]), fo.Total(), [fo.Reserve(1, 1.0)])
    np.testing.assert_allclose(conditions.repair(program, np.array([10.0, 1e-12])), [10, 0], atol=1e-9)


@pytest.mark.parametrize("constant", [-7.0, 7.0])
def test_the_conic_bound_counts_the_objectives_constant(constant: float) -> None:
    x = cp.Variable(2, nonneg=True)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.log(x)) + constant), [cp.sum(x) <= 1])
    bound = conic_bound(problem, x, np.ones(2))
    assert bound is not None
    assert bound.value == pytest.approx(constant - 2 * np.log(2), abs=1e-9)


def test_equations_of_numbers_that_are_not_finite_have_no_solution() -> None:
    for matrix, right in (([[np.inf, 1.0]], [1.0]), ([[1.0, 0.0]], [np.nan])):
        assert np.isnan(least_squares(sp.csr_array(np.array(matrix)), np.array(right))).all()
    assert least_squares(sp.csr_array([[2.0, 0.0]]), np.array([4.0])).tolist() == pytest.approx([2.0, 0.0])


@dataclass(frozen=True)
class Less(fo.Constraint):
    """Rows of coefficients by user, with right-hand sides."""

    table: tuple[tuple[float, ...], ...]
    right: tuple[float, ...]

    def rows(self, pairs):
        return {"less": Rows([pairs.of(np.array(row)) for row in self.table], self.right)}


@pytest.mark.parametrize(
    "demands, capacities, table, right, method",
    [
        ([4], [3e-9], ((4 / 3e-9,),), (3e-25,), "cone"),
        ([2e-6], [2], ((1e-6,), (0.0,)), (2e-25, 1e-9), "auto"),
        ([1e-15, 1], [4, 8], ((0.125,), (0.125,)), (1e-18, 3e-14), "cone"),
        ([2e-15], [4e-12], ((1e-3,), (1e-3,)), (3e-14, 1e-18), "auto"),
    ],
)
def test_no_tasks_are_not_certified_where_rows_allow_very_few(demands, capacities, table, right, method) -> None:
    """Bounds of 1e-16 of what servers hold were taken for nothing, since their rounding is larger."""
    best = min(b / a for (a,), b in zip(table, right, strict=True) if a)
    try:
        answer = fo.Policy(fo.Total(fo.Tasks()), [Less(table, right)]).allocate(
            fo.Instance([demands], capacities), method=method
        )
    except fo.errors.NotCertified:
        return
    assert answer.tasks.sum() == pytest.approx(best, rel=1e-6, abs=0)


def test_no_tasks_are_certified_where_rows_tie_users_to_nothing() -> None:
    instance = fo.Instance([[1.0], [2.0]], [4.0])  # x_1 <= x_2 / 2 and x_2 <= x_1
    policy = fo.Policy(fo.Total(fo.Tasks()), [Less(((2.0, -1.0), (-1.0, 1.0)), (0.0, 0.0))])
    answer = policy.allocate(instance, method="cone")
    assert answer.certificate.ok and answer.tasks.tolist() == [0, 0]


def test_a_user_without_a_share_anywhere_has_the_unit_one() -> None:
    given = np.array([[0.0, 2.0, 5.0], [0.0, 0.0, 0.0], [3.0, 1.0, 0.0]])
    assert lagrangian._nowhere_zero(given).tolist() == [[2, 2, 5], [1, 1, 1], [3, 1, 1]]
