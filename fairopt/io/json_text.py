"""Reads JSON and validates it with pydantic models; errors name the place, the value and the fix."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.text_files import read_text
from fairopt.runtime.progress import EVERY, observed, tell

_Model = TypeVar("_Model", bound=BaseModel)
_FEW, _MANY = 100, 1_000  # list items written one by one, and per string


def read_json_text(path: str | os.PathLike[str], expected: str) -> dict[str, Any]:
    """The JSON object in a file in UTF-8, as `json_of_text`.

    Parameters
    ----------
    path : path-like
        The file.
    expected : str
        What errors end with.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.read_json_text("no-such.json", "expected a list of hosts")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: no-such.json cannot be read (No such file or directory); expected a list of hosts
    """
    return json_of_text(read_text(path, expected), os.fspath(path), expected)


def json_of_text(text: str, name: str, expected: str) -> dict[str, Any]:
    """The JSON object that a text holds; keys given twice are errors.

    ``NaN`` and ``Infinity`` become floats; models of finite numbers reject them and name their place.

    Parameters
    ----------
    text : str
        The text.
    name : str
        The name of the file, for messages.
    expected : str
        What errors end with.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.json_of_text('{"a": 1, "a": 2}', "x.json", "expected hosts")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: x.json: the key 'a' is given twice in one object; keep one
    """
    if not text.strip():
        raise InvalidInstance(f"{name} is empty; {expected}")
    if not text.lstrip().startswith("{"):
        raise InvalidInstance(f"{name}: the text does not start with '{{'; {expected}")
    try:
        data: dict[str, Any] = json.loads(text, **_hooks(f"parts of {os.path.basename(name)}"))
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        fix = "the file seems to be truncated" if cut else "check the commas, quotes and brackets there"
        fix = "give one object; 'jq -s add' makes one of several" if error.msg == "Extra data" else fix
        raise InvalidInstance(f"{name}, line {error.lineno}, column {error.colno}: {error.msg}; {fix}") from None
    except InvalidInstance as error:
        raise InvalidInstance(f"{name}: {error}") from None
    except RecursionError:
        raise InvalidInstance(f"{name}: the brackets are nested too deeply; {expected}") from None
    except ValueError as error:  # a number with thousands of digits
        raise InvalidInstance(f"{name}: a number cannot be read ({error}); give it with fewer digits") from None
    return data


def _hooks(what: str) -> dict[str, Any]:
    """Hooks for `json.loads`; if progress is reported, numbers are counted too, since most files are mostly numbers."""
    if not observed():
        return {"object_pairs_hook": _unique_keys}
    made = itertools.count(1)

    def reporting(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def convert(part: Any) -> Any:
            if not (done := next(made)) % EVERY:
                tell(what, done)
            return make(part)

        return convert

    return {"object_pairs_hook": reporting(_unique_keys), "parse_float": reporting(float), "parse_int": reporting(int)}


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for k, key in enumerate(keys) if key in keys[:k])
        raise InvalidInstance(f"the key {repeated[:60]!r} is given twice in one object; keep one")
    return out


def json_parts(value: Any) -> Iterator[str]:
    """The output of `json.dumps` in short strings. Arrays become lists; keys must be strings."""
    if isinstance(value, Mapping):
        yield "{"
        for k, (key, item) in enumerate(value.items()):
            yield f"{', ' if k else ''}{json.dumps(key)}: "
            yield from json_parts(item)
        yield "}"
    elif isinstance(value, (list, tuple)) and len(value) <= _FEW:
        yield "["
        for k, item in enumerate(value):
            yield ", " if k else ""
            yield from json_parts(item)
        yield "]"
    elif isinstance(value, (list, tuple, np.ndarray)):
        rows = max(1, _MANY // max(1, value[:1].size)) if isinstance(value, np.ndarray) else _MANY
        yield "["
        for start in range(0, len(value), rows):
            some = value[start : start + rows]
            text = json.dumps(some.tolist() if isinstance(some, np.ndarray) else some)[1:-1]
            yield f", {text}" if start else text
        yield "]"
    else:
        yield json.dumps(value)


class Part(BaseModel):
    """A model of pydantic for a part of a document: unknown keys are ignored, and null means missing.

    Examples
    --------
    >>> import fairopt as fo
    >>> class Host(fo.io.Part):
    ...     name: str
    ...     cores: int = 1
    >>> Host.model_validate({"name": "n1", "cores": None, "rack": 7})
    Host(name='n1', cores=1)
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if data is None:
            return {}
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data


_FIXES = {
    "float_type": "give a number",
    "int_type": "give a whole number",
    "int_from_float": "give a whole number",
    "bool_type": "give true or false",
    "string_type": "give text in double quotes",
    "list_type": "give a list",
    "dict_type": "give an object",
    "model_type": "give an object",
    "model_attributes_type": "give an object",
    "finite_number": "give a finite number (null for no task limit)",
    "greater_than_equal": "give a number >= {ge:g}",
    "greater_than": "give a number > {gt:g}",
    "less_than_equal": "give a number <= {le}",
}
_TAGS = {"<1>", "<2>", "<3>", "<one>", "<object>"}  # of unions: pydantic adds them to the locations of errors


def checked(model: type[_Model], data: Any, name: str, at: str = "") -> _Model:
    """The data as a model of pydantic; `InvalidInstance` names the document, the place in it, the value and the fix.

    Parameters
    ----------
    model : type
        The model.
    data : object
        What a document holds.
    name : str
        The name of the document.
    at : str, default ""
        Where the data is in it, such as ``"hosts[3]"``.

    Examples
    --------
    >>> import fairopt as fo
    >>> class Host(fo.io.Part):
    ...     cores: int
    >>> fo.io.checked(Host, {"cores": "many"}, "hosts.json", "hosts[3]")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: hosts.json: hosts[3].cores is "many"; give a whole number
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    first = problems[0]
    keys = [f"[{key}]" if isinstance(key, int) else f".{shown_key(key)}" for key in first["loc"] if key not in _TAGS]
    place = "".join([at, *keys]).removeprefix(".")
    given = first.get("ctx", {})
    if first["type"] == "missing":
        text = f"{place} is missing; add it"
    elif first["type"] == "extra_forbidden":
        known = [field.alias or key for key, field in model.model_fields.items()]
        text = f"unknown key {place!r}; {nearest(place[:60], known)}"
    else:
        fix = given.get("error") or _FIXES.get(first["type"], first["msg"]).format(**given)
        text = f"{place} is {shown(first['input'])}; {fix}"
    others = len(problems) - 1
    raise InvalidInstance(f"{name}: {text}" + (f" (and {others} more error{'s' * (others > 1)})" if others else ""))


def shown(value: Any) -> str:
    """A value for a message, as short JSON.

    Parameters
    ----------
    value : object
        Any value.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.shown("a"), fo.io.shown({"a": 1}), fo.io.shown([1])
    ('"a"', 'an object', 'a list')
    """
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__}"
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):  # not JSON, or a number with thousands of digits
        return f"of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def shown_key(key: str) -> str:
    r"""A key for a place in a message: short and printable.

    Parameters
    ----------
    key : str
        The key.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.shown_key("cpu"), fo.io.shown_key("a\tb")
    ('cpu', '"a\\tb"')
    """
    return key if len(key) <= 60 and key.isprintable() else shown(key)
