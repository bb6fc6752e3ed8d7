"""`Instance.from_frames` and `to_frames`: what data frames may hold, and what is refused where."""

import datetime
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fairopt.errors import InvalidInstance, MissingExtra
from fairopt.instance import Instance

nw = pytest.importorskip("narwhals", reason="narwhals is in the extra frames")
pd = pytest.importorskip("pandas", reason="pandas is in the extra parquet")
pl = pytest.importorskip("polars", reason="Polars is only for tests")
pa = pytest.importorskip("pyarrow", reason="pyarrow is in the extra parquet")

MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
USERS = {"user": ["web", "batch"], "cpu": [1.0, 4.0], "memory": [2, 1]}
SERVERS = {"server": ["s1", "s2"], "cpu": [10, 30], "memory": [20.0, 10.0]}
EXPECTED = Instance(
    [[1, 2], [4, 1]], [[10, 20], [30, 10]], users=["web", "batch"], resources=["cpu", "memory"], servers=["s1", "s2"]
)


@pytest.fixture(params=MAKERS)
def frame(request):
    return MAKERS[request.param]


def test_two_frames_make_an_instance(frame):
    assert Instance.from_frames(frame(USERS), frame(SERVERS)) == EXPECTED


def test_frames_of_two_libraries_go_together():
    assert Instance.from_frames(pl.DataFrame(USERS), pd.DataFrame(SERVERS)) == EXPECTED


def test_a_lazy_frame_is_collected():
    assert Instance.from_frames(pl.DataFrame(USERS).lazy(), pl.DataFrame(SERVERS).lazy()) == EXPECTED


def test_all_optional_columns_are_read_and_null_is_their_default(frame):
    users = frame({**USERS, "weight": [2, None], "task_limit": [None, 3.5], "servers": ["s2", None]})
    servers = frame({**SERVERS, "count": [3, None], "type": ["T4", "no GPU"]})
    cluster = Instance.from_frames(users, servers)
    assert_array_equal(cluster.weights, [2, 1])
    assert_array_equal(cluster.task_limits, [np.inf, 3.5])
    assert_array_equal(cluster.counts, [3, 1])
    assert cluster.eligible.tolist() == [[False, True], [True, True]]
    assert cluster.server_types == ("T4", "no GPU")


def test_a_column_of_nothing_but_null_is_all_default(frame):
    nothing = {name: [None, None] for name in ("weight", "task_limit", "servers")}
    assert Instance.from_frames(frame({**USERS, **nothing}), frame({**SERVERS, "count": [None, None]})) == EXPECTED


def test_nan_is_the_default_too_and_infinity_is_no_limit(frame):
    users = frame({**USERS, "weight": [np.nan, 2.0], "task_limit": [np.inf, np.nan]})
    cluster = Instance.from_frames(users, frame(SERVERS))
    assert_array_equal(cluster.weights, [1, 2])
    assert not np.isfinite(cluster.task_limits).any()


@pytest.mark.parametrize("cells", [["s2", "s1|s2"], ["s2", "s1 | s2"], [["s2"], ["s1", "s2"]], [["s2"], None]])
def test_servers_are_lists_or_joined_by_bars(frame, cells):
    cluster = Instance.from_frames(frame({**USERS, "servers": cells}), frame(SERVERS))
    assert cluster.eligible.tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "Int8", "float32", "uint16", "int64[pyarrow]", "Float32"])
def test_nullable_and_small_types_of_pandas_are_numbers(dtype):
    users = pd.DataFrame(USERS).astype({"cpu": dtype})
    assert Instance.from_frames(users, pd.DataFrame(SERVERS)) == EXPECTED


def test_decimals_are_rounded_once(frame):
    users = frame({**USERS, "cpu": [Decimal("0.1"), Decimal("4.35")]})
    assert Instance.from_frames(users, frame(SERVERS)).demands[:, 0].tolist() == [0.1, 4.35]


def test_whole_numbers_are_names_and_text_may_be_categorical():
    users = pd.DataFrame({**USERS, "user": [7, 12]})
    servers = pd.DataFrame({**SERVERS, "type": pd.Categorical(["T4", "A100"])})
    cluster = Instance.from_frames(users, servers)
    assert cluster.users == ("7", "12")
    assert cluster.server_types == ("T4", "A100")


def test_an_index_of_pandas_called_user_holds_the_names():
    users, servers = pd.DataFrame(USERS).set_index("user"), pd.DataFrame(SERVERS).set_index("server")
    assert Instance.from_frames(users, servers) == EXPECTED


@pytest.mark.parametrize(
    ("of_users", "of_servers"),
    [
        (["user", "weight"], ["server", "count"]),
        (["task_limit"], ["type", "server"]),
        (["memory", "user"], ["cpu"]),
        (["weight", "task_limit", "user", "cpu"], ["count", "server", "cpu"]),
    ],
)
def test_every_level_of_an_index_that_has_a_name_is_a_column(of_users, of_servers):
    full = EXPECTED.replace(weights=[2, 3], task_limits=[4, 5], counts=[6, 7], server_types=["x", "y"])
    users, servers = full.to_frames()
    assert Instance.from_frames(users.set_index(of_users), servers.set_index(of_servers)) == full


def test_an_index_without_a_name_or_with_the_name_of_a_column_says_nothing():
    users, servers = EXPECTED.to_frames()
    assert Instance.from_frames(users.set_index("user", drop=False), servers.set_axis(["a", "b"])) == EXPECTED


def test_levels_of_one_name_are_refused():
    users, servers = EXPECTED.to_frames()
    twice = users.set_index(["user", "cpu"])
    twice.index.names = ["user", "user"]
    with pytest.raises(InvalidInstance, match="users: levels of the index have one name"):
        Instance.from_frames(twice, servers)


def test_a_lazy_frame_that_cannot_be_collected_is_an_error_of_ours():
    lazy = pl.LazyFrame(USERS).with_columns(pl.col("nothing") + 1)
    with pytest.raises(InvalidInstance, match=r"users: the lazy frame cannot be collected .*nothing.*; fix its plan"):
        Instance.from_frames(lazy, pd.DataFrame(SERVERS))


def test_an_index_over_user_and_server_holds_both_names_of_demands():
    instance = Instance([[[1, 2], [3, 4]]], [[9, 9], [9, 9]])
    users, servers, demands = instance.to_frames()
    assert Instance.from_frames(users, servers, demands.set_index(["user", "server"])) == instance


def test_blanks_at_the_ends_of_names_and_bars_in_them_are_kept(frame):
    instance = Instance([[1], [2]], [[5], [6]], users=[" a", "b "], servers=["s|t", " u"], eligible=[[1, 0], [1, 1]])
    backend = {pd.DataFrame: "pandas", pl.DataFrame: "polars"}.get(frame, "pyarrow")
    assert Instance.from_frames(*instance.to_frames(backend)) == instance


@pytest.mark.parametrize("backend", MAKERS)
def test_single_precision_stays_single(backend):
    instance = Instance(np.array([[0.1, 0.7]], dtype=np.float32), np.array([0.3, 3.3], dtype=np.float32))
    again = Instance.from_frames(*instance.to_frames(backend))
    assert again == instance
    assert again.demands.dtype == again.capacities.dtype == np.float32


@pytest.mark.parametrize("backend", MAKERS)
def test_an_instance_without_users_is_kept(backend):
    empty = Instance(np.zeros((0, 2)), [3, 4])
    assert Instance.from_frames(*empty.to_frames(backend)) == empty


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_frames_are_of_the_library_asked_for(backend, kind):
    made = EXPECTED.to_frames(backend)
    assert [type(f) for f in made] == [kind, kind]


def test_changing_a_frame_changes_no_instance():
    users, servers = pd.DataFrame(USERS), pd.DataFrame(SERVERS)
    cluster = Instance.from_frames(users, servers)
    made = cluster.to_frames()[0]
    users.loc[0, "cpu"] = made.loc[0, "cpu"] = 99.0
    assert cluster == EXPECTED


BAD = {
    "text for a number": ({"cpu": ["1", "4"]}, {}, ["users, row 0, column 'cpu': '1' is text", "convert the column"]),
    "negative": ({"cpu": [1.0, -4.0]}, {}, ["users, row 1, column 'cpu': the value is -4.0; give a finite"]),
    "null demand": ({"cpu": [1.0, None]}, {}, ["users, row 1, column 'cpu': the cell is empty"]),
    "nan capacity": ({}, {"cpu": [np.nan, 1.0]}, ["servers, row 0, column 'cpu': the cell is empty"]),
    "infinite": ({"cpu": [np.inf, 1.0]}, {}, ["users, row 0, column 'cpu': the value is inf"]),
    "truth": ({"cpu": [True, False]}, {}, ["users, row 0, column 'cpu': True (bool) is not a number"]),
    "date": ({"cpu": [datetime.date(2020, 1, 1)] * 2}, {}, ["users, row 0, column 'cpu'", "is not a number"]),
    "struct": ({"cpu": [{"a": 1}, {"a": 2}]}, {}, ["users, row 0, column 'cpu': {'a': 1} (dict) is not a number"]),
    "list": ({"cpu": [[1.0], [2.0]]}, {}, ["users, row 0, column 'cpu'", "is not a number"]),
    "zero weight": ({"weight": [1, 0]}, {}, ["users, row 1, column 'weight': the value is 0; give a number > 0"]),
    "fraction of a server": ({}, {"count": [1.5, 1]}, ["servers, row 0, column 'count'", "1.5", "whole number >= 1"]),
    "name twice": ({"user": ["web", "web"]}, {}, ["users, row 1, column 'user': 'web' is given on row 0 too"]),
    "empty name": ({"user": ["web", ""]}, {}, ["users, row 1, column 'user': the name is empty"]),
    "null name": ({}, {"server": ["s1", None]}, ["servers, row 1, column 'server': the name is empty"]),
    "number for a name": ({"user": [1.5, 2.5]}, {}, ["users, row 0, column 'user': 1.5 (float) is not a name"]),
    "unknown server": ({"servers": ["s1", "s3"]}, {}, ["users, row 1, column 'servers': servers has no server 's3'"]),
    "empty list": ({"servers": [["s1"], []]}, {}, ["users, row 1, column 'servers'", "is not a list of names"]),
    "numbers for servers": ({"servers": [1, 2]}, {}, ["users, row 0, column 'servers': 1 (int) is not a list of"]),
    "nothing": ({"cpu": [0, 1], "memory": [0, 1]}, {}, ["users, row 0, column 'user': 'web' demands nothing at all"]),
    "other resource": ({"gpu": [1, 1]}, {}, ["users: the column 'gpu' is not a resource of servers"]),
    "other unit": ({}, {"gpu [MiB]": [1, 1]}, ["users: there is no column 'gpu [MiB]', which servers has"]),
    "empty column name": ({"": [1, 1]}, {}, ["users: column 4 has no name"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_frames_are_refused_with_frame_row_column_value_and_fix(frame, case):
    users, servers, parts = BAD[case]
    with pytest.raises(InvalidInstance) as caught:
        Instance.from_frames(frame({**USERS, **users}), frame({**SERVERS, **servers}))
    assert not [part for part in parts if part not in str(caught.value)], caught.value


def test_a_whole_number_too_large_for_a_float_is_refused():
    with pytest.raises(InvalidInstance, match=r"users, row 0, column 'cpu': '?1000.* is not a number"):
        Instance.from_frames(pd.DataFrame({**USERS, "cpu": [10**400, 1]}, dtype=object), pd.DataFrame(SERVERS))


def test_a_signalling_nan_is_refused_with_its_column():
    users = pd.DataFrame({**USERS, "cpu": [Decimal("sNaN"), 1]}, dtype=object)
    with pytest.raises(InvalidInstance, match="users, column 'cpu': a signalling NaN cannot be compared; leave"):
        Instance.from_frames(users, pd.DataFrame(SERVERS))


@pytest.mark.parametrize("given", [None, [1], USERS, "users.csv", np.ones((2, 2)), pl.Series([1])])
def test_other_values_are_refused_as_frames(given):
    with pytest.raises(InvalidInstance, match=r"users is of type .*; give a data frame of pandas, Polars or pyarrow"):
        Instance.from_frames(given, pd.DataFrame(SERVERS))


def test_columns_twice_or_not_called_by_text_are_refused():
    servers = pd.DataFrame(SERVERS)
    twice = pd.DataFrame([["web", 1, 2, 3]], columns=["user", "cpu", "memory", "cpu"])
    with pytest.raises(InvalidInstance, match=r"users: .*'cpu' 2 times"):
        Instance.from_frames(twice, servers)
    with pytest.raises(InvalidInstance, match="users: the column 7 has a name that is not text"):
        Instance.from_frames(pd.DataFrame({**USERS, 7: [1, 2]}), servers)
    with pytest.raises(InvalidInstance, match="users: there is no column 'user'; did you mean 'users'"):
        Instance.from_frames(pd.DataFrame({"users": ["a"], "cpu": [1], "memory": [1]}), servers)


def test_an_unknown_library_and_names_that_a_table_cannot_hold_are_refused():
    with pytest.raises(InvalidInstance, match="backend is 'numpy'; give one of 'pandas', 'polars', 'pyarrow'"):
        EXPECTED.to_frames("numpy")
    with pytest.raises(InvalidInstance, match="resource 'weight' is the name of a column with another meaning"):
        Instance([[1]], [1], resources=["weight"]).to_frames()
    with pytest.raises(InvalidInstance, match="user '' is empty"):
        Instance([[1]], [1], users=[""]).to_frames()


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"to_frames\('polars'\) needs polars"):
        EXPECTED.to_frames("polars")
    with monkeypatch.context() as without:
        without.setitem(__import__("sys").modules, "pandas", None)
        with pytest.raises(MissingExtra, match=r"needs pandas.*pip install 'fairopt\[parquet\]'"):
            EXPECTED.to_frames()
    monkeypatch.setitem(__import__("sys").modules, "narwhals", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairopt\[frames\]'"):
        Instance.from_frames(pd.DataFrame(USERS), pd.DataFrame(SERVERS))
