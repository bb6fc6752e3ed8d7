"""Reading shards: the same rows from every source, and errors that say where a source is wrong."""

from __future__ import annotations

import datetime
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt.solve.sharded import shards as module
from fairopt.solve.sharded.shards import named_capacities, shards_of

DEMANDS = np.array([[1.0, 2, 0], [3, 1, 1], [0, 0, 2], [4, 4, 4], [5, 0, 1]])
NAMES = ("cpu", "gpu", "memory")
CAPACITIES = dict(zip(NAMES, (10.0, 12.0, 14.0), strict=True))


def write_parquet(path: Path, demands: Any = DEMANDS, groups: int = 2, **more: Any) -> Path:
    """A table with a column per resource (and ``more``; None leaves a column out), with groups of ``groups`` rows."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {**dict(zip(NAMES, np.asarray(demands).T, strict=True)), **more}
    pq.write_table(pa.table({k: v for k, v in columns.items() if v is not None}), path, row_group_size=groups)
    return path


def rows(source: Any, names: tuple[str, ...] | None = NAMES) -> np.ndarray:
    """Demands of all users."""
    return np.concatenate([shard.read()["demands"] for shard in shards_of(source, names)])


def refused(source: Any, capacities: Any = CAPACITIES) -> str:
    """The message with which a source is refused."""
    with pytest.raises(fo.errors.InvalidInstance) as caught:
        fo.allocate_sharded(fo.DRF(), source, capacities=capacities)
    return str(caught.value)


@pytest.fixture
def five(tmp_path: Path) -> Path:
    path = tmp_path / "five.npy"
    np.save(path, DEMANDS)
    return path


def test_every_source_gives_the_same_rows(tmp_path: Path, five: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 2)
    da = pytest.importorskip("dask.array")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    np.save(tmp_path / "folder" / "a.npy", DEMANDS[:3])
    np.save(tmp_path / "folder" / "inner" / "b.npy", DEMANDS[3:])
    (tmp_path / "folder" / "read me.txt").write_text("not a shard")
    tables = tmp_path / "tables"
    tables.mkdir()
    write_parquet(tables / "1.parquet", DEMANDS[:3])
    write_parquet(tables / "2.parquet", DEMANDS[3:])
    (tables / "_SUCCESS").write_text("")
    (tables / "_temporary.parquet").write_text("half")
    sources = {
        "an array": DEMANDS,
        "a list": [DEMANDS[:1], DEMANDS[1:]],
        "plain lists": [DEMANDS[:4], np.array(DEMANDS[4:])],
        "a memory map": np.load(five, mmap_mode="r"),
        "part of one": [np.load(five, mmap_mode="r")[:2], DEMANDS[2:]],
        "a file": five,
        "a file by str": str(five),
        "a folder of .npy": tmp_path / "folder",
        "Parquet": write_parquet(tmp_path / "t.parquet"),
        "a folder of Parquet": tables,
        "a Dask array": da.from_array(DEMANDS, chunks=(2, 3)),
        "a mixture": [five, DEMANDS[:0]],
    }
    for name, source in sources.items():
        np.testing.assert_array_equal(rows(source), DEMANDS, err_msg=name)


def test_a_shard_is_an_array_of_the_list_even_if_it_is_empty() -> None:
    parts = [DEMANDS[:2], DEMANDS[:0], DEMANDS[2:]]
    assert [s.name for s in shards_of(parts, None)] == ["array 0", "array 1", "array 2"]
    a = fo.allocate_sharded(fo.DRF(), parts, capacities=[10, 12, 14])
    assert a.sizes == (2, 0, 3) and [len(a.tasks(k)) for k in range(3)] == [2, 0, 3]


def test_large_arrays_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 2)
    assert [s.name for s in shards_of(DEMANDS, None)] == ["rows 0 to 1", "rows 2 to 3", "rows 4 to 4"]
    assert [s.name for s in shards_of([DEMANDS[:2], DEMANDS[:3]], None)] == [
        "array 0",
        "array 1, rows 0 to 1",
        "array 1, rows 2 to 2",
    ]


def test_any_view_of_a_memory_map_is_an_array(five: Path, tmp_path: Path) -> None:
    whole = np.load(five, mmap_mode="r")
    np.save(tmp_path / "other.npy", 2 * DEMANDS)
    (tmp_path / "other.npy").replace(five)  # the map keeps the rows
    for view, right in ((whole, DEMANDS), (whole[::2], DEMANDS[::2]), (whole[:, ::-1], DEMANDS[:, ::-1])):
        np.testing.assert_array_equal(rows(view), right)


def test_fortran_order_and_other_numbers_are_read_right(tmp_path: Path) -> None:
    for k, array in enumerate([np.asfortranarray(DEMANDS), DEMANDS.astype(">f8"), DEMANDS.astype(np.int16)]):
        path = tmp_path / f"{k}.npy"
        np.save(path, array)
        np.testing.assert_array_equal(rows(path), DEMANDS)
        np.testing.assert_array_equal(rows(np.load(path, mmap_mode="r")), DEMANDS)
        a, b = (fo.allocate_sharded(fo.DRF(), s, capacities=[10, 12, 14]).tasks(0) for s in (path, DEMANDS))
        np.testing.assert_allclose(a, b, rtol=1e-15)  # numbers kept and read in each pass differ by a rounding


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_whose_bytes_come_in_pieces_is_read_to_the_end(
    order: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from networks: the system may give fewer bytes than asked for before the end."""

    class Pieces(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:  # type: ignore[override]
            return super().read(min(size, 100) if size is not None and size >= 0 else 100)

        def readinto(self, buffer: Any) -> int:
            return super().readinto(memoryview(buffer)[:100])

    def opened(path: Any, mode: str, buffering: int = -1) -> Any:
        return Pieces(path) if buffering == 0 else io.BufferedReader(Pieces(path))

    demands = np.random.default_rng(0).uniform(1, 2, (300, 3))
    np.save(tmp_path / "users.npy", np.asarray(demands, order=order))
    monkeypatch.setattr(module, "open", opened, raising=False)
    (shard,) = shards_of(tmp_path / "users.npy", NAMES)
    np.testing.assert_array_equal(shard.read()["demands"], demands)
    in_chunks: Any = shard.instance(np.ones(3), NAMES, whole=False)[0].demands
    np.testing.assert_array_equal(in_chunks[:300], demands)


def test_float32_stays_float32(tmp_path: Path) -> None:
    table = write_parquet(tmp_path / "t.parquet", DEMANDS.astype(np.float32), weight=np.ones(5, np.float32))
    [first, *_] = shards_of(table, NAMES)
    assert first.read()["demands"].dtype == np.float32
    assert first.read()["weights"].dtype == np.float64  # sums of many weights are wanted to more than 7 digits


def test_weights_and_limits_are_columns_with_blanks_for_none(tmp_path: Path) -> None:
    for limits in ([3, None, 0, None, 2], [3.0, None, 0.0, np.inf, 2.0]):
        table = write_parquet(tmp_path / "t.parquet", groups=5, task_limit=limits, weight=[2, 1, None, None, 1])
        read = shards_of(table, NAMES)[0].read()
        assert read["task_limits"].tolist() == [3, np.inf, 0, np.inf, 2]
        assert read["weights"].tolist() == [2, 1, 1, 1, 1]


def test_columns_are_taken_by_name(tmp_path: Path) -> None:
    table = write_parquet(tmp_path / "t.parquet", user=list("abcde"))
    np.testing.assert_array_equal(rows(table, ("memory", "cpu", "gpu")), DEMANDS[:, [2, 0, 1]])


def test_a_table_of_no_rows_is_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    write_parquet(folder / "a.parquet")
    write_parquet(folder / "b.parquet", np.zeros((0, 3)))
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    np.testing.assert_array_equal(rows([folder, tmp_path / "none.npy"]), DEMANDS)


@pytest.mark.parametrize(
    ("row", "value", "says"),
    [(4, [1, np.nan, 1], "nan"), (4, [1, -2, 1], "-2"), (4, [np.inf, 1, 1], "inf"), (4, [0, 0, 0], "nothing at all")],
)
def test_a_wrong_number_names_shard_and_row_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: int, value: list[float], says: str
) -> None:
    monkeypatch.setattr(module, "ROWS", 2)
    bad = DEMANDS.copy()
    bad[row] = value
    path = tmp_path / "bad.npy"
    np.save(path, bad)
    table = write_parquet(tmp_path / "bad.parquet", bad)
    for source, name in [
        (bad, "rows 4 to 4"),
        (path, "bad.npy, rows 4 to 4"),
        (table, "bad.parquet, row group 2"),
        ([DEMANDS, bad], "array 1, rows 4 to 4"),
    ]:
        told = refused(source)
        assert f"shard {name!r}" in told and "row 4" in told and says in told


def test_wrong_weights_and_limits_name_shard_and_row(tmp_path: Path) -> None:
    for column, value, says in [("weight", 0.0, "positive"), ("task_limit", -1.0, "0 or more"), ("weight", np.nan, "")]:
        values = np.ones(5)
        values[3] = value
        told = refused(write_parquet(tmp_path / "t.parquet", **{column: values}))
        assert "row group 1" in told and "row 3" in told and says in told


def test_wrong_columns_name_the_shard_and_the_fix(tmp_path: Path) -> None:
    def told(**more: Any) -> str:
        return refused(write_parquet(tmp_path / "t.parquet", **more))

    assert "no column 'gpu'" in told(gpu=None, gpus=np.ones(5)) and "'gpus'" in told(gpu=None, gpus=np.ones(5))
    assert "column 'gpu' is empty in row 3" in told(gpu=[1.0, 1, 1, None, 1])
    assert "column 'gpu' is empty in row 0" in told(gpu=[None] * 5)
    day = datetime.datetime(2020, 1, 1)
    for other in (["1", "2", "3", "4", "5"], [True] * 5, [day] * 5, [[1.0]] * 5):  # text that reads as numbers too
        text = told(gpu=other)
        assert "column 'gpu' holds no numbers" in text and "row group 0" in text and "give floats" in text
    assert "column 'weight' holds no numbers" in told(weight=list("abcde"))


def test_a_column_given_twice_is_refused(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    twice = pa.table([[1.0], [2.0], [1.0], [1.0]], names=["cpu", "cpu", "gpu", "memory"])
    pq.write_table(twice, tmp_path / "t.parquet")
    told = refused(tmp_path / "t.parquet")
    assert '"cpu" exists 2 times' in told and "t.parquet" in told


def test_resources_called_like_a_column_about_users_are_refused(tmp_path: Path) -> None:
    table = write_parquet(tmp_path / "t.parquet", weight=np.ones(5))
    assert "'weight'" in refused(table, {**CAPACITIES, "weight": 3.0})
    assert fo.allocate_sharded(fo.DRF(), DEMANDS[:2, :1], capacities={"weight": 3}).certificate.ok  # no such columns


def test_another_number_of_resources_is_refused() -> None:
    for source in (DEMANDS[:, :2], [DEMANDS, DEMANDS[:, :2]]):
        told = refused(source)
        assert "shard" in told and "(5, 2)" in told and "3 capacities" in told


def test_files_that_are_not_what_they_say_are_refused(tmp_path: Path, five: Path) -> None:
    whole = write_parquet(tmp_path / "whole.parquet", np.random.default_rng(0).random((5000, 3))).read_bytes()
    files = {
        "text.npy": b"1,2,3\n",
        "empty.npy": b"",
        "cut.npy": five.read_bytes()[:-8],
        "text.parquet": b"1,2,3\n",
        "empty.parquet": b"",
        "cut.parquet": whole[: len(whole) // 2],
        "table.csv": b"cpu,gpu,memory\n1,2,3\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert name in refused(tmp_path / name)
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "line.npy", np.ones(3))
    np.save(tmp_path / "words.npy", np.array([["a"]]))
    for name in ("pickle.npy", "line.npy", "words.npy"):
        assert name in refused(tmp_path / name)


def test_a_table_with_garbage_inside_is_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", np.random.default_rng(0).random((5000, 3)), groups=5000)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396  # the first page
    path.write_bytes(content)
    assert "t.parquet" in refused(path)


def test_sources_that_hold_nothing_are_refused(tmp_path: Path) -> None:
    assert "there is no" in refused(tmp_path / "nowhere") and "nowhere" in refused(tmp_path / "nowhere")
    assert "holds no users" in refused(tmp_path) and str(tmp_path) in refused(tmp_path)
    assert "holds no users" in refused([])
    for source in (None, 7, {"cpu": [1]}, DEMANDS.astype(complex), DEMANDS.astype(str), DEMANDS[0], DEMANDS[None]):
        assert refused(source)


def test_a_folder_of_two_kinds_of_files_is_refused(tmp_path: Path, five: Path) -> None:
    write_parquet(tmp_path / "t.parquet")
    assert ".npy and .parquet" in refused(tmp_path)


def test_dask_arrays_cut_through_rows_are_refused() -> None:
    da = pytest.importorskip("dask.array")
    assert "rechunk" in refused(da.from_array(DEMANDS, chunks=(2, 1)))
    assert refused(da.from_array(DEMANDS[:, 0], chunks=2))


def test_parquet_without_names_asks_for_them(tmp_path: Path) -> None:
    assert "give a dict" in refused(write_parquet(tmp_path / "t.parquet"), [10, 12, 14])


@pytest.mark.parametrize(
    "bad",
    [[1, 0, 1], [1, -1, 1], [1, np.nan, 1], [1, None, 1], [1, np.inf, 1], ["1", "x", "1"], [[1, 1, 1]], [], {}, 5],
)
def test_capacities_that_are_none_are_refused(bad: Any) -> None:
    assert "capacit" in refused(DEMANDS, bad)


def test_a_bad_capacity_is_named() -> None:
    assert "'gpu' is 0.0" in refused(DEMANDS, {"cpu": 1, "gpu": 0, "memory": 1})
    assert "resource2" in refused(DEMANDS, [1, np.nan, 1])


def test_names_that_are_the_same_in_letters_are_refused() -> None:
    assert "'1' is given twice" in refused(DEMANDS, {"1": 1, 1: 2, "gpu": 3})


def test_capacities_are_copied() -> None:
    given = np.array([10.0, 12, 14])
    values, names = named_capacities(given)
    given[0] = 5
    assert values.tolist() == [10, 12, 14] and names is None
    assert named_capacities(np.array([1, 2], np.float32))[0].dtype == np.float64


def test_without_pyarrow_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "t.parquet")
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(fo.errors.MissingExtra, match=r"pip install 'fairopt\[parquet\]'"):
        fo.allocate_sharded(fo.DRF(), path, capacities=CAPACITIES)
