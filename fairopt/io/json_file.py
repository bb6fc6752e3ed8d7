"""Instances as JSON files, checked by a pydantic model whose schema ships as ``instance.schema.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import checked
from fairopt.io.notes import Arguments, closed_servers
from fairopt.io.saving import write_whole

if TYPE_CHECKING:
    from fairopt.instance import Instance

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=2**53)]
_Item = TypeVar("_Item")
_Rows = Annotated[list[_Item], Field(fail_fast=True)]  # report the first fault only: each takes 1 kB


def _by_shape(*tags: str) -> Discriminator:
    """Chooses one of some tags: ``<object>``, lists in lists by their depth, as ``<2>``, or ``<one>`` for the rest."""
    depths = sorted(tag for tag in tags if tag[1:-1].isdigit())

    def tag_of(value: Any) -> str:
        if isinstance(value, dict) and "<object>" in tags:
            return "<object>"
        depth = 0
        while isinstance(value, list):
            depth, value = depth + 1, value[0] if value else None
        if not depths or (not depth and "<one>" in tags):
            return "<one>"
        return min(max(f"<{depth}>", depths[0]), depths[-1])

    return Discriminator(tag_of)


_ListOrObject = Annotated[
    Annotated[_Rows[_Item] | None, Tag("<1>")] | Annotated[dict[str, _Item], Tag("<object>")],
    _by_shape("<1>", "<object>"),
]
_Labels = Annotated[
    Annotated[_Rows[str | None], Tag("<1>")] | Annotated[dict[str, str | None], Tag("<object>")],
    _by_shape("<1>", "<object>"),
]
_PerUser = Annotated[
    Annotated[_Item | None, Tag("<one>")]
    | Annotated[_Rows[_Item], Tag("<1>")]
    | Annotated[dict[str, _Item], Tag("<object>")],
    _by_shape("<one>", "<1>", "<object>"),
]
_Guarantee = Annotated[
    Annotated[_Amount, Tag("<one>")] | Annotated[dict[str, _Amount], Tag("<object>")], _by_shape("<one>", "<object>")
]


class _Limit(BaseModel):
    """The most of a resource that users take together."""

    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)

    name: str | None = None
    """Its name in messages."""
    resource: str
    """The label of the resource."""
    amount: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The most units."""
    of: dict[str, _Rows[str] | None]
    """By label of a user or team, the labels of the servers on which its use counts, null for all."""


class _File(BaseModel):
    """An instance of fair resource allocation: demands of one task of each user, and capacities of servers."""

    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)

    schema_: Annotated[str | None, Field(alias="$schema")] = None
    """The place of this schema, for editors; not read."""
    demands: Annotated[
        Annotated[_Rows[_Rows[_Amount]], Tag("<2>")] | Annotated[_Rows[_Rows[_Rows[_Amount]]], Tag("<3>")],
        _by_shape("<2>", "<3>"),
    ]
    """Units that one task takes: users x resources, or users x servers x resources."""
    capacities: Annotated[
        Annotated[_Rows[_Amount], Tag("<1>")] | Annotated[_Rows[_Rows[_Amount]], Tag("<2>")], _by_shape("<1>", "<2>")
    ]
    """Units on each server: resources (one pool), or servers x resources."""
    users: _Rows[str] | None = None
    """Labels of the users."""
    resources: _Rows[str] | None = None
    """Labels of the resources."""
    servers: _Rows[str] | None = None
    """Labels of the servers."""
    server_types: _Rows[str] | None = None
    """The type of server of each row of capacities, as the model of its GPUs, for reports by type."""
    units: _ListOrObject[str] = None
    """The unit of each resource, as GiB: a list by resource, or an object by resource's label."""
    weights: _PerUser[_Weight] = None
    """Entitlements: one number for all, a list by user, or an object by label of a user or team. Default 1."""
    task_limits: _PerUser[_Amount | None] = None
    """The most tasks of a user, null for no limit: one number for all, a list by user, or an object by user's label."""
    eligible: Annotated[
        Annotated[_Rows[_Rows[bool]] | None, Tag("<1>")] | Annotated[dict[str, _Rows[str]], Tag("<object>")],
        _by_shape("<1>", "<object>"),
    ] = None
    """Which servers users may run on: users x servers, or an object of lists of servers' labels by user's label."""
    counts: _Rows[_Count] | None = None
    """How many identical servers each row of capacities stands for. Default 1."""
    teams: dict[str, _Labels] | None = None
    """Labels of users, as team or org: of each a list by user, null for none, or an object by user's label."""
    innermost_first: _Rows[str] | None = None
    """The names of the labels in `teams` from the innermost out, as team before org. Default: where the teams of one
    label lie within those of another, it is the inner one; else the order in `teams`."""
    guarantees: Annotated[
        Annotated[_Amount | None, Tag("<one>")]
        | Annotated[_Rows[_Amount], Tag("<1>")]
        | Annotated[dict[str, _Guarantee], Tag("<object>")],
        _by_shape("<one>", "<1>", "<object>"),
    ] = None
    """What users and teams get first: tasks by user, and of a team an object of units by resource."""
    rates: Annotated[
        Annotated[_Rows[_Rows[_Amount]] | None, Tag("<1>")] | Annotated[dict[str, _PerUser[_Amount]], Tag("<object>")],
        _by_shape("<1>", "<object>"),
    ] = None
    """Speeds of users on servers: users x servers, or an object by label of a user or team."""
    held: Annotated[
        Annotated[_Rows[_Amount] | None, Tag("<1>")]
        | Annotated[_Rows[_Rows[_Amount]], Tag("<2>")]
        | Annotated[dict[str, _PerUser[_Amount]], Tag("<object>")],
        _by_shape("<1>", "<2>", "<object>"),
    ] = None
    """Tasks that run now, for reports: users x servers, a list by user, or an object by label of a user."""
    limits: _Rows[_Limit] | None = None
    """The most that users take together of a resource on some servers."""


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of instance files; see `fairopt.datasets.schema`."""

    def plain(node: Any) -> Any:  # drop titles; oneOf would refuse an empty list, which fits several branches
        if isinstance(node, dict):
            kept = {key: value for key, value in node.items() if key != "title"}
            return {("anyOf" if key == "oneOf" else key): plain(value) for key, value in kept.items()}
        return [plain(value) for value in node] if isinstance(node, list) else node

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **plain(_File.model_json_schema())}


def arguments_of_data(data: dict[str, Any], name: str) -> Arguments:
    """Check the parsed data of a file, and return the arguments in it."""
    checked(_File, data, name)
    data.pop("$schema", None)
    for key in ("demands", "capacities", "eligible", "rates", "held"):
        _check_equal_rows(data.get(key), key, name)
    lists, servers = data.get("eligible"), data.get("servers")
    if isinstance(lists, dict) and lists and servers:
        known = {label for labels in lists.values() for label in labels}
        every = set(data.get("users") or ()) == lists.keys()
        data["notes"] = closed_servers(servers, (label in known for label in servers), f"list of {name}", every)
    return Arguments(data, (name,))


def _check_equal_rows(rows: Any, place: str, name: str) -> None:
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], list):
        return
    for k, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidInstance(
                f"{name}: {place}[{k}] has {len(row)} entries where {place}[0] has {len(rows[0])}; give equal rows"
            )
        _check_equal_rows(row, f"{place}[{k}]", name)


def write_json(instance: Instance, path: Path) -> None:
    """Write an instance as a JSON file, exact to the last bit, with one user or server per line."""
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in instance.to_dict().items() if value is not None]
    write_whole(path, "{\n" + ",\n".join(parts) + "\n}\n")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n  " + ",\n  ".join(json.dumps(row, allow_nan=False) for row in value) + "\n]"
    return json.dumps(value, allow_nan=False)
