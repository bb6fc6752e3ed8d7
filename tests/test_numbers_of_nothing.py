"""Numbers that constraints leave nothing, and guarantees whatever the weights."""

from typing import Any

import numpy as np
import pytest

import fairopt as fo

TEAMS = {"team": ["a", "b"]}


@pytest.mark.parametrize(
    ("policy", "instance"),
    [
        (
            fo.Policy(fo.AlphaFair(2, fo.OfTeam())),
            fo.Instance([[1], [1]], [4], guarantees={"a": {"resource1": 4}}, teams=TEAMS),
        ),
        (
            fo.Policy(fo.AlphaFair(1, fo.OfTeam())),
            fo.Instance([[1], [1]], [[2], [2]], guarantees=[4, 0], teams=TEAMS),
        ),
        (
            fo.Policy(fo.AlphaFair(1, fo.OfTeam()), [fo.MinShare({"a": 1.0}, fo.OfTeam())]),
            fo.Instance([[1], [1]], [[2], [2]], teams=TEAMS),
        ),
        (
            fo.Policy(fo.AlphaFair(2) + 0.1 * fo.Total(fo.Tasks()), [fo.MinTasks([4, 0])]),
            fo.Instance([[1, 0], [1, 1]], [[2, 1], [2, 3]]),
        ),
    ],
)
def test_logarithms_of_what_can_only_be_0_are_refused(policy: Any, instance: fo.Instance) -> None:
    with pytest.raises(fo.errors.OutOfDomain, match="no tasks at all"):
        policy.allocate(instance)


@pytest.mark.parametrize(
    "instance",
    [
        fo.Instance([[1]], [10], guarantees=[3], task_limits=3),
        fo.Instance([[1], [2]], [10], guarantees=[0, 5]),
        fo.Instance([[1], [2]], [[4], [6]], guarantees=[0, 5]),
    ],
)
def test_the_total_above_guarantees_is_0_where_they_leave_nothing(instance: fo.Instance, tmp_path: Any) -> None:
    answer = fo.Policy(fo.Total(fo.Surplus())).allocate(instance)
    assert answer.certificate.ok and answer.objective == 0
    np.testing.assert_allclose(answer.tasks, instance.guarantees, atol=1e-7)


def test_the_smallest_share_of_teams_is_0_where_guarantees_leave_one_nothing() -> None:
    guarantees = {"t0": {"resource1": 4, "resource2": 4 / 3, "resource3": 8 / 3}}
    instance = fo.Instance([[3, 1, 2]] * 3, [4, 9, 12], guarantees=guarantees, teams={"team": ["t1", "t0", "t0"]})
    answer = fo.Policy(fo.MaxMin(fo.OfTeam())).allocate(instance)
    assert answer.certificate.ok and answer.objective == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("instance", "who"),
    [
        (fo.Instance([[3]], [10], guarantees=[3.333333333333333]), "user1"),
        (fo.Instance([[3], [1]], [10], guarantees=[3.333333333333333, 0]), "user1"),
        (fo.Instance([[3], [1]], [[10], [10]], guarantees=[6.666666666666666, 0]), "user1"),
        (fo.Instance([[1, 0], [1, 1], [0, 1]], [10, 5], guarantees=[9.999999999999998, 0, 0]), "user"),
    ],
)
@pytest.mark.parametrize("alpha", [1, 2])
def test_numbers_that_rise_by_rounding_only_have_no_exact_bounds(instance: fo.Instance, who: str, alpha: float) -> None:
    pytest.importorskip("flint")
    answer = fo.Policy(fo.AlphaFair(alpha, fo.Surplus())).allocate(instance)
    with pytest.raises(fo.errors.OutOfDomain, match=f"whether user '{who}.* is decided by rounding"):
        answer.exact_bounds(1e-9)


def test_numbers_that_cannot_rise_leave_exact_bounds_as_they_leave_the_objective() -> None:
    pytest.importorskip("flint")
    nobody = fo.Policy(fo.AlphaFair(2, fo.Surplus())).allocate(fo.Instance([[3], [1]], [10], guarantees=[3, 1]))
    assert nobody.objective == nobody.exact_bounds(1e-9).lower == nobody.exact_bounds(1e-9).upper == 0
    instance = fo.Instance([[1], [1]], [[4], [4]], guarantees={"t": {"resource1": 6}}, teams={"team": ["t", "u"]})
    found = fo.Policy(fo.AlphaFair(2, fo.Surplus(fo.OfTeam()))).allocate(instance).exact_bounds(1e-9)
    assert float(found.lower) == pytest.approx(-2 / (1 / 8), rel=1e-9)  # (8 - 6) / 8, halved


@pytest.mark.parametrize("weight", [1e-14, 1e-10, 1, 1e6])
@pytest.mark.parametrize(
    "policy",
    [
        fo.Policy(fo.Total()),
        fo.Policy(fo.MaxMin()),
        fo.DRF(),
        fo.Policy(fo.AlphaFair(0.5)),
        fo.NashBargaining(),  # a has no guarantee of its own: the largest a^1e-10 b with a >= 2
    ],
    ids=str,
)
def test_whether_guarantees_of_teams_fit_has_nothing_to_do_with_weights(policy: fo.Policy, weight: float) -> None:
    instance = fo.Instance(
        [[1], [1]],
        [10],
        users=["a", "b"],
        teams={"team": ["t", "u"]},
        weights={"a": weight},
        guarantees={"t": {"resource1": 2}},
    )
    tasks = policy.allocate(instance).tasks
    assert tasks[0] >= 2 - 1e-6 and tasks.sum() == pytest.approx(10)
    assert weight > 1e-3 or policy.objective == fo.Total() or tasks == pytest.approx([2, 8])
    if not policy.objective.term.is_curved:
        assert policy.allocate(instance, exact=True).tasks.sum() == pytest.approx(10)


@pytest.mark.parametrize("weight", [1e-9, 1e-12])
@pytest.mark.parametrize("teams", ["tuvw", "tuut"])
def test_four_users_of_whom_one_has_a_tiny_weight(weight: float, teams: str) -> None:
    instance = fo.Instance(
        [[1]] * 4, [10], teams={"team": list(teams)}, weights=[weight, 1, 1, 1], guarantees={"t": {"resource1": 2}}
    )
    right = [2, 8 / 3, 8 / 3, 8 / 3] if teams == "tuvw" else [10 * weight / (3 + weight)] + 3 * [10 / (3 + weight)]
    for policy in (fo.DRF(), fo.Policy(fo.MaxMin())):
        np.testing.assert_allclose(policy.allocate(instance).tasks, right, rtol=1e-6)
        np.testing.assert_allclose(policy.allocate(instance, exact=True).tasks, right, rtol=1e-9)


@pytest.mark.parametrize("weight", [1e-14, 1e-6, 1e6, 1e10, 1e14])
@pytest.mark.parametrize("objective", [fo.Leximin, fo.MaxMin, lambda share: fo.AlphaFair(1, share)])
def test_weights_of_members_have_no_part_in_objectives_of_teams(objective: Any, weight: float) -> None:
    instance = fo.Instance(
        [[1]] * 3, [10], teams={"team": list("tuu")}, weights=[1, weight, 1], guarantees={"t": {"resource1": 2}}
    )
    tasks = fo.Policy(objective(fo.OfTeam())).allocate(instance).tasks
    assert [tasks[0], tasks[1:].sum()] == pytest.approx([5, 5], rel=1e-4)  # logarithms are flat there
