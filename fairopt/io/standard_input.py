"""Standard input as text, read once."""

from __future__ import annotations

import sys
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io.text_files import decoded

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
