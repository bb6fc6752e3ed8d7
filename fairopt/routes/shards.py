"""Rows in shards: where they are, and how one shard is read and checked.

A shard is a small description that can be sent to another process, and read there as often as it takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.errors import InvalidInstance, MissingExtra, nearest
from fairopt.instance import Instance

Float = NDArray[np.floating[Any]]

ROWS = 1_000_000  # users in a shard that is cut from an array: 32 MB of four resources
ABOUT_USERS = ("user", "weight", "task_limit")  # columns of a table that are no resources


class Rows(NamedTuple):
    """What a shard holds."""

    demands: Float
    weights: Float | None = None
    task_limits: Float | None = None
    labels: Sequence[str] | None = None


@dataclass(frozen=True)
class Shard:
    """Some of the users: a name for messages, and a way to read them."""

    name: str

    def read(self) -> Rows:
        """The users, from wherever they are."""
        raise NotImplementedError

    def instance(self, capacities: Float, resources: Sequence[str]) -> Instance:
        """The users as a pool with all the capacity there is, checked.

        Parameters
        ----------
        capacities : ndarray of shape (n_resources,)
            Of everybody together.
        resources : sequence of str
            Their names.

        Returns
        -------
        Instance

        Raises
        ------
        InvalidInstance
            Naming the shard and the row (counted from 0).
        """
        try:
            users = self.read()
            shape = np.shape(users.demands)
            if len(shape) != 2 or shape[1] != len(resources):
                raise InvalidInstance(
                    f"demands have shape {shape}, but there are {len(resources)} capacities ({', '.join(resources)}); "
                    "give a column for each"
                )
            return Instance(
                users.demands, capacities, weights=users.weights, task_limits=users.task_limits, resources=resources
            )
        except InvalidInstance as error:
            told = re.sub(r"user 'user(\d+)'", lambda found: f"row {int(found[1]) - 1}", str(error))
            raise InvalidInstance(f"shard {self.name!r}: {told}") from error
        except OSError as error:
            raise InvalidInstance(f"shard {self.name!r} cannot be read ({error}); check the file") from error


@dataclass(frozen=True)
class ArrayShard(Shard):
    """Rows of an array in memory, or of a memory map."""

    demands: Float

    def read(self) -> Rows:
        """The rows."""
        return Rows(self.demands)


@dataclass(frozen=True)
class FileShard(Shard):
    """Rows of a ``.npy`` file, mapped into memory by whoever reads them."""

    path: str
    first: int
    last: int

    def read(self) -> Rows:
        """The rows."""
        return Rows(_mapped(Path(self.path))[self.first : self.last])


@dataclass(frozen=True)
class ParquetShard(Shard):
    """A row group of a Parquet file, with a column per resource."""

    path: str
    group: int
    resources: tuple[str, ...]

    def read(self) -> Rows:
        """The columns, in the order of the resources."""
        file = _parquet_file(Path(self.path))
        known = file.schema_arrow.names
        for name in self.resources:
            if name not in known:
                raise InvalidInstance(f"it has no column {name!r}; {nearest(name, known)}")
        extra = [name for name in ABOUT_USERS if name in known]
        table = file.read_row_group(self.group, columns=[*self.resources, *extra], use_threads=False)
        numbers = [_numbers(table, name) for name in self.resources]
        demands = np.empty((table.num_rows, len(numbers)), dtype=np.result_type(*numbers))
        for i, column in enumerate(numbers):
            demands[:, i] = column
        weights = _numbers(table, "weight", blank=1.0) if "weight" in extra else None
        limits = _numbers(table, "task_limit", blank=np.inf) if "task_limit" in extra else None
        return Rows(demands, weights, limits, table["user"].to_pylist() if "user" in extra else None)


@dataclass(frozen=True)
class BlockShard(Shard):
    """A block of a Dask array, computed where it is read."""

    block: Any

    def read(self) -> Rows:
        """The rows."""
        return Rows(np.asarray(self.block.compute(scheduler="synchronous")))


def shards_of(source: Any, resources: Sequence[str] | None) -> list[Shard]:
    """Cut a source into shards, in the order of users.

    Parameters
    ----------
    source : ndarray, dask.array.Array, str, Path or sequence of these
        See `allocate_sharded`.
    resources : sequence of str or None
        Columns to read; None where the source has no names.

    Returns
    -------
    list of Shard

    Raises
    ------
    InvalidInstance
        If it is nothing that can be read, or holds nothing.
    """
    if isinstance(source, (str, Path)):
        shards = _files(Path(source), resources)
    elif type(source).__module__.split(".")[0] == "dask":
        shards = _blocks(source)
    elif isinstance(source, (list, tuple)):
        parts = [shards_of(part, resources) for part in source]
        shards = [shard for part in parts for shard in part]
        if shards and all(type(shard) is ArrayShard for shard in shards):  # say which one of the list it is
            shards = [ArrayShard(f"{k}", shard.demands) for k, shard in enumerate(shards)]  # type: ignore[attr-defined]
    else:
        shards = _cut(source)
    if not shards:
        raise InvalidInstance(f"{_short(source)} holds no users; give an array, a .npy file or a Parquet folder")
    return shards


def _short(source: Any) -> str:
    return f"{str(source)!r}" if isinstance(source, (str, Path)) else f"the source ({type(source).__name__})"


def _cut(source: ArrayLike) -> list[Shard]:
    array = source if isinstance(source, np.ndarray) else np.asarray(source)
    if array.dtype.kind not in "fiu" or array.ndim != 2:
        raise InvalidInstance(
            f"the source is {type(source).__name__} of shape {array.shape} and type {array.dtype}; give demands of "
            "shape (n_users, n_resources), a list of such arrays, a .npy file, a Parquet folder or a Dask array"
        )
    starts = range(0, len(array), ROWS)
    return [ArrayShard(f"rows {k} to {min(k + ROWS, len(array)) - 1}", array[k : k + ROWS]) for k in starts]


def _mapped(path: Path) -> Float:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInstance(
            f"{str(path)!r} cannot be read as a .npy file ({error}); write it with numpy.save"
        ) from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InvalidInstance(f"{str(path)!r} holds no demands of shape (n_users, n_resources); save such an array")
    return array


def _files(path: Path, resources: Sequence[str] | None) -> list[Shard]:
    if not path.exists():
        raise InvalidInstance(f"there is no {str(path)!r}; give a .npy file, or a folder of .parquet files")
    if path.suffix == ".npy":
        n = len(_mapped(path))
        return [
            FileShard(f"{path.name}, rows {k} to {min(k + ROWS, n) - 1}", str(path.resolve()), k, min(k + ROWS, n))
            for k in range(0, n, ROWS)
        ]
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        return [shard for part in sorted(path.glob("*.npy")) for shard in _files(part, resources)]
    if resources is None:
        raise InvalidInstance(
            "capacities have no names, and a Parquet table is read by column; give a dict such as {'cpu': 64, 'gpu': 8}"
        )
    out: list[Shard] = []
    for file in files:
        groups = _parquet_file(file).num_row_groups
        for group in range(groups):
            name = file.name if groups == 1 else f"{file.name}, row group {group}"
            out.append(ParquetShard(name, str(file.resolve()), group, tuple(resources)))
    return out


def _parquet_file(path: Path) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet") from error
    import pyarrow as pa

    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidInstance(f"{str(path)!r} cannot be read as Parquet ({error}); check the file") from error


def _numbers(table: Any, name: str, blank: float | None = None) -> Float:
    """A column as floats; empty entries as ``blank``, or an error that says where."""
    column = table[name]
    try:
        if column.null_count:
            if blank is None:
                row = int(np.flatnonzero(column.is_null().to_numpy())[0])
                raise InvalidInstance(f"column {name!r} is empty in row {row}; give a number >= 0")
            column = column.fill_null(blank)
        values = np.asarray(column.to_numpy())
        return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    except (TypeError, ValueError, NotImplementedError, ArithmeticError) as error:
        if isinstance(error, InvalidInstance):
            raise
        raise InvalidInstance(f"column {name!r} holds no numbers ({column.type}); give floats") from error


def _blocks(source: Any) -> list[Shard]:
    if not hasattr(source, "to_delayed") or getattr(source, "ndim", None) != 2 or len(source.chunks[1]) != 1:
        raise InvalidInstance(
            f"{type(source).__name__} cannot be cut into users; give a Dask array of shape (n_users, n_resources) "
            "whose chunks hold whole rows: array.rechunk({1: -1})"
        )
    return [BlockShard(f"block {k}", block) for k, block in enumerate(source.to_delayed()[:, 0])]


def named_capacities(capacities: Any) -> tuple[Float, tuple[str, ...] | None]:
    """Capacities as an array, and the names of the resources where they have any.

    Parameters
    ----------
    capacities : array-like of shape (n_resources,) or dict by resource
        Units.

    Returns
    -------
    (ndarray of shape (n_resources,), tuple of str or None)
    """
    names = tuple(str(name) for name in capacities) if isinstance(capacities, Mapping) else None
    try:
        values = np.array(list(capacities.values()) if names else capacities, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInstance(
            f"capacities {capacities!r} are no numbers ({error}); give one for each resource"
        ) from error
    if values.ndim != 1 or len(values) == 0:
        raise InvalidInstance(f"capacities have shape {values.shape}; give one number for each resource, in one pool")
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        name = names[i] if names else f"resource{i + 1}"
        raise InvalidInstance(
            f"the capacity of {name!r} is {values[i]}; give a finite number > 0, or leave the resource out"
        )
    return values, names
