"""Files of text: opened without waiting for anybody, decoded in chunks, cut into lines, and named in errors."""

from __future__ import annotations

import codecs
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol, TypeGuard

from fairopt.errors import InvalidInstance
from fairopt.progress import tell

__all__ = ["about", "decimal_only", "is_path", "lines", "opened", "texts"]

_CHUNK = 1 << 20
_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_ZEROS: dict[tuple[bool, ...], str] = {  # where the first four bytes of text without a mark are 0
    (False, True, True, True): "UTF-32", (True, True, True, False): "UTF-32",
    (False, True, False, True): "UTF-16", (True, False, True, False): "UTF-16",
}  # fmt: skip
_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip (as .xlsx files are)"}


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a value can be the name of a file or a folder."""
    if not isinstance(value, (str, os.PathLike)):
        return False
    name = os.fspath(value)
    return isinstance(name, str) and name != ""


@contextmanager
def opened(path: str | os.PathLike[str], expected: str) -> Iterator[BinaryIO]:
    """A file to read from, which is refused if it is not regular: reading a pipe could wait without end."""
    name = os.fspath(path)
    try:
        _check_regular(_mode_of(name, expected), name, expected)
        with open(path, "rb", opener=_at_once) as file:
            _check_regular(os.fstat(file.fileno()).st_mode, name, expected)
            yield file
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise InvalidInstance(f"{_short(name)} cannot be read ({reason}); {expected}") from error


def _mode_of(name: str, expected: str) -> int:
    try:
        return os.stat(name).st_mode
    except ValueError as error:  # a NUL character, half of a pair of surrogates
        raise InvalidInstance(f"{name!r} is no name of a file ({error}); {expected}") from error


def _at_once(path: str, flags: int) -> int:
    """Opens without waiting, should a pipe have taken the file's place since it was looked at."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_regular(mode: int, name: str, expected: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise InvalidInstance(f"{_short(name)} cannot be read (Is a directory); {expected}")
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise InvalidInstance(
        f"{_short(name)} is {kind} and no file; save what comes out of it to a file first, and give that; {expected}"
    )


def _short(name: str) -> str:
    return name if len(name) <= 1000 else name[:997] + "..."


def texts(file: _Readable, name: str, expected: str) -> Iterator[str]:
    """The text of a file in UTF-8, with or without a byte order mark, in chunks.

    Refused if it is packed or of another encoding, with the line of the first byte that shows it.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line, done = 1, 0
    raw = file.read(_CHUNK)
    _check_start(raw[:4], name, expected)
    while raw:
        done += len(raw)
        tell(f"reading {os.path.basename(name)}, MiB", done >> 20)
        yield _decoded(decoder, raw, False, name, line)
        line += raw.count(b"\n")
        raw = file.read(_CHUNK)
    _decoded(decoder, b"", True, name, line)


def _decoded(decoder: Any, raw: bytes, final: bool, name: str, line: int) -> str:
    try:
        text: str = decoder.decode(raw, final)
    except UnicodeDecodeError as error:
        line += error.object[: error.start].count(b"\n")
        problem = f"this is not UTF-8 ({error.reason}); save the file as UTF-8"
        raise InvalidInstance(f"{name}, line {line}: {problem}") from None
    return text


def _check_start(start: bytes, name: str, expected: str) -> None:
    for mark, kind in _PACKED.items():
        if start.startswith(mark):
            raise InvalidInstance(f"{name} is packed, by {kind}; unpack it or save it as plain text; {expected}")
    encoding = next((kind for mark, kind in _MARKS.items() if start.startswith(mark)), None)
    encoding = encoding or _ZEROS.get(tuple(byte == 0 for byte in start))
    if encoding:
        raise InvalidInstance(
            f"{name}, line 1: this is not UTF-8, it seems to be {encoding} (as PowerShell's '>' writes); save it as "
            f"UTF-8, in PowerShell with '| Out-File -Encoding utf8'; {expected}"
        )


def lines(chunks: Iterable[str], name: str, longest: int) -> Iterator[str]:
    """The lines of a text (in chunks, cut anywhere) with their ends, as a reader of CSV wants them.

    A line of ``longest`` characters is refused, and one that holds a NUL character.
    """
    number, rest = 1, ""
    for chunk in chunks:
        complete = io.StringIO(rest + chunk, newline="").readlines()
        rest = complete.pop() if complete else ""  # it may go on in the next chunk
        for line in complete:
            yield _checked_line(line, name, number, longest)
            number += 1
        _checked_line(rest, name, number, longest)
    if rest:
        yield rest


def _checked_line(line: str, name: str, number: int, longest: int) -> str:
    if len(line) >= longest:
        raise InvalidInstance(f"{name}, line {number} is longer than {longest} characters; this is no table")
    if "\0" in line:
        raise InvalidInstance(f"{name}, line {number} holds a NUL character; this is no text, so save it as CSV again")
    return line


def decimal_only(cells: Iterable[str]) -> bool:
    """Whether texts that Python reads as numbers are numbers to everybody: no ``1_000``, no digits but 0 to 9."""
    text = "".join(cells)
    return text.isascii() and "_" not in text


@contextmanager
def about(*places: str, hint: str = "") -> Iterator[None]:
    """Let errors raised here begin with the files that they are about, unless they name one, and end with a hint."""
    try:
        yield
    except InvalidInstance as error:
        named = str(error).startswith(tuple(place + end for place in places for end in ":, /"))
        if named and not hint:
            raise
        raise InvalidInstance(f"{'' if named else ' and '.join(places) + ': '}{error}{hint}") from error
