"""Derivatives agree with solving again, hold within their ranges, and say what more of each resource brings."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fairopt as fo
from fairopt.runtime.clock import Clock

Float = NDArray[np.floating[Any]]
PAPER = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"], units={"memory": "GiB"})
RANDOM = fo.Instance(
    [[1.2, 3.1, 0.4], [2.5, 0.9, 1.1], [0.7, 0.6, 2.2], [1.9, 1.4, 0.3]], [10, 12, 9], weights=[1, 2, 1, 0.5]
)
LIMITS = fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], task_limits=[1.5, None, 1])
SERVERS = fo.Instance([[1, 4], [3, 1], [2, 2]], [[5, 8], [4, 10]], weights=[1, 2, 1])
MERGED = fo.Instance([[1, 4], [3, 1], [2, 2]], [[5, 6], [5, 6], [9, 4]], counts=[1, 2, 1])
NAMES = {"capacity": "capacities", "demand": "demands", "weight": "weights"}


def changed(instance: fo.Instance, kind: str, at: tuple[int, ...], by: float) -> fo.Instance:
    """The instance with one number changed; of a row of several servers in total."""
    numbers = np.array(getattr(instance, NAMES[kind]), dtype=float)
    numbers[at] += by / (instance.counts[at[0]] if kind == "capacity" else 1)
    return instance.replace(**{NAMES[kind]: numbers})


def of(found: fo.derivatives.Sensitivity, kind: str) -> fo.derivatives.Derivatives:
    return {"capacity": found.capacities, "demand": found.demands, "weight": found.weights}[kind]


def differences(policy: Any, instance: fo.Instance, kind: str, at: tuple[int, ...], step: float) -> tuple[Float, float]:
    """Central differences of certified solves: tasks and objective."""
    more, less = (policy.allocate(changed(instance, kind, at, by)) for by in (step, -step))
    return (more.tasks - less.tasks) / (2 * step), (more.objective - less.objective) / (2 * step)


@pytest.mark.fast_methods
@pytest.mark.parametrize(
    ("policy", "instance"),
    [
        (policy, (PAPER, RANDOM, LIMITS, SERVERS, MERGED)[(k + i) % 5])
        for k, policy in enumerate(
            [
                fo.GFJ(2),
                fo.FDS(0.5),
                fo.NashWelfare(),
                fo.DRF(),
                fo.KDF(2),
                fo.TSF(),
                fo.PNormFairness(2, 3),
            ]
        )
        for i in (0, 3)
    ],
)
def test_derivatives_are_those_of_solving_the_changed_instance_again(policy: Any, instance: fo.Instance) -> None:
    found = fo.sensitivity(policy.allocate(instance))
    known = 0
    for kind in NAMES:
        here = of(found, kind)
        for at in np.ndindex(here.total.shape):
            if here.reason[at]:
                continue
            known += 1
            tasks, value = differences(policy, instance, kind, at, 1e-4)
            np.testing.assert_allclose(here.tasks[(slice(None), *at)], tasks, atol=2e-5, rtol=2e-4)
            np.testing.assert_allclose(here.total[at], tasks.sum(), atol=5e-5, rtol=2e-4)
            np.testing.assert_allclose(here.welfare[at], value, atol=2e-5, rtol=2e-4)
    assert known >= instance.capacities.size


@pytest.mark.parametrize("policy", [fo.FDS(beta=2, lam=-0.8), fo.GFJ(beta=0.5, lam=1.5)], ids=str)
def test_the_concave_measure_of_fairness_and_efficiency_has_derivatives(policy: fo.Policy) -> None:
    few = RANDOM.select_users([0, 1, 2])
    found = fo.sensitivity(policy.allocate(few))
    for kind, at in (("capacity", (0, 0)), ("demand", (1, 0)), ("weight", (2,))):
        tasks, value = differences(policy, few, kind, at, 1e-2)
        here = of(found, kind)
        np.testing.assert_allclose(here.tasks[(slice(None), *at)], tasks, atol=2e-3 * np.abs(here.tasks).max() + 1e-8)
        np.testing.assert_allclose(here.welfare[at], value, rtol=1e-3)
    assert found.alpha.reason[()] == "FairnessEfficiency has no alpha"


def test_most_tasks_have_the_derivatives_of_a_basic_solution() -> None:
    found = fo.sensitivity(fo.MostTasks().allocate(PAPER))
    np.testing.assert_allclose(found.capacities.tasks[:, 0], np.linalg.inv([[1, 3], [4, 1]]), atol=1e-12)
    np.testing.assert_allclose([found.capacities.upper, found.capacities.lower], [[[45, 18]], [[-4.5, -15]]], rtol=1e-6)
    assert found.alpha.reason[()] == "Total has no alpha"


@pytest.mark.fast_methods
@pytest.mark.parametrize("alpha", [0.5, 1, 2])
def test_the_derivative_by_alpha(alpha: float) -> None:
    policy = fo.FDS(alpha)
    found = fo.sensitivity(policy.allocate(RANDOM)).alpha
    more, less = (fo.FDS(alpha + by).allocate(RANDOM) for by in (1e-4, -1e-4))
    np.testing.assert_allclose(found.tasks, (more.tasks - less.tasks) / 2e-4, atol=1e-5)
    if alpha == 1:
        assert np.isnan(found.welfare)  # the value jumps from powers to logarithms
    else:
        np.testing.assert_allclose(found.welfare, (more.objective - less.objective) / 2e-4, rtol=1e-5)


@pytest.mark.parametrize("beta", [0.5, 3])
def test_on_the_edge_of_the_plane_beta_is_alpha(beta: float) -> None:
    def on_edge(b: float) -> fo.Allocation:
        return fo.FDS(beta=b, lam=(1 - b) / b).allocate(RANDOM)

    found, more, less = fo.sensitivity(on_edge(beta)).alpha, on_edge(beta + 1e-4), on_edge(beta - 1e-4)
    np.testing.assert_allclose(found.tasks, fo.sensitivity(fo.FDS(beta).allocate(RANDOM)).alpha.tasks, rtol=1e-5)
    np.testing.assert_allclose(found.welfare, (more.objective - less.objective) / 2e-4, rtol=1e-5)


def test_the_measure_at_beta_1_where_users_run_no_tasks() -> None:
    instance, policy = fo.Instance([[1, 4], [3, 5]], [9, 18]), fo.GFJ(beta=1, lam=2)
    found = fo.sensitivity(policy.allocate(instance)).capacities
    _, value = differences(policy, instance, "capacity", (0, 1), 1e-4)
    assert found.tasks[1, 0, 1] == 0 and found.welfare[0, 1] == pytest.approx(value)


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(2), fo.FDS(beta=2, lam=-0.8), fo.MostTasks()], ids=str)
def test_with_coefficients_held_the_welfare_has_the_prices(policy: fo.Policy) -> None:
    a = policy.allocate(RANDOM)
    held = fo.sensitivity(a, held=True).capacities
    np.testing.assert_allclose(held.welfare, a.prices, rtol=1e-5, atol=1e-7 * np.abs(a.prices).max())


def test_cvxpy_has_the_same_derivative() -> None:
    pytest.importorskip("diffcp", reason="CVXPY differentiates its problems by diffcp, which is not installed")
    import cvxpy as cp

    capacities, tasks = cp.Parameter(2, value=PAPER.capacities[0]), cp.Variable(2)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.log(tasks))), [PAPER.demands.T @ tasks <= capacities])
    problem.solve(requires_grad=True, solver="DIFFCP")
    capacities.delta = np.array([1.0, 0.0])
    problem.derivative()
    found = fo.sensitivity(fo.GFJ(1).allocate(PAPER)).capacities.tasks[:, 0, 0]
    np.testing.assert_allclose(found, tasks.delta, rtol=1e-3)


# -- kinks ----------------------------------------------------------------------------------------------------------

KINKS = {
    "two resources full for the same users": fo.Instance([[1, 1], [2, 2]], [6, 6]),
    "all users meet two full resources": fo.Instance([[1, 2], [2, 1]], [6, 6]),
    "two dominant resources": fo.Instance([[1, 1], [3, 1]], [9, 9]),
    "a limit at the common level": fo.Instance([[1], [1], [2]], [8], task_limits=[2, None, None]),
    "a resource full by chance": fo.Instance([[4, 1], [0, 1], [1, 1]], [5, 3]),
}


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("policy", [fo.DRF(), fo.Policy(fo.Leximin(fo.Tasks()), name="tasks"), fo.GFJ(2)], ids=str)
def test_at_a_kink_both_sides_are_those_of_solving_again(policy: fo.Policy, name: str) -> None:
    instance = KINKS[name]
    exact = isinstance(policy.objective, fo.Leximin)
    step, error = (1e-4, 1e-3) if exact else (1e-2, 2e-2)  # solvers leave 5e-5 of tasks at some of these
    now = policy.allocate(instance).tasks
    found = fo.sensitivity(policy.allocate(instance))
    for kind in NAMES:
        here = of(found, kind)
        for at in np.ndindex(here.total.shape):
            if here.reason[at]:
                continue
            for side, mine in ((1, here.tasks), (-1, here.tasks_left)):
                then = policy.allocate(changed(instance, kind, at, side * step)).tasks
                np.testing.assert_allclose(mine[(slice(None), *at)], side * (then - now) / step, atol=error)


def test_more_of_one_of_two_resources_full_for_the_same_users_brings_nothing_and_less_costs() -> None:
    found = fo.sensitivity(fo.GFJ(2).allocate(KINKS["two resources full for the same users"]))
    np.testing.assert_allclose(found.capacities.tasks, 0, atol=1e-9)
    assert (found.capacities.tasks_left > 0.1).all()
    assert set(found.demands.reason.ravel()) == {
        "several prices are optimal here, since the same users need the full resources"
    }


def test_a_limit_that_an_inexact_answer_just_misses_is_a_kink() -> None:
    instance = fo.Instance([[2], [1], [4], [4]], [[7], [3]], task_limits=[None, None, None, 0.5], weights=[1, 1, 2, 1])
    found = fo.sensitivity(fo.NashWelfare().allocate(instance)).capacities  # the last user's own tasks are 1/2 as well
    np.testing.assert_allclose(found.tasks[:, 0, 0], [1 / 8, 1 / 4, 1 / 8, 0], atol=1e-9)
    np.testing.assert_allclose(found.tasks_left[:, 0, 0], [1 / 10, 1 / 5, 1 / 10, 1 / 20], atol=1e-9)


def test_a_placement_of_zero_that_the_answer_leaves_as_a_trace_is_a_kink() -> None:
    demand, room = [[3.31539394], [3.59273263]], [[4.62445231], [4.62445231]]
    instance = fo.Instance(demand, room, eligible=[[False, True], [True, True]])
    found = fo.sensitivity(fo.NashWelfare().allocate(instance)).capacities  # user2 is about to leave or join server2
    np.testing.assert_allclose(found.tasks[:, 0, 0], [0, 1 / 3.59273263], atol=1e-9)
    np.testing.assert_allclose(found.tasks_left[:, 0, 0], [0.5 / 3.31539394, 0.5 / 3.59273263], atol=1e-9)


def test_users_at_limits_on_several_servers_help_to_find_the_prices() -> None:
    demands = [[3.4, 1.24, 2.82], [2.48, 3.62, 4.02], [1.2, 4.75, 3.97], [2.09, 4.94, 2.07]]
    capacities = [[9.4, 4.37, 11.91], [11.75, 11.9, 10.03], [3.64, 5.72, 3.22]]
    instance = fo.Instance(demands, capacities, task_limits=[None, 1, 0.5, None], weights=[1, 1, 2, 2])
    found = fo.sensitivity(fo.NashWelfare().allocate(instance)).capacities
    for at in ((2, 2), (0, 1)):
        tasks, _ = differences(fo.NashWelfare(), instance, "capacity", at, 1e-3)
        np.testing.assert_allclose(found.tasks[(slice(None), *at)], tasks, atol=1e-4)
    assert np.abs(found.tasks[:, 2, 2]).max() > 0.1


def test_where_several_allocations_have_the_most_tasks_there_is_no_derivative() -> None:
    found = fo.sensitivity(fo.MostTasks().allocate(fo.Instance([[1], [1]], [4]))).capacities
    assert np.isnan(found.total).all() and "several allocations" in found.reason[0, 0]
    assert np.isnan(found.upper).all()


def test_a_demand_or_a_capacity_of_zero_has_no_derivative() -> None:
    found = fo.sensitivity(fo.DRF().allocate(fo.Instance([[1, 0], [1, 2]], [[6, 8], [4, 0]])))
    assert "it is 0" in found.demands.reason[0, 1] and "the server has none of it" in found.capacities.reason[1, 1]


# -- ranges ---------------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["drf", "gfj"]))
def test_within_the_range_the_same_resources_are_full_and_beyond_it_others_are(seed: int, name: str) -> None:
    random = np.random.default_rng(seed)
    policy: fo.Policy = fo.Policy(fo.Leximin(fo.Tasks())) if name == "drf" else fo.GFJ(2)
    instance = fo.Instance(random.uniform(0.5, 5, (3, 2)), random.uniform(5, 10, 2))
    found = fo.sensitivity(policy.allocate(instance)).capacities
    end = float(found.upper[0, 0])
    assert end > 0

    def full(by: float) -> list[bool]:
        after = policy.allocate(changed(instance, "capacity", (0, 0), by))
        return (after.leftover[0] <= 1e-5 * after.instance.capacities[0]).tolist()

    near = end if np.isfinite(end) else 10.0
    assert full(0.99 * near) == full(0.0)
    if np.isfinite(end):
        assert full(1.05 * end) != full(0.0)
    if name == "drf":  # tasks are linear in a capacity
        after = policy.allocate(changed(instance, "capacity", (0, 0), 0.9 * near)).tasks
        expected = policy.allocate(instance).tasks + 0.9 * near * found.tasks[:, 0, 0]
        np.testing.assert_allclose(after, expected, rtol=1e-6)


def test_a_range_does_not_end_where_servers_become_alike() -> None:
    found = fo.sensitivity(fo.GFJ(2).allocate(fo.Instance([[1, 3]], [[11, 5], [11, 3]]))).capacities
    np.testing.assert_allclose(found.lower[0], [5 / 3 - 11, -5], rtol=1e-6)


def test_a_range_where_two_resources_are_full_for_the_same_user() -> None:
    found = fo.sensitivity(fo.MostTasks().allocate(fo.Instance([[3, 3]], [[9, 7], [4, 4], [6, 5]]))).capacities
    np.testing.assert_allclose(found.upper, [[np.inf, 2], [np.inf, np.inf], [np.inf, 1]], rtol=1e-6)


def test_no_range_of_alpha_ends_by_rounding() -> None:
    assert np.isinf(fo.sensitivity(fo.NashWelfare().allocate(fo.Instance([[3, 1], [1, 3]], [9, 9]))).alpha.upper)


# -- the paper ------------------------------------------------------------------------------------------------------


def test_the_sign_of_equation_14_is_wrong_and_equations_12_and_13_hold() -> None:
    a = fo.GFJ(2).allocate(RANDOM.with_weights(1))
    x, full = a.tasks, a.leftover[0] < 1e-6
    curve, b = np.diag(2 * x**-3.0), -(x**-2.0) * np.log(x)
    rows = RANDOM.demands.T[full]
    null = scipy.linalg.null_space(rows)
    inner, v = null.T @ curve @ null, null.T @ b
    by_alpha = float(np.ones(4) @ null @ np.linalg.solve(inner, v))  # eq. 12
    found = fo.sensitivity(a)
    np.testing.assert_allclose(found.alpha.total, by_alpha, rtol=1e-6)
    beta = -null.sum(axis=0)
    printed = sum(v[i] * np.linalg.det(np.vstack([inner[:i], beta, inner[i + 1 :]])) for i in range(len(v)))
    np.testing.assert_allclose(printed, -by_alpha * np.linalg.det(inner), rtol=1e-6)  # eq. 14 asks for >= 0
    flat = np.linalg.inv(curve)
    by_capacity = np.ones(4) @ flat @ rows.T @ np.linalg.inv(rows @ flat @ rows.T)  # eq. 13
    np.testing.assert_allclose(found.capacities.total[0][full], by_capacity, rtol=1e-6)


def test_equation_13_holds_for_dominant_shares_with_coefficients_held_only() -> None:
    a = fo.FDS(2).allocate(RANDOM)
    full = a.leftover[0] < 1e-6
    c, rows = fo.DominantShare().per_task(RANDOM), RANDOM.demands.T[full]
    flat = np.diag(a.tasks**3 * c / (2 * RANDOM.weights**2))  # of worth c (c x / w)^-2
    printed = np.ones(4) @ flat @ rows.T @ np.linalg.inv(rows @ flat @ rows.T)
    held, again = (fo.sensitivity(a, held=held).capacities.total[0][full] for held in (True, False))
    np.testing.assert_allclose(held, printed, rtol=1e-6)
    assert (np.abs(again - printed) > 0.01).any()


def test_in_proportion_more_capacity_brings_tasks_in_proportion() -> None:
    for policy in (fo.DRF(), fo.FDS(2), fo.KDF(2)):
        a = policy.allocate(RANDOM)
        gain = (fo.sensitivity(a).capacities.tasks[:, 0] * RANDOM.capacities[0]).sum(axis=1)
        np.testing.assert_allclose(gain, a.tasks, rtol=1e-6)


# -- advice, tables, pictures ---------------------------------------------------------------------------------------


def test_purchases_are_by_cost_and_advice_names_the_rest() -> None:
    found = fo.sensitivity(fo.GFJ(2).allocate(PAPER))
    best, other = found.purchases()
    assert (best.name, best.unit, best.tasks_per_cost) == ("cpu", "unit", None)
    assert best.tasks == pytest.approx(float(found.capacities.total[0, 0])) and other.tasks == 0
    assert best.tasks_per_percent == pytest.approx(0.09 * best.tasks)
    priced = found.purchases({"cpu": 4})
    assert len(priced) == 1 and priced[0].tasks_per_cost == pytest.approx(best.tasks / 4)
    assert "memory: no tasks more (2.921 GiB left over)" in found.advice()
    assert "per unit of cost" in found.advice({"cpu": 4})
    assert np.isinf(other.up_to)
    with pytest.raises(fo.errors.InvalidBlock, match=r"costs are \[1, 2\]; give a dict .*, such as {'cpu': 3}"):
        found.purchases([1, 2])  # type: ignore[arg-type]


def test_advice_reads_well_at_one_task_and_with_words_as_units() -> None:
    one = fo.Instance([[1]], [4], task_limits=[8], resources=["cpu"], units={"cpu": "core"})
    advice = fo.sensitivity(fo.MostTasks().allocate(one)).advice()
    assert advice.startswith("Buy cpu: 1 task more per core, up to 4 cores.")
    unlimited = fo.sensitivity(fo.MostTasks().allocate(one.with_task_limits([np.inf])))
    assert "1 task more per core, without end." in unlimited.advice()


@pytest.mark.parametrize("given", [PAPER, 3])
def test_other_than_an_allocation_is_refused(given: Any) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="give an Allocation"):
        fo.sensitivity(given)


def test_whole_tasks_have_no_derivatives() -> None:
    with pytest.raises(fo.errors.OutOfDomain, match="allocate without integral"):
        fo.sensitivity(fo.MostTasks().allocate(PAPER, integral=True))


def test_advice_says_who_loses_and_that_nothing_is_known() -> None:
    assert "fewer tasks for user2" in fo.sensitivity(fo.DRF().allocate(PAPER)).advice()
    several = fo.sensitivity(fo.MostTasks().allocate(fo.Instance([[1], [1]], [4])))
    assert several.advice().startswith("No rate is known: several allocations")
    with pytest.raises(fo.errors.InvalidBlock, match="no rates to draw"):
        several.plot()
    assert fo.sensitivity(fo.DRF().allocate(SERVERS)).advice().startswith("Buy resource")


@pytest.mark.parametrize(
    ("costs", "words"), [({"cpus": 1}, "unknown resource 'cpus'"), ({"cpu": 0}, "positive"), ({"cpu": "x"}, "positive")]
)
def test_wrong_costs(costs: dict[str, Any], words: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        fo.sensitivity(fo.DRF().allocate(PAPER)).purchases(costs)


def test_frames() -> None:
    found = fo.sensitivity(fo.DRF().allocate(RANDOM))
    rows = {by: found.to_frame(by=by) for by in ("capacity", "demand", "weight", "alpha", "user")}
    assert [len(frame) for frame in rows.values()] == [3, 12, 4, 1, 4]
    assert rows["capacity"].loc[("pool", "resource2"), "total"] == found.capacities.total[0, 1]
    assert rows["user"].loc["user3", "by own weight"] == found.weights.tasks[2, 2]
    with pytest.raises(fo.errors.InvalidBlock, match="no table by 'users'"):
        found.to_frame(by="users")


def test_a_frame_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fo.sensitivity(fo.DRF().allocate(PAPER))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fo.errors.MissingExtra, match="pandas"):
        found.to_frame()


def test_a_picture_has_a_bar_for_each_resource_with_its_rate_and_range() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    ax = fo.sensitivity(fo.MostTasks().allocate(PAPER)).plot(costs={"memory": 3, "cpu": 20})
    assert [t.get_text() for t in ax.texts] == ["0.182 per GiB, up to 18", "0.273 per unit, up to 45"]
    assert ax.get_xlabel() == "tasks per unit of cost"
    many = fo.sensitivity(fo.DRF().allocate(fo.Instance(np.eye(14) + 0.1, np.ones(14)))).plot()
    assert len(many.patches) == 12 and many.get_xlabel() == "tasks per 1 % more capacity (the best 12 of 14)"


# -- what has no derivatives ----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    """The mean of the ratios."""

    def per_task(self, instance: fo.Instance) -> Float:
        return np.asarray(instance.ratios.mean(axis=-1))


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (fo.MLFDRS(), "are not known"),
        (fo.PSDSF(), "does not maximise"),
        (fo.Policy(fo.AlphaFair(1) + fo.Total()), "are not known"),
        (fo.Policy(fo.AlphaFair(1), [fo.MinTasks(0.1)]), "has constraints"),
        (fo.Policy(fo.Total().then(fo.MaxMin())), "single objective"),
        (fo.Policy(fo.Leximin(MeanShare())), "use held=True"),
        (fo.GFJ(beta=2, lam=-0.25), "not concave"),
    ],
    ids=str,
)
def test_other_policies_are_out_of_domain(mechanism: Any, words: str) -> None:
    with pytest.raises(fo.errors.OutOfDomain, match=words):
        fo.sensitivity(mechanism.allocate(PAPER))


def test_a_share_of_your_own_with_its_coefficients_held() -> None:
    policy = fo.Policy(fo.Leximin(MeanShare()))
    a = policy.allocate(PAPER)
    np.testing.assert_allclose(fo.sensitivity(a, held=True).capacities.welfare, a.prices, rtol=1e-9, atol=1e-12)


@dataclass(frozen=True, repr=False)
class DearerThere(fo.Share):
    """Tasks, that count twice on the second server."""

    def per_task(self, instance: fo.Instance) -> Float:
        return np.where(np.arange(instance.n_servers) == 1, 2.0, np.ones((instance.n_users, 1)))


@pytest.mark.parametrize("objective", [fo.AlphaFair(2, DearerThere()), fo.Leximin(DearerThere())], ids=str)
def test_shares_of_your_own_that_differ_by_server_are_out_of_domain(objective: fo.Objective) -> None:
    alike = fo.Instance([[1, 2], [2, 1]], [[4, 4], [4, 4], [8, 3]])
    with pytest.raises(fo.errors.OutOfDomain, match="differs by server"):
        fo.sensitivity(fo.Policy(objective).allocate(alike), held=True)


def test_demands_by_server_and_the_tasks_that_max_min_does_not_fix_are_out_of_domain() -> None:
    with pytest.raises(fo.errors.OutOfDomain, match="differ by server"):
        fo.sensitivity(fo.DRF().allocate(fo.Instance([[[1], [2]], [[1], [1]]], [[4], [4]])))
    with pytest.raises(fo.errors.OutOfDomain, match="use Leximin"):
        fo.sensitivity(fo.Policy(fo.MaxMin()).allocate(SERVERS))


def test_users_with_a_limit_of_zero_change_nothing() -> None:
    found = fo.sensitivity(fo.GFJ(2).allocate(fo.Instance([[2, 1], [1, 2], [1, 1]], [8, 8], task_limits=[0, None, 1])))
    assert not found.demands.tasks[:, 0].any() and not found.weights.tasks[0].any()
    assert np.isinf(found.weights.upper[0])
    empty = fo.sensitivity(fo.DRF().allocate(fo.Instance([[1]], [4], task_limits=0)))
    assert not empty.capacities.total.any()


@pytest.mark.parametrize("policy", [fo.DRF(), fo.GFJ(2)], ids=str)
def test_servers_that_differ_only_for_users_with_a_limit_of_zero(policy: fo.Policy) -> None:
    both = fo.Instance([[1, 4], [3, 1]], [[9, 18], [9, 18]], users=["user1", "user2"])
    more = fo.Instance(
        [[1, 4], [3, 1], [1, 1]], [[9, 18], [9, 18]], task_limits=[None, None, 0], eligible=[[1, 1], [1, 1], [1, 0]]
    )
    found, plain = (fo.sensitivity(policy.allocate(instance)).capacities for instance in (more, both))
    np.testing.assert_allclose(found.tasks[:2], plain.tasks, rtol=1e-6, atol=1e-9)


def test_many_users_on_many_servers() -> None:
    random = np.random.default_rng(0)
    instance = fo.Instance(random.lognormal(0, 1, (40, 3)), random.uniform(50, 100, (5, 3)))
    found = fo.sensitivity(fo.GFJ(1).allocate(instance)).capacities
    tasks, _ = differences(fo.GFJ(1), instance, "capacity", (4, 1), 1e-2)
    np.testing.assert_allclose(found.tasks[:, 4, 1], tasks, atol=1e-5)
    assert np.isnan(found.upper[4, 1])  # tasks can be placed in several ways


def test_what_the_time_limit_leaves_out_is_unknown_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"])
    late = iter([False, False, True, True, True, True])
    s = fo.sensitivity(fo.GFJ(2).allocate(cluster), time_limit=60)
    monkeypatch.setattr(Clock, "late", property(lambda self: next(late)))
    assert s.capacities.reason.tolist() == [["", "the time limit was over"]]
    assert np.isfinite(s.capacities.total[0, 0]) and np.isnan(s.capacities.total[0, 1])
    assert np.isnan(s.capacities.upper).all()


def test_the_search_for_what_is_held_ends_at_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = fo.GFJ(2).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]))
    monkeypatch.setattr(Clock, "late", property(lambda self: True))
    with pytest.raises(
        fo.errors.OutOfTime, match="no derivatives were found within the time limit of 60 s; give it more"
    ):
        fo.sensitivity(answer, time_limit=60)


def test_the_time_limit_is_for_all_derivatives_together() -> None:
    s = fo.sensitivity(fo.GFJ(2).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18])), time_limit=60)
    assert s.capacities.reason.tolist() == [["", ""]]
    after_rates = s._analysis.left
    assert np.isfinite(s.capacities.upper).any() and s._analysis.left < after_rates < 60
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit is 0"):
        fo.sensitivity(s.allocation, time_limit=0)
