"""Output that cannot be encoded or written, and messages about full disks and memory.

Click ends a command when the reader of its output closes the pipe, before ``--out`` is written. Python reports a full
disk by a traceback at exit.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

from fairopt.cli.progress import complain
from fairopt.errors import FairoptError

UNWRITTEN, TOO_LARGE = 2, 3
ESCAPED = "fairopt.escaped"
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF, errno.EIO)


def _escape(error: UnicodeError) -> tuple[str, int]:
    r"""Escape characters that the encoding lacks as ``\u00e9`` and surrogate pairs, so that JSON stays valid."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[k : k + 2].hex()}" for k in range(0, len(units), 2)), error.end


class _UntilClosed(io.FileIO):
    """stdout or stderr that drops output after its reader has gone, as in ``fairopt ... | head``.

    The command goes on, writes its files, and exits with its usual code; also if stderr cannot be written at all, where
    nobody could be told.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream.fileno(), "w", closefd=False)
        self.stream = stream  # garbage collection would close the file

    def write(self, content: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(content)
        except OSError as error:
            if self.fileno() != 2 and not isinstance(error, BrokenPipeError):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return len(content)


def _tolerant(stream: Any) -> Any:
    """A stream on the same file that escapes missing characters; ``stream`` itself if it is not a file."""
    buffer = getattr(stream, "buffer", None)
    if not isinstance(getattr(buffer, "raw", buffer), io.FileIO):
        return stream
    buffer = io.BufferedWriter(_UntilClosed(stream))
    return io.TextIOWrapper(buffer, stream.encoding, errors=ESCAPED, line_buffering=stream.line_buffering)


def message_of(error: Exception) -> str:
    """The line that a command prints about an error."""
    if isinstance(error, MemoryError) and not isinstance(error, FairoptError):
        why = " ".join(str(error).split()) or "none is left"
        return f"OutOfMemory: the computation does not fit into memory ({why}); use a smaller cluster or more memory"
    if isinstance(error, OSError) and error.filename is None and error.errno in _OUTPUT_ERRORS:
        return f"stdout cannot be written ({error.strerror}); free some space, or redirect it to another place"
    return "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Escape characters that stdout and stderr lack; print one line and exit with 2 if stdout cannot be written."""
    codecs.register_error(ESCAPED, _escape)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:  # closed: the next file opened would get its number
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8"))
    sys.stdout.flush()
    sys.stdout, sys.stderr = _tolerant(sys.stdout), _tolerant(sys.stderr)
    code: Any = None
    try:
        yield
    except SystemExit as end:
        code = end.code
    except OSError as error:  # outside commands, as in printing the help
        complain(message_of(error))
        code = UNWRITTEN
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes again at exit
        if not code:
            complain(message_of(error))
            code = UNWRITTEN
    raise SystemExit(code)
