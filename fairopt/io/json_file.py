"""An instance as one JSON file, checked against a schema that ships as ``instance.schema.json``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.arguments import Arguments
from fairopt.io.json_text import read_json_text, shown
from fairopt.io.saving import replacing

if TYPE_CHECKING:
    from fairopt.instance import Instance

__all__ = ["arguments_of_data", "read_json", "schema", "write_json"]

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=2**53)]
_Item = TypeVar("_Item")
_Rows = Annotated[list[_Item], Field(fail_fast=True)]  # a fault takes 1 kB: 8 million in one file took 8 GB
_LARGEST_OBJECT = 1_000_000  # users; pydantic lists every fault in an object


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
        Annotated[_Rows[_Rows[_Amount]], Tag("<2>")] | Annotated[_Rows[_Rows[_Rows[_Amount]]], Tag("<3>")],
        Discriminator(_two_or_three),
    ]
    """Units that one task takes: users x resources, or users x servers x resources."""
    capacities: Annotated[
        Annotated[_Rows[_Amount], Tag("<1>")] | Annotated[_Rows[_Rows[_Amount]], Tag("<2>")], Discriminator(_one_or_two)
    ]
    """Units on each server: resources (one pool), or servers x resources."""
    users: _Rows[str] | None = None
    """Labels of the users."""
    resources: _Rows[str] | None = None
    """Labels of the resources."""
    servers: _Rows[str] | None = None
    """Labels of the servers."""
    server_types: _Rows[str] | None = None
    """What kind of server each row of capacities is, as the model of its GPUs, for reports by type."""
    units: Annotated[
        Annotated[_Rows[str] | None, Tag("<list>")] | Annotated[dict[str, str], Tag("<object>")],
        Discriminator(_object_or_list),
    ] = None
    """What each resource is counted in, as GiB: a list by resource, or an object by resource's label."""
    weights: Annotated[
        Annotated[_Weight | None, Tag("<one>")]
        | Annotated[_Rows[_Weight], Tag("<list>")]
        | Annotated[dict[str, _Weight], Tag("<object>")],
        Discriminator(_kind),
    ] = None
    """Entitlements: one number for all, a list by user, or an object by user's label. Default 1."""
    task_limits: Annotated[
        Annotated[_Amount | None, Tag("<one>")]
        | Annotated[_Rows[_Amount | None], Tag("<list>")]
        | Annotated[dict[str, _Amount | None], Tag("<object>")],
        Discriminator(_kind),
    ] = None
    """At most so many tasks, null for no limit: one number for all, a list by user, or an object by user's label."""
    eligible: Annotated[
        Annotated[_Rows[_Rows[bool]] | None, Tag("<list>")] | Annotated[dict[str, _Rows[str]], Tag("<object>")],
        Discriminator(_object_or_list),
    ] = None
    """Who may run where: users x servers, or an object of lists of servers' labels by user's label."""
    counts: _Rows[_Count] | None = None
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


def read_json(path: str | os.PathLike[str]) -> Arguments:
    """Read an instance from a JSON file, as `schema` describes it and `write_json` makes it."""
    data = read_json_text(path, "expected one JSON object with the keys demands and capacities")
    return arguments_of_data(data, os.fspath(path))


def arguments_of_data(data: dict[str, Any], name: str) -> Arguments:
    """The arguments that the plain data of a file describe, checked against the schema."""
    unknown = next((key for key in data if key not in _KEYS), None)
    if unknown is not None and len(data) > len(_KEYS):  # pydantic would list each: 1.5 million keys took 1.2 GB
        raise InvalidInstance(f"{name}: unknown key {shown(unknown)}; {nearest(unknown[:60], _KEYS)}")
    for key, value in data.items():
        if isinstance(value, dict) and len(value) > _LARGEST_OBJECT:
            raise InvalidInstance(f"{name}: {key} is an object of {len(value):,} users; give a list by user")
    try:
        _File.model_validate(data)
    except ValidationError as error:
        raise InvalidInstance(f"{name}: {_explained(error)}") from None
    data.pop("$schema", None)
    for key in ("demands", "capacities", "eligible"):
        _check_equal_rows(data.get(key), key, name)
    return Arguments(data, (name,))


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
        text = f"{place} is {shown(first['input'])}; {fix}"
    others = len(problems) - 1
    return text + (f" (and {others} more like it)" if others else "")


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
    """Write an instance as a JSON file, exact to the last bit, one user or server to a line."""
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in instance.to_dict().items() if value is not None]
    with replacing([path]) as (part,):
        part.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n  " + ",\n  ".join(json.dumps(row, allow_nan=False) for row in value) + "\n]"
    return json.dumps(value, allow_nan=False)
