"""An instance as one JSON file, checked against a schema that ships as ``instance.schema.json``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from fairopt.errors import InvalidInstance, nearest
from fairopt.instance import Instance

__all__ = ["read_json", "schema", "write_json"]

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=2**53)]


def _depth(value: Any) -> str:
    """How deep the lists go, told from the first entries: 1, 2 or 3."""
    depth = 1
    while isinstance(value, list) and value and isinstance(value[0], list) and depth < 3:
        value = value[0]
        depth += 1
    return f"<{depth}>"


def _two_or_three(value: Any) -> str:
    return "<3>" if _depth(value) == "<3>" else "<2>"


def _one_or_two(value: Any) -> str:
    return "<1>" if _depth(value) == "<1>" else "<2>"


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "<list>"
    return "<object>" if isinstance(value, dict) else "<one>"


def _object_or_list(value: Any) -> str:
    return "<object>" if isinstance(value, dict) else "<list>"


class _File(BaseModel):
    """An instance of fair resource allocation: what one task of each user takes, and what each server has."""

    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)

    schema_: Annotated[str | None, Field(alias="$schema")] = None
    """Where editors find this schema; not read."""
    demands: Annotated[
        Annotated[list[list[_Amount]], Tag("<2>")] | Annotated[list[list[list[_Amount]]], Tag("<3>")],
        Discriminator(_two_or_three),
    ]
    """Units that one task takes: users x resources, or users x servers x resources."""
    capacities: Annotated[
        Annotated[list[_Amount], Tag("<1>")] | Annotated[list[list[_Amount]], Tag("<2>")], Discriminator(_one_or_two)
    ]
    """Units on each server: resources (one pool), or servers x resources."""
    users: list[str] | None = None
    """Labels of the users."""
    resources: list[str] | None = None
    """Labels of the resources."""
    servers: list[str] | None = None
    """Labels of the servers."""
    server_types: list[str] | None = None
    """What kind of server each row of capacities is, as the model of its GPUs, for reports by type."""
    units: Annotated[
        Annotated[list[str] | None, Tag("<list>")] | Annotated[dict[str, str], Tag("<object>")],
        Discriminator(_object_or_list),
    ] = None
    """What each resource is counted in, as GiB: a list by resource, or an object by resource's label."""
    weights: Annotated[
        Annotated[_Weight | None, Tag("<one>")]
        | Annotated[list[_Weight], Tag("<list>")]
        | Annotated[dict[str, _Weight], Tag("<object>")],
        Discriminator(_kind),
    ] = None
    """Entitlements: one number for all, a list by user, or an object by user's label. Default 1."""
    task_limits: Annotated[
        Annotated[_Amount | None, Tag("<one>")]
        | Annotated[list[_Amount | None], Tag("<list>")]
        | Annotated[dict[str, _Amount | None], Tag("<object>")],
        Discriminator(_kind),
    ] = None
    """At most so many tasks, null for no limit: one number for all, a list by user, or an object by user's label."""
    eligible: Annotated[
        Annotated[list[list[bool]] | None, Tag("<list>")] | Annotated[dict[str, list[str]], Tag("<object>")],
        Discriminator(_object_or_list),
    ] = None
    """Who may run where: users x servers, or an object of lists of servers' labels by user's label."""
    counts: list[_Count] | None = None
    """How many identical servers each row of capacities stands for. Default 1."""


_KEYS = ["$schema" if name == "schema_" else name for name in _File.model_fields]
_TAGS = {"<1>", "<2>", "<3>", "<one>", "<list>", "<object>"}
_FIXES = {
    "float_type": "give a number", "int_type": "give a whole number", "int_from_float": "give a whole number",
    "bool_type": "give true or false", "string_type": "give text in double quotes", "list_type": "give a list",
    "dict_type": "give an object", "finite_number": "give a finite number (null for no task limit)",
    "greater_than_equal": "give a number >= {ge:g}", "greater_than": "give a number > {gt:g}",
    "less_than_equal": "give a number <= {le}",
}  # fmt: skip


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of instance files, the same that ships as ``instance.schema.json``.

    Returns
    -------
    dict
        A new one each time.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.datasets.schema()["required"]
    ['demands', 'capacities']
    """

    def plain(node: Any) -> Any:  # an empty list fits several branches, which oneOf would refuse; titles say nothing
        if isinstance(node, dict):
            kept = {key: value for key, value in node.items() if key != "title"}
            return {("anyOf" if key == "oneOf" else key): plain(value) for key, value in kept.items()}
        return [plain(value) for value in node] if isinstance(node, list) else node

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **plain(_File.model_json_schema())}


def read_json(path: str | os.PathLike[str]) -> Instance:
    """Read an instance from a JSON file.

    Parameters
    ----------
    path : path-like
        A file as `schema` describes it and `write` makes it.

    Returns
    -------
    Instance

    Raises
    ------
    InvalidInstance
        Names the file, the line and column or the key, the value and the fix.
    """
    name = os.fspath(path)
    data = _parsed(Path(path), name)
    try:
        _File.model_validate(data)
    except ValidationError as error:
        raise InvalidInstance(f"{name}: {_explained(error)}") from None
    data.pop("$schema", None)
    for key in ("demands", "capacities", "eligible"):
        _check_equal_rows(data.get(key), key, name)
    try:
        return Instance(**data)
    except InvalidInstance as error:
        raise InvalidInstance(f"{name}: {error}") from error


def _parsed(path: Path, name: str) -> dict[str, Any]:
    expected = "expected one JSON object with the keys demands and capacities"
    try:
        with path.open("rb") as file:
            start = file.peek(4096)[:4096].removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
            if start and not start.startswith(b"{"):  # told before a large file of something else is read
                raise InvalidInstance(f"{name}: the file does not start with '{{'; {expected}")
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problem = f"this is not UTF-8 ({error.reason}); save the file as UTF-8"
        raise InvalidInstance(f"{name}, line {line}: {problem}") from None
    except OSError as error:
        raise InvalidInstance(f"{name} cannot be read ({error.strerror}); {expected}") from error
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
        raise InvalidInstance(f"{name}: the brackets are nested too deep for an instance; {expected}") from None
    except ValueError as error:  # a number of thousands of digits
        raise InvalidInstance(f"{name}: a number cannot be read ({error}); give it with fewer digits") from None
    if not isinstance(data, dict):
        raise InvalidInstance(f"{name} holds {_shown(data)}; {expected}")
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


def _explained(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    first = problems[0]
    location = first["loc"]
    if len(location) > 1 and location[1] in _TAGS:
        location = location[:1] + location[2:]
    place = ".".join(map(str, location))
    if first["type"] == "missing":
        text = f"the key {place!r} is missing; add it"
    elif first["type"] == "extra_forbidden":
        text = f"unknown key {place!r}; {nearest(place, _KEYS)}"
    else:
        fix = _FIXES.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
        text = f"{place} is {_shown(first['input'])}; {fix}"
    others = len(problems) - 1
    return text + (f" (and {others} more like it)" if others else "")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_equal_rows(rows: Any, place: str, name: str) -> None:
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], list):
        return
    for k, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidInstance(
                f"{name}: {place}.{k} has {len(row)} entries where {place}.0 has {len(rows[0])}; give equal rows"
            )
        _check_equal_rows(row, f"{place}.{k}", name)


def write_json(instance: Instance, path: Path) -> None:
    """Write an instance as a JSON file, exact to the last bit, one user or server to a line.

    Parameters
    ----------
    instance : Instance
        What to write.
    path : Path
        The file, replaced if it is there.
    """
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in instance.to_dict().items() if value is not None]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n  " + ",\n  ".join(json.dumps(row, allow_nan=False) for row in value) + "\n]"
    return json.dumps(value, allow_nan=False)
