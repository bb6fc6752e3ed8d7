"""Documents of YAML 1.2 as plain data: what JSON could say, with comments, anchors and merge keys.

libyaml's events become values in one pass, which is several times as fast as PyYAML's loader. Nesting, the number of
documents and what aliases repeat are limited, so that no text takes unlimited time or memory.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from fairopt.errors import InvalidInstance, optional
from fairopt.runtime.progress import steps

_MAX_DOCUMENTS = 1_000_000  # of a file: as many empty ones take 2 s
_MAX_REPEATED = 1_000_000  # values that stand in place of aliases
_MAX_LEVELS = 100  # schemas inside objects of Kubernetes have some 50
_SHALLOWER = f"write at most {_MAX_LEVELS} levels"
_WITHOUT_TAGS = "give each key once, as text, without tags"
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


class YamlDocument(NamedTuple):
    """The value of a document, and its number in the file, from 1."""

    data: Any
    number: int


def documents_of_yaml(text: str, name: str) -> list[YamlDocument]:
    """The documents of a text that are not empty, with their numbers; errors name the file, the line and the column.

    Plain scalars are those of YAML 1.2: unlike in YAML 1.1, ``no`` and ``1:30`` are text. Keys are text, whatever they
    look like, and stand once.

    Parameters
    ----------
    text : str
        The text.
    name : str
        The name of the file, for messages.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.documents_of_yaml("a: no", "x.yaml")
    [YamlDocument(data={'a': 'no'}, number=1)]
    """
    yaml = optional("yaml", "yaml", f"{name}, a file of YAML,", "PyYAML")  # takes .05 s, which others need not spend
    events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    reader = _Reader(steps(events, f"events of {os.path.basename(name)}"), name)
    try:
        return list(reader.documents())
    except yaml.MarkedYAMLError as error:
        words = ", ".join(filter(None, (error.context, error.problem)))
        fix = "check the indentation (spaces, not tabs), quotes and brackets there"
        if "nesting depth" in words:  # PyYAML's own limit, since 6.0.4
            words, fix = "this is nested too deeply", _SHALLOWER
        raise reader.error(error.problem_mark or error.context_mark, words, fix) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = "a character that YAML does not allow; remove it, or write it in double quotes as \\x01"
        raise InvalidInstance(f"{name}, line {line} or before: {problem}") from None


class _Reader:
    """Makes documents of events, by recursive descent."""

    def __init__(self, events: Iterable[Any], name: str) -> None:
        self._events, self._name, self._number = iter(events), name, 0
        self._values, self._repeated, self._deepest = 0, 0, 0  # numbers of values, and the deepest level of a part
        self._known: dict[str, tuple[Any, int, int]] = {}  # by anchor: the value, how many are in it, its levels

    def error(self, mark: Any, problem: str, fix: str) -> InvalidInstance:
        """An error at a place."""
        document = f", document {self._number}" * (self._number > 1)
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        return InvalidInstance(f"{self._name}{document}{place}: {problem}; {fix}")

    def documents(self) -> Iterator[YamlDocument]:
        """The documents that are not empty."""
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                self._number += 1
                if self._number > _MAX_DOCUMENTS:
                    problem = f"there are more than {_MAX_DOCUMENTS:,} documents (parts between lines ---)"
                    raise self.error(event.start_mark, problem, "give one list of objects")
                self._known.clear()
                data = self._value(next(self._events), 1)
                if data is not None:
                    yield YamlDocument(data, self._number)

    def _value(self, event: Any, level: int) -> Any:
        """The value that starts with an event; lists and mappings in it have the next level."""
        kind, before = type(event).__name__, self._values
        if kind == "AliasEvent":
            return self._alias(event, level)
        self._values += 1
        if kind == "ScalarEvent":
            value, levels = self._scalar(event), 0
        else:
            mapping = kind == "MappingStartEvent"
            if event.tag not in (None, "!", _TAG + ("map" if mapping else "seq")):
                raise self._wrong_tag(event)
            outside, self._deepest = self._deepest, level
            self._check_level(event)
            value = self._mapping(level) if mapping else self._list(level)
            levels = self._deepest - level + 1
            self._deepest = max(outside, self._deepest)
        if event.anchor is not None:
            self._known[event.anchor] = value, self._values - before, levels
        return value

    def _check_level(self, event: Any) -> None:
        if self._deepest > _MAX_LEVELS:
            raise self.error(event.start_mark, "this is nested too deeply", _SHALLOWER)

    def _list(self, level: int) -> list[Any]:
        out = []
        for event in self._events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            out.append(self._value(event, level + 1))
        return out

    def _mapping(self, level: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        merged: list[Any] = []  # mappings below <<
        for event in self._events:
            kind = type(event).__name__
            if kind == "MappingEndEvent":
                break
            if kind != "ScalarEvent":
                raise self.error(event.start_mark, "a list or a mapping is a key", _WITHOUT_TAGS)
            self._values += 1
            key, at = event.value, next(self._events)
            if key == "<<" and event.implicit[0]:
                value = self._value(at, level + 1)
                merged += value if isinstance(value, list) else [value]
                if not all(isinstance(one, dict) for one in merged):
                    raise self.error(at.start_mark, "<< merges mappings, and this is none", "give the *name of one")
            elif key in out:
                raise self.error(event.start_mark, f"the key {key[:60]!r} is given twice", _WITHOUT_TAGS)
            else:
                out[sys.intern(key)] = self._value(at, level + 1)
        for one in merged:  # earlier ones count first, and keys of its own before all
            for key, value in one.items():
                out.setdefault(key, value)
        return out

    def _alias(self, event: Any, level: int) -> Any:
        if event.anchor not in self._known:
            problem = f"the alias *{event.anchor[:60]} repeats nothing that ends before it"
            raise self.error(event.start_mark, problem, f"give &{event.anchor[:60]} to an earlier value")
        value, number, levels = self._known[event.anchor]
        self._values, self._repeated = self._values + number, self._repeated + number
        if self._repeated > _MAX_REPEATED:
            problem = f"aliases (*name) repeat more than {_MAX_REPEATED:,} values"
            raise self.error(event.start_mark, problem, "write out those that are needed")
        self._deepest = max(self._deepest, level - 1 + levels)
        self._check_level(event)
        return value

    def _scalar(self, event: Any) -> Any:
        """The value of a scalar, by its tag if it has one; the tag ``!`` makes it text."""
        if event.tag is None:
            make: Any = _plain if event.implicit[0] else str
        else:
            make = str if event.tag == "!" else _OF_TEXT.get(event.tag.removeprefix(_TAG))
        if make is None:
            raise self._wrong_tag(event)
        try:
            return make(event.value)
        except (KeyError, ValueError) as error:  # a number of thousands of digits, `!!bool maybe`
            problem = f"a value cannot be read ({error})"
            raise self.error(event.start_mark, problem, "write it as plain text or number") from None

    def _wrong_tag(self, event: Any) -> InvalidInstance:
        kind = event.tag.removeprefix(_TAG)
        problem = f"the tag {event.tag[:60]!r} is not known here"
        if kind in (*_OF_TEXT, "map", "seq"):
            problem = f"the tag {kind!r} is that of another kind of value"
        return self.error(event.start_mark, problem, _WITHOUT_TAGS)


@lru_cache(maxsize=1 << 16)
def _plain(text: str) -> Any:
    """The value of a plain scalar."""
    match = _PLAIN.fullmatch(text)
    return text if match is None else _OF_TEXT[str(match.lastgroup)](text)
