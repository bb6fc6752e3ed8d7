"""From owners' tasks to users: kinds, means, entitlements, what fits nowhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.io.notes import Notes, counted
from fairopt.io.work import Work, arguments_of_work

CLUSTER = {"resources": ["cpu", "gpu"], "capacities": [[16, 4], [16, 0], [0, 0]], "servers": ["s1", "s2", "s3"]}
FIRST = np.array([True, False, False])
LAST = np.array([False, False, True])


def made(*work, **more):
    return Instance(**arguments_of_work(work, **{**CLUSTER, **more}))


def test_an_owner_with_one_kind_of_tasks_is_one_user_with_their_mean_request():
    instance = made(Work("a", (1, 0)), Work("a", (3, 0)), Work("a", (5, 0), None, 2))
    assert (instance.users, instance.demands.tolist(), instance.task_limits.tolist()) == (("a",), [[3.5, 0]], [4])
    assert instance.weights.tolist() == [1]


def test_owners_whose_different_requests_are_averaged_are_counted():
    work = [
        Work("a", (1, 0)),
        Work("a", (3, 0)),
        Work("b", (1, 0), None, 7),
        Work("b", (1, 1)),
        Work("c", (2, 0), FIRST),
        Work("c", (3, 0), FIRST, 2),
    ]
    how = "--tasks shapes (in Python tasks='shapes') keeps them separate"
    assert f"the different requests of 2 owners are averaged; {how} (as a: 2 requests)" in made(*work).notes
    assert not any("averaged" in note for note in made(*work, tasks="shapes").notes)
    assert made(Work("a", (1, 0)), Work("a", (1, 0))).notes == ()


def test_equal_requests_are_one_user_each_when_asked_for():
    instance = made(Work("a", (1, 0)), Work("a", (3, 0)), Work("a", (1, 0)), tasks="shapes")
    assert instance.users == ("a #1", "a #2")
    assert_array_equal(instance.demands, [[3, 0], [1, 0]])
    assert_array_equal(instance.task_limits, [1, 2])


def test_kinds_differ_by_the_resources_needed_and_by_where_tasks_may_run_before_capacities():
    instance = made(Work("a", (1, 1)), Work("a", (1, 0)), Work("a", (2, 0), FIRST), Work("a", (1, 0), np.ones(3, bool)))
    assert instance.users == ("a #1", "a #2", "a #3")
    assert_array_equal(instance.demands, [[1, 1], [1, 0], [2, 0]])
    assert_array_equal(instance.task_limits, [1, 2, 1])
    assert_array_equal(instance.eligible[:, :2], [[1, 0], [1, 1], [1, 0]])


def test_an_entitlement_is_split_in_proportion_to_wishes_and_the_largest_wish_comes_first():
    instance = made(Work("b", (1, 1), None, 2), Work("b", (8, 0)), Work("a", (1, 0)))
    # total cpu 32, gpu 4: two tasks of 1/4 each, and one of 8/32
    assert instance.users == ("a", "b #1", "b #2")
    assert_allclose(instance.weights, [1, 2 / 3, 1 / 3], rtol=1e-15)
    assert_array_equal(instance.demands[1], [1, 1])
    assert instance.notes == (
        "1 of 2 owners has several kinds of tasks: each kind is a user, and the kinds share their owner's entitlement "
        "in proportion to their total requests",
    )


def test_no_name_of_a_kind_is_an_owners_name():
    instance = made(Work("a", (1, 1)), Work("a", (1, 0)), Work("a #1", (1, 0)))
    assert instance.users == ("a ##1", "a ##2", "a #1")


def test_tasks_that_fit_on_no_server_are_left_out_and_counted():
    work = (
        Work("a", (1, 0)),
        Work("b", (0, 1), ~FIRST, 2, "b/y"),
        Work("c", (1, 0), LAST, 1, "c/x"),
        Work("d", (1, 0), np.zeros(3, bool), 1.5),
    )
    instance = made(*work, notes=Notes("one"), word="job")
    assert instance.users == ("a",)
    assert instance.notes == ("one", "4.5 jobs that fit on no server were left out (as b/y)")


def test_a_task_larger_than_any_server_stays():
    assert made(Work("a", (100, 0))).users == ("a",)


def test_tasks_that_no_single_server_can_hold_are_counted():
    work = Work("a", (17, 1), None, 2, "x"), Work("b", (5, 2), None, 3, "y")
    assert made(*work).notes == (
        "2 tasks too large for any single server count, since tasks are divisible (as x: 17 of cpu)",
    )
    caps = [[16, 1], [4, 4], [0, 0]]  # each amount fits somewhere, but not both on one server
    assert made(work[1], capacities=caps).notes == (
        "3 tasks too large for any single server count, since tasks are divisible (as y)",
    )


def test_a_resource_without_capacity_is_left_out_with_those_who_need_it():
    instance = made(Work("a", (1, 0)), Work("b", (1, 1)), capacities=[[16, 0]] * 3, units={"cpu": "cores", "gpu": "x"})
    assert (instance.resources, instance.users, instance.units) == (("cpu",), ("a",), ("cores",))
    assert instance.notes[-1] == "1 resource that no server has was left out: gpu"


def test_labels_types_and_units_are_passed_on():
    instance = made(Work("a", (1, 1)), server_types=["x", "y", "z"], units={"cpu": "cores"})
    assert (instance.servers, instance.server_types) == (("s1", "s2", "s3"), ("x", "y", "z"))
    assert instance.units == ("cores", "")


def test_nothing_to_share_is_refused_with_the_reasons():
    with pytest.raises(InvalidInstance, match=r"no tasks to share servers among; two; 1 task that fit on no server"):
        made(Work("a", (1, 0), LAST), notes=Notes("two"))
    with pytest.raises(InvalidInstance, match=r"there are no jobs to share servers among$"):
        made(word="job")


@pytest.mark.parametrize("tasks", ["means", None, 3, ["mean"]])
def test_another_way_of_making_users_is_refused(tasks):
    with pytest.raises(InvalidInstance, match=r"tasks is .*mean"):
        made(Work("a", (1, 0)), tasks=tasks)


def test_things_are_counted_in_words():
    assert (counted(1, "pod"), counted(1200, "pod"), counted(0.5, "job")) == ("1 pod", "1,200 pods", "0.5 jobs")


works = st.lists(
    st.builds(
        Work,
        st.sampled_from("abc"),
        st.tuples(st.integers(1, 9), st.integers(0, 2)),
        st.sampled_from([None, FIRST, ~LAST]),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=12,
)


@given(work=works, seed=st.randoms(use_true_random=False), tasks=st.sampled_from(["mean", "shapes"]))
def test_the_order_of_tasks_makes_no_difference(work, seed, tasks):
    one = instance_or_reason(work, tasks)
    seed.shuffle(work)
    assert instance_or_reason(work, tasks) == one


def instance_or_reason(work, tasks):
    try:
        return Instance(**arguments_of_work(work, **CLUSTER, tasks=tasks))
    except InvalidInstance as error:
        return str(error)


@given(work=works, tasks=st.sampled_from(["mean", "shapes"]))
def test_totals_of_owners_are_kept_and_owners_are_entitled_to_one_each(work, tasks):
    instance = Instance(**arguments_of_work(work, **CLUSTER, tasks=tasks))
    assert isinstance(instance, Instance)
    for owner in "abc":
        rows = [j for j, name in enumerate(instance.users) if name.split(" ")[0] == owner]
        of_owner = [w for w in work if w.owner == owner]
        asked = sum((w.count * np.array(w.request) for w in of_owner), np.zeros(2))
        assert_allclose(instance.task_limits[rows] @ instance.demands[rows], asked, rtol=1e-14)
        assert_allclose(instance.weights[rows].sum(), bool(of_owner), rtol=1e-14)
