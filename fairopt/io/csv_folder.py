"""Instances as folders of CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io.assemble import TITLES, named, reader_of_tables, refuse_name, tables_of
from fairopt.io.notes import Arguments
from fairopt.io.saving import replacing
from fairopt.io.tables import LONGEST_CELL, escaped, read_table

if TYPE_CHECKING:
    from fairopt.instance import Instance

_read = reader_of_tables(read_table)


def read_csv_tables(
    users: Any, servers: Any, demands: Any = None, teams: Any = None, labels: Sequence[str] = ()
) -> Arguments:
    """The arguments of an instance in CSV files, as `fairopt.read` reads them in a folder.

    Parameters
    ----------
    users, servers : path-like
        The files; ``users`` may be None.
    demands, teams : path-like, optional
        Demands or rates by server, and what teams have.
    labels : sequence of str, default ()
        Columns of users that are labels.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> fo.datasets.write(fo.Instance([[1, 2]], [4, 8]), folder)
    >>> fo.io.read_csv_tables(folder / "users.csv", folder / "servers.csv").values["users"]
    ['user1']
    """
    return _read(users, servers, demands, teams, labels)


def write_tables(instance: Instance, folder: Path) -> None:
    """Write an instance as CSV files, exact to the last bit, and remove older tables that it does not need."""
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
    older = [folder / f"{title}.csv" for title in TITLES if title not in tables]
    with replacing([folder / f"{title}.csv" for title in tables], folder, older) as new:
        for file, (title, columns) in zip(new, tables.items(), strict=True):
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(map(escaped, columns))
            writer.writerows(zip(*lines[title], strict=True))
            text.detach()  # flushes, and leaves the file open


def _cells(column: Any) -> Iterable[str]:
    if isinstance(column, np.ndarray):
        return ["" if value == np.inf else repr(value).removesuffix(".0") for value in column.tolist()]
    return ["" if cell is None else escaped(cell) for cell in column]
