"""Reads text files as UTF-8, with errors that name the file."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

from fairopt.errors import InvalidInstance, OutOfMemory
from fairopt.runtime.progress import tell

# Lower bounds on the memory to parse a file: bytes per byte of it (csv takes 4 per character), and bytes per separator
# of values (a pointer, since Python shares small values; in YAML, whose lines are keys, also a part of a mapping)
_AS_JSON = (2, 8, (b",",))
_PARSED = {".csv": (5, 16, (b",", b"\n")), ".yaml": (2, 60, (b",", b"\n")), ".yml": (2, 60, (b",", b"\n"))}
_CHUNK = 1 << 26  # bytes to read at once
_COMPRESSED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip (as .xlsx files are)"}


def is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a value can be the name of a file or a folder.

    Parameters
    ----------
    value : object
        Any value.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.is_path("a.json"), fo.io.is_path(""), fo.io.is_path({"a": 1})
    (True, False, False)
    """
    if not isinstance(value, (str, os.PathLike)):
        return False
    name = os.fspath(value)
    return isinstance(name, str) and name != ""


def check_file(path: str | os.PathLike[str], expected: str) -> None:
    """Raise `InvalidInstance` unless a path is a regular file: reading a pipe could wait forever.

    Parameters
    ----------
    path : path-like
        The file.
    expected : str
        What errors end with.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.check_file(".", "expected jobs")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: . cannot be read (Is a directory); expected jobs
    """
    name = os.fspath(path)
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL character, a lone surrogate
        raise _unreadable(name, error, expected) from error
    if stat.S_ISDIR(mode):
        raise InvalidInstance(f"{name} cannot be read (Is a directory); {expected}")
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InvalidInstance(f"{name} is {kind}, not a file; save its output to a file and give that; {expected}")


def read_text(path: str | os.PathLike[str], expected: str) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; decompressed if its name ends in ``.gz``.

    It reports progress, so that time limits count, and refuses what does not fit into memory.

    Parameters
    ----------
    path : path-like
        The file.
    expected : str
        What errors end with.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.read_text("no-such.txt", "expected a table of jobs")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: no-such.txt cannot be read (No such file or directory); expected a table of jobs
    """
    name = os.fspath(path)
    check_file(path, expected)
    what = f"reading {os.path.basename(name)}"
    tell(what)
    try:
        with open(path, "rb") as file:
            size, raw = os.fstat(file.fileno()).st_size, bytearray()
            check_memory(name, 2 * size)  # its bytes and its text
            while part := file.read(_CHUNK):
                raw += part
                tell(what, len(raw), max(size, len(raw)))
    except OSError as error:
        raise _unreadable(name, error, expected) from error
    packed = name.lower().endswith(".gz") and raw.startswith(b"\x1f\x8b")
    return decoded(_unzipped(raw, name, expected) if packed else raw, name, expected)


def _unzipped(raw: bytearray, name: str, expected: str) -> bytes:
    """The content of a file compressed by gzip."""
    out = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            while part := file.read(_CHUNK):
                out += part
                check_memory(name, 2 * len(out))
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInstance(f"{name} is not a whole file of gzip ({error}); compress it again; {expected}") from None
    return bytes(out)


def decoded(raw: bytes | bytearray, name: str, expected: str) -> str:
    r"""Bytes in UTF-8, with or without a byte order mark, as text; other encodings are named in the error.

    Parameters
    ----------
    raw : bytes or bytearray
        The bytes.
    name : str
        The name of the file, for messages.
    expected : str
        What errors end with.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.decoded(b"PK\x03\x04", "x.csv", "expected a table")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: x.csv is compressed (zip (as .xlsx files are)); decompress it or save it as ...
    """
    for mark, kind in _COMPRESSED.items():
        if raw.startswith(mark):
            raise InvalidInstance(f"{name} is compressed ({kind}); decompress it or save it as plain text; {expected}")
    if raw.startswith(b"PAR1"):
        raise InvalidInstance(f"{name} is a Parquet file; give the folder that it is in")
    encoding = json.detect_encoding(raw[:4])
    if not encoding.startswith("utf-8"):
        raise InvalidInstance(
            f"{name}, line 1: this is not UTF-8, it seems to be {encoding[:6].upper()} (as PowerShell's '>' writes); "
            f"save it as UTF-8, in PowerShell with '| Out-File -Encoding utf8'; {expected}"
        )
    by_byte, by_mark, marks = _PARSED.get(os.path.splitext(name)[1].lower(), _AS_JSON)
    check_memory(name, by_byte * len(raw) + by_mark * sum(map(raw.count, marks)))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = f"this is not UTF-8 ({error.reason}); save the file as UTF-8"
        raise InvalidInstance(f"{name}, line {line}: {problem}") from None


def check_memory(name: str, needed: int) -> None:
    """Raise `OutOfMemory` if reading a file needs more memory than the machine has.

    Parameters
    ----------
    name : str
        The name of the file.
    needed : int
        Bytes.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.check_memory("x.csv", 10**3)
    """
    available = memory()
    if available is not None and needed > available:
        raise OutOfMemory(
            f"{name} would take at least {needed / 1e9:.3g} GB; this machine has {available / 1e9:.3g} GB of memory; "
            "split it into parts for fo.allocate_sharded, or use a machine with more memory"
        )


def memory() -> int | None:
    """Bytes of memory of the machine, None if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None


def _unreadable(name: str, error: OSError | ValueError, expected: str) -> InvalidInstance:
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())
    shown = name[:200] if name.isprintable() else repr(name[:200])
    return InvalidInstance(f"{shown} cannot be read ({reason}); {expected}")


def decimal_only(cells: Iterable[str]) -> bool:
    """Whether numbers have ASCII digits and no ``_``: Python also accepts ``1_000`` and digits of other scripts."""
    text = "".join(cells)
    return text.isascii() and "_" not in text


@contextmanager
def about(*places: str, hint: str = "") -> Iterator[None]:
    """In its block, put the names of files before errors that name none of them, and a hint after errors.

    Parameters
    ----------
    *places : str
        The files.
    hint : str, default ""
        What errors end with.

    Examples
    --------
    >>> import fairopt as fo
    >>> with fo.io.about("nodes.txt"):
    ...     raise fo.errors.InvalidInstance("there are no nodes")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: nodes.txt: there are no nodes
    """
    places = tuple(dict.fromkeys(places))
    try:
        yield
    except InvalidInstance as error:
        named = str(error).startswith(tuple(place + end for place in places for end in ":, /"))
        if named and not hint:
            raise
        raise InvalidInstance(f"{'' if named else ' and '.join(places) + ': '}{error}{hint}") from error


# -- standard input -------------------------------------------------------------------------------------------


DASH = "-"  # the path that stands for standard input
EXPECTED = "pipe JSON or YAML into it, as in: kubectl get nodes,pods -A -o json | fairopt solve -"
_read: list[tuple[Any, str]] = []  # the stream and its text


def standard_input() -> str:
    """The text of standard input, cached so that it can be read again."""
    stream = sys.stdin
    if _read and _read[0][0] is stream:
        return _read[0][1]
    if stream is None or stream.closed:
        raise InvalidInstance(f"standard input is closed; {EXPECTED}")
    if stream.isatty():
        raise InvalidInstance(f"standard input is a terminal; {EXPECTED}")
    try:
        raw = stream.buffer.read() if hasattr(stream, "buffer") else stream.read().encode()
    except OSError as error:
        raise InvalidInstance(f"standard input cannot be read ({error.strerror}); {EXPECTED}") from error
    text = decoded(raw, "standard input", EXPECTED)
    if not text.strip():
        raise InvalidInstance(f"standard input is empty: the command before it wrote nothing; {EXPECTED}")
    _read[:] = [(stream, text)]
    return text
