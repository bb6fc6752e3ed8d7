"""Solving again: the same answers, certificates and errors as `Policy.allocate`, whenever numbers change and return."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.instances import clusters, pools
from oracle.lies import lying

import fairopt as fo
from fairopt.blocks.algebra import Tiers
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Leximin
from fairopt.instance.parts import taking_part
from fairopt.solve.form import solvers
from fairopt.solve.prepared import Prepared

POLICIES = [
    fo.Policy(fo.AlphaFair(0)),
    fo.Policy(fo.AlphaFair(0.5)),
    fo.Policy(fo.AlphaFair(1)),
    fo.Policy(fo.AlphaFair(2, fo.Tasks())),
    fo.Policy(fo.FairnessEfficiency(2, -0.5)),
    fo.Policy(fo.MaxMin()),
    fo.Policy(fo.Total(fo.Tasks())),
    fo.Policy(fo.Total(fo.Tasks()), [fo.SharingIncentive()]),
    fo.Policy(fo.AlphaFair(1), [fo.MaxTasks(5), fo.Reserve(0, 0.25)]),
    fo.Policy(fo.AlphaFair(1, fo.KDominantShare(2, short="positive")) + 0.1 * fo.Total(fo.Tasks())),
    fo.Policy(fo.AlphaFair(2) + 0.5 * fo.MaxMin()),
    fo.Policy(0 * fo.Total()),
    fo.DRF(),
    fo.Policy(fo.Total(), [fo.EnvyFree()]),
    fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks()))),
    fo.Policy(fo.AlphaFair(0.5), [fo.MinTasks(0.5)]),
]
CLUSTER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
SERVERS = fo.Instance([[4, 1], [1, 3], [2, 2]], [[9, 18], [12, 6]], weights=[1, 2, 1], task_limits=[2, None, 3])


def outcome(run: Callable[[], fo.Allocation]) -> fo.Allocation | fo.FairoptError:
    """The answer, or the error."""
    try:
        return run()
    except fo.FairoptError as error:
        return error


def agree(policy: fo.Policy, one: fo.Allocation, other: fo.Allocation) -> bool:
    """Whether two allocations of one instance have the same value, within their certificates."""
    first = policy.objective.tiers[0] if isinstance(policy.objective, Tiers) else policy.objective
    part = np.flatnonzero(one.instance.task_limits > 0)
    if not len(part):
        return True
    instance = taking_part(one.instance, part)
    points = [Point(instance, a.tasks_by_server[part]) for a in (one, other)]
    majorant = first.majorant(points[0])
    assert majorant is not None
    low, high = sorted(majorant.value(p) for p in points)
    if isinstance(first, Leximin):
        values = [np.sort(p.share(first.share) / instance.weights) for p in points]
        return bool(np.allclose(*values, rtol=1e-5, atol=1e-9))
    return low == high or first.relative_gap(high, low, points[0]) <= 2e-6


def same(policy: fo.Policy, prepared: Prepared, solver: str | None = None, **changes: Any) -> fo.Allocation | None:
    """Solve both ways, and require the same answer (returned) or the same error."""
    one = outcome(lambda: policy.allocate(prepared.instance.replace(**changes), solver=solver))
    other = outcome(lambda: prepared.allocate(**changes))
    if isinstance(one, fo.errors.NotCertified):
        return None
    if not isinstance(one, fo.Allocation) or not isinstance(other, fo.Allocation):
        assert (type(one), str(one)) == (type(other), str(other))
        return None
    assert other.certificate.ok and other.certificate.violation <= 1e-9
    assert other.instance == one.instance
    assert agree(policy, one, other)
    return other


# -- the same answers ------------------------------------------------------------------------------------------


def changes_of(draw: st.DrawFn, instance: fo.Instance, zeros: bool) -> dict[str, Any]:
    """Changes of some of the three, with some zeros among capacities and limits."""
    n, shape = instance.n_users, instance.capacities.shape
    least = 0 if zeros else 1
    out: dict[str, Any] = {}
    if draw(st.booleans()):
        numbers = draw(st.lists(st.integers(least, 24), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
        out["capacities"] = np.reshape(numbers, shape)
    if draw(st.booleans()):
        out["weights"] = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    if draw(st.booleans()):
        limit = st.one_of(st.none(), st.integers(least, 12).map(lambda k: k / 4))
        out["task_limits"] = draw(st.lists(limit, min_size=n, max_size=n))
    return out


@settings(max_examples=10)
@given(st.data())
def test_changes_and_the_way_back_give_the_answers_of_the_changed_instance(data: st.DataObject) -> None:
    policy = data.draw(st.sampled_from(POLICIES))
    instance = data.draw(st.one_of(pools(max_users=4), clusters(max_users=4)))
    solver = data.draw(st.sampled_from([None, "CLARABEL"]))
    prepared = Prepared(policy, instance, solver=solver)
    for zeros in (False, True, False):
        same(policy, prepared, solver, **changes_of(data.draw, instance, zeros))
    same(policy, prepared, solver)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_capacities_that_all_grow_alike_keep_the_unknowns_near_one(factor: float) -> None:
    prepared = Prepared(fo.Policy(fo.AlphaFair(2)), SERVERS.replace(task_limits=None), solver="CLARABEL")
    before = prepared.allocate()
    after = prepared.allocate(capacities=SERVERS.capacities * factor)
    assert after.tasks == pytest.approx(before.tasks * factor, rel=1e-5)
    assert len(after.certificate.tried) == 1


def test_prices_are_those_of_the_changed_instance() -> None:
    policy = fo.Policy(fo.AlphaFair(1))
    prepared = Prepared(policy, SERVERS, solver="CLARABEL")
    prepared.allocate()
    for capacities in ([[90, 180], [12, 60]], [[3, 18], [12, 2]]):
        answer = prepared.allocate(capacities=capacities)
        ordinary = policy.allocate(SERVERS.replace(capacities=capacities), solver="CLARABEL")
        assert answer.prices == pytest.approx(ordinary.prices, rel=1e-5, abs=1e-9)
        assert len(answer.certificate.tried) == 1


def test_identical_servers_stay_one_row_while_they_are_identical() -> None:
    policy = fo.MostTasks()
    instance = fo.Instance([[4, 1], [1, 3]], [[9, 18], [9, 18], [6, 6]])
    prepared = Prepared(policy, instance, solver="HIGHS")
    same(policy, prepared, "HIGHS")
    same(policy, prepared, "HIGHS", capacities=[[5, 8], [5, 8], [7, 7]])
    for capacities in ([[5, 8], [6, 8], [7, 7]], [[5, 8], [5, 8], [5, 8]]):
        same(policy, prepared, "HIGHS", capacities=capacities)


# -- zeros that come and go --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [fo.Policy(fo.AlphaFair(1)), fo.MostTasks(), fo.Policy(fo.MaxMin())], ids=repr)
def test_a_limit_or_capacity_may_become_zero_and_come_back(policy: fo.Policy) -> None:
    prepared = Prepared(policy, SERVERS, solver="CLARABEL")
    same(policy, prepared, "CLARABEL")
    idle = same(policy, prepared, "CLARABEL", task_limits=[0, None, 3])
    assert idle is not None and idle.tasks[0] == 0
    lost = same(policy, prepared, "CLARABEL", capacities=[[9, 0], [12, 6]])
    assert lost is not None and not lost.tasks_by_server[:, 0].any()
    idle = same(policy, prepared, "CLARABEL", task_limits=0)
    assert idle is not None and not idle.tasks.any()
    back = same(policy, prepared, "CLARABEL")
    assert back is not None and len(back.certificate.tried) == 1


def test_a_user_left_out_when_prepared_may_come_in() -> None:
    policy = fo.Policy(fo.AlphaFair(1))
    prepared = Prepared(policy, SERVERS.replace(task_limits=[0, None, 3]), solver="CLARABEL")
    for limits in ([2, None, 3], [0, None, 3], [0, 1, None]):
        same(policy, prepared, "CLARABEL", task_limits=limits)


def test_faster_routes_are_left_to_do_their_work() -> None:
    prepared = Prepared(fo.DRF(), CLUSTER)
    assert prepared.allocate(capacities=[200, 100, 200]).certificate.method == "water-filling"


def test_users_who_are_alike_are_merged_in_every_call() -> None:
    alike = fo.Instance(np.repeat([[4, 1], [1, 3], [2, 2]], 10, axis=0), [[90, 180], [120, 60]])
    policy = fo.Policy(fo.Total(fo.Tasks()), [fo.EnvyFree()])
    once = policy.allocate(alike).certificate
    prepared = Prepared(policy, alike)
    for _ in range(2):
        again = prepared.allocate().certificate
        assert [t.solver for t in again.tried] == [t.solver for t in once.tried]


def test_a_prepared_policy_can_be_sent_to_another_process_after_it_was_used() -> None:
    prepared = Prepared(fo.Policy(fo.AlphaFair(2)), CLUSTER)
    answer = prepared.allocate()
    copy = pickle.loads(pickle.dumps(prepared))
    assert copy.allocate().tasks == pytest.approx(answer.tasks)


# -- limits that go ---------------------------------------------------------------------------------------------


def test_users_without_a_limit_pay_the_price_of_capacity_and_not_of_their_row() -> None:
    prepared = Prepared(fo.MostTasks(), fo.Instance([[1]], [4], task_limits=[2]), solver="HIGHS")
    assert prepared.allocate().prices == pytest.approx(np.zeros((1, 1)))
    assert prepared.allocate(task_limits=np.inf).prices == pytest.approx(np.ones((1, 1)))


# -- errors, failures, interruptions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"capacities": [1, 2]},
        {"capacities": [[200, 200, 200], [1, 1, 1]]},
        {"capacities": [-1, 200, 200]},
        {"capacities": [np.nan, 200, 200]},
        {"capacities": [0, 200, 200]},
        {"capacities": "many"},
        {"weights": 0},
        {"weights": [1, 2, 3]},
        {"weights": {"batch": 1, "nobody": 1}},
        {"task_limits": -1},
        {"task_limits": [1]},
        {"task_limits": {"nobody": 1}},
    ],
    ids=repr,
)
def test_bad_numbers_are_refused_as_instance_does_and_harm_nothing(changes: dict[str, Any]) -> None:
    prepared = Prepared(fo.MostTasks(), CLUSTER, solver="HIGHS")
    before = prepared.allocate()
    with pytest.raises(fo.errors.InvalidInstance) as ours:
        prepared.allocate(**changes)
    with pytest.raises(fo.errors.InvalidInstance) as theirs:
        CLUSTER.replace(**changes)
    assert str(ours.value) == str(theirs.value)
    assert prepared.allocate().tasks == pytest.approx(before.tasks)


def test_values_by_user_may_be_a_number_an_array_or_a_dict() -> None:
    prepared = Prepared(fo.MostTasks(), CLUSTER)
    for limits in (2, [2, 2], {"batch": 2, "web": 2}):
        assert prepared.allocate(task_limits=limits).tasks == pytest.approx([2, 2])


def test_conflicts_are_named_and_the_next_call_is_not_affected() -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()), [fo.MinTasks({"batch": 3})])
    prepared = Prepared(policy, CLUSTER, solver="HIGHS")
    before = prepared.allocate()
    with pytest.raises(fo.errors.Infeasible, match="MinTasks"):
        prepared.allocate(capacities=[100, 200, 200])
    with pytest.raises(fo.errors.Infeasible, match="task limit is 0"):
        prepared.allocate(task_limits={"batch": 0})
    assert prepared.allocate().tasks == pytest.approx(before.tasks)


def test_a_lying_solver_is_never_believed() -> None:
    prepared = Prepared(fo.Policy(fo.AlphaFair(1)), SERVERS, solver="CLARABEL")
    prepared.allocate()
    with lying(point=lambda x: 0.5 * x), pytest.raises(fo.errors.NotCertified) as refused:
        prepared.allocate(weights=2)
    assert refused.value.best is not None
    assert prepared.allocate(weights=2).certificate.ok


def test_time_that_is_up_is_refused_and_the_next_call_has_its_own() -> None:
    prepared = Prepared(fo.MostTasks(), CLUSTER, solver="HIGHS")
    with pytest.raises(fo.errors.NotCertified, match="time_limit"):
        prepared.allocate(time_limit=1e-9)
    assert prepared.allocate(time_limit=60).certificate.ok
    assert prepared.allocate().certificate.ok
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit"):
        prepared.allocate(time_limit=-1)


def test_an_interruption_leaves_it_usable() -> None:
    policy = fo.Policy(fo.AlphaFair(1))
    prepared = Prepared(policy, SERVERS, solver="CLARABEL")
    prepared.allocate()
    honest = solvers.run

    def interrupted(*args: Any, **options: Any) -> Any:
        honest(*args, **options)
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(solvers, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                prepared.allocate(weights=[1, 1, 2])
    same(policy, prepared, "CLARABEL", weights=[1, 1, 2])


@pytest.mark.parametrize("solver", [s for s in ("CLARABEL", "ECOS", "SCS") if s in cp.installed_solvers()])
def test_a_forced_solver_is_the_only_one_asked(solver: str) -> None:
    policy = fo.Policy(fo.AlphaFair(2))
    prepared = Prepared(policy, SERVERS, solver=solver.lower())
    for weights in (1, [1, 2, 3], [3, 2, 1]):
        answer = same(policy, prepared, solver, weights=weights)
        assert answer is not None and {t.solver for t in answer.certificate.tried} == {solver}


def test_unknown_and_unfit_solvers_are_refused() -> None:
    with pytest.raises(fo.errors.SolverUnavailable):
        Prepared(fo.MostTasks(), CLUSTER, solver="NONE")
    with pytest.raises(fo.errors.SolverUnavailable):
        Prepared(fo.Policy(fo.AlphaFair(1)), CLUSTER, solver="HIGHS").allocate()
    with pytest.raises(fo.errors.InvalidBlock, match="not an instance"):
        Prepared(fo.MostTasks(), [[1, 2]])  # type: ignore[arg-type]


def test_users_that_a_dict_leaves_out_keep_what_was_prepared() -> None:
    instance = CLUSTER.replace(weights=[3, 3], task_limits=[2, 9])
    prepared = fo.NashWelfare().prepare(instance)
    for _ in range(2):  # a call changes nothing for the next
        a = prepared.allocate(weights={"web": 2}, task_limits={"batch": None})
        np.testing.assert_array_equal(a.instance.weights, [3, 2])
        np.testing.assert_array_equal(a.instance.task_limits, [np.inf, 9])
        # two fifths of the bandwidth are 10 tasks of web; its limit of 9 leaves 128 units for batch
        np.testing.assert_allclose(a.tasks, [3.2, 9], rtol=1e-6)
