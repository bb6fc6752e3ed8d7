"""`fo.read` ends soon after its time limit, says how far it came, and returns nothing half-read."""

from itertools import chain, repeat
from math import inf
from types import SimpleNamespace

import pytest

import fairopt as fo
from fairopt.io import text_files
from fairopt.runtime import clock
from fairopt.runtime.progress import EVERY

ROWS = EVERY + 1
POOL = fo.Instance([[1.5, 2]] * ROWS, [4, 4])


def written(kind, folder):
    source = folder / f"a.{kind}" if kind in ("json", "yaml") else folder
    fo.datasets.write(POOL, source)
    return source


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        ("csv", "rows of users.csv"),
        ("json", "parts of a.json"),
        ("yaml", "events of a.yaml"),
    ],
)
def test_reading_ends_within_its_long_loop_and_says_how_far_it_came(tmp_path, monkeypatch, kind, stage):
    source, told = written(kind, tmp_path), []
    with fo.progress(lambda what, done, total: told.append((what, done))):
        fo.read(source)
    within = next(k for k, (what, done) in enumerate(told) if what == stage and done)
    times = chain(repeat(0.0, 1 + within), repeat(inf))  # so that no test depends on the time
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    with pytest.raises(fo.errors.OutOfTime, match=rf"time limit of 5 s, which ended at: {stage}, {told[within][1]:,}"):
        fo.read(source, time_limit=5)


def test_a_limit_that_is_long_enough_changes_nothing(tmp_path):
    fo.datasets.write(fo.datasets.demo(), tmp_path)
    assert fo.read(tmp_path, time_limit=60) == fo.datasets.demo()


@pytest.mark.parametrize("limit", [0, -1, "1"])
def test_limits_of_time_are_checked(tmp_path, limit):
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit"):
        fo.read(tmp_path, time_limit=limit)


def test_progress_of_a_file_is_told_by_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_CHUNK", 10)
    (tmp_path / "a.json").write_text('{"demands": [[1]], "capacities": [1]}')
    told = []
    with fo.progress(lambda what, done, total: told.append((what, done, total))):
        fo.read(tmp_path / "a.json")
    assert told[:3] == [("reading a.json", None, None), ("reading a.json", 10, 37), ("reading a.json", 20, 37)]
