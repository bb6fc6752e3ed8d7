"""JSON files as plain data in bounded memory, and values that know their place in a document, for errors to name it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from fairopt.errors import InvalidInstance
from fairopt.io.text_files import is_path, opened, texts

__all__ = ["LARGEST_FILE", "Document", "Entry", "entry_of", "read_json_text", "shown"]

Document = str | os.PathLike[str] | Mapping[str, Any]  # a file, or what was parsed of one already

LARGEST_FILE = 1 << 28  # bytes: some 35,000 pods of 7 kB in `kubectl -o json`; reading takes up to ten times as much
_LONGEST_TEXT = 1 << 24  # characters of one string, or of blanks in a row: no list of servers or tasks has such
_LONGEST_NUMBER = 4300  # characters of one number: Python reads no longer whole ones
_MOST_VALUES = 1 << 24  # each takes 30 to 150 bytes once read, so that memory stays within some 2 GiB
_DEEPEST = 500  # brackets within brackets at the end of a chunk; Python reads no deeper than about 1000
_LONGEST_WORD = 8  # letters: Infinity
_BETWEEN = b'][{}:," \t\r\n'
_KINDS = bytes(  # of the characters outside strings: letters a, those of numbers 0, others of JSON a blank, the rest x
    ord("a" if chr(c).isalpha() else "0" if chr(c) in "0123456789.+-" else " " if c in _BETWEEN else "x")
    if c < 128 else ord("x")
    for c in range(256)
)  # fmt: skip


def read_json_text(path: str | os.PathLike[str], expected: str, *, largest: int = LARGEST_FILE) -> dict[str, Any]:
    """Read a file in UTF-8, with or without a byte order mark, that holds one JSON object.

    ``NaN`` and ``Infinity`` are read as floats: readers that want numbers refuse them with their place. A file of more
    than ``largest`` bytes is refused, and one that cannot be JSON at the first chunk of 1 MiB that shows it, with file,
    line, problem, and what was ``expected``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "nodes.json"
    >>> _ = file.write_text('{"kind": "List", "items": []}', encoding="utf-8-sig")
    >>> read_json_text(file, "expected nodes")
    {'kind': 'List', 'items': []}
    """
    name = os.fspath(path)
    text = _text_of(path, name, expected, largest)
    if not text.strip():
        raise InvalidInstance(f"{name} is empty; {expected}")
    try:
        data = json.loads(text, object_pairs_hook=_without_twins)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        fix = "the file seems to be cut off" if cut else "check the commas, quotes and brackets there"
        raise InvalidInstance(f"{name}, line {error.lineno}, column {error.colno}: {error.msg}; {fix}") from None
    except _TwiceError as error:
        raise InvalidInstance(f"{name}: the key {error.args[0]!r} is given twice in one object; keep one") from None
    except RecursionError:
        raise InvalidInstance(f"{name}: the brackets are nested too deep; {expected}") from None
    except ValueError as error:  # a number of thousands of digits
        raise InvalidInstance(f"{name}: a number cannot be read ({error}); give it with fewer digits") from None
    if not isinstance(data, dict):
        raise InvalidInstance(f"{name} holds {shown(data)}; {expected}")
    return data


class _TwiceError(Exception):
    pass


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _TwiceError(key)
            seen.add(key)
    return out


def _text_of(path: str | os.PathLike[str], name: str, expected: str, largest: int) -> str:
    """The text of a file, or of its beginning if that shows already that the file cannot be JSON."""
    parts: list[str] = []
    look = _Look(name, expected)
    length = 0
    with opened(path, expected) as file:
        size = os.fstat(file.fileno()).st_size
        for chunk in texts(file, name, expected):
            if not parts and chunk.strip() and not chunk.lstrip(" \t\r\n").startswith("{"):
                raise InvalidInstance(f"{name}: the file does not start with '{{'; {expected}")
            parts.append(chunk)
            if not look.may_go_on(chunk):
                break  # the parser says best what is wrong with what was read
            length += len(chunk)
            if max(length, size) > largest:
                raise InvalidInstance(
                    f"{name} has more than {largest:,} bytes, the most that is read at once; {expected}, of a part "
                    "of the cluster, or read the file with json.load and give the data"
                )
    return "".join(parts)


class _Look:
    """A look at the chunks of a text as they come: can this still be JSON, and of a size that is worth reading?"""

    def __init__(self, name: str, expected: str) -> None:
        self.name, self.expected = name, expected
        self.in_string = False
        self.rest = ""  # the end of the last chunk: half an escape, or a word that may go on
        self.length = 0  # of the string or the blanks that the last chunks were all of
        self.depth = self.values = 0
        self.closed = False  # all brackets at the end of the last chunk
        self.lines = 1

    def may_go_on(self, chunk: str) -> bool:
        """Whether the file is worth reading on; False if the parser will refuse what was read so far."""
        text = self.rest + chunk
        line, self.lines = self.lines, self.lines + chunk.count("\n")
        backslashes = len(text) - len(text.rstrip("\\"))
        cut = len(text) - backslashes % 2
        # without its escapes, a text has its quotes at the ends of strings only
        pieces = text[:cut].replace("\\\\", "").replace('\\"', "").split('"')
        outside = '"'.join(pieces[self.in_string :: 2])
        self.length = self.length + len(chunk) if len(pieces) == 1 and (self.in_string or not outside.strip()) else 0
        self.in_string ^= len(pieces) % 2 == 0
        word = "" if self.in_string else re.split(r'[][{}:,"\s]', outside[-_LONGEST_NUMBER - 1 :])[-1]
        self.rest = word if cut == len(text) else word + text[cut:]
        if self.length > _LONGEST_TEXT:
            what = "a string" if self.in_string else "a stretch of blanks"
            self._refuse(line, f"{what} has more than {_LONGEST_TEXT:,} characters")
        kinds = outside.encode().translate(_KINDS)  # some hundred times faster than regular expressions
        if b"0" * (_LONGEST_NUMBER + 1) in kinds:
            raise InvalidInstance(
                f"{self.name}, line {line} or later: a number cannot be read (more than {_LONGEST_NUMBER} digits); "
                "give it with fewer digits"
            )
        opened = outside.count("{") + outside.count("[")
        self.depth += opened - outside.count("}") - outside.count("]")
        self.values += opened + outside.count(",")
        if self.depth > _DEEPEST:
            raise InvalidInstance(f"{self.name}: the brackets are nested too deep; {self.expected}")
        if self.values > _MOST_VALUES:
            self._refuse(line, f"the file holds more than {_MOST_VALUES:,} values, the most that is read at once")
        more = self.closed and bool(chunk.strip())  # something after the end of the object
        self.closed = self.depth <= 0
        return not (more and self.closed) and b"x" not in kinds and b"a" * (_LONGEST_WORD + 1) not in kinds

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise InvalidInstance(f"{self.name}, line {line} or later: {problem}; {self.expected}")


class Entry:
    """A value in a JSON document that knows its place there; null is the same as nothing.

    Attributes
    ----------
    value : object
        The plain data; None if there is none.
    """

    __slots__ = ("_key", "_name", "_up", "value")

    def __init__(self, value: Any, key: str | int, up: Entry | None = None) -> None:
        self.value, self._key, self._up = value, key, up
        self._name = ""

    def called(self, name: str) -> None:
        """Let places name this value, besides its number in a list."""
        self._name = f" ({shown_key(name)})"

    @property
    def place(self) -> str:
        """Where it is, as ``nodes.json: items[3] (n4).spec.taints``."""
        keys: list[str] = []
        entry = self
        while entry._up is not None:
            key = f"[{entry._key}]" if isinstance(entry._key, int) else f".{shown_key(entry._key)}"
            keys.append(key + entry._name)
            entry = entry._up
        inner = "".join(reversed(keys)).removeprefix(".")
        return f"{entry._key}: {inner}" if inner else str(entry._key)

    def __getitem__(self, key: str) -> Entry:
        """What an object holds under a key."""
        return Entry(self.object().get(key), key, self)

    def __bool__(self) -> bool:
        return self.value is not None

    def object(self) -> Mapping[Any, Any]:
        """The value as an object, empty if there is none."""
        if self.value is None:
            return {}
        if not isinstance(self.value, (dict, Mapping)):  # dict first, since it is told much faster
            self.refuse("give an object")
        return self.value

    def fields(self) -> Iterator[tuple[str, Entry]]:
        """Keys and values of an object."""
        for key, value in self.object().items():
            if not isinstance(key, str):
                self.refuse(f"give text as keys, not {shown(key)}")
            yield key, Entry(value, key, self)

    def entries(self) -> Iterator[Entry]:
        """The values of a list."""
        if self.value is None:
            return
        if not isinstance(self.value, (list, tuple)):
            self.refuse("give a list")
        for k, value in enumerate(self.value):
            yield Entry(value, k, self)

    def text(self, default: str | None = None) -> str:
        """The value as text; without a default it must be there."""
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, str):
            self.refuse("give text")
        return self.value

    def name(self) -> str:
        """The value as text that can be printed, and some."""
        text = self.text()
        if not text.strip() or not text.isprintable():
            self.refuse("give a name of printable characters")
        return text

    def flag(self) -> bool:
        """The value as true or false; false if there is none."""
        if self.value is not None and not isinstance(self.value, bool):
            self.refuse("give true or false")
        return bool(self.value)

    def refuse(self, fix: str) -> NoReturn:
        """Raise the error about this value."""
        if self.value is None:
            raise InvalidInstance(f"{self.place} is missing; {fix}")
        raise InvalidInstance(f"{self.place} is {shown(self.value)}; {fix}")


def entry_of(source: object, argument: str, expected: str) -> Entry:
    """A document from a path or from data that was parsed already, which messages call ``argument``, as ``"nodes"``."""
    if isinstance(source, Mapping):
        return Entry(source, argument)
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        raise InvalidInstance(f"{argument} is JSON text, not the name of a file; give json.loads(text); {expected}")
    if not is_path(source):
        raise InvalidInstance(f"{argument} is {shown(source)}; give the name of a file, or what json.load gave")
    return Entry(read_json_text(source, expected), os.fspath(source))


def shown(value: Any) -> str:
    """A value for a message: as in JSON, and short."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):  # no JSON value, or a number of thousands of digits
        return f"of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def shown_key(key: str) -> str:
    """A key for a place in a message: short, and only what can be printed."""
    return key if len(key) <= 60 and key.isprintable() else shown(key)
