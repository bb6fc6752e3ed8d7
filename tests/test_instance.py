"""Instance: what it accepts, what it refuses and how it says so, and the instances made from it."""

import contextlib
import copy
import math
import pickle
import re
from fractions import Fraction
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracle.instances import exactly

import fairopt as fo
from fairopt.errors import FairoptError, InvalidInstance
from fairopt.instance import Instance
from fairopt.instance.parts import server_window, taking_part, window

DEMANDS = [[40.0, 8.0, 8.0], [8.0, 5.0, 1.0]]
CAPACITIES = [200.0, 200.0, 200.0]
NAMES = {"users": ["batch", "web"], "resources": ["bandwidth", "memory", "cpu"]}


def two_users(**changes):
    return Instance(**{"demands": DEMANDS, "capacities": CAPACITIES, **NAMES, **changes})


def three_servers(**changes):
    arguments = {
        "demands": [[1, 2], [2, 1], [1, 0]],
        "capacities": [[10, 20], [30, 10], [10, 20]],
        "users": ["a", "b", "c"],
        "resources": ["cpu", "gpu"],
        "servers": ["s", "t", "u"],
    }
    return Instance(**{**arguments, **changes})


# -- what it holds --------------------------------------------------------------------------------------------------


def test_a_row_of_capacities_is_one_pool():
    cluster = two_users()
    assert cluster.capacities.shape == (1, 3)
    assert (cluster.n_users, cluster.n_resources, cluster.n_servers) == (2, 3, 1)
    assert cluster.servers == ("pool",)


@pytest.mark.parametrize("where", ["users", "resources", "servers", "server_types", "units"])
def test_halves_of_surrogate_pairs_are_no_labels(where):
    with pytest.raises(InvalidInstance, match=r"'a\\ud800' holds half of a surrogate pair"):
        Instance([[1]], [1], **{where: ["a\ud800"]})


def test_labels_have_defaults():
    cluster = Instance([[1, 2]], [[4, 4], [5, 5]])
    assert cluster.users == ("user1",)
    assert cluster.resources == ("resource1", "resource2")
    assert cluster.servers == ("server1", "server2")


def test_weights_are_1_limits_infinite_counts_1_and_everybody_eligible_unless_given():
    cluster = three_servers()
    assert_array_equal(cluster.weights, np.ones(3))
    assert_array_equal(cluster.task_limits, np.full(3, np.inf))
    assert_array_equal(cluster.counts, np.ones(3))
    assert cluster.eligible.shape == (3, 3) and cluster.eligible.all()


def test_dominant_shares_are_the_largest_part_of_a_resource_that_a_task_takes():
    assert_allclose(two_users().dominant_shares, [0.2, 0.04], rtol=1e-15)


def test_total_capacities_count_identical_servers():
    cluster = three_servers(counts=[2, 1, 3])
    assert_array_equal(cluster.total_capacities, [80, 110])
    assert_allclose(cluster.ratios, [[1 / 80, 2 / 110], [2 / 80, 1 / 110], [1 / 80, 0]])


def test_tasks_alone_count_identical_servers_and_leave_out_ineligible_ones():
    cluster = three_servers(counts=[2, 1, 3], eligible={"a": ["s"]})
    assert_array_equal(cluster.tasks_alone, [[20, 0, 0], [10, 10, 15], [20, 30, 30]])


def test_tasks_alone_ignore_task_limits():
    assert_array_equal(three_servers(task_limits=1).tasks_alone, three_servers().tasks_alone)


@pytest.mark.parametrize(
    "value", [2, [1, 3], np.array([1.0, 3.0]), {"batch": 1, "web": 3}, {"web": 3}, (1, 3), np.float64(2)]
)
@pytest.mark.parametrize("name", ["weights", "task_limits"])
def test_values_by_user_are_a_scalar_an_array_or_a_dict(name, value):
    array = getattr(two_users(**{name: value}), name)
    assert array.shape == (2,) and array.dtype == np.float64
    left_out = {"weights": 1.0, "task_limits": np.inf}[name]
    if isinstance(value, dict):
        assert_array_equal(array, [value.get("batch", left_out), 3])
    elif np.ndim(value):
        assert_array_equal(array, [1, 3])
    else:
        assert_array_equal(array, [2, 2])


@pytest.mark.parametrize("limits", [[None, 5], {"batch": None, "web": 5}, [np.inf, 5], {"web": 5}])
def test_none_and_infinity_are_no_task_limit(limits):
    assert_array_equal(two_users(task_limits=limits).task_limits, [np.inf, 5])


def test_a_task_limit_of_zero_is_legal():
    assert_array_equal(two_users(task_limits=0).task_limits, [0, 0])


def test_eligibility_by_name_equals_the_matrix():
    by_name = three_servers(eligible={"a": ["s", "u"], "b": "t"})
    by_matrix = three_servers(eligible=[[1, 0, 1], [0, 1, 0], [True, True, True]])
    assert by_name == by_matrix


def test_a_server_without_a_needed_resource_is_ineligible_for_those_who_need_it():
    cluster = Instance([[1, 0], [1, 1]], [[10, 0], [10, 5]])
    assert cluster.eligible.tolist() == [[True, True], [False, True]]


def test_nobody_at_all_is_an_instance():
    for demands in ([], np.empty((0, 2)), np.empty((0, 3, 2))):
        nobody = Instance(demands, [[1, 2], [3, 4], [5, 6]], weights=[], task_limits={}, eligible=[], users=[])
        assert nobody.n_users == 0
        assert nobody.users == ()
        assert nobody.dominant_shares.shape[0] == 0
        assert nobody.merged() == nobody
        assert nobody.pooled().n_servers == 1 if np.ndim(demands) < 3 else True
        assert "0 users" in repr(nobody)


def test_one_user_of_one_resource_is_an_instance():
    one = Instance([[2]], [6])
    assert_array_equal(one.tasks_alone, [[3]])
    assert repr(one) == "Instance(1 user x 1 resource on 1 server)"


def test_capacities_from_1e_minus_9_to_1e15_are_kept():
    cluster = Instance([[1e-9, 1e12], [0, 1]], [1e-9, 1e15])
    assert_allclose(cluster.tasks_alone[:, 0], [1, 1e15])


def test_the_repr_tells_what_makes_an_instance_special():
    cluster = three_servers(counts=[2, 1, 1], weights=[1, 2, 1], task_limits=[1, None, None], eligible={"a": ["s"]})
    assert repr(cluster) == (
        "Instance(3 users x 2 resources on 4 servers in 3 rows, weights, task limits, placement constraints)"
    )


# -- demands per server ---------------------------------------------------------------------------------------------


def test_demands_per_server_keep_their_shape_and_plain_ones_are_repeated_without_copying():
    deep = np.arange(1.0, 13).reshape(2, 3, 2)
    by_server = Instance(deep, np.full((3, 2), 100.0))
    assert by_server.demands.shape == (2, 3, 2)
    assert by_server.per_server_demands is by_server.demands
    plain = three_servers()
    assert plain.demands.shape == (3, 2)
    assert plain.per_server_demands.shape == (3, 3, 2)
    assert np.shares_memory(plain.per_server_demands, plain.demands)


def test_dominant_shares_of_demands_per_server_are_by_server():
    cluster = Instance([[[1, 4], [3, 2]]], [[10, 10], [10, 10]])
    assert_allclose(cluster.dominant_shares, [[4 / 20, 3 / 20]])
    assert_allclose(cluster.tasks_alone, [[2.5, 10 / 3]])


def test_a_row_of_zeros_on_one_server_is_refused_unless_that_server_is_out_of_bounds():
    demands, capacities = [[[1, 1], [0, 0]]], [[1, 1], [1, 1]]
    with pytest.raises(InvalidInstance, match=r"user 'user1' demands nothing on server 'server2'.*not eligible"):
        Instance(demands, capacities)
    assert Instance(demands, capacities, eligible=[[True, False]]).eligible.tolist() == [[True, False]]


def test_a_missing_resource_on_one_server_counts_by_the_demand_there():
    cluster = Instance([[[1, 0], [1, 1]]], [[1, 0], [1, 0]])
    assert cluster.eligible.tolist() == [[True, False]]


# -- immutability ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "demands",
        "capacities",
        "weights",
        "task_limits",
        "eligible",
        "counts",
        "total_capacities",
        "ratios",
        "dominant_shares",
        "tasks_alone",
        "per_server_demands",
        "derived.server_classes",
    ],
)
def test_no_array_of_an_instance_can_be_written_to(name):
    cluster = three_servers(weights=[1.0, 2, 3], task_limits=[1.0, 2, 3], eligible=np.ones((3, 3), bool))
    array = attrgetter(name)(cluster)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_arrays_are_kept_as_views_and_the_callers_stay_writeable(dtype):
    demands, capacities = np.array(DEMANDS, dtype), np.array(CAPACITIES, dtype)
    cluster = Instance(demands, capacities)
    assert cluster.demands.dtype == dtype
    assert np.shares_memory(cluster.demands, demands)
    assert np.shares_memory(cluster.capacities, capacities)
    assert demands.flags.writeable and capacities.flags.writeable


def test_integers_are_converted():
    assert two_users(demands=np.array(DEMANDS, dtype=np.int32)).demands.dtype == np.float64


def test_new_instances_share_what_did_not_change():
    cluster = two_users(demands=np.array(DEMANDS))
    assert np.shares_memory(cluster.with_weights([1, 2]).demands, cluster.demands)


# -- equality -------------------------------------------------------------------------------------------------------


def test_instances_are_equal_if_numbers_and_labels_are():
    assert two_users() == two_users(weights=1, task_limits=None, eligible=[[True], [True]], counts=[1])
    assert two_users() == two_users(demands=np.array(DEMANDS, dtype=np.float32))


@pytest.mark.parametrize(
    "change",
    [
        {"demands": [[40, 8, 8], [8, 5, 2]]},
        {"capacities": [200, 200, 201]},
        {"weights": 2},
        {"task_limits": 5},
        {"counts": [2]},
        {"users": ["web", "batch"]},
        {"resources": ["a", "b", "c"]},
        {"servers": ["s"]},
        {"server_types": ["T4"]},
    ],
)
def test_instances_differ_if_anything_differs(change):
    assert two_users() != two_users(**change)


def test_an_instance_differs_from_everything_else_and_cannot_be_hashed():
    assert two_users() != "an instance"
    assert three_servers() != three_servers(eligible={"a": ["s"]})
    with pytest.raises(TypeError, match="unhashable"):
        hash(two_users())


# -- new instances --------------------------------------------------------------------------------------------------


def test_each_with_method_changes_one_thing_and_leaves_the_original_alone():
    cluster = three_servers()
    assert_array_equal(cluster.with_demands([[1, 1], [1, 1], [1, 1]]).demands, np.ones((3, 2)))
    assert_array_equal(cluster.with_capacities([[1, 1], [2, 2], [3, 3]]).total_capacities, [6, 6])
    assert_array_equal(cluster.with_weights({"b": 4}).weights, [1, 4, 1])
    assert_array_equal(cluster.with_task_limits([1, None, 3]).task_limits, [1, np.inf, 3])
    assert_array_equal(cluster.with_eligible({"a": ["s"]}).eligible[0], [True, False, False])
    assert cluster == three_servers()


def test_replace_keeps_labels_and_refuses_unknown_arguments():
    assert two_users().replace(weights=[1, 2]).users == ("batch", "web")
    with pytest.raises(InvalidInstance, match=r"no 'demand'; did you mean 'demands'"):
        two_users().replace(demand=DEMANDS)


def changed(name, by_user, **before):
    """A dict given to the two ways of changing an instance of three users on three servers."""
    cluster = three_servers(**before)
    one, other = getattr(cluster, f"with_{name}")(by_user), cluster.replace(**{name: by_user})
    assert one == other
    return getattr(one, name)


def test_users_that_a_dict_leaves_out_keep_their_weights():
    assert_array_equal(changed("weights", {"b": 4}, weights=[2, 3, 5]), [2, 4, 5])
    assert_array_equal(changed("weights", {}, weights=[2, 3, 5]), [2, 3, 5])


def test_users_that_a_dict_leaves_out_keep_their_task_limits():
    assert_array_equal(changed("task_limits", {"a": None, "c": 7}, task_limits=[1, 2, None]), [np.inf, 2, 7])


def test_users_that_a_dict_leaves_out_keep_their_servers():
    before = [[1, 0, 0], [0, 1, 1], [1, 1, 0]]
    assert_array_equal(changed("eligible", {"b": ["u"]}, eligible=before), [[1, 0, 0], [0, 0, 1], [1, 1, 0]])


def test_dicts_change_an_instance_one_after_the_other():
    cluster = three_servers(weights=[2, 3, 5])
    assert_array_equal(cluster.with_weights({"a": 7}).with_weights({"c": 11}).weights, [7, 3, 11])


def test_a_dict_goes_by_the_new_labels_of_users_who_are_renamed():
    renamed = three_servers(weights=[2, 3, 5]).replace(users=["x", "y", "z"], weights={"y": 4})
    assert_array_equal(renamed.weights, [2, 4, 5])


@pytest.mark.parametrize("name, value", [("weights", 3), ("task_limits", 3), ("eligible", ["s"])])
def test_a_dict_for_another_number_of_users_names_every_one(name, value):
    cluster, change = three_servers(), {"demands": [[1, 2], [2, 1]], "users": ["a", "d"]}
    rest = {"weights": 1, "task_limits": None, "eligible": None}
    with pytest.raises(InvalidInstance, match=rf"{name} leaves out user 'd', whose old value.*name every user"):
        cluster.replace(**{**rest, **change, name: {"a": value}})
    new = cluster.replace(**{**rest, **change, name: {"a": value, "d": value}})
    assert new == Instance(
        capacities=cluster.capacities,
        **change,
        **{name: {"a": value, "d": value}},
        resources=["cpu", "gpu"],
        servers=["s", "t", "u"],
    )


@pytest.mark.parametrize("chosen", [[2, 0], np.array([True, False, True]), [-1]])
def test_selecting_users_keeps_their_rows_and_labels(chosen):
    cluster = three_servers(weights=[1, 2, 3], task_limits=[None, 5, 7], eligible={"a": ["s"]})
    some = cluster.select_users(chosen)
    rows = np.arange(3)[chosen]
    assert some.users == tuple("abc"[j] for j in rows)
    for name in ("demands", "weights", "task_limits", "eligible"):
        assert_array_equal(getattr(some, name), getattr(cluster, name)[rows])
    assert some.servers == cluster.servers


def test_selecting_users_without_labels_keeps_their_default_names():
    assert Instance([[1], [2], [3]], [1]).select_users([2]).users == ("user3",)


def test_selecting_no_users_gives_nobody():
    assert three_servers().select_users(np.zeros(3, dtype=bool)).n_users == 0


def test_a_pool_has_all_capacity_and_no_placement_constraints():
    pool = three_servers(counts=[2, 1, 1], eligible={"a": ["s"]}, weights=[1, 2, 3], task_limits=9).pooled()
    assert_array_equal(pool.capacities, [[60, 70]])
    assert pool.eligible.all() and pool.servers == ("pool",)
    assert_array_equal(pool.weights, [1, 2, 3])
    assert_array_equal(pool.task_limits, [9, 9, 9])
    assert_array_equal(pool.total_capacities, three_servers(counts=[2, 1, 1]).total_capacities)


def test_demands_per_server_cannot_be_pooled():
    with pytest.raises(InvalidInstance, match=r"differ by server.*pool"):
        Instance([[[1], [2]]], [[1], [1]]).pooled()


def test_merging_adds_the_counts_of_identical_servers():
    merged = three_servers(counts=[2, 1, 3]).merged()
    assert merged.servers == ("s,u", "t")
    assert_array_equal(merged.counts, [5, 1])
    assert_array_equal(merged.capacities, [[10, 20], [30, 10]])


def test_merging_keeps_apart_what_differs_in_eligibility_or_demands():
    assert three_servers(eligible={"a": ["s", "t"]}).merged().n_servers == 3
    same, other = [[1.0, 1.0]], [[1.0, 2.0]]
    capacities = [[4.0, 4.0], [4.0, 4.0]]
    assert Instance([same + same], capacities).merged().n_servers == 1
    assert Instance([same + other], capacities).merged().n_servers == 2


def test_merging_without_identical_servers_gives_the_same_instance():
    cluster = Instance([[1, 1]], [[1, 2], [2, 1]])
    assert cluster.merged() is cluster


def test_spreading_shares_tasks_equally_over_identical_servers():
    cluster = three_servers(counts=[2, 1, 3])
    spread = cluster.derived.spread(np.array([[5.0, 1.0], [10.0, 0.0], [0.0, 2.0]]))
    assert_allclose(spread, [[2, 1, 3], [4, 0, 6], [0, 2, 0]])


DIGITS = st.integers(1, 9).map(float)


@st.composite
def clusters(draw):
    """Instances on several servers of a few kinds."""
    n, kinds, m = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kind = draw(st.lists(st.integers(0, kinds - 1), min_size=1, max_size=6))
    capacities, demands = np.array(draw(exactly(kinds, exactly(m, DIGITS)))), draw(exactly(n, exactly(m, DIGITS)))
    counts = draw(st.lists(st.integers(1, 5), min_size=len(kind), max_size=len(kind)))
    allowed = np.array(draw(st.lists(st.lists(st.booleans(), min_size=kinds, max_size=kinds), min_size=n, max_size=n)))
    allowed[:, kind[0]] = True
    return Instance(demands, capacities[kind], counts=counts, eligible=allowed[:, kind])


@given(clusters())
def test_merging_keeps_totals_and_what_each_user_could_run_alone(cluster):
    merged = cluster.merged()
    assert_allclose(merged.total_capacities, cluster.total_capacities)
    assert_allclose(merged.tasks_alone.sum(axis=1), cluster.tasks_alone.sum(axis=1))
    assert merged.merged() is merged


@given(clusters())
def test_spreading_what_fits_the_merged_servers_fits_every_server(cluster):
    merged = cluster.merged()
    tasks = merged.tasks_alone / merged.n_users
    spread = cluster.derived.spread(tasks)
    assert_allclose(spread.sum(axis=1), tasks.sum(axis=1))
    usage = np.einsum("js,ji->si", spread, cluster.demands)
    assert (usage <= cluster.capacities * cluster.counts[:, None] * (1 + 1e-12)).all()
    assert (spread[~cluster.eligible] == 0).all()


@given(clusters())
def test_plain_data_gives_the_instance_back(cluster):
    assert Instance.from_dict(cluster.to_dict()) == cluster


def test_plain_data_writes_no_limit_as_none_and_no_placement_constraint_as_none():
    data = two_users(task_limits=[None, 3]).to_dict()
    assert data["task_limits"] == [None, 3.0]
    assert data["eligible"] is None
    assert data["demands"] == DEMANDS


# -- types of servers -----------------------------------------------------------------------------------------------


def typed(**changes):
    return three_servers(server_types=["T4", "A10", "T4"], **changes)


def test_servers_have_no_types_unless_given_and_types_may_repeat():
    assert three_servers().server_types is None
    assert typed().server_types == ("T4", "A10", "T4")
    assert three_servers(server_types=iter("xyx")).server_types == ("x", "y", "x")
    of_numpy = three_servers(server_types=np.array(["T4", "A10", "T4"]))
    assert of_numpy == typed()
    assert {type(name) for name in of_numpy.server_types} == {str}


@pytest.mark.parametrize(
    "derived",
    [
        lambda c: c.replace(weights=2),
        lambda c: c.with_demands(np.ones((3, 2))),
        lambda c: c.with_weights(3),
        lambda c: c.with_capacities(c.capacities * 2),
        lambda c: c.with_task_limits(4),
        lambda c: c.with_eligible(None),
        lambda c: c.select_users([0]),
        lambda c: c.select_users([False] * 3),
        lambda c: taking_part(c, [2, 0]),
        lambda c: window(c, slice(1, 3)),
        lambda c: taking_part(window(c, slice(1, 3)), [0]),
        copy.copy,
        copy.deepcopy,
        lambda c: pickle.loads(pickle.dumps(c)),
        lambda c: Instance.from_dict(c.to_dict()),
        lambda c: pickle.loads(pickle.dumps(taking_part(c, [1]))),
    ],
)
def test_types_stay_with_their_servers(derived):
    assert derived(typed()).server_types == ("T4", "A10", "T4")
    assert derived(three_servers()).server_types is None


def test_some_servers_by_themselves_keep_their_types():
    assert server_window(typed(), slice(1, 3)).server_types == ("A10", "T4")
    assert server_window(three_servers(), slice(1, 3)).server_types is None


def test_a_pool_has_no_types_and_types_can_be_taken_away():
    assert typed().pooled().server_types is None
    assert typed().replace(server_types=None) == three_servers()


def test_types_are_no_part_of_the_repr():
    assert repr(typed()) == repr(three_servers())


def test_plain_data_holds_types_as_a_list_or_none():
    assert typed().to_dict()["server_types"] == ["T4", "A10", "T4"]
    assert three_servers().to_dict()["server_types"] is None


def test_identical_servers_merge_whatever_their_types_and_the_row_names_all_of_them():
    assert typed().merged().server_types == ("T4", "A10")
    mixed = three_servers(server_types=["T4", "G2", "A10"])  # s and u are alike
    assert mixed.merged().server_types == ("A10|T4", "G2")
    assert mixed.merged().merged() == mixed.merged()
    assert_array_equal(mixed.derived.server_classes, three_servers().derived.server_classes)


@given(clusters(), st.data())
def test_merged_types_are_those_of_the_servers_merged(cluster, data):
    n = cluster.n_servers
    names = data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=n, max_size=n))
    merged = cluster.replace(server_types=names).merged()
    for k, name in enumerate(merged.server_types):
        rows = np.flatnonzero(cluster.derived.server_classes == k)
        assert name.split("|") == sorted({names[s] for s in rows})


# -- looking up -----------------------------------------------------------------------------------------------------


def test_users_and_resources_are_found_by_label_and_by_index():
    cluster = two_users()
    assert cluster.user_index("web") == cluster.user_index(1) == cluster.user_index(np.int64(1)) == 1
    assert cluster.resource_index("cpu") == cluster.resource_index(2) == 2


@pytest.mark.parametrize(
    ("look_up", "name", "message"),
    [
        ("user_index", "wep", "no user 'wep'; did you mean 'web'"),
        ("user_index", 2, "no user 2; there are 2"),
        ("user_index", -1, "no user -1; there are 2"),
        ("user_index", 0.5, "no user 0.5"),
        ("resource_index", "gpu", "no resource 'gpu'"),
        ("resource_index", 3, "no resource 3; there are 3"),
    ],
)
def test_looking_up_what_is_not_there_names_what_is(look_up, name, message):
    with pytest.raises(InvalidInstance, match=message):
        getattr(two_users(), look_up)(name)


# -- what it refuses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        # numbers
        ({"demands": [[40, math.nan, 8], [8, 5, 1]]}, ["demands", "user 'batch'", "'memory'", "nan", "finite"]),
        ({"demands": [[40, 8, 8], [8, 5, math.inf]]}, ["demands", "user 'web'", "'cpu'", "inf", "finite"]),
        ({"demands": [[40, 8, 8], [-8, 5, 1]]}, ["demands", "user 'web'", "'bandwidth'", "-8", ">= 0"]),
        ({"demands": [[40, 8, 8], [0, 0, 0]]}, ["user 'web'", "row of zeros", "positive demand", "leave it out"]),
        ({"demands": [[40, 8, "many"], [8, 5, 1]]}, ["demands", "many", "give numbers"]),
        ({"demands": [[40, 8, 8], [8, 5]]}, ["demands", "equal rows"]),
        ({"demands": [[40, None, 8], [8, 5, 1]]}, ["demands", "user 'batch'", "'memory'"]),
        ({"demands": {"batch": 1}}, ["demands", "give numbers"]),
        ({"capacities": [200, math.nan, 200]}, ["capacities", "'memory'", "'pool'", "nan"]),
        ({"capacities": [200, 200, math.inf]}, ["capacities", "'cpu'", "inf"]),
        ({"capacities": [200, 200, -1]}, ["capacities", "'cpu'", "-1"]),
        ({"capacities": "much"}, ["capacities", "give numbers"]),
        ({"capacities": [200, 0, 200]}, ["user 'batch'", "'memory'", "capacity 0 on every server", "give it capacity"]),
        # shapes
        ({"demands": [40, 8, 8]}, ["demands have shape (3,)", "3 resource(s)", "(n_users, 3)"]),
        ({"demands": [[40, 8], [8, 5]]}, ["demands have shape (2, 2)", "3 resource(s)", "(n_users, 3)"]),
        ({"demands": np.ones((2, 4, 3))}, ["demands have shape (2, 4, 3)", "1 server(s)", "(n_users, 1, 3)"]),
        ({"demands": np.ones((2, 1, 1, 3))}, ["demands have shape (2, 1, 1, 3)"]),
        ({"capacities": 200}, ["capacities have shape ()", "(n_resources,)"]),
        ({"capacities": []}, ["capacities have shape (0,)", "at least one"]),
        ({"capacities": np.ones((0, 3))}, ["capacities have shape (0, 3)", "at least one"]),
        ({"capacities": np.ones((1, 1, 3))}, ["capacities have shape (1, 1, 3)"]),
        # labels
        ({"users": ["web", "web"]}, ["user label 'web'", "twice", "differ"]),
        ({"users": ["web"]}, ["1 user labels for 2 users"]),
        ({"resources": ["cpu", "gpu", "cpu"]}, ["resource label 'cpu'", "twice"]),
        ({"resources": ["cpu"]}, ["1 resource labels for 3 resources"]),
        ({"servers": ["a", "b"]}, ["2 server labels for 1 servers"]),
        # types of servers
        ({"server_types": ["T4", "A10"]}, ["2 server types for 1 servers", "give one each"]),
        ({"server_types": []}, ["0 server types for 1 servers"]),
        ({"server_types": "T"}, ["server_types is 'T'", "give a list of 1"]),
        ({"server_types": {"pool": "T4"}}, ["server_types is {'pool': 'T4'}", "give a list of 1"]),
        ({"server_types": 4}, ["server_types is 4", "give a list"]),
        ({"server_types": [4]}, ["type of server 'pool' is 4", "give text such as 'T4'"]),
        ({"server_types": [None]}, ["type of server 'pool' is None", "give text"]),
        ({"server_types": [""]}, ["type of server 'pool' is ''", "give text"]),
        # values by user
        ({"weights": [1, 0]}, ["weights", "user 'web'", "0", "positive"]),
        ({"weights": {"batch": -1}}, ["weights", "user 'batch'", "-1", "positive"]),
        ({"weights": [math.nan, 1]}, ["weights", "user 'batch'", "nan"]),
        ({"weights": math.inf}, ["weights", "user 'batch'", "inf", "finite"]),
        ({"weights": [1, 2, 3]}, ["weights", "shape (3,)", "(2,)"]),
        ({"weights": [[1, 2]]}, ["weights", "shape (1, 2)", "(2,)"]),
        ({"weights": {"wep": 1}}, ["weights", "unknown user 'wep'", "did you mean 'web'"]),
        ({"weights": ["heavy", 1]}, ["weights", "heavy", "give numbers"]),
        ({"task_limits": [3, -1]}, ["task_limits", "user 'web'", "-1", "0 or more"]),
        ({"task_limits": [math.nan, 1]}, ["task_limits", "user 'batch'", "nan"]),
        ({"task_limits": [1]}, ["task_limits", "shape (1,)", "(2,)"]),
        ({"task_limits": {"wep": 1}}, ["task_limits", "unknown user 'wep'"]),
        # counts
        ({"counts": [0]}, ["count of server 'pool'", "0", "whole number >= 1"]),
        ({"counts": [1.5]}, ["count of server 'pool'", "1.5", "whole number"]),
        ({"counts": [math.nan]}, ["count of server 'pool'", "nan"]),
        ({"counts": [math.inf]}, ["count of server 'pool'", "inf"]),
        ({"counts": [1, 1]}, ["counts have shape (2,)", "per server row"]),
        ({"counts": 2}, ["counts have shape ()"]),
        # eligibility
        ({"eligible": [[True]]}, ["eligible has shape (1, 1)", "(2, 1)"]),
        ({"eligible": [[2], [1]]}, ["eligible", "true and false"]),
        ({"eligible": [[True], [False]]}, ["user 'web'", "eligible on no server", "check"]),
        ({"eligible": {"web": []}}, ["user 'web'", "eligible on no server"]),
        ({"eligible": {"wep": ["pool"]}}, ["no user 'wep'", "did you mean 'web'"]),
        ({"eligible": {"web": ["pol"]}}, ["no server 'pol'", "did you mean 'pool'"]),
    ],
)
def test_bad_input_is_refused_with_place_value_and_fix(changes, parts):
    with pytest.raises(InvalidInstance) as caught:
        two_users(**changes)
    missing = [part for part in parts if part not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def test_bad_numbers_on_servers_are_named_by_server():
    with pytest.raises(InvalidInstance, match=r"capacities of resource 'gpu' on server 't' is -1"):
        three_servers(capacities=[[1, 2], [1, -1], [1, 1]])
    with pytest.raises(InvalidInstance, match=r"demands of user 'b' for resource 'cpu' on server 'u' is nan"):
        three_servers(demands=[[[1, 1]] * 3, [[1, 1], [1, 1], [math.nan, 1]], [[1, 1]] * 3])


def test_a_user_whose_servers_lack_what_it_needs_is_refused():
    with pytest.raises(InvalidInstance, match=r"user 'b' is eligible on no server that has all it needs"):
        Instance([[1, 0], [1, 1]], [[5, 0], [5, 5]], users=["a", "b"], eligible=[[1, 1], [1, 0]])


def test_a_resource_that_nobody_needs_may_be_missing():
    assert Instance([[1, 0]], [5, 0]).tasks_alone.tolist() == [[5.0]]


def test_invalid_instances_are_value_errors_and_errors_of_fairopt():
    assert issubclass(InvalidInstance, ValueError) and issubclass(InvalidInstance, FairoptError)


def test_values_by_user_need_one_for_everybody_where_there_is_no_default():
    with pytest.raises(InvalidInstance, match=r"level has no value for user 'web'"):
        two_users().per_user({"batch": 1}, "level")
    with pytest.raises(InvalidInstance, match=r"level is None"):
        two_users().per_user(None, "level")


@pytest.mark.parametrize(
    "make",
    [
        lambda: two_users(counts=[1e300]),  # becomes a negative count
        lambda: two_users(eligible=[[1], [1, 2]]),  # ValueError of NumPy
        lambda: two_users(eligible={"web": 3}),  # TypeError
        lambda: two_users(demands=[[10**400, 8, 8], [8, 5, 1]]),  # OverflowError
        lambda: two_users(users=5),  # TypeError
        lambda: two_users(demands=np.array(DEMANDS) + 1j),  # the imaginary part is lost
        lambda: two_users().select_users([5]),  # IndexError
        lambda: Instance.from_dict({"demands": [[1]], "capacities": [1], "weight": 2}),  # TypeError
    ],
    ids=[
        "count-1e300",
        "ragged-eligible",
        "eligible-no-list",
        "huge-int",
        "users-no-list",
        "complex",
        "select-unknown",
        "unknown-key",
    ],
)
def test_odd_input_is_refused_too(make):
    with pytest.raises(InvalidInstance):
        make()


def test_nothing_of_an_instance_can_be_set():
    cluster = two_users()
    with pytest.raises(AttributeError):
        cluster.weights = np.ones(2)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda i: pickle.loads(pickle.dumps(i))], ids=["deepcopy", "pickle"])
def test_copies_are_equal_and_immutable_too(copied):
    twin = copied(two_users())
    assert twin == two_users()
    assert not twin.demands.flags.writeable


@given(st.data())
def test_no_input_of_the_right_kind_raises_anything_but_invalid_instance(data):
    number = st.floats() | st.integers(-3, 10**20) | st.sampled_from([0.0, 1.0, 1e-300, 1e300, None, "x"])
    anything = st.lists(st.lists(number, max_size=3), max_size=3) | st.lists(number, max_size=3) | number
    with contextlib.suppress(InvalidInstance):
        Instance(
            data.draw(anything),
            data.draw(anything),
            weights=data.draw(anything),
            task_limits=data.draw(anything),
            eligible=data.draw(st.none() | anything),
            counts=data.draw(st.none() | anything),
        )


@pytest.mark.parametrize("units", [["", "GiB"], {"memory": "GiB"}])
def test_units_are_shown_beside_labels_and_change_nothing_else(units):
    bare = Instance([[1, 2]], [8, 64], resources=["cpu", "memory"])
    named = bare.replace(units=units)
    assert named.units == ("", "GiB") and named.resource_titles == ("cpu", "memory (GiB)")
    assert named != bare and bare.units is None and bare.resource_titles == ("cpu", "memory")
    assert named.merged().units == named.pooled().units == window(named, slice(0, 1)).units == ("", "GiB")
    assert Instance.from_dict(named.to_dict()) == named == pickle.loads(pickle.dumps(named))


def test_units_of_nothing_are_none():
    assert Instance([[1, 2]], [8, 64], units=["", ""]).units is None


@pytest.mark.parametrize(
    ("units", "words"),
    [
        (["GiB"], "1 units for 2 resources"),
        ("GiB", "units is 'GiB'; give a list of texts"),
        (["", 3], "units hold 3; give text only"),
        (["", "[GiB]"], "unit of 'memory' is '[GiB]'"),
        (["", " GiB"], "unit of 'memory' is ' GiB'"),
        ({"mem": "GiB"}, "no resource 'mem'"),
    ],
)
def test_wrong_units_are_refused(units, words):
    with pytest.raises(InvalidInstance, match=re.escape(words)):
        Instance([[1, 2]], [8, 64], resources=["cpu", "memory"], units=units)


def test_notes_of_a_reader_stay_with_the_instance_and_are_no_part_of_the_question():
    bare = Instance([[1, 2]], [8, 64])
    noted = bare.replace(notes=["12 tasks that request nothing were left out"])
    assert noted == bare and bare.notes == ()
    assert noted.with_weights(2).notes == noted.merged().notes == ("12 tasks that request nothing were left out",)
    with pytest.raises(InvalidInstance, match="notes hold 1; give text only"):
        bare.replace(notes=[1])


def test_units_must_not_make_two_resources_look_alike():
    with pytest.raises(InvalidInstance, match=r"'m' and 'm \(GiB\)' would both be titled 'm \(GiB\)'"):
        Instance([[1, 2]], [8, 64], resources=["m", "m (GiB)"], units={"m": "GiB"})


def test_masked_numbers_are_refused():
    """NumPy would take what is under the mask."""
    with pytest.raises(InvalidInstance, match=r"demands are masked .missing. in 1 places"):
        Instance(np.ma.masked_array([[1.0, 2.0]], mask=[[False, True]]), [1, 1])
    assert Instance(np.ma.masked_array([[1.0, 2.0]]), [1, 1]).demands.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"demands": [[1, 1e61], [1, 1]]}, "demands of user 'batch' for resource 'memory' is 1e+61"),
        ({"demands": [[1, 1], [9e-61, 1]]}, "demands of user 'web' for resource 'cpu' is 9e-61"),
        ({"demands": [[Fraction(1, 10**400), 1], [1, 1]]}, "demands hold 1/1000"),
        ({"demands": [[[1, 1]], [[1, 1e90]]]}, "for resource 'memory' on server 'pool' is 1e+90"),
        ({"capacities": [1e61, 1]}, "capacities of resource 'cpu' on server 'pool' is 1e+61"),
        ({"capacities": [1, 5e-324]}, "capacities of resource 'memory' on server 'pool' is 5e-324"),
        ({"capacities": [[1e60, 1]], "counts": [2]}, "capacities of resource 'cpu' on all servers are 2e+60 together"),
        ({"weights": [1e61, 1]}, "weights of user 'batch' is 1e+61"),
        ({"teams": {"team": ["a", "a"]}, "weights": {"a": 1e-61}}, "weights of team 'a' is 1e-61"),
        ({"task_limits": [1, 1e-61]}, "task_limits of user 'web' is 1e-61"),
        ({"guarantees": [1e61, 0]}, "guarantees of user 'batch' is 1e+61"),
        ({"teams": {"team": ["a", "a"]}, "guarantees": {"a": {"cpu": 1e61}}}, "guarantees of team 'a' for resource"),
        ({"rates": [[1], [1e61]]}, "rates of user 'web' on server 'pool' is 1e+61"),
        ({"held": [1, 1e-61]}, "held of user 'web' on server 'pool' is 1e-61"),
        ({"limits": [{"resource": "cpu", "amount": 1e61, "of": ["web"]}]}, "the amount of a limit on 'cpu' is 1e+61"),
    ],
)
def test_numbers_beyond_1e60_are_refused_by_name_with_the_unit_to_change(changes, words) -> None:
    given = {"demands": [[1, 1], [1, 1]], "capacities": [4, 4], "users": ["batch", "web"], **changes}
    with pytest.raises(InvalidInstance, match=re.escape(words) + ".*between 1e-60 and 1e60: count .* in another unit"):
        Instance(**given, resources=["cpu", "memory"])


def test_the_ends_of_the_range_zeros_and_limits_without_end_are_taken() -> None:
    made = Instance([[1e60, 0], [1e-60, 1]], [1e60, 1e-60], weights=[1e-60, 1e60], task_limits=[np.inf, 0])
    assert made.weights.tolist() == [1e-60, 1e60]
    assert Instance(np.array([[1e-40]], dtype=np.float32), [1e38]).demands.dtype == np.float32


# -- tasks that run now ---------------------------------------------------------------------------------------


def two_kinds(**others):
    return Instance([[1, 2], [2, 1]], [[8, 8], [8, 8], [4, 9]], users=["a", "b"], servers=["n1", "n2", "m"], **others)


def test_tasks_held_are_by_server_or_in_all_and_follow_users_and_servers():
    held = two_kinds(held=[[1, 2, 0], [0, 3, 1]])
    assert held.held_tasks.tolist() == [3, 4]
    assert held.held_units.tolist() == [[3, 6], [8, 4]]
    assert (held.merged().servers, held.merged().held.tolist()) == (("n[1-2]", "m"), [[3, 0], [3, 1]])
    assert held.merged().individual().held.tolist() == held.held.tolist()
    assert held.merged().replace(weights=2).individual().held.tolist() == [[1.5, 1.5, 0], [1.5, 1.5, 1]]
    assert held.pooled().held.tolist() == [[3], [4]]
    assert held.select_users([1]).held.tolist() == [[0, 3, 1]]
    total = two_kinds(held={"b": 4})
    assert (total.held.tolist(), total.held_units.tolist()) == ([0, 4], [[0, 0], [8, 4]])
    assert total.merged().held.tolist() == total.individual().held.tolist() == [0, 4]
    assert two_kinds(held={"b": {"n2": 3}}).replace(held={"a": [1, 0, 0]}).held.tolist() == [[1, 0, 0], [0, 3, 0]]
    assert total.replace(held={"a": 1}).held.tolist() == [1, 4]
    assert two_kinds().held is two_kinds().held_tasks is two_kinds().held_units is None


def test_tasks_held_are_compared_saved_and_read_by_no_policy(tmp_path):
    for tasks in ([[1, 2, 0], [0, 3, 1]], [3, 4], [[0, 0, 0], [0, 0, 0]], [0, 0]):
        held = two_kinds(held=tasks)
        assert held != two_kinds()
        assert Instance.from_dict(held.to_dict()) == held == pickle.loads(pickle.dumps(held))
        for name in ("one.json", "tables"):
            fo.datasets.write(held, tmp_path / name)
            assert fo.read(tmp_path / name) == held
        assert Instance.from_frames(*held.to_frames()) == held
        assert fo.DRF().allocate(held).tasks.tolist() == fo.DRF().allocate(two_kinds()).tasks.tolist()


def test_tables_hold_tasks_where_no_further_ones_may_run(tmp_path):
    demands = [[[1, 2], [1, 2], [0, 0]], [[2, 1], [1, 1], [1, 1]]]
    held = two_kinds(held=[[0, 0, 2], [1, 0, 0]]).replace(demands=demands, eligible=[[1, 1, 0], [1, 1, 1]])
    fo.datasets.write(held, tmp_path)
    assert fo.read(tmp_path) == held


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1, 2], [1, 2]], r"held have shape \(2, 2\); give \(n_users, n_servers\) = \(2, 3\)"),
        ([1, 2, 3], r"held has shape \(3,\)"),
        ([1, -2], "held of user 'b' is -2"),
        ([[0, 0, 0], [0, float("nan"), 0]], "held of user 'b' on server 'n2' is nan"),
        ({"c": 1}, "no user 'c'"),
        ({"a": {"n7": 1}}, "no server 'n7'"),
        ({"a": {"n1": "two"}}, "held of user 'a' on server 'n1' cannot be read as numbers"),
        ({"a": {"n1": [1, 2]}}, r"held of user 'a' on server 'n1' is \[1, 2\]; give one number"),
        ({"a": 1, "b": [1, 0, 0]}, "held of user 'a' is 1, but others are given by server"),
    ],
)
def test_wrong_tasks_held_are_refused(given, message):
    with pytest.raises(InvalidInstance, match=message):
        two_kinds(held=given)


def test_tasks_held_by_server_are_added_for_one_user_where_none_were_known():
    assert two_kinds().replace(held={"a": {"n1": 2}}).held.tolist() == [[2, 0, 0], [0, 0, 0]]
    assert two_kinds().replace(held={"b": 3}).held.tolist() == [0, 3]
    assert two_kinds().replace(rates={"a": 0.5}).rates.tolist() == [[0.5, 0.5, 0.5], [1, 1, 1]]
    with pytest.raises(
        InvalidInstance, match="held of user 'b' is known in all only, but that of 'a' is given by server"
    ):
        two_kinds(held=[1, 2]).replace(held={"a": {"n1": 2}})


def test_tasks_held_in_all_have_no_units_if_demands_differ_by_server():
    with pytest.raises(InvalidInstance, match="demands differ by server; give one per server"):
        Instance([[[1], [2]]], [[4], [4]], held=[3])


def test_merged_rows_have_different_names_whatever_their_servers_are_called():
    odd = Instance([[1]], [[4], [4], [5]], servers=["a-1", "a-2", "a-[1-2]"])
    assert odd.merged().servers == ("a-1", "a-[1-2]")
    assert odd.merged().replace(weights=2).servers == ("a-1", "a-[1-2]")


def test_a_server_of_a_merged_row_is_found_but_is_no_place_to_run():
    merged = two_kinds().merged()
    assert merged.server_index("n2") == merged.server_index("n[1-2]") == 0
    with pytest.raises(InvalidInstance, match="no server 'n3'"):
        merged.server_index("n3")
    with pytest.raises(InvalidInstance, match=r"'n2' is one of the identical servers of the row 'n\[1-2\]'"):
        merged.with_eligible({"a": ["n2"]})


# -- individual servers ---------------------------------------------------------------------------------------


def test_servers_that_were_merged_have_their_own_names_types_and_tasks_again():
    cluster = Instance(
        [[1], [1]],
        [[4], [9], [4], [4]],
        servers=["a100-03", "big", "a100-01", "odd"],
        server_types=["x", "y", "z", "x"],
        held=[[1, 0, 2, 0], [0, 5, 0, 1]],
        counts=[1, 1, 1, 2],
    )
    merged = cluster.merged()
    assert merged.servers == ("a100-[01,03],odd", "big")
    each = merged.individual()
    assert each.servers == ("a100-03", "a100-01", "odd #1", "odd #2", "big")
    assert each.server_types == ("x", "z", "x", "x", "y")
    assert each.held.tolist() == [[1, 2, 0, 0, 0], [0, 0, 0.5, 0.5, 5]]
    assert each.capacities.ravel().tolist() == [4, 4, 4, 4, 9]
    assert pickle.loads(pickle.dumps(merged)).individual() == each


@pytest.mark.parametrize(
    ("servers", "names"),
    [
        (["n[08-09]", "m"], ["n08", "n09", "m"]),
        (["n[1-3]", "m"], ["n[1-3] #1", "n[1-3] #2", "m"]),  # three names for two servers
        (["n[1-2]", "n2"], ["n[1-2] #1", "n[1-2] #2", "n2"]),  # n2 would be twice
        (["n1", "m"], ["n1 #1", "n1 #2", "m"]),
    ],
)
def test_a_row_that_lists_its_servers_gives_them_these_names(servers, names):
    assert list(Instance([[1]], [[4], [9]], counts=[2, 1], servers=servers).individual().servers) == names


def test_merged_servers_in_a_file_have_their_names_in_placements_of_whole_tasks(tmp_path):
    cluster = Instance([[2], [3]], [[4], [4], [9]], servers=["gpu-1", "gpu-2", "big"], task_limits=[2, 3]).merged()
    fo.datasets.write(cluster, tmp_path / "c.json")
    frame = fo.MostTasks().allocate(fo.read(tmp_path / "c.json"), integral=True).to_frame("placement")
    assert {server for _, server in frame.index} <= {"gpu-1", "gpu-2", "big"}
    assert {"gpu-1", "gpu-2"} & {server for _, server in frame.index}


def test_a_demand_of_minus_zero_is_none():
    """A capacity over it is minus infinity."""
    signed, plain = (
        fo.Instance([[[1, zero], [1, zero]], [[1, 1], [1, 1]]], [[4, zero], [4, 4]]) for zero in (-0.0, 0.0)
    )
    np.testing.assert_array_equal(fo.DRF().allocate(signed).tasks, fo.DRF().allocate(plain).tasks)
    np.testing.assert_allclose(fo.DRF().allocate(signed).tasks, [16 / 3, 8 / 3])
