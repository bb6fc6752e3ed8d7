"""Data frames and series are joined by label: with each other, with labels given, and with those of an instance."""

import forked
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import fairopt as fo

pd = pytest.importorskip("pandas", reason="pandas is in the extra parquet")

DEMANDS = pd.DataFrame({"cpu": [2.0, 2.0], "memory": [3.0, 1.0]}, index=["batch", "web"])
SERVERS = pd.DataFrame({"cpu": [6.0, 8.0], "memory": [4.0, 9.0]}, index=["s", "t"])
POOL = SERVERS.loc["s"]
CLUSTER = fo.Instance(
    [[2, 3], [2, 1]],
    [[6, 4], [8, 9]],
    weights=[1, 5],
    task_limits=[7, 2],
    eligible=[[1, 0], [1, 1]],
    counts=[3, 1],
    users=["batch", "web"],
    resources=["cpu", "memory"],
    servers=["s", "t"],
    server_types=["A", "B"],
    units=["cores", "GiB"],
)


def frames():
    """The arguments of the cluster, each with its labels."""
    users, servers = list(CLUSTER.users), list(CLUSTER.servers)
    return {
        "demands": DEMANDS,
        "capacities": SERVERS,
        "weights": pd.Series([1, 5], users),
        "task_limits": pd.Series([7, 2], users),
        "eligible": pd.DataFrame(CLUSTER.eligible, users, servers),
        "counts": pd.Series([3, 1], servers),
        "server_types": pd.Series(["A", "B"], servers),
        "units": pd.Series(["cores", "GiB"], CLUSTER.resources),
    }


def turned(frame):
    """With everything in the opposite order."""
    return frame.iloc[::-1, ::-1] if frame.ndim == 2 else frame.iloc[::-1]


# -- joined by label ------------------------------------------------------------------------------------------------


def test_a_series_of_capacities_goes_to_the_columns_of_demands_by_label():
    instance = fo.Instance(DEMANDS, POOL[["memory", "cpu"]])
    assert instance == fo.Instance([[2, 3], [2, 1]], [6, 4], users=["batch", "web"], resources=["cpu", "memory"])
    assert_array_equal(fo.DRF().allocate(instance).tasks, fo.DRF().allocate(fo.Instance(DEMANDS, POOL)).tasks)


@given(st.sets(st.sampled_from(sorted(frames()))))
def test_the_order_of_any_frame_or_series_makes_no_difference(names):
    given_ = {name: turned(frame) if name in names else frame for name, frame in frames().items()}
    labels = {"users": CLUSTER.users, "resources": CLUSTER.resources, "servers": CLUSTER.servers}
    assert fo.Instance(**given_, **labels) == CLUSTER


def test_labels_of_demands_and_then_of_capacities_are_those_of_the_instance():
    instance = fo.Instance(turned(DEMANDS), SERVERS)
    assert instance.users == ("web", "batch") and instance.resources == ("memory", "cpu")
    assert instance.servers == ("s", "t")
    assert_array_equal(instance.capacities, [[4, 6], [9, 8]])


def test_labels_given_say_the_order_also_of_arrays():
    instance = fo.Instance(DEMANDS, [6, 4], weights=[5, 1], users=["web", "batch"])
    assert instance == fo.Instance(
        [[2, 1], [2, 3]], [6, 4], weights=[5, 1], users=["web", "batch"], resources=["cpu", "memory"]
    )


def test_capacities_may_be_a_dict_by_resource():
    assert fo.Instance(DEMANDS, {"memory": 4, "cpu": 6}) == fo.Instance(DEMANDS, POOL)
    assert fo.Instance(DEMANDS, {"memory": [4, 9], "cpu": [6, 8]}, servers=["s", "t"]) == fo.Instance(DEMANDS, SERVERS)
    assert fo.Instance([[3, 2]], {"memory": 4, "cpu": 6}).resources == ("memory", "cpu")


def test_an_index_that_counts_rows_is_no_label():
    instance = fo.Instance(DEMANDS.reset_index(drop=True), POOL.to_numpy(), weights=pd.Series([1, 5]))
    assert instance.users == ("user1", "user2") and instance.resources == ("cpu", "memory")
    assert_array_equal(instance.weights, [1, 5])
    both = fo.Instance(pd.DataFrame(DEMANDS.to_numpy()), pd.Series([6, 4]), users=["batch", "web"])
    assert both.resources == ("resource1", "resource2")


def test_an_index_that_counts_rows_is_a_label_for_the_same_rows_in_another_order():
    table = DEMANDS.reset_index(drop=True)
    instance = fo.Instance(table.iloc[::-1], POOL, weights=pd.Series([1, 5]))
    assert instance.users == ("1", "0")
    assert_array_equal(instance.weights, [5, 1])


def test_a_series_by_default_labels_is_joined_with_them():
    instance = fo.Instance([[2, 3], [2, 1]], [6, 4], weights=pd.Series({"user2": 5, "user1": 1}))
    assert instance.users == ("user1", "user2")
    assert_array_equal(instance.weights, [1, 5])
    assert fo.Instance([[1]], [1], counts=pd.Series({"pool": 3})).counts == [3]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_columns_of_polars_and_pyarrow_are_labels(library):
    made = pytest.importorskip(library)
    make = made.DataFrame if library == "polars" else made.table
    demands, capacities = make({"cpu": [2.0, 2.0], "memory": [3.0, 1.0]}), make({"memory": [4.0, 9.0], "cpu": [6.0, 8]})
    assert fo.Instance(demands, capacities) == fo.Instance(
        [[2, 3], [2, 1]], [[6, 4], [8, 9]], resources=["cpu", "memory"]
    )


def test_single_precision_stays_so_and_frames_of_floats_are_not_copied():
    frame = DEMANDS.astype(np.float32)
    assert fo.Instance(frame, POOL).demands.dtype == np.float32
    array = np.ones((2, 2))
    kept = fo.Instance(pd.DataFrame(array, columns=["cpu", "memory"], copy=False), POOL)
    assert np.shares_memory(kept.demands, array)


# -- in new instances -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(frames()))
def test_an_instance_is_changed_by_label(name):
    frame = frames()[name]
    assert CLUSTER.replace(**{name: turned(frame)}) == CLUSTER
    twice = frame * 2 if name in ("demands", "capacities", "weights", "task_limits", "counts") else frame
    assert CLUSTER.replace(**{name: turned(twice)}) == CLUSTER.replace(**{name: twice.to_numpy()})
    if hasattr(CLUSTER, f"with_{name}"):
        assert getattr(CLUSTER, f"with_{name}")(turned(twice)) == CLUSTER.replace(**{name: twice.to_numpy()})


def test_an_instance_without_labels_takes_those_of_new_demands():
    instance = fo.Instance([[1, 1], [1, 1]], [6, 4]).with_demands(DEMANDS)
    assert instance == fo.Instance(DEMANDS, [6, 4])


def test_a_prepared_policy_takes_series_by_label():
    prepared = fo.NashWelfare().prepare(fo.Instance(DEMANDS, POOL))
    a = prepared.allocate(weights=turned(frames()["weights"]), capacities=turned(POOL * 2))
    assert_array_equal(a.instance.weights, [1, 5])
    assert_array_equal(a.instance.capacities, [[12, 8]])


def test_a_block_takes_a_series_as_a_dict_by_user():
    series = pd.Series({"web": 2.0})
    assert fo.MinTasks(series) == fo.MinTasks({"web": 2})
    assert fo.MinShare(pd.Series([0.1, 0.2])) == fo.MinShare([0.1, 0.2])
    assert_array_equal(CLUSTER.per_user(series, "x", default=0.0), [0, 2])
    assert_array_equal(CLUSTER.per_user(turned(frames()["weights"]), "x"), [1, 5])


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, words",
    [
        (
            {"capacities": pd.Series({"mem": 4, "cpu": 6})},
            r"capacities and demands do not name the same resources: 'mem' only in capacities and 'memory' only in d",
        ),
        ({"capacities": {"cpu": 6}}, r"capacities and demands.* resources: 'memory' only in demands; give the same"),
        ({"capacities": {"cpu": 6, "memory": 4, "gpu": 1}}, r"resources: 'gpu' only in capacities; give the same"),
        ({"resources": ["cpu", "gpu"]}, r"demands and resources.*'memory' only in demands and 'gpu' only in resources"),
        ({"users": ["batch", "Web"]}, r"demands and users.*: 'web' only in demands and 'Web' only in users"),
        (
            {"weights": pd.Series({"web": 2})},
            r"weights and demands.* users: 'batch' only in demands; .* a dict for some of them only, or \.to_numpy\(\)",
        ),
        ({"task_limits": pd.Series([1, 2, 3], ["web", "batch", "x"])}, r"task_limits.*: 'x' only in task_limits"),
        (
            {"capacities": SERVERS, "counts": pd.Series({"s": 1, "u": 2})},
            r"counts and capacities.* servers: 'u' only in counts and 't' only in capacities",
        ),
        (
            {"capacities": SERVERS, "eligible": pd.DataFrame(1, ["batch", "web"], ["s", "v"])},
            r"eligible and capacities.* servers: 'v' only in eligible and 't' only in capacities",
        ),
        ({"units": pd.Series({"cpu": "cores"})}, r"units and demands.* resources: 'memory' only in demands"),
        (
            {"demands": pd.DataFrame(1, list("abcdefgh"), ["cpu", "memory"]), "users": ["x"]},
            r"'a', 'b', 'c', 'd', 'e' and 3 more only in demands and 'x' only in users",
        ),
        ({"demands": pd.concat([DEMANDS, DEMANDS])}, r"demands has the user label 'batch' twice; labels must differ"),
        (
            {"demands": DEMANDS.set_index(pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))},
            r"demands has several levels of labels by user; give one level",
        ),
        (
            {"demands": DEMANDS.rename_axis("user").reset_index()},
            r"demands is a table with a column 'user'; give it to "
            r"Instance\.from_frames\(users, servers\), or, in pandas, \.set_index\('user'\)",
        ),
        ({"demands": [DEMANDS.loc["web"], DEMANDS.loc["batch"]]}, r"demands is a list of Series.*make one frame"),
        ({"capacities": {"cpu": [1, 2], "memory": 4}}, r"capacities cannot be read by resource .*equally long lists"),
        ({"capacities": {"cpu": SERVERS["cpu"], "memory": SERVERS["memory"]}}, r"capacities is a list of Series"),
    ],
)
def test_labels_that_differ_are_named_with_the_fix(change, words):
    with pytest.raises(fo.errors.InvalidInstance, match=words):
        fo.Instance(**{"demands": DEMANDS, "capacities": POOL, **change})


def test_labels_by_user_need_labels_to_be_joined_with():
    words = r"weights has labels by user \('web', 'batch'\), but the users have none.*users=\[\.\.\.\]"
    with pytest.raises(fo.errors.InvalidInstance, match=words):
        fo.Instance([[2, 3], [2, 1]], POOL, weights=pd.Series({"web": 5, "batch": 1}))


def test_an_instance_refuses_changes_with_other_labels():
    with pytest.raises(fo.errors.InvalidInstance, match=r"capacities and resources.*: 'disk' only in capacities"):
        CLUSTER.with_capacities(SERVERS.assign(disk=1))
    with pytest.raises(
        fo.errors.InvalidInstance, match=r"demands and users.*: 'new' only in demands and 'web' only in users"
    ):
        CLUSTER.with_demands(DEMANDS.rename({"web": "new"}))


@pytest.mark.parametrize(
    "change",
    [
        {"capacities": POOL},
        {"weights": pd.Series([1, 5], ["batch", "web"])},
        {"demands": [DEMANDS, DEMANDS]},
        {"task_limits": pd.DataFrame(1, [0, 1], ["batch", "web"])},
    ],
)
def test_many_instances_are_not_joined_by_label(change):
    given_ = {"demands": np.ones((2, 2, 2)), "capacities": [6, 4], **change}
    with pytest.raises(
        fo.errors.InvalidInstance, match=rf"{next(iter(change))} is a .*(position.*to_numpy|make one frame)"
    ):
        fo.allocate_many(fo.DRF(), **given_)


def test_many_instances_take_series_that_only_count():
    a = fo.allocate_many(fo.DRF(), np.ones((1, 2, 2)), pd.Series([6, 4]), weights=pd.Series([1.0, 3.0]))
    np.testing.assert_allclose(a.tasks, [[1, 3]])


def test_shards_are_not_joined_by_label():
    with pytest.raises(fo.errors.InvalidInstance, match="source is a DataFrame with labels"):
        fo.allocate_sharded(fo.DRF(), DEMANDS, capacities={"memory": 4, "cpu": 6})


def test_labels_are_looked_for_without_importing_a_library():
    code = (
        "import sys\nlibraries = {'pandas', 'polars', 'pyarrow', 'narwhals'}\n"
        "for name in [n for n in sys.modules if n.split('.')[0] in {'fairopt', *libraries}]: del sys.modules[name]\n"
        "import fairopt as fo\nfo.Instance([[1, 2]], {'cpu': 4, 'memory': 4}).with_weights({'user1': 2})\n"
        "print(sorted(libraries & set(sys.modules)))"
    )
    assert forked.run("-c", code).stdout == "[]\n"
