"""Files are read without waiting, decoded with the line of what is wrong, and written as a whole or not at all."""

import os
import socket
import stat
import sys

import pytest

import fairopt as fo
from fairopt.errors import InvalidInstance
from fairopt.io.saving import replacing
from fairopt.io.text_files import about, read_text

DEMO = fo.datasets.demo()
pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")


# -- not a file -------------------------------------------------------------------------------------------------


@pipes
@pytest.mark.parametrize(
    "names",
    [
        ("x.json",),
        ("x.yaml",),
        ("users.csv", "servers.csv"),
        ("users.parquet", "servers.parquet"),
    ],
)
def test_a_pipe_is_refused_without_waiting(tmp_path, names):
    for name in names:
        os.mkfifo(tmp_path / name)
    with pytest.raises(InvalidInstance, match="is a pipe, not a file; save its output to a file"):
        fo.read(tmp_path / names[0] if len(names) == 1 else tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files on Windows")
def test_a_socket_a_device_and_a_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.json")
        for name, words in (("s.json", "is a socket"), (os.devnull, "is a device"), (".", "Is a directory")):
            with pytest.raises(InvalidInstance, match=words):
                read_text(name, "expected x")


@pytest.mark.parametrize("path", [None, 3, b"x", ["x"], "", "x" * 5000 + ".json", "a\0.json", "\ud800.json"])
def test_other_values_are_refused_as_paths_by_read_and_write(path):
    with pytest.raises(InvalidInstance):
        fo.read(path)
    with pytest.raises(InvalidInstance):
        fo.datasets.write(DEMO, path)


def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fo.datasets.write(DEMO, ".")
    with pytest.raises(InvalidInstance, match=r"the path is ''; give .* '\.' for this folder"):
        fo.read("")
    with pytest.raises(InvalidInstance, match="the path is ''"):
        fo.datasets.write(DEMO, "")
    assert fo.read(".") == DEMO


# -- texts ----------------------------------------------------------------------------------------------------


def test_a_single_parquet_file_is_refused_with_the_folder_to_give(tmp_path):
    (tmp_path / "users.parquet").write_bytes(b"PAR1\x15\xff\xfePAR1")
    with pytest.raises(fo.errors.InvalidInstance, match="give the folder that it is in"):
        fo.read(tmp_path / "users.parquet")


def test_text_keeps_its_line_ends_and_errors_name_the_line(tmp_path):
    (tmp_path / "x").write_bytes("\ufeffaü€😀\r\nb\rc\n\nd".encode())
    assert read_text(tmp_path / "x", "expected x") == "aü€😀\r\nb\rc\n\nd"
    for start in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "x").write_bytes(start + b"a\nb\ncc\xe9\n")
        with pytest.raises(InvalidInstance, match="line 3: this is not UTF-8"):
            read_text(tmp_path / "x", "expected x")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("name", ["x.json", "x.yaml", "users.csv"])
def test_other_encodings_are_called_by_their_name(tmp_path, name, encoding):
    (tmp_path / name).write_bytes('{"demands": [[1]], "capacities": [1]}'.encode(encoding))
    (tmp_path / "servers.csv").write_text("server,cpu\ns,1\n")
    with pytest.raises(InvalidInstance, match=f"it seems to be {encoding[:6].upper()} "):
        fo.read(tmp_path if name == "users.csv" else tmp_path / name)


def test_errors_name_their_files_once():
    for text, result in (("x.json: bad", "x.json: bad"), ("bad", "x.json and y.json: bad")):
        with pytest.raises(InvalidInstance) as error, about("x.json", "y.json"):
            raise InvalidInstance(text)
        assert str(error.value) == result


# -- writing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.json", "x.yaml", "csv", "parquet"])
def test_what_is_there_is_kept_if_writing_fails_half_way(tmp_path, monkeypatch, name):
    kind = name.removeprefix("x.")
    fo.datasets.write(DEMO, tmp_path / name, kind)
    before = sorted(tmp_path.rglob("*"))

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match=r"No space left on device: .*/(x|users)\."):
        fo.datasets.write(fo.Instance([[1]], [1]), tmp_path / name, kind)
    assert sorted(tmp_path.rglob("*")) == before
    assert fo.read(tmp_path / name) == DEMO


def test_a_crash_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "x").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing([tmp_path / "x"]) as (file,):
        file.write(b"half of the n")
        raise KeyboardInterrupt
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("x", "old")]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("at", range(1, 6))
def test_tables_of_a_folder_change_together_or_not_at_all(tmp_path, monkeypatch, kind, at):
    by_server = fo.Instance([[[1], [2]]], [[1], [1]])  # of three tables
    fo.datasets.write(by_server, tmp_path, kind)
    rename, calls = os.replace, []

    def stop(*names):
        calls.append(names)
        if len(calls) == at:
            raise KeyboardInterrupt
        rename(*names)

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        fo.datasets.write(DEMO, tmp_path, kind)
    assert fo.read(tmp_path) == by_server and len([*tmp_path.iterdir()]) == 3


def test_a_folder_is_refused_where_the_machine_stops_between_its_tables(tmp_path, monkeypatch):
    fo.datasets.write(DEMO, tmp_path)
    rename, seen = os.replace, []

    def look(*names):
        rename(*names)
        seen.append({name for name in ("users.csv", "servers.csv") if (tmp_path / name).exists()})

    monkeypatch.setattr(os, "replace", look)
    fo.datasets.write(fo.Instance([[1]], [1]), tmp_path)
    assert [one for one in seen if len(one) == 2] == seen[-1:]  # only when all is there


def test_a_folder_that_cannot_be_filled_is_not_made(tmp_path):
    folder, words = tmp_path / "a" / "b", r"No space left on device: .*/b/x['\"]"
    with pytest.raises(OSError, match=words), replacing([folder / "x", folder / "y"], folder):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_a_link_that_leads_back_to_itself_is_not_replaced(tmp_path):
    (tmp_path / "x.json").symlink_to("x.json")
    with pytest.raises(PermissionError, match="is not a file that can be replaced"):
        fo.datasets.write(DEMO, tmp_path / "x.json")
    assert (tmp_path / "x.json").is_symlink()


def test_links_are_followed_and_permissions_kept(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "real.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("real.json")
    fo.datasets.write(DEMO, tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink() and fo.read(tmp_path / "real.json") == DEMO
    assert stat.S_IMODE((tmp_path / "real.json").stat().st_mode) == 0o640


@pipes
def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "x.json")
    (tmp_path / "y.json").symlink_to(os.devnull)
    for name in ("x.json", "y.json"):
        with pytest.raises(PermissionError, match="is not a file that can be replaced"):
            fo.datasets.write(DEMO, tmp_path / name)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("no/x.json", "No such file or directory"),
        ("file/x.yaml", "Not a directory"),
        ("file", "is not a folder"),
        ("file/out", "Not a directory"),
    ],
)
def test_where_nothing_can_be_written_is_said(tmp_path, place, words):
    (tmp_path / "file").write_text("")
    with pytest.raises((InvalidInstance, OSError), match=words):
        fo.datasets.write(DEMO, tmp_path / place)


def test_every_save_into_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    allocation = fo.DRF().allocate(DEMO)
    for name in ("a.json", "a.parquet"):
        with pytest.raises(FileNotFoundError, match=rf"nowhere/{name}") as caught:
            allocation.save(tmp_path / "nowhere" / name)
        assert caught.value.__notes__ and caught.value.filename.endswith(name)
    with pytest.raises(FileNotFoundError, match=r"nowhere/a\.json"):
        fo.audit(fo.DRF(), max_examples=1).save(tmp_path / "nowhere" / "a.json")


# -- files in errors ------------------------------------------------------------------------------------------
