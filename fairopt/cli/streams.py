"""stdout and stderr that take every text, and messages where an output, the disk or the memory ends.

Click ends a command whose reader has gone, before its files are written, and Python reports a full disk by a traceback
at exit.
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

__all__ = ["TOO_LARGE", "UNWRITTEN", "streams", "told"]

UNWRITTEN, TOO_LARGE = 2, 3
ESCAPED = "fairopt.escaped"
_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF, errno.EIO)


def _escape(error: UnicodeError) -> tuple[str, int]:
    r"""What an encoding does not have as ``\u00e9``, surrogate pairs too, so that JSON stays JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[k : k + 2].hex()}" for k in range(0, len(units), 2)), error.end


class _UntilClosed(io.FileIO):
    """stdout or stderr, which drops what is written after its reader has gone, as of ``fairopt ... | head``.

    The work goes on: files are still to be written, and the exit code says what was found.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream.fileno(), "w", closefd=False)
        self.before = stream  # without it the file would be closed

    def write(self, content: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(content)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return len(content)


def _taking_all(stream: Any) -> Any:
    """A stream on the same file that escapes what its encoding lacks; itself if it is not on a file."""
    buffer = getattr(stream, "buffer", None)
    if not isinstance(getattr(buffer, "raw", buffer), io.FileIO):
        return stream
    buffer = io.BufferedWriter(_UntilClosed(stream))
    return io.TextIOWrapper(buffer, stream.encoding, errors=ESCAPED, line_buffering=stream.line_buffering)


def told(error: Exception) -> str:
    """The line about an error that ends a command."""
    if isinstance(error, MemoryError) and not isinstance(error, FairoptError):
        why = " ".join(str(error).split()) or "no more is free"
        return f"OutOfMemory: this does not fit into memory ({why}); take a smaller cluster, or more memory"
    if isinstance(error, OSError) and error.filename is None and error.errno in _OF_OUTPUT:
        return f"stdout cannot be written ({error.strerror}); make room there, or send it elsewhere"
    return "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Escape what stdout and stderr cannot encode; one line and an exit code where stdout cannot be written."""
    codecs.register_error(ESCAPED, _escape)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:  # closed: the next file that is opened would be taken for it
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8"))
    sys.stdout.flush()
    sys.stdout, sys.stderr = _taking_all(sys.stdout), _taking_all(sys.stderr)
    code: Any = None
    try:
        yield
    except SystemExit as end:
        code = end.code
    except OSError as error:  # outside commands, as in the help
        complain(told(error))
        code = UNWRITTEN
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes once more
        if not code:
            complain(told(error))
            code = UNWRITTEN
    raise SystemExit(code)
