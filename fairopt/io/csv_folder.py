"""An instance as a folder of CSV files: ``users.csv``, ``servers.csv`` and, where demands differ, ``demands.csv``."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io.arguments import Arguments
from fairopt.io.assemble import ABOUT_DEMANDS, arguments_of_servers, arguments_of_tables, named, refuse_name, tables_of
from fairopt.io.saving import replacing
from fairopt.io.tables import LONGEST_CELL, escaped, read_table

if TYPE_CHECKING:
    from fairopt.instance import Instance

__all__ = ["read_servers", "read_tables", "write_tables"]


def read_tables(
    users_path: str | os.PathLike[str],
    servers_path: str | os.PathLike[str],
    demands_path: str | os.PathLike[str] | None = None,
) -> Arguments:
    """Read an instance from CSV files, as `fairopt.datasets.read` describes them."""
    servers = read_table(servers_path, required=("server",))
    users = read_table(users_path, required=("user",))
    demands = None if demands_path is None else read_table(demands_path, required=ABOUT_DEMANDS)
    return arguments_of_tables(users, servers, demands)


def read_servers(path: Path) -> Arguments:
    """Read the servers of an instance without users from the CSV file of servers alone."""
    return arguments_of_servers(read_table(path, required=("server",)))


def write_tables(instance: Instance, folder: Path, removing: Sequence[Path] = ()) -> None:
    """Write an instance as ``users.csv``, ``servers.csv`` and, where needed, ``demands.csv``, exact to the last bit."""
    tables = tables_of(instance, joined=True)
    for kind, names in named(instance):
        for name in names:
            if not name or name != name.strip() or min(name) < " " or len(escaped(name)) > LONGEST_CELL:
                refuse_name(kind, name, "is empty, very long, or holds blanks at its ends or control characters")
    for user, cell in zip(instance.users, tables["users"].get("servers", ()), strict=False):
        if cell and len(escaped(cell)) > LONGEST_CELL:
            raise InvalidInstance(
                f"the servers of user {user!r} take more than {LONGEST_CELL} characters, too many for a CSV cell; "
                "merge identical servers with .merged(), or write to a .json file"
            )
    lines = {title: [_cells(column) for column in columns.values()] for title, columns in tables.items()}
    with replacing([folder / f"{title}.csv" for title in tables], folder, removing) as new:
        for file, (title, columns) in zip(new, tables.items(), strict=True):
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(map(escaped, columns))
            writer.writerows(zip(*lines[title], strict=True))
            text.detach()  # with all it holds; the file stays open


def _cells(column: Any) -> Iterable[str]:
    if isinstance(column, np.ndarray):
        return ["" if value == np.inf else repr(value).removesuffix(".0") for value in column.tolist()]
    return ["" if cell is None else escaped(cell) for cell in column]
