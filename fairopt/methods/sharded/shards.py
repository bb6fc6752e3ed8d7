"""Users in shards: where their rows are, and how one shard is read and checked.

A shard is a short description of some rows; any process can be sent it and can read the rows as often as needed.
"""

from __future__ import annotations

import copy
import mmap
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fairopt.errors import InvalidInput, InvalidInstance, MissingExtra, NoAnswer, nearest
from fairopt.instance import Instance
from fairopt.methods.arrays import Float
from fairopt.validation import as_floats, labels

ROWS = 1_000_000  # users in a shard that is cut from an array: 32 MB of four resources
# Columns of a table that are about users: the argument of `Instance`, and the meaning of an empty entry.
ABOUT_USERS: dict[str, tuple[str, float]] = {"weight": ("weights", 1.0), "task_limit": ("task_limits", np.inf)}


@dataclass(frozen=True)
class Shard(ABC):
    """Some of the users: a name for messages, and the number of the first row in its array or file."""

    name: str
    first: int
    is_view: bool = field(default=False, kw_only=True)  # reading copies nothing

    @abstractmethod
    def read(self) -> dict[str, Any]:
        """Demands of shape (n_users, n_resources), and weights and task limits where given: arguments of `Instance`."""

    def labels(self) -> Any:
        """The users' labels as an Arrow column, or None."""
        return None

    def instance(self, capacities: Float, resources: Sequence[str]) -> Instance:
        """The users as a pool with the capacities of all shards together, checked."""
        users = self.read()
        shape = np.shape(users["demands"])
        if len(shape) != 2 or shape[1] != len(resources):
            raise InvalidInstance(
                f"demands have shape {shape}, but there are {len(resources)} capacities ({', '.join(resources)}); "
                "give a column for each"
            )
        return Instance(**users, capacities=capacities, resources=resources)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the shard and the row, counted from 0 in its array or file, in errors about its users."""
        try:
            yield
        except (InvalidInput, NoAnswer) as error:
            told = re.sub(r"user 'user(\d+)'", lambda found: f"row {self.first + int(found[1]) - 1}", str(error))
            again = copy.copy(error)
            again.args = (f"shard {self.name!r}: {told}",)
            raise again from error


@dataclass(frozen=True)
class ArrayShard(Shard):
    """Rows of an array in memory."""

    demands: Float

    def read(self) -> dict[str, Any]:
        """The rows."""
        return {"demands": self.demands}


@dataclass(frozen=True)
class MappedShard(Shard):
    """Rows of an array in a file, mapped into memory where they are read."""

    last: int
    path: str
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    def read(self) -> dict[str, Any]:
        """The rows."""
        try:
            array = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)
        except (OSError, ValueError) as error:
            raise InvalidInstance(f"{self.path!r} cannot be read ({error}); check the file") from error
        return {"demands": array[self.first : self.last]}


@dataclass(frozen=True)
class ParquetShard(Shard):
    """A row group of a Parquet file, with a column per resource."""

    path: str
    group: int
    resources: tuple[str, ...]

    def read(self) -> dict[str, Any]:
        """The columns, in the order of the resources."""
        about = [name for name in ABOUT_USERS if name in self._names()]
        table = self._table([*self.resources, *about])
        demands = np.column_stack([_numbers(table, name, self.first) for name in self.resources])
        users: dict[str, Any] = {"demands": demands}
        for name in about:
            argument, blank = ABOUT_USERS[name]
            users[argument] = _numbers(table, name, self.first, blank)
        return users

    def labels(self) -> Any:
        """The column ``user``."""
        return self._table(["user"])["user"] if "user" in self._names() else None

    def _names(self) -> list[str]:
        return list(_parquet_file(Path(self.path)).schema_arrow.names)

    def _table(self, names: Sequence[str]) -> Any:
        known = self._names()
        for name in names:
            if name not in known:
                raise InvalidInstance(f"{self.path!r} has no column {name!r}; {nearest(name, known)}")
            if known.count(name) > 1:
                raise InvalidInstance(f"{self.path!r} has {known.count(name)} columns {name!r}; keep one")
        import pyarrow as pa

        try:
            return _parquet_file(Path(self.path)).read_row_group(self.group, columns=list(names), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise InvalidInstance(f"{self.path!r} cannot be read ({error}); check the file") from error


@dataclass(frozen=True)
class BlockShard(Shard):
    """A block of a Dask array, computed where it is read."""

    block: Any

    def read(self) -> dict[str, Any]:
        """The rows."""
        return {"demands": np.asarray(self.block.compute())}


def shards_of(source: Any, resources: Sequence[str] | None) -> list[Shard]:
    """Cut a source of `allocate_sharded` into shards, in the order of users; ``resources`` are the columns to read.

    Raises `InvalidInstance` if the source cannot be read or has no users.
    """
    if isinstance(source, (list, tuple)):
        shards = [
            shard
            for k, part in enumerate(source)
            for shard in (_cut(part, f"array {k}") if isinstance(part, np.ndarray) else shards_of(part, resources))
        ]
    elif isinstance(source, (str, Path)):
        shards = _files(Path(source), resources)
    elif type(source).__module__.split(".")[0] == "dask":
        shards = _blocks(source)
    else:
        shards = _cut(source)
    if not shards:
        told = f"{str(source)!r}" if isinstance(source, (str, Path)) else f"the source ({type(source).__name__})"
        raise InvalidInstance(f"{told} holds no users; give an array, a .npy file or a folder of .parquet files")
    return shards


def _cut(source: ArrayLike, name: str = "") -> list[Shard]:
    array = source if isinstance(source, np.ndarray) else np.asarray(source)
    if array.dtype.kind not in "fiu" or array.ndim != 2:
        raise InvalidInstance(
            f"{name or 'the source'} is {type(source).__name__} of shape {array.shape} and type {array.dtype}; give "
            "demands of shape (n_users, n_resources), a list of such arrays, a .npy file, a folder of .parquet files "
            "or a Dask array"
        )
    out: list[Shard] = []
    base: Any = array.base
    mapped = isinstance(array, np.memmap) and isinstance(base, mmap.mmap) and array.mode != "c" and len(array) > 0
    is_view = array.dtype in (np.float32, np.float64)  # other numbers are converted
    for first in range(0, max(len(array), 1), ROWS):
        last = min(first + ROWS, len(array))
        rows = f"rows {first} to {last - 1}"
        part = name if name and len(array) <= ROWS else f"{name}, {rows}" if name else rows
        if mapped and isinstance(array, np.memmap):
            order: Literal["C", "F"] = "C" if array.flags.c_contiguous else "F"
            path = str(array.filename)
            where = array.dtype, array.offset, array.shape, order
            out.append(MappedShard(part, first, last, path, *where, is_view=is_view))
        else:
            out.append(ArrayShard(part, first, array[first:last], is_view=is_view))
    return out


def _mapped(path: Path) -> Float:
    try:
        array: Float = np.load(path.resolve(), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidInstance(
            f"{str(path)!r} cannot be read as a .npy file ({error}); write it with numpy.save"
        ) from error
    return array  # `_cut` checks shape and type


def _files(path: Path, resources: Sequence[str] | None) -> list[Shard]:
    if not path.exists():
        raise InvalidInstance(f"there is no {str(path)!r}; give a .npy file, or a folder of .parquet files")
    files = [(path, path.name)]
    if path.is_dir():
        there = [(file, file.relative_to(path)) for file in sorted(path.rglob("*")) if file.is_file()]
        files = [
            (file, str(inside)) for file, inside in there
            if file.suffix in (".npy", ".parquet") and not any(part[0] in "._" for part in inside.parts)
        ]  # fmt: skip
        if len({file.suffix for file, _ in files}) > 1:
            raise InvalidInstance(f"{str(path)!r} holds .npy and .parquet files; keep one kind")
    out: list[Shard] = []
    for file, name in files:
        out += _cut(_mapped(file), name) if file.suffix == ".npy" else _row_groups(file, name, resources)
    return out


def _row_groups(path: Path, name: str, resources: Sequence[str] | None) -> list[Shard]:
    about = _parquet_file(path).metadata
    if resources is None:
        raise InvalidInstance(
            "capacities have no names, and a Parquet table is read by column; give a dict such as {'cpu': 64, 'gpu': 8}"
        )
    for resource in resources:
        if resource in ("user", *ABOUT_USERS):
            raise InvalidInstance(
                f"a resource is called {resource!r}, which in a Parquet table is a column about users; "
                "rename the column and the capacity"
            )
    out: list[Shard] = []
    first, groups = 0, about.num_row_groups
    for group in range(groups):
        part = name if groups == 1 else f"{name}, row group {group}"
        out.append(ParquetShard(part, first, str(path.resolve()), group, tuple(resources)))
        first += about.row_group(group).num_rows
    return out


def _parquet_file(path: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet") from error
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidInstance(f"{str(path)!r} cannot be read as Parquet ({error}); check the file") from error


def _numbers(table: Any, name: str, first: int, blank: float | None = None) -> Float:
    """A column as floats; an empty entry is ``blank``, or an error that names the row."""
    import pyarrow as pa

    column, types = table[name], pa.types
    kind = column.type
    if not any(right(kind) for right in (types.is_floating, types.is_integer, types.is_decimal, types.is_null)):
        raise InvalidInstance(f"column {name!r} holds no numbers ({kind}); give floats")
    if kind != pa.float32() or blank is not None:
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        if blank is None:
            row = first + int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise InvalidInstance(f"column {name!r} is empty in row {row}; give a number >= 0")
        column = column.fill_null(blank)
    return np.asarray(column.to_numpy())


def _blocks(source: Any) -> list[Shard]:
    if not hasattr(source, "to_delayed") or getattr(source, "ndim", None) != 2 or len(source.chunks[1]) != 1:
        raise InvalidInstance(
            f"{type(source).__name__} cannot be cut into users; give a Dask array of shape (n_users, n_resources) "
            "whose chunks hold whole rows: array.rechunk({1: -1})"
        )
    return [BlockShard(f"block {k}", 0, block) for k, block in enumerate(source.to_delayed()[:, 0])]


def named_capacities(capacities: Any) -> tuple[Float, tuple[str, ...] | None]:
    """Capacities as an array, and the names of the resources where they have any."""
    names = labels(capacities, len(capacities), "resource") if isinstance(capacities, Mapping) else None
    given = list(capacities.values()) if isinstance(capacities, Mapping) else capacities
    values = np.array(as_floats(given, "capacities"), dtype=float)
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
