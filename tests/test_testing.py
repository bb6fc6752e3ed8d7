"""Strategies for other test suites: what they draw, what a counterexample looks like, and a project that uses them."""

import re
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import fairopt as fo
from fairopt.testing import (
    allocation_of,
    allocations,
    instances,
    misreports,
    notions,
    objectives,
    policies,
    shares,
    tasks_received,
)

EVERYTHING: dict[str, Any] = dict.fromkeys(
    ("weights", "limits", "placement", "by_server", "counts", "fractions", "rates"), True
)
ANY = instances(n_servers=(1, 2), **EVERYTHING)


# -- instances --------------------------------------------------------------------------------------------------


@given(instances(n_users=(2, 4), n_resources=3, max_value=5))
def test_a_plain_instance_is_one_pool_of_small_integers_and_nothing_else(instance: fo.Instance) -> None:
    assert 2 <= instance.n_users <= 4 and instance.n_resources == 3 and instance.n_servers == 1
    for numbers in (instance.demands, instance.capacities):
        assert (numbers == np.round(numbers)).all() and numbers.max() <= 5
    assert instance == fo.Instance(instance.demands, instance.capacities)


@given(instances(zeros=False))
def test_without_zeros_every_user_needs_every_resource(instance: fo.Instance) -> None:
    assert (instance.demands >= 1).all()


@given(ANY)
def test_quarters_are_exact_in_floats(instance: fo.Instance) -> None:
    limits = instance.task_limits[np.isfinite(instance.task_limits)]
    for numbers in (instance.demands, instance.capacities, limits):
        assert (4 * numbers == np.round(4 * numbers)).all()


FOUND = {
    "zeros": lambda i: (i.demands == 0).any(),
    "weights": lambda i: (i.weights != 1).any(),
    "limits": lambda i: np.isfinite(i.task_limits).any(),
    "a limit of zero": lambda i: (i.task_limits == 0).any(),
    "placement": lambda i: not i.eligible.all(),
    "demands by server": lambda i: i.demands.ndim == 3,
    "counts": lambda i: (i.counts > 1).any(),
    "rates of zero": lambda i: (i.rates == 0).any(),
    "rates by server": lambda i: np.ptp(i.rates, axis=1).any(),
    "fractions": lambda i: (i.demands % 1 > 0).any(),
    "several servers": lambda i: i.n_servers > 1,
    "ties": lambda i: i.n_users > 1 and (i.demands[0] == i.demands[1]).all(),
}


@pytest.fixture(scope="module")
def drawn() -> list[fo.Instance]:
    out: list[fo.Instance] = []

    @settings(max_examples=200, database=None)
    @given(ANY)
    def draw(instance: fo.Instance) -> None:
        out.append(instance)

    draw()
    return out


@pytest.mark.parametrize("name", FOUND)
def test_what_is_allowed_is_drawn(name: str, drawn: list[fo.Instance]) -> None:
    assert sum(bool(FOUND[name](instance)) for instance in drawn) >= 5


IN_TEAMS = instances(n_users=(1, 4), teams=True, weights=True, limits=True, guarantees=True)


@given(IN_TEAMS)
def test_every_user_is_in_a_team_and_every_team_in_one_org_or_none(instance: fo.Instance) -> None:
    assert None not in instance.teams["team"]
    places = set(zip(instance.teams["team"], instance.teams["org"], strict=True))
    assert len(places) == len({team for team, _ in places})


def test_teams_of_all_kinds_are_drawn() -> None:
    drawn: list[fo.Instance] = []

    @settings(max_examples=200, database=None)
    @given(IN_TEAMS)
    def draw(instance: fo.Instance) -> None:
        drawn.append(instance)

    draw()
    orgs = [{*zip(i.teams["org"], i.teams["team"], strict=True)} for i in drawn]
    assert any(len([team for org, team in pairs if org is not None]) > len({org for org, _ in pairs}) for pairs in orgs)
    assert any(None in {org for org, _ in pairs} for pairs in orgs) and any(i.teams.mixed for i in drawn)
    assert any(i.team_weights for i in drawn) and any(i.guarantees.any() for i in drawn)


@settings(max_examples=10)
@given(instances(n_users=(1, 4), teams=True, weights=True))
def test_policies_of_teams_answer_what_is_drawn(instance: fo.Instance) -> None:
    assert fo.HDRF(("org", "team")).allocate(instance).certificate.ok
    assert fo.Policy(fo.MaxMin(fo.OfTeam())).allocate(instance).certificate.ok


def test_no_users_are_allowed_where_asked_for() -> None:
    none = find(instances(n_users=0, n_servers=2, by_server=True), lambda i: True)
    assert none.n_users == 0


def test_counterexamples_shrink_to_the_smallest_there_is() -> None:
    # DRF is not Nash welfare, and no smaller numbers show it
    def differ(i: fo.Instance) -> bool:
        return not np.allclose(fo.DRF().allocate(i).tasks, fo.NashWelfare().allocate(i).tasks, rtol=1e-3)

    found = find(instances(), differ, settings=settings(database=None, max_examples=40, derandomize=True))
    assert found.n_users == 2 and found.n_resources == 2 and found.demands.max() <= 2 and found.capacities.max() <= 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"n_users": -1}, "n_users is -1; give a whole number >= 0"),
        ({"n_users": (3, 2)}, "or a pair (least, most)"),
        ({"n_resources": 0}, "n_resources is 0; give a whole number >= 1"),
        ({"n_servers": 1.5}, "n_servers is 1.5"),
        ({"n_users": (1, 2, 3)}, "n_users is (1, 2, 3)"),
        ({"n_users": True}, "n_users is True"),
        ({"max_value": 0}, "max_value is 0; give a whole number >= 1"),
    ],
)
def test_invalid_sizes_are_refused_before_anything_is_drawn(wrong: Any, says: str) -> None:
    with pytest.raises(fo.errors.InvalidInstance, match=re.escape(says)):
        instances(**wrong)


# -- blocks and policies ----------------------------------------------------------------------------------------


@given(st.data())
def test_shares_are_defined_for_the_instance(data: st.DataObject) -> None:
    instance = data.draw(ANY)
    c = data.draw(shares(instance)).coefficients(instance)
    assert (c[instance.eligible] if c.ndim == 2 else c).min(initial=1.0) > 0


@given(ANY, shares(), objectives(), policies(), notions())
def test_what_is_drawn_without_an_instance_is_defined_for_all(
    instance: fo.Instance, share: fo.Share, objective: fo.Objective, policy: fo.Policy, notion: Any
) -> None:
    share.coefficients(instance)
    objective.check(instance)
    policy.objective.check(instance)
    for constraint in policy.constraints:
        constraint.check(instance)
    assert hasattr(notion, "allocate")


@settings(max_examples=8)
@given(st.data())
def test_every_policy_that_is_drawn_for_an_instance_has_a_certified_answer(data: st.DataObject) -> None:
    instance = data.draw(ANY)
    assert data.draw(policies(instance)).allocate(instance).certificate.ok


@settings(max_examples=8)
@given(st.data())
def test_every_notion_that_is_drawn_for_an_instance_has_a_certified_answer(data: st.DataObject) -> None:
    instance = data.draw(ANY)
    assert data.draw(notions(instance)).allocate(instance).certificate.ok


@given(policies())
def test_a_policy_is_printed_as_code(policy: fo.Policy) -> None:
    assert eval(repr(policy), {name: getattr(fo, name) for name in fo.__all__}) == policy


@pytest.mark.parametrize("name", ["MLF-DRS", "H-FFMRA", "2-DF", "3-DF", "bottleneck fairness", "PS-DSF", "DRF"])
def test_notions_hold_those_defined_for_this_instance_only(name: str) -> None:
    instance = fo.Instance([[1, 2, 3], [3, 1, 1]], [4, 4, 4])
    find(notions(instance), lambda notion: getattr(notion, "name", None) == name)


# -- lies -------------------------------------------------------------------------------------------------------


@given(st.data(), st.booleans())
def test_a_misreport_changes_demands_of_the_liar_and_nothing_else(data: st.DataObject, boosting: bool) -> None:
    truth = data.draw(ANY)
    user = data.draw(st.sampled_from(truth.users))
    lie = data.draw(misreports(truth, user, boosting=boosting))
    j = truth.users.index(user)
    others = np.arange(truth.n_users) != j
    assert (lie.demands[others] == truth.demands[others]).all() and (lie.demands[j] != truth.demands[j]).any()
    assert not boosting or (lie.demands[j] >= truth.demands[j]).all()
    assert lie.with_demands(truth.demands) == truth


def test_a_misreport_keeps_labels_and_never_needs_what_is_nowhere() -> None:
    truth = fo.Instance([[1, 0, 2], [1, 0, 1]], [4, 0, 4], users=["ann", "bob"], resources=["cpu", "gpu", "disk"])

    @given(misreports(truth, "bob"))
    def test(lie: fo.Instance) -> None:
        assert lie.users == truth.users and lie.resources == truth.resources and (lie.demands[:, 1] == 0).all()

    test()


def test_a_lie_that_would_leave_the_liar_nowhere_to_run_is_not_drawn() -> None:
    truth = fo.Instance([[1, 0], [0, 1]], [[4, 0], [0, 4]])

    @given(misreports(truth, 0))
    def test(lie: fo.Instance) -> None:
        assert (lie.demands[0] > 0).sum() == 1

    test()


@pytest.mark.parametrize("wrong", ["carol", 2, -1, True])
def test_an_unknown_user_is_refused(wrong: Any) -> None:
    truth = fo.Instance([[1], [1]], [4], users=["ann", "bob"])
    with pytest.raises(fo.errors.InvalidInstance, match="no user"):
        find(misreports(truth, wrong), lambda lie: True)
    with pytest.raises(fo.errors.InvalidInstance, match="no user"):
        tasks_received(fo.DRF().allocate(truth), truth, wrong)


def test_tasks_received_are_what_the_bundle_runs_up_to_the_limit() -> None:
    truth = fo.Instance([[1, 2], [2, 1]], [6, 6], task_limits=[None, 1])
    lie = fo.Instance([[2, 2], [1, 1]], [6, 6])
    a = allocation_of(lie, [1.5, 3])
    assert tasks_received(a, truth, "user1") == 1.5  # min(3/1, 3/2)
    assert tasks_received(a, truth, "user2") == 1  # min(3/2, 3/1), cut at its limit
    table = fo.Instance([[3, 1], [5, 3], [1, 5], [2, 7]], [18, 36])
    decided = fo.MLFDRS().allocate(table)
    assert tasks_received(decided, table, 3) == pytest.approx(min(2.88 / 2, 14.7273 / 7), rel=1e-4)


def test_tasks_received_add_up_over_servers_where_the_user_may_run() -> None:
    truth = fo.Instance([[[1, 1], [2, 1]]], [[4, 4], [4, 4]], eligible=[[True, True]])
    assert tasks_received(allocation_of(truth, [[1, 1.5]]), truth, 0) == 2.5


# -- allocations ------------------------------------------------------------------------------------------------


@given(st.data())
def test_allocations_are_feasible_and_prove_nothing(data: st.DataObject) -> None:
    a = data.draw(allocations(data.draw(ANY)))
    assert a.certificate.violation <= 1e-9 and not a.certificate.ok and (a.tasks >= 0).all()


def test_good_and_bad_allocations_are_drawn() -> None:
    crowded = fo.Instance([[1], [1]], [1])
    assert find(allocations(crowded), lambda a: a.leftover.sum() == 0 and a.tasks[0] == a.tasks[1])
    assert find(allocations(crowded), lambda a: a.tasks[0] > 3 * a.tasks[1] > 0 and a.leftover.sum() > 0)


# -- from another project ---------------------------------------------------------------------------------------

PROJECT = """
import fairopt as fo
from fairopt.testing import instances, misreports, tasks_received
from hypothesis import given, strategies as st

MINE = fo.Policy(fo.Leximin(fo.PNormShare(1)), name="mine")  # asset fairness

@given(st.data())
def test_no_user_gains_by_a_lie(data):
    truth = data.draw(instances(n_users=2))
    lie = data.draw(misreports(truth, "user1"))
    honest, lying = MINE.allocate(truth), MINE.allocate(lie)
    assert tasks_received(lying, truth, "user1") <= honest.tasks[0] * (1 + 1e-9)

@given(instances(n_users=(2, 3)))
def test_no_user_is_below_an_equal_slice(instance):
    assert (MINE.allocate(instance).tasks >= instance.tasks_alone[:, 0] / instance.n_users - 1e-9).all()

@given(...)
def test_types_are_known(instance: fo.Instance, policy: fo.Policy, share: fo.Share, allocation: fo.Allocation):
    assert share.coefficients(instance).size and allocation.tasks.size and policy.objective
"""


ALONE = """
import os, sys, pytest
for name in [name for name in os.environ if name.startswith(("HYPOTHESIS", "PYTEST"))]:
    del os.environ[name]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "."]))
"""


def test_another_project_finds_counterexamples_that_can_be_pasted(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(PROJECT, encoding="utf-8")
    # without the explanation, which takes Hypothesis most of its time
    (tmp_path / "conftest.py").write_text(
        "from hypothesis import Phase, settings\nphases = (Phase.generate, Phase.shrink)\n"
        "settings.register_profile('quick', phases=phases, derandomize=True, deadline=None, max_examples=50)\n"
        "settings.load_profile('quick')\n",
        encoding="utf-8",
    )
    told = forked.run("-c", ALONE, folder=tmp_path).stdout
    assert "1 failed, 2 passed" in told, told
    printed = re.search(r"instance=(Instance\(.*\)),?\n", told)
    assert printed, told
    instance = eval(printed[1], {name: getattr(fo, name) for name in fo.__all__})
    mine = fo.Policy(fo.Leximin(fo.PNormShare(1)))
    assert (mine.allocate(instance).tasks < instance.tasks_alone[:, 0] / 2 - 1e-3).any()
    assert instance.demands.max() <= 2 and instance.n_users == 2


ORDERS = {
    "testing first": "import fairopt.testing",
    "testing never": "import hypothesis",
}


@pytest.mark.parametrize("order", ORDERS)
def test_types_are_known_in_whatever_order_things_are_imported(order: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfor name in [n for n in sys.modules if n.split('.')[0] == 'fairopt']: del sys.modules[name]\n"
        f"assert 'hypothesis' not in sys.modules\n{ORDERS[order]}\n"
        "from hypothesis import strategies as st\nimport fairopt as fo\n"
        "for kind in (fo.Instance, fo.Policy, fo.Allocation, fo.Share, fo.Objective): st.from_type(kind).validate()\n"
        "print(st.from_type(fo.Instance))"
    )
    done = forked.run("-c", code, folder=tmp_path)
    assert done.returncode == 0 and "instances(" in done.stdout, done.stderr


def test_without_hypothesis_the_error_says_what_to_install() -> None:
    done = forked.run(
        "-c",
        "import sys\nassert 'hypothesis' not in sys.modules\nsys.modules['hypothesis'] = None\nimport fairopt.testing",
    )
    assert done.stderr.rstrip().endswith(
        "MissingExtra: fairopt.testing needs hypothesis, which is not installed: pip install 'fairopt[testing]'"
    )
