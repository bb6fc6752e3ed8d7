"""Files damaged at any byte end in an error of fairopt that names them, or are read."""

import random
from contextlib import suppress

import numpy as np
import pytest

import fairopt as fo
from fairopt.io import parquet, text_files

TWO = fo.Instance([[40, 8], [8, 5]], [[200, 100], [50, 60]], weights=[1, 2], task_limits=[3, np.inf])


def mutated(content: bytes, rng: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(found))
        found[at : at + rng.choice([0, 1, 1, 4])] = rng.randbytes(rng.choice([0, 1, 1, 4])) or b" "
    return bytes(found[: rng.choice([len(found)] * 5 + [rng.randrange(len(found))])])


@pytest.mark.parametrize("name", ["a.json", "a.yaml", "users.csv", "servers.csv", "users.parquet", "demands.npy"])
def test_damaged_files_end_in_errors_of_fairopt(tmp_path, name):
    rng, file = random.Random(1), tmp_path / name
    source = file if name.startswith("a.") else tmp_path
    if name == "demands.npy":
        np.save(file, TWO.demands)
    else:
        fo.datasets.write(TWO, source, None if name.startswith("a.") else file.suffix[1:])
    content = file.read_bytes()
    for _ in range(100):
        file.write_bytes(mutated(content, rng))
        with suppress(fo.FairoptError):
            if name == "demands.npy":
                fo.allocate_sharded(fo.DRF(), file, capacities=[200, 100])
            else:
                fo.read(source)


def test_a_header_of_numpy_that_is_no_python_is_an_error_of_the_file(tmp_path):
    file = tmp_path / "a.npy"
    np.save(file, TWO.demands)
    file.write_bytes(file.read_bytes().replace(b"}", b"("))
    with pytest.raises(fo.errors.InvalidInstance, match=r"a\.npy.*cannot be read as a \.npy file"):
        fo.allocate_sharded(fo.DRF(), file, capacities=[200, 100])


def test_a_table_too_large_for_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    fo.datasets.write(TWO, tmp_path, "parquet")
    monkeypatch.setattr(parquet, "MOST_ROWS", 1)
    with pytest.raises(
        fo.errors.InvalidInstance, match=r"servers\.parquet has 2 rows in 3 columns, which would take .* GB"
    ):
        fo.read(tmp_path)


def test_messages_spell_out_control_characters_of_labels():
    label = "a\nproved: gap 0\x1b[31m\u202e\0"
    error = fo.errors.InvalidInstance(f"the user {label} is wrong")
    assert str(error) == r"the user a\nproved: gap 0\x1b[31m\u202e\x00 is wrong"


def test_a_table_of_many_columns_too_large_for_the_machine_is_refused_before_it_is_read(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    fo.datasets.write(fo.Instance(np.ones((500, 40)), np.ones(40)), tmp_path, "parquet")
    monkeypatch.setattr(text_files, "memory", lambda: 50_000)
    with pytest.raises(fo.errors.OutOfMemory, match=r"users\.parquet would take at least 8\.2e-05 GB"):
        fo.read(tmp_path)


@pytest.mark.parametrize(("kind", "bytes_a_user"), [("csv", 100), ("json", 30), ("yaml", 150)])
def test_text_too_large_for_the_machine_is_refused_before_it_is_parsed(tmp_path, monkeypatch, kind, bytes_a_user):
    source, users = tmp_path / (f"a.{kind}" if kind != "csv" else "folder"), 1000
    fo.datasets.write(fo.Instance([[1, 2]] * users, [4, 4]), source)
    monkeypatch.setattr(text_files, "memory", lambda: bytes_a_user * users)
    with pytest.raises(fo.errors.OutOfMemory, match=r"would take at least .* GB; .* has .* GB of memory; split it"):
        fo.read(source)
    monkeypatch.setattr(text_files, "memory", lambda: 20 * bytes_a_user * users)
    assert len(fo.read(source).users) == users


def test_a_file_larger_than_the_machine_is_refused_before_it_is_read(tmp_path, monkeypatch):
    with open(tmp_path / "a.json", "wb") as file:
        file.truncate(1 << 40)  # takes no place on the disk
    monkeypatch.setattr(text_files, "memory", lambda: 1 << 34)
    with pytest.raises(fo.errors.OutOfMemory, match=r"a\.json would take at least 2\.2e\+03 GB"):
        fo.read(tmp_path / "a.json")
