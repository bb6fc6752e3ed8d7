"""Folders of Parquet files: what they may hold, and files that are not what they say."""

import datetime
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairopt.datasets import demo, read, write
from fairopt.errors import InvalidInstance, MissingExtra
from fairopt.instance import Instance

pa = pytest.importorskip("pyarrow", reason="pyarrow is in the extra parquet")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is in the extra parquet")

USERS = {"user": ["web", "batch"], "cpu": [1.0, 4.0], "memory": [2, 1]}
SERVERS = {"server": ["s1", "s2"], "cpu": [10, 30], "memory": [20.0, 10.0]}
EXPECTED = Instance(
    [[1, 2], [4, 1]], [[10, 20], [30, 10]], users=["web", "batch"], resources=["cpu", "memory"], servers=["s1", "s2"]
)


@pytest.fixture
def folder(tmp_path):
    """Write the two tables, each a dict, a pyarrow table or bytes, and give the folder."""

    def make(users=USERS, servers=SERVERS, **options):
        for name, content in (("users", users), ("servers", servers)):
            path = tmp_path / f"{name}.parquet"
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                pq.write_table(pa.table(content) if isinstance(content, dict) else content, path, **options)
        return tmp_path

    return make


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd"},
        {"compression": "none", "use_dictionary": False},
        {"data_page_version": "2.0"},
        {"row_group_size": 1},
        {"version": "1.0"},
        {"write_statistics": False},
    ],
)
def test_ways_to_write_the_same_files(folder, options):
    assert read(folder(**options)) == EXPECTED


def test_texts_may_be_large_or_from_a_dictionary_and_numbers_decimal(folder):
    users = pa.table(
        {
            "user": pa.array(["web", "batch"]).dictionary_encode(),
            "cpu": pa.array([1, 4], pa.decimal128(9, 3)),
            "memory": pa.array([2, 1], pa.uint8()),
            "servers": pa.array([None, "s1|s2"], pa.large_string()),
        }
    )
    assert read(folder(users)) == EXPECTED


def test_single_precision_stays_single(tmp_path):
    instance = Instance(np.array([[0.1, 0.7]], dtype=np.float32), np.array([0.3, 3.3], dtype=np.float32))
    write(instance, tmp_path, "parquet")
    again = read(tmp_path)
    assert again == instance
    assert again.demands.dtype == np.float32


def test_names_that_a_csv_file_cannot_hold_are_kept(tmp_path):
    instance = Instance([[1], [2]], [[5], [6]], users=[" a", "b\n"], resources=["\t"], server_types=[" x", "y"])
    write(instance, tmp_path, "parquet")
    assert read(tmp_path) == instance


def test_a_servers_name_with_a_bar_is_refused_where_users_are_bound_to_it(tmp_path):
    instance = Instance([[1], [2]], [[5], [6]], servers=["s|t", "u"], eligible=[[1, 0], [1, 1]])
    with pytest.raises(InvalidInstance, match=r"server 's\|t' holds '\|'.*write to a \.json file"):
        write(instance, tmp_path / "x", "parquet")
    assert not (tmp_path / "x").exists()


NESTED = {
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "list": pa.array([[1.0], [2.0]]),
    "map": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("kind", NESTED)
def test_a_nested_column_is_refused_with_file_row_and_column(folder, kind):
    with pytest.raises(InvalidInstance, match=r"users.parquet, row 0, column 'cpu': .* is not a number; give a finite"):
        read(folder({**USERS, "cpu": NESTED[kind]}))


@pytest.mark.parametrize("cells", [[True, False], [b"1", b"2"], [datetime.date(2020, 1, 1)] * 2])
def test_a_column_of_another_type_is_refused(folder, cells):
    with pytest.raises(InvalidInstance, match=r"servers\.parquet, row 0, column 'cpu': .* is not a number; give"):
        read(folder(servers={**SERVERS, "cpu": cells}))


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({"cpu": ["1", "4"]}, "users.parquet, row 0, column 'cpu': '1' is text"),
        ({"cpu": [1, None]}, "users.parquet, row 1, column 'cpu': the cell is empty"),
        ({"user": ["web", "web"]}, "users.parquet, row 1, column 'user': 'web' is given on row 0 too"),
        ({"servers": ["s1", "s3"]}, r"users.parquet, row 1, column 'servers': .*servers.parquet has no server 's3'"),
        ({"gpu": [1, 1]}, "users.parquet: the column 'gpu' is not a resource of"),
    ],
)
def test_a_bad_cell_is_named_by_file_row_and_column(folder, users, message):
    with pytest.raises(InvalidInstance, match=message):
        read(folder({**USERS, **users}))


def bytes_of(content, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(content), sink, **options)
    return sink.getvalue().to_pybytes()


GOOD = bytes_of(USERS)
DAMAGED = {
    "empty": b"",
    "CSV": b"user,cpu,memory\nweb,1,2\n",
    "cut off": GOOD[:-20],
    "magic only": b"PAR1",
    "encrypted": b"PARE" + GOOD[4:-4] + b"PARE",
    "endless footer": GOOD[:-8] + b"\xff\xff\xff\x7f" + b"PAR1",
    "no footer": b"PAR1" + b"\0" * 100 + b"\x10\0\0\0PAR1",
    "another page": GOOD[:60] + bytes([GOOD[60] ^ 255]) + GOOD[61:],
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_file_that_is_not_what_it_says_is_refused(folder, case):
    with pytest.raises(InvalidInstance, match=r"users.parquet cannot be read as Parquet .* columns user"):
        read(folder(DAMAGED[case]))


def test_a_changed_number_is_found_by_the_checksum_of_its_page(tmp_path):
    write(Instance([[1234.5]], [9e9]), tmp_path, "parquet")
    content = bytearray((tmp_path / "servers.parquet").read_bytes())
    at = content.find(np.float64(9e9).tobytes())
    content[at] ^= 1
    (tmp_path / "servers.parquet").write_bytes(content)
    with pytest.raises(InvalidInstance, match=r"servers\.parquet cannot be read as Parquet"):
        read(tmp_path)


def test_a_table_that_is_a_folder_cannot_be_read(tmp_path):
    for name in ("users", "servers"):
        (tmp_path / f"{name}.parquet").mkdir()
    with pytest.raises(InvalidInstance, match=r"servers\.parquet cannot be read"):
        read(tmp_path)


def test_without_pyarrow_the_pip_line_is_told(folder, monkeypatch):
    place = folder()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairopt\[parquet\]'"):
        read(place)
    with pytest.raises(MissingExtra, match=r"pip install 'fairopt\[parquet\]'"):
        write(demo(), place, "parquet")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, len(GOOD) - 1), new=st.binary(max_size=5), drop=st.integers(0, 20))
def test_no_change_of_a_file_raises_anything_but_invalid_instance(folder, at, new, drop):
    try:
        assert isinstance(read(folder(GOOD[:at] + new + GOOD[at + drop :])), Instance)
    except InvalidInstance as error:
        assert "users.parquet" in str(error)


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.large_string())])
@pytest.mark.parametrize("size", [1, 100])
def test_servers_may_be_lists_of_names_as_frames_have_them(folder, kind, size):
    users = pa.table({**USERS, "servers": pa.array([["s2"], None], kind)})
    assert read(folder(users, row_group_size=size)) == EXPECTED.replace(eligible=[[0, 1], [1, 1]])


def test_what_pandas_writes_of_frames_is_read(tmp_path):
    pytest.importorskip("pandas", reason="pandas is in the extra parquet")
    for name, frame in zip(("users", "servers"), demo().to_frames(), strict=True):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    assert read(tmp_path) == demo()


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([[1], None]), "row 0, column 'servers': .* is not a list of names"),
        (pa.array([["s1", None], None]), "row 0, column 'servers': .* is not a list of names"),
        (pa.array([[["s1"]], None]), "row 0, column 'servers': .* is not a list of names"),
        (pa.array([["s3"], None]), "servers.parquet has no server 's3'"),
    ],
)
def test_other_lists_are_refused(folder, column, words):
    with pytest.raises(InvalidInstance, match=words):
        read(folder(pa.table({**USERS, "servers": column})))


def test_lists_of_other_columns_are_refused(folder):
    with pytest.raises(InvalidInstance, match=r"row 0, column 'user': .* is not a name"):
        read(folder(pa.table({**USERS, "user": pa.array([["a"], ["b"]])})))


def test_without_narwhals_the_extra_of_parquet_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(MissingExtra, match=r"reading Parquet files needs narwhals.*pip install 'fairopt\[parquet\]'"):
        read(folder())
