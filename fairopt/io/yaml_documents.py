"""Documents of YAML 1.2 as plain data: what JSON could say, with comments, anchors and merge keys.

libyaml's events become values in one pass, which is several times as fast as PyYAML's loader. Nesting, the number of
documents and what aliases repeat are limited, so that no text takes unlimited time or memory.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from fairopt.errors import InvalidInstance
from fairopt.runtime.progress import steps

_MOST_DOCUMENTS = 1_000_000  # of a file: as many empty ones take 2 s
_MOST_REPEATED = 1_000_000  # values that stand in place of aliases
_DEEPEST = 100  # levels; schemas inside objects of Kubernetes have some 50
_TAG = "tag:yaml.org,2002:"
PLAIN = {  # scalars of YAML 1.2 that are no text
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
_PLAIN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in PLAIN.items()))
_OF_TEXT: dict[str, Any] = {  # values of scalars with tags
    "null": lambda text: None,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "int": int,
    "float": lambda text: float(re.sub(r"\.(?=[inIN])", "", text)),
    "str": str,
}
_WITHOUT_TAGS = "give each key once, as text, without tags"


class YamlDocument(NamedTuple):
    """The value of a document, and its number in the file, from 1."""

    data: Any
    number: int


def documents_of_yaml(text: str, name: str) -> list[YamlDocument]:
    """The documents of a text that are not empty; errors name the file, the line and the column.

    Plain scalars are those of YAML 1.2: unlike in YAML 1.1, ``no`` and ``1:30`` are text. Keys are text, whatever they
    look like, and stand once.
    """
    import yaml  # takes a twentieth of a second, which other inputs need not spend

    builder = _Builder(name)
    try:
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for event in steps(events, f"events of {os.path.basename(name)}"):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        words = ", ".join(filter(None, (error.context, error.problem)))
        fix = "check the indentation (spaces, not tabs), quotes and brackets there"
        if "nesting depth" in words:  # PyYAML's own limit, since 6.0.4
            words, fix = "this is nested too deeply", _SHALLOWER
        raise builder.error(error.problem_mark or error.context_mark, words, fix) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = "a character that YAML does not allow; remove it, or write it in double quotes as \\x01"
        raise InvalidInstance(f"{name}, line {line} or before: {problem}") from None
    return builder.documents


_SHALLOWER = f"write at most {_DEEPEST} levels"
_NO_KEY, _MERGE = object(), object()  # the key of a mapping that waits for one, and the plain key <<


class _Open:
    """A list or a mapping that is being read: the number of values before it, and the deepest level in it."""

    __slots__ = ("anchor", "before", "deepest", "key", "merged", "value")

    def __init__(self, value: Any, anchor: str | None, before: int, level: int) -> None:
        self.value, self.anchor, self.before, self.deepest = value, anchor, before, level
        self.key: Any = _NO_KEY if isinstance(value, dict) else None
        self.merged: list[dict[str, Any]] = []  # mappings below <<


class _Builder:
    """Makes documents of events."""

    def __init__(self, name: str) -> None:
        self.documents: list[YamlDocument] = []
        self._name, self._number, self._values, self._repeated = name, 0, 0, 0
        self._known: dict[str, tuple[Any, int, int]] = {}  # by anchor: the value, how many are in it, its levels
        self._outer: list[_Open] = []
        self._here = _Open([], None, 0, 0)  # the outermost: a list of one document
        self._methods: dict[str, Callable[[Any], None]] = {
            "ScalarEvent": self._scalar,
            "SequenceStartEvent": lambda event: self._start(event, []),
            "MappingStartEvent": lambda event: self._start(event, {}),
            "SequenceEndEvent": self._end,
            "MappingEndEvent": self._end,
            "AliasEvent": self._alias,
            "DocumentStartEvent": self._start_document,
            "DocumentEndEvent": self._end_document,
        }

    def take(self, event: Any) -> None:
        """Take the next event."""
        method = self._methods.get(type(event).__name__)
        if method is not None:  # not the start or the end of all
            method(event)

    def error(self, mark: Any, problem: str, fix: str) -> InvalidInstance:
        """An error at a place."""
        document = f", document {self._number}" * (self._number > 1)
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        return InvalidInstance(f"{self._name}{document}{place}: {problem}; {fix}")

    def _start_document(self, event: Any) -> None:
        self._number += 1
        if self._number > _MOST_DOCUMENTS:
            problem = f"there are more than {_MOST_DOCUMENTS:,} documents (parts between lines ---)"
            raise self.error(event.start_mark, problem, "give one list of objects")
        self._known.clear()

    def _end_document(self, event: Any) -> None:
        data = self._here.value.pop()
        if data is not None:
            self.documents.append(YamlDocument(data, self._number))

    def _scalar(self, event: Any) -> None:
        self._values += 1
        here = self._here
        if here.key is _NO_KEY:
            here.key = self._key(event, here.value)
            return
        make = self._maker(event)
        try:
            value = make(event.value)
        except (KeyError, ValueError) as error:  # a number of thousands of digits, `!!bool maybe`
            problem = f"a value cannot be read ({error})"
            raise self.error(event.start_mark, problem, "write it as plain text or number") from None
        if event.anchor is not None:
            self._known[event.anchor] = value, 1, 0
        self._put(value, event)

    def _key(self, event: Any, mapping: dict[str, Any]) -> Any:
        """The key of a mapping, as text, or `_MERGE`."""
        key = event.value
        if key == "<<" and event.implicit[0]:
            return _MERGE
        if key in mapping:
            raise self.error(event.start_mark, f"the key {key[:60]!r} is given twice", _WITHOUT_TAGS)
        return sys.intern(key)

    def _maker(self, event: Any) -> Any:
        """What makes the value of a scalar from its text; the tag ``!`` makes it text."""
        if event.tag is None:
            return _plain if event.implicit[0] else str
        make = str if event.tag == "!" else _OF_TEXT.get(event.tag.removeprefix(_TAG))
        if make is None:
            raise self._wrong_tag(event)
        return make

    def _wrong_tag(self, event: Any) -> InvalidInstance:
        kind = event.tag.removeprefix(_TAG)
        problem = f"the tag {event.tag[:60]!r} is not known here"
        if kind in (*_OF_TEXT, "map", "seq"):
            problem = f"the tag {kind!r} is that of another kind of value"
        return self.error(event.start_mark, problem, _WITHOUT_TAGS)

    def _start(self, event: Any, value: list[Any] | dict[str, Any]) -> None:
        self._not_as_key(event)
        if event.tag not in (None, "!", _TAG + ("map" if isinstance(value, dict) else "seq")):
            raise self._wrong_tag(event)
        self._outer.append(self._here)
        self._here = _Open(value, event.anchor, self._values, len(self._outer))
        self._values += 1
        self._check_level(event)

    def _not_as_key(self, event: Any) -> None:
        if self._here.key is _NO_KEY:
            raise self.error(event.start_mark, "a list or a mapping is a key", _WITHOUT_TAGS)

    def _check_level(self, event: Any) -> None:
        if self._here.deepest > _DEEPEST:
            raise self.error(event.start_mark, "this is nested too deeply", _SHALLOWER)

    def _end(self, event: Any) -> None:
        done, level = self._here, len(self._outer)
        for one in done.merged:  # earlier ones count first, and keys of its own before all
            for key, value in one.items():
                done.value.setdefault(key, value)
        self._here = self._outer.pop()
        self._here.deepest = max(self._here.deepest, done.deepest)
        if done.anchor is not None:
            self._known[done.anchor] = done.value, self._values - done.before, done.deepest - level + 1
        self._put(done.value, event)

    def _alias(self, event: Any) -> None:
        self._not_as_key(event)
        if event.anchor not in self._known:
            problem = f"the alias *{event.anchor[:60]} repeats nothing that ends before it"
            raise self.error(event.start_mark, problem, f"give &{event.anchor[:60]} to an earlier value")
        value, number, levels = self._known[event.anchor]
        self._values, self._repeated = self._values + number, self._repeated + number
        if self._repeated > _MOST_REPEATED:
            problem = f"aliases (*name) repeat more than {_MOST_REPEATED:,} values"
            raise self.error(event.start_mark, problem, "write out those that are needed")
        self._here.deepest = max(self._here.deepest, len(self._outer) + levels)
        self._check_level(event)
        self._put(value, event)

    def _put(self, value: Any, event: Any) -> None:
        """Put a value into what is being read."""
        here = self._here
        if here.key is None:
            here.value.append(value)
        elif here.key is _MERGE:
            found = value if isinstance(value, list) else [value]
            if not all(isinstance(one, dict) for one in found):
                raise self.error(event.start_mark, "<< merges mappings, and this is none", "give the *name of one")
            here.merged += found
            here.key = _NO_KEY
        else:
            here.value[here.key] = value
            here.key = _NO_KEY


@lru_cache(maxsize=1 << 16)
def _plain(text: str) -> Any:
    """The value of a plain scalar."""
    found = _PLAIN.fullmatch(text)
    return text if found is None else _OF_TEXT[str(found.lastgroup)](text)
