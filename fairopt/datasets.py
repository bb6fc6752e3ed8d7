"""Instances from files, and generators of instances.

`read` and `write` take files; `demo` ships with the package. `log_uniform` and `google_servers` generate instances.
`library` has named instances with certified answers. `instance_of` makes an instance of what a reader returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources as package_files
from pathlib import Path
from typing import Any

from fairopt.errors import OutOfTime, within_memory
from fairopt.instance import Instance
from fairopt.instance.parts import merged_within_limits
from fairopt.instances.cloud_data_centers import GoogleServers, google_servers
from fairopt.instances.library.answers import Agreement, Answer
from fairopt.instances.library.cases import Case, Source
from fairopt.instances.library.library import Library, library
from fairopt.instances.random import log_uniform
from fairopt.io import parquet
from fairopt.io.assemble import USER_COLUMNS as USER_COLUMNS
from fairopt.io.csv_folder import read_csv_tables
from fairopt.io.files import read_path, write
from fairopt.io.frames import read_frames
from fairopt.io.notes import Arguments
from fairopt.io.text_files import about
from fairopt.runtime.clock import Clock, Late
from fairopt.runtime.extensions import moved

__all__ = [
    "Agreement",
    "Answer",
    "Case",
    "GoogleServers",
    "Library",
    "Source",
    "demo",
    "google_servers",
    "instance_of",
    "library",
    "log_uniform",
    "read",
    "schema",
    "write",
]


__path__: list[str] = []  # so that `from fairopt.datasets import kubernetes` says where it is, as of packages


def __getattr__(name: str) -> Any:
    """Where names are that left the module."""
    place = f"fairopt.datasets.{name}"
    raise AttributeError(f"module 'fairopt.datasets' has no attribute {name!r}{moved(place)}")


def read(
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    full_demand: bool = False,
    scale_quotas: bool | None = None,
    time_limit: float | None = None,
    **options: Any,
) -> Instance:
    """Read an instance from a file or a folder of any supported kind.

    Parameters
    ----------
    path : path-like
        One of

        * a folder with ``users.csv`` (columns ``user``, optionally ``weight``, ``task_limit``, ``guarantee`` in tasks,
          ``held``, the tasks that run now, ``team``, and ``servers``, the names of servers joined by ``|``; a column
          ``org [team]`` is the label ``org`` of users, and every other column is a resource, in units per task) and
          ``servers.csv``
          (``server``, optionally ``count`` and ``type``; every other column is a resource, in units on each server).
          A column ``memory [GiB]`` is the resource ``memory`` in GiB, in both tables; any other header, as
          ``memory (GiB)``, is the name of a resource without a unit. Nothing is converted. Where demands differ by
          server, they are in a third table ``demands.csv`` (``user``, ``server`` and the resources) with a line for
          each server that a user may run on, and ``users.csv`` has no resources. It may have a column ``rate``; with
          ``user``, ``server`` and ``rate`` alone it holds rates. With a column ``held`` there, tasks that run now are
          by server. Weights and guarantees of teams are in a table ``teams.csv`` (``team``, optionally ``weight``;
          every other column is a resource, in guaranteed units),
        * a folder with the same tables as Parquet files, see `Instance.from_frames`,
        * a file that ends in ``.json``, see `fairopt.datasets.schema`, or in ``.yaml`` or ``.yml``, with the same keys,
        * ``"-"`` for standard input: what a ``.json`` or a ``.yaml`` file may hold,
        * what readers of other distributions know (:doc:`/readers`): with fairopt-clusters files of Kubernetes, Slurm
          and other schedulers, and traces of clusters, see :doc:`/clusters/files`.
    labels : sequence of str, optional
        For tables: columns of users that are labels, outermost first, such as ``["org", "team"]``.
    full_demand : bool, default False
        As if everybody had more work than fits, see `Instance.full_demand`. Readers who know of queues or accounts
        without tasks may assume that these ask for the tasks of all others together.
    scale_quotas : bool, optional
        Scale guarantees in a file that promise more than there is (readers' default). Otherwise they need not fit
        together; `Instance.fit_guarantees` reduces them in an order. Tables and files of JSON keep theirs either way.
    time_limit : float, optional
        Seconds. Checked after each chunk, row or object; a single call of a library (pydantic, say) is not interrupted.
    **options
        Of the reader, such as ``users`` and ``capacity`` of Kubernetes; others are errors that say what takes them.

    Returns
    -------
    Instance
        Its ``notes`` list what was left out or assumed.

    Raises
    ------
    InvalidInstance
        If there is nothing to read, or files of several kinds, or an error in a file; the message names the file, the
        line and column or the key, the value and the fix.
    MissingExtra
        If the package that reads such files is not installed.
    OutOfTime
        If the time limit was reached; the message says how far reading got.
    OutOfMemory
        If it does not fit in memory.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import fairopt as fo
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cluster.json"
    >>> _ = file.write_text(json.dumps({"demands": [[40, 8, 8], [8, 5, 1]], "capacities": [200, 200, 200]}))
    >>> fo.read(file)
    Instance(2 users x 3 resources on 1 server)
    """
    options |= {"labels": labels, "full_demand": full_demand or None, "scale_quotas": scale_quotas}
    return read_and_compare(path, time_limit, **options)[0]


def read_and_compare(
    path: str | os.PathLike[str], time_limit: float | None = None, **options: Any
) -> tuple[Instance, bool]:
    """`read`, and whether `Instance.full_demand` of it is what reading at full demand gives."""
    with (
        within_memory(path, "split it for fo.allocate_sharded, or, if it should be smaller, write it again"),
        _in_time(time_limit, path),
    ):
        found = read_path(path, **options)
        instance = _instance_of(found)
        return instance.full_demand() if options.get("full_demand") else instance, found.same_at_full_demand


@contextmanager
def _in_time(time_limit: float | None, *inputs: Any) -> Iterator[None]:
    """Raise `OutOfTime` when reading reports progress after the time limit."""
    clock = Clock(time_limit, grace=False)
    files = [os.fspath(one) for one in inputs if isinstance(one, (str, os.PathLike))] or ["the input"]
    problem = f"{' and '.join(files)} {'were' if len(files) > 1 else 'was'} not read"
    with clock.enforced():
        try:
            yield
        except Late:
            if time_limit is None:  # of the enclosing call
                raise
            raise OutOfTime(f"{problem} within {clock}; give it more time_limit, or a smaller input") from None


def instance_of(
    read: Callable[..., Arguments], *inputs: Any, time_limit: float | None = None, **options: Any
) -> Instance:
    """The instance that a reader's arguments make, for functions that read one kind of input.

    Parameters
    ----------
    read : callable
        ``read(*inputs, **options)`` returns `fairopt.io.Arguments`.
    *inputs
        Its inputs. Errors of the instance name its ``places``.
    time_limit : float, optional
        As in `read`.
    **options
        Further arguments of ``read``.

    Returns
    -------
    Instance
        With identical servers merged, if the arguments say so.

    Raises
    ------
    InvalidInstance
        If the arguments are wrong.
    OutOfTime
        If the time limit was reached.

    Examples
    --------
    >>> import fairopt as fo
    >>> def read_sizes(sizes):
    ...     return fo.io.Arguments({"demands": [[size] for size in sizes], "capacities": [12]}, ("sizes",))
    >>> fo.datasets.instance_of(read_sizes, [1, 2, 3])
    Instance(3 users x 1 resource on 1 server)
    """
    with _in_time(time_limit, *inputs):
        return _instance_of(read(*inputs, **options))


def servers_alone(table: Path) -> Instance:
    """The servers in ``servers.csv`` or ``servers.parquet``, without users."""
    return _instance_of((parquet.read_tables if table.suffix == ".parquet" else read_csv_tables)(None, table))


def demo() -> Instance:
    """A small made-up cluster: ten users demand more than servers of four kinds have.

    Returns
    -------
    Instance
        With weights, task limits and placement constraints.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.datasets.demo()
    Instance(10 users x 4 resources on 23 servers in 4 rows, weights, task limits, placement constraints)
    """
    folder = package_files.files("fairopt.instances") / "demo"
    with package_files.as_file(folder / "users.csv") as users, package_files.as_file(folder / "servers.csv") as servers:
        return _instance_of(read_csv_tables(users, servers))


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
    from fairopt.io import json_file

    return json_file.schema()


def instance_of_frames(users: Any, servers: Any, demands: Any, teams: Any, labels: Sequence[str]) -> Instance:
    """See `Instance.from_frames`."""
    return _instance_of(read_frames(users, servers, demands, teams, labels))


def _instance_of(found: Arguments) -> Instance:
    with about(*found.places, hint=found.hint):
        made = Instance(**found.values)
    return merged_within_limits(made) if found.merge else made
