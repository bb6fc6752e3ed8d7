"""`read` and `write`: an instance from and to whatever kind of file or folder a path is."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

from fairopt.datasets.alibaba import SERVERS_FILE, openb
from fairopt.datasets.folder import read_tables, write_tables
from fairopt.datasets.jsonfile import read_json, write_json
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance

__all__ = ["demo", "read", "write"]

_EXPECTED = (
    "give a folder with users.csv and servers.csv, a .json file, "
    f"or a folder of the openb trace (with {SERVERS_FILE})"
)  # fmt: skip


def read(
    path: str | os.PathLike[str], *, pods: str | None = None, capacity_scale: float | None = None,
    backlog: bool | None = None,
) -> Instance:  # fmt: skip
    """Read an instance from a folder of two CSV files, from a JSON file, or from a folder of the openb trace.

    Parameters
    ----------
    path : path-like
        One of

        * a folder with ``users.csv`` (columns ``user``, optionally ``weight``, ``task_limit`` and ``servers``, the
          names of servers joined by ``|``; every other column is a resource, in units per task) and ``servers.csv``
          (``server``, optionally ``count`` and ``type``; every other column is a resource, in units on each server),
        * a file that ends in ``.json``, see `fairopt.datasets.schema`,
        * a folder of the openb trace, see `fairopt.datasets.openb`.
    pods, capacity_scale, backlog : optional
        For a folder of the openb trace only: passed on to `fairopt.datasets.openb`.

    Returns
    -------
    Instance

    Raises
    ------
    InvalidInstance
        If there is nothing to read, or something is wrong in it; the message names the file, the line and column
        or the key, the value and the fix.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import fairopt as fo
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cluster.json"
    >>> _ = file.write_text(json.dumps({"demands": [[40, 8, 8], [8, 5, 1]], "capacities": [200, 200, 200]}))
    >>> fo.read(file)
    Instance(2 users x 3 resources on 1 server)
    """
    options: dict[str, Any] = {"pods": pods, "capacity_scale": capacity_scale, "backlog": backlog}
    given = {key: value for key, value in options.items() if value is not None}
    place = Path(path)
    if place.is_dir() and (place / SERVERS_FILE).is_file():
        return openb(path, **given)
    if given:
        raise InvalidInstance(
            f"{next(iter(given))!r} is an option for folders of the openb trace, and {place} is none "
            f"(it has no {SERVERS_FILE}); leave it out, or give such a folder"
        )
    if place.is_dir():
        for name in ("users.csv", "servers.csv"):
            if not (place / name).is_file():
                raise InvalidInstance(f"{place} has no file {name}; {_EXPECTED}")
        return read_tables(place / "users.csv", place / "servers.csv")
    if place.suffix.lower() == ".json":
        return read_json(place)
    if not place.exists():
        raise InvalidInstance(f"{place} does not exist; {_EXPECTED}")
    hint = "give the folder that it is in" if place.name in ("users.csv", "servers.csv") else _EXPECTED
    raise InvalidInstance(f"{place} is no kind of file that can be read; {hint}")


def write(instance: Instance, path: str | os.PathLike[str]) -> None:
    """Write an instance so that `read` gives an equal one, exact to the last bit.

    Parameters
    ----------
    instance : Instance
        What to write.
    path : path-like
        A file if it ends in ``.json``, else a folder for ``users.csv`` and ``servers.csv``, made if it is not there.
        What was there under these names is replaced.

    Raises
    ------
    InvalidInstance
        If CSV tables could not hold it: demands that differ by server, or names such as ``" a"``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> fo.datasets.write(fo.datasets.demo(), folder / "demo.json")
    >>> fo.read(folder / "demo.json") == fo.datasets.demo()
    True
    """
    place = Path(path)
    if place.suffix.lower() == ".json":
        write_json(instance, place)
    else:
        write_tables(instance, place)


def demo() -> Instance:
    """A small cluster of our own, made up: ten users who want more than four kinds of servers have.

    Returns
    -------
    Instance
        Resources cpu (cores), memory (GiB), gpu and bandwidth (Gbit/s), with weights, task limits and
        placement constraints.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.datasets.demo()
    Instance(10 users x 4 resources on 23 servers in 4 rows, weights, task limits, placement constraints)
    """
    folder = resources.files("fairopt.datasets") / "demo"
    with resources.as_file(folder / "users.csv") as users, resources.as_file(folder / "servers.csv") as servers:
        return read_tables(users, servers)
