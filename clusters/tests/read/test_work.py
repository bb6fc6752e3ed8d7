"""From owners' tasks to teams and users: kinds and their names, means, weights, what fits nowhere."""

import numpy as np
import pytest
from fairopt_clusters.read.work import Work, arguments_of_work
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.io.notes import Notes, counted

CLUSTER = {"resources": ["cpu", "gpu"], "capacities": [[16, 4], [16, 0], [0, 0]], "servers": ["s1", "s2", "s3"]}
FIRST = np.array([True, False, False])
LAST = np.array([False, False, True])


def made(*work, **more):
    return Instance(**arguments_of_work(work, **{**CLUSTER, **more}))


def test_an_owner_with_one_kind_of_tasks_is_a_team_of_one_user_with_their_mean_request():
    instance = made(Work("a", (1, 0)), Work("a", (3, 0)), Work("a", (5, 0), None, 2))
    assert (instance.users, instance.demands.tolist(), instance.task_limits.tolist()) == (("a/cpu",), [[3.5, 0]], [4])
    assert (instance.teams["team"], instance.weights.tolist(), instance.team_weights) == (("a",), [1], {})


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
    assert f"the different requests of 2 owners are averaged; {how} (such as a: 2 requests)" in made(*work).notes
    assert not any("averaged" in note for note in made(*work, tasks="shapes").notes)
    assert made(Work("a", (1, 0)), Work("a", (1, 0))).notes == ()


def test_equal_requests_are_one_user_each_when_asked_for():
    instance = made(Work("a", (1, 0)), Work("a", (3, 0)), Work("a", (1, 0)), tasks="shapes")
    assert instance.users == ("a/3 cpu", "a/1 cpu")
    assert_array_equal(instance.demands, [[3, 0], [1, 0]])
    assert_array_equal(instance.task_limits, [1, 2])


def test_too_many_requests_are_averaged_but_for_pieces_such_as_gpus(monkeypatch):
    work = [Work("a", (1, 2)), Work("a", (3, 2), None, 3), Work("a", (3, 1), None, 1, "", held={0: 1})]
    assert made(*work, tasks="auto").demands.tolist() == made(*work, tasks="shapes").demands.tolist()
    monkeypatch.setattr("fairopt_clusters.read.work.MOST_SHAPES", 2)
    instance = made(*work, tasks="auto")
    assert instance.users == ("a/2 gpu", "a/1 gpu") and instance.demands.tolist() == [[2.5, 2], [3, 1]]
    how = "--tasks shapes (in Python tasks='shapes') keeps them separate"
    note = f"the different amounts of cpu and memory of 1 owner are averaged; {how} (a: 2 requests)"
    assert instance.notes[0] == note


def test_kinds_differ_by_the_resources_needed_and_by_where_tasks_may_run_before_capacities():
    first = Work("a", (2, 0), FIRST, 1, "", ("pool=first", "pool=first"))
    instance = made(Work("a", (1, 1)), Work("a", (1, 0)), first, Work("a", (1, 0), np.ones(3, bool)))
    assert instance.users == ("a/1 gpu", "a/1 cpu", "a/2 cpu@pool=first")
    assert_array_equal(instance.demands, [[1, 1], [1, 0], [2, 0]])
    assert_array_equal(instance.task_limits, [1, 2, 1])
    assert_array_equal(instance.eligible[:, :2], [[1, 0], [1, 1], [1, 0]])


def test_kinds_of_an_owner_are_a_team_of_weight_1_and_the_largest_wish_comes_first():
    instance = made(Work("b", (1, 1), None, 2), Work("b", (8, 0)), Work("a", (1, 0)))
    # total cpu 32, gpu 4: two tasks of 1/4 each, and one of 8/32
    assert instance.users == ("a/1 cpu", "b/1 gpu", "b/8 cpu")
    assert (instance.teams["team"], instance.team_weights) == (("a", "b", "b"), {"b": 1})
    assert_allclose(instance.weights, [1, 1 / 2, 1 / 2], rtol=1e-15)
    assert_array_equal(instance.demands[1], [1, 1])
    assert instance.notes == (
        "1 of 2 owners has several kinds of tasks: each kind is a user, and the owner is their team",
    )


def test_kinds_are_named_for_what_they_are_whatever_else_their_owner_runs():
    eight, four = Work("a", (2, 8)), Work("a", (4, 0))
    assert made(eight).users == ("a/8 gpu",)
    assert made(eight, four).users == ("a/8 gpu", "a/4 cpu")
    assert made(eight, four, Work("a", (0, 1))).users == ("a/8 gpu", "a/1 gpu without cpu", "a/4 cpu")


def test_kinds_with_equal_names_give_all_digits_and_all_rules():
    near = made(Work("a", (1, 0)), Work("a", (1.00001, 0)), tasks="shapes")
    assert near.users == ("a/1.0000100000000001 cpu", "a/1 cpu")
    apart = made(Work("a", (1, 0), FIRST), Work("a", (1, 0), None, 1, "", ("", "tolerates x")))
    assert set(apart.users) == {"a/1 cpu", "a/1 cpu@tolerates x"}
    assert set(made(Work("a", (1, 0), FIRST), Work("a", (1, 0))).users) == {"a/1 cpu@s1", "a/1 cpu@s1|s2|s3"}


def test_units_stand_in_names_and_prefixes_of_resources_do_not():
    about = {
        "resources": ["cpu", "memory", "nvidia.com/gpu"],
        "capacities": [[16, 64, 4]],
        "servers": ["s"],
        "units": {"cpu": "core", "memory": "GiB"},
    }
    assert made(Work("a", (4, 16, 1)), **about).users == ("a/1 gpu",)
    assert made(Work("a", (4, 16, 1)), tasks="shapes", **about).users == ("a/1 gpu 4 cpu 16 GiB memory",)
    two = {"resources": ["amd.com/gpu", "nvidia.com/gpu"], "capacities": [[4, 4]], "servers": ["s"]}
    assert set(made(Work("a", (1, 0)), Work("a", (0, 1)), **two).users) == {"a/1 amd.com/gpu", "a/1 nvidia.com/gpu"}


def test_labels_of_owners_and_weights_of_teams_are_those_given():
    labels = {"team": {"a": "a", "b": None}, "parent1": {"a": "b", "b": "b"}}
    instance = made(Work("a", (1, 0)), Work("b", (1, 0)), labels=labels, weights={"a": 3, "b": 2, "gone": 5})
    assert dict(instance.teams) == {"team": ("a", None), "parent1": ("b", "b")}
    assert instance.team_weights == {"a": 3, "b": 2}


def test_tasks_that_fit_on_no_server_are_left_out_and_counted():
    work = (
        Work("a", (1, 0)),
        Work("b", (0, 1), ~FIRST, 2, "b/y"),
        Work("c", (1, 0), LAST, 1, "c/x"),
        Work("d", (1, 0), np.zeros(3, bool), 1.5),
    )
    instance = made(*work, notes=Notes("one"), word="job")
    assert instance.users == ("a/1 cpu",)
    assert instance.notes == ("one", "4.5 jobs that fit on no server were left out (such as b/y)")


def test_a_task_larger_than_any_server_stays():
    assert made(Work("a", (100, 0))).users == ("a/100 cpu",)


def test_tasks_that_no_single_server_can_hold_are_counted():
    work = Work("a", (17, 1), None, 2, "x"), Work("b", (5, 2), None, 3, "y")
    assert made(*work).notes == ("2 tasks are larger than any eligible server (such as x: 17 of cpu)",)
    caps = [[16, 1], [4, 4], [0, 0]]  # each amount fits somewhere, but not both on one server
    assert made(work[1], capacities=caps).notes == ("3 tasks are larger than any eligible server (such as y)",)


def test_a_resource_without_capacity_is_left_out_with_those_who_need_it():
    instance = made(Work("a", (1, 0)), Work("b", (1, 1)), capacities=[[16, 0]] * 3, units={"cpu": "core", "gpu": "x"})
    assert (instance.resources, instance.users, instance.units) == (("cpu",), ("a/1 cpu",), ("core",))
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
        rows = [j for j, name in enumerate(instance.teams["team"]) if name == owner]
        of_owner = [w for w in work if w.owner == owner]
        asked = sum((w.count * np.array(w.request) for w in of_owner), np.zeros(2))
        assert_allclose(instance.task_limits[rows] @ instance.demands[rows], asked, rtol=1e-14)
        assert_allclose(instance.weights[rows].sum(), bool(of_owner), rtol=1e-14)


def test_tasks_larger_than_any_server_are_kinds_of_their_own_whatever_is_averaged():
    one, three, large, larger = Work("a", (1, 0)), Work("a", (3, 0)), Work("a", (17, 0)), Work("a", (40, 0), None, 2)
    instance = made(one, three, large, larger)
    assert instance.users == ("a/40 cpu", "a/17 cpu", "a/cpu")
    assert (instance.demands[:, 0].tolist(), instance.task_limits.tolist()) == ([40, 17, 2], [2, 1, 2])


def test_requests_whose_mean_fits_on_no_server_while_each_fits_on_some_are_kept_separate():
    caps = [[16, 1], [2, 8], [0, 0]]
    work = Work("a", (16, 1), None, 3), Work("a", (2, 8))
    instance = made(*work, capacities=caps)
    assert instance.demands.tolist() == [[16, 1], [2, 8]]
    assert instance.users == ("a/1 gpu", "a/8 gpu") and instance.notes[0].startswith("1 of 1 owner has several kinds")
    assert made(Work("a", (14, 1)), Work("a", (12, 1)), capacities=caps).demands.tolist() == [[13, 1]]


def test_kinds_that_differ_by_their_requests_alone_are_named_by_the_whole_of_them():
    near = Work("a", (17, 2), FIRST), Work("a", (18, 2), FIRST)
    assert made(*near).users == ("a/2 gpu 18 cpu", "a/2 gpu 17 cpu")


def test_kinds_on_many_servers_are_named_by_how_many_and_not_by_all_of_them():
    names = [f"host-{k:02}" for k in range(40)]
    first, last = np.arange(40) < 28, np.arange(40) >= 12
    work = [Work("a", (1, 0), mask, place=("|".join(np.array(names)[mask]),) * 2) for mask in (first, last)]
    instance = made(*work, servers=names, capacities=[[16, 4]] * 40)
    assert set(instance.users) == {"a/1 cpu@28 servers from host-00", "a/1 cpu@28 servers from host-12"}


def test_kinds_on_as_many_servers_from_the_same_one_are_named_by_all_of_them():
    names = [f"n{k}" for k in range(6)]
    masks = [np.isin(names, ["n0", "n1", "n2", *rest]) for rest in (["n3"], ["n4"])]
    instance = made(*(Work("a", (1, 0), mask) for mask in masks), servers=names, capacities=[[16, 4]] * 6)
    assert set(instance.users) == {"a/1 cpu@n0|n1|n2|n3", "a/1 cpu@n0|n1|n2|n4"}
